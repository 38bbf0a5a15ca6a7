"""For the tests of the torch units' references: every case of some seeds, as float64 tensors, with what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from autograder.exercises.kit import Case
from autograder.judging.hidden_cases import Challenge
from autograder.running.torch_functions import to_torch
from autograder.worker.encode_values import map_leaves

SEEDS = range(4)


def cases(name: str) -> Iterator[tuple[Case, list[Any], Any]]:
    """(case, arguments as tensors in float64, expected value as tensors) of all ordinary cases of `name`."""

    def precise(leaf: Any) -> Any:
        return leaf.astype(np.float64) if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" else leaf

    for seed in SEEDS:
        posed = Challenge(seed).posed(name)
        for case, expected in zip(posed.cases, posed.expected, strict=True):
            if not case.gradient and case.raises is None:
                yield case, to_torch(map_leaves(list(case.args), precise)), to_torch(expected.value)


def near(one: Any, other: Any, tolerance: float = 1e-9) -> bool:
    """Equal up to `tolerance` times the largest entry."""
    one, other = torch.as_tensor(one), torch.as_tensor(other)
    scale = float(other.abs().max()) if other.numel() else 0.0
    return one.shape == other.shape and bool(torch.allclose(one, other, rtol=0, atol=tolerance * scale + 1e-12))
