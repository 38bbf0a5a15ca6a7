"""Defines the exercise `multi_query_attention`, in which all query heads share one uncopied key/value head."""

import numpy as np

from .. import attention_parts
from ..kit import Leaf, exercise, normal, profile, size, weights
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from .grouped_query_attention import grouped_query_attention
from .parts import CAUSAL, LAYER, LAYER_SLIPS, attention, grouped, in_groups, layer_cases, more_layer_cases


def multi_query_attention(
    X: normal("B n d_model"),
    W_Q: weights("d_model h*d_head", 1.3),
    W_K: weights("d_model d_head", 1.3),
    W_V: weights("d_model d_head", 1.3),
    W_O: weights("h*d_head d_model"),
    n_heads: size("h"),
    mask=None,
) -> Leaf("float array", "the output"):
    return grouped_query_attention(X, W_Q, W_K, W_V, W_O, n_heads, 1, mask)


def plain(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    Q = split_heads(X @ W_Q, n_heads)
    K = split_heads(X @ W_K, 1)
    V = split_heads(X @ W_V, 1)
    heads = attention(Q, K, V, mask)
    return merge_heads(heads) @ W_O


def cases(case):
    heads = [{"h": h} for h in case.rng.permutation(range(2, 7))[:3]]
    yield from layer_cases(case, heads, "{h} heads, 1 key/value head")
    for one in heads[:2]:
        yield case("memory", "what is kept in memory with {h} heads", watch="B*h*n*d_head", **one)
    yield from more_layer_cases(case, {"h": 5}, {"h": 1}, {"h": 8, "d_head": 2})
    words = "what is kept in memory with {h} heads, a mask, a single sequence and float32"
    yield case("memory", words, watch="B*h*n*d_head", dtype=np.float32, mask=CAUSAL, B=1, h=8)


def copies_of_keys(case, arrays):
    """Return a message if an intermediate tensor has a copy of K or V for every head, in any order and scale."""
    X, _, W_K, W_V = case.args[:4]
    for name, W in (("K", W_K), ("V", W_V)):
        wanted = profile(np.repeat(X @ W, case.sizes["h"]))
        for array in arrays:
            alike = array.dtype.kind == "f" and array.size == wanted.size
            if alike and np.allclose(profile(array), wanted, atol=1e-5):
                return f"your code makes a tensor that holds {name} once for each head"
    return None


def broadcast(K, rep):
    return K


def shared(X, W_Q, W_K, W_V, W_O, n_heads, mask=None, **slips):
    """Apply multi-query attention by broadcasting, with slips."""
    return grouped(X, W_Q, W_K, W_V, W_O, n_heads, 1, mask, **{"keys": broadcast, "values": broadcast, **slips})


def one_wide_head(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    return shared(X, W_Q[:, : W_K.shape[1]].repeat(1, n_heads), W_K, W_V, W_O, n_heads, mask)


MISTAKES = (
    ("copies-for-each-head", {"keys": in_groups, "values": in_groups},
     "Your numbers are right, but you copy K or V once for each head. This layer should save that memory traffic. "
     "An axis of size 1 is broadcast without a copy."),
    ("reshape-only-twice", {"split": attention_parts.split_reshaped, "merge": attention_parts.merge_reshaped},
     "You regroup the queries by a reshape alone, token by token. Because all heads share the keys, this goes "
     "wrong only with a mask, whose rows are then applied to the wrong queries."),
    *LAYER_SLIPS,
    ("one-wide-head", one_wide_head,
     "You have only one query head. Split the queries into n_heads; keys and values stay one."),
)  # fmt: skip

EXERCISE = exercise(
    multi_query_attention,
    credit={"values": 0.4, "masks": 0.2, "edge cases": 0.1, "memory": 0.2, "gradients": 0.1},
    slipped=shared,
    not_from=("grouped_query_attention",),
    made=copies_of_keys,
    **LAYER,
)
