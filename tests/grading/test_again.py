"""A dispute: the same answer, judged again on the inputs of its run."""

from __future__ import annotations

import re

import pytest

from autograder.grading.judge_again import printed
from autograder.grading.results_store import read_kept
from autograder.running.sandbox import preflight
from term import UNITS, Term

UNIT = UNITS[1]
pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]
FLIPPED = "def softmax(z, axis=-1):\n    e = np.exp(z - z.max(axis=axis, keepdims=True))\n    return e / e.sum()"
RAISES = "def attention(Q, K, V):\n    raise ValueError('no idea')"


@pytest.fixture(scope="module")
def term(tmp_path_factory):
    term = Term(tmp_path_factory.mktemp("course"), 1, 1)
    term.hand_in("s01", UNIT, softmax=FLIPPED, attention=RAISES)
    term.grade()
    return term


def test_the_verdict_is_the_same_and_its_input_is_shown(term):
    seed = read_kept(term.root, UNIT, "s01").seed
    for _ in range(2):
        said = term.do("again", "s01", "softmax")
        then, now = (line.partition(": ")[2] for line in said.out.splitlines()[:2])
        assert then == now and then.startswith("wrong, 0% of the points. ")
        assert f"(seed {seed})" in said and "argument 1:" in said and "returned:" in said and "expected:" in said
        assert re.search(r"float64 of shape \(\d+, \d+\)", said)


def test_an_exception_and_a_right_answer_are_shown_as_such(term):
    said = term.do("again", "s01", f"{UNIT}/attention")
    assert "ValueError: no idea" in said
    said = term.do("again", "s01", "scaled_scores")
    assert "now: right, 100% of the points." in said and "The first input" not in said


def test_what_has_changed_since_is_said(term):
    term.hand_in("s01", UNIT, softmax="def softmax(z, axis=-1):\n    return z")
    said = term.do("again", "s01", "softmax")
    assert "have changed since that run" in said and "now: wrong" in said
    term.hand_in("s01", UNIT, softmax=FLIPPED)


def test_what_cannot_be_judged_again_is_one_line(term):
    assert "no student 'nobody' there" in term.do("again", "nobody", "softmax", status=2)
    assert "no question is called 'nothing'" in term.do("again", "s01", "nothing", status=2)
    term.hand_in("s01", UNITS[0])
    assert f"no run is noted that judged {UNITS[0]}" in term.do("again", "s01", "embed", status=2)


def test_long_values_are_cut():
    assert len(printed("x" * 10_000)) < 700 and printed({"a": 1}) == "a: 1"
