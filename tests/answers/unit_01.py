"""Right and wrong answers to unit 01_projections, written from the contracts of the functions alone,
to test the judge with."""

import numpy as np

# ---------------------------------------------------------------- embed


def embed__right_fancy_rows(tokens, E):
    """Index the rows of the transposed table."""
    return E.T[tokens]


def embed__right_take_view(tokens, E):
    """np.take on columns, returned as a non-contiguous transposed view."""
    return np.take(E, tokens, axis=1).T


def embed__right_eye(tokens, E):
    """One-hot rows from the identity, times the transposed table."""
    return np.eye(E.shape[1])[tokens] @ E.T


def embed__right_compare(tokens, E):
    """One-hot rows by broadcasting a comparison."""
    one_hot = (np.asarray(tokens)[:, None] == np.arange(E.shape[1])[None, :]).astype(E.dtype)
    return np.matmul(one_hot, np.swapaxes(E, 0, 1))


def embed__right_loops(tokens, E):
    """Three explicit loops over tokens, features and vocabulary, in float64."""
    d_model, vocab = E.shape
    out = np.zeros((len(tokens), d_model))
    for i in range(len(tokens)):
        for j in range(d_model):
            total = 0.0
            for v in range(vocab):
                total += float(E[j, v]) * (1.0 if v == int(tokens[i]) else 0.0)
            out[i, j] = total
    return out


def embed__right_einsum(tokens, E):
    """One-hot columns with put_along_axis, contracted by einsum, with a print."""
    one_hot = np.zeros((E.shape[1], len(tokens)))
    np.put_along_axis(one_hot, np.asarray(tokens)[None, :], 1.0, axis=0)
    print("embedding", len(tokens), "tokens")
    return np.einsum("dv,vn->nd", E, one_hot)


def embed__right_helper_matvec(tokens, E):
    """A nested one_hot helper and one matrix-vector product per row, with a warning."""
    import warnings

    def one_hot(t):
        e = np.zeros(E.shape[1], dtype=E.dtype)
        e[t] = 1
        return e

    warnings.warn("slow embedding", stacklevel=2)
    out = np.empty((len(tokens), E.shape[0]), dtype=E.dtype)
    for row, t in zip(out, tokens, strict=True):
        row[...] = E @ one_hot(t)
    return out


def embed__right_where_sum(tokens, E):
    """Select with np.where on a three-dimensional grid and sum the vocabulary away."""
    vocab = E.shape[1]
    picked = np.where(np.asarray(tokens)[:, None, None] == np.arange(vocab), E[None, :, :], 0.0)
    return picked.sum(axis=-1)


def embed__right_choose(tokens, E):
    """np.choose among the columns; a single token gives a view of E."""
    if len(tokens) == 1:
        column = int(tokens[0])
        return E[:, column : column + 1].T
    return np.choose(tokens[:, None], list(E.T)) if E.shape[1] < 32 else E.T[tokens]


def embed__wrong_rows_of_E(tokens, E):
    """Takes rows of E instead of columns."""
    return E[tokens]


def embed__wrong_rows_modulo(tokens, E):
    """Takes rows of E, wrapped by a modulo so that no index is out of range, cut or padded to d_model."""
    rows = E[np.asarray(tokens) % E.shape[0]]
    return np.resize(rows, (len(tokens), E.shape[0]))


def embed__wrong_transposed(tokens, E):
    """Leaves tokens as columns: (d_model, n)."""
    return E[:, tokens]


def embed__wrong_minus_one(tokens, E):
    """Counts the vocabulary from one."""
    return E[:, np.asarray(tokens) - 1].T


def embed__wrong_reshaped(tokens, E):
    """Reshapes E to (vocab, d_model) instead of transposing it."""
    return E.reshape(E.shape[1], E.shape[0])[tokens]


def embed__wrong_output_reshaped(tokens, E):
    """Reshapes the picked columns instead of transposing them."""
    return np.ascontiguousarray(E[:, tokens]).reshape(len(tokens), E.shape[0])


def embed__wrong_sorted_unique(tokens, E):
    """Drops repeated tokens and sorts them."""
    return E.T[np.unique(tokens)]


def embed__wrong_sorted(tokens, E):
    """Sorts the tokens, so word order is lost."""
    return E.T[np.sort(tokens)]


def embed__wrong_scaled(tokens, E):
    """Multiplies by sqrt(d_model) as in the Transformer paper."""
    return E.T[tokens] * np.sqrt(E.shape[0])


def embed__wrong_positions_added(tokens, E):
    """Adds the position index to every row."""
    return E.T[tokens] + np.arange(len(tokens))[:, None]


def embed__wrong_first_columns(tokens, E):
    """Ignores the token values and takes the first n columns (repeating them if needed)."""
    return E.T[np.arange(len(tokens)) % E.shape[1]]


def embed__wrong_bag_of_words(tokens, E):
    """Multiplies E with the count vector: one sum for the whole sentence."""
    return E @ np.bincount(tokens, minlength=E.shape[1])


def embed__wrong_mean_every_row(tokens, E):
    """Every row is the mean embedding."""
    mean = E.T[tokens].mean(axis=0)
    return np.tile(mean, (len(tokens), 1))


def embed__wrong_first_token_only(tokens, E):
    """Embeds only the first token and repeats it."""
    return np.repeat(E[:, tokens[0]][None, :], len(tokens), axis=0)


def embed__wrong_integer_buffer(tokens, E):
    """Writes into an integer array, so that fractions are cut off."""
    out = np.zeros((len(tokens), E.shape[0]), dtype=int)
    for i, t in enumerate(tokens):
        out[i] = E[:, t]
    return out


def embed__wrong_zero_is_padding(tokens, E):
    """Treats token 0 as padding and gives it a zero row."""
    return E.T[tokens] * (np.asarray(tokens) != 0)[:, None]


def embed__wrong_squeezed(tokens, E):
    """Squeezes the result, so that one token loses its row axis."""
    return np.squeeze(E.T[tokens])


def embed__wrong_last_row_missing(tokens, E):
    """Loops to n - 1 and leaves the last row zero."""
    out = np.zeros((len(tokens), E.shape[0]))
    for i in range(len(tokens) - 1):
        out[i] = E[:, tokens[i]]
    return out


def embed__wrong_normalised(tokens, E):
    """Divides each row by its length."""
    X = E.T[tokens]
    return X / (np.linalg.norm(X, axis=1, keepdims=True) + 1e-12)


def embed__wrong_one_hot_square(tokens, E):
    """Builds the one-hot with d_model entries instead of vocab."""
    one_hot = np.zeros((len(tokens), E.shape[0]))
    one_hot[np.arange(len(tokens)), tokens] = 1
    return one_hot @ E.T


def embed__wrong_hard_coded_vocab(tokens, E):
    """One-hot vectors of a fixed length of 5."""
    return np.eye(5)[tokens] @ E.T


def embed__wrong_one_hot_only(tokens, E):
    """Returns the one-hot matrix and forgets the product."""
    return np.eye(E.shape[1])[tokens]


def embed__wrong_vocab_from_tokens(tokens, E):
    """Takes the vocabulary size from the largest token in the sentence."""
    return np.eye(np.max(tokens) + 1)[tokens] @ E.T


def embed__wrong_changes_tokens(tokens, E):
    """Right values, but the tokens are set to zero on the way."""
    out = E.T[tokens]
    tokens[...] = 0
    return out


def embed__wrong_centres_E_in_place(tokens, E):
    """Subtracts the mean column from E in place first."""
    E -= E.mean(axis=1, keepdims=True)
    return E.T[tokens]


def embed__wrong_cached_table(tokens, E, _cache={}):  # noqa: B006
    """Keeps the first table of each shape and uses it for ever."""
    table = _cache.setdefault(E.shape, E.T.copy())
    return table[tokens]


def embed__wrong_shared_buffer(tokens, E, _buffer={}):  # noqa: B006
    """Writes every result of one shape into the same array, so earlier results change."""
    out = _buffer.setdefault((len(tokens), E.shape[0]), np.zeros((len(tokens), E.shape[0])))
    out[...] = E.T[tokens]
    return out


def embed__wrong_prints(tokens, E):
    """Prints the embedding and returns nothing."""
    print(E.T[tokens])


def embed__wrong_half_precision(tokens, E):
    """Rounds the table to float16."""
    return E.astype(np.float16).T[tokens]


def embed__wrong_rounded(tokens, E):
    """Rounds to two decimals."""
    return np.round(E.T[tokens], 2)


def embed__wrong_swapped_arguments(E, tokens):
    """The two arguments are swapped in the signature."""
    return E.T[tokens]


# ---------------------------------------------------------------- soft_lookup


def soft_lookup__right_shifted(query, keys, values):
    """The usual softmax with the maximum taken off."""
    s = keys @ query
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__right_loops(query, keys, values):
    """Explicit Python loops over keys and features, in float64."""
    scores = []
    for key in keys:
        scores.append(sum(float(a) * float(b) for a, b in zip(query, key, strict=True)))
    top = max(scores)
    raised = [float(np.exp(s - top)) for s in scores]
    total = sum(raised)
    out = np.zeros(values.shape[1])
    for w, value in zip(raised, values, strict=True):
        for j in range(values.shape[1]):
            out[j] += w / total * float(value[j])
    return out


def soft_lookup__right_log_space(query, keys, values):
    """Log-weights by logaddexp.reduce, contracted by einsum."""
    s = np.einsum("d,nd->n", query, keys)
    log_w = s - np.logaddexp.reduce(s)
    return np.einsum("n,nv->v", np.exp(log_w), values)


