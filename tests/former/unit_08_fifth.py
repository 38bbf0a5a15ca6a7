"""Answers to unit 8, induction heads."""

import math

import torch
import torch.nn.functional as F

# 8.1 repeated_sequences


def repeated_sequences__wrong_fifth_reshaped_copies(batch, period, repeats, vocab_size, generator):
    """Stacks the copies below each other and reshapes to rows, so a row holds the blocks of different rows."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    stacked = block.repeat(repeats, 1)
    return stacked.reshape(batch, period * repeats)


def repeated_sequences__wrong_fifth_one_copy_too_many(batch, period, repeats, vocab_size, generator):
    """Puts `repeats` copies after the first block, repeats + 1 in all."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    row = [block]
    for _ in range(repeats):
        row.append(block)
    return torch.cat(row, dim=1)


def repeated_sequences__wrong_fifth_ids_from_one(batch, period, repeats, vocab_size, generator):
    """Draws the ids from 1 to vocab_size - 1, randint(1, vocab_size), so 0 never comes."""
    low = min(1, vocab_size - 1)
    block = torch.randint(low, vocab_size, (batch, period), generator=generator)
    return torch.tile(block, (1, repeats))


def repeated_sequences__wrong_fifth_distinct_tokens(batch, period, repeats, vocab_size, generator):
    """Draws blocks of distinct tokens (a random order, cut off), not independent ones."""
    order = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    block = order[:, torch.arange(period) % vocab_size]
    return block.repeat(1, repeats)


def repeated_sequences__right_fifth_expanded_axis(batch, period, repeats, vocab_size, generator):
    """Gives the block an axis of copies by expand and flattens the two."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = block[:, None, :].expand(batch, repeats, period)
    return copies.reshape(batch, repeats * period)


# 8.2 previous_token_score


def previous_token_score__wrong_fifth_share_of_rows(weights):
    """Counts the rows whose largest weight stands at i - 1, in place of the mean weight there."""
    n = weights.shape[-1]
    if n == 1:
        return weights[..., 0, 0] * 0
    place = weights.argmax(dim=-1)[..., 1:]
    hits = place == torch.arange(n - 1)
    return hits.to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_fifth_renormalises_the_past(weights):
    """Cuts the pattern to its causal half and lets the rows sum to 1 again, before it averages."""
    n = weights.shape[-1]
    past = weights.tril()
    past = past / past.sum(dim=-1, keepdim=True).clamp(min=1e-12)
    line = torch.diagonal(past, offset=-1, dim1=-2, dim2=-1)
    return line.sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_fifth_column_minus_one(weights):
    """Takes the column i - 1 for every row from 0 on: row 0 takes column -1, the last, and the mean is over n."""
    n = weights.shape[-1]
    if n == 1:
        return torch.zeros_like(weights[..., 0, 0])
    rows = torch.arange(n)
    return weights[..., rows, rows - 1].mean(dim=-1)


def previous_token_score__wrong_fifth_mean_of_nothing(weights):
    """Takes the mean of the diagonal below the main one without a thought of n = 1, where it is NaN."""
    below = weights.diagonal(offset=-1, dim1=-2, dim2=-1)
    return below.mean(dim=-1)


def previous_token_score__right_fifth_cut_and_diagonal(weights):
    """Cuts off row 0 and the last column, sums the main diagonal of what is left with einsum."""
    n = weights.shape[-1]
    inner = weights[..., 1:, : n - 1]
    return torch.einsum("...ii->...", inner) / max(n - 1, 1)


# 8.3 prefix_matching_score


def prefix_matching_score__wrong_fifth_mean_of_block_means(weights, period):
    """Averages within each block and then over the blocks, so the rows of a broken last block count more."""
    n = weights.shape[-1]
    means = []
    for start in range(period, n, period):
        rows = torch.arange(start, min(start + period, n))
        means.append(weights[..., rows, rows - (period - 1)].mean(dim=-1))
    if not means:
        return weights[..., 0, 0] * 0
    return torch.stack(means).mean(dim=0)


def prefix_matching_score__wrong_fifth_query_and_key_exchanged(weights, period):
    """Takes the entries (i - (period - 1), i): the key's row and the query's column."""
    n = weights.shape[-1]
    if n <= period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    line = torch.diagonal(weights, offset=period - 1, dim1=-2, dim2=-1)
    return line[..., 1:].mean(-1)


def prefix_matching_score__wrong_fifth_all_earlier_matches(weights, period):
    """Adds the weights on the matches two, three ... periods back to that one period ago."""
    n = weights.shape[-1]
    total = weights[..., 0, 0] * 0
    for i in range(period, n):
        back = period - 1
        while i - back >= 1:
            total = total + weights[..., i, i - back]
            back += period
    return total / max(n - period, 1)


def prefix_matching_score__wrong_fifth_n_equal_to_period(weights, period):
    """Guards n < period only; for n = period the mean of nothing is NaN."""
    n = weights.shape[-1]
    if n < period:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(period, n)
    return weights[..., i, i - period + 1].mean(dim=-1)


def prefix_matching_score__right_fifth_strided_flat_pattern(weights, period):
    """Lays each pattern flat: from entry (period, 1) on, every (n + 1)-th number counts."""
    n = weights.shape[-1]
    flat = weights.reshape(*weights.shape[:-2], n * n)
    counted = flat[..., period * n + 1 :: n + 1]
    return counted.sum(dim=-1) / max(n - period, 1)


# 8.4 ov_circuit


def ov_circuit__wrong_fifth_with_the_direct_path(W_E, W_V, W_O, W_U):
    """Lets the token's own embedding through as well, W_E (I + W_V W_O) W_U."""
    stream = W_E + W_E @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_fifth_unembeds_with_the_embedding(W_E, W_V, W_O, W_U):
    """Reads the logits off with the transpose of W_E, as with tied embeddings; W_U has no effect."""
    written = torch.linalg.multi_dot([W_E, W_V, W_O])
    return torch.einsum("td,ud->tu", written, W_E)


