"""Does a small change of the plain program explain a wrong answer, and which results does it explain?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data import Call, Finding
from ...text import begun
from ...worker.values import leaves
from ..compare import RTOL_FLOAT32, Problem, same, tolerance
from ..posed import Outcome, Posed
from .programs import Variant, paired_variants, sizes_of_case, variants


class Compared:
    """The calls that say something of values, and what variants answer to them. One for each diagnosis."""

    def __init__(
        self, posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], only: Sequence[int] | None = None
    ) -> None:
        self.posed, self.calls, self.problems = posed, calls, problems
        ordinary = [
            index
            for index in range(min(len(calls), len(posed.cases)))
            if (only is None or index in only)
            and posed.cases[index].raises is None
            and not posed.cases[index].gradient
            and not posed.cases[index].watch
        ]
        #: The quickest wrong one first: nearly all variants fall there.
        self.indices = sorted(ordinary, key=lambda index: (problems[index] is None, _weight(calls[index]), index))
        self.fine = self._right()

    def explained(self, variant: Variant, whole: bool = False) -> list[bool] | None:
        """For each result whether the variant gives it in every case; None where it gives none that is wrong.

        whole: None where it does not give all of them.
        """
        agree = [True] * len(self.fine)
        for index in self.indices:
            found = self._leaves(index, self.outcome(variant, index))
            agree = [one and other for one, other in zip(agree, found, strict=True)]
            if not all(agree) and (whole or not self.tells(agree)):
                return None
        return agree

    def tells(self, agree: list[bool]) -> bool:
        """Does a variant that agrees in these results say anything of a wrong one?"""
        return any(one and not fine for one, fine in zip(agree, self.fine, strict=True))

    def outcome(self, variant: Variant, index: int) -> Outcome:
        token = sizes_of_case.set(self.posed.cases[index].sizes)
        try:
            return self.posed.varied(variant.key, variant.function, index)
        finally:
            sizes_of_case.reset(token)

    def _leaves(self, index: int, outcome: Outcome) -> list[bool]:
        call, case = self.calls[index], self.posed.cases[index]
        count = len(self.posed.exercise.leaves)
        if call.failure is not None or outcome.failure is not None:
            return [call.failure is not None and outcome.failure is not None] * count
        rtol = max(tolerance(case), RTOL_FLOAT32 if _is_single(call.value) else 0.0)
        one, other = _listed(call.value, count), _listed(outcome.value, count)
        if len(one) != count or len(other) != count:
            return [same(call.value, outcome.value, rtol)] * count
        return [same(a, b, rtol) for a, b in zip(one, other, strict=True)]

    def _right(self) -> list[bool]:
        """For each result whether it is right wherever something came back."""
        count = len(self.posed.exercise.leaves)
        right = [True] * count
        for index in self.indices:
            if self.calls[index].failure is None:
                found = self._leaves(index, self.posed.expected[index])
                right = [one and other for one, other in zip(right, found, strict=True)]
        return right

    def is_told(self, variant: Variant) -> bool:
        """Is there a wrong value, not all zeros, that the variant gives too? Errors and dtypes alone prove nothing."""
        return any(
            self.problems[index] is not None
            and self.calls[index].failure is None
            and _says(self.calls[index].value)
            and not all(self._leaves(index, self.posed.expected[index]))
            for index in self.indices
        )


def explain(
    posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], only: Sequence[int] | None = None
) -> Finding | None:
    """The change of the plain program that answers as the student does, if there is one; of two, if need be.

    only: the cases that are looked at, for one change; a second slip shows in others.
    """
    program = posed.exercise.plain
    if program is None:
        return None
    asked = Compared(posed, calls, problems, only)
    wrong = [index for index in asked.indices if problems[index] is not None]
    if not wrong or all(calls[index].failure is not None for index in wrong):
        return None
    sizes = tuple(dict.fromkeys(name for case in posed.cases for name in case.sizes if name.isidentifier()))
    partly: list[tuple[Variant, list[bool]]] = []
    for variant in variants(program, sizes):
        agree = asked.explained(variant)
        if agree is None or not asked.is_told(variant):
            continue
        if all(agree):
            return Finding(variant.slug, f"It answers as if {variant.words}.")
        partly.append((variant, agree))
    found = _of_parts(posed, asked.fine, partly)
    if found is not None or only is not None:
        return found
    for variant in paired_variants(program, sizes):
        if asked.explained(variant, whole=True) is not None and asked.is_told(variant):
            return Finding(variant.slug, f"It answers as if {variant.words}.")
    return None


def _of_parts(posed: Posed, right: list[bool], partly: list[tuple[Variant, list[bool]]]) -> Finding | None:
    """Each result by itself: some are right, and each of the others is explained by a change of its own."""
    names = [leaf.name for leaf in posed.exercise.leaves]
    told, slugs = [], []
    for index, name in enumerate(names):
        if right[index]:
            continue
        variant = next((variant for variant, agree in partly if agree[index]), None)
        if variant is None:
            return None
        told.append((name, variant.words))
        slugs.append(variant.slug)
    if not told:
        return None
    fine = [name for name, good in zip(names, right, strict=True) if good]
    words = f"{begun(' and '.join(fine))}: right. " if fine else ""
    for name, said in told:
        words += f"{begun(name)}: as if {said}. "
    return Finding("-and-".join(dict.fromkeys(slugs)), words.strip())


def _listed(value: Any, count: int) -> list[Any]:
    """The results one by one, also those of a tuple within a tuple, as a cache is."""
    if count == 1 or not isinstance(value, tuple):
        return [value]
    return [each for item in value for each in _listed(item, count)]


def _weight(call: Call) -> int:
    if call.failure is not None:
        return 10**9
    return sum(leaf.size if isinstance(leaf, np.ndarray) else 1 for leaf in leaves(call.value))


def _is_single(value: Any) -> bool:
    return any(isinstance(leaf, np.ndarray) and leaf.dtype == np.float32 for leaf in leaves(value))


def _says(value: Any) -> bool:
    return any(not isinstance(leaf, (np.ndarray, int, float)) or np.any(leaf) for leaf in leaves(value))
