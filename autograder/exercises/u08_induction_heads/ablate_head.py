"""ablate_head: what the heads add to the stream, with one of them silenced."""

import math

import numpy as np
import torch

from ..kit import Drawn, Leaf, exercise, normal, strided


def inner_head():
    """A head that is neither the first nor the last."""
    return Drawn("", lambda rng, shape, sizes: int(rng.integers(1, sizes["h"] - 1)), also="h")


def ablate_head(head_outputs: normal("B h n d_model"), head: inner_head()) -> Leaf("float array", "the contributions"):
    keep = torch.arange(head_outputs.shape[1]) != head
    return torch.where(keep[:, None, None], head_outputs, torch.zeros((), dtype=head_outputs.dtype))


def cases(case):
    yield case("values", "head {head} of {h}")
    yield case("values", "the first head", head=0)
    last = Drawn("", lambda rng, shape, sizes: sizes["h"] - 1)
    yield case("values", "the last head", head=last)
    yield case("values", "float32", head=1, dtype=np.float32)
    yield case("values", "not contiguous", head=2, layout=strided)
    yield case("edge cases", "B = 1", B=1, head=1)
    yield case("edge cases", "n = 1", n=1, head=last)
    yield case("edge cases", "one head", h=1, head=0)
    yield case("edge cases", "large outputs", head_outputs=normal("B h n d_model", 1e4))


def zeroed(places, value=0.0):
    """What comes in, with `value` at `places(contributions, head)`: an index."""

    def wrong(head_outputs, head):
        kept = head_outputs.clone()
        kept[places(kept, head)] = value
        return kept

    return wrong


def of_heads(gone):
    """What comes in, with zeros in the heads for which `gone(all heads, head)` says True."""
    return zeroed(lambda x, head: (slice(None), gone(torch.arange(x.shape[1]), head)))


def along(axis):
    """What comes in, with zeros at place `head` of another axis, where it is that long."""
    return zeroed(lambda x, head: (*(slice(None),) * axis, torch.arange(x.shape[axis]) == head))


def averaged(head_outputs, head):
    this = (torch.arange(head_outputs.shape[1]) == head)[:, None, None]
    return torch.where(this, head_outputs.mean((0, 2), keepdim=True), head_outputs)


def block_of_features(head_outputs, head):
    h, d_model = head_outputs.shape[1], head_outputs.shape[3]
    return head_outputs * (torch.arange(d_model) // max(d_model // h, 1) != head)


MISTAKES = (
    ("head-removed", lambda x, head: torch.cat([x[:, :head], x[:, head + 1 :]], 1),
     "The head is cut out, so one is missing. Its contribution is to be zero, the shape stays."),
    ("only-this-head-kept", of_heads(lambda heads, head: heads != head),
     "All other heads are set to zero, and this one is kept."),
    ("wrong-axis-batch", along(0),
     "A sequence of the batch is set to zero; heads stand on the second axis."),
    ("wrong-axis-tokens", along(2),
     "A token is set to zero; heads stand on the second axis."),
    ("wrong-axis-features", along(3),
     "A feature is set to zero; heads stand on the second axis."),
    ("counted-from-one", of_heads(lambda heads, head: heads == (head - 1) % len(heads)),
     "The head before the one asked for is set to zero. Heads are counted from 0."),
    ("next-head", of_heads(lambda heads, head: heads == (head + 1) % len(heads)),
     "The head after the one asked for is set to zero. Heads are counted from 0."),
    ("first-sequence-only", zeroed(lambda x, head: (0, head)),
     "Only the first sequence of the batch is ablated."),
    ("mean-ablation", averaged,
     "The head's contribution is replaced by its mean; zero was asked for."),
    ("earlier-heads-too", of_heads(lambda heads, head: heads <= head),
     "All heads up to this one are set to zero."),
    ("later-heads-too", of_heads(lambda heads, head: heads >= head),
     "All heads from this one on are set to zero."),
    ("first-head-always", of_heads(lambda heads, head: heads == 0),
     "The first head is set to zero whatever `head` says."),
    ("heads-summed", lambda x, head: ablate_head(x, head).sum(1),
     "The heads are added up. Each keeps its place."),
    ("head-returned", lambda x, head: x[:, head],
     "The contribution of the head itself is returned."),
    ("nan-written", zeroed(lambda x, head: (slice(None), head), math.nan),
     "The head's contribution becomes NaN; zero was asked for."),
    ("only-earlier-heads", of_heads(lambda heads, head: heads < head),
     "The heads before this one are set to zero, and this one is kept. A slice ends before its last index."),
    ("only-later-heads", of_heads(lambda heads, head: heads > head),
     "The heads after this one are set to zero, and this one is kept."),
    ("block-of-features", block_of_features,
     "A block of features is set to zero in every head. The heads are apart already, on the second axis."),
    ("everything-zero", lambda x, head: torch.zeros_like(x),
     "All heads are set to zero."),
    ("nothing-changed", lambda x, head: x.clone(),
     "Nothing is ablated: the result is what came in."),
    ("rest-scaled", lambda x, head: ablate_head(x, head) * (x.shape[1] / max(x.shape[1] - 1, 1)),
     "The other heads are scaled up, as dropout does it. They stay as they are: what the model does without this head "
     "is to be seen."),
)  # fmt: skip

EXERCISE = exercise(
    ablate_head,
    cases,
    MISTAKES,
    library="torch",
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    core="values",
)