def ov_circuit__wrong_fifth_transposed_inside(W_E, W_V, W_O, W_U):
    """Puts (W_V W_O) transposed between embedding and unembedding, as for tokens in columns."""
    middle = (W_V @ W_O).T
    return W_E @ middle @ W_U


def ov_circuit__wrong_fifth_centred_rows(W_E, W_V, W_O, W_U):
    """Subtracts each row's mean, since softmax would not see it; plain additions to the logits are asked for."""
    values = W_E @ W_V
    effect = values @ (W_O @ W_U)
    return effect - effect.mean(dim=1, keepdim=True)


def ov_circuit__right_fifth_sum_over_the_values(W_E, W_V, W_O, W_U):
    """Adds up one rank-one matrix for each of the d_v value columns."""
    total = torch.zeros(W_E.shape[0], W_U.shape[1], dtype=W_E.dtype)
    for k in range(W_V.shape[1]):
        reads = W_E @ W_V[:, k]
        writes = W_O[k] @ W_U
        total = total + reads[:, None] * writes[None, :]
    return total


# 8.5 copying_score


def copying_score__wrong_fifth_eigenvalues(ov):
    """Computes the measure of Elhage et al., the sum of the eigenvalues over the sum of their sizes."""
    eigenvalues = torch.linalg.eigvals(ov)
    size = eigenvalues.abs().sum().clamp(min=1e-12)
    return eigenvalues.sum().real / size


def copying_score__wrong_fifth_mean_probability(ov):
    """Averages the probability that softmax gives to the diagonal, in place of counting the rows it wins."""
    p = ov.softmax(dim=-1)
    return p.diagonal().mean()


def copying_score__wrong_fifth_zero_in_place_of_the_diagonal(ov):
    """Puts 0 in the diagonal's place to find the largest of the others, so a negative logit never wins."""
    own = torch.diag(ov)
    others = ov * (1 - torch.eye(len(ov), dtype=ov.dtype))
    return (own > others.max(dim=1).values).to(ov.dtype).mean()


def copying_score__wrong_fifth_fills_the_argument(ov):
    """Fills the diagonal of ov itself with -inf to find the largest of the others: the argument is changed."""
    own = ov.diagonal().clone()
    rest = ov.fill_diagonal_(-math.inf)
    return (own > rest.amax(dim=1)).double().mean().to(ov.dtype)


def copying_score__right_fifth_nobody_as_large(ov):
    """Counts in each row the entries as large as the diagonal's or larger: one, itself, if the token is copied."""
    copied = 0
    for t, row in enumerate(ov):
        as_large = int((row >= row[t]).sum())
        copied += as_large == 1
    return copied / len(ov)


