"""Answers to unit 3's functions, written from the notebook alone."""

import math

import numpy as np


def _masked_softmax(scores, mask):
    """A softmax among the allowed keys; zeros where nothing is allowed."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    powers = np.exp(hidden - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1)


def causal_mask__wrong_fourth_only_token_0_sees_itself(n: int) -> np.ndarray:
    """Only earlier keys are allowed, and token 0 may see itself so that no row is empty: the diagonal is False."""
    mask = np.tri(n, k=-1, dtype=bool)
    mask[0, 0] = True
    return mask


def padding_mask__wrong_fourth_minus_zero_slice(lengths: np.ndarray, m: int) -> np.ndarray:
    """Hides the last m - length keys by a slice from the end; for a full sequence that is [-0:], the whole row."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for row, length in zip(mask, lengths, strict=True):
        pads = m - int(length)
        row[-pads:] = False
    return mask


def masked_softmax__wrong_fourth_mask_used_as_an_index(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Indexes with the mask, which then must have the shape of the scores: a mask that should broadcast fails."""
    z = scores.copy()
    z[~mask] = -np.inf
    top = z.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0
    e = np.exp(z - top)
    total = e.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    return e / total


def masked_softmax__wrong_fourth_maximum_of_all_scores(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Shifts by the largest of all scores, hidden ones too: a large hidden score makes all allowed weights 0."""
    powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True)) * mask
    sums = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(sums == 0, 1.0, sums)


def masked_softmax__right_fourth_where_arguments(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Right, unusual: no infinite entries at all, each step is told by `where=` which entries to work on."""
    allowed = np.broadcast_to(mask, scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    powers = np.zeros_like(scores)
    np.subtract(scores, top, out=powers, where=allowed)
    np.exp(powers, out=powers, where=allowed)
    total = powers.sum(axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)


def masked_attention__wrong_fourth_width_from_axis_1(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads d_k off axis 1 of Q, which is the number of queries (or of heads) as soon as there is a batch."""
    d_k = Q.shape[1]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_fourth_one_batch_axis_then_squeezed(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two slips: einsum takes exactly one leading axis, so heads fail, and squeeze() drops every axis of size 1."""
    if Q.ndim == 2:
        Q, K, V = Q[None], K[None], V[None]
    s = np.einsum("bnd,bmd->bnm", Q, K) / math.sqrt(Q.shape[-1])
    w = _masked_softmax(s, mask)
    out = np.einsum("bnm,bmv->bnv", w, V)
    return out.squeeze(), w.squeeze()


def next_token_pairs__wrong_fourth_pairs_side_by_side(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes "pairs" for pairs without overlap, (0, 1), (2, 3), …: half of the pairs are missing unless n is 2."""
    even = tokens.shape[1] // 2 * 2
    return tokens[:, 0:even:2], tokens[:, 1:even:2]


def leaks_future__wrong_fourth_changes_values_only(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Changes the later values and leaves the keys: a leak through the sum of the softmax alone is not found."""
    n = len(Q)
    rng = np.random.default_rng(0)
    if n == 1:
        return False
    base = np.array(attend(Q, K, V))
    for first in range(1, n):
        other = V.copy()
        other[first:] += rng.standard_normal(other[first:].shape)
        moved = np.abs(attend(Q, K, other)[:first] - base[:first]).max(axis=1)
        if (moved > 3e-5 * np.abs(base[:first]).max(axis=1)).any():
            return True
    return False


def leaks_future__wrong_fourth_allclose_as_it_is(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Compares with np.allclose as it is: its absolute tolerance of 1e-8 hides any leak in very small outputs."""
    rng, plain = np.random.default_rng(0), np.array(attend(Q, K, V))

    def stays(i):
        K_new, V_new = K.copy(), V.copy()
        K_new[i + 1 :] = rng.standard_normal(K_new[i + 1 :].shape)
        V_new[i + 1 :] = rng.standard_normal(V_new[i + 1 :].shape)
        return np.allclose(attend(Q, K_new, V_new)[: i + 1], plain[: i + 1])

    return not all(stays(i) for i in range(len(Q) - 1))


def packed_causal_mask__wrong_fourth_runs_for_documents(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Begins a new document wherever the id changes: one that is interrupted falls into two, which do not meet."""
    B, n = document_ids.shape
    change = np.zeros((B, n), dtype=int)
    change[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = change.cumsum(axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_fourth_distance_to_first_token(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Position = place in the row less the place of the document's first token: tokens of others between count."""
    same = document_ids[:, :, None] == document_ids[:, None, :]
    steps = np.arange(document_ids.shape[1])
    mask = same & (steps[None, :] <= steps[:, None])
    first = same.argmax(axis=-1)
    return mask, steps - first


def packed_causal_mask__right_fourth_document_by_document(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Right, unusual: a loop over rows and documents, each of which puts a small triangle into the mask with np.ix_."""
    B, n = document_ids.shape
    mask, positions = np.zeros((B, n, n), dtype=bool), np.zeros((B, n), dtype=int)
    for b, row in enumerate(document_ids):
        for name in np.unique(row):
            places = np.flatnonzero(row == name)
            mask[b][np.ix_(places, places)] = np.tri(len(places), dtype=bool)
            positions[b, places] = np.arange(len(places))
    return mask, positions
