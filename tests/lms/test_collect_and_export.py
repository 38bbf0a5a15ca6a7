"""Submissions from learning-management systems, and marks back to them: names, limits, and what strangers put in."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import shutil
import stat
import struct
import subprocess
import tracemalloc
import unicodedata
import zipfile
from pathlib import Path

import pytest

from asked import points_of
from autograder.cli import main
from autograder.exercises import exercises
from autograder.gradebook.gradebook_writer import Gradebook
from autograder.gradebook.submission_times import read_timestamp
from autograder.grading.submitted_folder import read_said
from autograder.lms.collect_submissions import _notebooks
from autograder.lms.export_marks import Student, Table, write
from autograder.lms.export_marks import table as export_table
from autograder.lms.lms_files import File, Roster, plain_id, read_roster, sender_of
from autograder.reading.read_submission import FILE_CAP, read_bytes
from autograder.records import NotUsable, Unreadable
from autograder.safe_text import csv_line, is_student_id

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
FULL = sum(points_of(UNIT).values())
OTHER = "01_projections"
CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\n"
WORKSHEET = (
    "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    "Last modified (submission),Last modified (grade),Feedback comments\n"
)


def notebook(words: str, unit: str = UNIT) -> bytes:
    """A notebook of one answer, which tells it from others."""
    name = next(iter(exercises(unit)))
    marks = {"nbgrader": {"grade_id": name, "solution": True}}
    cell = {"cell_type": "code", "metadata": marks, "outputs": [], "execution_count": None}
    cells = [{**cell, "source": f"def {name}():\n    return {words!r}"}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}).encode()


ONE, TWO = notebook("one"), notebook("two")


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory):
    """A gradebook without students. To make one takes nbgrader seconds, to copy it takes none."""
    path = tmp_path_factory.mktemp("grading") / "gradebook.db"
    Gradebook(f"sqlite:///{path}", "attention").close()
    return path


@pytest.fixture
def course(tmp_path, gradebook):
    folder = tmp_path / "course"
    (folder / "grading").mkdir(parents=True)
    shutil.copy(gradebook, folder / "grading")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(ROOT / "notebooks" / UNIT, folder / "notebooks" / UNIT)
    return folder


def pack(folder: Path, **files: bytes) -> Path:
    path = folder / "submissions.zip"
    path.write_bytes(packed(files))
    return path


def packed(files: dict[str, bytes], way: int = zipfile.ZIP_DEFLATED) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", way) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return memory.getvalue()


def collect(course: Path, capsys, source: Path, *words: str | Path) -> tuple[int, str, list[str]]:
    capsys.readouterr()
    status = main(["--course", str(course), "collect", UNIT, str(source), *map(str, words)])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return status, out, [line for line in err.splitlines() if not line.startswith("autograder: course folder: ")]


def handed_in(course: Path) -> dict[str, bytes]:
    return {path.parts[-3]: path.read_bytes() for path in course.glob(f"grading/submitted/*/{UNIT}/{UNIT}.ipynb")}


def test_nobody_is_another_by_the_names_in_a_folder_of_ones_own(course, capsys, tmp_path):
    files = {
        f"bob/{UNIT}.ipynb": ONE,
        f"mallory/Bob_12_assignsubmission_file_/{UNIT}.ipynb": TWO,
        f"eve/adalovelace_4711_1_{UNIT}.ipynb": TWO,
    }
    collect(course, capsys, pack(tmp_path, **files))
    assert handed_in(course) == {"bob": ONE, "mallory": TWO, "eve": TWO}


@pytest.mark.parametrize(
    "name, student, number",
    [
        (f"lovelaceada_4711_90210_{UNIT}.ipynb", "lovelaceada-4711", "4711"),
        (f"lovelaceada_LATE_4711_90210_{UNIT}-2.ipynb", "lovelaceada-4711", "4711"),
        (f"submissions/lovelaceada_4711_90210_{UNIT}.ipynb", "lovelaceada-4711", "4711"),
        (f"Ada Lovelace_4711_assignsubmission_file_/{UNIT}.ipynb", "ada-lovelace", "4711"),
        (f"Ada Lovelace_4711_assignsubmission_file/{UNIT}.ipynb", "ada-lovelace", "4711"),
        (f"Ada Lovelace_4711_assignsubmission_file_{UNIT}.ipynb", "ada-lovelace", "4711"),
        ("lovelaceada_4711_text.html", "lovelaceada-4711", "4711"),
        ("Ada Lovelace_4711_assignsubmission_onlinetext_/onlinetext.html", "ada-lovelace", "4711"),
        (f"Zoë O'Neill-Ødegård_1_assignsubmission_file_/x/{UNIT}.ipynb", "zoë-o-neill-ødegård", "1"),
        (f"李小龍_12_assignsubmission_file_/{UNIT}.ipynb", "李小龍", "12"),
        (f"malloryeve_666_90211_x_4711_assignsubmission_file_{UNIT}.ipynb", "malloryeve-666", "666"),
        (f"Eve Mallory_666_assignsubmission_file_y_4711_assignsubmission_file_{UNIT}.ipynb", "eve-mallory", "666"),
        ("Eve Mallory_666_assignsubmission_file_/adalovelace_4711_1_x.ipynb", "eve-mallory", "666"),
        (f"anna/{UNIT}/{UNIT}.ipynb", "anna", ""),
        (f"malloryeve_4712_90301_x\\lovelaceada_4711_90210_{UNIT}-9.ipynb", "malloryeve-4712", "4712"),
        (f"malloryeve_4712_90301_x/lovelaceada_4711_90210_{UNIT}-9.ipynb", "malloryeve-4712", "4712"),
        (f"Eve_666_assignsubmission_file_y\\Ada_4711_assignsubmission_file_/{UNIT}.ipynb", "eve", "666"),
        (f"lovelaceada\n_4711_1_{UNIT}.ipynb", "lovelaceada-4711", "4711"),
        (f"🎉_7_assignsubmission_file_/{UNIT}.ipynb", "", "7"),
        (f"🎉_7_9_{UNIT}.ipynb", "7", "7"),
        (f"4711_90210_{UNIT}.ipynb", "", "4711"),
        (f"4711_90210_7_{UNIT}.ipynb", "", "4711"),
        (f"anna/2026_03_{UNIT}.ipynb", "anna", ""),
        (f"anon_aB3dE_90210_{UNIT}.ipynb", "", ""),
        (f"Default group_assignsubmission_file_/{UNIT}.ipynb", "", ""),
        (f"../../etc/{UNIT}.ipynb", None, ""),
        (f"a\\{UNIT}.ipynb", None, ""),
        (f"{UNIT}.ipynb", None, ""),
    ],
)
def test_names_say_who_it_was(name, student, number):
    sender = sender_of(name)
    assert (sender.id if sender else None, sender.number if sender else "") == (student, number)


def test_a_zip_of_canvas(course, capsys):
    source = pack(course, **{f"b_2_9_{UNIT}.ipynb": TWO, f"a_LATE_1_8_{UNIT}-1.ipynb": ONE, "a_1_8_x.pdf": b""})
    assert collect(course, capsys, source)[0] == 0
    assert handed_in(course) == {"a-1": ONE, "b-2": TWO}
    with Gradebook(f"sqlite:///{course / 'grading' / 'gradebook.db'}", "attention") as book:
        assert {student.id: student.lms_user_id for student in book.students} == {"a-1": "1", "b-2": "2"}


def test_a_roster_says_who_the_numbers_are(course, capsys):
    roster = course / "roster.csv"
    roster.write_text(CANVAS + '"Byron, Ada",1,s1,ada@x.edu,A\n"Babbage, Charles",2,s2,,A\n', encoding="utf-8-sig")
    source = pack(course, **{f"byronada_1_8_{UNIT}.ipynb": ONE, f"c_2_9_{UNIT}.ipynb": TWO})
    assert collect(course, capsys, source, "--roster", roster)[0] == 0
    assert handed_in(course) == {"ada@x.edu": ONE, "s2": TWO}


def test_a_moodle_zip_whose_worksheet_is_the_roster(course, capsys):
    roster = course / "roster.csv"
    roster.write_text(WORKSHEET + "Participant 7,Ada Byron,ada@x.edu,Submitted,,100.00,Yes,-,-,\n", encoding="utf-8")
    source = pack(course, **{f"Ada Byron_7_assignsubmission_file_/{UNIT}.ipynb": ONE})
    assert collect(course, capsys, source, "--roster", roster)[0] == 0
    assert handed_in(course) == {"ada@x.edu": ONE}


def test_a_folder_and_a_second_time(course, capsys, tmp_path):
    place = tmp_path / "download" / "Ada Byron_7_assignsubmission_file_"
    place.mkdir(parents=True)
    (place / "my work.ipynb").write_bytes(ONE)
    (place / ".DS_Store").write_bytes(b"")
    assert "notebooks of 1 student: 1 new or changed, 0 as before" in collect(course, capsys, tmp_path / "download")[1]
    notes = course / "grading/submitted/ada-byron" / UNIT / "timestamp.txt"
    notes.write_text("2026-01-01")
    assert "0 new or changed, 1 as before" in collect(course, capsys, tmp_path / "download")[1]
    assert notes.exists()
    (place / "my work.ipynb").write_bytes(TWO)
    out = collect(course, capsys, tmp_path / "download")[1]
    assert "1 new or changed, 0 as before" in out and "grading/replaced" in out
    assert handed_in(course) == {"ada-byron": TWO} and not notes.exists()
    kept = course / "grading/replaced/ada-byron" / UNIT / "1"
    assert (kept / f"{UNIT}.ipynb").read_bytes() == ONE and (kept / "timestamp.txt").read_text() == "2026-01-01"
    (place / "my work.ipynb").write_bytes(ONE)
    collect(course, capsys, tmp_path / "download")
    assert (kept.with_name("2") / f"{UNIT}.ipynb").read_bytes() == TWO


def test_what_is_wrong_costs_its_student_alone(course, capsys):
    big = b"0" * (21 << 20)
    source = course / "submissions.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"good_1_1_{UNIT}.ipynb", ONE)
        archive.writestr(f"big_2_1_{UNIT}.ipynb", big)
        archive.writestr("two_3_1_a.ipynb", ONE)
        archive.writestr("two_3_1_b.ipynb", TWO)
        for number in (4, 5):
            archive.writestr(f"Same Name_{number}_assignsubmission_file_/{UNIT}.ipynb", ONE)
        archive.writestr(f"{UNIT}.ipynb", ONE)
        archive.writestr(f"damaged_6_1_{UNIT}.ipynb", b"some text")
    data = bytearray(source.read_bytes())
    at = data.index(b"damaged_6") + len(f"damaged_6_1_{UNIT}.ipynb")
    data[at : at + 4] = b"\xff\xff\xff\xff"
    source.write_bytes(data)
    status, _, lines = collect(course, capsys, source)
    assert status == 2 and set(handed_in(course)) == {"good-1", "big-2"}
    assert (
        f"several notebooks (two_3_1_a.ipynb, two_3_1_b.ipynb); copy the right one to grading/submitted/two-3/{UNIT}/{UNIT}.ipynb"
        in "".join(lines)
    )
    for word in ("20 MB", "several notebooks", "two students have this name", "does not say who", "cannot be unpacked"):
        assert len([line for line in lines if word in line]) >= 1, word
    assert len(lines) == 6


GARBLED = {"empty": b"", "cut off": ONE[:50], "binary": b"\xff\xfe"}


@pytest.mark.parametrize("bad", [*GARBLED.values(), notebook("x", OTHER)], ids=[*GARBLED, "another unit's"])
def test_what_cannot_be_graded_replaces_nothing_that_can(course, capsys, bad):
    name = f"ada_1_9_{UNIT}.ipynb"
    collect(course, capsys, pack(course, **{name: ONE}))
    status, out, (line,) = collect(course, capsys, pack(course, **{name: bad, f"ben_2_9_{UNIT}.ipynb": TWO}))
    assert status == 2 and "1 new or changed" in out
    assert line.startswith(f"autograder: {name}: ") and "(not taken: the earlier one of ada-1 stays)" in line
    assert handed_in(course) == {"ada-1": ONE, "ben-2": TWO}
    assert not (course / "grading/replaced").exists()


@pytest.mark.parametrize("bad", GARBLED.values(), ids=GARBLED)
def test_a_damaged_notebook_is_taken_where_there_is_no_better_one_and_named_each_time(course, capsys, bad):
    for content in (b"earlier", bad, bad):
        source = pack(course, **{f"ada_1_9_{UNIT}.ipynb": content, f"ben_2_9_{UNIT}.ipynb": TWO})
        status, _, (line,) = collect(course, capsys, source)
        assert status == 2 and f"ada_1_9_{UNIT}.ipynb: not a " in line and "without points" in line
        assert handed_in(course) == {"ada-1": content, "ben-2": TWO}
    assert collect(course, capsys, pack(course, **{f"ada_1_9_{UNIT}.ipynb": ONE}))[0] == 0
    assert handed_in(course)["ada-1"] == ONE


def test_a_notebook_of_another_unit_is_not_taken_at_all(course, capsys):
    source = pack(course, **{f"ada_1_9_{UNIT}.ipynb": notebook("x", OTHER), f"ben_2_9_{UNIT}.ipynb": TWO})
    status, _, (line,) = collect(course, capsys, source)
    assert status == 2 and "another unit" in line and line.endswith("(not taken)")
    assert set(handed_in(course)) == {"ben-2"}


def test_who_sent_no_notebook_is_named(course, capsys):
    source = pack(
        course,
        **{
            f"ada_1_9_{UNIT}.ipynb": ONE,
            "ada_1_9_notes.pdf": b"",
            f"ben_2_9_{UNIT}.py": b"",
            "ben_2_9_notes.pdf": b"",
            "cara_3_text.html": b"",
            "Dora Low_4_assignsubmission_file_/work.html": b"",
            "readme.txt": b"",
        },
    )
    status, _, lines = collect(course, capsys, source)
    assert status == 2 and set(handed_in(course)) == {"ada-1"}
    assert lines == [
        f"autograder: ben_2_9_{UNIT}.py and 1 more: no notebook; ask for {UNIT}.ipynb",
        f"autograder: cara_3_text.html: no notebook; ask for {UNIT}.ipynb",
        f"autograder: Dora Low_4_assignsubmission_file_/work.html: no notebook; ask for {UNIT}.ipynb",
    ]


def test_a_zip_file_of_a_student_is_opened(course, capsys):
    inner = packed({"up/work.ipynb": ONE, "__MACOSX/._work.ipynb": b"", "data.csv": b"1"})
    whole = packed({f"course/{OTHER}.ipynb": notebook("x", OTHER), f"course/{UNIT}.ipynb": TWO})
    files = {"ada_1_9_x.zip": inner, "ben_2_9_x.zip": whole, f"cara_3_9_{UNIT}.ipynb": ONE, "cara_3_9_x.zip": whole}
    assert collect(course, capsys, pack(course, **files))[::2] == (0, [])
    assert handed_in(course) == {"ada-1": ONE, "ben-2": TWO, "cara-3": ONE}


def long_list(entries: int) -> bytes:
    """A zip file that lists so many entries, and holds none."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 8, 1, *[0] * 6) + b"a"
    size = len(entry) * entries
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, entries, entries, size, 0)
    end += struct.pack("<4sLQL", b"PK\6\7", 0, size, 1)
    return entry * entries + end + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[2**16 - 1] * 2, *[2**32 - 1] * 2, 0)


