"""Unit 1, projections: answers as students would hand them in (TAG: eighth)."""

import math

import numpy as np


def _cut(keys):
    """The largest singular value that rounding by 1e-8 of the largest entry can make (with room)."""
    return 2e-8 * np.abs(keys).max() * math.sqrt(keys.size)


def _rounded_pinv(keys):
    """A pseudo-inverse that does not believe the rounding of the keys."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    kept = s > _cut(keys)
    return (Vt[kept].T / s[kept]) @ U[:, kept].T


# 1.1 embed ---------------------------------------------------------------------------


def embed__wrong_eighth_scaled_by_root_of_width(tokens, E):
    """Multiplies the embeddings by sqrt(d_model), as in section 3.4 of Attention Is All You Need."""
    d_model = E.shape[0]
    lookup = E.T
    return lookup[tokens] * np.sqrt(d_model)


def embed__wrong_eighth_table_in_the_integers_of_tokens(tokens, E):
    """Fills an array made with the dtype of tokens, so every entry is cut to an integer."""
    n, d_model = len(tokens), E.shape[0]
    X = np.zeros((n, d_model), dtype=tokens.dtype)
    for i in range(n):
        for d in range(d_model):
            X[i, d] = E[d, tokens[i]]
    return X.astype(E.dtype)


def embed__wrong_eighth_reshaped_in_place_of_transposed(tokens, E):
    """Picks the columns and then brings (d_model, n) to (n, d_model) with reshape, which mixes the entries."""
    columns = E[:, tokens]
    n = tokens.shape[0]
    return columns.reshape(n, -1)


def embed__wrong_eighth_last_word_is_padding(tokens, E):
    """Sets the rows of the last word of the vocabulary to zero, as nn.Embedding does with padding_idx."""
    vocab = E.shape[1]
    rows = []
    for t in tokens:
        if t == vocab - 1:  # <pad>
            rows.append(np.zeros(E.shape[0]))
        else:
            rows.append(E[:, t])
    return np.stack(rows)


def embed__right_eighth_take_along_axis(tokens, E):
    """Spreads the tokens over all features and takes along the axis of the words, then turns and copies."""
    places = np.broadcast_to(tokens, (E.shape[0], len(tokens)))
    return np.take_along_axis(E, places, axis=1).T.copy()


# 1.2 soft_lookup ---------------------------------------------------------------------


def soft_lookup__wrong_eighth_scores_from_distance(query, keys, values):
    """Scores are minus half the squared distance from query to key, which also punishes long keys."""
    gap = keys - query
    scores = -0.5 * (gap * gap).sum(axis=1)
    e = np.exp(scores - scores.max())
    return (e / e.sum()) @ values


def soft_lookup__wrong_eighth_hard_where_exp_would_overflow(query, keys, values):
    """If any score is beyond 700 in size it returns the value of the best key alone, even with close rivals."""
    scores = keys @ query
    if np.abs(scores).max() > 700:
        return values[np.argmax(scores)].copy()
    powers = np.exp(scores)
    return powers @ values / powers.sum()


def soft_lookup__wrong_eighth_keys_multiplied_in_place(query, keys, values):
    """Multiplies the keys by the query with *= to get the dot products, and so changes the argument keys."""
    keys *= query
    s = keys.sum(axis=1)
    s = s - np.max(s)
    a = np.exp(s)
    a /= a.sum()
    return np.einsum("n,nv->v", a, values)


def soft_lookup__wrong_eighth_running_total_not_rescaled(query, keys, values):
    """One pass with a running maximum; a new maximum rescales the mixture so far but not the sum of the powers."""
    best, total, mix = -np.inf, 0.0, np.zeros(values.shape[1])
    for k, v in zip(keys, values):
        s = float(np.dot(query, k))
        if s > best:
            mix = mix * math.exp(best - s)
            best = s
        w = math.exp(s - best)
        total += w
        mix = mix + w * v
    return mix / total


def soft_lookup__right_eighth_merged_in_pairs(query, keys, values):
    """Each key is a triple (maximum, sum, mixture); halves of the table are merged, each rescaled to the larger maximum."""

    def part(lo, hi):
        if hi - lo == 1:
            return np.dot(keys[lo], query), 1.0, values[lo] * 1.0
        mid = (lo + hi) // 2
        m1, z1, r1 = part(lo, mid)
        m2, z2, r2 = part(mid, hi)
        m = max(m1, m2)
        f1, f2 = np.exp(m1 - m), np.exp(m2 - m)
        return m, f1 * z1 + f2 * z2, f1 * r1 + f2 * r2

    _, total, mixture = part(0, len(keys))
    return mixture / total


# 1.3 project_qkv ---------------------------------------------------------------------


def project_qkv__wrong_eighth_queries_and_keys_share_a_buffer(X, W_Q, W_K, W_V):
    """Writes the queries and then the keys into one array with out=, so the queries returned are the keys."""
    buffer = np.empty((X.shape[0], W_Q.shape[1]), dtype=np.result_type(X, W_Q, W_K))
    Q = np.matmul(X, W_Q, out=buffer)
    K = np.matmul(X, W_K, out=buffer)
    V = np.matmul(X, W_V)
    return Q, K, V


def project_qkv__wrong_eighth_fused_and_cut_in_thirds(X, W_Q, W_K, W_V):
    """One product with all weights side by side, cut into three equal parts although d_v may differ from d_k."""
    everything = X @ np.concatenate((W_Q, W_K, W_V), axis=1)
    return tuple(np.split(everything, 3, axis=1))


def project_qkv__wrong_eighth_queries_and_keys_of_length_one(X, W_Q, W_K, W_V):
    """Divides every query and key by its length, as models with QK normalization do."""

    def unit(rows):
        lengths = np.sqrt((rows**2).sum(axis=-1, keepdims=True))
        return rows / np.where(lengths == 0, 1, lengths)

    return unit(X @ W_Q), unit(X @ W_K), X @ W_V


def project_qkv__wrong_eighth_side_guessed_from_the_shape(X, W_Q, W_K, W_V):
    """Transposes every weight whose second size is d_model, so that square weights act from the wrong side."""
    d_model = X.shape[1]
    out = []
    for W in (W_Q, W_K, W_V):
        if W.shape[1] == d_model:  # stored like nn.Linear: (out, in)
            out.append(X @ W.T)
        else:
            out.append(X @ W)
    return tuple(out)


def project_qkv__right_eighth_fused_and_cut_where_widths_say(X, W_Q, W_K, W_V):
    """One product with the weights side by side, cut at d_k and 2 d_k, each part copied."""
    d_k = W_Q.shape[1]
    side_by_side = np.hstack([W_Q, W_K, W_V])
    parts = np.split(X @ side_by_side, [d_k, 2 * d_k], axis=1)
    Q, K, V = (part.copy() for part in parts)
    return Q, K, V


# 1.4 project_token -------------------------------------------------------------------


def project_token__wrong_eighth_value_as_wide_as_a_head(x, W_Q, W_K, W_V):
    """Uses only the first d_head rows of W_V, as if every vector were d_head wide."""
    d_head = W_Q.shape[0]
    q = np.array([W_Q[i] @ x for i in range(d_head)])
    k = np.array([W_K[i] @ x for i in range(d_head)])
    v = W_V[:d_head] @ x
    return q, k, v


def project_token__wrong_eighth_squeezed_column(x, W_Q, W_K, W_V):
    """Makes x a column and squeezes the products, so that a vector of one number loses its only axis."""
    column = x.reshape(-1, 1)
    q, k, v = (np.squeeze(np.matmul(W, column)) for W in (W_Q, W_K, W_V))
    return q, k, v


def project_token__wrong_eighth_weights_reshaped_for_rows(x, W_Q, W_K, W_V):
    """Goes back to tokens as rows, but turns the weights round with reshape and not by transposing."""
    row = x[None, :]
    d_model = x.size

    def as_row_weights(W):
        return W.reshape(d_model, W.shape[0])

    Q = row @ as_row_weights(W_Q)
    K = row @ as_row_weights(W_K)
    V = row @ as_row_weights(W_V)
    return Q[0], K[0], V[0]


def project_token__wrong_eighth_single_precision(x, W_Q, W_K, W_V):
    """Collects the sums in float32 arrays, as one does on a GPU, and returns float32 for float64 inputs."""
    answers = []
    for W in (W_Q, W_K, W_V):
        y = np.zeros(W.shape[0], dtype=np.float32)
        for i, row in enumerate(W):
            y[i] = (row * x).sum()
        answers.append(y)
    return tuple(answers)


def project_token__right_eighth_columns_added_up(x, W_Q, W_K, W_V):
    """Adds up the columns of each weight, each times one entry of the token."""

    def act(W):
        total = np.zeros(W.shape[0], dtype=np.result_type(W, x))
        for entry, column in zip(x, W.T):
            total = total + entry * column
        return total

    return act(W_Q), act(W_K), act(W_V)


# 1.5 low_rank_value ------------------------------------------------------------------


def low_rank_value__wrong_eighth_one_letter_for_both_widths(X, W_V_down, W_V_up):
    """The einsum has the same letter for d_model going in and coming out: only the diagonal of the map acts."""
    return np.einsum("nd,dh,hd->nd", X, W_V_down, W_V_up)


def low_rank_value__wrong_eighth_product_written_into_tokens(X, W_V_down, W_V_up):
    """Writes the result into X itself and returns X: the argument is changed."""
    whole = W_V_down @ W_V_up
    X[...] = X @ whole
    return X


def low_rank_value__wrong_eighth_column_convention_for_rows(X, W_V_down, W_V_up):
    """Transposes the product of the factors, so the up matrix acts first, transposed, and then the down matrix."""
    value_map = W_V_down @ W_V_up  # (d_model, d_model)
    messages = [value_map @ x for x in X]
    return np.array(messages)


def low_rank_value__wrong_eighth_only_the_last_feature_kept(X, W_V_down, W_V_up):
    """Loops over the features of the head and assigns where it should add: only the last rank-one piece is left."""
    out = np.zeros_like(X)
    d_head = W_V_down.shape[1]
    for h in range(d_head):
        feature = X @ W_V_down[:, h]
        out = feature[:, None] * W_V_up[h]
    return out


def low_rank_value__right_eighth_rank_one_pieces(X, W_V_down, W_V_up):
    """Adds up one outer product per feature of the head."""
    pieces = [
        np.multiply.outer(X @ down, up) for down, up in zip(W_V_down.T, W_V_up)
    ]
    result = pieces[0]
    for piece in pieces[1:]:
        result = result + piece
    return result


# 1.6 attention_parameters ------------------------------------------------------------


def attention_parameters__wrong_eighth_up_matrix_once_per_layer(
    d_model, d_head, n_heads, n_layers
):
    """Counts query, key and value-down for every head, but one value-up matrix for the whole layer."""
    thin = d_model * d_head
    heads = n_heads * 3 * thin
    output = d_head * d_model
    return n_layers * (heads + output)


def attention_parameters__wrong_eighth_numpy_integers_run_over(
    d_model, d_head, n_heads, n_layers
):
    """Multiplies with np.prod in int64, which runs over silently for counts of 2**63 and more."""
    sizes = np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int64)
    return int(np.prod(sizes))


def attention_parameters__wrong_eighth_value_map_as_one_square(
    d_model, d_head, n_heads, n_layers
):
    """Counts the value map of a head as its product, one square matrix of d_model × d_model."""
    query = key = d_model * d_head
    value = d_model**2
    per_head = query + key + value
    return per_head * n_heads * n_layers


def attention_parameters__wrong_eighth_whole_multiples_of_the_width(
    d_model, d_head, n_heads, n_layers
):
    """Counts in squares of d_model with n_heads * d_head // d_model, which drops the rest of the division."""
    squares = n_heads * d_head // d_model
    total = 0
    for _ in ("query", "key", "down", "up"):
        total += d_model * d_model * squares
    return total * n_layers


