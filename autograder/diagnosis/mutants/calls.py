"""Slips in what is called: another function, another axis, a step left out, a reshape for a transposition."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator
from copy import deepcopy

from .edit import LIKELY, ODD, POSSIBLE, RANGES, Edit, brief, called, change, constant, instead, one_off, shown

#: What may stand for a function that is called: the same arguments, another result.
OTHERS = {
    "mean": ("sum", "amax", "median"),
    "sum": ("mean", "max", "amax"),
    "max": ("min",),
    "min": ("max",),
    "amax": ("amin", "mean"),
    "argmax": ("argmin",),
    "sqrt": ("square",),
    "exp": ("exp2",),
    "softmax": ("sigmoid", "log_softmax"),
    "log_softmax": ("softmax",),
    "tril": ("triu",),
    "triu": ("tril",),
    "var": ("std",),
    "std": ("var",),
    "ones": ("zeros",),
    "zeros": ("ones",),
    "floor": ("ceil", "round"),
    "ceil": ("floor",),
    "log": ("log2",),
    "log2": ("log", "log10"),
    "any": ("all",),
    "all": ("any",),
    "gelu": ("relu", "silu"),
    "relu": ("gelu",),
    "silu": ("gelu", "relu", "sigmoid"),
    "cumsum": ("cumprod",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "logsumexp": ("sum",),
    "erf": ("erfc", "tanh"),
    "median": ("mean", "median_low", "median_high"),
}
#: Functions whose second argument is an axis.
ALONG = {
    *("mean", "sum", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "var", "std", "median", "norm"),
    *("softmax", "log_softmax", "logsumexp", "cumsum", "argsort", "sort", "flip"),
}
#: Functions that make one number of many: nobody leaves these out and goes on as if nothing had happened.
REDUCING = {"mean", "sum", "max", "min", "amax", "argmax", "any", "all", "logsumexp"}
AXES = (-1, -2, 0, 1, 2, None)


def _renamed(node: ast.Call, name: str) -> ast.Call:
    new = deepcopy(node)
    if isinstance(new.func, ast.Attribute):
        new.func.attr = name
    else:
        new.func.id = name
    return new


def of_call(node: ast.Call) -> Iterator[Edit]:
    name, method = called(node)
    if not name:
        return
    inner = node.func.value if method else node.args[0] if node.args else None
    rank = ODD if name in OTHERS and name in REDUCING else LIKELY
    if inner is not None and name not in ("range", "len", "zip", "enumerate", "isinstance", "reshape", "view"):
        inside = brief(inner, "what it is applied to")
        yield change(
            node, inner, f"without-{name}-{shown(inner)}", f"{_said(name, node)} of {inside} were left out", rank
        )
    for other in OTHERS.get(name, ()):
        words = f"`{other}` stood in the place of `{name}`"
        yield change(node, _renamed(node, other), f"{other}-for-{name}", words, POSSIBLE, f"{other} for {name}")
    yield from _of_axis(node, name, method)
    for keyword in node.keywords:
        if keyword.arg not in ("axis", "dim", "dtype", "device", None):
            new = deepcopy(node)
            new.keywords = [kept for kept in new.keywords if kept.arg != keyword.arg]
            yield change(node, new, f"without-{keyword.arg}",
                        f"`{keyword.arg}={shown(keyword.value)}` were left out of `{name}`", POSSIBLE)  # fmt: skip
    yield from _of_reshape(node, name)
    if name == "range" and len(node.args) == 1:
        stop = node.args[0]
        early = ast.BinOp(stop, ast.Sub(), ast.Constant(1))
        yield change(node, ast.Call(node.func, [early], []), "loop-ends-early", "the loop ended one round too early")
        yield change(node, ast.Call(node.func, [ast.Constant(1), stop], []), "loop-begins-late",
                    "the loop began one round too late")  # fmt: skip
        late = ast.BinOp(stop, ast.Add(), ast.Constant(1))
        yield change(node, ast.Call(node.func, [late], []), "loop-ends-late", "the loop made one round too many")
    yield from _of_two(node, name)
    yield from _of_range(node, name)
    plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    if len(plain) == len(node.args) and 2 <= len(plain) <= 8 and name not in ("reshape", "view", "range"):
        for first, second in itertools.combinations(range(len(plain)), 2):
            new = deepcopy(node)
            new.args[first], new.args[second] = new.args[second], new.args[first]
            yield change(node, new, f"exchanged-{shown(plain[first])}-{shown(plain[second])}",
                        f"{brief(plain[first], 'one')} and {brief(plain[second], 'another')} had changed places",
                        POSSIBLE)  # fmt: skip
    # A step that is applied to the whole comes first: softmax(S / c) as softmax(S) / c.
    if len(node.args) >= 1 and isinstance(node.args[0], ast.BinOp) and not method:
        operation = node.args[0]
        first = deepcopy(node)
        first.args[0] = operation.left
        new = ast.BinOp(first, operation.op, operation.right)
        done = {ast.Div: "divided by", ast.Mult: "multiplied with", ast.Add: "added", ast.Sub: "subtracted"}
        verb = done.get(type(operation.op))
        if verb:
            what = brief(operation.right, "the second part")
            words = f"{verb} {what}" if verb.endswith(("by", "with")) else f"{what} {verb}"
            yield change(node, new, f"{name}-first-{shown(operation.right)}",
                        f"it took `{name}` first and {words} only after it" if verb.endswith(("by", "with"))
                        else f"`{name}` came first, and {words} only after it")  # fmt: skip
    # Two steps in the other order, each with what else it is handed: f(g(x, a), b) as g(f(x, b), a).
    within = node.args[0] if node.args else None
    if isinstance(within, ast.Call) and within.args and not method and not called(within)[1]:
        first = ast.Call(node.func, [within.args[0], *node.args[1:]], node.keywords)
        new = ast.Call(within.func, [first, *within.args[1:]], within.keywords)
        yield change(node, new, f"{name}-before-{called(within)[0]}", f"`{name}` came before `{called(within)[0]}`")


def _of_range(node: ast.Call, name: str) -> Iterator[Edit]:
    """One more or one less in what says where a range ends, or how often something comes."""
    if name not in RANGES or (name == "range" and len(node.args) == 1):
        return
    for index, argument in enumerate(node.args):
        for other in one_off(argument) if isinstance(argument, ast.Name) else ():
            new = deepcopy(node)
            new.args[index] = other
            words = instead(new, node, "")
            if not words.startswith("`"):
                words = f"`{shown(other)}` stood in the place of `{argument.id}` in `{name}`"
            yield change(node, new, f"{shown(other)}-for-{argument.id}-in-{name}", words, POSSIBLE)


def _of_two(node: ast.Call, name: str) -> Iterator[Edit]:
    """The larger or the smaller of two, where their sum or mean is taken; the sum, where a length is taken."""
    if name in ("max", "min", "maximum", "minimum") and len(node.args) == 2 and not node.keywords:
        both = ast.BinOp(node.args[0], ast.Add(), node.args[1])
        what = f"{brief(node.args[0], 'one')} and {brief(node.args[1], 'the other')}"
        yield change(node, both, f"sum-for-{name}", f"{what} were added, where `{name}` is due", POSSIBLE)
        half = ast.BinOp(both, ast.Div(), ast.Constant(2))
        yield change(node, half, f"mean-for-{name}", f"the mean of {what} were taken, where `{name}` is due", POSSIBLE)
    if name == "var" and called(node)[1]:
        squares = ast.BinOp(node.func.value, ast.Pow(), ast.Constant(2))
        kept = [keyword for keyword in node.keywords if keyword.arg not in ("unbiased", "correction", "ddof")]
        new = ast.Call(_attribute(squares, "mean"), node.args, kept)
        yield change(node, new, "mean-square-for-variance", "the mean of the squares stood in the place of the "
                    "variance, without the mean being subtracted first")  # fmt: skip
    if name == "sum" and isinstance(node.func, ast.Attribute) and called(node)[1]:
        new = deepcopy(node)
        new.func.value = ast.BinOp(node.func.value, ast.Pow(), ast.Constant(2))
        yield change(node, ast.BinOp(new, ast.Pow(), ast.Constant(0.5)), "length-for-sum",
                    f"the length of {brief(node.func.value, 'it')} (root of the sum of squares) stood in the place of "
                    "its sum", POSSIBLE)  # fmt: skip
        yield change(node, new, "squares-for-sum",
                    f"the sum of the squares of {brief(node.func.value, 'it')} stood in the place of its sum",
                    POSSIBLE)  # fmt: skip


def _said(name: str, node: ast.Call) -> str:
    known = {"sqrt": "the root", "transpose": "the transposition", "swapaxes": "the transposition", "mean": "the mean"}
    return known.get(name, f"`{name}`")


def _of_axis(node: ast.Call, name: str, method: bool) -> Iterator[Edit]:
    position = 0 if method else 1
    keyword = next((k for k in node.keywords if k.arg in ("axis", "dim")), None)
    built_in = isinstance(node.func, ast.Name) and hasattr(builtins, name)
    if keyword is None and (name not in ALONG or len(node.args) <= position or built_in):
        return
    now = keyword.value if keyword is not None else node.args[position]
    for axis in AXES:
        if ast.unparse(now) == str(axis):
            continue
        new, value = deepcopy(node), constant(axis)
        if keyword is not None:
            next(k for k in new.keywords if k.arg == keyword.arg).value = value
        else:
            new.args[position] = value
        along = "over everything at once" if axis is None else f"along axis {axis}"
        yield change(node, new, f"{name}-{along}", f"`{name}` ran {along}, not along {shown(now)}",
                    LIKELY if axis in (-2, 0) else POSSIBLE, f"axis {axis}")  # fmt: skip


def _of_reshape(node: ast.Call, name: str) -> Iterator[Edit]:
    """`reshape` and `transpose`, one for the other: x.reshape(B, n, h, d).transpose(1, 2) as x.reshape(B, h, n, d)."""
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in ("transpose", "swapaxes") and isinstance(inner, ast.Call) and called(inner)[0] in ("reshape", "view"):
        axes = [_number(argument) for argument in node.args]
        shape = list(inner.args)
        if len(axes) == 2 and None not in axes and all(-len(shape) <= axis < len(shape) for axis in axes):
            first, second = axes
            moved = list(shape)
            moved[first], moved[second] = moved[second], moved[first]
            alone = ast.Call(_attribute(inner.func.value, "reshape"), moved, [])
            yield change(
                node, alone, "reshape-only", "the axes were split by a reshape alone, which moves none of them"
            )
            if len(shape) == 4:
                mixed = [*shape[:2], shape[3], shape[2]]
                split = ast.Call(_attribute(inner.func.value, "reshape"), mixed, [])
                turned = ast.Call(_attribute(split, "transpose"), [constant(-1), constant(-2)], [])
                back = ast.Call(_attribute(turned, "transpose"), node.args, [])
                yield change(node, back, "interleaved", "the heads took every h-th column, not blocks of columns")
    merges = name in ("reshape", "view", "flatten") and isinstance(inner, ast.Call)
    if merges and called(inner)[0] in ("transpose", "swapaxes") and isinstance(inner.func, ast.Attribute):
        new = deepcopy(node)
        new.func = _attribute(inner.func.value, node.func.attr)
        yield change(node, new, "merged-by-reshape", "the axes were merged by a reshape alone, without swapping two")
        turned = ast.Call(_attribute(inner, "transpose"), [constant(-1), constant(-2)], [])
        new = deepcopy(node)
        new.func = _attribute(turned, "reshape" if node.func.attr == "view" else node.func.attr)
        words = "the heads were merged column by column, not block after block"
        yield change(node, new, "merged-interleaved", words)
    if name == "repeat_interleave":
        method = not (isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "torch")
        copied = [node.func.value, *node.args] if method else node.args
        in_turn = ast.BinOp(ast.List([copied[0]], ast.Load()), ast.Mult(), copied[1])
        new = ast.Call(_attribute(ast.Name("torch", ast.Load()), "cat"), [in_turn], node.keywords)
        yield change(node, new, "tiled", "copies came in turn (0, 1, 0, 1, …), not side by side (0, 0, 1, 1, …)")


def _attribute(value: ast.expr, name: str) -> ast.Attribute:
    return ast.Attribute(value, name, ast.Load())


def _number(node: ast.AST) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None