def bomb() -> bytes:
    """A small zip file that unpacks to more than a notebook may have."""
    memory = io.BytesIO()
    archive = zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("a.ipynb", "w") as entry:
        for _ in range((FILE_CAP >> 20) + 1):
            entry.write(b" " * 2**20)
    return memory.getvalue()


ODD_ZIPS = {
    "bzip2": packed({"a.ipynb": b" " * (90 << 20)}, zipfile.ZIP_BZIP2),
    "lzma": packed({"a.ipynb": ONE}, zipfile.ZIP_LZMA),
    "a long list": long_list(60_000),
    "nested": packed({"inner.zip": packed({"a.ipynb": ONE})}),
    "cut off": packed({"a.ipynb": ONE})[:60],
    "none": b"PK",
    "upwards": packed({"../../up.ipynb": ONE}),
    "bomb": bomb(),
    "two": packed({"a.ipynb": ONE, "b.ipynb": TWO}),
    "many": packed({f"{number}.ipynb": ONE for number in range(30)}),
}


@pytest.mark.parametrize("content", ODD_ZIPS.values(), ids=ODD_ZIPS)
def test_a_zip_file_that_gives_no_notebook_costs_its_student_alone(course, capsys, content):
    source = pack(course, **{"ada_1_9_x.zip": content, f"ben_2_9_{UNIT}.ipynb": TWO})
    status, _, (line,) = collect(course, capsys, source)
    assert status == 2 and "ada_1_9_x.zip" in line
    assert handed_in(course) == {"ben-2": TWO}


