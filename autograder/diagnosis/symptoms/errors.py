"""Relations of errors: what an exception says of the axes, in the names of the sizes that meet there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...data import Failure, Finding
from ...exercises.kit.records import Case
from ...text import begun
from ..evidence import Evidence
from . import sizes

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
        name = sizes.mostly([(case, int(match[1])) for case, match in found])
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
    entries = sizes.product_of([(case, int(match["size"])) for case, match in found])
    axes = [sizes.mostly([(case, s[axis]) for case, s in shapes]) for axis in range(len(shapes[0][1]))]
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
    named = sizes.two_axes(raised)
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
