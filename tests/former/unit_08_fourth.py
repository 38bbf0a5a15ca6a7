"""Answers to unit 8's functions, written from the notebook alone."""

import math

import torch
import torch.nn.functional as F


def _pattern(query_rows, key_rows, block, d_head=None):
    """Causal attention pattern of a block; queries and keys may be read from different streams."""
    n = query_rows.shape[-2]
    scores = (query_rows @ block["W_Q"]) @ (key_rows @ block["W_K"]).mT
    scores = scores / math.sqrt(d_head or block["W_Q"].shape[1])
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)


# 8.1


def repeated_sequences__wrong_fourth_repeats_rows_then_reshapes(batch, period, repeats, vocab_size, generator):
    """The copies are stacked along the batch axis and reshaped into rows.
    Rows then mix the blocks of several texts; right for a batch of one (or a single copy) only.
    """
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat(repeats, 1).reshape(batch, period * repeats)


# 8.2


def previous_token_score__wrong_fourth_one_zero_for_all_patterns(weights):
    """For n = 1 a single scalar 0 comes back, not one 0 for each pattern of the leading axes."""
    n = weights.shape[-1]
    if n == 1:
        return torch.zeros((), dtype=weights.dtype)
    return torch.stack([weights[..., i, i - 1] for i in range(1, n)]).mean(dim=0)


def previous_token_score__wrong_fourth_makes_it_causal_first(weights):
    """Cuts off later keys and renormalises the rows, though the pattern need not be causal and is to be taken as is."""
    n = weights.shape[-1]
    causal = weights.tril()
    causal = causal / causal.sum(dim=-1, keepdim=True).clamp_min(1e-12)
    band = causal.diagonal(offset=-1, dim1=-2, dim2=-1)
    return band.sum(-1) / max(n - 1, 1)


# 8.3


def prefix_matching_score__wrong_fourth_diagonal_entries_as_rows(weights, period):
    """Drops the first `period` entries of the diagonal as though its entry k stood in row k.
    Entry k stands in row k + period - 1, so the average begins at row 2 period - 1; right for period 1.
    """
    diagonal = torch.diagonal(weights, offset=-(period - 1), dim1=-2, dim2=-1)
    counted = diagonal[..., period:]
    if counted.shape[-1] == 0:
        return weights.new_zeros(weights.shape[:-2])
    return counted.mean(dim=-1)


def prefix_matching_score__wrong_fourth_text_of_one_block(weights, period):
    """The guard asks for n < period; a text of exactly one block (n == period) is averaged over nothing: NaN."""
    n = weights.size(-1)
    if n < period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype)
    i = torch.arange(period, n)
    return weights[..., i, i - period + 1].mean(-1)


# 8.4


def ov_circuit__wrong_fourth_stream_goes_on(W_E, W_V, W_O, W_U):
    """Adds the token's own way through the residual stream, W_E W_U, to what the head writes."""
    stream = W_E + W_E @ W_V @ W_O
    return stream @ W_U


# 8.5


def copying_score__wrong_fourth_more_than_all_others_together(ov):
    """A token counts as copied if its probability exceeds one half: a small lead over many rivals is missed."""
    probability = torch.softmax(ov, dim=1).diagonal()
    return (probability > 0.5).to(ov.dtype).mean()


def copying_score__wrong_fourth_columns_and_sign(ov):
    """Two slips: the largest entry of each column is sought, and a copied token must have a positive logit."""
    vocab = ov.shape[0]
    copied = 0
    for t in range(vocab):
        if ov[:, t].argmax() == t and ov[t, t] > 0:
            copied += 1
    return copied / vocab


# 8.6


def composition_score__wrong_fourth_zero_told_by_the_sum(W_QK, W_OV):
    """A circuit is taken for zero if its entries sum to 0: circuits whose entries cancel get the score 0."""
    if W_QK.sum() == 0 or W_OV.sum() == 0:
        return W_QK.new_zeros(())
    norm = torch.linalg.matrix_norm
    return norm(W_QK @ W_OV.T) / (norm(W_QK) * norm(W_OV))


# 8.7


def ablate_head__wrong_fourth_mean_in_its_place(head_outputs, head):
    """Puts the head's mean over the batch in its place (mean ablation), where zeros were asked for."""
    others = torch.arange(head_outputs.shape[1]) != head
    typical = head_outputs.mean(dim=0, keepdim=True).expand_as(head_outputs)
    return torch.where(others[:, None, None], head_outputs, typical)


# 8.8


def in_context_learning_score__wrong_fourth_sorts_the_positions(losses, early, late):
    """Swaps the positions if `early` is the larger one; they may come in any order, and that turns the sign."""
    first, last = min(early, late), max(early, late)
    by_position = losses.mean(0)
    return by_position[last] - by_position[first]


# 8.9


