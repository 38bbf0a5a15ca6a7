"""Answers to the exercises of unit 1, wrong ones and right ones, as students would write them."""

import numpy as np


def _softmax_rows(table):
    """The softmax of every row."""
    powers = np.exp(table - table.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


# ------- 1.1 embed


def embed__wrong_fourteenth_rows_of_the_table(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Takes row t of E as the embedding of word t, as in nn.Embedding; due is column t."""
    sentence = []
    for t in tokens:
        sentence.append(E[t])
    return np.array(sentence)


def embed__wrong_fourteenth_every_word_once(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Gives one row per different word, sorted by number; due is one row per token, in the order of the sentence."""
    different_words = np.unique(tokens)
    return E[:, different_words].T.copy()


def embed__wrong_fourteenth_number_as_entry(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Puts the number t itself at place t of the one-hot vector, so that rows come t times too long; due is a 1."""
    vocab = E.shape[1]
    one_hot = np.zeros((len(tokens), vocab))
    for i in range(len(tokens)):
        t = tokens[i]
        one_hot[i, t] = t
    return one_hot @ E.T


def embed__wrong_fourteenth_tokens_stay_columns(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Picks the right columns and forgets to turn them into rows; due is shape (n, d_model)."""
    return np.take(E, tokens, axis=1)


def embed__wrong_fourteenth_reshape_for_transpose(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Makes (d_model, n) into (n, d_model) by reshape, which mixes the entries; due is the transpose."""
    d_model, n = E.shape[0], tokens.shape[0]
    picked = E[:, tokens]  # (d_model, n)
    return picked.reshape(n, d_model)


def embed__wrong_fourteenth_words_from_one(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Reads the word numbers as counted from 1, so every token gets the column before its own; due is from 0."""
    identity = np.eye(E.shape[1])
    return identity[np.asarray(tokens) - 1] @ E.T


def embed__wrong_fourteenth_word_four_silenced(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Sets the rows of word 4 to zero, as it is the padding of the example; due is column 4 of whatever E it is."""
    pad = 4
    result = E.T[tokens]
    result[np.asarray(tokens) == pad] = 0.0
    return result


def embed__wrong_fourteenth_single_precision_rows(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Collects the right rows in a float32 array; due is float64 where E is float64."""
    out = np.empty((len(tokens), E.shape[0]), dtype=np.float32)
    for row, t in zip(out, tokens, strict=True):
        row[:] = E[:, t]
    return out


def embed__right_fourteenth_flat_positions(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Computes where each number stands in the flattened table, and takes them all at once."""
    d_model, vocab = E.shape
    where = np.add.outer(np.asarray(tokens).astype(np.intp), vocab * np.arange(d_model))
    return E.ravel().take(where)


# ------- 1.2 soft_lookup


def soft_lookup__wrong_fourteenth_best_key_only(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the value of the key with the largest score, a hard lookup; due is the sum of all, by softmax."""
    best = np.argmax(keys @ query)
    return values[best].copy()


def soft_lookup__wrong_fourteenth_shares_of_scores(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Lifts the scores until none is negative and takes their shares as weights; due are shares of exponentials."""
    n = len(keys)
    lifted = keys @ query
    lifted = lifted - lifted.min()
    total = lifted.sum()
    weights = lifted / total if total > 0 else np.full(n, 1 / n)
    mixture = np.zeros(values.shape[1])
    for j in range(n):
        mixture += weights[j] * values[j]
    return mixture


def soft_lookup__wrong_fourteenth_cosine_of_directions(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Compares directions only, by the cosine; due are plain dot products, in which length counts."""
    length_q = np.linalg.norm(query)
    lengths = np.linalg.norm(keys, axis=1)
    product = length_q * lengths
    product[product == 0] = 1.0
    cosines = np.einsum("jd,d->j", keys, query) / product
    e = np.exp(cosines)
    return np.einsum("j,jv->v", e / e.sum(), values)


def soft_lookup__wrong_fourteenth_sorted_scores(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sorts the scores to have the largest last, and leaves the values unsorted; each weight belongs to its value."""
    scores = np.sort(keys @ query)
    largest = scores[-1]
    powers = np.exp(scores - largest)
    return powers @ values / powers.sum()


def soft_lookup__wrong_fourteenth_query_is_shifted(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Subtracts the maximum from the query in place of the scores, which changes the weights; due is scores.max()."""
    shifted = query - query.max()
    weights = np.exp(keys @ shifted)
    weights /= weights.sum()
    return weights @ values


def soft_lookup__wrong_fourteenth_divided_by_root(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Divides the scores by the root of d_k, as unit 2 will; here they are plain dot products."""
    d_k = keys.shape[1]
    s = keys.dot(query) / d_k**0.5
    s = s - np.max(s)
    a = np.exp(s) / np.sum(np.exp(s))
    return np.sum(a[:, np.newaxis] * values, axis=0)


def soft_lookup__wrong_fourteenth_scores_clipped(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Clips scores at 300 in size against overflow, so that larger ones are all alike; due is a shift."""
    scores = np.clip(keys @ query, -300.0, 300.0)
    powers = np.exp(scores)
    attention = powers / powers.sum()
    return attention @ values


def soft_lookup__wrong_fourteenth_keys_overwritten(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Multiplies the query into the keys in place: the result is right, but the input keys should stay as they are."""
    keys *= query  # each entry times its partner; the rows now add up to the scores
    scores = keys.sum(axis=1)
    scores -= scores.max()
    np.exp(scores, out=scores)
    scores /= scores.sum()
    return scores @ values


def soft_lookup__right_fourteenth_differences_of_pairs(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Writes each weight as one over the sum of e to the differences of all scores to its own; infinity gives 0."""
    scores = keys @ query
    ahead = scores[None, :] - scores[:, None]  # entry j, l: how far l is ahead of j
    with np.errstate(over="ignore"):
        weights = 1.0 / np.exp(ahead).sum(axis=1)
    return weights @ values


# ------- 1.3 project_qkv


def project_qkv__wrong_fourteenth_lookup_already_done(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the outputs of the attention, A V, as the third part; due is V itself, before any lookup."""
    Q = X @ W_Q
    K = X @ W_K
    A = _softmax_rows(Q @ K.T)
    V = A @ (X @ W_V)
    return Q, K, V


def project_qkv__wrong_fourteenth_keys_of_neighbours(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes key and value from the next token, as a token should look at others; due are all three from the same."""
    neighbours = np.roll(X, -1, axis=0)
    return X @ W_Q, neighbours @ W_K, neighbours @ W_V


def project_qkv__wrong_fourteenth_queries_of_length_one(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Brings queries and keys to length 1, as if only directions counted; due are the plain products."""

    def direction(rows):
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        return rows / np.where(lengths > 0, lengths, 1)

    return direction(X @ W_Q), direction(X @ W_K), X @ W_V


def project_qkv__wrong_fourteenth_keys_come_first(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists the weights in the order K, Q, V and unpacks them as Q, K, V: queries and keys are swapped."""
    Q, K, V = (X @ W for W in (W_K, W_Q, W_V))
    return Q, K, V


def project_qkv__wrong_fourteenth_first_feature_skipped(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts the sum over the features at 1 and so leaves out feature 0; due is the sum over all of d_model."""
    n, d_model = X.shape
    results = []
    for W in (W_Q, W_K, W_V):
        out = np.zeros((n, W.shape[1]))
        for i in range(n):
            for c in range(W.shape[1]):
                for feature in range(1, d_model):
                    out[i, c] += X[i, feature] * W[feature, c]
        results.append(out)
    return tuple(results)


def project_qkv__wrong_fourteenth_tokens_as_columns(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns one column per token, (d_k, n) and (d_v, n), the convention of papers; due is one row per token."""
    x = X.T
    q = W_Q.T @ x
    k = W_K.T @ x
    v = W_V.T @ x
    return q, k, v


def project_qkv__wrong_fourteenth_values_cut_off(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts one large product into pieces of d_k columns, so that wider values lose some; d_v may be larger."""
    d = W_Q.shape[1]
    everything = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    return everything[:, :d], everything[:, d : 2 * d], everything[:, 2 * d : 3 * d]


_room = {}


def project_qkv__wrong_fourteenth_arrays_used_again(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Writes into arrays kept from the last call of these sizes: a returned result changes with the next call."""
    parts = []
    for letter, W in zip("QKV", (W_Q, W_K, W_V), strict=True):
        place = letter, len(X), W.shape[1]
        if place not in _room:
            _room[place] = np.empty((len(X), W.shape[1]))
        parts.append(np.matmul(X, W, out=_room[place]))
    return tuple(parts)


def project_qkv__right_fourteenth_sum_of_outer_products(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds up, feature by feature, the outer product of a column of X with a row of the weights."""

    def times(W):
        total = np.zeros((X.shape[0], W.shape[1]), dtype=np.result_type(X, W))
        for column, row in zip(X.T, W, strict=True):
            total += np.outer(column, row)
        return total

    return times(W_Q), times(W_K), times(W_V)


# ------- 1.4 project_token


def project_token__wrong_fourteenth_weights_from_right(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lets the weights act from the right, as on rows; due is W @ x (with square weights both can be computed)."""
    return x @ W_Q, x @ W_K, x @ W_V


def project_token__wrong_fourteenth_products_not_summed(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiplies every row of the weights by the token entry by entry and adds nothing up; due is one sum per row."""
    q, k, v = W_Q * x, W_K * x, W_V * x
    return q, k, v


def project_token__wrong_fourteenth_value_times_score(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes the value as loud as the key fits the query, v times q . k; due is the plain v: no lookup happens here."""
    q = np.dot(W_Q, x)
    k = np.dot(W_K, x)
    loudness = np.dot(q, k)
    return q, k, loudness * np.dot(W_V, x)


def project_token__wrong_fourteenth_last_feature_missing(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lets the sum over the features end one too early, so that the last feature of the token counts for nothing."""
    d_model = len(x)

    def act(W):
        y = np.zeros(W.shape[0])
        for d in range(d_model - 1):
            y += W[:, d] * x[d]
        return y

    return act(W_Q), act(W_K), act(W_V)


def project_token__wrong_fourteenth_total_runs_on(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Does not set the total back to 0 for the next row, so that entry i holds the sum of entries 0 to i."""
    answer = []
    for W in [W_Q, W_K, W_V]:
        vector = []
        total = 0.0
        for row in W:
            for weight, entry in zip(row, x, strict=True):
                total += weight * entry
            vector.append(total)
        answer.append(np.array(vector))
    return tuple(answer)


def project_token__wrong_fourteenth_results_as_columns(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reads 'a column' as an array of shape (d_model, 1) and returns such columns; due is one axis, (d_head,)."""
    column = x.reshape(-1, 1)
    return W_Q @ column, W_K @ column, W_V @ column


def project_token__wrong_fourteenth_single_number_loses_axis(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes all axes of size 1 away, so that with d_head = 1 (or d_v = 1) no axis is left; due is shape (1,)."""
    x_column = x[:, None]
    q = np.squeeze(W_Q @ x_column)
    k = np.squeeze(W_K @ x_column)
    v = np.squeeze(W_V @ x_column)
    return q, k, v


def project_token__wrong_fourteenth_token_gets_reshaped(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes the caller's token itself into a column, (d_model, 1): results are right, but the input is changed."""
    x.shape = (x.size, 1)
    return (W_Q @ x)[:, 0], (W_K @ x)[:, 0], (W_V @ x)[:, 0]


def project_token__right_fourteenth_one_tall_matrix(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Puts the three matrices on top of each other, multiplies once and cuts the long vector in three."""
    tall = np.vstack((W_Q, W_K, W_V))
    cuts = np.cumsum([len(W_Q), len(W_K)])
    q, k, v = np.split(tall @ x, cuts)
    return q, k, v


# ------- 1.5 low_rank_value


def low_rank_value__wrong_fourteenth_relu_in_between(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Sets negative numbers to 0 between the factors, as in a feed-forward layer; nothing stands between them."""
    hidden = X @ W_V_down
    hidden = np.maximum(hidden, 0)
    return hidden @ W_V_up


def low_rank_value__wrong_fourteenth_token_added(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Adds the message to the token's vector already; due is the message alone."""
    message = X @ (W_V_down @ W_V_up)
    return X + message


def low_rank_value__wrong_fourteenth_down_undone(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Goes up by the transpose of the down matrix, to come back to where the token was; due is W_V_up."""
    width = W_V_up.shape[1]
    narrow = np.einsum("nm,mh->nh", X, W_V_down)
    wide = np.einsum("nh,mh->nm", narrow, W_V_down)
    assert wide.shape[1] == width
    return wide


def low_rank_value__wrong_fourteenth_head_feature_missing(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Begins the loop over the head's features at 1, so that feature 0 of the head is lost; due is from 0."""
    n, d_model = X.shape
    d_head = W_V_down.shape[1]
    result = np.zeros((n, d_model))
    for h in range(1, d_head):
        feature = X @ W_V_down[:, h]  # (n,)
        result = result + feature[:, None] * W_V_up[h][None, :]
    return result


def low_rank_value__wrong_fourteenth_two_letters_for_head(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Gives the axis of the head two letters, so both factors are summed on their own; due is the same letter."""
    return np.einsum("nd,dh,km->nm", X, W_V_down, W_V_up)


def low_rank_value__wrong_fourteenth_up_comes_first(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Reads the factors as made for columns and transposes both, so W_V_up acts first; due is X @ down @ up."""
    up, down = W_V_up.T, W_V_down.T
    return (X @ up) @ down


def low_rank_value__wrong_fourteenth_head_not_wider_than_token(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Uses at most d_model features of the head, as the rank is no larger; with d_head > d_model all are due."""
    rank = min(W_V_down.shape)
    thin_down, thin_up = W_V_down[:, :rank], W_V_up[:rank, :]
    return X @ thin_down @ thin_up


def low_rank_value__wrong_fourteenth_written_over_tokens(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Writes the messages, which are right, into X and returns that; the input X should stay as it is."""
    for i in range(X.shape[0]):
        X[i] = (X[i] @ W_V_down) @ W_V_up
    return X


def low_rank_value__right_fourteenth_third_power_of_blocks(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Sets the three matrices as blocks above the diagonal of a large one: its third power holds their product."""
    n, d_model = X.shape
    d_head = W_V_down.shape[1]
    a, b, c = n, n + d_model, n + d_model + d_head
    blocks = np.zeros((c + d_model, c + d_model), dtype=np.result_type(X, W_V_down, W_V_up))
    blocks[:a, a:b] = X
    blocks[a:b, b:c] = W_V_down
    blocks[b:c, c:] = W_V_up
    return np.linalg.matrix_power(blocks, 3)[:a, c:].copy()


# ------- 1.6 attention_parameters


def attention_parameters__wrong_fourteenth_value_up_forgotten(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts one matrix each for query, key and value; the value map is made of two, down and up."""
    query = d_model * d_head
    key = d_model * d_head
    value = d_model * d_head
    return (query + key + value) * n_heads * n_layers


def attention_parameters__wrong_fourteenth_value_map_square(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts the value map as the square matrix that the product is; stored are its two thin factors."""
    thin = 2 * d_model * d_head
    square = d_model**2
    return n_layers * n_heads * (thin + square)


def attention_parameters__wrong_fourteenth_heads_share_questions(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Lets all heads of a layer share one query and one key matrix; every head has its own four."""
    one_matrix = d_model * d_head
    shared = 2 * one_matrix
    own = n_heads * (one_matrix + one_matrix)
    return n_layers * (shared + own)


def attention_parameters__wrong_fourteenth_heads_counted_twice(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Takes the width of all heads together and multiplies by the number of heads once more."""
    width = d_head * n_heads
    matrices = {"query": d_model * width, "key": d_model * width}
    matrices |= {"down": d_model * width, "up": width * d_model}
    per_layer = n_heads * sum(matrices.values())
    return per_layer * n_layers


def attention_parameters__wrong_fourteenth_up_once_a_layer(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Adds the value-up matrix once per layer, outside of the count of the heads; every head has one."""
    head = 0
    for shape in [(d_model, d_head)] * 3:
        head += shape[0] * shape[1]
    layer = n_heads * head
    layer += d_head * d_model
    return layer * n_layers


def attention_parameters__wrong_fourteenth_heads_of_whole_model(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Reads n_heads as the heads of the whole model, so the layers do not count; it is the heads per layer."""
    per_head = 4 * d_model * d_head
    return per_head * n_heads


def attention_parameters__wrong_fourteenth_output_map_square(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts the up halves of a layer as one d_model x d_model matrix: right only if d_head * n_heads = d_model."""
    w_q = w_k = w_v = d_model * d_head * n_heads
    w_o = d_model * d_model
    return n_layers * (w_q + w_k + w_v + w_o)


def attention_parameters__wrong_fourteenth_count_in_64_bits(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Multiplies in NumPy's 64 bits, which run over from 2**63 on; due is a count exact at any size."""
    return int(np.prod([4, d_model, d_head, n_heads, n_layers]))


def attention_parameters__right_fourteenth_doubling_and_adding(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Multiplies Python's whole numbers as Russian peasants do, by doubling, halving and adding."""

    def times(a, b):
        total = 0
        while b:
            if b & 1:
                total += a
            a, b = a << 1, b >> 1
        return total

    matrix = times(int(d_model), int(d_head))
    head = matrix << 2
    return times(times(head, int(n_heads)), int(n_layers))


# ------- 1.7 pointing_weights


def pointing_weights__wrong_fourteenth_keys_on_a_line(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sets keys on a line and asks for the place of the target, as if the nearest won; the outermost keys win."""
    n = len(X)
    places = np.arange(n) - (n - 1) / 2
    keys = np.stack([places, np.ones(n)], axis=1)
    queries = 60 * keys[target]
    back = np.linalg.pinv(X)
    return back @ queries, back @ keys


def pointing_weights__wrong_fourteenth_target_looks_back(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gives the target's direction to the key and its own to the query, so the target looks at the token."""
    n = X.shape[0]
    phi = 2 * np.pi * np.arange(n) / n
    circle = np.c_[np.cos(phi), np.sin(phi)]
    Q, K = 150 * circle, circle[target]
    W_Q = np.linalg.lstsq(X, Q, rcond=None)[0]
    W_K = np.linalg.lstsq(X, K, rcond=None)[0]
    return W_Q, W_K


def pointing_weights__wrong_fourteenth_best_table_of_rank_two(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a table of scores with 40 at the targets down to rank 2 by SVD, which loses most targets from n = 3 on."""
    n = len(target)
    wanted = 40.0 * np.eye(n)[target]
    u, s, vt = np.linalg.svd(wanted)
    queries, keys = np.zeros((n, 2)), np.zeros((n, 2))
    r = min(2, n)
    queries[:, :r] = u[:, :r] * s[:r]
    keys[:, :r] = vt[:r].T
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__wrong_fourteenth_not_sharpened(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Puts keys on the circle and forgets to make the queries long: the best key wins, but by far too little."""
    n = X.shape[0]
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    unit = np.exp(1j * angle)
    K = np.stack([unit.real, unit.imag], axis=-1)
    Q = K[target]
    both = np.linalg.pinv(X) @ np.hstack([Q, K])
    return both[:, :2], both[:, 2:]


def pointing_weights__wrong_fourteenth_circle_closed_twice(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes linspace with its end, so that first and last key are the same point and share the weight."""
    n, _ = X.shape
    turn = np.linspace(0.0, 2.0 * np.pi, n)
    K = np.array([[np.cos(t), np.sin(t)] for t in turn])
    Q = np.array([200.0 * K[j] for j in target])
    solve = X.T @ np.linalg.inv(X @ X.T)
    return solve @ Q, solve @ K


def pointing_weights__wrong_fourteenth_rows_read_as_orthonormal(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads 'linearly independent' as 'orthonormal' and takes X.T for the inverse; due is the pseudo-inverse."""
    n = len(X)
    steps = np.arange(n) * (2 * np.pi / n)
    ring = np.column_stack((np.sin(steps), np.cos(steps)))
    W_K = X.T @ ring
    W_Q = X.T @ (180 * ring[target])
    return W_Q, W_K


def pointing_weights__wrong_fourteenth_ridge_for_small_tokens(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Adds 0.001 to the diagonal of X X.T, which is not small beside tokens whose entries are small: they blur."""
    n = X.shape[0]
    a = 2 * np.pi * np.arange(n) / n
    keys = np.vstack([np.cos(a), np.sin(a)]).T
    gram = X @ X.T + 1e-3 * np.eye(n)
    W_K = X.T @ np.linalg.solve(gram, keys)
    W_Q = X.T @ np.linalg.solve(gram, 300 * keys[target])
    return W_Q, W_K


def pointing_weights__wrong_fourteenth_turned_by_chance(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Begins the circle at a random angle, so that every call gives other weights; they should be the same."""
    n = len(X)
    start = np.random.default_rng().uniform(0, 2 * np.pi)
    angles = start + np.arange(n) / n * 2 * np.pi
    points = np.array([np.cos(angles), np.sin(angles)]).T
    inv = np.linalg.pinv(X)
    return inv @ (200 * points[target]), inv @ points


def pointing_weights__right_fourteenth_keys_on_a_parabola(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Keys (p, p squared), queries (2 p, -1) of the target: scores fall with the squared distance of the places."""
    n = len(X)
    place = np.arange(n) - (n - 1) / 2
    keys = np.stack([place, place**2], axis=1)
    queries = 10 * np.stack([2 * place[target], -np.ones(n)], axis=1)
    basis, R = np.linalg.qr(X.T)  # X = R.T @ basis.T
    return basis @ np.linalg.solve(R.T, queries), basis @ np.linalg.solve(R.T, keys)


# ------- 1.8 linear_memory


def linear_memory__wrong_fourteenth_plain_sum(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Adds up the products of keys and values as in section 2; keys not at right angles disturb each other."""
    d_k, d_v = keys.shape[1], values.shape[1]
    S = np.zeros((d_k, d_v))
    for k, v in zip(keys, values, strict=True):
        S += np.outer(k, v)
    return S


def linear_memory__wrong_fourteenth_corrected_one_by_one(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Corrects the memory once for each pair in turn, which spoils earlier answers; due is the best for all at once."""
    memory = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values, strict=True):
        squared_length = key @ key
        if squared_length == 0:
            continue
        error = value - key @ memory
        memory = memory + key[:, None] * error[None, :] / squared_length
    return memory


def linear_memory__wrong_fourteenth_only_what_fits(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Keeps the first d_k pairs only, as a matrix can be exact for no more; all pairs count in the sum of squares."""
    n, d_k = keys.shape
    fits = min(n, d_k)
    kept_keys, kept_values = keys[:fits], values[:fits]
    largest = np.abs(keys).max()
    rounding = 1e-8 * largest * np.sqrt(n * d_k)
    u, s, vt = np.linalg.svd(kept_keys, full_matrices=False)
    good = s > rounding
    return vt[good].T @ ((u[:, good].T @ kept_values) / s[good, None])


def linear_memory__wrong_fourteenth_rounding_believed(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Leaves the cut-off of pinv at its default, near 1e-15, and so takes rounding for an independent direction."""
    return np.linalg.pinv(keys) @ values


def linear_memory__wrong_fourteenth_cut_off_not_scaled(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Cuts singular values at 1e-8 times the root of the size, and forgets to multiply by the largest entry."""
    U, sigma, Vh = np.linalg.svd(keys, full_matrices=False)
    small = 1e-8 * np.sqrt(keys.size)
    inverse = np.array([1 / s if s > small else 0.0 for s in sigma])
    return Vh.T @ np.diag(inverse) @ U.T @ values


def linear_memory__wrong_fourteenth_both_sums_together(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Makes the sum of errors plus squared entries least, as one goal; the entries only decide between equals."""
    n, d_k = keys.shape
    stacked_keys = np.concatenate([keys, np.eye(d_k)])
    stacked_values = np.concatenate([values, np.zeros((d_k, values.shape[1]))])
    solution, *_ = np.linalg.lstsq(stacked_keys, stacked_values, rcond=None)
    return solution


def linear_memory__wrong_fourteenth_rounding_of_many_keys(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Cuts at the rounding of one entry; that of many keys adds up to a larger singular value, which stays in."""
    left, strength, right = np.linalg.svd(keys, full_matrices=False)
    noise = 1e-8 * np.abs(keys).max()
    rank = int((strength > noise).sum())
    S = np.zeros((keys.shape[1], values.shape[1]))
    for r in range(rank):
        S += np.outer(right[r], left[:, r] @ values) / strength[r]
    return S


def linear_memory__wrong_fourteenth_keys_tidied_up(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sets tiny entries of the caller's keys to 0 before it finds the right memory; the input should stay as it is."""
    rounding = 1e-8 * np.max(np.abs(keys))
    keys[np.abs(keys) < rounding] = 0.0
    longest = np.linalg.norm(keys, 2)
    if longest == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    relative = rounding * keys.size**0.5 / longest
    return np.linalg.lstsq(keys, values, rcond=relative)[0]


def linear_memory__right_fourteenth_eigenvectors_of_blocks(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Inverts the symmetric matrix with the keys and their transpose as blocks, where eigenvalues exceed rounding."""
    n, d_k = keys.shape
    blocks = np.zeros((n + d_k, n + d_k))
    blocks[:n, n:] = keys
    blocks[n:, :n] = keys.T
    eigenvalues, vectors = np.linalg.eigh(blocks)  # plus and minus the singular values, and zeros
    rounding = 1e-8 * np.abs(keys).max() * np.sqrt(n * d_k)
    seen = np.abs(eigenvalues) > rounding
    some = vectors[:, seen]
    return (some[n:] / eigenvalues[seen]) @ (some[:n].T @ values)
