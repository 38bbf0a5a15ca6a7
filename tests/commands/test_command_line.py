"""The commands: what they print where, and their exit status, on good input and on bad."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import nbformat
import pytest

import warm
from asked import points_of
from autograder import __version__
from autograder.cli import explained, main
from autograder.exercises import find_exercise
from autograder.reading import cell_roles
from autograder.running import sandbox as room
from lanes import nightly

pytestmark = pytest.mark.usefixtures("one_sandbox")
ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
SOLUTION = ROOT / "solutions" / UNIT / f"{UNIT}.ipynb"
RELEASE = ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb"
POINTS = points_of(UNIT)
KEYS = ["student", "unit", "function", "points", "score", "verdict", "mistake", "message"]
VERDICTS = {"right", "wrong", "missing", "crashed", "timeout", "forbidden"}

needs_sandbox = pytest.mark.skipif(room.preflight() is not None, reason=str(room.preflight()))


@pytest.fixture
def course(tmp_path):
    """An empty course folder."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, tmp_path / name / UNIT)
    return tmp_path


def hand_in(course: Path, student: str, source: Path = SOLUTION, unit: str = UNIT) -> Path:
    path = course / "grading" / "submitted" / student / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True)
    shutil.copy(source, path)
    return path


def command(capfd, *words: str | Path) -> tuple[int, str, list[str]]:
    """Run a command in this process: exit status, standard output, lines of standard error."""
    capfd.readouterr()
    status = main([str(word) for word in words])
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    return status, out, err.splitlines()


def refused(capfd, *words: str | Path) -> str:
    """The one line with which a command refuses."""
    status, out, lines = command(capfd, *words)
    assert (status, out) == (2, "")
    assert len(lines) == 1 and lines[0].startswith("autograder: ")
    return lines[0]


def grade(course: Path, *words: str) -> list[str | Path]:
    return ["--course", course, "grade", *words]


# --- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", nightly(["ascii", "latin-1", "cp1252"]))
def test_an_output_that_has_no_letter_for_a_sign_loses_no_mark(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "check", SOLUTION], cwd=ROOT, env=environment, capture_output=True
    )
    assert done.returncode == 0 and b"internal error" not in done.stderr
    assert f"{sum(points_of(UNIT).values()):g} of " in done.stdout.decode(encoding)


def test_json_is_exactly_as_promised_with_nothing_for_a_release_and_full_marks_for_a_solution(capfd):
    status, out, lines = command(capfd, "check", RELEASE, SOLUTION, "--json")
    entries = json.loads(out)
    assert (status, lines) == (0, [])
    due = [(name, 0, "missing") for name in POINTS] + [(name, worth, "right") for name, worth in POINTS.items()]
    assert [(entry["function"], entry["score"], entry["verdict"]) for entry in entries] == due
    for entry in entries:
        assert list(entry) == KEYS
        assert entry["student"] is None and entry["unit"] == UNIT
        assert type(entry["points"]) in (int, float) and type(entry["score"]) is float
        assert entry["verdict"] in VERDICTS
        assert entry["mistake"] is None or isinstance(entry["mistake"], str)
        assert isinstance(entry["message"], str) and entry["message"]


def bad_inputs(folder: Path) -> list[Path]:
    (folder / "folder.ipynb").mkdir()
    (folder / "cut.ipynb").write_bytes(SOLUTION.read_bytes()[:999])
    (folder / "binary.ipynb").write_bytes(bytes(range(256)))
    (folder / "other.ipynb").write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (folder / "loop.ipynb").symlink_to(folder / "loop.ipynb")
    os.mkfifo(folder / "pipe.ipynb")
    return [*sorted(folder.iterdir()), folder / "none.ipynb"]


def test_check_names_each_bad_input_and_grades_the_good(capfd, tmp_path):
    bad = bad_inputs(tmp_path)
    status, out, lines = command(capfd, "check", *bad, SOLUTION, "--json")
    assert status == 2
    assert len(lines) == len(bad)
    assert all(path.name in line for path, line in zip(bad, lines, strict=True))
    assert len(json.loads(out)) == len(POINTS)


