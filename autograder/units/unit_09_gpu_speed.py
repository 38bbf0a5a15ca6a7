"""Unit 9: attention three ways, what it costs, and how to time it honestly."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..exercise import Case, Device, Exercise, Leaf, Mistake
from . import torch_parts as parts
from .simulated_device import PARTS, SimulatedDevice
from .torch_parts import attend, distinct, normal, strided, with_slips

UNIT = "09_gpu_speed"


# ---------------------------------------------------------------------------------------------------------------------
# Inputs of the three attentions


def _inputs(
    rng: np.random.Generator, B: int, h: int, n: int, d: int, scale: float = 1.0, dtype: type = np.float64
) -> tuple[np.ndarray, ...]:
    return tuple(normal(rng, B, h, n, d, scale=size, dtype=dtype) for size in (scale, scale, 1.0))


def _sizes(arrays: tuple[np.ndarray, ...], **more: int) -> dict[str, int]:
    return {**dict(zip(("B", "h", "n", "d"), arrays[0].shape, strict=True)), "d_model": arrays[0].shape[3], **more}


def _large_scores(rng: np.random.Generator, B: int, h: int, n: int, d: int) -> tuple[np.ndarray, ...]:
    """Scores of about ±10,000 that rise and fall along the keys, so that a running maximum must be followed."""
    Q, K, V = _inputs(rng, B, h, n, d)
    K = K + np.linspace(-3, 3, n)[:, None] * rng.choice([-1.0, 1.0], (B, h, 1, 1))
    scores = np.abs(Q @ K.swapaxes(-1, -2)).max() / math.sqrt(d)
    return (Q * (1e4 / scores)).astype(np.float32).astype(np.float64), K, V


def _slipped(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    *,
    causal: bool | None = None,
    shifted: int = 0,
    turned: bool = False,
    swap: str = "",
    keys: Callable[[Tensor], Tensor] = lambda K: K,
    after: Callable[[Tensor], Any] = lambda out: out,
    weights_only: bool = False,
    normalise: bool = True,
    residual: bool = False,
    **options: Any,
) -> Any:
    """All of an attention with a place for every slip; causal: None for no mask at all."""
    n = Q.shape[-2]
    sizes = {"d_model": Q.shape[-1], "h": Q.shape[1]}
    if swap:
        named = {"Q": Q, "K": K, "V": V}
        Q, K, V = (named[letter] for letter in swap)
    K = keys(K)
    mask = torch.ones(n, n, dtype=torch.bool).tril(shifted) if causal else None
    mask = mask.T if turned and mask is not None else mask
    out, weights = attend(Q, K, V, mask, sizes=sizes, **options)
    if not normalise:
        scores = Q @ K.mT / math.sqrt(Q.shape[-1])
        out = (scores - scores.amax(-1, keepdim=True)).exp() @ V
    out = out + Q if residual else out
    return after(weights if weights_only else out)


SHARED_SLIPS = (
    ("unscaled", "The scores are not divided by √d.", {"scaling": "none"}),
    (
        "divides-by-d",
        "The scores are divided by d; it is the root of it that keeps their variance at 1.",
        {"scaling": "d_head"},
    ),
    ("times-root-of-d", "The scores are multiplied by √d in place of divided.", {"scaling": "times"}),
    ("root-of-n", "The scores are divided by √n. Over what does the dot product sum?", {"scaling": "root of n"}),
    ("softmax-over-queries", parts.OVER_QUERIES, {"dim": -2}),
    ("softmax-over-heads", parts.OVER_HEADS, {"dim": 1}),
    ("keys-as-values", "The keys are averaged in place of the values.", {"swap": "QKK"}),
    ("queries-as-keys", "Queries and keys have changed places.", {"swap": "KQV"}),
    ("values-as-keys", "Keys and values have changed places.", {"swap": "QVK"}),
    ("not-normalised", "The weights do not sum to 1: each row is to be divided by its sum.", {"normalise": False}),
    (
        "tokens-before-heads",
        "Heads and tokens have changed places in the result.",
        {"after": lambda out: out.transpose(1, 2)},
    ),
    (
        "heads-merged",
        "The heads are merged. The result has the shape of Q.",
        {"after": lambda out: out.transpose(1, 2).flatten(2)},
    ),
    ("transposed-result", "The last two axes have changed places in the result.", {"after": lambda out: out.mT}),
    (
        "weights-scaled",
        "The division by √d comes after the softmax. The scores are to be divided, before it.",
        {"scaling": "none", "after": lambda out: out / math.sqrt(out.shape[-1])},
    ),
    ("root-of-all-heads", parts.BY_ALL, {"scaling": "root of all heads"}),
    (
        "keys-reshaped",
        "The keys are brought to (d, n) by a reshape, which mixes keys and features. Swap the two axes.",
        {"keys": lambda K: K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2]).mT},
    ),
    (
        "queries-added",
        "The queries are added to the output. A residual belongs to the block, not to the attention.",
        {"residual": True},
    ),
)


def _no_softmax(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> Tensor:
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    return (scores.tril() if causal else scores) @ V


def _best_key_only(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> Tensor:
    scores = Q @ K.mT
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    return F.one_hot(scores.argmax(-1), K.shape[-2]).to(V.dtype) @ V


def _heads_as_tokens(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> Tensor:
    return _slipped(*(array.transpose(1, 2) for array in (Q, K, V)), causal=causal).transpose(1, 2)


#: More mistakes of any attention, which are no slip in one place.
SHARED_MISTAKES = (
    Mistake(
        "softmax-missing",
        "The scores themselves weigh the values. A softmax is to make weights of them first.",
        _no_softmax,
    ),
    Mistake(
        "best-key-only",
        "Each query takes the value of its best key alone. Attention averages all values with softmax weights.",
        _best_key_only,
    ),
    Mistake(
        "heads-as-tokens",
        "The inputs are read as (B, n, h, d), so that the heads of one token attend to each other.",
        _heads_as_tokens,
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# loop_attention


def _loop_attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(Q, K, V)


def _draw_loop_attention(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, arrays: tuple[np.ndarray, ...]) -> Case:
        return Case(criterion, label, arrays, sizes=_sizes(arrays))

    B, h, n, d = distinct(rng, 4, 2, 6)
    return [
        case("values", f"B = {B}, h = {h}, n = {n}, d = {d}", _inputs(rng, B, h, n, d)),
        case("values", "float32", _inputs(rng, h, B, d, n, dtype=np.float32)),
        case("values", "not contiguous", tuple(strided(array) for array in _inputs(rng, B, h, n + 1, d))),
        case("values", "sharper weights", _inputs(rng, B, h, n, d, scale=2.0)),
        case("edge cases", "B = 1", _inputs(rng, 1, h, n, d)),
        case("edge cases", "one head", _inputs(rng, B, 1, n, d)),
        case("edge cases", "a single token (n = 1)", _inputs(rng, B, h, 1, d)),
        case("edge cases", "d = 1", _inputs(rng, B, h, n, 1)),
        case("large scores", "scores of ±10,000", _large_scores(rng, B, h, n + 1, d)),
    ]


def _first_only(axis: int) -> Callable[..., Tensor]:
    """The loop over `axis` that never leaves its first turn."""

    def wrong(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        out = torch.zeros_like(V)
        index = (slice(None),) * axis + (slice(0, 1),)
        out[index] = _slipped(Q, K, V)[index]
        return out

    return wrong


def _queries_up_to_d(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    answers, out = _slipped(Q, K, V), torch.zeros_like(V)
    for query in range(Q.shape[-1]):
        out[:, :, query] = answers[:, :, query]
    return out


def _shared_head(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return _slipped(Q, K[:, :1].expand_as(K), V[:, :1].expand_as(V))


_LOOP_ATTENTION = Exercise(
    name="loop_attention",
    unit=UNIT,
    returns=Leaf("float array", "the output"),
    reference=_loop_attention,
    draw=_draw_loop_attention,
    credit={"values": 0.6, "edge cases": 0.15, "large scores": 0.15, "gradients": 0.1},
    mistakes=(
        *with_slips(_slipped, SHARED_SLIPS),
        *with_slips(
            _slipped,
            (
                ("unstable", parts.UNSTABLE, {"stable": False}),
                ("weights-returned", "The weights are returned; return what they average.", {"weights_only": True}),
                ("causal", "Later keys are left out. There is no mask here.", {"causal": True}),
                ("heads-summed", "The heads are added up. Each keeps its place.", {"after": lambda out: out.sum(1)}),
                (
                    "heads-averaged",
                    "Each head gets the mean over all heads.",
                    {"after": lambda out: out.mean(1, keepdim=True).expand_as(out)},
                ),
                (
                    "wrong-dtype",
                    "The dtype of the inputs is to be kept; make the result with theirs.",
                    {"after": lambda out: out.to(torch.float16)},
                ),
            ),
        ),
        Mistake(
            "first-query-only", "Only the first query of each head is answered; the others stay zero.", _first_only(2)
        ),
        Mistake("first-head-only", "Only the first head is worked out; the others stay zero.", _first_only(1)),
        Mistake("first-sequence-only", "Only the first sequence of the batch is worked out.", _first_only(0)),
        Mistake("first-heads-keys", "All heads read the keys and values of the first one.", _shared_head),
        Mistake(
            "last-query-everywhere",
            "Every query gets the last one's answer. Is the result written to the place of its query?",
            lambda Q, K, V: _slipped(Q[..., -1:, :].expand_as(Q), K, V),
        ),
        Mistake(
            "last-query-missing",
            "The last query is not answered. Where does the loop end?",
            lambda Q, K, V: torch.cat([_slipped(Q, K, V)[..., :-1, :], torch.zeros_like(V[..., :1, :])], -2),
        ),
        Mistake(
            "last-key-missing",
            "The last key is never looked at. Where does the loop end?",
            lambda Q, K, V: attend(Q, K[..., :-1, :], V[..., :-1, :])[0],
        ),
        *SHARED_MISTAKES,
        Mistake(
            "last-head-everywhere",
            "All heads hold the answer of the last one. Is the result written to the place of its head?",
            lambda Q, K, V: _slipped(Q, K, V)[:, -1:].expand_as(V),
        ),
        Mistake(
            "as-many-queries-as-features",
            "The loop over the queries runs d times; there are n queries. Which axis does its length come from?",
            _queries_up_to_d,
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# batched_attention


def _batched_attention(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> Tensor:
    return F.scaled_dot_product_attention(Q, K, V, is_causal=causal)


def _draw_batched_attention(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, arrays: tuple[np.ndarray, ...], **kwargs: bool) -> Case:
        return Case(criterion, label, arrays, kwargs, sizes=_sizes(arrays))

    B, h, n, d = distinct(rng, 4, 3, 8)
    return [
        case("values", f"B = {B}, h = {h}, n = {n}, d = {d}", _inputs(rng, B, h, n, d)),
        case("values", "float32", _inputs(rng, h, B, d, n, dtype=np.float32)),
        case("values", "not contiguous", tuple(strided(array) for array in _inputs(rng, B, h, n + 1, d)), causal=False),
        case("causal", "causal", _inputs(rng, B, h, n, d), causal=True),
        case("causal", "causal, float32", _inputs(rng, B, h, n + 2, d, dtype=np.float32), causal=True),
        case("causal", "causal, scores of ±10,000", _large_scores(rng, B, h, n, d), causal=True),
        case("causal", "causal, all scores near −10,000", _all_low(rng, B, h, n + 1, d), causal=True),
        case("edge cases", "B = 1", _inputs(rng, 1, h, n, d)),
        case("edge cases", "one head, causal", _inputs(rng, B, 1, n, d), causal=True),
        case("edge cases", "a single token (n = 1)", _inputs(rng, B, h, 1, d), causal=True),
        case("edge cases", "d = 1", _inputs(rng, B, h, n, 1)),
        case("large scores", "scores of ±10,000", _large_scores(rng, B, h, n, d)),
    ]


def _batched(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False, **slips: Any) -> Any:
    always = slips.pop("always", None)
    return _slipped(Q, K, V, causal=causal if always is None else always, **slips)


def _heads_in_a_row(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> Tensor:
    rows = (array.flatten(1, 2).unsqueeze(1) for array in (Q, K, V))
    return _slipped(*rows, causal=causal).view(Q.shape)


_BATCHED_ATTENTION = Exercise(
    name="batched_attention",
    unit=UNIT,
    not_from=("loop_attention",),
    returns=Leaf("float array", "the output"),
    reference=_batched_attention,
    draw=_draw_batched_attention,
    credit={"values": 0.5, "causal": 0.2, "edge cases": 0.1, "large scores": 0.1, "gradients": 0.1},
    mistakes=(
        *with_slips(
            _batched,
            (
                *SHARED_SLIPS,
                ("unstable", parts.UNSTABLE, {"stable": False}),
                (
                    "causal-ignored",
                    "`causal=True` changes nothing. Which keys may a query see then?",
                    {"always": False},
                ),
                ("always-causal", "Later keys are left out even without `causal`.", {"always": True}),
                ("causal-diagonal-out", "With `causal` a query does not see its own key. It may.", {"shifted": -1}),
                ("causal-one-too-many", "With `causal` a query still sees the next key.", {"shifted": 1}),
                (
                    "causal-turned",
                    "With `causal` a query sees itself and later keys, not earlier ones.",
                    {"turned": True},
                ),
                (
                    "mask-inverted",
                    "With `causal` just the later keys are seen, not the earlier ones.",
                    {"masking": "inverted"},
                ),
                ("mask-after-softmax", parts.AFTER, {"masking": "after"}),
                ("mask-multiplied", parts.MULTIPLIED, {"masking": "multiplied"}),
                ("mask-added", parts.ADDED, {"masking": "added"}),
                ("mask-mild", parts.MILD, {"masking": "mild"}),
                ("mask-less-mild", parts.MILD, {"masking": "less mild"}),
                ("weights-returned", "The weights are returned; return what they average.", {"weights_only": True}),
                ("heads-summed", "The heads are added up. Each keeps its place.", {"after": lambda out: out.sum(1)}),
                ("tuple-returned", "A tuple is returned; return the output alone.", {"after": lambda out: (out, out)}),
            ),
        ),
        *SHARED_MISTAKES,
        Mistake(
            "heads-see-each-other",
            "The tokens of all heads stand in one long row, so the heads see each other. Each attends on its own.",
            _heads_in_a_row,
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# tiled_attention


#: A case in which tensors of far fewer than n × n entries are watched: all scores of one query are n numbers.
EQUAL_QUERIES = "all queries are equal"


def _tiled_attention(Q: Tensor, K: Tensor, V: Tensor, block_size: int) -> Tensor:
    return F.scaled_dot_product_attention(Q, K, V)


def _draw_tiled_attention(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, arrays: tuple[np.ndarray, ...], block_size: int, watch: int = 0) -> Case:
        sizes = _sizes(arrays, block_size=block_size)
        return Case(criterion, label, (*arrays, block_size), sizes=sizes, watch=watch)

    B, h, d = distinct(rng, 3, 2, 5)
    block = int(rng.integers(3, 5))
    whole, odd = 3 * block, 3 * block + int(rng.integers(1, block))
    long = int(rng.integers(90, 111))
    rising = _large_scores(rng, B, h, whole, d)
    growing = _inputs(rng, B, h, odd, d)
    growing = (np.abs(growing[0]) + 0.5, np.abs(growing[1]) * np.linspace(0.2, 4.0, odd)[:, None], growing[2])
    falling = (growing[0], np.ascontiguousarray(growing[1][:, :, ::-1]), growing[2])
    return [
        case("values", f"n = {whole}, blocks of {block}", _inputs(rng, B, h, whole, d), block),
        case("values", "float32", _inputs(rng, h, B, whole, d, dtype=np.float32), block),
        case("values", "the largest scores come last", growing, 1 + block),
        case("values", "the largest scores come first", falling, block),
        case("last block", f"n = {odd} is no multiple of {block}", _inputs(rng, B, h, odd, d), block),
        case("last block", "the last block holds one key", _inputs(rng, B, h, 2 * block + 1, d), block),
        case("block sizes", "blocks of one key", _inputs(rng, B, h, odd, d), 1),
        case("block sizes", "one block just as long as n", _inputs(rng, B, h, whole, d), whole),
        case("block sizes", "a block longer than n", _inputs(rng, B, h, odd, d), 2 * odd + 1),
        case("block sizes", "a single token (n = 1)", _inputs(rng, B, h, 1, d), block),
        case("large scores", "scores of ±10,000", rising, block),
        case("large scores", "all scores near −10,000", _all_low(rng, B, h, odd, d), block),
        case("memory", f"n = {long}, blocks of 7", _inputs(rng, 1, 2, long, 3), 7, watch=long * long),
        case("memory", f"n = {long + 1}, long blocks", _inputs(rng, 1, 1, long + 1, 4), 30, watch=(long + 1) ** 2),
        case("memory", f"n = {long + 3}, blocks of 12", _inputs(rng, 2, 1, long + 3, 2), 12, watch=(long + 3) ** 2),
        case("memory", EQUAL_QUERIES, _equal_queries(rng, long, 3), long // 2 + 1, watch=long),
    ]


def _all_low(rng: np.random.Generator, B: int, h: int, n: int, d: int) -> tuple[np.ndarray, ...]:
    """Every score lies between −10,010 and −9,990."""
    Q = np.full((B, h, n, d), 100.0)
    K = -(100.0 + normal(rng, B, h, n, d, scale=0.02)) / math.sqrt(d)
    return Q, K.astype(np.float32).astype(np.float64), normal(rng, B, h, n, d)


def _equal_queries(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, ...]:
    """One head whose queries are all the same, so that a tensor of scores has one number for each key it met."""
    Q, K, V = _inputs(rng, 1, 1, n, d)
    return np.repeat(Q[:, :, :1], n, axis=2), K, V


def _all_keys_at_once(case: Case, arrays: list[np.ndarray]) -> str | None:
    """Whether one array holds the scores of all n keys, however they are scaled and shifted."""
    Q, K = case.args[:2]
    scores = np.sort(K[0, 0] @ Q[0, 0, 0])
    for array in arrays:
        found = np.unique(np.round(array.astype(np.float64), 8)) if array.dtype.kind == "f" else array[:0]
        if found.size == scores.size and np.isfinite(found).all() and abs(np.corrcoef(found, scores)[0, 1]) > 1 - 1e-6:
            return "the scores of a query with all n keys are made at once"
    return None


def _too_large(case: Case, arrays: list[np.ndarray]) -> str | None:
    if case.label == EQUAL_QUERIES:
        return _all_keys_at_once(case, arrays)
    found = next((array for array in arrays if array.size >= case.watch), None)
    if found is None:
        return None
    n = case.sizes["n"]
    return f"a tensor of shape {found.shape} is made on the way: as many entries as n × n = {n} × {n} scores"


def _tiled(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    block_size: int,
    *,
    scaling: str = "root of d_head",
    rescale_sum: bool = True,
    rescale_out: bool = True,
    upside_down: bool = False,
    maximum: str = "running",
    blocks: Callable[[int, int], list[tuple[int, int]]] = lambda n, size: [
        (start, min(start + size, n)) for start in range(0, n, size)
    ],
    normalise: str = "at the end",
    scale_again: bool = False,
    first_values: bool = False,
    start: float = -math.inf,
    after: Callable[[Tensor], Any] = lambda out: out,
) -> Any:
    """Online softmax over blocks of keys, with a place for every slip."""
    d = Q.shape[-1]
    sizes = {"d_model": d, "h": Q.shape[1], "m": block_size}
    scale = parts.scale_of(scaling, Q, sizes)
    top = Q.new_full((*Q.shape[:-1], 1), start)
    total, out = torch.zeros_like(top), torch.zeros_like(Q)
    count, last = 0, None
    for first, end in blocks(K.shape[-2], block_size):
        scores = Q @ K[..., first:end, :].mT * (scale ** (count + 1) if scale_again else scale)
        block_top = scores.amax(-1, keepdim=True)
        if maximum == "running":
            new_top = torch.maximum(top, block_top)
        elif maximum == "block":
            new_top = block_top
        elif maximum == "none":
            new_top = torch.zeros_like(block_top)
        else:
            new_top = block_top if last is None else last
        last = new_top
        exponents = torch.exp(scores - new_top)
        shrink = torch.exp((new_top - top) if upside_down and bool(torch.isfinite(top).all()) else (top - new_top))
        shrink = torch.nan_to_num(shrink, nan=0.0, posinf=0.0)
        total = total * (shrink if rescale_sum else 1.0) + exponents.sum(-1, keepdim=True)
        part = exponents @ (V[..., : end - first, :] if first_values else V[..., first:end, :])
        if normalise.startswith("every block"):
            part = part / exponents.sum(-1, keepdim=True)
        out = out * (shrink if rescale_out else 1.0) + part
        if normalise == "in the loop":
            out = out / total
        top = new_top
        count += 1
    result = {
        "at the end": out / total,
        "never": out,
        "in the loop": out,
        "every block": out / max(count, 1),
        "every block, added": out,
        "twice": out / total / total,
    }[normalise]
    return after(result)


def _whole_blocks(n: int, size: int) -> list[tuple[int, int]]:
    return [(start, start + size) for start in range(0, n - size + 1, size)] or [(0, n)]


def _blocks_that_share_a_key(n: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size + 1, n)) for start in range(0, n, size)]


def _blocks_that_skip_a_key(n: int, size: int) -> list[tuple[int, int]]:
    return [(start, max(min(start + size - 1, n), start + 1)) for start in range(0, n, size)]


_TILED_ATTENTION = Exercise(
    name="tiled_attention",
    unit=UNIT,
    not_from=("loop_attention", "batched_attention"),
    returns=Leaf("float array", "the output"),
    reference=_tiled_attention,
    draw=_draw_tiled_attention,
    credit={
        "values": 0.4,
        "last block": 0.1,
        "block sizes": 0.1,
        "large scores": 0.15,
        "memory": 0.15,
        "gradients": 0.1,
    },
    mistakes=(
        *with_slips(
            _tiled,
            (
                (
                    "nothing-rescaled",
                    "What was summed before a larger maximum came is not rescaled. Which factor sets it right?",
                    {"rescale_sum": False, "rescale_out": False},
                ),
                (
                    "sum-not-rescaled",
                    "The output is rescaled when the maximum grows, the sum of exponentials is not.",
                    {"rescale_sum": False},
                ),
                (
                    "output-not-rescaled",
                    "The sum of exponentials is rescaled when the maximum grows, the output is not.",
                    {"rescale_out": False},
                ),
                (
                    "rescaled-upside-down",
                    "The factor of the rescaling is upside down: sums shrink when the maximum grows.",
                    {"upside_down": True},
                ),
                (
                    "maximum-of-the-block",
                    "Each block takes its own maximum off, and what was summed is not brought to the same one.",
                    {
                        "maximum": "block",
                        "rescale_sum": False,
                        "rescale_out": False,
                        "normalise": "at the end",
                        "after": lambda out: out * 1.0,
                    },
                ),
                ("no-maximum", parts.UNSTABLE, {"maximum": "none", "start": 0.0}),
                (
                    "maximum-of-the-first-block",
                    "The first block's maximum is kept for all blocks: larger scores may follow.",
                    {"maximum": "first"},
                ),
                (
                    "starts-at-zero",
                    "The running maximum begins at a number such as 0. All scores may be far below it.",
                    {"start": 0.0},
                ),
                (
                    "last-block-lost",
                    "A last block that is not whole is left out. Where does the loop end?",
                    {"blocks": _whole_blocks},
                ),
                (
                    "keys-shared",
                    "A key at the border of two blocks is counted twice.",
                    {"blocks": _blocks_that_share_a_key},
                ),
                ("keys-skipped", "The last key of each block is left out.", {"blocks": _blocks_that_skip_a_key}),
                (
                    "first-block-only",
                    "Only the first block is looked at.",
                    {"blocks": lambda n, size: [(0, min(size, n))]},
                ),
                (
                    "last-block-only",
                    "Only the last block counts. Is what came before kept?",
                    {"blocks": lambda n, size: [((n - 1) // size * size, n)]},
                ),
                (
                    "first-block-left-out",
                    "The first block is left out.",
                    {"blocks": lambda n, size: [(s, min(s + size, n)) for s in range(size, n, size)] or [(0, n)]},
                ),
                ("not-normalised", "The output is not divided by the sum of the exponentials.", {"normalise": "never"}),
                (
                    "softmax-in-each-block",
                    "Each block has its own softmax, and the blocks are averaged. One softmax runs over all keys.",
                    {"normalise": "every block", "rescale_sum": False, "rescale_out": False, "maximum": "block"},
                ),
                (
                    "softmaxes-added",
                    "Each block has its own softmax, and the blocks are added. One softmax runs over all keys.",
                    {
                        "normalise": "every block, added",
                        "rescale_sum": False,
                        "rescale_out": False,
                        "maximum": "block",
                    },
                ),
                (
                    "divided-in-the-loop",
                    "The output is divided by the running sum after every block. Divide once, after the last.",
                    {"normalise": "in the loop"},
                ),
                (
                    "root-of-the-block",
                    "The scores are divided by the root of the block size. Over what does the dot product sum?",
                    {"scaling": "root of m"},
                ),
                (
                    "scaled-again-in-every-block",
                    "The scale is applied once more with every block. Does the loop change the queries?",
                    {"scale_again": True},
                ),
                (
                    "values-of-the-first-block",
                    "Every block takes the first block's values. The values move along with the keys.",
                    {"first_values": True},
                ),
                (
                    "normalised-twice",
                    "The output is divided by the sum of the exponentials twice.",
                    {"normalise": "twice"},
                ),
                ("unscaled", "The scores are not divided by √d.", {"scaling": "none"}),
                (
                    "divides-by-d",
                    "The scores are divided by d; it is the root of it that keeps their variance at 1.",
                    {"scaling": "d_head"},
                ),
                (
                    "root-of-n",
                    "The scores are divided by √n. Over what does the dot product sum?",
                    {"scaling": "root of n"},
                ),
                (
                    "transposed-result",
                    "The last two axes have changed places in the result.",
                    {"after": lambda out: out.mT},
                ),
                (
                    "tokens-before-heads",
                    "Heads and tokens have changed places in the result.",
                    {"after": lambda out: out.transpose(1, 2)},
                ),
            ),
        ),
        Mistake(
            "all-scores-at-once",
            "All n × n scores are made at once. The result is right, but saving that memory is the point.",
            lambda Q, K, V, block_size: _slipped(Q, K, V),
        ),
        Mistake(
            "queries-cut-not-keys",
            "The result is right, but each query meets all keys at once. Cut the keys and the values, not the queries.",
            lambda Q, K, V, block_size: torch.cat([_slipped(block, K, V) for block in Q.split(block_size, 2)], 2),
        ),
        Mistake(
            "own-block-only",
            "Each block of queries sees the keys of its own block alone. Every query meets every block of keys.",
            lambda Q, K, V, block_size: torch.cat(
                [
                    _slipped(*(array[:, :, first : first + block_size] for array in (Q, K, V)))
                    for first in range(0, Q.shape[2], block_size)
                ],
                2,
            ),
        ),
        Mistake(
            "blocks-so-far",
            "Each block of queries sees the blocks of keys up to its own. Nothing is masked here: later ones count.",
            lambda Q, K, V, block_size: torch.cat(
                [
                    _tiled(
                        Q[:, :, first : first + block_size],
                        K[:, :, : first + block_size],
                        V[:, :, : first + block_size],
                        block_size,
                    )
                    for first in range(0, Q.shape[2], block_size)
                ],
                2,
            ),
        ),
        Mistake(
            "first-heads-keys",
            "All heads read the keys and values of the first one.",
            lambda Q, K, V, block_size: _tiled(Q, K[:, :1].expand_as(K), V[:, :1].expand_as(V), block_size),
        ),
    ),
    library="torch",
    made=_too_large,
)


# ---------------------------------------------------------------------------------------------------------------------
# attention_flops and score_matrix_bytes


def _attention_flops(batch: int, n_heads: int, n: int, d_head: int) -> int:
    multiplies_per_score = d_head
    scores = batch * n_heads * n**2
    return 2 * (scores * multiplies_per_score) + 2 * (scores * d_head)


def _draw_attention_flops(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, *args: int) -> Case:
        return Case(criterion, label, args, sizes=dict(zip(("B", "h", "n", "d_head"), args, strict=True)))

    B, h, n, d = distinct(rng, 4, 3, 17)
    return [
        case("values", f"{B}, {h}, {n}, {d}", B, h, n, d),
        case("values", "GPT-2 small on 1,024 tokens", 1, 12, 1024, 64),
        case("values", "other sizes", d + 17, n + 5, h + 30, B + 40),
        case("edge cases", "all sizes 1", 1, 1, 1, 1),
        case("edge cases", "a long context, above 2**53", 64, 128, 1_048_577, 127),
    ]


def _flops(count: Callable[[int, int, int, int], Any]) -> Callable[..., Any]:
    return lambda batch, n_heads, n, d_head: count(batch, n_heads, n, d_head)


_ATTENTION_FLOPS = Exercise(
    name="attention_flops",
    unit=UNIT,
    returns=Leaf("int", "the count"),
    reference=_attention_flops,
    draw=_draw_attention_flops,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "add-not-counted",
            "A multiply and an add count as two operations, not as one.",
            _flops(lambda B, h, n, d: 2 * B * h * n * n * d),
        ),
        Mistake(
            "neither-counted-twice",
            "Multiplies and adds are two each, and there are two matmuls.",
            _flops(lambda B, h, n, d: B * h * n * n * d),
        ),
        Mistake(
            "head-width-squared",
            "d_head comes in once per matmul, n twice.",
            _flops(lambda B, h, n, d: 4 * B * h * n * d * d),
        ),
        Mistake(
            "linear-in-n", "Each query meets each key: n comes in twice.", _flops(lambda B, h, n, d: 4 * B * h * n * d)
        ),
        Mistake("heads-missing", "The heads are not counted.", _flops(lambda B, h, n, d: 4 * B * n * n * d)),
        Mistake(
            "heads-squared",
            "The heads come in twice; they do not meet each other.",
            _flops(lambda B, h, n, d: 4 * B * h * h * n * n * d),
        ),
        Mistake("batch-missing", "The batch is not counted.", _flops(lambda B, h, n, d: 4 * h * n * n * d)),
        Mistake(
            "batch-squared",
            "The batch comes in twice; its sequences do not meet each other.",
            _flops(lambda B, h, n, d: 4 * B * B * h * n * n * d),
        ),
        Mistake("width-missing", "The width of a head is not counted.", _flops(lambda B, h, n, d: 4 * B * h * n * n)),
        Mistake(
            "softmax-counted",
            "The softmax is left out of this count.",
            _flops(lambda B, h, n, d: 4 * B * h * n * n * d + 5 * B * h * n * n),
        ),
        Mistake(
            "one-add-less",
            "A dot product of d entries has d − 1 adds, but by custom a multiply and an add count as a pair.",
            _flops(lambda B, h, n, d: B * h * n * n * (2 * d - 1) + B * h * n * d * (2 * n - 1)),
        ),
        Mistake(
            "causal-saving",
            "Nothing is saved by a causal mask here.",
            _flops(lambda B, h, n, d: 2 * B * h * n * (n + 1) * d),
        ),
        Mistake(
            "matmuls-multiplied",
            "The two matmuls are multiplied; add them.",
            _flops(lambda B, h, n, d: (2 * B * h * n * n * d) ** 2),
        ),
        Mistake(
            "eightfold",
            "It is twice too much: two matmuls of 2·n·n·d each.",
            _flops(lambda B, h, n, d: 8 * B * h * n * n * d),
        ),
        Mistake(
            "projections-counted",
            "The projections are counted too; only the two matmuls of the attention are asked for.",
            _flops(lambda B, h, n, d: 4 * B * h * n * n * d + 8 * B * n * (h * d) ** 2),
        ),
        Mistake(
            "float-count",
            "The count is a float, so large ones lose digits. Multiply ints.",
            _flops(lambda B, h, n, d: 4.0 * B * h * n * n * d),
        ),
        Mistake(
            "softmax-as-three",
            "The softmax is counted; only the two matmuls are.",
            _flops(lambda B, h, n, d: B * h * n * n * (4 * d + 3)),
        ),
        Mistake(
            "scaling-counted",
            "The division of each score by √d is counted; only the two matmuls are.",
            _flops(lambda B, h, n, d: B * h * n * n * (4 * d + 1)),
        ),
        Mistake(
            "width-divided-by-heads",
            "d_head is divided by the heads once more. It is the width of one head already.",
            _flops(lambda B, h, n, d: 4 * B * h * n * n * (d // h)),
        ),
        Mistake(
            "caret",
            "In Python ^ is no power but the bitwise exclusive or.",
            _flops(lambda B, h, n, d: 4 * B * h * (n ^ 2) * d),
        ),
        Mistake(
            "gigaflops",
            "Billions of operations are returned; the operations themselves are asked for.",
            _flops(lambda B, h, n, d: 4 * B * h * n * n * d // 10**9),
        ),
    ),
    library="torch",
)


def _score_matrix_bytes(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    per_head = n * n * bytes_per_value
    return per_head * n_heads * batch


def _draw_score_matrix_bytes(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, *args: int) -> Case:
        sizes = dict(zip(("B", "h", "n", "bytes_per_value"), (*args, 2)[:4], strict=True))
        return Case(criterion, label, args, sizes=sizes)

    B, h, n = distinct(rng, 3, 5, 17)
    return [
        case("values", f"{B}, {h}, {n} in float32", B, h, n, 4),
        case("values", "float64", h, n + 3, B + 20, 8),
        case("default", "bytes_per_value left out", B + 1, h + 1, n + 12),
        case("default", "one sequence of 8,192 tokens", 1, 32, 8192),
        case("edge cases", "all sizes 1", 1, 1, 1, 1),
        case("edge cases", "one byte per value", B, h, n + 30, 1),
        case("edge cases", "a long context, above 2**53", 63, 128, 1_048_577, 2),
    ]


def _bytes(count: Callable[[int, int, int, int], Any], default: int = 2) -> Callable[..., Any]:
    def wrong(batch: int, n_heads: int, n: int, bytes_per_value: int = default) -> Any:
        return count(batch, n_heads, n, bytes_per_value)

    return wrong


_SCORE_MATRIX_BYTES = Exercise(
    name="score_matrix_bytes",
    unit=UNIT,
    returns=Leaf("int", "the number of bytes"),
    reference=_score_matrix_bytes,
    draw=_draw_score_matrix_bytes,
    credit={"values": 0.6, "default": 0.2, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "linear-in-n",
            "Each query has a score for each key: n comes in twice.",
            _bytes(lambda B, h, n, b: B * h * n * b),
        ),
        Mistake("heads-missing", "Each head has scores of its own.", _bytes(lambda B, h, n, b: B * n * n * b)),
        Mistake("batch-missing", "Each sequence has scores of its own.", _bytes(lambda B, h, n, b: h * n * n * b)),
        Mistake(
            "values-not-bytes", "The scores are counted, not their bytes.", _bytes(lambda B, h, n, b: B * h * n * n)
        ),
        Mistake("always-two-bytes", "bytes_per_value is ignored.", _bytes(lambda B, h, n, b: 2 * B * h * n * n)),
        Mistake("always-four-bytes", "bytes_per_value is ignored.", _bytes(lambda B, h, n, b: 4 * B * h * n * n)),
        Mistake(
            "bits", "Bits are returned; a byte has eight of them.", _bytes(lambda B, h, n, b: 8 * B * h * n * n * b)
        ),
        Mistake(
            "twice",
            "It is twice too much: one matrix of scores, not scores and weights.",
            _bytes(lambda B, h, n, b: 2 * B * h * n * n * b),
        ),
        Mistake(
            "causal-half",
            "Only half the matrix is counted. It is made whole.",
            _bytes(lambda B, h, n, b: B * h * (n * (n + 1) // 2) * b),
        ),
        Mistake("heads-squared", "The heads come in twice.", _bytes(lambda B, h, n, b: B * h * h * n * n * b)),
        Mistake(
            "mebibytes",
            "Mebibytes are returned; bytes are asked for.",
            _bytes(lambda B, h, n, b: B * h * n * n * b / 2**20),
        ),
        Mistake(
            "kibibytes",
            "Kibibytes are returned; bytes are asked for.",
            _bytes(lambda B, h, n, b: B * h * n * n * b // 1024),
        ),
        Mistake(
            "default-of-four",
            "The default is 2 bytes per value, as in float16 and bfloat16.",
            _bytes(lambda B, h, n, b: B * h * n * n * b, default=4),
        ),
        Mistake(
            "float-count",
            "The count is a float, so large ones lose digits. Multiply ints.",
            _bytes(lambda B, h, n, b: float(B * h * n * n * b)),
        ),
        Mistake(
            "cubed",
            "n comes in three times; each query has one score for each key.",
            _bytes(lambda B, h, n, b: B * h * n**3 * b),
        ),
        Mistake(
            "bits-taken-for-bytes",
            "The result is divided by 8, but bytes_per_value is in bytes already.",
            _bytes(lambda B, h, n, b: B * h * n * n * b // 8),
        ),
        Mistake(
            "bytes-as-power",
            "bytes_per_value stands as the power of n. n comes in twice, and each score takes that many bytes.",
            _bytes(lambda B, h, n, b: B * h * n**b),
        ),
        Mistake(
            "caret",
            "In Python ^ is no power but the bitwise exclusive or.",
            _bytes(lambda B, h, n, b: B * h * (n ^ 2) * b),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# roofline_seconds


def _roofline_seconds(flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float) -> float:
    return float(np.maximum(flops / peak_flops, bytes_moved / peak_bandwidth))


def _draw_roofline_seconds(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, intensity: float, total: float = 1.0) -> Case:
        """A kernel whose flops per byte are `intensity` times what the machine can feed."""
        peak_flops, bandwidth = float(rng.uniform(1e12, 9e13)), float(rng.uniform(2e11, 3e12))
        moved = float(rng.uniform(1e6, 9e8)) * total
        args = (moved * intensity * peak_flops / bandwidth, moved, peak_flops, bandwidth)
        return Case(criterion, label, args, rtol=1e-6)

    memory, compute = float(rng.uniform(0.1, 0.6)), float(rng.uniform(2.0, 6.0))
    idle = case("edge cases", "", 1.0).args
    whole = (4 * 10**9, 10**8, 10**12, 10**11)
    return [
        case("values", "limited by memory", memory),
        case("values", "limited by arithmetic", compute),
        case("values", "limited by memory, by little", 0.9),
        case("values", "limited by arithmetic, by little", 1.1),
        case("values", "a long run", compute, total=1e5),
        Case("edge cases", "no arithmetic (a copy)", (0, *idle[1:]), rtol=1e-6),
        Case("edge cases", "no bytes moved", (idle[0], 0, *idle[2:]), rtol=1e-6),
        Case("edge cases", "nothing to do", (0, 0, *idle[2:]), rtol=1e-6),
        Case("edge cases", "whole numbers", whole, rtol=1e-6),
        Case("edge cases", "less than one second per unit", (3, 5, 7, 11), rtol=1e-6),
    ]


def _roof(combine: Callable[[float, float], Any], first: str = "flops", second: str = "bytes") -> Callable[..., Any]:
    def wrong(flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float) -> Any:
        times = {
            "flops": flops / peak_flops,
            "bytes": bytes_moved / peak_bandwidth,
            "flops upside down": peak_flops / flops if flops else math.inf,
            "bytes upside down": peak_bandwidth / bytes_moved if bytes_moved else math.inf,
            "flops over bandwidth": flops / peak_bandwidth,
            "bytes over flops": bytes_moved / peak_flops,
        }
        return combine(times[first], times[second])

    return wrong


def _by_intensity(flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float) -> float:
    intensity = flops / bytes_moved
    return flops / min(peak_flops, intensity * peak_bandwidth)


_ROOFLINE_SECONDS = Exercise(
    name="roofline_seconds",
    unit=UNIT,
    returns=Leaf("float", "the time"),
    reference=_roofline_seconds,
    draw=_draw_roofline_seconds,
    credit={"values": 0.7, "edge cases": 0.3},
    mistakes=(
        Mistake(
            "sum-of-times",
            "The two times are added. They run side by side: the longer one is the limit.",
            _roof(lambda a, b: a + b),
        ),
        Mistake("smaller-time", "The smaller of the two times is taken; the longer one is the limit.", _roof(min)),
        Mistake("arithmetic-only", "Only the arithmetic is timed; moving bytes takes time too.", _roof(lambda a, b: a)),
        Mistake("memory-only", "Only the bytes are timed; arithmetic takes time too.", _roof(lambda a, b: b)),
        Mistake(
            "mean-of-times", "The two times are averaged; the longer one is the limit.", _roof(lambda a, b: (a + b) / 2)
        ),
        Mistake(
            "product-of-times", "The two times are multiplied; the longer one is the limit.", _roof(lambda a, b: a * b)
        ),
        Mistake(
            "root-of-squares", "The two times are added as squares; the longer one is the limit.", _roof(math.hypot)
        ),
        Mistake(
            "upside-down",
            "The quotients are upside down: time is work divided by rate.",
            _roof(max, "flops upside down", "bytes upside down"),
        ),
        Mistake(
            "peaks-swapped",
            "The two peaks have changed places.",
            _roof(max, "flops over bandwidth", "bytes over flops"),
        ),
        Mistake(
            "bandwidth-for-both", "Both are divided by the bandwidth.", _roof(max, "flops over bandwidth", "bytes")
        ),
        Mistake("flops-for-both", "Both are divided by the peak arithmetic.", _roof(max, "flops", "bytes over flops")),
        Mistake(
            "milliseconds", "Milliseconds are returned; seconds are asked for.", _roof(lambda a, b: 1e3 * max(a, b))
        ),
        Mistake("bits-per-second", "The bytes are taken for bits.", _roof(lambda a, b: max(a, 8 * b))),
        Mistake(
            "rate-not-time",
            "A rate is returned; a time is asked for.",
            _roof(lambda a, b: 1 / max(a, b) if max(a, b) else 0.0),
        ),
        Mistake("both-times", "Both times are returned; the longer one is asked for.", _roof(lambda a, b: (a, b))),
        Mistake("difference", "The difference of the two times is returned.", _roof(lambda a, b: abs(a - b))),
        Mistake(
            "intensity-divides-by-zero",
            "Where no bytes are moved, or nothing is calculated, it divides by 0.",
            _by_intensity,
        ),
        Mistake(
            "work-times-rate",
            "Work and rate are multiplied: time is work divided by rate.",
            lambda flops, bytes_moved, peak_flops, peak_bandwidth: max(
                flops * peak_flops, bytes_moved * peak_bandwidth
            ),
        ),
        Mistake(
            "attainable-rate",
            "This is the roof itself, the operations per second that can be reached. How long does the work take then?",
            lambda flops, bytes_moved, peak_flops, peak_bandwidth: min(
                peak_flops, flops / max(bytes_moved, 1e-30) * peak_bandwidth
            ),
        ),
        Mistake(
            "flops-doubled",
            "The operations are doubled. Multiplies and adds are both counted in `flops` already.",
            _roof(lambda a, b: max(2 * a, b)),
        ),
        Mistake(
            "whole-seconds", "The times are rounded to whole seconds.", _roof(lambda a, b: float(math.floor(max(a, b))))
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# median_time

Call = Callable[[], Any]


def _median_time(run: Call, synchronize: Call, clock: Call, warmup: int, repeats: int) -> float:
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def _device(rng: np.random.Generator, warmup: int, repeats: int, pending: float = 0.0, launch: float = 2e-5) -> Device:
    """Runs get faster while they warm up, then vary with a few slow ones; later runs are another matter."""
    slow = rng.uniform(0.05, 0.09, warmup) + np.linspace(0.2, 0.05, warmup)
    steady = rng.uniform(0.010, 0.014, repeats) + np.where(
        rng.random(repeats) < 0.3, rng.uniform(0.01, 0.03, repeats), 0
    )
    later = rng.uniform(0.001, 0.003, 40)
    durations = [float(seconds) for seconds in (*slow, *steady, *later)]
    start = float(rng.uniform(100, 900))

    def make() -> Mapping[str, Call]:
        device = SimulatedDevice(durations, launch, start, pending)
        return {name: getattr(device, name) for name in PARTS}

    return Device(make)


def _draw_median_time(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, warmup: int, repeats: int, **options: float) -> Case:
        device = _device(rng, warmup, repeats, **options)
        args = (*(device.part(name) for name in PARTS), warmup, repeats)
        return Case(criterion, label, args, sizes={"warmup": warmup, "repeats": repeats}, rtol=1e-6)

    odd, even = 2 * int(rng.integers(3, 6)) + 1, 2 * int(rng.integers(2, 5))
    return [
        case("values", f"3 warm-up runs, {odd} repeats", 3, odd),
        case("values", f"2 warm-up runs, {odd + 2} repeats", 2, odd + 2),
        case("values", "slow to launch", 2, odd, launch=3e-3),
        case("even count", f"{even} repeats", 2, even),
        case("even count", "2 repeats", 1, 2),
        case("edge cases", "one repeat", 4, 1),
        case("edge cases", "no warm-up", 0, odd),
        case("work of others", "work of others is still running", 0, odd, pending=0.4),
        case("work of others", "and so with one repeat", 0, 1, pending=0.3),
    ]


def _timed(
    run: Call,
    synchronize: Call,
    clock: Call,
    warmup: int,
    repeats: int,
    *,
    before: bool = True,
    after: bool = True,
    settle: bool = True,
    summary: Callable[[list[float]], Any] = statistics.median,
    more_warmup: int = 0,
    more_repeats: int = 0,
    runs: int = 1,
    count_warmup: bool = False,
    launch_first: bool = False,
    warm_up_again: bool = False,
    differences: bool = True,
) -> Any:
    times = []
    for _ in range(warmup + more_warmup if not (count_warmup or warm_up_again) else 0):
        run()
    if settle:
        synchronize()
    for _ in range(repeats + more_repeats + (warmup if count_warmup else 0)):
        for _ in range(warmup if warm_up_again else 0):
            run()
        if before:
            synchronize()
        if launch_first:
            run()
        start = clock()
        for _ in range(0 if launch_first else runs):
            run()
        if after:
            synchronize()
        times.append(clock() - start if differences else clock())
    return summary(times) if times else 0.0


def _total_over_repeats(run: Call, synchronize: Call, clock: Call, warmup: int, repeats: int) -> float:
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    for _ in range(repeats):
        run()
    synchronize()
    return (clock() - start) / repeats


def _running_times(run: Call, synchronize: Call, clock: Call, warmup: int, repeats: int) -> float:
    for _ in range(warmup):
        run()
    synchronize()
    start, times = clock(), []
    for _ in range(repeats):
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def _kept_order(times: list[float]) -> float:
    middle = len(times) // 2
    return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2


_MEDIAN_TIME = Exercise(
    name="median_time",
    unit=UNIT,
    returns=Leaf("float", "the time"),
    reference=_median_time,
    draw=_draw_median_time,
    credit={"values": 0.6, "even count": 0.15, "edge cases": 0.15, "work of others": 0.1},
    mistakes=(
        *with_slips(
            _timed,
            (
                (
                    "clock-read-too-early",
                    "The clock is read before the work is done: `run` only launches it. Wait with `synchronize` first.",
                    {"after": False, "before": False},
                ),
                (
                    "warm-up-still-running",
                    "The first reading comes while earlier work still runs, so the first time holds that too.",
                    {"before": False, "settle": False},
                ),
                (
                    "warm-up-counted",
                    "The warm-up runs are timed with the others. They are to be left out.",
                    {"count_warmup": True},
                ),
                (
                    "mean-for-median",
                    "The mean is taken. One slow run moves it: take the median.",
                    {"summary": statistics.fmean},
                ),
                ("fastest", "The fastest time is taken; take the median.", {"summary": min}),
                ("slowest", "The slowest time is taken; take the median.", {"summary": max}),
                ("sum-of-times", "The times are added; take their median.", {"summary": sum}),
                (
                    "median-not-sorted",
                    "The middle one in order of time is taken, not in order of size. Sort first.",
                    {"summary": _kept_order},
                ),
                (
                    "lower-median",
                    "Of an even count the lower of the middle two is taken; take their mean.",
                    {"summary": statistics.median_low},
                ),
                (
                    "upper-median",
                    "Of an even count the upper of the middle two is taken; take their mean.",
                    {"summary": statistics.median_high},
                ),
                ("one-warm-up-too-many", "There is one warm-up run too many.", {"more_warmup": 1}),
                ("one-repeat-too-many", "There is one repeat too many.", {"more_repeats": 1}),
                ("one-repeat-too-few", "There is one repeat too few.", {"more_repeats": -1}),
                ("two-runs-per-time", "Each time holds two runs.", {"runs": 2}),
                ("times-returned", "All times are returned; their median is asked for.", {"summary": list}),
                (
                    "milliseconds",
                    "Milliseconds are returned; seconds are asked for.",
                    {"summary": lambda t: 1e3 * statistics.median(t)},
                ),
                (
                    "standard-deviation",
                    "The spread is returned; the median is asked for.",
                    {"summary": statistics.pstdev},
                ),
                (
                    "launch-before-the-clock",
                    "The work is launched before the first reading. Read the clock first, so that all of it is timed.",
                    {"launch_first": True},
                ),
                (
                    "middle-of-the-range",
                    "The middle between the fastest and the slowest is taken; take the median.",
                    {"summary": lambda t: (min(t) + max(t)) / 2},
                ),
                (
                    "trimmed-mean",
                    "The fastest and the slowest are dropped and the others averaged; take the median of all.",
                    {"summary": lambda t: statistics.fmean(sorted(t)[1:-1] or t)},
                ),
                (
                    "warm-up-before-each",
                    "The warm-up comes before every repeat; once, before the first, is enough.",
                    {"warm_up_again": True},
                ),
                (
                    "readings-not-differences",
                    "Readings of the clock are collected. A time is the difference of two of them.",
                    {"differences": False},
                ),
            ),
        ),
        Mistake(
            "no-warm-up",
            "There are no warm-up runs before the repeats.",
            lambda run, synchronize, clock, warmup, repeats: _timed(run, synchronize, clock, 0, repeats),
        ),
        Mistake(
            "one-warm-up-only",
            "There is one warm-up run whatever `warmup` says.",
            lambda run, synchronize, clock, warmup, repeats: _timed(run, synchronize, clock, 1, repeats),
        ),
        Mistake(
            "warm-up-taken-from-the-repeats",
            "The first repeats serve as warm-up, so too few are timed. The warm-up runs come on top of the repeats.",
            lambda run, synchronize, clock, warmup, repeats: _timed(
                run, synchronize, clock, 0, repeats, summary=lambda t: statistics.median(t[warmup:] or t)
            ),
        ),
        Mistake(
            "all-at-once", "All repeats are timed together, and that is a mean. Time each alone.", _total_over_repeats
        ),
        Mistake(
            "times-since-the-start",
            "Each time runs from the first reading on. Read the clock anew before each run.",
            _running_times,
        ),
        Mistake(
            "warmup-and-repeats-swapped",
            "The numbers of warm-up runs and of repeats have changed places.",
            lambda run, synchronize, clock, warmup, repeats: _timed(run, synchronize, clock, repeats, warmup),
        ),
    ),
    library="torch",
)


EXERCISES = (
    _LOOP_ATTENTION,
    _BATCHED_ATTENTION,
    _TILED_ATTENTION,
    _ATTENTION_FLOPS,
    _SCORE_MATRIX_BYTES,
    _ROOFLINE_SECONDS,
    _MEDIAN_TIME,
)
