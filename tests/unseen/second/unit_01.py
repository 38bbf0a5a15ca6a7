import math

import numpy as np

_seen_words = {}  # one of the wrong answers keeps embeddings here


def _softmax_of(scores):
    """A right softmax of one vector, for answers whose mistake lies elsewhere."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def _on_a_circle(n):
    """n points at equal distances on the unit circle, (n, 2)."""
    angles = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _rounding_limit(keys):
    """What a singular value can owe to rounding alone."""
    level = 1e-7 if keys.dtype == np.float32 else 1e-8
    return level * np.abs(keys).max(initial=0) * math.sqrt(keys.size)


def _inverse_within_rounding(keys):
    """The right pseudo-inverse, (d_k, n), for answers whose mistake lies elsewhere."""
    u, s, vt = np.linalg.svd(keys.astype(np.float64), full_matrices=False)
    keep = s > _rounding_limit(keys)
    return (vt[keep].T / s[keep]) @ u[:, keep].T


# ---------------------------------------------------------------- embed


def embed__wrong_b_tokens_stay_columns(tokens, E):
    """It picks the right columns of E but leaves them as columns, so the result is the transpose: (d_model, n)."""
    vocab = E.shape[1]
    one_hot = np.zeros((vocab, len(tokens)), dtype=E.dtype)
    for i, t in enumerate(tokens):
        one_hot[t, i] = 1
    return E @ one_hot


def embed__wrong_b_axis_of_length_one_lost(tokens, E):
    """The squeeze at the end removes the axis of a single token, and that of d_model = 1."""
    result = []
    for t in tokens:
        v = np.zeros(E.shape[1], E.dtype)
        v[t] = 1.0
        result.append(E @ v)
    return np.squeeze(np.array(result))


def embed__wrong_b_position_for_token(tokens, E):
    """Row i is column i of E: the place in the sequence is taken for the number of the word."""
    return np.stack([E[:, i] for i, _ in enumerate(tokens)])


def embed__wrong_b_tokens_shifted_to_zero(tokens, E):
    """The smallest token of the sequence is subtracted from all, so that without word 0 every column is wrong."""
    tokens = tokens - tokens.min()
    one_hot = (tokens[:, None] == np.arange(E.shape[1])[None, :]).astype(E.dtype)
    return one_hot @ E.T


def embed__wrong_b_kept_from_first_call(tokens, E):
    """Embeddings are kept by token across calls, so that a later call with another E gets those of the old E."""
    out = np.zeros((len(tokens), E.shape[0]), dtype=E.dtype)
    for i, t in enumerate(tokens.tolist()):
        key = (t, E.shape)
        if key not in _seen_words:
            _seen_words[key] = E[:, t].copy()
        out[i] = _seen_words[key]
    return out


def embed__right_b_entry_by_entry(tokens, E):
    """Two loops copy every entry of the right column into its row."""
    d_model = E.shape[0]
    X = np.empty((len(tokens), d_model), dtype=E.dtype)
    for i in range(len(tokens)):
        column = int(tokens[i])
        for feature in range(d_model):
            X[i, feature] = E[feature, column]
    return X


# ---------------------------------------------------------------- soft_lookup


def soft_lookup__wrong_b_divided_by_root(query, keys, values):
    """The scores are divided by the root of d_k, but the plain dot products are asked for."""
    scores = keys @ query / np.sqrt(len(query))
    w = np.exp(scores - np.max(scores))
    w = w / w.sum()
    return w @ values


def soft_lookup__wrong_b_running_max_from_zero(query, keys, values):
    """The running maximum begins at 0 and not at the first score, so that scores far below 0 all underflow to 0/0."""
    best = 0.0
    for k in keys:
        best = max(best, float(k @ query))
    total, mix = 0.0, np.zeros(values.shape[1])
    for k, v in zip(keys, values, strict=True):
        p = np.exp(k @ query - best)
        total += p
        mix = mix + p * v
    return mix / total


def soft_lookup__wrong_b_scores_clipped(query, keys, values):
    """To avoid overflow the scores are clipped to ±500, which makes all scores beyond that equal."""
    scores = np.clip(keys @ query, -500, 500)
    powers = np.exp(scores)
    return powers @ values / powers.sum()


def soft_lookup__wrong_b_keys_overwritten(query, keys, values):
    """The products with the query are written into keys, so that the caller's keys are changed."""
    keys *= query
    scores = keys.sum(axis=1)
    scores -= scores.max()
    weights = np.exp(scores)
    weights /= weights.sum()
    return weights @ values


