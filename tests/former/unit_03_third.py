"""Answers to unit 03's functions, written from the notebook alone."""

import numpy as np


def _soft(scores, mask):
    s = np.where(mask, scores, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def causal_mask__wrong_third_hidden_true(n):
    """Marks the hidden keys (the future) with True, where True should mean that a query may attend."""
    return np.triu(np.ones((n, n), dtype=bool), k=1)


def causal_mask__right_third_loop(n):
    """Sets the first i + 1 entries of each row to True in a loop."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        mask[i, : i + 1] = True
    return mask


def padding_mask__wrong_third_left(lengths, m):
    """Puts the real tokens at the end of each row, as if the filler came first."""
    return np.arange(m) >= m - lengths[:, None]


def masked_softmax__wrong_third_zero_scores(scores, mask):
    """Sets hidden scores to 0 by multiplying with the mask, so hidden keys still get weight exp(0)."""
    s = scores * mask
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked_attention__wrong_third_width_by_position(Q, K, V, mask):
    """Divides by the root of Q.shape[-2], the number of queries, in place of the width d_k."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-2])
    weights = _soft(scores, mask)
    return weights @ V, weights


def masked_attention__right_third_einsum(Q, K, V, mask):
    """Uses einsum with an ellipsis for both products."""
    scores = np.einsum("...nd,...md->...nm", Q, K) * Q.shape[-1] ** -0.5
    weights = _soft(scores, mask)
    return np.einsum("...nm,...md->...nd", weights, V), weights


def next_token_pairs__wrong_third_swapped(tokens):
    """Returns targets and inputs in the wrong order: the model would predict the token before."""
    return tokens[:, 1:], tokens[:, :-1]


def leaks_future__wrong_third_keys_only(attend, Q, K, V):
    """Changes only later keys and never the values, so a leak through the values goes unseen."""
    before = attend(Q, K, V)
    for t in range(1, len(Q)):
        other = K.copy()
        other[t:] += 1.5
        after = attend(Q, other, V)
        size = np.abs(before[:t]).max(axis=1, keepdims=True)
        if (np.abs(after[:t] - before[:t]) > 1e-4 * size).any():
            return True
    return False


def packed_causal_mask__wrong_third_positions_of_row(document_ids):
    """Counts the positions through the whole row, and does not begin at 0 in each document."""
    B, n = document_ids.shape
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = same & np.tri(n, dtype=bool)
    return mask, np.tile(np.arange(n), (B, 1))


def packed_causal_mask__right_third_tril(document_ids):
    """Cuts the table of equal ids with np.tril, and counts each row's allowed keys with an integer sum."""
    mask = np.tril(np.equal(document_ids[:, None, :], document_ids[:, :, None]))
    return mask, np.count_nonzero(mask, axis=-1) - 1
