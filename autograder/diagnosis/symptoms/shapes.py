"""Symptoms of shapes: which axis is missing, merged or left over, and what an exception says of two axes."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from ...data import Failure, Finding
from ...exercises.kit.records import Case
from ...judging.compare import close, tolerance
from ...judging.posed import Posed
from ...text import begun
from ..evidence import Evidence

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


#: What an axis of this size is called; of others the size itself is said.
AXES = {"B": "the batch", "batch": "the batch", "h": "the heads", "n_heads": "the heads", "g": "the key/value heads"}
#: What becomes of an axis that is no longer there: in words, and how.
REDUCTIONS: tuple[tuple[str, Callable[[np.ndarray, int], np.ndarray]], ...] = (
    ("summed", lambda array, axis: array.sum(axis=axis)),
    ("averaged", lambda array, axis: array.mean(axis=axis)),
    ("the first alone is there", lambda array, axis: array.take(0, axis=axis)),
    ("the last alone is there", lambda array, axis: array.take(-1, axis=axis)),
    ("the largest alone is there", lambda array, axis: array.max(axis=axis)),
)


@dataclass(frozen=True)
class Misshapen:
    """One result of wrong shape, beside the one that is due."""

    case: Case
    value: np.ndarray
    expected: np.ndarray

    def fits(self, found: np.ndarray) -> bool:
        return found.shape == self.value.shape and close(self.value, found, tolerance(self.case))


def _begin_alike(one: list[Any], other: list[Any]) -> bool:
    """Is one of them the other, cut off?"""
    return all(a == b for a, b in zip(one, other, strict=False))


def wrong_shape(evidence: Evidence) -> Finding | None:
    failing = [index for index in evidence.failing() if evidence.problems[index].kind == "shape"]
    if 2 * len(failing) <= len(evidence.failing()):
        return None
    lists = [evidence.calls[index].value for index in failing if isinstance(evidence.calls[index].value, list)]
    if len(lists) == len(failing):
        due = [evidence.posed.expected[index].value for index in failing]
        if not all(_begin_alike(*pair) for pair in zip(lists, due, strict=True)):
            return None
        text = "The list is too long or too short. Which entries belong to it, and when is it done?"
        return Finding("wrong-length", text)
    leaf = evidence.problems[failing[0]].leaf
    if evidence.posed.exercise.leaves[leaf].kind == "pair list":  # it has no shape to whoever wrote it
        return None
    found = [_of_leaf(evidence, index, leaf) for index in failing if evidence.problems[index].leaf == leaf]
    if any(each.value.dtype.kind not in "biuf" for each in found):
        return None
    name = evidence.posed.exercise.leaves[leaf].name
    whole = len(found) == len(failing)
    if whole and all(map(_is_turned, found)):
        return Finding("transposed", "The result is transposed: rows and columns have changed places.")
    shape = _in_words(name, found)
    told = (_merged_with_another(found) or _lost_axis(found) or _kept_factor(found)) if whole else None
    if told is not None:
        return Finding("wrong-shape", f"{shape} {told}")
    if whole and all(each.value.size == each.expected.size and _same_in_order(each) for each in found):
        return Finding("wrong-shape", f"The numbers are right, the shape is not. {shape} Is an axis too many or few?")
    like = _like_another(evidence, found)
    return Finding("wrong-shape", f"{shape} {like or 'Write down the shape of every step beside the code.'}")


def _of_leaf(evidence: Evidence, index: int, leaf: int) -> Misshapen:
    value, expected = evidence.calls[index].value, evidence.posed.expected[index].value
    if isinstance(value, tuple):
        value, expected = value[leaf], expected[leaf]
    return Misshapen(evidence.posed.cases[index], np.asarray(value), np.asarray(expected))


def _is_turned(each: Misshapen) -> bool:
    return min(each.value.ndim, each.expected.ndim) >= 2 and each.fits(np.swapaxes(each.expected, -1, -2))


def _same_in_order(each: Misshapen) -> bool:
    return close(each.value.ravel(), each.expected.ravel(), tolerance(each.case))


def _names(found: Sequence[Misshapen], due: bool) -> list[str]:
    """The name of each axis, of the shapes that are there or due; its length in the first case where it has none."""
    arrays = [each.expected if due else each.value for each in found]
    if len({array.ndim for array in arrays}) != 1:
        return []
    cases = [each.case for each in found]
    names = []
    for axis in range(arrays[0].ndim):
        lengths = [(case, array.shape[axis]) for case, array in zip(cases, arrays, strict=True)]
        names.append(name_of(lengths) or str(lengths[0][1]))
    return names


def _in_words(name: str, found: Sequence[Misshapen]) -> str:
    """ "The shape of the output is (n, d_k) where (n, d_v) is due." """
    now, due = _names(found, due=False), _names(found, due=True)
    if not now and found[0].value.ndim:
        now = [str(length) for length in found[0].value.shape]
    if not due and found[0].expected.ndim:
        due = [str(length) for length in found[0].expected.shape]
    if found[0].value.ndim and now == due:  # the same names for other lengths: the numbers tell more
        now, due = ([str(length) for length in array.shape] for array in (found[0].value, found[0].expected))
    return f"The shape of {name} is {_listed(now)} where {_listed(due)} is due."


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})" if names else "that of a single number"


def _called(size: str) -> str:
    return f"{AXES[size]} ({size})" if size in AXES else f"the axis {size}"


def _lost_axis(found: Sequence[Misshapen]) -> str | None:
    """One axis is missing: which one, and what became of its entries, as far as that can be seen."""
    due = _names(found, due=True)
    if all(each.value.ndim == 0 < each.expected.ndim for each in found):
        return "One number came back for all of them: over which axes is a mean or a sum due, over which not?"
    if not due or any(each.value.ndim != each.expected.ndim - 1 for each in found):
        return None
    for axis, size in enumerate(due):
        for words, reduce in REDUCTIONS:
            if all(each.expected.size and each.fits(reduce(each.expected, axis)) for each in found):
                return _became(words, size)
    for axis, size in enumerate(due):
        if all(each.value.shape == _without(each.expected.shape, axis) for each in found):
            return f"{begun(_called(size))} got lost."
    return None


def _became(words: str, size: str) -> str:
    return f"Of {_called(size)} {words}." if "alone" in words else f"It is {words} over {_called(size)}."


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _kept_factor(found: Sequence[Misshapen]) -> str | None:
    """An axis of h·d_head came back d_head long: what became of the heads?"""
    now, due = _names(found, due=False), _names(found, due=True)
    if len(now) != len(due):
        return None
    for axis, (one, other) in enumerate(zip(now, due, strict=True)):
        parts = other.split("·")
        if len(parts) != 2 or one not in parts:
            continue
        lost = parts[1 - parts.index(one)]
        for outer in (True, False):
            for words, reduce in REDUCTIONS:
                if all(each.fits(_reduced(each, axis, lost, outer, reduce)) for each in found):
                    return _became(words, lost)
        return f"{begun(_called(lost))} got lost in that axis."
    return None


def _reduced(each: Misshapen, axis: int, lost: str, outer: bool, reduce: Callable) -> np.ndarray:
    count, shape = each.case.sizes.get(lost, 1), each.expected.shape
    if not count or shape[axis] % count:
        return each.expected
    parts = (count, shape[axis] // count) if outer else (shape[axis] // count, count)
    return reduce(each.expected.reshape(*shape[:axis], *parts, *shape[axis + 1 :]), axis + (0 if outer else 1))


def _merged_with_another(found: Sequence[Misshapen]) -> str | None:
    """The heads are joined with the tokens where they are to be joined with the columns, say."""
    now, due = _names(found, due=False), _names(found, due=True)
    if len(now) != len(due) or any(each.value.size != each.expected.size for each in found):
        return None
    for there, wanted in itertools.product(_products(now), _products(due)):
        common = set(there) & set(wanted)
        if len(common) == 1 and set(there) != set(wanted):
            joined = common.pop()
            other, right = (next(n for n in pair if n != joined) for pair in (there, wanted))
            return f"{begun(_called(joined))}: joined with {_called(other)}, to be joined with {_called(right)}."
    return None


def _products(names: Sequence[str]) -> Iterator[list[str]]:
    return (name.split("·") for name in names if name.count("·") == 1)


def _like_another(evidence: Evidence, found: Sequence[Misshapen]) -> str | None:
    """The shape there is in every case that of an argument, or of a step on the way."""
    if len({each.value.shape for each in found}) < 2:
        return None
    posed, names = evidence.posed, evidence.parameters()
    shapes = [_shapes(names, each.case) | shapes_of_steps(posed, each.case) for each in found]
    for name in shapes[0]:
        if all(each.value.shape == known.get(name) for each, known in zip(found, shapes, strict=True)):
            return f"That is the shape of `{name}`."
    return None


def _shapes(names: Sequence[str], case: Case) -> dict[str, tuple[int, ...]]:
    given = zip(names, case.args, strict=False)
    return {name: value.shape for name, value in given if isinstance(value, np.ndarray) and value.ndim}


def shapes_of_steps(posed: Posed, case: Case) -> dict[str, tuple[int, ...]]:
    """The shapes of what the plain program works out on the way, by the names that it has there."""
    program, found = posed.exercise.plain, {}
    if program is None:
        return {}

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is program.__code__:
            named = {name: value for name, value in frame.f_locals.items() if len(name) > 3}
            found.update({name: tuple(value.shape) for name, value in named.items() if hasattr(value, "shape")})

    def watched(*args: object, **kwargs: object) -> object:
        before = sys.getprofile()
        sys.setprofile(look)
        try:
            return program(*args, **kwargs)
        finally:
            sys.setprofile(before)

    posed.ask(watched, case)
    return {name: shape for name, shape in found.items() if shape}


Raised = Sequence[tuple[Case, Failure]]

_OUT_OF_BOUNDS = re.compile(r"index -?\d+ is out of bounds for (?:axis|dimension) \d+ with size (\d+)")
_PAST_THE_END = re.compile(r"(?:list|tuple) index out of range|index out of range in self|shape mismatch: indexing")
#: (axes that are counted on, axes that are there), in the messages of NumPy and PyTorch.
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
_STACKED = re.compile(r"all input arrays must have the same shape|stack expects each tensor to be equal size")
_SPLIT = re.compile(r"array split does not result in an equal division|split_with_sizes")
#: What speaks of two arrays whose axes do not go together, where it can't be said which.
_TWO_ARRAYS = re.compile(
    r"broadcast|not aligned|mismatch|must match|size of tensor a|cannot be multiplied|same shape|inconsistent tensor"
)

WRITE = "Write the shape of each array beside the line that fails."


def of_shapes(evidence: Evidence) -> Finding | None:
    """It raises because sizes or axes were taken for one another; said only as far as its message goes."""
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
    """What fails in the line of the first failure: other cases may come past it, and fail elsewhere."""
    first = raised[0][1]
    return [(case, f) for case, f in raised if f.line == first.line and f.type_name == first.type_name]


def _in(raised: Raised) -> str:
    line = raised[0][1].line
    return f"in line {line} " if line else ""


def strided(raised: Raised) -> Finding | None:
    if all("view size is not compatible" in failure.message for _, failure in raised):
        text = "`view` fails where entries do not lie in order in memory: after a transpose, in a part of a larger "
        text += "tensor, in a clone of either. `reshape` copies where it must; what is written into a copy stays there."
        return Finding("view-of-strided", text)
    return None


def past_the_end(raised: Raised) -> Finding | None:
    found = [(case, _OUT_OF_BOUNDS.search(failure.message)) for case, failure in raised]
    if all(match for _, match in found):
        name = mostly([(case, int(match[1])) for case, match in found])
        of = f"an axis of {name}" if name and not name.isdigit() else "an axis"
        text = f"{begun(_in(raised))}an index goes past the end of {of}" if _in(raised) else ""
        text = text or f"An index goes past the end of {of}"
        return Finding("index-out-of-range", f"{text}: what is counted there, and what is that axis?")
    if all(failure.type_name == "IndexError" and _PAST_THE_END.search(failure.message) for _, failure in raised):
        of_list = all("list" in failure.message or "tuple" in failure.message for _, failure in raised)
        where = "an index goes past the end of a list" if of_list else "an index goes past the end"
        asked = "can it be empty, or shorter than is counted on" if of_list else "is one size taken for another"
        text = f"{begun(_in(raised) + where)}: {asked}?"
        return Finding("index-out-of-range", text)
    return None


def number_of_axes(raised: Raised) -> Finding | None:
    """It counts on another number of axes than an array has."""
    first = raised[0][1].message
    for pattern in _AXES:
        match = pattern.search(first)
        if match:
            there, due = int(match["there"]), int(match["due"])
            text = f"{_in(raised)}an array is taken to have {_axes(due)}, and has {there}"
            return Finding("number-of-axes", f"{begun(text)}. Which axes does the docstring allow?")
    for pattern in _NO_SUCH_AXIS:
        match = pattern.search(first)
        if match:
            text = f"{_in(raised)}axis {match['axis']} is asked for, of an array that has {_axes(int(match['there']))}"
            return Finding("number-of-axes", f"{begun(text)}. Which axes does the docstring allow?")
    match = _TOO_MANY_INDICES.search(first)
    if match:
        text = f"{_in(raised)}an array that has {_axes(int(match[1]))} is given more indices than that"
        return Finding("number-of-axes", f"{begun(text)}. Which axes does the docstring allow?")
    for pattern in _UNPACKED:
        match = pattern.search(first)
        if match:
            has = f"has {match['there']}" if match["there"] else "has more"
            text = f"{_in(raised)}something is taken apart into {match['due']} names, and {has} parts"
            return Finding("number-of-axes", f"{begun(text)}: a shape has as many parts as there are axes.")
    if _AXES_DO_NOT_MATCH.search(first):
        text = f"{_in(raised)}an array has another number of axes than is counted on"
        return Finding("number-of-axes", f"{begun(text)}. {WRITE}")
    return None


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def reshaped(raised: Raised) -> Finding | None:
    """An array is to get a shape of another number of entries."""
    found = [(case, _first(_RESHAPED, failure.message)) for case, failure in raised]
    if not all(match for _, match in found):
        return None
    shapes = [(case, [int(n) for n in match["shape"].split(",") if n.strip()]) for case, match in found]
    if len({len(shape) for _, shape in shapes}) != 1:
        return None
    entries = product_of([(case, int(match["size"])) for case, match in found])
    axes = [mostly([(case, s[axis]) for case, s in shapes]) for axis in range(len(shapes[0][1]))]
    if not all(axes):
        return Finding("does-not-reshape", f"{begun(_in(raised) + 'an array has')} too many or too few entries for the "
                       f"shape that it is to take. {WRITE}")  # fmt: skip
    asked = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    what = f"an array of {entries} entries" if entries else "an array"
    text = f"{_in(raised)}{what} is to take the shape {asked}, which has room for more or for fewer"
    return Finding("does-not-reshape", f"{begun(text)}: is each of these sizes what it should be?")


def _first(patterns: Sequence[re.Pattern[str]], message: str) -> re.Match[str] | None:
    return next((match for pattern in patterns if (match := pattern.search(message))), None)


def stacked(raised: Raised) -> Finding | None:
    if all(_STACKED.search(failure.message) for _, failure in raised):
        text = f"{_in(raised)}arrays of different shapes are stacked: their sizes differ by the docstring"
        return Finding("stacks-different-shapes", f"{begun(text)}.")
    return None


def split(raised: Raised) -> Finding | None:
    if all(_SPLIT.search(failure.message) for _, failure in raised):
        text = f"{_in(raised)}an array is split into parts whose sizes do not add up to it: are the parts equally wide?"
        return Finding("unequal-parts", begun(text))
    return None


def no_inverse(raised: Raised) -> Finding | None:
    if any(failure.type_name not in ("LinAlgError", "_LinAlgError") for _, failure in raised):
        return None
    if all("must be square" in failure.message for _, failure in raised):
        text = f"{_in(raised)}a matrix is inverted that is not square, so that it has no inverse"
        return Finding("inverts-what-is-not-square", f"{begun(text)}. Is there another way to undo it?")
    if all("ingular" in failure.message for _, failure in raised):
        text = f"{_in(raised)}a matrix is inverted, or a system solved, that has no inverse: it is singular here"
        return Finding("inverts-what-is-singular", f"{begun(text)}. Which way needs no inverse?")
    return None


def two_arrays(raised: Raised) -> Finding | None:
    named = two_axes(raised)
    if named:
        return Finding("shapes-do-not-fit", f"{named} {WRITE}")
    if all(_TWO_ARRAYS.search(failure.message) for _, failure in raised):
        return Finding("shapes-do-not-fit", f"Two arrays do not fit together. {WRITE}")
    return None


#: What an exception may say, the most telling first.
RELATIONS: tuple[Callable[[Raised], Finding | None], ...] = (
    strided,
    past_the_end,
    number_of_axes,
    reshaped,
    stacked,
    split,
    no_inverse,
    two_arrays,
)
