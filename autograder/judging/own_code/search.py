"""Looks for one small change of a student's own program that makes it right: where it is made, the mistake was."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...data import Finding
from ..compare import Problem
from ..posed import Posed
from ..problems import all_right
from ..variants.edit import Edit, edited, numbered
from .changes import Mend, mends_of
from .falls_away import TURNS, falling_away
from .mend import ARTIFICIAL, ODD
from .program import AT_A_TIME, OwnProgram, Tried

#: Changes that are tried at most, and of those that make one case right, how many on all cases.
TRIED, FULLY = 600, 12
#: The same of a program of few steps, which costs little: where one number is asked for many changes make one right.
SHORT, FULLY_IF_SHORT = 100, 40
#: Changes beside which another one may make it right as well, and be what was meant.
OPEN = ARTIFICIAL | frozenset(
    (
        *("brackets", "order-of-lines", "sides-turned", "sides", "one-step-too-many", "number", "name", "operation"),
        *("comparison", "no-sign", "condition", "adds", "replaces", "no-factor"),
        *("not-turned", "range", "or-for-and", "order-of-results", "unpack-order", "comparison-off-by-one"),
    )
)
#: Changes that hardly anybody forgot, and those that may make right by accident what fails in edge cases alone.
FAR_FETCHED = frozenset(("brackets", "order-of-lines", "sides-turned"))
BY_ACCIDENT = (
    ARTIFICIAL
    | FAR_FETCHED
    | {"sides", "one-step-too-many", "operation", "adds", "no-sign", "no-factor", "unpack-order"}
)
#: What is not told as another way to mend what a likelier change mends.
SECOND_TO_NONE = ARTIFICIAL | {"belongs-inside", "not-turned", "no-factor", "no-sign", "unpack-order", "function"}
#: What takes something away: of another change there it is not known whether it does more than that.
REMOVALS = ("one-step-too-many", "one-call-too-many", "index-too-many")
OR_ELSE = ". Or else,"
#: What all changes may cost, in steps of the program, the likeliest changes first.
STEPS = 25_000


def try_mends(alone: Posed, own: OwnProgram, steps: int, near: int = 0) -> Iterator[list[Tried]]:
    """The changes, the likeliest first, some at a time, each with what the program then answers in one case.

    alone: that case. steps: how many the program takes there. near: the line at which changes are tried first, where
    there is no time for all.
    """
    given = _given(alone, own)
    numbers = [name for name, value in given.items() if type(value) in (int, float)]
    arrays = [name for name, value in given.items() if hasattr(value, "shape") and len(value.shape)]
    mends, most = mends_of(own.tree, numbers, arrays), min(TRIED, STEPS // max(steps, 1))
    if len(mends) > most:
        close = [one for one in mends if one.line == near][: most // 3]
        mends = [*close, *(one for one in mends if one not in close)][:most]
    for start in range(0, len(mends), AT_A_TIME):
        some = mends[start : start + AT_A_TIME]
        texts = [own.text(*mend.edits) for mend in some]
        yield [Tried(*each) for each in zip(some, texts, own.calls(texts, alone), strict=False)]


def _given(alone: Posed, own: OwnProgram) -> dict[str, Any]:
    """The arguments, as the student calls them."""
    case, names = alone.cases[0], [argument.arg for argument in own.tree.args.args]
    given = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
    return {name: value for name, value in given.items() if name in names}


def find_mend(
    posed: Posed,
    alone: Posed,
    own: OwnProgram,
    steps: int,
    only_sure: bool = False,
    near: int = 0,
    chance: frozenset[str] = frozenset(),
) -> tuple[Mend | None, list[Tried]]:
    """The likeliest change after which every case is right, and all that were tried until it was found.

    only_sure: whether to look among the likeliest alone, and for none that may be right by accident.
    near: as in `try_mends`. chance: changes that may make it right by accident here, and are told for want of others.
    """
    posings = [each.part(range(len(each.cases))) for each in (posed, posed.probes) if each is not None]
    tried: list[Tried] = []
    found: list[Mend] = []
    left = FULLY_IF_SHORT if steps <= SHORT else FULLY

    def told(likely: Sequence[Mend]) -> Mend:
        likeliest, times = _either(likely), Counter(number for number, _ in own.values(alone, 0))

        def right(edits: Sequence[Edit]) -> bool:
            return all(_mends(own, own.text(*edits), each) for each in (alone, *posings))

        return falling_away(likeliest, own.tree, times, right) or likeliest

    for some in try_mends(alone, own, steps, near):
        tried += some
        for one in some:
            if only_sure and one.mend.slug in OPEN - {"one-step-too-many"}:
                continue
            if left and one.calls and all_right(alone, one.calls) and not _alike(found, one.mend):
                left -= 1
                if all(_mends(own, one.text, each) for each in posings):
                    found.append(one.mend)
                    likely = [mend for mend in found if mend.slug not in chance]
                    if (one.mend in likely and one.mend.slug not in OPEN) or len(likely) == 2:
                        return told(likely), tried
        if only_sure:
            break
    likely = [mend for mend in found if mend.slug not in chance] or found
    return (told(likely) if likely else None), tried


def _alike(found: Sequence[Mend], other: Mend) -> bool:
    return any(mend.line == other.line and (mend.slug == other.slug or mend.words == other.words) for mend in found)


def _either(found: Sequence[Mend]) -> Mend:
    """What is told of one change, or of two each of which makes it right, the likelier first."""
    first, *others = sorted(found, key=lambda mend: (mend.edit.rank, mend.slug in OPEN, len(mend.edits)))
    others = [other for other in others if other.edit.rank < ODD and other.slug not in SECOND_TO_NONE]
    others = [other for other in others if not set(first.edits) <= set(other.edits)]
    if first.slug in REMOVALS:
        others = [other for other in others if other.edit.place != first.edit.place]
    if not others or first.slug not in OPEN:
        return first
    return replace(first, words=f"{first.words}{OR_ELSE} in line {others[0].line}: {others[0].words}")


def _mends(own: OwnProgram, text: str, posed: Posed) -> bool:
    (calls,) = own.calls([text], posed) or ([],)
    return bool(calls) and all_right(posed, calls)


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
    mended = replace(own, tree=numbered(edited(own.tree, mend.edits)))
    alone = posed.part([first if first in ordinary else ordinary[0]])
    other, _ = find_mend(posed, alone, mended, steps)
    if other is None or other.slug in ARTIFICIAL or other.slug == "no-factor":
        return None
    if not _as_written(other, own):
        return None
    one, two = sorted((mend, other), key=lambda each: each.line)
    text = f"Two things. In line {one.line}: {one.words}. In line {two.line}: {two.words}. "
    text += "With both changed, and all else as it is, every hidden case is right."
    return Finding(f"own-{one.slug}-and-{two.slug}", text)


def _as_written(mend: Mend, own: OwnProgram) -> bool:
    """Do the words for a change of a changed program show nothing but what the student wrote?"""
    pieces, written = re.findall(r"`([^`]*)`", mend.words), ast.unparse(own.tree)
    return all(piece.strip("…") in written for piece in pieces)


def told_of(mend: Mend) -> Finding:
    """What is said of it."""
    if mend.slug == TURNS:
        return Finding(f"own-{mend.slug}", f"In line {mend.line}: {mend.words}.")
    if mend.slug in OPEN:
        which = "Either of two changes makes" if OR_ELSE in mend.words else "One change makes"
        return Finding(f"own-{mend.slug}", f"{which} every hidden case right. In line {mend.line}: {mend.words}.")
    text = f"In line {mend.line}: {mend.words}. With that changed, and all else as it is, every hidden case is right."
    return Finding(f"own-{mend.slug}", text)
