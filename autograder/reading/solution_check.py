"""Refuses an instructor's notebook if some part of it could not be graded as intended.

A test of a course exercise is one line that calls the grader, which runs apart from all submissions. A test that the
instructor wrote consists of statements, which are run. Any other test gets one line that names the cell and the remedy.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping
from pathlib import Path

from nbformat import NotebookNode

from ..records import EXERCISE, TESTS, BadAssignment, Question
from .cell_syntax import bound_names, statements
from .predictions import asked_in
from .read_assignment import questions_of

BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"
JUDGE = "judge_here"
#: nbgrader's mark of a test that it generates by running answers on this machine.
WRITTEN = "AUTOTEST"


def refuse(name: str, solution: NotebookNode) -> None:
    """Raise BadAssignment if the notebook of an assignment holds a test that would not run as it is written."""
    fault = next(_faults(name, solution), "")
    if fault:
        raise BadAssignment(f"solutions/{name}/{name}.ipynb: {fault}")


def lone_notebook(folder: Path) -> None:
    """Raise BadAssignment if a folder of solutions/ holds another notebook than the one of its name."""
    others = sorted(path.name for path in folder.glob("*.ipynb") if path.stem != folder.name)
    if others:
        name = f"{folder.name}.ipynb"
        remedy = f"move {'it' if len(others) == 1 else 'them'} out"
        remedy = remedy if (folder / name).exists() or len(others) > 1 else f"rename it to {name}"
        raise BadAssignment(
            f"solutions/{folder.name} holds {', '.join(others[:3])}: an assignment is one notebook, {name}; {remedy}"
        )


def _faults(name: str, solution: NotebookNode) -> Iterator[str]:
    questions = {question.cell: question for question in questions_of(name, solution)}
    answers = [_name(cell) for cell in solution.cells if cell.cell_type == "code" and _marks(cell).get("solution")]
    seen: list[str] = []
    for cell in solution.cells:
        place = _name(cell)
        question = questions.get(place) if place else None
        kind = question.kind if question is not None else ""
        if kind == EXERCISE:
            yield from _exercise(cell, place, question.name, answers)
        elif kind == TESTS:
            yield from _own_test(cell, place, answers, seen)
        elif cell.cell_type == "code" and any(JUDGE in line for line in _code_lines(cell.source)):
            where = f"cell {place or cell.get('id', '')!r}"
            yield f"{where} calls {JUDGE}, and is no test of an exercise of the course; take that line out"
        if place in answers:
            seen.append(place)
    yield from _unmarked(solution.cells, questions)
    try:
        asked_in(solution)
    except BadAssignment as error:
        yield str(error)


def _unmarked(cells: list[NotebookNode], questions: Mapping[str, Question]) -> Iterator[str]:
    """Yield a problem for each cell that isn't `given`, and so isn't run, but defines a name for an own question."""
    code = [cell for cell in cells if cell.cell_type == "code"]
    if not any(_is_given(cell) for cell in code):
        return  # then all are run
    exercises = {each for q in questions.values() if q.kind == EXERCISE for each in (q.name, q.cell)}
    asked = [cell for cell in code if _name(cell) and _name(cell) not in exercises]
    if not asked:
        return
    known = _bound([cell for cell in code if _name(cell) or _is_given(cell)])
    wanted = _loaded(asked) - known
    for cell in code:
        needed = sorted(_bound([cell]) & wanted) if not _name(cell) and not _is_given(cell) else []
        if needed:
            place = cell.get("id", "") or cell.source[:40]
            yield f"cell {place!r} gives {needed[0]}, which a question of yours needs, and is not run; tag it `given`"


def _is_given(cell: NotebookNode) -> bool:
    return "given" in cell.metadata.get("tags", [])


def _bound(cells: list[NotebookNode]) -> set[str]:
    return {name for cell in cells for node in statements(cell.source) for name in bound_names(node)}


def _loaded(cells: list[NotebookNode]) -> set[str]:
    return {name for cell in cells for statement in statements(cell.source) for name in _read(statement)}


def _read(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement reads, except local variables of its functions and comprehensions."""
    try:
        tables = [symtable.symtable(ast.unparse(statement), "cell", "exec")]
    except SyntaxError:
        return  # it cannot run, and so needs nothing
    while tables:
        table = tables.pop()
        tables += table.get_children()
        inner = table.get_type() != "module"
        yield from (
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (symbol.is_global() or not inner)
        )


def _exercise(cell: NotebookNode, place: str, function: str, answers: list[str]) -> Iterator[str]:
    remedy = "put your asserts into a test cell of another name"
    line = f'__import__("autograder").{JUDGE}({function})'
    hidden, shown = _parts(cell.source)
    if cell.cell_type != "code" or hidden.count(line) != 1:
        yield (
            f"cell {place!r} is the test of the course's exercise {function}, and its hidden part is not the line "
            f"{line}; put that line back, or give cell and function another name if it is a question of your own"
        )
    elif len(hidden) > 1:
        other = next(each for each in hidden if each != line)
        yield f"cell {place!r} has hidden tests beside the course's judge ({other[:60]}), which are not run; {remedy}"
    elif any(JUDGE in each for each in shown):
        yield f"cell {place!r} calls {JUDGE} outside of its hidden part, where students see it; take that line out"
    elif function not in answers:
        yield f"cell {place!r} tests an exercise of the course without an answer cell {function!r}; name that so"


def _own_test(cell: NotebookNode, place: str, answers: list[str], seen: list[str]) -> Iterator[str]:
    short = place.removeprefix("test_")
    if cell.cell_type != "code":
        yield f"cell {place!r} is to be graded by tests, and is no code; make it a manually graded answer"
        return
    if any(JUDGE in line for line in _code_lines(cell.source)):
        yield (
            f"cell {place!r} calls {JUDGE}, and the course has no exercise of that name; "
            "write asserts of your own there, or name the cell test_FUNCTION after the exercise"
        )
    if WRITTEN in cell.source:
        yield f"cell {place!r} has nbgrader's {WRITTEN}, which is not supported here; write its asserts out"
    if not statements(cell.source):
        yield f"cell {place!r} is a test without a statement that Python can read; put your asserts into it"
    if short in answers and short not in seen:
        yield f"cell {place!r} stands above its answer cell {short!r}; move it below"
    elif not seen:
        yield f"cell {place!r} is a test with no answer cell above it; add one, or move the test below its answer"


def _parts(source: str) -> tuple[list[str], list[str]]:
    """Return the lines of code within the marks of hidden tests, and those outside."""
    hidden: list[str] = []
    shown: list[str] = []
    inside = False
    for line in source.split("\n"):
        if BEGIN in line or END in line:
            inside = BEGIN in line
        else:
            (hidden if inside else shown).extend(_code_lines(line))
    return hidden, shown


def _code_lines(source: str) -> list[str]:
    lines = map(str.strip, source.split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


def _name(cell: NotebookNode) -> str:
    return str(_marks(cell).get("grade_id") or "")


def _marks(cell: NotebookNode) -> Mapping:
    return cell.metadata.get("nbgrader", {})