def soft_lookup__wrong_b_one_value_as_number(query, keys, values):
    """The squeeze turns the result into a bare number where d_v = 1; the shape should be (1,)."""
    weights = _softmax_of(keys @ query)[None, :]
    return np.squeeze(weights @ values)


def soft_lookup__right_b_pairs_of_scores(query, keys, values):
    """Weight j is 1 over the sum of exp(score i - score j); an infinite sum gives the weight 0."""
    scores = keys @ query
    with np.errstate(over="ignore"):
        weights = 1 / np.exp(scores[:, None] - scores[None, :]).sum(axis=0)
    return np.tensordot(weights, values, axes=1)


# ---------------------------------------------------------------- project_qkv


def project_qkv__wrong_b_values_before_keys(X, W_Q, W_K, W_V):
    """The order of the result is Q, V, K in place of Q, K, V."""
    queries = X @ W_Q
    values = X @ W_V
    keys = X @ W_K
    return queries, values, keys


def project_qkv__wrong_b_weights_from_the_left(X, W_Q, W_K, W_V):
    """The weights act from the left on columns, and the results are not turned back: tokens are columns."""
    columns = X.T
    q = W_Q.T @ columns
    k = W_K.T @ columns
    v = W_V.T @ columns
    return q, k, v


def project_qkv__wrong_b_values_cut_to_d_k(X, W_Q, W_K, W_V):
    """All three are cut out of one product in blocks of d_k columns, so that a wider V loses its last columns."""
    d_k = W_Q.shape[1]
    everything = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    blocks = [everything[:, start : start + d_k] for start in (0, d_k, 2 * d_k)]
    return tuple(blocks)


def project_qkv__wrong_b_sum_ends_at_width(X, W_Q, W_K, W_V):
    """The sum of products runs over as many features as W has columns, and not over all d_model of them."""

    def multiply(A, W):
        n, d_model = A.shape
        out = np.zeros((n, W.shape[1]))
        for i in range(n):
            for j in range(W.shape[1]):
                for f in range(min(W.shape[1], d_model)):
                    out[i, j] += A[i, f] * W[f, j]
        return out

    return multiply(X, W_Q), multiply(X, W_K), multiply(X, W_V)


def project_qkv__wrong_b_tokens_centred(X, W_Q, W_K, W_V):
    """The mean over all tokens is subtracted from X first, so that the projection is no longer one of each token."""
    X = X - X.mean(axis=0, keepdims=True)
    return X @ W_Q, X @ W_K, X @ W_V


def project_qkv__right_b_one_product_cut(X, W_Q, W_K, W_V):
    """One product with the weights side by side, cut where W_Q and W_K end."""
    both = W_Q.shape[1] + W_K.shape[1]
    Q, K, V = np.split(X.dot(np.c_[W_Q, W_K, W_V]), [W_Q.shape[1], both], axis=1)
    return Q.copy(), K.copy(), V.copy()


# ---------------------------------------------------------------- project_token


def project_token__wrong_b_weights_from_the_right(x, W_Q, W_K, W_V):
    """The weights act from the right, x @ W, as for rows; here they should act from the left."""
    return x @ W_Q, x @ W_K, x @ W_V


def project_token__wrong_b_key_before_query(x, W_Q, W_K, W_V):
    """Key and query come back in exchanged order: k, q, v."""
    q = np.dot(W_Q, x)
    k = np.dot(W_K, x)
    v = np.dot(W_V, x)
    return k, q, v


def project_token__wrong_b_single_number_without_axis(x, W_Q, W_K, W_V):
    """With one row of weights the squeeze leaves a bare number, shape (), in place of (1,)."""
    x = x[:, np.newaxis]
    return tuple(np.squeeze(W @ x) for W in (W_Q, W_K, W_V))


def project_token__wrong_b_token_overwritten(x, W_Q, W_K, W_V):
    """x is overwritten by its query, and key and value are then made from the query (if the sizes allow it)."""
    x = W_Q @ x
    q = x
    k = W_K @ x
    v = W_V @ x
    return q, k, v


def project_token__wrong_b_reshape_for_transpose(x, W_Q, W_K, W_V):
    """The weights are brought to (d_model, d_head) by a reshape in place of a transpose, so that entries are mixed."""
    d_model = x.shape[0]
    W_Q, W_K, W_V = (W.reshape(d_model, W.shape[0]) for W in (W_Q, W_K, W_V))
    return x @ W_Q, x @ W_K, x @ W_V


def project_token__right_b_stacked_and_cut(x, W_Q, W_K, W_V):
    """The weights are stacked, applied at once, and the long result is cut into three."""
    long = np.inner(np.vstack([W_Q, W_K, W_V]), x)
    end_q = W_Q.shape[0]
    end_k = end_q + W_K.shape[0]
    return long[:end_q].copy(), long[end_q:end_k].copy(), long[end_k:].copy()


