"""Looks for the single change of a student's function that passes every case, and says what it is."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...data import Call, Certainty, Finding
from ...exercises.kit.records import Case
from ...judging.compare import Problem
from ...judging.posed import Posed, all_right
from ...worker.values import leaves
from ..mutants.edit import assigned, called, names_in, only_compared
from ..observed import is_hunt
from . import in_calls, in_expressions, in_statements
from .candidate import ARTIFICIAL, ODD, Parents, Repair, repair, text_of, together
from .in_expressions import OF_SIZE
from .origin import origin
from .program import AT_A_TIME, OwnProgram, Tried

#: Changes that say plainly what is meant, to be tried before others that come to the same.
PLAIN = (
    *("falsy-for-none", "decided-by-sizes", "marks-too-few", "marks-too-many", "one-choice-too-many"),
    "not-kept-apart",
)
#: What random numbers are drawn from.
SEEDS = ("manual_seed", "default_rng", "seed", "Random", "RandomState")


def repairs_of(tree: ast.FunctionDef, numbers: Sequence[str], arrays: Sequence[str] = ()) -> list[Repair]:
    """All changes of a numbered function, the likeliest first.

    numbers, arrays: its arguments that are plain numbers, and those that are arrays.
    """
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    found: dict[tuple[int, str], Repair] = {}
    for one in _all(tree, numbers, arrays, parents):
        found.setdefault((one.edit.place, ast.dump(one.edit.new) if one.edit.new is not None else ""), one)
    all_of_them = (*found.values(), *together(list(found.values()), tree))
    return sorted(all_of_them, key=lambda one: (one.edit.rank, one.slug not in PLAIN))


def _all(tree: ast.FunctionDef, numbers: Sequence[str], arrays: Sequence[str], parents: Parents) -> Iterator[Repair]:
    names, writes = names_in(tree), any(map(_writes, ast.walk(tree)))
    blocks = {name for name, value in assigned(tree) if isinstance(value, ast.Call) and called(value)[0] == "slice"}
    limits = only_compared(tree)
    within_limits = {each for limit in limits if not isinstance(limit, ast.Compare) for each in ast.walk(limit)}
    yield from in_statements.of_what_stays(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and (_is_of_a_type(node, parents) or _is_of_a_seed(node, parents)):
            continue
        if _grows(node, parents):
            continue
        if isinstance(node, ast.BinOp):
            yield from in_expressions.of_operation(node)
            yield from in_expressions.of_shares(node, arrays)
        elif isinstance(node, ast.UnaryOp):
            what = "sign of" if isinstance(node.op, ast.USub) else "negation in"
            words = f"the {what} {text_of(node)}"
            yield repair(node, node.operand, "sign", words)
        elif isinstance(node, ast.BoolOp):
            yield from in_expressions.of_logic(node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from in_expressions.of_comparison(node, parents)
        elif isinstance(node, ast.Call):
            changes = in_calls.of_call(node, names)
            yield from (one for one in changes if one.slug != "function" or node not in within_limits)
        elif isinstance(node, ast.Subscript):
            yield from in_calls.of_subscript(node, blocks)
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            yield repair(node, node.value, "turned", f"the transposition in {text_of(node)}")
        elif isinstance(node, ast.Constant):
            yield from in_expressions.of_constant(node, parents)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from in_expressions.of_name(node, names, parents)
        elif isinstance(node, (ast.IfExp, ast.If)):
            yield from in_statements.of_condition(node)
        elif isinstance(node, ast.Return):
            yield from in_statements.of_return(node, names, parents)
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            yield from in_statements.of_assignment(node, parents, writes)
        if isinstance(node, (ast.FunctionDef, ast.For, ast.While, ast.If, ast.With)):
            yield from in_statements.of_block(node, parents)
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            yield from in_expressions.of_value(node, numbers, parents, node in limits)


def _writes(node: ast.AST) -> bool:
    """Does it write into an array?"""
    if isinstance(node, ast.Call):
        name = called(node)[0]
        return name == "fill_diagonal" or (name.endswith("_") and not name.startswith("_"))
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, (ast.Name, ast.Subscript))
    return isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets)


def _grows(node: ast.AST, parents: Parents) -> bool:
    """Does it stand in an exponent, or say how far bits are shifted? A size there makes numbers that nobody can wait
    for, and that no alarm interrupts; a number that is written down may be another one."""
    is_number = isinstance(node, ast.Constant)
    while node in parents:
        above = parents[node]
        if isinstance(above, ast.BinOp) and above.right is node:
            if isinstance(above.op, ast.LShift):
                return True
            if isinstance(above.op, ast.Pow):
                return not is_number or any(isinstance(each, ast.Name) for each in ast.walk(node))
        node = above
    return False


def _is_of_a_seed(node: ast.expr, parents: Parents) -> bool:
    """Does it say which random numbers are drawn? Others are no cause."""
    parent = parents.get(node)
    return isinstance(parent, ast.Call) and node in parent.args and called(parent)[0] in SEEDS


def _is_of_a_type(node: ast.expr, parents: Parents) -> bool:
    """Does it stand in an annotation, a text or a pattern, where nothing is computed?"""
    return isinstance(parents.get(node), (ast.AnnAssign, ast.JoinedStr, ast.FormattedValue))


#: Changes that are tried at most, and of those that make one case right, how many on all cases.
TRIED, FULLY = 600, 12
#: The same of a program of few steps, which costs little: where one number is asked for many changes make one right.
SHORT, FULLY_IF_SHORT = 100, 40
#: Changes beside which another one may make it right as well, and be what was meant.
OPEN = ARTIFICIAL | frozenset(
    (
        *("brackets", "order-of-lines", "sides-turned", "sides", "one-step-too-many", "number", "name", "operation"),
        *("comparison", "no-sign", "condition", "adds", "replaces", "no-factor"),
        *("not-turned", "range", "or-for-and", "order-of-results", "unpack-order", "comparison-off-by-one"),
    )
)
#: Changes that hardly anybody forgot, and those that may make right by accident what fails in edge cases alone.
FAR_FETCHED = frozenset(("brackets", "order-of-lines", "sides-turned"))
BY_ACCIDENT = (
    ARTIFICIAL
    | FAR_FETCHED
    | {"sides", "one-step-too-many", "operation", "adds", "no-sign", "no-factor", "unpack-order"}
)
#: What is not named as a second change where a likelier one passes every case.
SECOND_TO_NONE = ARTIFICIAL | {"belongs-inside", "not-turned", "no-factor", "no-sign", "unpack-order", "function"}
#: What takes something away: of another change there it is not known whether it does more than that.
REMOVALS = ("one-step-too-many", "one-call-too-many", "index-too-many")
#: What all changes may cost, in steps of the program, the likeliest changes first.
STEPS = 25_000


def try_repairs(one_case: Posed, own: OwnProgram) -> Iterator[list[Tried]]:
    """The changes, the likeliest first, some at a time, each with what the program then answers in one case."""
    given = _given(one_case, own)
    numbers = [name for name, value in given.items() if type(value) in (int, float)]
    arrays = [name for name, value in given.items() if hasattr(value, "shape") and len(value.shape)]
    steps = len(own.values(one_case, 0))
    repairs = repairs_of(own.tree, numbers, arrays)[: min(TRIED, STEPS // max(steps, 1))]
    for start in range(0, len(repairs), AT_A_TIME):
        some = repairs[start : start + AT_A_TIME]
        texts = [own.text(*repair.edits) for repair in some]
        yield [Tried(*each) for each in zip(some, texts, own.calls(texts, one_case), strict=False)]


def _given(one_case: Posed, own: OwnProgram) -> dict[str, Any]:
    """The arguments, as the student calls them."""
    case, names = one_case.cases[0], [argument.arg for argument in own.tree.args.args]
    given = {**dict(zip(names, case.args, strict=False)), **case.kwargs}
    return {name: value for name, value in given.items() if name in names}


def find_repair(posed: Posed, one_case: Posed, own: OwnProgram, chance: frozenset[str] = frozenset()) -> Repair | None:
    """The likeliest change after which every case is right.

    one_case: the case that is tried first. chance: changes that may pass by accident; others are preferred.
    """
    posings = [each.part(range(len(each.cases))) for each in (posed, posed.probes) if each is not None]
    found: list[Repair] = []
    left = [FULLY_IF_SHORT if len(own.values(one_case, 0)) <= SHORT else FULLY] * 2  # for likely ones, and for chance
    for some in try_repairs(one_case, own):
        for one in some:
            left_here = left[one.repair.slug in chance]
            if left_here and one.calls and all_right(one_case, one.calls) and not _alike(found, one.repair):
                left[one.repair.slug in chance] -= 1
                if all(_passes(own, one.text, each) for each in posings):
                    found.append(one.repair)
                    likely = [repair for repair in found if repair.slug not in chance]
                    if (one.repair in likely and one.repair.slug not in OPEN) or len(likely) == 2:
                        return _either(likely)
    likely = [repair for repair in found if repair.slug not in chance] or found
    return _either(likely) if likely else None


def _alike(found: Sequence[Repair], other: Repair) -> bool:
    return any(
        repair.line == other.line and (repair.slug == other.slug or repair.words == other.words) for repair in found
    )


def _either(found: Sequence[Repair]) -> Repair:
    """The likelier of several changes, each of which passes every case, with a second one if that may be meant."""
    first, *others = sorted(found, key=lambda repair: (repair.edit.rank, repair.slug in OPEN, len(repair.edits)))
    others = [other for other in others if other.edit.rank < ODD and other.slug not in SECOND_TO_NONE]
    others = [other for other in others if not set(first.edits) <= set(other.edits)]
    if first.slug in REMOVALS:
        others = [other for other in others if other.edit.place != first.edit.place]
    if not others or first.slug not in OPEN:
        return first
    return replace(first, other=others[0])


def _passes(own: OwnProgram, text: str, posed: Posed) -> bool:
    (calls,) = own.calls([text], posed) or ([],)
    return bool(calls) and all_right(posed, calls)


def finding_of(repair: Repair) -> Finding:
    """What is said of a change that passes every case."""
    if repair.other is not None:
        text = f"Either of two changes makes every hidden case right. In line {repair.line}: {repair.words}. "
        text += f"Or else, in line {repair.other.line}: {repair.other.words}."
    elif repair.slug in OPEN:
        text = f"One change makes every hidden case right. In line {repair.line}: {repair.words}."
    else:
        text = f"In line {repair.line}: {repair.words}. "
        text += "With that changed, and all else as it is, every hidden case is right."
    return Finding(f"own-{repair.slug}", text, Certainty.REPAIR)


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
    elsewhere = bool(finding.part) and bool({finding.part, f"_{finding.part}"} & own.names)
    visible = finding.names <= own.names and not elsewhere
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
    core = posed.exercise.core
    right = [i for i, case in enumerate(posed.cases) if problems[i] is None and case.criterion == core]
    origins = (origin(posed, index, calls[index], problems[index], own, right[:LOOKED_AT]) for index in wrong)
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