def soft_lookup__right_pairwise(query, keys, values):
    """Weight i as 1 / sum of exp(s_j - s_i); overflow to inf only gives a warning and a weight of 0."""
    s = np.inner(keys, query)
    w = 1.0 / np.exp(s[None, :] - s[:, None]).sum(axis=1)
    return w @ values


def soft_lookup__right_streaming(query, keys, values):
    """Online softmax: one pass with a running maximum, with prints."""
    top, total = -np.inf, 0.0
    out = np.zeros(values.shape[1])
    for i in range(keys.shape[0]):
        s = float(np.dot(keys[i], query))
        new_top = max(top, s)
        shrink, w = np.exp(top - new_top), np.exp(s - new_top)
        total = total * shrink + w
        out = out * shrink + w * values[i]
        top = new_top
        print("key", i, "running maximum", top)
    return out / total


def soft_lookup__right_merge_sigmoid(query, keys, values):
    """Merges the keys one at a time: a running log-sum and a gate that blends in the next value."""
    s = (keys * query).sum(axis=1)
    out = np.array(values[0], dtype=np.float64)
    log_total = float(s[0])
    for i in range(1, len(s)):
        new_total = np.logaddexp(log_total, float(s[i]))
        gate = np.exp(float(s[i]) - new_total)
        out = (1.0 - gate) * out + gate * values[i]
        log_total = new_total
    return out


def soft_lookup__right_columns(query, keys, values):
    """Everything as column matrices, in base 2, raveled at the end, with a warning."""
    import warnings

    warnings.warn("columns convention inside", stacklevel=2)

    def softmax(z):
        z = (z - np.max(z)) / np.log(2.0)
        p = np.exp2(z)
        return p / np.sum(p)

    q = query.reshape(-1, 1).astype(np.float64)
    return (values.T @ softmax(keys @ q)).ravel()


def soft_lookup__right_average(query, keys, values):
    """np.average with the unnormalised weights does the dividing."""
    s = np.matmul(query[None, :], keys.T)[0]
    return np.average(values, axis=0, weights=np.exp(s - np.amax(s)))


def soft_lookup__right_halves(query, keys, values):
    """Recursion: each half looks up alone, and the halves are mixed by their totals; one key gives a view."""
    if len(keys) == 1:
        return values[0]
    half = len(keys) // 2
    parts = [(keys[:half], values[:half]), (keys[half:], values[half:])]
    totals = np.array([np.logaddexp.reduce(k @ query) for k, _ in parts])
    shares = np.exp(totals - np.logaddexp.reduce(totals))
    return sum(share * soft_lookup__right_halves(query, k, v) for share, (k, v) in zip(shares, parts, strict=True))


def soft_lookup__wrong_unstable(query, keys, values):
    """Raises e to the plain scores: inf / inf for scores of 1e4."""
    w = np.exp(keys @ query)
    return (w / w.sum()) @ values


def soft_lookup__wrong_mean_shift(query, keys, values):
    """Takes off the mean instead of the maximum: still overflows for large scores."""
    s = keys @ query
    w = np.exp(s - s.mean())
    return (w / w.sum()) @ values


def soft_lookup__wrong_min_shift(query, keys, values):
    """Takes off the minimum instead of the maximum: still overflows."""
    s = keys @ query
    w = np.exp(s - s.min())
    return (w / w.sum()) @ values


def soft_lookup__wrong_nan_to_num(query, keys, values):
    """Overflow hidden by nan_to_num: the best keys get weight zero."""
    w = np.exp(keys @ query)
    return np.nan_to_num(w / w.sum()) @ values


def soft_lookup__wrong_clipped(query, keys, values):
    """Clips the scores to +-50, so that large scores become equal."""
    w = np.exp(np.clip(keys @ query, -50, 50))
    return (w / w.sum()) @ values


def soft_lookup__wrong_scaled(query, keys, values):
    """Divides the scores by sqrt(d_k)."""
    s = keys @ query / np.sqrt(len(query))
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_scaled_by_d(query, keys, values):
    """Divides the scores by d_k (takes the mean product)."""
    s = (keys * query).mean(axis=1)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_cosine(query, keys, values):
    """Cosine similarity instead of the dot product."""
    s = keys @ query / (np.linalg.norm(keys, axis=1) * np.linalg.norm(query) + 1e-12)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_distance(query, keys, values):
    """Negative squared distance instead of the dot product."""
    s = -((keys - query) ** 2).sum(axis=1)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_hard(query, keys, values):
    """Hard lookup: the value of the best key."""
    return values[np.argmax(keys @ query)]


def soft_lookup__wrong_not_normalised(query, keys, values):
    """Forgets to divide by the sum."""
    s = keys @ query
    return np.exp(s - s.max()) @ values


def soft_lookup__wrong_linear_weights(query, keys, values):
    """Divides the scores by their sum, with no exponential."""
    s = keys @ query
    return (s / (s.sum() + 1e-12)) @ values


def soft_lookup__wrong_no_softmax(query, keys, values):
    """Raw scores as weights."""
    return (keys @ query) @ values


def soft_lookup__wrong_double_softmax(query, keys, values):
    """Applies the softmax twice."""
    s = keys @ query
    for _ in range(2):
        e = np.exp(s - s.max())
        s = e / e.sum()
    return s @ values


def soft_lookup__wrong_sigmoid(query, keys, values):
    """A sigmoid per key, normalised, instead of the softmax."""
    w = 0.5 * (1.0 + np.tanh(0.5 * (keys @ query)))
    return (w / (w.sum() + 1e-12)) @ values


def soft_lookup__wrong_sign(query, keys, values):
    """Minus sign: the worst key gets the largest weight."""
    s = -(keys @ query)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_max_abs(query, keys, values):
    """Weights from the absolute scores."""
    s = np.abs(keys @ query)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_precedence(query, keys, values):
    """Operator precedence: exp(s) - max instead of exp(s - max)."""
    s = keys @ query
    w = np.exp(s) - s.max()
    return w / w.sum() @ values


def soft_lookup__wrong_divides_too_early(query, keys, values):
    """Divides inside the exponential: exp(s / sum(s)), not normalised after."""
    s = keys @ query
    w = np.exp(s / (np.abs(s).sum() + 1e-12))
    return w / w.sum() @ values


