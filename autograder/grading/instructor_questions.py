"""Gives verdicts on an instructor's own questions: tests that are run in the sandbox, and answers that a person marks.

A test shares its process with the answer, so no text from that process may describe a hidden test: messages about
hidden tests are written here. Only a visible test, which students have in their notebooks, may use its own words. A
visible test is run before any hidden test has been sent, so that its words cannot contain a hidden one.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import Any

from ..reading.cell_syntax import definitions
from ..reading.read_assignment import Assignment
from ..records import BY_HAND, TESTS, Answer, Call, CellOutcome, Failure, Question, Transplanted, Verdict
from ..running.sandbox_messages import read_failure
from ..running.submission_session import Session
from ..safe_text import listed
from ..worker.encode_values import BadValue

WAITS = "Waits for your instructor."
HIDDEN = "A hidden test of your instructor's fails"
#: Names of exceptions that reveal nothing.
KNOWN = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
)


class TestRequest:
    """Describes a test to run, in the form in which an exercise's cases are sent."""

    __test__ = False  # pytest must not collect it
    payload = b""
    for_marks = True

    def __init__(self, name: str, source: str) -> None:
        self._test = {"name": name, "source": source}

    def header(self) -> dict[str, Any]:
        return {"test": self._test}

    def transcript(self) -> TestTranscript:
        return TestTranscript()

    def reply(self, header: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """Refuse, because a test asks nothing of the host."""
        return {"raise": "RuntimeError", "message": "nothing can be asked here"}, b""

    def pause(self, header: Mapping[str, Any], seconds: float) -> float:
        """Return 0, because the time of such an answer reveals nothing."""
        return 0.0


class TestTranscript:
    """Receives the one frame in which a test reports how it went."""

    __test__ = False

    def __init__(self) -> None:
        self.answer = Answer()

    def take(self, header: Mapping[str, Any], payload: bytes) -> bool:
        """Take that frame. Raises BadValue for any other."""
        if header.get("event") != "outcome" or self.answer.calls:
            raise BadValue("an unexpected frame")
        failure = read_failure(header["error"]) if "error" in header else None
        self.answer.calls.append(Call(_number(header.get("number")), failure))
        return True


def _number(text: Any) -> float | None:
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > 64:
        raise BadValue("a number")
    try:
        return float(text)
    except ValueError:
        raise BadValue("a number") from None


def own_verdicts(
    assignment: Assignment, submission: Transplanted, outcomes: Mapping[str, CellOutcome], session: Session
) -> dict[str, Verdict]:
    """Return the verdicts on all questions that are not exercises of the course.

    Call it only after the exercises of the course have been asked.
    """
    verdicts = {q.name: _by_hand(assignment, q, submission) for q in assignment.of_kind(*BY_HAND)}
    answers = answers_of_tests(assignment)
    asked = []
    for question in assignment.of_kind(TESTS):
        if _is_answered(assignment, answers[question.cell], submission):
            asked.append(question)
        else:
            names = answers[question.cell]
            words = f"You have not written {listed(names) if names else 'the answer'} yet."
            notes = filter(None, map(submission.notes.get, names))
            verdicts[question.name] = _verdict(assignment, question, "missing", " ".join([*notes, words]))
    shown = {q.cell: session.ask(TestRequest(q.cell, _visible(assignment, q))) for q in asked}
    for question in asked:
        hidden = question.source != _visible(assignment, question)
        whole = session.ask(TestRequest(question.cell, question.source)) if hidden else shown[question.cell]
        verdict = _judged(assignment, question, shown[question.cell], whole, answers[question.cell])
        verdicts[question.name] = _with_cells(verdict, answers[question.cell], outcomes, submission)
    return verdicts


def answers_of_tests(assignment: Assignment) -> dict[str, list[str]]:
    """Return each own test's answer cells: the one with the test's name, or else all since the previous graded cell."""
    names = [_name(cell) for cell in assignment.release.cells if cell.cell_type == "code" and _is_answer(cell)]
    found: dict[str, list[str]] = {}
    before: list[str] = []
    over = False
    tests = {question.cell for question in assignment.of_kind(TESTS)}
    graded = {question.cell for question in assignment.questions}
    for cell in assignment.release.cells:
        name = _name(cell)
        if name in names:
            before = [name] if over else [*before, name]
            over = False
        elif name in graded:
            over = True
            if name in tests:
                short = name.removeprefix("test_")
                found[name] = [short] if short in names else list(before)
    return found


def _is_answer(cell: Any) -> bool:
    marks = cell.metadata.get("nbgrader", {})
    return bool(marks.get("solution")) and not marks.get("grade")


def _name(cell: Any) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id") or "")


def _visible(assignment: Assignment, question: Question) -> str:
    return next(cell.source for cell in assignment.release.cells if _name(cell) == question.cell)


def _is_answered(assignment: Assignment, answers: list[str], submission: Transplanted) -> bool:
    """Return whether anything was written, in one of the cells or elsewhere under a name that they define."""
    if not answers or any(name in submission.answers for name in answers):
        return True
    stubs = [cell.source for cell in assignment.release.cells if _name(cell) in answers]
    wanted = {name for stub in stubs for name in definitions(stub)}
    theirs = [cell.source for cell in submission.cells if cell.kind != "given"]
    return any(wanted & set(definitions(source)) for source in theirs if any(name in source for name in wanted))


def _judged(assignment: Assignment, question: Question, shown: Answer, whole: Answer, answers: list[str]) -> Verdict:
    """Return what the whole test earns; if its visible part alone fails too, the message uses that part's words."""
    call = whole.calls[0] if whole.calls else None
    if whole.status == "answered" and call is not None and call.failure is None:
        return _passed(assignment, question, call.value)
    if whole.status == "timeout":
        return _verdict(assignment, question, "timeout", f"With your instructor's test: {whole.reason}")
    if whole.status != "answered" or call is None:
        reason = re.sub(r" \(exit \d+\)", "", whole.reason)  # the process chooses that number
        return _verdict(assignment, question, "crashed", f"With your instructor's test: {reason}")
    kind = call.failure.type_name
    if any(map(call.failure.is_stub, answers)):
        return _verdict(assignment, question, "missing", "You have not written it yet (NotImplementedError).")
    first = shown.calls[0] if shown.status == "answered" and shown.calls else None
    in_test = call.failure.cell == question.cell and kind != "NameError"  # the answer is not what the test expects
    name = "wrong" if kind == "AssertionError" or in_test else "crashed"
    if first is not None and first.failure is not None:
        return _verdict(assignment, question, name, _said(assignment, question, first.failure))
    return _verdict(assignment, question, name, f"{HIDDEN} ({kind if kind in KNOWN else 'an exception'}).")


def _passed(assignment: Assignment, question: Question, value: float | None) -> Verdict:
    points = question.worth
    if value is None:
        return _verdict(assignment, question, "right", "Right: your instructor's tests pass.", 1.0)
    if not 0 <= value <= points:  # also false for NaN
        words = f"Your instructor's test gives no number of points from 0 to {points:g}. Tell your instructor."
        return _verdict(assignment, question, "crashed", words)
    if not points:
        return _verdict(assignment, question, "right", "Your instructor's test ends in a number.", 1.0)
    words = f"Your instructor's test gives {value:g} of {points:g} points."
    return _verdict(assignment, question, "right" if value == points else "wrong", words, value / points)


def _said(assignment: Assignment, question: Question, failure: Failure) -> str:
    """Say how a visible test fails. Students have that test, so its words may be repeated."""
    if failure.type_name == "AssertionError" and not failure.message and failure.cell == question.cell and failure.line:
        lines = _visible(assignment, question).splitlines()
        line = lines[failure.line - 1].strip() if failure.line <= len(lines) else ""
        return f"A test of your instructor's fails: {line[:300]}" if line else "A test of your instructor's fails."
    return f"A test of your instructor's fails: {failure.described(question.name)}."


def _with_cells(
    verdict: Verdict, answers: list[str], outcomes: Mapping[str, CellOutcome], submission: Transplanted
) -> Verdict:
    """Return the verdict, or the cell's own failure as the reason if an answer's cell did not run."""
    notes = [submission.notes[name] for name in answers if name in submission.notes]
    if verdict.verdict in ("wrong", "crashed") and not verdict.share:
        for name in answers:
            outcome = outcomes.get(name)
            failure = outcome.failure if outcome is not None else None
            if outcome is not None and outcome.status in ("timeout", "died"):
                died = "ended the whole process" if outcome.status == "died" else "timed out"
                kind = "crashed" if outcome.status == "died" else "timeout"
                verdict = _changed(verdict, kind, f"The cell of {name} {died}.")
            elif failure is not None and failure.is_stub(name):
                verdict = _changed(verdict, "missing", f"You have not written {name} yet (NotImplementedError).")
            elif failure is not None:
                verdict = _changed(verdict, "crashed", f"The cell of {name} does not run: {failure.described(name)}.")
    return _changed(verdict, verdict.verdict, " ".join([*notes, verdict.message])) if notes else verdict


def _changed(verdict: Verdict, kind: str, message: str) -> Verdict:
    return Verdict(verdict.unit, verdict.function, 1.0, verdict.share or 0.0, kind, None, message, advice=message)


def _by_hand(assignment: Assignment, question: Question, submission: Transplanted) -> Verdict:
    name = question.cell
    if name in submission.words or name in submission.answers or name in submission.below:
        return _verdict(assignment, question, "waiting", WAITS)
    note = submission.notes.get(name)
    left = "You have not written anything here yet."
    return _verdict(assignment, question, "missing", f"{note} {left}" if note else left)


def _verdict(assignment: Assignment, question: Question, kind: str, message: str, share: float = 0.0) -> Verdict:
    """Return a verdict as if the question were worth one point."""
    message = re.sub(r"\s+", " ", message)
    return Verdict(assignment.name, question.name, 1.0, share, kind, None, message, advice=message)
