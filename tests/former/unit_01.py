"""Answers to unit 01's functions, written from the notebook alone."""

import numpy as np


def _softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _circle(n):
    angles = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


# embed


def embed__wrong_rows_of_table(tokens, E):
    """Picks the rows of E with the token numbers, though the embeddings are its columns."""
    return E[tokens]


def embed__wrong_not_transposed(tokens, E):
    """Returns the picked columns as columns, (d_model, n), so that tokens are not rows."""
    return E[:, tokens]


def embed__wrong_one_hot_length(tokens, E):
    """Makes the one-hot vectors d_model long in place of vocab, so that the product fits only a square E."""
    one_hot = np.eye(E.shape[0])[tokens]
    return one_hot @ E.T


def embed__wrong_distinct_words(tokens, E):
    """Embeds every distinct word once, in the order of the numbers, in place of one row per token of the sentence."""
    return E[:, np.unique(tokens)].T


def embed__wrong_counts_from_one(tokens, E):
    """Takes column t - 1 for word number t, as if the words were counted from 1."""
    return E[:, tokens - 1].T


def embed__wrong_reshaped_and_scaled(tokens, E):
    """Two slips: reshapes the picked columns to (n, d_model) in place of transposing, and multiplies by √d_model."""
    d_model = E.shape[0]
    columns = E[:, tokens]
    return columns.reshape(len(tokens), d_model) * np.sqrt(d_model)


def embed__right_one_hot_einsum(tokens, E):
    """Compares the tokens with all word numbers for a one-hot table and contracts it with E by einsum."""
    one_hot = (tokens[:, None] == np.arange(E.shape[1])).astype(E.dtype)
    return np.einsum("nv,dv->nd", one_hot, E)


def embed__right_filled_row_by_row(tokens, E):
    """Fills an empty table row by row in a loop over the tokens."""
    rows = np.empty((len(tokens), E.shape[0]), dtype=E.dtype)
    for i, t in enumerate(tokens):
        rows[i] = E[:, t]
    return rows


# soft_lookup


def soft_lookup__wrong_scaled(query, keys, values):
    """Divides the scores by √d_k, though plain dot products are asked for."""
    scores = keys @ query / np.sqrt(len(query))
    return _softmax(scores) @ values


def soft_lookup__wrong_scores_as_weights(query, keys, values):
    """Leaves out the exponential: the weights are the scores divided by their sum."""
    scores = keys @ query
    weights = scores / scores.sum()
    return weights @ values


def soft_lookup__wrong_hard(query, keys, values):
    """Looks up hard: returns the value of the best key alone in place of a mixture."""
    scores = keys @ query
    return values[scores.argmax()].copy()


def soft_lookup__wrong_mean(query, keys, values):
    """Averages the weighted values over the keys in place of adding them up, so the result is n times too small."""
    weights = _softmax(keys @ query)
    return (weights[:, None] * values).mean(axis=0)


def soft_lookup__wrong_matches_values(query, keys, values):
    """Compares the query with the values in place of the keys, which fits only if d_v = d_k."""
    scores = values @ query
    return _softmax(scores) @ values


def soft_lookup__wrong_cosine_and_max(query, keys, values):
    """Two slips: the scores are cosines (divided by the lengths), and the powers are divided by the largest, not the
    sum."""
    scores = keys @ query / (np.linalg.norm(keys, axis=1) * np.linalg.norm(query))
    powers = np.exp(scores - scores.max())
    return powers / powers.max() @ values


def soft_lookup__right_streaming(query, keys, values):
    """Reads the pairs one by one with a running largest score, a running sum and a running mixture."""
    largest, total = -np.inf, 0.0
    mixture = np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        score = key @ query
        new_largest = max(largest, score)
        old, new = np.exp(largest - new_largest), np.exp(score - new_largest)
        total = total * old + new
        mixture = mixture * old + new * value
        largest = new_largest
    return mixture / total


def soft_lookup__right_log_sum(query, keys, values):
    """Takes the logarithm of the sum by logaddexp.reduce and subtracts it before a single exponential."""
    scores = np.einsum("nd,d->n", keys, query)
    weights = np.exp(scores - np.logaddexp.reduce(scores))
    return np.einsum("n,nv->v", weights, values)


# project_qkv


def project_qkv__wrong_column_convention(X, W_Q, W_K, W_V):
    """Transposes the weights, as a text with tokens as columns would, which fits only square weights."""
    return X @ W_Q.T, X @ W_K.T, X @ W_V.T


def project_qkv__wrong_keys_by_query_weights(X, W_Q, W_K, W_V):
    """Makes the keys with W_Q in place of W_K."""
    Q = X @ W_Q
    K = X @ W_Q
    V = X @ W_V
    return Q, K, V


