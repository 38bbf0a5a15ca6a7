"""How numbers go from step to step in a student's program, and at which they leave the course's own way."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..variants.edit import called

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
#: What takes some entries of an array.
CHOICES = ("gather", "index_select", "take_along_dim", "take_along_axis", "masked_select", "take", "compress")
#: What names entries in an index, as a slice does not.
PLACES = (ast.Name, ast.UnaryOp, ast.Call, ast.Compare, ast.BinOp, ast.Constant)
UNWRITTEN = ("empty", "empty_like", "new_empty")
#: Operations that may be done in any order: a part of a chain of them is no step of its own.
CHAINS = ((ast.Mult, ast.Div), (ast.Add, ast.Sub))
#: What shows an array with its axes in another order, or with more of them.
TURNS = ("transpose", "permute", "swapaxes", "unsqueeze", "contiguous", "expand", "broadcast_to")
#: What is asked of an array that does not hang on its numbers.
OF_FORM = ("shape", "ndim", "dtype", "device", "size", "numel", "dim", "len")
#: What makes an array like another one, of other numbers.
LIKE = ("zeros_like", "ones_like", "empty_like", "full_like", "new_zeros", "new_ones", "new_full", "new_empty")


class Flow:
    """A program with what was seen while it ran.

    events: (step, whether its value occurs on the way) in the order in which they came; None where nothing is known.
    of_many: the steps that make more than one number. contrasted: the steps that hold numbers of the way where the
    answer is right. disordered: those that hold numbers of the way in another order.
    """

    def __init__(
        self,
        tree: ast.FunctionDef,
        events: Sequence[tuple[int, bool | None]],
        of_many: set[int],
        contrasted: set[int],
        disordered: set[int],
    ) -> None:
        self._tree, self._events, self._of_many = tree, events, of_many
        self._contrasted, self._disordered = contrasted, disordered
        self._parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        self._nodes = {getattr(node, "number", -1): node for node in ast.walk(tree)}
        self._assigned = list(assigned(tree))
        places = (
            node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        )
        self._filled = {place.value.id for place in places if isinstance(place.value, ast.Name)}
        self._now: dict[int, bool | None] = {}
        self._may_join, self._may_write = True, False
        self._always = {number for number, held in events if held} - {n for n, held in events if held is False}

    def leaving(self) -> ast.expr | None:
        """The first step that leaves the way and does not come back to it; where there is none, one that joins, or one
        that writes into what was on the way."""
        found = self._first()
        if found is None:
            self._now, self._may_join = {}, False
            found = self._first()
        if found is None:
            self._now, self._may_join, self._may_write = {}, True, True
            found = self._first()
        return found

    def _first(self) -> ast.expr | None:
        for number, held in self._events:
            self._now[number] = held
            node = self._nodes.get(number)
            makes = isinstance(node, ast.expr) and not isinstance(node, ast.Name) and not self._is_in_a_chain(node)
            gives_form = node in self._parents and _asks_for_form(self._parents[node])
            if held is False and makes and not gives_form and self._uses(node) and self._leaves(node):
                return node
        return None

    def statement(self, node: ast.expr) -> ast.stmt | None:
        """The assignment that writes into an array, where a step is one."""
        above = self._parents.get(node)
        writes = isinstance(getattr(node, "ctx", None), ast.Store) and isinstance(above, (ast.Assign, ast.AugAssign))
        return above if writes else None

    def vouches_for_inputs(self, node: ast.expr) -> bool:
        """Is it known of every array that goes into a step that it occurs on the way?"""
        inputs = [each for each in self._inputs(node) if not isinstance(each, ast.Constant)]
        if not self._may_join:
            return False
        return any(True in self._state(each) for each in inputs) and not any(self._is_unclear(each) for each in inputs)

    def _leaves(self, node: ast.expr) -> bool:
        goes_off = self._is_off(node) and not any(self._is_off(each) for each in self._inputs(node))
        if self.statement(node) is not None and node.number not in self._contrasted:
            # half filled, it need not be like anything
            return self._may_write and goes_off and not self._comes_back(node)
        return goes_off and not self._comes_back(node)

    def _is_unclear(self, node: ast.expr) -> bool:
        number = getattr(node, "number", -1)
        if isinstance(node, ast.Name) and self._now.get(number) is False:
            value = self._value_of(node)
            return value is not None and self._is_unclear(value)
        return self._now.get(number, True) is None and number in self._of_many

    def _uses(self, node: ast.expr) -> bool:
        """Does anything that was worked out go in? A constant, and memory not yet written to, say nothing."""
        if isinstance(node, ast.Call) and called(node)[0] in UNWRITTEN:
            return False
        if isinstance(node, ast.Call) and called(node)[0] in JOINS:
            return True
        return any(getattr(each, "number", -1) in self._now for each in self._all_inputs(node))

    def _is_in_a_chain(self, node: ast.expr) -> bool:
        above = self._parents.get(node)
        if not isinstance(node, ast.BinOp) or not isinstance(above, ast.BinOp) or above.left is not node:
            return False  # what stands in brackets is a step to whoever wrote it
        return any(isinstance(node.op, kind) and isinstance(above.op, kind) for kind in CHAINS)

    def _state(self, node: ast.expr) -> set[bool | None]:
        if self._is_in_a_chain(node):
            return set().union(*(self._state(each) for each in self._inputs(node)))
        held = self._now.get(getattr(node, "number", -1))
        if not any(isinstance(each, ast.Name) for each in ast.walk(node)):
            return {None}  # a number that is written down
        if _asks_for_form(node):
            return {None}
        if held is False and self._is_begun(node) and not any(self._is_off(each) for each in self._inputs(node)):
            return {None}
        if isinstance(node, ast.Name) and held is False and (value := self._value_of(node)) is not None:
            return self._state(value)
        if getattr(node, "number", -1) in self._now:
            return {held}
        return set().union(*(self._state(each) for each in self._inputs(node)), {None})

    def _is_begun(self, node: ast.expr) -> bool:
        """May it lead back to the way, though it is not on it? What is right may be kept together, and apart there; a
        block of it, or a square, need not occur by itself."""
        if not self._may_join and isinstance(node, ast.Call) and called(node)[0] in JOINS:
            return False
        return (keeps(node) and node.number not in self._disordered) or _is_a_part(node) or _is_a_square(node)

    def _value_of(self, node: ast.Name) -> ast.expr | None:
        """What a name stands for that is given a value in one place alone."""
        given = [value for name, value in self._assigned if name == node.id]
        return given[0] if len(given) == 1 and node.id not in self._filled else None

    def _is_off(self, node: ast.expr) -> bool:
        return False in self._state(node)

    def _comes_back(self, node: ast.expr) -> bool:
        """Does a step that uses its value hold numbers of the way again? Then it was another way there."""
        return any(step.number in self._always and self._makes(step) for step in self._later(node))

    def _makes(self, node: ast.expr) -> bool:
        """Is it a step of its own, or one of several results, which are no step's?"""
        return not isinstance(node, ast.Name) or (node.id, None) in self._assigned

    def _later(self, node: ast.expr) -> Iterator[ast.expr]:
        """The steps that its numbers go into."""
        waiting: list[ast.AST] = [node]
        names: set[str] = set()
        met: set[ast.AST] = set()
        while waiting:
            below = waiting.pop()
            if below in met:  # a function may call itself
                continue
            met.add(below)
            above = self._parents.get(below)
            if isinstance(above, ast.Tuple) and isinstance(self._parents.get(above), ast.Assign):
                above = self._parents[above]
            if isinstance(above, ast.Return):
                waiting += self._calls_of(above)
            elif isinstance(above, ast.stmt):
                for name in _written(above, below) - names:
                    names.add(name)
                    loads = (each for each in ast.walk(self._tree) if isinstance(each, ast.Name) and each.id == name)
                    waiting += [each for each in loads if isinstance(each.ctx, ast.Load) and self._follows(each, above)]
            elif above is not None and not _asks_for_form(above):
                waiting.append(above)
            if isinstance(below, ast.expr) and below is not node:
                yield below

    def _calls_of(self, statement: ast.Return) -> list[ast.expr]:
        """Where a function within the program is called that ends in a statement."""
        above: ast.AST | None = statement
        while above is not None and not isinstance(above, ast.FunctionDef):
            above = self._parents.get(above)
        calls = (each for each in ast.walk(self._tree) if isinstance(each, ast.Call))
        return [each for each in calls if above is not self._tree and called(each)[0] == getattr(above, "name", None)]

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

    def _all_inputs(self, node: ast.expr) -> Iterator[ast.expr]:
        for each in self._inputs(node):
            yield each
            yield from self._all_inputs(each)

    def _inputs(self, node: ast.expr) -> Iterator[ast.expr]:
        """What goes into a step."""
        statement = self.statement(node)
        if statement is not None:
            yield statement.value
        yield from inputs_of(node)


