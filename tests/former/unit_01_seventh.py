"""Answers to the exercises of unit 1 as students would hand them in: eight wrong and two right for each."""

import math

import numpy as np

_STORE = {}  # arrays that one of the answers keeps from call to call


# ---------------------------------------------------------------- 1.1 embed


def embed__wrong_seventh_buffer_of_integers(tokens, E):
    """Makes the result with zeros_like of the tokens' dtype, so that every embedding entry is cut to an integer."""
    n = len(tokens)
    d_model = E.shape[0]
    rows = np.zeros((n, d_model), dtype=tokens.dtype)
    for i, t in enumerate(tokens):
        rows[i] = E[:, t]
    return rows


def embed__wrong_seventh_one_hot_not_cleared(tokens, E):
    """Makes one one-hot vector before the loop and never sets it back to 0, so row i is the sum of the distinct words so far."""
    d_model, vocab = E.shape
    X = np.empty((tokens.size, d_model))
    one_hot = np.zeros(vocab)
    for i in range(tokens.size):
        one_hot[tokens[i]] = 1.0
        X[i] = E @ one_hot
    return X


def embed__wrong_seventh_times_root_of_width(tokens, E):
    """Multiplies the embeddings by sqrt(d_model), as section 3.4 of Attention Is All You Need does."""
    width = E.shape[0]
    return E.T[tokens] * math.sqrt(width)


def embed__wrong_seventh_words_counted_from_one(tokens, E):
    """Takes word number t for the t-th column counted from 1, so it picks column t - 1 (and the last one for t = 0)."""
    picked = [E[:, number - 1] for number in tokens]
    return np.stack(picked, axis=0)


def embed__wrong_seventh_reshape_for_transpose(tokens, E):
    """Picks the right columns but turns (d_model, n) into (n, d_model) by reshape, which does not transpose."""
    columns = E[:, tokens]
    d_model, n = columns.shape
    return columns.reshape(n, d_model)


def embed__wrong_seventh_last_word_is_padding(tokens, E):
    """Gives the last word of the vocabulary (<pad>) a row of zeros, like padding_idx, in place of its column of E."""
    padding = E.shape[1] - 1
    out = np.zeros((tokens.shape[0], E.shape[0]), dtype=E.dtype)
    real = tokens != padding
    out[real] = E.T[tokens[real]]
    return out


def embed__wrong_seventh_each_word_once(tokens, E):
    """Runs over dict.fromkeys(tokens), so a word that comes again gets no second row."""
    order = dict.fromkeys(tokens.tolist())
    table = {word: E[:, word] for word in order}
    return np.array(list(table.values()))


def embed__wrong_seventh_squeezed(tokens, E):
    """Picks with a one-hot tensor that leaves a spare axis and removes it by squeeze(), which takes axes of size 1 of n and d_model, too."""
    one_hot = np.zeros((len(tokens), E.shape[1], 1))
    one_hot[np.arange(len(tokens)), tokens, 0] = 1
    return (E @ one_hot).squeeze()


def embed__right_seventh_flat_positions(tokens, E):
    """Computes the position of every wanted entry in the flattened E, row * vocab + token, and takes all at once."""
    d_model, vocab = E.shape
    where = np.arange(d_model)[None, :] * vocab + tokens.astype(np.int64)[:, None]
    return np.take(np.ravel(E, order="C"), where)


def embed__right_seventh_word_by_word(tokens, E):
    """Goes through the vocabulary and writes each word's column into all rows where the word stands."""
    X = np.empty((tokens.shape[0], E.shape[0]), dtype=E.dtype)
    for word, column in enumerate(E.T):
        X[tokens == word, :] = column
    return X


# ---------------------------------------------------------------- 1.2 soft_lookup


def soft_lookup__wrong_seventh_closeness_for_dot_product(query, keys, values):
    """Scores by minus half the squared distance of query and key, which lacks the keys' own squared lengths against a dot product."""
    apart = keys - query
    scores = -0.5 * (apart**2).sum(axis=1)
    powers = np.exp(scores - scores.max())
    return powers / powers.sum() @ values


def soft_lookup__wrong_seventh_running_sum_not_rescaled(query, keys, values):
    """Reads the pairs one by one with a running maximum, but rescales only the sum of weights when it rises, not the mixed values."""
    top, total = -np.inf, 0.0
    mixed = np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        s = float(np.dot(query, key))
        new_top = max(top, s)
        total = total * np.exp(top - new_top) + np.exp(s - new_top)
        mixed = mixed + np.exp(s - new_top) * value
        top = new_top
    return mixed / total


