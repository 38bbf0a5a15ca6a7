"""The sample class: built as its table says, and graded as its table expects."""

from __future__ import annotations

import json
import secrets

import nbformat
import pytest

import demo_class_many_seeds
from autograder.commands import demo
from autograder.diagnosis.mutants.model_mutants import mutants
from autograder.exercises import exercises, find_exercise, unit_names
from autograder.grading.whole_class import grade_class, handed_in
from autograder.judging.hidden_cases import Challenge
from autograder.records import NoSandbox


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    target = tmp_path_factory.mktemp("class") / "demo"
    return target, {student.id: student for student in demo.build_class(demo.ROOT, target)}


def notebook(target, student, unit):
    return nbformat.read(target / "grading" / "submitted" / student / unit / f"{unit}.ipynb", as_version=4)


def answers(cells) -> dict[str, str]:
    return {c.metadata.nbgrader.grade_id: c.source for c in cells if c.metadata.get("nbgrader", {}).get("solution")}


def slugs_of_variants(function: str) -> set[str]:
    posed = Challenge(1).posed(function)
    sizes = tuple(dict.fromkeys(name for case in posed.cases for name in case.sizes if name.isidentifier()))
    return {variant.slug for variant in mutants(posed.exercise.plain, sizes)} if posed.exercise.plain else set()


def test_the_table_names_only_functions_and_mistakes_that_exist():
    table = demo.students()
    assert len({student.id for student in table}) == len(table) >= 12
    for student in table:
        for function in student.answers:
            assert f"def {function}(" in student.answers[function]
        for function, expected in student.expected.items():
            verdict, *mistake = expected.split()
            assert verdict in ("right", "wrong", "missing", "crashed", "timeout", "forbidden")
            exercise = find_exercise(function)
            general = {"returns-none", "detached", "input-changed", "never-calls-attend", "materialises"}
            known = general | {known.slug for known in exercise.mistakes}
            assert not mistake or mistake[0] in known or mistake[0] in slugs_of_variants(function)


def test_every_unit_has_known_mistakes_in_the_class():
    for unit in unit_names():
        made = {f for s in demo.students() for f, e in s.expected.items() if e.startswith("wrong ")}
        count, least = len(made & set(exercises(unit))), min(3, len(exercises(unit)))
        remedy = "let students of autograder/commands/demo_class.toml make known mistakes in more of its functions"
        assert count >= least, f"{unit}: wrong answers to {count} of its functions, and {least} are needed; {remedy}"


def test_submissions_are_what_the_table_says(built):
    target, table = built
    unit = "02_scaled_scores"
    release = nbformat.read(demo.ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    assert answers(notebook(target, "ivan", unit).cells) == answers(release.cells)
    ada = answers(notebook(target, "ada", unit).cells)
    assert set(ada) == set(exercises(unit))
    assert not any("NotImplementedError" in source or "### " in source for source in ada.values())
    lena = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook(target, "lena", unit).cells]
    assert "test_scaled_scores" not in lena and lena.count("test_softmax") == 2
    with pytest.raises(json.JSONDecodeError):
        json.loads((target / "grading" / "submitted" / "nils" / unit / f"{unit}.ipynb").read_text(encoding="utf-8"))
    assert [path.name for path in (target / "grading" / "submitted" / "pavel").iterdir()] == ["01_projections"]
    assert sum(len(student.units) for student in table.values()) == len(handed_in(target))


@pytest.mark.parametrize(
    ("seed", "every"),
    [(20, 3), *(pytest.param(None, 1, id=f"fresh-{i}", marks=pytest.mark.nightly) for i in range(10))],
)
def test_no_verdict_and_no_name_depends_on_the_draw(seed, every):
    """By day every third answer, by night all of them under fresh seeds."""
    seed = secrets.randbits(32) if seed is None else seed
    tasks = [(student.id, name) for student in demo.students() for name in demo_class_many_seeds.judged(student)]
    assert len(tasks) > 80
    tasks = tasks[::every]
    found = {task: demo_class_many_seeds.surprises(task, range(seed, seed + 1)) for task in tasks}
    assert not any(found.values()), f"seed {seed}: {[(task, words) for task, words in found.items() if words]}"


def graded_as_expected(built, units):
    """The class graded for real, each verdict as the table expects."""
    target, table = built
    handed = [item for item in handed_in(target) if item.unit in units]
    try:
        graded = grade_class(target, handed, workers=2, challenge=Challenge(20))
    except NoSandbox:
        graded = grade_class(target, handed, workers=2, unsafe=True, challenge=Challenge(20))
    assert demo.surprises(list(table.values()), graded) == []
    marks = {(item.student, verdict.function): verdict.score for item in graded for verdict in item.verdicts}
    assert all(
        verdict.score == verdict.points > 0 for item in graded if item.student == "ada" for verdict in item.verdicts
    )
    assert not any(mark for (who, _), mark in marks.items() if who in ("ivan", "mallory"))


def test_one_unit_of_the_class_gets_the_verdicts_that_the_table_expects(built):
    graded_as_expected(built, ("02_scaled_scores",))


@pytest.mark.nightly
def test_the_whole_class_gets_the_verdicts_that_the_table_expects(built):
    graded_as_expected(built, unit_names())
