"""Defines the exercise `llama_logits`, a whole model in its published layout, from tokens to logits."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, by_columns, exercise, size
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from ..u05_mqa_gqa.repeat_kv import plain as repeat_kv
from ..u10_attention_today.rms_norm import plain as rms_norm
from ..u10_attention_today.rms_norm import rms_norm as norm
from ..u10_attention_today.rotate import plain as rotate
from ..u10_attention_today.rotate import rotate as turn
from ..u10_attention_today.swiglu import plain as swiglu
from ..u10_attention_today.swiglu import swiglu as gated
from .slipped_model import MODEL_SLIPS, everything, run
from .small_models import FAINT, LEAST, LOOSE, NOT_HERE, RANGES, head_counts, model, other_order, text


def llama_logits(
    tokens: text("B n"), params: model(), n_heads: size("h"), n_kv_heads: size("g"), base=10000.0, eps=1e-5
) -> Leaf("float array", "the logits"):
    """Use torch's attention and complex numbers for the rotation."""
    positions = torch.arange(tokens.shape[1])
    x = F.embedding(tokens, params["W_E"])
    for p in params["blocks"]:
        z = norm(x, p["gamma_1"], eps)
        Q, K, V = (
            F.linear(z, p[f"W_{role}"].T).unflatten(-1, (heads, -1)).transpose(1, 2)
            for role, heads in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads))
        )
        Q, K = turn(Q, positions, base), turn(K, positions, base)
        heads = F.scaled_dot_product_attention(Q, K, V, is_causal=True, enable_gqa=True)
        x = x + F.linear(heads.transpose(1, 2).flatten(2), p["W_O"].T)
        x = x + gated(norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return F.linear(norm(x, params["gamma_f"], eps), params["W_E"])


def queries_keys_values(x, block, n_heads, n_kv_heads, positions, base, eps):
    normed = rms_norm(x, block["gamma_1"], eps)
    Q = split_heads(normed @ block["W_Q"], n_heads)
    K = split_heads(normed @ block["W_K"], n_kv_heads)
    V = split_heads(normed @ block["W_V"], n_kv_heads)
    return rotate(Q, positions, base), rotate(K, positions, base), V


def attention(Q, K, V, mask):
    d_head = Q.shape[-1]
    scores = Q @ K.mT / math.sqrt(d_head)
    scores = scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def block_output(x, heads, block, eps):
    attended = merge_heads(heads) @ block["W_O"]
    between = x + attended
    normed_again = rms_norm(between, block["gamma_2"], eps)
    return between + swiglu(normed_again, block["W_gate"], block["W_up"], block["W_down"])


def positions_of(tokens):
    n = tokens.shape[1]
    return torch.arange(n)


def causal_mask(tokens):
    n = tokens.shape[1]
    everything = torch.ones(n, n, dtype=torch.bool)
    return everything.tril(0)


def plain(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    W_E = params["W_E"]
    n_rep = n_heads // n_kv_heads
    positions = positions_of(tokens)
    mask = causal_mask(tokens)
    x = W_E[tokens]
    for block in params["blocks"]:
        Q, K, V = queries_keys_values(x, block, n_heads, n_kv_heads, positions, base, eps)
        heads = attention(Q, repeat_kv(K, n_rep), repeat_kv(V, n_rep), mask)
        x = block_output(x, heads, block, eps)
    normed = rms_norm(x, params["gamma_f"], eps)
    return normed @ W_E.T


def cases(case):
    first, second, third = head_counts(case.rng)
    two = {"n_blocks": 2, **LOOSE}
    yield case("values", "two blocks, {h} heads, {g} key/value heads", **first, **two)
    yield case("values", "three blocks, {h} heads, {g} key/value heads", **{**two, "n_blocks": 3}, **second)
    yield case("values", "float32", dtype=np.float32, **third, **two)
    faint = model(stream=FAINT)
    yield case("eps and base", "a faint stream, so that the default eps counts", params=faint, **first, **two)
    yield case("eps and base", "eps = 0.5", eps=0.5, by_name="eps", **second, **two)
    own = float(case.rng.integers(20, 60))
    yield case("eps and base", "base = {base}", base=own, **third, **two)
    yield case("eps and base", "base = {base}, eps = {eps}", base=2 * own, eps=0.25, **first, **two)
    yield case("edge cases", "one block", **{**two, "n_blocks": 1}, **second)
    yield case("edge cases", "no block at all", **{**two, "n_blocks": 0}, **first)
    yield case("edge cases", "a single token (n = 1)", n=1, **third, **two)
    yield case("edge cases", "a single sequence (B = 1)", B=1, **first, **two)
    yield case("edge cases", "as many key/value heads as heads (g = h)", h=3, g=3, **two)
    yield case("edge cases", "one key/value head (g = 1)", h=4, g=1, **two)
    yield case("edge cases", "memory that is not contiguous", layout=by_columns, **second, **two)
    drawn = case.draw(n_blocks=2, **third)
    yield case("edge cases", "params in another order", **{**drawn, "params": other_order(drawn["params"])}, **LOOSE)
    drawn = case.draw(n_blocks=1, vocab=300, **first)
    drawn["tokens"][:, 1] = 299
    yield case("edge cases", "token ids above 255", **drawn, **LOOSE)
    drawn = case.draw(n_blocks=2, **second)
    for block in drawn["params"]["blocks"]:
        block["W_Q"], block["W_K"] = 100 * block["W_Q"], 100 * block["W_K"]
    yield case("edge cases", "scores of some ten thousand", **drawn, **LOOSE)
    drawn = case.draw(n_blocks=1, **third)
    drawn["tokens"][0, :2] = 0, len(drawn["params"]["W_E"]) - 1
    words = "gradients where the first and the last id come, eps = 0.5"
    yield case("gradients", words, gradient=True, eps=0.5, **drawn, **LOOSE)
    precise = {"n_blocks": 2, "eps": 0.25, "rtol": RTOL_FLOAT64}
    yield case("edge cases", IN_FLOAT64, **precise, **first)


def logits(*args, **slips):
    return run(*args, **slips)[0]


MISTAKES = (
    ("not-causal", {"seen": everything}, "Your tokens see their own future. A causal mask is missing."),
    *MODEL_SLIPS,
    ("last-token-only", lambda *args, **kwargs: llama_logits(*args, **kwargs)[:, -1],
     "You return only the last token's logits. Return them at every position."),
)  # fmt: skip

EXERCISE = exercise(
    llama_logits,
    credit={"values": 0.5, "eps and base": 0.2, "edge cases": 0.2, "gradients": 0.1},
    sizes=range(2, 7),
    ranges=RANGES,
    least=LEAST,
    slipped=logits,
    library="torch",
    forbidden=NOT_HERE,
)
