"""Marks by hand: for which answer they were given, what counts, and the commands that decide."""

from __future__ import annotations

import pytest

from autograder.running.sandbox import preflight
from term import BLANK, RIGHT, RUBBISH, UNITS, Term

UNIT, TWO = UNITS[:2]
pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]


def graded(root, **config) -> Term:
    """A class of two, graded. config: settings of nbgrader's CourseDirectory."""
    term = Term(root, 2, 1)
    with open(root / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.writelines(f"c.CourseDirectory.{name} = {value!r}\n" for name, value in config.items())
    term.address = config.get("db_url", term.address)
    term.hand_in("s01", UNIT, embed=RUBBISH)
    term.hand_in("s02", UNIT)
    term.grade()
    return term


def counts(term: Term, student: str, name: str) -> float:
    with term.gradebook() as book:
        return book.find_grade(term.entry(UNIT, name).cell, UNIT, UNIT, student).score


def test_a_mark_by_hand_is_for_one_answer(tmp_path):
    term = graded(tmp_path)
    term.mark("s01", UNIT, "embed", 0.5)
    assert "another answer" not in term.grade() and not term.judged
    assert "by hand 0.5, judged 0, of 1" in term.do("marks")
    term.hand_in("s01", UNIT, soft_lookup=RUBBISH)
    assert "another answer" not in term.grade(), "another exercise was answered anew"
    assert term.judged == [("s01", UNIT)]
    term.hand_in("s01", UNIT, embed=RIGHT)
    assert "s01: the mark by hand of embed was given for another answer" in term.grade()
    assert "ANOTHER answer" in term.do("marks", "--student", "s01")
    assert "decide with `autograder marks`" in term.do("export", "--format", "canvas", status=2)
    assert "No mark was changed" in term.do("marks", "--student", "s02")
    assert counts(term, "s01", "embed") == 0.5
    term.hand_in("s01", UNIT, embed=RUBBISH)
    assert "another answer" not in term.grade(), "it is the answer again that was marked"
    term.do("export", "--format", "canvas")

    term.hand_in("s01", UNIT, embed=RIGHT)
    term.grade()
    assert "1 mark " in term.do("marks", "--keep")
    assert "another answer" not in term.grade() and counts(term, "s01", "embed") == 0.5
    term.hand_in("s01", UNIT, embed=BLANK)
    assert "another answer" in term.grade()
    term.do("marks", "--new", "--question", "soft_lookup")
    assert counts(term, "s01", "embed") == 0.5, "that was about another question"
    term.do("marks", "--new")
    assert counts(term, "s01", "embed") == 0
    assert "another answer" not in term.grade()
    assert "0 marks " in term.do("marks", "--new")


def test_a_unit_that_nobody_graded_keeps_no_other_from_being_exported(tmp_path):
    term = graded(tmp_path)
    term.hand_in("s01", TWO)
    term.do("export", "--format", "canvas")
    term.hand_in("s02", UNIT, embed=BLANK)
    assert "01_projections: 1 notebook is new, or changed" in term.do("export", "--format", "moodle", status=2)


def test_a_gradebook_in_another_place(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    term = graded(tmp_path, db_url=f"sqlite:///{elsewhere / 'marks.db'}")
    term.mark("s01", UNIT, "embed", 0.25)
    term.do("feedback")
    assert "0.25 of 1" in term.page("s01", UNIT)
    term.do("exclude", "soft_lookup")
    assert "s01, 01_projections, embed: by hand 0.25" in term.do("marks")
    assert "0.25*" in term.do("report", UNIT)
    term.do("export", "--format", "canvas")
    rows = (tmp_path / "grading" / "report" / "canvas.csv").read_text().splitlines()
    assert [row.rpartition(",")[2] for row in rows] == [UNIT, "17", "16.25", "17"]
    assert not (tmp_path / "grading" / "gradebook.db").exists()


def test_what_cannot_be_excluded_is_one_line(tmp_path):
    term = Term(tmp_path, 2, 1)
    assert "no question is called 'embet'; did you mean embed" in term.do("exclude", "embet", status=2)
    assert "is not out of the marks" in term.do("exclude", "embed", "--undo", status=2)
    assert "02_scaled_scores/softmax is out of the marks" in term.do("exclude", "2/softmax")
    assert "is out of the marks already" in term.do("exclude", "softmax", status=2)
    (tmp_path / "grading" / "excluded.json").write_text("{")
    assert "excluded.json: cannot be read" in term.do("exclude", "embed", status=2)
    (tmp_path / "grading" / "excluded.json").rename(tmp_path / "grading" / "dropped.json")
    assert "dropped.json: an older version of the course wrote this file" in term.do("exclude", "embed", status=2)


def test_an_excluded_question_is_out_of_the_marks_of_whoever_hands_in_later(tmp_path):
    term = graded(tmp_path)
    term.mark("s02", UNIT, "embed", 0.5)
    term.do("exclude", "embed")
    term.hand_in("s02", UNIT, embed=RUBBISH)
    said = term.grade()
    assert term.judged == [("s02", UNIT)] and "another answer" not in said
    term.do("export", "--format", "canvas")
    term.do("exclude", "embed", "--undo")
    assert counts(term, "s02", "embed") == 0.5
    assert "given by hand for another answer" in term.do("export", "--format", "canvas", status=2)
    assert counts(term, "s01", "embed") == 0
