"""The tests that a student sees, on their own: they pass what is right and catch what is wrong, with words."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path

import nbformat
import pytest

from answers import ANSWERS
from autograder.exercises import exercises, unit_names

ROOT = Path(__file__).parents[1]
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.DOTALL)
SHARE_CAUGHT = 0.9


def visible_test(unit: str, function: str):
    """A callable that runs the visible test of `function` on a given implementation."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    given = "\n\n".join(cell.source for cell in notebook.cells if "given" in cell.metadata.get("tags", []))
    tests = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in notebook.cells}
    assert f"test_{function}" in tests, f"solutions/{unit} has no test cell with the grade_id 'test_{function}'"
    test = HIDDEN.sub("", tests[f"test_{function}"])
    given, test = compile(given, "<given>", "exec"), compile(test, f"<test_{function}>", "exec")

    def run(implementation):
        names = {"__name__": "__main__"}
        exec(given, names)
        names[function] = implementation
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(test, names)

    return run


def lets_through(function: str, missed: list[str]) -> str:
    return f"the visible test of {function} lets these through: {', '.join(missed)}; add asserts"


ALL = [exercise for unit in unit_names() for exercise in exercises(unit).values()]


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_the_visible_test_passes_the_reference(exercise):
    visible_test(exercise.unit, exercise.name)(exercise.reference)


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_the_visible_test_alone_catches_known_mistakes_and_says_something(exercise):
    run = visible_test(exercise.unit, exercise.name)
    missed, silent = [], []
    for mistake in exercise.mistakes:
        try:
            run(mistake.wrong)
        except AssertionError as error:
            if len(str(error)) < 15:
                silent.append(mistake.slug)
        except Exception:
            pass  # the student sees the exception of his own code
        else:
            missed.append(mistake.slug)
    assert not silent, f"the visible test of {exercise.name} has an assert without words, which meets {silent}"
    assert len(missed) <= (1 - SHARE_CAUGHT) * len(exercise.mistakes), lets_through(exercise.name, missed)


@pytest.mark.parametrize("exercise", [e for e in ALL if e.unit in ANSWERS], ids=lambda e: e.name)
def test_the_visible_test_refuses_no_right_answer_and_catches_most_wrong_ones(exercise):
    run = visible_test(exercise.unit, exercise.name)
    for answer in ANSWERS[exercise.unit].RIGHT.get(exercise.name, ()):
        try:
            run(answer)
        except Exception as error:
            raise AssertionError(f"{answer.__name__} is right, but the visible test says: {error}") from error
    wrong, missed = ANSWERS[exercise.unit].WRONG.get(exercise.name, ()), []
    for answer in wrong:
        try:
            run(answer)
        except Exception:
            continue
        missed.append(answer.__name__)
    assert len(missed) <= (1 - SHARE_CAUGHT) * len(wrong), lets_through(exercise.name, missed)
