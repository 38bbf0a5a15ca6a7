"""Looks for one small change of a student's own program that makes it right: where it is made, the mistake was."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from ...data import Call, Finding
from ..compare import Problem
from ..posed import Posed
from ..problems import all_in_our_terms, problem_of
from ..variants.edit import edited, numbered
from .changes import Mend, mends_of
from .mend import ARTIFICIAL
from .program import OwnProgram, Tried

#: Changes that are tried at most, and of those that make one case right, how many on all cases.
TRIED, FULLY = 600, 12
#: What all changes may cost, in steps of the program, the likeliest changes first.
STEPS = 20_000


def try_mends(alone: Posed, own: OwnProgram, steps: int) -> list[Tried]:
    """The likeliest changes, each with what the program then answers. steps: how many it takes there."""
    mends = mends_of(own.tree, _numbers(alone, own))[: min(TRIED, STEPS // max(steps, 1))]
    texts = [own.text(mend.edit) for mend in mends]
    return [Tried(*each) for each in zip(mends, texts, own.calls(texts, alone), strict=False)]


def _numbers(alone: Posed, own: OwnProgram) -> list[str]:
    """The arguments that are plain numbers, as the student calls them."""
    case, names = alone.cases[0], [argument.arg for argument in own.tree.args.args]
    given = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
    return [name for name, value in given.items() if name in names and type(value) in (int, float)]


def find_mend(posed: Posed, alone: Posed, tried: Sequence[Tried], own: OwnProgram) -> Mend | None:
    """The likeliest change after which every case is right. alone: the case that was tried first."""
    hopeful = [one for one in tried if one.calls and is_right(alone, one.calls)]
    posings = [each.part(range(len(each.cases))) for each in (posed, posed.probes) if each is not None]
    return next((one.mend for one in hopeful[:FULLY] if all(_mends(own, one.text, each) for each in posings)), None)


def _mends(own: OwnProgram, text: str, posed: Posed) -> bool:
    (calls,) = own.calls([text], posed) or ([],)
    return bool(calls) and is_right(posed, calls)


def is_right(posed: Posed, calls: Sequence[Call]) -> bool:
    """Whether nothing is wrong with any of these calls."""
    told = all_in_our_terms(posed, calls)
    return not any(problem_of(posed, index, told) for index in range(len(told)))


def find_second(
    posed: Posed, own: OwnProgram, first: int, steps: int, mend: Mend, problems: Sequence[Problem | None]
) -> Finding | None:
    """With a first change made: the likeliest one after which every case is right, and what is said of both.

    problems: of the program with the first change. first: the case to be tried, if it is wrong still.
    """
    wrong = [index for index, problem in enumerate(problems) if problem is not None]
    ordinary = [index for index in wrong if posed.cases[index].raises is None and not posed.cases[index].gradient]
    if not ordinary:
        return None
    mended = replace(own, tree=numbered(edited(own.tree, [mend.edit])))
    alone = posed.part([first if first in ordinary else ordinary[0]])
    other = find_mend(posed, alone, try_mends(alone, mended, steps), mended)
    if other is None or other.slug in ARTIFICIAL:
        return None
    one, two = sorted((mend, _as_written(other, own)), key=lambda each: each.line)
    text = f"Two things. In line {one.line}: {one.words}. In line {two.line}: {two.words}. "
    text += "With both changed, and all else as it is, every hidden case is right."
    return Finding(f"own-{one.slug}-and-{two.slug}", text)


def _as_written(mend: Mend, own: OwnProgram) -> Mend:
    """A change of a changed program in words that show nothing but what the student wrote."""
    pieces, written = re.findall(r"`([^`]*)`", mend.words), ast.unparse(own.tree)
    if all(piece.strip("…") in written for piece in pieces):
        return mend
    return replace(mend, words="something else in the same expression")


def told_of(mend: Mend) -> Finding:
    """What is said of it."""
    text = f"In line {mend.line}: {mend.words}. With that changed, and all else as it is, every hidden case is right."
    return Finding(f"own-{mend.slug}", text)
