"""A new version of the course comes over notebooks in which somebody has worked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from update import merge

ROOT = Path(__file__).resolve().parents[2]
NAME = "notebooks/03_masking/03_masking.ipynb"


def answer(name: str, body: str = "    raise NotImplementedError") -> dict:
    marks = {"grade_id": name, "solution": True}
    return {"cell_type": "code", "id": name, "metadata": {"nbgrader": marks}, "source": f"def {name}():\n{body}"}


def graded(name: str, source: str = "assert True") -> dict:
    marks = {"grade_id": f"test_{name}", "grade": True, "points": 1}
    return {"cell_type": "code", "id": f"test_{name}", "metadata": {"nbgrader": marks}, "source": source}


def cell(name: str, source: str, kind: str = "code") -> dict:
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source}


def notebook(*cells: dict) -> dict:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def sources(found: dict) -> list[str]:
    return [each["source"] for each in found["cells"]]


BASE = notebook(cell("a", "prose", "markdown"), answer("f"), graded("f"), cell("guess", "predict(...)"), answer("g"))
MINE = notebook(
    cell("own", "mine = 1"),
    cell("a", "prose", "markdown"),
    answer("f", "    return 1"),
    cell("own2", "mine = 2"),
    graded("f"),
    cell("guess", "predict(7)"),
    answer("g"),
)


def test_answers_guesses_and_own_cells_stay_and_the_rest_follows():
    new = notebook(
        cell("a", "better prose", "markdown"),
        answer("f"),
        graded("f", "assert 2 > 1"),
        answer("h"),
        cell("guess", "predict(...)"),
        answer("g", '    """Say more."""\n    raise NotImplementedError'),
    )
    merged, said = merge(MINE, new, BASE)
    new_g = new["cells"][-1]["source"]
    wanted = ["mine = 1", "better prose", "def f():\n    return 1", "mine = 2", "assert 2 > 1"]
    assert sources(merged) == [*wanted, new["cells"][3]["source"], "predict(7)", new_g]
    assert said == []


def test_an_answer_whose_exercise_has_changed_stays_and_is_named():
    new = notebook(cell("a", "prose", "markdown"), answer("f", "    raise NotImplementedError('of n')"), graded("f"))
    merged, said = merge(MINE, new, BASE)
    assert "def f():\n    return 1" in sources(merged)
    assert said == ["f: the exercise has changed; your answer is kept, so look at it again"]


def test_an_answer_whose_exercise_is_gone_becomes_a_cell_of_ones_own():
    merged, _ = merge(MINE, notebook(cell("a", "prose", "markdown"), cell("guess", "predict(...)")), BASE)
    (kept,) = [each for each in merged["cells"] if "return 1" in each["source"]]
    assert "nbgrader" not in kept["metadata"]


def test_what_both_changed_is_there_twice():
    new = notebook(*[cell("guess", "predict(..., 2)") if each["id"] == "guess" else each for each in BASE["cells"]])
    merged, _ = merge(MINE, new, BASE)
    kinds = {each["source"]: each["cell_type"] for each in merged["cells"]}
    assert (kinds["predict(..., 2)"], kinds["predict(7)"]) == ("code", "raw")


def test_without_the_version_it_began_as_answers_and_own_cells_stay():
    new = notebook(cell("a", "better prose", "markdown"), answer("f"), graded("f"), answer("g", "    ...\n"))
    merged, _ = merge(MINE, new, None)
    assert sources(merged)[:4] == ["mine = 1", "better prose", "def f():\n    return 1", "mine = 2"]
    assert sources(merged)[-1] == new["cells"][-1]["source"]


@pytest.fixture
def clone(tmp_path):
    """A clone of a small course, and what makes a new version where it came from."""
    origin = tmp_path / "origin"
    (origin / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "update.py", origin / "tools")
    (origin / NAME).parent.mkdir(parents=True)
    (origin / ".gitignore").write_text("grading/\n")

    def git(where: Path, *words: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@x.edu"]
        subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True)

    def publish(content: dict) -> None:
        (origin / NAME).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        git(origin, "add", "-A")
        git(origin, "commit", "-qm", "version")

    git(tmp_path, "init", "-q", "-b", "main", "origin")
    publish(BASE)
    git(tmp_path, "clone", "-q", "origin", "clone")
    return tmp_path / "clone", publish


def update(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "tools/update.py"], cwd=folder, capture_output=True, text=True)


def test_a_clone_gets_the_new_version_with_the_answers_in_it(clone):
    folder, publish = clone
    (folder / NAME).write_text(json.dumps(MINE), encoding="utf-8")
    assert update(folder).stdout == "notebooks/ is up to date\n"
    assert json.loads((folder / NAME).read_text()) == MINE
    for prose in ("second", "third"):
        publish(notebook(cell("a", prose, "markdown"), *BASE["cells"][1:]))
        done = update(folder)
        assert done.returncode == 0 and "with your answers in it" in done.stdout, done.stderr
        merged = sources(json.loads((folder / NAME).read_text()))
        assert (
            prose in merged and "def f():\n    return 1" in merged and "mine = 2" in merged and "predict(7)" in merged
        )
    kept = folder / "grading" / "replaced" / "notebooks" / "03_masking" / "1" / "03_masking.ipynb"
    assert json.loads(kept.read_text()) == MINE


@pytest.mark.parametrize("what", ["another file", "no origin"])
def test_what_cannot_be_updated_is_one_line_and_stays(clone, what):
    folder, publish = clone
    publish(notebook(cell("a", "second", "markdown"), *BASE["cells"][1:]))
    (folder / NAME).write_text(json.dumps(MINE), encoding="utf-8")
    if what == "another file":
        (folder / ".gitignore").write_text("nothing\n")
    else:
        shutil.rmtree(folder.parent / "origin")
    done = update(folder)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stderr.startswith("update: ")
    assert json.loads((folder / NAME).read_text()) == MINE
