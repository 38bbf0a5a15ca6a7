"""Makes the changes of statements: a condition, an extra line, an order, a returned value or an argument."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from copy import copy, deepcopy
from typing import Any

from .change_expressions import of_result
from .program_edit import (
    LIKELY,
    MODEL,
    ODD,
    POSSIBLE,
    TOGETHER,
    Edit,
    Parents,
    Program,
    attribute,
    bound_at,
    edit,
)

#: Methods that write into a dictionary or a list.
FILLS = ("append", "extend", "insert", "setdefault", "update")
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
#: How far a line is moved at most.
FARTHEST = TOGETHER


def of_condition(node: ast.IfExp | ast.If) -> Iterator[Edit]:
    """Invert a condition, or make it always true or always false."""
    turned = ast.UnaryOp(ast.Not(), node.test)
    for test, detail in ((turned, "inverted"), (ast.Constant(True), "always"), (ast.Constant(False), "never")):
        new = deepcopy(node)
        new.test = test
        kind, group = "condition", detail
        if detail != "inverted" and _asks_for_sizes(node.test):
            kind, detail = "decided-by-sizes", "decided-by-sizes"
        argument = _tested_for_none(node.test)
        if argument and detail != "inverted":
            missing = isinstance(node.test.ops[0], ast.Is) == (detail == "always")
            detail = "argument-ignored" if missing else "argument-given"
        yield edit(node, new, kind, (LIKELY, LIKELY), detail, group, test=node.test, argument=argument)


def _tested_for_none(test: ast.expr) -> str:
    """The argument that is tested for None, or ""."""
    of_name = isinstance(test, ast.Compare) and isinstance(test.left, ast.Name)
    return test.left.id if of_name and ast.unparse(test.comparators[0]) == "None" else ""


def _asks_for_sizes(test: ast.expr) -> bool:
    """Whether it compares the sizes of arrays with one another."""
    sides = (test.left, *test.comparators) if isinstance(test, ast.Compare) else ()
    asked = (node for side in sides for node in ast.walk(side) if isinstance(node, ast.Attribute))
    return any(node.attr in ("shape", "ndim") for node in asked) and not any(
        isinstance(side, ast.Constant) for side in sides
    )


def of_return(node: ast.Return, program: Program) -> Iterator[Edit]:
    """Return the results in another order, or another result."""
    if node.value is None:
        return
    parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    for order in _exchanged(parts):
        new = ast.Tuple(order, ast.Load())
        yield edit(node.value, new, "order-of-results", (None, LIKELY), line=node.lineno, whole=node)
    known = bound_at(node, program.parents)
    if len(parts) == 1:
        for name in program.names:
            if name in known and ast.unparse(node.value) != name:
                new = ast.Name(name, ast.Load())
                yield edit(node.value, new, "returned", (None, LIKELY), line=node.lineno, whole=node)


def _exchanged(parts: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """Yield the parts with two of them swapped."""
    for first, second in itertools.combinations(range(min(len(parts), 4)), 2):
        order = list(parts)
        order[first], order[second] = order[second], order[first]
        yield order


def of_assignment(node: ast.stmt, program: Program, writes: bool) -> Iterator[Edit]:
    """Change what a line computes and where it is stored.

    writes: whether the program writes into arrays; a stored array may then have to be copied.
    """
    value = node.value
    if not isinstance(node, ast.Expr):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        yield from _of_target(node, target, program.parents)
    else:
        target = value
    if program.whose == MODEL:
        yield from of_result(value, target, program)
    if writes and isinstance(node, ast.Assign) and isinstance(value, (ast.Name, ast.Subscript, ast.Call)):
        for copy_of in ("copy", "clone"):
            kept = ast.Call(attribute(value, copy_of), [], [])
            yield edit(value, kept, "not-kept-apart", (None, LIKELY), whole=node)


def _of_target(node: ast.Assign | ast.AugAssign, target: ast.expr, parents: Parents) -> Iterator[Edit]:
    if isinstance(node, ast.AugAssign):
        new = ast.Assign([target], node.value, lineno=node.lineno)
        yield edit(node, new, "replaces", (LIKELY, LIKELY), target=target)
        for other in ARITHMETIC:
            if other is not type(node.op):
                yield edit(node, ast.AugAssign(target, other(), node.value), "operation", (POSSIBLE, LIKELY))
    elif isinstance(target, (ast.Name, ast.Subscript)) and len(node.targets) == 1:
        rank = LIKELY if _is_overwritten(node, parents) else POSSIBLE
        for other in (ast.Add, ast.Mult):
            yield edit(node, ast.AugAssign(target, other(), node.value), "adds", (None, rank))
    elif isinstance(target, ast.Tuple):
        for order in _exchanged(target.elts):
            yield edit(target, ast.Tuple(order, ast.Store()), "unpack-order", (None, LIKELY), whole=node)


def _is_overwritten(node: ast.Assign, parents: Parents) -> bool:
    """Whether each round of the surrounding loop writes to the same place."""
    above = parents.get(node)
    while above is not None and not isinstance(above, (ast.For, ast.FunctionDef)):
        above = parents.get(above)
    if not isinstance(above, ast.For) or not isinstance(node.targets[0], ast.Subscript):
        return False
    turns = {each.id for each in ast.walk(above.target) if isinstance(each, ast.Name)}
    return not any(isinstance(each, ast.Name) and each.id in turns for each in ast.walk(node.targets[0]))


def of_what_stays(tree: ast.FunctionDef) -> Iterator[Edit]:
    """Create inside the function an object that it writes to but never creates, so that none persists between calls."""
    made = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    given = tree.args.args[: len(tree.args.args) - len(tree.args.defaults)]
    made |= {argument.arg for argument in given}
    for node in ast.walk(tree):
        place = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FILLS:
            place = node.func.value
        if not isinstance(place, ast.Name) or place.id in made:
            continue
        made.add(place.id)
        for empty in (ast.Dict([], []), ast.List([], ast.Load())):
            new = _with_body(tree)
            new.body.insert(0, ast.Assign([ast.Name(place.id, ast.Store())], empty, lineno=tree.lineno))
            yield edit(tree, new, "kept-between-calls", (None, LIKELY), line=place.lineno, place=place)


# ------------------------------------------------------------------------------------------------------------- blocks


def of_block(node: ast.AST, program: Program) -> Iterator[Edit]:
    """Leave out statements, reorder them, or move them out of a loop."""
    body = node.body
    for statement in body:
        if not isinstance(statement, (ast.Return, ast.FunctionDef, ast.Import, ast.ImportFrom)):
            compound = hasattr(statement, "body")
            in_model = None if compound or isinstance(statement, ast.Assert) else LIKELY
            detail = "block-too-many" if compound else "line-left-out"
            yield edit(statement, None, "one-line-too-many", (in_model, LIKELY), detail, statement=statement)
    yield from _of_order(node)
    above = program.parents.get(node)
    if isinstance(node, (ast.For, ast.While, ast.If)) and hasattr(above, "body") and node in above.body:
        yield from _of_outside(node, above)


def _of_order(node: ast.AST) -> Iterator[Edit]:
    """Move a line later or earlier; in the model solution, only lines of a loop that use the same names."""
    body = node.body
    for first, second in itertools.permutations(range(len(body)), 2):
        step, other = body[first], body[second]
        assigns = all(isinstance(one, (ast.Assign, ast.AugAssign)) for one in (step, other))
        in_model = POSSIBLE if isinstance(node, ast.For) and assigns and _meet(step, other) else None
        in_student = None if abs(first - second) > FARTHEST or second - first == 1 else POSSIBLE
        new = _with_body(node)
        new.body.insert(second, new.body.pop(first))
        detail = "step-later" if first < second else "step-earlier"
        ranks, fields = (in_model, in_student), {"step": step, "other": other}
        yield edit(node, new, "order-of-lines", ranks, detail, line=step.lineno, **fields)


def _meet(one: ast.stmt, other: ast.stmt) -> bool:
    """Whether one of two steps writes what the other reads or writes."""
    written, all_names = [], []
    for step in (one, other):
        target = step.targets[0] if isinstance(step, ast.Assign) else step.target
        written.append({node.id for node in ast.walk(target) if isinstance(node, ast.Name)})
        all_names.append({node.id for node in ast.walk(step) if isinstance(node, ast.Name)})
    return bool(written[0] & all_names[1] or written[1] & all_names[0])


def _of_outside(node: ast.For | ast.While | ast.If, above: ast.AST) -> Iterator[Edit]:
    """Move the first or last line of a loop or condition out of it."""
    body, place = node.body, above.body.index(node)
    for index in (0, -1) if len(body) > 1 else ():
        new, loop = _with_body(above), _with_body(node)
        out = loop.body.pop(index)
        new.body[place : place + 1] = [out, loop] if index == 0 else [loop, out]
        fields = {"statement": body[index], "loop": node}
        yield edit(above, new, "belongs-outside", (None, LIKELY), line=body[index].lineno, **fields)


def _with_body(node: ast.AST) -> Any:
    """A copy with a list of statements of its own; the statements are shared."""
    new = copy(node)
    new.body = list(node.body)
    return new


# ---------------------------------------------------------------------------------------------------------- arguments

#: (detail, first line) of changes of an array argument of the model solution.
TO_ARRAYS = {
    "argument-unit-length": "{0} = _unit({0})",
    "argument-absolute": "{0} = abs({0})",
    "argument-first-for-all": "{0} = _first_for_all({0}, 0)",
    "argument-cut": "{0} = _cut({0})",
}
TO_ANY = {
    "argument-one-more": "{0} = {0} + 1",
    "argument-one-less": "{0} = {0} - 1",
    "argument-doubled": "{0} = 2 * {0}",
    "argument-one": "{0} = 1",
}


def of_arguments(tree: ast.FunctionDef) -> Iterator[Edit]:
    """Yield all changes of arguments, as a first line of the model solution."""
    names = [argument.arg for argument in tree.args.args]
    optional = set(names[len(names) - len(tree.args.defaults) :])
    used_as = {name: _uses(name, tree) for name in names}
    for name in names:
        if not {"keyed", "called"} & used_as[name]:
            arrays = TO_ARRAYS if name not in optional or "array" in used_as[name] else {}
            for rank, lines in ((POSSIBLE, arrays), (ODD, TO_ANY)):
                for detail, line in lines.items():
                    yield _first(tree, line.format(name), rank, detail, {"argument": name})
    for one, other in itertools.combinations(names, 2):
        if not {"keyed", "called"} & (used_as[one] | used_as[other]):
            fields = {"one": one, "other": other}
            yield _first(tree, f"{one}, {other} = {other}, {one}", POSSIBLE, "roles-exchanged", fields)


def _first(tree: ast.FunctionDef, line: str, rank: int, detail: str, fields: dict[str, str]) -> Edit:
    name = line.partition(" ")[0].strip(",")
    optional = name in [argument.arg for argument in tree.args.args[len(tree.args.args) - len(tree.args.defaults) :]]
    guarded = f"if {name} is not None: {line}" if optional else line
    return edit(tree.args, ast.parse(guarded).body[0], "argument", (rank, None), detail, **fields)


def _uses(name: str, tree: ast.FunctionDef) -> set[str]:
    """How an argument is used: as a dict, as a function or as an array."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is(node.value, name):
            text = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            found.add("keyed" if text else "array")
        elif isinstance(node, ast.Call) and _is(node.func, name):
            found.add("called")
        elif isinstance(node, (ast.Attribute, ast.UnaryOp)) and _is(getattr(node, "value", None), name):
            found.add("array")
    return found


def _is(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
