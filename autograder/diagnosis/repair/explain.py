"""What a student's own program tells of its mistake: the change that makes it right, or where wrong values begin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...data import Call, Certainty, Finding
from ...exercises.kit.records import Case
from ...judging.compare import Problem
from ...judging.posed import Posed
from ...worker.values import leaves
from ..hunts import is_hunt
from .in_expressions import OF_SIZE
from .origin import origin
from .program import OwnProgram
from .search import BY_ACCIDENT, FAR_FETCHED, find_repair, finding_of

#: What other versions of the program would only do again: measure as long, keep as much from call to call.
NOT_AGAIN = ("measured-on-draws", "keeps-state")
#: In so many wrong cases it is looked for where wrong values begin.
LOOKED_AT = 3


def with_repair(
    own: OwnProgram, posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None], finding: Finding
) -> Finding:
    """A finding with what the student's program adds to it. No mark changes."""
    if finding.slug == "measured-on-draws" and not own.draws:
        finding = Finding(None, "")
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
    visible = finding.names <= own.names and not ({finding.part, f"_{finding.part}"} & own.names)
    chance = FAR_FETCHED if in_core else BY_ACCIDENT
    repair = find_repair(posed, posed.part([ordinary[0]]), own, chance)
    if repair is not None and repair.slug in chance and (is_hunt(posed) or repair.slug in (*OF_SIZE, "no-factor")):
        repair = None
    if repair is None:
        return finding if alike else _with_origin(own, posed, ordinary[:LOOKED_AT], calls, problems, finding)
    found = finding_of(repair)
    if alike:  # the same slip keeps its name, whatever code it is in
        text = f"{finding.text} {found.text}" if visible else found.text
        return replace(found, slug=finding.slug, text=text, facts=finding.facts)
    if finding.certainty == Certainty.PLACE:
        return replace(found, text=f"{found.text} {finding.text}".strip(), facts=finding.facts)
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
    origins = (origin(posed, index, calls[index], problems[index], own) for index in wrong)
    found = next((each for each in origins if each is not None), None)
    if found is None:
        return finding
    if finding.slug in (None, "nan"):
        return replace(found, facts=finding.facts)
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
