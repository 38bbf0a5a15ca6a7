"""Defines the exercise `delta_rule`, whose state corrects the value it holds for a key, for all tokens at once."""

import numpy as np
import torch

from ..kit import NOT_IN_TORCH_UNITS, Drawn, Leaf, exercise, normal, strided


def units(rng, shape, sizes):
    """Draw rows of length 1."""
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


RATE = Drawn("B h n", lambda rng, shape, sizes: rng.uniform(0.2, 1.0, shape))


def delta_rule(
    Q: normal("B h n d_k"), K: Drawn("B h n d_k", units), V: normal("B h n d_v"), beta: RATE, state=None
) -> (Leaf("float array", "out"), Leaf("float array", "state")):
    # S_t = A_t S_(t-1) + b_t: the maps are composed by a scan (in pairs, fours, …), directly from the definition.
    A = torch.eye(K.shape[-1], dtype=K.dtype) - torch.einsum("bhn,bhnk,bhnl->bhnkl", beta, K, K)
    b = torch.einsum("bhn,bhnk,bhnv->bhnkv", beta, K, V)
    step = 1
    while step < K.shape[2]:
        b = torch.cat([b[:, :, :step], b[:, :, step:] + A[:, :, step:] @ b[:, :, :-step]], dim=2)
        A = torch.cat([A[:, :, :step], A[:, :, step:] @ A[:, :, :-step]], dim=2)
        step *= 2
    S = b if state is None else b + A @ state[:, :, None]
    return torch.einsum("bhnk,bhnkv->bhnv", Q, S), S[:, :, -1]


def plain(Q, K, V, beta, state=None):
    B, h, n, d_k = K.shape
    d_v = V.shape[-1]
    if state is None:
        state = torch.zeros(B, h, d_k, d_v, dtype=V.dtype)
    rates = beta[..., None]
    earlier = torch.tril(K @ K.mT, diagonal=-1)
    system = torch.eye(n, dtype=V.dtype) + rates * earlier
    held = K @ state
    corrections = rates * (V - held)
    U = torch.linalg.solve(system, corrections)
    read = torch.tril(Q @ K.mT, diagonal=0)
    out = Q @ state + read @ U
    new_state = state + K.mT @ U
    return out, new_state


BEFORE = normal("B h d_k d_v")
#: Keeps the state finite in a long text.
FAINT = Drawn("B h n", lambda rng, shape, sizes: rng.uniform(0.02, 0.08, shape))
#: Enough tokens that a loop over them shows, and sizes that differ from chunks of 4, 8 or 16 tokens.
LONG = {"B": 1, "h": 1, "n": 26, "d_k": (3, 5), "d_v": (7, 9, 11)}


def cases(case):
    yield case("values", "no state")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "beta = 1 throughout", beta=Drawn("B h n", lambda rng, shape, sizes: np.ones(shape)))
    yield case("values", "some beta are 0", beta=Drawn("B h n", some_zero))
    yield case("values", "the same two keys again and again", K=Drawn("B h n d_k", in_turn))
    yield case("state", "a state from before", state=BEFORE, by_name="state")
    yield case("state", "a state from before", state=BEFORE)
    yield from halves(case)
    yield case("edge cases", "a single token", n=1, by_name="state")
    yield case("edge cases", "a single token, with a state", n=1, state=BEFORE)
    yield case("edge cases", "one head", h=1)
    yield case("edge cases", "a long text", n=range(60, 70), state=BEFORE)
    yield case("edge cases", "a longer text", n=range(140, 150), B=1, h=2, beta=FAINT, state=BEFORE)
    yield case("edge cases", "memory that is not contiguous", layout=strided, state=BEFORE)
    yield case("all tokens at once", "intermediate tensors for {n} tokens", watch="d_v", **LONG)
    yield case("all tokens at once", "no Python loop over 150 tokens", B=1, h=1, n=150, beta=FAINT, lines=149)
    yield case("all tokens at once", "intermediate tensors, with a state", watch="d_v", state=BEFORE, **LONG)
    label = "gradients, a state from before, some beta are 0"
    yield case("gradients", label, beta=Drawn("B h n", some_zero), state=BEFORE, gradient=True)


def some_zero(rng, shape, sizes):
    return rng.integers(0, 2, shape) * 0.7


def in_turn(rng, shape, sizes):
    B, h, n, d = shape
    pair = units(rng, (B, h, 2, d), sizes)
    return pair[:, :, np.arange(n) % 2]


def halves(case):
    """Split one text into two calls, where the second gets the final state of the first."""
    drawn = case.draw(n=range(7, 10))
    texts = {name: torch.from_numpy(drawn[name]) for name in ("Q", "K", "V", "beta")}
    cut = int(case.rng.integers(2, 5))
    first, last = ({name: text[:, :, part] for name, text in texts.items()} for part in (slice(cut), slice(cut, None)))
    yield case("state", f"the first {cut} tokens of a text", **{name: text.numpy() for name, text in first.items()})
    state = delta_rule(**first)[1].numpy()
    yield case("state", "the rest of that text", state=state, **{name: text.numpy() for name, text in last.items()})


def token_by_token(case, arrays):
    """Return a message if about as many tensors have the size of one token, or of the state, as there are tokens."""
    d_k, d_v = case.sizes["d_k"], case.sizes["d_v"]
    small = sum(array.size in (d_v, d_k * d_v) for array in arrays)
    if small < 16:
        return None
    return f"for {case.sizes['n']} tokens, your code makes {small} or more tensors the size of one value or one state"


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes


def solved(Q, K, V, beta, state=None, *, by_columns=False, corrects=True):
    """Solve the triangular system, with slips.

    by_columns: whether beta scales the columns of the system. corrects: whether the state's values are subtracted.
    """
    S0 = V.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    b = beta[..., None]
    products = (K @ K.mT) * beta[..., None, :] if by_columns else b * (K @ K.mT)
    system = torch.eye(K.shape[2], dtype=K.dtype) + products.tril(-1)
    U = torch.linalg.solve(system, b * (V - K @ S0)) if corrects else b * V
    return (Q @ K.mT).tril() @ U + Q @ S0, S0 + K.mT @ U


def looped(Q, K, V, beta, state=None):
    S = V.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    out = []
    for t in range(K.shape[2]):
        k, v, b = K[:, :, t, :, None], V[:, :, t, None], beta[:, :, t, None, None]
        S = S + k @ (b * (v - k.mT @ S))
        out.append((Q[:, :, t, None] @ S)[:, :, 0])
    return torch.stack(out, dim=2), S


MISTAKES = (
    ("token-by-token", looped,
     "Your numbers are right, but you take the tokens one after the other in a Python loop. Solve one triangular "
     "system for all their corrections."),
    ("adds", {"corrects": False},
     "You add up keys and values, scaled by beta. That is linear attention. Subtract first what the state already "
     "holds for a key."),
    ("rate-by-columns", {"by_columns": True},
     "In your system beta scales the columns. Equation t has the beta of token t. Is an equation a row or a column?"),
)  # fmt: skip

EXERCISE = exercise(
    delta_rule,
    credit={"values": 0.4, "state": 0.2, "edge cases": 0.1, "all tokens at once": 0.2, "gradients": 0.1},
    slipped=solved,
    library="torch",
    forbidden=(*NOT_IN_TORCH_UNITS, "delta_by_steps"),
    made=token_by_token,
)
