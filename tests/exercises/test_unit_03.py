"""Unit 3: references against a second route, and right answers of unusual form."""

from __future__ import annotations

import math
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from test_visible_tests import visible_test

from autograder.grading.in_process import judge_function
from autograder.judging.challenge import Challenge
from lanes import nightly

UNIT = "03_masking"
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


def test_packed_documents_attend_as_they_do_alone():
    rng = np.random.default_rng(8)
    for case, (mask, _) in cases("packed_causal_mask"):
        (ids,) = case.args
        Q, K, V = (torch.from_numpy(rng.standard_normal((*ids.shape, 3))) for _ in range(3))
        together = torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=torch.from_numpy(mask.copy()))
        for b, row in enumerate(ids):
            for document in set(row.tolist()):
                own = np.flatnonzero(row == document)
                alone = torch.nn.functional.scaled_dot_product_attention(
                    *(array[None, b, own] for array in (Q, K, V)), is_causal=True
                )
                assert torch.allclose(together[b, own], alone[0]), case.label


# Right answers of unusual form ---------------------------------------------------------------------------------------


def causal_loops(n):
    print("one row at a time")
    return np.array([[j <= i for j in range(n)] for i in range(n)])


def causal_cumulative(n):
    return np.cumsum(np.eye(n, dtype=int)[:, ::-1], axis=1)[:, ::-1] > 0


def causal_in_place(n):
    mask = np.zeros((n, n), dtype="?", order="F")
    for i in range(n):
        mask[i, : i + 1] = True
    return mask


def padding_comprehension(lengths, m):
    warnings.warn("this costs nothing", UserWarning, stacklevel=1)
    return np.array([[j < length for j in range(m)] for length in lengths], dtype=bool).reshape(len(lengths), m)


def padding_table(lengths, m):
    return np.tri(m + 1, m, k=-1, dtype=bool)[lengths]


def padding_slices(lengths, m):
    mask = np.full((len(lengths), m), False)
    for row, length in zip(mask, lengths, strict=True):
        row[:length] = True
    return mask


def softmax_over_chosen(scores, mask):
    weights = np.zeros(scores.shape)
    allowed = np.broadcast_to(mask, scores.shape)
    for at in np.ndindex(scores.shape[:-1]):
        chosen = allowed[at]
        if chosen.any():
            powers = np.exp(scores[at][chosen].astype(float) - scores[at][chosen].max())
            weights[at][chosen] = powers / powers.sum()
    return weights


def softmax_log_space(scores, mask):
    kept = np.where(mask, scores.astype(np.float64), -np.inf)
    total = np.logaddexp.reduce(kept, axis=-1, keepdims=True)
    return np.exp(kept - np.where(np.isneginf(total), 0.0, total))


def softmax_low_fill(scores, mask):
    kept = np.where(mask, scores, np.finfo(scores.dtype).min)
    powers = np.exp(kept - kept.max(axis=-1, keepdims=True)) * mask
    return np.divide(
        powers, powers.sum(-1, keepdims=True), out=np.zeros_like(powers), where=powers.sum(-1, keepdims=True) > 0
    )


def softmax_fill_then_zero(scores, mask):
    mask = np.broadcast_to(mask, scores.shape)
    kept = np.where(mask, scores, -1e9)
    powers = np.exp(kept - kept.max(axis=-1, keepdims=True))
    return np.where(mask.any(-1, keepdims=True), powers / powers.sum(-1, keepdims=True), 0)


def softmax_masked_array(scores, mask):
    hidden = np.ma.array(scores, mask=~np.broadcast_to(mask, scores.shape))
    powers = np.ma.exp(hidden - hidden.max(axis=-1, keepdims=True))
    return np.asarray((powers / powers.sum(axis=-1, keepdims=True)).filled(0.0))


def softmax_suppressed(scores, mask):
    with np.errstate(all="ignore"):
        kept = np.where(mask, scores, -np.inf)
        powers = np.exp(kept - kept.max(-1, keepdims=True))
        return np.nan_to_num(powers / powers.sum(-1, keepdims=True))


def attention_einsum(Q, K, V, mask):
    weights = softmax_over_chosen(np.einsum("...id,...jd->...ij", Q, K) / math.sqrt(Q.shape[-1]), mask)
    return np.einsum("...ij,...jv->...iv", weights, V), weights


def attention_scaled_queries(Q, K, V, mask):
    weights = softmax_log_space((Q * Q.shape[-1] ** -0.5) @ np.moveaxis(K, -1, -2), mask)
    return np.matmul(weights, V), weights


def attention_loops(Q, K, V, mask):
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    mask = np.broadcast_to(mask, (*lead, n, m))
    output, weights = np.zeros((*lead, n, V.shape[-1])), np.zeros((*lead, n, m))
    for at in np.ndindex(lead):
        for i in range(n):
            weights[(*at, i)] = softmax_over_chosen(K[at] @ Q[(*at, i)] / np.sqrt(Q.shape[-1]), mask[(*at, i)])
            for j in range(m):
                output[(*at, i)] += weights[(*at, i, j)] * V[(*at, j)]
    return output, weights


