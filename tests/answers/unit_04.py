"""Right and wrong answers to unit 04_multi_head, written from the contracts of the functions alone, to test the judge with."""

import math
import warnings
import numpy as np
import torch


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


def split_heads__right_chunk_cat_print(X, n_heads):
    """Chunks with a new axis, concatenated; prints and warns on the way."""
    if X.shape[-1] / n_heads != X.shape[-1] // n_heads:
        raise ValueError(f"d = {X.shape[-1]} and n_heads = {n_heads} do not fit")
    print("split", tuple(X.shape), "into", n_heads)
    warnings.warn("splitting", stacklevel=2)
    return torch.cat([c.unsqueeze(1) for c in X.split(X.shape[-1] // n_heads, dim=-1)], dim=1)


def split_heads__wrong_no_check(X, n_heads):
    """No check: torch's own RuntimeError comes out."""
    B, n, d = X.shape
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_checks_tokens(X, n_heads):
    """Checks that the number of tokens divides, not the width."""
    B, n, d = X.shape
    if n % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def split_heads__wrong_new_tensor(X, n_heads):
    """Goes through a list of numbers: the gradient is lost."""
    d = X.shape[-1]
    if d % n_heads:
        raise ValueError(f"{d} and {n_heads}")
    k = d // n_heads
    rows = [[[t[i * k : (i + 1) * k] for t in b] for i in range(n_heads)] for b in X.tolist()]
    return torch.tensor(rows, dtype=X.dtype)


def merge_heads__right_hstack_per_sequence(X):
    """Two loops: over the batch and over the heads; prints."""
    print("merging", X.shape[1], "heads")
    return torch.stack([torch.hstack(list(sequence)) for sequence in X])


def merge_heads__right_recursion(X):
    """All heads but the last are merged, then the last is put beside them."""
    if X.shape[1] == 1:
        return X[:, 0]
    return torch.cat((merge_heads__right_recursion(X[:, :-1]), X[:, -1]), dim=-1)


def merge_heads__wrong_data(X):
    """Uses X.data, which autograd does not follow."""
    return torch.cat([head.data for head in X.unbind(1)], dim=-1)


def bmm_attention__right_log_space(Q, K, V, mask=None):
    """Weights as exp(s - logsumexp(s)), with a large finite negative number for masked scores."""
    S = torch.bmm(Q, K.mT).div(math.sqrt(Q.shape[-1]))
    if mask is not None:
        S = S.masked_fill(mask.logical_not(), torch.finfo(S.dtype).min / 4)
    A = (S - torch.logsumexp(S, dim=-1, keepdim=True)).exp()
    if mask is not None:
        A = A * mask.to(A.dtype)
    return torch.bmm(A, V)


def bmm_attention__right_spare_key(Q, K, V, mask=None):
    """A spare key without a value, which is open to a query that has no other."""
    scores = torch.einsum("sid,sjd->sij", Q, K) * K.shape[-1] ** -0.5
    if mask is None:
        return torch.softmax(scores, dim=-1) @ V
    mask = mask.expand_as(scores)
    scores = scores.masked_fill(~mask, -torch.inf)
    spare = torch.zeros_like(scores[..., :1]).masked_fill(mask.any(dim=-1, keepdim=True), -torch.inf)
    return torch.softmax(torch.cat([scores, spare], dim=-1), dim=-1)[..., :-1] @ V


def bmm_attention__wrong_max_includes_masked(Q, K, V, mask=None):
    """Subtracts the maximum over masked keys too: a huge masked score pushes the rest to 0/0 or to zero."""
    S = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    E = torch.exp(S - S.amax(dim=-1, keepdim=True))
    if mask is not None:
        E = E * mask
    return torch.bmm(E / (E.sum(-1, keepdim=True) + 1e-30), V)


def bmm_attention__wrong_detached_weights(Q, K, V, mask=None):
    """The weights are detached: no gradient to Q and K."""
    A = _softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), mask).detach()
    return torch.bmm(A, V)


def multi_head_attention__right_fused_projection(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """One matrix product for Q, K and V; a warning; F.linear for the output."""
    warnings.warn("fused", stacklevel=2)
    Q, K, V = (X @ torch.cat([W_Q, W_K, W_V], dim=1)).chunk(3, dim=-1)
    heads = _attend(_split(Q, n_heads), _split(K, n_heads), _split(V, n_heads), mask)
    return torch.nn.functional.linear(_merge(heads), W_O.T, b_O)


def multi_head_attention__right_lowest_number(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Forbidden scores get the lowest finite number; a row with nothing allowed would be even."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min)
    return _merge(S.softmax(-1) @ V) @ W_O + b_O


def multi_head_attention__wrong_sqrt_all_heads(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Divides by sqrt(h*d_head)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_softmax(Q @ K.mT / math.sqrt(W_Q.shape[1]), mask) @ V) @ W_O + b_O


def multi_head_attention__wrong_first_sequences_mask(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Uses the first sequence's mask for the whole batch."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(X.shape[0], n_heads, X.shape[1], X.shape[1])[:1]
    return _merge(_attend(Q, K, V, mask)) @ W_O + b_O


def multi_head_attention__wrong_detach(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Detaches the weights of the attention."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    A = _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge(A.detach() @ V) @ W_O + b_O


def multi_head_attention__wrong_float32(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Casts everything to float32."""
    Q, K, V = (_split(X.float() @ W.float(), n_heads) for W in (W_Q, W_K, W_V))
    return _merge(_attend(Q, K, V, mask)) @ W_O.float() + b_O.float()


def head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Heads times the rows of W_O that belong to them."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask) @ W_O.reshape(n_heads, W_O.shape[0] // n_heads, W_O.shape[1])


def head_contributions__right_ov_circuit(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A (X W_V W_O): projects the values first, then mixes them."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    written = V @ torch.stack(W_O.chunk(n_heads, dim=0))
    return _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ written


def head_contributions__right_added_minus_infinity(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The mask as a bias of 0 and -inf, added to the scores."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S + torch.zeros(mask.shape, dtype=S.dtype).masked_fill(~mask, -math.inf)
    return S.softmax(dim=-1) @ V @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__wrong_sqrt_d_model(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Divides the scores by sqrt(d_model)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    A = _softmax(Q @ K.mT / math.sqrt(X.shape[-1]), mask)
    return A @ V @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__wrong_no_scale(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Does not scale the scores."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return _softmax(Q @ K.mT, mask) @ V @ W_O.reshape(n_heads, -1, W_O.shape[1])


def head_contributions__wrong_mask_per_head_lost(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A key is masked for all heads as soon as it is for one."""
    if mask is not None:
        B, n, _ = X.shape
        mask = mask.expand(B, n_heads, n, n).all(dim=1, keepdim=True)
    return head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask)


def head_contributions__wrong_default_dtype(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Collects in a buffer of the default dtype: float64 becomes float32."""
    C = head_contributions__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, mask)
    out = torch.zeros(C.shape)
    for i in range(n_heads):
        out[:, i] = C[:, i]
    return out


def from_torch_weights__right_chunk(in_proj_weight, out_proj_weight):
    """Three blocks of rows, each transposed: views."""
    q, k, v = in_proj_weight.chunk(3, dim=0)
    return q.T, k.T, v.T, out_proj_weight.T


def from_torch_weights__right_identity_trick(in_proj_weight, out_proj_weight):
    """Pushes the identity through the linear maps."""
    eye = torch.eye(in_proj_weight.shape[1], dtype=in_proj_weight.dtype, device=in_proj_weight.device)
    q, k, v = torch.nn.functional.linear(eye, in_proj_weight).tensor_split(3, dim=-1)
    return q, k, v, torch.nn.functional.linear(eye, out_proj_weight)


def from_torch_weights__wrong_float32(in_proj_weight, out_proj_weight):
    """Always float32."""
    return tuple(W.T.float() for W in (*in_proj_weight.chunk(3), out_proj_weight))


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


def diagnose__right_batch_of_experiments(attend):
    """Four experiments as four sequences of one batch, and a decision in NumPy."""
    X, *weights = _drawn(4, 9, 9, 2, 2, low=180.0)
    X = torch.stack([X[0], X[1] / 2, X[2].flip(0), X[3]])
    found = _marked(attend(X, *weights, 2, True)).numpy()
    lined = _lineup(X, *weights, 2, True)
    names = np.array(list(lined))
    far = np.array([np.abs(_marked(lined[name]).numpy() - found).max() for name in lined])
    return str(names[far.argmin()])


def diagnose__wrong_sixteen_four_four(attend):
    """The sizes of a textbook, d_model = 16, four heads of four."""
    return _first_match(attend, *_drawn(2, 5, 16, 4, 4), 4, True)


def diagnose__wrong_heads_of_one(attend):
    """Heads one wide, where the root of d_head is d_head."""
    return _first_match(attend, *_drawn(2, 5, 7, 3, 1), 3, True)


def diagnose__wrong_never_acquits(attend):
    """Always accuses somebody: `right` is not among the names that it compares."""
    return _nearest(attend, *_drawn(2, 5, 7, 3, 2), 3, True, without=("right",))


_BUGS = (
    "right",
    "not_scaled",
    "scaled_by_d",
    "scaled_by_d_model",
    "softmax_over_queries",
    "causal_off_by_one",
    "mask_after_softmax",
    "heads_not_by_columns",
    "keys_and_values_swapped",
    "one_head_for_all",
)


def _attend_as(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    if name == "one_head_for_all":
        n_heads = 1
    B, n, d_model = X.shape
    d = W_Q.shape[1] // n_heads

    def split(Z):
        if name == "heads_not_by_columns":
            return Z.reshape(B, n_heads, n, d)
        return Z.reshape(B, n, n_heads, d).transpose(1, 2)

    Q, K, V = split(X @ W_Q), split(X @ W_K), split(X @ W_V)
    scale = {"not_scaled": 1.0, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}.get(name, math.sqrt(d))
    scores = Q @ K.transpose(-1, -2) / scale
    allowed = torch.ones(n, n, dtype=torch.bool)
    if causal:
        allowed = torch.tril(allowed, 1 if name == "causal_off_by_one" else 0)
    if name == "mask_after_softmax":
        weights = torch.softmax(scores, -1) * allowed
    else:
        scores = scores.masked_fill(~allowed, -math.inf)
        weights = torch.softmax(scores, -2 if name == "softmax_over_queries" else -1)
    out = weights @ V
    if name == "heads_not_by_columns":
        return out.reshape(B, n, -1) @ W_O
    return out.transpose(1, 2).reshape(B, n, -1) @ W_O


def _setting(B, n, d_model, n_heads, d_head, causal=True):
    g = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    w = n_heads * d_head
    return (
        draw(B, n, d_model),
        draw(d_model, w),
        draw(d_model, w),
        draw(d_model, w),
        draw(w, d_model),
        n_heads,
        causal,
    )


def _nearest_of(answer, setting, rows=slice(None)):
    errors = [(answer - _attend_as(name, *setting))[:, rows].abs().max().item() for name in _BUGS]
    return _BUGS[errors.index(min(errors))]


def diagnose__wrong_single_head(attend):
    """Asks with n_heads = 1: the bugs of the heads cannot show."""
    setting = _setting(2, 5, 7, 1, 3)
    return _nearest_of(attend(*setting), setting)
