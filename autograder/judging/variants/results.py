"""One step more on a result: what was worked out, and then summed, transposed, divided by a size, passed on as weights.

Such a step needs no run of a program: it is seen on what a program answered. `steps` finds those that lead from one
array to another; whether they do so in all cases is for the caller to ask.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

Sizes = Mapping[str, int]
Numbers = (2.0, 3.0, 4.0, 8.0, 16.0, 100.0, 1000.0, 1024.0)


@dataclass(frozen=True)
class After:
    """A step behind a program. words completes "as if {the result} …", and apply takes the array and the sizes."""

    slug: str
    words: str
    apply: Callable[[np.ndarray, Sizes], np.ndarray]

    @property
    def rank(self) -> int:
        """0 for what people forget or do twice: a root, a sign, a transposition."""
        return int(not self.slug.startswith(("transposed", "softmax", "over-sqrt", "negated", "averaged", "summed")))


def steps(found: np.ndarray, wanted: np.ndarray, sizes: Sizes, close: Callable[..., bool]) -> Iterator[After]:
    """The steps that lead from `found` to `wanted`, the plainest first."""
    if found.dtype.kind not in "fiub" or wanted.dtype.kind not in "fiub" or not found.size or not wanted.size:
        return
    if found.shape == wanted.shape:
        candidates = itertools.chain(_factors(found, wanted, sizes), _of_one_shape(found, wanted))
    else:
        candidates = _of_other_shapes(found, wanted, sizes)
    for step in candidates:
        with np.errstate(all="ignore"):
            try:
                there = step.apply(found, sizes)
            except (ValueError, IndexError, TypeError, ArithmeticError):
                continue
        if there.shape == wanted.shape and close(wanted, there):
            yield step


def enumerated(found: np.ndarray, sizes: Sizes) -> Iterator[After]:
    """Steps that may be followed by another: a result that is turned or averaged, and then divided, too."""
    if found.ndim >= 2:
        yield _turned(found.ndim)
    for axis in range(found.ndim):
        yield from _gathered(found, axis, sizes)
    if found.ndim > 1:
        yield from _gathered(found, None, sizes)
    if found.dtype.kind == "f" and found.ndim:
        yield _SOFTMAX
    if found.dtype.kind in "iu":
        yield After("one-more", "were larger by 1", lambda v, sizes: v + 1)
        yield After("as-floats", "were floating-point numbers", lambda v, sizes: v.astype(np.float64))


def _named(sizes: Sizes) -> Iterator[tuple[str, str, Callable[[Sizes], float]]]:
    """(slug, words, number) of what a result may be divided by or multiplied with."""
    names = [name for name in sizes if name.isidentifier()]
    for name in names:
        yield f"sqrt-{name}", f"√{name}", lambda s, name=name: math.sqrt(s[name])
        yield name, name, lambda s, name=name: s[name]
        yield f"{name}-squared", f"{name}²", lambda s, name=name: s[name] ** 2
    for name in names:  # n - 1 in the place of n
        yield (
            f"{name}-minus-1",
            f"({name} - 1)/{name}",
            lambda s, name=name: (s[name] - 1) / s[name] if s[name] > 1 else math.nan,
        )
    for one, other in itertools.combinations(names, 2):
        yield f"{one}-{other}", f"{one}·{other}", lambda s, one=one, other=other: s[one] * s[other]
    yield "ln-2", "ln 2", lambda s: math.log(2)
    for number in Numbers:
        yield f"{number:g}", f"{number:g}", lambda s, number=number: number


def _factors(found: np.ndarray, wanted: np.ndarray, sizes: Sizes) -> Iterator[After]:
    if found.dtype.kind == "b" or wanted.dtype.kind == "b":
        return
    flat = np.asarray(found, float).ravel()
    at = int(np.abs(flat).argmax())
    if not flat[at]:
        return
    factor = float(np.asarray(wanted, float).ravel()[at]) / float(flat[at])
    if not factor or not math.isfinite(factor):
        return
    if math.isclose(factor, -1, rel_tol=1e-4):
        yield After("negated", "had the wrong sign", lambda v, sizes: -v)
    for slug, words, number in _named(sizes):
        by = float(number(sizes))
        if by in (0, 1) or not math.isfinite(by):
            continue
        if math.isclose(factor, by, rel_tol=1e-4):
            yield After(f"times-{slug}", f"were multiplied with {words}", lambda v, s, number=number: v * number(s))
        elif math.isclose(factor * by, 1, rel_tol=1e-4):
            yield After(f"over-{slug}", f"were divided by {words}", lambda v, s, number=number: v / number(s))


def _of_one_shape(found: np.ndarray, wanted: np.ndarray) -> Iterator[After]:
    if found.dtype.kind in "iu" and wanted.dtype.kind == "f":
        yield After("as-floats", "were floating-point numbers", lambda v, sizes: v.astype(np.float64))
    if found.dtype.kind == "b":
        yield After("inverted", "had True and False exchanged", lambda v, sizes: ~v)
        return
    if found.ndim >= 2 and found.shape[-1] == found.shape[-2]:
        yield _turned(found.ndim)
    for axis in range(found.ndim):
        if found.shape[axis] > 1 and np.array_equal(np.flip(wanted, axis).ravel()[:1], found.ravel()[:1]):
            yield After("reversed", "came in reverse order", lambda v, sizes, axis=axis: np.flip(v, axis))
    for number in (1, -1):
        words = f"were {'larger' if number > 0 else 'smaller'} by 1"
        yield After(f"plus-{number}", words, lambda v, sizes, number=number: v + number)
    if found.dtype.kind != "f" or wanted.dtype.kind != "f":
        return
    if found.ndim and (wanted >= 0).all():
        for axis in range(found.ndim):
            if np.allclose(wanted.sum(axis), 1, atol=1e-4):
                if axis == found.ndim - 1:
                    yield _SOFTMAX
                yield After(
                    "softmax",
                    f"went through a softmax along axis {axis}",
                    lambda v, sizes, axis=axis: _softmax(v, axis),
                )
                yield After(
                    "normalised", "were divided by their sum", lambda v, s, axis=axis: v / v.sum(axis, keepdims=True)
                )
    if found.ndim and np.allclose((wanted**2).sum(-1), 1, atol=1e-4):
        yield After("unit-length", "were brought to length 1", lambda v, s: v / np.sqrt((v**2).sum(-1, keepdims=True)))
    if found.ndim and np.allclose(wanted.mean(-1), 0, atol=1e-4):
        yield After("centred", "had their mean subtracted", lambda v, sizes: v - v.mean(-1, keepdims=True))
    yield from _BY_ENTRY


_BY_ENTRY = tuple(
    After(slug, words, lambda v, sizes, function=function: function(v))
    for slug, words, function in (
        ("absolute", "lost their signs", np.abs),
        ("negatives-cut", "had their negative entries cut to 0", lambda v: np.maximum(v, 0)),
        ("squared", "were squared", np.square),
        ("root", "went through a square root", np.sqrt),
        ("exp", "went through `exp`", np.exp),
        ("log", "went through `log`", np.log),
        ("tanh", "went through `tanh`", np.tanh),
        ("sigmoid", "went through `sigmoid`", lambda v: 1 / (1 + np.exp(-v))),
        ("rounded", "were rounded", np.round),
        ("upside-down", "were turned upside down (1 over it)", lambda v: 1 / v),
        ("from-1", "were taken from 1", lambda v: 1 - v),
    )
)


def _of_other_shapes(found: np.ndarray, wanted: np.ndarray, sizes: Sizes) -> Iterator[After]:
    if sorted(found.shape) == sorted(wanted.shape) and found.ndim >= 2:
        if found.ndim > 2 or wanted.shape == found.shape[::-1]:
            yield _turned(found.ndim)
        for order in itertools.permutations(range(found.ndim)) if 3 <= found.ndim <= 4 else ():
            if tuple(found.shape[axis] for axis in order) == wanted.shape:
                words = f"had their axes in another order ({', '.join(_axis(found, axis, sizes) for axis in order)})"
                yield After("axes-in-another-order", words, lambda v, s, order=order: np.transpose(v, order))
    if wanted.ndim < found.ndim:
        for axis in (*range(found.ndim), None):
            yield from _gathered(found, axis, sizes)
    if found.size == wanted.size:
        if [n for n in wanted.shape if n != 1] == [n for n in found.shape if n != 1]:
            if wanted.ndim > found.ndim:
                for axis in range(found.ndim + 1):
                    words = f"had an axis of length 1 too many, at place {axis}"
                    yield After("axis-too-many", words, lambda v, s, axis=axis: np.expand_dims(v, axis))
        elif wanted.ndim == 1:
            yield After("flat", "were laid out in one long row", lambda v, s: v.reshape(-1))


def _gathered(found: np.ndarray, axis: int | None, sizes: Sizes) -> Iterator[After]:
    if found.dtype.kind == "b":
        return
    over = "everything" if axis is None else f"the axis of {_axis(found, axis, sizes)}"
    for slug, words, function in (
        ("averaged", f"were averaged over {over}", np.mean),
        ("summed", f"were summed over {over}", np.sum),
        ("largest", f"were replaced by their largest over {over}", np.max),
    ):
        yield After(slug, words, lambda v, s, axis=axis, function=function: np.asarray(function(v, axis=axis)))
    if axis is not None and found.shape[axis] > 1:
        for index, word in ((0, "first"), (-1, "last")):
            yield After(
                f"{word}-only",
                f"were only the {word} along {over}",
                lambda v, s, axis=axis, index=index: np.take(v, index, axis),
            )


def _turned(ndim: int) -> After:
    words = "were transposed" if ndim == 2 else "had their last two axes exchanged"
    return After("transposed", words, lambda v, sizes: np.swapaxes(v, -1, -2))


def _softmax(v: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(v - v.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


_SOFTMAX = After("softmax", "went through a softmax", lambda v, sizes: _softmax(v, -1))


def _axis(found: np.ndarray, axis: int, sizes: Sizes) -> str:
    """The name of an axis: that of the only size that is as long, or its number."""
    names = [name for name, n in sizes.items() if n == found.shape[axis]]
    return names[0] if len(names) == 1 else f"number {axis}"
