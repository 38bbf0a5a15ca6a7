"""A step of a student's program that is given numbers of the course's own way: is all that follows right then?"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...data import Finding
from ...worker.notes import NOTED, PUT
from ...worker.values import leaves
from ..posed import Posed
from ..problems import all_right
from ..variants.edit import Edit
from .flow import only_compared
from .mend import text_of
from .program import OwnProgram
from .traced import GOES_IN, Traced
from .way import as_array, way_of

#: So many steps are tried, each with so many arrays of the way, the most alike first, of so many entries.
STEPS, EACH, ENTRIES = 10, 6, 300
#: Where numbers that are so many times as large, and shifted by as much, are right as well, it tells nothing.
OTHER = 0.75


def settled(posed: Posed, found: Traced, own: OwnProgram, another: int | None = None) -> Traced:
    """The same where it can be tried that a step is at fault: with numbers of the course's way in its place, all that
    follows is right.

    another: a second wrong case; what fits in one alone may fit by chance.
    """
    fits = put_right(posed, found.index, found.noted, own) if found.noted else []
    if fits and another is not None:
        there = put_right(posed, another, own.values(posed, another), own)
        fits = [node for node in fits if node in there]
    if not fits:
        return found
    node = fits[0]
    where = f"{text_of(node)} in line {node.lineno}"
    order = [number for number, _ in found.noted]
    if found.finding is not None and order.index(node.number) > order.index(found.number):
        if not found.vouched:
            words = f"{found.finding.text} All that follows {where} is right: with other numbers there, the result is."
        else:
            begin = next(each for each in ast.walk(own.tree) if getattr(each, "number", -1) == found.number)
            words = f"The first numbers that do not occur on the course's way come from {text_of(begin)} in line "
            words += f"{begin.lineno}: it goes wrong there, in the choice of what goes in, or behind it, up to {where}."
            words += " With other numbers there, the result is right."
        return replace(found, finding=Finding("own-step", words), sure=True)
    if node.number == found.number and found.vouched:
        words = f"It goes wrong at {where}, or in the choice and form of what goes in: all of that occurs on the "
        words += "course's way to the result, what comes out does not, and all that follows is right."
    else:
        words = f"All that follows {where} is right: with other numbers there, the result is. Look at what it does"
        words += f"{GOES_IN}."
    return replace(found, finding=Finding("own-step", words), vouched=True, sure=True, number=node.number)


def put_right(posed: Posed, index: int, noted: Sequence[tuple[int, object]], own: OwnProgram) -> list[ast.expr]:
    """The steps behind which all is right, in the order in which they run.

    index: a wrong case. noted: the numbers of its steps and their values. What is done several times is left out.
    """
    times = Counter(number for number, _ in noted)
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    ends = {node.value for node in ast.walk(own.tree) if isinstance(node, ast.Return)}
    compared = only_compared(own.tree)
    way, tried = way_of(posed, index), []
    arrays = any(np.size(leaf) > 1 for leaf in leaves(posed.expected[index].value))
    least = 2 if arrays else 1  # among all numbers of a way one often fits by chance
    for number, value in noted:
        node, array = nodes.get(number), as_array(value)
        if times[number] > 1 or array is None or not isinstance(node, ast.expr) or isinstance(node, ast.Name):
            continue
        if node in ends or node in compared or array.dtype.kind != "f" or not least <= array.size <= ENTRIES:
            continue
        if way.holds(array) is not False:
            continue
        tried.append((node, array))
    pairs = [(node, other) for node, array in tried[:STEPS] for other in way.like(array)[:EACH]]
    alone = posed.part([index])

    def right(pairs: list[tuple[ast.expr, np.ndarray]]) -> list[tuple[ast.expr, np.ndarray]]:
        answered = own.calls([_text(node, other, own) for node, other in pairs], alone)
        return [pair for pair, calls in zip(pairs, answered, strict=False) if calls and all_right(alone, calls)]

    fits = right(pairs)
    idle = {node for node, _ in right([(node, OTHER * other + OTHER) for node, other in fits])}
    return list(dict.fromkeys(node for node, _ in fits if node not in idle))


def _text(node: ast.expr, other: np.ndarray, own: OwnProgram) -> str:
    """The program with other numbers in the place of a step."""
    what = ast.parse(repr(other.ravel().tolist()), mode="eval").body
    put = ast.Attribute(ast.Name(NOTED, ast.Load()), PUT, ast.Load())
    return own.text(Edit(node.number, ast.Call(put, [node, what], []), "put", ""))
