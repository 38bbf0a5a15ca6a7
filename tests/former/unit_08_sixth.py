"""Answers to the exercises of unit 8, induction heads, as students would write them."""

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


# 8.1 repeated_sequences


def repeated_sequences__wrong_sixth_each_token_repeated(batch, period, repeats, vocab_size, generator):
    """Uses repeat_interleave, so every token stands `repeats` times in a row: a a b b, not a b a b."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.repeat_interleave(block, repeats, dim=1)


def repeated_sequences__wrong_sixth_global_generator(batch, period, repeats, vocab_size, generator):
    """Forgets generator=generator in randint and so draws from the global random state."""
    block = torch.randint(vocab_size, (batch, period))
    return torch.tile(block, (1, repeats))


def repeated_sequences__wrong_sixth_reseeds(batch, period, repeats, vocab_size, generator):
    """Calls generator.manual_seed(0) before drawing, so every call gives the same blocks."""
    generator.manual_seed(0)
    block = torch.randint(0, vocab_size, (batch, period), generator=generator)
    return torch.cat([block for _ in range(repeats)], dim=1)


def repeated_sequences__wrong_sixth_draws_the_transpose(batch, period, repeats, vocab_size, generator):
    """Draws with the shape (period, batch) and transposes, so the ids land in other places."""
    columns = torch.randint(vocab_size, (period, batch), generator=generator)
    return columns.repeat(repeats, 1).T


def repeated_sequences__wrong_sixth_distinct_tokens(batch, period, repeats, vocab_size, generator):
    """Draws blocks of distinct tokens by argsort of random numbers, not independent ids by randint."""
    order = torch.rand(batch, max(vocab_size, period), generator=generator).argsort(dim=1)
    block = order[:, :period] % vocab_size
    return block.repeat(1, repeats)


def repeated_sequences__wrong_sixth_one_block_for_all(batch, period, repeats, vocab_size, generator):
    """Draws a single block (period,) and gives it to all rows of the batch."""
    block = torch.randint(vocab_size, (period,), generator=generator)
    row = block.repeat(repeats)
    return row.expand(batch, -1).clone()


def repeated_sequences__wrong_sixth_repeats_are_extra(batch, period, repeats, vocab_size, generator):
    """Takes `repeats` for the copies that follow the first, so a row is one block too long."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    text = block
    for _ in range(repeats):
        text = torch.cat((text, block), dim=1)
    return text


def repeated_sequences__wrong_sixth_repeats_rows_then_reshapes(batch, period, repeats, vocab_size, generator):
    """Repeats along axis 0 and reshapes, so blocks of different rows of the batch end up in one row."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat(repeats, 1).reshape(batch, period * repeats)


def repeated_sequences__right_sixth_kronecker_product(batch, period, repeats, vocab_size, generator):
    """Kronecker product of a row of integer ones with the block, which sets copies side by side."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.kron(torch.ones(1, repeats, dtype=torch.int64), block)


# 8.2 previous_token_score


def previous_token_score__wrong_sixth_next_token(weights):
    """Takes the diagonal with offset=+1, the weight from i to i + 1."""
    if weights.shape[-1] == 1:
        return weights.new_zeros(weights.shape[:-2])
    return weights.diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=-1)


def previous_token_score__wrong_sixth_divides_by_n(weights):
    """Sums the right entries but divides by n, as if position 0 counted too."""
    n = weights.shape[-1]
    total = weights[..., 0, 0] * 0
    for i in range(1, n):
        total = total + weights[..., i, i - 1]
    return total / n


def previous_token_score__wrong_sixth_diagonal_of_the_first_axes(weights):
    """Calls torch.diagonal without dim1 and dim2, so with leading axes it runs over axes 0 and 1."""
    if weights.shape[-1] < 2:
        return weights.new_zeros(weights.shape[:-2])
    line = torch.diagonal(weights, offset=-1)
    return line.mean(dim=-1)


def previous_token_score__wrong_sixth_share_of_largest(weights):
    """Counts how often the largest weight of a row is at i - 1, in place of averaging the weights."""
    n = weights.shape[-1]
    if n == 1:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    favourite = weights.argmax(dim=-1)[..., 1:]
    hits = (favourite == torch.arange(n - 1)).to(weights.dtype)
    return hits.mean(dim=-1)


def previous_token_score__wrong_sixth_all_earlier_tokens(weights):
    """Sums everything below the diagonal, tril(-1), so all earlier tokens count as the previous one."""
    n = weights.shape[-1]
    earlier = torch.tril(weights, diagonal=-1).sum(dim=(-2, -1))
    return earlier / max(n - 1, 1)


def previous_token_score__wrong_sixth_renormalises_causally(weights):
    """Masks the future and renormalises the rows first, though the pattern is to be taken as it is."""
    n = weights.shape[-1]
    seen = weights.tril()
    seen = seen / seen.sum(dim=-1, keepdim=True).clamp(min=1e-12)
    picked = torch.einsum("...ii->...", seen[..., 1:, :-1]) if n > 1 else 0 * seen[..., 0, 0]
    return picked / max(n - 1, 1)


def previous_token_score__wrong_sixth_nan_for_one_token(weights):
    """Has no case for n = 1, where the mean of the empty diagonal is NaN."""
    below = torch.diagonal(weights, offset=-1, dim1=-2, dim2=-1)
    return below.mean(-1)


def previous_token_score__wrong_sixth_zeroes_the_input(weights):
    """Clears all other entries of the input itself with triu_ and tril_ before summing."""
    n = weights.shape[-1]
    kept = weights.detach() if weights.requires_grad else weights
    line = weights.diagonal(-1, -2, -1).clone()
    kept.tril_(-1).triu_(-1)
    return line.sum(-1) / max(n - 1, 1)


def previous_token_score__right_sixth_shifted_identity(weights):
    """Selects with torch.where on i - j == 1, sums over both axes and divides by n - 1, at least 1."""
    n = weights.shape[-1]
    i = torch.arange(n)
    previous = i[:, None] - i[None, :] == 1
    picked = torch.where(previous, weights, torch.zeros((), dtype=weights.dtype))
    return picked.sum(dim=(-2, -1)) / max(n - 1, 1)


def previous_token_score__right_sixth_flattened_stride(weights):
    """Flattens each pattern and takes every (n + 1)-th entry from entry n on."""
    n = weights.shape[-1]
    line = weights.reshape(*weights.shape[:-2], n * n)[..., n :: n + 1]
    return line.sum(dim=-1) / max(1, line.shape[-1])


# 8.3 prefix_matching_score


