"""Defines the exercise `sink_attention`, with a learned score that takes a share of every softmax but adds no value."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from ..attention_parts import AFTER, UNSTABLE
from ..kit import Drawn, Leaf, exercise, mask, normal, with_a_row_of_zeros


def sink_attention(
    Q: normal("B h n d_k"), K: normal("B h m d_k"), V: normal("B h m d_v"), sink: normal("h"), mask=None
) -> Leaf("float array", "the output"):
    B, h, n, _ = Q.shape
    allowed = torch.ones(B, h, n, K.shape[2], dtype=torch.bool) if mask is None else mask.expand(B, h, n, K.shape[2])
    bias = torch.zeros(allowed.shape, dtype=Q.dtype).masked_fill(~allowed, -torch.inf)
    bias = torch.cat([sink[:, None, None].expand(B, h, n, 1), bias], dim=-1)
    K, V = (F.pad(one, (0, 0, 1, 0)) for one in (K, V))
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=bias)


def plain(Q, K, V, sink, mask=None):
    B, h, n, d_k = Q.shape
    scores = Q @ K.transpose(-1, -2) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    sinks = sink.reshape(h, 1, 1).expand(B, h, n, 1)
    with_sink = torch.cat([scores, sinks], dim=-1)
    weights = torch.softmax(with_sink, dim=-1)
    weights_of_keys = weights[..., :-1]
    return weights_of_keys @ V


CAUSAL = Drawn("n m", lambda rng, shape, sizes: np.tril(np.ones(shape, bool), shape[1] - shape[0]))


def cases(case):
    yield case("values", "no mask")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "as many queries as keys, causal", m="n", mask=CAUSAL)
    yield case("values", "strong sinks", sink=normal("h", 3.0))
    yield case("masks", "a mask of keys (B, 1, 1, m)", mask=mask("B 1 1 m"))
    yield case("masks", "a mask for each head (B, h, n, m)", mask=mask("B h n m"))
    yield case("masks", "a mask (n, m)", mask=mask("n m"))
    turns = Drawn("n 1", lambda rng, shape, sizes: np.arange(shape[0])[:, None] % 2 == 0)
    yield case("masks", "a mask (n, 1)", mask=turns)
    yield case("masks", "rows that may see nothing but the sink", mask=mask("B 1 n m", empty_rows=True))
    yield case("edge cases", "a key of zeros", layout={"K": with_a_row_of_zeros})
    yield case("edge cases", "a single query", n=1)
    yield case("edge cases", "a single key", m=1)
    yield case("edge cases", "one head", h=1)
    for label, by in (("scores around ±10,000", 100.0), ("scores that are all near −10,000", -100.0)):
        drawn = case.draw()
        drawn["Q"] *= 100.0
        drawn["K"] *= 100.0
        if by < 0:
            drawn["Q"], drawn["K"] = np.abs(drawn["Q"]), -np.abs(drawn["K"])
        yield case("stability", label, rtol=1e-6, **drawn)
    drawn = case.draw(mask=mask("B 1 n m"))
    drawn["Q"][:] = 100.0
    drawn["K"] = -(100.0 + 0.02 * drawn["K"]) / drawn["d_k"] ** 0.5
    drawn["sink"] -= 1e4
    yield case("stability", "scores and sinks near −10,000, with a mask", rtol=1e-6, **drawn)
    drawn = case.draw()
    drawn["sink"] = np.where(np.arange(len(drawn["sink"])) % 2 == 0, 1e4, -1e4)
    yield case("stability", "sinks of ±10,000", **drawn)
    yield case("masks", "a mask of keys (m)", mask=mask("m"))
    yield case("masks", "a mask (h, n, m), as many sequences as heads", mask=mask("h n m"), B=3, h=3)
    yield case(
        "masks", "nothing is allowed to anybody", mask=Drawn("n m", lambda rng, shape, sizes: np.zeros(shape, bool))
    )
    drawn = case.draw()
    for part in (drawn["Q"][..., 1, :], drawn["V"][..., 1, :], drawn["sink"][:1]):
        part[...] = 0.0
    yield case("edge cases", "zeros as a query, a value and a sink", **drawn)
    drawn = case.draw(mask=mask("B 1 n m", empty_rows=True))
    drawn["sink"][:2] = 1e4, -1e4
    label = "gradients, sinks of ±10,000, rows that may see nothing but the sink"
    yield case("gradients", label, gradient=True, **drawn)


def attend(Q, K, V, sink, mask=None, *, sunk=torch.clone, masked_after=False, stable=True, brings=None):
    """Apply attention with a sink and slips. brings: the sink's value, from the values."""
    scores = Q @ K.mT * Q.shape[-1] ** -0.5
    if mask is not None and not masked_after:
        scores = scores.masked_fill(~mask, -torch.inf)
    entry = sunk(sink)[:, None, None].expand(*scores.shape[:-1], 1)
    whole = torch.cat([entry, scores], -1)
    weights = torch.softmax(whole, -1) if stable else whole.exp() / whole.exp().sum(-1, keepdim=True)
    if mask is not None and masked_after:
        weights = torch.cat([weights[..., :1], weights[..., 1:] * mask], -1)
    out = weights[..., 1:] @ V
    return out if brings is None else out + weights[..., :1] * brings(V)


def without_sink(Q, K, V, sink, mask=None):
    return attend(Q, K, V, torch.full_like(sink, -torch.inf), mask).nan_to_num()


MISTAKES = (
    ("no-sink", without_sink, "You don't use the sink, so the weights of the keys still sum to 1."),
    ("sink-as-weight", {"sunk": lambda sink: sink.abs().log()},
     "You add the sink itself to the sum of exponentials. It is a score, so add its exponential."),
    ("sink-with-value", {"brings": lambda V: V[:, :, :1]},
     "You give the sink a value. It takes weight and adds nothing to the output."),
    ("unstable", {"stable": False}, UNSTABLE),
    ("mask-after-softmax", {"masked_after": True}, AFTER),
)  # fmt: skip

EXERCISE = exercise(
    sink_attention,
    credit={"values": 0.5, "masks": 0.2, "edge cases": 0.1, "stability": 0.1, "gradients": 0.1},
    slipped=attend,
    library="torch",
)
