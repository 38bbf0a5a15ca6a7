"""Answers to unit 04's functions, written from the notebook alone."""

import math

import torch
from torch import nn


def _split(X, n_heads):
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).transpose(1, 2)


def _merge(X):
    return X.transpose(1, 2).flatten(2)


def _weights(scores, mask):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    kept = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(kept, dim=-1).masked_fill(~mask, 0.0)


def _heads(X, W_Q, W_K, W_V, n_heads, mask, divisor=None):
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / (math.sqrt(Q.shape[-1]) if divisor is None else divisor)
    return _weights(scores, mask) @ V


def _must_divide(X, n_heads):
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")


def split_heads__wrong_pieces_of_n_heads(X, n_heads):
    """The columns are cut into pieces n_heads wide, so number and width of the heads have changed places."""
    _must_divide(X, n_heads)
    return torch.stack(X.split(n_heads, dim=-1), dim=1)


def split_heads__wrong_heads_in_front(X, n_heads):
    """The heads are stacked in front of the batch, (h, B, n, d_head), not behind it."""
    _must_divide(X, n_heads)
    return torch.stack(X.chunk(n_heads, dim=-1))


def split_heads__wrong_assertion(X, n_heads):
    """Heads that do not divide the width raise an AssertionError and not a ValueError."""
    width = X.shape[-1]
    assert width % n_heads == 0, f"{n_heads} heads do not divide a width of {width}"
    return X.reshape(*X.shape[:2], n_heads, width // n_heads).transpose(1, 2)


def split_heads__wrong_every_hth_column(X, n_heads):
    """Head r gets the columns r, r + h, r + 2h and so on in place of a contiguous block."""
    _must_divide(X, n_heads)
    return torch.stack([X[:, :, r::n_heads] for r in range(n_heads)], dim=1)


def split_heads__wrong_reshape_alone_rest_dropped(X, n_heads):
    """A reshape alone makes the four axes without moving any, and columns that are left over are dropped silently."""
    batch, n, width = X.shape
    d_head = width // n_heads
    return X[:, :, : n_heads * d_head].reshape(batch, n_heads, n, d_head)


def split_heads__right_gathered(X, n_heads):
    """Gathers for every head its block of column numbers by one index table, and permutes the axes."""
    width = X.shape[2]
    d_head, left = divmod(width, n_heads)
    if left != 0:
        raise ValueError("width {} cannot be shared by {} heads".format(width, n_heads))
    columns = torch.arange(width, device=X.device).view(n_heads, d_head)
    return X[:, :, columns].permute(0, 2, 1, 3)


def merge_heads__wrong_plain_zeros(X):
    """The heads are written into a table of zeros of the default dtype, so float64 comes back as float32."""
    batch, h, n, d_head = X.shape
    merged = torch.zeros(batch, n, h * d_head)
    for r in range(h):
        merged[:, :, r * d_head : (r + 1) * d_head] = X[:, r]
    return merged


def merge_heads__wrong_added_up(X):
    """The heads are added up in place of put side by side, so the result is only d_head wide."""
    return X.sum(dim=1)


def merge_heads__wrong_behind_each_other(X):
    """The heads are put behind each other along the tokens, (B, h*n, d_head), not side by side."""
    return torch.cat(X.unbind(dim=1), dim=1)


def merge_heads__wrong_features_before_heads(X):
    """The axis of the features stands before that of the heads when they are glued, so the columns are interleaved."""
    return X.permute(0, 2, 3, 1).flatten(2)


def merge_heads__wrong_reshape_alone_detached(X):
    """A reshape alone glues the heads without moving an axis, and the result is cut off from the gradients."""
    batch, h, n, d_head = X.shape
    return X.detach().reshape(batch, n, h * d_head)


def merge_heads__right_side_by_side(X):
    """Takes the heads apart along their axis and concatenates them along the columns."""
    return torch.cat([X.select(1, r) for r in range(X.shape[1])], dim=-1)


def bmm_attention__wrong_any_hidden_key_empties(Q, K, V, mask=None):
    """Weights are set to 0 in each row that has some hidden key, not only where all keys are hidden."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    full = mask.expand(scores.shape)
    kept = scores.masked_fill(~full, torch.finfo(scores.dtype).min)
    weights = torch.softmax(kept, dim=-1) * full.all(dim=-1, keepdim=True)
    return torch.bmm(weights, V)


def bmm_attention__wrong_ten_below_lowest(Q, K, V, mask=None):
    """Hidden scores are set to 10 below the lowest score, which leaves them a small weight."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    full = mask.expand(scores.shape)
    low = scores.detach().amin() - 10
    weights = torch.softmax(torch.where(full, scores, low), dim=-1)
    return torch.bmm(weights.masked_fill(~full.any(dim=-1, keepdim=True), 0.0), V)


def bmm_attention__wrong_keys_viewed(Q, K, V, mask=None):
    """The keys are reshaped to (N, d_k, m) in place of transposed, so that entries of several keys are mixed."""
    n_all, m, width = K.shape
    scores = torch.bmm(Q, K.reshape(n_all, width, m)) / math.sqrt(width)
    return torch.bmm(_weights(scores, mask), V)


def bmm_attention__wrong_nan_mended_at_the_end(Q, K, V, mask=None):
    """Empty rows become NaN in the softmax and are replaced by 0 in the output alone, so the gradients hold NaN."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    output = torch.bmm(torch.softmax(scores, dim=-1), V)
    return torch.nan_to_num(output, nan=0.0)


def bmm_attention__wrong_second_axis_and_its_root(Q, K, V, mask=None):
    """The softmax runs along axis 1, the queries, and the scores are divided by the root of that axis's size."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=1), V)
    full = mask.expand(scores.shape)
    weights = torch.softmax(scores.masked_fill(~full, torch.finfo(scores.dtype).min), dim=1)
    return torch.bmm(weights.masked_fill(~full, 0.0), V)


def bmm_attention__right_own_softmax(Q, K, V, mask=None):
    """Takes the exponentials itself, zero where hidden, mixes the values with them and divides at the very end."""
    scores = torch.einsum("snd,smd->snm", Q / math.sqrt(Q.shape[2]), K)
    if mask is None:
        mask = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device)
    full = mask.expand(scores.shape)
    lowest = torch.finfo(scores.dtype).min
    largest = scores.detach().masked_fill(~full, lowest).amax(dim=2, keepdim=True)
    empty = ~full.any(dim=2, keepdim=True)
    shift = torch.where(empty, torch.zeros_like(largest), largest)
    powers = torch.where(full, scores - shift, torch.zeros_like(scores)).exp() * full
    total = powers.sum(dim=2, keepdim=True)
    return torch.einsum("snm,smv->snv", powers, V) / torch.where(empty, torch.ones_like(total), total)


