import math
from functools import reduce

import numpy as np
import torch


# ---- 1.1 embed


def embed__wrong_distinct_words_only(tokens, E):
    """Looks up the sorted distinct words, so the order of the sentence and repeated words are lost."""
    words = np.unique(tokens)
    return E[:, words].T.copy()


def embed__wrong_reshape_for_transpose(tokens, E):
    """Picks the columns, then reshapes to (n, d_model) where a transpose is due."""
    picked = E[:, tokens]
    d_model, n = picked.shape
    return picked.reshape(n, d_model)


def embed__wrong_integer_buffer(tokens, E):
    """The buffer takes the dtype of the tokens, so the fractions of the embeddings are cut off."""
    out = np.empty_like(tokens, shape=(len(tokens), E.shape[0]))
    for i, t in enumerate(tokens):
        out[i, :] = E[:, t]
    return out


def embed__wrong_squeezed(tokens, E):
    """A final squeeze drops the axis of the tokens (or of the features) where its size is 1."""
    one_hot = np.zeros((E.shape[1], len(tokens)))
    one_hot[tokens, np.arange(len(tokens))] = 1
    return np.squeeze((E @ one_hot).T)


def embed__wrong_counted_from_one(tokens, E):
    """Takes word number t for the t-th column counted from 1, so every word is one column off."""
    rows = []
    for t in tokens:
        rows.append(E[:, t - 1])
    return np.array(rows)


def embed__right_word_by_word(tokens, E):
    """Goes through the vocabulary and fills in all places where the word stands."""
    out = np.zeros((tokens.size, len(E)), dtype=E.dtype)
    for word, column in enumerate(E.T):
        out[tokens == word] = column
    return out


# ---- 1.2 soft_lookup


def soft_lookup__wrong_mix_not_rescaled(query, keys, values):
    """Walks over the keys with a running maximum, but rescales only the sum and not the mix when it grows."""
    top, total = -np.inf, 0.0
    mix = np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        score = key @ query
        new_top = max(top, score)
        total = total * np.exp(top - new_top) + np.exp(score - new_top)
        mix = mix + np.exp(score - new_top) * value
        top = new_top
    return mix / total


def soft_lookup__wrong_clipped_scores(query, keys, values):
    """Clips the scores to ±30 against overflow, so large scores that differ get equal weights."""
    scores = np.clip(keys @ query, -30, 30)
    powers = np.exp(scores)
    return (powers / powers.sum()) @ values


def soft_lookup__wrong_mean_for_sum(query, keys, values):
    """Averages the weighted values over the keys where their sum is due."""
    scores = keys @ query
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    weighted = values * weights[:, np.newaxis]
    return weighted.mean(axis=0)


def soft_lookup__wrong_shift_by_size(query, keys, values):
    """Subtracts the largest absolute score, so scores that are all very negative give 0/0."""
    s = np.einsum("c,jc->j", query, keys)
    s = s - np.max(np.abs(s))
    e = np.exp(s)
    return np.einsum("j,jv->v", e / np.sum(e), values)


def soft_lookup__wrong_cosine_similarity(query, keys, values):
    """Divides each score by the lengths of query and key: the cosine, not the plain dot product."""

    def softmax(z):
        z = np.exp(z - z.max())
        return z / z.sum()

    lengths = np.linalg.norm(keys, axis=1) * np.linalg.norm(query)
    lengths = np.where(lengths == 0, 1, lengths)
    return softmax(keys @ query / lengths) @ values


def soft_lookup__right_best_key_first(query, keys, values):
    """Every key is measured by the difference from the best one; the sums are plain Python loops."""
    ahead = [float(np.dot(query, key)) for key in keys]
    best = max(ahead)
    result, total = 0.0 * values[0], 0.0
    for score, value in sorted(zip(ahead, values), key=lambda pair: pair[0]):
        power = math.exp(score - best)
        total += power
        result = result + power * value
    return result / total


# ---- 1.3 project_qkv