def attention_parameters__right_eighth_doubling_and_adding(
    d_model, d_head, n_heads, n_layers
):
    """Multiplies Python integers by doubling and halving, one size after the other."""
    count = 4
    for size in (d_model, d_head, n_heads, n_layers):
        left, doubled, product = int(size), count, 0
        while left:
            if left & 1:
                product += doubled
            doubled += doubled
            left >>= 1
        count = product
    return count


# 1.7 pointing_weights ----------------------------------------------------------------


def pointing_weights__wrong_eighth_solved_for_normalized_tokens(X, target):
    """Solves for the tokens divided by their lengths: with X itself every key is as long as its token."""
    n = len(X)
    angle = 2 * np.pi * np.arange(n) / n
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    inverse = np.linalg.pinv(unit)
    W_K = inverse @ ring
    W_Q = inverse @ (300 * ring[target])
    return W_Q, W_K


def pointing_weights__wrong_eighth_keys_ordered_by_target_too(X, target):
    """Gives token i the point of its target both as query and as key, so it finds those with its own target."""
    n = X.shape[0]
    phi = np.arange(n) * (2 * np.pi / n)
    points = np.stack([np.cos(phi), np.sin(phi)], axis=1)[target]
    W = np.linalg.lstsq(X, points, rcond=None)[0]
    return 200.0 * W, W


