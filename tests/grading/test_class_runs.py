"""Runs over a class: what is skipped, what a killed run leaves behind, workers that die, and more than one machine."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import psutil
import pytest

from autograder.cli import main
from autograder.exercises import exercises
from autograder.grading import results_store, submission_jobs, whole_class
from autograder.running.limits import Limits
from autograder.running.sandbox import preflight
from lanes import nightly

ROOT = Path(__file__).parents[2]
UNIT = "01_projections"
SOLUTION = ROOT / "solutions" / UNIT / f"{UNIT}.ipynb"
pytestmark = pytest.mark.skipif(preflight() is not None, reason=str(preflight()))


@pytest.fixture
def course(tmp_path):
    """A course folder with a class of six: half of them have one answer wrong."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, tmp_path / name / UNIT)
    for index in range(6):
        hand_in(tmp_path, f"student{index}", wrong=index % 2 == 1)
    return tmp_path


def hand_in(course: Path, student: str, wrong: bool = False) -> Path:
    notebook = nbformat.read(SOLUTION, as_version=4)
    if wrong:
        cell = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "embed")
        cell.source = "def embed(tokens, E):\n    return E[tokens]"
    path = course / "grading" / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def grade(course: Path, *words: str) -> int:
    return main(["--course", str(course), "grade", "--workers", "2", *words])


def start(course: Path, *words: str) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "autograder", "--course", str(course), "grade", "--workers", "2", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def still_running(course: Path, patience: float = 10.0) -> list[int]:
    """The processes that belong to a run over this course, once they have had time to end."""
    deadline = time.monotonic() + patience
    while True:
        found = [p.pid for p in psutil.process_iter(["cmdline"]) if str(course) in (p.info["cmdline"] or [])]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def verdict_files(course: Path) -> list[Path]:
    return sorted((course / "grading" / "verdicts" / UNIT).glob("*.json"))


def recorded(course: Path) -> dict[str, int]:
    """Of what the gradebook already has: the file of verdicts and when it was written."""
    files = verdict_files(course)
    return {path.stem: path.stat().st_mtime_ns for path in files if json.loads(path.read_text())["recorded"]}


def scores(course: Path) -> dict[str, float]:
    """Student -> the score in the gradebook."""
    query = """
        SELECT submitted_assignment.student_id, SUM(grade.auto_score) FROM grade
        JOIN submitted_notebook ON submitted_notebook.id = grade.notebook_id
        JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id
        GROUP BY submitted_assignment.student_id
    """
    with sqlite3.connect(course / "grading" / "gradebook.db") as connection:
        return dict(connection.execute(query).fetchall())


