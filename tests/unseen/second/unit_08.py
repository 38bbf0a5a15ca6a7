import math

import numpy as np
import torch
import torch.nn.functional as F


# Given by the notebook.
def run_attention_only(tokens, weights):
    """A causal transformer of two layers with one head each: (logits, patterns)."""
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


# Right versions of earlier exercises.
def previous_token_score(weights):
    n = weights.shape[-1]
    return weights.diagonal(-1, -2, -1).sum(-1) / max(n - 1, 1)


# 8.1 ------------------------------------------------------------------------------------------------------------------


def repeated_sequences__wrong_each_token_repeated(batch, period, repeats, vocab_size, generator):
    """The index is divided by `repeats`, so every token stands several times in a row: a a b b c c."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    index = torch.arange(period * repeats) // repeats
    return block[:, index]


def repeated_sequences__wrong_new_draw_per_copy(batch, period, repeats, vocab_size, generator):
    """The draw stands inside of the list, so each copy is another block."""
    copies = [torch.randint(vocab_size, (batch, period), generator=generator) for _ in range(repeats)]
    return torch.cat(copies, dim=1)


def repeated_sequences__wrong_rows_mixed_by_view(batch, period, repeats, vocab_size, generator):
    """The copies are stacked along the batch axis and then reshaped, so that a row holds blocks of different rows."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    stacked = block.repeat(repeats, 1)
    return stacked.reshape(batch, repeats * period)


def repeated_sequences__wrong_last_id_never_drawn(batch, period, repeats, vocab_size, generator):
    """The upper end of randint is taken for inclusive: the id vocab_size - 1 never occurs."""
    block = torch.randint(0, max(vocab_size - 1, 1), (batch, period), generator=generator)
    return torch.tile(block, (1, repeats))


def repeated_sequences__wrong_same_block_all_rows(batch, period, repeats, vocab_size, generator):
    """One block is drawn and given to all rows."""
    tokens = torch.empty(batch, period * repeats, dtype=torch.int64)
    block = torch.randint(vocab_size, (period,), generator=generator)
    for b in range(batch):
        for r in range(repeats):
            tokens[b, r * period : (r + 1) * period] = block
    return tokens


def repeated_sequences__right_copy_from_earlier(batch, period, repeats, vocab_size, generator):
    """Fills the first block, then copies column after column from one period ago."""
    n = period * repeats
    tokens = torch.zeros(batch, n, dtype=torch.int64)
    tokens[:, :period] = torch.randint(vocab_size, (batch, period), generator=generator)
    for i in range(period, n):
        tokens[:, i] = tokens[:, i - period]
    return tokens


# 8.2 ------------------------------------------------------------------------------------------------------------------


def previous_token_score__wrong_nan_for_one_token(weights):
    """For n = 1 the mean of nothing is taken: NaN."""
    below = torch.diagonal(weights, offset=-1, dim1=-2, dim2=-1)
    return below.mean(dim=-1)


def previous_token_score__wrong_share_of_argmax(weights):
    """Counts in how many rows the previous token has the largest weight, in place of the mean weight."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    looked_at = weights[..., 1:, :].argmax(dim=-1)
    hits = looked_at == torch.arange(n - 1)
    return hits.to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_last_row_left_out(weights):
    """The loop runs to n - 2 only: the last position is not counted."""
    n = weights.size(-1)
    total = torch.zeros_like(weights[..., 0, 0])
    count = 0
    for i in range(1, n - 1):
        total = total + weights[..., i, i - 1]
        count += 1
    return total / max(count, 1)


def previous_token_score__wrong_renormalised_causal(weights):
    """Masks the later keys and renormalises each row first, though nothing is to be assumed of the pattern."""
    n = weights.shape[-1]
    causal = weights.tril()
    causal = causal / causal.sum(dim=-1, keepdim=True)
    return causal.diagonal(-1, -2, -1).sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_roll_counts_row_0(weights):
    """Rolls the columns and averages the whole main diagonal: row 0 comes in with the weight on the last key."""
    shifted = torch.roll(weights, shifts=1, dims=-1)
    if weights.shape[-1] == 1:
        return 0 * weights[..., 0, 0]
    return torch.einsum("...ii->...i", shifted).mean(-1)


def previous_token_score__right_strided_flat_view(weights):
    """Every (n + 1)-th entry of the flattened pattern from entry n on is below the diagonal."""
    n = weights.shape[-1]
    picked = weights.flatten(-2)[..., n :: n + 1]
    return picked.sum(dim=-1) / max(picked.shape[-1], 1)


# 8.3 ------------------------------------------------------------------------------------------------------------------


def prefix_matching_score__wrong_same_token(weights, period):
    """Looks one whole period back, at the same token, and not at the one after it."""
    n = weights.shape[-1]
    score = torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    rows = range(period, n)
    for i in rows:
        score = score + weights[..., i, i - period]
    return score / len(rows) if len(rows) else score


def prefix_matching_score__wrong_slice_gives_previous(weights, period):
    """Rows from period on and columns from period - 1 on: the diagonal of this piece is the previous token."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    piece = weights[..., period:, period - 1 :]
    return piece.diagonal(dim1=-2, dim2=-1).mean(dim=-1)