def pointing_weights__wrong_eighth_length_grows_only_with_n(X, target):
    """Keys on the unit circle and queries of length n, while the lead over the neighbour shrinks with n squared."""
    n, _ = X.shape
    keys = np.array(
        [[math.cos(2 * math.pi * j / n), math.sin(2 * math.pi * j / n)] for j in range(n)]
    )
    queries = n * keys[target]
    right_inverse = X.T @ np.linalg.inv(X @ X.T)
    return right_inverse @ queries, right_inverse @ keys


def pointing_weights__wrong_eighth_first_n_features_only(X, target):
    """Inverts the square of the first n columns of X, which may be singular, and gives the other features zeros."""
    n, d_model = X.shape
    theta = np.linspace(0, 2 * np.pi, n, endpoint=False)
    K = np.c_[np.cos(theta), np.sin(theta)]
    Q = 250 * K[target]
    square = np.linalg.pinv(X[:, :n])
    W_Q, W_K = np.zeros((d_model, 2)), np.zeros((d_model, 2))
    W_Q[:n] = square @ Q
    W_K[:n] = square @ K
    return W_Q, W_K


def pointing_weights__right_eighth_keys_on_a_parabola(X, target):
    """Keys (t, -t²/2) and queries 12·(t, 1), whose scores fall with the squared distance; solved by QR of X.T."""
    t = np.arange(len(X)) - (len(X) - 1) / 2
    K = np.stack((t, -(t**2) / 2), axis=1)
    Q = 12 * np.stack((t[target], np.ones(len(X))), axis=1)
    basis, R = np.linalg.qr(X.T)  # X = R.T @ basis.T
    return basis @ np.linalg.solve(R.T, Q), basis @ np.linalg.solve(R.T, K)


