"""Slips in what belongs together: a bracket in another place, 1 + a for a, a function of the other factor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .edit import POSSIBLE, Edit, brief, called, change, shown

_SUMS = (ast.Add, ast.Sub)
_PRODUCTS = (ast.Mult, ast.Div)
_DONE = {ast.Add: "added", ast.Sub: "subtracted"}


def of_operation(node: ast.BinOp) -> Iterator[Edit]:
    left, right, op = node.left, node.right, node.op
    if isinstance(op, _SUMS) and isinstance(left, ast.BinOp) and isinstance(left.op, _PRODUCTS):
        # a * x + b as a * (x + b), or x / a + b as (x + b) / a
        words = f"{brief(right, 'the last part')} were {_DONE[type(op)]} before {_verb(left)}"
        if isinstance(left.op, ast.Mult):
            new = ast.BinOp(left.left, left.op, ast.BinOp(left.right, op, right))
        else:
            new = ast.BinOp(ast.BinOp(left.left, op, right), left.op, left.right)
        yield change(node, new, f"too-early-{shown(right)}", words, POSSIBLE)
    if isinstance(op, ast.Mult):
        for factor, inner in ((left, right), (right, left)):
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, _SUMS):
                new = ast.BinOp(ast.BinOp(factor, ast.Mult(), inner.left), inner.op, inner.right)
                words = f"the factor {brief(factor, 'before')} reached only {brief(inner.left, 'the first term')}, "
                words += f"not {brief(inner.right, 'the second')}"
                yield change(node, new, f"reaches-only-{shown(inner.left)}", words, POSSIBLE)
        yield from _of_other_factor(node)
    if isinstance(op, ast.Div) and isinstance(left, ast.BinOp) and isinstance(left.op, _SUMS):
        new = ast.BinOp(left.left, left.op, ast.BinOp(left.right, ast.Div(), right))
        words = f"only {brief(left.right, 'the second term')} were divided by {brief(right, 'it')}, not all"
        yield change(node, new, f"divides-only-{shown(left.right)}", words, POSSIBLE)
    if isinstance(op, (ast.Mult, ast.Sub)):
        for side, other, is_left in ((left, right, True), (right, left, False)):
            if isinstance(side, ast.Name):
                for sign, said in ((ast.Add(), f"1 + {side.id}"), (ast.Sub(), f"1 - {side.id}")):
                    changed = ast.BinOp(ast.Constant(1), sign, side)
                    new = ast.BinOp(changed, op, other) if is_left else ast.BinOp(other, op, changed)
                    words = f"`{said}` stood in the place of `{side.id}`"
                    yield change(node, new, f"one-{type(sign).__name__.lower()}-{side.id}", words, POSSIBLE)


def _of_other_factor(node: ast.BinOp) -> Iterator[Edit]:
    """f(a) * b as a * f(b)."""
    for one, other, is_left in ((node.left, node.right, True), (node.right, node.left, False)):
        if (
            isinstance(one, ast.Call)
            and len(one.args) == 1
            and not called(one)[1]
            and not isinstance(other, ast.Constant)
        ):
            moved = ast.Call(one.func, [other], one.keywords)
            pair = (one.args[0], moved) if is_left else (moved, one.args[0])
            words = f"`{called(one)[0]}` were taken of {brief(other, 'the other factor')}, not of "
            words += brief(one.args[0], "the first")
            yield change(
                node, ast.BinOp(pair[0], ast.Mult(), pair[1]), f"{called(one)[0]}-of-{shown(other)}", words, POSSIBLE
            )


def _verb(node: ast.BinOp) -> str:
    if isinstance(node.op, ast.Mult):
        return f"the factor {brief(node.left, 'before it')}"
    return f"the division by {brief(node.right, 'what follows')}"
