"""Finds where a student's function goes wrong: the first NaN, infinity, bad shape or dtype, negative index or error."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...judging.cases_and_expected import Posed
from ...judging.compare_results import Problem
from ...records import Call, Finding
from ...worker.encode_values import leaves
from ..finding_sentences import named, say
from ..operators.change_descriptions import text_of
from ..operators.program_edit import called
from .student_program import OwnProgram

EXPONENTIALS = ("exp", "exp2", "expm1", "exp_", "sinh", "cosh")
#: Functions that put infinity somewhere on purpose.
ON_PURPOSE = ("masked_fill", "masked_fill_", "where", "full", "full_like", "float", "tensor", "array", "nan_to_num")
#: Functions that make arrays with arbitrary numbers until something is written to them.
UNSET = ("empty", "empty_like", "new_empty")
#: Methods without arguments, and functions of modules, whose results have no gradient.
OUT_OF_GRAPH = ("detach", "detach_", "item", "numpy", "tolist")
WITHOUT_GRAPH = frozenset((("torch", "no_grad"), ("torch", "inference_mode"), ("torch", "tensor"), ("nn", "Parameter")))
#: Nodes that make arrays; a name only passes on an existing one.
MAKES = (ast.BinOp, ast.Call, ast.Subscript, ast.Attribute)

#: The steps of a run in their order: each expression and its value.
Steps = list[tuple[ast.expr, Any]]


def origin(
    posed: Posed, index: int, call: Call, problem: Problem, own: OwnProgram, right: Sequence[int]
) -> Finding | None:
    """Return a finding on the first step at which one failing case visibly goes wrong, or None.

    right: passing core cases; an index that wraps in them too is not the cause.
    """
    case = posed.cases[index]
    steps = _steps(posed, index, own)
    if problem.kind == "nan":
        given = [array for value in leaves((case.args, case.kwargs)) if (array := floats(value)) is not None]
        return None if any(np.isnan(array).any() for array in given) else _nan(steps, case.label)
    if problem.kind == "raised":
        return _raise(own.tree, steps)
    if problem.kind in ("shape", "dtype", "precision"):
        return _first_like(call, problem, steps)
    harmless = {number for i in right for number, _ in _wrapped(own.tree, _steps(posed, i, own), "")}
    wrapped = _wrapped(own.tree, steps, case.label)
    return next((finding for number, finding in wrapped if number not in harmless), None)


def _steps(posed: Posed, index: int, own: OwnProgram) -> Steps:
    nodes = {getattr(node, "number", -1): node for node in ast.walk(own.tree)}
    return [(nodes[number], value) for number, value in own.values(posed, index) if number in nodes]


def as_array(value: Any) -> np.ndarray | None:
    """Return a number, an array or the array of an encoded tensor as an array; None for anything else."""
    value = getattr(value, "array", value)
    if isinstance(value, (bool, int, float, np.generic)):
        try:
            return np.asarray(value) if np.asarray(value).dtype.kind in "biuf" else None
        except OverflowError:
            return None
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else None


def floats(value: Any) -> np.ndarray | None:
    """Return the same, but only for floating-point numbers."""
    array = as_array(value)
    return array if array is not None and array.dtype.kind == "f" else None


def _at(node: ast.expr) -> str:
    return say("step", code=text_of(node), line=node.lineno)


def _nan(steps: Steps, case: str) -> Finding | None:
    """The first step that makes NaN or infinity from finite numbers, and why."""
    latest: dict[int, np.ndarray] = {}
    seen: set[int] = set()
    for node, value in steps:
        seen.add(node.number)
        array = floats(value)
        if array is None:
            continue
        if isinstance(node, (ast.BinOp, ast.Call)) and not (isinstance(node, ast.Call) and called(node)[0] in UNSET):
            inputs = [latest[each.number] for each in inputs_of(node) if getattr(each, "number", -1) in latest]
            if not np.isfinite(array).all() and not all(each.number in seen for each in inputs_of(node)
                                                        if isinstance(each, MAKES)):  # fmt: skip
                return None  # an input that was too large to record may hold it
            power = isinstance(node, ast.Call) and called(node)[0] in EXPONENTIALS and len(inputs) == 1
            if power and np.isposinf(array).any() and not np.isposinf(inputs[0]).any():
                key = "overflow/float64" if array.dtype == np.float64 else "overflow/float32"
                return named(key, case=case, step=_at(node), most=f"{inputs[0].max():,.0f}")
            if np.isnan(array).any() and not any(np.isnan(each).any() for each in inputs):
                return _of_step("nan/step", "nan/division", case, node, latest)
            infinite = np.isposinf(array).any() and inputs and not any(np.isinf(each).any() for each in inputs)
            if infinite and not (isinstance(node, ast.Call) and called(node)[0] in ON_PURPOSE):
                return _of_step("overflow", "overflow/division", case, node, latest)
        latest[node.number] = array
    return None


def _of_step(key: str, by_zero: str, case: str, node: ast.expr, latest: dict[int, np.ndarray]) -> Finding:
    """The finding on a step; its key is `by_zero` if the step divides by 0."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        by = latest.get(getattr(node.right, "number", -1))
        if by is not None and (by == 0).any():
            place = "in float16" if by.dtype == np.float16 else "there"
            holds = say("division/number" if (by == 0).all() else "division/entries", place=place)
            return named(by_zero, case=case, step=_at(node), divisor=text_of(node.right), holds=holds)
    return named(key, case=case, step=_at(node))


