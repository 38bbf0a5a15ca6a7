"""Answers to the exercises of unit 4, multi-head attention, as a class of students would write them (eighth)."""

import math

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    """Exercise 4.1, right: (B, n, h*d_head) -> (B, h, n, d_head)."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).transpose(1, 2)


def _merge_heads(X):
    """Exercise 4.2, right: (B, h, n, d_head) -> (B, n, h*d_head)."""
    return X.transpose(1, 2).flatten(2)


def _bmm_attention(Q, K, V, mask=None):
    """Exercise 4.3, right: N attentions at once."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.bmm(torch.softmax(scores, dim=-1) * mask, V)


# ---------------------------------------------------------------- 4.1 split_heads


def split_heads__wrong_eighth_stacked_in_front_then_reshaped(X, n_heads):
    """Stacks the heads' column blocks on a new axis 0, (h, B, n, d_head), and reshapes that to (B, h, n, d_head), which mixes sequences and heads."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    d_head = width // n_heads
    pieces = [X[:, :, r * d_head : (r + 1) * d_head] for r in range(n_heads)]
    return torch.stack(pieces).reshape(B, n_heads, n, d_head)


def split_heads__wrong_eighth_buffer_in_default_dtype(X, n_heads):
    """Copies the blocks into a torch.zeros buffer without a dtype, so that float64 comes back as float32."""
    B, n, width = X.shape
    d_head, rest = divmod(width, n_heads)
    if rest:
        raise ValueError(f"width {width} cannot be cut into {n_heads} heads")
    heads = torch.zeros(B, n_heads, n, d_head)
    for r in range(n_heads):
        heads[:, r] = X[..., r * d_head : (r + 1) * d_head]
    return heads


def split_heads__wrong_eighth_message_names_the_rest(X, n_heads):
    """Its ValueError names the number of heads and the remainder, but not the width X.shape[-1]."""
    left_over = X.shape[-1] % n_heads
    if left_over:
        raise ValueError(f"with {n_heads} heads there is a rest: {left_over}")
    return X.unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3)


def split_heads__wrong_eighth_n_heads_as_the_width_of_a_piece(X, n_heads):
    """torch.split takes the size of a piece and not the number of pieces: the heads become n_heads wide, and d_head many."""
    if X.size(-1) % n_heads > 0:
        raise ValueError(f"{n_heads} does not divide {X.size(-1)}")
    return torch.stack(torch.split(X, n_heads, dim=-1), dim=1)


def split_heads__right_eighth_table_of_column_numbers(X, n_heads):
    """Indexes the columns with a table (h, d_head) of their numbers, then moves the new head axis to the front of the tokens."""
    width = X.shape[-1]
    if width % n_heads:
        raise ValueError(
            f"a width of {width} cannot be shared out evenly among {n_heads} heads"
        )
    d_head = width // n_heads
    first = torch.arange(n_heads, device=X.device)[:, None] * d_head
    columns = first + torch.arange(d_head, device=X.device)  # (h, d_head)
    return X[:, :, columns].movedim(2, 1)


# ---------------------------------------------------------------- 4.2 merge_heads


def merge_heads__wrong_eighth_head_axis_runs_fastest(X):
    """Permutes to (B, n, d_head, h) before flattening, so the heads are interleaved: column k*h + r in place of r*d_head + k."""
    B, h, n, d_head = X.shape
    tokens_first = X.permute(0, 2, 3, 1)
    return tokens_first.reshape(B, n, d_head * h)


def merge_heads__wrong_eighth_swaps_the_axes_in_place(X):
    """Uses transpose_ with the underscore, so that the caller's X has its axes swapped afterwards."""
    X = X.transpose_(1, 2)
    return X.flatten(start_dim=2)


def merge_heads__wrong_eighth_squeezed_at_the_end(X):
    """Squeezes the result, so that a batch of one, a single token or a width of 1 loses its axis."""
    side_by_side = torch.cat([X[:, r] for r in range(X.shape[1])], dim=2)
    return side_by_side.squeeze()


