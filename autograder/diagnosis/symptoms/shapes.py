"""Diagnoses wrong shapes: which axis is missing, merged or extra, and what an exception says about two axes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...exercises.kit.exercise_records import Case
from ...judging.compare_results import close, tolerance
from ...records import Failure, Finding
from ...safe_text import counted, returned, spoken
from ..calls_and_expected import Evidence
from ..finding_sentences import named, say

#: Messages of NumPy and PyTorch about two axes whose lengths should be equal.
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
Raised = Sequence[tuple[Case, Failure]]

#: A share of the cases that is too large for chance.
MOST = 0.6
_BROADCAST = re.compile(r"with shapes \(([\d,]+)\) \(([\d,]+)\)")
_BATCHES = re.compile(r"batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]")


def two_axes(raised: Raised) -> tuple[str, str] | None:
    """Return the sizes of the two axes whose lengths clash in every failing call, or None if that is unclear."""
    seen = [(case, _lengths(failure), failure.line) for case, failure in raised]
    if not seen or any(lengths is None for _, lengths, _ in seen):
        return None
    # An axis of length 1 broadcasts, so that a case may fail in a later line: only the first line counts.
    here = [(case, pair) for case, pair, line in seen if line == seen[0][2]]
    one, other = (mostly([(case, pair[side]) for case, pair in here]) for side in (0, 1))
    return (one, other) if one and other and one != other else None


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
    """Return the size that has this length in most cases.

    It need not fit all of them, because in a few cases two sizes coincide and the function fails only at a later line.
    Only single sizes and plain products count here, or only single sizes if the length never changes, because among so
    many sums and doubles one fits by chance. Otherwise `name_of` decides.
    """
    same = len({length for _, length in lengths}) == 1 and len({tuple(case.sizes.items()) for case, _ in lengths}) > 1
    for words, value in _candidates(lengths[0][0]):
        if not words.isidentifier() and (same or "·" not in words or " " in words or words[0] == "2"):
            continue
        agree = sum(value(case) == length for case, length in lengths)
        if agree >= max(2, MOST * len(lengths)) and value(lengths[0][0]) == lengths[0][1]:
            return words
    return name_of(lengths)


def name_of(lengths: Sequence[tuple[Case, int]]) -> str:
    """Return the size or product of sizes with this length in every case, a number if it never changes, or ""."""
    if not lengths:
        return ""
    once = len({tuple(case.sizes.items()) for case, _ in lengths}) < 2
    for words, value in _candidates(lengths[0][0]):
        by_chance = once and " " in words  # with so many sums, one fits any length
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
        yield f"{one} + {other}", lambda c, a=one, b=other: c.sizes.get(a, -99) + c.sizes.get(b, -99)
    for three in itertools.combinations(names, 3):
        yield "·".join(three), lambda c, three=three: int(np.prod([c.sizes.get(name, 0) for name in three]))


def product_of(lengths: Sequence[tuple[Case, int]]) -> str:
    """Return the product of up to five sizes that has this value in every case; "" if all cases have the same sizes."""
    names = [name for name in lengths[0][0].sizes if name.isidentifier()]
    if len({tuple(case.sizes.items()) for case, _ in lengths}) < 2:
        return ""
    for count in range(1, 6):
        for some in itertools.combinations(names, count):
            if all(int(np.prod([case.sizes.get(name, 0) for name in some])) == size for case, size in lengths):
                return "·".join(some)
    return ""


#: The key of the words for an axis of this size; other axes are named by the size itself.
AXES = {
    **{"B": "axis/batch", "batch": "axis/batch", "h": "axis/heads", "n_heads": "axis/heads"},
    "g": "axis/key-value-heads",
}
#: What may have happened to a missing axis: the key of its sentence, and the reduction.
REDUCTIONS: tuple[tuple[str, Callable[[np.ndarray, int], np.ndarray]], ...] = (
    ("wrong-shape/summed", lambda array, axis: array.sum(axis=axis)),
    ("wrong-shape/averaged", lambda array, axis: array.mean(axis=axis)),
    ("wrong-shape/first", lambda array, axis: array.take(0, axis=axis)),
    ("wrong-shape/last", lambda array, axis: array.take(-1, axis=axis)),
    ("wrong-shape/largest", lambda array, axis: array.max(axis=axis)),
)


@dataclass(frozen=True)
class Misshapen:
    """One result of wrong shape, with the expected one."""

    case: Case
    value: np.ndarray
    expected: np.ndarray

    def fits(self, found: np.ndarray) -> bool:
        return found.shape == self.value.shape and close(self.value, found, tolerance(self.case))


def wrong_shape(evidence: Evidence) -> Finding | None:
    failing = [index for index in evidence.failing() if evidence.problems[index].kind == "shape"]
    if 2 * len(failing) <= len(evidence.failing()):
        return None
    if all(isinstance(evidence.calls[index].value, list) for index in failing):  # left to `types_and_forms.of_lists`
        return None
    leaf = evidence.problems[failing[0]].leaf
    if evidence.posed.exercise.leaves[leaf].kind == "pair list":  # for the student, it has no shape
        return None
    places = [index for index in failing if evidence.problems[index].leaf == leaf]
    found = [_of_leaf(evidence, index, leaf) for index in places]
    if any(each.value.dtype.kind not in "biuf" for each in found):
        return None
    every = [*found, *_right_ones(evidence, leaf)]
    names = _names(found, every, due=False), _names(found, every, due=True)
    shape = {"result": returned(evidence.posed.exercise.leaves[leaf].name), **_there_and_due(found, *names)}
    told = None
    if len(found) == len(failing):
        if all(map(_is_turned, found)):
            return named("transposed")
        told = _merged_with_another(found, *names) or _lost_axis(found, names[1])
        if told is None and all(each.value.size == each.expected.size and _same_in_order(each) for each in found):
            return named("wrong-shape/numbers-right", **shape)
    told = told or _like_another(evidence, places, leaf, found) or say("wrong-shape/look")
    return Finding("wrong-shape", f"{say('wrong-shape', **shape)} {told}")


def _of_leaf(evidence: Evidence, index: int, leaf: int) -> Misshapen:
    value, expected = evidence.calls[index].value, evidence.posed.expected[index].value
    if isinstance(value, tuple):
        value, expected = value[leaf], expected[leaf]
    return Misshapen(evidence.posed.cases[index], np.asarray(value), np.asarray(expected))


def _is_turned(each: Misshapen) -> bool:
    return min(each.value.ndim, each.expected.ndim) >= 2 and each.fits(np.swapaxes(each.expected, -1, -2))


def _same_in_order(each: Misshapen) -> bool:
    return close(each.value.ravel(), each.expected.ravel(), tolerance(each.case))


def _right_ones(evidence: Evidence, leaf: int) -> Iterator[Misshapen]:
    """The same result in the passing cases, because the name of an axis must hold for them too."""
    for index, problem in enumerate(evidence.problems):
        case, call = evidence.posed.cases[index], evidence.calls[index]
        if problem is None and call.failure is None and case.raises is None and not case.gradient:
            yield _of_leaf(evidence, index, leaf)


def _names(found: Sequence[Misshapen], every: Sequence[Misshapen], due: bool) -> list[str]:
    """The name of each axis of the actual or expected shapes; its length in the first case if it has no name."""
    shapes = [(each.case, (each.expected if due else each.value).shape) for each in every]
    axes = len(shapes[0][1])
    if any(len(shape) != axes for _, shape in shapes[: len(found)]):
        return []
    alike = [
        (case, shape) for case, shape in shapes if len(shape) == axes and case.sizes.keys() >= shapes[0][0].sizes.keys()
    ]
    names = []
    for axis in range(axes):
        lengths = [(case, shape[axis]) for case, shape in alike]
        names.append(name_of(lengths) or str(lengths[0][1]))
    return names


def _there_and_due(found: Sequence[Misshapen], now: Sequence[str], due: Sequence[str]) -> dict[str, str]:
    """The actual and the expected shape: "(n, d_k)" and "(n, d_v)"."""
    if now == due:  # the same names for different lengths: numbers are clearer
        now = due = []
    shape, wanted = (list(map(str, array.shape)) for array in (found[0].value, found[0].expected))
    return {"there": _listed(now or shape), "due": _listed(due or wanted)}


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})" if names else say("shape/number")


def _called(size: str) -> str:
    return say(AXES.get(size, "axis"), size=size)


def _lost_axis(found: Sequence[Misshapen], due: Sequence[str]) -> str | None:
    """The sentence on a missing axis: which one it is and, if that is visible, how its entries were reduced."""
    if all(each.value.ndim == 0 < each.expected.ndim for each in found):
        return say("wrong-shape/one-number")
    if not due or any(each.value.ndim != each.expected.ndim - 1 for each in found):
        return None
    for axis, size in enumerate(due):
        for key, reduce in REDUCTIONS:
            if all(each.expected.size and each.fits(reduce(each.expected, axis)) for each in found):
                return say(key, axis=_called(size))
    for axis, size in enumerate(due):
        if all(each.value.shape == _without(each.expected.shape, axis) for each in found):
            return say("wrong-shape/lost", axis=_called(size))
    return None


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _merged_with_another(found: Sequence[Misshapen], now: Sequence[str], due: Sequence[str]) -> str | None:
    """The sentence on an axis that is merged with the wrong one, such as heads with tokens instead of columns."""
    if len(now) != len(due) or any(each.value.size != each.expected.size for each in found):
        return None
    for there, wanted in itertools.product(_products(now), _products(due)):
        common = set(there) & set(wanted)
        if len(common) == 1 and set(there) != set(wanted):
            joined = common.pop()
            other, right = (next(n for n in pair if n != joined) for pair in (there, wanted))
            return say("wrong-shape/joined", axis=_called(joined), other=_called(other), due=_called(right))
    return None


def _products(names: Sequence[str]) -> Iterator[list[str]]:
    return (name.split("·") for name in names if name.count("·") == 1)


def _like_another(evidence: Evidence, places: Sequence[int], leaf: int, found: Sequence[Misshapen]) -> str | None:
    """The sentence if the shape is that of an argument or of another result in every case."""
    if len({each.value.shape for each in found}) < 2:
        return None
    shapes = [_shapes(evidence, index, leaf) for index in places]
    for name in shapes[0]:
        if all(each.value.shape == known.get(name) for each, known in zip(found, shapes, strict=True)):
            return say("wrong-shape/like", name=spoken(name))
    return None


def _shapes(evidence: Evidence, index: int, leaf: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the arguments and of the other results in one case."""
    results = (right for _, right in evidence.results(index))
    names = (part.name for part in evidence.posed.exercise.leaves)
    others = [pair for place, pair in enumerate(zip(names, results, strict=False)) if place != leaf]
    pairs = [*zip(evidence.parameters(), evidence.posed.cases[index].args, strict=False), *others]
    return {name: value.shape for name, value in pairs if isinstance(value, np.ndarray) and value.ndim}


