"""What is told of two slips in one program, of a piece that is wrong as a whole, and of what else its steps show."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from answers.unit_04 import diagnose__right_nearest_of_all
from autograder.judging.local import judge_function

pytestmark = pytest.mark.nightly

SEEDS = range(3)


def told(answer, name, seed=1):
    return judge_function(answer, name, seed, watched=False)


def rms_norm__other_axis_and_larger(x, gamma, eps=1e-6):
    return gamma * x / torch.sqrt(x.pow(2).mean(-2, keepdim=True) + eps) * 2.5


def ablate_head__one_before_at_the_end(head_outputs, head):
    kept = head_outputs.clone()
    kept[:, head - 1, -1] = 0
    return kept


def attention_parameters__biases_of_one_layer(d_model, d_head, n_heads, n_layers):
    one_head = 4 * d_model * d_head + 3 * d_head + d_model
    return one_head * n_heads


def gelu__steeper(x):
    return 0.5 * x * (1 + torch.erf(x * 1.7))


def bmm_attention__sum_of_sizes(Q, K, V, mask=None):
    scores = Q @ K.mT / (Q.shape[-1] + K.shape[-2])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ V


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("answer", "name", "words"),
    [
        (
            rms_norm__other_axis_and_larger,
            "rms_norm",
            ("In line 2: `2.5` in", "In line 2: the axis of `mean`", "With both changed"),
        ),
        (
            ablate_head__one_before_at_the_end,
            "ablate_head",
            ("Two things would explain it", "In line 3: `head - 1` in the index"),
        ),
        (
            attention_parameters__biases_of_one_layer,
            "attention_parameters",
            ("Two things would explain it", "lacks a factor: `n_layers`", "biases were counted"),
        ),
    ],
    ids=["two changes", "in one expression", "a change and a known mistake"],
)
def test_two_slips_are_both_told(answer, name, words, seed):
    advice = told(answer, name, seed).advice
    assert all(each in advice for each in words), advice


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("answer", "name", "piece"),
    [
        (gelu__steeper, "gelu", "In line 2: `1.7` in"),
        (bmm_attention__sum_of_sizes, "bmm_attention", "In line 2: `Q.shape[-1] + K.shape[-2]` in"),
    ],
    ids=["a factor", "a divisor"],
)
def test_a_piece_that_is_wrong_as_a_whole_is_told(answer, name, piece, seed):
    advice = told(answer, name, seed).advice
    code = piece.split("`")[1]
    assert code in advice and "in line 2" in advice.lower(), advice
    assert "something else is due" in advice or "It goes wrong at" in advice, advice


def tiled_attention__all_at_once(Q, K, V, block_size):
    weights = (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1)
    starts = range(0, K.shape[2], block_size)
    return sum(weights[..., i : i + block_size] @ V[:, :, i : i + block_size] for i in starts)


def test_the_step_is_told_that_makes_what_may_not_be_made():
    advice = told(tiled_attention__all_at_once, "tiled_attention").advice
    assert advice.endswith("It is `Q @ K.mT` in line 2."), advice


def causal_mask__only_earlier(n):
    i = np.arange(n)
    return i[:, None] > i


def causal_mask__in_the_course_s_names(n):
    query, key = np.arange(n)[:, None], np.arange(n)
    return key < query


def test_what_is_told_in_names_of_ours_has_the_student_s_line_beside_it():
    verdict = told(causal_mask__only_earlier, "causal_mask")
    known = told(causal_mask__in_the_course_s_names, "causal_mask")
    assert verdict.mistake == known.mistake
    assert verdict.advice.startswith(known.advice.partition(" In line")[0]), verdict.advice
    assert "In line 3: the edge of the comparison `i[:, None] > i`" in verdict.advice, verdict.advice


def roofline_seconds__by_the_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    return flops / min(peak_flops, flops / bytes_moved * peak_bandwidth)


def test_an_exception_that_ends_all_that_fails_is_named():
    assert "It raises ZeroDivisionError: " in told(roofline_seconds__by_the_rate, "roofline_seconds").advice


def diagnose__two_names_exchanged(attend):
    name = diagnose__right_nearest_of_all(attend)
    return {"scaled_by_d": "scaled_by_d_model", "scaled_by_d_model": "scaled_by_d"}.get(name, name)


def test_a_wrong_name_is_told_beside_what_it_was_said_of():
    advice = told(diagnose__two_names_exchanged, "diagnose").advice
    assert "(it answers “scaled_by_d_model”)" in advice and "(it answers “scaled_by_d”)" in advice, advice


def bits_per_token__everywhere(logits, targets, mask):
    costs = -torch.log(logits.softmax(-1)) * mask[..., None]
    found = costs.gather(-1, targets.masked_fill(~mask, 0)[..., None])
    return found.sum() / mask.sum().clamp(min=1) / math.log(2)


def test_the_step_is_told_that_nan_comes_from():
    advice = told(bits_per_token__everywhere, "bits_per_token").advice
    assert "NaN comes from `-torch.log(logits.softmax(-1)) * mask[..., None]` in line 2" in advice, advice


def rotate__whole_positions(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.long()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, two = x[..., :half], x[..., half:]
    return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


def test_what_fails_is_told_where_ordinary_cases_are_right():
    advice = told(rotate__whole_positions, "rotate").advice
    assert advice.endswith("Ordinary cases are right. What fails is “positions that are no whole numbers”."), advice


def dot_product_moments__nearly(d, var_q=1.0, var_k=1.0):
    return 0.0, d * var_q * var_k * (1 + 0.05 * math.sin(3 * d + var_q))


def test_random_draws_are_asked_for_only_where_something_is_drawn():
    assert "random" not in told(dot_product_moments__nearly, "dot_product_moments").message
