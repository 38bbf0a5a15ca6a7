"""Answers to the exercises of unit 5, MQA and GQA: wrong ones and right ones."""

import math
from functools import reduce

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _check_groups(n_heads, n_kv_heads):
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads cannot serve {n_heads} query heads evenly")
    return n_heads // n_kv_heads


# ------- 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_tenth_every_step_keeps_all(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Adds up the cache of every step, 1 + 2 + … + n tokens, in place of the n tokens that are kept at the end."""
    numbers_per_token = 2 * n_layers * n_kv_heads * d_head
    total = 0
    for step in range(n_tokens):
        total += numbers_per_token * (step + 1)
    return total * batch * bytes_per_value


def kv_cache_bytes__wrong_tenth_values_of_one_sequence(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Counts the keys of all sequences, but the values of a single one: `batch` is missing in the second product."""
    key_numbers = batch * n_kv_heads * n_tokens * d_head
    value_numbers = n_kv_heads * n_tokens * d_head
    return n_layers * (key_numbers + value_numbers) * bytes_per_value


def kv_cache_bytes__wrong_tenth_bits_divided(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Counts bits and divides by 8 with `/`, a float, so that caches beyond 2**53 bytes are not exact."""
    bits_per_value = 8 * bytes_per_value
    shape = (n_layers, 2, batch, n_kv_heads, n_tokens, d_head)
    bits = math.prod(shape) * bits_per_value
    return int(bits / 8)


def kv_cache_bytes__wrong_tenth_two_known_precisions(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Takes every number for half or single precision: any bytes_per_value but 4 is counted as 2."""
    dtype = torch.float32 if bytes_per_value == 4 else torch.float16
    width = torch.empty((), dtype=dtype).element_size()
    one_layer = 2 * batch * n_kv_heads * n_tokens * d_head * width
    return sum(one_layer for _ in range(n_layers))


def kv_cache_bytes__right_tenth_doubling_and_adding(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Multiplies by doubling and adding, bit by bit, in whole numbers only."""

    def times(a, b):
        product = 0
        while b:
            if b & 1:
                product += a
            a, b = a << 1, b >> 1
        return product

    factors = [n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value]
    return reduce(times, (int(factor) for factor in factors), 2)


# ------- 5.2 repeat_kv


def repeat_kv__wrong_tenth_modulo(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Gives query head a the key/value head a % g, so that the heads come in turn and neighbours do not share."""
    g = K.shape[1]
    reads = torch.arange(g * n_rep, device=K.device) % g
    return torch.index_select(K, 1, reads)


def repeat_kv__wrong_tenth_axis_behind_tokens(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Puts the new axis behind the tokens, not behind the heads, so that the reshape mixes tokens and heads."""
    batch, g, n, d = K.shape
    copies = K.unsqueeze(3).expand(batch, g, n, n_rep, d)
    return copies.reshape(batch, g * n_rep, n, d)


def repeat_kv__wrong_tenth_view_needs_contiguous(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Joins the last two axes with `view`, which raises an error where K is not contiguous in memory."""
    batch, g, n, d = K.shape
    rows = K.view(batch, g, 1, n * d)
    wide = torch.cat([rows] * n_rep, dim=2)
    return wide.view(batch, g * n_rep, n, d)


def repeat_kv__wrong_tenth_data_of_heads(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Collects the heads from `K.data`, so that no gradient flows back to K."""
    laid_out = []
    for head in K.data.unbind(dim=1):
        for _ in range(n_rep):
            laid_out.append(head)
    return torch.stack(laid_out, dim=1)


def repeat_kv__right_tenth_kronecker(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Takes the Kronecker product with a row of n_rep ones along the axis of the heads."""
    return torch.kron(K.contiguous(), torch.ones(1, n_rep, 1, 1, dtype=K.dtype, device=K.device))


# ------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_tenth_groups_across(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Cuts the query heads as (r, g) and not as (g, r), so that head a reads key/value head a % g."""
    r = _check_groups(n_heads, n_kv_heads)
    batch, n, _ = X.shape
    Q = (X @ W_Q).reshape(batch, n, r, n_kv_heads, -1)
    K = (X @ W_K).reshape(batch, n, n_kv_heads, -1)
    V = (X @ W_V).reshape(batch, n, n_kv_heads, -1)
    scores = torch.einsum("birgd,bjgd->brgij", Q, K) / math.sqrt(Q.shape[-1])
    weights = _masked_softmax(scores.reshape(batch, n_heads, n, n), mask)
    weights = weights.reshape(batch, r, n_kv_heads, n, n)
    heads = torch.einsum("brgij,bjgd->birgd", weights, V)
    return heads.reshape(batch, n, -1) @ W_O


def grouped_query_attention__wrong_tenth_width_of_all_keys(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Divides the scores by the root of W_K's whole width g*d_head, not of d_head."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads has to divide n_heads")
    n_rep = n_heads // n_kv_heads
    K, V = (_split_heads(X @ W, n_kv_heads).repeat_interleave(n_rep, dim=1) for W in (W_K, W_V))
    Q = _split_heads(X @ W_Q, n_heads) * W_K.shape[-1] ** -0.5
    A = _masked_softmax(Q @ K.mT, mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_tenth_mask_of_heads_alone(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Fits masks with 2 and with 4 axes to its five-axis scores, but fails with a mask (h, n, n) of three axes."""
    if n_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads = {n_kv_heads} does not divide n_heads = {n_heads}")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))
    K = _split_heads(X @ W_K, n_kv_heads).unsqueeze(2)
    V = _split_heads(X @ W_V, n_kv_heads).unsqueeze(2)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        if mask.dim() == 4:
            if mask.shape[1] == n_heads:
                mask = mask.unflatten(1, (n_kv_heads, r))
            else:
                mask = mask.unsqueeze(1)
        scores = scores.masked_fill(~mask, float("-inf"))
    heads = torch.softmax(scores, dim=-1) @ V
    return _merge_heads(heads.flatten(1, 2)) @ W_O


def grouped_query_attention__wrong_tenth_never_refuses(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Finds the key/value head as a*g // h and raises no ValueError where g does not divide h."""
    d = W_Q.shape[1] // n_heads
    batch, n, _ = X.shape
    allowed = None
    if mask is not None:
        allowed = torch.broadcast_to(mask, (batch, n_heads, n, n))
    out = 0
    for a in range(n_heads):
        s = a * n_kv_heads // n_heads
        own, shared = slice(a * d, (a + 1) * d), slice(s * d, (s + 1) * d)
        q, k, v = X @ W_Q[:, own], X @ W_K[:, shared], X @ W_V[:, shared]
        scores = q @ k.transpose(1, 2) / math.sqrt(d)
        weights = _masked_softmax(scores, None if allowed is None else allowed[:, a])
        out = out + (weights @ v) @ W_O[own]
    return out


def grouped_query_attention__right_tenth_two_circuits(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Multiplies the weights first: each head has a table W_Q W_K^T between tokens and a map W_V W_O of what is moved."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    r = n_heads // n_kv_heads
    d = W_Q.shape[1] // n_heads
    batch, n, _ = X.shape
    keys, values = W_K.split(d, dim=1), W_V.split(d, dim=1)
    if mask is not None:
        mask = torch.broadcast_to(mask, (batch, n_heads, n, n))
    result = torch.zeros_like(X)
    for a, (asks, writes) in enumerate(zip(W_Q.split(d, dim=1), W_O.split(d, dim=0), strict=True)):
        meets = asks @ keys[a // r].T
        moves = values[a // r] @ writes
        scores = torch.einsum("bic,ce,bje->bij", X, meets, X) / math.sqrt(d)
        if mask is not None:
            scores = torch.where(mask[:, a], scores, torch.finfo(scores.dtype).min)
        weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
        result = result + weights @ (X @ moves)
    return result


# ------- 5.4 multi_query_attention


def multi_query_attention__wrong_tenth_expand_then_flatten(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Expands keys and values to h heads and flattens them for `bmm`, which writes them down once per head."""
    batch, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads).flatten(0, 1)
    K = (X @ W_K).unsqueeze(1).expand(-1, n_heads, -1, -1).flatten(0, 1)
    V = (X @ W_V).unsqueeze(1).expand(-1, n_heads, -1, -1).flatten(0, 1)
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    A = _masked_softmax(scores.view(batch, n_heads, n, n), mask)
    heads = torch.bmm(A.flatten(0, 1), V).view(batch, n_heads, n, -1)
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_tenth_queue_by_tokens(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Queues the queries token by token, but reads the scores as (h, n) rows where the mask is applied."""
    batch, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    queue = (X @ W_Q).reshape(batch, n * n_heads, -1)
    scores = torch.matmul(queue, K.mT) / K.shape[-1] ** 0.5
    if mask is not None:
        lowest = torch.finfo(scores.dtype).min
        four = scores.view(batch, n_heads, n, n).masked_fill(~mask, lowest)
        scores = four.view(batch, n * n_heads, n)
    mixed = torch.softmax(scores, dim=-1) @ V
    return mixed.reshape(batch, n, -1) @ W_O


def multi_query_attention__wrong_tenth_one_maximum(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Subtracts the largest score of the whole tensor and not of each row: far below it all exponentials are 0, NaN."""
    Q = (X @ W_Q).unflatten(-1, (n_heads, -1))
    K, V = X @ W_K, X @ W_V
    S = torch.einsum("bnhd,bmd->bhnm", Q, K) / math.sqrt(K.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    E = torch.exp(S - S.max())
    A = E / E.sum(dim=-1, keepdim=True)
    mixed = torch.einsum("bhnm,bmd->bnhd", A, V)
    return mixed.flatten(2) @ W_O


def multi_query_attention__wrong_tenth_mask_turned_over(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Turns the caller's mask over in place, so that after the call it says the opposite."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = (X @ W_K)[:, None]
    V = (X @ W_V)[:, None]
    scores = Q @ K.mT / math.sqrt(Q.size(-1))
    if mask is not None:
        forbidden = mask.logical_not_()
        scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    heads = scores.softmax(-1) @ V
    return _merge_heads(heads) @ W_O


def multi_query_attention__right_tenth_keys_in_rows(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Writes the table of scores the other way round, a row for each key and a column for each query of each head."""
    batch, n, _ = X.shape
    d = W_K.shape[1]
    K, V = X @ W_K, X @ W_V
    queries = (X @ W_Q).reshape(batch, n, n_heads, d).permute(0, 3, 2, 1).reshape(batch, d, n_heads * n)
    table = torch.bmm(K, queries) / math.sqrt(d)
    if mask is not None:
        allowed = torch.broadcast_to(mask, (batch, n_heads, n, n)).permute(0, 3, 1, 2).reshape(batch, n, n_heads * n)
        table = table.masked_fill(~allowed, torch.finfo(table.dtype).min)
    weights = torch.softmax(table, dim=1)
    mixed = torch.bmm(V.transpose(1, 2), weights)
    mixed = mixed.reshape(batch, d, n_heads, n).permute(0, 3, 2, 1)
    return mixed.reshape(batch, n, n_heads * d) @ W_O


# ------- 5.5 decode_step


def decode_step__wrong_tenth_triangle_for_one_row(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Lays a causal triangle over the single row of scores, which leaves it the oldest token only."""
    r = _check_groups(n_heads, n_kv_heads)
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(x @ W_Q, n_heads)
    scores = Q @ K.repeat_interleave(r, 1).mT / math.sqrt(Q.shape[-1])
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
    A = _masked_softmax(scores, causal)
    return _merge_heads(A @ V.repeat_interleave(r, 1)) @ W_O, (K, V)


def decode_step__wrong_tenth_queue_cut_r_g(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Cuts the new query as (r, g) in place of (g, r), so that query heads of other groups read the keys."""
    r = _check_groups(n_heads, n_kv_heads)
    batch = x.shape[0]
    d = W_Q.shape[1] // n_heads
    K_old, V_old = cache
    k = (x @ W_K).reshape(batch, n_kv_heads, 1, d)
    v = (x @ W_V).reshape(batch, n_kv_heads, 1, d)
    K, V = torch.cat((K_old, k), 2), torch.cat((V_old, v), 2)
    queue = (x @ W_Q).reshape(batch, r, n_kv_heads, d).transpose(1, 2)
    A = torch.softmax(queue @ K.transpose(-1, -2) / d**0.5, dim=-1)
    heads = (A @ V).transpose(1, 2)
    return heads.reshape(batch, 1, n_heads * d) @ W_O, (K, V)


def decode_step__wrong_tenth_shortcut_for_first_token(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Has a shortcut for an empty cache that hands the values to the query heads in turn, 0, 1, 0, 1, …."""
    r = _check_groups(n_heads, n_kv_heads)
    k_new, v_new = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    K_kept, V_kept = cache
    if K_kept.shape[2] == 0:
        heads = v_new.repeat(1, r, 1, 1)
        return _merge_heads(heads) @ W_O, (k_new, v_new)
    K = torch.cat([K_kept, k_new], dim=-2)
    V = torch.cat([V_kept, v_new], dim=-2)
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).squeeze(3)
    scores = torch.einsum("bgrd,bgtd->bgrt", q, K) / math.sqrt(q.shape[-1])
    heads = torch.einsum("bgrt,bgtd->bgrd", scores.softmax(dim=-1), V)
    return heads.reshape(x.shape[0], 1, -1) @ W_O, (K, V)


def decode_step__wrong_tenth_past_detached(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Detaches the kept keys and values, so that no gradient flows to the earlier tokens."""
    r = _check_groups(n_heads, n_kv_heads)
    past = [kept.detach() for kept in cache]
    new = [_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V)]
    K, V = (torch.cat(pair, dim=2) for pair in zip(past, new, strict=True))
    d = K.shape[-1]
    out = []
    for s, queries in enumerate(_split_heads(x @ W_Q, n_heads).split(r, dim=1)):
        rows = queries.squeeze(2)
        weights = torch.softmax(torch.bmm(rows, K[:, s].mT) / math.sqrt(d), dim=-1)
        out.append(torch.bmm(weights, V[:, s]))
    return torch.cat(out, dim=1).flatten(1).unsqueeze(1) @ W_O, (K, V)


def decode_step__right_tenth_padded_and_multiplied(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Grows the cache by padding and adding, and writes both products as a multiplication and a sum."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads does not divide n_heads")
    batch, _, _ = x.shape
    t = cache[0].shape[2]
    d = W_Q.shape[1] // n_heads

    def grown(kept, W):
        new = (x @ W).reshape(batch, n_kv_heads, 1, d)
        return F.pad(kept, (0, 0, 0, 1)) + F.pad(new, (0, 0, t, 0))

    K, V = grown(cache[0], W_K), grown(cache[1], W_V)
    q = (x @ W_Q).reshape(batch, n_kv_heads, n_heads // n_kv_heads, 1, d)
    scores = (q * K[:, :, None]).sum(dim=-1) / math.sqrt(d)
    weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
    heads = (weights[..., None] * V[:, :, None]).sum(dim=3)
    return heads.reshape(batch, 1, n_heads * d) @ W_O, (K, V)


# ------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_tenth_keeps_the_spread(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Divides the sum of a group by the root of its number of heads, to keep the size of the keys, and not by r."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    return (heads.sum(dim=2) / math.sqrt(r)).flatten(1)


def pool_kv_heads__wrong_tenth_columns_side_by_side(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Cuts the columns as (g, d_head, r) in place of (g, r, d_head): it pools neighbouring columns, not heads."""
    rows, columns = W.shape
    r, width = n_heads // n_kv_heads, columns // n_heads
    cut = W.reshape(rows, n_kv_heads, width, r)
    return torch.einsum("mgdr->mgd", cut).reshape(rows, n_kv_heads * width) / r


def pool_kv_heads__wrong_tenth_halved_again_and_again(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Averages each further head with the mean so far, which is the mean for one or two heads but not for more."""
    heads = W.chunk(n_heads, dim=1)
    r = n_heads // n_kv_heads
    pooled = []
    for first in range(0, n_heads, r):
        middle = heads[first]
        for head in heads[first + 1 : first + r]:
            middle = (middle + head) / 2
        pooled.append(middle)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_tenth_sums_into_w(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Sums the heads of a group with += into a slice of W, and so changes the caller's weights."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    groups = []
    for s in range(n_kv_heads):
        begin = s * r * d_head
        total = W[:, begin : begin + d_head]
        for k in range(1, r):
            total += W[:, begin + k * d_head : begin + (k + 1) * d_head]
        groups.append(total / r)
    return torch.cat(groups, dim=1)


def pool_kv_heads__right_tenth_matrix_of_shares(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Multiplies W by a matrix (h*d_head, g*d_head) that holds each column's share in each pooled column."""
    width = W.shape[1] // n_heads
    column = torch.arange(n_heads * width, device=W.device)
    head, place = column // width, column % width
    goes_to = (head // (n_heads // n_kv_heads)) * width + place
    shares = torch.zeros(n_heads * width, n_kv_heads * width, dtype=W.dtype, device=W.device)
    shares[column, goes_to] = n_kv_heads / n_heads
    return W @ shares


# ------- 5.7 extend_cache


def extend_cache__wrong_tenth_strangers_to_each_other(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Lets each new token see the cache and itself, but none of the new tokens that come before it."""
    r = _check_groups(n_heads, n_kv_heads)
    t, n_new = cache[0].shape[2], X_new.shape[1]
    K, V = (torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], 2) for old, W in zip(cache, (W_K, W_V), strict=True))
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))
    S = torch.einsum("bgrnd,bgtd->bgrnt", Q, K) / math.sqrt(Q.shape[-1])
    row = torch.arange(n_new, device=X_new.device)[:, None]
    column = torch.arange(t + n_new, device=X_new.device)
    allowed = (column < t) | (column == t + row)
    A = _masked_softmax(S, allowed)
    heads = torch.einsum("bgrnt,bgtd->bngrd", A, V)
    return heads.flatten(2) @ W_O, (K, V)


def extend_cache__wrong_tenth_mask_rows_doubled(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Repeats each row of the mask r times in a row, though the queue holds all tokens of one head before the next."""
    r = _check_groups(n_heads, n_kv_heads)
    batch, n_new, _ = X_new.shape
    t = cache[0].shape[2]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(batch, n_kv_heads, r * n_new, -1)
    sees = torch.ones(n_new, t + n_new, dtype=torch.bool, device=X_new.device).tril(diagonal=t)
    A = _masked_softmax(queue @ K.mT / math.sqrt(queue.shape[-1]), sees.repeat_interleave(r, dim=0))
    heads = (A @ V).reshape(batch, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_tenth_minus_ten_thousand(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Hides the future with a score of -10000, which is not low enough where the scores themselves are about -10000."""
    r = _check_groups(n_heads, n_kv_heads)
    t, n_new = cache[0].shape[2], X_new.shape[1]
    new_keys, new_values = _split_heads(X_new @ W_K, n_kv_heads), _split_heads(X_new @ W_V, n_kv_heads)
    K, V = torch.cat((cache[0], new_keys), dim=2), torch.cat((cache[1], new_values), dim=2)
    d = K.shape[-1]
    later = torch.ones(n_new, t + n_new, dtype=torch.bool, device=X_new.device).triu(t + 1)
    heads = []
    for a, q in enumerate((X_new @ W_Q).split(d, dim=-1)):
        scores = torch.bmm(q, K[:, a // r].mT) / math.sqrt(d)
        weights = scores.masked_fill(later, -10000.0).softmax(dim=-1)
        heads.append(torch.bmm(weights, V[:, a // r]))
    return torch.cat(heads, dim=-1) @ W_O, (K, V)


def extend_cache__wrong_tenth_whole_triangle_cut(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Makes the causal mask of all t + n_new tokens and cuts off its last rows: it grows with the cache's square."""
    r = _check_groups(n_heads, n_kv_heads)
    K_kept, V_kept = cache
    K = torch.cat([K_kept, _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_kept, _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    n_all = K.shape[2]
    position = torch.arange(n_all, device=X_new.device)
    causal = (position[None, :] <= position[:, None])[K_kept.shape[2] :]
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = (queue @ K.mT / math.sqrt(queue.shape[-1])).unflatten(2, (r, -1))
    heads = _masked_softmax(scores, causal).flatten(2, 3) @ V
    return _merge_heads(heads.unflatten(2, (r, -1)).flatten(1, 2)) @ W_O, (K, V)


def extend_cache__right_tenth_old_and_new_apart(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Scores the cache and the new tokens apart, a triangle for the latter alone, and shares one denominator."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads does not divide n_heads")
    r = n_heads // n_kv_heads
    batch, n_new, _ = X_new.shape
    d = W_Q.shape[1] // n_heads
    K_old, V_old = cache
    k, v = ((X_new @ W).reshape(batch, n_new, n_kv_heads, d).transpose(1, 2) for W in (W_K, W_V))
    q = (X_new @ W_Q).reshape(batch, n_new, n_kv_heads, r, d).permute(0, 2, 1, 3, 4)
    q = q.reshape(batch, n_kv_heads, n_new * r, d) * d**-0.5
    to_old, to_new = q @ K_old.transpose(2, 3), q @ k.transpose(2, 3)
    token = torch.arange(n_new, device=X_new.device)
    future = token[None, :] > token.repeat_interleave(r)[:, None]
    to_new = to_new.masked_fill(future, float("-inf"))
    highest = to_new.detach().amax(dim=-1, keepdim=True)
    if K_old.shape[2]:
        highest = torch.maximum(highest, to_old.detach().amax(dim=-1, keepdim=True))
    to_old, to_new = torch.exp(to_old - highest), torch.exp(to_new - highest)
    mixed = to_old @ V_old + to_new @ v
    mixed = mixed / (to_old.sum(dim=-1, keepdim=True) + to_new.sum(dim=-1, keepdim=True))
    mixed = mixed.reshape(batch, n_kv_heads, n_new, r * d).transpose(1, 2).reshape(batch, n_new, -1)
    return mixed @ W_O, (torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2))
