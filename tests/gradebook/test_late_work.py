"""Late work: a rule of an instructor's own, and when it has changed."""

from __future__ import annotations

import datetime
import shutil
import sys
import zoneinfo
from pathlib import Path

import pytest

from autograder.cli import main
from autograder.gradebook.gradebook_writer import Recorder
from autograder.gradebook.health_check import load_config
from autograder.gradebook.submission_times import NotClear, local_time, read_timestamp, rule_digest
from autograder.grading.submitted_folder import Said, note
from autograder.lms.export_marks import refusals
from autograder.records import Graded, NotUsable
from autograder.running.sandbox import preflight
from term import RULE

ROOT = Path(__file__).parents[2]
UNIT = "01_projections"


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
CLEAR = {
    "2026-03-01 18:00 UTC": 18,
    "2026-03-01 18:00": 18,
    "2026-03-01T18:00:00Z": 18,
    "2026-03-01 18:00 +0200": 16,
    "2026-03-01 18:00:00+02:00": 16,
    "2026-03-01 18:00 UTC+2": 16,
    "Sun, 01 Mar 2026 18:00:00 -0100": 19,
    "2026-03-01 18:00 Europe/Berlin": 17,
    "2026-03-01 18:00 CET": 17,
    "2026-03-01": 0,
    "1 March 2026 5pm": 17,
}
UNCLEAR = [
    *(f"2026-03-01 18:00 {name}" for name in ("AEST", "PDT", "CST", "EST", "AEST+10", "Mars/Olympus", "+9999")),
    *("01.03.2026", "01.03.2026 17:00", "05/06/2026 17:00", "10-11-12", "26-03-01 17:00"),
    *(
        "2026-13-01",
        "2026-02-30",
        "2026-03",
        "17:59",
        "Friday",
        "",
        "soon",
        "2026-03-01 25:00",
        "0001-01-01 00:00 +0200",
    ),
]


@pytest.mark.parametrize("text", CLEAR)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_time_with_one_reading_is_read(tmp_path, text, encoding):
    (tmp_path / "timestamp.txt").write_text(f"{text}\n", encoding=encoding)
    assert read_timestamp(tmp_path / "timestamp.txt", BERLIN) == datetime.datetime(2026, 3, 1, CLEAR[text])


@pytest.mark.parametrize("text", UNCLEAR)
def test_a_time_with_two_readings_or_none_is_refused(tmp_path, text):
    (tmp_path / "timestamp.txt").write_text(text)
    with pytest.raises(NotClear):
        read_timestamp(tmp_path / "timestamp.txt", BERLIN)
    assert local_time(text, BERLIN) is None


def test_short_names_of_zones_are_those_of_the_class(tmp_path):
    (tmp_path / "timestamp.txt").write_text("2026-07-01 18:00 CEST")
    assert read_timestamp(tmp_path / "timestamp.txt", BERLIN) == datetime.datetime(2026, 7, 1, 16)
    with pytest.raises(NotClear, match="CEST is the name of several time zones, or of none"):
        read_timestamp(tmp_path / "timestamp.txt")