# 1.8 linear_memory -------------------------------------------------------------------


def linear_memory__wrong_eighth_pairs_divided_by_key_length(keys, values):
    """Divides each pair by the length of its key first, so short keys count more in the squared differences."""
    lengths = np.linalg.norm(keys, axis=1, keepdims=True)
    lengths[lengths == 0] = 1.0
    unit_keys = keys / lengths
    scaled_values = values / lengths
    return _rounded_pinv(unit_keys) @ scaled_values


def linear_memory__wrong_eighth_equal_keys_counted_once(keys, values):
    """Merges equal keys into one with the mean of their values, which then counts no more than a single pair."""
    near = 1e-7 * np.abs(keys).max()
    kept, groups = [], []
    for k, v in zip(keys, values):
        for place, other in enumerate(kept):
            if np.abs(k - other).max() <= near:
                groups[place].append(v)
                break
        else:
            kept.append(k)
            groups.append([v])
    merged = np.array([np.mean(group, axis=0) for group in groups])
    return _rounded_pinv(np.array(kept)) @ merged


def linear_memory__wrong_eighth_cut_on_the_squared_scale(keys, values):
    """Cuts the eigenvalues of keys.T @ keys at 1e-8 of the largest, which drops directions 1e-4 as strong as the best."""
    gram = keys.T @ keys
    return np.linalg.pinv(gram, rcond=1e-8, hermitian=True) @ (keys.T @ values)


def linear_memory__wrong_eighth_delta_rule_in_one_pass(keys, values):
    """Writes the pairs one after the other, each corrected by what S answers so far: later pairs spoil earlier ones."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    tiny = (1e-7 * np.abs(keys).max()) ** 2
    for k, v in zip(keys, values):
        strength = k @ k
        if strength > tiny:
            S = S + np.outer(k, v - k @ S) / strength
    return S


def linear_memory__right_eighth_eigenvectors_of_a_block_matrix(keys, values):
    """Pseudo-inverts the symmetric [[0, K], [K.T, 0]] by eigh, cut above the rounding, and takes its lower left block."""
    n, d_k = keys.shape
    largest = np.abs(keys).max()
    if largest == 0:
        return np.zeros((d_k, values.shape[1]))
    block = np.zeros((n + d_k, n + d_k))
    block[:n, n:] = keys / largest
    block[n:, :n] = block[:n, n:].T
    lam, vectors = np.linalg.eigh(block)
    seen = np.abs(lam) > 2e-8 * math.sqrt(n * d_k)
    lower, upper = vectors[n:, seen], vectors[:n, seen]
    return (lower / lam[seen]) @ (upper.T @ values) / largest
