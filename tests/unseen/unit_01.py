import math

import numpy as np


# ---------------------------------------------------------------- embed


def embed__wrong_sixteenth_rows_of_table(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Takes rows of E as embeddings (as nn.Embedding stores them), though they are its columns."""
    rows = []
    for t in tokens:
        rows.append(E[t])
    return np.array(rows)


def embed__wrong_sixteenth_each_word_once(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Gives one row per different word: a word that occurs twice gets only one row."""
    seen = []
    for t in tokens:
        if t not in seen:
            seen.append(t)
    return E.T[seen]


def embed__wrong_sixteenth_hot_entry_is_number(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Puts the token's number in place of the 1 into the one-hot vector, so rows are scaled by it."""
    n, vocab = len(tokens), E.shape[1]
    hot = np.zeros((n, vocab))
    for i, t in enumerate(tokens):
        hot[i, t] = t
    return hot @ E.T


def embed__wrong_sixteenth_counted_from_one(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Counts the vocabulary from 1: takes the column before the right one."""
    d_model = E.shape[0]
    X = np.empty((len(tokens), d_model))
    for i in range(len(tokens)):
        X[i] = E[:, tokens[i] - 1]
    return X


def embed__wrong_sixteenth_reshape_for_transpose(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Picks the right columns, but brings them into shape by reshape where a transpose is needed."""
    picked = E[:, tokens]
    return picked.reshape(len(tokens), E.shape[0])


def embed__wrong_sixteenth_tokens_stay_columns(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Returns (d_model, n), one column per token, where one row per token is asked for."""
    one_hot = np.eye(E.shape[1])[tokens]
    return E @ one_hot.T


def embed__wrong_sixteenth_axis_of_one_lost(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Squeezes the result: with one token, or d_model = 1, an axis gets lost."""
    columns = np.stack([E[:, [t]] for t in tokens])  # (n, d_model, 1)
    return np.squeeze(columns)


def embed__wrong_sixteenth_stored_as_float32(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Collects the rows in a float32 array, though float64 must stay float64."""
    X = np.zeros((tokens.shape[0], E.shape[0]), dtype=np.float32)
    for i, t in enumerate(tokens):
        X[i, :] = E[:, t]
    return X


def embed__right_sixteenth_comparison_as_one_hot(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Right: makes the one-hot rows by comparing with all word numbers, then one einsum with E."""
    is_word = tokens[:, None] == np.arange(E.shape[1])[None, :]
    return np.einsum("nv,dv->nd", is_word.astype(E.dtype), E)


# ---------------------------------------------------------------- soft_lookup


def soft_lookup__wrong_sixteenth_scaled_by_root(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Divides the scores by the square root of d_k; here they are plain dot products."""
    scores = keys @ query / np.sqrt(keys.shape[1])
    powers = np.exp(scores - scores.max())
    return powers @ values / powers.sum()


def soft_lookup__wrong_sixteenth_match_by_distance(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Scores by nearness (minus half the squared distance): long keys lose that the dot product favours."""
    gaps = keys - query
    match = -0.5 * np.sum(gaps**2, axis=1)
    match = np.exp(match - np.max(match))
    weights = match / np.sum(match)
    return np.sum(weights[:, np.newaxis] * values, axis=0)


def soft_lookup__wrong_sixteenth_cosine_scores(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Compares directions only (cosine), so the lengths of query and keys do not count."""

    def unit(v):
        length = np.sqrt((v**2).sum())
        return v / length if length > 0 else v

    scores = np.array([unit(query) @ unit(k) for k in keys])
    e = np.exp(scores - scores.max())
    return (e / e.sum()) @ values


def soft_lookup__wrong_sixteenth_running_total(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Divides every exponential by the sum so far, not by the sum of all."""
    scores = keys @ query
    top = scores.max()
    total = 0.0
    result = np.zeros(values.shape[1])
    for s, v in zip(scores, values):
        p = np.exp(s - top)
        total += p
        if total > 0:
            result += p / total * v
    return result


def soft_lookup__wrong_sixteenth_sorted_scores(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Sorts the scores to find the largest, and goes on with the sorted ones: weights meet other values."""
    scores = keys @ query
    scores.sort()
    largest = scores[-1]
    exps = np.exp(scores - largest)
    return np.einsum("n,nd->d", exps / exps.sum(), values)


def soft_lookup__wrong_sixteenth_mean_of_weighted(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Takes the mean of the weighted values where their sum is asked for: n times too small."""
    scores = keys @ query
    weights = np.exp(scores - scores.max())
    weights = weights / weights.sum()
    weighted = weights[:, None] * values
    return weighted.mean(axis=0)


def soft_lookup__wrong_sixteenth_shift_only_if_large(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Shifts only where a score is above 700: if all are very negative it gives 0/0, NaN."""
    scores = keys @ query
    if scores.max() > 700:
        scores = scores - scores.max()
    powers = np.exp(scores)
    weights = powers / powers.sum()
    return weights @ values


def soft_lookup__wrong_sixteenth_weights_values_in_place(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Multiplies the weights into the caller's values in place: an input is changed."""
    scores = keys.dot(query)
    scores -= scores.max()
    weights = np.exp(scores)
    weights /= weights.sum()
    values *= weights.reshape(-1, 1)
    return values.sum(axis=0)


def soft_lookup__right_sixteenth_one_pass(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Right: reads the pairs one by one, keeping the largest score so far and rescaling the sums."""
    top, total = -np.inf, 0.0
    mixed = np.zeros(values.shape[1])
    for j in range(len(keys)):
        s = float(query @ keys[j])
        new_top = max(top, s)
        old, new = math.exp(top - new_top), math.exp(s - new_top)
        total = old * total + new
        mixed = old * mixed + new * values[j]
        top = new_top
    return mixed / total


# ---------------------------------------------------------------- project_qkv


def project_qkv__wrong_sixteenth_weights_transposed(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Applies the transposed weights, as nn.Linear would; with rows and W (d_model, d_k) it is X @ W."""
    Q = np.array([W_Q @ x for x in X])
    K = np.array([W_K @ x for x in X])
    V = np.array([W_V @ x for x in X])
    return Q, K, V


def project_qkv__wrong_sixteenth_queries_scaled(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides the queries by the square root of d_k already here."""
    d_k = W_Q.shape[1]
    Q = (X @ W_Q) / d_k**0.5
    return Q, X @ W_K, X @ W_V


def project_qkv__wrong_sixteenth_values_already_mixed(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns as V what the tokens hear, softmax(Q K^T) V, and not the values themselves."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    S = Q @ K.T
    A = np.exp(S - S.max(axis=1, keepdims=True))
    A = A / A.sum(axis=1, keepdims=True)
    return Q, K, A @ V


def project_qkv__wrong_sixteenth_keys_from_query_weights(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A line was copied and not changed to the end: the keys are made with W_Q."""
    Q = np.matmul(X, W_Q)
    K = np.matmul(X, W_Q)
    V = np.matmul(X, W_V)
    return (Q, K, V)


def project_qkv__wrong_sixteenth_sum_overwritten(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Overwrites in the inner loop where it should add: only the last feature counts."""
    parts = []
    for W in (W_Q, W_K, W_V):
        out = np.zeros((X.shape[0], W.shape[1]))
        for m in range(X.shape[1]):
            out[:] = X[:, m : m + 1] * W[m]
        parts.append(out)
    return tuple(parts)


def project_qkv__wrong_sixteenth_keys_come_first(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (K, Q, V); the docstring says (Q, K, V)."""
    project = lambda W: np.einsum("nm,mk->nk", X, W)
    keys, queries, values = map(project, (W_K, W_Q, W_V))
    return keys, queries, values


def project_qkv__wrong_sixteenth_three_equal_widths(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes all at once and cuts three parts of width d_k: a wider V loses its last columns."""
    d = W_Q.shape[1]
    everything = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    return everything[:, :d], everything[:, d : 2 * d], everything[:, 2 * d : 3 * d]


_qkv_buffers = {}


def project_qkv__wrong_sixteenth_kept_buffers(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Writes into arrays kept from call to call: the next call changes the results returned before."""
    parts = []
    for name, W in (("Q", W_Q), ("K", W_K), ("V", W_V)):
        where = (name, X.shape[0], W.shape[1])
        if where not in _qkv_buffers:
            _qkv_buffers[where] = np.empty((X.shape[0], W.shape[1]))
        parts.append(np.matmul(X, W, out=_qkv_buffers[where]))
    return tuple(parts)


def project_qkv__right_sixteenth_token_by_token(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right: every token as a column, the weights transposed from the left, the results stacked as rows."""
    big = np.vstack([W_Q.T, W_K.T, W_V.T])  # (2 d_k + d_v, d_model)
    made = np.stack([big @ token for token in X])
    d_k = W_Q.shape[1]
    Q, K, V = np.split(made, [d_k, 2 * d_k], axis=1)
    return Q, K, V


# ---------------------------------------------------------------- project_token


def project_token__wrong_sixteenth_token_from_left(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keeps to the convention of rows, x @ W; here the weights act from the left."""
    q = np.dot(x, W_Q)
    k = np.dot(x, W_K)
    v = np.dot(x, W_V)
    return q, k, v


def project_token__wrong_sixteenth_unit_length(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Brings query and key to length 1, as if only directions were compared."""

    def direction(vector):
        norm = np.linalg.norm(vector)
        return vector / norm if norm else vector

    return direction(W_Q @ x), direction(W_K @ x), W_V @ x


def project_token__wrong_sixteenth_value_times_score(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiplies the value by the token's own score: that belongs to the lookup, not to the projection."""
    q = W_Q @ x
    k = W_K @ x
    score = q @ k
    v = score * (W_V @ x)
    return q, k, v


def project_token__wrong_sixteenth_sum_over_outputs(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums the products over axis 0, the outputs, where it should be axis 1, the features of the token."""
    q = (W_Q * x).sum(axis=0)
    k = (W_K * x).sum(axis=0)
    v = (W_V * x).sum(axis=0)
    return q, k, v


def project_token__wrong_sixteenth_loop_to_d_head(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds up only as many features as the result is long: the last features of a wide token are left out."""

    def apply(W):
        out = np.zeros(W.shape[0])
        width = len(out)
        for i in range(width):
            out[i] = sum(w * entry for w, entry in zip(W[i, :width], x[:width]))
        return out

    return apply(W_Q), apply(W_K), apply(W_V)


def project_token__wrong_sixteenth_two_axes_returned(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes "a column" for an array of shape (d, 1) and returns such; asked for is (d_head,)."""
    column = x.reshape(-1, 1)
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_sixteenth_number_for_width_one(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squeezes the column of the result: with d_head = 1 or d_v = 1 no axis is left."""
    parts = []
    for weights in (W_Q, W_K, W_V):
        parts.append(np.squeeze(weights @ x[:, None]))
    return tuple(parts)


def project_token__wrong_sixteenth_weights_overwritten(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiplies the token into the weights in place: the caller's weights are changed."""
    made = []
    for W in (W_Q, W_K, W_V):
        W *= x
        made.append(W.sum(axis=1))
    return tuple(made)


def project_token__right_sixteenth_sum_of_columns(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right: builds each vector as a sum of columns of the weights, each times an entry of the token."""
    q, k, v = (np.zeros(W.shape[0]) for W in (W_Q, W_K, W_V))
    for m, entry in enumerate(x):
        q = q + entry * W_Q[:, m]
        k = k + entry * W_K[:, m]
        v = v + entry * W_V[:, m]
    return q, k, v


# ---------------------------------------------------------------- low_rank_value


def low_rank_value__wrong_sixteenth_relu_between(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Puts a ReLU between the factors, as in a feed-forward layer."""
    hidden = X @ W_V_down
    hidden = np.maximum(hidden, 0)
    return hidden @ W_V_up


def low_rank_value__wrong_sixteenth_up_acts_first(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Lets the up matrix act first (both transposed so that the shapes fit)."""
    square = W_V_down @ W_V_up  # (d_model, d_model), as for columns
    return np.array([square @ token for token in X])


def low_rank_value__wrong_sixteenth_token_added(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Adds the message to the token at once; only the message is asked for."""
    message = np.einsum("nd,dh,hm->nm", X, W_V_down, W_V_up)
    return X + message


def low_rank_value__wrong_sixteenth_down_used_twice(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Goes up by the transposed down matrix: W_V_up is never used."""
    narrow = np.dot(X, W_V_down)
    wide = np.dot(narrow, W_V_down.T)
    return wide


def low_rank_value__wrong_sixteenth_last_feature_left_out(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Loops over the features of the head and stops one too early."""
    d_head = W_V_down.shape[1]
    out = np.zeros_like(X)
    for h in range(0, d_head - 1):
        out += np.outer(X @ W_V_down[:, h], W_V_up[h, :])
    return out


def low_rank_value__wrong_sixteenth_divided_by_root(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Divides by the root of d_head on the way, though nothing stands between the factors."""
    d_head = W_V_up.shape[0]
    down = X @ W_V_down / math.sqrt(d_head)
    return down @ W_V_up


def low_rank_value__wrong_sixteenth_single_token_flat(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """A sentence of one token comes back as a vector (d_model,), without its axis of tokens."""
    messages = []
    for token in X:
        messages.append(token @ W_V_down @ W_V_up)
    if len(messages) == 1:
        return messages[0]
    return np.stack(messages)


def low_rank_value__wrong_sixteenth_written_into_tokens(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Writes the messages into X row by row, over the tokens of the caller."""
    for i in range(X.shape[0]):
        head = X[i] @ W_V_down
        X[i] = head @ W_V_up
    return X


def low_rank_value__right_sixteenth_tokens_as_columns(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Right: turns tokens into columns, applies the transposes from the left and turns back."""
    columns = X.T
    for W in (W_V_down, W_V_up):
        columns = np.tensordot(W, columns, axes=([0], [0]))  # W.T @ columns
    return np.ascontiguousarray(columns.T)


# ---------------------------------------------------------------- attention_parameters


def attention_parameters__wrong_sixteenth_three_matrices(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts query, key and value only: the value map has two factors."""
    per_head = 0
    for _ in ("Q", "K", "V"):
        per_head += d_model * d_head
    return per_head * n_heads * n_layers


def attention_parameters__wrong_sixteenth_square_value_map(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts the value map as one square matrix and not as two thin ones."""
    query_and_key = 2 * d_model * d_head
    value = d_model**2
    return n_layers * n_heads * (query_and_key + value)


def attention_parameters__wrong_sixteenth_heads_share_the_width(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Takes the heads of a layer together for d_model wide: right only if d_head * n_heads = d_model."""
    matrix = d_model * d_model  # all heads side by side
    layer = 4 * matrix
    return layer * n_layers


def attention_parameters__wrong_sixteenth_up_is_small_square(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """A wrong variable: the up matrix is counted as d_head by d_head."""
    w_q = d_model * d_head
    w_k = d_model * d_head
    v_down = d_model * d_head
    v_up = d_head * d_head
    return (w_q + w_k + v_down + v_up) * n_heads * n_layers


def attention_parameters__wrong_sixteenth_one_layer_short(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts the layers with range(1, n_layers): one is missing."""
    layer = n_heads * 4 * d_model * d_head
    total = 0
    for _ in range(1, n_layers):
        total += layer
    return total


def attention_parameters__wrong_sixteenth_biases_counted(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts a bias after each product, too; the docstring says: no biases."""
    down = d_model * d_head + d_head  # Q, K, value-down
    up = d_head * d_model + d_model
    return (3 * down + up) * n_heads * n_layers


def attention_parameters__wrong_sixteenth_int64_overflows(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Multiplies in 64-bit integers: very large counts (above 9.2e18) wrap around."""
    factors = np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int64)
    return int(factors.prod())


def attention_parameters__wrong_sixteenth_returns_float(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts with a true division on the way: a float comes back where an int is promised."""
    both_ways = 2 * d_model * d_head
    square_pairs = (both_ways + both_ways) / 1
    return square_pairs * n_heads * n_layers


def attention_parameters__right_sixteenth_from_list_of_shapes(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Right: lists the shapes of a head's matrices, and takes the product with heads and layers of each."""
    shapes = {
        "query": (d_model, d_head),
        "key": (d_model, d_head),
        "value down": (d_model, d_head),
        "value up": (d_head, d_model),
    }
    return sum(math.prod((*shape, n_heads, n_layers)) for shape in shapes.values())


# ---------------------------------------------------------------- pointing_weights


def _circle(n):
    """n points at equal steps around the circle."""
    angles = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def pointing_weights__wrong_sixteenth_target_looks_back(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the roles the wrong way round: the target gets the query that asks for token i."""
    n = len(X)
    keys = _circle(n)
    queries = np.zeros((n, 2))
    for i in range(n):
        queries[target[i]] = 500 * keys[i]
    undo = np.linalg.pinv(X)
    return undo @ queries, undo @ keys


def pointing_weights__wrong_sixteenth_keys_on_a_line(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places the keys (j, 1) on a line and aims with the sign: of three keys the middle ones never win."""
    n = X.shape[0]
    places = np.arange(n) - (n - 1) / 2
    K = np.column_stack([places, np.ones(n)])
    Q = np.column_stack([50 * places[target], np.zeros(n)])
    W_Q = np.linalg.lstsq(X, Q, rcond=None)[0]
    W_K = np.linalg.lstsq(X, K, rcond=None)[0]
    return W_Q, W_K


def pointing_weights__wrong_sixteenth_transpose_undoes(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Believes that X.T undoes X: so it is only where the tokens are at right angles, each 1 long."""
    keys = _circle(len(X))
    queries = 200.0 * keys[target]
    W_K = X.T @ keys
    W_Q = X.T @ queries
    return W_Q, W_K


def pointing_weights__wrong_sixteenth_circle_closed_twice(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """linspace with both ends: the first and the last key are the same point."""
    n = X.shape[0]
    phi = np.linspace(0, 2 * np.pi, n)
    K = np.array([np.cos(phi), np.sin(phi)]).T
    Q = 1000 * K[target]
    inverse = X.T @ np.linalg.inv(X @ X.T)
    return inverse @ Q, inverse @ K


def pointing_weights__wrong_sixteenth_everyone_sees_itself(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Makes the turned queries and then uses the keys in their place: every token looks at itself."""
    sharp = 600.0
    K = _circle(len(X))
    wanted = K[target]
    Q = sharp * K
    X_inv = np.linalg.pinv(X)
    W_K = X_inv @ K
    W_Q = X_inv @ Q
    return W_Q, W_K


def pointing_weights__wrong_sixteenth_only_the_largest(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Makes the target's weight the largest of its row, but not 0.9: the queries are left at length 1."""
    keys = _circle(len(X))
    queries = keys[target]
    W_Q, *_ = np.linalg.lstsq(X, queries, rcond=None)
    W_K, *_ = np.linalg.lstsq(X, keys, rcond=None)
    return W_Q, W_K


def pointing_weights__wrong_sixteenth_coarse_inverse(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts singular values below 1/25 of the largest: wrong for tokens of condition 25 to 100, allowed here."""
    inverse = np.linalg.pinv(X, rcond=0.04)
    keys = _circle(len(X))
    return inverse @ (400 * keys[target]), inverse @ keys


def pointing_weights__wrong_sixteenth_chance_turns_circle(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Starts the circle at a random angle: it points well, but with other weights at every call."""
    n = len(X)
    phi = 2 * np.pi * (np.arange(n) / n + np.random.rand())
    K = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
    undo = np.linalg.pinv(X)
    return undo @ (500 * K[target]), undo @ K


def pointing_weights__right_sixteenth_keys_on_a_parabola(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Right: keys (j, j^2) on a parabola; the query (2t, -1) scores t^2 - (j - t)^2, sharpened tenfold."""
    j = np.arange(len(X), dtype=float)
    K = np.stack([j, j**2], axis=1)
    Q = 10 * np.stack([2 * j[target], -np.ones(len(X))], axis=1)
    both = X.T @ np.linalg.solve(X @ X.T, np.hstack([Q, K]))
    return both[:, :2], both[:, 2:]


# ---------------------------------------------------------------- linear_memory


def _cut(keys):
    """Singular values below this may be nothing but rounding."""
    return 2e-8 * np.abs(keys).max() * np.sqrt(keys.size)


def linear_memory__wrong_sixteenth_corrected_once(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Reads the pairs once and corrects S for each (delta rule): later pairs spoil the earlier ones."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values):
        length = k @ k
        if length > 0:
            S += np.outer(k, v - k @ S) / length
    return S


def linear_memory__wrong_sixteenth_fits_keys_to_values(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Finds the best map from values to keys and turns it over: it is the other squared error."""
    back = np.linalg.pinv(values, rcond=1e-7) @ keys  # (d_v, d_k): values @ back = keys
    return np.linalg.pinv(back, rcond=1e-7)


def linear_memory__wrong_sixteenth_cut_on_squares(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Cuts the squared singular values (of K^T K) at 1e-7: real parts of a 1/10000 are dropped as rounding."""
    gram = keys.T @ keys
    return np.linalg.pinv(gram, rcond=1e-7, hermitian=True) @ (keys.T @ values)


def linear_memory__wrong_sixteenth_small_ones_become_one(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The inverses of cut singular values are left at 1 where they should be 0."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    inverse = np.ones_like(s)
    large = s > _cut(keys)
    inverse[large] = 1 / s[large]
    return Vt.T @ (inverse[:, None] * (U.T @ values))


def linear_memory__wrong_sixteenth_divided_by_squares(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Divides by the squares of the singular values (mixed up with the eigenvalues of K^T K)."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    keep = s > _cut(keys)
    U, s, Vt = U[:, keep], s[keep], Vt[keep]
    return (Vt.T / s**2) @ (U.T @ values)


def linear_memory__wrong_sixteenth_believes_the_rounding(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Least squares at machine precision: keys that differ by their rounding only are told apart."""
    S, _, _, _ = np.linalg.lstsq(keys, values, rcond=None)
    return S


def linear_memory__wrong_sixteenth_absolute_cut(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Cuts singular values below 1e-6, whatever the size of the keys: tiny keys are lost, huge ones believed."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    inverse = np.array([1 / x if x > 1e-6 else 0.0 for x in s])
    return Vt.T @ np.diag(inverse) @ U.T @ values


def linear_memory__wrong_sixteenth_keys_scaled_in_place(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Scales the keys to a largest entry of 1 in place: the caller's keys are changed."""
    scale = np.abs(keys).max()
    if scale == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    keys /= scale
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    keep = s > _cut(keys)
    return Vt[keep].T @ ((U[:, keep].T @ values) / s[keep, None]) / scale


def linear_memory__right_sixteenth_symmetric_block(
    keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Right: eigenvectors of the symmetric block matrix [[0, K], [K^T, 0]] give the pseudo-inverse."""
    keys = np.asarray(keys, dtype=np.float64)
    n, d_k = keys.shape
    block = np.zeros((n + d_k, n + d_k))
    block[:n, n:] = keys
    block[n:, :n] = keys.T
    lam, B = np.linalg.eigh(block)  # plus and minus the singular values, and zeros
    keep = np.abs(lam) > _cut(keys)
    inverse = (B[:, keep] / lam[keep]) @ B[:, keep].T
    return inverse[n:, :n] @ values