def prefix_matching_score__wrong_guard_misses_equality(weights, period):
    """n = period is let through the guard, and the mean of nothing is NaN."""
    n = weights.shape[-1]
    if n < period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    diagonal = torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1)
    return diagonal[..., 1:].mean(dim=-1)


def prefix_matching_score__wrong_whole_blocks_only(weights, period):
    """The rows of a last block that breaks off are left out."""
    blocks = weights.shape[-1] // period
    rows = torch.arange(period, max(blocks * period, period))
    looked = weights[..., rows, rows - (period - 1)]
    if rows.numel() == 0:
        return looked.sum(-1)
    return looked.sum(-1) / len(rows)


def prefix_matching_score__wrong_other_end_dropped(weights, period):
    """Drops the last entry of the diagonal in place of the first: row period - 1 counts, row n - 1 does not."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(()).expand(weights.shape[:-2])
    line = weights.diagonal(offset=-(period - 1), dim1=-2, dim2=-1)
    return line[..., :-1].mean(-1)


def prefix_matching_score__right_gather(weights, period):
    """Gathers one column for each row that counts; the sum over no rows is 0."""
    n = weights.shape[-1]
    late = weights[..., period:, :]
    columns = torch.arange(late.shape[-2]) + 1
    index = columns[:, None].expand(*late.shape[:-1], 1)
    return late.gather(-1, index)[..., 0].sum(-1) / max(n - period, 1)


# 8.4 ------------------------------------------------------------------------------------------------------------------


def ov_circuit__wrong_einsum_transposed(W_E, W_V, W_O, W_U):
    """The output indices stand the wrong way round: row = logit, column = token attended to."""
    return torch.einsum("tm,mv,vk,ku->ut", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_scaled_by_width(W_E, W_V, W_O, W_U):
    """Divides by the root of the head's width, as if these were scores."""
    d_v = W_V.shape[1]
    W_OV = W_V @ W_O / math.sqrt(d_v)
    return W_E @ W_OV @ W_U


def ov_circuit__wrong_direct_path_added(W_E, W_V, W_O, W_U):
    """Adds the embedding itself, the residual connection, to what the head writes."""
    stream = W_E.clone()
    stream = stream + stream @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_rows_centred(W_E, W_V, W_O, W_U):
    """Subtracts the mean of each row, as if only differences of logits were asked for."""
    logits = (W_E @ W_V) @ (W_O @ W_U)
    return logits - logits.mean(dim=1, keepdim=True)


def ov_circuit__wrong_tied_unembedding(W_E, W_V, W_O, W_U):
    """Reads the logits off with the transposed embedding and never uses W_U."""
    written = torch.matmul(torch.matmul(W_E, W_V), W_O)
    return torch.matmul(written, W_E.transpose(0, 1))


def ov_circuit__right_sum_of_outer_products(W_E, W_V, W_O, W_U):
    """One outer product for each column of the value, summed."""
    values, effects = W_E @ W_V, W_O @ W_U
    result = torch.zeros(W_E.shape[0], W_U.shape[1], dtype=W_E.dtype)
    for value, effect in zip(values.unbind(1), effects.unbind(0)):
        result = result + value[:, None] * effect[None, :]
    return result


# 8.5 ------------------------------------------------------------------------------------------------------------------


def copying_score__wrong_zero_on_diagonal_competes(ov):
    """The diagonal is replaced by 0 before the maximum of the others: a negative diagonal entry can never win."""
    own = ov.diagonal()
    others = ov - torch.diag(own)
    return (own > others.max(dim=1).values).float().mean()


def copying_score__wrong_eigenvalue_formula(ov):
    """The eigenvalue score of Elhage et al., and not the share of rows."""
    eigenvalues = torch.linalg.eigvals(ov)
    return (eigenvalues.sum() / eigenvalues.abs().sum()).real


def copying_score__wrong_probability_over_half(ov):
    """Asks for a softmax probability above one half, which a small lead does not give."""
    probabilities = torch.softmax(ov, dim=-1)
    copied = torch.diagonal(probabilities) > 0.5
    return copied.to(ov.dtype).mean()


