"""Answers to unit 08's functions, written from the notebook alone."""

import math

import torch


def _run_attention_only(tokens, weights):
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


def _causal_pattern(queries, keys, d_head):
    n = queries.shape[-2]
    may_attend = torch.ones(n, n, dtype=torch.bool).tril()
    scores = queries @ keys.mT / math.sqrt(d_head)
    return scores.masked_fill(~may_attend, -torch.inf).softmax(dim=-1)


# repeated_sequences


def repeated_sequences__wrong_one_block_for_all(batch, period, repeats, vocab_size, generator):
    """Draws a single block and gives it to all rows, where every row should have a block of its own."""
    block = torch.randint(vocab_size, (period,), generator=generator)
    return block.repeat(batch, repeats)


def repeated_sequences__wrong_drawn_sideways(batch, period, repeats, vocab_size, generator):
    """Draws (period, batch) and transposes, so that the blocks are not those of the documented draw."""
    block = torch.randint(vocab_size, (period, batch), generator=generator).T
    return block.repeat(1, repeats)


def repeated_sequences__wrong_distinct_tokens(batch, period, repeats, vocab_size, generator):
    """Takes the first tokens of a random order, so that no token stands twice in a block: not independent draws."""
    order = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    return torch.tile(order[:, :period], (1, repeats))


def repeated_sequences__wrong_starts_over(batch, period, repeats, vocab_size, generator):
    """Draws from a new generator with the seed of the one handed in, so that every call gives the same tokens."""
    fresh = torch.Generator().manual_seed(generator.initial_seed())
    block = torch.randint(vocab_size, (batch, period), generator=fresh)
    return torch.cat([block] * repeats, dim=1)


def repeated_sequences__wrong_below_and_one_short(batch, period, repeats, vocab_size, generator):
    """Repeats the blocks below one another before a reshape, which mixes the rows, and never draws the last id."""
    block = torch.randint(0, vocab_size - 1, (batch, period), generator=generator)
    return block.repeat(repeats, 1).reshape(batch, period * repeats)


def repeated_sequences__right_column_by_column(batch, period, repeats, vocab_size, generator):
    """Puts the row together column by column, each column picked with the remainder of its position."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.stack([block[:, i % period] for i in range(period * repeats)], dim=1)


# previous_token_score


def previous_token_score__wrong_moved_twice(weights):
    """Leaves out row 0 and then takes the diagonal below the main one all the same, so that it looks two back."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    later = weights[..., 1:, :]
    return later.diagonal(offset=-1, dim1=-2, dim2=-1).sum(dim=-1) / (n - 1)


def previous_token_score__wrong_counts_largest(weights):
    """Gives the share of positions whose largest weight is on the previous token, not the mean of these weights."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    places = weights[..., 1:, :].argmax(dim=-1)
    return (places == torch.arange(n - 1)).to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_made_causal(weights):
    """Sets the weights of later tokens to zero and renormalises the rows first, though nothing may be assumed."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    causal = weights.tril()
    causal = causal / causal.sum(dim=-1, keepdim=True)
    return causal.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)


def previous_token_score__wrong_all_pairs(weights):
    """Averages every weight from the rows 1 ... n-1 to the columns 0 ... n-2, not row i with column i - 1 alone."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(1, n)
    return weights[..., i, :][..., :, i - 1].mean(dim=(-2, -1))


def previous_token_score__wrong_next_and_n(weights):
    """Takes the diagonal above the main one, that of the next token, and divides its sum by n and not by n - 1."""
    n = weights.shape[-1]
    return weights.diagonal(offset=1, dim1=-2, dim2=-1).sum(dim=-1) / n


def previous_token_score__right_stencil(weights):
    """Multiplies with a 0/1 table of the wanted places by einsum, and divides by their number."""
    n = weights.shape[-1]
    wanted = torch.diag(torch.ones(n - 1, dtype=weights.dtype), -1)
    return torch.einsum("...ij,ij->...", weights, wanted) / max(n - 1, 1)


# prefix_matching_score


def prefix_matching_score__wrong_all_copies(weights, period):
    """Adds up the weight on what followed in all earlier copies of the block, not one period ago alone."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    total = 0
    for i in range(period, n):
        places = list(range(i - (period - 1), 0, -period))
        total = total + weights[..., i, places].sum(dim=-1)
    return total / (n - period)


