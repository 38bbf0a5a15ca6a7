"""Unit 10: references against a second route."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from autograder.exercises.u10_attention_today.rotate import rotate
from references import cases, near


def arrays(values):
    """NumPy's arrays for tensors, however they are nested."""
    if isinstance(values, dict):
        return {name: arrays(value) for name, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [arrays(value) for value in values]
    return values.numpy() if torch.is_tensor(values) else values


def called(name):
    """(case, arguments by position, those by name, expected), with NumPy's arrays."""
    parameters = {"linear_attention": "Q K V decay state", "delta_rule": "Q K V beta state"}.get(name, "").split()
    for case, args, expected in cases(name):
        by_name = {**dict(zip(parameters, args, strict=False)), **case.kwargs}
        yield case, arrays(args), arrays(by_name), expected


# ---------------------------------------------------------------------------------------------------------------------
# Positions and masks


def turned(row, position, base=10000.0):
    """One row, pair by pair, as complex numbers of Python."""
    half = len(row) // 2
    pairs = [
        complex(row[i], row[i + half]) * cmath.exp(1j * position * base ** (-2 * i / len(row))) for i in range(half)
    ]
    return np.array([z.real for z in pairs] + [z.imag for z in pairs])


def test_rotate_row_by_row():
    for case, args, _, expected in called("rotate"):
        x, positions, *rest = args
        base = rest[0] if rest else case.kwargs.get("base", 10000.0)
        for at in np.ndindex(x.shape[:-1]):
            assert near(turned(x[at], float(positions[at[-1]]), base), expected[at]), case.label


def reversed_by(n_heads, steps, width=64, letters=16):
    """The share of 16 random letters that one layer without a mask reverses by rotary positions, trained as in the notebook."""
    generator = torch.Generator().manual_seed(0)
    inner = n_heads * width
    sizes = {"E": (letters, width), **dict.fromkeys("QKV", (width, inner)), "O": (inner, width), "U": (width, letters)}
    weights = {
        name: ((1 if name == "E" else rows**-0.5) * torch.randn(rows, columns, generator=generator)).requires_grad_()
        for name, (rows, columns) in sizes.items()
    }
    optimizer = torch.optim.AdamW(weights.values(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0)

    def logits(tokens):
        x = weights["E"][tokens]
        Q, K, V = ((x @ weights[name]).unflatten(-1, (n_heads, width)).transpose(1, 2) for name in "QKV")
        Q, K = (rotate(one, torch.arange(16)) for one in (Q, K))
        heads = torch.softmax(Q @ K.mT / width**0.5, -1) @ V
        return (x + heads.transpose(1, 2).flatten(2) @ weights["O"]) @ weights["U"]

    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 5e-3 * min(1, (step + 1) / 20)
        tokens = torch.randint(letters, (32, 16), generator=generator)
        loss = F.cross_entropy(logits(tokens).flatten(0, 1), tokens.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tokens = torch.randint(letters, (300, 16), generator=torch.Generator().manual_seed(99))
    with torch.no_grad():
        return float((logits(tokens).argmax(-1) == tokens.flip(1)).double().mean())


@pytest.mark.nightly
def test_eight_heads_reverse_letters_by_distances_and_one_does_not():
    assert reversed_by(1, 2000) < 0.4 < 0.7 < reversed_by(8, 2000)


def test_sliding_window_mask_by_counting_back():
    for case, (n_new, n_total, window), _, expected in called("sliding_window_mask"):
        for row, seen in enumerate(expected.tolist()):
            own = n_total - n_new + row
            wanted, place = set(), own
            while place >= 0 and len(wanted) < window:
                wanted.add(place)
                place -= 1
            assert {j for j, allowed in enumerate(seen) if allowed} == wanted, case.label


# ---------------------------------------------------------------------------------------------------------------------
# Sinks, norms, layers


def with_sink(q, K, V, sink, allowed):
    """One query, by the formula; the largest exponent is taken off."""
    scores = [float(q @ k) / math.sqrt(len(q)) for k in K]
    top = max([sink, *(s for s, seen in zip(scores, allowed, strict=True) if seen)])
    powers = [math.exp(s - top) if seen else 0.0 for s, seen in zip(scores, allowed, strict=True)]
    return sum(p * v for p, v in zip(powers, V, strict=True)) / (math.exp(sink - top) + sum(powers))


def test_sink_attention_query_by_query():
    for case, (Q, K, V, sink, *rest), _, expected in called("sink_attention"):
        mask = rest[0] if rest else case.kwargs.get("mask", np.ones((1, 1), bool))
        mask = np.broadcast_to(mask, (*Q.shape[:3], K.shape[2]))
        out = np.empty_like(expected.numpy())
        for b, h, i in np.ndindex(Q.shape[:3]):
            out[b, h, i] = with_sink(Q[b, h, i], K[b, h], V[b, h], float(sink[h]), mask[b, h, i])
        assert near(out, expected), case.label


def test_rms_norm_row_by_row():
    for case, (x, gamma, *rest), _, expected in called("rms_norm"):
        eps = rest[0] if rest else case.kwargs.get("eps", 1e-6)
        for at in np.ndindex(x.shape[:-1]):
            square = sum(float(number) ** 2 for number in x[at]) / x.shape[-1]
            assert near(gamma * x[at] / math.sqrt(square + eps), expected[at]), case.label


def test_swiglu_token_by_token():
    for case, (x, W_gate, W_up, W_down), _, expected in called("swiglu"):
        for at in np.ndindex(x.shape[:-1]):
            gate, up = W_gate.T @ x[at], W_up.T @ x[at]
            opened = [z / (1 + math.exp(-z)) if z > -700 else 0.0 for z in gate]
            assert near(W_down.T @ (opened * up), expected[at]), case.label


# ---------------------------------------------------------------------------------------------------------------------
# The block


def rms(row, gamma):
    return gamma * row / math.sqrt(np.mean(row**2) + 1e-6)


def block_by_hand(x, p, h, g, positions, window=None):
    """Sequence by sequence, row by row, head by head, in NumPy, with the keys that each row may see and no mask."""
    d = p["W_Q"].shape[1] // h
    out = np.empty_like(x)
    for b, sequence in enumerate(x):
        stream = np.array([rms(row, p["gamma_1"]) for row in sequence])
        for i, row in enumerate(sequence):
            heads = []
            for head in range(h):
                group = head * g // h
                q = turned(rms(stream[i] @ p["W_Q"][:, head * d :][:, :d], p["gamma_q"]), positions[i])
                seen = range(0 if window is None else max(0, i - window + 1), i + 1)
                K, V = (stream @ p[name][:, group * d :][:, :d] for name in ("W_K", "W_V"))
                scores = np.array([np.dot(q, turned(rms(K[j], p["gamma_k"]), positions[j])) for j in seen]) / d**0.5
                powers = np.exp(scores - scores.max())
                heads.append(powers @ V[list(seen)] / powers.sum())
            y = row + np.concatenate(heads) @ p["W_O"]
            z = rms(y, p["gamma_2"])
            gate = z @ p["W_gate"]
            out[b, i] = y + (gate / (1 + np.exp(-gate)) * (z @ p["W_up"])) @ p["W_down"]
    return out


def test_modern_block_row_by_row():
    for case, args, _, expected in called("modern_block"):
        assert near(block_by_hand(*args, **case.kwargs), expected), case.label


# ---------------------------------------------------------------------------------------------------------------------
# Selection


def test_select_keys_by_counting_what_scores_higher():
    for case, (Q, K, k), _, expected in called("select_keys"):
        n, m = Q.shape[1], K.shape[1]
        for b, r, j in np.ndindex(expected.shape):
            seen = [math.fsum(Q[b, r] * K[b, other]) for other in range(m - n + r + 1)]
            wanted = j < len(seen) and sum(score > seen[j] for score in seen) < k
            assert bool(expected[b, r, j]) == wanted, case.label


def test_no_score_of_select_keys_is_near_the_last_that_is_read():
    for case, (Q, K, k), _, _ in called("select_keys"):
        n, m = Q.shape[1], K.shape[1]
        for b, r in np.ndindex(Q.shape[:2]):
            scores = np.sort(K[b, : m - n + r + 1] @ Q[b, r])[::-1]
            assert k >= len(scores) or scores[k - 1] - scores[k] > 0.01, case.label


# ---------------------------------------------------------------------------------------------------------------------
# Latents and states


def explicit_latents(x, cache, params, h):
    """K = C W_UK and V = C W_UV are made, and torch's attention is asked."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q, K, V = (
        one.unflatten(-1, (h, -1)).transpose(1, 2)
        for one in (x @ params["W_Q"], C @ params["W_UK"], C @ params["W_UV"])
    )
    return F.scaled_dot_product_attention(Q, K, V).transpose(1, 2).flatten(2) @ params["W_O"], C


def test_latent_step_with_keys_and_values_made():
    for case, args, (out, C) in cases("latent_step"):
        found, extended = explicit_latents(*args)
        assert near(found, out) and near(extended, C), case.label


def test_linear_attention_by_the_sum_over_all_pairs():
    for case, _, given, (out, state) in called("linear_attention"):
        Q, K, V = (given[name] for name in "QKV")
        n = K.shape[2]
        decay = given.get("decay") if given.get("decay") is not None else np.ones(K.shape[:3])
        before = (
            given.get("state") if given.get("state") is not None else np.zeros((*K.shape[:2], K.shape[3], V.shape[3]))
        )
        for b, h, t in np.ndindex(*K.shape[:2], n):
            a = decay[b, h]
            left = np.array([a[s + 1 : t + 1].prod() for s in range(t + 1)])
            S = a[: t + 1].prod() * before[b, h] + (left[:, None] * K[b, h, : t + 1]).T @ V[b, h, : t + 1]
            assert near(Q[b, h, t] @ S, out[b, h, t], 1e-6), case.label
            assert t < n - 1 or near(S, state[b, h], 1e-6)


def test_delta_rule_token_by_token():
    for case, _, given, (out, state) in called("delta_rule"):
        Q, K, V, beta = (given[name] for name in ("Q", "K", "V", "beta"))
        before = (
            given.get("state") if given.get("state") is not None else np.zeros((*K.shape[:2], K.shape[3], V.shape[3]))
        )
        assert np.allclose(np.linalg.norm(K, axis=-1), 1, atol=1e-6), "keys are of length 1"
        for b, h in np.ndindex(K.shape[:2]):
            S = before[b, h]
            for q, k, v, rate, row in zip(Q[b, h], K[b, h], V[b, h], beta[b, h], out[b, h], strict=True):
                S = S + rate * np.outer(k, v - k @ S)
                assert near(q @ S, row, 1e-6), case.label
            assert near(S, state[b, h], 1e-6)
