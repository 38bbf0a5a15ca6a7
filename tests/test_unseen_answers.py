"""Answers to the challenges by people who saw the contracts and nothing else; the judge has learnt nothing from them."""

from __future__ import annotations

import functools
from importlib import import_module

import pytest

from answers import Answers
from autograder.data import Verdict
from autograder.exercises import find_exercise, is_exercise
from autograder.judging.local import judge_function

PARTS = [Answers(import_module(f"answers.unseen_{part}")) for part in ("1_to_6", "7_to_9")]
SEED = 1
#: Wrong, and accepted: why.
ACCEPTED: dict[str, str] = {}
#: Right by the syllabus, and outside of what the notebook's own text allows.
OUTSIDE = {
    "linear_memory__right_lstsq_by_column": "takes the rounding of keys for something",
    "linear_memory__right_svd_rank_one": "takes the rounding of keys for something",
    "linear_memory__right_greville": "takes the rounding of keys for something",
    "diagnose__right_nearest_of_ten": "knows ten suspects of thirteen",
    "diagnose__right_transforms_of_one": "makes two calls, and knows ten suspects of thirteen",
    "diagnose__right_reads_the_weights": "knows ten suspects of thirteen",
    "diagnose__right_loops_and_correlation": "knows ten suspects of thirteen",
    "bits_per_token__right_nll_loss": "uses what the notebook rules out beside F.cross_entropy",
    "bits_per_token__right_one_hot_by_comparison": "its gradient is NaN where the filler's logits are infinite",
    "bits_per_token__right_loop_of_gaps": "begins with 0 times the sum of all logits, and filler may be infinite",
    "sample__right_recursive": "divides logits by a tiny temperature, which gives infinity",
    "sample__right_python_nucleus": "divides logits by a tiny temperature, which gives infinity",
    "sample__right_pairwise_comparison": "divides logits by a tiny temperature, which gives infinity",
    "catches_wrong_decoder__right_grid_of_cases": "makes more calls than the 5 that a box answers",
    "catches_wrong_decoder__right_cut_not_masked": "makes more calls than the 5 that a box answers",
    "catches_wrong_decoder__right_einsum_low_rank": "sends 16 sequences, and a box takes 8",
    "catches_wrong_decoder__right_properties_and_one_head": "makes hundreds of calls, and a box answers 5",
    "tiled_causal_attention__right_column_of_ones": "takes the queries one by one, not in blocks",
}


def answers(kind: str):
    for part in PARTS:
        for name, found in getattr(part, kind).items():
            for answer in found:
                yield pytest.param(name, answer, id=answer.__name__)


@pytest.mark.parametrize(("name", "answer"), answers("RIGHT"))
def test_an_unusual_right_answer_is_accepted(name, answer):
    verdict = judge_function(answer, name, SEED)
    assert (verdict.verdict == "right") != (answer.__name__ in OUTSIDE), verdict.message


@functools.cache
def verdict_on_wrong(name: str, answer) -> Verdict:
    return judge_function(answer, name, SEED)


@pytest.mark.parametrize(("name", "answer"), answers("WRONG"))
def test_a_wrong_answer_is_rejected(name, answer):
    verdict = verdict_on_wrong(name, answer)
    assert (verdict.verdict == "right") == (answer.__name__ in ACCEPTED), f"{answer.__doc__}: {verdict.message}"


def test_nine_in_ten_of_the_wrong_are_named():
    judged = [verdict_on_wrong(*found.values) for found in answers("WRONG")]
    wrong = [verdict for verdict in judged if verdict.verdict == "wrong"]
    assert len(wrong) >= 60 and sum(verdict.mistake is not None for verdict in wrong) >= 0.9 * len(wrong)


def test_there_are_enough_of_them():
    for kind, least in (("RIGHT", 4), ("WRONG", 6)):
        counts = {name: len(found) for part in PARTS for name, found in getattr(part, kind).items()}
        assert len(counts) == 15 and min(counts.values()) >= least
        assert all(is_exercise(name) and find_exercise(name) for name in counts)
