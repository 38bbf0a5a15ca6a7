"""Answers to the exercises of unit 4, wrong ones and right ones, as students would write them."""

import math

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head), heads are blocks of columns."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head)."""
    return X.transpose(1, 2).flatten(2)


def _bmm_attention(Q, K, V, mask=None):
    """N attentions at once; a query that may attend to nothing gets 0."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return torch.bmm(weights * mask, V)


def _suspect(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    """What the layer of this name in the table of section 9 returns."""
    (B, n, d_model), h = X.shape, 1 if name == "one_head_for_all" else n_heads
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    if name == "heads_not_by_columns":
        Q, K, V = ((X @ W).reshape(B, h, n, -1) for W in (W_Q, W_K, W_V))
    else:
        Q, K, V = (_split_heads(X @ W, h) for W in (W_Q, W_K, W_V))
    d = Q.shape[-1]
    divisor = {"not_scaled": 1, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}.get(name, math.sqrt(d))
    scores, seen = Q @ K.mT / divisor, torch.ones(n, n, dtype=torch.bool)
    if causal:
        seen = seen.tril(1 if name == "causal_off_by_one" else 0)
        seen = seen.triu(-7) if name == "window_of_8" else seen
    if name == "mask_after_softmax":
        weights = torch.softmax(scores, dim=-1) * seen
    elif name == "softmax_over_queries":
        weights = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-2)
    elif name == "not_stabilised":
        weights = scores.exp() * seen
        weights = weights / weights.sum(dim=-1, keepdim=True)
    else:
        low = -10_000.0 if name == "masked_by_a_number" else -math.inf
        weights = torch.softmax(scores.masked_fill(~seen, low), dim=-1)
    heads = weights @ V
    return (heads.reshape(B, n, -1) if name == "heads_not_by_columns" else _merge_heads(heads)) @ W_O


# ------- 4.1 split_heads


def split_heads__wrong_thirteenth_reshape_alone(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Takes a reshape to the wanted shape for the cut; the axis of the heads has to be moved past the tokens."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.reshape(B, n_heads, n, width // n_heads)


def split_heads__wrong_thirteenth_every_hth_column(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Deals the columns out to the heads in turn, head r gets r, r+h, ...; heads are blocks of neighbours."""
    if X.size(2) % n_heads:
        raise ValueError(f"cannot deal {X.size(2)} columns to {n_heads} heads")
    return torch.stack([X[:, :, r::n_heads] for r in range(n_heads)], dim=1)