def prefix_matching_score__wrong_sixth_same_token(weights, period):
    """Looks one whole period back, at i - period, where the same token stands."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    return weights.diagonal(offset=-period, dim1=-2, dim2=-1).mean(dim=-1)


def prefix_matching_score__wrong_sixth_whole_diagonal(weights, period):
    """Averages the whole diagonal -(period - 1), which also holds row period - 1."""
    if weights.shape[-1] <= period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    line = torch.diagonal(weights, 1 - period, -2, -1)
    return line.mean(-1)


def prefix_matching_score__wrong_sixth_whole_blocks_only(weights, period):
    """Cuts the text to whole blocks first, so the rows of a block that breaks off are left out."""
    n = weights.shape[-1] // period * period
    total = 0 * weights[..., 0, 0]
    for i in range(period, n):
        total = total + weights[..., i, i - period + 1]
    return total / max(n - period, 1)


def prefix_matching_score__wrong_sixth_second_block_only(weights, period):
    """Averages over the second block alone and leaves out all later copies."""
    end = min(2 * period, weights.shape[-1])
    picked = [weights[..., i, i + 1 - period] for i in range(period, end)]
    if not picked:
        return weights.new_zeros(weights.shape[:-2])
    return torch.stack(picked, dim=-1).mean(dim=-1)


def prefix_matching_score__wrong_sixth_nan_without_repeat(weights, period):
    """Has no case for n <= period, where the mean of no rows is NaN."""
    diagonal = weights.diagonal(offset=-(period - 1), dim1=-2, dim2=-1)
    return diagonal[..., 1:].mean(dim=-1)


def prefix_matching_score__wrong_sixth_all_earlier_matches(weights, period):
    """Adds up the weight on what followed every earlier copy, not only the one a period ago."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    follows = ((i - j + 1) % period == 0) & (j <= i - (period - 1)) & (i >= period) & (j >= 1)
    return (weights * follows).sum(dim=(-2, -1)) / (n - period)


def prefix_matching_score__wrong_sixth_always_first_block(weights, period):
    """Looks up the follower with (i + 1) % period, so always in the first block."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    rows = torch.arange(period, n)
    columns = (rows + 1) % period
    return weights[..., rows, columns].mean(dim=-1)


def prefix_matching_score__wrong_sixth_query_and_key_swapped(weights, period):
    """Takes weights[i - (period - 1), i]: columns as queries and rows as keys."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    later = torch.arange(period, n)
    return weights[..., later - (period - 1), later].sum(-1) / (n - period)


def prefix_matching_score__right_sixth_sliced_then_trace(weights, period):
    """Cuts out rows from period on and columns from 1 on, and takes the trace of that square by einsum."""
    n = weights.shape[-1]
    count = n - period
    if count <= 0:
        return weights[..., n:, 0].sum(dim=-1)  # a sum of nothing
    square = weights[..., period:, 1 : 1 + count]
    return torch.einsum("...kk->...", square) / count


# 8.4 ov_circuit


def ov_circuit__wrong_sixth_transposed(W_E, W_V, W_O, W_U):
    """Multiplies in the column convention and returns logits as rows, tokens as columns."""
    return W_U.T @ W_O.T @ W_V.T @ W_E.T


def ov_circuit__wrong_sixth_softmax(W_E, W_V, W_O, W_U):
    """Turns each row of logits into probabilities with a softmax."""
    logits = W_E @ W_V @ W_O @ W_U
    return F.softmax(logits, dim=-1)


def ov_circuit__wrong_sixth_divides_by_root_of_width(W_E, W_V, W_O, W_U):
    """Divides by the root of d_v, as one does with scores."""
    values = W_E @ W_V
    return values @ (W_O @ W_U) / values.shape[-1] ** 0.5


def ov_circuit__wrong_sixth_tied_unembedding(W_E, W_V, W_O, W_U):
    """Reads the logits off with W_E transposed, as in models with tied weights, and never uses W_U."""
    written = torch.einsum("td,dv,vm->tm", W_E, W_V, W_O)
    return torch.einsum("tm,um->tu", written, W_E)


def ov_circuit__wrong_sixth_adds_the_direct_path(W_E, W_V, W_O, W_U):
    """Adds the head's output to the embedding before unembedding, so the direct path W_E W_U is in it."""
    stream = W_E + W_E @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_sixth_output_matrix_before_value(W_E, W_V, W_O, W_U):
    """Goes through W_O and then W_V, and transposes both so that the shapes fit."""
    into_head = W_E @ W_O.T
    out_of_head = into_head @ W_V.T
    return out_of_head @ W_U


def ov_circuit__wrong_sixth_centres_the_logits(W_E, W_V, W_O, W_U):
    """Subtracts the mean of each row, since a softmax would not notice."""
    effect = torch.linalg.multi_dot([W_E, W_V, W_O, W_U])
    return effect - effect.mean(dim=1, keepdim=True)


def ov_circuit__wrong_sixth_rows_of_numbers(W_E, W_V, W_O, W_U):
    """Builds the result from detached rows, so no gradient reaches the weights."""
    rows = []
    for embedding in W_E:
        rows.append((embedding @ W_V @ W_O @ W_U).tolist())
    return torch.tensor(rows, dtype=W_E.dtype)


def ov_circuit__right_sixth_from_the_right(W_E, W_V, W_O, W_U):
    """Multiplies from the right end, W_O W_U first, in one einsum over three factors."""
    return torch.einsum("vu,dv,td->tu", W_O @ W_U, W_V, W_E)


def ov_circuit__right_sixth_sum_over_directions_of_the_head(W_E, W_V, W_O, W_U):
    """Adds up outer products, one for each of the d_v directions of the head."""
    total = torch.zeros(W_E.shape[0], W_U.shape[1], dtype=W_E.dtype)
    for k in range(W_V.shape[1]):
        total = total + torch.outer(W_E @ W_V[:, k], W_O[k] @ W_U)
    return total


# 8.5 copying_score


def copying_score__wrong_sixth_largest_of_the_column(ov):
    """Takes argmax over dim=0 and so asks for the largest entry of each column."""
    best = ov.argmax(dim=0)
    return (best == torch.arange(ov.shape[0])).to(ov.dtype).mean()


def copying_score__wrong_sixth_count(ov):
    """Returns the number of tokens copied, not their share."""
    own = ov.diagonal()
    return (own == ov.max(dim=1).values).sum()


def copying_score__wrong_sixth_larger_than_row_mean(ov):
    """Asks only that the own logit is larger than the mean of its row."""
    return (torch.diag(ov) > ov.mean(dim=1)).double().mean().to(ov.dtype)


def copying_score__wrong_sixth_eigenvalues(ov):
    """Computes the eigenvalue measure of Elhage et al., sum of eigenvalues over sum of their sizes."""
    values = torch.linalg.eigvals(ov)
    return values.real.sum() / values.abs().sum().clamp(min=1e-12)


def copying_score__wrong_sixth_own_probability_above_half(ov):
    """Counts a token as copied only if the softmax gives it more than one half."""
    shares = ov.softmax(dim=-1)
    n = len(ov)
    return sum(float(shares[t, t]) > 0.5 for t in range(n)) / n


