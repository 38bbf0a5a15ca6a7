"""Answers to the exercises of unit 3, masking: wrong and right ones."""

import numpy as np


def _masked_softmax(scores, mask):
    """A right masked_softmax (exercise 3.3)."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    powers = np.exp(hidden - top)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


# ---------------------------------------------------------------- 3.1 causal_mask


def causal_mask__wrong_eighth_additive_mask(n: int) -> np.ndarray:
    """Returns the additive float mask of PyTorch's Transformer, 0 where allowed and -inf where not, in place of booleans."""
    mask = np.zeros((n, n))
    later = np.triu_indices(n, k=1)
    mask[later] = -np.inf
    return mask


def causal_mask__wrong_eighth_keys_counted_from_1(n: int) -> np.ndarray:
    """Numbers the keys from 1 in the slice mask[i, 1:i+1], so that key 0 is hidden from everybody and row 0 is empty."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        mask[i, 1 : i + 1] = True
    return mask


def causal_mask__wrong_eighth_strict_with_patched_first(n: int) -> np.ndarray:
    """Takes the comparison j < i, no token sees itself, and mends the empty row 0 alone by setting mask[0, 0] = True."""
    position = np.arange(n)
    mask = np.less.outer(position, position).T
    mask = mask.copy()
    mask[0, 0] = True  # or the first token would have nothing to look at
    return mask


def causal_mask__wrong_eighth_itself_and_the_one_before(n: int) -> np.ndarray:
    """Allows only the diagonal and the one below it, a window of two, in place of the whole past."""
    own = np.eye(n, dtype=bool)
    previous = np.eye(n, k=-1, dtype=bool)
    return own | previous


def causal_mask__right_eighth_running_or_of_the_identity(n: int) -> np.ndarray:
    """Runs a logical or down the columns of the identity: once key j has appeared (row j) it stays visible."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# ---------------------------------------------------------------- 3.2 padding_mask


def padding_mask__wrong_eighth_rows_sorted(lengths: np.ndarray, m: int) -> np.ndarray:
    """Sorts the lengths in descending order first (as for pack_padded_sequence), so rows belong to other sequences."""
    longest_first = np.sort(lengths)[::-1]
    return np.arange(m)[None, :] < longest_first[:, None]


def padding_mask__wrong_eighth_negative_slice(lengths: np.ndarray, m: int) -> np.ndarray:
    """Marks the real tokens with the slice [:-(m - length)], which is [:0] and marks nothing where length == m."""
    B = len(lengths)
    real = np.zeros((B, m), dtype=bool)
    for b in range(B):
        n_pads = m - int(lengths[b])
        real[b, :-n_pads] = True
    return real


def padding_mask__wrong_eighth_counts_lengths_down(lengths: np.ndarray, m: int) -> np.ndarray:
    """Counts the caller's lengths down to zero or below with `lengths -= 1`, column by column: the input is changed."""
    columns = []
    for _ in range(m):
        columns.append(lengths > 0)
        lengths -= 1
    return np.stack(columns, axis=1)


def padding_mask__wrong_eighth_pads_in_front(lengths: np.ndarray, m: int) -> np.ndarray:
    """Puts the real tokens at the end of each row (left padding, j >= m - length) in place of the beginning."""
    first_real = m - np.asarray(lengths)
    return np.arange(m) >= first_real.reshape(-1, 1)


def padding_mask__right_eighth_steps_and_cumsum(lengths: np.ndarray, m: int) -> np.ndarray:
    """Writes +1 at place 0 and -1 at place length of a row of m + 1 numbers; the running sum is 1 where a token is real."""
    B = lengths.shape[0]
    steps = np.zeros((B, m + 1), dtype=np.int64)
    steps[:, 0] += 1
    steps[np.arange(B), lengths] -= 1
    return steps.cumsum(axis=1)[:, :m] == 1


# ---------------------------------------------------------------- 3.3 masked_softmax


