"""What a hunt that finds too little is told: what its own calls could show."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autograder.exercises import find_exercise
from autograder.exercises.kit import difference
from autograder.exercises.u04_multi_head.diagnose import expected
from autograder.exercises.u04_multi_head.suspects import SUSPECTS
from autograder.exercises.u06_cross_attention.catches_wrong_decoder import TRIALS, made
from autograder.exercises.u06_cross_attention.decoder_layer import decoder_layer
from autograder.grading.in_process import judge_function

pytestmark = pytest.mark.nightly


def advice(answer, name, seed=1):
    return judge_function(answer, name, seed, watched=False, reread=False).advice


def leaks_by_means(attend, Q, K, V):
    before = attend(Q, K, V)
    for t in range(1, len(Q)):
        keys, values = K.copy(), V.copy()
        keys[t:] += 1.0
        values[t:] -= 2.0 + np.arange(V[t:].size).reshape(V[t:].shape)
        after = attend(Q, keys, values)
        if np.abs((after - before)[:t].mean(axis=1)).max() > 1e-6 * np.abs(before).max():
            return True
    return False


def test_a_leak_that_was_shown_and_not_seen_is_told_as_that():
    text = advice(leaks_by_means, "leaks_future")
    assert "which is a leak. Your function returns False." in text and "their sum stays" in text, text


def leaks_in_another_order(attend, Q, K, V):
    before = attend(Q, K, V)
    for t in range(1, len(Q)):
        order = [*range(t), *reversed(range(t, len(Q)))]
        if np.abs(attend(Q, K[order], V[order])[:t] - before[:t]).max() > 1e-6 * np.abs(before).max():
            return True
    return False


def test_calls_that_show_no_leak_are_told_as_that():
    text = advice(leaks_in_another_order, "leaks_future")
    assert "your calls don't show the leak" in text and "only reorder the keys and values" in text, text


def asked_with(n, looks):
    """A diagnosis from one call, of so many tokens, by what `looks` takes of an output."""

    def diagnose(attend):
        generator = torch.Generator().manual_seed(3)
        shapes = ((2, n, 6), (6, 6), (6, 6), (6, 6), (6, 6))
        inputs = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
        found = looks(attend(*inputs, 3, True))
        gaps = {
            name: (looks(expected(name, *inputs, 3, True)) - found).abs().nan_to_num(9.0).max() for name in SUSPECTS
        }
        return min(gaps, key=lambda name: (gaps[name] > 1e-9, name != "right", gaps[name]))

    return diagnose


def test_one_call_that_cannot_tell_two_suspects_apart_is_told_with_its_sizes():
    text = advice(asked_with(5, lambda out: out), "diagnose")
    assert "both give the same output" in text and "n = 5" in text and "the scores are between" in text, text


def test_one_call_that_tells_them_apart_where_nobody_looks():
    text = advice(asked_with(12, lambda out: out[:, -1]), "diagnose")
    assert "their outputs differ" in text and "not in the last token" in text, text


def catching(trials, off):
    """A test of decoders: these trials, and what counts as wrong."""

    def catches_wrong_decoder(layer):
        for seed, trial in enumerate(trials):
            inputs = made(**trial, seed=seed)
            try:
                found = layer(*inputs)
            except ValueError:
                return True
            if off(found, decoder_layer(*inputs)):
                return True
        return False

    return catches_wrong_decoder


def is_off(found, right):
    return bool((found - right).abs().nan_to_num(9.0).max() > 1e-6)


@pytest.mark.parametrize(
    ("trials", "lacks"),
    [
        ([trial for trial in TRIALS if trial["mask"] != "all"], "source_mask is None"),
        ([{**trial, "B": trial["n"] + 1} for trial in TRIALS if trial["n"] > 1], "B is n"),
    ],
)
def test_what_no_call_of_a_test_holds_is_told(trials, lacks):
    text = advice(catching(trials, is_off), "catches_wrong_decoder")
    assert "this decoder answers there like a correct one" in text and lacks in text, text


def test_a_comparison_that_lets_nan_pass_is_told_as_that():
    answer = catching(TRIALS, lambda found, right: bool((found - right).abs().max() > 1e-6))
    found = judge_function(answer, "catches_wrong_decoder", 1, watched=False, reread=False)
    assert found.mistake == "nan-passes" or "only where it is NaN or infinite" in found.advice, found.advice


def test_differences_are_told_by_where_they_are():
    right = np.random.default_rng(0).standard_normal((2, 4, 3))
    other = right.copy()
    assert difference(right, other) == ""
    other[0, 1] += 1.0
    assert "in 1 of 2 sequences and not in the last token" in difference(other, right)
    other = right.copy()
    other[0, 1, 0] = np.nan
    assert difference(other, right) == "only where it is NaN or infinite"
    assert difference(right[:, :2], right) == "in shape"


FIVE = ((3, 5, 7, 2, 4, 3, "scattered"), (2, 6, 4, 3, 2, 3, "all"), (4, 5, 5, 2, 3, 4, "scattered"),
        (3, 6, 8, 2, 3, 2, "empty"), (1, 1, 5, 2, 3, 3, "all"))  # fmt: skip


def test_the_points_of_a_test_of_decoders_follow_the_layers_that_it_catches():
    """Each part used to be lost with the first layer that got by."""
    trials = [dict(zip(("B", "n", "m", "h", "d_self", "d_cross", "mask"), trial, strict=True)) for trial in FIVE]
    found = {}
    for off in (1e-6, 1e-2):
        test = catching(trials, lambda found, right, off=off: bool((found - right).abs().nan_to_num(9.0).max() > off))
        verdict = judge_function(test, "catches_wrong_decoder", 5, watched=False, named=False)
        shares = find_exercise("catches_wrong_decoder").credit
        earned = sum(shares[each.name] * each.passed / each.total for each in verdict.criteria[:-1])
        assert verdict.score == pytest.approx(0.9 * earned + 0.1)
        found[off] = verdict.score
    assert 0.9 < found[1e-6] < 1 and found[1e-2] < found[1e-6] - 0.02
