"""Answers to unit 08's functions, written from the notebook alone."""

import torch


def repeated_sequences__wrong_third_interleave(batch, period, repeats, vocab_size, generator):
    """Repeats every token in place (a a b b) instead of repeating the block (a b a b)."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block.repeat_interleave(repeats, dim=1)


def repeated_sequences__right_third_modulo(batch, period, repeats, vocab_size, generator):
    """Indexes the block with the positions modulo the period."""
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block[:, torch.arange(period * repeats) % period]


def previous_token_score__wrong_third_divide_n(weights):
    """Divides the sum over the subdiagonal by n, not by its n - 1 positions."""
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).sum(-1) / weights.shape[-1]


def prefix_matching_score__wrong_third_same_token(weights, period):
    """Looks at the same token one period ago instead of the one that followed it."""
    n = weights.shape[-1]
    if n <= period:
        return weights.new_zeros(weights.shape[:-2])
    i = torch.arange(period, n)
    return weights[..., i, i - period].mean(-1)


def prefix_matching_score__right_third_loop(weights, period):
    """Adds up the entries one by one in a Python loop and divides at the end."""
    total, count = torch.zeros_like(weights[..., 0, 0]), 0
    for i in range(period, weights.shape[-1]):
        total = total + weights[..., i, i - period + 1]
        count += 1
    return total / max(count, 1)


def ov_circuit__wrong_third_tied(W_E, W_V, W_O, W_U):
    """Unembeds with the transposed embedding as if the weights were tied, and ignores W_U."""
    return W_E @ W_V @ W_O @ W_E.T


def copying_score__wrong_third_positive(ov):
    """Counts rows whose diagonal entry is positive instead of those where it is the largest."""
    return (ov.diagonal() > 0).double().mean()


def composition_score__wrong_third_square_norm(W_QK, W_OV):
    """Divides by the product of the squared norms, as the roots of the two sums of squares are forgotten."""
    bottom = (W_QK**2).sum() * (W_OV**2).sum()
    if bottom == 0:
        return torch.zeros_like(bottom)
    return torch.linalg.norm(W_QK @ W_OV.T) / bottom


def composition_score__right_third_traces(W_QK, W_OV):
    """Gets all norms from einsums of squares, and divides by 1 where a norm is zero."""
    P = torch.einsum("ij,kj->ik", W_QK, W_OV)
    top = torch.einsum("ij,ij->", P, P).sqrt()
    bottom = torch.einsum("ij,ij->", W_QK, W_QK).sqrt() * torch.einsum("ij,ij->", W_OV, W_OV).sqrt()
    return top / torch.where(bottom == 0, torch.ones_like(bottom), bottom)


def ablate_head__wrong_third_in_place(head_outputs, head):
    """Writes the zeros into the tensor that was handed in."""
    head_outputs[:, head] = 0
    return head_outputs


def in_context_learning_score__wrong_third_up_to(losses, early, late):
    """Averages all positions up to late and up to early instead of those two alone."""
    return losses[:, : late + 1].mean() - losses[:, : early + 1].mean()


def find_heads__wrong_third_last_copy_only(patterns, tokens):
    """Looks only at what followed the latest earlier copy, and adds up neither other copies nor the token itself."""
    layers, heads, n, _ = patterns.shape
    previous, induction = [], []
    for a in range(layers):
        for h in range(heads):
            A = patterns[a, h]
            got, base = [], []
            for i in range(1, n):
                before = [j for j in range(i) if tokens[j] == tokens[i]]
                if before and before[-1] + 1 < i:
                    got.append(float(A[i, before[-1] + 1]))
                    base.append(1 / (i + 1))
            prev = [float(A[i, i - 1]) for i in range(1, n)]
            even = [1 / (i + 1) for i in range(1, n)]
            if prev and sum(prev) > (len(prev) + sum(even)) / 2:
                previous.append((a, h))
            if got and sum(got) > (len(got) + sum(base)) / 2:
                induction.append((a, h))
    return previous, induction


def ablate_path__wrong_third_whole_head(tokens, weights, into):
    """Blinds only the reader, but also leaves the note of the first layer out of the stream that the logits read."""
    n = tokens.shape[1]
    x = weights["W_E"][tokens] + weights["W_pos"][:n]
    causal = torch.ones(n, n).bool().tril()

    def layer(q, k, v, w):
        S = (q @ w["W_Q"]) @ (k @ w["W_K"]).transpose(-1, -2) / w["W_Q"].shape[1] ** 0.5
        A = torch.softmax(S.masked_fill(~causal, -torch.inf), -1)
        return A @ (v @ w["W_V"]) @ w["W_O"], A

    note, first = layer(x, x, x, weights["blocks"][0])
    y = x + note
    reads = {"query": y, "key": y, "value": y}
    reads[into] = x
    out, second = layer(reads["query"], reads["key"], reads["value"], weights["blocks"][1])
    return (x + out) @ weights["W_U"], [first, second]
