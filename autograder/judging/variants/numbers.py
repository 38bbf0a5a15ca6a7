"""Slips in a number: one size for another, a size written as a number, another number for minus infinity."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from .edit import LIKELY, ODD, POSSIBLE, Edit, called, change, constant, shown

NUMBERS = (*range(1, 13), 15, 16, 20, 24, 25, 32, 36, 48, 49, 50, 64, 81, 96, 100, 128, 256, 384, 512, 768, 1024)
FILLS = (0.0, -1.0, -5.0, -9.0, -10.0, -20.0, -30.0, -50.0, -99.0, -100.0, -999.0, -1e3, -1e4, -1e5, -1e6, -1e9)


def is_a_size(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Does a single size stand here: below a root, or as what is divided by?"""
    shape = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    name = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    length = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    if not (shape or name or length):
        return False
    parent = parents.get(node)
    if isinstance(parent, ast.Call) and node in parent.args:
        return called(parent)[0] == "sqrt"
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Pow) or (
            isinstance(parent.op, (ast.Div, ast.FloorDiv)) and parent.right is node
        )
    return False


def of_size(node: ast.AST, sizes: Sequence[str]) -> Iterator[Edit]:
    now = shown(node)
    products = [f"{one}*{other}" for one, other in itertools.combinations(sizes, 2)]
    for words in (*sizes, *products, *(f"{one}/{other}" for one, other in itertools.permutations(sizes, 2))):
        new = ast.Call(ast.Name("_size", ast.Load()), [ast.Constant(words)], [])
        text = words.replace("*", "·")
        rank = LIKELY if words in sizes else POSSIBLE if "*" in words else ODD
        yield change(node, new, f"{words}-for-{now}", f"{text} stood in the place of {now}", rank)
    for operation, sign in ((ast.Add(), "+"), (ast.Sub(), "-")):
        new = ast.BinOp(node, operation, ast.Constant(1))
        yield change(node, new, f"{now}-{'plus' if sign == '+' else 'minus'}-one", f"{now} {sign} 1 stood in the place "
                    f"of {now}", POSSIBLE)  # fmt: skip
    for number in NUMBERS:
        yield change(node, ast.Constant(number), f"{number}-for-{now}",
                    f"{number} stood in the place of {now}, whatever it is", POSSIBLE)  # fmt: skip


def fills_of(tree: ast.FunctionDef) -> Iterator[Edit]:
    """Other numbers for −∞, wherever it stands: -np.inf, -math.inf, float("-inf")."""
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, (ast.UnaryOp, ast.Call)) else ""
        if text in ("-np.inf", "-math.inf", "-torch.inf", "float('-inf')"):
            for fill in FILLS:
                words = f"a number such as {fill:g} stood for −∞" if fill else "0 stood for −∞"
                yield change(node, constant(fill), f"fill-{fill:g}".replace("--", "-minus-"), words)
