"""Right and wrong answers to unit 04_multi_head, written from the contracts of the functions alone, to test the judge with."""

import math
import warnings

import numpy as np
import torch

# ------------------------------------------------------------------------------------------------- helpers, all right


def _split(X, n_heads):
    """Cuts the columns into heads."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"X.shape[-1] = {d} is not a multiple of n_heads = {n_heads}")
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def _merge(X):
    """Puts the heads next to each other again."""
    B, h, n, d = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d)


def _softmax(scores, mask=None):
    """Weights over the keys, all zero where nothing may be attended to."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1).masked_fill(~mask, 0.0)


def _attend(Q, K, V, mask=None):
    """Scaled attention over the last two axes."""
    return _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V


# ---------------------------------------------------------------------------------------------------------- split_heads


def split_heads__right_view_transpose(X, n_heads):
    """The plain one: reshape, then swap tokens and heads."""
    B, n, d = X.shape
    if d % n_heads != 0:
        raise ValueError(f"cannot split X.shape[-1]={d} into n_heads={n_heads}")
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__right_unflatten_movedim(X, n_heads):
    """Unflatten and movedim, contiguous copy in the end."""
    if X.shape[-1] % n_heads:
        raise ValueError("X.shape[-1] = {} does not divide by n_heads = {}".format(X.shape[-1], n_heads))  # noqa: UP032
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).movedim(2, 1).contiguous()


def split_heads__right_slices_stack(X, n_heads):
    """A loop over heads, stacked on axis 1."""
    d_head, rest = divmod(X.shape[-1], n_heads)
    if rest > 0:
        raise ValueError(f"{X.shape[-1]} columns, {n_heads} heads: {rest} columns are left over")
    heads = []
    for i in range(n_heads):
        heads.append(X[:, :, i * d_head : (i + 1) * d_head])
    return torch.stack(heads, dim=1)


