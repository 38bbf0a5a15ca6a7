"""Unit 8: repeated sequences, head scores, circuits, ablation, and an induction circuit set by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..exercise import Case, Exercise, Leaf, Mistake, Rng
from .hand_made_circuits import CIRCUIT_MISTAKES, build_circuit, draw_circuits, examine_circuit
from .torch_parts import distinct, normal, strided, with_slips

UNIT = "08_induction_heads"


# ---------------------------------------------------------------------------------------------------------------------
# repeated_sequences


def _repeated_sequences(batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator) -> Tensor:
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.unsqueeze(1).expand(batch, repeats, period).flatten(1)


def _draw_repeated_sequences(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, batch: int, period: int, repeats: int, vocab: int) -> Case:
        sizes = {"B": batch, "period": period, "repeats": repeats, "vocab": vocab}
        return Case(criterion, label, (batch, period, repeats, vocab, Rng(int(rng.integers(2**31)))), sizes=sizes)

    cases = []
    for vocab in (int(rng.integers(11, 30)), int(rng.integers(50, 200)), int(rng.integers(11, 30))):
        batch, period, repeats = distinct(rng, 3, 3, 8)
        cases.append(case("values", f"{batch} rows of {repeats} blocks of {period}", batch, period, repeats, vocab))
    batch, period, repeats = distinct(rng, 3, 3, 8)
    return [
        *cases,
        case("values", "two repeats", batch, period, 2, 40),
        case("edge cases", "a single row", 1, period, repeats, 30),
        case("edge cases", "blocks of one token", batch, 1, repeats, 30),
        case("edge cases", "each block once", batch, period, 1, 30),
        case("edge cases", "a vocabulary of one token", batch, period, repeats, 1),
    ]


def _repeated(
    batch: int,
    period: int,
    repeats: int,
    vocab_size: int,
    generator: torch.Generator | None,
    *,
    shape: Callable[[int, int, int], tuple[int, int]] = lambda b, p, r: (b, p),
    low: int = 0,
    high: int = 0,
    seeded: bool = True,
    repeat: Callable[[Tensor, int], Tensor] = lambda block, r: block.repeat(1, r),
) -> Any:
    source = generator if seeded else torch.Generator().manual_seed(0)
    block = torch.randint(low, vocab_size + high, shape(batch, period, repeats), generator=source)
    return repeat(block, repeats)


def _drawn_for_each_repeat(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> Tensor:
    return torch.cat([torch.randint(vocab_size, (batch, period), generator=generator) for _ in range(repeats)], 1)


def _second_draw(batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator) -> Tensor:
    torch.randint(vocab_size, (batch, period), generator=generator)
    return _repeated_sequences(batch, period, repeats, vocab_size, generator)


def _without_repetition(batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator) -> Tensor:
    size = max(vocab_size, period)
    rows = [torch.randperm(size, generator=generator)[:period] for _ in range(batch)]
    return torch.stack(rows).repeat(1, repeats)


_REPEATED_SEQUENCES = Exercise(
    name="repeated_sequences",
    unit=UNIT,
    returns=Leaf("int array", "the tokens", exactly="int64"),
    reference=_repeated_sequences,
    draw=_draw_repeated_sequences,
    credit={"values": 0.7, "edge cases": 0.3},
    mistakes=(
        *with_slips(
            _repeated,
            (
                (
                    "each-token-repeated",
                    "Each token is repeated before the next one comes. Repeat the block as a whole.",
                    {"repeat": lambda block, r: block.repeat_interleave(r, 1)},
                ),
                (
                    "rows-repeated",
                    "The rows are repeated, so the batch grows. Repeat along the tokens.",
                    {"repeat": lambda block, r: block.repeat(r, 1)},
                ),
                (
                    "rows-and-tokens-repeated",
                    "Rows and tokens are both repeated. The batch keeps its size.",
                    {"repeat": lambda block, r: block.repeat(r, r)},
                ),
                (
                    "same-block-in-all-rows",
                    "All rows hold the same block. Draw one for each row.",
                    {"repeat": lambda block, r: block[:1].expand_as(block).repeat(1, r)},
                ),
                (
                    "one-block-drawn",
                    "One block is drawn for the whole batch. Draw (batch, period) tokens.",
                    {"shape": lambda b, p, r: (1, p), "repeat": lambda block, r: block.repeat(1, r)},
                ),
                (
                    "not-repeated",
                    "All tokens are drawn, so nothing is repeated. Draw one block and repeat it.",
                    {"shape": lambda b, p, r: (b, p * r), "repeat": lambda block, r: block},
                ),
                ("one-block-only", "The block stands there only once.", {"repeat": lambda block, r: block}),
                (
                    "one-repeat-too-many",
                    "There is one block too many: `repeats` counts all of them, the first included.",
                    {"repeat": lambda block, r: block.repeat(1, r + 1)},
                ),
                (
                    "one-repeat-too-few",
                    "There is one block too few: `repeats` counts all of them, the first included.",
                    {"repeat": lambda block, r: block.repeat(1, r)[:, : block.shape[1] * (r - 1)]},
                ),
                (
                    "generator-ignored",
                    "The tokens are not drawn with the generator that was handed in.",
                    {"seeded": False},
                ),
                (
                    "token-zero-missing",
                    "Token 0 is never drawn: ids run from 0 to vocab_size − 1.",
                    {"low": 1, "high": 1, "repeat": lambda block, r: block.repeat(1, r)},
                ),
                (
                    "drawn-from-one",
                    "The draw begins at id 1, so token 0 never comes. Ids run from 0 to vocab_size − 1.",
                    {"low": 1},
                ),
                (
                    "one-id-too-many",
                    "An id as large as vocab_size can be drawn: ids run from 0 to vocab_size − 1.",
                    {"high": 1},
                ),
                (
                    "period-and-repeats-swapped",
                    "Period and repeats have changed places.",
                    {"shape": lambda b, p, r: (b, r), "repeat": lambda block, r: block.repeat(1, r)},
                ),
                (
                    "drawn-transposed",
                    "The blocks are drawn as (period, batch) and turned. Draw (batch, period): else other tokens come.",
                    {"shape": lambda b, p, r: (p, b), "repeat": lambda block, r: block.T.repeat(1, r)},
                ),
                (
                    "blocks-kept-apart",
                    "The blocks stand on an axis of their own. The result has two axes.",
                    {"repeat": lambda block, r: block.unsqueeze(1).expand(-1, r, -1)},
                ),
                (
                    "mirrored-repeats",
                    "Every second block runs backwards. Repeat it in the same order.",
                    {
                        "repeat": lambda block, r: torch.cat(
                            [block if i % 2 == 0 else block.flip(1) for i in range(r)], 1
                        )
                    },
                ),
                (
                    "float-tokens",
                    "The tokens are floating numbers; ids are whole ones.",
                    {"repeat": lambda b, r: b.repeat(1, r) * 1.0},
                ),
            ),
        ),
        Mistake(
            "tokens-without-repetition",
            "The tokens of a block are drawn without repetition. Here a block may hold a token twice.",
            _without_repetition,
        ),
        Mistake(
            "drawn-anew-for-each-repeat",
            "Every block is drawn anew, so nothing comes back. Draw once, and repeat what was drawn.",
            _drawn_for_each_repeat,
        ),
        Mistake(
            "fixed-seed",
            "The draw begins from a seed of its own. Whoever hands in a generator has chosen where it stands.",
            lambda batch, period, repeats, vocab_size, generator: _repeated_sequences(
                batch, period, repeats, vocab_size, torch.Generator().manual_seed(42)
            ),
        ),
        Mistake(
            "first-draw-thrown-away",
            "A draw goes before the one that is used, so other tokens come. Ask the generator once.",
            _second_draw,
        ),
        Mistake(
            "rounded-fractions",
            "Fractions are drawn and rounded down to ids, so other tokens come. Draw whole numbers.",
            lambda batch, period, repeats, vocab_size, generator: (
                (torch.rand(batch, period, generator=generator) * vocab_size).long().repeat(1, repeats)
            ),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# previous_token_score and prefix_matching_score


def _attention_map(rng: np.random.Generator, *shape: int, dtype: type = np.float64, causal: bool = True) -> np.ndarray:
    logits = 1.5 * rng.standard_normal(shape)
    if causal:
        logits = np.where(np.tri(shape[-1], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights.astype(np.float32).astype(dtype)


def _head(rng: np.random.Generator, n: int, offset: int) -> np.ndarray:
    """A causal map most of whose weight lies `offset` positions back."""
    weights = 0.2 * _attention_map(rng, n, n)
    rows = np.arange(offset, n)
    weights[rows, rows - offset] += 0.8
    weights[:offset] *= 5
    return weights


def _mean_of_band(weights: Tensor, offset: int, first: int) -> Tensor:
    n = weights.shape[-1]
    rows = torch.arange(min(first, n), n)
    if not len(rows):
        return weights.new_zeros(weights.shape[:-2])
    return weights[..., rows, rows - offset].mean(-1)


def _previous_token_score(weights: Tensor) -> Tensor:
    return _mean_of_band(weights, 1, 1)


def _prefix_matching_score(weights: Tensor, period: int) -> Tensor:
    return _mean_of_band(weights, period - 1, period)


def _draw_previous_token_score(rng: np.random.Generator) -> list[Case]:
    B, h, n = distinct(rng, 3, 3, 9)

    def case(criterion: str, label: str, weights: np.ndarray) -> Case:
        return Case(criterion, label, (weights,), sizes={"n": weights.shape[-1]})

    return [
        case("values", f"{B} sequences, {h} heads, n = {n}", _attention_map(rng, B, h, n, n)),
        case("values", "float32", _attention_map(rng, h, B, n + 1, n + 1, dtype=np.float32)),
        case("values", "a head that looks at the token before", np.stack([_head(rng, n + 2, 1), _head(rng, n + 2, 3)])),
        case("values", "not contiguous", strided(_attention_map(rng, B, n + 3, n + 3))),
        case("not causal", "weights on later tokens", _attention_map(rng, B, h, n, n, causal=False)),
        case("axes", "one map", _attention_map(rng, n, n)),
        case("axes", "three leading axes", _attention_map(rng, 2, B, h, n, n)),
        case("edge cases", "two tokens (n = 2)", _attention_map(rng, B, h, 2, 2)),
        case("edge cases", "a single token (n = 1)", np.ones((B, h, 1, 1))),
    ]


def _draw_prefix_matching_score(rng: np.random.Generator) -> list[Case]:
    B, h = distinct(rng, 2, 2, 4)
    period = int(rng.integers(3, 6))

    def case(criterion: str, label: str, weights: np.ndarray, p: int) -> Case:
        return Case(criterion, label, (weights, p), sizes={"n": weights.shape[-1], "period": p})

    long, odd = 3 * period, 2 * period + int(rng.integers(1, period))
    head = np.stack([_head(rng, long, offset) for offset in (period - 1, period, 1, 0)])
    return [
        case("values", f"n = {long}, period {period}", _attention_map(rng, B, h, long, long), period),
        case("values", "a head that does it, and three that do not", head, period),
        case("values", "float32", _attention_map(rng, h, B, 2 * period, 2 * period, dtype=np.float32), period),
        case("values", "not contiguous", strided(_attention_map(rng, B, 4 * period, 4 * period)), period),
        case("not causal", "weights on later tokens", _attention_map(rng, B, h, long, long, causal=False), period),
        case("broken blocks", f"n = {odd} is no multiple of {period}", _attention_map(rng, B, h, odd, odd), period),
        case("broken blocks", "one token more than a period", _attention_map(rng, B, 6, 6), 5),
        case("axes", "one map", _attention_map(rng, long, long), period),
        case("axes", "three leading axes", _attention_map(rng, 2, B, h, odd, odd), period),
        case("edge cases", "a period of one token", _attention_map(rng, B, h, 7, 7), 1),
        case("edge cases", "a period of two tokens", _attention_map(rng, B, h, 7, 7), 2),
        case("edge cases", "as many tokens as the period", _attention_map(rng, B, h, 6, 6), 6),
        case("edge cases", "fewer tokens than the period", _attention_map(rng, B, h, 4, 4), 6),
    ]


def _band(
    weights: Tensor,
    offset: int,
    first: int,
    *,
    by: Callable[[Tensor, int], Tensor] = lambda band, n: band.mean(-1),
    nan: bool = False,
    after: Callable[[Tensor], Tensor] = lambda score: score,
    reduce: bool = False,
) -> Tensor:
    """The mean over rows from `first` on of the weight `offset` columns to the left, with a place for every slip."""
    n = weights.shape[-1]
    last = n + min(offset, 0)
    rows = torch.arange(min(max(first, offset, 0), last), last)
    if not len(rows):
        score = weights.new_full(weights.shape[:-2], math.nan if nan else 0.0)
    else:
        score = by(weights[..., rows, rows - offset], n)
    return after(score.mean() if reduce else score)


def _previous(offset: int = 1, first: int = 1, turned: bool = False, **slips: Any) -> Callable[..., Tensor]:
    return lambda weights: _band(weights.mT if turned else weights, offset, first, **slips)


_LOWER = "The sum of all weights before the diagonal is taken, not of those just before it."

_PREVIOUS_TOKEN_SCORE = Exercise(
    name="previous_token_score",
    unit=UNIT,
    returns=Leaf("float array", "the score"),
    reference=_previous_token_score,
    draw=_draw_previous_token_score,
    credit={"values": 0.5, "not causal": 0.1, "axes": 0.2, "edge cases": 0.1, "gradients": 0.1},
    mistakes=(
        Mistake(
            "looks-ahead",
            "The weights on the next token are averaged. Row i belongs to query i: the token before is column i − 1.",
            _previous(turned=True),
        ),
        Mistake("looks-at-itself", "The diagonal is averaged: the attention of each token to itself.", _previous(0, 0)),
        Mistake(
            "looks-at-itself-but-first",
            "The attention of each token to itself is averaged, not to the one before.",
            _previous(0, 1),
        ),
        Mistake("two-back", "The weights two tokens back are averaged.", _previous(2, 2)),
        Mistake(
            "divided-by-n",
            "The sum is divided by n. How many positions have a token before them?",
            _previous(by=lambda band, n: band.sum(-1) / n),
        ),
        Mistake("sum-not-mean", "The weights are summed; take their mean.", _previous(by=lambda band, n: band.sum(-1))),
        Mistake("maximum", "The largest weight is taken; take the mean.", _previous(by=lambda band, n: band.amax(-1))),
        Mistake("minimum", "The smallest weight is taken; take the mean.", _previous(by=lambda band, n: band.amin(-1))),
        Mistake("median", "The median is taken; take the mean.", _previous(by=lambda band, n: band.median(-1).values)),
        Mistake(
            "second-position-left-out",
            "Position 1 is left out, though it has a token before it.",
            _previous(1, 2),
        ),
        Mistake(
            "last-position-left-out",
            "The last position is left out, though it has a token before it.",
            _previous(by=lambda band, n: band[..., :-1].mean(-1) if n > 2 else band.mean(-1) * 0),
        ),
        Mistake(
            "not-averaged",
            "One number per position comes back; average over the positions.",
            _previous(by=lambda band, n: band),
        ),
        Mistake(
            "leading-axes-averaged",
            "The leading axes are averaged away: one score per map is asked for.",
            _previous(reduce=True),
        ),
        Mistake(
            "nan-for-one-token", "A single token gives NaN: the mean of nothing. It is to be 0.", _previous(nan=True)
        ),
        Mistake(
            "one-for-one-token",
            "A single token has none before it: its score is 0.",
            lambda w: _previous_token_score(w) + (w.shape[-1] == 1),
        ),
        Mistake(
            "share-of-peaks",
            "The positions at which the token before gets most are counted. Take the mean of the weights.",
            lambda w: (
                (w.argmax(-1)[..., 1:] == torch.arange(w.shape[-1] - 1)).to(w.dtype).sum(-1) / max(w.shape[-1] - 1, 1)
            ),
        ),
        Mistake("all-earlier-tokens", _LOWER, lambda w: w.tril(-1).sum((-1, -2)) / max(w.shape[-1] - 1, 1)),
        Mistake(
            "first-token",
            "The weights on the first token are averaged.",
            lambda w: w[..., 1:, 0].sum(-1) / max(w.shape[-1] - 1, 1),
        ),
        Mistake(
            "first-map-only",
            "Only the first map is looked at.",
            lambda w: _previous_token_score(w.reshape(-1, *w.shape[-2:])[0]),
        ),
        Mistake(
            "wrong-axes",
            "The diagonal of the first two axes is taken. The maps stand on the last two.",
            lambda w: torch.diagonal(w, -1).mean(-1),
        ),
        Mistake(
            "last-position-only",
            "Only the last position is looked at. Average over all that have a token before them.",
            _previous(by=lambda band, n: band[..., -1]),
        ),
        Mistake(
            "wraps-around",
            "The first position is counted with its weight on the last token. It has no token before it.",
            lambda w: w.roll(1, -1).diagonal(0, -2, -1).mean(-1),
        ),
        Mistake(
            "first-position-counted",
            "The first position is counted with its weight on itself. It has no token before it.",
            lambda w: (w.diagonal(-1, -2, -1).sum(-1) + w[..., 0, 0]) / w.shape[-1],
        ),
    ),
    library="torch",
)


def _prefix(
    offset: Callable[[int], int] = lambda p: p - 1,
    first: Callable[[int], int] = lambda p: p,
    turned: bool = False,
    **slips: Any,
) -> Callable[..., Tensor]:
    return lambda weights, period: _band(weights.mT if turned else weights, offset(period), first(period), **slips)


def _only_whole_blocks(weights: Tensor, period: int) -> Tensor:
    whole = weights.shape[-1] // period * period
    return _prefix_matching_score(weights[..., :whole, :whole], period)


def _any_repeat(weights: Tensor, period: int) -> Tensor:
    n, total = weights.shape[-1], weights.new_zeros(weights.shape[:-2])
    for i in range(period, n):
        total = total + weights[..., i, (i - period + 1) % period : i : period].sum(-1)
    return total / max(n - period, 1)


def _share_of_matches(weights: Tensor, period: int) -> Tensor:
    peaks = weights.argmax(-1, keepdim=True) == torch.arange(weights.shape[-1])
    return _prefix_matching_score(peaks.to(weights.dtype), period)


_PREFIX_MATCHING_SCORE = Exercise(
    name="prefix_matching_score",
    unit=UNIT,
    returns=Leaf("float array", "the score"),
    reference=_prefix_matching_score,
    draw=_draw_prefix_matching_score,
    credit={"values": 0.45, "not causal": 0.1, "broken blocks": 0.15, "axes": 0.1, "edge cases": 0.1, "gradients": 0.1},
    mistakes=(
        Mistake(
            "attends-to-the-match",
            "The weights on the current token's earlier self are averaged. The head looks at the token after it.",
            _prefix(lambda p: p),
        ),
        Mistake(
            "one-too-far",
            "The weights on the token before the match are averaged. The induction head looks at the token after it.",
            _prefix(lambda p: p + 1),
        ),
        Mistake(
            "first-repeat-counted",
            "The first block is counted, where nothing has been seen before. Count from position `period` on.",
            _prefix(first=lambda p: 0),
        ),
        Mistake(
            "starts-one-late",
            "Position `period` is left out: there the first token comes back.",
            _prefix(first=lambda p: p + 1),
        ),
        Mistake("starts-a-period-late", "The second block is left out.", _prefix(first=lambda p: 2 * p)),
        Mistake(
            "two-less-than-a-period",
            "The weights are read two short of a period back; count the offset again.",
            _prefix(lambda p: p - 2),
        ),
        Mistake(
            "transposed",
            "Queries and keys have changed places: row i holds the weights of query i.",
            _prefix(turned=True),
        ),
        Mistake(
            "divided-by-n",
            "The sum is divided by n. Over how many positions does it run?",
            _prefix(by=lambda band, n: band.sum(-1) / n),
        ),
        Mistake("sum-not-mean", "The weights are summed; take their mean.", _prefix(by=lambda band, n: band.sum(-1))),
        Mistake("maximum", "The largest weight is taken; take the mean.", _prefix(by=lambda band, n: band.amax(-1))),
        Mistake(
            "not-averaged",
            "One number per position comes back; average over the positions.",
            _prefix(by=lambda band, n: band),
        ),
        Mistake(
            "leading-axes-averaged",
            "The leading axes are averaged away: one score per map is asked for.",
            _prefix(reduce=True),
        ),
        Mistake(
            "nan-without-repeat",
            "Without a repeat it gives NaN: the mean of nothing. It is to be 0.",
            _prefix(nan=True),
        ),
        Mistake("previous-token", "The token before is looked at, whatever the period.", _prefix(lambda p: 1)),
        Mistake("looks-at-itself", "The attention of each token to itself is averaged.", _prefix(lambda p: 0)),
        Mistake(
            "whole-blocks-only",
            "A last block that is not whole is left out. Every position from `period` on counts.",
            _only_whole_blocks,
        ),
        Mistake(
            "second-block-only",
            "Only the second block is counted. Every position from `period` on counts.",
            lambda w, period: _prefix_matching_score(w[..., : 2 * period, : 2 * period], period),
        ),
        Mistake(
            "all-earlier-matches",
            "The weights on all earlier occurrences are added. Only the one of a period ago counts.",
            _any_repeat,
        ),
        Mistake(
            "last-position-left-out",
            "The last position is left out, though it has a token one period ago.",
            lambda w, period: (
                _prefix_matching_score(w[..., :-1, :-1], period)
                if w.shape[-1] > period + 1
                else _prefix_matching_score(w, period) * 0
            ),
        ),
        Mistake(
            "share-of-peaks",
            "The positions at which the match gets most are counted. Take the mean of the weights.",
            _share_of_matches,
        ),
        Mistake(
            "repeats-for-period",
            "The number of blocks stands where their length belongs: by how many positions does a token come back?",
            lambda w, period: _prefix_matching_score(w, max(w.shape[-1] // period, 1)),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# ov_circuit


def _ov_circuit(W_E: Tensor, W_V: Tensor, W_O: Tensor, W_U: Tensor) -> Tensor:
    return torch.einsum("tm,mv,vk,ku->tu", W_E, W_V, W_O, W_U)


def _draw_ov_circuit(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, vocab: int, d_model: int, d_v: int, dtype: type = np.float64) -> Case:
        shapes = (vocab, d_model), (d_model, d_v), (d_v, d_model), (d_model, vocab)
        args = tuple(normal(rng, *shape, dtype=dtype) for shape in shapes)
        return Case(criterion, label, args, sizes={"vocab": vocab, "d_model": d_model, "d_v": d_v})

    d_v, d_model, vocab = sorted(distinct(rng, 3, 3, 12))
    other = distinct(rng, 3, 3, 12)
    square = case("edge cases", "all sizes equal", 5, 5, 5)
    strided_args = tuple(strided(array) for array in case("values", "", vocab, d_v, d_model).args)
    return [
        case("values", f"vocab = {vocab}, d_model = {d_model}, d_v = {d_v}", vocab, d_model, d_v),
        case("values", "other sizes", *other),
        case("values", "float32", d_model, vocab, d_v, np.float32),
        Case("values", "not contiguous", strided_args, sizes={"vocab": vocab, "d_model": d_v, "d_v": d_model}),
        square,
        case("edge cases", "one value feature (d_v = 1)", vocab, d_model, 1),
        case("edge cases", "a single token", 1, d_model, d_v),
    ]


_OV_CIRCUIT = Exercise(
    name="ov_circuit",
    unit=UNIT,
    returns=Leaf("float array", "the circuit"),
    reference=_ov_circuit,
    draw=_draw_ov_circuit,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake(
            "transposed-circuit",
            "Rows and columns have changed places: a row belongs to the token attended to, a column to a logit.",
            lambda E, V, out, U: (E @ V @ out @ U).T,
        ),
        Mistake(
            "unembedding-missing", "The result is not in logits yet: W_U is missing.", lambda E, V, out, U: E @ V @ out
        ),
        Mistake(
            "embedding-missing",
            "The result does not begin with tokens: W_E is missing.",
            lambda E, V, out, U: V @ out @ U,
        ),
        Mistake(
            "output-only",
            "W_V is missing: the head writes values, not embeddings.",
            lambda E, V, out, U: E @ out.T @ out @ U,
        ),
        Mistake(
            "values-transposed",
            "W_V and W_O are transposed. Tokens are rows here, so weights act from the right as they are.",
            lambda E, V, out, U: E @ out.T @ V.T @ U,
        ),
        Mistake(
            "values-unembedded-twice",
            "W_V stands there twice, once in place of W_O.",
            lambda E, V, out, U: E @ V @ V.T @ U,
        ),
        Mistake(
            "head-missing",
            "The head is missing: this is the direct path from token to logit.",
            lambda E, V, out, U: E @ U,
        ),
        Mistake(
            "direct-path-added",
            "The direct path W_E W_U is added. Only what the head writes is asked for.",
            lambda E, V, out, U: E @ U + E @ V @ out @ U,
        ),
        Mistake(
            "softmax-applied",
            "A softmax has been taken. The circuit is the effect on the logits themselves.",
            lambda E, V, out, U: (E @ V @ out @ U).softmax(-1),
        ),
        Mistake(
            "divided-by-root",
            "The result is divided by √d_v. Only scores are scaled, and there are none here.",
            lambda E, V, out, U: E @ V @ out @ U / V.shape[1] ** 0.5,
        ),
        Mistake(
            "centred",
            "The mean over the logits is taken off. The circuit is the plain product.",
            lambda E, V, out, U: (c := E @ V @ out @ U) - c.mean(-1, keepdim=True),
        ),
        Mistake("diagonal-only", "Only the diagonal is returned.", lambda E, V, out, U: (E @ V @ out @ U).diagonal()),
        Mistake(
            "multiplied-by-entries",
            "The two halves are multiplied entry by entry; multiply matrices.",
            lambda E, V, out, U: (E @ V) @ (out @ U) * (E @ U),
        ),
        Mistake("tied-unembedding", "W_E is used in place of W_U.", lambda E, V, out, U: E @ V @ out @ E.T),
        Mistake(
            "tied-embedding",
            "W_U, transposed, is used in place of W_E. The head reads embeddings.",
            lambda E, V, out, U: U.T @ V @ out @ U,
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# copying_score


def _copying_score(ov: Tensor) -> float:
    others = ov - torch.diag(torch.full((len(ov),), math.inf, dtype=ov.dtype))
    return float((ov.diagonal() > others.amax(-1)).double().mean())


def _draw_copying_score(rng: np.random.Generator) -> list[Case]:
    def circuit(vocab: int, copying: int) -> np.ndarray:
        """The first `copying` tokens of a shuffled order copy themselves, two of them clearly; the others do not.

        The last of all has the smallest logit for itself, so that no mistake answers 0 everywhere.
        """
        ov = normal(rng, vocab, vocab)
        order = rng.permutation(vocab)
        for place, token in enumerate(order):
            others = np.delete(ov[token], token)
            ov[token, token] = others.max() + 0.5 if place < copying else others.max() - 0.5
        for token in order[: min(copying, 2)]:
            ov[token, token] += 3.0
        if copying < vocab:
            ov[order[-1], order[-1]] = np.delete(ov[order[-1]], order[-1]).min() - 0.5
        return ov

    def case(criterion: str, label: str, ov: np.ndarray) -> Case:
        return Case(criterion, label, (ov,), sizes={"vocab": len(ov)}, rtol=1e-6)  # a share may be taken in float32

    vocab = int(rng.integers(9, 14))
    copying = int(rng.integers(3, 6))
    tied = circuit(vocab, copying)
    for token in range(vocab):
        tied[token, (token + 1 + int(rng.integers(vocab - 1))) % vocab] = tied[token].max()
    some_tied = np.round(circuit(vocab, copying) * 4) / 4
    low = np.where(np.eye(vocab, dtype=bool), -1.0, -2.0 - rng.random((vocab, vocab)))
    columns = circuit(vocab, 2)
    columns[:, int(rng.integers(vocab))] += 4.0
    return [
        case("values", f"{copying} of {vocab} tokens copy themselves", circuit(vocab, copying)),
        case("values", "float32", circuit(vocab + 1, 4).astype(np.float32)),
        case("values", "one logit large for all tokens", columns),
        case("values", "more than half", circuit(vocab + 2, vocab - 1)),
        case("values", "positive logits of the same size", np.abs(circuit(vocab, copying)) + 1),
        case("ties", "every largest logit is shared", tied),
        case("ties", "some logits are equal", some_tied),
        case("ties", "all logits are equal", np.zeros((vocab, vocab))),
        case("edge cases", "all tokens copy themselves", circuit(vocab, vocab)),
        case("edge cases", "none does", circuit(vocab, 0)),
        case("edge cases", "all logits are negative", low),
    ]


def _copies(
    ov: Tensor, *, strict: bool = True, dim: int = -1, after: Callable[[Tensor], Any] = lambda hit: hit.double().mean()
) -> Any:
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax(dim)
    own = ov.diagonal()
    return after(own > others if strict else own >= others)


_COPYING_SCORE = Exercise(
    name="copying_score",
    unit=UNIT,
    returns=Leaf("float", "the score"),
    reference=_copying_score,
    draw=_draw_copying_score,
    credit={"values": 0.6, "ties": 0.2, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "ties-counted",
            "A token whose own logit is only as large as another is counted. It must be strictly the largest.",
            lambda ov: _copies(ov, strict=False),
        ),
        Mistake(
            "first-of-ties-counted",
            "Of equal logits the first is taken for the largest. It must be strictly the largest.",
            lambda ov: (ov.argmax(-1) == torch.arange(len(ov))).double().mean(),
        ),
        Mistake(
            "by-columns", "The largest of each column is sought; seek it in each row.", lambda ov: _copies(ov, dim=0)
        ),
        Mistake(
            "count-not-share",
            "The tokens are counted; their share is asked for.",
            lambda ov: _copies(ov, after=lambda h: h.sum()),
        ),
        Mistake("share-of-the-others", "The share of tokens that do not copy is returned.", lambda ov: 1 - _copies(ov)),
        Mistake(
            "positive-diagonal",
            "Own logits above 0 are counted; compare them with the others of the row.",
            lambda ov: (ov.diagonal() > 0).double().mean(),
        ),
        Mistake(
            "above-the-mean",
            "Own logits above the row's mean are counted; they must be the largest.",
            lambda ov: (ov.diagonal() > ov.mean(-1)).double().mean(),
        ),
        Mistake(
            "mean-of-diagonal",
            "The own logits are averaged; count those that are the largest of their row.",
            lambda ov: ov.diagonal().mean(),
        ),
        Mistake(
            "mean-of-softmax",
            "Probabilities are averaged; count the tokens whose own logit is the largest.",
            lambda ov: ov.softmax(-1).diagonal().mean(),
        ),
        Mistake(
            "above-one-half",
            "Probabilities above ½ are counted. A token may copy itself with far less, if all others get less still.",
            lambda ov: (ov.softmax(-1).diagonal() > 0.5).double().mean(),
        ),
        Mistake(
            "largest-in-size",
            "The largest in absolute size is sought; a large negative logit does not copy.",
            lambda ov: _copies(ov.abs()),
        ),
        Mistake("smallest", "Tokens whose own logit is the smallest are counted.", lambda ov: _copies(-ov)),
        Mistake(
            "share-of-all-entries",
            "The count is divided by all entries; divide it by the number of tokens.",
            lambda ov: _copies(ov) / len(ov),
        ),
        Mistake(
            "trace-share", "The trace is divided by the sum of all entries.", lambda ov: ov.trace() / (ov.sum() + 1e-9)
        ),
        Mistake(
            "per-token",
            "One value per token comes back; their share is asked for.",
            lambda ov: _copies(ov, after=lambda h: h),
        ),
        Mistake(
            "divided-by-one-less",
            "The count is divided by one token too few.",
            lambda ov: _copies(ov) * len(ov) / (len(ov) - 1),
        ),
        Mistake(
            "largest-of-the-whole",
            "The own logit is compared with the whole matrix; compare it with its own row.",
            lambda ov: (ov.diagonal() >= ov.max()).double().mean(),
        ),
        Mistake(
            "above-all-others",
            "The own logit is compared with those of all tokens; compare it with the others of its own row.",
            lambda ov: (
                (ov.diagonal() > ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).max()).double().mean()
            ),
        ),
        Mistake(
            "trace-over-sizes",
            "The trace is divided by the sum of all sizes; count the tokens whose own logit is the largest.",
            lambda ov: ov.trace() / ov.abs().sum().clamp_min(1e-9),
        ),
        Mistake(
            "eigenvalues",
            "This is the score from the eigenvalues. Here the tokens whose own logit is the largest are counted.",
            lambda ov: (values := torch.linalg.eigvals(ov)).real.sum() / values.abs().sum().clamp_min(1e-9),
        ),
        Mistake(
            "among-the-two-largest",
            "A token is counted where one other logit is larger than its own. None may be.",
            lambda ov: ((ov > ov.diagonal()[:, None]).sum(-1) < 2).double().mean(),
        ),
        Mistake(
            "first-token-left-out",
            "Token 0 is left out. Where does the loop begin?",
            lambda ov: _copies(ov, after=lambda hit: hit[1:].double().mean()),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# composition_score


def _composition_score(W_QK: Tensor, W_OV: Tensor) -> Tensor:
    norms = W_QK.square().sum().sqrt() * W_OV.square().sum().sqrt()
    together = torch.einsum("qk,mk->qm", W_QK, W_OV)
    return together.square().sum().sqrt() / norms if norms > 0 else torch.zeros((), dtype=W_QK.dtype)


def _draw_composition_score(rng: np.random.Generator) -> list[Case]:
    def circuits(d: int, rank: int, dtype: type = np.float64, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        W_QK = normal(rng, d, rank) @ normal(rng, rank, d)
        W_OV = normal(rng, d, rank + 1) @ normal(rng, rank + 1, d)
        return (scale * W_QK).astype(np.float32).astype(dtype), W_OV.astype(np.float32).astype(dtype)

    def case(criterion: str, label: str, W_QK: np.ndarray, W_OV: np.ndarray) -> Case:
        return Case(criterion, label, (W_QK, W_OV), sizes={"d_model": len(W_QK)})

    d = int(rng.integers(6, 11))
    into = np.zeros((d, d))
    into[: d // 2, d // 2 :] = normal(rng, d // 2, d - d // 2)  # reads the first half, writes to the second
    key = np.zeros((d, d))
    key[:, d // 2 :] = normal(rng, d, d - d // 2)  # keys are read from the second half
    zero = np.zeros((d, d))
    return [
        case("values", f"d_model = {d}", *circuits(d, 2)),
        case("values", "float32", *circuits(d + 1, 3, np.float32)),
        case("values", "large weights", *circuits(d + 2, 2, scale=300.0)),
        case("values", "the keys read what the head writes", key, into),
        case("values", "not contiguous", *(strided(W) for W in circuits(d, 3))),
        case("values", "the queries read what the head writes", key.T.copy(), into),
        case("edge cases", "d_model = 1", normal(rng, 1, 1), normal(rng, 1, 1)),
        case("edge cases", "small weights", *(1e-3 * W for W in circuits(d, 2))),
        case("zeros", "W_QK is zero", zero, circuits(d, 2)[1]),
        case("zeros", "W_OV is zero", circuits(d, 2)[0], zero),
        case("zeros", "both are zero", zero, zero),
    ]


def _composed(
    W_QK: Tensor,
    W_OV: Tensor,
    *,
    product: Callable[[Tensor, Tensor], Tensor] = lambda A, B: A @ B.T,
    norm: Callable[[Tensor], Tensor] = torch.linalg.norm,
    below: Callable[[Tensor, Tensor], Any] = lambda a, b: a * b,
    above: Callable[[Tensor], Tensor] | None = None,
    less: Callable[[int], float] = lambda d: 0.0,
    guard: bool = True,
    after: Callable[[Tensor], Any] = lambda score: score,
) -> Any:
    norms = below(norm(W_QK), norm(W_OV))
    if guard and not (W_QK.any() and W_OV.any()):
        return torch.zeros((), dtype=W_QK.dtype) - less(len(W_QK))
    return after((above or norm)(product(W_QK, W_OV)) / norms - less(len(W_QK)))


_COMPOSITION_SCORE = Exercise(
    name="composition_score",
    unit=UNIT,
    returns=Leaf("float", "the score"),
    reference=_composition_score,
    draw=_draw_composition_score,
    credit={"values": 0.65, "edge cases": 0.1, "zeros": 0.25},
    mistakes=with_slips(
        _composed,
        (
            (
                "not-transposed",
                "W_OV is not transposed. In W_QK the keys stand on the right: which side of W_OV writes to them?",
                {"product": lambda A, B: A @ B},
            ),
            (
                "q-composition",
                "This is Q-composition: the queries, not the keys, read the earlier head's output.",
                {"product": lambda A, B: B @ A},
            ),
            (
                "wrong-side-transposed",
                "W_QK is transposed in place of W_OV. The keys stand on its right.",
                {"product": lambda A, B: A.T @ B},
            ),
            (
                "entry-by-entry",
                "The two are multiplied entry by entry; multiply matrices.",
                {"product": lambda A, B: A * B},
            ),
            ("unnormalised", "The norm of the product is not divided by the two norms.", {"below": lambda a, b: 1.0}),
            ("divided-by-the-sum", "The norms are added; divide by their product.", {"below": lambda a, b: a + b}),
            ("divided-by-one-norm", "Only the norm of W_QK divides; both do.", {"below": lambda a, b: a}),
            ("divided-by-the-other-norm", "Only the norm of W_OV divides; both do.", {"below": lambda a, b: b}),
            ("nan-for-zero", "A circuit of zeros gives NaN: 0 divided by 0. The score is 0 there.", {"guard": False}),
            ("squared", "The score is squared, or the norms are not rooted.", {"after": lambda score: score**2}),
            (
                "spectral-norm",
                "The largest singular value is taken; the Frobenius norm is asked for.",
                {"norm": lambda W: torch.linalg.matrix_norm(W, 2)},
            ),
            (
                "nuclear-norm",
                "The singular values are added; the Frobenius norm is asked for.",
                {"norm": lambda W: torch.linalg.matrix_norm(W, "nuc")},
            ),
            (
                "sum-of-sizes",
                "The absolute values are added; the Frobenius norm is the root of the summed squares.",
                {"norm": lambda W: W.abs().sum()},
            ),
            (
                "largest-entry",
                "The largest entry is taken; the Frobenius norm is asked for.",
                {"norm": lambda W: W.abs().max()},
            ),
            (
                "norms-rooted",
                "The product of the two norms stands under one more root.",
                {"below": lambda a, b: (a * b).sqrt()},
            ),
            (
                "norm-above-squared",
                "The norm of the product is squared, or not rooted; those below are right.",
                {"above": lambda W: W.square().sum()},
            ),
            (
                "multiplied-by-the-other-norm",
                "The norm of W_OV multiplies, that of W_QK divides. Mind the brackets: both stand below the line.",
                {"below": lambda a, b: a / b},
            ),
            (
                "trace",
                "The trace of the product is taken, which is a cosine; take its norm.",
                {"above": torch.trace},
            ),
            (
                "baseline-subtracted",
                "The score of random matrices, 1/√d_model, is subtracted. The plain quotient is asked for.",
                {"less": lambda d: d**-0.5},
            ),
            (
                "queries-and-keys",
                "Queries and keys both read the earlier head's output; only the keys do in K-composition.",
                {"product": lambda A, B: B @ A @ B.T},
            ),
            (
                "direct-path-added",
                "The keys read the stream as well as the earlier head. Only what W_OV writes is asked for.",
                {"product": lambda A, B: A @ (torch.eye(len(B), dtype=B.dtype) + B).T},
            ),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# ablate_head


def _ablate_head(head_outputs: Tensor, head: int) -> Tensor:
    keep = torch.arange(head_outputs.shape[1]) != head
    return torch.where(keep[:, None, None], head_outputs, torch.zeros((), dtype=head_outputs.dtype))


def _draw_ablate_head(rng: np.random.Generator) -> list[Case]:
    B, h, n, d = distinct(rng, 4, 3, 8)

    def case(criterion: str, label: str, outputs: np.ndarray, head: int) -> Case:
        sizes = dict(zip(("B", "h", "n", "d_model"), outputs.shape, strict=True))
        return Case(criterion, label, (outputs, head), sizes=sizes)

    middle = int(rng.integers(1, h - 1))
    return [
        case("values", f"head {middle} of {h}", normal(rng, B, h, n, d), middle),
        case("values", "the first head", normal(rng, B, h, n, d), 0),
        case("values", "the last head", normal(rng, B, h, n, d), h - 1),
        case("values", "float32", normal(rng, n, h, d, B, dtype=np.float32), 1),
        case("values", "not contiguous", strided(normal(rng, d, h, B, n)), 2),
        case("edge cases", "B = 1", normal(rng, 1, h, n, d), 1),
        case("edge cases", "n = 1", normal(rng, B, h, 1, d), h - 1),
        case("edge cases", "one head", normal(rng, B, 1, n, d), 0),
        case("edge cases", "large outputs", normal(rng, B, h, n, d, scale=1e4), middle),
    ]


def _without(*, index: Callable[[Tensor, int], Any], value: Any = 0.0) -> Callable[[Tensor, int], Tensor]:
    def wrong(head_outputs: Tensor, head: int) -> Tensor:
        kept = head_outputs.clone()
        kept[index(kept, head)] = value(head_outputs) if callable(value) else value
        return kept

    return wrong


def _zero_along(axis: int, gone: Callable[[int, int], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """Zero where `gone(size of the axis, head)`, on another axis or for other heads than asked for."""
    return lambda x, head: x * ~gone(x.shape[axis], head).view(-1, *(1,) * (x.dim() - 1 - axis))


_ALL = slice(None)

_ABLATE_HEAD = Exercise(
    name="ablate_head",
    unit=UNIT,
    returns=Leaf("float array", "the contributions"),
    reference=_ablate_head,
    draw=_draw_ablate_head,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake(
            "head-removed",
            "The head is cut out, so one is missing. Its contribution is to be zero, the shape stays.",
            lambda x, head: torch.cat([x[:, :head], x[:, head + 1 :]], 1),
        ),
        Mistake(
            "only-this-head-kept",
            "All other heads are set to zero, and this one is kept.",
            lambda x, head: x * (torch.arange(x.shape[1]) == head)[:, None, None],
        ),
        Mistake(
            "wrong-axis-batch",
            "A sequence of the batch is set to zero; heads stand on the second axis.",
            _zero_along(0, lambda size, head: torch.arange(size) == head),
        ),
        Mistake(
            "wrong-axis-tokens",
            "A token is set to zero; heads stand on the second axis.",
            _zero_along(2, lambda size, head: torch.arange(size) == head),
        ),
        Mistake(
            "wrong-axis-features",
            "A feature is set to zero; heads stand on the second axis.",
            _zero_along(3, lambda size, head: torch.arange(size) == head),
        ),
        Mistake(
            "counted-from-one",
            "The head before the one asked for is set to zero. Heads are counted from 0.",
            _without(index=lambda x, head: (_ALL, head - 1)),
        ),
        Mistake(
            "next-head",
            "The head after the one asked for is set to zero. Heads are counted from 0.",
            _without(index=lambda x, head: (_ALL, (head + 1) % x.shape[1])),
        ),
        Mistake(
            "first-sequence-only",
            "Only the first sequence of the batch is ablated.",
            _without(index=lambda x, head: (0, head)),
        ),
        Mistake(
            "mean-ablation",
            "The head's contribution is replaced by its mean; zero was asked for.",
            lambda x, head: torch.where(
                (torch.arange(x.shape[1]) == head)[:, None, None], x.mean((0, 2), keepdim=True), x
            ),
        ),
        Mistake(
            "earlier-heads-too",
            "All heads up to this one are set to zero.",
            _without(index=lambda x, head: (_ALL, slice(head + 1))),
        ),
        Mistake(
            "later-heads-too",
            "All heads from this one on are set to zero.",
            _without(index=lambda x, head: (_ALL, slice(head, None))),
        ),
        Mistake(
            "first-head-always",
            "The first head is set to zero whatever `head` says.",
            _without(index=lambda x, head: (_ALL, 0)),
        ),
        Mistake(
            "heads-summed",
            "The heads are added up. Each keeps its place.",
            lambda x, head: _ablate_head(x, head).sum(1),
        ),
        Mistake("head-returned", "The contribution of the head itself is returned.", lambda x, head: x[:, head]),
        Mistake(
            "nan-written",
            "The head's contribution becomes NaN; zero was asked for.",
            _without(index=lambda x, head: (_ALL, head), value=math.nan),
        ),
        Mistake(
            "only-earlier-heads",
            "The heads before this one are set to zero, and this one is kept. A slice ends before its last index.",
            _zero_along(1, lambda size, head: torch.arange(size) < head),
        ),
        Mistake(
            "only-later-heads",
            "The heads after this one are set to zero, and this one is kept.",
            _zero_along(1, lambda size, head: torch.arange(size) > head),
        ),
        Mistake(
            "block-of-features",
            "A block of features is set to zero in every head. The heads are apart already, on the second axis.",
            lambda x, head: x * (torch.arange(x.shape[3]) // max(x.shape[3] // x.shape[1], 1) != head),
        ),
        Mistake("everything-zero", "All heads are set to zero.", lambda x, head: torch.zeros_like(x)),
        Mistake("nothing-changed", "Nothing is ablated: the result is what came in.", lambda x, head: x.clone()),
        Mistake(
            "rest-scaled",
            "The other heads are scaled up, as dropout does it. They stay as they are: what the model does without "
            "this head is to be seen.",
            lambda x, head: _ablate_head(x, head) * (x.shape[1] / max(x.shape[1] - 1, 1)),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# in_context_learning_score


def _in_context_learning_score(losses: Tensor, early: int, late: int) -> Tensor:
    return (losses[:, late] - losses[:, early]).sum() / len(losses)


def _draw_in_context_learning_score(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str,
        label: str,
        B: int,
        n: int,
        early: int,
        late: int,
        dtype: type = np.float64,
        padded: bool = False,
    ) -> Case:
        losses = (np.abs(normal(rng, B, n)) + np.linspace(3, 0.5, n)).astype(np.float32).astype(dtype)
        losses = strided(losses) if padded else losses
        return Case(criterion, label, (losses, early, late), sizes={"B": B, "n": n, "early": early, "late": late})

    B, n = int(rng.integers(3, 6)), int(rng.integers(11, 17))
    early, late = int(rng.integers(2, 4)), int(rng.integers(7, 10))
    return [
        case("values", f"{B} sequences, n = {n}, positions {early} and {late}", B, n, early, late),
        case("values", "float32", B + 1, n + 2, early + 1, late + 1, np.float32),
        case("values", "as many sequences as tokens", n, n, early, late),
        case("values", "not contiguous", B, n, early, late + 1, padded=True),
        case("edge cases", "the first and the last position", B, n, 0, n - 1),
        case("edge cases", "one sequence (B = 1)", 1, n, early, late),
        case("edge cases", "next to each other", B, n, early, early + 1),
        case("edge cases", "the same position twice", B, n, early, early),
        case("edge cases", "late before early", B, n, late, early),
    ]


_IN_CONTEXT_LEARNING_SCORE = Exercise(
    name="in_context_learning_score",
    unit=UNIT,
    returns=Leaf("float", "the score"),
    reference=_in_context_learning_score,
    draw=_draw_in_context_learning_score,
    credit={"values": 0.7, "edge cases": 0.3},
    mistakes=(
        Mistake(
            "sign",
            "The sign is turned round: late minus early, so that learning gives a negative score.",
            lambda x, e, t: x[:, e].mean() - x[:, t].mean(),
        ),
        Mistake(
            "absolute",
            "The sign is lost: a loss that grows is no learning.",
            lambda x, e, t: (x[:, t].mean() - x[:, e].mean()).abs(),
        ),
        Mistake("ratio", "The losses are divided; subtract them.", lambda x, e, t: x[:, t].mean() / x[:, e].mean()),
        Mistake(
            "relative",
            "The difference is divided by the early loss; it is to stand alone.",
            lambda x, e, t: x[:, t].mean() / x[:, e].mean() - 1,
        ),
        Mistake(
            "sum-not-mean",
            "The losses are summed over the batch; take their mean.",
            lambda x, e, t: (x[:, t] - x[:, e]).sum(),
        ),
        Mistake(
            "rows-not-columns",
            "The positions are sought on the first axis; it is the batch.",
            lambda x, e, t: x[t % len(x)].mean() - x[e % len(x)].mean(),
        ),
        Mistake(
            "first-sequence-only",
            "Only the first sequence is looked at; average over the batch.",
            lambda x, e, t: x[0, t] - x[0, e],
        ),
        Mistake(
            "not-averaged",
            "One number per sequence comes back; average over the batch.",
            lambda x, e, t: x[:, t] - x[:, e],
        ),
        Mistake(
            "counted-from-one",
            "Positions are counted from 1; count from 0.",
            lambda x, e, t: x[:, t - 1].mean() - x[:, e - 1].mean(),
        ),
        Mistake(
            "means-up-to",
            "The losses of all positions up to the two are averaged; only those at the two count.",
            lambda x, e, t: x[:, : t + 1].mean() - x[:, : e + 1].mean(),
        ),
        Mistake(
            "means-before",
            "The losses before the two positions are averaged; only those at the two count.",
            lambda x, e, t: x[:, :t].mean() - x[:, : max(e, 1)].mean(),
        ),
        Mistake(
            "late-half-minus-early-half",
            "The losses from `late` on and up to `early` are averaged; only those at the two positions count.",
            lambda x, e, t: x[:, t:].mean() - x[:, : e + 1].mean(),
        ),
        Mistake(
            "from-late-minus-before-early",
            "The losses from `late` on and those before `early` are averaged: `late:` and `:early` are ranges. Only "
            "the losses at the two positions count.",
            lambda x, e, t: x[:, t:].mean() - x[:, :e].mean(),
        ),
        Mistake(
            "positions-sorted",
            "The two positions are put in order first. Take them as they come: `late` may stand before `early`.",
            lambda x, e, t: x[:, max(e, t)].mean() - x[:, min(e, t)].mean(),
        ),
        Mistake("early-only", "The loss at `early` is returned alone.", lambda x, e, t: x[:, e].mean()),
        Mistake("late-only", "The loss at `late` is returned alone.", lambda x, e, t: x[:, t].mean()),
        Mistake(
            "first-for-early", "Position 0 stands in for `early`.", lambda x, e, t: x[:, t].mean() - x[:, 0].mean()
        ),
        Mistake(
            "last-for-late", "The last position stands in for `late`.", lambda x, e, t: x[:, -1].mean() - x[:, e].mean()
        ),
        Mistake(
            "median",
            "The median over the batch is taken; take the mean.",
            lambda x, e, t: x[:, t].quantile(0.5) - x[:, e].quantile(0.5),
        ),
        Mistake(
            "slope",
            "The difference is divided by the distance of the positions.",
            lambda x, e, t: (x[:, t].mean() - x[:, e].mean()) / (t - e or 1),
        ),
        Mistake(
            "exponentials",
            "The losses are exponentiated first. Subtract the losses themselves.",
            lambda x, e, t: (x[:, t].exp() - x[:, e].exp()).mean(),
        ),
        Mistake(
            "perplexities",
            "Perplexities are subtracted. Subtract the losses themselves.",
            lambda x, e, t: x[:, t].mean().exp() - x[:, e].mean().exp(),
        ),
        Mistake(
            "mean-between",
            "The losses from one position to the other are averaged. Only those at the two count, one less the other.",
            lambda x, e, t: x[:, min(e, t) : max(e, t) + 1].mean(),
        ),
        Mistake(
            "divided-by-n",
            "The sum over the batch is divided by the number of tokens. Over how many losses does it run?",
            lambda x, e, t: (x[:, t] - x[:, e]).sum() / x.shape[1],
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# build_induction_circuit

_BUILD_INDUCTION_CIRCUIT = Exercise(
    name="build_induction_circuit",
    unit=UNIT,
    returns=Leaf("dict", "the weights"),
    reference=build_circuit,
    draw=draw_circuits,
    credit={"two repeats": 0.5, "more repeats": 0.25, "sizes": 0.25},
    mistakes=CIRCUIT_MISTAKES,
    library="torch",
    examine=examine_circuit,
)


EXERCISES = (
    _REPEATED_SEQUENCES,
    _PREVIOUS_TOKEN_SCORE,
    _PREFIX_MATCHING_SCORE,
    _OV_CIRCUIT,
    _COPYING_SCORE,
    _COMPOSITION_SCORE,
    _BUILD_INDUCTION_CIRCUIT,
    _ABLATE_HEAD,
    _IN_CONTEXT_LEARNING_SCORE,
)
