"""What may be at fault in an expression: an operation, a comparison, a number, a name, a step that is missing."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence

from ..mutants.edit import called, constant, one_off
from .candidate import LIKELY, ODD, POSSIBLE, Parents, Repair, bound_names, repair, text_of

#: What says what is to be left out, as it is commonly written.
MASKS = re.compile(r"mask|eye|tri[lu]|visible|allow|hidden|keep|valid|same|others?|diag|==|[<>~]")


#: What makes numbers, and nothing that holds or does not.
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.MatMult, ast.Pow)
#: What asks whether something holds, and does not mark entries.
CONDITIONS = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.Assert)


def of_operation(node: ast.BinOp) -> Iterator[Repair]:
    left, right, op = node.left, node.right, type(node.op)
    here = text_of(node)
    for kept, gone in ((left, right), (right, left)):
        kind = f"{op.__name__} {ast.unparse(gone)}" if isinstance(gone, (ast.Constant, ast.Name)) else ""
        words = f"{text_of(gone)} in {here} has no place there"
        yield repair(node, kept, "one-step-too-many", words, kind=kind)
    arithmetic = (ast.Add, ast.Sub, ast.Mult, ast.Div)
    others: dict[type, tuple[type, ...]] = {
        **{one: tuple(other for other in arithmetic if other is not one) for one in arithmetic},
        ast.FloorDiv: (ast.Mod, ast.Div),
        ast.Mod: (ast.FloorDiv,),
        ast.BitAnd: (ast.BitOr, ast.BitXor),
        ast.BitOr: (ast.BitAnd, ast.BitXor),
        ast.MatMult: (ast.Mult,),
        ast.Pow: (ast.Mult,),
    }
    for other in others.get(op, ()):
        yield repair(node, ast.BinOp(left, other(), right), "operation", f"the operation in {here} is another one")
    if op is ast.Mult:
        yield from _of_zeroing(node)
        yield from _of_one_list(node, here)
    if op in (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult, ast.Pow, ast.Mod):
        words = f"the two sides of {here} belong the other way round"
        yield repair(node, ast.BinOp(right, node.op, left), "sides", words)
    if op is ast.MatMult:
        for side, is_left in ((left, True), (right, False)):
            turned = _turned(side)
            pair = (turned, right) if is_left else (left, turned)
            words = f"{text_of(side)} in {here} is to be transposed"
            yield repair(node, ast.BinOp(pair[0], node.op, pair[1]), "not-turned", words)
            pair = (right, turned) if is_left else (turned, left)
            words = f"the order of {here}, and a transposition in it"
            yield repair(node, ast.BinOp(pair[0], node.op, pair[1]), "sides-turned", words, POSSIBLE)
    yield from _of_power(node, here)
    yield from _of_parenthesis(node, here)
    # a * (x + b) for a * x + b, and the other way round
    for inner, outer, is_left in ((left, right, True), (right, left, False)):
        if isinstance(inner, ast.BinOp) and type(inner.op) is not op:
            words = f"the brackets in {here} stand elsewhere"
            if is_left:
                new = ast.BinOp(inner.left, inner.op, ast.BinOp(inner.right, node.op, outer))
            else:
                new = ast.BinOp(ast.BinOp(outer, node.op, inner.left), inner.op, inner.right)
            yield repair(node, new, "brackets", words, POSSIBLE)


def _of_power(node: ast.BinOp, here: str) -> Iterator[Repair]:
    """d ** 1 / 2, where the root of d is meant: of what stands behind ** the first number alone belongs to it."""
    chain: list[ast.BinOp] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp) and isinstance(first.op, (ast.Mult, ast.Div)):
        chain.append(first)
        first = first.left
    if not isinstance(first, ast.BinOp) or not isinstance(first.op, ast.Pow):
        return
    if not any(isinstance(each.op, ast.Div) for each in chain):  # whole numbers may grow beyond what anybody waits for
        return
    exponent = first.right
    for each in reversed(chain):
        exponent = ast.BinOp(exponent, each.op, each.right)
    words = f"how far `**` reaches in {here}: it comes before `*` and `/`"
    yield repair(node, ast.BinOp(first.left, first.op, exponent), "power-first", words)


def _of_parenthesis(node: ast.BinOp, here: str) -> Iterator[Repair]:
    """max(a, b) / c for max(a, b / c)."""
    call = node.left
    if isinstance(call, ast.Call) and call.args and isinstance(node.op, ARITHMETIC) and not called(call)[1]:
        if called(call)[0] in ("range", "len", "zip", "enumerate", "int", "float"):
            return
        last = ast.BinOp(call.args[-1], node.op, node.right)
        new = ast.Call(call.func, [*call.args[:-1], last], call.keywords)
        yield repair(
            node, new, "parenthesis", f"where the parenthesis of `{called(call)[0]}` closes in {here}", POSSIBLE
        )


def of_shares(node: ast.BinOp, arrays: Sequence[str]) -> Iterator[Repair]:
    """Another size than is due that is shared out, as in d_model // n_heads."""
    if not isinstance(node.op, ast.FloorDiv) or isinstance(node.left, ast.BinOp):
        return
    words = f"another size than {text_of(node.left)} is shared out in {text_of(node)}"
    for name in arrays:
        for axis in (-1, 0):
            size = ast.Subscript(ast.Attribute(ast.Name(name, ast.Load()), "shape", ast.Load()), constant(axis))
            size.ctx = ast.Load()
            if ast.unparse(size) != ast.unparse(node.left):
                yield repair(node.left, size, "another-size", words, POSSIBLE)


