"""Unit 8, induction heads: four wrong answers and one right answer to each exercise."""

import math

import torch
import torch.nn.functional as F


def _run_attention_only(tokens, weights):
    """The machine of section 5, as the notebook gives it."""
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


# ------- 8.1 repeated_sequences
def repeated_sequences__wrong_tenth_copies_stacked_on_last_axis(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """The copies are stacked behind each token, so that a row reads a a b b c c."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = torch.stack([block] * repeats, dim=-1)
    return copies.reshape(batch, period * repeats)


def repeated_sequences__wrong_tenth_modulus_is_repeats(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Positions are taken modulo `repeats` and not modulo `period`."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    source = torch.arange(period * repeats) % repeats
    return block[:, source]


def repeated_sequences__wrong_tenth_doubles_and_never_cuts(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Doubles the row until it is long enough and does not cut it: too long unless repeats is a power of two."""
    tokens = torch.randint(vocab_size, (batch, period), generator=generator)
    while tokens.shape[1] < period * repeats:
        tokens = torch.cat((tokens, tokens), dim=1)
    return tokens


def repeated_sequences__wrong_tenth_draws_whole_rows(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws (batch, period * repeats) ids and overwrites all but the first block: not the documented draw."""
    length = period * repeats
    text = torch.randint(vocab_size, (batch, length), generator=generator)
    for start in range(period, length, period):
        text[:, start : start + period] = text[:, :period]
    return text


def repeated_sequences__right_tenth_strides_of_zero(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Views the drawn block with a copy axis of stride 0, then flattens that view."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    view = block.as_strided((batch, repeats, period), (period, 0, 1))
    return view.reshape(batch, repeats * period)


# ------- 8.2 previous_token_score
def previous_token_score__wrong_tenth_share_of_largest(weights: torch.Tensor) -> torch.Tensor:
    """Gives the share of rows whose largest weight is at i - 1, not the mean of these weights."""
    n = weights.shape[-1]
    looks_at = weights[..., 1:, :].argmax(dim=-1)
    hits = (looks_at == torch.arange(n - 1)).to(weights.dtype)
    return hits.sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_tenth_line_above(weights: torch.Tensor) -> torch.Tensor:
    """The first column and the last row are dropped in place of the reverse: weights from i - 1 to i."""
    n = weights.shape[-1]
    shifted = weights[..., :-1, 1:]
    line = torch.diagonal(shifted, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_tenth_view_of_memory(weights: torch.Tensor) -> torch.Tensor:
    """Flattens with `view`, which raises for patterns that are not contiguous, such as slices or transposes."""
    n = weights.shape[-1]
    lead = weights.shape[:-2]
    if n == 1:
        return weights.new_zeros(lead)
    flat = weights.view(*lead, n * n)
    return flat[..., n :: n + 1].mean(dim=-1)


def previous_token_score__wrong_tenth_collects_python_numbers(weights: torch.Tensor) -> torch.Tensor:
    """Sums Python numbers taken out by `.item()`, so no gradient reaches the weights."""
    n = weights.shape[-1]
    lead = weights.shape[:-2]
    scores = []
    for pattern in weights.reshape(-1, n, n):
        total = 0.0
        for i in range(1, n):
            total += pattern[i, i - 1].item()
        scores.append(total / (n - 1) if n > 1 else 0.0)
    return torch.tensor(scores, dtype=weights.dtype).reshape(lead)


def previous_token_score__right_tenth_trace_of_shifted(weights: torch.Tensor) -> torch.Tensor:
    """Drops the first row and the last column, and takes the trace of what is left by einsum."""
    count = weights.shape[-1] - 1
    if count == 0:
        return weights.sum(dim=(-2, -1)) * 0
    return torch.einsum("...kk->...", weights[..., 1:, :-1]) / count


# ------- 8.3 prefix_matching_score
def prefix_matching_score__wrong_tenth_every_earlier_copy(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Adds the weights on what followed in all earlier copies, not only one period ago."""
    n = weights.shape[-1]
    total = torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    if n <= period:
        return total
    for i in range(period, n):
        j = i - period + 1
        while j >= 0:
            total = total + weights[..., i, j]
            j -= period
    return total / (n - period)


def prefix_matching_score__wrong_tenth_row_before_counts(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Averages the whole diagonal, and so counts row period - 1 as well."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(n)
    on_line = (i[:, None] - i[None, :]) == period - 1
    return weights[..., on_line].mean(dim=-1)


def prefix_matching_score__wrong_tenth_negative_end_of_slice(weights: torch.Tensor, period: int) -> torch.Tensor:
    """The columns end at -(period - 1), which for period 1 is 0 and leaves no column: the score becomes 0."""
    n = weights.shape[-1]
    rows_that_count = n - period
    if rows_that_count <= 0:
        return weights.new_zeros(weights.shape[:-2])
    part = weights[..., period:, 1 : -(period - 1)]
    return part.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / rows_that_count


def prefix_matching_score__wrong_tenth_clears_first_block(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Sets the rows of the first block to zero in the argument itself."""
    n = weights.shape[-1]
    if n <= period:
        return torch.zeros_like(weights[..., 0, 0])
    weights[..., :period, :] = 0
    line = torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / (n - period)


def prefix_matching_score__right_tenth_steps_through_flat_rows(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Lays the rows in one line, where the wanted entries start at n * period + 1 and lie n + 1 apart."""
    n = weights.shape[-1]
    in_one_line = weights.flatten(start_dim=-2)
    wanted = in_one_line[..., n * period + 1 :: n + 1]
    return wanted.sum(dim=-1) / max(n - period, 1)


# ------- 8.4 ov_circuit
def ov_circuit__wrong_tenth_direct_path_too(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Keeps the residual connection: the embedding's own logits W_E W_U are added to what the head adds."""
    stream = W_E
    stream = stream + (stream @ W_V) @ W_O
    return stream @ W_U


def ov_circuit__wrong_tenth_letters_swapped(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """The output indices are swapped: the row is the logit and the column the token attended to."""
    return torch.einsum("td,dv,ve,eu->ut", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_tenth_guesses_layout(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Turns W_O round whenever its first axis is d_model wide, which it also is when d_v equals d_model."""
    d_model = W_E.shape[1]
    if W_O.shape[0] == d_model:  # stored as (d_model, d_v)
        W_O = W_O.T
    to_logits = W_O @ W_U
    values = W_E @ W_V
    return values @ to_logits


def ov_circuit__wrong_tenth_without_gradients(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Works inside `torch.no_grad`, so no gradient reaches any of the four matrices."""
    rows = []
    with torch.no_grad():
        for embedding in W_E:
            fetched = embedding @ W_V
            written = fetched @ W_O
            rows.append(written @ W_U)
    return torch.stack(rows)


def ov_circuit__right_tenth_sum_of_outer_products(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds one outer product per value channel: how strongly each token fills it times what it does to the logits."""
    fills = W_E.matmul(W_V).unbind(dim=1)
    does = W_O.matmul(W_U).unbind(dim=0)
    return sum(column[:, None] * row[None, :] for column, row in zip(fills, does, strict=True))


# ------- 8.5 copying_score
def copying_score__wrong_tenth_more_than_half(ov: torch.Tensor) -> torch.Tensor:
    """Asks for a probability above one half of the own token, and not just for the largest logit."""
    own = ov.log_softmax(dim=-1).diagonal()
    return (own > math.log(0.5)).to(ov.dtype).mean()


def copying_score__wrong_tenth_diagonal_along_columns(ov: torch.Tensor) -> torch.Tensor:
    """The diagonal is not turned into a column, so entry [t, u] is compared with ov[u, u]."""
    own = torch.diagonal(ov)
    beats = (own >= ov).all(dim=1)
    return beats.double().mean()


def copying_score__wrong_tenth_fills_with_minus_thousand(ov: torch.Tensor) -> torch.Tensor:
    """Hides the diagonal behind -1000, which then wins in rows whose logits are all below that."""
    vocab = ov.shape[0]
    others = ov.clone()
    others[range(vocab), range(vocab)] = -1000.0
    best_other = others.max(dim=1).values
    copied = 0
    for t in range(vocab):
        if ov[t, t] > best_other[t]:
            copied += 1
    return copied / vocab


def copying_score__wrong_tenth_subtracts_in_place(ov: torch.Tensor) -> torch.Tensor:
    """Subtracts the largest entry of each row in the argument itself."""
    ov -= ov.amax(dim=1, keepdim=True)
    return (ov.diagonal() == 0).float().mean()


def copying_score__right_tenth_rank_in_row(ov: torch.Tensor) -> torch.Tensor:
    """Counts in each row how many entries the diagonal one beats: a copied token beats all but itself."""
    vocab = ov.shape[0]
    beaten = torch.lt(ov, ov.diagonal().unsqueeze(1)).sum(dim=1)
    return torch.eq(beaten, vocab - 1).sum().to(ov.dtype) / max(vocab, 1)


# ------- 8.6 composition_score
def composition_score__wrong_tenth_cosine_of_matrices(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes the cosine of the two matrices read as long vectors, without any matrix product."""
    a, b = W_QK.flatten(), W_OV.flatten()
    if not a.any() or not b.any():
        return W_QK.new_zeros(())
    return (a @ b).abs() / (a.norm() * b.norm())


def composition_score__wrong_tenth_not_transposed(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Sums over the rows of W_OV, what the earlier head reads, as nothing is transposed."""
    through = torch.einsum("ik,kj->ij", W_QK, W_OV)
    top = through.square().sum()
    bottom = W_QK.square().sum() * W_OV.square().sum()
    if bottom == 0:
        return bottom
    return (top / bottom).sqrt()


def composition_score__wrong_tenth_floor_under_sizes(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Keeps the denominator above 1e-8, so circuits with small entries get too small a score."""

    def size(W):
        return torch.linalg.matrix_norm(W)

    return size(W_QK @ W_OV.mT) / (size(W_QK) * size(W_OV)).clamp(min=1e-8)


def composition_score__wrong_tenth_one_zero_forgotten(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Looks for a zero in W_QK only: a zero W_OV gives NaN."""
    reads = torch.linalg.vector_norm(W_QK)
    if reads == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    writes = torch.linalg.vector_norm(W_OV)
    return torch.linalg.vector_norm((W_QK / reads) @ (W_OV / writes).T)


def composition_score__right_tenth_singular_values(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Brings both to a largest entry of 1, and takes every Frobenius norm from the singular values."""
    tops = [W.abs().max() for W in (W_QK, W_OV)]
    if any(top == 0 for top in tops):
        return W_QK.new_zeros(())
    reads, writes = W_QK / tops[0], W_OV / tops[1]

    def size(W):
        return torch.linalg.svdvals(W).square().sum().sqrt()

    apart = size(reads) * size(writes)
    return torch.linalg.vector_norm(torch.linalg.svdvals(reads @ writes.mT)) / apart


# ------- 8.7 ablate_head
def ablate_head__wrong_tenth_puts_in_the_mean(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Puts the head's mean over texts and positions in its place, and not zeros."""
    heads = torch.arange(head_outputs.shape[1]).view(1, -1, 1, 1)
    usual = head_outputs.mean(dim=(0, 2), keepdim=True)
    return torch.where(heads == head, usual, head_outputs)


def ablate_head__wrong_tenth_mask_one_axis_short(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """The mask lacks a trailing axis and falls on the positions: position `head` becomes zero in every head."""
    n_positions = head_outputs.shape[2]
    gone = (torch.arange(n_positions) == head)[:, None]
    return head_outputs.masked_fill(gone, 0.0)


def ablate_head__wrong_tenth_last_head_slice(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Counts the later heads from the end, which for the last head is a slice from 0: all heads come again."""
    h = head_outputs.shape[1]
    earlier = head_outputs[:, :head]
    silent = torch.zeros_like(head_outputs[:, head : head + 1])
    later = head_outputs[:, head + 1 - h :]
    return torch.cat([earlier, silent, later], dim=1)


def ablate_head__wrong_tenth_slice_taken_for_copy(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes `[:]` for a copy, as with lists, and so writes the zeros into the argument."""
    kept = head_outputs[:]
    for row in range(kept.shape[0]):
        kept[row, head] = 0
    return kept


def ablate_head__right_tenth_stacks_heads_anew(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes the heads apart and stacks them again, with zeros in place of the one."""
    parts = list(head_outputs.unbind(dim=1))
    parts[head] = torch.zeros_like(parts[head])
    return torch.stack(parts, dim=1)


# ------- 8.8 in_context_learning_score
def in_context_learning_score__wrong_tenth_means_of_stretches(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Averages all positions up to `early` and all from `late` on, not these two alone."""
    beginning = losses[:, : early + 1].mean()
    end = losses[:, late:].mean()
    return end - beginning


def in_context_learning_score__wrong_tenth_divides_by_positions(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Divides the sum over the texts by the number of positions."""
    n_texts, count = losses.shape
    change = 0
    for b in range(n_texts):
        change = change + losses[b, late] - losses[b, early]
    return change / count


def in_context_learning_score__wrong_tenth_selector_overwritten(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sets -1 and then +1 in a selector: if both positions are the same one, the -1 is lost."""
    selector = torch.zeros(losses.shape[1], dtype=losses.dtype)
    selector[early] = -1.0
    selector[late] = 1.0
    return losses.mean(dim=0) @ selector


def in_context_learning_score__wrong_tenth_puts_in_order(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sorts the two positions first, so the sign is wrong if `early` comes after `late`."""
    first, last = min(early, late), max(early, late)
    per_position = losses.mean(dim=0)
    return per_position[last] - per_position[first]


def in_context_learning_score__right_tenth_difference_along_pair(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Picks both columns by index_select, adds up each, and takes their difference by torch.diff."""
    pair = losses.index_select(1, torch.tensor([early, late], device=losses.device))
    change = torch.diff(pair.sum(dim=0))
    return change.squeeze(0) / max(losses.shape[0], 1)


# ------- 8.9 build_induction_circuit
def build_induction_circuit__wrong_tenth_only_position_zero_loses(vocab_size: int, n_ctx: int) -> dict:
    """Keeps position 0 out but has no slope: from the third copy on all earlier matches share the weight."""
    V, n = vocab_size, n_ctx
    token, note, says, place = 0, V, 2 * V, 3 * V
    d_model = 3 * V + n
    t, i = torch.arange(V), torch.arange(n)

    def zeros(*shape):
        return torch.zeros(*shape)

    W_E, W_pos, W_U = zeros(V, d_model), zeros(n, d_model), zeros(d_model, V)
    W_E[t, token + t] = 1
    W_pos[i, place + i] = 1
    W_U[says + t, t] = 1

    first = {"W_Q": zeros(d_model, n), "W_K": zeros(d_model, n), "W_V": zeros(d_model, V), "W_O": zeros(V, d_model)}
    first["W_Q"][place + i[1:], i[:-1]] = (20 + math.log(n)) * math.sqrt(n)
    first["W_K"][place + i, i] = 1
    first["W_V"][token + t, t] = 1
    first["W_O"][t, note + t] = 1

    width = V + 1
    sharp = (20 + math.log(n)) * math.sqrt(width)
    second = {
        "W_Q": zeros(d_model, width),
        "W_K": zeros(d_model, width),
        "W_V": zeros(d_model, V),
        "W_O": zeros(V, d_model),
    }
    second["W_Q"][token + t, t] = sharp
    second["W_K"][note + t, t] = 1
    second["W_Q"][token + t, V] = sharp  # the same for every query
    second["W_K"][place, V] = -2
    second["W_V"][token + t, t] = 1
    second["W_O"][t, says + t] = 1
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_tenth_answer_beside_own_token(vocab_size: int, n_ctx: int) -> dict:
    """The second layer writes into the columns of the embedding, so the current token's logit is as large."""
    V, n = vocab_size, n_ctx
    one_V, one_n = torch.eye(V), torch.eye(n)

    def column(*parts):  # rows of the stream: token (V), note (V), position (n), number and constant (2)
        return torch.cat(parts, dim=0)

    def none(width):
        return {"V": torch.zeros(V, width), "n": torch.zeros(n, width), "2": torch.zeros(2, width)}

    number = torch.arange(n).float()[:, None]
    W_E = torch.cat([one_V, torch.zeros(V, V + n + 2)], dim=1)
    W_pos = torch.cat([torch.zeros(n, 2 * V), one_n, number, torch.ones(n, 1)], dim=1)
    blank = none(V)
    W_U = column(one_V, blank["V"], blank["n"], blank["2"])

    slope = 10.0
    lead = slope * n + 50.0
    shift = torch.diag(torch.ones(n - 1), -1)  # row i has its 1 in column i - 1
    at_n = none(n)
    first = {
        "W_Q": column(at_n["V"], at_n["V"], 40 * math.sqrt(n) * shift, at_n["2"]),
        "W_K": column(at_n["V"], at_n["V"], one_n, at_n["2"]),
        "W_V": column(one_V, blank["V"], blank["n"], blank["2"]),
        "W_O": torch.cat([torch.zeros(V, V), one_V, torch.zeros(V, n + 2)], dim=1),
    }
    root = math.sqrt(V + 1)
    wide = none(V + 1)
    match = torch.cat([one_V, torch.zeros(V, 1)], dim=1)
    q_end, k_end = torch.zeros(2, V + 1), torch.zeros(2, V + 1)
    q_end[1, V] = slope * root
    k_end[0, V] = 1.0
    second = {
        "W_Q": column(lead * root * match, wide["V"], wide["n"], q_end),
        "W_K": column(wide["V"], match, wide["n"], k_end),
        "W_V": column(one_V, blank["V"], blank["n"], blank["2"]),
        "W_O": torch.cat([one_V, torch.zeros(V, V + n + 2)], dim=1),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_tenth_slope_too_flat_for_period_one(vocab_size: int, n_ctx: int) -> dict:
    """Position 0 is kept out apart and the slope is 3: enough from period 2 on, but 0.95 of the weight at period 1."""
    sizes = {"token": vocab_size, "note": vocab_size, "out": vocab_size, "pos": n_ctx, "index": 1, "start": 1, "one": 1}
    at, d_model = {}, 0
    for name, size in sizes.items():
        at[name] = d_model
        d_model += size

    def field(name, k=0):
        return at[name] + k

    W_E = torch.zeros(vocab_size, d_model)
    W_U = torch.zeros(d_model, vocab_size)
    W_pos = torch.zeros(n_ctx, d_model)
    Q1, K1 = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    V1, O1 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    Q2, K2 = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    V2, O2 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)

    slope = 3.0
    bonus = slope * n_ctx + 40.0
    for i in range(n_ctx):
        W_pos[i, field("pos", i)] = 1.0
        W_pos[i, field("index")] = i
        W_pos[i, field("one")] = 1.0
        K1[field("pos", i), i] = 1.0
        if i > 0:
            Q1[field("pos", i), i - 1] = 50.0 * n_ctx**0.5
    W_pos[0, field("start")] = 1.0
    grow = (vocab_size + 1) ** 0.5
    for t in range(vocab_size):
        W_E[t, field("token", t)] = 1.0
        V1[field("token", t), t] = 1.0
        O1[t, field("note", t)] = 1.0
        Q2[field("token", t), t] = bonus * grow
        K2[field("note", t), t] = 1.0
        V2[field("token", t), t] = 1.0
        O2[t, field("out", t)] = 1.0
        W_U[field("out", t), t] = 1.0
    Q2[field("one"), vocab_size] = grow
    K2[field("index"), vocab_size] = slope
    K2[field("start"), vocab_size] = -2 * bonus
    blocks = [{"W_Q": Q1, "W_K": K1, "W_V": V1, "W_O": O1}, {"W_Q": Q2, "W_K": K2, "W_V": V2, "W_O": O2}]
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_tenth_codes_from_global_chance(vocab_size: int, n_ctx: int) -> dict:
    """Names tokens by random directions drawn from the global generator: two calls differ, and its state moves."""
    width = 768
    codes = F.normalize(torch.randn(vocab_size, width), dim=1)
    places = torch.eye(n_ctx)
    steps = torch.arange(n_ctx, dtype=torch.float32)
    d_model = 3 * width + n_ctx + 2
    fields = torch.eye(d_model).split([width, width, width, n_ctx, 1, 1])
    token, note, answer, place, step, one = fields  # each (its width, d_model)

    slope = 10.0
    bonus = 2 * (slope * n_ctx + 60.0)
    before = torch.zeros(n_ctx, n_ctx)
    before[1:, :-1] = torch.eye(n_ctx - 1)
    unit = torch.eye(width)
    first = {
        "W_Q": place.T @ (45.0 * math.sqrt(n_ctx) * before),
        "W_K": place.T @ places,
        "W_V": token.T @ unit,
        "W_O": unit @ note,
    }
    scale = math.sqrt(width + 1)
    second = {
        "W_Q": torch.cat([bonus * scale * token.T, slope * scale * one.T], dim=1),
        "W_K": torch.cat([note.T, step.T], dim=1),
        "W_V": token.T @ unit,
        "W_O": unit @ answer,
    }
    return {
        "W_E": codes @ token,
        "W_pos": places @ place + steps[:, None] * step + one,
        "W_U": answer.T @ codes.T,
        "blocks": [first, second],
    }


def build_induction_circuit__right_tenth_two_digits_each(vocab_size: int, n_ctx: int) -> dict:
    """Writes tokens and positions as two one-hot digits, so that only what agrees in both digits scores 2."""

    def digits(count, base):
        """Codes (count, 2 * base): the high digit, then the low digit, each one-hot."""
        ids = torch.arange(count)
        high, low = F.one_hot(ids // base, base), F.one_hot(ids % base, base)
        return torch.cat([high, low], dim=1).float()

    base_t = math.isqrt(vocab_size - 1) + 1
    base_p = math.isqrt(n_ctx - 1) + 1
    tokens, places = digits(vocab_size, base_t), digits(n_ctx, base_p)
    wt, wp = 2 * base_t, 2 * base_p
    widths = {"mine": wt, "before": wt, "next": wt, "here": wp, "back": wp, "count": 1, "one": 1}
    ends = torch.tensor(list(widths.values())).cumsum(0).tolist()
    where = {name: slice(end - size, end) for (name, size), end in zip(widths.items(), ends, strict=True)}
    d_model = ends[-1]

    def embed(rows, **parts):
        out = torch.zeros(rows, d_model)
        for name, part in parts.items():
            out[:, where[name]] = part
        return out

    def read(columns, **parts):
        return embed(columns, **{name: part.T for name, part in parts.items()}).T.contiguous()

    previous = torch.zeros_like(places)
    previous[1:] = places[:-1]
    number = torch.arange(n_ctx, dtype=torch.float32)[:, None]

    sharp = (25 + math.log(n_ctx)) * math.sqrt(wp)
    first = {
        "W_Q": read(wp, back=sharp * torch.eye(wp)),
        "W_K": read(wp, here=torch.eye(wp)),
        "W_V": read(wt, mine=torch.eye(wt)),
        "W_O": embed(wt, before=torch.eye(wt)),
    }
    slope, root = 10.0, math.sqrt(wt + 1)
    per_digit = slope * n_ctx + 30
    asks = torch.cat([per_digit * root * torch.eye(wt), torch.zeros(wt, 1)], dim=1)
    offers = torch.cat([torch.eye(wt), torch.zeros(wt, 1)], dim=1)
    last = torch.zeros(1, wt + 1)
    last[0, -1] = 1
    second = {
        "W_Q": read(wt + 1, mine=asks, one=slope * root * last),
        "W_K": read(wt + 1, before=offers, count=last),
        "W_V": read(wt, mine=torch.eye(wt)),
        "W_O": embed(wt, next=torch.eye(wt)),
    }
    return {
        "W_E": embed(vocab_size, mine=tokens),
        "W_pos": embed(n_ctx, here=places, back=previous, count=number, one=torch.ones(n_ctx, 1)),
        "W_U": read(vocab_size, next=tokens.T),
        "blocks": [first, second],
    }


# ------- 8.10 find_heads
def find_heads__wrong_tenth_chance_from_number_of_kinds(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Takes one over the number of kinds of token for what evenly spread attention hits, not what this text gives."""
    n_layers, n_heads, n, _ = patterns.shape
    i = torch.arange(n)
    back = i[:, None] - 1 == i[None, :]
    same = (tokens[:, None] == tokens[None, :]).tril(-1)
    after = torch.zeros_like(same)
    after[:, 1:] = same[:, :-1]
    kinds = len(set(tokens.tolist()))

    def named(places, chance):
        rows = places.any(dim=-1)
        if not rows.any():
            return []
        score = (patterns * places).sum(dim=-1)[..., rows].mean(dim=-1)
        nearer_one = (1 - score) < (score - chance)
        return [(layer, head) for layer in range(n_layers) for head in range(n_heads) if nearer_one[layer, head]]

    even = (1 / torch.arange(2, n + 1)).mean() if n > 1 else 0
    after_any = after.tril()
    return named(back, even), named(after_any, 1 / kinds)


def find_heads__wrong_tenth_roll_wraps_round(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Shifts the table of equal tokens by `roll`: column 0 counts as a place for all that equal the last token."""
    n = len(tokens)
    uniform = torch.ones(n, n, dtype=patterns.dtype).tril()
    uniform = uniform / uniform.sum(dim=1, keepdim=True)
    equal = tokens.unsqueeze(1).eq(tokens.unsqueeze(0))
    targets = {
        "previous": torch.eye(n, dtype=torch.bool).roll(-1, dims=1).tril(-1),
        "induction": equal.roll(1, dims=1).tril(),
    }
    found = []
    for target in targets.values():
        useful = target.sum(dim=1) > 0
        heads = []
        if useful.sum() > 0:
            hit = torch.einsum("lhij,ij->lhi", patterns, target.to(patterns.dtype))[..., useful].mean(-1)
            base = (uniform * target).sum(1)[useful].mean()
            heads = [tuple(pair) for pair in torch.nonzero(hit > (1 + base) / 2).tolist()]
        found.append(sorted(heads))
    return found[0], found[1]


def find_heads__wrong_tenth_latest_occurrence_alone(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Remembers only the latest occurrence of each token, so weight on what followed earlier ones is lost."""
    seen, places_prev, places_ind = {}, [], []
    for i, token in enumerate(tokens.tolist()):
        if i > 0:
            places_prev.append((i, i - 1))
        if token in seen:
            places_ind.append((i, seen[token] + 1))
        seen[token] = i

    def does_it(A, places):
        if len(places) == 0:
            return False
        got = sum(float(A[i, j]) for i, j in places) / len(places)
        chance = sum(1 / (i + 1) for i, _ in places) / len(places)
        return abs(1 - got) < abs(got - chance)

    previous, induction = [], []
    for layer, heads in enumerate(patterns):
        for head, A in enumerate(heads):
            if does_it(A, places_prev):
                previous.append((layer, head))
            if does_it(A, places_ind):
                induction.append((layer, head))
    return previous, induction


def find_heads__wrong_tenth_head_by_head_order(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Goes through the heads first and the layers inside, so that the lists are not sorted by layer."""
    layers, heads, n = patterns.shape[:3]
    ids = tokens.tolist()
    wanted_before = {i: [i - 1] for i in range(1, n)}
    wanted_after = {i: [j for j in range(1, i + 1) if ids[j - 1] == ids[i]] for i in range(n)}
    wanted_after = {i: columns for i, columns in wanted_after.items() if columns}

    def middle(wanted):
        chances = [len(columns) / (i + 1) for i, columns in wanted.items()]
        return (1 + sum(chances) / len(chances)) / 2

    def score(pattern, wanted):
        return sum(float(pattern[i, columns].sum()) for i, columns in wanted.items()) / len(wanted)

    lists = []
    for wanted in (wanted_before, wanted_after):
        pairs = []
        if wanted:
            limit = middle(wanted)
            for head in range(heads):
                for layer in range(layers):
                    if score(patterns[layer, head], wanted) > limit:
                        pairs.append((layer, head))
        lists.append(pairs)
    return tuple(lists)


def find_heads__right_tenth_bins_of_the_token_before(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Sums each row's weights by the token before the key, and reads off the own token's bin, so for an even one."""
    layers, heads, n, _ = patterns.shape
    even = torch.ones(n, n, dtype=torch.float64).tril()
    even = even / even.sum(dim=-1, keepdim=True)
    all_heads = torch.cat([patterns.detach().double().reshape(-1, n, n), even[None]]).tril()
    _, kind = torch.unique(tokens, return_inverse=True)
    bins = F.one_hot(kind, int(kind.max()) + 1).double()
    by_kind = all_heads[:, :, 1:] @ bins[:-1]
    after = by_kind.gather(2, kind.expand(len(all_heads), n)[..., None])[..., 0]
    before = all_heads.diagonal(offset=-1, dim1=1, dim2=2)

    def pick(weight):
        weight = weight[:, weight[-1] > 0]
        if weight.shape[1] == 0:
            return []
        score = weight.mean(dim=1)
        good = (2 * score[:-1] > 1 + score[-1]).tolist()
        return [divmod(k, heads) for k in range(layers * heads) if good[k]]

    return pick(before), pick(after)


# ------- 8.11 ablate_path
def ablate_path__wrong_tenth_where_to_look_cut_as_one(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """For "query" and for "key" the second pattern is that of a silent first layer: both readers are blind."""
    n = tokens.shape[1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    one, two = weights["blocks"]

    def pattern(stream, block):
        scores = stream @ block["W_Q"] @ (stream @ block["W_K"]).transpose(-2, -1)
        return (scores / block["W_Q"].shape[1] ** 0.5).masked_fill(later, float("-inf")).softmax(-1)

    def bring(A, stream, block):
        return A @ stream @ block["W_V"] @ block["W_O"]

    plain = weights["W_E"][tokens] + weights["W_pos"][:n]
    A1 = pattern(plain, one)
    full = plain + bring(A1, plain, one)
    if into == "value":
        A2 = pattern(full, two)
        brought = bring(A2, plain, two)
    else:
        A2 = pattern(plain, two)
        brought = bring(A2, full, two)
    return (full + brought) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_tenth_stream_added_in_place(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """The note is added with `+=`, so the stream kept for the blind reader holds it as well: nothing is cut."""
    n = tokens.shape[1]
    mask = torch.full((n, n), -torch.inf, dtype=weights["W_E"].dtype).triu(1)
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    without_note = x
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        reads = {"query": x, "key": x, "value": x}
        if layer == 1:
            reads[into] = without_note
        Q = torch.einsum("bnd,dk->bnk", reads["query"], block["W_Q"])
        K = torch.einsum("bnd,dk->bnk", reads["key"], block["W_K"])
        V = torch.einsum("bnd,dk->bnk", reads["value"], block["W_V"])
        scores = torch.einsum("bik,bjk->bij", Q, K) / math.sqrt(Q.shape[-1])
        A = torch.softmax(scores + mask, dim=-1)
        patterns.append(A)
        x += torch.einsum("bij,bjk,kd->bid", A, V, block["W_O"])
    return x @ weights["W_U"], patterns


def ablate_path__wrong_tenth_softmax_overflows(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Writes the softmax as exp over sum with nothing subtracted: NaN for large scores, as circuits by hand have."""
    length = tokens.shape[1]
    allowed = torch.ones(length, length).tril()

    def attention(q, k):
        e = torch.exp(q @ k.mT / math.sqrt(q.shape[-1])) * allowed.to(q.dtype)
        return e / e.sum(dim=-1, keepdim=True)

    blocks = weights["blocks"]
    x0 = weights["W_E"][tokens] + weights["W_pos"][:length]
    A = attention(x0 @ blocks[0]["W_Q"], x0 @ blocks[0]["W_K"])
    note = A @ (x0 @ blocks[0]["W_V"]) @ blocks[0]["W_O"]
    x1 = x0 + note
    q, k, v = (
        (x0 if into == name else x1) @ blocks[1][matrix]
        for name, matrix in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V"))
    )
    second = attention(q, k)
    return (x1 + second @ v @ blocks[1]["W_O"]) @ weights["W_U"], [A, second]


def ablate_path__wrong_tenth_width_of_first_layer(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Divides the scores of both layers by the root of the first layer's head width."""
    n = tokens.shape[1]
    root = math.sqrt(weights["blocks"][0]["W_K"].shape[1])
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    embedded = weights["W_E"][tokens] + weights["W_pos"][:n]

    def head(block, for_query, for_key, for_value):
        scores = (for_query @ block["W_Q"]) @ (for_key @ block["W_K"]).mT / root
        A = torch.where(causal, scores, -torch.inf).softmax(dim=-1)
        return A, A @ for_value @ block["W_V"] @ block["W_O"]

    first, note = head(weights["blocks"][0], embedded, embedded, embedded)
    stream = embedded + note
    sees = [embedded if into == reader else stream for reader in ("query", "key", "value")]
    second, answer = head(weights["blocks"][1], *sees)
    return (stream + answer) @ weights["W_U"], [first, second]


def ablate_path__right_tenth_stream_of_double_width(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Gives the note columns of its own in a stream twice as wide, cuts in the weights, and runs the usual machine."""

    def beside(W):  # writes into the left half
        return torch.cat([W, torch.zeros_like(W)], dim=1)

    def reads_left(W):
        return torch.cat([W, torch.zeros_like(W)], dim=0)

    def reads_both(W):
        return torch.cat([W, W], dim=0)

    one, two = weights["blocks"]
    first = {name: reads_left(one[name]) for name in ("W_Q", "W_K", "W_V")}
    first["W_O"] = torch.cat([torch.zeros_like(one["W_O"]), one["W_O"]], dim=1)
    blind = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    second = {name: (reads_left if name == blind else reads_both)(two[name]) for name in ("W_Q", "W_K", "W_V")}
    second["W_O"] = beside(two["W_O"])
    wide = {
        "W_E": beside(weights["W_E"]),
        "W_pos": beside(weights["W_pos"]),
        "W_U": reads_both(weights["W_U"]),
        "blocks": [first, second],
    }
    return _run_attention_only(tokens, wide)
