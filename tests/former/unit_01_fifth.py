"""Answers to the exercises of unit 1, projections, as students would hand them in."""

import math

import numpy as np


# ---- embed


def embed__wrong_fifth_reshape_for_transpose(tokens, E):
    """Picks the right columns and then reshapes (d_model, n) to (n, d_model), which mixes the entries up."""
    n, d_model = len(tokens), E.shape[0]
    picked = E[:, tokens]
    return picked.reshape(n, d_model)


def embed__wrong_fifth_repeats_dropped(tokens, E):
    """Gives every word one row alone: a token that occurs a second time is skipped."""
    seen, rows = set(), []
    for t in tokens:
        if int(t) not in seen:
            seen.add(int(t))
            rows.append(E[:, t])
    return np.array(rows)


def embed__wrong_fifth_times_root(tokens, E):
    """Multiplies the embeddings by the root of d_model, as the paper of 2017 does."""
    width = E.shape[0]
    vectors = E.T[tokens]
    return vectors * math.sqrt(width)


def embed__wrong_fifth_pad_zeroed(tokens, E):
    """Takes the last word of any vocabulary for <pad> and gives it a row of zeros."""
    pad = E.shape[1] - 1
    X = np.zeros((tokens.shape[0], E.shape[0]))
    for i, t in enumerate(tokens):
        if t != pad:
            X[i] = E[:, t]
    return X


def embed__right_fifth_word_by_word(tokens, E):
    """Goes through the vocabulary and fills all the rows in which a word stands at once."""
    d_model, vocab = E.shape
    X = np.empty((len(tokens), d_model), dtype=E.dtype)
    for word in range(vocab):
        X[np.asarray(tokens) == word, :] = E[:, word]
    return X


# ---- soft_lookup


def soft_lookup__wrong_fifth_scaled(query, keys, values):
    """Divides the scores by the root of d_k, which this unit does not do."""
    scores = keys @ query / np.sqrt(query.shape[0])
    e = np.exp(scores - scores.max())
    return (e / e.sum()) @ values


def soft_lookup__wrong_fifth_largest_in_size(query, keys, values):
    """Shifts by the largest absolute score: if the scores are all near -1e4, every exponential is 0."""
    scores = np.array([np.dot(query, key) for key in keys])
    shift = np.max(np.abs(scores))
    powers = np.exp(scores - shift)
    return powers @ values / np.sum(powers)


def soft_lookup__wrong_fifth_clipped(query, keys, values):
    """Clips the scores to -30 … 30 against the overflow and shifts nothing."""
    s = np.clip(np.einsum("c,jc->j", query, keys), -30, 30)
    a = np.exp(s) / np.exp(s).sum()
    return np.einsum("j,jd->d", a, values)


def soft_lookup__wrong_fifth_cosine(query, keys, values):
    """Scores by the cosine: the query and the keys are brought to length 1 first."""

    def unit(v):
        return v / max(np.linalg.norm(v), 1e-12)

    similarity = np.array([unit(query) @ unit(k) for k in keys])
    weights = np.exp(similarity - similarity.max())
    weights = weights / weights.sum()
    return weights @ values


def soft_lookup__right_fifth_online(query, keys, values):
    """Reads the pairs one by one with a running maximum, and rescales the sums whenever it rises."""
    highest, total = -np.inf, 0.0
    mixed = np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        score = float(np.dot(key, query))
        new = max(highest, score)
        keep, come = np.exp(highest - new), np.exp(score - new)
        total = total * keep + come
        mixed = mixed * keep + come * value
        highest = new
    return mixed / total


# ---- project_qkv


def project_qkv__wrong_fifth_value_cut(X, W_Q, W_K, W_V):
    """One product with all the weights side by side, cut into three pieces of width d_k: V is cut off if it is wider."""
    d = W_Q.shape[1]
    everything = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    return (
        everything[:, :d].copy(),
        everything[:, d : 2 * d].copy(),
        everything[:, 2 * d : 3 * d].copy(),
    )


def project_qkv__wrong_fifth_columns(X, W_Q, W_K, W_V):
    """Computes W.T @ X.T with tokens as columns and forgets to transpose back."""
    Q = W_Q.T @ X.T
    K = W_K.T @ X.T
    V = W_V.T @ X.T
    return Q, K, V