def copying_score__wrong_sixth_own_place_masked_by_zero(ov):
    """Multiplies by 1 - eye to leave out the diagonal, so 0 competes and negative winners are lost."""
    own = torch.diagonal(ov)
    others = ov * (1 - torch.eye(len(ov), dtype=ov.dtype))
    return (own > others.amax(dim=1)).to(ov.dtype).mean()


def copying_score__wrong_sixth_fills_the_input(ov):
    """Calls fill_diagonal_ on the input itself to look at the others, and so changes the argument."""
    own = ov.diagonal().clone()
    rivals = ov.detach().fill_diagonal_(-torch.inf).max(dim=-1).values
    return (own > rivals).to(own.dtype).mean()


def copying_score__wrong_sixth_largest_in_size(ov):
    """Compares absolute values, so a strongly negative own logit counts as copying."""
    winner = torch.argmax(torch.abs(ov), dim=1)
    right = winner.eq(torch.arange(len(winner)))
    return right.float().mean().to(ov.dtype)


def copying_score__right_sixth_no_entry_larger(ov):
    """Counts the rows in which no entry minus the own entry is positive."""
    lead = ov - ov.diagonal()[:, None]
    beaten = (lead > 0).sum(dim=1)
    return (beaten == 0).to(ov.dtype).mean()


def copying_score__right_sixth_python_loop(ov):
    """Compares the entries of each row as Python numbers."""
    table = ov.tolist()
    copied = 0
    for t, row in enumerate(table):
        if all(row[t] > other for u, other in enumerate(row) if u != t):
            copied += 1
    return copied / len(table)


# 8.6 composition_score


def composition_score__wrong_sixth_no_transpose(W_QK, W_OV):
    """Forms W_QK W_OV without the transpose: the key side against what the earlier head reads."""
    norm = torch.linalg.matrix_norm
    sizes = norm(W_QK) * norm(W_OV)
    if sizes == 0:
        return sizes
    return norm(W_QK @ W_OV) / sizes


def composition_score__wrong_sixth_query_side(W_QK, W_OV):
    """Forms W_OV W_QK, which is composition through the queries."""
    top = (W_OV @ W_QK).pow(2).sum().sqrt()
    bottom = W_QK.pow(2).sum().sqrt() * W_OV.pow(2).sum().sqrt()
    return top / bottom if bottom > 0 else torch.zeros((), dtype=W_QK.dtype)


def composition_score__wrong_sixth_spectral_norm(W_QK, W_OV):
    """Takes ord=2, the largest singular value, for the Frobenius norm."""

    def size(M):
        return torch.linalg.matrix_norm(M, ord=2)

    if not W_QK.any() or not W_OV.any():
        return W_QK.new_zeros(())
    return size(W_QK @ W_OV.T) / (size(W_QK) * size(W_OV))


def composition_score__wrong_sixth_squares_without_root(W_QK, W_OV):
    """Divides the sums of squares and forgets the roots."""
    product = torch.einsum("ab,cb->ac", W_QK, W_OV)
    below = (W_QK**2).sum() * (W_OV**2).sum()
    if below == 0:
        return below
    return (product**2).sum() / below


def composition_score__wrong_sixth_zero_if_entries_sum_to_zero(W_QK, W_OV):
    """Tests for a zero matrix with .sum() == 0, which is also true where entries cancel."""
    if W_QK.sum() == 0 or W_OV.sum() == 0:
        return torch.tensor(0.0, dtype=W_QK.dtype)
    return (W_QK @ W_OV.mT).norm() / (W_QK.norm() * W_OV.norm())


def composition_score__wrong_sixth_zero_only_if_both(W_QK, W_OV):
    """Returns 0 only if both circuits are zero (`and` for `or`); with a single zero circuit 0/0 is NaN."""
    a, b = torch.linalg.norm(W_QK), torch.linalg.norm(W_OV)
    if a == 0 and b == 0:
        return a * b
    return torch.linalg.norm(W_QK @ W_OV.T) / (a * b)


def composition_score__wrong_sixth_small_number_below(W_QK, W_OV):
    """Adds 1e-3 to the denominator against 0/0, which pulls down the score of small circuits."""
    fro = torch.linalg.matrix_norm
    return fro(W_QK @ W_OV.T) / (fro(W_QK) * fro(W_OV) + 1e-3)


def composition_score__wrong_sixth_cosine_of_the_matrices(W_QK, W_OV):
    """Takes the cosine of the two matrices as long vectors: sum of entrywise products over both norms."""
    a, b = W_QK.flatten(), W_OV.flatten()
    sizes = a.norm() * b.norm()
    if sizes == 0:
        return sizes
    return (a @ b).abs() / sizes


def composition_score__right_sixth_scaled_first(W_QK, W_OV):
    """Scales both circuits to norm 1, then adds up the squares of their rows' inner products."""
    a = torch.linalg.vector_norm(W_QK)
    b = torch.linalg.vector_norm(W_OV)
    if a == 0 or b == 0:
        return 0 * (W_QK.sum() + W_OV.sum())
    return torch.linalg.vector_norm(torch.einsum("qk,rk->qr", W_QK / a, W_OV / b))


# 8.7 ablate_head


def ablate_head__wrong_sixth_in_place(head_outputs, head):
    """Writes the zeros into the input itself (through a detached view, to please autograd)."""
    head_outputs.detach()[:, head] = 0
    return head_outputs


def ablate_head__wrong_sixth_counts_from_one(head_outputs, head):
    """Counts heads from 1 and so zeroes head - 1."""
    result = head_outputs.clone()
    result[:, head - 1] = 0
    return result


def ablate_head__wrong_sixth_rescales_the_others(head_outputs, head):
    """Scales the remaining heads by h / (h - 1), as dropout does."""
    h = head_outputs.shape[1]
    keep = (torch.arange(h) != head).to(head_outputs.dtype)
    keep = keep * h / max(h - 1, 1)
    return head_outputs * keep[:, None, None]


def ablate_head__wrong_sixth_puts_in_the_mean(head_outputs, head):
    """Mean ablation: puts the head's mean over batch and positions in its place, not zeros."""
    out = head_outputs.clone()
    out[:, head] = head_outputs[:, head].mean(dim=(0, 1))
    return out


def ablate_head__wrong_sixth_drops_the_head(head_outputs, head):
    """Cuts the head out of the tensor, so one head fewer comes back."""
    others = [k for k in range(head_outputs.shape[1]) if k != head]
    return head_outputs[:, others]


def ablate_head__wrong_sixth_first_text_only(head_outputs, head):
    """Writes copy[0, head] = 0, which takes the head out of the first row of the batch alone."""
    copied = torch.clone(head_outputs)
    copied[0, head] = torch.zeros_like(copied[0, head])
    return copied


def ablate_head__wrong_sixth_this_head_and_all_after(head_outputs, head):
    """Zeroes the slice head: and with it all heads after the one that was meant."""
    mask = torch.ones_like(head_outputs)
    mask[:, head:] = 0
    return head_outputs * mask