# ---------------------------------------------------------------- low_rank_value


def low_rank_value__wrong_b_tokens_added(X, W_V_down, W_V_up):
    """X itself is added to the result, as in a residual connection, but only the mapped values are asked for."""
    out = X @ (W_V_down @ W_V_up)
    return X + out


def low_rank_value__wrong_b_divided_by_root(X, W_V_down, W_V_up):
    """The narrow values are divided by the root of d_head, but nothing should stand between the factors."""
    d_head = W_V_down.shape[1]
    return (X @ W_V_down) / np.sqrt(d_head) @ W_V_up


def low_rank_value__wrong_b_only_last_feature_kept(X, W_V_down, W_V_up):
    """The contributions of the d_head features overwrite each other in place of being added: the last one is left."""
    narrow = X @ W_V_down
    result = np.zeros_like(X)
    for h in range(narrow.shape[1]):
        result = np.outer(narrow[:, h], W_V_up[h])
    return result


def low_rank_value__wrong_b_features_centred(X, W_V_down, W_V_up):
    """In between, the mean over the tokens is subtracted, so that the value of a token depends on the others."""
    H = X @ W_V_down
    H = H - H.mean(axis=0)
    return H @ W_V_up


def low_rank_value__wrong_b_half_precision_between(X, W_V_down, W_V_up):
    """The narrow values are rounded to float16 on the way, which costs all but three digits."""
    narrow = (X @ W_V_down).astype(np.float16)
    return narrow.astype(X.dtype) @ W_V_up


def low_rank_value__right_b_as_columns(X, W_V_down, W_V_up):
    """Tokens as columns, factors transposed from the left, turned back at the end."""
    columns = W_V_up.T @ (W_V_down.T @ X.T)
    return np.ascontiguousarray(columns.T)


# ---------------------------------------------------------------- attention_parameters


def attention_parameters__wrong_b_three_matrices(d_model, d_head, n_heads, n_layers):
    """It counts three matrices per head: the value map has two, down and up, so that there are four."""
    per_head = 3 * d_model * d_head
    return per_head * n_heads * n_layers


def attention_parameters__wrong_b_heads_fill_d_model(d_model, d_head, n_heads, n_layers):
    """It takes d_head * n_heads to equal d_model, so that neither of them counts."""
    return 4 * d_model**2 * n_layers


def attention_parameters__wrong_b_one_up_per_layer(d_model, d_head, n_heads, n_layers):
    """The value-up matrix is counted once per layer, but every head has its own."""
    query = key = down = n_heads * d_model * d_head
    up = d_head * d_model
    return n_layers * (query + key + down + up)


def attention_parameters__wrong_b_square_value_map(d_model, d_head, n_heads, n_layers):
    """The value map is counted as one matrix of d_model × d_model, not as its two thin factors."""
    qk = 2 * d_model * d_head
    v = d_model * d_model
    return (qk + v) * n_heads * n_layers


def attention_parameters__wrong_b_keys_values_shared(d_model, d_head, n_heads, n_layers):
    """Key and value-down matrices are counted once per layer, as if all heads shared them."""
    one = d_model * d_head
    layer = one * n_heads  # queries
    layer += one  # keys
    layer += one  # values, down
    layer += one * n_heads  # values, up
    return layer * n_layers


def attention_parameters__right_b_shapes_added(d_model, d_head, n_heads, n_layers):
    """The shapes of the four kinds are listed, and their products added up in Python's ints."""
    d_model, d_head, n_heads, n_layers = map(int, (d_model, d_head, n_heads, n_layers))
    shapes = {"Q": (d_model, d_head), "K": (d_model, d_head), "down": (d_model, d_head), "up": (d_head, d_model)}
    return n_layers * n_heads * sum(math.prod(shape) for shape in shapes.values())


# ---------------------------------------------------------------- pointing_weights


def pointing_weights__wrong_b_keys_at_targets_place(X, target):
    """Looking and being looked at are exchanged: the keys get the place of their target, the queries their own."""
    points = _on_a_circle(len(X))
    inverse = np.linalg.pinv(X)
    W_Q = inverse @ (300 * points)
    W_K = inverse @ points[target]
    return W_Q, W_K


def pointing_weights__wrong_b_keys_on_a_line(X, target):
    """All keys lie on one line through the origin, so that only the outermost two of them can win."""
    n = len(X)
    position = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
    K = np.stack([position, position], axis=1)
    Q = 200 * K[target]
    A = np.linalg.pinv(X)
    return A @ Q, A @ K