def soft_lookup__wrong_seventh_multiplies_into_keys(query, keys, values):
    """Forms the dot products by keys *= query and a sum, which overwrites the caller's keys."""
    keys *= query
    s = np.sum(keys, axis=1)
    s = s - np.max(s)
    w = np.exp(s)
    w /= np.sum(w)
    return np.dot(w, values)


def soft_lookup__wrong_seventh_hard_when_large(query, keys, values):
    """Where a score is beyond 700 in size it returns the value of the best key alone, though rivals may be close or equal."""
    scores = keys @ query
    if np.abs(scores).max() > 700:  # exp would overflow
        return values[scores.argmax()].copy()
    weights = np.exp(scores) / np.exp(scores).sum()
    return (weights[:, None] * values).sum(axis=0)


def soft_lookup__wrong_seventh_one_in_the_sum(query, keys, values):
    """Adds 1 (one more score of 0) to the sum of exponentials, the softmax that may attend to nothing, so weights sum to less than 1."""
    scores = keys @ query
    shift = max(scores.max(), 0.0)
    powers = np.exp(scores - shift)
    weights = powers / (np.exp(-shift) + powers.sum())
    return weights @ values


def soft_lookup__wrong_seventh_powers_of_two(query, keys, values):
    """Uses np.exp2 without multiplying the scores by log2(e), so the weights are powers of 2, not of e."""

    def softmax(s):
        p = np.exp2(s - s.max())
        return p / p.sum()

    return softmax(keys.dot(query)).dot(values)


def soft_lookup__wrong_seventh_softmax_twice(query, keys, values):
    """Normalises by a softmax, and then takes the softmax of these weights once more when mixing."""
    weights = keys @ query
    for _ in ("scores to weights", "weights sum to one"):
        weights = np.exp(weights - weights.max())
        weights = weights / weights.sum()
    return np.einsum("j,jc->c", weights, values)


def soft_lookup__wrong_seventh_in_float32(query, keys, values):
    """Converts all to float32 as in a GPU program: the result is float32, and scores near 1e4 are off by up to 5e-4."""
    q, k, v = (np.asarray(a, dtype=np.float32) for a in (query, keys, values))
    scores = k @ q
    scores -= scores.max()
    weights = np.exp(scores)
    return (weights @ v) / weights.sum()


def soft_lookup__right_seventh_running_softmax(query, keys, values):
    """Reads the pairs one by one with a running maximum, and rescales sum and mixture alike when it rises."""
    best = float(query @ keys[0])
    total = 1.0
    mixed = values[0].astype(float)
    for j in range(1, len(keys)):
        s = float(query @ keys[j])
        if s > best:
            shrink = math.exp(best - s)
            total *= shrink
            mixed = mixed * shrink
            best = s
        share = math.exp(s - best)
        total += share
        mixed = mixed + share * values[j]
    return mixed / total


def soft_lookup__right_seventh_one_over_ratios(query, keys, values):
    """Takes weight j as 1 / sum over l of e^(s_l - s_j): an infinite ratio gives a weight of 0, and none is 0/0."""
    s = keys @ query
    with np.errstate(over="ignore"):
        ratios = np.exp(s[None, :] - s[:, None])
        weights = 1.0 / ratios.sum(axis=1)
    return values.T @ weights


# ---------------------------------------------------------------- 1.3 project_qkv


def project_qkv__wrong_seventh_cut_in_three_even_parts(X, W_Q, W_K, W_V):
    """Multiplies by the three weights side by side and cuts with array_split into thirds, though V may be wider or thinner."""
    together = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    Q, K, V = np.array_split(together, 3, axis=1)
    return Q, K, V


def project_qkv__wrong_seventh_values_filled_d_k_wide(X, W_Q, W_K, W_V):
    """Fills Q, K and V in one loop over the d_k columns, so with d_v > d_k the other columns of V stay 0."""
    n = X.shape[0]
    d_k = W_Q.shape[1]
    Q, K = np.zeros((n, d_k)), np.zeros((n, d_k))
    V = np.zeros((n, W_V.shape[1]))
    for i in range(n):
        for c in range(min(d_k, W_V.shape[1])):
            V[i, c] = np.dot(X[i], W_V[:, c])
        for c in range(d_k):
            Q[i, c] = np.dot(X[i], W_Q[:, c])
            K[i, c] = np.dot(X[i], W_K[:, c])
    return Q, K, V


