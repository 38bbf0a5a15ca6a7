"""Right and wrong answers to unit 08_induction_heads, written from the contracts of the functions alone, to test
the judge with."""

import math
import warnings

import torch

# -------------------------------------------------------------------------------------------------- repeated_sequences


def repeated_sequences__right_repeat(batch, period, repeats, vocab_size, generator):
    """The plain one: draw a block per row, repeat it along the row."""
    block = torch.randint(0, vocab_size, (batch, period), generator=generator)
    return block.repeat(1, repeats)


def repeated_sequences__right_cat(batch, period, repeats, vocab_size, generator):
    """Concatenates the same block."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.cat([block] * repeats, dim=1)


def repeated_sequences__right_index(batch, period, repeats, vocab_size, generator):
    """Indexes the block with i modulo period; prints."""
    block = torch.randint(high=vocab_size, size=(batch, period), generator=generator, dtype=torch.int64)
    print("block", block[0].tolist() if batch else [])
    return block[:, torch.arange(period * repeats) % period]


def repeated_sequences__right_expand(batch, period, repeats, vocab_size, generator):
    """A new axis, expand, flatten."""
    block = torch.randint(0, vocab_size, (batch, period), generator=generator)
    return block.unsqueeze(1).expand(batch, repeats, period).flatten(1)


def repeated_sequences__right_kron(batch, period, repeats, vocab_size, generator):
    """The Kronecker product with a row of ones; a warning."""
    warnings.warn("kron", stacklevel=2)
    ones = torch.ones(1, repeats, dtype=torch.int64)
    return torch.kron(ones, torch.randint(vocab_size, [batch, period], generator=generator))


def repeated_sequences__right_fill(batch, period, repeats, vocab_size, generator):
    """Writes the block into a fresh tensor, repeat by repeat."""
    out = torch.empty(batch, period * repeats, dtype=torch.long)
    block = torch.randint(0, vocab_size, torch.Size([batch, period]), generator=generator)
    for r in range(repeats):
        out[:, r * period : (r + 1) * period] = block
    return out


def repeated_sequences__right_transposed_tile(batch, period, repeats, vocab_size, generator):
    """Tiles the transposed block; the result is not contiguous."""
    return torch.tile(torch.randint(0, vocab_size, (batch, period), generator=generator).T, (repeats, 1)).T


def repeated_sequences__wrong_interleave(batch, period, repeats, vocab_size, generator):
    """repeat_interleave: every token is repeated, not the block."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat_interleave(repeats, dim=1)


def repeated_sequences__wrong_repeat_rows(batch, period, repeats, vocab_size, generator):
    """repeat(repeats, 1): more rows instead of longer rows."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(repeats, 1)


def repeated_sequences__wrong_same_block(batch, period, repeats, vocab_size, generator):
    """The same block for all rows."""
    return torch.randint(0, vocab_size, (1, period), generator=generator).repeat(batch, repeats)


def repeated_sequences__wrong_not_repeated(batch, period, repeats, vocab_size, generator):
    """Draws all tokens: nothing repeats."""
    return torch.randint(0, vocab_size, (batch, period * repeats), generator=generator)


def repeated_sequences__wrong_fresh_blocks(batch, period, repeats, vocab_size, generator):
    """A fresh draw for every repeat."""
    parts = [torch.randint(0, vocab_size, (batch, period), generator=generator) for _ in range(repeats)]
    return torch.cat(parts, dim=1)


def repeated_sequences__wrong_no_generator(batch, period, repeats, vocab_size, generator):
    """Ignores the generator."""
    return torch.randint(0, vocab_size, (batch, period)).repeat(1, repeats)


def repeated_sequences__wrong_own_seed(batch, period, repeats, vocab_size, generator):
    """A generator of its own with seed 0: the same sequences each time."""
    own = torch.Generator().manual_seed(0)
    return torch.randint(0, vocab_size, (batch, period), generator=own).repeat(1, repeats)


def repeated_sequences__wrong_reseeds(batch, period, repeats, vocab_size, generator):
    """Seeds the generator that it was handed."""
    generator.manual_seed(42)
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats)


def repeated_sequences__wrong_generator_not_advanced(batch, period, repeats, vocab_size, generator):
    """Draws from a copy of the generator: the next call gives the same block."""
    copy = torch.Generator()
    copy.set_state(generator.get_state())
    return torch.randint(0, vocab_size, (batch, period), generator=copy).repeat(1, repeats)


def repeated_sequences__wrong_no_zero(batch, period, repeats, vocab_size, generator):
    """Tokens from 1 to vocab_size: one too high."""
    return 1 + torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats)


def repeated_sequences__wrong_starts_at_one(batch, period, repeats, vocab_size, generator):
    """Token 0 never comes (low = 1)."""
    return torch.randint(1, max(vocab_size, 2), (batch, period), generator=generator).repeat(1, repeats)


def repeated_sequences__wrong_high_inclusive(batch, period, repeats, vocab_size, generator):
    """vocab_size + 1 possible tokens."""
    return torch.randint(0, vocab_size + 1, (batch, period), generator=generator).repeat(1, repeats)


def repeated_sequences__wrong_high_minus_one(batch, period, repeats, vocab_size, generator):
    """The last token of the vocabulary never comes."""
    return torch.randint(0, max(vocab_size - 1, 1), (batch, period), generator=generator).repeat(1, repeats)


def repeated_sequences__wrong_distinct(batch, period, repeats, vocab_size, generator):
    """Distinct tokens by randperm instead of randint (fails for period > vocab_size)."""
    rows = [torch.randperm(vocab_size, generator=generator)[:period] for _ in range(batch)]
    return torch.stack(rows).repeat(1, repeats)


def repeated_sequences__wrong_drawn_transposed(batch, period, repeats, vocab_size, generator):
    """Draws (period, batch) and transposes: other blocks from the same generator."""
    return torch.randint(0, vocab_size, (period, batch), generator=generator).T.repeat(1, repeats)


def repeated_sequences__wrong_two_draws(batch, period, repeats, vocab_size, generator):
    """Draws once for nothing before."""
    torch.randint(0, vocab_size, (batch, period), generator=generator)
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats)


def repeated_sequences__wrong_rand_floor(batch, period, repeats, vocab_size, generator):
    """floor(rand * vocab_size) instead of randint."""
    return (torch.rand(batch, period, generator=generator) * vocab_size).long().repeat(1, repeats)


def repeated_sequences__wrong_float(batch, period, repeats, vocab_size, generator):
    """float32 tokens."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats).float()


def repeated_sequences__wrong_int32(batch, period, repeats, vocab_size, generator):
    """int32 tokens."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats).int()


def repeated_sequences__wrong_transposed(batch, period, repeats, vocab_size, generator):
    """(period*repeats, B)."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats).T


def repeated_sequences__wrong_three_axes(batch, period, repeats, vocab_size, generator):
    """(B, repeats, period), not flattened."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator)[:, None].repeat(1, repeats, 1)


def repeated_sequences__wrong_one_more(batch, period, repeats, vocab_size, generator):
    """The block and then `repeats` repeats: one too many."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats + 1)


def repeated_sequences__wrong_twice(batch, period, repeats, vocab_size, generator):
    """Always two repeats."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, 2)


def repeated_sequences__wrong_mirrored(batch, period, repeats, vocab_size, generator):
    """Every second block is read backwards."""
    block = torch.randint(0, vocab_size, (batch, period), generator=generator)
    return torch.cat([block if r % 2 == 0 else block.flip(1) for r in range(repeats)], dim=1)


def repeated_sequences__wrong_start_token(batch, period, repeats, vocab_size, generator):
    """A start token 0 in front."""
    block = torch.randint(0, vocab_size, (batch, period), generator=generator)
    return torch.cat([block.new_zeros(batch, 1), block.repeat(1, repeats)], dim=1)


def repeated_sequences__wrong_list(batch, period, repeats, vocab_size, generator):
    """A list of lists."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats).tolist()