def project_qkv__wrong_three_equal_parts(X, W_Q, W_K, W_V):
    """One product with all weights side by side, cut into thirds, as if d_v were d_k."""
    everything = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    Q, K, V = np.array_split(everything, 3, axis=1)
    return Q, K, V


def project_qkv__wrong_reshaped_weights(X, W_Q, W_K, W_V):
    """Brings the weights to (d_out, d_model) with a reshape in place of a transpose, which scrambles them."""

    def project(W):
        d_in, d_out = W.shape
        left = W.reshape(d_out, d_in)
        return (left @ X.T).T

    return project(W_Q), project(W_K), project(W_V)


def project_qkv__wrong_queries_scaled(X, W_Q, W_K, W_V):
    """Divides the queries by the square root of d_k already here."""
    d_k = W_Q.shape[1]
    Q = X @ W_Q / math.sqrt(d_k)
    K = X @ W_K
    V = X @ W_V
    return Q, K, V


def project_qkv__wrong_values_before_keys(X, W_Q, W_K, W_V):
    """The tuple comes as (Q, V, K)."""
    weights = {"Q": W_Q, "V": W_V, "K": W_K}
    made = {name: np.einsum("nd,dk->nk", X, W) for name, W in weights.items()}
    return tuple(made.values())


def project_qkv__wrong_last_feature_left_out(X, W_Q, W_K, W_V):
    """The sum over the features ends one feature too early."""
    d_model = X.shape[1]
    parts = []
    for W in (W_Q, W_K, W_V):
        total = np.zeros((X.shape[0], W.shape[1]))
        for c in range(d_model - 1):
            total += X[:, c : c + 1] * W[c]
        parts.append(total)
    return tuple(parts)


def project_qkv__right_one_product_and_cuts(X, W_Q, W_K, W_V):
    """One product with all weights side by side, cut where the widths say."""
    cuts = np.cumsum([W_Q.shape[1], W_K.shape[1]])
    all_at_once = np.einsum("nd,dk->nk", X, np.hstack([W_Q, W_K, W_V]))
    return tuple(part.copy() for part in np.split(all_at_once, cuts, axis=1))


# ---- 1.4 project_token


def project_token__wrong_sum_over_outputs(x, W_Q, W_K, W_V):
    """Sums x times the weights over the rows (d_head) in place of the features (d_model)."""
    q = (W_Q * x).sum(axis=0)
    k = (W_K * x).sum(axis=0)
    v = (W_V * x).sum(axis=0)
    return q, k, v


def project_token__wrong_column_results(x, W_Q, W_K, W_V):
    """Makes x a real column and returns columns of shape (d_head, 1)."""
    column = x.reshape(-1, 1)
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_mean_over_features(x, W_Q, W_K, W_V):
    """Takes the mean over the features where a product takes the sum."""
    return tuple(np.array([np.mean(row * x) for row in W]) for W in (W_Q, W_K, W_V))


def project_token__wrong_squeezed(x, W_Q, W_K, W_V):
    """Squeezes the products, so that with d_head = 1 a bare number without an axis comes back."""
    return tuple(np.squeeze(W @ x[:, None]) for W in (W_Q, W_K, W_V))


def project_token__wrong_rows_in_parallel(x, W_Q, W_K, W_V):
    """Walks over the rows of all three weights at once and stops where the shortest ends: d_v need not be d_head."""
    q, k, v = np.zeros(len(W_Q)), np.zeros(len(W_K)), np.zeros(len(W_V))
    for i, (to_q, to_k, to_v) in enumerate(zip(W_Q, W_K, W_V)):
        q[i] = to_q @ x
        k[i] = to_k @ x
        v[i] = to_v @ x
    return q, k, v


def project_token__right_feature_by_feature(x, W_Q, W_K, W_V):
    """Adds up the columns of the weights, each times a feature of the token."""

    def mixed_columns(W):
        return reduce(np.add, (feature * column for feature, column in zip(x, W.T)))

    return mixed_columns(W_Q), mixed_columns(W_K), mixed_columns(W_V)


# ---- 1.5 low_rank_value


