"""Answers to the exercises of unit 8, wrong ones and right ones, as students would write them."""

import math

import torch
import torch.nn.functional as F


def _run_attention_only(tokens, weights):
    """The model of the notebook: (logits, patterns)."""
    n = tokens.shape[1]
    may_attend = torch.ones(n, n, dtype=torch.bool).tril()
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    patterns = []
    for block in weights["blocks"]:
        scores = (x @ block["W_Q"]) @ (x @ block["W_K"]).mT / math.sqrt(block["W_Q"].shape[1])
        A = scores.masked_fill(~may_attend, -torch.inf).softmax(dim=-1)
        x = x + A @ x @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def _causal_softmax(scores):
    """Softmax over the keys that a causal head may see."""
    n = scores.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)


# ------- 8.1 repeated_sequences


def repeated_sequences__wrong_twelfth_every_token_held(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Repeats every token on the spot, a a b b c c, and not the block, a b c a b c."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat_interleave(repeats, dim=1)


def repeated_sequences__wrong_twelfth_no_token_twice(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws blocks of distinct tokens by shuffling the vocabulary, where the tokens should be independent."""
    shuffled = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    block = shuffled[:, :period]
    return torch.cat([block for _ in range(repeats)], dim=1)


def repeated_sequences__wrong_twelfth_one_block_for_all(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws a single block and gives it to all rows, where each row should have a block of its own."""
    text = torch.randint(vocab_size, (period,), generator=generator)
    row = text.repeat(repeats)
    return row.expand(batch, period * repeats).clone()


def repeated_sequences__wrong_twelfth_stacked_in_front(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Stacks the copies along a new first axis before the reshape, so that rows receive the blocks of other rows."""
    first_pass = torch.randint(vocab_size, (batch, period), generator=generator)
    passes = torch.stack([first_pass] * repeats, dim=0)  # (repeats, batch, period)
    return passes.reshape(batch, repeats * period)


def repeated_sequences__wrong_twelfth_ids_from_one(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws ids from 1 to vocab_size in place of 0 to vocab_size - 1."""
    low, high = 1, vocab_size + 1
    ids = torch.randint(low, high, (batch, period), generator=generator)
    where = torch.arange(period * repeats) % period
    return ids[:, where]


def repeated_sequences__wrong_twelfth_repeats_come_on_top(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Reads `repeats` as the number of further copies, so that the block stands there once more than asked."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    text = block
    for _ in range(repeats):
        text = torch.hstack((text, block))
    return text


def repeated_sequences__wrong_twelfth_always_heard_again(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Is right from two copies on, but returns two copies also for repeats = 1."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    pieces = [block, block]
    pieces += [block] * (repeats - 2)
    return torch.cat(pieces, dim=-1)


def repeated_sequences__wrong_twelfth_rewinds(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Sets the generator back to its seed before it draws, so that every call gives the same tokens."""
    generator.manual_seed(generator.initial_seed())
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.tile(block, (1, repeats))


def repeated_sequences__right_twelfth_kronecker(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Repeats the block as a Kronecker product with a row of ones."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.kron(torch.ones(1, repeats, dtype=torch.int64), block)


# ------- 8.2 previous_token_score


def previous_token_score__wrong_twelfth_counts_winners(weights: torch.Tensor) -> torch.Tensor:
    """Returns the share of positions whose largest weight is on the previous token, and not the mean weight."""
    n = weights.shape[-1]
    if n == 1:
        return weights[..., 0, 0] * 0
    favourite = weights[..., 1:, :].argmax(dim=-1)
    hits = favourite == torch.arange(n - 1)
    return hits.to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_twelfth_everything_before(weights: torch.Tensor) -> torch.Tensor:
    """Sums the weight on all earlier tokens, and not on the one directly before."""
    n = weights.shape[-1]
    looking_back = weights.tril(diagonal=-1).sum(dim=-1)  # (..., n)
    return looking_back.sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_twelfth_looked_at_by(weights: torch.Tensor) -> torch.Tensor:
    """Takes rows for keys and columns for queries, and so averages the weights from i - 1 to i."""
    n = weights.size(-1)
    total = torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    for query in range(1, n):
        key = query - 1
        total = total + weights[..., key, query]
    return total / (n - 1) if n > 1 else 0 * weights.sum(dim=(-1, -2))


def previous_token_score__wrong_twelfth_mean_of_n(weights: torch.Tensor) -> torch.Tensor:
    """Divides the sum by n, though position 0 has no previous token and does not count."""
    n = weights.shape[-1]
    shifted_eye = torch.eye(n, dtype=weights.dtype).roll(1, dims=0).tril()
    shifted_eye[0, 0] = 0
    return torch.einsum("...ij,ij->...i", weights, shifted_eye).mean(dim=-1)


def previous_token_score__wrong_twelfth_first_two_axes(weights: torch.Tensor) -> torch.Tensor:
    """Takes the diagonal of the first two axes, which is that of the pattern for a single pattern only."""
    n = weights.shape[-1]
    if n < 2:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    return torch.diagonal(weights, offset=-1).mean(dim=-1)


def previous_token_score__wrong_twelfth_made_causal(weights: torch.Tensor) -> torch.Tensor:
    """Masks the keys after the query and rescales the rows, which changes the score of a pattern that is not causal."""
    visible = torch.tril(weights)
    rows = visible.sum(dim=-1, keepdim=True)
    visible = visible / torch.where(rows > 0, rows, torch.ones_like(rows))
    n = weights.shape[-1]
    line = visible.diagonal(offset=-1, dim1=-2, dim2=-1)
    return line.sum(-1) / max(1, n - 1)


def previous_token_score__wrong_twelfth_lonely_token(weights: torch.Tensor) -> torch.Tensor:
    """Returns for n = 1 one zero of float32, whatever the leading axes and the dtype are."""
    n = weights.shape[-1]
    if n == 1:
        return torch.tensor(0.0)
    i = torch.arange(1, n)
    return weights[..., i, i - 1].mean(dim=-1)


def previous_token_score__wrong_twelfth_by_plain_numbers(weights: torch.Tensor) -> torch.Tensor:
    """Goes through plain Python numbers, so that no gradient reaches the weights."""
    *leading, n, _ = weights.shape
    results = []
    for pattern in weights.reshape(-1, n, n).tolist():
        line = [pattern[i][i - 1] for i in range(1, n)]
        results.append(sum(line) / len(line) if line else 0.0)
    return torch.tensor(results, dtype=weights.dtype).reshape(leading)


def previous_token_score__right_twelfth_every_nth_entry(weights: torch.Tensor) -> torch.Tensor:
    """Lays each pattern out in one row and takes every (n + 1)-th entry from the n-th on."""
    n = weights.shape[-1]
    flat = weights.flatten(start_dim=-2)
    return flat[..., n :: n + 1].sum(dim=-1) / max(n - 1, 1)


# ------- 8.3 prefix_matching_score


def prefix_matching_score__wrong_twelfth_the_same_word(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Looks one period back, where the same token stands, and not at the token that followed it."""
    n = weights.shape[-1]
    if n <= period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    found = torch.diagonal(weights, offset=-period, dim1=-2, dim2=-1)
    return found.mean(dim=-1)


def prefix_matching_score__wrong_twelfth_any_time_before(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Adds the weight on what followed in all earlier blocks, where only one period ago counts."""
    n = weights.shape[-1]
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    follows = (i >= period) & (j >= 1) & (j <= i) & ((i - j + 1) % period == 0)
    total = (weights * follows).sum(dim=(-2, -1))
    return total / max(n - period, 1)


def prefix_matching_score__wrong_twelfth_second_block_only(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Averages over the second block alone and leaves out all later repeats."""
    n = weights.shape[-1]
    first, end = period, min(2 * period, n)
    entries = [weights[..., row, row - period + 1] for row in range(first, end)]
    if not entries:
        return weights.new_zeros(weights.shape[:-2])
    return torch.stack(entries, dim=-1).mean(dim=-1)


def prefix_matching_score__wrong_twelfth_whole_diagonal(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Averages the whole diagonal and so counts row period - 1, where nothing has been repeated yet."""
    n = weights.shape[-1]
    line = weights.diagonal(offset=1 - period, dim1=-2, dim2=-1)
    return line.mean(dim=-1) if n > period else line.sum(dim=-1) * 0


def prefix_matching_score__wrong_twelfth_stops_early(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Leaves out the last position, as if its prediction could not be checked."""
    n = weights.shape[-1]
    score = torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    count = 0
    i = period
    while i < n - 1:
        score = score + weights[..., i, i - (period - 1)]
        count += 1
        i += 1
    return score / count if count else score


def prefix_matching_score__wrong_twelfth_columns_ask(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Takes the columns for the queries and the rows for the keys."""
    n = weights.shape[-1]
    queries = torch.arange(period, max(n, period))
    keys = queries - (period - 1)
    by_query = weights.transpose(-1, -2)[..., queries, :]
    picked = by_query.gather(-1, keys[:, None].expand(*by_query.shape[:-1], 1)).squeeze(-1)
    return picked.sum(dim=-1) / max(len(queries), 1)


def prefix_matching_score__wrong_twelfth_full_blocks(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Cuts the text after its last whole block, so it is wrong where n is no multiple of the period."""
    blocks = weights.shape[-1] // period
    n = blocks * period
    if blocks < 2:
        return 0 * weights.sum(dim=(-2, -1))
    line = weights[..., :n, :n].diagonal(-(period - 1), -2, -1)  # starts in row period - 1
    return line[..., 1:].mean(dim=-1)


def prefix_matching_score__wrong_twelfth_mean_anyway(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Takes the mean of nothing where n <= period, so that NaN comes out in place of 0."""
    rows = torch.arange(weights.shape[-1])
    rows = rows[rows >= period]
    return weights[..., rows, rows - (period - 1)].mean(dim=-1)


def prefix_matching_score__right_twelfth_corner_trace(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Takes the trace of the corner from row `period` and column 1 on, whose main diagonal is the one that counts."""
    n = weights.shape[-1]
    size = max(n - period, 0)
    corner = weights[..., n - size :, 1 : 1 + size]
    return torch.einsum("...ii->...", corner) / max(size, 1)


# ------- 8.4 ov_circuit


def ov_circuit__wrong_twelfth_with_the_stream(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds the way of the embedding past the head, where only the head's contribution is asked for."""
    stream = W_E
    stream = stream + W_E @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_twelfth_reads_with_the_embedding(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Reads the logits with the transposed embedding in place of the unembedding."""
    W_OV = W_V @ W_O
    moved = W_E @ W_OV
    return torch.einsum("td,ud->tu", moved, W_E)


def ov_circuit__wrong_twelfth_against_even_attention(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Subtracts what even attention to all tokens would add, and so returns a difference, not the effect itself."""
    values = W_E @ W_V
    typical = values.mean(dim=0, keepdim=True)
    return (values - typical) @ W_O @ W_U


def ov_circuit__wrong_twelfth_one_column_per_token(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Puts the effect of each token into a column, so that the result is transposed."""
    effects = []
    for embedding in W_E:
        value = embedding @ W_V
        written = value @ W_O
        effects.append(written @ W_U)
    return torch.stack(effects, dim=1)


def ov_circuit__wrong_twelfth_ranks_from_one(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Leaves out the first of the d_v rank-one parts of the sum, since its loop begins at 1."""
    reads = W_E @ W_V  # (vocab, d_v)
    writes = W_O @ W_U  # (d_v, vocab)
    total = torch.zeros_like(W_E @ W_U)
    for k in range(1, W_V.shape[1]):
        total = total + torch.outer(reads[:, k], writes[k])
    return total


def ov_circuit__wrong_twelfth_as_probabilities(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Returns the softmax of each row, probabilities where plain additions to the logits are asked for."""
    logits = torch.linalg.multi_dot([W_E, W_V, W_O, W_U])
    shifted = (logits - logits.amax(dim=1, keepdim=True)).exp()
    return shifted / shifted.sum(dim=1, keepdim=True)


def ov_circuit__wrong_twelfth_squeezed(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Squeezes the result, so that a vocabulary of one token gives a number and not a (1, 1) matrix."""
    vocab = W_E.shape[0]
    one_hot = torch.eye(vocab, dtype=W_E.dtype)[:, None, :]  # (vocab, 1, vocab)
    return (one_hot @ W_E @ W_V @ W_O @ W_U).squeeze()


def ov_circuit__wrong_twelfth_default_table(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Fills a table of the default dtype, so that float64 weights give a float32 result."""
    vocab = W_E.shape[0]
    table = torch.zeros(vocab, vocab)
    head_to_logits = W_O @ W_U
    for t in range(vocab):
        table[t] = (W_E[t] @ W_V) @ head_to_logits
    return table


def ov_circuit__right_twelfth_both_ends_first(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Works from both ends to the middle and sums over the head's width by broadcasting."""
    fetched = W_E @ W_V  # (vocab, d_v)
    said = (W_O @ W_U).T  # (vocab, d_v)
    return (fetched.unsqueeze(1) * said.unsqueeze(0)).sum(dim=2)


# ------- 8.5 copying_score


def copying_score__wrong_twelfth_own_logit_rises(ov: torch.Tensor) -> torch.Tensor:
    """Counts the tokens whose own logit rises, without a comparison with the other logits of the row."""
    own = torch.diagonal(ov)
    return (own > 0).to(ov.dtype).mean()


def copying_score__wrong_twelfth_own_probability(ov: torch.Tensor) -> torch.Tensor:
    """Averages the probability that each row gives to its own token, which is no share of rows."""
    vocab = ov.shape[0]
    p = F.softmax(ov, dim=-1)
    return sum(p[t, t] for t in range(vocab)) / vocab


def copying_score__wrong_twelfth_eigenvalues(ov: torch.Tensor) -> torch.Tensor:
    """Computes the measure of Elhage et al., the sum of the eigenvalues over that of their sizes."""
    eigenvalues = torch.linalg.eigvals(ov)
    sizes = eigenvalues.abs().sum()
    if sizes == 0:
        return torch.zeros((), dtype=ov.dtype)
    return eigenvalues.real.sum() / sizes


def copying_score__wrong_twelfth_best_of_column(ov: torch.Tensor) -> torch.Tensor:
    """Seeks the largest entry of each column in place of each row."""
    best = ov.argmax(dim=0)
    return torch.eq(best, torch.arange(len(ov))).to(ov.dtype).mean()


def copying_score__wrong_twelfth_by_size(ov: torch.Tensor) -> torch.Tensor:
    """Compares absolute values, so that a strongly negative entry can win or beat the diagonal."""
    copied = 0
    strength = ov.abs()
    for t, row in enumerate(strength):
        if row.max() == row[t]:
            copied += 1
    return torch.tensor(copied / len(ov), dtype=ov.dtype)


def copying_score__wrong_twelfth_tokens_that_win_somewhere(ov: torch.Tensor) -> torch.Tensor:
    """Returns the share of tokens that are the largest logit of any row, be it their own or not."""
    winners = {int(row.argmax()) for row in ov}
    return torch.tensor(len(winners) / ov.shape[0], dtype=ov.dtype)


def copying_score__wrong_twelfth_blanked_diagonal(ov: torch.Tensor) -> torch.Tensor:
    """Puts 0 on the diagonal to find the largest other entry, so that a negative diagonal entry can never win."""
    eye = torch.eye(len(ov), dtype=ov.dtype)
    rivals = (ov * (1 - eye)).max(dim=1).values
    own = (ov * eye).sum(dim=1)
    return (own > rivals).to(ov.dtype).mean()


def copying_score__wrong_twelfth_diagonal_struck_out(ov: torch.Tensor) -> torch.Tensor:
    """Writes -inf over the diagonal of the matrix that it is handed, and so changes its input."""
    own = ov.diagonal().clone()
    rivals = ov.fill_diagonal_(-torch.inf).amax(dim=1)
    return (own > rivals).to(ov.dtype).mean()


def copying_score__right_twelfth_rank_one(ov: torch.Tensor) -> torch.Tensor:
    """Counts in each row the entries that reach the diagonal one, and asks that it be a single one, itself."""
    reach = ov >= ov.diagonal().unsqueeze(1)
    rank = reach.sum(dim=1)
    return torch.count_nonzero(rank == 1).to(ov.dtype) / ov.shape[0]


# ------- 8.6 composition_score


def composition_score__wrong_twelfth_angle_of_the_matrices(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Computes the cosine between the two matrices as long vectors, and not the size of their product."""
    reads, writes = W_QK.flatten(), W_OV.flatten()
    sizes = reads.norm() * writes.norm()
    if sizes == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return (reads @ writes).abs() / sizes


def composition_score__wrong_twelfth_note_for_the_query(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Measures Q-composition, W_OV W_QK, where the note enters on the query side."""
    composed = W_OV @ W_QK
    numerator = torch.linalg.matrix_norm(composed)
    denominator = torch.linalg.matrix_norm(W_OV) * torch.linalg.matrix_norm(W_QK)
    return numerator / denominator if denominator > 0 else torch.zeros_like(numerator)


def composition_score__wrong_twelfth_times_chance(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Divides the score by that of random circuits, 1/sqrt(d_model), so that it can exceed 1."""

    def frobenius(M):
        return M.square().sum().sqrt()

    a, b = frobenius(W_QK), frobenius(W_OV)
    if a == 0 or b == 0:
        return a * b
    score = frobenius(W_QK @ W_OV.T) / (a * b)
    chance = W_QK.shape[0] ** -0.5
    return score / chance


def composition_score__wrong_twelfth_inner_index(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Sums over the row of W_OV, the direction that is read, since the transpose is missing."""
    product = torch.einsum("qk,kw->qw", W_QK, W_OV)
    top, left, right = (torch.sqrt(torch.sum(M * M)) for M in (product, W_QK, W_OV))
    bottom = left * right
    return torch.where(bottom == 0, torch.zeros_like(top), top / torch.where(bottom == 0, 1, bottom))


def composition_score__wrong_twelfth_sums_of_squares(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Forgets the roots of the norms, and so returns the square of the score."""
    through_the_note = W_QK @ W_OV.mT
    parts = [M.pow(2).sum() for M in (through_the_note, W_QK, W_OV)]
    if not (parts[1] and parts[2]):
        return 0 * parts[0]
    return parts[0] / (parts[1] * parts[2])


def composition_score__wrong_twelfth_stretch(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes the spectral norm, the largest singular value, in place of the Frobenius norm."""
    if not W_QK.any() or not W_OV.any():
        return W_QK.new_tensor(0.0)
    stretch = [torch.linalg.svdvals(M)[0] for M in (W_QK @ W_OV.T, W_QK, W_OV)]
    return stretch[0] / (stretch[1] * stretch[2])


def composition_score__wrong_twelfth_later_head_only(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Asks only whether W_QK is zero, so that a zero W_OV gives NaN."""
    size_QK = torch.norm(W_QK)
    if size_QK == 0:
        return torch.zeros_like(size_QK)
    W_QK = W_QK / size_QK
    return torch.norm(W_QK @ W_OV.T) / torch.norm(W_OV)


def composition_score__wrong_twelfth_constant_sizes(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Detaches the denominator, so that the score is right and its gradients are not."""
    norm = torch.linalg.matrix_norm
    scale = (norm(W_QK) * norm(W_OV)).detach()
    if scale == 0:
        return (W_QK @ W_OV.T).sum() * 0
    return norm(W_QK @ W_OV.T) / scale


def composition_score__right_twelfth_unit_vectors(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Normalises both matrices as vectors, where a zero one stays zero, and multiplies them by F.linear."""
    tiny = torch.finfo(W_QK.dtype).tiny
    later, earlier = (F.normalize(M.flatten(), dim=0, eps=tiny).view_as(M) for M in (W_QK, W_OV))
    return torch.linalg.vector_norm(F.linear(later, earlier))


# ------- 8.7 ablate_head


def ablate_head__wrong_twelfth_others_made_up_for(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Scales the other heads up by h / (h - 1), as dropout does, where they should stay as they were."""
    h = head_outputs.shape[1]
    keep = torch.ones(h, dtype=head_outputs.dtype)
    keep[head] = 0
    keep = keep * h / max(h - 1, 1)
    return head_outputs * keep.view(1, h, 1, 1)


def ablate_head__wrong_twelfth_the_usual_instead(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Puts in the head's mean over batch and positions in place of zeros."""
    result = head_outputs.clone()
    typical = head_outputs[:, head].mean(dim=(0, 1))  # (d_model,)
    result[:, head] = typical
    return result


def ablate_head__wrong_twelfth_alone_on_stage(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Keeps the one head and sets all the others to zero."""
    alone = torch.zeros_like(head_outputs)
    alone[:, head] = head_outputs[:, head]
    return alone


def ablate_head__wrong_twelfth_one_place_silent(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes the axis of the positions for that of the heads, and raises if there are fewer positions than heads."""
    B, h, n, d_model = head_outputs.shape
    mask = torch.ones(n, dtype=torch.bool)
    mask[head] = False
    return torch.where(mask[:, None], head_outputs, torch.zeros((), dtype=head_outputs.dtype))


def ablate_head__wrong_twelfth_neighbour(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Counts the heads from 1, so that the head before is set to zero, and the last one for head 0."""
    pieces = list(head_outputs.unbind(dim=1))
    pieces[head - 1] = torch.zeros_like(pieces[head - 1])
    return torch.stack(pieces, dim=1)


def ablate_head__wrong_twelfth_into_the_stream(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Returns what the remaining heads add to the stream together, (B, n, d_model), in place of one row per head."""
    everybody = head_outputs.sum(dim=1)
    return everybody - head_outputs[:, head]


def ablate_head__wrong_twelfth_counted_from_behind(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Slices the heads after it with a negative start, which for the last head is 0 and takes all of them."""
    h = head_outputs.shape[1]
    before = head_outputs[:, :head]
    blank = torch.zeros_like(head_outputs[:, :1])
    after = head_outputs[:, head + 1 - h :]
    return torch.cat((before, blank, after), dim=1)


def ablate_head__wrong_twelfth_in_the_original(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Writes the zeros into its input."""
    one = head_outputs.select(1, head)
    one.zero_()
    return head_outputs


def ablate_head__right_twelfth_select_scatter(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Has `torch.select_scatter` put a slice of zeros into a copy."""
    slice_of_zeros = head_outputs.new_zeros(()).expand(head_outputs.select(1, head).shape)
    return torch.select_scatter(head_outputs, slice_of_zeros, dim=1, index=head)


# ------- 8.8 in_context_learning_score


def in_context_learning_score__wrong_twelfth_up_to_and_from(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Averages over all positions up to `early` and all from `late` on, where only these two count."""
    beginning = losses[:, : early + 1].mean()
    end = losses[:, late:].mean()
    return end - beginning


def in_context_learning_score__wrong_twelfth_perplexities(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Turns the mean losses into perplexities before it subtracts them."""
    mean_loss = losses.mean(dim=0)
    perplexity = mean_loss.exp()
    return perplexity[late] - perplexity[early]


def in_context_learning_score__wrong_twelfth_how_many_learn(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Returns the share of texts whose loss falls, and not by how much it changes."""
    fallen = [float(row[late] < row[early]) for row in losses]
    return torch.tensor(sum(fallen) / len(fallen), dtype=losses.dtype)


def in_context_learning_score__wrong_twelfth_gain(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Subtracts the late loss from the early one, so that learning gives a positive number."""
    before, after = losses[:, early].mean(), losses[:, late].mean()
    return before - after


def in_context_learning_score__wrong_twelfth_two_texts(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Takes positions along the axis of the texts, and raises if there are too few texts."""
    return torch.mean(losses[late] - losses[early])


def in_context_learning_score__wrong_twelfth_one_per_text(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Returns a difference for each text, (B,), and not their mean."""
    columns = losses.T
    return columns[late] - columns[early]


def in_context_learning_score__wrong_twelfth_put_in_order(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Exchanges the positions if `early` is the larger one, and so has the wrong sign there."""
    first, last = sorted((early, late))
    batch = losses.shape[0]
    return losses[:, last].sum() / batch - losses[:, first].sum() / batch


def in_context_learning_score__wrong_twelfth_in_the_table(losses: torch.Tensor, early: int, late: int) -> torch.Tensor:
    """Subtracts in the column of its input, which is changed by that."""
    change = losses[:, late]
    change -= losses[:, early].clone()
    return change.mean()


def in_context_learning_score__right_twelfth_two_columns_diff(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Selects the two columns in this order and lets `torch.diff` subtract their means."""
    pair = losses.index_select(1, torch.tensor([early, late], device=losses.device))
    return torch.diff(pair.mean(dim=0)).squeeze(0)


# ------- 8.9 build_induction_circuit


def build_induction_circuit__wrong_twelfth_asks_for_itself(vocab_size: int, n_ctx: int) -> dict:
    """Compares the token with the tokens and not with the notes, so that the second layer finds the same token."""
    V, n = vocab_size, n_ctx
    d_model = 3 * V + n
    tok, pos = slice(0, V), slice(V, V + n)
    note, out = slice(V + n, 2 * V + n), slice(2 * V + n, 3 * V + n)

    W_E, W_pos, W_U = torch.zeros(V, d_model), torch.zeros(n, d_model), torch.zeros(d_model, V)
    W_E[:, tok], W_pos[:, pos], W_U[out] = torch.eye(V), torch.eye(n), torch.eye(V)

    first = {"W_Q": torch.zeros(d_model, n), "W_K": torch.zeros(d_model, n)}
    first |= {"W_V": torch.zeros(d_model, V), "W_O": torch.zeros(V, d_model)}
    first["W_Q"][pos] = 40 * math.sqrt(n) * torch.diag(torch.ones(n - 1), -1)
    first["W_K"][pos] = torch.eye(n)
    first["W_V"][tok] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)

    slope = 12.0
    second = {"W_Q": torch.zeros(d_model, V + 1), "W_K": torch.zeros(d_model, V + 1)}
    second |= {"W_V": torch.zeros(d_model, V), "W_O": torch.zeros(V, d_model)}
    second["W_Q"][tok, :V] = slope * (n + 3) * math.sqrt(V + 1) * torch.eye(V)
    second["W_Q"][tok, V] = slope * math.sqrt(V + 1)
    second["W_K"][tok, :V] = torch.eye(V)
    second["W_K"][pos, V] = torch.arange(n).float()
    second["W_V"][tok] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_twelfth_all_matches_alike(vocab_size: int, n_ctx: int) -> dict:
    """Gives all matching notes the same score, so that position 0 with its false note shares the weight."""
    token_start = 0
    place_start = vocab_size
    note_start = vocab_size + n_ctx
    answer_start = 2 * vocab_size + n_ctx
    width = 3 * vocab_size + n_ctx

    W_E = torch.zeros(vocab_size, width)
    W_U = torch.zeros(width, vocab_size)
    for t in range(vocab_size):
        W_E[t, token_start + t] = 1.0
        W_U[answer_start + t, t] = 1.0
    W_pos = torch.zeros(n_ctx, width)
    for i in range(n_ctx):
        W_pos[i, place_start + i] = 1.0

    previous = {
        "W_Q": torch.zeros(width, n_ctx),
        "W_K": torch.zeros(width, n_ctx),
        "W_V": torch.zeros(width, vocab_size),
        "W_O": torch.zeros(vocab_size, width),
    }
    for i in range(n_ctx):
        previous["W_K"][place_start + i, i] = 1.0
        if i > 0:
            previous["W_Q"][place_start + i, i - 1] = 50.0 * n_ctx**0.5
    induction = {
        "W_Q": torch.zeros(width, vocab_size),
        "W_K": torch.zeros(width, vocab_size),
        "W_V": torch.zeros(width, vocab_size),
        "W_O": torch.zeros(vocab_size, width),
    }
    for t in range(vocab_size):
        previous["W_V"][token_start + t, t] = 1.0
        previous["W_O"][t, note_start + t] = 1.0
        induction["W_Q"][token_start + t, t] = 50.0 * vocab_size**0.5
        induction["W_K"][note_start + t, t] = 1.0
        induction["W_V"][token_start + t, t] = 1.0
        induction["W_O"][t, answer_start + t] = 1.0
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [previous, induction]}


def build_induction_circuit__wrong_twelfth_reads_out_the_note(vocab_size: int, n_ctx: int) -> dict:
    """Finds the right position but copies the note from there, so that the model names the current token."""
    sizes = {"token": vocab_size, "place": n_ctx, "after": vocab_size, "say": vocab_size}
    where, width = {}, 0
    for name, size in sizes.items():
        where[name] = range(width, width + size)
        width += size

    def at(field, block, columns=None):
        """A (width, columns) matrix of zeros with a block in the rows of a field."""
        M = torch.zeros(width, block.shape[1] if columns is None else columns)
        M[where[field][0] : where[field][-1] + 1, : block.shape[1]] = block
        return M

    eye, places = torch.eye(vocab_size), torch.eye(n_ctx)
    step = 15.0
    root = math.sqrt(vocab_size + 1)
    match = step * (n_ctx + 4) * root
    W_Q2 = at("token", torch.cat([match * eye, step * root * torch.ones(vocab_size, 1)], dim=1))
    W_K2 = at("after", eye, vocab_size + 1)
    W_K2[list(where["place"]), vocab_size] = torch.arange(float(n_ctx))
    back = torch.zeros(n_ctx, n_ctx)
    back[1:, :-1] = 40 * math.sqrt(n_ctx) * torch.eye(n_ctx - 1)
    return {
        "W_E": at("token", eye).T.contiguous(),
        "W_pos": at("place", places).T.contiguous(),
        "W_U": at("say", eye),
        "blocks": [
            {"W_Q": at("place", back), "W_K": at("place", places), "W_V": at("token", eye), "W_O": at("after", eye).T},
            {"W_Q": W_Q2, "W_K": W_K2, "W_V": at("after", eye), "W_O": at("say", eye).T},
        ],
    }


def build_induction_circuit__wrong_twelfth_fields_touch(vocab_size: int, n_ctx: int) -> dict:
    """Begins the field of the notes one column too early, on the column of the last position."""
    V, n = vocab_size, n_ctx
    TOKEN, POSITION = 0, V
    NOTE = POSITION + n - 1
    ANSWER = NOTE + V
    d_model = ANSWER + V

    def put(rows, columns, *entries):
        M = torch.zeros(rows, columns)
        for row, column, block in entries:
            M[row : row + block.shape[0], column : column + block.shape[1]] = block
        return M

    token_eye, place_eye = torch.eye(V), torch.eye(n)
    numbers = torch.arange(n, dtype=torch.float32)[:, None]
    sure, slope = 30 * n**0.5, 10 * (V + 1) ** 0.5
    first = dict(
        W_Q=put(d_model, n, (POSITION + 1, 0, sure * torch.eye(n - 1))),
        W_K=put(d_model, n, (POSITION, 0, place_eye)),
        W_V=put(d_model, V, (TOKEN, 0, token_eye)),
        W_O=put(V, d_model, (0, NOTE, token_eye)),
    )
    second = dict(
        W_Q=put(d_model, V + 1, (TOKEN, 0, slope * (n + 2) * token_eye), (TOKEN, V, slope * torch.ones(V, 1))),
        W_K=put(d_model, V + 1, (POSITION, V, numbers), (NOTE, 0, token_eye)),
        W_V=put(d_model, V, (TOKEN, 0, token_eye)),
        W_O=put(V, d_model, (0, ANSWER, token_eye)),
    )
    return dict(
        W_E=put(V, d_model, (0, TOKEN, token_eye)),
        W_pos=put(n, d_model, (0, POSITION, place_eye)),
        W_U=put(d_model, V, (ANSWER, 0, token_eye)),
        blocks=[first, second],
    )


def build_induction_circuit__wrong_twelfth_steep(vocab_size: int, n_ctx: int) -> dict:
    """Gives a match a fixed lead of 60, which a slope of 8 for each position outweighs when the period is long."""
    V, N = vocab_size, n_ctx
    zeros = torch.zeros
    I, J = torch.eye(V), torch.eye(N)
    # columns of the stream: token (V) | place (N) | note (V) | answer (V)
    W_E = torch.cat([I, zeros(V, N), zeros(V, V), zeros(V, V)], dim=1)
    W_pos = torch.cat([zeros(N, V), J, zeros(N, V), zeros(N, V)], dim=1)
    W_U = torch.cat([zeros(V, V), zeros(N, V), zeros(V, V), I])
    one_back = torch.diag(torch.full((N - 1,), 45.0), diagonal=-1) * N**0.5
    block_1 = {
        "W_Q": torch.cat([zeros(V, N), one_back, zeros(2 * V, N)]),
        "W_K": torch.cat([zeros(V, N), J, zeros(2 * V, N)]),
        "W_V": torch.cat([I, zeros(N + 2 * V, V)]),
        "W_O": torch.cat([zeros(V, V + N), I, zeros(V, V)], dim=1),
    }
    lead, slope = 60.0, 8.0
    scale = (V + 1) ** 0.5
    asks = torch.cat([lead * scale * I, torch.full((V, 1), slope * scale)], dim=1)
    place = torch.cat([zeros(N, V), torch.arange(N).float().unsqueeze(1)], dim=1)
    notes = torch.cat([I, zeros(V, 1)], dim=1)
    block_2 = {
        "W_Q": torch.cat([asks, zeros(N + 2 * V, V + 1)]),
        "W_K": torch.cat([zeros(V, V + 1), place, notes, zeros(V, V + 1)]),
        "W_V": torch.cat([I, zeros(N + 2 * V, V)]),
        "W_O": torch.cat([zeros(V, 2 * V + N), I], dim=1),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [block_1, block_2]}


def build_induction_circuit__wrong_twelfth_double_precision(vocab_size: int, n_ctx: int) -> dict:
    """Returns float64 weights, where float32 is asked for."""
    kind = {"dtype": torch.float64}
    d = 2 * vocab_size + n_ctx
    tokens = torch.arange(vocab_size)
    places = torch.arange(n_ctx)
    p0, m0 = vocab_size, vocab_size + n_ctx

    def empty(*shape):
        return torch.zeros(*shape, **kind)

    weights = {"W_E": empty(vocab_size, d), "W_pos": empty(n_ctx, d), "W_U": empty(d, vocab_size), "blocks": []}
    weights["W_E"][tokens, tokens] = 1
    weights["W_pos"][places, p0 + places] = 1
    weights["W_U"][tokens, tokens] = 1
    for d_head in (n_ctx, vocab_size + 1):
        shapes = {"W_Q": (d, d_head), "W_K": (d, d_head), "W_V": (d, vocab_size), "W_O": (vocab_size, d)}
        weights["blocks"].append({name: empty(*shape) for name, shape in shapes.items()})
    looks_back, looks_up = weights["blocks"]
    looks_back["W_Q"][p0 + places[1:], places[:-1]] = 40 * math.sqrt(n_ctx)
    looks_back["W_K"][p0 + places, places] = 1
    looks_back["W_V"][tokens, tokens] = 1
    looks_back["W_O"][tokens, m0 + tokens] = 1
    looks_up["W_Q"][tokens, tokens] = 10 * (n_ctx + 2) * math.sqrt(vocab_size + 1)
    looks_up["W_Q"][tokens, vocab_size] = 10 * math.sqrt(vocab_size + 1)
    looks_up["W_K"][m0 + tokens, tokens] = 1
    looks_up["W_K"][p0 + places, vocab_size] = places.to(**kind)
    looks_up["W_V"][tokens, tokens] = 1
    looks_up["W_O"][tokens, tokens] = 5
    return weights


def build_induction_circuit__wrong_twelfth_heard_twice(vocab_size: int, n_ctx: int) -> dict:
    """Keeps the head away from position 0 alone, so that from the third copy on earlier matches share the weight."""
    v, n = vocab_size, n_ctx
    d = v + n + v + v
    E, P, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    E[:, :v].fill_diagonal_(1)
    P[:, v : v + n].fill_diagonal_(1)
    W_U[-v:].fill_diagonal_(1)

    def head(width):
        return {k: torch.zeros(d, w) for k, w in (("W_Q", width), ("W_K", width), ("W_V", v))}

    one, two = head(n), head(v + 1)
    one["W_Q"][v + 1 : v + n, : n - 1].fill_diagonal_(40 * n**0.5)
    one["W_K"][v : v + n].fill_diagonal_(1)
    one["W_V"][:v].fill_diagonal_(1)
    one["W_O"] = torch.zeros(v, d)
    one["W_O"][:, v + n : v + n + v].fill_diagonal_(1)

    two["W_Q"][:v].fill_diagonal_(40 * (v + 1) ** 0.5)
    two["W_Q"][:v, v] = 30 * (v + 1) ** 0.5
    two["W_K"][v + n : v + n + v].fill_diagonal_(1)
    two["W_K"][v, v] = -1
    two["W_V"][:v].fill_diagonal_(1)
    two["W_O"] = torch.zeros(v, d)
    two["W_O"][:, -v:].fill_diagonal_(1)
    return {"W_E": E, "W_pos": P, "W_U": W_U, "blocks": [one, two]}


def build_induction_circuit__wrong_twelfth_random_codes(vocab_size: int, n_ctx: int) -> dict:
    """Draws the token's directions with PyTorch's global generator, where randomness is not allowed."""
    codes = torch.linalg.qr(torch.randn(vocab_size, vocab_size)).Q
    d = 3 * vocab_size + n_ctx
    token, place, note, answer = torch.eye(d).split([vocab_size, n_ctx, vocab_size, vocab_size])
    one = torch.zeros(d, 1)  # reads 1 from any place
    one[vocab_size : vocab_size + n_ctx] = 1.0
    number = place.T @ torch.arange(n_ctx, dtype=torch.float32)[:, None]
    one_back = torch.cat([torch.zeros(1, n_ctx), torch.eye(n_ctx)[:-1]])
    slope = 12.0 * (vocab_size + 1) ** 0.5
    first = {
        "W_Q": 40 * n_ctx**0.5 * place.T @ one_back,
        "W_K": place.T.clone(),
        "W_V": token.T.clone(),
        "W_O": note.clone(),
    }
    second = {
        "W_Q": torch.cat([slope * (n_ctx + 3) * token.T, slope * one], dim=1),
        "W_K": torch.cat([note.T, number], dim=1),
        "W_V": token.T.clone(),
        "W_O": answer.clone(),
    }
    return {"W_E": codes @ token, "W_pos": place.clone(), "W_U": answer.T @ codes.T, "blocks": [first, second]}


def build_induction_circuit__right_twelfth_positions_as_numbers(vocab_size: int, n_ctx: int) -> dict:
    """Holds a position as the numbers 1, i and i², so that -(i - 1 - j)² is a product, and copies into the token."""
    V, d = vocab_size, 3 + 2 * vocab_size
    eye = torch.eye(V)
    i = torch.arange(n_ctx, dtype=torch.float32)
    W_pos = torch.zeros(n_ctx, d)
    W_pos[:, :3] = torch.stack([torch.ones(n_ctx), i, i * i], dim=1)
    W_E = torch.zeros(V, d)
    W_E[:, 3 : 3 + V] = eye
    W_U = W_E.T.clone()

    def reads_token():
        return torch.cat([torch.zeros(3, V), eye, torch.zeros(V, V)])

    first = {"W_Q": torch.zeros(d, 2), "W_K": torch.zeros(d, 2), "W_V": reads_token()}
    first["W_Q"][:2] = 40 * math.sqrt(2) * torch.tensor([[-2.0, -1.0], [2.0, 0.0]])  # 2 (i - 1), -1
    first["W_K"][1, 0] = first["W_K"][2, 1] = 1.0  # j, j²
    first["W_O"] = torch.cat([torch.zeros(V, 3 + V), eye], dim=1)

    slope = 12 * math.sqrt(V + 1)
    second = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1), "W_V": reads_token()}
    second["W_Q"][3 : 3 + V, :V] = slope * (n_ctx + 2) * eye
    second["W_Q"][0, V] = slope
    second["W_K"][3 + V :, :V] = eye
    second["W_K"][1, V] = 1.0
    second["W_O"] = 3 * W_E
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# ------- 8.10 find_heads


def find_heads__wrong_twelfth_more_than_half(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Names every head with more than half of its weight on such places, whatever even attention would give there."""
    layers, heads, n, _ = patterns.shape
    wanted = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(1, i + 1):
            wanted[i, j] = tokens[j - 1] == tokens[i]
    rows = wanted.any(dim=1)
    previous, induction = [], []
    for layer in range(layers):
        for head in range(heads):
            A = patterns[layer, head]
            if n > 1 and A.diagonal(-1).mean() > 0.5:
                previous.append((layer, head))
            if rows.any() and (A * wanted).sum(dim=1)[rows].mean() > 0.5:
                induction.append((layer, head))
    return previous, induction


def find_heads__wrong_twelfth_the_best_one(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Names at most one head of each kind, the best, though a model may have several."""
    n = len(tokens)
    heads = patterns.shape[1]
    before = torch.eye(n, dtype=torch.bool).roll(1, dims=0).tril(-1)
    after = F.pad((tokens[:, None] == tokens).tril(-1), (1, 0))[:, :n]
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=-1, keepdim=True)

    def best(places):
        rows = places.any(dim=1)
        if not rows.any():
            return []
        score = (patterns * places).sum(dim=-1)[..., rows].mean(dim=-1)
        middle = (1 + (even * places).sum(dim=-1)[rows].mean()) / 2
        top = int(score.argmax())
        return [divmod(top, heads)] if score.flatten()[top] > middle else []

    return best(before), best(after)


def find_heads__wrong_twelfth_last_time_only(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Counts only what followed the latest earlier occurrence, where any earlier one counts."""
    ids = tokens.tolist()
    n = len(ids)
    last_seen, after = {}, {}
    for i, token in enumerate(ids):
        if token in last_seen:
            after[i] = last_seen[token] + 1
        last_seen[token] = i
    before = {i: i - 1 for i in range(1, n)}
    found = ([], [])
    for pairs, places in zip(found, (before, after), strict=True):
        if not places:
            continue
        queries, keys = torch.tensor(list(places)), torch.tensor(list(places.values()))
        scores = patterns[:, :, queries, keys].mean(dim=-1)
        even = (1 / (queries + 1.0)).mean()
        pairs += [tuple(pair) for pair in (scores > (1 + even) / 2).nonzero().tolist()]
    return found


def find_heads__wrong_twelfth_seen_before(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Seeks heads that look at an earlier occurrence itself, one column to the left of what followed."""
    n = tokens.shape[0]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    maps = {"previous": j == i - 1, "induction": (tokens[i] == tokens[j]) & (j < i)}
    answer = []
    for places in maps.values():
        useful = places.any(dim=1)
        if not useful.any():
            answer.append([])
            continue
        weight = torch.einsum("lhij,ij->lhi", patterns, places.to(patterns.dtype))[..., useful].mean(dim=-1)
        chance = (places.sum(dim=1) / (i[:, 0] + 1))[useful].mean()
        near_one = (1 - weight).abs() < (weight - chance).abs()
        near_one &= weight > chance
        answer.append([(int(layer), int(head)) for layer, head in near_one.nonzero()])
    return tuple(answer)


def find_heads__wrong_twelfth_even_over_the_text(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Spreads the even attention over all n tokens, where row i of a causal head sees only i + 1."""
    L, H, n, _ = patterns.shape
    same = tokens.unsqueeze(1) == tokens.unsqueeze(0)
    follow = torch.zeros_like(same)
    follow[:, 1:] = same.tril(-1)[:, :-1]
    lists = []
    for target in (torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1), follow):
        rows = target.any(1).nonzero().flatten()
        chosen = []
        if len(rows):
            chance = target[rows].sum() / (n * len(rows))
            for layer in range(L):
                for head in range(H):
                    score = patterns[layer, head][target].sum() / len(rows)
                    if 1 - score < score - chance:
                        chosen.append((layer, head))
        lists.append(chosen)
    return lists[0], lists[1]


def find_heads__wrong_twelfth_head_then_layer(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Returns the pairs as (head, layer)."""
    n = len(tokens)
    visible = torch.arange(1, n + 1, dtype=patterns.dtype)
    earlier = (tokens[:, None] == tokens[None, :]).tril(-1).roll(1, dims=1)
    one_back = torch.ones(n, n).tril(-1).triu(-1).bool()

    def search(places):
        rows = places.any(dim=-1)
        pairs = []
        for layer, group in enumerate(patterns):
            for head, pattern in enumerate(group):
                hit = (pattern * places).sum(dim=-1)[rows]
                by_chance = (places.sum(dim=-1) / visible)[rows]
                if len(hit) and 2 * hit.mean() > 1 + by_chance.mean():
                    pairs.append((head, layer))
        return sorted(pairs)

    return search(one_back), search(earlier)


def find_heads__wrong_twelfth_never_itself(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Looks for what followed among the keys before the query only, and misses the second of two twins itself."""
    text = tokens.tolist()
    n = len(text)
    before = [[i - 1] if i else [] for i in range(n)]
    after = [[j for j in range(1, i) if text[j - 1] == text[i]] for i in range(n)]
    kinds = []
    for places in (before, after):
        rows = [i for i in range(n) if places[i]]
        pairs = []
        for layer in range(patterns.shape[0]):
            for head in range(patterns.shape[1]):
                weight = sum(float(patterns[layer, head, i, places[i]].sum()) for i in rows)
                even = sum(len(places[i]) / (i + 1) for i in rows)
                if rows and weight > (len(rows) + even) / 2:
                    pairs.append((layer, head))
        kinds.append(pairs)
    return tuple(kinds)


def find_heads__wrong_twelfth_clears_the_first_column(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Sets the first column of the patterns that it is handed to zero."""
    n = patterns.shape[-1]
    sees = torch.arange(1.0, n + 1, dtype=patterns.dtype)

    def nearer_to_one(score, even):
        return sorted((layer, head) for layer, head in (score > 0.5 * (1 + even)).nonzero().tolist())

    previous, induction = [], []
    if n > 1:
        line = patterns.diagonal(offset=-1, dim1=-2, dim2=-1)
        previous = nearer_to_one(line.mean(dim=-1), (1 / sees[1:]).mean())
    match = (tokens.view(-1, 1) == tokens.roll(1)).tril()  # key j against the token before it
    patterns[..., 0] = 0
    match[:, 0] = False
    rows = match.any(dim=1)
    if rows.any():
        weight = (patterns * match).sum(dim=-1)[..., rows].mean(dim=-1)
        induction = nearer_to_one(weight, (match.sum(dim=1) / sees)[rows].mean())
    return previous, induction


def find_heads__right_twelfth_even_head_among_them(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Scores an even head along with the others, and scales so that it gets 0 and a perfect one 1."""
    layers, heads, n, _ = patterns.shape
    even = patterns.new_ones(n, n).tril() / torch.arange(1, n + 1).to(patterns)[:, None]
    candidates = torch.cat([patterns.reshape(-1, n, n), even[None]]).double()
    places = torch.zeros(2, n, n, dtype=torch.float64)
    places[0] = torch.diag(torch.ones(n - 1), -1)
    places[1] = (tokens[:, None] == tokens[None, :]).tril(-1).double() @ torch.diag(torch.ones(n - 1), 1).double()
    counts = (places.sum(dim=-1) > 0).sum(dim=-1)  # rows with something to find
    hits = torch.einsum("cij,kij->kc", candidates, places)
    found = []
    for score, rows in zip(hits, counts.tolist(), strict=True):
        scaled = (score[:-1] - score[-1]) / (rows - score[-1]) if rows else torch.zeros(layers * heads)
        found.append([(k // heads, k % heads) for k, value in enumerate(scaled.tolist()) if value > 0.5])
    return tuple(found)


# ------- 8.11 ablate_path


def ablate_path__wrong_twelfth_reads_nothing(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Takes the whole stream from the blind reader, token and position included, and not only the note."""
    n = tokens.shape[1]
    one, two = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    first = _causal_softmax(x @ one["W_Q"] @ (x @ one["W_K"]).mT / one["W_Q"].shape[1] ** 0.5)
    x = x + first @ x @ one["W_V"] @ one["W_O"]
    Q, K, V = (x @ two[name] for name in ("W_Q", "W_K", "W_V"))
    if into == "query":
        Q = torch.zeros_like(Q)
    elif into == "key":
        K = torch.zeros_like(K)
    else:
        V = torch.zeros_like(V)
    second = _causal_softmax(Q @ K.mT / Q.shape[-1] ** 0.5)
    x = x + second @ V @ two["W_O"]
    return x @ weights["W_U"], [first, second]


def ablate_path__wrong_twelfth_note_never_reaches_the_end(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Adds the second layer's output to the stream without the note, so that the logits are blind as well."""
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]

    def pattern(block, query_side, key_side):
        scores = torch.einsum("bqd,bkd->bqk", query_side @ block["W_Q"], key_side @ block["W_K"])
        return _causal_softmax(scores / math.sqrt(block["W_Q"].shape[1]))

    first, second = weights["blocks"]
    A = pattern(first, start, start)
    with_note = start + A @ start @ first["W_V"] @ first["W_O"]
    reads = dict.fromkeys(("query", "key", "value"), with_note)
    reads[into] = start
    B = pattern(second, reads["query"], reads["key"])
    logits = (start + B @ reads["value"] @ second["W_V"] @ second["W_O"]) @ weights["W_U"]
    return logits, [A, B]


def ablate_path__wrong_twelfth_only_the_note(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Hides the embedding from the reader and leaves it the note, the opposite of what is asked."""
    n_tokens = tokens.size(1)
    embedded = weights["W_E"][tokens] + weights["W_pos"][:n_tokens]
    patterns, stream = [], embedded
    note = torch.zeros_like(embedded)
    for layer, block in enumerate(weights["blocks"]):
        sources = {"query": stream, "key": stream, "value": stream}
        if layer == 1:
            sources[into] = note
        q = sources["query"] @ block["W_Q"]
        k = sources["key"] @ block["W_K"]
        v = sources["value"] @ block["W_V"]
        A = _causal_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
        note = A @ v @ block["W_O"]
        stream = stream + note
        patterns.append(A)
    return stream @ weights["W_U"], patterns


def ablate_path__wrong_twelfth_asked_and_answering(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Exchanges the query and the key: each is cut where the other should be."""
    L1, L2 = weights["blocks"]
    base = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    s1 = (base @ L1["W_Q"]) @ (base @ L1["W_K"]).mT / math.sqrt(L1["W_K"].shape[-1])
    a1 = _causal_softmax(s1)
    full = base + (a1 @ (base @ L1["W_V"])) @ L1["W_O"]
    s2 = torch.einsum(
        "bid,dh,eh,bje->bij",
        base if into == "key" else full,
        L2["W_Q"],
        L2["W_K"],
        base if into == "query" else full,
    )
    a2 = _causal_softmax(s2 / math.sqrt(L2["W_K"].shape[-1]))
    values = (base if into == "value" else full) @ L2["W_V"]
    return (full + a2 @ values @ L2["W_O"]) @ weights["W_U"], [a1, a2]


def ablate_path__wrong_twelfth_mixed_by_the_first(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Mixes the values of the second layer with the pattern of the first."""

    def attend(block, q_from, k_from):
        q, k = q_from @ block["W_Q"], k_from @ block["W_K"]
        return _causal_softmax((q / math.sqrt(q.shape[-1])) @ k.mT)

    x0 = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    b0, b1 = weights["blocks"]
    A = attend(b0, x0, x0)
    x1 = x0 + A @ x0 @ b0["W_V"] @ b0["W_O"]
    if into == "query":
        A_next, v = attend(b1, x0, x1), x1
    elif into == "key":
        A_next, v = attend(b1, x1, x0), x1
    elif into == "value":
        A_next, v = attend(b1, x1, x1), x0
    else:
        raise ValueError(into)
    x2 = x1 + A @ v @ b1["W_V"] @ b1["W_O"]
    return x2 @ weights["W_U"], [A, A_next]


def ablate_path__wrong_twelfth_the_only_open_path(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Reads `into` as the one path that stays open, and cuts the two others."""
    first, second = weights["blocks"]
    plain = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    one_layer = weights | {"blocks": [first]}
    _, (A,) = _run_attention_only(tokens, one_layer)
    note = A @ plain @ first["W_V"] @ first["W_O"]
    Q, K, V = (
        (plain + note if into == name else plain) @ second[matrix]
        for name, matrix in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V"))
    )
    B = _causal_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return (plain + note + B @ V @ second["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__wrong_twelfth_one_width(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Divides the scores of both layers by the width of the first, which is wrong where the widths differ."""
    n = tokens.shape[1]
    blocks = weights["blocks"]
    root = blocks[0]["W_Q"].shape[1] ** 0.5
    hidden = torch.triu(torch.full((n, n), -torch.inf, dtype=weights["W_E"].dtype), diagonal=1)
    stream = [weights["W_E"][tokens] + weights["W_pos"][:n]]
    patterns = []
    for layer, block in enumerate(blocks):
        q_in, k_in, v_in = (stream[0] if layer and into == r else stream[-1] for r in ("query", "key", "value"))
        scores = q_in @ block["W_Q"] @ block["W_K"].T @ k_in.mT / root
        patterns.append(torch.softmax(scores + hidden, dim=-1))
        stream.append(stream[-1] + patterns[-1] @ v_in @ block["W_V"] @ block["W_O"])
    return stream[-1] @ weights["W_U"], patterns


def ablate_path__wrong_twelfth_frozen_copy(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Gives the blind reader a detached copy of the stream, so that gradients on its way are lost."""
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    saved = x.clone().detach()
    patterns = []
    for number, block in enumerate(weights["blocks"]):
        inputs = [x, x, x]
        if number == 1:
            inputs[("query", "key", "value").index(into)] = saved
        q, k, v = (source @ block[name] for source, name in zip(inputs, ("W_Q", "W_K", "W_V"), strict=True))
        pattern = _causal_softmax(q @ k.mT * q.shape[-1] ** -0.5)
        patterns.append(pattern)
        x = x + pattern @ v @ block["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__right_twelfth_twice_as_wide(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Keeps the note apart in a stream of twice the width, so that the cut is one in the weights of a common model."""
    first, second = weights["blocks"]

    def both(W):  # reads embedding and note
        return torch.cat([W, W])

    def old(W):  # reads the embedding alone
        return torch.cat([W, torch.zeros_like(W)])

    def beside(W, left=True):  # writes into one half
        return torch.cat([W, torch.zeros_like(W)] if left else [torch.zeros_like(W), W], dim=1)

    wide_first = {name: old(first[name]) for name in ("W_Q", "W_K", "W_V")}
    wide_first["W_O"] = beside(first["W_O"], left=False)
    names = {"query": "W_Q", "key": "W_K", "value": "W_V"}
    wide_second = {name: old(second[name]) if names[into] == name else both(second[name]) for name in names.values()}
    wide_second["W_O"] = beside(second["W_O"])
    wide = {"W_E": beside(weights["W_E"]), "W_pos": beside(weights["W_pos"]), "W_U": both(weights["W_U"])}
    return _run_attention_only(tokens, wide | {"blocks": [wide_first, wide_second]})
