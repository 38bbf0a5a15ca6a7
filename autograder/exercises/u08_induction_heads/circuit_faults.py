"""Finds faults in a student's induction circuit by running it on new sequences; many circuits are correct."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kit import Case, Symptom
from .circuit_form import BLOCK_KEYS, END_KEYS, form_problem
from .hand_made_circuit import run_circuit

PREFIX_MATCHING = 0.99
SEQUENCES = 4


def examine_circuit(case: Case, weights: Any) -> Symptom | None:
    """Return the first fault in what `build_induction_circuit` returned for this case, or None.

    The case's sizes describe the sequences for the run: period, repeats and seed.
    """
    vocab, n_ctx = case.args
    problem = form_problem(weights, vocab, n_ctx)
    if problem is not None:
        return problem
    weights = {**_tensors(weights, END_KEYS), "blocks": [_tensors(block, BLOCK_KEYS) for block in weights["blocks"]]}
    period = case.sizes["period"]
    tokens = _sequences(vocab, period, case.sizes["repeats"], case.sizes["seed"])
    logits, (first, second) = run_circuit(tokens, weights)
    if not torch.isfinite(logits).all():
        return Symptom("not-finite", "the logits hold NaN or infinity")
    rows = torch.arange(period, tokens.shape[1])
    if not len(rows):  # nothing repeats here, so weights that run are enough
        return None
    score = float(second[:, rows, rows - (period - 1)].mean())
    if score < PREFIX_MATCHING:
        text = f"the prefix-matching score of the second layer is {score:.2f}, not {PREFIX_MATCHING} or more"
        return Symptom(_first_layer_slip(first) or _second_layer_slip(second, period), text)
    return _prediction_problem(logits, tokens, rows[:-1])


def _tensors(weights: dict[str, Any], keys: Iterable[str]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(np.ascontiguousarray(weights[key])) for key in keys}


def _sequences(vocab: int, period: int, repeats: int, seed: int) -> Tensor:
    """Return rows of a block without repetition, repeated."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(vocab, generator=generator)[:period] for _ in range(SEQUENCES)]
    return torch.stack(rows).repeat(1, repeats)


def _prediction_problem(logits: Tensor, tokens: Tensor, rows: Tensor) -> Symptom | None:
    """Return the fault in the logits of `rows`, where the second layer attends to the right tokens, or None."""
    logits = logits[:, rows]
    guesses = logits.argmax(-1)
    clear = logits.topk(2).values.diff(dim=-1).abs().squeeze(-1) > 0
    right = (guesses == tokens[:, rows + 1]) & clear
    if right.all():
        return None
    if not clear.any():
        slug = "no-prediction"
    elif _share(guesses == tokens[:, rows]) > 0.6:
        slug = "predicts-the-current-token"
    elif _share(guesses == tokens[:, rows - 1]) > 0.6:
        slug = "predicts-the-previous-token"
    else:
        slug = "wrong-prediction"
    text = f"{int((~right).sum())} of {right.numel()} next tokens are not predicted"
    return Symptom(slug, f"the second layer attends to the right tokens, but {text}")


def _first_layer_slip(first: Tensor) -> str | None:
    """Return the fault in the first layer, assuming that it should attend to the previous token, or None."""
    rows = torch.arange(1, first.shape[-1])
    before, itself = first[:, rows, rows - 1], first[:, rows, rows]
    two_before = first[:, rows[1:], rows[1:] - 2]
    if float(before.mean()) >= 0.9:
        return None
    if float(itself.mean()) > 0.6:
        return "first-layer-looks-at-itself"
    if float(two_before.mean()) > 0.6:
        return "first-layer-two-back"
    if _share(before >= 0.9) >= 0.4:
        return "first-layer-at-some-positions"
    others = first[:, rows].clone()
    others[:, rows - 1, rows - 1] = 0
    return "first-layer-too-soft" if _share(before > others.amax(-1) + 1e-6) > 0.6 else "no-circuit"


def _second_layer_slip(second: Tensor, period: int) -> str:
    """Return why the second layer attends to the wrong positions, judging by where it attends."""
    n = second.shape[-1]
    rows = torch.arange(period, n)
    weight, key = second[:, period:].max(-1)
    right = second[:, rows, rows - (period - 1)]

    def mostly(places: Tensor) -> bool:
        return _share((key == places) & (weight > 0.6)) > 0.6

    begins, late = rows % period == 0, rows >= 2 * period
    if period > 1 and bool((right[:, ~begins] > 0.9).all()) and float(second[:, rows[begins], 0].mean()) > 0.3:
        return "first-token-of-a-block"
    if late.any() and bool((right[:, ~late & ~begins] > 0.9).all()):
        at_matches = sum(second[:, rows, (rows - period + 1 - k * period).clamp_min(0)] for k in range(n // period))
        shared = _share(weight[:, late] > 0.6) < 0.5 and float(at_matches[:, late].mean()) > 0.9
        return "matches-averaged" if shared else "earliest-match"
    if mostly(rows - period):
        return "attends-to-the-match"
    if mostly(rows):
        return "second-layer-looks-at-itself"
    if _share(right > 0.9) > 0.5 and _share((right > 0.9) | (right < 0.3)) > 0.9:
        return "second-layer-at-some-positions"
    if mostly(rows - (period - 1)) or float(right.mean()) > 0.5:
        return "too-soft"
    return "second-layer-elsewhere" if _share(weight > 0.6) > 0.5 else "second-layer-spreads"


def _share(hits: Tensor) -> float:
    return float(hits.double().mean())
