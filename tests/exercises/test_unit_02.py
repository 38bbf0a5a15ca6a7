"""Unit 2: each reference against a second, independent route; right answers of unusual form are accepted."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.special
import torch

from answers import answers_of
from autograder.exercises import exercises
from autograder.grading.in_process import judge_function
from autograder.judging.challenge import Challenge
from lanes import nightly

UNIT = "02_scaled_scores"
SEEDS = range(6)


def log_softmax(z, axis=-1):
    shifted = z - np.max(z, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


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


def test_the_worked_example_of_eight_tokens():
    Q, K = np.full((8, 5), 0.2), np.full((8, 5), 0.2)
    Q[2] = K[6] = [0.025, 0.9, 0.025, 0.025, 0.025]
    scores = exercises(UNIT)["attention_scores"].reference(Q, K)
    expected = np.full((8, 8), 0.2)
    expected[2, 6] = 0.8125
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_the_jacobian_agrees_with_differences_of_the_softmax():
    softmax, jacobian = (exercises(UNIT)[name].reference for name in ("softmax", "softmax_jacobian"))
    z = np.random.default_rng(0).standard_normal(6)
    steps = 1e-5 * np.eye(6)
    measured = np.stack([(softmax(z + step) - softmax(z - step)) / 2e-5 for step in steps], axis=1)
    np.testing.assert_allclose(jacobian(softmax(z)), measured, atol=1e-9)


def test_attention_and_jacobian_agree_with_torch():
    attention, jacobian = (exercises(UNIT)[name].reference for name in ("attention", "softmax_jacobian"))
    rng = np.random.default_rng(0)
    for gain in (1, 100):
        Q, K, V = (gain * rng.standard_normal(shape) for shape in ((3, 5), (7, 5), (7, 4)))
        expected = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (Q, K, V)))
        np.testing.assert_allclose(attention(Q, K, V)[0], expected, rtol=1e-9)
    z = torch.from_numpy(rng.standard_normal(6))
    expected = torch.autograd.functional.jacobian(lambda z: torch.softmax(z, 0), z)
    np.testing.assert_allclose(jacobian(torch.softmax(z, 0).numpy()), expected, rtol=1e-12)


def test_the_backward_pass_agrees_with_differences_of_attention():
    attention, backward = (exercises(UNIT)[name].reference for name in ("attention", "attention_backward"))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape) for shape in ((3, 5), (7, 5), (7, 4))]
    d_output = rng.standard_normal((3, 4))

    def loss(which, X):
        return (attention(*inputs[:which], X, *inputs[which + 1 :])[0] * d_output).sum()

    for which, found in enumerate(backward(*inputs, d_output)):
        X, step = inputs[which], 1e-5
        for place in np.ndindex(X.shape):
            move = np.zeros_like(X)
            move[place] = step
            measured = (loss(which, X + move) - loss(which, X - move)) / (2 * step)
            assert abs(found[place] - measured) < 1e-8, f"{'QKV'[which]}[{place}]"


@pytest.mark.parametrize("seed", nightly(range(20)))
def test_no_gradient_that_is_judged_is_lost_in_rounding(seed):
    """Where the softmax is saturated dQ and dK vanish; the other cases must show what is wrong with them."""
    posed = Challenge(seed).posed("attention_backward")
    for case, outcome in zip(posed.cases, posed.expected, strict=True):
        if case.criterion == "all three":
            assert all(abs(dX).max() > 1e-3 for dX in outcome.value), case.label


@pytest.mark.parametrize("d", [1, 4, 64])
def test_measured_statistics_approach_the_derived_moments(d):
    derived, measured = (exercises(UNIT)[name].reference for name in ("dot_product_moments", "score_statistics"))
    count = 20_000
    mean, variance = measured(d, count, np.random.default_rng(d), False)
    expected_mean, expected_variance = derived(d)
    assert abs(mean - expected_mean) < 6 * math.sqrt(d / count)
    assert abs(variance / expected_variance - 1) < 6 * math.sqrt((2 + 6 / d) / count)


@pytest.mark.parametrize("seed", nightly(range(20)))
def test_some_cross_part_is_negative_and_some_mean_is(seed):
    """A lost sign would else be right by luck."""
    challenge = Challenge(seed)
    assert any(outcome.value[1] < -1 for outcome in challenge.posed("derivation_terms").expected)
    assert any(outcome.value[0] < -0.05 for outcome in challenge.posed("score_statistics").expected)


NAMED = {
    "softmax_jacobian__wrong_broadcast": "squares-in-every-row",
    "softmax_jacobian__wrong_transposed_vector": "squares-in-every-row",
    "softmax_jacobian__wrong_identity_matrix": "identity-alone",
    "dot_product_moments__wrong_simulated": "not-repeatable",
    "dot_product_moments__wrong_simulated_with_seed": "measured-on-draws",
    "derivation_terms__wrong_features_averaged": "features-averaged",
    "derivation_terms__wrong_matrix_averaged": "averaged-over-features-and-over-pairs",
    "score_statistics__wrong_seed_of_its_own": "generator-unused",
    "score_statistics__wrong_fresh_generator": "not-repeatable",
    "score_statistics__wrong_global_seed": "generator-unused",
    "attention_backward__wrong_root_forgotten": "div-left-out-sqrt-d-k-d-scores",
    "attention_backward__wrong_root_for_queries_alone": "scale-of-dK-forgotten",
    "attention_backward__wrong_no_correction": "row-sum-missing",
    "attention_backward__wrong_sum_down_the_columns": "jacobian-over-queries",
    "attention_backward__wrong_keys_and_queries_exchanged": "results-exchanged",
    "attention_backward__wrong_values_by_key_softmax": "axis-softmax-along-axis-2-1",
    "attention_backward__wrong_values_not_turned": "transposition-left-out-weights",
    "attention_backward__wrong_differences": "imprecise",
}


@pytest.mark.nightly
@pytest.mark.parametrize("answer", NAMED)
def test_answers_as_students_give_them_are_named_for_what_they_do(answer):
    name = answer.partition("__")[0]
    wrong = {function.__name__: function for function in answers_of(name, "wrong")}[answer]
    for seed in range(6):
        verdict = judge_function(wrong, name, seed)
        assert verdict.mistake == NAMED[answer], f"seed {seed}: {verdict.message}"


# ---------------------------------------------------------------------------------------------------------------------
# Right answers of unusual form


def softmax_row_by_row(z, axis=-1):
    def one(row):
        powers = [math.exp(x - max(row)) for x in row.tolist()]
        return [power / sum(powers) for power in powers]

    return np.apply_along_axis(one, axis, z)


def softmax_that_talks(z, axis=-1):
    print("shape", z.shape)
    warnings.warn("a word of warning", UserWarning, stacklevel=1)
    powers = np.exp(z - np.amax(z, axis, keepdims=True))
    return powers / np.sum(powers, axis, keepdims=True)


def softmax_normalised_twice(z, axis=-1):
    powers = np.exp(z - np.expand_dims(z.max(axis), axis))
    powers = powers / np.expand_dims(powers.sum(axis), axis)
    return powers / np.expand_dims(powers.sum(axis), axis)


def softmax_in_place_on_a_copy(z, axis=-1):
    z = np.array(z, order="K")
    z -= z.max(axis=axis, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=axis, keepdims=True)
    return z


def softmax_along_the_last_axis_first(z, axis=-1):
    rows = np.swapaxes(z, axis, -1)
    powers = np.exp(rows - rows.max(-1)[..., None])
    return np.swapaxes(powers / powers.sum(-1)[..., None], axis, -1)


def attention_with_scaled_queries(Q, K, V):
    weights = np.exp(log_softmax((Q / np.sqrt(Q.shape[1])) @ K.T))
    return weights @ V, weights


def attention_with_both_scaled(Q, K, V):
    root = Q.shape[-1] ** 0.25
    weights = softmax_normalised_twice((Q / root) @ (K / root).T)
    return np.matmul(weights, V), weights


def attention_query_by_query(Q, K, V):
    weights = np.array([softmax_row_by_row(K @ q / len(q) ** 0.5) for q in Q])
    return np.array([(row[:, None] * V).sum(axis=0) for row in weights]), weights


def attention_divided_at_the_end(Q, K, V):
    scores = scaled_by_loops(Q, K)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    total = powers.sum(axis=1, keepdims=True)
    return powers @ V / total, powers / total


def attention_transposed(Q, K, V):
    weights = softmax_in_place_on_a_copy(K @ Q.T / math.sqrt(K.shape[1]), axis=0)
    return (V.T @ weights).T, weights.T


def terms_by_subtraction(q, k):
    s = np.einsum("si,si->s", q, k)
    diagonal = np.mean(np.sum(q**2 * k**2, axis=1))
    return np.array(diagonal), np.array(np.mean(s * s) - diagonal)


def terms_by_a_table(q, k):
    t = (q * k).astype(np.float64)
    table = t[:, :, None] * t[:, None, :]
    cross = table * (1 - np.eye(t.shape[1]))
    return float(np.einsum("sii->s", table).mean()), float(cross.sum(axis=(1, 2)).mean())


def terms_pair_once_doubled(q, k):
    t = q * k
    once = sum((t[:, i] * t[:, i + 1 :].sum(axis=1)).mean() for i in range(t.shape[1]))
    return np.square(t).mean(axis=0).sum(), 2 * float(once)


def terms_sample_by_sample(q, k):
    squares = [sum((a * b) ** 2 for a, b in zip(*pair, strict=True)) for pair in zip(q, k, strict=True)]
    totals = [sum(a * b for a, b in zip(*pair, strict=True)) ** 2 for pair in zip(q, k, strict=True)]
    print(len(squares), "samples")
    return sum(squares) / len(q), (sum(totals) - sum(squares)) / len(q)


def statistics_in_one_draw(d, n_samples, rng, scaled):
    q, k = rng.standard_normal((2, n_samples, d))
    scores = np.einsum("sd,sd->s", q / np.sqrt(d) if scaled else q, k)
    return np.mean(scores), np.var(scores, ddof=0)


def statistics_from_a_diagonal(d, n_samples, rng, scaled):
    q, k = rng.normal(size=(n_samples, d)), rng.normal(size=(n_samples, d))
    scores = (q @ k.T).diagonal() / (1, d**0.5)[scaled]
    return scores.mean(), (scores**2).mean() - scores.mean() ** 2


def statistics_scaled_afterwards(d, n_samples, rng, scaled):
    q, k = rng.standard_normal(size=(n_samples, d)), rng.standard_normal(size=(n_samples, d))
    scores = np.sum(q * k, axis=-1)
    return (float(scores.mean()) / d**0.5, float(scores.var()) / d) if scaled else (scores.mean(), scores.var())


def statistics_that_warn(d, n_samples, rng, scaled):
    warnings.warn("drawing", UserWarning, stacklevel=1)
    q = rng.standard_normal(n_samples * d).reshape(n_samples, d)
    k = rng.standard_normal(n_samples * d).reshape(n_samples, d)
    scores = [a.dot(b) / math.sqrt(d if scaled else 1) for a, b in zip(q, k, strict=True)]
    return np.array(np.mean(scores)), np.array(np.var(scores))


def jacobian_in_place(p):
    table = -p[:, None] * p
    table[np.diag_indices(len(p))] += p
    return table


def backward_by_jacobians(Q, K, V, d_output):
    weights, root = attention_by_ratios(Q, K, V)[1], math.sqrt(Q.shape[1])
    slopes = [jacobian_entry_by_entry(p).T @ (V @ g) / root for p, g in zip(weights, d_output, strict=True)]
    dK = sum(np.outer(slope, q) for slope, q in zip(slopes, Q, strict=True))
    return np.array([K.T @ slope for slope in slopes]), dK, sum(map(np.outer, weights, d_output))


def backward_by_the_output(Q, K, V, d_output):
    output, weights = attention_with_both_scaled(Q, K, V)
    slopes = weights * (np.inner(d_output, V) - np.einsum("nd,nd->n", d_output, output)[:, None]) / Q.shape[1] ** 0.5
    return np.matmul(slopes, K), np.matmul(slopes.T, Q), np.matmul(d_output.T, weights).T


RIGHT = {
    "softmax": [
        softmax_row_by_row,
        softmax_that_talks,
        softmax_normalised_twice,
        softmax_in_place_on_a_copy,
        softmax_along_the_last_axis_first,
        lambda z, axis=-1: np.exp(log_softmax(z, axis)),
        lambda z, axis=-1: np.exp(log_softmax(z.astype(np.float64), axis)),
    ],
    "attention_scores": [
        lambda Q, K: (K @ Q.T).T,
        lambda Q, K: np.inner(Q, K),
        lambda Q, K: np.tensordot(Q, K, axes=(1, 1)),
        lambda Q, K: (Q[:, None, :] * K[None, :, :]).sum(axis=-1),
        lambda Q, K: np.einsum("id,jd->ij", Q.astype(np.float64), K),
        lambda Q, K: np.stack([Q @ key for key in K], axis=1),
    ],
    "scaled_scores": [
        lambda Q, K: Q @ K.T / np.sqrt(Q.shape[-1]),
        lambda Q, K: (Q / math.sqrt(K.shape[1])) @ K.T,
        lambda Q, K: (Q * K.shape[1] ** -0.25) @ (K * K.shape[1] ** -0.25).T,
        lambda Q, K: np.einsum("id,jd->ij", Q, K) * Q.shape[1] ** -0.5,
        lambda Q, K: np.inner(Q, K) / np.linalg.norm(np.ones(Q.shape[1])),
    ],
    "attention": [
        attention_with_scaled_queries,
        attention_with_both_scaled,
        attention_query_by_query,
        attention_divided_at_the_end,
        attention_transposed,
    ],
    "dot_product_moments": [
        lambda d, var_q=1.0, var_k=1.0: (0, d * var_q * var_k),
        lambda d, var_q=1, var_k=1: (0.0, np.float64(d) * var_q * var_k),
        lambda d, var_q=1.0, var_k=1.0: (np.array(0.0), np.array(d * var_q * var_k)),
        lambda d, var_q=1.0, var_k=1.0: (0.0, math.sqrt(d * var_q * var_k) ** 2),
        lambda d, var_q=1.0, var_k=1.0: (0.0, sum(var_q * var_k for _ in range(d))),
    ],
    "derivation_terms": [
        terms_by_subtraction,
        terms_by_a_table,
        terms_pair_once_doubled,
        terms_sample_by_sample,
        lambda q, k: terms_by_subtraction(q.astype(np.float64), k.astype(np.float64)),
    ],
    "score_statistics": [
        statistics_in_one_draw,
        statistics_from_a_diagonal,
        statistics_scaled_afterwards,
        statistics_that_warn,
        statistics_by_rows,
    ],
    "softmax_jacobian": [
        lambda p: np.diag(p) - np.outer(p, p),
        lambda p: p[:, None] * (np.eye(len(p)) - p),
        lambda p: (np.eye(len(p)) - p[:, None]) * p,
        lambda p: np.diagflat(p) - np.einsum("i,j->ij", p, p),
        lambda p: np.where(np.eye(len(p), dtype=bool), p * (1 - p), -np.outer(p, p)),
        jacobian_in_place,
    ],
    "attention_backward": [
        backward_by_jacobians,
        backward_by_the_output,
        lambda Q, K, V, d_output: backward_by_the_output(*(X.astype(np.float64) for X in (Q, K, V, d_output))),
    ],
}


@pytest.mark.parametrize(
    ("name", "answer"),
    [pytest.param(name, answer, id=f"{name}-{i}") for name, group in RIGHT.items() for i, answer in enumerate(group)],
)
@pytest.mark.parametrize("seed", nightly(SEEDS))
def test_a_right_answer_of_unusual_form_is_accepted(name, answer, seed):
    verdict = judge_function(answer, name, seed, named=False)
    assert verdict.verdict == "right", verdict.message


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
