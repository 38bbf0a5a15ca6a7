"""Old place of `exercises.attention_parts`, for the units that are still one module; goes with the last of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..exercises.attention_parts import *  # noqa: F403
from ..exercises.attention_parts import MASK_SLIPS as _ROWS
from ..exercises.kit import Mistake, random_mask, strided

__all__ = ["random_mask", "strided"]

MASK_SLIPS = tuple((slug, advice, options) for slug, options, advice in _ROWS)


def distinct(rng: np.random.Generator, count: int, low: int = 2, high: int = 8) -> list[int]:
    return [int(size) for size in rng.permutation(np.arange(low, high + 1))[:count]]


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0, dtype: type = np.float64) -> np.ndarray:
    return (scale * rng.standard_normal(shape)).astype(np.float32).astype(dtype)


def with_slips(right: Callable[..., Any], slips: tuple[tuple[str, str, dict[str, Any]], ...]) -> tuple[Mistake, ...]:
    return tuple(Mistake(slug, advice, partial(right, **options)) for slug, advice, options in slips)
