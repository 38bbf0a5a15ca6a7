"""Looks for one small change of a student's own program that makes it right: where it is made, the mistake was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...data import Certainty, Finding
from ...judging.posed import Posed
from ...judging.problems import all_right
from .candidate import ARTIFICIAL, ODD
from .candidates import Repair, repairs_of
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
#: What is not told as another way to repair what a likelier change repairs.
SECOND_TO_NONE = ARTIFICIAL | {"belongs-inside", "not-turned", "no-factor", "no-sign", "unpack-order", "function"}
#: What takes something away: of another change there it is not known whether it does more than that.
REMOVALS = ("one-step-too-many", "one-call-too-many", "index-too-many")
OR_ELSE = ". Or else,"
#: What all changes may cost, in steps of the program, the likeliest changes first.
STEPS = 25_000


def try_repairs(alone: Posed, own: OwnProgram) -> Iterator[list[Tried]]:
    """The changes, the likeliest first, some at a time, each with what the program then answers in one case.

    alone: that case.
    """
    given = _given(alone, own)
    numbers = [name for name, value in given.items() if type(value) in (int, float)]
    arrays = [name for name, value in given.items() if hasattr(value, "shape") and len(value.shape)]
    steps = len(own.values(alone, 0))
    repairs = repairs_of(own.tree, numbers, arrays)[: min(TRIED, STEPS // max(steps, 1))]
    for start in range(0, len(repairs), AT_A_TIME):
        some = repairs[start : start + AT_A_TIME]
        texts = [own.text(*repair.edits) for repair in some]
        yield [Tried(*each) for each in zip(some, texts, own.calls(texts, alone), strict=False)]


def _given(alone: Posed, own: OwnProgram) -> dict[str, Any]:
    """The arguments, as the student calls them."""
    case, names = alone.cases[0], [argument.arg for argument in own.tree.args.args]
    given = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
    return {name: value for name, value in given.items() if name in names}


def find_repair(posed: Posed, alone: Posed, own: OwnProgram, chance: frozenset[str] = frozenset()) -> Repair | None:
    """The likeliest change after which every case is right.

    chance: changes that may make it right by accident here, and are told for want of others.
    """
    posings = [each.part(range(len(each.cases))) for each in (posed, posed.probes) if each is not None]
    found: list[Repair] = []
    left = [FULLY_IF_SHORT if len(own.values(alone, 0)) <= SHORT else FULLY] * 2  # for likely ones, and for chance
    for some in try_repairs(alone, own):
        for one in some:
            left_here = left[one.repair.slug in chance]
            if left_here and one.calls and all_right(alone, one.calls) and not _alike(found, one.repair):
                left[one.repair.slug in chance] -= 1
                if all(_passes(own, one.text, each) for each in posings):
                    found.append(one.repair)
                    likely = [repair for repair in found if repair.slug not in chance]
                    if (one.repair in likely and one.repair.slug not in OPEN) or len(likely) == 2:
                        return _either(likely)
    likely = [repair for repair in found if repair.slug not in chance] or found
    return _either(likely) if likely else None


def _alike(found: Sequence[Repair], other: Repair) -> bool:
    return any(
        repair.line == other.line and (repair.slug == other.slug or repair.words == other.words) for repair in found
    )


def _either(found: Sequence[Repair]) -> Repair:
    """What is told of one change, or of two each of which makes it right, the likelier first."""
    first, *others = sorted(found, key=lambda repair: (repair.edit.rank, repair.slug in OPEN, len(repair.edits)))
    others = [other for other in others if other.edit.rank < ODD and other.slug not in SECOND_TO_NONE]
    others = [other for other in others if not set(first.edits) <= set(other.edits)]
    if first.slug in REMOVALS:
        others = [other for other in others if other.edit.place != first.edit.place]
    if not others or first.slug not in OPEN:
        return first
    return replace(first, words=f"{first.words}{OR_ELSE} in line {others[0].line}: {others[0].words}")


def _passes(own: OwnProgram, text: str, posed: Posed) -> bool:
    (calls,) = own.calls([text], posed) or ([],)
    return bool(calls) and all_right(posed, calls)


def finding_of(repair: Repair) -> Finding:
    """What is said of it."""
    if repair.slug in OPEN:
        which = "Either of two changes makes" if OR_ELSE in repair.words else "One change makes"
        text = f"{which} every hidden case right. In line {repair.line}: {repair.words}."
    else:
        text = f"In line {repair.line}: {repair.words}. "
        text += "With that changed, and all else as it is, every hidden case is right."
    return Finding(f"own-{repair.slug}", text, Certainty.REPAIR)