_OUT_OF_BOUNDS = re.compile(r"index -?\d+ is out of bounds for (?:axis|dimension) \d+ with size (\d+)")
_PAST_THE_END = re.compile(r"(?:list|tuple) index out of range|index out of range in self|shape mismatch: indexing")
#: Messages of NumPy and PyTorch about the expected and the actual number of axes.
_AXES = tuple(
    map(
        re.compile,
        (
            r"number of subscripts in the equation \((?P<due>\d+)\).* number of dimensions \((?P<there>\d+)\)",
            r"array is (?P<there>\d+)-dimensional, but (?P<due>\d+) were indexed",
            r"input\.dim\(\) = (?P<there>\d+) is not equal to len\(dims\) = (?P<due>\d+)",
        ),
    )
)
_UNPACKED = tuple(
    map(
        re.compile,
        (
            r"not enough values to unpack \(expected (?P<due>\d+), got (?P<there>\d+)\)",
            r"too many values to unpack \(expected (?P<due>\d+)(?:, got (?P<there>\d+))?\)",
        ),
    )
)
_NO_SUCH_AXIS = (
    re.compile(r"axis (?P<axis>-?\d+) is out of bounds for array of dimension (?P<there>\d+)"),
    re.compile(r"expected to be in range of \[-(?P<there>\d+), \d+\], but got (?P<axis>-?\d+)"),
)
_TOO_MANY_INDICES = re.compile(r"too many indices for tensor of dimension (\d+)")
_AXES_DO_NOT_MATCH = re.compile(r"axes don't match array|number of dims don't match|subscripts string")
_RESHAPED = (
    re.compile(r"shape '\[(?P<shape>[^\]]*)\]' is invalid for input of size (?P<size>\d+)"),
    re.compile(r"cannot reshape array of size (?P<size>\d+) into shape \((?P<shape>[^)]*)\)"),
)
#: Messages about two arrays that do not fit, without saying in which axes.
_TWO_ARRAYS = re.compile(
    r"broadcast|not aligned|mismatch|must match|size of tensor a|cannot be multiplied|same shape|inconsistent tensor"
)


