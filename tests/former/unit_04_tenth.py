"""Answers as students might write them: unit 4, multi-head attention."""

import functools
import math

import torch
import torch.nn.functional as F


def _split(X, h):
    """(B, n, h*d) -> (B, h, n, d)."""
    return X.unflatten(-1, (h, -1)).transpose(1, 2)


def _attend(Q, K, V, mask=None):
    """Scaled dot-product attention for any leading axes; a query without a key gets 0."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.softmax(scores, dim=-1) @ V
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return (torch.softmax(scores, dim=-1) * mask) @ V


def _suspect(name, X, W_Q, W_K, W_V, W_O, h, causal):
    """What the suspect of this name returns."""
    B, n, d_model = X.shape
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    if name == "one_head_for_all":
        h = 1
    d = W_Q.shape[1] // h
    cut = (lambda T: T.reshape(B, h, n, d)) if name == "heads_not_by_columns" else (lambda T: _split(T, h))
    Q, K, V = cut(X @ W_Q), cut(X @ W_K), cut(X @ W_V)
    by = {"not_scaled": 1, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}.get(name, math.sqrt(d))
    scores = Q @ K.mT / by
    seen = torch.ones(n, n, dtype=torch.bool)
    if causal:
        seen = seen.tril(1 if name == "causal_off_by_one" else 0)
        seen = seen.triu(-7) if name == "window_of_8" else seen
    if name == "mask_after_softmax":
        A = torch.softmax(scores, dim=-1) * seen
    elif name == "not_stabilised":
        A = scores.masked_fill(~seen, -math.inf).exp()
        A = A / A.sum(dim=-1, keepdim=True)
    else:
        fill = -10_000.0 if name == "masked_by_a_number" else -math.inf
        A = torch.softmax(scores.masked_fill(~seen, fill), dim=-2 if name == "softmax_over_queries" else -1)
    O = A @ V
    glued = O.reshape(B, n, h * d) if name == "heads_not_by_columns" else O.transpose(1, 2).flatten(2)
    return glued @ W_O


# ------- 4.1 split_heads
def split_heads__wrong_tenth_every_hth_column(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Head r gets every h-th column from r on, and not a contiguous block."""
    width = X.shape[-1]
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return torch.stack([X[:, :, r::n_heads] for r in range(n_heads)], dim=1)


