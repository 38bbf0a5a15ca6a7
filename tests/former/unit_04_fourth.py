"""Answers to unit 4's functions, written from the notebook alone."""

import math

import torch

_NAMES = (
    *("right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one"),
    *("mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"),
    *("masked_by_a_number", "window_of_8", "not_stabilised"),
)


def _cut(X, h):
    """(B, n, h*d_head) to (B, h, n, d_head), by contiguous blocks of columns."""
    return X.unflatten(-1, (h, -1)).transpose(1, 2)


def _weights(scores, mask):
    """Softmax over the last axis with a mask; zeros where nothing is allowed."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    low = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, low), dim=-1) * mask


def _suspect(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    """What a box of this name would answer."""
    B, n, d_model = X.shape
    h = 1 if name == "one_head_for_all" else n_heads
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    if name == "heads_not_by_columns":
        Q, K, V = (T.reshape(B, h, n, -1) for T in (Q, K, V))
    else:
        Q, K, V = (_cut(T, h) for T in (Q, K, V))
    d = Q.shape[-1]
    divisors = {"not_scaled": 1, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}
    scores = Q @ K.mT / divisors.get(name, math.sqrt(d))
    i, j = torch.arange(n)[:, None], torch.arange(n)
    seen = torch.ones(n, n, dtype=torch.bool)
    if causal:
        seen = j <= (i + 1 if name == "causal_off_by_one" else i)
        seen = seen & (j > i - 8) if name == "window_of_8" else seen
    if name == "mask_after_softmax":
        weights = torch.softmax(scores, dim=-1) * seen
    elif name == "not_stabilised":
        weights = scores.exp() * seen
        weights = weights / weights.sum(dim=-1, keepdim=True)
    else:
        low = -1e4 if name == "masked_by_a_number" else -math.inf
        axis = -2 if name == "softmax_over_queries" else -1
        weights = torch.softmax(scores.masked_fill(~seen, low), dim=axis)
    heads = weights @ V
    glued = heads.reshape(B, n, -1) if name == "heads_not_by_columns" else heads.transpose(1, 2).flatten(2)
    return glued @ W_O


def split_heads__wrong_fourth_every_hth_column(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Cuts the columns into (d_head, h), the wrong way round: head r owns columns r, r + h, r + 2h, …."""
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.reshape(B, n, width // n_heads, n_heads).permute(0, 3, 1, 2)


def split_heads__right_fourth_sliding_window(X: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Right, unusual: windows of d_head columns with a step of d_head, by unfold, are the heads."""
    d_head, rest = divmod(X.shape[-1], n_heads)
    if rest:
        raise ValueError(f"a width of {X.shape[-1]} cannot be shared by {n_heads} heads")
    return X.unfold(-1, d_head, d_head).movedim(2, 1)


def merge_heads__wrong_fourth_heads_innermost(X: torch.Tensor) -> torch.Tensor:
    """Moves the heads to the very end before gluing: the columns of the heads alternate and form no blocks."""
    return X.permute(0, 2, 3, 1).flatten(2)


def bmm_attention__wrong_fourth_nan_mended_on_the_output(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Fills with -inf and replaces the NaN of an empty row in the output: it is still in the gradient of V."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    output = torch.bmm(torch.softmax(scores, dim=-1), V)
    return torch.nan_to_num(output, nan=0.0)


def bmm_attention__wrong_fourth_axis_1_and_no_zeros(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Two slips: the root is that of n, the number of queries, and a query without keys gets the mean of all values."""
    _, d, _ = Q.shape
    s = torch.einsum("bqd,bkd->bqk", Q, K) / d**0.5
    if mask is not None:
        s = torch.where(mask, s, torch.finfo(s.dtype).min)
    return s.softmax(-1) @ V


def multi_head_attention__wrong_fourth_scale_from_d_model(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes d_model / n_heads for the width of a head in the root: right only where h*d_head equals d_model."""
    d_head = X.shape[-1] / n_heads
    Q, K, V = (_cut(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    weights = _weights(Q @ K.mT / math.sqrt(d_head), mask)
    return (weights @ V).transpose(1, 2).flatten(2) @ W_O + b_O


def multi_head_attention__wrong_fourth_masks_in_another_order(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    b_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Repeats a (B, 1, …) mask as sequence 0, 1, 0, 1, …, but the attentions lie sequence by sequence."""
    B, n, _ = X.shape
    Q, K, V = (_cut(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))  # (B*h, n, d_head)
    if mask is not None and mask.dim() == 4:
        mask = mask.expand(B, -1, -1, -1)
        mask = mask[:, 0].repeat(n_heads, 1, 1) if mask.shape[1] == 1 else mask.flatten(0, 1)
    elif mask is not None and mask.dim() == 3:
        mask = mask.expand(n_heads, -1, -1).repeat(B, 1, 1)
    weights = _weights(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), mask)
    heads = torch.bmm(weights, V).unflatten(0, (B, n_heads))
    return heads.transpose(1, 2).reshape(B, n, -1) @ W_O + b_O


def head_contributions__wrong_fourth_all_blocks_for_each_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The blocks of W_O have a letter of their own in the einsum, so each head meets the sum of all blocks."""
    Q, K, V = (_cut(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    weights = _weights(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    blocks = W_O.unflatten(0, (n_heads, -1))
    return torch.einsum("bhnm,bhmd,rdf->bhnf", weights, V, blocks)


def head_contributions__wrong_fourth_alternating_rows_and_width(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Two slips: head r meets rows r, r + h, … of W_O, not its block, and the root is that of all h*d_head columns."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    root = math.sqrt(Q.shape[-1])
    Q, K, V = (_cut(T, n_heads) for T in (Q, K, V))
    outputs = _weights(Q @ K.mT / root, mask) @ V
    per_head = [outputs[:, r] @ W_O[r::n_heads] for r in range(n_heads)]
    return torch.stack(per_head, dim=1)


def head_contributions__right_fourth_others_blanked_out(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right, unusual: merges all heads, then for each head blanks the columns of the others and uses the whole W_O."""
    Q, K, V = (_cut(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _weights(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V
    glued = heads.transpose(1, 2).flatten(2)  # (B, n, h*d_head)
    own = torch.eye(n_heads, dtype=X.dtype).repeat_interleave(Q.shape[-1], dim=1)  # (h, h*d_head)
    return (glued[:, None] * own[:, None]) @ W_O


def from_torch_weights__wrong_fourth_output_not_transposed(
    in_proj_weight: torch.Tensor, out_proj_weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cuts and transposes the first three, and hands W_O on as it is, since a square matrix fits anyway."""
    W_Q, W_K, W_V = (block.T for block in in_proj_weight.chunk(3))
    return W_Q, W_K, W_V, out_proj_weight


def diagnose__wrong_fourth_short_and_small(attend) -> str:
    """Six tokens and scores of order 1: not_stabilised, masked_by_a_number and window_of_8 answer like "right"."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 6, 10), (10, 12), (10, 12), (10, 12), (12, 10)]
    question = [torch.randn(shape, generator=generator, dtype=torch.float64) / 2 for shape in shapes]
    answer = attend(*question, 3, True)
    for name in _NAMES:
        if torch.allclose(answer, _suspect(name, *question, 3, True), rtol=1e-7, atol=1e-9):
            return name
    return "right"


def diagnose__wrong_fourth_width_is_head_squared(attend) -> str:
    """A loud sequence beside a quiet one, 20 tokens, but d_model = 16 and heads of 4: there d_head is √d_model."""
    torch_rng = torch.Generator().manual_seed(0)
    B, n, d_model, h, d_head = 2, 20, 16, 4, 4

    def draw(*shape):
        return torch.randn(*shape, generator=torch_rng, dtype=torch.float64)

    X = draw(B, n, d_model)
    X[1] *= 150  # scores of some ten thousands
    W_Q, W_K, W_V = (draw(d_model, h * d_head) / 2 for _ in range(3))
    W_O = draw(h * d_head, d_model) / 4
    found = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if found.isnan().any():
        return "not_stabilised"
    off = {name: (found - _suspect(name, X, W_Q, W_K, W_V, W_O, h, True)).abs().max().item() for name in _NAMES[:-1]}
    fits = [name for name, gap in off.items() if gap < 1e-6]
    return fits[0] if fits else "right"