def soft_lookup__wrong_base_two(query, keys, values):
    """Powers of 2 instead of e."""
    s = keys @ query
    w = np.exp2(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_extra_one(query, keys, values):
    """Adds one to the denominator (an attention sink)."""
    s = keys @ query
    w = np.exp(s - s.max())
    return (w / (w.sum() + 1.0)) @ values


def soft_lookup__wrong_keys_as_values(query, keys, values):
    """Averages the keys instead of the values."""
    s = keys @ query
    w = np.exp(s - s.max())
    return (w / w.sum()) @ keys


def soft_lookup__wrong_scores_from_values(query, keys, values):
    """Swaps the roles of keys and values in the call."""
    s = values @ query
    w = np.exp(s - s.max())
    return (w / w.sum()) @ keys


def soft_lookup__wrong_returns_weights(query, keys, values):
    """Returns the weights only."""
    s = keys @ query
    w = np.exp(s - s.max())
    return w / w.sum()


def soft_lookup__wrong_returns_pair(query, keys, values):
    """Returns (output, weights)."""
    s = keys @ query
    w = np.exp(s - s.max())
    w = w / w.sum()
    return w @ values, w


def soft_lookup__wrong_not_summed(query, keys, values):
    """Weighs the values but does not add them up: (n, d_v)."""
    s = keys @ query
    w = np.exp(s - s.max())
    return (w / w.sum())[:, None] * values


def soft_lookup__wrong_mean_not_sum(query, keys, values):
    """Takes the mean of the weighted values: too small by a factor n."""
    s = keys @ query
    w = np.exp(s - s.max())
    return ((w / w.sum())[:, None] * values).mean(axis=0)


def soft_lookup__wrong_row_matrix(query, keys, values):
    """Keeps a leading axis: (1, d_v)."""
    s = query[None, :] @ keys.T
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_axis_keys_times_query(query, keys, values):
    """Sums the products over the keys instead of over the features."""
    s = (keys * query).sum(axis=0)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_elementwise_softmax(query, keys, values):
    """Softmax over every single product of (n, d_k), then summed over the features."""
    p = keys * query
    w = np.exp(p - p.max())
    return (w / w.sum()).sum(axis=1) @ values


def soft_lookup__wrong_last_key_dropped(query, keys, values):
    """Off by one: the last key is left out of the sum (kept if it is the only one)."""
    last = max(len(keys) - 1, 1)
    s = keys[:last] @ query
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values[:last]


def soft_lookup__wrong_scales_keys_in_place(query, keys, values):
    """Multiplies the keys by the query in place."""
    keys *= query
    s = keys.sum(axis=1)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_weighs_values_in_place(query, keys, values):
    """Multiplies the values by the weights in place."""
    s = keys @ query
    w = np.exp(s - s.max())
    values *= (w / w.sum())[:, None]
    return values.sum(axis=0)


def soft_lookup__wrong_running_maximum_kept(query, keys, values, _state={"top": -np.inf}):  # noqa: B006
    """Keeps the largest score of all calls as the shift: 0 / 0 after one call with large scores."""
    s = keys @ query
    _state["top"] = max(_state["top"], float(s.max()))
    w = np.exp(s - _state["top"])
    return (w / w.sum()) @ values


def soft_lookup__wrong_shared_buffer(query, keys, values, _buffer={}):  # noqa: B006
    """Returns the same array for each width, so earlier results change."""
    out = _buffer.setdefault(values.shape[1], np.zeros(values.shape[1]))
    s = keys @ query
    w = np.exp(s - s.max())
    np.copyto(out, (w / w.sum()) @ values, casting="unsafe")
    return out


def soft_lookup__wrong_half_precision(query, keys, values):
    """Weights in float16: rounded to three digits."""
    s = keys @ query
    w = np.exp(s - s.max())
    return (w / w.sum()).astype(np.float16) @ values.astype(np.float16)


def soft_lookup__wrong_top_two(query, keys, values):
    """Keeps only the two best keys."""
    s = keys @ query
    best = np.argsort(s)[-2:]
    w = np.exp(s[best] - s[best].max())
    return (w / w.sum()) @ values[best]


def soft_lookup__wrong_shuffled_values(query, keys, values):
    """Sorts the scores but not the values."""
    s = np.sort(keys @ query)
    w = np.exp(s - s.max())
    return (w / w.sum()) @ values


def soft_lookup__wrong_hard_coded_three(query, keys, values):
    """Loops over exactly three keys."""
    s = np.array([keys[i] @ query for i in range(3)])
    w = np.exp(s - s.max())
    w = w / w.sum()
    return sum(w[i] * values[i] for i in range(3))


def soft_lookup__wrong_prints(query, keys, values):
    """Prints the answer and returns nothing."""
    s = keys @ query
    w = np.exp(s - s.max())
    print((w / w.sum()) @ values)


# ---------------------------------------------------------------- project_qkv


def project_qkv__right_plain(X, W_Q, W_K, W_V):
    """Three products from the right."""
    return X @ W_Q, X @ W_K, X @ W_V


def project_qkv__right_generator(X, W_Q, W_K, W_V):
    """tuple() around a generator of np.dot."""
    return tuple(np.dot(X, W) for W in (W_Q, W_K, W_V))


def project_qkv__right_columns(X, W_Q, W_K, W_V):
    """Works in the columns convention and transposes back (non-contiguous results)."""
    return (W_Q.T @ X.T).T, (W_K.T @ X.T).T, (W_V.T @ X.T).T


def project_qkv__right_fused(X, W_Q, W_K, W_V):
    """One fused weight matrix, split at the true widths; the three results are views."""
    a, b = W_Q.shape[1], W_Q.shape[1] + W_K.shape[1]
    fused = X @ np.concatenate([W_Q, W_K, W_V], axis=1)
    return fused[:, :a], fused[:, a:b], fused[:, b:]


def project_qkv__right_np_split(X, W_Q, W_K, W_V):
    """hstack and np.split at the offsets; the list is turned into a tuple."""
    ends = np.cumsum([W_Q.shape[1], W_K.shape[1]])
    return tuple(np.split(X @ np.hstack((W_Q, W_K, W_V)), ends, axis=1))


def project_qkv__right_loops(X, W_Q, W_K, W_V):
    """A nested helper with explicit loops, in float64."""

    def project(W):
        out = np.zeros((X.shape[0], W.shape[1]))
        for i in range(X.shape[0]):
            for j in range(W.shape[1]):
                for c in range(X.shape[1]):
                    out[i, j] += float(X[i, c]) * float(W[c, j])
        return out

    return project(W_Q), project(W_K), project(W_V)


def project_qkv__right_einsum_printing(X, W_Q, W_K, W_V):
    """einsum and tensordot, with prints and a warning."""
    import warnings

    warnings.warn("projecting", stacklevel=2)
    Q = np.einsum("nd,dk->nk", X, W_Q)
    K = np.tensordot(X, W_K, axes=1)
    V = np.einsum("nd,dv->nv", X, W_V)
    print(Q.shape, K.shape, V.shape)
    return (Q, K, V)


def project_qkv__right_named_tuple(X, W_Q, W_K, W_V):
    """A named tuple, which is a tuple, of broadcast sums."""
    from typing import NamedTuple

    class Projected(NamedTuple):
        Q: np.ndarray
        K: np.ndarray
        V: np.ndarray

    return Projected(*((X[:, :, None] * W[None, :, :]).sum(axis=1) for W in (W_Q, W_K, W_V)))


def project_qkv__right_outer_products(X, W_Q, W_K, W_V):
    """Each product as a sum of outer products of columns and rows."""
    results = ()
    for W in (W_Q, W_K, W_V):
        out = np.zeros((len(X), W.shape[1]))
        for column, row in zip(X.T, W, strict=True):
            out += np.outer(column, row)
        results += (out,)
    return results


def project_qkv__right_batched_matmul(X, W_Q, W_K, W_V):
    """Queries and keys, equally wide, in one batched product; values as inner products."""
    Q, K = np.matmul(X, np.stack([W_Q, W_K]))
    return Q, K, np.inner(X, W_V.T)


def project_qkv__wrong_list(X, W_Q, W_K, W_V):
    """A list instead of a tuple."""
    return [X @ W_Q, X @ W_K, X @ W_V]


def project_qkv__wrong_dict(X, W_Q, W_K, W_V):
    """A dict instead of a tuple."""
    return {"Q": X @ W_Q, "K": X @ W_K, "V": X @ W_V}


def project_qkv__wrong_generator(X, W_Q, W_K, W_V):
    """A lazy generator instead of a tuple."""
    return (X @ W for W in (W_Q, W_K, W_V))


def project_qkv__wrong_tuple_of_lists(X, W_Q, W_K, W_V):
    """A tuple of nested lists instead of arrays."""
    return (X @ W_Q).tolist(), (X @ W_K).tolist(), (X @ W_V).tolist()


def project_qkv__wrong_concatenated(X, W_Q, W_K, W_V):
    """One wide array, never split."""
    return X @ np.hstack([W_Q, W_K, W_V])


def project_qkv__wrong_three_equal_parts(X, W_Q, W_K, W_V):
    """Splits the fused product in three parts at a third of the width, as if d_v were d_k."""
    fused = X @ np.hstack([W_Q, W_K, W_V])
    third = fused.shape[1] // 3
    return fused[:, :third], fused[:, third : 2 * third], fused[:, 2 * third :]


def project_qkv__wrong_split_rows(X, W_Q, W_K, W_V):
    """Stacks the three weights on a new axis: needs d_v = d_k."""
    Q, K, V = X @ np.stack([W_Q, W_K, W_V])
    return Q, K, V


def project_qkv__wrong_kv_swapped(X, W_Q, W_K, W_V):
    """Returns (Q, V, K)."""
    return X @ W_Q, X @ W_V, X @ W_K


def project_qkv__wrong_qk_swapped(X, W_Q, W_K, W_V):
    """Returns (K, Q, V)."""
    return X @ W_K, X @ W_Q, X @ W_V


def project_qkv__wrong_keys_with_W_Q(X, W_Q, W_K, W_V):
    """Copy and paste: the keys are made with W_Q."""
    return X @ W_Q, X @ W_Q, X @ W_V


def project_qkv__wrong_values_with_W_K(X, W_Q, W_K, W_V):
    """Copy and paste: the values are made with W_K."""
    return X @ W_Q, X @ W_K, X @ W_K


def project_qkv__wrong_values_are_X(X, W_Q, W_K, W_V):
    """The values are the tokens themselves."""
    return X @ W_Q, X @ W_K, X


def project_qkv__wrong_values_from_keys(X, W_Q, W_K, W_V):
    """Chains the maps: K from Q and V from K."""
    Q = X @ W_Q
    K = Q @ W_K
    return Q, K, K @ W_V


def project_qkv__wrong_transposed_results(X, W_Q, W_K, W_V):
    """Columns convention, not transposed back."""
    return W_Q.T @ X.T, W_K.T @ X.T, W_V.T @ X.T


def project_qkv__wrong_keys_transposed(X, W_Q, W_K, W_V):
    """Returns K already transposed, ready for Q @ K."""
    return X @ W_Q, (X @ W_K).T, X @ W_V


def project_qkv__wrong_weights_transposed(X, W_Q, W_K, W_V):
    """Multiplies by the transposed weights: columns convention for the weights, rows for X."""
    return X @ W_Q.T, X @ W_K.T, X @ W_V.T


def project_qkv__wrong_weights_from_the_left(X, W_Q, W_K, W_V):
    """Weights from the left."""
    return W_Q @ X, W_K @ X, W_V @ X


def project_qkv__wrong_elementwise(X, W_Q, W_K, W_V):
    """The star instead of the matrix product."""
    return X * W_Q, X * W_K, X * W_V


def project_qkv__wrong_query_scaled(X, W_Q, W_K, W_V):
    """Already divides the queries by sqrt(d_k)."""
    return X @ W_Q / np.sqrt(W_Q.shape[1]), X @ W_K, X @ W_V


def project_qkv__wrong_bias(X, W_Q, W_K, W_V):
    """Adds a bias of one."""
    return X @ W_Q + 1, X @ W_K + 1, X @ W_V + 1


def project_qkv__wrong_relu(X, W_Q, W_K, W_V):
    """A ReLU on each projection."""
    return np.maximum(X @ W_Q, 0), np.maximum(X @ W_K, 0), np.maximum(X @ W_V, 0)


def project_qkv__wrong_residual_values(X, W_Q, W_K, W_V):
    """Adds the mean of each token to its values."""
    return X @ W_Q, X @ W_K, X @ W_V + X.mean(axis=1, keepdims=True)


def project_qkv__wrong_centred_in_place(X, W_Q, W_K, W_V):
    """Centres the tokens in place first."""
    X -= X.mean(axis=0)
    return X @ W_Q, X @ W_K, X @ W_V


def project_qkv__wrong_scales_weights_in_place(X, W_Q, W_K, W_V):
    """Right results, but W_Q is left divided by sqrt(d_k)."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    W_Q /= np.sqrt(W_Q.shape[1] + 1)
    return Q, K, V


def project_qkv__wrong_first_token(X, W_Q, W_K, W_V):
    """Projects the first token only."""
    return X[0] @ W_Q, X[0] @ W_K, X[0] @ W_V


def project_qkv__wrong_squeezed(X, W_Q, W_K, W_V):
    """Squeezes: one token, or a width of one, loses its axis."""
    return tuple(np.squeeze(X @ W) for W in (W_Q, W_K, W_V))


def project_qkv__wrong_values_cut_to_d_k(X, W_Q, W_K, W_V):
    """Cuts or pads the values to the width of the keys."""
    d_k = W_K.shape[1]
    V = np.zeros((X.shape[0], d_k))
    full = X @ W_V
    V[:, : min(d_k, full.shape[1])] = full[:, :d_k]
    return X @ W_Q, X @ W_K, V


def project_qkv__wrong_values_buffer_like_queries(X, W_Q, W_K, W_V):
    """Writes the values into an array shaped like the queries: fails for d_v other than d_k."""
    Q = X @ W_Q
    V = np.empty_like(Q)
    V[...] = X @ W_V
    return Q, X @ W_K, V


def project_qkv__wrong_last_row_missing(X, W_Q, W_K, W_V):
    """Loops to n - 1: the last token stays zero."""
    out = tuple(np.zeros((len(X), W.shape[1])) for W in (W_Q, W_K, W_V))
    for o, W in zip(out, (W_Q, W_K, W_V), strict=True):
        for i in range(len(X) - 1):
            o[i] = X[i] @ W
    return out


def project_qkv__wrong_integer_buffer(X, W_Q, W_K, W_V):
    """Results cut to integers."""
    return (X @ W_Q).astype(int), (X @ W_K).astype(int), (X @ W_V).astype(int)


def project_qkv__wrong_half_precision(X, W_Q, W_K, W_V):
    """Results in float16."""
    return tuple((X @ W).astype(np.float16) for W in (W_Q, W_K, W_V))


def project_qkv__wrong_only_two(X, W_Q, W_K, W_V):
    """Forgets the values."""
    return X @ W_Q, X @ W_K


def project_qkv__wrong_prints(X, W_Q, W_K, W_V):
    """Prints and returns nothing."""
    print(X @ W_Q, X @ W_K, X @ W_V)


def project_qkv__wrong_attends(X, W_Q, W_K, W_V):
    """Goes on to the plain scores: returns (Q K^T, K, V)."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    return Q @ K.T, K, V


def project_qkv__wrong_cached_weights(X, W_Q, W_K, W_V, _cache={}):  # noqa: B006
    """Keeps the first weights of each shape."""
    key = (W_Q.shape, W_K.shape, W_V.shape)
    A, B, C = _cache.setdefault(key, (W_Q.copy(), W_K.copy(), W_V.copy()))
    return X @ A, X @ B, X @ C


def project_qkv__wrong_growing_cache(X, W_Q, W_K, W_V, _past={}):  # noqa: B006
    """A key-value cache across calls: keys and values of earlier calls come first."""
    key = (W_K.shape, W_V.shape)
    K, V = X @ W_K, X @ W_V
    if key in _past:
        K, V = np.concatenate([_past[key][0], K]), np.concatenate([_past[key][1], V])
    _past[key] = (K, V)
    return X @ W_Q, K, V


def project_qkv__wrong_shared_buffers(X, W_Q, W_K, W_V, _buffer={}):  # noqa: B006
    """Results of one shape live in the same arrays, so earlier results change."""
    out = []
    for name, W in (("q", W_Q), ("k", W_K), ("v", W_V)):
        shape = (X.shape[0], W.shape[1])
        o = _buffer.setdefault((name, shape), np.zeros(shape))
        o[...] = X @ W
        out.append(o)
    return tuple(out)


def project_qkv__wrong_argument_order(X, W_K, W_Q, W_V):
    """The parameters W_Q and W_K are swapped in the signature."""
    return X @ W_Q, X @ W_K, X @ W_V


def project_qkv__wrong_normalised_rows(X, W_Q, W_K, W_V):
    """Queries and keys divided by their lengths."""

    def unit(A):
        return A / (np.linalg.norm(A, axis=-1, keepdims=True) + 1e-12)

    return unit(X @ W_Q), unit(X @ W_K), X @ W_V


# ---------------------------------------------------------------- project_token


def project_token__right_plain(x, W_Q, W_K, W_V):
    """Matrix times vector."""
    return W_Q @ x, W_K @ x, W_V @ x


def project_token__right_rows(x, W_Q, W_K, W_V):
    """Translated to the rows convention with transposed weights."""
    return x @ W_Q.T, x @ W_K.T, x @ W_V.T


def project_token__right_loops(x, W_Q, W_K, W_V):
    """Explicit loops with fsum, in float64."""
    import math

    def apply(W):
        return np.array([math.fsum(float(w) * float(a) for w, a in zip(row, x, strict=True)) for row in W])

    return apply(W_Q), apply(W_K), apply(W_V)


def project_token__right_einsum(x, W_Q, W_K, W_V):
    """einsum, with prints."""
    print("token of width", x.shape)
    return tuple(np.einsum("hd,d->h", W, x) for W in (W_Q, W_K, W_V))


def project_token__right_stacked(x, W_Q, W_K, W_V):
    """One tall matrix, split at the true heights; results are views."""
    y = np.vstack([W_Q, W_K, W_V]) @ x
    a = W_Q.shape[0]
    b = a + W_K.shape[0]
    return y[:a], y[a:b], y[b:]


def project_token__right_column_matrix(x, W_Q, W_K, W_V):
    """x as a (d_model, 1) matrix; the column is taken out again."""
    X = x[:, np.newaxis]
    return (W_Q @ X)[:, 0], (W_K @ X)[:, 0], (W_V @ X).reshape(-1)


def project_token__right_broadcast(x, W_Q, W_K, W_V):
    """Broadcast product and sum over the columns, with a warning."""
    import warnings

    warnings.warn("columns convention", stacklevel=2)
    q, k, v = ((W * x).sum(axis=1) for W in (W_Q, W_K, W_V))
    return q, k, v


def project_token__right_combination(x, W_Q, W_K, W_V):
    """A linear combination of the columns of each matrix, in float64."""
    out = ()
    for W in (W_Q, W_K, W_V):
        y = np.zeros(W.shape[0])
        for c in range(len(x)):
            y = y + x[c] * W[:, c]
        out = (*out, y)
    return out


def project_token__right_map_inner(x, W_Q, W_K, W_V):
    """tuple(map(...)) with np.inner, in float64."""
    x = np.asarray(x, dtype=np.float64)
    return tuple(map(lambda W: np.inner(W, x), [W_Q, W_K, W_V]))  # noqa: C417


def project_token__wrong_rows_convention(x, W_Q, W_K, W_V):
    """Multiplies from the right as in the rows convention, without transposing the weights."""
    return x @ W_Q, x @ W_K, x @ W_V


def project_token__wrong_weights_transposed(x, W_Q, W_K, W_V):
    """Transposes the weights and multiplies from the left."""
    return W_Q.T @ x, W_K.T @ x, W_V.T @ x


def project_token__wrong_reshaped_weights(x, W_Q, W_K, W_V):
    """Reshapes the weights to (d_model, d_head) instead of transposing them."""
    return tuple(x @ W.reshape(W.shape[1], W.shape[0]) for W in (W_Q, W_K, W_V))


def project_token__wrong_column_vectors(x, W_Q, W_K, W_V):
    """Returns (d_head, 1) columns."""
    X = x.reshape(-1, 1)
    return W_Q @ X, W_K @ X, W_V @ X


def project_token__wrong_row_vectors(x, W_Q, W_K, W_V):
    """Returns (1, d_head) rows."""
    X = x[None, :]
    return X @ W_Q.T, X @ W_K.T, X @ W_V.T


def project_token__wrong_elementwise(x, W_Q, W_K, W_V):
    """The star: scales the columns and forgets the sum."""
    return W_Q * x, W_K * x, W_V * x


def project_token__wrong_sum_axis(x, W_Q, W_K, W_V):
    """Sums over the outputs instead of over the inputs."""
    return (W_Q * x).sum(axis=0), (W_K * x).sum(axis=0), (W_V * x).sum(axis=0)


def project_token__wrong_total_sum(x, W_Q, W_K, W_V):
    """Sums over both axes: three numbers."""
    return np.sum(W_Q * x), np.sum(W_K * x), np.sum(W_V * x)


def project_token__wrong_mean(x, W_Q, W_K, W_V):
    """Takes the mean instead of the sum of the products."""
    return (W_Q * x).mean(axis=1), (W_K * x).mean(axis=1), (W_V * x).mean(axis=1)


def project_token__wrong_list(x, W_Q, W_K, W_V):
    """A list instead of a tuple."""
    return [W @ x for W in (W_Q, W_K, W_V)]


def project_token__wrong_array_of_three(x, W_Q, W_K, W_V):
    """One stacked array; needs d_v = d_head as well."""
    return np.stack([W_Q @ x, W_K @ x, W_V @ x])


def project_token__wrong_concatenated(x, W_Q, W_K, W_V):
    """One long vector."""
    return np.concatenate([W_Q, W_K, W_V]) @ x


def project_token__wrong_equal_thirds(x, W_Q, W_K, W_V):
    """Splits the long vector in thirds as if d_v were d_head."""
    y = np.concatenate([W_Q, W_K, W_V]) @ x
    t = len(y) // 3
    return y[:t], y[t : 2 * t], y[2 * t :]


def project_token__wrong_loop_to_d_head(x, W_Q, W_K, W_V):
    """One loop over d_head fills all three: the rest of v stays zero when d_v is larger."""
    d_head = W_Q.shape[0]
    q, k, v = np.zeros(d_head), np.zeros(d_head), np.zeros(W_V.shape[0])
    for i in range(d_head):
        q[i] = W_Q[i] @ x
        k[i] = W_K[i] @ x
        if i < len(v):
            v[i] = W_V[i] @ x
    return q, k, v


def project_token__wrong_kv_swapped(x, W_Q, W_K, W_V):
    """Returns (q, v, k)."""
    return W_Q @ x, W_V @ x, W_K @ x


def project_token__wrong_qk_swapped(x, W_Q, W_K, W_V):
    """Returns (k, q, v)."""
    return W_K @ x, W_Q @ x, W_V @ x


def project_token__wrong_key_with_W_Q(x, W_Q, W_K, W_V):
    """Copy and paste: the key is made with W_Q."""
    return W_Q @ x, W_Q @ x, W_V @ x


def project_token__wrong_value_with_W_K(x, W_Q, W_K, W_V):
    """Copy and paste: the value is made with W_K."""
    return W_Q @ x, W_K @ x, W_K @ x


def project_token__wrong_value_is_x(x, W_Q, W_K, W_V):
    """The value is the token itself."""
    return W_Q @ x, W_K @ x, x


def project_token__wrong_query_scaled(x, W_Q, W_K, W_V):
    """Divides the query by sqrt(d_head)."""
    return W_Q @ x / np.sqrt(W_Q.shape[0]), W_K @ x, W_V @ x


def project_token__wrong_all_scaled_by_d_model(x, W_Q, W_K, W_V):
    """Divides everything by sqrt(d_model)."""
    x = x / np.sqrt(len(x))
    return W_Q @ x, W_K @ x, W_V @ x


def project_token__wrong_off_by_one(x, W_Q, W_K, W_V):
    """Leaves out the last feature of x."""
    return W_Q[:, :-1] @ x[:-1], W_K[:, :-1] @ x[:-1], W_V[:, :-1] @ x[:-1]


def project_token__wrong_squeezed(x, W_Q, W_K, W_V):
    """Squeezes columns: a head of width one becomes a number."""
    X = x[:, None]
    return np.squeeze(W_Q @ X), np.squeeze(W_K @ X), np.squeeze(W_V @ X)


def project_token__wrong_normalised_in_place(x, W_Q, W_K, W_V):
    """Divides x by its length in place first."""
    x /= np.linalg.norm(x) + 1e-12
    return W_Q @ x, W_K @ x, W_V @ x


def project_token__wrong_weights_in_place(x, W_Q, W_K, W_V):
    """Right results, but the weights are multiplied by x in place."""
    W_Q *= x
    W_K *= x
    W_V *= x
    return W_Q.sum(axis=1), W_K.sum(axis=1), W_V.sum(axis=1)


def project_token__wrong_sorts_x_in_place(x, W_Q, W_K, W_V):
    """Right results, but x is left sorted."""
    out = W_Q @ x, W_K @ x, W_V @ x
    x.sort()
    return out


def project_token__wrong_integers(x, W_Q, W_K, W_V):
    """Fills integer arrays."""
    out = []
    for W in (W_Q, W_K, W_V):
        y = np.zeros(W.shape[0], dtype=np.int64)
        for i, row in enumerate(W):
            y[i] = row @ x
        out.append(y)
    return tuple(out)


def project_token__wrong_rounded(x, W_Q, W_K, W_V):
    """Rounds to one decimal."""
    return np.round(W_Q @ x, 1), np.round(W_K @ x, 1), np.round(W_V @ x, 1)


def project_token__wrong_tuple_of_lists(x, W_Q, W_K, W_V):
    """A tuple of Python lists."""
    return tuple([float(row @ x) for row in W] for W in (W_Q, W_K, W_V))


def project_token__wrong_prints(x, W_Q, W_K, W_V):
    """Prints and returns nothing."""
    for W in (W_Q, W_K, W_V):
        print(W @ x)


def project_token__wrong_first_row_early_return(x, W_Q, W_K, W_V):
    """return inside the loop: only the query comes back."""
    for W in (W_Q, W_K, W_V):
        return (W @ x,)


def project_token__wrong_hard_coded_width(x, W_Q, W_K, W_V):
    """Uses the first four features only."""
    return W_Q[:, :4] @ x[:4], W_K[:, :4] @ x[:4], W_V[:, :4] @ x[:4]


def project_token__wrong_cached(x, W_Q, W_K, W_V, _seen={}):  # noqa: B006
    """Remembers the answer by shapes."""
    key = (x.shape, W_Q.shape, W_K.shape, W_V.shape)
    if key not in _seen:
        _seen[key] = (W_Q @ x, W_K @ x, W_V @ x)
    return _seen[key]


def project_token__wrong_accumulates(x, W_Q, W_K, W_V, _sum={}):  # noqa: B006
    """Adds the tokens of earlier calls of the same width to x."""
    _sum[len(x)] = _sum.get(len(x), 0) + x
    x = _sum[len(x)]
    return W_Q @ x, W_K @ x, W_V @ x


def project_token__wrong_bias(x, W_Q, W_K, W_V):
    """Appends a one to the end: every output gets the last weight once more."""
    return W_Q @ x + W_Q[:, -1], W_K @ x + W_K[:, -1], W_V @ x + W_V[:, -1]


def project_token__wrong_outer(x, W_Q, W_K, W_V):
    """Outer product of x with the row sums."""
    return np.outer(W_Q.sum(1), x), np.outer(W_K.sum(1), x), np.outer(W_V.sum(1), x)


# ---------------------------------------------------------------- low_rank_value


def low_rank_value__right_down_then_up(X, W_V_down, W_V_up):
    """Down, then up."""
    return X @ W_V_down @ W_V_up


def low_rank_value__right_full_matrix(X, W_V_down, W_V_up):
    """Builds the full value map first."""
    return X @ (W_V_down @ W_V_up)


def low_rank_value__right_einsum(X, W_V_down, W_V_up):
    """One einsum over three arrays, with a print."""
    print("rank at most", W_V_down.shape[1])
    return np.einsum("nd,dh,hm->nm", X, W_V_down, W_V_up)


def low_rank_value__right_rank_one_sum(X, W_V_down, W_V_up):
    """A sum of rank-one maps, one per column of the down matrix, in float64."""
    out = np.zeros(X.shape)
    for h in range(W_V_down.shape[1]):
        out += np.outer(X @ W_V_down[:, h], W_V_up[h])
    return out


def low_rank_value__right_columns(X, W_V_down, W_V_up):
    """Columns convention inside, transposed back (non-contiguous), with a warning."""
    import warnings

    warnings.warn("columns inside", stacklevel=2)
    return (W_V_up.T @ (W_V_down.T @ X.T)).T


def low_rank_value__right_multi_dot(X, W_V_down, W_V_up):
    """multi_dot picks the cheaper order."""
    return np.linalg.multi_dot([X, W_V_down, W_V_up])


def low_rank_value__right_loops(X, W_V_down, W_V_up):
    """Row by row with explicit loops and nested helpers, in float64."""

    def vector_times_matrix(vector, matrix):
        result = [0.0] * matrix.shape[1]
        for i, a in enumerate(vector):
            for j in range(matrix.shape[1]):
                result[j] += float(a) * float(matrix[i, j])
        return result

    out = np.zeros((X.shape[0], W_V_up.shape[1]))
    for n, x in enumerate(X):
        out[n] = vector_times_matrix(vector_times_matrix(x, W_V_down), W_V_up)
    return out


def low_rank_value__right_cheaper_order(X, W_V_down, W_V_up):
    """Chooses the order by the number of tokens; casts to float64."""
    X = X.astype(np.float64)
    if len(X) > X.shape[1]:
        return np.tensordot(X, np.dot(W_V_down, W_V_up), axes=(1, 0))
    return np.dot(np.dot(X, W_V_down), W_V_up)


def low_rank_value__right_svd(X, W_V_down, W_V_up):
    """Turn, stretch and turn by the singular values of the full map."""
    turn, stretch, back = np.linalg.svd(W_V_down @ W_V_up)
    return (X @ turn) * stretch @ back


def low_rank_value__wrong_down_only(X, W_V_down, W_V_up):
    """Forgets the way up."""
    return X @ W_V_down


def low_rank_value__wrong_up_only(X, W_V_down, W_V_up):
    """Forgets the way down: uses the transposed up matrix only."""
    return X @ W_V_up.T


def low_rank_value__wrong_order(X, W_V_down, W_V_up):
    """Up first, then down."""
    return X @ W_V_up @ W_V_down


def low_rank_value__wrong_order_transposed(X, W_V_down, W_V_up):
    """Up first, then down, with transposes that make the shapes fit."""
    return X @ W_V_up.T @ W_V_down.T


def low_rank_value__wrong_extra_middle_product(X, W_V_down, W_V_up):
    """Goes down and up once too often: an extra (d_head, d_head) product in the middle."""
    return X @ W_V_down @ (W_V_up @ W_V_down) @ W_V_up


def low_rank_value__wrong_tied_down(X, W_V_down, W_V_up):
    """Goes up with the transposed down matrix."""
    return X @ W_V_down @ W_V_down.T


def low_rank_value__wrong_tied_up(X, W_V_down, W_V_up):
    """Goes down with the transposed up matrix."""
    return X @ W_V_up.T @ W_V_up


def low_rank_value__wrong_relu_between(X, W_V_down, W_V_up):
    """A ReLU in the bottleneck."""
    return np.maximum(X @ W_V_down, 0) @ W_V_up


def low_rank_value__wrong_softmax_between(X, W_V_down, W_V_up):
    """A softmax in the bottleneck."""
    h = X @ W_V_down
    h = np.exp(h - h.max(axis=1, keepdims=True))
    return h / h.sum(axis=1, keepdims=True) @ W_V_up


def low_rank_value__wrong_residual(X, W_V_down, W_V_up):
    """Adds X to the result."""
    return X + X @ W_V_down @ W_V_up


def low_rank_value__wrong_scaled(X, W_V_down, W_V_up):
    """Divides by sqrt(d_head)."""
    return X @ W_V_down @ W_V_up / np.sqrt(W_V_down.shape[1])


def low_rank_value__wrong_scaled_like_lora(X, W_V_down, W_V_up):
    """Divides by the rank, as an adapter with alpha = 1."""
    return (1.0 / W_V_up.shape[0]) * (X @ W_V_down @ W_V_up)


def low_rank_value__wrong_sum_of_factors(X, W_V_down, W_V_up):
    """Adds the factors instead of multiplying them."""
    return X @ (W_V_down + W_V_up.T) @ W_V_up


def low_rank_value__wrong_map_only(X, W_V_down, W_V_up):
    """Returns the full value map without applying it."""
    return W_V_down @ W_V_up


def low_rank_value__wrong_map_from_left(X, W_V_down, W_V_up):
    """The map acts from the left."""
    return W_V_down @ W_V_up @ X


def low_rank_value__wrong_map_transposed(X, W_V_down, W_V_up):
    """Uses the transposed full map."""
    return X @ (W_V_down @ W_V_up).T


def low_rank_value__wrong_result_transposed(X, W_V_down, W_V_up):
    """Returns (d_model, n)."""
    return (X @ W_V_down @ W_V_up).T


def low_rank_value__wrong_applied_twice(X, W_V_down, W_V_up):
    """Applies the value map twice."""
    for _ in range(2):
        X = X @ W_V_down @ W_V_up
    return X


def low_rank_value__wrong_rank_off_by_one(X, W_V_down, W_V_up):
    """Leaves out the last of the d_head directions."""
    return X @ W_V_down[:, :-1] @ W_V_up[:-1]


def low_rank_value__wrong_rank_one(X, W_V_down, W_V_up):
    """Only the first direction."""
    return np.outer(X @ W_V_down[:, 0], W_V_up[0])


def low_rank_value__wrong_elementwise(X, W_V_down, W_V_up):
    """Elementwise product of the factors (the up matrix transposed), then one more up."""
    return X @ (W_V_down * W_V_up.T) @ W_V_up


def low_rank_value__wrong_pair(X, W_V_down, W_V_up):
    """Returns (output, bottleneck)."""
    h = X @ W_V_down
    return h @ W_V_up, h


def low_rank_value__wrong_first_token(X, W_V_down, W_V_up):
    """Only the first token: (d_model,)."""
    return X[0] @ W_V_down @ W_V_up


def low_rank_value__wrong_squeezed(X, W_V_down, W_V_up):
    """Squeezes: one token loses its row axis."""
    return (X @ W_V_down @ W_V_up).squeeze()


def low_rank_value__wrong_last_row_missing(X, W_V_down, W_V_up):
    """The last token is left at zero."""
    out = np.zeros(X.shape)
    for i in range(X.shape[0] - 1):
        out[i] = X[i] @ W_V_down @ W_V_up
    return out


def low_rank_value__wrong_writes_into_X(X, W_V_down, W_V_up):
    """Writes the result into X."""
    X[...] = X @ W_V_down @ W_V_up
    return X


def low_rank_value__wrong_up_doubled_in_place(X, W_V_down, W_V_up):
    """Right result, but W_V_up is scaled in place and not restored."""
    W_V_up *= 2.0
    return 0.5 * (X @ W_V_down @ W_V_up)


def low_rank_value__wrong_half_precision(X, W_V_down, W_V_up):
    """The bottleneck is rounded to float16."""
    return (X @ W_V_down).astype(np.float16).astype(X.dtype) @ W_V_up


def low_rank_value__wrong_integer_bottleneck(X, W_V_down, W_V_up):
    """The bottleneck is cut to integers."""
    h = np.zeros((X.shape[0], W_V_down.shape[1]), dtype=int)
    h[...] = X @ W_V_down
    return h @ W_V_up


def low_rank_value__wrong_rounded(X, W_V_down, W_V_up):
    """Rounds to two decimals."""
    return np.around(X @ W_V_down @ W_V_up, 2)


def low_rank_value__wrong_cached_map(X, W_V_down, W_V_up, _maps={}):  # noqa: B006
    """Keeps the first full map for each d_model."""
    if X.shape[1] not in _maps:
        _maps[X.shape[1]] = W_V_down @ W_V_up
    return X @ _maps[X.shape[1]]


def low_rank_value__wrong_shared_buffer(X, W_V_down, W_V_up, _out={}):  # noqa: B006
    """The same output array for each shape: earlier results change."""
    out = _out.setdefault(X.shape, np.zeros(X.shape))
    out[...] = X @ W_V_down @ W_V_up
    return out


def low_rank_value__wrong_prints(X, W_V_down, W_V_up):
    """Prints and returns nothing."""
    print(X @ W_V_down @ W_V_up)


def low_rank_value__wrong_arguments_swapped(X, W_V_up, W_V_down):
    """The two factors are swapped in the signature."""
    return X @ W_V_down @ W_V_up


def low_rank_value__wrong_centred(X, W_V_down, W_V_up):
    """Takes off the mean token first."""
    return (X - X.mean(axis=0)) @ W_V_down @ W_V_up


def low_rank_value__wrong_causal_sum(X, W_V_down, W_V_up):
    """Adds up the values of earlier tokens."""
    return np.cumsum(X @ W_V_down @ W_V_up, axis=0)


# ---------------------------------------------------------------- attention_parameters


def attention_parameters__right_product(d_model, d_head, n_heads, n_layers):
    """Four matrices per head."""
    return 4 * d_model * d_head * n_heads * n_layers


def attention_parameters__right_loops(d_model, d_head, n_heads, n_layers):
    """Counts head by head and layer by layer, with a print."""
    total = 0
    for _ in range(n_layers):
        for _ in range(n_heads):
            for name in ("Q", "K", "V_down", "V_up"):
                rows, columns = (d_head, d_model) if name == "V_up" else (d_model, d_head)
                total += rows * columns
    print(f"{total:,} weights")
    return total


def attention_parameters__wrong_numpy_prod_of_64_bits(d_model, d_head, n_heads, n_layers):
    """A NumPy int64 from np.prod, which begins again at 2**63."""
    return np.prod(np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int64))


