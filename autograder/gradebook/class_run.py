"""Grades the new and changed submissions of a class, and records each result as it comes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..grading import results_store
from ..grading.results_store import keep, read_kept
from ..grading.submission_jobs import recorded_form
from ..grading.submitted_folder import HandedIn
from ..grading.whole_class import Done, grade_class, job_of
from ..judging.hidden_cases import Challenge
from ..reading.course_contents import Course
from ..records import Graded, NoSandbox
from ..running.limits import Limits
from ..running.sandbox import Sandbox, preflight
from .gradebook_writer import Recorder


class Run:
    """Runs one `autograder grade`: grades new and changed submissions, records each at once, and can be resumed.

    Each submission has a fingerprint, which is kept with its verdicts and covers the code of the unit's exercises. The
    verdicts are written to disk before the gradebook gets them, and marked as recorded afterwards. If a run is killed,
    the next one therefore finishes its work, grades nothing twice and loses nothing. A resumed run uses the same
    secret cases.
    """

    def __init__(self, root: Path, force: bool = False, unsafe: bool = False) -> None:
        self.root, self._unsafe = root, unsafe
        self.course, self._limits = Course(root), Limits.from_course(root)
        seed = None if force else results_store.interrupted(root)
        self._challenge, self._force = Challenge(seed), force
        self.unchanged = 0
        self.remarks: list[str] = []

    def grade(
        self,
        handed: Sequence[HandedIn],
        workers: int | None = None,
        scheduler: str | None = None,
        done: Done = lambda graded: None,
        sandbox: Sandbox | None = None,
    ) -> list[Graded]:
        """Return all verdicts, new and earlier ones, in the order of `handed`.

        sandbox: one for all workers of this machine, if it has been launched already.
        """
        for unit in dict.fromkeys(item.unit for item in handed):
            self.course.assignment(unit)
        if not self._unsafe and scheduler is None and preflight() is not None:
            raise NoSandbox(preflight())  # before anything is written
        results_store.begun(self.root, self._challenge.seed, "autograder grade")
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
                for item, graded in zip(fresh, grade_class(*settings, enter_units, sandbox), strict=True):
                    found[item] = graded
            self.remarks = [*recorder.changes, *recorder.remarks]
        results_store.finished(self.root, self._challenge.seed, [*dict.fromkeys(item.unit for item in handed)])
        return [found[item] for item in handed]

    def settle(self, handed: Sequence[HandedIn], again: bool = False) -> list[HandedIn]:
        """Record earlier verdicts where points, dates or manual marks have changed; judge nothing.

        again: record all of them, with their pages. Returns the new or changed submissions, which must be judged first.
        """
        with Recorder(self.root, self.course) as recorder:
            for unit in dict.fromkeys(item.unit for item in handed):
                recorder.register(unit)
            left = [item for item in handed if self._before(item, recorder, again) is None]
            self.remarks = [*recorder.changes, *recorder.remarks]
        return left

    def waiting(self, handed: Sequence[HandedIn]) -> list[HandedIn]:
        """Return the submissions that `grade` would still have to judge or to record. Writes nothing."""
        left = []
        with Recorder(self.root, self.course, reading=True) as recorder:
            for item in handed:
                kept = read_kept(self.root, item.unit, item.student)
                job = job_of(self.course, item, self._challenge.seed, self._limits, self._unsafe)
                if kept is None or kept.fingerprint != job.fingerprint or not self._is_recorded(kept, recorder):
                    left.append(item)
        return left

    def _before(self, item: HandedIn, recorder: Recorder, again: bool = False) -> Graded | None:
        """Return an earlier run's result for the same notebook, and record it if necessary; None if there is none.

        again: record it in any case.
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
        """Return whether gradebook and page are up to date with points, dates, the late rule and manual marks."""
        place = kept.unit, kept.student
        return recorder.has(*place) and (kept.recorded, kept.page) == (recorder.state(*place), recorder.shown(*place))

    def _finish(self, graded: Graded, recorder: Recorder) -> None:
        if graded.verdicts:
            keep(self.root, graded)
            self._record(graded, recorder)

    def _record(self, graded: Graded, recorder: Recorder) -> None:
        """Record one result. If that fails, the student's `fault` says so, and the others are still recorded."""
        try:
            recorder.record(graded)
        except Exception as error:
            if os.environ.get("AUTOGRADER_DEBUG"):
                raise
            words = " ".join(str(error).split())
            graded.fault = f"{graded.unit} is not in the gradebook, or has no feedback page: {words}"
            return
        graded.recorded = recorder.state(graded.unit, graded.student)
        graded.page = recorder.shown(graded.unit, graded.student)
        keep(self.root, graded)
