"""Unit 11: references against a second route."""

from __future__ import annotations

import cmath
import math
from itertools import islice, pairwise

import numpy as np
import pytest
import scipy.linalg
import tokenizers
import torch

import right_answers_many_seeds
from autograder.exercises.u11_real_model.apply_merges import apply_merges
from autograder.exercises.u11_real_model.from_pairs import from_pairs
from autograder.exercises.u11_real_model.speculative_step import speculative_step
from autograder.grading.in_process import judge_function
from autograder.worker.encode_values import map_leaves
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


def of_the_notebook(*args, **kwargs):
    return right_answers_many_seeds.published("11_real_model")["llama_step"](*args, **kwargs)


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
# What is found in a model


def test_eigenvalue_copying_score_by_the_whole_circuit():
    for case, (W_E, W_V, W_O, W_U), expected in cases("eigenvalue_copying_score"):
        whole = (W_E @ W_V @ W_O @ W_U).numpy()
        found = scipy.linalg.eigvals(whole / max(np.abs(whole).max(), 1e-300))
        assert near(found.real.sum() / max(np.abs(found).sum(), 1e-300), expected, 1e-6), case.label


def scored_densely(params, reader, h, g, own_gain):
    """Each candidate's score from matrices of full size, in NumPy."""
    d, (layer, head) = params["blocks"][0]["W_Q"].shape[1] // h, reader
    late = {name: one.numpy() for name, one in params["blocks"][layer].items()}
    kv, gain = head // (h // g), np.diag(late["gamma_1"])
    W_QK = gain @ late["W_Q"][:, head * d : head * d + d] @ (gain @ late["W_K"][:, kv * d : kv * d + d]).T
    found = {}
    for earlier in range(layer):
        block = {name: one.numpy() for name, one in params["blocks"][earlier].items()}
        W_V = block["gamma_1"][:, None] * block["W_V"] if own_gain else block["W_V"]
        for at in range(h):
            columns = slice(at // (h // g) * d, at // (h // g) * d + d)
            W_OV = W_V[:, columns] @ block["W_O"][at * d : at * d + d]
            sizes = [np.sqrt((np.linalg.svd(one, compute_uv=False) ** 2).sum()) for one in (W_QK @ W_OV.T, W_QK, W_OV)]
            found[earlier, at] = sizes[0] / (sizes[1] * sizes[2])
    return found


def test_find_source_candidate_by_candidate_and_the_planted_pair_leads():
    """Whether or not the gain before the source is counted: a contract that leaves it out can be read either way."""
    for case, (params, reader, h, g), expected in cases("find_source"):
        for own_gain in (False, True):
            found = scored_densely(params, reader, h, g, own_gain)
            best, next_best = sorted(found, key=found.get)[:-3:-1]
            assert best == tuple(int(one) for one in expected), case.label
            if "other numbers" not in case.label:
                assert found[best] >= 1.5 * found[next_best] * (1 - 1e-6), case.label


def cut_by_hand(tokens, params, source, into, h, g, base=10000.0, eps=1e-5):
    """Token by token, in NumPy; a token's query, key and value each see what they may."""
    p, W_E = params, params["W_E"].numpy()
    stream = [[W_E[token] for token in row] for row in tokens.tolist()]
    notes = [[np.zeros(W_E.shape[1]) for _ in row] for row in stream]
    d = p["blocks"][0]["W_Q"].shape[1] // h

    def norm(row, gamma):
        return rms(row, gamma.numpy(), eps)

    for layer, block in enumerate(p["blocks"]):
        for row, hidden in zip(stream, notes, strict=True):
            seen = [norm(x, block["gamma_1"]) for x in row]
            blind = [norm(x - w, block["gamma_1"]) for x, w in zip(row, hidden, strict=True)]
            read = {reader: blind if reader == into else seen for reader in ("query", "key", "value")}
            Q, K, V = ([z @ block[f"W_{reader[0].upper()}"].numpy() for z in read[reader]] for reader in read)
            written = [[] for _ in row]
            for i in range(len(row)):
                for at in range(h):
                    own, kv = slice(at * d, at * d + d), slice(at // (h // g) * d, at // (h // g) * d + d)
                    query = turned(Q[i][own], i, base)
                    scores = np.array([query @ turned(K[j][kv], j, base) / math.sqrt(d) for j in range(i + 1)])
                    weights = np.exp(scores - scores.max())
                    mixed = sum(weight * V[j][kv] for j, weight in enumerate(weights / weights.sum()))
                    written[i].append(mixed @ block["W_O"][own].numpy())
            for i in range(len(row)):
                row[i] = row[i] + sum(written[i])
                if layer == source[0]:
                    hidden[i] = written[i][source[1]]
                z = norm(row[i], block["gamma_2"])
                gate = z @ block["W_gate"].numpy()
                row[i] = row[i] + (gate / (1 + np.exp(-gate)) * (z @ block["W_up"].numpy())) @ block["W_down"].numpy()
    return np.array([[norm(x, p["gamma_f"]) @ W_E.T for x in row] for row in stream])


def test_cut_path_token_by_token():
    for case, args, expected in islice(cases("cut_path"), 44):
        assert near(cut_by_hand(*args, **case.kwargs), expected, 1e-8), case.label


def test_speculative_step_token_by_token():
    for case, (draft, p_draft, p_target, source), expected in cases("speculative_step"):
        generator = torch.Generator().manual_seed(source.seed)
        if source.used:
            torch.rand(1, generator=generator)
        u, stayed = torch.rand(len(draft), generator=generator).tolist(), []
        for i, token in enumerate(draft.tolist()):
            drafted, target = p_draft[i].tolist(), p_target[i].tolist()
            if u[i] >= min(1.0, target[token] / drafted[token]):
                p = [q - min(p, q) for p, q in zip(drafted, target, strict=True)]
                break
            stayed.append(token)
        else:
            p = p_target[-1].tolist()
        last = int(torch.multinomial(torch.tensor(p, dtype=torch.float64), 1, generator=generator))
        assert [*stayed, last] == list(expected), case.label


def test_what_comes_of_speculative_steps_is_distributed_as_the_target():
    """Two tokens of a step are counted together, where the target's second row hangs on the first token."""
    rng = np.random.default_rng(0)
    p_draft, first = (torch.tensor(rng.dirichlet(np.ones(3), n)) for n in (4, 1))
    then = torch.tensor(rng.dirichlet(np.ones(3), 4))
    generator, counts, steps = torch.Generator().manual_seed(1), torch.zeros(3, 3), 12_000
    for _ in range(steps):
        one = int(torch.multinomial(p_draft[3], 1, generator=generator))
        two = int(torch.multinomial(p_draft[one], 1, generator=generator))
        rows = torch.stack([p_draft[3], p_draft[one]]), torch.stack([first[0], then[one], then[3]])
        found = speculative_step(torch.tensor([one, two]), *rows, generator)
        if len(found) == 1:  # the next step begins where this one stopped
            found = [*found, int(torch.multinomial(then[found[0]], 1, generator=generator))]
        counts[found[0], found[1]] += 1
    assert float((counts / steps - first[0][:, None] * then[:3]).abs().sum() / 2) < 0.02


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
        (tuple, "instead of a list of strings"),
        (lambda joined: [*joined[:-1], 3] if joined else joined, "instead of Python strings"),
        (lambda joined: joined[::-1], "your list holds the wrong strings"),
    ],
)
def test_what_is_no_list_of_texts_or_another_one_is_told(made, words):
    verdict = judge_function(lambda symbols, ranks: made(apply_merges(symbols, ranks)), "apply_merges", 1)
    assert verdict.verdict == "wrong" and words in verdict.message, verdict.message


