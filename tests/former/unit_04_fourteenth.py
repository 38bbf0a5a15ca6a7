"""Answers to the exercises of unit 4, wrong ones and right ones, as students would write them."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head)."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head)."""
    return X.transpose(1, 2).flatten(2)


def _bmm_attention(Q, K, V, mask=None):
    """N attentions at once."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    lowest = torch.finfo(scores.dtype).min
    return torch.bmm(torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask, V)


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The layer of section 4."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    return _merge_heads(heads) @ W_O + b_O


_NAMES = (
    "right",
    "not_scaled",
    "scaled_by_d",
    "scaled_by_d_model",
    "softmax_over_queries",
    "causal_off_by_one",
    "mask_after_softmax",
    "heads_not_by_columns",
    "keys_and_values_swapped",
    "one_head_for_all",
    "not_stabilised",
    "masked_by_a_number",
    "window_of_8",
)


def _suspect(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    """The layer of this name in the table of section 9."""
    B, n, d_model = X.shape
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    if name == "one_head_for_all":
        n_heads = 1
    if name == "heads_not_by_columns":
        Q, K, V = ((X @ W).reshape(B, n_heads, n, -1) for W in (W_Q, W_K, W_V))
    else:
        Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    d = Q.shape[-1]
    by = {"not_scaled": 1, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}.get(name, math.sqrt(d))
    scores = Q @ K.mT / by
    seen = torch.ones(n, n, dtype=torch.bool)
    if causal:
        seen = seen.tril(1 if name == "causal_off_by_one" else 0)
        if name == "window_of_8":
            seen = seen.triu(-7)
    hidden = scores.masked_fill(~seen, -math.inf)
    if name == "softmax_over_queries":
        weights = torch.softmax(hidden, dim=-2)
    elif name == "mask_after_softmax":
        weights = torch.softmax(scores, dim=-1) * seen
    elif name == "not_stabilised":
        weights = hidden.exp() / hidden.exp().sum(dim=-1, keepdim=True)
    elif name == "masked_by_a_number":
        weights = torch.softmax(scores.masked_fill(~seen, -1e4), dim=-1)
    else:
        weights = torch.softmax(hidden, dim=-1)
    heads = weights @ V
    merged = heads.reshape(B, n, -1) if name == "heads_not_by_columns" else _merge_heads(heads)
    return merged @ W_O


# ------- 4.1 split_heads


def split_heads__wrong_fourteenth_reshape_moves_axes(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Believes that a reshape to (B, h, n, d_head) gathers the heads; a view and then a transpose are due."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.reshape(B, n_heads, n, width // n_heads)


def split_heads__wrong_fourteenth_heads_take_turns(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Deals the columns out in turn, head r gets r, r + h, ...; each head should own a contiguous block."""
    if X.shape[-1] % n_heads:
        raise ValueError("cannot deal %d columns to %d heads" % (X.shape[-1], n_heads))
    return torch.stack([X[..., r::n_heads] for r in range(n_heads)], dim=1)