def prefix_matching_score__wrong_from_key_to_query(weights, period):
    """Reads row i - (period - 1) and column i, as if rows were keys and columns queries."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(period, n)
    return weights[..., i - (period - 1), i].mean(dim=-1)


def prefix_matching_score__wrong_last_block(weights, period):
    """Averages the last `period` rows only, which are all the rows that count only where n is two periods."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(max(n - period, period), n)
    return weights[..., i, i - (period - 1)].mean(dim=-1)


def prefix_matching_score__wrong_diagonal_by_row(weights, period):
    """Cuts `period` entries off the diagonal, as if its entries were numbered by row, where only one must go."""
    line = weights.diagonal(offset=-(period - 1), dim1=-2, dim2=-1)[..., period:]
    if line.shape[-1] == 0:
        return weights.new_zeros(weights.shape[:-2])
    return line.mean(dim=-1)


def prefix_matching_score__wrong_same_token_per_period(weights, period):
    """Looks one whole period back, at the same token, and divides the sum by the period, not the number of rows."""
    line = weights.diagonal(offset=-period, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / period


def prefix_matching_score__right_gather(weights, period):
    """Gathers one entry from each row that counts, with a column index for every row."""
    n = weights.shape[-1]
    rows = weights[..., period:, :]
    columns = torch.arange(1, max(n - period, 0) + 1)[:, None]
    picked = rows.gather(-1, columns.expand(*rows.shape[:-1], 1))
    return picked.sum(dim=(-2, -1)) / max(n - period, 1)


# ov_circuit


def ov_circuit__wrong_tied(W_E, W_V, W_O, W_U):
    """Reads the logits off with the transposed embedding, as in a model with tied weights, and ignores W_U."""
    return W_E @ W_V @ W_O @ W_E.T


def ov_circuit__wrong_with_stream(W_E, W_V, W_O, W_U):
    """Adds the embedding's own way to the logits, past the head, to what the head adds."""
    stream = W_E + W_E @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_roles(W_E, W_V, W_O, W_U):
    """Uses the transposed W_O for the values and the transposed W_V for the output, which fits but swaps the roles."""
    values = W_E @ W_O.T
    return values @ W_V.T @ W_U


def ov_circuit__wrong_order(W_E, W_V, W_O, W_U):
    """Multiplies W_O before W_V, as the letters OV stand, which fits only where d_v is d_model."""
    return W_E @ (W_O @ W_V) @ W_U


def ov_circuit__wrong_columns_and_scale(W_E, W_V, W_O, W_U):
    """Gives a table with the token attended to as column, and divides it by the root of d_model."""
    d_model = W_E.shape[1]
    return W_U.T @ W_O.T @ W_V.T @ W_E.T / math.sqrt(d_model)


# copying_score


def copying_score__wrong_eigenvalues(ov):
    """Gives the eigenvalue score of Elhage et al., the sum of eigenvalues over the sum of their sizes."""
    values = torch.linalg.eigvals(ov)
    return values.sum().real / values.abs().sum()


def copying_score__wrong_later_only(ov):
    """Compares the diagonal entry only with those to its right in the row, since the inner loop begins behind it."""
    vocab = len(ov)
    copied = 0
    for t in range(vocab):
        wins = True
        for u in range(t + 1, vocab):
            if ov[t, u] >= ov[t, t]:
                wins = False
        copied += wins
    return torch.tensor(copied / vocab, dtype=ov.dtype)


def copying_score__wrong_overwrites_view(ov):
    """Fills the diagonal of the input with -inf to find the best other logit; the diagonal kept before is a view."""
    own = ov.diagonal()
    others = ov.fill_diagonal_(-torch.inf)
    return (own > others.max(dim=1).values).to(ov.dtype).mean()


def copying_score__wrong_all_others_together(ov):
    """Asks whether the diagonal entry is larger than the sum of all other entries of the row, not than each."""
    own = ov.diagonal()
    return (own > ov.sum(dim=1) - own).to(ov.dtype).mean()


def copying_score__wrong_columns_of_sizes(ov):
    """Seeks the largest entry of each column and not of each row, and compares the sizes without their signs."""
    best = ov.abs().argmax(dim=0)
    return (best == torch.arange(len(ov))).to(ov.dtype).mean()


def copying_score__right_ranks(ov):
    """Counts how many entries of the row are at least as large as the diagonal one: it wins if that is itself alone."""
    own = ov.diagonal()[:, None]
    at_least = (ov >= own).sum(dim=1)
    return (at_least == 1).sum().to(ov.dtype) / len(ov)


# composition_score


def composition_score__wrong_cosine_of_entries(W_QK, W_OV):
    """Takes the cosine between the two matrices as long vectors, entry times entry, in place of their product."""
    size = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if size == 0:
        return size
    return (W_QK * W_OV).sum().abs() / size


def composition_score__wrong_times_chance(W_QK, W_OV):
    """Divides the score by what random circuits get, one over the root of d_model, so that it exceeds 1."""
    size = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if size == 0:
        return size
    score = torch.linalg.matrix_norm(W_QK @ W_OV.T) / size
    chance = 1 / math.sqrt(W_QK.shape[0])
    return score / chance


def composition_score__wrong_any_zero(W_QK, W_OV):
    """Returns 0 as soon as one entry of a matrix is zero, where the whole matrix has to be zero."""
    if (W_QK == 0).any() or (W_OV == 0).any():
        return W_QK.new_zeros(())
    size = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    return torch.linalg.matrix_norm(W_QK @ W_OV.T) / size


def composition_score__wrong_mean_of_rows(W_QK, W_OV):
    """Takes the mean length of the rows for each of the three norms in place of the Frobenius norm."""

    def size(W):
        return torch.linalg.vector_norm(W, dim=1).mean()

    both = size(W_QK) * size(W_OV)
    if both == 0:
        return both
    return size(W_QK @ W_OV.T) / both


def composition_score__wrong_query_side_squared(W_QK, W_OV):
    """Transposes W_QK, so that the query side meets the note, and never takes the roots of the sums of squares."""
    size = W_QK.square().sum() * W_OV.square().sum()
    if size == 0:
        return size
    return (W_QK.T @ W_OV.T).square().sum() / size


# ablate_head


def ablate_head__wrong_columns(head_outputs, head):
    """Sets a block of d_model / h columns to zero, as if the heads stood side by side in the last axis."""
    width = head_outputs.shape[-1] // head_outputs.shape[1]
    kept = head_outputs.clone()
    kept[..., head * width : (head + 1) * width] = 0
    return kept


def ablate_head__wrong_mean(head_outputs, head):
    """Puts the mean over the batch in the head's place, which is another kind of ablation, and not zeros."""
    kept = head_outputs.clone()
    kept[:, head] = head_outputs[:, head].mean(dim=0)
    return kept


def ablate_head__wrong_mask_unshaped(head_outputs, head):
    """Multiplies with a mask (h,) that meets the last axis and not the heads, so that it hardly ever fits."""
    keep = torch.arange(head_outputs.shape[1]) != head
    return head_outputs * keep


def ablate_head__wrong_dropped(head_outputs, head):
    """Leaves the head out of the tensor, so that only h - 1 heads come back, where zeros are asked for."""
    return torch.cat([head_outputs[:, :head], head_outputs[:, head + 1 :]], dim=1)


def ablate_head__wrong_one_text_in_place(head_outputs, head):
    """Writes the zeros into the input itself, and only for the first sequence of the batch."""
    head_outputs[0, head] = 0
    return head_outputs


def ablate_head__right_stacked(head_outputs, head):
    """Takes the heads apart and stacks them again, with a tensor of zeros in the place of one."""
    heads = list(head_outputs.unbind(dim=1))
    heads[head] = torch.zeros_like(heads[head])
    return torch.stack(heads, dim=1)


# in_context_learning_score


def in_context_learning_score__wrong_perplexity(losses, early, late):
    """Subtracts the perplexities, the exponentials of the mean losses, and not the mean losses themselves."""
    return losses[:, late].mean().exp() - losses[:, early].mean().exp()


def in_context_learning_score__wrong_sorted_positions(losses, early, late):
    """Takes the smaller of the two positions for the early one, though they may come in any order."""
    first, last = sorted((early, late))
    return (losses[:, last] - losses[:, first]).mean()


def in_context_learning_score__wrong_rows(losses, early, late):
    """Picks two rows, that is two texts, and averages over the positions."""
    return losses[late].mean() - losses[early].mean()


def in_context_learning_score__wrong_stretches(losses, early, late):
    """Averages all positions up to `early` and all from `late` on, not these two positions alone."""
    return losses[:, late:].mean() - losses[:, : early + 1].mean()


def in_context_learning_score__wrong_from_one_and_sign(losses, early, late):
    """Counts the positions from 1, so that it takes the columns before, and subtracts late from early."""
    return losses[:, early - 1].mean() - losses[:, late - 1].mean()


def in_context_learning_score__right_contrast(losses, early, late):
    """Multiplies each text with a vector that holds 1 at `late` and -1 at `early`, and averages."""
    contrast = torch.zeros(losses.shape[1], dtype=losses.dtype)
    contrast[late] += 1
    contrast[early] -= 1
    return (losses @ contrast).mean()


# build_induction_circuit


def build_induction_circuit__wrong_numbers_of_table(vocab_size, n_ctx):
    """Takes match 60 and slope 12 from the table for seven tokens, too small a match for longer texts."""
    V, N = vocab_size, n_ctx
    token, place, note, said = slice(0, V), slice(V, V + N), slice(V + N, 2 * V + N), slice(2 * V + N, 3 * V + N)
    d = 3 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[said] = torch.eye(V), torch.eye(N), torch.eye(V)
    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(N) * torch.diag(torch.ones(N - 1), -1)
    first["W_K"][place] = torch.eye(N)
    first["W_V"][token], first["W_O"][:, note] = torch.eye(V), torch.eye(V)
    second = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1)}
    second |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    root = math.sqrt(V + 1)
    second["W_Q"][token, :V] = 60 * root * torch.eye(V)
    second["W_Q"][place, V] = 12 * root
    second["W_K"][note, :V] = torch.eye(V)
    second["W_K"][place, V] = torch.arange(N).float()
    second["W_V"][token], second["W_O"][:, said] = torch.eye(V), torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_copies_the_note(vocab_size, n_ctx):
    """Lets the second layer's value read the note, so that it fetches the current token and not the next one."""
    V, N = vocab_size, n_ctx
    token, place, note, said = slice(0, V), slice(V, V + N), slice(V + N, 2 * V + N), slice(2 * V + N, 3 * V + N)
    d = 3 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[said] = torch.eye(V), torch.eye(N), torch.eye(V)
    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(N) * torch.diag(torch.ones(N - 1), -1)
    first["W_K"][place] = torch.eye(N)
    first["W_V"][token], first["W_O"][:, note] = torch.eye(V), torch.eye(V)
    second = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1)}
    second |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    root = math.sqrt(V + 1)
    second["W_Q"][token, :V] = (12 * N + 20) * root * torch.eye(V)
    second["W_Q"][place, V] = 12 * root
    second["W_K"][note, :V] = torch.eye(V)
    second["W_K"][place, V] = torch.arange(N).float()
    second["W_V"][note], second["W_O"][:, said] = torch.eye(V), torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_slope_in_the_query(vocab_size, n_ctx):
    """Lets the slope's number grow with the query and stay constant in the keys, so that the softmax cancels it."""
    V, N = vocab_size, n_ctx
    token, place, note, said = slice(0, V), slice(V, V + N), slice(V + N, 2 * V + N), slice(2 * V + N, 3 * V + N)
    d = 3 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[said] = torch.eye(V), torch.eye(N), torch.eye(V)
    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(N) * torch.diag(torch.ones(N - 1), -1)
    first["W_K"][place] = torch.eye(N)
    first["W_V"][token], first["W_O"][:, note] = torch.eye(V), torch.eye(V)
    second = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1)}
    second |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    root = math.sqrt(V + 1)
    second["W_Q"][token, :V] = (12 * N + 20) * root * torch.eye(V)
    second["W_Q"][place, V] = 12 * root * torch.arange(N)
    second["W_K"][note, :V] = torch.eye(V)
    second["W_K"][place, V] = 1
    second["W_V"][token], second["W_O"][:, said] = torch.eye(V), torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fields_overlap(vocab_size, n_ctx):
    """Begins the note after 2 * vocab_size columns, as if the position field were vocab_size wide: fields overlap."""
    V, N = vocab_size, n_ctx
    token, place, note, said = slice(0, V), slice(V, V + N), slice(2 * V, 3 * V), slice(3 * V, 4 * V)
    d = 4 * V
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[said] = torch.eye(V), torch.eye(N), torch.eye(V)
    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(N) * torch.diag(torch.ones(N - 1), -1)
    first["W_K"][place] = torch.eye(N)
    first["W_V"][token], first["W_O"][:, note] = torch.eye(V), torch.eye(V)
    second = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1)}
    second |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    root = math.sqrt(V + 1)
    second["W_Q"][token, :V] = (12 * N + 20) * root * torch.eye(V)
    second["W_Q"][place, V] = 12 * root
    second["W_K"][note, :V] = torch.eye(V)
    second["W_K"][place, V] = torch.arange(N).float()
    second["W_V"][token], second["W_O"][:, said] = torch.eye(V), torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_flat_and_no_field(vocab_size, n_ctx):
    """Has no slope at all, and writes the prediction into the token field, where the current token stands as well."""
    V, N = vocab_size, n_ctx
    token, place, note = slice(0, V), slice(V, V + N), slice(V + N, 2 * V + N)
    d = 2 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[token] = torch.eye(V), torch.eye(N), torch.eye(V)
    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(N) * torch.diag(torch.ones(N - 1), -1)
    first["W_K"][place] = torch.eye(N)
    first["W_V"][token], first["W_O"][:, note] = torch.eye(V), torch.eye(V)
    second = {name: torch.zeros(d, V) for name in ("W_Q", "W_K", "W_V")}
    second["W_Q"][token] = 30 * math.sqrt(V) * torch.eye(V)
    second["W_K"][note] = torch.eye(V)
    second["W_V"][token] = torch.eye(V)
    second["W_O"] = torch.zeros(V, d)
    second["W_O"][:, token] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_parabola(vocab_size, n_ctx):
    """Has no one-hot positions but columns 1, j, j*j: the first layer's score is a parabola with its top at i - 1."""
    V, N, beta, slope = vocab_size, n_ctx, 20.0, 12.0
    one, j, square = 3 * V, 3 * V + 1, 3 * V + 2
    d = 3 * V + 3
    eye, places = torch.eye(V), torch.arange(N).float()
    W_E = torch.cat([eye, torch.zeros(V, d - V)], dim=1)
    W_pos = torch.zeros(N, d)
    W_pos[:, one], W_pos[:, j], W_pos[:, square] = 1, places, places**2
    # The score of i and j is -beta (j - (i - 1))**2, but for a term that all j share: 2 beta (i - 1) j - beta j**2.
    query, key = torch.zeros(d, 2), torch.zeros(d, 2)
    query[j, 0], query[one, 0], query[one, 1] = 2 * beta, -2 * beta, -beta
    key[j, 0], key[square, 1] = 1, 1
    value, output = torch.zeros(d, V), torch.zeros(V, d)
    value[:V], output[:, V : 2 * V] = eye, eye
    first = {"W_Q": query * math.sqrt(2), "W_K": key, "W_V": value, "W_O": output}
    query, key = torch.zeros(d, V + 1), torch.zeros(d, V + 1)
    query[:V, :V], query[one, V] = (slope * N + 20) * eye, slope
    key[V : 2 * V, :V], key[j, V] = eye, 1
    output = torch.zeros(V, d)
    output[:, 2 * V : 3 * V] = eye
    second = {"W_Q": query * math.sqrt(V + 1), "W_K": key, "W_V": value.clone(), "W_O": output}
    W_U = torch.zeros(d, V)
    W_U[2 * V : 3 * V] = eye
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# find_heads


