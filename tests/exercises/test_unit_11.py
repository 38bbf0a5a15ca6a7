"""Unit 11: references against a second route, and the steps of a cache against the whole model."""

from __future__ import annotations

import cmath
import math
from itertools import pairwise

import numpy as np
import pytest
import tokenizers
import torch

import draws
from answers import unit_11 as held_out
from autograder.exercises.u11_real_model.apply_merges import apply_merges
from autograder.exercises.u11_real_model.from_pairs import from_pairs
from autograder.exercises.u11_real_model.llama_logits import llama_logits
from autograder.exercises.u11_real_model.llama_step import llama_step
from autograder.exercises.u11_real_model.small_models import model
from autograder.grading.in_process import judge_function
from autograder.running.torch_functions import to_torch
from autograder.worker.values import map_leaves
from references import cases, near

# ---------------------------------------------------------------------------------------------------------------------
# Tokens


def merged_by_definition(symbols, ranks):
    """As the docstring says it: the lowest pair everywhere, then the next look."""
    symbols = list(symbols)
    while True:
        known = {ranks[pair]: pair for pair in pairwise(symbols) if pair in ranks}
        if not known:
            return symbols
        left, right = known[min(known)]
        i = 0
        while i + 1 < len(symbols):
            if symbols[i] == left and symbols[i + 1] == right:
                symbols[i : i + 2] = [left + right]
            i += 1


def test_apply_merges_by_its_definition():
    for case, (symbols, ranks), expected in cases("apply_merges"):
        assert merged_by_definition(symbols, ranks) == list(expected), case.label


def test_apply_merges_cuts_a_text_as_the_library_does():
    """The library begins from letters, so it is asked where all symbols are letters."""
    asked = 0
    for case, (symbols, ranks), expected in cases("apply_merges"):
        if symbols and all(len(symbol) == 1 for symbol in symbols):
            pairs = sorted(ranks, key=ranks.get)
            letters = {*symbols, *(letter for pair in pairs for letter in "".join(pair))}
            vocabulary = dict.fromkeys([*sorted(letters), *map("".join, pairs)])
            vocabulary = {text: number for number, text in enumerate(vocabulary)}
            library = tokenizers.models.BPE(vocab=vocabulary, merges=pairs)
            assert [token.value for token in library.tokenize("".join(symbols))] == list(expected), case.label
            asked += 1
    assert asked > 20


# ---------------------------------------------------------------------------------------------------------------------
# Layouts


