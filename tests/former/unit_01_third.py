"""Answers to unit 01's functions, written from the notebook alone."""

import numpy as np


def embed__wrong_third_sorted(tokens, E):
    """Looks up the sorted distinct words (np.unique), so order and repetitions of the sentence are lost."""
    return E[:, np.unique(tokens)].T


def embed__right_third_loop(tokens, E):
    """Multiplies one-hot vectors in a loop and stacks the results."""
    rows = np.zeros((len(tokens), E.shape[0]))
    for i, t in enumerate(tokens):
        one_hot = np.zeros(E.shape[1])
        one_hot[t] = 1.0
        rows[i] = E @ one_hot
    return rows


def soft_lookup__wrong_third_abs_shift(query, keys, values):
    """Takes the size |score| of each score before the softmax, so opposite keys match as well as equal ones."""
    scores = np.abs(keys @ query)
    e = np.exp(scores - scores.max())
    return (e / e.sum()) @ values


def project_qkv__wrong_third_chain(X, W_Q, W_K, W_V):
    """Returns as V the mixed values (Q @ K.T) @ (X @ W_V), not the plain projection X @ W_V."""
    Q = X @ W_Q
    K = X @ W_K
    V = (Q @ K.T) @ (X @ W_V)
    return Q, K, V


def project_token__wrong_third_right_side(x, W_Q, W_K, W_V):
    """Multiplies the weights from the right (x @ W) as for rows, which fits no shapes but square ones."""
    return x @ W_Q, x @ W_K, x @ W_V


def project_token__right_third_einsum(x, W_Q, W_K, W_V):
    """Uses einsum for each of the three products."""
    return tuple(np.einsum("hd,d->h", W, x) for W in (W_Q, W_K, W_V))


def low_rank_value__wrong_third_residual(X, W_V_down, W_V_up):
    """Adds the token itself to the result, as a residual connection would."""
    return X + X @ W_V_down @ W_V_up


def attention_parameters__wrong_third_up_shared(d_model, d_head, n_heads, n_layers):
    """Counts the value-up matrix only once per layer in place of once per head."""
    per_head = 3 * d_model * d_head
    return n_layers * (n_heads * per_head + d_model * d_head)


def pointing_weights__wrong_third_no_factor(X, target):
    """Puts the keys on the unit circle but does not scale the queries up, so the softmax stays nearly even."""
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ circle[target], inverse @ circle


def pointing_weights__right_third_parabola(X, target):
    """Puts the keys on a parabola (j, -j^2) and the queries at its slopes (2t, 1), times a factor, by lstsq."""
    j = np.arange(len(X), dtype=float)
    K = np.stack([j, -(j**2)], axis=1)
    Q = 8.0 * np.stack([2.0 * j[target], np.ones(len(X))], axis=1)
    return np.linalg.lstsq(X, Q, rcond=None)[0], np.linalg.lstsq(X, K, rcond=None)[0]


def linear_memory__wrong_third_outer_sum(keys, values):
    """Adds up the outer products of keys and values, which is right only for orthonormal keys."""
    return keys.T @ values
