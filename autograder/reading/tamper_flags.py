"""Finds what in a submitted file differs from its release, or accesses what no exercise needs."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from ..records import Unreadable
from ..safe_text import decoded
from .cell_syntax import statements
from .read_submission import CODE_CAP, bounded, read_bytes, read_file

#: Names by which Python code reaches its callers, other objects, or other processes. Starting a program is normal:
#: `!git clone` does, and so does the cell for Colab in docs/RUNNING.md.
INNER_NAMES = frozenset(
    (
        *("_getframe", "_current_frames", "f_back", "f_locals", "f_globals", "get_objects", "get_referrers"),
        *("settrace", "setprofile", "displayhook", "__builtins__", "ctypes", "socket", "fork", "execv"),
        *("kill", "ptrace", "ast_transformers", "input_transformers_post", "input_transformers_cleanup"),
    )
)
#: Parts of paths that no answer needs.
PATHS = ("solutions/", "gradebook", "/proc/")
#: Libraries whose functions an answer may use but not replace.
LIBRARIES = ("np", "numpy", "torch", "F", "nn", "builtins", "sys", "math")
#: A cell without any of these need not be parsed, unless a library's name is left of a "=" in it.
SIGN = re.compile("|".join([*INNER_NAMES, *PATHS]))
LIBRARY = re.compile(rf"\b(?:{'|'.join(LIBRARIES)})\b")


def odd_things(path: Path, release: NotebookNode) -> list[tuple[str, str]]:
    """Return (kind, words) for each odd thing in a file: kind "cells" or "code". Empty if the file can't be read."""
    try:
        data = bounded(read_file(path), str(path))
        given = {cell.source.strip() for cell in release.cells}
        code = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in release.cells if cell.cell_type == "code"}
        handed_in = read_bytes(data, str(path))
        theirs = [cell.source for cell in handed_in if cell.kind == "code" or cell.grade_id in code - {None}]
        sources = [source for source in theirs if source.strip() not in given]
        cells = _listed(json.loads(decoded(data)))
    except (Unreadable, ValueError, RecursionError):
        return []
    found = [("cells", words) for words in _cells([cell for cell in cells if isinstance(cell, dict)], release)]
    reached = set(_reached(sources))
    if reached:
        reached -= set(_reached([cell.source for cell in release.cells if cell.cell_type == "code"]))
    if reached:
        found.append(("code", f"the code has {', '.join(sorted(reached))}"[:400]))
    return found


def _listed(document: dict[str, Any]) -> list[Any]:
    """Return the cells of a file; format 3 has them in worksheets."""
    if document.get("cells") is not None or not isinstance(document.get("worksheets"), list):
        return document.get("cells") or []
    sheets = [sheet.get("cells") for sheet in document["worksheets"] if isinstance(sheet, dict)]
    return [cell for cells in sheets if isinstance(cells, list) for cell in cells]


def _cells(cells: list[dict[str, Any]], release: NotebookNode) -> Iterator[str]:
    ours = {
        mark.grade_id: cell
        for cell in release.cells
        if (mark := cell.metadata.get("nbgrader")) and cell.cell_type == "code"
    }
    sources: dict[str, list[str]] = {}
    tagged: Counter[str] = Counter()
    for cell in cells:
        name = _mark(cell)
        if name in ours:
            sources.setdefault(name, []).append(_text(cell))
            tagged[name] += "skip-execution" in _tags(cell)
    gone = [name for name in ours if name not in sources]
    doubled = [name for name, texts in sources.items() if len(texts) > 1]
    tests = [name for name in sources if not ours[name].metadata.nbgrader.get("solution")]
    changed = [name for name in tests if any(text.strip() != ours[name].source.strip() for text in sources[name])]
    for words, names in (
        ("deleted", gone),
        ("more than once", doubled),
        ("test changed", changed),
        ("tagged skip-execution", [name for name in ours if tagged[name]]),
    ):
        if names:
            yield f"{words}: {', '.join(names)}"


def _mark(cell: dict[str, Any]) -> str:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    name = grade_id if grade_id is not None else cell.get("id")
    return name if isinstance(name, str) else ""


def _tags(cell: dict[str, Any]) -> list[Any]:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return tags if isinstance(tags, list) else []


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))  # "input" in format 3
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return source.replace("\r\n", "\n") if isinstance(source, str) else ""


def _reached(sources: list[str]) -> Iterator[str]:
    if sum(map(len, sources)) > CODE_CAP:
        return
    for source in filter(_is_worth_parsing, sources):
        for statement in statements(source):
            for node in ast.walk(statement):
                yield from _named(node)


def _is_worth_parsing(source: str) -> bool:
    lines = source.split("\n")
    return bool(SIGN.search(source)) or any(LIBRARY.search(line.rpartition("=")[0]) for line in lines)


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and node.attr in INNER_NAMES:
        yield node.attr
    elif isinstance(node, ast.Name) and node.id in INNER_NAMES:
        yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for name in [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]:
            if name.partition(".")[0] in INNER_NAMES:
                yield f"import {name}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
        if any(part in node.value for part in PATHS):
            yield repr(node.value)
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            name = _dotted(target) if isinstance(target, ast.Attribute) else ""
            if name.partition(".")[0] in LIBRARIES and not name.startswith("torch.backends."):
                yield f"{name} = …"


def _dotted(node: ast.expr) -> str:
    """Return a chain of attributes of any length as it is written, with its indices left out."""
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        parts.append(f".{node.attr}" if isinstance(node, ast.Attribute) else "[…]")
        node = node.value
    return "".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
