"""Defines the exercise `linear_attention`, which carries a sum of keys times values that may decay."""

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import Drawn, Leaf, exercise, normal, strided


def linear_attention(
    Q: normal("B h n d_k"), K: normal("B h n d_k"), V: normal("B h n d_v"), decay=None, state=None
) -> (Leaf("float array", "out"), Leaf("float array", "state")):
    S = V.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    out = []
    for t in range(K.shape[2]):
        if decay is not None:
            S = decay[:, :, t, None, None] * S
        S = S + torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        out.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(out, dim=2), S


def plain(Q, K, V, decay=None, state=None):
    B, h, n, d_k = K.shape
    d_v = V.shape[-1]
    if decay is None:
        decay = torch.ones(B, h, n, dtype=V.dtype)
    if state is None:
        state = torch.zeros(B, h, d_k, d_v, dtype=V.dtype)
    out = torch.zeros_like(V)
    for t in range(n):
        q = Q[:, :, t]
        k = K[:, :, t]
        v = V[:, :, t]
        a = decay[:, :, t, None, None]
        pair = k[..., None] * v[..., None, :]
        state = a * state
        state = state + pair
        read = q[..., None, :] @ state
        out[:, :, t] = read[..., 0, :]
    return out, state


FADING = Drawn("B h n", lambda rng, shape, sizes: rng.uniform(0.4, 0.98, shape))
BEFORE = normal("B h d_k d_v")


def cases(case):
    yield case("values", "no decay, no state", by_name="decay state")
    yield case("values", "float32", dtype=np.float32, by_name="decay state")
    yield case("decay", "a decay for each token", decay=FADING, by_name="decay")
    yield case("decay", "a decay of 1 is none", decay=Drawn("B h n", lambda rng, shape, sizes: np.ones(shape)))
    yield case("decay", "a strong decay", decay=Drawn("B h n", lambda rng, shape, sizes: rng.uniform(0.02, 0.2, shape)))
    fast = Drawn("B h n", lambda rng, shape, sizes: rng.uniform(1e-6, 1e-5, shape))
    yield case("decay", "a very strong decay in a long text", n=range(66, 70), decay=fast, by_name="decay")
    yield case("state", "a state from before", state=BEFORE, by_name="state")
    yield case("state", "a state and a decay", state=BEFORE, decay=FADING)
    yield from halves(case)
    yield case("edge cases", "a single token, with state and decay", n=1, state=BEFORE, decay=FADING)
    yield case("edge cases", "one head", h=1, decay=FADING, by_name="decay")
    yield case("edge cases", "a long text", n=range(60, 70), decay=FADING, by_name="decay")
    yield case("edge cases", "memory that is not contiguous", layout=strided, state=BEFORE, decay=FADING)
    slow = Drawn("B h n", lambda rng, shape, sizes: rng.uniform(0.98, 1.0, shape))
    drawn = case.draw(B=1, h=1, n=range(140, 150), d_k=3, d_v=2, decay=slow, state=BEFORE)
    drawn["K"][:, :, 40] = drawn["V"][:, :, 50] = 0.0
    yield case("edge cases", "a longer text, and zeros as a key and a value", **drawn)
    yield case("gradients", "gradients, a state and a decay", gradient=True, state=BEFORE, decay=FADING)
    short = {"B": 1, "h": 1, "n": range(66, 70), "d_k": 3, "d_v": 2}
    label = "gradients, a very strong decay in a long text"
    yield case("gradients", label, gradient=True, decay=fast, by_name="decay", **short)


def halves(case):
    """Split one text into two calls, where the second gets the final state of the first."""
    drawn = case.draw(decay=FADING, n=range(7, 10))
    tensors = {name: torch.from_numpy(drawn[name]) for name in ("Q", "K", "V", "decay")}
    cut = int(case.rng.integers(2, 5))
    first = {name: tensor[:, :, :cut] for name, tensor in tensors.items()}
    last = {name: tensor[:, :, cut:].numpy() for name, tensor in tensors.items()}
    yield case("state", f"the first {cut} tokens of a text", **{name: tensor.numpy() for name, tensor in first.items()})
    yield case("state", "the rest of that text", state=linear_attention(**first)[1].numpy(), **last)


def carry(Q, K, V, decay=None, state=None, *, feature=torch.clone, divide=False, later=False):
    """Apply linear attention with slips."""
    Q, K = feature(Q), feature(K)
    S = V.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    sums, out = torch.zeros_like(K[:, :, 0]), []
    for t in range(K.shape[2]):
        a = 1.0 if decay is None else decay[:, :, t, None, None]
        S = a * S + K[:, :, t, :, None] * V[:, :, t, None]
        sums = sums + K[:, :, t]
        read = torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S)
        out.append(read / (Q[:, :, t] * sums).sum(-1, keepdim=True) if divide else read)
    return Q @ S if later else torch.stack(out, dim=2), S


def softmax(Q, K, V, decay=None, state=None):
    return F.scaled_dot_product_attention(Q, K, V, is_causal=True), carry(Q, K, V, decay, state)[1]


def old_state_not_faded(Q, K, V, decay=None, state=None):
    out, S = carry(Q, K, V, decay)
    return (out, S) if state is None else (out + Q @ state, S + state)


MISTAKES = (
    ("not-causal", {"later": True}, "You let every token read the last state, so that it sees later tokens."),
    ("normalised", {"divide": True}, "You divide the result by the sum of the weights. There is no normaliser here."),
    ("feature-map", {"feature": lambda z: F.elu(z) + 1},
     "You apply elu + 1; this exercise uses no feature map."),
    ("softmax", softmax, "You take a softmax of the weights. Without it the sum can be kept in a state of fixed "
                         "size."),
    ("old-state-not-faded", old_state_not_faded,
     "You add the earlier state as it is. It should fade with every token, along with everything it holds."),
)  # fmt: skip

EXERCISE = exercise(
    linear_attention,
    credit={"values": 0.4, "decay": 0.2, "state": 0.2, "edge cases": 0.1, "gradients": 0.1},
    slipped=carry,
    library="torch",
)
