"""Answers of a class to the exercises of unit 1, projections: wrong and right ones."""

import math

import numpy as np


# ---------------------------------------------------------------------------
# 1.1 embed


def embed__wrong_sixth_reshape_for_transpose(tokens, E):
    """Picks the right columns, then makes (n, d_model) with reshape instead of a transpose: entries of tokens mix."""
    d_model = E.shape[0]
    picked = E[:, tokens]
    return picked.reshape(len(tokens), d_model)


def embed__wrong_sixth_table_of_integers(tokens, E):
    """Fills an array made with the dtype of tokens, so that every entry of E is cut to an integer."""
    X = np.zeros((tokens.shape[0], E.shape[0]), dtype=tokens.dtype)
    for i, t in enumerate(tokens):
        X[i] = E[:, t]
    return X.astype(float)


def embed__wrong_sixth_every_row_multi_hot(tokens, E):
    """Sets one_hot[:, tokens] = 1, which marks all words of the sentence in every row: each row is their sum."""
    n, vocab = len(tokens), E.shape[1]
    one_hot = np.zeros((n, vocab))
    one_hot[:, tokens] = 1.0
    return one_hot @ E.T


def embed__wrong_sixth_times_root_d_model(tokens, E):
    """Multiplies the embeddings by sqrt(d_model), as the embedding layer of the Transformer paper does."""
    return np.sqrt(E.shape[0]) * E.T[tokens]


def embed__wrong_sixth_last_word_is_padding(tokens, E):
    """Gives the last id of the vocabulary, taken for <pad>, a row of zeros instead of its column of E."""
    padding = E.shape[1] - 1
    rows = []
    for t in tokens:
        if t == padding:
            rows.append(np.zeros(E.shape[0]))
        else:
            rows.append(E[:, t])
    return np.array(rows)


def embed__wrong_sixth_each_word_once(tokens, E):
    """Takes np.unique(tokens): a row per distinct word, in the order of the ids, not a row per token."""
    distinct = np.unique(tokens)
    return np.stack([E[:, word] for word in distinct])


def embed__wrong_sixth_remembers_old_columns(tokens, E):
    """Keeps the embedding of every id in a dictionary on the function and uses it again when E has changed."""
    me = embed__wrong_sixth_remembers_old_columns
    if not hasattr(me, "known"):
        me.known = {}
    for t in tokens.tolist():
        if (t, len(E)) not in me.known:
            me.known[t, len(E)] = E[:, t].copy()
    return np.array([me.known[t, len(E)] for t in tokens.tolist()])


def embed__wrong_sixth_squeezed(tokens, E):
    """Squeezes the result, so that a single token or d_model = 1 loses an axis."""
    one_hot = (np.arange(E.shape[1]) == tokens[:, None]).astype(float)
    X = np.einsum("nv,dv->nd", one_hot, E)
    return X.squeeze()


def embed__right_sixth_take_along_axis(tokens, E):
    """Repeats the ids for every feature, takes along the word axis, and copies the transpose."""
    where = np.broadcast_to(tokens, (E.shape[0], tokens.shape[0]))
    return np.take_along_axis(E, where, axis=1).T.copy()


def embed__right_sixth_distinct_words_then_places(tokens, E):
    """Embeds each distinct word once and spreads these rows to the places where the words stand."""
    distinct, place = np.unique(tokens, return_inverse=True)
    table = np.array([[E[f, word] for f in range(E.shape[0])] for word in distinct])
    return table[place.ravel()]


# ---------------------------------------------------------------------------
# 1.2 soft_lookup


def soft_lookup__wrong_sixth_mixture_not_rescaled(query, keys, values):
    """Reads the pairs one by one with a running maximum; rescales the sum of powers, but not the mixture."""
    top, total = -np.inf, 0.0
    mixture = np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        score = float(key @ query)
        new_top = max(top, score)
        total = total * math.exp(top - new_top) + math.exp(score - new_top)
        mixture = mixture + math.exp(score - new_top) * value
        top = new_top
    return mixture / total


def soft_lookup__wrong_sixth_float32_scores(query, keys, values):
    """Computes scores and weights in float32, which spoils the differences between scores near 1e4."""
    q = query.astype(np.float32)
    k = keys.astype(np.float32)
    s = (k * q).sum(axis=1)
    w = np.exp(s - s.max())
    w /= w.sum()
    return w.astype(np.float64) @ values