def rank_zero_unknown(symbols, ranks):
    return apply_merges(symbols, {pair: rank for pair, rank in ranks.items() if rank})


@pytest.mark.nightly
def test_a_pair_of_rank_0_that_is_taken_for_unknown_costs_the_same_whatever_is_drawn():
    verdicts = [judge_function(rank_zero_unknown, "apply_merges", seed, reread=False) for seed in range(1, 7)]
    assert {(verdict.mistake, round(verdict.score, 9)) for verdict in verdicts} == {("entries-differ", 0.82)}


def step_that_gives(caches_as):
    def answer(*args, **kwargs):
        logits, caches = of_the_notebook(*args, **kwargs)
        return logits, caches_as(caches)

    return judge_function(answer, "llama_step", 1, watched=False, reread=False)


@pytest.mark.nightly
def test_no_axis_of_a_cache_is_named_by_a_product_that_is_as_long_by_chance():
    verdict = step_that_gives(lambda caches: [(K[:, :, -32:], V[:, :, -32:]) for K, V in caches])
    assert "is (B, g, 32, d_head) instead of (B, g, n_new + t, d_head)." in verdict.message, verdict.message


@pytest.mark.nightly
def test_caches_of_another_type_are_not_told_as_another_value():
    verdict = step_that_gives(iter)
    assert verdict.mistake == "wrong-number-of-results" and "as if" not in verdict.message, verdict.message
    assert "must return (the logits, [(the keys of layer 0, the values of layer 0)" in verdict.message
    assert "an object of type list_iterator" in verdict.message


def test_a_cache_of_another_form_is_told_beside_the_one_that_was_asked_for():
    def flat(*args, **kwargs):
        logits, caches = of_the_notebook(*args, **kwargs)
        return logits, [one for pair in caches for one in pair]

    verdict = judge_function(flat, "llama_step", 1)
    assert verdict.mistake == "one-flat-list" and "Two mistakes" not in verdict.message
    assert "a list of 4) instead of (the logits, [(the keys of layer 0, the values of layer 0)" in verdict.message