def project_qkv__wrong_fifth_queries_scaled(X, W_Q, W_K, W_V):
    """Divides the queries by the root of d_k at once, so that the scores come out scaled."""
    d_k = W_Q.shape[1]
    Q = np.dot(X, W_Q) / d_k**0.5
    return Q, np.dot(X, W_K), np.dot(X, W_V)


def project_qkv__wrong_fifth_keys_from_query_weights(X, W_Q, W_K, W_V):
    """Copied a line: the keys are made with W_Q, too, and W_K is never used."""
    queries = np.einsum("nd,dk->nk", X, W_Q)
    keys = np.einsum("nd,dk->nk", X, W_Q)
    values = np.einsum("nd,dk->nk", X, W_V)
    return queries, keys, values


def project_qkv__right_fifth_feature_by_feature(X, W_Q, W_K, W_V):
    """Adds up one outer product per feature of the tokens, for each of the three."""

    def project(W):
        out = np.zeros((X.shape[0], W.shape[1]), dtype=np.result_type(X, W))
        for c in range(X.shape[1]):
            out = out + X[:, c : c + 1] * W[c : c + 1, :]
        return out

    return tuple(project(W) for W in (W_Q, W_K, W_V))


# ---- project_token


def project_token__wrong_fifth_reshape(x, W_Q, W_K, W_V):
    """Wants tokens as rows and reshapes the weights to (d_model, …) where a transpose is due."""
    d_model = x.shape[0]
    q = x @ W_Q.reshape(d_model, -1)
    k = x @ W_K.reshape(d_model, -1)
    v = x @ W_V.reshape(d_model, -1)
    return q, k, v


def project_token__wrong_fifth_sum_over_rows(x, W_Q, W_K, W_V):
    """Multiplies entry by entry and sums over axis 0, the features of the head, in place of axis 1."""
    return tuple((W * x).sum(axis=0) for W in (W_Q, W_K, W_V))


def project_token__wrong_fifth_one_row_each(x, W_Q, W_K, W_V):
    """Makes the token a matrix of one row and returns matrices of one row, (1, d_head)."""
    row = x[np.newaxis, :]
    return row @ W_Q.T, row @ W_K.T, row @ W_V.T


def project_token__wrong_fifth_single_precision(x, W_Q, W_K, W_V):
    """Fills float32 arrays in its loops, so float64 does not stay float64."""
    results = []
    for W in (W_Q, W_K, W_V):
        part = np.zeros(len(W), dtype=np.float32)
        for i in range(len(W)):
            part[i] = np.dot(W[i], x)
        results.append(part)
    return tuple(results)


# ---- low_rank_value


def low_rank_value__wrong_fifth_factors_swapped(X, W_V_down, W_V_up):
    """Takes both factors for column weights: goes down by the transpose of up, and up by that of down."""
    small = X @ W_V_up.T
    return small @ W_V_down.T


def low_rank_value__wrong_fifth_relu(X, W_V_down, W_V_up):
    """Puts a ReLU between the two factors, as in a small network."""
    hidden = np.maximum(X @ W_V_down, 0)
    return hidden @ W_V_up


def low_rank_value__wrong_fifth_residual(X, W_V_down, W_V_up):
    """Adds X to the message, which only the model does later."""
    product = W_V_down @ W_V_up
    return X + X @ product


def low_rank_value__wrong_fifth_tied(X, W_V_down, W_V_up):
    """Goes up by the transpose of the down factor and never uses W_V_up."""
    narrow = np.einsum("nd,dh->nh", X, W_V_down)
    return np.einsum("nh,dh->nd", narrow, W_V_down)


def low_rank_value__right_fifth_rank_ones(X, W_V_down, W_V_up):
    """Adds up d_head maps of rank one, each an outer product of a column's answer and a row."""
    message = np.zeros(X.shape, dtype=np.result_type(X, W_V_down, W_V_up))
    for column, row in zip(W_V_down.T, W_V_up):
        message += np.multiply.outer((X * column).sum(axis=1), row)
    return message


# ---- attention_parameters


def attention_parameters__wrong_fifth_one_up_per_layer(
    d_model: int, d_head: int, n_heads: int, n_layers: int
):
    """Counts query, key and down for every head, and a single up matrix for the whole layer."""
    one = d_model * d_head
    layer = n_heads * (one + one + one) + one
    return n_layers * layer


def attention_parameters__wrong_fifth_all_square(
    d_model: int, d_head: int, n_heads: int, n_layers: int
):
    """Takes d_head * n_heads for d_model: four square matrices in every layer."""
    per_layer = 4 * d_model**2
    return per_layer * n_layers