def merge_heads__wrong_eighth_built_anew_from_lists(X):
    """Collects the numbers with tolist() and makes a new tensor of them, which cuts the gradient."""
    rows = []
    for sequence in X:
        rows.append([])
        for t in range(X.shape[2]):
            token = []
            for head in sequence:
                token += head[t].tolist()
            rows[-1].append(token)
    return torch.tensor(rows, dtype=X.dtype)


def merge_heads__right_eighth_each_head_padded_to_full_width_and_added(X):
    """Pads each head with zeros to the full width, at its own columns, and adds them all up."""
    h, d_head = X.shape[1], X.shape[3]
    merged = F.pad(X[:, 0], (0, (h - 1) * d_head))
    for r in range(1, h):
        merged = merged + F.pad(X[:, r], (r * d_head, (h - 1 - r) * d_head))
    return merged


# ---------------------------------------------------------------- 4.3 bmm_attention


def bmm_attention__wrong_eighth_one_maximum_for_all_rows(Q, K, V, mask=None):
    """Its own softmax subtracts the one maximum of all N score tables, so rows with far lower scores underflow to weights of 0."""
    S = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[2])
    allowed = torch.ones_like(S, dtype=torch.bool)
    if mask is not None:
        allowed = mask.expand(S.shape)
    S = S.masked_fill(~allowed, torch.finfo(S.dtype).min)
    E = torch.exp(S - S.max()) * allowed
    total = E.sum(dim=2, keepdim=True)
    E = E / torch.where(total > 0, total, torch.ones_like(total))
    return torch.bmm(E, V)


def bmm_attention__wrong_eighth_forbidden_scores_become_zero(Q, K, V, mask=None):
    """Multiplies the scores by the mask, so a forbidden key enters the softmax with a score of 0 and takes its share of the sum."""
    scores = torch.einsum("nqd,nkd->nqk", Q, K) * Q.shape[-1] ** -0.5
    if mask is None:
        return scores.softmax(-1) @ V
    weights = (scores * mask).softmax(-1)
    return (weights * mask) @ V


def bmm_attention__wrong_eighth_empty_columns_in_place_of_empty_rows(Q, K, V, mask=None):
    """Looks for keys that nobody sees (any over the queries) and not for queries that see nothing, so an empty row gives a mean of values."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand_as(scores)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        something_to_see = mask.any(dim=-2, keepdim=True)
        weights = weights.masked_fill(~something_to_see, 0.0)
    return torch.bmm(weights, V)


def bmm_attention__wrong_eighth_nan_mended_on_the_output(Q, K, V, mask=None):
    """Fills with -inf and replaces the NaN of empty rows in the output only, so the gradient of V is NaN."""
    scores = torch.baddbmm(
        torch.zeros(1, 1, 1, dtype=Q.dtype, device=Q.device),
        Q,
        K.transpose(-2, -1),
        alpha=1 / math.sqrt(Q.shape[-1]),
    )
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    mixed = torch.bmm(torch.softmax(scores, dim=-1), V)
    return torch.nan_to_num(mixed, nan=0.0)


def bmm_attention__right_eighth_one_key_after_another(Q, K, V, mask=None):
    """Goes through the keys one by one with a running maximum, a running sum and a running mixture (online softmax)."""
    N, n, d_k = Q.shape
    m = K.shape[1]
    low = torch.finfo(Q.dtype).min
    if mask is None:
        mask = torch.ones(1, 1, 1, dtype=torch.bool, device=Q.device)
    mask = mask.expand(N, n, m)
    top = Q.new_full((N, n, 1), low)
    total = Q.new_zeros(N, n, 1)
    mixed = Q.new_zeros(N, n, V.shape[2])
    for j in range(m):
        see = mask[:, :, j : j + 1]
        score = torch.bmm(Q, K[:, j, :, None]) / math.sqrt(d_k)  # (N, n, 1)
        score = score.masked_fill(~see, low)
        new_top = torch.maximum(top, score)
        keep = torch.exp(top - new_top)
        share = torch.exp(score - new_top) * see
        total = total * keep + share
        mixed = mixed * keep + share * V[:, j : j + 1]
        top = new_top
    return mixed / total.masked_fill(total == 0, 1.0)


# ---------------------------------------------------------------- 4.4 multi_head_attention


def multi_head_attention__wrong_eighth_weights_viewed_as_heads(
    X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None
):
    """Reshapes W_Q, W_K and W_V (d_model, h*d_head) directly to (h, d_model, d_head), so a head's matrix is no block of columns."""
    d_model, width = W_Q.shape
    d_head = width // n_heads
    per_head = [W.reshape(n_heads, d_model, d_head) for W in (W_Q, W_K, W_V)]
    Q, K, V = (torch.einsum("bnm,hmd->bhnd", X, W) for W in per_head)
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(d_head)
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min)
    heads = torch.einsum("bhij,bhjd->bihd", S.softmax(dim=-1), V)
    return heads.flatten(2) @ W_O + b_O


