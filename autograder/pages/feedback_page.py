"""Makes one student's feedback page: what to do next at the top, then the notebook with each verdict above its test.

Most of a page is our own prose, which is the same for the whole class, so it is rendered once per text instead of once
per student. A student contributes code and plain text. The page escapes both, and runs and fetches nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from nbformat import NotebookNode

from ..reading.insert_answers import unquoted
from ..reading.read_assignment import EXCLUDED_TAG
from ..records import Graded, Verdict
from ..safe_text import visible
from .answer_picture import picture
from .html_rendering import coloured, rendered, template, with_code

#: How many rendered texts are kept, and the length of the longest: many times our own, and little memory.
TEXTS_KEPT, LONGEST_KEPT = 2_048, 8_000
#: nbgrader's own comment on an unchanged answer cell.
NO_RESPONSE = "No response."
#: Outcome of an answer -> a sign and words, so that the page doesn't rely on colour.
WORDS = {
    "right": ("✓", "right"),
    "partly": ("◐", "partly right"),
    "wrong": ("✗", "wrong"),
    "missing": ("·", "missing"),
    "crashed": ("!", "crashed"),
    "timeout": ("∞", "timed out"),
    "forbidden": ("✗", "forbidden"),
    "waiting": ("…", "waits for your instructor"),
    "marked": ("✎", "marked by your instructor"),
    "excluded": ("–", "does not count"),
}


@dataclass(frozen=True)
class ShownMark:
    """Describes one graded cell: `score` is what counts, with changes by hand; `comment` is the cell with the comment.

    picture: of the first case that fails, if there is one.
    """

    place: str
    name: str
    score: float
    points: float
    outcome: str
    advice: str
    message: str
    by_hand: bool
    comment: str
    picture: str = ""

    @property
    def sign(self) -> str:
        return WORDS[self.outcome][0]

    @property
    def words(self) -> str:
        return WORDS[self.outcome][1]


class FeedbackPages:
    """Makes pages, and keeps the texts that it has rendered."""

    def __init__(self) -> None:
        self._template = template("feedback_page.html")
        self._kept = functools.lru_cache(TEXTS_KEPT)(_html)

    def page(
        self, notebook: NotebookNode, grades: dict[str, Any], graded: Graded, who: str = "", date: str = ""
    ) -> str:
        """Return the page's HTML.

        notebook: has nbgrader's scores and comments in the cells' metadata. grades: nbgrader's score, max_score and
            late_penalty. graded: the verdicts. who: the student's name and ID. date: when the page is made.
        """
        verdicts, cells = {verdict.cell: verdict for verdict in graded.verdicts}, notebook.cells
        marks = {mark.place: mark for mark in _marks(notebook, verdicts)}
        return self._template.render(
            unit=grades["notebook"],
            who=visible(who),
            date=date,
            score=grades["score"],
            points=grades["max_score"],
            penalty=grades["late_penalty"],
            unreadable=graded.verdicts[0].message if graded.problem else "",
            marks=marks,
            cells=[
                (each, _told(each), marks.get(_told(each).get("grade_id")), _comment(each), _words(each))
                for each in cells
            ],
            code=lambda source: self._shown("code", source),
            prose=lambda source: self._shown("prose", source),
            message=with_code,
        )

    def _shown(self, kind: str, source: str) -> Markup:
        return Markup(self._kept(kind, source) if len(source) <= LONGEST_KEPT else _html(kind, source))


def _html(kind: str, source: str) -> str:
    return coloured(source) if kind == "code" else rendered(source)


def _told(cell: NotebookNode) -> dict[str, Any]:
    return cell.metadata.get("nbgrader", {})


def _words(cell: NotebookNode) -> str | None:
    """Return a student's own prose, which is shown as it was typed and never as Markdown; None for ours."""
    if cell.cell_type != "markdown" or not (_told(cell).get("solution") or cell.get("id", "").startswith("extra-")):
        return None
    text = unquoted(cell.source)
    return None if text is None else visible(text)


def _comment(cell: NotebookNode) -> str:
    comment = _told(cell).get("comment") or ""
    return "" if comment == NO_RESPONSE else comment


def _marks(notebook: NotebookNode, verdicts: Mapping[str, Verdict]) -> Iterator[ShownMark]:
    commented = {_told(cell)["grade_id"] for cell in notebook.cells if _comment(cell)}
    for cell in notebook.cells:
        told = _told(cell)
        if not (told.get("grade") or told.get("task")):
            if EXCLUDED_TAG in cell.metadata.get("tags", ()):
                place, words = told["grade_id"], "This question does not count for anybody."
                name, message = place.removeprefix("test_"), verdicts[place].message if place in verdicts else ""
                yield ShownMark(place, name, 0.0, 0.0, "excluded", words, message, False, "")
            continue
        place, score, points = told["grade_id"], float(told["score"] or 0), float(told["points"])
        if told.get("solution") or told.get("task"):
            yield _marked_by_hand(told, score, points, place if place in commented else "")
            continue
        name, verdict = place.removeprefix("test_"), verdicts.get(place)
        outcome, message, advice = _judged(verdict) if verdict else ("", "", "")
        by_hand = bool(verdict) and told.get("by_hand", False)
        if by_hand or outcome not in WORDS or (outcome == "wrong" and score > 0):
            outcome = "right" if score >= points else "partly" if score > 0 else "wrong"
        if outcome == "right":
            advice = ""
        if by_hand and message:
            message = f"The grader said: {message}"
        comment = next((each for each in (name, place) if each in commented), "")
        shown = "" if outcome == "right" or verdict is None else picture(verdict.where)
        yield ShownMark(place, name, score, points, outcome, advice, message, by_hand, comment, shown)


def _judged(verdict: Verdict) -> tuple[str, str, str]:
    """Return the outcome of an answer, all the words about it, and those that are shown first."""
    advice = " ".join(filter(None, (verdict.raised, verdict.advice))) or verdict.message
    return verdict.verdict, verdict.message, "" if verdict.verdict == "right" else advice


def _marked_by_hand(told: dict[str, Any], score: float, points: float, comment: str) -> ShownMark:
    """Describe a cell that only a person can mark."""
    if told.get("waits"):
        outcome, words = "waiting", "Waits for your instructor."
    elif told.get("marked"):
        outcome, words = "marked", ""
    else:
        outcome, words = "missing", "You have not written anything here yet."
    return ShownMark(told["grade_id"], told["grade_id"], score, points, outcome, words, words, False, comment)
