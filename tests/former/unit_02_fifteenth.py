import copy
import math

import numpy as np

_scores_kept = {}


def _attention_scores(Q, K):
    return Q @ K.T


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scaled_scores(Q, K):
    return Q @ K.T / Q.shape[1] ** 0.5


def _attention(Q, K, V):
    weights = _softmax(_scaled_scores(Q, K))
    return weights @ V, weights


# 2.1 attention_scores


def attention_scores__wrong_fifteenth_cosine_of_the_angle(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Brings all queries and keys to length 1 first; the plain dot products are due."""
    q_len = np.linalg.norm(Q, axis=1, keepdims=True)
    k_len = np.linalg.norm(K, axis=1, keepdims=True)
    q_unit = Q / np.where(q_len > 0, q_len, 1)
    k_unit = K / np.where(k_len > 0, k_len, 1)
    return q_unit @ k_unit.T


def attention_scores__wrong_fifteenth_keys_reshaped(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Makes K fit with reshape, which reads its rows on; its axes must be swapped."""
    n, width = Q.shape
    m = K.shape[0]
    keys_as_columns = K.reshape(width, m)
    scores = Q @ keys_as_columns
    assert scores.shape == (n, m)
    return scores


def attention_scores__wrong_fifteenth_nearness_for_fit(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the negative squared distance as the fit of query and key; the dot product is due."""
    apart = Q[:, np.newaxis, :] - K[np.newaxis, :, :]
    return -np.square(apart).sum(axis=-1)


def attention_scores__wrong_fifteenth_last_feature_left_out(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Adds up the features from 0 to d_k - 2; the sum goes to d_k - 1."""
    n, d_k = Q.shape
    S = np.zeros((n, len(K)))
    for c in range(d_k - 1):
        S += np.outer(Q[:, c], K[:, c])
    return S


def attention_scores__wrong_fifteenth_summed_over_the_keys(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """All products (n, m, d_k) are there, and the keys are summed; the features, the last axis, should be."""
    products = Q[:, None] * K[None]
    return products.sum(axis=1)


def attention_scores__wrong_fifteenth_a_row_per_key(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Returns a table with one row per key and one column per query; (n, m) is due."""
    return np.einsum("ic,jc->ji", Q, K)


def attention_scores__wrong_fifteenth_first_product_that_fits(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Transposes K only if Q @ K fails, so not when m equals d_k; K.T is due always."""
    try:
        return Q @ K
    except ValueError:
        return Q @ K.T


def attention_scores__wrong_fifteenth_table_kept_between_calls(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Writes into a table kept for each size, so a later call changes older results; a new array is due."""
    size = len(Q), len(K)
    if size not in _scores_kept:
        _scores_kept[size] = np.empty(size)
    table = _scores_kept[size]
    for i, query in enumerate(Q):
        table[i] = K @ query
    return table


def attention_scores__right_fifteenth_corner_of_a_gram_table(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """All vectors with all vectors in one symmetric table, and from it the corner of queries by keys."""
    everybody = np.vstack((Q, K))
    gram = everybody @ everybody.T
    n = Q.shape[0]
    return gram[:n, n:].copy()


# 2.2 softmax


def softmax__wrong_fifteenth_clipped_in_place_of_shifted(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Clips the scores to where exp is finite, so large ones look alike; a shift of each row is due."""
    tame = np.clip(z, -700.0, 700.0)
    powers = np.exp(tame)
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_fifteenth_no_exponential(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts the scores above 0 and shares them out in proportion; their exponentials should be shared out."""
    above = z - z.min(axis=axis, keepdims=True) + 1.0
    return above / above.sum(axis=axis, keepdims=True)


def softmax__wrong_fifteenth_one_shift_for_the_array(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts everything by the largest entry of the whole array; each row needs the shift of its own largest."""
    shifted = z - np.max(z)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    return np.exp(shifted) / total


def softmax__wrong_fifteenth_swapped_there_moved_back(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Swaps the axis to the end and moves it back, which differs with three axes; swap it back."""
    last = np.swapaxes(z, axis, -1)
    powers = np.exp(last - last.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return np.moveaxis(weights, -1, axis)


def softmax__wrong_fifteenth_sum_ignores_the_axis(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """The maximum runs along axis, the sum along the last one; both should run along axis."""
    c = z.max(axis=axis, keepdims=True)
    e = np.exp(z - c)
    return e / e.sum(-1, keepdims=True)


def softmax__wrong_fifteenth_axis_is_what_stays(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Reads axis as the one that is kept and sums over all others; the sum along axis itself is due."""
    kept = axis % z.ndim
    others = tuple(a for a in range(z.ndim) if a != kept)
    powers = np.exp(z - z.max(axis=others, keepdims=True))
    return powers / powers.sum(axis=others, keepdims=True)


def softmax__wrong_fifteenth_plain_formula_up_to_709(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts only if some entry is beyond 709, but sums (and float32) overflow sooner; shift always."""
    if np.abs(z).max() < 709:
        powers = np.exp(z)
    else:
        powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_fifteenth_asarray_taken_for_a_copy(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Works in place on np.asarray(z), which is the caller's own array; a copy is due."""
    work = np.asarray(z, dtype=np.float64)
    work -= work.max(axis=axis, keepdims=True)
    np.exp(work, out=work)
    work /= work.sum(axis=axis, keepdims=True)
    return work


def softmax__right_fifteenth_powers_of_two_and_a_norm(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """The top of each row by sorting, powers of 2 in place of e, divided by the 1-norm."""
    top = np.take(np.sort(z, axis=axis), [-1], axis=axis)
    powers = np.exp2((z - top) / math.log(2))
    return powers / np.linalg.norm(powers, ord=1, axis=axis, keepdims=True)


# 2.3 derivation_terms


def derivation_terms__wrong_fifteenth_each_pair_once(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Counts the pairs above the diagonal alone; ordered pairs are due, each counts twice."""
    t = q * k
    d = t.shape[1]
    diagonal = np.mean(np.sum(t**2, axis=1))
    above = [t[:, i] * t[:, j] for i in range(d) for j in range(i + 1, d)]
    cross = float(np.mean(np.sum(above, axis=0)))
    return float(diagonal), cross


def derivation_terms__wrong_fifteenth_expectations_split(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Splits the means of products into products of means as step 3 does; they must be measured unsplit."""
    diagonal = (q**2).mean(axis=0) @ (k**2).mean(axis=0)
    single = q.mean(axis=0) * k.mean(axis=0)
    table = np.outer(single, single)
    cross = table.sum() - np.trace(table)
    return diagonal, cross


def derivation_terms__wrong_fifteenth_covariance_table(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes trace and rest of the covariances of the terms; plain means of products, nothing subtracted, are due."""
    t = q * k
    centred = t - t.mean(axis=0)
    table = centred.T @ centred / len(t)
    on = np.trace(table)
    return on, table.sum() - on


def derivation_terms__wrong_fifteenth_divided_by_features(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Divides the table of products by the number of features; by that of the samples is due."""
    t = q * k
    table = t.T @ t / t.shape[1]
    diagonal = np.trace(table)
    cross = table.sum() - diagonal
    return diagonal, cross


def derivation_terms__wrong_fifteenth_key_index_mixed_up(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """In the cross terms k_i stands twice; q_i k_i q_j k_j is due."""
    samples, d = q.shape
    diagonal = cross = 0.0
    for i in range(d):
        for j in range(d):
            if i == j:
                diagonal += ((q[:, i] * k[:, i]) ** 2).sum() / samples
            else:
                cross += (q[:, i] * k[:, i] * q[:, j] * k[:, i]).sum() / samples
    return diagonal, cross


def derivation_terms__wrong_fifteenth_second_is_the_total(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Returns the diagonal and the whole mean of s²; the cross part alone is due."""
    terms = np.einsum("ri,ri->ri", q, k)
    diagonal = np.einsum("ri,ri->", terms, terms) / len(terms)
    both = np.einsum("ri,rj->", terms, terms) / len(terms)
    return diagonal, both


def derivation_terms__wrong_fifteenth_longer_axis_is_samples(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes the longer axis for the samples, wrong with fewer samples than features; rows are samples always."""
    t = q * k
    if t.shape[0] < t.shape[1]:
        t = t.T
    squares = (t * t).sum(axis=1)
    scores = t.sum(axis=1)
    return squares.mean(), (scores**2 - squares).mean()


def derivation_terms__wrong_fifteenth_terms_written_into_q(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Right numbers, but the terms are written over the caller's q; a new array is due."""
    terms = q
    terms *= k
    diagonal = np.sum(terms * terms, axis=1).mean()
    cross = np.square(terms.sum(axis=1)).mean() - diagonal
    return diagonal, cross


def derivation_terms__right_fifteenth_terms_rolled_past_themselves(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Rolls the terms along the features: shift 0 gives the diagonal, all other shifts the ordered pairs."""
    t = np.multiply(q, k)
    samples, d = t.shape
    by_shift = [np.vdot(t, np.roll(t, r, axis=1)) / samples for r in range(d)]
    return float(by_shift[0]), float(math.fsum(by_shift[1:]))


# 2.4 dot_product_moments


def dot_product_moments__wrong_fifteenth_average_of_the_variances(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Counts the average of the two variances d times; their product is due."""
    per_term = (var_q + var_k) / 2
    return 0.0, d * per_term


def dot_product_moments__wrong_fifteenth_all_products_count(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds d(d - 1) cross terms of the same size to the d squares; the cross terms vanish."""
    square = var_q * var_k
    diagonal = d * square
    cross = d * (d - 1) * square
    return 0.0, diagonal + cross


def dot_product_moments__wrong_fifteenth_standard_deviations_multiplied(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Multiplies the standard deviations into the variance; the variances themselves are due."""
    sigma_q, sigma_k = math.sqrt(var_q), math.sqrt(var_k)
    return 0.0, d * sigma_q * sigma_k


def dot_product_moments__wrong_fifteenth_var_q_twice(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """A name mixed up: var_q stands twice, and var_k is due for one of them."""
    mean = 0.0
    variance = d * var_q * var_q
    return mean, variance


def dot_product_moments__wrong_fifteenth_one_term_short(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds up the terms 1 to d - 1; there are d of them, counted from 0."""
    mean, variance = 0.0, 0.0
    for _ in range(1, d):
        mean += 0.0 * 0.0
        variance += var_q * var_k
    return mean, variance


def dot_product_moments__wrong_fifteenth_spread_not_variance(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Returns mean and standard deviation; the variance is due."""
    return 0.0, (d * var_q * var_k) ** 0.5


def dot_product_moments__wrong_fifteenth_rounded_to_four_places(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Rounds for nice printing, so small variances become 0 or coarse; the unrounded number is due."""
    variance = np.round(d * var_q * var_k, 4)
    return 0.0, float(variance)


def dot_product_moments__wrong_fifteenth_checks_itself_by_drawing(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """The formula is right, and compared with draws from the global generator; nothing may be drawn."""
    variance = d * var_q * var_k
    q = np.random.normal(0.0, var_q**0.5, (500, d))
    k = np.random.normal(0.0, var_k**0.5, (500, d))
    measured = (q * k).sum(axis=1).var()
    if variance > 0 and not 0.2 < measured / variance < 5:
        print("measured and derived variance are far apart:", measured, variance)
    return 0.0, variance


def dot_product_moments__right_fifteenth_two_rows_of_variances(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """The variances of all features as two vectors; the variance of the score is their own dot product."""
    variances = np.ones((2, d)) * np.array([[var_q], [var_k]], dtype=float)
    return np.float64(0), variances.prod(axis=0).sum()


# 2.5 scaled_scores


def scaled_scores__wrong_fifteenth_divided_by_measured_spread(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the standard deviation that the scores happen to have; the root of d_k is due."""
    scores = Q @ K.T
    spread = scores.std()
    return scores / spread if spread > 0 else scores


def scaled_scores__wrong_fifteenth_both_sides_by_the_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides queries and keys by the root each, so scores by d_k; one root in all is due."""
    root = np.sqrt(Q.shape[1])
    return _attention_scores(Q / root, K / root)


def scaled_scores__wrong_fifteenth_root_of_key_count(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the root of the number of keys that a query meets; the root of the width is due."""
    n_keys = K.shape[0]
    return np.dot(Q, K.T) / math.sqrt(n_keys)


def scaled_scores__wrong_fifteenth_whole_root_only(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the integer root, right for square numbers alone; the real root is due."""
    return Q @ K.T / math.isqrt(K.shape[-1])


def scaled_scores__wrong_fifteenth_divided_at_each_feature(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The division has slipped into the loop and hits the partial sum each time; divide once, after it."""
    n, d = Q.shape
    m = K.shape[0]
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            total = 0.0
            for c in range(d):
                total += Q[i, c] * K[j, c]
                total /= d**0.5
            S[i, j] = total
    return S


def scaled_scores__wrong_fifteenth_softmax_already(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Goes on to the weights; the scaled scores are due, before the softmax."""
    scores = np.einsum("nd,md->nm", Q, K) / Q.shape[1] ** 0.5
    return _softmax(scores)


def scaled_scores__wrong_fifteenth_square_table_mirrored(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """With as many queries as keys it computes one half and mirrors it; the table is not symmetric."""
    n, d_k = Q.shape
    m = K.shape[0]
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            if n == m and j < i:
                S[i, j] = S[j, i]
            else:
                S[i, j] = Q[i] @ K[j] / np.sqrt(d_k)
    return S


def scaled_scores__wrong_fifteenth_divides_and_multiplies_back(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Scales the caller's Q in place and undoes it, up to rounding; the inputs must not be touched."""
    root = Q.shape[1] ** 0.5
    Q /= root
    scores = Q @ K.T
    Q *= root
    return scores


def scaled_scores__right_fifteenth_mean_times_the_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """A sum over d features divided by √d is their mean times √d."""
    products = Q[:, None, :] * K[None, :, :]
    return products.mean(axis=2) * math.sqrt(products.shape[2])


# 2.6 score_statistics


def score_statistics__wrong_fifteenth_variance_by_the_root(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides mean and variance by √d if scaled; the variance of scaled scores is d times smaller."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    factor = d**0.5 if scaled else 1.0
    return s.mean() / factor, s.var() / factor


def score_statistics__wrong_fifteenth_mean_taken_as_zero(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Takes the mean of s² for the variance, as if the measured mean were 0; subtract the measured mean."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rc,rc->r", q, k)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), (s**2).sum() / n_samples


def score_statistics__wrong_fifteenth_variances_of_terms_added(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Adds up the measured variances of the d terms; that of the scores holds their covariances, too."""
    q, k = (rng.standard_normal((n_samples, d)) for _ in range(2))
    terms = q * k
    if scaled:
        terms = terms / d**0.5
    mean = terms.mean(axis=0).sum()
    variance = terms.var(axis=0).sum()
    return mean, variance


def score_statistics__wrong_fifteenth_query_and_key_in_one_row(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws rows of 2d numbers and cuts them in two; all of q comes first, then all of k."""
    both = rng.standard_normal((n_samples, 2 * d))
    q, k = both[:, :d], both[:, d:]
    s = (q * k).sum(axis=-1)
    if scaled:
        s /= math.sqrt(d)
    return float(s.mean()), float(s.var())


def score_statistics__wrong_fifteenth_root_of_sample_count(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """The root is that of the number of samples, len(q); that of d is due."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.sum(q * k, axis=1)
    if scaled:
        s = s / len(q) ** 0.5
    return np.mean(s), np.var(s)


def score_statistics__wrong_fifteenth_unbiased_variance(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides by n_samples - 1 (and gives 0 for one sample); the biased variance is due."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.array([a @ b for a, b in zip(q, k, strict=True)])
    if scaled:
        s = s / d**0.5
    mean = s.sum() / n_samples
    variance = ((s - mean) ** 2).sum() / max(n_samples - 1, 1)
    return mean, variance


def score_statistics__wrong_fifteenth_drawn_in_blocks_of_5000(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws q and k by turns in blocks, another order beyond 5000 samples; all of q comes in one call."""
    pieces = []
    for start in range(0, n_samples, 5000):
        count = min(5000, n_samples - start)
        q = rng.standard_normal((count, d))
        k = rng.standard_normal((count, d))
        pieces.append((q * k).sum(axis=1))
    s = np.concatenate(pieces)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var(ddof=0)


def score_statistics__wrong_fifteenth_generator_copied(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws from a copy, to leave the generator as it was; it must be drawn from itself."""
    own = copy.deepcopy(rng)
    q = own.standard_normal((n_samples, d))
    k = own.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1) / (d**0.5 if scaled else 1.0)
    return s.mean(), s.var()


def score_statistics__right_fifteenth_filled_arrays_and_cov(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Fills two empty arrays, scales the queries before the product, and asks np.cov for the biased variance."""
    q, k = np.empty((n_samples, d)), np.empty((n_samples, d))
    rng.standard_normal(out=q)
    rng.standard_normal(out=k)
    q *= d**-0.5 if scaled else 1.0
    s = np.matmul(q[:, None, :], k[:, :, None]).ravel()
    return np.average(s), float(np.cov(s, bias=True))


# 2.7 attention


def attention__wrong_fifteenth_shared_out_among_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The softmax runs along the queries, so columns sum to 1; along the keys is due."""
    scores = Q @ K.T / np.sqrt(K.shape[1])
    e = np.exp(scores - scores.max(axis=0))
    weights = e / e.sum(axis=0)
    return weights @ V, weights


def attention__wrong_fifteenth_output_divided_not_scores(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Softmax of plain scores, and the output is divided by the root; it belongs inside the softmax."""
    weights = _softmax(_attention_scores(Q, K))
    output = weights @ V
    return output / Q.shape[1] ** 0.5, weights


def attention__wrong_fifteenth_winner_takes_all(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets the output be made by the best key of each query alone; all values are mixed by the weights."""
    weights = _softmax(_scaled_scores(Q, K), axis=-1)
    output = np.array([V[row.argmax()] for row in weights])
    return output, weights


def attention__wrong_fifteenth_scores_mix_the_values(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A name mixed up: the scaled scores are multiplied with V; the weights should be."""
    a = _scaled_scores(Q, K)
    w = _softmax(a)
    output = a @ V
    return output, w


def attention__wrong_fifteenth_scaled_a_second_time(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the scores of scaled_scores by the root once more; they are scaled already."""
    d_k = Q.shape[-1]
    scores = _scaled_scores(Q, K)
    weights = _softmax(scores / d_k**0.5)
    return np.einsum("nm,mv->nv", weights, V), weights


def attention__wrong_fifteenth_scores_handed_back(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The second result is the table of scaled scores; the weights are due."""
    scores = _scaled_scores(Q, K)
    return _softmax(scores) @ V, scores


def attention__wrong_fifteenth_shares_of_the_whole_table_first(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Softmax of the whole table, then each row to sum 1: 0/0 if rows lie far apart; each row its own shift."""
    scores = Q @ K.T / math.sqrt(Q.shape[1])
    table = _softmax(scores.ravel()).reshape(scores.shape)
    weights = table / table.sum(axis=1, keepdims=True)
    return weights @ V, weights


def attention__wrong_fifteenth_weights_in_single_precision(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Keeps the weights in float32 to save memory; for float64 inputs float64 is due."""
    weights = np.empty((len(Q), len(K)), dtype=np.float32)
    output = np.empty((len(Q), V.shape[1]))
    for i, q in enumerate(Q):
        row = _softmax(K @ q / len(q) ** 0.5)
        weights[i] = row
        output[i] = row @ V
    return output, weights


def attention__right_fifteenth_values_with_a_column_of_ones(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A column of ones beside V collects the sums of the exponentials in the same product as the output."""
    scores = np.inner(Q, K) * Q.shape[1] ** -0.5
    powers = np.exp(scores - np.amax(scores, axis=1)[:, None])
    wide = powers @ np.column_stack((V, np.ones(len(V))))
    sums = wide[:, -1:]
    return wide[:, :-1] / sums, powers / sums


# 2.8 softmax_jacobian


def softmax_jacobian__wrong_fifteenth_loss_shared_evenly(p: np.ndarray) -> np.ndarray:
    """What one weight gains is taken from the others evenly; they lose in proportion to themselves."""
    m = len(p)
    gain = p * (1 - p)
    J = np.zeros((m, m))
    for j in range(m):
        J[:, j] = -gain[j] / max(m - 1, 1)
        J[j, j] = gain[j]
    return J


def softmax_jacobian__wrong_fifteenth_own_scores_only(p: np.ndarray) -> np.ndarray:
    """Only each weight by its own score, zeros elsewhere; the others move, too, by -p_i p_j."""
    return np.diag(p * (1.0 - p))


def softmax_jacobian__wrong_fifteenth_slopes_of_the_logarithm(p: np.ndarray) -> np.ndarray:
    """Derives the logarithms of the weights, δ_ij - p_j; times p_i is missing."""
    m = p.shape[0]
    return np.eye(m) - np.tile(p, (m, 1))


def softmax_jacobian__wrong_fifteenth_squares_broadcast(p: np.ndarray) -> np.ndarray:
    """p * p is a vector and is subtracted from every row; the table of all products is due."""
    return np.diag(p) - p * p.T


def softmax_jacobian__wrong_fifteenth_parentheses_missing(p: np.ndarray) -> np.ndarray:
    """Reads p_i δ_ij - p_j; with parentheses, p_i (δ_ij - p_j), it would be right."""
    m = len(p)
    J = np.empty((m, m))
    for i in range(m):
        for j in range(m):
            J[i, j] = p[i] * (i == j) - p[j]
    return J


def softmax_jacobian__wrong_fifteenth_takes_p_for_scores(p: np.ndarray) -> np.ndarray:
    """Sends p through a softmax first, as if scores were given; p holds the weights already."""
    a = _softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_fifteenth_divides_by_the_weights(p: np.ndarray) -> np.ndarray:
    """Takes p_i p_j (δ_ij / p_i - 1), which is 0 · ∞ for a weight of 0; zeros are due there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        both = p[:, None] * p[None, :]
        return both * (np.diag(1 / p) - 1)


def softmax_jacobian__wrong_fifteenth_p_used_up(p: np.ndarray) -> np.ndarray:
    """Right table, but p (1 - p) is computed inside the caller's p; a new array is due."""
    J = -np.outer(p, p)
    p -= p**2
    np.fill_diagonal(J, p)
    return J


def softmax_jacobian__right_fifteenth_flow_between_pairs(p: np.ndarray) -> np.ndarray:
    """Weight flows between each pair at the rate p_i p_j; what leaves all others arrives on the diagonal."""
    flow = np.multiply.outer(p, p)
    np.fill_diagonal(flow, 0)
    J = 0.0 - flow
    J[np.diag_indices(p.size)] = flow.sum(axis=1)
    return J


# 2.9 attention_backward


def attention_backward__wrong_fifteenth_each_weight_by_own_score(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Goes back through the softmax by a(1 - a) alone; a score moves all weights of its row."""
    root = Q.shape[1] ** 0.5
    A = _softmax(Q @ K.T / root)
    dA = d_output @ V.T
    dS = dA * A * (1 - A)
    return dS @ K / root, dS.T @ Q / root, A.T @ d_output


def attention_backward__wrong_fifteenth_plain_mean_subtracted(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the plain mean of the slopes of each row; the mean with the weights is due."""
    root = np.sqrt(K.shape[1])
    _, weights = _attention(Q, K, V)
    d_weights = d_output @ V.T
    d_scores = weights * (d_weights - d_weights.mean(axis=1, keepdims=True))
    d_plain = d_scores / root
    return d_plain @ K, d_plain.T @ Q, weights.T @ d_output


def attention_backward__wrong_fifteenth_shares_of_queries_averaged(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Averages what the queries report to a key and to a value; their shares add up."""
    n, d_k = Q.shape
    A = _softmax(_scaled_scores(Q, K))
    dA = np.einsum("nv,mv->nm", d_output, V)
    dS = A * (dA - np.einsum("nm,nm->n", A, dA)[:, None]) / d_k**0.5
    dQ = np.einsum("nm,md->nd", dS, K)
    dK = (dS[:, :, None] * Q[:, None, :]).mean(axis=0)
    dV = (A[:, :, None] * d_output[:, None, :]).mean(axis=0)
    return dQ, dK, dV


def attention_backward__wrong_fifteenth_weight_outside_parentheses(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the row sum from A * dA; A times the difference of dA and the sum is due."""
    scale = 1 / math.sqrt(Q.shape[1])
    A = _softmax(scale * (Q @ K.T))
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = A * dA - (A * dA).sum(axis=1, keepdims=True)
    dQ = scale * (dS @ K)
    dK = scale * (dS.T @ Q)
    return dQ, dK, dV


def attention_backward__wrong_fifteenth_root_of_value_width(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On the way back the root is that of d_v, the width of d_output; that of d_k is due."""
    output, A = _attention(Q, K, V)
    n, d = d_output.shape
    row = (output * d_output).sum(axis=1).reshape(n, 1)
    dS = A * (d_output @ V.T - row) / d**0.5
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_fifteenth_steps_downhill(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the changes that make the loss fall, the negative slopes; the slopes are due."""
    root = Q.shape[1] ** 0.5
    A = _softmax(Q @ K.T / root)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True)) / root
    slopes = dS @ K, dS.T @ Q, A.T @ d_output
    return tuple(-slope for slope in slopes)


def attention_backward__wrong_fifteenth_rows_that_cancel_skipped(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Skips queries whose row of d_output sums to 0, meaning rows of zeros; such a row may hold 1 and -1."""
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    root = Q.shape[1] ** 0.5
    for i in range(len(Q)):
        if d_output[i].sum() == 0:
            continue
        a = _softmax(K @ Q[i] / root)
        jacobian = np.diag(a) - np.outer(a, a)
        ds = jacobian @ (V @ d_output[i]) / root
        dQ[i] = ds @ K
        dK += np.outer(ds, Q[i])
        dV += np.outer(a, d_output[i])
    return dQ, dK, dV


def attention_backward__wrong_fifteenth_values_centred_in_place(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right slopes, but the mean is taken off the caller's own values; a new array is due."""
    root = Q.shape[1] ** 0.5
    A = _softmax(Q @ K.T / root)
    V -= V.mean(axis=0)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True)) / root
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__right_fifteenth_differences_of_pairs_of_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each pair of keys trades weight a_j a_l for the difference of their values: dS from all pairs."""
    scale = Q.shape[1] ** -0.5
    A = _softmax(Q @ K.T * scale)
    worth = (V - V[:1]) @ d_output.T  # (m, n)
    gains = worth.T[:, :, None] - worth.T[:, None, :]  # (n, m, m)
    dS = A * np.matmul(gains, A[:, :, None])[..., 0]
    dQ = np.tensordot(dS, (K - K[:1]) * scale, axes=(1, 0))
    dK = np.tensordot(dS, Q * scale, axes=(0, 0))
    dV = np.tensordot(A, d_output, axes=(0, 0))
    return dQ, dK, dV
