"""Makes the changes of an index: another entry, other ends of a slice, another order or another key of a dict."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator
from copy import deepcopy

from .change_calls import moved
from .program_edit import LIKELY, MODEL, POSSIBLE, Edit, Program, constant, edit, is_keyed, one_off, whole


def of_subscript(node: ast.Subscript, program: Program, blocks: Collection[str] = ()) -> Iterator[Edit]:
    """Yield another index, slice or entry. blocks: the names of slices."""
    if is_keyed(node):
        yield from _of_key(node, program.tree)
        return
    in_blocks, of_shape = _is_a_block(node.slice, blocks), getattr(node.value, "attr", None) == "shape"
    if isinstance(node.ctx, ast.Load) and not of_shape and not in_blocks:
        yield edit(node, node.value, "index-too-many", (None, LIKELY))
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for index, part in enumerate(parts):
        for which, option in enumerate(other_places(part)):
            if isinstance(option, ast.Slice) and (of_shape or (in_blocks and not option.lower and not option.upper)):
                continue
            if program.whose == MODEL:  # `early - 1` and `late - 1` are the same change
                group = f"{type(part).__name__} {which} {index}"
            else:
                group = f"{ast.unparse(part)} {ast.unparse(option)}"
            fields = {"part": part, "option": option, "several": len(parts) > 1}
            new = _with_part(node, index, option)
            yield edit(node, new, "index", (POSSIBLE, LIKELY), group=group, **fields)
    for first, second in itertools.combinations(range(len(parts)), 2):
        new = _with_part(_with_part(node, first, parts[second]), second, parts[first])
        if ast.dump(new) != ast.dump(node):
            group = f"{first} {second}"
            yield edit(node, new, "index-order", (POSSIBLE, POSSIBLE), group=group, of=node.value)


def _with_part(node: ast.Subscript, index: int, part: ast.expr) -> ast.Subscript:
    new = deepcopy(node)
    if isinstance(new.slice, ast.Tuple):
        new.slice.elts[index] = part
    else:
        new.slice = part
    return new


def _is_a_block(places: ast.expr, blocks: Collection[str]) -> bool:
    """Whether it selects one of the blocks that an array is cut into.

    Replacing each block by the whole array repairs whatever was wrong with the blocks, but is no repair.
    """
    parts = places.elts if isinstance(places, ast.Tuple) else [places]
    named = any(isinstance(part, ast.Name) and part.id in blocks for part in parts)
    return named or any(_begins_by_name(part) for part in parts)


def _begins_by_name(part: ast.expr) -> bool:
    """Whether it is a slice such as r : r + d."""
    return (
        isinstance(part, ast.Slice)
        and isinstance(part.lower, ast.Name)
        and isinstance(part.upper, ast.BinOp)
        and ast.unparse(part.upper.left) == part.lower.id
    )


def other_places(part: ast.expr) -> Iterator[ast.expr]:
    """Yield replacements: for an index its neighbours, the ends and slices there; for a slice other ends and steps."""
    if not isinstance(part, ast.Slice):
        before, after = one_off(part)
        yield from (before, after, ast.Slice())
        yield from (constant(value) for value in (0, -1, 1) if whole(part) != value)
        yield from (ast.Slice(None, part), ast.Slice(None, after), ast.Slice(part, None), ast.Slice(after, None))
        return
    lower, upper, step = part.lower, part.upper, part.step
    if step is None:
        yield from (ast.Slice(lower, upper, ast.Constant(2)), ast.Slice(lower, upper, constant(-1)))
    else:
        yield ast.Slice(lower, upper)
        if whole(step) is not None:
            yield ast.Slice(lower, upper, constant(whole(step) + 1))
    if lower is not None or upper is not None:
        yield ast.Slice(None, None, step)
    if lower is not None and upper is not None:
        yield from (ast.Slice(None, upper, step), ast.Slice(lower, None, step))
    for begin in _shifted(lower) if lower is not None else (constant(1),):
        yield ast.Slice(begin, upper, step)
    for end in _shifted(upper) if upper is not None else (constant(-1),):
        yield ast.Slice(lower, end, step)
    if lower is not None and upper is not None:
        yield from (ast.Slice(moved(lower, shift), moved(upper, shift), step) for shift in (1, -1))
    if (lower is None) != (upper is None):
        yield ast.Slice(upper, lower, step)
        if lower is None:
            yield ast.Slice(ast.UnaryOp(ast.USub(), upper), None, step)
            if whole(upper) == -1:
                yield ast.Slice(constant(1), None, step)
        else:
            yield ast.Slice(None, ast.UnaryOp(ast.USub(), lower), step)
    yield from (constant(0), constant(-1))


def _shifted(node: ast.expr) -> tuple[ast.expr, ...]:
    ends = () if whole(node) is not None else (constant(1), constant(-1))
    return (*reversed(one_off(node)), *ends)


def _of_key(node: ast.Subscript, tree: ast.FunctionDef) -> Iterator[Edit]:
    """Use another key of the same dict."""
    alike = [one for one in ast.walk(tree) if is_keyed(one) and ast.dump(one.value) == ast.dump(node.value)]
    for key in dict.fromkeys(one.slice.value for one in alike):
        if key != node.slice.value and isinstance(node.ctx, ast.Load):
            new = ast.Subscript(node.value, ast.Constant(key), ast.Load())
            yield edit(node, new, "key", (POSSIBLE, POSSIBLE), key=key, now=node.slice.value)