def test_a_zip_file_that_takes_long_costs_its_student_alone(course, capsys, monkeypatch):
    """Each notebook in it is read to find the right one, and each of these unpacks to a lot."""
    monkeypatch.setattr("autograder.lms.collect_submissions.SECONDS_FOR_ONE", 0.5)
    slow = b'{"cells": [' + b" " * (60 << 20) + b"]}"
    source = pack(course, **{"ada_1_9_x.zip": packed({f"{n}.ipynb": slow for n in range(9)})})
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr(f"ben_2_9_{UNIT}.ipynb", TWO)
    status, _, (line,) = collect(course, capsys, source)
    assert status == 2 and line.endswith(f"ada_1_9_x.zip: takes too long to read; ask for {UNIT}.ipynb alone")
    assert handed_in(course) == {"ben-2": TWO}


@pytest.mark.parametrize("content", [ODD_ZIPS["bzip2"], ODD_ZIPS["a long list"]], ids=["bzip2", "a long list"])
def test_a_small_zip_file_takes_little_memory(tmp_path, content):
    file = File("x.zip", lambda: content)
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable):
            _notebooks([file], UNIT)[0].read()
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_folder_may_be_deeper_than_python_calls(course, capsys, tmp_path):
    source, here = tmp_path / "all", os.getcwd()
    for name in ("ada_1_9_x.ipynb", "ben_2_9_x.ipynb"):
        source.mkdir(exist_ok=True)
        (source / name).write_bytes(ONE)
    os.chdir(source)
    try:
        for _ in range(1_200):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(here)
        assert collect(course, capsys, source)[::2] == (0, [])
    finally:
        os.chdir(here)
        subprocess.run(["rm", "-rf", source], check=True)  # what Python cannot remove either
    assert set(handed_in(course)) == {"ada-1", "ben-2"}


def attempts(*names: str, number: int = 1) -> dict[str, bytes]:
    """The attempts of one student on Canvas by their names, each with words of its own."""
    return {name: notebook(f"{number}: {name}") for name in names}


@pytest.mark.parametrize(
    "names",
    [
        (f"ada_1_7_{UNIT}-9.ipynb", f"ada_1_9_{UNIT}.ipynb", f"ada_1_8_{UNIT}-10.ipynb"),
        (f"ada_1_7_v1.{UNIT}.final.ipynb", f"ada_1_8_v1-1.{UNIT}.final.ipynb", f"ada_1_9_v1-2.{UNIT}.final.ipynb"),
        ("ada_1_8_x.ipynb.txt", "ada_1_9_x.ipynb-1.txt", "ada_1_10_x-2.ipynb"),
    ],
    ids=["numbers", "before the first dot", "a browser's name"],
)
def test_of_attempts_on_canvas_the_last_counts(course, capsys, names):
    files = attempts(*names)
    status, _, lines = collect(course, capsys, pack(course, **files))
    assert (status, lines) == (0, [f"autograder: ada-1: 3 notebooks; took the last, {names[2]}"])
    assert handed_in(course) == {"ada-1": files[names[2]]}


@pytest.mark.parametrize("stem", [UNIT, "homework", "My Work"])
def test_a_damaged_last_attempt_is_named_and_not_preferred(course, capsys, stem):
    names = (f"ada_1_7_{stem}.ipynb", f"ada_1_8_{stem}-1.ipynb", f"ada_LATE_1_9_{stem}-2.ipynb")
    files = attempts(*names)
    good = files[names[1]]
    status, _, lines = collect(course, capsys, pack(course, **{**files, names[2]: files[names[2]][:60]}))
    assert status == 2 and handed_in(course) == {"ada-1": good}
    assert len(lines) == 2 and "ada-1: 3 notebooks; took the last that can be graded, ada_1_8_" in lines[0]
    assert lines[1].startswith(f"autograder: {names[2]}: ") and "passed over for an earlier one of ada-1" in lines[1]
    assert collect(course, capsys, pack(course, **files))[0] == 0
    assert handed_in(course) == {"ada-1": files[names[2]]}


def test_of_attempts_that_are_all_damaged_the_last_is_taken_without_points(course, capsys):
    names = [f"ada_1_{number}_{UNIT}-{number}.ipynb" for number in (1, 2, 3)]
    status, _, (line,) = collect(course, capsys, pack(course, **{name: name.encode() for name in names}))
    assert status == 2 and names[2] in line and "without points" in line
    assert handed_in(course) == {"ada-1": names[2].encode()}


def said(course: Path, student: str) -> tuple[str, bool, str | None] | None:
    found = read_said(course / "grading/submitted" / student / UNIT)
    return (found.by, found.late, found.time) if found else None


def test_canvas_says_who_is_late_in_its_own_part_of_the_name_alone(course, capsys):
    names = (f"ada_LATE_1_8_{UNIT}.ipynb", f"ben_2_9_LATE_{UNIT}.ipynb", f"cara_3_9_x_LATE_3_9_{UNIT}.ipynb")
    status, _, lines = collect(course, capsys, pack(course, **attempts(*names)))
    assert (status, len(lines)) == (0, 1) and "late, as the system itself says: ada-1; lms.json" in lines[0]
    assert [said(course, student) for student in ("ada-1", "ben-2", "cara-3")] == [
        ("Canvas", True, None),
        ("Canvas", False, None),
        ("Canvas", False, None),
    ]
    assert not list(course.glob("grading/submitted/*/*/timestamp.txt"))


def test_whether_it_is_late_is_said_of_the_attempt_that_counts(course, capsys):
    early, late = f"ada_1_8_{UNIT}.ipynb", f"ada_LATE_1_9_{UNIT}-1.ipynb"
    files = attempts(early, late)
    collect(course, capsys, pack(course, **{**files, late: b"{"}))
    assert said(course, "ada-1") == ("Canvas", False, None)
    collect(course, capsys, pack(course, **files))
    assert said(course, "ada-1") == ("Canvas", True, None)
    collect(course, capsys, pack(course, **{late.replace("LATE_", ""): files[late]}))
    assert said(course, "ada-1") == ("Canvas", False, None), "the same notebook, since excused"


@pytest.mark.parametrize("older", [f"ada_1_8_{UNIT}-1.ipynb", f"ada_LATE_1_7_{UNIT}.ipynb", "ada_1_8_x.zip"])
def test_an_older_upload_of_canvas_replaces_nothing(course, capsys, older):
    collect(course, capsys, pack(course, **{f"ada_1_9_{UNIT}-2.ipynb": TWO}))
    files = {older: packed({"x.ipynb": ONE}) if older.endswith("zip") else ONE, f"ben_2_3_{UNIT}.ipynb": ONE}
    status, _, (line,) = collect(course, capsys, pack(course, **files))
    assert status == 2 and handed_in(course) == {"ada-1": TWO, "ben-2": ONE}
    assert "not taken, it is older than what ada-1 has; to have it all the same, copy it to grading/submitted/" in line
    assert collect(course, capsys, pack(course, **{f"ada_1_10_{UNIT}-3.ipynb": ONE}))[0] == 0
    assert handed_in(course)["ada-1"] == ONE