def copying_score__wrong_compares_in_column(ov):
    """Compares the diagonal entry with its column in place of its row."""
    vocab = len(ov)
    copied = 0
    for t in range(vocab):
        others = torch.cat([ov[:t, t], ov[t + 1 :, t]])
        if bool((ov[t, t] > others).all()):
            copied += 1
    return copied / vocab


def copying_score__wrong_largest_in_size(ov):
    """Takes the entry of the largest absolute value for the largest."""
    best = ov.abs().argmax(dim=1)
    return (best == torch.arange(ov.shape[0])).double().mean().to(ov.dtype)


def copying_score__right_rank_of_diagonal(ov):
    """A row copies if exactly one of its entries, the diagonal one itself, is as large as the diagonal one."""
    as_large = ov >= ov.diagonal().unsqueeze(1)
    return as_large.sum(dim=1).eq(1).to(ov.dtype).mean()


# 8.6 ------------------------------------------------------------------------------------------------------------------


def composition_score__wrong_q_composition(W_QK, W_OV):
    """The note enters on the query side: W_OV W_QK."""
    sizes = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if sizes == 0:
        return W_QK.new_zeros(())
    return torch.linalg.matrix_norm(W_OV @ W_QK) / sizes


def composition_score__wrong_only_ov_guarded(W_QK, W_OV):
    """Only a zero W_OV is caught; a zero W_QK gives NaN."""
    written = (W_OV**2).sum().sqrt()
    if written == 0:
        return torch.zeros((), dtype=W_OV.dtype)
    read = (W_QK**2).sum().sqrt()
    return ((W_QK @ W_OV.T) ** 2).sum().sqrt() / (read * written)


def composition_score__wrong_no_roots(W_QK, W_OV):
    """The roots are left out: this is the square of the score."""

    def size(M):
        return M.square().sum()

    bottom = size(W_QK) * size(W_OV)
    return size(W_QK @ W_OV.mT) / bottom if bottom > 0 else 0 * bottom


def composition_score__wrong_chance_subtracted(W_QK, W_OV):
    """Subtracts what random circuits score, 1/sqrt(d_model)."""
    a, b = W_QK.norm(), W_OV.norm()
    if a == 0 or b == 0:
        return torch.tensor(0.0, dtype=W_QK.dtype)
    chance = 1 / math.sqrt(W_QK.shape[0])
    return (W_QK @ W_OV.T).norm() / (a * b) - chance


def composition_score__wrong_cosine_of_entries(W_QK, W_OV):
    """Multiplies entry by entry and sums: the cosine of two flattened matrices, no matrix product."""
    top = (W_QK * W_OV).sum().abs()
    bottom = torch.linalg.vector_norm(W_QK) * torch.linalg.vector_norm(W_OV)
    return torch.where(bottom == 0, torch.zeros_like(bottom), top / bottom.clamp(min=torch.finfo(bottom.dtype).tiny))


def composition_score__right_normalised_first(W_QK, W_OV):
    """Both circuits are brought to size 1 first; a zero circuit stays zero."""

    def unit(W):
        size = torch.linalg.vector_norm(W)
        return W / size if size > 0 else W

    return torch.linalg.vector_norm(torch.einsum("ij,kj->ik", unit(W_QK), unit(W_OV)))


# 8.7 ------------------------------------------------------------------------------------------------------------------


def ablate_head__wrong_others_rescaled(head_outputs, head):
    """The other heads are scaled up to make up for the missing one, as dropout does."""
    h = head_outputs.shape[1]
    keep = torch.ones(h, dtype=head_outputs.dtype)
    keep[head] = 0
    keep = keep * h / max(h - 1, 1)
    return head_outputs * keep[None, :, None, None]


def ablate_head__wrong_mean_put_in(head_outputs, head):
    """Puts in the head's mean over the batch, another kind of ablation, in place of zeros."""
    result = head_outputs.clone()
    result[:, head] = head_outputs[:, head].mean(dim=0, keepdim=True)
    return result


def ablate_head__wrong_axes_taken_as_n_h(head_outputs, head):
    """Reads the memory as (B, n, h, d_model) by a reshape, and so zeroes pieces of several heads."""
    B, h, n, d_model = head_outputs.shape
    apart = head_outputs.clone().reshape(B, n, h, d_model)
    apart[:, :, head] = 0
    return apart.reshape(B, h, n, d_model)


def ablate_head__wrong_gradient_cut(head_outputs, head):
    """The copy is detached: no gradient flows."""
    copy = head_outputs.detach().clone()
    copy[:, head, :, :] = 0.0
    return copy


