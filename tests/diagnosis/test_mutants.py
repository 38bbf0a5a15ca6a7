"""Small changes of a plain program explain wrong answers that nobody listed."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.diagnosis.mutants.model_mutants import mutants
from autograder.exercises import exercises, find_exercise, unit_names
from autograder.grading.in_process import judge_function
from autograder.judging.hidden_cases import pose

pytestmark = pytest.mark.nightly

WITH_PLAIN = [each for unit in unit_names() for each in exercises(unit).values() if each.plain is not None]


def called(name, function):
    function.__name__ = name
    return function


@pytest.mark.parametrize("exercise", WITH_PLAIN, ids=lambda exercise: exercise.name)
def test_a_plain_program_is_a_right_answer(exercise):
    for seed in range(3):
        verdict = judge_function(called(exercise.name, lambda *a, **k: exercise.plain(*a, **k)), exercise.name, seed)
        assert verdict.verdict == "right", verdict.message


@pytest.mark.parametrize("exercise", WITH_PLAIN, ids=lambda exercise: exercise.name)
def test_each_variant_has_a_name_and_words(exercise):
    found = mutants(exercise.plain, ("n", "d_k"))
    assert len(found) > 3
    assert all(variant.slug and variant.words() and "\n" not in variant.words() for variant in found)


def softmax(scores, axis=-1):
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def attention(scored, weigh=softmax, mixed=lambda weights, K, V: weights @ V):
    def answer(Q, K, V):
        weights = weigh(scored(Q, K, V))
        return mixed(weights, K, V), weights

    return answer


def scaled(Q, K, V):
    return Q @ K.T / np.sqrt(Q.shape[1])


def measured(d, n_samples, rng, scaled):
    scores = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    scores = scores if scaled else scores / np.sqrt(d)
    return scores.mean(), scores.var()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (attention(lambda Q, K, V: Q @ K.T / np.sqrt(len(Q) * len(K))), "uses n·m instead of d_k"),
        (attention(lambda Q, K, V: Q @ K.T / 3), "always uses 9 instead of d_k"),
        (attention(lambda Q, K, V: Q @ V.T / np.sqrt(Q.shape[1])), "uses `V` instead of `K`"),
        (attention(lambda Q, K, V: Q @ K / np.sqrt(Q.shape[1])), "doesn't transpose `K`"),
        (
            lambda Q, K, V: (softmax(-scaled(Q, K, V)) @ V, softmax(scaled(Q, K, V))),
            "Of your results, the weights are right. Judging by the output, your code",
        ),
    ],
    ids=["two sizes", "a number", "values for keys", "not transposed", "leaf by leaf"],
)
def test_what_nobody_listed_is_told(answer, words, seed):
    verdict = judge_function(answer, "attention", seed)
    assert verdict.verdict == "wrong" and words in verdict.advice, verdict.message


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("attention_scores", lambda Q, K: Q @ K.T / np.sqrt(Q.shape[1]), "divides `scores` by √d_k"),
        ("causal_mask", lambda n: np.tri(n, k=1, dtype=bool), "is off by 1 in a comparison"),
        ("padding_mask", lambda lengths, m: np.arange(m) < lengths[:, None] - 1, "is off by 1 in a comparison"),
        ("softmax", lambda z, axis=0: softmax(z, axis), "uses 0 as the default of `axis`"),
        ("score_statistics", measured, "does the opposite of what it should when `scaled`"),
        ("low_rank_value", lambda X, down, up: 2 * X @ down @ up, "twice as large"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_step_more_and_one_place_too_far_are_told(name, answer, words, seed):
    verdict = judge_function(called(name, answer), name, seed)
    assert verdict.verdict == "wrong" and words in verdict.advice, verdict.message


def test_functions_of_sizes_alone_are_not_asked_about_equal_ones():
    assert pose(find_exercise("attention_parameters"), 1).probes is None
    assert pose(find_exercise("attention"), 1).probes is not None


def test_an_axis_of_one_size_that_meets_another_is_named():
    def answer(Q, K, V):
        return attention(lambda Q, K, V: Q.T @ K)(Q, K, V)

    verdict = judge_function(answer, "attention", 1)
    assert "axis of" in verdict.advice and "n" in verdict.advice and "m" in verdict.advice, verdict.message


def test_a_function_that_is_handed_over_and_never_called_is_named():
    def answer(attend, *rest, **named):
        return True

    assert judge_function(answer, "leaks_future", 1).mistake == "never-calls-attend"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        (
            "in_context_learning_score",
            lambda losses, early, late: losses[:, late - 1].mean() - losses[:, early - 1].mean(),
            "uses the wrong expression `losses[:, late - 1]`",
        ),
        (
            "in_context_learning_score",
            lambda losses, early, late: losses[:, late].sum() - losses[:, early].sum(),
            "multiplies `score` by B",
        ),
        ("ov_circuit", lambda W_E, W_V, W_O, W_U: W_E @ W_V @ W_O @ W_E.T, "uses `W_E`ᵀ instead of `W_U`"),
        ("ov_circuit", lambda W_E, W_V, W_O, W_U: W_E @ W_V @ W_O, "leaves out the product with `W_U`"),
        (
            "copying_score",
            lambda ov: (ov.argmax(-1) == ov.new_tensor(range(len(ov)))).sum() / (len(ov) - 1),
            "vocab - 1",
        ),
    ],
    ids=["at both places", "another function", "another name, transposed", "a product left out", "one less"],
)
def test_slips_of_places_and_products_are_told(name, answer, words, seed):
    verdict = judge_function(called(name, answer), name, seed)
    assert verdict.verdict == "wrong" and words in verdict.advice, verdict.message


def test_the_right_numbers_in_another_dtype_are_no_slip_of_the_program():
    verdict = judge_function(
        called("ablate_head", lambda x, head: x.double() * (x.new_tensor(range(x.shape[1])) != head)[:, None, None]),
        "ablate_head",
        1,
    )
    assert verdict.mistake == "dtype-changed", verdict.message


def test_what_explains_ordinary_inputs_alone_is_said_to_do_so():
    def answer(z, axis=-1):
        powers = np.exp(-z)  # the sign is wrong, and large scores overflow
        return powers / powers.sum(axis=axis, keepdims=True)

    verdict = judge_function(called("softmax", answer), "softmax", 1)
    assert "Judging by its results on ordinary inputs, your code" in verdict.advice, verdict.message
