"""The gradebook follows the notebook, whoever has been graded already, and keeps what people entered."""

from __future__ import annotations

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook

import autograder.gradebook.nbgrader_plugin  # noqa: F401 (lets nbgrader find alembic)
from autograder.gradebook.gradebook_migration import migrate, prepare
from own_course import answer, task, test_cell, words

pytestmark = pytest.mark.filterwarnings("ignore:Object of type <Submitted")
UNIT = "quiz"
SUM = [answer("total", "def total(x): ..."), test_cell("test_total", "assert total([1]) == 1", 2)]
WHY = words("why", 3)
DRAW = task("draw", 5)


def bring(book: Gradebook, *cells: NotebookNode) -> list[str]:
    """Bring the gradebook up to a notebook of these cells; what is said about that."""
    return migrate(book, UNIT, new_notebook(cells=[cell.copy() for cell in cells]))


def submit(book: Gradebook, *students: str) -> None:
    for student in students:
        book.update_or_create_student(student)
        book.update_or_create_submission(UNIT, student)
    book.db.commit()


def enter(book: Gradebook, student: str, cell: str, score: float | None, extra: float | None = None) -> None:
    grade = book.find_grade(cell, UNIT, UNIT, student)
    grade.manual_score, grade.extra_credit, grade.needs_manual_grade = score, extra, False
    book.db.commit()


def say(book: Gradebook, student: str, cell: str, text: str) -> None:
    book.find_comment(cell, UNIT, UNIT, student).manual_comment = text
    book.db.commit()


def entered(book: Gradebook, student: str) -> dict[str, tuple]:
    """cell -> (mark by hand, extra credit, points), as nbgrader itself has them."""
    book.db.expire_all()
    found = book.find_submission_notebook(UNIT, UNIT, student).grades
    return {grade.name: (grade.manual_score, grade.extra_credit, grade.max_score) for grade in found}


def comments(book: Gradebook, student: str) -> dict[str, str]:
    book.db.expire_all()
    found = book.find_submission_notebook(UNIT, UNIT, student).comments
    return {comment.name: comment.comment for comment in found if comment.comment}


def renamed(cell: NotebookNode, name: str) -> NotebookNode:
    """Another name in nbgrader's panel: the cell keeps its id."""
    metadata = {"nbgrader": {**cell.metadata.nbgrader, "grade_id": name}}
    return NotebookNode({**cell, "metadata": NotebookNode({"nbgrader": NotebookNode(metadata["nbgrader"])})})


def worth(cell: NotebookNode, points: float) -> NotebookNode:
    return NotebookNode(
        {**cell, "metadata": NotebookNode({"nbgrader": NotebookNode({**cell.metadata.nbgrader, "points": points})})}
    )


@pytest.fixture
def book(tmp_path):
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}", "attention") as found:
        prepare(found)
        yield found


def test_marks_by_hand_above_the_new_points_are_named(book):
    bring(book, *SUM, WHY)
    submit(book, "anna", "ben", "cara")
    for student, score in (("anna", 3), ("ben", 1), ("cara", 2.5)):
        enter(book, student, "why", score)
    said = bring(book, *SUM, worth(WHY, 2))
    assert said[1:] == [
        "quiz: by hand there are more points than why is worth now, 2, of anna, cara; correct these marks in the formgrader"
    ]
    assert len(bring(book, *SUM, worth(WHY, 4))) == 1