def attention_parameters__wrong_zero_d_of_64_bits(d_model, d_head, n_heads, n_layers):
    """A 0-d array of int64, which begins again at 2**63."""
    per_layer = np.array([d_model * d_head] * 4, dtype=np.int64) * n_heads
    return np.asarray(per_layer.sum() * n_layers)


def attention_parameters__right_dict(d_model, d_head, n_heads, n_layers):
    """A table of the four kinds, all heads and layers, summed; a warning."""
    import warnings

    warnings.warn("no biases are counted", stacklevel=2)
    heads = n_heads * n_layers
    table = {
        "query": d_model * d_head * heads,
        "key": d_model * d_head * heads,
        "value down": d_model * d_head * heads,
        "value up": d_head * d_model * heads,
    }
    return sum(table.values())


def attention_parameters__right_shift(d_model, d_head, n_heads, n_layers):
    """A bit shift for the factor four."""
    return (d_model * d_head * n_heads * n_layers) << 2


def attention_parameters__right_math_prod(d_model, d_head, n_heads, n_layers):
    """math.prod over the shapes of one head's matrices."""
    import math

    shapes = [(d_model, d_head)] * 3 + [(d_head, d_model)]
    return n_layers * n_heads * sum(math.prod(shape) for shape in shapes)


def attention_parameters__wrong_uint64(d_model, d_head, n_heads, n_layers):
    """An unsigned NumPy integer of 64 bits."""
    qkv = 3 * (n_heads * d_head) * d_model
    up = d_model * (n_heads * d_head)
    return np.uint64((qkv + up) * n_layers)