def ablate_head__wrong_sixth_detached_copy(head_outputs, head):
    """Copies with .detach().clone(), so no gradient flows to the input."""
    without = head_outputs.detach().clone()
    without[:, head].zero_()
    return without


def ablate_head__right_sixth_cat_around_the_head(head_outputs, head):
    """Puts the heads before, a block of zeros and the heads after side by side with torch.cat."""
    before, one, after = head_outputs[:, :head], head_outputs[:, head : head + 1], head_outputs[:, head + 1 :]
    return torch.cat([before, torch.zeros_like(one), after], dim=1)


def ablate_head__right_sixth_index_fill(head_outputs, head):
    """torch.index_fill along axis 1, which makes its own copy and keeps gradients."""
    return torch.index_fill(head_outputs, 1, torch.tensor([head]), 0.0)


# 8.8 in_context_learning_score


def in_context_learning_score__wrong_sixth_early_minus_late(losses, early, late):
    """Subtracts the other way round, early minus late."""
    return losses[:, early].mean() - losses[:, late].mean()


def in_context_learning_score__wrong_sixth_rows_as_positions(losses, early, late):
    """Takes axis 0 for the positions (modulo the number of texts, so that it runs)."""
    B = losses.shape[0]
    return torch.mean(losses[late % B]) - torch.mean(losses[early % B])


def in_context_learning_score__wrong_sixth_stretches(losses, early, late):
    """Averages all positions up to early and up to late, not the two positions alone."""
    mean_until = losses.mean(dim=0).cumsum(0) / torch.arange(1, losses.shape[1] + 1)
    return (mean_until[late] - mean_until[early]).to(losses.dtype)


def in_context_learning_score__wrong_sixth_sum_over_the_batch(losses, early, late):
    """Sums the differences over the batch and does not divide by B."""
    total = losses.new_zeros(())
    for text in losses:
        total = total + text[late] - text[early]
    return total


def in_context_learning_score__wrong_sixth_positions_from_one(losses, early, late):
    """Counts positions from 1 and so reads the columns late - 1 and early - 1."""
    by_position = losses.mean(dim=0)
    return by_position[late - 1] - by_position[early - 1]


def in_context_learning_score__wrong_sixth_sorts_the_two(losses, early, late):
    """Reads "in any order" as leave to sort: always subtracts the smaller position from the larger one."""
    first, second = sorted((early, late))
    return (losses[:, second] - losses[:, first]).mean()


def in_context_learning_score__wrong_sixth_per_token(losses, early, late):
    """Divides by the number of tokens between, a slope in nats per token."""
    change = losses[:, late].mean() - losses[:, early].mean()
    steps = late - early
    return change / steps if steps else change


def in_context_learning_score__wrong_sixth_loss_of_the_mean_probability(losses, early, late):
    """Averages the probabilities exp(-loss) over the batch and takes -ln of the mean, not the mean loss."""
    nats = -(torch.logsumexp(-losses, dim=0) - math.log(losses.shape[0]))
    return nats[late] - nats[early]


def in_context_learning_score__right_sixth_stacked_pairs(losses, early, late):
    """index_select of both columns, a mean over the texts, then diff of the pair."""
    pair = losses.index_select(1, torch.tensor([early, late]))
    return pair.mean(dim=0).diff()[0]


# 8.9 build_induction_circuit