def split_heads__right_chunk_cat_print(X, n_heads):
    """Chunks with a new axis, concatenated; prints and warns on the way."""
    if X.shape[-1] / n_heads != X.shape[-1] // n_heads:
        raise ValueError(f"d = {X.shape[-1]} and n_heads = {n_heads} do not fit")
    print("split", tuple(X.shape), "into", n_heads)
    warnings.warn("splitting", stacklevel=2)
    return torch.cat([c.unsqueeze(1) for c in X.split(X.shape[-1] // n_heads, dim=-1)], dim=1)


def split_heads__right_fill_buffer(X, n_heads):
    """Fills an empty tensor head by head (autograd follows the slices)."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"n_heads={n_heads} does not divide {d}")
    k = d // n_heads
    out = X.new_zeros(B, n_heads, n, k)
    for i in range(n_heads):
        out[:, i] = X[..., i * k : (i + 1) * k]
    return out


def split_heads__right_fancy_index(X, n_heads):
    """Picks columns with an index table (h, d_head)."""
    d = X.shape[-1]
    if d % n_heads:
        raise ValueError(f"{d} % {n_heads} != 0")
    table = torch.arange(d, device=X.device).reshape(n_heads, d // n_heads)
    return X[:, :, table].permute(0, 2, 1, 3)


def split_heads__right_einsum_selection(X, n_heads):
    """Multiplies with 0/1 selection tensors."""
    d = X.shape[-1]
    if d % n_heads:
        raise ValueError(f"X has {d} columns, which n_heads = {n_heads} does not divide")
    pick = torch.eye(d, dtype=X.dtype, device=X.device).reshape(d, n_heads, d // n_heads)
    return torch.einsum("bnc,chk->bhnk", X, pick)


def split_heads__right_windows(X, n_heads):
    """Windows that slide over the columns by their own width."""
    d_head, rest = divmod(X.shape[-1], n_heads)
    if rest:
        raise ValueError(f"width {X.shape[-1]}, heads {n_heads}")
    return X.unfold(-1, d_head, d_head).permute(0, 2, 1, 3)


def split_heads__right_own_error(X, n_heads):
    """Its error is of a class of its own, which is a ValueError."""

    class UnevenHeads(ValueError):
        pass

    if X.shape[-1] % n_heads:
        raise UnevenHeads(X.shape[-1], n_heads)
    return _split(X, n_heads)


def split_heads__wrong_view_without_transpose(X, n_heads):
    """Reshapes straight to (B, h, n, d_head): mixes tokens and heads."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n_heads, n, d // n_heads)


def split_heads__wrong_interleaved_heads(X, n_heads):
    """Head i owns the columns i, i + h, i + 2h, ... instead of a block."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n, d // n_heads, n_heads).permute(0, 3, 1, 2)


def split_heads__wrong_axes_left(X, n_heads):
    """Forgets the transpose: (B, n, h, d_head)."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n, n_heads, d // n_heads)


def split_heads__wrong_head_axis_first(X, n_heads):
    """Heads before the batch: (h, B, n, d_head)."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{X.shape[-1]} and {n_heads}")
    return torch.stack(X.chunk(n_heads, dim=-1))


def split_heads__wrong_last_two_swapped(X, n_heads):
    """Returns (B, h, d_head, n)."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n, n_heads, d // n_heads).permute(0, 2, 3, 1)


def split_heads__wrong_n_heads_is_d_head(X, n_heads):
    """Takes n_heads for the width of one head."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n, d // n_heads, n_heads).transpose(1, 2)


def split_heads__wrong_assert(X, n_heads):
    """AssertionError instead of ValueError."""
    B, n, d = X.shape
    assert d % n_heads == 0, f"{d} is not divisible by {n_heads}"
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_no_check(X, n_heads):
    """No check: torch's own RuntimeError comes out."""
    B, n, d = X.shape
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_message_without_numbers(X, n_heads):
    """A ValueError whose message names neither number."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError("the number of heads must divide the width")
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_message_one_number(X, n_heads):
    """The message names n_heads only."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"cannot split into {n_heads} heads")
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_drops_rest(X, n_heads):
    """Cuts off the columns that are left over instead of raising."""
    B, n, d = X.shape
    k = d // n_heads
    return X[..., : k * n_heads].reshape(B, n, n_heads, k).transpose(1, 2)


def split_heads__wrong_pads(X, n_heads):
    """Pads with zero columns instead of raising."""
    B, n, d = X.shape
    X = torch.nn.functional.pad(X, (0, -d % n_heads))
    return X.reshape(B, n, n_heads, X.shape[-1] // n_heads).transpose(1, 2)


def split_heads__wrong_prints_instead_of_raise(X, n_heads):
    """Prints the complaint and returns None."""
    B, n, d = X.shape
    if d % n_heads:
        print(f"ValueError: {d} is not divisible by {n_heads}")
        return None
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_checks_tokens(X, n_heads):
    """Checks that the number of tokens divides, not the width."""
    B, n, d = X.shape
    if n % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_detach(X, n_heads):
    """Cuts the gradient with detach."""
    return _split(X.detach(), n_heads)


def split_heads__wrong_numpy(X, n_heads):
    """Returns a NumPy array."""
    return _split(X, n_heads).detach().numpy()


def split_heads__wrong_float32(X, n_heads):
    """Always returns float32."""
    return _split(X, n_heads).float()


def split_heads__wrong_new_tensor(X, n_heads):
    """Goes through a list of numbers: the gradient is lost."""
    d = X.shape[-1]
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    k = d // n_heads
    rows = [[[t[i * k : (i + 1) * k] for t in b] for i in range(n_heads)] for b in X.tolist()]
    return torch.tensor(rows, dtype=X.dtype)


def split_heads__wrong_batch_one(X, n_heads):
    """Only looks at the first sequence of the batch."""
    return _split(X[:1], n_heads)


def split_heads__wrong_squeeze(X, n_heads):
    """squeeze() in the end drops every axis of length 1."""
    return _split(X, n_heads).squeeze()


def split_heads__wrong_list(X, n_heads):
    """A list of heads, each (B, n, d_head)."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{X.shape[-1]} and {n_heads}")
    return list(X.chunk(n_heads, dim=-1))


def split_heads__wrong_reversed(X, n_heads):
    """The heads come in reverse order."""
    return _split(X, n_heads).flip(1)


def split_heads__wrong_in_place(X, n_heads):
    """Scales the input by 1 / sqrt(d_head) in place before the split."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    with torch.no_grad():
        X /= math.sqrt(d // n_heads)
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_hard_coded(X, n_heads):
    """Hard-coded width of a head: 4."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n, d // 4, 4).transpose(1, 2)


def split_heads__wrong_view_only_contiguous(X, n_heads):
    """`view` on a permuted tensor's axes: builds (h, B, n, d_head) from the flat storage, then swaps."""
    B, n, d = X.shape
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(n_heads, B, n, d // n_heads).transpose(0, 1)


# ---------------------------------------------------------------------------------------------------------- merge_heads


def merge_heads__right_transpose_reshape(X):
    """The plain one."""
    B, h, n, d_head = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d_head)


def merge_heads__right_contiguous_view(X):
    """permute, contiguous, view."""
    B, h, n, d_head = X.shape
    return X.permute(0, 2, 1, 3).contiguous().view(B, n, h * d_head)


def merge_heads__right_cat_unbind(X):
    """Concatenates the heads along the columns."""
    return torch.cat(X.unbind(dim=1), dim=-1)


def merge_heads__right_flatten(X):
    """swapaxes and flatten."""
    return X.swapaxes(1, 2).flatten(start_dim=2)


def merge_heads__right_loop_buffer(X):
    """Writes each head into its columns of a fresh tensor."""
    B, h, n, d_head = X.shape
    out = torch.zeros(B, n, h * d_head, dtype=X.dtype, device=X.device)
    for i in range(h):
        out[:, :, i * d_head : (i + 1) * d_head] = X[:, i]
    return out


def merge_heads__right_einsum(X):
    """Multiplies with a 0/1 placement tensor (h, d_head, h*d_head)."""
    _, h, _, k = X.shape
    place = torch.eye(h * k, dtype=X.dtype, device=X.device).reshape(h, k, h * k)
    return torch.einsum("bhnk,hkc->bnc", X, place)


def merge_heads__right_hstack_per_sequence(X):
    """Two loops: over the batch and over the heads; prints."""
    print("merging", X.shape[1], "heads")
    return torch.stack([torch.hstack(list(sequence)) for sequence in X])


def merge_heads__right_recursion(X):
    """All heads but the last are merged, then the last is put beside them."""
    if X.shape[1] == 1:
        return X[:, 0]
    return torch.cat((merge_heads__right_recursion(X[:, :-1]), X[:, -1]), dim=-1)


def merge_heads__wrong_reshape_only(X):
    """No transpose before the reshape: mixes tokens and heads."""
    B, h, n, d_head = X.shape
    return X.reshape(B, n, h * d_head)


def merge_heads__wrong_view_not_contiguous(X):
    """`view` after transpose: raises for every contiguous input with several heads and tokens."""
    B, h, n, d_head = X.shape
    return X.transpose(1, 2).view(B, n, h * d_head)


def merge_heads__wrong_interleaved(X):
    """Column i*h + head: the heads are interleaved."""
    B, h, n, d_head = X.shape
    return X.permute(0, 2, 3, 1).reshape(B, n, h * d_head)


def merge_heads__wrong_transpose_last(X):
    """Swaps the axes 1 and 3 instead of 1 and 2."""
    B, h, n, d_head = X.shape
    return X.transpose(1, 3).reshape(B, n, h * d_head)


def merge_heads__wrong_mean_over_heads(X):
    """Averages the heads: (B, n, d_head)."""
    return X.mean(dim=1)


def merge_heads__wrong_sum_over_heads(X):
    """Adds the heads: (B, n, d_head)."""
    return X.sum(dim=1)


def merge_heads__wrong_tokens_concatenated(X):
    """Concatenates the heads along the tokens: (B, h*n, d_head)."""
    return torch.cat(X.unbind(dim=1), dim=1)


def merge_heads__wrong_four_axes(X):
    """Only the transpose: (B, n, h, d_head)."""
    return X.transpose(1, 2).contiguous()


def merge_heads__wrong_reversed_heads(X):
    """The last head comes first."""
    return _merge(X.flip(1))


def merge_heads__wrong_assumes_split_layout(X):
    """Reads the storage as if X came from split_heads (torch.as_strided on the raw layout)."""
    B, h, n, d = X.shape
    return X.as_strided((B, n, h * d), (n * h * d, h * d, 1))


def merge_heads__wrong_numpy(X):
    """Returns a NumPy array."""
    return _merge(X).detach().cpu().numpy()


def merge_heads__wrong_detach(X):
    """No gradient comes back."""
    return _merge(X.detach())


def merge_heads__wrong_data(X):
    """Uses X.data, which autograd does not follow."""
    return torch.cat([head.data for head in X.unbind(1)], dim=-1)


def merge_heads__wrong_float64(X):
    """Always returns float64."""
    return _merge(X).double()


def merge_heads__wrong_float32_buffer(X):
    """The buffer has the default dtype: a float64 input comes back as float32."""
    B, h, n, d = X.shape
    out = torch.zeros(B, n, h * d)
    for i in range(h):
        out[:, :, i * d : (i + 1) * d] = X[:, i]
    return out


def merge_heads__wrong_batch_one(X):
    """Forgets the batch: (n, h*d_head) of the first sequence."""
    return torch.cat(list(X[0]), dim=-1)


def merge_heads__wrong_batch_into_tokens(X):
    """(B*n, h*d_head): loses the batch axis."""
    B, h, n, d = X.shape
    return X.transpose(1, 2).reshape(B * n, h * d)


def merge_heads__wrong_squeeze(X):
    """squeeze() in the end: wrong for B = 1 or n = 1."""
    return _merge(X).squeeze()


def merge_heads__wrong_list(X):
    """A list of the tensors of each sequence."""
    return [torch.cat(list(sequence), dim=-1) for sequence in X]


def merge_heads__wrong_none(X):
    """Prints, returns nothing."""
    print(_merge(X))


def merge_heads__wrong_in_place(X):
    """Sorts the last head away: zeroes the input after copying it."""
    out = _merge(X).clone()
    with torch.no_grad():
        X.zero_()
    return out


def merge_heads__wrong_last_head_lost(X):
    """Off by one: the last head's columns stay zero."""
    B, h, n, d = X.shape
    out = X.new_zeros(B, n, h * d)
    for i in range(h - 1):
        out[:, :, i * d : (i + 1) * d] = X[:, i]
    return out


# -------------------------------------------------------------------------------------------------------- bmm_attention


def bmm_attention__right_bmm(Q, K, V, mask=None):
    """The plain one with torch.bmm and masked_fill."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return torch.bmm(weights, V)


def bmm_attention__right_baddbmm_alpha(Q, K, V, mask=None):
    """baddbmm with alpha = 1/sqrt(d_k) and beta = 0; masks with where."""
    N, n, d = Q.shape
    m = K.shape[1]
    S = torch.baddbmm(Q.new_zeros(N, n, m), Q, K.mT, beta=0, alpha=1 / math.sqrt(d))
    if mask is None:
        return torch.bmm(S.softmax(-1), V)
    mask = mask.expand(N, n, m)
    S = torch.where(mask, S, torch.finfo(S.dtype).min)
    return torch.bmm(torch.where(mask, S.softmax(-1), 0.0), V)


def bmm_attention__right_exp_by_hand(Q, K, V, mask=None):
    """exp(scores - max) by hand, masked entries multiplied away, sums of zero replaced by one."""
    S = torch.bmm(Q * Q.shape[-1] ** -0.5, K.mT)
    keep = torch.ones_like(S, dtype=torch.bool) if mask is None else mask.broadcast_to(S.shape)
    S = S.masked_fill(~keep, float("-inf"))
    top = S.amax(dim=-1, keepdim=True)
    top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    E = torch.exp(S - top)
    total = E.sum(dim=-1, keepdim=True)
    total = torch.where(total == 0, torch.ones_like(total), total)
    return torch.bmm(E, V) / total


def bmm_attention__right_method_bmm_loop(Q, K, V, mask=None):
    """A loop over the N attentions, each a bmm with a batch of one; prints."""
    print("bmm_attention", tuple(Q.shape), tuple(K.shape))
    full = None if mask is None else mask.expand(Q.shape[0], Q.shape[1], K.shape[1])
    outs = []
    for i in range(Q.shape[0]):
        s = Q[i : i + 1].bmm(K[i : i + 1].mT) / math.sqrt(Q.shape[2])
        outs.append(_softmax(s, None if full is None else full[i : i + 1]).bmm(V[i : i + 1]))
    return torch.cat(outs)


def bmm_attention__right_float64_inside(Q, K, V, mask=None):
    """Computes in float64 and goes back to the dtype of the input."""
    S = torch.bmm(Q.double(), K.double().mT) / math.sqrt(Q.shape[-1])
    return torch.bmm(_softmax(S, mask), V.double()).to(V.dtype)


def bmm_attention__right_log_space(Q, K, V, mask=None):
    """Weights as exp(s - logsumexp(s)), with a large finite negative number for masked scores."""
    S = torch.bmm(Q, K.mT).div(math.sqrt(Q.shape[-1]))
    if mask is not None:
        S = S.masked_fill(mask.logical_not(), torch.finfo(S.dtype).min / 4)
    A = (S - torch.logsumexp(S, dim=-1, keepdim=True)).exp()
    if mask is not None:
        A = A * mask.to(A.dtype)
    return torch.bmm(A, V)


def bmm_attention__right_transposed_bmm(Q, K, V, mask=None):
    """Everything transposed: keys down, queries across, softmax over axis 1; a non-contiguous result."""
    S = torch.bmm(K, Q.mT) / math.sqrt(K.shape[-1])
    if mask is None:
        A = torch.softmax(S, dim=1)
    else:
        turned = mask.expand(Q.shape[0], Q.shape[1], K.shape[1]).mT
        A = torch.softmax(S.masked_fill(~turned, -math.inf), dim=1).masked_fill(~turned, 0)
    return torch.bmm(V.mT, A).mT


def bmm_attention__right_mended_weights(Q, K, V, mask=None):
    """-inf, and the NaN of an empty row replaced in the weights: masked_fill sends no gradient back."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(S.softmax(-1), V)
    return torch.bmm(S.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num(0.0), V)


def bmm_attention__right_vmap(Q, K, V, mask=None):
    """One attention, mapped over all of them."""
    mask = torch.ones((), dtype=torch.bool) if mask is None else mask

    def one(q, k, v, see):
        scores = torch.where(see, q @ k.T / math.sqrt(q.shape[-1]), torch.finfo(q.dtype).min)
        return (torch.softmax(scores, dim=-1) * see) @ v

    return torch.vmap(one)(Q, K, V, mask.expand(len(Q), Q.shape[1], K.shape[1]))


def bmm_attention__right_spare_key(Q, K, V, mask=None):
    """A spare key without a value, which is open to a query that has no other."""
    scores = torch.einsum("sid,sjd->sij", Q, K) * K.shape[-1] ** -0.5
    if mask is None:
        return torch.softmax(scores, dim=-1) @ V
    mask = mask.expand_as(scores)
    scores = scores.masked_fill(~mask, -torch.inf)
    spare = torch.zeros_like(scores[..., :1]).masked_fill(mask.any(dim=-1, keepdim=True), -torch.inf)
    return torch.softmax(torch.cat([scores, spare], dim=-1), dim=-1)[..., :-1] @ V


def bmm_attention__wrong_no_scale(Q, K, V, mask=None):
    """Does not divide by sqrt(d_k)."""
    return torch.bmm(_softmax(torch.bmm(Q, K.mT), mask), V)


def bmm_attention__wrong_divides_by_d(Q, K, V, mask=None):
    """Divides by d_k instead of its root."""
    return torch.bmm(_softmax(torch.bmm(Q, K.mT) / Q.shape[-1], mask), V)


def bmm_attention__wrong_sqrt_n(Q, K, V, mask=None):
    """Divides by the root of the number of keys."""
    return torch.bmm(_softmax(torch.bmm(Q, K.mT) / math.sqrt(K.shape[1]), mask), V)


def bmm_attention__wrong_sqrt_d_v(Q, K, V, mask=None):
    """Divides by sqrt(d_v)."""
    return torch.bmm(_softmax(torch.bmm(Q, K.mT) / math.sqrt(V.shape[-1]), mask), V)


def bmm_attention__wrong_softmax_queries(Q, K, V, mask=None):
    """Softmax over the queries (axis 1)."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    return torch.bmm(torch.softmax(S, dim=1).nan_to_num(0.0), V)


def bmm_attention__wrong_softmax_batch(Q, K, V, mask=None):
    """Softmax over axis 0: the attentions are no longer independent."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    return torch.bmm(torch.softmax(S, dim=0).nan_to_num(0.0), V)


def bmm_attention__wrong_mask_inverted(Q, K, V, mask=None):
    """Takes True for "may not attend"."""
    return torch.bmm(_softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), None if mask is None else ~mask), V)


def bmm_attention__wrong_empty_rows_nan(Q, K, V, mask=None):
    """A row that may attend to nothing gives NaN."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    return torch.bmm(torch.softmax(S, dim=-1), V)


def bmm_attention__wrong_empty_rows_uniform(Q, K, V, mask=None):
    """-1e9 for masked scores: an empty row averages everything."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -1e9)
    return torch.bmm(torch.softmax(S, dim=-1), V)


def bmm_attention__wrong_mended_output(Q, K, V, mask=None):
    """-inf, and the NaN of an empty row replaced in the output alone: it is back in the gradient of V."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    return torch.bmm(S.softmax(-1), V).nan_to_num(0.0)


def bmm_attention__wrong_added_minus_infinity(Q, K, V, mask=None):
    """-inf as a bias added to the scores: NaN in the gradients of Q and K, though the weights are mended."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S + torch.zeros(mask.shape, dtype=S.dtype).masked_fill(~mask, -math.inf)
    return torch.bmm(S.softmax(-1).nan_to_num(0.0), V)


def bmm_attention__wrong_small_fill(Q, K, V, mask=None):
    """-1e4 for masked scores and no zeroing: leaks when the others are as low, and in empty rows."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -1e4)
    return torch.bmm(torch.softmax(S, dim=-1), V)


def bmm_attention__wrong_scores_times_mask(Q, K, V, mask=None):
    """Multiplies the scores by the mask: masked keys keep a weight exp(0)."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S * mask
    return torch.bmm(torch.softmax(S, dim=-1), V)


def bmm_attention__wrong_mask_after_softmax(Q, K, V, mask=None):
    """Zeroes masked weights after the softmax, without normalising again."""
    A = torch.softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), dim=-1)
    if mask is not None:
        A = A * mask
    return torch.bmm(A, V)


def bmm_attention__wrong_mask_ignored(Q, K, V, mask=None):
    """Never uses the mask."""
    return torch.bmm(_softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])), V)


