"""Right and wrong answers written by people who had not seen the judge: each is accepted or rejected as it should be.

Those in tests/answers guard the cases; those in tests/unseen only measure, and nothing is ever changed for one of them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import measure_judge
from answers import answers_of
from autograder.exercises import exercises, find_exercise, unit_names
from autograder.grading.in_process import is_right, judge_function
from conftest import exercise_names
from lanes import nightly

ROOT = Path(__file__).resolve().parents[2]
NAMES = exercise_names()
#: Answers by many loops, and a detector that runs what it is given again and again: fewer seeds for these.
SLOW = {"attention_parameters__right_loops": 1, "leaks_future": 3}
SHARE_NAMED = 0.9
SHARE_NAMED_OF_EACH = 0.85
RECORDED = json.loads((measure_judge.FIRST / "figure.json").read_text(encoding="utf-8"))
#: The units that were there when the unseen answers were last written: a newer one waits for the next time.
MEASURED = list(RECORDED["units"])
#: How many answers of a unit another draw or a reworded message may change.
NOISE = 2


@pytest.mark.parametrize("turn", nightly(range(5)))
@pytest.mark.parametrize("name", NAMES)
def test_a_right_answer_of_unusual_form_is_accepted(name, turn):
    seed, rejected = measure_judge.SEED + turn, []
    for answer in answers_of(name, "right"):
        if turn < SLOW.get(answer.__name__, SLOW.get(name, turn + 1)):
            verdict = judge_function(answer, name, seed, named=False)
            assert (verdict.score == verdict.points) == (verdict.verdict == "right")
            rejected += [f"{answer.__name__}: {verdict.message}"] if verdict.verdict != "right" else []
    assert not rejected, f"seed {seed}: {rejected}"


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_answer_is_rejected(name):
    """Most are wrong whether they are watched or not; one may be wrong in a forbidden call alone."""
    accepted = {
        answer.__name__: answer.__doc__
        for answer in answers_of(name, "wrong")
        if is_right(answer, name, measure_judge.SEED, watched=False) and is_right(answer, name, measure_judge.SEED)
    }
    assert not accepted, accepted


@pytest.mark.parametrize("name", NAMES)
def test_every_exercise_has_answers(name):
    """Here, or among the unseen ones: those are written for many exercises at a time, and a newer one has none yet."""
    for kind, least in (("right", 1), ("wrong", 3)):
        place, unseen = f"tests/answers/unit_{find_exercise(name).unit[:2]}.py", measure_judge.answers([name])
        count = len(answers_of(name, kind)) + sum(f"__{kind}_" in answer for answer, _ in unseen)
        assert count >= least, f"{place} has {count} functions {name}__{kind}_…; write {least} from the docstring alone"


REMEDY = "add a Mistake to the exercise, or a relation to autograder/diagnosis/symptoms/"


@pytest.mark.nightly
@pytest.mark.parametrize("unit", unit_names())
def test_nine_in_ten_wrong_answers_of_a_unit_are_named(unit):
    unnamed, count = [], 0
    for name in exercises(unit):
        verdicts = {answer.__name__: judge_function(answer, name, 1) for answer in answers_of(name, "wrong")}
        wrong = {
            answer: verdict for answer, verdict in verdicts.items() if verdict.verdict not in ("forbidden", "right")
        }
        assert all((each.score < each.points) == (each.verdict != "right") for each in verdicts.values())
        found = [answer for answer, verdict in wrong.items() if verdict.mistake is None and verdict.verdict == "wrong"]
        allowed = max(1, (1 - SHARE_NAMED_OF_EACH) * len(wrong))
        assert len(found) <= allowed, f"{len(found)} of {len(wrong)} unnamed: {', '.join(found)}; {REMEDY}"
        unnamed, count = unnamed + found, count + len(wrong)
    assert len(unnamed) <= (1 - SHARE_NAMED) * count, f"{len(unnamed)} of {count}: {', '.join(unnamed)}; {REMEDY}"


#: Answers as students give them -> the slug that is theirs under every draw.
NAMED = {
    "dot_product_moments__wrong_simulated": "not-repeatable",
    "dot_product_moments__wrong_simulated_with_seed": "measured-on-draws",
    "score_statistics__wrong_seed_of_its_own": "generator-unused",
    "score_statistics__wrong_fresh_generator": "not-repeatable",
    "score_statistics__wrong_global_seed": "generator-unused",
    "attention_backward__wrong_root_forgotten": "div-left-out-sqrt-d-k-d-scores",
    "attention_backward__wrong_values_by_key_softmax": "axis-softmax-along-axis-2-1",
    "attention_backward__wrong_values_not_turned": "transposition-left-out-weights",
    "attention_backward__wrong_differences": "imprecise",
    "copying_score__wrong_always_zero": "constant",
    "copying_score__wrong_always_one": "constant",
    "ablate_head__wrong_rescaled_without_guard": "rest-scaled",
    "in_context_learning_score__wrong_ranges": "from-late-minus-before-early",
    "build_induction_circuit__wrong_large_random": "no-circuit",
    "build_induction_circuit__wrong_zeros": "no-circuit",
    "build_induction_circuit__wrong_half_context": "first-layer-at-some-positions",
}


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "answer", "slug"), [(key.partition("__")[0], key, NAMED[key]) for key in NAMED])
def test_answers_as_students_give_them_are_named_for_what_they_do(name, answer, slug):
    wrong = {function.__name__: function for function in answers_of(name, "wrong")}[answer]
    for seed in range(6):
        verdict = judge_function(wrong, name, seed)
        assert verdict.mistake == slug, f"seed {seed}: {verdict.message}"


# Unseen answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", MEASURED)
def test_unseen_answers_are_accepted_and_rejected_as_recorded(unit):
    found = {name: measure_judge.is_accepted(name, measure_judge.SEED) for name, _ in measure_judge.answers([unit])}
    right, wrong = ({name for name in found if f"__{kind}_" in name} for kind in ("right", "wrong"))
    refused = {name for name in right if not found[name]}
    let_through = {name for name in wrong if found[name]}
    count = {"wrong": len(wrong), "right": len(right)}
    count |= {"accepted": len(right - refused), "rejected": len(wrong - let_through)}
    was = {key: RECORDED["units"][unit][key] for key in count}
    assert count == was, f"right and rejected: {refused}; wrong and accepted: {let_through}"


@pytest.mark.nightly
@pytest.mark.parametrize("unit", MEASURED)
def test_unseen_wrong_answers_are_told_their_cause_as_often_as_recorded(unit):
    count = measure_judge.counted(
        [measure_judge.told(name, measure_judge.SEED) for name, _ in measure_judge.answers([unit])]
    )
    was = RECORDED["units"][unit]
    assert count["false"] <= was["false"] + NOISE
    remedy = "read what is new (tools/measure_judge.py --unread), and add to tests/unseen/read.json what it says"
    assert count["cause"] >= was["cause"] - NOISE, f"{count}: {remedy}"


@pytest.mark.parametrize("unit", MEASURED)
def test_there_are_four_unseen_wrong_answers_to_every_function(unit):
    """To every one that was there when the answers were last written: a newer function waits for the next time."""
    text = (measure_judge.FIRST / f"unit_{unit[:2]}.py").read_text(encoding="utf-8")
    counts = {name: len(re.findall(rf"^def {name}__wrong_", text, re.MULTILINE)) for name in exercises(unit)}
    assert min(filter(None, counts.values())) >= 4, counts


def test_the_documents_state_the_figure():
    count = RECORDED["all"]
    text = " ".join((ROOT / "docs" / "EVALUATION.md").read_text(encoding="utf-8").split())
    pattern = r"(\d+) of (\d+) wrong answers were rejected, and (\d+) .*?cause.*? and (\d+) said something false"
    words = re.search(pattern, text)
    assert words is not None, "EVALUATION.md says how many unseen answers were rejected, named, and named falsely"
    assert [int(word) for word in words.groups()] == [count[key] for key in ("rejected", "wrong", "cause", "false")]
    assert RECORDED["measured"] in text
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        "Of {wrong} wrong answers by people who had not seen the grader it rejected {rejected}".format(**count)
        in readme
    )
    assert (
        "accepted all {accepted} of their right ones".format(**count) in readme and count["accepted"] == count["right"]
    )


def test_the_readme_quotes_what_the_grader_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    quoted = " ".join(line.removeprefix("> ") for line in re.findall(r"^> .*", text, re.MULTILINE))
    space = {"np": np}
    exec(code, space)
    verdict = judge_function(space["masked_softmax"], "masked_softmax", measure_judge.SEED)
    assert verdict.verdict == "wrong" and verdict.message.startswith(quoted)