def ablate_head__wrong_only_this_head_kept(head_outputs, head):
    """The mask is the wrong way round: all heads but this one become zero."""
    chosen = F.one_hot(torch.tensor(head), head_outputs.shape[1]).to(head_outputs.dtype)
    return torch.einsum("bhnd,h->bhnd", head_outputs, chosen)


def ablate_head__right_unbind_and_stack(head_outputs, head):
    """Takes the heads apart and stacks them again, with zeros in one place."""
    heads = list(torch.unbind(head_outputs, dim=1))
    heads[head] = torch.zeros_like(heads[head])
    return torch.stack(heads, dim=1)


# 8.8 ------------------------------------------------------------------------------------------------------------------


def in_context_learning_score__wrong_positions_sorted(losses, early, late):
    """Swaps the two positions if `early` is the larger one, though they may come in any order."""
    early, late = sorted((early, late))
    return losses[:, late].mean() - losses[:, early].mean()


def in_context_learning_score__wrong_all_before_and_after(losses, early, late):
    """Averages everything up to `early` and everything from `late` on."""
    beginning = losses[:, : early + 1].mean()
    end = losses[:, late:].mean()
    return end - beginning


def in_context_learning_score__wrong_slope_per_token(losses, early, late):
    """Divides the difference by the distance of the two positions."""
    by_position = losses.mean(dim=0)
    distance = late - early
    return (by_position[late] - by_position[early]) / (distance if distance else 1)


def in_context_learning_score__wrong_median(losses, early, late):
    """Takes the median over the batch, not the mean."""
    difference = losses[:, late].median() - losses[:, early].median()
    return difference


def in_context_learning_score__wrong_relative(losses, early, late):
    """Gives the fall as a share of the early loss."""
    total_early = sum(row[early] for row in losses) / len(losses)
    total_late = sum(row[late] for row in losses) / len(losses)
    return (total_late - total_early) / total_early


def in_context_learning_score__right_diff_of_pair(losses, early, late):
    """Selects the two columns, averages, and lets torch.diff subtract."""
    pair = losses.index_select(1, torch.tensor([early, late]))
    return pair.mean(dim=0).diff()[0]


# 8.9 ------------------------------------------------------------------------------------------------------------------


def build_induction_circuit__wrong_no_slope(vocab_size, n_ctx):
    """All matches have the same score: position 0, and older matches, share the weight."""
    V, n = vocab_size, n_ctx
    d = 3 * V + n
    token, note, out, place = slice(0, V), slice(V, 2 * V), slice(2 * V, 3 * V), slice(3 * V, d)
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n, d), torch.zeros(d, V)
    W_E[:, token] = torch.eye(V)
    W_pos[:, place] = torch.eye(n)
    W_U[out] = torch.eye(V)
    first = {name: torch.zeros(d, n) for name in ("W_Q", "W_K")}
    first["W_Q"][place] = 40 * math.sqrt(n) * torch.eye(n)
    first["W_K"][place] = torch.diag(torch.ones(n - 1), 1)
    first["W_V"], first["W_O"] = torch.zeros(d, V), torch.zeros(V, d)
    first["W_V"][token] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)
    second = {name: torch.zeros(d, V) for name in ("W_Q", "W_K", "W_V")}
    second["W_Q"][token] = 40 * math.sqrt(V) * torch.eye(V)
    second["W_K"][note] = torch.eye(V)
    second["W_V"][token] = torch.eye(V)
    second["W_O"] = torch.zeros(V, d)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_root_not_undone(vocab_size, n_ctx):
    """The first layer's scores forget the division by the root of the head's width: the note fades in long texts."""
    V, n = vocab_size, n_ctx

    def put(rows, columns, at, what):
        W = torch.zeros(rows, columns)
        W[at[0] : at[0] + what.shape[0], at[1] : at[1] + what.shape[1]] = what
        return W

    d = 3 * V + n + 2
    I, P = torch.eye(V), torch.eye(n)
    steps = torch.stack([torch.arange(n).float(), torch.ones(n)], dim=1)
    slope, match = 8.0, 8.0 * n + 30
    W_pos = put(n, d, (0, 3 * V), P) + put(n, d, (0, 3 * V + n), steps)
    first = dict(
        W_Q=put(d, n, (3 * V, 0), 30 * P),
        W_K=put(d, n, (3 * V, 0), torch.diag(torch.ones(n - 1), 1)),
        W_V=put(d, V, (0, 0), I),
        W_O=put(V, d, (0, V), I),
    )
    gain = math.sqrt(V + 1)
    second = dict(
        W_Q=put(d, V + 1, (0, 0), gain * match * I) + put(d, V + 1, (d - 1, V), gain * slope * torch.ones(1, 1)),
        W_K=put(d, V + 1, (V, 0), I) + put(d, V + 1, (d - 2, V), torch.ones(1, 1)),
        W_V=put(d, V, (0, 0), I),
        W_O=put(V, d, (0, 2 * V), I),
    )
    return dict(W_E=put(V, d, (0, 0), I), W_pos=W_pos, W_U=put(d, V, (2 * V, 0), I), blocks=[first, second])