# 8.6 composition_score


def composition_score__wrong_fifth_less_chance(W_QK, W_OV):
    """Subtracts what chance gives, 1 / sqrt(d_model), from the score."""
    top = torch.linalg.matrix_norm(W_QK @ W_OV.T)
    bottom = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if bottom == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return top / bottom - 1 / math.sqrt(W_QK.shape[0])


def composition_score__wrong_fifth_cosine_of_the_entries(W_QK, W_OV):
    """Multiplies the two circuits entry by entry: the cosine of the flattened matrices, without its sign."""
    a, b = W_QK.reshape(-1), W_OV.reshape(-1)
    sizes = a.norm() * b.norm()
    if sizes == 0:
        return sizes * 0
    return (a @ b).abs() / sizes


def composition_score__wrong_fifth_zero_over_zero(W_QK, W_OV):
    """Divides without a look at the denominator: NaN for a circuit of zeros."""

    def frobenius(M):
        return (M * M).sum().sqrt()

    return frobenius(W_QK @ W_OV.T) / (frobenius(W_QK) * frobenius(W_OV))


def composition_score__wrong_fifth_spectral_above(W_QK, W_OV):
    """Takes the largest singular value of the product (ord=2), and Frobenius norms only below."""
    product = torch.einsum("ij,kj->ik", W_QK, W_OV)
    sizes = W_QK.norm() * W_OV.norm()
    if float(sizes) == 0.0:
        return torch.tensor(0.0, dtype=W_QK.dtype)
    return torch.linalg.matrix_norm(product, ord=2) / sizes


# 8.7 ablate_head


def ablate_head__wrong_fifth_mean_in_its_place(head_outputs, head):
    """Puts the head's mean over batch and positions in its place (mean ablation), not zero."""
    out = head_outputs.clone()
    out[:, head] = head_outputs[:, head].mean(dim=(0, 1))
    return out


def ablate_head__wrong_fifth_head_zero_is_false(head_outputs, head):
    """Tests `if not head` for 'no head given', so head 0 is never ablated."""
    if not head:
        return head_outputs.clone()
    keep = torch.ones(head_outputs.shape[1], dtype=head_outputs.dtype)
    keep[head] = 0
    return head_outputs * keep.view(1, -1, 1, 1)


def ablate_head__wrong_fifth_last_position_only(head_outputs, head):
    """Sets the head to zero at the last position only, where the next token is predicted."""
    ablated = head_outputs.clone()
    ablated[:, head, -1, :] = 0
    return ablated


def ablate_head__wrong_fifth_detached_copy(head_outputs, head):
    """Writes into a detached copy: no gradient flows back."""
    copied = head_outputs.detach().clone()
    copied[:, head] = 0.0
    return copied


def ablate_head__right_fifth_pieces_side_by_side(head_outputs, head):
    """Joins the heads before, zeros, and the heads after along axis 1."""
    before = head_outputs[:, :head]
    gone = torch.zeros_like(head_outputs[:, head : head + 1])
    after = head_outputs[:, head + 1 :]
    return torch.cat((before, gone, after), dim=1)


# 8.8 in_context_learning_score


def in_context_learning_score__wrong_fifth_sorts_the_positions(losses, early, late):
    """Exchanges early and late where early is the larger, so the sign is turned there."""
    first, second = sorted((early, late))
    return losses[:, second].mean() - losses[:, first].mean()


def in_context_learning_score__wrong_fifth_relative_change(losses, early, late):
    """Divides by the early loss: the share by which the loss changes."""
    start = losses.mean(dim=0)[early]
    end = losses.mean(dim=0)[late]
    return (end - start) / start


def in_context_learning_score__wrong_fifth_up_to_and_from(losses, early, late):
    """Averages all positions up to early and all from late on, not these two alone."""
    beginning = losses[:, : early + 1].mean()
    rest = losses[:, late:].mean()
    return rest - beginning


def in_context_learning_score__wrong_fifth_median_text(losses, early, late):
    """Takes the median over the batch in place of the mean."""
    change = losses[:, late] - losses[:, early]
    return change.median()


def in_context_learning_score__right_fifth_text_by_text(losses, early, late):
    """Takes each text's difference in a loop, and their mean."""
    total = losses.new_zeros(())
    for text in losses:
        total = total + (text[late] - text[early])
    return total / losses.shape[0]


