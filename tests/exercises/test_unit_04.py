"""Unit 4: references against a second route."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from autograder.exercises.u04_multi_head import diagnose as hunt
from autograder.exercises.u04_multi_head.suspects import SUSPECTS, Disguise, check, layer, line_up
from autograder.judging.reference_calls import outcome
from references import cases, near


def test_split_heads_column_by_column():
    for _, (X, h), expected in cases("split_heads"):
        d = X.shape[-1] // h
        for head in range(h):
            for column in range(d):
                assert torch.equal(expected[:, head, :, column], X[:, :, head * d + column])


def test_merge_heads_column_by_column():
    for _, (X,), expected in cases("merge_heads"):
        _, h, _, d = X.shape
        for column in range(h * d):
            assert torch.equal(expected[:, :, column], X[:, column // d, :, column % d])


def rows(Q, K, V, mask=None):
    """Attention of one query after the other, by the formula."""
    scores = (Q[..., :, None, :] * K[..., None, :, :]).sum(-1) / Q.shape[-1] ** 0.5
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
        top = scores.amax(-1, keepdim=True)
        e = torch.exp(scores - torch.where(top == -torch.inf, 0.0, top))
    total = e.sum(-1, keepdim=True)
    return torch.where(total > 0, e / total, 0.0) @ V


def test_bmm_attention_by_the_formula():
    for case, args, expected in cases("bmm_attention"):
        assert near(rows(*args), expected, 1e-7), case.label


def test_multi_head_attention_head_by_head():
    for case, (X, W_Q, W_K, W_V, W_O, b_O, h, *mask), expected in cases("multi_head_attention"):
        B, n, _ = X.shape
        d = W_Q.shape[1] // h
        allowed = mask[0].broadcast_to(B, h, n, n) if mask else torch.ones(B, h, n, n, dtype=torch.bool)
        heads = []
        for head in range(h):
            Q, K, V = (X @ W[:, head * d : (head + 1) * d] for W in (W_Q, W_K, W_V))
            heads.append(rows(Q, K, V, allowed[:, head]))
        assert near(torch.cat(heads, -1) @ W_O + b_O, expected, 1e-7), case.label


def test_head_contributions_sum_to_the_layer():
    from autograder.exercises.u04_multi_head.multi_head_attention import multi_head_attention

    for case, (X, W_Q, W_K, W_V, W_O, h, *mask), expected in cases("head_contributions"):
        b_O = torch.arange(W_O.shape[1], dtype=torch.float64)
        whole = multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, h, *mask)
        assert near(expected.sum(1) + b_O, whole, 1e-8), case.label


def test_from_torch_weights_reproduce_the_projections():
    for _, (inputs, out), (W_Q, W_K, W_V, W_O) in cases("from_torch_weights"):
        d = inputs.shape[1]
        x = torch.linspace(-1, 1, d, dtype=torch.float64)
        assert near(torch.cat([x @ W_Q, x @ W_K, x @ W_V]), nn.functional.linear(x, inputs))
        assert near(x @ W_O, nn.functional.linear(x, out))


def is_mask(value):
    return isinstance(value, torch.Tensor) and value.dtype is torch.bool


def test_only_bmm_attention_asks_about_queries_that_may_attend_to_nothing():
    """A layer's masks leave every query a key, in each sequence and head, so that -inf before the softmax is right."""
    for name in ("multi_head_attention", "head_contributions", "bmm_attention"):
        masks = [value for _, args, _ in cases(name) for value in args if is_mask(value)]
        empty = sum(not mask.any(-1).all() for mask in masks)
        assert len(masks) >= 20
        assert (empty > 0) == (name == "bmm_attention"), f"{name}: {empty} masks with an empty row"


# ---------------------------------------------------------------------------------------------------------------------
# diagnose: what is in the boxes, and whether one call can tell


def drawn(seed, B=2, n=10, d_model=7, h=3, d_head=2):
    """The arguments of one call with the mask, for scores of order 1."""
    rng = np.random.default_rng(seed)
    width = h * d_head
    weights = [1.3 * rng.standard_normal((d_model, width)) / d_model**0.5 for _ in range(3)]
    return rng.standard_normal((B, n, d_model)), *weights, rng.standard_normal((width, d_model)), h, True


