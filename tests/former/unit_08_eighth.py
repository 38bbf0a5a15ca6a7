"""Unit 8, induction heads: answers as students would hand them in, four wrong and one right for each exercise."""

import math

import torch
import torch.nn.functional as F

# ---------------------------------------------------------------- 8.1 repeated_sequences


def repeated_sequences__wrong_eighth_each_token_repeated_in_place(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Expands a new last axis and flattens it, so every token is repeated on the spot: a a b b c c."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = block.unsqueeze(-1).expand(batch, period, repeats)
    return copies.flatten(start_dim=1)


def repeated_sequences__wrong_eighth_new_block_for_each_copy(
    batch, period, repeats, vocab_size, generator
):
    """Draws inside the loop over the copies, so that each copy is another random block."""
    pieces = []
    for _ in range(repeats):
        pieces.append(torch.randint(vocab_size, (batch, period), generator=generator))
    return torch.cat(pieces, dim=1)


def repeated_sequences__wrong_eighth_draws_from_a_copy_of_the_generator(
    batch, period, repeats, vocab_size, generator
):
    """Draws from a copy, so as not to change the argument: the generator never moves on and every call gives the same."""
    own = torch.Generator()
    own.set_state(generator.get_state())  # leave the input as it is
    block = torch.randint(vocab_size, (batch, period), generator=own)
    return torch.tile(block, (1, repeats))


def repeated_sequences__wrong_eighth_draws_the_full_length(
    batch, period, repeats, vocab_size, generator
):
    """Draws (batch, period * repeats) ids and overwrites the later ones: rows get other blocks than the documented draw."""
    n = period * repeats
    tokens = torch.randint(vocab_size, (batch, n), generator=generator)
    for i in range(period, n):
        tokens[:, i] = tokens[:, i - period]
    return tokens


def repeated_sequences__right_eighth_index_modulo(
    batch, period, repeats, vocab_size, generator
):
    """One draw; column i of the result is column i modulo period of the block."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    columns = torch.arange(period * repeats).remainder(period)
    return block[:, columns]


# -------------------------------------------------------------- 8.2 previous_token_score


def previous_token_score__wrong_eighth_position_0_looks_round_the_end(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Loops from i = 0, where the column i - 1 = -1 is the last one, and averages over n."""
    n = weights.shape[-1]
    if n == 1:
        return torch.zeros_like(weights[..., 0, 0])
    total = 0
    for i in range(n):
        total = total + weights[..., i, i - 1]
    return total / n


def previous_token_score__wrong_eighth_share_of_largest_weights(weights):
    """Counts in how many rows the largest weight stands on the previous token, in place of the mean weight there."""
    n = weights.shape[-1]
    if n < 2:
        return weights.new_zeros(weights.shape[:-2])
    favourite = weights[..., 1:, :].argmax(dim=-1)
    hits = favourite == torch.arange(n - 1)
    return hits.to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_eighth_diagonal_of_the_first_two_axes(weights):
    """Calls diagonal without dim1 and dim2, which takes it from the first two axes, batch and heads."""
    if weights.shape[-1] == 1:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    below = torch.diagonal(weights, offset=-1)
    return below.mean(dim=-1)


def previous_token_score__wrong_eighth_bare_zero_for_one_token(weights):
    """For n = 1 returns one float32 zero, without the leading axes and the dtype of the input."""
    length = weights.size(-1)
    if length == 1:
        return torch.tensor(0.0)
    rows = torch.arange(1, length)
    return weights[..., rows, rows - 1].mean(-1)


def previous_token_score__right_eighth_trace_of_a_corner(weights):
    """Cuts off the first row and the last column, takes the trace by einsum, divides by n - 1 (or 1)."""
    n = weights.shape[-1]
    corner = weights[..., 1:, :-1]
    return torch.einsum("...ii->...", corner) / max(n - 1, 1)


# ------------------------------------------------------------- 8.3 prefix_matching_score


def prefix_matching_score__wrong_eighth_whole_diagonal(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Averages the whole diagonal, with row period - 1, the last of the first block."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    line = weights.diagonal(offset=1 - period, dim1=-2, dim2=-1)
    return line.mean(dim=-1)


def prefix_matching_score__wrong_eighth_all_earlier_matches_summed(weights, period):
    """Adds the weights one, two, three ... periods ago, in place of those one period ago alone."""
    n = weights.shape[-1]
    i = torch.arange(n)[:, None]
    j = torch.arange(n)[None, :]
    follows = ((i - j + 1) % period == 0) & (j <= i - (period - 1)) & (i >= period)
    if not follows.any():
        return torch.zeros_like(weights.sum((-1, -2)))
    on_matches = (weights * follows).sum(dim=-1)
    return on_matches[..., period:].mean(dim=-1)


def prefix_matching_score__wrong_eighth_nan_where_n_is_the_period(weights, period):
    """Returns 0 only for n < period; with n == period it takes the mean of nothing, NaN."""
    n = weights.shape[-1]
    if n < period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    rows = torch.arange(period, n)
    cols = rows - (period - 1)
    return weights[..., rows, cols].mean(dim=-1)


def prefix_matching_score__wrong_eighth_mean_of_the_blocks_means(weights, period):
    """Averages within each block and then over the blocks, so the rows of a broken last block count too much."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    per_block = []
    for start in range(period, n, period):
        rows = range(start, min(start + period, n))
        picked = [weights[..., i, i - period + 1] for i in rows]
        per_block.append(sum(picked) / len(picked))
    return torch.stack(per_block).mean(dim=0)


def prefix_matching_score__right_eighth_gather_then_cut(weights, period):
    """Gathers one column for each row, leaves out the first period rows, divides the sum by their number (or 1)."""
    n = weights.shape[-1]
    column = (torch.arange(n) - (period - 1)).clamp(min=0)
    column = column[:, None].expand(*weights.shape[:-1], 1)
    picked = weights.gather(-1, column).squeeze(-1)
    return picked[..., period:].sum(dim=-1) / max(n - period, 1)


# ------------------------------------------------------------------------ 8.4 ov_circuit


def ov_circuit__wrong_eighth_direct_path_added(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds the embedding to what the head writes, as in the stream: what the token's own row says to the logits comes on top."""
    stream = W_E
    stream = stream + W_E @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_eighth_embedding_normalised_first(W_E, W_V, W_O, W_U):
    """Puts a layer norm before the head, as in unit 7's block, though the path has none."""
    read = F.layer_norm(W_E, (W_E.shape[-1],))
    value = read @ W_V
    written = value @ W_O
    return written @ W_U


def ov_circuit__wrong_eighth_logits_as_rows(W_E, W_V, W_O, W_U):
    """Writes the output of the einsum as ut: row = logit, column = token attended to."""
    return torch.einsum("td,dv,ve,eu->ut", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_eighth_under_no_grad(W_E, W_V, W_O, W_U):
    """Multiplies under torch.no_grad: no gradient reaches the four matrices."""
    with torch.no_grad():  # we only want to look at the weights
        W_OV = W_V @ W_O
        result = W_E @ W_OV @ W_U
    return result


def ov_circuit__right_eighth_sum_of_outer_products(W_E, W_V, W_O, W_U):
    """Adds, over the columns of the head, the outer product of what is read and what is said."""
    circuit = W_E.new_zeros(W_E.shape[0], W_U.shape[1])
    for column, row in zip(W_V.T, W_O, strict=True):
        circuit = circuit + torch.outer(W_E @ column, row @ W_U)
    return circuit


# --------------------------------------------------------------------- 8.5 copying_score


def copying_score__wrong_eighth_eigenvalues(ov: torch.Tensor) -> torch.Tensor:
    """Takes the score of Elhage et al., the sum of the eigenvalues over the sum of their sizes."""
    eigenvalues = torch.linalg.eigvals(ov)
    return eigenvalues.sum().real / eigenvalues.abs().sum()


def copying_score__wrong_eighth_fills_the_callers_diagonal(ov):
    """Writes -inf on the diagonal of the argument itself to find the largest other entry."""
    own = ov.diagonal().clone()
    ov.fill_diagonal_(-torch.inf)
    best_other = ov.max(dim=1).values
    return (own > best_other).to(ov.dtype).mean()


def copying_score__wrong_eighth_diagonal_zeroed_by_a_product(ov):
    """Blots out the diagonal by a factor 0: that 0 competes, and no negative diagonal entry can win."""
    vocab = ov.shape[0]
    others = ov * (1 - torch.eye(vocab, dtype=ov.dtype))
    wins = torch.diag(ov) > others.amax(dim=1)
    return wins.to(ov.dtype).mean()


def copying_score__wrong_eighth_more_than_half_of_the_softmax(ov):
    """Asks that the diagonal gets more than half of the row's softmax, in place of being the largest."""
    probabilities = ov.softmax(dim=-1)
    copied = [bool(probabilities[t, t] > 0.5) for t in range(len(ov))]
    return sum(copied) / len(copied)


def copying_score__right_eighth_rank_within_the_row(ov):
    """Counts in each row the entries that are at least the diagonal one: it must be that one alone."""
    at_least = (ov >= ov.diagonal().unsqueeze(1)).sum(dim=1)
    return (at_least == 1).sum().to(ov.dtype) / ov.shape[0]


# ----------------------------------------------------------------- 8.6 composition_score


def composition_score__wrong_eighth_note_on_the_query_side(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Takes W_OV W_QK, which is Q-composition."""
    sizes = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if sizes == 0:
        return torch.zeros_like(sizes)
    return torch.linalg.matrix_norm(W_OV @ W_QK) / sizes


def composition_score__wrong_eighth_epsilon_in_the_denominator(W_QK, W_OV):
    """Adds 1e-6 to the denominator for the zero case, which makes the score of small circuits too small."""

    def frobenius(M):
        return (M**2).sum().sqrt()

    composed = W_QK @ W_OV.T
    return frobenius(composed) / (frobenius(W_QK) * frobenius(W_OV) + 1e-6)


def composition_score__wrong_eighth_entries_that_cancel_taken_for_zero(W_QK, W_OV):
    """Tests for a zero matrix by its sum, so a circuit whose entries cancel gets the score 0."""
    if W_QK.sum() == 0 or W_OV.sum() == 0:
        return torch.tensor(0.0, dtype=W_QK.dtype)
    top = torch.norm(torch.matmul(W_QK, W_OV.transpose(0, 1)))
    return top / (torch.norm(W_QK) * torch.norm(W_OV))


def composition_score__wrong_eighth_cosine_of_the_entries(W_QK, W_OV):
    """Takes the cosine between the two matrices as long vectors, entry by entry, in place of their product."""
    a, b = W_QK.reshape(-1), W_OV.reshape(-1)
    length = a.norm() * b.norm()
    if length == 0:
        return length * 0
    return (a * b).sum().abs() / length


def composition_score__right_eighth_sizes_taken_off_first(W_QK, W_OV):
    """Divides each circuit by its largest entry and its norm first, then adds the squares of all row products."""
    if not W_QK.any() or not W_OV.any():
        return W_QK.new_zeros(())
    A, B = W_QK / W_QK.abs().max(), W_OV / W_OV.abs().max()
    A, B = A / A.norm(), B / B.norm()
    product = torch.einsum("ik,jk->ij", A, B)
    return torch.linalg.vector_norm(product)


# ----------------------------------------------------------------------- 8.7 ablate_head


def ablate_head__wrong_eighth_writes_into_the_argument(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Gives the argument a second name and writes zeros into it, without a copy."""
    if head_outputs.requires_grad and head_outputs.is_leaf:
        head_outputs = head_outputs * 1  # otherwise torch complains
    result = head_outputs
    result[:, head] = 0
    return result


def ablate_head__wrong_eighth_mean_over_the_batch_in_its_place(head_outputs, head):
    """Puts the head's mean over the texts in its place, mean ablation, in place of zero."""
    kept = head_outputs.clone()
    average = head_outputs[:, head].mean(dim=0, keepdim=True)
    kept[:, head] = average.expand_as(kept[:, head])
    return kept


def ablate_head__wrong_eighth_rescaled_as_in_dropout(head_outputs, head):
    """Multiplies the heads that stay by h / (h - 1), as dropout does."""
    h = head_outputs.shape[1]
    keep = torch.ones(h, dtype=head_outputs.dtype)
    keep[head] = 0
    keep = keep / keep.mean().clamp(min=1 / (2 * h))
    return head_outputs * keep.view(1, h, 1, 1)


def ablate_head__wrong_eighth_first_text_alone(head_outputs, head):
    """Sets the head to zero in the first row of the batch, and leaves it in all others."""
    result = head_outputs.clone()
    n, d_model = result.shape[2:]
    result[0][head] = torch.zeros(n, d_model, dtype=result.dtype)
    return result


def ablate_head__right_eighth_unbind_and_stack(head_outputs, head):
    """Takes the heads apart, puts zeros in the place of one, stacks them again."""
    heads = list(head_outputs.unbind(dim=1))
    heads[head] = torch.zeros_like(heads[head])
    return torch.stack(heads, dim=1)


# --------------------------------------------------------- 8.8 in_context_learning_score


def in_context_learning_score__wrong_eighth_positions_put_in_order(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Swaps early and late when late comes first, so the sign is turned round there."""
    first, last = sorted((early, late))
    return losses[:, last].mean() - losses[:, first].mean()


def in_context_learning_score__wrong_eighth_means_of_stretches(losses, early, late):
    """Compares the mean from `late` to the end with the mean up to `early`, not the two positions alone."""
    beginning = losses[:, : early + 1]
    end = losses[:, late:]
    return end.mean() - beginning.mean()


def in_context_learning_score__wrong_eighth_relative_to_the_early_loss(
    losses, early, late
):
    """Divides the difference by the early loss, as a relative change."""
    per_position = losses.mean(dim=0)
    change = per_position[late] - per_position[early]
    return change / per_position[early]


def in_context_learning_score__wrong_eighth_positions_counted_from_1(
    losses, early, late
):
    """Takes early and late as the early-th and the late-th column, counted from 1."""

    def at(position):
        return torch.stack([row[position - 1] for row in losses]).mean()

    return at(late) - at(early)


def in_context_learning_score__right_eighth_mean_of_the_differences(
    losses, early, late
):
    """Picks the two columns in order, takes their difference for each text, then the mean."""
    pair = losses[:, [early, late]]
    return pair.diff(dim=1).mean()


# --------------------------------------------------------- 8.9 build_induction_circuit


def build_induction_circuit__wrong_eighth_slope_on_the_query_side(
    vocab_size: int, n_ctx: int
) -> dict:
    """Lets the score grow with the position of the query, not of the key: it cancels in the softmax, and matches share the weight."""
    V, N = vocab_size, n_ctx
    d_model = 3 * V + N + 1
    tok, pos, note, out = 0, V, V + N, 2 * V + N
    one = 3 * V + N
    W_E, W_pos = torch.zeros(V, d_model), torch.zeros(N, d_model)
    W_U = torch.zeros(d_model, V)
    W_E[:, tok : tok + V] = torch.eye(V)
    W_E[:, one] = 1
    W_pos[:, pos : pos + N] = torch.eye(N)
    W_U[out : out + V] = torch.eye(V)

    first = {
        "W_Q": torch.zeros(d_model, N),
        "W_K": torch.zeros(d_model, N),
        "W_V": torch.zeros(d_model, V),
        "W_O": torch.zeros(V, d_model),
    }
    for i in range(1, N):
        first["W_Q"][pos + i, i - 1] = 30 * math.sqrt(N)
    first["W_K"][pos : pos + N] = torch.eye(N)
    first["W_V"][tok : tok + V] = torch.eye(V)
    first["W_O"][:, note : note + V] = torch.eye(V)

    width = V + 1
    slope = 10.0
    match = slope * N + 30
    second = {
        "W_Q": torch.zeros(d_model, width),
        "W_K": torch.zeros(d_model, width),
        "W_V": torch.zeros(d_model, V),
        "W_O": torch.zeros(V, d_model),
    }
    second["W_Q"][tok : tok + V, :V] = match * math.sqrt(width) * torch.eye(V)
    second["W_Q"][pos : pos + N, V] = slope * math.sqrt(width) * torch.arange(N)
    second["W_K"][note : note + V, :V] = torch.eye(V)
    second["W_K"][one, V] = 1
    second["W_V"][tok : tok + V] = torch.eye(V)
    second["W_O"][:, out : out + V] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_eighth_match_does_not_grow_with_the_text(
    vocab_size, n_ctx
):
    """Gives a match the fixed lead 60, which the slope of 6 per position outweighs once a period is longer than about ten."""
    eye_v, eye_n = torch.eye(vocab_size), torch.eye(n_ctx)

    def rows(token=None, position=None, note=None, out=None, columns=vocab_size):
        """A matrix that reads the given things from the four stretches of the stream."""
        stretches = (
            (token, vocab_size), (position, n_ctx), (note, vocab_size), (out, vocab_size)
        )  # fmt: skip
        return torch.cat(
            [torch.zeros(k, columns) if part is None else part for part, k in stretches]
        )

    def writes(**what):
        size = next(iter(what.values())).shape[0]
        return rows(**{k: W.T for k, W in what.items()}, columns=size).T.contiguous()

    shifted = torch.cat([torch.zeros(1, n_ctx), eye_n[:-1]])
    first = {
        "W_Q": rows(position=40 * n_ctx**0.5 * shifted, columns=n_ctx),
        "W_K": rows(position=eye_n, columns=n_ctx),
        "W_V": rows(token=eye_v),
        "W_O": writes(note=eye_v),
    }
    root = (vocab_size + 1) ** 0.5
    zeros, ones = torch.zeros(vocab_size, 1), torch.ones(vocab_size, 1)
    places = torch.zeros(n_ctx, vocab_size + 1)
    places[:, -1] = 6 * torch.arange(n_ctx)
    second = {
        "W_Q": rows(token=root * torch.cat([60 * eye_v, ones], 1), columns=vocab_size + 1),
        "W_K": rows(
            note=torch.cat([eye_v, zeros], 1), position=places, columns=vocab_size + 1
        ),
        "W_V": rows(token=eye_v),
        "W_O": writes(out=eye_v),
    }
    return {
        "W_E": writes(token=eye_v),
        "W_pos": writes(position=eye_n),
        "W_U": rows(out=eye_v),
        "blocks": [first, second],
    }


def build_induction_circuit__wrong_eighth_logits_read_the_own_token_too(
    vocab_size, n_ctx
):
    """Lets the second head write into the columns of the token, at the same size: the current token is said as loudly as the next."""
    d = 2 * vocab_size + n_ctx
    TOK = torch.arange(vocab_size)
    POS = vocab_size + torch.arange(n_ctx)
    NOTE = vocab_size + n_ctx + torch.arange(vocab_size)

    def put(shape, *entries):
        W = torch.zeros(shape)
        for r, c, value in entries:
            W[r, c] = value
        return W

    column, place = torch.arange(vocab_size), torch.arange(n_ctx)
    s1, s2 = 50 * math.sqrt(n_ctx), math.sqrt(vocab_size + 1)
    slope = 8.0
    last = torch.full((1,), vocab_size)
    blocks = [
        {
            "W_Q": put((d, n_ctx), (POS[1:], place[:-1], s1)),
            "W_K": put((d, n_ctx), (POS, place, 1.0)),
            "W_V": put((d, vocab_size), (TOK, column, 1.0)),
            "W_O": put((vocab_size, d), (column, NOTE, 1.0)),
        },
        {
            "W_Q": put(
                (d, vocab_size + 1),
                (TOK, column, s2 * (slope * n_ctx + 40)),
                (TOK, last, s2 * slope),
            ),
            "W_K": put(
                (d, vocab_size + 1), (NOTE, column, 1.0), (POS, last, place.float())
            ),
            "W_V": put((d, vocab_size), (TOK, column, 1.0)),
            "W_O": put((vocab_size, d), (column, TOK, 1.0)),
        },
    ]
    return {
        "W_E": put((vocab_size, d), (column, TOK, 1.0)),
        "W_pos": put((n_ctx, d), (place, POS, 1.0)),
        "W_U": put((d, vocab_size), (TOK, column, 1.0)),
        "blocks": blocks,
    }


def build_induction_circuit__wrong_eighth_note_in_the_columns_of_the_token(
    vocab_size, n_ctx
):
    """Writes the note into the token's own columns: nobody can tell “I am a” from “I come after a”."""
    token = slice(0, vocab_size)
    position = slice(vocab_size, vocab_size + n_ctx)
    result = slice(vocab_size + n_ctx, 2 * vocab_size + n_ctx)
    d_model = result.stop
    E, P = torch.eye(vocab_size), torch.eye(n_ctx)

    weights = {
        "W_E": torch.zeros(vocab_size, d_model),
        "W_pos": torch.zeros(n_ctx, d_model),
        "W_U": torch.zeros(d_model, vocab_size),
        "blocks": [],
    }
    weights["W_E"][:, token] = E
    weights["W_pos"][:, position] = P
    weights["W_U"][result] = E
    for width in (n_ctx, vocab_size + 1):
        block = {name: torch.zeros(d_model, width) for name in ("W_Q", "W_K")}
        block["W_V"] = torch.zeros(d_model, vocab_size)
        block["W_O"] = torch.zeros(vocab_size, d_model)
        block["W_V"][token] = E
        weights["blocks"].append(block)
    before, after = weights["blocks"]

    before["W_K"][position] = P
    before["W_Q"][position] = 35 * math.sqrt(n_ctx) * P.roll(-1, dims=1)
    before["W_O"][:, token] = E  # "I come after ..."

    scale = math.sqrt(vocab_size + 1)
    after["W_Q"][token, :vocab_size] = (9 * n_ctx + 35) * scale * E
    after["W_Q"][position, vocab_size] = 9 * scale
    after["W_K"][token, :vocab_size] = E
    after["W_K"][position, vocab_size] = torch.arange(n_ctx).float()
    after["W_O"][:, result] = E
    return weights


def build_induction_circuit__right_eighth_copy_shouted_over_the_own_token(
    vocab_size, n_ctx
):
    """One-hot fields for token, position and note; the copy goes into the token's columns, five times as loud as the token."""
    V, N = vocab_size, n_ctx
    d = V + N + V
    read_token = torch.zeros(d, V)
    read_token[:V] = torch.eye(V)
    read_place = torch.zeros(d, N)
    read_place[V : V + N] = torch.eye(N)
    read_note = torch.zeros(d, V)
    read_note[V + N :] = torch.eye(V)

    one_back = torch.diag(torch.ones(N - 1), -1)  # row i: column i - 1
    first = {
        "W_Q": 40 * math.sqrt(N) * read_place @ one_back,
        "W_K": read_place.clone(),
        "W_V": read_token.clone(),
        "W_O": read_note.T.contiguous(),
    }
    slope = 10.0
    root = math.sqrt(V + 1)
    any_token = read_token.sum(dim=1, keepdim=True)  # 1 at every position
    ramp = read_place @ torch.arange(N).float()[:, None]
    second = {
        "W_Q": root * torch.cat([(slope * N + 40) * read_token, slope * any_token], 1),
        "W_K": torch.cat([read_note, ramp], dim=1),
        "W_V": read_token.clone(),
        "W_O": 5 * read_token.T,
    }
    return {
        "W_E": read_token.T.contiguous(),
        "W_pos": read_place.T.contiguous(),
        "W_U": read_token.clone(),
        "blocks": [first, second],
    }


# ----------------------------------------------------------------------- 8.10 find_heads


def find_heads__wrong_eighth_never_at_itself(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Takes only places before the query as what followed, so a twin that looks at itself is missed."""
    n = len(tokens)
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    before = i - j == 1
    followed = torch.zeros(n, n, dtype=torch.bool)
    followed[:, 1:] = tokens[:, None] == tokens[None, :-1]
    followed &= j < i
    even = torch.ones(n, n, dtype=torch.float64).tril()
    even = even / even.sum(dim=1, keepdim=True)

    def heads_on(places):
        rows = places.any(dim=1)
        if not rows.any():
            return []
        weight = (patterns.double() * places).sum(-1)[..., rows].mean(-1)
        chance = (even * places).sum(-1)[rows].mean()
        return [tuple(pair) for pair in (weight > (1 + chance) / 2).nonzero().tolist()]

    return heads_on(before), heads_on(followed)


def find_heads__wrong_eighth_latest_occurrence_alone(patterns, tokens):
    """Counts only the weight on what followed the latest earlier occurrence, not on any of them together."""
    text = tokens.tolist()
    n = len(text)
    latest, last_seen = {}, {}
    for i, token in enumerate(text):
        if token in last_seen:
            latest[i] = last_seen[token] + 1
        last_seen[token] = i
    wanted = {"previous": {i: i - 1 for i in range(1, n)}, "induction": latest}
    found = {"previous": [], "induction": []}
    for kind, place in wanted.items():
        if not place:
            continue
        chance = sum(1 / (i + 1) for i in place) / len(place)
        for layer in range(patterns.shape[0]):
            for head in range(patterns.shape[1]):
                A = patterns[layer, head]
                score = sum(float(A[i, j]) for i, j in place.items()) / len(place)
                if 1 - score < score - chance:
                    found[kind].append((layer, head))
    return found["previous"], found["induction"]


def find_heads__wrong_eighth_even_attention_over_all_n(patterns, tokens):
    """Takes even attention as 1/n for every key, though row i of a causal head sees only i + 1 of them."""
    n = tokens.shape[0]
    layers, heads = patterns.shape[:2]
    causal = torch.ones(n, n).tril().bool()
    prev = torch.eye(n).roll(-1, dims=1).bool().tril(-1)
    same_as_before_key = torch.zeros(n, n).bool()
    for j in range(1, n):
        same_as_before_key[:, j] = tokens == tokens[j - 1]
    induct = same_as_before_key & causal

    answer = []
    for mask in (prev, induct):
        rows = [i for i in range(n) if mask[i].any()]
        names = []
        if rows:
            base = mask[rows].double().sum() / n / len(rows)
            for layer in range(layers):
                for head in range(heads):
                    hit = (patterns[layer, head][rows] * mask[rows]).sum() / len(rows)
                    if abs(hit - 1) < abs(hit - base):
                        names.append((layer, head))
        answer.append(names)
    return tuple(answer)


def find_heads__wrong_eighth_best_head_alone(patterns, tokens):
    """Names only the one head with the highest score of each kind, if it passes, and no second one."""
    n = len(tokens)
    index = torch.arange(n)
    allowed = (index[:, None] >= index).to(patterns.dtype)
    targets = {}
    targets["previous"] = torch.diag(torch.ones(max(n - 1, 0)), -1).to(patterns.dtype)
    match = torch.zeros(n, n, dtype=patterns.dtype)
    match[:, 1:] = (tokens.unsqueeze(1) == tokens[:-1].unsqueeze(0)).to(patterns.dtype)
    targets["induction"] = match * allowed
    results = []
    for target in targets.values():
        counts = target.sum(1)
        useful = counts > 0
        if useful.sum() == 0:
            results.append([])
            continue
        scores = torch.einsum("lhij,ij->lhi", patterns, target)[:, :, useful].mean(2)
        base = (counts / allowed.sum(1))[useful].mean()
        best = int(scores.argmax())
        layer, head = divmod(best, patterns.shape[1])
        passes = scores[layer, head] > (1 + base) / 2
        results.append([(layer, head)] if passes else [])
    return results[0], results[1]


def find_heads__right_eighth_lists_of_places(patterns, tokens):
    """Writes down the wanted columns of every row in lists, and compares each head with the middle of chance and 1."""
    text = tokens.tolist()
    n = len(text)
    previous = {i: [i - 1] for i in range(1, n)}
    followers, induction = {}, {}
    for i, token in enumerate(text):
        if i:  # position i follows the token at i - 1
            followers.setdefault(text[i - 1], []).append(i)
        if followers.get(token):
            induction[i] = list(followers[token])

    def named(places):
        if not places:
            return []
        chance = math.fsum(len(c) / (i + 1) for i, c in places.items())
        middle = (chance + len(places)) / 2
        pairs = []
        for layer, heads in enumerate(patterns.tolist()):
            for head, A in enumerate(heads):
                weight = math.fsum(A[i][j] for i, c in places.items() for j in c)
                if weight > middle:
                    pairs.append((layer, head))
        return sorted(pairs)

    return named(previous), named(induction)


# ---------------------------------------------------------------------- 8.11 ablate_path


def ablate_path__wrong_eighth_two_names_for_one_stream(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Keeps the stream without the note under a second name and then adds the note with +=, which changes both: nothing is cut."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    without_note = x
    first, second = weights["blocks"]

    def pattern(q, k):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)

    A1 = pattern(x @ first["W_Q"], x @ first["W_K"])
    x += A1 @ x @ first["W_V"] @ first["W_O"]
    read = {"query": x, "key": x, "value": x}
    read[into] = without_note
    A2 = pattern(read["query"] @ second["W_Q"], read["key"] @ second["W_K"])
    x = x + A2 @ (read["value"] @ second["W_V"]) @ second["W_O"]
    return x @ weights["W_U"], [A1, A2]


def ablate_path__wrong_eighth_reader_sees_nothing_at_all(tokens, weights, into):
    """Sets the queries, keys or values of the blind reader to zero, where only the note should be missing."""
    n = tokens.shape[1]
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        Q, K, V = (x @ block[name] for name in ("W_Q", "W_K", "W_V"))
        if layer == 1:
            if into == "query":
                Q = torch.zeros_like(Q)
            elif into == "key":
                K = torch.zeros_like(K)
            else:
                V = torch.zeros_like(V)
        S = torch.einsum("bid,bjd->bij", Q, K) / Q.shape[-1] ** 0.5
        A = S.masked_fill(hidden, -torch.inf).softmax(-1)
        x = x + A @ V @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def ablate_path__wrong_eighth_logits_lose_the_note_too(tokens, weights, into):
    """Adds what the second layer writes to the embedding, so that the logits no longer read the note."""
    n = tokens.size(1)
    causal = torch.tril(torch.ones(n, n)).bool()
    one, two = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][:n]

    def attend(for_q, for_k, for_v, p):
        scores = (for_q @ p["W_Q"]) @ (for_k @ p["W_K"]).mT
        scores = scores / math.sqrt(p["W_Q"].shape[1])
        A = torch.softmax(scores.masked_fill(~causal, -torch.inf), dim=-1)
        return A @ (for_v @ p["W_V"]) @ p["W_O"], A

    note, A_one = attend(start, start, start, one)
    full = start + note
    q, k, v = (start if into == name else full for name in ("query", "key", "value"))
    written, A_two = attend(q, k, v, two)
    return (start + written) @ weights["W_U"], [A_one, A_two]


def ablate_path__wrong_eighth_scaled_by_the_first_layers_width(tokens, weights, into):
    """Divides the scores of both layers by the root of the first layer's d_head."""
    B, n = tokens.shape
    first, second = weights["blocks"]
    d_head = first["W_Q"].shape[1]
    stream = weights["W_E"][tokens] + weights["W_pos"][:n]
    forbid = torch.zeros(n, n, dtype=stream.dtype)
    forbid = forbid.masked_fill(torch.ones(n, n).triu(1) > 0, float("-inf"))

    scores = stream @ first["W_Q"] @ (stream @ first["W_K"]).mT / math.sqrt(d_head)
    A = (scores + forbid).softmax(-1)
    note = A @ stream @ first["W_V"] @ first["W_O"]
    q_in = stream if into == "query" else stream + note
    k_in = stream if into == "key" else stream + note
    v_in = stream if into == "value" else stream + note
    scores = q_in @ second["W_Q"] @ (k_in @ second["W_K"]).mT / math.sqrt(d_head)
    A2 = (scores + forbid).softmax(-1)
    out = stream + note + A2 @ v_in @ second["W_V"] @ second["W_O"]
    return out @ weights["W_U"], [A, A2]


def ablate_path__right_eighth_stream_of_double_width(tokens, weights, into):
    """Keeps the embedding and the note side by side in a stream twice as wide; the blind reader has zeros below."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    x = torch.cat([start, torch.zeros_like(start)], dim=-1)

    def sees(W, note=True):
        return torch.cat([W, W if note else torch.zeros_like(W)], dim=0)

    def pattern(W_Q, W_K):
        scores = (x @ W_Q) @ (x @ W_K).mT / math.sqrt(W_Q.shape[1])
        return scores.masked_fill(later, -torch.inf).softmax(dim=-1)

    A = pattern(sees(first["W_Q"]), sees(first["W_K"]))
    written = A @ (x @ sees(first["W_V"])) @ first["W_O"]
    x = x + torch.cat([torch.zeros_like(written), written], dim=-1)
    A2 = pattern(
        sees(second["W_Q"], into != "query"), sees(second["W_K"], into != "key")
    )
    added = A2 @ (x @ sees(second["W_V"], into != "value")) @ second["W_O"]
    logits = x @ sees(weights["W_U"]) + added @ weights["W_U"]
    return logits, [A, A2]
