"""Defines the exercise `cut_path`, in which later layers' queries, keys or values don't see what one head wrote."""

import numpy as np
import torch
import torch.nn.functional as F

from ..attention_parts import merge, split
from ..kit import IN_FLOAT64, RTOL_FLOAT64, Drawn, Leaf, by_columns, exercise, size
from ..u04_multi_head.split_heads import plain as split_heads
from ..u05_mqa_gqa.parts import in_groups
from ..u05_mqa_gqa.repeat_kv import plain as repeat_kv
from ..u10_attention_today.rms_norm import plain as rms_norm
from ..u10_attention_today.rms_norm import rms_norm as norm
from ..u10_attention_today.rotate import plain as rotate
from ..u10_attention_today.rotate import rotate as turn
from ..u10_attention_today.swiglu import swiglu as gated
from .llama_logits import attention, block_output
from .small_models import FAINT, LEAST, LOOSE, NOT_HERE, RANGES, head_counts, model, other_order, text

READERS = "query", "key", "value"


def reader():
    return Drawn("", lambda rng, shape, sizes: READERS[int(rng.integers(3))])


def head(layers=None):
    """Draw a (layer, head). layers: the layer; by default any but the last."""

    def make(rng, shape, sizes):
        last = max(sizes["n_blocks"] - 1, 1)
        which = int(rng.integers(min(1, sizes["h"] - 1), sizes["h"]))  # head 0 is also the first in its group
        return (int(rng.integers(last)) if layers is None else layers, which)

    return Drawn("", make, also="n_blocks h")


