"""ablate_path: the model in which one reader of the second layer does not see what the first layer wrote."""

import math

import numpy as np
import torch

from ...worker.values import map_leaves
from ..kit import Drawn, Leaf, exercise, ids
from .hand_made_circuit import build_induction_circuit, run_circuit


def drawn_weights(gain=2.0):
    """Weights for `run_attention_only`, whose widths differ from layer to layer; longer texts than n would do."""

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


def ablate_path(
    tokens: ids("B n", below="vocab"), weights: drawn_weights(), into
) -> (
    Leaf("float array", "logits"),
    [Leaf("float array", "the first layer's pattern"), Leaf("float array", "the second layer's pattern")],
):
    """By the plain model, in a stream twice as wide: what the embedding wrote is kept beside what all wrote."""
    first, second = weights["blocks"]

    def beside(matrix, place):
        """The rows that read one half of the stream, the other half unread."""
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


READERS = "query", "key", "value"


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


def run(
    tokens,
    weights,
    into,
    *,
    readers=lambda into: {into},
    hidden=lambda start, full: start,
    stays=lambda start, full: full,
    embedded=lambda E, P: E + P,
    first_blind=False,
    scale=lambda block, first: block["W_Q"].shape[1],
    causal=True,
    told=lambda logits, patterns, plain: (logits, patterns),
):
    """The same by steps, with a place for every slip."""
    n, (first, second) = tokens.shape[1], weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][:n]

    def pattern(for_query, for_key, block):
        scores = (for_query @ block["W_Q"]) @ (for_key @ block["W_K"]).mT / math.sqrt(scale(block, first))
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        return (scores.masked_fill(later, -math.inf) if causal or block is first else scores).softmax(-1)

    A = pattern(start, start, first)
    full = start + (0 if first_blind else A @ start @ first["W_V"] @ first["W_O"])
    poor = hidden(embedded(weights["W_E"][tokens], weights["W_pos"][:n]), full)
    query, key, value = (poor if reader in readers(into) else full for reader in READERS)
    A_second = pattern(query, key, second)
    logits = (stays(start, full) + A_second @ value @ second["W_V"] @ second["W_O"]) @ weights["W_U"]
    return told(logits, [A, A_second], lambda: run_circuit(tokens, weights))


def others(into):
    return {*READERS} - {into}


MISTAKES = (
    ("nothing-hidden", {"readers": lambda into: set()},
     "Nothing is hidden: it is what the whole model gives."),
    ("hidden-from-all-three", {"readers": lambda into: {*READERS}},
     "The first layer's output is hidden from all three readers. Only one of them is to lose it."),
    ("hidden-from-the-other-two", {"readers": others},
     "The named reader keeps the first layer's output, and the other two lose it."),
    ("hidden-from-query-and-key", {"readers": lambda into: {"query", "key"} if into != "value" else {into}},
     "Queries and keys lose the first layer's output together. They are two paths."),
    ("query-and-key-swapped", {"readers": lambda into: {{"query": "key", "key": "query"}.get(into, into)}},
     "What is hidden from the queries was asked to be hidden from the keys, and the other way round."),
    ("value-forgotten", {"readers": lambda into: {into} - {"value"}},
     "Hidden from the values, nothing changes. What does the pattern of the second layer mix?"),
    ("value-loses-it-always", {"readers": lambda into: {into, "value"}},
     "The values lose the first layer's output whatever `into` says."),
    ("logits-lose-it-too", {"stays": lambda start, full: start},
     "The second layer's output is added to the embedding alone. What the first layer wrote stays in the stream."),
    ("first-head-ablated", {"first_blind": True},
     "The first layer's output is taken out of the model altogether, not hidden from one reader."),
    ("reads-nothing", {"hidden": lambda start, full: torch.zeros_like(full)},
     "The named reader sees nothing at all. It is still to see the embedding and the position."),
    ("reads-the-note-alone", {"hidden": lambda start, full: full - start},
     "The named reader sees what the first layer wrote and nothing else: it should be the reverse."),
    ("positions-lost", {"embedded": lambda E, P: E},
     "The named reader loses the positions too. What stands in the stream before the first layer?"),
    ("plain-patterns-returned", {"told": lambda logits, patterns, plain: (logits, plain()[1])},
     "The logits are right, but the patterns are those of the whole model. Return those with the path cut."),
    ("plain-logits-returned", {"told": lambda logits, patterns, plain: (plain()[0], patterns)},
     "The patterns are right, but the logits are those of the whole model. They follow from the new pattern."),
    ("patterns-in-reverse", {"told": lambda logits, patterns, plain: (logits, patterns[::-1])},
     "The second layer's pattern comes before the first one's."),
    ("scaled-by-the-first", {"scale": lambda block, first: first["W_Q"].shape[1]},
     "The second layer's scores are divided by the width of the first layer's head. The widths may differ."),
    ("second-layer-unmasked", {"causal": False},
     "The second layer looks at later tokens."),
)  # fmt: skip

EXERCISE = exercise(
    ablate_path,
    cases,
    MISTAKES,
    slipped=run,
    library="torch",
    credit={"query": 0.25, "key": 0.25, "value": 0.2, "by hand": 0.1, "edge cases": 0.1, "gradients": 0.1},
    core="query",
    ranges={"vocab": range(9, 14), "d_model": range(14, 19), "v_first": range(19, 23), "v_second": range(23, 26)},
)
