"""Defines the exercise `ablate_path`, in which one reader of the second layer doesn't see the first layer's output."""

import math

import numpy as np
import torch

from ...worker.encode_values import map_leaves
from ..kit import Drawn, Leaf, exercise, ids
from .hand_made_circuit import build_induction_circuit, run_circuit


def drawn_weights(gain=2.0):
    """Draw weights for `run_attention_only` whose widths differ between layers, with two more positions than n."""

    def make(rng, shape, sizes):
        d = sizes["d_model"]

        def normal(*shape):
            return gain * rng.standard_normal(shape) * shape[0] ** -0.5

        def block(width, d_v):
            return {"W_Q": normal(d, width), "W_K": normal(d, width), "W_V": normal(d, d_v), "W_O": normal(d_v, d)}

        ends = {"W_E": rng.standard_normal((sizes["vocab"], d)), "W_pos": rng.standard_normal((sizes["n"] + 2, d))}
        blocks = [block(sizes["d_first"], sizes["v_first"]), block(sizes["d_second"], sizes["v_second"])]
        return {**ends, "W_U": normal(d, sizes["vocab"]), "blocks": blocks}

    return Drawn("", make, also="n vocab d_model d_first v_first d_second v_second")


READERS = "query", "key", "value"


def reader():
    return Drawn("", lambda rng, shape, sizes: READERS[int(rng.integers(3))])


def ablate_path(
    tokens: ids("B n", below="vocab"), weights: drawn_weights(), into: reader()
) -> (
    Leaf("float array", "logits"),
    [Leaf("float array", "the first layer's pattern"), Leaf("float array", "the second layer's pattern")],
):
    """Run the plain model on a stream of double width: one half for the embedding only, the other for everything."""
    first, second = weights["blocks"]

    def beside(matrix, place):
        """Return rows that read one half of the stream and ignore the other."""
        blank = torch.zeros_like(matrix)
        return torch.cat([matrix, blank] if place == "embedding" else [blank, matrix])

    def wide(block, of_embedding):
        read = {
            name: beside(block[name], "embedding" if name in of_embedding else "all") for name in ("W_Q", "W_K", "W_V")
        }
        return read | {"W_O": torch.cat([torch.zeros_like(block["W_O"]), block["W_O"]], 1)}

    doubled = {name: weights[name].repeat(1, 2) for name in ("W_E", "W_pos")}
    doubled["W_U"] = beside(weights["W_U"], "all")
    doubled["blocks"] = [wide(first, {"W_Q", "W_K", "W_V"}), wide(second, {f"W_{into[0].upper()}"})]
    return run_circuit(tokens, doubled)


def attention_pattern(for_query, for_key, block):
    n = for_query.shape[1]
    d_head = block["W_Q"].shape[1]
    queries = for_query @ block["W_Q"]
    keys = for_key @ block["W_K"]
    scores = queries @ keys.mT / math.sqrt(d_head)
    may_attend = torch.ones(n, n, dtype=torch.bool).tril()
    return scores.masked_fill(~may_attend, -torch.inf).softmax(-1)


def plain(tokens, weights, into):
    n = tokens.shape[1]
    first, second = weights["blocks"]
    embedded = weights["W_E"][tokens]
    stream_before = embedded + weights["W_pos"][:n]
    A_first = attention_pattern(stream_before, stream_before, first)
    written = A_first @ stream_before @ first["W_V"] @ first["W_O"]
    stream_after = stream_before + written
    hidden = stream_before
    query = hidden if into == "query" else stream_after
    key = hidden if into == "key" else stream_after
    value = hidden if into == "value" else stream_after
    A_second = attention_pattern(query, key, second)
    stream = stream_after + A_second @ value @ second["W_V"] @ second["W_O"]
    logits = stream @ weights["W_U"]
    return logits, [A_first, A_second]


def cases(case):
    for into in READERS:
        yield case(into, f"hidden from the {into}", into=into)
        yield case(into, f"hidden from the {into}, float32", into=into, dtype=np.float32)
        yield case(into, f"hidden from the {into}, one long text", into=into, B=1, n=range(9, 14))
        yield case("edge cases", f"a single token, {into}", into=into, n=1)
        silent = case.draw(into=into)
        silent["weights"]["blocks"][0]["W_O"] *= 0
        yield case("edge cases", f"a first layer that writes nothing, {into}", **silent)
        by_hand = map_leaves(build_induction_circuit(6, 9), torch.Tensor.numpy)
        text = np.stack([np.tile(case.rng.permutation(6)[:4], 2) for _ in range(2)])
        yield case(
            "by hand", f"the circuit set by hand, hidden from the {into}", tokens=text, weights=by_hand, into=into
        )

    ids_of_both_ends = np.array([[0, 8, 3, 0], [5, 1, 0, 8]])
    for into in READERS[1:]:
        yield case(
            "gradients",
            f"gradients, hidden from the {into}",
            tokens=ids_of_both_ends,
            vocab=9,
            into=into,
            gradient=True,
        )
    drawn = case.draw(into="key")
    turned = dict(reversed(drawn["weights"].items()))
    turned["blocks"] = [dict(reversed(block.items())) for block in turned["blocks"]]
    yield case("key", "the weights in another order", **{**drawn, "weights": turned})
    many = case.draw(into="value", vocab=range(300, 400))
    many["tokens"][:, 0] = many["vocab"] - 1
    many["weights"]["W_pos"] = many["weights"]["W_pos"][: many["n"]]
    yield case("edge cases", "token ids above 255, and a text as long as n_ctx", **many)
    yield case("edge cases", "scores far below 0", **far_below(case.draw(into="query")))


def far_below(drawn):
    """Add the same number, -1e6 / √d_head, to all scores of both layers, by means of the first feature only."""
    weights = drawn["weights"]
    weights["W_E"][:, 0], weights["W_pos"][:, 0], weights["W_U"][0] = 0, 100, 0
    for block in weights["blocks"]:
        block["W_V"][0], block["W_O"][:, 0] = 0, 0
        for name, gain in (("W_Q", 10), ("W_K", -10)):
            block[name][0], block[name][:, 0] = 0, 0
            block[name][0, 0] = gain
    return drawn


def with_second(weights, name, change):
    """Return the weights with one matrix of the second layer changed."""
    first, second = weights["blocks"]
    return {**weights, "blocks": [first, {**second, name: change(second[name])}]}


def reads_nothing(tokens, weights, into):
    return run_circuit(tokens, with_second(weights, f"W_{into[0].upper()}", lambda W: 0 * W))


def scaled_by_the_first(tokens, weights, into):
    d_first, d_second = (block["W_Q"].shape[1] for block in weights["blocks"])
    return ablate_path(tokens, with_second(weights, "W_Q", lambda W: W * math.sqrt(d_second / d_first)), into)


MISTAKES = (
    ("reads-nothing", reads_nothing,
     "You let the named reader see nothing at all. It should still see the embedding and the position."),
    ("scaled-by-the-first", scaled_by_the_first,
     "You divide the second layer's scores by the width of the first layer's head. The widths may differ."),
)  # fmt: skip

EXERCISE = exercise(
    ablate_path,
    library="torch",
    credit={"query": 0.25, "key": 0.25, "value": 0.2, "by hand": 0.1, "edge cases": 0.1, "gradients": 0.1},
    ranges={"vocab": range(9, 14), "d_model": range(14, 19), "v_first": range(19, 23), "v_second": range(23, 26)},
)