def masked_softmax__wrong_eighth_clips_scores(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Clips the scores to ±700 against overflow and subtracts no maximum: large scores that differ become equal."""
    safe = np.clip(scores, -700.0, 700.0)
    e = np.where(mask, np.exp(safe), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def masked_softmax__wrong_eighth_fills_with_minus_1e4(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Fills hidden scores with -1e4, which is no lower than allowed scores may be: then hidden keys get weight."""
    filled = np.where(mask, scores, -1e4)
    filled = filled - filled.max(axis=-1, keepdims=True)
    weights = np.exp(filled)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    visible = np.broadcast_to(mask, scores.shape).any(axis=-1, keepdims=True)
    return np.where(visible, weights, 0.0)


def masked_softmax__wrong_eighth_one_in_the_denominator(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Divides by 1 + the sum of exponentials ("softmax one") against 0 / 0, so no row of weights sums to 1."""
    masked = np.where(mask, scores, -np.inf)
    shift = np.maximum(masked.max(axis=-1, keepdims=True), 0.0)  # the 1 has score 0
    numerator = np.exp(masked - shift)
    return numerator / (np.exp(-shift) + numerator.sum(axis=-1, keepdims=True))


def masked_softmax__wrong_eighth_writes_into_scores(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Writes -inf at the hidden places of the caller's own array with np.copyto: the input is changed."""
    np.copyto(scores, -np.inf, where=np.logical_not(mask))
    best = scores.max(axis=-1, keepdims=True)
    best = np.where(best == -np.inf, 0.0, best)
    ex = np.exp(scores - best)
    norm = ex.sum(axis=-1, keepdims=True)
    return ex / np.where(norm == 0, 1.0, norm)


def masked_softmax__right_eighth_rows_cut_out(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Goes through the rows one by one, cuts the allowed scores out, and gives each key 1 / sum of exp(differences)."""
    full = np.broadcast_to(mask, scores.shape)
    weights = np.zeros(scores.shape, dtype=scores.dtype)
    for row in np.ndindex(*scores.shape[:-1]):
        keys = np.flatnonzero(full[row])
        if keys.size == 0:
            continue
        allowed = scores[row][keys]
        ranked = allowed - allowed.max()
        powers = np.exp(ranked)
        weights[row + (keys,)] = powers / powers.sum()
    return weights


# ---------------------------------------------------------------- 3.4 masked_attention


def masked_attention__wrong_eighth_guesses_a_padding_mask(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes a mask of two axes for a padding mask (B, m) whenever its first axis is B: an (n, m) mask with n == B is misread."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    if Q.ndim == 3 and mask.ndim == 2 and mask.shape[0] == Q.shape[0]:
        mask = mask[:, None, :]
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_eighth_rescales_after_softmax(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the softmax of all scores, sets hidden weights to 0 and rescales: a huge hidden score rounds the others to 0."""
    s = np.einsum("...nd,...md->...nm", Q, K) / Q.shape[-1] ** 0.5
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    everyone = e / e.sum(axis=-1, keepdims=True)
    kept = everyone * mask
    left = kept.sum(axis=-1, keepdims=True)
    weights = kept / np.where(left == 0, 1.0, left)
    return weights @ V, weights


def masked_attention__wrong_eighth_reshapes_K(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reshapes K from (..., m, d_k) to (..., d_k, m) in place of swapping the two axes: the entries of keys are mixed."""
    *lead, m, d_k = K.shape
    K_T = K.reshape(*lead, d_k, m)
    scores = np.matmul(Q, K_T) / np.sqrt(d_k)
    weights = _masked_softmax(scores, mask)
    output = np.matmul(weights, V)
    return output, weights


def masked_attention__wrong_eighth_zeroes_the_rows_of_pads(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where n == m, takes a key that nobody may see for a pad, and sets weights and output of the query there to 0 too."""
    n, d_k = Q.shape[-2:]
    m = K.shape[-2]
    scores = Q @ K.swapaxes(-2, -1) / np.sqrt(d_k)
    A = _masked_softmax(scores, mask)
    if n == m:
        allowed = np.broadcast_to(mask, scores.shape)
        real = allowed.any(axis=-2)  # (..., m): is this token seen by anyone?
        A = A * real[..., :, None]
    return A @ V, A


def masked_attention__right_eighth_key_by_key(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Goes key by key with a running largest allowed score, a running sum and a running output, and rescales on the way."""
    m, d_k = K.shape[-2:]
    shape = Q.shape[:-1] + (m,)
    seen = np.broadcast_to(mask, shape)
    kind = np.result_type(Q, K, V)
    largest = np.full(Q.shape[:-1], -np.inf, dtype=kind)
    total = np.zeros(Q.shape[:-1], dtype=kind)
    output = np.zeros(Q.shape[:-1] + (V.shape[-1],), dtype=kind)
    powers = np.zeros(shape, dtype=kind)
    for j in range(m):
        score = (Q * K[..., j : j + 1, :]).sum(axis=-1) / np.sqrt(d_k)
        here = seen[..., j]
        new = np.where(here, np.maximum(largest, score), largest)
        base = np.where(np.isfinite(new), new, 0)
        shrink = np.exp(np.where(np.isfinite(largest), largest - base, 0))
        power = np.where(here, np.exp(np.where(here, score - base, 0)), 0)
        total = total * shrink + power
        output = output * shrink[..., None] + power[..., None] * V[..., j : j + 1, :]
        powers[..., :j] = powers[..., :j] * shrink[..., None]
        powers[..., j] = power
        largest = new
    below = np.where(total > 0, total, 1)[..., None]
    return output / below, powers / below


# ---------------------------------------------------------------- 3.5 next_token_pairs


def next_token_pairs__wrong_eighth_one_long_stream(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Lays all rows end to end and cuts the stream into rows of n - 1 anew, so pairs run from one sequence into the next."""
    B, n = tokens.shape
    stream = tokens.ravel()
    used = B * (n - 1)
    inputs = stream[:used].reshape(B, n - 1)
    targets = stream[1 : used + 1].reshape(B, n - 1)
    return inputs, targets


def next_token_pairs__wrong_eighth_pads_become_minus_100(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes id 0 for the pad and writes -100, the ignore_index of PyTorch's loss, over every target that is 0."""
    inputs = tokens[:, :-1].copy()
    targets = tokens[:, 1:].copy()
    targets[targets == 0] = -100
    return inputs, targets


def next_token_pairs__wrong_eighth_pairs_without_overlap(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts each row into separate pairs (0, 1), (2, 3), …: every token is used once, and half of the targets are missing."""
    n = tokens.shape[1]
    even = n - n % 2
    return tokens[:, 0:even:2], tokens[:, 1:even:2]


def next_token_pairs__wrong_eighth_start_token_in_front(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Shifts right as for a decoder with a start token: puts a 0 before the inputs, and the last token is never a target."""
    shifted = np.zeros_like(tokens)
    shifted[:, 1:] = tokens[:, :-1]
    return shifted[:, :-1], tokens[:, :-1]


def next_token_pairs__right_eighth_table_of_indices(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Gathers, with a table of indices (n - 1, 2), each token with the one after it, and takes the two columns apart."""
    n = tokens.shape[1]
    at = np.add.outer(np.arange(n - 1), np.arange(2))  # (n - 1, 2)
    pairs = tokens[:, at]  # (B, n - 1, 2)
    inputs, targets = np.moveaxis(pairs, -1, 0)
    return inputs, targets


# ---------------------------------------------------------------- 3.6 leaks_future


def leaks_future__wrong_eighth_reverses_the_future(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Only reverses the order of the later keys and values: nothing changes where a single one is later, or in any sum of them."""
    n = len(Q)
    plain = attend(Q, K.copy(), V.copy())
    for cut in range(1, n):
        K_turned, V_turned = K.copy(), V.copy()
        K_turned[cut:] = K[cut:][::-1]
        V_turned[cut:] = V[cut:][::-1]
        moved = np.abs(attend(Q, K_turned, V_turned) - plain)[:cut].max(axis=1)
        if (moved > 3e-5 * np.abs(plain[:cut]).max(axis=1)).any():
            return True
    return False


def leaks_future__wrong_eighth_one_size_for_all_rows(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Measures every row against the largest entry of the whole output, so a leak in a row of small numbers is lost."""
    n = Q.shape[0]
    if n == 1:
        return False
    rng = np.random.default_rng(3)
    K_0, V_0 = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
    base = attend(Q, K_0, V_0)
    size = np.abs(base).max()
    leak = False
    for t in range(1, n):
        K_t, V_t = K_0.copy(), V_0.copy()
        K_t[t:] = rng.standard_normal(K_t[t:].shape)
        V_t[t:] = rng.standard_normal(V_t[t:].shape)
        change = np.abs(attend(Q, K_t, V_t)[:t] - base[:t]).max()
        leak = leak or change > 3e-5 * size
    return bool(leak)


def leaks_future__wrong_eighth_tolerance_of_1e_10(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Calls every move of more than 1e-10 of a row's size a leak, though up to 1e-6 is rounding: float32 inside is accused."""
    rng, n = np.random.default_rng(11), len(K)
    keys, values = rng.normal(size=K.shape), rng.normal(size=V.shape)
    before = attend(Q, keys, values) if n > 1 else None
    for t in range(1, n):
        other_keys = np.concatenate([keys[:t], rng.normal(size=keys[t:].shape)])
        other_values = np.concatenate([values[:t], rng.normal(size=values[t:].shape)])
        after = attend(Q, other_keys, other_values)
        for old, new in zip(before[:t], after[:t], strict=True):
            if np.abs(new - old).max() > 1e-10 * np.abs(old).max():
                return True
    return False


def leaks_future__wrong_eighth_adds_one_to_everything(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Adds the same 1 to all entries of the later keys and values: what depends on differences between columns does not move."""
    n = Q.shape[0]
    if n < 2:
        return False
    reference = attend(Q, K, V)
    size = np.abs(reference).max(axis=-1)
    verdict = []
    for first_later in range(1, n):
        step = (np.arange(n) >= first_later).astype(float)[:, None]
        out = attend(Q, K + step, V + step)
        moved = np.abs(out - reference).max(axis=-1)
        verdict.append((moved > 3e-5 * size)[:first_later].any())
    return bool(np.any(verdict))


def leaks_future__right_eighth_chain_of_redraws(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Draws all keys and values anew, then the last, the last two, …: each answer is held against the one just before it."""
    n = len(Q)
    if n == 1:
        return False
    rng = np.random.default_rng(8)
    keys, values = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
    last = np.array(attend(Q.copy(), keys.copy(), values.copy()))
    leak = False
    for t in reversed(range(1, n)):
        keys[t:] = rng.standard_normal(keys[t:].shape)
        values[t:] = rng.standard_normal(values[t:].shape)
        now = np.array(attend(Q.copy(), keys.copy(), values.copy()))
        moved = np.abs(now[:t] - last[:t]).max(axis=1)
        size = np.maximum(np.abs(now[:t]), np.abs(last[:t])).max(axis=1)
        leak |= bool((moved > 3e-5 * size).any())
        last = now
    return leak


# ---------------------------------------------------------------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_eighth_isclose(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compares ids with np.isclose, whose relative tolerance makes large neighbours such as 1000000 and 1000001 equal."""
    n = document_ids.shape[1]
    same = np.isclose(document_ids[:, :, None], document_ids[:, None, :])
    mask = same & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_eighth_negative_ids_are_padding(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes tokens with an id below 0 for filler and hides them as keys; the positions are counted as they should be."""
    B, n = document_ids.shape
    q, k = document_ids[:, :, None], document_ids[:, None, :]
    causal = np.arange(n)[:, None] >= np.arange(n)
    own = (q == k) & causal
    positions = np.count_nonzero(own, axis=-1) - 1
    mask = own & (k >= 0)
    return mask, positions


def packed_causal_mask__wrong_eighth_renames_in_place(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Renames the documents of each row to 0, 1, 2, … in the caller's own array: the input is changed."""
    n = document_ids.shape[1]
    positions = np.zeros(document_ids.shape, dtype=int)
    for row, place in zip(document_ids, positions, strict=True):
        known, renamed = np.unique(row, return_inverse=True)
        row[:] = renamed.reshape(-1)
        for document in range(len(known)):
            its = row == document
            place[its] = np.arange(its.sum())
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & np.tri(n, dtype=bool)
    return mask, positions


def packed_causal_mask__wrong_eighth_counts_on_from_row_to_row(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Counts positions over the whole flattened batch: an id that an earlier row holds too goes on counting there."""
    B, n = document_ids.shape
    lower = np.tril(np.ones((n, n), dtype=bool))
    mask = np.equal(document_ids[:, :, None], document_ids[:, None, :]) & lower
    flat = document_ids.reshape(-1)
    positions = np.empty(B * n, dtype=int)
    for name in np.unique(flat):
        where = np.flatnonzero(flat == name)
        positions[where] = np.arange(len(where))
    return mask, positions.reshape(B, n)


def packed_causal_mask__right_eighth_membership_table(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Row by row, makes a table tokens by documents: its product with itself says who belongs together, its running sum counts."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=np.int64)
    for b in range(B):
        row = document_ids[b]
        member = row[:, None] == np.unique(row)[None, :]  # (n, documents)
        mask[b] = np.tril(member.astype(np.int64) @ member.T.astype(np.int64)) > 0
        positions[b] = (np.cumsum(member, axis=0) * member).sum(axis=1) - 1
    return mask, positions