def soft_lookup__wrong_sixth_softmax_plus_one(query, keys, values):
    """Adds the 1 of the 'quiet' softmax (here e^-max after the shift) to the sum: the weights sum to less than 1."""
    scores = keys @ query
    shift = max(scores.max(), 0.0)
    powers = np.exp(scores - shift)
    return powers @ values / (np.exp(-shift) + powers.sum())


def soft_lookup__wrong_sixth_shift_only_if_large(query, keys, values):
    """Shifts the scores only when the largest is above 700: if all are near -1e4, 0/0 gives NaN."""
    s = keys @ query
    if s.max() > 700:
        s = s - s.max()
    with np.errstate(all="ignore"):
        e = np.exp(s)
        return (e / np.sum(e)) @ values


def soft_lookup__wrong_sixth_cosine_scores(query, keys, values):
    """Divides each dot product by the lengths of query and key: scores are cosines, not plain dot products."""
    lengths = np.linalg.norm(query) * np.linalg.norm(keys, axis=1)
    s = keys @ query / np.where(lengths > 0, lengths, 1.0)
    w = np.exp(s - s.max())
    return w @ values / w.sum()


def soft_lookup__wrong_sixth_clipped_scores(query, keys, values):
    """Clips the scores to -500 ... 500 against overflow, so that all larger ones become equal."""

    def softmax(z):
        p = np.exp(np.clip(z, -500, 500))
        return p / p.sum()

    return np.dot(softmax(np.dot(keys, query)), values)


def soft_lookup__wrong_sixth_multiplies_keys_in_place(query, keys, values):
    """Writes the products of query and key into keys (keys *= query) before it sums them: the argument changes."""
    keys *= query
    scores = keys.sum(axis=1)
    weights = np.exp(scores - np.max(scores))
    weights = weights / weights.sum()
    return (weights[:, None] * values).sum(axis=0)


def soft_lookup__wrong_sixth_mean_of_weighted_values(query, keys, values):
    """Takes the mean of the weighted values over the n keys instead of their sum: too small by 1/n."""
    scores = np.einsum("nk,k->n", keys, query)
    scores = scores - scores.max()
    attention = np.exp(scores) / np.exp(scores).sum()
    weighted = attention.reshape(-1, 1) * values
    return weighted.mean(axis=0)


# ---------------------------------------------------------------------------
# 1.3 project_qkv


def project_qkv__wrong_sixth_one_buffer_for_two(X, W_Q, W_K, W_V):
    """Writes Q and K into the same buffer with out=, so that Q is overwritten by K."""
    buffer = np.empty((X.shape[0], W_Q.shape[1]))
    Q = np.matmul(X, W_Q, out=buffer)
    K = np.matmul(X, W_K, out=buffer)
    V = np.matmul(X, W_V)
    return Q, K, V


def project_qkv__wrong_sixth_equal_thirds(X, W_Q, W_K, W_V):
    """Multiplies by all weights at once, then cuts the result into three equal parts, as if d_v were d_k."""
    everything = X @ np.hstack([W_Q, W_K, W_V])
    Q, K, V = np.array_split(everything, 3, axis=1)
    return Q, K, V


def project_qkv__wrong_sixth_query_of_last_token(X, W_Q, W_K, W_V):
    """Makes a query for the last token alone, as when text is generated; keys and values for all."""
    last = X[-1:]
    return last @ W_Q, X @ W_K, X @ W_V


def project_qkv__wrong_sixth_keys_as_columns(X, W_Q, W_K, W_V):
    """Returns the keys transposed, (d_k, n), ready for Q @ K."""
    queries = X.dot(W_Q)
    keys = W_K.T.dot(X.T)
    values = X.dot(W_V)
    return queries, keys, values


def project_qkv__wrong_sixth_tokens_centred(X, W_Q, W_K, W_V):
    """Subtracts from every token the mean of its entries first, the beginning of a layer norm."""
    centred = X - X.mean(axis=1, keepdims=True)
    return tuple(centred @ W for W in (W_Q, W_K, W_V))