def pointing_weights__wrong_b_new_chance_each_call(X, target):
    """The keys are drawn at random without a seed, so that the weights differ at every call."""
    rng = np.random.default_rng()
    n = len(X)
    turn = rng.uniform(0, 2 * np.pi)
    angles = turn + 2 * np.pi * np.arange(n) / n
    keys = np.array([[np.cos(a), np.sin(a)] for a in angles])
    queries = np.array([250 * keys[t] for t in target])
    W_K = np.linalg.lstsq(X, keys, rcond=None)[0]
    W_Q = np.linalg.lstsq(X, queries, rcond=None)[0]
    return W_Q, W_K


def pointing_weights__wrong_b_inverse_cut_too_coarsely(X, target):
    """The pseudo-inverse drops singular values below a fifth of the largest, which these tokens need."""
    inverse = np.linalg.pinv(X, rcond=0.2)
    points = _on_a_circle(len(X))
    return inverse @ points[target] * 300, inverse @ points


def pointing_weights__wrong_b_nobody_looks_at_itself(X, target):
    """Tokens that are their own target are left out: their query is zero, and they look at all alike."""
    n, points = len(X), _on_a_circle(len(X))
    Q = np.zeros((n, 2))
    for i in range(n):
        if target[i] == i:
            continue  # a token does not ask itself
        Q[i] = 400 * points[target[i]]
    W_Q, *_ = np.linalg.lstsq(X, Q, rcond=None)
    W_K, *_ = np.linalg.lstsq(X, points, rcond=None)
    return W_Q, W_K


def pointing_weights__right_b_keys_on_a_parabola(X, target):
    """Key j is (j, j²), query i is 8·(2t, -1): score 8·(t² - (j - t)²), largest at j = t, by 8 at least."""
    j = np.arange(len(X), dtype=float)
    t = j[target]
    K = np.stack([j, j**2], axis=1)
    Q = 8 * np.stack([2 * t, -np.ones_like(t)], axis=1)
    W_Q, W_K = (np.linalg.lstsq(X, wanted, rcond=None)[0] for wanted in (Q, K))
    return W_Q, W_K


# ---------------------------------------------------------------- linear_memory


def linear_memory__wrong_b_plain_sum(keys, values):
    """It is the plain sum of key times value, which answers rightly only if keys are of length 1 at right angles."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values, strict=True):
        S += np.outer(k, v)
    return S


def linear_memory__wrong_b_keys_of_length_one(keys, values):
    """The memory is made for the keys at length 1, so that the keys as they come get answers scaled by their length."""
    size = np.sqrt(np.sum(keys**2, axis=1))
    unit = np.array([k / s if s > 0 else k for k, s in zip(keys, size, strict=True)])
    return _inverse_within_rounding(unit) @ values


def linear_memory__wrong_b_descent_stops_too_soon(keys, values):
    """Gradient descent takes 500 steps whatever happens, and has not arrived where the keys are nearly dependent."""
    scale = np.abs(keys).max() or 1.0
    K = keys / scale
    S = np.zeros((keys.shape[1], values.shape[1]))
    rate = 1 / max(np.linalg.norm(K, 2) ** 2, 1e-300)
    for _ in range(500):
        S = S - rate * K.T @ (K @ S - values)
    return S / scale


def linear_memory__wrong_b_one_pass_of_corrections(keys, values):
    """Each pair corrects the memory just once, in turn (delta rule): later pairs spoil the answers of earlier ones."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values, strict=True):
        square = key @ key
        if square == 0:
            continue
        error = value - key @ S
        S += np.outer(key, error) / square
    return S


def linear_memory__wrong_b_same_cut_for_float32(keys, values):
    """Keys in float32 are judged by the finer rounding of 1e-8 and not 1e-7, so that their rounding is believed."""
    exact = keys.astype(np.float64)
    largest = np.abs(exact).max()
    if largest == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    top = np.linalg.norm(exact, 2)
    rcond = 1e-8 * largest * math.sqrt(keys.size) / top
    return np.linalg.pinv(exact, rcond=rcond) @ values


def linear_memory__right_b_scaled_lstsq(keys, values):
    """Least squares of the keys at largest entry 1, with the cut as a share of the largest singular value."""
    level = 1e-7 if keys.dtype == np.float32 else 1e-8
    scale = float(np.abs(keys).max(initial=0))
    if scale == 0:
        return np.zeros((keys.shape[1], values.shape[1]), np.result_type(keys, values))
    K = keys.astype(np.float64) / scale
    share = level * math.sqrt(K.size) / np.linalg.norm(K, 2)
    S = np.linalg.lstsq(K, values.astype(np.float64), rcond=share)[0]
    return (S / scale).astype(np.result_type(keys, values))
