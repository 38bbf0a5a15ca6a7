"""Unit 8, induction heads: answers as students would write them (TAG seventh).

Eight wrong and two right answers for each of the eleven exercises.
"""

import math
from collections import Counter

import torch
import torch.nn.functional as F


def _run_attention_only(tokens, weights):
    """Given by the notebook: a causal transformer of two layers, one head each."""
    n = tokens.shape[1]
    may_attend = torch.ones(n, n, dtype=torch.bool).tril()
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    patterns = []
    for block in weights["blocks"]:
        scores = (x @ block["W_Q"]) @ (x @ block["W_K"]).mT
        scores = scores / math.sqrt(block["W_Q"].shape[1])
        A = scores.masked_fill(~may_attend, -torch.inf).softmax(dim=-1)
        x = x + A @ x @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def _previous_token_score(weights):
    """A right answer to exercise 8.2."""
    n = weights.shape[-1]
    return weights.diagonal(-1, -2, -1).sum(-1) / max(n - 1, 1)


def _prefix_matching_score(weights, period):
    """A right answer to exercise 8.3."""
    n = weights.shape[-1]
    total = weights[..., 0, 0] * 0
    for i in range(period, n):
        total = total + weights[..., i, i - period + 1]
    return total / max(n - period, 1)


# ---------------------------------------------------------------------------------------
# 8.1 repeated_sequences