def project_qkv__wrong_order(X, W_Q, W_K, W_V):
    """Returns the values before the keys: (Q, V, K)."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    return Q, V, K


def project_qkv__wrong_equal_thirds(X, W_Q, W_K, W_V):
    """Multiplies by all weights side by side and splits into three equal parts, which is right only if d_v = d_k."""
    joint = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    Q, K, V = np.split(joint, 3, axis=1)
    return Q, K, V


def project_qkv__wrong_scaled_queries(X, W_Q, W_K, W_V):
    """Divides the queries by √d_k already, though the projections are plain products."""
    Q = X @ W_Q / np.sqrt(W_Q.shape[1])
    return Q, X @ W_K, X @ W_V


def project_qkv__wrong_centred_and_swapped(X, W_Q, W_K, W_V):
    """Two slips: subtracts from each token the mean of its features first, and uses W_K for queries, W_Q for keys."""
    X = X - X.mean(axis=1, keepdims=True)
    return X @ W_K, X @ W_Q, X @ W_V


def project_qkv__right_split_at_widths(X, W_Q, W_K, W_V):
    """One product with all weights side by side, split where the widths d_k, d_k, d_v end."""
    d_k = W_Q.shape[1]
    joint = X @ np.hstack([W_Q, W_K, W_V])
    Q, K, V = np.split(joint, [d_k, 2 * d_k], axis=1)
    return Q.copy(), K.copy(), V.copy()


def project_qkv__right_sum_over_features(X, W_Q, W_K, W_V):
    """Adds up one outer product per feature of the tokens."""
    results = []
    for W in (W_Q, W_K, W_V):
        table = np.zeros((X.shape[0], W.shape[1]))
        for c in range(X.shape[1]):
            table += np.outer(X[:, c], W[c])
        results.append(table)
    return tuple(results)


# project_token


def project_token__wrong_from_the_right(x, W_Q, W_K, W_V):
    """Lets the weights act from the right, x @ W, as with tokens as rows, which fits only square weights."""
    return x @ W_Q, x @ W_K, x @ W_V


def project_token__wrong_column_matrix(x, W_Q, W_K, W_V):
    """Makes the token a matrix with one column, so the results are (d_head, 1) and (d_v, 1) with an axis too many."""
    column = x[:, None]
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_mean_over_features(x, W_Q, W_K, W_V):
    """Averages the products over the features of the token in place of adding them up."""
    q = (W_Q * x).mean(axis=1)
    k = (W_K * x).mean(axis=1)
    v = (W_V * x).mean(axis=1)
    return q, k, v


def project_token__wrong_sum_axis(x, W_Q, W_K, W_V):
    """Sums the products over the rows of the weights in place of the features, so each result is d_model long."""
    q, k, v = ((W * x).sum(axis=0) for W in (W_Q, W_K, W_V))
    return q, k, v


def project_token__wrong_stacked(x, W_Q, W_K, W_V):
    """Stacks the three weights into one array, which can be done only if d_v = d_head."""
    q, k, v = np.stack([W_Q, W_K, W_V]) @ x
    return q, k, v


def project_token__wrong_unit_length_and_swapped(x, W_Q, W_K, W_V):
    """Two slips: brings the token to length 1 first, and returns the key before the query."""
    x = x / np.linalg.norm(x)
    return W_K @ x, W_Q @ x, W_V @ x


def project_token__right_entry_by_entry(x, W_Q, W_K, W_V):
    """Computes each entry as the dot product of one row of the weights with the token, in a comprehension."""
    return tuple(np.array([np.dot(row, x) for row in W]) for W in (W_Q, W_K, W_V))


def project_token__right_as_one_row(x, W_Q, W_K, W_V):
    """Goes over to tokens as rows: a (1, d_model) matrix times transposed weights, and takes row 0 of each."""
    row = x.reshape(1, -1)
    return (row @ W_Q.T)[0], (row @ W_K.T)[0], (row @ W_V.T)[0]


# low_rank_value


def low_rank_value__wrong_up_first(X, W_V_down, W_V_up):
    """Multiplies by the up matrix first and the down matrix second, which fits only if d_head = d_model."""
    return X @ W_V_up @ W_V_down


def low_rank_value__wrong_relu_between(X, W_V_down, W_V_up):
    """Sets negative entries to 0 between the two factors, as in a feed-forward layer."""
    narrow = np.maximum(X @ W_V_down, 0)
    return narrow @ W_V_up


def low_rank_value__wrong_only_down(X, W_V_down, W_V_up):
    """Returns the narrow values, (n, d_head), and never goes up again."""
    values = X @ W_V_down
    return values


def low_rank_value__wrong_residual(X, W_V_down, W_V_up):
    """Adds the tokens themselves to their messages, though only the value map is asked for."""
    return X + X @ W_V_down @ W_V_up


def low_rank_value__wrong_transposed_map(X, W_V_down, W_V_up):
    """Lets the product of the factors act on columns, so the transpose of the value map is applied to each token."""
    value_map = W_V_down @ W_V_up
    return (value_map @ X.T).T


def low_rank_value__wrong_tied_and_scaled(X, W_V_down, W_V_up):
    """Two slips: goes up with the transpose of the down matrix in place of W_V_up, and divides by √d_head."""
    narrow = X @ W_V_down / np.sqrt(W_V_down.shape[1])
    return narrow @ W_V_down.T


def low_rank_value__right_rank_one_sum(X, W_V_down, W_V_up):
    """Adds up one map of rank 1 per feature of the head, in a loop."""
    result = np.zeros(X.shape)
    for column, row in zip(W_V_down.T, W_V_up):
        result += np.outer(X @ column, row)
    return result


def low_rank_value__right_einsum(X, W_V_down, W_V_up):
    """One einsum over all three arrays, which sums over both inner widths."""
    return np.einsum("nd,dh,he->ne", X, W_V_down, W_V_up)


# attention_parameters


def attention_parameters__wrong_three_matrices(d_model, d_head, n_heads, n_layers):
    """Counts three matrices per head: the value map only once, without its up half."""
    return 3 * d_model * d_head * n_heads * n_layers


def attention_parameters__wrong_square_matrices(d_model, d_head, n_heads, n_layers):
    """Takes for granted that all heads together are d_model wide: four square matrices a layer."""
    return 4 * d_model * d_model * n_layers


def attention_parameters__wrong_square_value_map(d_model, d_head, n_heads, n_layers):
    """Counts the value map of a head as one square matrix in place of two thin ones."""
    one_head = 2 * d_model * d_head + d_model**2
    return one_head * n_heads * n_layers


def attention_parameters__wrong_float(d_model, d_head, n_heads, n_layers):
    """Counts in billions on the way, so the result is a float and not an int."""
    billions = 4 * d_model * d_head * n_heads * n_layers / 1e9
    return billions * 1e9


def attention_parameters__wrong_up_once_per_layer(d_model, d_head, n_heads, n_layers):
    """Counts the up matrix once per layer in place of once per head."""
    heads = n_heads * 3 * d_model * d_head
    up = d_head * d_model
    return (heads + up) * n_layers


def attention_parameters__wrong_biases_one_layer(d_model, d_head, n_heads, n_layers):
    """Two slips: adds biases to each matrix, and counts a single layer."""
    one_head = 4 * d_model * d_head + 3 * d_head + d_model
    return one_head * n_heads


def attention_parameters__right_list_of_shapes(d_model, d_head, n_heads, n_layers):
    """Lists the shapes of a head's four matrices and adds up their sizes layer by layer."""
    shapes = [(d_model, d_head)] * 3 + [(d_head, d_model)]
    total = 0
    for _ in range(n_layers):
        total += n_heads * sum(rows * columns for rows, columns in shapes)
    return total