def attention_parameters__wrong_no_up(d_model, d_head, n_heads, n_layers):
    """Forgets V-up: three matrices."""
    return 3 * d_model * d_head * n_heads * n_layers


def attention_parameters__wrong_two_matrices(d_model, d_head, n_heads, n_layers):
    """Counts queries and keys only."""
    return 2 * d_model * d_head * n_heads * n_layers


def attention_parameters__wrong_full_value_map(d_model, d_head, n_heads, n_layers):
    """A full (d_model, d_model) value map in each head."""
    return (2 * d_model * d_head + d_model * d_model) * n_heads * n_layers


def attention_parameters__wrong_one_layer(d_model, d_head, n_heads, n_layers):
    """Forgets the layers."""
    return 4 * d_model * d_head * n_heads


def attention_parameters__wrong_one_head(d_model, d_head, n_heads, n_layers):
    """Forgets the heads."""
    return 4 * d_model * d_head * n_layers


def attention_parameters__wrong_d_model_squared(d_model, d_head, n_heads, n_layers):
    """Takes n_heads * d_head for d_model: right for GPT-3 only by its sizes."""
    return 4 * d_model**2 * n_layers


def attention_parameters__wrong_d_head_from_heads(d_model, d_head, n_heads, n_layers):
    """Overwrites d_head with d_model // n_heads."""
    d_head = d_model // n_heads
    return 4 * d_model * d_head * n_heads * n_layers


