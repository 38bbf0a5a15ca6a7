"""Many submissions: who handed in what, grading side by side, one writer to the gradebook, and what is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ..data import TESTS, Graded, NotUsable, Unreadable
from ..exercises import digest
from ..judging.challenge import Challenge
from ..reading.course import Course
from ..reading.submission import bounded, read_file
from ..running.limits import Limits
from ..running.sandbox import Sandbox
from ..text import composed
from .executors import Pool
from .jobs import Job, begin, lost, run
from .sandbox_start import launched, unseen
from .submitted_files import HandedIn, HandedInByAll, survey

Done = Callable[[Graded], None]


def look_through(root: Path, units: Sequence[str] = (), student: str | None = None) -> HandedInByAll:
    """All notebooks under `grading/submitted`, and what is not in its place. Raises NotUsable where none is."""
    folder, known = root / "grading" / "submitted", Course(root).units()
    try:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
    except OSError as error:
        raise NotUsable(f"{folder}: cannot be read ({error.strerror}); is it yours to read?") from None
    if not names:
        raise NotUsable(f"{folder}: no submissions there; put them in as STUDENT/UNIT/UNIT.ipynb")
    if student is not None:
        student = next((name for name in names if composed(name) == composed(student)), student)
    if student is not None and (student not in names or not (folder / student).is_dir()):  # "../anna" is none either
        raise NotUsable(f"{folder}: no student {student!r} there; the folder's name is the student's ID")
    found = survey(folder, known, units, student)
    if not found.notebooks:
        wanted = f"{folder}/{student or '*'}/{' or '.join(units) or 'UNIT'}"
        why = "".join(f"; {line}" for line in [*found.closed, *found.remarks][:1])
        raise NotUsable(f"{wanted}: nobody handed in a notebook there{why}")
    return found


def handed_in(root: Path, units: Sequence[str] = (), student: str | None = None) -> list[HandedIn]:
    """All notebooks under `grading/submitted`. Raises NotUsable where there is nothing to grade."""
    return look_through(root, units, student).notebooks


def job_of(course: Course, item: HandedIn, seed: int, limits: Limits, unsafe: bool = False) -> Job:
    """The job that grades one notebook. What cannot be read is said in the job, and costs that student alone."""
    try:
        content, problem = bounded(read_file(item.path), str(item.path)), None
    except Unreadable as error:
        content, problem = None, item.problem or str(error)
    asked = course.assignment(item.unit)
    tests = tuple((question.cell, question.source) for question in asked.of_kind(TESTS))
    excluded = tuple(question.name for question in asked.questions if question.excluded)
    return Job(
        item.student,
        item.unit,
        str(item.path),
        content,
        problem,
        asked.text,
        seed,
        limits,
        unsafe,
        tests,
        excluded,
        asked.fingerprint,
        digest(asked.exercises, item.unit),
        unseen(course.root),
    )


def grade_class(
    root: Path,
    handed: Sequence[HandedIn],
    workers: int | None = None,
    unsafe: bool = False,
    challenge: Challenge | None = None,
    done: Done = lambda graded: None,
    scheduler: str | None = None,
    limits: Limits | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    sandbox: Sandbox | None = None,
) -> list[Graded]:
    """Grade notebooks side by side, in the order in which they come. `done` is told of each as it is finished.

    meanwhile: called once the workers are starting, which takes them some seconds. sandbox: for all of them, launched.
    """
    course, challenge = Course(root), challenge or Challenge()
    limits, hidden = limits or Limits.from_course(root), unseen(root)
    units = list(dict.fromkeys(item.unit for item in handed))
    workers = max(1, min(workers or os.cpu_count() or 1, len(handed)))
    found: dict[HandedIn, Graded] = {}
    with ExitStack() as stack:
        if sandbox is None and scheduler is None:
            sandbox = launched(root, units, limits, unsafe)
            stack.callback(sandbox.stop)
        for unit in units:
            course.assignment(unit)
        start = partial(begin, sandbox, unsafe, hidden) if sandbox else None
        pool = stack.enter_context(Pool(workers, scheduler, run, start, lost))
        meanwhile()
        if sandbox is not None:
            sandbox.__enter__()
        jobs = ((item, job_of(course, item, challenge.seed, limits, unsafe)) for item in handed)
        for item, graded in pool.run(jobs):
            done(graded)
            graded.notebook = None
            found[item] = graded
    return [found[item] for item in handed]
