"""What may be at fault in a call or an index: a function, an axis, an order, a place."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy

from ..mutants.calls import ALONG, OTHERS
from ..mutants.edit import called, constant, one_off
from .candidate import ODD, POSSIBLE, Repair, repair, text_of, whole

AXES = (-1, -2, 0, 1, 2, None)

#: What stands for a function beside `variants.calls.OTHERS`, in programs that are not ours.
ALSO = {
    "max": ("mean", "sum"),
    "amax": ("sum",),
    "sum": ("any", "prod"),
    "maximum": ("add",),
    "tril": ("ones_like",),
    "repeat": ("tile", "repeat_interleave"),
    "tile": ("repeat",),
    "repeat_interleave": ("tile",),
    "zeros_like": ("ones_like",),
    "ones_like": ("zeros_like",),
    "argsort": ("sort",),
    "split": ("chunk",),
    "chunk": ("split",),
    "append": ("extend",),
    "extend": ("append",),
    "log1p": ("log",),
    "expm1": ("exp",),
    "randn": ("rand",),
    "rand": ("randn",),
}


#: What makes tensors, of float32 unless a dtype is named.
MAKES = ("zeros", "ones", "empty", "full", "tensor", "arange", "linspace", "as_tensor", "eye", "randn", "rand")


def of_call(node: ast.Call, names: Sequence[str] = ()) -> Iterator[Repair]:
    """names: that the program uses; an axis may have one."""
    name, method = called(node)
    here = text_of(node)
    inner = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
    if name == "where" and len(node.args) == 3:
        inner = None
        for kept in node.args[1:]:
            if isinstance(kept, ast.Constant):  # a divisor of 1 takes away what is divided by
                continue
            yield repair(node, kept, "one-choice-too-many", f"the choice in {here} has no place there")
    if name in ("min", "max", "minimum", "maximum", "fmin", "fmax") and len(node.args) == 2:
        inner = None
        for kept, gone in (node.args, reversed(node.args)):
            words = f"{text_of(gone)} in {here} has no place there"
            yield repair(node, kept, "one-choice-too-many", words)
    if inner is not None and name not in ("range", "len", "zip", "enumerate", "isinstance"):
        yield repair(node, inner, "one-call-too-many", f"the step `{name}` in {here} has no place there")
    if method and not node.args and isinstance(inner, ast.Call) and not inner.args and called(inner)[1]:
        words = f"the steps `{called(inner)[0]}` and `{name}` in {here} have no place there"
        yield repair(node, inner.func.value, "one-call-too-many", words)
    yield from _of_precision(node, name, here)
    for other in dict.fromkeys((*OTHERS.get(name, ()), *ALSO.get(name, ()))):
        new = deepcopy(node)
        if isinstance(new.func, ast.Attribute):
            new.func.attr = other
        elif isinstance(new.func, ast.Name):
            new.func.id = other
        words = f"`{name}` in {here}: another function is due"
        yield repair(node, new, "function", words, POSSIBLE, kind=f"{name} {other}")
    yield from _of_axis(node, name, method, [each for each in ("axis", "dim") if each in names])
    for keyword in node.keywords:
        if keyword.arg is not None and keyword.arg not in ("axis", "dim"):
            new = deepcopy(node)
            new.keywords = [kept for kept in new.keywords if kept.arg != keyword.arg]
            words = f"`{keyword.arg}={ast.unparse(keyword.value)}` in {here} has no place there"
            yield repair(node, new, "keyword", words, POSSIBLE)
    arguments = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    if len(arguments) == len(node.args):
        for first, second in itertools.combinations(range(min(len(arguments), 6)), 2):
            new = deepcopy(node)
            new.args[first], new.args[second] = new.args[second], new.args[first]
            words = f"the order of the arguments in {here}"
            yield repair(node, new, "argument-order", words, POSSIBLE if name != "range" else ODD)
    if name in ("transpose", "swapaxes", "permute", "moveaxis"):
        yield from _of_axes(node, here)
    if name == "range" and len(node.args) <= 2:
        start, stop = node.args if len(node.args) == 2 else (constant(0), node.args[0])
        words = f"where {here} begins or ends"
        for shift in ((1, 0), (0, -1), (0, 1), (-1, 0), (1, 1), (-1, -1)):
            new = ast.Call(node.func, [_plus(start, shift[0]), _plus(stop, shift[1])], [])
            yield repair(node, new, "range", words)
        backwards = ast.Call(ast.Name("reversed", ast.Load()), [node], [])
        yield repair(node, backwards, "range-backwards", f"the direction in which {here} is run through", POSSIBLE)
    # softmax(S / c) for softmax(S) / c, and the other way round
    if node.args and isinstance(node.args[0], ast.BinOp) and not method:
        within = node.args[0]
        for taken, is_left in ((within.left, True), (within.right, False)):
            first = ast.Call(node.func, [taken, *node.args[1:]], node.keywords)
            new = ast.BinOp(first, within.op, within.right) if is_left else ast.BinOp(within.left, within.op, first)
            yield repair(node, new, "step-too-late", f"what `{name}` is taken of in {here}", POSSIBLE)


def _of_precision(node: ast.Call, name: str, here: str) -> Iterator[Repair]:
    """What PyTorch makes without being told a dtype is float32."""
    of_torch = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", None) == "torch"
    if of_torch and name in MAKES and not any(keyword.arg == "dtype" for keyword in node.keywords):
        new = deepcopy(node)
        new.keywords.append(ast.keyword("dtype", ast.Attribute(ast.Name("torch", ast.Load()), "float64", ast.Load())))
        yield repair(node, new, "made-coarse", f"{here} makes float32, which is too coarse for what goes there")


def _plus(node: ast.expr, shift: int) -> ast.expr:
    if not shift:
        return node
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return constant(node.value + shift)
    return one_off(node)[1 if shift > 0 else 0]


def _of_axis(node: ast.Call, name: str, method: bool, named: Sequence[str]) -> Iterator[Repair]:
    if isinstance(node.func, ast.Name) and name in ("min", "max"):  # Python's own: what else is handed in is no axis
        return
    position = 0 if method else 1
    keyword = next((k for k in node.keywords if k.arg in ("axis", "dim")), None)
    positional = keyword is None and name in ALONG and len(node.args) > position
    now = keyword.value if keyword is not None else node.args[position] if positional else None
    if now is None and name not in ALONG:
        return
    words = f"the axis of `{name}` in {text_of(node)}"
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
        yield repair(node, new, "axis", words, kind=f"{ast.unparse(now) if now is not None else None} {axis}")
    if now is None:
        yield from _of_rows(node, name, words, [*map(constant, (-1, 0, 1)), *(ast.Name(n, ast.Load()) for n in named)])
    kept = next((k for k in node.keywords if k.arg in ("keepdims", "keepdim")), None)
    new = deepcopy(node)
    new.keywords = [k for k in new.keywords if k.arg not in ("keepdims", "keepdim")]
    if kept is None:
        new.keywords.append(ast.keyword("keepdims", ast.Constant(True)))
    yield repair(node, new, "keepdims", f"`keepdims` in {text_of(node)}: is the axis to stay?", POSSIBLE)


def _of_rows(node: ast.Call, name: str, words: str, axes: Sequence[ast.expr]) -> Iterator[Repair]:
    """An axis where there is none, which is kept: a number for each row in the place of one for all."""
    for axis in axes:
        new = deepcopy(node)
        new.keywords = [k for k in new.keywords if k.arg not in ("keepdims", "keepdim")]
        new.keywords += [ast.keyword("axis", axis), ast.keyword("keepdims", ast.Constant(True))]
        if name in ("max", "min") and isinstance(new.func, ast.Attribute):  # a tensor's would give places, too
            new.func.attr = f"a{name}"
        yield repair(node, new, "axis", words, kind=f"kept {ast.unparse(axis)}")
        if name in ("max", "min"):
            plainly = deepcopy(new)
            plainly.func = node.func
            yield repair(node, plainly, "axis", words, kind=f"plainly kept {ast.unparse(axis)}")


def _of_axes(node: ast.Call, here: str) -> Iterator[Repair]:
    """Other axes to be exchanged."""
    places = [index for index, argument in enumerate(node.args) if whole(argument) is not None]
    if len(places) == 2:
        for pair in ((1, 2), (-1, -2), (0, 1), (2, 3), (0, 2), (1, 3)):
            new = deepcopy(node)
            for place, axis in zip(places, pair, strict=True):
                new.args[place] = constant(axis)
            yield repair(node, new, "axes", f"the axes in {here}")
    elif len(places) in (3, 4) and isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "permute"):
        for order in itertools.permutations(range(len(places))):
            new = deepcopy(node)
            for place, axis in zip(places, order, strict=True):
                new.args[place] = constant(axis)
            yield repair(node, new, "axes", f"the axes in {here}", POSSIBLE)


def of_subscript(node: ast.Subscript, blocks: Collection[str] = ()) -> Iterator[Repair]:
    """blocks: the names of slices."""
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return
    here, in_blocks = text_of(node), _is_a_block(node.slice, blocks)
    if isinstance(node.ctx, ast.Load) and getattr(node.value, "attr", None) != "shape" and not in_blocks:
        yield repair(node, node.value, "index-too-many", f"the index in {here} has no place there")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for index, part in enumerate(parts):
        for option in _other_places(part):
            if in_blocks and isinstance(option, ast.Slice) and option.lower is None and option.upper is None:
                continue
            if isinstance(option, ast.Slice) and getattr(node.value, "attr", None) == "shape":  # one size is asked for
                continue
            new = deepcopy(node)
            if isinstance(new.slice, ast.Tuple):
                new.slice.elts[index] = option
            else:
                new.slice = option
            which = f"`{ast.unparse(part)}` in " if len(parts) > 1 else ""
            kind = f"{ast.unparse(part)} {ast.unparse(option)}"
            yield repair(node, new, "index", f"{which}the index of {here}", kind=kind)
        block = _block_after_block(part)
        if block is not None:
            new = deepcopy(node)
            if isinstance(new.slice, ast.Tuple):
                new.slice.elts[index] = block
            else:
                new.slice = block
            words = f"where the block `{ast.unparse(part)}` in {here} begins: each begins where the one before it ends"
            yield repair(node, new, "block-after-block", words)
    for first, second in itertools.combinations(range(len(parts)), 2):
        new = deepcopy(node)
        new.slice.elts[first], new.slice.elts[second] = parts[second], parts[first]
        yield repair(node, new, "index-order", f"the order of the indices in {here}", POSSIBLE)


def _is_a_block(places: ast.expr, blocks: Collection[str]) -> bool:
    """Is it one of the blocks that something is cut into? All of it in the place of each repairs what was wrong with
    blocks, and is none."""
    parts = places.elts if isinstance(places, ast.Tuple) else [places]
    if any(isinstance(part, ast.Name) and part.id in blocks for part in parts):
        return True
    return any(
        isinstance(part, ast.Slice)
        and isinstance(part.lower, ast.Name)
        and isinstance(part.upper, ast.BinOp)
        and ast.unparse(part.upper.left) == part.lower.id
        for part in parts
    )


def _block_after_block(part: ast.expr) -> ast.Slice | None:
    """r * d : (r + 1) * d for r : r + d."""
    if not isinstance(part, ast.Slice) or not isinstance(part.lower, ast.Name) or not isinstance(part.upper, ast.BinOp):
        return None
    if not isinstance(part.upper.op, ast.Add) or ast.unparse(part.upper.left) != part.lower.id:
        return None
    begin = ast.BinOp(part.lower, ast.Mult(), part.upper.right)
    return ast.Slice(begin, ast.BinOp(begin, ast.Add(), part.upper.right))


def _other_places(part: ast.expr) -> Iterator[ast.expr]:
    if isinstance(part, ast.Slice):
        if part.step is None:
            yield ast.Slice(part.lower, part.upper, ast.Constant(2))
            yield ast.Slice(part.lower, part.upper, constant(-1))
        else:
            yield ast.Slice(part.lower, part.upper)
            if whole(part.step) is not None:
                yield ast.Slice(part.lower, part.upper, constant(whole(part.step) + 1))
        if part.lower is not None or part.upper is not None:
            yield ast.Slice(None, None, part.step)
        if part.lower is not None and part.upper is not None:
            yield ast.Slice(None, part.upper, part.step)
            yield ast.Slice(part.lower, None, part.step)
        for lower in _shifted(part.lower) if part.lower is not None else (constant(1),):
            yield ast.Slice(lower, part.upper, part.step)
        for upper in _shifted(part.upper) if part.upper is not None else (constant(-1),):
            yield ast.Slice(part.lower, upper, part.step)
        if part.lower is not None and part.upper is not None:
            for shift in (1, -1):
                yield ast.Slice(_plus(part.lower, shift), _plus(part.upper, shift), part.step)
        if (part.lower is None) != (part.upper is None):
            yield ast.Slice(part.upper, part.lower, part.step)
            if part.lower is None:
                yield ast.Slice(ast.UnaryOp(ast.USub(), part.upper), None, part.step)
            else:
                yield ast.Slice(None, ast.UnaryOp(ast.USub(), part.lower), part.step)
        yield constant(0)
        yield constant(-1)
    else:
        yield from one_off(part)
        yield ast.Slice()
        for value in (0, -1, 1):
            if whole(part) != value:
                yield constant(value)
        after = one_off(part)[1]
        yield from (ast.Slice(None, part), ast.Slice(None, after), ast.Slice(part, None), ast.Slice(after, None))


def _shifted(node: ast.expr) -> tuple[ast.expr, ...]:
    value = whole(node)
    if value is not None:
        return constant(value + 1), constant(value - 1)
    return *one_off(node), constant(1), constant(-1)
