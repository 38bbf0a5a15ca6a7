"""The first step of a student's program whose numbers do not occur on the course's own way, though those before do."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...data import Call, Finding
from ...exercises.kit.records import Case
from ...worker.notes import TOO_LARGE
from ..posed import Posed
from ..relations.form import MATERIALISES
from ..relations.sizes import name_of
from ..variants.compared import listed
from ..variants.edit import called
from .flow import Flow, assigned, chooses, inputs_of, keeps, shown_of
from .mend import text_of
from .program import OwnProgram
from .traced import GOES_IN, MISPRECISE, MISSHAPES, STOPS, Traced
from .way import Way, as_array, way_of

#: What may be taken off before an exponential, whatever it is.
MAXIMA = ("max", "amax")
#: What makes an array, where a name only shows it.
STEPS = (ast.Call, ast.BinOp, ast.Subscript, ast.Attribute)
#: What makes one number, or shares, of all that it is taken of.
ALL_OF = ("mean", "sum", "nansum", "nanmean", "median", "max", "amax", "min", "amin", "softmax", "cumsum", "var", "std")
LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
#: What else is known of the numbers that come out; see `Way.kin`.
BESIDE = {"": "", "sign": ", but for the sign", "order": " in this order"}


def traced(posed: Posed, first: int, right: int | None, own: OwnProgram) -> Traced:
    """One wrong case, step by step. Nothing is found where it raises, or there is no way, or it is never left.

    right: a case that is right; what leaves the way there, too, is another way and no mistake.
    """
    call = own.noted(posed, first)
    values = call.noted if call is not None else []
    if not values or call.failure is not None or posed.exercise.plain is None:
        return Traced(len(values))
    run = Traced(len(values), noted=values, index=first)
    way = way_of(posed, first)
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    chosen = {name for name, value in assigned(own.tree) if chooses(value)}
    events = list(_events(way, nodes, chosen, values))
    if way.counts:  # a difference is rarely what is counted: most stand for places
        less = {number for number, node in nodes.items() if isinstance(getattr(node, "op", None), ast.Sub)}
        events = [(number, None if number in less else held) for number, held in events]
    contrasted: set[int] = set()
    if right is not None:
        elsewhere = _held(way_of(posed, right), own.values(posed, right))
        events = [(number, None if elsewhere.get(number) is False else held) for number, held in events]
        contrasted = {number for number, held in elsewhere.items() if held}
    arrays = {number: array for number, value in values if (array := as_array(value)) is not None}
    of_many = {number for number, array in arrays.items() if array.size > 1}
    of_many |= {number for number, value in values if isinstance(value, str) and value == TOO_LARGE}
    off = {number for number, held in events if held is False and keeps(nodes.get(number))}
    disordered = {number for number in off if way.kin(arrays[number]) == "order"}
    flow = Flow(own.tree, events, of_many, contrasted, disordered)
    found = flow.leaving()
    if found is None:
        return run
    statement = flow.statement(found)
    if statement is not None:
        said = f"behind it there is something else in {text_of(found.value)} than on the course's way"
        said += "; where the answer is right, there is not" if found.number in contrasted else ""
        words = f"Look at {text_of(statement)} in line {found.lineno} first: {said}."
        sure = found.number in contrasted
        return replace(
            run, finding=Finding("own-step", words), vouched=sure, sure=sure, number=found.number, line=found.lineno
        )
    made = (as_array(value) for number, value in values if number == found.number)
    come_out = next(array for array in made if array is not None and way.holds(array) is False)
    where = f"{text_of(found)} in line {found.lineno}"
    vouched, beside = flow.vouches_for_inputs(found), BESIDE[way.kin(come_out)]
    if vouched and isinstance(found, ast.Call) and called(found)[0] in ALL_OF:  # of a part of them something else comes
        taken = (
            arrays[each.number] for each in inputs_of(found) if getattr(each, "number", -1) in of_many & set(arrays)
        )
        vouched = all(way.holds_whole(array) for array in taken)
    if vouched:
        words = f"What goes into {where} occurs on the course's way to the result; what comes out does not{beside}. "
        words += (
            "Look there first: that step is wrong, or it takes numbers that are due elsewhere, or it is another way, "
        )
        words += "and the mistake comes behind it."
    else:
        words = f"What comes out of {where} does not occur on the course's way to the result{beside}: look at that step"
        words += f"{GOES_IN}."
    sure = vouched or not way.counts
    return replace(
        run, finding=Finding("own-step", words), vouched=vouched, sure=sure, number=found.number, line=found.lineno
    )


def traced_further(posed: Posed, found: Traced, cases: Sequence[int], right: int | None, own: OwnProgram) -> Traced:
    """The same in more wrong cases, until it is known where the way is left; found: what one case told of it.

    In a small case numbers may meet by chance, and what is wrong may not show.
    """
    for index in cases:
        if found.vouched:
            break
        other = traced(posed, index, right, own)
        elsewhere = _held(way_of(posed, index), other.noted).get(found.number, False)
        if found.finding is not None and elsewhere is not False:  # no other way, or it would be off it there, too
            found = replace(found, vouched=bool(elsewhere))
            continue
        if other.vouched or found.finding is None:
            found = other
    return found


def making(posed: Posed, index: int, own: OwnProgram) -> Finding | None:
    """The first step that makes what an answer must do without."""
    nodes, case = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}, posed.cases[index]
    if case.lines:
        return _looping(posed, index, own)
    for number, value in own.values(posed, index):
        array, node = as_array(value), nodes.get(number)
        if array is None or isinstance(node, (ast.Name, ast.Attribute)) or posed.exercise.made is None:
            continue
        text = posed.exercise.made(case, [array])
        if text and text != posed.exercise.made(case, []):  # else something is lacking, and this is not to blame
            words = f"The numbers are right, but {text}. It is {text_of(node)} in line {node.lineno}."
            return Finding(MATERIALISES, words)
    return None


def _looping(posed: Posed, index: int, own: OwnProgram) -> Finding | None:
    """The loop in which the steps are that come most often."""
    come = Counter(number for number, _ in own.values(posed, index))
    loops = [node for node in ast.walk(own.tree) if isinstance(node, LOOPS)]
    inside = {
        id(loop): max((come[getattr(each, "number", -1)] for each in ast.walk(loop)), default=0) for loop in loops
    }
    if not loops or (len(loops) > 1 and max(inside.values()) < posed.cases[index].lines):
        return None
    inner = [loop for loop in loops if inside[id(loop)] == max(inside.values())][-1]
    text = (
        f"The numbers are right, but the loop in line {inner.lineno} is run for one after the other of what is to be "
    )
    return Finding(MATERIALISES, f"{text}worked out together, by operations on whole arrays.")


def stopping(posed: Posed, index: int, own: OwnProgram) -> Finding | None:
    """The step at which a case ends with an error: what the last numbers that were noted go into."""
    call = own.noted(posed, index)
    if call is None or call.failure is None or not call.noted:
        return None
    parents = {child: parent for parent in ast.walk(own.tree) for child in ast.iter_child_nodes(parent)}
    known = {number for number, _ in call.noted}
    node = next(node for node in ast.walk(own.tree) if getattr(node, "number", -1) == call.noted[-1][0])
    while isinstance(node, (ast.expr, ast.keyword)) and (isinstance(node, ast.keyword) or node.number in known):
        node = parents.get(node)
    if not isinstance(node, (ast.BinOp, ast.Call, ast.Compare, ast.Subscript, ast.UnaryOp)):
        return None
    case = posed.cases[index]
    where = "It" if case.criterion == posed.exercise.core else f"In the case “{case.label}” it"
    return Finding(STOPS, f"{where} stops at {text_of(node)} in line {node.lineno}{_meeting(case, node, call)}.")


def misshaping(posed: Posed, index: int, calls: Sequence[Call], own: OwnProgram) -> Finding | None:
    """The first step that makes an array of the shape in which a result comes back, and in which it is not due."""
    for array, wanted in _results(posed, index, calls):
        if array.shape == wanted.shape or not array.ndim:
            continue
        for node, made in _steps(posed, index, own):
            begun = None
            if made.shape == array.shape:
                begun = node if isinstance(node, STEPS) else _given_at(own.tree, node)
            if begun is not None:
                return Finding(MISSHAPES, f"The first of this shape is {text_of(begun)} in line {begun.lineno}.")
    return None


def misprecise(posed: Posed, index: int, calls: Sequence[Call], own: OwnProgram) -> Finding | None:
    """The first step that makes floating numbers of the dtype in which a result comes back, where another is due."""
    for array, wanted in _results(posed, index, calls):
        if array.dtype.kind != "f" or array.dtype == wanted.dtype:
            continue
        for node, made in _steps(posed, index, own):
            is_step = isinstance(node, STEPS) and not isinstance(node, ast.Name)
            if is_step and made.dtype == array.dtype:
                return Finding(MISPRECISE, f"The first of this dtype is {text_of(node)} in line {node.lineno}.")
    return None


def _results(posed: Posed, index: int, calls: Sequence[Call]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What came back and what is due, of each result that is an array or a number; none where it raises."""
    count, call, due = len(posed.exercise.leaves), calls[index], posed.expected[index]
    if call.failure is None and due.failure is None:
        for one, other in zip(listed(call.value, count), listed(due.value, count), strict=False):
            array, wanted = as_array(one), as_array(other)
            if array is not None and wanted is not None:
                yield array, wanted