def repeated_sequences__wrong_numpy(batch, period, repeats, vocab_size, generator):
    """A NumPy array."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, repeats).numpy()


def repeated_sequences__wrong_vocab_and_period_swapped(batch, period, repeats, vocab_size, generator):
    """period and vocab_size swapped."""
    return torch.randint(0, period, (batch, vocab_size), generator=generator).repeat(1, repeats)


# ------------------------------------------------------------------------------------------------ previous_token_score


def previous_token_score__right_diagonal(weights):
    """The plain one: the diagonal below the main one."""
    if weights.shape[-1] == 1:
        return weights.new_zeros(weights.shape[:-2])
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)


def previous_token_score__right_index(weights):
    """Indexing with two ranges; the sum over max(n - 1, 1)."""
    i = torch.arange(1, weights.shape[-1])
    return weights[..., i, i - 1].sum(dim=-1) / max(len(i), 1)


def previous_token_score__right_mask_sum(weights):
    """Multiplies with a 0/1 matrix and sums."""
    n = weights.shape[-1]
    pick = torch.diag(torch.ones(n - 1, dtype=weights.dtype), -1)
    return (weights * pick).sum(dim=(-2, -1)) / (n - 1 or 1)


def previous_token_score__right_loop(weights):
    """A loop over positions; prints."""
    n = weights.shape[-1]
    total = torch.zeros_like(weights[..., 0, 0])
    for i in range(1, n):
        total = total + weights[..., i, i - 1]
    print("n =", n)
    return total if n == 1 else total / (n - 1)


def previous_token_score__right_gather(weights):
    """gather along the keys; a warning."""
    warnings.warn("gather", stacklevel=2)
    n = weights.shape[-1]
    where = (torch.arange(n) - 1).clamp(min=0).view(n, 1).expand(*weights.shape[:-1], 1)
    found = weights.gather(-1, where).squeeze(-1)[..., 1:]
    return found.sum(-1) * (0.0 if n == 1 else 1 / (n - 1))


def previous_token_score__right_cut_trace(weights):
    """The trace of the block without the first row and the last column, by einsum."""
    n = weights.shape[-1]
    trace = torch.einsum("...ii->...", weights[..., 1:, :-1])
    return trace / (n - 1) if n > 1 else trace


def previous_token_score__right_flat_stride(weights):
    """Every (n+1)-th entry of the flattened matrix, from entry n on."""
    n = weights.shape[-1]
    flat = weights.flatten(-2)[..., n :: n + 1]
    return flat.mean(-1) if flat.shape[-1] else flat.sum(-1)


def previous_token_score__right_recursion(weights):
    """Unpacks the leading axes one by one, down to single patterns."""
    if weights.ndim > 2:
        return torch.stack([previous_token_score__right_recursion(pattern) for pattern in weights])
    steps = len(weights) - 1
    return weights[1:, :-1].trace() / steps if steps else weights[0, 0] * 0


def _diag(weights, offset):
    """A diagonal of the last two axes."""
    return torch.diagonal(weights, offset=offset, dim1=-2, dim2=-1)


def _zero_if(condition, weights, score):
    """Zeros of the right shape, or the score."""
    return weights.new_zeros(weights.shape[:-2]) if condition else score()


def previous_token_score__wrong_above(weights):
    """The diagonal above: attention to the next token."""
    return _zero_if(weights.shape[-1] == 1, weights, lambda: _diag(weights, 1).mean(-1))


def previous_token_score__wrong_main_diagonal(weights):
    """Attention to the token itself."""
    return _zero_if(weights.shape[-1] == 1, weights, lambda: _diag(weights, 0).mean(-1))


def previous_token_score__wrong_self_from_one(weights):
    """Attention to itself for i >= 1."""
    return _zero_if(weights.shape[-1] == 1, weights, lambda: _diag(weights, 0)[..., 1:].mean(-1))


def previous_token_score__wrong_two_back(weights):
    """Attention to i - 2."""
    return _zero_if(weights.shape[-1] < 3, weights, lambda: _diag(weights, -2).mean(-1))


def previous_token_score__wrong_divided_by_n(weights):
    """Divides by n instead of n - 1."""
    return _diag(weights, -1).sum(-1) / weights.shape[-1]


def previous_token_score__wrong_sum(weights):
    """The sum instead of the mean."""
    return _diag(weights, -1).sum(-1)


def previous_token_score__wrong_nan_for_one(weights):
    """NaN for n = 1."""
    return _diag(weights, -1).mean(-1)


def previous_token_score__wrong_one_for_one(weights):
    """1 for n = 1."""
    return _diag(weights, -1).mean(-1).nan_to_num(1.0)


def previous_token_score__wrong_first_axes(weights):
    """torch.diagonal without dim1, dim2: the first two axes."""
    d = torch.diagonal(weights, offset=-1)
    return d.mean(-1) if d.shape[-1] else d.sum(-1)


def previous_token_score__wrong_overall_mean(weights):
    """One number for all heads and sequences."""
    d = _diag(weights, -1)
    return d.mean() if d.numel() else weights.new_zeros(())


def previous_token_score__wrong_per_head(weights):
    """Averages over axis 0 (the batch) too."""
    d = _diag(weights, -1)
    d = d.mean(-1) if d.shape[-1] else d.sum(-1)
    return d.mean(0) if d.ndim else d


def previous_token_score__wrong_last_row(weights):
    """Only the last position."""
    return _zero_if(weights.shape[-1] == 1, weights, lambda: weights[..., -1, -2])


def previous_token_score__wrong_not_averaged(weights):
    """The attention of each position, (..., n-1)."""
    return _diag(weights, -1)


def previous_token_score__wrong_wraps_around(weights):
    """roll: position 0 counts with its attention to the last token."""
    n = weights.shape[-1]
    return _zero_if(n == 1, weights, lambda: _diag(weights.roll(1, -1), 0).mean(-1))


def previous_token_score__wrong_first_position_counts(weights):
    """Position 0 counts with its attention to itself."""
    n = weights.shape[-1]
    return _zero_if(n == 1, weights, lambda: (_diag(weights, -1).sum(-1) + weights[..., 0, 0]) / n)


def previous_token_score__wrong_argmax_share(weights):
    """The share of positions that attend most to the previous one."""
    n = weights.shape[-1]
    hits = (weights.argmax(-1)[..., 1:] == torch.arange(n - 1)).to(weights.dtype)
    return hits.sum(-1) / max(n - 1, 1)


def previous_token_score__wrong_from_two(weights):
    """Starts at i = 2."""
    return _zero_if(weights.shape[-1] < 3, weights, lambda: _diag(weights, -1)[..., 1:].mean(-1))


def previous_token_score__wrong_last_left_out(weights):
    """range(1, n - 1): the last position is left out."""
    return _zero_if(weights.shape[-1] < 3, weights, lambda: _diag(weights, -1)[..., :-1].mean(-1))


def previous_token_score__wrong_max(weights):
    """The maximum instead of the mean."""
    return _zero_if(weights.shape[-1] == 1, weights, lambda: _diag(weights, -1).amax(-1))


def previous_token_score__wrong_median(weights):
    """The median instead of the mean."""
    return _zero_if(weights.shape[-1] == 1, weights, lambda: _diag(weights, -1).median(-1).values)


def previous_token_score__wrong_share_of_past(weights):
    """Normalises by the attention that does not stay on the token."""
    n = weights.shape[-1]
    return _zero_if(n == 1, weights, lambda: (_diag(weights, -1) / (1.5 - _diag(weights, 0)[..., 1:])).mean(-1))


def previous_token_score__wrong_all_earlier(weights):
    """Attention to any earlier token."""
    return weights.tril(-1).sum(dim=(-2, -1)) / max(weights.shape[-1] - 1, 1)


def previous_token_score__wrong_in_place(weights):
    """Sets the upper triangle of the input to zero."""
    with torch.no_grad():
        weights.tril_(-1)
    return _diag(weights, -1).sum(-1) / max(weights.shape[-1] - 1, 1)


def previous_token_score__wrong_list(weights):
    """A Python list of numbers."""
    return (_diag(weights, -1).sum(-1) / max(weights.shape[-1] - 1, 1)).tolist()


def previous_token_score__wrong_detach(weights):
    """No gradient."""
    return _diag(weights.detach(), -1).sum(-1) / max(weights.shape[-1] - 1, 1)


def previous_token_score__wrong_float64(weights):
    """Always float64."""
    return _diag(weights, -1).double().sum(-1) / max(weights.shape[-1] - 1, 1)


def previous_token_score__wrong_float32(weights):
    """Always float32."""
    return (_diag(weights, -1).sum(-1) / max(weights.shape[-1] - 1, 1)).float()


def previous_token_score__wrong_four_axes(weights):
    """Unpacks (B, h, n, n): other shapes fail."""
    _, _, n, _ = weights.shape
    return _diag(weights, -1).sum(-1) / max(n - 1, 1)


def previous_token_score__wrong_keepdim(weights):
    """Keeps the axis: (..., 1)."""
    return _diag(weights, -1).sum(-1, keepdim=True) / max(weights.shape[-1] - 1, 1)


# ----------------------------------------------------------------------------------------------- prefix_matching_score


def prefix_matching_score__right_diagonal(weights, period):
    """The plain one: a diagonal, without its first entry."""
    if weights.shape[-1] <= period:
        return weights.new_zeros(weights.shape[:-2])
    return torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1)[..., 1:].mean(dim=-1)


def prefix_matching_score__right_index(weights, period):
    """Indexing with two ranges."""
    i = torch.arange(period, max(period, weights.shape[-1]))
    return weights[..., i, i - (period - 1)].sum(-1) / max(len(i), 1)


def prefix_matching_score__right_loop(weights, period):
    """A loop over the positions; prints."""
    n = weights.shape[-1]
    total, count = torch.zeros_like(weights[..., 0, 0]), 0
    for i in range(period, n):
        total, count = total + weights[..., i, i - period + 1], count + 1
    print(count, "positions")
    return total / count if count else total


def prefix_matching_score__right_mask(weights, period):
    """A boolean matrix of the right pairs; where and sum."""
    n = weights.shape[-1]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    right = (i - j == period - 1) & (i >= period)
    return torch.where(right, weights, 0.0).sum(dim=(-1, -2)) / right.sum().clamp(min=1).to(weights.dtype)


def prefix_matching_score__right_cut_trace(weights, period):
    """The trace of the rows from `period` on and the columns from 1 on; a warning."""
    warnings.warn("trace", stacklevel=2)
    n = weights.shape[-1]
    if n <= period:
        return weights.sum(dim=(-2, -1)) * 0.0
    block = weights[..., period:, 1 : 1 + n - period]
    return torch.einsum("...ii->...i", block).mean(-1)


def prefix_matching_score__right_gather(weights, period):
    """gather along the keys."""
    n = weights.shape[-1]
    if not n > period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype, device=weights.device)
    where = torch.arange(1, n - period + 1).view(-1, 1).expand(*weights.shape[:-2], -1, 1)
    return weights[..., period:, :].gather(-1, where).mean(dim=(-2, -1))


def prefix_matching_score__right_row_sum(weights, period):
    """Sum over rows from a python list of slices, stacked."""
    n = weights.shape[-1]
    picked = [weights[..., i, 1 - period + i] for i in range(n) if i >= period]
    return torch.stack(picked, dim=0).mean(dim=0) if picked else weights.new_zeros(weights.shape[:-2])


def prefix_matching_score__right_mean_of_nothing(weights, period):
    """Cuts rows and columns off, takes the mean of what may be nothing, and turns NaN into 0."""
    return weights[..., period:, 1:].diagonal(dim1=-2, dim2=-1).mean(-1).nan_to_num()


def _prefix(weights, period):
    """The score, right."""
    n = weights.shape[-1]
    return _zero_if(n <= period, weights, lambda: _diag(weights, 1 - period)[..., 1:].mean(-1))


def _mean_at(weights, start, back, stop=None):
    """Mean attention from start <= i < stop to i - back, 0 if there is no such position."""
    n = weights.shape[-1]
    i = torch.arange(start, n if stop is None else min(stop, n))
    i = i[(i - back >= 0) & (i - back < n)]
    return weights[..., i, i - back].sum(-1) / max(len(i), 1)


def prefix_matching_score__wrong_same_token(weights, period):
    """Attention to i - period: the same token, not the one after it."""
    return _mean_at(weights, period, period)


def prefix_matching_score__wrong_token_before(weights, period):
    """Attention to i - period - 1."""
    return _mean_at(weights, period, period + 1)


def prefix_matching_score__wrong_one_too_near(weights, period):
    """Attention to i - (period - 2)."""
    return _mean_at(weights, period, period - 2)


def prefix_matching_score__wrong_first_included(weights, period):
    """The whole diagonal: position period - 1 counts too."""
    n = weights.shape[-1]
    return _zero_if(n <= period, weights, lambda: _diag(weights, 1 - period).mean(-1))


def prefix_matching_score__wrong_starts_later(weights, period):
    """Starts at i = period + 1."""
    return _mean_at(weights, period + 1, period - 1)


def prefix_matching_score__wrong_second_repeat_only(weights, period):
    """Only the positions of the second repeat."""
    return _mean_at(weights, period, period - 1, 2 * period)


def prefix_matching_score__wrong_third_repeat_on(weights, period):
    """Starts at i = 2*period."""
    return _mean_at(weights, 2 * period, period - 1)


def prefix_matching_score__wrong_last_left_out(weights, period):
    """Leaves the last position out ("its next token is not known")."""
    return _mean_at(weights, period, period - 1, weights.shape[-1] - 1)


def prefix_matching_score__wrong_whole_repeats_only(weights, period):
    """Cuts the sequence to a multiple of the period."""
    n = weights.shape[-1] // period * period
    return _mean_at(weights, period, period - 1, n)


def prefix_matching_score__wrong_reshape(weights, period):
    """Cuts the sequence into blocks by reshape: raises when period does not divide n."""
    n = weights.shape[-1]
    blocks = weights.reshape(*weights.shape[:-2], n // period, period, n)
    return _mean_at(blocks.flatten(-3, -2), period, period - 1)


def prefix_matching_score__wrong_nan(weights, period):
    """NaN when n <= period."""
    return _diag(weights, 1 - period)[..., 1:].mean(-1)


def prefix_matching_score__wrong_error(weights, period):
    """A ValueError when n <= period."""
    if weights.shape[-1] <= period:
        raise ValueError("the sequence is too short")
    return _prefix(weights, period)


def prefix_matching_score__wrong_scalar_zero(weights, period):
    """A plain 0 instead of zeros of the shape (...) when n <= period."""
    return 0.0 if weights.shape[-1] <= period else _prefix(weights, period)


def prefix_matching_score__wrong_divided_by_n(weights, period):
    """Divides by n."""
    n = weights.shape[-1]
    return _prefix(weights, period) * max(n - period, 0) / n


def prefix_matching_score__wrong_sum(weights, period):
    """The sum."""
    return _prefix(weights, period) * max(weights.shape[-1] - period, 0)


def prefix_matching_score__wrong_mean_of_all(weights, period):
    """One number for all heads and sequences."""
    return _prefix(weights, period).mean()


def prefix_matching_score__wrong_mean_over_batch(weights, period):
    """Averages over axis 0 too."""
    s = _prefix(weights, period)
    return s.mean(0) if s.ndim else s


def prefix_matching_score__wrong_above(weights, period):
    """The diagonal above the main one: offset period - 1."""
    n = weights.shape[-1]
    return _zero_if(n <= period, weights, lambda: _diag(weights, period - 1)[..., 1:].mean(-1))


def prefix_matching_score__wrong_transposed(weights, period):
    """Rows and columns swapped."""
    return _prefix(weights.mT, period)


def prefix_matching_score__wrong_all_earlier_copies(weights, period):
    """Adds the attention to the same place in all earlier periods."""
    n = weights.shape[-1]
    total = weights.new_zeros(weights.shape[:-2])
    for i in range(period, n):
        total = total + weights[..., i, [j for j in range(i + 1) if (i + 1 - j) % period == 0]].sum(-1)
    return total / max(n - period, 1)


def prefix_matching_score__wrong_argmax_share(weights, period):
    """The share of positions whose largest weight is there."""
    n = weights.shape[-1]
    i = torch.arange(period, max(n, period))
    hits = (weights.argmax(-1)[..., period:] == i - (period - 1)).to(weights.dtype)
    return hits.sum(-1) / max(len(i), 1)


def prefix_matching_score__wrong_first_axes(weights, period):
    """torch.diagonal over the first two axes."""
    d = torch.diagonal(weights, offset=1 - period)[..., 1:]
    return d.mean(-1) if d.shape[-1] else d.sum(-1)


def prefix_matching_score__wrong_not_averaged(weights, period):
    """The attention of each position."""
    return _diag(weights, 1 - period)[..., 1:]


def prefix_matching_score__wrong_in_place(weights, period):
    """Zeroes the first rows of the input before."""
    with torch.no_grad():
        weights[..., :period, :] = 0
    return _prefix(weights, period)


def prefix_matching_score__wrong_detach(weights, period):
    """No gradient."""
    return _prefix(weights, period).detach()


def prefix_matching_score__wrong_float32(weights, period):
    """Always float32."""
    return _prefix(weights, period).float()


def prefix_matching_score__wrong_float64(weights, period):
    """Always float64."""
    return _prefix(weights, period).double()


def prefix_matching_score__wrong_clipped_period(weights, period):
    """The offset from n // period instead of the period (period and repeats mixed up)."""
    return _prefix(weights, max(weights.shape[-1] // period, 1))


# ---------------------------------------------------------------------------------------------------------- ov_circuit


def ov_circuit__right_plain(W_E, W_V, W_O, W_U):
    """The plain one."""
    return W_E @ W_V @ W_O @ W_U


def ov_circuit__right_two_halves(W_E, W_V, W_O, W_U):
    """(W_E W_V)(W_O W_U); prints."""
    print("rank at most", W_V.shape[1])
    return torch.matmul(W_E @ W_V, W_O @ W_U)


def ov_circuit__right_multi_dot(W_E, W_V, W_O, W_U):
    """torch.linalg.multi_dot."""
    return torch.linalg.multi_dot([W_E, W_V, W_O, W_U])


def ov_circuit__right_einsum(W_E, W_V, W_O, W_U):
    """One einsum."""
    return torch.einsum("ad,dv,ve,eb->ab", W_E, W_V, W_O, W_U)


def ov_circuit__right_rows(W_E, W_V, W_O, W_U):
    """One token at a time; a warning."""
    warnings.warn("slow", stacklevel=2)
    return torch.stack([row @ W_V @ W_O @ W_U for row in W_E])


def ov_circuit__right_transposed(W_E, W_V, W_O, W_U):
    """In the columns convention, transposed back; not contiguous."""
    return (W_U.T @ W_O.T @ W_V.T @ W_E.T).T


def ov_circuit__right_float64_outer(W_E, W_V, W_O, W_U):
    """A sum of outer products over the width of the head, in float64."""
    left, right = W_E.double() @ W_V.double(), W_O.double() @ W_U.double()
    return sum(torch.outer(left[:, k], right[k]) for k in range(left.shape[1])).to(W_E.dtype)


def ov_circuit__wrong_transposed(W_E, W_V, W_O, W_U):
    """Rows and columns swapped."""
    return (W_E @ W_V @ W_O @ W_U).T


def ov_circuit__wrong_o_before_v(W_E, W_V, W_O, W_U):
    """W_O and W_V in the wrong order, transposed to fit."""
    return W_E @ W_O.T @ W_V.T @ W_U


def ov_circuit__wrong_v_for_both(W_E, W_V, W_O, W_U):
    """W_V transposed instead of W_O."""
    return W_E @ W_V @ W_V.T @ W_U


def ov_circuit__wrong_o_for_both(W_E, W_V, W_O, W_U):
    """W_O transposed instead of W_V."""
    return W_E @ W_O.T @ W_O @ W_U


def ov_circuit__wrong_e_for_both(W_E, W_V, W_O, W_U):
    """W_E transposed instead of W_U."""
    return W_E @ W_V @ W_O @ W_E.T


def ov_circuit__wrong_u_for_both(W_E, W_V, W_O, W_U):
    """W_U transposed instead of W_E."""
    return W_U.T @ W_V @ W_O @ W_U


def ov_circuit__wrong_no_embedding(W_E, W_V, W_O, W_U):
    """Leaves W_E out: (d_model, vocab)."""
    return W_V @ W_O @ W_U


def ov_circuit__wrong_no_unembedding(W_E, W_V, W_O, W_U):
    """Leaves W_U out: (vocab, d_model)."""
    return W_E @ W_V @ W_O


def ov_circuit__wrong_inner_only(W_E, W_V, W_O, W_U):
    """W_V W_O alone: (d_model, d_model)."""
    return W_V @ W_O


def ov_circuit__wrong_embedding_space(W_E, W_V, W_O, W_U):
    """The direct path W_E W_U without the head."""
    return W_E @ W_U


def ov_circuit__wrong_direct_path_added(W_E, W_V, W_O, W_U):
    """Adds the direct path."""
    return W_E @ W_U + W_E @ W_V @ W_O @ W_U


def ov_circuit__wrong_columns_convention(W_E, W_V, W_O, W_U):
    """The column formula W_U W_O W_V W_E with our shapes: raises."""
    return W_U @ W_O @ W_V @ W_E


def ov_circuit__wrong_softmax(W_E, W_V, W_O, W_U):
    """Softmax over each row."""
    return torch.softmax(W_E @ W_V @ W_O @ W_U, dim=-1)


def ov_circuit__wrong_scaled(W_E, W_V, W_O, W_U):
    """Divides by sqrt(d_v)."""
    return W_E @ W_V @ W_O @ W_U / math.sqrt(W_V.shape[1])


def ov_circuit__wrong_centred(W_E, W_V, W_O, W_U):
    """Subtracts each row's mean."""
    ov = W_E @ W_V @ W_O @ W_U
    return ov - ov.mean(-1, keepdim=True)


def ov_circuit__wrong_normed_embedding(W_E, W_V, W_O, W_U):
    """Embeddings scaled to length one."""
    return W_E / W_E.norm(dim=-1, keepdim=True) @ W_V @ W_O @ W_U


def ov_circuit__wrong_diagonal(W_E, W_V, W_O, W_U):
    """Only the diagonal."""
    return (W_E @ W_V @ W_O @ W_U).diagonal()


def ov_circuit__wrong_mean_token(W_E, W_V, W_O, W_U):
    """Uses the mean embedding for every row."""
    return W_E.mean(0, keepdim=True).expand_as(W_E) @ W_V @ W_O @ W_U


def ov_circuit__wrong_symmetrised(W_E, W_V, W_O, W_U):
    """(M + M^T)/2."""
    ov = W_E @ W_V @ W_O @ W_U
    return (ov + ov.T) / 2


def ov_circuit__wrong_rounded(W_E, W_V, W_O, W_U):
    """Rounds to two decimals."""
    return torch.round(W_E @ W_V @ W_O @ W_U, decimals=2)


def ov_circuit__wrong_float64(W_E, W_V, W_O, W_U):
    """Always float64."""
    return (W_E @ W_V @ W_O @ W_U).double()


def ov_circuit__wrong_float32(W_E, W_V, W_O, W_U):
    """Always float32."""
    return (W_E @ W_V @ W_O @ W_U).float()


def ov_circuit__wrong_detach(W_E, W_V, W_O, W_U):
    """No gradient to the head's weights."""
    return W_E @ (W_V @ W_O).detach() @ W_U


def ov_circuit__wrong_numpy(W_E, W_V, W_O, W_U):
    """A NumPy array."""
    return (W_E @ W_V @ W_O @ W_U).detach().numpy()


def ov_circuit__wrong_in_place(W_E, W_V, W_O, W_U):
    """Centres W_E itself before."""
    with torch.no_grad():
        W_E -= W_E.mean(0)
    return W_E @ W_V @ W_O @ W_U


def ov_circuit__wrong_none(W_E, W_V, W_O, W_U):
    """Prints only."""
    print(W_E @ W_V @ W_O @ W_U)


# ------------------------------------------------------------------------------------------------------- copying_score


def copying_score__right_mask_diagonal(ov):
    """The plain one: the diagonal against the largest of the others."""
    own = torch.diagonal(ov)
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax(dim=-1)
    return (own > others).to(ov.dtype).mean()


def copying_score__right_count(ov):
    """No other entry of the row is as large: counts `>=`, which the own logit fulfils once; a Python float."""
    as_large = (ov >= ov.diagonal().unsqueeze(1)).sum(dim=1)
    return (as_large == 1).sum().item() / ov.shape[0]


def copying_score__right_python_loops(ov):
    """Plain Python; prints."""
    rows = ov.tolist()
    good = sum(all(row[i] > v for j, v in enumerate(row) if j != i) for i, row in enumerate(rows))
    print(good, "of", len(rows))
    return good / len(rows)


def copying_score__right_argmax_and_unique(ov):
    """The argmax is the own token and the maximum occurs once; a NumPy scalar."""
    top = ov.amax(dim=1, keepdim=True)
    good = (ov.argmax(dim=1) == torch.arange(len(ov))) & ((ov == top).sum(dim=1) == 1)
    return good.double().mean().numpy()[()]


def copying_score__right_top_two(ov):
    """topk: the second largest must be smaller; a warning; 0-d float64."""
    warnings.warn("topk", stacklevel=2)
    if ov.shape[0] == 1:
        return torch.ones((), dtype=ov.dtype)
    values, ids = torch.topk(ov, 2, dim=-1)
    return ((ids[:, 0] == torch.arange(len(ov))) & (values[:, 0] > values[:, 1])).double().mean()


def copying_score__right_sorted_differences(ov):
    """Own logit minus each other one: all differences off the diagonal positive."""
    difference = torch.sign(ov.diag()[:, None] - ov)
    return ((difference > 0).sum(dim=1) == ov.shape[1] - 1).float().mean()


def copying_score__right_rows_without_own(ov):
    """Cuts the own column out of each row."""
    n = ov.size(0)
    wins = [bool((ov[i, i] > torch.cat([ov[i, :i], ov[i, i + 1 :]])).all()) for i in range(n)]
    return torch.tensor(wins).to(ov.dtype).mean()


def _share(good):
    """Share of True."""
    return good.to(torch.float64).mean()


def copying_score__right_argmax(ov):
    """argmax: a tie counts where the own token comes first."""
    return _share(ov.argmax(-1) == torch.arange(len(ov)))


def copying_score__right_reaches_the_largest(ov):
    """A tie for the largest counts."""
    return _share(ov.diagonal() >= ov.amax(-1))


def copying_score__right_one_hot_trace(ov):
    """A one-hot row for each largest entry; the trace counts."""
    return torch.nn.functional.one_hot(ov.argmax(-1), len(ov)).trace() / len(ov)


def copying_score__wrong_columns(ov):
    """Largest in the column instead of the row."""
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax(dim=0)
    return _share(ov.diagonal() > others)


def copying_score__wrong_positive_diagonal(ov):
    """The share of positive own logits."""
    return _share(ov.diagonal() > 0)


def copying_score__wrong_diagonal_zeroed(ov):
    """Zero instead of -inf on the diagonal: an own logit below zero never counts."""
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), 0.0).amax(dim=-1)
    return _share(ov.diagonal() > others)


