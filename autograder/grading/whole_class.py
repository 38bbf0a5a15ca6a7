"""Finds the submissions of a class, and grades them in parallel on this machine or on a Dask cluster.

Only a few more jobs than workers are under way at any time, so memory does not grow with the class. If a worker dies or
a cluster drops its jobs, they are done elsewhere; only a job that keeps killing its worker is given up.
Each process has its own limits: if a stranger's answer makes the judge misbehave, that ends one job, not the machine.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..exercises import digest
from ..judging.hidden_cases import Challenge
from ..reading.course_contents import Course
from ..reading.read_submission import bounded, read_file
from ..records import TESTS, Expected, Graded, NotUsable, Unreadable
from ..running.limits import Limits
from ..running.sandbox import Sandbox, launched, unseen
from ..safe_text import composed
from ..worker import linux
from ..worker import process_limits as bounds
from .submission_jobs import Job, begin, lost, run
from .submitted_folder import HandedIn, HandedInByAll, survey

AHEAD = 2
#: How often a cluster repeats a job whose worker was lost.
RETRIES = 3
#: Limits on a grading process's memory growth and on its CPU time for one job: many times what is needed.
GRADER_BYTES = 4 * 2**30
GRADER_SECONDS = 300.0
Name, Task, Result = TypeVar("Name"), TypeVar("Task"), TypeVar("Result")


class SchedulerLost(Expected):
    """Raised when the Dask scheduler cannot be used; the message is one line with the remedy."""


class Pool:
    """Does jobs in parallel. Use as a context manager.

    workers: number of parallel jobs on this machine. scheduler: the address of a Dask scheduler to use instead.
    work: does one job. begin: called in each new process of this machine, so that sandboxes can start at once.
    given_up: makes the result of a job that keeps killing its worker, from the job and the error.
    Each process draws the cases itself, because torch must not have calculated anything in a process that is forked.
    """

    def __init__(
        self,
        workers: int,
        scheduler: str | None,
        work: Callable[[Task], Result],
        begin: Callable[[], None],
        given_up: Callable[[Task, BaseException], Result],
    ) -> None:
        self._workers, self._scheduler = workers, scheduler
        self._work, self._begin, self._given_up = work, begin, given_up
        self._stack = ExitStack()
        self._executor: Executor | None = None

    def __enter__(self) -> Pool:
        if self._scheduler is not None:
            self._executor, self._workers = _cluster(self._scheduler, self._stack)
        else:
            self._start_processes()
        return self

    def __exit__(self, *error: object) -> None:
        if self._executor is not None:
            if isinstance(self._executor, ProcessPoolExecutor):
                self._executor.shutdown(wait=True, cancel_futures=True)
            else:
                self._executor.shutdown(wait=True)
        self._stack.close()

    def run(self, jobs: Iterator[tuple[Name, Task]]) -> Iterator[tuple[Name, Result]]:
        """Yield each job's result under its name, in the order in which they finish.

        When a worker process dies, all jobs that were under way are suspects. Each is done again with no other job
        running; one whose worker dies again is given up.
        """
        under_way: dict[Future[Result], tuple[Name, Task]] = {}
        suspects: list[tuple[Name, Task]] = []
        source = iter(jobs)
        while True:
            alone = bool(suspects) and not under_way
            if alone:
                suspect = suspects.pop(0)
                under_way[self._submit(suspect[1])] = suspect
            elif not suspects:
                self._top_up(under_way, source)
            if not under_way:
                return
            ended = [(future, under_way.pop(future)) for future in wait(under_way, return_when=FIRST_COMPLETED).done]
            if not any(_error_of(future) for future, _ in ended):
                self._top_up(under_way, source)  # before handling the results, so that no worker waits
            for future, (name, job) in ended:
                error = _error_of(future)
                if error is None:
                    yield name, future.result()
                elif not _worker_died(error):
                    raise error
                elif alone:
                    yield name, self._given_up(job, error)
                else:
                    suspects.append((name, job))

    def _top_up(self, under_way: dict[Future[Result], tuple[Name, Task]], source: Iterator[tuple[Name, Task]]) -> None:
        for item in itertools.islice(source, max(AHEAD * self._workers - len(under_way), 0)):
            under_way[self._submit(item[1])] = item

    def _start_processes(self) -> None:
        context = multiprocessing.get_context("fork")
        settings = (os.getpid(), self._begin)
        self._executor = ProcessPoolExecutor(self._workers, context, initializer=_begin, initargs=settings)
        self._executor.submit(int)  # this starts them all

    def _submit(self, job: Task) -> Future[Result]:
        if self._scheduler is not None:
            return self._executor.submit(_do_elsewhere, self._work, job)
        try:
            return self._executor.submit(_do, self._work, job)
        except BrokenProcessPool:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._start_processes()
            return self._executor.submit(_do, self._work, job)


def _begin(parent: int, begin: Callable[[], None]) -> None:
    """Make the kernel end this process when its parent ends, because a killed parent cannot do that, and get ready."""
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent was killed before prctl took effect
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # a cell that ran here may have left another handler: see `_do`
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # otherwise torch may wait for the parent's threads, which a fork doesn't copy
    bounds.bound_data(GRADER_BYTES)
    begin()


def _do(work: Callable[[Task], Result], job: Task) -> Result:
    """Do one job in a process of this machine, which the kernel ends if the job takes far too much CPU time."""
    signal.setitimer(signal.ITIMER_PROF, GRADER_SECONDS)
    try:
        return work(job)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _do_elsewhere(work: Callable[[Job], Result], job: Job) -> Result:
    """Do one job in a worker of a cluster, whose limits are set with its first job."""
    _bound_worker()
    return work(job)


@functools.cache
def _bound_worker() -> None:
    """Limit this process's memory for good, to one share for each thread, because its threads do jobs in parallel."""
    from dask.distributed import get_worker

    bounds.bound_data(GRADER_BYTES * get_worker().state.nthreads)


