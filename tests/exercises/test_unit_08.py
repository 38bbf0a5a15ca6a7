"""Unit 8: references against a second route, and circuits of other constructions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autograder.exercises.u08_induction_heads.hand_made_circuit import build_induction_circuit, run_circuit
from autograder.grading.in_process import judge_function
from references import cases, near


def test_repeated_sequences_block_by_block():
    for case, (batch, period, repeats, vocab, rng), expected in cases("repeated_sequences"):
        source = torch.Generator().manual_seed(rng.seed)
        if rng.used:
            torch.rand(1, generator=source)
        block = torch.randint(0, vocab, (batch, period), generator=source)
        assert torch.equal(torch.cat([block] * repeats, 1), expected), case.label


def test_scores_position_by_position():
    for case, (weights,), expected in cases("previous_token_score"):
        n = weights.shape[-1]
        total = sum((weights[..., i, i - 1] for i in range(1, n)), torch.zeros(weights.shape[:-2], dtype=torch.float64))
        assert near(total / max(n - 1, 1), expected), case.label
    for case, (weights, period), expected in cases("prefix_matching_score"):
        n, total, count = weights.shape[-1], torch.zeros(weights.shape[:-2], dtype=torch.float64), 0
        for i in range(period, n):
            match = i - period  # where the current token stood one period ago
            total, count = total + weights[..., i, match + 1], count + 1
        assert near(total / max(count, 1), expected), case.label


def test_ov_circuit_token_by_token():
    for case, (W_E, W_V, W_O, W_U), expected in cases("ov_circuit"):
        for token in range(len(W_E)):
            one_hot = torch.eye(len(W_E), dtype=torch.float64)[token]
            assert near(one_hot @ W_E @ W_V @ W_O @ W_U, expected[token]), case.label


def test_copying_score_row_by_row():
    for case, (ov,), expected in cases("copying_score"):
        hits = 0
        for token, row in enumerate(ov.tolist()):
            hits += all(row[token] > logit for other, logit in enumerate(row) if other != token)
        assert expected == pytest.approx(hits / len(ov)), case.label


def test_composition_score_by_singular_values():
    for case, (W_QK, W_OV), expected in cases("composition_score"):
        A, B = W_QK.numpy(), W_OV.numpy()
        norms = [np.sqrt((np.linalg.svd(M, compute_uv=False) ** 2).sum()) for M in (A @ B.T, A, B)]
        assert float(expected) == pytest.approx(norms[0] / (norms[1] * norms[2]) if norms[1] * norms[2] else 0.0), (
            case.label
        )


def test_ablation_and_context_score_by_loops():
    for case, (outputs, head), expected in cases("ablate_head"):
        kept = torch.stack([outputs[:, i] * (i != head) for i in range(outputs.shape[1])], 1)
        assert torch.equal(kept, expected), case.label
    for case, (losses, early, late), expected in cases("in_context_learning_score"):
        rows = [row[late] - row[early] for row in losses.tolist()]
        assert float(expected) == pytest.approx(sum(rows) / len(rows), abs=1e-12), case.label


def test_find_heads_row_by_row():
    for case, (patterns, tokens), (previous, induction) in cases("find_heads"):
        n, ids = len(tokens), tokens.tolist()
        wanted = {
            "previous": {i: [i - 1] for i in range(1, n)},
            "induction": {i: [j for j in range(1, i + 1) if ids[j - 1] == ids[i]] for i in range(n)},
        }
        for kind, expected in (("previous", previous), ("induction", induction)):
            rows = {i: columns for i, columns in wanted[kind].items() if columns}
            chance = sum(len(columns) / (i + 1) for i, columns in rows.items()) / max(len(rows), 1)
            named = []
            for layer, heads in enumerate(patterns.tolist()):
                for head, pattern in enumerate(heads):
                    score = sum(pattern[i][j] for i, columns in rows.items() for j in columns) / max(len(rows), 1)
                    share = (score - chance) / (1 - chance) if rows else 0.0
                    assert not 0.3 <= share <= 0.7, f"{case.label}: a head at {share:.2f} is a matter of taste"
                    if share > 0.5:
                        named.append((layer, head))
            assert named == [tuple(pair) for pair in expected], case.label


def test_in_texts_of_two_kinds_even_attention_scores_what_the_unit_says():
    generator, scores = np.random.default_rng(0), []
    for _ in range(400):
        ids = generator.integers(2, size=32)
        counts = [sum(ids[j - 1] == ids[i] for j in range(1, i + 1)) for i in range(32)]
        scores.append(np.mean([count / (i + 1) for i, count in enumerate(counts) if count]))
    assert np.mean(scores) == pytest.approx(0.47, abs=0.01)


def test_ablate_path_position_by_position():
    for case, (tokens, weights, into), (logits, *patterns) in cases("ablate_path"):
        first, second = weights["blocks"]
        for row, ids in enumerate(tokens):
            start = [weights["W_E"][token] + weights["W_pos"][i] for i, token in enumerate(ids)]
            full, looks = attended(start, start, start, start, first)
            read = {reader: start if reader == into else full for reader in ("query", "key", "value")}
            stream, looks_again = attended(read["query"], read["key"], read["value"], full, second)
            for i in range(len(ids)):
                assert near(looks[i], patterns[0][row, i, : i + 1]), case.label
                assert near(looks_again[i], patterns[1][row, i, : i + 1], 1e-8), case.label
                assert near(stream[i] @ weights["W_U"], logits[row, i], 1e-8), case.label


def attended(query, key, value, stream, block):
    """What stands in the stream after a layer, position by position, and its rows of weights."""
    out, rows = [], []
    for i in range(len(stream)):
        scores = [(query[i] @ block["W_Q"]) @ (key[j] @ block["W_K"]) for j in range(i + 1)]
        row = torch.softmax(torch.stack(scores) / block["W_Q"].shape[1] ** 0.5, 0)
        out.append(stream[i] + sum(row[j] * (value[j] @ block["W_V"] @ block["W_O"]) for j in range(i + 1)))
        rows.append(row)
    return out, rows


# ---------------------------------------------------------------------------------------------------------------------
# Circuits


def test_the_hand_made_circuit_predicts_up_to_the_largest_sizes():
    weights = build_induction_circuit(200, 128)
    for period, repeats in ((2, 64), (6, 21), (31, 4), (64, 2)):
        block = torch.randperm(200, generator=torch.Generator().manual_seed(period))[:period]
        tokens = block.repeat(repeats)[None, :128]
        logits, (_, second) = run_circuit(tokens, weights)
        rows = torch.arange(period, tokens.shape[1])
        assert float(second[0, rows, rows - period + 1].min()) > 0.999
        assert torch.equal(logits[0, period:-1].argmax(-1), tokens[0, period + 1 :])


def noted_in_the_same_place(vocab_size, n_ctx):
    """Another construction: no slope; position 0 notes nothing, and the latest match wins by its own position code."""
    v, n = vocab_size, n_ctx
    d = 2 * v + 2 * n + 1
    W_E, W_pos, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    W_E[:, :v] = torch.eye(v)
    W_pos[:, v : v + n] = torch.eye(n)
    W_pos[:, -1] = torch.linspace(0, 1, n)
    first = {"W_Q": torch.zeros(d, n), "W_K": torch.zeros(d, n), "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)}
    first["W_Q"][v + 1 : v + n] = 40 * n**0.5 * torch.eye(n)[:-1]
    first["W_K"][v : v + n] = torch.eye(n)
    first["W_V"][:v] = torch.eye(v)
    first["W_O"][:, v + n : 2 * v + n] = torch.eye(v)
    second = {"W_Q": torch.zeros(d, v), "W_K": torch.zeros(d, v), "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)}
    second["W_Q"][:v] = v**0.5 * torch.eye(v)
    second["W_K"][v + n : 2 * v + n] = 60.0 * n * torch.eye(v)
    second["W_K"][-1] = 20.0 * n
    second["W_V"][:v] = torch.eye(v)
    second["W_O"][:] = 0
    second["W_O"][:, :v] = 5 * torch.eye(v)
    W_U[:v] = torch.eye(v)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def random_basis(vocab_size, n_ctx):
    """The same circuit in a rotated residual stream: no feature has an axis of its own."""
    weights = build_induction_circuit(vocab_size, n_ctx)
    d = weights["W_E"].shape[1]
    generator = torch.Generator().manual_seed(1)
    turn = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]

    def turned(W, before, after):
        W = W.double()
        W = turn.T @ W if before else W
        return (W @ turn if after else W).float()

    blocks = [{key: turned(W, key != "W_O", key == "W_O") for key, W in block.items()} for block in weights["blocks"]]
    ends = {"W_E": turned(weights["W_E"], False, True), "W_pos": turned(weights["W_pos"], False, True)}
    return {**ends, "W_U": turned(weights["W_U"], True, False), "blocks": blocks}


def with_more_keys(vocab_size, n_ctx):
    print("built")
    weights = build_induction_circuit(vocab_size, n_ctx, first_logit=60.0)
    blocks = [{**block, "note": f"layer {i}"} for i, block in enumerate(weights["blocks"])]
    return {**weights, "blocks": blocks, "note": "by hand", "d_model": weights["W_E"].shape[1]}


@pytest.mark.parametrize("answer", [noted_in_the_same_place, random_basis, with_more_keys])
def test_circuits_of_other_constructions_are_right(answer):
    for seed in range(3):
        verdict = judge_function(answer, "build_induction_circuit", seed)
        assert verdict.verdict == "right", verdict.message


def test_a_circuit_that_only_fails_at_large_sizes_keeps_the_points_of_the_others():
    def fails_when_large(vocab_size, n_ctx):
        return build_induction_circuit(vocab_size, n_ctx, first_logit=1.0 if n_ctx > 50 else 30.0)

    verdict = judge_function(fails_when_large, "build_induction_circuit", 2)
    assert verdict.verdict == "wrong" and verdict.mistake == "first-layer-too-soft"
    assert 0 < verdict.score < verdict.points
