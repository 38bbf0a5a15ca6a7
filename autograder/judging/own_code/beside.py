"""What was found before, and what the student's own program tells: which of them is to be told, or both."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import numpy as np

from ...data import Finding, Verdict
from ..posed import Posed
from ..relations.form import MATERIALISES
from ..relations.shapes import shapes_of_steps
from ..symptoms import ON_ORDINARY, WEAK
from ..variants.programs import tree_of
from ..variants.scope import names_in
from .program import OwnProgram
from .traced import GOES_IN, MISPRECISE, MISSHAPES, RAISES, STOPS, TRIED, TWO_THINGS
from .way import as_array

#: How the names of findings begin, beside `WEAK`, that tell where an answer is wrong, and not why; where several
#: results are told one by one, each is told all that is known of it.
LITTLE = (
    *("off-by-factor", "permuted", "same-numbers", "rows-"),
    *("first-row-only", "first-position-only", "last-position-only", "last-row-only", "single-batch-only", "max-len-"),
    *("entries-missing", "equal-sizes-only", "wrong-shape", "shapes-do-not-fit"),
    *("index-out-of-range", "does-not-reshape", "stacks-different-shapes", "unequal-parts", "right-", "wrong-where"),
    *("list-order", "goes-on", "begins-too-late", "experiment"),
)
#: What is certain of a shape.
SHAPES = ("wrong-shape", "shapes-do-not-fit", "does-not-reshape", "stacks-different-shapes", "unequal-parts")
WORD = re.compile(r"\w+")
BLANK = re.compile(r"\s+")
#: Where a change is told of an earlier function that the plain program is made of.
PART = re.compile(r"as if in `(\w+)`")
WORKED_OUT = re.compile(r" where `(\w+)` is worked out")
INSTEAD = re.compile(r"`([^`]*)` stood in the place of `([^`]*)`")
SCALED = re.compile(r"were (doubled|halved)")
#: How what is found of changed inputs begins.
OF_INPUTS = "The result is what comes out as if"
#: What was found at one size alone may be chance.
AT_ONE_SIZE = "(Seen where sizes are equal.)"
#: Where the wrong form of a result is seen first -> how the names begin of findings that tell of this form.
SEEN_FIRST = {MISSHAPES: "wrong-shape", MISPRECISE: "dtype-"}


def asks_for(posed: Posed, own: OwnProgram, slug: str | None, text: str) -> tuple[bool, bool]:
    """What is still to be looked for beside a finding: a change that makes it right, a step that leaves the way.

    A known mistake, or a change of the plain program, answers the same in every case: there is nothing to add, unless
    that was seen at one size alone, or is told in names that the student does not have. Of all else a change of the
    student's own program tells more.
    """
    at_one_size = AT_ONE_SIZE in text
    if slug == MATERIALISES:
        return True, False
    if slug in ("measured-on-draws", "keeps-state"):  # other versions would measure as long, or keep as much
        return False, False
    if slug in {mistake.slug for mistake in posed.exercise.mistakes}:
        return at_one_size or text.startswith(ON_ORDINARY), False
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
    if SCALED.search(text):  # by a factor, which may stand anywhere
        return False
    return not is_strange(text, posed, own)


def is_strange(text: str, posed: Posed, own: OwnProgram) -> bool:
    """Is it told in what the plain program has, and the student's has not?"""
    if "as if" not in text or OF_INPUTS in text:
        return False
    shown, written = re.findall(r"`([^`]*)`", text), BLANK.sub("", ast.unparse(own.tree))
    turned = INSTEAD.search(text)
    if turned and BLANK.sub("", turned[2]) in written and BLANK.sub("", turned[1]) not in written:
        return True  # what is due stands there already, of something else
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


def together(verdict: Verdict, found: Finding, posed: Posed, own: OwnProgram) -> Verdict:
    """The verdict with what the program tells, beside what was found before or in its place."""
    if found.slug.endswith("-in-part") and "as if" in verdict.advice:
        return verdict
    of_two = found.text.startswith(TWO_THINGS) or found.slug.endswith("-another")
    if of_two and "as if" in verdict.advice and AT_ONE_SIZE not in verdict.advice:
        return verdict
    if OF_INPUTS in verdict.advice and found.slug == "own-step" and TRIED not in found.text:
        return verdict
    before = verdict.advice if verdict.mistake is not None else ""
    slug, text = found.slug, found.text
    if found.slug == RAISES:
        return replace(verdict, mistake=found.slug, advice=found.text, message=f"{found.text} {verdict.message}")
    if found.slug in SEEN_FIRST:
        if not verdict.mistake or not verdict.mistake.startswith(SEEN_FIRST[found.slug]):
            return verdict
        advice = f"{before} {found.text}"
        return replace(verdict, advice=advice, message=verdict.message.replace(before, advice, 1))
    tried = found.slug != "own-step" or TRIED in found.text
    if tried and (is_elsewhere(before, own) or (found.slug == "own-step" and is_strange(before, posed, own))):
        slug, text = verdict.mistake, found.text  # the same slip keeps its name, whatever code it is in
    elif not tried and is_elsewhere(before, own):
        return verdict
    elif slug in ("nan", "overflow") and "as if" in before:  # all results are NaN, and that is like much else
        pass
    elif slug in ("own-branch", "own-acts") and "as if" in before and OF_INPUTS not in before:
        return verdict  # what all numbers agree with is surer
    elif not tried and is_strange(before, posed, own):
        slug, text = verdict.mistake, f"{found.text} {before}"
    elif before.startswith(ON_ORDINARY) and slug.startswith("own-") and "every hidden case" in text:
        pass  # what is right in every case says more than what is alike in ordinary ones
    elif OF_INPUTS in before and before.startswith("Ordinary cases are right.") and found.slug != "own-step":
        slug, text = found.slug, f"{found.text} {before.partition(OF_INPUTS)[0].strip()}"
    elif "as if" in before and AT_ONE_SIZE not in before:
        slug, text = verdict.mistake, f"{before} {found.text}"
    elif before and stands_beside(verdict.mistake, before, found):
        slug, text = verdict.mistake if slug == STOPS else slug, f"{found.text} {before}"
    message = verdict.message.replace(before, text, 1) if before else f"{text} {verdict.message}"
    return replace(verdict, mistake=slug, advice=text, message=message)
