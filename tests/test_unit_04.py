"""Unit 4: references against a second route, and right answers of unusual form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autograder.judging.local import judge_function
from references import cases, near


def test_split_heads_column_by_column():
    for _, (X, h), expected in cases("split_heads"):
        d = X.shape[-1] // h
        for head in range(h):
            for column in range(d):
                assert torch.equal(expected[:, head, :, column], X[:, :, head * d + column])


def test_merge_heads_column_by_column():
    for _, (X,), expected in cases("merge_heads"):
        _, h, _, d = X.shape
        for column in range(h * d):
            assert torch.equal(expected[:, :, column], X[:, column // d, :, column % d])


def rows(Q, K, V, mask=None):
    """Attention of one query after the other, by the formula."""
    scores = (Q[..., :, None, :] * K[..., None, :, :]).sum(-1) / Q.shape[-1] ** 0.5
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
        top = scores.amax(-1, keepdim=True)
        e = torch.exp(scores - torch.where(top == -torch.inf, 0.0, top))
    total = e.sum(-1, keepdim=True)
    return torch.where(total > 0, e / total, 0.0) @ V


def test_bmm_attention_by_the_formula():
    for case, args, expected in cases("bmm_attention"):
        assert near(rows(*args), expected, 1e-7), case.label


def as_module(X, W_Q, W_K, W_V, W_O, b_O, h):
    """nn.MultiheadAttention with these weights; it needs h·d_head = d_model, so the heads are padded with zeros."""
    d_model, d = W_Q.shape[0], W_Q.shape[1] // h
    layer = nn.MultiheadAttention(d_model, h, batch_first=True, dtype=torch.float64)
    assert d == d_model // h
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.cat([W_Q.T, W_K.T, W_V.T]))
        layer.in_proj_bias.zero_()
        layer.out_proj.weight.copy_(W_O.T)
        layer.out_proj.bias.copy_(b_O)
    return layer


def test_multi_head_attention_is_torchs_layer_where_both_apply():
    from autograder.exercises.u04_multi_head.multi_head_attention import multi_head_attention

    generator = torch.Generator().manual_seed(4)
    B, n, h, d = 2, 5, 3, 4
    d_model = h * d
    X, b_O = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((B, n, d_model), (d_model,)))
    weights = [torch.randn(d_model, d_model, generator=generator, dtype=torch.float64) for _ in range(4)]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    layer = as_module(X, *weights, b_O, h)
    theirs = layer(X, X, X, attn_mask=~causal)[0]
    assert near(multi_head_attention(X, *weights, b_O, h, causal), theirs)
    assert near(multi_head_attention(X, *weights, b_O, h), layer(X, X, X)[0])


def test_multi_head_attention_head_by_head():
    for case, (X, W_Q, W_K, W_V, W_O, b_O, h, *mask), expected in cases("multi_head_attention"):
        B, n, _ = X.shape
        d = W_Q.shape[1] // h
        allowed = mask[0].broadcast_to(B, h, n, n) if mask else torch.ones(B, h, n, n, dtype=torch.bool)
        heads = []
        for head in range(h):
            Q, K, V = (X @ W[:, head * d : (head + 1) * d] for W in (W_Q, W_K, W_V))
            heads.append(rows(Q, K, V, allowed[:, head]))
        assert near(torch.cat(heads, -1) @ W_O + b_O, expected, 1e-7), case.label


def test_head_contributions_sum_to_the_layer():
    from autograder.exercises.u04_multi_head.multi_head_attention import multi_head_attention

    for case, (X, W_Q, W_K, W_V, W_O, h, *mask), expected in cases("head_contributions"):
        b_O = torch.arange(W_O.shape[1], dtype=torch.float64)
        whole = multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, h, *mask)
        assert near(expected.sum(1) + b_O, whole, 1e-8), case.label


def test_from_torch_weights_reproduce_the_projections():
    for _, (inputs, out), (W_Q, W_K, W_V, W_O) in cases("from_torch_weights"):
        d = inputs.shape[1]
        x = torch.linspace(-1, 1, d, dtype=torch.float64)
        assert near(torch.cat([x @ W_Q, x @ W_K, x @ W_V]), nn.functional.linear(x, inputs))
        assert near(x @ W_O, nn.functional.linear(x, out))


def split_by_index(X, n_heads):
    if divmod(X.shape[-1], n_heads)[1] != 0:
        raise ValueError(f"cannot split {X.shape[-1]} columns into n_heads={n_heads}")
    d = X.shape[-1] // n_heads
    return torch.stack([X[:, :, h * d : (h + 1) * d] for h in range(n_heads)]).movedim(0, 1)


def attention_by_logsumexp(Q, K, V, mask=None):
    scores = torch.baddbmm(torch.zeros(1, 1, 1, dtype=Q.dtype), Q, K.transpose(1, 2), beta=0, alpha=Q.shape[-1] ** -0.5)
    if mask is None:
        return torch.bmm(torch.exp(scores - scores.logsumexp(-1, keepdim=True)), V)
    mask = mask.expand(scores.shape)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.bmm(scores.softmax(-1).where(mask, 0), V)


def layer_by_einsum(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    print("shapes", X.shape)
    heads = [W.reshape(W.shape[0], n_heads, -1) for W in (W_Q, W_K, W_V)]
    Q, K, V = (torch.einsum("bnm,mhd->bhnd", X, W) for W in heads)
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.where(mask, -torch.inf)
        empty = torch.isneginf(scores).all(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    else:
        weights = scores.softmax(-1)
    out = torch.einsum("bhij,bhjd,hde->bie", weights, V, W_O.reshape(n_heads, -1, W_O.shape[1]))
    return torch.add(out, b_O)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("split_heads", split_by_index),
        ("merge_heads", lambda X: X.movedim(1, 2).reshape(X.shape[0], X.shape[2], -1)),
        ("merge_heads", lambda X: torch.cat([X[:, h] for h in range(X.shape[1])], dim=2)),
        ("bmm_attention", attention_by_logsumexp),
        ("multi_head_attention", layer_by_einsum),
        ("from_torch_weights", lambda i, o: (*(w.T.clone() for w in i.chunk(3)), o.T)),
        ("from_torch_weights", lambda i, o: (*i.reshape(3, -1, i.shape[1]).mT.unbind(), o.t().contiguous())),
    ],
)
def test_right_answers_of_unusual_form(name, answer):
    for seed in range(5):
        found = judge_function(answer, name, seed)
        assert found.verdict == "right", found.message


def test_a_forbidden_layer_is_found():
    def by_layer(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
        return torch.nn.MultiheadAttention(X.shape[-1], 1, dtype=X.dtype, batch_first=True)(X, X, X)[0]

    assert judge_function(by_layer, "multi_head_attention", 1).verdict == "forbidden"


def is_mask(value):
    return isinstance(value, torch.Tensor) and value.dtype is torch.bool


def test_only_bmm_attention_asks_about_queries_that_may_attend_to_nothing():
    """A layer's masks leave every query a key, in each sequence and head, so that -inf before the softmax is right."""
    for name in ("multi_head_attention", "head_contributions", "bmm_attention"):
        masks = [value for _, args, _ in cases(name) for value in args if is_mask(value)]
        empty = sum(not mask.any(-1).all() for mask in masks)
        assert len(masks) >= 20
        assert (empty > 0) == (name == "bmm_attention"), f"{name}: {empty} masks with an empty row"