@pytest.mark.parametrize("name", [f"Ada Low_7_assignsubmission_file_/{UNIT}.ipynb", f"ada-low/{UNIT}.ipynb"])
def test_an_older_download_replaces_nothing(course, capsys, name):
    def download(content: bytes, day: int) -> Path:
        path = course / "submissions.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo(name, (2026, 3, day, 12, 0, 0)), content)
        return path

    assert collect(course, capsys, download(TWO, 5))[0] == 0
    assert collect(course, capsys, download(TWO, 3))[::2] == (0, []), "the same notebook"
    status, _, (line,) = collect(course, capsys, download(ONE, 4))
    assert status == 2 and "older than what ada-low has" in line and handed_in(course) == {"ada-low": TWO}
    assert collect(course, capsys, download(ONE, 6))[0] == 0 and handed_in(course) == {"ada-low": ONE}


def test_an_older_folder_replaces_nothing(course, capsys, tmp_path):
    path = tmp_path / "all" / "ada" / "x.ipynb"
    path.parent.mkdir(parents=True)
    for content, time, status in ((TWO, 5e8, 0), (ONE, 4e8, 2), (TWO, 3e8, 0), (ONE, 6e8, 0)):
        path.write_bytes(content)
        os.utime(path, (time, time))
        assert collect(course, capsys, tmp_path / "all")[0] == status
    assert handed_in(course) == {"ada": ONE}


@pytest.mark.parametrize("where", [".", "a", "a/b"])
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_a_path_that_a_person_typed_may_go_through_links(course, capsys, tmp_path, where, kind):
    real, name = tmp_path / "real", f"ada_1_8_{UNIT}.ipynb"
    (real / where / "all").mkdir(parents=True)
    (real / where / "all" / name).write_bytes(ONE)
    (real / where / "all" / f"ben_2_9_{UNIT}.ipynb").symlink_to(course / "notebooks" / UNIT / f"{UNIT}.ipynb")
    pack(real / where, **{name: ONE})
    (real / where / "roster.csv").write_text(CANVAS + '"Byron, Ada",1,s1,ada,A\n"Low, Ben",2,s2,ben,A\n')
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "roster").symlink_to(real / where / "roster.csv")
    source = tmp_path / "link" / where / ("all" if kind == "folder" else "submissions.zip")
    for roster in (tmp_path / "link" / where / "roster.csv", tmp_path / "roster"):
        status, _, lines = collect(course, capsys, source, "--roster", roster)
        assert handed_in(course) == {"ada": ONE}, "a link below the path is not followed"
        assert (status, len(lines)) == ((2, 1) if kind == "folder" else (0, 0))


@pytest.mark.parametrize("what", ["none", "folder"])
def test_a_roster_that_cannot_be_read_is_one_line_about_it(tmp_path, what):
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotUsable, match=r"cannot be read .*is the path right, and is it yours"):
        read_roster(tmp_path / what)


@pytest.mark.parametrize("end", [".ipynb.txt", ".ipynb.json", ".IPYNB.txt", ".ipynb"])
@pytest.mark.parametrize("name", ["ada_1_8_x{}", "Ada_7_assignsubmission_file_/x{}", "ada/x{}"])
def test_a_notebook_is_one_whatever_a_browser_added_to_its_name(course, capsys, end, name):
    assert collect(course, capsys, pack(course, **{name.format(end): ONE}))[::2] == (0, [])
    assert list(handed_in(course).values()) == [ONE]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"])
def test_a_notebook_in_another_encoding_is_read(course, capsys, encoding):
    content = ONE.decode().encode(encoding)
    assert collect(course, capsys, pack(course, **{f"ada_1_8_{UNIT}.ipynb": content}))[::2] == (0, [])
    assert [cell.source for cell in read_bytes(content, "x")] == [cell.source for cell in read_bytes(ONE, "x")]


@pytest.mark.parametrize("names", [("ada\\03.ipynb", "ben\\03.ipynb"), ("Ada_7_assignsubmission_file_\\x.ipynb",)])
def test_a_download_with_backslashes_between_parts_is_read(course, capsys, names):
    more = {f"{names[0].partition(chr(92))[0]}\\.ipynb_checkpoints\\x-checkpoint.ipynb": TWO, "empty\\": b""}
    assert collect(course, capsys, pack(course, **dict.fromkeys(names, ONE), **more))[::2] == (0, [])
    assert handed_in(course) == dict.fromkeys(("ada", "ben")[: len(names)], ONE)


def test_a_students_zip_file_with_backslashes_is_read(course, capsys):
    inner = packed(
        {"work\\x.ipynb": ONE, "work\\.ipynb_checkpoints\\x-checkpoint.ipynb": TWO, "__MACOSX\\x.ipynb": TWO}
    )
    assert collect(course, capsys, pack(course, **{"ada_1_8_x.zip": inner}))[::2] == (0, [])
    assert handed_in(course) == {"ada-1": ONE}


def test_a_download_that_was_packed_once_more_is_read(course, capsys):
    inner = packed({f"ada_1_8_{UNIT}.ipynb": ONE, f"ben_2_9_{UNIT}.ipynb": TWO})
    assert collect(course, capsys, pack(course, **{"submissions (1).zip": inner, "__MACOSX/x": b""}))[::2] == (0, [])
    assert handed_in(course) == {"ada-1": ONE, "ben-2": TWO}


@pytest.mark.parametrize("name", ["Zoë Müller", "Ángel Nuñez", "Å Ö"])
def test_names_that_look_alike_are_one(course, capsys, name):
    one, other = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    assert one != other
    files = {f"{one}_1_assignsubmission_file_/notes.txt": b"", f"{other}_1_assignsubmission_file_/x.ipynb": ONE}
    assert collect(course, capsys, pack(course, **files))[0] == 0
    (student,) = handed_in(course)
    folder = course / "grading" / "submitted" / student
    folder.rename(folder.with_name(unicodedata.normalize("NFD", student)))
    for spelling in (one, other):
        source = pack(course, **{f"{spelling}_1_assignsubmission_file_/{UNIT}.ipynb": notebook(spelling)})
        assert collect(course, capsys, source)[0] == 0
    assert len(handed_in(course)) == 1
    for id_of, spelling in ((one, other), (other, one)):
        roster = roster_of(course, f"Full name\n{spelling}\n")
        made = table("moodle", [Student(plain_id(id_of), marks={UNIT: 1})], [UNIT], roster)
        made_by_hand = table("moodle", [Student(id_of.replace(" ", "-"), marks={UNIT: 1})], [UNIT], roster)
        assert (made.students, made_by_hand.students) == (1, 1)


def test_a_second_worksheet_with_more_columns_doubles_nobody(course, capsys):
    source, people = pack(course, **{f"Ada_1_assignsubmission_file_/{UNIT}.ipynb": ONE}), course / "roster.csv"
    head, row = "Identifier,Full name,Email address", "Participant 1,Ada,ada@x.edu"
    for more, cell in (("", ""), (",ID number", ",4711"), (",Username,ID number", ",adal,4711")):
        people.write_text(f"{head}{more}\n{row}{cell}\nParticipant 2,Ben,ben@x.edu{cell and cell + '0'}\n")
        collect(course, capsys, source, "--roster", people)
        assert handed_in(course) == {"ada@x.edu": ONE}
    source = pack(course, **{f"Ben_2_assignsubmission_file_/{UNIT}.ipynb": TWO})
    collect(course, capsys, source, "--roster", people)
    assert set(handed_in(course)) == {"ada@x.edu", "adal"}, "who is new has the best ID"


def test_a_roster_that_comes_later_doubles_nobody_on_canvas(course, capsys):
    source, roster = pack(course, **{f"byronada_1_8_{UNIT}.ipynb": ONE}), course / "roster.csv"
    roster.write_text(CANVAS + '"Byron, Ada",1,s1,ada,A\n')
    for words in ([], ["--roster", roster], []):
        collect(course, capsys, source, *words)
        assert handed_in(course) == {"byronada-1": ONE}


