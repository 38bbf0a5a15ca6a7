"""loop_attention: every query of every head on its own."""

import numpy as np
import torch
from torch.nn import functional as F

from ..attention_parts import UNSTABLE
from ..kit import Leaf, exercise, normal, strided
from .parts import MISTAKES as ANY_ATTENTION
from .parts import SLIPS, attention, large_scores


def loop_attention(Q: normal("B h n d"), K: normal("B h n d"), V: normal("B h n d")) -> Leaf(
    "float array", "the output"
):
    return F.scaled_dot_product_attention(Q, K, V)


def cases(case):
    sharp = normal("B h n d", 2.0)
    yield case("values")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "not contiguous", layout=strided)
    yield case("values", "sharper weights", Q=sharp, K=sharp)
    yield case("edge cases", "B = 1", B=1)
    yield case("edge cases", "one head", h=1)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "d = 1", d=1)
    yield case("large scores", "scores of ±10,000", **large_scores(case, n=range(3, 8)))


def first_only(axis):
    """The loop over `axis` that never leaves its first turn."""

    def wrong(Q, K, V):
        out = torch.zeros_like(V)
        out.narrow(axis, 0, 1).copy_(attention(Q, K, V).narrow(axis, 0, 1))
        return out

    return wrong


def queries_up_to_d(Q, K, V):
    answers, out = attention(Q, K, V), torch.zeros_like(V)
    for query in range(Q.shape[-1]):
        out[:, :, query] = answers[:, :, query]
    return out


MISTAKES = (
    *SLIPS,
    ("unstable", {"stable": False}, UNSTABLE),
    ("weights-returned", {"weights_only": True}, "The weights are returned; return what they average."),
    ("causal", {"always": True}, "Later keys are left out. There is no mask here."),
    ("heads-summed", {"after": lambda out: out.sum(1)}, "The heads are added up. Each keeps its place."),
    ("heads-averaged", {"after": lambda out: out.mean(1, keepdim=True).expand_as(out)},
     "Each head gets the mean over all heads."),
    ("wrong-dtype", {"after": lambda out: out.to(torch.float16)},
     "The dtype of the inputs is to be kept; make the result with theirs."),
    ("first-query-only", first_only(2), "Only the first query of each head is answered; the others stay zero."),
    ("first-head-only", first_only(1), "Only the first head is worked out; the others stay zero."),
    ("first-sequence-only", first_only(0), "Only the first sequence of the batch is worked out."),
    ("first-heads-keys", lambda Q, K, V: attention(Q, K[:, :1].expand_as(K), V[:, :1].expand_as(V)),
     "All heads read the keys and values of the first one."),
    ("last-query-everywhere", lambda Q, K, V: attention(Q[..., -1:, :].expand_as(Q), K, V),
     "Every query gets the last one's answer. Is the result written to the place of its query?"),
    ("last-query-missing", lambda Q, K, V: F.pad(attention(Q, K, V)[..., :-1, :], (0, 0, 0, 1)),
     "The last query is not answered. Where does the loop end?"),
    ("last-key-missing", lambda Q, K, V: attention(Q, K[..., :-1, :], V[..., :-1, :]),
     "The last key is never looked at. Where does the loop end?"),
    *ANY_ATTENTION,
    ("last-head-everywhere", lambda Q, K, V: attention(Q, K, V)[:, -1:].expand_as(V),
     "All heads hold the answer of the last one. Is the result written to the place of its head?"),
    ("as-many-queries-as-features", queries_up_to_d,
     "The loop over the queries runs d times; there are n queries. Which axis does its length come from?"),
)  # fmt: skip

EXERCISE = exercise(
    loop_attention,
    cases,
    MISTAKES,
    credit={"values": 0.6, "edge cases": 0.15, "large scores": 0.15, "gradients": 0.1},
    core="values",
    sizes=range(2, 7),
    slipped=attention,
    library="torch",
)