def bmm_attention__wrong_mask_added_as_number(Q, K, V, mask=None):
    """Adds the mask as 0/1 numbers to the scores with baddbmm."""
    d = Q.shape[-1]
    bias = Q.new_zeros(Q.shape[0], Q.shape[1], K.shape[1])
    if mask is not None:
        bias = bias + mask
    return torch.bmm(torch.softmax(torch.baddbmm(bias, Q, K.mT, alpha=1 / math.sqrt(d)), dim=-1), V)


def bmm_attention__wrong_baddbmm_beta_scaled(Q, K, V, mask=None):
    """baddbmm with alpha on the wrong side: scales the mask's bias (beta) but not the product."""
    bias = Q.new_zeros(Q.shape[0], Q.shape[1], K.shape[1])
    if mask is not None:
        bias = bias.masked_fill(~mask, -1e30)
    A = torch.softmax(torch.baddbmm(bias, Q, K.mT, beta=1 / math.sqrt(Q.shape[-1])), dim=-1)
    return torch.bmm(A if mask is None else A * mask, V)


def bmm_attention__wrong_unstable_exp(Q, K, V, mask=None):
    """exp without subtracting the maximum: overflows at scores of 1e4."""
    E = torch.exp(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]))
    if mask is not None:
        E = E * mask
    return torch.bmm(E / E.sum(-1, keepdim=True).clamp_min(1e-30), V)


