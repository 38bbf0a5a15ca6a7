"""What lies in grading/submitted/: which file is graded, and what is said of those that are not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.cli import main
from autograder.exercises import unit_names
from autograder.grading import submitted_folder
from autograder.grading.submitted_folder import survey
from autograder.grading.whole_class import look_through
from autograder.running.sandbox import preflight

ROOT = Path(__file__).parents[2]
UNIT, OTHER = "03_masking", "01_projections"
RIGHT = f"{UNIT}.ipynb"
SOLUTION = ROOT / "solutions" / UNIT / RIGHT

needs_sandbox = pytest.mark.skipif(preflight() is not None, reason=str(preflight()))


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def paths(found: submitted_folder.Survey, folder: Path) -> dict[tuple[str, str], str]:
    return {(item.student, item.unit): item.path.relative_to(folder).as_posix() for item in found.notebooks}


def test_what_is_in_its_place_is_not_remarked_on(tmp_path):
    put(tmp_path, f"anna/{UNIT}/{RIGHT}", f"ben/{UNIT}/{RIGHT}", f"anna/{OTHER}/{OTHER}.ipynb", "readme.txt")
    put(tmp_path, *(f"anna/{UNIT}/{name}" for name in ("timestamp.txt", ".x.ipynb", "data.csv", "helper.py")))
    put(tmp_path, f"anna/{UNIT}/.ipynb_checkpoints/a.ipynb", "anna/.ipynb_checkpoints/a.ipynb", ".a.ipynb")
    found = survey(tmp_path, unit_names())
    assert (found.remarks, found.closed) == ([], [])
    assert list(paths(found, tmp_path)) == [("anna", OTHER), ("anna", UNIT), ("ben", UNIT)]
    assert list(paths(survey(tmp_path, unit_names(), [UNIT], "ben"), tmp_path)) == [("ben", UNIT)]


@pytest.mark.parametrize(
    "name", [b"n\xff\xfe", b"<img src=x onerror=alert(1)>", b"-rf", b"=1", b"a ", b"{x}", b"a\x1b[2J"]
)
def test_a_folder_whose_name_is_no_id_is_one_line_and_costs_nobody_else(tmp_path, name):
    put(tmp_path, f"anna/{UNIT}/{RIGHT}")
    (tmp_path / os.fsdecode(name) / UNIT).mkdir(parents=True)
    (tmp_path / os.fsdecode(name) / UNIT / RIGHT).write_text("")
    found = survey(tmp_path, unit_names())
    assert list(paths(found, tmp_path)) == [("anna", UNIT)] and found.remarks == []
    (line,) = found.closed
    assert line.isprintable() and "not graded, no student's ID" in line and line.endswith("rename the folder")


@pytest.mark.parametrize(
    "name, shown", [("ada\nlow", r"'ada\nlow'"), ("ada\tlow", r"'ada\tlow'"), ("ada\r", r"'ada\r'")]
)
def test_a_folder_is_shown_with_what_forbids_its_name(tmp_path, name, shown):
    put(tmp_path, f"{name}/{UNIT}/{RIGHT}")
    (line,) = survey(tmp_path, unit_names()).closed
    assert line.startswith(f"{shown}: not graded, no student's ID")


@pytest.mark.parametrize("name", [f"{RIGHT}.txt", f"{UNIT}.ipynb.json"])
def test_a_notebook_under_a_browsers_name_is_graded_and_named(tmp_path, name):
    put(tmp_path, f"anna/{UNIT}/{name}")
    found = survey(tmp_path, unit_names())
    assert paths(found, tmp_path) == {("anna", UNIT): f"anna/{UNIT}/{name}"}
    assert len(found.remarks) == 1 and f"'{name}' is graded, the only notebook there; rename it" in found.remarks[0]


def test_of_two_folders_whose_names_look_alike_none_is_graded(tmp_path):
    put(tmp_path, f"Zoe\u0308/{UNIT}/{RIGHT}", f"Zo\u00eb/{UNIT}/{RIGHT}", f"Jose\u0301/{UNIT}/{RIGHT}")
    found = survey(tmp_path, unit_names())
    assert list(paths(found, tmp_path)) == [("Jose\u0301", UNIT)]
    assert len(found.closed) == 2 and all("two folders have this name" in line for line in found.closed)


def test_a_student_is_found_however_the_accent_is_typed(tmp_path):
    put(tmp_path, f"grading/submitted/Jose\u0301/{UNIT}/{RIGHT}")
    (item,) = look_through(tmp_path, [UNIT], "Jos\u00e9").notebooks
    assert item.student == "Jose\u0301"


@pytest.mark.parametrize("name", ["mine.ipynb", f"{UNIT} (1).ipynb", RIGHT.upper()])
def test_the_only_notebook_is_graded_whatever_its_name(tmp_path, name):
    put(tmp_path, f"anna/{UNIT}/{name}", f"anna/{UNIT}/notes.txt")
    found = survey(tmp_path, unit_names())
    assert paths(found, tmp_path) == {("anna", UNIT): f"anna/{UNIT}/{name}"}
    assert found.remarks == [f"anna, {UNIT}: '{name}' is graded, the only notebook there; rename it to {RIGHT}"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["work.py"], f"no {RIGHT}; its folder holds 'work.py'; hand in the notebook under that name"),
        (["a.ipynb", "b.ipynb"], f"no {RIGHT}; its folder holds 'a.ipynb', 'b.ipynb'; rename the right one to {RIGHT}"),
        ([f"x/{RIGHT}", "y.zip"], f"no {RIGHT}; its folder holds 'x', 'y.zip'; hand in the notebook under that name"),
        ([*"abcde"], f"no {RIGHT}; its folder holds 'a', 'b', 'c' and 2 more; hand in the notebook under that name"),
        (["timestamp.txt"], f"no {RIGHT}; its folder holds nothing; hand in the notebook under that name"),
    ],
)
def test_where_the_notebook_is_missing_what_is_there_is_said(tmp_path, names, words):
    put(tmp_path, *(f"anna/{UNIT}/{name}" for name in names))
    (item,) = survey(tmp_path, unit_names()).notebooks
    assert (item.path, item.problem) == (tmp_path / "anna" / UNIT / RIGHT, words)


@pytest.mark.parametrize("student", [None, "anna"])
def test_what_stands_in_the_place_of_a_units_folder_is_no_notebook_of_that_unit(tmp_path, student):
    put(tmp_path, f"anna/{UNIT}", f"anna/{OTHER}/{OTHER}.ipynb")
    (tmp_path / "ben").mkdir()
    (tmp_path / "ben" / UNIT).symlink_to(tmp_path / "nowhere")
    found = survey(tmp_path, unit_names(), student=student)
    problems = {item.student: item.problem for item in found.notebooks if item.unit == UNIT}
    words = f"'{UNIT}' is no folder; make it one that holds {RIGHT}"
    assert problems == dict.fromkeys(["anna"] if student else ["anna", "ben"], words)


def test_other_notebooks_and_folders_are_remarked_on(tmp_path):
    put(tmp_path, f"anna/{UNIT}/{RIGHT}", f"anna/{UNIT}/{UNIT}-2.ipynb", f"anna/{RIGHT}", RIGHT)
    put(tmp_path, *(f"{student}/Unit3/{RIGHT}" for student in ("ben", "cara", "dora", "emil")), f"ben/{UNIT} /x")
    assert survey(tmp_path, unit_names()).remarks == [
        f"{RIGHT}: lies in no student's folder, so it is not graded; it belongs in STUDENT/UNIT/",
        f"anna, {UNIT}: only {RIGHT} is graded, not '{UNIT}-2.ipynb' beside it",
        f"anna: {RIGHT} lies in no unit's folder, so it is not graded; it belongs in anna/UNIT/",
        f"ben: '{UNIT} ' is no unit, so nothing in that folder is graded",
        "ben, cara, dora and 1 more: 'Unit3' is no unit, so nothing in that folder is graded",
    ]
    assert len(survey(tmp_path, unit_names(), [OTHER]).remarks) == 4
    assert survey(tmp_path, unit_names(), student="emil").remarks == [
        "emil: 'Unit3' is no unit, so nothing in that folder is graded"
    ]


def test_names_command_no_terminal_and_links_show_nothing(tmp_path):
    put(tmp_path, f"anna/{UNIT}/\x1b[2J.ipynb", f"anna/{UNIT}/b.ipynb", "anna/\x1b/x", "elsewhere/secret.ipynb")
    (tmp_path / "ben").mkdir()
    (tmp_path / "ben" / UNIT).symlink_to(tmp_path / "elsewhere")
    found = survey(tmp_path, unit_names())
    anna, ben = found.notebooks
    assert "\x1b" not in "".join(found.remarks) + str(anna.problem)
    assert (ben.path.name, ben.problem) == (RIGHT, None)


@contextmanager
def an_ordinary_user(folder: Path) -> Iterator[None]:
    """Root may read everything: be somebody else, who may enter `folder`."""
    if os.geteuid() != 0:
        yield
        return
    for parent in (folder, *folder.parents[:3]):
        os.chmod(parent, 0o755)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("closed", ["b", f"b/{UNIT}"])
def test_a_folder_without_rights_is_named_and_spares_the_others(tmp_path, closed):
    put(tmp_path, *(f"{student}/{UNIT}/{RIGHT}" for student in "abc"))
    os.chmod(tmp_path / closed, 0)
    try:
        with an_ordinary_user(tmp_path):
            found = survey(tmp_path, unit_names())
    finally:
        os.chmod(tmp_path / closed, 0o755)
    assert [item.student for item in found.notebooks] == ["a", "c"]
    (line,) = found.closed
    assert line.startswith("b") and "Permission denied" in line and f"chmod -R u+rX {tmp_path / closed}" in line


# --- with grading ----------------------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, tmp_path / name / UNIT)
    return tmp_path


@needs_sandbox
def test_whatever_is_found_the_class_is_graded_and_the_gradebook_has_all(course, capfd, monkeypatch):
    submitted = course / "grading" / "submitted"
    put(submitted, *(f"{name}/x" for name in (f"felix/{UNIT}", f"closed/{UNIT}")), f"jonas/{UNIT}/work.py")
    shutil.copy(SOLUTION, submitted / "felix" / UNIT / "final.ipynb")
    listing = submitted_folder._listing

    def guarded(folder: Path) -> tuple[list[str], list[str]]:
        if folder.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listing(folder)

    monkeypatch.setattr(submitted_folder, "_listing", guarded)
    assert main(["--course", str(course), "grade", "--json"]) == 2
    out, err = capfd.readouterr()
    assert {entry["student"]: entry["verdict"] for entry in json.loads(out)} == {"felix": "right", "jonas": "missing"}
    jonas, felix, closed = err.splitlines()
    assert jonas.startswith(f"autograder: jonas: no {RIGHT}; its folder holds 'work.py'")
    assert felix.startswith(f"autograder: felix, {UNIT}: 'final.ipynb' is graded")
    assert closed.startswith("autograder: closed: not graded, the folder cannot be read")
    with Gradebook(f"sqlite:///{course / 'grading' / 'gradebook.db'}", "attention") as book:
        scores = {submission.student.id: submission.score for submission in book.assignment_submissions(UNIT)}
    assert scores["felix"] > 0 and scores["jonas"] == 0 and set(scores) == {"felix", "jonas"}
    page = (course / "grading/feedback/jonas" / UNIT / f"{UNIT}.html").read_text(encoding="utf-8")
    assert "its folder holds" in page


def test_where_nothing_can_be_graded_the_reason_is_said(course, capfd):
    put(course / "grading" / "submitted", f"anna/Unit3/{RIGHT}")
    assert main(["--course", str(course), "grade"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "nobody handed in a notebook there; anna: 'Unit3' is no unit" in line
