"""Finds the mutant of the model solution that gives the student's results, or some of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...judging.cases_and_expected import Posed
from ...judging.compare_results import FLOOR, RTOL_FLOAT32, Misfit, Problem, same, tolerance
from ...records import Call, Certainty, Finding
from ...worker.encode_values import leaves
from ..finding_sentences import of_results, say
from ..operators.mutant_functions import sizes_of_case
from .model_mutants import Mutant, single_mutants, tree_of

Results = list[Any]
#: The flat index of an array's largest entry, that entry, and the array's shape.
_Peak = tuple[int, float, tuple[int, ...]]


class Compared:
    """The calls of one diagnosis that return values, and the comparison with what mutants return.

    posed: the posed exercise. only: the cases to compare, or None for all.
    """

    def __init__(
        self, posed: Any, calls: Sequence[Call], problems: Sequence[Problem | None], only: Sequence[int] | None = None
    ) -> None:
        self.posed, self.calls, self.problems = posed, calls, problems
        self.count = len(posed.exercise.leaves)
        ordinary = [
            index
            for index in range(min(len(calls), len(posed.cases)))
            if (only is None or index in only)
            and posed.cases[index].raises is None
            and not posed.cases[index].gradient
            and not posed.cases[index].watch
        ]
        core = next(iter(posed.exercise.credit))
        #: The smallest failing core case is first, because it rules out most mutants; an edge case rules out few.
        self.indices = sorted(
            ordinary,
            key=lambda i: (problems[i] is None, posed.cases[i].criterion != core, _weight(calls[i]), i),
        )
        in_core = [index for index in self.indices if posed.cases[index].criterion == core]
        if in_core and all(problems[index] is None for index in in_core):  # it rules out most mutants
            plainest = min(in_core, key=lambda i: (_weight(calls[i]), i))
            self.indices = [plainest, *(index for index in self.indices if index != plainest)]
        self._peaks = {index: self._peaks_of(index) for index in self.indices}
        self.fine = self._right()

    @property
    def names(self) -> list[str]:
        return [leaf.name for leaf in self.posed.exercise.leaves]

    def first(self, mutants: Sequence[Mutant]) -> tuple[Mutant | None, list[tuple[Mutant, list[bool]]]]:
        """Return the first mutant that gives all results; if there is none, those that give some, and which ones."""
        partly: list[tuple[Mutant, list[bool]]] = []
        for mutant in mutants:
            agree = self.explained(mutant)
            if agree is not None and all(agree):
                return mutant, []
            if agree is not None:
                partly.append((mutant, agree))
        return None, partly

    def explained(self, mutant: Mutant) -> list[bool] | None:
        """Return for each result whether the mutant gives it in every case; None if it gives no wrong one."""
        agree = [True] * self.count
        for index in self.indices:
            found = self.agrees(index, self.outcome(mutant, index))
            agree = [one and other for one, other in zip(agree, found, strict=True)]
            if not all(agree) and not self.tells(agree):
                return None
        return agree

    def tells(self, agree: list[bool]) -> bool:
        """Return whether a mutant that agrees in these results explains a wrong one."""
        return any(one and not fine for one, fine in zip(agree, self.fine, strict=True))

    def outcome(self, mutant: Mutant, index: int) -> Any:
        token = sizes_of_case.set(self.posed.cases[index].sizes)
        try:
            return self.posed.varied(mutant, mutant.function, index)
        finally:
            sizes_of_case.reset(token)

    def rtol(self, index: int) -> float:
        single = _is_single(self.calls[index].value)
        return max(tolerance(self.posed.cases[index]), RTOL_FLOAT32 if single else 0.0)

    def agrees(self, index: int, outcome: Any) -> list[bool]:
        """Return for each result whether it is the student's in this outcome of a case."""
        call = self.calls[index]
        if call.failure is not None or outcome.failure is not None:
            return [call.failure is not None and outcome.failure is not None] * self.count
        rtol = self.rtol(index)
        one, other = listed(call.value, self.count), listed(outcome.value, self.count)
        if len(one) != self.count or len(other) != self.count:
            return [same(call.value, outcome.value, rtol)] * self.count
        peaks = self._peaks[index]
        return [not _apart(peak, b, rtol) and same(a, b, rtol) for a, b, peak in zip(one, other, peaks, strict=True)]

    def _peaks_of(self, index: int) -> list[_Peak | None]:
        """The largest entry of each result: most mutants already differ there, which is quick to check."""
        call = self.calls[index]
        results = listed(call.value, self.count) if call.failure is None else []
        return [_peak(value) for value in results] if len(results) == self.count else [None] * self.count

    def is_told(self) -> bool:
        """Return whether there is a wrong value to explain: zeros, NaN, errors, types and dtypes prove nothing."""
        return any(
            self.problems[index] is not None
            and self.calls[index].failure is None
            and not isinstance(self.calls[index].value, Misfit)
            and _says(self.calls[index].value)
            and not all(self.agrees(index, self.posed.expected[index]))
            and self._tells_apart(index)
            for index in self.indices
        )

    def _tells_apart(self, index: int) -> bool:
        """Whether a wrong entry is neither 0 nor NaN; anything that underflows or overflows becomes one of these."""
        answered, due = (listed(each.value, self.count) for each in (self.calls[index], self.posed.expected[index]))
        if len(answered) != len(due):
            return True
        return any(_differs_tellingly(one, other, self.rtol(index)) for one, other in zip(answered, due, strict=True))

    def _right(self) -> list[bool]:
        """For each result, whether it is right in every case that returned."""
        right = [True] * self.count
        for index in self.indices:
            if self.calls[index].failure is None:
                found = self.agrees(index, self.posed.expected[index])
                right = [one and other for one, other in zip(right, found, strict=True)]
        return right


