"""What a student's own program tells of its mistake, where its answers alone tell little."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ...data import Answer, Call, Finding, Verdict
from ...worker.values import leaves
from ..compare import Problem
from ..posed import Posed
from ..problems import all_in_our_terms, problems_of
from ..recognise import WEAK
from ..relations.form import MATERIALISES
from ..variants.programs import tree_of
from ..variants.scope import names_in
from .halves import find_halves
from .indices import wrapping
from .located import GOES_IN, STOPS, first_nan, making, returned, settled, stopping, traced, traced_further
from .named import misnamed
from .one_by_one import find_one_by_one
from .program import OwnProgram
from .search import find_mend, find_second, told_of

#: How the names of findings begin, beside `WEAK`, that tell where an answer is wrong, and not why; where several
#: results are told one by one, each is told all that is known of it.
LITTLE = (
    *("off-by-factor", "permuted", "same-numbers", "rows-"),
    *("first-row-only", "first-position-only", "last-position-only", "last-row-only", "single-batch-only", "max-len-"),
    *("entries-missing", "equal-sizes-only", "wrong-shape", "shapes-do-not-fit"),
    *("index-out-of-range", "does-not-reshape", "stacks-different-shapes", "unequal-parts", "right-"),
)
#: What is certain of a shape.
SHAPES = ("wrong-shape", "shapes-do-not-fit", "does-not-reshape", "stacks-different-shapes", "unequal-parts")
#: In so many more wrong cases is a step looked for at which the way is left.
FURTHER = 2
WORD = re.compile(r"\w+")
BLANK = re.compile(r"\s+")
#: How what is found of changed inputs begins.
OF_INPUTS = "The result is what comes out as if"
#: What was found at one size alone may be chance.
AT_ONE_SIZE = "(Seen where sizes are equal.)"


def told_by_own(own: OwnProgram, posed: Posed, answer: Answer, verdict: Verdict) -> Verdict:
    """A verdict on a wrong answer with what its program tells. No mark changes."""
    if verdict.mistake == "measured-on-draws" and not own.draws:
        message = verdict.message.replace(verdict.advice, "", 1).strip()
        verdict = replace(verdict, mistake=None, message=message, advice="")
    mends, steps = asks_for(posed, own, verdict.mistake, verdict.advice)
    if not mends:
        return verdict
    calls = all_in_our_terms(posed, answer.calls)
    try:
        found = explain_by_own(posed, problems_of(posed, calls), own, calls, steps)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return verdict
    if found is None:
        return verdict
    before = verdict.advice if verdict.mistake is not None else ""
    slug, text = found.slug, found.text
    if "as if" in before and AT_ONE_SIZE not in before:
        slug, text = verdict.mistake, f"{before} {found.text}"  # the same slip keeps its name, whatever code it is in
    elif before and stands_beside(verdict.mistake, before, found):
        slug, text = verdict.mistake if slug == STOPS else slug, f"{found.text} {before}"
    message = verdict.message.replace(before, text, 1) if before else f"{text} {verdict.message}"
    return replace(verdict, mistake=slug, advice=text, message=message)


def asks_for(posed: Posed, own: OwnProgram, slug: str | None, text: str) -> tuple[bool, bool]:
    """What is still to be looked for beside a finding: a change that makes it right, a step that leaves the way.

    A known mistake, or a change of the plain program, answers the same in every case: there is nothing to add, unless
    that was seen at one size alone, or is told in names that the student does not have. Of all else a change of the
    student's own program tells more.
    """
    at_one_size = AT_ONE_SIZE in text
    if text == MATERIALISES:
        return True, False
    if slug == "measured-on-draws":  # other versions would measure as long
        return False, False
    if slug in {mistake.slug for mistake in posed.exercise.mistakes}:
        return at_one_size, False
    if "as if" in text:
        strange = _names_of_ours(posed) & set(WORD.findall(text)) - own.names or not _is_written(text, own)
        return at_one_size or text.startswith(OF_INPUTS) or bool(strange), at_one_size
    return True, slug is None or slug.startswith(WEAK) or (slug.startswith(LITTLE) and "-and-" not in slug)


def _is_written(text: str, own: OwnProgram) -> bool:
    """Does all that a text shows of a program stand in the student's, but for what it says is due?"""
    shown, written = re.findall(r"`([^`]*)`", text), BLANK.sub("", ast.unparse(own.tree))
    return not shown or any(BLANK.sub("", piece) in written for piece in shown)