def _of_zeroing(node: ast.BinOp) -> Iterator[Repair]:
    """What is to be left out is set to 0, and takes part as 0."""
    for kept, mask in ((node.left, node.right), (node.right, node.left)):
        if not MASKS.search(ast.unparse(mask)):
            continue
        words = f"with {text_of(mask)} in {text_of(node)} what is to be left out becomes 0, and takes part as 0"
        out = ast.Compare(mask, [ast.Eq()], [ast.Constant(0)])
        low = ast.UnaryOp(ast.USub(), ast.Call(ast.Name("float", ast.Load()), [ast.Constant("inf")], []))
        tensor = ast.Call(ast.Attribute(kept, "masked_fill", ast.Load()), [out, low], [])
        array = ast.Call(ast.Attribute(ast.Name("np", ast.Load()), "where", ast.Load()), [out, low, kept], [])
        yield repair(node, tensor, "out-as-zero", words, POSSIBLE)
        yield repair(node, array, "out-as-zero", words, POSSIBLE)


def _turned(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        return node.value
    return ast.Attribute(node, "mT", ast.Load())


def of_logic(node: ast.BoolOp) -> Iterator[Repair]:
    here = text_of(node)
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield repair(node, ast.BoolOp(other, node.values), "or-for-and", f"`and` and `or` in {here}")
    if isinstance(node.op, ast.Or) and len(node.values) == 2 and isinstance(node.values[0], ast.Name):
        first, default = node.values
        given = ast.Compare(first, [ast.IsNot()], [ast.Constant(None)])
        words = f"{here}: a 0 is taken for nothing there"
        yield repair(node, ast.IfExp(given, first, default), "falsy-for-none", words, kind="default")
    for index, value in enumerate(node.values):
        rest = node.values[:index] + node.values[index + 1 :]
        new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        yield repair(node, new, "one-condition-too-many", f"{text_of(value)} in {here} has no place there")


def _of_one_list(node: ast.BinOp, here: str) -> Iterator[Repair]:
    """[[0] * d] * n holds one list n times."""
    for some, count in ((node.left, node.right), (node.right, node.left)):
        is_list = isinstance(some, ast.List) and len(some.elts) == 1
        if is_list and not isinstance(some.elts[0], (ast.Constant, ast.Name, ast.UnaryOp)):
            turns = ast.Call(ast.Name("range", ast.Load()), [count], [])
            each = ast.comprehension(ast.Name("_", ast.Store()), turns, [], 0)
            words = f"{here} holds one and the same thing several times: what is written into one is in all of them"
            yield repair(node, ast.ListComp(some.elts[0], [each]), "not-kept-apart", words)


def of_comparison(node: ast.Compare, parents: Parents) -> Iterator[Repair]:
    others = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
    here, op = text_of(node), type(node.ops[0])
    if op not in others:
        inverse = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
        yield repair(node, ast.Compare(node.left, [inverse[op]()], node.comparators), "comparison", f"the test {here}")
        return
    for other in others:
        if other is not op:
            rank = LIKELY if {op, other} <= {ast.Lt, ast.LtE} or {op, other} <= {ast.Gt, ast.GtE} else POSSIBLE
            new = ast.Compare(node.left, [other()], node.comparators)
            edge = "the edge of the comparison" if rank == LIKELY else "the comparison"
            kind = f"{op.__name__} {other.__name__}"
            yield repair(node, new, "comparison", f"{edge} {here}", rank, kind=kind)
    if not isinstance(parents.get(node), CONDITIONS):
        yield from _of_marking(node, here, parents)
    asks = op in (ast.Eq, ast.NotEq)
    rank = ODD if asks and isinstance(node.comparators[0], ast.Constant) else POSSIBLE
    for other in one_off(node.comparators[0]):
        new = ast.Compare(node.left, node.ops, [other])
        words = f"{'the comparison' if asks else 'the edge of the comparison'} {here}"
        yield repair(node, new, "comparison-off-by-one", words, rank)


def _of_marking(node: ast.Compare, here: str, parents: Parents) -> Iterator[Repair]:
    """All entries, or none, where some are marked; one number for all is due in the place of no array."""
    everywhere = ast.Compare(node.left, [ast.Eq()], [node.left])
    nowhere = ast.Compare(node.left, [ast.NotEq()], [node.left])
    statement = parents.get(parents.get(node))
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
        return
    yield repair(node, everywhere, "marks-too-few", f"what does not meet {here} is due as well")
    yield repair(node, nowhere, "marks-too-many", f"what meets {here} is to be like the rest")


def of_constant(node: ast.Constant, parents: Parents) -> Iterator[Repair]:
    value, parent = node.value, parents.get(node)
    around = text_of(parent) if isinstance(parent, ast.expr) else text_of(node)
    if isinstance(value, bool):
        named = f"`{parent.arg}={value}`" if isinstance(parent, ast.keyword) else f"`{value}` in {around}"
        yield repair(node, ast.Constant(not value), "flag", named)
        return
    if not isinstance(value, (int, float)) or (isinstance(parent, ast.keyword) and parent.arg in ("axis", "dim")):
        return
    options: set[float] = {value + 1, value - 1, 0, 1, 2, -1, 0.5}
    if isinstance(value, int):
        options |= {2 * value, 3, 4}
    options |= {2 * value, value / 2, -value, 1 - value}
    if value and abs(value) < 1e-2:
        options |= {10.0**power for power in range(-12, -1)} | {1e-5, 0.0}
    if abs(value) > 30:
        options |= {math.inf, -math.inf, 10_000.0, 1e30}
    where = f" in {around}" if isinstance(parent, ast.expr) else ""
    rank = ODD if _is_asked_for(node, parent) else POSSIBLE
    for option in sorted({float(o) if isinstance(value, float) else o for o in options} - {value}, key=abs):
        infinite = math.isinf(option)
        new = ast.Call(ast.Name("float", ast.Load()), [ast.Constant(str(option))], []) if infinite else None
        likely = LIKELY if infinite and rank == POSSIBLE else rank  # a number that stands for infinity
        yield repair(node, new or constant(option), "number", f"the number `{ast.unparse(node)}`{where}", likely)


def _is_asked_for(node: ast.expr, parent: ast.AST | None) -> bool:
    """Is it asked whether something is just this number? With another one it is hardly ever so: that tells nothing."""
    return (
        isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Eq, ast.NotEq)) and parent.left is not node
    )


