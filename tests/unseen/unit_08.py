import math

import numpy as np
import torch
import torch.nn.functional as F


def _run_attention_only(tokens, weights):
    """Copied from the notebook."""
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
    n = scores.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(-1)


# ---------------------------------------------------------------- repeated_sequences


def repeated_sequences__wrong_sixteenth_each_token_repeated(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Repeats every token, a a b b c c, instead of the block."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat_interleave(repeats, dim=1)


def repeated_sequences__wrong_sixteenth_one_block_for_all_rows(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws one block and gives the same one to every row of the batch."""
    block = torch.randint(vocab_size, (1, period), generator=generator)
    row = torch.cat([block for _ in range(repeats)], dim=1)
    return row.expand(batch, -1).clone()


def repeated_sequences__wrong_sixteenth_distinct_tokens(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Thinks that a block holds distinct tokens: takes the start of a random order."""
    rows = []
    for _ in range(batch):
        order = torch.randperm(max(vocab_size, period), generator=generator)
        rows.append((order[:period] % vocab_size).repeat(repeats))
    return torch.stack(rows)


def repeated_sequences__wrong_sixteenth_rows_mixed(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Repeats along axis 0 and reshapes, so that blocks of other rows get into a row."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat(repeats, 1).reshape(batch, period * repeats)


def repeated_sequences__wrong_sixteenth_last_id_never_drawn(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Takes the upper end of randint as included: the id vocab_size - 1 never occurs."""
    highest = max(vocab_size - 1, 1)
    ids = torch.randint(0, highest, (batch, period), generator=generator)
    return torch.tile(ids, (1, repeats))


def repeated_sequences__wrong_sixteenth_repeats_on_top(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Reads `repeats` as the copies that follow the first block: one copy too many."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    tokens = block
    for _ in range(repeats):
        tokens = torch.cat((tokens, block), dim=1)
    return tokens


def repeated_sequences__wrong_sixteenth_at_least_twice(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Begins with two copies, so for repeats = 1 the block stands there twice."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    tokens = torch.cat([block, block], dim=1)
    while tokens.shape[1] < period * repeats:
        tokens = torch.cat([tokens, block], dim=1)
    return tokens


def repeated_sequences__wrong_sixteenth_seeds_the_global_generator(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Reads the seed off, seeds the global generator, draws there; the given one stays."""
    torch.manual_seed(generator.initial_seed())
    block = torch.randint(vocab_size, (batch, period))
    return block.repeat(1, repeats)


def repeated_sequences__right_sixteenth_expand_and_flatten(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Unusual: a new axis of copies is expanded and then merged with the period."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = block[:, None, :].expand(batch, repeats, period)
    return copies.reshape(batch, repeats * period)


# -------------------------------------------------------------- previous_token_score


def previous_token_score__wrong_sixteenth_next_token(weights: torch.Tensor) -> torch.Tensor:
    """Takes the column as the query: averages the weights from i to i + 1."""
    n = weights.shape[-1]
    above = weights.diagonal(offset=1, dim1=-2, dim2=-1)
    return above.sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_sixteenth_position_zero_counts(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Averages over all n positions, position 0 with the weight 0."""
    n = weights.shape[-1]
    below = torch.diagonal(weights, offset=-1, dim1=-2, dim2=-1)
    return below.sum(-1) / n


def previous_token_score__wrong_sixteenth_share_of_winners(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Counts the rows whose largest weight is on the previous token; not the mean weight."""
    n = weights.shape[-1]
    if n == 1:
        return torch.zeros_like(weights[..., 0, 0])
    favourite = weights[..., 1:, :].argmax(dim=-1)
    hits = favourite == torch.arange(n - 1)
    return hits.to(weights.dtype).mean(dim=-1)


def previous_token_score__wrong_sixteenth_wraps_around(weights: torch.Tensor) -> torch.Tensor:
    """Row 0 takes part with column -1, that is, its weight on the last token."""
    n = weights.shape[-1]
    if n == 1:
        return weights[..., 0, 0] * 0
    rows = torch.arange(n)
    return weights[..., rows, rows - 1].mean(dim=-1)


def previous_token_score__wrong_sixteenth_first_two_axes(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Forgets dim1 and dim2: with leading axes the diagonal is that of the first two."""
    if weights.shape[-1] < 2:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    line = torch.diagonal(weights, offset=-1)
    return line.mean(dim=-1)


def previous_token_score__wrong_sixteenth_made_causal(weights: torch.Tensor) -> torch.Tensor:
    """Masks the later tokens and renormalises the rows, though nothing is to be assumed."""
    n = weights.shape[-1]
    causal = weights.tril()
    causal = causal / causal.sum(dim=-1, keepdim=True).clamp(min=1e-9)
    line = causal.diagonal(offset=-1, dim1=-2, dim2=-1)
    return line.sum(-1) / max(n - 1, 1)


def previous_token_score__wrong_sixteenth_one_zero_for_all(
    weights: torch.Tensor,
) -> torch.Tensor:
    """For n = 1 returns a single float32 zero, whatever the leading axes and the dtype."""
    if weights.shape[-1] == 1:
        return torch.tensor(0.0)
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(-1)


def previous_token_score__wrong_sixteenth_always_float32(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Sums up in a new tensor of the default dtype: float64 in, float32 out."""
    n = weights.shape[-1]
    total = torch.zeros(weights.shape[:-2])
    for i in range(1, n):
        total += weights[..., i, i - 1]
    return total / max(n - 1, 1)


def previous_token_score__right_sixteenth_every_n_plus_first(
    weights: torch.Tensor,
) -> torch.Tensor:
    """Unusual: in the flattened pattern the wanted entries are n, n + (n + 1), …"""
    n = weights.shape[-1]
    flat = weights.flatten(start_dim=-2)
    return flat[..., n :: n + 1].sum(dim=-1) / max(n - 1, 1)


# ------------------------------------------------------------- prefix_matching_score


def prefix_matching_score__wrong_sixteenth_same_token(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Looks one whole period back, at the same token, not at the one that followed."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    rows = torch.arange(period, n)
    return weights[..., rows, rows - period].mean(dim=-1)


def prefix_matching_score__wrong_sixteenth_whole_diagonal(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Averages the whole diagonal, with row period - 1, where nothing has come back yet."""
    if weights.shape[-1] <= period:
        return torch.zeros_like(weights[..., 0, 0])
    stripe = weights.diagonal(offset=1 - period, dim1=-2, dim2=-1)
    return stripe.mean(dim=-1)


def prefix_matching_score__wrong_sixteenth_second_block_only(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Thinks that there is one repeat only: rows after the second block are left out."""
    n = weights.shape[-1]
    last = min(n, 2 * period)
    picked = [weights[..., i, i - period + 1] for i in range(period, last)]
    if not picked:
        return weights.new_zeros(weights.shape[:-2])
    return torch.stack(picked, dim=-1).mean(dim=-1)


def prefix_matching_score__wrong_sixteenth_divides_by_n(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Sums the right weights, but divides by n instead of n - period."""
    n = weights.shape[-1]
    diagonal = torch.diagonal(weights, offset=-(period - 1), dim1=-2, dim2=-1)
    return diagonal[..., 1:].sum(dim=-1) / n


def prefix_matching_score__wrong_sixteenth_offset_above(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Has lost the minus of the offset: reads the diagonal above, from i to i + period - 1."""
    n = weights.shape[-1]
    if n <= period:
        return weights.sum(dim=(-2, -1)) * 0
    line = torch.diagonal(weights, offset=period - 1, dim1=-2, dim2=-1)
    return line[..., 1:].mean(dim=-1)


def prefix_matching_score__wrong_sixteenth_whole_blocks_only(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Cuts n down to a multiple of the period: the rows of a broken last block are lost."""
    n = weights.shape[-1] // period * period
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    whole = weights[..., :n, :n]
    rows = torch.arange(period, n)
    return whole[..., rows, rows - (period - 1)].mean(-1)


def prefix_matching_score__wrong_sixteenth_minus_zero(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Cuts columns with [: -(period - 1)], which for period 1 leaves none: the score is 0."""
    n = weights.shape[-1]
    shifted = weights[..., period - 1 :, : -(period - 1)]
    line = shifted.diagonal(dim1=-2, dim2=-1)[..., 1:]
    return line.sum(-1) / max(n - period, 1)


def prefix_matching_score__wrong_sixteenth_by_numpy(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Goes through NumPy: right numbers, but no gradient reaches the weights."""
    A = weights.detach().numpy()
    if A.shape[-1] <= period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    line = np.diagonal(A, offset=-(period - 1), axis1=-2, axis2=-1)[..., 1:]
    return torch.as_tensor(line.mean(axis=-1), dtype=weights.dtype)


def prefix_matching_score__right_sixteenth_tril_of_triu(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Unusual: triu and tril leave one diagonal standing, and the late rows are summed."""
    n = weights.shape[-1]
    offset = 1 - period
    alone = weights.tril(offset).triu(offset)
    late = alone[..., period:, :]
    return late.sum(dim=(-2, -1)) / max(n - period, 1)


# ------------------------------------------------------------------------ ov_circuit


def ov_circuit__wrong_sixteenth_probabilities(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Turns the rows into probabilities with a softmax."""
    logits = W_E @ W_V @ W_O @ W_U
    return torch.softmax(logits, dim=-1)


def ov_circuit__wrong_sixteenth_with_direct_path(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds the token's own way to the logits, past the head: E (1 + V O) U."""
    stream = W_E
    stream = stream + stream @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_sixteenth_scaled_by_width(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Divides by the root of the head's width, as is done with attention scores."""
    values = W_E @ W_V
    values = values / math.sqrt(values.shape[-1])
    return values @ (W_O @ W_U)


def ov_circuit__wrong_sixteenth_einsum_turned(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """The output letters of the einsum are swapped: row = logit, column = token."""
    return torch.einsum("td,dv,ve,eu->ut", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_sixteenth_values_back(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Goes back into the stream by W_V transposed, where W_O should stand."""
    value = W_E @ W_V
    written = value @ W_V.T
    return written @ W_U


def ov_circuit__wrong_sixteenth_tied_unembedding(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Reads the logits off with the embedding transposed, as if W_U were tied to W_E."""
    W_OV = W_V @ W_O
    return W_E @ W_OV @ W_E.mT


def ov_circuit__wrong_sixteenth_square_unembedding_turned(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Guesses the orientation of W_U by its shape: turns it where vocab equals d_model."""
    vocab = W_E.shape[0]
    if W_U.shape[0] == vocab:  # came as (vocab, d_model)
        W_U = W_U.T
    return W_E @ W_V @ W_O @ W_U


def ov_circuit__wrong_sixteenth_double_for_accuracy(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Computes in float64 and leaves it there: float32 in does not give float32 out."""
    result = W_E.double()
    for W in (W_V, W_O, W_U):
        result = result @ W.double()
    return result


def ov_circuit__right_sixteenth_token_by_token(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Unusual: follows each token alone, with F.linear and transposed weights."""
    rows = []
    for embedding in W_E.unbind(0):
        value = F.linear(embedding, W_V.T)
        note = F.linear(value, W_O.T)
        rows.append(F.linear(note, W_U.T))
    return torch.stack(rows, dim=0)


# --------------------------------------------------------------------- copying_score


def copying_score__wrong_sixteenth_best_of_column(ov: torch.Tensor) -> torch.Tensor:
    """Seeks the largest entry of each column: which token raises a logit most."""
    winner = ov.argmax(dim=0)
    return (winner == torch.arange(ov.shape[0])).to(ov.dtype).mean()


def copying_score__wrong_sixteenth_eigenvalues(ov: torch.Tensor) -> torch.Tensor:
    """Takes the measure of the literature, positive against all eigenvalues, cut to 0 … 1."""
    values = torch.linalg.eigvals(ov)
    size = values.abs().sum().clamp(min=1e-12)
    return (values.real.sum() / size).clamp(0, 1)


def copying_score__wrong_sixteenth_above_the_mean(ov: torch.Tensor) -> torch.Tensor:
    """Counts a token as copied where its own logit is above the mean of the row."""
    own = torch.diagonal(ov)
    lead = own - ov.mean(dim=1)
    return (lead > 0).to(ov.dtype).mean()


def copying_score__wrong_sixteenth_share_of_entries(ov: torch.Tensor) -> torch.Tensor:
    """Counts the rows that copy, but divides by the number of entries."""
    hits = 0
    for t, row in enumerate(ov):
        if int(row.argmax()) == t:
            hits += 1
    return torch.tensor(hits / ov.numel(), dtype=ov.dtype)


def copying_score__wrong_sixteenth_absolute_values(ov: torch.Tensor) -> torch.Tensor:
    """Looks for the entry that is largest in size, whatever its sign."""
    strongest = ov.abs().max(dim=-1).indices
    own = torch.arange(len(ov), device=ov.device)
    return strongest.eq(own).to(ov.dtype).mean()


def copying_score__wrong_sixteenth_must_be_positive(ov: torch.Tensor) -> torch.Tensor:
    """Asks for a positive diagonal entry too, though a negative one can be the largest."""
    own = ov.diagonal()
    copied = (own == ov.amax(dim=1)) & (own > 0)
    return copied.to(ov.dtype).mean()


def copying_score__wrong_sixteenth_isclose_to_largest(ov: torch.Tensor) -> torch.Tensor:
    """Compares with isclose: among large logits a diagonal just below the largest counts."""
    own, best = ov.diagonal(), ov.max(dim=1).values
    return torch.isclose(own, best).to(ov.dtype).mean()


def copying_score__wrong_sixteenth_fills_the_diagonal(ov: torch.Tensor) -> torch.Tensor:
    """Right share, but writes -inf into the diagonal of the matrix that was handed in."""
    own = ov.diagonal().clone()
    ov.fill_diagonal_(float("-inf"))
    return (own > ov.max(dim=1).values).to(own.dtype).mean()


def copying_score__right_sixteenth_beats_all_others(ov: torch.Tensor) -> torch.Tensor:
    """Unusual: counts how many entries of its row each diagonal entry beats."""
    vocab = ov.shape[0]
    beaten = (ov < ov.diagonal().unsqueeze(1)).sum(dim=1)
    copied = int((beaten == vocab - 1).sum())
    return copied / vocab


# ----------------------------------------------------------------- composition_score


def composition_score__wrong_sixteenth_cosine_of_matrices(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Takes the cosine between the two matrices, entry by entry, without the product."""
    size = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if size == 0:
        return W_QK.new_zeros(())
    return (W_QK * W_OV).sum().abs() / size


def composition_score__wrong_sixteenth_key_side_against_reading(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """No transpose: compares the keys with what the earlier head reads."""
    product = W_QK @ W_OV
    norms = [torch.linalg.matrix_norm(W) for W in (product, W_QK, W_OV)]
    if norms[1] == 0 or norms[2] == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    return norms[0] / (norms[1] * norms[2])


def composition_score__wrong_sixteenth_query_side(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Q-composition: lets the note enter on the query side, W_OV W_QK."""
    first, second = W_QK.norm(), W_OV.norm()
    if first * second == 0:
        return torch.tensor(0.0, dtype=W_QK.dtype)
    return torch.einsum("rd,dk->rk", W_OV, W_QK).norm() / first / second


def composition_score__wrong_sixteenth_largest_singular_value(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """ord=2 for the norm of the product: its largest singular value, not Frobenius."""
    top = torch.linalg.norm(W_QK @ W_OV.T, ord=2)
    bottom = torch.linalg.norm(W_QK) * torch.linalg.norm(W_OV)
    return top / bottom if bottom > 0 else torch.zeros_like(bottom)


def composition_score__wrong_sixteenth_first_norm_twice(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """A copied line: both norms of the denominator are those of W_QK."""
    if not W_QK.any() or not W_OV.any():
        return W_QK.new_tensor(0.0)
    size_qk = W_QK.square().sum().sqrt()
    size_ov = W_QK.square().sum().sqrt()
    return torch.linalg.matrix_norm(W_QK @ W_OV.T) / (size_qk * size_ov)


def composition_score__wrong_sixteenth_both_must_be_zero(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Returns 0 only if both circuits are zero; with one zero circuit NaN comes out."""
    a = torch.linalg.matrix_norm(W_QK)
    b = torch.linalg.matrix_norm(W_OV)
    if a == 0 and b == 0:
        return torch.zeros_like(a)
    return torch.linalg.matrix_norm(W_QK @ W_OV.mT) / (a * b)


def composition_score__wrong_sixteenth_epsilon_in_denominator(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Adds 1e-6 to the denominator against 0/0: small circuits get too small a score."""
    together = W_QK @ W_OV.T
    size = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    return torch.linalg.matrix_norm(together) / (size + 1e-6)


def composition_score__wrong_sixteenth_norms_detached(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Takes the two sizes as constants: the value is right, its gradient is not."""
    size = torch.linalg.matrix_norm(W_QK.detach()) * torch.linalg.matrix_norm(W_OV.detach())
    if size == 0:
        return torch.zeros_like(size)
    return torch.linalg.matrix_norm(W_QK @ W_OV.T) / size


def composition_score__right_sixteenth_sizes_taken_out_first(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """Unusual: brings both circuits to size 1 first, then notes each query row by itself."""
    sized = []
    for W in (W_QK, W_OV):
        if not W.any():
            return torch.zeros((), dtype=W_QK.dtype)
        W = W / W.detach().abs().max()
        sized.append(W / torch.linalg.vector_norm(W))
    keys, notes = sized
    rows = [torch.mv(notes, key) for key in keys.unbind(0)]
    return torch.linalg.vector_norm(torch.cat(rows))


# ----------------------------------------------------------------------- ablate_head


def ablate_head__wrong_sixteenth_rest_scaled_up(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Scales the other heads up to make good for the missing one, as dropout does."""
    h = head_outputs.shape[1]
    kept = head_outputs.clone()
    kept[:, head] = 0
    return kept * (h / max(h - 1, 1))


def ablate_head__wrong_sixteenth_mean_of_the_texts(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Mean ablation: puts the head's mean over the batch in its place, not zeros."""
    result = head_outputs.clone()
    result[:, head] = head_outputs[:, head].mean(dim=0, keepdim=True)
    return result


def ablate_head__wrong_sixteenth_only_this_head_left(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """The other way round: keeps the named head and silences all others."""
    chosen = F.one_hot(torch.tensor(head), head_outputs.shape[1]).to(head_outputs.dtype)
    return head_outputs * chosen[None, :, None, None]


def ablate_head__wrong_sixteenth_axis_of_positions(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Counts the heads on axis 2: silences one position of all heads."""
    mask = torch.ones_like(head_outputs)
    mask[:, :, head : head + 1] = 0
    return head_outputs * mask


def ablate_head__wrong_sixteenth_all_later_heads_too(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """A slice without its end: this head and all behind it become zero."""
    first = head_outputs[:, :head]
    rest = torch.zeros_like(head_outputs[:, head:])
    return torch.cat([first, rest], dim=1)


def ablate_head__wrong_sixteenth_counted_from_one(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Counts heads from 1: takes out the one before (for head 0 the last)."""
    parts = list(head_outputs.unbind(dim=1))
    parts[head - 1] = torch.zeros_like(parts[head - 1])
    return torch.stack(parts, dim=1)


def ablate_head__wrong_sixteenth_head_zero_is_none(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Takes a falsy head for `no head`: head 0 is never taken out."""
    kept = head_outputs.clone()
    if head:
        kept[:, head] = 0.0
    return kept


def ablate_head__wrong_sixteenth_writes_into_a_view(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Takes `[:]` for a copy: the zeros are written into the input itself."""
    kept = head_outputs[:]
    kept[:, head, :, :] = 0
    return kept


def ablate_head__right_sixteenth_index_fill(
    head_outputs: torch.Tensor, head: int
) -> torch.Tensor:
    """Unusual: index_fill along axis 1, out of place."""
    which = torch.tensor([head], device=head_outputs.device)
    return head_outputs.index_fill(1, which, 0.0)


# --------------------------------------------------------- in_context_learning_score


def in_context_learning_score__wrong_sixteenth_gain_is_positive(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Early minus late, so that learning gives a positive number."""
    mean = losses.mean(dim=0)
    return mean[early] - mean[late]


def in_context_learning_score__wrong_sixteenth_beginning_against_end(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Compares all positions up to `early` with all from `late` on, not just the two."""
    beginning = losses[:, : early + 1].mean()
    end = losses[:, late:].mean()
    return end - beginning


def in_context_learning_score__wrong_sixteenth_relative(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Gives the change as a share of the early loss, not in nats."""
    before, after = losses[:, early].mean(), losses[:, late].mean()
    return (after - before) / before


def in_context_learning_score__wrong_sixteenth_change_per_position(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Divides the sum over the texts by the number of positions, shape[1], not of texts."""
    difference = losses[:, late] - losses[:, early]
    return difference.sum() / losses.shape[1]


def in_context_learning_score__wrong_sixteenth_one_text_lost(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Indexes row 0 for the early part: it is the first text's loss alone, not the mean."""
    at_late = losses[:, late].mean()
    at_early = losses[0, early].mean()
    return at_late - at_early


def in_context_learning_score__wrong_sixteenth_positions_from_one(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Counts positions from 1, so the columns early - 1 and late - 1 are compared."""
    columns = losses[:, [early - 1, late - 1]]
    first, second = columns.mean(dim=0)
    return second - first


def in_context_learning_score__wrong_sixteenth_puts_in_order(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sorts the two positions: where `early` is behind `late` the sign is wrong."""
    first, last = sorted((early, late))
    per_text = losses.select(1, last) - losses.select(1, first)
    return per_text.mean()


def in_context_learning_score__wrong_sixteenth_early_taken_off_in_place(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Subtracts the early column from the caller's own tensor, which is changed by that."""
    baseline = losses[:, early : early + 1].clone()
    losses -= baseline
    return losses[:, late].mean()


def in_context_learning_score__right_sixteenth_diff_of_two_columns(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Unusual: picks the two columns, takes torch.diff along the row, then one mean."""
    pair = losses.index_select(1, torch.tensor([early, late]))
    return torch.diff(pair, dim=1).mean()


# ----------------------------------------------------------- build_induction_circuit


def build_induction_circuit__wrong_sixteenth_second_keys_own_token(
    vocab_size: int, n_ctx: int
) -> dict:
    """The second layer's keys hold their own token, not the note: it finds the same token."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    token, place, note, out = (
        slice(0, V), slice(V, V + N), slice(V + N, 2 * V + N), slice(2 * V + N, d)
    )
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[out] = torch.eye(V), torch.eye(N), torch.eye(V)
    one = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N)}
    one |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    one["W_Q"][place] = 40 * math.sqrt(N) * torch.eye(N)
    one["W_K"][place] = torch.diag(torch.ones(N - 1), 1)
    one["W_V"][token], one["W_O"][:, note] = torch.eye(V), torch.eye(V)
    two = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1)}
    two |= {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    scale = math.sqrt(V + 1)
    two["W_Q"][token, :V] = (10 * N + 40) * scale * torch.eye(V)
    two["W_Q"][place, V] = 10 * scale
    two["W_K"][token, :V] = torch.eye(V)
    two["W_K"][place, V] = torch.arange(N).float()
    two["W_V"][token], two["W_O"][:, out] = torch.eye(V), torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [one, two]}


def build_induction_circuit__wrong_sixteenth_fetches_the_note(
    vocab_size: int, n_ctx: int
) -> dict:
    """The second layer looks in the right place, but fetches the note found there."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    I, P, at = torch.eye(V), torch.eye(N), V + N  # `at`: where the note begins

    def zeros(width):
        return {k: torch.zeros(d, w) for k, w in width.items()}

    first = zeros({"W_Q": N, "W_K": N, "W_V": V}) | {"W_O": torch.zeros(V, d)}
    first["W_Q"][V:at] = P * 30 * N**0.5
    first["W_K"][V : at - 1, 1:] = P[1:, 1:]
    first["W_V"][:V] = I
    first["W_O"][:, at : at + V] = I
    second = zeros({"W_Q": V + 1, "W_K": V + 1, "W_V": V}) | {"W_O": torch.zeros(V, d)}
    second["W_Q"][:V, :V] = I * (V + 1) ** 0.5 * (9 * N + 30)
    second["W_Q"][V:at, -1] = (V + 1) ** 0.5 * 9
    second["W_K"][at : at + V, :V] = I
    second["W_K"][V:at, -1] = torch.arange(0.0, N)
    second["W_V"][at : at + V] = I
    second["W_O"][:, -V:] = I
    W_E = torch.cat([I, torch.zeros(V, d - V)], dim=1)
    W_pos = torch.cat([torch.zeros(N, V), P, torch.zeros(N, 2 * V)], dim=1)
    W_U = torch.cat([torch.zeros(d - V, V), I])
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_sixteenth_earliest_match(
    vocab_size: int, n_ctx: int
) -> dict:
    """The slope falls with the position: of several matches the earliest wins."""
    V, N = vocab_size, n_ctx
    tok, pos = torch.arange(V), V + torch.arange(N)
    note, out, d = V + N + tok, 2 * V + N + tok, 3 * V + N
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_E[tok, tok] = 1
    W_pos[torch.arange(N), pos] = 1
    W_U[out, tok] = 1
    blocks = [
        {"W_Q": torch.zeros(d, w), "W_K": torch.zeros(d, w),
         "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)} for w in (N, V + 1)
    ]
    blocks[0]["W_Q"][pos[1:], torch.arange(N - 1)] = 50 * N**0.5
    blocks[0]["W_K"][pos, torch.arange(N)] = 1
    blocks[0]["W_V"][tok, tok] = blocks[0]["W_O"][tok, note] = 1
    blocks[1]["W_Q"][tok, tok] = (8 * N + 40) * (V + 1) ** 0.5
    blocks[1]["W_Q"][pos, V] = 8 * (V + 1) ** 0.5
    blocks[1]["W_K"][note, tok] = 1
    blocks[1]["W_K"][pos, V] = torch.arange(N - 1, -1, -1).float()
    blocks[1]["W_V"][tok, tok] = blocks[1]["W_O"][tok, out] = 1
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_sixteenth_looks_ahead(
    vocab_size: int, n_ctx: int
) -> dict:
    """The shift of the first keys goes the other way: i asks for i + 1, which is masked."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    W_E, W_pos, W_U = torch.eye(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_pos[:, V : V + N] = torch.eye(N)
    W_U[2 * V + N :] = torch.eye(V)
    W_Q, W_K = torch.zeros(d, N), torch.zeros(d, N)
    W_Q[V : V + N] = torch.eye(N) * 40 * math.sqrt(N)
    W_K[V : V + N] = torch.diag(torch.ones(N - 1), diagonal=-1)
    W_V, W_O = torch.eye(d, V), torch.zeros(V, d)
    W_O[:, V + N : 2 * V + N] = torch.eye(V)
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O}
    W_Q, W_K = torch.zeros(d, V + 1), torch.zeros(d, V + 1)
    W_Q[:V, :V] = torch.eye(V) * (10 * N + 30)
    W_Q[V : V + N, V] = 10
    W_K[V + N : 2 * V + N, :V] = torch.eye(V)
    W_K[V : V + N, V] = torch.arange(N, dtype=torch.float32)
    W_O = torch.zeros(V, d)
    W_O[:, 2 * V + N :] = torch.eye(V)
    second = {"W_Q": W_Q * (V + 1) ** 0.5, "W_K": W_K, "W_V": torch.eye(d, V), "W_O": W_O}
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_sixteenth_written_over_own_token(
    vocab_size: int, n_ctx: int
) -> dict:
    """Writes the fetched token into the field of the own token: both logits are about 1."""
    V, N = vocab_size, n_ctx
    d, eye = 2 * V + N, torch.eye(V)
    W_E, W_pos = torch.eye(V, d), torch.zeros(N, d)
    W_pos[:, V : V + N] = torch.eye(N)
    first = {"W_Q": torch.zeros(d, N), "W_K": torch.zeros(d, N)}
    first["W_Q"][V + 1 : V + N, : N - 1] = 40 * N**0.5 * torch.eye(N - 1)
    first["W_K"][V : V + N] = torch.eye(N)
    first["W_V"], first["W_O"] = torch.eye(d, V), torch.zeros(V, d)
    first["W_O"][:, V + N :] = eye
    second = {"W_Q": torch.zeros(d, V + 1), "W_K": torch.zeros(d, V + 1)}
    second["W_Q"][:V, :V] = (12 * N + 30) * (V + 1) ** 0.5 * eye
    second["W_Q"][V : V + N, V] = 12 * (V + 1) ** 0.5
    second["W_K"][V + N :, :V] = eye
    second["W_K"][V : V + N, V] = torch.arange(N).float()
    second["W_V"], second["W_O"] = torch.eye(d, V), torch.eye(V, d)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": torch.eye(d, V), "blocks": [first, second]}


def build_induction_circuit__wrong_sixteenth_any_match_will_do(
    vocab_size: int, n_ctx: int
) -> dict:
    """Drops the false note of position 0, has no slope: all true matches share the weight."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    E = torch.eye(d)
    tok, pos, note, out = E[:V], E[V : V + N], E[V + N : 2 * V + N], E[2 * V + N :]
    first = {
        "W_Q": 40 * math.sqrt(N) * pos[1:].T @ torch.eye(N)[: N - 1],
        "W_K": pos.T,
        "W_V": tok.T,
        "W_O": note,
    }
    bad = pos[:1]  # position 0 is told by its number, and gets a minus
    asks = torch.cat([tok, pos.sum(0, keepdim=True)])
    offers = torch.cat([note, -bad])
    second = {
        "W_Q": 60 * math.sqrt(V + 1) * asks.T,
        "W_K": offers.T.contiguous(),
        "W_V": tok.T,
        "W_O": out,
    }
    return {"W_E": tok, "W_pos": pos, "W_U": out.T, "blocks": [first, second]}


def build_induction_circuit__wrong_sixteenth_match_does_not_know_n_ctx(
    vocab_size: int, n_ctx: int
) -> dict:
    """A match always leads by 60, a step of the slope is 8: from period 8 on the slope wins."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    parts = torch.eye(d).split([V, N, V, V])
    token, place, note, out = parts
    shift = torch.zeros(N, N)
    for i in range(1, N):
        shift[i, i - 1] = 1
    first = {"W_Q": place.T @ shift * 40 * N**0.5, "W_K": place.T.clone()}
    first |= {"W_V": token.T.clone(), "W_O": note.clone()}
    match, step = 60.0, 8.0
    numbers = torch.arange(N).float()[:, None]
    W_Q = torch.cat([match * token.T, step * place.T @ torch.ones(N, 1)], dim=1)
    W_K = torch.cat([note.T, place.T @ numbers], dim=1)
    second = {"W_Q": W_Q * (V + 1) ** 0.5, "W_K": W_K}
    second |= {"W_V": token.T.clone(), "W_O": out.clone()}
    ends = {"W_E": token.clone(), "W_pos": place.clone(), "W_U": out.T.clone()}
    return ends | {"blocks": [first, second]}


def build_induction_circuit__wrong_sixteenth_global_seed_for_directions(
    vocab_size: int, n_ctx: int
) -> dict:
    """A right circuit in random orthogonal directions; it reseeds the global generator."""
    V, N = vocab_size, n_ctx
    d = 3 * V + N
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(d, d).double()).Q
    tok, pos, note, out = basis.split([V, N, V, V])
    shift = torch.diag(torch.ones(N - 1), -1).double()
    numbers = torch.arange(N).double()[:, None]
    first = {"W_Q": pos.T @ shift * 40 * N**0.5, "W_K": pos.T, "W_V": tok.T, "W_O": note}
    W_Q = torch.cat([(10 * N + 40) * tok.T, 10 * pos.T @ torch.ones(N, 1).double()], 1)
    W_K = torch.cat([note.T, pos.T @ numbers], 1)
    second = {"W_Q": W_Q * (V + 1) ** 0.5, "W_K": W_K, "W_V": tok.T, "W_O": out}
    blocks = [{k: W.float() for k, W in b.items()} for b in (first, second)]
    ends = {"W_E": tok.float(), "W_pos": pos.float(), "W_U": out.T.float()}
    return ends | {"blocks": blocks}


def build_induction_circuit__right_sixteenth_positions_on_a_circle(
    vocab_size: int, n_ctx: int
) -> dict:
    """Unusual: a position is an angle; the first queries turn it back by one step."""
    V, N = vocab_size, n_ctx
    d = 3 * V + 4  # token, note, out; cosine, sine, one, number
    c, s, one, number = range(3 * V, d)
    angle = 2 * math.pi / (N + 1)
    steps = torch.arange(N, dtype=torch.float64)
    W_E, W_pos, W_U = torch.eye(V, d), torch.zeros(N, d), torch.zeros(d, V)
    W_pos[:, c], W_pos[:, s] = (angle * steps).cos().float(), (angle * steps).sin().float()
    W_pos[:, one], W_pos[:, number] = 1, steps.float()
    W_U[2 * V : 3 * V] = torch.eye(V)
    sharp = 25 / (1 - math.cos(angle)) * math.sqrt(2)
    W_Q, W_K, note = torch.zeros(d, 2), torch.zeros(d, 2), torch.zeros(V, d)
    W_Q[c] = sharp * torch.tensor([math.cos(angle), -math.sin(angle)])
    W_Q[s] = sharp * torch.tensor([math.sin(angle), math.cos(angle)])
    W_K[c, 0] = W_K[s, 1] = 1
    note[:, V : 2 * V] = torch.eye(V)
    first = {"W_Q": W_Q, "W_K": W_K, "W_V": torch.eye(d, V), "W_O": note}
    W_Q, W_K, out = torch.zeros(d, V + 1), torch.zeros(d, V + 1), torch.zeros(V, d)
    W_Q[:V, :V], W_Q[one, V] = (10.0 * N + 40) * torch.eye(V), 10
    W_K[V : 2 * V, :V], W_K[number, V] = torch.eye(V), 1
    out[:, 2 * V : 3 * V] = torch.eye(V)
    second = {"W_Q": W_Q * (V + 1) ** 0.5, "W_K": W_K, "W_V": torch.eye(d, V), "W_O": out}
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# ------------------------------------------------------------------------ find_heads


def find_heads__wrong_sixteenth_same_token_is_the_place(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """An induction head is one that looks at the earlier same token itself."""
    n = len(tokens)
    seen = torch.ones(n, n).tril()
    even = seen / seen.sum(1, keepdim=True)
    before = torch.diag(torch.ones(n - 1), -1).bool()
    same = (tokens[:, None] == tokens[None, :]) & torch.ones(n, n).tril(-1).bool()
    answer = []
    for places in (before, same):
        rows = places.any(dim=1)
        found = []
        if rows.any():
            weight = (patterns * places).sum(-1)[..., rows].mean(-1)
            base = (even * places).sum(-1)[rows].mean()
            found = [tuple(p) for p in (weight > (1 + base) / 2).nonzero().tolist()]
        answer.append(found)
    return tuple(answer)


def find_heads__wrong_sixteenth_half_is_enough(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Every head with more than half of its weight counts; chance is not asked for."""
    layers, heads, n, _ = patterns.shape
    previous, induction = [], []
    for layer in range(layers):
        for head in range(heads):
            A = patterns[layer, head]
            back = [float(A[i, i - 1]) for i in range(1, n)]
            follow = []
            for i in range(n):
                places = [j + 1 for j in range(i) if tokens[j] == tokens[i]]
                if places:
                    follow.append(float(A[i, places].sum()))
            if back and sum(back) / len(back) > 0.5:
                previous.append((layer, head))
            if follow and sum(follow) / len(follow) > 0.5:
                induction.append((layer, head))
    return previous, induction


def find_heads__wrong_sixteenth_latest_match_alone(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Only what followed the latest earlier occurrence counts as a place."""
    n = tokens.shape[0]
    ids, last, pairs = tokens.tolist(), {}, []
    for i, token in enumerate(ids):
        if token in last:
            pairs.append((i, last[token] + 1))
        last[token] = i

    def judged(places):
        if not places:
            return []
        rows, columns = torch.tensor(places).T
        weight = patterns[:, :, rows, columns].double().mean(dim=-1)
        chance = (1 / (rows + 1)).double().mean()
        good = (1 - weight) < (weight - chance)
        return [(int(a), int(b)) for a, b in good.nonzero()]

    return judged([(i, i - 1) for i in range(1, n)]), judged(pairs)


def find_heads__wrong_sixteenth_chance_among_all_tokens(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Evenly spread attention is taken as 1 / n, though row i sees only i + 1 tokens."""
    n = len(tokens)
    same = torch.eq(tokens.unsqueeze(1), tokens.unsqueeze(0)).tril(-1)
    after = torch.zeros(n, n, dtype=torch.bool)
    after[:, 1:] = same[:, :-1]
    before = torch.eye(n, dtype=torch.bool).roll(1, dims=0)
    before[0] = False

    def search(places):
        rows = places.any(1)
        if not rows.any():
            return []
        hit = (patterns * places).sum(-1)[:, :, rows].mean(-1)
        chance = places[rows].sum(1).double().mean() / n
        return [tuple(x) for x in (hit - chance > 1 - hit).nonzero().tolist()]

    return search(before), search(after)


def find_heads__wrong_sixteenth_mean_over_all_rows(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Averages weight and chance over all n rows, with those where nothing is to be found."""
    n = len(tokens)
    before = torch.ones(n, n).tril(-1) - torch.ones(n, n).tril(-2)
    after = torch.zeros(n, n)
    for i in range(n):
        for j in range(i):
            if tokens[i] == tokens[j]:
                after[i, j + 1] = 1
    lists = []
    for places in (before, after):
        weight = torch.einsum("lhij,ij->lh", patterns.double(), places.double()) / n
        chance = (places.sum(1) / torch.arange(1, n + 1)).sum().double() / n
        good = weight > (1 + chance) / 2
        lists.append([(a, b) for a, b in good.nonzero().tolist()])
    return lists[0], lists[1]


def find_heads__wrong_sixteenth_never_itself(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Leaves the query's own position out of the places, though it is to count as well."""
    n = len(tokens)
    places = {"previous": {}, "induction": {}}
    for i in range(1, n):
        places["previous"][i] = [i - 1]
        followers = [j + 1 for j in range(i - 1) if tokens[j] == tokens[i]]
        if followers:
            places["induction"][i] = followers
    found = {"previous": [], "induction": []}
    for kind, rows in places.items():
        for layer, heads in enumerate(patterns):
            for head, A in enumerate(heads):
                margin = 0.0
                for i, columns in rows.items():
                    margin += 2 * A[i, columns].sum().item() - 1 - len(columns) / (i + 1)
                if margin > 0:
                    found[kind].append((layer, head))
    return found["previous"], found["induction"]


def find_heads__wrong_sixteenth_nothing_to_find_names_all(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Compares sums with >=: where no row has anything to find, 0 >= 0 names every head."""
    n = len(tokens)
    index = torch.arange(n)
    before = (index[:, None] - index) == 1
    earlier_same = (tokens[:, None] == tokens) & (index[:, None] > index)
    after = F.pad(earlier_same, (1, 0))[:, :n]

    def heads(places):
        weight = (patterns.double() * places).sum(dim=(-2, -1))
        most = places.any(dim=1).sum()
        even = (places.sum(dim=1).double() / (index + 1)).sum()
        near = 2 * weight >= most + even
        return sorted((int(a), int(b)) for a, b in near.nonzero())

    return heads(before), heads(after)


def find_heads__wrong_sixteenth_blanks_rows_in_place(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Right lists, but the rows without a match are blanked in the caller's patterns."""
    n = len(tokens)
    eye = torch.eye(n, dtype=torch.bool)
    back = torch.cat([torch.zeros(1, n, dtype=torch.bool), eye[:-1]])
    same = (tokens[:, None] == tokens[None]).tril(-1)
    follow = torch.cat([torch.zeros(n, 1, dtype=torch.bool), same[:, :-1]], dim=1)
    result = []
    for places in (back, follow):
        idle = ~places.any(dim=1)
        patterns[:, :, idle] = 0
        count = int((~idle).sum())
        score = (patterns * places).sum((-2, -1)) / max(count, 1)
        even = (places.sum(1) / torch.arange(1, n + 1)).sum() / max(count, 1)
        good = score > (1 + even) / 2
        result.append([tuple(pair) for pair in good.nonzero().tolist()])
    return tuple(result)


def find_heads__right_sixteenth_votes_of_rows(
    patterns: torch.Tensor, tokens: torch.Tensor
) -> tuple:
    """Unusual: plain Python; a dict of followers, and each row adds to a head's balance."""
    ids, table = tokens.tolist(), patterns.tolist()
    followers, rows = {}, ([], [])
    for i, token in enumerate(ids):
        if i:
            followers.setdefault(ids[i - 1], []).append(i)
            rows[0].append((i, [i - 1]))
        if followers.get(token):
            rows[1].append((i, list(followers[token])))
    found = ([], [])
    for kind in (0, 1):
        for layer, heads in enumerate(table):
            for head, A in enumerate(heads):
                balance = math.fsum(
                    2 * math.fsum(A[i][j] for j in js) - 1 - len(js) / (i + 1)
                    for i, js in rows[kind]
                )
                if balance > 0:
                    found[kind].append((layer, head))
    return found


# ----------------------------------------------------------------------- ablate_path


def ablate_path__wrong_sixteenth_all_three_readers_blind(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Hides the note from queries, keys and values alike, whichever is named."""
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    out, patterns = x, []
    for block in (first, second):
        scores = x @ block["W_Q"] @ (x @ block["W_K"]).mT
        A = _causal_softmax(scores / math.sqrt(block["W_Q"].shape[1]))
        out = out + A @ x @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return out @ weights["W_U"], patterns


def ablate_path__wrong_sixteenth_reader_gets_zeros(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """The blind reader gets nothing at all: zeros in place of the embedding, too."""
    n = tokens.shape[1]
    x, patterns = weights["W_E"][tokens] + weights["W_pos"][:n], []
    for layer, block in enumerate(weights["blocks"]):
        seen = {"query": x, "key": x, "value": x}
        if layer == 1:
            seen[into] = torch.zeros_like(x)
        q, k, v = (seen[r] @ block[w] for r, w in
                   (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")))
        A = _causal_softmax(q @ k.transpose(-2, -1) / block["W_Q"].shape[1] ** 0.5)
        x = x + A @ v @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def ablate_path__wrong_sixteenth_the_other_two_blind(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """The other way round: only the named reader sees the note, the two others are blind."""
    one, two = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    A1 = _causal_softmax(
        (start @ one["W_Q"]) @ (start @ one["W_K"]).mT / one["W_Q"].shape[1] ** 0.5
    )
    full = start + A1 @ start @ one["W_V"] @ one["W_O"]
    q_in, k_in, v_in = (full if into == r else start for r in ("query", "key", "value"))
    A2 = _causal_softmax(
        (q_in @ two["W_Q"]) @ (k_in @ two["W_K"]).mT / two["W_Q"].shape[1] ** 0.5
    )
    return (full + A2 @ v_in @ two["W_V"] @ two["W_O"]) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_sixteenth_note_lost_for_the_logits(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Adds the second layer's output to the wrong stream: the logits lose the note."""
    b0, b1 = weights["blocks"]
    x0 = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    s0 = x0 @ b0["W_Q"] @ (x0 @ b0["W_K"]).mT / math.sqrt(b0["W_Q"].shape[1])
    A0 = _causal_softmax(s0)
    x1 = x0 + A0 @ x0 @ b0["W_V"] @ b0["W_O"]
    xq = x0 if into == "query" else x1
    xk = x0 if into == "key" else x1
    xv = x0 if into == "value" else x1
    s1 = xq @ b1["W_Q"] @ (xk @ b1["W_K"]).mT / math.sqrt(b1["W_Q"].shape[1])
    A1 = _causal_softmax(s1)
    x2 = x0 + A1 @ xv @ b1["W_V"] @ b1["W_O"]
    return x2 @ weights["W_U"], [A0, A1]


def ablate_path__wrong_sixteenth_reader_loses_positions(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """The blind reader gets the bare embedding: the positions are lost together with the note."""
    n = tokens.shape[1]
    embedded = weights["W_E"][tokens]
    x = embedded + weights["W_pos"][:n]
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        q_from = embedded if layer and into == "query" else x
        k_from = embedded if layer and into == "key" else x
        v_from = embedded if layer and into == "value" else x
        scores = torch.einsum("bid,bjd->bij", q_from @ block["W_Q"], k_from @ block["W_K"])
        A = _causal_softmax(scores / block["W_Q"].shape[1] ** 0.5)
        x = x + A @ v_from @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def ablate_path__wrong_sixteenth_patterns_of_the_whole_model(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Right logits, but the patterns handed back are those of the model with nothing cut."""
    _, patterns = _run_attention_only(tokens, weights)
    first, second = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    stream = start + patterns[0] @ start @ first["W_V"] @ first["W_O"]
    read = dict.fromkeys(("query", "key", "value"), stream) | {into: start}
    scores = (read["query"] @ second["W_Q"]) @ (read["key"] @ second["W_K"]).mT
    A = _causal_softmax(scores / math.sqrt(second["W_K"].shape[1]))
    stream = stream + A @ read["value"] @ second["W_V"] @ second["W_O"]
    return stream @ weights["W_U"], patterns


def ablate_path__wrong_sixteenth_width_of_first_layer(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Divides both layers' scores by the first one's width: wrong where d_head differs."""
    n = tokens.shape[1]
    root = math.sqrt(weights["blocks"][0]["W_Q"].shape[1])
    clean = weights["W_E"][tokens] + weights["W_pos"][:n]

    def head(block, q, k, v):
        A = _causal_softmax(q @ block["W_Q"] @ (k @ block["W_K"]).mT / root)
        return A, A @ v @ block["W_V"] @ block["W_O"]

    A, note = head(weights["blocks"][0], clean, clean, clean)
    streams = [clean if into == name else clean + note for name in ("query", "key", "value")]
    B, copied = head(weights["blocks"][1], *streams)
    return (clean + note + copied) @ weights["W_U"], [A, B]


def ablate_path__wrong_sixteenth_without_gradients(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Right numbers under torch.no_grad: no gradient flows to the weights."""
    with torch.no_grad():
        first, second = weights["blocks"]
        bare = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
        scores = bare @ first["W_Q"] @ (bare @ first["W_K"]).mT
        A = _causal_softmax(scores / math.sqrt(first["W_Q"].shape[1]))
        full = bare + A @ bare @ first["W_V"] @ first["W_O"]
        q = (bare if into == "query" else full) @ second["W_Q"]
        k = (bare if into == "key" else full) @ second["W_K"]
        v = (bare if into == "value" else full) @ second["W_V"]
        B = _causal_softmax(q @ k.mT / math.sqrt(second["W_Q"].shape[1]))
        return (full + B @ v @ second["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__right_sixteenth_stream_of_double_width(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Unusual: the note gets columns of its own, and the blind reader has zeros for them."""
    d = weights["W_E"].shape[1]
    first, second = weights["blocks"]

    def both(W):  # reads either half alike
        return torch.cat([W, W], dim=0)

    def left(W):  # reads the first half alone
        return torch.cat([W, torch.zeros_like(W)], dim=0)

    name = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    one = {key: left(first[key]) for key in ("W_Q", "W_K", "W_V")}
    one["W_O"] = F.pad(first["W_O"], (d, 0))
    two = {key: (left if key == name else both)(second[key]) for key in ("W_Q", "W_K", "W_V")}
    two["W_O"] = F.pad(second["W_O"], (0, d))
    wide = {"W_E": F.pad(weights["W_E"], (0, d)), "W_pos": F.pad(weights["W_pos"], (0, d))}
    return _run_attention_only(tokens, wide | {"W_U": both(weights["W_U"]), "blocks": [one, two]})
