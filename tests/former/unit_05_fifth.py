"""Answers to the exercises of unit 5 (MQA and GQA), as students would hand them in: four wrong and one right for each."""

import math

import torch


def _split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _repeat_kv(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


# 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_fifth_in_floats(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Multiplies floats and rounds at the end: a very large cache is no longer exact."""
    numbers = 2.0
    for size in (n_layers, n_kv_heads, d_head, n_tokens, batch):
        numbers *= size
    return int(round(numbers * bytes_per_value))


def kv_cache_bytes__wrong_fifth_whole_pages_of_16_tokens(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Rounds the tokens up to whole pages of 16, as servers hand out their memory."""
    pages = (n_tokens + 15) // 16
    per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_value
    return batch * pages * 16 * per_token


def kv_cache_bytes__wrong_fifth_queries_counted_too(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Counts queries, keys and values, three tensors in place of two."""
    kept = ("queries", "keys", "values")
    one = n_layers * n_kv_heads * d_head * n_tokens * batch
    return sum(one * bytes_per_value for _ in kept)


def kv_cache_bytes__wrong_fifth_newest_token_not_counted(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Counts n_tokens - 1, as if the newest token were not kept."""
    kept_tokens = max(n_tokens - 1, 0)
    return math.prod(
        [2, n_layers, n_kv_heads, d_head, kept_tokens, batch, bytes_per_value]
    )


# 5.2 repeat_kv


def repeat_kv__wrong_fifth_so_many_more(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Puts n_rep copies behind each head, so that it stands there n_rep + 1 times."""
    laid_out = []
    for head in K.unbind(dim=1):
        laid_out.append(head)
        for _ in range(n_rep):
            laid_out.append(head)
    return torch.stack(laid_out, dim=1)


def repeat_kv__wrong_fifth_n_rep_taken_for_h(
    K: torch.Tensor, n_rep: int
) -> torch.Tensor:
    """Takes n_rep for the number of query heads and repeats each head max(1, n_rep // g) times."""
    g = K.shape[1]
    share = max(1, n_rep // g)
    return torch.repeat_interleave(K, share, dim=1)


def repeat_kv__wrong_fifth_copies_detached(
    K: torch.Tensor, n_rep: int
) -> torch.Tensor:
    """Detaches all copies but the first of each head, so that gradients of only one query head arrive."""
    first = K.unsqueeze(2)
    copies = first.detach().expand(-1, -1, n_rep - 1, -1, -1)
    return torch.cat([first, copies], dim=2).flatten(1, 2)


def repeat_kv__wrong_fifth_tokens_repeated_then_reshaped(
    K: torch.Tensor, n_rep: int
) -> torch.Tensor:
    """Repeats along the tokens and reshapes to the wanted shape: each copy holds a part of the tokens, several times."""
    B, g, n, d = K.shape
    return K.repeat_interleave(n_rep, dim=2).reshape(B, g * n_rep, n, d)


def repeat_kv__right_fifth_heads_chosen_by_number(
    K: torch.Tensor, n_rep: int
) -> torch.Tensor:
    """Chooses for output head a the input head a // n_rep with index_select."""
    heads = torch.arange(K.shape[1] * n_rep, device=K.device)
    source = torch.div(heads, n_rep, rounding_mode="floor")
    return K.index_select(1, source)


# 5.3 grouped_query_attention


def grouped_query_attention__wrong_fifth_last_group_takes_the_rest(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where g does not divide h it lets the last key/value head serve the heads that are left, and raises nothing."""
    r = max(1, n_heads // n_kv_heads)
    reads = [min(a // r, n_kv_heads - 1) for a in range(n_heads)]
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads)[:, reads]
    V = _split_heads(X @ W_V, n_kv_heads)[:, reads]
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(weights @ V) @ W_O


def grouped_query_attention__wrong_fifth_one_table_per_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Averages the queries of a group, so that all its heads share the scores and not only keys and values."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    Q = Q.unflatten(1, (n_kv_heads, r)).mean(dim=2)
    Q = Q.repeat_interleave(r, dim=1)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), r)
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), r)
    scores = Q @ K.transpose(-2, -1) / math.sqrt(K.size(-1))
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__wrong_fifth_mask_chosen_by_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Looks the mask of query head a up under the number of its group, a // r, in place of a."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads must divide n_heads")
    (B, n, _), r = X.shape, n_heads // n_kv_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    outputs = []
    for a in range(n_heads):
        group = a // r
        S = Q[:, a] @ K[:, group].mT / Q.shape[-1] ** 0.5
        A = _masked_softmax(S, None if mask is None else mask[:, group])
        outputs.append(A @ V[:, group])
    return torch.cat(outputs, dim=-1) @ W_O


def grouped_query_attention__wrong_fifth_hidden_scores_of_minus_1000(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Fills forbidden scores with -1000, which is above allowed scores of -1e4: there the forbidden keys get the weight."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} query heads, {n_kv_heads} key/value heads")
    q = _split_heads(X.matmul(W_Q), n_heads)
    k, v = (
        _repeat_kv(_split_heads(X.matmul(W), n_kv_heads), n_heads // n_kv_heads)
        for W in (W_K, W_V)
    )
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[3])
    if mask is not None:
        scores = scores.masked_fill(~mask, -1000.0)
    out = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
    return _merge_heads(out) @ W_O


def grouped_query_attention__right_fifth_groups_as_an_axis(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Cuts the weights themselves into (g, r, d_head) and does all in einsums with an axis for groups and one for their heads."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    g, r = n_kv_heads, n_heads // n_kv_heads
    B, n, _ = X.shape
    q = torch.einsum("bnm,mgrd->bgrnd", X, W_Q.unflatten(1, (g, r, -1)))
    k = torch.einsum("bnm,mgd->bgnd", X, W_K.unflatten(1, (g, -1)))
    v = torch.einsum("bnm,mgd->bgnd", X, W_V.unflatten(1, (g, -1)))
    s = torch.einsum("bgrid,bgjd->bgrij", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        allowed = mask.expand(B, n_heads, n, n).unflatten(1, (g, r))
        s = torch.where(allowed, s, -math.inf)
    weights = torch.softmax(s, dim=-1)
    return torch.einsum(
        "bgrij,bgjd,grdm->bim", weights, v, W_O.unflatten(0, (g, r, -1))
    )


# 5.4 multi_query_attention


def multi_query_attention__wrong_fifth_keys_serve_as_values(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes “one head of keys and values” for one tensor that is both: X W_K is mixed too, and W_V is not used."""
    kv = (X @ W_K)[:, None]  # (B, 1, n, d_head)
    Q = _split_heads(X @ W_Q, n_heads)
    weights = _masked_softmax(Q @ kv.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(weights @ kv) @ W_O


def multi_query_attention__wrong_fifth_keys_of_the_first_sequence(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Indexes K and V with [0] to get a plain matrix, so that all sequences read the first one's."""
    K, V = (X @ W_K)[0], (X @ W_V)[0]  # (n, d_head)
    Q = _split_heads(X @ W_Q, n_heads)
    S = Q @ K.T / K.shape[-1] ** 0.5
    return _merge_heads(_masked_softmax(S, mask) @ V) @ W_O


def multi_query_attention__wrong_fifth_one_head_for_the_mask_too(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Keeps only head 0 of a mask (B, h, n, n), as if all query heads shared the mask like the keys."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    rows = _split_heads(X @ W_Q, n_heads).flatten(1, 2)  # (B, h*n, d_head)
    scores = rows @ (X @ W_K).mT / math.sqrt(d_head)
    scores = scores.unflatten(1, (n_heads, n))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)[:, :1]
    weights = _masked_softmax(scores, mask).flatten(1, 2)
    heads = (weights @ (X @ W_V)).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_fifth_stacked_once_per_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Stacks keys and values n_heads times: the right numbers, with the copies that must not be made."""
    K = torch.stack([X @ W_K] * n_heads, dim=1)
    V = torch.stack([X @ W_V] * n_heads, dim=1)
    Q = _split_heads(X @ W_Q, n_heads)
    A = _masked_softmax(torch.matmul(Q, K.mT) / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(torch.matmul(A, V)) @ W_O


def multi_query_attention__right_fifth_head_after_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Loops over the query heads, which all meet the same (B, n, d_head), and adds up what each writes through its rows of W_O."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d_head = K.shape[-1]
    out = 0
    for a in range(n_heads):
        own = slice(a * d_head, (a + 1) * d_head)
        scores = (X @ W_Q[:, own]) @ K.mT / math.sqrt(d_head)
        if mask is not None:
            scores = scores.masked_fill(~mask.expand(B, n_heads, n, n)[:, a], -math.inf)
        out = out + torch.softmax(scores, dim=-1) @ V @ W_O[own]
    return out


# 5.5 decode_step


def decode_step__wrong_fifth_scaled_keys_kept(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Divides a new key by sqrt(d_head) once and keeps it so: the cache holds keys of another size."""
    r = n_heads // n_kv_heads
    k_new = _split_heads(x @ W_K, n_kv_heads)
    k_new = k_new / math.sqrt(k_new.shape[-1])
    K = torch.cat([cache[0], k_new], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    q = _split_heads(x @ W_Q, n_heads).reshape(x.shape[0], n_kv_heads, r, -1)
    weights = torch.softmax(q @ K.mT, dim=-1)
    heads = (weights @ V).reshape(x.shape[0], n_heads, 1, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_fifth_cache_detached(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Detaches the longer cache before it is used and returned: no gradient reaches W_K, W_V and the tokens before."""
    longer = tuple(
        torch.cat((kept, _split_heads(x @ W, n_kv_heads)), dim=2).detach()
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    K, V = (_repeat_kv(one, n_heads // n_kv_heads) for one in longer)
    Q = _split_heads(x @ W_Q, n_heads)
    A = (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(dim=-1)
    return _merge_heads(A @ V) @ W_O, longer


def decode_step__wrong_fifth_first_token_passed_through(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Where the cache is empty it returns x itself as out, as if there were nothing to attend to."""
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    if cache[0].shape[2] == 0:
        return x.clone(), (k, v)
    K, V = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
    queue = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).squeeze(3)
    scores = torch.einsum("bgrd,bgtd->bgrt", queue, K) / math.sqrt(K.shape[-1])
    heads = torch.einsum("bgrt,bgtd->bgrd", scores.softmax(-1), V)
    return heads.flatten(1)[:, None] @ W_O, (K, V)


def decode_step__wrong_fifth_only_the_last_four_kept(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Keeps a window of the last four tokens, as models with sliding windows do, and forgets older ones."""
    window = 4
    K, V = cache
    K = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=2)[:, :, -window:]
    V = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=2)[:, :, -window:]
    Q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
    heads = (weights @ V).flatten(1, 2).unsqueeze(2)
    return _merge_heads(heads) @ W_O, (K, V)


def decode_step__right_fifth_old_and_new_scored_apart(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Scores the kept tokens and the new one apart, one softmax over both, and mixes their values apart."""
    K_old, V_old = cache
    t = K_old.shape[2]
    k = _split_heads(x @ W_K, n_kv_heads)  # (B, g, 1, d_head)
    v = _split_heads(x @ W_V, n_kv_heads)
    q = (x @ W_Q)[:, 0].unflatten(-1, (n_kv_heads, n_heads // n_kv_heads, -1))
    q = q / math.sqrt(q.shape[-1])  # (B, g, r, d_head)
    A = torch.cat([q @ K_old.mT, q @ k.mT], dim=-1).softmax(dim=-1)
    mixed = A[..., :t] @ V_old + A[..., t:] * v
    out = mixed.flatten(1)[:, None, :] @ W_O
    return out, (torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2))


# 5.6 pool_kv_heads


def pool_kv_heads__wrong_fifth_divided_by_the_root(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Divides the sum of a group by sqrt(r), to keep the variance of independent heads, in place of r."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    return (heads.sum(dim=2) / math.sqrt(r)).flatten(1)


def pool_kv_heads__wrong_fifth_mean_written_back_to_all(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Writes the mean of a group into each of its heads, so that the result is still (d_model, h*d_head)."""
    r = n_heads // n_kv_heads
    blocks = W.chunk(n_heads, dim=1)
    out = []
    for a in range(n_heads):
        group = a // r
        out.append(torch.stack(blocks[group * r : (group + 1) * r]).mean(dim=0))
    return torch.cat(out, dim=1)


def pool_kv_heads__wrong_fifth_halves_again_and_again(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Takes (mean so far + next head) / 2: with more than two heads in a group later ones weigh more."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    pooled = []
    for s in range(n_kv_heads):
        start = s * r * d_head
        mean = W[:, start : start + d_head]
        for a in range(1, r):
            head = W[:, start + a * d_head : start + (a + 1) * d_head]
            mean = (mean + head) / 2
        pooled.append(mean)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_fifth_summed_up_in_the_first_head(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Adds the heads of a group onto a view of the first with +=, which changes W itself."""
    heads = W.view(W.shape[0], n_kv_heads, n_heads // n_kv_heads, -1)
    total = heads[:, :, 0]
    for a in range(1, heads.shape[2]):
        total += heads[:, :, a]
    return total.reshape(W.shape[0], -1) / heads.shape[2]


def pool_kv_heads__right_fifth_one_product_with_a_pooling_matrix(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Multiplies by a matrix (h*d_head, g*d_head) that holds 1/r where head and group belong together and the columns agree."""
    r, d_head = n_heads // n_kv_heads, W.shape[1] // n_heads
    eye_g = torch.eye(n_kv_heads, dtype=W.dtype, device=W.device)
    eye_d = torch.eye(d_head, dtype=W.dtype, device=W.device)
    belongs = eye_g.repeat_interleave(r, dim=0) / r  # (h, g)
    return W @ torch.kron(belongs, eye_d)


# 5.7 extend_cache


def extend_cache__wrong_fifth_mask_cut_from_the_full_square(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Makes the causal mask of all (t + n_new)**2 pairs and cuts off its last rows: it grows with the square of the cache."""
    n_new = X_new.shape[1]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    n, r = K.shape[2], n_heads // n_kv_heads
    mask = torch.ones(n, n, dtype=torch.bool).tril()[-n_new:]
    rows = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = (rows @ K.mT / math.sqrt(K.shape[-1])).unflatten(2, (r, n_new))
    weights = _masked_softmax(scores, mask).flatten(2, 3)
    heads = (weights @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_fifth_mask_rows_repeated_one_by_one(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The queue holds head after head, but its mask repeats row by row (repeat_interleave): rows get another token's mask."""
    B, n_new, _ = X_new.shape
    g, r, t = n_kv_heads, n_heads // n_kv_heads, cache[0].shape[2]
    K, V = (
        torch.cat([kept, _split_heads(X_new @ W, g)], dim=2)
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, r * n_new, -1)
    seen = torch.arange(t + n_new) <= t + torch.arange(n_new)[:, None]
    seen = seen.repeat_interleave(r, dim=0)
    A = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]), seen)
    heads = (A @ V).reshape(B, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_fifth_new_ones_do_not_see_each_other(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Lets each new token see the cache and itself but no earlier new one, like so many single steps from the same cache."""
    n_new, t = X_new.shape[1], cache[0].shape[2]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    old = torch.ones(n_new, t, dtype=torch.bool)
    mask = torch.cat([old, torch.eye(n_new, dtype=torch.bool)], dim=1)
    q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    s = torch.einsum("bgrid,bgjd->bgrij", q, K) / math.sqrt(q.shape[-1])
    heads = torch.einsum("bgrij,bgjd->bgrid", _masked_softmax(s, mask), V)
    return _merge_heads(heads.flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_fifth_two_softmaxes_averaged(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Attends to the cache and to the new tokens with a softmax each, and takes half of both results."""
    K_old, V_old = cache
    n_new = X_new.shape[1]
    k, v = _split_heads(X_new @ W_K, n_kv_heads), _split_heads(X_new @ W_V, n_kv_heads)
    q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    q = q / math.sqrt(q.shape[-1])
    causal = torch.ones(n_new, n_new, dtype=torch.bool).tril()
    new = torch.einsum("bgrid,bgjd->bgrij", q, k)
    heads = torch.einsum("bgrij,bgjd->bgrid", _masked_softmax(new, causal), v)
    if K_old.shape[2] > 0:
        old = torch.einsum("bgrid,bgjd->bgrij", q, K_old).softmax(dim=-1)
        heads = (heads + torch.einsum("bgrij,bgjd->bgrid", old, V_old)) / 2
    longer = (torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2))
    return _merge_heads(heads.flatten(1, 2)) @ W_O, longer


def extend_cache__right_fifth_each_token_with_a_beginning_of_the_keys(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Extends the cache at once, projects all queries at once, and gives token i a view of the first t + i + 1 keys, without a mask."""
    t, g = cache[0].shape[2], n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, g)], dim=2)
    queries = (X_new @ W_Q).unflatten(-1, (g, n_heads // g, -1))  # (B, n_new, g, r, d)
    queries = queries / math.sqrt(queries.shape[-1])
    rows = []
    for i, q in enumerate(queries.unbind(dim=1)):
        end = t + i + 1
        A = torch.softmax(q @ K[:, :, :end].mT, dim=-1)  # (B, g, r, end)
        rows.append((A @ V[:, :, :end]).flatten(1))
    return torch.stack(rows, dim=1) @ W_O, (K, V)
