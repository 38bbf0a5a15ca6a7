import math

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def _bmm_attention(Q, K, V, mask=None):
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) * mask
    return torch.bmm(weights, V)


def _answers(X, W_Q, W_K, W_V, W_O, n_heads, causal):
    """What each of the thirteen suspects returns, by name."""
    (B, n, d_model), width = X.shape, W_Q.shape[1]
    d_head = width // n_heads
    i, j = torch.arange(n)[:, None], torch.arange(n)

    def sees(back=n, ahead=0):
        return (j <= i + ahead) & (j >= i - back) if causal else torch.ones(n, n, dtype=torch.bool)

    def layer(heads=n_heads, by=None, seen=None, rule="right", alone=False, swapped=False):
        d = width // heads
        seen = sees() if seen is None else seen
        Q, K, V = (X @ W for W in ((W_Q, W_V, W_K) if swapped else (W_Q, W_K, W_V)))
        if alone:
            Q, K, V = (T.reshape(B, heads, n, d) for T in (Q, K, V))
        else:
            Q, K, V = (T.unflatten(-1, (heads, d)).transpose(1, 2) for T in (Q, K, V))
        scores = Q @ K.mT / (by or math.sqrt(d))
        if rule == "queries":
            weights = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-2)
        elif rule == "after":
            weights = torch.softmax(scores, dim=-1) * seen
        elif rule == "raw":
            weights = scores.exp().masked_fill(~seen, 0)
            weights = weights / weights.sum(dim=-1, keepdim=True)
        else:
            weights = torch.softmax(scores.masked_fill(~seen, -1e4 if rule == "number" else -math.inf), dim=-1)
        found = weights @ V
        return (found.reshape(B, n, width) if alone else found.transpose(1, 2).flatten(2)) @ W_O

    return {
        "right": layer(),
        "not_scaled": layer(by=1),
        "scaled_by_d": layer(by=d_head),
        "scaled_by_d_model": layer(by=math.sqrt(d_model)),
        "softmax_over_queries": layer(rule="queries"),
        "causal_off_by_one": layer(seen=sees(ahead=1)),
        "mask_after_softmax": layer(rule="after"),
        "heads_not_by_columns": layer(alone=True),
        "keys_and_values_swapped": layer(swapped=True),
        "one_head_for_all": layer(heads=1),
        "not_stabilised": layer(rule="raw"),
        "masked_by_a_number": layer(rule="number"),
        "window_of_8": layer(seen=sees(back=7)),
    }


# ---------------------------------------------------------------- split_heads