def project_qkv__wrong_seventh_writes_into_kept_arrays(X, W_Q, W_K, W_V):
    """Saves memory by writing into arrays that it keeps by name and shape, so the next call changes results given out before."""
    results = []
    for name, W in (("Q", W_Q), ("K", W_K), ("V", W_V)):
        place = (name, X.shape[0], W.shape[1])
        if place not in _STORE:
            _STORE[place] = np.empty(place[1:])
        results.append(np.matmul(X, W, out=_STORE[place]))
    return tuple(results)


def project_qkv__wrong_seventh_keys_by_query_weights(X, W_Q, W_K, W_V):
    """Copied the line of the queries for the keys and changed only the name in front: K is X @ W_Q."""
    queries = np.dot(X, W_Q)
    keys = np.dot(X, W_Q)
    vals = np.dot(X, W_V)
    return queries, keys, vals


def project_qkv__wrong_seventh_keys_as_columns(X, W_Q, W_K, W_V):
    """Returns the keys as columns, (d_k, n), ready for the scores Q @ K."""
    Q = np.einsum("nd,dk->nk", X, W_Q)
    K = np.einsum("nd,dk->kn", X, W_K)
    V = np.einsum("nd,dv->nv", X, W_V)
    return Q, K, V


def project_qkv__wrong_seventh_generator_for_tuple(X, W_Q, W_K, W_V):
    """Returns a comprehension in round brackets, which is a generator and no tuple."""
    return (X @ W for W in (W_Q, W_K, W_V))


def project_qkv__wrong_seventh_values_already_looked_up(X, W_Q, W_K, W_V):
    """Carries on with the lookup and returns the outputs A V of all tokens in the place of the values."""
    Q = X @ W_Q
    K = X @ W_K
    V = X @ W_V
    S = Q @ K.T
    A = np.exp(S - S.max(axis=1, keepdims=True))
    A = A / A.sum(axis=1, keepdims=True)
    return Q, K, A @ V


def project_qkv__wrong_seventh_queries_over_root_d_k(X, W_Q, W_K, W_V):
    """Divides the queries by sqrt(d_k) at once, the scale of the scores in unit 2."""
    d_k = W_K.shape[-1]
    q, k, v = [X.dot(weight) for weight in (W_Q, W_K, W_V)]
    return q / np.sqrt(d_k), k, v


def project_qkv__right_seventh_one_product_cut_at_widths(X, W_Q, W_K, W_V):
    """One product with the weights side by side, cut after d_k and after 2 d_k columns."""
    side_by_side = np.hstack((W_Q, W_K, W_V))
    ends = np.cumsum([W_Q.shape[1], W_K.shape[1]])
    return tuple(part.copy() for part in np.split(X @ side_by_side, ends, axis=1))


def project_qkv__right_seventh_feature_by_feature(X, W_Q, W_K, W_V):
    """Adds up, over the d_model features, the outer product of the tokens' feature with the weights' row of it."""

    def product(W):
        table = np.zeros((X.shape[0], W.shape[1]), dtype=np.result_type(X, W))
        for feature in range(X.shape[1]):
            table += np.outer(X[:, feature], W[feature])
        return table

    return product(W_Q), product(W_K), product(W_V)


# ---------------------------------------------------------------- 1.4 project_token


def project_token__wrong_seventh_rows_first_if_it_fits(x, W_Q, W_K, W_V):
    """Tries x @ W of section 3 and takes W @ x only if that raises, so square weights act from the wrong side."""
    parts = []
    for W in (W_Q, W_K, W_V):
        try:
            parts.append(x @ W)
        except ValueError:
            parts.append(W @ x)
    return tuple(parts)


def project_token__wrong_seventh_reshaped_weights(x, W_Q, W_K, W_V):
    """Brings the weights to (d_model, out) by reshape(d_model, -1) instead of .T and multiplies the row by them."""
    d_model = x.shape[0]
    q = x @ W_Q.reshape(d_model, -1)
    k = x @ W_K.reshape(d_model, -1)
    v = x @ W_V.reshape(d_model, -1)
    return q, k, v


def project_token__wrong_seventh_column_squeezed(x, W_Q, W_K, W_V):
    """Makes x a (d_model, 1) column and squeezes the products, so a width of 1 loses its only axis."""
    column = x[:, np.newaxis]
    return tuple(np.squeeze(W @ column) for W in (W_Q, W_K, W_V))