def build_induction_circuit__wrong_slope_beats_match(vocab_size, n_ctx):
    """The score of a match is fixed, so in a long text the slope outweighs it and late positions look at themselves."""
    V, n = vocab_size, n_ctx
    d = 3 * V + n
    weights = {"W_E": torch.zeros(V, d), "W_pos": torch.zeros(n, d), "W_U": torch.zeros(d, V), "blocks": []}
    for widths in ((n, V), (V + 1, V)):
        weights["blocks"].append(
            {
                "W_Q": torch.zeros(d, widths[0]),
                "W_K": torch.zeros(d, widths[0]),
                "W_V": torch.zeros(d, widths[1]),
                "W_O": torch.zeros(widths[1], d),
            }
        )
    first, second = weights["blocks"]
    for t in range(V):
        weights["W_E"][t, t] = 1
        weights["W_U"][2 * V + t, t] = 1
        first["W_V"][t, t] = first["W_O"][t, V + t] = 1
        second["W_Q"][t, t] = 100 * math.sqrt(V + 1)
        second["W_K"][V + t, t] = 1
        second["W_V"][t, t] = second["W_O"][t, 2 * V + t] = 1
    for i in range(n):
        weights["W_pos"][i, 3 * V + i] = 1
        first["W_Q"][3 * V + i, i] = 50 * math.sqrt(n)
        if i + 1 < n:
            first["W_K"][3 * V + i, i + 1] = 1
        second["W_Q"][3 * V + i, V] = 6 * math.sqrt(V + 1)
        second["W_K"][3 * V + i, V] = i
    return weights


def build_induction_circuit__wrong_values_read_note(vocab_size, n_ctx):
    """The second layer's values read the note in place of the token: the current token is predicted again."""
    d_model = 3 * vocab_size + n_ctx + 1
    eye = torch.eye(vocab_size)
    fields = {"token": 0, "note": vocab_size, "answer": 2 * vocab_size}

    def read(field, width, scale=1.0):
        W = torch.zeros(d_model, width)
        start = fields[field]
        W[start : start + vocab_size, :vocab_size] = scale * eye
        return W

    def write(field):
        return read(field, vocab_size).T.clone()

    W_pos = torch.zeros(n_ctx, d_model)
    W_pos[:, 3 * vocab_size : -1] = torch.eye(n_ctx)
    W_pos[:, -1] = 1
    Q1, K1 = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    Q1[3 * vocab_size + 1 : -1, :-1] = torch.eye(n_ctx - 1)
    K1[3 * vocab_size : -1] = 60 * n_ctx**0.5 * torch.eye(n_ctx)
    match = 10.0 * n_ctx + 40
    Q2 = read("token", vocab_size + 1, match)
    Q2[-1, -1] = 10.0
    K2 = read("note", vocab_size + 1)
    K2[3 * vocab_size : -1, -1] = torch.arange(n_ctx).float()
    Q2 = Q2 * (vocab_size + 1) ** 0.5
    return {
        "W_E": write("token"),
        "W_pos": W_pos,
        "W_U": read("answer", vocab_size),
        "blocks": [
            {"W_Q": Q1, "W_K": K1, "W_V": read("token", vocab_size), "W_O": write("note")},
            {"W_Q": Q2, "W_K": K2, "W_V": read("note", vocab_size), "W_O": write("answer")},
        ],
    }


