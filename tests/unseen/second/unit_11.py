import math
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F


# Given by the notebook.
def split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head). Each head is a block of columns."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head), the way back."""
    return X.transpose(1, 2).flatten(2)


def masked_softmax(scores, mask=None):
    """Weights: the softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def repeat_kv(K, n_rep):
    """Unit 5: each key/value head once for each query head of its group."""
    return K.repeat_interleave(n_rep, dim=1)


def composition_score(W_QK, W_OV):
    """Unit 8: how strongly a later head's keys read what an earlier head writes."""
    if not (W_QK.any() and W_OV.any()):
        return W_QK.new_zeros(())
    return (W_QK @ W_OV.T).norm() / (W_QK.norm() * W_OV.norm())


def rotate(x, positions, base=10000.0):
    """Unit 10: rotary positions, columns p and p + d/2 as a pair."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rms_norm(x, gamma, eps=1e-6):
    """Unit 10: each token divided by the root of its mean square, times a gain."""
    return gamma * x / torch.sqrt((x**2).mean(dim=-1, keepdim=True) + eps)


def swiglu(x, W_gate, W_up, W_down):
    """Unit 10: the gated feed-forward layer."""
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def sliding_window_mask(n_new, n_total, window):
    """Unit 10: which keys the last n_new of n_total tokens may see."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (i - window < j) & (j <= i)


# 11.1 -----------------------------------------------------------------------------------------------------------------


def apply_merges__wrong_text_replace(symbols, ranks):
    """Replaces in the joined text, where "a n" is also found at the end of "ba" before "n"."""
    text = " ".join(symbols)
    while True:
        known = [pair for pair in pairwise(text.split()) if pair in ranks]
        if not known:
            return text.split()
        left, right = min(known, key=ranks.get)
        text = text.replace(f"{left} {right}", left + right)


def apply_merges__wrong_first_pairs_only(symbols, ranks):
    """The pairs are collected once, from the first symbols; pairs with a joined symbol are never looked for."""
    result = list(symbols)
    todo = sorted((ranks[pair], pair) for pair in set(zip(symbols, symbols[1:])) if pair in ranks)
    for _, (left, right) in todo:
        i = 0
        while i < len(result) - 1:
            if result[i] == left and result[i + 1] == right:
                result[i : i + 2] = [left + right]
            i += 1
    return result


def apply_merges__wrong_joined_from_right(symbols, ranks):
    """Each pair is joined from right to left: of three equal letters the last two."""
    symbols = list(symbols)
    while len(symbols) > 1:
        best = min(pairwise(symbols), key=lambda pair: ranks.get(pair, math.inf))
        if best not in ranks:
            break
        i = len(symbols) - 2
        while i >= 0:
            if (symbols[i], symbols[i + 1]) == best:
                symbols = symbols[:i] + [best[0] + best[1]] + symbols[i + 2 :]
                i -= 1
            i -= 1
    return symbols


def apply_merges__wrong_text_decides_not_pair(symbols, ranks):
    """Looks up the joined text, so that a + bc is joined where only ab + c is in the table."""
    by_text = {left + right: rank for (left, right), rank in ranks.items()}
    out = symbols[:]
    while True:
        candidates = [(by_text[a + b], a + b) for a, b in pairwise(out) if a + b in by_text]
        if not candidates:
            break
        _, word = min(candidates)
        new, i = [], 0
        while i < len(out):
            if i + 1 < len(out) and out[i] + out[i + 1] == word:
                new.append(word)
                i += 2
            else:
                new.append(out[i])
                i += 1
        out = new
    return out


def apply_merges__wrong_leftmost_pair_first(symbols, ranks):
    """Joins the leftmost pair that is in the table, whatever its rank."""

    def step(symbols):
        for i, pair in enumerate(pairwise(symbols)):
            if pair in ranks:
                return step(symbols[:i] + ["".join(pair)] + symbols[i + 2 :])
        return symbols

    return step(list(symbols))


def apply_merges__right_once_through_table(symbols, ranks):
    """Goes once through the table in the order of ranks: what a join makes possible always comes later."""
    current = list(symbols)
    for left, right in sorted(ranks, key=ranks.__getitem__):
        if left not in current or right not in current:
            continue
        stack = []
        for symbol in current:
            if stack and (stack[-1], symbol) == (left, right):
                stack[-1] = left + right
            else:
                stack.append(symbol)
        current = stack
    return current


# 11.2 -----------------------------------------------------------------------------------------------------------------


def from_pairs__wrong_rows_viewed_as_columns(W, n_heads):
    """The well-known recipe for a matrix that is stored transposed; here it cuts up the rows."""
    d_model, width = W.shape
    half = width // n_heads // 2
    return W.reshape(n_heads, half, 2, d_model).transpose(1, 2).reshape(d_model, width)


def from_pairs__wrong_overwrites_while_reading(W, n_heads):
    """Moves columns inside of one copy, so that later moves read columns that are already overwritten."""
    result = W.clone()
    d_head = W.shape[1] // n_heads
    half = d_head // 2
    for head in range(n_heads):
        start = head * d_head
        for i in range(half):
            result[:, start + i] = result[:, start + 2 * i].clone()
            result[:, start + half + i] = result[:, start + 2 * i + 1].clone()
    return result


def from_pairs__wrong_second_members_first(W, n_heads):
    """The odd columns come first in each head, then the even ones."""
    heads = W.unflatten(1, (n_heads, -1))
    return torch.cat([heads[..., 1::2], heads[..., 0::2]], dim=-1).flatten(1)


