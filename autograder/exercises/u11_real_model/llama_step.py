"""Defines the exercise `llama_step`, in which a model reads a chunk of text after the text in its caches."""

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, by_columns, exercise, size
from ..u05_mqa_gqa.repeat_kv import plain as repeat_kv
from ..u10_attention_today.rms_norm import plain as rms_norm
from ..u10_attention_today.rms_norm import rms_norm as norm
from ..u10_attention_today.rotate import rotate as turn
from ..u10_attention_today.swiglu import swiglu as gated
from .llama_logits import attention, block_output, queries_keys_values
from .slipped_model import MODEL_SLIPS, behind, everything, run
from .small_models import FAINT, LEAST, LOOSE, NOT_HERE, RANGES, caches, head_counts, model, other_order, text

LAYERS = 2
KEPT = [
    (Leaf("float array", f"the keys of layer {layer}"), Leaf("float array", f"the values of layer {layer}"))
    for layer in range(LAYERS)
]


def llama_step(
    tokens: text("B n_new"),
    caches: caches(LAYERS),
    params: model(layers=str(LAYERS)),
    n_heads: size("h"),
    n_kv_heads: size("g"),
    base=10000.0,
    eps=1e-5,
) -> (
    Leaf("float array", "the logits"),
    KEPT,
):
    """Use torch's attention and complex numbers for the rotation."""
    x, longer = F.embedding(tokens, params["W_E"]), []
    for (keys, values), p in zip(caches, params["blocks"], strict=True):
        t, n = keys.shape[2], tokens.shape[1]
        z, positions = norm(x, p["gamma_1"], eps), torch.arange(t, t + n)
        Q, K, V = (
            F.linear(z, p[f"W_{role}"].T).unflatten(-1, (heads, -1)).transpose(1, 2)
            for role, heads in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads))
        )
        K, V = torch.cat([keys, turn(K, positions, base)], 2), torch.cat([values, V], 2)
        seen = torch.ones(n, t + n, dtype=torch.bool).tril(t)
        heads = F.scaled_dot_product_attention(turn(Q, positions, base), K, V, attn_mask=seen, enable_gqa=True)
        x = x + F.linear(heads.transpose(1, 2).flatten(2), p["W_O"].T)
        x = x + gated(norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
        longer.append((K, V))
    return F.linear(norm(x, params["gamma_f"], eps), params["W_E"]), longer


def positions_of(tokens, caches):
    n_new = tokens.shape[1]
    t = caches[0][0].shape[2]
    return torch.arange(t, t + n_new)


def mask_of(tokens, caches):
    n_new = tokens.shape[1]
    t = caches[0][0].shape[2]
    everything = torch.ones(n_new, t + n_new, dtype=torch.bool)
    return everything.tril(diagonal=t)


def plain(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    W_E = params["W_E"]
    n_rep = n_heads // n_kv_heads
    positions = positions_of(tokens, caches)
    mask = mask_of(tokens, caches)
    x = W_E[tokens]
    new_caches = []
    for block, cache in zip(params["blocks"], caches, strict=True):
        K_cached, V_cached = cache
        Q, K_new, V_new = queries_keys_values(x, block, n_heads, n_kv_heads, positions, base, eps)
        K = torch.cat([K_cached, K_new], dim=2)
        V = torch.cat([V_cached, V_new], dim=2)
        new_caches.append((K, V))
        heads = attention(Q, repeat_kv(K, n_rep), repeat_kv(V, n_rep), mask)
        x = block_output(x, heads, block, eps)
    normed = rms_norm(x, params["gamma_f"], eps)
    return normed @ W_E.T, new_caches


def cases(case):
    first, second, third = head_counts(case.rng)
    label = "{n_new} new tokens after {t} cached ones, {h} heads, {g} key/value heads"
    yield case("values", label, **first, **LOOSE)
    few = {"t": range(2, 4), "n_new": range(5, 8)}
    yield case("values", label, **few, **second, **LOOSE)
    yield case("values", "float32", dtype=np.float32, **third, **LOOSE)
    yield case("values", "one new token after {t}", n_new=1, **second, **LOOSE)
    yield case(
        "eps and base",
        "a faint stream, so that the default eps counts",
        params=model(str(LAYERS), FAINT),
        **first,
        **LOOSE,
    )
    own = float(case.rng.integers(20, 60))
    yield case("eps and base", "base = {base}, eps = {eps}", base=own, eps=0.25, **second, **LOOSE)
    yield case("eps and base", "eps = 0.5, and base as it is", eps=0.5, by_name="eps", **third, **LOOSE)
    yield case("edge cases", "empty caches (t = 0)", t=0, **first, **LOOSE)
    yield case("edge cases", "the first token of all (t = 0, n_new = 1)", t=0, n_new=1, **second, **LOOSE)
    yield case("edge cases", "one token in the caches (t = 1)", t=1, **third, **LOOSE)
    yield case("edge cases", "a single sequence (B = 1)", B=1, **first, **LOOSE)
    yield case("edge cases", "as many key/value heads as heads (g = h)", h=3, g=3, **LOOSE)
    yield case("edge cases", "one key/value head (g = 1)", h=4, g=1, **LOOSE)
    yield case("edge cases", "memory that is not contiguous", layout=by_columns, **second, **LOOSE)
    drawn = case.draw(**third)
    yield case("edge cases", "params in another order", **{**drawn, "params": other_order(drawn["params"])}, **LOOSE)
    yield case("edge cases", "{n_new} tokens after 200", t=200, B=1, **first, rtol=3e-4)
    drawn = case.draw(t=1, **second)
    for (keys, _), block in zip(drawn["caches"], drawn["params"]["blocks"], strict=True):
        keys *= 100
        block["W_Q"], block["W_K"] = 100 * block["W_Q"], 100 * block["W_K"]
    yield case("edge cases", "scores of some ten thousand", **drawn, **LOOSE)
    yield case("gradients", "gradients with empty caches, eps = 0.5", gradient=True, t=0, eps=0.5, **third, **LOOSE)
    yield case("edge cases", IN_FLOAT64, eps=0.25, rtol=RTOL_FLOAT64, **first)


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes


def step(tokens, caches, *args, **slips):
    return run(tokens, *args, caches=caches, **slips)


def gives(result):
    """Return a correct step whose result becomes `result(logits, caches, old caches)`."""

    def wrong(tokens, caches, *args, **kwargs):
        logits, longer = llama_step(tokens, caches, *args, **kwargs)
        return result(logits, longer, caches)

    return wrong


def turned_again(cached, new, turn_at):
    """Rotate the cached keys a second time. (`run` has already rotated the new ones.)"""
    if turn_at is None:
        return torch.cat([cached, new], 2)
    return torch.cat([turn_at(cached, torch.arange(cached.shape[2])), new], 2)


def top_left(n_new, n_total):
    return torch.ones(n_new, n_total, dtype=torch.bool).tril()


def new_ones_alone(n_new, n_total):
    return behind(n_new, n_total) & (torch.arange(n_total) >= n_total - n_new)


MISTAKES = (
    ("positions-from-0", {"positions": lambda t, n: torch.arange(n)},
     "You give the new tokens the positions 0, 1, …. They come after the cached ones, at t, t + 1, …."),
    ("one-position-on", {"positions": lambda t, n: torch.arange(t + 1, t + n + 1)},
     "Your positions are one too large. The first token of a text is at 0, so the first new one after t tokens is at "
     "t."),
    ("cached-keys-turned-again", {"join": turned_again},
     "You rotate the cached keys once more. They were rotated when they were new."),
    ("all-at-the-last-position", {"positions": lambda t, n: torch.full((n,), t + n - 1)},
     "You put all new tokens at the position of the last one. Each has its own."),
    ("not-causal", {"seen": everything}, "Your new tokens see those that come after them in the same chunk."),
    ("mask-from-the-top-left", {"seen": top_left},
     "Your mask begins at the top left, so row 0 sees only the first token. Row r is at position t + r."),
    ("cache-not-read", {"seen": new_ones_alone}, "Your new tokens see one another, and nothing of the caches."),
    *MODEL_SLIPS,
    ("new-tokens-first", {"join": lambda cached, new, turn_at: torch.cat([new, cached], 2)},
     "You put the new keys and values before the cached ones; they should come last."),
    ("new-parts-only", gives(lambda logits, longer, old: (
        logits, [tuple(one[:, :, old[0][0].shape[2]:] for one in pair) for pair in longer])),
     "You return caches that hold only the new tokens. The next step needs the old ones as well."),
    ("caches-as-they-were", gives(lambda logits, longer, old: (logits, old)),
     "You return the old caches. The next step needs the new tokens in them."),
    ("last-logits-only", gives(lambda logits, longer, old: (logits[:, -1], longer)),
     "You return only the last token's logits. Return them at every new position."),
    ("first-cache-for-all", lambda tokens, caches, *args, **kwargs: (
        llama_step(tokens, caches[:1] * len(caches), *args, **kwargs)),
     "You let every layer read the first layer's cache. Each has its own."),
    ("one-flat-list", gives(lambda logits, longer, old: (logits, [one for pair in longer for one in pair])),
     "You return the caches as one flat list of tensors. There is a tuple (K, V) for each layer."),
    ("pairs-as-lists", gives(lambda logits, longer, old: (logits, [list(pair) for pair in longer])),
     "You return a layer's cache as a list. It is a tuple (K, V)."),
    ("first-layer-for-all", gives(lambda logits, longer, old: (logits, longer[:1] * len(longer))),
     "You return the first layer's cache for every layer. Each keeps its own."),
)  # fmt: skip

EXERCISE = exercise(
    llama_step,
    credit={"values": 0.5, "eps and base": 0.15, "edge cases": 0.25, "gradients": 0.1},
    sizes=range(2, 7),
    ranges=RANGES,
    least=LEAST,
    slipped=step,
    library="torch",
    contains=("llama_logits",),
    forbidden=NOT_HERE,
)