def _error_of(future: Future[Result]) -> BaseException | None:
    """Return why a job has no result. It may be cancelled, because a cluster drops jobs when it loses their worker."""
    try:
        return future.exception()
    except CancelledError as error:
        return error


def _worker_died(error: BaseException) -> bool:
    return isinstance(error, (BrokenProcessPool, CancelledError)) or type(error).__name__ == "KilledWorker"


def _cluster(address: str, stack: ExitStack) -> tuple[Executor, int]:
    """Return the executor of a Dask cluster, and how many jobs it can do at a time. Raises SchedulerLost."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise SchedulerLost("--scheduler needs Dask; run: pip install 'attention-course[cluster]'") from None
    try:
        client: Any = stack.enter_context(Client(address, timeout=20, set_as_default=False))
    except (OSError, TimeoutError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        raise SchedulerLost(f"no Dask scheduler at {address} ({words}); start one with: dask scheduler") from None
    threads = sum(client.nthreads().values())
    if not threads:
        raise SchedulerLost(f"the scheduler at {address} has no workers; start one with: dask worker {address}")
    return client.get_executor(pure=False, retries=RETRIES), threads


Done = Callable[[Graded], None]


def look_through(root: Path, units: Sequence[str] = (), student: str | None = None) -> HandedInByAll:
    """Return the notebooks in `grading/submitted` and lines about misplaced files. Raises NotUsable if it has none."""
    folder, known = root / "grading" / "submitted", Course(root).units()
    try:
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
    except OSError as error:
        raise NotUsable(f"{folder}: cannot be read ({error.strerror}); is it yours to read?") from None
    if not names:
        raise NotUsable(f"{folder}: no submissions there; put them in as STUDENT/UNIT/UNIT.ipynb")
    if student is not None:
        student = next((name for name in names if composed(name) == composed(student)), student)
    if student is not None and (student not in names or not (folder / student).is_dir()):  # nor "../anna"
        raise NotUsable(f"{folder}: no student {student!r} there; the folder's name is the student's ID")
    found = survey(folder, known, units, student)
    if not found.notebooks:
        wanted = f"{folder}/{student or '*'}/{' or '.join(units) or 'UNIT'}"
        why = "".join(f"; {line}" for line in [*found.closed, *found.remarks][:1])
        raise NotUsable(f"{wanted}: nobody handed in a notebook there{why}")
    return found


def handed_in(root: Path, units: Sequence[str] = ()) -> list[HandedIn]:
    """Return all notebooks under `grading/submitted`. Raises NotUsable if there is nothing to grade."""
    return look_through(root, units).notebooks


def job_of(course: Course, item: HandedIn, seed: int, limits: Limits, unsafe: bool = False) -> Job:
    """Return the job that grades one notebook. If it cannot be read, the job says why, and harms no other student."""
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
    """Grade notebooks in parallel; return the results in the order of `handed`, and call `done` with each as it comes.

    meanwhile: called once the workers are starting, which takes some seconds. sandbox: one that is already launched,
    for all workers.
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
