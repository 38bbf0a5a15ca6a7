import math

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


# Helpers that several answers share.


def _pattern(q, k):
    n = q.shape[-2]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf).softmax(dim=-1)


def _followers(tokens):
    """[i, j]: key j followed an earlier occurrence of the token at i."""
    n = len(tokens)
    same = (tokens[:, None] == tokens[None, :]).tril(-1)
    places = torch.zeros(n, n, dtype=torch.bool)
    places[:, 1:] = same[:, :-1]
    return places


def _pairs(wanted):
    return [tuple(pair) for pair in wanted.nonzero().tolist()]


# repeated_sequences


def repeated_sequences__wrong_b_generator_not_used(batch, period, repeats, vocab_size, generator):
    """The draw does not use the generator that is handed in, but the global one."""
    tokens = torch.randint(vocab_size, (batch, period))
    return tokens.tile(1, repeats)


def repeated_sequences__wrong_b_rows_mixed_up(batch, period, repeats, vocab_size, generator):
    """The copies are stacked below one another and only then reshaped: a row joins the blocks of different rows."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    stacked = torch.cat([block for _ in range(repeats)])  # (repeats * batch, period)
    return stacked.reshape(batch, period * repeats)


def repeated_sequences__wrong_b_longer_draw(batch, period, repeats, vocab_size, generator):
    """The whole width (batch, period * repeats) is drawn, not (batch, period), so the blocks are other ones."""
    width = period * repeats
    tokens = torch.randint(vocab_size, (batch, width), generator=generator)
    for i in range(period, width):
        tokens[:, i] = tokens[:, i - period]
    return tokens


def repeated_sequences__wrong_b_generator_reseeded(batch, period, repeats, vocab_size, generator):
    """The generator is seeded anew in every call, so that each call gives the same tokens."""
    generator.manual_seed(0)
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat(1, repeats)


def repeated_sequences__wrong_b_token_zero_missing(batch, period, repeats, vocab_size, generator):
    """Tokens are drawn from 1 on, so that the id 0 never occurs."""
    block = torch.randint(1, vocab_size, (batch, period), generator=generator)
    return block.repeat(1, repeats)


def repeated_sequences__right_b_index_modulo_period(batch, period, repeats, vocab_size, generator):
    """Column i of the row is column i modulo the period of the block."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block[:, torch.arange(period * repeats) % period]


# previous_token_score


def previous_token_score__wrong_b_divided_by_n(weights):
    """The sum is divided by n, though only the n - 1 positions with a previous token are averaged."""
    n = weights.shape[-1]
    below = weights.diagonal(offset=-1, dim1=-2, dim2=-1)
    return below.sum(dim=-1) / n


def previous_token_score__wrong_b_next_token(weights):
    """The diagonal is taken on the wrong side: the weight from i to i + 1."""
    if weights.shape[-1] == 1:
        return weights.new_zeros(weights.shape[:-2])
    return torch.diagonal(weights, 1, -2, -1).mean(-1)


def previous_token_score__wrong_b_leading_axes_mixed(weights):
    """diagonal takes the first two axes unless told otherwise: right for one pattern, wrong with leading axes."""
    if weights.shape[-1] < 2:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    return weights.diagonal(offset=-1).mean(dim=-1)


def previous_token_score__wrong_b_wraps_around(weights):
    """Position 0 is counted too, and its index -1 means the last key."""
    n = weights.shape[-1]
    if n == 1:
        return 0 * weights[..., 0, 0]
    i = torch.arange(n)
    return weights[..., i, i - 1].mean(dim=-1)


def previous_token_score__wrong_b_counts_favourites(weights):
    """It counts the queries that look at the previous token most, instead of averaging the weights."""
    n = weights.shape[-1]
    favourite = weights.argmax(dim=-1)[..., 1:]
    hits = (favourite == torch.arange(n - 1)).to(weights.dtype)
    return hits.sum(dim=-1) / max(n - 1, 1)


