"""Unit 1: every reference by a second route."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autograder.exercises import find_exercise
from autograder.exercises.u01_projections import pointing_faults
from autograder.judging.hidden_cases import Challenge


def embed_one_hot(tokens, E):
    return np.array(
        [[sum(E[i, w] * (w == token) for w in range(E.shape[1])) for i in range(len(E))] for token in tokens]
    )


def lookup_loops(query, keys, values):
    scores = [sum(float(a) * float(b) for a, b in zip(query, key, strict=True)) for key in keys]
    weights = [1 / math.fsum(math.exp(min(other - score, 700)) for other in scores) for score in scores]
    return np.array([math.fsum(w * float(v) for w, v in zip(weights, column, strict=True)) for column in values.T])


def project_loops(X, *weights):
    return tuple(
        np.array([[sum(x[d] * W[d, e] for d in range(len(W))) for e in range(W.shape[1])] for x in X]) for W in weights
    )


def token_loops(x, *weights):
    return tuple(np.array([sum(row[d] * x[d] for d in range(len(x))) for row in W]) for W in weights)


def low_rank_outer(X, down, up):
    return X @ sum(np.outer(down[:, r], up[r]) for r in range(len(up)))


def parameters_by_matrix(d_model, d_head, n_heads, n_layers):
    count = 0
    for _ in range(4):
        count += d_model * d_head
    return count * n_heads * n_layers


def memory_by_normal_equations(keys, values):
    """(K^T K) S = K^T V, in the directions in which the keys lie."""
    strengths, directions = np.linalg.eigh(keys.T @ keys)
    kept = directions[:, strengths > 1e-12 * strengths.max()]
    return kept @ np.linalg.solve(kept.T @ keys.T @ keys @ kept, kept.T @ keys.T @ values)


SECOND_ROUTES = {
    "embed": embed_one_hot,
    "soft_lookup": lookup_loops,
    "project_qkv": project_loops,
    "project_token": token_loops,
    "low_rank_value": low_rank_outer,
    "attention_parameters": parameters_by_matrix,
    "linear_memory": memory_by_normal_equations,
}


@pytest.mark.parametrize("name", SECOND_ROUTES)
def test_the_reference_agrees_with_a_second_route(name):
    for seed in range(5):
        posed = Challenge(seed).posed(name)
        for case, expected in zip(posed.cases, posed.expected, strict=True):
            args = [np.asarray(a, np.float64) if np.asarray(a).dtype.kind == "f" else a for a in case.args]
            got = SECOND_ROUTES[name](*args)
            for one, other in zip(
                got if isinstance(got, tuple) else (got,),
                expected.value if isinstance(got, tuple) else (expected.value,),
                strict=True,
            ):
                if isinstance(other, int):
                    assert one == other, case.label
                else:
                    # Squared, what is a little more than rounding keeps few digits.
                    rtol = case.rtol if case.criterion == "rounded keys" else 1e-9
                    np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-9, err_msg=case.label)


def test_gpt_3_is_counted_to_the_last_weight():
    posed = Challenge(0).posed("attention_parameters")
    counts = [expected.value for case, expected in zip(posed.cases, posed.expected, strict=True) if "GPT" in case.label]
    assert counts == [57_982_058_496]


def on_a_circle(length):
    """Queries and keys around a circle, the queries so long."""

    def answer(X, target):
        turn = 2 * np.pi * np.arange(len(X)) / len(X)
        points = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        return np.linalg.pinv(X) @ (length * points[target]), np.linalg.pinv(X) @ points

    return answer


def points_by_loops(X, target, W_Q, W_K):
    """The least weight that a row gives to its target, number by number."""
    (Q,), (K,) = project_loops(X, W_Q), project_loops(X, W_K)
    found = []
    for query, wanted in zip(Q, target, strict=True):
        scores = [sum(float(a) * float(b) for a, b in zip(query, key, strict=True)) for key in K]
        found.append(1 / math.fsum(math.exp(min(score - scores[wanted], 700)) for score in scores))
    return min(found)


@pytest.mark.parametrize("length", [3.0, 10.0, 25.0, 40.0, 60.0, 500.0])
def test_weights_point_where_loops_say_so(length):
    exercise, met = find_exercise("pointing_weights"), set()
    for seed in range(4):
        for case in Challenge(seed).posed("pointing_weights").cases:
            X, target = case.args
            assert len(X) <= 16 and np.linalg.cond(X) < 100 and X.dtype == np.float64
            found = [(answer, answer(X, target)) for answer in (on_a_circle(length), exercise.reference)]
            for answer, weights in found:
                points = points_by_loops(X, target, *weights) >= 0.9
                assert (exercise.examine(case, weights) is None) == points, f"{case.label}, {answer}"
            assert points, f"the reference does not point: {case.label}"
            met.add(len(X))
    assert {1, 2, 16} < met


def test_a_key_can_win_where_some_query_of_many_chooses_it():
    rng = np.random.default_rng(0)
    turns = np.linspace(0, 2 * np.pi, 20_000, endpoint=False)
    queries = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    for n in (1, 2, 3, 8, 30):
        K = rng.standard_normal((n, 2))
        winners = set((queries @ K.T).argmax(axis=1).tolist())
        assert winners == {j for j in range(n) if pointing_faults._can_win(K, j)}


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-160, 1e150, 1e200, 1e300, 1.7e308])
def test_weights_of_any_size_get_a_verdict(size):
    exercise, rng = find_exercise("pointing_weights"), np.random.default_rng(0)
    for case in Challenge(0).posed("pointing_weights").cases:
        d_model = case.args[0].shape[1]
        for other in (size, 1.0, 1e-300):
            weights = size * rng.uniform(-1, 1, (d_model, 2)), other * rng.uniform(-1, 1, (d_model, 2))
            with np.errstate(all="ignore"):
                for result in (weights, weights[::-1]):
                    found = exercise.examine(case, result)
                    assert len(case.args[0]) <= 2 or found.slug in {m.slug for m in exercise.mistakes}
