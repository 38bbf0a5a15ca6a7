import math
from collections import Counter, defaultdict

import torch
import torch.nn.functional as F


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


# ---------------------------------------------------------------- 8.1 repeated_sequences


def repeated_sequences__wrong_fifteenth_each_token_repeated(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Repeats every token in place, a a b b; due is the block as a whole, a b a b."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.unsqueeze(-1).expand(batch, period, repeats).reshape(batch, -1)


def repeated_sequences__wrong_fifteenth_one_block_for_all_rows(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws one block and gives it to every row; due is a block of its own for each row."""
    block = torch.randint(vocab_size, (1, period), generator=generator)
    row = torch.cat([block] * repeats, dim=1)
    return row.repeat(batch, 1)


def repeated_sequences__wrong_fifteenth_distinct_tokens(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Draws blocks of distinct tokens as section 5 does; due are independent draws, tokens may recur."""
    order = torch.rand(batch, vocab_size, generator=generator).argsort(dim=1)
    block = order[:, :period]
    return block.repeat(1, repeats)


def repeated_sequences__wrong_fifteenth_last_id_never_drawn(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Takes randint's upper end as included and draws below vocab_size - 1; due are ids up to vocab_size - 1."""
    highest = vocab_size - 1
    block = torch.randint(0, highest, (batch, period), generator=generator)
    return torch.tile(block, (1, repeats))


def repeated_sequences__wrong_fifteenth_copies_stacked_then_reshaped(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Stacks copies below each other and reshapes, which mixes the rows; due are copies side by side."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    copies = torch.stack([block for _ in range(repeats)])
    return copies.reshape(batch, period * repeats)


def repeated_sequences__wrong_fifteenth_repeats_after_the_first(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Reads repeats as copies after the first, so one too many; due are `repeats` copies in all."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    tokens = block
    for _ in range(repeats):
        tokens = torch.cat([tokens, block], dim=1)
    return tokens


def repeated_sequences__wrong_fifteenth_doubles_past_the_length(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Doubles until it is long enough, right for 1, 2, 4 repeats; due is period * repeats for any number."""
    tokens = torch.randint(vocab_size, (batch, period), generator=generator)
    while tokens.shape[1] < period * repeats:
        tokens = torch.cat((tokens, tokens), dim=1)
    return tokens


def repeated_sequences__wrong_fifteenth_reseeds_the_global_state(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """Right tokens, but seeds torch's global random state on the way; due is to leave it alone."""
    torch.manual_seed(generator.initial_seed())
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat(1, repeats)


def repeated_sequences__right_fifteenth_kronecker_product(
    batch: int, period: int, repeats: int, vocab_size: int, generator: torch.Generator
) -> torch.Tensor:
    """The Kronecker product of a row of ones with the blocks: copies side by side."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return torch.kron(torch.ones(1, repeats, dtype=torch.int64), block)


# ---------------------------------------------------------------- 8.2 previous_token_score


def previous_token_score__wrong_fifteenth_query_and_key_swapped(weights: torch.Tensor) -> torch.Tensor:
    """Takes columns as queries, so the weight from i - 1 to i; due is that from i to i - 1."""
    n = weights.shape[-1]
    if n == 1:
        return 0 * weights[..., 0, 0]
    by_query = weights.transpose(-1, -2)
    return by_query.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)


def previous_token_score__wrong_fifteenth_all_earlier_tokens(weights: torch.Tensor) -> torch.Tensor:
    """Counts the weight on all earlier tokens; due is that on the one token just before."""
    n = weights.shape[-1]
    earlier = weights.tril(diagonal=-1).sum(dim=-1)
    return earlier[..., 1:].sum(dim=-1) / max(n - 1, 1)


def previous_token_score__wrong_fifteenth_masks_and_renormalises(weights: torch.Tensor) -> torch.Tensor:
    """Makes the pattern causal with rows that sum to 1 first; due are the weights as they come."""
    n = weights.shape[-1]
    causal = torch.tril(weights)
    total = causal.sum(dim=-1, keepdim=True)
    causal = causal / total.masked_fill(total == 0, 1)
    line = torch.diagonal(causal, offset=-1, dim1=-2, dim2=-1)
    return line.sum(-1) / max(n - 1, 1)


def previous_token_score__wrong_fifteenth_last_row_left_out(weights: torch.Tensor) -> torch.Tensor:
    """The loop ends before row n - 1; due are all rows from 1 to n - 1."""
    n = weights.shape[-1]
    total = torch.zeros_like(weights[..., 0, 0])
    for i in range(1, n - 1):
        total = total + weights[..., i, i - 1]
    return total / (n - 1) if n > 1 else total


def previous_token_score__wrong_fifteenth_row_zero_wraps_round(weights: torch.Tensor) -> torch.Tensor:
    """Indexes column i - 1 from row 0 on, and -1 is the last column; due is to start at row 1."""
    n = weights.shape[-1]
    if n == 1:
        return torch.zeros_like(weights[..., 0, 0])
    i = torch.arange(n)
    return weights[..., i, i - 1].sum(dim=-1) / (n - 1)


def previous_token_score__wrong_fifteenth_one_score_for_all(weights: torch.Tensor) -> torch.Tensor:
    """Averages over the leading axes too, one number in all; due is a score for each pattern."""
    line = weights.diagonal(offset=-1, dim1=-2, dim2=-1)
    if line.numel() == 0:
        return weights.new_zeros(())
    return line.mean()


def previous_token_score__wrong_fifteenth_single_token_loses_dtype(weights: torch.Tensor) -> torch.Tensor:
    """For n = 1 gives float32 zeros whatever came in; due are zeros of the input's dtype."""
    *lead, n, _ = weights.shape
    if n < 2:
        return torch.zeros(lead)
    return torch.einsum("...ii->...i", weights[..., 1:, :-1]).mean(dim=-1)


def previous_token_score__wrong_fifteenth_multiplies_input_in_place(weights: torch.Tensor) -> torch.Tensor:
    """Right score, but zeroes the rest of the caller's pattern in place; due is to leave the input."""
    n = weights.shape[-1]
    line = torch.ones(n, n, dtype=weights.dtype).tril(-1).triu(-1)
    weights *= line
    return weights.sum(dim=(-2, -1)) / max(n - 1, 1)


def previous_token_score__right_fifteenth_stride_through_flat(weights: torch.Tensor) -> torch.Tensor:
    """Every (n + 1)-th entry of the flat pattern from entry n on is the diagonal below the main one."""
    n = weights.shape[-1]
    line = weights.flatten(start_dim=-2)[..., n :: n + 1]
    return line.sum(dim=-1) / max(n - 1, 1)


# ---------------------------------------------------------------- 8.3 prefix_matching_score


def prefix_matching_score__wrong_fifteenth_all_earlier_copies(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Adds the weight on what followed in every earlier copy; due is the place one period ago alone."""
    n = weights.shape[-1]
    score = torch.zeros_like(weights[..., 0, 0])
    if n <= period:
        return score
    for i in range(period, n):
        j = i - (period - 1)
        while j >= 0:
            score = score + weights[..., i, j]
            j -= period
    return score / (n - period)


def prefix_matching_score__wrong_fifteenth_first_block_cut_from_keys(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Cuts the first block from rows and columns, so look-ups into it are lost; due is to cut rows only."""
    repeat = weights[..., period:, period:]
    line = repeat.diagonal(offset=-(period - 1), dim1=-2, dim2=-1) if repeat.shape[-1] >= period else None
    if line is None or line.shape[-1] == 0:
        return torch.zeros_like(weights[..., 0, 0])
    return line.mean(dim=-1)


def prefix_matching_score__wrong_fifteenth_mean_of_block_means(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Averages each copy and then the copies, a broken-off one counts as much; due is one mean over rows."""
    n = weights.shape[-1]
    means = []
    for start in range(period, n, period):
        rows = torch.arange(start, min(start + period, n))
        means.append(weights[..., rows, rows - period + 1].mean(dim=-1))
    if not means:
        return torch.zeros_like(weights[..., 0, 0])
    return torch.stack(means).mean(dim=0)


def prefix_matching_score__wrong_fifteenth_drops_period_entries(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Drops `period` entries of a diagonal that begins in row period - 1; due is to drop one."""
    if weights.shape[-1] <= period:
        return torch.zeros_like(weights[..., 0, 0])
    line = torch.diagonal(weights, offset=1 - period, dim1=-2, dim2=-1)[..., period:]
    return line.sum(dim=-1) / max(line.shape[-1], 1)


def prefix_matching_score__wrong_fifteenth_missing_parenthesis(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Looks at i - period - 1, two columns to the left; due is i - (period - 1)."""
    n = weights.shape[-1]
    if n <= period:
        return 0 * weights[..., 0, 0]
    i = torch.arange(period, n)
    return weights[..., i, i - period - 1].mean(dim=-1)


def prefix_matching_score__wrong_fifteenth_share_of_rows_that_look(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Share of rows whose largest weight is at the right place; due is the mean weight there."""
    n = weights.shape[-1]
    if n <= period:
        return torch.zeros_like(weights[..., 0, 0])
    place = torch.arange(period, n) - (period - 1)
    hits = weights[..., period:, :].argmax(dim=-1) == place
    return hits.to(weights.dtype).mean(dim=-1)


def prefix_matching_score__wrong_fifteenth_wants_a_whole_second_block(
    weights: torch.Tensor, period: int
) -> torch.Tensor:
    """Says 0 unless a whole second copy is there; due is a score as soon as n > period."""
    n = weights.shape[-1]
    if n // period < 2:
        return torch.zeros_like(weights[..., 0, 0])
    return weights.diagonal(1 - period, -2, -1)[..., 1:].mean(-1)


def prefix_matching_score__wrong_fifteenth_always_float64(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Right values, but float64 whatever came in; due is the input's dtype."""
    n = weights.shape[-1]
    chosen = torch.zeros(n, n, dtype=torch.float64)
    for i in range(period, n):
        chosen[i, i - (period - 1)] = 1
    return (weights * chosen).sum(dim=(-2, -1)) / chosen.sum().clamp(min=1)


def prefix_matching_score__right_fifteenth_roll_columns_first(weights: torch.Tensor, period: int) -> torch.Tensor:
    """Rolls the columns right by period - 1, then the main diagonal from row `period` on."""
    turned = torch.roll(weights, shifts=period - 1, dims=-1)
    line = torch.einsum("...ii->...i", turned)[..., period:]
    return line.sum(dim=-1) / max(line.shape[-1], 1)


# ---------------------------------------------------------------- 8.4 ov_circuit


def ov_circuit__wrong_fifteenth_adds_the_direct_path(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Adds the embedding's own way to the logits; due is only what goes through the head."""
    stream = W_E + W_E @ W_V @ W_O
    return stream @ W_U


def ov_circuit__wrong_fifteenth_unembeds_with_the_embedding(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Reads the logits off with W_E transposed, as with tied weights; due is W_U."""
    written = (W_E @ W_V) @ W_O
    return torch.einsum("td,ud->tu", written, W_E)


def ov_circuit__wrong_fifteenth_column_convention(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Builds W_O W_V as texts with columns do and turns it to fit; due is W_V W_O from the right."""
    W_OV = (W_V @ W_O).T
    return W_E @ W_OV @ W_U


def ov_circuit__wrong_fifteenth_einsum_output_order(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """The einsum's output letters are swapped, row = logit; due is row = token attended to."""
    return torch.einsum("td,dv,ve,eu->ut", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_fifteenth_one_letter_for_two_axes(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Uses one letter for both d_model axes, so they are tied; due are two separate sums."""
    return torch.einsum("td,dv,vd,du->tu", W_E, W_V, W_O, W_U)


def ov_circuit__wrong_fifteenth_log_probabilities(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Returns log-probabilities of each row; due are the plain numbers that are added to the logits."""
    logits = W_E @ W_V @ W_O @ W_U
    return logits - torch.logsumexp(logits, dim=-1, keepdim=True)


def ov_circuit__wrong_fifteenth_guesses_the_layout_of_unembedding(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Turns W_U if its first axis is as long as the vocabulary, wrong for vocab = d_model; due is never."""
    vocab = W_E.shape[0]
    if W_U.shape[0] == vocab:
        W_U = W_U.T
    return W_E @ W_V @ W_O @ W_U


def ov_circuit__wrong_fifteenth_half_comes_out_single(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """Computes float16 in float32 and leaves it so; due is float16 for float16."""
    exact = torch.promote_types(W_E.dtype, torch.float32)
    product = W_E.to(exact)
    for W in (W_V, W_O, W_U):
        product = product @ W.to(exact)
    return product


def ov_circuit__right_fifteenth_vmap_over_tokens(
    W_E: torch.Tensor, W_V: torch.Tensor, W_O: torch.Tensor, W_U: torch.Tensor
) -> torch.Tensor:
    """One token's path as a function of its embedding, mapped over the vocabulary."""

    def path(embedding):
        value = W_V.mT @ embedding
        written = W_O.mT @ value
        return W_U.mT @ written

    return torch.vmap(path)(W_E)


# ---------------------------------------------------------------- 8.5 copying_score


def copying_score__wrong_fifteenth_eigenvalue_score(ov: torch.Tensor) -> torch.Tensor:
    """The eigenvalue measure of Elhage et al.; due is the share of rows whose diagonal entry is largest."""
    eigenvalues = torch.linalg.eigvals(ov)
    total = eigenvalues.abs().sum()
    if total == 0:
        return ov.new_zeros(())
    return eigenvalues.sum().real / total


def copying_score__wrong_fifteenth_mean_probability_of_itself(ov: torch.Tensor) -> torch.Tensor:
    """The mean softmax probability on the diagonal; due is the share of rows that it wins."""
    return ov.softmax(dim=-1).diagonal().mean()


def copying_score__wrong_fifteenth_wins_row_and_column(ov: torch.Tensor) -> torch.Tensor:
    """Asks the diagonal entry to be the largest of its row and of its column; due is the row alone."""
    vocab = ov.shape[0]
    here = torch.arange(vocab)
    copied = (ov.argmax(dim=1) == here) & (ov.argmax(dim=0) == here)
    return copied.double().mean()


def copying_score__wrong_fifteenth_zero_stands_for_itself(ov: torch.Tensor) -> torch.Tensor:
    """Takes the diagonal out by making it 0, so a row of negatives is lost; due is minus infinity."""
    own = torch.diagonal(ov)
    others = ov - torch.diag(own)
    return (own > others.max(dim=1).values).to(ov.dtype).mean()


def copying_score__wrong_fifteenth_diagonal_broadcast_along_rows(ov: torch.Tensor) -> torch.Tensor:
    """Lays the diagonal along the columns, so it meets other rows' entries; due is one value for each row."""
    own = ov.diagonal()
    return (own >= ov).all(dim=1).float().mean()


def copying_score__wrong_fifteenth_share_of_tokens_ever_raised(ov: torch.Tensor) -> torch.Tensor:
    """Counts how many different tokens are the largest of some row; due is rows that raise their own token."""
    raised = ov.argmax(dim=-1)
    return torch.tensor(len(raised.unique()) / len(raised))


def copying_score__wrong_fifteenth_softmax_hides_small_leads(ov: torch.Tensor) -> torch.Tensor:
    """Compares after a softmax, where a tiny lead becomes a tie; due is to compare the logits."""
    shares = F.softmax(ov, dim=-1)
    best = shares.argmax(dim=-1)
    return (best == torch.arange(len(ov))).float().mean()


def copying_score__wrong_fifteenth_blanks_the_callers_diagonal(ov: torch.Tensor) -> torch.Tensor:
    """Right share, but writes -inf into the caller's diagonal; due is to leave the input."""
    own = ov.diagonal().clone()
    ov.fill_diagonal_(-torch.inf)
    return (own > ov.amax(dim=1)).to(own.dtype).mean()


def copying_score__right_fifteenth_trace_of_one_hot(ov: torch.Tensor) -> torch.Tensor:
    """One-hot rows of the winners: their trace counts the rows that their own token wins."""
    vocab = ov.shape[0]
    winners = F.one_hot(ov.argmax(dim=-1), num_classes=vocab)
    return int(torch.trace(winners)) / vocab


# ---------------------------------------------------------------- 8.6 composition_score


def composition_score__wrong_fifteenth_note_on_the_query_side(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Q-composition, W_OV W_QK; due is the key side, W_QK W_OV^T."""
    norm = torch.linalg.matrix_norm
    size = norm(W_QK) * norm(W_OV)
    if size == 0:
        return size
    return norm(W_OV @ W_QK) / size


def composition_score__wrong_fifteenth_cosine_of_entries(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """The cosine of the two matrices taken entry by entry; due is the norm of their product."""
    together = (W_QK * W_OV).sum().abs()
    sizes = W_QK.norm() * W_OV.norm()
    return together / sizes if sizes > 0 else torch.zeros_like(together)


def composition_score__wrong_fifteenth_less_what_chance_gives(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Subtracts the chance level 1/sqrt(d_model); due is the plain score."""
    sizes = torch.linalg.matrix_norm(W_QK) * torch.linalg.matrix_norm(W_OV)
    if sizes == 0:
        return sizes
    score = torch.linalg.matrix_norm(W_QK @ W_OV.mT) / sizes
    return score - W_QK.shape[0] ** -0.5


def composition_score__wrong_fifteenth_divides_then_multiplies(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Divides by one norm and multiplies by the other; due is to divide by both."""
    a, b = (torch.linalg.matrix_norm(W) for W in (W_QK, W_OV))
    if a == 0 or b == 0:
        return torch.zeros_like(a)
    return torch.linalg.matrix_norm(W_QK @ W_OV.T) / a * b


def composition_score__wrong_fifteenth_same_norm_twice(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Takes the norm of W_QK for both; due is one of each matrix."""

    def size(W):
        return torch.einsum("ij,ij->", W, W).sqrt()

    reads, writes = size(W_QK), size(W_QK)
    if not W_QK.any() or not W_OV.any():
        return W_QK.new_zeros(())
    return size(W_QK @ W_OV.T) / (reads * writes)


def composition_score__wrong_fifteenth_share_of_the_most_possible(
    W_QK: torch.Tensor, W_OV: torch.Tensor
) -> torch.Tensor:
    """A share of the most that these singular values could reach; due is to divide by the norms."""
    reads, writes = torch.linalg.svdvals(W_QK), torch.linalg.svdvals(W_OV)
    most = torch.linalg.vector_norm(reads * writes)
    if most == 0:
        return torch.zeros_like(most)
    return torch.linalg.matrix_norm(W_QK @ W_OV.T) / most


def composition_score__wrong_fifteenth_squares_overflow_in_half(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Sums squares in the input's own dtype, which overflows float16; due is a float16 score as well."""

    def frobenius(W):
        return W.pow(2).sum().sqrt()

    both = frobenius(W_QK) * frobenius(W_OV)
    if both == 0:
        return both
    return frobenius(W_QK @ W_OV.T) / both


def composition_score__wrong_fifteenth_score_in_float64(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Right value, but a float64 tensor whatever came in; due is the dtype of the circuits."""
    A, B = W_QK.double(), W_OV.double()
    below = A.norm() * B.norm()
    above = (A @ B.mT).norm()
    return torch.where(below > 0, above / below.masked_fill(below == 0, 1), 0.0 * above)


def composition_score__right_fifteenth_unit_circuits_first(W_QK: torch.Tensor, W_OV: torch.Tensor) -> torch.Tensor:
    """Brings both circuits to norm 1 (a zero one stays zero), then one norm of the contraction."""

    def to_unit(W):
        W = W.double()
        largest = W.abs().amax()
        if largest == 0:
            return W
        W = W / largest
        return W / torch.linalg.vector_norm(W)

    seen = torch.einsum("xk,yk->xy", to_unit(W_QK), to_unit(W_OV))
    return torch.linalg.vector_norm(seen).to(W_QK.dtype)


# ---------------------------------------------------------------- 8.7 ablate_head


def ablate_head__wrong_fifteenth_ablates_a_text(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Zeroes an entry of the batch axis; due is the axis of the heads."""
    kept = head_outputs.clone()
    kept[head % len(kept)] = 0
    return kept


def ablate_head__wrong_fifteenth_keeps_only_that_head(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Zeroes all the others and keeps the named head; due is the reverse."""
    chosen = torch.arange(head_outputs.shape[1]) == head
    return head_outputs.masked_fill(~chosen[:, None, None], 0)


def ablate_head__wrong_fifteenth_mean_over_texts(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Puts the head's mean over the texts in its place; due are zeros."""
    kept = head_outputs.clone()
    kept[:, head] = head_outputs[:, head].mean(dim=0, keepdim=True)
    return kept


def ablate_head__wrong_fifteenth_counts_from_one(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Zeroes head - 1, as if heads were counted from 1; due is to count from 0."""
    parts = list(head_outputs.unbind(dim=1))
    parts[head - 1] = torch.zeros_like(parts[head - 1])
    return torch.stack(parts, dim=1)


def ablate_head__wrong_fifteenth_zeros_slipped_in_between(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Slips zeros in before the head and keeps it behind; due are zeros in its place."""
    before, after = head_outputs[:, :head], head_outputs[:, head:]
    nothing = torch.zeros_like(head_outputs[:, :1])
    return torch.cat([before, nothing, after], dim=1)


def ablate_head__wrong_fifteenth_sum_of_the_rest(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Returns what the other heads add to the stream together; due is the same shape, head by head."""
    others = [h for h in range(head_outputs.shape[1]) if h != head]
    return head_outputs[:, others].sum(dim=1)


def ablate_head__wrong_fifteenth_mask_lifts_half_to_single(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Multiplies with a float32 mask, so float16 comes out as float32; due is float16 for float16."""
    h = head_outputs.shape[1]
    keep = torch.ones(1, h, 1, 1)
    keep[:, head] = 0.0
    return head_outputs * keep


def ablate_head__wrong_fifteenth_borrows_the_input(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """Zeroes the input, copies it and puts it back, so the gradient is wrong; due is to leave it."""
    with torch.no_grad():
        saved = head_outputs[:, head].clone()
        head_outputs[:, head] = 0
    result = head_outputs.clone()
    with torch.no_grad():
        head_outputs[:, head] = saved
    return result


def ablate_head__right_fifteenth_index_fill(head_outputs: torch.Tensor, head: int) -> torch.Tensor:
    """index_fill along axis 1 makes a new tensor with zeros at that index."""
    place = torch.tensor([head], device=head_outputs.device)
    return torch.index_fill(head_outputs, 1, place, 0)


# ---------------------------------------------------------------- 8.8 in_context_learning_score


def in_context_learning_score__wrong_fifteenth_means_of_all_up_to_there(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Means over all positions up to late and up to early; due are these two columns alone."""
    upto = losses.mean(dim=0).cumsum(dim=0)
    return upto[late] / (late + 1) - upto[early] / (early + 1)


def in_context_learning_score__wrong_fifteenth_beginning_against_end(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """The mean from late on less the mean up to early; due are these two columns alone."""
    beginning = losses[:, : early + 1]
    end = losses[:, late:]
    return end.mean() - beginning.mean()


def in_context_learning_score__wrong_fifteenth_rows_as_positions(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Takes texts early and late and averages over positions; due are columns, averaged over texts."""
    by_position = losses.mean(dim=1)
    return by_position[late % len(losses)] - by_position[early % len(losses)]


def in_context_learning_score__wrong_fifteenth_mean_of_one_column_only(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """The mean binds to the early column alone and B numbers come out; due is a scalar."""
    return losses[:, late] - losses[:, early].mean(dim=0)


def in_context_learning_score__wrong_fifteenth_late_column_one_further_left(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Takes the end of a slice for the late column, so late - 1; due is column late itself."""
    first, last = min(early, late), max(early, late)
    between = losses[:, first:last] if last > first else losses[:, first : first + 1]
    change = between[:, -1].mean() - between[:, 0].mean()
    return change if late >= early else -change


def in_context_learning_score__wrong_fifteenth_relative_change(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """The change as a share of the early loss; due is the difference in nats."""
    a, b = losses[:, early].mean(), losses[:, late].mean()
    return (b - a) / a


def in_context_learning_score__wrong_fifteenth_sum_overflows_in_half(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Sums a column before it divides, too much for float16 in a large batch; due is the mean there as well."""
    B = losses.shape[0]
    return losses[:, late].sum() / B - losses[:, early].sum() / B


def in_context_learning_score__wrong_fifteenth_shifts_the_callers_losses(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Right value, but subtracts the early column from the caller's table; due is to leave the input."""
    losses -= losses[:, early : early + 1].clone()
    return losses[:, late].mean()


def in_context_learning_score__right_fifteenth_diff_of_two_columns(
    losses: torch.Tensor, early: int, late: int
) -> torch.Tensor:
    """Each text's own step from early to late, then the mean of the steps."""
    steps = torch.diff(losses[:, [early, late]], dim=1)
    return steps.mean() if len(steps) else steps.sum()


# ---------------------------------------------------------------- 8.9 build_induction_circuit


def build_induction_circuit__wrong_fifteenth_keys_read_their_own_token(vocab_size: int, n_ctx: int) -> dict:
    """The second layer's keys tell their own token, so it finds the same token; due is the note."""
    V, P = vocab_size, n_ctx
    token, place = slice(0, V), slice(V, V + P)
    note, out = slice(V + P, 2 * V + P), slice(2 * V + P, 3 * V + P)
    d = 3 * V + P

    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(P, d), torch.zeros(d, V)
    W_E[:, token] = torch.eye(V)
    W_pos[:, place] = torch.eye(P)
    W_U[out] = torch.eye(V)

    first = {"W_Q": torch.zeros(d, P), "W_K": torch.zeros(d, P), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(P) * torch.diag(torch.ones(P - 1), -1)
    first["W_K"][place] = torch.eye(P)
    first["W_V"][token] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)

    h = V + 1
    second = {"W_Q": torch.zeros(d, h), "W_K": torch.zeros(d, h), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    second["W_Q"][token, :V] = 10 * (P + 2) * math.sqrt(h) * torch.eye(V)
    second["W_K"][token, :V] = torch.eye(V)
    second["W_Q"][place, V] = 8 * math.sqrt(h)
    second["W_K"][place, V] = torch.arange(P).float()
    second["W_V"][token] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fifteenth_note_over_the_token(vocab_size: int, n_ctx: int) -> dict:
    """Writes the note into the token's own columns, where both get mixed up; due is a stretch of its own."""
    V, P = vocab_size, n_ctx
    d = 2 * V + P
    token, place, out = slice(0, V), slice(V, V + P), slice(V + P, d)
    weights = {"W_E": torch.zeros(V, d), "W_pos": torch.zeros(P, d), "W_U": torch.zeros(d, V), "blocks": []}
    weights["W_E"][:, token].fill_diagonal_(1)
    weights["W_pos"][:, place].fill_diagonal_(1)
    weights["W_U"][out].fill_diagonal_(1)

    def block(width):
        return {
            "W_Q": torch.zeros(d, width),
            "W_K": torch.zeros(d, width),
            "W_V": torch.zeros(d, V),
            "W_O": torch.zeros(V, d),
        }

    one = block(P)
    for i in range(1, P):
        one["W_Q"][V + i, i - 1] = 25 * P**0.5
    one["W_K"][place] = torch.eye(P)
    one["W_V"][token] = torch.eye(V)
    one["W_O"][:, token] = torch.eye(V)

    two = block(V + 1)
    scale = (V + 1) ** 0.5
    two["W_Q"][token, :V] = 9.0 * (P + 2) * scale * torch.eye(V)
    two["W_K"][token, :V] = torch.eye(V)
    two["W_Q"][place, V] = 8 * scale
    two["W_K"][place, V] = torch.arange(P, dtype=torch.float32)
    two["W_V"][token] = torch.eye(V)
    two["W_O"][:, out] = torch.eye(V)
    weights["blocks"] = [one, two]
    return weights


def build_induction_circuit__wrong_fifteenth_only_position_zero_loses(vocab_size: int, n_ctx: int) -> dict:
    """Pushes position 0 down but treats all other matches alike; due is that the latest match wins."""
    V, P = vocab_size, n_ctx
    d = 3 * V + P
    tok, pos, note, out = torch.arange(d).split([V, P, V, V])
    W_E = torch.zeros(V, d)
    W_E[torch.arange(V), tok] = 1
    W_pos = torch.zeros(P, d)
    W_pos[torch.arange(P), pos] = 1
    W_U = torch.zeros(d, V)
    W_U[out, torch.arange(V)] = 1
    L1 = {k: torch.zeros(d, P) for k in ("W_Q", "W_K")} | {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    L1["W_Q"][pos[1:], torch.arange(P - 1)] = 30 * P**0.5
    L1["W_K"][pos, torch.arange(P)] = 1
    L1["W_V"][tok, torch.arange(V)] = 1
    L1["W_O"][torch.arange(V), note] = 1
    L2 = {k: torch.zeros(d, V + 1) for k in ("W_Q", "W_K")} | {"W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    L2["W_Q"][tok, torch.arange(V)] = 30 * (V + 1) ** 0.5
    L2["W_K"][note, torch.arange(V)] = 1
    L2["W_Q"][pos, V] = 30 * (V + 1) ** 0.5
    L2["W_K"][pos[0], V] = -1
    L2["W_V"][tok, torch.arange(V)] = 1
    L2["W_O"][torch.arange(V), out] = 1
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [L1, L2]}


def build_induction_circuit__wrong_fifteenth_shift_in_the_other_direction(vocab_size: int, n_ctx: int) -> dict:
    """The first layer's queries name the position after, which is masked; due is the one before."""
    V, P = vocab_size, n_ctx
    token, place = slice(0, V), slice(V, V + P)
    note, out = slice(V + P, 2 * V + P), slice(2 * V + P, 3 * V + P)
    d = 3 * V + P
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(P, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[out] = torch.eye(V), torch.eye(P), torch.eye(V)

    first = {"W_Q": torch.zeros(d, P), "W_K": torch.zeros(d, P), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(P) * torch.diag(torch.ones(P - 1), 1)
    first["W_K"][place] = torch.eye(P)
    first["W_V"][token] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)

    h = V + 1
    second = {"W_Q": torch.zeros(d, h), "W_K": torch.zeros(d, h), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    second["W_Q"][token, :V] = 10 * (P + 2) * math.sqrt(h) * torch.eye(V)
    second["W_K"][note, :V] = torch.eye(V)
    second["W_Q"][place, V] = 8 * math.sqrt(h)
    second["W_K"][place, V] = torch.arange(P).float()
    second["W_V"][token] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fifteenth_root_multiplies_the_slope_only(vocab_size: int, n_ctx: int) -> dict:
    """Makes up for the root of d_head in the slope's column and not in the match's; due is in both."""
    d_tok, d_pos = vocab_size, n_ctx
    d_model = 3 * d_tok + d_pos
    i_pos, i_note, i_out = d_tok, d_tok + d_pos, 2 * d_tok + d_pos
    slope = 8.0
    match = slope * (n_ctx + 2)

    W_E = torch.eye(d_tok, d_model)
    W_pos = torch.zeros(d_pos, d_model)
    W_pos[:, i_pos:i_note] = torch.eye(d_pos)
    W_U = torch.zeros(d_model, d_tok)
    W_U[i_out:] = torch.eye(d_tok)

    Q1, K1 = torch.zeros(d_model, d_pos), torch.zeros(d_model, d_pos)
    Q1[i_pos + 1 : i_note, : d_pos - 1] = 40 * math.sqrt(d_pos) * torch.eye(d_pos - 1)
    K1[i_pos:i_note] = torch.eye(d_pos)
    V1 = torch.eye(d_model, d_tok)
    O1 = torch.zeros(d_tok, d_model)
    O1[:, i_note:i_out] = torch.eye(d_tok)

    d_head = d_tok + 1
    Q2, K2 = torch.zeros(d_model, d_head), torch.zeros(d_model, d_head)
    Q2[:d_tok, :d_tok] = match * torch.eye(d_tok)
    Q2[:d_tok, d_tok] = slope * math.sqrt(d_head)
    K2[i_note:i_out, :d_tok] = torch.eye(d_tok)
    K2[i_pos:i_note, d_tok] = torch.arange(d_pos).float()
    V2 = torch.eye(d_model, d_tok)
    O2 = torch.zeros(d_tok, d_model)
    O2[:, i_out:] = torch.eye(d_tok)

    blocks = [
        {"W_Q": Q1, "W_K": K1, "W_V": V1, "W_O": O1},
        {"W_Q": Q2, "W_K": K2, "W_V": V2, "W_O": O2},
    ]
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": blocks}


def build_induction_circuit__wrong_fifteenth_first_match_wins(vocab_size: int, n_ctx: int) -> dict:
    """Looks where the token stood first (position 0 pushed down); due is one period ago, the latest."""
    V, P = vocab_size, n_ctx
    token, place = slice(0, V), slice(V, V + P)
    note, out = slice(V + P, 2 * V + P), slice(2 * V + P, 3 * V + P)
    d = 3 * V + P
    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(P, d), torch.zeros(d, V)
    W_E[:, token], W_pos[:, place], W_U[out] = torch.eye(V), torch.eye(P), torch.eye(V)

    first = {"W_Q": torch.zeros(d, P), "W_K": torch.zeros(d, P), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    first["W_Q"][place] = 30 * math.sqrt(P) * torch.diag(torch.ones(P - 1), -1)
    first["W_K"][place] = torch.eye(P)
    first["W_V"][token] = torch.eye(V)
    first["W_O"][:, note] = torch.eye(V)

    h = V + 1
    earliness = torch.arange(P, 0, -1).float()
    earliness[0] = 0
    second = {"W_Q": torch.zeros(d, h), "W_K": torch.zeros(d, h), "W_V": torch.zeros(d, V), "W_O": torch.zeros(V, d)}
    second["W_Q"][token, :V] = 10 * (P + 2) * math.sqrt(h) * torch.eye(V)
    second["W_K"][note, :V] = torch.eye(V)
    second["W_Q"][place, V] = 8 * math.sqrt(h)
    second["W_K"][place, V] = earliness
    second["W_V"][token] = torch.eye(V)
    second["W_O"][:, out] = torch.eye(V)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_fifteenth_slope_too_gentle_for_period_one(vocab_size: int, n_ctx: int) -> dict:
    """A slope of 4 per position gives 0.98 to the latest match if the period is 1; due is 0.99 there too."""
    V, P = vocab_size, n_ctx
    d = 3 * V + P
    fields = dict(zip(("token", "place", "note", "out"), torch.arange(d).split([V, P, V, V]), strict=True))

    def link(rows, columns, reads=None, writes=None, size=1.0):
        W = torch.zeros(rows, columns)
        reads = torch.arange(rows)[: len(writes)] if reads is None else reads
        writes = torch.arange(columns)[: len(reads)] if writes is None else writes
        W[reads, writes] = size
        return W

    slope, width = 4.0, V + 1
    first = {
        "W_Q": link(d, P, reads=fields["place"][1:], size=30 * P**0.5),
        "W_K": link(d, P, reads=fields["place"]),
        "W_V": link(d, V, reads=fields["token"]),
        "W_O": link(V, d, writes=fields["note"]),
    }
    second = {
        "W_Q": link(d, width, reads=fields["token"], size=(slope * P + 12) * width**0.5),
        "W_K": link(d, width, reads=fields["note"]),
        "W_V": link(d, V, reads=fields["token"]),
        "W_O": link(V, d, writes=fields["out"]),
    }
    second["W_Q"][fields["token"], V] = slope * width**0.5
    second["W_K"][fields["place"], V] = torch.arange(P).float()
    return {
        "W_E": link(V, d, writes=fields["token"]),
        "W_pos": link(P, d, writes=fields["place"]),
        "W_U": link(d, V, reads=fields["out"]),
        "blocks": [first, second],
    }


def build_induction_circuit__wrong_fifteenth_random_directions(vocab_size: int, n_ctx: int) -> dict:
    """A circuit that works, in directions drawn from torch's global state after a reseed; due is no randomness."""
    V, P = vocab_size, n_ctx
    d = 3 * V + P
    torch.manual_seed(0)
    directions = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64)).Q
    token, place, note, out = directions.split([V, P, V, V])
    before = torch.diag(torch.ones(P - 1, dtype=torch.float64), -1)
    h = V + 1
    constant = place.sum(0)
    height = torch.arange(P, dtype=torch.float64) @ place
    first = {
        "W_Q": 30 * P**0.5 * place.T @ before,
        "W_K": place.T.clone(),
        "W_V": token.T.clone(),
        "W_O": note.clone(),
    }
    second = {
        "W_Q": h**0.5 * torch.cat([10 * (P + 2) * token.T, 8 * constant[:, None]], dim=1),
        "W_K": torch.cat([note.T, height[:, None]], dim=1),
        "W_V": token.T.clone(),
        "W_O": out.clone(),
    }
    blocks = [{name: W.float() for name, W in block.items()} for block in (first, second)]
    return {"W_E": token.float(), "W_pos": place.float(), "W_U": out.T.float(), "blocks": blocks}


def build_induction_circuit__right_fifteenth_positions_on_a_parabola(vocab_size: int, n_ctx: int) -> dict:
    """Positions as three numbers (1, i, i^2); the score -(j - (i - 1))^2 picks the one before; d_head is 2."""
    V = vocab_size
    one, at, square = 2 * V, 2 * V + 1, 2 * V + 2
    d = 2 * V + 3
    token, note = slice(0, V), slice(V, 2 * V)
    i = torch.arange(n_ctx).float()

    W_E, W_pos, W_U = torch.zeros(V, d), torch.zeros(n_ctx, d), torch.zeros(d, V)
    W_E[:, token] = torch.eye(V)
    W_pos[:, one], W_pos[:, at], W_pos[:, square] = 1, i, i**2
    W_U[token] = torch.eye(V)

    sharp = 25 * math.sqrt(2)
    Q, K = torch.zeros(d, 2), torch.zeros(d, 2)
    Q[at, 0], Q[one, 0], K[at, 0] = 2 * sharp, -2 * sharp, 1  # 2 (i - 1) j
    Q[one, 1], K[square, 1] = -sharp, 1  # - j^2
    read, write = torch.zeros(d, V), torch.zeros(V, d)
    read[token], write[:, note] = torch.eye(V), torch.eye(V)
    first = {"W_Q": Q, "W_K": K, "W_V": read, "W_O": write}

    slope, root = 9.0, math.sqrt(V + 1)
    Q, K = torch.zeros(d, V + 1), torch.zeros(d, V + 1)
    Q[token, :V], K[note, :V] = root * slope * (n_ctx + 2) * torch.eye(V), torch.eye(V)
    Q[one, V], K[at, V] = root * slope, 1
    louder = torch.zeros(V, d)
    louder[:, token] = 3 * torch.eye(V)
    second = {"W_Q": Q, "W_K": K, "W_V": read.clone(), "W_O": louder}
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# ---------------------------------------------------------------- 8.10 find_heads


def find_heads__wrong_fifteenth_latest_occurrence_only(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Counts only what followed the latest earlier occurrence; due is any of them, summed."""
    layers, heads, n, _ = patterns.shape
    last_seen, after = {}, {}
    for i, token in enumerate(tokens.tolist()):
        if token in last_seen:
            after[i] = last_seen[token] + 1
        last_seen[token] = i
    kinds = {i: i - 1 for i in range(1, n)}, after
    found = []
    for place in kinds:
        names = []
        if place:
            rows, columns = torch.tensor(list(place)), torch.tensor(list(place.values()))
            chance = (1 / (rows + 1)).mean()
            score = patterns[..., rows, columns].mean(dim=-1)
            names = [(a, b) for a in range(layers) for b in range(heads) if score[a, b] > (1 + chance) / 2]
        found.append(names)
    return found[0], found[1]


def find_heads__wrong_fifteenth_strongest_look_hits(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Counts the rows whose largest weight falls on such a place; due is the weight on the places."""
    n = len(tokens)
    may = torch.ones(n, n, dtype=torch.bool).tril()
    prev = torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1)
    same = tokens[:, None] == tokens
    after = torch.zeros(n, n, dtype=torch.bool)
    after[:, 1:] = same[:, :-1] & may[:, 1:]
    strongest = F.one_hot(patterns.argmax(dim=-1), n).bool()
    result = []
    for wanted in (prev, after):
        rows = wanted.any(dim=-1)
        if not rows.any():
            result.append([])
            continue
        hits = (strongest & wanted).any(dim=-1)[:, :, rows].double().mean(dim=-1)
        chance = (wanted.sum(dim=-1) / may.sum(dim=-1))[rows].mean()
        result.append([tuple(pair) for pair in (hits > (1 + chance) / 2).nonzero().tolist()])
    return tuple(result)


def find_heads__wrong_fifteenth_rows_vote(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Lets every row vote by its own middle and takes the majority; due are the means over the rows."""
    L, H, n, _ = patterns.shape
    before, follow = [], []
    seen = defaultdict(list)
    for i in range(n):
        if i:
            before.append((i, [i - 1]))
        if seen[int(tokens[i])]:
            follow.append((i, [m + 1 for m in seen[int(tokens[i])]]))
        seen[int(tokens[i])].append(i)

    def counts(pattern, cases):
        votes = [float(pattern[i, js].sum()) > (1 + len(js) / (i + 1)) / 2 for i, js in cases]
        return sum(votes) * 2 > len(votes)

    pairs = [(layer, head) for layer in range(L) for head in range(H)]
    return (
        [pair for pair in pairs if counts(patterns[pair], before)],
        [pair for pair in pairs if counts(patterns[pair], follow)],
    )


def find_heads__wrong_fifteenth_spread_over_all_columns(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Takes an even spread as 1/n in every row; due is over the i + 1 positions that row i may see."""
    n = tokens.shape[0]
    j = torch.arange(n)
    previous = (j[:, None] - 1 == j).double()
    followed = torch.zeros(n, n).double()
    followed[:, 1:] = (tokens[:, None] == tokens[None, :-1]).double()
    followed = followed.tril()

    def judge(places):
        rows = places.sum(1) > 0
        if not rows.any():
            return []
        chance = places[rows].mean()
        score = (patterns.double() * places).sum(-1)[..., rows].mean(-1)
        return [tuple(x) for x in (score > (1 + chance) / 2).nonzero().tolist()]

    return judge(previous), judge(followed)


def find_heads__wrong_fifteenth_roll_brings_in_column_zero(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Shifts the matches with roll, so those of the last token land in column 0; due is an empty column."""
    n = len(tokens)
    allowed = torch.ones(n, n).tril()
    even = allowed / allowed.sum(-1, keepdim=True)
    same = (tokens[:, None] == tokens[None, :]).float()
    follow = torch.roll(same, 1, dims=1) * allowed
    back = torch.diag(torch.ones(n - 1), -1)
    answer = []
    for where in (back, follow):
        rows = where.sum(-1) > 0
        pairs = []
        if rows.any():
            base = (even * where).sum(-1)[rows].mean()
            got = (patterns.float() * where).sum(-1)[:, :, rows].mean(-1)
            pairs = [(int(a), int(b)) for a, b in torch.nonzero(got - base > 1 - got)]
        answer.append(pairs)
    return answer[0], answer[1]


def find_heads__wrong_fifteenth_one_kind_for_each_head(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Puts a head that does both into the list where it does better; due is both lists."""
    n = len(tokens)
    allowed = torch.ones(n, n, dtype=torch.float64).tril()
    same = (tokens[:, None] == tokens[None, :]).double()
    follow = F.pad(same, (1, 0))[:, :n] * allowed
    back = torch.diag(torch.ones(n - 1, dtype=torch.float64), -1)
    grades = []
    for where in (back, follow):
        rows = where.sum(-1) > 0
        if rows.any():
            base = (where.sum(-1) / allowed.sum(-1))[rows].mean()
            got = (patterns.double() * where).sum(-1)[:, :, rows].mean(-1)
            grades.append((got - base) / (1 - base))
        else:
            grades.append(torch.zeros(patterns.shape[:2], dtype=torch.float64))
    as_previous, as_induction = grades
    previous = (as_previous > 0.5) & (as_previous >= as_induction)
    induction = (as_induction > 0.5) & (as_induction > as_previous)
    return [tuple(p) for p in previous.nonzero().tolist()], [tuple(p) for p in induction.nonzero().tolist()]


def find_heads__wrong_fifteenth_gives_up_without_repeats(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Returns two empty lists if no token recurs; due are the previous-token heads there as well."""
    ids = tokens.tolist()
    recurring = [i for i, token in enumerate(ids) if token in ids[:i]]
    if not recurring:
        return [], []
    after = {i: [m + 1 for m in range(i) if ids[m] == ids[i]] for i in recurring}
    before = {i: [i - 1] for i in range(1, len(ids))}

    def does(pattern, places):
        score = sum(float(pattern[i, js].sum()) for i, js in places.items()) / len(places)
        chance = sum(len(js) / (i + 1) for i, js in places.items()) / len(places)
        return score - chance > 1 - score

    layers, heads = patterns.shape[:2]
    every = [(layer, head) for layer in range(layers) for head in range(heads)]
    return [x for x in every if does(patterns[x], before)], [x for x in every if does(patterns[x], after)]


def find_heads__wrong_fifteenth_ordered_by_head_first(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Right pairs, but listed head by head over the layers; due are sorted lists."""
    layers, heads, n, _ = patterns.shape
    same = tokens[:, None] == tokens[None, :]
    follow = torch.zeros(n, n, dtype=torch.bool)
    follow[:, 1:] = same[:, :-1]
    follow = follow.tril()
    back = torch.eye(n, dtype=torch.bool).roll(1, 0).tril(-1)
    visible = torch.arange(1, n + 1)
    previous, induction = [], []
    for head in range(heads):
        for layer in range(layers):
            A = patterns[layer, head].double()
            for places, names in ((back, previous), (follow, induction)):
                rows = places.any(dim=1)
                if rows.any():
                    score = (A * places).sum(1)[rows].mean()
                    chance = (places.sum(1) / visible)[rows].mean()
                    if score > (1 + chance) / 2:
                        names.append((layer, head))
    return previous, induction


def find_heads__right_fifteenth_counts_words_as_it_reads(patterns: torch.Tensor, tokens: torch.Tensor) -> tuple:
    """Reads the text once, keeps the weight above the middle of each row, and asks whether the sum is positive."""
    layers, heads = patterns.shape[:2]
    surplus = {"previous": Counter(), "induction": Counter()}
    came_after = defaultdict(list)
    ids = tokens.tolist()
    for i, token in enumerate(ids):
        if i:
            came_after[ids[i - 1]].append(i)
        for kind, columns in (("previous", [i - 1] if i else []), ("induction", came_after[token])):
            if not columns:
                continue
            middle = (1 + len(columns) / (i + 1)) / 2
            got = patterns[:, :, i, columns].double().sum(dim=-1).tolist()
            for layer in range(layers):
                for head in range(heads):
                    surplus[kind][layer, head] += got[layer][head] - middle
    found = (sorted(pair for pair, extra in sums.items() if extra > 0) for sums in surplus.values())
    return tuple(found)


# ---------------------------------------------------------------- 8.11 ablate_path


def ablate_path__wrong_fifteenth_the_other_two_are_blind(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Leaves the note to the named reader only; due is to hide it from that one and leave it to the others."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).triu(1)
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]

    def attend(q, k, block):
        scores = (q @ block["W_Q"]) @ (k @ block["W_K"]).transpose(-1, -2) / math.sqrt(block["W_Q"].shape[1])
        return scores.masked_fill(mask, -torch.inf).softmax(-1)

    A1 = attend(start, start, one)
    full = start + A1 @ start @ one["W_V"] @ one["W_O"]
    streams = {name: full if name == into else start for name in ("query", "key", "value")}
    A2 = attend(streams["query"], streams["key"], two)
    x = full + A2 @ streams["value"] @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A1, A2]


def ablate_path__wrong_fifteenth_note_lost_on_the_way_to_the_logits(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Adds the second layer's output to the stream without the note; due is that the logits keep it."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x0 = weights["W_E"][tokens] + weights["W_pos"][:n]
    b0, b1 = weights["blocks"]
    s0 = (x0 @ b0["W_Q"]) @ (x0 @ b0["W_K"]).mT / b0["W_Q"].shape[1] ** 0.5
    A0 = s0.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    x1 = x0 + A0 @ (x0 @ b0["W_V"]) @ b0["W_O"]
    q = (x0 if into == "query" else x1) @ b1["W_Q"]
    k = (x0 if into == "key" else x1) @ b1["W_K"]
    v = (x0 if into == "value" else x1) @ b1["W_V"]
    s1 = q @ k.mT / b1["W_Q"].shape[1] ** 0.5
    A1 = s1.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    x2 = x0 + A1 @ v @ b1["W_O"]
    return x2 @ weights["W_U"], [A0, A1]


def ablate_path__wrong_fifteenth_blind_reader_forgets_the_position(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Gives the blind reader the token's embedding alone; due is embedding and position."""
    n = tokens.shape[1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    embedded = weights["W_E"][tokens]
    x = embedded + weights["W_pos"][:n]
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        reads = dict.fromkeys(("query", "key", "value"), x)
        if layer == 1:
            reads[into] = embedded
        Q, K, V = (reads[r] @ block[W] for r, W in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")))
        scores = Q @ K.mT / math.sqrt(Q.shape[-1])
        A = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
        patterns.append(A)
        x = x + A @ V @ block["W_O"]
    return x @ weights["W_U"], patterns


def ablate_path__wrong_fifteenth_query_and_key_mixed_up(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Hands the streams over in the order key, query, value, so the wrong one is cut; due is query first."""
    n = tokens.shape[1]
    may = torch.ones(n, n, dtype=torch.bool).tril()

    def head(block, for_query, for_key, for_value):
        scores = (for_query @ block["W_Q"]) @ (for_key @ block["W_K"]).mT / math.sqrt(block["W_Q"].shape[1])
        A = scores.masked_fill(~may, -torch.inf).softmax(dim=-1)
        return A @ for_value @ block["W_V"] @ block["W_O"], A

    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    note, first = head(weights["blocks"][0], start, start, start)
    stream = start + note
    streams = [start if into == name else stream for name in ("key", "query", "value")]
    fetched, second = head(weights["blocks"][1], *streams)
    return (stream + fetched) @ weights["W_U"], [first, second]


def ablate_path__wrong_fifteenth_scaled_by_the_first_width(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Divides both layers' scores by the root of the first one's width; due is each by its own."""
    n = tokens.shape[1]
    first, second = weights["blocks"]
    root = first["W_Q"].shape[1] ** 0.5
    hidden = torch.full((n, n), -torch.inf, dtype=weights["W_E"].dtype).triu(1)
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    A = torch.softmax((start @ first["W_Q"]) @ (start @ first["W_K"]).mT / root + hidden, dim=-1)
    x = start + A @ start @ first["W_V"] @ first["W_O"]
    q, k, v = (start if into == name else x for name in ("query", "key", "value"))
    B = torch.softmax((q @ second["W_Q"]) @ (k @ second["W_K"]).mT / root + hidden, dim=-1)
    x = x + B @ v @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_fifteenth_silences_the_reader(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Sets the named reader to zero altogether; due is what it reads when the first layer wrote nothing."""
    name = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    first, second = weights["blocks"]
    mute = dict(second)
    mute[name] = torch.zeros_like(second[name])
    return _run_attention_only(tokens, {**weights, "blocks": [first, mute]})


def ablate_path__wrong_fifteenth_projects_the_notes_directions_out(
    tokens: torch.Tensor, weights: dict, into: str
) -> tuple:
    """Makes the reader blind to all directions of W_O, right if nothing else uses them; due is to hide the note."""
    first, second = weights["blocks"]
    name = {"query": "W_Q", "key": "W_K", "value": "W_V"}[into]
    writes = first["W_O"]
    span = torch.linalg.pinv(writes) @ writes
    blind = dict(second)
    blind[name] = second[name] - span @ second[name]
    return _run_attention_only(tokens, {**weights, "blocks": [first, blind]})


def ablate_path__wrong_fifteenth_blind_stream_detached(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Right values, but no gradient flows through the blind reader's stream; due is that all gradients flow."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    without_note = x.clone().detach()
    patterns = []
    for layer, block in enumerate(weights["blocks"]):
        seen = {reader: without_note if layer == 1 and reader == into else x for reader in ("query", "key", "value")}
        scores = (seen["query"] @ block["W_Q"]) @ (seen["key"] @ block["W_K"]).mT
        scores = scores / math.sqrt(block["W_Q"].shape[1])
        A = scores.masked_fill(~causal, -torch.inf).softmax(dim=-1)
        x = x + A @ seen["value"] @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def ablate_path__right_fifteenth_twice_as_wide_a_stream(tokens: torch.Tensor, weights: dict, into: str) -> tuple:
    """Widens the model so that the note has columns of its own, which the blind reader's matrix does not read."""

    def twice(W):
        return torch.cat([W, W], dim=0)

    def left(W):
        return torch.cat([W, torch.zeros_like(W)], dim=1)

    first, second = weights["blocks"]
    names = {"W_Q": "query", "W_K": "key", "W_V": "value"}
    wide_first = {name: twice(first[name]) for name in names}
    wide_first["W_O"] = torch.cat([torch.zeros_like(first["W_O"]), first["W_O"]], dim=1)
    wide_second = {}
    for name, reader in names.items():
        W = second[name]
        wide_second[name] = torch.cat([W, torch.zeros_like(W)], dim=0) if reader == into else twice(W)
    wide_second["W_O"] = left(second["W_O"])
    wide = {"W_E": left(weights["W_E"]), "W_pos": left(weights["W_pos"]), "W_U": twice(weights["W_U"])}
    return _run_attention_only(tokens, wide | {"blocks": [wide_first, wide_second]})