def previous_token_score__right_b_matrix_of_places(weights):
    """Multiplies with a matrix that is 1 just below the diagonal, and sums."""
    n = weights.shape[-1]
    places = torch.eye(n, dtype=weights.dtype)[:, 1:]
    taken = torch.where(F.pad(places, (0, 1)).bool(), weights, 0)
    return taken.sum((-2, -1)) / max(1, n - 1)


# prefix_matching_score


def prefix_matching_score__wrong_b_same_token(weights, period):
    """It looks at i - period, the same token one period ago, not at the one that followed it."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    return weights.diagonal(offset=-period, dim1=-2, dim2=-1).mean(dim=-1)


def prefix_matching_score__wrong_b_row_too_many(weights, period):
    """The whole diagonal is averaged, and it begins in row period - 1, where nothing has been repeated yet."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    stripe = weights.diagonal(offset=-(period - 1), dim1=-2, dim2=-1)
    return stripe.mean(dim=-1)


def prefix_matching_score__wrong_b_divided_by_n(weights, period):
    """The sum is divided by n, not by the n - period rows that count."""
    n = weights.size(-1)
    total = weights.new_zeros(weights.shape[:-2])
    for i in range(period, n):
        total = total + weights[..., i, i - period + 1]
    return total / n


def prefix_matching_score__wrong_b_shape_lost_without_repeat(weights, period):
    """For n <= period a single 0 comes back, not one for each pattern."""
    n = weights.shape[-1]
    if n <= period:
        return torch.tensor(0.0, dtype=weights.dtype)
    lower = weights[..., period:, 1:]
    return lower.diagonal(dim1=-2, dim2=-1).mean(-1)


def prefix_matching_score__wrong_b_all_earlier_periods(weights, period):
    """The weights one, two and more periods ago are added up; only those of one period ago count."""
    n = weights.shape[-1]
    score = torch.zeros_like(weights[..., 0, 0])
    for i in range(period, n):
        for j in range(i - (period - 1), 0, -period):
            score = score + weights[..., i, j]
    return score / max(n - period, 1)


def prefix_matching_score__right_b_diagonal_of_a_corner(weights, period):
    """Cuts off the first `period` rows and the first column; what counts is the main diagonal of the rest."""
    corner = weights[..., period:, 1:]
    counted = max(weights.shape[-1] - period, 0)
    if not counted:
        return weights.sum(dim=(-2, -1)) * 0
    return torch.einsum("...ii->...i", corner[..., :counted]).mean(dim=-1)


# ov_circuit


def ov_circuit__wrong_b_scaled_by_width(W_E, W_V, W_O, W_U):
    """It is divided by the root of the head's width; this belongs to the scores, not to what is copied."""
    head = W_V @ W_O / math.sqrt(W_V.shape[1])
    return W_E @ head @ W_U


def ov_circuit__wrong_b_residual_included(W_E, W_V, W_O, W_U):
    """The token's own direct path W_E W_U is included; asked is only what the head adds."""
    stream = W_E + (W_E @ W_V) @ W_O
    return stream @ W_U


def ov_circuit__wrong_b_tied_unembedding(W_E, W_V, W_O, W_U):
    """The logits are read with W_E transposed, as if embedding and unembedding were tied; W_U is ignored."""
    return (W_E @ W_V @ W_O) @ W_E.mT


def ov_circuit__wrong_b_unembedding_turned_when_square(W_E, W_V, W_O, W_U):
    """The shape of W_U is used to guess which way it lies; where vocab = d_model it is transposed by mistake."""
    d_model = W_E.shape[1]
    if W_U.shape[1] == d_model:  # one row per token? then turn it
        W_U = W_U.T
    return W_E @ W_V @ W_O @ W_U


def ov_circuit__wrong_b_rows_centred(W_E, W_V, W_O, W_U):
    """The mean of each row is subtracted, so that the entries are no longer what is added to the logits."""
    full = torch.einsum("td,dv,ve,eu->tu", W_E, W_V, W_O, W_U)
    return full - full.mean(dim=1, keepdim=True)


