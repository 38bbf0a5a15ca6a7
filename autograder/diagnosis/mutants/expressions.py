"""Mutations of expressions: an operation, a bracket, a comparison, a slice, a name, a number, a size."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Sequence
from copy import deepcopy

from .edit import (
    LIKELY,
    ODD,
    POSSIBLE,
    RANGES,
    Edit,
    arguments_of,
    bound_at,
    brief,
    called,
    change,
    constant,
    edited,
    instead,
    one_off,
    shown,
)


def of_operation(node: ast.BinOp, parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    left, right, op = node.left, node.right, type(node.op)
    one, other = brief(left, "the first part"), brief(right, "the second part")

    def said(new: ast.AST, words: str) -> str:
        if not _is_a_place(node, parents):
            return words
        around = _around(node, parents)
        return instead(_replaced(around, node, new), around, "a place")

    def drop(kept: ast.AST, words: str, of: ast.AST, rank: int = LIKELY) -> Edit:
        return change(node, kept, f"left-out-{shown(of)}", said(kept, words), rank)

    def become(to: ast.operator, words: str, what: str, rank: int = LIKELY) -> Edit:
        new = ast.BinOp(left, to, right)
        if _is_a_divisor(node, parents):  # by what is divided there, the whole is multiplied
            words = instead(new, node, words)
        return change(node, new, f"{what}-{shown(right)}", said(new, words), rank)

    if op in (ast.Div, ast.FloorDiv):
        yield drop(left, f"the division by {other} were left out", right)
        yield become(ast.Mult(), f"it multiplied by {other} where it should divide", "multiplies-by")
        yield change(node, ast.BinOp(right, node.op, left), f"upside-down-{shown(right)}",
                    f"{other} were divided by {one}", POSSIBLE)  # fmt: skip
        square = ast.BinOp(left, node.op, ast.BinOp(right, ast.Pow(), ast.Constant(2)))
        yield change(node, square, f"divides-twice-{shown(right)}", f"it divided by {other} twice")
        root = ast.BinOp(left, node.op, ast.BinOp(right, ast.Pow(), ast.Constant(0.5)))
        yield change(node, root, f"divides-by-root-{shown(right)}", f"it divided by the root of {other}")
    elif op is ast.Mult:
        yield drop(left, f"the factor {other} were left out", right)
        yield drop(right, f"the factor {one} were left out", left)
        yield become(ast.Div(), f"it divided by {other} where it should multiply", "divides-by")
        yield become(ast.Add(), f"{other} were added where it should be multiplied with", "adds", POSSIBLE)
        for side, of in ((left, one), (right, other)):
            twice = ast.BinOp(ast.BinOp(left, ast.Mult(), right), ast.Mult(), side)
            yield change(node, twice, f"twice-{shown(side)}", f"the factor {of} were there twice", POSSIBLE)
    elif op is ast.Add:
        yield drop(left, f"{other} were not added", right)
        yield drop(right, f"{one} were not added", left)
        yield become(ast.Sub(), f"{other} were subtracted where it should be added", "subtracts")
        yield become(ast.Mult(), f"{other} were multiplied with where it should be added", "multiplies", POSSIBLE)
        for side, of in ((left, one), (right, other)):
            twice = ast.BinOp(ast.BinOp(left, ast.Add(), right), ast.Add(), side)
            yield change(node, twice, f"twice-{shown(side)}", f"{of} were added twice", POSSIBLE)
    elif op is ast.Sub:
        yield drop(left, f"{other} were not subtracted", right)
        yield change(node, ast.BinOp(right, ast.Sub(), left), f"reversed-{shown(right)}",
                    f"{one} were subtracted from {other}, not the other way round")  # fmt: skip
        yield become(ast.Add(), f"{other} were added where it should be subtracted", "adds")
    elif op is ast.Pow:
        yield drop(left, f"the power {other} of {one} were left out", right)
    elif op is ast.MatMult:
        yield drop(left, f"the product with {other} were left out", right, POSSIBLE)
        yield drop(right, f"the product with {one} were left out", left, POSSIBLE)
        cosines = ast.Call(ast.Name("_cosines", ast.Load()), [left, right], [])
        yield change(node, cosines, f"cosines-of-{shown(left)}-{shown(right)}",
                    f"{one} @ {other} were divided by the lengths of their vectors", POSSIBLE)  # fmt: skip
        yield change(node, ast.BinOp(right, ast.MatMult(), left), f"order-of-{shown(left)}-{shown(right)}",
                    f"the product were {other} @ {one}", POSSIBLE)  # fmt: skip
        for side, of, other_side in ((left, one, right), (right, other, left)):
            turned = ast.Attribute(side, "T" if isinstance(side, ast.Name) else "mT", ast.Load())
            pair = (turned, other_side) if side is left else (other_side, turned)
            yield change(node, ast.BinOp(pair[0], ast.MatMult(), pair[1]), f"turned-{shown(side)}",
                        f"{of} were transposed before the product", POSSIBLE)  # fmt: skip
    elif op in (ast.BitAnd, ast.BitOr):
        yield drop(left, f"{other} did not matter", right)
        yield drop(right, f"{one} did not matter", left)
        words = "or" if op is ast.BitAnd else "and"
        yield become(ast.BitOr() if op is ast.BitAnd else ast.BitAnd(), f"“{words}” joined {one} and {other}", words)


def of_comparison(node: ast.Compare) -> Iterator[Edit]:
    others = {
        ast.Lt: (ast.LtE, ast.Gt, ast.GtE),
        ast.LtE: (ast.Lt, ast.GtE, ast.Gt),
        ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
        ast.GtE: (ast.Gt, ast.LtE, ast.Lt),
        ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
        ast.NotEq: (ast.Eq,),
    }
    of_text = isinstance(node.comparators[0], ast.Constant) and isinstance(node.comparators[0].value, str)
    for to in (ast.NotEq,) if of_text else others.get(type(node.ops[0]), ()):
        new = ast.Compare(node.left, [to()], node.comparators)
        words = instead(new, node, "a comparison")
        yield change(node, new, f"compares-{shown(new)}", words, kind=f"compares {to.__name__}")
    if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        for operation in (ast.Add(), ast.Sub()):
            new = ast.Compare(node.left, node.ops, [ast.BinOp(node.comparators[0], operation, ast.Constant(1))])
            yield change(node, new, f"compares-{shown(new)}", instead(new, node, "a comparison"), POSSIBLE)


def of_subscript(node: ast.Subscript) -> Iterator[Edit]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for index, part in enumerate(parts):
        for kind, option in _other_places(part):
            new = deepcopy(node)
            if isinstance(new.slice, ast.Tuple):
                new.slice.elts[index] = option
            else:
                new.slice = option
            words = instead(new, node, "")
            if not words.startswith("`"):
                text = shown(new.slice.elts[index] if isinstance(new.slice, ast.Tuple) else new.slice)
                words = f"`[{text}]` stood in the place of `[{shown(part)}]`"
            yield change(node, new, f"takes-{shown(new)}", words, POSSIBLE, f"{kind} {index}")
    for first, second in itertools.combinations(range(len(parts)), 2):
        new = deepcopy(node)
        new.slice.elts[first], new.slice.elts[second] = parts[second], parts[first]
        if ast.dump(new) != ast.dump(node):
            words = instead(new, node, "")
            if not words.startswith("`"):
                words = f"two indices of {brief(node.value, 'it')} had changed places"
            yield change(node, new, f"takes-{shown(new)}", words, POSSIBLE, f"exchanged {first} {second}")


def _other_places(part: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """For an index its neighbours, the ends, and slices that begin or end there; for a slice one that is open.

    Each with a word for its kind. Of all along an axis, the first or the last alone.
    """
    if isinstance(part, ast.Name):
        before, after = one_off(part)
        yield from (("before", before), ("after", after), ("first", constant(0)), ("last", constant(-1)))
        yield from (
            ("up to", ast.Slice(None, part)),
            ("through", ast.Slice(None, after)),
            ("from", ast.Slice(part, None)),
        )
    elif isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None:
        yield from (("first alone", constant(0)), ("last alone", constant(-1)))
    elif isinstance(part, ast.Slice) and part.step is None:
        if part.lower is not None:
            yield "open", ast.Slice(None, part.upper)
        if part.upper is not None:
            yield "open", ast.Slice(part.lower, None)
        else:
            yield "cut", ast.Slice(part.lower, constant(-1))
        for index, kind in enumerate(("begins one before", "begins one after")):
            if isinstance(part.lower, ast.Name):
                yield kind, ast.Slice(one_off(part.lower)[index], part.upper)
            if isinstance(part.upper, ast.Name):
                yield kind.replace("begins", "ends"), ast.Slice(part.lower, one_off(part.upper)[index])
        if (part.lower is None) != (part.upper is None):
            yield "other side", ast.Slice(part.upper, part.lower)
        if part.lower is None and _literal(part.upper) == -1:
            yield "without the first", ast.Slice(constant(1), None)
        if part.upper is None and _literal(part.lower) == 1:
            yield "without the last", ast.Slice(None, constant(-1))


def of_constant(node: ast.Constant, parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    value, parent = node.value, parents.get(node)
    if isinstance(value, bool) and isinstance(parent, ast.arguments):
        words = f"the default of `{_defaulting(node, parent)}` were {not value}, not {value}"
        yield change(node, ast.Constant(not value), f"default-{not value}", words)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if (isinstance(parent, ast.keyword) and parent.arg in ("axis", "dim")) or _is_default(node, parents):
        return
    if isinstance(value, int):
        options = {value + 1, value - 1, 0, 2 * value, *((1, 2) if value > 2 else ())}
        if isinstance(parent, (ast.BinOp, ast.keyword)):
            options |= {4, 8, 16, 32, 64}
    else:
        options = {0.0, 1.0, 2 * value, value / 2, value * 10, value / 10, value * 100, value / 100, value**2}
        if abs(value) < 1e-2:
            options |= {10.0**power for power in range(-12, -1)}
    for option in sorted(options - {value}, key=abs):
        if math.isfinite(option):
            around, new = _around(node, parents), constant(option)
            if isinstance(parent, ast.Assign):
                around = parent
            now = _replaced(around, node, new)
            words = instead(now, around, "a number")
            if words.endswith("another"):
                words = f"{option:g} stood in the place of {value:g}"
            if isinstance(parent, ast.arguments):
                words = f"the default of `{_defaulting(node, parent)}` were {option:g}, not {value:g}"
            yield change(node, new, f"{option:g}-for-{value:g}-in-{shown(around)}", words, POSSIBLE)


def of_sign(node: ast.UnaryOp, parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    """A sign that is lost: of a name, or of a number that picks an axis."""
    if _is_default(node, parents) or isinstance(parents.get(node), ast.keyword):
        return
    if not isinstance(node.operand, ast.Constant):
        yield change(node, node.operand, "sign-lost", f"{brief(node, 'a sign')} were {brief(node.operand, 'lost')}")
        return
    around = _around(node, parents)
    words = instead(_replaced(around, node, node.operand), around, "a number")
    yield change(node, node.operand, f"sign-lost-in-{shown(around)}", words)


def of_defaults(node: ast.arguments) -> Iterator[Edit]:
    """Another default of an argument that is a number."""
    positional = node.args[len(node.args) - len(node.defaults) :]
    pairs = [*zip(positional, node.defaults, strict=True), *zip(node.kwonlyargs, node.kw_defaults, strict=True)]
    for argument, default in pairs:
        if default is None or isinstance(_literal(default), bool) or not isinstance(_literal(default), (int, float)):
            continue
        for option in (-1, 0, 1, 2):
            if option != _literal(default):
                words = f"`{argument.arg}` were {option} where it is not given"
                yield change(default, constant(option), f"{argument.arg}-is-{option}-by-default", words, POSSIBLE)


def of_given(tree: ast.FunctionDef) -> Iterator[Edit]:
    """An argument that is given and not used: its default is, always."""
    arguments = tree.args
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    numbers = {
        argument.arg: _literal(default) for argument, default in zip(positional, arguments.defaults, strict=True)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            value = numbers.get(node.id)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                words = f"`{node.id}` were {value:g}, whatever is given"
                yield change(node, constant(value), f"{node.id}-not-used", words, POSSIBLE, f"{node.id} not used")


def _literal(node: ast.AST) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _is_default(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    parent = parents.get(node)
    return isinstance(parent, ast.arguments) or isinstance(parents.get(parent), ast.arguments)


def _defaulting(default: ast.AST, arguments: ast.arguments) -> str:
    """The argument that has this default."""
    for names, defaults in ((arguments.args, arguments.defaults), (arguments.kwonlyargs, arguments.kw_defaults)):
        if default in defaults:
            return names[defaults.index(default) - len(defaults)].arg
    return "an argument"


def _around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    """The smallest expression about a constant that says something by itself."""
    around = parents.get(node, node)
    while around in parents and (
        isinstance(around, (ast.Slice, ast.UnaryOp, ast.Tuple, ast.keyword)) or _is_a_place(around, parents)
    ):
        around = parents[around]
    return around if isinstance(around, ast.expr) else node


def _is_a_divisor(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    above = parents.get(node)
    return isinstance(above, ast.BinOp) and isinstance(above.op, (ast.Div, ast.FloorDiv)) and above.right is node


def _is_a_place(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """A sum or difference that says where: i - 1 in weights[i, i - 1]."""
    inner, above = node, parents.get(node)
    while isinstance(above, (ast.Slice, ast.Tuple, ast.BinOp)):
        inner, above = above, parents.get(above)
    inside = isinstance(above, ast.Subscript) and above.slice is inner
    counts = isinstance(above, ast.Call) and inner in above.args and called(above)[0] in RANGES
    return isinstance(node, ast.BinOp) and (inside or counts)


def _replaced(whole: ast.AST, node: ast.AST, new: ast.AST) -> ast.AST:
    return edited(whole, [Edit(node.number, new, "", "")]) if whole is not node else new


#: One may be handed over in the place of another; see `helpers`.
ACTIVATIONS = ("gelu", "relu", "silu", "sigmoid", "tanh")


def of_name(node: ast.Name, names: Sequence[str], parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    parent = parents.get(node)
    if node.id in ACTIVATIONS and isinstance(parent, ast.Call) and node in parent.args:
        for other in ACTIVATIONS:
            if other != node.id:
                new = ast.Name(f"_{other}", ast.Load())
                yield change(node, new, f"{other}-for-{node.id}", f"`{other}` stood in the place of `{node.id}`")
        none = ast.Name("_identity", ast.Load())
        yield change(node, none, f"without-{node.id}", f"the activation `{node.id}` were left out")
    if node.id not in names or (isinstance(parent, ast.Call) and parent.func is node) or _is_keyed(parent):
        return
    bound = bound_at(node, parents)
    names = [name for name in names if name in bound]
    if not isinstance(parent, ast.Subscript) and node.id in arguments_of(node, parents):
        for axis, word in ((0, "first"), (1, "second")):
            new = ast.Call(ast.Name("_first_for_all", ast.Load()), [node, constant(axis)], [])
            words = f"the first of `{node.id}` stood for all along its {word} axis"
            yield change(node, new, f"first-of-{node.id}", words, POSSIBLE, f"first of {node.id} along {axis}")
    keyed = {above.value.id for above in parents.values() if _is_keyed(above) and isinstance(above.value, ast.Name)}
    for other in names:
        if other != node.id and other not in keyed:
            new = ast.Name(other, ast.Load())
            yield change(node, new, f"{other}-for-{node.id}", f"{other} stood in the place of {node.id}", POSSIBLE)
            if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult):
                turned = ast.Attribute(new, "mT", ast.Load())
                words = f"{shown(turned)} stood in the place of {node.id}"
                yield change(node, turned, f"{other}-turned-for-{node.id}", words, POSSIBLE)


def _is_keyed(node: ast.AST | None) -> bool:
    """Is it an entry of a dict, such as params["W_Q"]?"""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    )


def of_key(node: ast.Subscript, tree: ast.FunctionDef) -> Iterator[Edit]:
    """Another entry of the same dict."""
    if not _is_keyed(node):
        return
    alike = [one for one in ast.walk(tree) if _is_keyed(one) and ast.dump(one.value) == ast.dump(node.value)]
    for key in dict.fromkeys(one.slice.value for one in alike):
        if key != node.slice.value:
            new = ast.Subscript(node.value, ast.Constant(key), ast.Load())
            words = f"`{key}` stood in the place of `{node.slice.value}`"
            yield change(node, new, f"{key}-for-{node.slice.value}", words, POSSIBLE)


_SUMS = (ast.Add, ast.Sub)
_PRODUCTS = (ast.Mult, ast.Div)
_DONE = {ast.Add: "added", ast.Sub: "subtracted"}


def of_brackets(node: ast.BinOp) -> Iterator[Edit]:
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