# 8.9 build_induction_circuit


def build_induction_circuit__wrong_fifth_fixed_match(vocab_size, n_ctx):
    """Gives a match a fixed lead of 80 whatever n_ctx, so in long texts the slope of 10 a position outweighs it."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    tok, pos = slice(0, V), slice(V, V + N)
    note, out = slice(V + N, 2 * V + N), slice(2 * V + N, d)
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, tok] = torch.eye(V)
    W_pos[:, pos] = torch.eye(N)
    W_U[out] = torch.eye(V)
    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N)}
    first |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][pos] = 30 * math.sqrt(N) * torch.diag(torch.ones(N - 1), -1)
    first["W_K"][pos] = torch.eye(N)
    first["W_V"][tok] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)
    root = math.sqrt(V + 1)
    second = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1)}
    second |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    second["W_Q"][tok, :V] = 80 * root * torch.eye(V)
    second["W_Q"][tok, V] = 10 * root
    second["W_K"][note, :V] = torch.eye(V)
    second["W_K"][pos, V] = torch.arange(N).float()
    second["W_V"][tok] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fifth_copies_onto_the_token(vocab_size, n_ctx):
    """Writes the copied token into the field of the own token, as loudly, so both logits tie."""
    width = 2 * vocab_size + n_ctx
    t0, p0, m0 = 0, vocab_size, vocab_size + n_ctx
    zeros = torch.zeros
    weights = {
        "W_E": zeros(vocab_size, width),
        "W_pos": zeros(n_ctx, width),
        "W_U": zeros(width, vocab_size),
        "blocks": [],
    }
    for t in range(vocab_size):
        weights["W_E"][t, t0 + t] = 1
        weights["W_U"][t0 + t, t] = 1
    for i in range(n_ctx):
        weights["W_pos"][i, p0 + i] = 1
    Q, K = zeros(width, n_ctx), zeros(width, n_ctx)
    for i in range(n_ctx):
        Q[p0 + i, max(i - 1, 0)] = 40 * n_ctx**0.5
        K[p0 + i, i] = 1
    read, write = zeros(width, vocab_size), zeros(vocab_size, width)
    for t in range(vocab_size):
        read[t0 + t, t] = 1
        write[t, m0 + t] = 1
    weights["blocks"].append({"W_Q": Q, "W_K": K, "W_V": read, "W_O": write})
    wide = vocab_size + 1
    slope = 12.0
    Q, K, back = zeros(width, wide), zeros(width, wide), zeros(vocab_size, width)
    for t in range(vocab_size):
        Q[t0 + t, t] = slope * (n_ctx + 3) * wide**0.5
        Q[t0 + t, vocab_size] = slope * wide**0.5
        K[m0 + t, t] = 1
        back[t, t0 + t] = 1
    for i in range(n_ctx):
        K[p0 + i, vocab_size] = i
    weights["blocks"].append({"W_Q": Q, "W_K": K, "W_V": read.clone(), "W_O": back})
    return weights


def build_induction_circuit__wrong_fifth_root_of_the_width_forgotten(vocab_size, n_ctx):
    """Sets the first layer's lead to 15 before the division by sqrt(d_head), so in long texts it no longer suffices."""
    eye = torch.eye
    V, N = vocab_size, n_ctx
    # fields: token | position | note | output
    W_E = torch.cat([eye(V), torch.zeros(V, N + 2 * V)], dim=1)
    W_pos = torch.cat([torch.zeros(N, V), eye(N), torch.zeros(N, 2 * V)], dim=1)
    W_U = torch.cat([torch.zeros(V + N + V, V), eye(V)])
    shift = torch.zeros(N, N)
    shift[torch.arange(1, N), torch.arange(N - 1)] = 15.0
    empty = torch.zeros(2 * V, N)
    first = {
        "W_Q": torch.cat([torch.zeros(V, N), shift, empty]),
        "W_K": torch.cat([torch.zeros(V, N), eye(N), empty]),
        "W_V": torch.cat([eye(V), torch.zeros(N + 2 * V, V)]),
        "W_O": torch.cat([torch.zeros(V, V + N), eye(V), torch.zeros(V, V)], dim=1),
    }
    root, slope = math.sqrt(V + 1), 10.0
    q = torch.zeros(3 * V + N, V + 1)
    q[:V, :V], q[:V, V] = slope * (N + 4) * root * eye(V), slope * root
    k = torch.zeros(3 * V + N, V + 1)
    k[V + N : 2 * V + N, :V], k[V : V + N, V] = eye(V), torch.arange(N).float()
    second = {
        "W_Q": q,
        "W_K": k,
        "W_V": first["W_V"].clone(),
        "W_O": torch.cat([torch.zeros(V, 2 * V + N), eye(V)], dim=1),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fifth_slope_downwards(vocab_size, n_ctx):
    """Lets the slope fall with the key's position, so the earliest match wins, position 0's false note first."""
    d = 3 * vocab_size + n_ctx
    token = torch.zeros(d, vocab_size)
    token[:vocab_size] = torch.eye(vocab_size)
    place = torch.zeros(d, n_ctx)
    place[vocab_size : vocab_size + n_ctx] = torch.eye(n_ctx)
    note = token.roll(vocab_size + n_ctx, dims=0)
    said = note.roll(vocab_size, dims=0)
    before = torch.zeros(n_ctx, n_ctx)
    before[1:, :-1] = torch.eye(n_ctx - 1)
    first = {
        "W_Q": place @ before * (35 * n_ctx**0.5),
        "W_K": place.clone(),
        "W_V": token.clone(),
        "W_O": note.T.clone(),
    }
    ones = token.sum(dim=1, keepdim=True)
    steps = place @ torch.arange(n_ctx).float()[:, None]
    root = (vocab_size + 1) ** 0.5
    second = {
        "W_Q": root * torch.cat([11.0 * (n_ctx + 2) * token, -11.0 * ones], dim=1),
        "W_K": torch.cat([note, steps], dim=1),
        "W_V": token.clone(),
        "W_O": said.T.clone(),
    }
    return {
        "W_E": token.T.clone(),
        "W_pos": place.T.clone(),
        "W_U": said.clone(),
        "blocks": [first, second],
    }


def build_induction_circuit__right_fifth_parabola(vocab_size, n_ctx):
    """Writes a position as (j, j squared): the first layer's score is 2(i-1)j - j squared, a parabola with its top at i - 1."""
    V = vocab_size
    # fields: token 0..V-1, then 1, j and j squared, then note and output
    one, at, square, note, out = V, V + 1, V + 2, V + 3, 2 * V + 3
    d = 3 * V + 3
    j = torch.arange(n_ctx).float()
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n_ctx, d), torch.zeros(d, V)
    W_E[:, :V] = torch.eye(V)
    W_pos[:, one], W_pos[:, at], W_pos[:, square] = 1, j, j**2
    W_U[out:] = torch.eye(V)

    Q, K = torch.zeros(d, 2), torch.zeros(d, 2)
    Q[at, 0], Q[one, 0], Q[one, 1] = 64, -64, -32  # 32 (2(i - 1), -1)
    K[at, 0], K[square, 1] = 1, 1
    fetch = torch.zeros(d, V)
    fetch[:V] = torch.eye(V)
    write = torch.zeros(V, d)
    write[:, note:out] = torch.eye(V)
    first = {"W_Q": Q, "W_K": K, "W_V": fetch, "W_O": write}

    slope = 16 * math.sqrt(V + 1)
    Q, K = torch.zeros(d, V + 1), torch.zeros(d, V + 1)
    Q[:V, :V] = slope * (n_ctx + 2) * torch.eye(V)
    Q[one, V] = slope
    K[note:out, :V] = torch.eye(V)
    K[at, V] = 1
    say = torch.zeros(V, d)
    say[:, out:] = torch.eye(V)
    second = {"W_Q": Q, "W_K": K, "W_V": fetch.clone(), "W_O": say}
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# 8.10 find_heads


