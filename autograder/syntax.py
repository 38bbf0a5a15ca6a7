"""What a student's cell defines and uses, read from its syntax tree and never by running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements(source: str) -> list[ast.stmt]:
    """The statements of a cell, without its magic lines; none where it cannot be read."""
    plain = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n"))
    try:
        return ast.parse(plain).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def definitions(source: str) -> list[str]:
    """The functions and classes that a cell defines at its top, in order."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in statements(source) if isinstance(node, kinds)]


def last_line(source: str, function: str) -> int | None:
    """The last line of the last definition of `function` at the top of a cell, counted from 1; None without one."""
    ends = [
        node.end_lineno for node in statements(source) if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    return ends[-1] if ends else None


def bound_names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement gives a meaning to."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    else:
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id
            elif isinstance(child, (ast.Import, ast.ImportFrom)):
                yield from (alias.asname or alias.name.split(".")[0] for alias in child.names)
            elif isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                yield child.name