def ov_circuit__right_b_from_the_end(W_E, W_V, W_O, W_U):
    """Multiplies from the right end on, and embeds last, with a lookup of each token."""
    read_out = W_O @ W_U
    effect = W_V @ read_out
    return torch.stack([(row.unsqueeze(1) * effect).sum(dim=0) for row in W_E.unbind()])


# copying_score


def copying_score__wrong_b_positive_diagonal(ov):
    """A token counts as soon as its own logit is raised; it need not be the largest of its row."""
    return (ov.diagonal() > 0).double().mean()


def copying_score__wrong_b_best_starts_at_zero(ov):
    """The search for the largest other entry starts at 0: rows with negative entries only are never counted."""
    vocab = ov.shape[0]
    copied = 0
    for t in range(vocab):
        best = 0.0
        for u in range(vocab):
            if u != t and ov[t, u] > best:
                best = ov[t, u]
        copied += int(ov[t, t] > best)
    return torch.tensor(copied / vocab)


def copying_score__wrong_b_more_than_half(ov):
    """The own token must get more than half of the softmax; a logit can be the largest with less."""
    p = ov.softmax(dim=-1)
    return (p.diagonal() > 0.5).to(ov.dtype).mean()


def copying_score__wrong_b_diagonal_overwritten(ov):
    """The diagonal of the caller's matrix is overwritten with -inf, to find the largest of the others."""
    own = ov.diagonal().clone()
    others = ov.fill_diagonal_(-torch.inf).max(dim=1).values
    return (own > others).double().mean()


def copying_score__wrong_b_two_largest_needed(ov):
    """It asks for the two largest entries of a row, which fails for a vocabulary of one token."""
    values, indices = ov.topk(2, dim=-1)
    ahead = values[:, 0] > values[:, 1]
    return ((indices[:, 0] == torch.arange(len(ov))) & ahead).double().mean()


def copying_score__right_b_nobody_beats_it(ov):
    """Counts in each row how many entries reach the own one: only itself may."""
    own = ov.diagonal().unsqueeze(1)
    reach = torch.ge(ov, own).sum(dim=1)
    return torch.mean((reach == 1).to(torch.float64))


# composition_score


def composition_score__wrong_b_not_transposed(W_QK, W_OV):
    """W_OV is not transposed: the keys are compared with what the earlier head reads, not with what it writes."""
    size = W_QK.norm() * W_OV.norm()
    if size == 0:
        return W_QK.new_zeros(())
    return (W_QK @ W_OV).norm() / size


def composition_score__wrong_b_roots_forgotten(W_QK, W_OV):
    """The roots are forgotten: with sums of squares for norms the score comes out squared."""
    squares = [W.square().sum() for W in (W_QK @ W_OV.mT, W_QK, W_OV)]
    below = squares[1] * squares[2]
    if below == 0:
        return below
    return squares[0] / below


def composition_score__wrong_b_sum_decides_zero(W_QK, W_OV):
    """A circuit counts as zero if its entries sum to 0, though they may only cancel."""
    if W_QK.sum() == 0 or W_OV.sum() == 0:
        return torch.tensor(0.0, dtype=W_QK.dtype)
    return (W_QK @ W_OV.T).norm() / (W_QK.norm() * W_OV.norm())


def composition_score__wrong_b_any_zero_entry(W_QK, W_OV):
    """A single entry of 0 is enough for a score of 0: all() asks whether every entry is non-zero."""
    if not (W_QK.all() and W_OV.all()):
        return 0 * W_QK.sum()
    numerator = torch.norm(torch.matmul(W_QK, W_OV.t()))
    return numerator / torch.norm(W_QK) / torch.norm(W_OV)


def composition_score__wrong_b_small_counts_as_zero(W_QK, W_OV):
    """Small circuits are taken for zero: below a norm of 1e-4 the score is set to 0, though size does not matter."""
    a, b = W_QK.norm(), W_OV.norm()
    if a < 1e-4 or b < 1e-4:
        return torch.zeros_like(a)
    return (W_QK @ W_OV.T).norm() / (a * b)


