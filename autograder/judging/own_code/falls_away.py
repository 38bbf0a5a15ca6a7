"""Where a change makes a program right because a whole branch or loop falls away with it, that is what is told."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..variants.edit import Edit
from .in_statements import of_condition
from .mend import Mend

#: The slug of what is told of a loop.
TURNS = "turns"


def falling_away(
    found: Mend, tree: ast.FunctionDef, times: Counter[int], right: Callable[[Sequence[Edit]], bool]
) -> Mend | None:
    """The branch or the loop of a program that falls away with a change, if one does.

    times: how often each step was run in a wrong case. right: whether it answers every case rightly with these changes.
    """
    place = found.edit.place
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp)) and _holds(node.test, place) and found.slug != "condition":
            for other in _always_or_never(node):
                if right(other.edits):
                    return other
        if isinstance(node, ast.For) and not any(_holds(each, place) for each in node.body):
            inside = (getattr(each, "number", -1) for statement in node.body for each in ast.walk(statement))
            if max((times[number] for number in inside), default=0) > 1 and right((_once(node), *found.edits)):
                words = (
                    f"with a single turn of `for {ast.unparse(node.target)} in …` for everything, every hidden case "
                )
                words += "is right: how the work is shared out among the turns, or what one hands to the next, is wrong"
                return replace(found, edit=replace(found.edit, slug=TURNS), line=node.lineno, words=words)
    return None


def _holds(node: ast.AST, place: int) -> bool:
    return any(getattr(each, "number", -1) == place for each in ast.walk(node))


def _always_or_never(node: ast.If | ast.IfExp) -> Iterator[Mend]:
    return (other for other in of_condition(node) if isinstance(other.edit.new.test, ast.Constant))


def _once(loop: ast.For) -> Edit:
    """No more than the first turn."""
    first = ast.Slice(None, ast.Constant(1))
    every = ast.Call(ast.Name("list", ast.Load()), [loop.iter], [])
    return Edit(loop.iter.number, ast.Subscript(every, first, ast.Load()), TURNS, "")
