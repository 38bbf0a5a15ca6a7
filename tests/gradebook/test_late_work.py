"""Late work: a rule of an instructor's own, and when it has changed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from autograder.cli import main
from autograder.gradebook.health_check import load_config
from autograder.gradebook.submission_times import rule_digest
from autograder.running.sandbox import preflight

ROOT = Path(__file__).parents[2]
UNIT = "01_projections"
RULE = """\
from nbgrader.plugins import LateSubmissionPlugin


class Rule(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return {}
"""


@pytest.fixture
def course(tmp_path):
    """A course folder with a rule beside its configuration."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    (tmp_path / "late_policy.py").write_text(RULE.format(1))
    with open(tmp_path / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write('c.AssignLatePenalties.plugin_class = "late_policy.Rule"\n')
    yield tmp_path
    sys.modules.pop("late_policy", None)


def digest(course: Path) -> str:
    sys.modules.pop("late_policy", None)
    return rule_digest(load_config(course))


def test_a_rule_has_changed_with_its_code_and_its_settings(course):
    first = digest(course)
    assert digest(course) == first
    (course / "late_policy.py").write_text(RULE.format(2))
    second = digest(course)
    with open(course / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write("c.Rule.anything = 3\n")
    assert len({first, second, digest(course)}) == 3


def test_each_course_has_a_rule_of_its_own(course, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    for name in ("nbgrader_config.py", "late_policy.py"):
        shutil.copy(course / name, other)
    (other / "late_policy.py").write_text(RULE.format(3))
    first = rule_digest(load_config(course))
    assert rule_digest(load_config(other)) != first, "not the other's module of the same name"
    assert rule_digest(load_config(course)) == first


@pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
def test_a_rule_that_cannot_be_used_is_one_line(course, capsys):
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, course / name / UNIT)
    path = course / "grading" / "submitted" / "ada" / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", path)
    (course / "late_policy.py").unlink()
    assert main(["--course", str(course), "grade"]) == 2
    words = capsys.readouterr().err
    assert "nbgrader_config.py: the rule for late work cannot be used" in words and "late_policy.Rule" in words
    assert words.count("\n") == 1
