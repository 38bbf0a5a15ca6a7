"""A term of an instructor's: a class, three units, and a course that changes while it is taught.

After each step gradebook, pages, report, nbgrader's export and the files for Canvas and Moodle say the same, to the
cent, as the account that the test keeps; or a command has refused and said why. By day a small class, the first five
steps, and one of the places after each; by night thirty students, all steps and all places.
"""

from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.running.sandbox import preflight
from lanes import nightly
from own_course import BANDED, BANDED_TEST, answer, code_by_hand, task, test_cell, words
from places import agree, exported, table
from term import BLANK, PARTLY, RIGHT, RUBBISH, RULE, UNITS, Term, cell_of

ONE, TWO, THREE = UNITS
QUIZ = "quiz"
pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]


@pytest.mark.parametrize(("size", "each_time", "steps"), nightly([(6, 1, 5), (30, 8, None)]))
def test_a_term(tmp_path, size, each_time, steps):
    term = Term(tmp_path, size, each_time)
    for step in STEPS[:steps]:
        print(f"--- {step.__name__}")
        step(term)


def the_first_run(term: Term) -> None:
    term.generate()
    term.hand_in("s01", ONE, embed=RUBBISH, soft_lookup=PARTLY, attention_parameters=RIGHT)
    term.hand_in("s02", ONE, embed=RUBBISH)
    term.hand_in("s03", ONE, project_qkv=BLANK)
    term.hand_in("s04", THREE, leaks_future=RUBBISH, causal_mask=RIGHT)
    term.hand_in("s05", THREE, causal_mask=RUBBISH, masked_softmax=RIGHT)
    term.hand_in("s06", TWO, softmax=PARTLY)
    for student, time in (
        ("s01", "2026-03-02 09:00 UTC"),
        ("s02", "2026-03-01 12:00 UTC"),
        ("s03", "2026-03-05 10:00 UTC"),
    ):
        term.stamp(student, ONE, time)
    term.grade()
    assert len(term.judged) == len(term.given)
    agree(term)
    assert "have not changed" in term.grade() and not term.judged


def marks_by_hand(term: Term) -> None:
    term.mark("s01", ONE, "embed", 0.75)
    term.mark("s02", ONE, "embed", 0.5, extra=0.25)
    term.mark("s03", ONE, "soft_lookup", None, extra=0.75)
    term.mark("s04", THREE, "leaks_future", 2.5)
    term.comment("s03", ONE, "project_qkv", "Write something, *whatever* it is.")
    term.do("feedback")
    agree(term)
    assert "Write something," in term.page("s03", ONE) and "hanged by hand" in term.page("s01", ONE)
    assert "s01, 01_projections, embed: by hand 0.75" in term.do("marks")
    term.grade()
    assert not term.judged


def points_in_nbgraders_panel(term: Term) -> None:
    term.worth(THREE, "causal_mask", 5)
    term.worth(ONE, "soft_lookup", 2.5)
    before = term.do("grade", status=2)
    assert "test_soft_lookup has other points" in before and "run `autograder release 01_projections`" in before
    assert "autograder release" in term.do("export", "--format", "canvas", status=2)
    term.do("release", ONE, THREE)
    assert "the gradebook has other questions or points" in term.do("export", "--format", "canvas", status=2)
    said = term.grade()
    assert "test_causal_mask is worth 5 instead of 1 points" in said and not term.judged
    agree(term)


def points_by_generate_assignment(term: Term) -> None:
    term.worth(TWO, "softmax", 1.5)
    term.worth(TWO, "attention", 7)
    term.nbgrader("generate_assignment", TWO, "--force")
    term.grade()
    assert not term.judged
    agree(term)


def new_work_under_marks_by_hand(term: Term) -> None:
    term.hand_in("s01", ONE, embed=RIGHT)
    term.hand_in("s02", ONE, embed=RIGHT)
    term.hand_in("s04", THREE, causal_mask=RUBBISH)
    assert "are new, or changed" in term.do("export", "--format", "moodle", status=2)
    said = term.grade()
    assert sorted(term.judged) == [("s01", ONE), ("s02", ONE), ("s04", THREE)]
    for student in ("s01", "s02"):
        assert f"{student}: the mark by hand of embed was given for another answer; decide with" in said
    assert "leaks_future" not in said.partition("autograder: ")[2], "this answer is as it was when it was marked"
    agree(term, anyway=True)
    assert "another answer: s01 (01_projections, test_embed)" in term.do("export", "--format", "canvas", status=2)
    term.do("marks", "--student", "s01", "--keep")
    term.do("marks", ONE, "--question", "embed", "--new")
    term.by_hand.pop(("s02", ONE, "embed"))
    term.grade()
    assert not term.judged
    agree(term)