def inputs_of(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the subexpressions whose values a step uses: for a call, its arguments and the object of a method."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(node, ast.Call) and child is node.func:
            if isinstance(child, ast.Attribute):
                yield child.value
        elif isinstance(child, ast.expr):
            yield child


def _first_like(call: Call, problem: Problem, steps: Steps) -> Finding | None:
    """The first step whose value has the same wrong shape or dtype as the result."""
    array = as_array(call.value[problem.leaf] if isinstance(call.value, tuple) else call.value)
    if array is None or not array.ndim:
        return None
    for node, made in steps:
        made = as_array(made)
        if made is None or not isinstance(node, MAKES):
            continue
        if problem.kind == "shape" and made.shape == array.shape:
            return Finding(None, say("first/shape", step=_at(node)))
        if problem.kind != "shape" and made.ndim and made.dtype == array.dtype:
            return Finding(None, say("first/dtype", dtype=array.dtype, step=_at(node)))
    return None


def leaves_graph(tree: ast.FunctionDef) -> list[str]:
    """Return the pieces of the program that take values out of the graph, with their lines."""
    found = []
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        name = node.func.attr if is_call else node.attr if isinstance(node, ast.Attribute) else ""
        owner = ast.unparse(node.func.value) if is_call else ""
        if (is_call and not node.args and name in OUT_OF_GRAPH) or (owner, name) in WITHOUT_GRAPH or name == "data":
            found.append(node)
    inner = {each for node in found for each in ast.walk(node) if each is not node}
    outer = sorted((each for each in found if each not in inner), key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(map(_at, outer)))


def _raise(tree: ast.FunctionDef, steps: Steps) -> Finding | None:
    """The condition under which the program itself raises an error."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
            values = [as_array(value) for step, value in steps if step is node.test]
            if any(value is not None and value.any() for value in values):
                return Finding(None, say("raises", line=node.body[0].lineno, condition=text_of(node.test)))
    return None


def _wrapped(tree: ast.FunctionDef, steps: Steps, case: str) -> Iterator[tuple[int, Finding]]:
    """(number, finding) of each computed index that wraps: a negative one, or -k where k is 0."""
    seen: dict[int, list[int]] = {}
    for node, value in steps:
        array = as_array(value)
        if array is not None and array.dtype.kind in "iu" and array.size:
            seen.setdefault(node.number, []).extend((int(array.min()), int(array.max())))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            for end in (part.lower, part.upper) if isinstance(part, ast.Slice) else (part,):
                numbers = seen.get(getattr(end, "number", -1), [])
                below = isinstance(end, ast.UnaryOp) and isinstance(end.op, ast.USub)
                wraps = {"case": case, "index": text_of(end), "step": _at(node)} if numbers else {}
                if numbers and below and max(numbers) == 0 and isinstance(part, ast.Slice):
                    yield end.number, named("own-index-wraps/zero", **wraps)
                if numbers and not below and min(numbers) < 0:
                    yield end.number, named("own-index-wraps", value=min(numbers), **wraps)