def _steps(posed: Posed, index: int, own: OwnProgram) -> Iterator[tuple[ast.AST | None, np.ndarray]]:
    """The steps of the program as they come, with what they make."""
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    for number, value in own.values(posed, index):
        made = as_array(value)
        if made is not None:
            yield nodes.get(number), made


def _given_at(tree: ast.FunctionDef, node: ast.AST | None) -> ast.Assign | None:
    """Where a name among several is given its value."""
    several = (
        each for each in ast.walk(tree) if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Tuple)
    )
    named = getattr(node, "id", None)
    return next((one for one in several if named in [getattr(to, "id", "") for to in one.targets[0].elts]), None)


def _meeting(case: Case, node: ast.expr, call: Call) -> str:
    """The shapes of the two sides of an operation, in the names of the sizes."""
    if not isinstance(node, ast.BinOp):
        return ""
    latest = {number: array for number, value in call.noted if (array := as_array(value)) is not None}
    sides = [latest.get(getattr(side, "number", -1)) for side in (node.left, node.right)]
    if any(side is None or not side.ndim for side in sides):
        return ""
    shapes = [_shape(case, side.shape) for side in sides]
    return f", where {text_of(node.left)} is {shapes[0]} and {text_of(node.right)} is {shapes[1]}"


def _shape(case: Case, shape: Sequence[int]) -> str:
    names = [name_of([(case, length)]) if length > 1 else "" for length in shape]
    told = [name or str(length) for name, length in zip(names, shape, strict=True)]
    return f"({', '.join(told)}{',' if len(told) == 1 else ''})"