def build_induction_circuit__wrong_sixth_no_slope(vocab_size, n_ctx):
    """Scores a match alone, without a slope: position 0 and older copies get as much as the latest match."""
    V, n = vocab_size, n_ctx
    d = 3 * V + n
    tok, note, out, pos = slice(0, V), slice(V, 2 * V), slice(2 * V, 3 * V), slice(3 * V, d)
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n, d), torch.zeros(d, V)
    W_E[:, tok] = torch.eye(V)
    W_pos[:, pos] = torch.eye(n)
    W_U[out] = torch.eye(V)
    first = {"W_Q": torch.zeros(d, n), "W_K": torch.zeros(d, n), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][pos] = 40 * math.sqrt(n) * torch.diag(torch.ones(n - 1), -1)
    first["W_K"][pos] = torch.eye(n)
    first["W_V"][tok] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)
    second = {"W_Q": torch.zeros(d, V), "W_K": torch.zeros(d, V), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    second["W_Q"][tok] = 40 * math.sqrt(V) * torch.eye(V)
    second["W_K"][note] = torch.eye(V)
    second["W_V"][tok] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_sixth_forgets_the_root(vocab_size, n_ctx):
    """Sets all scores without the factor sqrt(d_head) that the model divides by, so the heads are blurred."""
    V, n = vocab_size, n_ctx
    d = 3 * V + n + 2
    one, slope = d - 2, d - 1
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n, d), torch.zeros(d, V)
    for t in range(V):
        W_E[t, t] = 1
        W_U[2 * V + t, t] = 1
    W_E[:, one] = 1
    for i in range(n):
        W_pos[i, 3 * V + i] = 1
        W_pos[i, slope] = i
    names = ("W_Q", "W_K")
    first = {name: torch.zeros(d, n) for name in names} | {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    for i in range(n):
        if i > 0:
            first["W_Q"][3 * V + i, i - 1] = 10.0
        first["W_K"][3 * V + i, i] = 1
    second = {name: torch.zeros(d, V + 1) for name in names} | {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    for t in range(V):
        first["W_V"][t, t] = first["W_O"][t, V + t] = 1
        second["W_Q"][t, t] = 6.0 * n + 20.0
        second["W_K"][V + t, t] = 1
        second["W_V"][t, t] = second["W_O"][t, 2 * V + t] = 1
    second["W_Q"][one, V] = 6.0
    second["W_K"][slope, V] = 1
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_sixth_slope_beats_match(vocab_size, n_ctx):
    """Gives a match a fixed score of 40, whatever n_ctx, so over a long distance the slope outweighs it."""
    V, n = vocab_size, n_ctx
    d = 3 * V + n + 2
    eye = torch.eye(d)
    tok, note, out = eye[:, :V], eye[:, V : 2 * V], eye[:, 2 * V : 3 * V]
    pos, one, line = eye[:, 3 * V : 3 * V + n], eye[:, -2:-1], eye[:, -1:]
    number = torch.arange(n).float()[:, None]
    back = torch.eye(n).roll(-1, 1)
    back[0] = 0
    root_1, root_2 = n**0.5, (V + 1) ** 0.5
    first = {"W_Q": 50 * root_1 * pos @ back, "W_K": pos.clone(), "W_V": tok.clone(), "W_O": note.T.clone()}
    second = {
        "W_Q": root_2 * torch.cat([40 * tok, 8 * one], 1),
        "W_K": torch.cat([note, line], 1),
        "W_V": tok.clone(),
        "W_O": out.T.clone(),
    }
    W_E = tok.T + one.T
    return {"W_E": W_E, "W_pos": pos.T + number * line.T, "W_U": out.clone(), "blocks": [first, second]}


def build_induction_circuit__wrong_sixth_copies_the_note(vocab_size, n_ctx):
    """The second head fetches the note of the place found, not its token, and so names the current token."""
    V, n = vocab_size, n_ctx
    d = 3 * V + n + 2
    T, N, O, P = range(V), range(V, 2 * V), range(2 * V, 3 * V), range(3 * V, 3 * V + n)

    def link(rows, columns, shape, size=1.0):
        W = torch.zeros(shape)
        W[list(rows), list(columns)] = size
        return W

    W_E = link(T, T, (V, d))
    W_pos = link(range(n), P, (n, d))
    W_pos[:, d - 2] = 1
    W_pos[:, d - 1] = torch.arange(n).float()
    W_U = link(O, T, (d, V))
    first = {
        "W_Q": link(P[1:], range(n - 1), (d, n), 60 * math.sqrt(n)),
        "W_K": link(P, range(n), (d, n)),
        "W_V": link(T, T, (d, V)),
        "W_O": link(T, N, (V, d)),
    }
    root = math.sqrt(V + 1)
    second = {
        "W_Q": link(T, T, (d, V + 1), root * (8 * n + 30)) + link([d - 2], [V], (d, V + 1), root * 8),
        "W_K": link(N, T, (d, V + 1)) + link([d - 1], [V], (d, V + 1)),
        "W_V": link(N, T, (d, V)),
        "W_O": link(T, O, (V, d)),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_sixth_note_on_the_query_side(vocab_size, n_ctx):
    """Queries read the note and keys the token, so the head looks for the token before, not for who follows."""
    V, n = vocab_size, n_ctx
    width = 3 * V + n + 2
    w = {"W_E": torch.zeros(V, width), "W_pos": torch.zeros(n, width), "W_U": torch.zeros(width, V)}
    w["W_E"][:, :V] = torch.eye(V)
    w["W_pos"][:, 3 * V : 3 * V + n] = torch.eye(n)
    w["W_pos"][:, -2] = 1
    w["W_pos"][:, -1] = torch.arange(n)
    w["W_U"][2 * V : 3 * V] = torch.eye(V)
    blocks = []
    for head_width in (n, V + 1):
        block = {"W_Q": torch.zeros(width, head_width), "W_K": torch.zeros(width, head_width)}
        block["W_V"], block["W_O"] = torch.zeros(width, V), torch.zeros(V, width)
        block["W_V"][:V] = torch.eye(V)
        blocks.append(block)
    prev, ind = blocks
    prev["W_Q"][3 * V : 3 * V + n] = torch.eye(n, n).roll(-1, dims=1) * 50 * n**0.5
    prev["W_Q"][3 * V] = 0
    prev["W_K"][3 * V : 3 * V + n] = torch.eye(n)
    prev["W_O"][:, V : 2 * V] = torch.eye(V)
    ind["W_Q"][V : 2 * V, :V] = torch.eye(V) * (8 * n + 30) * (V + 1) ** 0.5
    ind["W_Q"][-2, V] = 8 * (V + 1) ** 0.5
    ind["W_K"][:V, :V] = torch.eye(V)
    ind["W_K"][-1, V] = 1
    ind["W_O"][:, 2 * V : 3 * V] = torch.eye(V)
    return w | {"blocks": blocks}


def build_induction_circuit__wrong_sixth_note_of_the_own_token(vocab_size, n_ctx):
    """The first head's query of position i meets the key of position i, so each note names its own token."""
    V, n = vocab_size, n_ctx
    d = 3 * V + n + 2
    E = torch.eye(d)
    token, note, answer, place = E[:V], E[V : 2 * V], E[2 * V : 3 * V], E[3 * V : 3 * V + n]
    const, ramp = E[d - 2], E[d - 1]
    W_E = token + const
    W_pos = place + torch.arange(n, dtype=torch.float32)[:, None] * ramp
    first = {"W_Q": place.T * 40 * math.sqrt(n), "W_K": place.T.clone(), "W_V": token.T.clone(), "W_O": note.clone()}
    Q = torch.hstack([token.T * (8.0 * n + 30), 8.0 * const[:, None]]) * math.sqrt(V + 1)
    K = torch.hstack([note.T, ramp[:, None]])
    second = {"W_Q": Q, "W_K": K, "W_V": token.T.clone(), "W_O": answer.clone()}
    return dict(W_E=W_E, W_pos=W_pos, W_U=answer.T.clone(), blocks=[first, second])


def build_induction_circuit__wrong_sixth_slope_falls(vocab_size, n_ctx):
    """The slope has the wrong sign: early keys score more, so the oldest match wins, position 0 included."""
    V, n = vocab_size, n_ctx
    d_model = 3 * V + n + 2
    one, ramp = 3 * V + n, 3 * V + n + 1
    W_E = torch.hstack([torch.eye(V), torch.zeros(V, d_model - V)])
    W_pos = torch.hstack([torch.zeros(n, 3 * V), torch.eye(n), torch.ones(n, 1), torch.arange(n).float().neg()[:, None]])
    W_U = torch.vstack([torch.zeros(2 * V, V), torch.eye(V), torch.zeros(n + 2, V)])
    W_V = torch.vstack([torch.eye(V), torch.zeros(d_model - V, V)])
    Q1, K1 = torch.zeros(d_model, n), torch.zeros(d_model, n)
    for i in range(n):
        K1[3 * V + i, i] = 1.0
    for i in range(1, n):
        Q1[3 * V + i, i - 1] = 45.0 * math.sqrt(n)
    O1 = torch.zeros(V, d_model)
    O1[:, V : 2 * V] = torch.eye(V)
    Q2, K2 = torch.zeros(d_model, V + 1), torch.zeros(d_model, V + 1)
    Q2[:V, :V] = torch.eye(V) * (8 * n + 40) * math.sqrt(V + 1)
    Q2[one, V] = 8 * math.sqrt(V + 1)
    K2[V : 2 * V, :V] = torch.eye(V)
    K2[ramp, V] = 1.0
    O2 = O1.roll(V, dims=1)
    blocks = [
        {"W_Q": Q1, "W_K": K1, "W_V": W_V, "W_O": O1},
        {"W_Q": Q2, "W_K": K2, "W_V": W_V.clone(), "W_O": O2},
    ]
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_sixth_note_into_the_token_field(vocab_size, n_ctx):
    """The first head writes the note into the columns of the token itself, so the two are mixed up."""
    V, n = vocab_size, n_ctx
    d = 2 * V + n + 2
    tok, out, pos = slice(0, V), slice(V, 2 * V), slice(2 * V, 2 * V + n)
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n, d), torch.zeros(d, V)
    W_E[:, tok] = torch.eye(V)
    W_pos[:, pos] = torch.eye(n)
    W_pos[:, d - 2], W_pos[:, d - 1] = 1.0, torch.arange(n).float()
    W_U[out] = torch.eye(V)
    first = {"W_Q": torch.zeros(d, n), "W_K": torch.zeros(d, n), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][pos, :-1] = torch.eye(n)[:, 1:] * 40 * math.sqrt(n)
    first["W_K"][pos] = torch.eye(n)
    first["W_V"][tok] = torch.eye(V)
    first["W_O"][:, tok] = torch.eye(V)
    h = V + 1
    second = {"W_Q": torch.zeros(d, h), "W_K": torch.zeros(d, h), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    second["W_Q"][tok, :V] = torch.eye(V) * (8 * n + 30) * math.sqrt(h)
    second["W_Q"][d - 2, V] = 8 * math.sqrt(h)
    second["W_K"][tok, :V] = torch.eye(V)
    second["W_K"][d - 1, V] = 1
    second["W_V"][tok] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_sixth_binary_codes(vocab_size, n_ctx):
    """Codes tokens and positions as +1/-1 bits; position rows hold the code of i, that of i - 1, 1 and i."""

    def code(numbers, bits):
        return ((numbers[:, None] >> torch.arange(bits)) & 1).float() * 2 - 1

    a = max(1, (vocab_size - 1).bit_length())
    b = max(1, (n_ctx - 1).bit_length())
    widths = (a, a, a, b, b, 1, 1)  # token, note, answer, place, place before, one, slope
    fields = torch.eye(sum(widths)).split(list(widths))
    token, note, answer, place, before, one, ramp = fields
    bits = code(torch.arange(vocab_size), a)
    i = torch.arange(n_ctx)
    W_pos = code(i, b) @ place + code((i - 1).clamp(min=0), b) @ before + one + i.float()[:, None] @ ramp
    first = {
        "W_Q": before.T * 30 * math.sqrt(b),
        "W_K": place.T.clone(),
        "W_V": token.T.clone(),
        "W_O": note.clone(),
    }
    root = math.sqrt(a + 1)
    match = 4.0 * n_ctx + 20  # two bits of difference are the least: a lead of 8 n_ctx + 40
    second = {
        "W_Q": torch.cat([match * token, 8 * one]).T * root,
        "W_K": torch.cat([note, ramp]).T.clone(),
        "W_V": token.T.clone(),
        "W_O": answer.clone(),
    }
    return {"W_E": bits @ token, "W_pos": W_pos, "W_U": answer.T @ bits.T, "blocks": [first, second]}


def build_induction_circuit__right_sixth_answer_over_the_token(vocab_size, n_ctx):
    """One-hot fields for token, note and place; the answer goes into the token field, three times as large."""
    V, n = vocab_size, n_ctx
    d = 2 * V + n
    eye_v, eye_n = torch.eye(V), torch.eye(n)
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n, d), torch.zeros(d, V)
    W_E[:, :V], W_pos[:, 2 * V :], W_U[:V] = eye_v, eye_n, eye_v
    first = {"W_Q": torch.zeros(d, n), "W_K": torch.zeros(d, n), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_K"][2 * V :] = eye_n
    for i in range(n):
        first["W_Q"][2 * V + i, max(i - 1, 0)] = 40 * math.sqrt(n)
    first["W_V"][:V] = eye_v
    first["W_O"][:, V : 2 * V] = eye_v
    h = V + 1
    second = {"W_Q": torch.zeros(d, h), "W_K": torch.zeros(d, h), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    second["W_Q"][:V, :V] = eye_v * math.sqrt(h) * (7 * n + 30)
    second["W_Q"][2 * V :, V] = 7 * math.sqrt(h)  # every place says 1 here
    second["W_K"][V : 2 * V, :V] = eye_v
    second["W_K"][2 * V :, V] = torch.arange(n).float()
    second["W_V"][:V] = eye_v
    second["W_O"][:, :V] = 3 * eye_v
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# 8.10 find_heads


def find_heads__wrong_sixth_threshold_one_half(patterns, tokens):
    """Counts every head with a mean weight above 0.5, whatever evenly spread attention gets on this text."""
    layers, heads, n, _ = patterns.shape
    previous_place = torch.ones(n, n).tril(-1).triu(-1).bool()
    follow_place = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(1, i + 1):
            follow_place[i, j] = bool(tokens[j - 1] == tokens[i])
    result = []
    for places in (previous_place, follow_place):
        rows = places.any(dim=1)
        pairs = []
        if rows.any():
            score = (patterns * places).sum(-1)[..., rows].mean(-1)
            pairs = [(a, b) for a in range(layers) for b in range(heads) if score[a, b] > 0.5]
        result.append(pairs)
    return tuple(result)


def find_heads__wrong_sixth_chance_from_the_kinds(patterns, tokens):
    """Takes one over the number of different tokens (and 1/n for the token before) as chance for the middle."""
    n = len(tokens)
    i = torch.arange(n)
    before = i[:, None] == i[None, :] + 1
    shifted = torch.cat([torch.full((1,), -1, dtype=tokens.dtype), tokens[:-1]])
    follows = ((tokens[:, None] == shifted[None, :]) & (i > 0)).tril()

    def search(places, chance):
        rows = places.any(-1)
        if not rows.any():
            return []
        score = (patterns * places).sum(-1)[..., rows].mean(-1)
        return [tuple(pair) for pair in (score > (1 + chance) / 2).nonzero().tolist()]

    return search(before, 1 / n), search(follows, 1 / len(tokens.unique()))


def find_heads__wrong_sixth_latest_match_only(patterns, tokens):
    """Counts only what followed the latest earlier occurrence; weight on older ones is lost."""
    text = tokens.tolist()
    latest, where = {}, {}
    for i, token in enumerate(text):
        if token in latest:
            where[i] = latest[token] + 1
        latest[token] = i
    found = []
    for places in ({i: i - 1 for i in range(1, len(text))}, where):
        pairs = []
        for layer in range(patterns.shape[0]):
            for head in range(patterns.shape[1]):
                if places:
                    score = sum(float(patterns[layer, head, i, j]) for i, j in places.items()) / len(places)
                    even = sum(1 / (i + 1) for i in places) / len(places)
                    if score > (1 + even) / 2:
                        pairs.append((layer, head))
        found.append(pairs)
    return found[0], found[1]


def find_heads__wrong_sixth_never_at_itself(patterns, tokens):
    """Leaves out the diagonal: what followed must lie before the query, so twins find nothing."""
    n = tokens.shape[0]
    place = torch.arange(n)
    same = tokens[:, None] == tokens
    follows = torch.zeros(n, n, dtype=torch.bool)
    follows[:, 1:] = same[:, :-1]
    follows = follows & (place[None, :] < place[:, None])
    previous = place[:, None] - place[None, :] == 1
    answer = []
    for wanted in (previous, follows):
        rows = wanted.any(dim=1).nonzero()[:, 0]
        if len(rows) == 0:
            answer.append([])
            continue
        score = patterns[:, :, rows].mul(wanted[rows]).sum(-1).mean(-1)
        even = (wanted[rows].sum(-1) / (rows + 1)).mean()
        answer.append([(int(a), int(b)) for a, b in (score > 0.5 + even / 2).nonzero()])
    return tuple(answer)


def find_heads__wrong_sixth_rows_without_a_match_count(patterns, tokens):
    """Divides the found weight by all n rows, so positions with nothing to find count as misses."""
    n = len(tokens)
    uniform = torch.ones(n, n, dtype=patterns.dtype).tril() / torch.arange(1, n + 1)[:, None]
    kinds = torch.zeros(2, n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(i + 1):
            kinds[0, i, j] = j == i - 1
            kinds[1, i, j] = j > 0 and tokens[j - 1] == tokens[i]
    lists = ()
    for kind in kinds:
        rows = kind.any(-1)
        if not rows.any():
            lists += ([],)
            continue
        score = (patterns * kind).sum((-1, -2)) / n
        even = (uniform * kind).sum() / rows.sum()
        hits = ((score - even).abs() > (1 - score).abs()).nonzero()
        lists += ([tuple(hit) for hit in hits.tolist()],)
    return lists


def find_heads__wrong_sixth_single_largest_weight(patterns, tokens):
    """Takes the largest single weight on a match in each row, not the sum over all matches."""
    L, H, n = patterns.shape[:3]
    text = tokens.tolist()
    previous = {i: [i - 1] for i in range(1, n)}
    follows = {i: [j for j in range(1, i + 1) if text[j - 1] == text[i]] for i in range(n)}

    def members(places):
        places = {i: js for i, js in places.items() if js}
        if not places:
            return []
        even = sum(len(js) / (i + 1) for i, js in places.items()) / len(places)
        chosen = []
        for a in range(L):
            for b in range(H):
                best = [patterns[a, b, i, js].max() for i, js in places.items()]
                if sum(best) / len(best) > (1 + even) / 2:
                    chosen.append((a, b))
        return chosen

    return members(previous), members(follows)


def find_heads__wrong_sixth_roll_wraps_around(patterns, tokens):
    """Finds the token before with tokens.roll(1), so position 0 seems to follow the last token of the text."""
    n = tokens.numel()
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    before = torch.eye(n, dtype=torch.bool).roll(1, dims=0) & causal.tril(-1)
    follows = (tokens[:, None] == tokens.roll(1)[None, :]) & causal

    def heads_of(target):
        rows = target.any(dim=1)
        if not bool(rows.any()):
            return []
        share = (patterns * target).sum(dim=-1)[:, :, rows].mean(dim=-1)
        even = (target.sum(dim=1) / causal.sum(dim=1))[rows].mean()
        return [tuple(x) for x in torch.nonzero(share > (1 + even) / 2).tolist()]

    return heads_of(before), heads_of(follows)


def find_heads__wrong_sixth_rows_that_come_back_later(patterns, tokens):
    """Picks the rows whose token stands anywhere else in the text, so first occurrences count as misses."""
    n = len(tokens)
    follows = torch.zeros(n, n, dtype=torch.bool)
    follows[:, 1:] = tokens[:, None] == tokens[None, :-1]
    follows = follows.tril()
    often = (tokens[:, None] == tokens[None, :]).sum(dim=1) > 1
    previous = torch.diag(torch.ones(max(n - 1, 0), dtype=torch.bool), -1)
    both = []
    for places, rows in ((previous, torch.arange(n) > 0), (follows, often)):
        if not rows.any():
            both.append([])
            continue
        found = torch.einsum("lhij,ij->lhi", patterns, places.to(patterns.dtype))[:, :, rows].mean(-1)
        seen = torch.arange(1, n + 1)
        chance = (places.sum(1) / seen)[rows].mean()
        both.append([(a, b) for a, b in (found > (1 + chance) / 2).nonzero().tolist()])
    return both[0], both[1]


def find_heads__right_sixth_places_as_lists(patterns, tokens):
    """Lists the places of each row in plain Python and compares both distances, to 1 and to even attention."""
    text = tokens.tolist()
    n = len(text)
    before = [(i, [i - 1]) for i in range(1, n)]
    after = [(i, [j + 1 for j in range(i) if text[j] == text[i]]) for i in range(n)]
    after = [(i, js) for i, js in after if js]
    lists = []
    for places in (before, after):
        chosen = []
        for layer, heads in enumerate(patterns.tolist()):
            for head, A in enumerate(heads):
                if not places:
                    continue
                got = sum(A[i][j] for i, js in places for j in js) / len(places)
                even = sum(len(js) / (i + 1) for i, js in places) / len(places)
                if 1 - got < got - even:
                    chosen.append((layer, head))
        lists.append(chosen)
    return lists[0], lists[1]


def find_heads__right_sixth_gain_over_an_even_head(patterns, tokens):
    """Adds an evenly spread head as one more layer and measures every head's gain over it, in one einsum."""
    L, H, n, _ = patterns.shape
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=1, keepdim=True)
    everyone = torch.cat([patterns.flatten(0, 1), even[None]])
    shift = torch.diag(torch.ones(n - 1, dtype=patterns.dtype), 1)  # moves column j to j + 1
    same = (tokens[:, None] == tokens[None, :]).to(patterns.dtype).tril(-1)
    targets = torch.stack([shift.T, same @ shift])
    rows = targets.amax(dim=-1)  # 1 where there is something to find
    hit = torch.einsum("hij,kij->kh", everyone, targets)
    count = rows.sum(dim=-1, keepdim=True)
    gain = hit[:, :-1] - hit[:, -1:]
    good = (gain > (count - hit[:, -1:]) / 2) & (count > 0)
    return tuple([(h // H, h % H) for h in kind.nonzero()[:, 0].tolist()] for kind in good)


# 8.11 ablate_path


def ablate_path__wrong_sixth_query_and_key_mixed_up(tokens, weights, into):
    """Hides the note from the keys for "query" and from the queries for "key"."""
    n = tokens.shape[1]
    one, two = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    A1 = _causal_softmax(start @ one["W_Q"] @ (start @ one["W_K"]).mT / one["W_Q"].shape[1] ** 0.5)
    full = start + A1 @ start @ one["W_V"] @ one["W_O"]
    left = start if into == "key" else full
    right = start if into == "query" else full
    values = start if into == "value" else full
    A2 = _causal_softmax(left @ two["W_Q"] @ (right @ two["W_K"]).mT / two["W_Q"].shape[1] ** 0.5)
    return (full + A2 @ values @ two["W_V"] @ two["W_O"]) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_sixth_reader_gets_zeros(tokens, weights, into):
    """Makes the blind reader's vectors zero altogether, so it loses the embedding as well as the note."""
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        Q, K, V = x @ block["W_Q"], x @ block["W_K"], x @ block["W_V"]
        if layer == 1:
            Q = Q * (into != "query")
            K = K * (into != "key")
            V = V * (into != "value")
        A = _causal_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
        patterns.append(A)
        x = x + A @ V @ block["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__wrong_sixth_logits_lose_the_note(tokens, weights, into):
    """Adds the second layer's output to the embedding stream, so the logits are blind to the note too."""
    embedded = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    first, second = weights["blocks"]

    def pattern(q, k, block):
        scores = torch.einsum("bid,bjd->bij", q @ block["W_Q"], k @ block["W_K"])
        return _causal_softmax(scores / math.sqrt(block["W_K"].shape[1]))

    A = pattern(embedded, embedded, first)
    noted = embedded + A @ (embedded @ first["W_V"]) @ first["W_O"]
    source = {reader: embedded if reader == into else noted for reader in ("query", "key", "value")}
    B = pattern(source["query"], source["key"], second)
    stream = embedded + B @ (source["value"] @ second["W_V"]) @ second["W_O"]
    return stream @ weights["W_U"], [A, B]


def ablate_path__wrong_sixth_reader_gets_the_note_alone(tokens, weights, into):
    """Turns the cut round: the blind reader gets only what the first layer wrote, without the embedding."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    x0 = F.embedding(tokens, weights["W_E"]) + weights["W_pos"][:n]
    A0 = _causal_softmax((x0 @ first["W_Q"]) @ (x0 @ first["W_K"]).mT / math.sqrt(first["W_Q"].shape[1]))
    note = A0 @ x0 @ first["W_V"] @ first["W_O"]
    x1 = x0 + note
    q, k, v = (note if into == name else x1 for name in ("query", "key", "value"))
    A1 = _causal_softmax((q @ second["W_Q"]) @ (k @ second["W_K"]).mT / math.sqrt(second["W_Q"].shape[1]))
    x2 = x1 + A1 @ v @ second["W_V"] @ second["W_O"]
    return x2 @ weights["W_U"], (A0, A1)


def ablate_path__wrong_sixth_blind_reader_loses_the_position(tokens, weights, into):
    """Gives the blind reader the token embedding alone and forgets W_pos in it."""
    n = tokens.shape[1]
    words = weights["W_E"][tokens]
    x = words + weights["W_pos"][:n]
    patterns = []
    for number, block in enumerate(weights["blocks"]):
        reads = {"query": x, "key": x, "value": x}
        if number == 1:
            reads[into] = words
        scores = (reads["query"] @ block["W_Q"]) @ (reads["key"] @ block["W_K"]).transpose(1, 2)
        patterns.append(_causal_softmax(scores / block["W_Q"].shape[1] ** 0.5))
        x = x + patterns[-1] @ (reads["value"] @ block["W_V"]) @ block["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__wrong_sixth_whole_pattern_blind(tokens, weights, into):
    """Computes the second pattern from the blind stream for "query" and "key" alike: both sides are cut."""
    n = tokens.shape[1]
    layer_1, layer_2 = weights["blocks"]
    base = weights["W_E"][tokens] + weights["W_pos"][:n]

    def attention(stream, block):
        return _causal_softmax(
            (stream @ block["W_Q"]) @ (stream @ block["W_K"]).mT / math.sqrt(block["W_Q"].shape[1])
        )

    A1 = attention(base, layer_1)
    rest = base + A1 @ base @ layer_1["W_V"] @ layer_1["W_O"]
    A2 = attention(base if into in ("query", "key") else rest, layer_2)
    fetched = base if into == "value" else rest
    return (rest + A2 @ fetched @ layer_2["W_V"] @ layer_2["W_O"]) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_sixth_scale_of_the_first_layer(tokens, weights, into):
    """Takes d_head once, from the first layer, and divides the second layer's scores by its root as well."""
    n = tokens.shape[1]
    scale = math.sqrt(weights["blocks"][0]["W_Q"].shape[1])
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    x, patterns = start, []
    for layer, block in enumerate(weights["blocks"]):
        xq = start if layer and into == "query" else x
        xk = start if layer and into == "key" else x
        xv = start if layer and into == "value" else x
        A = _causal_softmax((xq @ block["W_Q"]) @ (xk @ block["W_K"]).mT / scale)
        patterns.append(A)
        x = x + A @ xv @ block["W_V"] @ block["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__wrong_sixth_weights_changed(tokens, weights, into):
    """Divides by sqrt(d_head) by overwriting second["W_Q"] in the dict that was handed in, and so changes the weights."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    A = _causal_softmax((x @ first["W_Q"]) @ (x @ first["W_K"]).mT / math.sqrt(first["W_Q"].shape[1]))
    y = x + A @ x @ first["W_V"] @ first["W_O"]
    q, k, v = y, y, y
    if into == "query":
        q = x
    elif into == "key":
        k = x
    else:
        v = x
    root = math.sqrt(second["W_Q"].shape[1])
    second["W_Q"] = second["W_Q"] / root
    B = _causal_softmax((q @ second["W_Q"]) @ (k @ second["W_K"]).mT)
    return (y + B @ v @ second["W_V"] @ second["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__right_sixth_note_in_columns_of_its_own(tokens, weights, into):
    """Keeps the note beside the start in a stream twice as wide; the blind reader has zeros on that half."""
    n, d = tokens.shape[1], weights["W_E"].shape[1]
    first, second = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    A1 = _causal_softmax((start @ first["W_Q"]) @ (start @ first["W_K"]).mT / math.sqrt(first["W_Q"].shape[1]))
    wide = torch.cat([start, A1 @ start @ first["W_V"] @ first["W_O"]], dim=-1)
    double = {}
    for reader, name in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")):
        W = second[name]
        double[reader] = wide @ torch.cat([W, torch.zeros_like(W) if reader == into else W])
    scores = double["query"] @ double["key"].mT / math.sqrt(second["W_Q"].shape[1])
    A2 = _causal_softmax(scores)
    stream = wide[..., :d] + wide[..., d:] + A2 @ double["value"] @ second["W_O"]
    return stream @ weights["W_U"], [A1, A2]


def ablate_path__right_sixth_text_by_text_row_by_row(tokens, weights, into):
    """Goes through texts and positions in loops, with a softmax over the keys seen so far only."""
    all_logits, all_patterns = [], ([], [])
    for text in tokens:
        start = weights["W_E"][text] + weights["W_pos"][: len(text)]
        x = start
        for layer, block in enumerate(weights["blocks"]):
            seen = {r: start if layer == 1 and r == into else x for r in ("query", "key", "value")}
            queries, keys = seen["query"] @ block["W_Q"], seen["key"] @ block["W_K"]
            rows = []
            for i in range(len(text)):
                row = (keys[: i + 1] @ queries[i] / math.sqrt(block["W_Q"].shape[1])).softmax(dim=0)
                rows.append(F.pad(row, (0, len(text) - 1 - i)))
            A = torch.stack(rows)
            all_patterns[layer].append(A)
            x = x + A @ (seen["value"] @ block["W_V"]) @ block["W_O"]
        all_logits.append(x @ weights["W_U"])
    return torch.stack(all_logits), [torch.stack(patterns) for patterns in all_patterns]