def project_token__wrong_seventh_mean_of_products(x, W_Q, W_K, W_V):
    """Takes the mean over d_model of the entrywise products in place of their sum."""
    q = np.mean(W_Q * x[None, :], axis=1)
    k = np.mean(W_K * x[None, :], axis=1)
    v = np.mean(W_V * x[None, :], axis=1)
    return q, k, v


def project_token__wrong_seventh_slices_all_d_head_long(x, W_Q, W_K, W_V):
    """Stacks the weights, multiplies once and cuts three slices of d_head entries, so v loses what it has beyond d_head."""
    d_head = len(W_Q)
    y = np.vstack([W_Q, W_K, W_V]) @ x
    return y[:d_head], y[d_head : 2 * d_head], y[2 * d_head : 3 * d_head]


def project_token__wrong_seventh_products_kept_in_weights(x, W_Q, W_K, W_V):
    """Multiplies the rows of the weights by x in place before adding up, so the caller's weights are changed."""
    answer = ()
    for W in (W_Q, W_K, W_V):
        for row in W:
            row *= x  # a row is a view
        answer += (W.sum(axis=1),)
    return answer


def project_token__wrong_seventh_sum_over_outputs(x, W_Q, W_K, W_V):
    """Adds the entrywise products along axis 0, over the outputs, so every part has d_model entries."""
    return (W_Q * x).sum(axis=0), (W_K * x).sum(axis=0), (W_V * x).sum(axis=0)


def project_token__wrong_seventh_sum_stops_at_rows(x, W_Q, W_K, W_V):
    """Lets the sum of each dot product run over range(number of rows of W) and not over all d_model entries of x."""

    def times(W):
        rows = len(W)
        out = np.zeros(rows)
        for i in range(rows):
            for j in range(min(rows, len(x))):
                out[i] += W[i, j] * x[j]
        return out

    return times(W_Q), times(W_K), times(W_V)


def project_token__right_seventh_mix_of_columns(x, W_Q, W_K, W_V):
    """Each part is the mix of the columns of its weights, each times its entry of x, added up in a loop."""
    parts = []
    for W in (W_Q, W_K, W_V):
        part = 0.0 * W[:, 0]
        for entry, column in zip(x, W.T):
            part = part + entry * column
        parts.append(part)
    q, k, v = parts
    return q, k, v


def project_token__right_seventh_block_diagonal(x, W_Q, W_K, W_V):
    """Puts the three weights on the diagonal of one large matrix, multiplies it with x three times in a row, and cuts."""
    all_weights = (W_Q, W_K, W_V)
    d = x.size
    ends = np.cumsum([0] + [W.shape[0] for W in all_weights])
    big = np.zeros((ends[-1], 3 * d))
    for i, W in enumerate(all_weights):
        big[ends[i] : ends[i + 1], i * d : (i + 1) * d] = W
    y = big @ np.tile(x, 3)
    return tuple(y[a:b].copy() for a, b in zip(ends[:-1], ends[1:]))


# ---------------------------------------------------------------- 1.5 low_rank_value


def low_rank_value__wrong_seventh_relu_in_between(X, W_V_down, W_V_up):
    """Puts a ReLU between down and up, as in a feed-forward layer."""
    hidden = X @ W_V_down
    hidden = np.where(hidden > 0, hidden, 0.0)
    return hidden @ W_V_up


def low_rank_value__wrong_seventh_up_first_transposed(X, W_V_down, W_V_up):
    """Translates from columns where nothing is to be translated: X @ W_V_up.T @ W_V_down.T has the right shapes."""
    narrow = X @ W_V_up.T
    return narrow @ W_V_down.T


def low_rank_value__wrong_seventh_token_added(X, W_V_down, W_V_up):
    """Adds the message to the token itself and returns the sum, not the message."""
    message = np.matmul(np.matmul(X, W_V_down), W_V_up)
    return X + message


def low_rank_value__wrong_seventh_divided_by_rank(X, W_V_down, W_V_up):
    """Divides by the rank d_head, as LoRA's alpha / r does with alpha = 1."""
    rank = W_V_down.shape[1]
    alpha = 1.0
    return (alpha / rank) * (X @ W_V_down @ W_V_up)