@pytest.fixture
def course(tmp_path):
    """A course folder with a rule beside its configuration."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    (tmp_path / "late_policy.py").write_text(RULE.format(1))
    with open(tmp_path / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write('c.AssignLatePenalties.plugin_class = "late_policy.Rule"\n')
    yield tmp_path
    sys.modules.pop("late_policy", None)


def digest(course: Path) -> str:
    sys.modules.pop("late_policy", None)
    return rule_digest(load_config(course))


def test_a_rule_has_changed_with_its_code_and_its_settings(course):
    first = digest(course)
    assert digest(course) == first
    (course / "late_policy.py").write_text(RULE.format(2))
    second = digest(course)
    with open(course / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write("c.Rule.anything = 3\n")
    assert len({first, second, digest(course)}) == 3


def test_each_course_has_a_rule_of_its_own(course, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for name in ("nbgrader_config.py", "late_policy.py"):
        shutil.copy(course / name, other)
    (other / "late_policy.py").write_text(RULE.format(3))
    first = rule_digest(load_config(course))
    assert rule_digest(load_config(other)) != first, "not the other's module of the same name"
    assert rule_digest(load_config(course)) == first


@pytest.mark.parametrize("until, is_late", [("2026-03-03 18:00:00 UTC", False), ("2026-03-01 20:00:00 UTC", True)])
def test_an_extension_of_the_learning_management_system_counts(late, until, is_late):
    with Recorder(late) as recorder:
        recorder.gradebook.add_student("ada")
        recorder.register(UNIT)
        before = recorder.state(UNIT, "ada")
        place = late / "grading" / "submitted" / "ada" / UNIT
        note(late, place, Said("Moodle", False, "2026-03-02 18:00:00 UTC", until))
        assert recorder.state(UNIT, "ada") != before
    assert (seconds_late(late) > 0) == is_late
    with Recorder(late) as recorder:
        submission = recorder.gradebook.find_submission(UNIT, "ada")
        assert submission.extension == read(until) - read("2026-03-01 18:00:00 UTC")


@pytest.fixture
def late(course):
    """A course in which ada handed in a day late, and ben not at all."""
    shutil.copytree(ROOT / "notebooks" / UNIT, course / "notebooks" / UNIT)
    place = course / "grading" / "submitted" / "ada" / UNIT
    place.mkdir(parents=True)
    (place / "timestamp.txt").write_text("2026-03-02 18:00 UTC")
    with Recorder(course) as recorder:
        recorder.gradebook.add_assignment(UNIT, duedate="2026-03-01 18:00 UTC")
    return course


def seconds_late(course: Path) -> float:
    """Of ada, once what she handed in is recorded again."""
    text = (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text()
    with Recorder(course) as recorder:
        recorder.register(UNIT)
        recorder.gradebook.update_or_create_student("ada")
        recorder.record(Graded("ada", UNIT, [], notebook=text))
        return recorder.gradebook.find_submission(UNIT, "ada").total_seconds_late


def extend(course: Path, *words: str) -> int:
    return main(["--course", str(course), "extend", *words])


def test_an_extension_holds_before_and_after_handing_in_and_is_taken_back(late, capsys):
    assert seconds_late(late) == 86400
    assert extend(late, "ada", "1", "--days", "0.5") == 0
    assert "ada may hand in 01_projections until 2026-03-02 06:00 UTC." in capsys.readouterr().out
    assert seconds_late(late) == 43200
    assert extend(late, "ada", "1", "--until", "2026-03-02 18:00") == 0
    assert seconds_late(late) == 0
    assert extend(late, "ada", "1", "--days", "0") == 0
    assert seconds_late(late) == 86400
    assert extend(late, "ben", "1", "--days", "3") == 0
    assert "ben has handed in nothing of 01_projections yet; check that this is the ID" in capsys.readouterr().err


def test_a_table_that_a_person_wrote_counts_whatever_its_separator(late):
    table = late / "grading" / "extensions.csv"
    table.write_text("\ufeffStudent;Unit;Days;Until;Why\n\nada;1;;2026-03-02 12:00;ill\nben;01;2,5;;\n", "utf-8")
    assert seconds_late(late) == 21600


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("ada,1,-1,", "row 3: -1 days is not between 0 and 366"),
        ("ada,1,many,", "row 3: many is no number of days"),
        ("ada,1,nan,", "row 3: nan days is not between"),
        ("ada,1,1,2026-03-02", "row 3: give either the days or the time"),
        ("ada,1,,01.03.2026", "row 3: 01.03.2026 is no time that can be read in one way"),
        ("ada,12,1,", "row 3: "),
        ("../ada,1,1,", "row 3: ../ada is no student's ID"),
    ],
)
def test_a_mistake_in_the_table_is_one_line_and_changes_nothing(late, capsys, row, line):
    table = late / "grading" / "extensions.csv"
    table.write_text(f"student,unit,days,until\nben,1,1,\n{row}\n")
    assert extend(late, "ada", "1", "--days", "1") == 2
    (said,) = [each for each in capsys.readouterr().err.splitlines() if "extensions.csv" in each]
    assert line in said and "correct that row" in said
    assert table.read_text().count("\n") == 3
    with pytest.raises(NotUsable, match="row 3"):
        Recorder(late)


@pytest.mark.parametrize("words", [["--days", "-1"], ["--days", "x"], ["--until", "soon"]])
def test_an_extension_that_cannot_be_meant_is_refused(late, capsys, words):
    assert extend(late, "ada", "1", *words) == 2
    assert not (late / "grading" / "extensions.csv").exists()
    assert len(capsys.readouterr().err.splitlines()) <= 2


def read(time: str) -> datetime.datetime:
    return datetime.datetime.strptime(time, "%Y-%m-%d %H:%M:%S UTC")


def test_export_refuses_marks_that_another_rule_made(course):
    shutil.copytree(ROOT / "notebooks" / UNIT, course / "notebooks" / UNIT)
    text = (course / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text()

    def record(*students: str) -> list[str]:
        sys.modules.pop("late_policy", None)
        with Recorder(course) as recorder:
            for student in students:
                recorder.gradebook.update_or_create_student(student)
                recorder.record(Graded(student, UNIT, [], notebook=text))
            return recorder.remarks

    assert record("ada", "ben") == [] == refusals(course, [UNIT], [])
    (course / "late_policy.py").write_text(RULE.format(2))
    sys.modules.pop("late_policy", None)
    (line,) = refusals(course, [], [])
    assert line == f"{UNIT}: the marks were made by another rule for late work; run `autograder grade {UNIT}`"
    assert record("ada") == [f"{UNIT}: the rule for late work is another one than before, and the marks follow it"]
    assert len(refusals(course, [UNIT], [])) == 1, "ben's are the old rule's still"
    assert len(record("ben")) == 1 and refusals(course, [UNIT], []) == []


@pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
def test_a_rule_that_cannot_be_used_is_one_line(course, capsys):
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, course / name / UNIT)
    path = course / "grading" / "submitted" / "ada" / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", path)
    (course / "late_policy.py").unlink()
    assert main(["--course", str(course), "grade"]) == 2
    words = capsys.readouterr().err
    assert "nbgrader_config.py: the rule for late work cannot be used" in words and "late_policy.Rule" in words
    assert words.count("\n") == 1
