"""Loads the functions, classes and constants that cells of a solution notebook define, for tools and tests."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat

SOLUTIONS = Path(__file__).resolve().parents[1] / "solutions"


def defined_in(unit: str, names: tuple[str, ...], whole: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what these cells define: functions, classes and constants by name, without running their measurements.

    whole: the cells that are run in full.
    """
    notebook = nbformat.read(SOLUTIONS / unit / f"{unit}.ipynb", as_version=4)
    cells = {cell.id: cell.source for cell in notebook.cells}
    space: dict[str, Any] = {"__name__": unit}
    for name in names:
        kept = [each for each in ast.parse(cells[name]).body if name in whole or defines(each)]
        exec(compile(ast.Module(kept, type_ignores=[]), f"<{name}>", "exec"), space)
    return space


def defines(statement: ast.stmt) -> bool:
    """Return whether a statement imports, or defines a function, a class or a constant."""
    if isinstance(statement, ast.Assign):
        return all(isinstance(name, ast.Name) and name.id.isupper() for name in statement.targets)
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))
