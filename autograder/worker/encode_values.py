"""Encodes and decodes values, as a small JSON tree and the raw bytes of the arrays in it.

Both sides use this module. The decoder never trusts the tree: a malformed one raises BadValue.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

TEXT_CAP = 2_000
ITEMS_CAP = 10_000
DEPTH_CAP = 20
#: Integers from here on, near the largest float, are described rather than sent.
INT_CAP = 2**1000
#: Limit of all arrays in one frame together.
BYTES_CAP = 48 * 2**20
#: Limit of the letters of all trees in one frame, because the header that holds them may have at most a megabyte.
LETTERS_CAP = 800_000
AXES_CAP = 16
#: Limit of one array, because entries of few bytes become large when they are compared in float64.
ENTRIES_CAP = 2**21
#: Gaps between the numbers of arrays may take this many bytes more than the numbers themselves.
SPARE_BYTES = 2**16
DTYPES = frozenset(np.dtype(code).newbyteorder("<").str for code in "?bBhHiIlLqQefdgFDG")


class BadValue(Exception):
    """Raised for a tree that describes no value."""


class _Full(Exception):
    """Raised if a value's tree has more letters than can be sent."""


@dataclass(frozen=True)
class Tensor:
    """Holds a torch tensor, decoded without torch: its values, and whether it requires a gradient."""

    array: np.ndarray
    requires_grad: bool = False


@dataclass(frozen=True)
class Foreign:
    """Holds only the type of a value that is no number, text or array, and no container of these."""

    type_name: str


def leaves(value: Any) -> Iterator[Any]:
    """Yield what tuples, lists and dicts hold, at any depth, in order; any other value is a leaf itself."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the same tuples, lists and dicts with every leaf replaced by `change(leaf)`."""
    if isinstance(value, (tuple, list)):
        items = [map_leaves(item, change) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: map_leaves(item, change) for key, item in value.items()}
    return change(value)