def composition_score__right_b_made_unit_first(W_QK, W_OV):
    """Makes both circuits matrices of norm 1, and multiplies them the other way round, which transposes the product."""
    sizes = [torch.linalg.vector_norm(W) for W in (W_QK, W_OV)]
    if min(sizes) == 0:
        return torch.zeros_like(sizes[0])
    keys, writes = W_QK / sizes[0], W_OV / sizes[1]
    return torch.linalg.vector_norm(writes @ keys.mT)


# ablate_head


def ablate_head__wrong_b_writes_through_view(head_outputs, head):
    """[:] is a view, not a copy, so the caller's tensor is zeroed as well."""
    kept = head_outputs[:]
    kept[:, head] = 0
    return kept


def ablate_head__wrong_b_others_rescaled(head_outputs, head):
    """The other heads are scaled up by h / (h - 1), as dropout does; they should stay as they were."""
    h = head_outputs.shape[1]
    keep = torch.ones(h, dtype=head_outputs.dtype)
    keep[head] = 0
    if h > 1:
        keep = keep * h / (h - 1)
    return head_outputs * keep[None, :, None, None]


def ablate_head__wrong_b_mean_instead_of_zero(head_outputs, head):
    """The head is replaced by its mean over batch and positions, not by zeros."""
    mean = head_outputs[:, head].mean(dim=(0, 1))
    copy = head_outputs.clone()
    copy[:, head] = mean
    return copy


def ablate_head__wrong_b_only_last_position(head_outputs, head):
    """The head is zeroed at the last position only, not at all of them."""
    new = head_outputs.clone()
    new[:, head, -1] = torch.zeros(head_outputs.shape[-1], dtype=new.dtype)
    return new


def ablate_head__wrong_b_all_but_this(head_outputs, head):
    """The others are zeroed and this head is kept: the mask is inverted."""
    heads = torch.arange(head_outputs.shape[1]).view(1, -1, 1, 1)
    return torch.where(heads == head, head_outputs, torch.zeros_like(head_outputs))


def ablate_head__right_b_joined_parts(head_outputs, head):
    """Joins the heads before, a block of zeros, and the heads after."""
    before, gone, after = head_outputs.tensor_split((head, head + 1), dim=1)
    return torch.cat((before, torch.zeros_like(gone), after), dim=1)


# in_context_learning_score


def in_context_learning_score__wrong_b_summed_over_batch(losses, early, late):
    """The losses are summed over the batch, not averaged."""
    total = 0
    for text in losses:
        total = total + text[late] - text[early]
    return total


def in_context_learning_score__wrong_b_texts_for_positions(losses, early, late):
    """Rows are indexed in place of columns: two texts are compared, not two positions."""
    return losses[late].mean() - losses[early].mean()


def in_context_learning_score__wrong_b_positions_sorted(losses, early, late):
    """The two positions are put in order first, so a call with early > late has the wrong sign."""
    if early > late:
        early, late = late, early
    means = losses.mean(dim=0)
    return means[late] - means[early]


def in_context_learning_score__wrong_b_per_position(losses, early, late):
    """The difference is divided by the number of positions between: a slope, not the change."""
    change = losses[:, late].mean() - losses[:, early].mean()
    steps = late - early
    return change / steps if steps else change


def in_context_learning_score__wrong_b_relative_change(losses, early, late):
    """The change is divided by the early loss: a share, not a difference of losses."""
    start = losses[:, early].mean()
    end = losses[:, late].mean()
    return (end - start) / start


def in_context_learning_score__right_b_mean_of_differences(losses, early, late):
    """Takes the two columns out together, their difference in each text, and then the mean."""
    pair = losses.index_select(1, torch.tensor([early, late]))
    return pair.diff(dim=1).mean()


# build_induction_circuit


