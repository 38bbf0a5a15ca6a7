"""Two slips that show in different places: a change that makes a part of it right, and one for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...data import Call, Finding
from ..compare import RTOL_FLOAT32, Problem, same, tolerance
from ..posed import Posed
from ..problems import all_in_our_terms, problem_of, problems_of
from ..variants.compared import listed
from ..variants.edit import ODD
from .mend import ARTIFICIAL, Mend
from .program import Again, OwnProgram, Tried

#: Changes that are tried on all cases, and those after which a second one is looked for.
FULLY, AGAIN = 12, 1
#: Changes that put one result in the place of another: a part may be right then by chance.
ORDER = ("order-of-results", "unpack-order", "returned")

#: (case, result) pairs that are right.
Parts = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class _Gain:
    """A change that makes more of an answer right, and nothing wrong that was right. problems: that are left."""

    mend: Mend
    parts: Parts
    problems: Sequence[Problem | None]


def find_one_by_one(
    posed: Posed, first: int, tried: Sequence[Tried], own: OwnProgram, calls: Sequence[Call], again: Again
) -> Finding | None:
    """Two changes after which every case is right; or one that makes right most of what was wrong.

    first: the case that was tried. calls: what the program answers as it is.
    """
    everything = posed.part(range(len(posed.cases)))
    before = _right(everything, calls)
    gains = _gains(everything, first, tried, own, before)
    for gain in gains[:AGAIN]:
        found = again(gain.mend, gain.problems)
        if found is not None:
            return found
    return _partly(posed, gains[0], before) if gains else None


def _gains(everything: Posed, first: int, tried: Sequence[Tried], own: OwnProgram, before: Parts) -> list[_Gain]:
    """The changes that make more right, those first that make the most."""
    alone = everything.part([first])
    here = {leaf for case, leaf in before if case == first}
    hopeful = []
    for one in tried:
        if one.calls and one.mend.edit.rank < ODD and one.mend.slug not in ARTIFICIAL:
            there = _right(alone, all_in_our_terms(alone, one.calls))
            if {leaf for _, leaf in there} > here:
                hopeful.append(one)
    gains = []
    for one in hopeful[:FULLY]:
        (calls,) = own.calls([one.text], everything) or ([],)
        calls = all_in_our_terms(everything, calls)
        parts = _right(everything, calls) if calls else frozenset()
        if parts > before:
            gains.append(_Gain(one.mend, parts, problems_of(everything, calls)))
    return sorted(gains, key=lambda gain: -len(gain.parts))


def _right(posed: Posed, calls: Sequence[Call]) -> Parts:
    """Which results of which cases are right."""
    count, found = len(posed.exercise.leaves), set()
    for index, call in enumerate(calls):
        if problem_of(posed, index, calls) is None:
            found |= {(index, leaf) for leaf in range(count)}
        elif call.failure is None and posed.cases[index].raises is None and not posed.cases[index].gradient:
            results, expected = listed(call.value, count), listed(posed.expected[index].value, count)
            rtol = max(tolerance(posed.cases[index]), RTOL_FLOAT32)
            if count > 1 and len(results) == len(expected) == count:
                found |= {(index, leaf) for leaf in range(count) if same(results[leaf], expected[leaf], rtol)}
    return frozenset(found)


def _whole(posed: Posed, case: int, parts: Parts) -> bool:
    return all((case, leaf) in parts for leaf in range(len(posed.exercise.leaves)))


def _partly(posed: Posed, gain: _Gain, before: Parts) -> Finding | None:
    """What a change makes right, where that is a result everywhere, or most of the cases that were wrong."""
    cases, names = range(len(posed.cases)), [leaf.name for leaf in posed.exercise.leaves]
    lead = f"In line {gain.mend.line}: {gain.mend.words}. With that changed, "
    became = [
        name
        for leaf, name in enumerate(names)
        if all((case, leaf) in gain.parts for case in cases if posed.cases[case].raises is None)
        and not all((case, leaf) in before for case in cases if posed.cases[case].raises is None)
    ]
    if became and len(became) < len(names) and gain.mend.slug not in ORDER:
        said = f"{' and '.join(became)} would be right, and something else is wrong beside it."
        return Finding(f"own-{gain.mend.slug}-in-part", lead + said)
    wrong = [case for case in cases if not _whole(posed, case, before)]
    mended = [case for case in wrong if _whole(posed, case, gain.parts)]
    if 2 * len(mended) > len(wrong) and not gain.mend.slug.startswith("one-"):  # what is left out may have its place
        left = next((posed.cases[case].label for case in wrong if case not in mended), None)
        if left is None:  # right where sizes differ, and not where they are equal
            return None
        said = f"{len(mended)} of the {len(wrong)} wrong cases would be right, and not “{left}”."
        return Finding(f"own-{gain.mend.slug}-in-part", lead + said)
    return None
