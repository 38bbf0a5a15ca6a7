"""Which names have a value where a piece of a plain program stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def names_in(tree: ast.FunctionDef) -> list[str]:
    arguments = [argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)]
    stored = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return list(dict.fromkeys([*arguments, *stored]))


def arguments_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> set[str]:
    """The arguments of the function that holds a node."""
    while node in parents:
        node = parents[node]
    return {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}


def bound_at(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> set[str]:
    """The names that have a value where a node stands: arguments, and what an earlier line or round of a loop binds."""
    within, loops = node, []
    while within in parents:
        within = parents[within]
        if isinstance(within, (ast.For, ast.While)):
            loops.append(within)
    names = {argument.arg for argument in (*within.args.args, *within.args.kwonlyargs)}
    for each in ast.walk(within):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            inside = any(loop.lineno <= each.lineno <= loop.end_lineno for loop in loops)
            if inside or each.lineno < node.lineno:
                names.add(each.id)
    return names


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