def build_induction_circuit__wrong_b_all_matches_alike(vocab_size, n_ctx):
    """Nothing prefers the latest match: position 0, which notes its own token, and older copies take their share."""
    d = 2 * vocab_size + n_ctx
    one_hot = torch.eye(d)
    words, places, notes = one_hot.split([vocab_size, n_ctx, vocab_size])
    ask_before = torch.zeros(d, n_ctx)
    for i in range(1, n_ctx):
        ask_before[vocab_size + i, i - 1] = 40 * n_ctx**0.5
    first = {"W_Q": ask_before, "W_K": places.T.clone(), "W_V": words.T.clone(), "W_O": notes.clone()}
    second = {
        "W_Q": 40 * vocab_size**0.5 * words.T,
        "W_K": notes.T.clone(),
        "W_V": words.T.clone(),
        "W_O": 3 * words,
    }
    return {"W_E": words.clone(), "W_pos": places.clone(), "W_U": words.T.clone(), "blocks": [first, second]}


def build_induction_circuit__wrong_b_first_layer_looks_at_itself(vocab_size, n_ctx):
    """The first layer's queries ask for their own position, not the one before: every token notes itself."""
    V, N = vocab_size, n_ctx
    E = torch.eye(2 * V + N)
    word, place, note = E[:V], E[V : V + N], E[V + N :]
    head_1 = {
        "W_Q": 40 * math.sqrt(N) * place.T,
        "W_K": place.T.contiguous(),
        "W_V": word.T.contiguous(),
        "W_O": note.clone(),
    }
    root = math.sqrt(V + 1)
    head_2 = {
        "W_Q": root * torch.cat([word.T, word.sum(0)[:, None]], dim=1),
        "W_K": torch.cat([(20 + 10 * N) * note.T, (10 * torch.arange(N).float() @ place)[:, None]], dim=1),
        "W_V": word.T.contiguous(),
        "W_O": 6 * word,
    }
    return {"W_E": word.clone(), "W_pos": place.clone(), "W_U": word.T.contiguous(), "blocks": [head_1, head_2]}


def build_induction_circuit__wrong_b_values_read_note(vocab_size, n_ctx):
    """The second layer's values read the note, not the token: the current token is repeated instead of the next."""
    V, N = vocab_size, n_ctx
    tok, pos, note = torch.eye(2 * V + N).split([V, N, V])
    shift = torch.eye(N).roll(-1, 1)
    shift[0] = 0
    first = dict(W_Q=pos.T @ shift * 40 * N**0.5, W_K=pos.T + 0, W_V=tok.T + 0, W_O=note + 0)
    late = 10 * torch.arange(N).float()[None] @ pos
    W_Q = torch.cat([tok, tok.sum(0, keepdim=True)]).T * (V + 1) ** 0.5
    W_K = torch.cat([note * (10 * N + 20), late]).T
    second = dict(W_Q=W_Q, W_K=W_K, W_V=note.T + 0, W_O=5 * tok)
    return dict(W_E=tok + 0, W_pos=pos + 0, W_U=tok.T + 0, blocks=[first, second])


def build_induction_circuit__wrong_b_earliest_match_wins(vocab_size, n_ctx):
    """The score falls with the position, so the earliest match wins over the latest."""
    V, N = vocab_size, n_ctx
    d = 2 * V + N
    weights = {"W_E": torch.eye(V, d), "W_pos": torch.zeros(N, d), "W_U": torch.eye(d, V)}
    weights["W_pos"][:, V : V + N] = torch.eye(N)
    Q1, K1, Q2, K2 = torch.zeros(d, N), torch.zeros(d, N), torch.zeros(d, V + 1), torch.zeros(d, V + 1)
    Q1[V + 1 : V + N, : N - 1] = 40 * math.sqrt(N) * torch.eye(N - 1)
    K1[V : V + N] = torch.eye(N)
    O1 = torch.zeros(V, d)
    O1[:, V + N :] = torch.eye(V)
    Q2[:V, :V] = torch.eye(V) * math.sqrt(V + 1)
    Q2[:V, V] = math.sqrt(V + 1)
    K2[V + N :, :V] = (10 * N + 20) * torch.eye(V)
    K2[V : V + N, V] = 10.0 * torch.arange(N - 1, -1, -1)
    weights["blocks"] = [
        {"W_Q": Q1, "W_K": K1, "W_V": torch.eye(d, V), "W_O": O1},
        {"W_Q": Q2, "W_K": K2, "W_V": torch.eye(d, V), "W_O": 5 * torch.eye(V, d)},
    ]
    return weights


