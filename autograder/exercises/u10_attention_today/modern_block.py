"""Defines the exercise `modern_block`, a block like Qwen3's, from the unit's norm, rotation and feed-forward layer."""

import numpy as np
import torch
import torch.nn.functional as F

from ..attention_parts import merge, split
from ..kit import NOT_IN_TORCH_UNITS, Drawn, Leaf, by_columns, exercise, normal, other_order, size, strided, weights
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from ..u05_mqa_gqa.parts import attention, in_groups
from ..u05_mqa_gqa.repeat_kv import plain as repeat_kv
from ..u07_transformer_block.parts import gain, named
from .rms_norm import plain as rms_norm
from .rms_norm import rms_norm as norm
from .rotate import POSITIONS, behind, by_index, spread_out
from .rotate import plain as rotate
from .rotate import rotate as turn
from .sliding_window_mask import plain as sliding_window_mask
from .swiglu import plain as swiglu
from .swiglu import swiglu as gated

PARAMS = named(
    {
        "W_Q": weights("d_model h*d_head"),
        "W_K": weights("d_model g*d_head"),
        "W_V": weights("d_model g*d_head"),
        "W_O": weights("h*d_head d_model"),
        "gamma_1": gain("d_model"),
        "gamma_2": gain("d_model"),
        "gamma_q": gain("d_head"),
        "gamma_k": gain("d_head"),
        "W_gate": weights("d_model d_ff", 1.3),
        "W_up": weights("d_model d_ff"),
        "W_down": weights("d_ff d_model"),
    }
)