def of_shapes(evidence: Evidence) -> Finding | None:
    """Return a finding if the calls raise because sizes or axes are confused, as far as the message shows it."""
    ordinary = [index for index in evidence.failing() if evidence.posed.cases[index].raises is None]
    raised = [(evidence.posed.cases[i], failure) for i in ordinary if (failure := evidence.calls[i].failure)]
    in_core = any(case.criterion == evidence.posed.exercise.core for case, _ in raised)
    if not raised or (3 * len(raised) < len(evidence.failing()) and not in_core):
        return None
    for relation in RELATIONS:
        found = relation(_alike(raised))
        if found is not None:
            return found
    return None


def _alike(raised: Raised) -> Raised:
    """The failures in the line of the first one; other cases may pass this line and fail elsewhere."""
    first = raised[0][1]
    return [(case, f) for case, f in raised if f.line == first.line and f.type_name == first.type_name]


def _in_line(raised: Raised, key: str, **fields: object) -> Finding:
    """The finding of this key, with the line of the failures if there is one."""
    line = raised[0][1].line
    return named(key, at=say("at-line", line=line) if line else "", **fields)


def _all_say(raised: Raised, words: str | re.Pattern[str]) -> bool:
    return all(re.search(words, failure.message) for _, failure in raised)


def strided(raised: Raised) -> Finding | None:
    return named("view-of-strided") if _all_say(raised, "view size is not compatible") else None


