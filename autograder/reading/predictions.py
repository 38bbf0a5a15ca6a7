"""Reads the predictions that a notebook asks for, and the guesses in a student's notebook.

A cell with the tag `predict` holds the question as comments and one call, `predict("2.1", "b", a="…", b="…")`. In the
solution the second argument is the measured answer; a release has dots instead. A student's cell is untrusted, so a
pattern finds the guess in it, and nothing is run or parsed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from ..records import BadAssignment
from .read_submission import Cell

TAG = "predict"
DOTS = "..."
#: How many letters of a cell are read, and how many a guess may have.
CELL_CAP, GUESS_CAP = 4_000, 40
#: A larger number can't be a guess, because no notebook measures one.
NUMBER_CAP = 1e15
NUMBER = r"[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
TEXT = r'"([^"\n]*)"|\'([^\'\n]*)\''
CALL = re.compile(
    rf"""^[ \t]*predict\([ \t]*["'](\d{{1,3}}\.\d{{1,3}})["'][ \t]*,[ \t]*(?:{TEXT}|({NUMBER})|(\.\.\.))?""",
    re.MULTILINE,
)
Guess = str | float


@dataclass(frozen=True)
class Asked:
    """Holds one prediction that a notebook asks for.

    options: letter -> words; empty if the answer is a number. truth: the letter or number that is measured, or None
        in a release.
    """

    number: str
    question: str
    options: dict[str, str]
    truth: Guess | None


def is_prediction(cell: NotebookNode) -> bool:
    """Return whether a cell of the course asks for a prediction."""
    return cell.cell_type == "code" and TAG in cell.metadata.get("tags", [])


def asked_in(notebook: NotebookNode) -> list[Asked]:
    """Return the predictions that a notebook of the course asks for, in order. Raises BadAssignment."""
    found = []
    for cell in filter(is_prediction, notebook.cells):
        try:
            found.append(_asked(cell))
        except BadAssignment as error:
            raise BadAssignment(f"cell {cell.get('id', '')!r}: {error}") from None
    return found


def without_truth(source: str) -> str:
    """Return a prediction cell's source with dots instead of the measured answer. Raises BadAssignment."""
    truth = _call(source).args[1]
    before, line, after = _split(source, truth.lineno)
    line = line.encode()  # a node's place in its line is counted in bytes
    return before + (line[: truth.col_offset] + DOTS.encode() + line[truth.end_col_offset :]).decode() + after


def guesses_in(cells: Sequence[Cell], asked: Sequence[Asked]) -> dict[str, Guess | None]:
    """Return number -> the student's guess, for each of `asked` that has one.

    The guess is None if it is no option and no number, or if two guesses differ.
    """
    known = {each.number: each for each in asked}
    found: dict[str, Guess | None] = {}
    for number, guess in _calls(cells):
        if number in known:
            guess = _plausible(guess, known[number])
            found[number] = guess if found.get(number, guess) == guess else None
    return found


def _calls(cells: Sequence[Cell]) -> Iterator[tuple[str, Guess | None]]:
    for cell in cells:
        if cell.kind == "code" and "predict(" in cell.source[:CELL_CAP]:
            for number, double, single, digits, dots in CALL.findall(cell.source[:CELL_CAP]):
                if not dots:
                    yield number, float(digits) if digits else double or single or None


def _plausible(guess: Guess | None, asked: Asked) -> Guess | None:
    if asked.options:
        letter = guess.strip().lower() if isinstance(guess, str) and len(guess) <= GUESS_CAP else ""
        return letter if letter in asked.options else None
    return guess if isinstance(guess, float) and abs(guess) <= NUMBER_CAP else None


def _asked(cell: NotebookNode) -> Asked:
    call = _call(cell.source)
    lines = [line.strip()[1:].strip() for line in cell.source.splitlines() if line.strip().startswith("#")]
    try:
        number = ast.literal_eval(call.args[0])
        truth = ast.literal_eval(call.args[1])
        options = {str(keyword.arg): str(ast.literal_eval(keyword.value)) for keyword in call.keywords}
    except ValueError:
        raise _bad(cell.source) from None
    truth = None if truth is ... else truth if isinstance(truth, str) else float(truth)
    fits = truth is None or (truth in options if options else isinstance(truth, float) and math.isfinite(truth))
    if not isinstance(number, str) or not lines or not fits:
        raise _bad(cell.source)
    return Asked(number, " ".join(lines), options, truth)


def _call(source: str) -> ast.Call:
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        raise _bad(source) from None
    call = statements[0].value if len(statements) == 1 and isinstance(statements[0], ast.Expr) else None
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "predict"
    if not named or len(call.args) != 2 or call.args[1].lineno != call.args[1].end_lineno:
        raise _bad(source)
    return call


def _split(source: str, number: int) -> tuple[str, str, str]:
    """Return the lines before the line of this number, that line, and the lines after it."""
    lines = source.splitlines(keepends=True)
    return "".join(lines[: number - 1]), lines[number - 1], "".join(lines[number:])


def _bad(source: str) -> BadAssignment:
    wanted = 'a question as comments, then predict("2.1", "b", a="…", b="…") or predict("2.1", 0.5)'
    return BadAssignment(f"a cell with the tag {TAG!r} holds {wanted}; this one begins {source[:60]!r}")
