"""Unit 2: each reference against a second, independent route."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.special
import torch

from autograder.grading.in_process import judge_function
from autograder.judging.hidden_cases import Challenge
from lanes import nightly

SEEDS = range(6)


# ---------------------------------------------------------------------------------------------------------------------
# The references by a second route


def softmax_by_ratios(z, axis=-1):
    """1 / sum over j of exp(z_j - z_i): no maximum, no exponential of an entry itself."""
    rows = np.moveaxis(z, axis, -1)
    with np.errstate(over="ignore"):
        return np.moveaxis(1 / np.exp(rows[..., None, :] - rows[..., :, None]).sum(axis=-1), -1, axis)


def scores_by_loops(Q, K):
    return np.array([[math.fsum(float(a) * float(b) for a, b in zip(q, k, strict=True)) for k in K] for q in Q])


def scaled_by_loops(Q, K):
    return scores_by_loops(Q, K) * Q.shape[1] ** -0.5


def attention_by_ratios(Q, K, V):
    weights = softmax_by_ratios(scaled_by_loops(Q, K))
    return np.einsum("ij,jd->id", weights, V), weights


def moments_by_enumeration(d, var_q=1.0, var_k=1.0):
    """Entries that are ± their standard deviation, all outcomes equally likely: the moments are finite sums."""
    # q_i k_i is ± the product of the deviations; with d such terms the number of plus signs is binomial.
    step, total = math.sqrt(var_q * var_k), 2**d
    outcomes = [(step * (2 * plus - d), Fraction(math.comb(d, plus), total)) for plus in range(d + 1)]
    mean = math.fsum(s * float(p) for s, p in outcomes)
    return mean, math.fsum((s - mean) ** 2 * float(p) for s, p in outcomes)


def terms_by_pairs(q, k):
    t, d = q * k, q.shape[1]
    diagonal = math.fsum(float(np.mean(t[:, i] ** 2)) for i in range(d))
    cross = math.fsum(float(np.mean(t[:, i] * t[:, j])) for i, j in itertools.permutations(range(d), 2))
    return diagonal, cross


def statistics_by_rows(d, n_samples, rng, scaled):
    q = [rng.standard_normal(d) for _ in range(n_samples)]
    k = [rng.standard_normal(d) for _ in range(n_samples)]
    scores = [float(a @ b) * (d**-0.5 if scaled else 1) for a, b in zip(q, k, strict=True)]
    mean = math.fsum(scores) / n_samples
    # half the mean squared difference of all pairs, which needs no mean
    return mean, math.fsum(float(((np.array(scores) - a) ** 2).sum()) for a in scores) / (2 * n_samples**2)


def jacobian_entry_by_entry(p):
    return np.array([[p[i] * ((i == j) - p[j]) for j in range(len(p))] for i in range(len(p))])


def gradients_by_autograd(Q, K, V, d_output):
    """What PyTorch's own attention and its automatic differentiation say."""
    inputs = [torch.from_numpy(X.copy()).requires_grad_() for X in (Q, K, V)]
    output = torch.nn.functional.scaled_dot_product_attention(*inputs)
    return tuple(dX.numpy() for dX in torch.autograd.grad(output, inputs, torch.from_numpy(d_output.copy())))


SECOND_ROUTE = {
    "softmax": softmax_by_ratios,
    "attention_scores": scores_by_loops,
    "scaled_scores": scaled_by_loops,
    "attention": attention_by_ratios,
    "dot_product_moments": moments_by_enumeration,
    "derivation_terms": terms_by_pairs,
    "score_statistics": statistics_by_rows,
    "softmax_jacobian": jacobian_entry_by_entry,
    "attention_backward": gradients_by_autograd,
}


@pytest.mark.parametrize("name", SECOND_ROUTE)
@pytest.mark.parametrize("seed", nightly(SEEDS))
def test_the_reference_agrees_with_a_second_route(name, seed):
    verdict = judge_function(SECOND_ROUTE[name], name, seed, watched=False)
    assert verdict.verdict == "right", verdict.message


@pytest.mark.parametrize("seed", nightly(range(20)))
def test_no_gradient_that_is_judged_is_lost_in_rounding(seed):
    """Where the softmax is saturated dQ and dK vanish; the other cases must show what is wrong with them."""
    posed = Challenge(seed).posed("attention_backward")
    for case, outcome in zip(posed.cases, posed.expected, strict=True):
        if case.criterion == "all three":
            assert all(abs(dX).max() > 1e-3 for dX in outcome.value), case.label


@pytest.mark.parametrize("seed", nightly(range(20)))
def test_some_cross_part_is_negative_and_some_mean_is(seed):
    """A lost sign would else be right by luck."""
    challenge = Challenge(seed)
    assert any(outcome.value[1] < -1 for outcome in challenge.posed("derivation_terms").expected)
    assert any(outcome.value[0] < -0.05 for outcome in challenge.posed("score_statistics").expected)


@pytest.mark.parametrize("seed", nightly(range(20)))
def test_rounding_does_not_decide_where_scores_are_large(seed):
    """Were every query's weight on one key, all slopes by queries and keys would be next to 0."""
    cases = Challenge(seed).posed("attention_backward").cases
    (case,) = [case for case in cases if case.label == "scores of several thousand"]
    Q, K = case.args[:2]
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    assert np.abs(scores).max() > 1000
    assert 0.6 < scipy.special.softmax(scores[0]).max() < 0.7


def test_fresh_layers_of_pytorch_have_the_weights_that_section_4_draws():
    """A scaled score has the variance (width · variance of a weight)²: 1/9 and 1/4, as the notebook measures."""
    for width in (768, 4096):
        torch.manual_seed(0)
        layers = {
            1 / 9: torch.nn.Linear(width, 64).weight,
            1 / 4: torch.nn.MultiheadAttention(width, 8).in_proj_weight,
        }
        for variance, weight in layers.items():
            assert (width * weight.var().item()) ** 2 == pytest.approx(variance, rel=0.05)
