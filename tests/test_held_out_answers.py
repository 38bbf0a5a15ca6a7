"""Answers written from the contracts of the functions alone, by people who had not seen the known mistakes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from autograder.local import judge_function
from autograder.units import exercises, unit_names

FOLDER = Path(__file__).with_name("answers")
UNITS = [unit for unit in unit_names() if (FOLDER / f"unit_{unit[:2]}.py").exists()]
ANSWERS = {unit: import_module(f"answers.unit_{unit[:2]}") for unit in UNITS}
ALL = [exercise for unit in UNITS for exercise in exercises(unit).values()]
SEEDS = range(3)
SHARE_NAMED = 0.9


def answers(kind: str):
    for exercise in ALL:
        for answer in getattr(ANSWERS[exercise.unit], kind)[exercise.name]:
            yield pytest.param(exercise.name, answer, id=answer.__name__)


@pytest.mark.parametrize(("name", "answer"), answers("RIGHT"))
def test_a_right_answer_of_unusual_form_is_accepted_whatever_the_seed(name, answer):
    for seed in range(20):
        verdict = judge_function(answer, name, seed)
        assert verdict.verdict == "right", f"seed {seed}: {verdict.message}"


@pytest.mark.parametrize(("name", "answer"), answers("WRONG"))
def test_a_wrong_answer_is_rejected_whatever_the_seed(name, answer):
    for seed in SEEDS:
        verdict = judge_function(answer, name, seed)
        assert verdict.verdict != "right", f"seed {seed} accepts: {answer.__doc__}"
        assert verdict.score < verdict.points


@pytest.mark.parametrize("unit", UNITS)
def test_nine_in_ten_wrong_answers_are_named(unit):
    unnamed, count = [], 0
    for name, wrong in ANSWERS[unit].WRONG.items():
        for answer in wrong:
            verdict = judge_function(answer, name, seed=1)
            count += 1
            if verdict.mistake is None and verdict.verdict == "wrong":
                unnamed.append(answer.__name__)
    assert len(unnamed) <= (1 - SHARE_NAMED) * count, f"{len(unnamed)} of {count}: {unnamed}"