class Encoder:
    """Collects one frame's values: `encode` returns the tree of one, `payload` the bytes of all trees.

    arrays_for: "numpy" or "torch", the library whose arrays the other side makes of NumPy arrays.
    """

    def __init__(self, arrays_for: str = "numpy") -> None:
        self._arrays_for = arrays_for
        self._parts: list[bytes] = []
        self._size = 0
        self._letters = 0

    def payload(self) -> bytes:
        return b"".join(self._parts)

    def encode(self, value: Any) -> dict[str, Any]:
        """Return the tree of a value; one that is too large is only described, and none of its arrays is sent."""
        before = len(self._parts), self._size, self._letters
        try:
            return self._node(value, 0)
        except _Full:
            del self._parts[before[0] :]
            self._size, self._letters = before[1:]
            return {"t": "other", "type": f"{type(value).__name__} of too many items to send"[:TEXT_CAP]}

    def _node(self, value: Any, depth: int) -> dict[str, Any]:
        tree = self._tree(value, depth)
        self._letters += _letters(tree)
        if self._letters > LETTERS_CAP:
            raise _Full
        return tree

    def _tree(self, value: Any, depth: int) -> dict[str, Any]:
        if depth > DEPTH_CAP:
            return {"t": "other", "type": "something nested too deeply"}
        if value is None:
            return {"t": "none"}
        if isinstance(value, (bool, np.bool_)):
            return {"t": "bool", "v": bool(value)}
        if isinstance(value, str):  # NumPy's own kind of text as well
            return {"t": "str", "v": str(value)[:TEXT_CAP]}
        if isinstance(value, (np.matrix, np.ma.MaskedArray)):  # their operators and indexing differ
            return {"t": "other", "type": f"{type(value).__name__}, a kind of array of its own"}
        if isinstance(value, (np.generic, np.ndarray)):
            return self._array(np.asarray(value), self._arrays_for, type(value).__name__)
        if isinstance(value, int):
            return {"t": "int", "v": hex(int(value))} if abs(value) < INT_CAP else {"t": "other", "type": "huge int"}
        if isinstance(value, float):
            return {"t": "float", "v": repr(float(value))}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            try:
                plain = value.detach().cpu().resolve_conj().resolve_neg().numpy()
            except (TypeError, RuntimeError):  # a dtype or layout that NumPy does not know, such as bfloat16
                return {"t": "other", "type": f"Tensor of dtype {value.dtype}"[:TEXT_CAP]}
            tree = self._array(plain, "torch", "Tensor")
            tree["grad"] = bool(value.requires_grad)
            return tree
        if isinstance(value, (tuple, list)) and len(value) <= ITEMS_CAP:
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {"t": kind, "items": [self._node(item, depth + 1) for item in value]}
        if isinstance(value, dict) and len(value) <= ITEMS_CAP and all(isinstance(key, str) for key in value):
            return {"t": "dict", "items": {key: self._node(item, depth + 1) for key, item in value.items()}}
        if isinstance(value, dict) and len(value) <= ITEMS_CAP and all(map(_is_tuple_of_texts, value)):
            return {"t": "by tuples", "items": self._node(list(value.items()), depth + 1)}
        name = getattr(value, "__name__", None) if callable(value) and not isinstance(value, type) else None
        described = f"function {name}" if isinstance(name, str) else type(value).__name__
        return {"t": "other", "type": described[:TEXT_CAP]}

    def _array(self, array: np.ndarray, library: str, type_name: str) -> dict[str, Any]:
        if array.dtype.kind not in "biufc":
            return {"t": "other", "type": f"{type_name} of dtype {array.dtype}"[:TEXT_CAP]}
        layout = "C"
        if not array.flags.c_contiguous:
            layout = "F" if array.flags.f_contiguous else "strided"
        if array.ndim > AXES_CAP:
            return {"t": "other", "type": f"{type_name} of {array.ndim} axes, too many to send"[:TEXT_CAP]}
        if array.size > ENTRIES_CAP or self._size + array.nbytes > BYTES_CAP:
            return {"t": "other", "type": f"{type_name} of shape {array.shape}, too large to send"[:TEXT_CAP]}
        dtype = array.dtype.newbyteorder("<")
        data = np.ascontiguousarray(array, dtype).tobytes()
        tree = {
            "t": "array",
            "lib": library,
            "dtype": dtype.str,
            "shape": list(array.shape),
            "layout": layout,
            "at": self._size,
        }
        self._parts.append(data)
        self._size += len(data)
        return tree


def _is_tuple_of_texts(key: Any) -> bool:
    return isinstance(key, tuple) and all(isinstance(text, str) for text in key)


def _letters(tree: dict[str, Any]) -> int:
    """Return how many letters a node has in a header at most, without the nodes in it."""
    kind = tree["t"]
    if kind == "array":
        return 140 + 14 * len(tree["shape"])
    if kind in ("int", "float"):
        return 30 + len(tree["v"])
    texts = tree["items"] if kind == "dict" else [tree[key] for key in ("v", "type") if isinstance(tree.get(key), str)]
    return 30 + sum(2 + len(json.dumps(text)) for text in texts)


class Budget:
    """Limits the bytes of arrays decoded from one frame, so that few bytes can't become many.

    spare: how many more bytes the gaps between their numbers may take.
    """

    def __init__(self, size: int) -> None:
        self.left = size
        self.spare = size + SPARE_BYTES

    def spend(self, size: int) -> None:
        """Use up `size` bytes. Raises ValueError if fewer are left."""
        self.left -= size
        if self.left < 0:
            raise ValueError("arrays share their bytes")

    def spread(self, size: int) -> bool:
        """Return whether `size` more bytes are left for the gaps between an array's numbers; if so, use them up."""
        if size > self.spare:
            return False
        self.spare -= size
        return True


