"""A semester as docs/INSTRUCTORS.md tells it: each of its commands is run, in its order, on a part of the sample class."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.utils import get_username

import warm
from asked import points_of
from autograder.commands import demo
from autograder.running.sandbox import preflight

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "INSTRUCTORS.md"
UNIT = "03_masking"
FULL = sum(points_of(UNIT).values())
CLASS = ("ada", "bela", "chen", "emil", "fatma", "lena", "mallory")
LATE = "emil"
pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.usefixtures("one_sandbox"),
]


class Semester:
    """A course folder, an exchange and one student's home; runs the guide's commands and remembers which."""

    def __init__(self, folder: Path) -> None:
        self.course, self.exchange, self.home = folder / "course", folder / "exchange", folder / "home"
        demo.build_class(ROOT, self.course)
        for student in (self.course / "grading" / "submitted").iterdir():
            if student.name not in CLASS:
                shutil.rmtree(student)
        for place in (self.exchange, self.home):
            place.mkdir()
        self.exchange.chmod(0o777)
        with open(self.course / "nbgrader_config.py", "a", encoding="utf-8") as file:
            file.write(f'c.Exchange.root = "{self.exchange}"\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
        blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        self.waiting = [line for block in blocks for line in block.splitlines()]

    def submitted(self, student: str) -> Path:
        return self.course / "grading" / "submitted" / student / UNIT / f"{UNIT}.ipynb"

    def do(self, start: str) -> str:
        """Run the guide's next command, which begins with `start`; its output."""
        line = self.waiting.pop(0)
        assert line.startswith(start), f"the guide's next command is: {line}"
        return self.run(self.course, *shlex.split(line))

    def run(self, folder: Path, *words: str) -> str:
        done = warm.command(folder, *words, HOME=str(self.home), timeout=100)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def student_does(self, *words: str) -> str:
        return self.run(self.home, "nbgrader", *words, "--course", "attention", f"--Exchange.root={self.exchange}")

    def gradebook(self) -> Gradebook:
        return Gradebook(f"sqlite:///{self.course / 'grading' / 'gradebook.db'}", "attention")

    def marks(self) -> dict[str, tuple[float, float]]:
        """student -> (score, penalty)."""
        with self.gradebook() as book:
            found = book.assignment_submissions(UNIT)
            return {s.student.id: (s.score, s.late_submission_penalty or 0.0) for s in found}

    def page(self, student: str) -> str:
        return (self.course / f"grading/feedback/{student}/{UNIT}/{UNIT}.html").read_text(encoding="utf-8")

    @contextmanager
    def formgrader(self) -> Iterator[Any]:
        """`jupyter lab` as the guide starts it; yields what asks its formgrader."""
        line = self.waiting.pop(0)
        assert line == "jupyter lab"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token=secret"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(self.home)}
        command = [sys.executable, "-m", *line.split(), *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen(command, cwd=self.course, env=environment, **quiet)

        def ask(path: str, content: dict | None = None) -> bytes:
            data = None if content is None else json.dumps(content).encode()
            address, headers = f"http://127.0.0.1:{port}/formgrader{path}", {"Authorization": "token secret"}
            request = urllib.request.Request(address, data, headers, method="GET" if data is None else "PUT")
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 200
                return answer.read()

        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    ask("")
                    break
                except OSError:
                    assert time.monotonic() < deadline and server.poll() is None, "the server does not answer"
                    time.sleep(0.2)
            yield ask
        finally:
            server.kill()
            server.wait()


@pytest.fixture
def semester(tmp_path):
    return Semester(tmp_path)


def canvas_zip(semester: Semester, students: dict[str, int]) -> None:
    """Take students out of the class and put them into a zip as Canvas makes it."""
    with zipfile.ZipFile(semester.course / "grading/submissions.zip", "w") as archive:
        for student, number in students.items():
            late = "LATE_" if student == "fatma" else ""
            archive.write(semester.submitted(student), f"{student}x_{late}{number}_9{number}_{UNIT}.ipynb")
            archive.writestr(f"{student}x_{late}{number}_8{number}_notes.pdf", b"not for grading")
            shutil.rmtree(semester.submitted(student).parents[1])


def roster(semester: Semester, numbers: dict[str, int]) -> None:
    """Canvas's gradebook of the class, as exported."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", f"{UNIT} (4711)", "Final Score"]
    rows = [head, ["    Points Possible", "", "", "", "", "18.0", "(read only)"]]
    for student, number in numbers.items():
        rows.append([f"Lastname, {student.title()}", str(number), f"s{number}", student, "A", "", "90"])
    with open(semester.course / "grading/students.csv", "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows(rows)


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.nightly
def test_a_semester_in_ten_commands(semester):
    course, me = semester.course, get_username()
    numbers = {student: 1000 + index for index, student in enumerate([*CLASS, me])}
    roster(semester, numbers)
    answer_of_mine = semester.submitted("bela").read_bytes()
    canvas_zip(semester, {student: numbers[student] for student in ("ada", "fatma")})
    semester.submitted(LATE).with_name("timestamp.txt").write_text("2026-03-02 09:00:00 UTC")

    # 1, 2: release and hand out
    release = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    release.write_text("{}")
    assert UNIT in semester.do("autograder release")
    semester.do("autograder bundle")
    with zipfile.ZipFile(course / "grading/bundle/attention-course.zip") as archive:
        assert archive.read(f"attention-course/handout/{UNIT}/{UNIT}.ipynb") == release.read_bytes()
    semester.do("nbgrader db assignment add")
    semester.do("nbgrader release_assignment")
    semester.student_does("fetch_assignment", UNIT)
    assert (semester.home / UNIT / f"{UNIT}.ipynb").read_bytes() == release.read_bytes()

    # 3: collect from the exchange, from a zip; the folder is there
    (semester.home / UNIT / f"{UNIT}.ipynb").write_bytes(answer_of_mine)
    (semester.home / UNIT / "solutions.py").write_text("nothing that is collected")
    semester.student_does("submit", UNIT)
    semester.do("nbgrader collect")
    assert sorted(path.name for path in semester.submitted(me).parent.iterdir()) == [
        f"{UNIT}.ipynb",
        "submission_secret.txt",
        "timestamp.txt",
    ]
    assert "notebooks of 2 students: 2 new or changed" in semester.do("autograder collect")
    assert semester.submitted("ada").is_file() and semester.submitted("fatma").is_file()

    # 4: grade; what is late costs all, as the configuration says
    semester.do("autograder grade")
    marks = semester.marks()
    assert set(marks) == {*CLASS, me}
    assert marks["ada"] == (FULL, 0) and marks[me][0] == FULL
    assert marks[LATE][1] == marks[LATE][0] > 0

    # 5, 6: look, adjust by hand, make the pages anew
    with semester.formgrader() as ask:
        assert b"formgrader" in ask("/gradebook").lower()
        shown = {entry["student"]: entry["score"] for entry in json.loads(ask(f"/api/submissions/{UNIT}"))}
        assert shown == {student: score for student, (score, _) in marks.items()}
        with semester.gradebook() as book:
            notebook = book.find_submission_notebook(UNIT, UNIT, "chen")
            grade = next(grade for grade in notebook.grades if grade.name == "test_masked_attention")
            comment = next(comment for comment in notebook.comments if comment.name == "masked_attention")
            place, words, before = grade.id, comment.id, grade.score
        ask(f"/api/grade/{place}", {"manual_score": before + 1.5})
        ask(f"/api/comment/{words}", {"manual_comment": "Nearly."})
    semester.run(course, "nbgrader", "generate_feedback", UNIT, "--student", "chen", "--force")
    assert "Nearly." in semester.page("chen")
    semester.do("autograder feedback")
    adjusted = semester.marks()
    assert adjusted == {**marks, "chen": (marks["chen"][0] + 1.5, 0)}
    assert "Nearly." in semester.page("chen")

    # 7: feedback
    said = semester.do("nbgrader release_feedback")
    assert "released to 1 students" in said and "chen" in said
    semester.student_does("fetch_feedback", UNIT)
    fetched = list((semester.home / UNIT / "feedback").glob("*/*.html"))
    assert [path.read_text(encoding="utf-8") for path in fetched] == [semester.page(me)]
    assert len(list((semester.exchange / "attention" / "feedback").iterdir())) == 1
    semester.do("autograder feedback --zip mail")
    mails = table(course / f"grading/report/{UNIT}-mail/mail.csv")
    assert {row["ID"] for row in mails} == set(adjusted)
    shown = {row["ID"]: (course / f"grading/report/{UNIT}-mail" / row["File"]).read_text("utf-8") for row in mails}
    assert all(f"{student})" in page or f"<p>{student} ·" in page for student, page in shown.items())
    words = ["autograder", "feedback", "--zip", "canvas", UNIT]
    done = warm.command(course, *words, HOME=str(semester.home), timeout=100)
    assert done.returncode == 2 and "chen: not in the zip file, no Canvas download brought it" in done.stderr
    with zipfile.ZipFile(course / f"grading/report/{UNIT}-canvas.zip") as archive:
        names = {f"{who}x_{late}{numbers[who]}_9{numbers[who]}_" for who, late in (("ada", ""), ("fatma", "LATE_"))}
        assert {name.partition(UNIT)[0] for name in archive.namelist()} == names

    # 8: report
    assert "Most common mistakes" in semester.do("autograder report")
    found = {row["student"]: row for row in table(course / "grading/report/scores.csv")}
    assert set(found) == set(marks) and found["ada"]["sum"] == f"{FULL:g}"
    assert "Divided by d_k instead of its root" in (course / "grading/report/mistakes.csv").read_text()
    assert "Divided by d_k instead of its root" in (course / "grading/report/index.html").read_text()

    # 9: export
    semester.do("autograder export --format canvas")
    points, *rows = table(course / "grading/report/canvas.csv")
    assert list(points) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", f"{UNIT} (4711)"]
    assert points["Student"].strip() == "Points Possible" and float(points[f"{UNIT} (4711)"]) == FULL
    due = {student: score - penalty for student, (score, penalty) in adjusted.items()}
    assert due[LATE] == 0
    assert {row["SIS Login ID"]: float(row[f"{UNIT} (4711)"]) for row in rows} == pytest.approx(due)
    assert {row["SIS Login ID"]: int(row["ID"]) for row in rows} == numbers
    semester.do("autograder export --format moodle")
    rows = table(course / "grading/report/moodle.csv")
    assert {row["Username"]: float(row[UNIT]) for row in rows} == pytest.approx(due)
    assert next(row for row in rows if row["Username"] == "ada")["First name"] == "Ada"

    # 10: nbgrader's own export
    semester.do("nbgrader export")
    rows = table(course / "grading/grades.csv")
    assert {r["student_id"]: float(r["score"]) for r in rows if r["assignment"] == UNIT} == pytest.approx(due)

    said = semester.do("autograder backup")
    assert len(list(course.glob("attention-course-backup-*.zip"))) == 1 and "keep it where only you can read it" in said

    # in mid-term
    assert "leaks_future is out of the marks" in semester.do("autograder exclude")
    assert semester.marks()["ada"][0] < FULL and "0 of 0" in semester.page("ada")
    assert "is back in the marks" in semester.do("autograder exclude")
    assert "chen, 03_masking, masked_attention: by hand" in semester.do("autograder marks")
    for _ in ("--keep", "--new"):
        assert "0 marks by hand" in semester.do("autograder marks")
    assert semester.marks() == adjusted
    assert semester.waiting == [], "the guide has commands that this test does not run"