def low_rank_value__wrong_relu_between(X, W_V_down, W_V_up):
    """Puts a ReLU between the two factors, as in a feed-forward layer."""
    small = X @ W_V_down
    small = np.maximum(small, 0)
    return small @ W_V_up


def low_rank_value__wrong_tied_factors(X, W_V_down, W_V_up):
    """Goes up with the transpose of the down matrix, and W_V_up is not used."""
    down = X @ W_V_down
    return down @ W_V_down.T


def low_rank_value__wrong_map_from_left(X, W_V_down, W_V_up):
    """Multiplies the factors first and lets the square map act on columns, which is its transpose for rows."""
    square = W_V_down @ W_V_up
    return np.stack([square @ x for x in X])


def low_rank_value__wrong_residual_added(X, W_V_down, W_V_up):
    """Adds the message to the token: X stands in the result, too."""
    out = X.copy()
    out += np.einsum("nd,dh,he->ne", X, W_V_down, W_V_up)
    return out


def low_rank_value__wrong_first_direction_missing(X, W_V_down, W_V_up):
    """Adds up one rank-one map for each feature of the head, but begins with feature 1."""
    d_head = W_V_down.shape[1]
    result = np.zeros_like(X)
    for h in range(1, d_head):
        result = result + np.outer(X @ W_V_down[:, h], W_V_up[h])
    return result


def low_rank_value__right_rank_one_maps(X, W_V_down, W_V_up):
    """A sum of maps of rank one, one for each feature of the head."""
    return sum(np.multiply.outer(X @ down, up) for down, up in zip(W_V_down.T, W_V_up))


# ---- 1.6 attention_parameters


def attention_parameters__wrong_square_output_map(d_model, d_head, n_heads, n_layers):
    """Counts the value-up matrices of a layer as one square matrix, d_model by d_model."""
    thin = 3 * d_model * d_head * n_heads
    return n_layers * (thin + d_model * d_model)


def attention_parameters__wrong_width_from_heads(d_model, d_head, n_heads, n_layers):
    """Works out the width of a head as d_model / n_heads and ignores the one that is given."""
    width = d_model // n_heads
    one_matrix = d_model * width
    one_head = 4 * one_matrix
    return one_head * n_heads * n_layers


def attention_parameters__wrong_float_on_the_way(d_model, d_head, n_heads, n_layers):
    """Multiplies floats and converts at the end, so the last digits of large counts are lost."""
    sizes = np.array([4, d_model, d_head, n_heads, n_layers], dtype=float)
    return int(np.prod(sizes))


def attention_parameters__wrong_biases_counted(d_model, d_head, n_heads, n_layers):
    """Counts a bias for each output of each of the four maps."""
    per_head = 0
    for n_in, n_out in [(d_model, d_head)] * 3 + [(d_head, d_model)]:
        per_head += n_in * n_out + n_out
    return per_head * n_heads * n_layers


def attention_parameters__wrong_shared_keys_values(d_model, d_head, n_heads, n_layers):
    """Only queries and value-up have one matrix per head; keys and value-down are counted once a layer, as in MQA."""
    matrix = d_model * d_head
    per_layer = 2 * n_heads * matrix + 2 * matrix
    return n_layers * per_layer


def attention_parameters__right_doubled_twice(d_model, d_head, n_heads, n_layers):
    """Down and up, doubled for queries and keys; then all heads of all layers side by side in one wide matrix."""
    wide = int(n_heads) * int(n_layers) * int(d_head)
    down_and_up = wide * int(d_model) + int(d_model) * wide
    return down_and_up + down_and_up


# ---- 1.7 pointing_weights


def pointing_weights__wrong_roles_swapped(X, target):
    """The circle serves the queries, and each token's key stands at its target: columns point, not rows."""
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    back = np.linalg.pinv(X)
    W_Q = back @ (200 * circle)
    W_K = back @ circle[target]
    return W_Q, W_K


