"""Two slips at once: which two changes of a plain program, or a change and a step behind it, explain a wrong answer.

All pairs are too many. What one change answers says how near it comes to the student's answer, so the nearest are
tried as one half first; what is tried is counted in steps of programs, so that the same answer gets the same name.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType

import numpy as np

from ...data import Call, Finding
from ...worker.values import leaves
from ..compare import Problem, same
from ..posed import Outcome, Posed
from ..symptoms import ON_ORDINARY
from .compared import Compared, Results, asked_of, listed
from .edit import LIKELY
from .likeness import near
from .programs import alone, cost_of
from .results import After, enumerated, steps
from .variant import Variant
from .words import of_parts, of_whole

#: What the search for a pair may cost, in calls that programs make.
BUDGET = 500_000
#: What making the program of one pair costs beside its run.
OVERHEAD = 120
#: So many of the nearest are tried as the first half, and so many changes as the second.
FIRST, SECOND = 60, 600


def explain_by_two(posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None]) -> Finding | None:
    """Two changes of the plain program that answer as the student does, if there are any that are found soon."""
    key = ("two slips", _mark(calls))
    if key not in posed.notes:  # an answer is judged again with what it says to cases of equal sizes
        asked = asked_of(posed, calls, problems)
        with posed.quietly():
            posed.notes[key] = _pairs(asked).found() if asked is not None else None
    return posed.notes[key]


def explain_ordinary(
    posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], core: Sequence[int]
) -> Finding | None:
    """What explains the cases of the core, and a second slip that shows in others."""
    asked = asked_of(posed, calls, problems, core)
    if asked is None:
        return None
    with posed.quietly():
        whole, partly = asked.first(alone(posed))
        if whole is not None:
            return _besides(posed, calls, problems, whole)
    return of_parts(asked.names, asked.fine, partly)


def _besides(posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], variant: Variant) -> Finding:
    """A change that explains some cases: with what shows in the others alone, or where it does not hold."""
    asked = asked_of(posed, calls, problems)
    if asked is None:
        return of_whole(variant)
    unexplained = [i for i in asked.indices if not all(asked.agrees(i, asked.outcome(variant, i)))]
    telling = [i for i in unexplained if problems[i] is not None and calls[i].failure is None]
    if telling:
        pair = _pairs(asked).beside(variant, telling[0])
        if pair is not None:
            return pair
    if not unexplained:
        return of_whole(variant)
    return Finding(variant.slug, f"{ON_ORDINARY} as if {variant.words}.")


def _pairs(asked: Compared) -> Pairs:
    program = asked.posed.exercise.plain
    return Pairs(asked, program, alone(asked.posed), partial(cost_of, program, asked.posed))


def _mark(calls: Sequence[Call]) -> str:
    """What tells the answers of one function from those of another."""
    mark = hashlib.sha256()
    for leaf in leaves(tuple((call.value, str(call.failure)) for call in calls)):
        mark.update(leaf.tobytes() + str(leaf.shape).encode() if isinstance(leaf, np.ndarray) else repr(leaf).encode())
    return mark.hexdigest()


class Pairs:
    """The search for two slips in one answer. cost: of a case, in calls that the program makes there."""

    def __init__(
        self, asked: Compared, program: FunctionType, alone: Sequence[Variant], cost: Callable[[int], int]
    ) -> None:
        self._asked, self._program, self._cost = asked, program, cost
        wrong = [index for index in asked.indices if asked.problems[index] is not None]
        self._at = next(index for index in wrong if asked.calls[index].failure is None)
        self._alone = alone[: len(alone) * cost(0) // max(cost(0), cost(self._at))]
        self._case = asked.posed.cases[self._at]
        self._answer = listed(asked.calls[self._at].value, asked.count)
        self._expected = listed(asked.posed.expected[self._at].value, asked.count)

    def found(self) -> Finding | None:
        """The two slips that answer every case as the student does, or None within what may be spent."""
        if len(self._answer) != self._asked.count or len(self._expected) != self._asked.count:
            return None
        halves, idle = self._halves()
        return self._with_a_step(halves) or self._of_two(halves, idle)

    def beside(self, variant: Variant, index: int) -> Finding | None:
        """A second slip that shows in this case, for a first that explains the ordinary ones."""
        left = BUDGET // 2 // (self._cost(index) + OVERHEAD)
        for other in self._alone[:left]:
            edit = other.changes[0].edit
            if (edit.rank == LIKELY or edit.kind.endswith("not used")) and variant.goes_with(other):
                pair = variant.and_(other)
                if self._asked.meets(pair, index) and self._asked.explained(pair, whole=True) is not None:
                    return Finding(pair.slug, f"It answers as if {pair.words}.")
        return None

    def _halves(self) -> tuple[list[tuple[Variant, Results]], list[Variant]]:
        """Changes that show in this case, one for each outcome, the nearest first; and those that do not show."""
        seen, idle = {_print(self._expected)}, []
        halves: list[tuple[float, int, Variant, Results]] = []
        right = _print(self._expected)
        for place, variant in enumerate(self._alone):
            outcome = self._asked.outcome(variant, self._at)
            if outcome.failure is not None:
                continue
            results = listed(outcome.value, self._asked.count)
            mark = _print(results)
            if mark == right:
                idle.append(variant)
            if mark not in seen and len(results) == self._asked.count:
                seen.add(mark)
                halves.append((-self._nearness(variant, results), place, variant, results))
        halves.sort(key=lambda half: half[:2])
        return [(variant, results) for _, _, variant, results in halves], idle

    def _nearness(self, variant: Variant, results: Results) -> float:
        """How much nearer than the right answer a change comes to the student's; below 0 where it leads away."""
        told = 0.0
        for answer, found, expected in zip(self._answer, results, self._expected, strict=True):
            told += near(answer, found) - near(answer, expected)
        if all(self._asked.agrees(self._at, Outcome(_tuple(results)))):
            told += 10 * len(self._answer)
        return told

    # ---------------------------------------------------------------------------- a change and a step behind it

    def _with_a_step(self, halves: Sequence[tuple[Variant, Results]]) -> Finding | None:
        """The likeliest change and the plainest step behind it that lead to the student's results together."""
        names = self._asked.names
        right = Variant("", "", self._program, "right", ())
        found: list[tuple[int, int, Finding]] = []
        for variant, results in ((right, self._expected), *halves):
            rank = max((change.edit.rank for change in variant.changes), default=0)
            for order in self._orders(results):
                if self._asked.explained_after(variant, _ordered(order)):
                    found.append((rank, len(found), _finding(variant, *_said_of(order, names))))
            for step, where in self._steps(results):
                if variant is right and step.slug not in _TOLD_ALONE:
                    continue
                if self._asked.explained_after(variant, self._applied(where, step)):
                    said = f"{' and '.join(names[i] for i in where)} {step.words}"
                    found.append((rank + step.rank, len(found), _finding(variant, step.slug, said)))
            if found and found[-1][0] == 0:
                break
        if found:
            return min(found, key=lambda one: one[:2])[2]
        return self._reordered(right, names) or self._two_steps(right, names)

    def _reordered(self, right: Variant, names: Sequence[str]) -> Finding | None:
        """The program as it is, its results in another order, and a step behind them."""
        for order in itertools.permutations(range(len(names))) if 1 < len(names) <= 3 else ():
            for step, where in self._steps([self._expected[i] for i in order]):
                first, second = _ordered(order), self._applied(where, step)
                if self._asked.explained_after(right, lambda found, i, one=first, two=second: two(one(found, i), i)):
                    slug, said = _said_of(order, names)
                    what = "they" if len(where) > 1 else names[order[where[0]]]
                    return _finding(right, f"{slug}-and-{step.slug}", f"{said}, and {what} {step.words}")
        return None

    def _two_steps(self, right: Variant, names: Sequence[str]) -> Finding | None:
        """The program as it is, and two steps behind it on the same result."""
        if len(names) > 1:
            return None
        for first in enumerated(np.asarray(self._expected[0]), self._case.sizes):
            between = first.apply(np.asarray(self._expected[0]), self._case.sizes)
            for second in steps(between, np.asarray(self._answer[0]), self._case.sizes, self._close):
                one, two = self._applied((0,), first), self._applied((0,), second)
                if self._asked.explained_after(right, lambda found, i, one=one, two=two: two(one(found, i), i)):
                    words = f"{names[0]} {first.words}, and {second.words}"
                    return _finding(right, f"{first.slug}-and-{second.slug}", words)
        return None

    def _orders(self, results: Results) -> Iterator[tuple[int, ...]]:
        """Orders in which these results are the student's."""
        if 1 < len(results) <= 4:
            for order in itertools.permutations(range(len(results))):
                if order != tuple(range(len(results))) and all(
                    self._close(answer, results[i]) for answer, i in zip(self._answer, order, strict=True)
                ):
                    yield order

    def _steps(self, results: Results) -> Iterator[tuple[After, tuple[int, ...]]]:
        """(the step that leads to the student's results, for which): for one where the others are right, or for all."""
        pairs = list(zip(self._answer, results, strict=True))
        if not all(isinstance(value, (np.ndarray, int, float)) for pair in pairs for value in pair):
            return
        differ = tuple(i for i, (answer, result) in enumerate(pairs) if not self._close(answer, result))
        if len(differ) == 1 or (differ and len(differ) == len(pairs)):
            answer, result = pairs[differ[0]]
            for step in steps(np.asarray(result), np.asarray(answer), self._case.sizes, self._close):
                yield step, differ

    def _applied(self, where: Sequence[int], step: After) -> Callable[[Results, int], Results | None]:
        def after(results: Results | None, index: int) -> Results | None:
            if results is None or not all(isinstance(value, (np.ndarray, int, float)) for value in results):
                return None
            sizes = self._asked.posed.cases[index].sizes
            with np.errstate(all="ignore"):
                try:
                    there = {i: step.apply(np.asarray(results[i]), sizes) for i in where}
                except (ValueError, IndexError, TypeError, KeyError, ArithmeticError):
                    return None
            return [there.get(i, value) for i, value in enumerate(results)]

        return after

    def _close(self, one: object, other: object) -> bool:
        return same(one, other, self._asked.rtol(self._at))

    # ------------------------------------------------------------------------------------------ two changes

    def _of_two(self, halves: Sequence[tuple[Variant, Results]], idle: Sequence[Variant]) -> Finding | None:
        cost = self._cost(self._at) + OVERHEAD
        left = BUDGET // cost
        tried: set[frozenset[str]] = set()
        for one, other in self._likeliest(halves, idle):
            key = frozenset((one.key, other.key))
            if key in tried or not one.goes_with(other):
                continue
            tried.add(key)
            left -= 1
            if left < 0:
                return None
            pair = one.and_(other)
            if self._asked.meets(pair, self._at) and self._asked.explained(pair, whole=True) is not None:
                return Finding(pair.slug, f"It answers as if {pair.words}.")
        return None

    def _likeliest(
        self, halves: Sequence[tuple[Variant, Results]], idle: Sequence[Variant]
    ) -> Iterator[tuple[Variant, Variant]]:
        """The pairs to be tried: what explains this case with what shows in others alone, then by nearness and rank."""
        for variant, results in halves:
            if all(self._asked.agrees(self._at, Outcome(_tuple(results)))):
                yield from ((variant, other) for other in idle)
        place = {variant.key: number for number, variant in enumerate(self._alone)}
        second = sorted((variant for variant, _ in halves), key=lambda variant: place[variant.key])[:SECOND]
        ranked = [
            ((i + 3) * (j + 30), i, j) for i, j in itertools.product(range(min(FIRST, len(halves))), range(len(second)))
        ]
        yield from ((halves[i][0], second[j]) for _, i, j in sorted(ranked))


def _ordered(order: Sequence[int]) -> Callable[[Results, int], Results | None]:
    return lambda found, _: [found[i] for i in order] if len(found) == len(order) else None


def _said_of(order: Sequence[int], names: Sequence[str]) -> tuple[str, str]:
    return "results-in-another-order", f"the results came back in the order {', '.join(names[i] for i in order)}"


#: Steps behind the right program that no general relation says in words as good.
_TOLD_ALONE = ("averaged", "summed", "first-only", "last-only", "softmax", "axis-too-many", "flat")


def _finding(variant: Variant, slug: str, said: str) -> Finding:
    words = f"{variant.words}, and {said}" if variant.words else said
    return Finding("-and-".join(filter(None, (variant.slug, slug))), f"It answers as if {words}.")


def _tuple(results: Results) -> object:
    return tuple(results) if len(results) > 1 else results[0]


def _print(results: Results) -> tuple[object, ...]:
    """What tells outcomes apart, up to rounding."""
    marks = []
    for leaf in leaves(tuple(results)):
        if isinstance(leaf, np.ndarray):
            marks.append((leaf.shape, leaf.dtype.kind, leaf.astype(np.float32).tobytes()))
        else:
            marks.append(repr(leaf))
    return tuple(marks)