def project_qkv__wrong_sixth_queries_scaled(X, W_Q, W_K, W_V):
    """Divides the queries by sqrt(d_k) already here, as fused attention code does."""
    d_k = W_Q.shape[-1]
    Q = (X @ W_Q) * d_k**-0.5
    K = X @ W_K
    V = X @ W_V
    return (Q, K, V)


def project_qkv__wrong_sixth_generator(X, W_Q, W_K, W_V):
    """Returns a generator expression in parentheses, taken for a tuple."""
    return (np.einsum("nd,dk->nk", X, W) for W in (W_Q, W_K, W_V))


def project_qkv__wrong_sixth_columns_reshaped_to_rows(X, W_Q, W_K, W_V):
    """Computes W.T @ X.T, tokens as columns, and makes rows of them with reshape instead of a transpose."""

    def project(W):
        as_columns = W.T @ X.T
        return as_columns.reshape(X.shape[0], W.shape[1])

    return project(W_Q), project(W_K), project(W_V)


def project_qkv__right_sixth_all_at_once_then_cut(X, W_Q, W_K, W_V):
    """One product with the weights side by side, cut after d_k and 2 d_k columns, each part copied."""
    d_k = W_Q.shape[1]
    everything = np.dot(X, np.concatenate((W_Q, W_K, W_V), axis=1))
    return tuple(
        part.copy() for part in np.split(everything, [d_k, 2 * d_k], axis=1)
    )


def project_qkv__right_sixth_sum_over_features(X, W_Q, W_K, W_V):
    """Adds up outer products: column f of X times row f of the weights, over all features f."""
    made = []
    for W in (W_Q, W_K, W_V):
        total = np.zeros((X.shape[0], W.shape[1]))
        for f in range(X.shape[1]):
            total += np.outer(X[:, f], W[f])
        made.append(total)
    return tuple(made)


# ---------------------------------------------------------------------------
# 1.4 project_token


def project_token__wrong_sixth_weights_reshaped(x, W_Q, W_K, W_V):
    """Multiplies from the right and makes the weights fit with reshape(d_model, -1) instead of a transpose."""
    d_model = x.shape[0]
    q = x @ W_Q.reshape(d_model, -1)
    k = x @ W_K.reshape(d_model, -1)
    v = x @ W_V.reshape(d_model, -1)
    return q, k, v


def project_token__wrong_sixth_column_matrices(x, W_Q, W_K, W_V):
    """Makes x a (d_model, 1) matrix and returns matrices of one column, (d_head, 1), instead of one axis."""
    column = x[:, np.newaxis]
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_sixth_sum_over_rows(x, W_Q, W_K, W_V):
    """Multiplies entry by entry and sums over axis 0, the rows of W, not over d_model."""
    return tuple((W * x).sum(axis=0) for W in (W_Q, W_K, W_V))


def project_token__wrong_sixth_single_entry_loses_axis(x, W_Q, W_K, W_V):
    """Multiplies a (d, 1) column and squeezes all axes of size 1: with d_head = 1 no axis is left."""
    column = x.reshape(-1, 1)
    q, k, v = (np.squeeze(W.dot(column)) for W in (W_Q, W_K, W_V))
    return q, k, v


def project_token__wrong_sixth_columns_that_are_on(x, W_Q, W_K, W_V):
    """Adds the columns of the features that are not 0, as in the example by hand, without their coefficients."""
    on = np.flatnonzero(x)
    q = W_Q[:, on].sum(axis=1)
    k = W_K[:, on].sum(axis=1)
    v = W_V[:, on].sum(axis=1)
    return q, k, v


def project_token__wrong_sixth_total_not_reset(x, W_Q, W_K, W_V):
    """Starts the total outside the loop over rows: every entry holds those before it, too."""

    def times(W):
        result = np.zeros(W.shape[0])
        total = 0.0
        for i in range(W.shape[0]):
            for j in range(W.shape[1]):
                total += W[i, j] * x[j]
            result[i] = total
        return result

    return times(W_Q), times(W_K), times(W_V)


def project_token__wrong_sixth_query_and_key_swapped(x, W_Q, W_K, W_V):
    """Unpacks the three products in the order k, q, v: query and key change places."""
    k, q, v = [np.matmul(W, x) for W in (W_Q, W_K, W_V)]
    return q, k, v


