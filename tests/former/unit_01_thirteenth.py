"""Answers to the exercises of unit 1, wrong ones and right ones, as students would write them."""

import numpy as np


def _softmax(scores, axis=-1):
    """The softmax along an axis, shifted so that no exponential overflows."""
    powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


_rooms = {}  # arrays that one of the answers to embed keeps from call to call


# ------- 1.1 embed


def embed__wrong_thirteenth_one_hot_holds_the_number(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Writes the number of the word into the one-hot vector, where a 1 would be due: row i is t times column t."""
    n, vocab = len(tokens), E.shape[1]
    hot = np.zeros((n, vocab))
    hot[np.arange(n), tokens] = tokens
    return hot @ E.T


def embed__wrong_thirteenth_every_word_once(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Gives one row per different word (in order of first appearance); due is one row per token, repeats too."""
    seen = list(dict.fromkeys(int(t) for t in tokens))
    return np.stack([E[:, t] for t in seen])


def embed__wrong_thirteenth_mixed_with_what_came_before(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Thinks that an embedding depends on its context: row i is the mean of columns of tokens 0 to i, not column i."""
    alone = E.T[tokens]
    so_far = np.cumsum(alone, axis=0)
    how_many = np.arange(1, len(tokens) + 1).reshape(-1, 1)
    return so_far / how_many


def embed__wrong_thirteenth_reshape_for_transpose(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Brings the picked columns to shape (n, d_model) by reshape, where a transpose is due: the entries get mixed."""
    d_model = E.shape[0]
    picked = E[:, tokens]
    return picked.reshape(len(tokens), d_model)


def embed__wrong_thirteenth_stride_of_flat_index(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Picks from the flat matrix, and steps by d_model from row to row of E, where vocab is due (square E: right)."""
    d_model, vocab = E.shape
    flat = E.ravel()
    feature = np.arange(d_model)
    where = tokens[:, np.newaxis] + d_model * feature[np.newaxis, :]
    return flat[where]


def embed__wrong_thirteenth_tokens_stay_columns(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Reads that the embeddings stay columns and returns (d_model, n); due is (n, d_model), a row per token."""
    return np.take(E, tokens, axis=1)


def embed__wrong_thirteenth_axis_of_length_one_lost(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Squeezes the result, so that with one token or with d_model = 1 an axis gets lost, which must stay."""
    rows = []
    for t in tokens:
        rows.append(E[:, t : t + 1].T)  # (1, d_model)
    return np.array(rows).squeeze()


def embed__wrong_thirteenth_same_array_handed_out_again(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Keeps one array per shape and fills it anew in every call, so an earlier result of that shape changes."""
    shape = (tokens.shape[0], E.shape[0])
    if shape not in _rooms:
        _rooms[shape] = np.empty(shape)
    room = _rooms[shape]
    for i in range(shape[0]):
        room[i] = E[:, tokens[i]]
    return room


def embed__right_thirteenth_by_lists_of_python(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Right: turns E into a list of its columns with zip, and looks the words up in it."""
    columns = list(zip(*E.tolist(), strict=True))
    sentence = [columns[t] for t in tokens.tolist()]
    return np.array(sentence, dtype=E.dtype)


# ------- 1.2 soft_lookup


def soft_lookup__wrong_thirteenth_cosine_as_score(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compares directions alone: scores are cosines, where plain dot products (with the lengths) are due."""

    def unit(v):
        size = np.linalg.norm(v, axis=-1, keepdims=True)
        return v / np.where(size == 0, 1, size)

    cosines = unit(keys) @ unit(query)
    return _softmax(cosines) @ values


def soft_lookup__wrong_thirteenth_scaled_by_root_of_width(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Divides the scores by the root of d_k, as one does later; here plain dot products are due."""
    d_k = query.shape[0]
    s = np.einsum("jd,d->j", keys, query) / np.sqrt(d_k)
    e = np.exp(s - s.max())
    a = e / e.sum()
    return np.einsum("j,jv->v", a, values)


def soft_lookup__wrong_thirteenth_only_best_key_answers(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Looks up hard, as in a dictionary: returns the value of the best key; due is the mixture of all values."""
    best, best_score = 0, -np.inf
    for j, key in enumerate(keys):
        score = float(key @ query)
        if score > best_score:
            best, best_score = j, score
    return values[best].copy()


def soft_lookup__wrong_thirteenth_sum_of_unshifted_powers(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Shifts the scores above the fraction bar and forgets it below: the weights do not sum to 1."""
    scores = keys @ query
    shifted = scores - np.max(scores)
    weights = np.exp(shifted) / np.sum(np.exp(scores))
    return weights @ values


def soft_lookup__wrong_thirteenth_running_sum_not_rescaled(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One pass with a running maximum; when it rises the total is rescaled, but the mixture is forgotten."""
    highest = -np.inf
    total = 0.0
    mixture = np.zeros(values.shape[1])
    for key, value in zip(keys, values, strict=True):
        score = np.dot(query, key)
        if score > highest:
            total = total * np.exp(highest - score)
            highest = score
        power = np.exp(score - highest)
        total = total + power
        mixture = mixture + power * value
    return mixture / total


def soft_lookup__wrong_thirteenth_clips_scores(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Reads the trap as a call to cut scores off at -700 and 700, where a shift is due: large ones become equal."""
    scores = np.clip(keys @ query, -700.0, 700.0)
    powers = np.exp(scores)
    return (powers / powers.sum()) @ values


def soft_lookup__wrong_thirteenth_shift_by_the_mean(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Shifts by the mean of the scores, so scores far from each other still overflow; due is a shift by the largest."""
    match = np.array([query @ k for k in keys])
    match = match - match.mean()
    power = np.exp(match)
    share = power / power.sum()
    return (share[:, None] * values).sum(axis=0)


def soft_lookup__wrong_thirteenth_keys_overwritten(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Multiplies the keys by the query in place: the result is right, but the input keys are changed."""
    keys *= query
    scores = keys.sum(axis=1)
    scores -= scores.max()
    weights = np.exp(scores)
    weights /= weights.sum()
    return weights @ values


def soft_lookup__right_thirteenth_by_ratios_of_pairs(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Right: the weight of j is 1 / sum over l of exp(s_l - s_j), where an overflow gives 0, as it should."""
    s = (keys @ query).astype(np.float64)
    with np.errstate(over="ignore"):
        rivals = np.exp(s[:, None] - s[None, :]).sum(axis=0)
    return values.T @ (1.0 / rivals)


# ------- 1.3 project_qkv


def project_qkv__wrong_thirteenth_values_already_mixed(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Goes on to the lookup and returns its output A V as third array; due is V itself, X @ W_V."""
    Q, K = X @ W_Q, X @ W_K
    A = _softmax(Q @ K.T, axis=1)
    return Q, K, A @ (X @ W_V)


def project_qkv__wrong_thirteenth_projection_as_in_geometry(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes 'projection' from geometry: coordinates of the token's orthogonal projection onto the columns of W.

    Due is just the product X @ W.
    """

    def onto(W):
        return (np.linalg.pinv(W) @ X.T).T

    return onto(W_Q), onto(W_K), onto(W_V)


def project_qkv__wrong_thirteenth_keys_and_values_of_the_others(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes keys and values of row i from the sum of all other tokens; due is: from the same token as the query."""
    everybody = X.sum(axis=0, keepdims=True)
    others = everybody - X
    queries = np.matmul(X, W_Q)
    keys = np.matmul(others, W_K)
    values = np.matmul(others, W_V)
    return queries, keys, values


def project_qkv__wrong_thirteenth_order_of_the_tuple(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (Q, V, K); due is (Q, K, V)."""
    made = {name: X.dot(W) for name, W in (("q", W_Q), ("v", W_V), ("k", W_K))}
    return tuple(made.values())


def project_qkv__wrong_thirteenth_loop_over_width_of_keys(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fills the columns of V in the loop over d_k, so columns from d_k on stay 0; due is a loop over d_v."""
    n, d_k, d_v = X.shape[0], W_Q.shape[1], W_V.shape[1]
    Q = np.zeros((n, d_k))
    K = np.zeros((n, d_k))
    V = np.zeros((n, d_v))
    for column in range(d_k):
        Q[:, column] = X @ W_Q[:, column]
        K[:, column] = X @ W_K[:, column]
        if column < d_v:
            V[:, column] = X @ W_V[:, column]
    return Q, K, V


def project_qkv__wrong_thirteenth_one_array_for_the_tuple(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reads 'return them as one' and sets the three side by side in one array; due is a tuple of three arrays."""
    return np.concatenate([X @ W_Q, X @ W_K, X @ W_V], axis=1)


def project_qkv__wrong_thirteenth_three_equal_parts(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One product with all weights side by side, cut into thirds: wrong where d_v differs from d_k, as it may."""
    fused = X @ np.hstack((W_Q, W_K, W_V))
    third = fused.shape[1] // 3
    return fused[:, :third].copy(), fused[:, third : 2 * third].copy(), fused[:, 2 * third :].copy()


def project_qkv__wrong_thirteenth_float32_to_save_memory(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes in float32; due is that float64 stays float64."""
    small = X.astype(np.float32)
    return tuple(small @ W.astype(np.float32) for W in (W_Q, W_K, W_V))


def project_qkv__right_thirteenth_by_outer_products(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right: adds up, feature by feature of the model, the outer product of a column of X and a row of W."""
    answers = []
    for W in (W_Q, W_K, W_V):
        total = np.zeros((X.shape[0], W.shape[1]))
        for column, row in zip(X.T, W, strict=True):
            total += np.multiply.outer(column, row)
        answers.append(total)
    q, k, v = answers
    return q, k, v


# ------- 1.4 project_token


def project_token__wrong_thirteenth_reshape_as_translation(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Brings the weights to the row convention by reshape, thinking that it transposes; due is W @ x, or x @ W.T."""
    d_model = x.shape[0]
    q = x @ W_Q.reshape(d_model, -1)
    k = x @ W_K.reshape(d_model, -1)
    v = x @ W_V.reshape(d_model, -1)
    return q, k, v


def project_token__wrong_thirteenth_value_times_own_score(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes the value as loud as the token's own query fits its own key (times q . k); due is W_V @ x alone."""
    q = np.dot(W_Q, x)
    k = np.dot(W_K, x)
    loudness = q @ k
    return q, k, loudness * np.dot(W_V, x)


def project_token__wrong_thirteenth_token_made_length_one(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides the token by its length first, as if only its direction told something; due is x as it is."""
    length = np.sqrt(np.sum(x * x))
    direction = x / length if length > 0 else x
    return tuple(np.matmul(W, direction) for W in (W_Q, W_K, W_V))


def project_token__wrong_thirteenth_key_before_query(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unpacks in another order than it computes, so that key and query are exchanged in the result."""
    everything = [np.einsum("hm,m->h", W, x) for W in (W_Q, W_K, W_V)]
    key, query, value = everything
    return query, key, value


def project_token__wrong_thirteenth_total_not_reset(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forgets to set the total back to 0 before each row of the weights, so the entries are running sums."""

    def product(W):
        out = np.empty(W.shape[0])
        total = 0.0
        for h in range(W.shape[0]):
            for m in range(W.shape[1]):
                total += W[h, m] * x[m]
            out[h] = total
        return out

    return product(W_Q), product(W_K), product(W_V)


def project_token__wrong_thirteenth_columns_with_two_axes(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reads 'a column' as an array of shape (d, 1) and returns such ones; due are arrays with one axis."""
    column = x[:, np.newaxis]
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_thirteenth_head_of_width_one(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squeezes the weights, so that a single row gives a bare number; due is shape (1,)."""
    # np.dot of a vector with a number scales it: that serves d_model = 1
    token = np.squeeze(x)
    wq, wk, wv = np.squeeze(W_Q), np.squeeze(W_K), np.squeeze(W_V)
    return np.dot(wq, token), np.dot(wk, token), np.dot(wv, token)


def project_token__wrong_thirteenth_shape_of_token_changed(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes x itself a column by setting its shape in place: results right, but the input has two axes afterwards."""
    x.shape = (x.size, 1)
    q, k, v = (W @ x for W in (W_Q, W_K, W_V))
    return q.ravel(), k.ravel(), v.ravel()


def project_token__right_thirteenth_by_one_tall_matrix(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right: sets the weights on top of each other, scales their columns by x, adds along the rows, and cuts."""
    tall = np.vstack((W_Q, W_K, W_V))
    sums = (tall * x).sum(axis=1)
    first = W_Q.shape[0]
    second = first + W_K.shape[0]
    return sums[:first], sums[first:second], sums[second:]


# ------- 1.5 low_rank_value


def low_rank_value__wrong_thirteenth_relu_in_between(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Sets negative numbers between the factors to 0, as in a small network; due is nothing in between."""
    hidden = np.maximum(X @ W_V_down, 0)
    return hidden @ W_V_up


def low_rank_value__wrong_thirteenth_up_undoes_down(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Thinks that the way up is the way down backwards and uses the transpose of W_V_down; due is W_V_up."""
    narrow = np.einsum("nm,mh->nh", X, W_V_down)
    return np.einsum("nh,mh->nm", narrow, W_V_down)


def low_rank_value__wrong_thirteenth_message_added_to_token(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Adds the message to the token's vector at once, X + message; due is the message alone."""
    messages = X @ W_V_down @ W_V_up
    return X + messages


def low_rank_value__wrong_thirteenth_square_map_transposed(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Builds the square map as up.T @ down.T, which fits in shape and is the transpose of the one that is due."""
    value_map = W_V_up.T @ W_V_down.T  # (d_model, d_model)
    return np.matmul(X, value_map)


def low_rank_value__wrong_thirteenth_last_feature_left_out(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Adds up the features of the head in a loop that ends one too early; all d_head of them are due."""
    n, d_model = X.shape
    d_head = W_V_down.shape[1]
    out = np.zeros((n, d_model))
    h = 0
    while h < d_head - 1:
        strength = X @ W_V_down[:, h]
        out += strength[:, None] * W_V_up[h][None, :]
        h += 1
    return out


def low_rank_value__wrong_thirteenth_result_with_tokens_as_columns(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Follows section 4 and lets the weights act from the left: returns (d_model, n); due is (n, d_model)."""
    columns = X.T
    down = W_V_down.T @ columns
    return W_V_up.T @ down


def low_rank_value__wrong_thirteenth_where_head_is_wide(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Takes the cheaper order, and where d_head is larger than d_model multiplies X by the transposed square map."""
    d_model, d_head = W_V_down.shape
    if d_head > d_model:  # cheaper to make the square matrix first
        square = np.zeros((d_model, d_model))
        for h in range(d_head):
            square += np.outer(W_V_up[h], W_V_down[:, h])
        return X @ square
    return (X @ W_V_down) @ W_V_up


def low_rank_value__wrong_thirteenth_result_written_into_tokens(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Writes the result into X, since it has the same shape: right numbers, but the input is changed."""
    down = np.dot(X, W_V_down)
    np.matmul(down, W_V_up, out=X)
    return X


def low_rank_value__right_thirteenth_by_multi_dot(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Right: lets NumPy choose the order of the two products."""
    return np.linalg.multi_dot([X, W_V_down, W_V_up])


# ------- 1.6 attention_parameters


def attention_parameters__wrong_thirteenth_heads_share_the_width(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Thinks that the heads always share out d_model: 4 d_model^2 a layer; due is d_head * n_heads as given."""
    per_layer = 4 * d_model * d_model
    return per_layer * n_layers


def attention_parameters__wrong_thirteenth_value_map_square(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Counts the value map as one square matrix, d_model^2 a head; due are two thin factors."""
    query = key = d_model * d_head
    value = d_model**2
    head = query + key + value
    return head * n_heads * n_layers


def attention_parameters__wrong_thirteenth_one_way_up_per_layer(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Counts three matrices a head and a single value-up matrix a layer, shared by all heads; due is one per head."""
    matrix = d_model * d_head
    layer = matrix * 3 * n_heads + matrix
    return sum(layer for _ in range(n_layers))


def attention_parameters__wrong_thirteenth_heads_squared(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Multiplies by n_heads twice, where the second time n_layers is due (with 96 and 96 one does not see it)."""
    in_a_head = 4 * d_head * d_model
    in_a_layer = n_heads * in_a_head
    in_the_model = n_heads * in_a_layer
    return in_the_model


def attention_parameters__wrong_thirteenth_layer_count_not_reset(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Forgets to set the count of a layer back to 0: layer l is counted l + 1 times, where once is due."""
    total = 0
    this_layer = 0
    for _ in range(n_layers):
        this_layer += n_heads * (d_model * d_head + d_model * d_head + d_model * d_head + d_head * d_model)
        total += this_layer
    return total


def attention_parameters__wrong_thirteenth_biases_counted(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Overlooks 'no biases': adds d_head for each of query, key and value-down, and d_model for value-up."""
    shapes = [(d_model, d_head)] * 3 + [(d_head, d_model)]
    one_head = sum(n_in * n_out + n_out for n_in, n_out in shapes)
    return n_layers * n_heads * one_head


def attention_parameters__wrong_thirteenth_overflow_of_int64(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Multiplies in int64, which runs over from 2^63 on; due is an exact count at any size."""
    factors = np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int64)
    return int(np.prod(factors))


def attention_parameters__wrong_thirteenth_float_returned(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Counts the down and up halves as 2 / 0.5 matrices, which makes a float of the result; due is an int."""
    halves = 2 / 0.5
    return halves * d_model * d_head * n_heads * n_layers


def attention_parameters__right_thirteenth_by_doubling_and_adding(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Right: multiplies by doubling and adding whole numbers of Python, the old way."""

    def times(a, b):
        result = 0
        while b:
            if b & 1:
                result += a
            a, b = a << 1, b >> 1
        return result

    one_matrix = times(int(d_model), int(d_head))
    one_layer = times(one_matrix << 2, int(n_heads))
    return times(one_layer, int(n_layers))


# ------- 1.7 pointing_weights


def pointing_weights__wrong_thirteenth_keys_on_a_line(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Puts key j at (j, 1) and the query at its target's place, as if the nearest key won.

    A dot product is largest at an end of the line; keys are due of which each can win, as on a circle.
    """
    n = X.shape[0]
    place = np.arange(n, dtype=float)
    keys = np.stack([place, np.ones(n)], axis=1)
    queries = 10 * keys[target]
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__wrong_thirteenth_who_looks_at_whom(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gives the target's place to the key and the own place to the query, so row i finds the token whose target is i.

    Due is the own place for the key and the target's place for the query.
    """
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    corner = np.column_stack((np.cos(angle), np.sin(angle)))
    W_Q = np.linalg.lstsq(X, 200 * corner, rcond=None)[0]
    W_K = np.linalg.lstsq(X, corner[target], rcond=None)[0]
    return W_Q, W_K


def pointing_weights__wrong_thirteenth_own_key_fits_best(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes any keys (two features of X) and long queries along the target's key, thinking that nothing fits better.

    A longer key in a near direction does; keys are due of which none lies inside the others.
    """
    W_K = np.eye(X.shape[1], 2)
    K = X @ W_K
    wanted = 500.0 * K[target]
    W_Q = X.T @ np.linalg.solve(X @ X.T, wanted)
    return W_Q, W_K


def pointing_weights__wrong_thirteenth_circle_closed(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Uses linspace with the end of the circle, so the first and the last key are the same; due is without it."""
    n = X.shape[0]
    phi = np.linspace(0.0, 2 * np.pi, n)
    K = np.array([[np.cos(p), np.sin(p)] for p in phi])
    Q = 300.0 * np.array([K[t] for t in target])
    P = np.linalg.pinv(X)
    return P @ Q, P @ K


def pointing_weights__wrong_thirteenth_angle_by_width_of_model(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divides the circle by d_model in place of n, so that keys stand too close where d_model is much larger than n."""
    n, d_model = X.shape
    step = 2 * np.pi / d_model
    on_circle = np.exp(1j * step * np.arange(n))
    keys = np.stack([on_circle.real, on_circle.imag], axis=-1)
    scale = 150
    both = np.concatenate([scale * keys[target], keys], axis=1)
    weights, *_ = np.linalg.lstsq(X, both, rcond=None)
    return weights[:, :2].copy(), weights[:, 2:].copy()


def pointing_weights__wrong_thirteenth_rows_taken_as_orthonormal(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads 'linearly independent' as orthonormal and uses X.T as inverse; due is a solution of X @ W = wanted."""
    n = X.shape[0]
    t = 2 * np.pi * np.arange(n) / n
    ring = np.vstack([np.cos(t), np.sin(t)]).T
    return X.T @ (100 * ring)[target], X.T @ ring


def pointing_weights__wrong_thirteenth_where_targets_are_shared(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Queries go around the circle, and each target's key is put on its asker's place.

    With two askers of one target the last one has it, and the other misses; due is a key that all askers find.
    """
    n = X.shape[0]
    Q = np.zeros((n, 2))
    K = np.zeros((n, 2))
    for asker in range(n):
        a = 2 * np.pi * asker / n
        Q[asker] = np.cos(a), np.sin(a)
        K[target[asker]] = Q[asker]
    plus = np.linalg.pinv(X)
    return plus @ (250 * Q), plus @ K


def pointing_weights__wrong_thirteenth_circle_turned_at_random(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts the circle at a random angle: it points right, but the weights differ from call to call."""
    n = X.shape[0]
    start = np.random.uniform(0, 2 * np.pi)
    angles = start + 2 * np.pi * np.arange(n) / n
    keys = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    W_K = np.linalg.pinv(X) @ keys
    W_Q = np.linalg.pinv(X) @ (120 * keys[target])
    return W_Q, W_K


def pointing_weights__right_thirteenth_by_a_parabola(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right: keys (j, -j^2 / 2) and queries c (t, 1), so scores are -c (j - t)^2 / 2 plus a constant per row."""
    n = X.shape[0]
    j = np.arange(n) - (n - 1) / 2
    K = np.stack([j, -(j**2) / 2], axis=1)
    Q = 12 * np.stack([j[target], np.ones(n)], axis=1)
    # the rows of X are independent: X.T = B R, so X W = R.T B.T W, and W = B (R.T)^-1 wanted
    B, R = np.linalg.qr(X.T)
    return B @ np.linalg.solve(R.T, Q), B @ np.linalg.solve(R.T, K)


# ------- 1.8 linear_memory


def linear_memory__wrong_thirteenth_each_key_by_itself(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Divides each term of the sum by the squared length of its key, as if keys stood at right angles to each other."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values, strict=True):
        squared = k @ k
        if squared > 0:
            S += np.outer(k, v) / squared
    return S


def linear_memory__wrong_thirteenth_pairs_one_after_the_other(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Corrects the memory for each pair once, in order: the last pairs are exact and the earlier ones spoilt.

    Due is the matrix that is best for all pairs together.
    """
    memory = np.zeros((keys.shape[1], values.shape[1]))
    for j in range(keys.shape[0]):
        key = keys[j : j + 1]
        size = float((key**2).sum())
        if size == 0.0:
            continue
        missing = values[j : j + 1] - key @ memory
        memory = memory + key.T @ missing / size
    return memory


def linear_memory__wrong_thirteenth_repeated_keys_merged(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Merges equal keys into one with the mean of their values, which then counts once; due is that every pair counts.

    (Where no memory is perfect for the merged keys, this is another least sum.)
    """
    grain = 1e-7 * max(np.abs(keys).max(), 1e-300)
    kept, heard = [], []
    for k, v in zip(keys, values, strict=True):
        for other, its_values in zip(kept, heard, strict=True):
            if np.abs(other - k).max() <= grain:
                its_values.append(v)
                break
        else:
            kept.append(k)
            heard.append([v])
    means = np.array([np.mean(its_values, axis=0) for its_values in heard])
    return np.linalg.pinv(np.array(kept), rcond=1e-7) @ means


def linear_memory__wrong_thirteenth_cutoff_on_squares(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compares the eigenvalues of keys.T @ keys with 1e-8 of the largest, and forgets that they are squares.

    Everything below 1e-4 of the strongest direction is thrown away, where about 1e-8 is due.
    """
    gram = keys.T @ keys
    strength, direction = np.linalg.eigh(gram)
    good = strength > 1e-8 * max(strength.max(), 1e-300)
    D = direction[:, good]
    return D @ ((D.T @ (keys.T @ values)) / strength[good][:, None])


def linear_memory__wrong_thirteenth_largest_entry_with_sign(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Takes keys.max() as the largest entry and forgets the sign: with negative keys the rounding is believed.

    Due is the largest entry in size.
    """
    n, d_k = keys.shape
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    rounding = 1e-8 * keys.max() * np.sqrt(n * d_k)
    inverse = np.array([1 / x if x > rounding and x > 0 else 0.0 for x in s])
    return Vt.T @ (inverse[:, None] * (U.T @ values))


def linear_memory__wrong_thirteenth_both_sums_added(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Reads that squared differences plus squared entries are to be least together (ridge).

    Due is: first the differences, and the entries only to choose among the best.
    """
    d_k = keys.shape[1]
    return np.linalg.solve(keys.T @ keys + np.eye(d_k), keys.T @ values)


def linear_memory__wrong_thirteenth_rounding_believed(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The pseudoinverse as it comes, which is right but for keys that are dependent up to rounding by 1e-8."""
    return np.linalg.pinv(keys) @ values


def linear_memory__wrong_thirteenth_keys_rescaled_in_place(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Divides the keys by their largest entry in place: the memory is right, but the input keys are changed."""
    largest = np.abs(keys).max()
    if largest == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    keys /= largest
    u, s, vt = np.linalg.svd(keys, full_matrices=False)
    r = int((s > 1e-8 * np.sqrt(keys.size)).sum())
    return vt[:r].T @ ((u[:, :r].T @ values) / s[:r, None]) / largest


def linear_memory__right_thirteenth_by_eigenvectors_of_a_block_matrix(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Right: eigenvectors of [[0, R], [R.T, 0]], whose positive eigenvalues are the singular values, not squared."""
    n, d_k = keys.shape
    noise = 1e-8 * float(np.abs(keys).max()) * (n * d_k) ** 0.5  # no rounding moves a singular value by more
    basis, R = np.linalg.qr(keys.astype(np.float64))
    m = R.shape[0]
    block = np.zeros((m + d_k, m + d_k))
    block[:m, m:] = R
    block[m:, :m] = R.T
    size, vector = np.linalg.eigh(block)
    real = size > max(noise * 1.0001, 0.0)
    left, right = vector[:m, real], vector[m:, real]
    return 2 * (right / size[real]) @ (left.T @ (basis.T @ values))