def bmm_attention__wrong_max_includes_masked(Q, K, V, mask=None):
    """Subtracts the maximum over masked keys too: a huge masked score pushes the rest to 0/0 or to zero."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    E = torch.exp(S - S.amax(dim=-1, keepdim=True))
    if mask is not None:
        E = E * mask
    return torch.bmm(E / (E.sum(-1, keepdim=True) + 1e-30), V)


def bmm_attention__wrong_global_max(Q, K, V, mask=None):
    """Subtracts one maximum for all rows: rows far below it underflow to 0/0, cleaned to 0."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    E = torch.exp(S - S.max())
    return torch.bmm((E / E.sum(-1, keepdim=True)).nan_to_num(0.0), V)


def bmm_attention__wrong_mask_needs_three_axes(Q, K, V, mask=None):
    """Indexes mask[i] per attention: wrong for masks that have to broadcast."""
    outs = []
    for i in range(Q.shape[0]):
        S = torch.bmm(Q[i : i + 1], K[i : i + 1].mT) / math.sqrt(Q.shape[-1])
        outs.append(torch.bmm(_softmax(S, None if mask is None else mask[i]), V[i : i + 1]))
    return torch.cat(outs)


def bmm_attention__wrong_mask_transposed(Q, K, V, mask=None):
    """Uses the mask's transpose."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    return torch.bmm(_softmax(S, None if mask is None or mask.ndim < 2 else mask.mT), V)


def bmm_attention__wrong_keys_reshaped(Q, K, V, mask=None):
    """Reshapes K to (N, d, m) instead of transposing it."""
    S = torch.bmm(Q, K.reshape(K.shape[0], K.shape[2], K.shape[1])) / math.sqrt(Q.shape[-1])
    return torch.bmm(_softmax(S, mask), V)


def bmm_attention__wrong_returns_weights_too(Q, K, V, mask=None):
    """Returns (output, weights)."""
    A = _softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), mask)
    return torch.bmm(A, V), A


def bmm_attention__wrong_detached_weights(Q, K, V, mask=None):
    """The weights are detached: no gradient to Q and K."""
    A = _softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), mask).detach()
    return torch.bmm(A, V)


def bmm_attention__wrong_item_max(Q, K, V, mask=None):
    """Builds the weights row by row through tolist and math.exp: no gradient to Q and K."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    rows = []
    for row in S.reshape(-1, S.shape[-1]).tolist():
        top = max(row)
        e = [0.0 if top == -math.inf else math.exp(s - top) for s in row]
        rows.append([x / (sum(e) or 1.0) for x in e])
    return torch.bmm(torch.tensor(rows, dtype=Q.dtype).reshape(S.shape), V)


def bmm_attention__wrong_numpy(Q, K, V, mask=None):
    """Returns a NumPy array."""
    return torch.bmm(_softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), mask), V).detach().numpy()


def bmm_attention__wrong_double(Q, K, V, mask=None):
    """Computes in float64 and leaves it so."""
    S = torch.bmm(Q.double(), K.double().mT) / math.sqrt(Q.shape[-1])
    return torch.bmm(_softmax(S, mask), V.double())


def bmm_attention__wrong_in_place_q(Q, K, V, mask=None):
    """Divides Q by sqrt(d_k) in place."""
    with torch.no_grad():
        Q /= math.sqrt(Q.shape[-1])
    return torch.bmm(_softmax(torch.bmm(Q, K.mT), mask), V)


def bmm_attention__wrong_always_causal(Q, K, V, mask=None):
    """A causal mask on top of whatever mask is given."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    causal = torch.ones(S.shape[-2:], dtype=torch.bool).tril()
    return torch.bmm(_softmax(S, causal if mask is None else causal & mask), V)


# -------------------------------------------------------------------------------------------------- multi_head_attention


def multi_head_attention__right_plain(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Split, attend, merge, project."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K, V, mask)) @ W_O + b_O


def multi_head_attention__right_einsum(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Einsum with the weights cut into heads; no merge."""
    d_model, width = W_Q.shape
    k = width // n_heads
    q, k_, v = (torch.einsum("bnd,dhk->bhnk", X, W.reshape(d_model, n_heads, k)) for W in (W_Q, W_K, W_V))
    S = torch.einsum("bhik,bhjk->bhij", q, k_) * k**-0.5
    A = _softmax(S, mask)
    return torch.einsum("bhij,bhjk,hkd->bid", A, v, W_O.reshape(n_heads, k, -1)) + b_O


