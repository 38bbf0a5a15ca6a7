"""Finds the single change of a student's function that passes every case, and words it."""

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
from ...safe_text import begun, listed
from ...worker.encode_values import leaves
from ..argument_use import is_hunt
from ..finding_sentences import say
from ..operators.all_changes import PLAIN, edits_of
from ..operators.change_descriptions import in_line
from ..operators.change_expressions import OF_SIZE
from ..operators.program_edit import ODD, STUDENT, Edit, Program, together
from ..symptoms.types_and_forms import beyond
from .first_wrong_step import leaves_graph, origin
from .student_program import AT_A_TIME, OwnProgram

#: Changes that add something which few students forget.
ARTIFICIAL = frozenset(
    ("no-root", "no-square", "no-abs", "no-complement", "not-doubled", "not-halved", "off-by-one", "not-inverted")
)
#: How many changes are tried on one case, and how many of those that pass it are tried on all cases.
TRIED, FULLY = 600, 12
#: FULLY_IF_SHORT replaces FULLY for programs of at most SHORT steps. They are cheap and often return one number, so
#: that many changes pass one case.
SHORT, FULLY_IF_SHORT = 100, 40
#: Changes for which another change may pass as well and be the one that is meant.
OPEN = ARTIFICIAL | frozenset(
    (
        *("brackets", "order-of-lines", "sides", "one-step-too-many", "number", "name", "operation"),
        *("comparison", "no-sign", "condition", "adds", "replaces", "no-factor"),
        *("not-turned", "range", "or-for-and", "order-of-results", "unpack-order", "comparison-off-by-one"),
    )
)
#: Changes that hardly any student needs, and those that may repair edge cases by accident.
FAR_FETCHED = frozenset(("brackets", "order-of-lines"))
BY_ACCIDENT = (
    ARTIFICIAL
    | FAR_FETCHED
    | {"sides", "one-step-too-many", "operation", "adds", "no-sign", "no-factor", "unpack-order"}
)
#: Changes that are not offered as a second repair if a likelier one passes every case.
SECOND_TO_NONE = ARTIFICIAL | {"not-turned", "no-factor", "no-sign", "unpack-order", "function"}
#: Changes of where something starts or ends.
OF_ENDS = frozenset(("range", "comparison", "comparison-off-by-one", "number", "index", "one-step-too-many"))
#: Changes that remove something; another repair at the same place may only remove it too, so it isn't offered.
REMOVALS = ("one-step-too-many", "one-call-too-many", "index-too-many")
#: How many edits of a repair are tried without.
MOST_EDITS = 4
#: The cost limit for all changes, in steps of the program; the likeliest changes come first.
STEPS = 25_000
#: The same for black-box exercises, in which each call of the given function costs many steps.
STEPS_OF_HUNTS, FULLY_OF_HUNTS = 25_000, 6


@dataclass(frozen=True)
class Repair:
    """Edits of one kind in a student's function, its text with them, and its calls in the first case."""

    edits: tuple[Edit, ...]
    text: str
    calls: list[Call]

    @property
    def first(self) -> Edit:
        """The edit that provides the name and the line."""
        return self.edits[0]

    @property
    def kind(self) -> str:
        """The kind of edit."""
        return self.first.kind

    @property
    def rank(self) -> int:
        """How likely it is; lower is likelier."""
        return self.first.ranks[STUDENT]


def try_repairs(one_case: Posed, own: OwnProgram) -> Iterator[list[Repair]]:
    """Yield the changes with their calls of one case, in batches, the likeliest first."""
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
    """The arguments by the student's names."""
    case, names = one_case.cases[0], [argument.arg for argument in own.tree.args.args]
    given = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
    return {name: value for name, value in given.items() if name in names}


def find_repairs(
    posed: Posed, one_case: Posed, own: OwnProgram, chance: frozenset[str] = frozenset()
) -> tuple[Repair, ...]:
    """Return the likeliest change that passes every case, and a second one if that may be the one that is meant.

    one_case: the case that is tried first. chance: kinds of change that may pass by accident; others are preferred.
    """
    posings = _all_of(posed)
    found: list[Repair] = []
    fully = FULLY_IF_SHORT if len(own.values(one_case, 0)) <= SHORT else FULLY
    left = [FULLY_OF_HUNTS if is_hunt(posed) else fully] * 2  # for likely changes, and for `chance`
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


