"""Defines the exercise `ablate_head`, which sets one head's contribution to the stream to zero."""

import numpy as np
import torch

from ..kit import Drawn, Leaf, by_columns, exercise, normal, strided


def inner_head():
    """Draw a head that is neither the first nor the last, if there are at least three."""

    def make(rng, shape, sizes):
        return int(rng.integers(1, sizes["h"] - 1)) if sizes["h"] > 2 else sizes["h"] - 1

    return Drawn("", make, also="h")


def ablate_head(head_outputs: normal("B h n d_model"), head: inner_head()) -> Leaf("float array", "the contributions"):
    keep = torch.arange(head_outputs.shape[1]) != head
    return torch.where(keep[:, None, None], head_outputs, torch.zeros((), dtype=head_outputs.dtype))


def plain(head_outputs, head):
    kept = head_outputs.clone()
    kept[:, head, :, :] = 0
    return kept


def cases(case):
    yield case("values", "head {head} of {h}")
    yield case("values", "the first head", head=0)
    last = Drawn("", lambda rng, shape, sizes: sizes["h"] - 1)
    yield case("values", "the last head", head=last)
    yield case("values", "float32", head=1, dtype=np.float32)
    yield case("values", "not contiguous", head=2, layout=strided)
    yield case("values", "float16", head=1, dtype=np.float16)
    yield case("values", "memory in another order", head=1, layout=by_columns)
    yield case("edge cases", "B = 1", B=1, head=1)
    yield case("edge cases", "n = 1", n=1, head=last)
    yield case("edge cases", "one head", h=1, head=0)
    yield case("edge cases", "large outputs", head_outputs=normal("B h n d_model", 1e4))
    mixed = case.rng.standard_normal((2, 4, 5, 3)) * 10.0 ** case.rng.integers(-8, 1, (2, 4, 5, 3))
    yield case("values", "the others digit for digit", head_outputs=mixed, head=2, rtol=1e-12)
    alike = case.rng.integers(1, 4, (3, 1, 4, 5)).repeat(4, axis=1).astype(float)
    yield case("values", "heads that write the same", head_outputs=alike, head=1)
    yield case("edge cases", "head 13 of 16", h=16, head=13)
    yield case("gradients", "gradients, the first head", head=0, gradient=True)
    yield case("gradients", "gradients, the last head", head=last, gradient=True)


def zeroed(places, value=0.0):
    """Return the input with `value` at the index `places(contributions, head)`."""

    def wrong(head_outputs, head):
        kept = head_outputs.clone()
        kept[places(kept, head)] = value
        return kept

    return wrong


def of_heads(gone):
    """Return the input with zeros in the heads where `gone(all heads, head)` is True."""
    return zeroed(lambda x, head: (slice(None), gone(torch.arange(x.shape[1]), head)))


def along(axis):
    """Return the input with zeros at index `head` of another axis, if that axis is long enough."""
    return zeroed(lambda x, head: (*(slice(None),) * axis, torch.arange(x.shape[axis]) == head))


def averaged(head_outputs, head):
    this = (torch.arange(head_outputs.shape[1]) == head)[:, None, None]
    return torch.where(this, head_outputs.mean((0, 2), keepdim=True), head_outputs)


def block_of_features(head_outputs, head):
    h, d_model = head_outputs.shape[1], head_outputs.shape[3]
    return head_outputs * (torch.arange(d_model) // max(d_model // h, 1) != head)


MISTAKES = (
    ("only-this-head-kept", of_heads(lambda heads, head: heads != head),
     "You set all other heads to zero and keep this one."),
    ("wrong-axis-batch", along(0),
     "You set a sequence of the batch to zero. Heads are on the second axis."),
    ("wrong-axis-tokens", along(2),
     "You set a token to zero. Heads are on the second axis."),
    ("wrong-axis-features", along(3),
     "You set a feature to zero. Heads are on the second axis."),
    ("mean-ablation", averaged,
     "You replace the head's contribution by its mean. Replace it by zero."),
    ("block-of-features", block_of_features,
     "You set a block of features to zero in every head. The heads are already separate, on the second axis."),
    ("rest-scaled", lambda x, head: ablate_head(x, head) * (x.shape[1] / max(x.shape[1] - 1, 1)),
     "You scale the other heads up, as dropout does. Leave them as they are, to see what the model does without this "
     "head."),
)  # fmt: skip

EXERCISE = exercise(ablate_head, library="torch", credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1})
