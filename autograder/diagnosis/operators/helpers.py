"""Functions that changed model solutions call: sizes of the present case, and steps that a plain program lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

#: The sizes of the case that a mutant is just now asked about, by name.
sizes_of_case: ContextVar[Mapping[str, int]] = ContextVar("sizes_of_case")


def _size(words: str) -> float:
    """A size of the present case, a product of two or a quotient: "h*d_head". KeyError where it has none."""
    sizes = sizes_of_case.get()
    if "*" in words:
        return math.prod(sizes[name] for name in words.split("*"))
    if "/" in words:
        above, below = words.split("/")
        return sizes[above] / sizes[below]
    return sizes[words]


def _length(x: Any, axis: int = -1) -> Any:
    return (x * x).sum(axis, keepdims=True) ** 0.5


def _of_numbers(x: Any) -> Any:
    """The same; nobody does to a mask what is done to numbers."""
    if str(x.dtype).endswith("bool"):
        raise TypeError("a mask has no length, and no mean")
    return x


def _unit(x: Any) -> Any:
    """Each row with length 1."""
    return _of_numbers(x) / _length(x)


def _centred(x: Any) -> Any:
    """Each row with its mean subtracted."""
    return _of_numbers(x) - x.mean(-1, keepdims=True)


def _cosines(a: Any, b: Any) -> Any:
    """The product of two matrices, divided by the lengths of the rows of one and the columns of the other."""
    return (a / _length(a)) @ (b / _length(b, -1 if b.ndim == 1 else -2))


def _reread(x: Any) -> Any:
    """In the shape of the transposed array, without moving a number."""
    return x.reshape(tuple(reversed(x.shape)))


def _first_for_all(x: Any, axis: int) -> Any:
    """The first entry along an axis in the place of all."""
    if x.shape[axis] < 2:
        return x
    index = [slice(None)] * x.ndim
    index[axis] = slice(0, 1)
    return x[tuple(index)] + (x != x) if x.dtype.__str__().endswith("bool") else x[tuple(index)] + 0 * x


def _turned_round(x: Any) -> Any:
    """Along the first axis in reverse order."""
    order = list(range(x.shape[0] - 1, -1, -1))
    return x[order]


def _cut(x: Any) -> Any:
    """Without what comes after the point."""
    return x - x % 1 + (x < 0) * (x % 1 > 0)


def _exchanged(params: Mapping[str, Any], one: str, other: str) -> dict[str, Any]:
    """A dict whose entries with one word in their names have changed places with those with the other."""

    def partner(name: str) -> str:
        changed = name.replace(one, other) if one in name else name.replace(other, one)
        return changed if changed in params else name

    return {name: params[partner(name)] for name in params}


def _relu(x: Any) -> Any:
    return x * (x > 0)


def _silu(x: Any) -> Any:
    return x * x.sigmoid()


def _sigmoid(x: Any) -> Any:
    return x.sigmoid()


def _tanh(x: Any) -> Any:
    return x.tanh()


def _gelu(x: Any) -> Any:
    return x * (1 + (x / math.sqrt(2)).erf()) / 2


def _identity(x: Any) -> Any:
    return x


HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(_size, _length, _unit, _centred, _cosines, _reread, _first_for_all, _turned_round, _cut, _exchanged),
        *(_relu, _silu, _sigmoid, _tanh, _gelu, _identity),
    )
}
