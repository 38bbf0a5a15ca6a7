"""Answers to the exercises of unit 8, wrong ones and right ones, as students would write them."""

import math

import torch
import torch.nn.functional as F


def _run_attention_only(tokens, weights):
    """The notebook's two-layer model: (logits, patterns)."""
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


def _causal_softmax(scores):
    """Softmax over the keys that are not later than the query."""
    n = scores.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)


# ------- 8.1 repeated_sequences


def repeated_sequences__wrong_fourteenth_each_token_repeats(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Repeats every single token (a a b b c c), where the whole block should come again (a b c a b c)."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat_interleave(repeats, dim=1)


def repeated_sequences__wrong_fourteenth_distinct_tokens_in_block(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Takes blocks of distinct tokens (a random order, as in section 5), where each token is drawn independently."""
    shuffled = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    columns = torch.arange(period) % vocab_size
    block = shuffled[:, columns]
    return torch.cat([block] * repeats, dim=1)


def repeated_sequences__wrong_fourteenth_new_block_each_time(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws a fresh block for each of the `repeats` stretches, where one block per row is drawn and played again."""
    pieces = []
    for _ in range(repeats):
        pieces.append(torch.randint(vocab_size, (batch, period), generator=generator))
    return torch.cat(pieces, dim=1)


def repeated_sequences__wrong_fourteenth_last_id_never(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Takes the upper end of randint as included and passes vocab_size - 1, so the last id never occurs."""
    largest_id = vocab_size - 1
    ids = torch.randint(0, largest_id, size=(batch, period), generator=generator)
    return torch.tile(ids, (1, repeats))


def repeated_sequences__wrong_fourteenth_one_copy_too_many(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Starts with the block and appends it `repeats` times more: repeats + 1 copies instead of repeats."""
    first = torch.randint(vocab_size, (batch, period), generator=generator)
    rows = first
    for _ in range(repeats):
        rows = torch.hstack((rows, first))
    return rows


def repeated_sequences__wrong_fourteenth_period_and_repeats_swapped(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Reads `repeats` as the length of the block and `period` as the number of copies: it is the other way round."""
    block_length, copies = repeats, period
    block = torch.randint(vocab_size, (batch, block_length), generator=generator)
    return block.repeat(1, copies)


def repeated_sequences__wrong_fourteenth_single_row_loses_axis(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Squeezes the result, so with batch 1 it is (period * repeats,) instead of (1, period * repeats)."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = block[:, None, :].expand(batch, repeats, period)
    return copies.reshape(batch, -1).squeeze(0)


def repeated_sequences__wrong_fourteenth_generator_not_moved_on(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws from a new generator with the same first seed: the one handed in never moves on, later calls repeat."""
    mine = torch.Generator()
    mine.manual_seed(generator.initial_seed())
    block = torch.randint(vocab_size, (batch, period), generator=mine)
    return block.repeat(1, repeats)


def repeated_sequences__right_fourteenth_position_modulo_period(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Right: position i of the row looks up position i mod period of the block."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    where = torch.arange(period * repeats).remainder(period)
    return block.index_select(1, where)


# ------- 8.2 previous_token_score


def previous_token_score__wrong_fourteenth_share_of_winning_rows(weights: torch.Tensor) -> torch.Tensor:
    """Counts in how many rows the previous token has the largest weight, where the mean of the weights is due."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    favourite = weights[..., 1:, :].argmax(dim=-1)
    hit = favourite == torch.arange(n - 1)
    return hit.to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_fourteenth_all_earlier_tokens(weights: torch.Tensor) -> torch.Tensor:
    """Sums the weight on all tokens before i ("previous" in general), where only the one at i - 1 counts."""
    n = weights.shape[-1]
    looking_back = weights.tril(diagonal=-1).sum(dim=-1)
    return looking_back[..., 1:].sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_fourteenth_first_position_looks_at_itself(weights: torch.Tensor) -> torch.Tensor:
    """Lets position 0 count with its weight on itself, as it can look nowhere else; it should be left out."""
    n = weights.size(-1)
    if n < 2:
        return 0 * weights[..., 0, 0]
    target = (torch.arange(n) - 1).clamp(min=0)
    index = target.view(n, 1).expand(*weights.shape[:-1], 1)
    return weights.gather(-1, index).squeeze(-1).mean(-1)


def previous_token_score__wrong_fourteenth_last_row_left_out(weights: torch.Tensor) -> torch.Tensor:
    """The loop ends at n - 2, so the last row's weight is missing from the sum (the divisor is right)."""
    n = weights.shape[-1]
    total = torch.zeros_like(weights[..., 0, 0])
    for i in range(1, n - 1):
        total = total + weights[..., i, i - 1]
    return total / (n - 1) if n > 1 else total


def previous_token_score__wrong_fourteenth_diagonal_of_first_axes(weights: torch.Tensor) -> torch.Tensor:
    """Forgets dim1 and dim2: with leading axes the diagonal runs through the first two axes, not the last two."""
    if weights.shape[-1] == 1:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    return torch.diagonal(weights, offset=-1).mean(dim=-1)


def previous_token_score__wrong_fourteenth_rows_read_as_keys(weights: torch.Tensor) -> torch.Tensor:
    """Reads row = key, column = query: averages the weights from i - 1 to i, above the diagonal instead of below."""
    by_query = weights.transpose(-1, -2)
    n = by_query.shape[-1]
    line = by_query.diagonal(offset=-1, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / max(1, n - 1)


def previous_token_score__wrong_fourteenth_single_token_gives_nan(weights: torch.Tensor) -> torch.Tensor:
    """Forgets n = 1: the mean of an empty diagonal is NaN, where 0 is due."""
    return weights[..., 1:, :-1].diagonal(dim1=-2, dim2=-1).mean(-1)


def previous_token_score__wrong_fourteenth_always_single_precision(weights: torch.Tensor) -> torch.Tensor:
    """Collects the scores in a default float32 buffer: float64 weights should give float64 scores."""
    *lead, n, _ = weights.shape
    patterns = weights.reshape(-1, n, n)
    scores = torch.zeros(len(patterns))
    for k, pattern in enumerate(patterns):
        if n > 1:
            scores[k] = sum(pattern[i, i - 1] for i in range(1, n)) / (n - 1)
    return scores.reshape(lead)


def previous_token_score__right_fourteenth_sum_with_shift_matrix(weights: torch.Tensor) -> torch.Tensor:
    """Right: an einsum with a matrix that has ones just below the diagonal, over the number of these ones."""
    n = weights.shape[-1]
    below = torch.diag_embed(weights.new_ones(n - 1), offset=-1) if n > 1 else weights.new_zeros(1, 1)
    return torch.einsum("...ij,ij->...", weights, below) / max(n - 1, 1)


# ------- 8.3 prefix_matching_score


def prefix_matching_score__wrong_fourteenth_looks_at_same_token(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Believes that an induction head looks one period back, at i - period; what followed is at i - (period - 1)."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    return weights.diagonal(offset=-period, dim1=-2, dim2=-1).mean(dim=-1)


def prefix_matching_score__wrong_fourteenth_all_matches_summed(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Sums the weight on what followed every earlier copy of the token; only the copy one period ago counts."""
    n = weights.shape[-1]
    query, key = torch.arange(n)[:, None], torch.arange(n)[None, :]
    follows_a_match = (key >= 1) & (key <= query) & ((query - key + 1) % period == 0)
    found = (weights * follows_a_match)[..., period:, :].sum(dim=(-2, -1))
    return found / max(n - period, 1)


def prefix_matching_score__wrong_fourteenth_second_block_only(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Thinks that only the first replay shows induction and stops at row 2 * period - 1; all later rows count too."""
    n = weights.shape[-1]
    rows = torch.arange(period, min(2 * period, n))
    if rows.numel() == 0:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    return weights[..., rows, rows - (period - 1)].mean(dim=-1)


def prefix_matching_score__wrong_fourteenth_diagonal_starts_early(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Averages the whole diagonal, with row period - 1, the last of the first block, which should not count."""
    seq_len = weights.size(-1)
    line = torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1)
    if seq_len > period:
        return line.mean(dim=-1)
    return weights.new_zeros(weights.shape[:-2])


def prefix_matching_score__wrong_fourteenth_bracket_sign_lost(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Drops the bracket and writes i - period - 1: two columns too far left, and row `period` wraps to the last key."""
    n = weights.shape[-1]
    picked = []
    for i in range(period, n):
        picked.append(weights[..., i, i - period - 1])
    if not picked:
        return torch.zeros_like(weights[..., 0, 0])
    return torch.stack(picked).mean(dim=0)


def prefix_matching_score__wrong_fourteenth_period_as_block_count(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Reads `period` as the number of blocks in the text, and works out n // period tokens per block from it."""
    n = weights.shape[-1]
    tokens_in_block = n // period
    if tokens_in_block == 0 or n <= tokens_in_block:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(tokens_in_block, n)
    j = i - (tokens_in_block - 1)
    return weights[..., i, j].mean(-1)


def prefix_matching_score__wrong_fourteenth_exactly_one_block(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Returns 0 for n < period only; for n equal to period nothing is left either, and the mean is NaN."""
    n = weights.shape[-1]
    if n < period:
        return weights.new_zeros(weights.shape[:-2])
    rows_that_count = weights[..., period:, 1:]
    return rows_that_count.diagonal(dim1=-2, dim2=-1).mean(dim=-1)


def prefix_matching_score__wrong_fourteenth_numbers_cut_gradient(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Turns the entries into Python numbers with .item() and makes a new tensor of them: no gradient flows back."""
    shape, n = weights.shape[:-2], weights.shape[-1]
    means = []
    for pattern in weights.reshape(-1, n, n):
        entries = [pattern[i, i - (period - 1)].item() for i in range(period, n)]
        means.append(sum(entries) / len(entries) if entries else 0.0)
    return torch.tensor(means, dtype=weights.dtype).reshape(shape)


def prefix_matching_score__right_fourteenth_stride_through_flat_pattern(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Right: in the flattened pattern the entries begin at (period, 1) and follow at a distance of n + 1."""
    n = weights.shape[-1]
    flat = weights.flatten(start_dim=-2)
    entries = flat[..., period * n + 1 :: n + 1]
    return entries.sum(dim=-1) / max(n - period, 1)


# ------- 8.4 ov_circuit


def ov_circuit__wrong_fourteenth_turned_into_probabilities(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Takes the effect on the probabilities, with a softmax over each row; the plain additions to logits are due."""
    values = W_E @ W_V
    logits = values @ W_O @ W_U
    return F.softmax(logits, dim=-1)


def ov_circuit__wrong_fourteenth_direct_path_added(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds the embedding's own way to the logits, W_E W_U, as in X + A X W_OV; only the head's part is asked for."""
    stream = W_E
    stream = stream + W_E @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_fourteenth_rows_centred(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Takes the mean off each row, since a constant does not matter to a softmax; the raw additions are due."""
    added = torch.linalg.multi_dot([W_E, W_V, W_O, W_U])
    row_means = added.mean(dim=1, keepdim=True)
    return added - row_means


def ov_circuit__wrong_fourteenth_written_never_reset(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Forgets to start anew for each token: row t holds the sum of the effects of the tokens 0 to t."""
    rows = []
    written = torch.zeros_like(W_O[0])
    for embedding in W_E:
        value = embedding @ W_V
        written = written + value @ W_O
        rows.append(written @ W_U)
    return torch.stack(rows)


def ov_circuit__wrong_fourteenth_value_matrix_used_twice(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Goes back into the stream by W_V transposed, whose shape fits as well, instead of by W_O."""
    W_OV = torch.einsum("dv,ev->de", W_V, W_V)
    return torch.einsum("td,de,eu->tu", W_E, W_OV, W_U)


def ov_circuit__wrong_fourteenth_logits_as_rows(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Works with tokens as columns, as other texts do: row = logit, column = token attended to, so transposed."""
    embed, value, output, unembed = (W.T for W in (W_E, W_V, W_O, W_U))
    return unembed @ output @ value @ embed


def ov_circuit__wrong_fourteenth_square_unembedding_turned(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Turns W_U round if its first axis is as long as the vocabulary: wrong where d_model equals vocab."""
    vocab = W_E.shape[0]
    if W_U.shape[0] == vocab:  # stored as (vocab, d_model), like an embedding
        W_U = W_U.T
    return (W_E @ W_V) @ (W_O @ W_U)


def ov_circuit__wrong_fourteenth_product_in_numpy(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Multiplies NumPy arrays and goes back to a tensor: the numbers are right, but gradients are cut off."""
    e, v, o, u = (W.detach().numpy() for W in (W_E, W_V, W_O, W_U))
    return torch.from_numpy(e.dot(v).dot(o).dot(u))


def ov_circuit__right_fourteenth_sum_of_outer_products(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Right: for each coordinate of the value an outer product of what is read and what it adds, all summed."""
    read_from_tokens = W_E @ W_V
    said_by_values = W_O @ W_U
    result = W_E.new_zeros(W_E.shape[0], W_U.shape[1])
    for k in range(W_V.shape[1]):
        result = result + torch.outer(read_from_tokens[:, k], said_by_values[k])
    return result


# ------- 8.5 copying_score


def copying_score__wrong_fourteenth_positive_diagonal(ov: torch.Tensor) -> torch.Tensor:
    """Calls a token copied if its own logit rises at all (entry above 0), not if it is the largest of its row."""
    own = torch.diagonal(ov)
    return (own > 0).to(ov.dtype).mean()


def copying_score__wrong_fourteenth_above_row_mean(ov: torch.Tensor) -> torch.Tensor:
    """Compares the own logit with the mean of the other entries of the row, where it must exceed every one."""
    vocab = ov.shape[0]
    copied = 0
    for t in range(vocab):
        others = [float(ov[t, u]) for u in range(vocab) if u != t]
        if not others or float(ov[t, t]) > sum(others) / len(others):
            copied += 1
    return torch.tensor(copied / vocab, dtype=ov.dtype)


def copying_score__wrong_fourteenth_share_of_eigenvalues(ov: torch.Tensor) -> torch.Tensor:
    """Takes the literature's sum of eigenvalues over the sum of their sizes, where the share of rows is due."""
    eigenvalues = torch.linalg.eigvals(ov)
    size = eigenvalues.abs().sum()
    if size == 0:
        return ov.new_zeros(())
    return (eigenvalues.sum().real / size).to(ov.dtype)


def copying_score__wrong_fourteenth_largest_of_column(ov: torch.Tensor) -> torch.Tensor:
    """Looks for the largest entry along axis 0, so within each column instead of each row."""
    winners = ov.argmax(dim=0)
    return torch.eq(winners, torch.arange(len(ov))).to(ov.dtype).mean()


def copying_score__wrong_fourteenth_count_not_share(ov: torch.Tensor) -> torch.Tensor:
    """Forgets the division: returns how many tokens are copied, not which share of them."""
    best_value, best_column = ov.max(dim=1)
    hits = [int(column) == t for t, column in enumerate(best_column)]
    return torch.tensor(float(sum(hits)), dtype=best_value.dtype)


def copying_score__wrong_fourteenth_largest_in_size(ov: torch.Tensor) -> torch.Tensor:
    """Reads "larger" as larger in size and compares absolute values; -3 is not larger than 1."""
    strength = ov.abs()
    top = strength.argmax(dim=-1)
    return (top == torch.arange(ov.shape[0])).double().mean().to(ov.dtype)


def copying_score__wrong_fourteenth_all_negative_rows(ov: torch.Tensor) -> torch.Tensor:
    """Blots out the diagonal with 0 before it looks for the rival: a negative diagonal entry then always loses."""
    identity = torch.eye(ov.shape[0], dtype=ov.dtype)
    rivals = (ov * (1 - identity)).amax(dim=1)
    return (ov.diagonal() > rivals).to(ov.dtype).mean()


def copying_score__wrong_fourteenth_diagonal_overwritten(ov: torch.Tensor) -> torch.Tensor:
    """Overwrites the diagonal of the matrix that it was handed with -inf: the share is right, the input is changed."""
    own = ov.diagonal().clone()
    ov.fill_diagonal_(-math.inf)
    strongest_other = ov.max(dim=1).values
    return (own > strongest_other).to(own.dtype).mean()


def copying_score__right_fourteenth_rank_within_row(ov: torch.Tensor) -> torch.Tensor:
    """Right: counts for each row how many entries are at least as large as the own one; one alone means copied."""
    own = ov.diagonal().unsqueeze(1)
    at_least_as_large = (ov >= own).sum(dim=1)
    return (at_least_as_large == 1).sum().to(ov.dtype) / ov.shape[0]


# ------- 8.6 composition_score


def composition_score__wrong_fourteenth_query_side(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Lets the note enter on the query side, W_OV W_QK (Q-composition); on the key side it is W_QK W_OV^T."""
    size = W_QK.norm() * W_OV.norm()
    if size == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return (W_OV @ W_QK).norm() / size


def composition_score__wrong_fourteenth_cosine_of_matrices(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Compares the two matrices entry by entry (cosine of the flattened ones), not by the size of their product."""
    a, b = W_QK.flatten(), W_OV.flatten()
    lengths = a.dot(a).sqrt() * b.dot(b).sqrt()
    if float(lengths) == 0.0:
        return lengths
    return a.dot(b).abs() / lengths


def composition_score__wrong_fourteenth_in_units_of_chance(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Divides by what chance gives, 1 / sqrt(d_model), since one shall compare with it; the plain score is due."""
    norm = torch.linalg.matrix_norm
    below = norm(W_QK) * norm(W_OV)
    if below == 0:
        return torch.zeros_like(below)
    chance = 1 / math.sqrt(W_QK.shape[0])
    return norm(W_QK @ W_OV.T) / below / chance


def composition_score__wrong_fourteenth_missing_parentheses(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Leaves the parentheses out of a / (b * c): the result is multiplied by the second norm instead of divided."""
    if not W_QK.any() or not W_OV.any():
        return W_QK.new_tensor(0.0)
    composed = torch.linalg.norm(W_QK @ W_OV.T)
    return composed / torch.linalg.norm(W_QK) * torch.linalg.norm(W_OV)


def composition_score__wrong_fourteenth_largest_singular_values(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Passes ord=2, which is the largest singular value for a matrix; all norms should be Frobenius norms."""
    n_qk, n_ov, n_both = (torch.linalg.matrix_norm(M, ord=2) for M in (W_QK, W_OV, W_QK @ W_OV.mT))
    return n_both / (n_qk * n_ov) if n_qk > 0 and n_ov > 0 else n_qk * n_ov


def composition_score__wrong_fourteenth_no_transpose(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes W_OV for a matrix that acts on columns and multiplies W_QK W_OV; it acts on rows, so W_OV^T is due."""
    numerator = torch.einsum("ij,jk->ik", W_QK, W_OV).pow(2).sum().sqrt()
    denominator = W_QK.pow(2).sum().sqrt() * W_OV.pow(2).sum().sqrt()
    if denominator.eq(0):
        return torch.zeros_like(denominator)
    return numerator / denominator


def composition_score__wrong_fourteenth_tiny_circuits(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Adds 1e-6 to the denominator against 0/0: circuits with very small weights then score far too low."""
    eps = 1e-6
    frobenius = lambda M: torch.sqrt((M * M).sum())  # noqa: E731
    return frobenius(W_QK @ W_OV.T) / (frobenius(W_QK) * frobenius(W_OV) + eps)


def composition_score__wrong_fourteenth_sizes_detached(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes the two sizes as constants by .detach(): the number is right, the gradient lacks the denominator."""
    size_qk = torch.linalg.matrix_norm(W_QK.detach())
    size_ov = torch.linalg.matrix_norm(W_OV.detach())
    if size_qk == 0 or size_ov == 0:
        return 0 * (W_QK.sum() + W_OV.sum())
    return torch.linalg.matrix_norm(W_QK @ W_OV.T) / (size_qk * size_ov)


def composition_score__right_fourteenth_scaled_by_largest_entry(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Right: scales both to a largest entry of 1, as size is no matter, and reads each query row through the note."""
    peak_qk, peak_ov = W_QK.abs().amax(), W_OV.abs().amax()
    if peak_qk == 0 or peak_ov == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    reader, writer = W_QK / peak_qk, W_OV / peak_ov
    through_note = torch.stack([writer @ key_direction for key_direction in reader])
    length = torch.linalg.vector_norm
    return length(through_note) / length(reader) / length(writer)


# ------- 8.7 ablate_head


def ablate_head__wrong_fourteenth_only_that_head_left(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Isolates the head: it stays and all others become zero, the opposite of taking it out."""
    isolated = torch.zeros_like(head_outputs)
    isolated[:, head] = head_outputs[:, head]
    return isolated


def ablate_head__wrong_fourteenth_others_scaled_up(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Makes up for the lost head as dropout does, by h / (h - 1); the others should stay as they were."""
    n_heads = head_outputs.shape[1]
    keep = torch.ones(n_heads, dtype=head_outputs.dtype)
    keep[head] = 0
    if n_heads > 1:
        keep = keep * n_heads / (n_heads - 1)
    return head_outputs * keep.view(1, -1, 1, 1)


def ablate_head__wrong_fourteenth_mean_put_in_place(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Replaces the head's output by its mean over texts and positions (mean ablation); zeros are asked for."""
    kept = head_outputs.clone()
    average = head_outputs[:, head].mean(dim=(0, 1))
    kept[:, head] = average.expand_as(kept[:, head])
    return kept


def ablate_head__wrong_fourteenth_position_axis_masked(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Shapes the mask for axis 2: the position number `head` is silenced in all heads, not the head."""
    positions = head_outputs.shape[2]
    silenced = torch.arange(positions).reshape(1, 1, positions, 1) == head
    return head_outputs.masked_fill(silenced, 0.0)


def ablate_head__wrong_fourteenth_all_later_heads_too(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """A colon too many: `head:` sets this head and all that follow it to zero."""
    result = head_outputs.clone()
    result[:, head:] = 0
    return result


def ablate_head__wrong_fourteenth_counted_from_one(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Counts heads from 1: silences the head before the one asked for, and for head 0 the last one."""
    heads = list(head_outputs.unbind(dim=1))
    heads[head - 1] = torch.zeros_like(heads[head - 1])
    return torch.stack(heads, dim=1)


def ablate_head__wrong_fourteenth_last_head_slice(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes the heads after it with a negative slice; for the last head that is -0:, which is all of them."""
    h = head_outputs.shape[1]
    heads_after = h - 1 - head
    before, after = head_outputs[:, :head], head_outputs[:, -heads_after:]
    nothing = torch.zeros_like(head_outputs[:, head : head + 1])
    return torch.cat([before, nothing, after], dim=1)


def ablate_head__wrong_fourteenth_written_into_input(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes a second name for a copy: the zeros are written into the input itself."""
    ablated = head_outputs
    ablated[:, head, :, :] = 0
    return ablated


def ablate_head__right_fourteenth_index_fill(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Right: index_fill without underscore makes a new tensor with zeros at one index of axis 1."""
    return head_outputs.index_fill(1, torch.tensor([head]), 0.0)


# ------- 8.8 in_context_learning_score


def in_context_learning_score__wrong_fourteenth_gain_as_positive(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Thinks that learning must be a positive number and takes early minus late; late minus early is due."""
    loss_early, loss_late = losses[:, early].mean(), losses[:, late].mean()
    return loss_early - loss_late


def in_context_learning_score__wrong_fourteenth_means_up_to_position(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Averages all losses up to each of the two positions, where only the two columns themselves count."""
    up_to_late = losses[:, : late + 1].mean()
    up_to_early = losses[:, : early + 1].mean()
    return up_to_late - up_to_early


def in_context_learning_score__wrong_fourteenth_relative_change(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Gives the change as a share of the early loss; the plain difference in nats is asked for."""
    means = losses.mean(dim=0)
    change = means[late] - means[early]
    return change / means[early]


def in_context_learning_score__wrong_fourteenth_sum_over_texts(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sums over the batch instead of averaging: the score grows with the number of texts."""
    total = losses.new_zeros(())
    for text in losses:
        total = total + (text[late] - text[early])
    return total


def in_context_learning_score__wrong_fourteenth_early_mean_forgotten(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Forgets the mean of the early column, so one number per text comes out instead of a scalar."""
    return torch.mean(losses[:, late]) - losses[:, early]


def in_context_learning_score__wrong_fourteenth_positions_from_one(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Takes early and late as counted from 1 and subtracts 1 from both: the columns before are compared."""
    column = losses.T
    first, second = column[early - 1], column[late - 1]
    return second.mean() - first.mean()


def in_context_learning_score__wrong_fourteenth_late_before_early(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Puts the two positions in rising order first: with early > late the sign comes out the other way."""
    a, b = sorted((early, late))
    return (losses[:, b] - losses[:, a]).mean()


def in_context_learning_score__wrong_fourteenth_double_precision_result(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Goes to float64 for accuracy and stays there: float32 losses should give a float32 score."""
    exact = losses.to(torch.float64)
    return exact.select(1, late).mean() - exact.select(1, early).mean()


def in_context_learning_score__right_fourteenth_diff_of_two_columns(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Right: picks the two columns in the order early, late, averages over the texts, and takes torch.diff."""
    two_columns = losses.index_select(1, torch.tensor([early, late]))
    return two_columns.mean(dim=0).diff().squeeze(0)


# ------- 8.9 build_induction_circuit


def build_induction_circuit__wrong_fourteenth_keys_read_own_token(vocab_size: int, n_ctx: int) -> dict:
    """The second head's keys read the token, not the note (itself excluded): it finds i - p, the same token again."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    tok, pos = slice(0, V), slice(V, V + N)
    note, out = slice(V + N, 2 * V + N), slice(2 * V + N, d)
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, tok], W_pos[:, pos], W_U[out] = torch.eye(V), torch.eye(N), torch.eye(V)

    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][pos] = 30 * N**0.5 * torch.eye(N)
    first["W_K"][pos] = torch.diag(torch.ones(N - 1), 1)
    first["W_V"][tok], first["W_O"][:, note] = torch.eye(V), torch.eye(V)

    width = V + N + 1
    second = {
        "W_Q": torch.zeros(d, width),
        "W_K": torch.zeros(d, width),
        "W_V": torch.zeros(d, V),
        "W_O": torch.zeros(V, d),
    }
    slope = 10.0
    match = slope * N + 20
    second["W_Q"][tok, :V] = match * width**0.5 * torch.eye(V)
    second["W_K"][tok, :V] = torch.eye(V)
    second["W_Q"][pos, V : V + N] = -2 * match * width**0.5 * torch.eye(N)  # not at itself
    second["W_K"][pos, V : V + N] = torch.eye(N)
    second["W_Q"][pos, -1] = width**0.5
    second["W_K"][pos, -1] = slope * torch.arange(N).float()
    second["W_V"][tok], second["W_O"][:, out] = torch.eye(V), torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fourteenth_note_over_token(vocab_size: int, n_ctx: int) -> dict:
    """Writes the note into the token's own stretch of the row: token and note can no longer be told apart."""
    d_model = 2 * vocab_size + n_ctx
    tokens = torch.arange(vocab_size)
    places = vocab_size + torch.arange(n_ctx)
    said = vocab_size + n_ctx + torch.arange(vocab_size)

    def place(rows, columns, entries):
        W = torch.zeros(rows, columns)
        for i, j, value in entries:
            W[i, j] = value
        return W

    W_E = place(vocab_size, d_model, [(t, t, 1.0) for t in range(vocab_size)])
    W_pos = place(n_ctx, d_model, [(i, int(places[i]), 1.0) for i in range(n_ctx)])
    W_U = place(d_model, vocab_size, [(int(said[t]), t, 1.0) for t in range(vocab_size)])
    read_token = place(d_model, vocab_size, [(t, t, 1.0) for t in range(vocab_size)])

    loud = 25 * math.sqrt(n_ctx)
    look_back = {
        "W_Q": place(d_model, n_ctx, [(int(places[i]), i - 1, loud) for i in range(1, n_ctx)]),
        "W_K": place(d_model, n_ctx, [(int(places[j]), j, 1.0) for j in range(n_ctx)]),
        "W_V": read_token,
        "W_O": read_token.T.clone(),
    }
    step = 10
    size = math.sqrt(vocab_size + 1)
    W_Q = torch.zeros(d_model, vocab_size + 1)
    W_K = torch.zeros(d_model, vocab_size + 1)
    W_Q[tokens, tokens] = (step * n_ctx + step) * size
    W_K[tokens, tokens] = 1.0
    W_Q[places, vocab_size] = size
    W_K[places, vocab_size] = step * torch.arange(n_ctx, dtype=torch.float32)
    copy_out = place(vocab_size, d_model, [(t, int(said[t]), 1.0) for t in range(vocab_size)])
    induction = {"W_Q": W_Q, "W_K": W_K, "W_V": read_token.clone(), "W_O": copy_out}
    return dict(W_E=W_E, W_pos=W_pos, W_U=W_U, blocks=[look_back, induction])


def build_induction_circuit__wrong_fourteenth_every_match_alike(vocab_size: int, n_ctx: int) -> dict:
    """Scores matches and nothing else: position 0 and older copies share the weight with the latest match."""
    eye_v, eye_n = torch.eye(vocab_size), torch.eye(n_ctx)
    none_v, none_n = torch.zeros(vocab_size, vocab_size), torch.zeros(n_ctx, vocab_size)
    # a row: token | note | answer | position
    W_E = torch.cat([eye_v, none_v, none_v, none_n.T], dim=1)
    W_pos = torch.cat([none_n, none_n, none_n, eye_n], dim=1)
    W_U = torch.cat([none_v, none_v, eye_v, none_n], dim=0)
    read_token = torch.cat([eye_v, none_v, none_v, none_n])
    read_note = torch.cat([none_v, eye_v, none_v, none_n])
    read_place = torch.cat([none_n.T, none_n.T, none_n.T, eye_n])
    one_back = eye_n.roll(-1, dims=0)  # row i: column i + 1
    one_back[-1] = 0
    first = {
        "W_Q": 40 * math.sqrt(n_ctx) * read_place,
        "W_K": read_place @ one_back,
        "W_V": read_token,
        "W_O": torch.cat([none_v, eye_v, none_v, none_n.T], dim=1),
    }
    second = {
        "W_Q": 40 * math.sqrt(vocab_size) * read_token,
        "W_K": read_note,
        "W_V": read_token.clone(),
        "W_O": torch.cat([none_v, none_v, eye_v, none_n.T], dim=1),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fourteenth_root_forgotten_first_layer(vocab_size: int, n_ctx: int) -> dict:
    """The first head's score of 20 forgets the division by sqrt(d_head): in long texts the note is blurred."""
    names = ["token", "note", "answer", "place"]
    widths = dict(token=vocab_size, note=vocab_size, answer=vocab_size, place=n_ctx)
    at, start = {}, 0
    for name in names:
        at[name] = range(start, start + widths[name])
        start += widths[name]
    d_model = start

    W_E = torch.zeros(vocab_size, d_model)
    W_U = torch.zeros(d_model, vocab_size)
    V1, O1 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    V2, O2 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    Q2, K2 = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    root = math.sqrt(vocab_size + 1)
    for t in range(vocab_size):
        W_E[t, at["token"][t]] = 1
        V1[at["token"][t], t] = V2[at["token"][t], t] = 1
        O1[t, at["note"][t]] = O2[t, at["answer"][t]] = 1
        Q2[at["token"][t], t] = root
        K2[at["note"][t], t] = 12 * (n_ctx + 1)
        W_U[at["answer"][t], t] = 1
    W_pos = torch.zeros(n_ctx, d_model)
    Q1, K1 = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    for i in range(n_ctx):
        W_pos[i, at["place"][i]] = 1
        Q1[at["place"][i], i] = 20
        if i + 1 < n_ctx:
            K1[at["place"][i], i + 1] = 1
        Q2[at["place"][i], vocab_size] = root
        K2[at["place"][i], vocab_size] = 12 * i
    blocks = [{"W_Q": Q1, "W_K": K1, "W_V": V1, "W_O": O1}, {"W_Q": Q2, "W_K": K2, "W_V": V2, "W_O": O2}]
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_fourteenth_match_below_slope(vocab_size: int, n_ctx: int) -> dict:
    """A match is worth 45 whatever n_ctx: from period 5 on the slope of 12 per position outweighs it."""
    V, N = vocab_size, n_ctx
    ends = torch.tensor([0, V, V + N, 2 * V + N, 3 * V + N]).tolist()
    token, place, note, answer = (torch.arange(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True))
    d_model = ends[-1]

    def from_to(rows, columns, shape, size=1.0):
        W = torch.zeros(shape)
        W[rows, columns] = size
        return W

    v, n = torch.arange(V), torch.arange(N)
    first = {
        "W_Q": from_to(place, n, (d_model, N), 30 * N**0.5),
        "W_K": from_to(place[:-1], n[1:], (d_model, N)),
        "W_V": from_to(token, v, (d_model, V)),
        "W_O": from_to(v, note, (V, d_model)),
    }
    scale = (V + 1) ** 0.5
    W_Q = from_to(token, v, (d_model, V + 1), 45 * scale)
    W_Q[place, V] = 12 * scale
    W_K = from_to(note, v, (d_model, V + 1))
    W_K[place, V] = n.float()
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": first["W_V"].clone(), "W_O": from_to(v, answer, (V, d_model))}
    return {
        "W_E": from_to(v, token, (V, d_model)),
        "W_pos": from_to(n, place, (N, d_model)),
        "W_U": from_to(answer, v, (d_model, V)),
        "blocks": [first, second],
    }


def build_induction_circuit__wrong_fourteenth_last_token_as_padding(vocab_size: int, n_ctx: int) -> dict:
    """Takes the last id for padding, like <pad> in the workbench, without an embedding; all ids are tokens."""
    real = vocab_size - 1
    d_model = 3 * real + n_ctx + 1
    W_E = torch.zeros(vocab_size, d_model)
    W_E[:real, :real] = torch.eye(real)
    W_pos = torch.zeros(n_ctx, d_model)
    W_pos[:, 3 * real : 3 * real + n_ctx] = torch.eye(n_ctx)
    W_pos[:, -1] = 1.0
    W_U = torch.zeros(d_model, vocab_size)
    W_U[2 * real : 3 * real, :real] = torch.eye(real)
    where = slice(3 * real, 3 * real + n_ctx)

    q = torch.zeros(d_model, n_ctx)
    k = torch.zeros(d_model, n_ctx)
    q[where][1:, :-1] = torch.eye(n_ctx - 1) * 50 * math.sqrt(n_ctx)
    k[where] = torch.eye(n_ctx)
    v = torch.zeros(d_model, real)
    v[:real] = torch.eye(real)
    o = torch.zeros(real, d_model)
    o[:, real : 2 * real] = torch.eye(real)
    blocks = [{"W_Q": q, "W_K": k, "W_V": v, "W_O": o}]

    q = torch.zeros(d_model, real + 1)
    k = torch.zeros(d_model, real + 1)
    q[:real, :real] = torch.eye(real)
    q[-1, real] = 1.0
    k[real : 2 * real, :real] = torch.eye(real) * (10 * n_ctx + 10)
    k[where, real] = 10 * torch.arange(n_ctx).float()
    o = torch.zeros(real, d_model)
    o[:, 2 * real : 3 * real] = torch.eye(real)
    blocks.append({"W_Q": q * math.sqrt(real + 1), "W_K": k, "W_V": v.clone(), "W_O": o})
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_fourteenth_only_two_copies(vocab_size: int, n_ctx: int) -> dict:
    """Only takes the trap at position 0 away; from the third copy on, several matches share the weight."""
    a, b, c = vocab_size, 2 * vocab_size, 3 * vocab_size
    d_model = c + n_ctx
    one = torch.eye(d_model)  # row k: the direction of feature k
    token, note, guess, place = one[:a], one[a:b], one[b:c], one[c:]
    ask_before = torch.zeros(d_model, n_ctx)
    ask_before[c + 1 :, :-1] = 30 * n_ctx**0.5 * torch.eye(n_ctx - 1)
    first = {"W_Q": ask_before, "W_K": place.T.clone(), "W_V": token.T.clone(), "W_O": note.clone()}

    scale = (vocab_size + 1) ** 0.5
    every_place = place.sum(dim=0)
    W_Q = torch.cat([60 * token.T, every_place[:, None]], dim=1) * scale
    not_the_first = -100.0 * place[0]
    W_K = torch.cat([note.T, not_the_first[:, None]], dim=1)
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": token.T.clone(), "W_O": guess.clone()}
    return {"W_E": token.clone(), "W_pos": place.clone(), "W_U": guess.T.clone(), "blocks": [first, second]}


def build_induction_circuit__wrong_fourteenth_random_directions(vocab_size: int, n_ctx: int) -> dict:
    """Turns the whole stream into random directions drawn from the global generator; no randomness is allowed."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64)).Q
    token, note, answer, place = turn.split([V, V, V, N])  # orthonormal rows
    slope = 10.0
    order = slope * torch.arange(N, dtype=torch.float64)

    W_Q1 = place.T * (30 * math.sqrt(N))
    W_K1 = torch.zeros(d, N, dtype=torch.float64)
    W_K1[:, 1:] = place[:-1].T
    W_Q2 = math.sqrt(V + 1) * torch.cat([token.T, place.sum(0)[:, None]], dim=1)
    W_K2 = torch.cat([slope * (N + 2) * note.T, (order @ place)[:, None]], dim=1)
    model = {"W_E": token, "W_pos": place, "W_U": answer.T, "blocks": []}
    model["blocks"].append({"W_Q": W_Q1, "W_K": W_K1, "W_V": token.T, "W_O": note})
    model["blocks"].append({"W_Q": W_Q2, "W_K": W_K2, "W_V": token.T, "W_O": answer})
    single = {name: model[name].float().contiguous() for name in ("W_E", "W_pos", "W_U")}
    single["blocks"] = [{name: W.float().contiguous() for name, W in block.items()} for block in model["blocks"]]
    return single


def build_induction_circuit__right_fourteenth_slope_in_token_columns(vocab_size: int, n_ctx: int) -> dict:
    """Right: the slope stands in every token column of the second key, and answers go on top of the token, doubled."""
    v, n = vocab_size, n_ctx
    d_model = v + n + v  # token (the answer is written over it, twice as loud), place, note
    step = 12.0

    W_E = F.pad(torch.eye(v), (0, n + v))
    W_pos = F.pad(torch.eye(n), (v, v))
    W_U = F.pad(torch.eye(v), (0, 0, 0, n + v))
    read_token = F.pad(torch.eye(v), (0, 0, 0, n + v))

    previous = {
        "W_Q": F.pad(torch.eye(n) * 40 * math.sqrt(n), (0, 0, v, v)),
        "W_K": F.pad(torch.diag(torch.ones(n - 1), 1), (0, 0, v, v)),
        "W_V": read_token.clone(),
        "W_O": F.pad(torch.eye(v), (v + n, 0)),
    }
    slope = step * torch.arange(n).float()[:, None].expand(n, v)
    match = step * (n + 1) * torch.eye(v)
    induction = {
        "W_Q": math.sqrt(v) * read_token,
        "W_K": torch.cat([torch.zeros(v, v), slope, match]),
        "W_V": read_token.clone(),
        "W_O": F.pad(2 * torch.eye(v), (0, n + v)),
    }
    assert W_E.shape[1] == d_model
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [previous, induction]}


# ------- 8.10 find_heads


def find_heads__wrong_fourteenth_half_of_weight_is_enough(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Takes 0.5 as the line for any text, where it lies halfway between 1 and what even attention gets there."""
    n = len(tokens)
    same = (tokens[:, None] == tokens[None, :]).tril(-1)
    follow = torch.zeros(n, n, dtype=torch.bool)
    follow[:, 1:] = same[:, :-1]
    has_match = same.any(dim=1)
    previous, induction = [], []
    for layer in range(patterns.shape[0]):
        for head in range(patterns.shape[1]):
            A = patterns[layer, head]
            if n > 1 and A.diagonal(-1).mean() > 0.5:
                previous.append((layer, head))
            if has_match.any() and (A * follow).sum(1)[has_match].mean() > 0.5:
                induction.append((layer, head))
    return previous, induction


def find_heads__wrong_fourteenth_same_token_itself(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Looks for heads that attend to an earlier copy of their token; an induction head looks at what followed it."""
    layers, heads, n, _ = patterns.shape
    rows, columns = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    wanted_by_kind = (
        columns == rows - 1,
        (tokens[rows] == tokens[columns]) & (columns < rows),
    )
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=1, keepdim=True)
    answer = []
    for wanted in wanted_by_kind:
        counts = wanted.any(dim=1)
        chosen = []
        if counts.any():
            base = (even * wanted).sum(dim=1)[counts].mean()
            score = (patterns * wanted).sum(dim=-1)[..., counts].mean(dim=-1)
            chosen = [(la, he) for la in range(layers) for he in range(heads) if score[la, he] > (1 + base) / 2]
        answer.append(chosen)
    return tuple(answer)


def find_heads__wrong_fourteenth_only_latest_match(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Counts only what followed the latest earlier copy, where any such place counts, and several together."""
    ids = tokens.tolist()
    goals = {"previous": {}, "induction": {}}
    last_seen = {}
    for i, token in enumerate(ids):
        if i > 0:
            goals["previous"][i] = i - 1
        if token in last_seen:
            goals["induction"][i] = last_seen[token] + 1
        last_seen[token] = i

    def chosen(goal):
        found = []
        for layer, heads in enumerate(patterns):
            for head, A in enumerate(heads):
                if not goal:
                    continue
                score = sum(float(A[i, j]) for i, j in goal.items()) / len(goal)
                even = sum(1 / (i + 1) for i in goal) / len(goal)
                if 1 - score < score - even:
                    found.append((layer, head))
        return found

    return chosen(goals["previous"]), chosen(goals["induction"])


def find_heads__wrong_fourteenth_rows_without_match_count(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Averages the induction weight over all rows from 1 on, also over those in which there is nothing to find."""
    n = tokens.numel()
    if n == 1:
        return [], []
    earlier = torch.tril(tokens.unsqueeze(1) == tokens.unsqueeze(0), diagonal=-1)
    targets = earlier.roll(1, dims=1)
    targets[:, 0] = False
    sees = torch.arange(1, n + 1, dtype=patterns.dtype)

    def pairs(scores, base):
        return [tuple(pair) for pair in (2 * scores > 1 + base).nonzero().tolist()]

    previous = patterns.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)
    induction = (patterns * targets).sum(dim=-1)[..., 1:].mean(dim=-1)
    if not targets.any():
        return pairs(previous, (1 / sees[1:]).mean()), []
    return pairs(previous, (1 / sees[1:]).mean()), pairs(induction, (targets.sum(1) / sees)[1:].mean())


def find_heads__wrong_fourteenth_even_over_whole_text(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Lets the even head spread over all n tokens in every row, where it sees only i + 1: the base is too low."""
    L, H, n = patterns.shape[:3]
    text = tokens.tolist()
    places = {i: [m + 1 for m in range(i) if text[m] == text[i]] for i in range(n)}
    places = {i: js for i, js in places.items() if js}
    before = {i: [i - 1] for i in range(1, n)}
    results = []
    for kind in (before, places):
        names = []
        if kind:
            base = sum(len(js) / n for js in kind.values()) / len(kind)
            for layer in range(L):
                for head in range(H):
                    hits = [patterns[layer, head, i, js].sum() for i, js in kind.items()]
                    if torch.stack(hits).mean() > (base + 1) / 2:
                        names.append((layer, head))
        results.append(names)
    return results[0], results[1]


def find_heads__wrong_fourteenth_strongest_head_only(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Reads "which heads" as the best one of each kind, where all that do this work are asked for."""
    n = tokens.shape[0]
    match = (tokens[:, None] == tokens).tril(-1)
    after = F.pad(match[:, :-1], (1, 0))
    before = torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1)
    seen = torch.arange(1, n + 1).to(patterns.dtype)
    out = []
    for goal in (before, after):
        rows = goal.any(-1)
        if not rows.any():
            out.append([])
            continue
        score = (patterns * goal).sum(-1)[:, :, rows].mean(-1)
        base = (goal.sum(-1) / seen)[rows].mean()
        best = int(score.argmax())
        layer, head = divmod(best, score.shape[1])
        out.append([(layer, head)] if score[layer, head] - base > 1 - score[layer, head] else [])
    return out[0], out[1]


def find_heads__wrong_fourteenth_twin_may_not_see_itself(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Allows only places before the query: the second of two equal neighbours, which follows the first, is left out."""
    n = len(tokens)
    goal_previous, goal_induction = [], []
    for i in range(n):
        if i >= 1:
            goal_previous.append((i, {i - 1}))
        followers = {m + 1 for m in range(i) if tokens[m] == tokens[i] and m + 1 < i}
        if followers:
            goal_induction.append((i, followers))

    def judge(A, goals):
        if not goals:
            return False
        got = sum(float(A[i, j]) for i, js in goals for j in js) / len(goals)
        by_chance = sum(len(js) / (i + 1) for i, js in goals) / len(goals)
        return abs(1 - got) < abs(got - by_chance)

    all_heads = [(a, b) for a in range(patterns.shape[0]) for b in range(patterns.shape[1])]
    previous = [ab for ab in all_heads if judge(patterns[ab], goal_previous)]
    induction = [ab for ab in all_heads if judge(patterns[ab], goal_induction)]
    return previous, induction


def find_heads__wrong_fourteenth_patterns_blotted_out(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Finds the right heads, but sets all weights that are no match to zero in the patterns it was handed."""
    n = patterns.shape[-1]
    count = torch.arange(1, n + 1).to(patterns.dtype)
    previous, induction = [], []
    if n > 1:
        middle = (1 + (1 / count[1:]).mean()) / 2
        scores = patterns.diagonal(offset=-1, dim1=2, dim2=3).mean(dim=2)
        previous = [tuple(p) for p in torch.nonzero(scores > middle).tolist()]
    twins = torch.tril(tokens.view(-1, 1) == tokens.view(1, -1), -1)
    follow = torch.cat([torch.zeros(n, 1, dtype=torch.bool), twins[:, :-1]], dim=1)
    rows = follow.any(dim=1)
    if rows.any():
        middle = (1 + (follow.sum(dim=1) / count)[rows].mean()) / 2
        patterns *= follow
        scores = patterns.sum(dim=3)[:, :, rows].mean(dim=2)
        induction = [tuple(p) for p in torch.nonzero(scores > middle).tolist()]
    return previous, induction


def find_heads__right_fourteenth_even_head_judged_alongside(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Right: an even head is put at the end of the list and scored like all others; each is then compared with it."""
    layers, heads, n, _ = patterns.shape
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=-1, keepdim=True)
    candidates = torch.cat([patterns.reshape(-1, n, n), even[None]])

    shift = torch.zeros(n, n, dtype=patterns.dtype)  # moves a mark one column to the right
    for j in range(n - 1):
        shift[j, j + 1] = 1
    stood_before = (tokens[:, None] == tokens[None, :]).tril(-1).to(patterns.dtype)
    one_before = shift.T

    def named(goal):
        rows = torch.nonzero(goal.sum(dim=-1)).flatten()
        if len(rows) == 0:
            return []
        hits = torch.einsum("cij,ij->ci", candidates, goal)[:, rows].mean(dim=-1)
        *found, base = hits.tolist()
        return [divmod(k, heads) for k, hit in enumerate(found) if 1 - hit < hit - base]

    return named(one_before), named(stood_before @ shift)


# ------- 8.11 ablate_path


def ablate_path__wrong_fourteenth_whole_head_silenced(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Takes the first head out for everybody (all three readers and the logits), where one reader alone is blind."""
    assert into in ("query", "key", "value")
    n = tokens.shape[1]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        scores = (x @ block["W_Q"]) @ (x @ block["W_K"]).mT / math.sqrt(block["W_Q"].shape[1])
        A = _causal_softmax(scores)
        patterns.append(A)
        written = A @ x @ block["W_V"] @ block["W_O"]
        if layer == 0:
            written = 0 * written
        x = x + written
    return x @ weights["W_U"], patterns


def ablate_path__wrong_fourteenth_reader_set_to_zero(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Sets the blind reader's query, key or value to zero; it should still read embedding and position."""
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    A1 = _causal_softmax((x @ first["W_Q"]) @ (x @ first["W_K"]).mT / first["W_Q"].shape[1] ** 0.5)
    x = x + A1 @ (x @ first["W_V"]) @ first["W_O"]
    read = {name: x @ second[W] for name, W in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V"))}
    read[into] = torch.zeros_like(read[into])
    A2 = _causal_softmax(read["query"] @ read["key"].mT / second["W_Q"].shape[1] ** 0.5)
    x = x + A2 @ read["value"] @ second["W_O"]
    return x @ weights["W_U"], [A1, A2]


def ablate_path__wrong_fourteenth_logits_lose_note(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Adds the second layer's output to the stream without the note, so the logits are blind as well."""
    plain = weights["W_E"][tokens] + weights["W_pos"][: tokens.size(1)]
    b0, b1 = weights["blocks"]

    def head(q_from, k_from, v_from, block):
        q, k, v = q_from @ block["W_Q"], k_from @ block["W_K"], v_from @ block["W_V"]
        pattern = _causal_softmax(torch.einsum("bid,bjd->bij", q, k) / math.sqrt(q.shape[-1]))
        return pattern, torch.einsum("bij,bjv,vd->bid", pattern, v, block["W_O"])

    pattern0, note = head(plain, plain, plain, b0)
    noted = plain + note
    sources = [plain if into == reader else noted for reader in ("query", "key", "value")]
    pattern1, answer = head(*sources, b1)
    return (plain + answer) @ weights["W_U"], [pattern0, pattern1]


def ablate_path__wrong_fourteenth_query_and_key_swapped(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Hands the blind stream to the keys if "query" is asked for, and to the queries if "key" is."""
    n = tokens.shape[-1]
    one, two = weights["blocks"]
    stream = weights["W_E"][tokens] + weights["W_pos"][:n]
    s = (stream @ one["W_Q"]) @ (stream @ one["W_K"]).transpose(1, 2)
    A = _causal_softmax(s / math.sqrt(one["W_K"].shape[1]))
    full = stream + A @ stream @ one["W_V"] @ one["W_O"]
    seen_by_k = stream if into == "query" else full
    seen_by_q = stream if into == "key" else full
    seen_by_v = stream if into == "value" else full
    s = (seen_by_q @ two["W_Q"]) @ (seen_by_k @ two["W_K"]).transpose(1, 2)
    B = _causal_softmax(s / math.sqrt(two["W_K"].shape[1]))
    logits = (full + B @ seen_by_v @ two["W_V"] @ two["W_O"]) @ weights["W_U"]
    return logits, [A, B]


def ablate_path__wrong_fourteenth_second_mask_forgotten(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Forgets the causal mask in the second layer: its queries look at later positions as well."""
    n = tokens.shape[1]
    hidden = torch.ones(n, n).triu(1) == 1
    x0 = weights["W_E"][tokens] + weights["W_pos"][:n]
    p, r = weights["blocks"]
    scores1 = x0 @ p["W_Q"] @ p["W_K"].T @ x0.mT / math.sqrt(p["W_Q"].shape[1])
    A1 = torch.softmax(scores1.masked_fill(hidden, -math.inf), dim=-1)
    x1 = x0 + A1 @ x0 @ p["W_V"] @ p["W_O"]
    q_in, k_in, v_in = x1, x1, x1
    if into == "query":
        q_in = x0
    elif into == "key":
        k_in = x0
    else:
        v_in = x0
    scores2 = q_in @ r["W_Q"] @ r["W_K"].T @ k_in.mT / math.sqrt(r["W_Q"].shape[1])
    A2 = torch.softmax(scores2, dim=-1)
    x2 = x1 + A2 @ v_in @ r["W_V"] @ r["W_O"]
    return x2 @ weights["W_U"], [A1, A2]


def ablate_path__wrong_fourteenth_only_that_reader_sees(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Reads `into` as the one path that stays: the two other readers are blind, and the named one sees the note."""
    embedded = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    states = {"with": embedded, "without": embedded}
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        inputs = {}
        for reader in ("query", "key", "value"):
            inputs[reader] = states["with"] if layer == 0 or reader == into else states["without"]
        Q, K = inputs["query"] @ block["W_Q"], inputs["key"] @ block["W_K"]
        A = _causal_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
        states["with"] = states["with"] + A @ inputs["value"] @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return states["with"] @ weights["W_U"], patterns


def ablate_path__wrong_fourteenth_one_width_for_both(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Works out sqrt(d_head) once, from the first layer, and uses it in both: wrong where the widths differ."""
    blocks = weights["blocks"]
    temperature = math.sqrt(blocks[0]["W_Q"].shape[1])

    def attention(q, k):
        return _causal_softmax(q @ k.mT / temperature)

    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    W = blocks[0]
    first = attention(start @ W["W_Q"], start @ W["W_K"])
    note = first @ start @ W["W_V"] @ W["W_O"]
    W = blocks[1]
    x_q, x_k, x_v = (start + note * (into != reader) for reader in ("query", "key", "value"))
    second = attention(x_q @ W["W_Q"], x_k @ W["W_K"])
    end = start + note + second @ x_v @ W["W_V"] @ W["W_O"]
    return end @ weights["W_U"], [first, second]


def ablate_path__wrong_fourteenth_blocks_popped(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Pops the blocks from the caller's list: the result is right, but the weights handed in are emptied."""
    embedding = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    block = weights["blocks"].pop(0)
    Q, K, V = (embedding @ block[f"W_{c}"] for c in "QKV")
    A_first = _causal_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
    with_note = embedding + A_first @ V @ block["W_O"]

    block = weights["blocks"].pop(0)
    source = dict.fromkeys(("query", "key", "value"), with_note)
    source[into] = embedding
    Q, K, V = source["query"] @ block["W_Q"], source["key"] @ block["W_K"], source["value"] @ block["W_V"]
    A_second = _causal_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return (with_note + A_second @ V @ block["W_O"]) @ weights["W_U"], [A_first, A_second]


def ablate_path__right_fourteenth_stream_twice_as_wide(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Right: in a stream of double width the note has its own half, and the blind reader's matrix is zero there."""

    def upper(W):  # reads only the half without the note
        return torch.cat([W, torch.zeros_like(W)])

    def both(W):
        return torch.cat([W, W])

    def left(W):  # writes only into the half without the note
        return torch.cat([W, torch.zeros_like(W)], dim=1)

    first, second = weights["blocks"]
    wide_first = {name: upper(first[name]) for name in ("W_Q", "W_K", "W_V")}
    wide_first["W_O"] = torch.cat([torch.zeros_like(first["W_O"]), first["W_O"]], dim=1)
    readers = {"W_Q": "query", "W_K": "key", "W_V": "value"}
    wide_second = {name: (upper if readers[name] == into else both)(second[name]) for name in readers}
    wide_second["W_O"] = left(second["W_O"])
    wide = {"W_E": left(weights["W_E"]), "W_pos": left(weights["W_pos"]), "W_U": both(weights["W_U"])}
    return _run_attention_only(tokens, wide | {"blocks": [wide_first, wide_second]})
