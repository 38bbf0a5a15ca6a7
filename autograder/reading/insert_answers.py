"""Puts a student's answers in code and in words into the release notebook, and lists the cells to run."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import nbformat
from nbformat import NotebookNode

from ..records import CellSource, Transplanted, Unreadable
from .cell_roles import ANSWER, EXTRA, OURS, TASK, WORDS, OurCells, Role, our_cells
from .cell_syntax import bound_names, definitions, escapes, statements
from .read_submission import CELLS_CAP, WORDS_CAP, Cell, bound_code

#: Longer lines are wrapped at a space, because a code block doesn't wrap them.
WIDTH = 110
SHORTEST = "```"
GONE = "is missing from the notebook."
TICKS = re.compile("`+")


def quoted(text: str) -> str:
    """Return Markdown that shows the text literally; text that is already quoted stays as it is."""
    if _fence_of(text):
        return text
    lines = (line for whole in text.strip("\n").split("\n") for line in _broken(whole))
    body = "\n".join(lines)
    fence = _long_enough(body)
    return f"{fence}\n{body}\n{fence}"


def unquoted(source: str) -> str | None:
    """Return the text that `quoted` has put into a block; None for any other Markdown."""
    fence = _fence_of(source)
    return source[len(fence) + 1 : -len(fence) - 1] if fence else None


def _fence_of(source: str) -> str:
    """Return the fence of a code block that nothing inside can close; "" if the source is no such block."""
    first, _, rest = source.partition("\n")
    body, _, last = rest.rpartition("\n")
    whole = len(first) >= len(SHORTEST) and set(first) == {"`"} and first == last
    return first if whole and first == _long_enough(body) else ""


def _long_enough(body: str) -> str:
    return max([SHORTEST, *("`" * (len(row) + 1) for row in TICKS.findall(body))], key=len)


def _broken(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    options = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
    return textwrap.wrap(line, WIDTH, expand_tabs=False, **options) or [line]


#: Statements that can define a name for other cells.
GIVING = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
    *(ast.Assign, ast.AnnAssign),
)


def transplant(cells: list[Cell], release: NotebookNode, unit: str, name: str) -> Transplanted:
    """Put the answers among `cells` into a copy of `release`. Raises Unreadable if none is of this unit.

    name: the file's name for messages.
    """
    ours = our_cells(release, unit)
    role = [ours.role(cell) for cell in cells]
    bound_code([cell for cell, r in zip(cells, role, strict=True) if cell.kind == "code" or r[0] == ANSWER], name)
    turned = _turn_back(cells, role, ours)
    _adopt_unmarked(cells, role, ours)
    if not any(kind in (ANSWER, WORDS, TASK) for kind, _ in role):
        raise Unreadable(f"{name}: holds no answer cell of {unit}; is it the notebook of another unit or course?")

    result = Transplanted(unit, nbformat.from_dict(release))
    for function, stub in ours.answers.items():
        sources = [cell.source for cell, r in zip(cells, role, strict=True) if r == (ANSWER, function)]
        _choose(result, function, sources, stub, function in ours.by_hand)
    for i, kind in turned.items():
        words = f"The cell of {role[i][1]} is a {kind} cell in your notebook; the grader read it as code."
        result.notes[role[i][1]] = " ".join(filter(None, [result.notes.get(role[i][1]), words]))
    _share(result, list(ours.answers))
    _release_parts(cells, role, result.answers, ours)
    for answer, stub in ours.words.items():
        _read_words(
            result, answer, [cell.source for cell, r in zip(cells, role, strict=True) if r == (WORDS, answer)], stub
        )
    extras = _extras(cells, role, ours)
    prose = [each.source for own in extras.values() for each in own if each.kind != "code"]
    if sum(map(len, (*result.words.values(), *prose))) > WORDS_CAP:
        raise Unreadable(
            f"{name}: more than {WORDS_CAP // 1000} kB of text; remove what is no answer, such as pictures"
        )
    _assemble(result, extras, ours)
    return result


def _turn_back(cells: list[Cell], role: list[Role], ours: OurCells) -> dict[int, str]:
    """Read an answer as code if its cell is now Markdown or raw, as nbgrader does; returns index -> kind of cell.

    If other code has the same `grade_id`, or defines the function when this cell doesn't, that is the answer instead.
    """
    turned: dict[int, str] = {}
    for i, (cell, (kind, name)) in enumerate(zip(cells, role, strict=True)):
        if kind != ANSWER or cell.kind == "code":
            continue
        blank = _untouched(ours.answers[name])
        others = [j for j, each in enumerate(cells) if each.kind == "code" and each.source.strip() not in blank]
        marked = any(role[j] == (ANSWER, name) for j in others)
        defined = (name in cells[j].source and name in definitions(cells[j].source) for j in others)
        if marked or (name not in definitions(cell.source) and any(defined)):
            role[i] = (EXTRA, "")
        else:
            turned[i] = {"markdown": "Markdown"}.get(cell.kind, cell.kind)
    return turned


def _adopt_unmarked(cells: list[Cell], role: list[Role], ours: OurCells) -> None:
    """If a function's cell lost its marks or is untouched, use the only other cell that defines the function.

    That cell is unmarked, or the function's test, because merged cells keep the marks of one of them.
    """
    for function, stub in ours.answers.items():
        marked = [cell.source for cell, r in zip(cells, role, strict=True) if r == (ANSWER, function)]
        if any(source.strip() not in _untouched(stub) for source in marked):
            continue
        tests = {(OURS, place) for place, test in ours.tests.items() if test == f"test_{function}"}
        free = [i for i, r in enumerate(role) if cells[i].kind == "code" and (r[0] == EXTRA or r in tests)]
        found = [i for i in free if function in cells[i].source and function in definitions(cells[i].source)]
        if len(found) == 1:
            role[found[0]] = (ANSWER, function)


def _share(result: Transplanted, functions: list[str]) -> None:
    """Let an answer cell that defines other functions, too, answer for those that have no cell of their own."""
    for function in functions:
        if function not in result.answers:
            found = {source for source in result.answers.values() if function in definitions(source)}
            if len(found) == 1:
                result.answers[function] = found.pop()
                result.notes.pop(function, None)


def _untouched(stub: str) -> set[str]:
    # If students work in notebooks/ itself, the release is their own file, so there is no stub to compare with.
    return {"", stub.strip() if "raise NotImplementedError" in stub else ""}


def _choose(result: Transplanted, function: str, sources: list[str], stub: str, by_hand: bool = False) -> None:
    written = [source for source in dict.fromkeys(sources) if source.strip() not in _untouched(stub)]
    if by_hand and written:  # a person reads them all
        written = ["\n\n".join(written)]
    whole = [source for source in written if _gives(source, function)] if len(written) > 1 else []
    if not sources:
        result.notes[function] = f"The answer cell of {function} {GONE}"
    elif len(whole) > 1 or (len(written) > 1 and not whole):
        result.notes[function] = f"There are {len(sources)} answer cells for {function}; the last one counts."
    if written:
        result.answers[function] = (whole or written)[-1]


def _read_words(result: Transplanted, answer: str, sources: list[str], stub: str) -> None:
    """Read all cells of a Markdown answer; an untouched answer stays exactly as it is in the release."""
    written = [source for source in dict.fromkeys(sources) if source.strip() not in ("", stub.strip())]
    if not sources:
        result.notes[answer] = f"The answer cell of {answer} {GONE}"
    if written:
        result.words[answer] = "\n\n".join(written)


def _gives(source: str, name: str) -> bool:
    return any(name in bound_names(node) for node in statements(source))


def _release_parts(cells: list[Cell], role: list[Role], answers: dict[str, str], ours: OurCells) -> None:
    """If an answer cell was split, both parts have its marks: make the part without the function an extra cell."""
    for index, (cell, (kind, name)) in enumerate(zip(cells, role, strict=True)):
        if kind != ANSWER or name in ours.by_hand or cell.source == answers.get(name):
            continue
        if cell.source.strip() in _untouched(ours.answers[name]):
            continue
        if _gives(answers[name], name) and not _gives(cell.source, name):
            role[index] = (EXTRA, "")


def _extras(cells: list[Cell], role: list[Role], ours: OurCells) -> dict[Role | None, list[Cell]]:
    """Return the student's own cells by the release cell or answer that they follow (None: at the top).

    Code that a student adds to a release cell becomes an extra cell if it defines or imports something, since students
    write helpers there. Other changes are dropped, and so is Markdown, except below a task or in its cell.
    """
    extras: dict[Role | None, list[Cell]] = {}
    anchor: Role | None = None
    below_task = False
    for cell, (kind, name) in zip(cells, role, strict=True):
        if kind == EXTRA:
            if cell.source.strip() and (cell.kind == "code" or below_task):
                extras.setdefault(anchor, []).append(cell)
            continue
        below_task = kind == TASK
        if kind == WORDS or (kind == OURS and name not in ours.code):
            continue
        anchor, added = (kind, name), ""
        if kind == TASK and cell.source.strip() not in ("", ours.tasks[name].strip()):
            extras.setdefault(anchor, []).append(Cell(None, None, cell.source, "markdown"))
        elif kind == OURS and name not in ours.tests and cell.kind == "code":
            added = _added(cell.source, name, ours.code)
        if added:
            extras.setdefault(anchor, []).append(Cell(None, None, added))
    return extras


def _added(source: str, name: str, ours: dict[str, str]) -> str:
    """Return what a student added to a release cell if it binds names that no release cell binds, else ""."""
    if source.strip() == ours[name].strip():
        return ""
    same = {_form(node) for node in statements(ours[name])}
    nodes = [node for node in statements(source) if _form(node) not in same]
    given = {bound for node in nodes if isinstance(node, GIVING) for bound in bound_names(node)}
    if given <= _known(tuple(ours.values())):
        return ""
    if escapes(source):
        return source  # IPython changes its lines, so its statements' line numbers may be wrong
    lines = source.splitlines(keepends=True)
    return "".join(_text(node, lines) for node in nodes)


def _form(node: ast.stmt) -> str:
    """Return a statement's tree as text, whatever its layout; "" if it is nested too deeply, which no release is."""
    try:
        return ast.dump(node)
    except RecursionError:
        return ""


