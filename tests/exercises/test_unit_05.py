"""Unit 5: references against a second route."""

from __future__ import annotations

import matplotlib
import nbformat
import pytest
import torch
from matplotlib import pyplot

from attention_figures.recorded_measurements import gpu_record
from autograder.exercises import find_exercise
from autograder.exercises.u04_multi_head.multi_head_attention import multi_head_attention
from autograder.grading.in_process import judge_function
from own_course import ROOT
from references import cases, near

NOTEBOOK = ROOT / "solutions" / "05_mqa_gqa" / "05_mqa_gqa.ipynb"


def widened(W, h, g):
    """A grouped W_K or W_V with a copy of its head for every query head."""
    d = W.shape[1] // g
    return torch.cat([W[:, (head * g // h) * d : (head * g // h + 1) * d] for head in range(h)], 1)


def as_multi_head(X, W_Q, W_K, W_V, W_O, h, g, *mask):
    zero = torch.zeros(W_O.shape[1], dtype=X.dtype)
    return multi_head_attention(X, W_Q, widened(W_K, h, g), widened(W_V, h, g), W_O, zero, h, *mask)


def test_repeat_kv_head_by_head():
    for _, (K, n_rep), expected in cases("repeat_kv"):
        assert expected.shape[1] == K.shape[1] * n_rep
        for head in range(expected.shape[1]):
            assert torch.equal(expected[:, head], K[:, head // n_rep])


def test_grouped_query_attention_is_multi_head_with_copies():
    for case, args, expected in cases("grouped_query_attention"):
        assert near(as_multi_head(*args), expected, 1e-7), case.label


def test_multi_query_attention_is_grouped_with_one_head():
    for case, (*layer, h, mask), expected in (
        (c, [*a, None] if len(a) == 6 else a, e) for c, a, e in cases("multi_query_attention")
    ):
        assert near(as_multi_head(*layer, h, 1, mask), expected, 1e-7), case.label


def test_kv_cache_bytes_counts_the_bytes_of_a_cache():
    for L, g, d, n, B in ((2, 3, 4, 5, 6), (1, 2, 8, 7, 1)):
        cache = [(torch.zeros(B, g, n, d), torch.zeros(B, g, n, d)) for _ in range(L)]
        held = sum(tensor.numel() * tensor.element_size() for pair in cache for tensor in pair)
        assert find_exercise("kv_cache_bytes").reference(L, g, d, n, B, 4) == held


def test_decoding_step_by_step_is_the_causal_pass():
    step, whole = (find_exercise(name).reference for name in ("decode_step", "grouped_query_attention"))
    generator = torch.Generator().manual_seed(5)
    B, n, d_model, h, g, d = 2, 6, 7, 4, 2, 3
    X = torch.randn(B, n, d_model, generator=generator, dtype=torch.float64)
    shapes = [(d_model, h * d), (d_model, g * d), (d_model, g * d), (h * d, d_model)]
    weights = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    cache = (torch.zeros(B, g, 0, d, dtype=torch.float64),) * 2
    rows = []
    for t in range(n):
        row, cache = step(X[:, t : t + 1], cache, *weights, h, g)
        rows.append(row)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    assert near(torch.cat(rows, 1), whole(X, *weights, h, g, causal))
    assert near(cache[0], (X @ weights[1]).view(B, n, g, d).transpose(1, 2))


def test_extending_a_cache_is_so_many_steps_of_decoding():
    step = find_exercise("decode_step").reference
    for case, (X_new, cache, *layer), (out, *kept) in cases("extend_cache"):
        rows = []
        for r in range(X_new.shape[1]):
            row, cache = step(X_new[:, r : r + 1], cache, *layer)
            rows.append(row)
        assert near(torch.cat(rows, 1), out, 1e-7), case.label
        assert near(cache[0], kept[0]) and near(cache[1], kept[1]), case.label


def test_pool_kv_heads_column_by_column():
    for _, (W, h, g), expected in cases("pool_kv_heads"):
        d, rep = W.shape[1] // h, h // g
        for column in range(g * d):
            group, within = divmod(column, d)
            own = [W[:, (group * rep + k) * d + within] for k in range(rep)]
            assert near(sum(own) / rep, expected[:, column])


def grouped_without_a_check(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Leaves a g that does not divide h to whatever PyTorch makes of it."""
    rep, right = n_heads // n_kv_heads, find_exercise("grouped_query_attention").reference
    if n_heads % n_kv_heads:
        return torch.zeros(n_heads, 1) + torch.zeros(n_kv_heads * rep, 1)  # sizes that do not fit: a RuntimeError
    return right(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask)


def grouped_with_an_assertion(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    assert n_heads % n_kv_heads == 0
    return find_exercise("grouped_query_attention").reference(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask)


@pytest.mark.parametrize("answer", [grouped_without_a_check, grouped_with_an_assertion])
def test_an_error_other_than_the_one_asked_for_is_no_matter_of_shapes(answer):
    for seed in range(5):
        found = judge_function(answer, "grouped_query_attention", seed, watched=False)
        assert found.mistake == "no-error", found.message


def test_an_error_that_is_missing_does_not_hide_what_else_is_wrong():
    def cut(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
        return grouped_without_a_check(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask)[..., :-1]

    found = judge_function(cut, "grouped_query_attention", 1, watched=False)
    assert "The shape of the output is (B, n, d_model − 1) instead of (B, n, d_model)." in found.advice, found.message
    assert "`grouped_without_a_check(" in found.advice, found.message


@pytest.mark.parametrize(
    ("name", "answer", "slug"),
    [
        (
            "kv_cache_bytes",
            lambda L, g, d, n, batch=1, bytes_per_value=2: 2 * L * g * d * n * batch * bytes_per_value / 1e9,
            "gigabytes",
        ),
        ("pool_kv_heads", lambda W, h, g: W[:, : g * W.shape[1] // h], "first-heads"),
        ("pool_kv_heads", lambda W, h, g: W.unflatten(1, (g, h // g, -1)).median(2).values.flatten(1), "lower-median"),
    ],
)
def test_slips_seen_in_class_are_named(name, answer, slug):
    for seed in range(5):
        assert judge_function(answer, name, seed).mistake == slug


def test_the_first_slider_offers_the_steps_of_its_sentence():
    """Each choice can be drawn, and no cell in between lends the slider a name of its own."""
    matplotlib.use("Agg")
    sources = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
    shown, offered = [], {}
    space = {"plt": pyplot, "show": lambda fig, alt, caption: shown.append(alt)}
    exec(sources["fig-cache"], space)
    space |= {"words": "a name of another cell", "slide": lambda draw, **choices: offered.update(choices)}
    exec(sources["slide-step"].split("\n\n\n")[-1], space)
    assert [label for label, _ in offered["t"]] == ["0: the", "1: mole", "2: dug", "3: the", "4: hole"]
    for label, t in offered["t"]:
        space["draw_step"](t)
        assert f"Step {t}, “{label[3:]}” arrives." in shown[-1]
    pyplot.close("all")


def test_what_section_6_says_of_the_record_of_a_gpu_is_in_it():
    """32 query heads, bfloat16, by SDPA: microseconds of a step for each number of tokens and key/value heads."""
    rows = [row for row in gpu_record()["decoding"] if (row["variant"], row["dtype"]) == ("SDPA", "bfloat16")]
    took = {(row["n"], row["groups"]): round(1e6 * row["seconds"]["median"]) for row in rows}
    assert (took[131072, 32], took[131072, 1], took[4096, 32], took[4096, 1]) == (384, 56, 96, 110)
    prose = " ".join(word for cell in nbformat.read(NOTEBOOK, as_version=4).cells for word in cell.source.split())
    assert "takes 56 µs instead of 384" in prose and "takes 110 µs instead of 96" in prose and "6.8 times" in prose
