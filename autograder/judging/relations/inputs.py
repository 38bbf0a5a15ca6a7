"""Relations of inputs: the answer is what the reference gives when something is done to the inputs first."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...data import Certainty, Finding
from ...exercises.kit.arguments import Rng
from ...exercises.kit.records import Case
from ...worker.values import leaves
from ..compare import same, slack
from ..posed import Evidence, Outcome

Change = Callable[[Any], Any]
#: A change of one argument: slug, words with the argument's name in them, and what is done.
Named = tuple[str, str, Change]

_OF_NUMBERS: tuple[Named, ...] = (
    ("unused", "as if {} were 1.", lambda v: 1),
    ("one-less", "as if {} were smaller by 1.", lambda v: v - 1),
    ("one-more", "as if {} were larger by 1.", lambda v: v + 1),
    ("doubled", "as if {} were doubled.", lambda v: 2 * v),
    ("squared", "as if {} were squared.", lambda v: v * v),
)

_OF_ARRAYS: tuple[Named, ...] = (
    ("rounded", "as if {} had been rounded.", np.round),
    ("cut", "as if {} had been cut to whole numbers.", np.trunc),
    ("absolute", "as if the signs of {} were lost.", np.abs),
    ("negated", "as if the sign of {} were turned.", np.negative),
    ("zeroed", "as if {} were all zeros.", np.zeros_like),
    ("as-ones", "as if {} were all ones.", np.ones_like),
    ("centred-in-rows", "as if each row of {} had been centred first.", lambda v: v - v.mean(-1, keepdims=True)),
    ("centred-in-columns", "as if each column of {} had been centred first.", lambda v: v - v.mean(0, keepdims=True)),
    ("without-last-row", "as if the last row of {} were left out.", lambda v: _blank(v, 0, slice(-1, None))),
    ("without-first-row", "as if the first row of {} were left out.", lambda v: _blank(v, 0, slice(0, 1))),
    ("first-row-only", "as if only the first row of {} were used.", lambda v: _blank(v, 0, slice(1, None))),
    ("without-last-column", "as if the last column of {} were left out.", lambda v: _blank(v, -1, slice(-1, None))),
    ("without-first-column", "as if the first column of {} were left out.", lambda v: _blank(v, -1, slice(0, 1))),
    ("first-column-only", "as if only the first column of {} were used.", lambda v: _blank(v, -1, slice(1, None))),
    ("reversed", "as if the rows of {} came in reverse order.", lambda v: v[::-1]),
    ("columns-reversed", "as if the columns of {} came in reverse order.", lambda v: v[..., ::-1]),
    (
        "first-of-batch",
        "as if every entry of {} along its first axis were the first.",
        lambda v: np.repeat(v[:1], len(v), 0),
    ),
    ("turned", "as if {} were transposed.", lambda v: _if_square(v)),
    (
        "misread",
        "as if {} had been reshaped in place of transposed.",
        lambda v: v.T.reshape(v.shape) if v.ndim == 2 else v,
    ),
    (
        "reread",
        "as if {} had been transposed by a reshape.",
        lambda v: v.reshape(v.shape[::-1]).T if v.ndim == 2 else v,
    ),
    ("doubled", "as if {} counted twice.", lambda v: 2 * v),
    ("flipped", "as if True and False of {} had changed places.", lambda v: ~v if v.dtype == bool else v),
    ("all-true", "as if {} were True everywhere.", lambda v: np.ones_like(v) if v.dtype == bool else v),
)


def _blank(array: np.ndarray, axis: int, where: slice) -> np.ndarray:
    if array.ndim == 0 or array.shape[axis] < 2:
        return array
    copy = array.copy()
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = where
    copy[tuple(index)] = 0
    return copy


def _if_square(array: np.ndarray) -> np.ndarray:
    return np.swapaxes(array, -1, -2) if array.ndim >= 2 and array.shape[-1] == array.shape[-2] else array


def changed_inputs(evidence: Evidence) -> Finding | None:
    """Is the answer right for other inputs: one argument changed, or two exchanged?"""
    indices = [
        index
        for index in evidence.failing()
        if evidence.calls[index].failure is None and evidence.posed.cases[index].raises is None
    ]
    if not indices or len(indices) * 2 < len(evidence.failing()):
        return None
    exercise, cases = evidence.posed.exercise, evidence.posed.cases
    names = list(inspect.signature(exercise.reference).parameters)
    core = [index for index in indices if cases[index].criterion == next(iter(exercise.credit))] or indices
    if not any(_is_telling(evidence.calls[index].value) for index in core):
        return None
    if len(core) == 1 and not any(isinstance(leaf, np.ndarray) for leaf in leaves(evidence.calls[core[0]].value)):
        return None  # a single number is like much else
    for slug, text, change in _changes(names, [cases[index] for index in core]):
        if all(_explains(evidence, index, change) for index in core) and not _is_refuted(evidence, change):
            return Finding(slug, text, Certainty.ALIKE)
    return _fixed_count(evidence, names)


def _is_telling(value: Any) -> bool:
    """Many changes lead to a result that is 0 throughout, so that it speaks for none of them."""
    return any(not isinstance(leaf, (np.ndarray, int, float)) or np.any(leaf) for leaf in leaves(value))


def generator_unused(evidence: Evidence) -> Finding | None:
    """Is the answer the same where nothing but the generator differs?"""
    seen: dict[str, int] = {}
    told = 0
    for index in evidence.failing():
        case, call = evidence.posed.cases[index], evidence.calls[index]
        given = [*case.args, *case.kwargs.items()]
        if call.failure is not None or not any(isinstance(value, Rng) for value in case.args):
            return None
        key = repr([None if isinstance(value, Rng) else value for value in given])
        earlier = seen.setdefault(key, index)
        if earlier != index:
            if not same(call.value, evidence.calls[earlier].value, 0.0):
                return None
            told += 1
    if told:
        text = "The result is the same whatever generator is handed in. Where do the random numbers come from?"
        return Finding("generator-unused", text, Certainty.PLACE)
    return None


def _fixed_count(evidence: Evidence, names: list[str]) -> Finding | None:
    """Is a product of counts what it would be if one count were always the same number?"""
    rows = [(case, value, wanted) for case, _, value, wanted in evidence.pairs() if value.ndim == 0 and wanted]
    for position, name in enumerate(names):
        if len(rows) < 2 or not all(
            position < len(case.args) and _is_count(case.args[position]) for case, _, _ in rows
        ):
            continue
        found = {round(float(case.args[position] * value / wanted), 9) for case, value, wanted in rows}
        if len(found) == 1 and len({case.args[position] for case, _, _ in rows}) > 1:
            slug = f"{name.replace('_', '-').lower()}-fixed"
            text = f"The result is what comes out with {found.pop():g} in the place of one factor {name}."
            return Finding(slug, text + " Is it written as a number?")
    return None


def _changes(names: list[str], cases: list[Case]) -> Iterator[tuple[str, str, Callable[[Case], Case | None]]]:
    first = cases[0]
    for position, value in enumerate(first.args):
        name = names[position] if position < len(names) else f"argument {position + 1}"
        kinds = _OF_NUMBERS if _is_count(value) else _OF_ARRAYS if isinstance(value, np.ndarray) else ()
        for slug, words, change in kinds:
            text = f"The result is what comes out {words.format(name)}"
            yield f"{name.replace('_', '-').lower()}-{slug}", text, lambda case, p=position, c=change: _with(case, p, c)
    for one in range(len(first.args)):
        for other in range(one + 1, len(first.args)):
            if _exchangeable(first.args[one], first.args[other]) and other < len(names):
                text = f"The result is what comes out if {names[one]} and {names[other]} change places."
                slug = f"{names[one]}-and-{names[other]}-swapped".replace("_", "-").lower()
                yield slug, text, lambda case, a=one, b=other: _exchanged(case, a, b)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _exchangeable(one: Any, other: Any) -> bool:
    if _is_count(one) and _is_count(other):
        return True
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype.kind == other.dtype.kind


def _with(case: Case, position: int, change: Change) -> Case | None:
    if position >= len(case.args):
        return None
    changed = change(case.args[position])
    if isinstance(changed, np.ndarray):
        changed = np.ascontiguousarray(changed).astype(case.args[position].dtype)
    return replace(case, args=(*case.args[:position], changed, *case.args[position + 1 :]))


def _exchanged(case: Case, one: int, other: int) -> Case | None:
    if other >= len(case.args):
        return None
    args = list(case.args)
    args[one], args[other] = args[other], args[one]
    return replace(case, args=tuple(args))


def _explains(evidence: Evidence, index: int, change: Callable[[Case], Case | None]) -> bool:
    found = _after(evidence, evidence.posed.cases[index], change)
    return found is not None and _is_so(evidence, index, found)


def _after(evidence: Evidence, case: Case, change: Callable[[Case], Case | None]) -> Outcome | None:
    """What the reference gives for the changed inputs; None where the change, or the function, cannot be done."""
    try:
        changed = change(case)
    except (ValueError, IndexError, TypeError, ArithmeticError):
        return None
    found = evidence.posed.reference_on(changed) if changed is not None else None
    return found if found is not None and found.failure is None else None


def _is_so(evidence: Evidence, index: int, found: Outcome) -> bool:
    case = evidence.posed.cases[index]
    return same(evidence.calls[index].value, found.value, max(slack(case, 10), 1e-7))


def _is_refuted(evidence: Evidence, change: Callable[[Case], Case | None]) -> bool:
    """Is there a case that is right, and would not be if this change were made everywhere?"""
    for index, problem in enumerate(evidence.problems):
        case = evidence.posed.cases[index]
        if problem is None and case.raises is None and not case.gradient:
            found = _after(evidence, case, change)
            if found is not None and not _is_so(evidence, index, found):
                return True
    return False


def applied_twice(evidence: Evidence) -> Finding | None:
    """Is the answer what the function gives when its result goes through it once more?"""
    exercise = evidence.posed.exercise
    indices = [index for index in evidence.failing() if evidence.calls[index].failure is None]
    if not indices or isinstance(exercise.returns, tuple):
        return None
    for index in indices:
        case, expected = evidence.posed.cases[index], evidence.posed.expected[index].value
        if not case.args or not isinstance(case.args[0], np.ndarray) or not isinstance(expected, np.ndarray):
            return None
        if expected.shape != case.args[0].shape or not _explains(
            evidence, index, lambda c, e=expected: _with(c, 0, lambda v: e)
        ):
            return None
    return Finding("applied-twice", "The result has gone through the function twice.")