def build_induction_circuit__wrong_logits_prefer_own_token(vocab_size, n_ctx):
    """What is copied is added to the token's own field with the same size, so the current token is named again."""
    V, n = vocab_size, n_ctx
    zeros, I, N = torch.zeros, torch.eye(V), torch.eye(n)
    W_E = torch.cat([I, zeros(V, V), zeros(V, n), zeros(V, 1)], dim=1)
    W_pos = torch.cat([zeros(n, 2 * V), N, torch.ones(n, 1)], dim=1)
    W_U = torch.cat([I, zeros(V + n + 1, V)])
    ahead = torch.roll(N, 1, dims=1)
    ahead[-1] = 0
    first = {
        "W_Q": torch.cat([zeros(2 * V, n), 100 * n**0.5 * N, zeros(1, n)]),
        "W_K": torch.cat([zeros(2 * V, n), ahead, zeros(1, n)]),
        "W_V": torch.cat([I, zeros(V + n + 1, V)]),
        "W_O": torch.cat([zeros(V, V), I, zeros(V, n + 1)], dim=1),
    }
    a = (V + 1) ** 0.5
    slope = 7 * torch.arange(n).float()[:, None]
    second = {
        "W_Q": torch.cat(
            [
                torch.cat([(7 * n + 50) * a * I, zeros(V, 1)], dim=1),
                zeros(V + n, V + 1),
                torch.cat([zeros(1, V), a * torch.ones(1, 1)], dim=1),
            ]
        ),
        "W_K": torch.cat(
            [
                zeros(V, V + 1),
                torch.cat([I, zeros(V, 1)], dim=1),
                torch.cat([zeros(n, V), slope], dim=1),
                zeros(1, V + 1),
            ]
        ),
        "W_V": torch.cat([I, zeros(V + n + 1, V)]),
        "W_O": torch.cat([I, zeros(V, V + n + 1)], dim=1),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_positions_on_a_circle(vocab_size, n_ctx):
    """Positions are angles, in a head of width 2; the copy, four times as large, goes to the token's field."""
    V, n = vocab_size, n_ctx
    d = 2 * V + 4  # token, note, cosine, sine, number, one
    angle = 2 * math.pi / n
    turn = angle * torch.arange(n, dtype=torch.float64)
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n, d), torch.zeros(d, V)
    W_E[:, :V] = torch.eye(V)
    W_pos[:, -4], W_pos[:, -3] = turn.cos().float(), turn.sin().float()
    W_pos[:, -2], W_pos[:, -1] = torch.arange(n).float(), 1
    W_U[:V] = torch.eye(V)

    lead = 40 / (1 - math.cos(angle)) * math.sqrt(2)
    c, s = math.cos(angle), math.sin(angle)
    Q1, K1 = torch.zeros(d, 2), torch.zeros(d, 2)
    Q1[-4:-2] = lead * torch.tensor([[c, -s], [s, c]])
    K1[-4:-2] = torch.eye(2)
    V1, O1 = torch.zeros(d, V), torch.zeros(V, d)
    V1[:V], O1[:, V : 2 * V] = torch.eye(V), torch.eye(V)

    slope, root = 12.0, math.sqrt(V + 1)
    Q2, K2 = torch.zeros(d, V + 1), torch.zeros(d, V + 1)
    Q2[:V, :V] = root * slope * (n + 2) * torch.eye(V)
    K2[V : 2 * V, :V] = torch.eye(V)
    Q2[-1, V], K2[-2, V] = root * slope, 1
    V2, O2 = V1.clone(), torch.zeros(V, d)
    O2[:, :V] = 4 * torch.eye(V)
    blocks = [dict(W_Q=Q1, W_K=K1, W_V=V1, W_O=O1), dict(W_Q=Q2, W_K=K2, W_V=V2, W_O=O2)]
    return dict(W_E=W_E, W_pos=W_pos, W_U=W_U, blocks=blocks)


# 8.10 -----------------------------------------------------------------------------------------------------------------


def find_heads__wrong_fixed_threshold(patterns, tokens):
    """Half of the weight counts as enough, whatever evenly spread attention would get in this text."""
    layers, heads, n, _ = patterns.shape
    followed = torch.zeros(n, n, dtype=torch.bool)
    followed[:, 1:] = tokens[:, None] == tokens[None, :-1]
    followed = followed.tril()
    before = torch.ones(n, n, dtype=torch.bool).tril(-1) & ~torch.ones(n, n, dtype=torch.bool).tril(-2)

    def found(places):
        rows = places.any(dim=1)
        if not rows.any():
            return []
        scores = (patterns * places).sum(-1)[..., rows].mean(-1)
        return [(a, b) for a in range(layers) for b in range(heads) if scores[a, b] > 0.5]

    return found(before), found(followed)


def find_heads__wrong_itself_excluded(patterns, tokens):
    """Keys must lie strictly before the query, so the second of two twins may not look at itself."""
    n_layers, n_heads, n, _ = patterns.shape
    text = tokens.tolist()
    previous_places = {i: [i - 1] for i in range(1, n)}
    induction_places = {}
    for i in range(n):
        columns = [j for j in range(1, i) if text[j - 1] == text[i]]
        if columns:
            induction_places[i] = columns

    def heads_for(places):
        chosen = []
        if not places:
            return chosen
        chance = sum(len(columns) / (i + 1) for i, columns in places.items()) / len(places)
        for layer in range(n_layers):
            for head in range(n_heads):
                A = patterns[layer, head]
                score = sum(float(A[i, columns].sum()) for i, columns in places.items()) / len(places)
                if score > (1 + chance) / 2:
                    chosen.append((layer, head))
        return chosen

    return heads_for(previous_places), heads_for(induction_places)


