"""A new exercise: what the tool for authors writes works as it stands, and nothing of it is left unwritten."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import execute_notebooks
import new_exercise

ROOT = Path(__file__).resolve().parents[2]
UNIT, NAME, AFTER = "06_cross_attention", "doubled_rows", "cross_attention"
SKELETON = re.compile(r"TODO: |todo-a-slug|_todo\b|_todo_")
WRITTEN = ("CHANGELOG.md", "autograder/exercises/u*/*.py", "solutions/*/*.ipynb", "tests/answers/*.py")


def test_nothing_of_a_skeleton_is_left():
    paths = [path for pattern in (*WRITTEN, "tests/exercises/test_unit_*.py") for path in sorted(ROOT.glob(pattern))]
    left = [str(path.relative_to(ROOT)) for path in paths if SKELETON.search(path.read_text(encoding="utf-8"))]
    assert not left, f"write what TODO asks for in {', '.join(left)}"


OWN_TESTS = ("lanes", "references", "exercises/test_unit_06")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A copy of what an exercise is made of, in which one has been begun, and the files that git would show."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("autograder", "attention_figures", "tools", "tests/answers", f"solutions/{UNIT}"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    (folder / "tests" / "exercises").mkdir()
    for name in ("CHANGELOG.md", "pyproject.toml", *(f"tests/{name}.py" for name in OWN_TESTS)):
        shutil.copy(ROOT / name, folder / name)
    before = contents(folder)
    run(folder, "tools/new_exercise.py", NAME, "--after", AFTER, "--points", "1")
    return folder, {name for name, text in contents(folder).items() if before.get(name) != text}


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and "cache" not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def run(folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_exercise_touches_six_files(begun):
    folder, touched = begun
    assert touched == {
        "CHANGELOG.md",
        f"autograder/exercises/u{UNIT}/__init__.py",
        f"autograder/exercises/u{UNIT}/{NAME}.py",
        f"solutions/{UNIT}/{UNIT}.ipynb",
        "tests/answers/unit_06.py",
        "tests/exercises/test_unit_06.py",
    }
    for name in touched:
        assert SKELETON.search((folder / name).read_text(encoding="utf-8")) or name.endswith("__init__.py"), name


@pytest.mark.nightly
def test_what_is_begun_works_as_it_stands(begun):
    folder, _ = begun
    told = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/exercises/test_unit_06.py", "-k", NAME)
    assert "1 passed" in told, told
    script = f"""
import sys
sys.path.insert(0, "tests")
import nbformat, torch
from answers import answers_of
from autograder.exercises import exercises
from autograder.grading.in_process import judge_function
names = {{"torch": torch, "ask_judge": str}}
notebook = nbformat.read("solutions/{UNIT}/{UNIT}.ipynb", as_version=4)
cells = {{cell.id: cell.source for cell in notebook.cells}}
exec(cells["{NAME}"], names)
exec(cells["test_{NAME}"], names)
functions = [names["{NAME}"], *answers_of("{NAME}", "right"), *answers_of("{NAME}", "wrong")]
functions += [mistake.wrong for mistake in exercises("{UNIT}")["{NAME}"].mistakes]
print([judge_function(function, "{NAME}", 1, named=False).verdict for function in functions])
"""
    assert run(folder, "-c", script).splitlines()[-1] == str(["right"] * 2 + ["wrong"] * 4)


def test_numbers_and_minutes_of_a_unit_follow_a_new_exercise(begun):
    folder, _ = begun
    before, after = (
        nbformat.read(root / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4) for root in (ROOT, folder)
    )
    lines = [
        [found.groups() for cell in notebook.cells for found in execute_notebooks.ANNOUNCED.finditer(cell.source)]
        for notebook in (before, after)
    ]
    names = [name for name, *_ in lines[1]]
    assert names.index(NAME) == names.index(AFTER) + 1 and len(lines[1]) == len(lines[0]) + 1
    shown = re.findall(r"\*\*Exercise ([\d.]+) ·", "\n".join(cell.source for cell in after.cells))
    assert shown == [f"6.{number}" for number in range(1, len(names) + 1)]
    core = [int(re.search(r"core about (\d+)", notebook.cells[0].source)[1]) for notebook in (before, after)]
    assert core[1] == core[0] + 5


def test_new_cells_have_the_marks_of_their_neighbours(begun):
    folder, _ = begun
    cells = nbformat.read(folder / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4).cells
    marks = {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata}
    for new, old in ((NAME, AFTER), (f"test_{NAME}", f"test_{AFTER}")):
        assert {**marks[new], "grade_id": old, "points": ...} == {**marks[old], "points": ...}
    assert marks[f"test_{NAME}"].points == 1


def test_points_and_minutes_of_challenges_are_written_into_the_prose():
    marks = {"nbgrader": {"grade_id": "test_f", "grade": True, "points": 1}}
    cells = [
        nbformat.v4.new_markdown_cell("**Time**: core about 5 minutes, challenges about 7."),
        nbformat.v4.new_markdown_cell("**Exercise 1.1 · `f`** · ●○○ · 30 min · 2 points · challenge"),
        nbformat.v4.new_code_cell("f()", metadata=marks),
    ]
    execute_notebooks.announce(nbformat.v4.new_notebook(cells=cells), "07_unit")
    assert cells[0].source.endswith("challenges about 30.")
    assert cells[1].source == "**Exercise 7.1 · `f`** · ●○○ · 30 min · 1 point · challenge"


@pytest.mark.parametrize(
    ("name", "after", "why"),
    [
        ("softmax", "attention", "unit 02_scaled_scores has an exercise named 'softmax'"),
        ("words", "softmax", "the notebook of unit 02_scaled_scores uses the name 'words'"),
        ("parts", "softmax", "autograder/exercises/u02_scaled_scores/parts.py exists"),
        ("lambda", "softmax", "'lambda' cannot name a function"),
        ("fresh", "sotfmax", "no unit grades a function named 'sotfmax'"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_in_one_line(name, after, why, capsys):
    assert new_exercise.main([name, "--after", after]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"new_exercise: {why}") and ";" in line
