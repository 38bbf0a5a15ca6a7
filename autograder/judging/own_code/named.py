"""A name that a size has in the exercise, given to another number."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...data import Finding
from ..posed import Posed
from .mend import text_of
from .program import OwnProgram

#: What students call a size that the cases have by a shorter name.
ALSO = {"n_heads": "h", "head_dim": "d_head", "n_kv_heads": "g", "batch": "B", "vocab_size": "vocab"}
#: So many cases are run through, of those that are wrong and of those that are right.
CASES = 3


def misnamed(posed: Posed, wrong: Sequence[int], right: Sequence[int], own: OwnProgram) -> Finding | None:
    """A size by name that is another number in every wrong case, as far as they are looked at, and in none that is
    right."""
    seen = [dict(_of_case(posed, index, own)) for index in wrong[:CASES]]
    fine = {place for index in right[:CASES] for place, _ in _of_case(posed, index, own)}
    if not seen:
        return None
    for place, words in seen[0].items():
        if place not in fine and all(place in each for each in seen):
            return Finding("own-size-misnamed", words)
    return None


def _of_case(posed: Posed, index: int, own: OwnProgram) -> Iterator[tuple[int, str]]:
    """(place, words) of each assignment of a number to the name of a size that is another number in this case."""
    sizes = posed.cases[index].sizes
    latest = dict(own.values(posed, index))
    for node in ast.walk(own.tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, latest.get(getattr(node.value, "number", -1))
        due = sizes.get(name, sizes.get(ALSO.get(name, ""), None))
        if type(value) in (int, float) and due is not None and value != due and not _is_counted_on(own.tree, name):
            where = f"In line {node.lineno} {text_of(node)} makes {value:g}"
            yield node.number, f"{where} in the case “{posed.cases[index].label}”, where {name} is {due}."


def _is_counted_on(tree: ast.FunctionDef, name: str) -> bool:
    """Is the name given a value in several places, as a counter is?"""
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(tree)) > 1
