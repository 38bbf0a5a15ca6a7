"""Does a small change of the model solution explain a wrong answer, and which results does it explain?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...data import Call, Certainty, Finding
from ...judging.compare import Problem
from ...judging.posed import Posed
from ...text import begun
from ..known import ON_ORDINARY
from .compared import asked_of
from .mutant import Mutant
from .programs import alone, tree_of
from .scope import names_in

WORD = re.compile(r"\w+")


def explain(posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None]) -> Finding | None:
    """The change of the model solution that answers as the student does, if there is one."""
    asked = asked_of(posed, calls, problems)
    if asked is None:
        return None
    with posed.quietly():
        whole, partly = asked.first(alone(posed))
    if whole is None:
        return _of_parts(posed, asked.names, asked.fine, partly)
    return _found(posed, [whole], whole.slug, f"It answers as if {whole.words}.")


def explain_ordinary(
    posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], core: Sequence[int]
) -> Finding | None:
    """The change that answers the cases of the core as the student does."""
    asked = asked_of(posed, calls, problems, core)
    if asked is None:
        return None
    with posed.quietly():
        whole, partly = asked.first(alone(posed))
        if whole is None:
            return _of_parts(posed, asked.names, asked.fine, partly)
        everything = asked_of(posed, calls, problems)
        if everything is None or everything.explained(whole) == [True] * everything.count:
            return _found(posed, [whole], whole.slug, f"It answers as if {whole.words}.")
    return Finding(whole.slug, f"{ON_ORDINARY} as if {whole.words}.")


def _found(posed: Posed, mutants: Sequence[Mutant], slug: str, text: str) -> Finding:
    words = {word for mutant in mutants for word in WORD.findall(mutant.words)}
    part = next((mutant.part for mutant in mutants if mutant.part), "")
    return Finding(slug, text, Certainty.ALIKE, names=frozenset(words & local_names(posed)), part=part)


def local_names(posed: Posed) -> set[str]:
    """The names that the model solution gives to steps on its way; sizes, arguments and results have names for all."""
    if posed.exercise.plain is None:
        return set()
    tree = tree_of(posed.exercise.plain)
    known = {argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)}
    known |= {name for case in posed.cases for name in case.sizes} | {leaf.name for leaf in posed.exercise.leaves}
    return set(names_in(tree)) - known


def _of_parts(
    posed: Posed, names: Sequence[str], right: list[bool], partly: list[tuple[Mutant, list[bool]]]
) -> Finding | None:
    """Each result by itself: some are right, and each of the others is explained by a change of its own."""
    told: list[tuple[str, Mutant]] = []
    for index, name in enumerate(names):
        if right[index]:
            continue
        mutant = next((mutant for mutant, agree in partly if agree[index]), None)
        if mutant is None:
            return None
        told.append((name, mutant))
    if not told:
        return None
    fine = [name for name, good in zip(names, right, strict=True) if good]
    parts = [f"{begun(' and '.join(fine))}: right."] if fine else []
    parts += [f"{begun(name)}: as if {mutant.words}." for name, mutant in told]
    mutants = [mutant for _, mutant in told]
    return _found(posed, mutants, "-and-".join(dict.fromkeys(each.slug for each in mutants)), " ".join(parts))


__all__ = ["explain", "explain_ordinary", "local_names"]