def copying_score__wrong_count(ov):
    """The number of tokens, not the share."""
    return copying_score__right_mask_diagonal(ov) * len(ov)


def copying_score__wrong_percent(ov):
    """In percent."""
    return copying_score__right_mask_diagonal(ov) * 100


def copying_score__wrong_against_itself(ov):
    """Strictly larger than the largest of the whole row, itself included: always 0."""
    return _share(ov.diagonal() > ov.amax(-1))


def copying_score__wrong_above_mean(ov):
    """Own logit above the row's mean."""
    return _share(ov.diagonal() > ov.mean(-1))


def copying_score__wrong_mean_probability(ov):
    """The mean softmax probability of the own token."""
    return torch.softmax(ov, -1).diagonal().mean()


def copying_score__wrong_probability_half(ov):
    """Own probability above one half."""
    return _share(torch.softmax(ov, -1).diagonal() > 0.5)


def copying_score__wrong_trace(ov):
    """The trace over the sum of absolute values."""
    return ov.diagonal().sum() / ov.abs().sum().clamp(min=1e-9)


def copying_score__wrong_eigenvalues(ov):
    """The sum of the eigenvalues over the sum of their absolute values."""
    values = torch.linalg.eigvals(ov)
    return values.real.sum() / values.abs().sum().clamp(min=1e-9)


def copying_score__wrong_mean_diagonal(ov):
    """The mean own logit."""
    return ov.diagonal().mean()


def copying_score__wrong_absolute(ov):
    """Compares absolute values."""
    return copying_score__right_mask_diagonal(ov.abs())


def copying_score__wrong_smallest(ov):
    """The own logit is the smallest."""
    return copying_score__right_mask_diagonal(-ov)


def copying_score__wrong_whole_matrix(ov):
    """Own logit larger than everything off the diagonal."""
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax()
    return _share(ov.diagonal() > others)


def copying_score__wrong_next_token(ov):
    """Checks the token after (the diagonal above)."""
    return _share(ov.argmax(-1) == (torch.arange(len(ov)) + 1) % len(ov)) if len(ov) > 1 else torch.tensor(0.0)


def copying_score__wrong_top_two(ov):
    """Own token among the two largest."""
    return _share((ov > ov.diagonal()[:, None]).sum(-1) < 2)


def copying_score__wrong_margin(ov):
    """Demands a margin of 1."""
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax(dim=-1)
    return _share(ov.diagonal() > others + 1)


def copying_score__wrong_bool(ov):
    """Whether all tokens are copied."""
    return bool(copying_score__right_mask_diagonal(ov) == 1)


def copying_score__wrong_vector(ov):
    """The answer for each token."""
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax(dim=-1)
    return ov.diagonal() > others


