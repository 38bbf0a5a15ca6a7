"""What is told of a program that was run through: what sets wrong cases apart, what overflows, which terms are odd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from autograder.exercises import exercises, other_ways, unit_names
from autograder.judging.local import judge_function

pytestmark = pytest.mark.nightly

SEEDS = range(2)


def told(answer, name, seed=1):
    return judge_function(answer, name, seed, watched=False)


# ------------------------------------------------------------------------------------------------------ other ways

WAYS = [(way, name) for unit in unit_names() for name in exercises(unit) for way in other_ways(name, unit)]


@pytest.mark.parametrize(("way", "name"), WAYS, ids=[way.__name__ for way, _ in WAYS])
def test_every_other_way_is_right(way, name):
    verdict = judge_function(way, name, 1, watched=False, reread=False)
    assert verdict.verdict == "right", verdict.message


def soft_lookup__in_one_pass(query, keys, values):
    top, total, mixture = -math.inf, 0.0, np.zeros(values.shape[1])
    for key, value in zip(keys, values, strict=True):
        score = float(key @ query)
        higher = max(top, score)
        total = total * math.exp(top - higher) + math.exp(score - higher)
        mixture = mixture * math.exp(top - higher) + math.exp(score - higher) * np.tanh(value)
        top = higher
    return mixture / total


def test_a_step_of_another_way_is_not_blamed():
    """A running maximum is no step of a softmax of all scores at once: its steps are known from another way."""
    advice = told(soft_lookup__in_one_pass, "soft_lookup").advice
    assert "np.tanh(value)" in advice and "higher`" not in advice.partition("np.tanh")[0], advice


# ----------------------------------------------------------------------------------------- what sets wrong cases apart


def roofline_seconds__no_work(flops, bytes_moved, peak_flops, peak_bandwidth):
    if flops == 0:
        return 0.0
    if bytes_moved == 0:
        return flops / peak_flops
    return flops / min(peak_flops, flops / bytes_moved * peak_bandwidth)


def soft_lookup__held_in_bounds(query, keys, values):
    scores = np.clip(keys @ query, -300, 300)
    powers = np.exp(scores)
    return powers @ values / powers.sum()


def alignment__every_axis_of_one(weights):
    return weights.mean(dim=1).squeeze().argmax(-1).squeeze()


def sample__nearly_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature < 0.05:
            token = int(logits.argmax())
        else:
            p = torch.softmax((logits - logits.max()).double() / temperature, dim=-1)
            ranked, order = p.sort(descending=True)
            kept = ranked.cumsum(0) - ranked < top_p
            kept[0] = True
            if top_p == 1:
                kept[:] = True
            p = torch.zeros_like(p).scatter(0, order[kept], ranked[kept]).to(logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


APART = (
    (roofline_seconds__no_work, "roofline_seconds", "`return 0.0` in line 3, where `flops == 0` holds, is run"),
    (soft_lookup__held_in_bounds, "soft_lookup", "`np.clip(keys @ query, -300, 300)` in line 2 changes numbers"),
    (alignment__every_axis_of_one, "alignment", "`weights.mean(dim=1).squeeze()` in line 2 has"),
    (
        sample__nearly_zero,
        "sample",
        "`token = int(logits.argmax())` in line 6, where `temperature < 0.05` holds, is run",
    ),
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("answer", "name", "words"), APART, ids=[each[1] for each in APART])
def test_what_is_done_in_wrong_cases_alone_is_told(answer, name, words, seed):
    advice = told(answer, name, seed).advice
    assert words in advice, advice


def greedy_decode__drawn(next_logits, start, end, max_len):
    tokens, dice = [start], torch.Generator().manual_seed(3)
    while len(tokens) < max_len:
        p = torch.softmax(next_logits(tokens), dim=-1)
        tokens.append(int(torch.multinomial(p, 1, generator=dice)))
        if tokens[-1] == end:
            break
    return tokens


def test_what_draws_where_nothing_is_left_to_chance_is_told():
    advice = told(greedy_decode__drawn, "greedy_decode").advice
    assert "`torch.multinomial(p, 1, generator=dice)` in line 5 draws random numbers" in advice, advice


# ------------------------------------------------------------------------------------------- what no float can hold


def attention__bare(Q, K, V):
    powers = np.exp(Q @ K.T / math.sqrt(Q.shape[-1]))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def loop_attention__far_too_much_taken_off(Q, K, V):
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = K[b, head] @ Q[b, head, i] / math.sqrt(d)
                powers = torch.exp(scores - scores.abs().sum())
                out[b, head, i] = powers @ V[b, head] / powers.sum()
    return out


FLOATS = (
    (attention__bare, "attention", "`np.exp(Q @ K.T / math.sqrt(Q.shape[-1]))` in line 2 becomes infinite"),
    (loop_attention__far_too_much_taken_off, "loop_attention", "what is taken off, `scores.abs().sum()`, is far above"),
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("answer", "name", "words"), FLOATS, ids=[each[1] for each in FLOATS])
def test_what_overflows_or_is_lost_is_told(answer, name, words, seed):
    advice = told(answer, name, seed).advice
    assert words in advice, advice


# ------------------------------------------------------------------------------------------------- terms of a count


def attention_parameters__as_wide_as_the_model(d_model, d_head, n_heads, n_layers):
    up_and_down = d_model * d_model + d_head * n_heads * d_model
    return n_layers * (2 * d_model * d_head * n_heads + up_and_down)


def test_a_term_that_is_not_due_is_told():
    advice = told(attention_parameters__as_wide_as_the_model, "attention_parameters").advice
    assert "Multiplied out, your count has `d_model²·n_layers`, which is not due" in advice, advice


# ------------------------------------------------------------------------------------------------ changes of one kind


def in_context_learning_score__counted_from_one(losses, early, late):
    mean = losses.mean(dim=0)
    return mean[late - 1] - mean[early - 1]


def softmax__largest_of_all(z, axis=-1):
    powers = np.exp(z - z.max())
    return powers / powers.sum(axis=axis, keepdims=True)


def copying_score__diagonal_as_zero(ov):
    others = ov * (1 - torch.eye(len(ov), dtype=ov.dtype))
    return (ov.diagonal() > others.max(dim=1).values).to(ov.dtype).mean()


def next_token_pairs__fill_marked(tokens):
    return tokens[:, :-1].copy(), np.where(tokens[:, 1:] == 0, -100, tokens[:, 1:])


CHANGES = (
    (
        in_context_learning_score__counted_from_one,
        "in_context_learning_score",
        "`1` in `late - 1` has no place there; and",
    ),
    (softmax__largest_of_all, "softmax", "the axis of `max` in `z.max()`"),
    (copying_score__diagonal_as_zero, "copying_score", "what is to be left out becomes 0, and takes part as 0"),
    (next_token_pairs__fill_marked, "next_token_pairs", "the choice in `np.where("),
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("answer", "name", "words"), CHANGES, ids=[each[1] for each in CHANGES])
def test_a_change_that_makes_it_right_is_told(answer, name, words, seed):
    advice = told(answer, name, seed).advice
    assert words in advice, advice