def modern_block(
    x: normal("B n d_model"),
    params: PARAMS,
    n_heads: size("h"),
    n_kv_heads: size("g"),
    positions: POSITIONS,
    window=None,
) -> Leaf("float array", "the result"):
    B, n, _ = x.shape
    stream = norm(x, params["gamma_1"])
    Q, K, V = (
        F.linear(stream, params[f"W_{role}"].T).view(B, n, heads, -1).transpose(1, 2)
        for role, heads in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads))
    )
    Q, K = (turn(norm(one, params[f"gamma_{role}"]), positions) for one, role in ((Q, "q"), (K, "k")))
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    if window is not None:
        seen = seen.triu(1 - window)
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=seen, enable_gqa=True)
    x = x + F.linear(heads.transpose(1, 2).reshape(B, n, -1), params["W_O"].T)
    return x + gated(norm(x, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def normed_and_turned(heads, gamma, positions):
    """Return queries or keys, normed and rotated."""
    return rotate(rms_norm(heads, gamma), positions)


def plain(x, params, n_heads, n_kv_heads, positions, window=None):
    p = params
    n = x.shape[1]
    n_rep = n_heads // n_kv_heads
    if window is None:
        window = n
    normed = rms_norm(x, p["gamma_1"])
    Q = split_heads(normed @ p["W_Q"], n_heads)
    K = split_heads(normed @ p["W_K"], n_kv_heads)
    V = split_heads(normed @ p["W_V"], n_kv_heads)
    Q = normed_and_turned(Q, p["gamma_q"], positions)
    K = normed_and_turned(K, p["gamma_k"], positions)
    mask = sliding_window_mask(n, n, window)
    heads = attention(Q, repeat_kv(K, n_rep), repeat_kv(V, n_rep), mask)
    attended = merge_heads(heads) @ p["W_O"]
    between = x + attended
    normed_again = rms_norm(between, p["gamma_2"])
    expanded = swiglu(normed_again, p["W_gate"], p["W_up"], p["W_down"])
    return between + expanded


def sliding(n, window, positions):
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    return seen if window is None else seen.triu(1 - window)


def by_position(n, window, positions):
    """Return a mask by positions, as if they were row numbers."""
    i, j = positions[:, None], positions[None]
    return (j <= i) & (i - j < (10**6 if window is None else window))


#: Allows angles in float32.
LOOSE = {"rtol": 1e-4}


def cases(case):
    heads = [{"h": h, "g": g} for h, g in case.rng.permutation([(4, 2), (6, 2), (6, 3)])]
    few = Drawn("n", lambda rng, shape, sizes: np.arange(shape[0]) + int(rng.integers(2, 5)))
    yield case("values", "{h} heads, {g} key/value heads", positions=few, **heads[0], **LOOSE)
    yield case("values", "{h} heads, {g} key/value heads", positions=spread_out(case), **heads[1], **LOOSE)
    yield case("values", "float32", positions=few, dtype=np.float32, **heads[2], **LOOSE)
    yield case("values", "small numbers, so that eps shows", x=normal("B n d_model", 2e-3), **heads[0], **LOOSE)
    yield case("positions", "positions not in order: the mask goes by row", **heads[1], **LOOSE)
    yield case("positions", "positions that begin at 30", positions=behind(case), **heads[2], **LOOSE)
    yield case("windows", "a window of 2", window=2, **heads[0], **LOOSE)
    yield case("windows", "a window of 3, by name", window=3, by_name="window", **heads[1], **LOOSE)
    yield case("windows", "a window of 1: each token sees itself", window=1, **heads[2], **LOOSE)
    yield case("windows", "a window longer than the text", window=50, **heads[0], **LOOSE)
    drawn = case.draw(**heads[0])
    drawn["params"]["gamma_q"] *= 60
    drawn["params"]["gamma_k"] *= 60
    yield case("edge cases", "scores of some thousand", **drawn, **LOOSE)
    yield case("edge cases", "a single token (n = 1)", n=1, positions=np.array([7]), **heads[1], **LOOSE)
    yield case("edge cases", "a single sequence (B = 1)", B=1, **heads[2], **LOOSE)
    yield case("edge cases", "as many key/value heads as heads (g = h)", h=4, g=4, **LOOSE)
    yield case("edge cases", "one key/value head (g = 1)", h=4, g=1, **LOOSE)
    apart = {"x": strided, "params": by_columns}
    yield case("edge cases", "memory that is not contiguous", layout=apart, **heads[0], **LOOSE)
    yield case("edge cases", "params in another order", **other_order(case.draw(**heads[1])), **LOOSE)
    drawn = case.draw(n=6, positions=case.rng.permutation(12)[:6] / 2, **heads[2])
    drawn["x"][:, 1] = 0.0
    drawn["x"][:, 3] = drawn["x"][:, 2]
    yield case("edge cases", "a token of zeros, two equal ones, positions that are no whole numbers", **drawn, **LOOSE)
    drawn["window"] = 2
    yield case("gradients", "gradients, a window of 2, a token of zeros", gradient=True, **drawn, **LOOSE)
    yield case("edge cases", "all scores near −10,000", **all_low(case), **LOOSE)


def all_low(case):
    """Draw almost equal tokens at one position, with keys that are their negated queries."""
    drawn = case.draw(h=2, g=2, n=6, positions=np.zeros(6, np.int64))
    drawn["x"] = drawn["x"][:, :1] + 0.01 * drawn["x"]
    params = drawn["params"]
    params["W_K"] = -params["W_Q"]
    params["gamma_q"] = params["gamma_k"] = np.full(drawn["d_head"], 100.0 * drawn["d_head"] ** -0.25)
    return drawn


def block(
    x, params, n_heads, n_kv_heads, positions, window=None, *, turn=rotate, turns="QK", normed="QK", seen=sliding,
    post=False,
):  # fmt: skip
    """Apply a block with slips.

    turns, normed: which of Q, K and V are rotated and normed. seen: the mask, from n, window and positions. post:
    whether the norms come after the additions.
    """
    p = params

    def attention(z):
        heads = {"Q": n_heads, "K": n_kv_heads, "V": n_kv_heads}
        parts = {role: split(z @ p[f"W_{role}"], count) for role, count in heads.items()}
        gains = {"Q": p["gamma_q"], "K": p["gamma_k"], "V": p["gamma_k"]}
        for role in normed:
            parts[role] = rms_norm(parts[role], gains[role])
        for role in turns:
            parts[role] = turn(parts[role], positions)
        Q, K, V = parts["Q"], *(in_groups(parts[role], n_heads // n_kv_heads) for role in "KV")
        scores = Q @ K.mT * Q.shape[-1] ** -0.5
        scores = scores.masked_fill(~seen(x.shape[1], window, positions), -torch.inf)
        return merge(torch.softmax(scores, -1) @ V) @ p["W_O"]

    def feed_forward(z):
        return swiglu(z, p["W_gate"], p["W_up"], p["W_down"])

    first, second = (lambda z, name=name: rms_norm(z, p[f"gamma_{name}"]) for name in "12")
    if post:
        y = first(x + attention(x))
        return second(y + feed_forward(y))
    y = x + attention(first(x))
    return y + feed_forward(second(y))


MISTAKES = (
    ("values-rotated", {"turns": "QKV"}, "You rotate the values, too. Rotate only queries and keys."),
    ("values-normed", {"normed": "QKV"}, "You also normalise the values; normalise only queries and keys."),
    ("positions-ignored", {"turn": lambda x, positions: rotate(x, by_index(positions, x.shape[-2]))},
     "You rotate by the index of the row. Use `positions`, which says where the rows are."),
    ("mask-by-position", {"seen": by_position},
     "You build the mask from the positions. Use them only for the rotation; a row sees the rows up to its own."),
    ("post-norm", {"post": True}, "You add first and then normalise, which is the order of 2017. Here the norm comes "
                                  "first."),
)  # fmt: skip

EXERCISE = exercise(
    modern_block,
    credit={"values": 0.5, "positions": 0.1, "windows": 0.15, "edge cases": 0.15, "gradients": 0.1},
    sizes=range(2, 7),
    ranges={"d_model": range(7, 11), "d_head": (4, 6, 8), "d_ff": range(11, 19), "n": range(4, 8)},
    least={"d_head": 2},
    slipped=block,
    library="torch",
    contains=("rotate", "rms_norm", "swiglu", "sliding_window_mask"),
    forbidden=(*NOT_IN_TORCH_UNITS, "from_modules"),
)
