"""Which unit a test concerns, and which tests workers take together: `pytest -m unit03`."""

from __future__ import annotations

from pathlib import Path

import pytest

import conftest
from answers import answers_of
from autograder.exercises import exercises, find_exercise, unit_names


def units(request: pytest.FixtureRequest) -> set[str]:
    """The marks of the test that runs."""
    return {mark.name for mark in request.node.iter_markers() if mark.name.startswith("unit")}


@pytest.mark.parametrize(
    "about",
    [
        pytest.param(find_exercise("masked_softmax"), id="an exercise"),
        pytest.param(answers_of("masked_softmax", "wrong")[0], id="an answer"),
        *("masked_softmax", "03_masking"),
    ],
)
def test_a_parameter_says_the_unit(request, about):
    assert units(request) == {"unit03"}


def test_an_exercise_that_is_named_says_the_unit(request):
    assert find_exercise("grouped_query_attention").unit[:2] == "05"
    assert units(request) == {"unit05"}


@pytest.mark.parametrize("word", ["mask", "softmax of something", 3, None])
def test_what_names_no_exercise_is_of_no_unit(request, word):
    assert units(request) == set()


def test_the_notebooks_hold_the_exercises_that_are_judged():
    assert conftest.exercises_of_units() == {unit: list(exercises(unit)) for unit in unit_names()}


def test_what_is_listed_is_there():
    files = [*Path(__file__).parent.rglob("test_*.py")]
    for name in {*conftest.LONGEST, *conftest.BY_UNIT, *conftest.ONE_BY_ONE}:
        found = name in [path.name for path in files]
        assert found or any(f"def {name}(" in path.read_text(encoding="utf-8") for path in files)


def test_each_file_lies_in_a_folder_of_the_package_and_has_a_name_of_its_own():
    tests = Path(__file__).parent
    files = [path.relative_to(tests) for path in tests.rglob("test_*.py") if "browser" not in path.parts]
    known = {path.parent.name for path in (conftest.ROOT / "autograder").glob("*/__init__.py")} | {"figures", "tools"}
    assert {path.parts[0] for path in files if len(path.parts) > 1} <= known
    assert len({path.name for path in files}) == len(files)


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/commands/test_command_line.py::test_a[b]", "test_command_line.py"),
        (
            "tests/exercises/test_held_out_answers.py::test_a[masked_softmax]",
            "test_held_out_answers.py 03_masking",
        ),
        ("tests/exercises/test_known_mistakes.py::test_a[softmax]", "test_known_mistakes.py 02_scaled_scores"),
        ("tests/exercises/test_known_mistakes.py::test_a[03_masking]", "test_known_mistakes.py 03_masking"),
        ("tests/exercises/test_known_mistakes.py::test_of_all", "test_known_mistakes.py"),
        ("tests/grading/test_class_runs.py::test_a", "tests/grading/test_class_runs.py::test_a"),
    ],
)
def test_workers_leave_together_what_shares_fixtures(nodeid, group):
    assert conftest.group_of(nodeid) == group
