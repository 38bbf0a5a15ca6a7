"""A release run as it comes, half solved and solved: what is missing is said in one line, and nothing else fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.utils import determine_grade

from attention_figures.helpers.exercise_status import STUB, HalfSolved
from autograder.exercises import unit_names
from autograder.handout.insert_helpers import SUM_UP_CELL, follow_progress
from lanes import nightly

ROOT = Path(__file__).parents[2]
SHOW = "import io\n\ndef show(fig, alt, caption, touch=None):\n    print(caption)\n"
PROSE = "**Exercise 0.1 · `double`** · ●○○\n\n**Exercise 0.2 · `treble`** · ●○○"
DOUBLE = "def double(x):\n    return 2 * x"
TESTED = "# The test of double: run this cell.\nassert double(3) == 6, 'twice 3 is 6'\nprint('double: passed')"


def stub(name: str) -> str:
    return f'def {name}(x):\n    """A docstring."""\n    raise NotImplementedError("{STUB}")'


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """The notebook with its outputs; only cells that may fail have an error among them."""
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3")
    client.resources = {"metadata": {"path": str(folder)}}
    return client.execute()


def small(*sources: str) -> NotebookNode:
    """A release with two exercises and these cells, which may fail as those of a release may."""
    notebook = new_notebook(cells=[new_markdown_cell(PROSE), *map(new_code_cell, (SHOW, *sources))])
    follow_progress(notebook)
    for cell in notebook.cells[1:]:
        cell.metadata["tags"] = ["raises-exception"]
    return notebook


def said(cell: NotebookNode) -> str:
    """All that a cell printed or raised, without colours."""
    told = ["\n".join(o.traceback) if o.output_type == "error" else o.get("text", "") for o in cell.outputs]
    return re.sub(r"\x1b\[[\d;]*m", "", "".join(told)).strip()


def failed(cell: NotebookNode) -> bool:
    return any(output.output_type == "error" for output in cell.outputs)


def ran(tmp_path: Path, *sources: str) -> list[NotebookNode]:
    """The cells of these sources after a run, and the one that sums up."""
    return run(small(*sources), tmp_path).cells[2:]


def test_an_answer_that_is_not_written_yet_is_one_line_for_its_test_and_all_that_follows(tmp_path):
    treble = "# The test of treble: run this cell.\ntry:\n    treble(1)\nexcept Exception as error:\n"
    treble += "    raise AssertionError('no result') from error"
    demos = "six = double(3)\ntable = {'six': six}", "print(table['six'])", "table = {}", "print(len(table))"
    cells = ran(tmp_path, stub("double"), TESTED, *demos, stub("treble"), treble)
    needs = "This cell needs 0.1 `double`. Write it, then run the cell again."
    told = ["", "Not written yet: 0.1 `double`.", needs, needs, "", "0", "", "Not written yet: 0.2 `treble`."]
    assert [said(cell) for cell in cells[:-1]] == told
    assert [failed(cell) for cell in cells[:-1]] == [False, True, *5 * [False], True]
    assert said(cells[-1]) == "Passed: 0 of 2. Not written yet: 0.1 `double`, 0.2 `treble`."


def test_a_test_that_fails_for_want_of_another_answer_names_that_one(tmp_path):
    treble = "def treble(x):\n    return double(x) + x"
    cells = ran(tmp_path, stub("double"), treble, "# The test of treble: run this cell.\nassert treble(1) == 3")
    assert said(cells[2]) == "Not written yet: 0.1 `double`; 0.2 `treble` needs it." and failed(cells[2])
    assert said(cells[-1]) == "Passed: 0 of 2. Not written yet: 0.1 `double`. Not tested yet: 0.2 `treble`."


def test_a_cell_that_was_skipped_is_to_be_run_again_once_its_exercise_is_written(tmp_path):
    later, check = "print(six)", "# The test of treble: run this cell.\nassert six == 6"
    cells = ran(tmp_path, stub("double"), "six = double(3)", DOUBLE, later, check, "six = double(3)", later, check)
    advice = "Run the cells above once more: one was skipped when 0.1 `double` had no answer yet."
    assert [said(cell) for cell in cells[3:8]] == [advice, advice, "", "6", ""]


def test_a_failed_test_says_its_message_without_a_traceback_and_scores_nothing(tmp_path):
    cells = ran(tmp_path, DOUBLE.replace("2", "3"), TESTED, "print(double(1))\nassert double(1) == 2")
    assert said(cells[1]) == "✗ 0.1 `double`: twice 3 is 6"
    assert [output.evalue for output in cells[1].outputs] == ["twice 3 is 6"]
    assert said(cells[2]).startswith("3") and "Used here, and not passed yet: 0.1 `double`." in said(cells[2])
    assert "AssertionError" in said(cells[2]) and failed(cells[2])
    assert said(cells[-1]).endswith("Not written yet: 0.2 `treble`. Not right yet: 0.1 `double`.")
    marks = {"nbgrader": {"grade": True, "solution": False, "grade_id": "test_double", "points": 2, "locked": True}}
    cells[1].metadata.update(marks | {"nbgrader": marks["nbgrader"] | {"cell_type": "code", "schema_version": 3}})
    assert determine_grade(cells[1]) == (0, 2)


ASKED = "# The test of double: run this cell.\ntry:\n    double(3)\nexcept Exception as error:\n"
ASKED += "    raise AssertionError('Look at the shapes.') from error"


@pytest.mark.parametrize(("test", "line"), [(TESTED, ""), (ASKED, "✗ 0.1 `double`: Look at the shapes.")])
def test_a_crash_in_an_answer_keeps_its_traceback_which_begins_there(tmp_path, test, line):
    (told,) = [said(ran(tmp_path, "def double(x):\n    y = {}\n    return y['two'] * x", test)[1])]
    assert told.startswith(line) and "KeyError: 'two'" in told and "return y['two'] * x" in told
    assert "double(3)" not in told and "HalfSolved" not in told and "half_solved" not in told


def test_errors_of_a_students_own_cells_are_told_as_ever(tmp_path):
    own = "1 / 0", "unknown + 1", "x = (", "double.missing"
    cells = ran(tmp_path, stub("double"), *own)
    for cell, kind in zip(cells[1:], ("ZeroDivision", "Name", "Syntax", "Attribute"), strict=False):
        assert f"{kind}Error" in said(cell) and failed(cell) and "HalfSolved" not in said(cell)


def test_a_figure_says_which_functions_drew_it(tmp_path):
    draw = "seven = double(3) + 1", "show(None, alt='', caption='A bar.')", "print(seven)\nshow(None, '', 'A bar.')"
    cells = ran(tmp_path, DOUBLE, *draw, TESTED, draw[2], DOUBLE, draw[2])
    told = [said(cell).splitlines()[-1] for cell in (cells[2], cells[3], cells[5], cells[7])]
    waiting = "A bar. Drawn with your double; not passed yet: double."
    assert told == ["A bar.", waiting, "A bar. Drawn with your double.", waiting]


def test_the_helpers_may_be_run_again_and_keep_what_has_passed(tmp_path):
    notebook = small(DOUBLE, TESTED)
    notebook.cells.insert(4, new_code_cell(notebook.cells[1].source))
    cells = run(notebook, tmp_path).cells
    assert said(cells[-1]) == "Passed: 1 of 2. Not written yet: 0.2 `treble`."


def test_nbgrader_gets_what_the_notebook_gives_without_helpers(tmp_path, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    cells = ran(tmp_path, stub("double"), TESTED, "double(3)")
    assert all(failed(cell) and "Traceback (most recent call last)" in said(cell) for cell in cells[1:3])


def test_plain_python_runs_the_helpers_cell():
    HalfSolved({"double": "0.1"})


@pytest.mark.parametrize(("printed", "passes"), [("6", True), ("7", False)])
def test_nbval_still_compares_what_a_release_prints(tmp_path, printed, passes):
    notebook = run(small(DOUBLE, TESTED, "print(double(3))"), tmp_path)
    notebook.cells[4].outputs[0].text = f"{printed}\n"
    nbformat.write(notebook, tmp_path / "release.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run([*command, "release.ipynb"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) is passes, done.stdout[-2000:]


MODES = ("as it comes", "half solved", "solved")
RUNS = [("03_masking", "as it comes"), ("01_projections", "half solved")]
RUNS += [(unit, mode) for unit in unit_names() for mode in MODES if (unit, mode) not in RUNS]


@pytest.mark.parametrize(("unit", "mode"), [RUNS[0], *nightly(RUNS[1:])], ids=lambda value: value.replace(" ", "_"))
def test_a_release_runs_to_its_end_and_only_tests_fail(unit, mode, tmp_path):
    release, solution = (
        nbformat.read(ROOT / folder / unit / f"{unit}.ipynb", as_version=4) for folder in ("notebooks", "solutions")
    )
    marks = [(cell, cell.metadata.get("nbgrader", {})) for cell in solution.cells]
    answers = {mark["grade_id"]: cell.source for cell, mark in marks if mark.get("solution")}
    solved = [name for i, name in enumerate(answers) if mode == "solved" or (mode == "half solved" and i % 2 == 0)]
    for cell in release.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers[name] if name in solved else cell.source
    release = run(release, tmp_path)
    tests = {}
    for cell in (cell for cell in release.cells if cell.cell_type == "code"):
        assert "attention_figures" not in said(cell) and "alfSolved" not in said(cell), f"{cell.id}: {said(cell)}"
        mark = cell.metadata.get("nbgrader", {})
        if mark.get("grade"):
            tests[mark["grade_id"].removeprefix("test_")] = cell
        else:
            assert not failed(cell), f"{cell.id}: {said(cell)}"
    unwritten = [name for name in answers if name not in solved]
    for name in unwritten:
        assert failed(tests[name]) and re.fullmatch(rf"Not written yet: [\d.]+ `{name}`\.", said(tests[name])), name
        assert determine_grade(tests[name])[0] == 0
    passed = sum(not failed(test) for test in tests.values())
    assert mode != "solved" or passed == len(answers)
    assert release.cells[-1].id == SUM_UP_CELL
    assert said(release.cells[-1]).startswith(f"Passed: {passed} of {len(answers)}.")
