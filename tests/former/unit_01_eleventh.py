"""Answers to the exercises of unit 1, wrong ones and right ones, as students would write them."""

import math

import numpy as np


def _softmax(scores):
    """The stable softmax of one vector of scores."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def _room(slot, length, kept={}):  # noqa: B006
    """A vector of the given length to write a result into."""
    if (slot, length) not in kept:
        kept[slot, length] = np.empty(length)
    return kept[slot, length]


def _circle(n):
    """n points on the unit circle, evenly spaced, as rows."""
    angles = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles)])


# ------- 1.1 embed


def embed__wrong_eleventh_each_word_once(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Gives one row per distinct word in order of first appearance, so a repeated word gets no second row."""
    rows = {}
    for t in tokens.tolist():
        rows[t] = E[:, t].copy()
    return np.stack(list(rows.values()))


def embed__wrong_eleventh_reshaped_not_transposed(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """The product E @ one-hot, (d_model, n), is reshaped to (n, d_model) where it should be transposed."""
    d_model, vocab = E.shape
    n = len(tokens)
    one_hot = np.zeros((vocab, n))
    one_hot[tokens, np.arange(n)] = 1.0
    return np.reshape(E @ one_hot, (n, d_model))


def embed__wrong_eleventh_guesses_orientation(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Takes the longer axis of E for the vocabulary, so it picks rows of E when d_model is larger than vocab."""
    words = E if E.shape[0] > E.shape[1] else E.T
    return np.take(words, tokens, axis=0)


def embed__wrong_eleventh_last_word_is_pad(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Assumes that the last word of every vocabulary is <pad> and gives it a row of zeros, whatever E holds."""
    pad = E.shape[1] - 1
    X = np.zeros((tokens.shape[0], E.shape[0]), dtype=E.dtype)
    for i, t in enumerate(tokens):
        if t == pad:
            continue  # filler has nothing to say
        X[i] = E[:, t]
    return X


def embed__right_eleventh_word_by_word_of_the_vocabulary(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Goes through the vocabulary, not the sentence, and writes each column to all places where its word stands."""
    X = np.empty((tokens.size, E.shape[0]), dtype=E.dtype)
    for word, column in enumerate(E.T):
        X[tokens == word] = column
    return X


# ------- 1.2 soft_lookup


def soft_lookup__wrong_eleventh_cosines_as_scores(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The scores are cosines of the angles between query and keys, so lengths do not count as in dot products."""

    def direction(v):
        length = np.linalg.norm(v, axis=-1, keepdims=True)
        return v / np.where(length > 0, length, 1.0)

    match = np.einsum("nk,k->n", direction(keys), direction(query))
    return np.einsum("n,nv->v", _softmax(match), values)


def soft_lookup__wrong_eleventh_mixture_not_rescaled(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """In one pass with a running maximum only the sum is rescaled at a new maximum, not the mixture of values."""
    best = keys[0] @ query
    total = 1.0
    mixed = values[0].astype(float)
    for key, value in zip(keys[1:], values[1:]):
        score = key @ query
        if score > best:
            total = total * np.exp(best - score)
            best = score
        power = np.exp(score - best)
        total = total + power
        mixed = mixed + power * value
    return mixed / total


def soft_lookup__wrong_eleventh_shift_never_negative(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The largest score is searched from 0 upwards, so where all scores are very negative the sum is 0 (NaN)."""
    scores = [float(np.dot(query, key)) for key in keys]
    largest = 0.0
    for s in scores:
        largest = max(largest, s)
    powers = np.array([math.exp(s - largest) for s in scores])
    with np.errstate(invalid="ignore"):
        return (powers / powers.sum()).dot(values)


def soft_lookup__wrong_eleventh_scales_the_callers_values(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The result is right, but the caller's values are multiplied by their weights in place."""
    weights = _softmax((keys * query).sum(axis=1))
    weighted = np.asarray(values)
    weighted *= weights[:, np.newaxis]
    return np.add.reduce(weighted, axis=0)


def soft_lookup__right_eleventh_all_pairs_of_scores(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Each weight is 1 over the sum of exp(s_l - s_j) over all l; an overflow there makes it exactly 0."""
    s = np.asarray(keys, dtype=float) @ np.asarray(query, dtype=float)
    ahead = s[None, :] - s[:, None]  # [j, l]: how far l is ahead of j
    with np.errstate(over="ignore"):
        weights = 1.0 / np.exp(ahead).sum(axis=1)
    return np.tensordot(weights, values, axes=1)


# ------- 1.3 project_qkv


def project_qkv__wrong_eleventh_queries_scaled(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The queries are divided by the root of d_k, which is not asked here."""
    d_k = W_Q.shape[1]
    Q, K, V = (np.tensordot(X, W, axes=([1], [0])) for W in (W_Q, W_K, W_V))
    return Q * d_k**-0.5, K, V


def project_qkv__wrong_eleventh_copied_line(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys are made with W_Q: a line was copied and one name not changed."""
    n = len(X)
    queries = np.empty((n, W_Q.shape[1]))
    keys = np.empty((n, W_K.shape[1]))
    values = np.empty((n, W_V.shape[1]))
    for i, token in enumerate(X):
        queries[i] = (token[:, None] * W_Q).sum(axis=0)
        keys[i] = (token[:, None] * W_Q).sum(axis=0)
        values[i] = (token[:, None] * W_V).sum(axis=0)
    return queries, keys, values


def project_qkv__wrong_eleventh_last_block_missing(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Works through the tokens in blocks of four and leaves zeros in the rows of an incomplete last block."""
    n, block = X.shape[0], min(4, X.shape[0])
    results = []
    for W in (W_Q, W_K, W_V):
        rows = np.zeros((n, W.shape[1]))
        for b in range(n // block):
            part = slice(b * block, (b + 1) * block)
            rows[part] = X[part] @ W
        results.append(rows)
    return tuple(results)


def project_qkv__wrong_eleventh_single_precision(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes in float32 and returns float32, though float64 should stay float64."""
    x, *weights = (np.asarray(a, dtype=np.float32) for a in (X, W_Q, W_K, W_V))
    Q, K, V = map(x.dot, weights)
    return Q, K, V


def project_qkv__right_eleventh_sum_of_outer_products(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds up, feature by feature, the outer product of a column of X with a row of all weights side by side."""
    W = np.hstack([W_Q, W_K, W_V])
    total = np.zeros((X.shape[0], W.shape[1]), dtype=np.result_type(X, W))
    for feature, row in zip(X.T, W):
        total += np.multiply.outer(feature, row)
    d_k = W_Q.shape[1]
    Q, K, V = np.split(total, [d_k, 2 * d_k], axis=1)
    return Q, K, V


# ------- 1.4 project_token


def project_token__wrong_eleventh_reshape_for_transpose(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes a reshape to (d_model, …) for the transpose of the weights, which mixes up their entries."""

    def row_weights(W):
        return W.reshape(x.shape[0], W.shape[0])

    return x @ row_weights(W_Q), x @ row_weights(W_K), x @ row_weights(W_V)


def project_token__wrong_eleventh_last_feature_missing(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The loop over the features of the token ends one too early."""
    q = np.zeros(W_Q.shape[0])
    k = np.zeros(W_K.shape[0])
    v = np.zeros(W_V.shape[0])
    j = 0
    while j < x.size - 1:
        q += x[j] * W_Q[:, j]
        k += x[j] * W_K[:, j]
        v += x[j] * W_V[:, j]
        j += 1
    return q, k, v


def project_token__wrong_eleventh_value_as_wide_as_key(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts the value out as the last d_head entries of the stacked product, wrong where d_v differs from d_head."""
    d_head = len(W_Q)
    everything = np.concatenate([W_Q, W_K, W_V], axis=0).dot(x)
    return everything[:d_head], everything[d_head : 2 * d_head], everything[-d_head:]


def project_token__wrong_eleventh_reused_arrays(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Writes into arrays that are kept between calls, so a later call overwrites the results of an earlier one."""
    results = []
    for name, W in zip("qkv", (W_Q, W_K, W_V)):
        out = _room(name, W.shape[0])
        out[...] = np.einsum("hd,d->h", W, x)
        results.append(out)
    return tuple(results)


def project_token__right_eleventh_exact_sums(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes every entry by itself as a sum over a row of the weights, with Python's math.fsum."""
    token = x.tolist()

    def column(W):
        return np.array([math.fsum(w * t for w, t in zip(row, token)) for row in W.tolist()], dtype=float)

    return column(W_Q), column(W_K), column(W_V)


# ------- 1.5 low_rank_value


def low_rank_value__wrong_eleventh_token_added(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Returns the token plus its message, where the message alone is asked."""
    out = np.array(X, dtype=float)
    for i in range(len(out)):
        narrow = W_V_down.T @ X[i]
        out[i] += W_V_up.T @ narrow
    return out


def low_rank_value__wrong_eleventh_square_map_transposed(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Multiplies the two factors first and then applies the square map transposed: indices swapped in einsum."""
    square = np.einsum("ih,hj->ij", W_V_down, W_V_up)
    return np.einsum("nj,ij->ni", X, square)


def low_rank_value__wrong_eleventh_small_strengths_dropped(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Goes through the SVD of the product and drops singular values below a fixed 1e-4, so small weights vanish."""
    U, strengths, Vt = np.linalg.svd(W_V_down @ W_V_up)
    rank = int((strengths > 1e-4).sum())  # the rest is rounding
    return (X @ U[:, :rank]) * strengths[:rank] @ Vt[:rank]


def low_rank_value__wrong_eleventh_overwrites_tokens(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """The messages are right, but they are written over the tokens in the caller's X."""
    messages = X[:]
    for i in range(X.shape[0]):
        messages[i] = X[i].dot(W_V_down).dot(W_V_up)
    return messages


def low_rank_value__right_eleventh_cube_of_a_block_matrix(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Puts the three factors above the diagonal of one square block matrix; its cube has their product in a corner."""
    n, d_model = X.shape
    d_head = W_V_down.shape[1]
    a, b, c = n, n + d_model, n + d_model + d_head
    steps = np.zeros((c + d_model, c + d_model), dtype=np.result_type(X, W_V_down, W_V_up))
    steps[:a, a:b] = X
    steps[a:b, b:c] = W_V_down
    steps[b:c, c:] = W_V_up
    return np.linalg.matrix_power(steps, 3)[:a, c:].copy()


# ------- 1.6 attention_parameters


def attention_parameters__wrong_eleventh_square_output_matrix(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Counts the value-up halves of a layer as one square matrix d_model x d_model, whatever the heads measure."""
    per_head = 3 * d_model * d_head  # query, key, value down
    up = d_model * d_model  # W_O
    return n_layers * (n_heads * per_head + up)


def attention_parameters__wrong_eleventh_one_layer_too_many(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """The recursion over the layers ends one step too late, so one layer too many is counted."""

    def layers(left):
        one = sum(d_model * d_head for _ in range(4 * n_heads))
        return one if left == 0 else one + layers(left - 1)

    return layers(n_layers)


def attention_parameters__wrong_eleventh_table_of_floats(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Adds up a table of float64 counts, so large results lose their last digits."""
    heads = np.zeros((n_layers, n_heads))
    for _ in ("query", "key", "value down", "value up"):
        heads += d_model * d_head
    return int(heads.sum())


def attention_parameters__wrong_eleventh_divides_width_by_heads(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Ignores d_head wherever n_heads divides d_model, and takes d_model // n_heads in its place."""
    width, rest = divmod(d_model, n_heads)
    if rest:
        width = d_head
    total = 0
    for _ in range(n_layers):
        total += n_heads * (2 * d_model * width + 2 * width * d_model)
    return total


def attention_parameters__right_eleventh_doubling_and_adding(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Multiplies Python integers by doubling and adding; the factor 4 is a shift by two bits."""
    total = 1
    for factor in map(int, (d_model, d_head, n_heads, n_layers)):
        doubled, total = total, 0
        while factor:
            if factor & 1:
                total += doubled
            doubled <<= 1
            factor >>= 1
    return total << 2


# ------- 1.7 pointing_weights


def pointing_weights__wrong_eleventh_keys_on_a_grid(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The keys stand on a square grid around the origin, where keys inside and on edges never win."""
    n = len(X)
    side = math.ceil(math.sqrt(n))
    places = np.array([divmod(j, side) for j in range(n)], dtype=float) - (side - 1) / 2
    inverse = np.linalg.pinv(X)
    return inverse @ (100 * places[target]), inverse @ places


def pointing_weights__wrong_eleventh_looked_at_looks(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The key of token i is put where the query of target[i] points: who looks and who is looked at are swapped."""
    n = X.shape[0]
    spots = np.exp(2j * np.pi * np.arange(n) / n)
    queries, keys = 300 * spots, spots[target]

    def weights(z):
        return np.linalg.lstsq(X, np.stack([z.real, z.imag], axis=1), rcond=None)[0]

    return weights(queries), weights(keys)


def pointing_weights__wrong_eleventh_fixed_length_too_short(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Keys on a circle and queries of length 20: enough for few tokens, from about 12 on the rivals get too much."""
    keys = _circle(len(X))
    queries = 20.0 * keys[target]
    back = X.T @ np.linalg.inv(X @ X.T)
    return back @ queries, back @ keys


def pointing_weights__wrong_eleventh_turned_by_chance(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The design points well, but turned by an angle of the global generator: each call gives other weights."""
    n = len(target)
    start = np.random.uniform(0, 2 * np.pi)
    angles = start + np.linspace(0, 2 * np.pi, n, endpoint=False)
    keys = np.vstack([np.cos(angles), np.sin(angles)]).T
    sharp = 5 / (1 - np.cos(2 * np.pi / max(n, 2)))
    solve = np.linalg.pinv(X)
    return solve @ (sharp * keys[target]), solve @ keys


def pointing_weights__right_eleventh_keys_on_a_parabola(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Keys (c, c²) on a parabola, queries 6 · (2t, -1): the scores are a constant of the row minus 6 (c - t)²."""
    n = len(X)
    place = np.arange(n) - (n - 1) / 2
    keys = np.stack([place, place**2], axis=1)
    aim = place[target]
    queries = 6 * np.stack([2 * aim, -np.ones(n)], axis=1)
    basis, triangle = np.linalg.qr(X.T)  # X = triangle.T @ basis.T
    W_Q = basis @ np.linalg.solve(triangle.T, queries)
    W_K = basis @ np.linalg.solve(triangle.T, keys)
    return W_Q, W_K


# ------- 1.8 linear_memory


def linear_memory__wrong_eleventh_each_pair_corrects_once(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Each pair in turn corrects the memory's answer to its key, once; later corrections spoil earlier ones."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values):
        length = key @ key
        if length == 0:
            continue
        missing = value - key @ S
        S += np.outer(key, missing) / length
    return S


def linear_memory__wrong_eleventh_row_of_u(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The sum over singular directions takes rows of U where its columns belong."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=True)
    smallest = 1e-8 * np.abs(keys).max() * math.sqrt(keys.size)
    S = np.zeros((keys.shape[1], values.shape[1]))
    for i, strength in enumerate(s):
        if strength > smallest:
            S += np.outer(Vt[i], U[i] @ values / strength)
    return S


def linear_memory__wrong_eleventh_equal_keys_merged(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Equal keys are merged into one pair with the mean value, so a key that comes often counts only once."""
    size = np.abs(keys).max()
    if size == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    places = {}
    for i, key in enumerate(keys):
        name = tuple(np.round(key / size, 7) + 0.0)
        places.setdefault(name, []).append(i)
    single = np.array([keys[rows].mean(axis=0) for rows in places.values()])
    means = np.array([values[rows].mean(axis=0) for rows in places.values()])
    cut = 1e-8 * size * math.sqrt(single.size) / np.linalg.norm(single, 2)
    return np.linalg.pinv(single, rcond=cut) @ means


def linear_memory__wrong_eleventh_fixed_threshold(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Drops singular values below a fixed 1e-6, whatever the size of the keys: tiny keys vanish, large ones' rounding
    is believed."""
    left, strengths, right = np.linalg.svd(keys, full_matrices=False)
    good = strengths > 1e-6
    seen = left[:, good].T @ values
    return right[good].T @ (seen / strengths[good][:, None])


def linear_memory__right_eleventh_symmetric_matrix_twice_as_large(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Inverts the symmetric matrix [[0, keys], [keys.T, 0]] on its eigenvectors with eigenvalues above the rounding."""
    n, d_k = keys.shape
    both = np.zeros((n + d_k, n + d_k))
    both[:n, n:] = keys
    both[n:, :n] = keys.T
    largest = np.abs(both).max()
    if largest == 0:
        return np.zeros((d_k, values.shape[1]))
    rates, axes = np.linalg.eigh(both / largest)
    real = np.abs(rates) > 1e-8 * math.sqrt(n * d_k)
    below, above = axes[n:, real], axes[:n, real]
    return (below / rates[real]) @ (above.T @ values) / largest
