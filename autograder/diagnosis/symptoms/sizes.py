"""Sizes by their names: in the cases all sizes differ, so that 7 is d_k and nothing else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...data import Failure
from ...exercises.kit.records import Case

#: Messages of NumPy and PyTorch about two axes that should be equally long.
_TWO_LENGTHS = tuple(
    map(
        re.compile,
        (
            r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)",
            r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
            r"\(size (\d+) is different from (\d+)\)",
            r"not aligned: (\d+) \(dim \d+\) != (\d+) \(dim \d+\)",
            r"size mismatch, got input \(\d+\), mat \(\d+x(\d+)\), vec \((\d+)\)",
            r"expected input\[[^\]]*\] to have (\d+) channels, but got (\d+)",
            r"The expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)",
            r"at index 0 has size (\d+) and the array at index \d+ has size (\d+)",
            r"Expected size (\d+) but got size (\d+) for tensor number",
        ),
    )
)
#: A share of the cases that is no chance.
MOST = 0.6
_BROADCAST = re.compile(r"with shapes \(([\d,]+)\) \(([\d,]+)\)")
_BATCHES = re.compile(r"batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]")


def two_axes(raised: Sequence[tuple[Case, Failure]]) -> str:
    """ "In line 3 an axis of d_model meets one of h·d_head.", of all that raised; "" where it cannot be said."""
    seen = [(case, _lengths(failure), failure.line) for case, failure in raised]
    if not seen or any(lengths is None for _, lengths, _ in seen):
        return ""
    # Where one of the two is 1 the arrays do fit, so that a case may fail elsewhere: the first line counts.
    line = seen[0][2]
    here = [(case, pair) for case, pair, where in seen if where == line]
    one, other = (mostly([(case, pair[side]) for case, pair in here]) for side in (0, 1))
    if not one or not other or one == other:
        return ""
    where = f"In line {line} an" if line else "An"
    return f"{where} axis of {one} meets one of {other}."


def _lengths(failure: Failure) -> tuple[int, int] | None:
    for pattern in _TWO_LENGTHS:
        found = pattern.search(failure.message)
        if found:
            return int(found[1]), int(found[2])
    found = _BATCHES.search(failure.message)
    if found:
        wanted, got = (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
        return next(((a, b) for a, b in zip(wanted, got, strict=True) if a != b), None)
    found = _BROADCAST.search(failure.message)
    if found:
        shapes = [[int(length) for length in part.split(",") if length] for part in found.groups()]
        pairs = zip(*(reversed(shape) for shape in shapes), strict=False)
        return next(((a, b) for a, b in pairs if a != b and 1 not in (a, b)), None)
    return None


def mostly(lengths: Sequence[tuple[Case, int]]) -> str:
    """The size that is so long in most cases: in a few of them two sizes coincide, and something later fails."""
    for words, value in _candidates(lengths[0][0]):
        agree = sum(value(case) == length for case, length in lengths)
        if agree >= max(2, MOST * len(lengths)) and value(lengths[0][0]) == lengths[0][1]:
            return words
    return name_of(lengths)


def name_of(lengths: Sequence[tuple[Case, int]]) -> str:
    """The size, or the product of sizes, that is so long in each of the cases; a number if it never changes; or ""."""
    if not lengths:
        return ""
    once = len({tuple(case.sizes.items()) for case, _ in lengths}) < 2
    for words, value in _candidates(lengths[0][0]):
        by_chance = once and " " in words  # among so many sums and quotients one fits any length
        if not by_chance and all(value(case) == length for case, length in lengths):
            return words
    found = {length for _, length in lengths}
    return str(found.pop()) if len(found) == 1 and len(lengths) > 1 else ""


def _candidates(case: Case) -> Iterator[tuple[str, Any]]:
    names = [name for name in case.sizes if name.isidentifier()]
    for name in names:
        yield name, lambda c, name=name: c.sizes.get(name)
    for one, other in itertools.combinations_with_replacement(names, 2):
        words = f"{one}·{other}" if one != other else f"{one}²"
        yield words, lambda c, a=one, b=other: c.sizes.get(a, -1) * c.sizes.get(b, 1)
    for one in names:
        for step, words in ((-1, f"{one} − 1"), (1, f"{one} + 1")):
            yield words, lambda c, name=one, step=step: c.sizes.get(name, -9) + step
        yield f"2·{one}", lambda c, name=one: 2 * c.sizes.get(name, -9)
    for one, other in itertools.permutations(names, 2):
        for step, sign in ((1, "+"), (-1, "−")):
            words = f"{one}·({other} {sign} 1)"
            yield words, lambda c, a=one, b=other, s=step: c.sizes.get(a, -9) * (c.sizes.get(b, -9) + s)
    for one, other in itertools.combinations(names, 2):
        yield f"{one}·{other} / 2", lambda c, a=one, b=other: c.sizes.get(a, -9) * c.sizes.get(b, 1) / 2
        yield f"{one}·{other} − 1", lambda c, a=one, b=other: c.sizes.get(a, -9) * c.sizes.get(b, 1) - 1
        yield f"{one} + {other}", lambda c, a=one, b=other: c.sizes.get(a, -99) + c.sizes.get(b, -99)
    for one, other in itertools.permutations(names, 2):
        yield f"{one} / {other}", lambda c, a=one, b=other: c.sizes.get(a, -1) / c.sizes.get(b, 1)
    for one, other in itertools.permutations(names, 2):
        yield f"{one} // {other}", lambda c, a=one, b=other: _whole(c, a, b)
    for three in itertools.combinations(names, 3):
        yield "·".join(three), lambda c, three=three: int(np.prod([c.sizes.get(name, 0) for name in three]))


def _whole(case: Case, one: str, other: str) -> int:
    """The quotient without its rest; no size where it would be 0 or 1, which many quotients are."""
    found = case.sizes.get(one, -1) // case.sizes.get(other, 1)
    return found if found > 1 else -1


def product_of(lengths: Sequence[tuple[Case, int]]) -> str:
    """The product of up to five sizes that is so large in each of two cases or more, in the order of the sizes."""
    names = [name for name in lengths[0][0].sizes if name.isidentifier()]
    if len({tuple(case.sizes.items()) for case, _ in lengths}) < 2:
        return ""
    for count in range(1, 6):
        for some in itertools.combinations(names, count):
            if all(int(np.prod([case.sizes.get(name, 0) for name in some])) == size for case, size in lengths):
                return "·".join(some)
    return ""
