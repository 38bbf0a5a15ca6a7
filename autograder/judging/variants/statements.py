"""Slips in a statement: a step left out, a loop that ends too early, a condition that always holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy

from .edit import POSSIBLE, Edit, brief, called, change, shown, slug_of


def of_condition(node: ast.IfExp | ast.If) -> Iterator[Edit]:
    condition = brief(node.test, "a condition")
    for value, word in ((True, "always"), (False, "never")):
        new = deepcopy(node)
        new.test = ast.Constant(value)
        words = f"{condition} {word} held"
        yield Edit(node.number, new, slug_of(word, shown(node.test)), words, kind=f"{word} held")


def of_statement(node: ast.stmt, tree: ast.FunctionDef, parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    if isinstance(node, ast.AugAssign):
        step = brief(node, "a step")
        yield change(node, None, f"without-{shown(node)}", f"the step {step} were left out")
        new = ast.Assign([node.target], node.value)
        looped = isinstance(parents.get(node), ast.For)
        words = f"each round of the loop overwrote {brief(node.target, 'the result')}" if looped else (
            f"{brief(node.target, 'the result')} were overwritten, not added to")  # fmt: skip
        yield change(node, new, f"overwrites-{shown(node.target)}", words)
    elif isinstance(node, ast.Expr) or (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], (ast.Name, ast.Subscript))
        and _bound_before(node.targets[0], node, tree)
    ):
        yield change(node, None, f"without-{shown(node)}", f"the step {brief(node, 'of one line')} were left out")


def of_value(node: ast.stmt) -> Iterator[Edit]:
    """One step more than is due on what is worked out in a line."""
    value = node.value
    if not isinstance(value, (ast.BinOp, ast.Call)):
        return
    what = brief(node.targets[0], "it") if isinstance(node, ast.Assign) else brief(value, "it")
    if isinstance(value, ast.Call) and value.args and not isinstance(node, ast.Expr):
        twice = deepcopy(value)
        twice.args[0] = deepcopy(value)
        name, method = called(value)
        if name and not method:
            yield Edit(value.number, twice, slug_of(name, "twice"), f"`{name}` were taken twice for {what}", POSSIBLE)
    cut = ast.BinOp(value, ast.Mult(), ast.Compare(value, [ast.Gt()], [ast.Constant(0)]))
    for new, slug, words in (
        (ast.Call(ast.Name("abs", ast.Load()), [value], []), "absolute", f"the signs of {what} were lost"),
        (ast.UnaryOp(ast.USub(), value), "negated", f"{what} had the wrong sign"),
        (cut, "negatives-cut", f"negative entries of {what} were cut to 0"),
    ):
        yield Edit(value.number, new, slug_of(slug, what), words, POSSIBLE)


def _bound_before(target: ast.AST, node: ast.stmt, tree: ast.FunctionDef) -> bool:
    if isinstance(target, ast.Subscript):
        return True
    arguments = {argument.arg for argument in tree.args.args}
    earlier = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return target.id in arguments or any(n.id == target.id and n.lineno < node.lineno for n in earlier)


def of_loop(node: ast.For, tree: ast.FunctionDef) -> Iterator[Edit]:
    last = tree.body[-1]
    if isinstance(last, ast.Return) and node in tree.body:
        new = deepcopy(node)
        new.body.append(deepcopy(last))
        yield Edit(node.number, new, "returns-in-the-loop", "it returned after the first round of the loop")
    if not node.orelse:
        new = ast.For(node.target, ast.Call(ast.Name("reversed", ast.Load()), [ast.Call(
            ast.Name("list", ast.Load()), [node.iter], [])], []), node.body, [])  # fmt: skip
        yield Edit(node.number, new, "loop-backwards", "the loop ran backwards", POSSIBLE)