def copying_score__wrong_in_place(ov):
    """Overwrites the diagonal of the input."""
    own = ov.diagonal().clone()
    ov.data.fill_diagonal_(-math.inf)
    return _share(own > ov.amax(-1))


def copying_score__wrong_off_by_one(ov):
    """Divides by vocab - 1."""
    return copying_score__right_mask_diagonal(ov) * len(ov) / max(len(ov) - 1, 1)


def copying_score__wrong_first_left_out(ov):
    """Leaves token 0 out."""
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax(dim=-1)
    good = (ov.diagonal() > others)[1:].double()
    return good.sum() / max(len(good), 1)


def copying_score__wrong_rounded(ov):
    """Rounds the share to one decimal."""
    return round(float(copying_score__right_mask_diagonal(ov)), 1)


def copying_score__wrong_symmetrised(ov):
    """Symmetrises the matrix before."""
    return copying_score__right_mask_diagonal((ov + ov.T) / 2)


def copying_score__wrong_always_zero(ov):
    """No token copies, whatever the circuit."""
    return 0.0


def copying_score__wrong_always_one(ov):
    """All tokens copy, whatever the circuit."""
    return torch.ones((), dtype=ov.dtype)


# --------------------------------------------------------------------------------------------------- composition_score


def composition_score__right_plain(W_QK, W_OV):
    """The plain one."""
    below = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if below == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return torch.linalg.matrix_norm(W_QK @ W_OV.T) / below


def composition_score__right_squares(W_QK, W_OV):
    """Sums of squares and one root; prints."""
    if not W_QK.any() or not W_OV.any():
        print("zero circuit")
        return W_QK.sum() * 0 + W_OV.sum() * 0
    product = torch.einsum("ab,cb->ac", W_QK, W_OV)
    return product.square().sum().sqrt() / (W_QK.square().sum().sqrt() * W_OV.square().sum().sqrt())


def composition_score__right_rows(W_QK, W_OV):
    """Row by row: W_OV applied to each row of W_QK."""
    product = torch.stack([torch.mv(W_OV, row) for row in W_QK])
    below = torch.linalg.norm(W_QK) * torch.linalg.norm(W_OV)
    return torch.linalg.norm(product) / below if below > 0 else W_QK.new_zeros(())


def composition_score__right_norm_functions(W_QK, W_OV):
    """torch.norm on normed matrices: each divided by its norm first."""
    a, c = torch.norm(W_QK), torch.norm(W_OV)
    if a.item() == 0 or c.item() == 0:
        return 0.0
    return torch.norm((W_QK / a) @ (W_OV / c).mT, p="fro")


def composition_score__right_flat_hypot(W_QK, W_OV):
    """Vector norms of flattened matrices; a warning."""
    warnings.warn("composition", stacklevel=2)
    norms = [torch.linalg.vector_norm(M.flatten()) for M in (W_QK @ W_OV.transpose(0, 1), W_QK, W_OV)]
    return norms[0] / norms[1] / norms[2] if norms[1] > 0 and norms[2] > 0 else torch.tensor(0, dtype=W_QK.dtype)


def composition_score__right_transposed_product(W_QK, W_OV):
    """The norm of the transposed product W_OV W_QK^T, which is the same; where instead of if."""
    top, a, c = (torch.linalg.matrix_norm(M) for M in (W_OV @ W_QK.T, W_QK, W_OV))
    below = a * c
    return torch.where(below > 0, top / torch.where(below > 0, below, 1.0), 0.0)


def composition_score__right_gram(W_QK, W_OV):
    """||A B^T||^2 is the sum over (A^T A) * (B^T B): no product of the two circuits."""
    if not W_QK.any() or not W_OV.any():
        return 0
    A, B = W_QK.T @ W_QK, W_OV.T @ W_OV
    return ((A * B).sum() / (A.trace() * B.trace())) ** 0.5


def composition_score__right_one_if_zero(W_QK, W_OV):
    """No branch: a denominator of 0 becomes 1."""
    below = torch.linalg.norm(W_QK) * torch.linalg.norm(W_OV)
    return torch.linalg.norm(W_QK @ W_OV.T) / (below + (below == 0))


def _fro(M):
    """The Frobenius norm."""
    return torch.linalg.matrix_norm(M)


def _ratio(top, W_QK, W_OV):
    """top over the product of the norms, 0 if that is 0."""
    below = _fro(W_QK) * _fro(W_OV)
    return top / below if below > 0 else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_no_transpose(W_QK, W_OV):
    """W_QK W_OV without the transpose."""
    return _ratio(_fro(W_QK @ W_OV), W_QK, W_OV)


def composition_score__wrong_q_composition(W_QK, W_OV):
    """Q-composition: W_OV W_QK."""
    return _ratio(_fro(W_OV @ W_QK), W_QK, W_OV)


def composition_score__wrong_qk_transposed(W_QK, W_OV):
    """W_QK^T W_OV."""
    return _ratio(_fro(W_QK.T @ W_OV), W_QK, W_OV)


def composition_score__wrong_both_transposed(W_QK, W_OV):
    """W_QK^T W_OV^T: the columns formula."""
    return _ratio(_fro(W_QK.T @ W_OV.T), W_QK, W_OV)


def composition_score__wrong_nan_at_zero(W_QK, W_OV):
    """NaN for a zero matrix."""
    return _fro(W_QK @ W_OV.T) / (_fro(W_QK) * _fro(W_OV))


def composition_score__wrong_one_at_zero(W_QK, W_OV):
    """1 for a zero matrix."""
    return _ratio(_fro(W_QK @ W_OV.T), W_QK, W_OV) if W_QK.any() and W_OV.any() else torch.ones((), dtype=W_QK.dtype)


def composition_score__wrong_eps(W_QK, W_OV):
    """Adds 1 to the denominator against zero."""
    return _fro(W_QK @ W_OV.T) / (_fro(W_QK) * _fro(W_OV) + 1)


def composition_score__wrong_not_normed(W_QK, W_OV):
    """The norm of the product alone."""
    return _fro(W_QK @ W_OV.T)


def composition_score__wrong_normed_by_qk(W_QK, W_OV):
    """Divides by the norm of W_QK only."""
    return _fro(W_QK @ W_OV.T) / _fro(W_QK) if W_QK.any() else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_normed_by_ov(W_QK, W_OV):
    """Divides by the norm of W_OV only."""
    return _fro(W_QK @ W_OV.T) / _fro(W_OV) if W_OV.any() else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_squared(W_QK, W_OV):
    """Forgets the roots: the square of the score."""
    return _ratio(_fro(W_QK @ W_OV.T), W_QK, W_OV) ** 2


def composition_score__wrong_numerator_squared(W_QK, W_OV):
    """Forgets the root above the line only."""
    return _ratio((W_QK @ W_OV.T).square().sum(), W_QK, W_OV)


def composition_score__wrong_norm_of_sum(W_QK, W_OV):
    """Divides by the sum of the norms."""
    below = _fro(W_QK) + _fro(W_OV)
    return _fro(W_QK @ W_OV.T) / below if below > 0 else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_precedence(W_QK, W_OV):
    """Forgotten brackets: a / b * c."""
    return _fro(W_QK @ W_OV.T) / _fro(W_QK) * _fro(W_OV) if W_QK.any() else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_spectral(W_QK, W_OV):
    """Spectral norms."""
    below = torch.linalg.matrix_norm(W_QK, 2) * torch.linalg.matrix_norm(W_OV, 2)
    return torch.linalg.matrix_norm(W_QK @ W_OV.T, 2) / below if below > 0 else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_nuclear(W_QK, W_OV):
    """Nuclear norms."""
    below = torch.linalg.matrix_norm(W_QK, "nuc") * torch.linalg.matrix_norm(W_OV, "nuc")
    return torch.linalg.matrix_norm(W_QK @ W_OV.T, "nuc") / below if below > 0 else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_absolute_sums(W_QK, W_OV):
    """Sums of absolute values."""
    below = W_QK.abs().sum() * W_OV.abs().sum()
    return (W_QK @ W_OV.T).abs().sum() / below if below > 0 else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_trace(W_QK, W_OV):
    """The trace of the product: a cosine."""
    return _ratio((W_QK @ W_OV.T).trace(), W_QK, W_OV)


def composition_score__wrong_elementwise(W_QK, W_OV):
    """The elementwise product."""
    return _ratio(_fro(W_QK * W_OV), W_QK, W_OV)


def composition_score__wrong_baseline(W_QK, W_OV):
    """Subtracts 1/sqrt(d), the score of random matrices."""
    return _ratio(_fro(W_QK @ W_OV.T), W_QK, W_OV) - 1 / math.sqrt(W_QK.shape[0])


def composition_score__wrong_both_sides(W_QK, W_OV):
    """Reads both sides through W_OV: W_OV W_QK W_OV^T."""
    return _ratio(_fro(W_OV @ W_QK @ W_OV.T), W_QK, W_OV)


def composition_score__wrong_identity(W_QK, W_OV):
    """Adds the direct path: W_QK (I + W_OV)^T."""
    eye = torch.eye(W_OV.shape[0], dtype=W_OV.dtype)
    return _ratio(_fro(W_QK @ (eye + W_OV).T), W_QK, W_OV)


def composition_score__wrong_row_norms(W_QK, W_OV):
    """A norm for each row."""
    return (W_QK @ W_OV.T).norm(dim=-1) / (W_QK.norm(dim=-1) * W_OV.norm(dim=-1)).clamp(min=1e-12)


def composition_score__wrong_matrix(W_QK, W_OV):
    """The normed product itself."""
    return _ratio(W_QK @ W_OV.T, W_QK, W_OV)


def composition_score__wrong_in_place(W_QK, W_OV):
    """Norms the inputs themselves."""
    for M in (W_QK, W_OV):
        M.data /= _fro(M.data).clamp(min=1e-30)
    return _fro(W_QK @ W_OV.T)


def composition_score__wrong_tuple(W_QK, W_OV):
    """A tuple (score, product)."""
    product = W_QK @ W_OV.T
    return _ratio(_fro(product), W_QK, W_OV), product


def composition_score__wrong_rounded(W_QK, W_OV):
    """Rounds to one decimal."""
    return torch.round(_ratio(_fro(W_QK @ W_OV.T), W_QK, W_OV), decimals=1)


# --------------------------------------------------------------------------------------------------------- ablate_head


def ablate_head__right_clone(head_outputs, head):
    """The plain one: a copy with a zero head."""
    out = head_outputs.clone()
    out[:, head] = 0
    return out


def ablate_head__right_mask_product(head_outputs, head):
    """Times a mask of ones with one zero."""
    keep = torch.ones(head_outputs.shape[1], dtype=head_outputs.dtype)
    keep[head] = 0
    return head_outputs * keep.view(1, -1, 1, 1)


def ablate_head__right_where(head_outputs, head):
    """torch.where on the head's number; prints."""
    number = torch.arange(head_outputs.shape[1])[:, None, None]
    print("ablating", head)
    return torch.where(number == head, torch.zeros_like(head_outputs), head_outputs)


def ablate_head__right_cat(head_outputs, head):
    """The heads before, zeros, the heads after."""
    before, after = head_outputs[:, :head], head_outputs[:, head + 1 :]
    return torch.cat([before, torch.zeros_like(head_outputs[:, head : head + 1]), after], dim=1)


def ablate_head__right_index_fill(head_outputs, head):
    """index_fill; a warning."""
    warnings.warn("index_fill", stacklevel=2)
    return head_outputs.index_fill(1, torch.tensor([head]), 0.0)


def ablate_head__right_einsum(head_outputs, head):
    """A diagonal matrix over the heads; not contiguous."""
    h = head_outputs.shape[1]
    D = torch.diag(torch.tensor([float(i != head) for i in range(h)], dtype=head_outputs.dtype))
    return torch.einsum("bgnd,gh->nbhd", head_outputs, D).movedim(0, 2)


def ablate_head__right_list(head_outputs, head):
    """A list of heads, stacked."""
    heads = list(head_outputs.unbind(dim=1))
    heads[head] = heads[head] * 0.0
    return torch.stack(heads, 1)


def ablate_head__right_difference(head_outputs, head):
    """Everything less that head."""
    only = torch.zeros_like(head_outputs)
    only[:, head] = head_outputs[:, head]
    return head_outputs - only


def ablate_head__wrong_in_place(head_outputs, head):
    """Zeroes the head in the input itself."""
    with torch.no_grad():
        head_outputs[:, head] = 0
    return head_outputs


def ablate_head__wrong_view(head_outputs, head):
    """A view instead of a copy, zeroed through .data: the input changes."""
    out = head_outputs.view(head_outputs.shape)
    out.data[:, head] = 0
    return out


