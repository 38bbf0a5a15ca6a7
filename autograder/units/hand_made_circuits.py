"""Induction circuits set by hand: one that works, the ways in which they fail, and how to tell which it was.

Many sets of weights are right, so none is compared with ours. They are run on sequences that nobody has seen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..exercise import Case, Mistake, Symptom

PREFIX_MATCHING = 0.99
#: Weights above these sizes are refused before they are run.
WIDTH_CAP = 4_096
KEYS = ("W_E", "W_pos", "W_U", "blocks")
BLOCK_KEYS = ("W_Q", "W_K", "W_V", "W_O")
SEQUENCES = 4


def build_circuit(
    vocab_size: int,
    n_ctx: int,
    *,
    look_back: int = 1,
    first_logit: float = 30.0,
    match_logit: float | None = None,
    slope: float = 10.0,
    mend_start: bool = False,
    ask: str = "token",
    match_on: str = "noted",
    unembed: str = "prediction",
    shift: int = 0,
    loudness: float = 1.0,
) -> dict[str, Any]:
    """Weights whose residual stream has four parts: token, position, noted previous token, prediction.

    Layer 1 notes at each position the token before it. In layer 2 the current token asks for positions that noted it,
    the latest first, and copies the token that stands there to the prediction. The keyword arguments are slips, but for
    `mend_start`, which keeps position 0, the only one that notes its own token, from being asked for by it.
    """
    v, n = vocab_size, n_ctx
    d_model = 3 * v + n
    if d_model > WIDTH_CAP:
        raise ValueError(f"weights of width {d_model} are too large to be run")
    starts = {"token": 0, "position": v, "noted": v + n, "prediction": 2 * v + n}

    def part(name: str) -> slice:
        return slice(starts[name], starts[name] + (n if name == "position" else v))

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape)

    eye = torch.eye(v)
    W_E, W_pos, W_U = zeros(v, d_model), zeros(n, d_model), zeros(d_model, v)
    W_E[:, part("token")], W_pos[:, part("position")], W_U[part(unembed)] = (
        eye,
        torch.eye(n),
        loudness * eye.roll(shift, 1),
    )

    first = {"W_Q": zeros(d_model, n), "W_K": zeros(d_model, n), "W_V": zeros(d_model, v), "W_O": zeros(v, d_model)}
    for i in range(n):
        if 0 <= i - look_back < n:
            first["W_Q"][v + i, i - look_back] = first_logit * math.sqrt(n)
    first["W_K"][part("position")] = torch.eye(n)
    first["W_V"][part("token")] = eye
    first["W_O"][:, part("noted")] = eye

    d_head = v + 1
    second = {
        "W_Q": zeros(d_model, d_head),
        "W_K": zeros(d_model, d_head),
        "W_V": zeros(d_model, v),
        "W_O": zeros(v, d_model),
    }
    root = math.sqrt(d_head)
    second["W_Q"][part(ask), :v] = (10.0 * n + 30.0 if match_logit is None else match_logit) * root * eye
    second["W_Q"][part("token"), v] = root
    second["W_K"][part(match_on), :v] = eye
    if mend_start:
        second["W_K"][starts["position"], :v] = -1.0
    second["W_K"][part("position"), v] = slope * torch.arange(n)
    second["W_V"][part("token")] = eye
    second["W_O"][:, part("prediction")] = eye
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def draw_circuits(rng: np.random.Generator) -> list[Case]:
    """Cases whose sizes hold what to run the weights on: period, repeats and the seed of the sequences."""

    def case(
        criterion: str, vocab: int, n_ctx: int, period: int, repeats: int, label: str = "", once: bool = False
    ) -> Case:
        sizes = {"period": period, "repeats": repeats, "seed": int(rng.integers(2**31))}
        text = f"{label or f'{repeats} repeats'}: vocab {vocab}, n_ctx {n_ctx}, a block of {period}"
        return Case(criterion, text, (vocab, n_ctx), sizes=sizes, once=once)

    vocab, period = int(rng.integers(12, 20)), int(rng.integers(5, 9))
    other = int(rng.integers(21, 30))
    return [
        case("two repeats", vocab, 2 * period + int(rng.integers(1, 6)), period, 2),
        case("two repeats", other, 2 * period + 3, period + 1, 2),
        case("two repeats", 9, 2 * 9, 9, 2, "every token of the vocabulary"),
        case("two repeats", vocab, 6 * period, period - 1, 2, "room to spare"),
        case("more repeats", vocab, 3 * period + 1, period, 3),
        case("more repeats", other, 6 * period, period, 6),
        case("more repeats", vocab, 27, 2, 13, "blocks of two"),
        case("sizes", 7, 6, 3, 2, "small"),
        case("sizes", 80, 60, 20, 3, once=True),
        case("sizes", int(rng.integers(180, 201)), 128, 31, 4, "large", once=True),
        case("sizes", 1, 1, 1, 1, "smallest"),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Running weights


def run_circuit(tokens: Tensor, weights: dict[str, Any]) -> tuple[Tensor, list[Tensor]]:
    """(logits, patterns) of the attention-only model: one head per layer, no bias, no norm."""
    n = tokens.shape[1]
    allowed = torch.ones(n, n, dtype=torch.bool).tril()
    x, patterns = weights["W_E"][tokens] + weights["W_pos"][:n], []
    for block in weights["blocks"]:
        scores = (x @ block["W_Q"]) @ (x @ block["W_K"]).mT / math.sqrt(block["W_Q"].shape[1])
        patterns.append(torch.softmax(scores.masked_fill(~allowed, -math.inf), -1))
        x = x + patterns[-1] @ x @ block["W_V"] @ block["W_O"]
    return x @ weights["W_U"], patterns


def _sequences(vocab: int, period: int, repeats: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(vocab, generator=generator)[:period] for _ in range(SEQUENCES)]
    return torch.stack(rows).repeat(1, repeats)


# ---------------------------------------------------------------------------------------------------------------------
# What is wrong with them


def examine_circuit(case: Case, weights: Any) -> Symptom | None:
    """The first thing that is wrong with what `build_induction_circuit` returned for this case, or None."""
    vocab, n_ctx = case.args
    problem = _form_problem(weights, vocab, n_ctx)
    if problem is not None:
        return problem
    weights = {key: _tensors(weights[key]) for key in KEYS}
    period, repeats = case.sizes["period"], case.sizes["repeats"]
    tokens = _sequences(vocab, period, repeats, case.sizes["seed"])
    logits, (first, second) = run_circuit(tokens, weights)
    if not torch.isfinite(logits).all():
        return Symptom("not-finite", "the logits hold NaN or infinity")
    rows = torch.arange(period, tokens.shape[1])
    if not len(rows):  # nothing is repeated: to return weights that run is all that was asked for
        return None
    found = second[:, rows, rows - (period - 1)]
    score = float(found.mean())
    known = rows[:-1]
    right = logits[:, known].argmax(-1) == tokens[:, known + 1]
    clear = logits[:, known].topk(2).values.diff(dim=-1).abs().squeeze(-1) > 0
    if score >= PREFIX_MATCHING and bool((right & clear).all()):
        return None
    if score >= PREFIX_MATCHING:
        share = int((~(right & clear)).sum()), right.numel()
        text = (
            f"the second layer attends to the right tokens, but {share[0]} of {share[1]} next tokens are not predicted"
        )
        return Symptom(_prediction_slip(logits[:, known], tokens, known, clear), text)
    return _attention_problem(first, second, period, score)


def _tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensors(item) for item in value]
    if isinstance(value, dict):
        return {key: _tensors(item) for key, item in value.items()}
    return torch.from_numpy(np.ascontiguousarray(value))


def _form_problem(weights: Any, vocab: int, n_ctx: int) -> Symptom | None:
    if not isinstance(weights, dict) or not set(KEYS) <= set(weights):
        return Symptom("keys-missing", f"a dict with {', '.join(KEYS)} was asked for")
    blocks = weights["blocks"]
    if isinstance(blocks, tuple):
        blocks = weights["blocks"] = list(blocks)
    if not isinstance(blocks, list) or len(blocks) != 2 or not all(isinstance(block, dict) for block in blocks):
        return Symptom("keys-missing", "`blocks` must be a list of two dicts, the first layer first")
    if not all(set(BLOCK_KEYS) <= set(block) for block in blocks):
        return Symptom("keys-missing", f"each block must hold {', '.join(BLOCK_KEYS)}")
    named = {key: weights[key] for key in KEYS[:3]}
    named |= {f'blocks[{i}]["{key}"]': block[key] for i, block in enumerate(blocks) for key in BLOCK_KEYS}
    for name, value in named.items():
        if not isinstance(value, np.ndarray):
            return Symptom("not-tensors", f"{name} is no tensor")
        if value.dtype != np.float32:
            return Symptom("not-float32", f"{name} has dtype {value.dtype} where float32 was asked for")
        if value.ndim != 2 or max(value.shape) > WIDTH_CAP or 0 in value.shape:
            return Symptom("wrong-shapes", f"{name} has shape {value.shape}")
        if not np.isfinite(value).all():
            return Symptom("not-finite", f"{name} holds NaN or infinity")
    return _shape_problem(weights, blocks, vocab, n_ctx)


def _shape_problem(weights: dict[str, Any], blocks: list[Any], vocab: int, n_ctx: int) -> Symptom | None:
    d_model = weights["W_E"].shape[1]
    wanted = {"W_E": (vocab, d_model), "W_pos": (n_ctx, d_model), "W_U": (d_model, vocab)}
    shapes = [(key, weights[key].shape, shape) for key, shape in wanted.items()]
    for i, block in enumerate(blocks):
        d_head, d_v = block["W_Q"].shape[1], block["W_V"].shape[1]
        wanted = {"W_Q": (d_model, d_head), "W_K": (d_model, d_head), "W_V": (d_model, d_v), "W_O": (d_v, d_model)}
        shapes += [(f'blocks[{i}]["{key}"]', block[key].shape, shape) for key, shape in wanted.items()]
    for name, shape, fitting in shapes:
        if shape != fitting:
            return Symptom("wrong-shapes", f"{name} has shape {shape} where {fitting} would fit the others")
    return None


def _prediction_slip(logits: Tensor, tokens: Tensor, rows: Tensor, clear: Tensor) -> str:
    if not clear.any():
        return "no-prediction"
    guesses = logits.argmax(-1)
    if float((guesses == tokens[:, rows]).double().mean()) > 0.6:
        return "predicts-the-current-token"
    if float((guesses == tokens[:, rows - 1]).double().mean()) > 0.6:
        return "predicts-the-previous-token"
    return "wrong-prediction"


def _attention_problem(first: Tensor, second: Tensor, period: int, score: float) -> Symptom:
    """Why the second layer does not look where it should, from the places that both layers look at."""
    text = f"the prefix-matching score of the second layer is {score:.2f}, not {PREFIX_MATCHING} or more"
    return Symptom(_first_layer_slip(first) or _second_layer_slip(second, period), text)


def _second_layer_slip(second: Tensor, period: int) -> str:
    n = second.shape[-1]
    rows = torch.arange(period, n)
    weight, key = second[:, period:].max(-1)
    right = second[:, rows, rows - (period - 1)]

    def mostly(hits: Tensor, share: float = 0.6) -> bool:
        return float((hits & (weight > 0.6)).double().mean()) > share

    begins, late = rows % period == 0, rows >= 2 * period
    if period > 1 and bool((right[:, ~begins] > 0.9).all()):
        return "first-token-of-a-block"
    if late.any() and bool((right[:, ~late & ~begins] > 0.9).all()):
        at_matches = sum(second[:, rows, (rows - period + 1 - k * period).clamp_min(0)] for k in range(n // period))
        earliest = ((key == rows % period + 1) & (weight > 0.6))[:, late].double().mean() > 0.8
        return "matches-averaged" if not earliest and float(at_matches[:, late].mean()) > 0.9 else "earliest-match"
    if mostly(key == rows - period):
        return "attends-to-the-match"
    if mostly(key == rows):
        return "second-layer-looks-at-itself"
    if mostly(key == rows - (period - 1)) or float(right.mean()) > 0.5:
        return "too-soft"
    return "second-layer-elsewhere" if float((weight > 0.6).double().mean()) > 0.5 else "second-layer-spreads"


def _first_layer_slip(first: Tensor) -> str | None:
    """What is wrong with the first layer, if it is meant to look at the token before."""
    n = first.shape[-1]
    rows = torch.arange(1, n)
    before, itself = first[:, rows, rows - 1].mean(), first[:, rows, rows].mean()
    two_before = first[:, rows[1:], rows[1:] - 2].mean()
    if float(before) >= 0.9:
        return None
    if float(itself) > 0.6:
        return "first-layer-looks-at-itself"
    if float(two_before) > 0.6:
        return "first-layer-two-back"
    sharp = first[:, rows, rows - 1] >= 0.9
    if float(sharp.double().mean()) >= 0.4:
        return "first-layer-at-some-positions"
    others = first[:, rows].clone()
    others[:, rows - 1, rows - 1] = 0
    most = first[:, rows, rows - 1] > others.amax(-1) + 1e-6
    return "first-layer-too-soft" if float(most.double().mean()) > 0.6 else "no-circuit"


def _with(**slips: Any) -> Any:
    return lambda vocab_size, n_ctx: build_circuit(vocab_size, n_ctx, **slips)


def _changed(change: Any) -> Any:
    return lambda vocab_size, n_ctx: change(build_circuit(vocab_size, n_ctx))


def _in_double(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_double(item) for key, item in value.items()}
    return [_in_double(item) for item in value] if isinstance(value, list) else value.double()


def _in_numpy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_numpy(item) for key, item in value.items()}
    return [_in_numpy(item) for item in value] if isinstance(value, list) else value.numpy()


def _half_of_the_positions(weights: dict[str, Any]) -> dict[str, Any]:
    half = len(weights["W_pos"]) // 2
    weights["W_pos"][half:] = weights["W_pos"][max(half - 1, 0)].clone()
    return weights


def _drawn_weights(vocab_size: int, n_ctx: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    drawn = build_circuit(vocab_size, n_ctx)
    ends = [drawn["W_E"], drawn["W_pos"], drawn["W_U"]]
    for matrix in ends + [W for block in drawn["blocks"] for W in block.values()]:
        matrix.normal_(std=0.02, generator=generator)
    return drawn


CIRCUIT_MISTAKES = (
    Mistake(
        "keys-missing",
        "The dict does not hold all that `run_attention_only` reads: W_E, W_pos, W_U and two blocks.",
        _changed(lambda weights: {**weights, "blocks": weights["blocks"][:1]}),
    ),
    Mistake(
        "wrong-shapes",
        "The weights do not fit together or not the sizes asked for. Go through the shapes one by one.",
        _changed(lambda weights: {**weights, "W_U": weights["W_U"].T.contiguous()}),
    ),
    Mistake("not-float32", "The weights are to be float32.", _changed(_in_double)),
    Mistake("not-tensors", "The weights are to be torch tensors.", _changed(_in_numpy)),
    Mistake("not-finite", "Infinite weights give NaN: a large finite logit is enough.", _with(first_logit=math.inf)),
    Mistake(
        "first-layer-looks-at-itself",
        "Layer 1 attends to the current token. The query of position i is to ask for the key of position i − 1.",
        _with(look_back=0),
    ),
    Mistake(
        "first-layer-two-back",
        "Layer 1 attends two positions back. The query of position i is to ask for the key of position i − 1.",
        _with(look_back=2),
    ),
    Mistake(
        "first-layer-too-soft",
        "Layer 1 spreads its attention over several positions. How large must a logit be to outweigh n − 1 others? "
        "Remember that scores are divided by √d_head, whatever the sizes.",
        _with(first_logit=1.0),
    ),
    Mistake(
        "first-layer-at-some-positions",
        "Layer 1 looks at the token before from some positions and not from others. Does W_pos tell all n_ctx "
        "positions apart, and do queries and keys of layer 1 read all of it?",
        _changed(_half_of_the_positions),
    ),
    Mistake(
        "no-circuit",
        "Layer 1 looks neither at the token before nor at any other fixed place, as with weights that are drawn or "
        "left at 0. Set the weights of layer 1 first, look at its pattern, and go on to layer 2 when it is right.",
        _drawn_weights,
    ),
    Mistake(
        "attends-to-the-match",
        "Layer 2 attends to the current token's earlier self, not to the token after it. "
        "Its keys are to hold what layer 1 noted: the token before.",
        _with(match_on="token", slope=-10.0),
    ),
    Mistake(
        "second-layer-looks-at-itself",
        "Layer 2 attends to the position it stands on. Which part of the stream do its queries read, which its keys?",
        _with(match_on="token"),
    ),
    Mistake(
        "second-layer-elsewhere",
        "Layer 2 attends to other positions than the one after the earlier match. "
        "Which part of the stream do its queries read, which its keys?",
        _with(ask="noted", match_on="token"),
    ),
    Mistake(
        "second-layer-spreads",
        "Layer 2 attends to no position in particular. Do its queries and keys meet in the same features?",
        _with(match_logit=0.0, slope=0.0),
    ),
    Mistake(
        "too-soft",
        "Layer 2 attends to the right position, but not sharply. How large must a logit be to outweigh all others?",
        _with(match_logit=4.0, slope=0.0, mend_start=True),
    ),
    Mistake(
        "first-token-of-a-block",
        "Layer 2 is right but where a block begins anew. Position 0 can attend to itself alone: what does it note?",
        _with(slope=0.0),
    ),
    Mistake(
        "matches-averaged",
        "From the third block on layer 2 shares its attention among all earlier matches. The latest is to win.",
        _with(slope=0.0, mend_start=True),
    ),
    Mistake(
        "earliest-match",
        "From the third block on layer 2 attends to an earlier match than the latest.",
        _with(slope=-10.0, mend_start=True),
    ),
    Mistake(
        "predicts-the-current-token",
        "The attention is right, but the current token is predicted. Which part of the stream does W_U read?",
        _with(unembed="token"),
    ),
    Mistake(
        "predicts-the-previous-token",
        "The attention is right, but the token before is predicted. Which part of the stream does W_U read?",
        _with(unembed="noted"),
    ),
    Mistake(
        "no-prediction",
        "The attention is right, but the logits are all equal. Does what layer 2 writes reach W_U?",
        _with(loudness=0.0),
    ),
    Mistake(
        "wrong-prediction",
        "The attention is right, but other tokens are predicted. Follow one token through W_V, W_O and W_U of layer 2.",
        _with(shift=1),
    ),
)