def _all_of(posed: Posed) -> list[Posed]:
    """All cases that a repair has to pass."""
    return [each.part(range(len(each.cases))) for each in (posed, posed.probes) if each is not None]


def _without_needless(one: Repair, own: OwnProgram, posed: Posed) -> Repair:
    """The repair without the edits that it doesn't need: the message must not accuse right code."""
    edits = one.edits
    posings = _all_of(posed) if len(edits) > 1 else []
    for edit in one.edits[:MOST_EDITS]:
        fewer = tuple(each for each in edits if each is not edit)
        if len(edits) > 1 and all(_passes(own, own.text(*fewer), each) for each in posings):
            edits = fewer
    return one if edits == one.edits else replace(one, edits=edits, text=own.text(*edits))


def _alike(found: Sequence[Repair], other: Repair) -> bool:
    """Whether a change of this kind in this line, or of this place and detail, was found already."""
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
    """Return the finding that describes one repair or two."""
    parents, kind = Program(own.tree, STUDENT).parents, repairs[0].kind
    first, *others = (in_line(repair.edits, parents) for repair in _without_echo(repairs))
    if others:
        text = say("own/either", change=first, other=others[0])
    else:
        count = len(repairs[0].edits)
        several = "own/two" if count == 2 else "own/several"
        text = say(("own/open" if kind in OPEN else "own") if count == 1 else several, change=begun(first))
    return Finding(f"own-{kind}", text, Certainty.REPAIR)


def _without_echo(repairs: Sequence[Repair]) -> Sequence[Repair]:
    """The repairs, or only one of two that name the same fault: one at a place, the other within it."""
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


#: Findings for which no repair is tried, because other versions of the function would take as long or keep as much
#: state.
NOT_AGAIN = ("measured-on-draws", "keeps-state")
#: How many failing and how many passing cases are run to find where wrong values begin.
LOOKED_AT = 3
#: The largest number of steps out of the graph that the message names.
NAMED_STEPS = 2
#: Findings that end in a question which the step where wrong values begin answers.
ANSWERED = ("zero-rows", "masked-rows", "dtype-lost")


def with_repair(
    own: OwnProgram, posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], finding: Finding
) -> Finding:
    """Return a finding with what running the student's own function adds to it. It changes no mark."""
    if finding.slug == "measured-on-draws" and not own.draws:
        finding = Finding(None, "")
    if finding.named and finding.names <= own.names:
        finding = replace(finding, text=finding.named)
    if finding.slug == "detached":
        steps = leaves_graph(own.tree)
        if 0 < len(steps) <= NAMED_STEPS:
            key = "detached/one" if len(steps) == 1 else "detached/several"
            lost = next((each.text for each in problems if each is not None and each.kind == "detached"), "")
            finding = replace(finding, text=say(key, lost=lost or say("detached/lost"), steps=listed(steps)))
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
    found = finding_of([_without_needless(one, own, posed) for one in repairs], own)
    if alike:  # a mutant of the model solution already named this slip
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
    """A finding with the step at which NaN, a wrong shape or a wrong dtype first appears."""
    core = posed.exercise.core
    right = [i for i, case in enumerate(posed.cases) if problems[i] is None and case.criterion == core]
    origins = (origin(posed, index, calls[index], problems[index], own, right[:LOOKED_AT]) for index in wrong)
    found = next((each for each in origins if each is not None), None)
    if found is None:
        return finding
    if finding.slug in (None, "nan"):
        return replace(found, facts=beyond(found.text, finding.facts))
    text = finding.text.rpartition(". ")[0] + "." if finding.slug in ANSWERED else finding.text
    return replace(finding, text=f"{text} {found.text}".strip())


def _is_coarse(case: Case) -> bool:
    """Whether there are float16 inputs, in which many numbers round to the same value."""
    return any(getattr(leaf, "dtype", None) == np.float16 for leaf in leaves((case.args, case.kwargs)))


def _asks_for_a_result(case: Case) -> bool:
    return case.raises is None and not case.gradient


def _size(case: Case) -> int:
    return sum(
        np.size(getattr(leaf, "array", leaf)) for leaf in leaves((case.args, case.kwargs)) if hasattr(leaf, "shape")
    )
