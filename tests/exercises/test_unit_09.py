"""Unit 9: references against a second route, and what the notebook says of times that it measured."""

from __future__ import annotations

import math
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from autograder.exercises import find_exercise
from autograder.judging.hidden_cases import Challenge
from references import SEEDS, cases, near


def query_by_query(Q, K, V, causal=False):
    """Attention by the formula, one query at a time, in NumPy."""
    Q, K, V = (array.numpy() for array in (Q, K, V))
    out = np.empty_like(Q)
    for batch, head, query in np.ndindex(Q.shape[:3]):
        end = query + 1 if causal else K.shape[2]
        scores = K[batch, head, :end] @ Q[batch, head, query] / np.sqrt(Q.shape[3])
        powers = np.exp(scores - scores.max())
        out[batch, head, query] = powers @ V[batch, head, :end] / powers.sum()
    return out


@pytest.mark.parametrize("name", ["loop_attention", "batched_attention", "tiled_attention", "tiled_causal_attention"])
def test_attention_by_the_formula(name):
    for case, (Q, K, V, *_), expected in cases(name):
        causal = case.kwargs.get("causal", name == "tiled_causal_attention")
        assert near(query_by_query(Q, K, V, causal), expected), case.label


def test_merge_partials_by_attention_over_the_keys_of_both():
    """Keys of two sets in NumPy, also none at all: one softmax over all of them, and one over each set."""
    rng, reference = np.random.default_rng(0), find_exercise("merge_partials").reference
    for sizes in ((5, 3), (1, 8), (0, 4), (6, 0), (0, 0)):
        for shift in (0.0, 1e4, -1e4):
            q = rng.standard_normal((2, 3, 7, 4))
            keys, values = ([rng.standard_normal((2, 3, m, 4)) for m in sizes] for _ in "KV")
            parts = [over(q, K, V, shift) for K, V in zip(keys, values, strict=True)]
            found = reference(*(torch.from_numpy(array) for part in parts for array in part))
            for array, wanted in zip(
                found, over(q, np.concatenate(keys, 2), np.concatenate(values, 2), shift), strict=True
            ):
                assert not array.isnan().any()
                assert np.allclose(array.numpy(), wanted, rtol=0, atol=1e-10)


def over(q, keys, values, shift):
    """(out, lse) over these keys, whose scores are all moved by `shift`."""
    if not keys.shape[2]:
        return np.zeros(q.shape), np.full(q.shape[:-1], -np.inf)
    scores = q @ keys.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    return powers @ values / total, (top + shift + np.log(total))[..., 0]


def test_flash_backward_by_autograd_through_plain_attention():
    for _, (Q, K, V, _, _, d_out, _), expected in cases("flash_backward"):
        leaves = [array.clone().requires_grad_() for array in (Q, K, V)]
        out = torch.softmax(leaves[0] @ leaves[1].mT / math.sqrt(Q.shape[-1]), -1) @ leaves[2]
        for found, wanted in zip(torch.autograd.grad(out, leaves, d_out), expected, strict=True):
            assert near(found, wanted, 1e-7)


def test_flash_bytes_by_marking_each_number_that_is_moved():
    """The numbers of each tensor that a block of queries touches are marked in an array of bytes, and counted."""
    reference = find_exercise("flash_bytes").reference
    assert (reference(10, 4, 4), reference(10, 4, 4, causal=True)) == (640, 512)
    for n, d, block, width, causal in (
        (10, 4, 4, 2, True),
        (7, 3, 3, 4, False),
        (9, 2, 3, 1, True),
        (5, 6, 8, 8, True),
    ):
        moved = 0
        for own in np.array_split(np.arange(n), range(block, n, block)):
            for needed in ("Q", "K", "V", "out"):
                marked = np.zeros((n, d * width), np.int8)
                marked[own if needed in ("Q", "out") else np.arange(own[-1] + 1 if causal else n)] = 1
                moved += int(marked.sum())
        assert reference(n, d, block, width, causal) == moved


def test_attention_flops_by_counting_every_multiplication_and_addition():
    reference = find_exercise("attention_flops").reference
    for batch, heads, n, d in ((1, 1, 1, 1), (2, 3, 4, 5), (1, 2, 7, 3)):
        count = 0
        for _ in range(batch * heads * n * n):  # one score, and what its weight does to the output
            count += sum(2 for _ in range(d)) + sum(2 for _ in range(d))
        assert reference(batch, heads, n, d) == count


def test_score_matrix_bytes_by_making_the_matrix():
    reference = find_exercise("score_matrix_bytes").reference
    assert reference(2, 3, 17) == torch.empty(2, 3, 17, 17, dtype=torch.float16).nbytes
    for dtype in (torch.float32, torch.float64, torch.int8):
        matrix = torch.empty(3, 2, 9, 9, dtype=dtype)
        assert reference(3, 2, 9, matrix.element_size()) == matrix.nbytes


def test_roofline_seconds_is_the_later_of_two_clocks():
    for seed in SEEDS:
        posed = Challenge(seed).posed("roofline_seconds")
        for case, expected in zip(posed.cases, posed.expected, strict=True):
            flops, moved, peak_flops, peak_bandwidth = case.args
            clocks = sorted((flops / peak_flops, moved / peak_bandwidth))
            assert expected.value == clocks[1]


def test_median_time_of_a_device_that_works_behind_ones_back():
    """Each run is given to a queue; only `synchronize` waits. The times are those of the runs that follow the warm-up."""
    reference = find_exercise("median_time").reference
    durations, started = [9.0, 9.0, 1.0, 4.0, 2.0], []
    now, busy_until = [0.0], [0.0]

    def run():
        started.append(durations[len(started)])
        busy_until[0] = max(now[0], busy_until[0]) + started[-1]

    def synchronize():
        now[0] = max(now[0], busy_until[0])

    assert reference(run, synchronize, lambda: now[0], 2, 3) == np.median([1.0, 4.0, 2.0])
    assert len(started) == 5


@pytest.fixture(scope="module")
def given():
    """The names of the notebook's given cells."""
    path = Path(__file__).parents[2] / "solutions" / "09_gpu_speed" / "09_gpu_speed.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    threads, names = torch.get_num_threads(), {}
    for cell in cells:
        if "given" in cell.metadata.get("tags", []):
            exec(cell.source, names)
    torch.set_num_threads(threads)
    return names


def test_a_count_that_is_missing_or_fails_in_whatever_way_is_nan(given):
    def fails(n):
        return {}[n]

    for answer in (fails, lambda n: None, lambda n: "many", lambda n: (n, n), lambda: 1):
        assert math.isnan(given["yours"]("count", 3)), "not written yet"
        given["count"] = answer
        assert math.isnan(given["yours"]("count", 3))
        del given["count"]
    given["count"] = lambda n: n * n
    assert given["yours"]("count", 3) == 9


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ((2, 3, 4), "tiled was faster than batched at all these lengths"),
        ((0.5, 0.9, 1), "tiled was faster than batched at none of these lengths"),
        ((0.5, 2, 3), "tiled was faster than batched from n = 128 on"),
        ((2, 0.5, 3), "tiled was faster than batched at n = 64 and from n = 256 on"),
        ((2, 3, 0.5), "tiled was faster than batched at n = 64, 128, but not at the longest, 256"),
    ],
)
def test_a_lead_begins_where_it_is_not_lost_again(given, ratios, said):
    assert given["lead"]("tiled", "batched", [64, 128, 256], ratios) == said
