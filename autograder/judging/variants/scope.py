"""Which names have a value where a piece of a plain program stands."""

from __future__ import annotations

import ast


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
