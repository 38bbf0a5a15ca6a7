"""The sentences of findings: all in one table, and nothing that is decided looks at one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from string import Formatter

import numpy as np
import pytest

import measure_judge
from autograder.diagnosis import finding_sentences
from autograder.diagnosis.calls_and_expected import Evidence
from autograder.diagnosis.diagnose import judge
from autograder.diagnosis.known_mistakes import RELATIONS
from autograder.diagnosis.operators import change_descriptions
from autograder.exercises import exercises, unit_names
from autograder.grading.in_process import ask_here
from autograder.judging.hidden_cases import Challenge
from autograder.judging.judge import compare

DIAGNOSIS = Path(finding_sentences.__file__).parent
#: Of each unit so many functions, and of each function so many wrong answers.
FUNCTIONS, ANSWERS = 2, 3


def test_every_template_is_used_and_says_what_it_is_given():
    code = "\n".join(path.read_text(encoding="utf-8") for path in DIAGNOSIS.rglob("*.py") if path.stem != "sentences")
    keys = [f'"{key}"' for key in finding_sentences.TEMPLATES]
    assert [key for key in keys if key not in code] == []
    for key, template in finding_sentences.TEMPLATES.items():
        assert all(name is None or name.isidentifier() for _, name, _, _ in Formatter().parse(template)), key
        assert template == template.strip() or key == "at-line", key


def test_a_finding_has_the_slug_before_the_slash():
    finding = finding_sentences.named("off-by-factor/number", factor="2")
    assert (finding.slug, finding.text) == (
        "off-by-factor",
        "Your result is 2 times as large as it should be, whatever the inputs are.",
    )


def wrong_answers(unit):
    for name in list(exercises(unit))[::3][:FUNCTIONS]:
        wrong = ((each, answer) for each, answer in measure_judge.answers([name]) if "__wrong_" in each)
        yield from ((name, answer) for _, answer in islice(wrong, ANSWERS))


def decided(posed, answer):
    """All that is decided of an answer, and of each relation whether it holds and how certain it is."""
    verdict = judge(posed, answer)
    marked = compare(posed, answer)
    evidence = Evidence(marked.posed, marked.calls, marked.problems)
    with np.errstate(all="ignore"):
        found = [relation(evidence) for relation in RELATIONS] if evidence.failing() else []
    findings = [finding and (finding.slug, finding.certainty) for finding in found]
    return (verdict.verdict, verdict.score, verdict.mistake, verdict.criteria, findings), verdict.message


@pytest.mark.parametrize("unit", unit_names())
def test_no_decision_depends_on_a_sentence(unit, monkeypatch):
    challenge = Challenge(1)
    for name, function in wrong_answers(unit):
        posed = challenge.posed(name)
        answer = ask_here(function, posed)
        before, message = decided(posed, answer)
        with monkeypatch.context() as changed:
            changed.setattr(finding_sentences, "TEMPLATES", dict.fromkeys(finding_sentences.TEMPLATES, "Nonsense."))
            changed.setattr(
                change_descriptions, "AS_IF", dict.fromkeys(change_descriptions.AS_IF, ("nonsense", "nonsense"))
            )
            after, nonsense = decided(posed, answer)
        assert after == before, function.__name__
        assert nonsense != message and "Nonsense." in nonsense, function.__name__
