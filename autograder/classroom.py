"""Many submissions: who handed in what, grading side by side, one writer to the gradebook, and what is kept."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .challenge import Challenge
from .grading import Course, grade_submission, nothing_to_grade
from .judge import Criterion, Verdict
from .sandbox import Limits, Lost, NoSandbox, Sandbox, open_sandbox
from .submission import Unreadable
from .units import exercises, unit_names


class NotUsable(Exception):
    """Something about the class folder or the gradebook that a person must mend: one line with the remedy."""


@dataclass(frozen=True)
class HandedIn:
    """One student's notebook of one unit, where it should be."""

    student: str
    unit: str
    path: Path


@dataclass
class Graded:
    """One student's verdicts on one unit, and whether the notebook could be read.

    fault: what of ours failed, where something did: there may be no verdicts then, or none in the gradebook.
    """

    student: str
    unit: str
    verdicts: list[Verdict]
    problem: str | None = None
    fault: str | None = None

    def as_json(self) -> list[dict[str, Any]]:
        return [verdict.as_json(self.student) for verdict in self.verdicts]


def handed_in(root: Path, units: Sequence[str] = (), student: str | None = None) -> list[HandedIn]:
    """All notebooks under `grading/submitted`. Raises NotUsable where there is nothing to grade."""
    folder = root / "grading" / "submitted"
    for unit in units:
        exercises(unit)  # raises UnknownUnit
    if not folder.is_dir() or not any(folder.iterdir()):
        raise NotUsable(f"{folder}: no submissions there; put them in as STUDENT/UNIT/UNIT.ipynb")
    students = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if student is not None:
        if student not in students:  # a path such as "../anna" is none either
            raise NotUsable(f"{folder}: no student {student!r} there; the folder's name is the student's ID")
        students = [student]
    found = [
        HandedIn(name, unit, folder / name / unit / f"{unit}.ipynb")
        for unit in units or unit_names()
        for name in students
        if (folder / name / unit).is_dir()
    ]
    if not found:
        wanted = f"{folder}/{student or '*'}/{' or '.join(units) or 'UNIT'}"
        raise NotUsable(f"{wanted}: nobody handed in a notebook there")
    return found


def grade_class(
    root: Path,
    handed: Sequence[HandedIn],
    workers: int | None = None,
    unsafe: bool = False,
    challenge: Challenge | None = None,
    done: Callable[[Graded], None] = lambda graded: None,
) -> list[Graded]:
    """Grade notebooks side by side, one sandbox per worker. `done` is told of each as it is finished."""
    course, challenge = Course(root), challenge or Challenge()
    for unit in dict.fromkeys(item.unit for item in handed):
        course.release(unit)
        challenge.unit(unit)  # drawn once, before the workers share it
    workers = max(1, min(workers or os.cpu_count() or 1, len(handed)))
    local, lock = threading.local(), threading.Lock()
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:

        def sandbox() -> Sandbox:
            if not hasattr(local, "sandbox"):
                opened = open_sandbox(Limits(), unsafe=unsafe)
                with lock:
                    local.sandbox = stack.enter_context(opened)
            return local.sandbox

        def grade(item: HandedIn) -> Graded:
            graded = grade_one(course, item, challenge, sandbox())
            with lock:
                done(graded)
            return graded

        return list(pool.map(grade, handed))


def grade_one(course: Course, item: HandedIn, challenge: Challenge, sandbox: Sandbox) -> Graded:
    """Grade one notebook; one that cannot be read has every exercise missing."""
    try:
        submission = course.open(item.path, item.unit)
    except Unreadable as error:
        return Graded(item.student, item.unit, nothing_to_grade(challenge, item.unit, error), str(error))
    except Exception as error:
        return _at_fault(item, error)
    try:
        return Graded(item.student, item.unit, grade_submission(submission, challenge, sandbox))
    except (NoSandbox, Lost):
        raise  # the next student would fare no better
    except Exception as error:
        return _at_fault(item, error)