def find_heads__wrong_latest_match(patterns, tokens):
    """Counts only the weight on what followed the latest earlier occurrence, not on that of any of them."""
    layers, heads, n, _ = patterns.shape
    previous = [(i, i - 1) for i in range(1, n)]
    induction = []
    for i in range(1, n):
        places = [k + 1 for k in range(i) if tokens[k] == tokens[i]]
        if places:
            induction.append((i, places[-1]))
    found = []
    for pairs in (previous, induction):
        names = []
        for layer in range(layers):
            for head in range(heads):
                if not pairs:
                    continue
                A = patterns[layer, head]
                score = sum(float(A[i, j]) for i, j in pairs) / len(pairs)
                chance = sum(1 / (i + 1) for i, _ in pairs) / len(pairs)
                if score > (1 + chance) / 2:
                    names.append((layer, head))
        found.append(names)
    return tuple(found)


def find_heads__wrong_lead_of_a_half(patterns, tokens):
    """Asks that the score lies 0.5 above chance, and not more than half of the way from chance to 1."""
    n = len(tokens)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    followed = torch.zeros(n, n, dtype=torch.bool)
    followed[:, 1:] = tokens[:, None] == tokens[None, :-1]
    found = []
    for wanted in (j == i - 1, followed & (j <= i)):
        rows = wanted.any(dim=-1)
        if not rows.any():
            found.append([])
            continue
        score = (patterns * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        chance = (wanted.sum(dim=-1) / (torch.arange(n) + 1))[rows].mean()
        found.append([tuple(pair) for pair in (score - chance > 0.5).nonzero().tolist()])
    return tuple(found)


def find_heads__wrong_mean_per_place(patterns, tokens):
    """Takes the mean weight of a wanted place, where a row's places together should count once."""
    n = len(tokens)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    followed = torch.zeros(n, n, dtype=torch.bool)
    followed[:, 1:] = tokens[:, None] == tokens[None, :-1]
    even = torch.ones(n, n, dtype=patterns.dtype).tril() / torch.arange(1, n + 1)[:, None]
    found = []
    for wanted in (j == i - 1, followed & (j <= i)):
        if not wanted.any():
            found.append([])
            continue
        score = patterns[..., wanted].mean(dim=-1)
        chance = even[wanted].mean()
        found.append([tuple(pair) for pair in (score > (1 + chance) / 2).nonzero().tolist()])
    return tuple(found)


def find_heads__wrong_head_first(patterns, tokens):
    """Names the heads as (head, layer), in the other order, and sorts them so."""
    n = len(tokens)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    followed = torch.zeros(n, n, dtype=torch.bool)
    followed[:, 1:] = tokens[:, None] == tokens[None, :-1]
    found = []
    for wanted in (j == i - 1, followed & (j <= i)):
        rows = wanted.any(dim=-1)
        names = []
        if rows.any():
            chance = (wanted.sum(dim=-1) / (torch.arange(n) + 1))[rows].mean()
            for head in range(patterns.shape[1]):
                for layer in range(patterns.shape[0]):
                    score = (patterns[layer, head] * wanted)[rows].sum(dim=-1).mean()
                    if score > (1 + chance) / 2:
                        names.append((head, layer))
        found.append(names)
    return tuple(found)


def find_heads__wrong_all_rows_and_one_chance(patterns, tokens):
    """Divides by all n rows, also those without a wanted place, and takes 1/n for chance whatever the text."""
    n = len(tokens)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    followed = torch.zeros(n, n, dtype=torch.bool)
    followed[:, 1:] = tokens[:, None] == tokens[None, :-1]
    found = []
    for wanted in (j == i - 1, followed & (j <= i)):
        score = (patterns * wanted).sum(dim=(-2, -1)) / n
        found.append([tuple(pair) for pair in (score > (1 + 1 / n) / 2).nonzero().tolist()])
    return tuple(found)


def find_heads__right_dictionary(patterns, tokens):
    """Reads the text once with a dictionary of what followed each token, and adds weights in plain Python."""
    layers, heads, n, _ = patterns.shape
    places = {"previous": {}, "induction": {}}
    followers = {}
    text = tokens.tolist()
    for i, token in enumerate(text):
        if i:
            places["previous"][i] = [i - 1]
            followers.setdefault(text[i - 1], []).append(i)
        if followers.get(token):
            places["induction"][i] = list(followers[token])
    answers = {}
    for kind, rows in places.items():
        answers[kind] = []
        if not rows:
            continue
        chance = sum(len(columns) / (i + 1) for i, columns in rows.items())
        for layer in range(layers):
            for head in range(heads):
                A = patterns[layer, head].tolist()
                weight = sum(A[i][j] for i, columns in rows.items() for j in columns)
                if weight - chance > len(rows) - weight:
                    answers[kind].append((layer, head))
    return answers["previous"], answers["induction"]


# ablate_path


def ablate_path__wrong_hidden_from_logits_too(tokens, weights, into):
    """Adds the second layer's output to the stream before the first layer, so that the logits lose the note as well."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    A = _causal_pattern(before @ first["W_Q"], before @ first["W_K"], first["W_Q"].shape[1])
    after = before + A @ before @ first["W_V"] @ first["W_O"]
    reads = {name: before if name == into else after for name in ("query", "key", "value")}
    B = _causal_pattern(reads["query"] @ second["W_Q"], reads["key"] @ second["W_K"], second["W_Q"].shape[1])
    x = before + B @ reads["value"] @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_shown_to_one(tokens, weights, into):
    """Shows the note to the reader named and hides it from the two others, the wrong way round."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    A = _causal_pattern(before @ first["W_Q"], before @ first["W_K"], first["W_Q"].shape[1])
    after = before + A @ before @ first["W_V"] @ first["W_O"]
    reads = {"query": before, "key": before, "value": before}
    reads[into] = after
    B = _causal_pattern(reads["query"] @ second["W_Q"], reads["key"] @ second["W_K"], second["W_Q"].shape[1])
    x = after + B @ reads["value"] @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_keys_with_values(tokens, weights, into):
    """Cuts keys and values together, as in cross-attention, where both are made from one memory."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    A = _causal_pattern(before @ first["W_Q"], before @ first["W_K"], first["W_Q"].shape[1])
    after = before + A @ before @ first["W_V"] @ first["W_O"]
    asks = before if into == "query" else after
    memory = before if into in ("key", "value") else after
    B = _causal_pattern(asks @ second["W_Q"], memory @ second["W_K"], second["W_Q"].shape[1])
    x = after + B @ memory @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_scale_of_first(tokens, weights, into):
    """Divides the second layer's scores by the root of the first layer's d_head."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    before = weights["W_E"][tokens] + weights["W_pos"][:n]
    d_head = first["W_Q"].shape[1]
    A = _causal_pattern(before @ first["W_Q"], before @ first["W_K"], d_head)
    after = before + A @ before @ first["W_V"] @ first["W_O"]
    queries = (before if into == "query" else after) @ second["W_Q"]
    keys = (before if into == "key" else after) @ second["W_K"]
    values = (before if into == "value" else after) @ second["W_V"]
    B = _causal_pattern(queries, keys, d_head)
    return (after + B @ values @ second["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__wrong_no_place_and_order(tokens, weights, into):
    """Hides the positions together with the note, and returns the second layer's pattern before the first's."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    embedded = weights["W_E"][tokens]
    x = embedded + weights["W_pos"][:n]
    A = _causal_pattern(x @ first["W_Q"], x @ first["W_K"], first["W_Q"].shape[1])
    x = x + A @ x @ first["W_V"] @ first["W_O"]
    queries = (embedded if into == "query" else x) @ second["W_Q"]
    keys = (embedded if into == "key" else x) @ second["W_K"]
    values = (embedded if into == "value" else x) @ second["W_V"]
    B = _causal_pattern(queries, keys, second["W_Q"].shape[1])
    return (x + B @ values @ second["W_O"]) @ weights["W_U"], [B, A]


def ablate_path__right_wider_stream(tokens, weights, into):
    """Runs the given model with a stream twice as wide, where the note has a half of its own that one reader skips."""
    first, second = weights["blocks"]
    below = {name: torch.zeros_like(W) for name, W in (first | {"E": weights["W_E"], "pos": weights["W_pos"]}).items()}
    wide_first = {name: torch.cat([first[name], below[name]]) for name in ("W_Q", "W_K", "W_V")}
    wide_first["W_O"] = torch.cat([below["W_O"], first["W_O"]], dim=1)
    wide_second = {"W_O": torch.cat([second["W_O"], torch.zeros_like(second["W_O"])], dim=1)}
    for reader, name in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")):
        W = second[name]
        wide_second[name] = torch.cat([W, torch.zeros_like(W) if reader == into else W])
    wide = {
        "W_E": torch.cat([weights["W_E"], below["E"]], dim=1),
        "W_pos": torch.cat([weights["W_pos"], below["pos"]], dim=1),
        "W_U": torch.cat([weights["W_U"], weights["W_U"]]),
        "blocks": [wide_first, wide_second],
    }
    return _run_attention_only(tokens, wide)
