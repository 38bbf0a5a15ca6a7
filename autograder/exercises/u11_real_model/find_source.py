"""Defines the exercise `find_source`, which finds the earlier head whose output a later head's keys read most."""

import numpy as np
import torch

from ..kit import Leaf, by_columns, exercise, size
from ..u08_induction_heads.composition_score import plain as composition_score
from .planted_pairs import (
    asked_by_half,
    asked_without_the_gain,
    heard_without_the_gain,
    loud,
    of_a_later_layer,
    of_its_own_layer,
    other_values,
    planted,
    read_by_other_keys,
    read_by_queries,
    reads_what_the_keys_read,
)
from .small_models import model, other_order


def find_source(
    params: model(), reader, n_heads: size("h"), n_kv_heads: size("g")
) -> (
    Leaf("int", "the layer"),
    Leaf("int", "the head"),
):
    """Use inner products of thin factors, without any (d_model, d_model) matrix."""
    scores = by_thin_factors(params, reader, n_heads, n_kv_heads)
    return divmod(int(scores.argmax()), n_heads)


def by_thin_factors(params, reader, n_heads, n_kv_heads, own_gain=False, power=1):
    """Return the scores of all candidates, (layers, heads). own_gain: whether the source's own norm also counts.

    power: the exponent of the gain of the reader's norm.
    """
    rep, (layer, head) = n_heads // n_kv_heads, reader

    def heads(name, block, count, axis):
        return block[name].double().tensor_split(count, axis)

    gain = params["blocks"][layer]["gamma_1"].double()[:, None] ** power
    query = gain * heads("W_Q", params["blocks"][layer], n_heads, 1)[head]
    key = gain * heads("W_K", params["blocks"][layer], n_kv_heads, 1)[head // rep]
    A = query.T @ query
    size_QK = (A * (key.T @ key)).sum()
    rows = []
    for block in params["blocks"][:layer]:
        values = heads("W_V", block, n_kv_heads, 1)
        own = block["gamma_1"].double()[:, None] if own_gain else 1.0
        for at, W_O in enumerate(heads("W_O", block, n_heads, 0)):
            V = own * values[at // rep]
            B, meet = V.T @ V, W_O @ key
            rows.append((B * (meet @ A @ meet.T)).sum() / (size_QK * (B * (W_O @ W_O.T)).sum()))
    return torch.stack(rows).sqrt().reshape(layer, n_heads)


def plain(params, reader, n_heads, n_kv_heads):
    layer, head = reader
    blocks = params["blocks"]
    n_rep = n_heads // n_kv_heads
    d_head = blocks[0]["W_Q"].shape[1] // n_heads

    def columns(W, i):
        return W[:, i * d_head : (i + 1) * d_head]

    gain = blocks[layer]["gamma_1"][:, None]
    W_Q = gain * columns(blocks[layer]["W_Q"], head)
    W_K = gain * columns(blocks[layer]["W_K"], head // n_rep)
    W_QK = W_Q @ W_K.T
    best, found = -1.0, None
    for earlier in range(layer):
        for i in range(n_heads):
            W_V = columns(blocks[earlier]["W_V"], i // n_rep)
            W_O = blocks[earlier]["W_O"][i * d_head : (i + 1) * d_head]
            score = composition_score(W_QK, W_V @ W_O)
            if score > best:
                best, found = score, (earlier, i)
    return found


def scores_of(drawn, **slip):
    """Return the scores of all candidates for drawn arguments."""
    tensors = {
        "blocks": [{name: torch.from_numpy(one) for name, one in block.items()} for block in drawn["params"]["blocks"]]
    }
    return by_thin_factors(tensors, drawn["reader"], drawn["h"], drawn["g"], **slip).numpy()


def cases(case):
    rng = case.rng

    def pair(layers, reader_layer, h, g, source_layer=None, swapped=False, reader_alike=False):
        """Draw (source, reader) that would read other key/value heads if the heads took these in turn.

        reader_alike: whether the reader would read the same one in both orders.
        """
        rep = h // g
        unlike = [head for head in range(h) if head // rep != head % g] or [*range(h)]
        alike = [head for head in range(h) if head // rep == head % g]
        if swapped:
            unlike = [
                head for head in unlike if any(one // rep == head % g and one % g == head // rep for one in range(h))
            ]
        source_layer = int(rng.integers(reader_layer)) if source_layer is None else source_layer
        source, reader = (one[int(rng.integers(len(one)))] for one in (unlike, alike if reader_alike else unlike))
        while source == source_layer:  # so that swapping layer and head shows
            source = unlike[int(rng.integers(len(unlike)))]
        return (source_layer, source), (reader_layer, reader)

    def asked(
        criterion, label, *decoys, layers=3, reader_layer=2, h=6, g=2, source_layer=None, at=None, alike=False, **more
    ):
        chosen = at or pair(layers, reader_layer, h, g, source_layer, other_values in decoys, alike)
        drawn = planted(case, scores_of, *chosen, decoys, n_blocks=layers, h=h, g=g)
        return case(criterion, label, **drawn, **more)

    yield asked("values", "nine heads, three key/value heads", h=9, g=3, at=((0, 2), (2, 4)))
    yield asked("values", "one head writes a lot", loud)
    yield asked("values", "float32", read_by_queries, loud, h=4, dtype=np.float32)
    yield asked("values", "the queries read another head", read_by_queries, loud, g=3)
    yield asked("values", "the keys of the other group read another head", read_by_other_keys, g=2)
    yield asked("values", "the keys of the other groups read other heads", read_by_other_keys, g=3)
    yield asked("values", "a head reads what the keys read", reads_what_the_keys_read)
    yield asked("values", "a head of the reader's layer writes what the keys read", of_its_own_layer)
    yield asked("values", "a head of a later layer writes what the keys read", of_a_later_layer, reader_layer=1)
    for layer in range(3):
        four = {"layers": 4, "reader_layer": 3, "source_layer": layer}
        yield asked("values", f"the reader in layer 3, the source in layer {layer}", read_by_queries, **four)
    for h, g in ((4, 2), (6, 3)):
        yield asked("groups", "values that fill what is read, in one group alone", other_values, h=h, g=g, alike=h == 4)
    yield asked("groups", "as many key/value heads as heads (g = h)", read_by_queries, h=4, g=4)
    yield asked("groups", "values that fill what is read, in one head alone (g = h)", other_values, h=4, g=4)
    yield asked("groups", "one key/value head (g = 1)", read_by_queries, h=4, g=1)
    yield asked("values", "queries that use half of their features", asked_by_half)
    for h in (4, 6):
        yield asked(
            "gains", "a norm that shuts a part of the stream, where keys are large", heard_without_the_gain, h=h
        )
        yield asked(
            "gains", "a norm that shuts a part of the stream, where queries are large", asked_without_the_gain, h=h
        )
    yield asked("edge cases", "memory that is not contiguous", loud, read_by_queries, layout=by_columns)
    yield asked("edge cases", "the first layer has the only candidates", loud, layers=2, reader_layer=1)
    drawn = planted(case, scores_of, (1, 3), (2, 1), (loud,), n_blocks=3, h=4, g=2)
    yield case("edge cases", "params in another order", **{**drawn, "params": other_order(drawn["params"])})
    drawn = planted(case, scores_of, (0, 1), (2, 2), (loud, read_by_queries), n_blocks=3, h=4, g=2)
    for block in drawn["params"]["blocks"]:
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            block[name] *= 1e-6
    yield case("edge cases", "very small weights", **drawn)


def search(
    params, reader, n_heads, n_kv_heads, *,
    folded=lambda block, W_Q, W_K: (block["gamma_1"][:, None] * W_Q, block["gamma_1"][:, None] * W_K),
    gain_of=lambda blocks, layer: blocks[layer], score=composition_score, kv=lambda head, h, g: head // (h // g),
    source_kv=lambda head, h, g: head // (h // g), layers=lambda layer, count: range(layer),
    circuits=lambda Q, K, W_V, W_O: (Q @ K.T, W_V @ W_O), worst=False, told=lambda layer, head: (layer, head),
    rows=lambda W, at, d: W[at * d : (at + 1) * d],
):  # fmt: skip
    """Find the best candidate, with slips. kv, source_kv: the key/value head of the reader and of a candidate.

    folded: the reader's queries and keys with gains. gain_of: whose gain. rows: of a head, in W_O or a transposed W.
    """
    layer, head = reader
    blocks = params["blocks"]
    d = blocks[0]["W_Q"].shape[1] // n_heads
    W_Q = rows(blocks[layer]["W_Q"].T, head, d).T
    W_K = rows(blocks[layer]["W_K"].T, kv(head, n_heads, n_kv_heads), d).T
    W_Q, W_K = folded(gain_of(blocks, layer), W_Q, W_K)
    found = {}
    for earlier in layers(layer, len(blocks)):
        for at in range(n_heads):
            W_V = rows(blocks[earlier]["W_V"].T, source_kv(at, n_heads, n_kv_heads), d).T
            W_QK, W_OV = circuits(W_Q, W_K, W_V, rows(blocks[earlier]["W_O"], at, d))
            found[earlier, at] = float(score(W_QK, W_OV))
    return told(*(min if worst else max)(found, key=found.get))


def unnormed(W_QK, W_OV):
    return (W_QK @ W_OV.T).norm()


def in_turn(head, h, g):
    return head % g


MISTAKES = (
    ("gain-left-out", {"folded": lambda block, W_Q, W_K: (W_Q, W_K)},
     "You leave out the gain of the norm before the reader. The reader sees the stream only through that norm."),
    ("gain-on-keys-alone", {"folded": lambda block, W_Q, W_K: (W_Q, block["gamma_1"][:, None] * W_K)},
     "You apply the gain only to the keys. The queries see the stream through the same norm."),
    ("gain-on-queries-alone", {"folded": lambda block, W_Q, W_K: (block["gamma_1"][:, None] * W_Q, W_K)},
     "You apply the gain only to the queries. The keys see the stream through the same norm."),
    ("second-gain", {"gain_of": lambda blocks, layer: {"gamma_1": blocks[layer]["gamma_2"]}},
     "You use gamma_2, which belongs to the feed-forward layer. Which norm does attention read through?"),
    ("gain-of-another-layer", {"gain_of": lambda blocks, layer: blocks[layer - 1]},
     "You use the gain of another layer than the reader's."),
    ("query-side", {"circuits": lambda Q, K, W_V, W_O: (K @ Q.T, W_V @ W_O)},
     "You find what the reader's queries read. The question is about its keys."),
    ("reads-for-writes", {"circuits": lambda Q, K, W_V, W_O: (Q @ K.T, (W_V @ W_O).T)},
     "You count what a candidate reads, not what it writes. One circuit is transposed."),
    ("kv-heads-in-turn", {"kv": in_turn, "source_kv": in_turn},
     "You let query heads take the key/value heads in turn. Consecutive query heads share one."),
    ("readers-kv-head-in-turn", {"kv": in_turn},
     "Your reader's key head is not that of its group. Consecutive query heads share one."),
    ("sources-kv-head-in-turn", {"source_kv": in_turn},
     "Your candidate's values are not those of its group. Consecutive query heads share one."),
    ("first-kv-head", {"kv": lambda head, h, g: 0, "source_kv": lambda head, h, g: 0},
     "You give every query head the first key/value head."),
    ("unnormalised", {"score": unnormed},
     "You don't divide by the norms of the circuits, so you find the head with the largest weights."),
    ("output-alone", {"circuits": lambda Q, K, W_V, W_O: (Q @ K.T, W_O.T @ W_O)},
     "You leave out W_V, which says how much runs through each row of W_O."),
    ("keys-alone", {"circuits": lambda Q, K, W_V, W_O: (K @ K.T, W_V @ W_O)},
     "You leave out W_Q, which says which of the reader's key features count."),
    ("all-layers", {"layers": lambda layer, count: range(count)},
     "Your candidates include heads of the reader's layer or of later ones. They cannot have written what it reads."),
    ("own-layer-too", {"layers": lambda layer, count: range(layer + 1)},
     "Your candidates include heads of the reader's own layer. They write only after the reader has read."),
    ("layer-before-alone", {"layers": lambda layer, count: range(layer - 1, layer)},
     "You search only the layer right before the reader's. Whatever was written earlier is still in the stream."),
    ("first-layer-left-out", {"layers": lambda layer, count: range(min(1, layer - 1), layer)},
     "You leave out the heads of layer 0. Layers are counted from 0."),
    ("least", {"worst": True}, "You return the head with the smallest score."),
    ("head-before-layer", {"told": lambda layer, head: (head, layer)},
     "Your pair begins with the head. Put the layer first."),
    ("interleaved-heads", {"rows": lambda W, at, d: W[at :: len(W) // d]},
     "Your heads take every h-th column. A head owns a block of columns, and of rows in W_O."),
)  # fmt: skip

EXERCISE = exercise(
    find_source,
    credit={"values": 0.5, "groups": 0.2, "gains": 0.2, "edge cases": 0.1},
    sizes=range(2, 7),
    ranges={"d_head": (6, 8), "d_model": range(28, 37), "d_ff": (9, 10), "vocab": (11, 12), "n_blocks": (2, 3)},
    slipped=search,
    library="torch",
)