def inputs_of(node: ast.expr) -> Iterator[ast.expr]:
    """The pieces of a step whose values go into it: of a call its arguments, and what it is a method of."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(node, ast.Call) and child is node.func:
            if isinstance(child, ast.Attribute):
                yield child.value
        elif isinstance(child, ast.expr):
            yield child


def _is_a_part(node: ast.expr) -> bool:
    """Is it a block of neighbours, or a single one, as in K[:, start:stop] and Q[i]?"""
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
        return False
    places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return not any(isinstance(place, ast.Slice) and place.step is not None for place in places)


def chooses(node: ast.AST | None) -> bool:
    """Does it take entries by a mask or by their numbers, as in x[mask] and x[order]?"""
    if isinstance(node, ast.Call):
        return called(node)[0] in CHOICES
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
        return False
    places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(isinstance(place, PLACES) and getattr(place, "value", 0) is not None for place in places)


def shown_of(node: ast.AST | None) -> ast.AST | None:
    """What is shown in another form: K in K.T, and in K.transpose(0, 1)."""
    while True:
        if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TURNS:
            node = node.func.value
        else:
            return node


def keeps(node: ast.AST | None) -> bool:
    """Does it put arrays together, or show them in another form, without changing a number?"""
    return isinstance(node, ast.Call) and called(node)[0] in (*JOINS, *VIEWS, *UNWRITTEN)


def _is_a_square(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return isinstance(node.right, ast.Constant) and node.right.value == 2
    return isinstance(node, ast.Call) and called(node)[0] == "square"


def assigned(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """(name, value) of each place that gives a name a value; None for what is no plain assignment."""
    plain: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,), value = node.targets, node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                pairs = list(zip(target.elts, value.elts, strict=True))
            for one, given in pairs:
                if isinstance(one, ast.Name):
                    plain.add(one)
                    yield one.id, given
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in plain:
            yield node.id, None
        elif isinstance(node, ast.arg):
            yield node.arg, None


def only_compared(tree: ast.FunctionDef) -> set[ast.expr]:
    """Values that are compared and do nothing else: another number there may turn what is decided, by accident."""
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    sides = {each for test in tests for each in (test.left, *test.comparators)}
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    elsewhere = {node.id for node in loads if node not in sides}
    return sides | {value for name, value in assigned(tree) if value is not None and name not in elsewhere}


def _asks_for_form(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return called(node)[0] in (*OF_FORM, *LIKE)
    return isinstance(node, ast.Attribute) and node.attr in (*OF_FORM, *LIKE)


def _written(statement: ast.stmt, value: ast.AST) -> set[str]:
    """The names that a statement gives a value that it holds, or writes it into."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    holder = getattr(statement, "value", None)
    pairs = isinstance(holder, ast.Tuple) and value in holder.elts and isinstance(targets[0], ast.Tuple)
    if pairs and len(targets[0].elts) == len(holder.elts):
        targets = [targets[0].elts[holder.elts.index(value)]]
    return {name for target in targets if target is not None for name in _names_of(target)}


def _names_of(target: ast.expr) -> Iterator[str]:
    """What is written, and not the places at which."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _names_of(each)
    elif isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        yield from _names_of(target.value)
    elif isinstance(target, ast.Name):
        yield target.id
