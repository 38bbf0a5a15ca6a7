"""Right and wrong answers to unit 01_projections, written from the contracts of the functions alone,
to test the judge with."""

import numpy as np
import math


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


def embed__right_choose(tokens, E):
    """np.choose among the columns; a single token gives a view of E."""
    if len(tokens) == 1:
        column = int(tokens[0])
        return E[:, column : column + 1].T
    return np.choose(tokens[:, None], list(E.T)) if E.shape[1] < 32 else E.T[tokens]


def embed__wrong_zero_is_padding(tokens, E):
    """Treats token 0 as padding and gives it a zero row."""
    return E.T[tokens] * (np.asarray(tokens) != 0)[:, None]


def embed__wrong_one_hot_square(tokens, E):
    """Builds the one-hot with d_model entries instead of vocab."""
    one_hot = np.zeros((len(tokens), E.shape[0]))
    one_hot[np.arange(len(tokens)), tokens] = 1
    return one_hot @ E.T


def embed__wrong_vocab_from_tokens(tokens, E):
    """Takes the vocabulary size from the largest token in the sentence."""
    return np.eye(np.max(tokens) + 1)[tokens] @ E.T


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


def soft_lookup__right_halves(query, keys, values):
    """Recursion: each half looks up alone, and the halves are mixed by their totals; one key gives a view."""
    if len(keys) == 1:
        return values[0]
    half = len(keys) // 2
    parts = [(keys[:half], values[:half]), (keys[half:], values[half:])]
    totals = np.array([np.logaddexp.reduce(k @ query) for k, _ in parts])
    shares = np.exp(totals - np.logaddexp.reduce(totals))
    return sum(share * soft_lookup__right_halves(query, k, v) for share, (k, v) in zip(shares, parts, strict=True))


def soft_lookup__wrong_mean_shift(query, keys, values):
    """Takes off the mean instead of the maximum: still overflows for large scores."""
    s = keys @ query
    w = np.exp(s - s.mean())
    return (w / w.sum()) @ values


def soft_lookup__wrong_clipped(query, keys, values):
    """Clips the scores to +-50, so that large scores become equal."""
    w = np.exp(np.clip(keys @ query, -50, 50))
    return (w / w.sum()) @ values


def soft_lookup__wrong_running_maximum_kept(query, keys, values, _state={"top": -np.inf}):  # noqa: B006
    """Keeps the largest score of all calls as the shift: 0 / 0 after one call with large scores."""
    s = keys @ query
    _state["top"] = max(_state["top"], float(s.max()))
    w = np.exp(s - _state["top"])
    return (w / w.sum()) @ values


def soft_lookup__wrong_top_two(query, keys, values):
    """Keeps only the two best keys."""
    s = keys @ query
    best = np.argsort(s)[-2:]
    w = np.exp(s[best] - s[best].max())
    return (w / w.sum()) @ values[best]


def soft_lookup__wrong_hard_coded_three(query, keys, values):
    """Loops over exactly three keys."""
    s = np.array([keys[i] @ query for i in range(3)])
    w = np.exp(s - s.max())
    w = w / w.sum()
    return sum(w[i] * values[i] for i in range(3))


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


def project_qkv__wrong_split_rows(X, W_Q, W_K, W_V):
    """Stacks the three weights on a new axis: needs d_v = d_k."""
    Q, K, V = X @ np.stack([W_Q, W_K, W_V])
    return Q, K, V


def project_qkv__wrong_query_scaled(X, W_Q, W_K, W_V):
    """Already divides the queries by sqrt(d_k)."""
    return X @ W_Q / np.sqrt(W_Q.shape[1]), X @ W_K, X @ W_V


def project_qkv__wrong_cached_weights(X, W_Q, W_K, W_V, _cache={}):  # noqa: B006
    """Keeps the first weights of each shape."""
    key = (W_Q.shape, W_K.shape, W_V.shape)
    A, B, C = _cache.setdefault(key, (W_Q.copy(), W_K.copy(), W_V.copy()))
    return X @ A, X @ B, X @ C


def project_token__right_loops(x, W_Q, W_K, W_V):
    """Explicit loops with fsum, in float64."""
    import math

    def apply(W):
        return np.array([math.fsum(float(w) * float(a) for w, a in zip(row, x, strict=True)) for row in W])

    return apply(W_Q), apply(W_K), apply(W_V)


def project_token__right_stacked(x, W_Q, W_K, W_V):
    """One tall matrix, split at the true heights; results are views."""
    y = np.vstack([W_Q, W_K, W_V]) @ x
    a = W_Q.shape[0]
    b = a + W_K.shape[0]
    return y[:a], y[a:b], y[b:]


