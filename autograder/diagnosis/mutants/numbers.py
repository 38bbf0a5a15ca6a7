"""Slips in a number: one size for another, a size written as a number, another number for minus infinity."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from .edit import LIKELY, ODD, POSSIBLE, Edit, called, change, constant, shown

NUMBERS = (*range(1, 13), 15, 16, 20, 24, 25, 32, 36, 48, 49, 50, 64, 81, 96, 100, 128, 256, 384, 512, 768, 1024)
FILLS = (0.0, 1e-9, -1.0, -5.0, -9.0, -10.0, -20.0, -30.0, -50.0, -99.0, -100.0, -999.0, -1e3, -1e4, -1e5, -1e6, -1e9)


def sizes_in(tree: ast.FunctionDef, sizes: Sequence[str]) -> set[str]:
    """Names that stand for sizes: those of the cases, counts and widths that are handed in, and what is read off."""
    found = {argument.arg for argument in tree.args.args if argument.arg in sizes or argument.arg.startswith("n_")}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        reads = any(
            (isinstance(part, ast.Attribute) and part.attr == "shape")
            or (isinstance(part, ast.Call) and called(part)[0] in ("len", "size", "ndim"))
            or (isinstance(part, ast.Name) and part.id in found)
            for part in ast.walk(node.value)
        )
        makes = any(
            isinstance(part, (ast.MatMult, ast.Call)) and not _is_size_call(part) for part in ast.walk(node.value)
        )
        if reads and not makes:
            found |= {part.id for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)}
    return found


def _is_size_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and called(node)[0] in ("len", "size", "min", "max", "int", "sqrt")


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


def of_size(node: ast.AST, sizes: Sequence[str], named: set[str]) -> Iterator[Edit]:
    """Another size, or a number. named: names of sizes; of another name only sizes stand in the place."""
    now = shown(node)
    for words in sizes:
        if words == now:  # of two sizes of one name nobody could tell which is meant
            continue
        new = ast.Call(ast.Name("_size", ast.Load()), [ast.Constant(words)], [])
        yield change(node, new, f"{words}-for-{now}", f"{words} stood in the place of {now}", LIKELY)
    if isinstance(node, ast.Name) and node.id not in named:
        return
    products = [f"{one}*{other}" for one, other in itertools.combinations(sizes, 2)]
    for words in (
        *products,
        *(f"{one}/{other}" for one, other in itertools.product(sizes, ("h", "g")) if other in sizes and one != other),
    ):
        new = ast.Call(ast.Name("_size", ast.Load()), [ast.Constant(words)], [])
        text = words.replace("*", "·")
        rank = POSSIBLE if "*" in words else ODD
        yield change(node, new, f"{words}-for-{now}", f"{text} stood in the place of {now}", rank)
    for operation, sign in ((ast.Add(), "+"), (ast.Sub(), "-")):
        new = ast.BinOp(node, operation, ast.Constant(1))
        yield change(node, new, f"{now}-{'plus' if sign == '+' else 'minus'}-one", f"{now} {sign} 1 stood in the place "
                    f"of {now}", POSSIBLE)  # fmt: skip
    for number in NUMBERS:
        yield change(node, ast.Constant(number), f"{number}-for-{now}",
                    f"{number} stood in the place of {now}, whatever it is", ODD)  # fmt: skip


def fills_of(tree: ast.FunctionDef) -> Iterator[Edit]:
    """Other numbers for −∞, wherever it stands: -np.inf, -math.inf, float("-inf")."""
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, (ast.UnaryOp, ast.Call, ast.Attribute)) else ""
        lowest = isinstance(node, ast.Attribute) and node.attr == "min" and "finfo(" in text
        if lowest or text in ("-np.inf", "-math.inf", "-torch.inf", "float('-inf')"):
            for fill in FILLS:
                words = f"a number such as {fill:g} stood for −∞" if fill else "0 stood for −∞"
                yield change(node, constant(fill), f"fill-{fill:g}".replace("--", "-minus-"), words)
