"""Unit 11: references against a second route."""

from __future__ import annotations

import cmath
import itertools
import math

import numpy as np
import pytest
import scipy.linalg
import torch

from autograder.exercises.u11_real_model.eigenvalue_copying_score import eigenvalue_copying_score
from autograder.exercises.u11_real_model.llama_logits import llama_logits
from autograder.exercises.u11_real_model.speculative_step import speculative_step
from references import cases, near

# ---------------------------------------------------------------------------------------------------------------------
# What is found in a model


def test_eigenvalue_copying_score_by_the_whole_circuit():
    for case, (W_E, W_V, W_O, W_U), expected in cases("eigenvalue_copying_score"):
        whole = (W_E @ W_V @ W_O @ W_U).numpy()
        found = scipy.linalg.eigvals(whole / max(np.abs(whole).max(), 1e-300))
        assert near(found.real.sum() / max(np.abs(found).sum(), 1e-300), expected, 1e-6), case.label


def test_twins_that_copy_as_a_group_have_the_score_of_the_text():
    three = torch.eye(3, 2, dtype=torch.float64)
    twins = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
    assert float(eigenvalue_copying_score(three, twins, torch.eye(2, dtype=torch.float64), three.T)) == pytest.approx(
        0.5
    )


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
        return gamma.numpy() * row / math.sqrt((row**2).mean() + eps)

    def turned(row, place):
        half = d // 2
        pairs = [complex(row[i], row[i + half]) * cmath.exp(1j * place * base ** (-2 * i / d)) for i in range(half)]
        return np.array([z.real for z in pairs] + [z.imag for z in pairs])

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
                    query = turned(Q[i][own], i)
                    scores = np.array([query @ turned(K[j][kv], j) / math.sqrt(d) for j in range(i + 1)])
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
    for case, args, expected in itertools.islice(cases("cut_path"), 44):
        assert near(cut_by_hand(*args, **case.kwargs), expected, 1e-8), case.label


def test_a_source_that_nobody_can_hear_changes_nothing():
    for case, args, expected in cases("cut_path"):
        tokens, params, source, _, h, g, *rest = args
        if source[0] == len(params["blocks"]) - 1 or "writes nothing" in case.label:
            assert near(llama_logits(tokens, params, h, g, *rest, **case.kwargs), expected), case.label


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
