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
from ..relations.shapes import shapes_of_steps
from ..variants.programs import tree_of
from ..variants.scope import names_in
from .apart import set_apart
from .chance import drawing
from .halves import find_halves
from .indices import wrapping
from .located import making, returned, stopping, traced, traced_further
from .named import misnamed
from .one_by_one import find_one_by_one
from .overflow import first_nan
from .program import OwnProgram
from .put_right import settled
from .search import BY_ACCIDENT, FAR_FETCHED, find_mend, find_second, told_of
from .terms import terms_apart
from .traced import GOES_IN, STOPS, Traced
from .way import as_array

#: How the names of findings begin, beside `WEAK`, that tell where an answer is wrong, and not why; where several
#: results are told one by one, each is told all that is known of it.
LITTLE = (
    *("off-by-factor", "permuted", "same-numbers", "rows-"),
    *("first-row-only", "first-position-only", "last-position-only", "last-row-only", "single-batch-only", "max-len-"),
    *("entries-missing", "equal-sizes-only", "wrong-shape", "shapes-do-not-fit"),
    *("index-out-of-range", "does-not-reshape", "stacks-different-shapes", "unequal-parts", "right-", "wrong-where"),
    *("some-missing", "too-many", "list-order", "goes-on", "stops-too-early", "begins-too-late", "entries-differ"),
    "experiment",
)
#: What is certain of a shape.
SHAPES = ("wrong-shape", "shapes-do-not-fit", "does-not-reshape", "stacks-different-shapes", "unequal-parts")
#: What is decided by numbers, and holds none itself.
DECIDED = ("pair list", "int list", "bool", "text")
#: In so many more wrong cases is a step looked for at which the way is left.
FURTHER = 2
WORD = re.compile(r"\w+")
BLANK = re.compile(r"\s+")
#: Where a change is told of an earlier function that the plain program is made of.
PART = re.compile(r"as if in `(\w+)`")
WORKED_OUT = re.compile(r" where `(\w+)` is worked out")
#: How what is found of changed inputs begins.
OF_INPUTS = "The result is what comes out as if"
QUIETLY = "The numbers are right, but NumPy warns on the way, where the docstring asks for silence."
#: What is told where a step was given other numbers, and all was right.
TRIED = "is right"
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
    try:
        verdict = without_another(verdict, posed, own)
        quickly = is_sure(verdict.advice, posed, own)
        calls = all_in_our_terms(posed, answer.calls)
        found = explain_by_own(posed, problems_of(posed, calls), own, calls, steps, quickly)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return verdict
    if found is None or (found.slug.endswith("-in-part") and "as if" in verdict.advice):
        return verdict
    before = verdict.advice if verdict.mistake is not None else ""
    slug, text = found.slug, found.text
    tried = found.slug != "own-step" or TRIED in found.text
    if tried and (is_elsewhere(before, own) or (found.slug == "own-step" and is_strange(before, posed, own))):
        slug, text = verdict.mistake, found.text  # the same slip keeps its name, whatever code it is in
    elif not tried and is_elsewhere(before, own):
        return verdict
    elif (not tried or slug in ("own-branch", "own-acts")) and is_strange(before, posed, own):
        slug, text = verdict.mistake, f"{found.text} {before}"
    elif before.startswith("On ordinary inputs") and slug.startswith("own-") and "every hidden case" in text:
        pass  # what is right in every case says more than what is alike in ordinary ones
    elif OF_INPUTS in before and before.startswith("Ordinary cases are right.") and found.slug != "own-step":
        slug, text = found.slug, f"{found.text} {before.partition(OF_INPUTS)[0].strip()}"
    elif "as if" in before and AT_ONE_SIZE not in before:
        slug, text = verdict.mistake, f"{before} {found.text}"
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
    if slug == MATERIALISES:
        return True, False
    if slug == "measured-on-draws":  # other versions would measure as long
        return False, False
    if slug in {mistake.slug for mistake in posed.exercise.mistakes}:
        return at_one_size, False
    if "as if" in text:
        in_edges = text.startswith("Ordinary cases are right.") and OF_INPUTS in text
        return True, at_one_size or in_edges or is_elsewhere(text, own) or is_strange(text, posed, own)
    return True, slug is None or slug.startswith(WEAK) or (_is_little(slug) and "-and-" not in slug)


