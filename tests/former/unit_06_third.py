"""Answers to unit 06's functions, written from the notebook alone."""

import torch


def _attend(X, Y, W_Q, W_K, W_V, W_O, h, mask):
    """Right attention of X to Y; mask broadcasts to (B, h, n, m)."""
    B, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, h, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, h, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, h, -1).transpose(1, 2)
    S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    if mask is not None:
        S = S.masked_fill(~mask, -1e30)
    A = torch.softmax(S, -1)
    if mask is not None:
        A = A * mask
    return (A @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, A


def _layer(X, Y, params, n_heads, source_mask=None):
    n = X.shape[1]
    causal = torch.ones(n, n).bool().tril()
    ws = [params["self_W_" + c] for c in "QKVO"]
    wc = [params["cross_W_" + c] for c in "QKVO"]
    X1 = X + _attend(X, X, *ws, n_heads, causal)[0]
    mask = None if source_mask is None else source_mask[:, None, None, :]
    return X1 + _attend(X1, Y, *wc, n_heads, mask)[0]


def cross_attention__wrong_third_first_mask(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The mask of the first sequence is used for all sequences of the batch."""
    mask = None if source_mask is None else source_mask[0]
    return _attend(X, Y, W_Q, W_K, W_V, W_O, n_heads, mask)


def decoder_layer__wrong_third_base_of_sum(X, Y, params, n_heads, source_mask=None):
    """The output of the cross-attention is added to X instead of to X_1, so the self-attention's residual is lost."""
    n = X.shape[1]
    causal = torch.ones(n, n).bool().tril()
    ws = [params["self_W_" + c] for c in "QKVO"]
    wc = [params["cross_W_" + c] for c in "QKVO"]
    X1 = X + _attend(X, X, *ws, n_heads, causal)[0]
    mask = None if source_mask is None else source_mask[:, None, None, :]
    return X + _attend(X1, Y, *wc, n_heads, mask)[0]


def alignment__wrong_third_vote(weights):
    """Each head picks its favourite token first, and the picks' indices are averaged and rounded."""
    return weights.argmax(dim=-1).float().mean(dim=1).round().long()


def greedy_decode__wrong_third_last_token_only(next_logits, start, end, max_len):
    """The model is handed only the last token instead of the list of all tokens so far."""
    tokens = [start]
    while len(tokens) < max_len:
        tokens.append(int(next_logits(tokens[-1:]).argmax()))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__right_third_recursive(next_logits, start, end, max_len):
    """Writes the text by a recursive inner function and takes the place of the maximum with topk."""

    def go(tokens):
        if len(tokens) >= max_len:
            return tokens
        new = next_logits(list(tokens)).topk(1).indices.item()
        return tokens + [new] if new == end else go(tokens + [new])

    return go([start])


def catches_wrong_decoder__wrong_third_shape_only(layer):
    """Compares only without a source mask; with a mask it looks at the shape alone, so mask bugs get by."""
    g = torch.Generator().manual_seed(3)

    def r(*s):
        return torch.randn(*s, generator=g, dtype=torch.float64)

    X, Y = r(2, 4, 6), r(2, 5, 3)
    p = {}
    for c in "QKV":
        p["self_W_" + c] = r(6, 4)
        p["cross_W_" + c] = r(3 if c != "Q" else 6, 6)
    p["self_W_O"], p["cross_W_O"] = r(4, 6), r(6, 6)
    try:
        right, got = _layer(X, Y, p, 2), layer(X, Y, p, 2)
        if got.shape != X.shape or not (got - right).abs().max() <= 1e-6 * right.abs().max():
            return True
        mask = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1]]).bool()
        return layer(X, Y, p, 2, mask).shape != X.shape
    except Exception:
        return True