def split_heads__wrong_fifteenth_every_hth_column(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Deals the columns out to the heads in turn; due are contiguous blocks."""
    width = X.shape[-1]
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return torch.stack([X[..., r::n_heads] for r in range(n_heads)], dim=1)


def split_heads__wrong_fifteenth_chunks_stacked_on_the_batch(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Stacks the chunks below the batch and reshapes; due is an axis of heads inside of each sequence."""
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    pieces = torch.cat(X.chunk(n_heads, dim=-1), dim=0)  # (h*B, n, d_head)
    return pieces.reshape(B, n_heads, n, width // n_heads)


def split_heads__wrong_fifteenth_transposes_before_the_cut(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Swaps tokens and columns first and then deals the numbers out; due is to cut the columns, then swap."""
    B, n, width = X.shape
    d_head, rest = divmod(width, n_heads)
    if rest:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.transpose(1, 2).reshape(B, n_heads, n, d_head)


def split_heads__wrong_fifteenth_blocks_one_column_apart(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Head r begins at column r; due is column r*d_head."""
    width = X.shape[2]
    if width % n_heads:
        raise ValueError(f"n_heads = {n_heads} does not divide the width {width}")
    d_head = width // n_heads
    heads = []
    for r in range(n_heads):
        heads.append(X[:, :, r : r + d_head])
    return torch.stack(heads, dim=1)


def split_heads__wrong_fifteenth_swaps_the_batch_with_the_heads(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Swaps the batch with the heads and reshapes back; due is to swap tokens and heads, axes 1 and 2."""
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    cut = X.reshape(B, n, n_heads, width // n_heads)
    return cut.transpose(0, 2).reshape(B, n_heads, n, width // n_heads)


def split_heads__wrong_fifteenth_n_heads_taken_as_the_width_of_a_head(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Makes heads that are n_heads wide; due are n_heads heads."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    return X.unflatten(-1, (-1, n_heads)).transpose(1, 2)


def split_heads__wrong_fifteenth_message_names_the_quotient(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """The message names the width and its floor quotient; due are the width and n_heads."""
    B, n, width = X.shape
    d_head = width // n_heads
    if d_head * n_heads != width:
        raise ValueError(f"cannot cut {width} columns into blocks of {d_head}")
    return X.reshape(B, n, n_heads, d_head).permute(0, 2, 1, 3)


def split_heads__wrong_fifteenth_filled_into_a_float32_table(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Fills an empty table of the default dtype; due is the dtype of X."""
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    d_head = width // n_heads
    heads = torch.empty(B, n_heads, n, d_head)
    for r in range(n_heads):
        heads[:, r] = X[:, :, r * d_head : (r + 1) * d_head]
    return heads


def split_heads__right_fifteenth_indexed_by_a_table_of_columns(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Picks the columns by a (h, d_head) table of their numbers, and moves that axis in front of the tokens."""
    width = X.size(2)
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    columns = torch.arange(width, device=X.device).view(n_heads, width // n_heads)
    return X[:, :, columns].movedim(2, 1)


# ---------------------------------------------------------------- merge_heads


def merge_heads__wrong_fifteenth_reshape_alone(X: torch.Tensor) -> torch.Tensor:
    """Glues in the order of the axes as they stand; due is to swap heads and tokens first."""
    B, h, n, d_head = X.shape
    return X.reshape(B, n, h * d_head)


def merge_heads__wrong_fifteenth_heads_run_fastest(X: torch.Tensor) -> torch.Tensor:
    """Puts the entries k of all heads side by side; due is all of head 0, then all of head 1."""
    return X.permute(0, 2, 3, 1).flatten(2)


def merge_heads__wrong_fifteenth_swaps_the_axes_of_the_picture(X: torch.Tensor) -> torch.Tensor:
    """Swaps axes 0 and 1, as for one sequence without a batch; due is to swap 1 and 2."""
    B, h, n, d_head = X.shape
    swapped = X.transpose(0, 1).contiguous()
    return swapped.view(B, n, h * d_head)


def merge_heads__wrong_fifteenth_first_sequence_for_all(X: torch.Tensor) -> torch.Tensor:
    """Writes the heads of sequence 0 into every sequence; due are each one's own."""
    B, h, n, d = X.shape
    merged = X.new_zeros(B, n, h * d)
    for r in range(h):
        merged[:, :, r * d : (r + 1) * d] = X[0, r]
    return merged


def merge_heads__wrong_fifteenth_unpacks_n_and_h_the_wrong_way_round(X: torch.Tensor) -> torch.Tensor:
    """Takes axis 1 for the tokens and axis 2 for the heads; due is (B, h, n, d_head)."""
    B, n, h, d_head = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d_head)


def merge_heads__wrong_fifteenth_tokens_of_all_sequences_in_one_axis(X: torch.Tensor) -> torch.Tensor:
    """Returns one row per token of the whole batch, (B*n, h*d_head); due is (B, n, h*d_head)."""
    rows = [torch.cat(list(sequence), dim=-1) for sequence in X]
    return torch.cat(rows, dim=0)


def merge_heads__wrong_fifteenth_squeezes_axes_of_length_one(X: torch.Tensor) -> torch.Tensor:
    """Loses the axes of a single token or sequence on the way; due is (B, n, h*d_head) for all sizes."""
    heads = [head.squeeze() for head in X.split(1, dim=1)]
    return torch.cat(heads, dim=-1)


def merge_heads__wrong_fifteenth_transposes_the_input_in_place(X: torch.Tensor) -> torch.Tensor:
    """Swaps the axes of the very tensor that came in; due is to leave it as it is."""
    X.transpose_(1, 2)
    B, n = X.shape[:2]
    return X.reshape(B, n, -1)


def merge_heads__right_fifteenth_turned_tables_below_one_another(X: torch.Tensor) -> torch.Tensor:
    """Turns each head to (d_head, n), stacks the heads' columns as rows, and turns back."""
    return X.mT.flatten(1, 2).mT


# -------------------------------------------------------------- bmm_attention


def bmm_attention__wrong_fifteenth_softmax_over_the_queries(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """The weights of a key sum to 1 over the queries; due is a softmax over the keys."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[2])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=1)
    if mask is not None:
        weights = weights * mask
    return torch.bmm(weights, V)


def bmm_attention__wrong_fifteenth_scores_times_the_mask(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Forbidden scores become 0 and share in the softmax; due is a weight of 0."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.softmax(scores, dim=-1) @ V
    has_keys = mask.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores * mask, dim=-1) * has_keys
    return weights @ V


def bmm_attention__wrong_fifteenth_mask_added_as_numbers(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Adds 1 to allowed scores and 0 to others; due is to shut the others out."""
    scores = torch.einsum("sid,sjd->sij", Q, K) / math.sqrt(K.shape[-1])
    if mask is not None:
        scores = scores + mask.to(scores.dtype)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask.any(-1, keepdim=True)
    return torch.einsum("sij,sje->sie", weights, V)


def bmm_attention__wrong_fifteenth_power_one_then_halved(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Divides by d_k and by 2, for want of a parenthesis; due is the square root of d_k."""
    d_k = Q.shape[-1]
    scores = torch.bmm(Q, K.mT) / d_k**1 / 2
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.bmm(scores.softmax(dim=-1) * mask, V)


def bmm_attention__wrong_fifteenth_einsum_letter_sums_the_keys_of_all(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """A letter of its own for the keys' first axis adds the keys of all N up; due is one letter for both."""
    scores = torch.einsum("sid,tjd->sij", Q, K) * Q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    weights = weights if mask is None else weights * mask
    return torch.einsum("sij,sjv->siv", weights, V)


def bmm_attention__wrong_fifteenth_true_means_hidden(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Reads True as “hidden”; due is True for “may attend”."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        mask = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    hidden = mask.expand_as(scores)
    weights = torch.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim=-1)
    return torch.bmm(weights.masked_fill(hidden, 0.0), V)


def bmm_attention__wrong_fifteenth_renormalised_after_a_full_softmax(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Strikes out weights and divides by what is left, nothing where a hidden score towers; due is to mask first."""
    weights = torch.softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), dim=-1)
    if mask is not None:
        weights = weights * mask
        total = weights.sum(dim=-1, keepdim=True)
        weights = weights / torch.where(total > 0, total, torch.ones_like(total))
    return torch.bmm(weights, V)


def bmm_attention__wrong_fifteenth_nan_mended_on_the_output(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Replaces the NaN of an empty row in the output, so that gradients hold it; due are gradients without NaN."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    output = torch.bmm(torch.softmax(scores, dim=-1), V)
    return torch.where(output.isnan(), torch.zeros_like(output), output)


def bmm_attention__right_fifteenth_divided_after_the_values(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Exponentials less the row's maximum meet the values first; their sum, 1 where empty, divides at the end."""
    scores = torch.einsum("sid,sjd->sij", Q / math.sqrt(Q.shape[-1]), K)
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    filled = torch.where(seen, scores, torch.finfo(scores.dtype).min)
    e = torch.exp(filled - filled.amax(dim=-1, keepdim=True)) * seen
    total = e.sum(dim=-1, keepdim=True) + (~seen).all(dim=-1, keepdim=True)
    return torch.einsum("sij,sjv->siv", e, V) / total


# ------------------------------------------------------- multi_head_attention


def multi_head_attention__wrong_fifteenth_mask_repeated_head_after_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Stretches the mask in the order (h, B), the tables in the order (B, h); due is one order for both."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(0, 1).flatten(0, 1)
    heads = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    return _merge_heads(heads) @ W_O + b_O


def multi_head_attention__wrong_fifteenth_heads_compete_in_one_softmax(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Normalises over the keys of all heads together; due is a softmax for each head."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])  # (B, h, n, n)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    in_a_row = scores.transpose(1, 2).flatten(2)  # (B, n, h*n)
    weights = torch.softmax(in_a_row, dim=-1).unflatten(2, (n_heads, n)).transpose(1, 2)
    return _merge_heads(weights @ V) @ W_O + b_O


def multi_head_attention__wrong_fifteenth_way_back_in_the_order_h_then_b(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Flattens (B, h) and comes back as (h, B); due is the same order both ways."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).reshape(B * n_heads, n, -1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).reshape(-1, n, n)
    stack = _bmm_attention(Q, K, V, mask)
    heads = stack.reshape(n_heads, B, n, -1).transpose(0, 1)
    return _merge_heads(heads) @ W_O + b_O


def multi_head_attention__wrong_fifteenth_only_the_last_head_is_kept(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Starts the sum anew for each head; due is to add all of them."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    for r in range(n_heads):
        block = slice(r * d_head, (r + 1) * d_head)
        seen = None if mask is None else mask[:, r]
        head = _bmm_attention(X @ W_Q[:, block], X @ W_K[:, block], X @ W_V[:, block], seen)
        total = head @ W_O[block]
    return total + b_O


def multi_head_attention__wrong_fifteenth_scaled_by_the_end_of_the_block(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides the scores of head r by the root of (r + 1)*d_head, where its block ends; due is d_head."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    seen = torch.ones(1, dtype=torch.bool) if mask is None else mask
    seen = seen.expand(B, n_heads, n, n)
    found = []
    for r in range(n_heads):
        lo, hi = r * d_head, (r + 1) * d_head
        scores = Q[..., lo:hi] @ K[..., lo:hi].mT / math.sqrt(hi)
        scores = scores.masked_fill(~seen[:, r], torch.finfo(scores.dtype).min)
        found.append(scores.softmax(-1) @ V[..., lo:hi])
    return torch.cat(found, dim=-1) @ W_O + b_O


def multi_head_attention__wrong_fifteenth_returns_the_mean_weights_too(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the output and the mean weights, as nn.MultiheadAttention does; due is the output alone."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    output = _merge_heads(weights @ V) @ W_O + b_O
    return output, weights.mean(dim=1)


def multi_head_attention__wrong_fifteenth_one_maximum_for_the_whole_batch(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes off the largest score of all, so that rows with far lower ones vanish to NaN; due is each row's own."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    e = torch.exp(scores - scores.max())
    if mask is not None:
        e = e * mask
    weights = e / e.sum(dim=-1, keepdim=True)
    return _merge_heads(weights @ V) @ W_O + b_O


def multi_head_attention__wrong_fifteenth_turns_the_given_mask_round(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Inverts the caller's mask in place; due is to leave it as it is."""
    d_head = W_Q.shape[1] // n_heads
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(d_head)
    if mask is not None:
        forbidden = mask.logical_not_()
        scores = scores.masked_fill(forbidden, -math.inf)
    out = torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), V).flatten(2)
    return out @ W_O + b_O


def multi_head_attention__right_fifteenth_never_cut_but_marked_by_owner(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Leaves all columns in one axis; a 0/1 table of which head owns which column takes the place of the cut."""
    width = W_Q.shape[1]
    d_head = width // n_heads
    owns = torch.eye(n_heads, dtype=X.dtype, device=X.device).repeat_interleave(d_head, dim=1)  # (h, h*d_head)
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    own_queries = Q[:, None] * owns[:, None]  # (B, h, n, h*d_head)
    scores = own_queries @ K[:, None].mT / math.sqrt(d_head)
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    mixed = scores.softmax(dim=-1) @ V[:, None]  # every head mixes all columns
    return torch.einsum("brnc,rc->bnc", mixed, owns) @ W_O + b_O


# --------------------------------------------------------- head_contributions


def head_contributions__wrong_fifteenth_rows_dealt_out_in_turn(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gives head r the rows r, r + h, … of W_O; due is its block of neighbouring rows."""
    B, n, d_model = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    rows = W_O.unflatten(0, (-1, n_heads)).transpose(0, 1)
    return heads @ rows


def head_contributions__wrong_fifteenth_first_block_for_every_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sends every head through the first d_head rows of W_O; due is each head's own block."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    d_head = Q.shape[-1]
    scores = Q @ K.mT / math.sqrt(d_head)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1) @ V @ W_O[:d_head]


def head_contributions__wrong_fifteenth_values_of_the_token_itself(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sends each token's own value through W_O, without attention; due is the mixture by the weights."""
    d_head = W_V.shape[1] // n_heads
    parts = []
    for r in range(n_heads):
        own = slice(r * d_head, (r + 1) * d_head)
        parts.append(X @ (W_V[:, own] @ W_O[own]))
    return torch.stack(parts, dim=1)


def head_contributions__wrong_fifteenth_einsum_adds_all_blocks(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Another letter for the blocks of W_O sums them for each head; due is the head's letter."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("brik,brjk->brij", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    heads = torch.einsum("brij,brjk->brik", torch.softmax(scores, -1), V)
    blocks = W_O.unflatten(0, (n_heads, -1))
    return torch.einsum("brik,skf->brif", heads, blocks)


def head_contributions__wrong_fifteenth_same_running_total_appended(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Appends one and the same total, which grows, so that each head shows the whole; due is its own share."""
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    seen = None if mask is None else mask.expand(B, n_heads, n, n)
    written, shares = X.new_zeros(B, n, W_O.shape[1]), []
    for r in range(n_heads):
        q, k, v = (X @ W[:, r * d : (r + 1) * d] for W in (W_Q, W_K, W_V))
        head = _bmm_attention(q, k, v, None if seen is None else seen[:, r])
        written += head @ W_O[r * d : (r + 1) * d]
        shares.append(written)
    return torch.stack(shares, dim=1)


def head_contributions__wrong_fifteenth_tokens_before_heads(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns (B, n, h, d_model), the shares of each token; due is (B, h, n, d_model)."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    return torch.einsum("brnk,rkf->bnrf", heads, W_O.unflatten(0, (n_heads, -1)))


def head_contributions__wrong_fifteenth_three_axes_taken_for_the_batch(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Puts an axis of heads into a mask of three axes, as if it were (B, n, n); due is (h, n, n), by broadcasting."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        if mask.dim() == 3:
            mask = mask.unsqueeze(1)
        scores = scores.masked_fill(~mask, -math.inf)
    heads = torch.softmax(scores, dim=-1) @ V
    return heads @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__wrong_fifteenth_looked_at_without_gradients(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes all under no_grad, as one does to look into a model; due are gradients that flow."""
    B, n, _ = X.shape
    with torch.no_grad():
        Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
        if mask is not None:
            mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
        heads = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
        return heads @ W_O.unflatten(0, (n_heads, -1))


def head_contributions__right_fifteenth_whole_less_the_layer_without_it(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Strikes a head's columns out of the concatenation, and takes what the layer loses."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    beside = _merge_heads(_bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads)))
    owner = torch.arange(len(W_O), device=X.device) // (len(W_O) // n_heads)
    whole = beside @ W_O
    return torch.stack([whole - (beside * (owner != r)) @ W_O for r in range(n_heads)], dim=1)


# --------------------------------------------------------- from_torch_weights


def from_torch_weights__wrong_fifteenth_every_third_row(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes the rows 0, 3, 6, … for the queries and so on; due are three blocks of rows."""
    W_Q, W_K, W_V = (in_proj_weight[part::3].T for part in range(3))
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_fifteenth_output_projection_left_as_stored(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Transposes the three and hands out_proj on as it is; due is to transpose it too."""
    W_Q, W_K, W_V = in_proj_weight.T.chunk(3, dim=1)
    return W_Q, W_K, W_V, out_proj_weight


def from_torch_weights__wrong_fifteenth_reshaped_to_lie_side_by_side(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reshapes to (d_model, 3*d_model) where a transpose is due."""
    d_model = out_proj_weight.shape[0]
    side_by_side = in_proj_weight.reshape(d_model, 3 * d_model)
    W_Q, W_K, W_V = side_by_side.split(d_model, dim=1)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_fifteenth_middle_block_twice(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cuts the rows d to 2d for keys and values; due are the last d rows for the values."""
    d = out_proj_weight.shape[0]
    W_Q = in_proj_weight[:d].T
    W_K = in_proj_weight[d : 2 * d].T
    W_V = in_proj_weight[d:-d].T
    W_O = out_proj_weight.T
    return W_Q, W_K, W_V, W_O


def from_torch_weights__wrong_fifteenth_turned_and_turned_back(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Transposes the tall matrix, and each of its blocks once more; due is one transpose."""
    blocks = in_proj_weight.T.chunk(3, dim=-1)
    return tuple(block.T for block in blocks) + (out_proj_weight.T,)


def from_torch_weights__wrong_fifteenth_one_stacked_tensor(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns one tensor (4, d_model, d_model); due is a tuple of four."""
    d_model = out_proj_weight.shape[0]
    tall = torch.cat([in_proj_weight, out_proj_weight])
    return tall.unflatten(0, (4, d_model)).transpose(1, 2)


def from_torch_weights__wrong_fifteenth_strides_of_a_tensor_in_order(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Walks through memory as if it lay in the order of the axes; due is any order in memory."""
    d = out_proj_weight.shape[0]
    start = in_proj_weight.storage_offset()
    W_Q, W_K, W_V = (in_proj_weight.as_strided((d, d), (1, d), start + part * d * d) for part in range(3))
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_fifteenth_copies_that_train_alone(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns fresh leaves with gradients of their own; due are gradients to the two that came in."""
    blocks = [*in_proj_weight.data.chunk(3), out_proj_weight.data]
    return tuple(block.t().clone().requires_grad_() for block in blocks)


def from_torch_weights__right_fifteenth_what_linear_makes_of_the_identity(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sends the unit vectors through F.linear: what comes out is the matrix for x @ W."""
    units = torch.eye(out_proj_weight.shape[0], dtype=out_proj_weight.dtype, device=out_proj_weight.device)
    blocks = in_proj_weight.tensor_split(3, dim=0)
    W_Q, W_K, W_V = (F.linear(units, block) for block in blocks)
    return W_Q, W_K, W_V, F.linear(units, out_proj_weight)


# ------------------------------------------------------------------- diagnose


def diagnose__wrong_fifteenth_sixteen_features_and_heads_of_four(attend) -> str:
    """Takes d_model = 16 and d_head = 4, where two divisors are one; due are sizes that keep them apart."""
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    X, W_Q, W_K, W_V, W_O = draw(2, 12, 16), *(draw(16, 16) / 4 for _ in range(4))
    X[:, :, 0] = torch.tensor([0.3, 150], dtype=torch.float64)[:, None]
    W_Q[0], W_K[0] = 1, -1
    call = X, W_Q, W_K, W_V, W_O, 4, True
    found = attend(*call).nan_to_num(nan=1e6)
    gaps = {name: (found - guess.nan_to_num(nan=1e6)).abs().max() for name, guess in _answers(*call).items()}
    return min(gaps, key=gaps.get)


def diagnose__wrong_fifteenth_asks_without_the_causal_mask(attend) -> str:
    """Lets every query see all keys, where four bugs of the mask sleep; due is causal=True."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    X, W_Q, W_K, W_V, W_O = draw(3, 14, 7), draw(7, 15), draw(7, 15), draw(7, 15), draw(15, 7)
    X[2] *= 60  # scores far beyond what an exponential takes
    call = (X, W_Q, W_K, W_V, W_O, 3, False)
    found = attend(*call)
    for name, guess in _answers(*call).items():
        if torch.allclose(found, guess, rtol=1e-6, atol=1e-6, equal_nan=True):
            return name
    return "not_stabilised" if found.isnan().any() else "right"


def diagnose__wrong_fifteenth_ordinary_numbers_and_a_short_text(attend) -> str:
    """Asks with scores of order 1 and six tokens, where three bugs sleep; due are large scores and a long text too."""
    g = torch.Generator().manual_seed(0)
    kind = {"generator": g, "dtype": torch.float64}
    X = torch.randn(2, 6, 7, **kind)
    W_Q, W_K, W_V = torch.randn(3, 7, 12, **kind) / math.sqrt(7)
    W_O = torch.randn(12, 7, **kind) / math.sqrt(12)
    out = attend(X, W_Q, W_K, W_V, W_O, 3, True)
    suspects = _answers(X, W_Q, W_K, W_V, W_O, 3, True)
    fits = [name for name in suspects if torch.allclose(out, suspects[name], atol=1e-9)]
    return fits[0] if fits else "not_stabilised"


def diagnose__wrong_fifteenth_nan_is_never_nearer(attend) -> str:
    """Keeps the nearest guess by “<”, which no NaN ever is, and so calls NaN right; due is a look at NaN."""
    generator = torch.Generator().manual_seed(0)
    sizes = (2, 13, 7), (7, 15), (7, 15), (7, 15), (15, 7)
    X, *W = (torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes)
    X[0, :, 0], X[1, :, 0] = 0.5, 140
    W[0][0], W[1][0] = 1, -1
    found = attend(X, *W, 3, True)
    best, nearest = "right", math.inf
    for name, guess in _answers(X, *W, 3, True).items():
        gap = float((found - guess).abs().max())
        if gap < nearest:
            best, nearest = name, gap
    return best


def diagnose__wrong_fifteenth_eight_tokens_for_a_window_of_eight(attend) -> str:
    """Sends eight tokens, all of which a window of eight holds; due are nine or more."""
    generator = torch.Generator().manual_seed(0)
    n, d_model, h, d_head = 8, 6, 3, 5

    def some(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    X = some(2, n, d_model)
    W_Q, W_K, W_V, W_O = (
        some(d_model, h * d_head),
        some(d_model, h * d_head),
        some(d_model, h * d_head),
        some(h * d_head, d_model),
    )
    W_Q[-1], W_K[-1] = -1, 1
    X[0, :, -1], X[1, :, -1] = 0, 200
    found = torch.nan_to_num(attend(X, W_Q, W_K, W_V, W_O, h, True), nan=-1e5)
    guesses = _answers(X, W_Q, W_K, W_V, W_O, h, True)
    return min(guesses, key=lambda name: (found - torch.nan_to_num(guesses[name], nan=-1e5)).norm())


def diagnose__wrong_fifteenth_returns_the_gap_beside_the_name(attend) -> str:
    """Returns a tuple of the name and how far off it was; due is the name alone."""
    g = torch.Generator().manual_seed(0)
    X, *W = [torch.randn(s, generator=g, dtype=torch.float64) for s in ((2, 11, 5), (5, 9), (5, 9), (5, 9), (9, 5))]
    X[:, :, 0] = torch.tensor([[0.0], [150.0]])
    W[0][0] = 1
    W[1][0] = -1
    found = attend(X, *W, 3, True).nan_to_num(nan=1e6)
    table = sorted(
        (float((found - guess.nan_to_num(nan=1e6)).norm()), name) for name, guess in _answers(X, *W, 3, True).items()
    )
    return table[0][1], table[0][0]


def diagnose__wrong_fifteenth_right_only_to_the_last_bit(attend) -> str:
    """Acquits a layer only if all bits agree, and else accuses the nearest other; due is equality up to rounding."""
    generator = torch.Generator().manual_seed(0)
    X, *W = (
        torch.randn(size, generator=generator, dtype=torch.float64)
        for size in ((2, 12, 7), (7, 15), (7, 15), (7, 15), (15, 7))
    )
    X[0, :, 0], X[1, :, 0] = 0.4, 150
    W[0][0], W[1][0] = 1, -1
    found, guesses = attend(X, *W, 3, True), _answers(X, *W, 3, True)
    if torch.equal(found, guesses.pop("right")):
        return "right"

    def gap(name):
        return (found.nan_to_num(nan=1e6) - guesses[name].nan_to_num(nan=1e6)).abs().mean()

    return min(guesses, key=gap)


def diagnose__wrong_fifteenth_draws_from_the_global_generator(attend) -> str:
    """Sets the seed of all PyTorch and draws from it; due is a generator of its own."""
    torch.manual_seed(0)
    X = torch.randn(2, 12, 7, dtype=torch.float64)
    W_Q, W_K, W_V = torch.randn(3, 7, 15, dtype=torch.float64)
    W_O = torch.randn(15, 7, dtype=torch.float64)
    X[0, :, 0], X[1, :, 0] = 0.4, 150
    W_Q[0], W_K[0] = 1, -1
    call = X, W_Q, W_K, W_V, W_O, 3, True
    found = attend(*call).nan_to_num(nan=1e6)
    gaps = {name: (found - guess.nan_to_num(nan=1e6)).abs().max() for name, guess in _answers(*call).items()}
    return min(gaps, key=gaps.get)


def diagnose__right_fifteenth_simulated_with_plain_python_numbers(attend) -> str:
    """Works every suspect out in plain Python, pair by pair: an ordinary sequence, and one with scores of −40,000."""
    n, h, d, d_model = 10, 2, 3, 5
    g = torch.Generator().manual_seed(0)
    sizes = (2, n, d_model), (d_model, h * d), (d_model, h * d), (d_model, h * d), (h * d, d_model)
    X, W_Q, W_K, W_V, W_O = (torch.randn(size, generator=g, dtype=torch.float64) for size in sizes)
    X[:, :, 0], W_Q[0], W_K[0] = torch.tensor([[0.5], [150]]).double(), 1.0, -1.0
    found = attend(X, W_Q, W_K, W_V, W_O, h, True)

    def weights(s, rule, back, ahead):
        seen = [[i - back <= j <= i + ahead for j in range(n)] for i in range(n)]
        if rule == "number":
            s = [[x if ok else -1e4 for x, ok in zip(*row)] for row in zip(s, seen)]
        counted = [[True] * n] * n if rule in ("after", "number") else seen
        s, counted = (list(zip(*T)) for T in (s, counted)) if rule == "queries" else (s, counted)
        table = []
        for row, ok in zip(s, counted):
            top = 0 if rule == "raw" else max(x for x, yes in zip(row, ok) if yes)
            e = [math.exp(x - top) if yes else 0.0 for x, yes in zip(row, ok)]
            table.append([x / sum(e) if sum(e) else math.nan for x in e])
        table = [list(row) for row in zip(*table)] if rule == "queries" else table
        return [[x * yes for x, yes in zip(*r)] for r in zip(table, seen)] if rule == "after" else table

    def output(b, by=None, heads=h, rule="", back=n, ahead=0, swap=False, alone=False):
        width, three = h * d // heads, (W_Q, W_V, W_K) if swap else (W_Q, W_K, W_V)
        Q, K, V = (X[b] @ W for W in three)
        cut = [T.reshape(heads, n, -1) if alone else torch.stack(T.chunk(heads, 1)) for T in (Q, K, V)]
        done = []
        for q, k, v in zip(*cut):
            s = [
                [sum(x * y for x, y in zip(*r)) / (by or width**0.5) for r in zip([q_i] * n, k.tolist())]
                for q_i in q.tolist()
            ]
            done.append(torch.tensor(weights(s, rule, back, ahead), dtype=torch.float64) @ v)
        return (torch.stack(done).reshape(n, h * d) if alone else torch.cat(done, dim=1)) @ W_O

    slips = {"right": {}, "not_scaled": {"by": 1}, "scaled_by_d": {"by": d}, "scaled_by_d_model": {"by": d_model**0.5}}
    slips |= {"softmax_over_queries": {"rule": "queries"}, "causal_off_by_one": {"ahead": 1}}
    slips |= {"mask_after_softmax": {"rule": "after"}, "heads_not_by_columns": {"alone": True}}
    slips |= {"keys_and_values_swapped": {"swap": True}, "one_head_for_all": {"heads": 1}}
    slips |= {"not_stabilised": {"rule": "raw"}, "masked_by_a_number": {"rule": "number"}, "window_of_8": {"back": 7}}
    for name, slip in slips.items():
        guess = torch.stack([output(b, **slip) for b in range(2)])
        if torch.allclose(found, guess, rtol=1e-5, atol=1e-6, equal_nan=True):
            return name
    return "right"