def number_by_number(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    """One suspect, in Python's own numbers: sequence by sequence, head by head, query by query."""
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    h = 1 if name == "one_head_for_all" else n_heads
    width, n, d_model = W_Q.shape[1], X.shape[1], X.shape[2]
    d, out = width // h, np.zeros((*X.shape[:2], W_O.shape[1]))
    places = [(t, range(r * d, (r + 1) * d)) for r in range(h) for t in range(n)]
    if name == "heads_not_by_columns":  # row k of n * h pieces of d numbers, as they lie in memory
        places = [(k // h, range(k % h * d, (k % h + 1) * d)) for k in range(h * n)]
    divisor = {"not_scaled": 1, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}.get(name, math.sqrt(d))
    reach = 1 if name == "causal_off_by_one" else 0
    back = 8 if name == "window_of_8" else n
    for b, r in itertools.product(range(len(X)), range(h)):
        rows = places[r * n : (r + 1) * n]
        Q, K, V = ([[float(X[b, t] @ W[:, c]) for c in columns] for t, columns in rows] for W in (W_Q, W_K, W_V))
        e = [[math.exp(math.fsum(x * y for x, y in zip(q, k, strict=True)) / divisor) for k in K] for q in Q]
        seen = [[not causal or i - back < j <= i + reach for j in range(n)] for i in range(n)]
        for i, (t, columns) in enumerate(rows):
            for j in range(n):
                if name == "softmax_over_queries":
                    total = math.fsum(e[k][j] for k in range(n) if seen[k][j])
                else:
                    total = math.fsum(e[i][k] for k in range(n) if seen[i][k] or name == "mask_after_softmax")
                for value, column in zip(V[j], columns, strict=True):
                    out[b, t] += seen[i][j] * e[i][j] / total * value * W_O[column]
    return out


DISGUISES = [
    Disguise(alone, scales, *rest)
    for alone, scales, *rest in itertools.product(
        (False, True), ("scores", "queries", "keys", "weights"), *[(False, True)] * 4
    )
]


@pytest.mark.parametrize("name", SUSPECTS)
def test_every_disguise_of_a_suspect_computes_what_its_name_says(name):
    for seed, causal in itertools.product(range(2), (False, True)):
        *arrays, h, _ = drawn(seed)
        said = number_by_number(name, *arrays, h, causal)
        for worn in DISGUISES:
            assert near(layer(*arrays, h, causal, name=name, worn=worn), said, 1e-12), worn


@pytest.mark.parametrize(
    "sizes", [{}, {"B": 1, "n": 3, "d_model": 5, "h": 2, "d_head": 3}, {"n": 2, "h": 2, "d_head": 4}]
)
def test_one_call_of_good_sizes_tells_all_but_the_rare_ones_apart(sizes):
    """Two suspects differ by more than a thousandth of the outputs, two disguises of one by rounding: see above."""
    for seed in range(30):
        call = drawn(seed, **sizes)
        outs = {name: layer(*call, name=name) for name in SUSPECTS if name not in RARE}
        assert near(layer(*call, name="masked_by_a_number"), outs["right"])
        for one, other in itertools.combinations(outs, 2):
            apart = np.abs(outs[one] - outs[other]).max() / np.abs(outs[one]).max()
            assert apart > 1e-3, f"{one} and {other}: {apart}"


RARE = ("not_stabilised", "masked_by_a_number", "window_of_8")


def test_every_disguise_of_a_suspect_agrees_with_torch_where_scores_are_very_low():
    call = hunt.experiment()
    arrays = [value.numpy() if isinstance(value, torch.Tensor) else value for value in call]
    for name, worn in itertools.product(SUSPECTS, DISGUISES):
        with np.errstate(all="ignore"):
            found = layer(*arrays, name=name, worn=worn)
        said = hunt.expected(name, *call).numpy()
        assert np.isnan(said).any() == (name == "not_stabilised")
        assert np.allclose(found, said, rtol=1e-7, atol=1e-8, equal_nan=True), (name, worn)


def test_diagnose_names_what_is_in_the_box():
    """Found again by asking the box once, and comparing with what is computed number by number."""
    call = drawn(5)
    said = {name: number_by_number(name, *call) for name in SUSPECTS}
    asked = set()
    for case, (_,), name in cases("diagnose"):
        box = outcome(lambda attend: attend(*map(torch_or_not, call)), case, library="torch").value
        ordinary = "right" if name in ("not_stabilised", "masked_by_a_number") else name  # scores of order 1
        fits = [other for other in SUSPECTS if near(box, said[other])]
        assert fits == ["right", "not_stabilised", "masked_by_a_number"] if ordinary == "right" else fits == [name]
        assert case.label == SUSPECTS[name]
        asked.add(name)
    assert asked == set(SUSPECTS)


def torch_or_not(value):
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(
    ("sizes", "changed", "same"),
    [
        ({"d_model": 4}, {}, "scaled_by_d scaled_by_d_model"),
        ({"d_model": 9, "d_head": 3}, {}, "scaled_by_d scaled_by_d_model"),
        ({"d_head": 1}, {}, "right not_scaled scaled_by_d not_stabilised masked_by_a_number"),
        ({"h": 1}, {}, "right heads_not_by_columns one_head_for_all not_stabilised masked_by_a_number"),
        ({}, {"causal": False}, "right causal_off_by_one mask_after_softmax " + " ".join(RARE)),
        ({"n": 8}, {}, "right " + " ".join(RARE)),
        ({"n": 1}, {}, " ".join(name for name in SUSPECTS if name != "keys_and_values_swapped")),
    ],
)  # fmt: skip
def test_what_coincides_in_a_poor_experiment(sizes, changed, same):
    """These suspects are one and the same there, and no others."""
    *arrays, h, causal = drawn(1, **sizes)
    outs = {name: layer(*arrays, h, changed.get("causal", causal), name=name) for name in SUSPECTS}
    first = same.split()[0]
    assert {name for name in outs if near(outs[name], outs[first])} == set(same.split())


def refused(**changed):
    names = ("X", "W_Q", "W_K", "W_V", "W_O", "n_heads", "causal")
    return {**dict(zip(names, drawn(0), strict=True)), **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"X": [[1.0]]}, "X must be a float64 array or tensor, not a list"),
        ({"X": np.ones((5, 7))}, r"X has shape \(5, 7\)"),
        ({"X": np.ones((2, 5, 6))}, r"W_Q has shape \(7, 6\), and \(6, any\) is due"),
        ({"X": np.full((2, 5, 7), np.nan)}, "X holds NaN"),
        ({"X": np.full((2, 5, 7), 1e9)}, "numbers up to 1,000,000"),
        ({"X": np.ones((2, 5, 7), np.float32)}, "float32"),
        ({"X": np.ones((40, 40, 7))}, "too much for a box"),
        ({"X": np.ones((80, 40, 7))}, "at most 20000"),
        ({"W_V": np.ones((7, 4))}, "W_V has shape"),
        ({"W_O": np.ones((5, 7))}, "W_O has shape"),
        ({"n_heads": 4}, "divides the 6 columns"),
        ({"n_heads": 0}, "divides the 6 columns"),
        ({"n_heads": 2.0}, "divides the 6 columns"),
        ({"n_heads": True}, "divides the 6 columns"),
        ({"causal": 1}, "True or False"),
        ({"causal": None}, "True or False"),
    ],
)
def test_what_no_box_takes_is_refused_with_a_sentence(changed, said):
    with pytest.raises(ValueError, match=said):
        check(**refused(**changed))


def test_a_box_says_nothing_by_dtype_or_layout_and_never_stumbles_over_what_is_let_through():
    for seed, name in itertools.product(range(8), SUSPECTS):
        attend = line_up(name, np.random.default_rng(seed))
        for size in (1.0, 1e5):
            X, *rest = drawn(seed)
            out = attend(size * X, *rest)
            assert out.dtype == np.float64
            assert out.flags.c_contiguous
            assert np.isfinite(out).all() or (name == "not_stabilised" and size > 1)
