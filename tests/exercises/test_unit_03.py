"""Unit 3: references against a second route."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from autograder.judging.hidden_cases import Challenge

SEEDS = range(5)


def cases(name: str):
    """Every case of some seeds, with what the reference answers."""
    for seed in SEEDS:
        posed = Challenge(seed).posed(name)
        for case, expected in zip(posed.cases, posed.expected, strict=True):
            yield case, expected.value


# References, by another route ----------------------------------------------------------------------------------------


def test_causal_mask_is_torchs_lower_triangle():
    for case, expected in cases("causal_mask"):
        n = case.args[0]
        assert np.array_equal(expected, torch.ones(n, n).tril().bool().numpy())


def test_padding_mask_row_by_row():
    for case, expected in cases("padding_mask"):
        lengths, m = case.args
        rows = [[True] * int(length) + [False] * (m - int(length)) for length in lengths]
        assert expected.tolist() == rows


def test_masked_softmax_is_torchs_softmax_over_minus_infinity():
    for case, expected in cases("masked_softmax"):
        scores, mask = (torch.from_numpy(np.array(value)) for value in case.args)
        weights = torch.softmax(scores.double().masked_fill(~mask, -math.inf), dim=-1).nan_to_num(0.0)
        assert np.allclose(weights.numpy(), expected, rtol=1e-12, atol=1e-15), case.label
        alive = np.broadcast_to(case.args[1], expected.shape).any(axis=-1)
        assert np.allclose(expected.sum(axis=-1), alive)


def test_masked_attention_query_by_query():
    for case, (output, weights) in cases("masked_attention"):
        Q, K, V, mask = case.args
        allowed = np.broadcast_to(mask, weights.shape)
        for at in np.ndindex(weights.shape[:-1]):
            query, keys, values = Q[at].astype(float), K[at[:-1]].astype(float), V[at[:-1]].astype(float)
            scores = [math.fsum(query * key) / math.sqrt(len(query)) for key in keys]
            seen = [score for score, may in zip(scores, allowed[at], strict=True) if may]
            powers = [math.exp(s - max(seen)) if may else 0.0 for s, may in zip(scores, allowed[at], strict=True)]
            row = np.array(powers) / (math.fsum(powers) or 1.0)
            assert np.allclose(weights[at], row, rtol=1e-9, atol=1e-11), case.label
            assert np.allclose(output[at], row @ values, rtol=1e-9, atol=1e-10), case.label


def anew(part):
    """What is in a box, with all of its calls left."""
    return part.device.make()[part.name]


def test_attend_answers_one_call_a_position():
    for case, _ in cases("leaks_future"):
        box, Q, K, V = case.args
        attend = anew(box)
        for _ in Q:
            attend(Q, K, V)
        with pytest.raises(ValueError, match=f"answers {len(Q)} call"):
            attend(Q, K, V)


def test_leaks_future_entry_by_entry():
    """Change one number of one later key or value at a time; hold every earlier output against it."""
    for case, expected in cases("leaks_future"):
        box, Q, K, V = case.args
        before = anew(box)(Q, K, V)
        largest = 0.0
        for which, array in enumerate((K, V)):
            for at in np.ndindex(array.shape):
                arrays = [Q, np.array(K, dtype=float), np.array(V, dtype=float)]
                arrays[1 + which][at] += 1.7
                after = anew(box)(*arrays)
                size = np.maximum(np.abs(after), np.abs(before)).max(axis=1, keepdims=True)
                change = np.abs(after - before) / np.where(size == 0, 1.0, size)
                largest = max(largest, float(change[: at[0]].max(initial=0)))
        assert bool(largest > 1e-6) == expected, case.label


def test_leaks_future_mixes_true_and_false_in_its_core():
    for seed in SEEDS:
        posed = Challenge(seed).posed("leaks_future")
        core = [e.value for c, e in zip(posed.cases, posed.expected, strict=True) if c.criterion == "values"]
        assert core.count(True) >= 4
        assert core.count(False) >= 4


def test_attend_refuses_other_shapes_and_numbers_that_are_not_finite():
    for case, _ in cases("leaks_future"):
        box, Q, K, V = case.args
        with pytest.raises(ValueError, match="shape"):
            anew(box)(Q, K, np.concatenate([V, V]))
        for bad in (np.nan, np.inf):
            with pytest.raises(ValueError, match="finite"):
                anew(box)(Q, np.full_like(K, bad), V)
        assert np.isfinite(anew(box)(Q=Q, K=K, V=V)).all()


def test_next_token_pairs_one_by_one():
    for case, (inputs, targets) in cases("next_token_pairs"):
        (tokens,) = case.args
        batch, n = tokens.shape
        assert inputs.tolist() == [[int(tokens[b, i]) for i in range(n - 1)] for b in range(batch)]
        assert targets.tolist() == [[int(tokens[b, i + 1]) for i in range(n - 1)] for b in range(batch)]


def test_packed_causal_mask_token_by_token():
    """With a count for each document."""
    for case, (mask, positions) in cases("packed_causal_mask"):
        (ids,) = case.args
        for row, seen, numbers in zip(ids.tolist(), mask, positions, strict=True):
            met = Counter()
            for i, document in enumerate(row):
                may = [j <= i and other == document for j, other in enumerate(row)]
                assert seen[i].tolist() == may, case.label
                assert numbers[i] == met[document], case.label
                met[document] += 1