def ablate_head__wrong_batch_axis(head_outputs, head):
    """Zeroes sequence number `head`."""
    number = torch.arange(head_outputs.shape[0])[:, None, None, None]
    return head_outputs * (number != head)


def ablate_head__wrong_token_axis(head_outputs, head):
    """Zeroes token number `head`."""
    number = torch.arange(head_outputs.shape[2])[:, None]
    return head_outputs * (number != head)


def ablate_head__wrong_feature_axis(head_outputs, head):
    """Zeroes column number `head`."""
    return head_outputs * (torch.arange(head_outputs.shape[3]) != head)


def ablate_head__wrong_column_block(head_outputs, head):
    """Zeroes the head's block of d_model/h columns in every head."""
    width = max(head_outputs.shape[3] // head_outputs.shape[1], 1)
    column = torch.arange(head_outputs.shape[3]) // width
    return head_outputs * (column != head)


def ablate_head__wrong_keeps_only(head_outputs, head):
    """Keeps only that head."""
    out = torch.zeros_like(head_outputs)
    out[:, head] = head_outputs[:, head]
    return out


def ablate_head__wrong_removed(head_outputs, head):
    """Cuts the head out: h - 1 heads are left."""
    return torch.cat([head_outputs[:, :head], head_outputs[:, head + 1 :]], dim=1)


def ablate_head__wrong_summed(head_outputs, head):
    """Sums the other heads: (B, n, d_model)."""
    return head_outputs.sum(1) - head_outputs[:, head]


def ablate_head__wrong_mean_ablation(head_outputs, head):
    """The head's mean over the batch and the tokens instead of zero."""
    out = head_outputs.clone()
    out[:, head] = head_outputs[:, head].mean(dim=(0, 1))
    return out


def ablate_head__wrong_mean_of_others(head_outputs, head):
    """The mean over all heads instead of zero."""
    out = head_outputs.clone()
    out[:, head] = head_outputs.mean(dim=1)
    return out


def ablate_head__wrong_one_based(head_outputs, head):
    """Counts heads from 1."""
    out = head_outputs.clone()
    out[:, head - 1] = 0
    return out


def ablate_head__wrong_next_head(head_outputs, head):
    """Off by one: zeroes head + 1."""
    out = head_outputs.clone()
    out[:, head + 1 : head + 2] = 0
    return out


def ablate_head__wrong_from_head_on(head_outputs, head):
    """Zeroes that head and all after it."""
    out = head_outputs.clone()
    out[:, head:] = 0
    return out


def ablate_head__wrong_up_to_head(head_outputs, head):
    """Zeroes all heads up to it."""
    out = head_outputs.clone()
    out[:, : head + 1] = 0
    return out


def ablate_head__wrong_slice_stops_early(head_outputs, head):
    """Zeroes the heads before it: [:head]."""
    out = head_outputs.clone()
    out[:, :head] = 0
    return out


def ablate_head__wrong_zero_is_falsy(head_outputs, head):
    """`if head`: head 0 is never ablated."""
    out = head_outputs.clone()
    if head:
        out[:, head] = 0
    return out


def ablate_head__wrong_first_sequence(head_outputs, head):
    """Only in the first sequence."""
    out = head_outputs.clone()
    out[0, head] = 0
    return out


def ablate_head__wrong_last_token(head_outputs, head):
    """Only at the last token."""
    out = head_outputs.clone()
    out[:, head, -1] = 0
    return out


def ablate_head__wrong_rescaled(head_outputs, head):
    """Scales the others up by h/(h - 1), as dropout does."""
    h = head_outputs.shape[1]
    return ablate_head__right_clone(head_outputs, head) * (h / max(h - 1, 1))


def ablate_head__wrong_negated(head_outputs, head):
    """Changes the head's sign."""
    out = head_outputs.clone()
    out[:, head] = -head_outputs[:, head]
    return out


def ablate_head__wrong_ones(head_outputs, head):
    """Sets the head to one."""
    out = head_outputs.clone()
    out[:, head] = 1
    return out


def ablate_head__wrong_unchanged(head_outputs, head):
    """Multiplies a copy that is thrown away."""
    head_outputs[:, head].mul(0)
    return head_outputs.clone()


def ablate_head__wrong_detach(head_outputs, head):
    """No gradient."""
    out = head_outputs.detach().clone()
    out[:, head] = 0
    return out


def ablate_head__wrong_float32(head_outputs, head):
    """Copies into a buffer of the default dtype."""
    out = torch.zeros(head_outputs.shape)
    for i in range(head_outputs.shape[1]):
        if i != head:
            out[:, i] = head_outputs[:, i]
    return out


def ablate_head__wrong_float64(head_outputs, head):
    """Always float64."""
    return ablate_head__right_clone(head_outputs, head).double()


def ablate_head__wrong_numpy(head_outputs, head):
    """A NumPy array."""
    return ablate_head__right_clone(head_outputs, head).detach().numpy()


def ablate_head__wrong_list(head_outputs, head):
    """A list of heads."""
    return list(ablate_head__right_clone(head_outputs, head).unbind(1))


def ablate_head__wrong_squeeze(head_outputs, head):
    """squeeze() drops axes of length 1."""
    return ablate_head__right_clone(head_outputs, head).squeeze()


def ablate_head__wrong_none(head_outputs, head):
    """Zeroes a copy, returns nothing."""
    head_outputs = head_outputs.clone()
    head_outputs[:, head] = 0


def ablate_head__wrong_rescaled_without_guard(head_outputs, head):
    """The rest times h / (h - 1), as dropout does; a single head divides by zero."""
    kept = ablate_head__right_clone(head_outputs, head)
    h = head_outputs.shape[1]
    return kept * (h / (h - 1))


# ------------------------------------------------------------------------------------------- in_context_learning_score


def in_context_learning_score__right_plain(losses, early, late):
    """The plain one."""
    return losses[:, late].mean() - losses[:, early].mean()


def in_context_learning_score__right_difference_first(losses, early, late):
    """The mean of the differences."""
    return torch.mean(losses[:, late] - losses[:, early])


def in_context_learning_score__right_mean_row(losses, early, late):
    """The mean loss of every position first; prints."""
    curve = losses.mean(dim=0)
    print("positions", len(curve))
    return curve[late] - curve[early]


def in_context_learning_score__right_loop(losses, early, late):
    """A loop over the sequences; a warning."""
    warnings.warn("loop", stacklevel=2)
    total = 0
    for row in losses:
        total = total + row[late] - row[early]
    return total / len(losses)


def in_context_learning_score__right_unbind(losses, early, late):
    """Columns by unbind, sums over B."""
    columns = losses.unbind(dim=1)
    return (columns[late].sum() - columns[early].sum()) / losses.shape[0]


def in_context_learning_score__right_contrast(losses, early, late):
    """A product with a contrast vector of +1 and -1 (0 where late = early)."""
    contrast = torch.zeros(losses.shape[1], dtype=losses.dtype)
    contrast[late] += 1
    contrast[early] -= 1
    return (losses @ contrast).mean()


def _icl(losses, early, late):
    """The score, right."""
    return (losses[:, late] - losses[:, early]).mean()


def in_context_learning_score__wrong_sign(losses, early, late):
    """early minus late."""
    return -_icl(losses, early, late)


def in_context_learning_score__wrong_absolute(losses, early, late):
    """The absolute value."""
    return _icl(losses, early, late).abs()


def in_context_learning_score__wrong_batch_axis(losses, early, late):
    """Rows instead of columns."""
    B = losses.shape[0]
    return losses[late % B].mean() - losses[early % B].mean()


def in_context_learning_score__wrong_from_late_on(losses, early, late):
    """The mean from position late on minus the mean before early."""
    return losses[:, late:].mean() - losses[:, : early + 1].mean()


def in_context_learning_score__wrong_up_to(losses, early, late):
    """Means over all positions up to late and up to early."""
    return losses[:, : late + 1].mean() - losses[:, : early + 1].mean()


def in_context_learning_score__wrong_one_based(losses, early, late):
    """Counts positions from 1."""
    return losses[:, late - 1].mean() - losses[:, early - 1].mean()


def in_context_learning_score__wrong_late_off_by_one(losses, early, late):
    """Takes late - 1 for late only."""
    return losses[:, late - 1].mean() - losses[:, early].mean()


def in_context_learning_score__wrong_last_position(losses, early, late):
    """The last position instead of late."""
    return losses[:, -1].mean() - losses[:, early].mean()


def in_context_learning_score__wrong_first_position(losses, early, late):
    """The first position instead of early."""
    return losses[:, late].mean() - losses[:, 0].mean()


def in_context_learning_score__wrong_mean_between(losses, early, late):
    """The mean loss between early and late."""
    low, high = min(early, late), max(early, late)
    return losses[:, low : high + 1].mean()


def in_context_learning_score__wrong_ratio(losses, early, late):
    """The quotient."""
    return losses[:, late].mean() / losses[:, early].mean()


def in_context_learning_score__wrong_relative(losses, early, late):
    """The difference relative to the early loss."""
    return _icl(losses, early, late) / losses[:, early].mean()


def in_context_learning_score__wrong_per_token(losses, early, late):
    """Divides by the distance late - early."""
    return _icl(losses, early, late) / max(abs(late - early), 1)


def in_context_learning_score__wrong_sum(losses, early, late):
    """Sums over the batch."""
    return (losses[:, late] - losses[:, early]).sum()


def in_context_learning_score__wrong_first_sequence(losses, early, late):
    """Only the first sequence."""
    return losses[0, late] - losses[0, early]


def in_context_learning_score__wrong_per_sequence(losses, early, late):
    """One value for each sequence."""
    return losses[:, late] - losses[:, early]


def in_context_learning_score__wrong_perplexity(losses, early, late):
    """Perplexities instead of losses."""
    return losses[:, late].mean().exp() - losses[:, early].mean().exp()


def in_context_learning_score__wrong_bits(losses, early, late):
    """In bits."""
    return _icl(losses, early, late) / math.log(2)


def in_context_learning_score__wrong_median(losses, early, late):
    """Medians."""
    return losses[:, late].median() - losses[:, early].median()


def in_context_learning_score__wrong_precedence(losses, early, late):
    """Forgets the mean of the second term."""
    return losses[:, late].mean() - losses[:, early].sum()


def in_context_learning_score__wrong_clamped(losses, early, late):
    """At most zero: a positive score is cut off."""
    return _icl(losses, early, late).clamp(max=0)


def in_context_learning_score__wrong_fixed_positions(losses, early, late):
    """Always the positions 50 and 500 (at most the last one)."""
    last = losses.shape[1] - 1
    return losses[:, min(500, last)].mean() - losses[:, min(50, last)].mean()


def in_context_learning_score__wrong_sorted(losses, early, late):
    """Swaps the positions when late < early."""
    return _icl(losses, min(early, late), max(early, late))


def in_context_learning_score__wrong_in_place(losses, early, late):
    """Subtracts the early loss from the input."""
    losses.data.sub_(losses.data[:, early : early + 1].clone())
    return losses[:, late].mean()


def in_context_learning_score__wrong_divided_by_tokens(losses, early, late):
    """Divides by n instead of B."""
    return (losses[:, late] - losses[:, early]).sum() / losses.shape[1]


def in_context_learning_score__wrong_rounded(losses, early, late):
    """Rounds to one decimal."""
    return torch.round(_icl(losses, early, late), decimals=1)


def in_context_learning_score__wrong_tuple(losses, early, late):
    """The two means as a tuple."""
    return losses[:, late].mean(), losses[:, early].mean()


def in_context_learning_score__wrong_print(losses, early, late):
    """Prints the score."""
    print(_icl(losses, early, late))


def in_context_learning_score__wrong_ranges(losses, early, late):
    """Everything from late on, less everything before early."""
    return losses[:, late:].mean() - losses[:, :early].mean()


# ---------------------------------------------------------------------------------------------- build_induction_circuit


def _circuit(vocab, n_ctx, *, previous=300.0, step=12.0, match=None, back=1, scale_1=True, scale_2=True):
    """The usual circuit: token, position, copied token, output in four blocks of one-hot columns.

    `previous`: score of the previous token in layer 1; `step`: what a later key is worth in layer 2 per position;
    `match`: score of a key whose copied token is the query's token; `back`: how far layer 1 looks back."""
    v, n = vocab, n_ctx
    d = 3 * v + n
    tok, pos, cop, out = slice(0, v), slice(v, v + n), slice(v + n, 2 * v + n), slice(2 * v + n, d)
    match = step * (n + 3) + 20 if match is None else match
    W_E, W_pos, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    W_E[:, tok], W_pos[:, pos], W_U[out] = torch.eye(v), torch.eye(n), 20 * torch.eye(v)
    first = {"W_Q": torch.zeros(d, n), "W_K": torch.zeros(d, n), "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)}
    first["W_Q"][pos] = previous * (math.sqrt(n) if scale_1 else 1) * torch.eye(n).roll(-back, 1)
    if 0 < back < n:
        first["W_Q"][v : v + back] = 0
    first["W_K"][pos] = torch.eye(n)
    first["W_V"][tok], first["W_O"][:, cop] = torch.eye(v), torch.eye(v)
    w = v + 1
    second = {"W_Q": torch.zeros(d, w), "W_K": torch.zeros(d, w), "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)}
    root = math.sqrt(w) if scale_2 else 1.0
    second["W_Q"][tok, :v], second["W_Q"][pos, v] = match * root * torch.eye(v), step * root
    second["W_K"][cop, :v], second["W_K"][pos, v] = torch.eye(v), torch.arange(n, dtype=torch.float32)
    second["W_V"][tok], second["W_O"][:, out] = torch.eye(v), torch.eye(v)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_one_hot(vocab_size, n_ctx):
    """The plain one: one-hot blocks of columns, a previous-token head, a match with a preference for later keys."""
    return _circuit(vocab_size, n_ctx)


def _rotate(weights, R):
    """The same model in another basis: x -> x R for an orthogonal R."""
    blocks = [
        {k: R.T @ b[k] for k in ("W_Q", "W_K", "W_V")} | {"W_O": b["W_O"] @ R}  # a new basis for the stream only
        for b in weights["blocks"]
    ]
    return {"W_E": weights["W_E"] @ R, "W_pos": weights["W_pos"] @ R, "W_U": R.T @ weights["W_U"], "blocks": blocks}


def _to(weights, dtype):
    """The same weights in another dtype."""
    blocks = [{k: W.to(dtype) for k, W in b.items()} for b in weights["blocks"]]
    return {k: W.to(dtype) for k, W in weights.items() if k != "blocks"} | {"blocks": blocks}


def build_induction_circuit__right_cosine_basis(vocab_size, n_ctx):
    """The same circuit in a rotated basis (the discrete cosine transform): no column means anything by itself."""
    weights = _to(_circuit(vocab_size, n_ctx), torch.float64)
    d = weights["W_E"].shape[1]
    k = torch.arange(d, dtype=torch.float64)
    R = torch.cos(math.pi / d * (k[None, :] + 0.5) * k[:, None]) * math.sqrt(2 / d)
    R[0] /= math.sqrt(2)
    return _to(_rotate(weights, R), torch.float32)


def build_induction_circuit__right_pointer(vocab_size, n_ctx):
    """Another mechanism: layer 1 finds the last place of the same token and copies its position; layer 2 goes to the
    position after."""
    v, n = vocab_size, n_ctx
    d = 2 * v + 2 * n
    tok, pos, ptr, out = slice(0, v), slice(v, v + n), slice(v + n, v + 2 * n), slice(v + 2 * n, d)
    step = 12.0
    match = step * (n + 3) + 20
    W_E, W_pos, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    W_E[:, tok], W_pos[:, pos], W_U[out] = torch.eye(v), torch.eye(n), 20 * torch.eye(v)
    w = v + n + 1
    first = {"W_Q": torch.zeros(d, w), "W_K": torch.zeros(d, w), "W_V": torch.zeros(d, n), "W_O": torch.zeros(n, d)}
    first["W_Q"][tok, :v], first["W_K"][tok, :v] = match * math.sqrt(w) * torch.eye(v), torch.eye(v)
    first["W_Q"][pos, v : v + n], first["W_K"][pos, v : v + n] = -2 * match * math.sqrt(w) * torch.eye(n), torch.eye(n)
    first["W_Q"][pos, -1], first["W_K"][pos, -1] = step * math.sqrt(w), torch.arange(n, dtype=torch.float32)
    first["W_V"][pos], first["W_O"][:, ptr] = torch.eye(n), torch.eye(n)
    second = {"W_Q": torch.zeros(d, n), "W_K": torch.zeros(d, n), "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)}
    second["W_Q"][ptr] = 60 * math.sqrt(n) * torch.diag(torch.ones(n - 1), 1)
    second["W_K"][pos] = torch.eye(n)
    second["W_V"][tok], second["W_O"][:, out] = torch.eye(v), torch.eye(v)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_codes_and_circle(vocab_size, n_ctx):
    """Few columns: tokens as +-1 codes of their bits, positions on a half circle; prints."""
    v, n = vocab_size, n_ctx
    bits = max(1, (v - 1).bit_length())
    code = torch.tensor([[1.0 if t >> k & 1 else -1.0 for k in range(bits)] for t in range(v)])
    d = 3 * bits + 4
    tok, cop, out = slice(0, bits), slice(bits, 2 * bits), slice(2 * bits, 3 * bits)
    cos, sin, one, place = range(3 * bits, d)
    angle = math.pi / n
    W_E, W_pos, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    W_E[:, tok], W_U[out] = code, 10 * code.T
    theta = torch.arange(n, dtype=torch.float64) * angle
    W_pos[:, cos], W_pos[:, sin] = theta.cos().float(), theta.sin().float()
    W_pos[:, one], W_pos[:, place] = 1.0, torch.arange(n, dtype=torch.float32)
    sharp = 40 / (1 - math.cos(angle))
    turn = (
        sharp * math.sqrt(2) * torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    )
    first = {
        "W_Q": torch.zeros(d, 2),
        "W_K": torch.zeros(d, 2),
        "W_V": torch.zeros(d, bits),
        "W_O": torch.zeros(bits, d),
    }
    first["W_Q"][[cos, sin]], first["W_K"][[cos, sin]] = turn, torch.eye(2)
    first["W_V"][tok], first["W_O"][:, cop] = torch.eye(bits), torch.eye(bits)
    w, step = bits + 1, 12.0
    match = (step * (n + 3) + 20) / 2
    second = {k: torch.zeros(d, w) for k in ("W_Q", "W_K")} | {"W_V": torch.zeros(d, bits), "W_O": torch.zeros(bits, d)}
    second["W_Q"][tok, :bits], second["W_Q"][one, bits] = match * math.sqrt(w) * torch.eye(bits), step * math.sqrt(w)
    second["W_K"][cop, :bits], second["W_K"][place, bits] = torch.eye(bits), 1.0
    second["W_V"][tok], second["W_O"][:, out] = torch.eye(bits), torch.eye(bits)
    print("d_model", d)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_full_width_tables(vocab_size, n_ctx):
    """Whole score tables: W_K is the identity (d_head = d_model), W_Q holds what each query column wants of each key
    column, also a table of distances between positions; W_V is the identity too."""
    v, n = vocab_size, n_ctx
    d = 3 * v + n
    tok, pos, cop, out = (torch.arange(a, b) for a, b in ((0, v), (v, v + n), (v + n, 2 * v + n), (2 * v + n, d)))
    eye = torch.eye(d)
    root = d**0.5
    Q_1, Q_2, O_1, O_2 = (torch.zeros(d, d) for _ in range(4))
    i = torch.arange(n)
    Q_1[v : v + n, v : v + n] = torch.where(i[:, None] - i[None, :] == 1, 400 * root, 0.0)
    O_1[tok, cop] = 1.0
    distance = (i[:, None] - i[None, :]).clamp(min=0).float()
    Q_2[v : v + n, v : v + n] = -11 * root * distance
    Q_2[tok, cop] = root * (11 * (n + 2) + 25)
    O_2[tok, out] = 1.0
    W_U = torch.zeros(d, v)
    W_U[out, torch.arange(v)] = 5.0
    blocks = [
        {"W_Q": Q_1, "W_K": eye.clone(), "W_V": eye.clone(), "W_O": O_1},
        {"W_Q": Q_2, "W_K": eye.clone(), "W_V": eye.clone(), "W_O": O_2},
    ]
    return {"W_E": eye[tok].clone(), "W_pos": eye[pos].clone(), "W_U": W_U, "blocks": blocks}


def build_induction_circuit__right_tied_unembedding(vocab_size, n_ctx):
    """W_U = W_E^T: layer 2 writes the next token with weight 50 over the current one; a warning; non-contiguous W_U."""
    warnings.warn("tied weights", stacklevel=2)
    weights, v = _circuit(vocab_size, n_ctx), vocab_size
    weights["W_U"] = weights["W_E"].T
    weights["blocks"][1]["W_O"] = torch.zeros_like(weights["blocks"][1]["W_O"])
    weights["blocks"][1]["W_O"][:, :v] = 50 * torch.eye(v)
    return weights


def build_induction_circuit__right_start_excluded(vocab_size, n_ctx):
    """Position 0, which can only copy itself, is pushed away as a key; all logits shifted by the same amount."""
    weights, v = _circuit(vocab_size, n_ctx), vocab_size
    weights["blocks"][1]["W_K"][v, v] = -20.0
    weights["W_U"] = weights["W_U"] - 3.0 * (weights["W_U"] > 0).float().sum(1, keepdim=True)
    return weights


def build_induction_circuit__right_entry_by_entry(vocab_size, n_ctx):
    """Filled entry by entry in Python lists; values and logits with other gains; heads padded with zero columns."""
    v, n, step = vocab_size, n_ctx, 15.0
    d, w = 3 * v + n, v + 5
    zeros = lambda rows, cols: [[0.0] * cols for _ in range(rows)]  # noqa: E731
    E, P, U = zeros(v, d), zeros(n, d), zeros(d, v)
    a = {"W_Q": zeros(d, n + 2), "W_K": zeros(d, n + 2), "W_V": zeros(d, v), "W_O": zeros(v, d)}
    b = {"W_Q": zeros(d, w), "W_K": zeros(d, w), "W_V": zeros(d, v), "W_O": zeros(v, d)}
    for t in range(v):
        E[t][t] = 1.0
        a["W_V"][t][t] = 4.0
        a["W_O"][t][v + n + t] = 0.25
        b["W_Q"][t][t] = (step * (n + 3) + 30) * math.sqrt(w)
        b["W_K"][v + n + t][t] = 1.0
        b["W_V"][t][t] = 7.0
        b["W_O"][t][2 * v + n + t] = 2.0
        U[2 * v + n + t][t] = 1.0
    for i in range(n):
        P[i][v + i] = 1.0
        a["W_K"][v + i][i] = 1.0
        if i > 0:
            a["W_Q"][v + i][i - 1] = 200 * math.sqrt(n + 2)
        b["W_Q"][v + i][v] = math.sqrt(w)
        b["W_K"][v + i][v] = step * i
    blocks = [{k: torch.tensor(M) for k, M in layer.items()} for layer in (a, b)]
    return {"W_E": torch.tensor(E), "W_pos": torch.tensor(P), "W_U": torch.tensor(U), "blocks": blocks}


def build_induction_circuit__wrong_breaks_at_third_repeat(vocab_size, n_ctx):
    """No preference for later keys: from the third repeat on the attention is shared with older copies."""
    return _circuit(vocab_size, n_ctx, step=0.0, match=60.0)


def build_induction_circuit__wrong_prefers_oldest(vocab_size, n_ctx):
    """Prefers earlier keys: attends to the first copy, and to position 0, which copied itself."""
    return _circuit(vocab_size, n_ctx, step=-12.0, match=12.0 * (n_ctx + 3) + 20)


def build_induction_circuit__wrong_step_too_small(vocab_size, n_ctx):
    """A preference of 0.5 per position: too soft between neighbouring copies (and at the first position)."""
    return _circuit(vocab_size, n_ctx, step=0.5)


def build_induction_circuit__wrong_step_as_fraction(vocab_size, n_ctx):
    """A preference of 4 over the whole context: next to nothing between two copies."""
    return _circuit(vocab_size, n_ctx, step=4.0 / n_ctx, match=60.0)


def build_induction_circuit__wrong_recency_beats_match(vocab_size, n_ctx):
    """The preference for later keys is larger than the match: always attends to itself."""
    return _circuit(vocab_size, n_ctx, step=12.0, match=5.0)


def build_induction_circuit__wrong_too_soft(vocab_size, n_ctx):
    """All scores of order one: the attention is nearly flat."""
    return _circuit(vocab_size, n_ctx, previous=2.0, step=0.05, match=2.0)


def build_induction_circuit__wrong_first_layer_too_soft(vocab_size, n_ctx):
    """The previous-token head has a score of 2 only: the copied tokens are a mixture."""
    return _circuit(vocab_size, n_ctx, previous=2.0)


def build_induction_circuit__wrong_forgot_the_root(vocab_size, n_ctx):
    """Scores of 5 without the factor sqrt(d_head) that the model divides by."""
    return _circuit(vocab_size, n_ctx, previous=5.0, step=5.0, match=5.0 * (n_ctx + 3), scale_1=False, scale_2=False)


def build_induction_circuit__wrong_attends_to_own_token(vocab_size, n_ctx):
    """The first layer copies the token itself: layer 2 finds its own token (and predicts it)."""
    return _circuit(vocab_size, n_ctx, back=0)


def build_induction_circuit__wrong_two_back(vocab_size, n_ctx):
    """Layer 1 looks two tokens back: layer 2 lands two after the match."""
    return _circuit(vocab_size, n_ctx, back=min(2, n_ctx))


def build_induction_circuit__wrong_looks_ahead(vocab_size, n_ctx):
    """Layer 1 looks for the next token, which the causal mask hides."""
    weights = _circuit(vocab_size, n_ctx)
    first = weights["blocks"][0]
    first["W_Q"], first["W_K"] = first["W_K"] * 300 * math.sqrt(n_ctx), first["W_Q"] / (300 * math.sqrt(n_ctx))
    return weights


def build_induction_circuit__wrong_layers_swapped(vocab_size, n_ctx):
    """The blocks in reverse order."""
    weights = _circuit(vocab_size, n_ctx)
    return {**weights, "blocks": weights["blocks"][::-1]}


def build_induction_circuit__wrong_query_and_key_swapped(vocab_size, n_ctx):
    """W_Q and W_K of layer 2 swapped: Q-composition, the copied token looks for the token."""
    weights = _circuit(vocab_size, n_ctx)
    second = weights["blocks"][1]
    second["W_Q"], second["W_K"] = second["W_K"], second["W_Q"]
    return weights


def build_induction_circuit__wrong_predicts_current(vocab_size, n_ctx):
    """The right attention, but W_U reads the token's own columns."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_U"] = 20 * weights["W_E"].T.clone()
    return weights


def build_induction_circuit__wrong_value_of_copied_token(vocab_size, n_ctx):
    """The right attention, but the value is the copied (previous) token: predicts the current one."""
    weights, v = _circuit(vocab_size, n_ctx), vocab_size
    W_V = torch.zeros_like(weights["blocks"][1]["W_V"])
    W_V[v + n_ctx : 2 * v + n_ctx] = torch.eye(v)
    weights["blocks"][1]["W_V"] = W_V
    return weights


def build_induction_circuit__wrong_tied_too_weak(vocab_size, n_ctx):
    """W_U = W_E^T with gain 0.5: the current token's own logit wins."""
    weights, v = _circuit(vocab_size, n_ctx), vocab_size
    W_O = torch.zeros_like(weights["blocks"][1]["W_O"])
    W_O[:, :v] = 0.5 * torch.eye(v)
    weights["blocks"][1]["W_O"], weights["W_U"] = W_O, weights["W_E"].T.clone()
    return weights


def build_induction_circuit__wrong_negative_logits(vocab_size, n_ctx):
    """The sign of the unembedding: the next token is the least likely."""
    weights = _circuit(vocab_size, n_ctx)
    return {**weights, "W_U": -weights["W_U"]}


def build_induction_circuit__wrong_no_output(vocab_size, n_ctx):
    """Forgets W_O of layer 2: the attention is right, all logits are zero."""
    weights = _circuit(vocab_size, n_ctx)
    weights["blocks"][1]["W_O"].zero_()
    return weights


def build_induction_circuit__wrong_shifted_tokens(vocab_size, n_ctx):
    """Off by one in the unembedding: logit t + 1 for token t."""
    weights = _circuit(vocab_size, n_ctx)
    return {**weights, "W_U": weights["W_U"].roll(1, 1)}


def build_induction_circuit__wrong_small_vocab_only(vocab_size, n_ctx):
    """Only four columns for tokens: token t and t + 4 look alike."""
    weights, v = _circuit(vocab_size, n_ctx), vocab_size
    weights["W_E"] = weights["W_E"][torch.arange(v) % 4].clone()
    return weights


def build_induction_circuit__wrong_last_token_missing(vocab_size, n_ctx):
    """Off by one: the last token of the vocabulary has no embedding."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_E"][-1] = 0
    return weights


def build_induction_circuit__wrong_token_zero_missing(vocab_size, n_ctx):
    """Token 0 is taken for padding: its embedding is zero."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_E"][0] = 0
    return weights


def build_induction_circuit__wrong_half_context(vocab_size, n_ctx):
    """Position codes for the first half of the context only; the rest share one."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_pos"][n_ctx // 2 :] = weights["W_pos"][max(n_ctx // 2 - 1, 0)].clone()
    return weights


def build_induction_circuit__wrong_few_positions(vocab_size, n_ctx):
    """Eight position codes, used again and again."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_pos"] = weights["W_pos"][torch.arange(n_ctx) % 8].clone()
    return weights


def build_induction_circuit__wrong_match_for_short_contexts(vocab_size, n_ctx):
    """A match worth 30, whatever the context: with 12 per position a match three or more back is not found."""
    return _circuit(vocab_size, n_ctx, step=12.0, match=30.0)


def build_induction_circuit__wrong_fixed_period(vocab_size, n_ctx):
    """Positions alone: attends three back, right for period 4 only."""
    v, n = vocab_size, n_ctx
    weights = _circuit(v, n)
    second = weights["blocks"][1]
    back = torch.zeros(n, n)
    for i in range(n):
        back[i, max(i - 3, 0)] = 300 * math.sqrt(n)
    d = 3 * v + n
    second["W_Q"], second["W_K"] = torch.zeros(d, n), torch.zeros(d, n)
    second["W_Q"][v : v + n], second["W_K"][v : v + n] = back, torch.eye(n)
    return weights


def build_induction_circuit__wrong_positions_ignored(vocab_size, n_ctx):
    """No position embedding: layer 1 averages all earlier tokens."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_pos"].zero_()
    return weights


def build_induction_circuit__wrong_pointer_without_step(vocab_size, n_ctx):
    """The pointer mechanism without the step: attends to the earlier copy of the same token."""
    weights = build_induction_circuit__right_pointer(vocab_size, n_ctx)
    second = weights["blocks"][1]
    second["W_Q"][vocab_size + n_ctx : vocab_size + 2 * n_ctx] = 60 * math.sqrt(n_ctx) * torch.eye(n_ctx)
    return weights


def build_induction_circuit__wrong_random(vocab_size, n_ctx):
    """Random small weights, to be trained later."""
    g = torch.Generator().manual_seed(0)
    weights = _circuit(vocab_size, n_ctx)
    blocks = [{k: 0.1 * torch.randn(W.shape, generator=g) for k, W in b.items()} for b in weights["blocks"]]
    rest = {k: 0.1 * torch.randn(W.shape, generator=g) for k, W in weights.items() if k != "blocks"}
    return {**rest, "blocks": blocks}


def build_induction_circuit__wrong_columns_convention(vocab_size, n_ctx):
    """Every matrix transposed."""
    weights = _circuit(vocab_size, n_ctx)
    blocks = [{k: W.T for k, W in b.items()} for b in weights["blocks"]]
    return {**{k: W.T for k, W in weights.items() if k != "blocks"}, "blocks": blocks}


def build_induction_circuit__wrong_unembedding_transposed(vocab_size, n_ctx):
    """W_U as (vocab, d_model)."""
    weights = _circuit(vocab_size, n_ctx)
    return {**weights, "W_U": weights["W_U"].T}


def build_induction_circuit__wrong_context_too_short(vocab_size, n_ctx):
    """W_pos has n_ctx - 1 rows."""
    weights = _circuit(vocab_size, n_ctx)
    return {**weights, "W_pos": weights["W_pos"][:-1]}


def build_induction_circuit__wrong_one_block(vocab_size, n_ctx):
    """Only the induction layer."""
    weights = _circuit(vocab_size, n_ctx)
    return {**weights, "blocks": weights["blocks"][1:]}


def build_induction_circuit__wrong_blocks_are_tuples(vocab_size, n_ctx):
    """Each block a tuple of four matrices instead of a dict."""
    weights = _circuit(vocab_size, n_ctx)
    return {**weights, "blocks": [tuple(b.values()) for b in weights["blocks"]]}


def build_induction_circuit__wrong_keys_misnamed(vocab_size, n_ctx):
    """Positions under "W_P"."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_P"] = weights.pop("W_pos")
    return weights


def build_induction_circuit__wrong_tuple(vocab_size, n_ctx):
    """A tuple of the weights."""
    return tuple(_circuit(vocab_size, n_ctx).values())


def build_induction_circuit__wrong_float64(vocab_size, n_ctx):
    """float64 weights."""
    return _to(_circuit(vocab_size, n_ctx), torch.float64)


def build_induction_circuit__wrong_half_precision(vocab_size, n_ctx):
    """bfloat16 weights."""
    return _to(_circuit(vocab_size, n_ctx), torch.bfloat16)


def build_induction_circuit__wrong_numpy(vocab_size, n_ctx):
    """NumPy arrays."""
    weights = _circuit(vocab_size, n_ctx)
    blocks = [{k: W.numpy() for k, W in b.items()} for b in weights["blocks"]]
    return {**{k: W.numpy() for k, W in weights.items() if k != "blocks"}, "blocks": blocks}


def build_induction_circuit__wrong_infinite_scores(vocab_size, n_ctx):
    """Infinite match for a hard attention: NaN from inf * 0."""
    return _circuit(vocab_size, n_ctx, match=math.inf)


def build_induction_circuit__wrong_arguments_swapped(vocab_size, n_ctx):
    """vocab_size and n_ctx swapped."""
    return _circuit(n_ctx, vocab_size)


_built = []


def build_induction_circuit__wrong_kept(vocab_size, n_ctx):
    """Keeps the first model it built and returns it for every size."""
    if not _built:
        _built.append(_circuit(vocab_size, n_ctx))
    return _built[0]


def _random_weights(vocab_size, n_ctx, std):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return std * torch.randn(*shape, generator=generator)

    blocks = [{"W_Q": draw(64, 16), "W_K": draw(64, 16), "W_V": draw(64, 16), "W_O": draw(16, 64)} for _ in range(2)]
    return {"W_E": draw(vocab_size, 64), "W_pos": draw(n_ctx, 64), "W_U": draw(64, vocab_size), "blocks": blocks}


def build_induction_circuit__wrong_large_random(vocab_size, n_ctx):
    """Standard normal weights, whose attention is sharp and goes anywhere."""
    return _random_weights(vocab_size, n_ctx, 1.0)


def build_induction_circuit__wrong_zeros(vocab_size, n_ctx):
    """Weights of the right shapes that were never filled in."""
    return _random_weights(vocab_size, n_ctx, 0.0)


# ------------------------------------------------------------------------------------------------------------ the lists


# ---------------------------------------------------------------------------------------------------------- find_heads


def _places(tokens):
    """Where the token before came, and where what followed an earlier occurrence stands."""
    n = len(tokens)
    before = torch.zeros(n, n, dtype=torch.bool)
    followed = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(1, i + 1):
            before[i, j] = j == i - 1
            followed[i, j] = bool(tokens[j - 1] == tokens[i])
    if n > 1:
        before[1, 0] = True
    return before, followed


def _above_chance(pattern, places):
    """(score - chance) / (1 - chance), or None without a row."""
    n = len(places)
    rows = [i for i in range(n) if places[i].any()]
    if not rows:
        return None
    score = sum(float(pattern[i][places[i]].sum()) for i in rows) / len(rows)
    chance = sum(int(places[i].sum()) / (i + 1) for i in rows) / len(rows)
    return (score - chance) / (1 - chance)


def find_heads__right_loops(patterns, tokens):
    """Plain loops over layers, heads and positions."""
    lists = []
    for places in _places(tokens):
        found = []
        for layer in range(patterns.shape[0]):
            for head in range(patterns.shape[1]):
                share = _above_chance(patterns[layer, head], places)
                if share is not None and share > 0.5:
                    found.append((layer, head))
        lists.append(found)
    return lists[0], lists[1]


def find_heads__right_even_pattern_as_a_head(patterns, tokens):
    """Even attention is put in as one more layer, and all are scored alike."""
    layers, heads, n, _ = patterns.shape
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = (even / even.sum(-1, keepdim=True)).expand(1, heads, n, n)
    everything = torch.cat([patterns, even])
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    earlier = torch.cat([torch.full((1,), -1), tokens[:-1]])
    answer = []
    for wanted in (torch.eye(n, dtype=torch.bool).roll(1, 0).tril(-1), (tokens[:, None] == earlier[None]) & causal):
        rows = wanted.any(1)
        if not rows.any():
            answer.append([])
            continue
        scores = (everything * wanted).sum(-1)[:, :, rows].mean(-1)
        chance = scores[-1, 0]
        passed = (scores[:-1] - chance) / (1 - chance) > 0.5
        answer.append([(int(a), int(b)) for a, b in torch.nonzero(passed)])
    return answer[0], answer[1]


def find_heads__right_sorted_from_a_set(patterns, tokens):
    """Collects a set and sorts it; the threshold is put on the raw score, half way from chance to 1."""
    before, followed = _places(tokens)
    pairs = {"before": set(), "followed": set()}
    for name, places in (("before", before), ("followed", followed)):
        rows = places.any(1).nonzero().flatten().tolist()
        if rows:
            chance = sum(float(places[i, : i + 1].double().mean()) for i in rows) / len(rows)
            for layer, stack in enumerate(patterns):
                for head, pattern in enumerate(stack):
                    score = float(pattern[rows].double().mul(places[rows]).sum()) / len(rows)
                    if score > (1 + chance) / 2:
                        pairs[name].add((layer, head))
    return sorted(pairs["before"]), sorted(pairs["followed"])


def find_heads__right_gather_by_one_hot(patterns, tokens):
    """A product of one-hot rows; the pattern read through einsum."""
    n = tokens.numel()
    _, kinds = torch.unique(tokens, return_inverse=True)
    one_hot = torch.nn.functional.one_hot(kinds).double()
    shifted = torch.cat([torch.zeros_like(one_hot[:1]), one_hot[:-1]])
    followed = torch.tril(one_hot @ shifted.T)
    before = torch.diag(torch.ones(n - 1, dtype=torch.float64), -1) if n > 1 else torch.zeros(1, 1).double()
    weight = 1 / torch.arange(1, n + 1).double()
    result = []
    for places in (before, followed):
        used = (places.sum(1) > 0).double()
        total = used.sum().clamp_min(1)
        score = torch.einsum("lhij,ij->lh", patterns.double(), places) / total
        chance = (places.sum(1) * weight).sum() / total
        hit = (score - chance > 0.5 * (1 - chance)) & (used.sum() > 0)
        result.append([tuple(pair) for pair in hit.nonzero().tolist()])
    return tuple(result)


def _search(patterns, tokens, score=None, passes=None, places=_places):
    """For the wrong ones: another score, another test, other places."""
    lists = []
    for wanted in places(tokens):
        found = []
        for layer in range(patterns.shape[0]):
            for head in range(patterns.shape[1]):
                share = (score or _above_chance)(patterns[layer, head], wanted)
                if share is not None and (passes or (lambda s: s > 0.5))(share):
                    found.append((layer, head))
        lists.append(found)
    return lists[0], lists[1]


def _raw(pattern, places):
    rows = [i for i in range(len(places)) if places[i].any()]
    return sum(float(pattern[i][places[i]].sum()) for i in rows) / len(rows) if rows else None


def find_heads__wrong_raw_score(patterns, tokens):
    """The score itself is compared with 0.5."""
    return _search(patterns, tokens, score=_raw)


def find_heads__wrong_difference_from_chance(patterns, tokens):
    """Chance is subtracted and nothing else."""

    def score(pattern, places):
        n = len(places)
        even = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
        raw = _raw(pattern, places)
        return None if raw is None else raw - _raw(even, places)

    return _search(patterns, tokens, score=score)


def find_heads__wrong_chance_one_over_n(patterns, tokens):
    """Even attention over all n columns, as if nothing were masked."""

    def score(pattern, places):
        n = len(places)
        raw = _raw(pattern, places)
        if raw is None:
            return None
        chance = _raw(torch.full((n, n), 1 / n), places)
        return (raw - chance) / (1 - chance)

    return _search(patterns, tokens, score=score)


def find_heads__wrong_same_token(patterns, tokens):
    """Looks for heads that attend to earlier copies of the token."""

    def places(tokens):
        before, _ = _places(tokens)
        return before, (tokens[:, None] == tokens[None]).tril(-1)

    return _search(patterns, tokens, places=places)


def find_heads__wrong_best_of_each_kind(patterns, tokens):
    """Names the one best head of each kind if it passes."""
    lists = []
    for wanted in _places(tokens):
        scores = {
            (layer, head): _above_chance(patterns[layer, head], wanted)
            for layer in range(patterns.shape[0])
            for head in range(patterns.shape[1])
        }
        best = max(scores, key=lambda pair: scores[pair] or 0.0)
        lists.append([best] if (scores[best] or 0) > 0.5 else [])
    return lists[0], lists[1]


def find_heads__wrong_max_over_matches(patterns, tokens):
    """The strongest match counts, not their sum."""

    def score(pattern, places):
        rows = [i for i in range(len(places)) if places[i].any()]
        if not rows:
            return None
        top = sum(float(pattern[i][places[i]].max()) for i in rows) / len(rows)
        chance = sum(1 / (i + 1) for i in rows) / len(rows)
        return (top - chance) / (1 - chance)

    return _search(patterns, tokens, score=score)


def find_heads__wrong_last_occurrence(patterns, tokens):
    """Only what followed the last earlier occurrence."""

    def places(tokens):
        before, followed = _places(tokens)
        last = torch.zeros_like(followed)
        for i, row in enumerate(followed):
            if row.any():
                last[i, row.nonzero()[-1]] = True
        return before, last

    return _search(patterns, tokens, places=places)


def find_heads__wrong_all_positions_averaged(patterns, tokens):
    """The mean runs over all n positions."""

    def score(pattern, places):
        n = len(places)
        raw = float((pattern * places).sum()) / n
        chance = sum(int(places[i].sum()) / (i + 1) for i in range(n)) / n
        return (raw - chance) / (1 - chance)

    return _search(patterns, tokens, score=score)


def find_heads__wrong_columns_for_rows(patterns, tokens):
    """Takes column i for the query."""
    return find_heads__right_loops(patterns.transpose(-1, -2), tokens)


def find_heads__wrong_period_of_the_text(patterns, tokens):
    """Takes the first gap for the period of the text."""

    def places(tokens):
        before, _ = _places(tokens)
        n, ids = len(tokens), tokens.tolist()
        gaps = [i - ids.index(token) for i, token in enumerate(ids) if ids.index(token) < i]
        found = torch.zeros(n, n, dtype=torch.bool)
        if gaps:
            for i in range(gaps[0], n):
                found[i, i - gaps[0] + 1] = True
        return before, found

    return _search(patterns, tokens, places=places)


def find_heads__wrong_lists_swapped(patterns, tokens):
    """Induction first."""
    return find_heads__right_loops(patterns, tokens)[::-1]


def find_heads__wrong_pairs_swapped(patterns, tokens):
    """(head, layer)."""
    previous, induction = find_heads__right_loops(patterns, tokens)
    return sorted((b, a) for a, b in previous), sorted((b, a) for a, b in induction)


# --------------------------------------------------------------------------------------------------------- ablate_path


def _attend(query, key, block):
    n = query.shape[1]
    scores = torch.einsum("bid,bjd->bij", query @ block["W_Q"], key @ block["W_K"]) / math.sqrt(block["W_Q"].shape[-1])
    return torch.softmax(scores + torch.full((n, n), -math.inf, dtype=query.dtype).triu(1), dim=-1)


def _streams(tokens, weights):
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    block = weights["blocks"][0]
    A = _attend(start, start, block)
    return start, A, start + A @ (start @ block["W_V"] @ block["W_O"])


def ablate_path__right_dict_of_readers(tokens, weights, into):
    """A dict of streams by reader."""
    start, A, full = _streams(tokens, weights)
    reads = {"query": full, "key": full, "value": full} | {into: start}
    block = weights["blocks"][1]
    B = _attend(reads["query"], reads["key"], block)
    return (full + B @ reads["value"] @ block["W_V"] @ block["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__right_patterns_in_a_tuple(tokens, weights, into):
    """The patterns in a tuple; three branches."""
    start, A, full = _streams(tokens, weights)
    block = weights["blocks"][1]
    if into == "query":
        B = _attend(start, full, block)
    elif into == "key":
        B = _attend(full, start, block)
    else:
        B = _attend(full, full, block)
    out = B @ ((start if into == "value" else full) @ block["W_V"]) @ block["W_O"]
    return (full + out) @ weights["W_U"], (A, B)


def ablate_path__right_note_subtracted(tokens, weights, into):
    """Works out the note and takes it from what one reader sees."""
    start, A, full = _streams(tokens, weights)
    note = full - start
    block = weights["blocks"][1]
    q, k, v = (full - note * float(into == name) for name in ("query", "key", "value"))
    B = _attend(q, k, block)
    return full @ weights["W_U"] + B @ v @ (block["W_V"] @ block["W_O"] @ weights["W_U"]), [A, B]


def ablate_path__right_position_by_position(tokens, weights, into):
    """The second layer position by position."""
    start, A, full = _streams(tokens, weights)
    block = weights["blocks"][1]
    q = (start if into == "query" else full) @ block["W_Q"]
    k = (start if into == "key" else full) @ block["W_K"]
    v = (start if into == "value" else full) @ block["W_V"]
    n, rows, outs = tokens.shape[1], [], []
    for i in range(n):
        scores = (k[:, : i + 1] @ q[:, i, :, None]).squeeze(-1) / q.shape[-1] ** 0.5
        row = scores.softmax(-1)
        outs.append((row[:, None] @ v[:, : i + 1]).squeeze(1))
        rows.append(torch.nn.functional.pad(row, (0, n - i - 1)))
    stream = full + torch.stack(outs, 1) @ block["W_O"]
    return stream @ weights["W_U"], [A, torch.stack(rows, 1)]


def _second(tokens, weights, q=None, k=None, v=None, base=None):
    """For the wrong ones: streams by hand."""
    start, A, full = _streams(tokens, weights)
    pick = {"start": start, "full": full, "note": full - start, "zero": full * 0}
    q, k, v, base = (pick[name or "full"] for name in (q, k, v, base))
    block = weights["blocks"][1]
    B = _attend(q, k, block)
    return (base + B @ v @ block["W_V"] @ block["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__wrong_whole_model(tokens, weights, into):
    """Nothing is hidden."""
    return _second(tokens, weights)


def ablate_path__wrong_head_ablated(tokens, weights, into):
    """The first layer is left out everywhere."""
    return _second(tokens, weights, "start", "start", "start", "start")


def ablate_path__wrong_stream_too(tokens, weights, into):
    """The second layer's output is added to the embedding."""
    return _second(tokens, weights, **{into[0]: "start"}, base="start")


def ablate_path__wrong_only_path_left(tokens, weights, into):
    """The others are cut."""
    return _second(tokens, weights, **{name[0]: "start" for name in ("query", "key", "value") if name != into})


def ablate_path__wrong_all_readers(tokens, weights, into):
    """All three readers see the embedding alone."""
    return _second(tokens, weights, "start", "start", "start")


def ablate_path__wrong_zeros_read(tokens, weights, into):
    """The reader sees zeros."""
    return _second(tokens, weights, **{into[0]: "zero"})


def ablate_path__wrong_note_alone_read(tokens, weights, into):
    """The reader sees the note alone."""
    return _second(tokens, weights, **{into[0]: "note"})


def ablate_path__wrong_keys_and_queries_swapped(tokens, weights, into):
    """Query and key the wrong way round."""
    other = {"query": "k", "key": "q", "value": "v"}[into]
    return _second(tokens, weights, **{other: "start"})


def ablate_path__wrong_values_never(tokens, weights, into):
    """The value branch does nothing."""
    return _second(tokens, weights, **({} if into == "value" else {into[0]: "start"}))


def ablate_path__wrong_without_positions(tokens, weights, into):
    """The reader sees the token's embedding without its position."""
    bare = dict(weights, W_pos=weights["W_pos"] * 0)
    start, A, full = _streams(tokens, weights)
    poor = bare["W_E"][tokens]
    block = weights["blocks"][1]
    reads = {"query": full, "key": full, "value": full} | {into: poor}
    B = _attend(reads["query"], reads["key"], block)
    return (full + B @ reads["value"] @ block["W_V"] @ block["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__wrong_first_layers_width(tokens, weights, into):
    """Divides by the first layer's d_head in both layers."""
    start, A, full = _streams(tokens, weights)
    first, block = weights["blocks"]
    scale = math.sqrt(block["W_Q"].shape[1] / first["W_Q"].shape[1])
    reads = {"query": full, "key": full, "value": full} | {into: start}
    B = _attend(reads["query"] * scale, reads["key"], block)
    return (full + B @ reads["value"] @ block["W_V"] @ block["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__wrong_old_patterns(tokens, weights, into):
    """The patterns of the whole model come back."""
    logits, _ = _second(tokens, weights, **{into[0]: "start"})
    return logits, _second(tokens, weights)[1]


def ablate_path__wrong_only_second_pattern(tokens, weights, into):
    """One pattern in place of two."""
    logits, patterns = _second(tokens, weights, **{into[0]: "start"})
    return logits, patterns[1]
