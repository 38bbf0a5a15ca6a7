"""Answers to the exercises of unit 8, induction heads, as students might write them: four wrong, one right for each."""

import math

import torch


def _run_attention_only(tokens, weights):
    """The given machine of the unit: (logits, patterns)."""
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
def repeated_sequences__wrong_eleventh_whole_row_drawn(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws all batch * period * repeats tokens, so other tokens come and the generator moves too far."""
    length = period * repeats
    tokens = torch.randint(vocab_size, (batch, length), generator=generator)
    for i in range(period, length):
        tokens[:, i] = tokens[:, i - period]
    return tokens


def repeated_sequences__wrong_eleventh_rows_mixed(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Puts the axis of the copies before the batch and then reshapes, so blocks of different rows stand in one row."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = block.expand(repeats, batch, period)
    return copies.reshape(batch, repeats * period)


def repeated_sequences__wrong_eleventh_doubling(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Doubles the row until it is long enough and never cuts it: too long unless repeats is a power of two."""
    row = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = 1
    while copies < repeats:
        row = torch.cat([row, row], dim=1)
        copies *= 2
    return row


def repeated_sequences__wrong_eleventh_reseeds(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Seeds the global generator with the given one's seed and draws there: the given one does not advance."""
    torch.manual_seed(generator.initial_seed())
    block = torch.randint(vocab_size, (batch, period))
    return torch.cat([block for _ in range(repeats)], dim=-1)


def repeated_sequences__right_eleventh_kronecker(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Takes the Kronecker product of a row of ones with the block."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.kron(torch.ones(1, repeats, dtype=torch.int64), block)


# ------- 8.2 previous_token_score
def previous_token_score__wrong_eleventh_counts_winners(weights: torch.Tensor) -> torch.Tensor:
    """Gives the share of rows whose largest weight is on the previous token, not the mean of the weights."""
    n = weights.shape[-1]
    if n == 1:
        return weights.new_zeros(weights.shape[:-2])
    looked_at = weights[..., 1:, :].argmax(dim=-1)
    hits = looked_at == torch.arange(n - 1)
    return hits.to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_eleventh_rolled(weights: torch.Tensor) -> torch.Tensor:
    """Rolls the columns and averages the whole diagonal, so row 0 counts too, with the last column."""
    if weights.shape[-1] < 2:
        return 0 * weights[..., 0, 0]
    shifted = torch.roll(weights, shifts=1, dims=-1)
    on_previous = torch.diagonal(shifted, dim1=-2, dim2=-1)
    return on_previous.mean(dim=-1)


def previous_token_score__wrong_eleventh_squeezed(weights: torch.Tensor) -> torch.Tensor:
    """Squeezes the result, so leading axes of size one are lost."""
    n = weights.shape[-1]
    below = torch.diag(torch.ones(n - 1, dtype=weights.dtype), -1) if n > 1 else weights.new_zeros(1, 1)
    total = torch.einsum("...ij,ij->...", weights, below)
    return (total / max(n - 1, 1)).squeeze()


def previous_token_score__wrong_eleventh_masks_input(weights: torch.Tensor) -> torch.Tensor:
    """Sets the upper triangle of the argument itself to zero: a pattern that is not causal is changed."""
    n = weights.shape[-1]
    causal = weights.tril_()
    score = torch.zeros_like(causal[..., 0, 0])
    for i in range(1, n):
        score = score + causal[..., i, i - 1]
    return score / (n - 1) if n > 1 else score


def previous_token_score__right_eleventh_strided_flat(weights: torch.Tensor) -> torch.Tensor:
    """Lays each pattern out flat and takes every (n + 1)-th entry from entry n on."""
    n = weights.shape[-1]
    line = weights.flatten(start_dim=-2)[..., n :: n + 1]
    return line.sum(dim=-1) / max(1, n - 1)


# ------- 8.3 prefix_matching_score
def prefix_matching_score__wrong_eleventh_mean_of_means(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Averages each copy of the block first and then the copies: a last block that breaks off counts too much."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    per_copy = []
    for start in range(period, n, period):
        rows = torch.arange(start, min(start + period, n))
        per_copy.append(weights[..., rows, rows - (period - 1)].mean(dim=-1))
    return torch.stack(per_copy).mean(dim=0)


def prefix_matching_score__wrong_eleventh_corner(weights: torch.Tensor, period: int) -> torch.Tensor:
    """The corner it cuts out starts with column 0, so it takes the weight from i to i - period."""
    n = weights.shape[-1]
    late = max(n - period, 0)
    corner = weights[..., n - late :, :late]
    line = corner.diagonal(dim1=-2, dim2=-1)
    return line.sum(-1) / max(late, 1)


def prefix_matching_score__wrong_eleventh_short_text_dtype(weights: torch.Tensor, period: int) -> torch.Tensor:
    """For n <= period it returns zeros of the default dtype, so float64 patterns get a float32 score."""
    *leading, n, _ = weights.shape
    if period >= n:
        return torch.zeros(leading)
    step_back = period - 1
    entries = [weights[..., i, i - step_back] for i in range(period, n)]
    return sum(entries) / len(entries)


def prefix_matching_score__wrong_eleventh_detached_copy(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Works on a detached copy, so no gradient reaches the weights."""
    A = weights.detach().clone()
    n = A.shape[-1]
    i = torch.arange(n)[:, None]
    j = torch.arange(n)[None, :]
    counted = (i >= period) & (j == i - period + 1)
    A[..., ~counted] = 0
    return A.sum(dim=(-2, -1)) / max(n - period, 1)


def prefix_matching_score__right_eleventh_lower_corner(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Takes the main diagonal of the corner that begins in row `period` and column 1."""
    late = weights[..., period:, 1:]
    line = late.diagonal(dim1=-2, dim2=-1)
    return line.sum(dim=-1) / max(weights.shape[-1] - period, 1)


# ------- 8.4 ov_circuit
def ov_circuit__wrong_eleventh_with_direct_path(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds the head's output to the stream before the unembedding, so the token's own direct path is counted too."""
    stream = W_E
    stream = stream + stream @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_eleventh_indices_swapped(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """The output indices of the einsum are swapped: rows are logits and columns the tokens attended to."""
    fetched = torch.einsum("td,dv->tv", W_E, W_V)
    read_off = torch.einsum("vd,du->vu", W_O, W_U)
    return torch.einsum("tv,vu->ut", fetched, read_off)


def ov_circuit__wrong_eleventh_fits_shapes(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Chooses by the shapes whether to transpose, and so transposes square matrices, which fit both ways."""

    def through(rows, W):
        weight = W.T if W.shape[-1] == rows.shape[-1] else W
        return rows @ weight

    out = W_E
    for W in (W_V, W_O, W_U):
        out = through(out, W)
    return out


def ov_circuit__wrong_eleventh_default_dtype(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Fills a table of the default dtype row by row: float64 weights give a float32 circuit."""
    vocab = W_E.shape[0]
    table = torch.zeros(vocab, vocab)
    for t in range(vocab):
        value = W_E[t] @ W_V
        table[t] = (value @ W_O) @ W_U
    return table


def ov_circuit__right_eleventh_outer_products(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds up one outer product for each dimension of the values."""
    values, effects = W_E @ W_V, W_O @ W_U
    return (values.T[:, :, None] * effects[:, None, :]).sum(dim=0)


# ------- 8.5 copying_score
def copying_score__wrong_eleventh_eigenvalues(ov: torch.Tensor) -> torch.Tensor:
    """Takes the eigenvalue measure of Elhage et al. in place of the share of rows."""
    values = torch.linalg.eigvals(ov)
    size = values.abs().sum()
    if size == 0:
        return ov.new_zeros(())
    return values.real.sum() / size


def copying_score__wrong_eleventh_column_rivals(ov: torch.Tensor) -> torch.Tensor:
    """Compares ov[t, t] with the other entries of its column, not of its row."""
    vocab = len(ov)
    copied = 0
    for t in range(vocab):
        rivals = [ov[u, t] for u in range(vocab) if u != t]
        if all(ov[t, t] > rival for rival in rivals):
            copied += 1
    return torch.tensor(copied / vocab, dtype=ov.dtype)


def copying_score__wrong_eleventh_zeroed_diagonal(ov: torch.Tensor) -> torch.Tensor:
    """Puts 0 in the place of the diagonal to find the best other entry, so a negative diagonal entry can never win."""
    own = torch.diagonal(ov)
    others = ov - torch.diag(own)
    return (own > others.amax(dim=1)).to(ov.dtype).mean()


def copying_score__wrong_eleventh_fills_diagonal(ov: torch.Tensor) -> torch.Tensor:
    """Overwrites the diagonal of the argument with minus infinity."""
    own = ov.diagonal().clone()
    best_other = ov.fill_diagonal_(-torch.inf).max(dim=1).values
    return torch.mean((own > best_other).to(own.dtype))


def copying_score__right_eleventh_ranks(ov: torch.Tensor) -> torch.Tensor:
    """Counts the rows in which only one entry is at least as large as the diagonal one: itself."""
    at_least = ov >= ov.diagonal().unsqueeze(1)
    return (at_least.sum(dim=1) == 1).to(ov.dtype).mean()


# ------- 8.6 composition_score
def composition_score__wrong_eleventh_flat_cosine(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes the cosine between the two matrices as long vectors, the trace of the product in place of its norm."""
    a, b = W_QK.flatten(), W_OV.flatten()
    if not a.any() or not b.any():
        return (a @ b) * 0
    return (a @ b).abs() / (a.norm() * b.norm())


def composition_score__wrong_eleventh_other_side(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """The einsum contracts the keys with the side from which the earlier head reads: W_OV is not transposed."""
    read_through = torch.einsum("qk,kr->qr", W_QK, W_OV)
    norms = [torch.sqrt((M**2).sum()) for M in (W_QK, W_OV)]
    if norms[0] == 0 or norms[1] == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return torch.linalg.matrix_norm(read_through) / (norms[0] * norms[1])


def composition_score__wrong_eleventh_clamped(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Holds the denominator above 1e-8, so two small circuits that compose get a score far too low."""
    product = torch.linalg.matrix_norm(W_QK @ W_OV.T)
    sizes = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    return product / sizes.clamp_min(1e-8)


def composition_score__wrong_eleventh_constant_norms(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Turns the norms in the denominator into Python numbers, so the gradient of the tensor result is wrong."""
    scale = float(W_QK.norm()) * float(W_OV.norm())
    if scale == 0:
        return W_QK.new_zeros(())
    return (W_QK @ W_OV.mT).norm() / scale


def composition_score__right_eleventh_row_by_row(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Brings both circuits to size one and adds up, in quadrature, what the keys read of each written row."""
    top_q, top_o = W_QK.detach().abs().max(), W_OV.detach().abs().max()
    if top_q == 0 or top_o == 0:
        return W_QK.new_zeros(())
    reads, writes = W_QK / top_q, W_OV / top_o
    lengths = torch.stack([torch.linalg.vector_norm(reads @ row) for row in writes])
    whole = torch.linalg.vector_norm(lengths)
    return whole / torch.linalg.vector_norm(reads) / torch.linalg.vector_norm(writes)


# ------- 8.7 ablate_head
def ablate_head__wrong_eleventh_rescaled(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Scales the other heads up by h / (h - 1), as dropout would."""
    h = head_outputs.shape[1]
    keep = torch.ones(h, dtype=head_outputs.dtype)
    keep[head] = 0
    if h > 1:
        keep = keep * h / (h - 1)
    return torch.einsum("bhnd,h->bhnd", head_outputs, keep)


def ablate_head__wrong_eleventh_zeros_last(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes the head out and puts the zeros at the end, so the later heads move up by one."""
    others = [head_outputs[:, k] for k in range(head_outputs.shape[1]) if k != head]
    silent = torch.zeros_like(head_outputs[:, head])
    return torch.stack([*others, silent], dim=1)


def ablate_head__wrong_eleventh_view_of_rows(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Views the copy as rows of batch and head together: an error for inputs that are not contiguous in memory."""
    B, h, n, d_model = head_outputs.shape
    kept = head_outputs.clone()
    flat = kept.view(B * h, n, d_model)
    flat[head::h] = 0
    return kept


def ablate_head__wrong_eleventh_slice_is_no_copy(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes a full slice for a copy, so the zeros are written into the argument."""
    kept = head_outputs[:]
    kept[:, head] = 0.0
    return kept


def ablate_head__right_eleventh_unbound_heads(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Takes the heads apart into a list, replaces one and stacks them again."""
    heads = list(head_outputs.unbind(dim=1))
    heads[head] = torch.zeros_like(heads[head])
    return torch.stack(heads, dim=1)


# ------- 8.8 in_context_learning_score
def in_context_learning_score__wrong_eleventh_stretches(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Averages over all positions up to `early` and from `late` on, in place of these two alone."""
    beginning = losses[:, : early + 1]
    end = losses[:, late:]
    return end.mean() - beginning.mean()


def in_context_learning_score__wrong_eleventh_divides_by_length(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Divides the sum over the batch by the number of positions, not of texts."""
    texts, n = losses.shape
    total = 0
    for b in range(texts):
        total = total + losses[b, late] - losses[b, early]
    return total / n


def in_context_learning_score__wrong_eleventh_set_contrast(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sets the two entries of the contrast one after the other: -mean and not 0 where early and late are the same."""
    contrast = torch.zeros(losses.shape[1], dtype=losses.dtype)
    contrast[late] = 1
    contrast[early] = -1
    return losses.mean(dim=0) @ contrast


def in_context_learning_score__wrong_eleventh_new_tensor(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Wraps Python numbers into a new tensor: float32 for float64 losses, and without a gradient."""
    at_late = [float(row[late]) for row in losses]
    at_early = [float(row[early]) for row in losses]
    return torch.tensor(sum(at_late) / len(at_late) - sum(at_early) / len(at_early))


def in_context_learning_score__right_eleventh_difference(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Selects the two columns and averages the difference within each text."""
    two = losses.index_select(1, torch.tensor([early, late]))
    return two.diff(dim=1).mean()


# ------- 8.9 build_induction_circuit
def build_induction_circuit__wrong_eleventh_only_first_barred(vocab_size: int, n_ctx: int) -> dict:
    """Keeps position 0 from winning but has no slope: from the third copy on, earlier matches share the weight."""
    V, N = vocab_size, n_ctx
    word, place, note, said = (slice(a, b) for a, b in ((0, V), (V, V + N), (V + N, 2 * V + N), (2 * V + N, 3 * V + N)))
    d = 3 * V + N

    def empty(rows, columns):
        return torch.zeros(rows, columns)

    W_E, W_pos, W_U = empty(V, d), empty(N, d), empty(d, V)
    W_E[:, word] = torch.eye(V)
    W_pos[:, place] = torch.eye(N)
    W_U[said] = torch.eye(V)
    first = {"W_Q": empty(d, N), "W_K": empty(d, N), "W_V": empty(d, V), "W_O": empty(V, d)}
    first["W_Q"][place] = 40 * N**0.5 * torch.diag(torch.ones(N - 1), -1)
    first["W_K"][place] = torch.eye(N)
    first["W_V"][word] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)
    second = {"W_Q": empty(d, V + 1), "W_K": empty(d, V + 1), "W_V": empty(d, V), "W_O": empty(V, d)}
    strong = 40 * (V + 1) ** 0.5
    second["W_Q"][word, :V] = strong * torch.eye(V)
    second["W_K"][note, :V] = torch.eye(V)
    second["W_Q"][place, V] = strong
    second["W_K"][V, V] = -1.0
    second["W_V"][word] = torch.eye(V)
    second["W_O"][:, said] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_eleventh_width_forgotten(vocab_size: int, n_ctx: int) -> dict:
    """The second layer's numbers ignore the division by the root of d_head: too faint a slope for a large vocabulary
    where the period is very short."""
    token0, note0, out0, place0 = 0, vocab_size, 2 * vocab_size, 3 * vocab_size
    d_model = place0 + n_ctx
    slope = 20.0
    match = slope * n_ctx + 20.0

    W_E = torch.zeros(vocab_size, d_model)
    W_U = torch.zeros(d_model, vocab_size)
    W_pos = torch.zeros(n_ctx, d_model)
    Q1, K1 = torch.zeros(d_model, n_ctx), torch.zeros(d_model, n_ctx)
    V1, O1 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    Q2, K2 = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    V2, O2 = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    for t in range(vocab_size):
        W_E[t, token0 + t] = 1
        V1[token0 + t, t] = 1
        O1[t, note0 + t] = 1
        Q2[token0 + t, t] = match
        K2[note0 + t, t] = 1
        V2[token0 + t, t] = 1
        O2[t, out0 + t] = 1
        W_U[out0 + t, t] = 1
    for i in range(n_ctx):
        W_pos[i, place0 + i] = 1
        K1[place0 + i, i] = 1
        if i > 0:
            Q1[place0 + i, i - 1] = 30 * math.sqrt(n_ctx)
        Q2[place0 + i, vocab_size] = 1
        K2[place0 + i, vocab_size] = slope * i
    blocks = [
        {"W_Q": Q1, "W_K": K1, "W_V": V1, "W_O": O1},
        {"W_Q": Q2, "W_K": K2, "W_V": V2, "W_O": O2},
    ]
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_eleventh_answer_in_note_field(vocab_size: int, n_ctx: int) -> dict:
    """The second layer writes its answer into the field of the notes: the token before is as loud in the logits."""
    v, n = vocab_size, n_ctx
    d = 2 * v + n
    I_v, I_n = torch.eye(v), torch.eye(n)
    Z = torch.zeros
    embed = torch.cat([I_v, Z(v, v + n)], dim=1)
    positions = torch.cat([Z(n, 2 * v), I_n], dim=1)
    unembed = torch.cat([Z(v, v), I_v, Z(n, v)])
    read_token = torch.cat([I_v, Z(v + n, v)])
    read_note = torch.cat([Z(v, v), I_v, Z(n, v)])
    read_place = torch.cat([Z(2 * v, n), I_n])
    write_note = torch.cat([Z(v, v), I_v, Z(v, n)], dim=1)
    shift = torch.eye(n).roll(-1, dims=1)
    shift[0] = 0
    first = {
        "W_Q": 50 * n**0.5 * read_place @ shift,
        "W_K": read_place,
        "W_V": read_token,
        "W_O": write_note,
    }
    root = (v + 1) ** 0.5
    late = torch.cat([Z(2 * v, 1), torch.arange(n).float()[:, None]])
    always = torch.cat([Z(2 * v, 1), torch.ones(n, 1)])
    second = {
        "W_Q": torch.cat([root * (10.0 * n + 30) * read_token, 10 * root * always], dim=1),
        "W_K": torch.cat([read_note, late], dim=1),
        "W_V": read_token.clone(),
        "W_O": write_note.clone(),
    }
    assert embed.shape[1] == d
    return {"W_E": embed, "W_pos": positions, "W_U": unembed, "blocks": [first, second]}


def build_induction_circuit__wrong_eleventh_random_codes(vocab_size: int, n_ctx: int) -> dict:
    """Takes random directions for the tokens and seeds the global generator for them."""
    torch.manual_seed(8)
    width = 640
    code = torch.randn(vocab_size, width)
    code = code / code.norm(dim=1, keepdim=True)
    sizes = [width, width, width, n_ctx]
    edges = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    tok, note, answer, pos = (slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True))
    d = edges[-1]
    weights = {"W_E": torch.zeros(vocab_size, d), "W_pos": torch.zeros(n_ctx, d), "W_U": torch.zeros(d, vocab_size)}
    weights["W_E"][:, tok] = code
    weights["W_pos"][:, pos] = torch.eye(n_ctx)
    weights["W_U"][answer] = code.T

    def head(d_head):
        return {
            "W_Q": torch.zeros(d, d_head),
            "W_K": torch.zeros(d, d_head),
            "W_V": torch.zeros(d, width),
            "W_O": torch.zeros(width, d),
        }

    one, two = head(n_ctx), head(width + 1)
    for i in range(1, n_ctx):
        one["W_Q"][pos.start + i, i - 1] = 35 * math.sqrt(n_ctx)
    one["W_K"][pos] = torch.eye(n_ctx)
    one["W_V"][tok] = torch.eye(width)
    one["W_O"][:, note] = torch.eye(width)
    scale = math.sqrt(width + 1)
    two["W_Q"][tok, :width] = scale * 2 * (8 * n_ctx + 40) * torch.eye(width)
    two["W_K"][note, :width] = torch.eye(width)
    two["W_Q"][pos, width] = scale * 8
    two["W_K"][pos, width] = torch.arange(n_ctx, dtype=torch.float32)
    two["W_V"][tok] = torch.eye(width)
    two["W_O"][:, answer] = torch.eye(width)
    return weights | {"blocks": [one, two]}


def build_induction_circuit__right_eleventh_binary_codes(vocab_size: int, n_ctx: int) -> dict:
    """Writes tokens and positions as binary numbers of plus and minus ones; a position carries its own number, that of
    the one before, a one and its place on the slope."""

    def bits(count):
        width = max(1, (count - 1).bit_length())
        numbers = torch.arange(count)[:, None] >> torch.arange(width)[None, :]
        return (2 * (numbers & 1) - 1).float()

    word, place = bits(vocab_size), bits(n_ctx)
    w, p = word.shape[1], place.shape[1]
    widths = {"word": w, "note": w, "answer": w, "here": p, "before": p, "one": 1, "slope": 1}
    field, d = {}, 0
    for name, width in widths.items():
        field[name] = slice(d, d + width)
        d += width

    def move(rows, columns, entries):
        W = torch.zeros(rows, columns)
        for r, c, gain in entries:
            size = (r.stop - r.start) if r.start is not None else (c.stop - c.start)
            W[r, c] = gain * torch.eye(size)
        return W

    W_E, W_pos, W_U = torch.zeros(vocab_size, d), torch.zeros(n_ctx, d), torch.zeros(d, vocab_size)
    W_E[:, field["word"]] = word
    W_pos[:, field["here"]] = place
    W_pos[1:, field["before"]] = place[:-1]
    W_pos[:, field["one"]] = 1
    W_pos[:, field["slope"]] = torch.arange(n_ctx).float()[:, None]
    W_U[field["answer"]] = word.T
    whole = slice(0, w)
    first = {
        "W_Q": move(d, p, [(field["before"], slice(0, p), 20 * p**0.5)]),
        "W_K": move(d, p, [(field["here"], slice(0, p), 1.0)]),
        "W_V": move(d, w, [(field["word"], whole, 1.0)]),
        "W_O": move(w, d, [(whole, field["note"], 1.0)]),
    }
    root, steep, extra = (w + 1) ** 0.5, 12.0, slice(w, w + 1)
    gain = steep * n_ctx / 2 + 15
    second = {
        "W_Q": move(d, w + 1, [(field["word"], whole, gain * root), (field["one"], extra, steep * root)]),
        "W_K": move(d, w + 1, [(field["note"], whole, 1.0), (field["slope"], extra, 1.0)]),
        "W_V": move(d, w, [(field["word"], whole, 1.0)]),
        "W_O": move(w, d, [(whole, field["answer"], 1.0)]),
    }
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# ------- 8.10 find_heads
def find_heads__wrong_eleventh_majority_of_rows(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Judges every row by itself and takes a vote of the rows, in place of the head's weight over all of them."""
    layers, heads, n, _ = patterns.shape
    text = tokens.tolist()
    previous_places = {i: [i - 1] for i in range(1, n)}
    followers = {}
    for i in range(n):
        columns = [j for j in range(1, i + 1) if text[j - 1] == text[i]]
        if columns:
            followers[i] = columns

    def does_it(A, places):
        votes = 0
        for i, columns in places.items():
            chance = len(columns) / (i + 1)
            votes += float(A[i, columns].sum()) > (1 + chance) / 2
        return votes > len(places) / 2

    every = [(layer, head) for layer in range(layers) for head in range(heads)]
    previous = [pair for pair in every if does_it(patterns[pair], previous_places)]
    induction = [pair for pair in every if does_it(patterns[pair], followers)]
    return previous, induction


def find_heads__wrong_eleventh_chance_of_all_rows(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Averages what evenly spread attention hits over all rows, also those in which there is nothing to find."""
    n = len(tokens)
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = even / even.sum(dim=-1, keepdim=True)
    before = torch.eye(n, dtype=torch.bool).roll(1, dims=0)
    before[0] = False
    follows = torch.zeros(n, n, dtype=torch.bool)
    follows[:, 1:] = (tokens[:, None] == tokens[None, :-1]).tril(-1)
    found = []
    for wanted in (before, follows):
        rows = wanted.any(dim=-1)
        if not rows.any():
            found.append([])
            continue
        hits = (patterns * wanted).sum(dim=-1)[..., rows].mean(dim=-1)
        chance = (even * wanted).sum(dim=-1).mean()
        nearer = (1 - hits).abs() < (hits - chance).abs()
        found.append([tuple(pair) for pair in nearer.nonzero().tolist()])
    return found[0], found[1]


def find_heads__wrong_eleventh_head_by_head(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Lists the pairs in the order of the heads, so they are not sorted where several layers have such heads."""
    layers, heads, n, _ = patterns.shape
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    came_before = tokens.roll(1)
    masks = {
        "previous": j == i - 1,
        "induction": (came_before[j] == tokens[i]) & (j >= 1) & (j <= i),
    }
    result = {name: [] for name in masks}
    for name, mask in masks.items():
        rows = mask.sum(dim=1) > 0
        if rows.sum() == 0:
            continue
        chance = (mask.sum(dim=1) / torch.arange(1, n + 1))[rows].mean()
        for head in range(heads):
            for layer in range(layers):
                got = torch.where(mask, patterns[layer, head], 0).sum(dim=1)[rows].mean()
                if got > (1 + chance) / 2:
                    result[name].append((layer, head))
    return result["previous"], result["induction"]


def find_heads__wrong_eleventh_zero_is_padding(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Takes token 0 for padding and leaves its rows out of the search for induction heads."""
    n = tokens.shape[0]
    previous, induction = [], []
    same = (tokens.unsqueeze(1) == tokens.unsqueeze(0)) & (tokens != 0).unsqueeze(1)
    same = same & torch.ones(n, n).tril(-1).bool()
    after = torch.cat([torch.zeros(n, 1, dtype=torch.bool), same[:, :-1]], dim=1)
    seen = torch.arange(1, n + 1).to(patterns.dtype)

    def judge(hit, by_chance):
        return len(hit) > 0 and float(hit.mean()) - float(by_chance.mean()) > 1 - float(hit.mean())

    useful = after.any(dim=1)
    for layer, heads in enumerate(patterns):
        for head, A in enumerate(heads):
            if judge(A.diagonal(-1), 1 / seen[1:]):
                previous.append((layer, head))
            weight = (A * after).sum(dim=1)
            if judge(weight[useful], (after.sum(dim=1) / seen)[useful]):
                induction.append((layer, head))
    return sorted(previous), sorted(induction)


def find_heads__right_eleventh_running_surplus(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Reads the text once, keeps the places after each token in a dict and adds up by how much each head's weight
    passes the middle between chance and one."""
    layers, heads, n, _ = patterns.shape
    surplus = torch.zeros(2, layers, heads, dtype=torch.float64)
    after = {}
    last = None
    for i, token in enumerate(tokens.tolist()):
        if last is not None:
            after.setdefault(last, []).append(i)
        wanted = ([i - 1] if i else [], after.get(token, []))
        for kind, columns in enumerate(wanted):
            if columns:
                middle = (1 + len(columns) / (i + 1)) / 2
                surplus[kind] += patterns[:, :, i, columns].detach().double().sum(dim=-1) - middle
        last = token
    previous, induction = (
        [(layer, head) for layer in range(layers) for head in range(heads) if kind[layer, head] > 0]
        for kind in surplus
    )
    return previous, induction


# ------- 8.11 ablate_path
def ablate_path__wrong_eleventh_directions_taken_out(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Takes out of the blind reader's stream all directions to which the first layer can write, so it also loses what
    the embedding holds there."""
    n = tokens.shape[1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    first, second = weights["blocks"]

    def pattern(queries, keys, block):
        scores = (queries @ block["W_Q"]) @ (keys @ block["W_K"]).transpose(-2, -1)
        scores = scores / block["W_Q"].shape[1] ** 0.5
        return scores.masked_fill(later, -torch.inf).softmax(dim=-1)

    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    A_first = pattern(start, start, first)
    x = start + A_first @ start @ first["W_V"] @ first["W_O"]
    written = torch.linalg.pinv(first["W_O"]) @ first["W_O"]
    blind = x - x @ written
    q, k, v = (blind if into == name else x for name in ("query", "key", "value"))
    A_second = pattern(q, k, second)
    x = x + A_second @ v @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A_first, A_second]


def ablate_path__wrong_eleventh_added_in_place(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Adds the note in place, so the stream kept for the blind reader holds it as well and nothing is cut."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    stream = weights["W_E"][tokens] + weights["W_pos"][:n]
    without_note = stream
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        source = dict.fromkeys(("query", "key", "value"), stream)
        if layer == 1:
            source[into] = without_note
        Q, K, V = (source[r] @ block[w] for r, w in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")))
        scores = Q @ K.mT / math.sqrt(Q.shape[-1])
        A = torch.where(causal, scores, -torch.inf).softmax(-1)
        stream += A @ V @ block["W_O"]
        patterns.append(A)
    return stream @ weights["W_U"], patterns


def ablate_path__wrong_eleventh_small_mask(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Masks with -100 in place of minus infinity, so later positions get weight where the scores are very negative."""
    length = tokens.shape[1]
    one, two = weights["blocks"]
    hidden = torch.full((length, length), -100.0).triu(1)
    allowed = hidden == 0

    def attend(q, k, width):
        s = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(width)
        return torch.softmax(torch.where(allowed, s, hidden.to(s.dtype)), dim=-1)

    bare = weights["W_E"][tokens] + weights["W_pos"][:length]
    A1 = attend(bare @ one["W_Q"], bare @ one["W_K"], one["W_Q"].shape[1])
    noted = bare + A1 @ bare @ one["W_V"] @ one["W_O"]
    q = (bare if into == "query" else noted) @ two["W_Q"]
    k = (bare if into == "key" else noted) @ two["W_K"]
    v = (bare if into == "value" else noted) @ two["W_V"]
    A2 = attend(q, k, two["W_Q"].shape[1])
    logits = (noted + A2 @ v @ two["W_O"]) @ weights["W_U"]
    return logits, [A1, A2]


def ablate_path__wrong_eleventh_detached_start(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Keeps a detached copy of the stream for the blind reader, so no gradient flows to the embedding through it."""
    n = tokens.shape[1]
    mask = torch.ones(n, n).tril() == 0
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    before_note = x.detach().clone()
    patterns = []
    for number, block in enumerate(weights["blocks"]):
        seen = {reader: x for reader in ("query", "key", "value")}
        if number == 1:
            seen[into] = before_note
        Q, K = seen["query"] @ block["W_Q"], seen["key"] @ block["W_K"]
        A = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(mask, float("-inf")).softmax(dim=-1)
        x = x + A @ seen["value"] @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def ablate_path__right_eleventh_widened_stream(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Builds weights for a stream twice as wide in which the note has a half of its own, and runs these."""
    first, second = weights["blocks"]

    def beside(left, right):
        return torch.cat([left, right], dim=1)

    def reads(W, note_too):
        return torch.cat([W, W if note_too else torch.zeros_like(W)])

    nothing = torch.zeros_like
    wide_first = {name: reads(first[name], False) for name in ("W_Q", "W_K", "W_V")}
    wide_first["W_O"] = beside(nothing(first["W_O"]), first["W_O"])
    blind = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    wide_second = {name: reads(second[name], name != blind) for name in ("W_Q", "W_K", "W_V")}
    wide_second["W_O"] = beside(second["W_O"], nothing(second["W_O"]))
    wide = {
        "W_E": beside(weights["W_E"], nothing(weights["W_E"])),
        "W_pos": beside(weights["W_pos"], nothing(weights["W_pos"])),
        "W_U": reads(weights["W_U"], True),
        "blocks": [wide_first, wide_second],
    }
    return _run_attention_only(tokens, wide)
