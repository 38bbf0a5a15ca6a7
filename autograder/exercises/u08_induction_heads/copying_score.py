"""Defines the exercise `copying_score`, the share of tokens for which a head raises their own logit most."""

import math

import numpy as np
import torch

from ..kit import Leaf, exercise, normal


def copying_score(ov: normal("vocab vocab")) -> Leaf("float", "the score"):
    others = ov - torch.diag(torch.full((len(ov),), math.inf, dtype=ov.dtype))
    return float((ov.diagonal() > others.amax(-1)).double().mean())


def plain(ov):
    vocab = ov.shape[0]
    copied = ov.argmax(-1) == torch.arange(vocab)
    return copied.double().sum() / vocab


def cases(case):
    for criterion, label, ov in circuits(case.rng):
        yield case(criterion, label, ov=ov, rtol=1e-6)  # the share may be computed in float32


def circuits(rng):
    vocab, copying = int(rng.integers(9, 14)), int(rng.integers(3, 6))
    yield "values", f"{copying} of {vocab} tokens copy themselves", circuit(rng, vocab, copying)
    yield "values", "float32", circuit(rng, vocab + 1, 4).astype(np.float32)
    columns = circuit(rng, vocab, 2)
    columns[:, int(rng.integers(vocab))] += 4.0
    yield "values", "one logit large for all tokens", columns
    yield "values", "more than half", circuit(rng, vocab + 2, vocab - 1)
    yield "values", "positive logits of the same size", np.abs(circuit(rng, vocab, copying)) + 1
    yield "edge cases", "all tokens copy themselves", circuit(rng, vocab, vocab)
    yield "edge cases", "none does", circuit(rng, vocab, 0)
    low = np.where(np.eye(vocab, dtype=bool), -1.0, -2.0 - rng.random((vocab, vocab)))
    yield "edge cases", "all logits are negative", low
    yield "edge cases", "all logits are far below 0", low - 5e4
    close = circuit(rng, vocab, copying)
    largest = np.where(np.eye(vocab, dtype=bool), -np.inf, close).max(axis=1)
    np.fill_diagonal(close, largest + np.where(np.diag(close) > largest, 1e-9, -1e-9))
    yield "edge cases", "the largest logit leads by a billionth", close
    levels = -1e10 * np.arange(vocab)[:, None]
    yield "edge cases", "a different offset in the logits of each token", circuit(rng, vocab, copying) + levels


def circuit(rng, vocab, copying):
    """Draw logits in which `copying` tokens, in random order, copy themselves, two of them clearly; the others don't.

    The third and fourth also have a negative logit of larger absolute value. The last one, if it doesn't copy itself,
    has the smallest logit for itself, so that no mistake gives 0 everywhere.
    """
    ov = rng.standard_normal((vocab, vocab))
    for place, token in enumerate(rng.permutation(vocab)):
        others = np.delete(ov[token], token)
        if place < copying:
            ov[token, token] = others.max() + (3.5 if place < 2 else 0.5)
            if place in (2, 3):
                ov[token, ov[token].argmin()] = -1.0 - ov[token, token]
        else:
            ov[token, token] = (others.min() if place == vocab - 1 else others.max()) - 0.5
    return ov


def share(hits):
    """Return the share of tokens for which `hits(ov)` is True."""
    return lambda ov: hits(ov).double().mean()


def without_own(ov):
    return ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf)


def copies(ov, dim=-1):
    return ov.diagonal() > without_own(ov).amax(dim)


MISTAKES = (
    ("by-columns", share(lambda ov: copies(ov, 0)),
     "You look for the largest of each column. Look for the largest of each row."),
    ("positive-diagonal", share(lambda ov: ov.diagonal() > 0),
     "You count the tokens whose own logit is above 0. Compare it with the other logits of its row."),
    ("above-the-mean", share(lambda ov: ov.diagonal() > ov.mean(-1)),
     "You count the tokens whose own logit is above the mean of its row. It must be the largest of the row."),
    ("mean-of-diagonal", lambda ov: ov.diagonal().mean(),
     "You average the tokens' own logits. Count those that are the largest of their row."),
    ("mean-of-softmax", lambda ov: ov.softmax(-1).diagonal().mean(),
     "You average probabilities. Count the tokens whose own logit is the largest."),
    ("above-one-half", share(lambda ov: ov.softmax(-1).diagonal() > 0.5),
     "You count probabilities above ½. A token may copy itself with far less, if all others get less still."),
    ("above-all-others", share(lambda ov: ov.diagonal() > without_own(ov).max()),
     "You compare the own logit with those of all tokens. Compare it with the others of its own row."),
    ("trace-over-sizes", lambda ov: ov.trace() / ov.abs().sum().clamp_min(1e-9),
     "You divide the trace by the sum of all sizes. Count the tokens whose own logit is the largest."),
    ("eigenvalues", lambda ov: (values := torch.linalg.eigvals(ov)).real.sum() / values.abs().sum().clamp_min(1e-9),
     "You compute the score from the eigenvalues. Here count the tokens whose own logit is the largest."),
    ("among-the-two-largest", share(lambda ov: (ov > ov.diagonal()[:, None]).sum(-1) < 2),
     "You count a token even where one other logit is larger than its own."),
    ("first-token-left-out", share(lambda ov: copies(ov)[1:]),
     "You leave out token 0. Where does your loop begin?"),
)  # fmt: skip

EXERCISE = exercise(copying_score, library="torch", credit={"values": 0.75, "edge cases": 0.25})
