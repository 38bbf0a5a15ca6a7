"""The search for the name of a mistake may take so long and no longer; what it changes is words alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autograder.grading.in_process import ask_here
from autograder.judging import limit_diagnosis
from autograder.judging.hidden_cases import Challenge
from autograder.judging.judge import Marked, compare


@pytest.fixture(scope="module")
def marked() -> Marked:
    """A wrong answer, marked."""
    posed = Challenge(1).posed("causal_mask")
    return compare(posed, ask_here(lambda n: np.ones((n, n), bool), posed))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(limit_diagnosis, "SECONDS", 0.1)


def without_end() -> None:
    while True:
        pass


def test_what_is_found_in_time_is_said(marked):
    named = replace(marked.verdict, mistake="all-visible", message="It hides nothing.")
    assert limit_diagnosis.named_in_time(marked, lambda keep: named) == named


def test_a_search_without_end_leaves_the_marks_and_the_first_case_that_fails(marked):
    verdict = limit_diagnosis.named_in_time(marked, lambda keep: without_end())
    same = {"message": "", "advice": "", "where": None}
    assert replace(verdict, **same) == replace(marked.verdict, **same)
    assert verdict.verdict == "wrong" and verdict.mistake is None and verdict.where is not None
    assert verdict.advice.startswith(limit_diagnosis.STOPPED) and "first fails in the case" in verdict.advice
    assert verdict.message.startswith(verdict.advice) and "Passed: values 0/" in verdict.message


def test_what_was_kept_before_is_not_lost(marked):
    good_enough = replace(marked.verdict, mistake="all-visible", message="It hides nothing.")

    def explain(keep):
        keep(good_enough)
        without_end()

    assert limit_diagnosis.named_in_time(marked, explain) == good_enough
