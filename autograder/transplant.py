"""Puts a student's answers into our own release notebook, and says which cells are to be run.

Of the file that was handed in nothing comes along but code: of the answers, of cells of the student's own, and what was
added to cells of ours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import nbformat
from nbformat import NotebookNode

from .sandbox import CellSource
from .submission import CELLS_CAP, CodeCell, Unreadable
from .syntax import bound_names, definitions, escapes, statements

#: Statements by which a cell lends itself to other cells.
GIVING = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
    *(ast.Assign, ast.AnnAssign),
)


@dataclass
class Transplanted:
    """The answers in our notebook.

    notebook: the release notebook with the student's answers and extra cells, to be recorded.
    cells: what is to be run, in order: given cells of ours, answers and extra cells of the student's.
    answers: function -> the student's source; a function that was left as it came, or is gone, is absent.
    notes: function -> a sentence for the student, about a missing or doubled cell.
    """

    unit: str
    notebook: NotebookNode
    cells: list[CellSource] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def answer_names(release: NotebookNode) -> list[str]:
    """The functions that a release notebook asks for, in order."""
    return [cell.metadata.nbgrader.grade_id for cell in release.cells if _is_answer(cell)]


def _is_answer(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and bool(cell.metadata.get("nbgrader", {}).get("solution"))


def transplant(cells: list[CodeCell], release: NotebookNode, unit: str, name: str) -> Transplanted:
    """Put the answers among `cells` into a copy of `release`. Raises Unreadable where there is none of this unit.

    name: the file's name for messages.
    """
    functions = answer_names(release)
    ours = _our_cells(release)
    role = [_role(cell, functions, ours) for cell in cells]
    stubs = {cell.metadata.nbgrader.grade_id: cell.source for cell in release.cells if _is_answer(cell)}
    _adopt_unmarked(cells, role, stubs)
    if not any(kind == "answer" for kind, _ in role):
        raise Unreadable(f"{name}: holds no answer cell of {unit}; is it the notebook of another unit or course?")

    result = Transplanted(unit, nbformat.from_dict(release))
    sources = {
        function: [cell.source for cell, r in zip(cells, role, strict=True) if r == ("answer", function)]
        for function in functions
    }
    for function in functions:
        _choose(result, function, sources[function], stubs[function])
    _share(result, functions)
    _release_parts(cells, role, result.answers, stubs)
    extras = _extras(cells, role, ours)
    _assemble(result, extras)
    return result


def _our_cells(release: NotebookNode) -> dict[str, str]:
    """Cell id -> source of every code cell of ours that is no answer cell."""
    return {cell.id: cell.source for cell in release.cells if cell.cell_type == "code" and not _is_answer(cell)}


def _role(cell: CodeCell, functions: list[str], ours: dict[str, str]) -> tuple[str, str]:
    """("answer", function), ("ours", cell id) or ("extra", "")."""
    if cell.grade_id in functions:
        return "answer", str(cell.grade_id)
    if cell.grade_id is not None and cell.grade_id.removeprefix("test_") in functions:
        return "ours", cell.grade_id
    if cell.grade_id is None and cell.identity in functions:
        return "answer", str(cell.identity)
    if cell.identity in ours:
        return "ours", str(cell.identity)
    same = [identity for identity, source in ours.items() if source.strip() == cell.source.strip()]
    return ("ours", same[0]) if same else ("extra", "")


def _adopt_unmarked(cells: list[CodeCell], role: list[tuple[str, str]], stubs: dict[str, str]) -> None:
    """Where a function's cell lost its marks, or was left as it came, the one other cell that defines it answers.

    That is an unmarked one, or the one of its test: cells that are merged keep the marks of one of them.
    """
    for function, stub in stubs.items():
        marked = [cell.source for cell, r in zip(cells, role, strict=True) if r == ("answer", function)]
        if any(source.strip() not in _untouched(stub) for source in marked):
            continue
        free = [i for i, r in enumerate(role) if r[0] == "extra" or r == ("ours", f"test_{function}")]
        found = [i for i in free if function in cells[i].source and function in definitions(cells[i].source)]
        if len(found) == 1:
            role[found[0]] = ("answer", function)


def _share(result: Transplanted, functions: list[str]) -> None:
    """An answer cell that defines other functions too answers for those that have no cell of their own."""
    for function in functions:
        if function not in result.answers:
            found = {source for source in result.answers.values() if function in definitions(source)}
            if len(found) == 1:
                result.answers[function] = found.pop()
                result.notes.pop(function, None)


def _untouched(stub: str) -> set[str]:
    # Who works in notebooks/ itself has no stub left to compare with: the release is then the student's own file.
    return {"", stub.strip() if "raise NotImplementedError" in stub else ""}


def _choose(result: Transplanted, function: str, sources: list[str], stub: str) -> None:
    written = [source for source in dict.fromkeys(sources) if source.strip() not in _untouched(stub)]
    whole = [source for source in written if _gives(source, function)] if len(written) > 1 else []
    if not sources:
        result.notes[function] = f"The answer cell of {function} is missing from the notebook."
    elif len(whole) > 1 or (len(written) > 1 and not whole):
        result.notes[function] = f"There are {len(sources)} answer cells for {function}; the last one counts."
    if written:
        result.answers[function] = (whole or written)[-1]


def _gives(source: str, name: str) -> bool:
    return any(name in bound_names(node) for node in statements(source))


def _release_parts(
    cells: list[CodeCell], role: list[tuple[str, str]], answers: dict[str, str], stubs: dict[str, str]
) -> None:
    """Of an answer cell that was split, both parts have the marks: the one without the function is an own cell."""
    for index, (cell, (kind, name)) in enumerate(zip(cells, role, strict=True)):
        if kind != "answer" or cell.source == answers.get(name) or cell.source.strip() in _untouched(stubs[name]):
            continue
        if _gives(answers[name], name) and not _gives(cell.source, name):
            role[index] = ("extra", "")


def _extras(cells: list[CodeCell], role: list[tuple[str, str]], ours: dict[str, str]) -> dict[str | None, list[str]]:
    """The student's own code cells by the cell of ours or answer after which they stand (None: at the top).

    What a student adds to a cell of ours counts as an extra cell if it defines or imports something: helpers do get
    written there. Other changes are left behind.
    """
    extras: dict[str | None, list[str]] = {}
    anchor: str | None = None
    for cell, (kind, name) in zip(cells, role, strict=True):
        if kind == "extra":
            if cell.source.strip():
                extras.setdefault(anchor, []).append(cell.source)
            continue
        anchor = name
        if kind == "ours" and not name.startswith("test_") and name in ours:
            added = _added(cell.source, name, ours)
            if added:
                extras.setdefault(anchor, []).append(added)
    return extras


def _added(source: str, name: str, ours: dict[str, str]) -> str:
    """What a student added to a cell of ours, if it gives a meaning to names that our cells do not know."""
    if source.strip() == ours[name].strip():
        return ""
    same = {_form(node) for node in statements(ours[name])}
    nodes = [node for node in statements(source) if _form(node) not in same]
    given = {bound for node in nodes if isinstance(node, GIVING) for bound in bound_names(node)}
    if given <= _known(tuple(ours.values())):
        return ""
    if escapes(source):
        return source  # its lines are not those of its statements
    lines = source.splitlines(keepends=True)
    return "".join(_text(node, lines) for node in nodes)


def _form(node: ast.stmt) -> str:
    """What a statement says, however it is written; "" for one too deeply nested to tell, which is none of ours."""
    try:
        return ast.dump(node)
    except RecursionError:
        return ""


@lru_cache(maxsize=16)
def _known(sources: tuple[str, ...]) -> frozenset[str]:
    names = (name for source in sources for node in statements(source) for name in bound_names(node))
    return frozenset(names) - {"*"}


def _text(node: ast.stmt, lines: list[str]) -> str:
    """A statement as it was written, with its decorators."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return "".join(lines[first - 1 : node.end_lineno]).rstrip("\n") + "\n"


def _assemble(result: Transplanted, extras: dict[str | None, list[str]]) -> None:
    built: list[NotebookNode] = []
    numbers = iter(range(1, CELLS_CAP + 1))

    def add_extras(sources: Iterable[str]) -> None:
        for source in sources:
            name = f"extra-{next(numbers)}"
            cell = nbformat.v4.new_code_cell(source)
            cell.id = name
            built.append(cell)
            result.cells.append(CellSource(name, "extra", source))

    add_extras(extras.get(None, ()))
    for cell in result.notebook.cells:
        built.append(cell)
        if cell.cell_type != "code":
            continue
        if _is_answer(cell):
            name = cell.metadata.nbgrader.grade_id
            if name in result.answers:
                cell.source = result.answers[name]
                result.cells.append(CellSource(name, "answer", cell.source))
        else:
            name = cell.id
            tested = cell.metadata.get("nbgrader", {}).get("grade_id", "").removeprefix("test_")
            if tested in result.answers:
                result.cells[-1] = replace(result.cells[-1], tested=tested)
            if "given" in cell.metadata.get("tags", []):
                result.cells.append(CellSource(name, "given", cell.source))
        add_extras(extras.get(name, ()))
    result.notebook.cells = built