def multi_head_attention__right_loop_heads(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """A loop over the heads, adding what each writes back."""
    k = W_Q.shape[1] // n_heads
    B, n, _ = X.shape
    full = None if mask is None else mask.expand(B, n_heads, n, n)
    out = torch.zeros_like(X) + b_O
    for i in range(n_heads):
        cols = slice(i * k, (i + 1) * k)
        m = None if full is None else full[:, i]
        out = out + _attend(X @ W_Q[:, cols], X @ W_K[:, cols], X @ W_V[:, cols], m) @ W_O[cols]
    return out


def multi_head_attention__right_bmm_flat(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Batch and heads in one axis, torch.bmm and torch.addmm."""
    B, n, d_model = X.shape
    k = W_Q.shape[1] // n_heads
    Q, K, V = (_split(X @ W, n_heads).reshape(B * n_heads, n, k) for W in (W_Q, W_K, W_V))
    m = None if mask is None else mask.expand(B, n_heads, n, n).reshape(B * n_heads, n, n)
    heads = torch.bmm(_softmax(torch.bmm(Q, K.mT) / math.sqrt(k), m), V).reshape(B, n_heads, n, k)
    return torch.addmm(b_O, _merge(heads).reshape(B * n, -1), W_O).reshape(B, n, d_model)


def multi_head_attention__right_fused_projection(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """One matrix product for Q, K and V; a warning; F.linear for the output."""
    warnings.warn("fused", stacklevel=2)
    Q, K, V = (X @ torch.cat([W_Q, W_K, W_V], dim=1)).chunk(3, dim=-1)
    heads = _attend(_split(Q, n_heads), _split(K, n_heads), _split(V, n_heads), mask)
    return torch.nn.functional.linear(_merge(heads), W_O.T, b_O)


def multi_head_attention__right_low_rank(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The QK and OV circuits of each head: X W_Q W_K^T X^T and W_V W_O."""
    d, width = W_Q.shape
    k = width // n_heads
    wq, wk, wv = (W.reshape(d, n_heads, k).transpose(0, 1) for W in (W_Q, W_K, W_V))
    X_ = X.unsqueeze(1)
    S = (X_ @ (wq @ wk.mT)) @ X_.mT / math.sqrt(k)
    ov = wv @ W_O.reshape(n_heads, k, W_O.shape[1])
    return (_softmax(S, mask) @ (X_ @ ov)).sum(dim=1) + b_O


def multi_head_attention__right_one_sequence_at_a_time(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """A loop over the batch; the queries carry the scale."""
    B, n, _ = X.shape
    k = W_Q.shape[1] // n_heads
    rows = []
    for b in range(B):
        Q, K, V = (_split(X[b : b + 1] @ W, n_heads) for W in (W_Q / math.sqrt(k), W_K, W_V))
        m = None if mask is None else mask.expand(B, n_heads, n, n)[b : b + 1]
        rows.append(_merge(_softmax(Q @ K.mT, m) @ V)[0] @ W_O + b_O)
    return torch.stack(rows, dim=0)


def multi_head_attention__right_minus_infinity(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Forbidden scores are -inf, and a row with nothing allowed, which the contract leaves out, would be NaN."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    return _merge(S.softmax(-1) @ V) @ W_O + b_O


def multi_head_attention__right_lowest_number(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Forbidden scores get the lowest finite number; a row with nothing allowed would be even."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min)
    return _merge(S.softmax(-1) @ V) @ W_O + b_O


def multi_head_attention__right_heads_before_sequences(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """All sequences of head 0 come first in the stack, and the mask follows them."""
    B, n, _ = X.shape
    Q, K, V = (torch.cat((X @ W).chunk(n_heads, dim=-1)) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = torch.cat(mask.expand(B, n_heads, n, n).unbind(1))
    merged = torch.cat(_attend(Q, K, V, mask).chunk(n_heads), dim=-1)
    return torch.nn.functional.linear(merged, W_O.T, b_O)


def multi_head_attention__wrong_sqrt_d_model(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Divides by sqrt(d_model) instead of sqrt(d_head)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_softmax(Q @ K.mT / math.sqrt(X.shape[-1]), mask) @ V) @ W_O + b_O


def multi_head_attention__wrong_sqrt_all_heads(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Divides by sqrt(h*d_head)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_softmax(Q @ K.mT / math.sqrt(W_Q.shape[1]), mask) @ V) @ W_O + b_O


def multi_head_attention__wrong_d_model_over_h(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Takes d_head = d_model / h for the scale."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_softmax(Q @ K.mT / math.sqrt(X.shape[-1] / n_heads), mask) @ V) @ W_O + b_O


def multi_head_attention__wrong_reshape_to_d_model(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Assumes h*d_head = d_model in the reshapes."""
    B, n, d = X.shape
    Q, K, V = ((X @ W).reshape(B, n, n_heads, d // n_heads).transpose(1, 2) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask).transpose(1, 2).reshape(B, n, d) @ W_O + b_O


def multi_head_attention__wrong_no_bias(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Forgets b_O."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K, V, mask)) @ W_O


def multi_head_attention__wrong_bias_per_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Adds the bias once per head."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    parts = _attend(Q, K, V, mask) @ W_O.reshape(n_heads, -1, W_O.shape[1]) + b_O
    return parts.sum(dim=1)


def multi_head_attention__wrong_no_output_projection(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Returns the merged heads plus bias, without W_O (cut or padded to d_model)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    Y = _merge(_attend(Q, K, V, mask))
    return torch.nn.functional.pad(Y, (0, max(0, X.shape[-1] - Y.shape[-1])))[..., : X.shape[-1]] + b_O


def multi_head_attention__wrong_merge_without_transpose(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Reshapes (B, h, n, d_head) straight to (B, n, h*d_head)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask).reshape(X.shape[0], X.shape[1], -1) @ W_O + b_O


def multi_head_attention__wrong_split_without_transpose(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Reshapes (B, n, h*d_head) straight to (B, h, n, d_head), and back."""
    B, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(B, n_heads, n, -1) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask).reshape(B, n, -1) @ W_O + b_O


def multi_head_attention__wrong_interleaved(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Interleaved heads: head i owns the columns i, i + h, ..."""
    B, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(B, n, -1, n_heads).permute(0, 3, 1, 2) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask).permute(0, 2, 3, 1).reshape(B, n, -1) @ W_O + b_O


def multi_head_attention__wrong_heads_attend_to_heads(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Attends among the heads of one token, (B, n, h, h): the transpose is missing; the mask is not used."""
    B, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(B, n, n_heads, -1) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V).reshape(B, n, -1) @ W_O + b_O


def multi_head_attention__wrong_one_big_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Ignores n_heads: one attention over all columns (mask of the first head)."""
    B, n, _ = X.shape
    m = None if mask is None else mask.expand(B, n_heads, n, n)[:, 0]
    return _attend(X @ W_Q, X @ W_K, X @ W_V, m) @ W_O + b_O


def multi_head_attention__wrong_mask_inverted(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """True means "may not attend", as in nn.MultiheadAttention."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K, V, None if mask is None else ~mask)) @ W_O + b_O


def multi_head_attention__wrong_mask_ignored(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Does not pass the mask on."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K, V)) @ W_O + b_O


def multi_head_attention__wrong_mask_unsqueezed(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Always inserts a head axis: takes the mask for (B, n, n)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K, V, None if mask is None else mask.unsqueeze(1))) @ W_O + b_O


def multi_head_attention__wrong_first_heads_mask(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Uses the first head's mask for every head."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(X.shape[0], n_heads, X.shape[1], X.shape[1])[:, :1]
    return _merge(_attend(Q, K, V, mask)) @ W_O + b_O


def multi_head_attention__wrong_first_sequences_mask(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Uses the first sequence's mask for the whole batch."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(X.shape[0], n_heads, X.shape[1], X.shape[1])[:1]
    return _merge(_attend(Q, K, V, mask)) @ W_O + b_O


def multi_head_attention__wrong_unstable(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """exp without the maximum."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    E = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
    if mask is not None:
        E = E * mask
    return _merge(E / E.sum(-1, keepdim=True).clamp_min(1e-30) @ V) @ W_O + b_O


def multi_head_attention__wrong_columns_convention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Applies W_O transposed, as nn.Linear does."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return torch.nn.functional.linear(_merge(_attend(Q, K, V, mask)), W_O, b_O)


def multi_head_attention__wrong_keys_for_values(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Mixes the keys instead of the values."""
    Q, K = (_split(X @ W, n_heads) for W in (W_Q, W_K))
    return _merge(_attend(Q, K, K, mask)) @ W_O + b_O


def multi_head_attention__wrong_q_and_k_swapped(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Scores K Q^T."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(K, Q, V, mask)) @ W_O + b_O


def multi_head_attention__wrong_residual(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Adds X: the residual connection is not part of it."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return X + _merge(_attend(Q, K, V, mask)) @ W_O + b_O


def multi_head_attention__wrong_detach(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Detaches the weights of the attention."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    A = _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge(A.detach() @ V) @ W_O + b_O


def multi_head_attention__wrong_no_grad(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Everything under torch.no_grad()."""
    with torch.no_grad():
        Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
        return _merge(_attend(Q, K, V, mask)) @ W_O + b_O


def multi_head_attention__wrong_float32(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Casts everything to float32."""
    Q, K, V = (_split(X.float() @ W.float(), n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K, V, mask)) @ W_O.float() + b_O.float()


def multi_head_attention__wrong_numpy(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Returns a NumPy array."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return np.asarray((_merge(_attend(Q, K, V, mask)) @ W_O + b_O).detach())


def multi_head_attention__wrong_batch_one(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Keys and values of the first sequence for the whole batch."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K[:1], V[:1], mask)) @ W_O + b_O


# ---------------------------------------------------------------------------------------------------- head_contributions


def head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Heads times the rows of W_O that belong to them."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask) @ W_O.reshape(n_heads, W_O.shape[0] // n_heads, W_O.shape[1])


def head_contributions__right_loop(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """One head after the other, stacked on axis 1."""
    k = W_O.shape[0] // n_heads
    B, n, _ = X.shape
    outs = []
    for i in range(n_heads):
        c = slice(i * k, i * k + k)
        m = None if mask is None else mask.broadcast_to((B, n_heads, n, n))[:, i]
        outs.append(_attend(X @ W_Q[:, c], X @ W_K[:, c], X @ W_V[:, c], m) @ W_O[c, :])
    return torch.stack(outs, dim=1)


def head_contributions__right_zero_the_others(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Sets all other heads to zero, concatenates and projects."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _attend(Q, K, V, mask)
    only = torch.eye(n_heads, dtype=heads.dtype, device=heads.device)
    return torch.stack([_merge(heads * only[i].reshape(1, -1, 1, 1)) @ W_O for i in range(n_heads)], dim=1)


def head_contributions__right_einsum(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Einsum all the way."""
    d, width = W_Q.shape
    cut = [W.reshape(d, n_heads, width // n_heads) for W in (W_Q, W_K, W_V)]
    q, k, v = (torch.einsum("bnd,dhk->bnhk", X, W) for W in cut)
    A = _softmax(torch.einsum("bihk,bjhk->bhij", q, k) / math.sqrt(width // n_heads), mask)
    z = torch.einsum("bhij,bjhk->bihk", A, v)
    return torch.einsum("bihk,hkd->bhid", z, W_O.reshape(n_heads, -1, W_O.shape[1]))


def head_contributions__right_ov_circuit(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A (X W_V W_O): projects the values first, then mixes them."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    written = V @ torch.stack(W_O.chunk(n_heads, dim=0))
    return _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ written


def head_contributions__right_block_diagonal(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Merged heads times a block matrix (h*d_head, h*d_model), then split again; non-contiguous."""
    print("heads:", n_heads)
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    blocks = torch.block_diag(*W_O.chunk(n_heads, dim=0))
    return _split(_merge(_attend(Q, K, V, mask)) @ blocks, n_heads)


def head_contributions__right_differences(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """float64 inside, cast back to the dtype of the input."""
    X64, q, k, v, o = (T.double() for T in (X, W_Q, W_K, W_V, W_O))
    heads = _attend(_split(X64 @ q, n_heads), _split(X64 @ k, n_heads), _split(X64 @ v, n_heads), mask)
    return (heads @ o.unflatten(0, (n_heads, -1))).to(X.dtype)


def head_contributions__right_added_minus_infinity(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The mask as a bias of 0 and -inf, added to the scores."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S + torch.zeros(mask.shape, dtype=S.dtype).masked_fill(~mask, -math.inf)
    return S.softmax(dim=-1) @ V @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__right_layers_of_one_head(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A whole layer for each head, with its columns and rows alone."""
    n, shares = X.shape[1], []
    for r in range(n_heads):
        own = slice(r * len(W_O) // n_heads, (r + 1) * len(W_O) // n_heads)
        see = None if mask is None else mask.expand(len(X), n_heads, n, n)[:, r : r + 1]
        columns = [W[:, own] for W in (W_Q, W_K, W_V)]
        shares.append(multi_head_attention__right_plain(X, *columns, W_O[own], 0, 1, see))
    return torch.stack(shares, dim=1)


def head_contributions__wrong_summed(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Already summed over the heads: (B, n, d_model)."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).sum(dim=1)


def head_contributions__wrong_divided_by_h(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Divides by the number of heads."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask) / n_heads


def head_contributions__wrong_split_of_the_total(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The same share of the total for every head: the sum is right, the heads are not."""
    total = head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).sum(dim=1, keepdim=True)
    return (total / n_heads).repeat(1, n_heads, 1, 1)


def head_contributions__wrong_no_projection(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The heads before W_O: (B, h, n, d_head)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask)


def head_contributions__wrong_axes_swapped(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Returns (B, n, h, d_model)."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).transpose(1, 2)


def head_contributions__wrong_heads_first(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Returns (h, B, n, d_model)."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).transpose(0, 1)


def head_contributions__wrong_w_o_interleaved(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Head i takes the rows i, i + h, ... of W_O."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask) @ W_O.reshape(-1, n_heads, W_O.shape[1]).transpose(0, 1)


def head_contributions__wrong_w_o_columns(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Cuts W_O by columns and pads with zeros: head i writes only its share of the columns."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    total = _merge(_attend(Q, K, V, mask)) @ W_O
    parts = []
    for cols in torch.arange(W_O.shape[1]).chunk(n_heads):
        keep = torch.zeros(W_O.shape[1], dtype=total.dtype)
        keep[cols] = 1
        parts.append(total * keep)
    return torch.stack(parts, dim=1)


def head_contributions__wrong_first_rows_of_w_o(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Every head uses the first d_head rows of W_O."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask) @ W_O[: Q.shape[-1]]


def head_contributions__wrong_w_o_reversed(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The blocks of W_O go to the heads in reverse order."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask) @ W_O.reshape(n_heads, -1, W_O.shape[1]).flip(0)


def head_contributions__wrong_sqrt_d_model(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Divides the scores by sqrt(d_model)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    A = _softmax(Q @ K.mT / math.sqrt(X.shape[-1]), mask)
    return A @ V @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__wrong_no_scale(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Does not scale the scores."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _softmax(Q @ K.mT, mask) @ V @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__wrong_softmax_over_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Softmax over the heads (axis 1), masked weights zeroed."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=1)
    return (A if mask is None else A * mask) @ V @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__wrong_cumulative(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Head i holds the sum of heads 0..i."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).cumsum(dim=1)


def head_contributions__wrong_leave_one_out(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """What remains without the head, not what the head alone writes."""
    C = head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask)
    return C.sum(dim=1, keepdim=True) - C


def head_contributions__wrong_mask_ignored(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Forgets the mask."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads)


def head_contributions__wrong_mask_inverted(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The mask the wrong way round."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, None if mask is None else ~mask)


def head_contributions__wrong_mask_per_head_lost(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A key is masked for all heads as soon as it is for one."""
    if mask is not None:
        B, n, _ = X.shape
        mask = mask.expand(B, n_heads, n, n).all(dim=1, keepdim=True)
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask)


def head_contributions__wrong_list(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A list of h tensors (B, n, d_model)."""
    return list(head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).unbind(1))


def head_contributions__wrong_detach(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Detaches the result ("only for looking at it")."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).detach()


def head_contributions__wrong_numpy(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Returns a NumPy array."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).detach().numpy()


def head_contributions__wrong_default_dtype(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Collects in a buffer of the default dtype: float64 becomes float32."""
    C = head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask)
    out = torch.zeros(C.shape)
    for i in range(n_heads):
        out[:, i] = C[:, i]
    return out


def head_contributions__wrong_norms(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The length of what each head writes: (B, h, n)."""
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask).norm(dim=-1)


# ---------------------------------------------------------------------------------------------------- from_torch_weights


def from_torch_weights__right_chunk(in_proj_weight, out_proj_weight):
    """Three blocks of rows, each transposed: views."""
    q, k, v = in_proj_weight.chunk(3, dim=0)
    return q.T, k.T, v.T, out_proj_weight.T


def from_torch_weights__right_slices_contiguous(in_proj_weight, out_proj_weight):
    """Slices with d_model, contiguous copies."""
    d = out_proj_weight.shape[0]
    return (
        in_proj_weight[:d].transpose(0, 1).contiguous(),
        in_proj_weight[d : 2 * d].transpose(0, 1).contiguous(),
        in_proj_weight[2 * d :].transpose(0, 1).contiguous(),
        out_proj_weight.transpose(0, 1).contiguous(),
    )


def from_torch_weights__right_transpose_then_split(in_proj_weight, out_proj_weight):
    """Transposes first, then cuts the columns."""
    d = in_proj_weight.shape[1]
    W_Q, W_K, W_V = torch.split(in_proj_weight.t(), d, dim=1)
    return W_Q, W_K, W_V, out_proj_weight.t()


def from_torch_weights__right_identity_trick(in_proj_weight, out_proj_weight):
    """Pushes the identity through the linear maps."""
    eye = torch.eye(in_proj_weight.shape[1], dtype=in_proj_weight.dtype, device=in_proj_weight.device)
    q, k, v = torch.nn.functional.linear(eye, in_proj_weight).tensor_split(3, dim=-1)
    return q, k, v, torch.nn.functional.linear(eye, out_proj_weight)


def from_torch_weights__right_reshape_mt_tuple(in_proj_weight, out_proj_weight):
    """(3, d, d), transposed in a batch; tuple() of the parts."""
    d = in_proj_weight.shape[1]
    print("d_model", d)
    return (*in_proj_weight.reshape(3, d, d).mT.unbind(0), out_proj_weight.clone().mT)


def from_torch_weights__right_einsum(in_proj_weight, out_proj_weight):
    """Einsum as a transpose."""
    parts = [torch.einsum("ij->ji", W) for W in (*in_proj_weight.chunk(3), out_proj_weight)]
    return tuple(parts)


def from_torch_weights__wrong_no_transpose(in_proj_weight, out_proj_weight):
    """Does not transpose anything."""
    q, k, v = in_proj_weight.chunk(3, dim=0)
    return q, k, v, out_proj_weight


def from_torch_weights__wrong_out_not_transposed(in_proj_weight, out_proj_weight):
    """Forgets the transpose of W_O."""
    q, k, v = in_proj_weight.chunk(3, dim=0)
    return q.T, k.T, v.T, out_proj_weight


def from_torch_weights__wrong_only_out_transposed(in_proj_weight, out_proj_weight):
    """Transposes W_O alone."""
    q, k, v = in_proj_weight.chunk(3, dim=0)
    return q, k, v, out_proj_weight.T


def from_torch_weights__wrong_order_kqv(in_proj_weight, out_proj_weight):
    """Takes the blocks for K, Q, V."""
    k, q, v = in_proj_weight.chunk(3, dim=0)
    return q.T, k.T, v.T, out_proj_weight.T


def from_torch_weights__wrong_order_vkq(in_proj_weight, out_proj_weight):
    """Takes the blocks for V, K, Q."""
    v, k, q = in_proj_weight.chunk(3, dim=0)
    return q.T, k.T, v.T, out_proj_weight.T


def from_torch_weights__wrong_order_qvk(in_proj_weight, out_proj_weight):
    """Keys and values swapped."""
    q, v, k = in_proj_weight.chunk(3, dim=0)
    return q.T, k.T, v.T, out_proj_weight.T


def from_torch_weights__wrong_interleaved_rows(in_proj_weight, out_proj_weight):
    """Every third row: takes the rows as q, k, v, q, k, v, ..."""
    return in_proj_weight[0::3].T, in_proj_weight[1::3].T, in_proj_weight[2::3].T, out_proj_weight.T


def from_torch_weights__wrong_chunk_columns(in_proj_weight, out_proj_weight):
    """Cuts along the columns: (3*d_model, d_model/3) pieces."""
    q, k, v = in_proj_weight.tensor_split(3, dim=1)
    return q, k, v, out_proj_weight.T


def from_torch_weights__wrong_reshape_for_transpose(in_proj_weight, out_proj_weight):
    """Reshapes to (d_model, 3*d_model) instead of transposing, then cuts the columns."""
    d = in_proj_weight.shape[1]
    q, k, v = in_proj_weight.reshape(d, 3 * d).chunk(3, dim=1)
    return q, k, v, out_proj_weight.T


def from_torch_weights__wrong_list(in_proj_weight, out_proj_weight):
    """A list instead of a tuple."""
    return [W.T for W in in_proj_weight.chunk(3)] + [out_proj_weight.T]


def from_torch_weights__wrong_stacked(in_proj_weight, out_proj_weight):
    """One stacked tensor (4, d_model, d_model)."""
    return torch.stack([*in_proj_weight.chunk(3), out_proj_weight]).mT


def from_torch_weights__wrong_three_only(in_proj_weight, out_proj_weight):
    """Leaves W_O out."""
    q, k, v = in_proj_weight.chunk(3)
    return q.T, k.T, v.T


def from_torch_weights__wrong_packed(in_proj_weight, out_proj_weight):
    """Leaves the three in one matrix: (d_model, 3*d_model) and W_O."""
    return in_proj_weight.T, out_proj_weight.T


def from_torch_weights__wrong_out_first(in_proj_weight, out_proj_weight):
    """W_O comes first."""
    q, k, v = in_proj_weight.chunk(3)
    return out_proj_weight.T, q.T, k.T, v.T


def from_torch_weights__wrong_detach(in_proj_weight, out_proj_weight):
    """Detached copies."""
    q, k, v = in_proj_weight.detach().chunk(3)
    return q.T.clone(), k.T.clone(), v.T.clone(), out_proj_weight.detach().T.clone()


def from_torch_weights__wrong_parameters(in_proj_weight, out_proj_weight):
    """New nn.Parameters: they train, but the gradient does not reach the inputs."""
    return tuple(torch.nn.Parameter(W.T) for W in (*in_proj_weight.chunk(3), out_proj_weight))


def from_torch_weights__wrong_numpy(in_proj_weight, out_proj_weight):
    """NumPy arrays."""
    return tuple(W.T.detach().numpy() for W in (*in_proj_weight.chunk(3), out_proj_weight))


def from_torch_weights__wrong_float64(in_proj_weight, out_proj_weight):
    """Always float64."""
    return tuple(W.T.double() for W in (*in_proj_weight.chunk(3), out_proj_weight))


def from_torch_weights__wrong_float32(in_proj_weight, out_proj_weight):
    """Always float32."""
    return tuple(W.T.float() for W in (*in_proj_weight.chunk(3), out_proj_weight))


def from_torch_weights__wrong_scaled_query(in_proj_weight, out_proj_weight):
    """Puts 1/sqrt(d_model) into W_Q."""
    q, k, v = in_proj_weight.chunk(3)
    return q.T / math.sqrt(q.shape[0]), k.T, v.T, out_proj_weight.T


def from_torch_weights__wrong_inverse(in_proj_weight, out_proj_weight):
    """W_O by pinv instead of transpose (right for orthogonal weights only)."""
    q, k, v = in_proj_weight.chunk(3)
    return q.T, k.T, v.T, torch.linalg.pinv(out_proj_weight)


def from_torch_weights__wrong_off_by_one(in_proj_weight, out_proj_weight):
    """Block borders one too low for K and V."""
    d = in_proj_weight.shape[1]
    I = in_proj_weight
    return I[:d].T, I[d - 1 : 2 * d - 1].T, I[2 * d - 1 : 3 * d - 1].T, out_proj_weight.T


def from_torch_weights__wrong_in_place(in_proj_weight, out_proj_weight):
    """Transposes the output weight itself (t_)."""
    q, k, v = in_proj_weight.chunk(3)
    return q.T, k.T, v.T, out_proj_weight.data.copy_(out_proj_weight.data.T.clone())


def from_torch_weights__wrong_hard_coded(in_proj_weight, out_proj_weight):
    """d_model = 8 hard-coded."""
    return in_proj_weight[:8].T, in_proj_weight[8:16].T, in_proj_weight[16:24].T, out_proj_weight.T


# ------------------------------------------------------------------------------------------------------------- the lists


# ------------------------------------------------------------------------------------------------------------- diagnose


def _drawn(B, n, d_model, h, d_head, size=1.0, low=0.0):
    """X and the four weights, for scores of order 1 where size is 1. low: the last sequence's scores are about -low**2."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(B, n, d_model, generator=g, dtype=torch.float64)
    W_Q, W_K, W_V = (size * torch.randn(d_model, h * d_head, generator=g, dtype=torch.float64) / 2 for _ in range(3))
    if low:
        X[:, :, 0], W_Q[0], W_K[0], W_V[0] = 0.0, 1.0, -1.0, 0.0
        X[-1, :, 0] = low
    return X, W_Q, W_K, W_V, torch.randn(h * d_head, d_model, generator=g, dtype=torch.float64)


def _lineup(X, W_Q, W_K, W_V, W_O, n_heads, causal):
    """What each suspect would return, by name; exponentials and einsum, no softmax of a library."""
    B, n, d_model = X.shape
    tri = torch.ones(n, n, dtype=torch.float64).tril() if causal else torch.ones(n, n, dtype=torch.float64)
    wide = torch.ones(n, n, dtype=torch.float64).tril(1) if causal else tri
    near = tri.triu(-7) if causal else tri

    def run(h=n_heads, root=None, seen=tri, whole=None, axis=-1, swap=False, view=False, top=True, low=None):
        d = W_Q.shape[1] // h
        Q, K, V = (X @ W for W in ((W_Q, W_V, W_K) if swap else (W_Q, W_K, W_V)))
        Q, K, V = ((T.reshape(B, h, n, d) if view else _split(T, h)) for T in (Q, K, V))
        S = torch.einsum("bhid,bhjd->bhij", Q, K) / (root or math.sqrt(d))
        if low:
            S, seen, whole = torch.where(seen > 0, S, low), torch.ones_like(seen), None
        if top:
            kept = S if whole is not None else S.masked_fill(seen == 0, -torch.inf)
            S = S - kept.amax(axis, keepdim=True)
        e = torch.exp(S.masked_fill((seen if whole is None else whole) == 0, -torch.inf))
        A = e * seen / (e * (seen if whole is None else whole)).sum(axis, keepdim=True)
        out = torch.einsum("bhij,bhjd->bhid", A, V)
        return (out.reshape(B, n, h * d) if view else _merge(out)) @ W_O

    return {
        "right": run(),
        "not_scaled": run(root=1.0),
        "scaled_by_d": run(root=W_Q.shape[1] // n_heads),
        "scaled_by_d_model": run(root=math.sqrt(d_model)),
        "softmax_over_queries": run(axis=-2),
        "causal_off_by_one": run(seen=wide),
        "mask_after_softmax": run(whole=torch.ones_like(tri)),
        "heads_not_by_columns": run(view=True),
        "keys_and_values_swapped": run(swap=True),
        "one_head_for_all": run(h=1),
        "not_stabilised": run(top=False),
        "masked_by_a_number": run(low=-1e4),
        "window_of_8": run(seen=near),
    }


def _marked(out):
    """NaN as a number that nothing else comes near."""
    return out.nan_to_num(1e200, 1e200, 1e200).clamp(-1e100, 1e100)


def _nearest(attend, *call, without=()):
    """The suspect whose output is nearest to the box's."""
    found = attend(*call)
    lined = _lineup(*call).items()
    distance = {name: (_marked(out) - _marked(found)).abs().max().item() for name, out in lined if name not in without}
    return min(distance, key=distance.get)


def _first_match(attend, *call):
    """The first suspect whose output is the box's, up to rounding."""
    found = attend(*call)
    return next((name for name, out in _lineup(*call).items() if torch.allclose(out, found, equal_nan=True)), "right")


def diagnose__right_nearest_of_all(attend):
    """One call: a sequence of ordinary scores and one of very low ones, longer than the window; the nearest output."""
    return _nearest(attend, *_drawn(2, 10, 7, 3, 2, low=160.0), 3, True)


def diagnose__right_by_name(attend):
    """Arguments by name; whoever agrees up to rounding, NaN with NaN; prints and warns on the way."""
    names = ("X", "W_Q", "W_K", "W_V", "W_O")
    given = dict(zip(names, _drawn(3, 12, 6, 2, 3, low=200.0), strict=True))
    found = attend(**given, n_heads=2, causal=True)
    fits = [k for k, v in _lineup(**given, n_heads=2, causal=True).items() if torch.allclose(v, found, equal_nan=True)]
    print(len(fits), "left")
    warnings.warn("done", stacklevel=2)
    (name,) = fits
    return name


def diagnose__right_in_one_sequence(attend):
    """A single sequence: only two of its queries are such that their scores are very low."""
    X, *weights = _drawn(1, 11, 7, 3, 2, low=1.0)
    X[0, :, 0] = 0.0
    X[0, 4, 0] = X[0, 5, 0] = 250.0  # token 4 asks: itself far below, tokens 0 ... 3 at 0; token 5 the same
    X[0, :4, 0] = 250.0
    X[0, 6:, 0] = 1.0
    return _nearest(attend, X, *weights, 3, True)


def diagnose__right_batch_of_experiments(attend):
    """Four experiments as four sequences of one batch, and a decision in NumPy."""
    X, *weights = _drawn(4, 9, 9, 2, 2, low=180.0)
    X = torch.stack([X[0], X[1] / 2, X[2].flip(0), X[3]])
    found = _marked(attend(X, *weights, 2, True)).numpy()
    lined = _lineup(X, *weights, 2, True)
    names = np.array(list(lined))
    far = np.array([np.abs(_marked(lined[name]).numpy() - found).max() for name in lined])
    return str(names[far.argmin()])


def diagnose__wrong_nearest_of_ten(attend):
    """One call of sizes that are all different, scores of order 1."""
    return _nearest(attend, *_drawn(2, 5, 7, 3, 2), 3, True)


def diagnose__wrong_two_calls(attend):
    """First without the mask, then with it."""
    left = set(SUSPECTED)
    for causal in (False, True):
        call = (*_drawn(2, 10, 7, 3, 2, low=160.0), 3, causal)
        found = attend(*call)
        left &= {name for name, out in _lineup(*call).items() if torch.allclose(out, found, equal_nan=True)}
    return left.pop()


SUSPECTED = tuple(_lineup(*_drawn(1, 2, 2, 1, 1), 1, True))


def diagnose__wrong_after_a_refusal(attend):
    """Tries a list of lists first, which the box refuses, and has no call left."""
    call = _drawn(2, 10, 7, 3, 2, low=160.0)
    try:
        attend(call[0].tolist(), *call[1:], 3, True)
    except (ValueError, TypeError):
        pass
    return _nearest(attend, *call, 3, True)


def diagnose__wrong_nan_is_no_distance(attend):
    """A good experiment; differences that are NaN are never the least."""
    call = (*_drawn(2, 10, 7, 3, 2, low=160.0), 3, True)
    found, name, least = attend(*call), "right", math.inf
    for other, out in _lineup(*call).items():
        far = (out - found).norm().item()
        if far < least:
            name, least = other, far
    return name


def diagnose__wrong_sixteen_four_four(attend):
    """The sizes of a textbook, d_model = 16, four heads of four."""
    return _first_match(attend, *_drawn(2, 5, 16, 4, 4), 4, True)


def diagnose__wrong_no_mask(attend):
    """Asks without the causal mask only."""
    return _first_match(attend, *_drawn(2, 5, 7, 3, 2), 3, False)


def diagnose__wrong_single_token(attend):
    """A single token."""
    return _first_match(attend, *_drawn(2, 1, 7, 3, 2), 3, True)


def diagnose__wrong_single_head(attend):
    """n_heads is 1, both with the mask and without."""
    call = _drawn(2, 4, 5, 1, 3)
    plain = _first_match(attend, *call, 1, False)
    return plain if plain != "right" else _first_match(attend, *call, 1, True)


def diagnose__wrong_three_questions(attend):
    """Three calls: no mask, a mask, more heads, and decides by all."""
    calls = [(*_drawn(1, 4, 7, 1, 3), 1, False), (*_drawn(1, 4, 7, 1, 3), 1, True), (*_drawn(1, 4, 7, 2, 3), 2, True)]
    for call in calls:
        name = _first_match(attend, *call)
        if name != "right":
            return name
    return "right"


def diagnose__wrong_same_weights(attend):
    """One matrix serves for queries, keys and values."""
    X, W_Q, *_, W_O = _drawn(2, 5, 7, 3, 2)
    return _first_match(attend, X, W_Q, W_Q, W_Q, W_O, 3, True)


def diagnose__wrong_heads_of_one(attend):
    """Heads one wide, where the root of d_head is d_head."""
    return _first_match(attend, *_drawn(2, 5, 7, 3, 1), 3, True)


def diagnose__wrong_all_tokens_alike(attend):
    """The same token five times."""
    X, *weights = _drawn(2, 5, 7, 3, 2)
    return _first_match(attend, X[:, :1].repeat(1, 5, 1), *weights, 3, True)


def diagnose__wrong_never_acquits(attend):
    """Always accuses somebody: `right` is not among the names that it compares."""
    return _nearest(attend, *_drawn(2, 5, 7, 3, 2), 3, True, without=("right",))


def diagnose__wrong_constant(attend):
    """Calls every box right."""
    return "right"


def diagnose__wrong_small_numbers(attend):
    """Weights so small that all weights come out even."""
    return _first_match(attend, *_drawn(2, 5, 7, 3, 2, size=1e-3), 3, True)


def diagnose__wrong_d_model_as_a_head(attend):
    """d_model is as wide as a head."""
    return _first_match(attend, *_drawn(1, 6, 5, 2, 5), 2, True)


def diagnose__wrong_leak_detector(attend):
    """Calls any look into the future an off-by-one."""
    X, *weights = _drawn(1, 5, 7, 3, 2)
    changed = X.clone()
    changed[:, -1] += 2.0
    before = attend(X, *weights, 3, True)
    if (attend(changed, *weights, 3, True) - before)[:, :-1].abs().max() > 1e-9:
        return "causal_off_by_one"
    return min(lined := _lineup(X, *weights, 3, True), key=lambda name: (lined[name] - before).norm().item())
