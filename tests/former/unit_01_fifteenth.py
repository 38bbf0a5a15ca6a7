import math

import numpy as np

# 1.1 embed


def embed__wrong_fifteenth_columns_left_as_columns(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Picks the columns and leaves them as columns, (d_model, n); due is one row per token."""
    picked = E[:, tokens]
    return picked


def embed__wrong_fifteenth_each_word_once(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """One row per different word, in order of first appearance; due is one row per token, repeats too."""
    seen = []
    for t in tokens.tolist():
        if t not in seen:
            seen.append(t)
    return E.T[seen]


def embed__wrong_fifteenth_reshape_for_transpose(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Reshapes (d_model, n) to (n, d_model), which mixes words; due is the transpose."""
    n = len(tokens)
    d_model = E.shape[0]
    return E[:, tokens].reshape(n, d_model)


def embed__wrong_fifteenth_one_hot_fills_whole_columns(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Sets the ones of all words in every row, so each row is a sum; due is one 1 per row, at [arange(n), tokens]."""
    one_hot = np.zeros((len(tokens), E.shape[1]))
    one_hot[:, tokens] = 1
    return one_hot @ E.T


def embed__wrong_fifteenth_rows_pile_up(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Adds each embedding to all later rows as well (a slice for an index); due is row i alone."""
    X = np.zeros((len(tokens), E.shape[0]), dtype=E.dtype)
    for i, t in enumerate(tokens):
        X[i:] += E[:, t]
    return X


def embed__wrong_fifteenth_list_of_vectors(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Returns a list of n vectors; due is one array of shape (n, d_model)."""
    return [E[:, t].copy() for t in tokens]


def embed__wrong_fifteenth_id_four_is_always_padding(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Sets rows of word 4 to zero, as <pad> is 4 in the example; due is column 4 of whatever E comes in."""
    PAD = 4
    X = E.T[tokens]
    X[tokens == PAD] = 0.0
    return X


def embed__wrong_fifteenth_sorts_the_sentence(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Right rows, but the tokens of the caller are sorted on the way; due is that inputs stay as they are."""
    order = np.argsort(tokens, kind="stable")
    tokens.sort()
    X = np.empty((tokens.size, E.shape[0]), dtype=E.dtype)
    X[order] = E.T[tokens]
    return X


def embed__right_fifteenth_feature_by_feature(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Reads each feature of all words along the sentence, then transposes; right."""
    return np.apply_along_axis(lambda feature: feature[tokens], 1, E).T


# 1.2 soft_lookup


def soft_lookup__wrong_fifteenth_cosine_scores(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Scores by the direction alone, keys cut to length 1; due are plain dot products, longer keys count more."""
    lengths = np.sqrt((keys**2).sum(axis=1))
    lengths = np.where(lengths > 0, lengths, 1.0)
    s = keys @ query / lengths
    a = np.exp(s - s.max())
    return (a / a.sum()) @ values


def soft_lookup__wrong_fifteenth_one_softmax_per_feature(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """A softmax for every feature, averaged over features; due is one softmax of the summed products."""
    products = keys * query
    e = np.exp(products - products.max(axis=0))
    weights_per_feature = e / e.sum(axis=0)
    weights = weights_per_feature.mean(axis=1)
    return weights @ values


def soft_lookup__wrong_fifteenth_shift_by_the_mean(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Shifts by the mean score, which overflows for far apart scores; due is a shift by the largest."""
    scores = np.dot(keys, query)
    scores = scores - scores.mean()
    e = np.exp(scores)
    weights = e / np.sum(e)
    return np.dot(weights, values)


def soft_lookup__wrong_fifteenth_shift_by_largest_size(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Shifts by the largest absolute score, 0/0 where all are very negative; due is the largest score itself."""
    scores = keys @ query
    biggest = np.abs(scores).max()
    powers = np.exp(scores - biggest)
    return powers @ values / powers.sum()


def soft_lookup__wrong_fifteenth_running_mix_not_rescaled(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Reads pair by pair with a running maximum and rescales the sum alone; due is to rescale the mixture, too."""
    top = -np.inf
    total = 0.0
    mixed = np.zeros(values.shape[1])
    for k, v in zip(keys, values):
        s = k @ query
        new_top = max(top, s)
        total = total * np.exp(top - new_top) + np.exp(s - new_top)
        mixed = mixed + np.exp(s - new_top) * v
        top = new_top
    return mixed / total


def soft_lookup__wrong_fifteenth_weighted_values_not_summed(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Returns every value times its weight, (n, d_v); due is their sum, (d_v,)."""
    scores = keys @ query
    weights = np.exp(scores - np.max(scores))
    weights = weights / weights.sum()
    return weights[:, None] * values


def soft_lookup__wrong_fifteenth_far_scores_take_first_best(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Far apart scores: the best key takes all, though rivals may be close to it; due is the softmax there, too."""
    scores = keys @ query
    if scores.max() - scores.min() > 700:
        return values[scores.argmax()].copy()
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights @ values


def soft_lookup__wrong_fifteenth_rounded_to_float32(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Right, but the result is rounded to float32; due is that float64 stays float64."""
    scores = keys @ query
    shifted = scores - scores.max()
    weights = np.exp(shifted) / np.exp(shifted).sum()
    result = np.einsum("n,nd->d", weights, values)
    return result.astype(np.float32)


def soft_lookup__right_fifteenth_ratios_of_pairs(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weight j as 1 over the sum of exp(s_l - s_j), no shift by a maximum; right."""
    s = keys @ query
    with np.errstate(over="ignore"):
        ratios = np.exp(s[None, :] - s[:, None])  # entry j, l: how much more l weighs than j
        a = 1.0 / ratios.sum(axis=1)
    return (a[:, None] * values).sum(axis=0)


# 1.3 project_qkv


def project_qkv__wrong_fifteenth_turns_weights_that_also_fit_turned(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes weights as (out, in) whenever that fits, so square ones are transposed; due is X @ W always."""

    def linear(W):
        if W.shape[1] == X.shape[1]:
            return X @ W.T
        return X @ W

    return linear(W_Q), linear(W_K), linear(W_V)


def project_qkv__wrong_fifteenth_queries_divided_by_root(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides the queries by the root of d_k, a later unit's step; due are the plain products."""
    d_k = W_K.shape[1]
    Q = X @ W_Q / np.sqrt(d_k)
    K = X @ W_K
    V = X @ W_V
    return Q, K, V


def project_qkv__wrong_fifteenth_table_has_every_key_once(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys and values for different tokens only, like a dictionary; due is one row of each for every token."""
    _, first = np.unique(X, axis=0, return_index=True)
    entries = X[np.sort(first)]
    return X @ W_Q, entries @ W_K, entries @ W_V


def project_qkv__wrong_fifteenth_cut_in_three_even_parts(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One product, cut into three even parts; due are cuts after d_k and 2 d_k, as d_v may differ."""
    together = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    Q, K, V = np.array_split(together, 3, axis=1)
    return Q, K, V


def project_qkv__wrong_fifteenth_einsum_letter_differs(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The einsum of K has two letters for d_model and sums both apart; due is one shared letter."""
    Q = np.einsum("nd,dk->nk", X, W_Q)
    K = np.einsum("nd,mk->nk", X, W_K)
    V = np.einsum("nd,dv->nv", X, W_V)
    return Q, K, V


def project_qkv__wrong_fifteenth_tokens_come_out_as_columns(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (d_k, n), (d_k, n), (d_v, n), tokens as columns; due are tokens as rows."""
    return tuple(W.T @ X.T for W in (W_Q, W_K, W_V))


def project_qkv__wrong_fifteenth_values_of_width_one_lose_axis(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With d_v = 1 the values come as plain numbers, (n,); due is (n, 1)."""
    Q = X @ W_Q
    K = X @ W_K
    if W_V.shape[1] == 1:
        V = X @ W_V[:, 0]
    else:
        V = X @ W_V
    return Q, K, V


_qkv_buffers = {}


def project_qkv__wrong_fifteenth_writes_into_kept_buffers(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right, but in buffers that the next call overwrites; due is that returned results stay."""
    results = []
    for name, W in (("Q", W_Q), ("K", W_K), ("V", W_V)):
        kind = (name, X.shape[0], W.shape[1], np.result_type(X, W))
        if kind not in _qkv_buffers:
            _qkv_buffers[kind] = np.empty(kind[1:3], dtype=kind[3])
        results.append(np.matmul(X, W, out=_qkv_buffers[kind]))
    return tuple(results)


def project_qkv__right_fifteenth_sum_of_outer_products(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds up one outer product per feature of the model; right."""

    def project(W):
        layers = [np.outer(column, row) for column, row in zip(X.T, W)]
        return np.sum(layers, axis=0)

    return project(W_Q), project(W_K), project(W_V)


# 1.4 project_token


def project_token__wrong_fifteenth_from_the_right_where_it_fits(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiplies from the right where the shapes allow, so for square weights; due is W @ x always."""
    out = []
    for W in (W_Q, W_K, W_V):
        if W.shape[0] == x.shape[0]:
            out.append(x @ W)
        else:
            out.append(x @ W.T)
    return tuple(out)


def project_token__wrong_fifteenth_sums_down_the_columns(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums over d_head, which leaves (d_model,); due is the sum over d_model."""
    q = (W_Q * x).sum(axis=0)
    k = (W_K * x).sum(axis=0)
    v = (W_V * x).sum(axis=0)
    return q, k, v


def project_token__wrong_fifteenth_picks_a_column(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Picks the column of the largest entry as if x were one-hot; due is the whole product."""
    place = int(np.argmax(x))
    return W_Q[:, place].copy(), W_K[:, place].copy(), W_V[:, place].copy()


def project_token__wrong_fifteenth_inner_loop_too_short(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The loop over features stops at d_head where that is less than d_model; due are all d_model features."""

    def times(W):
        rows, columns = W.shape
        y = np.zeros(rows)
        for i in range(rows):
            for j in range(min(rows, columns)):
                y[i] += W[i, j] * x[j]
        return y

    return times(W_Q), times(W_K), times(W_V)


def project_token__wrong_fifteenth_total_never_reset(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The running total goes on from row to row; due is a total that starts at 0 for every row."""

    def times(W):
        entries = []
        total = 0.0
        for row in W:
            for w, xi in zip(row, x):
                total += w * xi
            entries.append(total)
        return np.array(entries)

    return times(W_Q), times(W_K), times(W_V)


def project_token__wrong_fifteenth_results_as_column_matrices(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns columns of shape (d_head, 1) and (d_v, 1); due is one axis."""
    column = x.reshape(-1, 1)
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_fifteenth_model_of_width_one_only_scales(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With d_model = 1 it scales the weights and keeps their second axis; due is (d_head,) there, too."""
    weights = (W_Q, W_K, W_V)
    if x.size == 1:
        return tuple(W * x[0] for W in weights)
    return tuple(np.matmul(W, x) for W in weights)


def project_token__wrong_fifteenth_float32_results(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right, but kept in float32 arrays; due is that float64 stays float64."""
    q = np.zeros(W_Q.shape[0], dtype="float32")
    k = np.zeros(W_K.shape[0], dtype="float32")
    v = np.zeros(W_V.shape[0], dtype="float32")
    q[:] = W_Q @ x
    k[:] = W_K @ x
    v[:] = W_V @ x
    return q, k, v


def project_token__right_fifteenth_one_tall_matrix(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One product with all weights on top of each other, cut after d_head and 2 d_head; right."""
    tall = np.concatenate((W_Q, W_K, W_V))
    return tuple(np.split(tall @ x, np.cumsum([len(W_Q), len(W_K)])))


# 1.5 low_rank_value


def low_rank_value__wrong_fifteenth_up_by_the_transpose_of_down(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Goes up with the transpose of the down matrix; due is W_V_up."""
    small = X @ W_V_down
    return small @ W_V_down.T


def low_rank_value__wrong_fifteenth_message_added_to_token(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Adds the message to the token already; due is the message alone."""
    message = X @ W_V_down @ W_V_up
    return X + message


def low_rank_value__wrong_fifteenth_product_turned_over(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Applies the transpose of the square map, as for columns; due is X @ (down @ up)."""
    W = W_V_down @ W_V_up
    columns = W @ X.T
    return columns.T


def low_rank_value__wrong_fifteenth_repeated_letter_in_einsum(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """One letter for both ends of the map leaves its diagonal only; due is a letter of its own for the result."""
    return np.einsum("nd,dh,hd->nd", X, W_V_down, W_V_up)


def low_rank_value__wrong_fifteenth_last_head_feature_missing(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """The loop over the head's features ends one early; due are all d_head."""
    d_head = W_V_up.shape[0]
    result = np.zeros(X.shape)
    for h in range(0, d_head - 1):
        result += np.outer(X @ W_V_down[:, h], W_V_up[h])
    return result


def low_rank_value__wrong_fifteenth_the_map_itself(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Returns the square map (d_model, d_model); due are the tokens mapped by it, (n, d_model)."""
    value_map = np.matmul(W_V_down, W_V_up)
    return value_map


def low_rank_value__wrong_fifteenth_head_of_width_one_lies_down(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """With d_head = 1 the outer product is taken in the wrong order, (d_model, n); due is (n, d_model)."""
    if W_V_down.shape[1] == 1:
        amounts = X @ W_V_down[:, 0]
        return np.outer(W_V_up[0], amounts)
    return (X @ W_V_down) @ W_V_up


def low_rank_value__wrong_fifteenth_result_put_into_x(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Right numbers, written over X since they have its shape; due is that inputs stay as they are."""
    narrow = X @ W_V_down
    np.matmul(narrow, W_V_up, out=X)
    return X


def low_rank_value__right_fifteenth_two_steps_of_a_block_matrix(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Both factors as blocks of one matrix, applied twice to (X, 0); right."""
    d_model, d_head = W_V_down.shape
    M = np.block([[np.zeros((d_model, d_model)), W_V_down], [W_V_up, np.zeros((d_head, d_head))]])
    state = np.pad(X, ((0, 0), (0, d_head)))
    for _ in range(2):
        state = state @ M
    return state[:, :d_model]


# 1.6 attention_parameters


def attention_parameters__wrong_fifteenth_value_map_is_square(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts the value map as one square matrix; due are two thin ones."""
    query = d_model * d_head
    key = d_model * d_head
    value = d_model * d_model
    return (query + key + value) * n_heads * n_layers


def attention_parameters__wrong_fifteenth_heads_share_the_model_width(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts four d_model squares per layer, as if d_head * n_heads were d_model; due is to count the heads."""
    per_layer = 4 * d_model**2
    return per_layer * n_layers


def attention_parameters__wrong_fifteenth_one_way_up_per_layer(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts one up matrix for all heads of a layer, as their messages are added; due is one per head."""
    down_like = 3 * d_model * d_head
    up = d_head * d_model
    layer = n_heads * down_like + up
    return n_layers * layer


def attention_parameters__wrong_fifteenth_heads_twice_layers_never(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Multiplies by the number of heads twice, which GPT-3 doesn't show; due is heads times layers."""
    matrix = d_model * d_head
    head = 4 * matrix
    layer = head * n_heads
    model = layer * n_heads
    return model


def attention_parameters__wrong_fifteenth_missing_parentheses(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Without parentheses only the value part is multiplied by heads and layers; due is the whole sum."""
    query_key = 2 * d_model * d_head
    down_up = d_model * d_head + d_head * d_model
    return query_key + down_up * n_heads * n_layers


def attention_parameters__wrong_fifteenth_counted_in_millions(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Gives whole millions of weights; due is the exact number."""
    total = 4 * d_model * d_head * n_heads * n_layers
    return total // 10**6


def attention_parameters__wrong_fifteenth_sixty_four_bits(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Multiplies in 64 bits, which wraps from 2**63 on; due is an exact count at any size."""
    sizes = np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int64)
    return int(np.prod(sizes))


_count = np.zeros((), dtype=np.int64)


def attention_parameters__wrong_fifteenth_one_counter_for_all_calls(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Right number, in a counter array that the next call changes; due is an int that stays."""
    _count[...] = 0
    for kind in ("query", "key", "value down", "value up"):
        _count[...] += d_model * d_head * n_heads * n_layers
    return _count


def attention_parameters__right_fifteenth_difference_of_squares(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Four times the product of two widths as a difference of two squares; right."""
    head = (d_model + d_head) ** 2 - (d_model - d_head) ** 2
    return math.prod((head, n_heads, n_layers))


# 1.7 pointing_weights


def pointing_weights__wrong_fifteenth_keys_on_a_line(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Puts the keys on a line (position, 1), where only its ends can win; due are keys that all are corners."""
    n = X.shape[0]
    place = np.arange(n) - (n - 1) / 2
    keys = np.stack([place, np.ones(n)], axis=1)
    queries = 50 * keys[target]
    back = np.linalg.pinv(X)
    return back @ queries, back @ keys


def pointing_weights__wrong_fifteenth_target_looks_at_token(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gives the keys the target's direction and the queries their own; due is the other way round."""
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    Q = 200 * circle
    K = circle[target]
    W_Q = np.linalg.lstsq(X, Q, rcond=None)[0]
    W_K = np.linalg.lstsq(X, K, rcond=None)[0]
    return W_Q, W_K


def pointing_weights__wrong_fifteenth_transpose_for_inverse(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Carries the design over by X.T as if the rows were orthonormal; due is the (pseudo)inverse."""
    n = X.shape[0]
    z = np.exp(2j * np.pi * np.arange(n) / n)
    K = np.stack([z.real, z.imag], axis=1)
    Q = 100 * K[target]
    return X.T @ Q, X.T @ K


def pointing_weights__wrong_fifteenth_circle_closes_on_itself(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """linspace up to and with 2 pi lays the last key on the first; due is endpoint=False."""
    n, _ = X.shape
    angles = np.linspace(0, 2 * np.pi, n)
    K = np.array([np.cos(angles), np.sin(angles)]).T
    Q = 300 * K[target]
    X_inverse = np.linalg.pinv(X)
    return X_inverse @ Q, X_inverse @ K


def pointing_weights__wrong_fifteenth_length_grows_too_slowly(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The scale grows with n where the lead shrinks with its square, too soft for many; due is n squared."""
    n = len(target)
    phi = 2 * np.pi / n * np.arange(n)
    directions = np.vstack((np.cos(phi), np.sin(phi))).T
    scale = 8 * n / (2 * np.pi)
    wanted = np.hstack((scale * directions[target], directions))
    W = np.linalg.lstsq(X, wanted, rcond=None)[0]
    return W[:, :2], W[:, 2:]


def pointing_weights__wrong_fifteenth_queries_and_keys_themselves(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the queries and keys, (n, 2) each; due are weights (d_model, 2) that make them from X."""
    n = X.shape[0]
    angle = np.arange(n) * (2 * np.pi / n)
    K = 15 * np.stack((np.cos(angle), np.sin(angle)), axis=-1)
    Q = K[target]
    return Q, K


def pointing_weights__wrong_fifteenth_weak_directions_dropped(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The pseudoinverse drops directions below a 40th of the strongest; due is a design for condition up to 100."""
    n = len(X)
    turn = 2 * np.pi * np.arange(n) / n
    K = np.c_[np.cos(turn), np.sin(turn)]
    solve = np.linalg.pinv(X, 1 / 40)
    return solve @ (150 * K[target]), solve @ K


def pointing_weights__wrong_fifteenth_another_start_each_time(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points right, but the circle starts at a chance angle at every call; due are the same weights at every call."""
    n = X.shape[0]
    start = np.random.default_rng().uniform(0, 2 * np.pi)
    angle = start + 2 * np.pi * np.arange(n) / n
    K = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    P = np.linalg.pinv(X)
    return P @ (200 * K[target]), P @ K


def pointing_weights__right_fifteenth_parabola(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys on a parabola, the score is less by half the squared distance to the target, through QR of X.T; right."""
    n = X.shape[0]
    t = np.arange(n) - (n - 1) / 2
    K = np.column_stack((t, -(t**2) / 2))
    Q = 12 * np.column_stack((t[target], np.ones(n)))
    basis, R = np.linalg.qr(X.T)  # X = R.T @ basis.T
    return basis @ np.linalg.solve(R.T, Q), basis @ np.linalg.solve(R.T, K)


# 1.8 linear_memory


def linear_memory__wrong_fifteenth_each_pair_by_itself(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Adds the best memory of each pair alone, keys over squared lengths; due is the best for all together."""
    squares = (keys**2).sum(axis=1, keepdims=True)
    scaled = np.divide(keys, squares, out=np.zeros_like(keys), where=squares > 0)
    return scaled.T @ values


def linear_memory__wrong_fifteenth_one_correction_per_pair(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One pass of corrections (delta rule), later pairs spoil earlier ones; due is the best for all at once."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values):
        size = k @ k
        if size > 0:
            missing = v - k @ S
            S += np.outer(k, missing) / size
    return S


def linear_memory__wrong_fifteenth_rounding_cut_at_single_entry(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Cuts below 1e-8 of the largest singular value, but the rounding of many entries adds up; due is a larger cut."""
    S, *_ = np.linalg.lstsq(keys, values, rcond=1e-8)
    return S


def linear_memory__wrong_fifteenth_cut_not_relative(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Cuts singular values below a fixed 1e-7; due is a cut relative to the largest entry of the keys."""
    U, sizes, Vt = np.linalg.svd(keys, full_matrices=False)
    inverse = np.zeros_like(sizes)
    kept = sizes > 1e-7
    inverse[kept] = 1 / sizes[kept]
    return Vt.T @ (inverse[:, None] * (U.T @ values))


def linear_memory__wrong_fifteenth_cut_on_squares(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Cuts keys.T @ keys at about 1e-8, which is 1e-4 for the keys, so short keys are lost; due is the cut for keys."""
    gram = keys.T @ keys
    right_side = keys.T @ values
    return np.linalg.pinv(gram, rcond=3e-8, hermitian=True) @ right_side


def linear_memory__wrong_fifteenth_asked_from_the_left(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the matrix for S @ query, (d_v, d_k); due is (d_k, d_v) for query @ S."""
    noise = 1e-8 * np.sqrt(keys.size)
    return values.T @ np.linalg.pinv(keys, rcond=noise).T


def linear_memory__wrong_fifteenth_nothing_but_zero_keys(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Divides by the largest entry, NaN or an error where all keys are zero; due is a memory of zeros."""
    largest = np.abs(keys).max()
    unit = keys / largest
    U, s, Vt = np.linalg.svd(unit, full_matrices=False)
    r = int((s > 1e-8 * np.sqrt(keys.size)).sum())
    return Vt[:r].T @ ((U[:, :r].T @ values) / s[:r, None]) / largest


def linear_memory__wrong_fifteenth_scales_keys_in_place(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Right, but scales the keys in place and back, which leaves other last digits; due is that inputs stay."""
    top = np.abs(keys).max()
    if top == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    keys /= top
    S = np.linalg.pinv(keys, rcond=1e-8 * keys.size**0.5) @ values / top
    keys *= top
    return S


def linear_memory__right_fifteenth_eigenvectors_of_keys_both_ways(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Singular pairs as eigenvectors of [[0, keys], [keys.T, 0]], those above the rounding kept; right."""
    n, d_k = keys.shape
    both = np.zeros((n + d_k, n + d_k))
    both[:n, n:] = keys
    both[n:, :n] = keys.T
    sizes, vectors = np.linalg.eigh(both)
    rounding = 1e-8 * np.abs(keys).max() * math.sqrt(n * d_k)
    kept = sizes > 1.01 * rounding
    asks, feels = vectors[:n, kept], vectors[n:, kept]
    return 2 * feels @ ((asks.T @ values) / sizes[kept, None])