@lru_cache(maxsize=16)
def _known(sources: tuple[str, ...]) -> frozenset[str]:
    names = (name for source in sources for node in statements(source) for name in bound_names(node))
    return frozenset(names) - {"*"}


def _text(node: ast.stmt, lines: list[str]) -> str:
    """Return a statement as it was written, with its decorators."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return "".join(lines[first - 1 : node.end_lineno]).rstrip("\n") + "\n"


def _assemble(result: Transplanted, extras: dict[Role | None, list[Cell]], ours: OurCells) -> None:
    built: list[NotebookNode] = []
    numbers = iter(range(1, CELLS_CAP + 1))
    marked = any("given" in cell.metadata.get("tags", []) for cell in result.notebook.cells)

    def add_extras(cells: Iterable[Cell]) -> None:
        for own in cells:
            name = f"extra-{next(numbers)}"
            if own.kind == "code":
                cell = nbformat.v4.new_code_cell(own.source)
                result.cells.append(CellSource(name, "extra", own.source))
            else:
                cell = nbformat.v4.new_markdown_cell(quoted(own.source))
            cell.id = name
            built.append(cell)

    add_extras(extras.get(None, ()))
    for cell in result.notebook.cells:
        built.append(cell)
        kind, name = role = ours.role_of_ours(cell)
        if kind == ANSWER and name in result.answers:
            cell.source = result.answers[name]
            result.cells.append(CellSource(name, "answer", cell.source))
        elif kind == WORDS and name in result.words:
            cell.source = quoted(result.words[name])
        elif kind == TASK and role in extras:
            result.below.add(name)
        elif kind == OURS and name in ours.tests and result.cells:
            _stand_before(result, ours.tests[name], ours)
        given = "given" in cell.metadata.get("tags", []) or not (marked or name in ours.tests)
        if kind == OURS and name in ours.code and given:
            result.cells.append(CellSource(name, "given", cell.source))
        add_extras(extras.get(role, ()))
    result.notebook.cells = built


def _stand_before(result: Transplanted, test: str, ours: OurCells) -> None:
    """Note on the last cell that this test comes next, because the test sees the notebook as that cell leaves it."""
    tested = test.removeprefix("test_")
    if tested in result.answers:
        result.cells[-1] = replace(result.cells[-1], tested=tested)
    if test in ours.own_tests:
        result.cells[-1] = replace(result.cells[-1], tests=(*result.cells[-1].tests, test))