def _at_fault(item: HandedIn, error: Exception) -> Graded:
    """A fault of ours on one notebook: it gets no verdicts, rather than wrong ones, and the others get theirs."""
    if os.environ.get("AUTOGRADER_DEBUG"):
        raise error
    words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Graded(item.student, item.unit, [], fault=f"{item.unit} was not graded, by a fault of ours ({words})")


def check_gradebook(root: Path) -> None:
    """Raises NotUsable when the gradebook is locked, damaged, or belongs to another course."""
    path = root / "grading" / "gradebook.db"
    if not path.exists():
        return
    try:
        with sqlite3.connect(path, timeout=5) as connection:
            connection.execute("BEGIN IMMEDIATE")
            courses = [row[0] for row in connection.execute("SELECT id FROM course")]
            connection.rollback()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise NotUsable(f"{path}: locked; close the program that is using it and try again") from None
        raise NotUsable(f"{path}: no gradebook of nbgrader ({error}); move it away and grade again") from None
    except sqlite3.DatabaseError as error:
        raise NotUsable(f"{path}: damaged ({error}); restore a copy, or move it away and grade again") from None
    if courses and "attention" not in courses:
        raise NotUsable(f"{path}: belongs to the course {courses[0]!r}; move it away and grade again")


def record(root: Path, graded: Sequence[Graded], done: Callable[[Graded], None] = lambda graded: None) -> list[Path]:
    """Write all verdicts to nbgrader's gradebook and make the feedback pages; returns the pages' folders.

    Where that fails for one student, the others are recorded, and the student's `fault` says so.
    """
    from nbgrader.converters import Autograde, GenerateFeedback
    from nbgrader.coursedir import CourseDirectory

    from . import nbgrader_plugin

    folders = []
    for unit in dict.fromkeys(item.unit for item in graded):
        for item in (item for item in graded if item.unit == unit and item.verdicts):
            nbgrader_plugin.finished[unit, item.student] = item.verdicts
            # nbgrader only looks at what is a file of this name: see to it that it meets each student.
            for converter_class in (Autograde, GenerateFeedback):
                config = nbgrader_plugin.load_config(root)
                coursedir = CourseDirectory(config=config)
                coursedir.assignment_id, coursedir.student_id, coursedir.notebook_id = unit, item.student, unit
                converter = converter_class(coursedir=coursedir, config=config)
                converter.force = True
                converter.log = quiet_log()
                if converter_class is Autograde and not os.path.lexists(_submitted(root, item)):
                    break
                try:
                    converter.start()
                except Exception as error:
                    item.fault = (
                        f"{unit} is not in the gradebook, or has no feedback page: {' '.join(str(error).split())}"
                    )
                    break
            else:
                folders.append(root / "grading" / "feedback" / item.student / unit)
            keep(root, item)
            done(item)
    return folders


def _submitted(root: Path, item: Graded) -> Path:
    return root / "grading" / "submitted" / item.student / item.unit / f"{item.unit}.ipynb"


def quiet_log() -> logging.Logger:
    """nbgrader's messages go nowhere: what matters is said once, by us."""
    log = logging.getLogger("autograder.nbgrader")
    log.setLevel(logging.CRITICAL)
    return log


def keep(root: Path, item: Graded) -> None:
    """Keep one student's verdicts as JSON, for the class report; written whole or not at all."""
    path = root / "grading" / "verdicts" / item.unit / f"{item.student}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"problem": item.problem, "verdicts": [asdict(verdict) for verdict in item.verdicts]}
    aside = path.with_suffix(f".{os.getpid()}.part")
    aside.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(aside, path)


def kept(root: Path, units: Sequence[str] = ()) -> Iterator[Graded]:
    """The verdicts kept by earlier runs, unit by unit."""
    for unit in units or unit_names():
        exercises(unit)
        for path in sorted((root / "grading" / "verdicts" / unit).glob("*.json")):
            content = json.loads(path.read_text(encoding="utf-8"))
            verdicts = [
                Verdict(**{**entry, "criteria": tuple(Criterion(**criterion) for criterion in entry["criteria"])})
                for entry in content["verdicts"]
            ]
            yield Graded(path.stem, unit, verdicts, content["problem"])