def test_check_of_bad_input_alone_prints_an_empty_list(capfd, tmp_path):
    status, out, lines = command(capfd, "check", tmp_path / "none.ipynb", "--json")
    assert (status, json.loads(out), len(lines)) == (2, [], 1)


@pytest.mark.parametrize(
    "words", [[], ["grade", "--nonsense"], ["check", "--nonsense"], ["polish"], ["grade", "--workers", "many"]]
)
def test_unusable_arguments(capfd, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "Traceback" not in capfd.readouterr().err


# --- which course ----------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path_factory, monkeypatch):
    """A folder that is in no course; `course` has to be asked for before it."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


ACTING = ["grade", "release", "report", "export --format canvas", "collect 3 x.zip", "feedback", "exclude 3", "marks"]


@pytest.mark.parametrize("words", ACTING)
def test_a_command_that_acts_on_a_course_does_not_look_for_one_of_its_own(capfd, elsewhere, words):
    assert "no course folder here; go to the folder" in refused(capfd, *words.split())


def test_a_command_says_which_course_it_acts_on_unless_one_stands_in_it(capfd, course, tmp_path_factory, monkeypatch):
    line = f"autograder: course folder: {course}"
    assert command(capfd, "--course", course, "release", UNIT, "--check") == (0, "", [])
    monkeypatch.chdir(course / "solutions" / UNIT)
    assert command(capfd, "release", UNIT, "--check") == (0, "", [])
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert command(capfd, "--course", course, "release", UNIT, "--check") == (0, "", [line])
    assert str(course) in refused(capfd, "--course", course, "report", "99_nothing")
    assert command(capfd, "doctor")[2] == [f"autograder: course folder: {ROOT}"]


def stamp(course: Path, **changes) -> None:
    path = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    if changes:
        notebook.metadata[cell_roles.KEY].update(changes)
    else:
        del notebook.metadata[cell_roles.KEY]
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


OTHERS = {
    "of another version": ({"version": "0.0"}, "was made for version 0.0"),
    "with another exercise": ({"contracts": {"causal_mask": "0"}}, "and they differ in causal_mask, "),
    "without a mark": ({}, "was made by a version that left no mark"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_release_for_other_exercises_is_refused_until_it_is_made_anew(capfd, course, tmp_path, other):
    changes, words = OTHERS[other]
    own = shutil.copy(RELEASE, tmp_path / "mine.ipynb")
    hand_in(course, "anna")
    stamp(course, **changes)
    for line in (["grade"], ["check", own], ["export", "--format", "canvas"]):
        said = refused(capfd, *line) if line[0] != "check" else command(capfd, *line, "--json")[2][0]
        assert words in said and f"autograder {__version__} in {ROOT} is what runs" in said
        assert f"autograder release {UNIT}" in said and str(course / ".venv" / "bin" / "autograder") in said
    assert command(capfd, "release", UNIT)[0] == 0
    assert (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes() == RELEASE.read_bytes()
    assert command(capfd, "check", own)[0] == 0


def test_a_contract_is_what_a_notebook_promises_and_not_how_it_is_judged(monkeypatch):
    exercise = find_exercise("masked_softmax", UNIT)
    told = cell_roles.contract.__wrapped__

    def digest_of(**changes) -> str:
        changed = replace(exercise, **changes)
        monkeypatch.setattr(cell_roles, "find_exercise", lambda function, unit: changed)
        return told("masked_softmax", UNIT)

    before = digest_of()
    assert digest_of(mistakes=(), draw=lambda random: [], forbidden=()) == before
    assert digest_of(credit={"values": 1.0}) != before
    assert digest_of(reference=lambda S: S) != before
    assert digest_of(returns=(exercise.returns, exercise.returns)) != before


def test_plain_nbgrader_makes_the_same_release_and_takes_settings_that_git_does_not_see(capfd, course):
    local = course / "nbgrader_config_local.py"
    local.write_text('c.CourseDirectory.db_url = c.CourseDirectory.db_url.replace("gradebook.db", "other.db")\n')
    (course / "notebooks" / UNIT / f"{UNIT}.ipynb").write_text("mine")
    done = warm.command(course, "nbgrader", "generate_assignment", UNIT, "--force")
    assert done.returncode == 0, done.stderr
    assert (course / "grading" / "replaced" / "notebooks" / UNIT / "1" / f"{UNIT}.ipynb").read_text() == "mine"
    assert (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes() == RELEASE.read_bytes()
    assert (course / "grading" / "other.db").is_file() and not gradebook(course).exists()
    from autograder.gradebook.health_check import load_config  # imports nbgrader, which takes a second

    assert load_config(course).CourseDirectory.db_url.startswith(f"sqlite:///{course / 'grading' / 'other.db'}")
    local.write_text("c.CourseDirectory.db_url = nowhere\n")
    said = refused(capfd, "release", UNIT)
    assert f"{local}, line 1: NameError" in said and "correct that line" in said
    local.write_text("c.CourseDirectory.db_url = (\n")
    assert f"{local}, line 1: SyntaxError" in refused(capfd, "release", UNIT)
    done = subprocess.run(["git", "check-ignore", "nbgrader_config_local.py"], cwd=ROOT, capture_output=True)
    assert done.returncode in (0, 128), "128: not in a clone"


TROUBLE = {
    "no rights": (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied; is it yours"),
    "a file in the way": (NotADirectoryError(20, "Not a directory", "/a/b"), "/a/b: Not a directory; "),
    "no room": (OSError(28, "No space left on device"), "No space left on device; make room"),
    "a fault of ours": (ValueError("who knows"), None),
    "a module of ours": (ModuleNotFoundError("No module named 'autograder.x'", name="autograder.x"), None),
}


@pytest.mark.parametrize("what", TROUBLE)
def test_what_the_machine_refuses_is_no_fault_of_ours(what):
    error, words = TROUBLE[what]
    said = explained(error)
    assert said is None if words is None else said.startswith(words)


# --- grade: what it refuses -------------------------------------------------------------------------------------------


def test_no_submissions(capfd, course):
    assert "no submissions" in refused(capfd, *grade(course))


@pytest.mark.parametrize("name", ["3", "03", "03_", "03_mask", "0003"])
def test_a_unit_by_a_part_of_its_name(capfd, course, name):
    assert command(capfd, "--course", course, "release", name, "--check") == (0, "", [])
    assert f"autograder grade {UNIT}" in refused(capfd, "--course", course, "report", name)
    assert "none.zip: not there" in refused(capfd, "--course", course, "collect", name, "none.zip")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("0", "'0' is the start of several units: 01_projections, 02_scaled_scores, "),
        ("", "there is no unit ''; units are 1 to 11"),
        ("masking", "there is no unit 'masking'"),
        ("12", "there is no unit '12'"),
        ("²", "there is no unit '²'"),
    ],
)
def test_a_part_that_is_of_no_unit_or_several(capfd, course, name, words):
    hand_in(course, "anna")
    assert words in refused(capfd, *grade(course, name))
    assert words in refused(capfd, "--course", course, "collect", name, "none.zip")


@pytest.mark.parametrize("student", ["nobody", "../../solutions", "", "."])
def test_an_unknown_student(capfd, course, student):
    hand_in(course, "anna")
    assert "student" in refused(capfd, *grade(course, UNIT, "--student", student))


def test_a_student_without_the_unit(capfd, course):
    hand_in(course, "anna")
    (course / "grading" / "submitted" / "ben").mkdir()
    assert "nobody handed in" in refused(capfd, *grade(course, UNIT, "--student", "ben"))


def test_a_folder_that_is_no_course(capfd, tmp_path):
    assert "no course folder" in refused(capfd, *grade(tmp_path))


def test_a_unit_that_was_not_released(capfd, course):
    hand_in(course, "anna")
    shutil.rmtree(course / "notebooks" / UNIT)
    assert f"autograder release {UNIT}" in refused(capfd, *grade(course, UNIT))


@pytest.mark.parametrize(
    "words",
    [
        ["--workers", "0"],
        ["--workers", "-3"],
        pytest.param(["--scheduler", "tcp://nowhere:1"], marks=pytest.mark.nightly),  # waits for an answer
    ],
)
def test_options_that_cannot_be(capfd, course, words):
    hand_in(course, "anna")
    refused(capfd, *grade(course, UNIT, *words))


def gradebook(course: Path) -> Path:
    return course / "grading" / "gradebook.db"


@pytest.mark.parametrize("name", ["a?b", "50%", "a%41 b", "a#b&c=d", "Kurs Ü"])
def test_the_gradebook_stays_in_the_course_whatever_the_path_holds(tmp_path, name):
    from sqlalchemy.engine import make_url

    from autograder.gradebook.health_check import load_config

    (tmp_path / name).mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path / name)
    address = make_url(load_config(tmp_path / name).CourseDirectory.db_url)
    assert address.database == str(gradebook(tmp_path / name)) and address.query == {"timeout": "60"}


def test_a_locked_gradebook(capfd, course, monkeypatch):
    from autograder.gradebook import health_check

    hand_in(course, "anna")
    connect = sqlite3.connect
    with connect(gradebook(course), isolation_level=None) as other:
        other.execute("CREATE TABLE course (id TEXT)")
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(health_check.sqlite3, "connect", lambda path, timeout: connect(path, timeout=0.1))
        assert "locked; close the program" in refused(capfd, *grade(course, UNIT))
        other.rollback()


def test_a_gradebook_of_another_course(capfd, course):
    hand_in(course, "anna")
    with sqlite3.connect(gradebook(course)) as other:
        other.execute("CREATE TABLE course (id TEXT)")
        other.execute("INSERT INTO course VALUES ('cooking')")
    before = gradebook(course).read_bytes()
    assert "belongs to the course 'cooking'" in refused(capfd, *grade(course, UNIT))
    assert gradebook(course).read_bytes() == before


@pytest.mark.parametrize("content", [b"rubbish" * 500, b"SQLite format 3\0" + bytes(5000)])
def test_a_gradebook_that_is_none(capfd, course, content):
    hand_in(course, "anna")
    gradebook(course).write_bytes(content)
    assert "move it away" in refused(capfd, *grade(course, UNIT))
    assert gradebook(course).read_bytes() == content


def test_a_gradebook_that_cannot_be_opened_or_written_is_not_to_be_moved_away(capfd, course, monkeypatch):
    """It holds marks. Whoever runs this may be root, to whom every file is open."""
    from autograder.gradebook import health_check

    hand_in(course, "anna")
    gradebook(course).mkdir()
    said = refused(capfd, *grade(course, UNIT))
    assert "unable to open database file" in said and "permissions" in said and "move it away" not in said
    gradebook(course).rmdir()
    connect = sqlite3.connect
    with closing(connect(gradebook(course))) as other:
        other.execute("CREATE TABLE course (id TEXT)")
        other.execute("INSERT INTO course VALUES ('attention')")
        other.commit()
    before = gradebook(course).read_bytes()
    health_check.check_gradebook(course)
    assert gradebook(course).read_bytes() == before, "looking changes nothing"
    read_only = partial(connect, f"file:{gradebook(course)}?mode=ro", uri=True)
    monkeypatch.setattr(health_check.sqlite3, "connect", lambda path, timeout: read_only(timeout=timeout))
    health_check.check_gradebook(course)  # enough to read marks
    said = refused(capfd, *grade(course, UNIT))
    assert "readonly" in said and "permissions" in said and "move it away" not in said


def test_another_programs_database_is_no_gradebook(capfd, course):
    hand_in(course, "anna")
    with closing(sqlite3.connect(gradebook(course))) as other:
        other.execute("CREATE TABLE recipes (id TEXT)")
    assert "no gradebook of nbgrader" in refused(capfd, *grade(course, UNIT))


def test_no_sandbox_refuses(course, tmp_path):
    hand_in(course, "anna")
    bare = tmp_path / "bin"
    bare.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(bare)}
    line = [sys.executable, "-m", "autograder", "grade", UNIT, "--json"]
    done = subprocess.run(line, cwd=course, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "bubblewrap is not installed" in done.stderr
    assert not gradebook(course).exists()


def test_only_grading_that_was_stopped_keeps_something(capfd, course, monkeypatch):
    from autograder.grading import whole_class
    from autograder.handout import release

    def stop(*_):
        raise KeyboardInterrupt

    hand_in(course, "anna")
    monkeypatch.setattr(whole_class, "look_through", stop)
    monkeypatch.setattr(release, "release", stop)
    assert command(capfd, *grade(course, UNIT)) == (130, "", ["autograder: stopped; what was graded so far is kept"])
    assert command(capfd, "--course", course, "release", UNIT) == (130, "", ["autograder: stopped"])


def test_what_a_person_must_mend_is_no_fault_of_ours(capfd, course, monkeypatch):
    from autograder.grading import whole_class
    from autograder.records import Expected

    class NotUsable(Exception):
        """Of that name, and none of ours."""

    def fail(error):
        def look_through(*_):
            raise error

        monkeypatch.setattr(whole_class, "look_through", look_through)
        return command(capfd, *grade(course, UNIT))

    assert fail(Expected("mend this")) == (2, "", ["autograder: mend this"])
    status, _, lines = fail(NotUsable("who knows"))
    assert status == 1 and "an internal error" in lines[-1]


# --- grade, report, release, doctor: what they do ------------------------------------------------------------------------


@needs_sandbox
def test_grade_then_report(capfd, course, monkeypatch):
    hand_in(course, "anna")
    hand_in(course, "ben", RELEASE)
    hand_in(course, "cara").write_text("{")

    monkeypatch.chdir(course / "grading")
    monkeypatch.setenv("COLUMNS", "200")
    status, out, lines = command(capfd, "grade")
    assert status == 0
    assert len(lines) == 1 and lines[0].startswith("autograder: cara: ")
    assert all(word in out for word in ("anna", "ben", "cara", "Feedback pages", "STUDENT/UNIT/UNIT.html"))

    status, out, _ = command(capfd, "grade", UNIT, "--json", "--workers", "1")
    entries = json.loads(out)
    assert status == 0
    assert all(list(entry) == KEYS for entry in entries)
    assert {entry["student"] for entry in entries} == {"anna", "ben", "cara"}
    assert sum(entry["score"] for entry in entries) == sum(POINTS.values())

    status, out, lines = command(capfd, "report")
    assert status == 0 and "cut off" not in out
    assert len(lines) == 1 and lines[0].startswith("autograder: cara: ")
    assert all(word in out for word in ("anna", "ben", "cara"))
    assert json.loads(command(capfd, "report", UNIT, "--json")[1])["verdicts"] == entries


@needs_sandbox
def test_a_fault_of_ours_on_one_notebook_spares_the_others(capfd, course, monkeypatch):
    from autograder.grading import submission_jobs

    hand_in(course, "anna")
    hand_in(course, "ben", RELEASE)
    whole = submission_jobs.grade_submission

    def faulty(submission, asked, challenge, sandbox):
        if not submission.answers:
            raise ZeroDivisionError("ours")
        return whole(submission, asked, challenge, sandbox)

    monkeypatch.setattr(submission_jobs, "grade_submission", faulty)
    monkeypatch.delenv("AUTOGRADER_DEBUG", raising=False)
    status, out, lines = command(capfd, *grade(course, UNIT, "--json"))
    assert status == 1
    assert len(lines) == 1 and "ben" in lines[0] and "an internal error" in lines[0]
    assert {entry["student"] for entry in json.loads(out)} == {"anna"}


@needs_sandbox
def test_unsafe_is_said_in_the_report(capfd, course):
    hand_in(course, "anna")
    status, out, _ = command(capfd, *grade(course, UNIT, "--no-sandbox"))
    assert status == 0
    assert "WITHOUT a sandbox" in out


def test_report_before_any_grading(capfd, course):
    assert "run `autograder grade` first" in refused(capfd, "--course", course, "report")
    assert "no unit" in refused(capfd, "--course", course, "report", "99_nothing")


def test_release_and_its_check(capfd, course):
    release = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    before = release.read_bytes()
    assert command(capfd, "--course", course, "release", UNIT, "--check") == (0, "", [])
    release.write_text(release.read_text().replace("import numpy", "import  numpy", 1))
    (course / "notebooks" / UNIT / "stray.txt").write_text("")
    status, out, lines = command(capfd, "--course", course, "release", UNIT, "--check")
    assert (status, out, len(lines)) == (1, "", 2)
    assert all(f"run `make notebooks ARGS={UNIT}`" in line for line in lines)
    assert command(capfd, "--course", course, "release", UNIT)[:2] == (0, f"Released again: {UNIT}.\n")
    assert release.read_bytes() == before
    assert command(capfd, "--course", course, "release", UNIT)[:2] == (0, "notebooks/ is up to date.\n")


def test_a_release_keeps_a_copy_of_what_a_learner_wrote(capfd, course):
    release, solution = (course / folder / UNIT / f"{UNIT}.ipynb" for folder in ("notebooks", "solutions"))
    kept = course / "grading" / "replaced" / "notebooks" / UNIT
    mine = release.read_text().replace("# Unit", "My note.\\n# Unit", 1)
    assert mine != release.read_text()
    release.write_text(mine)
    (course / "notebooks" / UNIT / "plot.png").write_bytes(b"mine")
    status, out, (line,) = command(capfd, "release", UNIT)
    assert (status, out) == (0, f"Released again: {UNIT}.\n") and line.endswith(f"is in {kept / '1'}")
    assert (kept / "1" / release.name).read_text() == mine and (kept / "1" / "plot.png").read_bytes() == b"mine"
    solution.write_text(solution.read_text().replace("# Unit", "News.\\n# Unit", 1))
    assert command(capfd, "release", UNIT) == (0, f"Released again: {UNIT}.\n", []), "nobody wrote there since"
    release.write_text(mine)
    assert len(command(capfd, "release", UNIT)[2]) == 1 and (kept / "2" / release.name).read_text() == mine


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def unmark_the_answer(notebook):
    cell_of(notebook, "causal_mask").metadata.pop("nbgrader")


def unmark_the_test(notebook):
    cell_of(notebook, "test_causal_mask").metadata.pop("nbgrader")


def drop_an_end(notebook):
    cell = cell_of(notebook, "causal_mask")
    cell.source = cell.source.replace("### END SOLUTION", "")


def share_a_name(notebook):
    cell_of(notebook, "padding_mask").metadata.nbgrader.grade_id = "causal_mask"


def drop_the_line(notebook):
    cell = next(cell for cell in notebook.cells if re.search(r"Exercise [\d.]+ · `causal_mask`", cell.source))
    cell.source = cell.source.replace("**Exercise ", "**Task ")


BROKEN = {
    unmark_the_answer: "cell 'test_causal_mask' tests an exercise of the course without an answer cell 'causal_mask'",
    unmark_the_test: "cell 'test_causal_mask' calls judge_here, and is no test of an exercise of the course",
    drop_an_end: "cell causal_mask has 1 lines BEGIN SOLUTION and 0 lines END SOLUTION",
    share_a_name: "cell 'test_padding_mask' tests an exercise of the course without an answer cell 'padding_mask'",
    drop_the_line: "causal_mask has no line like",
}


@pytest.mark.parametrize("spoil", BROKEN)
def test_a_notebook_that_gives_no_release_is_told_why_and_the_old_release_stays(capfd, course, spoil):
    path, release = (course / folder / UNIT / f"{UNIT}.ipynb" for folder in ("solutions", "notebooks"))
    before, notebook = release.read_bytes(), nbformat.read(path, as_version=4)
    spoil(notebook)
    nbformat.write(notebook, path)
    said = refused(capfd, "--course", course, "release", UNIT)
    assert UNIT in said and BROKEN[spoil] in said and "traceback" not in said
    assert release.read_bytes() == before


def test_release_of_what_is_not_there(capfd, course):
    assert "there is no unit" in refused(capfd, "--course", course, "release", "99_nothing")
    before = RELEASE.read_bytes()
    shutil.rmtree(course / "solutions" / UNIT)
    assert "is not there" in refused(capfd, "--course", course, "release", UNIT)
    assert (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes() == before


@needs_sandbox
def test_doctor_tells_which_sandbox(capfd):
    _, out, _ = command(capfd, "doctor")
    assert ("root" if room.sandbox_mode() == "root" else "ordinary user") in " ".join(out.split())
