"""Unit 1: other right ways than the course's own, so that their steps are known to be right, too."""

import math

import numpy as np


def soft_lookup__one_pass(query, keys, values):
    top = float(keys[0] @ query)
    total, mixture = (1.0, values[0].astype(np.float64))
    for key, value in zip(keys[1:], values[1:], strict=False):
        score = float(key @ query)
        if score > top:
            down = math.exp(top - score)
            total, mixture = (total * down + 1.0, mixture * down + value)
            top = score
        else:
            power = math.exp(score - top)
            total, mixture = (total + power, mixture + power * value)
    return mixture / total


def soft_lookup__one_over_sum_of_ratios(query, keys, values):
    s = keys @ query
    with np.errstate(over="ignore"):
        ratios = np.exp(s[None, :] - s[:, None])
        weights = 1.0 / ratios.sum(axis=1)
    return values.T @ weights


def project_qkv__rank_one_sums(X, W_Q, W_K, W_V):
    parts = []
    for W in (W_Q, W_K, W_V):
        part = np.zeros((X.shape[0], W.shape[1]))
        for c in range(X.shape[1]):
            part = part + np.multiply.outer(X[:, c], W[c])
        parts.append(part)
    return (parts[0], parts[1], parts[2])


def project_token__stacked(x, W_Q, W_K, W_V):
    stacked = np.vstack([W_Q, W_K, W_V])
    q, k, v = np.split(np.dot(stacked, x), np.cumsum([len(W_Q), len(W_K)]))
    return (q.copy(), k.copy(), v.copy())


def project_token__columns_added(x, W_Q, W_K, W_V):
    found = []
    for W in (W_Q, W_K, W_V):
        total = 0 * W[:, 0] * x[0]
        for entry, column in zip(x, W.T, strict=False):
            total = total + entry * column
        found.append(total)
    q, k, v = found
    return (q, k, v)


def low_rank_value__head_features_summed(X, W_V_down, W_V_up):
    result = np.zeros((X.shape[0], W_V_up.shape[1]))
    for c in reversed(range(W_V_down.shape[1])):
        result += np.outer((X * W_V_down[:, c]).sum(axis=1), W_V_up[c])
    return result


def attention_parameters__squares(d_model, d_head, n_heads, n_layers):
    a, b = (int(d_model), int(d_head))
    head = (a + b) ** 2 - (a - b) ** 2
    return head * int(n_heads) * int(n_layers)


def linear_memory__own_basis(keys, values):
    rest = np.array(keys, dtype=float)
    tolerance = 1e-07 * np.abs(rest).max() * np.sqrt(rest.size)
    basis = np.zeros((0, keys.shape[1]))
    while len(basis) < min(keys.shape):
        lengths = np.sqrt((rest**2).sum(axis=1))
        longest = lengths.argmax()
        if lengths[longest] <= tolerance:
            break
        direction = rest[longest] / lengths[longest]
        for _ in range(2):
            direction = direction - basis @ direction @ basis
            direction = direction / np.sqrt(direction @ direction)
        basis = np.vstack([basis, direction])
        rest = rest - np.outer(rest @ direction, direction)
    if len(basis) == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    left, strength, right = np.linalg.svd(keys @ basis.T, full_matrices=False)
    return basis.T @ (right.T @ (left.T @ values / strength[:, None]))


def linear_memory__eigenvectors_of_doubled_matrix(keys, values):
    n, d_k = keys.shape
    doubled = np.zeros((n + d_k, n + d_k))
    doubled[:n, n:] = keys
    doubled[n:, :n] = keys.T
    eigenvalue, vector = np.linalg.eigh(doubled)
    noise = 2e-08 * np.abs(keys).max() * math.sqrt(n * d_k)
    keep = eigenvalue > noise
    asked, answered = (vector[n:, keep], vector[:n, keep])
    return 2 * (asked / eigenvalue[keep]) @ (answered.T @ values)


def linear_memory__direction_by_direction(keys, values):
    keys = np.asarray(keys)
    n, d_k = keys.shape
    noise = 1e-08 * np.abs(keys).max() * math.sqrt(n * d_k)
    S = np.zeros((d_k, values.shape[1]))
    U, sizes, directions = np.linalg.svd(keys.astype(float), full_matrices=False)
    for u, size, direction in zip(U.T, sizes, directions, strict=False):
        if size > noise:
            S += np.outer(direction, u @ values) / size
    return S


def linear_memory__solve_where_keys_see(keys, values):
    sees, strength, _ = np.linalg.svd(keys.T, full_matrices=False)
    noise = 2e-08 * np.abs(keys).max() * math.sqrt(keys.size)
    basis = sees[:, strength > noise]
    if basis.shape[1] == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    Q, R = np.linalg.qr(keys @ basis)
    return basis @ np.linalg.solve(R, Q.T @ values)
