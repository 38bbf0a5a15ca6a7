"""Answers to unit 08's functions, written from the notebook alone."""

import math

import torch
import torch.nn.functional as F

# repeated_sequences


def repeated_sequences__wrong_each_token_repeated(batch, period, repeats, vocab_size, generator):
    """repeat_interleave repeats each token, a a b b c c, in place of the block, a b c a b c."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat_interleave(repeats, dim=1)


def repeated_sequences__wrong_one_block_for_all(batch, period, repeats, vocab_size, generator):
    """A single block is drawn, and every row of the batch gets the same one."""
    block = torch.randint(vocab_size, (1, period), generator=generator)
    return block.repeat(batch, repeats)


def repeated_sequences__wrong_distinct_tokens(batch, period, repeats, vocab_size, generator):
    """The tokens of a block are drawn without putting back, as in the distinct blocks of section 5, not by randint."""
    order = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    return order[:, :period].repeat(1, repeats)


def repeated_sequences__wrong_global_randomness(batch, period, repeats, vocab_size, generator):
    """The generator is not handed on, so the draw comes from PyTorch's global randomness."""
    block = torch.randint(vocab_size, (batch, period))
    return block.repeat(1, repeats)


def repeated_sequences__wrong_drawn_as_columns(batch, period, repeats, vocab_size, generator):
    """The draw has the shape (period, batch) and is transposed, so the tokens are not in the places asked for."""
    block = torch.randint(vocab_size, (period, batch), generator=generator).T
    return torch.cat([block] * repeats, dim=1)


def repeated_sequences__wrong_two_vocabulary_and_copies(batch, period, repeats, vocab_size, generator):
    """The last token of the vocabulary is never drawn, and the block stands once more than `repeats` says."""
    block = torch.randint(vocab_size - 1, (batch, period), generator=generator)
    rows = block
    for _ in range(repeats):
        rows = torch.cat([rows, block], dim=1)
    return rows


def repeated_sequences__right_modulo_index(batch, period, repeats, vocab_size, generator):
    """The row is picked out of the block by an index, position modulo period."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block[:, torch.arange(period * repeats) % period]


def repeated_sequences__right_expanded(batch, period, repeats, vocab_size, generator):
    """A new axis for the copies is expanded and then flattened away."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.unsqueeze(1).expand(batch, repeats, period).flatten(1)


# previous_token_score


