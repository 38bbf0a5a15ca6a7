"""Looks for the single change of a student's function that passes every case, and says what it is."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...exercises.kit.exercise_records import Case
from ...judging.cases_and_expected import Posed, all_right
from ...judging.compare_results import Problem
from ...records import Call, Certainty, Finding
from ...safe_text import begun
from ...worker.encode_values import leaves
from ..argument_use import is_hunt
from ..finding_sentences import say
from ..operators.all_changes import PLAIN, edits_of
from ..operators.change_descriptions import in_line
from ..operators.change_expressions import OF_SIZE
from ..operators.program_edit import ODD, STUDENT, Edit, Program, together
from ..symptoms.types_and_forms import beyond
from .first_wrong_step import origin
from .student_program import AT_A_TIME, OwnProgram

#: Changes that put something there that few forget: one of them alone may be what is missing, and hardly one of two.
ARTIFICIAL = frozenset(
    ("no-root", "no-square", "no-abs", "no-complement", "not-doubled", "not-halved", "off-by-one", "not-inverted")
)
#: Changes that are tried at most, and of those that make one case right, how many on all cases.
TRIED, FULLY = 600, 12
#: The same of a program of few steps, which costs little: where one number is asked for many changes make one right.
SHORT, FULLY_IF_SHORT = 100, 40
#: Changes beside which another one may make it right as well, and be what was meant.
OPEN = ARTIFICIAL | frozenset(
    (
        *("brackets", "order-of-lines", "sides", "one-step-too-many", "number", "name", "operation"),
        *("comparison", "no-sign", "condition", "adds", "replaces", "no-factor"),
        *("not-turned", "range", "or-for-and", "order-of-results", "unpack-order", "comparison-off-by-one"),
    )
)
#: Changes that hardly anybody forgot, and those that may make right by accident what fails in edge cases alone.
FAR_FETCHED = frozenset(("brackets", "order-of-lines"))
BY_ACCIDENT = (
    ARTIFICIAL
    | FAR_FETCHED
    | {"sides", "one-step-too-many", "operation", "adds", "no-sign", "no-factor", "unpack-order"}
)
#: What is not named as a second change where a likelier one passes every case.
SECOND_TO_NONE = ARTIFICIAL | {"not-turned", "no-factor", "no-sign", "unpack-order", "function"}
#: Changes that say where something begins or ends.
OF_ENDS = frozenset(("range", "comparison", "comparison-off-by-one", "number", "index", "one-step-too-many"))
#: What takes something away: of another change there it is not known whether it does more than that.
REMOVALS = ("one-step-too-many", "one-call-too-many", "index-too-many")
#: What all changes may cost, in steps of the program, the likeliest changes first.
STEPS = 25_000
#: The same of hunts: each question to the function that is to be found out costs as much as many steps.
STEPS_OF_HUNTS, FULLY_OF_HUNTS = 25_000, 6


@dataclass(frozen=True)
class Repair:
    """Edits of one kind of a student's function, its text with them, and what it then answers in the first case."""

    edits: tuple[Edit, ...]
    text: str
    calls: list[Call]

    @property
    def first(self) -> Edit:
        """The edit that its name and line come from."""
        return self.edits[0]

    @property
    def kind(self) -> str:
        """What kind of change it is."""
        return self.first.kind

    @property
    def rank(self) -> int:
        """How likely it is."""
        return self.first.ranks[STUDENT]