def attention_parameters__wrong_heads_from_d_head(d_model, d_head, n_heads, n_layers):
    """Overwrites n_heads with d_model // d_head."""
    n_heads = d_model // d_head
    return 4 * d_model * d_head * n_heads * n_layers


def attention_parameters__wrong_up_square(d_model, d_head, n_heads, n_layers):
    """One (d_model, d_model) output matrix per layer instead of the up matrices of the heads."""
    return (3 * d_model * d_head * n_heads + d_model * d_model) * n_layers


def attention_parameters__wrong_up_shared(d_model, d_head, n_heads, n_layers):
    """V-up is shared by the heads of a layer."""
    return (3 * n_heads + 1) * d_model * d_head * n_layers


def attention_parameters__wrong_keys_values_shared(d_model, d_head, n_heads, n_layers):
    """Keys and values shared by all heads, as in multi-query attention."""
    return (2 * n_heads + 2) * d_model * d_head * n_layers


def attention_parameters__wrong_biases(d_model, d_head, n_heads, n_layers):
    """Counts a bias for every projection."""
    return n_layers * n_heads * (4 * d_model * d_head + 3 * d_head + d_model)


def attention_parameters__wrong_row_of_ones(d_model, d_head, n_heads, n_layers):
    """One more input row for the bias in each of four matrices."""
    return 4 * (d_model + 1) * d_head * n_heads * n_layers