def _circuit(vocab, n_ctx, first_gain, match, slope, copy):
    """Fields: token, position, note, a constant 1 and a ramp. Gains are those before the division by the root."""
    token = slice(0, vocab)
    place = slice(vocab, vocab + n_ctx)
    note = slice(vocab + n_ctx, 2 * vocab + n_ctx)
    one, ramp = 2 * vocab + n_ctx, 2 * vocab + n_ctx + 1
    d_model = ramp + 1
    W_E, W_pos, W_U = torch.zeros(vocab, d_model), torch.zeros(n_ctx, d_model), torch.zeros(d_model, vocab)
    W_E[:, token] = torch.eye(vocab)
    W_pos[:, place] = torch.eye(n_ctx)
    W_pos[:, one] = 1.0
    W_pos[:, ramp] = torch.arange(n_ctx).float()
    W_U[token] = torch.eye(vocab)

    previous = {name: torch.zeros(d_model, n_ctx) for name in ("W_Q", "W_K")}
    previous["W_Q"][place] = first_gain * torch.eye(n_ctx).roll(-1, dims=1)
    previous["W_K"][place] = torch.eye(n_ctx)
    previous["W_V"] = torch.zeros(d_model, vocab)
    previous["W_V"][token] = torch.eye(vocab)
    previous["W_O"] = torch.zeros(vocab, d_model)
    previous["W_O"][:, note] = torch.eye(vocab)

    induction = {name: torch.zeros(d_model, vocab + 1) for name in ("W_Q", "W_K")}
    induction["W_Q"][token, :vocab] = match * torch.eye(vocab)
    induction["W_K"][note, :vocab] = torch.eye(vocab)
    induction["W_Q"][one, vocab] = slope
    induction["W_K"][ramp, vocab] = 1.0
    induction["W_V"] = torch.zeros(d_model, vocab)
    induction["W_V"][token] = torch.eye(vocab)
    induction["W_O"] = torch.zeros(vocab, d_model)
    induction["W_O"][:, token] = copy * torch.eye(vocab)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [previous, induction]}


def build_induction_circuit__wrong_fourth_slope_outgrows_match(vocab_size, n_ctx):
    """A match is worth 60 and each position 5, whatever n_ctx is.
    With a period above about a dozen the slope outweighs the match, and the head looks at itself.
    """
    root = math.sqrt(vocab_size + 1)
    return _circuit(vocab_size, n_ctx, 20 * math.sqrt(n_ctx), 60 * root, 5 * root, 2.0)


def build_induction_circuit__wrong_fourth_no_root_and_tie(vocab_size, n_ctx):
    """Two slips: scores don't allow for the division by the root of d_head (a lead of 20 shrinks as sizes grow),
    and the token is copied with the weight 1, so that the current token has as large a logit as the next one.
    """
    return _circuit(vocab_size, n_ctx, 20.0, 20.0 * n_ctx + 20.0, 20.0, 1.0)


def build_induction_circuit__right_fourth_positions_on_a_circle(vocab_size, n_ctx):
    """Right: positions are points on a circle, in two columns; the first head turns its query back by one step."""
    step = 2 * math.pi / (n_ctx + 2)
    angle = step * torch.arange(n_ctx, dtype=torch.float64)
    cos, sin, one, ramp = range(2 * vocab_size, 2 * vocab_size + 4)
    d_model = 2 * vocab_size + 4
    eye = torch.eye(vocab_size)
    E, P, U = torch.zeros(vocab_size, d_model), torch.zeros(n_ctx, d_model), torch.zeros(d_model, vocab_size)
    E[:, :vocab_size] = eye
    P[:, cos], P[:, sin], P[:, one] = angle.cos().float(), angle.sin().float(), 1.0
    P[:, ramp] = torch.arange(n_ctx) / n_ctx
    U[:vocab_size] = eye

    Q, K = torch.zeros(d_model, 2), torch.zeros(d_model, 2)
    lead = 14 * math.sqrt(2) / (1 - math.cos(step))  # 14 over the neighbours, after the division by the root of 2
    Q[cos] = lead * torch.tensor([math.cos(step), -math.sin(step)])
    Q[sin] = lead * torch.tensor([math.sin(step), math.cos(step)])
    K[cos, 0] = K[sin, 1] = 1.0
    V, out = torch.zeros(d_model, vocab_size), torch.zeros(vocab_size, d_model)
    V[:vocab_size] = eye
    out[:, vocab_size : 2 * vocab_size] = eye
    blocks = [{"W_Q": Q, "W_K": K, "W_V": V, "W_O": out}]

    root, slope = math.sqrt(vocab_size + 1), 12.0 * n_ctx
    Q, K = torch.zeros(d_model, vocab_size + 1), torch.zeros(d_model, vocab_size + 1)
    Q[:vocab_size, :vocab_size] = root * (slope + 20) * eye
    K[vocab_size : 2 * vocab_size, :vocab_size] = eye
    Q[one, -1], K[ramp, -1] = root * slope, 1.0
    back = torch.zeros(vocab_size, d_model)
    back[:, :vocab_size] = 3 * eye
    blocks.append({"W_Q": Q, "W_K": K, "W_V": V.clone(), "W_O": back})
    return {"W_E": E, "W_pos": P, "W_U": U, "blocks": blocks}


