"""Defines the argument of a function `cases(case)`, which makes each `Case` and draws whatever isn't given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...worker.encode_values import map_leaves
from .exercise_records import Case, Raises
from .named_sizes import draw_sizes, factors, length
from .random_inputs import Drawn, size

Layout = Callable[[np.ndarray], np.ndarray]


class Cases:
    """Makes the cases of one exercise under one seed.

    rng: for values that the author draws.
    usual, ranges: what sizes are drawn from: `ranges` for the sizes that it names, `usual` for the others.
    """

    def __init__(
        self,
        reference: Callable[..., Any],
        rng: np.random.Generator,
        usual: Sequence[int],
        ranges: Mapping[str, Sequence[int]],
        library: str,
    ) -> None:
        self.rng = rng
        self._name = reference.__name__
        self._usual, self._ranges, self._rounded = usual, ranges, library == "torch"
        self._parameters = inspect.signature(reference).parameters
        self._drawn = _annotated(self._parameters)
        self._known = {name for value in self._drawn.values() for axis in value.axes for name in factors(axis)}

    def draw(self, **given: Any) -> dict[str, Any]:
        """Draw arguments and sizes by name, so that you can change some and pass all on: `case("…", "…", **drawn)`."""
        arguments, sizes = self._draw(given)
        return {**sizes, **arguments}

    def __call__(
        self,
        criterion: str,
        label: str = "",
        /,
        *,
        dtype: type | None = None,
        layout: Layout | Mapping[str, Layout] | None = None,
        by_name: str = "",
        also: Mapping[str, int | str] | None = None,
        watch: int | str = 0,
        lines: int = 0,
        quiet: bool = False,
        raises: Raises | None = None,
        rtol: float | None = None,
        gradient: bool = False,
        once: bool = False,
        **given: Any,
    ) -> Case:
        """Make one case.

        label: the case in the student's words; {n} becomes the size. An empty label lists all sizes.
        given: sizes (a number, other sizes such as "n" or "h*d_head", or a sequence to choose from) and arguments (a
            value, or a `Drawn` such as `normal("B n d_k")`). Arguments that aren't given are drawn, except those with a
            default, which are left out.
        dtype: of all floating arrays.
        layout: the memory layout of arrays: one for all, or one for each argument that it names.
        by_name: optional arguments to pass by keyword, such as "axis"; the others are passed by position if possible.
        also: more sizes for messages and for `examine`, as numbers or products of sizes.
        watch: as in `Case`, or a product of sizes, such as "h*n*n".
        quiet, raises, rtol, gradient, lines, once: as in `Case`.
        Raises TypeError for a name that is neither a size nor an argument, and if an argument is missing.
        """
        arguments, sizes = self._draw(given)
        for name, value in arguments.items():
            place = layout.get(name) if isinstance(layout, Mapping) else layout
            if dtype is not None:
                value = map_leaves(value, lambda leaf: leaf.astype(dtype) if _floats(leaf) else leaf)
            if place is not None:
                value = map_leaves(value, lambda leaf, place=place: place(leaf) if _is_array(leaf) else leaf)
            arguments[name] = value
        words = label.format_map({**sizes, **arguments}) or ", ".join(f"{name} = {n}" for name, n in sizes.items())
        args, kwargs = self._passed(arguments, by_name.split())
        sizes |= {name: length(str(n), sizes) for name, n in (also or {}).items()}
        watch = length(str(watch), sizes)
        return Case(criterion, words, args, kwargs, sizes, rtol, raises, quiet, gradient, watch, lines, once)

    @property
    def sizes(self) -> list[str]:
        """Return the names of all sizes in the annotations."""
        return sorted(self._known)

    @property
    def factors(self) -> set[str]:
        """Return the sizes that are factors of a product, such as h and d_head in "h*d_head"."""
        axes = [axis for value in self._drawn.values() for axis in value.axes]
        return {name for axis in axes if "*" in axis for name in factors(axis)}

    @property
    def of_numbers(self) -> bool:
        """Return whether the function takes nothing but sizes."""
        return bool(self._drawn) and all(value.number for value in self._drawn.values())

    def _draw(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Return (arguments by name, sizes by name)."""
        values = {**self._drawn, **{name: value for name, value in given.items() if name in self._parameters}}
        sizes_given = {name: value for name, value in given.items() if name not in self._parameters}
        for name, expected in self._drawn.items():
            if values[name] is not expected:
                sizes_given = {**_read_off(expected, values[name]), **sizes_given}
                if expected.number:
                    values[name] = expected
        drawn = {name: value for name, value in values.items() if isinstance(value, Drawn)}
        axes = [axis for value in drawn.values() for axis in value.axes]
        self._known |= {name for axis in axes for name in factors(axis)}
        unknown = [name for name in sizes_given if name not in self._known]
        if unknown:
            known = ", ".join(sorted({*self._known, *self._parameters}))
            raise TypeError(f"{self._name} has no size or argument {unknown[0]!r}; it has {known}")
        sizes = draw_sizes(self.rng, axes, sizes_given, self._ranges, self._usual)
        arguments = {}
        for name in self._parameters:
            if name in drawn:
                arguments[name] = map_leaves(drawn[name].draw(self.rng, sizes), self._round)
            elif name in values:
                arguments[name] = values[name]
        return arguments, sizes

    def _round(self, value: Any) -> Any:
        """Round to float32 in torch exercises, so that float32 and float64 inputs are the same numbers."""
        return value.astype(np.float32).astype(value.dtype) if self._rounded and _floats(value) else value

    def _passed(self, arguments: dict[str, Any], by_name: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (arguments by position, arguments by keyword)."""
        args, kwargs = [], {}
        for name, parameter in self._parameters.items():
            if name not in arguments and parameter.default is parameter.empty:
                raise TypeError(f"{self._name}: no annotation says how to draw {name}, so every case must give it")
            if name not in arguments:
                by_name = [*self._parameters]
            elif name in by_name or parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[name] = arguments[name]
            else:
                args.append(arguments[name])
        return tuple(args), kwargs


def _annotated(parameters: Mapping[str, inspect.Parameter]) -> dict[str, Drawn]:
    """Return how each required argument is drawn; leave out arguments without such an annotation."""
    found = {}
    for name, parameter in parameters.items():
        said = parameter.annotation
        if isinstance(said, str):
            raise TypeError(f"{name}: {said!r} is text; leave out `from __future__ import annotations`")
        said = size(name) if said is int else said
        if isinstance(said, Drawn) and parameter.default is parameter.empty:
            found[name] = said
    return found


def _read_off(expected: Drawn, value: Any) -> dict[str, Any]:
    """Return the sizes that a value given by the author has on the axes that its parameter names."""
    if expected.number and not isinstance(value, Drawn):
        return {expected.shape: value}
    if not _is_array(value) or value.ndim != len(expected.shape.split()):
        return {}
    return {axis: n for axis, n in zip(expected.shape.split(), value.shape, strict=True) if axis.isidentifier()}


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _floats(value: Any) -> bool:
    return _is_array(value) and value.dtype.kind == "f"