def low_rank_value__wrong_seventh_up_undoes_down(X, W_V_down, W_V_up):
    """Reads “up again” as the undoing of down and goes up by the pseudoinverse of W_V_down; W_V_up is not used."""
    small = X @ W_V_down
    back = np.linalg.pinv(W_V_down)
    return small @ back


def low_rank_value__wrong_seventh_product_into_X(X, W_V_down, W_V_up):
    """Writes the product back into X by X[:] = ..., so the caller's tokens are overwritten."""
    value_map = W_V_down @ W_V_up
    X[:] = X @ value_map
    return X


def low_rank_value__wrong_seventh_last_feature_only(X, W_V_down, W_V_up):
    """Goes through the d_head features and writes = instead of +=, so only the last feature's part is returned."""
    out = np.zeros(X.shape)
    for h in range(W_V_down.shape[1]):
        signal = X @ W_V_down[:, h]
        out = signal[:, None] * W_V_up[h][None, :]
    return out


def low_rank_value__wrong_seventh_einsum_keeps_old_letter(X, W_V_down, W_V_up):
    """Writes the letter of the incoming width behind the arrow, nd,dh,hm->nd, so it sums over the outgoing one."""
    return np.einsum("nd,dh,hm->nd", X, W_V_down, W_V_up)


def low_rank_value__right_seventh_sum_of_rank_ones(X, W_V_down, W_V_up):
    """Adds up d_head matrices of rank one, a column of the down product times a row of up."""
    total = np.zeros((X.shape[0], W_V_up.shape[1]))
    for down, up in zip(W_V_down.T, W_V_up):
        total += np.multiply.outer(X.dot(down), up)
    return total


def low_rank_value__right_seventh_cube_of_blocks(X, W_V_down, W_V_up):
    """Puts the three matrices beside the diagonal of one block matrix, whose third power holds their product in its corner."""
    n, d_model = X.shape
    d_head = W_V_down.shape[1]
    ends = np.cumsum([0, n, d_model, d_head, W_V_up.shape[1]])
    M = np.zeros((ends[-1], ends[-1]))
    for step, block in enumerate((X, W_V_down, W_V_up)):
        M[ends[step] : ends[step + 1], ends[step + 1] : ends[step + 2]] = block
    return (M @ M @ M)[:n, ends[3] :].copy()


# ---------------------------------------------------------------- 1.6 attention_parameters


def attention_parameters__wrong_seventh_square_output_matrix(d_model, d_head, n_heads, n_layers):
    """Counts the up halves of a layer as one W_O of d_model x d_model, which is right only if d_head * n_heads = d_model."""
    qkv = 3 * d_model * d_head * n_heads
    output = d_model * d_model
    return n_layers * (qkv + output)


def attention_parameters__wrong_seventh_with_biases(d_model, d_head, n_heads, n_layers):
    """Adds a bias for every output of the four matrices."""
    down = d_model * d_head + d_head  # query, key, value-down
    up = d_head * d_model + d_model
    return n_layers * n_heads * (3 * down + up)


def attention_parameters__wrong_seventh_shared_keys_and_values(d_model, d_head, n_heads, n_layers):
    """Lets all heads of a layer share one key and one value-down matrix, as in multi-query attention."""
    matrix = d_model * d_head
    per_layer = n_heads * matrix  # queries
    per_layer += matrix + matrix  # keys, values
    per_layer += n_heads * matrix  # up
    return per_layer * n_layers


def attention_parameters__wrong_seventh_product_in_int32(d_model, d_head, n_heads, n_layers):
    """Multiplies in NumPy with dtype int32, so counts from 2 ** 31 on wrap around."""
    factors = np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int32)
    return int(np.prod(factors, dtype=np.int32))


def attention_parameters__wrong_seventh_layer_count_not_reset(d_model, d_head, n_heads, n_layers):
    """Sets the count of a layer to 0 before all layers and not before each, so layer l is counted with all below it."""
    total = 0
    in_layer = 0
    for _ in range(n_layers):
        in_layer += n_heads * sum(rows * columns for rows, columns in [(d_model, d_head)] * 4)
        total += in_layer
    return total


def attention_parameters__wrong_seventh_share_of_width_as_float(d_model, d_head, n_heads, n_layers):
    """Takes d_head / d_model of a square matrix, a float, so int() cuts, and large counts lose their last digits."""
    full = 4 * d_model**2 * n_layers
    share = d_head / d_model
    return int(full * share * n_heads)