def multi_head_attention__wrong_mask_heads_first(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The mask is flattened with the heads in front of the sequences, so sequences get each other's masks."""
    batch, n, _ = X.shape
    Q, K, V = (_split(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n).transpose(0, 1).flatten(0, 1)
    output = _weights(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), mask) @ V
    return _merge(output.unflatten(0, (batch, n_heads))) @ W_O + b_O


def multi_head_attention__wrong_width_from_model(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The width of a head is d_model // h and not read off W_Q, which fits only if the heads fill d_model."""
    batch, n, d_model = X.shape
    d_head = d_model // n_heads
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, d_head).transpose(1, 2) for W in (W_Q, W_K, W_V))
    output = _weights(Q @ K.mT / math.sqrt(d_head), mask) @ V
    return output.transpose(1, 2).reshape(batch, n, n_heads * d_head) @ W_O + b_O


def multi_head_attention__wrong_causal_by_default(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Without a mask the future is hidden, though None is to allow everything."""
    if mask is None:
        mask = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool, device=X.device).tril()
    return _merge(_heads(X, W_Q, W_K, W_V, n_heads, mask)) @ W_O + b_O


def multi_head_attention__wrong_heads_look_at_heads(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The heads stay behind the tokens, so in each token its heads attend to one another and no token to another."""
    Q, K, V = ((X @ W).unflatten(-1, (n_heads, -1)) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    return (_weights(scores, mask) @ V).flatten(2) @ W_O + b_O


def multi_head_attention__wrong_tokens_added_root_of_model(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The scores are divided by the root of d_model, and the tokens are added to what the layer returns."""
    heads = _heads(X, W_Q, W_K, W_V, n_heads, mask, divisor=math.sqrt(X.shape[-1]))
    return X + _merge(heads) @ W_O + b_O


def multi_head_attention__right_head_after_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Starts from the bias and adds what each head writes, computed from its own columns and rows in a loop."""
    batch, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    full = None if mask is None else mask.expand(batch, n_heads, n, n)
    output = b_O.expand(batch, n, -1)
    for r in range(n_heads):
        own = slice(r * d_head, (r + 1) * d_head)
        meet = W_Q[:, own] @ W_K[:, own].T / math.sqrt(d_head)
        scores = torch.einsum("bid,de,bje->bij", X, meet, X)
        weights = _weights(scores, None if full is None else full[:, r])
        output = output + weights @ X @ (W_V[:, own] @ W_O[own])
    return output


def head_contributions__wrong_every_hth_row(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Head r meets the rows r, r + h, r + 2h and so on of W_O in place of its contiguous block."""
    heads = _heads(X, W_Q, W_K, W_V, n_heads, mask)
    rows = torch.stack([W_O[r::n_heads] for r in range(n_heads)])
    return heads @ rows


def head_contributions__wrong_all_others(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Entry r is what the layer writes without head r, the sum of all others, and not what head r writes."""
    heads = _heads(X, W_Q, W_K, W_V, n_heads, mask)
    parts = []
    for r in range(n_heads):
        without = heads.clone()
        without[:, r] = 0
        parts.append(_merge(without) @ W_O)
    return torch.stack(parts, dim=1)


def head_contributions__wrong_first_heads_mask(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """All heads use the mask of head 0."""
    if mask is not None:
        mask = mask.expand(len(X), n_heads, X.shape[1], X.shape[1])[:, :1]
    heads = _heads(X, W_Q, W_K, W_V, n_heads, mask)
    return heads @ W_O.unflatten(0, (n_heads, -1))


def head_contributions__wrong_root_of_all_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The scores of each head are divided by the root of the width of all heads together."""
    heads = _heads(X, W_Q, W_K, W_V, n_heads, mask, divisor=W_Q.shape[1] ** 0.5)
    return heads @ W_O.unflatten(0, (n_heads, -1))


def head_contributions__wrong_heads_in_front_not_scaled(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The scores are not divided by anything, and the axis of the heads stands before that of the batch."""
    heads = _heads(X, W_Q, W_K, W_V, n_heads, mask, divisor=1.0)
    blocks = W_O.split(W_O.shape[0] // n_heads)
    return torch.stack([heads[:, r] @ block for r, block in enumerate(blocks)])


def head_contributions__right_values_up_first(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Takes each head's values up to the width of the model first and mixes them with the weights afterwards."""
    cut = (n_heads, W_Q.shape[1] // n_heads)
    Q = torch.einsum("bnd,dhk->bhnk", X, W_Q.unflatten(1, cut))
    K = torch.einsum("bnd,dhk->bhnk", X, W_K.unflatten(1, cut))
    up = torch.einsum("dhk,hkf->hdf", W_V.unflatten(1, cut), W_O.unflatten(0, cut))
    weights = _weights(torch.einsum("bhik,bhjk->bhij", Q, K) / math.sqrt(cut[1]), mask)
    return torch.einsum("bhij,bjd,hdf->bhif", weights, X, up)


def from_torch_weights__wrong_turned_then_reshaped(in_proj_weight, out_proj_weight):
    """The tall matrix is transposed first and then cut by a reshape, which mixes the three blocks."""
    d_model = in_proj_weight.shape[1]
    W_Q, W_K, W_V = in_proj_weight.T.reshape(3, d_model, d_model)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_output_not_turned(in_proj_weight, out_proj_weight):
    """W_O is handed on as it is stored, without a transpose."""
    W_Q, W_K, W_V = (block.T for block in in_proj_weight.chunk(3))
    return W_Q, W_K, W_V, out_proj_weight


def from_torch_weights__wrong_every_third_row(in_proj_weight, out_proj_weight):
    """The rows of the tall matrix are dealt out in turn to queries, keys and values, not in three blocks."""
    W_Q, W_K, W_V = (in_proj_weight[part::3].T for part in range(3))
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_new_parameters(in_proj_weight, out_proj_weight):
    """The results are new parameters, so their gradients do not reach the weights that were handed in."""
    parts = [*in_proj_weight.chunk(3), out_proj_weight]
    W_Q, W_K, W_V, W_O = (nn.Parameter(part.T.clone()) for part in parts)
    return W_Q, W_K, W_V, W_O


def from_torch_weights__wrong_values_second_not_turned(in_proj_weight, out_proj_weight):
    """The second block is returned as the values and the third as the keys, and none of these three is transposed."""
    d_model = out_proj_weight.shape[0]
    W_Q, W_V, W_K = in_proj_weight.split(d_model)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__right_permuted(in_proj_weight, out_proj_weight):
    """Gives the three blocks an axis of their own, moves the axes by a permutation, and unbinds them."""
    d_model = in_proj_weight.shape[1]
    blocks = in_proj_weight.reshape(3, d_model, d_model).permute(0, 2, 1)
    W_Q, W_K, W_V = torch.unbind(blocks, dim=0)
    return W_Q, W_K, W_V, torch.einsum("oi->io", out_proj_weight)


_NAMES = (
    *("right", "not_scaled", "scaled_by_d", "scaled_by_d_model"),
    *("softmax_over_queries", "causal_off_by_one", "mask_after_softmax"),
    *("heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"),
    *("not_stabilised", "masked_by_a_number", "window_of_8"),
)


def _suspect(name, X, W_Q, W_K, W_V, W_O, n_heads, causal, glued_by_columns=False):
    if name == "one_head_for_all":
        n_heads = 1
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    batch, n, d_model = X.shape
    d_head = W_Q.shape[1] // n_heads
    if name == "heads_not_by_columns":
        Q, K, V = ((X @ W).reshape(batch, n_heads, n, d_head) for W in (W_Q, W_K, W_V))
    else:
        Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    divisors = {"not_scaled": 1.0, "scaled_by_d": d_head, "scaled_by_d_model": math.sqrt(d_model)}
    scores = Q @ K.mT / divisors.get(name, math.sqrt(d_head))
    seen = torch.ones(n, n, dtype=torch.bool)
    if causal:
        seen = seen.tril(1 if name == "causal_off_by_one" else 0)
        if name == "window_of_8":
            seen = seen.triu(-7)
    if name == "softmax_over_queries":
        weights = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-2)
    elif name == "mask_after_softmax":
        weights = torch.softmax(scores, dim=-1) * seen
    elif name == "not_stabilised":
        powers = scores.exp() * seen
        weights = powers / powers.sum(dim=-1, keepdim=True)
    elif name == "masked_by_a_number":
        weights = torch.softmax(scores.masked_fill(~seen, -10_000.0), dim=-1)
    else:
        weights = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-1)
    output = weights @ V
    if name == "heads_not_by_columns" and not glued_by_columns:
        return output.reshape(batch, n, n_heads * d_head) @ W_O
    return _merge(output) @ W_O


def _draw(batch, n, d_model, n_heads, d_head):
    generator = torch.Generator().manual_seed(0)
    width = n_heads * d_head
    shapes = [(batch, n, d_model), *3 * [(d_model, width)], (width, d_model)]
    X, *weights = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [X, *(W / math.sqrt(len(W)) for W in weights)]


def _far_scores():
    n_heads, d_head = 3, 4
    X, W_Q, W_K, W_V, W_O = _draw(3, 12, 10, n_heads, d_head)
    X[:, :, :2] = 0
    X[1, :, 0], X[1, :, 1] = 100.0, 40.0
    X[2, :, 0], X[2, :, 1] = 100.0, -400.0
    for W, feature in ((W_Q, 0), (W_K, 1)):
        W[:, ::d_head] = 0
        W[feature] = 0
        W[feature, ::d_head] = 1.0
    return X, W_Q, W_K, W_V, W_O, n_heads, True


def _gap(found, wanted):
    found, wanted = (torch.nan_to_num(T, nan=1e9, posinf=1e9, neginf=-1e9) for T in (found, wanted))
    return (found - wanted).abs().max().item()


def diagnose__wrong_ordinary_numbers(attend):
    """All numbers are of order 1, so the two layers that fail at large scores alone are called right."""
    call = (*_draw(2, 12, 10, 3, 4), 3, True)
    found = attend(*call)
    gaps = {name: _gap(found, _suspect(name, *call)) for name in _NAMES}
    return next(name for name in _NAMES if gaps[name] <= min(gaps.values()) + 1e-6)


def diagnose__wrong_equal_to_the_last_digit(attend):
    """A layer is right only if its output is equal to the last digit, so rounding accuses a right one."""
    call = _far_scores()
    found = attend(*call)
    if torch.equal(found, _suspect("right", *call)):
        return "right"
    gaps = {name: _gap(found, _suspect(name, *call)) for name in _NAMES[1:]}
    return min(gaps, key=gaps.get)


def diagnose__wrong_last_token_alone(attend):
    """Only the output of the last token is compared, from which no future is hidden."""
    call = _far_scores()
    found = attend(*call)[:, -1]
    gaps = {name: _gap(found, _suspect(name, *call)[:, -1]) for name in _NAMES}
    return next(name for name in _NAMES if gaps[name] <= min(gaps.values()) + 1e-6)


def diagnose__wrong_suspect_glued_by_columns(attend):
    """The suspect whose heads are cut by a reshape is expected to glue them properly, so it is never recognised."""
    call = _far_scores()
    found = attend(*call)
    for name in _NAMES[1:]:
        if _gap(found, _suspect(name, *call, glued_by_columns=True)) < 1e-6:
            return name
    return "right"


def diagnose__wrong_short_text_and_square_width(attend):
    """The text has only 6 tokens, so a window of 8 hides nothing, and with widths 16 and 4 two divisors are one."""
    n_heads, d_head = 3, 4
    X, W_Q, W_K, W_V, W_O = _draw(3, 6, 16, n_heads, d_head)
    X[:, :, :2] = 0
    X[1, :, 0], X[1, :, 1] = 100.0, 40.0
    X[2, :, 0], X[2, :, 1] = 100.0, -400.0
    for W, feature in ((W_Q, 0), (W_K, 1)):
        W[:, ::d_head] = 0
        W[feature] = 0
        W[feature, ::d_head] = 1.0
    call = (X, W_Q, W_K, W_V, W_O, n_heads, True)
    found = attend(*call)
    gaps = {name: _gap(found, _suspect(name, *call)) for name in _NAMES}
    return next(name for name in _NAMES if gaps[name] <= min(gaps.values()) + 1e-6)


def diagnose__right_three_texts_at_once(attend):
    """Asks three sequences at once, their scores near 0, 2,000 and -20,000, and takes the nearest of all suspects."""
    call = _far_scores()
    found = attend(*(part.clone() if isinstance(part, torch.Tensor) else part for part in call))
    with torch.no_grad():
        gaps = [_gap(found, _suspect(name, *call)) for name in _NAMES]
    return _NAMES[gaps.index(min(gaps))]
