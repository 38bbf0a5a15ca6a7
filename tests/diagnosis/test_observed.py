"""What is told of the functions and generators that an answer is handed, and of its inputs afterwards."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from autograder.diagnosis.diagnose import judge
from autograder.grading.in_process import ask_here, judge_function
from autograder.judging.hidden_cases import Challenge
from lanes import nightly

SEEDS = range(3)


def told(name, answer, seed=1):
    return judge_function(answer, name, seed, watched=False)


@pytest.mark.parametrize("seed", nightly(SEEDS))
def test_a_function_that_is_called_once_too_often_is_told_with_both_counts(seed):
    def timed(extra):
        def answer(run, synchronize, clock, warmup, repeats):
            for _ in range(warmup + extra):
                run()
            times = []
            for _ in range(repeats):
                synchronize()
                start = clock()
                run()
                synchronize()
                times.append(clock() - start)
            return sum(times) / len(times)

        return answer

    verdict = told("median_time", timed(1), seed)
    assert re.search(r"your function calls `run` \d+ times instead of \d+\.", verdict.advice), verdict.message
    assert "calls `run`" not in told("median_time", timed(0), seed).message


def statistics_of(draw):
    def answer(d, n_samples, rng, scaled):
        q, k = draw(rng, (n_samples, d)), draw(rng, (n_samples, d))
        scores = (q * k).sum(axis=1) / (math.sqrt(d) if scaled else 1.0)
        return scores.mean(), scores.var()

    return answer


def test_whose_random_numbers_they_are_is_told():
    globally = told("score_statistics", statistics_of(lambda rng, shape: np.random.standard_normal(shape)))
    assert "NumPy's global generator" in globally.advice and "`rng`" in globally.advice, globally.message
    own = told("score_statistics", statistics_of(lambda rng, shape: np.random.default_rng(0).standard_normal(shape)))
    assert "never draws from `rng`" in own.advice and "global" not in own.message, own.message
    uniform = told("score_statistics", statistics_of(lambda rng, shape: rng.uniform(-1, 1, shape)))
    assert uniform.verdict == "wrong" and "never draws" not in uniform.message and "global" not in uniform.message


def test_conduct_and_values_are_both_told():
    def answer(Q, K):
        Q *= 2
        return Q @ K.T

    verdict = told("attention_scores", answer)
    assert "changes its input" in verdict.advice and "`Q *= 2` (line 2)" in verdict.advice, verdict.message
    assert "changes its input" not in told("attention_scores", lambda Q, K: 2 * Q @ K.T).message


def test_a_black_box_that_is_spent_is_told_with_its_count_however_it_refuses():
    def answer(attend, Q, K, V):
        for _ in range(len(K) + 1):
            attend(Q, K, V)
        return False

    posed = Challenge(1).posed("leaks_future")
    asked = ask_here(answer, posed)
    reworded = {
        i: [replace(each, refusal=each.refusal and "no") for each in calls] for i, calls in asked.questions.items()
    }
    verdict = judge(posed, replace(asked, questions=reworded))
    count = len(posed.cases[0].args[2])
    words = f"In the case “{posed.cases[0].label}”, your function calls `attend` once too often, because it may make only {count} calls."
    assert words in verdict.advice