def _is_little(slug: str) -> bool:
    return slug.startswith(LITTLE) or slug.endswith("-only")


def without_another(verdict: Verdict, posed: Posed, own: OwnProgram) -> Verdict:
    """Without the place of a slip, where it is told by a name that stands for something else in the student's."""
    place = WORKED_OUT.search(verdict.advice)
    if place is None or place[1] not in own.names or place[1] in given_names(posed):
        return verdict
    ours = shapes_of_steps(posed, posed.cases[0]).get(place[1])
    nodes = {node.number for node in ast.walk(own.tree) if isinstance(node, ast.Name) and node.id == place[1]}
    arrays = (as_array(value) for number, value in own.values(posed, 0) if number in nodes)
    theirs = next((array.shape for array in arrays if array is not None), None)
    if ours is None or theirs is None or np.squeeze(np.empty(ours)).shape == np.squeeze(np.empty(theirs)).shape:
        return verdict
    advice = verdict.advice.replace(place[0], "", 1)
    return replace(verdict, advice=advice, message=verdict.message.replace(verdict.advice, advice, 1))


def given_names(posed: Posed) -> set[str]:
    """The names that the docstring gives: arguments, sizes and results."""
    arguments = (
        {argument.arg for argument in tree_of(posed.exercise.plain).args.args} if posed.exercise.plain else set()
    )
    return arguments | {name for case in posed.cases for name in case.sizes}


def is_elsewhere(text: str, own: OwnProgram) -> bool:
    """Is it told of a function that the student's program calls, and that is the course's own there?"""
    part = PART.search(text)
    return part is not None and bool({part[1], f"_{part[1]}"} & own.names)


def is_sure(text: str, posed: Posed, own: OwnProgram) -> bool:
    """Is a change of the plain program told in what the student has, too, and of more than a size that is handed in?"""
    if "as if" not in text or OF_INPUTS in text or AT_ONE_SIZE in text or is_elsewhere(text, own):
        return False
    return not is_strange(text, posed, own)