def past_the_end(raised: Raised) -> Finding | None:
    found = [(case, _OUT_OF_BOUNDS.search(failure.message)) for case, failure in raised]
    if all(match for _, match in found):
        size = mostly([(case, int(match[1])) for case, match in found])
        is_named = size and not size.isdigit()
        return _in_line(raised, "index-out-of-range/size" if is_named else "index-out-of-range", size=size)
    if raised[0][1].type_name == "IndexError" and _all_say(raised, _PAST_THE_END):
        is_list = _all_say(raised, "list|tuple")
        return _in_line(raised, "index-out-of-range/list" if is_list else "index-out-of-range/unknown")
    return None


def number_of_axes(raised: Raised) -> Finding | None:
    """Return a finding if the code expects a different number of axes than the array has."""
    message = raised[0][1].message
    if match := _first(_AXES, message):
        return _in_line(raised, "number-of-axes", axes=_axes(match["due"]), there=match["there"])
    if match := _first(_NO_SUCH_AXIS, message):
        return _in_line(raised, "number-of-axes/no-such", axis=match["axis"], axes=_axes(match["there"]))
    if match := _TOO_MANY_INDICES.search(message):
        return _in_line(raised, "number-of-axes/indices", axes=_axes(match[1]))
    if match := _first(_UNPACKED, message):
        key = "number-of-axes/parts" if match["there"] else "number-of-axes/more-parts"
        return _in_line(raised, key, due=match["due"], there=counted(int(match["there"] or 0), "value"))
    return _in_line(raised, "number-of-axes/unknown") if _AXES_DO_NOT_MATCH.search(message) else None


def _axes(count: str) -> str:
    return say("number-of-axes/one" if int(count) == 1 else "number-of-axes/several", count=count)


def reshaped(raised: Raised) -> Finding | None:
    """Return a finding if an array does not have as many entries as its new shape needs."""
    found = [(case, _first(_RESHAPED, failure.message)) for case, failure in raised]
    if not all(match for _, match in found):
        return None
    shapes = [(case, [int(n) for n in match["shape"].split(",") if n.strip()]) for case, match in found]
    if len({len(shape) for _, shape in shapes}) != 1:
        return None
    entries = product_of([(case, int(match["size"])) for case, match in found])
    axes = [mostly([(case, s[axis]) for case, s in shapes]) for axis in range(len(shapes[0][1]))]
    if not all(axes):
        return _in_line(raised, "does-not-reshape/unknown")
    key = "does-not-reshape/entries" if entries else "does-not-reshape"
    return _in_line(raised, key, entries=entries, due=f"({', '.join(axes)}{',' if len(axes) == 1 else ''})")


def _first(patterns: Sequence[re.Pattern[str]], message: str) -> re.Match[str] | None:
    return next((match for pattern in patterns if (match := pattern.search(message))), None)


def two_arrays(raised: Raised) -> Finding | None:
    met = two_axes(raised)
    if met is not None:
        return _in_line(raised, "shapes-do-not-fit/named", one=met[0], other=met[1])
    return named("shapes-do-not-fit") if _all_say(raised, _TWO_ARRAYS) else None


#: The checks of exceptions, the most informative first.
RELATIONS: tuple[Callable[[Raised], Finding | None], ...] = (
    strided,
    past_the_end,
    number_of_axes,
    reshaped,
    two_arrays,
)
