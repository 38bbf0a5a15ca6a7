"""Two slips in one program: a change of it after which it answers as a change of the plain program does."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...data import Call, Finding
from ...worker.values import leaves
from ..compare import FLOOR, RTOL_FLOAT32, Problem, same, tolerance
from ..known import known_of
from ..posed import Outcome, Posed
from ..problems import all_in_our_terms, in_our_terms, problems_of
from ..variants.compared import Compared, listed
from ..variants.edit import ODD, called
from ..variants.helpers import sizes_of_case
from ..variants.likeness import near
from ..variants.programs import alone, tree_of
from ..variants.results import After, steps
from ..variants.variant import Variant
from ..variants.words import of_whole
from .mend import ARTIFICIAL, Mend
from .program import Again, OwnProgram, Tried
from .traced import TWO_THINGS

#: Changes that leave a part of a program aside.
BARRED = frozenset(("returned", "condition", *ARTIFICIAL))
#: What makes one number into almost any other.
LOOSE = BARRED | {"name", "number"}
#: So unlikely may a pair be, both slips together.
UNLIKELY = 1
#: What is left out with an operation.
KINDS = {
    "a factor": (ast.Mult, ast.Div, ast.FloorDiv, ast.Pow),
    "a summand": (ast.Add, ast.Sub),
    "a product": (ast.MatMult,),
    "a condition": (ast.BitAnd, ast.BitOr),
}
#: Pairs that agree in one case and are tried in all, the likeliest first; and those for which a second change is tried.
FULLY, AGAIN = 12, 1

Confirm = Callable[[Compared], Finding | None]


@dataclass(frozen=True)
class _Slip:
    """What a wrong function of ours answers to the case.

    confirm: what is told where calls agree in every case. left_out: the kind of step that it lacks.
    """

    rank: int
    results: list[Any]
    confirm: Confirm = field(compare=False)
    left_out: str | None = None


@dataclass(frozen=True)
class _Confirmed:
    """A slip that explains a changed program, what is told of it, and the problems that are left."""

    slip: _Slip
    rest: Finding
    problems: Sequence[Problem | None]


@dataclass(frozen=True)
class Halves:
    """What was found. sure: whether it was tried that every case is right then, or only that both answer the same."""

    finding: Finding
    sure: bool


def find_halves(
    posed: Posed,
    first: int,
    tried: Sequence[Tried],
    own: OwnProgram,
    calls: Sequence[Call],
    problems: Sequence[Problem | None],
    again: Again,
) -> Halves | None:
    """The likeliest change with which another slip, one that has a name, explains all that is left.

    first: the case that was tried. calls, problems: of the program as it is. Where it raises in that case, or an answer
    without much in it would be met, nothing is said: whatever is cut short meets all else that is cut short.
    """
    count, case = len(posed.exercise.leaves), posed.cases[first]
    if calls[first].failure is not None or all(leaf.kind in ("bool", "text") for leaf in posed.exercise.leaves):
        return None
    begun, expected = listed(calls[first].value, count), listed(posed.expected[first].value, count)
    if len(expected) != count:
        return None
    rtol = max(tolerance(case), RTOL_FLOAT32)
    plain = _Plainly(expected, list(leaves((case.args, case.kwargs))))
    known = _Known(_slips(posed, first, count), rtol)
    barred = LOOSE if all(np.size(each) == 1 for each in expected) else BARRED
    pairs: list[tuple[int, int, Tried, list[_Slip]]] = []
    for place, one in enumerate(tried):
        if not one.calls or one.calls[0].failure is not None or one.mend.edit.rank >= ODD or one.mend.slug in barred:
            continue
        results = listed(in_our_terms(posed, case, one.calls[0]).value, count)
        if len(results) != count or _forms(results) not in (_forms(expected), _forms(begun)) or plain.has_one(results):
            continue
        shows = not all(same(now, before, rtol) for now, before in zip(results, begun, strict=False))
        if not shows or _nearness(results, expected) < _nearness(begun, expected):
            continue
        with np.errstate(all="ignore"):
            steps_behind = list(_steps(posed, first, expected, results))
        slips = sorted([*known.alike(results), *steps_behind], key=lambda slip: slip.rank)
        slips = [slip for slip in slips if one.mend.edit.rank + slip.rank <= UNLIKELY]
        if slips:
            pairs.append((one.mend.edit.rank + slips[0].rank, place, one, slips))
    beside, asked = None, 0
    for _, _, one, slips in sorted(pairs, key=lambda pair: pair[:2])[:FULLY]:
        found = _confirmed(posed, own, one, slips, problems)
        if found is None:
            continue
        if found.slip.left_out is not None and found.slip.left_out == left_out_by(one.mend, own):
            words = one.mend.words.replace(" has no place there", ": something else is due")
            text = f"In line {one.mend.line}: {words}. Without it, all that is missing is one such step."
            return Halves(Finding(f"own-{one.mend.slug}-another", text), True)
        second = again(one.mend, found.problems) if asked < AGAIN else None
        asked += 1
        if second is not None:
            return Halves(second, True)
        lead = f"{TWO_THINGS} would explain it. In line {one.mend.line}: {one.mend.words}. And with that changed: "
        text = f"{lead}{found.rest.text[0].lower()}{found.rest.text[1:]}"
        beside = beside or Halves(Finding(f"own-{one.mend.slug}-and-{found.rest.slug}", text), False)
    return beside


def left_out_by(mend: Mend, own: OwnProgram) -> str | None:
    """What kind of step a change leaves out."""
    node = next(each for each in ast.walk(own.tree) if getattr(each, "number", -1) == mend.edit.place)
    return left_out(node) if mend.slug in ("one-step-too-many", "one-call-too-many") else None


def left_out(node: ast.AST) -> str | None:
    """The kind of step that is left out where only a part of this stays."""
    if isinstance(node, ast.BinOp):
        return next((kind for kind, ops in KINDS.items() if isinstance(node.op, ops)), None)
    return called(node)[0] if isinstance(node, ast.Call) else None


class _Plainly:
    """Results without much in them: yes or no, of one number, an input as it came, or another of the results."""

    def __init__(self, expected: list[Any], inputs: list[Any]) -> None:
        self._expected, self._inputs = expected, [getattr(each, "array", each) for each in inputs]

    def has_one(self, results: list[Any]) -> bool:
        pairs = enumerate(zip(results, self._expected, strict=True))
        wrong = [(place, found) for place, (found, right) in pairs if not same(found, right, RTOL_FLOAT32)]
        return any(self._says_little(place, found) for place, found in wrong)

    def _says_little(self, place: int, found: Any) -> bool:
        if isinstance(found, (bool, np.bool_, str)):
            return True
        if isinstance(found, (np.ndarray, int, float)):
            entries = np.unique(found)
            if not entries.any() or len(entries) == 1 < np.size(found):
                return True
        others = [each for index, each in enumerate(self._expected) if index != place]
        return any(same(found, each, RTOL_FLOAT32) for each in (*others, *self._inputs))


def _forms(results: list[Any]) -> list[tuple[int, ...]]:
    return [np.shape(each) if isinstance(each, (np.ndarray, int, float)) else () for each in results]


def _confirmed(
    posed: Posed, own: OwnProgram, one: Tried, slips: Sequence[_Slip], before: Sequence[Problem | None]
) -> _Confirmed | None:
    """The first of these slips that explains a changed program in every case; none where a right case became wrong."""
    (calls,) = own.calls([one.text], posed) or ([],)
    if not calls:
        return None
    calls = all_in_our_terms(posed, calls)
    problems = problems_of(posed, calls)
    if any(now is not None and then is None for now, then in zip(problems, before, strict=True)):
        return None
    asked = Compared(posed, calls, problems)
    with posed.quietly():
        confirmed = ((slip, rest) for slip in slips if (rest := slip.confirm(asked)))
        return next((_Confirmed(slip, rest, problems) for slip, rest in confirmed), None)


def _nearness(results: list[Any], expected: list[Any]) -> float:
    if len(results) != len(expected):
        return 0.0
    return sum(near(one, other) for one, other in zip(results, expected, strict=True))


def _slips(posed: Posed, index: int, count: int) -> Iterator[_Slip]:
    """The known mistakes and the changes of the plain program, with what they answer to one case."""

    def of_mistakes(asked: Compared) -> Finding | None:
        return known_of(posed, asked.calls, asked.problems)

    for mistake in posed.exercise.mistakes:
        outcome = posed.mistaken(mistake.slug)[index]
        if outcome.failure is None:
            yield _Slip(0, listed(outcome.value, count), of_mistakes)
    if posed.exercise.plain is None:
        return
    token = sizes_of_case.set(posed.cases[index].sizes)
    try:
        with posed.quietly():
            for variant in alone(posed):
                outcome: Outcome = posed.varied(variant.key, variant.function, index)
                if outcome.failure is not None:
                    continue

                def of_variant(asked: Compared, one: Variant = variant) -> Finding | None:
                    return of_whole(one) if asked.explained(one, whole=True) is not None else None

                rank = max(change.edit.rank for change in variant.changes)
                yield _Slip(rank, listed(outcome.value, count), of_variant, _lacks(variant))
    finally:
        sizes_of_case.reset(token)


def _lacks(variant: Variant) -> str | None:
    """The kind of step that a variant leaves out."""
    (change, *others) = variant.changes
    if others or not change.edit.slug.startswith(("left-out-", "without-")):
        return None
    nodes = ast.walk(tree_of(change.part))
    return next((left_out(node) for node in nodes if getattr(node, "number", -1) == change.edit.place), None)


def _steps(posed: Posed, index: int, expected: list[Any], results: list[Any]) -> Iterator[_Slip]:
    """Steps behind the right result that lead to this one."""
    if len(expected) != 1 or not all(isinstance(each, (np.ndarray, int, float)) for each in (*expected, *results)):
        return
    rtol = max(tolerance(posed.cases[index]), RTOL_FLOAT32)
    right, found = np.asarray(expected[0]), np.asarray(results[0])
    for step in steps(right, found, posed.cases[index].sizes, lambda one, other: same(one, other, rtol)):

        def of_step(asked: Compared, one: After = step) -> Finding | None:
            wrong = (i for i, problem in enumerate(asked.problems) if problem)
            told = all(_is_after(posed, i, asked.calls[i], one, rtol) for i in wrong)
            words = f"It answers as if {posed.exercise.leaves[0].name} {one.words}."
            return Finding(one.slug, words) if told else None

        yield _Slip(step.rank, results, of_step)


def _is_after(posed: Posed, index: int, call: Call, step: After, rtol: float) -> bool:
    case, expected = posed.cases[index], posed.expected[index]
    if call.failure is not None or expected.failure is not None or case.gradient:
        return case.gradient
    with np.errstate(all="ignore"):
        try:
            return same(call.value, step.apply(np.asarray(expected.value), case.sizes), rtol)
        except (ValueError, IndexError, TypeError, KeyError, ArithmeticError):
            return False


class _Known:
    """Slips by what they answer, to be found by it: each answer is made one number, alike for alike answers."""

    def __init__(self, slips: Iterator[_Slip], rtol: float) -> None:
        self._rtol = rtol
        self._by_form: dict[object, list[tuple[float, int, _Slip]]] = {}
        for place, slip in enumerate(slips):
            form, number, _ = _mark(slip.results)
            self._by_form.setdefault(form, []).append((number, place, slip))
        for found in self._by_form.values():
            found.sort(key=lambda one: one[:2])

    def alike(self, results: list[Any]) -> Iterator[_Slip]:
        form, number, size = _mark(results)
        found = self._by_form.get(form, [])
        room = 2 * self._rtol * size + FLOOR
        start = bisect.bisect_left(found, number - room, key=lambda one: one[0])
        for other, _, slip in found[start:]:
            if other > number + room:
                break
            if all(same(one, two, self._rtol) for one, two in zip(results, slip.results, strict=True)):
                yield slip


def _mark(results: list[Any]) -> tuple[object, float, float]:
    """(form, number, size): shapes; the entries weighed with fixed weights and summed; the sum of their sizes."""
    form, number, size = [], 0.0, 0.0
    for leaf in leaves(results):
        array = np.asarray(leaf) if isinstance(leaf, (np.ndarray, np.generic, int, float)) else None
        if array is None or array.dtype.kind not in "biuf":
            form.append(repr(leaf))
            continue
        form.append(array.shape)
        flat = np.nan_to_num(array.astype(np.float64).ravel(), nan=7.0, posinf=11.0, neginf=-13.0)
        weights = np.sin(1.0 + np.arange(flat.size))
        number += float(weights @ flat)
        size += float(np.abs(weights) @ np.abs(flat))
    return tuple(form), number, size