def is_strange(text: str, posed: Posed, own: OwnProgram) -> bool:
    """Is it told in what the plain program has, and the student's has not?"""
    if "as if" not in text or OF_INPUTS in text:
        return False
    shown, written = re.findall(r"`([^`]*)`", text), BLANK.sub("", ast.unparse(own.tree))
    given = given_names(posed)
    sizes = {piece for piece in shown if set(re.findall(r"[^\W\d]\w*", piece)) <= given}  # such as √d_k
    if shown and not sizes and not any(BLANK.sub("", piece) in written for piece in shown):
        return True
    return bool(_names_of_ours(posed) & set(WORD.findall(text)) - own.names)


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
    posed: Posed,
    problems: Sequence[Problem | None],
    own: OwnProgram,
    calls: Sequence[Call],
    steps: bool,
    quickly: bool = False,
) -> Finding | None:
    """The change that makes it right, of the likeliest alone if `quickly`; failing that, where `steps` asks for more,
    two of them, a change with which it answers as a known slip does, or the first step that leaves the way."""
    wrong = [index for index, problem in enumerate(problems) if problem is not None]
    ordinary = [index for index in wrong if posed.cases[index].raises is None and not posed.cases[index].gradient]
    if not ordinary:
        return None
    if all(problems[index].kind == "made" for index in wrong):
        return making(posed, wrong[0], own)
    if all(problems[index].kind == "warned" for index in wrong):
        warned = first_nan(posed, wrong[0], own)
        return replace(warned, slug="warns", text=f"{QUIETLY} {warned.text}") if warned is not None else None
    core = posed.exercise.core
    first = min(ordinary, key=lambda i: (posed.cases[i].criterion != core, _size(posed, i), i))
    fine = [i for i, case in enumerate(posed.cases) if problems[i] is None and case.criterion == core]
    right = max((i for i in fine if posed.cases[i].raises is None), key=lambda i: _size(posed, i), default=None)
    if all(leaf.kind in DECIDED for leaf in posed.exercise.leaves):  # wrong numbers may decide rightly
        right = None
    found, alone = Traced(0) if quickly else traced(posed, first, right, own), posed.part([first])
    mend, tried = find_mend(posed, alone, own, found.steps, quickly)
    in_core = any(posed.cases[index].criterion == core for index in ordinary)
    doubtful = FAR_FETCHED if in_core else BY_ACCIDENT
    if mend is not None and (quickly or mend.slug not in doubtful):
        return told_of(mend)
    of_nan = [index for index in ordinary if problems[index].kind == "nan"]
    if of_nan and len(of_nan) == len(ordinary):
        return _of_nan(posed, ordinary, right, own)
    if mend is not None:
        sure = settled(posed, found, own, _another(posed, found.index, problems))
        return sure.finding if sure.vouched else told_of(mend)
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
    chance = drawing(posed, own)
    if chance is not None:
        return chance
    right_ones = [i for i, each in enumerate(problems) if each is None and posed.cases[i].raises is None]
    right_ones = [i for i in right_ones if not posed.cases[i].gradient]
    apart = terms_apart(posed, ordinary, own) or set_apart(posed, ordinary, right_ones, own)
    if apart is None and of_nan and not in_core:
        apart = _of_nan(posed, of_nan, right, own)
    if apart is not None:
        return apart
    again = partial(find_second, posed, own, first, found.steps)
    halves = find_halves(posed, first, tried, own, calls, problems, again)
    another = halves is not None and halves.finding.slug.endswith("-another") and found.vouched
    if halves is not None and halves.sure and not another:
        return halves.finding
    if another:
        tried_out = settled(posed, found, own, _another(posed, found.index, problems))
        return tried_out.finding if TRIED in tried_out.finding.text else halves.finding
    if not in_core:  # in edge cases much answers alike
        halves = None
    parts = find_one_by_one(posed, first, tried, own, calls, again)
    if problems[first].kind != "raised" and not parts:
        larger = sorted(ordinary, key=lambda i: (posed.cases[i].criterion != core, -_size(posed, i), i))
        further = traced_further(posed, found, [index for index in larger if index != first][:FURTHER], right, own)
        found = further if further.vouched or halves is None else found
        found = settled(posed, found, own, _another(posed, found.index, problems))
    told = parts or (found.finding if found.sure or halves is None else None) or (halves.finding if halves else None)
    ended = [index for index in (first, *ordinary) if problems[index].kind == "raised"]
    return told or (stopping(posed, ended[0], own) if ended else None)


def _of_nan(posed: Posed, wrong: Sequence[int], right: int | None, own: OwnProgram) -> Finding | None:
    """Where NaN comes from, and what has left the way there before, if it is not known why."""
    for index in wrong:
        nan = first_nan(posed, index, own)
        if nan is not None:
            before = traced(posed, index, right, own).finding if nan.slug == "nan" else None
            return replace(nan, text=f"{nan.text} {before.text}") if before is not None else nan
    return None


def _another(posed: Posed, first: int, problems: Sequence[Problem | None]) -> int | None:
    """The smallest other case whose numbers are wrong, of those that are asked for in the same way, if there are."""
    wrong = [i for i, problem in enumerate(problems) if problem is not None and problem.kind == "values" and i != first]
    wrong = [i for i in wrong if posed.cases[i].raises is None and not posed.cases[i].gradient]
    asked = posed.cases[first].criterion
    return min(wrong, key=lambda i: (posed.cases[i].criterion != asked, _size(posed, i)), default=None)


def _size(posed: Posed, index: int) -> int:
    case = posed.cases[index]
    return sum(
        np.size(getattr(leaf, "array", leaf)) for leaf in leaves((case.args, case.kwargs)) if hasattr(leaf, "shape")
    )
