"""Answers to exercises of unit 4 (multi-head attention), wrong and right ones, by the ninth writer."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def _split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head)."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head)."""
    return X.transpose(1, 2).flatten(2)


def _masked_weights(scores, mask):
    """Softmax over the last axis among the allowed keys; zeros where nothing is allowed."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-1).masked_fill(~mask, 0)


def _bmm_attention(Q, K, V, mask=None):
    """N attentions at once, (N, n, d_v)."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    return torch.bmm(_masked_weights(scores, mask), V)


# ------- 4.1 split_heads


def split_heads__wrong_ninth_every_hth_column(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Deals the columns out in turn: head r gets the columns r, r + h, r + 2h, … and no contiguous block."""
    width = X.shape[-1]
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return torch.stack([X[..., r::n_heads] for r in range(n_heads)], dim=1)


def split_heads__wrong_ninth_turns_before_it_cuts(X, n_heads):
    """Makes tokens and columns change places first and then reshapes, so each head is filled in the wrong order."""
    B, n, width = X.shape
    d_head, rest = divmod(width, n_heads)
    if rest:
        raise ValueError(f"width {width} cannot be cut into {n_heads} heads")
    columns_first = X.transpose(1, 2)
    return columns_first.reshape(B, n_heads, n, d_head)


def split_heads__wrong_ninth_trusts_the_chunks(X, n_heads):
    """Looks only whether the chunks are equally wide, so 4 heads of a width of 6 silently become 3 heads."""
    pieces = torch.chunk(X, n_heads, dim=2)
    widths = {piece.shape[2] for piece in pieces}
    if len(widths) > 1:
        raise ValueError(f"{X.shape[2]} columns cannot be shared out among {n_heads} heads")
    return torch.cat([piece.unsqueeze(1) for piece in pieces], dim=1)


def split_heads__wrong_ninth_fills_a_default_tensor(X, n_heads):
    """Fills a new tensor of the default dtype, so float64 comes out as float32."""
    B, n, width = X.shape
    d = width // n_heads
    if d * n_heads != width:
        raise ValueError(f"n_heads = {n_heads} does not divide {width}")
    heads = torch.zeros((B, n_heads, n, d), device=X.device)
    for r in range(n_heads):
        first = r * d
        heads[:, r] = X[:, :, first : first + d]
    return heads


def split_heads__right_ninth_table_of_columns(X, n_heads):
    """Indexes the columns with an (h, d_head) table of their numbers and turns the last two axes."""
    width = X.shape[2]
    if width % n_heads > 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    table = torch.arange(width, device=X.device).reshape(n_heads, width // n_heads)
    return X.mT[:, table].mT


# ------- 4.2 merge_heads


def merge_heads__wrong_ninth_feature_by_feature(X: torch.Tensor) -> torch.Tensor:
    """Puts entry k of all heads side by side, then entry k + 1, so the heads are interleaved."""
    B, h, n, d_head = X.shape
    columns = [X[:, :, :, k].transpose(1, 2) for k in range(d_head)]
    return torch.cat(columns, dim=-1)


def merge_heads__wrong_ninth_new_head_in_front(X):
    """Glues each next head in front of those before it, so the heads come out in reverse order."""
    glued = X[:, 0]
    for r in range(1, X.shape[1]):
        glued = torch.cat((X[:, r], glued), dim=2)
    return glued


def merge_heads__wrong_ninth_reads_memory(X):
    """Reads the memory as split_heads would have left it, so it is wrong for a tensor that lies in another order."""
    B, h, n, d_head = X.shape
    width = h * d_head
    return torch.as_strided(X, (B, n, width), (n * width, width, 1), X.storage_offset())


def merge_heads__wrong_ninth_by_numpy(X):
    """Goes through a detached NumPy array, so no gradient flows back."""
    heads = X.detach().cpu().numpy()
    side_by_side = np.concatenate([heads[:, r] for r in range(heads.shape[1])], axis=-1)
    return torch.as_tensor(side_by_side, dtype=X.dtype, device=X.device)


def merge_heads__right_ninth_column_by_number(X):
    """Computes for each column its head and its place in the head, and picks all columns by one index."""
    _, h, _, d_head = X.shape
    column = torch.arange(h * d_head, device=X.device)
    head = torch.div(column, d_head, rounding_mode="floor")
    picked = X.permute(1, 3, 0, 2)[head, column - head * d_head]  # (h*d_head, B, n)
    return picked.permute(1, 2, 0)


# ------- 4.3 bmm_attention


def bmm_attention__wrong_ninth_all_keys_share_the_sum(Q, K, V, mask=None):
    """Normalises over all keys and drops the forbidden ones afterwards, so the weights of a row sum to less than 1."""
    scores = torch.einsum("sqd,skd->sqk", Q, K) * Q.shape[2] ** -0.5
    log_sum = scores.logsumexp(dim=2, keepdim=True)
    weights = (scores - log_sum).exp()
    if mask is not None:
        weights = torch.where(mask, weights, torch.zeros_like(weights))
    return torch.einsum("sqk,skv->sqv", weights, V)


def bmm_attention__wrong_ninth_divides_by_tokens(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Takes Q.shape[1], the number of queries, for d_k when it scales."""
    d_k = Q.shape[1]
    outputs = []
    for s in range(len(Q)):
        scores = Q[s] @ K[s].T / math.sqrt(d_k)
        if mask is not None:
            allowed = mask.expand(len(Q), *scores.shape)[s]
            scores = torch.where(allowed, scores, torch.finfo(scores.dtype).min)
            weights = scores.softmax(dim=1) * allowed.any(dim=1, keepdim=True)
        else:
            weights = scores.softmax(dim=1)
        outputs.append(weights @ V[s])
    return torch.stack(outputs)


def bmm_attention__wrong_ninth_clamps_the_scores(Q, K, V, mask=None):
    """Clamps the scores to ±60 against overflow, so keys with larger scores look alike."""
    scores = torch.bmm(Q / math.sqrt(Q.shape[-1]), K.mT)
    powers = scores.clamp(-60.0, 60.0).exp()
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    nobody = total == 0
    total = total.masked_fill(nobody, 1.0)
    return torch.bmm(powers, V) / total


def bmm_attention__wrong_ninth_mends_the_output(Q, K, V, mask=None):
    """Fills with minus infinity and replaces NaN in the output alone, so an empty row gives NaN in gradients."""
    N, n, d_k = Q.shape
    scores = torch.baddbmm(Q.new_zeros(N, n, K.shape[1]), Q, K.transpose(1, 2), beta=0, alpha=1 / math.sqrt(d_k))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    mixed = torch.bmm(F.softmax(scores, dim=-1), V)
    return torch.where(mixed.isnan(), torch.zeros_like(mixed), mixed)


def bmm_attention__right_ninth_key_after_key(Q, K, V, mask=None):
    """Takes in one key after the other with a running maximum, sum and mixture, as FlashAttention does."""
    N, n, d_k = Q.shape
    m = K.shape[1]
    lowest = torch.finfo(Q.dtype).min
    top = Q.new_full((N, n), lowest)
    total = Q.new_zeros(N, n)
    mixture = V.new_zeros(N, n, V.shape[2])
    everyone = torch.ones(N, n, m, dtype=torch.bool, device=Q.device)
    seen = everyone if mask is None else mask.expand(N, n, m)
    for j in range(m):
        score = (Q * K[:, j : j + 1]).sum(dim=-1) / math.sqrt(d_k)  # (N, n)
        score = score.masked_fill(~seen[:, :, j], lowest)
        new_top = torch.maximum(top, score)
        shrink = (top - new_top).exp()
        power = (score - new_top).exp().masked_fill(~seen[:, :, j], 0)
        total = total * shrink + power
        mixture = mixture * shrink[..., None] + power[..., None] * V[:, j : j + 1]
        top = new_top
    blind = ~seen.any(dim=-1)
    return mixture / total.masked_fill(blind, 1)[..., None]


# ------- 4.4 multi_head_attention


def multi_head_attention__wrong_ninth_bias_for_each_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Projects head by head and adds b_O for each of them, so the bias comes in h times."""
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    table = None if mask is None else mask.expand(B, n_heads, n, n)
    result = 0
    for r in range(n_heads):
        own = slice(r * d, (r + 1) * d)
        scores = (X @ W_Q[:, own]) @ (X @ W_K[:, own]).mT / math.sqrt(d)
        weights = _masked_weights(scores, None if table is None else table[:, r])
        result = result + F.linear(weights @ (X @ W_V[:, own]), W_O[own].T, b_O)
    return result


def multi_head_attention__wrong_ninth_keys_ask(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Exchanges queries and keys in the product, so the table of scores is transposed."""
    width = W_Q.shape[1]
    d_head = width // n_heads
    q, k, v = (torch.einsum("btm,mhd->bhtd", X, W.reshape(-1, n_heads, d_head)) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("bhid,bhjd->bhij", k, q) / d_head**0.5
    weights = _masked_weights(scores, mask)
    found = torch.einsum("bhij,bhjd->bhid", weights, v)
    return torch.einsum("bhid,hdm->bim", found, W_O.reshape(n_heads, d_head, -1)) + b_O


def multi_head_attention__wrong_ninth_heads_outside_batch_inside(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Numbers the attentions head by head but the mask sequence by sequence, so sequences get each other's masks."""
    B, n, _ = X.shape
    Q, K, V = (torch.cat((X @ W).chunk(n_heads, dim=-1), dim=0) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).reshape(-1, n, n)
    out = _bmm_attention(Q, K, V, mask)
    side_by_side = torch.cat(out.split(B, dim=0), dim=-1)
    return torch.addmm(b_O, side_by_side.flatten(0, 1), W_O).view(B, n, -1)


def multi_head_attention__wrong_ninth_width_from_the_model(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Scales by the square root of d_model / h, as if h*d_head always equalled d_model."""
    d_model = X.shape[-1]
    scale = (d_model / n_heads) ** -0.5
    heads = [_split_heads(X @ W, n_heads) for W in (W_Q * scale, W_K, W_V)]
    weights = _masked_weights(heads[0] @ heads[1].mT, mask)
    return _merge_heads(weights @ heads[2]) @ W_O + b_O


def multi_head_attention__right_ninth_columns_of_others_zeroed(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Cuts no axis: sets the columns of the other heads to 0 in h copies of the queries and of the mixtures."""
    n, width = X.shape[1], W_Q.shape[1]
    d_head = width // n_heads
    owner = torch.arange(width, device=X.device) // d_head
    foreign = owner != torch.arange(n_heads, device=X.device)[:, None]  # (h, h*d_head)
    foreign = foreign[:, None, :]  # (h, 1, h*d_head)
    Q = (X @ W_Q).unsqueeze(1).masked_fill(foreign, 0)  # (B, h, n, h*d_head)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)  # (B, 1, n, h*d_head)
    weights = _masked_weights(Q @ K.mT / math.sqrt(d_head), mask)
    concatenated = (weights @ V).masked_fill(foreign, 0).sum(dim=1)
    return concatenated @ W_O + b_O


# ------- 4.5 head_contributions


def head_contributions__wrong_ninth_silenced_by_queries(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Silences a head by queries of 0, which leaves it an average, and takes the difference for its share."""
    d_head = W_Q.shape[1] // n_heads
    column_head = torch.arange(W_Q.shape[1], device=X.device) // d_head

    def layer(queries):
        heads = [_split_heads(T, n_heads) for T in (queries, X @ W_K, X @ W_V)]
        weights = _masked_weights(heads[0] @ heads[1].mT / math.sqrt(d_head), mask)
        return _merge_heads(weights @ heads[2]) @ W_O

    Q = X @ W_Q
    everything = layer(Q)
    shares = [everything - layer(Q.masked_fill(column_head == r, 0)) for r in range(n_heads)]
    return torch.stack(shares, dim=1)


def head_contributions__wrong_ninth_every_hth_row(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Cuts W_O into (d_head, h) in place of (h, d_head), so head r meets the rows r, r + h, r + 2h, …"""
    B, n, _ = X.shape
    d_head = W_O.shape[0] // n_heads
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    rows = W_O.reshape(d_head, n_heads, -1)
    return torch.einsum("bhtk,khm->bhtm", heads, rows)


def head_contributions__wrong_ninth_mask_of_the_first_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gives every head the mask of head 0, so masks that differ from head to head are ignored."""
    B, n, _ = X.shape
    size = W_Q.shape[1] // n_heads
    allowed = None
    if mask is not None:
        allowed = mask.expand(B, n_heads, n, n)[:, 0]
    blocks = zip(*(W.split(size, dim=1) for W in (W_Q, W_K, W_V)), W_O.split(size, dim=0), strict=True)
    written = []
    for w_q, w_k, w_v, w_o in blocks:
        found = _bmm_attention(X @ w_q, X @ w_k, X @ w_v, allowed)
        written.append(found @ w_o)
    return torch.stack(written, 1)


def head_contributions__wrong_ninth_weights_held_fixed(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Computes the attention weights without gradients, so none reaches W_Q and W_K."""
    d_head = W_Q.shape[1] // n_heads
    with torch.no_grad():
        Q, K = (X @ W_Q).unflatten(2, (n_heads, d_head)), (X @ W_K).unflatten(2, (n_heads, d_head))
        A = _masked_weights(torch.einsum("bihd,bjhd->bhij", Q, K) / math.sqrt(d_head), mask)
    columns, rows = W_V.unflatten(1, (n_heads, d_head)), W_O.unflatten(0, (n_heads, d_head))
    values = torch.einsum("bjm,mhd,hdf->bhjf", X, columns, rows)
    return A @ values


def head_contributions__right_ninth_alone_in_the_row(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Puts the heads' outputs side by side, and for each head sets the columns of all others to 0 before all of W_O."""
    width = W_O.shape[0]
    d_head = width // n_heads
    q, k, v = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    found = _merge_heads(_masked_weights(q @ k.mT / math.sqrt(d_head), mask) @ v)  # (B, n, h*d_head)
    alone = []
    for r in range(n_heads):
        left = F.pad(found[..., r * d_head : (r + 1) * d_head], (r * d_head, width - (r + 1) * d_head))
        alone.append(left @ W_O)
    return torch.stack(alone, dim=1)


# ------- 4.6 from_torch_weights


def from_torch_weights__wrong_ninth_rows_in_turn(in_proj_weight, out_proj_weight):
    """Takes the rows of in_proj_weight for queries, keys and values in turn and not for three blocks."""
    d_model = in_proj_weight.shape[1]
    by_feature = in_proj_weight.unflatten(0, (d_model, 3))
    W_Q, W_K, W_V = (block.T for block in by_feature.unbind(dim=1))
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_ninth_output_as_it_is(in_proj_weight, out_proj_weight):
    """Transposes the three blocks and forgets to transpose out_proj_weight."""
    wide = in_proj_weight.transpose(0, 1)
    W_Q, W_K, W_V = torch.tensor_split(wide, 3, dim=1)
    W_O = out_proj_weight
    return W_Q, W_K, W_V, W_O


def from_torch_weights__wrong_ninth_steps_in_memory(in_proj_weight, out_proj_weight):
    """Transposes by steps in memory that hold only where the weights lie row after row."""
    d = out_proj_weight.shape[0]
    begin = in_proj_weight.storage_offset()
    blocks = [in_proj_weight.as_strided((d, d), (1, d), begin + part * d * d) for part in range(3)]
    W_O = out_proj_weight.as_strided((d, d), (1, d), out_proj_weight.storage_offset())
    return (*blocks, W_O)


def from_torch_weights__wrong_ninth_new_parameters(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Wraps the transposed weights as new parameters, so gradients stop there and do not reach the two weights."""
    d = in_proj_weight.shape[1]
    matrices = [in_proj_weight[k * d : (k + 1) * d] for k in range(3)] + [out_proj_weight]
    return tuple(nn.Parameter(matrix.t().contiguous()) for matrix in matrices)


def from_torch_weights__right_ninth_unit_vectors(in_proj_weight, out_proj_weight):
    """Sends the unit vectors through both linear maps, which yields the transposed matrices, and cuts the columns."""
    d = out_proj_weight.shape[1]
    units = torch.eye(d, dtype=in_proj_weight.dtype, device=in_proj_weight.device)
    QKV = F.linear(units, in_proj_weight)  # (d_model, 3*d_model)
    return (*QKV.split(d, dim=1), F.linear(units, out_proj_weight))


# ------- 4.7 diagnose


def diagnose__wrong_ninth_ordinary_numbers(attend):
    """Sends only numbers of order 1, at which an unstable softmax and a mask of -10,000 act like the right layer."""
    gen = torch.Generator().manual_seed(0)
    n, d_model, h, d = 14, 10, 3, 4
    X = torch.randn(1, n, d_model, generator=gen, dtype=torch.float64)
    W_Q, W_K, W_V = 1.3 / math.sqrt(d_model) * torch.randn(3, d_model, h * d, generator=gen, dtype=torch.float64)
    W_O = torch.randn(h * d, 9, generator=gen, dtype=torch.float64)
    seen = torch.tril(torch.ones(n, n, dtype=torch.bool))

    def layer(heads=h, by=math.sqrt(d), over=-1, see=seen, late=False, reshape=False, hidden=-math.inf, swap=False):
        T = [X @ W for W in ((W_Q, W_V, W_K) if swap else (W_Q, W_K, W_V))]
        if reshape:
            Q, K, V = (t.reshape(1, heads, n, -1) for t in T)
        else:
            Q, K, V = (_split_heads(t, heads) for t in T)
        scores = Q @ K.mT / by
        A = torch.softmax(scores if late else scores.masked_fill(~see, hidden), dim=over)
        O = (A * see if late else A) @ V
        return (O.reshape(1, n, -1) if reshape else _merge_heads(O)) @ W_O

    expected = {
        "right": layer(),
        "not_scaled": layer(by=1.0),
        "scaled_by_d": layer(by=d),
        "scaled_by_d_model": layer(by=math.sqrt(d_model)),
        "softmax_over_queries": layer(over=-2),
        "causal_off_by_one": layer(see=torch.ones(n, n, dtype=torch.bool).tril(1)),
        "mask_after_softmax": layer(late=True),
        "heads_not_by_columns": layer(reshape=True),
        "keys_and_values_swapped": layer(swap=True),
        "one_head_for_all": layer(heads=1, by=math.sqrt(h * d)),
        "window_of_8": layer(see=seen.triu(-7)),
        "masked_by_a_number": layer(hidden=-1e4),
    }
    answer = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if not answer.isfinite().all():
        return "not_stabilised"
    for name, output in expected.items():
        if torch.allclose(answer, output, rtol=1e-6, atol=1e-8):
            return name
    return "not_stabilised"


def diagnose__wrong_ninth_sixteen_and_four(attend) -> str:
    """Chooses d_model = 16 and d_head = 4, where dividing by d_head and by the root of d_model is the same."""
    rng = torch.Generator().manual_seed(0)
    h, d_head, d_model, n = 2, 4, 16, 12

    def draw(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    X = draw(2, n, d_model)
    X[1] *= 400
    W_Q, W_K, W_V = (draw(d_model, h * d_head) * 0.3 for _ in range(3))
    W_O = draw(h * d_head, d_model)
    box = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if box.isnan().any() or box.isinf().any():
        return "not_stabilised"
    past = torch.ones(n, n, dtype=torch.bool).tril()

    def suspect(name):
        heads = 1 if name == "one_head_for_all" else h
        Q, K, V = X @ W_Q, X @ W_K, X @ W_V
        if name == "keys_and_values_swapped":
            K, V = V, K
        if name == "heads_not_by_columns":
            Q, K, V = (T.reshape(2, heads, n, d_head) for T in (Q, K, V))
        else:
            Q, K, V = (T.unflatten(2, (heads, -1)).transpose(1, 2) for T in (Q, K, V))
        divisor = {"not_scaled": 1, "scaled_by_d": d_head, "scaled_by_d_model": d_model**0.5}
        S = Q @ K.mT / divisor.get(name, Q.shape[-1] ** 0.5)
        M = past.clone()
        if name == "causal_off_by_one":
            M = torch.ones(n, n, dtype=torch.bool).tril(1)
        if name == "window_of_8":
            M &= torch.ones(n, n, dtype=torch.bool).triu(-7)
        if name == "mask_after_softmax":
            A = S.softmax(-1) * M
        elif name == "masked_by_a_number":
            A = S.masked_fill(~M, -10_000.0).softmax(-1)
        else:
            A = S.masked_fill(~M, -math.inf).softmax(-2 if name == "softmax_over_queries" else -1)
        O = A @ V
        O = O.reshape(2, n, -1) if name == "heads_not_by_columns" else O.transpose(1, 2).flatten(2)
        return O @ W_O

    names = (
        "right not_scaled scaled_by_d scaled_by_d_model softmax_over_queries causal_off_by_one mask_after_softmax "
        "heads_not_by_columns keys_and_values_swapped one_head_for_all masked_by_a_number window_of_8"
    ).split()
    size = box.abs().amax(dim=(1, 2), keepdim=True) + 1e-300
    errors = [round(((suspect(name) - box) / size).abs().max().item(), 6) for name in names]
    return names[errors.index(min(errors))]


def diagnose__wrong_ninth_eight_tokens(attend):
    """Sends eight tokens, of which the last may look back seven in any case, so a window of eight hides nothing."""
    tokens = 8  # long enough for i - 7
    h, d_head, d_model = 3, 4, 11
    g = torch.Generator().manual_seed(0)
    kind = {"generator": g, "dtype": torch.float64}
    small = torch.randn(tokens, d_model, **kind)
    X = torch.stack([small, 500 * small.flip(0)])
    weights = [torch.randn(d_model, h * d_head, **kind) / 3 for _ in "QKV"]
    W_O = torch.eye(h * d_head, dtype=torch.float64)
    answer = attend(X, *weights, W_O, h, True)
    if bool((answer != answer).any()):
        return "not_stabilised"

    def one_sequence(x, **slip):
        order = (0, 2, 1) if slip.get("swap") else (0, 1, 2)
        q, k, v = (x @ weights[at] for at in order)
        count = slip.get("heads", h)
        d = h * d_head // count
        if slip.get("reshape"):
            q, k, v = ([*t.reshape(count, tokens, d)] for t in (q, k, v))
        else:
            q, k, v = (t.split(d, dim=1) for t in (q, k, v))
        i, j = torch.arange(tokens)[:, None], torch.arange(tokens)
        see = (j <= i + slip.get("ahead", 0)) & (j > i - slip.get("window", 99))
        outs = []
        for a, b, c in zip(q, k, v, strict=True):
            s = a @ b.T / slip.get("by", math.sqrt(d))
            if not slip.get("late"):
                s = torch.where(see, s, slip.get("low", -math.inf))
            w = torch.softmax(s, dim=slip.get("dim", 1))
            outs.append((w * see if slip.get("late") else w) @ c)
        if slip.get("reshape"):
            return torch.stack(outs).reshape(tokens, h * d_head)
        return torch.cat(outs, dim=1)

    slips = {
        "right": {},
        "not_scaled": {"by": 1},
        "scaled_by_d": {"by": d_head},
        "scaled_by_d_model": {"by": math.sqrt(d_model)},
        "softmax_over_queries": {"dim": 0},
        "causal_off_by_one": {"ahead": 1},
        "mask_after_softmax": {"late": True},
        "heads_not_by_columns": {"reshape": True},
        "keys_and_values_swapped": {"swap": True},
        "one_head_for_all": {"heads": 1},
        "masked_by_a_number": {"low": -10_000.0},
        "window_of_8": {"window": 8},
    }
    for name, slip in slips.items():
        like = True
        for x, out in zip(X, answer, strict=True):
            guess = one_sequence(x, **slip)
            like = like and bool((guess - out).abs().max() < 1e-6 * out.abs().max())
        if like:
            return name
    return "right"


def diagnose__wrong_ninth_global_randomness(attend):
    """Seeds and uses PyTorch's global generator, which is ruled out, and so resets the random state of the caller."""
    torch.manual_seed(0)
    B, n, d_model, h, d = 2, 11, 6, 3, 5
    X = torch.randn(B, n, d_model).double() * torch.tensor([1.0, 600.0]).double()[:, None, None]
    W_Q, W_K, W_V = torch.randn(3, d_model, h * d).double().mul(0.5).unbind(0)
    W_O = torch.randn(h * d, 7).double()
    out = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if not torch.isfinite(out).all():
        return "not_stabilised"

    past = torch.tril(torch.ones(n, n, dtype=torch.bool))

    def finish(weights, V):
        return torch.einsum("bhij,bhjd,hdm->bim", weights, V, W_O.view(V.shape[1], V.shape[3], -1))

    def scores_and_values(heads=h, W_1=W_K, W_2=W_V):
        Q, K, V = (torch.einsum("bnm,mhd->bhnd", X, W.view(d_model, heads, -1)) for W in (W_Q, W_1, W_2))
        return Q @ K.mT, V

    def soft(S, see=past, low=-torch.inf, dim=-1):
        return torch.softmax(torch.where(see, S, low), dim)

    dots, V = scores_and_values()
    S = dots / d**0.5
    found = {
        "right": finish(soft(S), V),
        "not_scaled": finish(soft(dots), V),
        "scaled_by_d": finish(soft(dots / d), V),
        "scaled_by_d_model": finish(soft(dots / d_model**0.5), V),
        "softmax_over_queries": finish(soft(S, dim=-2), V),
        "causal_off_by_one": finish(soft(S, see=torch.ones(n, n).tril(1).bool()), V),
        "mask_after_softmax": finish(torch.softmax(S, -1) * past, V),
        "masked_by_a_number": finish(soft(S, low=-1e4), V),
        "window_of_8": finish(soft(S, see=past & ~past.tril(-8)), V),
    }
    dots, V = scores_and_values(W_1=W_V, W_2=W_K)
    found["keys_and_values_swapped"] = finish(soft(dots / d**0.5), V)
    dots, V = scores_and_values(heads=1)
    found["one_head_for_all"] = finish(soft(dots / (h * d) ** 0.5), V)
    Q, K, V = ((X @ W).reshape(B, h, n, d) for W in (W_Q, W_K, W_V))
    found["heads_not_by_columns"] = (soft(Q @ K.mT / d**0.5) @ V).reshape(B, n, h * d) @ W_O
    size = out.abs().amax(dim=(1, 2), keepdim=True)
    return min(found, key=lambda name: ((found[name] - out) / size).abs().max().item())


def diagnose__right_ninth_waking_sequences(attend):
    """Sends a calm, a loud and a deeply negative sequence in one batch, and takes the suspect nearest to the answer."""
    h, d_head, d_model, n = 3, 5, 7, 13
    g = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)

    X = draw(3, n, d_model)
    X[1] *= 300
    # The last feature alone drives the scores of this sequence: all of them lie far below -10,000.
    X[2, :, -1] = 1000.0
    W_Q, W_K, W_V = (0.5 * draw(d_model, h * d_head) for _ in "QKV")
    W_Q[-1], W_K[-1] = 0.3, -0.3
    W_O = draw(h * d_head, 8)
    came = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if not torch.isfinite(came).all():
        return "not_stabilised"

    i, j = torch.arange(n)[:, None], torch.arange(n)
    root = math.sqrt(d_head)

    def rows(Q, K, V, divisor, see, mode):
        """One head of one sequence, (n, width)."""
        s = Q @ K.T / divisor
        if mode == "late":
            return torch.where(see, torch.softmax(s, dim=1), 0.0) @ V
        s = torch.where(see, s, -1e4 if mode == "number" else -math.inf)
        return torch.softmax(s, dim=0 if mode == "queries" else 1) @ V

    def layer(divisor=root, see=j <= i, mode="", heads=h, swapped=False, by_columns=True):
        outputs = []
        for x in X:
            tables = [x @ W_Q, x @ W_V, x @ W_K] if swapped else [x @ W_Q, x @ W_K, x @ W_V]
            if by_columns:
                parts = zip(*(table.chunk(heads, dim=1) for table in tables), strict=True)
                mixed = torch.cat([rows(*part, divisor, see, mode) for part in parts], dim=1)
            else:
                parts = zip(*(table.reshape(heads, n, -1) for table in tables), strict=True)
                mixed = torch.cat([rows(*part, divisor, see, mode) for part in parts]).reshape(n, -1)
            outputs.append(mixed @ W_O)
        return torch.stack(outputs)

    line_up = [
        ("right", {}),
        ("not_scaled", {"divisor": 1.0}),
        ("scaled_by_d", {"divisor": float(d_head)}),
        ("scaled_by_d_model", {"divisor": math.sqrt(d_model)}),
        ("softmax_over_queries", {"mode": "queries"}),
        ("causal_off_by_one", {"see": j <= i + 1}),
        ("mask_after_softmax", {"mode": "late"}),
        ("heads_not_by_columns", {"by_columns": False}),
        ("keys_and_values_swapped", {"swapped": True}),
        ("one_head_for_all", {"heads": 1, "divisor": math.sqrt(h * d_head)}),
        ("masked_by_a_number", {"mode": "number"}),
        ("window_of_8", {"see": (j <= i) & (j >= i - 7)}),
    ]
    size = came.abs().amax(dim=(1, 2)) + 1e-12
    nearest, least = "right", math.inf
    for name, slip in line_up:
        gap = ((layer(**slip) - came).abs().amax(dim=(1, 2)) / size).max().item()
        if gap < least:
            nearest, least = name, gap
    return nearest
