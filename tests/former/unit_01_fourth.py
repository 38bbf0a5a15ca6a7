"""Answers to unit 1's functions, written from the notebook alone."""

import math

import numpy as np


def _circle(n):
    """n points, evenly spread on the unit circle, one per row."""
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def embed__wrong_fourth_reshaped_not_transposed(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Picks the right columns of E, but a reshape (no transpose) makes the rows: right shape, wrong numbers."""
    columns = E[:, tokens]
    return columns.reshape(len(tokens), E.shape[0])


def soft_lookup__wrong_fourth_clipped_scores(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Clips the scores to ±700 in place of a shift: no overflow, but large scores all become alike."""
    scores = np.clip(keys @ query, -700, 700)
    powers = np.exp(scores)
    return (powers / powers.sum()) @ values


def soft_lookup__wrong_fourth_mean_shift_and_root(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Two slips: scores are divided by the root of d_k, and the shift is by their mean, so exp can overflow."""
    s = np.einsum("jd,d->j", keys, query) / math.sqrt(query.size)
    s = s - s.mean()
    a = np.exp(s) / np.exp(s).sum()
    return np.einsum("j,jv->v", a, values)


def soft_lookup__right_fourth_running_maximum(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Right, unusual: one pass over the pairs, with a running maximum; what was added before fades when it rises."""
    top, total, mixture = -math.inf, 0.0, np.zeros(values.shape[1])
    for key, value in zip(keys, values, strict=True):
        score = float(key @ query)
        higher = max(top, score)
        fade, power = math.exp(top - higher), math.exp(score - higher)
        mixture = fade * mixture + power * value
        total = fade * total + power
        top = higher
    return mixture / total


def project_qkv__wrong_fourth_three_equal_parts(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One product with all weights side by side, cut in three equal parts: fits only if d_v equals d_k."""
    everything = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    Q, K, V = np.split(everything, 3, axis=1)
    return Q, K, V


def project_token__wrong_fourth_columns_with_two_axes(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes "a column" for an array (d_model, 1): the results are (d_head, 1) and (d_v, 1), not vectors."""
    column = x.reshape(-1, 1)
    return tuple(W @ column for W in (W_Q, W_K, W_V))


def low_rank_value__wrong_fourth_product_transposed(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Multiplies the factors first, in the order of the column convention: the square map is the transpose."""
    value_map = W_V_up.T @ W_V_down.T  # (d_model, d_model)
    return X @ value_map


def attention_parameters__wrong_fourth_one_up_matrix_per_layer(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts query, key and value-down for every head, but only one value-up matrix per layer, shared by its heads."""
    one_matrix = d_model * d_head
    heads = n_heads * (one_matrix + one_matrix + one_matrix)
    return n_layers * (heads + one_matrix)


def attention_parameters__wrong_fourth_share_as_a_float(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Takes four square matrices times the share d_head * n_heads / d_model: a float, so large counts lose digits."""
    share = d_head * n_heads / d_model
    return round(4 * d_model**2 * share * n_layers)


def pointing_weights__wrong_fourth_circle_closed_twice(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Keys at linspace(0, 2 pi, n), both ends included: the first and the last key are the same point."""
    angles = np.linspace(0, 2 * np.pi, len(X))
    keys = np.column_stack((np.cos(angles), np.sin(angles)))
    back = np.linalg.pinv(X)
    return back @ (100 * keys[target]), back @ keys


def pointing_weights__wrong_fourth_transpose_for_inverse(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solves X @ W = table by W = X.T @ table: right for orthonormal rows, as those of the identity, only."""
    keys = _circle(len(X))
    queries = 10 * len(X) * keys[target]
    return X.T @ queries, X.T @ keys


def pointing_weights__right_fourth_keys_on_a_parabola(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Right, unusual: keys (p, p²) on a parabola; the query (2t, -1) scores t² - (p - t)², highest at p = t."""
    p = np.arange(len(X)) - (len(X) - 1) / 2
    keys = np.column_stack([p, p**2])
    queries = 4 * np.column_stack([2 * p[target], -np.ones(len(X))])
    W, *_ = np.linalg.lstsq(X, np.hstack([queries, keys]), rcond=None)
    return W[:, :2], W[:, 2:]


def linear_memory__wrong_fourth_cutoff_on_the_squares(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Pseudo-inverse of keys.T @ keys with a cutoff of 1e-8: there singular values are squared, so 1e-4 is cut off."""
    gram = keys.T @ keys
    return np.linalg.pinv(gram, rcond=1e-8, hermitian=True) @ (keys.T @ values)


def linear_memory__wrong_fourth_absolute_cutoff(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Drops singular values below 1e-8 as such, not relative to the keys: wrong for very short and very long keys."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    big = s > 1e-8
    U, s, Vt = U[:, big], s[big], Vt[big]
    return Vt.T @ ((U.T @ values) / s[:, None])