def project_token__wrong_sixth_value_as_wide_as_key(x, W_Q, W_K, W_V):
    """Makes the value d_head long: cut off, or filled up with zeros, where d_v is another width."""
    d_head = len(W_Q)
    q, k, v = np.zeros((3, d_head))
    for i in range(d_head):
        q[i] = W_Q[i] @ x
        k[i] = W_K[i] @ x
        if i < len(W_V):
            v[i] = W_V[i] @ x
    return q, k, v


def project_token__right_sixth_as_a_row(x, W_Q, W_K, W_V):
    """Transposes: the token as a row times the stacked weights' transpose, then cut by the numbers of rows."""
    row = x[None, :] @ np.vstack((W_Q, W_K, W_V)).T
    d_head = W_Q.shape[0]
    flat = row[0]
    return (
        flat[:d_head].copy(),
        flat[d_head : 2 * d_head].copy(),
        flat[2 * d_head :].copy(),
    )


def project_token__right_sixth_mix_of_columns(x, W_Q, W_K, W_V):
    """Adds up the columns of W, each times the entry of x that belongs to it."""

    def mix(W):
        made = np.zeros(W.shape[0])
        for entry, column in zip(x, W.T):
            made = made + entry * column
        return made

    return mix(W_Q), mix(W_K), mix(W_V)


# ---------------------------------------------------------------------------
# 1.5 low_rank_value


def low_rank_value__wrong_sixth_letter_used_twice(X, W_V_down, W_V_up):
    """Calls both widths d in einsum 'nd,dh,hd->nd': only the diagonal of down @ up is used."""
    return np.einsum("nd,dh,hd->nd", X, W_V_down, W_V_up)


def low_rank_value__wrong_sixth_up_with_down_transposed(X, W_V_down, W_V_up):
    """Goes up again with the transpose of W_V_down, tied weights, and never uses W_V_up."""
    narrow = X @ W_V_down
    return narrow @ W_V_down.T


def low_rank_value__wrong_sixth_acts_from_left(X, W_V_down, W_V_up):
    """Builds the square map and applies it from the left to tokens as columns: its transpose acts on the rows."""
    square = np.dot(W_V_down, W_V_up)
    return np.dot(square, X.T).T


def low_rank_value__wrong_sixth_token_added(X, W_V_down, W_V_up):
    """Adds the message to the token (a residual connection) instead of returning the message."""
    message = X.dot(W_V_down).dot(W_V_up)
    return X + message


def low_rank_value__wrong_sixth_return_in_loop(X, W_V_down, W_V_up):
    """Returns inside the loop over the features of the head, so that only the first of them counts."""
    result = np.zeros(X.shape)
    for h in range(W_V_down.shape[1]):
        feature = X @ W_V_down[:, h]
        result += np.outer(feature, W_V_up[h])
        return result


def low_rank_value__wrong_sixth_tokens_averaged(X, W_V_down, W_V_up):
    """Mixes the narrow values of all tokens with equal weights 1/n before going up, as if attention came first."""
    n = len(X)
    values = X @ W_V_down
    attention = np.full((n, n), 1.0 / n)
    return attention @ values @ W_V_up


def low_rank_value__wrong_sixth_over_root_d_head(X, W_V_down, W_V_up):
    """Divides the narrow values by sqrt(d_head) before it goes up."""
    d_head = W_V_up.shape[0]
    down = np.matmul(X, W_V_down) / math.sqrt(d_head)
    return np.matmul(down, W_V_up)


def low_rank_value__wrong_sixth_relu_between(X, W_V_down, W_V_up):
    """Puts a ReLU between the two factors, as between the layers of a feed-forward net."""
    hidden = np.maximum(0, X @ W_V_down)
    return hidden @ W_V_up


def low_rank_value__right_sixth_rank_one_terms(X, W_V_down, W_V_up):
    """Adds up one map of rank 1 for each feature of the head, as a single square matrix, then applies it."""
    square = np.zeros((X.shape[1], W_V_up.shape[1]))
    for down, up in zip(W_V_down.T, W_V_up):
        square += np.multiply.outer(down, up)
    return np.tensordot(X, square, axes=1)


