"""Every exercise of every unit: references hold still, each known mistake is rejected and recognised as itself."""

from __future__ import annotations

import pytest

from autograder.challenge import Challenge
from autograder.dialogue import Request
from autograder.local import judge_function
from autograder.units import exercises, unit_names

ALL = [exercise for unit in unit_names() for exercise in exercises(unit).values()]
MISTAKES = [pytest.param(e, m, id=f"{e.name}-{m.slug}") for e in ALL for m in e.mistakes]


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_every_exercise_lists_at_least_six_known_mistakes(exercise):
    assert len(exercise.mistakes) >= 6
    for mistake in exercise.mistakes:
        assert 20 <= len(mistake.advice) <= 400, mistake.slug


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_the_reference_is_right_for_twenty_seeds(exercise):
    for seed in range(20):
        verdict = judge_function(exercise.reference, exercise.name, seed)
        assert verdict.verdict == "right", f"seed {seed}: {verdict.message}"
        assert verdict.score == exercise.points


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_a_known_mistake_is_rejected_and_recognised_as_itself(exercise, mistake):
    for seed in range(8):
        verdict = judge_function(mistake.wrong, exercise.name, seed)
        assert verdict.verdict in ("wrong", "crashed"), f"seed {seed} accepts it"
        assert verdict.score < exercise.points
        assert verdict.mistake == mistake.slug, f"seed {seed}: {verdict.mistake}: {verdict.message}"


def test_a_challenge_is_reproducible_from_its_seed_and_differs_between_seeds():
    one, again, other = (Challenge(seed) for seed in (11, 11, 12))
    for exercise in ALL:
        requests = [Request(exercise.name, c.posed(exercise.name).cases) for c in (one, again, other)]
        asked = [(request.calls, request.payload) for request in requests]
        assert asked[0] == asked[1]
        assert asked[0] != asked[2]