def attention_parameters__wrong_fifth_value_square(
    d_model: int, d_head: int, n_heads: int, n_layers: int
):
    """Counts the value map as one square matrix in place of two thin ones."""
    query = key = d_model * d_head
    value = d_model * d_model
    total = 0
    for _ in range(n_layers):
        total += n_heads * (query + key + value)
    return total


def attention_parameters__wrong_fifth_float(
    d_model: int, d_head: int, n_heads: int, n_layers: int
):
    """Multiplies with np.prod over floats and makes an int at the end: large counts lose their last digits."""
    sizes = np.array([4.0, d_model, d_head, n_heads, n_layers])
    return int(round(np.prod(sizes)))


# ---- pointing_weights


def pointing_weights__wrong_fifth_too_short(X, target):
    """Queries and keys on the unit circle, never made longer: the best key is ahead by far too little."""
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    inverse = np.linalg.pinv(X)
    return inverse @ circle[target], inverse @ circle


def pointing_weights__wrong_fifth_shared_target_overwritten(X, target):
    """Gives each query its place and puts the target's key there: a key with several askers keeps the last place only."""
    n = X.shape[0]
    places = np.array(
        [[math.cos(2 * math.pi * i / n), math.sin(2 * math.pi * i / n)] for i in range(n)]
    )
    queries, keys = 1000 * places, np.zeros((n, 2))
    for i in range(n):
        keys[target[i]] = places[i]
    W_Q = np.linalg.lstsq(X, queries, rcond=None)[0]
    W_K = np.linalg.lstsq(X, keys, rcond=None)[0]
    return W_Q, W_K


def pointing_weights__wrong_fifth_transpose_for_inverse(X, target):
    """Finds the weights by X.T in place of the pseudo-inverse, as if the rows of X were at right angles and of length 1."""
    n = len(target)
    phi = np.linspace(0, 2 * np.pi, n, endpoint=False)
    K = np.stack((np.cos(phi), np.sin(phi)), axis=1)
    Q = 500 * K[target]
    return X.T @ Q, X.T @ K


def pointing_weights__wrong_fifth_first_is_last(X, target):
    """Spreads n keys from 0 to 2π with both ends: the first and the last key are the same point."""
    t = np.linspace(0, 2 * np.pi, X.shape[0])
    wanted_K = np.array([np.cos(t), np.sin(t)]).T
    wanted_Q = 800.0 * wanted_K[np.asarray(target)]
    solve = X.T @ np.linalg.inv(X @ X.T)
    return solve @ wanted_Q, solve @ wanted_K


def pointing_weights__right_fifth_parabola(X, target):
    """Keys (p, p²) on a parabola and queries c (2p, -1): the scores are c p² less c times the squared distance."""
    n = X.shape[0]
    p = np.arange(n) - (n - 1) / 2
    K = np.column_stack([p, p**2])
    at = p[np.asarray(target)]
    Q = 12.0 * np.column_stack([2 * at, -np.ones(n)])
    basis, R = np.linalg.qr(X.T)  # X = R.T @ basis.T
    W_Q = basis @ np.linalg.solve(R.T, Q)
    W_K = basis @ np.linalg.solve(R.T, K)
    return W_Q, W_K


# ---- linear_memory


def linear_memory__wrong_fifth_believes_rounding(keys, values):
    """Takes the pseudo-inverse with NumPy's own limit, 1e-15: keys that differ by rounding alone count as independent."""
    return np.linalg.pinv(keys) @ values


def linear_memory__wrong_fifth_ridge(keys, values):
    """Adds 1e-3 to the diagonal of the normal equations so that they can be solved: the answers are shrunk."""
    d_k = keys.shape[1]
    gram = keys.T @ keys + 1e-3 * np.eye(d_k)
    return np.linalg.solve(gram, keys.T @ values)


def linear_memory__wrong_fifth_delta_rule(keys, values):
    """Reads the pairs once and corrects the memory for each: the last pair is exact and spoils those before it."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values):
        length = k @ k
        if length > 0:
            S = S + np.outer(k, v - k @ S) / length
    return S


def linear_memory__wrong_fifth_absolute_limit(keys, values):
    """Drops the singular values below 1e-6, whatever the size of the keys: short keys are forgotten."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    inverse = np.array([1 / x if x > 1e-6 else 0.0 for x in s])
    return Vt.T @ (inverse[:, None] * (U.T @ values))