def try_repairs(one_case: Posed, own: OwnProgram) -> Iterator[list[Repair]]:
    """The changes, the likeliest first, some at a time."""
    steps = len(own.values(one_case, 0))
    edits = edits_of(_program(one_case, own))
    changes = [*((edit,) for edit in edits), *together(edits)]
    changes.sort(key=lambda change: (change[0].ranks[STUDENT], change[0].kind not in PLAIN))
    budget = STEPS_OF_HUNTS if is_hunt(one_case) else STEPS
    changes = changes[: min(TRIED, budget // max(steps, 1))]
    for start in range(0, len(changes), AT_A_TIME):
        some = changes[start : start + AT_A_TIME]
        texts = [own.text(*change) for change in some]
        yield [Repair(*each) for each in zip(some, texts, own.calls(texts, one_case), strict=False)]


def _program(one_case: Posed, own: OwnProgram) -> Program:
    given = _given(one_case, own)
    numbers = [name for name, value in given.items() if type(value) in (int, float)]
    arrays = [name for name, value in given.items() if hasattr(value, "shape") and len(value.shape)]
    return Program(own.tree, STUDENT, (), numbers, arrays)


def _given(one_case: Posed, own: OwnProgram) -> dict[str, Any]:
    """The arguments, as the student calls them."""
    case, names = one_case.cases[0], [argument.arg for argument in own.tree.args.args]
    given = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
    return {name: value for name, value in given.items() if name in names}


def find_repairs(
    posed: Posed, one_case: Posed, own: OwnProgram, chance: frozenset[str] = frozenset()
) -> tuple[Repair, ...]:
    """The likeliest change after which every case is right, with a second one if that may be what is meant.

    one_case: the case that is tried first. chance: changes that may pass by accident; others are preferred.
    """
    posings = [each.part(range(len(each.cases))) for each in (posed, posed.probes) if each is not None]
    found: list[Repair] = []
    fully = FULLY_IF_SHORT if len(own.values(one_case, 0)) <= SHORT else FULLY
    left = [FULLY_OF_HUNTS if is_hunt(posed) else fully] * 2  # for likely ones, and for chance
    for some in try_repairs(one_case, own):
        for one in some:
            left_here = left[one.kind in chance]
            if left_here and one.calls and all_right(one_case, one.calls) and not _alike(found, one):
                left[one.kind in chance] -= 1
                if all(_passes(own, one.text, each) for each in posings):
                    found.append(one)
                    likely = [repair for repair in found if repair.kind not in chance]
                    if (one in likely and one.kind not in OPEN) or len(likely) == 2:
                        return _likeliest(likely)
    return _likeliest([repair for repair in found if repair.kind not in chance] or found)


def _alike(found: Sequence[Repair], other: Repair) -> bool:
    """Is a change found already that is of this kind and in the same line, or says the same of the same place?"""
    new = other.first
    return any(
        (one.line == new.line and one.kind == new.kind) or (one.place == new.place and one.detail == new.detail)
        for one in (repair.first for repair in found)
    )


def _likeliest(found: Sequence[Repair]) -> tuple[Repair, ...]:
    if not found:
        return ()
    first, *others = sorted(found, key=lambda repair: (repair.rank, repair.kind in OPEN, len(repair.edits)))
    others = [other for other in others if other.rank < ODD and other.kind not in SECOND_TO_NONE]
    others = [other for other in others if not set(first.edits) <= set(other.edits)]
    if first.kind in REMOVALS:
        others = [other for other in others if other.first.place != first.first.place]
    return (first, *others[:1]) if first.kind in OPEN else (first,)


def _passes(own: OwnProgram, text: str, posed: Posed) -> bool:
    (calls,) = own.calls([text], posed) or ([],)
    return bool(calls) and all_right(posed, calls)


def finding_of(repairs: Sequence[Repair], own: OwnProgram) -> Finding:
    """What is said of a change that passes every case, or of two of them."""
    parents, kind = Program(own.tree, STUDENT).parents, repairs[0].kind
    first, *others = (in_line(repair.edits, parents) for repair in _without_echo(repairs))
    if others:
        text = say("own/either", change=first, other=others[0])
    else:
        is_one = len(repairs[0].edits) == 1
        text = say(("own/open" if kind in OPEN else "own") if is_one else "own/several", change=begun(first))
    return Finding(f"own-{kind}", text, Certainty.REPAIR)


def _without_echo(repairs: Sequence[Repair]) -> Sequence[Repair]:
    """The repairs, or one of two that say the same fault: of a place and a part of it."""
    if len(repairs) < 2:
        return repairs
    outer, inner = sorted(repairs, key=lambda repair: -repair.first.old.holds)
    if not outer.first.old.holds >> inner.first.place & 1:
        return repairs
    test = outer.first.fields.get("test")
    of_test = isinstance(test, ast.AST) and test.holds >> inner.first.place & 1
    if {outer.kind, inner.kind} <= OF_ENDS or (of_test and inner.kind in OF_ENDS):
        return [outer]
    return [inner] if inner.kind == "number" and outer.kind in ARTIFICIAL | {"no-factor"} else repairs


#: What other versions of the program would only do again: measure as long, keep as much from call to call.
NOT_AGAIN = ("measured-on-draws", "keeps-state")
#: So many cases are looked at, wrong ones and right ones, to find where wrong values begin.
LOOKED_AT = 3


def with_repair(
    own: OwnProgram, posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], finding: Finding
) -> Finding:
    """A finding with what the student's program adds to it. No mark changes."""
    if finding.slug == "measured-on-draws" and not own.draws:
        finding = Finding(None, "")
    if finding.named and finding.names <= own.names:
        finding = replace(finding, text=finding.named)
    kinds = {problem.kind for problem in problems if problem is not None}
    if finding.certainty == Certainty.KNOWN or finding.slug in NOT_AGAIN or kinds <= {"made", "warned"}:
        return finding
    try:
        with np.errstate(all="ignore"):
            return _repaired(own, posed, calls, problems, finding)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return finding


def _repaired(
    own: OwnProgram, posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], finding: Finding
) -> Finding:
    cases, core = posed.cases, posed.exercise.core
    ordinary = [i for i, problem in enumerate(problems) if problem is not None and _asks_for_a_result(cases[i])]
    if not ordinary:
        return finding
    in_core = any(cases[index].criterion == core for index in ordinary)
    ordinary.sort(key=lambda i: (cases[i].criterion != core, _is_coarse(cases[i]), _size(cases[i]), i))
    alike = finding.certainty == Certainty.ALIKE
    chance = FAR_FETCHED if in_core else BY_ACCIDENT
    repairs = find_repairs(posed, posed.part([ordinary[0]]), own, chance)
    by_chance = bool(repairs) and repairs[0].kind in chance
    if not repairs or (by_chance and (is_hunt(posed) or repairs[0].kind in (*OF_SIZE, "no-factor"))):
        return finding if alike else _with_origin(own, posed, ordinary[:LOOKED_AT], calls, problems, finding)
    found = finding_of(repairs, own)
    if alike:  # the same slip keeps its name, whatever code it is in
        return replace(found, slug=finding.slug, facts=finding.facts)
    if finding.certainty == Certainty.PLACE:
        return replace(found, facts=f"{finding.facts} {finding.text}".strip())
    return replace(found, facts=finding.facts)


