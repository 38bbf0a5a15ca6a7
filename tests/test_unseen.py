"""Answers that nobody had seen when the judge was written: its figure holds, and the README says what it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import figure
from autograder.exercises import exercises

ROOT = Path(__file__).resolve().parents[1]
RECORDED = json.loads(figure.FIGURE.read_text(encoding="utf-8"))
#: What a reworded message or a case drawn otherwise may cost, of the answers of one unit.
NOISE = 2


@pytest.mark.parametrize("unit", RECORDED["units"])
def test_the_judge_does_no_worse_than_it_did(unit):
    names = [name for name, _ in figure.answers([unit])]
    found = [figure.told(name, figure.SEED) for name in names]
    count, was = figure.counted(found), RECORDED["units"][unit]
    assert (count["wrong"], count["right"]) == (was["wrong"], was["right"]), "measure anew: tools/figure.py --record"
    assert count["accepted"] == was["accepted"], [each.name for each in found if each.is_right and not each.accepted]
    assert count["rejected"] >= was["rejected"], [each.name for each in found if not each.is_right and each.accepted]
    assert count["false"] <= was["false"] + NOISE
    remedy = "read what is new (tools/figure.py --unread), and add to tests/unseen/read.json what it says"
    assert count["cause"] >= was["cause"] - NOISE, f"{count}: {remedy}"


def test_there_are_four_wrong_answers_to_every_function_of_these_units():
    counts = {name: 0 for unit in RECORDED["units"] for name in exercises(unit)}
    for name, _ in figure.answers([]):
        counts[name.partition("__")[0]] += "__wrong_" in name
    written = "".join(path.read_text(encoding="utf-8") for path in figure.FOLDER.glob("unit_*.py"))
    for name in figure.OUTSIDE:  # written like the others, and not measured
        counts[name.partition("__")[0]] += "__wrong_" in name and f"def {name}(" in written
    assert min(counts.values()) >= 4, counts


def test_what_was_read_is_one_of_three_things():
    said = {said for messages in figure.read_before().values() for said in messages.values()}
    assert said <= {*figure.SAYINGS}


def test_the_readme_tells_the_figure():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    count = RECORDED["all"]
    pattern = r"(\d+) of (\d+) wrong answers were rejected, and (\d+) .*?cause.*? and (\d+) something false"
    words = re.search(pattern, text)
    assert words is not None, "the README says how many unseen answers were rejected, named, and named falsely"
    assert [int(word) for word in words.groups()] == [count[key] for key in ("rejected", "wrong", "cause", "false")]
    assert RECORDED["measured"] in text
