"""Indices that count from the other end without being meant to: -1 for the one before the first, [-k:] where k is 0."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...data import Finding
from ..posed import Posed
from .mend import text_of
from .program import OwnProgram
from .way import as_array

#: So many cases are run through, of those that are wrong and of those that are right.
CASES = 3
#: No axis is so long: a number without a sign has gone below 0.
WRAPPED = 2**31
#: Nobody means that; where a loop is long, it may not be seen in every case.
FROM_THE_FRONT = "it counts from the front then"


def wrapping(posed: Posed, wrong: Sequence[int], right: Sequence[int], own: OwnProgram) -> Finding | None:
    """An index that is negative, or 0 behind a minus, in the wrong cases and in none that is right."""
    fine = {place for index in right[:CASES] for place, _ in _places(posed, index, own)}
    seen = [(index, dict(_places(posed, index, own))) for index in wrong[:CASES]]
    for index, places in seen:
        for place, words in places.items():
            if place not in fine and (FROM_THE_FRONT in words or all(place in each for _, each in seen)):
                return Finding("own-index-wraps", f"In the case “{posed.cases[index].label}” {words}.")
    return None


def _places(posed: Posed, index: int, own: OwnProgram) -> Iterator[tuple[int, str]]:
    """(place, words) of each index that counts from the other end in one case."""
    ranges: dict[int, tuple[int, int]] = {}
    for number, value in own.values(posed, index):
        array = as_array(value)
        if array is not None and array.dtype.kind in "iu" and array.size:
            low, high = ranges.get(number, (int(array.min()), int(array.max())))
            ranges[number] = min(low, int(array.min())), max(high, int(array.max()))
    for node in ast.walk(own.tree):
        if not isinstance(node, ast.Subscript):
            continue
        where = f"of {text_of(node)} in line {node.lineno}"
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            ends = (part.lower, part.upper) if isinstance(part, ast.Slice) else (part,)
            for end in ends:
                low, high = ranges.get(getattr(end, "number", -1), (0, -1))
                if low > high:
                    continue
                if isinstance(end, ast.UnaryOp) and isinstance(end.op, ast.USub):
                    if high == 0 and isinstance(part, ast.Slice):
                        yield end.number, f"{text_of(end)} is 0 in the index {where}: {FROM_THE_FRONT}"
                elif high >= WRAPPED:
                    yield end.number, f"{text_of(end)} has gone below 0 in the index {where}, where there is no sign"
                elif low < 0:
                    yield end.number, f"{text_of(end)} is {low} in the index {where}: that counts from the end"
