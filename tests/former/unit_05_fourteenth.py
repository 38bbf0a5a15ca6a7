"""Answers to the exercises of unit 5, wrong ones and right ones, as students would write them."""

import math
from functools import reduce
from operator import mul

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head). Each head is a block of columns."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head), the way back."""
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    """Weights: the softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _repeat_kv(K, n_rep):
    """(B, g, n, d) -> (B, g*n_rep, n, d), neighbours share."""
    return K.repeat_interleave(n_rep, dim=1)


def _corner_mask(t, n_new):
    """(n_new, t + n_new) booleans: new token r may attend to the columns 0 ... t + r."""
    return torch.arange(t + n_new) <= torch.arange(n_new)[:, None] + t


# ------- 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_fourteenth_one_tensor_for_both(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Thinks that keys and values lie in one tensor and counts it once; there are two, so a factor 2 is due."""
    numbers = n_layers * n_kv_heads * d_head * n_tokens * batch
    return numbers * bytes_per_value


def kv_cache_bytes__wrong_fourteenth_queries_kept_too(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Believes that queries are kept as well and counts three tensors; only keys and values are kept."""
    kept = ["queries", "keys", "values"]
    per_token = len(kept) * n_kv_heads * d_head * bytes_per_value
    return n_layers * per_token * n_tokens * batch


def kv_cache_bytes__wrong_fourteenth_a_cache_per_step(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Adds up the caches of all steps, 1 + 2 + ... + n tokens, as if each were kept; only the last exists, n tokens."""
    tokens = sum(range(n_tokens + 1))
    return 2 * n_layers * n_kv_heads * d_head * tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_fourteenth_batch_left_out(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Forgets to multiply by batch; each of the sequences has a cache of its own."""
    per_head = 2 * d_head * bytes_per_value
    per_layer = per_head * n_kv_heads
    return per_layer * n_layers * n_tokens


def kv_cache_bytes__wrong_fourteenth_two_bytes_fixed(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Writes 2 bytes for each number instead of bytes_per_value; float32 takes 4."""
    return 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * 2


def kv_cache_bytes__wrong_fourteenth_whole_kilobytes(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Reads memory as a size in whole units of 1024 and rounds up to the next; the exact bytes are asked for."""
    exact = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value
    return -(-exact // 1024) * 1024


def kv_cache_bytes__wrong_fourteenth_at_least_one_token(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Counts at least one token, for a cache is never empty; n_tokens may be 0, and the result is 0 then."""
    n_tokens = max(1, n_tokens)
    return reduce(mul, [2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value])


def kv_cache_bytes__wrong_fourteenth_float_on_the_way(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Multiplies in gigabytes as floats and goes back to an int; it should be exact at any size."""
    gigabytes_per_token = 2.0 * n_layers * n_kv_heads * d_head * bytes_per_value / 1e9
    return int(round(gigabytes_per_token * n_tokens * batch * 1e9))


def kv_cache_bytes__right_fourteenth_product_of_shape(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Writes down the shape of one tensor of all keys and values, and multiplies its axes."""
    shape = (n_layers, len(("K", "V")), batch, n_kv_heads, n_tokens, d_head)
    return math.prod(shape, start=bytes_per_value)


# ------- 5.2 repeat_kv


def repeat_kv__wrong_fourteenth_whole_row_again(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Believes that repeat lays each head down n_rep times; it gives a, b, a, b where a, a, b, b is due."""
    return K.repeat(1, n_rep, 1, 1)


def repeat_kv__wrong_fourteenth_shares_divided(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Thinks that a shared head has to be divided among its readers, K / n_rep; each gets the whole of it."""
    B, g, n, d = K.shape
    wide = K.unsqueeze(2).expand(B, g, n_rep, n, d)
    return wide.reshape(B, g * n_rep, n, d) / n_rep


def repeat_kv__wrong_fourteenth_tokens_repeated(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats every token n_rep times and cuts the long axis into heads; heads, not tokens, are to be repeated."""
    B, g, n, d = K.shape
    longer = torch.repeat_interleave(K, n_rep, dim=2)
    return longer.view(B, g * n_rep, n, d)


def repeat_kv__wrong_fourteenth_stacked_on_axis_zero(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Collects the heads in the right order but stacks them on axis 0; they belong on axis 1."""
    heads = []
    for head in K.unbind(dim=1):
        heads.extend([head] * n_rep)
    return torch.stack(heads)


def repeat_kv__wrong_fourteenth_one_copy_too_many(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Lays down each head and then n_rep copies of it; n_rep in all are due."""
    pieces = []
    for s in range(K.shape[1]):
        one = K[:, s : s + 1]
        pieces.append(one)
        for _ in range(n_rep):
            pieces.append(one)
    return torch.cat(pieces, dim=1)


def repeat_kv__wrong_fourteenth_n_rep_as_h(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Reads n_rep as the number of query heads that come out; it says how many share one key/value head."""
    g = K.shape[1]
    times = max(n_rep // g, 1)
    which = torch.arange(g).repeat_interleave(times)
    return K[:, which]


def repeat_kv__wrong_fourteenth_axis_left_for_one(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Joins the new axis only where there is more than one copy; n_rep = 1 should give (B, g, n, d) too."""
    wide = K[:, :, None]  # (B, g, 1, n, d)
    if n_rep > 1:
        wide = wide.expand(-1, -1, n_rep, -1, -1).flatten(1, 2)
    return wide


def repeat_kv__wrong_fourteenth_data_without_gradient(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Copies from K.data, which cuts the gradient off; gradients should flow to the shared head."""
    B, g, n, d = K.shape
    out = K.new_empty(B, g * n_rep, n, d)
    for a in range(g * n_rep):
        out[:, a] = K.data[:, a // n_rep]
    return out


def repeat_kv__right_fourteenth_floor_of_head_numbers(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Numbers the output heads and picks input head a // n_rep for each, in one call."""
    a = torch.arange(K.size(1) * n_rep, device=K.device)
    return K.index_select(1, torch.div(a, n_rep, rounding_mode="floor"))


# ------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_fourteenth_heads_in_turn(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks that query head a reads key/value head a % g; neighbours share, so a // (h / g) is due."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads for {n_heads} query heads")
    Q = _split_heads(X @ W_Q, n_heads)
    reads = [a % n_kv_heads for a in range(n_heads)]
    K = _split_heads(X @ W_K, n_kv_heads)[:, reads]
    V = _split_heads(X @ W_V, n_kv_heads)[:, reads]
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_fourteenth_one_table_per_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Believes that a group shares its queries too, and takes their mean; each query head should ask for itself."""
    r, rest = divmod(n_heads, n_kv_heads)
    if rest:
        raise ValueError("g must divide h")
    q = _split_heads(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).mean(dim=2)
    q = _repeat_kv(q, r)
    k, v = (_repeat_kv(_split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    return _merge_heads(_masked_softmax(scores, mask) @ v) @ W_O


def grouped_query_attention__wrong_fourteenth_root_of_key_columns(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes all columns of W_K for the length of a key and divides by sqrt(g*d_head); sqrt(d_head) is due."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"n_kv_heads = {n_kv_heads} does not divide n_heads = {n_heads}")
    d_key = W_K.shape[1]
    queries = _split_heads(X @ W_Q, n_heads)
    keys = _split_heads(X @ W_K, n_kv_heads)
    values = _split_heads(X @ W_V, n_kv_heads)
    in_groups = queries.unflatten(1, (n_kv_heads, -1))
    scores = (in_groups @ keys.mT.unsqueeze(2)).flatten(1, 2) / d_key**0.5
    weights = _masked_softmax(scores, mask).unflatten(1, (n_kv_heads, -1))
    return _merge_heads((weights @ values.unsqueeze(2)).flatten(1, 2)) @ W_O


def grouped_query_attention__wrong_fourteenth_values_tiled(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lays out the keys with repeat_interleave but the values with repeat; both should go to neighbours."""
    if n_heads % n_kv_heads > 0:
        raise ValueError("the key/value heads cannot be shared evenly")
    n_rep = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads).repeat_interleave(n_rep, dim=1)
    V = _split_heads(X @ W_V, n_kv_heads).repeat(1, n_rep, 1, 1)
    scores = Q @ K.transpose(-1, -2) / math.sqrt(K.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return _merge_heads(scores.softmax(-1) @ V) @ W_O


def grouped_query_attention__wrong_fourteenth_checks_d_model(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Tests whether h divides d_model, which it need not; the test should be whether g divides h."""
    B, n, d_model = X.shape
    if d_model % n_heads:
        raise ValueError(f"{n_heads} heads do not divide {d_model}")
    d = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, n_heads, d).transpose(1, 2)
    K = (X @ W_K).reshape(B, n, n_kv_heads, d).transpose(1, 2)
    V = (X @ W_V).reshape(B, n, n_kv_heads, d).transpose(1, 2)
    K, V = (_repeat_kv(T, n_heads // n_kv_heads) for T in (K, V))
    weights = _masked_softmax(Q @ K.mT / d**0.5, mask)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O


def grouped_query_attention__wrong_fourteenth_true_means_forbidden(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads True in the mask as forbidden, as PyTorch's layer does; in this unit True means may attend."""
    B, n, _ = X.shape
    if n_heads % n_kv_heads:
        raise ValueError("g does not divide h")
    r = n_heads // n_kv_heads
    d = W_Q.shape[1] // n_heads
    forbidden = torch.zeros(B, n_heads, n, n, dtype=torch.bool) if mask is None else mask.expand(B, n_heads, n, n)
    outputs = []
    for a in range(n_heads):
        s = a // r
        q, k, v = X @ W_Q[:, a * d : (a + 1) * d], X @ W_K[:, s * d : (s + 1) * d], X @ W_V[:, s * d : (s + 1) * d]
        outputs.append(_masked_softmax(q @ k.mT / math.sqrt(d), ~forbidden[:, a]) @ v)
    return torch.cat(outputs, dim=-1) @ W_O


def grouped_query_attention__wrong_fourteenth_mask_lost_for_mha(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes a short way for g = h, plain multi-head attention, and forgets the mask there; it holds for every g."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    q = _split_heads(X @ W_Q, n_heads)
    k = _split_heads(X @ W_K, n_kv_heads)
    v = _split_heads(X @ W_V, n_kv_heads)
    root = math.sqrt(q.size(-1))
    if n_kv_heads == n_heads:
        return _merge_heads(torch.softmax(q @ k.mT / root, dim=-1) @ v) @ W_O
    n_rep = n_heads // n_kv_heads
    weights = _masked_softmax(q @ _repeat_kv(k, n_rep).mT / root, mask)
    return _merge_heads(weights @ _repeat_kv(v, n_rep)) @ W_O


def grouped_query_attention__wrong_fourteenth_enable_gqa(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hands everything to F.scaled_dot_product_attention with enable_gqa, which an answer may not call."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads must divide n_heads")
    found = F.scaled_dot_product_attention(
        _split_heads(X @ W_Q, n_heads),
        _split_heads(X @ W_K, n_kv_heads),
        _split_heads(X @ W_V, n_kv_heads),
        attn_mask=mask,
        enable_gqa=True,
    )
    return _merge_heads(found) @ W_O


def grouped_query_attention__right_fourteenth_group_after_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Works group by group, cuts the weights and not the heads, and adds what each group writes through its rows."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads cannot serve {n_heads} query heads evenly")
    (B, n, _), r = X.shape, n_heads // n_kv_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    blocks = zip(*(W.chunk(n_kv_heads, dim=1) for W in (W_Q, W_K, W_V)), W_O.chunk(n_kv_heads), strict=True)
    total = 0
    for s, (w_q, w_k, w_v, w_o) in enumerate(blocks):
        queries = torch.einsum("bnm,mrd->brnd", X, w_q.unflatten(1, (r, -1)))
        scores = torch.einsum("brid,bjd->brij", queries, X @ w_k) / math.sqrt(w_k.shape[1])
        own = None if mask is None else mask[:, s * r : (s + 1) * r]
        mixed = torch.einsum("brij,bjd->brid", _masked_softmax(scores, own), X @ w_v)
        total = total + torch.einsum("brid,rdm->bim", mixed, w_o.unflatten(0, (r, -1)))
    return total


# ------- 5.4 multi_query_attention


def multi_query_attention__wrong_fourteenth_queries_averaged(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks one head of keys takes one query, the mean of all heads' scores; each head should keep its own scores."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = X @ W_K, X @ W_V
    scores = (Q @ K.unsqueeze(1).mT / math.sqrt(K.shape[-1])).mean(dim=1, keepdim=True)
    scores = scores.expand(-1, n_heads, -1, -1)
    return _merge_heads(_masked_softmax(scores, mask) @ V.unsqueeze(1)) @ W_O


def multi_query_attention__wrong_fourteenth_keys_serve_as_values(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes sharing keys and values to mean that they are the same, and mixes keys; X @ W_V should be mixed."""
    q = (X @ W_Q).unflatten(2, (n_heads, -1))  # (B, n, h, d_head)
    shared = X @ W_K
    s = torch.einsum("bihd,bjd->bhij", q, shared) / math.sqrt(shared.shape[2])
    a = _masked_softmax(s, mask)
    return torch.einsum("bhij,bjd->bihd", a, shared).flatten(2) @ W_O


def multi_query_attention__wrong_fourteenth_root_of_all_queries(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Believes that the one key meets all h*d_head query numbers and divides by that root; sqrt(d_head) is due."""
    B, n, _ = X.shape
    projected = X @ W_Q
    scale = 1 / math.sqrt(projected.shape[-1])
    rows = _split_heads(projected, n_heads).flatten(1, 2)  # (B, h*n, d_head)
    scores = (scale * rows @ (X @ W_K).mT).unflatten(1, (n_heads, n))
    weights = _masked_softmax(scores, mask).flatten(1, 2)
    heads = (weights @ (X @ W_V)).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_fourteenth_queue_cut_the_other_way(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Queues the queries token by token and cuts the queue as if head by head; both should have one order."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    queue = (X @ W_Q).reshape(B, n * n_heads, d_head)
    scores = torch.bmm(queue, (X @ W_K).mT) / math.sqrt(d_head)
    scores = scores.reshape(B, n_heads, n, n)
    weights = _masked_softmax(scores, mask).reshape(B, n_heads * n, n)
    heads = torch.bmm(weights, X @ W_V).reshape(B, n_heads, n, d_head)
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_fourteenth_glued_by_reshape(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Glues (B, h, n, d_head) by a reshape to (B, n, h*d_head); heads and tokens have to change places first."""
    B, n, d_model = X.shape
    q = _split_heads(torch.matmul(X, W_Q), n_heads)
    k = torch.matmul(X, W_K)[:, None]
    v = torch.matmul(X, W_V)[:, None]
    scores = torch.matmul(q, k.transpose(2, 3)).div(k.shape[-1] ** 0.5)
    out = torch.matmul(_masked_softmax(scores, mask), v)
    return out.reshape(B, n, -1).matmul(W_O)


def multi_query_attention__wrong_fourteenth_divided_by_d_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Overlooks the root and divides the scores by d_head; sqrt(d_head) is written."""
    n = X.shape[1]
    d_head = W_K.shape[-1]
    Q_rows = _split_heads(X @ W_Q / d_head, n_heads).flatten(1, 2)
    S = (Q_rows @ (X @ W_K).transpose(1, 2)).unflatten(1, (-1, n))
    A = _masked_softmax(S, mask)
    O_rows = A.flatten(1, 2) @ (X @ W_V)
    return _merge_heads(O_rows.unflatten(1, (-1, n))) @ W_O


def multi_query_attention__wrong_fourteenth_single_token_first_rows(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """For one token returns its value times the first d_head rows of W_O; all heads write, each by its own rows."""
    n, d_head = X.shape[1], W_K.shape[1]
    V = X @ W_V
    if n == 1:  # it can only attend to itself
        return V @ W_O[:d_head]
    K = X @ W_K
    output = 0
    for r in range(n_heads):
        own = slice(r * d_head, (r + 1) * d_head)
        scores = X @ W_Q[:, own] @ K.mT / math.sqrt(d_head)
        allowed = None if mask is None else mask.expand(len(X), n_heads, n, n)[:, r]
        output = output + _masked_softmax(scores, allowed) @ V @ W_O[own]
    return output


def multi_query_attention__wrong_fourteenth_keys_laid_out(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lays out keys and values once per head with repeat_interleave; no call may return such a tensor."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = (X @ W_K)[:, None].repeat_interleave(n_heads, dim=1)
    V = (X @ W_V)[:, None].repeat_interleave(n_heads, dim=1)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(weights @ V) @ W_O


def multi_query_attention__right_fourteenth_keys_never_made(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sends the queries through W_K back to the tokens, and mixes tokens before W_V; no K and no V arises at all."""
    n = X.shape[1]
    asked = _split_heads(X @ W_Q, n_heads).flatten(1, 2) @ W_K.mT  # (B, h*n, d_model)
    scores = (asked @ X.mT / math.sqrt(W_K.shape[1])).unflatten(1, (n_heads, n))
    mixture = _masked_softmax(scores, mask).flatten(1, 2) @ X  # (B, h*n, d_model)
    return _merge_heads((mixture @ W_V).unflatten(1, (n_heads, n))) @ W_O


# ------- 5.5 decode_step


def decode_step__wrong_fourteenth_looks_before_growing(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Thinks that a token looks at the past only, so the cache grows after the look; it should see itself too."""
    old_K, old_V = cache
    n_rep = n_heads // n_kv_heads
    q = _split_heads(x @ W_Q, n_heads)
    scores = q @ _repeat_kv(old_K, n_rep).mT / math.sqrt(q.shape[-1])
    out = _merge_heads(scores.softmax(dim=-1) @ _repeat_kv(old_V, n_rep)) @ W_O
    K = torch.cat([old_K, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([old_V, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    return out, (K, V)


def decode_step__wrong_fourteenth_triangle_on_one_row(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Believes that every pass needs a causal mask; tril of one row leaves key 0 alone, and all keys are due."""
    new = [_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V)]
    K, V = (torch.cat(pair, dim=2) for pair in zip(cache, new, strict=True))
    queue = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)  # (B, g, r, d_head)
    scores = queue @ K.mT / math.sqrt(K.shape[-1])  # (B, g, r, t+1)
    causal = torch.ones(1, K.shape[2], dtype=torch.bool).tril()
    heads = _masked_softmax(scores, causal) @ V
    return _merge_heads(heads.flatten(1, 2).unsqueeze(2)) @ W_O, (K, V)


def decode_step__wrong_fourteenth_query_heads_in_turn(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Deals the query heads out to the groups in turn, head a to group a % g; neighbours form a group."""
    B = x.shape[0]
    d = W_Q.shape[1] // n_heads
    k = (x @ W_K).view(B, n_kv_heads, 1, d)
    v = (x @ W_V).view(B, n_kv_heads, 1, d)
    K, V = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
    q = (x @ W_Q).view(B, n_heads // n_kv_heads, n_kv_heads, d)  # (B, r, g, d)
    weights = torch.softmax(torch.einsum("brgd,bgtd->brgt", q, K) / d**0.5, dim=-1)
    heads = torch.einsum("brgt,bgtd->brgd", weights, V)
    return heads.reshape(B, 1, n_heads * d) @ W_O, (K, V)


def decode_step__wrong_fourteenth_newest_in_front(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Puts the new key and value in front of the kept ones; out is right, but the oldest token should come first."""
    K = torch.cat([_split_heads(x @ W_K, n_kv_heads), cache[0]], dim=2)
    V = torch.cat([_split_heads(x @ W_V, n_kv_heads), cache[1]], dim=2)
    r = n_heads // n_kv_heads
    Q = _split_heads(x @ W_Q, n_heads)
    A = torch.softmax(Q @ _repeat_kv(K, r).mT / math.sqrt(Q.shape[-1]), dim=-1)
    return _merge_heads(A @ _repeat_kv(V, r)) @ W_O, (K, V)


def decode_step__wrong_fourteenth_keys_behind_values(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Puts the new key, by a wrong name, behind the kept values too; the new value x @ W_V is due there."""
    keys, values = cache
    new_key = _split_heads(x @ W_K, n_kv_heads)
    keys = torch.cat([keys, new_key], dim=2)
    values = torch.cat([values, new_key], dim=2)
    d_head = keys.shape[3]
    outputs = []
    for a in range(n_heads):
        s = a * n_kv_heads // n_heads
        query = x @ W_Q[:, a * d_head : (a + 1) * d_head]
        weights = torch.softmax(query @ keys[:, s].mT / math.sqrt(d_head), dim=-1)
        outputs.append(weights @ values[:, s])
    return torch.cat(outputs, dim=2) @ W_O, (keys, values)


def decode_step__wrong_fourteenth_three_things_back(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns out, K, V side by side; two things are asked for, and the second is the tuple (K, V)."""
    K, V = cache
    K = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).squeeze(3)
    a = torch.softmax(q @ K.mT / math.sqrt(K.size(-1)), dim=-1)
    out = (a @ V).flatten(1).unsqueeze(1) @ W_O
    return out, K, V


def decode_step__wrong_fourteenth_first_token_shortcut(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """For an empty cache lays the new value out as 0, 1, 0, 1, ... for the query heads; neighbours share then too."""
    k, v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    n_rep = n_heads // n_kv_heads
    if cache[0].shape[2] == 0:  # nothing to choose from: all weights are 1
        return (x @ W_V).repeat(1, 1, n_rep) @ W_O, (k, v)
    K, V = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    q = _split_heads(x @ W_Q, n_heads)
    scores = torch.einsum("bhod,bhtd->bhot", q, _repeat_kv(K, n_rep)) / math.sqrt(q.shape[-1])
    heads = torch.einsum("bhot,bhtd->bohd", scores.softmax(-1), _repeat_kv(V, n_rep))
    return heads.flatten(2) @ W_O, (K, V)


def decode_step__wrong_fourteenth_spare_room_shared(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Writes into spare room behind the cache it was given; two steps from one cache then overwrite each other."""

    def grow(kept, new):
        B, g, t, d = kept.shape
        if torch.is_grad_enabled() and (kept.requires_grad or new.requires_grad):
            return torch.cat([kept, new], dim=2)
        room = kept._base
        roomy = room is not None and room.dim() == 4 and room.shape[:2] == (B, g) and room.shape[2] > t
        if not roomy or room.stride() != kept.stride() or room.data_ptr() != kept.data_ptr():
            room = kept.new_empty(B, g, 2 * t + 8, d)
            room[:, :, :t] = kept
        room[:, :, t : t + 1] = new
        return room[:, :, : t + 1]

    K = grow(cache[0], _split_heads(x @ W_K, n_kv_heads))
    V = grow(cache[1], _split_heads(x @ W_V, n_kv_heads))
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    heads = torch.softmax(q @ K.mT / math.sqrt(q.shape[-1]), dim=-1) @ V
    return heads.flatten(1)[:, None] @ W_O, (K, V)


def decode_step__right_fourteenth_key_after_key(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Begins with the new token and adds the kept ones one by one, with a running maximum, sum and mixture."""
    new = [_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V)]
    grown = tuple(torch.cat([kept, one], dim=2) for kept, one in zip(cache, new, strict=True))
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)  # (B, g, r, d_head)
    q = q / math.sqrt(q.shape[-1])
    highest, total, mixed = None, None, None
    for k, v in zip(*(reversed(one.unbind(2)) for one in grown), strict=True):
        score = (q * k[:, :, None]).sum(dim=-1, keepdim=True)  # (B, g, r, 1)
        if highest is None:
            highest, total, mixed = score, (score - score).exp(), v[:, :, None].expand_as(q)
            continue
        top = torch.maximum(highest, score)
        old, now = (highest - top).exp(), (score - top).exp()
        highest, total, mixed = top, total * old + now, mixed * old + now * v[:, :, None]
    return (mixed / total).flatten(1).unsqueeze(1) @ W_O, grown


# ------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_fourteenth_first_head_kept(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Thinks that one head of a group can stand for it and keeps the first; the mean of all is due."""
    group = n_heads // n_kv_heads
    d_head = W.shape[1] // n_heads
    kept = [W[:, s * group * d_head : s * group * d_head + d_head] for s in range(n_kv_heads)]
    return torch.cat(kept, dim=1)


def pool_kv_heads__wrong_fourteenth_heads_dealt_out(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Pools the heads s, s + g, s + 2g, ... as if they were dealt out in turn; a group is made of neighbours."""
    heads = W.chunk(n_heads, dim=1)
    groups = [torch.stack(heads[s::n_kv_heads]).mean(dim=0) for s in range(n_kv_heads)]
    return torch.hstack(groups)


def pool_kv_heads__wrong_fourteenth_size_kept_by_root(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Divides the sum of a group by the root of its size, to keep the variance; the mean divides by the size."""
    r = n_heads // n_kv_heads
    total = W.unflatten(1, (n_kv_heads, r, -1)).sum(dim=2)
    return (total / math.sqrt(r)).flatten(1)


def pool_kv_heads__wrong_fourteenth_divided_by_g(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Adds the heads of a group and divides by g, the number of groups; h / g heads are in a group."""
    d_model, width = W.shape
    cube = W.reshape(d_model, n_kv_heads, n_heads // n_kv_heads, width // n_heads)
    summed = torch.einsum("mgrd->mgd", cube)
    return summed.reshape(d_model, -1) / n_kv_heads


def pool_kv_heads__wrong_fourteenth_first_head_skipped(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Begins the sum of a group with its second head, by a bound off by one; all heads of it count."""
    r, d_head = n_heads // n_kv_heads, W.shape[1] // n_heads
    result = W.new_zeros(W.shape[0], n_kv_heads * d_head)
    for s in range(n_kv_heads):
        mean = 0 * W[:, :d_head]
        for i in range(1, r):
            start = (s * r + i) * d_head
            mean = mean + W[:, start : start + d_head] / r
        result[:, s * d_head : (s + 1) * d_head] = mean
    return result


def pool_kv_heads__wrong_fourteenth_g_as_group_size(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Reads n_kv_heads as the number of heads that are pooled into one; it is how many remain."""
    d_head = W.shape[1] // n_heads
    parts = W.split(n_kv_heads * d_head, dim=1)
    means = [part.unflatten(1, (-1, d_head)).mean(dim=1) for part in parts]
    return torch.cat(means, dim=1)


def pool_kv_heads__wrong_fourteenth_mean_of_everything(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Takes the mean over all columns where g = 1; it is to be taken over heads, column by column, then too."""
    d_head = W.shape[1] // n_heads
    if n_kv_heads == 1:
        return W.mean(dim=1, keepdim=True).expand(-1, d_head)
    grouped = W.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, d_head))
    return grouped.mean(dim=2).flatten(1)


def pool_kv_heads__wrong_fourteenth_adds_into_w(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Adds the heads of a group into the first one, a view of W, and so changes W; inputs should stay as they are."""
    r = n_heads // n_kv_heads
    d_head = W.shape[1] // n_heads
    if W.requires_grad:
        W = W.clone()
    pooled = []
    for first in range(0, n_heads, r):
        block = W[:, first * d_head : (first + 1) * d_head]
        for a in range(first + 1, first + r):
            block += W[:, a * d_head : (a + 1) * d_head]
        pooled.append(block / r)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__right_fourteenth_matrix_product(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Writes the pooling as a matrix (h*d_head, g*d_head) of shares 1/r, by Kronecker products, and multiplies."""
    r, d_head = n_heads // n_kv_heads, W.shape[1] // n_heads
    kind = {"dtype": W.dtype, "device": W.device}
    share = torch.full((r, 1), 1 / r, **kind)
    pooling = torch.kron(torch.eye(n_kv_heads, **kind), torch.kron(share, torch.eye(d_head, **kind)))
    return W @ pooling


# ------- 5.7 extend_cache


def extend_cache__wrong_fourteenth_triangle_top_left(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Takes causal for row and column numbers: new token r sees the columns 0 ... r; 0 ... t + r are due."""
    B, n_new, _ = X_new.shape
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    scores = (queue @ K.mT / math.sqrt(K.shape[-1])).unflatten(2, (-1, n_new))
    causal = torch.ones(n_new, K.shape[2], dtype=torch.bool).tril()
    heads = _masked_softmax(scores, causal).flatten(2, 3) @ V
    return _merge_heads(heads.unflatten(2, (-1, n_new)).flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_fourteenth_no_mask_as_in_decoding(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Believes that a cache makes the mask needless, as in a step; later new tokens are to be hidden here."""
    B, n_new, _ = X_new.shape
    g = n_kv_heads
    new = (_split_heads(X_new @ W, g) for W in (W_K, W_V))
    K, V = (torch.cat(pair, dim=2) for pair in zip(cache, new, strict=True))
    d = K.shape[-1]
    rows = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, -1, d)
    weights = (rows @ K.mT / d**0.5).softmax(dim=-1)
    heads = (weights @ V).reshape(B, n_heads, n_new, d)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_fourteenth_blind_to_one_another(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Thinks that tokens sent together see the cache and themselves only; the earlier new ones are to be seen too."""
    t, n_new = cache[0].shape[2], X_new.shape[1]
    q = (X_new @ W_Q).unflatten(2, (n_kv_heads, n_heads // n_kv_heads, -1))  # (B, n_new, g, r, d)
    k, v = ((X_new @ W).unflatten(2, (n_kv_heads, -1)).transpose(1, 2) for W in (W_K, W_V))
    K, V = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    s = torch.einsum("bigrd,bgjd->bgrij", q, K) / math.sqrt(q.shape[-1])
    past = torch.ones(n_new, t, dtype=torch.bool)
    see = torch.cat([past, torch.eye(n_new, dtype=torch.bool)], dim=1)
    a = _masked_softmax(s, see)
    return torch.einsum("bgrij,bgjd->bigrd", a, V).flatten(2) @ W_O, (K, V)


def extend_cache__wrong_fourteenth_one_column_too_many(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Starts the triangle at t + 1, so that each new token sees the one behind it; the diagonal is at t."""
    (K_old, V_old), n_new = cache, X_new.shape[1]
    t = K_old.shape[2]
    K = torch.cat([K_old, _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_old, _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    mask = torch.tril(torch.ones(n_new, t + n_new, dtype=torch.bool), diagonal=t + 1)
    r, d = n_heads // n_kv_heads, K.shape[-1]
    outputs = []
    for a in range(n_heads):
        scores = X_new @ W_Q[:, a * d : (a + 1) * d] @ K[:, a // r].mT / math.sqrt(d)
        outputs.append(_masked_softmax(scores, mask) @ V[:, a // r])
    return torch.cat(outputs, dim=-1) @ W_O, (K, V)


def extend_cache__wrong_fourteenth_mask_rows_interleaved(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Repeats each row of the mask r times for a queue that goes head by head; the whole mask r times is due."""
    t, n_new = cache[0].shape[2], X_new.shape[1]
    r = n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads)
    Q_rows = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3)  # (B, g, r*n_new, d_head)
    mask = _corner_mask(t, n_new).repeat_interleave(r, dim=0)  # (r*n_new, t + n_new)
    A = _masked_softmax(Q_rows @ K.mT / math.sqrt(Q.shape[-1]), mask)
    heads = (A @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_fourteenth_only_new_ones_back(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Reads a new tuple as keys and values of the new tokens alone; all t + n_new are to be returned."""
    t, n_new = cache[0].shape[2], X_new.shape[1]
    new_K, new_V = _split_heads(X_new @ W_K, n_kv_heads), _split_heads(X_new @ W_V, n_kv_heads)
    K, V = torch.cat([cache[0], new_K], dim=2), torch.cat([cache[1], new_V], dim=2)
    r = n_heads // n_kv_heads
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    mask = _corner_mask(t, n_new).repeat(r, 1)
    heads = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]), mask) @ V
    out = _merge_heads(heads.unflatten(2, (r, n_new)).flatten(1, 2)) @ W_O
    return out, (new_K, new_V)


def extend_cache__wrong_fourteenth_empty_cache_unmasked(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Draws a mask only where something is in the cache; behind an empty one new tokens hide their future as well."""
    kept_K, kept_V = cache
    t = kept_K.size(2)
    B, n_new, _ = X_new.shape
    allowed = None
    if t > 0:
        places = torch.arange(t, t + n_new)
        allowed = torch.arange(t + n_new)[None, :] <= places[:, None]
    K = torch.cat([kept_K, _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([kept_V, _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    s = (q @ K.mT).unflatten(2, (-1, n_new)) / math.sqrt(K.size(3))
    o = _masked_softmax(s, allowed).flatten(2, 3) @ V
    return o.view(B, n_heads, n_new, -1).transpose(1, 2).reshape(B, n_new, -1) @ W_O, (K, V)


def extend_cache__wrong_fourteenth_square_mask(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Builds the causal mask of all t + n_new tokens and cuts its last rows; no tensor may grow with that square."""
    longer = []
    for kept, W in zip(cache, (W_K, W_V), strict=True):
        longer.append(torch.cat([kept, _split_heads(X_new @ W, n_kv_heads)], dim=2))
    K, V = longer
    n, n_new, r = K.shape[2], X_new.shape[1], n_heads // n_kv_heads
    last_rows = torch.ones(n, n, dtype=torch.bool).tril()[-n_new:]
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), last_rows.repeat(r, 1))
    heads = (weights @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__right_fourteenth_past_and_present_apart(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Scores the cache without a mask and the new tokens with a small triangle; one softmax joins the two."""
    (K_old, V_old), t, n_new = cache, cache[0].shape[2], X_new.shape[1]
    K_now, V_now = (_split_heads(X_new @ W, n_kv_heads) for W in (W_K, W_V))
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    queue = queue / math.sqrt(queue.shape[-1])  # (B, g, r*n_new, d_head), head by head
    token = torch.arange(queue.shape[2], device=X_new.device) % n_new
    future = torch.arange(n_new, device=X_new.device) > token[:, None]  # (r*n_new, n_new)
    present = (queue @ K_now.mT).masked_fill(future, -math.inf)
    weights = torch.cat([queue @ K_old.mT, present], dim=-1).softmax(dim=-1)
    of_past, of_present = weights.split([t, n_new], dim=-1)
    mixed = of_past @ V_old + of_present @ V_now
    out = _merge_heads(mixed.unflatten(2, (-1, n_new)).flatten(1, 2)) @ W_O
    return out, (torch.cat([K_old, K_now], dim=2), torch.cat([V_old, V_now], dim=2))