def project_token__right_map_inner(x, W_Q, W_K, W_V):
    """tuple(map(...)) with np.inner, in float64."""
    x = np.asarray(x, dtype=np.float64)
    return tuple(map(lambda W: np.inner(W, x), [W_Q, W_K, W_V]))  # noqa: C417


def project_token__wrong_reshaped_weights(x, W_Q, W_K, W_V):
    """Reshapes the weights to (d_model, d_head) instead of transposing them."""
    return tuple(x @ W.reshape(W.shape[1], W.shape[0]) for W in (W_Q, W_K, W_V))


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


def project_token__wrong_hard_coded_width(x, W_Q, W_K, W_V):
    """Uses the first four features only."""
    return W_Q[:, :4] @ x[:4], W_K[:, :4] @ x[:4], W_V[:, :4] @ x[:4]


def project_token__wrong_accumulates(x, W_Q, W_K, W_V, _sum={}):  # noqa: B006
    """Adds the tokens of earlier calls of the same width to x."""
    _sum[len(x)] = _sum.get(len(x), 0) + x
    x = _sum[len(x)]
    return W_Q @ x, W_K @ x, W_V @ x


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


def low_rank_value__wrong_scaled(X, W_V_down, W_V_up):
    """Divides by sqrt(d_head)."""
    return X @ W_V_down @ W_V_up / np.sqrt(W_V_down.shape[1])


def low_rank_value__wrong_writes_into_X(X, W_V_down, W_V_up):
    """Writes the result into X."""
    X[...] = X @ W_V_down @ W_V_up
    return X


def low_rank_value__wrong_cached_map(X, W_V_down, W_V_up, _maps={}):  # noqa: B006
    """Keeps the first full map for each d_model."""
    if X.shape[1] not in _maps:
        _maps[X.shape[1]] = W_V_down @ W_V_up
    return X @ _maps[X.shape[1]]


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


def attention_parameters__right_numpy_prod_of_64_bits(d_model, d_head, n_heads, n_layers):
    """A NumPy int64 from np.prod: enough below 2**63."""
    return np.prod(np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int64))


def attention_parameters__right_zero_d_of_64_bits(d_model, d_head, n_heads, n_layers):
    """A 0-d array of int64: enough below 2**63."""
    per_layer = np.array([d_model * d_head] * 4, dtype=np.int64) * n_heads
    return np.asarray(per_layer.sum() * n_layers)


def attention_parameters__wrong_one_layer(d_model, d_head, n_heads, n_layers):
    """Forgets the layers."""
    return 4 * d_model * d_head * n_heads


def attention_parameters__wrong_d_model_squared(d_model, d_head, n_heads, n_layers):
    """Takes n_heads * d_head for d_model: right for GPT-3 only by its sizes."""
    return 4 * d_model**2 * n_layers


def attention_parameters__wrong_hard_coded_gpt3(d_model, d_head, n_heads, n_layers):
    """Returns the number of the text whatever the sizes."""
    return 57_982_058_496


def attention_parameters__wrong_heads_squared(d_model, d_head, n_heads, n_layers):
    """Uses n_heads twice: right when heads and layers are equally many."""
    return 4 * d_model * d_head * n_heads * n_heads


def attention_parameters__wrong_int32(d_model, d_head, n_heads, n_layers):
    """32-bit product: wraps around for GPT-3."""
    return np.prod(np.array([4, d_model, d_head, n_heads, n_layers], dtype=np.int32), dtype=np.int32)


def attention_parameters__wrong_running_total(d_model, d_head, n_heads, n_layers, _total=[0]):  # noqa: B006
    """Adds the counts of all calls together."""
    _total[0] += 4 * d_model * d_head * n_heads * n_layers
    return _total[0]


def attention_parameters__wrong_cached(d_model, d_head, n_heads, n_layers, _seen={}):  # noqa: B006
    """Remembers by d_model and n_layers only."""
    return _seen.setdefault((d_model, n_layers), 4 * d_model * d_head * n_heads * n_layers)


def _on_a_circle(n):
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def _weights_for(X, features):
    return np.linalg.lstsq(X, features, rcond=None)[0]


def pointing_weights__right_gram_and_long_keys(X, target):
    """The long vectors are the keys; the weights are combinations of the tokens, by their table of dot products."""
    gram = X @ X.T
    points = _on_a_circle(len(X))
    return X.T @ np.linalg.solve(gram, points[target]), X.T @ np.linalg.solve(gram, 1000 * points)


def pointing_weights__right_complex_powers(X, target):
    """Roots of unity, read as points; huge queries, and the keys in another order around the circle."""
    n = len(X)
    roots = np.exp(2j * np.pi * ((np.arange(n) * 1.0 + 0.3)[::-1]) / n)
    keys = np.stack([roots.real, roots.imag], axis=1)
    wanted = np.concatenate([1e6 * keys[target], keys], axis=1)
    both = _weights_for(X, wanted)
    return both[:, :2].copy(), both[:, 2:].copy()