def build_induction_circuit__wrong_b_only_position_zero_barred(vocab_size, n_ctx):
    """Only position 0 is kept from matching; from the third copy on several true matches share the weight."""
    V, N = vocab_size, n_ctx
    d = 2 * V + N
    tok, pos, note = torch.eye(d).split([V, N, V])
    shift = torch.diag(torch.ones(N - 1), -1)
    first = {"W_Q": pos.T @ shift * 40 * math.sqrt(N), "W_K": pos.T.clone(), "W_V": tok.T.clone(), "W_O": note.clone()}
    root = math.sqrt(V + 1)
    W_Q = root * torch.cat([40 * tok, tok.sum(0)[None]]).T
    W_K = torch.cat([note, -80 * pos[:1]]).T
    second = {"W_Q": W_Q, "W_K": W_K, "W_V": tok.T.clone(), "W_O": 5 * tok}
    return {"W_E": tok.clone(), "W_pos": pos.clone(), "W_U": tok.T.clone(), "blocks": [first, second]}


def build_induction_circuit__right_b_columns_for_answers(vocab_size, n_ctx):
    """Gives predictions columns of their own, and reads the order of positions from one more column."""
    V, N = vocab_size, n_ctx
    names = {"token": V, "place": N, "order": 1, "always": 1, "note": V, "answer": V}
    starts, d = {}, 0
    for name, width in names.items():
        starts[name] = slice(d, d + width)
        d += width

    def matrix(*entries):
        """Rows of the stream; each entry: (where it reads, first column, what)."""
        wide = max(column + what.shape[1] for _, column, what in entries)
        W = torch.zeros(d, wide)
        for name, column, what in entries:
            W[starts[name], column : column + what.shape[1]] = what
        return W

    W_E = matrix(("token", 0, torch.eye(V))).T.contiguous()
    W_pos = torch.zeros(N, d)
    W_pos[:, starts["place"]] = torch.eye(N)
    W_pos[:, starts["order"]] = torch.arange(N).float()[:, None]
    W_pos[:, starts["always"]] = 1
    step_back = torch.zeros(N, N)
    for i in range(1, N):
        step_back[i, i - 1] = 50 * math.sqrt(N)
    first = {
        "W_Q": matrix(("place", 0, step_back)),
        "W_K": matrix(("place", 0, torch.eye(N))),
        "W_V": matrix(("token", 0, torch.eye(V))),
        "W_O": matrix(("note", 0, torch.eye(V))).T.contiguous(),
    }
    root = math.sqrt(V + 1)
    second = {
        "W_Q": matrix(("token", 0, root * (12 * N + 30) * torch.eye(V)), ("always", V, torch.full((1, 1), 12 * root))),
        "W_K": matrix(("note", 0, torch.eye(V)), ("order", V, torch.ones(1, 1))),
        "W_V": matrix(("token", 0, torch.eye(V))),
        "W_O": matrix(("answer", 0, torch.eye(V))).T.contiguous(),
    }
    W_U = matrix(("answer", 0, torch.eye(V)))
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


# find_heads


def find_heads__wrong_b_rows_without_match_counted(patterns, tokens):
    """All rows are averaged, also those with nothing to find, in which even a perfect head has weight 0."""
    n = len(tokens)
    previous = torch.zeros(n, n, dtype=torch.bool)
    previous[range(1, n), range(n - 1)] = True
    seen = torch.arange(1, n + 1)

    def judge(places):
        if not places.any():
            return []
        chance = (places.sum(dim=1) / seen).mean()
        share = (patterns * places).sum(dim=-1).mean(dim=-1)
        return _pairs(share > (chance + 1) / 2)

    return judge(previous), judge(_followers(tokens))


