"""Unit 6: references against a second route."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autograder.exercises import find_exercise
from autograder.exercises.u06_cross_attention import decoder_inputs
from autograder.exercises.u06_cross_attention import decoder_suspects as suspects
from autograder.exercises.u06_cross_attention.catches_wrong_decoder import TRIALS, made
from autograder.exercises.u06_cross_attention.greedy_decode import model
from autograder.exercises.u06_cross_attention.right_decoders import RIGHT
from autograder.judging.hidden_cases import Challenge
from references import cases, near


def by_head(X, Y, W_Q, W_K, W_V, W_O, h, source_mask=None):
    """Cross-attention one head after the other, by the formula."""
    B, n, m, d = X.shape[0], X.shape[1], Y.shape[1], W_Q.shape[1] // h
    seen = torch.ones(B, m, dtype=torch.bool) if source_mask is None else source_mask
    out, maps = torch.zeros(B, n, W_O.shape[1], dtype=X.dtype), []
    for head in range(h):
        own = slice(head * d, (head + 1) * d)
        Q, K, V = X @ W_Q[:, own], Y @ W_K[:, own], Y @ W_V[:, own]
        scores = torch.einsum("bid,bjd->bij", Q, K) / d**0.5
        top = torch.where(seen[:, None], scores, -torch.inf).amax(-1, keepdim=True)
        e = torch.exp(scores - torch.where(top.isinf(), 0.0, top)).where(seen[:, None], 0.0)
        total = e.sum(-1, keepdim=True)
        maps.append(torch.where(total > 0, e / total, 0.0))
        out = out + maps[-1] @ V @ W_O[own]
    return out, torch.stack(maps, 1)


def test_cross_attention_head_by_head():
    for case, args, (out, weights) in cases("cross_attention"):
        theirs, maps = by_head(*args)
        assert near(theirs, out, 1e-7) and near(maps, weights, 1e-7), case.label


def test_decoder_layer_in_two_steps():
    for case, args, expected in cases("decoder_layer"):
        assert near(layer_by_formula(*args), expected, 1e-7), case.label


def layer_by_formula(X, Y, params, h, mask=None):
    """Both attentions a token at a time: the causal mask is that what comes later is not shown."""
    own, cross = ([params[f"{part}_W_{role}"] for role in "QKVO"] for part in ("self", "cross"))
    X = X + torch.cat([by_head(X[:, i : i + 1], X[:, : i + 1], *own, h)[0] for i in range(X.shape[1])], 1)
    return X + by_head(X, Y, *cross, h, mask)[0]


def apart(make, seed, trials=TRIALS):
    """How far a suspect in disguise is from the formula, relative and over all trials; infinity for NaN and errors."""
    box, most = suspects.disguised(make, np.random.default_rng(seed)), 0.0
    for at, trial in enumerate(trials):
        inputs = made(**trial, seed=100 * seed + at)
        right = layer_by_formula(*inputs)
        X, Y, params, h, mask = inputs
        arrays = X.numpy(), Y.numpy(), {name: W.numpy() for name, W in params.items()}, h
        try:
            found = torch.from_numpy(box(*arrays, None if mask is None else mask.numpy()))
        except ValueError:
            return float("inf")
        off = float((found - right).abs().max() / right.abs().max())
        most = max(most, off if off == off else float("inf"))
    return most


@pytest.mark.parametrize(("form", "make"), RIGHT, ids=lambda part: part if isinstance(part, str) else "")
def test_right_decoders_of_every_form_are_right(form, make):
    for seed in range(6):
        assert apart(make, seed) < 1e-10, f"{form}, seed {seed}"


@pytest.mark.parametrize(
    ("kind", "make"),
    [(kind, make) for _, kind, ways in suspects.WRONG for make in ways],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_wrong_decoders_are_wrong_by_far_more_than_rounding(kind, make):
    for seed in range(3):
        assert apart(make, seed) > 1e-4, f"{kind}, seed {seed}"


def only(**fixed):
    return [{**trial, **fixed} for trial in TRIALS]


@pytest.mark.parametrize(
    ("kind", "trials"),
    [
        ("mixes up the masks of a batch", only(B=1)),
        ("mixes up the masks of a batch", only(mask="all")),
        ("mixes up the sequences of a batch", only(B=1)),
        ("forgets what was written longer ago", only(n=3)),
        ("looks ahead in the target", only(n=1)),
        ("reads only part of a long source", [t for t in TRIALS if t["m"] <= t["n"]]),
        ("the target is a single token", [t for t in TRIALS if t["n"] > 1]),
        ("the source is a single token", [t for t in TRIALS if t["m"] > 1]),
        ("takes every mask for padding at the end", only(mask="at the end")),
        ("mixes up its heads", only(h=1)),
        ("one width of heads", only(d_self=3, d_cross=3)),
        ("NaN where nothing is allowed", only(mask="scattered")),
        ("stops with an error where nothing is allowed", only(mask="scattered")),
        ("adds the wrong thing where nothing is allowed", only(mask="at the end")),
        ("applies the source mask halfway", only(mask="all")),
    ],
)
def test_a_kind_shows_in_its_own_circumstances_alone(kind, trials):
    ways = next(ways for _, label, ways in suspects.WRONG if kind in label)
    for make in ways:
        assert apart(make, 3, trials) < 1e-10, kind


def test_catches_wrong_decoder_is_asked_for_the_truth():
    for seed in range(5):
        posed = Challenge(seed).posed("catches_wrong_decoder")
        for case, expected in zip(posed.cases, posed.expected, strict=True):
            assert expected.value == (not case.label.startswith("a correct decoder")), case.label
        wrong = sum(bool(expected.value) for expected in posed.expected)
        assert wrong >= 20 and len(posed.cases) - wrong == 4


def test_no_box_takes_what_is_no_input_of_a_decoder_and_each_says_so_alike():
    X, Y, params, h, mask = made(2, 3, 4, 2, 3, 2, "scattered", seed=0)
    P = {name: W.numpy() for name, W in params.items()}
    X, Y, mask = X.numpy(), Y.numpy(), mask.numpy()
    decoder_inputs.refuse(X, Y, P, h, mask)
    decoder_inputs.refuse(X=X, Y=Y, params=P, n_heads=h)
    for said, arguments in (
        ("X must be a float64", (X.tolist(), Y, P, h)),
        ("X has dtype float32", (X.astype(np.float32), Y, P, h)),
        ("Y holds NaN", (X, Y + np.nan, P, h)),
        ("Y has shape", (X, Y[:1], P, h)),
        ("n_heads must be", (X, Y, P, True)),
        ("n_heads must be", (X, Y, P, 99)),
        ("columns", (X, Y, P, 4)),
        ("with the keys", (X, Y, {**P, "more": X}, h)),
        ("with the keys", (X, Y, list(P.values()), h)),
        ("self_W_O", (X, Y, {**P, "self_W_O": P["self_W_O"][:-1]}, h)),
        ("at most 8 sequences, 16 tokens", (np.repeat(X, 6, 1), Y, P, h)),
        ("none beyond", (1e3 * X, Y, P, h)),
        ("source_mask must be", (X, Y, P, h, mask.astype(float))),
        ("source_mask must be", (X, Y, P, h, mask[:, :-1])),
    ):
        with pytest.raises(ValueError, match=said):
            decoder_inputs.refuse(*arguments)
    with pytest.raises(TypeError, match=r"layer\(\) missing"):
        decoder_inputs.refuse(X, Y)


def test_alignment_row_by_row():
    for case, (weights,), expected in cases("alignment"):
        for b in range(weights.shape[0]):
            for i in range(weights.shape[2]):
                row = weights[b, :, i].sum(0).tolist()
                assert int(expected[b, i]) == row.index(max(row)), case.label


def test_greedy_decode_follows_the_plan():
    decode = find_exercise("greedy_decode").reference

    def run(plan, end, max_len, vocab=9):
        logits = model(3, vocab, plan)
        return decode(lambda tokens: torch.from_numpy(logits(tokens)), plan[0], end, max_len)

    assert run([1, 4, 5, 2, 6], 2, 9) == [1, 4, 5, 2]
    assert run([1, 4, 5, 2, 6], 2, 3) == [1, 4, 5]
    assert run([1, 2], 2, 1) == [1]
    assert run([2, 4, 2, 6], 2, 9) == [2, 4, 2]