def of_name(node: ast.Name, names: list[str], parents: Parents) -> Iterator[Repair]:
    parent = parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    known = bound_names(node, parents)
    here = f" in {text_of(parent)}" if isinstance(parent, ast.expr) else ""
    if node.id not in names:
        return
    texts = {"_", *(_literals(parents) if isinstance(parent, ast.BinOp) else ())}
    for other in names:
        if other != node.id and other in known and other not in texts:
            words = f"`{node.id}`{here}: something else is due"
            yield repair(node, ast.Name(other, ast.Load()), "name", words, POSSIBLE, kind=f"{node.id} {other}")


def _literals(parents: Parents) -> Iterator[str]:
    """The names of tuples, lists and texts that are written down: many times over they fill the memory."""
    for node in parents:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if isinstance(node.value, (ast.Tuple, ast.List)) or isinstance(getattr(node.value, "value", 0), str):
            yield node.targets[0].id


#: What makes a number larger or smaller.
OF_SIZE = ("no-root", "no-square", "no-complement", "not-doubled", "not-halved")
#: What hardly anybody forgets of the length of an axis: a slice that ends beyond it is as right as one that ends there.
LARGER = ("no-square", "not-doubled")


def of_value(node: ast.expr, numbers: Sequence[str], parents: Parents, limits: bool = False) -> Iterator[Repair]:
    """A step that is missing behind a value. numbers: the arguments that may be a factor of it.

    limits: whether it is compared and does nothing else: what makes a limit larger or smaller is then no step.
    """
    parent = parents.get(node)
    if isinstance(node, ast.Constant) or isinstance(parent, (ast.Attribute, ast.keyword)) or node in _functions(parent):
        return
    if isinstance(node, (ast.Tuple, ast.List, ast.Slice, ast.Starred, ast.Compare, ast.ListComp, ast.GeneratorExp)):
        return
    here = text_of(node)
    within = f" in {text_of(parent)}" if isinstance(parent, ast.expr) else ""
    simple = isinstance(node, ast.Name)
    rank = POSSIBLE if not simple else ODD
    sign = LIKELY if isinstance(parent, ast.Call) and called(parent)[0] == "exp" else rank
    root = ast.BinOp(node, ast.Pow(), ast.Constant(0.5))
    for new, slug, what in (
        (ast.Attribute(node, "mT", ast.Load()), "not-turned", "a transposition"),
        (root, "no-root", "a root"),
        (ast.BinOp(node, ast.Pow(), ast.Constant(2)), "no-square", "a square"),
        (ast.UnaryOp(ast.USub(), node), "no-sign", "a sign"),
        (ast.UnaryOp(ast.Invert(), node), "not-inverted", "a negation (`~`)"),
        (ast.BinOp(ast.Constant(1), ast.Sub(), node), "no-complement", "what is missing to 1 (1 − …)"),
        (ast.BinOp(node, ast.Mult(), ast.Constant(2)), "not-doubled", "a factor of 2"),
        (ast.BinOp(node, ast.Div(), ast.Constant(2)), "not-halved", "a division by 2"),
        (ast.Call(ast.Name("abs", ast.Load()), [node], []), "no-abs", "its absolute value"),
        (one_off(node)[0], "off-by-one", "1 less"),
        (one_off(node)[1], "off-by-one", "1 more"),
    ):
        if slug == "not-inverted" and isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
            continue
        if (limits and slug in OF_SIZE) or (slug in LARGER and _is_a_size(node)):
            continue
        what_rank = sign if slug == "no-sign" else rank
        if slug == "no-abs" and _is_held_against(node, parent):
            slug, what_rank = "not-absolute", LIKELY
        yield repair(node, new, slug, f"{here}{within} lacks a step: {what}", what_rank)
    for number in numbers:
        if not (simple and node.id == number):
            for op, what in ((ast.Mult(), "a factor"), (ast.Div(), "a divisor")):
                new = ast.BinOp(node, op, ast.Name(number, ast.Load()))
                yield repair(node, new, "no-factor", f"{here}{within} lacks {what}: `{number}`", rank)


def _is_a_size(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and getattr(node.value, "attr", None) == "shape"


def _is_held_against(node: ast.expr, parent: ast.AST | None) -> bool:
    """Is it compared by size, as a difference is with a tolerance?"""
    return isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))


def _functions(parent: ast.AST | None) -> tuple[ast.AST, ...]:
    return (parent.func,) if isinstance(parent, ast.Call) else ()