def low_rank_value__right_sixth_columns_from_left(X, W_V_down, W_V_up):
    """Each token a column; the transposed weights act from the left; the messages are stacked as rows."""
    down, up = W_V_down.T, W_V_up.T
    return np.stack([up @ (down @ token) for token in X], axis=0)


# ---------------------------------------------------------------------------
# 1.6 attention_parameters


def attention_parameters__wrong_sixth_square_output(d_model, d_head, n_heads, n_layers):
    """Counts the up matrices of a layer as one square W_O, d_model x d_model, whatever d_head * n_heads is."""
    qkv = 3 * d_model * (d_head * n_heads)
    w_o = d_model * d_model
    return n_layers * (qkv + w_o)


def attention_parameters__wrong_sixth_head_width_from_model(d_model, d_head, n_heads, n_layers):
    """Overwrites d_head with d_model // n_heads."""
    d_head = d_model // n_heads
    per_head = 4 * d_model * d_head
    return per_head * n_heads * n_layers


def attention_parameters__wrong_sixth_shared_keys_and_values(d_model, d_head, n_heads, n_layers):
    """Counts the key and value-down matrices once a layer (multi-query attention), only query and up per head."""
    matrix = d_model * d_head
    total = 0
    total += matrix * n_heads * n_layers  # queries
    total += matrix * n_layers  # keys
    total += matrix * n_layers  # down
    total += matrix * n_heads * n_layers  # up
    return total


def attention_parameters__wrong_sixth_float_table(d_model, d_head, n_heads, n_layers):
    """Sums a np.zeros table of floats and makes an int of it: the last digits of large counts are lost."""
    table = np.zeros((n_layers, n_heads))
    table[:] = 2 * (d_model * d_head) + 2 * (d_head * d_model)
    return int(table.sum())


def attention_parameters__wrong_sixth_square_value_map(d_model, d_head, n_heads, n_layers):
    """Counts the value map as the product of its two factors, one square matrix of d_model x d_model a head."""
    query = key = d_model * d_head
    value = d_model**2
    return (query + key + value) * n_heads * n_layers


def attention_parameters__wrong_sixth_missing_parentheses(d_model, d_head, n_heads, n_layers):
    """Leaves out the parentheses of the sum: only the value matrices are multiplied by heads and layers."""
    qk = 2 * d_model * d_head
    v = d_model * d_head + d_head * d_model
    return qk + v * n_heads * n_layers


def attention_parameters__wrong_sixth_layer_not_reset(d_model, d_head, n_heads, n_layers):
    """Does not set the count of a layer back to 0: layer l is counted with all the layers before it."""
    model = 0
    layer = 0
    for _ in range(n_layers):
        for _ in range(n_heads):
            layer += 4 * d_model * d_head
        model += layer
    return model


def attention_parameters__wrong_sixth_with_biases(d_model, d_head, n_heads, n_layers):
    """Counts a bias with each of the four maps, as nn.Linear has one."""

    def linear(fan_in, fan_out):
        return fan_in * fan_out + fan_out

    head = 3 * linear(d_model, d_head) + linear(d_head, d_model)
    return n_layers * n_heads * head


def attention_parameters__right_sixth_shapes(d_model, d_head, n_heads, n_layers):
    """Lists the shapes of a head's four matrices and adds up their sizes as Python integers."""
    d_model, d_head, n_heads, n_layers = map(int, (d_model, d_head, n_heads, n_layers))
    thin, flat = (d_model, d_head), (d_head, d_model)
    shapes = {"query": thin, "key": thin, "down": thin, "up": flat}
    head = sum(math.prod(shape) for shape in shapes.values())
    return math.prod((head, n_heads, n_layers))


def attention_parameters__right_sixth_doubling(d_model, d_head, n_heads, n_layers):
    """Multiplies by doubling and adding (Russian peasants), and by 4 with a shift of two bits."""

    def times(a, b):
        total = 0
        while b:
            if b & 1:
                total += a
            a, b = a << 1, b >> 1
        return total

    count = int(d_model)
    for factor in (d_head, n_heads, n_layers):
        count = times(count, int(factor))
    return count << 2


# ---------------------------------------------------------------------------
# 1.7 pointing_weights


