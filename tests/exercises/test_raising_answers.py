"""Answers that raise: to every exercise the student is told the exception, and no mistake that isn't there."""

from __future__ import annotations

import pytest

from autograder.diagnosis.diagnose import judge
from autograder.exercises import find_exercise
from autograder.grading.in_process import ask_here, judge_function
from autograder.judging.hidden_cases import Challenge
from conftest import exercise_names

pytestmark = pytest.mark.nightly

NAMES = exercise_names()
#: The first lines of an answer -> how its exception begins.
SLIPS = {
    "return undefined_thing": "NameError: name 'undefined_thing' is not defined",
    "return 1 / 0": "ZeroDivisionError: division by zero",
    "return given[0].no_such_thing": "AttributeError: ",
    "import numpyy": "ModuleNotFoundError: No module named 'numpyy'",
    "answer += 1": "UnboundLocalError: ",
}
OTHERS = {
    "return len()": "TypeError: len() takes exactly one argument (0 given)",
    "raise ValueError('no')": "ValueError: no",
    "raise RuntimeError('no')": "RuntimeError: no",
}
RECURSION = {"return answer(*given, **named)": "RecursionError: maximum recursion depth exceeded"}
#: What may be said of an answer that is right wherever it does not raise.
OF_COVERAGE = ("fails-", "not-general", "single-batch-only")


def crashing(name: str, body: str):
    """An answer with this one line, as if it stood in its cell."""
    names: dict = {}
    exec(compile(f"def answer(*given, **named):\n    {body}\n", f"<cell {name}>", "exec"), names)
    return names["answer"]


@pytest.mark.parametrize("name", NAMES)
def test_what_raises_everywhere_is_crashed_and_its_exception_comes_first(name):
    exercise = find_exercise(name)
    for body, begins in {**SLIPS, **OTHERS}.items():
        verdict = judge_function(crashing(exercise.name, body), exercise.name, seed=31)
        assert (verdict.verdict, verdict.score) == ("crashed", 0.0)
        assert verdict.message.startswith(f"It raises {begins}"), verdict.message
        assert verdict.raised.endswith("(line 2 of the cell)."), verdict.raised
        assert verdict.mistake is None, f"{body}: {verdict.message}"


@pytest.mark.parametrize("name", ["masked_attention", "leaks_future", "bmm_attention", "embed"])
def test_a_recursion_without_an_end_is_named_as_one(name):
    for body, begins in RECURSION.items():
        verdict = judge_function(crashing(name, body), name, seed=31)
        assert verdict.message.startswith(f"It raises {begins}") and verdict.mistake is None


@pytest.mark.parametrize("name", ["masked_attention", "leaks_future", "bmm_attention", "median_time"])
def test_a_function_of_other_arguments_is_told_so(name):
    verdict = judge_function(lambda: 1.0, name, seed=31)
    assert (verdict.verdict, verdict.mistake) == ("crashed", "wrong-signature")
    assert verdict.message.startswith("It raises TypeError: ")


def raising_at(answer, cases, raises):
    """`answer`, but that it raises a NameError in these cases, asked in the order of the judge."""
    count = len(cases)
    again = [index for index in range(count) if not cases[index].once]
    order = iter([*range(count), *again, *again])
    slip = crashing("", "return undefined_thing")
    return lambda *given, **named: (slip if next(order) in raises else answer)(*given, **named)


@pytest.mark.parametrize("name", NAMES)
def test_what_raises_in_some_cases_is_told_where_and_no_known_mistake(name):
    exercise = find_exercise(name)
    known = {mistake.slug for mistake in exercise.mistakes}
    posed = Challenge(32).posed(exercise.name)
    core = next(iter(exercise.credit))
    asked = [index for index, case in enumerate(posed.cases) if case.raises is None]
    halves = (
        {index for index in asked if posed.cases[index].criterion != core},
        {index for index in asked if posed.cases[index].criterion == core},
        {index for index in asked if posed.cases[index].sizes.get("B", 1) > 1},
        set(asked[1::2]),
    )
    for raises in halves:
        if not raises:
            continue
        answer = raising_at(exercise.reference, posed.cases, raises)
        verdict = judge(posed, ask_here(answer, posed))
        assert verdict.verdict in ("wrong", "crashed")
        assert "NameError: name 'undefined_thing' is not defined" in verdict.raised, verdict.message
        assert verdict.mistake not in known, verdict.message
        gradients = {"gradient-raises"} if all(posed.cases[index].gradient for index in raises) else set()
        assert verdict.mistake is None or verdict.mistake.startswith(OF_COVERAGE) or verdict.mistake in gradients


def test_a_known_mistake_that_raises_is_named_behind_its_exception():
    mistakes = find_exercise("bmm_attention").mistakes
    (not_transposed,) = (mistake for mistake in mistakes if mistake.slug == "keys-not-transposed")
    verdict = judge_function(not_transposed.wrong, "bmm_attention", seed=33, watched=False)
    assert verdict.mistake == "keys-not-transposed"
    assert verdict.message.startswith("It raises RuntimeError: ") and not_transposed.advice in verdict.message
    assert verdict.advice == not_transposed.advice, "the words for the class hold no exception of one student"