def split_heads__wrong_thirteenth_columns_forward_then_reshape(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Brings the columns in front of the tokens and reshapes straight to the end; tokens and columns get mixed."""
    width = X.shape[-1]
    d_head, rest = divmod(width, n_heads)
    if rest:
        raise ValueError(f"{n_heads} does not divide {width}")
    columns_first = X.transpose(1, 2)  # the heads have to come before the tokens
    return columns_first.reshape(X.shape[0], n_heads, X.shape[1], d_head)


def split_heads__wrong_thirteenth_stack_in_front(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Stacks the blocks on axis 0, (h, B, n, d), and then only views them as (B, h, n, d); dim=1 is due."""
    B, n, w = X.shape
    if w % n_heads > 0:
        raise ValueError("number of heads %d does not fit width %d" % (n_heads, w))
    blocks = torch.chunk(X, n_heads, dim=-1)
    return torch.stack(blocks).view(B, n_heads, n, w // n_heads)


def split_heads__wrong_thirteenth_divides_the_tokens(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Tests whether the heads divide X.shape[1], the tokens; it is X.shape[-1] that is cut."""
    if X.shape[1] % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[1]}")
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).transpose(1, 2)


def split_heads__wrong_thirteenth_n_heads_as_width(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Reads n_heads as the width of a head and returns (B, w / n_heads, n, n_heads); it is the number of heads."""
    size = X.shape[2]
    if size % n_heads:
        raise ValueError(f"width {size}, heads {n_heads}: no whole number of pieces")
    pieces = X.split(n_heads, dim=2)
    return torch.stack(pieces, dim=1)


def split_heads__wrong_thirteenth_more_heads_than_columns(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Tests the remainder only where n_heads < width; with more heads than columns no ValueError of its own comes."""
    batch, tokens, width = X.shape
    if n_heads < width and width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    d_head = width // n_heads
    cut = X.reshape(batch, tokens, n_heads, d_head)
    return cut.permute(0, 2, 1, 3)


def split_heads__wrong_thirteenth_message_without_numbers(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Raises the ValueError with a message that names neither n_heads nor X.shape[-1]; both are due in it."""
    if X.shape[-1] % n_heads:
        raise ValueError("The heads do not divide the width.")
    return torch.einsum("btrk->brtk", X.unflatten(-1, (n_heads, -1)))


def split_heads__right_thirteenth_columns_first_and_back(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Turns tokens and columns round, cuts the rows that were columns, and turns each head back."""
    width = X.shape[-1]
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.mT.unflatten(1, (n_heads, width // n_heads)).mT


# ------- 4.2 merge_heads


def merge_heads__wrong_thirteenth_reshape_alone(X: torch.Tensor) -> torch.Tensor:
    """Glues by a reshape alone, so that a row mixes tokens of one head; heads and tokens have to swap first."""
    B, h, n, d_head = X.shape
    return X.reshape(B, n, h * d_head)


def merge_heads__wrong_thirteenth_heads_swap_with_batch(X: torch.Tensor) -> torch.Tensor:
    """Thinks that the heads change places with the sequences before the gluing; it is with the tokens."""
    B, h, n, d = X.shape
    turned = X.transpose(0, 1)  # the heads go out in front
    return turned.reshape(B, n, h * d)


def merge_heads__wrong_thirteenth_glue_first_turn_after(X: torch.Tensor) -> torch.Tensor:
    """Believes the way back is glue first, then transpose: (B, h*d, n), then swapped; the swap is due before."""
    batch, heads, tokens, width = X.shape
    glued = X.reshape(batch, heads * width, tokens)
    return glued.transpose(1, 2)


def merge_heads__wrong_thirteenth_last_head_first(X: torch.Tensor) -> torch.Tensor:
    """Puts each further head in front of those already there, so that the last comes first; head 0 should."""
    merged = X[:, 0]
    for r in range(1, X.shape[1]):
        merged = torch.cat([X[:, r], merged], dim=-1)
    return merged


def merge_heads__wrong_thirteenth_last_head_left_out(X: torch.Tensor) -> torch.Tensor:
    """Ends the loop one head too early, so that the columns of the last head stay 0."""
    B, h, n, d_head = X.shape
    out = X.new_zeros(B, n, h * d_head)
    for r in range(h - 1):
        out[:, :, r * d_head : (r + 1) * d_head] = X[:, r]
    return out


def merge_heads__wrong_thirteenth_entries_alternate(X: torch.Tensor) -> torch.Tensor:
    """Reads the column as k*h + r, the heads alternating; it is r*d_head + k, head after head."""
    return X.permute(0, 2, 3, 1).flatten(start_dim=2)


def merge_heads__wrong_thirteenth_squeeze_drops_axes(X: torch.Tensor) -> torch.Tensor:
    """Squeezes all axes of length 1 from each head; wrong for one sequence, one token or heads of width 1."""
    heads = [head.squeeze() for head in X.split(1, dim=1)]
    return torch.cat(heads, dim=-1)


def merge_heads__wrong_thirteenth_always_float32(X: torch.Tensor) -> torch.Tensor:
    """Writes the heads into a table of float32, so that float64 is not kept; the dtype should stay."""
    B, h, n, d = X.shape
    table = torch.zeros(B, n, h, d)
    for r in range(h):
        table[:, :, r] = X[:, r]
    return table.view(B, n, h * d)


def merge_heads__right_thirteenth_through_columns_first(X: torch.Tensor) -> torch.Tensor:
    """Puts head and column in front, glues these two, and sends them to the end."""
    return X.permute(1, 3, 0, 2).flatten(0, 1).movedim(0, -1)


# ------- 4.3 bmm_attention


def bmm_attention__wrong_thirteenth_softmax_over_queries(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Lets each key share itself out among the queries, dim=1; the weights of a query sum to 1 over the keys."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[2])
    if mask is None:
        return torch.bmm(scores.softmax(dim=1), V)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.bmm(scores.softmax(dim=1) * mask, V)


def bmm_attention__wrong_thirteenth_forbidden_scores_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Thinks a score of 0 means no attention and multiplies the scores by the mask; e^0 is 1, not 0."""
    S = (Q @ K.mT) / Q.shape[-1] ** 0.5
    if mask is not None:
        S = S * mask
        sees_any = mask.any(dim=-1, keepdim=True)
        return (torch.softmax(S, dim=-1) * sees_any) @ V
    return torch.softmax(S, dim=-1) @ V


def bmm_attention__wrong_thirteenth_masked_after_softmax(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Takes the softmax over all keys and strikes forbidden weights after it; the others no longer sum to 1."""
    weights = torch.softmax(torch.einsum("nid,njd->nij", Q, K) / math.sqrt(K.shape[-1]), -1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return torch.einsum("nij,njv->niv", weights, V)


def bmm_attention__wrong_thirteenth_root_of_d_v(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Divides by the square root of the width of the values; it should be that of queries and keys, d_k."""
    (N, n, d_k), (_, m, d) = Q.shape, V.shape
    if mask is None:
        mask = torch.ones(1, n, m, dtype=torch.bool)
    scores = Q.bmm(K.mT) / math.sqrt(d)
    lowest = torch.finfo(scores.dtype).min
    A = torch.softmax(torch.where(mask, scores, lowest), dim=2)
    return torch.where(mask, A, 0.0).bmm(V)


def bmm_attention__wrong_thirteenth_maximum_with_hidden_keys(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Subtracts a maximum that hidden scores take part in; far below it all allowed exponentials become 0."""
    raw = torch.bmm(Q, K.mT) / math.sqrt(Q.size(-1))
    top = raw.max(dim=-1, keepdim=True).values
    powers = torch.exp(raw - top)
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    total = torch.where(total == 0, torch.ones_like(total), total)  # rows without a key
    return torch.bmm(powers / total, V)


def bmm_attention__wrong_thirteenth_true_means_forbidden(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Reads True in the mask as hidden, as nn.MultiheadAttention does; here True means may attend."""
    scores = torch.bmm(Q, K.mT).div(math.sqrt(Q.shape[-1]))
    if mask is None:
        mask = torch.zeros(1, dtype=torch.bool)
    masked = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    weights = masked.softmax(-1).masked_fill(mask, 0)
    return torch.bmm(weights, V)


def bmm_attention__wrong_thirteenth_blind_query_gets_mean(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Fills with the lowest number and stops there: a query without any key gets the mean of V and not 0."""
    scores = Q @ K.transpose(-2, -1) * Q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(torch.logical_not(mask), torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1) @ V


def bmm_attention__wrong_thirteenth_nan_in_the_gradient(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Fills with -inf and mends the NaN of an empty row in the output only; the gradient of V still holds NaN."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    output = torch.bmm(torch.softmax(scores, dim=-1), V)
    return torch.nan_to_num(output, nan=0.0)


def bmm_attention__right_thirteenth_ones_beside_the_values(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Sets a column of ones beside V, so that one product gives the sums above and below the fraction line."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    kept = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    powers = torch.exp(kept - kept.amax(dim=-1, keepdim=True)) * mask
    both = torch.bmm(powers, torch.cat([V, torch.ones_like(V[:, :, :1])], dim=-1))
    above, below = both[..., :-1], both[..., -1:]
    return above / (below + (below == 0))


# ------- 4.4 multi_head_attention


def multi_head_attention__wrong_thirteenth_bias_in_each_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes b_O for a bias that every head adds to its share, h times in all; it belongs to the sum, once."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    total = 0
    for r in range(n_heads):
        own = slice(r * d_head, (r + 1) * d_head)
        head = _bmm_attention(X @ W_Q[:, own], X @ W_K[:, own], X @ W_V[:, own], None if mask is None else mask[:, r])
        total = total + (head @ W_O[own] + b_O)
    return total


def multi_head_attention__wrong_thirteenth_scaled_by_d_model(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides the scores by the root of d_model, the width of a token; a head's products have d_head terms."""
    d_model = X.shape[-1]
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(d_model)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    heads = torch.einsum("bhij,bhjd->bhid", scores.softmax(dim=-1), V)
    return _merge_heads(heads) @ W_O + b_O


def multi_head_attention__wrong_thirteenth_token_itself_added(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds what the heads found to the token, X + ...; the layer returns only what W_O and b_O make of the heads."""
    B, n, _ = X.shape
    stack = [_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V)]
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    found = _bmm_attention(*stack, mask).unflatten(0, (B, n_heads))
    written_back = _merge_heads(found) @ W_O + b_O
    return X + written_back


def multi_head_attention__wrong_thirteenth_mask_flattened_heads_first(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Flattens the mask as (h, B), by repeating it h times over; the attentions stand as (B, h)."""
    B, n, _ = X.shape
    Q = _split_heads(X.matmul(W_Q), n_heads).reshape(B * n_heads, n, -1)
    K = _split_heads(X.matmul(W_K), n_heads).reshape(B * n_heads, n, -1)
    V = _split_heads(X.matmul(W_V), n_heads).reshape(B * n_heads, n, -1)
    if mask is not None:
        whole = mask.expand(B, n_heads, n, n)
        mask = torch.cat([whole[:, r] for r in range(n_heads)])
    out = _bmm_attention(Q, K, V, mask).reshape(B, n_heads, n, -1)
    return _merge_heads(out).matmul(W_O) + b_O


def multi_head_attention__wrong_thirteenth_glued_without_swap(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Forgets the transpose before the heads are glued: a reshape alone mixes tokens of one head into a row."""
    B, n, _ = X.shape
    width = W_Q.shape[1]
    d_head = width // n_heads
    q = (X @ W_Q).view(B, n, n_heads, d_head).transpose(1, 2)
    k = (X @ W_K).view(B, n, n_heads, d_head).transpose(1, 2)
    v = (X @ W_V).view(B, n, n_heads, d_head).transpose(1, 2)
    s = q @ k.transpose(-1, -2) / math.sqrt(d_head)
    if mask is not None:
        s = torch.where(mask, s, torch.finfo(s.dtype).min)
    out = s.softmax(-1) @ v
    return out.reshape(B, n, width) @ W_O + b_O


def multi_head_attention__wrong_thirteenth_heads_own_every_hth(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads that head r owns the columns r, r+h, r+2h, ... and such rows of W_O; it owns a contiguous block."""
    B, n, d_model = X.shape
    out = b_O.expand(B, n, d_model)
    for r in range(n_heads):
        Q, K, V = X @ W_Q[:, r::n_heads], X @ W_K[:, r::n_heads], X @ W_V[:, r::n_heads]
        own_mask = None if mask is None else mask.expand(B, n_heads, n, n)[:, r]
        out = out + _bmm_attention(Q, K, V, own_mask) @ W_O[r::n_heads]
    return out


def multi_head_attention__wrong_thirteenth_width_from_d_model(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes d_model // h for the width of a head; right only where h*d_head is d_model, which it need not be."""
    batch, length, d_model = X.shape
    size = d_model // n_heads
    shares = []
    for r in range(n_heads):
        first, last = r * size, (r + 1) * size
        Q, K, V = X @ W_Q[:, first:last], X @ W_K[:, first:last], X @ W_V[:, first:last]
        allowed = None if mask is None else mask.expand(batch, n_heads, length, length)[:, r]
        shares.append(_bmm_attention(Q, K, V, allowed) @ W_O[first:last])
    return torch.stack(shares).sum(dim=0) + b_O


def multi_head_attention__wrong_thirteenth_by_ready_made_attention(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right numbers, but by scaled_dot_product_attention, which the unit does not allow in an answer."""
    Q, K, V = [_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V)]
    return _merge_heads(F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)) @ W_O + b_O


def multi_head_attention__right_thirteenth_by_two_circuits(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Joins W_Q with W_K and W_V with W_O head by head, and never makes queries, keys or values."""
    d_head = W_Q.shape[1] // n_heads
    ask, answer, carry = (W.unflatten(1, (n_heads, d_head)) for W in (W_Q, W_K, W_V))
    meet = torch.einsum("ihk,jhk->hij", ask, answer)  # (h, d_model, d_model)
    move = torch.einsum("ihk,hkj->hij", carry, W_O.unflatten(0, (n_heads, d_head)))
    scores = torch.einsum("bti,hij,bsj->bhts", X, meet, X) / math.sqrt(d_head)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("bhts,bsi,hij->btj", weights, X, move) + b_O


# ------- 4.5 head_contributions


def head_contributions__wrong_thirteenth_even_share_of_all(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gives each head the h-th part of the whole output; each head writes something of its own."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    flat_mask = mask if mask is None else mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = _bmm_attention(Q, K, V, flat_mask).unflatten(0, (B, n_heads))
    whole = _merge_heads(heads) @ W_O
    return (whole / n_heads)[:, None].expand(B, n_heads, n, whole.shape[-1])


def head_contributions__wrong_thirteenth_running_sum(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Notes the state of the output after each head, a running sum; each entry should be that head alone."""
    B, n, d_model = X.shape
    d = W_Q.shape[1] // n_heads
    state, noted = X.new_zeros(B, n, d_model), []
    for r in range(n_heads):
        c = slice(d * r, d * r + d)
        see = None if mask is None else mask.expand(B, n_heads, n, n)[:, r]
        state = state + _bmm_attention(X @ W_Q[:, c], X @ W_K[:, c], X @ W_V[:, c], see) @ W_O[c]
        noted.append(state)
    return torch.stack(noted, dim=1)


def head_contributions__wrong_thirteenth_weights_averaged_over_heads(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks the layer has one table of weights, the mean over its heads; each head mixes by weights of its own."""
    d_head = W_Q.shape[1] // n_heads
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(d_head)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1).mean(dim=1, keepdim=True)
    return weights @ V @ W_O.unflatten(0, (n_heads, d_head))


def head_contributions__wrong_thirteenth_rows_from_r_on(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the rows r ... r + d_head - 1 of W_O for head r; they begin at r*d_head."""
    B, n = X.shape[:2]
    N, d_head = B * n_heads, W_Q.shape[1] // n_heads
    Q = _split_heads(X @ W_Q, n_heads).reshape(N, n, d_head)
    K = _split_heads(X @ W_K, n_heads).reshape(N, n, d_head)
    V = _split_heads(X @ W_V, n_heads).reshape(N, n, d_head)
    if mask is not None:
        mask = torch.broadcast_to(mask, (B, n_heads, n, n)).reshape(N, n, n)
    O = _bmm_attention(Q, K, V, mask).view(B, n_heads, n, d_head)
    return torch.stack([O[:, r] @ W_O[r : r + d_head] for r in range(n_heads)], dim=1)


def head_contributions__wrong_thirteenth_output_rows_interleaved(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Cuts the rows of W_O as (d_head, h) and so gives head r every h-th row; (h, d_head) is due."""
    d_model = X.shape[-1]
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    S = torch.einsum("bhqd,bhkd->bhqk", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    rows = W_O.reshape(-1, n_heads, d_model)  # (d_head, h, d_model)
    return torch.einsum("bhqk,bhkd,dhm->bhqm", S.softmax(-1), V, rows)


def head_contributions__wrong_thirteenth_heads_before_batch(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns one (B, n, d_model) per head, stacked as (h, B, n, d_model); asked for is (B, h, n, d_model)."""
    B, n, _ = X.shape
    chunks = zip(*(W.chunk(n_heads, dim=1) for W in (W_Q, W_K, W_V)), W_O.chunk(n_heads, dim=0), strict=True)
    result = []
    for r, (w_q, w_k, w_v, w_o) in enumerate(chunks):
        m = mask.expand(B, n_heads, n, n)[:, r] if mask is not None else None
        result.append(_bmm_attention(X @ w_q, X @ w_k, X @ w_v, m) @ w_o)
    return torch.stack(result)


def head_contributions__wrong_thirteenth_first_mask_for_all(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Uses the first head's mask in all heads; wrong where a mask (B, h, n, n) differs from head to head."""
    d_head = W_Q.shape[1] // n_heads
    if mask is not None and mask.dim() > 2:
        mask = mask[..., 0, :, :]
    written = []
    for r in range(n_heads):
        begin, end = r * d_head, (r + 1) * d_head
        Q, K, V = (X @ W[:, begin:end] for W in (W_Q, W_K, W_V))
        written.append(_bmm_attention(Q, K, V, mask) @ W_O[begin:end, :])
    return torch.stack(written, dim=1)


def head_contributions__wrong_thirteenth_mask_inverted_in_place(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Turns the caller's mask round in place by logical_not_; the inputs should be left as they are."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = (Q @ K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        hidden = mask.logical_not_()
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    heads = torch.softmax(scores, dim=-1) @ V
    return heads @ W_O.unflatten(0, (n_heads, -1))


def head_contributions__right_thirteenth_whole_less_the_others(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sets all columns but those of one head to 0 after the merging, and sends each such copy through all of W_O."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    see = None if mask is None else mask.expand(B, n_heads, n, n).flatten(0, 1)
    merged = _merge_heads(_bmm_attention(Q, K, V, see).unflatten(0, (B, n_heads)))
    owner = torch.arange(merged.shape[-1]) // Q.shape[-1]
    only = (owner == torch.arange(n_heads)[:, None])[:, None]  # (h, 1, h*d_head)
    return (merged[:, None] * only) @ W_O


# ------- 4.6 from_torch_weights


def from_torch_weights__wrong_thirteenth_stored_as_they_are(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Thinks cutting is all, for the blocks have the right shape; each has to be transposed for x @ W."""
    W_Q, W_K, W_V = in_proj_weight.chunk(3)
    return W_Q, W_K, W_V, out_proj_weight


def from_torch_weights__wrong_thirteenth_reshape_for_transpose(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes a reshape to (d_model, 3*d_model) for a transpose; it deals the numbers out in another order."""
    d_model = out_proj_weight.shape[0]
    flat = in_proj_weight.reshape(d_model, 3 * d_model)
    Q, K, V = flat.split(d_model, dim=1)
    return Q, K, V, out_proj_weight.T


def from_torch_weights__wrong_thirteenth_every_third_row(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Believes that rows of queries, keys and values alternate; they lie in three blocks, one below the other."""
    return tuple(in_proj_weight[part::3].T for part in range(3)) + (out_proj_weight.T,)


def from_torch_weights__wrong_thirteenth_output_not_turned(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Transposes the three blocks and forgets the fourth weight; W_O has to be turned as well."""
    d = in_proj_weight.shape[1]
    W_Q = in_proj_weight[:d].T
    W_K = in_proj_weight[d : 2 * d].T
    W_V = in_proj_weight[2 * d :].T
    W_O = out_proj_weight
    return W_Q, W_K, W_V, W_O


def from_torch_weights__wrong_thirteenth_keys_twice(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A copied line left unchanged: W_V is cut from the block of the keys instead of the third block."""
    n = len(out_proj_weight)
    turned = in_proj_weight.transpose(0, 1)  # (d_model, 3*d_model)
    w_q = turned[:, 0:n]
    w_k = turned[:, n : 2 * n]
    w_v = turned[:, n : 2 * n]
    return w_q, w_k, w_v, out_proj_weight.transpose(0, 1)


def from_torch_weights__wrong_thirteenth_one_tensor_for_tuple(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the four in one tensor (4, d_model, d_model), which unpacks alike; asked for is a tuple."""
    d = in_proj_weight.shape[-1]
    return torch.cat([in_proj_weight, out_proj_weight]).unflatten(0, (4, d)).mT


def from_torch_weights__wrong_thirteenth_memory_taken_in_order(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reads the memory with steps of its own, as if rows always lay in order; other orders come out wrong."""
    d = in_proj_weight.shape[1]

    def turned(W, row):
        return W.as_strided((d, d), (1, d), W.storage_offset() + row * d)

    W_Q, W_K, W_V = (turned(in_proj_weight, start) for start in (0, d, 2 * d))
    return W_Q, W_K, W_V, turned(out_proj_weight, 0)


def from_torch_weights__wrong_thirteenth_new_parameters(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Makes fresh parameters of the numbers, so that no gradient reaches the weights that were handed in."""
    pieces = [*torch.tensor_split(in_proj_weight, 3), out_proj_weight]
    return tuple(torch.nn.Parameter(piece.detach().t().clone()) for piece in pieces)


def from_torch_weights__right_thirteenth_applied_to_unit_vectors(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sends the unit vectors through nn.Linear's own function: its answers are the rows of W."""
    d_model = out_proj_weight.shape[0]
    unit = torch.eye(d_model, dtype=out_proj_weight.dtype)
    rows = [in_proj_weight.narrow(0, at * d_model, d_model) for at in range(3)]
    W_Q, W_K, W_V, W_O = (F.linear(unit, W) for W in (*rows, out_proj_weight))
    return W_Q, W_K, W_V, W_O


# ------- 4.7 diagnose


def diagnose__wrong_thirteenth_ordinary_numbers_only(attend) -> str:
    """Sends ordinary random numbers; not_stabilised and masked_by_a_number then answer as the right layer does."""
    names = (
        "right not_scaled scaled_by_d scaled_by_d_model softmax_over_queries causal_off_by_one mask_after_softmax "
        "heads_not_by_columns keys_and_values_swapped one_head_for_all not_stabilised masked_by_a_number window_of_8"
    ).split()
    g = torch.Generator().manual_seed(0)
    X = torch.randn(2, 12, 7, generator=g, dtype=torch.float64)
    W_Q, W_K, W_V = torch.randn(3, 7, 15, generator=g, dtype=torch.float64) / 2
    W_O = torch.randn(15, 7, generator=g, dtype=torch.float64)
    call = (X, W_Q, W_K, W_V, W_O, 3, True)
    answer = attend(*call)
    return min(names, key=lambda name: round((answer - _suspect(name, *call)).abs().max().item(), 9))


def diagnose__wrong_thirteenth_eight_tokens_for_the_window(attend) -> str:
    """Thinks eight tokens show a window of eight; i-7 is never above 0 then, so window_of_8 passes for right."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    n, d_model, h, d_head = 8, 6, 2, 5
    X, W_Q, W_K, W_V, W_O = draw(2, n, d_model), draw(6, 10), draw(6, 10), draw(6, 10), draw(10, 6)
    # feature 0 is on in sequence 1 alone, and makes all its scores about -30,000
    X[0, :, 0], X[1, :, 0] = 0, 1
    for r in range(h):
        W_Q[:, r * d_head], W_K[:, r * d_head] = 0, 0
    W_Q[0], W_K[0] = 0, 0
    W_Q[0, ::d_head], W_K[0, ::d_head] = 260, -260
    question = X, W_Q, W_K, W_V, W_O, h, True
    reply = attend(*question)
    best, smallest = "right", math.inf
    for name in (
        *("right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one"),
        *("mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"),
        *("not_stabilised", "masked_by_a_number", "window_of_8"),
    ):
        expected = _suspect(name, *question)
        same_nan = torch.equal(reply.isnan(), expected.isnan())
        gap = float((reply - expected).nan_to_num(0).abs().max()) if same_nan else math.inf
        if gap < smallest - 1e-9:
            best, smallest = name, gap
    return best


def diagnose__wrong_thirteenth_large_scores_upwards(attend) -> str:
    """Wakes the bugs of large numbers by scores of +20,000; the -10,000 for forbidden ones only shows far below 0."""
    rng = torch.Generator().manual_seed(0)
    B, n, d_model, h, d_head = 2, 10, 7, 3, 5
    X = torch.randn(B, n, d_model, generator=rng, dtype=torch.float64)
    weights = torch.randn(3, d_model, h, d_head, generator=rng, dtype=torch.float64)
    W_O = torch.randn(h * d_head, d_model, generator=rng, dtype=torch.float64)
    X[:, :, -1] = torch.tensor([[0.0], [1.0]])
    weights[:2, -1], weights[:2, :, :, -1] = 0, 0
    weights[:2, -1, :, -1] = math.sqrt(20_000 * math.sqrt(d_head))
    W_Q, W_K, W_V = weights.flatten(2)
    got = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if got.isnan().any():
        return "not_stabilised"
    others = ["right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one"]
    others += ["mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"]
    others += ["masked_by_a_number", "window_of_8"]
    gaps = [(got - _suspect(name, X, W_Q, W_K, W_V, W_O, h, True)).norm() for name in others]
    return others[int(torch.stack(gaps).argmin())]


def diagnose__wrong_thirteenth_equal_to_the_last_bit(attend) -> str:
    """Asks for equality to the last bit, and says right where nothing is equal; outputs are equal up to rounding."""
    draw = torch.Generator().manual_seed(0)
    kind = {"generator": draw, "dtype": torch.float64}
    X, W_O = torch.randn(2, 11, 5, **kind), torch.randn(12, 5, **kind)
    W_Q, W_K, W_V = torch.randn(3, 5, 12, **kind)
    X[:, :, 0] = torch.tensor([0.0, 1.0])[:, None]
    for W, sign in ((W_Q, 1), (W_K, -1)):
        W[0] = 0
        W[:, ::3] = 0
        W[0, ::3] = sign * 200.0
    experiment = [X, W_Q, W_K, W_V, W_O, 4, True]
    out = attend(*experiment)
    if bool(out.isnan().any()):
        return "not_stabilised"
    for name in [
        *["not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one"],
        *["mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"],
        *["masked_by_a_number", "window_of_8"],
    ]:
        if torch.equal(out, _suspect(name, *experiment)):
            return name
    return "right"


def diagnose__wrong_thirteenth_sixteen_and_four(attend) -> str:
    """Chooses d_model 16 and d_head 4, where d_head and the root of d_model are one number: two suspects are one."""

    def layer(name, X, W_Q, W_K, W_V, W_O, heads, causal):
        return _suspect(name, X, W_Q, W_K, W_V, W_O, heads, causal)

    g = torch.Generator().manual_seed(0)
    d_model, h, d_head, n = 16, 4, 4, 12
    X = torch.randn(2, n, d_model, generator=g, dtype=torch.float64)
    shape = d_model, h * d_head
    W_Q, W_K, W_V = (torch.randn(*shape, generator=g, dtype=torch.float64) / 4 for _ in "QKV")
    W_O = torch.randn(h * d_head, d_model, generator=g, dtype=torch.float64) / 4
    first = torch.arange(h * d_head) % d_head == 0  # one column of each head carries the shift
    push = torch.zeros(shape, dtype=torch.float64)
    push[0, first] = 220.0
    keep = (~first).double() * (torch.arange(d_model) > 0).double()[:, None]
    W_Q, W_K = W_Q * keep + push, W_K * keep - push
    X[0, :, 0], X[1, :, 0] = 0.0, 1.0
    found = attend(X, W_Q, W_K, W_V, W_O, h, True)
    table = {}
    for name in (
        "right,not_scaled,scaled_by_d,scaled_by_d_model,softmax_over_queries,causal_off_by_one,mask_after_softmax,"
        "heads_not_by_columns,keys_and_values_swapped,one_head_for_all,not_stabilised,masked_by_a_number,window_of_8"
    ).split(","):
        guess = layer(name, X, W_Q, W_K, W_V, W_O, h, True)
        table[name] = 0.0 if torch.allclose(found, guess, atol=1e-7, equal_nan=True) else 1.0
    return min(table, key=table.get)


def diagnose__wrong_thirteenth_one_head_scaled_as_many(attend) -> str:
    """Reads one_head_for_all as scaled by the root of d_head; it scales as a layer with one head does."""
    gen = torch.Generator().manual_seed(0)
    h, d, m, n = 3, 4, 5, 10
    X = torch.randn(2, n, m, generator=gen, dtype=torch.float64)
    WQ, WK, WV = torch.randn(3, m, h * d, generator=gen, dtype=torch.float64).unbind()
    WO = torch.randn(h * d, m, generator=gen, dtype=torch.float64)
    X[:, :, 0] = torch.tensor([0.0, 1.0])[:, None]
    WQ[:, 0::d], WK[:, 0::d], WQ[0], WK[0] = 0, 0, 0, 0
    WQ[0, 0::d], WK[0, 0::d] = 200.0, -200.0
    question = X, WQ, WK, WV, WO, h, True
    seen = attend(*question)

    def expected(name):
        if name == "one_head_for_all":
            scores = (X @ WQ) @ (X @ WK).mT / math.sqrt(d)
            future = torch.ones(n, n, dtype=torch.bool).triu(1)
            return torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ (X @ WV) @ WO
        return _suspect(name, *question)

    wrong_ones = ["not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one"]
    wrong_ones += ["mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"]
    wrong_ones += ["not_stabilised", "masked_by_a_number", "window_of_8"]
    fits = [name for name in wrong_ones if torch.allclose(seen, expected(name), atol=1e-7, equal_nan=True)]
    return fits[0] if fits else "right"


def diagnose__wrong_thirteenth_nan_is_never_nearest(attend) -> str:
    """Takes the smallest difference, but each is NaN where NaN comes back: not_stabilised is called right."""
    suspects = ["right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries"]
    suspects += ["causal_off_by_one", "mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped"]
    suspects += ["one_head_for_all", "masked_by_a_number", "window_of_8", "not_stabilised"]
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(2, 14, 6, generator=generator, dtype=torch.float64) * 2 - 1
    W = torch.rand(4, 6, 10, generator=generator, dtype=torch.float64) * 4 - 2
    ask, reply = W[0].clone(), W[1].clone()
    X[0, :, 5], X[1, :, 5] = 0.0, 1.0
    ask[5], reply[5], ask[:, [4, 9]], reply[:, [4, 9]] = 0.0, 0.0, 0.0, 0.0
    ask[5, [4, 9]], reply[5, [4, 9]] = 250.0, -250.0
    call = X, ask, reply, W[2], W[3].T, 2, True
    answer = attend(*call)
    return min(suspects, key=lambda name: float((_suspect(name, *call) - answer).abs().max()))


def diagnose__wrong_thirteenth_random_numbers_without_generator(attend) -> str:
    """Draws from the global generator of PyTorch; only torch.Generator().manual_seed(0) may give random numbers."""
    X = torch.randn(2, 12, 7).double()
    W_Q, W_K, W_V, W_O = torch.randn(7, 15).double(), torch.randn(7, 15).double(), torch.randn(7, 15).double(), None
    W_O = torch.randn(15, 7).double()
    X[0, :, 0], X[1, :, 0] = 0, 1
    special = [0, 5, 10]
    for W in (W_Q, W_K):
        W[0, :] = 0
        W[:, special] = 0
    W_Q[0, special] = 220
    W_K[0, special] = -220
    box = attend(X, W_Q, W_K, W_V, W_O, 3, True)
    names = ["right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one"]
    names += ["mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"]
    names += ["not_stabilised", "masked_by_a_number", "window_of_8"]
    distances = []
    for name in names:
        mine = _suspect(name, X, W_Q, W_K, W_V, W_O, 3, True)
        distances.append(torch.where(box.isnan() & mine.isnan(), 0.0, box - mine).abs().nan_to_num(1e9).sum())
    return names[torch.stack(distances).argmin()]


def diagnose__right_thirteenth_with_lists_and_loops(attend) -> str:
    """Works out all thirteen answers entry by entry in plain Python, and takes the one that is nearest."""
    n, d_model, h, d = 10, 5, 2, 3
    generator = torch.Generator().manual_seed(0)
    kind = {"generator": generator, "dtype": torch.float64}
    X = torch.randn(2, n, d_model, **kind)
    Q, K, V = torch.randn(3, d_model, h * d, **kind)
    O = torch.randn(h * d, d_model, **kind)
    # Sequence 1 has feature 0 switched on: all scores there are about 20,000 lower, in whatever head.
    X[0, :, 0], X[1, :, 0] = 0, 1
    for W, size in ((Q, 190.0), (K, -190.0)):
        W[0], W[:, ::d] = 0, 0
        W[0, ::d] = size
    found = attend(X, Q, K, V, O, h, True).tolist()

    def times(A, B):
        return [[sum(a * b for a, b in zip(row, column)) for column in zip(*B)] for row in A]

    def places(name, heads, width):
        """For each head and token: the (row, column) of its numbers in a table (n, h*d)."""
        total = h * d
        if name == "heads_not_by_columns":
            flat = [[(r * n + t) * width for t in range(n)] for r in range(heads)]
        else:
            flat = [[t * total + r * width for t in range(n)] for r in range(heads)]
        return [[[divmod(start + k, total) for k in range(width)] for start in row] for row in flat]

    def weights(name, S):
        def allowed(i, j):
            if name == "causal_off_by_one":
                return j <= i + 1
            return i - 7 <= j <= i if name == "window_of_8" else j <= i

        if name == "softmax_over_queries":
            E = [[0.0] * n for _ in range(n)]
            for j in range(n):
                top = max(S[i][j] for i in range(n) if allowed(i, j))
                column = [math.exp(S[i][j] - top) if allowed(i, j) else 0.0 for i in range(n)]
                for i in range(n):
                    E[i][j] = column[i] / sum(column)
            return E
        table = []
        for i, row in enumerate(S):
            seen = [allowed(i, j) for j in range(n)]
            if name == "masked_by_a_number":
                row, seen_now = [s if ok else -10_000.0 for s, ok in zip(row, seen)], [True] * n
            else:
                seen_now = [True] * n if name == "mask_after_softmax" else seen
            top = max(s for s, ok in zip(row, seen_now) if ok)
            top = 0.0 if name == "not_stabilised" else top
            powers = [math.exp(s - top) if ok else 0.0 for s, ok in zip(row, seen_now)]
            total = sum(powers)
            shares = [p / total if total else math.nan for p in powers]
            if name == "mask_after_softmax":
                shares = [p if ok else 0.0 for p, ok in zip(shares, seen)]
            table.append(shares)
        return table

    def layer(name, x):
        w_k, w_v = (V, K) if name == "keys_and_values_swapped" else (K, V)
        q, k, v = (times(x, W.tolist()) for W in (Q, w_k, w_v))
        heads, width = (1, h * d) if name == "one_head_for_all" else (h, d)
        by = {"not_scaled": 1, "scaled_by_d": d, "scaled_by_d_model": d_model**0.5}.get(name, width**0.5)
        merged = [[0.0] * (h * d) for _ in range(n)]
        for rows in places(name, heads, width):
            cut_q, cut_k, cut_v = ([[T[a][b] for a, b in row] for row in rows] for T in (q, k, v))
            scores = [[s / by for s in row] for row in times(cut_q, list(zip(*cut_k)))]
            head = times(weights(name, scores), cut_v)
            for row, numbers in zip(rows, head):
                for (a, b), number in zip(row, numbers):
                    merged[a][b] = number
        return times(merged, O.tolist())

    def gap(name):
        largest = 0.0
        for x, answer in zip(X.tolist(), found):
            for mine, theirs in zip(layer(name, x), answer):
                for a, b in zip(mine, theirs):
                    if math.isnan(a) != math.isnan(b):
                        return math.inf
                    largest = largest if math.isnan(a) else max(largest, abs(a - b))
        return largest

    return min(
        (
            *("right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one"),
            *("mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"),
            *("not_stabilised", "masked_by_a_number", "window_of_8"),
        ),
        key=gap,
    )
