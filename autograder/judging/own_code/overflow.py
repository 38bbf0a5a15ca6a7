"""Where numbers that no float holds come from: an exponential of too much, a row of zeros that is divided by."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ...data import Finding
from ...worker.values import leaves
from ..posed import Posed
from ..variants.edit import called
from .flow import inputs_of
from .mend import text_of
from .program import OwnProgram
from .way import as_array

EXPONENTIALS = ("exp", "exp2", "expm1", "exp_", "sinh", "cosh")
#: The largest number whose exponential a float holds.
MOST = {"float64": "no float64 holds the exponential of 710", "float32": "no float32 holds the exponential of 89"}
#: What makes numbers.
SEEN = (ast.BinOp, ast.Call, ast.Subscript)
#: What puts infinity somewhere on purpose.
ON_PURPOSE = ("masked_fill", "masked_fill_", "where", "full", "full_like", "float", "tensor", "array", "nan_to_num")


def first_nan(posed: Posed, index: int, own: OwnProgram) -> Finding | None:
    """The first step that makes NaN or infinity of numbers, and why."""
    values, case = own.values(posed, index), posed.cases[index]
    given = [array for value in leaves((case.args, case.kwargs)) if (array := _floats(value)) is not None]
    if any(np.isnan(array).any() for array in given):
        return None
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    latest: dict[int, np.ndarray] = {}
    zeros: tuple[ast.Call, float] | None = None
    for number, value in values:
        node, array = nodes.get(number), _floats(value)
        if array is None:
            continue
        if isinstance(node, (ast.BinOp, ast.Call)):
            inputs = [latest[each.number] for each in inputs_of(node) if getattr(each, "number", -1) in latest]
            where = f"In the case “{case.label}” "
            if isinstance(node, ast.Call) and called(node)[0] in EXPONENTIALS and len(inputs) == 1:
                if np.isposinf(array).any() and not np.isposinf(inputs[0]).any():
                    most = MOST.get(str(array.dtype), MOST["float32"])
                    reaches = f"what goes in there reaches {inputs[0].max():,.0f}, and {most}"
                    return Finding("overflow", f"{where}{_at(node)} becomes infinite: {reaches}.")
                if zeros is None and (highest := _highest_of_lost_rows(inputs[0], array)) is not None:
                    zeros = node, highest
            if np.isnan(array).any() and not any(np.isnan(each).any() for each in inputs):
                return Finding("nan", where + _of_nan(node, latest, zeros))
            if _made_infinite(node, array, inputs):
                return Finding("overflow", f"{where}{_at(node)} becomes infinite{_divisor(node, latest)}.")
        latest[number] = array
    return None


def _floats(value: object) -> np.ndarray | None:
    array = as_array(value)
    return array if array is not None and array.dtype.kind == "f" else None


def _at(node: ast.expr) -> str:
    return f"{text_of(node)} in line {node.lineno}"


def _highest_of_lost_rows(given: np.ndarray, made: np.ndarray) -> float | None:
    """The highest of what goes into rows that come out as 0 alone, though all that goes in is finite."""
    if given.shape != made.shape or not made.size or not made.ndim or made.shape[-1] == 1:
        return None
    lost = (made == 0).all(axis=-1) & np.isfinite(given).any(axis=-1) & ~np.isnan(given).any(axis=-1)
    return float(given.max(axis=-1)[lost].max()) if lost.any() else None


def lost_rows(posed: Posed, wrong: Sequence[int], own: OwnProgram) -> Finding | None:
    """An exponential that is 0 in whole rows in every one of these cases, and what was taken off there.

    Of what is done block by block nothing is said: a block may lie far below another.
    """
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    found = [_lost_at(own.values(posed, index), nodes) for index in wrong]
    if not found or not all(found):
        return None
    node, highest = found[0]
    if any(other is not node for other, _ in found):
        return None
    words = (
        f"In the case “{posed.cases[wrong[0]].label}” {_lost(node, highest)}. Nothing is left there to be shared out."
    )
    return Finding("underflow", words)


def _lost_at(values: Sequence[tuple[int, object]], nodes: Mapping[int, ast.AST]) -> tuple[ast.Call, float] | None:
    times, latest = Counter(number for number, _ in values), {}
    for number, value in values:
        node, array = nodes.get(number), _floats(value)
        if array is None:
            continue
        latest[number] = array
        if isinstance(node, ast.Call) and called(node)[0] in EXPONENTIALS and times[number] == 1:
            inputs = [latest[each.number] for each in inputs_of(node) if getattr(each, "number", -1) in latest]
            highest = _highest_of_lost_rows(inputs[0], array) if len(inputs) == 1 else None
            if highest is not None:
                return node, highest
    return None


def _of_nan(node: ast.expr, latest: Mapping[int, np.ndarray], zeros: tuple[ast.Call, float] | None) -> str:
    divided = _divisor(node, latest)
    if zeros is None or not divided:
        known = all(getattr(each, "number", -1) in latest for each in inputs_of(node) if isinstance(each, SEEN))
        said = "; before, there is none" if known or divided else ", or from what goes into it"
        return f"NaN comes from {_at(node)}{divided}{said}."
    return f"{_lost(*zeros)}. So {_at(node)} is 0 / 0, which is NaN."


def _lost(power: ast.Call, highest: float) -> str:
    given = power.func.value if called(power)[1] and isinstance(power.func, ast.Attribute) else power.args[0]
    less = (each for each in ast.walk(given) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub))
    off = next((f": what is taken off, {text_of(each.right)}, is far above all in such a row" for each in less), "")
    return f"whole rows of {_at(power)} are 0, as nothing that goes in there is above {highest:,.0f}{off}"


def _divisor(node: ast.expr, latest: Mapping[int, np.ndarray]) -> str:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return ""
    by = latest.get(getattr(node.right, "number", -1))
    return f", where {text_of(node.right)} has become 0" if by is not None and (by == 0).any() else ""


def _made_infinite(node: ast.expr, array: np.ndarray, inputs: Sequence[np.ndarray]) -> bool:
    if not np.isposinf(array).any() or any(np.isinf(each).any() for each in inputs) or not inputs:
        return False
    return not (isinstance(node, ast.Call) and called(node)[0] in ON_PURPOSE)
