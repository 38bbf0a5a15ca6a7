"""Every exercise of every unit: references hold still, each known mistake is rejected and recognised as itself."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from autograder import exercises as course
from autograder.diagnosis.known_mistakes import is_wrong
from autograder.diagnosis.operators.change_descriptions import AS_IF, slug_of
from autograder.diagnosis.symptoms.types_and_forms import MATERIALISES
from autograder.exercises import exercises, find_exercise, title_of_mistake, unit_names
from autograder.grading.in_process import judge_function
from autograder.judging.hidden_cases import Challenge
from autograder.running.sandbox_messages import Request
from conftest import exercise_names

NAMES = exercise_names()
TITLES = tomllib.loads((Path(course.__file__).parent / "titles.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_exercise_knows_mistakes(name):
    """By the variants of its plain program, or by a list."""
    exercise = find_exercise(name)
    count = len(exercise.mistakes)
    text = f"{exercise.name} has no plain program and lists {count} mistakes: add what students do wrong, 6 or more"
    assert exercise.plain is not None or count >= 6, text
    for mistake in exercise.mistakes:
        length = len(mistake.advice)
        assert 20 <= length <= 400, f"{exercise.name}, {mistake.slug}: advice of {length} characters, not of 20 to 400"


def every_mistake():
    return [(name, mistake) for name in NAMES for mistake in find_exercise(name).mistakes]


def test_each_mistake_has_a_title_that_a_person_can_read():
    for name, mistake in every_mistake():
        title = title_of_mistake(mistake.slug, name)
        assert 3 <= len(title) <= 50 and title != mistake.slug, f"{name}, {mistake.slug}: {title!r}"
        assert mistake.slug not in title or "-" not in mistake.slug, f"{name}, {mistake.slug}: {title!r}"
    assert title_of_mistake("softmax-over-queries", "attention") == "Softmax over queries"
    assert title_of_mistake("uses-down-twice", "low_rank_value") == "W_V_down used twice"


def test_no_title_waits_for_a_mistake_that_there_is_not():
    slugs = {key for name, mistake in every_mistake() for key in (mistake.slug, f"{name}/{mistake.slug}")}
    assert [key for key in TITLES["known"] if key not in slugs] == []


def test_what_else_is_found_has_a_title():
    assert [slug for slug in map(slug_of, AS_IF) if not any(slug.startswith(key) for key in TITLES["found"])] == []
    assert title_of_mistake("div-left-out-sqrt-d-k", "attention") == "A division missing"
    assert title_of_mistake("own-axis", "attention") == "Wrong axis"
    both = title_of_mistake("axis-max-along-axis-2-1-and-function-mean-sum", "attention")
    assert both == "Wrong axis; Wrong function"


def test_advice_speaks_to_who_reads_it():
    spoken = [bool(re.search(r"\byour?\b", mistake.advice, re.IGNORECASE)) for _, mistake in every_mistake()]
    assert sum(spoken) >= 0.9 * len(spoken)


def test_no_two_units_grade_a_function_of_the_same_name():
    names = [name for unit in unit_names() for name in exercises(unit)]
    assert sorted(set(names)) == sorted(names), sorted(name for name in set(names) if names.count(name) > 1)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_right_whatever_the_seed(name, seed):
    exercise = find_exercise(name)
    verdict = judge_function(exercise.reference, exercise.name, seed, watched=False)
    if verdict.mistake == MATERIALISES:  # it does without the blocks that are asked for: the plain program has them
        verdict = judge_function(exercise.plain, exercise.name, seed, watched=False)
    assert verdict.verdict == "right", f"seed {seed}: the reference of {exercise.name} fails: {verdict.message}"
    assert verdict.score == verdict.points, f"seed {seed}: {verdict.score} of {verdict.points}"


@pytest.mark.parametrize("name", NAMES)
def test_each_known_mistake_is_rejected(name):
    posed, accepted = Challenge(0).posed(name), []
    for mistake in posed.exercise.mistakes:
        first = posed.mistaken(mistake.slug, 0)
        assert first.failure not in ("AttributeError", "NameError", "TypeError"), (
            f"{mistake.slug} of {name}: {first.said}"
        )
        outcomes = (posed.mistaken(mistake.slug, index) for index in range(len(posed.cases)))
        if not any(is_wrong(posed, index, outcome) for index, outcome in enumerate(outcomes)):
            verdict = judge_function(mistake.wrong, name, 0, watched=False, named=False)  # it may show in conduct alone
            accepted += [mistake.slug] if verdict.score == verdict.points else []
    assert not accepted, f"{accepted} of {name} are accepted: let draw make a case that tells each from the reference"


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_each_known_mistake_is_recognised_as_itself(name, seed):
    confused = []
    for mistake in find_exercise(name).mistakes:
        verdict = judge_function(mistake.wrong, name, seed, watched=False, reread=False)
        assert verdict.verdict in ("wrong", "crashed") and verdict.score < verdict.points, mistake.slug
        if verdict.mistake != mistake.slug:
            confused.append(f"{mistake.slug!r} is taken for {verdict.mistake!r} ({verdict.message})")
    assert not confused, (
        f"seed {seed}, {name}: {confused}: let a case tell the two apart, put the one that students make more often "
        "first, or drop one"
    )


@pytest.mark.nightly
def test_a_challenge_is_reproducible_from_its_seed_and_differs_between_seeds():
    one, again, other = (Challenge(seed) for seed in (11, 11, 12))
    for exercise in map(find_exercise, NAMES):
        requests = [Request(exercise.name, c.posed(exercise.name).cases) for c in (one, again, other)]
        asked = [(request.calls, request.payload) for request in requests]
        assert asked[0] == asked[1]
        assert asked[0] != asked[2]


@pytest.mark.parametrize("unit", unit_names())
def test_every_reference_is_proved_by_another_route(unit):
    path = Path(__file__).with_name(f"test_unit_{unit[:2]}.py")
    assert path.exists(), f"tests/exercises/{path.name} is not there: prove the references of {unit} by another route"
    named = names_in_code(path.read_text(encoding="utf-8"))
    for name in exercises(unit):
        assert name in named, (
            f"tests/exercises/{path.name} does not prove the reference of {name}: no test of it names it"
        )


def names_in_code(source: str) -> set[str]:
    """Names, and strings that are one: no word of a comment or of a docstring."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_a_comment_proves_no_reference():
    assert names_in_code('"""Of softmax."""\n# softmax\ncases("attention")') == {"Of softmax.", "cases", "attention"}
