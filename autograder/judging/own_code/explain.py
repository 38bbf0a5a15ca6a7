"""What a student's own program tells of its mistake, where its answers alone tell little."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...data import Answer, Call, Finding, Verdict
from ...exercises.kit.records import Case
from ...worker.values import leaves
from ..compare import Problem
from ..hunts import is_hunt
from ..posed import Posed
from ..problems import all_in_our_terms, problems_of
from .apart import raising, set_apart
from .beside import asks_for, is_sure, together, without_another
from .chance import drawing
from .halves import find_halves
from .in_expressions import OF_SIZE
from .indices import wrapping
from .located import making, misprecise, misshaping, stopping, traced, traced_further
from .named import misnamed
from .one_by_one import find_one_by_one
from .overflow import first_nan, lost_rows
from .program import OwnProgram, Tried
from .put_right import settled
from .search import BY_ACCIDENT, FAR_FETCHED, find_mend, find_second, told_of
from .terms import terms_apart
from .traced import TRIED, Traced

#: What is decided by numbers, and holds none itself.
DECIDED = ("pair list", "int list", "bool", "text")
#: In so many more wrong cases is a step looked for at which the way is left.
FURTHER = 2
QUIETLY = "The numbers are right, but NumPy warns on the way, where the docstring asks for silence."


@dataclass(frozen=True)
class Look:
    """A wrong answer, and which of its cases are looked at.

    wrong: all that are; ordinary: those in which a result is asked for, no error and no gradient. first: the plainest
    of them. fine: the cases of the core that are right; right: the largest of them that may be compared.
    """

    posed: Posed
    problems: Sequence[Problem | None]
    own: OwnProgram
    calls: Sequence[Call]
    wrong: Sequence[int]
    ordinary: Sequence[int]
    fine: Sequence[int]
    first: int
    right: int | None

    @staticmethod
    def at(posed: Posed, problems: Sequence[Problem | None], own: OwnProgram, calls: Sequence[Call]) -> Look | None:
        """None where nothing ordinary is wrong."""
        core, cases = posed.exercise.core, posed.cases
        wrong = [index for index, problem in enumerate(problems) if problem is not None]
        ordinary = [index for index in wrong if _asks_for_a_result(cases[index])]
        if not ordinary:
            return None
        first = min(ordinary, key=lambda i: (cases[i].criterion != core, _is_coarse(cases[i]), _size(posed, i), i))
        fine = [i for i, case in enumerate(cases) if problems[i] is None and case.criterion == core]
        right = max(
            (i for i in fine if cases[i].raises is None and not _is_coarse(cases[i])),
            key=lambda i: _size(posed, i),
            default=None,
        )
        if all(leaf.kind in DECIDED for leaf in posed.exercise.leaves):  # wrong numbers may decide rightly
            right = None
        return Look(posed, problems, own, calls, wrong, ordinary, fine, first, right)

    def all_of(self, kind: str) -> bool:
        """Whether all that is wrong is so in the same way."""
        return all(self.problems[index].kind == kind for index in self.wrong)

    def kind(self) -> str:
        """In what way the first case is wrong."""
        return self.problems[self.first].kind

    def in_core(self) -> list[int]:
        """The wrong cases without which nothing is earned."""
        return [index for index in self.ordinary if self.posed.cases[index].criterion == self.posed.exercise.core]

    def of_nan(self) -> list[int]:
        """The wrong cases that hold NaN or infinity."""
        return [index for index in self.ordinary if self.problems[index].kind == "nan"]

    def right_ones(self) -> list[int]:
        """All cases that are right and ask for a result."""
        return [i for i, each in enumerate(self.problems) if each is None and _asks_for_a_result(self.posed.cases[i])]

    def another(self, first: int) -> int | None:
        """The smallest other case whose numbers are wrong, of those that are asked for in the same way, if any."""
        cases, asked = self.posed.cases, self.posed.cases[first].criterion
        others = [i for i in self.ordinary if self.problems[i].kind == "values" and i != first]
        return min(others, key=lambda i: (cases[i].criterion != asked, _size(self.posed, i)), default=None)

    def settled(self, found: Traced) -> Traced:
        """What was found, where it can be tried that a step is at fault."""
        return settled(self.posed, found, self.own, self.another(found.index))


def told_by_own(own: OwnProgram, posed: Posed, answer: Answer, verdict: Verdict) -> Verdict:
    """A verdict on a wrong answer with what its program tells. No mark changes."""
    if verdict.mistake == "measured-on-draws" and not own.draws:
        message = verdict.message.replace(verdict.advice, "", 1).strip()
        verdict = replace(verdict, mistake=None, message=message, advice="")
    mends, steps = asks_for(posed, own, verdict.mistake, verdict.advice)
    if not mends and "overflow" not in verdict.advice:
        return verdict
    try:
        with np.errstate(all="ignore"):
            calls = all_in_our_terms(posed, answer.calls)
            problems = problems_of(posed, calls)
            if not mends:
                return _of_underflow(verdict, Look.at(posed, problems, own, calls))
            verdict = without_another(verdict, posed, own)
            quickly = is_sure(verdict.advice, posed, own)
            found = explain_by_own(posed, problems, own, calls, steps, quickly)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return verdict
    return verdict if found is None else together(verdict, found, posed, own)


def explain_by_own(
    posed: Posed,
    problems: Sequence[Problem | None],
    own: OwnProgram,
    calls: Sequence[Call],
    steps: bool,
    quickly: bool = False,
) -> Finding | None:
    """The change that makes it right, of the likeliest alone if `quickly`; failing that, where `steps` asks for more,
    two of them, a change with which it answers as a known slip does, or the first step that leaves the way."""
    look = Look.at(posed, problems, own, calls)
    if look is None:
        return None
    if look.all_of("made"):
        return making(posed, look.wrong[0], own)
    if look.all_of("warned"):
        warned = first_nan(posed, look.wrong[0], own)
        return replace(warned, slug="warns", text=f"{QUIETLY} {warned.text}") if warned is not None else None
    found = Traced(0) if quickly else traced(posed, look.first, look.right, own)
    chance = FAR_FETCHED if look.in_core() else BY_ACCIDENT
    mend, tried = find_mend(posed, posed.part([look.first]), own, found.steps, quickly, found.line, chance)
    if mend is not None and (quickly or mend.slug not in chance):
        return told_of(mend)
    if len(look.of_nan()) == len(look.ordinary):
        return _of_nan(look, look.ordinary)
    if mend is not None and not is_hunt(posed) and mend.slug not in OF_SIZE:
        sure = look.settled(found)
        return sure.finding if sure.vouched else told_of(mend)
    if not steps:
        return misprecise(posed, look.first, calls, own) if look.kind() == "precision" else None
    return _seen(look, found) or _by_two_or_by_steps(look, found, tried) or misshaping(posed, look.first, calls, own)


def _seen(look: Look, found: Traced) -> Finding | None:
    """What can be seen of the program as it runs, the surest first."""
    posed, own = look.posed, look.own
    finders = (
        lambda: wrapping(posed, look.ordinary, look.fine, own),
        lambda: raising(posed, look.in_core(), own),
        lambda: misnamed(posed, look.in_core(), look.fine, own),
        lambda: drawing(posed, own),
        lambda: terms_apart(posed, look.ordinary, own),
        lambda: None if look.in_core() else lost_rows(posed, look.ordinary, own),
        lambda: None if is_hunt(posed) else set_apart(posed, look.ordinary, look.right_ones(), own),
        lambda: None if look.in_core() else _of_nan(look, look.of_nan()),
    )
    return next((finding for find in finders if (finding := find()) is not None), None)


def _by_two_or_by_steps(look: Look, found: Traced, tried: Sequence[Tried]) -> Finding | None:
    """Two slips that explain it together, or the step at which the way is left: whichever is surer."""
    posed, problems, own, first = look.posed, look.problems, look.own, look.first
    again = partial(find_second, posed, own, first, found.steps)
    halves = find_halves(posed, first, tried, own, look.calls, problems, again)
    another = halves is not None and halves.finding.slug.endswith("-another") and found.vouched
    if halves is not None and halves.sure and not another:
        return halves.finding
    if another:
        tried_out = look.settled(found)
        return tried_out.finding if TRIED in tried_out.finding.text else halves.finding
    if not look.in_core():  # in edge cases much answers alike
        halves = None
    parts = find_one_by_one(posed, first, tried, own, look.calls, again)
    if look.kind() != "raised" and not parts:
        core = posed.exercise.core
        larger = sorted(look.ordinary, key=lambda i: (posed.cases[i].criterion != core, -_size(posed, i), i))
        further = traced_further(posed, found, [i for i in larger if i != first][:FURTHER], look.right, own)
        found = look.settled(further if further.vouched or halves is None else found)
    told = parts or (found.finding if found.sure or halves is None else None) or (halves.finding if halves else None)
    ended = [index for index in (first, *look.ordinary) if problems[index].kind == "raised"]
    return told or (stopping(posed, ended[0], own) if ended else None)


def _of_nan(look: Look, wrong: Sequence[int]) -> Finding | None:
    """Where NaN comes from, and what has left the way there before, if it is not known why."""
    for index in wrong:
        nan = first_nan(look.posed, index, look.own)
        if nan is not None:
            before = traced(look.posed, index, look.right, look.own).finding if nan.slug == "nan" else None
            return replace(nan, text=f"{nan.text} {before.text}") if before is not None else nan
    return None


def _of_underflow(verdict: Verdict, look: Look | None) -> Verdict:
    """Replace a name that speaks of overflow where the student's program makes NaN without any.

    Every case with NaN is looked at: which of them fails first depends on the numbers that were drawn.
    """
    if look is None or len(look.of_nan()) < len(look.ordinary):
        return verdict
    made = [first_nan(look.posed, index, look.own) for index in look.of_nan()]
    if not all(nan is not None and nan.slug == "nan" for nan in made):
        return verdict
    text = made[look.ordinary.index(look.first)].text
    return replace(verdict, mistake="nan", advice=text, message=verdict.message.replace(verdict.advice, text, 1))


def _is_coarse(case: Case) -> bool:
    """Are there numbers of two bytes, between which much is alike?"""
    return any(getattr(leaf, "dtype", None) == np.float16 for leaf in leaves((case.args, case.kwargs)))


def _asks_for_a_result(case: Case) -> bool:
    return case.raises is None and not case.gradient


def _size(posed: Posed, index: int) -> int:
    case = posed.cases[index]
    return sum(
        np.size(getattr(leaf, "array", leaf)) for leaf in leaves((case.args, case.kwargs)) if hasattr(leaf, "shape")
    )
