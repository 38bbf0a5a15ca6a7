"""Unit 3, masking (3.1 to 3.3): four wrong answers and a right one to each exercise, as students might write them."""

import math

import numpy as np

_board = {}


# ------- 3.1 causal_mask
def causal_mask__wrong_ninth_not_itself(n: int) -> np.ndarray:
    """Lets a token look at earlier ones only, not at itself, except token 0, which would see nothing."""
    position = np.arange(n)
    mask = position[None, :] < position[:, None]
    mask[0, 0] = True
    return mask


def causal_mask__wrong_ninth_fills_columns(n: int) -> np.ndarray:
    """Fills the top of each column in place of the beginning of each row: the triangle is transposed."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        mask[: i + 1, i] = True
    return mask


def causal_mask__wrong_ninth_positions_in_a_byte(n: int) -> np.ndarray:
    """Keeps the positions in single bytes, so from 257 tokens on they begin again at 0."""
    place = np.arange(n).astype(np.uint8)
    return np.greater_equal.outer(place, place)


def causal_mask__wrong_ninth_one_board_for_all(n: int) -> np.ndarray:
    """Draws every mask on one board and returns a piece of it, so the next call can wipe out an earlier mask."""
    board = _board.get("board")
    if board is None or len(board) < n:
        board = _board["board"] = np.zeros((max(n, 32), max(n, 32)), dtype=bool)
    board[...] = False
    rows, columns = np.tril_indices(n)
    board[rows, columns] = True
    return board[:n, :n]


def causal_mask__right_ninth_once_true_stays_true(n: int) -> np.ndarray:
    """Begins with the identity and lets every True go on downwards."""
    return np.logical_or.accumulate(np.identity(n, dtype=bool), axis=0)


# ------- 3.2 padding_mask
def padding_mask__wrong_ninth_pads_in_front(lengths: np.ndarray, m: int) -> np.ndarray:
    """Puts the filler in front and the real tokens at the end of the row."""
    filler = m - np.asarray(lengths)
    return np.arange(m) >= filler[:, None]


def padding_mask__wrong_ninth_runs_in_wrong_order(lengths: np.ndarray, m: int) -> np.ndarray:
    """Lists the lengths of all runs one kind after the other, while the kinds alternate: most runs are misread."""
    runs = np.concatenate([lengths, m - lengths])
    kinds = np.tile([True, False], len(lengths))
    return np.repeat(kinds, runs).reshape(len(lengths), m)


def padding_mask__wrong_ninth_row_before_the_first(lengths: np.ndarray, m: int) -> np.ndarray:
    """Looks up row length - 1 of a triangle, which for a length of 0 is the last row: everything is real."""
    triangle = np.tri(m, dtype=bool)
    return triangle[np.asarray(lengths) - 1]


def padding_mask__wrong_ninth_counts_callers_lengths_down(lengths: np.ndarray, m: int) -> np.ndarray:
    """Counts the caller's lengths down, column by column, and leaves zeros behind."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for j in range(m):
        mask[:, j] = lengths > 0
        lengths -= lengths > 0
    return mask


def padding_mask__right_ninth_stop_marks(lengths: np.ndarray, m: int) -> np.ndarray:
    """Sets a mark where each sequence has ended, and keeps the places with no mark up to there."""
    lengths = np.asarray(lengths)
    marks = np.zeros((lengths.size, m + 1), dtype=int)
    marks[np.arange(lengths.size), lengths] = 1
    return np.cumsum(marks, axis=1)[:, :m] == 0