def attention_parameters__wrong_seventh_value_map_square(d_model, d_head, n_heads, n_layers):
    """Counts the value map as the one square matrix d_model x d_model that down times up makes."""
    per_head = 2 * d_model * d_head  # query, key
    per_head += d_model * d_model  # value
    return per_head * n_heads * n_layers


def attention_parameters__wrong_seventh_value_up_forgotten(d_model, d_head, n_heads, n_layers):
    """Counts W_Q, W_K and W_V of section 3 and leaves out the up half of the value map."""
    shapes = {"W_Q": (d_model, d_head), "W_K": (d_model, d_head), "W_V": (d_model, d_head)}
    return sum(a * b for a, b in shapes.values()) * n_heads * n_layers


def attention_parameters__right_seventh_whole_layers(d_model, d_head, n_heads, n_layers):
    """Counts by the matrices of a whole layer, all heads side by side, three (d_model, h d_head) and one (h d_head, d_model)."""
    inner = int(n_heads) * int(d_head)
    shapes = [(int(d_model), inner)] * 3 + [(inner, int(d_model))]
    return int(n_layers) * sum(rows * columns for rows, columns in shapes)


def attention_parameters__right_seventh_shift_left(d_model, d_head, n_heads, n_layers):
    """Multiplies the four sizes as Python integers and shifts the product by two bits, which is times 4."""
    return math.prod(map(int, (d_model, d_head, n_heads, n_layers))) << 2


# ---------------------------------------------------------------- 1.7 pointing_weights


