"""Answers to the exercises of unit 4 (multi-head attention), as students would hand them in: four wrong and one right for each."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def _weights(scores, mask):
    """The softmax over the last axis among the allowed keys; zeros where there is none."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _bmm_attention(Q, K, V, mask=None):
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    return torch.bmm(_weights(scores, mask), V)


# 4.1 split_heads


def split_heads__wrong_fifth_pieces_n_heads_wide(
    X: torch.Tensor, n_heads: int
) -> torch.Tensor:
    """Hands n_heads to X.split, which takes the width of a piece: there come d_head heads of width h."""
    width = X.shape[-1]
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    pieces = X.split(n_heads, dim=-1)
    return torch.stack(pieces, dim=1)


def split_heads__wrong_fifth_message_without_its_f(
    X: torch.Tensor, n_heads: int
) -> torch.Tensor:
    """The f before the string of the message is missing, so that it names no number."""
    if X.shape[-1] % n_heads:
        raise ValueError("{n_heads} heads do not divide a width of {X.shape[-1]}")
    B, n, width = X.shape
    return X.reshape(B, n, n_heads, width // n_heads).permute(0, 2, 1, 3)


def split_heads__wrong_fifth_left_over_columns_dropped(
    X: torch.Tensor, n_heads: int
) -> torch.Tensor:
    """Where the heads do not divide the width it leaves out the last columns and raises nothing."""
    d_head = X.shape[-1] // n_heads
    used = X[..., : n_heads * d_head]
    return used.unflatten(-1, (n_heads, d_head)).transpose(1, 2)


def split_heads__wrong_fifth_heads_before_the_batch(
    X: torch.Tensor, n_heads: int
) -> torch.Tensor:
    """Stacks the blocks along axis 0, so that the result is (h, B, n, d_head)."""
    if X.shape[-1] % n_heads > 0:
        raise ValueError(f"width {X.shape[-1]} cannot be cut into {n_heads} heads")
    return torch.stack(X.chunk(n_heads, dim=-1))


def split_heads__right_fifth_table_of_column_numbers(
    X: torch.Tensor, n_heads: int
) -> torch.Tensor:
    """Indexes the columns with a table (h, d_head) of the numbers r*d_head + k, and moves the new axis of heads forward."""
    d_head, rest = divmod(X.shape[-1], n_heads)
    if rest:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    r = torch.arange(n_heads, device=X.device)[:, None]
    k = torch.arange(d_head, device=X.device)[None, :]
    return X[:, :, r * d_head + k].movedim(2, 1)


# 4.2 merge_heads


def merge_heads__wrong_fifth_heads_run_fastest(X: torch.Tensor) -> torch.Tensor:
    """Permutes to (B, n, d_head, h) before it flattens: column k*h + r in place of r*d_head + k."""
    return X.permute(0, 2, 3, 1).flatten(2)


def merge_heads__wrong_fifth_sequences_glued(X: torch.Tensor) -> torch.Tensor:
    """list(X) goes along the batch: the sequences are glued side by side, (h, n, B*d_head)."""
    return torch.cat(list(X), dim=-1)


def merge_heads__wrong_fifth_each_head_put_in_front(X: torch.Tensor) -> torch.Tensor:
    """Builds the row up head by head but puts each new one in front, so that the last head comes first."""
    together = X[:, 0]
    for r in range(1, X.shape[1]):
        together = torch.cat([X[:, r], together], dim=-1)
    return together


def merge_heads__wrong_fifth_squeezed(X: torch.Tensor) -> torch.Tensor:
    """Ends with squeeze(), which drops the batch or the tokens where there is one."""
    B, h, n, d = X.shape
    merged = X.transpose(1, 2).reshape(B, n, h * d)
    return merged.squeeze()


def merge_heads__right_fifth_tokens_unbound(X: torch.Tensor) -> torch.Tensor:
    """Takes the tokens apart, flattens each one's (h, d_head), and stacks them again."""
    tokens = [token.flatten(1) for token in X.unbind(dim=2)]
    return torch.stack(tokens, dim=1)


# 4.3 bmm_attention


def bmm_attention__wrong_fifth_keys_reshaped(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gets from (N, m, d_k) to (N, d_k, m) by a reshape, which does not swap the axes."""
    N, m, d_k = K.shape
    scores = torch.bmm(Q, K.reshape(N, d_k, m)) / d_k**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    return torch.bmm(weights, V)


def bmm_attention__wrong_fifth_root_as_a_float64_tensor(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by a float64 tensor of one entry: float32 scores and with them the output become float64."""
    root = torch.tensor([Q.shape[-1]], dtype=torch.float64).sqrt()
    scores = Q @ K.transpose(1, 2) / root
    if mask is None:
        mask = torch.ones(scores.shape, dtype=torch.bool)
    low = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, low).softmax(-1).masked_fill(~mask, 0.0)
    return weights @ V.to(weights.dtype)


def bmm_attention__wrong_fifth_weights_without_gradient(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes the weights under torch.no_grad against NaN on the way back: no gradient reaches Q and K."""
    with torch.no_grad():
        scores = torch.einsum("snd,smd->snm", Q, K) / math.sqrt(Q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = torch.softmax(scores, dim=2).nan_to_num(0.0)
    return torch.einsum("snm,smv->snv", weights, V)


def bmm_attention__wrong_fifth_largest_with_the_hidden(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Subtracts the largest score of a row, hidden ones included: the allowed exponentials may underflow to 0."""
    scores = Q.bmm(K.mT) / math.sqrt(Q.shape[2])
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    safe = torch.where(total > 0, total, torch.ones_like(total))
    return (powers / safe).bmm(V)


# 4.4 multi_head_attention


def multi_head_attention__wrong_fifth_mask_flattened_by_heads_first(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Flattens the mask in the order (h, B) while queries, keys and values come in the order (B, h)."""
    B, n = X.shape[:2]
    Q, K, V = (_split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(0, 1).flatten(0, 1)
    heads = _bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    return _merge_heads(heads) @ W_O + b_O


def multi_head_attention__wrong_fifth_heads_read_what_others_wrote(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Works the heads off one after another, and each reads the tokens with what the heads before it have added."""
    B, n, _ = X.shape
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    written = torch.zeros_like(X)
    columns = torch.arange(W_Q.shape[1]).chunk(n_heads)
    for r, own in enumerate(columns):
        now = X + written
        Q, K, V = now @ W_Q[:, own], now @ W_K[:, own], now @ W_V[:, own]
        scores = Q @ K.mT / math.sqrt(len(own))
        weights = _weights(scores, None if mask is None else mask[:, r])
        written = written + weights @ V @ W_O[own]
    return written + b_O


def multi_head_attention__wrong_fifth_weights_averaged_over_heads(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Averages the attention weights over the heads, as PyTorch's layer returns them, and mixes all heads' values with these."""
    Q, K, V = [_split_heads(X.matmul(W), n_heads) for W in (W_Q, W_K, W_V)]
    scores = Q.matmul(K.transpose(-1, -2)) / Q.shape[-1] ** 0.5
    weights = _weights(scores, mask).mean(dim=1, keepdim=True)
    out = _merge_heads(weights.matmul(V))
    return out.matmul(W_O) + b_O


def multi_head_attention__wrong_fifth_dropout_on_the_weights(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Drops a tenth of the weights at random with F.dropout, as layers do in training."""
    q = _split_heads(X @ W_Q, n_heads)
    k = _split_heads(X @ W_K, n_heads)
    v = _split_heads(X @ W_V, n_heads)
    attn = _weights(q @ k.mT / math.sqrt(q.size(-1)), mask)
    attn = F.dropout(attn, p=0.1)
    return _merge_heads(attn @ v) @ W_O + b_O


def multi_head_attention__right_fifth_two_matrices_per_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sums over the heads A X (W_V W_O), with each head's W_V W_O multiplied to one matrix of rank d_head, in einsums."""
    B, n, _ = X.shape
    q = torch.einsum("bnm,mrd->brnd", X, W_Q.unflatten(1, (n_heads, -1)))
    k = torch.einsum("bnm,mrd->brnd", X, W_K.unflatten(1, (n_heads, -1)))
    scores = torch.einsum("brid,brjd->brij", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = torch.where(mask.expand(scores.shape), scores, -math.inf)
    A = torch.softmax(scores, dim=-1)
    VO = torch.einsum(
        "mrd,rdo->rmo",
        W_V.unflatten(1, (n_heads, -1)),
        W_O.unflatten(0, (n_heads, -1)),
    )
    return torch.einsum("brij,bjm,rmo->bio", A, X, VO) + b_O


# 4.5 head_contributions


def head_contributions__wrong_fifth_full_width_with_zeros(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs each head as a layer of one head of full width whose other columns are 0, and so divides by sqrt(h*d_head)."""
    B, n, _ = X.shape
    width = W_Q.shape[1]
    owner = torch.arange(width) // (width // n_heads)
    shares = []
    for r in range(n_heads):
        keep = (owner == r).to(X.dtype)
        Q, K, V = X @ (W_Q * keep), X @ (W_K * keep), X @ (W_V * keep)
        own_mask = None if mask is None else mask.expand(B, n_heads, n, n)[:, r]
        weights = _weights(Q @ K.mT / math.sqrt(Q.shape[-1]), own_mask)
        shares.append(weights @ V @ W_O)
    return torch.stack(shares, dim=1)


def head_contributions__wrong_fifth_mask_of_head_0_for_all(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes mask[:, 0] of a mask with four axes, so that all heads use the mask of head 0."""
    if mask is not None and mask.dim() == 4:
        mask = mask[:, 0]
    out = []
    blocks = zip(*(W.chunk(n_heads, 1) for W in (W_Q, W_K, W_V)), W_O.chunk(n_heads))
    for wq, wk, wv, wo in blocks:
        scores = (X @ wq) @ (X @ wk).mT / math.sqrt(wq.shape[1])
        out.append(_weights(scores, mask) @ (X @ wv) @ wo)
    return torch.stack(out, 1)


def head_contributions__wrong_fifth_layer_without_the_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns what the layer writes with head r struck out, the sum of all others, in place of what head r writes."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _weights(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V
    without = []
    for r in range(n_heads):
        struck = heads.clone()
        struck[:, r] = 0
        without.append(_merge_heads(struck) @ W_O)
    return torch.stack(without, dim=1)


def head_contributions__wrong_fifth_lambdas_all_see_the_last_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Collects a lambda per head that reads the loop variable when it is called: all heads meet the last block of W_O."""
    d_head = W_O.shape[0] // n_heads
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _weights(Q @ K.mT / d_head**0.5, mask) @ V
    writers = []
    for r in range(n_heads):
        writers.append(lambda head: head @ W_O[r * d_head : (r + 1) * d_head])
    return torch.stack(
        [write(heads[:, s]) for s, write in enumerate(writers)], dim=1
    )


# 4.6 from_torch_weights


def from_torch_weights__wrong_fifth_turned_then_reshaped(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Turns the tall matrix first and cuts (d_model, 3*d_model) by a reshape to (3, d_model, d_model), which mixes the blocks."""
    d_model = out_proj_weight.shape[0]
    W_Q, W_K, W_V = in_proj_weight.T.reshape(3, d_model, d_model)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_fifth_every_third_row(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes rows 0, 3, 6, ... for the queries, 1, 4, 7, ... for the keys, as if the three lay interleaved."""
    q, k, v = (in_proj_weight[start::3].t() for start in range(3))
    return q, k, v, out_proj_weight.t()


def from_torch_weights__wrong_fifth_scale_put_into_the_queries(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Divides W_Q by sqrt(d_model), as if the attention that uses it did not divide its scores."""
    d = in_proj_weight.size(1)
    W_Q = in_proj_weight[:d].mT / math.sqrt(d)
    W_K = in_proj_weight[d : 2 * d].mT
    W_V = in_proj_weight[2 * d :].mT
    return W_Q, W_K, W_V, out_proj_weight.mT


def from_torch_weights__wrong_fifth_new_parameters(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Wraps each matrix in a new nn.Parameter: numbers are right, but no gradient reaches what was handed in."""
    blocks = [*in_proj_weight.chunk(3), out_proj_weight]
    return tuple(nn.Parameter(block.T.clone()) for block in blocks)


def from_torch_weights__right_fifth_what_the_layer_does_to_unit_vectors(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Applies both weights with F.linear to the identity: row i of the result is what becomes of unit vector i."""
    d = out_proj_weight.shape[1]
    eye = torch.eye(d, dtype=in_proj_weight.dtype, device=in_proj_weight.device)
    all_three = F.linear(eye, in_proj_weight)  # (d, 3d): W_Q, W_K, W_V side by side
    W_Q, W_K, W_V = all_three.split(d, dim=1)
    return W_Q, W_K, W_V, F.linear(eye, out_proj_weight)


# 4.7 diagnose

_NAMES = (
    *("right", "not_scaled", "scaled_by_d", "scaled_by_d_model"),
    *("softmax_over_queries", "causal_off_by_one", "mask_after_softmax"),
    *("heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"),
    *("not_stabilised", "masked_by_a_number", "window_of_8"),
)


def _suspect(name, X, W_Q, W_K, W_V, W_O, h, causal):
    """What the layer of this name returns, by the table of section 9."""
    B, n, d_model = X.shape
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    if name == "one_head_for_all":
        h = 1
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    d = Q.shape[-1] // h
    if name == "heads_not_by_columns":
        Q, K, V = (T.reshape(B, h, n, d) for T in (Q, K, V))
    else:
        Q, K, V = (_split_heads(T, h) for T in (Q, K, V))
    by = {"not_scaled": 1, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}
    S = Q @ K.mT / by.get(name, math.sqrt(d))
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    seen = torch.ones(n, n, dtype=torch.bool)
    if causal:
        seen = j <= i + (name == "causal_off_by_one")
        if name == "window_of_8":
            seen = seen & (j >= i - 7)
    if name == "mask_after_softmax":
        A = torch.softmax(S, -1) * seen
    elif name == "not_stabilised":
        A = torch.exp(S) * seen
        A = A / A.sum(-1, keepdim=True)
    elif name == "masked_by_a_number":
        A = torch.softmax(S.masked_fill(~seen, -10_000.0), -1)
    else:
        axis = -2 if name == "softmax_over_queries" else -1
        A = torch.softmax(S.masked_fill(~seen, -math.inf), axis)
    heads = A @ V
    if name == "heads_not_by_columns":
        return heads.reshape(B, n, h * d) @ W_O
    return _merge_heads(heads) @ W_O


def diagnose__wrong_fifth_texts_of_eight(attend) -> str:
    """Sends texts of eight tokens, in which a window of 8 hides nothing: window_of_8 passes for right."""
    draw = torch.Generator().manual_seed(0)
    h, d, d_model, n = 3, 4, 7, 8
    X = torch.randn(2, n, d_model, generator=draw, dtype=torch.float64)
    W_Q, W_K, W_V = torch.randn(3, d_model, h * d, generator=draw, dtype=torch.float64)
    W_O = torch.randn(h * d, d_model, generator=draw, dtype=torch.float64)
    X[0, :, 0], X[1, :, 0] = 0, 100
    W_Q[0], W_K[0], W_V[0] = 2, -2, 0  # sequence 1: scores of about -80,000
    told = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if told.isnan().any():
        return "not_stabilised"
    best, name = math.inf, "right"
    for other in _NAMES:
        gap = (told - _suspect(other, X, W_Q, W_K, W_V, W_O, h, True)).abs().max()
        if not gap.isnan() and gap < best - 1e-9:
            best, name = gap, other
    return name


def diagnose__wrong_fifth_sixteen_features_heads_of_four(attend) -> str:
    """Takes d_model = 16 and heads of 4, where d_head and sqrt(d_model) are one number: two names cannot be told apart."""
    g = torch.Generator().manual_seed(0)
    real = {"generator": g, "dtype": torch.float64}
    X = torch.randn(2, 12, 16, **real)
    W_Q, W_K, W_V = (0.5 * torch.randn(16, 8, **real) for _ in range(3))
    W_O = torch.randn(8, 16, **real)
    X[:, :, 15] = torch.tensor([[0.0], [150.0]])
    W_Q[15] = 1
    W_K[15] = -1
    W_V[15] = 0
    call = (X, W_Q, W_K, W_V, W_O, 2, True)
    answer = attend(*call)
    distances = {}
    for name in _NAMES:
        gap = (answer - _suspect(name, *call)).nan_to_num(1e6, 1e6, -1e6)
        distances[name] = float(gap.abs().max())
    if answer.isnan().any():
        return "not_stabilised"
    distances.pop("not_stabilised")
    ranked = sorted(distances, key=lambda name: round(distances[name], 6))
    return ranked[0]


def diagnose__wrong_fifth_equal_to_the_last_bit(attend) -> str:
    """Asks for torch.equal with each suspect's own output: a layer that computes in another order matches none of them."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    X, W_Q, W_K, W_V, W_O = draw(2, 13, 6), draw(6, 10), draw(6, 10), draw(6, 10), draw(10, 6)
    X[0, :, 0] = 0
    X[1, :, 0] = 200
    for W, entry in ((W_Q, 1.0), (W_K, -1.0), (W_V, 0.0)):
        W[0] = entry
    out = attend(X, W_Q, W_K, W_V, W_O, 2, True)
    if torch.isnan(out).any():
        return "not_stabilised"
    for name in _NAMES:
        if torch.equal(out, _suspect(name, X, W_Q, W_K, W_V, W_O, 2, True)):
            return name
    return "window_of_8"


def diagnose__wrong_fifth_first_of_nan_distances(attend) -> str:
    """Takes min over distances, all of which are NaN for a box that returns NaN: the first name of the list comes out."""
    g = torch.Generator().manual_seed(0)
    n_heads, width, d_model = 2, 6, 5
    X = torch.randn(2, 14, d_model, generator=g, dtype=torch.float64)
    W = torch.randn(3, d_model, width, generator=g, dtype=torch.float64)
    W_O = torch.randn(width, d_model, generator=g, dtype=torch.float64)
    X[0, :, -1], X[1, :, -1] = 0.0, 120.0
    W[0, -1], W[1, -1], W[2, -1] = 2.0, -2.0, 0.0
    out = attend(X, *W, W_O, n_heads, True)
    gaps = [
        (out - _suspect(name, X, *W, W_O, n_heads, True)).abs().max().item()
        for name in _NAMES
    ]
    return min(zip(gaps, _NAMES, strict=True), key=lambda pair: pair[0])[1]


def diagnose__right_fifth_two_texts_and_a_ratio(attend) -> str:
    """Sends an ordinary text of 17 tokens and one with scores of about -80,000, and takes the name with the least error in size."""
    g = torch.Generator().manual_seed(0)
    kind = {"generator": g, "dtype": torch.float64}
    B, n, d_model, h, d = 2, 17, 7, 2, 3
    X = torch.randn(B, n, d_model, **kind)
    W_Q, W_K, W_V = (0.8 * torch.randn(d_model, h * d, **kind) for _ in range(3))
    W_O = torch.randn(h * d, d_model, **kind)
    X[0, :, 3] = 0.0
    X[1, :, 3] = 200.0
    W_Q[3], W_K[3], W_V[3] = 1.0, -1.0, 0.0
    found = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if not bool(found.isfinite().all()):
        return "not_stabilised"
    errors = {}
    for name in _NAMES:
        if name == "not_stabilised":
            continue
        wanted = _suspect(name, X, W_Q, W_K, W_V, W_O, h, True)
        errors[name] = float((found - wanted).norm() / wanted.norm())
    return min(errors, key=errors.get)
