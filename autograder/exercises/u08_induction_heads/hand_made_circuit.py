"""Builds and runs an induction circuit with hand-set weights and an option for each way in which it can fail.

Many sets of weights are correct, so none is compared with these.
"""

import math
from typing import Any

import torch
from torch import Tensor

from ..kit import Leaf

#: Wider weights are refused before they are run.
WIDTH_CAP = 4_096


def build_induction_circuit(
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
) -> Leaf("dict", "the weights"):
    """Return weights whose residual stream has four parts: token, position, noted previous token, prediction.

    The first layer notes the previous token at each position. In the second, the current token's query matches
    positions that noted it, the latest first, and copies the token there to the prediction. The keyword arguments are
    slips, except `mend_start`: position 0 is the only one that notes its own token, and `mend_start` keeps this token's
    query from matching it.
    """
    v, n = vocab_size, n_ctx
    d_model = 3 * v + n
    if d_model > WIDTH_CAP:
        raise ValueError(f"weights of width {d_model} are too large to be run")
    token, position, noted = slice(0, v), slice(v, v + n), slice(v + n, 2 * v + n)
    prediction = slice(2 * v + n, d_model)
    part = {"token": token, "noted": noted, "prediction": prediction}
    eye = torch.eye(v)

    W_E, W_pos, W_U = torch.zeros(v, d_model), torch.zeros(n, d_model), torch.zeros(d_model, v)
    W_E[:, token], W_pos[:, position], W_U[part[unembed]] = eye, torch.eye(n), loudness * eye.roll(shift, 1)

    first = _zero_block(d_model, n, v)
    first["W_Q"][position] = first_logit * math.sqrt(n) * torch.ones(n, n).tril(-look_back).triu(-look_back)
    first["W_K"][position] = torch.eye(n)
    first["W_V"][token], first["W_O"][:, noted] = eye, eye

    second, root = _zero_block(d_model, v + 1, v), math.sqrt(v + 1)
    second["W_Q"][part[ask], :v] = (10.0 * n + 30.0 if match_logit is None else match_logit) * root * eye
    second["W_Q"][token, v] = root
    second["W_K"][part[match_on], :v] = eye
    if mend_start:
        second["W_K"][v, :v] = -1.0
    second["W_K"][position, v] = slope * torch.arange(n)
    second["W_V"][token], second["W_O"][:, prediction] = eye, eye
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def _zero_block(d_model: int, d_head: int, d_v: int) -> dict[str, Tensor]:
    """Return the weights of one layer, all 0."""
    shapes = {"W_Q": (d_model, d_head), "W_K": (d_model, d_head), "W_V": (d_model, d_v), "W_O": (d_v, d_model)}
    return {key: torch.zeros(shape) for key, shape in shapes.items()}


def run_circuit(tokens: Tensor, weights: dict[str, Any]) -> tuple[Tensor, list[Tensor]]:
    """Return (logits, patterns) of the attention-only model: one head per layer, no bias, no norm."""
    n = tokens.shape[1]
    allowed = torch.ones(n, n, dtype=torch.bool).tril()
    x, patterns = weights["W_E"][tokens] + weights["W_pos"][:n], []
    for block in weights["blocks"]:
        scores = (x @ block["W_Q"]) @ (x @ block["W_K"]).mT / math.sqrt(block["W_Q"].shape[1])
        patterns.append(torch.softmax(scores.masked_fill(~allowed, -math.inf), -1))
        x = x + patterns[-1] @ x @ block["W_V"] @ block["W_O"]
    return x @ weights["W_U"], patterns