def find_heads__wrong_best_place_only(patterns, tokens):
    """Only the largest weight on a matching place counts, so a head that shares its weight among several is missed."""
    n = tokens.shape[0]
    row, column = torch.arange(n)[:, None], torch.arange(n)[None, :]
    left = torch.cat([tokens.new_full((1,), -1), tokens[:-1]])
    masks = (column == row - 1, (left[None, :] == tokens[:, None]) & (column >= 1) & (column <= row))
    result = []
    for mask in masks:
        pairs = []
        useful = mask.any(dim=1)
        if useful.any():
            weight = patterns.masked_fill(~mask, 0).amax(dim=-1)[..., useful].mean(dim=-1)
            even = (mask.sum(1) / torch.arange(1, n + 1))[useful].mean()
            pairs = [tuple(pair) for pair in (weight > (1 + even) / 2).nonzero().tolist()]
        result.append(pairs)
    return tuple(result)


def find_heads__wrong_all_rows_averaged(patterns, tokens):
    """Rows with nothing to find count as zeros in the mean, of the head and of evenly spread attention."""
    L, H, n, _ = patterns.shape
    uniform = torch.tril(torch.ones(n, n, dtype=patterns.dtype))
    uniform = uniform / uniform.sum(-1, keepdim=True)
    previous = torch.diag(torch.ones(n - 1, dtype=patterns.dtype), -1)
    induction = torch.zeros(n, n, dtype=patterns.dtype)
    for i in range(n):
        for j in range(i):
            if tokens[i] == tokens[j]:
                induction[i, j + 1] = 1

    def score(A, target):
        return float((A * target).sum(dim=-1).mean())

    answer = []
    for target in (previous, induction):
        middle = (1 + score(uniform, target)) / 2
        answer.append([(a, b) for a in range(L) for b in range(H) if score(patterns[a, b], target) > middle])
    return answer[0], answer[1]


def find_heads__wrong_last_occurrence_only(patterns, tokens):
    """Only what followed the latest earlier occurrence counts; the places after older ones are ignored."""
    n = len(tokens)
    last_seen, goal = {}, torch.full((n,), -1)
    for i, token in enumerate(tokens.tolist()):
        if token in last_seen:
            goal[i] = last_seen[token] + 1
        last_seen[token] = i
    previous, induction = [], []
    for targets, names in ((torch.arange(n) - 1, previous), (goal, induction)):
        rows = (targets >= 0).nonzero()[:, 0]
        if len(rows) == 0:
            continue
        chance = (1.0 / (rows + 1)).mean()
        for layer, heads in enumerate(patterns):
            for head, A in enumerate(heads):
                if A[rows, targets[rows]].mean() > 0.5 + chance / 2:
                    names.append((layer, head))
    return previous, induction


def find_heads__right_distance_in_einsum(patterns, tokens):
    """All heads at once: for each kind the distance to 1 is compared with the distance to even attention."""
    n = len(tokens)
    seen = torch.ones(n, n, dtype=torch.float64).tril()
    even = seen / seen.sum(dim=1, keepdim=True)
    same = F.pad(tokens[:, None] == tokens[None, :], (1, 0))[:, :n]
    wanted = torch.stack([torch.eye(n).roll(1, 0).tril(-1).double(), same.double().tril()])

    counted = wanted.amax(dim=-1)
    share = counted / counted.sum(dim=-1, keepdim=True).clamp(min=1)
    scores = torch.einsum("lhij,kij,ki->klh", patterns.double(), wanted, share)
    chance = torch.einsum("ij,kij,ki->k", even, wanted, share)[:, None, None]
    nearer = (1 - scores).abs() < (scores - chance).abs()
    nearer &= (scores > chance) & (counted.sum(dim=-1) > 0)[:, None, None]
    lists = [sorted((int(a), int(b)) for a, b in kind.nonzero()) for kind in nearer]
    return lists[0], lists[1]


# 8.11 -----------------------------------------------------------------------------------------------------------------