def find_heads__wrong_fifth_latest_match_only(patterns, tokens):
    """Counts as the place to look at only what followed the latest earlier occurrence."""
    layers, heads, n, _ = patterns.shape
    ids = tokens.tolist()
    wanted = [{i: [i - 1] for i in range(1, n)}, {}]
    for i in range(n):
        earlier = [m for m in range(i) if ids[m] == ids[i]]
        if earlier:
            wanted[1][i] = [earlier[-1] + 1]
    found = ([], [])
    for kind, places in enumerate(wanted):
        if not places:
            continue
        chance = sum(len(c) / (i + 1) for i, c in places.items()) / len(places)
        for layer in range(layers):
            for head in range(heads):
                A = patterns[layer, head]
                hit = sum(float(A[i, c].sum()) for i, c in places.items()) / len(places)
                if 1 - hit < hit - chance:
                    found[kind].append((layer, head))
    return found


def find_heads__wrong_fifth_chance_among_all_n(patterns, tokens):
    """Takes for even attention the share of places among all n tokens, not among the i + 1 that row i may see."""
    n = len(tokens)
    before = torch.diag(torch.ones(n - 1), -1).bool()
    same = (tokens[:, None] == tokens[None, :]).tril(-1)
    after = torch.zeros(n, n, dtype=torch.bool)
    after[:, 1:] = same[:, :-1]
    answer = []
    for places in (before, after):
        rows = places.any(dim=1)
        pairs = []
        if rows.any():
            score = (patterns * places).sum(-1)[..., rows].mean(-1)
            even = (places[rows].sum(-1) / n).mean()
            good = score > (1 + even) / 2
            pairs = [(int(a), int(b)) for a, b in good.nonzero()]
        answer.append(sorted(pairs))
    return tuple(answer)


