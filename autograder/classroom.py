"""Many submissions: who handed in what, grading side by side, one writer to the gradebook, and what is kept."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from . import runs
from .assignment import TESTS
from .challenge import Challenge
from .course import Course
from .executors import Pool
from .expected import Expected
from .jobs import Graded, Job, recorded_form
from .kept import keep, read_kept
from .placement import HandedIn, Survey, survey
from .sandbox import Limits, NoSandbox, preflight
from .submission import Unreadable, bounded, read_file
from .units import digest
from .unseen import unseen

if TYPE_CHECKING:
    from .gradebook import Recorder

Done = Callable[[Graded], None]


class NotUsable(Expected):
    """Something about the class folder or the gradebook that a person must mend: one line with the remedy."""


def look_through(root: Path, units: Sequence[str] = (), student: str | None = None) -> Survey:
    """All notebooks under `grading/submitted`, and what is not in its place. Raises NotUsable where none is."""
    folder, known = root / "grading" / "submitted", Course(root).units()
    try:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
    except OSError as error:
        raise NotUsable(f"{folder}: cannot be read ({error.strerror}); is it yours to read?") from None
    if not names:
        raise NotUsable(f"{folder}: no submissions there; put them in as STUDENT/UNIT/UNIT.ipynb")
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
    dropped = tuple(question.name for question in asked.questions if question.dropped)
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
        dropped,
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
) -> list[Graded]:
    """Grade notebooks side by side, in the order in which they come. `done` is told of each as it is finished.

    meanwhile: called once the workers are starting, which takes them some seconds.
    """
    course, challenge = Course(root), challenge or Challenge()
    for unit in dict.fromkeys(item.unit for item in handed):
        course.assignment(unit)
    limits = limits or Limits.from_course(root)
    workers = max(1, min(workers or os.cpu_count() or 1, len(handed)))
    found: dict[HandedIn, Graded] = {}
    with Pool(workers, scheduler, limits, unsafe, unseen(root)) as pool:
        meanwhile()
        jobs = ((item, job_of(course, item, challenge.seed, limits, unsafe)) for item in handed)
        for item, graded in pool.run(jobs):
            done(graded)
            graded.notebook = None
            found[item] = graded
    return [found[item] for item in handed]


class Run:
    """One `autograder grade`: grades what is new or changed, records each as it comes, and can be taken up again.

    What a student handed in has a fingerprint, kept with the verdicts; the code of the unit's exercises is part of it.
    The verdicts are on disk before the gradebook has them, and are marked once it has: whenever a run is killed, the
    next one finishes it, grades nothing twice and loses nothing. A run that is taken up again goes on with the same
    secret cases.
    """

    def __init__(self, root: Path, force: bool = False, unsafe: bool = False) -> None:
        self.root, self._unsafe = root, unsafe
        self.course, self._limits = Course(root), Limits.from_course(root)
        seed = None if force else runs.interrupted(root)
        self._challenge, self._force = Challenge(seed), force
        self.unchanged = 0
        self.remarks: list[str] = []

    def grade(
        self,
        handed: Sequence[HandedIn],
        workers: int | None = None,
        scheduler: str | None = None,
        done: Done = lambda graded: None,
    ) -> list[Graded]:
        """All verdicts, whether they were reached now or before, in the order of `handed`."""
        from .gradebook import Recorder

        for unit in dict.fromkeys(item.unit for item in handed):
            self.course.assignment(unit)
        if not self._unsafe and scheduler is None and preflight() is not None:
            raise NoSandbox(preflight())  # before anything is written
        runs.begun(self.root, self._challenge.seed, "autograder grade")
        found: dict[HandedIn, Graded] = {}
        with Recorder(self.root, self.course) as recorder:
            recorder.check_rule()
            fresh = []
            for item in handed:
                graded = None if self._force else self._before(item, recorder)
                if graded is None:
                    fresh.append(item)
                else:
                    found[item] = graded
                    done(graded)

            def finish(graded: Graded) -> None:
                self._finish(graded, recorder)
                done(graded)

            def enter_units() -> None:
                for unit in dict.fromkeys(item.unit for item in fresh):
                    recorder.register(unit)

            if fresh:
                settings = (self.root, fresh, workers, self._unsafe, self._challenge, finish, scheduler, self._limits)
                for item, graded in zip(fresh, grade_class(*settings, enter_units), strict=True):
                    found[item] = graded
            self.remarks = [*recorder.changes, *recorder.remarks]
        runs.finished(self.root, self._challenge.seed)
        return [found[item] for item in handed]

    def settle(self, handed: Sequence[HandedIn], again: bool = False) -> list[HandedIn]:
        """Record what was judged before, where points, dates or marks by hand have changed; judge nothing.

        again: record it all, with its pages. Returns what is to be judged first, for it is new or has changed.
        """
        from .gradebook import Recorder

        with Recorder(self.root, self.course) as recorder:
            for unit in dict.fromkeys(item.unit for item in handed):
                recorder.register(unit)
            left = [item for item in handed if self._before(item, recorder, again) is None]
            self.remarks = [*recorder.changes, *recorder.remarks]
        return left

    def waiting(self, handed: Sequence[HandedIn]) -> list[HandedIn]:
        """What `grade` would still have to judge or to record. Writes nothing."""
        from .gradebook import Recorder

        left = []
        with Recorder(self.root, self.course, reading=True) as recorder:
            for item in handed:
                kept = read_kept(self.root, item.unit, item.student)
                job = job_of(self.course, item, self._challenge.seed, self._limits, self._unsafe)
                if kept is None or kept.fingerprint != job.fingerprint or not self._is_recorded(kept, recorder):
                    left.append(item)
        return left

    def _before(self, item: HandedIn, recorder: Recorder, again: bool = False) -> Graded | None:
        """What an earlier run found out about the very same notebook, recorded if it was not yet; None if nothing.

        again: recorded in any case.
        """
        kept = read_kept(self.root, item.unit, item.student)
        if kept is None:
            return None
        job = job_of(self.course, item, self._challenge.seed, self._limits, self._unsafe)
        if kept.fingerprint != job.fingerprint:
            return None
        questions = {question.name: question for question in self.course.assignment(item.unit).questions}
        kept.verdicts = [verdict.worth(questions[verdict.function], item.unit) for verdict in kept.verdicts]
        if not again and self._is_recorded(kept, recorder):
            self.unchanged += 1
            return kept
        kept.notebook = recorded_form(job, kept.verdicts)
        self._record(kept, recorder)
        kept.notebook = None
        return kept

    def _is_recorded(self, kept: Graded, recorder: Recorder) -> bool:
        """Whether gradebook and page have all of it: not if points, dates or the rule changed, or marks by hand did."""
        place = kept.unit, kept.student
        return recorder.has(*place) and (kept.recorded, kept.page) == (recorder.state(*place), recorder.shown(*place))

    def _finish(self, graded: Graded, recorder: Recorder) -> None:
        if graded.verdicts:
            keep(self.root, graded)
            self._record(graded, recorder)

    def _record(self, graded: Graded, recorder: Recorder) -> None:
        """Where that fails for one student, the others are recorded, and the student's `fault` says so."""
        try:
            recorder.record(graded.unit, graded.student, graded.notebook)
        except Exception as error:
            if os.environ.get("AUTOGRADER_DEBUG"):
                raise
            words = " ".join(str(error).split())
            graded.fault = f"{graded.unit} is not in the gradebook, or has no feedback page: {words}"
            return
        graded.recorded = recorder.state(graded.unit, graded.student)
        graded.page = recorder.shown(graded.unit, graded.student)
        keep(self.root, graded)


def check_gradebook(root: Path, to_write: bool = False) -> None:
    """Raises NotUsable when the gradebook is locked, damaged, of another course, or cannot be opened or written."""
    path = root / "grading" / "gradebook.db"
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=5)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # of a file that cannot be written this says nothing
            courses = [row[0] for row in connection.execute("SELECT id FROM course")]
            if to_write:
                connection.execute("CREATE TABLE autograder_may_write (id)")
            connection.rollback()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise NotUsable(f"{path}: locked; close the program that is using it and try again") from None
        if "no such table" in str(error):
            raise NotUsable(f"{path}: no gradebook of nbgrader ({error}); move it away and grade again") from None
        remedy = "look at its permissions and the disk"
        raise NotUsable(f"{path}: cannot be opened or written ({error}): {remedy}") from None
    except sqlite3.DatabaseError as error:
        raise NotUsable(f"{path}: damaged ({error}); restore a copy, or move it away and grade again") from None
    if courses and "attention" not in courses:
        raise NotUsable(f"{path}: belongs to the course {courses[0]!r}; move it away and grade again")