def split_heads__wrong_tenth_pieces_read_by_sequence(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """The pieces stand head by head and are read as if they stood sequence by sequence."""
    B, n, width = X.shape
    d_head, rest = divmod(width, n_heads)
    if rest != 0:
        raise ValueError(f"a width of {width} cannot be cut into {n_heads} heads")
    pieces = torch.cat(X.split(d_head, dim=2), dim=0)
    return pieces.reshape(B, n_heads, n, d_head)


def split_heads__wrong_tenth_axis_found_by_size(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """The axis of the heads is looked for by its size, which finds another axis if B or n is the number of heads."""
    if X.shape[-1] % n_heads > 0:
        raise ValueError(f"{n_heads} heads, width {X.shape[-1]}: this does not go")
    cut = X.unflatten(-1, (n_heads, X.shape[-1] // n_heads))
    heads_at = list(cut.shape).index(n_heads)
    return cut.movedim(heads_at, 1)


def split_heads__wrong_tenth_knows_two_dtypes(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """What is not float32 comes back as float64: float16 and bfloat16 do not keep their dtype."""
    B, n, width = X.shape
    d_head = width // n_heads
    if d_head * n_heads != width:
        raise ValueError(f"n_heads = {n_heads} does not divide the width {width}")
    kind = torch.float32 if X.dtype == torch.float32 else torch.float64
    heads = torch.zeros(B, n_heads, n, d_head, dtype=kind, device=X.device)
    for r in range(n_heads):
        heads[:, r] = X[:, :, r * d_head : (r + 1) * d_head]
    return heads


def split_heads__right_tenth_table_of_columns(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Indexes the last axis with a table of column numbers, one row for each head."""
    width = X.size(2)
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    columns = torch.arange(width, device=X.device).reshape(n_heads, -1)
    return X[:, :, columns].permute(0, 2, 1, 3)


# ------- 4.2 merge_heads
def merge_heads__wrong_tenth_heads_interleaved(X: torch.Tensor) -> torch.Tensor:
    """The heads are interleaved: column k*h + r holds entry k of head r."""
    return torch.stack(X.unbind(dim=1), dim=-1).flatten(2)


def merge_heads__wrong_tenth_last_head_first(X: torch.Tensor) -> torch.Tensor:
    """Each next head is put in front of those before, so that the last head comes first."""
    return functools.reduce(lambda done, head: torch.cat((head, done), dim=-1), X.unbind(1))


def merge_heads__wrong_tenth_single_head_squeezed(X: torch.Tensor) -> torch.Tensor:
    """With one head all axes of size 1 are dropped, also those of the batch, the tokens or the columns."""
    B, h, n, d_head = X.shape
    if h == 1:
        return X.squeeze()
    return X.permute(0, 2, 1, 3).reshape(B, n, h * d_head)


def merge_heads__wrong_tenth_first_head_detached(X: torch.Tensor) -> torch.Tensor:
    """The row of heads begins with a detached copy of head 0, through which no gradient flows."""
    merged = X[:, 0].detach().clone()
    for r in range(1, X.shape[1]):
        merged = torch.cat([merged, X[:, r]], dim=2)
    return merged


def merge_heads__right_tenth_where_each_column_lies(X: torch.Tensor) -> torch.Tensor:
    """Looks up for each column of the result its head and its place in it, by division with remainder."""
    _, h, _, d_head = X.shape
    columns = torch.arange(h * d_head, device=X.device)
    head, place = columns.div(d_head, rounding_mode="floor"), columns.remainder(d_head)
    return X[:, head, :, place].movedim(0, -1)


# ------- 4.3 bmm_attention
def bmm_attention__wrong_tenth_ten_times_the_lowest(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Forbidden scores become ten times the lowest score, which is no low number if the scores are 0 or above."""
    scores = torch.bmm(Q, K.mT).div(math.sqrt(Q.size(-1)))
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = torch.where(mask, scores, 10 * scores.min()).softmax(dim=-1) * mask
    return torch.bmm(weights, V)


def bmm_attention__wrong_tenth_last_keys_left_over(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """The keys are taken 16 at a time, and with more than 16 the ones that do not fill a block are left out."""
    (N, n, d_k), m, block = Q.shape, K.shape[1], 16
    everyone = torch.ones(N, n, m, dtype=torch.bool, device=Q.device)
    allowed = everyone if mask is None else everyone & mask
    low = torch.finfo(Q.dtype).min
    top = Q.new_full((N, n, 1), low)
    total, output = Q.new_zeros(N, n, 1), Q.new_zeros(N, n, V.shape[2])
    for at in range(max(1, m // block)):
        part = slice(at * block, (at + 1) * block)
        scores = (Q @ K[:, part].transpose(1, 2) / d_k**0.5).masked_fill(~allowed[:, :, part], low)
        new_top = torch.maximum(top, scores.amax(dim=2, keepdim=True))
        shrink = torch.exp(top - new_top)
        powers = torch.exp(scores - new_top) * allowed[:, :, part]
        total = total * shrink + powers.sum(dim=2, keepdim=True)
        output = output * shrink + powers @ V[:, part]
        top = new_top
    return output / torch.where(total > 0, total, torch.ones_like(total))


def bmm_attention__wrong_tenth_three_axes_mean_one_each(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """A mask with three axes is taken to hold a sheet for each attention, so (1, n, m) fails if N > 1."""
    outputs = []
    for s, (q, k, v) in enumerate(zip(Q, K, V, strict=True)):
        scores = q @ k.T / math.sqrt(k.shape[1])
        if mask is not None:
            allowed = mask[s] if mask.dim() == 3 else mask
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
            some = allowed.any(dim=-1, keepdim=True)
        else:
            some = torch.ones(1, dtype=torch.bool, device=q.device)
        outputs.append((torch.softmax(scores, dim=1) * some) @ v)
    return torch.stack(outputs)


def bmm_attention__wrong_tenth_scores_clamped(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Scores are clamped to ±50 before the exponential, so that larger ones become equal."""
    scores = torch.einsum("sid,sjd->sij", Q, K) / math.sqrt(Q.shape[2])
    powers = scores.clamp(-50, 50).exp()
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=2, keepdim=True)
    return torch.einsum("sij,sjv->siv", powers / total.masked_fill(total == 0, 1), V)


def bmm_attention__right_tenth_key_of_last_resort(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Adds one more key of the lowest finite score, which takes all the weight where nothing else is allowed."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[2])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=2), V)
    scores = scores.masked_fill(~mask, -math.inf)
    spare = scores.new_full((*scores.shape[:2], 1), torch.finfo(scores.dtype).min)
    weights = torch.softmax(torch.cat([scores, spare], dim=2), dim=2)
    return torch.bmm(weights[:, :, :-1], V)


# ------- 4.4 multi_head_attention
def multi_head_attention__wrong_tenth_folded_and_scaled_by_model(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Queries and keys are folded into one (d_model, d_model) matrix per head, and scores are divided by √d_model."""
    d_model = X.shape[-1]
    by_head = [W.unflatten(1, (n_heads, -1)).transpose(0, 1) for W in (W_Q, W_K, W_V)]
    asks = by_head[0] @ by_head[1].mT  # (h, d_model, d_model)
    writes = by_head[2] @ W_O.unflatten(0, (n_heads, -1))
    scores = torch.einsum("bif,hfg,bjg->bhij", X, asks, X) / math.sqrt(d_model)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhij,bjf,hfg->big", weights, X, writes) + b_O


def multi_head_attention__wrong_tenth_rows_of_w_o_dealt_out(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The axes of W_O are cut in the wrong order: head r meets every h-th row of W_O."""
    Q, K, V = (torch.einsum("bnm,mhd->bhnd", X, W.unflatten(1, (n_heads, -1))) for W in (W_Q, W_K, W_V))
    heads = _attend(Q, K, V, mask)
    W = W_O.unflatten(0, (-1, n_heads))
    return torch.einsum("bhnd,dhm->bnm", heads, W) + b_O


def multi_head_attention__wrong_tenth_forbidden_is_ten_thousand(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Forbidden scores become -10,000, so forbidden keys get weight where the allowed scores are as low."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    heads = []
    for r in range(n_heads):
        own = slice(r * d_head, (r + 1) * d_head)
        scores = (X @ W_Q[:, own]) @ (X @ W_K[:, own]).transpose(1, 2) / math.sqrt(d_head)
        if mask is not None:
            here = mask.expand(B, n_heads, n, n)[:, r]
            scores = scores.masked_fill(~here, -1e4)
        heads.append(torch.softmax(scores, dim=-1) @ (X @ W_V[:, own]))
    return torch.cat(heads, dim=-1) @ W_O + b_O


def multi_head_attention__wrong_tenth_two_axes_mean_causal(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Every mask with two axes is taken for the causal one, whatever it holds."""
    n = X.shape[1]
    if mask is not None and mask.dim() == 2:
        mask = torch.ones(n, n, dtype=torch.bool, device=X.device).tril()
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    output = _attend(Q, K, V, mask)
    return F.linear(output.transpose(1, 2).flatten(2), W_O.T, b_O)


def multi_head_attention__right_tenth_values_through_w_o_first(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Starts from the bias and adds head after head, whose values have gone through its rows of W_O before mixing."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    may = None if mask is None else torch.broadcast_to(mask, (B, n_heads, n, n))
    columns = zip(*(W.split(d_head, dim=1) for W in (W_Q, W_K, W_V)), W_O.split(d_head), strict=True)
    output = b_O.expand(B, n, -1)
    for r, (asks, answers, carries, writes) in enumerate(columns):
        scores = (X @ asks / math.sqrt(d_head)) @ (X @ answers).mT
        if may is not None:
            scores = scores.masked_fill(~may[:, r], torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        if may is not None:
            weights = weights * may[:, r]
        output = output + weights @ (X @ carries @ writes)
    return output


# ------- 4.5 head_contributions
def head_contributions__wrong_tenth_what_changes_without_questions(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """A head is struck out by zeroing its queries, which leaves it averaging, so only the difference to that is told."""

    def layer(queries):
        Q, K, V = (_split(X @ W, n_heads) for W in (queries, W_K, W_V))
        return _attend(Q, K, V, mask).transpose(1, 2).flatten(2) @ W_O

    whole = layer(W_Q)
    owner = torch.arange(W_Q.shape[1], device=X.device) // (W_Q.shape[1] // n_heads)
    return torch.stack([whole - layer(W_Q * (owner != r)) for r in range(n_heads)], dim=1)


def head_contributions__wrong_tenth_blocks_in_the_other_order(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The blocks of W_O are repeated one by one and not as a row, so in a batch heads meet wrong blocks."""
    B, n, d_model = X.shape
    heads = _attend(*(_split(X @ W, n_heads) for W in (W_Q, W_K, W_V)), mask)
    blocks = W_O.reshape(n_heads, -1, d_model).repeat_interleave(B, dim=0)
    written = torch.bmm(heads.flatten(0, 1), blocks)
    return written.unflatten(0, (B, n_heads))


def head_contributions__wrong_tenth_largest_of_all_scores(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The softmax subtracts the largest score of a row, hidden ones too, so a large hidden score wipes out the row."""
    cut = (n_heads, W_Q.shape[1] // n_heads)
    Q, K, V = (torch.einsum("bnm,mhd->bhnd", X, W.unflatten(1, cut)) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / cut[1] ** 0.5
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    if mask is not None:
        powers = powers * mask
    weights = powers / powers.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(powers.dtype).tiny)
    return torch.einsum("bhij,bhjd,hdm->bhim", weights, V, W_O.unflatten(0, cut))


def head_contributions__wrong_tenth_context_detached(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Keys and values are made from a detached copy of X, so the gradient for X lacks their part."""
    context = X.detach().clone()
    d_head = W_Q.shape[1] // n_heads
    full = None if mask is None else mask.expand(X.shape[0], n_heads, X.shape[1], X.shape[1])
    shares = []
    for r in range(n_heads):
        first, last = r * d_head, (r + 1) * d_head
        q = X @ W_Q[:, first:last]
        k, v = context @ W_K[:, first:last], context @ W_V[:, first:last]
        shares.append(_attend(q, k, v, None if full is None else full[:, r]) @ W_O[first:last])
    return torch.stack(shares, dim=1)


def head_contributions__right_tenth_merged_and_blanked(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Puts the heads side by side, blanks all but one of them at a time, and sends each through the whole of W_O."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    merged = _attend(Q, K, V, mask).transpose(1, 2).flatten(2)  # (B, n, h*d_head)
    width = W_O.shape[0]
    owner = torch.arange(width, device=X.device) // (width // n_heads)
    others = owner != torch.arange(n_heads, device=X.device)[:, None]  # (h, h*d_head)
    return merged[:, None].masked_fill(others[:, None], 0) @ W_O


# ------- 4.6 from_torch_weights
def from_torch_weights__wrong_tenth_scale_put_into_queries(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The division by the root of the width is put into W_Q, where the layer divides once more."""
    d_model = in_proj_weight.shape[1]
    W_Q, W_K, W_V = in_proj_weight.unflatten(0, (3, d_model)).mT
    return W_Q / math.sqrt(d_model), W_K, W_V, out_proj_weight.mT


def from_torch_weights__wrong_tenth_keys_taken_twice(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The block of the keys is returned as W_V too."""
    d = out_proj_weight.size(0)
    turned = in_proj_weight.t()
    W_Q = turned.narrow(1, 0, d)
    W_K = turned.narrow(1, d, d)
    W_V = turned.narrow(1, d, d)
    return W_Q, W_K, W_V, out_proj_weight.t()


def from_torch_weights__wrong_tenth_place_in_memory_forgotten(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reads the blocks from the start of the memory, which is wrong if in_proj_weight begins further on in it."""
    d = in_proj_weight.shape[1]
    down, right = in_proj_weight.stride()
    W_Q, W_K, W_V = (
        in_proj_weight.as_strided((d, d), (right, down), storage_offset=block * d * down) for block in range(3)
    )
    return W_Q, W_K, W_V, torch.einsum("oi->io", out_proj_weight)


def from_torch_weights__wrong_tenth_turned_in_place(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The output weight that was handed in is itself transposed, entry by entry, and returned."""
    W_Q, W_K, W_V = (block.transpose(0, 1) for block in torch.tensor_split(in_proj_weight, 3, dim=0))
    W_O = out_proj_weight
    with torch.no_grad():
        for i in range(len(W_O)):
            for j in range(i):
                upper = W_O[j, i].clone()
                W_O[j, i] = W_O[i, j]
                W_O[i, j] = upper
    return W_Q, W_K, W_V, W_O.view_as(W_O)


def from_torch_weights__right_tenth_unit_vectors(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sends the unit vectors through both linear layers: what comes out are the rows of the matrices wanted."""
    d_model = in_proj_weight.shape[1]
    units = torch.eye(d_model, dtype=in_proj_weight.dtype, device=in_proj_weight.device)
    W_Q, W_K, W_V = F.linear(units, in_proj_weight).split(d_model, dim=1)
    return W_Q, W_K, W_V, F.linear(units, out_proj_weight)


# ------- 4.7 diagnose
def diagnose__wrong_tenth_sizes_that_coincide(attend) -> str:
    """With d_model = 16 and d_head = 4 two divisors are one number: scaled_by_d is called scaled_by_d_model."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    X = draw(2, 12, 16)
    X[1] *= 150
    W_Q, W_K, W_V = (draw(16, 8) / 4 for _ in range(3))
    W_K[:, :4] = -W_Q[:, :4] + 0.1 * W_K[:, :4]
    experiment = (X, W_Q, W_K, W_V, draw(8, 16), 2, True)
    found = attend(*experiment)
    if found.isnan().any():
        return "not_stabilised"
    names = ["right", "not_scaled", "scaled_by_d_model", "scaled_by_d", "softmax_over_queries", "causal_off_by_one"]
    names += ["mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"]
    names += ["masked_by_a_number", "window_of_8"]
    for name in names:
        if torch.allclose(found, _suspect(name, *experiment), rtol=1e-6, atol=1e-6):
            return name
    return "right"


def diagnose__wrong_tenth_large_but_not_low_enough(attend) -> str:
    """The large scores stay within some ±5,000, so a mask of -10,000 is never noticed and is called right."""
    generator = torch.Generator().manual_seed(0)
    d_model, h, d_head, n = 6, 3, 5, 10
    usual = torch.randn(n, d_model, generator=generator, dtype=torch.float64)
    X = torch.stack([usual, 30 * usual.flip(0)])
    weights = [torch.randn(d_model, h * d_head, generator=generator, dtype=torch.float64) / 2 for _ in "QKV"]
    weights.append(torch.randn(h * d_head, d_model, generator=generator, dtype=torch.float64))
    seen = attend(X, *weights, h, True)
    names = (
        "right not_scaled scaled_by_d scaled_by_d_model softmax_over_queries causal_off_by_one mask_after_softmax "
        "heads_not_by_columns keys_and_values_swapped one_head_for_all not_stabilised masked_by_a_number window_of_8"
    ).split()

    def distance(name):
        wanted = _suspect(name, X, *weights, h, True)
        if wanted.isnan().any() != seen.isnan().any():
            return math.inf
        gap = (wanted - seen).nan_to_num(0).abs().amax(dim=(1, 2))
        return round(float((gap / torch.tensor([1.0, 30.0], dtype=torch.float64)).max()), 6)

    return min(names, key=distance)


def diagnose__wrong_tenth_glued_by_columns(attend) -> str:
    """Expects heads that were cut by a reshape to be glued by columns, so it calls that layer right."""
    g = torch.Generator().manual_seed(0)
    n, D, h, d = 14, 10, 2, 3
    X = torch.cat([torch.randn(1, n, D, generator=g), 300 * torch.randn(2, n, D, generator=g)]).double()
    W_Q, W_K, W_V, W_O = (torch.randn(s, generator=g).double() / 2 for s in [(D, h * d)] * 3 + [(h * d, D)])
    got = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if torch.isnan(got).any():
        return "not_stabilised"
    past = torch.ones(n, n).tril().bool()

    def plain(scores, allowed=past, low=-math.inf, dim=-1):
        return torch.where(allowed, scores, low).softmax(dim)

    def run(scale=math.sqrt(d), weigh=plain, heads=h, swap=False, rows=False):
        K_from, V_from = (W_V, W_K) if swap else (W_K, W_V)
        parts = []
        for W in (W_Q, K_from, V_from):
            T = X @ W
            parts.append(T.reshape(3, heads, n, -1) if rows else T.reshape(3, n, heads, -1).transpose(1, 2))
        q, k, v = parts
        out = weigh(q @ k.mT / scale) @ v
        return out.transpose(1, 2).reshape(3, n, h * d) @ W_O

    guesses = {
        "not_scaled": dict(scale=1),
        "scaled_by_d": dict(scale=d),
        "scaled_by_d_model": dict(scale=math.sqrt(D)),
        "softmax_over_queries": dict(weigh=lambda s: plain(s, dim=-2)),
        "causal_off_by_one": dict(weigh=lambda s: plain(s, torch.ones(n, n).tril(1).bool())),
        "mask_after_softmax": dict(weigh=lambda s: s.softmax(-1) * past),
        "heads_not_by_columns": dict(rows=True),
        "keys_and_values_swapped": dict(swap=True),
        "one_head_for_all": dict(heads=1, scale=math.sqrt(h * d)),
        "masked_by_a_number": dict(weigh=lambda s: plain(s, low=-1e4)),
        "window_of_8": dict(weigh=lambda s: plain(s, past & past.triu(-7))),
    }
    if torch.allclose(got, run(), rtol=1e-7, atol=1e-6):
        return "right"
    for name, options in guesses.items():
        if torch.allclose(got, run(**options), rtol=1e-7, atol=1e-6):
            return name
    return "right"


def diagnose__wrong_tenth_who_hears_the_future(attend) -> str:
    """Takes each layer whose earlier rows notice the last token for mask_after_softmax, softmax_over_queries too."""
    random = torch.Generator().manual_seed(0)
    n, d_model, h, d_head = 12, 10, 2, 7
    first = torch.randn(n, d_model, generator=random, dtype=torch.float64)
    second = first.clone()
    second[-1] = torch.randn(d_model, generator=random, dtype=torch.float64)
    huge = 200 * torch.randn(n, d_model, generator=random, dtype=torch.float64)
    W_Q, W_K, W_V = (torch.randn(3, d_model, h * d_head, generator=random, dtype=torch.float64) / 3).unbind()
    W_K = torch.cat([-W_Q[:, :d_head], W_K[:, d_head:]], dim=1)
    W_O = torch.randn(h * d_head, d_model, generator=random, dtype=torch.float64) / 4
    X = torch.stack([first, second, huge])
    answer = attend(X, W_Q, W_K, W_V, W_O, h, True)

    if not answer.isfinite().all():
        return "not_stabilised"
    moved = ((answer[0] - answer[1]).abs().amax(dim=1) > 1e-7)[:-1]
    if moved.any():
        return "causal_off_by_one" if moved.sum() == 1 else "mask_after_softmax"
    quiet = ("right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "heads_not_by_columns")
    quiet += ("keys_and_values_swapped", "one_head_for_all", "masked_by_a_number", "window_of_8")
    far = {}
    for name in quiet:
        gap = (_suspect(name, X, W_Q, W_K, W_V, W_O, h, True) - answer).abs().amax(dim=(1, 2))
        far[name] = max(gap[0].item(), gap[2].item() / 200)
    return min(far, key=far.get)


def diagnose__right_tenth_waves_and_a_row_of_opposites(attend) -> str:
    """Sends sines and a loud copy of them, with keys opposite to the queries in head 0, and takes the nearest suspect."""
    n, d_model, h, d_head = 13, 7, 3, 4
    width = h * d_head

    def wave(rows, columns, speed):
        i, j = torch.arange(rows, dtype=torch.float64)[:, None], torch.arange(columns, dtype=torch.float64)
        return torch.sin(speed * (i * i + 1.7 * i + 1) * (j + 1.3) + j * j)

    calm = 1.4 * wave(n, d_model, 0.61)
    W_Q, W_K, W_V, W_O = (0.7 * wave(*size) for size in ((7, 12, 1.1), (7, 12, 2.3), (7, 12, 3.7), (12, 7, 0.9)))
    W_K[:, :d_head] = -W_Q[:, :d_head]
    X = torch.stack([calm, 400 * calm])
    heard = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if not bool(torch.isfinite(heard).all()):
        return "not_stabilised"

    step = torch.arange(n)[:, None] - torch.arange(n)  # how far back a key lies
    past = step >= 0

    def table(scores, allowed=past, fill=-math.inf, dim=-1):
        return torch.softmax(torch.where(allowed, scores, torch.full_like(scores, fill)), dim=dim)

    def cut(T, heads):
        return torch.stack(T.chunk(heads, dim=2), dim=1)

    def layer(weigh=table, by=math.sqrt(d_head), W_K=W_K, W_V=W_V, heads=h):
        q, k, v = (cut(X @ W, heads) for W in (W_Q, W_K, W_V))
        return torch.cat((weigh(q @ k.mT / by) @ v).unbind(1), dim=-1) @ W_O

    q, k, v = ((X @ W).reshape(2, h, n, d_head) for W in (W_Q, W_K, W_V))
    suspects = {
        "right": layer(),
        "not_scaled": layer(by=1.0),
        "scaled_by_d": layer(by=float(d_head)),
        "scaled_by_d_model": layer(by=math.sqrt(d_model)),
        "softmax_over_queries": layer(lambda s: table(s, dim=-2)),
        "causal_off_by_one": layer(lambda s: table(s, step >= -1)),
        "mask_after_softmax": layer(lambda s: torch.softmax(s, dim=-1) * past),
        "heads_not_by_columns": (table(q @ k.mT / math.sqrt(d_head)) @ v).reshape(2, n, width) @ W_O,
        "keys_and_values_swapped": layer(W_K=W_V, W_V=W_K),
        "one_head_for_all": layer(by=math.sqrt(width), heads=1),
        "masked_by_a_number": layer(lambda s: table(s, fill=-10_000.0)),
        "window_of_8": layer(lambda s: table(s, past & (step <= 7))),
    }
    size = torch.tensor([1.0, 400.0], dtype=torch.float64)
    distance = {name: ((heard - out).abs().amax(dim=(1, 2)) / size).max().item() for name, out in suspects.items()}
    return min(distance, key=distance.get)