def _with_origin(
    own: OwnProgram,
    posed: Posed,
    wrong: Sequence[int],
    calls: Sequence[Call],
    problems: Sequence[Problem | None],
    finding: Finding,
) -> Finding:
    """A finding with the step at which NaN, a wrong shape or a wrong dtype is first seen."""
    core = posed.exercise.core
    right = [i for i, case in enumerate(posed.cases) if problems[i] is None and case.criterion == core]
    origins = (origin(posed, index, calls[index], problems[index], own, right[:LOOKED_AT]) for index in wrong)
    found = next((each for each in origins if each is not None), None)
    if found is None:
        return finding
    if finding.slug in (None, "nan"):
        return replace(found, facts=beyond(found.text, finding.facts))
    return replace(finding, text=f"{finding.text} {found.text}".strip())


def _is_coarse(case: Case) -> bool:
    """Are there numbers of two bytes, between which much is alike?"""
    return any(getattr(leaf, "dtype", None) == np.float16 for leaf in leaves((case.args, case.kwargs)))


def _asks_for_a_result(case: Case) -> bool:
    return case.raises is None and not case.gradient


def _size(case: Case) -> int:
    return sum(
        np.size(getattr(leaf, "array", leaf)) for leaf in leaves((case.args, case.kwargs)) if hasattr(leaf, "shape")
    )
