"""Which of a student's functions another one may call, read from the names in the cells.

A name counts wherever it stands, and as a text: where the course's function then stands in for the student's and isn't
called, nothing is different.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .syntax import Unread, bound_names, read


class Uses:
    """What the statements of these cells define and mention. A cell that cannot be read may use anything."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._definitions: dict[str, list[ast.stmt]] = {}
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
        names, seen, waiting = set[str](), set[int](), [function]
        while waiting and other not in names:
            for node in self._definitions.get(waiting.pop(), ()):
                if id(node) not in seen:
                    seen.add(id(node))
                    mentioned = set(_mentioned(node))
                    waiting += mentioned - names
                    names |= mentioned
        return other in names


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
