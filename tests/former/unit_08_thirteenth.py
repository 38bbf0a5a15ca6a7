"""Answers to the exercises of unit 8, wrong ones and right ones, as students would write them."""

import math

import numpy as np
import torch
import torch.nn.functional as F


def _run_attention_only(tokens, weights):
    """The machine that the notebook gives: (logits, patterns)."""
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
    """Softmax over the keys up to the query's own position."""
    n = scores.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)


# ------- 8.1 repeated_sequences


def repeated_sequences__wrong_thirteenth_each_token_repeated(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Repeats every token in place, a a b b c c, where the block as a whole is due again: a b c a b c."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.repeat_interleave(block, repeats, dim=1)


def repeated_sequences__wrong_thirteenth_one_block_for_all(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws a single block and gives it to every row, where each row should have a block of its own."""
    phrase = torch.randint(vocab_size, (period,), generator=generator)
    row = torch.cat([phrase for _ in range(repeats)])
    return torch.stack([row] * batch)


def repeated_sequences__wrong_thirteenth_tokens_made_distinct(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Shuffles the vocabulary so that no block holds a token twice, where tokens are to be drawn independently."""
    shuffled = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    distinct = shuffled[:, :period]
    return distinct.repeat(1, repeats)


def repeated_sequences__wrong_thirteenth_token_zero_never_drawn(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Lets the ids begin with 1 in randint, where 0 is an id as well."""
    ids = torch.randint(1, vocab_size, (batch, period), generator=generator)
    return torch.tile(ids, (1, repeats))


def repeated_sequences__wrong_thirteenth_stacked_along_the_batch(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Puts the copies below each other (axis 0) before the reshape, so that rows mix blocks; axis 1 is due."""
    blocks = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = torch.cat([blocks] * repeats, dim=0)
    return copies.reshape(batch, period * repeats)


def repeated_sequences__wrong_thirteenth_repeats_on_top(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Reads `repeats` as the copies that come after the first block, so the row has one block too many."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    tokens = block
    for _ in range(repeats):
        tokens = torch.cat((tokens, block), dim=1)
    return tokens


def repeated_sequences__wrong_thirteenth_large_ids_rounded(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Collects the ids in a float32 buffer, which rounds ids above 2 ** 24; they should come out as drawn."""
    out = torch.zeros(batch, period * repeats)
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    for k in range(repeats):
        start = k * period
        out[:, start : start + period] = block
    return out.long()


def repeated_sequences__wrong_thirteenth_generator_reseeded(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Sets the generator back to its first seed, so every call gives the same; it should go on where it is."""
    generator.manual_seed(generator.initial_seed())  # so that the result can be repeated
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat(1, repeats)


def repeated_sequences__right_thirteenth_expanded_then_flattened(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Gives the block a new axis for the copies, expands it and flattens both axes into one."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.unsqueeze(1).expand(-1, repeats, -1).flatten(start_dim=1)


# ------- 8.2 previous_token_score


def previous_token_score__wrong_thirteenth_position_zero_counts(weights: torch.Tensor) -> torch.Tensor:
    """Lets position 0 count with a weight of 0 and divides by n, where the mean is over n - 1 positions."""
    n = weights.shape[-1]
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).sum(dim=-1) / n


def previous_token_score__wrong_thirteenth_share_of_row_winners(weights: torch.Tensor) -> torch.Tensor:
    """Counts the rows whose largest weight is at i - 1, where the mean of the weights themselves is due."""
    n = weights.shape[-1]
    favourite = weights.argmax(dim=-1)[..., 1:]
    hits = favourite == torch.arange(n - 1)
    return hits.to(weights.dtype).sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_thirteenth_rows_taken_for_keys(weights: torch.Tensor) -> torch.Tensor:
    """Thinks that a column is the query, and takes the entries (i - 1, i) above the diagonal instead of (i, i - 1)."""
    length = weights.size(-1)
    total = torch.zeros_like(weights[..., 0, 0])
    for query in range(1, length):
        total = total + weights[..., query - 1, query]
    return total / max(length - 1, 1)


def previous_token_score__wrong_thirteenth_diagonal_of_leading_axes(weights: torch.Tensor) -> torch.Tensor:
    """Leaves dim1 and dim2 at their defaults, so the diagonal runs through the first two axes, not the last two."""
    if weights.shape[-1] == 1:
        return weights.new_zeros(weights.shape[:-2])
    return torch.diagonal(weights, offset=-1).mean(dim=-1)


def previous_token_score__wrong_thirteenth_last_row_missed(weights: torch.Tensor) -> torch.Tensor:
    """Ends the loop one row too early, so the last position is never added, though it is counted in the divisor."""
    n = weights.shape[-1]
    score = weights.new_zeros(weights.shape[:-2])
    if n == 1:
        return score
    for i in range(1, n - 1):
        score = score + weights[..., i, i - 1]
    return score / (n - 1)


def previous_token_score__wrong_thirteenth_one_number_for_all(weights: torch.Tensor) -> torch.Tensor:
    """Takes one mean over all patterns together, where each pattern of the leading axes has its own score."""
    n = weights.shape[-1]
    if n < 2:
        return weights.sum() * 0
    rows = torch.arange(1, n)
    return weights[..., rows, rows - 1].mean()


def previous_token_score__wrong_thirteenth_bare_zero_for_one(weights: torch.Tensor) -> torch.Tensor:
    """For n = 1 returns a single float32 zero, where zeros of the leading shape and the input's dtype are due."""
    n = weights.shape[-1]
    if n == 1:
        return torch.tensor(0.0)
    looked_back = [weights[..., i, i - 1] for i in range(1, n)]
    return torch.stack(looked_back).mean(dim=0)


def previous_token_score__wrong_thirteenth_mask_multiplied_in_place(weights: torch.Tensor) -> torch.Tensor:
    """Multiplies the mask into the input itself, which must stay as it is."""
    n = weights.shape[-1]
    line = torch.ones(n, n, dtype=weights.dtype).tril(-1).triu(-1)
    weights *= line
    return weights.sum(dim=(-2, -1)) / max(n - 1, 1)


def previous_token_score__right_thirteenth_einsum_with_shifted_eye(weights: torch.Tensor) -> torch.Tensor:
    """Multiplies by a matrix with ones just below the diagonal, sums with einsum, divides by their number."""
    n = weights.shape[-1]
    below = torch.diag(torch.ones(n - 1, dtype=weights.dtype), -1)
    return torch.einsum("...ij,ij->...", weights, below) / max(n - 1, 1)


# ------- 8.3 prefix_matching_score


def prefix_matching_score__wrong_thirteenth_same_token_sought(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Thinks an induction head looks at the same token, i - period; the one after it, i - (period - 1), is due."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(period, n)
    return weights[..., i, i - period].mean(dim=-1)


def prefix_matching_score__wrong_thirteenth_all_periods_back_added(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Adds the weight on what followed one, two, three ... periods ago, where only one period ago counts."""
    n = weights.shape[-1]
    score = torch.zeros_like(weights[..., 0, 0])
    for i in range(period, n):
        earlier = i - period
        while earlier >= 0:
            score = score + weights[..., i, earlier + 1]
            earlier -= period
    return score / max(n - period, 1)


def prefix_matching_score__wrong_thirteenth_second_block_alone(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Thinks that the repeat is the second block, and stops at its end; all rows up to n - 1 are due."""
    n = weights.shape[-1]
    rows = list(range(period, min(2 * period, n)))
    if not rows:
        return weights.new_zeros(weights.shape[:-2])
    return torch.stack([weights[..., r, r - period + 1] for r in rows], dim=-1).mean(dim=-1)


def prefix_matching_score__wrong_thirteenth_whole_diagonal_averaged(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Averages the whole diagonal and forgets to drop its first entry, row period - 1, which does not count."""
    if weights.shape[-1] <= period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    line = torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1)
    return line.mean(dim=-1)


def prefix_matching_score__wrong_thirteenth_brackets_forgotten(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Writes i - period - 1 for i - (period - 1): two columns too far left, and for i = period the last column."""
    n = weights.shape[-1]
    total, count = weights.new_zeros(weights.shape[:-2]), 0
    for i in range(period, n):
        total = total + weights[..., i, i - period - 1]
        count += 1
    return total / count if count else total


def prefix_matching_score__wrong_thirteenth_query_and_key_swapped(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Reads rows as keys and columns as queries: takes (i - (period - 1), i) where (i, i - (period - 1)) is due."""
    n = weights.shape[-1]
    queries = torch.arange(period, n)
    keys = queries - (period - 1)
    picked = weights[..., keys, queries]
    return picked.sum(dim=-1) / max(len(queries), 1)


def prefix_matching_score__wrong_thirteenth_broken_block_left_out(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Goes through whole blocks only, so the rows of a last block that breaks off are missing; they count as well."""
    n = weights.shape[-1]
    whole = n // period
    if whole < 2:
        return weights.new_zeros(weights.shape[:-2])
    by_block = []
    for b in range(1, whole):
        i = torch.arange(b * period, (b + 1) * period)
        by_block.append(weights[..., i, i - (period - 1)].mean(dim=-1))
    return sum(by_block) / len(by_block)


def prefix_matching_score__wrong_thirteenth_through_numpy(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Computes the right numbers in NumPy, so that no gradient reaches the weights; gradients have to flow."""
    A = weights.detach().numpy()
    n = A.shape[-1]
    if n <= period:
        return torch.from_numpy(np.zeros(A.shape[:-2], dtype=A.dtype))
    diagonal = np.diagonal(A, offset=-(period - 1), axis1=-2, axis2=-1)[..., 1:]
    return torch.from_numpy(np.asarray(diagonal.mean(axis=-1), dtype=A.dtype))


def prefix_matching_score__right_thirteenth_main_diagonal_of_corner(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Cuts out the corner from row period and column 1 on: its main diagonal holds exactly what counts."""
    corner = weights[..., period:, 1:]
    repeated = corner.shape[-2]  # n - period rows, or none
    return corner.diagonal(dim1=-2, dim2=-1).sum(-1) / max(repeated, 1)


# ------- 8.4 ov_circuit


def ov_circuit__wrong_thirteenth_softmax_at_the_end(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Turns each row of logits into probabilities, where the plain numbers that are added to logits are due."""
    logits = W_E @ W_V @ W_O @ W_U
    return torch.softmax(logits, dim=-1)


def ov_circuit__wrong_thirteenth_direct_path_included(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds what the head writes to the embedding and unembeds both; what the head adds, alone, is due."""
    stream = W_E
    written = (stream @ W_V) @ W_O
    stream = stream + written
    return stream @ W_U


def ov_circuit__wrong_thirteenth_scaled_by_root_of_width(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Divides by the root of the head's width as for scores, where no scaling is due."""
    d_v = W_V.shape[1]
    W_OV = (W_V @ W_O) / math.sqrt(d_v)
    return torch.einsum("td,de,eu->tu", W_E, W_OV, W_U)


def ov_circuit__wrong_thirteenth_one_letter_in_einsum(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Writes d for e at W_U in the einsum, so the output of W_O is summed away and never meets W_U's rows."""
    return torch.einsum("td,dv,ve,du->tu", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_thirteenth_stream_not_reset(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Goes token by token and forgets to empty the sum, so row t holds the tokens 0 to t; token t alone is due."""
    rows = []
    added = torch.zeros_like(W_E[0])
    for token_vector in W_E:
        value = token_vector @ W_V
        added = added + value @ W_O
        rows.append(added @ W_U)
    return torch.stack(rows)


def ov_circuit__wrong_thirteenth_tokens_as_columns(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Follows the texts that write tokens as columns, so row and column change places; row = token is due."""
    E, V, out, U = W_E.T, W_V.T, W_O.T, W_U.T
    return U @ out @ V @ E


def ov_circuit__wrong_thirteenth_square_output_turned(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Turns W_O if its first axis is as wide as d_model, to be safe; for d_v = d_model that transposes a right one."""
    d_model = W_E.shape[1]
    if W_O.shape[0] == d_model:  # somebody handed in (d_model, d_v)
        W_O = W_O.T
    from_value = W_O @ W_U
    return W_E @ (W_V @ from_value)


def ov_circuit__wrong_thirteenth_always_double_precision(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Computes and returns float64 whatever comes in, where float32 in should give float32 out."""
    result = W_E.double()
    for W in (W_V, W_O, W_U):
        result = result @ W.double()
    return result


def ov_circuit__right_thirteenth_sum_of_outer_products(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds one outer product per channel of the value: how each token sets it, times what it does to the logits."""
    sets = (W_E @ W_V).unbind(dim=1)
    does = (W_O @ W_U).unbind(dim=0)
    total = W_E.new_zeros(W_E.shape[0], W_U.shape[1])
    for column, row in zip(sets, does, strict=True):
        total = total + torch.outer(column, row)
    return total


# ------- 8.5 copying_score


def copying_score__wrong_thirteenth_largest_in_size(ov: torch.Tensor) -> torch.Tensor:
    """Seeks the entry of largest absolute value in each row, so a very negative one wins; the largest is due."""
    strongest = ov.abs().argmax(dim=1)
    return (strongest == torch.arange(ov.shape[0])).to(ov.dtype).mean()


def copying_score__wrong_thirteenth_eigenvalues_of_elhage(ov: torch.Tensor) -> torch.Tensor:
    """Takes the sum of the eigenvalues over the sum of their sizes, as Elhage et al.; the share of rows is due."""
    eigenvalues = torch.linalg.eigvals(ov)
    size = eigenvalues.abs().sum()
    if size == 0:
        return ov.new_zeros(())
    return eigenvalues.real.sum() / size


def copying_score__wrong_thirteenth_mean_probability(ov: torch.Tensor) -> torch.Tensor:
    """Averages the softmax probability of the token itself, where each row counts as copied or not."""
    probabilities = F.softmax(ov, dim=-1)
    return torch.einsum("tt->t", probabilities).mean()


def copying_score__wrong_thirteenth_zeros_beside_the_others(ov: torch.Tensor) -> torch.Tensor:
    """Blots out the diagonal with zeros before the maximum of the others, so a negative diagonal never wins."""
    own = torch.diagonal(ov)
    others = ov - torch.diag(own)
    rivals = others.max(dim=1).values
    if ov.shape[0] == 1:
        return torch.ones((), dtype=ov.dtype)
    return (own > rivals).to(ov.dtype).mean()


def copying_score__wrong_thirteenth_pairs_not_rows(ov: torch.Tensor) -> torch.Tensor:
    """Forgets .all(dim=1) and so gives the share of single comparisons won, not the share of rows that win all."""
    own = ov.diag()[:, None]
    wins = own >= ov
    return wins.double().mean().to(ov.dtype)


def copying_score__wrong_thirteenth_maximum_of_each_column(ov: torch.Tensor) -> torch.Tensor:
    """Reads the column as the token attended to and seeks the largest of each column; that of each row is due."""
    vocab = len(ov)
    copied = sum(1 for u in range(vocab) if int(torch.argmax(ov[:, u])) == u)
    return torch.tensor(copied / vocab, dtype=ov.dtype)


def copying_score__wrong_thirteenth_close_counts_as_largest(ov: torch.Tensor) -> torch.Tensor:
    """Asks with isclose whether the diagonal is the maximum, so a narrow loss among large logits counts as a win."""
    best = ov.amax(dim=-1)
    copies = torch.isclose(ov.diagonal(), best)
    return copies.to(ov.dtype).mean()


def copying_score__wrong_thirteenth_diagonal_overwritten(ov: torch.Tensor) -> torch.Tensor:
    """Fills the diagonal of the input itself with minus infinity; the number is right, but the input is changed."""
    own = ov.diagonal().clone()
    ov.fill_diagonal_(-torch.inf)
    next_best = ov.max(dim=-1)[0]
    return (own > next_best).to(ov.dtype).mean()


def copying_score__right_thirteenth_rank_within_the_row(ov: torch.Tensor) -> torch.Tensor:
    """Counts for each row how many entries are at least as large as its own one: only itself, if it copies."""
    at_least = ov >= ov.diagonal().unsqueeze(1)
    rank = at_least.sum(dim=1)
    return (rank == 1).sum().to(ov.dtype) / max(len(rank), 1)


# ------- 8.6 composition_score


def composition_score__wrong_thirteenth_meets_the_reading_side(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Multiplies W_QK by W_OV as it stands, so the keys meet what the earlier head reads, not what it writes."""
    sizes = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if sizes == 0:
        return torch.zeros_like(sizes)
    return torch.linalg.matrix_norm(W_QK @ W_OV) / sizes


def composition_score__wrong_thirteenth_query_side_composed(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes the order of the layers for the order of the product: W_OV W_QK, which is Q-composition, not K."""
    def size(W):
        return W.square().sum().sqrt()

    if not W_QK.any() or not W_OV.any():
        return W_QK.new_zeros(())
    return size(W_OV @ W_QK) / (size(W_OV) * size(W_QK))


def composition_score__wrong_thirteenth_cosine_of_entries(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes the cosine of the two matrices, entry by entry, where the norm of their product is due."""
    a, b = W_QK.flatten(), W_OV.flatten()
    lengths = a.norm() * b.norm()
    if lengths == 0:
        return a.new_tensor(0.0)
    return torch.dot(a, b).abs() / lengths


def composition_score__wrong_thirteenth_largest_singular_value(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Hands a 2 to torch.linalg.norm, which for matrices is the largest singular value, not the Frobenius norm."""
    product = W_QK @ W_OV.T
    norms = [torch.linalg.norm(M, 2) for M in (product, W_QK, W_OV)]
    if norms[1] == 0 or norms[2] == 0:
        return 0 * norms[0]
    return norms[0] / (norms[1] * norms[2])


def composition_score__wrong_thirteenth_same_norm_twice(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Divides by the norm of W_QK twice, where once that of W_OV is due."""
    composed = torch.einsum("qk,rk->qr", W_QK, W_OV)
    norm_qk = torch.sqrt((W_QK**2).sum())
    norm_ov = torch.sqrt((W_OV**2).sum())
    if norm_qk == 0 or norm_ov == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return torch.sqrt((composed**2).sum()) / (norm_qk * norm_qk)


def composition_score__wrong_thirteenth_root_left_out(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Reads the norm as the sum of the squared entries, without the root, and so gives the square of the score."""
    top = (W_QK @ W_OV.mT).pow(2).sum()
    bottom = W_QK.pow(2).sum() * W_OV.pow(2).sum()
    return top / bottom if bottom > 0 else torch.zeros_like(bottom)


def composition_score__wrong_thirteenth_small_circuits_clamped(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Avoids 0/0 by a smallest denominator of 1e-6, which makes the score of small, non-zero circuits too low."""
    numerator = torch.linalg.matrix_norm(W_QK @ W_OV.T)
    denominator = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    return numerator / denominator.clamp(min=1e-6)


def composition_score__wrong_thirteenth_norms_as_numbers(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Turns the two norms into Python numbers with .item(), so the tensor's gradient misses the denominator."""
    size_of_reader = W_QK.norm().item()
    size_of_writer = W_OV.norm().item()
    if 0 in (size_of_reader, size_of_writer):
        return W_QK.new_zeros(())
    return (W_QK @ W_OV.T).norm() / size_of_reader / size_of_writer


def composition_score__right_thirteenth_both_made_unit_size(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Brings both circuits to size one first (a zero circuit stays zero); then the norm of the product is the score."""
    def unit(W):
        largest = W.abs().amax()  # any factor cancels: this one keeps the squares in range
        if largest == 0:
            return W
        W = W / largest
        return W / torch.linalg.vector_norm(W)

    return torch.linalg.vector_norm(torch.einsum("ik,jk->ij", unit(W_QK), unit(W_OV)))


# ------- 8.7 ablate_head


def ablate_head__wrong_thirteenth_only_that_head_kept(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Keeps the named head and silences all the others, where the named one should be silent."""
    result = torch.zeros_like(head_outputs)
    result[:, head] = head_outputs[:, head]
    return result


def ablate_head__wrong_thirteenth_mean_over_the_texts(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Puts the head's mean over the batch in its place, the other kind of ablation; zeros are due."""
    average = head_outputs[:, head].mean(dim=0, keepdim=True)
    parts = list(head_outputs.unbind(dim=1))
    parts[head] = average.expand_as(parts[head])
    return torch.stack(parts, dim=1)


def ablate_head__wrong_thirteenth_others_scaled_up(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Scales the remaining heads by h / (h - 1), as dropout would; they should stay as they were."""
    h = head_outputs.shape[1]
    keep = torch.ones(h, dtype=head_outputs.dtype)
    keep[head] = 0
    if h > 1:
        keep = keep * h / (h - 1)
    return head_outputs * keep.view(1, h, 1, 1)


def ablate_head__wrong_thirteenth_batch_axis_zeroed(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Indexes the first axis, so a text of the batch becomes zero; the heads are axis 1."""
    copy = head_outputs.clone()
    copy[head] = 0
    return copy


def ablate_head__wrong_thirteenth_later_heads_gone_too(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Writes the slice head: without an end, so all later heads become zero as well; one head is due."""
    silenced = torch.clone(head_outputs)
    silenced[:, head:, :, :] = 0.0
    return silenced


def ablate_head__wrong_thirteenth_heads_counted_from_one(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Reads the number as counted from 1 and takes out head - 1 (for 0 the last); heads count from 0."""
    h = head_outputs.shape[1]
    number = torch.arange(1, h + 1)
    if head == 0:
        head = h
    out = (number == head)[None, :, None, None]
    return torch.where(out, torch.zeros_like(head_outputs), head_outputs)


def ablate_head__wrong_thirteenth_last_head_doubles_all(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Counts the heads behind from the end; for the last head the slice -0: takes all heads, where none is due."""
    behind = head_outputs.shape[1] - 1 - head
    before_it = head_outputs[:, :head]
    after_it = head_outputs[:, -behind:]
    silent = torch.zeros_like(head_outputs[:, head : head + 1])
    return torch.cat([before_it, silent, after_it], dim=1)


def ablate_head__wrong_thirteenth_transpose_taken_for_copy(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes the transposed tensor for a copy and writes into it: it is a view, so the input changes."""
    by_head = head_outputs.transpose(0, 1)
    by_head[head] = 0
    return by_head.transpose(0, 1)


def ablate_head__right_thirteenth_index_fill_out_of_place(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Uses index_fill without an underscore, which fills one index of axis 1 in a new tensor."""
    which = torch.tensor([head], device=head_outputs.device)
    return head_outputs.index_fill(1, which, 0)


# ------- 8.8 in_context_learning_score


def in_context_learning_score__wrong_thirteenth_means_over_stretches(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Averages all positions up to early and all from late on, where only these two positions count."""
    beginning = losses[:, : early + 1].mean()
    end = losses[:, late:].mean()
    return end - beginning


def in_context_learning_score__wrong_thirteenth_relative_change(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Gives the change as a share of the early loss, where the plain difference is due."""
    mean_early, mean_late = losses.mean(dim=0)[[early, late]]
    if mean_early == 0:
        return mean_late - mean_early
    return (mean_late - mean_early) / mean_early


def in_context_learning_score__wrong_thirteenth_slope_per_position(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Divides by the distance of the two positions, a slope, where the difference itself is due."""
    gain = losses[:, late].mean() - losses[:, early].mean()
    distance = abs(late - early)
    return gain / distance if distance else gain


def in_context_learning_score__wrong_thirteenth_early_minus_late(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Subtracts the wrong way round, so that learning becomes positive; late minus early is due."""
    difference = losses.select(1, early) - losses.select(1, late)
    return difference.mean()


def in_context_learning_score__wrong_thirteenth_mean_along_positions(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Averages along axis 1 and then picks two texts, where the mean over the texts (axis 0) is due."""
    curve = losses.mean(dim=1)
    return curve[late] - curve[early]


def in_context_learning_score__wrong_thirteenth_positions_from_one(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Reads the positions as counted from 1 and looks one column too far left; they count from 0."""
    late_column = losses[:, late - 1]
    early_column = losses[:, early - 1]
    return torch.mean(late_column) - torch.mean(early_column)


def in_context_learning_score__wrong_thirteenth_positions_sorted(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sorts the two positions first, so the sign turns if early > late; any order is allowed and kept."""
    first, last = sorted((early, late))
    n_texts = losses.shape[0]
    total = 0
    for text in losses:
        total = total + text[last] - text[first]
    return total / n_texts


def in_context_learning_score__wrong_thirteenth_cut_off_by_detach(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Detaches the losses and returns a tensor without gradients; from a tensor result they have to flow."""
    values = losses.detach()
    per_position = values.mean(dim=0)
    return per_position[late] - per_position[early]


def in_context_learning_score__right_thirteenth_diff_of_two_columns(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Picks the two columns in the order early, late, takes their diff and averages it over the texts."""
    pair = losses[:, [early, late]]
    return pair.diff(dim=1).sum() / max(pair.shape[0], 1)


# ------- 8.9 build_induction_circuit


def build_induction_circuit__wrong_thirteenth_token_matches_token(vocab_size: int, n_ctx: int) -> dict:
    """Lets the second head compare the token with tokens, so it looks at the same token; the note is to be compared."""
    V, N = vocab_size, n_ctx
    token, place, note, out = 0, V, V + N, 2 * V + N
    d = 3 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, token : token + V] = torch.eye(V)
    W_pos[:, place : place + N] = torch.eye(N)
    W_U[out : out + V] = torch.eye(V)

    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    for i in range(N):
        first["W_Q"][place + i, max(i - 1, 0)] = 40 * math.sqrt(N)
        first["W_K"][place + i, i] = 1
    first["W_V"][token : token + V] = torch.eye(V)
    first["W_O"][:, note : note + V] = torch.eye(V)

    width = V + 1
    second = {"W_Q": torch.zeros(d, width), "W_K": torch.zeros(d, width)}
    second["W_V"], second["W_O"] = torch.zeros(d, V), torch.zeros(V, d)
    second["W_Q"][token : token + V, :V] = 10 * (N + 2) * math.sqrt(width) * torch.eye(V)
    second["W_K"][token : token + V, :V] = torch.eye(V)
    second["W_Q"][place : place + N, V] = 10 * math.sqrt(width)
    second["W_K"][place : place + N, V] = torch.arange(N).float()
    second["W_V"][token : token + V] = torch.eye(V)
    second["W_O"][:, out : out + V] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_thirteenth_no_slope_at_all(vocab_size: int, n_ctx: int) -> dict:
    """Thinks that matching the note is all: nothing prefers the latest match, and position 0 shares the weight."""
    eye_v, eye_n = torch.eye(vocab_size), torch.eye(n_ctx)

    def rows(*blocks):
        return torch.cat(blocks, dim=0)

    def empty(r, c):
        return torch.zeros(r, c)

    v, n = vocab_size, n_ctx
    back = torch.roll(eye_n, -1, dims=1)  # the query of i is the place i - 1
    back[0] = eye_n[0]
    # stream: token, place, note
    first = {
        "W_Q": rows(empty(v, n), 50 * n**0.5 * back, empty(v, n)),
        "W_K": rows(empty(v, n), eye_n, empty(v, n)),
        "W_V": rows(eye_v, empty(n, v), empty(v, v)),
        "W_O": torch.cat([empty(v, v), empty(v, n), eye_v], dim=1),
    }
    second = {
        "W_Q": rows(50 * v**0.5 * eye_v, empty(n, v), empty(v, v)),
        "W_K": rows(empty(v, v), empty(n, v), eye_v),
        "W_V": rows(eye_v, empty(n, v), empty(v, v)),
        "W_O": torch.cat([3 * eye_v, empty(v, n), empty(v, v)], dim=1),
    }
    return {
        "W_E": torch.cat([eye_v, empty(v, n + v)], dim=1),
        "W_pos": torch.cat([empty(n, v), eye_n, empty(n, v)], dim=1),
        "W_U": rows(eye_v, empty(n + v, v)),
        "blocks": [first, second],
    }


def build_induction_circuit__wrong_thirteenth_note_fetched(vocab_size: int, n_ctx: int) -> dict:
    """Looks in the right place but fetches the note, which names the current token; the token there is due."""
    fields = {"token": vocab_size, "place": n_ctx, "note": vocab_size, "next": vocab_size}
    where, d_model = {}, 0
    for name, size in fields.items():
        where[name] = slice(d_model, d_model + size)
        d_model += size

    def reader(field, size, factor=1.0):
        W = torch.zeros(d_model, size)
        W[where[field]] = factor * torch.eye(size)
        return W

    def writer(field, size):
        return reader(field, size).T.clone()

    slope, d_second = 9.0, vocab_size + 1
    root = math.sqrt(d_second)
    shift = torch.zeros(d_model, n_ctx)
    for i in range(1, n_ctx):
        shift[where["place"]][i, i - 1] = 40 * math.sqrt(n_ctx)
    ask, offer = torch.zeros(d_model, d_second), torch.zeros(d_model, d_second)
    ask[where["token"], :vocab_size] = root * slope * (n_ctx + 3) * torch.eye(vocab_size)
    ask[where["place"], vocab_size] = root
    offer[where["note"], :vocab_size] = torch.eye(vocab_size)
    offer[where["place"], vocab_size] = slope * torch.arange(n_ctx)
    previous_head = {
        "W_Q": shift,
        "W_K": reader("place", n_ctx),
        "W_V": reader("token", vocab_size),
        "W_O": writer("note", vocab_size),
    }
    induction_head = {
        "W_Q": ask,
        "W_K": offer,
        "W_V": reader("note", vocab_size),
        "W_O": writer("next", vocab_size),
    }
    return {
        "W_E": writer("token", vocab_size),
        "W_pos": writer("place", n_ctx),
        "W_U": reader("next", vocab_size),
        "blocks": [previous_head, induction_head],
    }


def build_induction_circuit__wrong_thirteenth_root_of_width_forgotten(vocab_size: int, n_ctx: int) -> dict:
    """Chooses fixed leads and forgets that the model divides by the root of d_head: wrong for larger sizes."""
    v, n = vocab_size, n_ctx
    d = 2 * v + n
    tok, pos, note = torch.arange(v), v + torch.arange(n), v + n + torch.arange(v)
    blocks = []
    for d_head in (n, v + 1):
        blocks.append({"W_Q": torch.zeros(d, d_head), "W_K": torch.zeros(d, d_head),
                       "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)})
    one, two = blocks
    one["W_Q"][pos[1:], torch.arange(n - 1)] = 50.0
    one["W_K"][pos, torch.arange(n)] = 1.0
    one["W_V"][tok, tok] = 1.0
    one["W_O"][tok, note] = 1.0
    two["W_Q"][tok, tok] = 20.0 * (n + 2)
    two["W_K"][note, tok] = 1.0
    two["W_Q"][pos, v] = 1.0
    two["W_K"][pos, v] = 20.0 * torch.arange(n)
    two["W_V"][tok, tok] = 1.0
    two["W_O"][tok, tok] = 3.0
    W_E, W_pos, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    W_E[tok, tok] = 1.0
    W_pos[torch.arange(n), pos] = 1.0
    W_U[tok, tok] = 1.0
    return dict(W_E=W_E, W_pos=W_pos, W_U=W_U, blocks=blocks)


def build_induction_circuit__wrong_thirteenth_shifted_to_the_next(vocab_size: int, n_ctx: int) -> dict:
    """Shifts the keys of the first layer the wrong way: i asks for i + 1, which is masked; i - 1 is due."""
    d_model = 3 * vocab_size + n_ctx
    sizes = [vocab_size, n_ctx, vocab_size, vocab_size]
    token, place, note, answer = torch.eye(d_model).split(sizes)  # rows that write a field

    query = place.T * 60 * math.sqrt(n_ctx)
    key = place.T @ torch.diag(torch.ones(n_ctx - 1), -1)  # the key of j is the place j - 1
    first = {"W_Q": query, "W_K": key, "W_V": token.T.clone(), "W_O": note.clone()}

    bonus, slope = 10.0 * n_ctx + 30, 10.0
    ramp = slope * torch.arange(n_ctx, dtype=torch.float32)[:, None]
    scale = math.sqrt(vocab_size + 1)
    second = {
        "W_Q": scale * torch.cat([bonus * token.T, place.sum(dim=0)[:, None]], dim=1),
        "W_K": torch.cat([note.T, place.T @ ramp], dim=1),
        "W_V": token.T.clone(),
        "W_O": answer.clone(),
    }
    return {"W_E": token.clone(), "W_pos": place.clone(), "W_U": answer.T.clone(), "blocks": [first, second]}


def build_induction_circuit__wrong_thirteenth_context_taken_for_block(vocab_size: int, n_ctx: int) -> dict:
    """Reads n_ctx as the longest block and makes room for two of them: W_pos has 2 n_ctx rows, n_ctx are due."""
    length = 2 * n_ctx
    d_model = length + 2 * vocab_size + 1
    constant = d_model - 1
    W_E = torch.zeros(vocab_size, d_model)
    W_pos = torch.zeros(length, d_model)
    W_U = torch.zeros(d_model, vocab_size)
    for t in range(vocab_size):
        W_E[t, length + t] = 1
        W_U[length + t, t] = 1
    for i in range(length):
        W_pos[i, i] = 1
        W_pos[i, constant] = 1

    Q1, K1 = torch.zeros(d_model, length), torch.zeros(d_model, length)
    for i in range(length):
        K1[i, i] = 1
        if i > 0:
            Q1[i, i - 1] = 45 * length**0.5
    V1, O1 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    V2, O2 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    Q2, K2 = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    factor = (vocab_size + 1) ** 0.5
    for t in range(vocab_size):
        V1[length + t, t] = V2[length + t, t] = 1
        O1[t, length + vocab_size + t] = 1
        O2[t, length + t] = 2
        Q2[length + t, t] = factor * 8 * (length + 4)
        K2[length + vocab_size + t, t] = 1
    Q2[constant, vocab_size] = factor
    for i in range(length):
        K2[i, vocab_size] = 8 * i
    blocks = [{"W_Q": Q1, "W_K": K1, "W_V": V1, "W_O": O1}, {"W_Q": Q2, "W_K": K2, "W_V": V2, "W_O": O2}]
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_thirteenth_current_token_forbidden(vocab_size: int, n_ctx: int) -> dict:
    """Subtracts the current token from the logits, since the next is another one; for p = 1 it is the same."""
    v, n, d = vocab_size, n_ctx, 3 * vocab_size + n_ctx
    I_v, I_n = torch.eye(v), torch.eye(n)
    TOKEN, NOTE, OUT, POS = slice(0, v), slice(v, 2 * v), slice(2 * v, 3 * v), slice(3 * v, d)

    def fill(shape, **parts):
        W = torch.zeros(shape)
        for name, value in parts.items():
            field = {"token": TOKEN, "note": NOTE, "out": OUT, "pos": POS}[name]
            if shape[0] == d:
                W[field, : value.shape[1]] = value
            else:
                W[:, field] = value
        return W

    previous = torch.diag(torch.full((n - 1,), 50 * math.sqrt(n)), -1)
    W_Q1, W_K1 = fill((d, n), pos=previous), fill((d, n), pos=I_n)
    W_Q2 = fill((d, v + 1), token=(12 * n + 40) * I_v)
    W_K2 = fill((d, v + 1), note=I_v)
    W_Q2[POS, v] = 12
    W_K2[POS, v] = torch.arange(n, dtype=torch.float32)
    W_Q2 *= math.sqrt(v + 1)
    return {
        "W_E": fill((v, d), token=I_v),
        "W_pos": fill((n, d), pos=I_n),
        "W_U": fill((d, v), out=I_v, token=-2 * I_v),
        "blocks": [
            {"W_Q": W_Q1, "W_K": W_K1, "W_V": fill((d, v), token=I_v), "W_O": fill((v, d), note=I_v)},
            {"W_Q": W_Q2, "W_K": W_K2, "W_V": fill((d, v), token=I_v), "W_O": fill((v, d), out=I_v)},
        ],
    }


def build_induction_circuit__wrong_thirteenth_directions_drawn_at_random(vocab_size: int, n_ctx: int) -> dict:
    """Turns the stream of a right circuit into random directions: it works, but no generator was handed out for it."""
    d = 3 * vocab_size + n_ctx
    turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64)).Q
    token, note, answer, place = turn.split([vocab_size, vocab_size, vocab_size, n_ctx])
    step = 10.0
    back = torch.eye(n_ctx, dtype=torch.float64).roll(-1, dims=1)
    back[0] = 0
    number = torch.arange(n_ctx, dtype=torch.float64)[:, None]
    root = math.sqrt(vocab_size + 1)
    matches = step * (n_ctx + 3) * token.T
    always = step * place.T.sum(dim=1, keepdim=True)
    first = {"W_Q": 60 * math.sqrt(n_ctx) * place.T @ back, "W_K": place.T, "W_V": token.T, "W_O": note}
    second = {
        "W_Q": root * torch.cat([matches, always], dim=1),
        "W_K": torch.cat([note.T, place.T @ number], dim=1),
        "W_V": token.T,
        "W_O": answer,
    }

    def single(block):
        return {name: W.float().contiguous() for name, W in block.items()}

    ends = single({"W_E": token, "W_pos": place, "W_U": answer.T})
    return ends | {"blocks": [single(first), single(second)]}


def build_induction_circuit__right_thirteenth_positions_on_a_circle(vocab_size: int, n_ctx: int) -> dict:
    """Places are points on a circle, and a query is the point one step back: the first head is two wide, not n_ctx."""
    V = vocab_size
    angle = 2 * math.pi / (n_ctx + 1)
    i = torch.arange(n_ctx, dtype=torch.float64)
    cos, sin, number, one = (2 * V + k for k in range(4))  # columns behind token and note
    d = 2 * V + 4

    def zeros(*shape):
        return torch.zeros(*shape, dtype=torch.float64)

    W_E, W_pos, W_U = zeros(V, d), zeros(n_ctx, d), zeros(d, V)
    W_E[:, :V] = torch.eye(V)
    W_pos[:, cos], W_pos[:, sin] = torch.cos(angle * i), torch.sin(angle * i)
    W_pos[:, number], W_pos[:, one] = i, 1
    W_U[:V] = torch.eye(V)

    first = {"W_Q": zeros(d, 2), "W_K": zeros(d, 2), "W_V": zeros(d, V), "W_O": zeros(V, d)}
    lead = 25 / (1 - math.cos(angle))  # neighbours on the circle are that much apart
    c, s = math.cos(angle), math.sin(angle)
    first["W_Q"][[cos, sin]] = lead * math.sqrt(2) * torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    first["W_K"][[cos, sin]] = torch.eye(2, dtype=torch.float64)
    first["W_V"][:V] = torch.eye(V)
    first["W_O"][:, V : 2 * V] = torch.eye(V)

    second = {"W_Q": zeros(d, V + 1), "W_K": zeros(d, V + 1), "W_V": zeros(d, V), "W_O": zeros(V, d)}
    slope, root = 10.0, math.sqrt(V + 1)
    second["W_Q"][:V, :V] = root * slope * (n_ctx + 3) * torch.eye(V)
    second["W_K"][V : 2 * V, :V] = torch.eye(V)
    second["W_Q"][one, V] = root * slope
    second["W_K"][number, V] = 1
    second["W_V"][:V] = torch.eye(V)
    second["W_O"][:, :V] = 4 * torch.eye(V)  # louder than the current token, which stands there as well

    blocks = [{name: W.float() for name, W in block.items()} for block in (first, second)]
    return {"W_E": W_E.float(), "W_pos": W_pos.float(), "W_U": W_U.float(), "blocks": blocks}


# ------- 8.10 find_heads


def find_heads__wrong_thirteenth_one_half_is_enough(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Counts every head with more than half of its weight there, without asking what even attention gets."""
    layers, heads, n, _ = patterns.shape
    previous, induction = [], []
    for layer in range(layers):
        for head in range(heads):
            A = patterns[layer, head]
            if n > 1 and A.diagonal(offset=-1).mean() > 0.5:
                previous.append((layer, head))
            found = []
            for i in range(n):
                after = [m + 1 for m in range(i) if tokens[m] == tokens[i]]
                if after:
                    found.append(float(A[i, after].sum()))
            if found and sum(found) / len(found) > 0.5:
                induction.append((layer, head))
    return previous, induction


def find_heads__wrong_thirteenth_only_the_best_head(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Names at most one head of each kind, the one with the highest score, where all that do the work are due."""
    n = len(tokens)
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=-1, keepdim=True)
    before = torch.diag(torch.ones(n - 1), -1).bool()
    same = (tokens[:, None] == tokens[None, :]).tril(-1)
    follows = torch.cat([torch.zeros(n, 1, dtype=torch.bool), same[:, :-1]], dim=1)

    def winner(places):
        rows = places.any(dim=1)
        if not rows.any():
            return []
        score = (patterns * places).sum(-1)[..., rows].mean(-1)
        chance = (even * places).sum(-1)[rows].mean()
        best = int(score.argmax())
        if score.flatten()[best] <= (1 + chance) / 2:
            return []
        return [divmod(best, patterns.shape[1])]

    return winner(before), winner(follows)


def find_heads__wrong_thirteenth_latest_occurrence_only(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Counts the weight on what followed the LATEST earlier occurrence, where that on any of them, summed, is due."""
    text = tokens.tolist()
    last_seen, target = {}, {}
    for i, token in enumerate(text):
        if token in last_seen:
            target[i] = last_seen[token] + 1
        last_seen[token] = i
    one_back = {i: i - 1 for i in range(1, len(text))}

    def search(places):
        if not places:
            return []
        queries = torch.tensor(list(places.keys()))
        keys = torch.tensor(list(places.values()))
        weight = patterns[:, :, queries, keys].mean(dim=-1)
        chance = (1 / (queries + 1)).mean()
        return [tuple(pair) for pair in ((weight - chance) > (1 - weight)).nonzero().tolist()]

    return search(one_back), search(target)


def find_heads__wrong_thirteenth_empty_rows_averaged_in(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Averages over all rows but 0, also over those with nothing to find, which should say nothing."""
    n = tokens.numel()
    if n == 1:
        return [], []
    i = torch.arange(n)
    repeats = (tokens.unsqueeze(1) == tokens.unsqueeze(0)) & (i.unsqueeze(1) > i.unsqueeze(0))
    wanted = {"previous": i.unsqueeze(1) - 1 == i.unsqueeze(0), "induction": torch.zeros_like(repeats)}
    wanted["induction"][:, 1:] = repeats[:, :-1]
    results = []
    for mask in wanted.values():
        gets = torch.einsum("lhij,ij->lh", patterns, mask.to(patterns.dtype)) / (n - 1)
        even = (mask.sum(dim=1) / (i + 1)).sum() / (n - 1)
        results.append([(a, b) for a, b in torch.nonzero(gets > (even + 1) / 2).tolist()])
    return results[0], results[1]


def find_heads__wrong_thirteenth_even_head_sees_all(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Lets the even head spread 1 / n over the whole text, where a causal one in row i sees only i + 1 tokens."""
    n_layers, n_heads, n, _ = patterns.shape
    targets = [(0, lambda i: [i - 1] if i else [])]
    targets.append((1, lambda i: [m + 1 for m in range(i) if tokens[m].item() == tokens[i].item()]))
    answer = ([], [])
    for kind, places_of in targets:
        rows = [(i, places_of(i)) for i in range(n) if places_of(i)]
        if not rows:
            continue
        by_chance = sum(len(columns) / n for _, columns in rows) / len(rows)
        for layer in range(n_layers):
            for head in range(n_heads):
                score = sum(patterns[layer, head, i, columns].sum().item() for i, columns in rows) / len(rows)
                if 1 - score < score - by_chance:
                    answer[kind].append((layer, head))
    return answer


def find_heads__wrong_thirteenth_same_token_not_follower(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Reads that an induction head looks at where its token stood before; what FOLLOWED it there is due."""
    def kind(mask):
        mask = mask.to(patterns.dtype)
        has_any = mask.sum(dim=-1) > 0
        if not bool(has_any.any()):
            return []
        visible = torch.arange(1, len(tokens) + 1, dtype=patterns.dtype)
        chance = (mask.sum(dim=-1) / visible)[has_any].mean()
        share = (patterns * mask).sum(dim=-1)[:, :, has_any].mean(dim=-1)
        hits = share - chance > 1 - share
        return sorted((int(layer), int(head)) for layer, head in hits.nonzero())

    n = len(tokens)
    step_back = torch.eye(n).roll(1, dims=0).tril(-1) if n > 1 else torch.zeros(1, 1)
    stood_before = tokens.eq(tokens[:, None]).tril(diagonal=-1)
    # the weight one column back from the diagonal, and on the earlier places of the same token
    step_back = step_back * (torch.arange(n)[:, None] - torch.arange(n) == 1)
    return kind(step_back), kind(stood_before)


def find_heads__wrong_thirteenth_itself_not_counted(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Allows only keys before the query, so the second of two twins may not look at itself, though it followed."""
    n = tokens.shape[0]
    follower = torch.zeros(n, n, dtype=torch.bool)
    for query in range(n):
        for key in range(1, query):
            follower[query, key] = tokens[key - 1] == tokens[query]
    previous = torch.zeros(n, n, dtype=torch.bool)
    previous[range(1, n), range(n - 1)] = True

    uniform = torch.tril(torch.ones(n, n)).to(patterns)
    uniform = uniform / torch.arange(1, n + 1).unsqueeze(1)

    def passing(mask):
        rows = [i for i in range(n) if mask[i].any()]
        if len(rows) == 0:
            return []
        hit = lambda P: (P * mask)[..., rows, :].sum(dim=-1).mean(dim=-1)  # noqa: E731
        middle = 0.5 * (1 + hit(uniform))
        return [tuple(x) for x in torch.argwhere(hit(patterns) > middle).tolist()]

    return passing(previous), passing(follower)


def find_heads__wrong_thirteenth_strongest_head_first(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Finds the right heads, but lists them by falling score, where the pairs should be sorted."""
    n = len(tokens)
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    previous_places = j == i - 1
    shifted = torch.roll(tokens, 1)  # the token before each key
    induction_places = (shifted[None, :] == tokens[:, None]) & (j >= 1) & (j <= i)

    def ranked(places):
        rows = places.any(dim=1).nonzero().flatten()
        scored = []
        for layer, heads in enumerate(patterns):
            for head, A in enumerate(heads):
                if len(rows):
                    score = A[rows][places[rows]].sum() / len(rows)
                    chance = (places.sum(1) / (torch.arange(n) + 1))[rows].mean()
                    if score > (1 + chance) / 2:
                        scored.append((float(score), (layer, head)))
        scored.sort(key=lambda pair: -pair[0])
        return [pair for _, pair in scored]

    return ranked(previous_places), ranked(induction_places)


def find_heads__right_thirteenth_even_head_measured_alike(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Puts an even head among the others as one more, measures all in the same way, and compares with it."""
    n, n_heads = tokens.shape[0], patterns.shape[1]
    even = torch.stack([torch.arange(n) <= i for i in range(n)]).double()
    even = even / even.sum(dim=1, keepdim=True)
    all_heads = torch.cat([patterns.flatten(0, 1).double(), even[None]])

    where = {"previous": {}, "induction": {}}
    for i in range(1, n):
        where["previous"][i] = [i - 1]
        after = [m + 1 for m in range(i) if int(tokens[m]) == int(tokens[i])]
        if after:
            where["induction"][i] = after

    found = []
    for rows in where.values():
        named = []
        if rows:
            score = torch.stack([all_heads[:, i, places].sum(dim=1) for i, places in rows.items()]).mean(dim=0)
            *scores, chance = score.tolist()
            named = [divmod(k, n_heads) for k, s in enumerate(scores) if s - chance > 1 - s]
        found.append(named)
    return tuple(found)


# ------- 8.11 ablate_path


def ablate_path__wrong_thirteenth_reader_reads_nothing(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Gives the blind reader a stream of zeros, where it still reads embedding and position, without the note."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    A1 = _causal_softmax((x @ first["W_Q"]) @ (x @ first["W_K"]).mT / math.sqrt(first["W_Q"].shape[1]))
    x = x + A1 @ x @ first["W_V"] @ first["W_O"]

    reads = {"query": x, "key": x, "value": x}
    reads[into] = torch.zeros_like(x)
    scores = (reads["query"] @ second["W_Q"]) @ (reads["key"] @ second["W_K"]).mT
    A2 = _causal_softmax(scores / math.sqrt(second["W_Q"].shape[1]))
    x = x + A2 @ reads["value"] @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A1, A2]


def ablate_path__wrong_thirteenth_note_lost_for_logits(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Adds the second layer's output to the stream without the note, which thus never reaches the logits; it should."""
    def pattern(q, k):
        width = q.shape[-1]
        return _causal_softmax(torch.einsum("bid,bjd->bij", q, k) / width**0.5)

    b1, b2 = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    first_pattern = pattern(start @ b1["W_Q"], start @ b1["W_K"])
    full = start + first_pattern @ (start @ b1["W_V"]) @ b1["W_O"]

    for_query = start if into == "query" else full
    for_key = start if into == "key" else full
    for_value = start if into == "value" else full
    second_pattern = pattern(for_query @ b2["W_Q"], for_key @ b2["W_K"])
    end = start + second_pattern @ (for_value @ b2["W_V"]) @ b2["W_O"]
    return end @ weights["W_U"], [first_pattern, second_pattern]


def ablate_path__wrong_thirteenth_other_two_made_blind(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Takes the cut the other way round: only the named reader sees the note; it alone should be blind to it."""
    patterns = []
    stream = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    without_note = stream
    for layer, block in enumerate(weights["blocks"]):
        source = {}
        for reader in ("query", "key", "value"):
            sees_all = layer == 0 or reader == into
            source[reader] = stream if sees_all else without_note
        Q, K, V = (source[r] @ block[W] for r, W in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")))
        A = _causal_softmax(Q @ K.transpose(1, 2) / math.sqrt(Q.shape[2]))
        stream = stream + A @ V @ block["W_O"]
        patterns.append(A)
    return stream @ weights["W_U"], patterns


def ablate_path__wrong_thirteenth_width_of_first_layer(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Divides the second layer's scores by the root of the FIRST layer's d_head; the two may differ."""
    layer1, layer2 = weights["blocks"]
    root = layer1["W_Q"].shape[1] ** 0.5
    length = tokens.shape[1]
    emb = weights["W_E"][tokens] + weights["W_pos"][:length]
    A1 = _causal_softmax(emb @ layer1["W_Q"] @ (emb @ layer1["W_K"]).mT / root)
    note = A1 @ emb @ layer1["W_V"] @ layer1["W_O"]
    seen = [emb if into == reader else emb + note for reader in ("query", "key", "value")]
    A2 = _causal_softmax(seen[0] @ layer2["W_Q"] @ (seen[1] @ layer2["W_K"]).mT / root)
    copied = A2 @ seen[2] @ layer2["W_V"] @ layer2["W_O"]
    return (emb + note + copied) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_thirteenth_position_taken_off_too(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Lets the blind reader read the embedding alone and forgets the position, which stood there before the note."""
    n = tokens.shape[1]
    embedded = weights["W_E"][tokens]
    x = embedded + weights["W_pos"][:n]
    one, two = weights["blocks"]
    scores_one = (x @ one["W_Q"]) @ (x @ one["W_K"]).mT / math.sqrt(one["W_Q"].shape[1])
    pattern_one = _causal_softmax(scores_one)
    x = x + pattern_one @ x @ one["W_V"] @ one["W_O"]
    q_in = k_in = v_in = x
    if into == "query":
        q_in = embedded
    elif into == "key":
        k_in = embedded
    else:
        v_in = embedded
    scores_two = (q_in @ two["W_Q"]) @ (k_in @ two["W_K"]).mT / math.sqrt(two["W_Q"].shape[1])
    pattern_two = _causal_softmax(scores_two)
    x = x + pattern_two @ v_in @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [pattern_one, pattern_two]


def ablate_path__wrong_thirteenth_what_the_path_adds(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Returns as logits what the cut takes away, whole minus cut, where the logits of the cut model are due."""
    whole, patterns = _run_attention_only(tokens, weights)
    W_E, W_pos, (b1, b2) = weights["W_E"], weights["W_pos"], weights["blocks"]
    start = W_E[tokens] + W_pos[: tokens.shape[1]]
    full = start + patterns[0] @ start @ b1["W_V"] @ b1["W_O"]
    sees = dict.fromkeys(("query", "key", "value"), full) | {into: start}
    A = (sees["query"] @ b2["W_Q"]) @ (sees["key"] @ b2["W_K"]).mT / math.sqrt(b2["W_K"].shape[1])
    A = _causal_softmax(A)
    cut = (full + A @ sees["value"] @ b2["W_V"] @ b2["W_O"]) @ weights["W_U"]
    return whole - cut, [patterns[0], A]


def ablate_path__wrong_thirteenth_note_directions_projected_out(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Takes the directions that W_O of the first layer writes to off the blind reader: what the embedding has
    there is lost as well, and should stay."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    W_O = first["W_O"]
    onto_note = torch.linalg.pinv(W_O) @ W_O  # (d_model, d_model), onto the rows of W_O
    d_model = W_O.shape[1]
    blind = torch.eye(d_model, dtype=W_O.dtype) - onto_note

    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    A = _causal_softmax(x @ first["W_Q"] @ (x @ first["W_K"]).mT / math.sqrt(first["W_Q"].shape[1]))
    x = x + A @ x @ first["W_V"] @ W_O

    name = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    second = {**second, name: blind @ second[name]}
    B = _causal_softmax(x @ second["W_Q"] @ (x @ second["W_K"]).mT / math.sqrt(second["W_Q"].shape[1]))
    x = x + B @ x @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_thirteenth_old_stream_detached(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Keeps the stream before the note as a detached copy: through the blind reader no gradient flows, as it should."""
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    saved = x.detach().clone()
    patterns = []
    for number, block in enumerate(weights["blocks"]):
        q = k = v = x
        if number == 1 and into == "query":
            q = saved
        if number == 1 and into == "key":
            k = saved
        if number == 1 and into == "value":
            v = saved
        scores = (q @ block["W_Q"]) @ (k @ block["W_K"]).mT / math.sqrt(block["W_Q"].shape[1])
        patterns.append(_causal_softmax(scores))
        x = x + patterns[-1] @ v @ block["W_V"] @ block["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__right_thirteenth_stream_of_double_width(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Builds a model with a stream of twice the width, where the note has a half of its own, and blinds one reader
    in the weights; the given machine runs it."""
    first, second = weights["blocks"]
    no_stream = {name: torch.zeros_like(weights[name]) for name in ("W_E", "W_pos")}

    def reads(W, note):  # the old half, and the half of the note
        return torch.cat([W, W if note else torch.zeros_like(W)], dim=0)

    def writes(W, note):
        nothing = torch.zeros_like(W)
        return torch.cat([nothing, W] if note else [W, nothing], dim=1)

    wide_first = {name: reads(first[name], note=False) for name in ("W_Q", "W_K", "W_V")}
    wide_first["W_O"] = writes(first["W_O"], note=True)
    wide_second = {
        "W_Q": reads(second["W_Q"], note=into != "query"),
        "W_K": reads(second["W_K"], note=into != "key"),
        "W_V": reads(second["W_V"], note=into != "value"),
        "W_O": writes(second["W_O"], note=False),
    }
    wide = {name: torch.cat([weights[name], no_stream[name]], dim=1) for name in ("W_E", "W_pos")}
    wide |= {"W_U": reads(weights["W_U"], note=True), "blocks": [wide_first, wide_second]}
    return _run_attention_only(tokens, wide)