def cut_path(
    tokens: text("B n"), params: model(), source: head(), into: reader(), n_heads: size("h"), n_kv_heads: size("g"),
    base=10000.0, eps=1e-5,
) -> Leaf("float array", "the logits"):  # fmt: skip
    """Use torch's attention and two streams: the whole one, and one to which the source doesn't write."""
    positions = torch.arange(tokens.shape[1])
    whole = blind = F.embedding(tokens, params["W_E"])
    for layer, p in enumerate(params["blocks"]):
        read = {reader: norm(blind if reader == into else whole, p["gamma_1"], eps) for reader in READERS}
        Q, K, V = (
            F.linear(read[reader], p[f"W_{reader[0].upper()}"].T).unflatten(-1, (heads, -1)).transpose(1, 2)
            for reader, heads in zip(READERS, (n_heads, n_kv_heads, n_kv_heads), strict=True)
        )
        Q, K = turn(Q, positions, base), turn(K, positions, base)
        heads = F.scaled_dot_product_attention(Q, K, V, is_causal=True, enable_gqa=True)
        silent = heads
        if layer == source[0]:
            others = torch.arange(n_heads)[:, None, None] != source[1]
            silent = heads.where(others, heads.new_zeros(()))
        seen, blind = (
            stream + F.linear(part.transpose(1, 2).flatten(2), p["W_O"].T)
            for stream, part in ((whole, heads), (blind, silent))
        )
        fed = gated(norm(seen, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
        whole, blind = seen + fed, blind + fed
    return F.linear(norm(whole, params["gamma_f"], eps), params["W_E"])


def plain(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    W_E = params["W_E"]
    source_layer, source_head = source
    n = tokens.shape[1]
    n_rep = n_heads // n_kv_heads
    positions = torch.arange(n)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = W_E[tokens]
    note = torch.zeros_like(x)
    for layer, block in enumerate(params["blocks"]):
        hidden = x - note
        for_query = hidden if into == "query" else x
        for_key = hidden if into == "key" else x
        for_value = hidden if into == "value" else x
        Q = split_heads(rms_norm(for_query, block["gamma_1"], eps) @ block["W_Q"], n_heads)
        K = split_heads(rms_norm(for_key, block["gamma_1"], eps) @ block["W_K"], n_kv_heads)
        V = split_heads(rms_norm(for_value, block["gamma_1"], eps) @ block["W_V"], n_kv_heads)
        Q = rotate(Q, positions, base)
        K = rotate(K, positions, base)
        heads = attention(Q, repeat_kv(K, n_rep), repeat_kv(V, n_rep), mask)
        if layer == source_layer:
            d_head = heads.shape[-1]
            start = source_head * d_head
            rows = block["W_O"][start : start + d_head]
            note = heads[:, source_head] @ rows
        x = block_output(x, heads, block, eps)
    normed = rms_norm(x, params["gamma_f"], eps)
    return normed @ W_E.T


def cases(case):
    first, second, third = head_counts(case.rng)
    four = {"n_blocks": 4, **LOOSE}
    for into, counts in zip(READERS, (first, second, third), strict=True):
        for at, which in enumerate(("first", "second")):
            label = f"the source in the {which} layer of 4, hidden from the {into}"
            yield case(into, label, source=head(at), into=into, **counts, **four)
        single = {**four, "n_blocks": 3}
        yield case(into, f"float32, hidden from the {into}", into=into, dtype=np.float32, **second, **single)
        last = case.draw(n_blocks=2, source=head(1), **third)
        yield case("edge cases", f"a source in the last layer, {into}", **{**last, "into": into}, **LOOSE)
    two = {"n_blocks": 2, "source": head(0), **LOOSE}
    for into, counts in zip(READERS, (third, first, second), strict=True):
        faint = {"params": model(stream=FAINT), "into": into}
        yield case("eps and base", f"a faint stream, so that the default eps counts, {into}", **faint, **counts, **two)
        own = float(case.rng.integers(20, 60))
        yield case("eps and base", f"base = {own}, eps = 0.5, {into}", base=own, eps=0.5, into=into, **counts, **two)
    yield case("eps and base", "eps = 0.25 by name", eps=0.25, by_name="eps", **first, **two)
    silent = case.draw(n_blocks=3, source=head(0), **first)
    layer, at = silent["source"]
    width = silent["d_head"]
    silent["params"]["blocks"][layer]["W_O"][at * width : (at + 1) * width] = 0
    yield case("edge cases", "a source that writes nothing", **silent, **LOOSE)
    yield case("edge cases", "a single token (n = 1)", n=1, into="value", **second, **two)
    yield case("edge cases", "a single sequence (B = 1)", B=1, **third, **two)
    yield case("edge cases", "as many key/value heads as heads (g = h)", h=3, g=3, **two)
    yield case("edge cases", "one key/value head (g = 1)", h=4, g=1, **two)
    yield case("edge cases", "a single block", n_blocks=1, source=head(0), **first, **LOOSE)
    yield case("edge cases", "memory that is not contiguous", layout=by_columns, **second, **two)
    drawn = case.draw(n_blocks=3, **third)
    yield case("edge cases", "params in another order", **{**drawn, "params": other_order(drawn["params"])}, **LOOSE)
    drawn = case.draw(n_blocks=2, vocab=300, source=head(0), **first)
    drawn["tokens"][:, 1] = 299
    yield case("edge cases", "token ids above 255", **drawn, **LOOSE)
    large = case.draw(n_blocks=2, source=head(0), **second)
    for name in ("W_Q", "W_K"):
        large["params"]["blocks"][1][name] *= 100
    yield case("edge cases", "scores of some ten thousand", **large, **LOOSE)
    yield case("edge cases", IN_FLOAT64, eps=0.25, n_blocks=3, source=head(0), rtol=RTOL_FLOAT64, **first)
    for into in READERS:
        label = f"gradients, hidden from the {into}, eps = 0.5"
        yield case("gradients", label, gradient=True, eps=0.5, into=into, **first, **two)


def run(
    tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5, *,
    readers=lambda into: (into,), later=lambda layer, source: layer > source,
    off=lambda whole, note, x, gamma, eps: norm(x - note, gamma, eps), ffn_blind=False, logits_blind=False,
    removed=False, written=lambda parts, at, rep: parts[:, at], stays_hidden=False,
    rows=lambda W_O, heads, rep: W_O.unflatten(0, (heads, -1)),
):  # fmt: skip
    """Run the model with one path cut and an option for each slip.

    readers: which readers are blind. later: in which layers. off: what they read, from the whole normed stream, the
    note, and the arguments of the norm. written: the note, from the output of all heads. rows: W_O cut into the rows of
    each head. stays_hidden: whether the blind stream goes on to the next layer.
    """
    n, rep = tokens.shape[1], n_heads // n_kv_heads
    positions, mask = torch.arange(n), torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens]
    note = torch.zeros_like(x)
    for layer, p in enumerate(params["blocks"]):
        hidden = note if later(layer, source[0]) else 0 * note
        whole = norm(x, p["gamma_1"], eps)
        blind = off(whole, hidden, x, p["gamma_1"], eps)
        read = {reader: blind if reader in readers(into) else whole for reader in READERS}
        Q = turn(split(read["query"] @ p["W_Q"], n_heads), positions, base)
        K = turn(split(read["key"] @ p["W_K"], n_kv_heads), positions, base)
        V = split(read["value"] @ p["W_V"], n_kv_heads)
        K, V = in_groups(K, rep), in_groups(V, rep)
        scores = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
        heads = torch.softmax(scores, -1) @ V
        parts = heads @ rows(p["W_O"], n_heads, rep)
        if layer == source[0]:
            note = written(parts, source[1], rep)
        between = x + merge(heads) @ p["W_O"]
        if layer == source[0] and removed:
            between, note = between - note, 0 * note
        seen = between - note if ffn_blind and layer >= source[0] else between
        x = between + gated(norm(seen, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
        if stays_hidden and layer > source[0]:
            x, note = x - note, 0 * note
    return norm(x - note if logits_blind else x, params["gamma_f"], eps) @ params["W_E"].T


def of_the_group(parts, at, rep):
    first = at // rep * rep
    return parts[:, first : first + rep].sum(1)


def next_reader(into):
    return (READERS[(READERS.index(into) + 1) % 3],)


def swapped(into):
    return ({"query": "key", "key": "query", "value": "value"}[into],)


def by_the_size_of_the_whole(whole, note, x, gamma, eps):
    return gamma * (x - note) * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


def every_other_row(W_O, heads, rep):
    return W_O.unflatten(0, (-1, heads)).transpose(0, 1)


MISTAKES = (
    ("behind-the-norm", {"off": lambda whole, note, x, gamma, eps: whole - note},
     "You subtract the head's output after the norm, which scales everything that it reads. Subtract it before."),
    ("norm-of-the-whole", {"off": by_the_size_of_the_whole},
     "Your norm still divides by the size of the whole stream. What a blind reader sees has another size."),
    ("note-through-the-norm", {"off": lambda whole, note, x, gamma, eps: whole - norm(note, gamma, eps)},
     "You put stream and head's output through the norm separately. The norm of a difference is another one."),
    ("next-layer-alone", {"later": lambda layer, source: layer == source + 1},
     "You make only the layer right after the source blind. Make all later layers blind."),
    ("next-layer-left-out", {"later": lambda layer, source: layer > source + 1},
     "You let the layer right after the source still see everything. Make all later layers blind."),
    ("all-readers", {"readers": lambda into: READERS},
     "You make queries, keys and values all blind. Only the one that `into` names should be."),
    ("the-other-readers", {"readers": lambda into: tuple(reader for reader in READERS if reader != into)},
     "You make the two readers blind that `into` does not name, and let the named one see everything."),
    ("query-for-key", {"readers": swapped},
     "You swapped queries and keys, so the wrong one of the two is blind."),
    ("another-reader", {"readers": next_reader}, "You make another reader blind than the named one."),
    ("head-removed", {"removed": True},
     "You remove the head's output for everybody. The stream should keep it, and so should all others who read it."),
    ("ffn-blind", {"ffn_blind": True},
     "You hide the head's output from the feed-forward layers, too. Only attention should be blind."),
    ("logits-blind", {"logits_blind": True},
     "You leave the head's output out before the final norm. The logits should see all of the stream."),
    ("lost-after-a-layer", {"stays_hidden": True},
     "After a layer that was blind to it, your stream goes on without the head's output. What you hide from a reader "
     "should still be in the stream."),
    ("whole-group", {"written": of_the_group},
     "You hide the outputs of all query heads of the group. The source is one query head."),
    ("whole-layer", {"written": lambda parts, at, rep: parts.sum(1)},
     "You hide everything that attention wrote in the source's layer. The source is one head of it."),
    ("every-h-th-row", {"rows": every_other_row},
     "You cut W_O into every h-th row. A head owns a block of rows, as its columns are a block."),
    ("neighbour", {"written": lambda parts, at, rep: parts[:, at - 1]},
     "You hide the output of another head of the layer. Heads are counted from 0."),
    ("rows-by-group", {"rows": lambda W_O, h, rep: W_O.unflatten(0, (h, -1)).repeat_interleave(rep, 0)[:h]},
     "You send the head's output through the rows of `W_O` that belong to its group's number. Each head has its own."),
    ("nothing-cut", {"readers": lambda into: ()},
     "Your logits are those of the whole model, so nothing is hidden from anybody."),
    ("added-instead", {"off": lambda whole, note, x, gamma, eps: norm(x + note, gamma, eps)},
     "You add the head's output once more where it should be missing."),
)  # fmt: skip

EXERCISE = exercise(
    cut_path,
    credit={"query": 0.2, "key": 0.2, "value": 0.2, "eps and base": 0.15, "edge cases": 0.15, "gradients": 0.1},
    sizes=range(2, 7), ranges={**RANGES, "n_blocks": (2, 3)}, least=LEAST,
    slipped=run, library="torch", contains=("llama_logits",), forbidden=(*NOT_HERE, "cut_by_torch"),
)  # fmt: skip