def pointing_weights__wrong_sixth_rows_taken_for_orthogonal(X, target):
    """Solves X @ W = wanted with X.T over the squared lengths of the rows, right only for rows at right angles."""
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    K = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    Q = 400 * K[target]
    back = X.T / (X**2).sum(axis=1)
    return back @ Q, back @ K


def pointing_weights__wrong_sixth_queries_of_length_thirty(X, target):
    """Makes the queries 30 long for every n: with 16 keys on the circle the rivals keep too much weight."""
    n = X.shape[0]
    turn = np.exp(2j * np.pi * np.arange(n) / n)
    K = np.column_stack((turn.real, turn.imag))
    X_inv = np.linalg.pinv(X)
    return X_inv @ (30 * K[target]), X_inv @ K


def pointing_weights__wrong_sixth_circle_closed_by_linspace(X, target):
    """Takes linspace(0, 2 pi, n) with its endpoint: the first and the last key are the same point."""
    n, _ = X.shape
    t = np.linspace(0, 2 * np.pi, n)
    points = np.array([np.cos(t), np.sin(t)]).T
    W_K = np.linalg.lstsq(X, points, rcond=None)[0]
    W_Q = np.linalg.lstsq(X, 1000.0 * points[target], rcond=None)[0]
    return W_Q, W_K


def pointing_weights__wrong_sixth_target_gets_query(X, target):
    """Writes Q[target[i]] = key i, so that the target looks at the token instead of the token at the target."""
    n = len(target)
    K, Q = np.zeros((n, 2)), np.zeros((n, 2))
    for i in range(n):
        K[i] = math.cos(2 * math.pi * i / n), math.sin(2 * math.pi * i / n)
    for i in range(n):
        Q[target[i]] = 500 * K[i]
    P = np.linalg.pinv(X)
    return P @ Q, P @ K


def pointing_weights__wrong_sixth_circle_turned_by_chance(X, target):
    """Begins the circle of keys at a random angle without a seed: every call gives other weights."""
    n = len(X)
    start = np.random.default_rng().uniform(0, 2 * np.pi)
    angle = start + np.arange(n) * (2 * np.pi / n)
    keys = np.c_[np.cos(angle), np.sin(angle)]
    W_K = np.linalg.pinv(X) @ keys
    W_Q = np.linalg.pinv(X) @ (300 * keys[target])
    return W_Q, W_K


def pointing_weights__wrong_sixth_first_n_features(X, target):
    """Uses the first n features alone, as if that square part of X could always be inverted."""
    n, d_model = X.shape
    angle = 2 * np.pi / n * np.arange(n)
    K = np.stack((np.cos(angle), np.sin(angle)), axis=-1)
    inverse = np.linalg.pinv(X[:, :n])
    W_Q, W_K = np.zeros((d_model, 2)), np.zeros((d_model, 2))
    W_Q[:n] = inverse @ (K[target] * 256)
    W_K[:n] = inverse @ K
    return W_Q, W_K


def pointing_weights__wrong_sixth_own_target_left_out(X, target):
    """Gives a token that is its own target a query of zeros, as if nobody looked at oneself."""
    n = len(X)
    angle = np.arange(n) * 2 * np.pi / n
    K = np.array([(np.cos(a), np.sin(a)) for a in angle])
    Q = np.array([0 * K[i] if t == i else 350 * K[t] for i, t in enumerate(target)])
    solve = np.linalg.pinv(X)
    return solve @ Q, solve @ K


def pointing_weights__wrong_sixth_small_directions_cut(X, target):
    """Calls pinv with rcond=0.1: the directions of X below a tenth of the largest are thrown away."""
    n = len(X)
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    K = np.vstack((np.cos(angle), np.sin(angle))).T
    Q = 400.0 * K[target]
    inverse = np.linalg.pinv(X, rcond=0.1)
    return inverse @ Q, inverse @ K


def pointing_weights__right_sixth_parabola(X, target):
    """Keys (j, j^2) on a parabola, queries 6 (2 t, -1): score 6 t^2 - 6 (t - j)^2; W by a QR of X.T."""
    n = X.shape[0]
    j = np.arange(n) - (n - 1) / 2
    t = j[target]
    K = np.column_stack((j, j**2))
    Q = 6.0 * np.column_stack((2 * t, -np.ones(n)))
    basis, R = np.linalg.qr(X.T)  # X = R.T @ basis.T
    return basis @ np.linalg.solve(R.T, Q), basis @ np.linalg.solve(R.T, K)