def _names_of_ours(posed: Posed) -> set[str]:
    """What the plain program gives names to on its way, sizes and results left out: these have names for all."""
    if posed.exercise.plain is None:
        return set()
    tree = tree_of(posed.exercise.plain)
    known = {argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)}
    known |= {name for case in posed.cases for name in case.sizes} | {leaf.name for leaf in posed.exercise.leaves}
    return set(names_in(tree)) - known


def stands_beside(slug: str, before: str, found: Finding) -> bool:
    """Whether what was found before is to be told, too: which cases and which results are wrong."""
    if "-and-" in found.slug:  # two slips explain all
        return False
    if found.slug == STOPS:
        return True
    if GOES_IN in found.text:
        return AT_ONE_SIZE not in before
    return slug.startswith(("fails-", "only-", "generator-unused", "experiment")) or (
        found.slug == "own-step" and slug.startswith(SHAPES)
    )


def explain_by_own(
    posed: Posed, problems: Sequence[Problem | None], own: OwnProgram, calls: Sequence[Call], steps: bool
) -> Finding | None:
    """The change that makes it right; failing that, where `steps` asks for more, two of them, a change with which it
    answers as a known slip does, or the first step that leaves the way."""
    wrong = [index for index, problem in enumerate(problems) if problem is not None]
    ordinary = [index for index in wrong if posed.cases[index].raises is None and not posed.cases[index].gradient]
    if not ordinary:
        return None
    if all(problems[index].kind == "made" for index in wrong):
        return making(posed, wrong[0], own)
    core = posed.exercise.core
    first = min(ordinary, key=lambda i: (posed.cases[i].criterion != core, _size(posed, i), i))
    fine = [i for i, case in enumerate(posed.cases) if problems[i] is None and case.criterion == core]
    right = max((i for i in fine if posed.cases[i].raises is None), key=lambda i: _size(posed, i), default=None)
    found, alone = traced(posed, first, right, own), posed.part([first])
    mend, tried = find_mend(posed, alone, own, found.steps)
    if mend is not None:
        return told_of(mend)
    if all(problems[index].kind == "nan" for index in ordinary):
        return next((found for index in ordinary if (found := first_nan(posed, index, own))), None)
    if not steps:
        return None
    wraps = wrapping(posed, ordinary, fine, own)
    if wraps is not None:
        return wraps
    other_size = misnamed(posed, [index for index in ordinary if posed.cases[index].criterion == core], fine, own)
    if other_size is not None:
        return other_size
    if found.finding is None and problems[first].kind == "values":
        other = returned(posed, ordinary, calls, own)
        if other is not None:
            return other
    again = partial(find_second, posed, own, first, found.steps)
    halves = find_halves(posed, first, tried, own, calls, problems, again)
    if halves is not None and halves.sure:
        return halves.finding
    parts = find_one_by_one(posed, first, tried, own, calls, again)
    if problems[first].kind != "raised" and not parts:
        larger = sorted(ordinary, key=lambda i: (posed.cases[i].criterion != core, -_size(posed, i), i))
        further = traced_further(posed, found, [index for index in larger if index != first][:FURTHER], right, own)
        found = further if further.vouched or halves is None else found
        found = settled(posed, found, own)
    told = parts or (found.finding if found.sure or halves is None else None) or (halves.finding if halves else None)
    ended = [index for index in (first, *ordinary) if problems[index].kind == "raised"]
    return told or (stopping(posed, ended[0], own) if ended else None)


def _size(posed: Posed, index: int) -> int:
    case = posed.cases[index]
    return sum(
        np.size(getattr(leaf, "array", leaf)) for leaf in leaves((case.args, case.kwargs)) if hasattr(leaf, "shape")
    )