def expected(course: Path) -> dict[str, float]:
    """Six students, of whom every second one has no points for `embed`."""
    release = nbformat.read(course / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    points = {
        cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points
        for cell in release.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }
    total = float(sum(points.values()))
    return {f"student{index}": total - points["test_embed"] * (index % 2) for index in range(6)}


def test_what_has_not_changed_is_not_graded_again(course, capsys, monkeypatch):
    assert grade(course) == 0
    assert scores(course) == expected(course)
    before = recorded(course)
    assert set(before) == set(expected(course))
    capsys.readouterr()

    monkeypatch.setattr(whole_class, "run", lambda job: pytest.fail("graded again"))
    assert grade(course) == 0
    assert "6 of 6 were graded before and have not changed" in capsys.readouterr().out
    assert recorded(course) == before
    assert grade(course, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 6 * len(exercises(UNIT))


def test_what_has_changed_is_graded_again_and_force_grades_all(course, capsys):
    assert grade(course) == 0
    before = recorded(course)
    hand_in(course, "student1")
    assert grade(course) == 0
    after = recorded(course)
    assert {name for name in after if after[name] != before[name]} == {"student1"}
    assert scores(course)["student1"] == scores(course)["student0"]
    assert grade(course, "--force") == 0
    assert all(time_ != after[name] for name, time_ in recorded(course).items())


@pytest.mark.nightly
def test_a_corrected_exercise_is_graded_again(course, monkeypatch):
    assert grade(course) == 0
    before = recorded(course)
    monkeypatch.setattr(whole_class, "digest", lambda functions, unit: "of the corrected module")
    assert grade(course) == 0
    assert all(time_ != before[name] for name, time_ in recorded(course).items())


def test_a_lost_gradebook_is_written_again_without_grading(course, monkeypatch):
    assert grade(course) == 0
    (course / "grading" / "gradebook.db").unlink()
    shutil.rmtree(course / "grading" / "feedback")
    monkeypatch.setattr(whole_class, "run", lambda job: pytest.fail("graded again"))
    assert grade(course) == 0
    assert scores(course) == expected(course)
    assert len(list((course / "grading" / "feedback").glob(f"*/{UNIT}/{UNIT}.html"))) == 6


@pytest.mark.parametrize("moment", nightly([3, 0, 1, 5]))
def test_a_run_that_was_killed_is_finished_by_the_next(course, moment):
    process = start(course)
    deadline = time.monotonic() + 120
    while len(verdict_files(course)) < moment and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert still_running(course) == [], "what the run had started ends with it"
    before = recorded(course)
    interrupted = results_store.interrupted(course)
    assert grade(course) == 0
    assert scores(course) == expected(course)
    after = recorded(course)
    assert set(after) == set(expected(course))
    assert {name: after[name] for name in before} == before, "what was recorded is neither graded nor written again"
    lines = (course / "grading" / "runs.jsonl").read_text().splitlines()
    if interrupted is not None:
        assert {json.loads(line)["seed"] for line in lines} == {str(interrupted)}, "the same secret cases"
    assert results_store.interrupted(course) is None


def test_a_job_that_kills_its_worker_costs_itself_alone(course, monkeypatch, capsys):
    monkeypatch.delenv("AUTOGRADER_DEBUG", raising=False)
    whole = submission_jobs.grade_submission

    def deadly(submission, assignment, challenge, sandbox):
        if "E[tokens]" in submission.answers["embed"] and deadly_for(submission):
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(submission, assignment, challenge, sandbox)

    def deadly_for(submission) -> bool:
        return any("student3" in cell.source for cell in submission.cells)

    path = course / "grading" / "submitted" / "student3" / UNIT / f"{UNIT}.ipynb"
    path.write_text(path.read_text().replace("return E[tokens]", "return E[tokens]  # student3"))
    monkeypatch.setattr(submission_jobs, "grade_submission", deadly)
    assert grade(course) == 1
    assert "student3" in capsys.readouterr().err
    found = scores(course)
    assert {name: found[name] for name in found if name != "student3"} == {
        name: score for name, score in expected(course).items() if name != "student3"
    }


@pytest.mark.nightly
def test_a_job_that_takes_all_memory_or_time_costs_itself_alone(course, monkeypatch, capsys):
    """Whatever a stranger's answer makes the grader do: it has bounds of its own, in which its sandbox is not caught."""
    monkeypatch.delenv("AUTOGRADER_DEBUG", raising=False)
    monkeypatch.setattr(whole_class, "GRADER_BYTES", 2**30)
    monkeypatch.setattr(whole_class, "GRADER_SECONDS", 15.0)  # spent twice; a job takes a few on a busy machine
    whole = submission_jobs.grade_submission

    def greedy(submission, assignment, challenge, sandbox):
        words = {cell.source for cell in submission.cells if cell.kind == "extra"}
        if "'memory'" in words:
            np.ones((40, 2**23))
        while "'time'" in words:
            pass
        return whole(submission, assignment, challenge, sandbox)

    for student, word in (("student3", "memory"), ("student5", "time")):
        path = course / "grading" / "submitted" / student / UNIT / f"{UNIT}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.append(nbformat.v4.new_code_cell(f"'{word}'"))
        nbformat.write(notebook, path)
    monkeypatch.setattr(submission_jobs, "grade_submission", greedy)
    assert grade(course) == 1
    words = capsys.readouterr().err
    assert "student3" in words and "student5" in words and "MemoryError" in words
    found = scores(course)
    assert {name: found[name] for name in found if name not in ("student3", "student5")} == {
        name: score for name, score in expected(course).items() if name not in ("student3", "student5")
    }


def test_a_thread_has_one_sandbox_and_other_limits_need_no_other(course):
    def zygote() -> int:
        return submission_jobs._here.sandbox._process.pid

    (item, *_) = whole_class.handed_in(course)
    folder = whole_class.Course(course)
    try:
        first = submission_jobs.run(whole_class.job_of(folder, item, 1, Limits(seconds_per_cell=9)))
        pid = zygote()
        second = submission_jobs.run(whole_class.job_of(folder, item, 1, Limits(seconds_per_cell=8)))
        assert zygote() == pid and submission_jobs._here.sandbox.limits.seconds_per_cell == 8
        third = submission_jobs.run(
            replace(whole_class.job_of(folder, item, 1, Limits()), hidden=(str(course), "/srv"))
        )
        assert zygote() != pid and not psutil.pid_exists(pid), "what a sandbox shows cannot be changed"
        assert first.verdicts == second.verdicts == third.verdicts
    finally:
        submission_jobs.close_sandboxes()


def test_no_more_submissions_are_in_memory_than_are_under_way(course, monkeypatch):
    held, most = [], []
    whole = whole_class.job_of

    def counted(*settings):
        held.append(1)
        return whole(*settings)

    monkeypatch.setattr(whole_class, "job_of", counted)
    handed = whole_class.handed_in(course)

    def done(graded):
        """So many may be under way, and as many may have ended since the last look."""
        assert len(held) <= len(most) + 2 * whole_class.AHEAD
        most.append(len(held))

    whole_class.grade_class(course, handed, workers=1, done=done)
    assert len(most) == 6


# ---------------------------------------------------------------------------------------------------------------------
# More than one machine


@pytest.fixture
def cluster(tmp_path):
    """A Dask scheduler and two workers, each a process of its own, as they are started by hand."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    address = tmp_path / "scheduler.json"
    words = ["--scheduler-file", str(address), "--no-dashboard"]
    commands = [["scheduler", "--port", "0", *words]] + 2 * [
        ["worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path), *words]
    ]
    processes = [
        subprocess.Popen([sys.executable, "-m", "dask", *command], env=environment, stderr=subprocess.DEVNULL)
        for command in commands
    ]
    url, deadline = "", time.monotonic() + 60
    while not url and time.monotonic() < deadline:
        time.sleep(0.1)
        with contextlib.suppress(OSError, ValueError):  # not there yet, or not all of it
            url = json.loads(address.read_text())["address"]
    from distributed import Client

    with Client(url, timeout=30, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    yield url, processes[1:]
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.nightly
def test_a_cluster_grades_the_class_though_a_worker_dies(course, cluster):
    url, workers = cluster
    process = start(course, "--scheduler", url)
    deadline = time.monotonic() + 120
    while not verdict_files(course) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    workers[0].kill()
    assert process.wait(timeout=240) == 0
    assert scores(course) == expected(course)


@pytest.mark.nightly
def test_the_memory_of_a_clusters_worker_is_bounded(cluster):
    work = [(number, resource.RLIMIT_DATA) for number in range(4)]
    with whole_class.Pool(1, cluster[0], resource.getrlimit, lambda: None, submission_jobs.lost) as pool:
        bounds = [soft for _, (soft, _) in pool.run(iter(work))]
    assert len(bounds) == 4 and all(whole_class.GRADER_BYTES < soft < 2 * whole_class.GRADER_BYTES for soft in bounds)


@pytest.mark.nightly
def test_jobs_that_a_cluster_drops_are_done_again(course, cluster):
    url, _ = cluster
    folder, handed = whole_class.Course(course), whole_class.handed_in(course)
    work = [(item, whole_class.job_of(folder, item, 1, Limits())) for item in handed]
    with whole_class.Pool(1, url, submission_jobs.run, lambda: None, submission_jobs.lost) as pool:
        found = {}
        for item, graded in pool.run(iter(work)):
            if not found:
                pool._executor._client.cancel(list(pool._executor._futures))
            found[item] = graded
    assert set(found) == set(handed)
    assert {item.student: sum(v.score for v in graded.verdicts) for item, graded in found.items()} == expected(course)


@pytest.mark.nightly
def test_a_scheduler_that_is_not_there_is_one_line(course, capsys):
    assert main(["--course", str(course), "grade", "--scheduler", "tcp://127.0.0.1:9"]) == 2
    words = capsys.readouterr().err
    assert words.count("\n") == 1 and "no Dask scheduler" in words


def test_the_seeds_of_a_run_are_not_for_other_accounts(tmp_path):
    (tmp_path / "grading").mkdir()
    before = os.umask(0)
    try:
        results_store.begun(tmp_path, 1, "autograder grade")
    finally:
        os.umask(before)
    assert (tmp_path / "grading" / "runs.jsonl").stat().st_mode & 0o777 == 0o660