def find_heads__wrong_b_never_at_itself(patterns, tokens):
    """The query's own position is left out as a place, though the second of two twins followed the first."""
    n = tokens.shape[0]
    prev = {i: [i - 1] for i in range(1, n)}
    ind = {}
    for i in range(n):
        js = [j + 1 for j in range(i - 1) if tokens[j] == tokens[i]]
        if js:
            ind[i] = js

    def counts(A, table):
        if not table:
            return False
        mean = sum(A[i, js].sum().item() for i, js in table.items()) / len(table)
        level = sum(len(js) / (i + 1) for i, js in table.items()) / len(table)
        return mean > (level + 1) / 2

    grid = [(a, b) for a in range(len(patterns)) for b in range(len(patterns[0]))]
    return [p for p in grid if counts(patterns[p], prev)], [p for p in grid if counts(patterns[p], ind)]


def find_heads__wrong_b_head_before_layer(patterns, tokens):
    """The pairs are (head, layer), not (layer, head)."""
    n = len(tokens)
    seen = torch.arange(n) + 1
    results = []
    for mask in (torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1), _followers(tokens)):
        rows = mask.any(1)
        pairs = []
        if rows.any():
            weight = (patterns * mask).sum(-1)[..., rows].mean(-1)
            middle = (1 + (mask.sum(1) / seen)[rows].mean()) / 2
            pairs = [(head, layer) for layer, head in _pairs(weight > middle)]
        results.append(sorted(pairs))
    return tuple(results)


def find_heads__wrong_b_each_head_one_kind(patterns, tokens):
    """A head that is found as a previous-token head is no longer tried as an induction head."""
    n = len(tokens)
    masks = torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1), _followers(tokens)
    previous, induction = [], []
    for layer, heads in enumerate(patterns):
        for head, A in enumerate(heads):
            good = []
            for mask in masks:
                rows = mask.any(dim=1)
                hit = A.where(mask, 0).sum(1)[rows].sum()
                even = (mask.sum(1) / torch.arange(1, n + 1))[rows].sum()
                good.append(bool(hit - even > rows.sum() - hit))
            if good[0]:
                previous.append((layer, head))
            elif good[1]:
                induction.append((layer, head))
    return previous, induction


def find_heads__wrong_b_favourite_key_decides(patterns, tokens):
    """A row counts as a hit if its largest weight is in such a place; how much weight is there plays no part."""
    n = len(tokens)
    masks = [torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1), _followers(tokens)]
    top = patterns.argmax(dim=-1)
    found = ([], [])
    for mask, heads in zip(masks, found):
        rows = [i for i in range(n) if mask[i].any()]
        if not rows:
            continue
        even = sum(int(mask[i].sum()) / (i + 1) for i in rows) / len(rows)
        for layer in range(top.shape[0]):
            for head in range(top.shape[1]):
                share = sum(bool(mask[i, top[layer, head, i]]) for i in rows) / len(rows)
                if share > (1 + even) / 2:
                    heads.append((layer, head))
    return found


def find_heads__right_b_look_up_by_dictionary(patterns, tokens):
    """Reads the text once, keeping for each token the places that followed it, and adds up gains over even looks."""
    layers, heads = patterns.shape[:2]
    text, follows = tokens.tolist(), {}
    gain = {}
    for kind in range(2):
        for pair in ((layer, head) for layer in range(layers) for head in range(heads)):
            gain[kind, pair] = 0.0
    for i, token in enumerate(text):
        if i:
            follows.setdefault(text[i - 1], []).append(i)
        for kind, places in enumerate(([i - 1] if i else [], follows.get(token, []))):
            if places:
                even = len(places) / (i + 1)
                for (which, (layer, head)), _ in gain.items():
                    if which == kind:
                        hit = patterns[layer, head, i, places].sum().item()
                        gain[kind, (layer, head)] += 2 * hit - even - 1
    found = [sorted(pair for (which, pair), total in gain.items() if which == kind and total > 0) for kind in (0, 1)]
    return found[0], found[1]


# ablate_path


