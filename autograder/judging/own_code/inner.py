"""The steps within a step: what somebody who writes a softmax or a variance out meets on the same way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..variants.edit import called

Axis = int | tuple[int, ...] | None


def _softmax(x: np.ndarray, axis: Axis) -> Iterator[np.ndarray]:
    for one in (x, x - x.max(axis=axis, keepdims=True), x - x.max()):
        yield one
        powers = np.exp(one)
        sums = powers.sum(axis=axis, keepdims=True)
        yield from (powers, sums, np.log(sums))


def _variance(x: np.ndarray, axis: Axis) -> Iterator[np.ndarray]:
    deviations = x - x.mean(axis=axis, keepdims=True)
    yield from (deviations, deviations**2, (deviations**2).sum(axis=axis), (deviations**2).mean(axis=axis))
    yield from (x**2, (x**2).mean(axis=axis))


def _norm(x: np.ndarray, axis: Axis) -> Iterator[np.ndarray]:
    yield from (x**2, (x**2).sum(axis=axis))


def _mean(x: np.ndarray, axis: Axis) -> Iterator[np.ndarray]:
    yield x.sum(axis=axis)


WITHIN: dict[str, Callable[[np.ndarray, Axis], Iterator[np.ndarray]]] = {
    **dict.fromkeys(("softmax", "log_softmax", "logsumexp"), _softmax),
    **dict.fromkeys(("var", "std"), _variance),
    **dict.fromkeys(("norm", "matrix_norm", "vector_norm"), _norm),
    "mean": _mean,
}


def steps_within(tree: ast.FunctionDef, kept: Sequence[tuple[int, Any]]) -> Iterator[np.ndarray]:
    """What the noted steps of a function are made of. kept: the values, NumPy's, in the order in which they came."""
    nodes = {getattr(node, "number", -1): node for node in ast.walk(tree)}
    latest: dict[int, Any] = {}
    for number, value in kept:
        latest[number] = value
        node = nodes.get(number)
        with np.errstate(all="ignore"):
            if isinstance(node, ast.Call):
                yield from _of_call(node, latest)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult)):
                yield from _of_scaling(node, latest)


def _of_call(node: ast.Call, latest: dict[int, Any]) -> Iterator[np.ndarray]:
    name, method = called(node)
    source = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
    x = _array(source, latest)
    if name not in WITHIN or x is None or x.dtype.kind != "f" or not x.size:
        return
    rest = node.args if method else node.args[1:]
    given = [keyword.value for keyword in node.keywords if keyword.arg in ("axis", "dim")] or rest
    try:
        axis = ast.literal_eval(given[0]) if given else None
        yield from WITHIN[name](x, axis)
    except (ValueError, TypeError):  # an axis that is worked out, or none of this array
        return


def _of_scaling(node: ast.BinOp, latest: dict[int, Any]) -> Iterator[np.ndarray]:
    """(A / c) @ B and A @ (B / c) for A @ B / c."""
    scale = _array(node.right, latest)
    if not isinstance(node.left, ast.BinOp) or not isinstance(node.left.op, ast.MatMult) or scale is None:
        return
    if scale.size == 1:
        for side in (_array(node.left.left, latest), _array(node.left.right, latest)):
            if side is not None:
                yield side / scale if isinstance(node.op, ast.Div) else side * scale


def _array(node: ast.expr | None, latest: dict[int, Any]) -> np.ndarray | None:
    value = latest.get(getattr(node, "number", -1))
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic, int, float)) else None
    return array if array is not None and array.dtype.kind in "biuf" else None