@pytest.mark.parametrize("login", ["", "0123456789abcdef0123456789abcdef01234567"])
def test_canvas_test_student_is_nobody(course, capsys, login):
    names, roster = (f"studenttest_9_8_{UNIT}.ipynb", f"ada_1_7_{UNIT}.ipynb"), course / "roster.csv"
    source = pack(course, **dict.fromkeys(names, ONE))
    roster.write_text(
        CANVAS + f'"Byron, Ada",1,s1,ada,A\n"{"Eleve, Test" if login else "Student, Test"}",9,,{login},A\n'
    )
    for words in ([] if not login else ["--roster", roster], ["--roster", roster]):
        status, _, (line,) = collect(course, capsys, source, *words)
        assert status == 0 and f"{names[0]}: not taken, it is of Canvas's Test Student" in line
    assert len(handed_in(course)) == 1
    made = table("canvas", [Student(login or "test-student", number="9", marks={UNIT: 1})], [UNIT], read_roster(roster))
    assert made.students == 0


def test_moodles_extension_is_kept(course, capsys):
    source = pack(course, **{f"Ada_1_assignsubmission_file_/{UNIT}.ipynb": ONE})
    status = "Submitted for grading - Extension granted until: Friday{} 6 March 2026{} 5:00 PM"
    people = course / "roster.csv"
    for comma, until in ((",", "2026-03-06 17:00:00 UTC"), (" the", None)):
        words = '"' + status.format(comma, comma) + '"'
        people.write_text(f"{WORKSHEET}Participant 1,Ada,ada@x.edu,{words},,100,Yes,-,-,\n")
        lines = collect(course, capsys, source, "--roster", people)[2]
        assert read_said(course / "grading/submitted/ada@x.edu" / UNIT).until == until
        assert [until] == [None] * len(lines) or not lines


def moodle(course: Path, *people: tuple[str, str, str]) -> list[str | Path]:
    """--roster and a worksheet of (name, status, last modified), numbered from 1."""
    rows = [
        f'Participant {number},{name},{name.lower()}@x.edu,{status},,100.00,Yes,"{time}",-,\n'
        for number, (name, status, time) in enumerate(people, 1)
    ]
    (course / "roster.csv").write_text(WORKSHEET + "".join(rows), encoding="utf-8")
    return ["--roster", course / "roster.csv"]


def test_moodles_worksheet_says_when_it_came(course, capsys):
    files = {f"{name}_{n}_assignsubmission_file_/{UNIT}.ipynb": ONE for n, name in enumerate(("Ada", "Ben"), 1)}
    source = pack(course, **files)
    late = ("Ben", "Submitted for grading - 2 days 3 hours late", "Friday, 20 February 2026, 5:00 PM")
    words = moodle(course, ("Ada", "Submitted for grading", "Tuesday, 17 February 2026, 9:05 AM"), late)
    status, _, lines = collect(course, capsys, source, *words)
    assert (status, len(lines)) == (0, 1) and "late, as the system itself says: ben@x.edu" in lines[0]
    assert said(course, "ada@x.edu") == ("Moodle", False, "2026-02-17 09:05:00 UTC")
    assert said(course, "ben@x.edu") == ("Moodle", True, "2026-02-20 17:00:00 UTC")
    note = course / "grading/submitted/ben@x.edu" / UNIT / "timestamp.txt"
    assert read_timestamp(note) == datetime.datetime(2026, 2, 20, 17)
    note.write_text("2026-02-18 00:00 UTC")
    collect(course, capsys, source, *words)
    assert note.read_text() == "2026-02-18 00:00 UTC", "what an instructor wrote holds as long as Moodle says the same"
    collect(course, capsys, source, *moodle(course, ("Ada", "", "-"), ("Ben", "", "Friday, 20 February 2026, 6:00 PM")))
    assert read_timestamp(note) == datetime.datetime(2026, 2, 20, 18)
    assert said(course, "ben@x.edu") == ("Moodle", False, "2026-02-20 18:00:00 UTC")
    assert (course / f"grading/replaced/ben@x.edu/{UNIT}/1/timestamp.txt").read_text() == "2026-02-18 00:00 UTC"