def multi_head_attention__wrong_eighth_mean_over_the_heads(
    X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None
):
    """Projects each head with its rows of W_O and takes the mean of the heads in place of their sum."""
    d = W_Q.shape[1] // n_heads
    B, n, _ = X.shape
    full = None if mask is None else mask.expand(B, n_heads, n, n)
    written = []
    for r in range(n_heads):
        own = slice(r * d, (r + 1) * d)
        head = _bmm_attention(
            X @ W_Q[:, own],
            X @ W_K[:, own],
            X @ W_V[:, own],
            None if full is None else full[:, r],
        )
        written.append(head @ W_O[own])
    return torch.stack(written).mean(dim=0) + b_O


def multi_head_attention__wrong_eighth_softmax_dim_2_of_three_axis_code(
    X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None
):
    """Keeps dim=2 from the three-axis bmm code, which is the axis of the queries in scores (B, h, n, n)."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_heads)
    V = _split_heads(X @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[3])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=2)
    if mask is not None:
        weights = weights * mask
    return _merge_heads(weights @ V) @ W_O + b_O


def multi_head_attention__wrong_eighth_mask_made_symmetric(
    X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None
):
    """Also hides the queries of hidden keys, mask & mask.mT, so that a causal mask leaves the diagonal alone and fillers give b_O."""
    B, n = X.shape[:2]
    Q, K, V = (
        _split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V)
    )
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
        mask = mask & mask.transpose(-1, -2)
        mask = mask.flatten(0, 1)
    out = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    return _merge_heads(out) @ W_O + b_O


def multi_head_attention__right_eighth_columns_of_others_zeroed(
    X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None
):
    """Never cuts an axis: zeroes the queries' columns of all other heads, meets the whole K and V, and keeps a head's own columns."""
    width = W_Q.shape[1]
    d_head = width // n_heads
    owner = torch.arange(width, device=X.device) // d_head
    mine = owner == torch.arange(n_heads, device=X.device)[:, None]  # (h, h*d_head)
    mine = mine[:, None].to(X.dtype)  # (h, 1, h*d_head)
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V  # (B, n, h*d_head)
    scores = (Q[:, None] * mine) @ K[:, None].mT / math.sqrt(d_head)  # (B, h, n, n)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    beside = ((weights @ V[:, None]) * mine).sum(dim=1)  # (B, n, h*d_head)
    return beside @ W_O + b_O


# ---------------------------------------------------------------- 4.5 head_contributions


def head_contributions__wrong_eighth_layer_without_the_head(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Returns what the layer writes when head r is struck out, and not what head r writes."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    heads = torch.softmax(scores, dim=-1) @ V
    without = []
    for r in range(n_heads):
        on = torch.ones(n_heads, 1, 1, dtype=X.dtype, device=X.device)
        on[r] = 0
        without.append(_merge_heads(heads * on) @ W_O)
    return torch.stack(without, dim=1)


def head_contributions__wrong_eighth_tokens_in_front_of_heads(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Its einsum leaves the axes as (B, n, h, d_model) in place of (B, h, n, d_model)."""
    Q, K, V = ((X @ W).unflatten(2, (n_heads, -1)) for W in (W_Q, W_K, W_V))
    S = torch.einsum("bird,bjrd->brij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min)
    rows = W_O.unflatten(0, (n_heads, -1))
    return torch.einsum("brij,bjrd,rdm->birm", S.softmax(-1), V, rows)


def head_contributions__wrong_eighth_rows_of_W_O_by_data(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Takes the rows of W_O from W_O.data, so that no gradient reaches W_O."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    stack = [_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V)]
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = _bmm_attention(*stack, mask).unflatten(0, (B, n_heads))
    blocks = W_O.data.reshape(n_heads, d_head, -1)
    return heads @ blocks


def head_contributions__wrong_eighth_only_masks_with_four_axes(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Applies the mask only if it has four axes, so that a mask (n, n) or (h, n, n) changes nothing."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    d_head = Q.size(-1)
    shares = []
    for r in range(n_heads):
        table = Q[:, r] @ K[:, r].mT / math.sqrt(d_head)
        if mask is not None and mask.dim() == 4:
            own = mask[:, r] if mask.size(1) > 1 else mask[:, 0]
            table = table.masked_fill(~own, torch.finfo(table.dtype).min)
        mixed = torch.softmax(table, dim=-1) @ V[:, r]
        shares.append(mixed @ W_O[r * d_head : (r + 1) * d_head])
    return torch.stack(shares, dim=1)


def head_contributions__right_eighth_values_projected_before_mixing(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Sends each key's value through its head's rows of W_O first, (B, h, n, d_model), and mixes these with the weights last."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    written, tables = [], []
    for r in range(n_heads):
        own = range(r * d_head, (r + 1) * d_head)
        own = torch.tensor(list(own), device=X.device)
        q, k = X @ W_Q.index_select(1, own), X @ W_K.index_select(1, own)
        tables.append(q @ k.mT / math.sqrt(d_head))
        written.append(X @ W_V.index_select(1, own) @ W_O.index_select(0, own))
    scores = torch.stack(tables, dim=1)  # (B, h, n, n)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        see = mask.expand(B, n_heads, n, n)
        scores = scores.masked_fill(~see, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1) * see
    return weights @ torch.stack(written, dim=1)


# ---------------------------------------------------------------- 4.6 from_torch_weights


def from_torch_weights__wrong_eighth_reshaped_then_cut_by_columns(
    in_proj_weight, out_proj_weight
):
    """Reshapes (3*d_model, d_model) to (d_model, 3*d_model) in place of transposing it, then cuts the columns in three."""
    d_model = in_proj_weight.shape[1]
    wide = in_proj_weight.reshape(d_model, 3 * d_model)
    W_Q, W_K, W_V = wide.chunk(3, dim=1)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_eighth_every_third_row(in_proj_weight, out_proj_weight):
    """Takes the rows 0, 3, 6, … for the queries, 1, 4, 7, … for the keys, as if the three were interleaved and not block below block."""
    W_Q, W_K, W_V = (in_proj_weight[start::3].T for start in range(3))
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_eighth_turned_by_rot90(in_proj_weight, out_proj_weight):
    """Turns each block by 90 degrees with torch.rot90, which is a transpose with its rows in reverse order."""
    size = out_proj_weight.shape[0]
    blocks = in_proj_weight.split(size)
    turned = [torch.rot90(block) for block in (*blocks, out_proj_weight)]
    return tuple(turned)


def from_torch_weights__wrong_eighth_queries_scaled_already(
    in_proj_weight, out_proj_weight
):
    """Puts PyTorch's scaling of the queries, one over the root of d_model, into W_Q, though the layer scales the scores itself."""
    d_model = in_proj_weight.size(1)
    W_Q, W_K, W_V = in_proj_weight.T.tensor_split(3, dim=1)
    return W_Q / math.sqrt(d_model), W_K, W_V, out_proj_weight.t()


def from_torch_weights__right_eighth_rows_stacked_as_columns(
    in_proj_weight, out_proj_weight
):
    """Takes every row out by itself and stacks the rows of a block side by side as columns."""
    d_model = out_proj_weight.shape[0]
    rows = [in_proj_weight[i] for i in range(3 * d_model)]
    W_Q = torch.stack(rows[:d_model], dim=1)
    W_K = torch.stack(rows[d_model : 2 * d_model], dim=1)
    W_V = torch.stack(rows[2 * d_model :], dim=1)
    W_O = torch.stack(list(out_proj_weight), dim=1)
    return W_Q, W_K, W_V, W_O


# ---------------------------------------------------------------- 4.7 diagnose


def diagnose__wrong_eighth_nan_is_never_nearest(attend):
    """Takes the suspect with the smallest largest gap, but a gap of NaN is never smaller, so not_stabilised, which returns NaN, is called right."""
    names = ["right", "not_scaled", "scaled_by_d", "scaled_by_d_model"]
    names += ["softmax_over_queries", "causal_off_by_one", "mask_after_softmax"]
    names += ["heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"]
    names += ["not_stabilised", "masked_by_a_number", "window_of_8"]
    generator = torch.Generator().manual_seed(0)
    n, d_model, h, d = 12, 7, 3, 4

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    X, W_Q, W_K, W_V = draw(2, n, d_model), draw(7, 12), draw(7, 12), draw(7, 12)
    W_O = draw(12, d_model)
    # sequence 1: feature 0 brings every score near -40,000; sequence 0 has none of it
    X[:, :, 0] = torch.tensor([[0.0], [1]]).double()
    W_Q[:, ::d], W_K[:, ::d] = 0, 0
    W_Q[0, ::d], W_K[0, ::d] = 200, -400
    answer = attend(X, W_Q, W_K, W_V, W_O, h, True)

    def suspect(name):
        q, k, v = X @ W_Q, X @ W_K, X @ W_V
        if name == "keys_and_values_swapped":
            k, v = v, k
        heads = 1 if name == "one_head_for_all" else h
        if name == "heads_not_by_columns":
            q, k, v = (x.reshape(2, h, n, d) for x in (q, k, v))
        else:
            q, k, v = (_split_heads(x, heads) for x in (q, k, v))
        width = q.shape[-1]
        by = {"not_scaled": 1.0, "scaled_by_d": width, "scaled_by_d_model": 7**0.5}
        s = q @ k.mT / by.get(name, width**0.5)
        see = torch.ones(n, n).tril(1 if name == "causal_off_by_one" else 0)
        see = (see.triu(-7) if name == "window_of_8" else see).bool()
        if name == "not_stabilised":
            a = s.exp() * see
            a = a / a.sum(-1, keepdim=True)
        elif name == "mask_after_softmax":
            a = s.softmax(-1) * see
        else:
            fill = -1e4 if name == "masked_by_a_number" else -math.inf
            a = s.masked_fill(~see, fill)
            a = a.softmax(-2 if name == "softmax_over_queries" else -1)
        o = a @ v
        if name == "heads_not_by_columns":
            return o.reshape(2, n, h * d) @ W_O
        return _merge_heads(o) @ W_O

    found, smallest = "right", math.inf
    for name in names:
        gap = (answer - suspect(name)).abs().max().item()
        if gap < smallest:
            found, smallest = name, gap
    return found


def diagnose__wrong_eighth_all_scores_a_million(attend):
    """Makes all scores so large that every query gives all weight to one key, and then no divisor of the scores can be told from another."""
    gen = torch.Generator().manual_seed(0)
    B, n, D, h, d = 2, 11, 7, 3, 4

    def normal(*size):
        return torch.randn(size, generator=gen, dtype=torch.float64)

    X = normal(B, n, D)
    W_Q, W_K = 3000 * normal(D, h * d), 3000 * normal(D, h * d)
    W_V, W_O = normal(D, h * d), normal(h * d, D)
    told = attend(X, W_Q, W_K, W_V, W_O, h, True)

    def layer(
        divisor=math.sqrt(d),
        softmax_axis=3,
        diagonal=0,
        window=n,
        late=False,
        reshape=False,
        swap=False,
        heads=h,
        bare=False,
        fill=-math.inf,
    ):
        WK, WV = (W_V, W_K) if swap else (W_K, W_V)
        parts = []
        for W in (W_Q, WK, WV):
            Y = X @ W
            if reshape:
                parts.append(Y.reshape(B, heads, n, -1))
            else:
                parts.append(Y.reshape(B, n, heads, -1).permute(0, 2, 1, 3))
        Q, K, V = parts
        S = torch.einsum("bhid,bhjd->bhij", Q, K) / divisor
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        ok = (j <= i + diagonal) & (i - j < window)
        if bare:
            E = torch.where(ok, S.exp(), torch.zeros_like(S))
            A = E / E.sum(dim=3, keepdim=True)
        elif late:
            A = torch.where(ok, S.softmax(dim=3), torch.zeros_like(S))
        else:
            A = S.masked_fill(~ok, fill).softmax(dim=softmax_axis)
        out = torch.einsum("bhij,bhjd->bhid", A, V)
        out = out if reshape else out.permute(0, 2, 1, 3)
        return out.reshape(B, n, h * d) @ W_O

    table = {
        "right": {},
        "not_scaled": {"divisor": 1},
        "scaled_by_d": {"divisor": d},
        "scaled_by_d_model": {"divisor": math.sqrt(D)},
        "softmax_over_queries": {"softmax_axis": 2},
        "causal_off_by_one": {"diagonal": 1},
        "mask_after_softmax": {"late": True},
        "heads_not_by_columns": {"reshape": True},
        "keys_and_values_swapped": {"swap": True},
        "one_head_for_all": {"heads": 1, "divisor": math.sqrt(h * d)},
        "not_stabilised": {"bare": True},
        "masked_by_a_number": {"fill": -10_000.0},
        "window_of_8": {"window": 8},
    }
    distances = {}
    for name, options in table.items():
        difference = torch.nan_to_num(told, nan=1e9) - torch.nan_to_num(
            layer(**options), nan=1e9
        )
        distances[name] = float(difference.norm())
    return min(distances, key=distances.get)


def diagnose__wrong_eighth_compares_the_last_token_only(attend):
    """Compares the output of the last token alone, which sees all keys in any case, so causal_off_by_one, mask_after_softmax and masked_by_a_number look right."""
    random = torch.Generator().manual_seed(0)
    new = {"generator": random, "dtype": torch.float64}
    n, h, d, d_model = 14, 2, 5, 6
    X = torch.randn(2, n, d_model, **new)
    Ws = [torch.randn(d_model, h * d, **new) for _ in range(3)]
    W_O = torch.randn(h * d, d_model, **new)
    X[0, :, -1], X[1, :, -1] = 0, 1  # switches the deep scores on, in sequence 1
    for W, size in ((Ws[0], 300), (Ws[1], -300)):
        for r in range(h):
            W[:, r * d] = 0
            W[-1, r * d] = size
    output = attend(X, *Ws, W_O, h, True)[:, -1]

    def expected(name):
        Q, K, V = (X @ W for W in Ws)
        if name == "keys_and_values_swapped":
            K, V = V, K
        number, wide = (1, h * d) if name == "one_head_for_all" else (h, d)
        if name == "heads_not_by_columns":
            cut = [T.reshape(2, number, n, wide) for T in (Q, K, V)]
        else:
            cut = [T.view(2, n, number, wide).transpose(1, 2) for T in (Q, K, V)]
        divisor = math.sqrt(wide)
        if name == "not_scaled":
            divisor = 1
        if name == "scaled_by_d":
            divisor = wide
        if name == "scaled_by_d_model":
            divisor = math.sqrt(d_model)
        scores = torch.matmul(cut[0], cut[1].mT) / divisor
        shift = 1 if name == "causal_off_by_one" else 0
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1 + shift)
        if name == "window_of_8":
            hidden |= torch.ones(n, n, dtype=torch.bool).tril(-8)
        if name == "not_stabilised":
            weights = torch.exp(scores).masked_fill(hidden, 0)
            weights = weights / weights.sum(dim=-1, keepdim=True)
        elif name == "mask_after_softmax":
            weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0)
        elif name == "softmax_over_queries":
            weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-2)
        elif name == "masked_by_a_number":
            weights = torch.softmax(scores.masked_fill(hidden, -10000), dim=-1)
        else:
            weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
        heads = weights @ cut[2]
        if name != "heads_not_by_columns":
            heads = heads.transpose(1, 2)
        return (heads.reshape(2, n, h * d) @ W_O)[:, -1]

    for name in (
        *("right", "not_scaled", "scaled_by_d", "scaled_by_d_model"),
        *("softmax_over_queries", "causal_off_by_one", "mask_after_softmax"),
        *("heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"),
        *("not_stabilised", "masked_by_a_number", "window_of_8"),
    ):
        if torch.allclose(output, expected(name), equal_nan=True):
            return name
    return "right"


def diagnose__wrong_eighth_the_same_matrix_for_keys_and_values(attend):
    """Hands in one and the same matrix as W_K and W_V, so that keys_and_values_swapped answers as the right layer does."""
    g = torch.Generator().manual_seed(0)
    n, h, d, m = 10, 3, 3, 8
    X = torch.randn(2, n, m, generator=g, dtype=torch.float64)
    asks = torch.randn(m, h * d, generator=g, dtype=torch.float64)
    says = torch.randn(m, h * d, generator=g, dtype=torch.float64)
    back = torch.randn(h * d, m, generator=g, dtype=torch.float64)
    X[0, :, 0], X[1, :, 0] = 0, 100
    asks[:, ::d], says[:, ::d] = 0, 0
    asks[0, ::d], says[0, ::d] = 3, -3
    got = attend(X, asks, says, says, back, h, True)

    def play(name):
        K_from, V_from = says, says
        if name == "keys_and_values_swapped":
            K_from, V_from = V_from, K_from
        Q, K, V = X @ asks, X @ K_from, X @ V_from
        H = {"one_head_for_all": 1}.get(name, h)
        w = h * d // H
        if name == "heads_not_by_columns":
            Q, K, V = (T.reshape(2, H, n, w) for T in (Q, K, V))
        else:
            Q, K, V = (torch.stack(T.split(w, dim=2), dim=1) for T in (Q, K, V))
        S = Q @ K.transpose(2, 3)
        S = S / {"not_scaled": 1, "scaled_by_d": w, "scaled_by_d_model": m**0.5}.get(
            name, w**0.5
        )
        i = torch.arange(n)
        back_by = i[:, None] - i  # how far the key lies behind the query
        ok = back_by >= (-1 if name == "causal_off_by_one" else 0)
        if name == "window_of_8":
            ok = ok & (back_by <= 7)
        if name == "mask_after_softmax":
            A = torch.softmax(S, -1) * ok
        elif name == "not_stabilised":
            A = torch.exp(S) * ok
            A = A / A.sum(-1, keepdim=True)
        elif name == "masked_by_a_number":
            A = torch.softmax(torch.where(ok, S, -1e4), -1)
        else:
            A = torch.where(ok, S, -math.inf)
            A = torch.softmax(A, -2 if name == "softmax_over_queries" else -1)
        O = A @ V
        if name == "heads_not_by_columns":
            return O.reshape(2, n, h * d) @ back
        return torch.cat(O.unbind(1), dim=-1) @ back

    best = None
    for name in (
        "right not_scaled scaled_by_d scaled_by_d_model softmax_over_queries "
        "causal_off_by_one mask_after_softmax heads_not_by_columns "
        "keys_and_values_swapped one_head_for_all not_stabilised masked_by_a_number "
        "window_of_8"
    ).split():
        off = (got.nan_to_num(7e7) - play(name).nan_to_num(7e7)).abs().mean()
        if best is None or off < best[0]:
            best = off, name
    return best[1]


def diagnose__right_eighth_thirteen_forecasts_head_by_head(attend):
    """Forecasts all thirteen answers with loops over sequences and heads; sequence 0 has scores of order 1, sequence 1 near -40,000; takes the nearest, NaN counted as far off."""
    generator = torch.Generator().manual_seed(0)
    n, d_model, h, d = 13, 7, 3, 4

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    X = draw(2, n, d_model)
    W_Q, W_K, W_V = draw(d_model, h * d), draw(d_model, h * d), draw(d_model, h * d)
    W_O = draw(h * d, d_model)
    # Column 0 of each head is reserved: 0 in sequence 0, one deep constant in sequence 1.
    X[0, :, 0], X[1, :, 0] = 0.0, 1.0
    for r in range(h):
        W_Q[:, r * d] = 0.0
        W_K[:, r * d] = 0.0
        W_Q[0, r * d], W_K[0, r * d] = 200.0, -400.0
    heard = attend(X.clone(), W_Q, W_K, W_V, W_O, h, True)

    at = torch.arange(n)
    past = at <= at[:, None]

    def softmax(S, see, dim=-1):
        return torch.softmax(S.masked_fill(~see, -math.inf), dim=dim)

    def bare(S):
        E = torch.where(past, S.exp(), 0.0)
        return E / E.sum(dim=-1, keepdim=True)

    mixers = {
        "softmax_over_queries": lambda S: softmax(S, past, dim=0),
        "causal_off_by_one": lambda S: softmax(S, at <= at[:, None] + 1),
        "mask_after_softmax": lambda S: torch.softmax(S, dim=-1) * past,
        "not_stabilised": bare,
        "masked_by_a_number": lambda S: torch.softmax(
            S.masked_fill(~past, -10_000.0), dim=-1
        ),
        "window_of_8": lambda S: softmax(S, past & (at >= at[:, None] - 7)),
    }
    divisors = {
        "not_scaled": 1.0,
        "scaled_by_d": float(d),
        "scaled_by_d_model": math.sqrt(d_model),
        "one_head_for_all": math.sqrt(h * d),
    }

    def forecast(name):
        mix = mixers.get(name, lambda S: softmax(S, past))
        by = divisors.get(name, math.sqrt(d))
        outputs = []
        for x in X:
            q, k, v = x @ W_Q, x @ W_K, x @ W_V
            if name == "keys_and_values_swapped":
                k, v = v, k
            if name == "one_head_for_all":
                outputs.append(mix(q @ k.T / by) @ v @ W_O)
            elif name == "heads_not_by_columns":
                q, k, v = (table.reshape(h, n, d) for table in (q, k, v))
                found = [mix(q[r] @ k[r].T / by) @ v[r] for r in range(h)]
                outputs.append(torch.stack(found).reshape(n, h * d) @ W_O)
            else:
                total = 0
                for r in range(h):
                    own = slice(r * d, (r + 1) * d)
                    weights = mix(q[:, own] @ k[:, own].T / by)
                    total = total + weights @ v[:, own] @ W_O[own]
                outputs.append(total)
        return torch.stack(outputs)

    names = ["right", *divisors, *mixers]
    names += ["heads_not_by_columns", "keys_and_values_swapped"]
    gaps = {}
    for name in names:
        told = forecast(name)
        one_is_nan = told.isnan() != heard.isnan()
        gap = torch.where(told.isnan() & heard.isnan(), 0.0, (told - heard).abs())
        gaps[name] = torch.where(one_is_nan, 1e12, gap).max().item()
    return min(gaps, key=gaps.get)