def ablate_path__wrong_b_second_layer_blind(tokens, weights, into):
    """All three readers of the second layer are blinded, whichever is asked for."""
    n = tokens.shape[1]
    start = weights["W_E"][tokens] + weights["W_pos"][:n]
    one, two = weights["blocks"]
    A = _pattern(start @ one["W_Q"], start @ one["W_K"])
    x = start + A @ start @ one["W_V"] @ one["W_O"]
    B = _pattern(start @ two["W_Q"], start @ two["W_K"])
    x = x + B @ start @ two["W_V"] @ two["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_b_logits_lose_note(tokens, weights, into):
    """The second layer's output is added to the stream without the note, so the logits are blind to the note too."""
    n = tokens.shape[1]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    block1, block2 = weights["blocks"]
    pattern1 = _pattern(x @ block1["W_Q"], x @ block1["W_K"])
    note = pattern1 @ x @ block1["W_V"] @ block1["W_O"]
    q = x if into == "query" else x + note
    k = x if into == "key" else x + note
    v = x if into == "value" else x + note
    pattern2 = _pattern(q @ block2["W_Q"], k @ block2["W_K"])
    x = x + pattern2 @ v @ block2["W_V"] @ block2["W_O"]
    return x @ weights["W_U"], [pattern1, pattern2]


def ablate_path__wrong_b_reader_sees_only_note(tokens, weights, into):
    """The reader gets the note alone instead of everything but the note."""
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    one, two = weights["blocks"]
    A = _pattern(start @ one["W_Q"], start @ one["W_K"])
    note = A @ start @ one["W_V"] @ one["W_O"]
    stream = start + note
    sees = dict.fromkeys(("query", "key", "value"), stream)
    sees[into] = note
    B = _pattern(sees["query"] @ two["W_Q"], sees["key"] @ two["W_K"])
    stream = stream + B @ sees["value"] @ two["W_V"] @ two["W_O"]
    return stream @ weights["W_U"], [A, B]


def ablate_path__wrong_b_gradient_cut(tokens, weights, into):
    """Everything runs under no_grad, so no gradient flows to the weights."""
    with torch.no_grad():
        first, second = weights["blocks"]
        bare = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
        A = _pattern(bare @ first["W_Q"], bare @ first["W_K"])
        told = bare + A @ bare @ first["W_V"] @ first["W_O"]
        see = {reader: told for reader in ("query", "key", "value")} | {into: bare}
        B = _pattern(see["query"] @ second["W_Q"], see["key"] @ second["W_K"])
        out = told + B @ see["value"] @ second["W_V"] @ second["W_O"]
        return out @ weights["W_U"], [A, B]


def ablate_path__wrong_b_second_pattern_only(tokens, weights, into):
    """Only the second layer's pattern comes back; two are asked for, first layer first."""
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    one, two = weights["blocks"]
    A = _pattern(x @ one["W_Q"], x @ one["W_K"])
    y = x + A @ x @ one["W_V"] @ one["W_O"]
    q = (x if into == "query" else y) @ two["W_Q"]
    k = (x if into == "key" else y) @ two["W_K"]
    v = (x if into == "value" else y) @ two["W_V"]
    A = _pattern(q, k)
    return (y + A @ v @ two["W_O"]) @ weights["W_U"], [A]


def ablate_path__right_b_stream_of_double_width(tokens, weights, into):
    """Runs the given model with a stream twice as wide: the first layer writes into the second half of it."""
    one, two = weights["blocks"]
    blank = {name: torch.zeros_like(W) for name, W in weights.items() if name != "blocks"}
    wide = {name: torch.cat([weights[name], blank[name]], dim=1) for name in ("W_E", "W_pos")}
    wide["W_U"] = torch.cat([weights["W_U"]] * 2)
    lower = {name: torch.cat([one[name], 0 * one[name]]) for name in ("W_Q", "W_K", "W_V")}
    lower["W_O"] = torch.cat([0 * one["W_O"], one["W_O"]], dim=1)
    upper = {}
    for reader, name in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V")):
        of_note = torch.zeros_like(two[name]) if reader == into else two[name]
        upper[name] = torch.cat([two[name], of_note])
    upper["W_O"] = F.pad(two["W_O"], (0, two["W_O"].shape[1]))
    wide["blocks"] = [lower, upper]
    return run_attention_only(tokens, wide)
