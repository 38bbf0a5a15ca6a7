"""nbgrader stays the gradebook: its database, feedback, export and a plain `nbgrader autograde` work as its users know.

One small class is graded twice: by `autograder grade` in one course folder, by `nbgrader autograde` in another.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

import warm
from asked import points_of
from autograder.gradebook import nbgrader_plugin
from autograder.reading.cell_roles import is_answer
from autograder.reading.read_submission import for_the_student
from autograder.running.sandbox import preflight

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
POINTS = points_of(UNIT)
FULL = sum(POINTS.values())
UNREADABLE = {"cut", "link"}
SCORES = {"anna": FULL, "ben": 0, "cut": 0, "link": 0, "wrong": FULL - POINTS["causal_mask"], "stamp": FULL}

pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]


def make_course(folder: Path) -> Path:
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, folder / name / UNIT)
    solution = (ROOT / "solutions" / UNIT / f"{UNIT}.ipynb").read_bytes()
    hand_in(folder, "anna", solution)
    (folder / "grading/submitted/anna" / UNIT / "timestamp.txt").write_text("2026-03-01 12:00:00 UTC")
    hand_in(folder, "ben", (ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb").read_bytes())
    hand_in(folder, "cut", solution[:5000])
    hand_in(folder, "link").symlink_to(folder / "solutions" / UNIT / f"{UNIT}.ipynb")
    hand_in(folder, "stamp", solution)
    (folder / "grading/submitted/stamp" / UNIT / "timestamp.txt").symlink_to("/etc/passwd")
    hand_in(folder, "wrong", wrong_answer(solution))
    return folder


def hand_in(folder: Path, student: str, content: bytes | None = None) -> Path:
    path = folder / "grading" / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_bytes(content)
    return path


def wrong_answer(solution: bytes) -> bytes:
    """A class member who gets one function wrong, and says so in markup."""
    notebook = nbformat.reads(solution.decode(), as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "causal_mask":
            cell.source = "def causal_mask(n):\n    raise ValueError('<script>alert(1)</script>')"
    return nbformat.writes(notebook).encode()


def run(folder: Path, *words: str) -> subprocess.CompletedProcess:
    return warm.command(folder, *words)


def gradebook(folder: Path) -> Gradebook:
    return Gradebook(f"sqlite:///{folder / 'grading' / 'gradebook.db'}", "attention")


def scores(folder: Path) -> dict[str, dict[str, float]]:
    """student -> grade cell -> score."""
    with gradebook(folder) as book:
        return {
            submission.student.id: {grade.name: grade.score for grade in submission.notebooks[0].grades}
            for submission in book.assignment_submissions(UNIT)
        }


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The course folder graded by `autograder grade`, and what it printed."""
    folder = make_course(tmp_path_factory.mktemp("graded"))
    done = run(folder, "autograder", "grade", UNIT, "--json")
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The course folder graded by `nbgrader autograde`."""
    folder = make_course(tmp_path_factory.mktemp("plain"))
    done = run(folder, "nbgrader", "autograde", UNIT)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_every_student_is_graded_whatever_the_others_handed_in(graded):
    _, done = graded
    entries = json.loads(done.stdout)
    assert len(entries) == len(SCORES) * len(POINTS)
    sums = {student: sum(e["score"] for e in entries if e["student"] == student) for student in SCORES}
    assert sums == SCORES
    lines = done.stderr.splitlines()
    assert sorted(line.split(": ")[1] for line in lines) == sorted([*UNREADABLE, f"stamp, {UNIT}"])
    assert "Traceback" not in done.stderr


def test_json_and_gradebook_agree(graded):
    folder, done = graded
    recorded = scores(folder)
    for entry in json.loads(done.stdout):
        assert recorded[entry["student"]][f"test_{entry['function']}"] == entry["score"]


def test_a_verdict_is_kept_once_and_its_mark_in_the_gradebook_alone(graded, plain):
    """What is recorded for nbgrader has the words and the score that it shows, and what is kept as JSON has no mark."""
    for folder in (graded[0], plain[0]):
        kept = [json.loads(path.read_text()) for path in folder.glob("grading/verdicts/*/*.json")]
        assert len(kept) == len(SCORES)
        assert not [each for item in kept for each in item["verdicts"] if {"points", "score"} & each.keys()]
        for path in folder.glob("grading/autograded/*/*/*.ipynb"):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
            assert outputs and not any(output.get("metadata") for output in outputs)
            assert nbgrader_plugin.MARK not in notebook["metadata"]


def test_a_plain_autograde_gives_the_same_scores(graded, plain):
    assert scores(plain[0]) == scores(graded[0])
    assert "BEGIN HIDDEN" not in plain[1].stderr


def test_points_of_units_notebooks_and_gradebook_agree(graded):
    with gradebook(graded[0]) as book:
        cells = {cell.name: cell.max_score for cell in book.find_notebook(UNIT, UNIT).grade_cells}
    assert cells == {f"test_{name}": points for name, points in POINTS.items()}
    release = nbformat.read(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    assert sorted(cell.metadata.nbgrader.grade_id for cell in release.cells if is_answer(cell)) == sorted(POINTS)
    marks = [cell.metadata.nbgrader for cell in release.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert {mark.grade_id: mark.points for mark in marks} == cells


def test_times_of_handing_in_are_kept_and_none_is_made_up(graded, plain):
    for folder, _ in (graded, plain):
        with gradebook(folder) as book:
            times = {s.student.id: s.timestamp for s in book.assignment_submissions(UNIT)}
        assert times["anna"].isoformat().startswith("2026-03-01T12:00:00")
        assert times["stamp"] is None
        assert not [
            path for path in folder.glob("grading/*ed*/stamp/**/timestamp.txt") if "submitted" not in path.parts
        ]


def solutions() -> dict[str, str]:
    """function -> the published solution between its marks."""
    notebook = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in notebook.cells}
    return {name: cells[name].split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0] for name in POINTS}


def pages(folder: Path) -> dict[str, str]:
    return {path.parts[-3]: path.read_text(encoding="utf-8") for path in folder.glob("grading/feedback/*/*/*.html")}


def test_every_student_has_a_feedback_page_with_scores_and_reasons(graded):
    found = pages(graded[0])
    assert set(found) == set(SCORES)
    assert "cut off or damaged" in found["cut"]
    assert "ValueError" in found["wrong"]
    for student, page in found.items():
        assert f"Score: {SCORES[student]:g} of {FULL:g} points" in page


def test_where_files_lie_is_told_to_the_instructor_alone(graded, plain):
    for folder, done in (graded, plain):
        assert str(folder) in done.stderr
        for path in (*folder.glob("grading/feedback/*/*/*.html"), *folder.glob("grading/autograded/*/*/*.ipynb")):
            assert str(folder) not in path.read_text(encoding="utf-8"), path
    assert for_the_student("/a/b c/x (1).ipynb: cut off", "/a/b c/x (1).ipynb") == "x (1).ipynb: cut off"
    page = pages(graded[0])["cut"]
    assert page.count("cut off or damaged") == 1 and f"{UNIT}.ipynb: not a notebook" in page


def test_feedback_gives_nothing_away(graded):
    for student, page in pages(graded[0]).items():
        for trace in ("judge_here", "HIDDEN TESTS", "Traceback (most", str(ROOT)):
            assert trace not in page, (student, trace)
    for student in ("ben", "cut", "link"):
        text = "".join(pages(graded[0])[student].split())
        for name, source in solutions().items():
            lines = ["".join(line.split()) for line in source.splitlines() if len(line.strip()) > 30]
            assert not [line for line in lines if line in text], (student, name)


def test_autograded_notebooks_hold_no_test_or_number_of_ours(graded):
    for path in graded[0].glob("grading/autograded/*/*/*.ipynb"):
        text = path.read_text(encoding="utf-8")
        assert "judge_here" not in text and "HIDDEN" not in text


def test_generate_feedback_works(plain):
    folder, _ = plain
    done = run(folder, "nbgrader", "generate_feedback", UNIT)
    assert done.returncode == 0, done.stderr
    assert set(pages(folder)) == set(SCORES)


def test_a_run_is_made_once_for_each_course(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(nbgrader_plugin, "_Run", lambda root: made.append(root) or object())
    monkeypatch.setattr(nbgrader_plugin, "_runs", {})
    assert nbgrader_plugin._run(tmp_path) is nbgrader_plugin._run(tmp_path)
    assert made == [tmp_path]


def test_the_seed_of_each_run_is_kept(graded, plain):
    for folder, _ in (graded, plain):
        runs = [json.loads(line) for line in (folder / "grading" / "runs.jsonl").read_text().splitlines()]
        assert runs and all(int(entry["seed"]) > 0 for entry in runs)


def test_an_unknown_unit_is_no_traceback(plain):
    done = run(plain[0], "nbgrader", "autograde", "99_nothing")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_submissions_are_left_as_they_were(graded, plain):
    for folder, _ in (graded, plain):
        assert hand_in(folder, "link").is_symlink()
        assert hand_in(folder, "cut").stat().st_size == 5000