def from_pairs__wrong_across_all_heads(W, n_heads):
    """All even columns of all heads come first: columns change to another head."""
    even = torch.arange(0, W.shape[1], 2)
    return torch.index_select(W, 1, torch.cat([even, even + 1]))


def from_pairs__wrong_from_halves_to_pairs(W, n_heads):
    """This is the way back: column i goes to 2i and column i + d/2 to 2i + 1."""
    d_model, width = W.shape
    d_head = width // n_heads
    pieces = []
    for head in W.split(d_head, dim=1):
        first, second = head[:, : d_head // 2], head[:, d_head // 2 :]
        pieces.append(torch.stack([first, second], dim=2).reshape(d_model, d_head))
    return torch.cat(pieces, dim=1)


def from_pairs__right_sorted_by_three_keys(W, n_heads):
    """The new order sorts the columns by head, then by member, then by pair."""
    d_head = W.shape[1] // n_heads
    order = sorted(range(W.shape[1]), key=lambda c: (c // d_head, c % 2, c))
    return W[:, order]


# 11.3 -----------------------------------------------------------------------------------------------------------------


def llama_logits__wrong_rotated_before_split(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Queries and keys are rotated over their whole width, before they are split into heads."""
    n = tokens.shape[1]
    positions = torch.arange(n)
    mask = sliding_window_mask(n, n, n)
    x = params["W_E"][tokens]
    for p in params["blocks"]:
        z = rms_norm(x, p["gamma_1"], eps)
        Q = split_heads(rotate(z @ p["W_Q"], positions, base), n_heads)
        K = split_heads(rotate(z @ p["W_K"], positions, base), n_kv_heads)
        V = split_heads(z @ p["W_V"], n_kv_heads)
        K, V = repeat_kv(K, n_heads // n_kv_heads), repeat_kv(V, n_heads // n_kv_heads)
        weights = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
        x = x + merge_heads(weights @ V) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T


def llama_logits__wrong_embedding_scaled(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The embedding is multiplied by the root of d_model, as in the first transformer and in Gemma."""
    E = params["W_E"]
    x = F.embedding(tokens, E) * E.shape[1] ** 0.5
    n = tokens.shape[1]

    def attention(z, p):
        q = rotate(split_heads(z @ p["W_Q"], n_heads), torch.arange(n), base)
        k = rotate(split_heads(z @ p["W_K"], n_kv_heads), torch.arange(n), base)
        v = split_heads(z @ p["W_V"], n_kv_heads)
        q = q.unflatten(1, (n_kv_heads, -1))
        A = masked_softmax(q @ k[:, :, None].mT / q.shape[-1] ** 0.5, sliding_window_mask(n, n, n))
        return merge_heads((A @ v[:, :, None]).flatten(1, 2)) @ p["W_O"]

    for p in params["blocks"]:
        x = x + attention(rms_norm(x, p["gamma_1"], eps), p)
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ E.mT


def llama_logits__wrong_gains_swapped(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """gamma_2 goes to the norm before the attention and gamma_1 to the one before the feed-forward layer."""
    B, n = tokens.shape
    stream = params["W_E"][tokens]
    rep = n_heads // n_kv_heads
    for block in params["blocks"]:
        W_Q, W_K, W_V, W_O, *ffn, before_ffn, before_attention = (
            block[k] for k in ("W_Q", "W_K", "W_V", "W_O", "W_gate", "W_up", "W_down", "gamma_1", "gamma_2")
        )
        z = rms_norm(stream, before_attention, eps)
        Q, K, V = split_heads(z @ W_Q, n_heads), split_heads(z @ W_K, n_kv_heads), split_heads(z @ W_V, n_kv_heads)
        Q, K = (rotate(one, torch.arange(n), base) for one in (Q, K))
        scores = Q @ repeat_kv(K, rep).transpose(-2, -1) * Q.shape[-1] ** -0.5
        heads = masked_softmax(scores, sliding_window_mask(n, n, n)) @ repeat_kv(V, rep)
        stream = stream + merge_heads(heads) @ W_O
        stream = stream + swiglu(rms_norm(stream, before_ffn, eps), *ffn)
    return rms_norm(stream, params["gamma_f"], eps) @ params["W_E"].T


def llama_logits__wrong_weak_additive_mask(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Later tokens get -100 added to their scores; large scores (±1e4 are allowed) outweigh that."""
    n = tokens.shape[1]
    bias = -100.0 * torch.ones(n, n, dtype=params["W_E"].dtype).triu(1)
    place = torch.arange(n)
    x = params["W_E"][tokens]
    for p in params["blocks"]:
        z = rms_norm(x, p["gamma_1"], eps)
        q = rotate(split_heads(z @ p["W_Q"], n_heads), place, base)
        k = repeat_kv(rotate(split_heads(z @ p["W_K"], n_kv_heads), place, base), n_heads // n_kv_heads)
        v = repeat_kv(split_heads(z @ p["W_V"], n_kv_heads), n_heads // n_kv_heads)
        A = torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(k.shape[-1]) + bias, dim=-1)
        x = x + merge_heads(torch.einsum("bhij,bhjd->bhid", A, v)) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return torch.einsum("bnd,vd->bnv", rms_norm(x, params["gamma_f"], eps), params["W_E"])


def llama_logits__wrong_final_norm_in_loop(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The final norm stands inside of the loop and is applied after every block."""
    n, group = tokens.shape[1], n_heads // n_kv_heads
    positions, causal = torch.arange(n), torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens]
    for p in params["blocks"]:
        z = rms_norm(x, p["gamma_1"], eps)
        Q = rotate(split_heads(z @ p["W_Q"], n_heads), positions, base)
        K = rotate(split_heads(z @ p["W_K"], n_kv_heads), positions, base)
        V = split_heads(z @ p["W_V"], n_kv_heads)
        A = masked_softmax(Q @ repeat_kv(K, group).mT / Q.shape[-1] ** 0.5, causal)
        x = x + merge_heads(A @ repeat_kv(V, group)) @ p["W_O"]
        z = rms_norm(x, p["gamma_2"], eps)
        x = x + swiglu(z, p["W_gate"], p["W_up"], p["W_down"])
        x = rms_norm(x, params["gamma_f"], eps)
    return x @ params["W_E"].T


def llama_logits__right_recursive_head_loop(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The blocks are a recursion, and each head adds its part of the attention to the stream by itself."""
    n = tokens.shape[1]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    positions = torch.arange(n)

    def through(x, blocks):
        if not blocks:
            return rms_norm(x, params["gamma_f"], eps)
        p, *rest = blocks
        z = rms_norm(x, p["gamma_1"], eps)
        keys = [rotate(k, positions, base) for k in (z @ p["W_K"]).chunk(n_kv_heads, dim=-1)]
        values = (z @ p["W_V"]).chunk(n_kv_heads, dim=-1)
        queries = (z @ p["W_Q"]).chunk(n_heads, dim=-1)
        for head, (q, W_O) in enumerate(zip(queries, p["W_O"].chunk(n_heads, dim=0))):
            shared = head * n_kv_heads // n_heads
            scores = rotate(q, positions, base) @ keys[shared].mT / math.sqrt(q.shape[-1])
            x = x + scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ values[shared] @ W_O
        return through(x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"]), rest)

    return F.linear(through(params["W_E"][tokens], params["blocks"]), params["W_E"])


# 11.4 -----------------------------------------------------------------------------------------------------------------


def llama_step__wrong_no_mask_behind_cache(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """A mask is used for the first chunk only: behind a cache, new tokens see later new ones."""
    n, t = tokens.shape[1], caches[0][0].shape[2]
    mask = sliding_window_mask(n, n, n) if t == 0 else None
    positions = torch.arange(t, t + n)
    x, longer = params["W_E"][tokens], []
    for p, (K, V) in zip(params["blocks"], caches):
        z = rms_norm(x, p["gamma_1"], eps)
        Q = rotate(split_heads(z @ p["W_Q"], n_heads), positions, base)
        K = torch.cat([K, rotate(split_heads(z @ p["W_K"], n_kv_heads), positions, base)], dim=2)
        V = torch.cat([V, split_heads(z @ p["W_V"], n_kv_heads)], dim=2)
        longer.append((K, V))
        K, V = repeat_kv(K, n_heads // n_kv_heads), repeat_kv(V, n_heads // n_kv_heads)
        A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
        x = x + merge_heads(A @ V) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T, longer


def llama_step__wrong_t_from_head_axis(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The number of cached tokens is read off the axis of heads, so new tokens stand at wrong positions."""
    first_keys, _ = caches[0]
    t = first_keys.shape[1]
    n_new = tokens.shape[-1]
    places = torch.arange(t, t + n_new)
    x = F.embedding(tokens, params["W_E"])
    new_caches = []
    for layer, p in enumerate(params["blocks"]):
        z = rms_norm(x, p["gamma_1"], eps)
        q, k, v = (
            split_heads(z @ p[name], heads)
            for name, heads in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads))
        )
        k = torch.cat([caches[layer][0], rotate(k, places, base)], dim=-2)
        v = torch.cat([caches[layer][1], v], dim=-2)
        new_caches.append((k, v))
        mask = sliding_window_mask(n_new, k.shape[2], k.shape[2])
        scores = rotate(q, places, base) @ repeat_kv(k, n_heads // n_kv_heads).mT / q.shape[-1] ** 0.5
        x = x + merge_heads(masked_softmax(scores, mask) @ repeat_kv(v, n_heads // n_kv_heads)) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T, new_caches


def llama_step__wrong_window_of_chunk(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The mask gets the number of new tokens as its window, so most of the cache is out of sight."""
    B, n_new = tokens.shape
    t = caches[0][0].size(2)
    n_total = t + n_new
    mask = sliding_window_mask(n_new, n_total, n_new)
    x = params["W_E"][tokens]
    pairs = []
    for p, cache in zip(params["blocks"], caches, strict=True):

        def project(name, heads):
            return split_heads(rms_norm(x, p["gamma_1"], eps) @ p[name], heads)

        where = torch.arange(n_total)[t:]
        Q = rotate(project("W_Q", n_heads), where, base)
        K = torch.cat((cache[0], rotate(project("W_K", n_kv_heads), where, base)), 2)
        V = torch.cat((cache[1], project("W_V", n_kv_heads)), 2)
        pairs += [(K, V)]
        Q = Q.unflatten(1, (n_kv_heads, n_heads // n_kv_heads))
        A = masked_softmax(torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(K.shape[-1]), mask)
        x = x + merge_heads(torch.einsum("bgrij,bgjd->bgrid", A, V).flatten(1, 2)) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].mT, pairs


def llama_step__wrong_list_changed_in_place(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The pairs of the list that was handed in are replaced, and the same list comes back."""
    n = tokens.shape[1]
    t = caches[0][0].shape[2]
    rep = n_heads // n_kv_heads
    x = params["W_E"][tokens]
    for layer in range(len(params["blocks"])):
        p = params["blocks"][layer]
        z = rms_norm(x, p["gamma_1"], eps)
        Q = rotate(split_heads(z @ p["W_Q"], n_heads), torch.arange(t, t + n), base)
        K = rotate(split_heads(z @ p["W_K"], n_kv_heads), torch.arange(t, t + n), base)
        V = split_heads(z @ p["W_V"], n_kv_heads)
        caches[layer] = (torch.cat([caches[layer][0], K], dim=2), torch.cat([caches[layer][1], V], dim=2))
        K, V = (repeat_kv(one, rep) for one in caches[layer])
        scores = Q @ K.mT / math.sqrt(Q.shape[-1])
        x = x + merge_heads(masked_softmax(scores, sliding_window_mask(n, t + n, t + n)) @ V) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    logits = rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T
    return logits, caches


def llama_step__wrong_cached_keys_turned_again(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """All keys, the cached ones too, are rotated in each step: the cached ones have been rotated before."""
    x = params["W_E"][tokens]
    n_new = tokens.shape[1]
    result = []
    for p, (old_K, old_V) in zip(params["blocks"], caches):
        n_total = old_K.shape[2] + n_new
        z = rms_norm(x, p["gamma_1"], eps)
        keys = torch.cat([old_K, split_heads(z @ p["W_K"], n_kv_heads)], dim=2)
        keys = rotate(keys, torch.arange(n_total), base)
        values = torch.cat([old_V, split_heads(z @ p["W_V"], n_kv_heads)], dim=2)
        result.append((keys, values))
        queries = rotate(split_heads(z @ p["W_Q"], n_heads), torch.arange(n_total - n_new, n_total), base)
        scores = queries @ repeat_kv(keys, n_heads // n_kv_heads).mT / math.sqrt(queries.shape[-1])
        weights = masked_softmax(scores, sliding_window_mask(n_new, n_total, n_total))
        y = x + merge_heads(weights @ repeat_kv(values, n_heads // n_kv_heads)) @ p["W_O"]
        x = y + swiglu(rms_norm(y, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T, result


def llama_step__right_cached_part_apart(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Scores for cached and new keys are made apart and share one softmax; only the new part needs a mask."""
    n = tokens.shape[1]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    x, kept = params["W_E"][tokens], []
    for p, (old_K, old_V) in zip(params["blocks"], caches):
        t = old_K.shape[2]
        place = torch.arange(n) + t
        z = rms_norm(x, p["gamma_1"], eps)
        new_K = rotate(split_heads(z @ p["W_K"], n_kv_heads), place, base)
        new_V = split_heads(z @ p["W_V"], n_kv_heads)
        Q = rotate(split_heads(z @ p["W_Q"], n_heads), place, base) / math.sqrt(new_K.shape[-1])
        Q = Q.unflatten(1, (n_kv_heads, -1))
        to_old = torch.einsum("bgrid,bgjd->bgrij", Q, old_K)
        to_new = torch.einsum("bgrid,bgjd->bgrij", Q, new_K).masked_fill(future, -torch.inf)
        A = torch.cat([to_old, to_new], dim=-1).softmax(dim=-1)
        heads = torch.einsum("bgrij,bgjd->bgrid", A[..., :t], old_V)
        heads = heads + torch.einsum("bgrij,bgjd->bgrid", A[..., t:], new_V)
        kept.append((torch.cat([old_K, new_K], dim=2), torch.cat([old_V, new_V], dim=2)))
        x = x + merge_heads(heads.flatten(1, 2)) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return F.linear(rms_norm(x, params["gamma_f"], eps), params["W_E"]), kept


# 11.5 -----------------------------------------------------------------------------------------------------------------


def window_and_sinks__wrong_or_binds_last(n_new, n_total, window, n_sinks):
    """Without brackets the comparison j <= i belongs to the window alone: future sinks are seen."""
    i = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    j = torch.arange(n_total)
    return (j <= i) & (i - window < j) | (j < n_sinks).expand(n_new, n_total)


def window_and_sinks__wrong_one_sink_more(n_new, n_total, window, n_sinks):
    """Column n_sinks counts as a sink as well."""
    rows = []
    for i in range(n_total - n_new, n_total):
        rows.append([j <= i and (j > i - window or j <= n_sinks) for j in range(n_total)])
    return torch.tensor(rows, dtype=torch.bool)


def window_and_sinks__wrong_sinks_causal_by_row(n_new, n_total, window, n_sinks):
    """For the sinks, row r is taken for position r, without the tokens in the cache."""
    mask = sliding_window_mask(n_new, n_total, window)
    triangle = torch.ones(n_new, n_total, dtype=torch.bool).tril()
    triangle[:, n_sinks:] = False
    return mask | triangle


def window_and_sinks__wrong_sinks_taken_from_window(n_new, n_total, window, n_sinks):
    """The sinks take their places out of the window, so that a row sees `window` tokens in all."""
    i = torch.arange(n_new)[:, None] + n_total - n_new
    j = torch.arange(n_total)[None, :]
    near = i - j < max(window - n_sinks, 1)
    return ((j < n_sinks) | near) & (j <= i)


def window_and_sinks__wrong_longer_window(n_new, n_total, window, n_sinks):
    """The window is made longer by n_sinks, and no first token stays."""
    return sliding_window_mask(n_new, n_total, window + n_sinks)


def window_and_sinks__right_two_pieces(n_new, n_total, window, n_sinks):
    """Left the columns of the sinks, a causal triangle; right the other columns of the window."""
    sinks = min(n_sinks, n_total)
    left = torch.ones(n_new, sinks, dtype=torch.bool).tril(n_total - n_new)
    return torch.cat([left, sliding_window_mask(n_new, n_total, window)[:, sinks:]], dim=1)


# 11.6 -----------------------------------------------------------------------------------------------------------------


def eigenvalue_copying_score__wrong_eps_in_denominator(W_E, W_V, W_O, W_U):
    """A small number is added to the denominator, which is not small beside tiny weights."""
    values = torch.linalg.eigvals(W_O @ W_U @ (W_E @ W_V))
    return values.real.sum() / (values.abs().sum() + 1e-8)


def eigenvalue_copying_score__wrong_zero_head_is_nan(W_E, W_V, W_O, W_U):
    """Only a head that writes nothing is caught; a zero embedding or unembedding gives NaN."""
    if not W_V.any() or not W_O.any():
        return torch.zeros((), dtype=W_E.dtype)
    circle = (W_U @ W_E) @ (W_V @ W_O)
    eigenvalues = torch.linalg.eigvals(circle)
    return torch.sum(eigenvalues.real) / torch.sum(eigenvalues.abs())


def eigenvalue_copying_score__wrong_unembedding_centred(W_E, W_V, W_O, W_U):
    """The mean logit is taken off first, which changes the circuit and its eigenvalues."""
    W_U = W_U - W_U.mean(dim=1, keepdim=True)
    small = torch.linalg.multi_dot([W_O, W_U, W_E, W_V])
    z = torch.linalg.eigvals(small)
    size = z.abs().sum()
    return z.real.sum() / size if size > 0 else size


def eigenvalue_copying_score__wrong_diagonal_entries(W_E, W_V, W_O, W_U):
    """The diagonal of the small product stands for its eigenvalues."""
    reads = W_E @ W_V
    writes = W_O @ W_U
    diagonal = torch.einsum("it,ti->i", writes, reads)
    total = diagonal.abs().sum()
    if total == 0:
        return total
    return diagonal.sum() / total


def eigenvalue_copying_score__wrong_size_of_the_sum(W_E, W_V, W_O, W_U):
    """The absolute value of the sum stands above, so a head that lowers what it reads seems to copy."""
    A, B = W_E @ W_V, W_O @ W_U
    eigenvalues = torch.linalg.eig(B @ A).eigenvalues
    bottom = eigenvalues.abs().sum()
    return torch.where(bottom > 0, eigenvalues.sum().abs() / bottom, torch.zeros_like(bottom)).nan_to_num(0.0)


def eigenvalue_copying_score__right_trace_above(W_E, W_V, W_O, W_U):
    """The sum of the eigenvalues is the trace; only the denominator needs them one by one."""
    writes, reads = W_O @ W_U, W_E @ W_V
    sizes = torch.linalg.eigvals(writes @ reads).abs().sum()
    if not sizes > 0:
        return W_E.new_zeros(())
    return (writes * reads.T).sum() / sizes


# 11.7 -----------------------------------------------------------------------------------------------------------------


def find_source__wrong_gain_on_candidate_values(params, reader, n_heads, n_kv_heads):
    """The candidate's W_V gets the gain of its own layer, though W_OV is asked for as it is in params."""
    layer, head = reader
    group = n_heads // n_kv_heads
    p = params["blocks"][layer]
    d_head = p["W_Q"].shape[1] // n_heads
    W_Q = p["gamma_1"][:, None] * p["W_Q"][:, head * d_head : (head + 1) * d_head]
    kv = head // group
    W_K = p["gamma_1"][:, None] * p["W_K"][:, kv * d_head : (kv + 1) * d_head]
    best, found = -1.0, None
    for i in range(layer):
        q = params["blocks"][i]
        for j in range(n_heads):
            values = q["gamma_1"][:, None] * q["W_V"][:, (j // group) * d_head : (j // group + 1) * d_head]
            W_OV = values @ q["W_O"][j * d_head : (j + 1) * d_head]
            score = float(composition_score(W_Q @ W_K.T, W_OV))
            if score > best:
                best, found = score, (i, j)
    return found


def find_source__wrong_only_layer_before(params, reader, n_heads, n_kv_heads):
    """Only the heads of the layer just before the reader's are candidates."""
    layer, head = reader
    rep = n_heads // n_kv_heads
    p, before = params["blocks"][layer], params["blocks"][layer - 1]
    gain = p["gamma_1"].unsqueeze(1)
    W_Q = (gain * p["W_Q"]).chunk(n_heads, dim=1)[head]
    W_K = (gain * p["W_K"]).chunk(n_kv_heads, dim=1)[head // rep]
    values = before["W_V"].chunk(n_kv_heads, dim=1)
    outs = before["W_O"].chunk(n_heads, dim=0)
    scores = [composition_score(W_Q @ W_K.T, values[j // rep] @ outs[j]) for j in range(n_heads)]
    return layer - 1, int(torch.stack(scores).argmax())


def find_source__wrong_gain_of_second_norm(params, reader, n_heads, n_kv_heads):
    """The gain is that of the norm before the feed-forward layer, gamma_2."""

    def circuit_qk(layer, head):
        p = params["blocks"][layer]
        G = torch.diag(p["gamma_2"])
        W_Q = p["W_Q"].unflatten(1, (n_heads, -1))[:, head]
        W_K = p["W_K"].unflatten(1, (n_kv_heads, -1))[:, head * n_kv_heads // n_heads]
        return G @ W_Q @ W_K.T @ G

    def circuit_ov(layer, head):
        p = params["blocks"][layer]
        W_V = p["W_V"].unflatten(1, (n_kv_heads, -1))[:, head * n_kv_heads // n_heads]
        return W_V @ p["W_O"].unflatten(0, (n_heads, -1))[head]

    W_QK = circuit_qk(*reader)
    candidates = [(layer, head) for layer in range(reader[0]) for head in range(n_heads)]
    return max(candidates, key=lambda one: float(composition_score(W_QK, circuit_ov(*one))))


def find_source__wrong_groups_in_turn(params, reader, n_heads, n_kv_heads):
    """Key/value heads are taken in turn, head % g, and not by neighbours."""
    blocks = params["blocks"]
    width = blocks[0]["W_Q"].shape[1] // n_heads

    def piece(W, index, dim):
        return W.narrow(dim, index * width, width)

    at = blocks[reader[0]]
    gamma = at["gamma_1"][:, None]
    reads = gamma * piece(at["W_Q"], reader[1], 1) @ (gamma * piece(at["W_K"], reader[1] % n_kv_heads, 1)).T
    scores = torch.zeros(reader[0], n_heads)
    for layer in range(reader[0]):
        for head in range(n_heads):
            W_V = piece(blocks[layer]["W_V"], head % n_kv_heads, 1)
            scores[layer, head] = composition_score(reads, W_V @ piece(blocks[layer]["W_O"], head, 0))
    place = int(scores.argmax())
    return place // n_heads, place % n_heads


def find_source__wrong_not_divided_by_sizes(params, reader, n_heads, n_kv_heads):
    """The size of the product decides, without the division by the sizes of both circuits: loud heads win."""
    layer, head = reader
    rep = n_heads // n_kv_heads
    p = params["blocks"][layer]
    Q = torch.einsum("m,mhd->hmd", p["gamma_1"], p["W_Q"].unflatten(1, (n_heads, -1)))[head]
    K = torch.einsum("m,mhd->hmd", p["gamma_1"], p["W_K"].unflatten(1, (n_kv_heads, -1)))[head // rep]
    sizes = []
    for q in params["blocks"][:layer]:
        V = q["W_V"].unflatten(1, (n_kv_heads, -1)).repeat_interleave(rep, dim=1)
        W_OV = torch.einsum("mhd,hdk->hmk", V, q["W_O"].unflatten(0, (n_heads, -1)))
        sizes.append(torch.einsum("ad,kd,hmk->ham", Q, K, W_OV).flatten(1).norm(dim=1))
    winner = torch.cat(sizes).argmax().item()
    return divmod(winner, n_heads)


def find_source__right_small_triangles(params, reader, n_heads, n_kv_heads):
    """All norms are those of matrices of a head's width: Q and V are replaced by the triangles of their QR."""
    layer, head = reader
    group_of = [i * n_kv_heads // n_heads for i in range(n_heads)]
    p = params["blocks"][layer]
    read = p["gamma_1"][:, None]
    Q = read * p["W_Q"].chunk(n_heads, dim=1)[head]
    K = read * p["W_K"].chunk(n_kv_heads, dim=1)[group_of[head]]
    reading = torch.linalg.qr(Q, mode="r").R @ K.T  # has the size of Q K^T, and reads the same directions
    table = torch.zeros(layer, n_heads, dtype=torch.float64)
    for i, block in enumerate(params["blocks"][:layer]):
        triangles = [torch.linalg.qr(V, mode="r").R for V in block["W_V"].chunk(n_kv_heads, dim=1)]
        for j, W_O in enumerate(block["W_O"].chunk(n_heads, dim=0)):
            writing = triangles[group_of[j]] @ W_O
            size = reading.norm() * writing.norm()
            if size > 0:
                table[i, j] = (reading @ writing.T).norm() / size
    best = max(range(table.numel()), key=table.flatten().tolist().__getitem__)
    return best // n_heads, best % n_heads


# 11.8 -----------------------------------------------------------------------------------------------------------------


def cut_path__wrong_rows_of_group(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The rows of W_O are counted by key/value heads, so the note is sent through another head's rows."""
    n, rep = tokens.shape[1], n_heads // n_kv_heads
    positions, mask = torch.arange(n), sliding_window_mask(n, n, n)
    x, note = params["W_E"][tokens], None
    for layer, p in enumerate(params["blocks"]):
        z = dict.fromkeys(("query", "key", "value"), rms_norm(x, p["gamma_1"], eps))
        if note is not None:
            z[into] = rms_norm(x - note, p["gamma_1"], eps)
        Q = rotate(split_heads(z["query"] @ p["W_Q"], n_heads), positions, base)
        K = rotate(split_heads(z["key"] @ p["W_K"], n_kv_heads), positions, base)
        V = repeat_kv(split_heads(z["value"] @ p["W_V"], n_kv_heads), rep)
        heads = masked_softmax(Q @ repeat_kv(K, rep).mT / math.sqrt(Q.shape[-1]), mask) @ V
        if layer == source[0]:
            d_head, kv = V.shape[-1], source[1] // rep
            note = heads[:, source[1]] @ p["W_O"][kv * d_head : (kv + 1) * d_head]
        x = x + merge_heads(heads) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T


def cut_path__wrong_stream_of_silenced_model(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The blind reader gets the stream of a second run without the head: what followed from it is gone, too."""
    n = tokens.shape[1]

    def attend(p, q, k, v):
        Q = rotate(split_heads(q @ p["W_Q"], n_heads), torch.arange(n), base)
        K = rotate(split_heads(k @ p["W_K"], n_kv_heads), torch.arange(n), base)
        V = split_heads(v @ p["W_V"], n_kv_heads)
        K, V = repeat_kv(K, n_heads // n_kv_heads), repeat_kv(V, n_heads // n_kv_heads)
        return masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, sliding_window_mask(n, n, n)) @ V

    def feed(p, x):
        return x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])

    streams, x = [], params["W_E"][tokens]
    for layer, p in enumerate(params["blocks"]):
        streams.append(x)
        z = rms_norm(x, p["gamma_1"], eps)
        heads = attend(p, z, z, z)
        if layer == source[0]:
            heads = heads * (torch.arange(n_heads) != source[1]).to(heads.dtype)[:, None, None]
        x = feed(p, x + merge_heads(heads) @ p["W_O"])

    x = params["W_E"][tokens]
    for layer, p in enumerate(params["blocks"]):
        read = {name: rms_norm(x, p["gamma_1"], eps) for name in ("query", "key", "value")}
        if layer > source[0]:
            read[into] = rms_norm(streams[layer], p["gamma_1"], eps)
        x = feed(p, x + merge_heads(attend(p, read["query"], read["key"], read["value"])) @ p["W_O"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T


def cut_path__wrong_next_layer_still_sees(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The layer right after the source's is left out; only the ones after that are blind."""
    source_layer, source_head = source
    n = tokens.shape[1]
    group = n_heads // n_kv_heads
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    x = params["W_E"][tokens]
    note = torch.zeros_like(x)
    for layer in range(len(params["blocks"])):
        p = params["blocks"][layer]
        blind = layer > source_layer + 1
        xq = x - note if blind and into == "query" else x
        xk = x - note if blind and into == "key" else x
        xv = x - note if blind and into == "value" else x
        Q, K, V = (
            split_heads(rms_norm(one, p["gamma_1"], eps) @ p[W], h)
            for one, W, h in ((xq, "W_Q", n_heads), (xk, "W_K", n_kv_heads), (xv, "W_V", n_kv_heads))
        )
        Q, K = rotate(Q, torch.arange(n), base), rotate(K, torch.arange(n), base)
        scores = Q @ repeat_kv(K, group).mT / math.sqrt(Q.shape[-1])
        heads = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ repeat_kv(V, group)
        parts = torch.einsum("bhnd,hdm->bhnm", heads, p["W_O"].unflatten(0, (n_heads, -1)))
        if layer == source_layer:
            note = parts[:, source_head]
        x = x + parts.sum(dim=1)
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T


def cut_path__wrong_values_blind_with_keys(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Keys and values are made from the same input, so cutting the keys blinds the values, too, and the reverse."""
    n = tokens.shape[1]
    place, mask = torch.arange(n), sliding_window_mask(n, n, n)
    rep = n_heads // n_kv_heads
    x, note = F.embedding(tokens, params["W_E"]), 0.0
    for layer, p in enumerate(params["blocks"]):
        seen = rms_norm(x, p["gamma_1"], eps)
        blind = rms_norm(x - note, p["gamma_1"], eps) if layer > source[0] else seen
        for_q, for_kv = (blind, seen) if into == "query" else (seen, blind)
        Q = rotate(split_heads(for_q @ p["W_Q"], n_heads), place, base)
        kv = for_kv @ torch.cat([p["W_K"], p["W_V"]], dim=1)
        K, V = (split_heads(half, n_kv_heads) for half in kv.chunk(2, dim=-1))
        A = masked_softmax(Q @ repeat_kv(rotate(K, place, base), rep).mT / math.sqrt(Q.shape[-1]), mask)
        heads = A @ repeat_kv(V, rep)
        if layer == source[0]:
            note = heads[:, source[1]] @ p["W_O"].chunk(n_heads)[source[1]]
        x = x + merge_heads(heads) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].T


def cut_path__wrong_mean_note_put_in(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The note is replaced by its mean over the positions, another kind of ablation, and not taken out."""
    n = tokens.shape[1]
    x = params["W_E"][tokens]
    removed = torch.zeros_like(x)
    names = {"query": "W_Q", "key": "W_K", "value": "W_V"}
    for layer, p in enumerate(params["blocks"]):
        made = {}
        for reader, name in names.items():
            stream = x - removed if reader == into else x
            heads = n_heads if reader == "query" else n_kv_heads
            made[reader] = split_heads(rms_norm(stream, p["gamma_1"], eps) @ p[name], heads)
            if reader != "value":
                made[reader] = rotate(made[reader], torch.arange(n), base)
            if reader != "query":
                made[reader] = repeat_kv(made[reader], n_heads // n_kv_heads)
        scores = made["query"] @ made["key"].mT / made["key"].shape[-1] ** 0.5
        mixed = masked_softmax(scores, sliding_window_mask(n, n, n)) @ made["value"]
        if layer == source[0]:
            W_O = p["W_O"].view(n_heads, -1, x.shape[-1])
            note = mixed[:, source[1]] @ W_O[source[1]]
            removed = note - note.mean(dim=1, keepdim=True)
        x = x + merge_heads(mixed) @ p["W_O"]
        x = x + swiglu(rms_norm(x, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return rms_norm(x, params["gamma_f"], eps) @ params["W_E"].mT


def cut_path__right_all_other_heads_silenced(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The note is what the layer's attention writes with all other heads set to zero."""
    n, rep = tokens.shape[1], n_heads // n_kv_heads
    place, mask = torch.arange(n), sliding_window_mask(n, n, n)
    roles = {"query": ("W_Q", n_heads), "key": ("W_K", n_kv_heads), "value": ("W_V", n_kv_heads)}

    def block(x, p, note):
        def made(role):
            stream = x - note if role == into else x
            name, count = roles[role]
            return split_heads(rms_norm(stream, p["gamma_1"], eps) @ p[name], count)

        scores = rotate(made("query"), place, base) @ repeat_kv(rotate(made("key"), place, base), rep).mT
        A = masked_softmax(scores / math.sqrt(p["W_Q"].shape[1] // n_heads), mask)
        return A @ repeat_kv(made("value"), rep)

    x = params["W_E"][tokens]
    note = 0.0 * x
    for layer, p in enumerate(params["blocks"]):
        heads = block(x, p, note)
        if layer == source[0]:
            alone = F.one_hot(torch.tensor(source[1]), n_heads).to(x.dtype)
            note = merge_heads(heads * alone[:, None, None]) @ p["W_O"]
        y = x + merge_heads(heads) @ p["W_O"]
        x = y + swiglu(rms_norm(y, p["gamma_2"], eps), p["W_gate"], p["W_up"], p["W_down"])
    return F.linear(rms_norm(x, params["gamma_f"], eps), params["W_E"])


# 11.9 -----------------------------------------------------------------------------------------------------------------


def speculative_step__wrong_target_without_refused(draft, p_draft, p_target, generator):
    """After a refusal the target's row is used with the refused token set to zero, and not what is missing."""
    k = draft.shape[0]
    u = torch.rand(k, generator=generator)
    out = []
    for i in range(k):
        token = int(draft[i])
        if u[i] * p_draft[i, token] < p_target[i, token]:
            out.append(token)
            continue
        rest = p_target[i].clone()
        rest[token] = 0
        out.append(int(torch.multinomial(rest, 1, generator=generator)))
        return out
    out.append(int(torch.multinomial(p_target[k], 1, generator=generator)))
    return out


def speculative_step__wrong_goes_on_after_refusal(draft, p_draft, p_target, generator):
    """All tokens that pass their own test stay, also those behind the first refused one."""
    k = len(draft)
    at = torch.arange(k)
    u = torch.rand(k, generator=generator)
    passes = u * p_draft[at, draft] < p_target[at, draft]
    kept = draft[passes].tolist()
    if passes.all():
        p = p_target[-1]
    else:
        i = int((~passes).nonzero()[0])
        p = (p_target[i] - p_draft[i]).clamp(min=0)
    return kept + [int(torch.multinomial(p, 1, generator=generator))]


def speculative_step__wrong_joint_ratio(draft, p_draft, p_target, generator):
    """u is compared with the ratio of the whole draft so far, a product, in place of the token's own."""
    k, ratio, kept = draft.numel(), 1.0, []
    u = torch.rand(k, generator=generator).tolist()
    for i, token in enumerate(draft.tolist()):
        ratio *= float(p_target[i, token] / p_draft[i, token])
        if u[i] >= ratio:
            missing = torch.relu(p_target[i] - p_draft[i])
            if missing.sum() == 0:
                missing = p_target[i]
            kept.append(torch.multinomial(missing, 1, generator=generator).item())
            break
        kept.append(token)
    else:
        kept.append(torch.multinomial(p_target[k], 1, generator=generator).item())
    return kept


def speculative_step__wrong_last_row_of_draft(draft, p_draft, p_target, generator):
    """If all stay, the token more is drawn from the row of the last drafted token, not from the one after it."""
    u = torch.rand(len(draft), generator=generator)
    tokens = []
    for token, chance, row_d, row_t in zip(draft.tolist(), u, p_draft, p_target):
        p = row_t
        if not chance * row_d[token] < row_t[token]:
            p = (row_t - row_d).clamp_min(0)
            break
        tokens.append(token)
    tokens.append(int(torch.multinomial(p, 1, generator=generator)[0]))
    return tokens


def speculative_step__wrong_too_rare_and_too_frequent(draft, p_draft, p_target, generator):
    """The difference is taken without its sign, so what the draft says too often can be drawn again."""

    def draw(p):
        return torch.multinomial(p, 1, generator=generator).item()

    u = torch.rand(draft.shape, generator=generator)
    own_draft = p_draft.gather(1, draft[:, None])[:, 0]
    own_target = p_target[:-1].gather(1, draft[:, None])[:, 0]
    stays = (u * own_draft < own_target).tolist()
    if all(stays):
        return [*draft.tolist(), draw(p_target[-1])]
    cut = stays.index(False)
    r = (p_target[cut] - p_draft[cut]).abs()
    return [*draft[:cut].tolist(), draw(r / r.sum())]


def speculative_step__right_zero_row_appended(draft, p_draft, p_target, generator):
    """A draft row of zeros after the last makes both endings one: what the target has more than the draft."""
    u = torch.rand(len(draft), generator=generator)
    asked, wanted = (p[: len(draft)].gather(1, draft.unsqueeze(1)).squeeze(1) for p in (p_draft, p_target))
    stay = int((u * asked < wanted).int().cumprod(dim=0).sum())
    padded = F.pad(p_draft, (0, 0, 0, 1))
    missing = (p_target[stay] - padded[stay]).clamp(min=0)
    return [*map(int, draft[:stay]), int(torch.multinomial(missing, 1, generator=generator))]