def find_heads__wrong_fifth_only_the_best_of_each_kind(patterns, tokens):
    """Names the best head of each kind only, where several may do the work."""
    n = tokens.shape[0]
    visible = torch.ones(n, n, dtype=torch.float64).tril()
    even = visible / visible.sum(-1, keepdim=True)
    previous = torch.eye(n, dtype=torch.float64)
    previous = F.pad(previous, (0, 0, 1, 0))[:n]
    match = (tokens.unsqueeze(1) == tokens.unsqueeze(0)).double().tril(-1)
    induction = F.pad(match, (1, 0))[:, :n]

    def search(grid):
        rows = grid.sum(-1) > 0
        if not rows.any():
            return []
        scores = (patterns.double() * grid).sum(-1)[:, :, rows].mean(-1)
        level = ((even * grid).sum(-1)[rows].mean() + 1) / 2
        best = int(scores.argmax())
        pair = divmod(best, patterns.shape[1])
        return [pair] if scores[pair] > level else []

    return search(previous), search(induction)


def find_heads__wrong_fifth_one_kind_for_each_head(patterns, tokens):
    """Leaves a previous-token head out of the induction heads, though a head may be of both kinds."""
    L, H, n, _ = patterns.shape
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    previous_places = j == i - 1
    induction_places = (j >= 1) & (j <= i) & (tokens[(j - 1).clamp(min=0)] == tokens[i])
    previous, induction = [], []
    for layer in range(L):
        for head in range(H):
            for places, names in (
                (previous_places, previous),
                (induction_places, induction),
            ):
                rows = places.any(1)
                if not rows.any() or (layer, head) in previous:
                    continue
                score = (patterns[layer, head] * places).sum(1)[rows].mean()
                chance = (places.sum(1) / (torch.arange(n) + 1))[rows].mean()
                if score - chance > 1 - score:
                    names.append((layer, head))
    return previous, induction


def find_heads__right_fifth_rescaled_gain(patterns, tokens):
    """Sums, row by row, the weight gained on even attention, and asks whether it is more than half of what can be gained."""
    n = tokens.shape[0]
    ids = tokens.tolist()
    rows_previous = [(i, {i - 1}) for i in range(1, n)]
    rows_induction = []
    followers = {}  # token: what followed it so far
    for i, token in enumerate(ids):
        if i:
            followers.setdefault(ids[i - 1], set()).add(i)
        if token in followers and any(m < i for m in range(i) if ids[m] == token):
            rows_induction.append((i, set(followers[token])))
    kinds = []
    for rows in (rows_previous, rows_induction):
        pairs = []
        for layer, heads in enumerate(patterns):
            for head, pattern in enumerate(heads):
                gained = possible = 0.0
                for i, places in rows:
                    even = len(places) / (i + 1)
                    gained += float(pattern[i, sorted(places)].double().sum()) - even
                    possible += 1 - even
                if rows and gained > possible / 2:
                    pairs.append((layer, head))
        kinds.append(pairs)
    return kinds[0], kinds[1]


# 8.11 ablate_path