def pointing_weights__right_sixth_directions_for_looked_at(X, target):
    """Only tokens that somebody looks at get a direction of the plane; the keys of all others are zero."""
    wanted, which = np.unique(target, return_inverse=True)
    angle = 2 * np.pi * (np.arange(len(wanted)) + 0.25) / len(wanted)
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    K = np.zeros((len(X), 2))
    K[wanted] = direction
    Q = 200 * direction[which.ravel()]
    W = np.linalg.lstsq(X, np.hstack([Q, K]), rcond=None)[0]
    return W[:, :2].copy(), W[:, 2:].copy()


# ---------------------------------------------------------------------------
# 1.8 linear_memory


def linear_memory__wrong_sixth_delta_rule_once(keys, values):
    """Corrects S by the delta rule, pair after pair, in one pass: the first pairs are partly written over."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values):
        length = k @ k
        if length > 0:
            S += np.outer(k, v - k @ S) / length
    return S


def linear_memory__wrong_sixth_keys_rounded_to_decimals(keys, values):
    """Rounds the keys to 7 decimals to undo the rounding, then believes all that the plain pinv finds."""
    cleaned = np.round(keys, 7)
    return np.linalg.pinv(cleaned) @ values


def linear_memory__wrong_sixth_tolerance_on_squares(keys, values):
    """Applies the relative tolerance 1e-7 to keys.T @ keys, where it stands for squares: short keys are lost."""
    gram = keys.T @ keys
    return np.linalg.pinv(gram, rcond=1e-7) @ (keys.T @ values)


def linear_memory__wrong_sixth_equal_keys_merged(keys, values):
    """Replaces equal keys by one with the mean of their values: a key that comes often counts only once."""
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.ravel()
    means = np.array([values[which == i].mean(axis=0) for i in range(len(distinct))])
    left, strength, right = np.linalg.svd(distinct, full_matrices=False)
    noise = 2e-8 * np.abs(keys).max() * math.sqrt(keys.size)
    keep = strength > noise
    return right[keep].T @ ((left[:, keep].T @ means) / strength[keep, None])


def linear_memory__wrong_sixth_fewest_features(keys, values):
    """Solves with the first independent features and puts zeros at the others: not the least sum of squares."""
    d_k = keys.shape[1]
    noise = 2e-8 * np.abs(keys).max() * math.sqrt(keys.size)
    chosen = []
    for f in range(d_k):
        if np.linalg.matrix_rank(keys[:, chosen + [f]], tol=noise) > len(chosen):
            chosen.append(f)
    S = np.zeros((d_k, values.shape[1]))
    if chosen:
        S[chosen] = np.linalg.lstsq(keys[:, chosen], values, rcond=None)[0]
    return S


def linear_memory__wrong_sixth_centred_regression(keys, values):
    """Subtracts the means of keys and values first, as a regression with an intercept does."""
    k = keys - keys.mean(axis=0)
    v = values - values.mean(axis=0)
    U, s, Vt = np.linalg.svd(k, full_matrices=False)
    noise = 4e-8 * np.abs(keys).max() * math.sqrt(keys.size)
    inverse = np.array([1 / x if x > noise else 0.0 for x in s])
    return Vt.T @ (inverse[:, None] * (U.T @ v))


def linear_memory__wrong_sixth_hundred_gradient_steps(keys, values):
    """Walks 100 steps down the gradient from zero and stops, long before it has arrived for most keys."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    size = (keys**2).sum()
    if size == 0:
        return S
    for _ in range(100):
        gradient = keys.T @ (keys @ S - values)
        S = S - gradient / size
    return S


def linear_memory__wrong_sixth_absolute_cutoff(keys, values):
    """Drops singular values below 1e-6, an absolute number, whatever the size of the keys."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    S = np.zeros((keys.shape[1], values.shape[1]))
    for i in range(len(s)):
        if s[i] > 1e-6:
            S += np.outer(Vt[i], U[:, i] @ values / s[i])
    return S
