"""The first step of a student's program whose numbers do not occur on the course's own way, though those before do."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...data import Call, Finding
from ...worker.values import leaves
from ..posed import Posed
from ..variants.edit import called
from .mend import text_of
from .noting import noted
from .program import OwnProgram
from .way import Way, as_array, way_of

#: What puts arrays together, what shows them in another form, and what makes arrays to be written into.
JOINS = ("stack", "cat", "concat", "concatenate", "hstack", "vstack", "column_stack", "dstack", "block")
VIEWS = (
    "expand",
    "expand_as",
    "broadcast_to",
    "repeat",
    "tile",
    "repeat_interleave",
    "diagonal",
    "diag",
    "astype",
    "clone",
    "copy",
    "tensor",
    "asarray",
)
UNWRITTEN = ("empty", "empty_like", "new_empty")
#: Operations that may be done in any order: a part of a chain of them is no step of its own.
CHAINS = ((ast.Mult, ast.Div), (ast.Add, ast.Sub))
STOPS = "stops-there"
#: What else is known of the numbers that come out; see `Way.kin`.
BESIDE = {"": "", "sign": ", but for the sign", "order": " in this order"}


@dataclass(frozen=True)
class Traced:
    """One case run through with its steps noted. steps: how many there were; finding: where it leaves the way.

    sure: whether it is known of what goes in there that it occurs on the way, or numbers that are no counts are due.
    """

    steps: int
    finding: Finding | None = None
    sure: bool = True


def traced(posed: Posed, first: int, right: int | None, own: OwnProgram) -> Traced:
    """One wrong case, step by step. Nothing is found where it raises, or there is no way, or it is never left.

    right: a case that is right; what leaves the way there, too, is another way and no mistake.
    """
    call = _run(posed, first, own)
    values = call.noted if call is not None else []
    if not values or call.failure is not None or posed.exercise.plain is None:
        return Traced(len(values))
    way = way_of(posed, first)
    held = _held(way, values)
    if right is not None:
        elsewhere = _held(way_of(posed, right), _values(posed, right, own))
        held = {number: None if elsewhere.get(number) is False else now for number, now in held.items()}
    arrays = {number: array for number, value in values if (array := as_array(value)) is not None}
    program = _Steps(own.tree, held, {number for number, array in arrays.items() if array.size > 1})
    found = program.leaving()
    if found is None:
        return Traced(len(values))
    made = (as_array(value) for number, value in values if number == found.number)
    come_out = next(array for array in made if array is not None and way.holds(array) is False)
    look = f"Look at {text_of(found)} in line {found.lineno} first"
    vouched = program.vouches_for_inputs(found)
    if vouched:
        said = "the numbers that go in there occur on the course's way to the result, too; those that come out do not"
    else:
        look += ", and at what goes into it"
        said = "what comes out does not occur on the course's way to the result"
    words = f"{look}: {said}{BESIDE[way.kin(come_out)]}."
    return Traced(len(values), Finding("own-step", words), sure=vouched or not way.counts)


def making(posed: Posed, index: int, own: OwnProgram) -> Finding | None:
    """The first step that makes what an answer must do without."""
    nodes, case = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}, posed.cases[index]
    for number, value in _values(posed, index, own):
        array, node = as_array(value), nodes.get(number)
        if array is None or isinstance(node, (ast.Name, ast.Attribute)) or posed.exercise.made is None:
            continue
        text = posed.exercise.made(case, [array])
        if text:
            words = f"The numbers are right, but {text}. It is {text_of(node)} in line {node.lineno}."
            return Finding("materialises", words)
    return None


def first_nan(posed: Posed, index: int, own: OwnProgram) -> Finding | None:
    """The first step that makes NaN of numbers."""
    values, case = _values(posed, index, own), posed.cases[index]
    if any(_has_nan(value) for value in leaves((case.args, case.kwargs))):
        return None
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    number = next((number for number, value in values if _has_nan(value)), None)
    node = nodes.get(number)
    if not isinstance(node, ast.expr) or isinstance(node, (ast.Name, ast.Attribute)):
        return None
    text = f"In the case “{case.label}” NaN comes from {text_of(node)} in line {node.lineno}; before, there is none."
    return Finding("nan", text)


def stopping(posed: Posed, index: int, own: OwnProgram) -> Finding | None:
    """The step at which a case ends with an error: what the last numbers that were noted go into."""
    call = _run(posed, index, own)
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
    return Finding(STOPS, f"{where} stops at {text_of(node)} in line {node.lineno}.")


def _has_nan(value: object) -> bool:
    array = as_array(value)
    return array is not None and array.dtype.kind == "f" and bool(np.isnan(array).any())


def _run(posed: Posed, index: int, own: OwnProgram) -> Call | None:
    """One case, with what each step makes in the order in which they run."""
    (calls,) = own.calls([own.text_of(noted(own.tree))], posed.part([index])) or ([],)
    return calls[0] if calls else None


def _values(posed: Posed, index: int, own: OwnProgram) -> Sequence[tuple[int, object]]:
    call = _run(posed, index, own)
    return call.noted if call is not None else []


def _held(way: Way, values: Sequence[tuple[int, object]]) -> dict[int, bool | None]:
    """Step -> whether its values occur on the way: False if one does not, None if none says anything."""
    held: dict[int, bool | None] = {}
    for number, value in values:
        array = as_array(value)
        now = way.holds(array) if array is not None else None
        if number not in held or now is False or held[number] is None:
            held[number] = now if held.get(number) is not False else False
    return held


class _Steps:
    """A program with what is known of its steps. of_many: those that make more than one number."""

    def __init__(self, tree: ast.FunctionDef, held: dict[int, bool | None], of_many: set[int]) -> None:
        self._tree, self._held, self._of_many = tree, held, of_many
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}

    def leaving(self) -> ast.expr | None:
        """The first step that leaves the way and does not come back to it."""
        nodes = {getattr(node, "number", -1): node for node in ast.walk(self._tree)}
        for number, held in self._held.items():
            node = nodes.get(number)
            makes = isinstance(node, ast.expr) and not isinstance(node, ast.Name) and not self._is_in_a_chain(node)
            if held is False and makes and self._uses(node) and self._leaves(node):
                return node
        return None

    def _leaves(self, node: ast.expr) -> bool:
        goes_off = self._is_off(node) and not any(self._is_off(each) for each in _inputs(node))
        return goes_off and not self._comes_back(node)

    def vouches_for_inputs(self, node: ast.expr) -> bool:
        """Is it known of every array that goes into a step that it occurs on the way?"""
        inputs = [each for each in _inputs(node) if not isinstance(each, ast.Constant)]
        return any(True in self._state(each) for each in inputs) and not any(self._is_unclear(each) for each in inputs)

    def _is_unclear(self, node: ast.expr) -> bool:
        number = getattr(node, "number", -1)
        return self._held.get(number, True) is None and number in self._of_many

    def _uses(self, node: ast.expr) -> bool:
        """Does anything that was worked out go in? A constant, and memory not yet written to, say nothing."""
        if isinstance(node, ast.Call) and called(node)[0] in UNWRITTEN:
            return False
        return any(getattr(each, "number", -1) in self._held for each in _all_inputs(node))

    def _is_in_a_chain(self, node: ast.expr) -> bool:
        above = self._parents.get(node)
        if not isinstance(node, ast.BinOp) or not isinstance(above, ast.BinOp) or above.left is not node:
            return False  # what stands in brackets is a step to whoever wrote it
        return any(isinstance(node.op, kind) and isinstance(above.op, kind) for kind in CHAINS)

    def _state(self, node: ast.expr) -> set[bool | None]:
        if self._is_in_a_chain(node):
            return set().union(*(self._state(each) for each in _inputs(node)))
        held = self._held.get(getattr(node, "number", -1))
        keeps = isinstance(node, ast.Call) and called(node)[0] in (*JOINS, *VIEWS, *UNWRITTEN)
        if held is False and keeps and not any(self._is_off(each) for each in _inputs(node)):
            return {None}  # what is right may be kept together, and apart on the course's way
        if held is False and _is_a_part(node) and not self._is_off(node.value):
            return {None}  # a block of what is held need not occur by itself
        if getattr(node, "number", -1) in self._held:
            return {held}
        return set().union(*(self._state(each) for each in _inputs(node)), {None})

    def _is_off(self, node: ast.expr) -> bool:
        return False in self._state(node)

    def _comes_back(self, node: ast.expr) -> bool:
        """Does a step that uses its value hold numbers of the way again? Then it was another way there."""
        return any(self._held.get(step.number) is True and not isinstance(step, ast.Name) for step in self._later(node))

    def _later(self, node: ast.expr) -> Iterator[ast.expr]:
        waiting: list[ast.AST] = [node]
        names: set[str] = set()
        while waiting:
            above = self._parents.get(waiting.pop())
            if isinstance(above, ast.stmt):
                for name in _written(above) - names:
                    names.add(name)
                    loads = (each for each in ast.walk(self._tree) if isinstance(each, ast.Name) and each.id == name)
                    waiting += [each for each in loads if isinstance(each.ctx, ast.Load) and self._follows(each, above)]
            elif above is not None:
                if isinstance(above, ast.expr):
                    yield above
                waiting.append(above)

    def _follows(self, node: ast.expr, statement: ast.stmt) -> bool:
        """May it run after a statement: further below, or in a loop about both?"""
        if node.lineno > statement.end_lineno:
            return True
        above = statement
        while above in self._parents:
            above = self._parents[above]
            if isinstance(above, (ast.For, ast.While)) and above.lineno <= node.lineno <= above.end_lineno:
                return True
        return False


def _is_a_part(node: ast.expr) -> bool:
    """Is it a block of neighbours, or a single one, as in K[:, start:stop] and Q[i]?"""
    if not isinstance(node, ast.Subscript):
        return False
    places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return not any(isinstance(place, ast.Slice) and place.step is not None for place in places)


def _written(statement: ast.stmt) -> set[str]:
    """The names that a statement gives a value, or writes into."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {
        each.id for target in targets if target is not None for each in ast.walk(target) if isinstance(each, ast.Name)
    }


def _all_inputs(node: ast.expr) -> Iterator[ast.expr]:
    for each in _inputs(node):
        yield each
        yield from _all_inputs(each)


def _inputs(node: ast.expr) -> Iterator[ast.expr]:
    """What goes into a step."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(node, ast.Call) and child is node.func:
            if isinstance(child, ast.Attribute):
                yield child.value
        elif isinstance(child, ast.expr):
            yield child
