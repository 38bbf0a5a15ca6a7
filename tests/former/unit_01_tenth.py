"""Unit 1, projections: wrong and right answers as students would write them."""

import math

import numpy as np


# ------- 1.1 embed
def embed__wrong_tenth_one_row_per_distinct_word(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Wrong: a word that occurs several times gets one row only, at its first place."""
    rows = {}
    for token in tokens:
        rows.setdefault(int(token), E[:, token])
    return np.stack(list(rows.values()))


def embed__wrong_tenth_reshaped_not_transposed(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Wrong: the (d_model, n) table is reshaped to (n, d_model) where it should be transposed, which mixes tokens."""
    d_model = E.shape[0]
    n = tokens.shape[0]
    picked = np.take(E, tokens, axis=1)
    return picked.reshape(n, d_model)


def embed__wrong_tenth_flat_index_overflows(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Wrong: flat positions are computed in the dtype of the tokens, so they wrap around for small integer types."""
    d_model, vocab = E.shape
    flat = E.T.ravel()  # word after word
    start = tokens * d_model
    result = np.zeros((len(tokens), d_model), dtype=E.dtype)
    for feature in range(d_model):
        result[:, feature] = flat[start.astype(np.intp) + feature]
    return result


def embed__wrong_tenth_last_word_taken_for_padding(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Wrong: the last word of any vocabulary is assumed to be padding and gets a row of zeros, not its column."""
    vocab = E.shape[1]
    pad = vocab - 1
    one_hot = (tokens[:, None] == np.arange(vocab)).astype(E.dtype)
    one_hot[tokens == pad] = 0
    return one_hot @ E.T


def embed__right_tenth_word_by_word(tokens: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Right: goes through the vocabulary and writes each word's column to all places where the word stands."""
    out = np.empty((tokens.shape[0], E.shape[0]), dtype=E.dtype)
    for word, column in enumerate(E.T):
        out[tokens == word] = column
    return out


# ------- 1.2 soft_lookup
def soft_lookup__wrong_tenth_keys_made_unit_length(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Wrong: the keys are scaled to length 1 first, so that the length of a key has no effect on its score."""
    lengths = np.linalg.norm(keys, axis=1)
    lengths = np.where(lengths > 0, lengths, 1.0)
    match = (keys @ query) / lengths
    match = match - match.max()
    loud = np.exp(match)
    return (loud[:, None] * values).sum(axis=0) / loud.sum()


def soft_lookup__wrong_tenth_running_sum_not_rescaled(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Wrong: when a larger score turns up, the running mixture is rescaled and the running sum of powers is not."""
    best = -np.inf
    total = 0.0
    mixture = np.zeros(values.shape[1])
    for key, value in zip(keys, values):
        score = np.dot(key, query)
        if score > best:
            mixture = mixture * np.exp(best - score)
            best = score
        power = np.exp(score - best)
        total += power
        mixture = mixture + power * value
    return mixture / total


def soft_lookup__wrong_tenth_equal_keys_merged(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Wrong: pairs are kept in a Python dictionary, so of several equal keys only the last value counts, and once."""
    table = {}
    for key, value in zip(keys.tolist(), values):
        table[tuple(key)] = value
    scores = {key: sum(a * b for a, b in zip(key, query)) for key in table}
    top = max(scores.values())
    powers = {key: math.exp(score - top) for key, score in scores.items()}
    total = sum(powers.values())
    return sum(powers[key] / total * table[key] for key in table)


def soft_lookup__wrong_tenth_scores_written_into_keys(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Wrong: the scores are added up in a view of the first column of keys, so the caller's keys are changed."""
    scores = keys[:, 0]
    scores *= query[0]
    for f in range(1, len(query)):
        scores += query[f] * keys[:, f]
    powers = np.exp(scores - np.max(scores))
    weights = powers / powers.sum()
    return np.einsum("n,nv->v", weights, values)


def soft_lookup__right_tenth_halves_merged(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Right: divide and conquer; each half gives its largest score, sum and mixture, and two halves are merged."""

    def look(low, high):
        if high - low == 1:
            return float(scores[low]), 1.0, values[low]
        middle = (low + high) // 2
        top_a, total_a, mix_a = look(low, middle)
        top_b, total_b, mix_b = look(middle, high)
        top = max(top_a, top_b)
        a, b = math.exp(top_a - top), math.exp(top_b - top)
        return top, a * total_a + b * total_b, a * mix_a + b * mix_b

    scores = keys @ query
    _, total, mixture = look(0, len(scores))
    return mixture / total


# ------- 1.3 project_qkv
def project_qkv__wrong_tenth_queries_scaled(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: the queries are divided by the root of d_k, which belongs to the scores of unit 2 and not here."""
    d_k = W_Q.shape[1]
    Q = np.tensordot(X, W_Q, axes=(1, 0)) * d_k**-0.5
    K = np.tensordot(X, W_K, axes=(1, 0))
    V = np.tensordot(X, W_V, axes=(1, 0))
    return Q, K, V


def project_qkv__wrong_tenth_features_counted_by_tokens(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: the sum over features runs over as many features as there are tokens (shape[0] in place of shape[1])."""

    def project(W):
        result = np.zeros((len(X), W.shape[1]))
        for f in range(X.shape[0]):
            result += np.outer(X[:, f], W[f])
        return result

    return project(W_Q), project(W_K), project(W_V)


def project_qkv__wrong_tenth_split_in_three_equal_parts(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: one joint product is cut into three parts of equal width, which is right only if d_v equals d_k."""
    joint = X @ np.concatenate((W_Q, W_K, W_V), axis=1)
    Q, K, V = np.array_split(joint, 3, axis=1)
    return Q, K, V


def _kept_table(name, shape, store={}):  # noqa: B006
    """A table to write results to, made once for each name and shape."""
    if (name, shape) not in store:
        store[name, shape] = np.empty(shape)
    return store[name, shape]


def project_qkv__wrong_tenth_same_tables_at_every_call(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: the results are written to tables that are used again, so a later call changes what was returned."""
    made = []
    for name, W in (("Q", W_Q), ("K", W_K), ("V", W_V)):
        table = _kept_table(name, (X.shape[0], W.shape[1]))
        np.matmul(X, W, out=table)
        made.append(table)
    return tuple(made)


def project_qkv__right_tenth_weighted_rows_added(
    X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right: multiplies each row of W by the token's entry in a table of three axes and adds up over the features."""
    spread = X[:, :, None]  # (n, d_model, 1)
    return tuple(np.add.reduce(spread * W[None, :, :], axis=1) for W in (W_Q, W_K, W_V))


# ------- 1.4 project_token
def project_token__wrong_tenth_pseudo_inverse_for_transpose(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: to bring the weights to the other side it takes their (pseudo-)inverse and not their transpose."""
    q, k, v = (x @ np.linalg.pinv(W) for W in (W_Q, W_K, W_V))
    return q, k, v


def project_token__wrong_tenth_wrong_letter_kept(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: the einsum keeps the letter of d_model and sums over the features of the head."""
    rule = "hd,d->d"
    return np.einsum(rule, W_Q, x), np.einsum(rule, W_K, x), np.einsum(rule, W_V, x)


def project_token__wrong_tenth_value_as_wide_as_query(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: the value gets d_head entries, too: cut off where d_v is larger, an IndexError where it is smaller."""
    d_head, d_model = W_Q.shape
    q, k, v = np.zeros(d_head), np.zeros(d_head), np.zeros(d_head)
    for h in range(d_head):
        for d in range(d_model):
            q[h] += W_Q[h, d] * x[d]
            k[h] += W_K[h, d] * x[d]
            v[h] += W_V[h, d] * x[d]
    return q, k, v


def project_token__wrong_tenth_argument_becomes_a_column(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wrong: the caller's x itself is given the form of a column of shape (d_model, 1) and stays one."""
    x.shape = (len(x), 1)
    return tuple((W @ x).ravel() for W in (W_Q, W_K, W_V))


def project_token__right_tenth_columns_stacked(
    x: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right: stacks the three matrices, adds up their columns times the entries of x, and cuts the result in three."""
    stacked = np.concatenate([W_Q, W_K, W_V], axis=0)
    total = np.zeros(len(stacked), dtype=np.result_type(stacked, x))
    for entry, column in zip(x, stacked.T):
        total = total + entry * column
    first = len(W_Q)
    second = first + len(W_K)
    return total[:first].copy(), total[first:second].copy(), total[second:].copy()


# ------- 1.5 low_rank_value
def low_rank_value__wrong_tenth_token_added(X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray) -> np.ndarray:
    """Wrong: the message comes already added to the token's vector."""
    message = np.zeros_like(X)
    for i, token in enumerate(X):
        message[i] = W_V_up.T @ (W_V_down.T @ token)
    return X + message


def low_rank_value__wrong_tenth_einsum_keeps_input_letter(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Wrong: the einsum returns the axis that goes in (d) and sums over the one that should come out (e)."""
    return np.einsum("nd,dh,he->nd", X, W_V_down, W_V_up)


def low_rank_value__wrong_tenth_last_block_missing(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Wrong: tokens are worked on in blocks of 4, and with more than 4 tokens an incomplete last block stays 0."""
    block = 4
    n = X.shape[0]
    out = np.zeros(X.shape)
    for b in range(max(1, n // block)):
        part = slice(b * block, (b + 1) * block)
        out[part] = X[part] @ W_V_down @ W_V_up
    return out


def low_rank_value__wrong_tenth_result_over_the_tokens(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Wrong: the result, as large as X, is written into the caller's X."""
    narrow = np.dot(X, W_V_down)
    np.dot(narrow, W_V_up, out=X)
    return X


def low_rank_value__right_tenth_sum_of_rank_one_maps(
    X: np.ndarray, W_V_down: np.ndarray, W_V_up: np.ndarray
) -> np.ndarray:
    """Right: adds one map of rank one for each of the d_head features."""
    result = np.zeros((X.shape[0], W_V_up.shape[1]), dtype=np.result_type(X, W_V_down, W_V_up))
    for into, out_of in zip(W_V_down.T, W_V_up):
        result += np.outer(X @ into, out_of)
    return result


# ------- 1.6 attention_parameters
def attention_parameters__wrong_tenth_one_up_matrix_per_layer(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Wrong: the value-up matrix is counted once in a layer, as if all its heads shared it."""
    matrix = d_model * d_head
    own = {"query": matrix, "key": matrix, "value_down": matrix}
    layer = n_heads * sum(own.values())
    layer += matrix  # the way back up
    return n_layers * layer


def attention_parameters__wrong_tenth_layer_count_not_reset(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Wrong: the count of a layer is not set back to 0, so each further layer also counts the ones before it again."""
    total = 0
    in_layer = 0
    for _ in range(n_layers):
        for _ in range(n_heads):
            for rows, columns in [(d_model, d_head)] * 3 + [(d_head, d_model)]:
                in_layer += rows * columns
        total += in_layer
    return total


def attention_parameters__wrong_tenth_64_bits_overflow(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Wrong: the product is taken in 64-bit integers of NumPy, which wrap around silently from 2**63 on."""
    kinds = 4
    return int(np.prod([kinds, d_model, d_head, n_heads, n_layers]))


def attention_parameters__wrong_tenth_biases_counted(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    """Wrong: each matrix is counted with a bias, one number more for each of its outputs."""

    def linear(n_in, n_out):
        return (n_in + 1) * n_out

    head = 3 * linear(d_model, d_head) + linear(d_head, d_model)
    return head * n_heads * n_layers


def attention_parameters__right_tenth_difference_of_squares(
    d_model: int, d_head: int, n_heads: int, n_layers: int
) -> int:
    """Right: four products of a and b are (a + b)² - (a - b)², in Python's exact integers, times heads and layers."""
    a, b = int(d_model), int(d_head)
    one_head = (a + b) ** 2 - (a - b) ** 2
    return one_head * int(n_heads) * int(n_layers)


# ------- 1.7 pointing_weights
def pointing_weights__wrong_tenth_best_rank_two_of_wanted_scores(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Wrong: takes the best rank-2 approximation of a one-hot table of scores, which does not keep the largest."""
    n = len(X)
    wanted = np.zeros((n, n))
    wanted[np.arange(n), target] = 40.0
    u, s, vt = np.linalg.svd(wanted)
    Q, K = np.zeros((n, 2)), np.zeros((n, 2))
    for r in range(min(2, n)):
        Q[:, r] = u[:, r] * np.sqrt(s[r])
        K[:, r] = vt[r] * np.sqrt(s[r])
    back = np.linalg.pinv(X)
    return back @ Q, back @ K


def pointing_weights__wrong_tenth_circle_closed_twice(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Wrong: the angles run from 0 to 2π with both ends, so the first and the last key are the same point."""
    n = X.shape[0]
    turn = np.linspace(0, 2 * np.pi, n)
    circle = np.exp(1j * turn)
    K = np.stack([circle.real, circle.imag], axis=1)
    Q = 300 * K[target]
    W_K, *_ = np.linalg.lstsq(X, K, rcond=None)
    W_Q, *_ = np.linalg.lstsq(X, Q, rcond=None)
    return W_Q, W_K


def pointing_weights__wrong_tenth_fixed_ridge(X: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wrong: a fixed 1e-6 is added to the diagonal of X Xᵀ, which spoils the weights of tokens with small entries."""
    n, _ = X.shape
    angle = 2 * np.pi * np.arange(n) / n
    points = np.column_stack((np.sin(angle), np.cos(angle)))
    gram = X @ X.T + 1e-6 * np.eye(n)
    W_K = X.T @ np.linalg.solve(gram, points)
    W_Q = X.T @ np.linalg.solve(gram, 250.0 * points[target])
    return W_Q, W_K


def pointing_weights__wrong_tenth_random_start_of_circle(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Wrong: the circle begins at an angle drawn from the global generator, so every call gives other weights."""
    n = len(target)
    start = np.random.uniform(0, 2 * np.pi)
    K = np.empty((n, 2))
    for j in range(n):
        K[j] = np.cos(start + 2 * np.pi * j / n), np.sin(start + 2 * np.pi * j / n)
    solve = np.linalg.pinv(X)
    return solve @ (200 * K[target]), solve @ K


def pointing_weights__right_tenth_keys_on_a_parabola(
    X: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Right: keys lie on a parabola, so that the score of j is 8 times (t² - (j - t)²), largest at the target t."""
    n = X.shape[0]
    place = np.arange(n) - (n - 1) / 2
    K = np.stack([place, -(place**2)], axis=1)
    Q = 8.0 * np.stack([2 * place[target], np.ones(n)], axis=1)
    basis, triangle = np.linalg.qr(X.T)  # X = triangle.T @ basis.T
    W = basis @ np.linalg.solve(triangle.T, np.concatenate([Q, K], axis=1))
    return W[:, :2].copy(), W[:, 2:].copy()


# ------- 1.8 linear_memory
def _inverse_above(keys, cut):
    """The pseudo-inverse of the keys without the singular values up to cut."""
    u, s, vt = np.linalg.svd(keys, full_matrices=False)
    keep = s > cut
    return (vt[keep].T / s[keep]) @ u[:, keep].T


def linear_memory__wrong_tenth_corrected_in_one_pass(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Wrong: each pair corrects the memory once, in order, so later pairs spoil earlier ones not orthogonal to them."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values):
        size = key @ key
        if size > 0:
            miss = value - key @ S
            S += np.outer(key, miss) / size
    return S


def linear_memory__wrong_tenth_cutoff_from_values(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Wrong: what counts as rounding is measured by the largest entry of the values and not of the keys."""
    rounding = 1e-8 * np.abs(values).max() * np.sqrt(keys.size)
    u, s, vt = np.linalg.svd(keys, full_matrices=False)
    S = np.zeros((keys.shape[1], values.shape[1]))
    for left, strength, right in zip(u.T, s, vt):
        if strength > rounding:
            S += np.outer(right, left @ values) / strength
    return S


def linear_memory__wrong_tenth_repeated_keys_count_once(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Wrong: equal keys are merged to one with their mean value, which then counts once and not as often as it came."""
    largest = np.abs(keys).max()
    if largest == 0:
        return np.zeros((keys.shape[1], values.shape[1]))
    _, group = np.unique(np.round(keys / (1e-7 * largest)), axis=0, return_inverse=True)
    group = group.ravel()
    some_keys, some_values = [], []
    for g in range(group.max() + 1):
        some_keys.append(keys[group == g].mean(axis=0))
        some_values.append(values[group == g].mean(axis=0))
    some_keys, some_values = np.array(some_keys), np.array(some_values)
    return _inverse_above(some_keys, 1e-8 * largest * np.sqrt(keys.size)) @ some_values


def linear_memory__wrong_tenth_spare_features_left_out(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Wrong: features that depend on earlier ones get rows of zeros: a best memory, not that of least entries."""
    limit = 1e-8 * np.abs(keys).max() * np.sqrt(keys.size)
    used, directions = [], []
    for f in range(keys.shape[1]):
        rest = keys[:, f].copy()
        for direction in directions + directions:
            rest -= (direction @ rest) * direction
        length = np.linalg.norm(rest)
        if length > limit:
            used.append(f)
            directions.append(rest / length)
    S = np.zeros((keys.shape[1], values.shape[1]))
    if used:
        S[used] = np.linalg.lstsq(keys[:, used], values, rcond=None)[0]
    return S


def linear_memory__right_tenth_eigenvectors_of_a_symmetric_table(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Right: eigenvalues of the symmetric table with K and Kᵀ off the diagonal are ± the singular values of K."""
    n, d_k = keys.shape
    keys = np.asarray(keys, dtype=np.float64)
    largest = np.abs(keys).max()
    if largest == 0:
        return np.zeros((d_k, values.shape[1]))
    table = np.zeros((n + d_k, n + d_k))
    table[:n, n:] = keys / largest
    table[n:, :n] = table[:n, n:].T
    sizes, vectors = np.linalg.eigh(table)
    real = sizes > 1.01e-8 * np.sqrt(n * d_k)
    of_pairs, of_features = vectors[:n, real], vectors[n:, real]
    heard = of_pairs.T @ values / sizes[real][:, None]
    return 2 * of_features @ heard / largest
