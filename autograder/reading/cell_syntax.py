"""Reads what a student's cell defines and which functions it may call from its syntax tree, without running it."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache

from . import transform_cells
from .transform_cells import ESCAPE, Unread

#: A cell with more letters is read in a separate process, whatever it holds.
LONG = 20_000
#: Magics may be nested this deep.
DEPTH_CAP = 5
#: Magics whose arguments aren't Python, or don't run.
NOT_PYTHON = frozenset((
    "alias", "bash", "cd", "cat", "conda", "config", "env", "html", "javascript", "js", "latex", "load",
    "load_ext", "ls", "lsmagic", "mamba", "man", "markdown", "matplotlib", "mkdir", "more", "pdoc", "perl",
    "pfile", "pinfo", "pinfo2", "pip", "psearch", "psource", "pwd", "pylab", "reload_ext", "ruby", "script",
    "sh", "svg", "sx", "system", "uv", "who", "xmode",
))  # fmt: skip
#: The Python in a magic's line must begin within this many words, because options such as `-n 10 -r 3` come first.
OPTIONS_CAP = 8
BODIES = ("body", "orelse", "finalbody")
#: CPython 3.11 counts a tree's depth in one place for all threads, so parsing fails if two threads parse at once.
PARSING = threading.Lock()


def statements(source: str) -> list[ast.stmt]:
    """Return the statements of a cell as the notebook would run them; none if it can't be read."""
    try:
        return read(source)
    except Unread:
        return []


def read(source: str, depth: int = 0) -> list[ast.stmt]:
    """Return the statements of a cell as the notebook would run them, with each magic replaced by those that it runs.

    The list is empty if the cell isn't Python, and so can't run either. Raises Unread.
    """
    if depth > DEPTH_CAP:
        raise Unread
    python = _transformed(source)
    try:
        with PARSING:
            tree = ast.parse(python)
        if "get_ipython" in python:
            for node in ast.walk(tree):
                _expand(node, depth)
        return tree.body
    except (SyntaxError, ValueError):
        # The notebook reads a single line that isn't Python as a magic without its %.
        alone = len(python.splitlines()) == 1 and re.match(r"[^\W\d]\w* ", python)
        return read("%" + python, depth + 1) if alone else []
    except (RecursionError, MemoryError, SystemError):
        raise Unread from None


@lru_cache(maxsize=1024)
def _transformed(source: str) -> str:
    """Convert a cell to Python by IPython's rules: magics become calls, prompts are removed. Raises Unread."""
    return (
        transform_cells.here(source)
        if len(source) <= LONG and not escapes(source)
        else transform_cells.python_of(source)
    )


def escapes(source: str) -> int:
    """Return how many lines IPython may have to change."""
    return sum(1 for line in source.splitlines() if ESCAPE.search(line))


def _expand(node: ast.AST, depth: int) -> None:
    for field in BODIES:
        body = getattr(node, field, None)
        if isinstance(body, list):
            setattr(node, field, [each for statement in body for each in _expanded(statement, depth)])


def _expanded(statement: ast.stmt, depth: int) -> list[ast.stmt]:
    """Return the statement, or the statements that its magic runs."""
    words = _magic(getattr(statement, "value", None))
    if words is None:
        return [statement]
    inner = _inside(words, depth)
    for node in inner:
        ast.increment_lineno(node, statement.lineno - 1)
    if isinstance(statement, ast.Expr):
        return inner
    if isinstance(statement, ast.Assign) and len(inner) == 1 and isinstance(inner[0], ast.Expr):
        statement.value = inner[0].value
        return [statement]
    return [*inner, statement]


def _magic(node: ast.AST | None) -> list[str] | None:
    """Return the name and the arguments of a magic if `node` is the call that runs one, else None."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords):
        return None
    if node.func.attr not in ("run_line_magic", "run_cell_magic") or len(node.args) < 2:
        return None
    words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return words if len(words) == len(node.args) else None


def _inside(words: list[str], depth: int) -> list[ast.stmt]:
    """Return the statements that a magic runs, from its line and from its body."""
    name, line, *body = words
    if name in NOT_PYTHON:
        return []
    parts = line.split(" ")
    readings = (read(" ".join(parts[skipped:]), depth + 1) for skipped in range(min(len(parts), OPTIONS_CAP)))
    in_line = next(filter(None, readings), [])
    return [*in_line, *(node for text in body for node in read(text, depth + 1))]


def definitions(source: str) -> list[str]:
    """Return the functions and classes that a cell defines at top level, in order; none if it can't be read."""
    try:
        return list(_defined(source))
    except Unread:
        return []


@lru_cache(maxsize=1024)
def _defined(source: str) -> tuple[str, ...]:
    """Return the same, cached because each function is looked up in each cell. Raises Unread, which isn't cached."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(node.name for node in read(source) if isinstance(node, kinds))


def bound_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds."""
    if isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.name
        for child in ast.walk(node):
            if isinstance(child, ast.Global):
                yield from child.names
    else:
        for child in ast.walk(node):
            yield from bound_here(child)


def bound_here(node: ast.AST) -> Iterator[str]:
    """Yield the names that this node itself binds, without those below it."""
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Global):
        yield from node.names
    elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)):
        if node.name:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


class Uses:
    """Records what the statements of these cells define and mention. A cell that can't be read may use anything."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._definitions: dict[str, list[ast.stmt]] = {}
        self._led_to: dict[str, set[str]] = {}
        self._unread = False
        for source in sources:
            try:
                nodes = read(source)
            except Unread:
                self._unread, nodes = True, []
            for node in nodes:
                for name in {*bound_names(node), *_changed(node)}:
                    self._definitions.setdefault(name, []).append(node)

    def uses(self, function: str, other: str) -> bool:
        """Return whether `function` may use `other`, directly or through the student's other definitions.

        A function that no readable cell defines may use anything.
        """
        if self._unread or function not in self._definitions:
            return True
        if function not in self._led_to:  # computed once, because it serves for all other functions
            self._led_to[function] = self._names_of(function)
        return other in self._led_to[function]

    def _names_of(self, function: str) -> set[str]:
        names, seen, waiting = set[str](), set[int](), [function]
        while waiting:
            for node in self._definitions.get(waiting.pop(), ()):
                if id(node) not in seen:
                    seen.add(id(node))
                    mentioned = set(_mentioned(node))
                    waiting += mentioned - names
                    names |= mentioned
        return names


def _mentioned(node: ast.stmt) -> Iterable[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield child.attr
        elif isinstance(child, ast.alias):
            yield child.name
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


def _changed(node: ast.stmt) -> Iterable[str]:
    """Return the names whose objects a statement may change; none for a definition."""
    return () if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else set(_mentioned(node))