def pointing_weights__wrong_queries_too_short(X, target):
    """Keys on a circle, queries only 10 long: with many tokens the neighbours keep too much weight."""
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    keys = np.column_stack((np.cos(angle), np.sin(angle)))
    queries = 10 * keys[target]
    W_K, *_ = np.linalg.lstsq(X, keys, rcond=None)
    W_Q, *_ = np.linalg.lstsq(X, queries, rcond=None)
    return W_Q, W_K


def pointing_weights__wrong_transpose_for_inverse(X, target):
    """Solves X W = table by X.T, which is right only where the rows of X have length 1 at right angles."""
    n, _ = X.shape
    turn = np.exp(2j * np.pi * np.arange(n) / n)
    table = np.stack([turn.real, turn.imag], axis=-1)
    return X.T @ (300 * table[target]), X.T @ table


def pointing_weights__wrong_circle_closed_twice(X, target):
    """linspace runs to 2π itself, so the first and the last key stand at the same place."""
    n = X.shape[0]
    angles = np.linspace(0, 2 * np.pi, n)
    keys = np.array([[math.cos(a), math.sin(a)] for a in angles])
    queries = np.zeros((n, 2))
    for i in range(n):
        queries[i] = 400.0 * keys[target[i]]
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__wrong_keys_on_line(X, target):
    """The keys stand on a straight line, where only the two ends can have the largest score."""
    n = len(target)
    number = np.arange(n, dtype=float)
    keys = np.column_stack([number - (n - 1) / 2, np.ones(n)])
    queries = 50 * keys[target]
    return tuple(np.linalg.pinv(X) @ table for table in (queries, keys))


def pointing_weights__right_parabola(X, target):
    """Keys on a parabola: a score falls with the square of the distance from the target's number."""
    n = len(X)
    number = np.arange(n, dtype=float)
    keys = np.column_stack([number, number**2])
    queries = 6 * np.column_stack([2 * number[target], -np.ones(n)])
    both = X.T @ np.linalg.solve(X @ X.T, np.hstack([queries, keys]))
    return both[:, :2].copy(), both[:, 2:].copy()


# ---- 1.8 linear_memory


def linear_memory__wrong_ridge(keys, values):
    """Adds a small fixed number to the diagonal, which is not small beside short keys."""
    d_k = keys.shape[1]
    gram = keys.T @ keys + 1e-6 * np.eye(d_k)
    return np.linalg.solve(gram, keys.T @ values)


def linear_memory__wrong_rounding_believed(keys, values):
    """The plain pseudo-inverse keeps directions that are nothing but the rounding of the keys."""
    return np.linalg.pinv(keys) @ values


def linear_memory__wrong_one_pass_of_corrections(keys, values):
    """Corrects the memory pair by pair, once: a later correction disturbs the earlier answers."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values):
        size = k @ k
        if size > 0:
            S += np.outer(k, v - k @ S) / size
    return S


def linear_memory__wrong_fixed_threshold(keys, values):
    """Drops singular values below a fixed 1e-7, whatever the size of the keys: tiny keys are forgotten."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    inverse = np.zeros_like(s)
    inverse[s > 1e-7] = 1 / s[s > 1e-7]
    return (Vt.T * inverse) @ (U.T @ values)


def linear_memory__wrong_equal_keys_merged(keys, values):
    """Merges equal keys into one with their mean value, which then counts as a single pair."""
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.reshape(-1)
    means = np.array([values[which == i].mean(axis=0) for i in range(len(distinct))])
    S, *_ = np.linalg.lstsq(distinct, means, rcond=1e-7)
    return S


def linear_memory__right_direction_by_direction(keys, values):
    """Adds up one rank-one memory for each direction of the keys that is more than rounding."""
    step = 1e-7 if keys.dtype == np.float32 else 1e-8
    keys, values = keys.astype(float), values.astype(float)
    S = np.zeros((keys.shape[1], values.shape[1]))
    largest = np.abs(keys).max()
    if largest == 0:
        return S
    left, sizes, right = np.linalg.svd(keys / largest, full_matrices=False)
    for u, size, direction in zip(left.T, sizes, right):
        if size > step * math.sqrt(keys.size):
            S += np.outer(direction, u @ values) / (size * largest)
    return S