def ablate_path__wrong_logits_lose_note(tokens, weights, into):
    """The second layer writes into the stream without the note, so the logits are blind to the note as well."""
    n = tokens.shape[1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    first, second = weights["blocks"]

    def pattern(xq, xk, block):
        scores = (xq @ block["W_Q"]) @ (xk @ block["W_K"]).transpose(-1, -2) / math.sqrt(block["W_Q"].shape[1])
        return scores.masked_fill(later, float("-inf")).softmax(-1)

    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    A1 = pattern(x, x, first)
    full = x + A1 @ x @ first["W_V"] @ first["W_O"]
    xq = x if into == "query" else full
    xk = x if into == "key" else full
    xv = x if into == "value" else full
    A2 = pattern(xq, xk, second)
    out = x + A2 @ xv @ second["W_V"] @ second["W_O"]
    return out @ weights["W_U"], [A1, A2]


def ablate_path__wrong_reader_sees_only_note(tokens, weights, into):
    """The reader gets the note alone, and is blind to the embedding in place of the note."""
    n = tokens.size(1)
    mask = torch.tril(torch.ones(n, n)).bool()
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    patterns = []
    note = torch.zeros_like(x)
    for layer, block in enumerate(weights["blocks"]):
        inputs = {"query": x, "key": x, "value": x}
        if layer == 1:
            inputs[into] = note
        q, k, v = (inputs[r] @ block[W] for r, W in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")))
        A = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf).softmax(-1)
        note = A @ v @ block["W_O"]
        x = x + note
        patterns.append(A)
    return x @ weights["W_U"], patterns


def ablate_path__wrong_position_lost_too(tokens, weights, into):
    """The blind reader gets the token embedding without the position."""
    n = tokens.shape[1]
    causal = torch.full((n, n), -torch.inf).triu(1)
    embedded = weights["W_E"][tokens]
    x = embedded + weights["W_pos"][:n]
    one, two = weights["blocks"]
    s1 = torch.einsum("bid,bjd->bij", x @ one["W_Q"], x @ one["W_K"]) / one["W_Q"].shape[1] ** 0.5
    A1 = torch.softmax(s1 + causal.to(s1.dtype), dim=-1)
    y = x + A1 @ x @ one["W_V"] @ one["W_O"]
    q = (embedded if into == "query" else y) @ two["W_Q"]
    k = (embedded if into == "key" else y) @ two["W_K"]
    v = (embedded if into == "value" else y) @ two["W_V"]
    s2 = torch.einsum("bid,bjd->bij", q, k) / two["W_Q"].shape[1] ** 0.5
    A2 = torch.softmax(s2 + causal.to(s2.dtype), dim=-1)
    return (y + A2 @ v @ two["W_O"]) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_width_of_first_layer(tokens, weights, into):
    """Both layers' scores are divided by the root of the first layer's width."""
    first, second = weights["blocks"]
    n = tokens.shape[1]
    scale = math.sqrt(first["W_Q"].shape[1])
    hidden = ~torch.ones(n, n, dtype=torch.bool).tril()
    clean = weights["W_E"][tokens] + weights["W_pos"][:n]

    def attend(queries, keys, values, block):
        scores = (queries @ block["W_Q"]) @ (keys @ block["W_K"]).mT / scale
        A = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        return A @ values @ block["W_V"] @ block["W_O"], A

    note, A1 = attend(clean, clean, clean, first)
    noted = clean + note
    readers = [clean if into == name else noted for name in ("query", "key", "value")]
    added, A2 = attend(*readers, second)
    return (noted + added) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_only_this_reader_sees(tokens, weights, into):
    """The other way round: the two others are blind and the named reader sees the note."""
    n = tokens.shape[1]
    allowed = torch.ones(n, n, dtype=torch.bool).tril()
    streams = [weights["W_E"][tokens] + weights["W_pos"][:n]]
    patterns = []
    for layer in range(2):
        block = weights["blocks"][layer]
        read = dict.fromkeys(("query", "key", "value"), streams[0])
        read[into] = streams[-1]
        Q, K, V = read["query"] @ block["W_Q"], read["key"] @ block["W_K"], read["value"] @ block["W_V"]
        scores = Q @ K.mT / math.sqrt(Q.shape[-1])
        scores = torch.where(allowed, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
        patterns.append(scores.softmax(dim=-1))
        streams.append(streams[-1] + patterns[-1] @ V @ block["W_O"])
    return streams[-1] @ weights["W_U"], patterns


def ablate_path__right_note_projected_away(tokens, weights, into):
    """Runs both layers on the full stream, and takes the note's share out of the one projection."""
    n = tokens.shape[1]
    blocked = torch.ones(n, n, dtype=torch.bool).triu(1)
    stream, written, patterns = weights["W_E"][tokens] + weights["W_pos"][:n], None, []
    for block in weights["blocks"]:
        parts = {name: stream @ block[W] for name, W in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V"))}
        if written is not None:
            W = block[{"query": "W_Q", "key": "W_K", "value": "W_V"}[into]]
            parts[into] = parts[into] - written @ W
        scores = parts["query"] @ parts["key"].mT * block["W_K"].shape[1] ** -0.5
        A = torch.softmax(scores.masked_fill(blocked, -torch.inf), dim=-1)
        patterns.append(A)
        written = (A @ parts["value"]) @ block["W_O"]
        stream = stream + written
    return stream @ weights["W_U"], patterns