def attention_parameters__wrong_head_square(d_model, d_head, n_heads, n_layers):
    """Matrices of d_head by d_head."""
    return 4 * d_head * d_head * n_heads * n_layers


def attention_parameters__wrong_sum_of_sides(d_model, d_head, n_heads, n_layers):
    """Adds the sides instead of multiplying them."""
    return 4 * (d_model + d_head) * n_heads * n_layers


def attention_parameters__wrong_heads_plus_layers(d_model, d_head, n_heads, n_layers):
    """Adds heads and layers instead of multiplying them."""
    return 4 * d_model * d_head * (n_heads + n_layers)


def attention_parameters__wrong_precedence(d_model, d_head, n_heads, n_layers):
    """Missing brackets: only the last term is multiplied by heads and layers."""
    return 3 * d_model * d_head + d_head * d_model * n_heads * n_layers


def attention_parameters__wrong_precedence_layers(d_model, d_head, n_heads, n_layers):
    """Missing brackets: only the up matrices are counted in every layer."""
    return 3 * d_model * d_head * n_heads + d_head * d_model * n_heads * n_layers


def attention_parameters__wrong_layer_off_by_one(d_model, d_head, n_heads, n_layers):
    """range(1, n_layers) counts one layer too few."""
    total = 0
    for _ in range(1, n_layers):
        total += 4 * d_model * d_head * n_heads
    return total


def attention_parameters__wrong_heads_off_by_one(d_model, d_head, n_heads, n_layers):
    """One head too many."""
    return sum(4 * d_model * d_head for _ in range(n_heads + 1)) * n_layers


def attention_parameters__wrong_doubled(d_model, d_head, n_heads, n_layers):
    """Counts each matrix twice (eight per head)."""
    return 8 * d_model * d_head * n_heads * n_layers


def attention_parameters__wrong_mlp_added(d_model, d_head, n_heads, n_layers):
    """Adds the feed-forward weights, 8 d_model squared per layer."""
    return n_layers * (4 * d_model * d_head * n_heads + 8 * d_model * d_model)


def attention_parameters__wrong_output_projection_added(d_model, d_head, n_heads, n_layers):
    """Counts an output projection on top of V-up: five matrices."""
    return 5 * d_model * d_head * n_heads * n_layers


def attention_parameters__wrong_hard_coded_gpt3(d_model, d_head, n_heads, n_layers):
    """Returns the number of the text whatever the sizes."""
    return 57_982_058_496


def attention_parameters__wrong_hard_coded_head(d_model, d_head, n_heads, n_layers):
    """d_head fixed at 128."""
    return 4 * d_model * 128 * n_heads * n_layers


def attention_parameters__wrong_hard_coded_layers(d_model, d_head, n_heads, n_layers):
    """96 layers whatever n_layers says."""
    return 4 * d_model * d_head * n_heads * 96


def attention_parameters__wrong_heads_squared(d_model, d_head, n_heads, n_layers):
    """Uses n_heads twice: right when heads and layers are equally many."""
    return 4 * d_model * d_head * n_heads * n_heads


def attention_parameters__wrong_int32(d_model, d_head, n_heads, n_layers):
    """32-bit product: wraps around for GPT-3."""
    return np.prod(np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int32), dtype=np.int32)


def attention_parameters__wrong_float(d_model, d_head, n_heads, n_layers):
    """A float, by a true division."""
    return (d_model * d_head * n_heads * n_layers) / 0.25


def attention_parameters__wrong_float64_product(d_model, d_head, n_heads, n_layers):
    """A NumPy float64."""
    return np.prod([4.0, d_model, d_head, n_heads, n_layers])


def attention_parameters__wrong_string(d_model, d_head, n_heads, n_layers):
    """A string with thousands separators."""
    return f"{4 * d_model * d_head * n_heads * n_layers:,}"


def attention_parameters__wrong_billions(d_model, d_head, n_heads, n_layers):
    """Rounded to billions."""
    return round(4 * d_model * d_head * n_heads * n_layers / 1e9, 1)


def attention_parameters__wrong_rounded_to_thousands(d_model, d_head, n_heads, n_layers):
    """An int, but rounded to thousands."""
    return round(4 * d_model * d_head * n_heads * n_layers, -3)


def attention_parameters__wrong_pair(d_model, d_head, n_heads, n_layers):
    """Returns (per layer, total)."""
    per_layer = 4 * d_model * d_head * n_heads
    return per_layer, per_layer * n_layers


def attention_parameters__wrong_one_entry_array(d_model, d_head, n_heads, n_layers):
    """An array of shape (1,) instead of a scalar."""
    return np.array([4 * d_model * d_head * n_heads * n_layers])


def attention_parameters__wrong_prints(d_model, d_head, n_heads, n_layers):
    """Prints and returns nothing."""
    print(4 * d_model * d_head * n_heads * n_layers)


def attention_parameters__wrong_running_total(d_model, d_head, n_heads, n_layers, _total=[0]):  # noqa: B006
    """Adds the counts of all calls together."""
    _total[0] += 4 * d_model * d_head * n_heads * n_layers
    return _total[0]


def attention_parameters__wrong_cached(d_model, d_head, n_heads, n_layers, _seen={}):  # noqa: B006
    """Remembers by d_model and n_layers only."""
    return _seen.setdefault((d_model, n_layers), 4 * d_model * d_head * n_heads * n_layers)


# ---------------------------------------------------------------- tables

# ---------------------------------------------------------------- pointing_weights


def _on_a_circle(n):
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def _weights_for(X, features):
    return np.linalg.lstsq(X, features, rcond=None)[0]


def pointing_weights__right_circle_pinv(X, target):
    """Keys around a circle, queries in the same directions, 300 times as long; by the pseudo-inverse."""
    keys = _on_a_circle(len(X))
    back = np.linalg.pinv(X)
    return back @ (300 * keys[target]), back @ keys


def pointing_weights__right_parabola_lstsq(X, target):
    """Keys (j, j squared), queries (2t, -1): the score is largest where j = t."""
    j = np.arange(len(X), dtype=float)
    queries = 10 * np.stack([2 * j[target], -np.ones(len(X))], axis=1)
    return _weights_for(X, queries), _weights_for(X, np.stack([j, j**2], axis=1))


def pointing_weights__right_gram_and_long_keys(X, target):
    """The long vectors are the keys; the weights are combinations of the tokens, by their table of dot products."""
    gram = X @ X.T
    points = _on_a_circle(len(X))
    return X.T @ np.linalg.solve(gram, points[target]), X.T @ np.linalg.solve(gram, 1000 * points)


def pointing_weights__right_qr_with_something_unseen(X, target):
    """By QR of the transpose, with parts added that no token sees."""
    basis, upper = np.linalg.qr(X.T)
    points = _on_a_circle(len(X))
    W_Q = basis @ np.linalg.solve(upper.T, 400 * points[target])
    W_K = basis @ np.linalg.solve(upper.T, points)
    unseen = np.outer(np.ones(X.shape[1]), [1.0, -2.0])
    unseen -= basis @ (basis.T @ unseen)
    return W_Q + 3 * unseen, W_K - unseen


def pointing_weights__right_complex_powers(X, target):
    """Roots of unity, read as points; huge queries, and the keys in another order around the circle."""
    n = len(X)
    roots = np.exp(2j * np.pi * ((np.arange(n) * 1.0 + 0.3)[::-1]) / n)
    keys = np.stack([roots.real, roots.imag], axis=1)
    wanted = np.concatenate([1e6 * keys[target], keys], axis=1)
    both = _weights_for(X, wanted)
    return both[:, :2].copy(), both[:, 2:].copy()


def pointing_weights__right_hyperbola(X, target):
    """Keys on another curve that bends one way, an exponential; queries at right angles to it."""
    t = np.linspace(0, 1, len(X)) if len(X) > 1 else np.zeros(1)
    keys = np.stack([t, np.exp(t)], axis=1)
    across = np.stack([np.exp(t), -np.ones(len(X))], axis=1)
    return _weights_for(X, 5000 * across[target]), _weights_for(X, keys)