def a_question_is_excluded_and_put_back(term: Term) -> None:
    said = term.do("exclude", "leaks_future")
    assert "1 entry by hand kept aside" in said
    term.entry(THREE, "leaks_future").excluded = True
    agree(term)
    term.do("release", "--check", *UNITS)
    term.do("exclude", "03_masking/leaks_future", status=2)
    assert "1 entry by hand put back" in term.do("exclude", "leaks_future", "--undo")
    term.entry(THREE, "leaks_future").excluded = False
    agree(term)


def late_work(term: Term) -> None:
    term.nbgrader("db", "assignment", "add", ONE, "--duedate", "2026-03-03 18:00 UTC")
    term.deadline[ONE] = "2026-03-03 18:00 UTC"
    assert "another deadline" in term.do("export", "--format", "canvas", status=2)
    with open(term.root / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write('c.AssignLatePenalties.plugin_class = "late_policy.Rule"\n')
    rule = term.root / "late_policy.py"
    rule.write_text(RULE.format("1.5"))
    term.rule = always
    assert "another deadline" in term.do("export", "--format", "canvas", status=2)
    term.grade()
    assert not term.judged
    assert term.due()[ONE, "s03"].penalty == 1.5
    agree(term)
    rule.write_text(RULE.format("score / 2 if score > 3 else 0"))
    term.rule = half
    term.grade()
    agree(term)
    with term.gradebook() as book:
        book.update_or_create_assignment(ONE, duedate="2026-03-01 18:00 UTC")
    term.deadline[ONE] = "2026-03-01 18:00 UTC"
    term.grade()
    assert term.due()[ONE, "s01"].penalty > 0
    agree(term)
    term.mark("s01", ONE, "project_token", 0.5)
    term.do("feedback", ONE, "--student", "s01")
    term.stamp("s01", ONE, "yesterday at noon")
    said = term.grade()
    assert said.count("s01, 01_projections: timestamp.txt cannot be read") == 1
    term.came.pop(("s01", ONE))
    assert not term.judged
    agree(term)


def always(score: float) -> float:
    return 1.5


def half(score: float) -> float:
    return score / 2 if score > 3 else 0.0


def nbgraders_own_autograde(term: Term) -> None:
    term.hand_in("s05", THREE, causal_mask=RIGHT, masked_softmax=PARTLY)
    term.hand_in("s04", THREE, leaks_future=RIGHT)
    for student in ("s04", "s05"):
        term.nbgrader("autograde", THREE, "--student", student, "--force")
    agree(term, anyway=True)
    assert "leaks_future" in term.do("marks", THREE)
    term.grade()
    assert not term.judged
    term.do("marks", "--new")
    term.by_hand.pop(("s04", THREE, "leaks_future"))
    agree(term)


def more_than_the_maximum(term: Term) -> None:
    term.mark("s06", TWO, "softmax", 99)
    term.grade()
    assert not term.judged
    assert "s06: " in term.do("export", "--format", "canvas", status=2)
    agree(term, anyway=True)
    term.mark("s06", TWO, "softmax", 1.4)
    term.grade()
    agree(term)


def own_questions(term: Term) -> None:
    """Own questions of all kinds, and an exercise of the course taken out of a notebook."""
    with term.edited(THREE) as notebook:
        notebook.cells += [answer("banded_mask", BANDED), test_cell("test_banded_mask", BANDED_TEST, 4)]
    term.asks(THREE, "banded_mask", "test_banded_mask", 4, "tests")
    term.solved["banded_mask"] = BANDED
    with term.edited(TWO) as notebook:
        notebook.cells += [words("why", 3), code_by_hand("sketch", 2)]
    term.asks(TWO, "why", "why", 3, "manual")
    term.asks(TWO, "sketch", "sketch", 2, "manual")
    with term.edited(ONE) as notebook:
        notebook.cells.append(task("draw", 5))
    term.asks(ONE, "draw", "draw", 5, "task")
    cells = [new_code_cell("import numpy as np", id="imports"), answer("banded_mask", BANDED)]
    cells += [test_cell("test_banded_mask", BANDED_TEST, 6), words("essay", 4)]
    path = term.path("solutions", QUIZ)
    path.parent.mkdir()
    nbformat.write(new_notebook(cells=cells, metadata=notebook.metadata), path)
    term.asks(QUIZ, "banded_mask", "test_banded_mask", 6, "tests")
    term.asks(QUIZ, "essay", "essay", 4, "manual")
    term.do("release", *UNITS, QUIZ)
    answers = ("s01", RIGHT), ("s02", RUBBISH), ("s03", BLANK)
    for student, how in answers:
        term.hand_in(student, THREE, banded_mask=how)
        term.hand_in(student, QUIZ, banded_mask=how, essay=BLANK if how == BLANK else f"What {student} thinks.")
        term.hand_in(student, TWO, why=BLANK if how == BLANK else f"{student} says so.", sketch=BLANK)
        term.hand_in(student, ONE, draw=BLANK if how == BLANK else f"What {student} drew.")
    term.hand_in("s04", TWO, why=BLANK, sketch="x = 3")
    term.grade()
    assert len(term.judged) == len(term.given)
    due = term.due()
    assert [due[THREE, student].marks["banded_mask"][0] for student, _ in answers] == [4, 0, 0]
    agree(term, anyway=True)
    assert "waiting for a person's mark" in term.do("export", "--format", "canvas", status=2)
    assert "waits for your instructor" in term.page("s01", QUIZ)
    for student in ("s01", "s02"):
        term.mark(student, TWO, "why", 2.75 if student == "s01" else 0)
        term.mark(student, ONE, "draw", 4.5)
        term.mark(student, QUIZ, "essay", 4)
    term.comment("s02", TWO, "why", "No reason given.")
    agree_not_yet = term.do("export", "--format", "canvas", status=2)
    assert "s04 (02_scaled_scores, sketch)" in agree_not_yet
    term.mark("s04", TWO, "sketch", 2)
    term.grade()
    assert not term.judged
    agree(term)
    term.do("exclude", "03_masking/banded_mask")
    term.entry(THREE, "banded_mask").excluded = True
    agree(term)
    term.do("exclude", "03_masking/banded_mask", "--undo")
    term.entry(THREE, "banded_mask").excluded = False


def an_exercise_goes_and_a_cell_is_renamed(term: Term) -> None:
    with term.edited(TWO) as notebook:
        gone = [cell_of(notebook, name) for name in ("softmax_jacobian", "test_softmax_jacobian")]
        places = [notebook.cells.index(cell) for cell in gone]
        for cell in gone:
            notebook.cells.remove(cell)
        cell_of(notebook, "why").metadata.nbgrader.grade_id = "because"
    entry = term.entry(TWO, "why")
    entry.name = entry.cell = "because"
    for place in [place for place in term.by_hand if place[1:] == (TWO, "why")]:
        term.by_hand[(*place[:2], "because")] = term.by_hand.pop(place)
    for (_, unit), answers in term.given.items():
        if unit == TWO and "why" in answers:
            answers["because"] = answers.pop("why")
    jacobian = term.asked[TWO].pop(next(i for i, e in enumerate(term.asked[TWO]) if e.name == "softmax_jacobian"))
    term.nbgrader("generate_assignment", TWO, "--force")
    term.grade()
    assert {unit for _, unit in term.judged} == {TWO}
    agree(term)
    assert "No reason given." in term.page("s02", TWO)
    with term.edited(TWO) as notebook:
        for place, cell in zip(places, gone, strict=True):
            notebook.cells.insert(place, cell)
    term.asked[TWO].append(jacobian)
    term.do("release", TWO)
    term.grade()
    agree(term)


def an_upgrade_of_the_course(term: Term) -> None:
    with term.edited(ONE) as notebook:
        cell = cell_of(notebook, "embed")
        cell.source = cell.source.replace('"""', '"""In other words: ', 1)
        assert "In other words" in cell.source
    with term.edited(TWO) as notebook:
        notebook.cells[0].source += "\n\nA new sentence."
    term.do("release", ONE, TWO)
    term.grade()
    assert {unit for _, unit in term.judged} == {ONE}
    agree(term)
    assert "A new sentence." in term.page("s01", TWO)
    term.nbgrader("export", "--to", str(term.root / "grading" / "plain.csv"))
    exported(term)
    assert table(term.root / "grading" / "plain.csv") == table(term.root / "grading" / "grades.csv")
    assert "have not changed" in term.grade() and not term.judged


STEPS = (
    the_first_run,
    marks_by_hand,
    points_in_nbgraders_panel,
    points_by_generate_assignment,
    new_work_under_marks_by_hand,
    a_question_is_excluded_and_put_back,
    late_work,
    nbgraders_own_autograde,
    more_than_the_maximum,
    own_questions,
    an_exercise_goes_and_a_cell_is_renamed,
    an_upgrade_of_the_course,
)
