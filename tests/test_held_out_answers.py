"""Answers written from the contracts of the functions alone, by people who had not seen the known mistakes."""

from __future__ import annotations

import functools

import pytest

from answers import ANSWERS
from autograder.data import Verdict
from autograder.exercises import exercises, find_exercise, unit_names
from autograder.judging.local import judge_function

UNITS = list(ANSWERS)
ALL = [exercise for unit in UNITS for exercise in exercises(unit).values()]
#: What an answer's form does, five draws show; what a rare draw does, test_draws.py and tools/draws.py look for.
RIGHT_SEEDS = 5
#: A wrong answer is wrong on one draw or for want of a case: what a second draw found was nothing else.
WRONG_SEED = 1
SHARE_NAMED = 0.9
#: The same for each exercise: whatever this says, one may go unnamed.
SHARE_NAMED_OF_EACH = 0.85
#: Answers by many loops, and a detector that runs what it is handed again and again: fewer seeds for these.
SLOW = {"attention_parameters__right_loops": 1, "leaks_future": 3}
#: Wrong by the contract, but not to be told from right by what a single call returns.
UNSEEN = {"repeated_sequences__wrong_generator_not_advanced"}


def answers(kind: str):
    for exercise in ALL:
        for answer in getattr(ANSWERS[exercise.unit], kind).get(exercise.name, ()):
            yield pytest.param(exercise.name, answer, id=answer.__name__)


@pytest.mark.parametrize("unit", unit_names())
def test_every_exercise_has_held_out_answers(unit):
    place = f"tests/answers/unit_{unit[:2]}.py"
    assert unit in ANSWERS, f"{place} is not there: right and wrong answers to every exercise"
    for name in exercises(unit):
        for kind, least in (("right", 1), ("wrong", 3)):
            count = len(getattr(ANSWERS[unit], kind.upper()).get(name, ()))
            assert count >= least, f"{place} has {count} of at least {least} functions {name}__{kind}_…"


@pytest.mark.parametrize(("name", "answer"), answers("RIGHT"))
def test_a_right_answer_of_unusual_form_is_accepted_whatever_the_seed(name, answer):
    for seed in range(SLOW.get(answer.__name__, SLOW.get(name, RIGHT_SEEDS))):
        verdict = judge_function(answer, name, seed)
        assert verdict.verdict == "right", f"seed {seed}: {verdict.message}"


@functools.cache
def verdict_on_wrong(name: str, answer) -> Verdict:
    """What one draw gives."""
    return judge_function(answer, name, WRONG_SEED)


@pytest.mark.parametrize(("name", "answer"), answers("WRONG"))
def test_a_wrong_answer_is_rejected(name, answer):
    verdict = verdict_on_wrong(name, answer)
    if answer.__name__ in UNSEEN:
        pytest.xfail("nothing that a call returns tells it from a right answer")
    assert verdict.verdict != "right", f"seed {WRONG_SEED} accepts: {answer.__doc__}"
    assert verdict.score < verdict.points


@functools.cache
def unnamed(name: str) -> tuple[list[str], int]:
    """The wrong answers to an exercise that get no name, and how many there are in all."""
    listed = ANSWERS[find_exercise(name).unit].WRONG.get(name, ())
    verdicts = {answer.__name__: verdict_on_wrong(name, answer) for answer in listed}
    judged = {answer: verdict for answer, verdict in verdicts.items() if verdict.verdict != "forbidden"}
    found = [answer for answer, verdict in judged.items() if verdict.mistake is None and verdict.verdict == "wrong"]
    return found, len(judged)


REMEDY = "add a Mistake to the exercise, or a relation to autograder/judging/relations/"


@pytest.mark.parametrize("unit", UNITS)
def test_nine_in_ten_wrong_answers_of_a_unit_are_named(unit):
    each = [unnamed(name) for name in exercises(unit)]
    found, count = [answer for names, _ in each for answer in names], sum(number for _, number in each)
    assert len(found) <= (1 - SHARE_NAMED) * count, f"{len(found)} of {count} unnamed: {', '.join(found)}; {REMEDY}"


@pytest.mark.parametrize("unit", UNITS)
def test_few_wrong_answers_to_any_exercise_are_unnamed(unit):
    for name in exercises(unit):
        found, count = unnamed(name)
        allowed = max(1, (1 - SHARE_NAMED_OF_EACH) * count)
        assert len(found) <= allowed, f"{len(found)} of {count} unnamed: {', '.join(found)}; {REMEDY}"