def attention_flattened(Q, K, V, mask):
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    q, k, v = (array.reshape(-1, *array.shape[-2:]) for array in (Q, K, V))
    allowed = np.broadcast_to(mask, (*lead, n, m)).reshape(-1, n, m)
    weights = softmax_suppressed(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), allowed)
    return (weights @ v).reshape(*lead, n, -1), weights.reshape(*lead, n, m)


def attention_in_float64(Q, K, V, mask):
    Q, K, V = (array.astype(np.float64) for array in (Q, K, V))
    weights = softmax_fill_then_zero(Q @ np.swapaxes(K, -2, -1) / np.sqrt(Q.shape[-1]), mask)
    return weights @ V, weights


def _future(attend, Q, K, V, change, split, later):
    """Whether a row before `split` moves when the rows `later` of keys and values are changed."""
    before = attend.before
    keys, values = np.array(K, float), np.array(V, float)
    keys[later], values[later] = change(keys[later]), change(values[later])
    after = attend(Q, keys, values)
    size = np.linalg.norm(before[:split], axis=1)
    return bool((np.linalg.norm(after[:split] - before[:split], axis=1) > 1e-7 * size).any())


class Remembering:
    """`attend`, and what it answered to the arrays as they came."""

    def __init__(self, attend, *arrays):
        self.attend, self.before = attend, np.asarray(attend(*arrays))

    def __call__(self, *arrays):
        return np.asarray(self.attend(*arrays))


def leaks_mirrored(attend, Q, K, V):
    attend = Remembering(attend, Q, K, V)
    return any(_future(attend, Q, K, V, lambda x: -x - 3, i, slice(i, None)) for i in range(1, len(Q)))


def leaks_one_at_a_time(attend, Q, K, V):
    attend = Remembering(attend, Q, K, V)
    return any(_future(attend, Q, K, V, lambda x: x + 1, j, slice(j, j + 1)) for j in range(1, len(Q)))


def leaks_huge(attend, Q, K, V):
    rng, attend = np.random.default_rng(5), Remembering(attend, Q, K, V)

    def change(x):
        return 1e6 * rng.standard_normal(x.shape)

    return np.any([_future(attend, Q, K, V, change, i, slice(i, None)) for i in range(1, len(K))])


def leaks_by_the_worst_row(attend, Q, K, V):
    before = attend(Q, K, V)
    size, worst = np.abs(before).max(axis=1) + 1e-300, 0.0
    for i in range(1, len(Q)):
        noise, keys, values = np.random.default_rng(i), K.copy(), V.copy()
        keys[i:] = noise.uniform(-2, 2, keys[i:].shape)
        values[i:] = noise.uniform(-2, 2, values[i:].shape)
        other = np.abs(attend(Q, keys, values) - before).max(axis=1)
        worst = max(worst, (other / size)[:i].max())
    return np.array(worst > 1e-6)


def pairs_views(tokens):
    return tokens[..., :-1], tokens[..., 1:]


def pairs_loops(tokens):
    inputs, targets = [], []
    for row in tokens.tolist():
        inputs.append(row[:-1])
        targets.append(row[1:])
    return np.array(inputs), np.array(targets)


def pairs_take(tokens):
    n = tokens.shape[1]
    return np.take(tokens, range(n - 1), axis=1), np.delete(tokens, 0, axis=1)


def pairs_roll(tokens):
    print(tokens)
    return tokens[:, :-1].copy(), np.roll(tokens, -1, axis=1)[:, :-1]


def pairs_transposed(tokens):
    return tokens.T[:-1].T, tokens.T[1:].T


RIGHT = {
    "causal_mask": [
        causal_loops,
        causal_cumulative,
        causal_in_place,
        lambda n: np.tril(np.ones((n, n))).astype(bool),
        lambda n: ~np.triu(np.ones((n, n), dtype=bool), k=1),
        lambda n: np.subtract.outer(range(n), range(n)) >= 0,
    ],
    "padding_mask": [
        padding_comprehension,
        padding_table,
        padding_slices,
        lambda lengths, m: np.greater.outer(lengths, np.arange(m)),
        lambda lengths, m: ~(np.arange(m)[None, :] >= np.asarray(lengths).reshape(-1, 1)),
        lambda lengths, m: (np.arange(m)[:, None] < lengths).T,
    ],
    "masked_softmax": [
        softmax_over_chosen,
        softmax_log_space,
        softmax_low_fill,
        softmax_fill_then_zero,
        softmax_masked_array,
        softmax_suppressed,
    ],
    "masked_attention": [
        attention_einsum,
        attention_scaled_queries,
        attention_loops,
        attention_flattened,
        attention_in_float64,
    ],
    "leaks_future": [leaks_mirrored, leaks_one_at_a_time, leaks_huge, leaks_by_the_worst_row],
    "next_token_pairs": [pairs_views, pairs_loops, pairs_take, pairs_roll, pairs_transposed],
}
ANSWERS = [pytest.param(name, answer, id=f"{name}-{i}") for name in RIGHT for i, answer in enumerate(RIGHT[name])]


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
@pytest.mark.parametrize("seed", nightly(range(10)))
def test_a_right_answer_of_unusual_form_is_accepted(name, answer, seed):
    verdict = judge_function(answer, name, seed, named=False)
    assert verdict.verdict == "right", verdict.message


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
def test_a_right_answer_of_unusual_form_passes_the_visible_test(name, answer):
    visible_test(UNIT, name)(answer)
