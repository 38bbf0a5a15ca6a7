"""A step of a student's program that is given numbers of the course's own way: is all that follows right then?"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from ...worker.notes import NOTED, PUT
from ..posed import Posed
from ..variants.edit import Edit
from .program import OwnProgram
from .search import is_right
from .way import Way, as_array, way_of

#: So many steps are tried, each with so many arrays of the way, the most alike first, of so many entries.
STEPS, EACH, ENTRIES = 10, 6, 300


def put_right(posed: Posed, index: int, noted: Sequence[tuple[int, object]], own: OwnProgram) -> list[ast.expr]:
    """The steps behind which all is right, in the order in which they run.

    index: a wrong case. noted: the numbers of its steps and their values. What is done several times is left out.
    """
    times = Counter(number for number, _ in noted)
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    ends = {node.value for node in ast.walk(own.tree) if isinstance(node, ast.Return)}
    way, tried = way_of(posed, index), []
    for number, value in noted:
        node, array = nodes.get(number), as_array(value)
        if times[number] > 1 or array is None or not isinstance(node, ast.expr) or isinstance(node, ast.Name):
            continue
        if node in ends or array.dtype.kind != "f" or array.size > ENTRIES or way.holds(array) is not False:
            continue
        tried.append((node, array))
    pairs = [(node, text) for node, array in tried[:STEPS] for text in _texts(way, node, array, own)]
    alone = posed.part([index])
    answered = own.calls([text for _, text in pairs], alone)
    fits = [node for (node, _), calls in zip(pairs, answered, strict=False) if calls and is_right(alone, calls)]
    return list(dict.fromkeys(fits))


def _texts(way: Way, node: ast.expr, array: np.ndarray, own: OwnProgram) -> Iterator[str]:
    """The program with other numbers in the place of a step."""
    for other in way.like(array)[:EACH]:
        what = ast.parse(repr(other.ravel().tolist()), mode="eval").body
        put = ast.Attribute(ast.Name(NOTED, ast.Load()), PUT, ast.Load())
        yield own.text(Edit(node.number, ast.Call(put, [node, what], []), "put", ""))
