"""Makes the changes of a call: its function, axis, argument order or position, or the call left out."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator, Sequence
from copy import deepcopy

from .program_edit import (
    LIKELY,
    ODD,
    POSSIBLE,
    RANGES,
    Edit,
    Program,
    attribute,
    called,
    constant,
    edit,
    one_off,
    whole,
)

#: Functions that may replace a function: they take the same arguments and give another result.
OTHERS = {
    "mean": ("sum", "amax", "median"),
    "sum": ("mean", "max", "amax", "any", "prod"),
    "max": ("min", "mean", "sum"),
    "min": ("max",),
    "amax": ("amin", "mean", "sum"),
    "argmax": ("argmin",),
    "sqrt": ("square",),
    "exp": ("exp2",),
    "softmax": ("sigmoid", "log_softmax"),
    "log_softmax": ("softmax",),
    "tril": ("triu", "ones_like"),
    "triu": ("tril",),
    "var": ("std",),
    "std": ("var",),
    "ones": ("zeros",),
    "zeros": ("ones",),
    "zeros_like": ("ones_like",),
    "ones_like": ("zeros_like",),
    "floor": ("ceil", "round"),
    "ceil": ("floor",),
    "log": ("log2",),
    "log2": ("log", "log10"),
    "log1p": ("log",),
    "expm1": ("exp",),
    "any": ("all",),
    "all": ("any",),
    "gelu": ("relu", "silu"),
    "relu": ("gelu",),
    "silu": ("gelu", "relu", "sigmoid"),
    "cumsum": ("cumprod",),
    "maximum": ("minimum", "add"),
    "minimum": ("maximum",),
    "logsumexp": ("sum",),
    "erf": ("erfc", "tanh"),
    "median": ("mean", "median_low", "median_high"),
    "repeat": ("tile", "repeat_interleave"),
    "tile": ("repeat",),
    "repeat_interleave": ("tile",),
    "argsort": ("sort",),
    "split": ("chunk",),
    "chunk": ("split",),
    "append": ("extend",),
    "extend": ("append",),
    "randn": ("rand",),
    "rand": ("randn",),
}
#: Functions whose second argument is an axis.
ALONG = {
    *("mean", "sum", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "var", "std", "median", "norm"),
    *("softmax", "log_softmax", "logsumexp", "cumsum", "argsort", "sort", "flip"),
}
#: Functions that reduce many numbers to one: hardly any program still works with one of these left out.
REDUCING = {"mean", "sum", "max", "min", "amax", "argmax", "any", "all", "logsumexp"}
AXES = (-1, -2, 0, 1, 2, None)
#: Functions that are not left out, because they are no steps of a computation.
NO_STEPS = ("range", "len", "zip", "enumerate", "isinstance")


def of_call(node: ast.Call, program: Program) -> Iterator[Edit]:
    """Yield all changes of one call."""
    name, method = called(node)
    if not name:
        return
    yield from _left_out(node, name, method)
    for other in OTHERS.get(name, ()):
        ranks = (POSSIBLE, POSSIBLE)
        yield edit(node, _renamed(node, other), "function", ranks, group=f"{name} {other}", name=name, other=other)
    yield from _of_axis(node, name, method, [each for each in ("axis", "dim") if each in program.names])
    for keyword in node.keywords:
        if keyword.arg not in ("axis", "dim", None):
            new = deepcopy(node)
            new.keywords = [kept for kept in new.keywords if kept.arg != keyword.arg]
            of_type = keyword.arg in ("dtype", "device")
            fields = {"keyword": keyword.arg, "value": ast.unparse(keyword.value), "name": name}
            yield edit(node, new, "keyword", (None if of_type else POSSIBLE, POSSIBLE), "without-keyword", **fields)
    yield from _of_order(node, name, method)
    yield from _of_range(node, name)
    yield from _of_reshape(node, name)
    if name in ("transpose", "swapaxes", "permute", "moveaxis"):
        yield from _of_axes(node)


def _left_out(node: ast.Call, name: str, method: bool) -> Iterator[Edit]:
    """Leave out the call, so that its argument takes its place."""
    if name == "where" and len(node.args) == 3:
        for kept in node.args[1:]:
            if not isinstance(kept, ast.Constant):  # a divisor of 1 would leave out the division
                yield edit(node, kept, "one-choice-too-many", (POSSIBLE, LIKELY), "one-choice")
        return
    if name in ("min", "max", "minimum", "maximum", "fmin", "fmax") and len(node.args) == 2:
        for kept, gone in (node.args, reversed(node.args)):
            yield edit(node, kept, "one-choice-too-many", (POSSIBLE, LIKELY), "choice-left-out", gone=gone)
        return
    inner = node.func.value if method else node.args[0] if node.args else None
    if inner is not None and name not in NO_STEPS:
        ranks = (ODD if name in REDUCING else LIKELY, LIKELY)
        yield edit(node, inner, "one-call-too-many", ranks, "call-left-out", name=name, inner=inner)


def _renamed(node: ast.Call, name: str) -> ast.Call:
    new = deepcopy(node)
    if isinstance(new.func, ast.Attribute):
        new.func.attr = name
    else:
        new.func.id = name
    return new


def _of_axis(node: ast.Call, name: str, method: bool, named: Sequence[str]) -> Iterator[Edit]:
    """Change the axis, or add one. named: arguments that may say which axis is meant."""
    position = 0 if method else 1
    keyword = next((k for k in node.keywords if k.arg in ("axis", "dim")), None)
    if isinstance(node.func, ast.Name) and hasattr(builtins, name) and keyword is None:
        return  # a builtin: its other arguments are no axis
    positional = keyword is None and name in ALONG and len(node.args) > position
    now = keyword.value if keyword is not None else node.args[position] if positional else None
    if now is None and name not in ALONG:
        return
    for axis in AXES:
        if now is not None and ast.unparse(now) == str(axis):
            continue
        new = deepcopy(node)
        if keyword is not None:
            next(k for k in new.keywords if k.arg == keyword.arg).value = constant(axis)
        elif positional:
            new.args[position] = constant(axis)
        elif axis is not None:
            new.keywords = [*new.keywords, ast.keyword("axis", constant(axis))]
        ranks = (None if now is None else LIKELY if axis in (-2, 0) else POSSIBLE, LIKELY)
        along = "over everything at once" if axis is None else f"along axis {axis}"
        group = f"{ast.unparse(now) if now is not None else None} {axis}"
        yield edit(node, new, "axis", ranks, group=group, name=name, along=along, now=now)
    if now is None:
        yield from _of_rows(node, name, [*map(constant, (-1, 0, 1)), *(ast.Name(n, ast.Load()) for n in named)])
    kept = next((k for k in node.keywords if k.arg in ("keepdims", "keepdim")), None)
    new = _without_kept(node)
    if kept is None:
        new.keywords.append(ast.keyword("keepdims", ast.Constant(True)))
    yield edit(node, new, "keepdims", (None, POSSIBLE))


def _without_kept(node: ast.Call) -> ast.Call:
    new = deepcopy(node)
    new.keywords = [k for k in new.keywords if k.arg not in ("keepdims", "keepdim")]
    return new


def _of_rows(node: ast.Call, name: str, axes: Sequence[ast.expr]) -> Iterator[Edit]:
    """Add an axis with `keepdims`, so that each row gets a number of its own."""
    for axis in axes:
        new = _without_kept(node)
        new.keywords += [ast.keyword("axis", axis), ast.keyword("keepdims", ast.Constant(True))]
        plainly = deepcopy(new)
        if name in ("max", "min") and isinstance(new.func, ast.Attribute):  # a tensor's `max` would return indices too
            new.func.attr = f"a{name}"
        yield edit(node, new, "axis", (None, LIKELY), group=f"kept {ast.unparse(axis)}", name=name)
        if name in ("max", "min"):
            yield edit(node, plainly, "axis", (None, LIKELY), group=f"plainly kept {ast.unparse(axis)}", name=name)


def _of_order(node: ast.Call, name: str, method: bool) -> Iterator[Edit]:
    """Swap two arguments, or apply the function before the last operation of its argument instead of after."""
    plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    if len(plain) == len(node.args):
        for first, second in itertools.combinations(range(min(len(plain), 8)), 2):
            new = deepcopy(node)
            new.args[first], new.args[second] = new.args[second], new.args[first]
            of_sizes = name in ("reshape", "view", "range")
            ranks = (None if of_sizes else POSSIBLE, ODD if name == "range" else POSSIBLE)
            yield edit(node, new, "argument-order", ranks, one=plain[first], other=plain[second])
    within = node.args[0] if node.args else None
    if isinstance(within, ast.BinOp) and not method:  # softmax(S / c) as softmax(S) / c
        for taken, is_left in ((within.left, True), (within.right, False)):
            first = ast.Call(node.func, [taken, *node.args[1:]], node.keywords)
            new = ast.BinOp(first, within.op, within.right) if is_left else ast.BinOp(within.left, within.op, first)
            detail = f"{type(within.op).__name__.lower()}-after-the-call" if is_left else "call-of-the-second"
            fields = {"name": name, "right": within.right}
            yield edit(node, new, "step-too-late", (LIKELY if is_left else None, POSSIBLE), detail, **fields)


def _of_range(node: ast.Call, name: str) -> Iterator[Edit]:
    """Change by one where a range starts or ends, or how often something repeats."""
    if name == "range" and len(node.args) <= 2:
        start, stop = node.args if len(node.args) == 2 else (constant(0), node.args[0])
        for begin, end in ((0, -1), (1, 0), (0, 1), (-1, 0), (1, 1), (-1, -1)):
            new = ast.Call(node.func, [moved(start, begin), moved(stop, end)], [])
            once = begin == 0 or end == 0
            detail = f"range{begin:+d}{end:+d}" if len(node.args) == 1 else ""
            yield edit(node, new, "range", (LIKELY if once and begin >= 0 else None, LIKELY), detail)
    elif name in RANGES:
        for index, argument in enumerate(node.args):
            for other in one_off(argument) if isinstance(argument, ast.Name) else ():
                new = deepcopy(node)
                new.args[index] = other
                yield edit(node, new, "count", (POSSIBLE, None), argument=argument, other=other, name=name)


def moved(node: ast.expr, by: int) -> ast.expr:
    """Return the expression plus `by`, which is -1, 0 or 1."""
    return node if not by else one_off(node)[by > 0]


def _of_reshape(node: ast.Call, name: str) -> Iterator[Edit]:
    """Use only `reshape` to split or merge axes: x.reshape(B, h, n, d), not x.reshape(B, n, h, d).transpose(1, 2)."""
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in ("transpose", "swapaxes") and isinstance(inner, ast.Call) and called(inner)[0] in ("reshape", "view"):
        axes, shape = [whole(argument) for argument in node.args], list(inner.args)
        if len(axes) == 2 and None not in axes and all(-len(shape) <= axis < len(shape) for axis in axes):
            first, second = axes
            order = list(shape)
            order[first], order[second] = order[second], order[first]
            alone = ast.Call(attribute(inner.func.value, "reshape"), order, [])
            yield edit(node, alone, "reshape-only", (LIKELY, None))
    merges = name in ("reshape", "view", "flatten") and isinstance(inner, ast.Call)
    if merges and called(inner)[0] in ("transpose", "swapaxes") and isinstance(inner.func, ast.Attribute):
        new = deepcopy(node)
        new.func = attribute(inner.func.value, node.func.attr)
        yield edit(node, new, "merged-by-reshape", (LIKELY, None))
        new = deepcopy(node)
        new.func = attribute(_last_two_turned(inner), "reshape" if node.func.attr == "view" else node.func.attr)
        yield edit(node, new, "merged-interleaved", (LIKELY, None))
    if name == "repeat_interleave":
        of_torch = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "torch"
        copied = node.args if of_torch else [node.func.value, *node.args]
        in_turn = ast.BinOp(ast.List([copied[0]], ast.Load()), ast.Mult(), copied[1])
        new = ast.Call(attribute(ast.Name("torch", ast.Load()), "cat"), [in_turn], node.keywords)
        yield edit(node, new, "tiled", (LIKELY, None))


def _last_two_turned(node: ast.expr) -> ast.Call:
    return ast.Call(attribute(node, "transpose"), [constant(-1), constant(-2)], [])


def _of_axes(node: ast.Call) -> Iterator[Edit]:
    """Change which axes are swapped."""
    places = [index for index, argument in enumerate(node.args) if whole(argument) is not None]
    if len(places) == 2:
        for pair in ((1, 2), (-1, -2), (0, 1), (2, 3), (0, 2), (1, 3)):
            new = deepcopy(node)
            for place, axis in zip(places, pair, strict=True):
                new.args[place] = constant(axis)
            yield edit(node, new, "axes", (None, LIKELY))
    elif len(places) in (3, 4) and isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "permute"):
        for order in itertools.permutations(range(len(places))):
            new = deepcopy(node)
            for place, axis in zip(places, order, strict=True):
                new.args[place] = constant(axis)
            yield edit(node, new, "axes", (None, POSSIBLE))
