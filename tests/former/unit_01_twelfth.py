"""Answers to the exercises of unit 1, wrong ones and right ones, as students would write them."""

import math
from functools import reduce

import numpy as np

# ------- 1.1 embed


def embed__wrong_twelfth_one_hot_only(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Returns the one-hot vectors themselves, as wide as the vocabulary, and takes them for the embeddings."""
    rows = np.zeros((len(tokens), E.shape[1]), dtype=E.dtype)
    rows[np.arange(len(tokens)), tokens] = 1
    return rows


def embed__wrong_twelfth_order_of_vocabulary(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Goes through the vocabulary, so that the rows come in the order of the word numbers, not of the sentence."""
    d_model, vocab = E.shape
    picked = []
    for word in range(vocab):
        how_often = np.count_nonzero(tokens == word)
        picked.extend([E[:, word]] * how_often)
    return np.array(picked).reshape(len(tokens), d_model)


def embed__wrong_twelfth_sum_so_far(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Thinks that a token stands for the sentence up to there: each row has the earlier words' embeddings added."""
    n, vocab = tokens.size, E.shape[1]
    seen = np.zeros((n, vocab))
    for i, t in enumerate(tokens):
        seen[i:, t] += 1.0
    return seen @ E.T


def embed__wrong_twelfth_reshaped(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Reshapes the picked columns to (n, d_model) where they should be transposed."""
    cols = E[:, tokens]
    n = len(tokens)
    d_model = E.shape[0]
    return cols.reshape(n, d_model)


def embed__wrong_twelfth_counted_from_one(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Counts the words from 1, so each token gets the column before its own and word 0 gets the last one."""
    transposed = np.ascontiguousarray(E.T)
    return np.take(transposed, np.asarray(tokens) - 1, axis=0, mode="wrap")


def embed__wrong_twelfth_tokens_as_columns(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Returns (d_model, n), one embedding per column, as in the other convention."""
    return np.stack([E @ np.eye(E.shape[1])[t] for t in tokens], axis=1)


def embed__wrong_twelfth_one_token_flat(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Squeezes the result, so an axis gets lost when there is one token or one feature."""
    onehot = (tokens.reshape(-1, 1) == np.arange(E.shape[1])).astype(E.dtype)
    return np.einsum("dv,nv->nd", E, onehot).squeeze()


_desk = {}


def embed__wrong_twelfth_one_desk_for_all(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Writes into one array that is kept between calls, so the next call of that size changes an earlier result."""
    shape = (len(tokens), E.shape[0])
    if shape not in _desk:
        _desk[shape] = np.empty(shape)
    sheet = _desk[shape]
    for i in range(shape[0]):
        sheet[i] = E[:, tokens[i]]
    return sheet


def embed__right_twelfth_flat_places(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Computes the places of all entries in the flattened E and takes them at once."""
    d_model, vocab = E.shape
    place = tokens[:, None] + vocab * np.arange(d_model)[None, :]
    return E.ravel().take(place)


# ------- 1.2 soft_lookup


def _softmax(scores):
    """The softmax along the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def soft_lookup__wrong_twelfth_winner_takes_all(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the value of the best key alone, as a dictionary would."""
    best_index, best_score = 0, -math.inf
    for index, key in enumerate(keys):
        score = float(np.dot(key, query))
        if score > best_score:
            best_index, best_score = index, score
    return values[best_index].copy()


def soft_lookup__wrong_twelfth_shares_of_the_scores(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Makes the weights positive by a shift and divides by their sum, without any exponential."""
    fit = keys @ query
    above = fit - fit.min()
    total = above.sum()
    if total == 0:
        return values.mean(axis=0)
    share = above / total
    return np.einsum("n,nv->v", share, values)


def soft_lookup__wrong_twelfth_by_angle(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compares directions only: it divides each score by the length of its key."""

    def fit(key):
        length = math.sqrt(sum(entry * entry for entry in key))
        return sum(a * b for a, b in zip(query, key)) / length if length else 0.0

    scores = np.array([fit(key) for key in keys])
    return _softmax(scores) @ values


def soft_lookup__wrong_twelfth_streamed(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Reads pair by pair with a running maximum; when that rises the sum of weights is rescaled, the values are not."""
    top = -np.inf
    total = 0.0
    mixture = np.zeros(values.shape[1])
    for k, v in zip(keys, values):
        s = k @ query
        new_top = max(top, s)
        total = total * np.exp(top - new_top) + np.exp(s - new_top)
        mixture = mixture + np.exp(s - new_top) * v
        top = new_top
    return mixture / total


def soft_lookup__wrong_twelfth_never_by_zero(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Adds 1e-6 to the sum of the exponentials, so the weights sum to less than 1."""
    scores = np.inner(keys, query)
    scores = scores - np.max(scores)
    numerators = np.exp(scores)
    denominator = np.sum(numerators) + 1e-6
    attention = numerators / denominator
    return np.dot(attention, values)


def soft_lookup__wrong_twelfth_scaled(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Divides the scores by the square root of d_k, where plain dot products are asked for."""
    d_k = query.shape[0]
    logits = np.matmul(keys, query[:, np.newaxis])[:, 0] / np.sqrt(d_k)
    return (_softmax(logits)[:, np.newaxis] * values).sum(axis=0)


def soft_lookup__wrong_twelfth_kept_in_range(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Clips the scores to ±700 against overflow, so scores beyond that count as equal."""
    scores = np.clip(keys @ query, -700.0, 700.0)
    e = np.exp(scores - 350.0) if scores.max() > 350 else np.exp(scores)
    return (e / e.sum()) @ values


def soft_lookup__wrong_twelfth_in_the_keys(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Multiplies the query into the keys in place, and so changes its input."""
    keys *= query
    s = keys.sum(axis=1)
    a = np.exp(s - s.max())
    a /= a.sum()
    return a @ values


def _merge(scores, values):
    """Largest score, sum of the exponentials below it, and mean value of a run of pairs."""
    if len(scores) == 1:
        return scores[0], 1.0, values[0] * 1.0
    half = len(scores) // 2
    top_a, sum_a, mean_a = _merge(scores[:half], values[:half])
    top_b, sum_b, mean_b = _merge(scores[half:], values[half:])
    top = max(top_a, top_b)
    part_a, part_b = sum_a * math.exp(top_a - top), sum_b * math.exp(top_b - top)
    total = part_a + part_b
    return top, total, (part_a / total) * mean_a + (part_b / total) * mean_b


def soft_lookup__right_twelfth_halves_merged(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Looks up both halves of the table by itself and merges the two results by their sums."""
    return _merge(keys @ query, values)[2]


# ------- 1.3 project_qkv


def project_qkv__wrong_twelfth_onto_the_columns(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes projection in the geometric sense: coefficients of the tokens in the column space of the weights."""

    def project(W):
        return X @ np.linalg.pinv(W).T

    return project(W_Q), project(W_K), project(W_V)


def project_qkv__wrong_twelfth_values_after_lookup(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns as values what the tokens hear after the whole lookup, already mixed by attention."""
    queries = X @ W_Q
    keys = X @ W_K
    scores = queries @ keys.T
    values = _softmax(scores) @ (X @ W_V)
    return queries, keys, values


def project_qkv__wrong_twelfth_last_token_asks(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thinks that one word asks for all: every row of Q is the query of the last token."""
    n = X.shape[0]
    asking = np.repeat(X[-1:], n, axis=0)
    return np.matmul(asking, W_Q), np.matmul(X, W_K), np.matmul(X, W_V)


def project_qkv__wrong_twelfth_late_binding(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes three functions in a loop that all see the last weights, so Q, K and V are all X @ W_V."""
    maps = [lambda token: token @ W for W in (W_Q, W_K, W_V)]
    return tuple(np.array([f(row) for row in X]) for f in maps)


def project_qkv__wrong_twelfth_by_alphabet(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sorts the names before it returns the parts, so they come as K, Q, V."""
    weights = {"Q": W_Q, "K": W_K, "V": W_V}
    made = {}
    for name, W in weights.items():
        made[name] = np.einsum("nm,mk->nk", X, W)
    return tuple(made[name] for name in sorted(made))


def project_qkv__wrong_twelfth_one_column_each(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns one column per token, shapes (d_k, n) and (d_v, n), as in texts with tokens as columns."""
    return W_Q.T @ X.T, W_K.T @ X.T, W_V.T @ X.T


def project_qkv__wrong_twelfth_three_equal_parts(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes all in one product and cuts it in three equal parts, which is wrong where d_v is not d_k."""
    all_at_once = X @ np.hstack((W_Q, W_K, W_V))
    Q, K, V = np.array_split(all_at_once, 3, axis=1)
    return Q, K, V


def project_qkv__wrong_twelfth_half_the_digits(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes and returns float32, where float64 has to stay float64."""
    tokens = X.astype(np.float32)
    result = []
    for W in (W_Q, W_K, W_V):
        result.append(tokens @ W.astype(np.float32))
    return result[0], result[1], result[2]


def project_qkv__right_twelfth_cut_where_they_end(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds up one outer product per feature of the model, for all three at once, and cuts them by their widths."""
    W = np.concatenate([W_Q, W_K, W_V], axis=1)
    total = sum(np.multiply.outer(feature, row) for feature, row in zip(X.T, W))
    d_k = W_Q.shape[1]
    return total[:, :d_k].copy(), total[:, d_k : 2 * d_k].copy(), total[:, 2 * d_k :].copy()


# ------- 1.4 project_token


def project_token__wrong_twelfth_transposed_again(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transposes the weights to translate, though they are made for columns already; only square ones fit."""
    W_Q, W_K, W_V = W_Q.transpose(), W_K.transpose(), W_V.transpose()
    return W_Q @ x, W_K @ x, W_V @ x


def project_token__wrong_twelfth_of_length_one(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thinks that only the direction of a token counts, and divides it by its length first."""
    length = np.sqrt(np.sum(np.square(x)))
    direction = x / length if length > 0 else x
    return tuple(np.dot(W, direction) for W in (W_Q, W_K, W_V))


def project_token__wrong_twelfth_value_by_score(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiplies the value by the token's own score, a step that belongs to the lookup."""
    q = np.array([row @ x for row in W_Q])
    k = np.array([row @ x for row in W_K])
    score = q @ k
    v = np.array([score * (row @ x) for row in W_V])
    return q, k, v


def project_token__wrong_twelfth_running_total(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Does not set the sum back to 0 between rows, so every entry has the ones above it added."""

    def times(W, x):
        out = np.zeros(W.shape[0])
        total = 0.0
        for i in range(W.shape[0]):
            for j in range(W.shape[1]):
                total += W[i, j] * x[j]
            out[i] = total
        return out

    return times(W_Q, x), times(W_K, x), times(W_V, x)


def project_token__wrong_twelfth_key_of_the_query(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Uses W_Q a second time where W_K belongs, so the key is the query."""
    query = np.einsum("hm,m->h", W_Q, x)
    key = np.einsum("hm,m->h", W_Q, x)
    value = np.einsum("vm,m->v", W_V, x)
    return query, key, value


def project_token__wrong_twelfth_two_axes(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes the word column for a second axis, and returns shapes (d_head, 1), (d_head, 1) and (d_v, 1)."""
    column = x[:, np.newaxis]
    return np.matmul(W_Q, column), np.matmul(W_K, column), np.matmul(W_V, column)


def project_token__wrong_twelfth_in_step(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Goes through the rows of the three matrices in step, and stops with the shortest where d_v is not d_head."""
    q, k, v = [], [], []
    for row_q, row_k, row_v in zip(W_Q, W_K, W_V):
        q.append(np.sum(row_q * x))
        k.append(np.sum(row_k * x))
        v.append(np.sum(row_v * x))
    return np.array(q), np.array(k), np.array(v)


def project_token__wrong_twelfth_weights_used_up(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiplies the token into the weights in place, and so changes its inputs."""
    results = []
    for W in [W_Q, W_K, W_V]:
        np.multiply(W, x, out=W)
        results.append(np.add.reduce(W, axis=1))
    return tuple(results)


def project_token__right_twelfth_columns_added(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds up the columns of each matrix, each times its entry of the token, by reduce."""

    def mix(W):
        return reduce(np.add, (entry * column for entry, column in zip(x, W.T)))

    return mix(W_Q), mix(W_K), mix(W_V)


# ------- 1.5 low_rank_value


def low_rank_value__wrong_twelfth_up_undoes_down(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Thinks that going up undoes going down: it uses the pseudoinverse of the down factor, not the up factor."""
    narrow = X @ W_V_down
    back = np.linalg.pinv(W_V_down)
    return narrow @ back


def low_rank_value__wrong_twelfth_only_positive(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Sets negative numbers between the two factors to 0, as a feed-forward layer would."""
    n, d_model = X.shape
    out = np.zeros((n, W_V_up.shape[1]))
    for i in range(n):
        hidden = np.zeros(W_V_down.shape[1])
        for h in range(W_V_down.shape[1]):
            hidden[h] = max(0.0, X[i] @ W_V_down[:, h])
        out[i] = hidden @ W_V_up
    return out


def low_rank_value__wrong_twelfth_message_added(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Adds the message to the tokens already, where the map alone is asked for."""
    message = np.linalg.multi_dot([X, W_V_down, W_V_up])
    return np.add(X, message)


def low_rank_value__wrong_twelfth_factors_swapped(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Goes down by the transpose of the up factor and up by the transpose of the down factor."""
    return (W_V_down @ W_V_up @ X.T).T


def low_rank_value__wrong_twelfth_letter(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Names the wrong letter after the arrow of einsum: it keeps the axis of X and sums the axis of the up factor."""
    return np.einsum("nd,dh,he->nd", X, W_V_down, W_V_up)


def low_rank_value__wrong_twelfth_the_map_itself(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Returns the value map as one matrix, (d_model, d_model), and does not apply it to the tokens."""
    d_model, d_head = W_V_down.shape
    W_V = np.zeros((d_model, d_model))
    for h in range(d_head):
        W_V += np.outer(W_V_down[:, h], W_V_up[h, :])
    return W_V


def low_rank_value__wrong_twelfth_thin_squeezed(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Squeezes the middle, so an axis gets lost when there is one token, or is missing when a head is one wide."""
    middle = np.squeeze(np.dot(X, W_V_down))
    result = np.dot(middle, W_V_up)
    return result


_maps = {}


def low_rank_value__wrong_twelfth_map_kept(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Keeps the product of the factors for their shape, so a later call with other weights gets the old ones."""
    if W_V_down.shape not in _maps:
        _maps[W_V_down.shape] = W_V_down @ W_V_up
    return X @ _maps[W_V_down.shape]


def low_rank_value__right_twelfth_from_the_right(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Factors the down matrix once more, by QR, and contracts the rest from the right by tensordot."""
    basis, triangle = np.linalg.qr(W_V_down)
    lifted = np.tensordot(triangle, W_V_up, axes=(1, 0))
    return np.tensordot(np.tensordot(X, basis, axes=([1], [0])), lifted, axes=([1], [0]))


# ------- 1.6 attention_parameters


def attention_parameters__wrong_twelfth_three_matrices(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Counts one matrix for the values, three in each head, and forgets the way up."""
    kinds = ("query", "key", "value")
    return sum(d_model * d_head for _ in kinds) * n_heads * n_layers


def attention_parameters__wrong_twelfth_square_value(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Takes the value map for one square matrix, d_model by d_model, as if it were not factored."""
    query = key = d_model * d_head
    value = d_model**2
    head = query + key + value
    layer = n_heads * head
    return n_layers * layer


def attention_parameters__wrong_twelfth_heads_share_the_width(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Thinks that the heads always share the width of the model: four square matrices in each layer."""
    model = 0
    for _ in range(n_layers):
        for _matrix in "QKVO":
            model += d_model * d_model
    return model


def attention_parameters__wrong_twelfth_overwritten(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Sets the layer's count anew for every head where it should add, so one head is counted per layer."""
    total = 0
    for layer in range(n_layers):
        in_layer = 0
        for head in range(n_heads):
            in_head = 0
            in_head += d_model * d_head  # query
            in_head += d_model * d_head  # key
            in_head += d_model * d_head  # value down
            in_head += d_head * d_model  # value up
            in_layer = in_head
        total += in_layer
    return total


def attention_parameters__wrong_twelfth_value_twice_twice(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Doubles the down and up matrices once more after counting both, so a head has six matrices."""
    matrix = d_model * d_head
    asking = 2 * matrix
    saying = matrix + matrix
    return (asking + 2 * saying) * n_heads * n_layers


def attention_parameters__wrong_twelfth_heads_of_the_model(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Reads n_heads as the number of heads in the whole model and so leaves the layers out."""
    shapes = [(d_model, d_head)] * 3 + [(d_head, d_model)]
    per_head = sum(math.prod(shape) for shape in shapes)
    return per_head * n_heads


def attention_parameters__wrong_twelfth_back_from_float(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Multiplies floats and rounds at the end, so the last digits of large counts are lost."""
    sizes = np.array([4, d_model, d_head, n_heads, n_layers], dtype=float)
    return int(np.rint(np.prod(sizes)))


def attention_parameters__wrong_twelfth_with_biases(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Counts biases, too, one for each output of a matrix."""

    def linear(n_in, n_out):
        return n_in * n_out + n_out

    head = 3 * linear(d_model, d_head) + linear(d_head, d_model)
    return n_layers * n_heads * head


def attention_parameters__right_twelfth_by_doubling(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Multiplies by halving and doubling, as peasants did, and shifts by two for the four matrices."""

    def times(a, b):
        product = 0
        while a:
            if a & 1:
                product += b
            a >>= 1
            b <<= 1
        return product

    return reduce(times, map(int, (n_layers, n_heads, d_head, d_model))) << 2


# ------- 1.7 pointing_weights


def pointing_weights__wrong_twelfth_on_a_line(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Puts the keys on a straight line, (1, j), where only the two ends can have the largest score."""
    n = len(X)
    place = np.arange(n) - (n - 1) / 2
    keys = np.stack([np.ones(n), place], axis=1)
    queries = 20.0 * keys[target]
    solve = np.linalg.pinv(X)
    return solve @ queries, solve @ keys


def pointing_weights__wrong_twelfth_transpose_inverts(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes the transpose of X for its inverse, which holds for rows of length 1 at right angles only."""
    n = X.shape[0]
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.array([np.cos(angle), np.sin(angle)])
    W_K = (circle @ X).T
    W_Q = 100 * (circle[:, target] @ X).T
    return W_Q, W_K


def pointing_weights__wrong_twelfth_who_looks(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Confuses who looks with who is looked at: token target[i] gets the query for key i."""
    n, d_model = X.shape
    K = np.exp(2j * np.pi * np.arange(n) / n).view(float).reshape(n, 2)
    Q = np.zeros((n, 2))
    for i in range(n):
        Q[target[i]] = 80 * K[i]
    W_Q, *_ = np.linalg.lstsq(X, Q, rcond=None)
    W_K, *_ = np.linalg.lstsq(X, K, rcond=None)
    return W_Q, W_K


def pointing_weights__wrong_twelfth_all_the_way_round(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Spreads the angles from 0 to 2π with both ends, so the first and the last key are the same."""
    turns = np.linspace(0, 2 * np.pi, num=X.shape[0])
    K = np.column_stack((np.cos(turns), np.sin(turns)))
    Q = 200.0 * K[target]
    gram = X @ X.T
    return X.T @ np.linalg.solve(gram, Q), X.T @ np.linalg.solve(gram, K)


def pointing_weights__wrong_twelfth_too_soft(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Makes the queries 10 long, which is enough for a few tokens and too little for sixteen."""
    n = X.shape[0]
    keys = np.array([[math.sin(2 * math.pi * j / n), math.cos(2 * math.pi * j / n)] for j in range(n)])
    queries = np.array([10 * keys[t] for t in target])
    both = np.linalg.pinv(X) @ np.hstack([queries, keys])
    return both[:, :2], both[:, 2:]


def pointing_weights__wrong_twelfth_queries_and_keys(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the queries and keys, (n, 2), not the weights that make them; that fits the identity only."""
    n = X.shape[0]
    j = np.arange(n, dtype=float)
    K = np.c_[j, -(j**2)]
    Q = 5 * np.c_[2 * j, np.ones(n)][target]
    return Q, K


def pointing_weights__wrong_twelfth_alone(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divides by the distance of the nearest rival, which is 0 with a single token, so the weights are NaN."""
    n = X.shape[0]
    step = 2 * np.pi / n
    gap = 1 - np.cos(step)
    with np.errstate(all="ignore"):
        sharpness = np.log(9 * n) / gap
        K = np.stack([np.cos(step * np.arange(n)), np.sin(step * np.arange(n))], axis=-1)
        Q = sharpness * K[target]
        basis, triangle = np.linalg.qr(X.T)
        back = basis @ np.linalg.inv(triangle).T
        return back @ Q, back @ K


def pointing_weights__wrong_twelfth_by_chance(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begins the circle at a random angle, so two calls give different weights."""
    n = X.shape[0]
    start = np.random.uniform(0, 2 * np.pi)
    angles = start + np.arange(n) * (2 * np.pi / n)
    on_circle = np.array([np.cos(angles), np.sin(angles)]).T
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    X_plus = Vt.T @ np.diag(1 / s) @ U.T
    return X_plus @ (150 * on_circle[target]), X_plus @ on_circle


def pointing_weights__right_twelfth_parabola(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Puts the keys on a parabola, so a score falls with the squared distance from the target, and solves by QR."""
    n = X.shape[0]
    at = np.arange(n) - (n - 1) / 2
    keys = np.stack([at, at**2], axis=1)
    queries = 5.0 * np.stack([2 * at[target], -np.ones(n)], axis=1)
    basis, triangle = np.linalg.qr(X.T)
    return basis @ np.linalg.solve(triangle.T, queries), basis @ np.linalg.solve(triangle.T, keys)


# ------- 1.8 linear_memory


def linear_memory__wrong_twelfth_sum_by_length(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Keeps the plain sum and only divides each key by its squared length, so keys still disturb each other."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values):
        square = key @ key
        if square > 0:
            S += np.outer(key / square, value)
    return S


def linear_memory__wrong_twelfth_corrected_in_turn(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Corrects the memory pair by pair, once through, so later pairs spoil the answers to earlier ones."""
    memory = np.zeros((keys.shape[1], values.shape[1]))
    for j in range(len(keys)):
        k = keys[j]
        length = np.linalg.norm(k)
        if length == 0:
            continue
        error = values[j] - k @ memory
        memory = memory + np.outer(k, error) / length**2
    return memory


def linear_memory__wrong_twelfth_keys_taken_as_exact(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Takes the rounded keys as exact, so a direction that is mere rounding makes the memory huge."""
    S, residuals, rank, singular = np.linalg.lstsq(keys, values, rcond=None)
    return S


def linear_memory__wrong_twelfth_first_small_one(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Finds the rank as the place of the first small singular value, which is 0 when none is small."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    tolerance = 1e-8 * np.abs(keys).max() * math.sqrt(keys.size)
    rank = np.argmax(s <= tolerance)
    return Vt[:rank].T @ ((U[:, :rank].T @ values) / s[:rank, None])


def linear_memory__wrong_twelfth_small_whatever_the_size(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compares the singular values with 1e-7 itself and not with the size of the keys."""
    left, sizes, right = np.linalg.svd(keys, full_matrices=False)
    S = np.zeros((keys.shape[1], values.shape[1]))
    for direction, size, seen in zip(left.T, sizes, right):
        if size > 1e-7:
            S += np.outer(seen, direction @ values) / size
    return S


def linear_memory__wrong_twelfth_rounds_once_more(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Reads that it should round the keys to eight digits, which does not make dependent ones dependent again."""
    rounded = np.round(keys, 8)
    return np.linalg.pinv(rounded) @ values


def linear_memory__wrong_twelfth_scaled_by_the_largest(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Divides by the largest entry first, so with keys of zeros alone it gets NaN and breaks off."""
    with np.errstate(all="ignore"):
        size = np.max(np.abs(keys))
        scaled = keys / size
    inverse = np.linalg.pinv(scaled, rcond=1e-8 * math.sqrt(keys.size))
    return (inverse / size) @ values


def linear_memory__wrong_twelfth_keys_straightened(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Takes from every key what the chosen ones explain, in the array that was given, and so changes its input."""
    original = keys.copy()
    threshold = 1e-8 * np.abs(original).max() * math.sqrt(original.size)
    directions = []
    while len(directions) < min(keys.shape):
        lengths = np.sqrt((keys**2).sum(axis=1))
        longest = lengths.argmax()
        if lengths[longest] <= threshold:
            break
        unit = keys[longest] / lengths[longest]
        for other in directions:
            unit = unit - (unit @ other) * other
        unit = unit / np.linalg.norm(unit)
        directions.append(unit)
        keys -= np.outer(keys @ unit, unit)
    if not directions:
        return np.zeros((keys.shape[1], values.shape[1]))
    B = np.array(directions)
    return B.T @ np.linalg.lstsq(original @ B.T, values, rcond=None)[0]


def linear_memory__right_twelfth_longest_first(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Reflects the longest remaining key onto an axis until what is left is rounding, then solves by QR twice."""
    n, d_k = keys.shape
    rest = np.array(keys, dtype=float)
    threshold = 1e-8 * np.abs(rest).max() * math.sqrt(rest.size)
    turn = np.eye(d_k)  # keys @ turn has nothing but rounding beyond its first columns
    rank = 0
    while rank < min(n, d_k):
        lengths = np.linalg.norm(rest[:, rank:], axis=1)
        longest = lengths.argmax()
        if lengths[longest] <= threshold:
            break
        mirror = rest[longest, rank:].copy()
        mirror[0] += math.copysign(lengths[longest], mirror[0])
        mirror /= np.linalg.norm(mirror)
        rest[:, rank:] -= 2 * np.outer(rest[:, rank:] @ mirror, mirror)
        turn[:, rank:] -= 2 * np.outer(turn[:, rank:] @ mirror, mirror)
        rank += 1
    if rank == 0:
        return np.zeros((d_k, values.shape[1]))
    tall, triangle = np.linalg.qr(rest[:, :rank])
    return turn[:, :rank] @ np.linalg.solve(triangle, tall.T @ values)
