"""What may be at fault among statements: a condition, a line too many, an order, what is returned."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from copy import copy, deepcopy
from typing import Any

from .candidate import LIKELY, POSSIBLE, Parents, Repair, bound_names, repair, text_of

#: What writes into a dictionary or a list.
FILLS = ("append", "extend", "insert", "setdefault", "update")


def of_condition(node: ast.IfExp | ast.If) -> Iterator[Repair]:
    here = text_of(node.test)
    for test, words in (
        (ast.UnaryOp(ast.Not(), node.test), f"the condition {here}: it is taken the wrong way round"),
        (ast.Constant(True), f"the condition {here}: what follows is due whether it holds or not"),
        (ast.Constant(False), f"the condition {here}: what follows is not due when it holds"),
    ):
        new = deepcopy(node)
        new.test = test
        if isinstance(test, ast.Constant) and asks_for_sizes(node.test):
            words = f"the condition {here}: it goes by sizes, and sizes may be alike by chance"
            yield repair(node, new, "decided-by-sizes", words, kind=f"sizes-{test.value}")
        else:
            yield repair(node, new, "condition", words)


def of_return(node: ast.Return, names: list[str], parents: Parents) -> Iterator[Repair]:
    known = bound_names(node, parents)
    here = text_of(node)
    if isinstance(node.value, ast.Tuple):
        parts = node.value.elts
        for first, second in itertools.combinations(range(len(parts)), 2):
            order = list(parts)
            order[first], order[second] = order[second], order[first]
            yield repair(node.value, ast.Tuple(order, ast.Load()), "order-of-results", f"the order in {here}",
                        line=node.lineno)  # fmt: skip
    elif node.value is not None:
        for name in names:
            if name in known and ast.unparse(node.value) != name:
                words = f"{here}: another of your results is due"
                yield repair(node.value, ast.Name(name, ast.Load()), "returned", words, line=node.lineno)


def asks_for_sizes(test: ast.expr) -> bool:
    """Is it a comparison of the sizes of arrays with one another?"""
    sides = (test.left, *test.comparators) if isinstance(test, ast.Compare) else ()
    asked = (node for side in sides for node in ast.walk(side) if isinstance(node, ast.Attribute))
    return any(node.attr in ("shape", "ndim") for node in asked) and not any(
        isinstance(side, ast.Constant) for side in sides
    )


def of_assignment(node: ast.Assign | ast.AugAssign, parents: Parents, writes: bool = False) -> Iterator[Repair]:
    """writes: whether the program writes into arrays: what is kept may have to be kept apart then."""
    here = text_of(node)
    if writes and isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Subscript, ast.Call)):
        for copy_of in ("copy", "clone"):
            kept = ast.Call(ast.Attribute(node.value, copy_of, ast.Load()), [], [])
            words = f"{text_of(node.value)} in {here} is written into later, or shares its memory with what is"
            yield repair(node.value, kept, "not-kept-apart", words)
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
        names = node.targets[0].elts
        for first, second in itertools.combinations(range(min(len(names), 4)), 2):
            order = list(names)
            order[first], order[second] = order[second], order[first]
            yield repair(
                node.targets[0], ast.Tuple(order, ast.Store()), "unpack-order", f"the order on the left of {here}"
            )
    if isinstance(node, ast.AugAssign):
        load = deepcopy(node.target)
        load.ctx = ast.Load()
        words = f"{here}: it adds where it should replace"
        yield repair(node, ast.Assign([node.target], node.value, lineno=node.lineno), "replaces", words)
        for other in (ast.Add, ast.Sub, ast.Mult, ast.Div):
            if other is not type(node.op):
                new = ast.AugAssign(node.target, other(), node.value)
                yield repair(node, new, "operation", f"the operation in {here}")
    elif isinstance(node.targets[0], (ast.Name, ast.Subscript)) and len(node.targets) == 1:
        for other in (ast.Add, ast.Mult):
            new = ast.AugAssign(node.targets[0], other(), node.value)
            rank = LIKELY if _is_overwritten(node, parents) else POSSIBLE
            yield repair(node, new, "adds", f"{here}: what stood there before is overwritten", rank)


def _is_overwritten(node: ast.Assign, parents: Parents) -> bool:
    """Does each turn of the loop around it write into the same place?"""
    above = parents.get(node)
    while above is not None and not isinstance(above, (ast.For, ast.FunctionDef)):
        above = parents.get(above)
    if not isinstance(above, ast.For) or not isinstance(node.targets[0], ast.Subscript):
        return False
    turns = {each.id for each in ast.walk(above.target) if isinstance(each, ast.Name)}
    return not any(isinstance(each, ast.Name) and each.id in turns for each in ast.walk(node.targets[0]))


def of_what_stays(tree: ast.FunctionDef) -> Iterator[Repair]:
    """Something that is kept from call to call: it is written into, and not made in the function."""
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
        begin = 1 if _is_text(tree.body[0]) else 0
        words = f"what an earlier call left in {text_of(place)} is taken in a later one"
        for empty in (ast.Dict([], []), ast.List([], ast.Load())):
            new = _with_body(tree)
            new.body.insert(begin, ast.Assign([ast.Name(place.id, ast.Store())], empty, lineno=tree.lineno))
            yield repair(tree, new, "kept-between-calls", words, line=place.lineno)


def of_block(node: ast.AST, parents: Parents) -> Iterator[Repair]:
    """Statements left out, in another order, inside or outside of a loop."""
    body = node.body
    begin = 1 if isinstance(node, ast.FunctionDef) and _is_text(body[0]) else 0
    for index, statement in enumerate(body):
        if not isinstance(statement, (ast.Return, ast.FunctionDef, ast.Import, ast.ImportFrom)) and index >= begin:
            body_too = " with what belongs to it" if hasattr(statement, "body") else ""
            words = f"{text_of(statement)}{body_too} has no place there"
            yield repair(statement, None, "one-line-too-many", words)
    for first, second in itertools.permutations(range(begin, len(body)), 2):
        if abs(first - second) > 4 or (second - first == 1):
            continue
        new = _with_body(node)
        new.body.insert(second, new.body.pop(first))
        words = f"the place of {text_of(body[first])} among the other lines"
        yield repair(node, new, "order-of-lines", words, POSSIBLE, line=body[first].lineno)
    above = parents.get(node)
    if isinstance(node, (ast.For, ast.While, ast.If)) and hasattr(above, "body") and node in above.body:
        place = above.body.index(node)
        for index in (0, -1):
            if len(body) > 1:
                new, loop = _with_body(above), _with_body(node)
                moved = loop.body.pop(index)
                new.body[place : place + 1] = [moved, loop] if index == 0 else [loop, moved]
                words = f"{text_of(body[index])} belongs outside of {text_of(node)}"
                yield repair(above, new, "belongs-outside", words, line=body[index].lineno)
        if isinstance(node, (ast.For, ast.While)):
            for index, at in ((place - 1, 0), (place + 1, len(body))):
                if begin <= index < len(above.body) and not isinstance(above.body[index], ast.Return):
                    new, loop = _with_body(above), _with_body(node)
                    loop.body.insert(at, above.body[index])
                    new.body[place] = loop
                    del new.body[index]
                    words = f"{text_of(above.body[index])} belongs inside of {text_of(node)}"
                    rank = POSSIBLE if _begins_sum(above.body[index], body) else LIKELY
                    yield repair(above, new, "belongs-inside", words, rank, line=above.body[index].lineno)


def _with_body(node: ast.AST) -> Any:
    """A copy whose list of statements is its own; the statements are not."""
    new = copy(node)
    new.body = list(node.body)
    return new


def _begins_sum(node: ast.stmt, body: list[ast.stmt]) -> bool:
    """Does it give a name a number that is written down, to which each of these turns adds: there it would be lost?"""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return False
    return any(
        isinstance(each, ast.AugAssign) and ast.unparse(each.target) == ast.unparse(node.targets[0]) for each in body
    )


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