def scores_by_pairs(X, W_Q, W_K, h, positions):
    """Head by head, columns 2p and 2p + 1 as one complex number: (h, n, n)."""
    d = W_Q.shape[1] // h
    speeds = 10000.0 ** (-2 * np.arange(d // 2) / d)
    turns = np.exp(1j * np.outer(positions, speeds))
    found = []
    for head in range(h):
        Q, K = (X @ W[:, head * d :][:, :d] for W in (W_Q, W_K))
        Q, K = ((one[:, ::2] + 1j * one[:, 1::2]) * turns for one in (Q, K))
        found.append((Q @ K.conj().T).real)
    return np.stack(found)


def turned(row, position, base):
    """One row of halves, pair by pair, as complex numbers of Python."""
    half = len(row) // 2
    pairs = [complex(row[i], row[i + half]) * cmath.exp(1j * position * base ** (-i / half)) for i in range(half)]
    return np.array([z.real for z in pairs] + [z.imag for z in pairs])


def test_from_pairs_gives_the_scores_of_a_rotation_of_neighbours():
    for case, (W_Q, h, *_), expected in cases("from_pairs"):
        rng, d = np.random.default_rng(0), W_Q.shape[1] // h
        W_K, X, positions = rng.normal(size=W_Q.shape), rng.normal(size=(5, len(W_Q))), [0, 1, 4, 30, 31]
        ours = np.empty((h, 5, 5))
        for head in range(h):
            Q, K = ((X @ W.numpy())[:, head * d :][:, :d] for W in (expected, from_pairs(torch.tensor(W_K), h)))
            Q, K = ([turned(row, at, 10000.0) for row, at in zip(one, positions, strict=True)] for one in (Q, K))
            ours[head] = np.array(Q) @ np.array(K).T
        assert near(ours, scores_by_pairs(X, W_Q.numpy(), W_K, h, positions), 1e-6), case.label


# ---------------------------------------------------------------------------------------------------------------------
# The model


def rms(row, gamma, eps):
    return gamma * row / math.sqrt(np.mean(row**2) + eps)


def by_hand(tokens, params, h, g, base=10000.0, eps=1e-5, caches=None):
    """(logits, caches), sequence by sequence, row by row, head by head, in NumPy: no mask, but the keys that are seen."""
    rows, kept = [], []
    for b, text in enumerate(tokens):
        x, kept_here = params["W_E"][text], []
        for layer, p in enumerate(params["blocks"]):
            d = p["W_Q"].shape[1] // h
            K, V = ([[*one[b, group]] for group in range(g)] for one in caches[layer]) if caches else ([[]] * g,) * 2
            K, V = ([[*group] for group in one] for one in (K, V))
            t, after = len(K[0]), []
            for i, row in enumerate(x):
                z, heads = rms(row, p["gamma_1"], eps), []
                for group in range(g):
                    K[group].append(turned(z @ p["W_K"][:, group * d :][:, :d], t + i, base))
                    V[group].append(z @ p["W_V"][:, group * d :][:, :d])
                for head in range(h):
                    group = head * g // h
                    q = turned(z @ p["W_Q"][:, head * d :][:, :d], t + i, base)
                    scores = np.array([np.dot(q, k) for k in K[group]]) / d**0.5
                    powers = np.exp(scores - scores.max())
                    heads.append(powers @ np.array(V[group]) / powers.sum())
                y = row + np.concatenate(heads) @ p["W_O"]
                z = rms(y, p["gamma_2"], eps)
                gate = z @ p["W_gate"]
                after.append(y + (gate / (1 + np.exp(-np.maximum(gate, -700.0))) * (z @ p["W_up"])) @ p["W_down"])
            x = np.array(after)
            kept_here.append((np.array(K), np.array(V)))
        rows.append([params["W_E"] @ rms(row, params["gamma_f"], eps) for row in x])
        kept.append(kept_here)
    layers = [tuple(np.stack([one[i][j] for one in kept]) for j in range(2)) for i in range(len(params["blocks"]))]
    return np.array(rows), layers


def arrays(values):
    return map_leaves(values, lambda leaf: leaf.numpy() if torch.is_tensor(leaf) else leaf)


def test_llama_logits_row_by_row():
    for case, args, expected in cases("llama_logits"):
        logits, _ = by_hand(*arrays(args), **case.kwargs)
        assert near(logits, expected, 1e-7), case.label


def test_llama_step_row_by_row():
    for case, (tokens, caches, *rest), (logits, *kept) in cases("llama_step"):
        if case.sizes["t"] < 100:
            found, longer = by_hand(*arrays((tokens, *rest)), **case.kwargs, caches=arrays(caches))
            assert near(found, logits, 1e-7), case.label
            for one, other in zip((each for pair in longer for each in pair), kept, strict=True):
                assert near(one, other, 1e-7), case.label


SIZES = {"h": 6, "g": 2, "d_head": 8, "d_model": 26, "d_ff": 40, "vocab": 50}


def of_the_notebook(*args, **kwargs):
    return draws.published("11_real_model")["llama_step"](*args, **kwargs)


@pytest.mark.parametrize("step", [llama_step, held_out.llama_step__right_grouped, of_the_notebook])
def test_a_text_in_chunks_gives_the_rows_of_the_whole_model(step):
    for seed, chunks in enumerate([(12,), (1,) * 12, (5, 1, 6), (1, 11), (3, 4, 5)]):
        rng = np.random.default_rng(seed)
        params = to_torch(model("2").draw(rng, SIZES))
        tokens = torch.from_numpy(rng.integers(0, 50, (2, 12)))
        caches = [(torch.zeros(2, 2, 0, 8, dtype=torch.float64),) * 2 for _ in range(2)]
        rows, start = [], 0
        for size in chunks:
            logits, caches = step(tokens[:, start : start + size], caches, params, 6, 2, 50.0, 0.1)
            rows.append(logits)
            start += size
        assert near(torch.cat(rows, 1), llama_logits(tokens, params, 6, 2, 50.0, 0.1), 1e-7), chunks


def test_weights_of_neighbouring_pairs_run_once_they_are_reordered():
    """The whole way of the unit: the same model, saved in the other layout, gives the same logits."""
    params = to_torch(model("2").draw(np.random.default_rng(3), SIZES))

    def saved(W, heads):  # from halves to neighbours
        return W.unflatten(1, (heads, 2, -1)).transpose(2, 3).flatten(1)

    blocks = [{**p, "W_Q": saved(p["W_Q"], 6), "W_K": saved(p["W_K"], 2)} for p in params["blocks"]]
    loaded = [{**p, "W_Q": from_pairs(p["W_Q"], 6), "W_K": from_pairs(p["W_K"], 2)} for p in blocks]
    tokens = torch.arange(20).view(2, 10)
    right = llama_logits(tokens, params, 6, 2)
    assert near(llama_logits(tokens, {**params, "blocks": loaded}, 6, 2), right)
    assert not near(llama_logits(tokens, {**params, "blocks": blocks}, 6, 2), right, 0.1)


# ---------------------------------------------------------------------------------------------------------------------
# The window


def test_window_and_sinks_by_counting_back():
    for case, (n_new, n_total, window, n_sinks), expected in cases("window_and_sinks"):
        for row, seen in enumerate(expected.tolist()):
            own = n_total - n_new + row
            wanted, place = {j for j in range(n_sinks) if j <= own}, own
            for _ in range(window):
                wanted.add(max(place, 0) if place >= 0 else own)
                place -= 1
            assert {j for j, allowed in enumerate(seen) if allowed} == wanted, case.label


# ---------------------------------------------------------------------------------------------------------------------
# What is changed of lists and dicts of texts


def pops(symbols, ranks):
    joined = apply_merges(symbols, ranks)
    ranks.clear()
    return joined


def joins_in_place(symbols, ranks):
    symbols[:] = apply_merges(symbols, ranks)
    return list(symbols)


@pytest.mark.parametrize("answer", [pops, joins_in_place])
def test_a_list_or_a_dict_of_texts_that_is_changed_is_seen(answer):
    verdict = judge_function(answer, "apply_merges", 1)
    assert (verdict.verdict, verdict.mistake) == ("wrong", "input-changed"), verdict.message


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (tuple, "where a list of strings was asked for"),
        (lambda joined: [*joined[:-1], 3] if joined else joined, "where Python strings were asked for"),
        (lambda joined: joined[::-1], "the list holds other strings than expected"),
    ],
)
def test_what_is_no_list_of_texts_or_another_one_is_told(made, words):
    verdict = judge_function(lambda symbols, ranks: made(apply_merges(symbols, ranks)), "apply_merges", 1)
    assert verdict.verdict == "wrong" and words in verdict.message, verdict.message


def test_a_cache_of_another_form_is_told_beside_the_one_that_was_asked_for():
    def flat(*args, **kwargs):
        logits, caches = llama_step(*args, **kwargs)
        return logits, [one for pair in caches for one in pair]

    verdict = judge_function(flat, "llama_step", 1)
    assert verdict.mistake == "one-flat-list" and "would answer the same" not in verdict.message
    assert "a list of 4) where (the logits, [(the keys of layer 0, the values of layer 0)" in verdict.message