# ------- 3.3 masked_softmax
def masked_softmax__wrong_ninth_lost_weight_shared_evenly(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Takes the softmax of all scores and shares out the weight of the hidden keys evenly among the allowed ones."""
    allowed = np.broadcast_to(mask, scores.shape)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    lost = np.where(allowed, 0, weights).sum(axis=-1, keepdims=True)
    count = allowed.sum(axis=-1, keepdims=True)
    return np.where(allowed, weights + lost / np.maximum(count, 1), 0.0)


def masked_softmax__wrong_ninth_sorted_back_by_order(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Works on sorted scores and goes back by the order itself in place of its inverse, so weights change places."""
    allowed = np.broadcast_to(mask, scores.shape)
    hidden_last = np.where(allowed, -scores, np.inf)
    order = np.argsort(hidden_last, axis=-1, kind="stable")
    down = np.take_along_axis(hidden_last, order, axis=-1)
    best = down[..., :1]
    best = np.where(np.isinf(best), 0.0, best)
    powers = np.exp(best - down)
    total = powers.sum(axis=-1, keepdims=True)
    ranked = powers / np.where(total > 0, total, 1.0)
    return np.take_along_axis(ranked, order, axis=-1)


def masked_softmax__wrong_ninth_largest_at_least_zero(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Begins the search for the largest allowed score at 0, so a row far below 0 is taken for an empty one."""
    full = np.broadcast_to(mask, scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=full, initial=0.0)
    weights = np.zeros(scores.shape)
    np.exp(scores - top, out=weights, where=full)
    total = np.sum(weights, axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros(scores.shape), where=total > 0)


def masked_softmax__wrong_ninth_opens_callers_empty_rows(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Opens the rows with nothing allowed for the time being, in the caller's own mask if it is as large as scores."""
    if np.shape(mask) != scores.shape:
        mask = np.array(np.broadcast_to(mask, scores.shape))
    empty = ~mask.any(axis=-1)
    mask[empty] = True
    masked = np.where(mask, scores, -np.inf)
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    weights[empty] = 0
    return weights


def masked_softmax__right_ninth_key_after_key(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Reads key after key for all rows at once, with the largest allowed score and the sum of powers so far."""
    scores = np.asarray(scores, dtype=np.float64)
    may = np.broadcast_to(mask, scores.shape)
    top = np.full(scores.shape[:-1], -np.inf)
    base, total = np.zeros(scores.shape[:-1]), np.zeros(scores.shape[:-1])
    for j in range(scores.shape[-1]):
        s, ok = scores[..., j], may[..., j]
        larger = np.where(ok, np.maximum(top, s), top)
        base = np.where(np.isneginf(larger), 0.0, larger)
        total = total * np.exp(top - base) + np.where(ok, np.exp(np.where(ok, s, base) - base), 0.0)
        top = larger
    base, total = np.expand_dims(base, -1), np.expand_dims(total, -1)
    powers = np.where(may, np.exp(np.where(may, scores, base) - base), 0.0)
    return powers / np.where(total > 0, total, 1.0)


def _masked_softmax(scores, mask):
    """Softmax over the last axis among the allowed keys; zeros where nothing is allowed."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    powers = np.exp(hidden - top)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


# ------- 3.4 masked_attention


def masked_attention__wrong_ninth_zero_scores_vanish(Q, K, V, mask):
    """Multiplies the scores by the mask and hides whatever is then 0, so an allowed key with a score of 0 is hidden."""
    d_k = Q.shape[-1]
    scores = np.matmul(Q, np.moveaxis(K, -1, -2)) / math.sqrt(d_k)
    visible = scores * mask
    present = visible != 0
    weights = _masked_softmax(visible, present)
    return np.matmul(weights, V), weights


def masked_attention__wrong_ninth_width_of_values(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the scores by the square root of d_v, the width of the values, in place of d_k."""
    width = V.shape[-1]
    dots = np.einsum("...qd,...kd->...qk", Q, K)
    seen = np.broadcast_to(mask, dots.shape)
    dots = dots * width**-0.5
    highest = np.max(dots, axis=-1, keepdims=True, initial=-np.inf, where=seen)
    highest[np.isneginf(highest)] = 0.0
    e = np.exp(np.where(seen, dots - highest, -np.inf))
    norm = e.sum(axis=-1, keepdims=True)
    weights = np.divide(e, norm, out=np.zeros_like(e), where=norm > 0)
    return np.einsum("...qk,...kv->...qv", weights, V), weights


def masked_attention__wrong_ninth_masks_dealt_in_turn(Q, K, V, mask):
    """With two or more leading axes and fewer masks than attentions, deals the masks out in turn to the wrong ones."""
    front = Q.shape[:-2]
    n, m = Q.shape[-2], K.shape[-2]
    queries = Q.reshape(-1, n, Q.shape[-1])
    keys = K.reshape(-1, m, K.shape[-1])
    values = V.reshape(-1, m, V.shape[-1])
    table = np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), (n, m)))
    table = table.reshape(-1, n, m)
    weights, outputs = [], []
    for s, (q, k, v) in enumerate(zip(queries, keys, values, strict=True)):
        row_weights = _masked_softmax(q @ k.T / np.sqrt(q.shape[1]), table[s % len(table)])
        weights.append(row_weights)
        outputs.append(row_weights @ v)
    weights = np.array(weights).reshape(*front, n, m)
    return np.array(outputs).reshape(*front, n, V.shape[-1]), weights


def masked_attention__wrong_ninth_scales_the_callers_queries(Q, K, V, mask):
    """Divides Q by the square root of d_k in place, so the caller's queries are changed."""
    Q /= np.sqrt(Q.shape[-1])
    scores = Q @ K.swapaxes(-1, -2)
    A = _masked_softmax(scores, mask)
    output = A @ V
    return output, A


def masked_attention__right_ninth_running_logarithm(Q, K, V, mask):
    """Gets the weights as exp(score - log of the sum of exponentials), that log folded up key by key."""
    d_k = Q.shape[-1]
    scores = (K @ (Q / np.sqrt(d_k)).swapaxes(-1, -2)).swapaxes(-1, -2)
    seen = np.broadcast_to(mask, scores.shape)
    log_sum = np.full(scores.shape[:-1], -np.inf)
    for j in range(K.shape[-2]):
        term = np.where(seen[..., j], scores[..., j], -np.inf)
        log_sum = np.logaddexp(log_sum, term)
    blind = np.isneginf(log_sum)
    log_sum = np.where(blind, 0.0, log_sum)[..., None]
    weights = np.exp(np.where(seen, scores - log_sum, -np.inf))
    return weights @ V, weights


# ------- 3.5 next_token_pairs


def next_token_pairs__wrong_ninth_one_long_stream(tokens):
    """Treats the batch as one stream of text, so pairs run over the ends of the rows if there are several."""
    B, n = tokens.shape
    stream = tokens.reshape(-1)
    pairs = B * (n - 1)
    now, then = stream[:-1], stream[1:]
    return now[:pairs].reshape(B, n - 1), then[:pairs].reshape(B, n - 1)


def next_token_pairs__wrong_ninth_shifted_and_cut_in_front(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rolls the row back by one and then cuts off the first column: targets two ahead, the last one wrapped round."""
    ahead = np.roll(tokens, shift=-1, axis=1)
    inputs = np.delete(tokens, -1, axis=1)
    targets = np.delete(ahead, 0, axis=1)
    return inputs, targets


def next_token_pairs__wrong_ninth_short_integers(tokens):
    """Stores the ids as 16-bit integers, so ids from 32,768 on come out as other numbers."""
    B, n = tokens.shape
    inputs = np.zeros((B, n - 1), dtype=np.int16)
    targets = np.zeros((B, n - 1), dtype=np.int16)
    for i in range(n - 1):
        inputs[:, i] = tokens[:, i].astype(np.int16)
        targets[:, i] = tokens[:, i + 1].astype(np.int16)
    return inputs, targets


def next_token_pairs__wrong_ninth_shifts_the_argument(tokens):
    """Shifts the rows of the caller's array in place to make the targets."""
    last = tokens.shape[1] - 1
    inputs = tokens[:, :last].copy()
    for row in tokens:
        row[:last] = row[1:].copy()
    return inputs, tokens[:, :last]


def next_token_pairs__right_ninth_windows_of_two(tokens):
    """Slides a window of two tokens along each row and takes the two sides of the windows apart."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=-1)
    inputs, targets = np.moveaxis(windows, -1, 0)
    return inputs.copy(), targets.copy()


# ------- 3.6 leaks_future


def leaks_future__wrong_ninth_values_only(attend, Q, K, V):
    """Changes only the later values and never the keys, so a leak through the keys alone is not found."""
    n = len(Q)
    rng = np.random.default_rng(0)
    base = np.array(attend(Q, K, V))
    for first_changed in range(1, n):
        other = V.copy()
        other[first_changed:] += rng.uniform(1, 2, other[first_changed:].shape)
        now = np.array(attend(Q, K, other))
        for i in range(first_changed):
            size = max(np.abs(base[i]).max(), np.abs(now[i]).max())
            if np.abs(now[i] - base[i]).max() > 1e-5 * size:
                return True
    return False


def leaks_future__wrong_ninth_next_neighbour_unwatched(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Changes the rows behind j but watches only those before j, so a look exactly one step ahead is not found."""
    n, rng = Q.shape[0], np.random.default_rng(0)
    base_K = K + rng.uniform(0.3, 0.8, K.shape)
    base_V = V + rng.uniform(0.3, 0.8, V.shape)
    before = np.array(attend(Q, base_K, base_V))

    def moved(j):
        later = np.arange(n)[:, None] > j
        after = attend(
            Q,
            np.where(later, K - rng.uniform(1, 2, K.shape), base_K),
            np.where(later, V - rng.uniform(1, 2, V.shape), base_V),
        )
        step = np.abs(after - before)[:j].max(axis=1)
        size = np.maximum(np.abs(after), np.abs(before))[:j].max(axis=1)
        return (step > 3e-5 * size).any()

    return any([bool(moved(j)) for j in range(1, n - 1)])


def leaks_future__wrong_ninth_one_size_for_all_rows(attend, Q, K, V):
    """Measures each row by the largest number of the whole output, so a leak into a row of small numbers is lost."""
    n = Q.shape[0]
    if n == 1:
        return False
    rng = np.random.default_rng(0)
    K_0, V_0 = K + rng.standard_normal(K.shape), V + rng.standard_normal(V.shape)
    reference = np.array(attend(Q, K_0, V_0))
    leak = False
    for split in range(1, n):
        K_1, V_1 = K_0.copy(), V_0.copy()
        K_1[split:] += 1 + rng.random((n - split, K.shape[1]))
        V_1[split:] += 1 + rng.random((n - split, V.shape[1]))
        out = np.array(attend(Q, K_1, V_1))
        scale = max(abs(reference).max(), abs(out).max())
        leak = leak or not np.all(abs(out - reference)[:split] <= 1e-5 * scale)
    return bool(leak)


def leaks_future__wrong_ninth_changes_the_arrays(attend, Q, K, V):
    """Works from the last row forward and writes its changes into the K and V of the caller."""
    generator = np.random.default_rng(0)
    keys, values = np.asarray(K), np.asarray(V)
    keys += generator.uniform(-0.5, 0.5, keys.shape)
    values += generator.uniform(-0.5, 0.5, values.shape)
    calm = np.copy(attend(Q, keys, values))
    answer = False
    for j in reversed(range(1, len(Q))):
        keys[j] += generator.uniform(1, 2, keys.shape[1])
        values[j] += generator.uniform(1, 2, values.shape[1])
        stirred = np.copy(attend(Q, keys, values))
        sizes = np.maximum(np.abs(calm).max(axis=1), np.abs(stirred).max(axis=1))
        moves = np.abs(calm - stirred).max(axis=1)
        if np.any(moves[:j] > 2e-5 * sizes[:j]):
            answer = True
    return answer


def leaks_future__right_ninth_spread_over_runs(attend, Q, K, V):
    """Makes n runs with a common past of growing length and takes each row's spread over the runs that share it."""
    n = len(Q)
    if n == 1:
        return False
    rng = np.random.default_rng(0)

    def nudges(shape):
        return rng.uniform(0.4, 0.9, shape) * rng.choice([-1.0, 1.0], shape)

    shift_K, shift_V = nudges(K.shape), nudges(V.shape)
    runs = []
    for common in range(1, n + 1):  # rows before `common` are the same in this run and in all that follow
        late = np.arange(n)[:, None] >= common
        factor_K = np.where(late, -rng.uniform(2, 3, K.shape), 1.0)
        factor_V = np.where(late, -rng.uniform(2, 3, V.shape), 1.0)
        runs.append(np.array(attend(Q.copy(), K + factor_K * shift_K, V + factor_V * shift_V), dtype=float))
    runs = np.stack(runs)  # (run, row, column)
    for i in range(n - 1):
        alike = runs[i:, i]  # run number i has i + 1 common rows
        spread = (alike.max(axis=0) - alike.min(axis=0)).max()
        if spread > 3e-5 * np.abs(runs[:, i]).max():
            return True
    return False


# ------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_ninth_interruption_ends_it(document_ids):
    """Takes each run of equal ids for a document of its own, so one that was interrupted starts anew."""
    B, n = document_ids.shape
    fresh = np.ones((B, n), dtype=bool)
    fresh[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = np.cumsum(fresh, axis=1)
    place = np.arange(n)
    start = np.maximum.accumulate(np.where(fresh, place, 0), axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & (place[:, None] >= place)
    return mask, place - start


def packed_causal_mask__wrong_ninth_counts_down_the_columns(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums the mask over the queries in place of the keys, so positions count the tokens that follow."""
    n = document_ids.shape[1]
    mask = np.tril(np.equal.outer(np.arange(n), np.arange(n)) | True)[None]
    mask = mask & (document_ids[:, :, np.newaxis] == document_ids[:, np.newaxis, :])
    positions = np.einsum("bij->bj", mask.astype(int)) - 1
    return mask, positions


def packed_causal_mask__wrong_ninth_nearly_equal(document_ids):
    """Compares ids with np.isclose, so large ids that lie close to each other are taken for one document."""
    B, n = document_ids.shape
    i, j = np.indices((n, n))
    query_ids, key_ids = document_ids[:, i], document_ids[:, j]
    mask = np.logical_and(np.isclose(query_ids, key_ids), (j <= i)[None])
    positions = np.count_nonzero(mask, axis=2) - 1
    return mask, positions


def packed_causal_mask__wrong_ninth_token_after_token(document_ids):
    """Gets it right, but goes through the tokens one by one in Python loops, which is not allowed."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    for i in range(n):
        mask[:, i, : i + 1] = document_ids[:, : i + 1] == document_ids[:, i : i + 1]
    positions = np.stack([mask[:, i, :i].sum(axis=1) for i in range(n)], axis=1)
    return mask, positions


def packed_causal_mask__right_ninth_sorted_ids(document_ids):
    """Sorts each row by id, numbers the tokens within the runs, and carries the numbers back to their places."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ordered = np.take_along_axis(document_ids, order, axis=1)
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    steps = np.broadcast_to(np.arange(n), (B, n))
    start = np.maximum.accumulate(np.where(begins, steps, 0), axis=1)
    positions, group = np.empty((B, n), dtype=int), np.empty((B, n), dtype=int)
    np.put_along_axis(positions, order, steps - start, axis=1)
    np.put_along_axis(group, order, start, axis=1)
    # Within a document the positions rise along the row.
    mask = (group[:, :, None] == group[:, None, :]) & (positions[:, :, None] >= positions[:, None, :])
    return mask, positions
