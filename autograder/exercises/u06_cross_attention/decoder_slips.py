"""Computes the decoder layer with an option for each slip, for known mistakes and for the suspects of the black box."""

import torch

from .parts import crossed


def add(X, attend):
    """Apply one step with its residual connection."""
    return X + attend(X)


def in_turn(X, own, cross):
    return add(add(X, own), cross)


def layer(X, Y, params, n_heads, source_mask=None, *, steps=in_turn, in_self=None, in_cross=None):
    """Apply the layer with slips. steps: takes X, self- and cross-attention; in_self, in_cross: slips of either."""

    def attend(part, X, Y, slips):
        weight = {f"W_{role}": params[f"{part}_W_{role}"] for role in "QKVO"}
        return crossed(X, Y, **{**weight, "n_heads": n_heads, **slips})[0]

    n = X.shape[1]
    own = {"source_mask": torch.ones(n, n, dtype=torch.bool).tril(), "mask_of": lambda mask: mask, **(in_self or {})}
    cross = {"source_mask": source_mask, **(in_cross or {})}
    return steps(X, lambda X: attend("self", X, X, own), lambda X: attend("cross", X, Y, cross))


def in_both(**slips):
    return {"in_self": slips, "in_cross": slips}


def one_scale(X, Y, params, *rest):
    times = (params["cross_W_Q"].shape[1] / params["self_W_Q"].shape[1]) ** 0.5
    return layer(X, Y, {**params, "cross_W_Q": params["cross_W_Q"] * times}, *rest)
