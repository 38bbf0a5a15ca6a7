"""Defines functions that mutants call: sizes of the current case, and additional steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

#: The sizes of the case on which a mutant is running, by name.
sizes_of_case: ContextVar[Mapping[str, int]] = ContextVar("sizes_of_case")


def _size(words: str) -> float:
    """A size of the current case, a product or a quotient of two, such as "h*d_head". KeyError if it has none."""
    sizes = sizes_of_case.get()
    if "*" in words:
        return math.prod(sizes[name] for name in words.split("*"))
    if "/" in words:
        above, below = words.split("/")
        return sizes[above] / sizes[below]
    return sizes[words]


def _unit(x: Any) -> Any:
    """Scale each row to length 1. It rejects masks, which nobody would scale."""
    if str(x.dtype).endswith("bool"):
        raise TypeError("a mask has no length")
    return x / (x * x).sum(-1, keepdims=True) ** 0.5


def _reread(x: Any) -> Any:
    """Reshape to the transposed shape without moving a number."""
    return x.reshape(tuple(reversed(x.shape)))


def _first_for_all(x: Any, axis: int) -> Any:
    """Replace all entries along an axis by the first."""
    if x.shape[axis] < 2:
        return x
    index = [slice(None)] * x.ndim
    index[axis] = slice(0, 1)
    return x[tuple(index)] + (x != x) if x.dtype.__str__().endswith("bool") else x[tuple(index)] + 0 * x


def _cut(x: Any) -> Any:
    """Round towards 0."""
    return x - x % 1 + (x < 0) * (x % 1 > 0)


HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (_size, _unit, _reread, _first_for_all, _cut)
}