def pointing_weights__wrong_long_enough_for_few(X, target):
    """Queries of length 25: enough for eight tokens, not for sixteen."""
    keys = _on_a_circle(len(X))
    return _weights_for(X, 25 * keys[target]), _weights_for(X, keys)


def pointing_weights__wrong_inverse_permutation(X, target):
    """Inverts the target as if it were a permutation."""
    points = _on_a_circle(len(X))
    place = np.empty(len(X), dtype=int)
    place[target] = np.arange(len(X))
    place %= len(X)
    return _weights_for(X, 500 * points), _weights_for(X, points[place])


def pointing_weights__wrong_one_hot_features(X, target):
    """n features in place of two."""
    eye = np.eye(len(X))
    return _weights_for(X, 50 * eye[target]), _weights_for(X, eye)


def pointing_weights__wrong_rounded(X, target):
    """Weights rounded to one place after the point, which tokens that are nearly dependent do not forgive."""
    keys = _on_a_circle(len(X))
    return _weights_for(X, 300 * keys[target]).round(1), _weights_for(X, keys).round(1)


def linear_memory__wrong_descent_of_too_few_steps(keys, values):
    """Small steps downhill from a memory of zeros, which never leave the space of the keys."""
    keys, values = keys.astype(float), values.astype(float)
    S = np.zeros((keys.shape[1], values.shape[1]))
    step = 1 / max(np.linalg.norm(keys, 2) ** 2, 1e-12)
    for _ in range(800):
        S += step * keys.T @ (values - keys @ S)
    return S


def linear_memory__right_feature_of_values_by_feature(keys, values):
    """One column of values at a time, in float64."""
    columns = [np.linalg.lstsq(keys.astype(float), column, rcond=1e-7)[0] for column in values.T.astype(float)]
    return np.stack(columns, axis=1)


def linear_memory__wrong_default_cut(keys, values):
    """NumPy's own least squares as it comes, which takes rounding for something."""
    return np.linalg.lstsq(keys, values, rcond=None)[0]


def linear_memory__wrong_sum(keys, values):
    """The sum of outer products."""
    return np.einsum("nd,nv->dv", keys, values)


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


def linear_memory__wrong_last_of_equal_keys(keys, values):
    """Overwrites: of equal keys the last counts, as in a dictionary."""
    table = {tuple(key): value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
    return np.linalg.pinv(np.array(list(table))) @ np.array(list(table.values()))


def _circle(n):
    angle = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def pointing_weights__wrong_endpoint_twice(X, target):
    """linspace includes 2*pi: the first and the last key share one place on the circle."""
    n = X.shape[0]
    angle = np.linspace(0, 2 * np.pi, n)
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ (300 * places[target]), inverse @ places


def pointing_weights__wrong_sharp_for_few_tokens(X, target):
    """The sharpness was tuned on four tokens: too blurred on a circle of sixteen."""
    places = _circle(X.shape[0])
    inverse = np.linalg.pinv(X)
    return inverse @ (10 * places[target]), inverse @ places


def pointing_weights__right_gram_shifted(X, target):
    """Solves with the Gram matrix in a loop; all keys shifted by one vector, which the softmax cannot see."""
    n = X.shape[0]
    gram = X @ X.T
    W_Q = np.zeros((X.shape[1], 2))
    W_K = np.zeros((X.shape[1], 2))
    for i in range(n):
        unit = np.zeros(n)
        unit[i] = 1.0
        dual = X.T @ np.linalg.solve(gram, unit)
        at, to = 2 * np.pi * i / n + 0.3, 2 * np.pi * int(target[i]) / n + 0.3
        W_K += np.outer(dual, [math.cos(at) + 5.0, math.sin(at) - 3.0])
        W_Q += np.outer(dual, [400 * math.cos(to), 400 * math.sin(to)])
    return W_Q, W_K


def linear_memory__right_gram_eigh(keys, values):
    """Eigenvectors of the smaller Gram matrix (n x n or d_k x d_k), pseudo-inverted by hand, in float64."""
    K, V = keys.astype(np.float64), values.astype(np.float64)
    cut = max(1e-13, (max(K.shape) * np.finfo(keys.dtype).eps) ** 2)
    gram = K @ K.T if K.shape[0] <= K.shape[1] else K.T @ K
    w, E = np.linalg.eigh(gram)
    keep = w > cut * max(w[-1], 0.0)
    inverse = (E[:, keep] / w[keep]) @ E[:, keep].T
    return K.T @ (inverse @ V) if K.shape[0] <= K.shape[1] else inverse @ (K.T @ V)
