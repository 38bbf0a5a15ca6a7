"""No student sees another's work, marks or name: on feedback pages, in recorded notebooks, on nbgrader's exchange."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import notebook_hash

from autograder.cli import main
from autograder.gradebook.health_check import load_config
from autograder.gradebook.nbgrader_exchange import SECRET, ReleaseFeedback, read_secret
from autograder.running.sandbox import preflight

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
SECRETS = {"student-alder": "0a" * 64, "student-birch": "1b" * 64, "student-cedar": None}
pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]


def words_of(student: str) -> str:
    return f"written-by-{student[::-1]}"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Three students, each of whom writes words of their own into an answer, a cell and an exception."""
    folder = tmp_path_factory.mktemp("privacy")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, folder / name / UNIT)
    for student, secret in SECRETS.items():
        notebook = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
        own = f"raise ValueError('{words_of(student)}')"
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == "causal_mask":
                cell.source = f"def causal_mask(n):\n    {own}"
        notebook.cells.insert(2, nbformat.v4.new_code_cell(f"note = '{words_of(student)}'"))
        place = folder / "grading" / "submitted" / student / UNIT
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{UNIT}.ipynb")
        if secret:
            (place / SECRET).write_text(secret)
    assert main(["--course", str(folder), "grade", "--workers", "2"]) == 0
    return folder


def test_what_is_made_for_a_student_holds_that_student_alone(course):
    kinds = {f"feedback/{{}}/{UNIT}/{UNIT}.html", f"autograded/{{}}/{UNIT}/{UNIT}.ipynb"}
    for kind in kinds:
        for student in SECRETS:
            text = (course / "grading" / kind.format(student)).read_text(encoding="utf-8")
            assert words_of(student) in text
            for other in set(SECRETS) - {student}:
                assert words_of(other) not in text and other not in text, (kind, student, other)
            for secret in filter(None, SECRETS.values()):
                assert secret not in text


def test_a_students_folder_of_feedback_holds_that_page_and_nothing_else(course):
    for student in SECRETS:
        folder = course / "grading" / "feedback" / student
        assert [path.name for path in folder.rglob("*") if path.is_file()] == [f"{UNIT}.html"]


@pytest.fixture
def released(course, tmp_path) -> Path:
    """The folder of feedback on an exchange."""
    config = load_config(course)
    config.Exchange.root = str(tmp_path)
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = UNIT
    ReleaseFeedback(coursedir=coursedir, config=config).start()
    return tmp_path / "attention" / "feedback"


def test_on_the_exchange_only_the_secret_leads_to_a_page(released):
    folder = released
    pages = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert len(pages) == 2, "who did not hand in there has no page there"
    for student, secret in SECRETS.items():
        if secret:
            assert words_of(student) in pages[f"{notebook_hash(secret=secret, notebook_id=UNIT)}.html"]
    assert not folder.stat().st_mode & 0o044, "nobody else can list the names"


def test_a_secret_that_is_none_is_passed_over(tmp_path):
    path = tmp_path / SECRET
    for content in (b"", b"../../x", b"ab" * 10, b"z" * 64, b"a" * 2_000, b"\xff" * 64):
        path.write_bytes(content)
        assert read_secret(path) is None, content
    path.write_text("a" * 64)
    assert read_secret(path) == "a" * 64
    path.rename(tmp_path / "other")
    path.symlink_to(tmp_path / "other")
    assert read_secret(path) is None
    path.unlink()
    os.mkfifo(path)
    assert read_secret(path) is None