def test_moodles_times_are_of_the_zone_that_is_set(course, capsys):
    with open(course / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write('c.Exchange.timezone = "Europe/Berlin"\n')
    source = pack(course, **{f"Ada_1_assignsubmission_file_/{UNIT}.ipynb": ONE})
    collect(course, capsys, source, *moodle(course, ("Ada", "", "Wednesday, 17 June 2026, 9:05 AM")))
    assert said(course, "ada@x.edu") == ("Moodle", False, "2026-06-17 07:05:00 UTC")


@pytest.mark.parametrize(
    "words", ["venerdì, 20 febbraio 2026, 17:00", "05/06/2026, 17:00", "Friday", "20 February 2026"]
)
def test_a_time_that_is_none_is_said_and_not_guessed(course, capsys, words):
    source = pack(course, **{f"Ada_1_assignsubmission_file_/{UNIT}.ipynb": ONE})
    status, _, (line,) = collect(course, capsys, source, *moodle(course, ("Ada", "", words)))
    assert status == 2 and f"no time that can be read, such as '{words}'" in line
    assert not (course / "grading/submitted/ada@x.edu" / UNIT / "timestamp.txt").exists()
    assert handed_in(course) == {"ada@x.edu": ONE}


def test_a_name_without_letters_is_one_line_and_a_roster_mends_it(course, capsys):
    source = pack(
        course, **{f"🎉_1_assignsubmission_file_/{UNIT}.ipynb": ONE, f"Ben_2_assignsubmission_file_/{UNIT}.ipynb": TWO}
    )
    status, _, (line,) = collect(course, capsys, source)
    assert status == 2 and "🎉_1_" in line and "no letter to make an ID of; give --roster" in line
    assert handed_in(course) == {"ben": TWO}
    assert collect(course, capsys, source, *moodle(course, ("Ada", "", "-"), ("Ben", "", "-")))[::2] == (0, [])
    assert handed_in(course) == {"ben": TWO, "ada@x.edu": ONE, "ben@x.edu": TWO}


def test_a_sender_with_mark_up_is_refused(course, capsys):
    files = {
        f"<img src=x onerror=alert(1)>_1_assignsubmission_file_/{UNIT}.ipynb": ONE,
        f"b\u202en_2_9_{UNIT}.ipynb": ONE,
    }
    status, _, lines = collect(course, capsys, pack(course, **files, **{f"cara_3_9_{UNIT}.ipynb": TWO}))
    assert status == 2 and handed_in(course) == {"cara-3": TWO}
    assert len([line for line in lines if "markup or letters that cannot be seen" in line]) == len(lines) == 2


def test_joiners_are_letters_of_many_names(course, capsys):
    source = pack(course, **{f"علی\u200cرضا_1_assignsubmission_file_/{UNIT}.ipynb": ONE})
    assert collect(course, capsys, source)[::2] == (0, [])
    assert list(handed_in(course).values()) == [ONE]


def test_a_nickname_in_quotation_marks_is_a_name(course, capsys):
    (course / "roster.csv").write_text(CANVAS + '"Anderson, James ""Jim""",7,,jim,A\n', encoding="utf-8")
    source = pack(course, **{f"andersonjames_7_9_{UNIT}.ipynb": ONE})
    assert collect(course, capsys, source, "--roster", course / "roster.csv")[::2] == (0, [])
    with Gradebook(f"sqlite:///{course / 'grading' / 'gradebook.db'}", "attention") as book:
        (student,) = book.students
        assert '"' not in f"{student.first_name} {student.last_name}" and student.last_name == "Anderson"


def test_names_in_utf_8_that_are_not_marked_so_are_read(course, capsys):
    """As Apple's Finder packs them."""
    name = f"Jörg_7_assignsubmission_file_/{UNIT}.ipynb"
    plain = packed({name.replace("ö", "XX"): ONE}).replace(b"JXXrg", "Jörg".encode())
    (course / "x.zip").write_bytes(plain)
    assert collect(course, capsys, course / "x.zip")[::2] == (0, []) and handed_in(course) == {"jörg": ONE}


def test_mark_up_in_a_roster_reaches_no_page_of_nbgraders(course, capsys):
    words = moodle(course, ("<img src=x onerror=alert(1)>", "", "-"))
    status, _, (line,) = collect(
        course,
        capsys,
        pack(course, **{f"img src=x onerror=alert(1)_1_assignsubmission_file_/{UNIT}.ipynb": ONE}),
        *words,
    )
    assert status == 2 and "holds markup; not entered" in line
    with Gradebook(f"sqlite:///{course / 'grading' / 'gradebook.db'}", "attention") as book:
        (student,) = book.students
        assert not (student.first_name or student.last_name) and "<" not in student.id


@pytest.mark.parametrize("other", ["(ada)", "Ada", "ada!"])
def test_two_folders_that_give_one_id_are_not_one_student(course, capsys, other):
    source = pack(course, **{f"ada/{UNIT}.ipynb": ONE, f"{other}/{UNIT}.ipynb": TWO, f"ben/{UNIT}.ipynb": TWO})
    status, _, lines = collect(course, capsys, source)
    assert status == 2 and handed_in(course) == {"ben": TWO}
    assert len(lines) == 2 and all("two students have this name; rename one" in line for line in lines)


@pytest.mark.parametrize("names", [(f"{UNIT}.ipynb", f"{UNIT}_v2.ipynb"), (f"{UNIT}.ipynb", f"{UNIT}-1.ipynb")])
def test_of_several_notebooks_on_moodle_none_is_guessed(course, capsys, names):
    folder = "Ada Byron_7_assignsubmission_file_"
    status, _, (line,) = collect(course, capsys, pack(course, **{f"{folder}/{name}": ONE for name in names}))
    assert status == 2 and all(name in line for name in names)
    assert f"copy the right one to grading/submitted/ada-byron/{UNIT}/{UNIT}.ipynb" in line


def test_of_several_notebooks_the_one_of_the_unit_is_taken(course, capsys):
    source = pack(course, **{"ada_1_8_a.ipynb": notebook("x", OTHER), "ada_1_9_b.ipynb": ONE})
    assert collect(course, capsys, source)[0] == 0
    assert handed_in(course) == {"ada-1": ONE}


GERMAN = (
    "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Bewertung kann geändert werden,"
    "Zuletzt geändert (Abgabe),Kommentar\n"
)
FRENCH = "Identifiant,Nom,Numéro d'identification,Courriel,Statut,Note,Note maximale\n"


@pytest.mark.parametrize(
    "text",
    [
        GERMAN + "Teilnehmer/in811,Ada Byron,ada@x.edu,Keine Abgabe,,100,Ja,-,\n"
        'Teilnehmer/in812,Ben O\'Low,ben@x.edu,Zur Bewertung abgegeben,,100,Ja,"Freitag, 20. März 2026, 17:00",\n',
        FRENCH + "Participant 811,Ada Byron,,ada@x.edu,Remis,-,20\nParticipant 812,Ben O'Low,7,ben@x.edu,Remis,-,20\n",
        "Kennung,Name,Correo\nOsallistuja811,Byron Ada,ada@x.edu\nOsallistuja812,Low Ben O',ben@x.edu\n",
    ],
    ids=["German", "French", "another order"],
)
def test_a_worksheet_in_another_language_is_read_by_its_structure(course, capsys, text):
    roster = course / "roster.csv"
    roster.write_text(text, encoding="utf-8")
    names = (f"Ada Byron_811_assignsubmission_file_/{UNIT}.ipynb", f"Ben OLow_812_assignsubmission_file_/{UNIT}.ipynb")
    status, _, lines = collect(course, capsys, pack(course, **dict.fromkeys(names, ONE)), "--roster", roster)
    assert handed_in(course) == {"ada@x.edu": ONE, "ben@x.edu": ONE}
    assert status == 0 and "not in English, so that nobody's time or lateness is read" in lines[0]
    with pytest.raises(NotUsable, match="the column of grades is not known"):
        table("moodle", [Student("ada@x.edu", marks={UNIT: 1})], [UNIT], read_roster(roster))


@pytest.mark.parametrize(
    "hidden", ["Teilnehmer/in811,Zur Bewertung abgegeben,-,100\n", "Participant 811,Submitted,-,5\n"]
)
def test_a_worksheet_without_names_names_nobody(tmp_path, hidden):
    roster = roster_of(tmp_path, "ID,Status,Bewertung,Bestwertung\n" + hidden)
    assert [(person.number, person.name) for person in roster.people] == [("811", "")]


def test_a_groups_hand_in_is_nobodys_in_particular(course, capsys):
    words = moodle(course, ("Ada Byron", "", "-"), ("Ben Low", "", "-"), ("Cara", "", "-"))
    files = (
        *(
            f"Team Ada_1_assignsubmission_file_/{UNIT}.ipynb",
            f"Team Blue-Ben Low_2_assignsubmission_file_/{UNIT}.ipynb",
        ),
        *(f"Default group_assignsubmission_file_/{UNIT}.ipynb", f"Cara_3_assignsubmission_file_/{UNIT}.ipynb"),
    )
    status, _, lines = collect(course, capsys, pack(course, **dict.fromkeys(files, ONE)), *words)
    assert status == 2 and set(handed_in(course)) == {"ben low@x.edu".replace(" ", "-"), "cara@x.edu"}
    assert len(lines) == 2 and "Default group" in lines[0] and "a hand-in of a group" in lines[0]
    assert "Team Ada_1_" in lines[1] and "number 1 is Ada Byron in " in lines[1] and "of each member" in lines[1]


def test_canvas_without_names_is_one_line(course, capsys):
    files = (f"anon_aB3dE_90210_{UNIT}.ipynb", f"LATE_anon_Zz9xY_90211_{UNIT}-1.ipynb", "anon_q1W2e_text.html")
    status, _, (line,) = collect(course, capsys, pack(course, **dict.fromkeys(files, ONE)))
    assert status == 2 and handed_in(course) == {}
    assert "and 2 more: not taken, Canvas left out who it was; turn off anonymous grading" in line


def test_canvas_with_numbers_alone_needs_a_roster(course, capsys):
    names = {f"4711_90210_{UNIT}.ipynb": ONE, f"LATE_4712_90211_{UNIT}.ipynb": TWO, f"99_1_{UNIT}.ipynb": TWO}
    source, roster = pack(course, **names), course / "roster.csv"
    status, _, lines = collect(course, capsys, source)
    assert (status, len(lines), handed_in(course)) == (2, 3, {}) and all("give --roster" in line for line in lines)
    roster.write_text(CANVAS + '"Byron, Ada",4711,s1,ada,A\n"Low, Ben",4712,s2,ben,A\n', encoding="utf-8")
    status, _, lines = collect(course, capsys, source, "--roster", roster)
    assert handed_in(course) == {"ada": ONE, "ben": TWO} and said(course, "ben") == ("Canvas", True, None)
    assert status == 2 and any("the number 99 alone says who it is, and" in line for line in lines)


def test_who_is_not_in_the_roster_is_named(course, capsys):
    roster = course / "roster.csv"
    roster.write_text(CANVAS + '"Byron, Ada",1,s1,ada,A\n', encoding="utf-8")
    source = pack(course, **{f"a_1_8_{UNIT}.ipynb": ONE, f"stranger_9999_9_{UNIT}.ipynb": TWO})
    status, _, (line,) = collect(course, capsys, source, "--roster", roster)
    assert status == 2 and "number 9999 is not in" in line and "taken as stranger-9999" in line
    assert handed_in(course) == {"ada": ONE, "stranger-9999": TWO}


def test_a_roster_of_another_course_is_refused(course, capsys):
    roster = course / "roster.csv"
    roster.write_text(CANVAS + '"Byron, Ada",1,s1,ada,A\n', encoding="utf-8")
    source = pack(course, **{f"c_8_8_{UNIT}.ipynb": ONE, f"d_9_9_{UNIT}.ipynb": TWO})
    status, out, (line,) = collect(course, capsys, source, "--roster", roster)
    assert (status, out) == (2, "") and "none of the numbers" in line
    assert handed_in(course) == {}


def test_a_place_that_cannot_be_written_costs_its_student_alone(course, capsys):
    (course / "grading/submitted").mkdir()
    (course / "grading/submitted/ada-1").write_text("no folder")
    source = pack(course, **{f"ada_1_8_{UNIT}.ipynb": ONE, f"ben_2_9_{UNIT}.ipynb": TWO})
    status, _, (line,) = collect(course, capsys, source)
    assert status == 2 and "cannot be written" in line and "ada-1" in line
    assert handed_in(course) == {"ben-2": TWO}


def test_nothing_is_written_elsewhere(course, capsys, tmp_path):
    names = (f"../../x/{UNIT}.ipynb", f"/abs/{UNIT}.ipynb", f"..\\..\\win/{UNIT}.ipynb", f"a/../../../up/{UNIT}.ipynb")
    before = {path for path in tmp_path.rglob("*") if "grading" not in path.parts}
    source = pack(course, **dict.fromkeys(names, ONE))
    collect(course, capsys, source)
    after = {path for path in tmp_path.rglob("*") if "grading" not in path.parts}
    assert after - before <= {source}
    for path in (course / "grading").rglob("*"):
        assert stat.S_ISDIR(os.lstat(path).st_mode) or stat.S_ISREG(os.lstat(path).st_mode)


@pytest.mark.parametrize("what", ["none", "text", "empty", "unit", "roster", "roster-columns"])
def test_unusable_input_is_one_line(course, capsys, what):
    source = course / "submissions.zip"
    if what == "text":
        source.write_text("no zip")
    elif what != "none":
        pack(course, **({} if what == "empty" else {f"a_1_1_{UNIT}.ipynb": b"1"}))
    words: list[str | Path] = []
    if what.startswith("roster"):
        (course / "roster.csv").write_bytes(b"\xff\xfe" if what == "roster" else b"colour,taste\n1,2\n")
        words = ["--roster", course / "roster.csv"]
    capsys.readouterr()
    unit = "99_none" if what == "unit" else UNIT
    assert main(["--course", str(course), "collect", unit, str(source), *map(str, words)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("autograder: ") and "Errno" not in err


# --- export ----------------------------------------------------------------------------------------------------------


def table(kind: str, found: list[Student], units: list[str], roster: Roster | None) -> Table:
    """The marks of a course of three units."""
    points = {unit: sum(points_of(unit).values()) for unit in (OTHER, "02_scaled_scores", UNIT)}
    return export_table(kind, found, points, units, roster)


def rows_of(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_plain_ids():
    assert len(plain_id("\U0001d54f" * 80).encode()) <= 200
    assert plain_id("  Ada  Lovelace ") == "ada-lovelace"
    assert plain_id("../../etc/passwd") == "etc-passwd"
    assert plain_id("a,b;c") == "a-b-c"
    assert plain_id("…") == ""


@pytest.mark.parametrize(
    "text", ["_x", "+x", "@x", "ᅟx", "x\u3164", "<b>x", "x" * 300, "\U0001d54f" * 80, "--x", "हिन्दी", " x. "]
)
def test_a_plain_id_is_a_students_id(text):
    assert is_student_id(plain_id(text))


def test_canvas_without_a_roster(tmp_path):
    found = [Student("ada-1", "Ada", "Byron", "", "1", {UNIT: 12.5}), Student("=1+1", marks={UNIT: 3.0})]
    made = table("canvas", found, [UNIT], None)
    write(made.rows, tmp_path / "out.csv")
    assert made.problems == []
    assert rows_of(tmp_path / "out.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", UNIT],
        ["    Points Possible", "", "", "", "", f"{FULL:g}"],
        ["Byron, Ada", "1", "", "", "", "12.5"],
        ["'=1+1", "", "", "'=1+1", "", "3"],
    ]


def roster_of(folder: Path, text: str) -> Roster:
    (folder / "roster.csv").write_text(text, encoding="utf-8")
    return read_roster(folder / "roster.csv")


@pytest.mark.parametrize("header", [WORKSHEET, WORKSHEET.replace("m G", "m g"), WORKSHEET.upper(), WORKSHEET.lower()])
def test_a_worksheet_of_moodle_is_filled_in_and_scaled(tmp_path, header):
    rest = 'Yes,"Friday, 20 February 2026, 5:00 PM",-,'
    people = (
        f'Participant 7,Ada Byron,ada@x.edu,Submitted,,"100,00",{rest}\n'
        f"Participant 8,Ben,ben@x.edu,Submitted,,10,{rest}\n"
    )
    found = [
        Student("ada@x.edu", marks={UNIT: FULL / 2}),
        Student("ben", marks={UNIT: FULL}),
        Student("x", marks={UNIT: 1}),
    ]
    made = table("moodle", found, [UNIT], roster_of(tmp_path, header + people))
    assert made.students == 2
    (problem,) = made.problems
    assert problem.startswith("x: not in ")
    assert made.rows[0] == header.strip().split(",")
    assert [row[:6] for row in made.rows[1:]] == [
        ["Participant 7", "Ada Byron", "ada@x.edu", "Submitted", "50.00", "100,00"],
        ["Participant 8", "Ben", "ben@x.edu", "Submitted", "10.00", "10"],
    ]
    assert made.rows[1][6:] == ["Yes", "Friday, 20 February 2026, 5:00 PM", "-", ""]


def test_a_worksheet_keeps_its_rows_in_their_order(tmp_path):
    people = (
        "Participant 9,Zoë,zoe@x.edu,No submission,-,10,Yes,-,-,\n"
        'Participant 7,Ada,ada@x.edu,Submitted,-,10,Yes,-,-,"a; b"\n'
        "Participant 8,Ben,ben@x.edu,Submitted,3.00,10,No,-,-,\n"
    )
    roster = roster_of(tmp_path, WORKSHEET + people)
    made = table("moodle", [Student("ada", marks={UNIT: FULL}), Student("zoe", marks={OTHER: 1})], [UNIT], roster)
    write(made.rows, tmp_path / "out.csv")
    assert made.students == 1
    assert rows_of(tmp_path / "out.csv") == [
        *rows_of(tmp_path / "roster.csv")[:2],
        ["Participant 7", "Ada", "ada@x.edu", "Submitted", "10.00", "10", "Yes", "-", "-", "a; b"],
        ["Participant 8", "Ben", "ben@x.edu", "Submitted", "3.00", "10", "No", "-", "-", ""],
    ]
    assert '"a; b"' in (tmp_path / "out.csv").read_text()


def test_who_handed_in_nothing_has_a_zero_if_wished(tmp_path):
    people = "Test Student,3,s3,{digest},A\n".format(digest="a" * 40)
    roster = roster_of(tmp_path, CANVAS + "Zed,1,s1,zed,A\nAda,2,s2,ada,A\n" + people)
    found = [Student("ada", marks={UNIT: 1}), Student("nobody", marks={UNIT: 1})]
    points = {UNIT: FULL, OTHER: 1.0}
    made = export_table("canvas", found, points, [], roster, zeros=True)
    assert [[row[0], row[-1]] for row in made.rows[2:]] == [["Zed", "0"], ["Ada", "1"]] and len(made.problems) == 1
    sheet = (
        "Participant 7,Ada,ada@x.edu,Submitted,-,10,Yes,-,-,\n"
        "Participant 8,Ben,ben@x.edu,No submission,,10,Yes,-,-,\n"
        "Participant 9,Zoë,zoe@x.edu,No submission,3.00,10,Yes,-,-,\n"
    )
    made = export_table("moodle", found, points, [UNIT], roster_of(tmp_path, WORKSHEET + sheet), zeros=True)
    assert [row[4] for row in made.rows[1:]] == [f"{10 / FULL:.2f}", "0.00", "3.00"]


@pytest.mark.parametrize("cell", ["a;b", "a\tb", 'a"b', "a,b", "a|b"])
def test_what_any_separator_stands_in_is_quoted(cell):
    (row,) = csv.reader([csv_line(["x", cell, ""])])
    assert row == ["x", cell, ""]
    assert csv_line([cell]).startswith('"') and csv_line(["a b", "-"]) == "a b,-\r\n"


def test_a_place_that_cannot_be_written_is_one_line(course):
    (course / "file").write_text("")
    with pytest.raises(NotUsable, match=r"cannot be written .*--out"):
        write([["a"]], course / "file" / "marks.csv")
    with pytest.raises(NotUsable, match="cannot be written"):
        write([["a"]], course / "grading")
    assert not list(course.rglob("*.part"))


def test_without_a_roster_it_is_said_what_canvas_cannot_match(tmp_path):
    found = [
        Student("ada-1", number="1", marks={UNIT: 1}),
        *(Student(name, marks={UNIT: 1}) for name in ("b", "c", "d", "e")),
    ]
    (line,) = table("canvas", found, [UNIT], None).notes
    assert line == (
        f"Canvas can match b, c, d and 1 more by login alone, if these are logins, and {UNIT} with no assignment, "
        "so it makes a new one; give its exported gradebook by --roster"
    )
    roster = roster_of(tmp_path, CANVAS + "Ada,1,s1,ada,A\n")
    assert table("canvas", found[:1], [UNIT], roster).notes == table("moodle", found, [UNIT], None).notes == []


def test_a_worksheet_without_a_maximum_is_refused(tmp_path):
    roster = roster_of(tmp_path, "Identifier,Full name,Grade\nParticipant 7,Ada Byron,\n")
    with pytest.raises(NotUsable, match="without the column Maximum Grade"):
        table("moodle", [Student("ada-byron", marks={UNIT: 1})], [UNIT], roster)


def test_a_moodle_number_is_nobody_in_particular(tmp_path):
    roster = roster_of(tmp_path, WORKSHEET + "Participant 7,Ada Byron,ada@x.edu,,,100,,,,\n")
    made = table("moodle", [Student("somebody", number="7", marks={UNIT: 1})], [UNIT], roster)
    assert made.students == 0 and made.problems[0].startswith("somebody: not in ")


def test_a_name_that_is_chosen_gives_nobody_elses_marks(tmp_path):
    """Eve calls herself by Ada's login, and has an address that begins with it."""
    mark = {UNIT: 20}
    both = '"Byron, Ada",1,s1,ada,A\nada,2,s2,eve,A\n'
    made = table("canvas", [Student("ada", marks=mark)], [UNIT], roster_of(tmp_path, CANVAS + both))
    assert (made.students, made.rows[-1][1]) == (1, "1")
    found = [Student("ada", marks=mark), Student("eve", marks={UNIT: 3})]
    made = table("canvas", found, [UNIT], roster_of(tmp_path, CANVAS + "ada,2,s2,eve,A\n"))
    assert made.students == 1 and made.rows[-1][-1] == "3"
    assert made.problems[0].startswith("ada: named like ada, who has other work")


@pytest.mark.parametrize("quote", ["", '"'])
def test_commas_in_titles_separate_none(tmp_path, quote):
    titles = f"Student;ID;SIS Login ID;Section;{quote}Lab 1, part a, b, c, d, late (3){quote};{UNIT} (4711)\n"
    roster = roster_of(tmp_path, titles + "Byron, Ada;1;ada;A;;\n")
    assert table("canvas", [Student("ada", marks={UNIT: 1})], [UNIT], roster).rows[-1] == [
        "Byron, Ada",
        "1",
        "ada",
        "A",
        "1",
    ]


@pytest.mark.parametrize("most", ["1000.00", "1000,00", "1,000.00", "1.000,00"])
def test_a_maximum_is_read_however_a_country_writes_it(tmp_path, most):
    text = WORKSHEET + f'Participant 7,Ada Byron,ada,,,"{most}",Yes,-,-,\n'
    made = table("moodle", [Student("ada", marks={UNIT: FULL / 2})], [UNIT], roster_of(tmp_path, text))
    assert made.rows[1][4] == "500.00"


def test_a_units_column_is_known_whatever_its_capitals(tmp_path):
    roster = roster_of(tmp_path, f'Student,ID,{UNIT.upper()} (4711)\n"Byron, Ada",1,\n')
    assert (
        table("canvas", [Student("byron-ada-1", number="1", marks={UNIT: 1})], [UNIT], roster)
        .rows[0][-1]
        .endswith("(4711)")
    )


@pytest.mark.parametrize("number", ["4711", "4711.0", "Participant 4711", "Teilnehmer/in4711"])
def test_a_number_is_one_however_it_is_written(tmp_path, number):
    roster = roster_of(tmp_path, f'Student,ID\n"Byron, Ada","{number}"\n"Low, Ben","4,712"\n')
    assert roster.by_number("4711") is not None and roster.by_number("712") is roster.by_number("0") is None


def test_of_two_columns_that_hold_a_units_name_the_exact_one_is_filled(tmp_path):
    head = f"Student,ID,SIS Login ID,Section,{UNIT} resit (4712)"
    found, row = [Student("ada", marks={UNIT: 1})], '\n"Byron, Ada",1,ada,A,,\n'
    made = table("canvas", found, [UNIT], roster_of(tmp_path, f"{head},{UNIT} (4711){row}"))
    assert made.rows[0][-1] == f"{UNIT} (4711)"
    with pytest.raises(NotUsable, match="leave one of them in the file"):
        table("canvas", found, [UNIT], roster_of(tmp_path, f"{head},{UNIT} retake (4711){row}"))


def test_semicolons_and_two_of_one_name(tmp_path):
    roster = roster_of(tmp_path, "Vorname;First name;Last name\n;Ada;Byron\n;Ada;Byron\n;Ben;Low\n")
    found = [Student("ada-byron", marks={UNIT: 1}), Student("ben-low", marks={UNIT: 2})]
    made = table("moodle", found, [UNIT], roster)
    assert made.rows[1:] == [["Ben", "Low", "2"]]
    (problem,) = made.problems
    assert problem.startswith("ada-byron: fits 2 rows of ")


@pytest.mark.parametrize("kind", ["canvas", "moodle"])
def test_one_person_under_several_ids_is_one_row(tmp_path, kind):
    roster = roster_of(tmp_path, CANVAS + '"Byron, Ada",1,s1,ada@x.edu,A\n"Low, Ben",2,s2,ben,A\n')
    found = [
        Student("ada@x.edu", marks={UNIT: 1, OTHER: 2}),
        Student("ben", marks={UNIT: 3}),
        Student("byronada-1", number="1", marks={UNIT: 1, "02_scaled_scores": 4}),
    ]
    made = table(kind, found, [], roster)
    assert (made.students, made.problems) == (2, [])
    assert [row[5:] for row in made.rows[-2:]] == [["2", "4", "1"], ["", "", "3"]]


def test_one_person_with_two_marks_of_one_unit_is_not_exported(tmp_path):
    roster = roster_of(tmp_path, CANVAS + '"Byron, Ada",1,s1,ada,A\n"Low, Ben",2,s2,ben,A\n')
    found = [Student("ada", marks={UNIT: 1}), Student("ada-byron", marks={UNIT: 2}), Student("ben", marks={UNIT: 3})]
    made = table("canvas", found, [], roster)
    assert [row[0] for row in made.rows[2:]] == ["Byron, Ada", "Low, Ben"]
    (problem,) = made.problems
    assert problem.startswith("ada-byron: named like Ada Byron, who has other work; not exported.")
    assert "nbgrader db student remove" in problem


def test_nothing_graded_is_one_line(course, capsys):
    (course / "grading/gradebook.db").unlink()
    assert main(["--course", str(course), "export", "--format", "canvas"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autograder: nothing has been graded yet; run `autograder grade` first")
