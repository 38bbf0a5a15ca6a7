"""Unit 6: references against a second route, and right answers of unusual form."""

from __future__ import annotations

import pytest
import torch

from autograder.exercises import find_exercise
from autograder.exercises.u06_cross_attention.greedy_decode import model
from autograder.judging.local import judge_function
from references import cases, near


def by_head(X, Y, W_Q, W_K, W_V, W_O, h, source_mask=None):
    """Cross-attention one head after the other, by the formula."""
    B, n, m, d = X.shape[0], X.shape[1], Y.shape[1], W_Q.shape[1] // h
    seen = torch.ones(B, m, dtype=torch.bool) if source_mask is None else source_mask
    out, maps = torch.zeros(B, n, W_O.shape[1], dtype=X.dtype), []
    for head in range(h):
        own = slice(head * d, (head + 1) * d)
        Q, K, V = X @ W_Q[:, own], Y @ W_K[:, own], Y @ W_V[:, own]
        scores = torch.einsum("bid,bjd->bij", Q, K) / d**0.5
        top = torch.where(seen[:, None], scores, -torch.inf).amax(-1, keepdim=True)
        e = torch.exp(scores - torch.where(top.isinf(), 0.0, top)).where(seen[:, None], 0.0)
        total = e.sum(-1, keepdim=True)
        maps.append(torch.where(total > 0, e / total, 0.0))
        out = out + maps[-1] @ V @ W_O[own]
    return out, torch.stack(maps, 1)


def test_cross_attention_head_by_head():
    for case, args, (out, weights) in cases("cross_attention"):
        theirs, maps = by_head(*args)
        assert near(theirs, out, 1e-7) and near(maps, weights, 1e-7), case.label


def test_decoder_layer_in_two_steps():
    for case, (X, Y, params, h, *mask), expected in cases("decoder_layer"):
        rows = []
        own = [params[f"self_W_{role}"] for role in "QKVO"]
        for i in range(X.shape[1]):  # the causal mask, by not showing what comes later
            rows.append(by_head(X[:, i : i + 1], X[:, : i + 1], *own, h)[0])
        X = X + torch.cat(rows, 1)
        cross = [params[f"cross_W_{role}"] for role in "QKVO"]
        assert near(X + by_head(X, Y, *cross, h, *mask)[0], expected, 1e-7), case.label


def test_alignment_row_by_row():
    for case, (weights,), expected in cases("alignment"):
        for b in range(weights.shape[0]):
            for i in range(weights.shape[2]):
                row = weights[b, :, i].sum(0).tolist()
                assert int(expected[b, i]) == row.index(max(row)), case.label


def test_greedy_decode_follows_the_plan():
    decode = find_exercise("greedy_decode").reference

    def run(plan, end, max_len, vocab=9):
        logits = model(3, vocab, plan)
        return decode(lambda tokens: torch.from_numpy(logits(tokens)), plan[0], end, max_len)

    assert run([1, 4, 5, 2, 6], 2, 9) == [1, 4, 5, 2]
    assert run([1, 4, 5, 2, 6], 2, 3) == [1, 4, 5]
    assert run([1, 2], 2, 1) == [1]
    assert run([2, 4, 2, 6], 2, 9) == [2, 4, 2]


def in_one_einsum(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    parts = [W.unflatten(1, (n_heads, -1)) for W in (W_Q, W_K, W_V)]
    Q = torch.einsum("bnm,mhd->bhnd", X, parts[0])
    K, V = (torch.einsum("bnm,mhd->bhnd", Y, W) for W in parts[1:])
    scores = torch.einsum("bhid,bhjd->bhij", Q, K).div(Q.shape[-1] ** 0.5)
    if source_mask is not None:
        seen = source_mask.reshape(len(Y), 1, 1, -1)
        scores = scores + torch.zeros_like(scores).masked_fill(~seen, -1e30)
        weights = scores.softmax(-1).mul(seen)
    else:
        weights = scores.softmax(-1)
    out = torch.einsum("bhij,bhjd,hde->bie", weights, V, W_O.unflatten(0, (n_heads, -1)))
    return out, weights


def layer_by_parts(X, Y, params, n_heads, source_mask=None):
    n = X.shape[1]
    own = {key.removeprefix("self_"): W for key, W in params.items() if key.startswith("self_")}
    cross = {key[6:]: W for key, W in params.items() if key.startswith("cross_")}
    Q, K, V = ((X @ own[f"W_{role}"]).unflatten(2, (n_heads, -1)).transpose(1, 2) for role in "QKV")
    ahead = torch.ones(n, n).triu(1).bool()
    weights = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(ahead, -torch.inf).softmax(-1)
    middle = X + (weights @ V).transpose(1, 2).flatten(2) @ own["W_O"]
    return middle + in_one_einsum(middle, Y, *(cross[f"W_{role}"] for role in "QKVO"), n_heads, source_mask)[0]


def decode_recursively(next_logits, start, end, max_len):
    def longer(tokens):
        if len(tokens) >= max_len:
            return tokens
        logits = next_logits(tokens).tolist()
        token = logits.index(max(logits))
        return [*tokens, token] if token == end else longer([*tokens, token])

    return longer([start])


def decode_with_tensors(next_logits, start, end, max_len):
    tokens = torch.tensor([start])
    for _ in range(max_len - 1):
        logits = next_logits(tokens.tolist())
        best = torch.nonzero(logits == logits.max())[0]
        tokens = torch.cat([tokens, best])
        if best.item() == end:
            break
    return tokens.tolist()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("cross_attention", in_one_einsum),
        ("cross_attention", by_head),
        ("decoder_layer", layer_by_parts),
        ("alignment", lambda weights: weights.sum(1).max(-1).indices),
        ("alignment", lambda weights: torch.argmax(weights.double().mean(dim=1), dim=2).int()),
        ("alignment", lambda weights: weights.mean(1).sort(dim=-1, descending=True, stable=True).indices[..., 0]),
        ("greedy_decode", decode_recursively),
        ("greedy_decode", decode_with_tensors),
    ],
)
def test_right_answers_of_unusual_form(name, answer):
    for seed in range(5):
        found = judge_function(answer, name, seed)
        assert found.verdict == "right", found.message
