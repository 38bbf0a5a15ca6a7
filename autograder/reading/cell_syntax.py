"""What a student's cell defines and which functions it may call, read from its syntax tree and never by running it."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache

from . import transform_cells
from .transform_cells import ESCAPE, Unread

#: A cell with more letters is read apart, whatever it holds.
LONG = 20_000
#: Cell magics inside cell magics.
DEPTH_CAP = 5
#: Magics whose words are no Python, or do not run.
NOT_PYTHON = frozenset((
    "alias", "bash", "cd", "cat", "conda", "config", "env", "html", "javascript", "js", "latex", "load",
    "load_ext", "ls", "lsmagic", "mamba", "man", "markdown", "matplotlib", "mkdir", "more", "pdoc", "perl",
    "pfile", "pinfo", "pinfo2", "pip", "psearch", "psource", "pwd", "pylab", "reload_ext", "ruby", "script",
    "sh", "svg", "sx", "system", "uv", "who", "xmode",
))  # fmt: skip
#: Words before the Python in the line of a magic, such as `-n 10 -r 3`.
OPTIONS_CAP = 8
BODIES = ("body", "orelse", "finalbody")
#: CPython 3.11 counts the depth of the tree that it builds in one place for all threads, and fails where two build.
PARSING = threading.Lock()


def statements(source: str) -> list[ast.stmt]:
    """The statements of a cell as the notebook would run them; none where it cannot be read."""
    try:
        return read(source)
    except Unread:
        return []


def read(source: str, depth: int = 0) -> list[ast.stmt]:
    """The statements of a cell as the notebook would run them, with those that its magics run in their places.

    None where it is no Python, and so cannot run either. Raises Unread.
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
        # The notebook takes a single line that is no Python for a magic without its sign.
        alone = len(python.splitlines()) == 1 and re.match(r"[^\W\d]\w* ", python)
        return read("%" + python, depth + 1) if alone else []
    except (RecursionError, MemoryError, SystemError):
        raise Unread from None


@lru_cache(maxsize=1024)
def _transformed(source: str) -> str:
    """A cell as Python, after IPython's own rules: magics are calls, prompts are gone. Raises Unread."""
    return (
        transform_cells.here(source)
        if len(source) <= LONG and not escapes(source)
        else transform_cells.python_of(source)
    )


def escapes(source: str) -> int:
    """How many lines IPython may have to change."""
    return sum(1 for line in source.splitlines() if ESCAPE.search(line))


def _expand(node: ast.AST, depth: int) -> None:
    for field in BODIES:
        body = getattr(node, field, None)
        if isinstance(body, list):
            setattr(node, field, [each for statement in body for each in _expanded(statement, depth)])


def _expanded(statement: ast.stmt, depth: int) -> list[ast.stmt]:
    """What stands for a statement: itself, or the statements that its magic runs."""
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
    """The name and the words of a magic, where `node` is the call that stands for one."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords):
        return None
    if node.func.attr not in ("run_line_magic", "run_cell_magic") or len(node.args) < 2:
        return None
    words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return words if len(words) == len(node.args) else None


def _inside(words: list[str], depth: int) -> list[ast.stmt]:
    """The statements that a magic runs, from its line and from its body."""
    name, line, *body = words
    if name in NOT_PYTHON:
        return []
    parts = line.split(" ")
    readings = (read(" ".join(parts[skipped:]), depth + 1) for skipped in range(min(len(parts), OPTIONS_CAP)))
    in_line = next(filter(None, readings), [])
    return [*in_line, *(node for text in body for node in read(text, depth + 1))]


def definitions(source: str) -> list[str]:
    """The functions and classes that a cell defines at its top, in order; none where it cannot be read."""
    try:
        return list(_defined(source))
    except Unread:
        return []


@lru_cache(maxsize=1024)
def _defined(source: str) -> tuple[str, ...]:
    """The same, kept: each function of a unit is looked for in each cell. Raises Unread, which is not kept."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(node.name for node in read(source) if isinstance(node, kinds))


def bound_names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement gives a meaning to."""
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
    """The names that this node itself gives a meaning to, apart from those below it."""
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
    """What the statements of these cells define and mention. A cell that cannot be read may use anything."""

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
        """Whether `function` leads to `other`, at once or by way of the student's other definitions.

        A function that no cell defines, so far as can be read, may use anything.
        """
        if self._unread or function not in self._definitions:
            return True
        if function not in self._led_to:  # it is asked for each of the other functions
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
    """Names whose objects a statement may change, where it is more than a definition."""
    return () if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else set(_mentioned(node))