def attention_parameters__right_object_product(d_model, d_head, n_heads, n_layers):
    """Multiplies Python integers of any size by np.prod over an array of objects."""
    factors = np.array([2 * d_model, 2 * d_head, n_heads, n_layers], dtype=object)
    return int(np.prod(factors))


# pointing_weights


def pointing_weights__wrong_keys_on_a_line(X, target):
    """Puts all keys on a line through the origin, where only the two outermost can ever have the largest score."""
    n = len(X)
    places = np.arange(n) - (n - 1) / 2
    keys = np.stack([places, np.zeros(n)], axis=1)
    queries = 50 * keys[target]
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__wrong_circle_closed(X, target):
    """Spreads the angles from 0 to 2π with both ends, so the first and the last key are the same point."""
    angles = np.linspace(0, 2 * np.pi, len(X))
    keys = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ (100 * keys[target]), inverse @ keys


def pointing_weights__wrong_looked_at_looks(X, target):
    """Gives token target[i] the query for key i, so the one who is looked at looks."""
    keys = _circle(len(X))
    queries = np.zeros_like(keys)
    queries[target] = 100 * keys
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__wrong_transpose_as_inverse(X, target):
    """Uses the transpose of X as if it were its inverse, which is right only for orthonormal tokens."""
    keys = _circle(len(X))
    queries = 100 * keys[target]
    return X.T @ queries, X.T @ keys