def split_heads__wrong_fourteenth_pads_the_width(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Thinks that missing columns may be filled with zeros where h does not divide; a ValueError is due there."""
    missing = -X.shape[-1] % n_heads
    if missing:
        X = F.pad(X, (0, missing))
    d_head = X.shape[-1] // n_heads
    return X.unflatten(-1, (n_heads, d_head)).permute(0, 2, 1, 3)


def split_heads__wrong_fourteenth_stacked_in_front(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Stacks the blocks along axis 0, which gives (h, B, n, d_head); the heads belong on axis 1."""
    width = X.size(2)
    if width % n_heads > 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    blocks = torch.chunk(X, n_heads, dim=2)
    return torch.stack(blocks)


def split_heads__wrong_fourteenth_steps_of_n_heads(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Head r begins at column r*n_heads; it should begin at r*d_head."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    d_head = X.shape[-1] // n_heads
    starts = [r * n_heads for r in range(n_heads)]
    columns = torch.tensor([[(s + k) % X.shape[-1] for k in range(d_head)] for s in starts])
    return X[:, :, columns].transpose(1, 2)


def split_heads__wrong_fourteenth_n_heads_is_width(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Reads n_heads as the width of a head, and cuts width / n_heads heads; n_heads is their number."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"n_heads = {n_heads} does not divide {X.shape[-1]}")
    pieces = X.split(n_heads, dim=-1)
    return torch.stack(pieces, dim=1)


def split_heads__wrong_fourteenth_one_head_no_axis(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Hands X back as it is for a single head; the result should be (B, 1, n, d_head) then too."""
    if n_heads == 1:
        return X
    B, n, width = X.shape
    d_head, rest = divmod(width, n_heads)
    if rest:
        raise ValueError(f"width {width} is no multiple of {n_heads} heads")
    return X.view(B, n, n_heads, d_head).transpose(1, 2)


def split_heads__wrong_fourteenth_fills_float32(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Copies head by head into torch.zeros, always float32; the dtype of X should be kept."""
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    d_head = width // n_heads
    result = torch.zeros(B, n_heads, n, d_head)
    for r in range(n_heads):
        first = r * d_head
        result[:, r] = X[:, :, first : first + d_head]
    return result


def split_heads__right_fourteenth_by_column_numbers(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Looks the columns up in a table (h, d_head) of their numbers, and moves the new axis forward."""
    width = X.shape[-1]
    if width % n_heads:
        raise ValueError(f"a width of {width} cannot be shared by {n_heads} heads")
    numbers = torch.arange(width, device=X.device).view(n_heads, -1)
    return torch.movedim(X[..., numbers], -2, 1)


# ------- 4.2 merge_heads


def merge_heads__wrong_fourteenth_reshape_alone(X: torch.Tensor) -> torch.Tensor:
    """Believes that a reshape to (B, n, h*d_head) puts the heads side by side; a transpose has to come first."""
    B, h, n, d_head = X.shape
    return X.reshape(B, n, h * d_head)


def merge_heads__wrong_fourteenth_zips_the_columns(X: torch.Tensor) -> torch.Tensor:
    """Puts column 0 of all heads first, then column 1 of all; all columns of head 0 should come first."""
    zipped = X.permute(0, 2, 3, 1)  # (B, n, d_head, h)
    return zipped.flatten(start_dim=2)


def merge_heads__wrong_fourteenth_heads_are_added(X: torch.Tensor) -> torch.Tensor:
    """Thinks that merging heads means adding them, (B, n, d_head); they should stand side by side."""
    total = 0
    for r in range(X.shape[1]):
        total = total + X[:, r]
    return total


def merge_heads__wrong_fourteenth_last_head_first(X: torch.Tensor) -> torch.Tensor:
    """Puts each next head to the left of the others, so that the last comes first; head 0 should."""
    merged = X[:, 0]
    for r in range(1, X.shape[1]):
        merged = torch.cat([X[:, r], merged], dim=-1)
    return merged


def merge_heads__wrong_fourteenth_counts_the_batch(X: torch.Tensor) -> torch.Tensor:
    """Runs over len(X), the number of sequences, instead of the number of heads, X.shape[1]."""
    heads = [X[:, r % X.shape[1]] for r in range(len(X))]
    return torch.cat(heads, dim=2)


def merge_heads__wrong_fourteenth_tokens_before_heads(X: torch.Tensor) -> torch.Tensor:
    """Reads the input as (B, n, h, d_head) and only glues the last two axes; it is (B, h, n, d_head)."""
    B, n, h, d_head = X.shape
    return X.contiguous().view(B, n, h * d_head)


def merge_heads__wrong_fourteenth_single_sequence_squeezed(X: torch.Tensor) -> torch.Tensor:
    """Squeezes axis 0 at the end, so that a batch of one loses its axis; (1, n, h*d_head) is due."""
    B = X.shape[0]
    merged = torch.stack([torch.hstack(list(X[b])) for b in range(B)])
    return merged.squeeze(0)


def merge_heads__wrong_fourteenth_transposes_in_place(X: torch.Tensor) -> torch.Tensor:
    """Swaps the axes with transpose_, which turns the caller's tensor round as well; the input should stay."""
    X.transpose_(1, 2)
    return X.reshape(X.shape[0], X.shape[1], -1)


def merge_heads__right_fourteenth_by_divmod(X: torch.Tensor) -> torch.Tensor:
    """Works out head and place of every output column by division with remainder, and looks them up."""
    h, d_head = X.shape[1], X.shape[3]
    column = torch.arange(h * d_head, device=X.device)
    head, place = column // d_head, column % d_head
    return X.permute(0, 2, 1, 3)[:, :, head, place]


# ------- 4.3 bmm_attention


def bmm_attention__wrong_fourteenth_forbidden_score_zero(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multiplies the scores by the mask, believing that a score of 0 is no attention; its weight should be 0."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores * mask
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask.any(dim=-1, keepdim=True)
    return torch.bmm(weights, V)


def bmm_attention__wrong_fourteenth_weights_struck_out(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the softmax over all keys and strikes out afterwards; the allowed weights should sum to 1."""
    A = (Q @ K.mT * Q.shape[2] ** -0.5).softmax(-1)
    return (A if mask is None else torch.where(mask, A, torch.zeros_like(A))) @ V


def bmm_attention__wrong_fourteenth_nan_mended_on_output(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Replaces the NaN of empty rows in the output, believing it is gone; the gradients should hold none too."""
    d_k = Q.shape[-1]
    S = torch.bmm(Q, K.mT) / math.sqrt(d_k)
    if mask is not None:
        S = S.masked_fill(mask.logical_not(), float("-inf"))
    output = torch.bmm(torch.softmax(S, dim=2), V)
    return torch.nan_to_num(output, nan=0.0)


def bmm_attention__wrong_fourteenth_softmax_over_queries(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs the softmax over axis 1, the queries; it should run over the keys, the last axis."""
    N, n, d_k = Q.shape
    m = K.shape[1]
    if mask is None:
        mask = torch.ones(n, m, dtype=torch.bool)
    mask = mask.expand(N, n, m)
    scores = torch.einsum("snd,smd->snm", Q, K) / math.sqrt(d_k)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=1)
    weights = weights.masked_fill(~mask, 0.0)
    return torch.einsum("snm,smv->snv", weights, V)


def bmm_attention__wrong_fourteenth_root_of_value_width(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by the square root of the width of V, d_v; the square root of d_k is due."""
    scale = 1 / math.sqrt(V.size(-1))
    scores = torch.baddbmm(Q.new_zeros(1, 1, 1), Q, K.mT, alpha=scale)
    if mask is None:
        return scores.softmax(dim=-1).bmm(V)
    low = scores.masked_fill(~mask, torch.finfo(Q.dtype).min)
    return (low.softmax(dim=-1) * mask).bmm(V)


def bmm_attention__wrong_fourteenth_true_means_hidden(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads True in the mask as hidden, as nn.MultiheadAttention does; here True means may attend."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    hidden = mask if mask is not None else torch.zeros_like(scores, dtype=torch.bool)
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0)
    return torch.bmm(weights, V)


def bmm_attention__wrong_fourteenth_empty_rows_average(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Fills with the lowest number and stops there, so that an empty row averages all values; 0 is due."""
    scores = Q.bmm(K.mT).div(math.sqrt(Q.shape[2]))
    if mask is not None:
        lowest = torch.finfo(scores.dtype).min
        scores = torch.where(mask, scores, torch.full_like(scores, lowest))
    return scores.softmax(2).bmm(V)


def bmm_attention__wrong_fourteenth_scales_q_in_place(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Scales the queries in place to save memory, which changes the caller's Q; inputs should be left alone."""
    if Q.requires_grad:
        Q = Q / math.sqrt(Q.shape[-1])
    else:
        Q /= math.sqrt(Q.shape[-1])
    S = Q @ K.transpose(-2, -1)
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min)
    A = S.softmax(-1)
    if mask is not None:
        A = A * mask
    return A @ V


def bmm_attention__right_fourteenth_exponentials_by_hand(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the largest allowed score off, mixes the values with the exponentials, and divides at the end."""
    N, n, d_k = Q.shape
    if mask is None:
        mask = torch.ones(1, 1, 1, dtype=torch.bool, device=Q.device)
    mask = mask.expand(N, n, K.shape[1])
    scores = torch.bmm(Q, K.mT) * (1 / math.sqrt(d_k))
    top = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)
    powers = (scores - top).masked_fill(~mask, -math.inf).exp()
    total = powers.sum(dim=-1, keepdim=True)
    return torch.bmm(powers, V) / torch.where(total == 0, torch.ones_like(total), total)


# ------- 4.4 multi_head_attention


def multi_head_attention__wrong_fourteenth_root_of_d_model(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks that the width of the tokens sets the spread of scores, divides by sqrt(d_model); sqrt(d_head) is due."""
    d_model = X.shape[-1]
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_heads)
    V = _split_heads(X @ W_V, n_heads)
    scores = Q @ K.transpose(2, 3) / math.sqrt(d_model)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return _merge_heads(torch.softmax(scores, dim=-1) @ V) @ W_O + b_O


def multi_head_attention__wrong_fourteenth_bias_for_each_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Projects and sums head by head and adds b_O to each of them; it belongs to their sum, once."""
    B, n, d_model = X.shape
    width = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    output = torch.zeros(B, n, d_model, dtype=X.dtype)
    for r in range(n_heads):
        own = slice(r * width, (r + 1) * width)
        found = _bmm_attention(
            X @ W_Q[:, own], X @ W_K[:, own], X @ W_V[:, own], None if mask is None else mask[:, r]
        )
        output = output + found @ W_O[own] + b_O
    return output


def multi_head_attention__wrong_fourteenth_one_table_for_all(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Averages the heads' weights to one table that all heads use; each head should keep weights of its own."""
    q, k, v = [_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V)]
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    agreed = scores.softmax(dim=-1).mean(dim=1)
    return torch.einsum("bij,bhjd->bihd", agreed, v).flatten(2) @ W_O + b_O


def multi_head_attention__wrong_fourteenth_mask_heads_first(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Flattens the mask as (h, B, n, n), the rest as (B, h, ...); mask and attentions should have one order."""
    B, n, _ = X.shape
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))  # (N, n, d_head)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(0, 1).reshape(-1, n, n)
    heads = _bmm_attention(Q, K, V, mask)  # (N, n, d_head)
    heads = heads.unflatten(0, (B, n_heads))  # (B, h, n, d_head)
    return _merge_heads(heads) @ W_O + b_O


def multi_head_attention__wrong_fourteenth_merge_without_swap(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Splits the heads properly but forgets to swap heads and tokens back before they are glued."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads

    def heads_of(W):
        return (X @ W).reshape(B, n, n_heads, d_head).permute(0, 2, 1, 3).reshape(B * n_heads, n, d_head)

    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).reshape(B * n_heads, n, n)
    result = _bmm_attention(heads_of(W_Q), heads_of(W_K), heads_of(W_V), mask)
    result = result.reshape(B, n, n_heads * d_head)
    return torch.addmm(b_O, result.flatten(0, 1), W_O).unflatten(0, (B, n))


def multi_head_attention__wrong_fourteenth_d_model_over_heads(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes d_model // n_heads for the width of a head; it is W_Q.shape[1] // n_heads, and these may differ."""
    B, n, d_model = X.shape
    d = max(d_model // n_heads, 1)
    allowed = torch.ones(B, n_heads, n, n, dtype=torch.bool) if mask is None else mask.expand(B, n_heads, n, n)
    parts = []
    for r in range(n_heads):
        q = X @ W_Q[:, r * d : r * d + d]
        k = X @ W_K[:, r * d : r * d + d]
        v = X @ W_V[:, r * d : r * d + d]
        scores = (q @ k.mT / math.sqrt(d)).masked_fill(~allowed[:, r], -math.inf)
        parts.append(torch.softmax(scores, dim=-1) @ v)
    together = torch.cat(parts, dim=-1)
    return together @ W_O[: together.shape[-1]] + b_O


def multi_head_attention__wrong_fourteenth_mask_of_first_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Uses the mask of head 0 for every head; right for shared masks, but (B, h, n, n) gives each its own."""
    B, n = X.shape[:2]
    stacks = []
    for W in (W_Q, W_K, W_V):
        stacks.append(_split_heads(X @ W, n_heads).reshape(B * n_heads, n, -1))
    if mask is not None:
        per_sequence = mask.expand(B, n_heads, n, n)[:, 0]
        mask = per_sequence.repeat_interleave(n_heads, dim=0)
    out = _bmm_attention(*stacks, mask)
    return _merge_heads(out.view(B, n_heads, n, -1)) @ W_O + b_O


def multi_head_attention__wrong_fourteenth_ready_made_attention(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Has F.scaled_dot_product_attention do the work, which is not allowed; the attention is to be written."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
    return _merge_heads(heads) @ W_O + b_O


def multi_head_attention__right_fourteenth_stacked_weights_einsum(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Cuts the weights instead of Q, K and V, and sums the projected heads; nothing is ever merged."""
    wq, wk, wv = (W.unflatten(1, (n_heads, -1)) for W in (W_Q, W_K, W_V))  # (d_model, h, d_head)
    q, k, v = (torch.einsum("bnm,mhd->bnhd", X, w) for w in (wq, wk, wv))
    scores = torch.einsum("bihd,bjhd->bhij", q / math.sqrt(wq.shape[2]), k)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhij,bjhd,hdm->bim", weights, v, W_O.unflatten(0, (n_heads, -1))) + b_O


# ------- 4.5 head_contributions


def head_contributions__wrong_fourteenth_running_sum(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks of heads as one after another and returns what the first r + 1 write together; each alone is due."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    heads = scores.softmax(dim=-1) @ V
    written = heads @ W_O.unflatten(0, (n_heads, -1))
    return written.cumsum(dim=1)


def head_contributions__wrong_fourteenth_equal_shares(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Believes that W_O mixes the heads beyond recovery and gives each 1/h of the whole; own rows are due."""
    nothing = torch.zeros(W_O.shape[1], dtype=X.dtype)
    whole = _multi_head_attention(X, W_Q, W_K, W_V, W_O, nothing, n_heads, mask)
    return torch.stack([whole / n_heads] * n_heads, dim=1)


def head_contributions__wrong_fourteenth_loss_without_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns what all the other heads write once head r is struck out; what head r itself writes is due."""
    d_head = W_O.shape[0] // n_heads
    no_bias = X.new_zeros(W_O.shape[1])
    left = []
    for r in range(n_heads):
        kept = torch.ones(W_O.shape[0], 1, dtype=X.dtype)
        kept[r * d_head : (r + 1) * d_head] = 0
        left.append(_multi_head_attention(X, W_Q, W_K, W_V, W_O * kept, no_bias, n_heads, mask))
    return torch.stack(left, dim=1)


def head_contributions__wrong_fourteenth_rows_start_at_r(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the rows r ... r + d_head - 1 of W_O; they should begin at r*d_head."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    result = []
    for r in range(n_heads):
        a, b = r * d_head, (r + 1) * d_head
        own_mask = None if mask is None else mask.expand(B, n_heads, n, n)[:, r]
        head = _bmm_attention(X @ W_Q[:, a:b], X @ W_K[:, a:b], X @ W_V[:, a:b], own_mask)
        result.append(head @ W_O[r : r + d_head])
    return torch.stack(result, dim=1)


def head_contributions__wrong_fourteenth_scale_forgotten(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Works out the scale but never applies it to the scores; they should be divided by sqrt(d_head)."""
    q, k, v = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scale = math.sqrt(q.shape[-1])  # noqa: F841
    s = torch.einsum("bhik,bhjk->bhij", q, k)
    if mask is not None:
        s = torch.where(mask, s, torch.full_like(s, -math.inf))
    a = torch.softmax(s, dim=-1)
    blocks = torch.stack(W_O.chunk(n_heads, dim=0))
    return torch.einsum("bhij,bhjk,hkf->bhif", a, v, blocks)


def head_contributions__wrong_fourteenth_rows_in_turn(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gives head r the rows r, r + h, ... of W_O; the docstring says r*d_head ... (r+1)*d_head - 1."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    flat = [_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V)]
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = _bmm_attention(*flat, mask).unflatten(0, (B, n_heads))
    rows = W_O.reshape(d_head, n_heads, -1).transpose(0, 1)
    return heads @ rows


def head_contributions__wrong_fourteenth_overflow_of_large_scores(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes exp of the scores as they are, right for ordinary ones; scores of 1e4 should do no harm, and give NaN."""
    queries, keys, values = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    powers = torch.exp(queries @ keys.mT / math.sqrt(queries.shape[-1]))
    if mask is not None:
        powers = powers * mask
    weights = powers / powers.sum(dim=-1, keepdim=True)
    return weights @ values @ W_O.unflatten(0, (n_heads, -1))


def head_contributions__wrong_fourteenth_no_gradient(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Treats the function as a mere look inside and works under no_grad; gradients should flow."""
    B, n, d_model = X.shape
    d_head = W_Q.shape[1] // n_heads
    shares = X.new_empty(B, n_heads, n, d_model)
    with torch.no_grad():
        for b in range(B):
            Q, K, V = (
                (X[b] @ W).view(n, n_heads, d_head).transpose(0, 1) for W in (W_Q, W_K, W_V)
            )
            own = None if mask is None else mask.expand(B, n_heads, n, n)[b]
            heads = _bmm_attention(Q, K, V, own)
            for r in range(n_heads):
                shares[b, r] = heads[r] @ W_O[r * d_head : (r + 1) * d_head]
    return shares


def head_contributions__right_fourteenth_layer_with_rows_zeroed(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs the whole layer once per head, with all rows of W_O but that head's set to 0 and no bias."""
    owner = torch.arange(W_O.shape[0]) // (W_O.shape[0] // n_heads)
    silent = W_O.new_zeros(W_O.shape[1])
    alone = []
    for r in range(n_heads):
        only_r = W_O.masked_fill((owner != r).unsqueeze(1), 0.0)
        alone.append(_multi_head_attention(X, W_Q, W_K, W_V, only_r, silent, n_heads, mask))
    return torch.stack(alone, dim=1)


# ------- 4.6 from_torch_weights


def from_torch_weights__wrong_fourteenth_nothing_transposed(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cuts the blocks and thinks they can be used as they are, for they are square; each is to be transposed."""
    W_Q, W_K, W_V = in_proj_weight.chunk(3, dim=0)
    return W_Q, W_K, W_V, out_proj_weight


def from_torch_weights__wrong_fourteenth_every_third_row(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Believes that rows of queries, keys and values alternate; they lie in three blocks one below the other."""
    parts = [in_proj_weight[kind::3].T for kind in range(3)]
    return (*parts, out_proj_weight.T)


def from_torch_weights__wrong_fourteenth_turned_then_reshaped(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Transposes the tall matrix and lets a reshape cut it in three, which scrambles it; cut its columns."""
    d = out_proj_weight.shape[0]
    cube = in_proj_weight.T.reshape(3, d, d)
    return cube[0], cube[1], cube[2], out_proj_weight.T


def from_torch_weights__wrong_fourteenth_values_before_keys(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Names the blocks Q, V, K on unpacking, so that keys and values change places; the order is Q, K, V."""
    W_Q, W_V, W_K = in_proj_weight.mT.tensor_split(3, dim=1)
    W_O = out_proj_weight.mT
    return W_Q, W_K, W_V, W_O


def from_torch_weights__wrong_fourteenth_out_proj_as_stored(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Forgets to transpose the output projection, which is stored as nn.Linear does like the others."""
    d_model = in_proj_weight.size(1)
    q = in_proj_weight[:d_model]
    k = in_proj_weight[d_model : 2 * d_model]
    v = in_proj_weight[2 * d_model :]
    return q.t(), k.t(), v.t(), out_proj_weight


def from_torch_weights__wrong_fourteenth_list_for_tuple(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reads tuple as any row of four and returns a list; the docstring asks for a tuple."""
    everything = torch.cat([in_proj_weight, out_proj_weight])
    return [block.T for block in everything.chunk(4)]


def from_torch_weights__wrong_fourteenth_squeeze_of_width_one(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Squeezes the axis of the blocks away, and for d_model = 1 all others with it; (1, 1) is due there."""
    blocks = in_proj_weight.unflatten(0, (3, -1)).split(1)
    W_Q, W_K, W_V = (block.squeeze().T if block.numel() > 1 else block.squeeze() for block in blocks)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_fourteenth_new_parameters(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Wraps the four in new nn.Parameters, where gradients stop; they should reach the weights handed in."""
    stacked = in_proj_weight.view(3, -1, in_proj_weight.shape[1]) if in_proj_weight.is_contiguous() else (
        in_proj_weight.reshape(3, -1, in_proj_weight.shape[1])
    )
    ours = [nn.Parameter(block.mT.clone()) for block in (*stacked, out_proj_weight)]
    return tuple(ours)


def from_torch_weights__right_fourteenth_feeds_unit_vectors(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sends the unit vectors through each block as nn.Linear would; what comes out are the rows of our W."""
    unit = torch.eye(out_proj_weight.shape[0], dtype=out_proj_weight.dtype, device=out_proj_weight.device)
    all_three = F.linear(unit, in_proj_weight)  # (d_model, 3*d_model)
    W_Q, W_K, W_V = all_three.split(len(unit), dim=1)
    return W_Q, W_K, W_V, F.linear(unit, out_proj_weight)


# ------- 4.7 diagnose


def diagnose__wrong_fourteenth_ordinary_numbers_only(attend) -> str:
    """Thinks that ordinary scores wake every bug; not_stabilised and masked_by_a_number pass for right."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    question = [draw(2, 12, 7), draw(7, 12) / 2, draw(7, 12) / 2, draw(7, 12), draw(12, 7)]
    answer = attend(*question, 3, True)
    for name in _NAMES:
        if torch.allclose(_suspect(name, *question, 3, True), answer, equal_nan=True):
            return name
    return "right"


def diagnose__wrong_fourteenth_all_scores_huge(attend) -> str:
    """Believes that large numbers show everything; where all weight goes to one key, no divisor can be seen."""
    rng = torch.Generator().manual_seed(0)
    kind = {"generator": rng, "dtype": torch.float64}
    X = torch.randn(2, 12, 7, **kind)
    W_Q, W_K = 3000 * torch.randn(2, 7, 12, **kind)
    W_V, W_O = torch.randn(7, 12, **kind), torch.randn(12, 7, **kind)
    found = attend(X, W_Q, W_K, W_V, W_O, 3, True)
    expected = {name: _suspect(name, X, W_Q, W_K, W_V, W_O, 3, True) for name in _NAMES}
    fitting = [name for name in _NAMES if torch.allclose(expected[name], found, rtol=1e-6, equal_nan=True)]
    return fitting[0] if fitting else "right"


def diagnose__wrong_fourteenth_bit_for_bit(attend) -> str:
    """Takes equal layers to be equal to the last bit; layers that compute in other orders agree up to rounding."""
    gen = torch.Generator().manual_seed(0)
    X = torch.randn(3, 11, 5, generator=gen, dtype=torch.float64)
    X[:, :, :2] = torch.tensor([[0.0, 0], [100, 100], [100, -100]], dtype=torch.float64)[:, None]
    W_Q, W_K, W_V = torch.randn(3, 5, 6, generator=gen, dtype=torch.float64)
    W_Q[0], W_Q[1], W_K[0], W_K[1] = 1, 0, 0, 1
    W_O = torch.randn(6, 5, generator=gen, dtype=torch.float64)
    args = (X, W_Q, W_K, W_V, W_O, 2, True)
    got = attend(*args).nan_to_num(-1.0)
    same = [name for name in _NAMES if torch.equal(_suspect(name, *args).nan_to_num(-1.0), got)]
    return same[0] if same else "not_stabilised"


def diagnose__wrong_fourteenth_sixteen_and_four(attend) -> str:
    """Chooses d_model = 16 and d_head = 4, where d_head is sqrt(d_model); two of the divisors coincide there."""
    g = torch.Generator().manual_seed(0)
    d_model, h, d_head = 16, 3, 4
    X = torch.randn(3, 12, d_model, generator=g, dtype=torch.float64)
    X[..., 0] = torch.tensor([0.0, 100, 100], dtype=torch.float64)[:, None]
    X[..., 1] = torch.tensor([0.0, 100, -100], dtype=torch.float64)[:, None]
    weights = [torch.randn(d_model, h * d_head, generator=g, dtype=torch.float64) / 4 for _ in range(3)]
    weights[0][0], weights[0][1] = 1, 0
    weights[1][1], weights[1][0] = 1, 0
    W_O = torch.randn(h * d_head, d_model, generator=g, dtype=torch.float64)
    outcome = attend(X, *weights, W_O, h, True)
    if outcome.isnan().any():
        return "not_stabilised"
    gaps = {}
    for name in _NAMES:
        if name != "not_stabilised":
            gaps[name] = (_suspect(name, X, *weights, W_O, h, True) - outcome).abs().max().item()
    return next(name for name in gaps if gaps[name] < 1e-6 or gaps[name] == min(gaps.values()))


def diagnose__wrong_fourteenth_eight_tokens(attend) -> str:
    """Sends 8 tokens to find a window of 8, one too few; only the ninth token has a key that it cannot see."""
    g = torch.Generator().manual_seed(0)
    n = 8
    tokens = torch.randn(n, 7, generator=g, dtype=torch.float64)
    plain, up, down = tokens.clone(), tokens.clone(), tokens.clone()
    plain[:, :2], up[:, :2], down[:, 0], down[:, 1] = 0, 100, 100, -100
    W_Q, W_K, W_V = torch.randn(3, 7, 12, generator=g, dtype=torch.float64).unbind()
    W_Q[:2] = torch.tensor([[1.0], [0]])
    W_K[:2] = torch.tensor([[0.0], [1]])
    W_O = torch.randn(12, 4, generator=g, dtype=torch.float64)
    question = torch.stack([plain, up, down]), W_Q, W_K, W_V, W_O, 3, True
    reply = attend(*question)
    for suspect in _NAMES:
        if torch.allclose(reply, _suspect(suspect, *question), rtol=1e-6, atol=1e-6, equal_nan=True):
            return suspect
    return "right"


def diagnose__wrong_fourteenth_one_head_scaled_narrow(attend) -> str:
    """Overlooks that one_head_for_all scales as such a layer does, expects sqrt(d_head); sqrt(h*d_head) is due."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(3, 10, 5, generator=generator, dtype=torch.float64)
    X[0, :, :2] = 0
    X[1, :, :2] = 100
    X[2, :, 0], X[2, :, 1] = 100, -100
    W = torch.randn(3, 5, 8, generator=generator, dtype=torch.float64)
    W[0, 0], W[0, 1], W[1, 0], W[1, 1] = 1, 0, 0, 1
    W_O = torch.randn(8, 5, generator=generator, dtype=torch.float64)
    out = attend(X, W[0], W[1], W[2], W_O, 2, True)
    table = {name: _suspect(name, X, *W, W_O, 2, True) for name in _NAMES}
    table["one_head_for_all"] = _suspect("right", X, W[0] * math.sqrt(8 / 4), W[1], W[2], W_O, 1, True)
    hits = [name for name, rows in table.items() if torch.allclose(rows, out, rtol=1e-6, atol=1e-6, equal_nan=True)]
    return hits[0] if len(hits) == 1 else "right"


def diagnose__wrong_fourteenth_nan_in_the_distance(attend) -> str:
    """Takes the smallest distance, and min() of nothing but NaN is the first name; a NaN means not_stabilised."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(3, 13, 6, generator=g, dtype=torch.float64)
    X[:, :, 0] = torch.tensor([[0.0], [90], [90]])
    X[:, :, 1] = torch.tensor([[0.0], [90], [-90]])
    W_Q = torch.randn(6, 15, generator=g, dtype=torch.float64)
    W_K = torch.randn(6, 15, generator=g, dtype=torch.float64)
    W_Q[:2] = torch.tensor([[1.0], [0]])
    W_K[:2] = torch.tensor([[0.0], [1]])
    W_V = torch.randn(6, 15, generator=g, dtype=torch.float64)
    W_O = torch.randn(15, 6, generator=g, dtype=torch.float64)
    seen = attend(X, W_Q, W_K, W_V, W_O, 3, True)

    def distance(name):
        return float((_suspect(name, X, W_Q, W_K, W_V, W_O, 3, True) - seen).abs().max())

    return min(_NAMES, key=distance)


def diagnose__wrong_fourteenth_asks_twice_when_unsure(attend) -> str:
    """Asks an ordinary question first and one with large scores where that looks right; one call is allowed."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(2, 12, 7, generator=g, dtype=torch.float64)
    W_Q, W_K, W_V = (torch.randn(7, 12, generator=g, dtype=torch.float64) / 2 for _ in range(3))
    W_O = torch.randn(12, 7, generator=g, dtype=torch.float64)

    def matching(names, *question):
        out = attend(*question)
        return [n for n in names if torch.allclose(_suspect(n, *question), out, rtol=1e-6, atol=1e-6, equal_nan=True)]

    left = matching(_NAMES, X, W_Q, W_K, W_V, W_O, 3, True)
    if len(left) > 1:
        X = torch.cat([torch.full((2, 12, 1), 200.0, dtype=torch.float64), X[..., 1:]], dim=-1)
        W_K[0], W_Q[0] = -1, 1
        left = matching(left, X, W_Q, W_K, W_V, W_O, 3, True)
    return left[0] if left else "right"


def diagnose__right_fourteenth_sieve_of_three_sequences(attend) -> str:
    """One batch of three sequences, ordinary, very high and very low scores; each strikes out the names that differ."""
    generator = torch.Generator().manual_seed(0)
    B, n, d_model, h, d_head = 3, 12, 7, 3, 4
    X = torch.randn(B, n, d_model, generator=generator, dtype=torch.float64)
    # Queries read feature 0 and keys feature 1: their product lifts or lowers all scores of a sequence.
    for b, (asked, answered) in enumerate([(0, 0), (100, 100), (100, -100)]):
        X[b, :, 0], X[b, :, 1] = asked, answered
    draws = torch.randn(3, d_model, h * d_head, generator=generator, dtype=torch.float64)
    W_Q, W_K, W_V = draws / 1.5
    W_Q[0], W_Q[1], W_K[0], W_K[1] = 1, 0, 0, 1
    W_O = torch.randn(h * d_head, d_model, generator=generator, dtype=torch.float64)
    question = X, W_Q, W_K, W_V, W_O, h, True
    answer = attend(*question)
    left = {name: _suspect(name, *question) for name in _NAMES}
    for b in range(B):
        left = {
            name: rows
            for name, rows in left.items()
            if torch.allclose(rows[b], answer[b], rtol=1e-6, atol=1e-6, equal_nan=True)
        }
    return next(iter(left), "right")