def decode(
    tree: Any,
    payload: bytes,
    build: dict[str, Any] | None = None,
    budget: Budget | None = None,
    depth: int = 0,
) -> Any:
    """Return the value that `tree` describes. Raises BadValue.

    NumPy arrays become writable arrays in the memory layout they had, and torch tensors become `Tensor`.
    build: makers for further kinds of node, kind -> function of the node; the worker uses it for generators
    and functions that its host described.
    budget: the frame's budget, if several trees share its payload.
    """
    if not isinstance(tree, dict) or depth > DEPTH_CAP + 1:
        raise BadValue("a node is no JSON object")
    budget = Budget(len(payload)) if budget is None else budget
    kind = tree.get("t")
    if build and kind in build:
        return build[kind](tree)
    try:
        if kind == "none":
            return None
        if kind == "bool":
            return tree["v"] is True
        if kind == "int":
            return int(_text(tree["v"], len(hex(-INT_CAP)) - 1), 16)
        if kind == "float":
            return float(_text(tree["v"], 64))
        if kind == "str":
            return _text(tree["v"], TEXT_CAP)
        if kind == "other":
            return Foreign(_text(tree["type"], TEXT_CAP))
        if kind == "array":
            array = _decode_array(tree, payload, budget)
            return array if tree["lib"] == "numpy" else Tensor(array, tree.get("grad") is True)
        if kind in ("tuple", "list"):
            items = [decode(item, payload, build, budget, depth + 1) for item in tree["items"]]
            return tuple(items) if kind == "tuple" else items
        if kind == "dict":
            return {str(key): decode(item, payload, build, budget, depth + 1) for key, item in tree["items"].items()}
        if kind == "by tuples":
            found = dict(decode(tree["items"], payload, build, budget, depth + 1))
            if all(map(_is_tuple_of_texts, found)):
                return found
            raise ValueError("keys")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadValue(f"a {kind} node is malformed: {type(error).__name__}") from None
    raise BadValue("a node of unknown kind")


def _is_dtype(text: Any) -> bool:
    return isinstance(text, str) and text in DTYPES


def _decode_array(tree: dict[str, Any], payload: bytes, budget: Budget) -> np.ndarray:
    if not _is_dtype(tree["dtype"]):
        raise ValueError("dtype")
    dtype = np.dtype(tree["dtype"])
    shape = tuple(tree["shape"])
    if len(shape) > AXES_CAP or not all(type(size) is int and 0 <= size < 2**40 for size in shape):
        raise ValueError("shape")
    count, start = math.prod(shape), tree["at"]
    if count > ENTRIES_CAP:
        raise ValueError("entries")
    if type(start) is not int or start < 0 or start + count * dtype.itemsize > len(payload):
        raise ValueError("bytes")
    budget.spend(count * dtype.itemsize)
    plain = np.frombuffer(payload, dtype, count, start).reshape(shape) if count else np.empty(shape, dtype)
    if tree.get("layout") == "F":
        return np.array(plain, order="F")
    if tree.get("layout") == "strided" and plain.ndim:
        larger = math.prod(_larger(shape)) * dtype.itemsize
        if budget.spread(larger - plain.nbytes):
            return part_of_larger(plain)
    return np.array(plain, order="C")


def _larger(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the larger array in which `part_of_larger` puts an array of this shape."""
    return (*(size + 1 for size in shape[:-1]), 2 * shape[-1])


def part_of_larger(array: np.ndarray) -> np.ndarray:
    """Return the same numbers as a strided view of an array that is larger along every axis."""
    roomy = np.ones(_larger(array.shape), array.dtype)
    part = roomy[(*(slice(1, None) for _ in array.shape[:-1]), slice(1, None, 2))]
    part[...] = array
    return part


def _text(value: Any, cap: int) -> str:
    if not isinstance(value, str) or len(value) > cap:
        raise ValueError("text")
    return value.encode("utf-8", "replace").decode()  # a lone surrogate can't be printed


def is_plain_container(value: Any) -> bool:
    """Return whether it is a list or dict of numbers and texts, such as the ids of a prompt, that can be modified."""
    items = value if type(value) is list else value.values() if type(value) is dict else [None]
    return all(isinstance(each, (bool, int, float, str)) for each in items)