def pointing_weights__wrong_short_queries(X, target):
    """The design is right, but the queries are of length 1."""
    keys = _on_a_circle(len(X))
    return _weights_for(X, keys[target]), _weights_for(X, keys)


def pointing_weights__wrong_long_enough_for_few(X, target):
    """Queries of length 25: enough for eight tokens, not for sixteen."""
    keys = _on_a_circle(len(X))
    return _weights_for(X, 25 * keys[target]), _weights_for(X, keys)


def pointing_weights__wrong_numbers_on_a_line(X, target):
    """One feature holds the number of the token, the other is not used."""
    number = np.stack([np.arange(1.0, len(X) + 1), np.zeros(len(X))], axis=1)
    return _weights_for(X, 100 * number[target]), _weights_for(X, number)


def pointing_weights__wrong_half_a_circle_of_grid(X, target):
    """Keys on a 4 by 4 grid: those inside can never win."""
    j = np.arange(len(X))
    keys = np.stack([j // 4 - 1.5, j % 4 - 1.5], axis=1)
    return _weights_for(X, 200 * keys[target]), _weights_for(X, keys)


def pointing_weights__wrong_transpose(X, target):
    """Takes the transpose of X for its inverse."""
    keys = _on_a_circle(len(X))
    return X.T @ (500 * keys[target]), X.T @ keys


def pointing_weights__wrong_keys_by_target(X, target):
    """Puts the target into the keys, so that columns look at rows."""
    points = _on_a_circle(len(X))
    return _weights_for(X, 500 * points), _weights_for(X, points[target])


def pointing_weights__wrong_inverse_permutation(X, target):
    """Inverts the target as if it were a permutation."""
    points = _on_a_circle(len(X))
    place = np.empty(len(X), dtype=int)
    place[target] = np.arange(len(X))
    place %= len(X)
    return _weights_for(X, 500 * points), _weights_for(X, points[place])


def pointing_weights__wrong_counted_from_one(X, target):
    """Counts tokens from one."""
    points = _on_a_circle(len(X))
    return _weights_for(X, 500 * points[target - 1]), _weights_for(X, points)


def pointing_weights__wrong_ignores_target(X, target):
    """Every token asks for itself."""
    points = _on_a_circle(len(X))
    return _weights_for(X, 500 * points), _weights_for(X, points)


def pointing_weights__wrong_one_hot_features(X, target):
    """n features in place of two."""
    eye = np.eye(len(X))
    return _weights_for(X, 50 * eye[target]), _weights_for(X, eye)


def pointing_weights__wrong_random_directions(X, target):
    """Random keys, and queries that are long copies of them: longer keys win."""
    keys = np.random.default_rng(0).standard_normal((len(X), 2))
    return _weights_for(X, 500 * keys[target]), _weights_for(X, keys)


def pointing_weights__wrong_queries_and_keys(X, target):
    """Returns the queries and keys themselves."""
    points = _on_a_circle(len(X))
    return 500 * points[target], points


def pointing_weights__wrong_turned(X, target):
    """Queries that point away from their keys."""
    points = _on_a_circle(len(X))
    return _weights_for(X, -500 * points[target]), _weights_for(X, points)


def pointing_weights__wrong_rounded(X, target):
    """Weights rounded to one place after the point, which tokens that are nearly dependent do not forgive."""
    keys = _on_a_circle(len(X))
    return _weights_for(X, 300 * keys[target]).round(1), _weights_for(X, keys).round(1)


# ---------------------------------------------------------------- linear_memory


def linear_memory__right_lstsq(keys, values):
    """NumPy's own least squares, told how small is nothing."""
    return np.linalg.lstsq(keys, values, rcond=1e-6)[0]


def linear_memory__right_pinv(keys, values):
    """By the pseudo-inverse of the keys."""
    return np.linalg.pinv(keys, rcond=1e-5) @ values


def linear_memory__wrong_descent_of_too_few_steps(keys, values):
    """Small steps downhill from a memory of zeros, which never leave the space of the keys."""
    keys, values = keys.astype(float), values.astype(float)
    S = np.zeros((keys.shape[1], values.shape[1]))
    step = 1 / max(np.linalg.norm(keys, 2) ** 2, 1e-12)
    for _ in range(800):
        S += step * keys.T @ (values - keys @ S)
    return S


def linear_memory__right_eigenvectors(keys, values):
    """The table of dot products of features, taken apart; directions in which there is nothing are left out."""
    keys = keys.astype(float)
    found, basis = np.linalg.eigh(keys.T @ keys)
    kept = found > 1e-9 * found.max()
    return basis[:, kept] / found[kept] @ (basis[:, kept].T @ (keys.T @ values))


def linear_memory__right_rows_of_keys(keys, values):
    """A mixture of the keys: coefficients from the table of dot products of keys, pseudo-inverted."""
    keys = keys.astype(float)
    return keys.T @ (np.linalg.pinv(keys @ keys.T, rcond=1e-10, hermitian=True) @ values)


def linear_memory__right_feature_of_values_by_feature(keys, values):
    """One column of values at a time, in float64."""
    columns = [np.linalg.lstsq(keys.astype(float), column, rcond=1e-7)[0] for column in values.T.astype(float)]
    return np.stack(columns, axis=1)


def linear_memory__right_passes(keys, values):
    """Each pair corrected in turn, over and over, in steps that grow smaller where there are too many pairs."""
    keys, values = keys.astype(float), values.astype(float)
    left, strengths, right = np.linalg.svd(keys, full_matrices=False)
    inverse = np.array([1 / s if s > 1e-5 * max(strengths) else 0.0 for s in strengths])
    return np.einsum("rd,r,nr,nv->dv", right, inverse, left, values)


def linear_memory__wrong_default_cut(keys, values):
    """NumPy's own least squares as it comes, which takes rounding for something."""
    return np.linalg.lstsq(keys, values, rcond=None)[0]


def linear_memory__wrong_sum(keys, values):
    """The sum of outer products."""
    return np.einsum("nd,nv->dv", keys, values)


def linear_memory__wrong_mean(keys, values):
    """The mean of outer products."""
    return np.einsum("nd,nv->dv", keys, values) / len(keys)


def linear_memory__wrong_outer_over_length(keys, values):
    """Each outer product over the squared length of its key."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values, strict=True):
        S += np.outer(key, value) / (key @ key + 1e-12)
    return S


def linear_memory__wrong_one_pass(keys, values):
    """Corrects the memory pair by pair, once."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values, strict=True):
        S += np.outer(key, value - key @ S) / (key @ key + 1e-12)
    return S


def linear_memory__wrong_normal_equations_with_a_little(keys, values):
    """A little on the diagonal, so that it can be inverted."""
    return np.linalg.inv(keys.T @ keys + 1e-2 * np.eye(keys.shape[1])) @ keys.T @ values


def linear_memory__wrong_only_few(keys, values):
    """The formula for at most d_k pairs, with a little on the diagonal elsewhere."""
    gram = keys @ keys.T
    if len(keys) > keys.shape[1]:
        gram = gram + np.eye(len(keys))
    return keys.T @ np.linalg.pinv(gram, hermitian=True, rcond=1e-10) @ values


def linear_memory__wrong_only_many(keys, values):
    """The inverse of the table of features, which there is only for many pairs."""
    return np.linalg.inv(keys.T @ keys) @ keys.T @ values


def linear_memory__wrong_square_part(keys, values):
    """Solves with as many features as pairs and leaves the rest at zero."""
    n = min(keys.shape)
    S = np.zeros((keys.shape[1], values.shape[1]))
    S[:n] = np.linalg.lstsq(keys[:, :n], values, rcond=None)[0]
    return S


def linear_memory__wrong_values_to_keys(keys, values):
    """The wrong way round."""
    return np.linalg.pinv(values) @ keys


def linear_memory__wrong_columns(keys, values):
    """Made for columns: to be read by S @ query."""
    return np.linalg.lstsq(keys, values, rcond=None)[0].T


def linear_memory__wrong_read_back(keys, values):
    """What the memory answers to its keys."""
    return keys @ np.linalg.pinv(keys) @ values


def linear_memory__wrong_last_of_equal_keys(keys, values):
    """Overwrites: of equal keys the last counts, as in a dictionary."""
    table = {tuple(key): value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
    return np.linalg.pinv(np.array(list(table))) @ np.array(list(table.values()))


def linear_memory__wrong_lookup_weights(keys, values):
    """Softmax weights of the keys with each other, in place of an inverse."""
    scores = keys @ keys.T
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return keys.T @ (powers / powers.sum(axis=1, keepdims=True)) @ values


def linear_memory__wrong_means_taken_off(keys, values):
    """Takes the means off, as a regression with a constant does."""
    return np.linalg.pinv(keys - keys.mean(axis=0)) @ (values - values.mean(axis=0))


def linear_memory__wrong_first_of_equal_keys(keys, values):
    """Of equal keys the first counts."""
    _, first = np.unique(keys, axis=0, return_index=True)
    return np.linalg.lstsq(keys[first], values[first], rcond=None)[0]


def linear_memory__wrong_keys_of_length_one(keys, values):
    """Brings the keys to length 1 and solves for those."""
    lengths = np.sqrt((keys**2).sum(axis=1, keepdims=True))
    return np.linalg.pinv(keys / np.where(lengths > 0, lengths, 1)) @ values


def linear_memory__wrong_first_d_k(keys, values):
    """When it is full, nothing more is stored."""
    room = keys.shape[1]
    return np.linalg.pinv(keys[:room]) @ values[:room]


def linear_memory__wrong_without_values(keys, values):
    """The pseudo-inverse alone."""
    return np.linalg.pinv(keys)