def pointing_weights__wrong_square_only(X, target):
    """Inverts X by np.linalg.inv, which needs as many tokens as features."""
    keys = _circle(len(X))
    queries = 100 * keys[target]
    inverse = np.linalg.inv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__wrong_short_and_swapped(X, target):
    """Two slips: queries of length 4, as in the example of two tokens, too short for many, and returns (W_K, W_Q)."""
    keys = _circle(len(X))
    queries = 4 * keys[target]
    inverse = np.linalg.pinv(X)
    W_Q, W_K = inverse @ queries, inverse @ keys
    return W_K, W_Q


def pointing_weights__right_parabola(X, target):
    """Keys on a parabola, so that a score is minus the squared distance of two places, but for a shift of the row."""
    places = np.arange(len(X)) - len(X) // 2
    keys = np.stack([places, places**2], axis=1).astype(float)
    queries = 6.0 * np.stack([2 * places[target], -np.ones(len(X))], axis=1)
    W_Q = np.linalg.lstsq(X, queries, rcond=None)[0]
    W_K = np.linalg.lstsq(X, keys, rcond=None)[0]
    return W_Q, W_K


def pointing_weights__right_circle_by_gram(X, target):
    """Keys on a circle as complex numbers, and both weights from one solution with the Gram matrix of the tokens."""
    n = len(X)
    corners = np.exp(2j * np.pi * (np.arange(n) + 0.5) / n)
    wanted = np.stack([corners[target], corners])
    queries, keys = np.stack([wanted.real, wanted.imag], axis=-1)
    solved = X.T @ np.linalg.solve(X @ X.T, np.hstack([90 * queries, keys]))
    return solved[:, :2].copy(), solved[:, 2:].copy()


# linear_memory


def linear_memory__wrong_plain_sum(keys, values):
    """Returns the plain sum of k^T v, which is exact only for keys of length 1 at right angles."""
    return keys.T @ values


def linear_memory__wrong_own_length_only(keys, values):
    """Divides each pair by the squared length of its key and adds up; keys not at right angles disturb each other."""
    squares = (keys**2).sum(axis=1, keepdims=True)
    safe = np.where(squares > 0, squares, 1)
    return (keys / safe).T @ values


def linear_memory__wrong_normal_equations(keys, values):
    """Solves the normal equations, whose matrix has no inverse with fewer pairs than features or dependent keys."""
    return np.linalg.solve(keys.T @ keys, keys.T @ values)


def linear_memory__wrong_ridge(keys, values):
    """Adds 0.01 to the diagonal of the normal equations, which pulls all answers towards 0."""
    d_k = keys.shape[1]
    return np.linalg.solve(keys.T @ keys + 0.01 * np.eye(d_k), keys.T @ values)


def linear_memory__wrong_one_pass(keys, values):
    """Corrects the memory for one pair after the other in a single pass, so later pairs spoil earlier ones."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values):
        square = key @ key
        if square > 0:
            S = S + np.outer(key, value - key @ S) / square
    return S


def linear_memory__wrong_transposed_and_averaged(keys, values):
    """Two slips: returns the transpose, (d_v, d_k), and divides by the number of pairs."""
    S = values.T @ np.linalg.pinv(keys, rcond=1e-12).T
    return S / len(keys)


def linear_memory__right_svd(keys, values):
    """Turns round the singular values of the keys by hand, leaving those out that are 0 but for rounding."""
    U, sizes, Vt = np.linalg.svd(keys, full_matrices=False)
    kept = sizes > max(keys.shape) * np.finfo(float).eps * sizes.max()
    return (Vt[kept].T / sizes[kept]) @ (U[:, kept].T @ values)


def linear_memory__right_gram_schmidt(keys, values):
    """Builds an orthonormal basis of the stored keys by Gram–Schmidt and solves for the coordinates in it by QR."""
    lengths = np.linalg.norm(keys, axis=1)
    basis = np.zeros((0, keys.shape[1]))
    rest = keys / np.where(lengths > 0, lengths, 1)[:, None]
    while True:
        left = np.linalg.norm(rest, axis=1)
        best = left.argmax()
        if left[best] < 1e-10:
            break
        direction = rest[best] / left[best]
        direction = direction - basis.T @ (basis @ direction)
        direction /= np.linalg.norm(direction)
        basis = np.vstack([basis, direction])
        rest = rest - np.outer(rest @ direction, direction)
    if len(basis) == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    q, r = np.linalg.qr(keys @ basis.T)
    return basis.T @ np.linalg.solve(r, q.T @ values)