def asked_of(
    posed: Any, calls: Sequence[Call], problems: Sequence[Problem | None], only: Sequence[int] | None = None
) -> Compared | None:
    """Return the calls to compare, or those in `only`, if they hold a wrong value that can be explained; else None."""
    if posed.exercise.plain is None:
        return None
    asked = Compared(posed, calls, problems, only)
    wrong = [index for index in asked.indices if problems[index] is not None]
    if not wrong or all(calls[index].failure is not None for index in wrong) or not asked.is_told():
        return None
    return asked


def _peak(value: Any) -> _Peak | None:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size or not np.isfinite(value).all():
        return None
    place = int(np.abs(value).argmax())
    return place, float(value.flat[place]), value.shape


def _apart(peak: _Peak | None, value: Any, rtol: float) -> bool:
    """Whether they certainly differ, because the shapes do, or the numbers at the index of the largest entry."""
    if peak is None or not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return False
    place, number, shape = peak
    return value.shape != shape or abs(float(value.flat[place]) - number) > 2 * rtol * abs(number) + FLOOR


def listed(value: Any, count: int) -> Results:
    """Return the results one by one, including those of nested tuples such as a cache."""
    if count == 1 or not isinstance(value, tuple):
        return [value]
    return [each for item in value for each in listed(item, count)]


def _weight(call: Call) -> int:
    if call.failure is not None:
        return 10**9
    return sum(leaf.size if isinstance(leaf, np.ndarray) else 1 for leaf in leaves(call.value))


def _is_single(value: Any) -> bool:
    return any(isinstance(leaf, np.ndarray) and leaf.dtype == np.float32 for leaf in leaves(value))


def _differs_tellingly(value: Any, due: Any, rtol: float) -> bool:
    arrays = [each for each in (value, due) if isinstance(each, np.ndarray) and each.dtype.kind == "f"]
    if len(arrays) < 2 or value.shape != due.shape or value.size < 2:
        return not same(value, due, rtol)
    with np.errstate(all="ignore"):
        off = ~(np.abs(value - due) <= rtol * np.abs(due[np.isfinite(due)]).max(initial=0.0) + FLOOR)
        return bool((np.isfinite(value[off]) & (value[off] != 0)).any())


def _says(value: Any) -> bool:
    return any(not isinstance(leaf, (np.ndarray, int, float)) or np.any(leaf) for leaf in leaves(value))


def explain(posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None]) -> Finding | None:
    """Return the mutant of the model solution that gives the student's results, as a finding, or None."""
    asked = asked_of(posed, calls, problems)
    if asked is None:
        return None
    with posed.quietly():
        whole, partly = asked.first(single_mutants(posed))
    if whole is None:
        return _of_parts(posed, asked.names, asked.fine, partly)
    return _found(posed, [whole], lambda hidden: say("as-if", change=whole.words(hidden)))


def explain_ordinary(
    posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], core: Sequence[int]
) -> Finding | None:
    """Return the mutant that gives the student's results in the core cases, as a finding, or None."""
    asked = asked_of(posed, calls, problems, core)
    if asked is None:
        return None
    key, certainty = "known/ordinary-as-if", Certainty.RELATION
    with posed.quietly():
        whole, partly = asked.first(single_mutants(posed))
        if whole is None:
            parts = _of_parts(posed, asked.names, asked.fine, partly)
            return replace(parts, certainty=Certainty.RELATION) if parts else None
        everything = asked_of(posed, calls, problems)
        if everything is None or everything.explained(whole) == [True] * everything.count:
            key, certainty = "as-if", Certainty.ALIKE
    return replace(_found(posed, [whole], lambda hidden: say(key, change=whole.words(hidden))), certainty=certainty)


def _found(posed: Posed, mutants: Sequence[Mutant], worded: Callable[[Collection[str]], str]) -> Finding:
    """The finding of these mutants. worded: makes its text without the names that it is given."""
    hidden = frozenset(name for mutant in mutants for name in mutant.names - _known(posed))
    text, named = worded(hidden), worded(())
    said = frozenset(name for piece in re.findall(r"`[^`]*`", named) for name in re.findall(r"\w+", piece)) & hidden
    slug = "-and-".join(dict.fromkeys(mutant.slug for mutant in mutants))
    return Finding(slug, text, Certainty.ALIKE, named=named, names=said)


def _known(posed: Posed) -> set[str]:
    """The names that every student knows: arguments, sizes and results."""
    tree = tree_of(posed.exercise.plain)
    known = {argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)}
    known |= {name for case in posed.cases for name in case.sizes}
    known |= {key for case in posed.cases for value in case.args if isinstance(value, dict) for key in value}
    return known | {leaf.name.removeprefix("the ") for leaf in posed.exercise.leaves}


def _of_parts(
    posed: Posed, names: Sequence[str], right: list[bool], partly: list[tuple[Mutant, list[bool]]]
) -> Finding | None:
    """Explain each result separately: some are right, and a mutant explains each of the others."""
    explained: list[tuple[str, Mutant]] = []
    for index, name in enumerate(names):
        if right[index]:
            continue
        mutant = next((mutant for mutant, agree in partly if agree[index]), None)
        if mutant is None:
            return None
        explained.append((name, mutant))
    if not explained:
        return None
    fine = [name for name, good in zip(names, right, strict=True) if good]

    def worded(hidden: Collection[str]) -> str:
        parts = [of_results("results/right", fine)] if fine else []
        changes: dict[str, list[str]] = {}
        for name, mutant in explained:
            changes.setdefault(mutant.words(hidden), []).append(name)
        parts += [of_results("as-if/results", results, change=change) for change, results in changes.items()]
        return " ".join(parts)

    return _found(posed, [mutant for _, mutant in explained], worded)