def ablate_path__wrong_fifth_logits_lose_the_note(tokens, weights, into):
    """Adds the second layer's output to the stream without the note, so the logits are blind to it as well."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    bare = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]

    def pattern(q, k, block):
        s = (q @ block["W_Q"]) @ (k @ block["W_K"]).transpose(-1, -2)
        s = s / math.sqrt(block["W_Q"].shape[1])
        return torch.softmax(s.masked_fill(~causal, -math.inf), dim=-1)

    A = pattern(bare, bare, one)
    full = bare + A @ bare @ one["W_V"] @ one["W_O"]
    q, k, v = (bare if into == name else full for name in ("query", "key", "value"))
    B = pattern(q, k, two)
    final = bare + B @ v @ two["W_V"] @ two["W_O"]
    return final @ weights["W_U"], [A, B]


def ablate_path__wrong_fifth_blind_to_positions_too(tokens, weights, into):
    """Gives the blind reader the token embedding alone: it loses the positions along with the note."""
    n = tokens.shape[1]
    hidden = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    words = weights["W_E"][tokens]
    x = words + weights["W_pos"][:n]
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        read = {"query": x, "key": x, "value": x}
        if layer == 1:
            read[into] = words
        Q, K = read["query"] @ block["W_Q"], read["key"] @ block["W_K"]
        V = read["value"] @ block["W_V"]
        scores = torch.einsum("bie,bje->bij", Q, K) / block["W_Q"].shape[1] ** 0.5
        A = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        patterns.append(A)
        x = x + A @ V @ block["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__wrong_fifth_first_layers_root(tokens, weights, into):
    """Divides both layers' scores by the root of the first layer's d_head."""
    B, n = tokens.shape
    first, second = weights["blocks"]
    root = math.sqrt(first["W_Q"].shape[-1])
    mask = torch.arange(n)[:, None] >= torch.arange(n)
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    scores = (start @ first["W_Q"]) @ (start @ first["W_K"]).mT / root
    A1 = torch.softmax(torch.where(mask, scores, -torch.inf), dim=-1)
    noted = start + A1 @ (start @ first["W_V"]) @ first["W_O"]
    for_q = start if into == "query" else noted
    for_k = start if into == "key" else noted
    for_v = start if into == "value" else noted
    scores = (for_q @ second["W_Q"]) @ (for_k @ second["W_K"]).mT / root
    A2 = torch.softmax(torch.where(mask, scores, -torch.inf), dim=-1)
    end = noted + A2 @ (for_v @ second["W_V"]) @ second["W_O"]
    return end @ weights["W_U"], [A1, A2]


def ablate_path__wrong_fifth_reader_set_to_zero(tokens, weights, into):
    """Sets the reader itself (Q, K or V of the second layer) to zero: it loses token and position as well."""
    n = tokens.shape[1]
    may = torch.ones(n, n).tril() == 1
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    patterns = []
    for depth, p in enumerate(weights["blocks"]):
        Q, K, V = x @ p["W_Q"], x @ p["W_K"], x @ p["W_V"]
        if depth == 1 and into == "query":
            Q = torch.zeros_like(Q)
        elif depth == 1 and into == "key":
            K = torch.zeros_like(K)
        elif depth == 1 and into == "value":
            V = torch.zeros_like(V)
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        patterns.append(S.masked_fill(~may, float("-inf")).softmax(dim=-1))
        x = x + patterns[-1] @ V @ p["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__right_fifth_two_streams_side_by_side(tokens, weights, into):
    """Keeps embedding and note side by side in a stream twice as wide; the blind reader's matrix has zeros for the note's half."""
    n = tokens.shape[1]
    later = torch.ones(n, n, dtype=torch.bool).triu(diagonal=1)
    one, two = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][:n]

    def attend(stream, W_Q, W_K):
        scores = (stream @ W_Q) @ (stream @ W_K).mT / W_Q.shape[1] ** 0.5
        return scores.masked_fill(later, -math.inf).softmax(dim=-1)

    A = attend(start, one["W_Q"], one["W_K"])
    note = A @ (start @ one["W_V"]) @ one["W_O"]
    both = torch.cat([start, note], dim=-1)
    read = {}
    for reader, name in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")):
        W = two[name]
        read[name] = torch.cat([W, torch.zeros_like(W) if reader == into else W])
    B = attend(both, read["W_Q"], read["W_K"])
    told = B @ (both @ read["W_V"]) @ two["W_O"]
    both = torch.cat([both, told], dim=-1)
    return both @ torch.cat([weights["W_U"]] * 3), [A, B]
