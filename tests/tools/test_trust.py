"""`make lab` signs what was handed out, and nothing that was changed since."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

import lab
from autograder.exercises import unit_names
from autograder.handout.course_map import START_PAGE
from autograder.handout.keep_learner_work import NOTED, digests

ROOT = Path(__file__).parents[2]
UNIT = "03_masking/03_masking.ipynb"


@pytest.fixture
def notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder with the start page and one unit, and a place of its own for signatures."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    folder = tmp_path / "notebooks"
    for name in (START_PAGE, UNIT, NOTED):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "notebooks" / name, folder / name)
    return folder


def is_trusted(path: Path) -> bool:
    return NotebookNotary().check_signature(nbformat.read(path, as_version=4))


def test_what_was_handed_out_is_trusted(notebooks: Path):
    assert not is_trusted(notebooks / UNIT)
    lab.trust(notebooks)
    assert is_trusted(notebooks / START_PAGE) and is_trusted(notebooks / UNIT)


def test_what_was_changed_since_is_not(notebooks: Path):
    path = notebooks / UNIT
    path.write_text(path.read_text(encoding="utf-8").replace("live.start()", "alert(1)", 1), encoding="utf-8")
    (notebooks / "another.ipynb").write_bytes((notebooks / START_PAGE).read_bytes().replace(b"Attention", b"Else"))
    lab.trust(notebooks)
    assert is_trusted(notebooks / START_PAGE)
    assert not is_trusted(path) and not is_trusted(notebooks / "another.ipynb")


@pytest.mark.parametrize("noted", ["", "[]", "{", '{"03_masking/03_masking.ipynb": 3}'])
def test_without_a_usable_note_nothing_is_trusted(notebooks: Path, noted: str):
    (notebooks / NOTED).write_text(noted, encoding="utf-8")
    lab.trust(notebooks)
    assert not is_trusted(notebooks / UNIT)


def test_the_note_of_the_release_says_what_is_released():
    noted = json.loads((ROOT / "notebooks" / NOTED).read_text(encoding="utf-8"))
    assert set(noted) == {
        path.relative_to(ROOT / "notebooks").as_posix()
        for path in (ROOT / "notebooks").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    }
    assert noted == digests(ROOT / "notebooks", [*unit_names(), START_PAGE]), "run `autograder release`"