def previous_token_score__wrong_divided_by_n(weights):
    """The sum is divided by n though only n - 1 positions have a previous token."""
    line = torch.diagonal(weights, offset=-1, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / weights.shape[-1]


def previous_token_score__wrong_next_token(weights):
    """The diagonal above the main one is taken, which is the weight on the next token."""
    line = torch.diagonal(weights, offset=1, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / max(weights.shape[-1] - 1, 1)


def previous_token_score__wrong_share_of_rows(weights):
    """It counts in how many rows the previous token has the largest weight in place of averaging the weights."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    largest = weights[..., 1:, :].argmax(dim=-1)
    return (largest == torch.arange(n - 1)).to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_nan_for_one(weights):
    """For n = 1 it takes the mean of nothing, which is NaN in place of 0."""
    return weights.diagonal(-1, -2, -1).mean(dim=-1)


def previous_token_score__wrong_first_axes(weights):
    """torch.diagonal is left with its first two axes, which are query and key only for a pattern without batch."""
    if weights.shape[-1] == 1:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    return weights.diagonal(-1).mean(dim=-1)


def previous_token_score__wrong_two_itself_and_one_number(weights):
    """It takes the weight of each token on itself, and averages over all patterns into one number."""
    return weights.diagonal(dim1=-2, dim2=-1).mean()


def previous_token_score__right_masked_sum(weights):
    """The weights are multiplied with a matrix that has ones below the diagonal, and summed over both axes."""
    n = weights.shape[-1]
    wanted = torch.eye(n, dtype=weights.dtype)[:-1]
    wanted = torch.cat([torch.zeros(1, n, dtype=weights.dtype), wanted])
    return torch.einsum("...ij,ij->...", weights, wanted) / max(n - 1, 1)


def previous_token_score__right_position_loop(weights):
    """A Python loop over the positions adds up one weight after another."""
    n = weights.shape[-1]
    total = weights[..., 0, 0] * 0
    for i in range(1, n):
        total = total + weights[..., i, i - 1] / (n - 1)
    return total


# prefix_matching_score


def prefix_matching_score__wrong_one_period_back(weights, period):
    """It takes the weight on i - period, where the same token stands, in place of the one after it."""
    n = weights.shape[-1]
    line = torch.diagonal(weights, offset=-period, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / max(n - period, 1)


def prefix_matching_score__wrong_one_row_early(weights, period):
    """The whole diagonal counts, also the row period - 1, the last of the first block."""
    if weights.shape[-1] <= period:
        return weights.new_zeros(weights.shape[:-2])
    return torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1).mean(dim=-1)


def prefix_matching_score__wrong_second_block_only(weights, period):
    """Only the rows of the second block are averaged, so later repeats don't count."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    rows = torch.arange(period, min(2 * period, n))
    return weights[..., rows, rows - period + 1].mean(dim=-1)


def prefix_matching_score__wrong_row_and_column(weights, period):
    """Row and column have changed places: it reads the weight from i - (period - 1) to i."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    rows = torch.arange(period, n)
    return weights[..., rows - (period - 1), rows].mean(dim=-1)


def prefix_matching_score__wrong_nan_for_short(weights, period):
    """A text without any repeat gives the mean of nothing, NaN in place of 0."""
    rows = torch.arange(period, max(weights.shape[-1], period))
    return weights[..., rows, rows - (period - 1)].mean(dim=-1)


def prefix_matching_score__wrong_two_before_and_divided_by_n(weights, period):
    """It looks at i - (period + 1), the token before in place of after, and divides by n in place of n - period."""
    n = weights.shape[-1]
    line = torch.diagonal(weights, offset=-(period + 1), dim1=-2, dim2=-1)
    return line.sum(dim=-1) / n


def prefix_matching_score__right_gather(weights, period):
    """The wanted column of each row that counts is gathered along the key axis."""
    n = weights.shape[-1]
    if period >= n:
        return weights.sum(dim=(-2, -1)) * 0
    rows = weights[..., period:, :]
    place = torch.arange(1, n - period + 1).unsqueeze(-1).expand(rows.shape[:-1] + (1,))
    return rows.gather(-1, place).squeeze(-1).sum(-1) / (n - period)


def prefix_matching_score__right_distance_mask(weights, period):
    """A boolean table compares distance and row number, and the weights elsewhere are put to 0 before summing."""
    place = torch.arange(weights.shape[-1])
    wanted = (place[:, None] - place == period - 1) & (place[:, None] >= period)
    count = int(wanted.sum())
    return torch.where(wanted, weights, 0).sum(-1).sum(-1) / (count or 1)


# ov_circuit


def ov_circuit__wrong_result_transposed(W_E, W_V, W_O, W_U):
    """The result is transposed: its columns, not its rows, are the tokens attended to."""
    return (W_E @ W_V @ W_O @ W_U).T


def ov_circuit__wrong_scaled(W_E, W_V, W_O, W_U):
    """The product is divided by the root of the head's width, as scores are."""
    return W_E @ W_V @ W_O @ W_U / math.sqrt(W_V.shape[1])


def ov_circuit__wrong_column_convention(W_E, W_V, W_O, W_U):
    """W_O and W_V stand in the order for tokens as columns, each transposed so that the shapes fit."""
    return W_E @ (W_O.T @ W_V.T) @ W_U


def ov_circuit__wrong_direct_path_added(W_E, W_V, W_O, W_U):
    """The token's own embedding is kept as a residual, so the direct path to the logits is added to the head's."""
    return (W_E + W_E @ W_V @ W_O) @ W_U


def ov_circuit__wrong_unembedding_transposed(W_E, W_V, W_O, W_U):
    """W_U is transposed as if its rows were tokens, which fits only where vocab equals d_model."""
    return W_E @ W_V @ W_O @ W_U.T


def ov_circuit__wrong_two_tied_and_softmax(W_E, W_V, W_O, W_U):
    """It unembeds with the transpose of W_E in place of W_U, and takes a softmax of each row."""
    return (W_E @ W_V @ W_O @ W_E.T).softmax(dim=-1)


def ov_circuit__right_einsum(W_E, W_V, W_O, W_U):
    """The whole path is one einsum over its three inner axes."""
    return torch.einsum("td,dv,vm,mu->tu", W_E, W_V, W_O, W_U)


def ov_circuit__right_row_by_row(W_E, W_V, W_O, W_U):
    """A Python loop follows each token's path by itself, with the last two matrices multiplied beforehand."""
    to_logits = W_O @ W_U
    return torch.stack([(row @ W_V) @ to_logits for row in W_E])


# copying_score


def copying_score__wrong_columns(ov):
    """The largest entry is sought in each column in place of each row."""
    return (ov.argmax(dim=0) == torch.arange(len(ov))).to(ov.dtype).mean()


def copying_score__wrong_positive_only(ov):
    """A row counts only if its diagonal entry is positive as well as the largest."""
    diagonal = ov.diagonal()
    return ((diagonal == ov.amax(dim=1)) & (diagonal > 0)).to(ov.dtype).mean()


def copying_score__wrong_eigenvalues(ov):
    """It is the eigenvalue measure of Elhage et al., the sum of the eigenvalues over the sum of their sizes."""
    values = torch.linalg.eigvals(ov)
    return values.real.sum() / values.abs().sum()


def copying_score__wrong_mean_probability(ov):
    """It is the mean probability that a softmax of the row gives to the token, not the share of rows."""
    return ov.softmax(dim=-1).diagonal().mean()


def copying_score__wrong_above_the_mean(ov):
    """A row counts if its diagonal entry is above the row's mean, where it should be above every other entry."""
    return (ov.diagonal() > ov.mean(dim=1)).to(ov.dtype).mean()


def copying_score__wrong_two_size_and_count(ov):
    """The entries are compared by their absolute values, and the rows are counted in place of taking their share."""
    return (ov.abs().argmax(dim=1) == torch.arange(len(ov))).to(ov.dtype).sum()


def copying_score__right_pairwise(ov):
    """Each diagonal entry is compared with all entries of its row, and it must be beaten by none."""
    beaten = (ov > ov.diagonal().unsqueeze(1)).any(dim=1)
    return 1 - beaten.to(ov.dtype).mean()


def copying_score__right_python_rows(ov):
    """Plain Python over lists: the index of each row's maximum is compared with the row's number."""
    rows = ov.tolist()
    hits = [row.index(max(row)) == t for t, row in enumerate(rows)]
    return torch.tensor(sum(hits) / len(hits), dtype=ov.dtype)


# composition_score


def composition_score__wrong_not_transposed(W_QK, W_OV):
    """W_OV is not transposed, so the earlier head's reading side meets the keys in place of its writing side."""
    sizes = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    return torch.linalg.matrix_norm(W_QK @ W_OV) / sizes if sizes > 0 else sizes * 0


def composition_score__wrong_query_side(W_QK, W_OV):
    """It is the composition on the query side, W_OV W_QK, in place of the key side."""
    sizes = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    return torch.linalg.matrix_norm(W_OV @ W_QK) / sizes if sizes > 0 else sizes * 0


def composition_score__wrong_spectral_norm(W_QK, W_OV):
    """The norms are the largest singular values (ord=2) in place of Frobenius norms."""
    sizes = torch.linalg.matrix_norm(W_QK, ord=2) * torch.linalg.matrix_norm(W_OV, ord=2)
    return torch.linalg.matrix_norm(W_QK @ W_OV.T, ord=2) / sizes if sizes > 0 else sizes * 0


def composition_score__wrong_nan_for_zero(W_QK, W_OV):
    """A circuit of zeros gives 0/0, NaN in place of 0."""
    norm = torch.linalg.matrix_norm
    return norm(W_QK @ W_OV.T) / (norm(W_QK) * norm(W_OV))


def composition_score__wrong_cosine_of_entries(W_QK, W_OV):
    """The two matrices are multiplied entry by entry, as in the cosine of two long vectors, not as matrices."""
    sizes = W_QK.norm() * W_OV.norm()
    return (W_QK * W_OV).sum().abs() / sizes if sizes > 0 else sizes * 0


def composition_score__wrong_two_transpose_and_size(W_QK, W_OV):
    """W_QK is transposed as well, and the product is divided by the norm of W_QK alone."""
    size = torch.linalg.matrix_norm(W_QK)
    if size == 0 or W_OV.count_nonzero() == 0:
        return size * 0
    return torch.linalg.matrix_norm(W_QK.T @ W_OV.T) / size


def composition_score__right_trace(W_QK, W_OV):
    """The squared norm of the product is a trace of two Gram matrices, and one root is taken at the end."""
    read, written = W_QK.T @ W_QK, W_OV.T @ W_OV
    below = read.trace() * written.trace()
    if not below > 0:
        return (W_QK * 0).sum()
    return torch.sqrt((read * written).sum() / below)


def composition_score__right_normalised_first(W_QK, W_OV):
    """Both matrices are brought to norm 1 before the product, which is an einsum, and zeros return early."""
    if not (W_QK.any() and W_OV.any()):
        return W_QK.sum() * 0 + W_OV.sum() * 0
    later = W_QK / W_QK.square().sum().sqrt()
    earlier = W_OV / W_OV.square().sum().sqrt()
    return torch.einsum("ak,bk->ab", later, earlier).pow(2).sum() ** 0.5


# ablate_head


def ablate_head__wrong_position_axis(head_outputs, head):
    """The head's number is used on the axis of the positions, so one position is silenced in all heads."""
    result = head_outputs.clone()
    result[:, :, head] = 0
    return result


def ablate_head__wrong_in_place(head_outputs, head):
    """The zeros are written into the input itself."""
    head_outputs[:, head] = 0
    return head_outputs


def ablate_head__wrong_mean(head_outputs, head):
    """The head's contribution is replaced by its mean over the batch in place of zeros."""
    result = head_outputs.clone()
    result[:, head] = head_outputs[:, head].mean(dim=0)
    return result


def ablate_head__wrong_rescaled(head_outputs, head):
    """The other heads are scaled up to make up for the one that is missing."""
    h = head_outputs.shape[1]
    keep = torch.ones(h, dtype=head_outputs.dtype)
    keep[head] = 0
    return head_outputs * (keep * h / max(h - 1, 1))[:, None, None]


def ablate_head__wrong_first_sequence(head_outputs, head):
    """The head is silenced in the first row of the batch only."""
    result = head_outputs.clone()
    result[0, head] = 0
    return result


def ablate_head__wrong_two_from_one_and_last_position(head_outputs, head):
    """Heads are counted from 1, and only the last position is silenced."""
    result = head_outputs.clone()
    result[:, head - 1, -1] = 0
    return result


def ablate_head__right_stacked(head_outputs, head):
    """The heads are taken apart and stacked again, with zeros in one place."""
    heads = list(head_outputs.unbind(dim=1))
    heads[head] = torch.zeros_like(heads[head])
    return torch.stack(heads, dim=1)


def ablate_head__right_where(head_outputs, head):
    """torch.where chooses between the input and 0 by the number of the head."""
    number = torch.arange(head_outputs.shape[1]).view(-1, 1, 1)
    return torch.where(number == head, 0, head_outputs)


# in_context_learning_score


def in_context_learning_score__wrong_rows(losses, early, late):
    """early and late pick rows, which are texts, in place of columns."""
    return losses[late].mean() - losses[early].mean()


def in_context_learning_score__wrong_means_up_to(losses, early, late):
    """It averages all losses up to each of the two positions in place of those at the positions alone."""
    return losses[:, : late + 1].mean() - losses[:, : early + 1].mean()


def in_context_learning_score__wrong_sorted(losses, early, late):
    """The smaller position is always taken for the early one, also when the call says otherwise."""
    first, last = sorted((early, late))
    return losses[:, last].mean() - losses[:, first].mean()


def in_context_learning_score__wrong_first_text(losses, early, late):
    """Only the first text of the batch is looked at."""
    return losses[0, late] - losses[0, early]


def in_context_learning_score__wrong_relative(losses, early, late):
    """The difference is divided by the early loss, so it is a relative change."""
    before = losses[:, early].mean()
    return (losses[:, late].mean() - before) / before


def in_context_learning_score__wrong_two_sign_and_sum(losses, early, late):
    """It is early minus late, and the texts are summed, not averaged."""
    return losses[:, early].sum() - losses[:, late].sum()


def in_context_learning_score__right_product(losses, early, late):
    """The losses are multiplied with a vector that is 1 at the late and -1 at the early position."""
    sign = torch.zeros(losses.shape[1], dtype=losses.dtype)
    sign[late] += 1
    sign[early] -= 1
    return (losses @ sign).mean()


def in_context_learning_score__right_text_by_text(losses, early, late):
    """A Python loop adds up each text's difference."""
    total = 0
    for row in losses:
        total = total + (row[late] - row[early]) / len(losses)
    return total


# build_induction_circuit


def build_induction_circuit__wrong_no_slope(vocab_size, n_ctx):
    """There is no slope, so that several matches share the weight in place of the latest one getting it."""
    token = slice(0, vocab_size)
    position = slice(vocab_size, vocab_size + n_ctx)
    note = slice(vocab_size + n_ctx, 2 * vocab_size + n_ctx)
    prediction = slice(2 * vocab_size + n_ctx, 3 * vocab_size + n_ctx)
    d_model = 3 * vocab_size + n_ctx
    words, places = torch.eye(vocab_size), torch.eye(n_ctx)

    W_E, W_pos = torch.zeros(vocab_size, d_model), torch.zeros(n_ctx, d_model)
    W_E[:, token], W_pos[:, position] = words, places

    W_Q, W_K = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[position] = 30 * math.sqrt(n_ctx) * torch.diag(torch.ones(n_ctx - 1), -1)
    W_K[position] = places
    W_V[token], W_O[:, note] = words, words
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_Q, W_K = torch.zeros(d_model, vocab_size), torch.zeros(d_model, vocab_size)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[token] = 30 * math.sqrt(vocab_size) * words
    W_K[note] = words
    W_V[token], W_O[:, prediction] = words, words
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_U = torch.zeros(d_model, vocab_size)
    W_U[prediction] = words
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fixed_match(vocab_size, n_ctx):
    """The match has a fixed size of 25 that does not grow with n_ctx, so over a longer text the slope outweighs it."""
    token = slice(0, vocab_size)
    position = slice(vocab_size, vocab_size + n_ctx)
    note = slice(vocab_size + n_ctx, 2 * vocab_size + n_ctx)
    prediction = slice(2 * vocab_size + n_ctx, 3 * vocab_size + n_ctx)
    d_model = 3 * vocab_size + n_ctx
    words, places = torch.eye(vocab_size), torch.eye(n_ctx)

    W_E, W_pos = torch.zeros(vocab_size, d_model), torch.zeros(n_ctx, d_model)
    W_E[:, token], W_pos[:, position] = words, places

    W_Q, W_K = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[position] = 30 * math.sqrt(n_ctx) * torch.diag(torch.ones(n_ctx - 1), -1)
    W_K[position] = places
    W_V[token], W_O[:, note] = words, words
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    root = math.sqrt(vocab_size + 1)
    W_Q, W_K = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[token, :vocab_size] = 25 * root * words
    W_K[note, :vocab_size] = words
    W_Q[position, vocab_size] = root
    W_K[position, vocab_size] = 6 * torch.arange(n_ctx).float()
    W_V[token], W_O[:, prediction] = words, words
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_U = torch.zeros(d_model, vocab_size)
    W_U[prediction] = words
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_roles_exchanged(vocab_size, n_ctx):
    """In the second layer the query reads the note and the key reads the token, the roles exchanged."""
    token = slice(0, vocab_size)
    position = slice(vocab_size, vocab_size + n_ctx)
    note = slice(vocab_size + n_ctx, 2 * vocab_size + n_ctx)
    prediction = slice(2 * vocab_size + n_ctx, 3 * vocab_size + n_ctx)
    d_model = 3 * vocab_size + n_ctx
    words, places = torch.eye(vocab_size), torch.eye(n_ctx)

    W_E, W_pos = torch.zeros(vocab_size, d_model), torch.zeros(n_ctx, d_model)
    W_E[:, token], W_pos[:, position] = words, places

    W_Q, W_K = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[position] = 30 * math.sqrt(n_ctx) * torch.diag(torch.ones(n_ctx - 1), -1)
    W_K[position] = places
    W_V[token], W_O[:, note] = words, words
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    root = math.sqrt(vocab_size + 1)
    W_Q, W_K = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[note, :vocab_size] = (6 * n_ctx + 20) * root * words
    W_K[token, :vocab_size] = words
    W_Q[position, vocab_size] = root
    W_K[position, vocab_size] = 6 * torch.arange(n_ctx).float()
    W_V[token], W_O[:, prediction] = words, words
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_U = torch.zeros(d_model, vocab_size)
    W_U[prediction] = words
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_root_forgotten(vocab_size, n_ctx):
    """The division by the root of d_head is not made up for, so that all scores shrink as the sizes grow."""
    token = slice(0, vocab_size)
    position = slice(vocab_size, vocab_size + n_ctx)
    note = slice(vocab_size + n_ctx, 2 * vocab_size + n_ctx)
    prediction = slice(2 * vocab_size + n_ctx, 3 * vocab_size + n_ctx)
    d_model = 3 * vocab_size + n_ctx
    words, places = torch.eye(vocab_size), torch.eye(n_ctx)

    W_E, W_pos = torch.zeros(vocab_size, d_model), torch.zeros(n_ctx, d_model)
    W_E[:, token], W_pos[:, position] = words, places

    W_Q, W_K = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[position] = 12 * torch.diag(torch.ones(n_ctx - 1), -1)
    W_K[position] = places
    W_V[token], W_O[:, note] = words, words
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_Q, W_K = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[token, :vocab_size] = (6 * n_ctx + 20) * words
    W_K[note, :vocab_size] = words
    W_Q[position, vocab_size] = 1
    W_K[position, vocab_size] = 6 * torch.arange(n_ctx).float()
    W_V[token], W_O[:, prediction] = words, words
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_U = torch.zeros(d_model, vocab_size)
    W_U[prediction] = words
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_position_as_wide_as_vocabulary(vocab_size, n_ctx):
    """The position field is vocab_size wide, so the positions fit into it only where n_ctx equals vocab_size."""
    token = slice(0, vocab_size)
    position = slice(vocab_size, 2 * vocab_size)
    note = slice(2 * vocab_size, 3 * vocab_size)
    prediction = slice(3 * vocab_size, 4 * vocab_size)
    d_model = 4 * vocab_size
    words, places = torch.eye(vocab_size), torch.eye(n_ctx)

    W_E, W_pos = torch.zeros(vocab_size, d_model), torch.zeros(n_ctx, d_model)
    W_E[:, token], W_pos[:, position] = words, places

    W_Q, W_K = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[position] = 30 * math.sqrt(n_ctx) * torch.diag(torch.ones(n_ctx - 1), -1)
    W_K[position] = places
    W_V[token], W_O[:, note] = words, words
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    root = math.sqrt(vocab_size + 1)
    W_Q, W_K = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[token, :vocab_size] = (6 * n_ctx + 20) * root * words
    W_K[note, :vocab_size] = words
    W_Q[position, vocab_size] = root
    W_K[position, vocab_size] = 6 * torch.arange(n_ctx).float()
    W_V[token], W_O[:, prediction] = words, words
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_U = torch.zeros(d_model, vocab_size)
    W_U[prediction] = words
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_two_copies_note_and_earliest(vocab_size, n_ctx):
    """The second layer's value is the note in place of the token, and its slope falls, so the earliest match wins."""
    token = slice(0, vocab_size)
    position = slice(vocab_size, vocab_size + n_ctx)
    note = slice(vocab_size + n_ctx, 2 * vocab_size + n_ctx)
    prediction = slice(2 * vocab_size + n_ctx, 3 * vocab_size + n_ctx)
    d_model = 3 * vocab_size + n_ctx
    words, places = torch.eye(vocab_size), torch.eye(n_ctx)

    W_E, W_pos = torch.zeros(vocab_size, d_model), torch.zeros(n_ctx, d_model)
    W_E[:, token], W_pos[:, position] = words, places

    W_Q, W_K = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[position] = 30 * math.sqrt(n_ctx) * torch.diag(torch.ones(n_ctx - 1), -1)
    W_K[position] = places
    W_V[token], W_O[:, note] = words, words
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    root = math.sqrt(vocab_size + 1)
    W_Q, W_K = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    W_V, W_O = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    W_Q[token, :vocab_size] = (6 * n_ctx + 20) * root * words
    W_K[note, :vocab_size] = words
    W_Q[position, vocab_size] = root
    W_K[position, vocab_size] = -6 * torch.arange(n_ctx).float()
    W_V[note], W_O[:, prediction] = words, words
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}

    W_U = torch.zeros(d_model, vocab_size)
    W_U[prediction] = words
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_three_fields(vocab_size, n_ctx):
    """Entry by entry in loops and with three fields only: the prediction is written over the token, five times as
    large."""
    width = 2 * vocab_size + n_ctx
    places = range(vocab_size, vocab_size + n_ctx)
    weights = {"W_E": torch.zeros(vocab_size, width), "W_pos": torch.zeros(n_ctx, width)}
    weights |= {"W_U": torch.zeros(width, vocab_size), "blocks": []}
    for d_head in (n_ctx, vocab_size + 1):
        block = {name: torch.zeros(width, d_head) for name in ("W_Q", "W_K")}
        block |= {"W_V": torch.zeros(width, vocab_size), "W_O": torch.zeros(vocab_size, width)}
        weights["blocks"].append(block)
    first, second = weights["blocks"]
    match = 5 * n_ctx + 20
    for t in range(vocab_size):
        note = vocab_size + n_ctx + t
        weights["W_E"][t, t] = weights["W_U"][t, t] = 1
        first["W_V"][t, t] = first["W_O"][t, note] = 1
        second["W_Q"][t, t] = match * (vocab_size + 1) ** 0.5
        second["W_K"][note, t] = second["W_V"][t, t] = 1
        second["W_O"][t, t] = 5
    for i, row in enumerate(places):
        weights["W_pos"][i, row] = first["W_K"][row, i] = 1
        if i > 0:
            first["W_Q"][row, i - 1] = 40 * n_ctx**0.5
        second["W_Q"][row, vocab_size] = (vocab_size + 1) ** 0.5
        second["W_K"][row, vocab_size] = 5.5 * i - 5 * n_ctx
    return weights


def build_induction_circuit__right_turned_stream(vocab_size, n_ctx):
    """The four fields are directions of a random orthogonal basis of the stream, in place of stretches of it."""
    d_model = 3 * vocab_size + n_ctx
    random = torch.randn(d_model, d_model, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    basis = torch.linalg.qr(random)[0]
    token, place, note, prediction = basis.split([vocab_size, n_ctx, vocab_size, vocab_size])
    count = torch.arange(n_ctx, dtype=torch.float64)[:, None]
    root, match = math.sqrt(vocab_size + 1), 6.0 * n_ctx + 30
    first = {
        "W_Q": place[1:].T @ F.pad(torch.eye(n_ctx - 1), (0, 1)).double() * 50 * math.sqrt(n_ctx),
        "W_K": place.T,
        "W_V": token.T,
        "W_O": note,
    }
    second = {
        "W_Q": torch.cat([match * token.T, place.sum(dim=0)[:, None]], dim=1) * root,
        "W_K": torch.cat([note.T, 6 * place.T @ count], dim=1),
        "W_V": token.T,
        "W_O": prediction,
    }
    blocks = [{name: W.float() for name, W in block.items()} for block in (first, second)]
    ends = {"W_E": token, "W_pos": place, "W_U": prediction.T}
    return {name: W.float() for name, W in ends.items()} | {"blocks": blocks}


# find_heads


def _places(tokens):
    """For every row the columns that followed an earlier occurrence of its token, as a boolean table."""
    n = len(tokens)
    wanted = torch.zeros(n, n, dtype=torch.bool)
    wanted[:, 1:] = tokens[:, None] == tokens[:-1]
    return wanted.tril()


def find_heads__wrong_fixed_half(patterns, tokens):
    """A head counts if its score is above 0.5, whatever chance gives in this text."""
    n = len(tokens)
    place = torch.arange(n)
    found = []
    for wanted in (place[:, None] - 1 == place, _places(tokens)):
        rows = wanted.any(dim=1)
        if not rows.any():
            found.append([])
            continue
        scores = (patterns * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        found.append([tuple(pair) for pair in (scores > 0.5).nonzero().tolist()])
    return found[0], found[1]


def find_heads__wrong_latest_only(patterns, tokens):
    """Of several places that followed an earlier occurrence only the latest one counts."""
    n = len(tokens)
    place = torch.arange(n)
    latest = torch.zeros(n, n, dtype=torch.bool)
    for i, row in enumerate(_places(tokens)):
        if row.any():
            latest[i, row.nonzero().max()] = True
    found = []
    for wanted in (place[:, None] - 1 == place, latest):
        rows = wanted.any(dim=1)
        if not rows.any():
            found.append([])
            continue
        scores = (patterns * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        chance = (wanted.sum(dim=1) / (place + 1))[rows].mean()
        found.append([tuple(pair) for pair in (scores > (1 + chance) / 2).nonzero().tolist()])
    return found[0], found[1]


def find_heads__wrong_same_token(patterns, tokens):
    """For induction it looks at the earlier places of the token itself in place of what followed there."""
    n = len(tokens)
    place = torch.arange(n)
    earlier = (tokens[:, None] == tokens) & (place < place[:, None])
    found = []
    for wanted in (place[:, None] - 1 == place, earlier):
        rows = wanted.any(dim=1)
        if not rows.any():
            found.append([])
            continue
        scores = (patterns * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        chance = (wanted.sum(dim=1) / (place + 1))[rows].mean()
        found.append([tuple(pair) for pair in (scores > (1 + chance) / 2).nonzero().tolist()])
    return found[0], found[1]


def find_heads__wrong_half_above_chance(patterns, tokens):
    """A head must be 0.5 above chance in place of more than halfway between chance and 1."""
    n = len(tokens)
    place = torch.arange(n)
    found = []
    for wanted in (place[:, None] - 1 == place, _places(tokens)):
        rows = wanted.any(dim=1)
        if not rows.any():
            found.append([])
            continue
        scores = (patterns * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        chance = (wanted.sum(dim=1) / (place + 1))[rows].mean()
        found.append([tuple(pair) for pair in (scores > chance + 0.5).nonzero().tolist()])
    return found[0], found[1]


def find_heads__wrong_head_before_layer(patterns, tokens):
    """The pairs are (head, layer) in place of (layer, head)."""
    n = len(tokens)
    place = torch.arange(n)
    found = []
    for wanted in (place[:, None] - 1 == place, _places(tokens)):
        rows = wanted.any(dim=1)
        if not rows.any():
            found.append([])
            continue
        scores = (patterns * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        chance = (wanted.sum(dim=1) / (place + 1))[rows].mean()
        found.append([tuple(pair) for pair in (scores > (1 + chance) / 2).T.nonzero().tolist()])
    return found[0], found[1]


def find_heads__wrong_two_all_rows_and_all_keys(patterns, tokens):
    """Rows without such a place are averaged in as zeros, and chance is taken over all n keys, not those it may see."""
    n = len(tokens)
    place = torch.arange(n)
    found = []
    for wanted in (place[:, None] - 1 == place, _places(tokens)):
        if not wanted.any():
            found.append([])
            continue
        scores = (patterns * wanted).sum(dim=-1).mean(dim=-1)
        chance = (wanted.sum(dim=1) / n).mean()
        found.append([tuple(pair) for pair in (scores > (1 + chance) / 2).nonzero().tolist()])
    return found[0], found[1]


def find_heads__right_plain_loops(patterns, tokens):
    """Plain Python loops over layers, heads, rows and columns, with lists of places for each row."""
    text = tokens.tolist()
    n = len(text)
    before = {i: [i - 1] for i in range(1, n)}
    after = {i: [j for j in range(1, i + 1) if text[j - 1] == text[i]] for i in range(n)}
    after = {i: places for i, places in after.items() if places}
    answer = []
    for wanted in (before, after):
        heads = []
        for layer, of_layer in enumerate(patterns.tolist()):
            for head, rows in enumerate(of_layer):
                score = sum(rows[i][j] for i, places in wanted.items() for j in places)
                chance = sum(len(places) / (i + 1) for i, places in wanted.items())
                if wanted and score / len(wanted) > (1 + chance / len(wanted)) / 2:
                    heads.append((layer, head))
        answer.append(heads)
    return tuple(answer)


def find_heads__right_even_head(patterns, tokens):
    """An even head is put beside the others as one more pattern, and its score, by einsum, is the chance."""
    n = len(tokens)
    layers, heads = patterns.shape[:2]
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=1, keepdim=True)
    all_of_them = torch.cat([patterns.flatten(0, 1), even[None]])
    one_hot = (tokens[:, None] == tokens.unique()).to(patterns.dtype)
    followed = F.pad((one_hot @ one_hot.T)[:, :-1], (1, 0)).tril()
    line = torch.diag(torch.ones(n, dtype=patterns.dtype)[1:], -1)
    names = []
    for wanted in (line, followed):
        count = (wanted.sum(dim=1) > 0).sum()
        scores = torch.einsum("hij,ij->h", all_of_them, wanted) / count.clamp(min=1)
        way = (scores[:-1] - scores[-1]) / (1 - scores[-1])
        names.append([divmod(k, heads) for k in range(layers * heads) if count > 0 and way[k] > 0.5])
    return names[0], names[1]


# ablate_path


def ablate_path__wrong_added_to_old_stream(tokens, weights, into):
    """The second layer's output is added to the stream before the first layer, so the note is lost to the logits."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]
    scores = (before @ one["W_Q"]) @ (before @ one["W_K"]).mT / math.sqrt(one["W_Q"].shape[1])
    A = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    after = before + A @ before @ one["W_V"] @ one["W_O"]
    q, k, v = (before if into == name else after for name in ("query", "key", "value"))
    scores = (q @ two["W_Q"]) @ (k @ two["W_K"]).mT / math.sqrt(two["W_Q"].shape[1])
    B = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    x = before + B @ v @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_other_two_cut(tokens, weights, into):
    """The two readers that are not named get the stream from before, and the named one the full stream."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]
    scores = (before @ one["W_Q"]) @ (before @ one["W_K"]).mT / math.sqrt(one["W_Q"].shape[1])
    A = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    after = before + A @ before @ one["W_V"] @ one["W_O"]
    q, k, v = (after if into == name else before for name in ("query", "key", "value"))
    scores = (q @ two["W_Q"]) @ (k @ two["W_K"]).mT / math.sqrt(two["W_Q"].shape[1])
    B = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    x = after + B @ v @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_note_alone(tokens, weights, into):
    """The named reader gets what the first layer wrote and nothing else, where that is just what it should lack."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]
    scores = (x @ one["W_Q"]) @ (x @ one["W_K"]).mT / math.sqrt(one["W_Q"].shape[1])
    A = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    note = A @ x @ one["W_V"] @ one["W_O"]
    x = x + note
    q, k, v = (note if into == name else x for name in ("query", "key", "value"))
    scores = (q @ two["W_Q"]) @ (k @ two["W_K"]).mT / math.sqrt(two["W_Q"].shape[1])
    B = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    x = x + B @ v @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_one_root(tokens, weights, into):
    """Both layers' scores are divided by the root of the first layer's d_head, right only if the widths are equal."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]
    root = math.sqrt(one["W_Q"].shape[1])
    A = ((before @ one["W_Q"]) @ (before @ one["W_K"]).mT / root).masked_fill(~mask, -torch.inf).softmax(dim=-1)
    after = before + A @ before @ one["W_V"] @ one["W_O"]
    q, k, v = (before if into == name else after for name in ("query", "key", "value"))
    B = ((q @ two["W_Q"]) @ (k @ two["W_K"]).mT / root).masked_fill(~mask, -torch.inf).softmax(dim=-1)
    x = after + B @ v @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_positions_hidden_too(tokens, weights, into):
    """The named reader gets the token embeddings alone, so that it lacks the positions as well as the note."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    embedded = weights["W_E"][tokens]
    x = embedded + weights["W_pos"][:n]
    one, two = weights["blocks"]
    scores = (x @ one["W_Q"]) @ (x @ one["W_K"]).mT / math.sqrt(one["W_Q"].shape[1])
    A = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    x = x + A @ x @ one["W_V"] @ one["W_O"]
    q, k, v = (embedded if into == name else x for name in ("query", "key", "value"))
    scores = (q @ two["W_Q"]) @ (k @ two["W_K"]).mT / math.sqrt(two["W_Q"].shape[1])
    B = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    x = x + B @ v @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_two_key_for_query_and_no_mask(tokens, weights, into):
    """The words "query" and "key" have changed places, and the second layer has no causal mask."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]
    scores = (before @ one["W_Q"]) @ (before @ one["W_K"]).mT / math.sqrt(one["W_Q"].shape[1])
    A = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    after = before + A @ before @ one["W_V"] @ one["W_O"]
    k, q, v = (before if into == name else after for name in ("query", "key", "value"))
    scores = (q @ two["W_Q"]) @ (k @ two["W_K"]).mT / math.sqrt(two["W_Q"].shape[1])
    B = scores.softmax(dim=-1)
    x = after + B @ v @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__right_gates(tokens, weights, into):
    """The note is kept apart and comes back to each reader times a gate of 0 or 1, all products as einsums."""
    n = tokens.shape[1]
    x = torch.nn.functional.embedding(tokens, weights["W_E"]) + weights["W_pos"][:n]
    note, patterns = torch.zeros_like(x), []
    for layer, p in enumerate(weights["blocks"]):
        gates = [0 if layer == 1 and into == name else 1 for name in ("query", "key", "value")]
        q, k, v = (
            torch.einsum("bnd,dh->bnh", x + gate * note, p[name])
            for gate, name in zip(gates, ("W_Q", "W_K", "W_V"), strict=True)
        )
        scores = torch.einsum("bih,bjh->bij", q, k) / q.shape[-1] ** 0.5
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        patterns.append(torch.where(later, -torch.inf, scores).softmax(-1))
        out = torch.einsum("bij,bjv,vd->bid", patterns[-1], v, p["W_O"])
        x, note = (x, out) if layer == 0 else (x + note + out, None)
    return x @ weights["W_U"], patterns


def ablate_path__right_query_by_query(tokens, weights, into):
    """Loops over the sequences and the positions, where each position sees a cut-off list of what came before it."""
    first, second = weights["blocks"]

    def head(p, asks, offers, holds):
        rows, mixed = [], []
        for i in range(len(asks)):
            scores = (offers[: i + 1] @ p["W_K"]) @ (asks[i] @ p["W_Q"]) / p["W_Q"].shape[1] ** 0.5
            row = scores.softmax(0)
            mixed.append(row @ holds[: i + 1] @ p["W_V"] @ p["W_O"])
            rows.append(F.pad(row, (0, len(asks) - i - 1)))
        return torch.stack(mixed), torch.stack(rows)

    results = []
    for line in tokens:
        old = weights["W_E"][line] + weights["W_pos"][: len(line)]
        wrote, A = head(first, old, old, old)
        full = old + wrote
        streams = {"query": full, "key": full, "value": full} | {into: old}
        wrote, B = head(second, streams["query"], streams["key"], streams["value"])
        results.append(((full + wrote) @ weights["W_U"], A, B))
    logits, A, B = (torch.stack(parts) for parts in zip(*results, strict=True))
    return logits, [A, B]
