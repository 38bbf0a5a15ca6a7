"""What unit 11's solution defines to read and run the real model, for tools and tests."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat

NOTEBOOK = Path(__file__).resolve().parents[1] / "solutions" / "11_real_model" / "11_real_model.ipynb"
#: The cells that define it, in order.
CELLS = (
    *("imports", "given-heads", "given-today", "measured", "reader", "apply_merges", "tokenizer", "story", "tokens"),
    *("from_pairs", "load", "llama_logits", "first-guess", "llama_step", "observe"),
)


def unit_11() -> dict[str, Any]:
    """The functions, classes and constants of these cells by name; what the cells measure is left out."""
    cells = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells}
    space: dict[str, Any] = {"__name__": "unit_11"}
    for name in CELLS:
        kept = ast.Module([each for each in ast.parse(cells[name]).body if defines(each)], type_ignores=[])
        exec(compile(kept, f"<{name}>", "exec"), space)
    return space


def defines(statement: ast.stmt) -> bool:
    """Whether a statement imports, or defines a function, a class or a constant."""
    if isinstance(statement, ast.Assign):
        return all(isinstance(name, ast.Name) and name.id.isupper() for name in statement.targets)
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))