def pointing_weights__wrong_seventh_parabola_wrong_sign(X, target):
    """Puts keys on the parabola (j, j²) and asks with (2t, 1), so scores are 2tj + j² and the last key wins everywhere."""
    n = X.shape[0]
    j = np.arange(n, dtype=float)
    t = target.astype(float)
    keys = np.stack([j, j**2], axis=1)
    queries = 6.0 * np.stack([2 * t, np.ones(n)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__wrong_seventh_circle_turned_by_chance(X, target):
    """Starts the circle of keys at a random angle without a seed, so every call returns other weights."""
    n = len(X)
    start = np.random.default_rng().uniform(0, 2 * np.pi)
    angles = start + 2 * np.pi * np.arange(n) / n
    K = np.column_stack([np.cos(angles), np.sin(angles)])
    Q = 300 * K[target]
    return np.linalg.pinv(X) @ Q, np.linalg.pinv(X) @ K


def pointing_weights__wrong_seventh_first_key_equals_last(X, target):
    """Spreads the angles by linspace(0, 2 pi, n) with its end point, so the first and the last key are the same."""
    n, _ = X.shape
    phi = np.linspace(0, 2 * np.pi, n)
    circle = np.array([np.cos(phi), np.sin(phi)]).T
    solve = lambda table: np.linalg.lstsq(X, table, rcond=None)[0]  # noqa: E731
    return solve(300.0 * circle[target]), solve(circle)


def pointing_weights__wrong_seventh_first_n_features(X, target):
    """Solves with the first n columns of X alone and leaves the other rows of the weights 0; these columns may be dependent."""
    n, d_model = X.shape
    angle = 2 * np.pi / n * np.arange(n)
    K = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    W_Q, W_K = np.zeros((d_model, 2)), np.zeros((d_model, 2))
    inverse = np.linalg.pinv(X[:, :n])
    W_Q[:n] = inverse @ (300 * K[target])
    W_K[:n] = inverse @ K
    return W_Q, W_K


def pointing_weights__wrong_seventh_every_query_its_own_angle(X, target):
    """Gives query i angle i and puts key target[i] there, so a target that is shared sits at the angle of its last asker only."""
    n = len(target)
    Q = np.zeros((n, 2))
    K = np.zeros((n, 2))
    for i in range(n):
        angle = 2 * math.pi * i / n
        Q[i] = math.cos(angle), math.sin(angle)
        K[target[i]] = Q[i]
    to_weights = X.T @ np.linalg.inv(X @ X.T)
    return to_weights @ (300 * Q), to_weights @ K


def pointing_weights__wrong_seventh_ridge_of_a_tenth(X, target):
    """Adds a tenth of the identity to X.T @ X to make it invertible, so weak directions of X are shrunk and the tables missed."""
    n, d_model = X.shape
    angles = np.arange(n) * (2 * np.pi / n)
    K = np.vstack([np.cos(angles), np.sin(angles)]).T
    Q = 80 * K[target]
    gram = X.T @ X + 0.1 * np.eye(d_model)
    W_Q = np.linalg.solve(gram, X.T @ Q)
    W_K = np.linalg.solve(gram, X.T @ K)
    return W_Q, W_K


def pointing_weights__wrong_seventh_principal_directions_as_keys(X, target):
    """Takes X's two strongest directions for the keys and the target's key times 100 for the query; short and inner keys never win."""
    _, _, directions = np.linalg.svd(X, full_matrices=False)
    W_K = np.zeros((X.shape[1], 2))
    found = directions[:2].T
    W_K[:, : found.shape[1]] = found
    K = X @ W_K
    W_Q = np.linalg.pinv(X) @ (100 * K[target])
    return W_Q, W_K


def pointing_weights__wrong_seventh_designed_for_unit_rows(X, target):
    """Makes the rows of X one long before solving, but the weights meet X itself, so long tokens get long keys and outbid the target."""
    n = len(X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    a = 2 * np.pi * np.arange(n) / n
    points = np.c_[np.cos(a), np.sin(a)]
    back = np.linalg.pinv(unit)
    return back @ (300 * points[target]), back @ points


def pointing_weights__right_seventh_parabola(X, target):
    """Keys (j, -j²) on a parabola, queries 8 (2t, 1): the score is 8 (t² - (t - j)²), ahead by 8 at least; solved by the Gram matrix of rows."""
    n = X.shape[0]
    place = np.arange(n) - (n - 1) / 2
    aim = place[target]
    keys = np.stack([place, -(place**2)], axis=1)
    queries = 8 * np.stack([2 * aim, np.ones(n)], axis=1)
    gram = X @ X.T
    return X.T @ np.linalg.solve(gram, queries), X.T @ np.linalg.solve(gram, keys)


def pointing_weights__right_seventh_circle_by_complex_numbers(X, target):
    """Keys are the n-th roots of unity, queries 150 times the target's; the weights by QR of X.T."""
    n = len(X)
    roots = np.exp(2j * np.pi * np.arange(n) / n)
    basis, triangle = np.linalg.qr(X.T)  # X = triangle.T @ basis.T

    def weights(points):
        table = np.array([[z.real, z.imag] for z in points])
        return basis @ np.linalg.solve(triangle.T, table)

    return weights(150 * roots[target]), weights(roots)


# ---------------------------------------------------------------- 1.8 linear_memory


def linear_memory__wrong_seventh_gradient_steps(keys, values):
    """Goes down the gradient from S = 0 for 500 steps, which is far from enough where keys are of unlike length or nearly aligned."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    largest = np.linalg.norm(keys, 2) if keys.size else 0.0
    if largest == 0:
        return S
    rate = 1 / largest**2
    for _ in range(500):
        S = S - rate * keys.T @ (keys @ S - values)
    return S


def linear_memory__wrong_seventh_delta_rule_once_through(keys, values):
    """Corrects the memory pair by pair with the delta rule, once through, so the last pairs are exact and spoil the earlier ones."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values):
        length = k @ k
        if length > 0:
            S += np.outer(k, v - k @ S) / length
    return S


def linear_memory__wrong_seventh_equal_keys_counted_once(keys, values):
    """Replaces equal keys by one with the mean of their values, so a pair that came five times weighs as little as any other."""
    different, which = np.unique(keys, axis=0, return_inverse=True)
    which = np.ravel(which)
    means = np.array([values[which == i].mean(axis=0) for i in range(len(different))])
    U, s, Vt = np.linalg.svd(different, full_matrices=False)
    cut = 2e-8 * np.abs(keys).max() * math.sqrt(keys.size)
    keep = s > cut
    return Vt[keep].T @ ((U[:, keep].T @ means) / s[keep][:, None])


def linear_memory__wrong_seventh_rounds_to_eight_places(keys, values):
    """Rounds the keys to 8 decimals to undo the rounding, and takes the pseudoinverse; dependent keys do not become dependent again by it."""
    clean = np.round(keys, 8)
    return np.linalg.pinv(clean, rcond=1e-12) @ values


def linear_memory__wrong_seventh_unneeded_features_zero(keys, values):
    """Chooses independent columns of the keys from the left and sets the other rows of S to 0: least differences, but not the least S."""
    n, d_k = keys.shape
    cut = 2e-8 * np.abs(keys).max() * math.sqrt(n * d_k)
    chosen, directions = [], []
    for c in range(d_k):
        rest = keys[:, c].astype(float)
        for _ in range(2):
            for u in directions:
                rest = rest - u * (u @ rest)
        size = np.linalg.norm(rest)
        if size > cut:
            chosen.append(c)
            directions.append(rest / size)
    S = np.zeros((d_k, values.shape[1]))
    if chosen:
        S[chosen] = np.linalg.lstsq(keys[:, chosen], values, rcond=None)[0]
    return S


def linear_memory__wrong_seventh_later_dependent_pairs_left_out(keys, values):
    """Keeps a pair only while its key is independent of the ones before and stores these exactly; the other pairs do not count."""
    cut = 2e-8 * np.abs(keys).max() * math.sqrt(keys.size)
    kept, basis = [], np.zeros((0, keys.shape[1]))
    for i, k in enumerate(keys):
        rest = k - basis.T @ (basis @ k)
        rest = rest - basis.T @ (basis @ rest)
        if np.linalg.norm(rest) > cut:
            basis = np.vstack([basis, rest / np.linalg.norm(rest)])
            kept.append(i)
    if not kept:
        return np.zeros((keys.shape[1], values.shape[1]))
    return np.linalg.pinv(keys[kept], rcond=1e-12) @ values[kept]


def linear_memory__wrong_seventh_means_taken_off(keys, values):
    """Takes the means off keys and values first, as in a regression with a constant, though query @ S has no constant."""
    k = keys - keys.mean(axis=0)
    v = values - values.mean(axis=0)
    s = np.linalg.svd(k, compute_uv=False)
    cut = 4e-8 * np.abs(keys).max() * np.sqrt(keys.size)
    if s[0] <= cut:
        return np.zeros((keys.shape[1], values.shape[1]))
    return np.linalg.pinv(k, rcond=cut / s[0]) @ v


def linear_memory__wrong_seventh_cut_at_a_ten_thousandth(keys, values):
    """Takes the pseudoinverse with rcond = 1e-4, so keys that are far shorter than the others, yet far above the rounding, are lost."""
    return np.linalg.pinv(keys, rcond=1e-4) @ values


def linear_memory__right_seventh_symmetric_block_eigenvectors(keys, values):
    """Eigenvectors of [[0, K], [K.T, 0]], whose positive eigenvalues are the singular values, are cut at twice the size the rounding can have."""
    n, d_k = keys.shape
    scale = np.abs(keys).max()
    if scale == 0:
        return np.zeros((d_k, values.shape[1]))
    block = np.zeros((n + d_k, n + d_k))
    block[:n, n:] = keys / scale
    block[n:, :n] = keys.T / scale
    sizes, vectors = np.linalg.eigh(block)
    keep = sizes > 2e-8 * math.sqrt(n * d_k)
    left, right = vectors[:n, keep], vectors[n:, keep]  # each of length sqrt(1/2)
    return (2 * right / sizes[keep]) @ (left.T @ values) / scale


def linear_memory__right_seventh_jacobi_rotations(keys, values):
    """Turns pairs of columns of the keys until all are at right angles (one-sided Jacobi); columns as short as the rounding are left out."""
    n, d_k = keys.shape
    scale = np.abs(keys).max()
    if scale == 0:
        return np.zeros((d_k, values.shape[1]))
    A, turn = keys / scale, np.eye(d_k)
    for _ in range(60):
        turned = False
        for p in range(d_k - 1):
            for q in range(p + 1, d_k):
                a, b, c = A[:, p] @ A[:, p], A[:, q] @ A[:, q], A[:, p] @ A[:, q]
                if abs(c) <= 1e-15 * math.sqrt(a * b) or abs(c) < 1e-30:
                    continue
                turned = True
                angle = 0.5 * math.atan2(2 * c, a - b)
                R = np.array(
                    [
                        [math.cos(angle), -math.sin(angle)],
                        [math.sin(angle), math.cos(angle)],
                    ]
                )
                A[:, [p, q]] = A[:, [p, q]] @ R
                turn[:, [p, q]] = turn[:, [p, q]] @ R
        if not turned:
            break
    lengths = np.linalg.norm(A, axis=0)
    keep = lengths > 2e-8 * math.sqrt(n * d_k)
    left = A[:, keep] / lengths[keep]
    return (turn[:, keep] / lengths[keep]) @ (left.T @ values) / scale
