"""What a student's program does in the cases that are wrong, and in none that is right."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...data import Finding
from ...exercises.kit.records import Case
from ...worker.notes import TIMES_WHOLE
from ..posed import Posed
from ..variants.edit import called
from .flow import inputs_of
from .mend import text_of
from .program import OwnProgram
from .traced import RAISES
from .way import as_array

#: What leaves most numbers as they are.
ACTS = ("clip", "clamp", "clamp_min", "clamp_max", "nan_to_num", "maximum", "minimum", "fmax", "fmin", "round")
#: What makes one number of a row.
REDUCES = ("max", "amax", "min", "amin")
#: A branch of more statements is no place to look at.
LONGEST = 2
#: What is seen in so many of the cases that are right, too, may still be what is wrong in others.
FEW = 0.25
#: What is seen in more than this share of the wrong cases, and in none that is right, is told of most.
MOST = 0.6
#: Where more than so many cases are wrong for each that is right, the right ones are odd, and tell nothing.
MANY = 2

Values = Sequence[tuple[int, object]]


def set_apart(posed: Posed, wrong: Sequence[int], fine: Sequence[int], own: OwnProgram) -> Finding | None:
    """A branch that is entered, or a step that acts, loses a rest or an axis, wherever it is wrong and nowhere else.

    wrong, fine: cases that are wrong, and all that are right, without those that ask for an error.
    """
    wrong, fine = ([index for index in some if not posed.cases[index].watch] for some in (wrong, fine))
    if not wrong or MANY * len(fine) < len(wrong):
        return None
    bad, good = ([own.values(posed, index) for index in some] for some in (wrong, fine))
    if not all(bad) or not all(good):
        return None
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    finders = (
        lambda: _branch(own.tree, bad, good),
        lambda: _acting(nodes, bad, good),
        lambda: _rest(nodes, bad, good),
        lambda: _axes(nodes, bad, good, posed.cases[wrong[0]]),
    )
    return next((finding for find in finders if (finding := find()) is not None), None)


def raising(posed: Posed, wrong: Sequence[int], own: OwnProgram) -> Finding | None:
    """The condition at which the program raises an error itself, in all that is wrong.

    wrong: cases in which no error is asked for.
    """
    for node in ast.walk(own.tree):
        raises = isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)
        if raises and wrong and all(True in _truths(own.values(posed, index), node.test) for index in wrong):
            where = f"in line {node.body[0].lineno}, where {text_of(node.test)} holds"
            return Finding(RAISES, f"It is raised {where}, and none is due there.")
    return None


def _branch(tree: ast.FunctionDef, bad: Sequence[Values], good: Sequence[Values]) -> Finding | None:
    for node in ast.walk(tree):
        if not isinstance(node, (ast.If, ast.IfExp)):
            continue
        there, elsewhere = ([_truths(values, node.test) for values in some] for some in (bad, good))
        if not all(there) or not any(elsewhere):
            continue
        for truth, body in ((True, node.body), (False, node.orelse)):
            among = _among_right([truth in each for each in elsewhere])
            told = _words(node, body, truth) if all(truth in each for each in there) and among and body else ""
            if told:
                return Finding("own-branch", f"{told} in every case that is wrong, and {among}: look there first.")
    return None


def _among_right(seen: Sequence[bool]) -> str:
    """In how many of the cases that are right, if in few."""
    if sum(seen) > FEW * len(seen):
        return ""
    return "in few that are right" if any(seen) else "in none that is right"


def _words(node: ast.If | ast.IfExp, body: ast.expr | list[ast.stmt], truth: bool) -> str:
    some = body if isinstance(body, list) else [body]
    if len(some) > LONGEST or any(isinstance(each, (ast.Raise, ast.Pass, ast.Continue)) for each in some):
        return ""
    when = "holds" if truth else "does not hold"
    what = " and ".join(text_of(each) for each in some)
    done = "are run" if len(some) > 1 else "is run" if isinstance(some[0], ast.stmt) else "is taken"
    return f"{what} in line {some[0].lineno}, where {text_of(node.test)} {when}, {done}"


def _truths(values: Values, test: ast.expr) -> set[bool]:
    arrays = [as_array(value) for number, value in values if number == getattr(test, "number", -1)]
    if len(arrays) >= TIMES_WHOLE:  # more may have come
        return {True, False}
    return {bool(array.any()) for array in arrays if array is not None}


def _acting(nodes: Mapping[int, ast.AST], bad: Sequence[Values], good: Sequence[Values]) -> Finding | None:
    """A step that changes numbers there alone."""
    running = _running(nodes.values())
    for number, node in nodes.items():
        if not isinstance(node, ast.Call) or called(node)[0] not in ACTS or number in running or _guards(node):
            continue
        there, elsewhere = ([_changes(values, number, node) for values in some] for some in (bad, good))
        among = _among_right([bool(each) for each in elsewhere])
        most = sum(map(bool, there)) > MOST * len(there) and not any(elsewhere)
        if (all(there) or most) and among and any(each is False for each in elsewhere):
            which = "every case that is wrong" if all(there) else "most cases that are wrong"
            said = f"changes numbers in {which}, and {among}"
            return Finding("own-acts", f"{text_of(node)} in line {node.lineno} {said}.")
    return None


def _changes(values: Values, number: int, node: ast.Call) -> bool | None:
    """Is what comes out other than what goes in? None where it is not known."""
    given = [getattr(each, "number", -1) for each in inputs_of(node)]
    latest: dict[int, np.ndarray] = {}
    found: bool | None = None
    for at, value in values:
        array = as_array(value)
        if at == number and array is not None:
            inputs = [latest[each] for each in given if each in latest and latest[each].shape == array.shape]
            if inputs and array.size > 1:
                found = bool(found) or not any(_is_kept(each, array) for each in inputs)
        if array is not None:
            latest[at] = array
    return found


def _is_kept(given: np.ndarray, made: np.ndarray) -> bool:
    """Is it the same, but for zeros that are nothing to divide by?"""
    other = (given != made) & ~(np.isnan(given) & np.isnan(made))
    return not (other & (given != 0)).any()


def _running(nodes: Iterable[ast.AST]) -> set[int]:
    """The steps that hold a largest number so far against new ones: they change numbers wherever there are more."""
    maxima = [node for node in nodes if isinstance(node, ast.Call) and len(node.args) == 2]
    looped = {each for node in nodes if isinstance(node, (ast.For, ast.While)) for each in ast.walk(node)}
    of_rows = {node for node in maxima if any(called(each)[0] in REDUCES for each in node.args if _is_call(each))}
    return {node.number for node in looped & {*maxima} | of_rows if called(node)[0] in ("maximum", "minimum")}


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


def _guards(node: ast.Call) -> bool:
    """Does it keep a number from being too small to be divided by? What is lost there was lost before."""
    return any(getattr(each, "attr", getattr(each, "id", "")) in ("finfo", "tiny") for each in ast.walk(node))


def _rest(nodes: Mapping[int, ast.AST], bad: Sequence[Values], good: Sequence[Values]) -> Finding | None:
    """A division of whole numbers that leaves a rest there alone."""
    for node in nodes.values():
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
            continue
        there, elsewhere = ([_leaves_a_rest(values, node) for values in some] for some in (bad, good))
        among = _among_right([bool(each) for each in elsewhere])
        if all(there) and among and any(each is False for each in elsewhere):
            said = f"leaves a rest, which is lost, in every case that is wrong, and {among}"
            return Finding("own-rest", f"{text_of(node)} in line {node.lineno} {said}.")
    return None


def _leaves_a_rest(values: Values, node: ast.BinOp) -> bool | None:
    """None where it is not known."""
    latest = {number: array for number, value in values if (array := as_array(value)) is not None and array.size == 1}
    above, below = (
        as_array(side.value) if isinstance(side, ast.Constant) else latest.get(getattr(side, "number", -1))
        for side in (node.left, node.right)
    )
    if above is None or below is None or not below.any():
        return None
    return bool((above % below).any())


def _axes(nodes: Mapping[int, ast.AST], bad: Sequence[Values], good: Sequence[Values], case: Case) -> Finding | None:
    """The first step that has another number of axes there than wherever it is right."""
    usual = [_axes_of(values) for values in good]
    for number, _ in bad[0]:
        node = nodes.get(number)
        elsewhere = {count for each in usual for count in each.get(number, ())}
        odd = _axes_of(bad[0]).get(number, set()) - elsewhere
        if len(elsewhere) != 1 or not odd or not all(_has_odd_axes(values, usual) for values in bad):
            continue
        if not isinstance(node, ast.Call):
            return None
        (count,) = elsewhere
        there = f"has {_counted(max(odd))} in the case “{case.label}”"
        return Finding(
            "own-axes", f"{text_of(node)} in line {node.lineno} {there}, and {_counted(count)} where it is right."
        )
    return None


def _has_odd_axes(values: Values, usual: Sequence[Mapping[int, set[int]]]) -> bool:
    """Has any of its steps another number of axes than wherever it is right?"""
    known = {number: {count for each in usual for count in each.get(number, ())} for number, _ in values}
    return any(len(known[number]) == 1 and counts - known[number] for number, counts in _axes_of(values).items())


def _counted(axes: int) -> str:
    return f"{axes} axis" if axes == 1 else f"{axes or 'no'} axes"


def _axes_of(values: Values) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for number, value in values:
        array = as_array(value)
        if array is not None:
            found.setdefault(number, set()).add(array.ndim)
    return found