def _events(
    way: Way, nodes: Mapping[int, ast.AST], chosen: set[str], values: Sequence[tuple[int, object]]
) -> Iterator[tuple[int, bool | None]]:
    """Each step with whether its value occurs on the way; the maximum of a part of an array need not."""
    latest: dict[int, np.ndarray] = {}
    for number, value in values:
        node, array = nodes.get(number), as_array(value)
        held = _held_at(way, node, chosen, value)
        if held is False and isinstance(node, ast.Call) and called(node)[0] == "maximum":
            held = None
        elif held is False and isinstance(node, ast.Call) and called(node)[0] in MAXIMA:
            given = [latest[each.number] for each in inputs_of(node) if getattr(each, "number", -1) in latest]
            parts = [each for each in given if each.size > array.size and way.holds(each)]
            held = None if parts and not any(way.holds_whole(each) for each in parts) else held
        yield number, held
        if array is not None:
            latest[number] = array


def _held_at(way: Way, node: ast.AST | None, chosen: set[str], value: object) -> bool | None:
    """Whether it occurs on the way; None, too, for a choice of entries, which may be another than is due."""
    held = _holds(way, value)
    if held is False and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return way.kin(as_array(value)) == "sign"  # what follows may take it off again
    of = shown_of(node)
    if held and (chooses(of) or getattr(of, "id", None) in chosen):
        array = as_array(value)
        return True if array.size < 2 or way.holds_whole(array) else None
    return held


def _holds(way: Way, value: object) -> bool | None:
    array = as_array(value)
    return way.holds(array) if array is not None else None


def _held(way: Way, values: Sequence[tuple[int, object]]) -> dict[int, bool | None]:
    """Step -> whether its values occur on the way: False if one does not, None if none says anything."""
    held: dict[int, bool | None] = {}
    for number, value in values:
        now = _holds(way, value)
        if held.get(number) is not False and now is not None:
            held[number] = now
        held.setdefault(number, now)
    return held