# 8.10


def find_heads__wrong_fourth_latest_match_only(patterns, tokens):
    """Only the latest of several matches counts: a head that shares its weight among all of them is not found."""
    n = len(tokens)
    ids = tokens.tolist()
    wanted = {"previous": {i: i - 1 for i in range(1, n)}, "induction": {}}
    for i in range(n):
        for j in range(i):
            if ids[j] == ids[i]:
                wanted["induction"][i] = j + 1
    found = []
    for places in wanted.values():
        names = []
        if places:
            chance = sum(1 / (i + 1) for i in places) / len(places)
            for layer, heads in enumerate(patterns):
                for head, A in enumerate(heads):
                    score = float(sum(A[i, j] for i, j in places.items())) / len(places)
                    if score > (1 + chance) / 2:
                        names.append((layer, head))
        found.append(names)
    return tuple(found)


def find_heads__wrong_fourth_chance_sees_all_columns(patterns, tokens):
    """The even head that a head is measured against spreads its weight over all n tokens.
    A causal one sees i + 1 of them in row i: chance comes out too small, and weak heads are counted.
    """
    n = tokens.shape[0]
    previous = torch.diag(torch.ones(n - 1, dtype=torch.bool), -1)
    follows = torch.zeros(n, n, dtype=torch.bool)
    follows[:, 1:] = tokens[:, None] == tokens[None, :-1]
    follows = follows.tril()

    def named(places):
        rows = places.any(dim=1)
        if not rows.any():
            return []
        share = (patterns * places).sum(-1)[..., rows].mean(-1)
        chance = places[rows].sum(1).double().div(n).mean()
        return [tuple(pair) for pair in (share > (1 + chance) / 2).nonzero().tolist()]

    return named(previous), named(follows)


# 8.11


def ablate_path__wrong_fourth_reader_reads_zeros(tokens, weights, into):
    """The blind reader gets zeros: it loses the embedding and the position too, not the note alone."""
    first, second = weights["blocks"]
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    A = _pattern(x, x, first)
    x = x + A @ x @ first["W_V"] @ first["W_O"]
    read = {reader: torch.zeros_like(x) if reader == into else x for reader in ("query", "key", "value")}
    B = _pattern(read["query"], read["key"], second)
    x = x + B @ read["value"] @ second["W_V"] @ second["W_O"]
    return x @ weights["W_U"], [A, B]


def ablate_path__wrong_fourth_stream_loses_note_first_root(tokens, weights, into):
    """Two slips: with the values cut the note vanishes from the stream to the logits as well,
    and the second layer's scores are divided by the root of the first layer's d_head.
    """
    one, two = weights["blocks"]
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    A = _pattern(start, start, one)
    full = start + A @ start @ one["W_V"] @ one["W_O"]
    q = start if into == "query" else full
    k = start if into == "key" else full
    v = start if into == "value" else full
    B = _pattern(q, k, two, d_head=one["W_Q"].shape[1])
    return (v + B @ v @ two["W_V"] @ two["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__right_fourth_stream_of_double_width(tokens, weights, into):
    """Right: the stream is made twice as wide, the note goes into a half of its own, and the blind reader's weight
    has zeros there. The model as such stays untouched.
    """
    one, two = ({name: W for name, W in block.items()} for block in weights["blocks"])
    W_E, W_pos, W_U = weights["W_E"], weights["W_pos"], weights["W_U"]
    blank = torch.zeros_like
    for name in ("W_Q", "W_K", "W_V"):
        one[name] = torch.cat([one[name], blank(one[name])])
        blind = into[0].upper() == name[-1]
        two[name] = torch.cat([two[name], blank(two[name]) if blind else two[name]])
    one["W_O"] = torch.cat([blank(one["W_O"]), one["W_O"]], dim=1)
    two["W_O"] = torch.cat([two["W_O"], blank(two["W_O"])], dim=1)
    x = torch.cat([W_E, blank(W_E)], dim=1)[tokens] + torch.cat([W_pos, blank(W_pos)], dim=1)[: tokens.shape[1]]
    patterns = []
    for block in (one, two):
        A = _pattern(x, x, block)
        x = x + A @ x @ block["W_V"] @ block["W_O"]
        patterns.append(A)
    return x @ torch.cat([W_U, W_U]), patterns