def check_all(book: Gradebook) -> None:
    """Everything that may happen to the cells of a graded unit, on one gradebook."""
    assert bring(book, *SUM, WHY) == [], "nobody has been graded: nothing to say"
    submit(book, "anna", "ben")
    assert bring(book, *SUM, WHY) == []
    enter(book, "anna", "test_total", 1.5, 0.25)
    enter(book, "anna", "why", 2)
    enter(book, "ben", "why", None, 1)
    say(book, "anna", "total", "Nearly.")
    say(book, "ben", "why", "Because *of* that.")

    said = bring(book, *SUM, WHY, DRAW)
    assert len(said) == 1 and "draw added" in said[0]
    assert entered(book, "anna") == {"test_total": (1.5, 0.25, 2), "why": (2, None, 3), "draw": (None, None, 5)}
    assert book.find_grade("draw", UNIT, UNIT, "ben").needs_manual_grade
    assert book.find_submission(UNIT, "anna").max_score == 10

    enter(book, "anna", "draw", 4)
    said = bring(book, worth(SUM[1], 7), SUM[0], worth(WHY, 2.5), DRAW)
    assert "test_total is worth 7 instead of 2 points" in said[0] and "why is worth 2.5 instead of 3 points" in said[0]
    assert entered(book, "anna") == {"test_total": (1.5, 0.25, 7), "why": (2, None, 2.5), "draw": (4, None, 5)}
    assert bring(book, *SUM, WHY, DRAW)

    said = bring(book, DRAW)
    assert "test_total, why taken out" in said[0] and "5 entries by hand kept aside" in said[0]
    assert entered(book, "anna") == {"draw": (4, None, 5)} and comments(book, "anna") == {}
    assert book.find_submission(UNIT, "anna").max_score == 5
    assert bring(book, DRAW) == []

    said = bring(book, *SUM, DRAW)
    assert "2 entries by hand put back" in said[0]
    assert entered(book, "anna") == {"test_total": (1.5, 0.25, 2), "draw": (4, None, 5)}
    assert comments(book, "anna") == {"total": "Nearly."}
    said = bring(book, *SUM, renamed(WHY, "because"), DRAW)
    assert "because added" in said[0] and "put back" not in said[0], "a cell that was away is known by its name"
    bring(book, *SUM, DRAW)
    said = bring(book, *SUM, WHY, DRAW)
    assert "3 entries by hand put back" in said[0]
    assert entered(book, "ben")["why"] == (None, 1, 3) and comments(book, "ben") == {"why": "Because *of* that."}

    said = bring(book, *SUM, renamed(WHY, "because"), renamed(DRAW, "drawing"))
    assert "why is now called because" in said[0] and "draw is now called drawing" in said[0]
    assert "added" not in said[0] and "aside" not in said[0]
    assert entered(book, "anna") == {"test_total": (1.5, 0.25, 2), "because": (2, None, 3), "drawing": (4, None, 5)}
    assert comments(book, "ben") == {"because": "Because *of* that."}
    assert book.find_submission(UNIT, "anna").score == 1.5 + 0.25 + 2 + 4


def test_cells_come_and_go_and_what_people_entered_stays(book):
    check_all(book)


def test_another_assignment_is_left_alone(book):
    for unit in (UNIT, "other"):
        migrate(book, unit, new_notebook(cells=[*SUM, WHY]))
        book.update_or_create_student("anna")
        book.update_or_create_submission(unit, "anna")
        book.find_grade("why", unit, unit, "anna").manual_score = 1
    book.db.commit()
    bring(book, *SUM)
    book.db.expire_all()
    assert book.find_grade("why", "other", "other", "anna").manual_score == 1
    assert book.find_submission("other", "anna").max_score == 5


def test_an_answer_that_a_test_marks_from_now_on_keeps_its_comment(book):
    bring(book, WHY)
    submit(book, "anna")
    enter(book, "anna", "why", 2)
    say(book, "anna", "why", "Because.")
    plain = renamed(WHY, "why")
    plain.metadata.nbgrader.update(grade=False)
    plain.metadata.nbgrader.pop("points")
    assert "1 entry by hand kept aside" in bring(book, plain)[0]
    assert entered(book, "anna") == {} and comments(book, "anna") == {"why": "Because."}
    assert "1 entry by hand put back" in bring(book, WHY)[0]
    assert entered(book, "anna") == {"why": (2, None, 3)} and comments(book, "anna") == {"why": "Because."}


def test_what_is_aside_outlives_the_gradebooks_being_closed(tmp_path):
    address = f"sqlite:///{tmp_path / 'gradebook.db'}"
    with Gradebook(address, "attention") as book:
        prepare(book)
        bring(book, *SUM, WHY)
        submit(book, "anna")
        enter(book, "anna", "why", 2)
        bring(book, *SUM)
    with Gradebook(address, "attention") as book:
        prepare(book)
        assert "1 entry by hand put back" in bring(book, *SUM, WHY)[0]
        assert entered(book, "anna")["why"] == (2, None, 3)