def repeated_sequences__wrong_seventh_stacked_then_reshaped(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Stacks the copies along axis 0 with repeat(repeats, 1) and reshapes to (batch, -1), so a row holds the blocks of several rows."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = block.repeat(repeats, 1)
    return copies.reshape(batch, period * repeats)


def repeated_sequences__wrong_seventh_fresh_block_per_copy(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Calls randint anew for every copy inside the list comprehension, so nothing is repeated and the generator is used `repeats` times."""
    return torch.cat(
        [
            torch.randint(vocab_size, (batch, period), generator=generator)
            for _ in range(repeats)
        ],
        dim=1,
    )


def repeated_sequences__wrong_seventh_distinct_tokens(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws blocks of distinct tokens with rand().argsort(), as section 5's training rows, in place of the documented randint draw."""
    order = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    block = order[:, :period]
    where = torch.arange(period * repeats) % block.shape[1]
    return block[:, where]


def repeated_sequences__wrong_seventh_copy_of_the_generator(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws from a clone of the generator to leave 'the inputs as they are', so the handed one never advances and every call gives the same tokens."""
    own = torch.Generator()
    own.set_state(generator.get_state())
    block = torch.randint(vocab_size, (batch, period), generator=own)
    return torch.tile(block, (1, repeats))


def repeated_sequences__wrong_seventh_id_zero_kept_for_padding(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws with low=1, as if id 0 were a padding token, so token 0 never occurs."""
    block = torch.randint(1, vocab_size, (batch, period), generator=generator)
    return block.repeat(1, repeats)


def repeated_sequences__wrong_seventh_block_drawn_transposed(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws (period, batch) and transposes, so the draw fills the blocks in another order than the documented (batch, period) one."""
    columns = torch.randint(vocab_size, (period, batch), generator=generator)
    rows = columns.T
    return torch.cat([rows] * repeats, dim=-1)


def repeated_sequences__wrong_seventh_block_and_then_repeats_more(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Takes `repeats` as the number of repetitions after the first block, and so returns repeats + 1 copies."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    tokens = block
    for _ in range(repeats):
        tokens = torch.cat((tokens, block), dim=1)
    return tokens


def repeated_sequences__wrong_seventh_every_second_copy_mirrored(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Fills the row by bouncing an index up and down the block, so every second copy stands backwards (a b c c b a)."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    up = [*range(period)]
    path = []
    for copy in range(repeats):
        path += up if copy % 2 == 0 else up[::-1]
    return block[:, path]


def repeated_sequences__right_seventh_expand_and_flatten(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """One draw, a new axis for the copies between batch and block, expanded and flattened."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.unsqueeze(1).expand(-1, repeats, -1).flatten(1).clone()


def repeated_sequences__right_seventh_filled_from_the_left(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """One draw into an empty int64 table, then each column is copied from the one a period before."""
    tokens = torch.empty(batch, period * repeats, dtype=torch.int64)
    tokens[:, :period] = torch.randint(
        vocab_size, (batch, period), generator=generator
    )
    for column in range(period, period * repeats):
        tokens[:, column] = tokens[:, column - period]
    return tokens


# ---------------------------------------------------------------------------------------
# 8.2 previous_token_score


def previous_token_score__wrong_seventh_mean_of_the_submatrix(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Cuts rows 1: and columns :-1 and averages the whole (n-1, n-1) submatrix in place of its diagonal."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    shifted = weights[..., 1:, :-1]
    return shifted.mean(dim=(-2, -1))


def previous_token_score__wrong_seventh_roll_wraps_round(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Rolls the columns by one and sums the whole main diagonal over n - 1, so the entry (0, n-1) that wraps round counts as well."""
    n = weights.shape[-1]
    if n < 2:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    moved = torch.roll(weights, shifts=1, dims=-1)
    own = torch.diagonal(moved, dim1=-2, dim2=-1)
    return own.sum(dim=-1) / (n - 1)


def previous_token_score__wrong_seventh_float32_accumulator(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Adds up in torch.zeros of the default dtype with +=, so float64 weights give a float32 score."""
    n = weights.shape[-1]
    total = torch.zeros(weights.shape[:-2])
    for i in range(1, n):
        total += weights[..., i, i - 1]
    return total / max(n - 1, 1)


def previous_token_score__wrong_seventh_share_of_rows_by_argmax(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Counts the rows whose largest weight stands at i - 1, in place of averaging the weights there."""
    n = weights.shape[-1]
    best = weights.argmax(dim=-1)[..., 1:]
    hits = (best == torch.arange(n - 1)).to(weights.dtype)
    return hits.sum(-1) / max(n - 1, 1)


def previous_token_score__wrong_seventh_rows_made_causal_first(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Applies tril and divides each row by what is left, so that patterns that are not causal are renormalised before the mean."""
    n = weights.shape[-1]
    causal = weights.tril()
    causal = causal / causal.sum(dim=-1, keepdim=True).clamp(min=1e-12)
    line = causal.diagonal(offset=-1, dim1=-2, dim2=-1)
    return line.sum(-1) / max(1, n - 1)


def previous_token_score__wrong_seventh_one_zero_for_all_patterns(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Returns one 0-d zero for n = 1, whatever the leading axes, in place of a zero for each pattern."""
    n = weights.shape[-1]
    if n == 1:
        return torch.tensor(0.0, dtype=weights.dtype)
    i = torch.arange(1, n)
    return weights[..., i, i - 1].mean(dim=-1)


def previous_token_score__wrong_seventh_heads_pooled(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Averages over the heads, the last of the leading axes, as well: the mean runs over the last two axes of (B, h, n-1)."""
    n = weights.shape[-1]
    line = torch.diagonal(weights, offset=-1, dim1=-2, dim2=-1)
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    if line.dim() == 1:
        return line.mean()
    return line.mean(dim=(-2, -1), keepdim=True)[..., 0].expand(weights.shape[:-2])


def previous_token_score__wrong_seventh_row_zero_wiped_in_place(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Sets row 0 of the pattern to zero 'since it does not count', in the argument itself."""
    n = weights.shape[-1]
    view = weights.detach()
    view[..., 0, :] = 0
    shift = torch.eye(n, dtype=weights.dtype).roll(1, dims=0)
    return (weights * shift).sum(dim=(-2, -1)) / max(n - 1, 1)


def previous_token_score__right_seventh_einsum_with_shift(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Contracts with a matrix of ones on the first lower diagonal, over max(n - 1, 1)."""
    n = weights.shape[-1]
    shift = torch.diag_embed(torch.ones(n - 1, dtype=weights.dtype), offset=-1)
    return torch.einsum("...ij,ij->...", weights, shift) / max(n - 1, 1)


def previous_token_score__right_seventh_every_n_plus_first_entry(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Flattens each pattern and takes every (n + 1)th entry from n on: these are the entries (i, i - 1)."""
    n = weights.shape[-1]
    flat = weights.flatten(-2)
    line = flat[..., n :: n + 1]
    return line.sum(-1) / max(n - 1, 1)


# ---------------------------------------------------------------------------------------
# 8.3 prefix_matching_score


def prefix_matching_score__wrong_seventh_diagonal_sliced_by_row_number(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Slices the diagonal with [period:], as if its entries were numbered by rows; they are numbered by columns, so rows are lost."""
    line = weights.diagonal(offset=-(period - 1), dim1=-2, dim2=-1)
    line = line[..., period:]
    if line.shape[-1] == 0:
        return weights.new_zeros(weights.shape[:-2])
    return line.mean(dim=-1)


def prefix_matching_score__wrong_seventh_nan_when_n_is_the_period(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Guards only n < period, so for n = period the mean of nothing gives NaN."""
    n = weights.shape[-1]
    if n < period:
        return torch.zeros_like(weights[..., 0, 0])
    rows = torch.arange(period, n)
    return weights[..., rows, rows - (period - 1)].mean(dim=-1)


def prefix_matching_score__wrong_seventh_all_earlier_periods_summed(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Adds the weight on the matches two, three, ... periods back as well, not only one period ago."""
    n = weights.shape[-1]
    total = weights[..., 0, 0] * 0
    for i in range(period, n):
        for j in range(i - (period - 1), 0, -period):
            total = total + weights[..., i, j]
    return total / max(n - period, 1)


def prefix_matching_score__wrong_seventh_mean_of_block_means(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Averages each later block first and then the blocks, so the rows of a block that breaks off weigh more."""
    n = weights.shape[-1]
    means = []
    for start in range(period, n, period):
        rows = torch.arange(start, min(start + period, n))
        means.append(weights[..., rows, rows - period + 1].mean(dim=-1))
    if not means:
        return weights.new_zeros(weights.shape[:-2])
    return torch.stack(means).mean(dim=0)


def prefix_matching_score__wrong_seventh_period_one_is_no_repeat(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Returns 0 for period = 1 in the guard, taking i to i as no look back, though the contract counts the main diagonal there."""
    n = weights.shape[-1]
    back = period - 1
    if back == 0 or n <= period:
        return weights[..., 0, 0] * 0.0
    diagonal = torch.diagonal(weights, -back, -2, -1)
    return diagonal[..., 1:].mean(-1)


def prefix_matching_score__wrong_seventh_query_and_key_swapped(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Indexes column i - (period - 1) as the query and i as the key, so the upper diagonal is averaged."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    queries = range(period, n)
    entries = [weights[..., i - (period - 1), i] for i in queries]
    return sum(entries) / len(entries)


def prefix_matching_score__wrong_seventh_divided_by_one_too_many(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Leaves out row period - 1, but divides by n - (period - 1), the length of the whole diagonal."""
    n = weights.shape[-1]
    line = torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1)
    total = line[..., 1:].sum(dim=-1)
    return total / max(n - (period - 1), 1)


def prefix_matching_score__wrong_seventh_negative_columns_wrap(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Averages over all n rows; in the first block i - (period - 1) is negative and Python takes columns from the right end."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(n)
    return weights[..., i, i - (period - 1)].mean(dim=-1)


def prefix_matching_score__right_seventh_flat_stride(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Flattens each pattern; from the entry (period, 1) on every (n + 1)th entry counts."""
    n = weights.shape[-1]
    line = weights.flatten(-2)[..., period * n + 1 :: n + 1]
    return line.sum(dim=-1) / max(n - period, 1)


def prefix_matching_score__right_seventh_previous_token_of_a_corner(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Cuts off the first `period` rows and column 0: what counts is the main diagonal of the rest, gathered by its own row number."""
    n = weights.shape[-1]
    if n <= period:
        return weights[..., 0, 0] * 0
    corner = weights[..., period:, 1:]
    place = torch.arange(n - period)[:, None].expand(*weights.shape[:-2], -1, 1)
    return corner.gather(-1, place)[..., 0].mean(dim=-1)


# ---------------------------------------------------------------------------------------
# 8.4 ov_circuit


def ov_circuit__wrong_seventh_einsum_letter_used_twice(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Names both stream axes d in one einsum, so the direction read and the direction written are summed together."""
    return torch.einsum("td,dv,vd,du->tu", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_seventh_column_convention_inside(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Forms W_OV as the transpose (W_V W_O)^T, the matrix of papers with column vectors, between W_E and W_U."""
    W_OV = W_O.T @ W_V.T
    return W_E @ W_OV @ W_U


def ov_circuit__wrong_seventh_tied_unembedding(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Reads the logits off with W_E^T, as in a model with tied weights, and leaves W_U unused."""
    written = (W_E @ W_V) @ W_O
    return F.linear(written, W_E)


def ov_circuit__wrong_seventh_direct_path_added(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds the token's own embedding to what the head writes before the unembedding, so W_E W_U is in the result."""
    stream = W_E
    stream = stream + stream @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_seventh_rows_centred(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Subtracts each row's mean logit, as libraries do that centre the unembedding, so the numbers are not what is added."""
    effect = W_E.matmul(W_V).matmul(W_O).matmul(W_U)
    mean_logit = effect.mean(dim=1, keepdim=True)
    return effect - mean_logit


def ov_circuit__wrong_seventh_without_gradients(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Multiplies under torch.no_grad(), since it is 'only a measurement', so no gradient flows."""
    with torch.no_grad():
        out = W_E
        for W in (W_V, W_O, W_U):
            out = out @ W
    return out


def ov_circuit__wrong_seventh_embedding_normed_first(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Passes the embedding through a layer norm before W_V, as unit 7's block does; these models have no norm."""
    x = F.layer_norm(W_E, (W_E.shape[1],))
    return x @ W_V @ W_O @ W_U


def ov_circuit__wrong_seventh_mean_over_the_head_width(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Averages over the d_v directions of the head with .mean(0) where they have to be summed."""
    values = W_E @ W_V
    reads = W_O @ W_U
    per_direction = values.T[:, :, None] * reads[:, None, :]
    return per_direction.mean(dim=0)


def ov_circuit__right_seventh_outer_products(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Sums one outer product for each of the head's d_v directions: (values of the tokens) x (logits of the direction)."""
    values, effects = W_E @ W_V, W_O @ W_U
    total = W_E.new_zeros(W_E.shape[0], W_U.shape[1])
    for k in range(W_V.shape[1]):
        total = total + torch.outer(values[:, k], effects[k])
    return total


def ov_circuit__right_seventh_transposes_all_the_way(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Uses F.linear, which transposes its weight, from the unembedding backwards, with tokens as columns, and turns the end."""
    by_logit = F.linear(W_U.T, W_O)
    by_logit = F.linear(by_logit, W_V)
    return F.linear(W_E, by_logit)


# ---------------------------------------------------------------------------------------
# 8.5 copying_score


def copying_score__wrong_seventh_diagonal_filled_in_place(ov: torch.Tensor) -> torch.Tensor:
    """Writes -inf onto the diagonal of the argument itself to find the best of the others."""
    own = ov.diagonal().clone()
    others = ov.fill_diagonal_(-torch.inf).max(dim=1).values
    return (own > others).to(ov.dtype).mean()


def copying_score__wrong_seventh_own_entry_masked_with_zero(ov: torch.Tensor) -> torch.Tensor:
    """Takes the own entry out with * (1 - eye), so a 0 stands among the others and a negative diagonal entry never wins."""
    n = len(ov)
    others = (ov * (1 - torch.eye(n, dtype=ov.dtype))).amax(dim=1)
    copied = torch.diag(ov) > others
    return copied.double().mean().to(ov.dtype)


def copying_score__wrong_seventh_kinds_of_winners(ov: torch.Tensor) -> torch.Tensor:
    """Counts how many different columns win some row, not whether a row is won by its own column."""
    winners = ov.argmax(dim=1)
    return torch.tensor(len(set(winners.tolist())) / ov.shape[0], dtype=ov.dtype)


def copying_score__wrong_seventh_share_of_comparisons_won(ov: torch.Tensor) -> torch.Tensor:
    """Averages over all single comparisons of the diagonal with the other entries, where a row counts only if all are won."""
    n = ov.shape[0]
    won = ov.diagonal()[:, None] > ov
    return won.sum().to(ov.dtype) / max(n * (n - 1), 1)


def copying_score__wrong_seventh_eigenvalues(ov: torch.Tensor) -> torch.Tensor:
    """Computes Elhage et al.'s sum of eigenvalues over the sum of their absolute values."""
    eigenvalues = torch.linalg.eigvals(ov)
    return eigenvalues.sum().real / eigenvalues.abs().sum().clamp(min=1e-12)


def copying_score__wrong_seventh_mean_probability(ov: torch.Tensor) -> torch.Tensor:
    """Averages the softmax probability of the own token in place of counting the rows in which it leads."""
    probabilities = ov.softmax(dim=-1)
    return probabilities.trace() / ov.shape[-1]


def copying_score__wrong_seventh_diagonal_along_the_wrong_axis(ov: torch.Tensor) -> torch.Tensor:
    """Compares ov.diag() >= ov without [:, None], so the entry (t, u) is held against ov[u, u], the diagonal of its column."""
    leads = (torch.diag(ov) >= ov).all(dim=1)
    return leads.to(ov.dtype).mean()


def copying_score__wrong_seventh_among_the_two_largest(ov: torch.Tensor) -> torch.Tensor:
    """Counts a token as copied if its own logit is among the two largest of its row."""
    k = min(2, len(ov))
    top = torch.topk(ov, k, dim=-1).indices
    own = torch.arange(len(ov)).unsqueeze(1)
    return (top == own).any(-1).to(ov.dtype).mean()


def copying_score__right_seventh_smaller_entries_counted(ov: torch.Tensor) -> torch.Tensor:
    """Counts in each row the entries below the diagonal one: a copied row has vocab - 1 of them."""
    vocab = ov.shape[0]
    below = (ov < ov.diagonal().unsqueeze(1)).sum(dim=1)
    return (below == vocab - 1).sum().to(ov.dtype) / vocab


def copying_score__right_seventh_plain_lists(ov: torch.Tensor) -> torch.Tensor:
    """Loops over the rows as Python lists and compares the own entry with every other one."""
    rows = ov.tolist()
    copied = [
        all(row[t] > entry for u, entry in enumerate(row) if u != t)
        for t, row in enumerate(rows)
    ]
    return torch.tensor(sum(copied) / len(rows), dtype=ov.dtype)


# ---------------------------------------------------------------------------------------
# 8.6 composition_score


def composition_score__wrong_seventh_zero_if_any_entry_is_zero(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Tests for a zero matrix with not W.all(), which is true as soon as one single entry is zero."""
    if not W_QK.all() or not W_OV.all():
        return W_QK.sum() * 0
    norm = torch.linalg.matrix_norm
    return norm(W_QK @ W_OV.T) / (norm(W_QK) * norm(W_OV))


def composition_score__wrong_seventh_zero_if_the_sum_is_zero(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Tests for a zero matrix by the sum of its entries, which also vanishes where positive and negative entries cancel."""
    for W in (W_QK, W_OV):
        if W.sum() == 0:
            return W.new_zeros(())
    top = (W_QK @ W_OV.mT).pow(2).sum().sqrt()
    bottom = W_QK.pow(2).sum().sqrt() * W_OV.pow(2).sum().sqrt()
    return top / bottom


def composition_score__wrong_seventh_cosine_of_the_two_matrices(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Takes the cosine between the two matrices as long vectors, an inner product of entries, where the matrix product belongs."""
    a, b = W_QK.flatten(), W_OV.flatten()
    size = a.norm() * b.norm()
    return torch.where(size > 0, (a @ b).abs() / size.where(size > 0, 1.0), 0.0)


def composition_score__wrong_seventh_entries_multiplied(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Multiplies entry by entry with * in place of the matrix product @."""
    denominator = W_QK.norm() * W_OV.norm()
    if denominator == 0:
        return denominator
    together = W_QK * W_OV.T
    return together.norm() / denominator


def composition_score__wrong_seventh_epsilon_below(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Adds 1e-3 to the product of the norms against 0/0, so small circuits get too small a score."""
    composed = torch.linalg.norm(W_QK @ W_OV.T)
    sizes = torch.linalg.norm(W_QK) * torch.linalg.norm(W_OV)
    return composed / (sizes + 1e-3)


def composition_score__wrong_seventh_mean_over_query_rows(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Divides row by row, each row of the product by the norm of its row of W_QK, and averages the ratios."""
    product_rows = torch.linalg.vector_norm(W_QK @ W_OV.T, dim=1)
    size_rows = torch.linalg.vector_norm(W_QK, dim=1) * torch.linalg.matrix_norm(W_OV)
    ratios = torch.where(
        size_rows > 0, product_rows / size_rows.clamp(min=1e-30), size_rows
    )
    return ratios.mean()


def composition_score__wrong_seventh_query_side(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Computes Q-composition, W_OV W_QK, where the note enters on the query side."""
    sizes = (W_QK**2).sum().sqrt() * (W_OV**2).sum().sqrt()
    if sizes == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return torch.einsum("ab,bc->ac", W_OV, W_QK).norm() / sizes


def composition_score__wrong_seventh_chance_subtracted(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Subtracts what random circuits score, 1/sqrt(d_model), and cuts off at 0."""
    one, two = W_QK.norm(), W_OV.norm()
    if one == 0 or two == 0:
        return one * two
    chance = W_QK.shape[0] ** -0.5
    return ((W_QK @ W_OV.T).norm() / (one * two) - chance).clamp(min=0)


def composition_score__right_seventh_each_made_unit_first(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Scales each circuit to norm one before the product, and returns a zero if there is nothing to scale."""
    unit = []
    for W in (W_QK, W_OV):
        size = W.square().sum().sqrt()
        if size == 0:
            return (W_QK * 0).sum()
        unit.append(W / size)
    return torch.einsum("ab,cb->ac", *unit).flatten().norm()


def composition_score__right_seventh_sum_of_squared_dots(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Adds up the squared dot products of all pairs of rows in plain Python and returns a number."""
    A, B = W_QK.tolist(), W_OV.tolist()

    def size(rows):
        return math.sqrt(math.fsum(v * v for row in rows for v in row))

    if size(A) == 0 or size(B) == 0:
        return 0.0
    dots = (
        math.fsum(u * v for u, v in zip(a, b, strict=True)) for a in A for b in B
    )
    return math.sqrt(math.fsum(d * d for d in dots)) / (size(A) * size(B))


# ---------------------------------------------------------------------------------------
# 8.7 ablate_head


def ablate_head__wrong_seventh_head_subtracted_from_all(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Subtracts the head's contribution from the whole tensor, so it is zero itself but all other heads are changed."""
    contribution = head_outputs[:, head : head + 1]
    return head_outputs - contribution


def ablate_head__wrong_seventh_zeros_at_the_end(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Takes the head out and appends the zeros as the last head, so the later heads move one place forward."""
    B, h, n, d = head_outputs.shape
    others = [head_outputs[:, k] for k in range(h) if k != head]
    others.append(head_outputs.new_zeros(B, n, d))
    return torch.stack(others, dim=1)


def ablate_head__wrong_seventh_all_heads_from_there_on(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Slices head: in place of head, so every later head is set to zero as well."""
    out = head_outputs.clone()
    out[:, head:] = 0.0
    return out


def ablate_head__wrong_seventh_last_position_only(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Sets the head to zero at the last position only, where the next token is predicted."""
    result = head_outputs.clone()
    result[:, head, -1, :] = 0
    return result


def ablate_head__wrong_seventh_slice_of_the_stream(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Zeroes the head's slice of the last axis, head * d_model // h and so on, as if the heads were not yet split."""
    h, d_model = head_outputs.shape[1], head_outputs.shape[3]
    width = max(d_model // h, 1)
    keep = torch.ones(d_model, dtype=head_outputs.dtype)
    keep[head * width : (head + 1) * width] = 0
    return head_outputs * keep


def ablate_head__wrong_seventh_mean_ablation(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Puts the head's mean over the texts of the batch in its place, not zeros."""
    kept = head_outputs.clone()
    kept[:, head] = head_outputs[:, head].mean(dim=0, keepdim=True)
    return kept


def ablate_head__wrong_seventh_batch_axis_zeroed(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Loops over the first axis with enumerate and takes its counter for the head, so a whole text is zeroed and no head."""
    return torch.stack(
        [
            torch.zeros_like(one) if number == head else one
            for number, one in enumerate(head_outputs)
        ]
    )


def ablate_head__wrong_seventh_gradient_cut_by_new_tensor(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Copies via head_outputs.data.clone(), which is right in its numbers but passes no gradient to the kept heads."""
    copy = head_outputs.data.clone()
    copy[:, head].zero_()
    return copy


def ablate_head__right_seventh_index_fill(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Uses the out-of-place index_fill along axis 1."""
    return torch.index_fill(head_outputs, 1, torch.tensor([head]), 0.0)


def ablate_head__right_seventh_heads_unbound(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Unbinds the head axis, fills one head with zeros out of place and stacks the heads again."""
    heads = list(head_outputs.unbind(dim=1))
    heads[head] = heads[head].masked_fill(torch.tensor(True), 0.0)
    return torch.stack(heads, dim=1)


# ---------------------------------------------------------------------------------------
# 8.8 in_context_learning_score


def in_context_learning_score__wrong_seventh_positions_sorted(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Reads 'in any order' as a call to sort: swaps the positions where early > late, which turns the sign."""
    early, late = sorted((early, late))
    return losses[:, late].mean() - losses[:, early].mean()


def in_context_learning_score__wrong_seventh_window_ends_one_short(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Slices early:late and takes the ends of the window, so the later end is position late - 1."""
    a, b = min(early, late), max(early, late)
    if a == b:
        return losses[:, a].mean() * 0
    window = losses[:, a:b].mean(dim=0)
    change = window[-1] - window[0]
    return change if late > early else -change


def in_context_learning_score__wrong_seventh_relative_change(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Divides the difference by the early loss, a share in place of nats."""
    before = losses[:, early].mean()
    after = losses[:, late].mean()
    return (after - before) / before


def in_context_learning_score__wrong_seventh_perplexities(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Takes exp of the mean losses first and returns a difference of perplexities."""
    perplexity = losses.mean(dim=0).exp()
    return perplexity[late] - perplexity[early]


def in_context_learning_score__wrong_seventh_unpacked_along_the_batch(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Unpacks losses[:, [early, late]], of shape (B, 2), into two names: these are two texts, not two positions (an error for B other than 2)."""
    at_early, at_late = losses[:, [early, late]]
    return at_late.mean() - at_early.mean()


def in_context_learning_score__wrong_seventh_up_to_each_position(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Takes the running mean of the loss up to and including each position, with cumsum, in place of the loss at it."""
    counts = torch.arange(1, losses.shape[1] + 1, dtype=losses.dtype)
    running = losses.mean(0).cumsum(0) / counts
    return running[late] - running[early]


def in_context_learning_score__wrong_seventh_batch_less_one(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Divides the sum over the texts by B - 1, as for a variance."""
    B = losses.shape[0]
    total = sum(losses[b, late] - losses[b, early] for b in range(B))
    return total / max(B - 1, 1)


def in_context_learning_score__wrong_seventh_never_above_zero(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Cuts the difference off at 0 with clamp(max=0), since 'a loss can only fall'."""
    columns = losses[:, [early, late]]
    early_mean, late_mean = columns.mean(dim=0)
    return torch.clamp(late_mean - early_mean, max=0.0)


def in_context_learning_score__right_seventh_diff_of_two_columns(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Picks the two columns in order with index_select, takes their difference in each text, and the mean over the texts."""
    pair = losses.index_select(1, torch.tensor([early, late]))
    return pair.diff(dim=1).mean()


def in_context_learning_score__right_seventh_python_sums(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sums both columns with math.fsum and returns a Python number."""
    rows = losses.tolist()
    mean = [math.fsum(row[place] for row in rows) / len(rows) for place in (early, late)]
    return mean[1] - mean[0]


# ---------------------------------------------------------------------------------------
# 8.9 build_induction_circuit


def build_induction_circuit__wrong_seventh_slope_from_the_query(
    vocab_size: int, n_ctx: int
) -> dict:
    """Lets the slope grow with the position of the query and not of the key: it is the same for all keys of a row and drops out of the softmax."""
    V, N = vocab_size, n_ctx
    tok, pos = slice(0, V), slice(V, V + N)
    note, out = slice(V + N, 2 * V + N), slice(2 * V + N, 3 * V + N)
    d = 3 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, tok] = torch.eye(V)
    W_pos[:, pos] = torch.eye(N)
    W_U[out] = torch.eye(V)
    first = {
        "W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N),
        "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d),
    }  # fmt: skip
    first["W_Q"][pos] = 40 * math.sqrt(N) * torch.eye(N)
    first["W_K"][pos] = torch.eye(N).roll(1, dims=1)
    first["W_V"][tok] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)
    root = math.sqrt(V + 1)
    second = {
        "W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1),
        "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d),
    }  # fmt: skip
    second["W_Q"][tok, :V] = 12 * (N + 4) * root * torch.eye(V)
    second["W_K"][note, :V] = torch.eye(V)
    second["W_Q"][pos, V] = 12 * root * torch.arange(N).float()
    second["W_K"][tok, V] = 1
    second["W_V"][tok] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_seventh_only_position_zero_penalised(
    vocab_size: int, n_ctx: int
) -> dict:
    """Cures the false note by a penalty on the key of position 0 alone, so from the third copy on all earlier matches share the weight."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    E, P, note, out = 0, V, V + N, 2 * V + N  # where each field begins
    model = {
        "W_E": torch.eye(V, d),
        "W_pos": torch.zeros(N, d),
        "W_U": torch.zeros(d, V),
        "blocks": [],
    }
    for j in range(N):
        model["W_pos"][j, P + j] = 1
    for width in (N, V + 1):
        model["blocks"].append(
            {
                "W_Q": torch.zeros(d, width),
                "W_K": torch.zeros(d, width),
                "W_V": torch.zeros(d, V),
                "W_O": torch.zeros(V, d),
            }
        )
    first, second = model["blocks"]
    for j in range(N - 1):
        first["W_Q"][P + j + 1, j] = 50 * N**0.5
        first["W_K"][P + j, j] = 1
    for t in range(V):
        first["W_V"][E + t, t] = second["W_V"][E + t, t] = 1
        first["W_O"][t, note + t] = second["W_O"][t, out + t] = 1
        second["W_Q"][E + t, t] = 60 * (V + 1) ** 0.5
        second["W_K"][note + t, t] = 1
        second["W_Q"][E + t, V] = (V + 1) ** 0.5
        model["W_U"][out + t, t] = 1
    second["W_K"][P, V] = -40
    return model


def build_induction_circuit__wrong_seventh_note_written_over_the_token(
    vocab_size: int, n_ctx: int
) -> dict:
    """Gives the note no stretch of its own: the first layer adds the earlier token into the field of the token, and the two are mixed up."""
    V, N = vocab_size, n_ctx
    d = 2 * V + N
    eye_v, eye_n = torch.eye(V), torch.eye(N)
    W_E = torch.cat([eye_v, torch.zeros(V, N + V)], dim=1)
    W_pos = torch.cat([torch.zeros(N, V), eye_n, torch.zeros(N, V)], dim=1)
    W_U = torch.cat([torch.zeros(V + N, V), eye_v])
    read_token = torch.cat([eye_v, torch.zeros(N + V, V)])
    write_note = torch.cat([eye_v, torch.zeros(V, N + V)], dim=1)
    write_out = torch.cat([torch.zeros(V, V + N), eye_v], dim=1)
    first = {
        "W_Q": torch.cat([torch.zeros(V, N), 40 * N**0.5 * eye_n, torch.zeros(V, N)]),
        "W_K": torch.cat([torch.zeros(V, N), eye_n.roll(1, 1), torch.zeros(V, N)]),
        "W_V": read_token.clone(),
        "W_O": write_note,
    }
    match = torch.cat([read_token, torch.ones(d, 1)], dim=1)
    match[V:, V] = 0
    ramp = torch.zeros(d, 1)
    ramp[V : V + N, 0] = 10 * torch.arange(N).float()
    keys = torch.cat([15 * N * read_token, ramp], dim=1)
    second = {
        "W_Q": math.sqrt(V + 1) * match,
        "W_K": keys,
        "W_V": read_token.clone(),
        "W_O": write_out,
    }
    return dict(W_E=W_E, W_pos=W_pos, W_U=W_U, blocks=[first, second])


def build_induction_circuit__wrong_seventh_token_and_position_share_columns(
    vocab_size: int, n_ctx: int
) -> dict:
    """Writes tokens and positions as one-hot rows into the same columns, so token 3 cannot be told from position 3."""
    V, N = vocab_size, n_ctx
    m = max(V, N)
    d = m + 2 * V + 1
    W_E, W_pos = torch.eye(V, d), torch.eye(N, d)
    W_pos[:, -1] = torch.arange(N)
    W_U = torch.zeros(d, V)
    W_U[m + V : m + 2 * V] = torch.eye(V)

    def zeros(width):
        return {
            "W_Q": torch.zeros(d, width), "W_K": torch.zeros(d, width),
            "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d),
        }  # fmt: skip

    first, second = zeros(m), zeros(V + 1)
    first["W_Q"][1:m, : m - 1] = 40 * m**0.5 * torch.eye(m - 1)
    first["W_K"][:m] = torch.eye(m)
    first["W_V"][:V] = torch.eye(V)
    first["W_O"][:, m : m + V] = torch.eye(V)
    second["W_Q"][:V, :V] = 15 * N * (V + 1) ** 0.5 * torch.eye(V)
    second["W_K"][m : m + V, :V] = torch.eye(V)
    second["W_Q"][:V, V] = (V + 1) ** 0.5
    second["W_K"][-1, V] = 10
    second["W_V"][:V] = torch.eye(V)
    second["W_O"][:, m + V : m + 2 * V] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_seventh_root_of_the_width_forgotten(
    vocab_size: int, n_ctx: int
) -> dict:
    """Gives the first layer a score of 10 before the model divides by sqrt(d_head), so in long texts less than 1 of it is left."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    token, place, note, answer = torch.arange(d).split([V, N, V, V])
    W_E, W_pos, W_U = (torch.zeros(s) for s in ((V, d), (N, d), (d, V)))
    W_E[torch.arange(V), token] = 1.0
    W_pos[torch.arange(N), place] = 1.0
    W_U[answer, torch.arange(V)] = 1.0
    one = {k: torch.zeros(d, N) for k in ("W_Q", "W_K")}
    one |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    one["W_Q"][place[1:], torch.arange(N - 1)] = 10.0
    one["W_K"][place, torch.arange(N)] = 1.0
    one["W_V"][token, torch.arange(V)] = 1.0
    one["W_O"][torch.arange(V), note] = 1.0
    two = {k: torch.zeros(d, V + 1) for k in ("W_Q", "W_K")}
    two |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    strength = math.sqrt(V + 1)
    two["W_Q"][token, torch.arange(V)] = 16 * N * strength
    two["W_K"][note, torch.arange(V)] = 1.0
    two["W_Q"][token, V] = strength
    two["W_K"][place, V] = 8 * torch.arange(N).float()
    two["W_V"][token, torch.arange(V)] = 1.0
    two["W_O"][torch.arange(V), answer] = 1.0
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [one, two]}


def build_induction_circuit__wrong_seventh_note_copied_not_token(
    vocab_size: int, n_ctx: int
) -> dict:
    """Lets the second layer's W_V read the note of the key, not its token, so the head fetches the token that the query already has."""
    V, N = vocab_size, n_ctx
    widths = {"token": V, "position": N, "note": V, "next": V}
    field, begin = {}, 0
    for name, width in widths.items():
        field[name] = slice(begin, begin + width)
        begin += width
    d = begin

    def reader(name, scale=1.0):
        W = torch.zeros(d, widths[name])
        W[field[name]] = scale * torch.eye(widths[name])
        return W

    def writer(name):
        return reader(name).T.contiguous()

    first = {
        "W_Q": reader("position", 40 * math.sqrt(N)),
        "W_K": reader("position").roll(1, dims=1),
        "W_V": reader("token"),
        "W_O": writer("note"),
    }
    constant, ramp = torch.zeros(d, 1), torch.zeros(d, 1)
    constant[field["token"]] = math.sqrt(V + 1)
    ramp[field["position"], 0] = torch.arange(0, 9 * N, 9).float()
    second = {
        "W_Q": torch.cat([reader("token", 14 * N * math.sqrt(V + 1)), constant], 1),
        "W_K": torch.cat([reader("note"), ramp], 1),
        "W_V": reader("note"),
        "W_O": writer("next"),
    }
    return {
        "W_E": writer("token"), "W_pos": writer("position"), "W_U": reader("next"),
        "blocks": [first, second],
    }  # fmt: skip


def build_induction_circuit__wrong_seventh_slope_outweighs_the_match(
    vocab_size: int, n_ctx: int
) -> dict:
    """Sets the match to a fixed 100 beside a slope of 8 per position, so from a dozen positions on the last key beats the match."""
    V, N = vocab_size, n_ctx
    I_v, I_n = torch.eye(V), torch.eye(N)
    d = 3 * V + N
    layout = [V, N, V, V]

    def place(number, block):
        W = torch.zeros(d, block.shape[1])
        W.split(layout)[number].copy_(block)
        return W

    ones = torch.ones(V, 1)
    ramp = torch.arange(N, dtype=torch.float32)[:, None]
    return {
        "W_E": place(0, I_v).T.clone(),
        "W_pos": place(1, I_n).T.clone(),
        "W_U": place(3, I_v),
        "blocks": [
            {
                "W_Q": place(1, 50 * N**0.5 * I_n),
                "W_K": place(1, torch.roll(I_n, 1, 1)),
                "W_V": place(0, I_v),
                "W_O": place(2, I_v).T.clone(),
            },
            {
                "W_Q": (V + 1) ** 0.5 * place(0, torch.cat([100 * I_v, ones], 1)),
                "W_K": torch.cat([place(2, I_v), place(1, 8 * ramp)], 1),
                "W_V": place(0, I_v),
                "W_O": place(3, I_v).T.clone(),
            },
        ],
    }


def build_induction_circuit__wrong_seventh_looks_a_vocabulary_back(
    vocab_size: int, n_ctx: int
) -> dict:
    """Takes the period to be vocab_size, as if a block held every token: the second layer looks vocab_size - 1 positions back, by position alone."""
    V, N = vocab_size, n_ctx
    d = 2 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, :V], W_pos[:, V : V + N], W_U[V + N :] = torch.eye(V), torch.eye(N), torch.eye(V)

    def positional(back):
        head = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N)}
        for i in range(back, N):
            head["W_Q"][V + i, i - back] = 60 * math.sqrt(N)
        head["W_K"][V : V + N] = torch.eye(N)
        head["W_V"], head["W_O"] = torch.zeros(d, V), torch.zeros(V, d)
        return head

    first, second = positional(1), positional(V - 1)
    second["W_V"][:V] = torch.eye(V)
    second["W_O"][:, V + N :] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_seventh_answer_over_the_token(
    vocab_size: int, n_ctx: int
) -> dict:
    """Three fields and a constant and a ramp in W_pos; the second head writes three times the token back into the token field, from which W_U reads."""
    V, N = vocab_size, n_ctx
    d = 2 * V + N + 2
    tok, note, pos = slice(0, V), slice(V, 2 * V), slice(2 * V, 2 * V + N)
    const, ramp = d - 2, d - 1
    W_E = torch.eye(V, d)
    W_pos = torch.zeros(N, d)
    W_pos[:, pos] = torch.eye(N)
    W_pos[:, const] = 1
    W_pos[:, ramp] = torch.arange(N) / N
    slope, lead = 10.0 * N, 25.0 * N

    first = {
        "W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N),
        "W_V": torch.eye(d, V), "W_O": torch.zeros(V, d),
    }  # fmt: skip
    first["W_Q"][pos] = torch.eye(N).roll(-1, dims=1) * 40
    first["W_K"][pos] = torch.eye(N) * math.sqrt(N)
    first["W_O"][:, note] = torch.eye(V)

    root = math.sqrt(V + 1)
    second = {
        "W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1),
        "W_V": torch.eye(d, V), "W_O": 3 * torch.eye(V, d),
    }  # fmt: skip
    second["W_Q"][tok, :V] = lead * torch.eye(V)
    second["W_K"][note, :V] = root * torch.eye(V)
    second["W_Q"][const, V] = slope
    second["W_K"][ramp, V] = root
    return {"W_E": W_E, "W_pos": W_pos, "W_U": torch.eye(d, V), "blocks": [first, second]}


def build_induction_circuit__right_seventh_mismatch_punished(
    vocab_size: int, n_ctx: int
) -> dict:
    """Entry by entry; keys hold -1 for every token and the note undoes it for one, so mismatches are pushed down, with a slope of 7 a position."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    d_1, d_2 = N + 3, V + 5  # a few columns stay empty
    first = {"W_Q": torch.zeros(d, d_1), "W_K": torch.zeros(d, d_1)}
    second = {"W_Q": torch.zeros(d, d_2), "W_K": torch.zeros(d, d_2)}
    for block in (first, second):
        block["W_V"], block["W_O"] = torch.zeros(d, V), torch.zeros(V, d)
    for t in range(V):
        W_E[t, t] = 1
        first["W_V"][t, t] = 1
        first["W_O"][t, V + N + t] = 1
        second["W_Q"][t, t] = 20 * N * math.sqrt(d_2)
        second["W_K"][V + N + t, t] = 1
        second["W_Q"][t, V] = math.sqrt(d_2)
        second["W_V"][t, t] = 1
        second["W_O"][t, 2 * V + N + t] = 1
        W_U[2 * V + N + t, t] = 1
    for j in range(N):
        W_pos[j, V + j] = 1
        second["W_K"][V + j, :V] = -1
        second["W_K"][V + j, V] = 7 * j
        first["W_K"][V + j, j] = 1
        if j:
            first["W_Q"][V + j, j - 1] = 45 * math.sqrt(d_1)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# ---------------------------------------------------------------------------------------
# 8.10 find_heads


def find_heads__wrong_seventh_mean_over_places_not_rows(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Averages the weight over all single places with patterns[mask].mean(), so a head that shares a row's weight between two matches gets half."""
    n = len(tokens)
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(-1, keepdim=True)
    before = torch.zeros(n, n, dtype=torch.bool)
    after = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(i):
            before[i, j] = j == i - 1
            after[i, j + 1] = tokens[j] == tokens[i]
    found = []
    for mask in (before, after):
        pairs = []
        if mask.any():
            middle = (1 + even[mask].mean()) / 2
            for layer, heads in enumerate(patterns):
                for head, A in enumerate(heads):
                    if A[mask].mean() > middle:
                        pairs.append((layer, head))
        found.append(pairs)
    return tuple(found)


def find_heads__wrong_seventh_itself_left_out(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Lets the place that followed only be an earlier position, j < i, so after a twin token the query's own position does not count."""
    layers, heads, n, _ = patterns.shape
    ids = tokens.tolist()
    previous = {i: [i - 1] for i in range(1, n)}
    followed = {
        i: [j for j in range(1, i) if ids[j - 1] == ids[i]] for i in range(n)
    }
    result = []
    for places in (previous, followed):
        rows = [i for i in places if places[i]]
        chosen = []
        for layer in range(layers):
            for head in range(heads):
                if not rows:
                    continue
                A = patterns[layer, head]
                score = sum(float(A[i, places[i]].sum()) for i in rows) / len(rows)
                even = sum(len(places[i]) / (i + 1) for i in rows) / len(rows)
                if abs(score - 1) < abs(score - even):
                    chosen.append((layer, head))
        result.append(chosen)
    return result[0], result[1]


def find_heads__wrong_seventh_sorted_by_score(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Returns the heads with the best score first, not sorted by (layer, head)."""
    n = tokens.numel()
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    shifted = tokens.roll(1)
    masks = j == i - 1, (j >= 1) & (j <= i) & (shifted[None, :] == tokens[:, None])
    answer = []
    for mask in masks:
        rows = mask.any(dim=1)
        scored = []
        if rows.any():
            even = (mask.sum(1) / (torch.arange(n) + 1))[rows].mean()
            score = (patterns * mask).sum(-1)[..., rows].mean(-1)
            for pair in (score > (1 + even) / 2).nonzero().tolist():
                scored.append((float(score[tuple(pair)]), tuple(pair)))
        scored.sort(reverse=True)
        answer.append([pair for _, pair in scored])
    return tuple(answer)


def find_heads__wrong_seventh_one_kind_each(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Puts a head that passes as previous-token head into that list alone, with elif, though it may be of both kinds."""
    n = tokens.shape[0]
    ids = tokens.tolist()
    matches = [
        [j + 1 for j in range(i) if ids[j] == ids[i]] for i in range(n)
    ]
    rows = [i for i in range(n) if matches[i]]
    previous, induction = [], []
    if n == 1:
        return previous, induction
    chance_previous = sum(1 / (i + 1) for i in range(1, n)) / (n - 1)
    for layer in range(patterns.shape[0]):
        for head in range(patterns.shape[1]):
            A = patterns[layer, head].tolist()
            back = sum(A[i][i - 1] for i in range(1, n)) / (n - 1)
            if back > (1 + chance_previous) / 2:
                previous.append((layer, head))
            elif rows:
                hit = sum(A[i][j] for i in rows for j in matches[i]) / len(rows)
                chance = sum(len(matches[i]) / (i + 1) for i in rows) / len(rows)
                if hit > (1 + chance) / 2:
                    induction.append((layer, head))
    return previous, induction


def find_heads__wrong_seventh_nan_counts_as_found(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Keeps every head that is not below the middle; where no row has a match, the means are NaN, no comparison holds, and all heads are named."""
    n = tokens.shape[0]
    rows_above = torch.arange(n, dtype=patterns.dtype) + 1

    def search(mask):
        rows = mask.any(dim=-1)
        hits = (patterns * mask.to(patterns.dtype)).sum(dim=-1)[:, :, rows].mean(dim=-1)
        even = (mask.sum(dim=-1) / rows_above)[rows].mean()
        dropped = hits < (even + 1) / 2
        return [
            (a, b)
            for a in range(dropped.shape[0])
            for b in range(dropped.shape[1])
            if not dropped[a, b]
        ]

    same = (tokens[:, None] == tokens[None, :]).tril(-1)
    follow = torch.zeros_like(same)
    follow[:, 1:] = same[:, :-1]
    return search(torch.eye(n).roll(-1, 1).tril(-1).bool()), search(follow)


def find_heads__wrong_seventh_period_guessed(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Takes the distance of the first recurrence for the period of the whole text and calls exercise 8.3, though gaps vary."""
    ids = tokens.tolist()
    n = len(ids)
    period = n
    for i in range(n):
        if ids[i] in ids[:i]:
            period = i - max(j for j in range(i) if ids[j] == ids[i])
            break
    scores = (
        (_previous_token_score(patterns), 1, 1),
        (_prefix_matching_score(patterns, period), period, 1),
    )
    answer = []
    for score, start, places in scores:
        even = [places / (i + 1) for i in range(start, n)]
        if not even:
            answer.append([])
            continue
        middle = (1 + sum(even) / len(even)) / 2
        answer.append([tuple(pair) for pair in (score > middle).nonzero().tolist()])
    return tuple(answer)


def find_heads__wrong_seventh_twice_chance(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Counts a head as found if its score is more than twice that of even attention, not nearer to 1 than to it."""
    n = len(tokens)
    where = torch.zeros(2, n, n, dtype=patterns.dtype)
    for i in range(n):
        for j in range(i):
            if j == i - 1:
                where[0, i, j] = 1
            if tokens[j] == tokens[i]:
                where[1, i, j + 1] = 1
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=1, keepdim=True)
    out = []
    for kind in where:
        rows = kind.sum(dim=1) > 0
        if not rows.any():
            out.append([])
            continue
        score = torch.einsum("lhij,ij->lhi", patterns, kind)[..., rows].mean(-1)
        chance = (even * kind).sum(-1)[rows].mean()
        out.append([tuple(pair) for pair in (score > 2 * chance).nonzero().tolist()])
    return out[0], out[1]


def find_heads__wrong_seventh_most_rows_decide(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Lets each row vote by whether its single largest weight stands on such a place, and asks for more than half of the rows."""
    n = tokens.shape[0]
    best = patterns.argmax(dim=-1)
    previous, induction = [], []
    for layer in range(patterns.shape[0]):
        for head in range(patterns.shape[1]):
            looked = best[layer, head].tolist()
            votes = Counter()
            for i in range(1, n):
                votes["rows back"] += 1
                votes["back"] += looked[i] == i - 1
                places = [j + 1 for j in range(i) if tokens[j] == tokens[i]]
                if places:
                    votes["rows on"] += 1
                    votes["on"] += looked[i] in places
            if votes["back"] > votes["rows back"] / 2:
                previous.append((layer, head))
            if votes["on"] > votes["rows on"] / 2:
                induction.append((layer, head))
    return previous, induction


def find_heads__right_seventh_even_head_as_one_more(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Appends the evenly spread pattern as one more head, scores all alike, and compares distances to 1 and to the last."""
    layers, heads, n, _ = patterns.shape
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=-1, keepdim=True)
    stack = torch.cat([patterns.reshape(-1, n, n), even[None]])
    same = (tokens[:, None] == tokens[None, :]).tril(-1)
    after = torch.cat([torch.zeros(n, 1, dtype=torch.bool), same[:, :-1]], dim=1)
    back = torch.zeros(n, n, dtype=torch.bool)
    back.diagonal(-1).fill_(True)
    answer = []
    for mask in (back, after):
        rows = mask.any(dim=-1).nonzero()[:, 0]
        if rows.numel() == 0:
            answer.append([])
            continue
        score = stack.masked_fill(~mask, 0)[:, rows].sum(dim=-1).mean(dim=-1)
        near = (1 - score[:-1]).abs() < (score[:-1] - score[-1]).abs()
        answer.append([divmod(k, heads) for k in near.nonzero()[:, 0].tolist()])
    return tuple(answer)


def find_heads__right_seventh_dictionary_of_followers(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Reads the text from left to right, keeps for each token the places that followed it, and adds up plain numbers."""
    ids, followers, previous, induction = tokens.tolist(), {}, {}, {}
    for i, token in enumerate(ids):
        if i:
            previous[i] = [i - 1]
            followers.setdefault(ids[i - 1], []).append(i)
        if followers.get(token):
            induction[i] = list(followers[token])

    def is_one(A, places):
        if not places:
            return False
        gain = sum(
            2 * sum(A[i][j] for j in js) - 1 - len(js) / (i + 1)
            for i, js in places.items()
        )
        return gain > 0

    named = [(a, b) for a in range(len(patterns)) for b in range(len(patterns[a]))]
    grid = patterns.tolist()
    return tuple(
        [pair for pair in named if is_one(grid[pair[0]][pair[1]], places)]
        for places in (previous, induction)
    )


# ---------------------------------------------------------------------------------------
# 8.11 ablate_path


def ablate_path__wrong_seventh_note_added_in_place(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Keeps the stream before the note under a second name and then adds the note with +=, so both names hold the note and nothing is cut."""
    n = tokens.shape[1]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    without = x

    def attend(q, k, block):
        scores = (q @ block["W_Q"]) @ (k @ block["W_K"]).mT / block["W_Q"].shape[1] ** 0.5
        return scores.masked_fill(future, -torch.inf).softmax(-1)

    A1 = attend(x.clone(), x.clone(), first)
    x += A1 @ x.clone() @ first["W_V"] @ first["W_O"]
    reads = {"query": x, "key": x, "value": x, into: without}
    A2 = attend(reads["query"], reads["key"], second)
    x = x + A2 @ reads["value"] @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A1, A2]


def ablate_path__wrong_seventh_or_that_is_always_true(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Writes if into == "query" or "both", which is always true, so the queries are cut whatever is asked."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    b1, b2 = weights["blocks"]
    x0 = weights["W_E"][tokens] + weights["W_pos"][:n]
    s1 = (x0 @ b1["W_Q"]) @ (x0 @ b1["W_K"]).transpose(-1, -2)
    A1 = (s1 / math.sqrt(b1["W_Q"].shape[1])).masked_fill(~mask, -torch.inf).softmax(-1)
    x1 = x0 + A1 @ x0 @ b1["W_V"] @ b1["W_O"]
    for_q = for_k = for_v = x1
    if into == "query" or "both":
        for_q = x0
    elif into == "key":
        for_k = x0
    elif into == "value":
        for_v = x0
    s2 = (for_q @ b2["W_Q"]) @ (for_k @ b2["W_K"]).transpose(-1, -2)
    A2 = (s2 / math.sqrt(b2["W_Q"].shape[1])).masked_fill(~mask, -torch.inf).softmax(-1)
    x2 = x1 + A2 @ for_v @ b2["W_V"] @ b2["W_O"]
    return x2 @ weights["W_U"], [A1, A2]


def ablate_path__wrong_seventh_position_forgotten(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Gives the blind reader the token embedding alone, without W_pos, which it would still have if the first layer wrote nothing."""
    n = tokens.shape[1]
    causal = torch.full((n, n), -torch.inf, dtype=weights["W_E"].dtype).triu(1)
    embedded = weights["W_E"][tokens]
    stream = embedded + weights["W_pos"][:n]
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        q = k = v = stream
        if layer == 1:
            q = embedded if into == "query" else q
            k = embedded if into == "key" else k
            v = embedded if into == "value" else v
        scores = torch.einsum("bid,bjd->bij", q @ block["W_Q"], k @ block["W_K"])
        A = (scores / math.sqrt(block["W_Q"].shape[1]) + causal).softmax(dim=-1)
        stream = stream + A @ v @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return stream @ weights["W_U"], patterns


def ablate_path__wrong_seventh_reads_the_note_alone(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Turns the cut round: the reader gets only what the first layer wrote, and is blind to the embedding."""
    n = tokens.shape[1]
    hidden = ~torch.ones(n, n, dtype=torch.bool).tril()

    def pattern(left, right, W):
        raw = (left @ W["W_Q"]) @ (right @ W["W_K"]).mT
        raw = raw / math.sqrt(W["W_Q"].size(1))
        return torch.softmax(raw.masked_fill(hidden, float("-inf")), -1)

    one, two = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    A1 = pattern(start, start, one)
    note = A1 @ start @ one["W_V"] @ one["W_O"]
    full = start + note
    sees = dict.fromkeys(("query", "key", "value"), full)
    sees[into] = note
    A2 = pattern(sees["query"], sees["key"], two)
    logits = (full + A2 @ sees["value"] @ two["W_V"] @ two["W_O"]) @ weights["W_U"]
    return logits, [A1, A2]


def ablate_path__wrong_seventh_whole_pattern_of_the_silent_model(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Takes the second pattern from a run with a silent first layer for "query" and for "key", so both readers are blind at once."""
    first, second = weights["blocks"]
    _, (A1, A2) = _run_attention_only(tokens, weights)
    silent_first = dict(first, W_O=torch.zeros_like(first["W_O"]))
    silent = dict(weights, blocks=[silent_first, second])
    _, (_, A2_silent) = _run_attention_only(tokens, silent)
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    stream = start + A1 @ start @ first["W_V"] @ first["W_O"]
    if into in ("query", "key"):
        pattern, values = A2_silent, stream
    else:
        pattern, values = A2, start
    stream = stream + pattern @ values @ second["W_V"] @ second["W_O"]
    return stream @ weights["W_U"], [A1, pattern]


def ablate_path__wrong_seventh_own_note_subtracted_from_the_output(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """For "value" subtracts note @ W_V @ W_O at the query's own position and forgets that the pattern A mixes the notes of the keys."""
    n = tokens.shape[1]
    allowed = torch.ones(n, n, dtype=torch.bool).tril()
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    s = (x @ first["W_Q"]) @ (x @ first["W_K"]).mT / math.sqrt(first["W_Q"].shape[1])
    A1 = torch.where(allowed, s, -torch.inf).softmax(dim=-1)
    note = A1 @ x @ first["W_V"] @ first["W_O"]
    x = x + note
    q = (x - note if into == "query" else x) @ second["W_Q"]
    k = (x - note if into == "key" else x) @ second["W_K"]
    s = q @ k.mT / math.sqrt(second["W_Q"].shape[1])
    A2 = torch.where(allowed, s, -torch.inf).softmax(dim=-1)
    written = A2 @ x @ second["W_V"] @ second["W_O"]
    if into == "value":
        written = written - note @ second["W_V"] @ second["W_O"]
    return (x + written) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_seventh_note_lost_to_the_logits(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Overwrites the stream itself for the blind reader, x = x - note, and adds the second layer's output to that, so the logits lose the note too."""
    n = tokens.shape[1]
    lower = torch.ones(n, n, dtype=torch.bool).tril()
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    A1 = (x @ first["W_Q"]) @ (x @ first["W_K"]).mT / math.sqrt(first["W_Q"].shape[-1])
    A1 = A1.masked_fill(~lower, -torch.inf).softmax(-1)
    note = A1 @ x @ first["W_V"] @ first["W_O"]
    x = x + note
    q, k, v = x @ second["W_Q"], x @ second["W_K"], x @ second["W_V"]
    x = x - note
    if into == "query":
        q = x @ second["W_Q"]
    elif into == "key":
        k = x @ second["W_K"]
    else:
        v = x @ second["W_V"]
    A2 = (q @ k.mT / math.sqrt(second["W_Q"].shape[-1])).masked_fill(~lower, -torch.inf)
    A2 = A2.softmax(-1)
    return (x + A2 @ v @ second["W_O"]) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_seventh_mean_note_in_its_place(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Puts the mean note over batch and positions in the place of the note, a mean ablation, so the reader is not as if nothing had been written."""
    n = tokens.shape[1]
    no = torch.ones(n, n, dtype=torch.bool).triu(diagonal=1)
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    out = []
    blind = x
    for layer, W in enumerate(weights["blocks"]):
        q = blind if layer and into == "query" else x
        k = blind if layer and into == "key" else x
        v = blind if layer and into == "value" else x
        scores = torch.matmul(q @ W["W_Q"], (k @ W["W_K"]).transpose(1, 2))
        A = (scores * W["W_Q"].shape[1] ** -0.5).masked_fill(no, -torch.inf).softmax(2)
        delta = A @ (v @ W["W_V"]) @ W["W_O"]
        if layer == 0:
            blind = x + delta.mean(dim=(0, 1), keepdim=True)
        x = x + delta
        out.append(A)
    return x @ weights["W_U"], out


def ablate_path__right_seventh_note_in_columns_of_its_own(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Doubles the stream: the first layer writes into a second half, every reader of the second layer and W_U read both, but the blind one has zeros there."""
    first, second = weights["blocks"]
    d = weights["W_E"].shape[1]

    def below(W, again):
        return torch.cat([W, W if again else torch.zeros_like(W)])

    def beside(W, left):
        nothing = torch.zeros_like(W)
        return torch.cat([W, nothing] if left else [nothing, W], dim=1)

    reads = {"W_Q": "query", "W_K": "key", "W_V": "value"}
    one = {name: below(first[name], False) for name in reads}
    one["W_O"] = beside(first["W_O"], False)
    two = {name: below(second[name], reads[name] != into) for name in reads}
    two["W_O"] = beside(second["W_O"], True)
    wide = {
        "W_E": beside(weights["W_E"], True),
        "W_pos": beside(weights["W_pos"], True),
        "W_U": below(weights["W_U"], True),
        "blocks": [one, two],
    }
    assert wide["W_E"].shape[1] == 2 * d
    return _run_attention_only(tokens, wide)


def ablate_path__right_seventh_row_by_row(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """One text and one query row at a time, over the keys up to it; the stream is kept as it was before and after the note."""
    first, second = weights["blocks"]
    all_logits, all_first, all_second = [], [], []

    def look(queries, keys, values, block):
        q, k, v = queries @ block["W_Q"], keys @ block["W_K"], values @ block["W_V"]
        rows, mixed = [], []
        for i in range(len(q)):
            row = torch.softmax(k[: i + 1] @ q[i] / q.shape[1] ** 0.5, dim=0)
            mixed.append(row @ v[: i + 1])
            rows.append(F.pad(row, (0, len(q) - 1 - i)))
        return torch.stack(rows), torch.stack(mixed) @ block["W_O"]

    for text in tokens:
        before = weights["W_E"][text] + weights["W_pos"][: len(text)]
        A1, note = look(before, before, before, first)
        after = before + note
        streams = [
            before if reader == into else after for reader in ("query", "key", "value")
        ]
        A2, written = look(*streams, second)
        all_logits.append((after + written) @ weights["W_U"])
        all_first.append(A1)
        all_second.append(A2)
    return torch.stack(all_logits), [torch.stack(all_first), torch.stack(all_second)]
