"""Where jobs are done: processes of this machine, or a Dask cluster, behind the one interface of `concurrent.futures`.

A few jobs more than there are workers are under way at any time, so memory does not grow with the class. A worker that
dies has its jobs done elsewhere, and so have jobs that a cluster drops; one job that keeps killing its worker is given
up, and the others are not. Each process is bounded on its own: what a stranger's answer makes the judge do ends one
job, not the machine.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any, TypeVar

from ..data import Expected
from ..worker import limits as bounds
from ..worker import linux

AHEAD = 2
#: So often does a cluster do a job again whose worker was lost.
RETRIES = 3
#: What the memory of a grading process may grow by, and its processor time for one job: many times what is needed.
GRADER_BYTES = 4 * 2**30
GRADER_SECONDS = 300.0
Name, Job, Result = TypeVar("Name"), TypeVar("Job"), TypeVar("Result")


class SchedulerLost(Expected):
    """The Dask scheduler cannot be reached: one line with the remedy."""


class Pool:
    """Does jobs side by side. Use as a context manager.

    workers: how many jobs at a time on this machine. scheduler: the address of a Dask scheduler to use instead.
    work: does one job. begin: called in each new process of this machine, so that sandboxes can start at once.
    given_up: the result of a job that keeps killing its worker, made of the job and the error.
    Each process draws the cases itself: torch must not have calculated anything in a process that is forked.
    """

    def __init__(
        self,
        workers: int,
        scheduler: str | None,
        work: Callable[[Job], Result],
        begin: Callable[[], None],
        given_up: Callable[[Job, BaseException], Result],
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

    def run(self, jobs: Iterator[tuple[Name, Job]]) -> Iterator[tuple[Name, Result]]:
        """Each job's result under its name, in the order in which they are finished.

        When a worker process dies, all jobs that were under way are suspects. Each is done again with nothing beside
        it: who then kills its worker once more is the one.
        """
        under_way: dict[Future[Result], tuple[Name, Job]] = {}
        suspects: list[tuple[Name, Job]] = []
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
                self._top_up(under_way, source)  # before the results are dealt with, so that no worker waits
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

    def _top_up(self, under_way: dict[Future[Result], tuple[Name, Job]], source: Iterator[tuple[Name, Job]]) -> None:
        for item in itertools.islice(source, max(AHEAD * self._workers - len(under_way), 0)):
            under_way[self._submit(item[1])] = item

    def _start_processes(self) -> None:
        context = multiprocessing.get_context("fork")
        settings = (os.getpid(), self._begin)
        self._executor = ProcessPoolExecutor(self._workers, context, initializer=_begin, initargs=settings)
        self._executor.submit(int)  # this starts them all

    def _submit(self, job: Job) -> Future[Result]:
        if self._scheduler is not None:
            return self._executor.submit(_do_elsewhere, self._work, job)
        try:
            return self._executor.submit(_do, self._work, job)
        except BrokenProcessPool:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._start_processes()
            return self._executor.submit(_do, self._work, job)


def _begin(parent: int, begin: Callable[[], None]) -> None:
    """Have the kernel end this process with its parent (one that is killed ends nobody itself), and get ready."""
    if sys.platform == "linux":
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it was killed before the kernel was told
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # a cell that ran here may have left another: see `_do`
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # where the process before the fork used several, the second one would never come
    bounds.bound_data(GRADER_BYTES)
    begin()


def _do(work: Callable[[Job], Result], job: Job) -> Result:
    """One job in a process of this machine, which the kernel ends when the job takes far too much processor time."""
    signal.setitimer(signal.ITIMER_PROF, GRADER_SECONDS)
    try:
        return work(job)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _do_elsewhere(work: Callable[[Job], Result], job: Job) -> Result:
    """One job in a worker of a cluster, which is bounded with the first."""
    _bound_worker()
    return work(job)


@functools.cache
def _bound_worker() -> None:
    """Bound the memory of this process for good: its threads do jobs side by side, so each has the same share."""
    from dask.distributed import get_worker

    bounds.bound_data(GRADER_BYTES * get_worker().state.nthreads)


def _error_of(future: Future[Result]) -> BaseException | None:
    """Why a job has no result. That it was cancelled is one reason: a cluster drops jobs when it loses their worker."""
    try:
        return future.exception()
    except CancelledError as error:
        return error


def _worker_died(error: BaseException) -> bool:
    return isinstance(error, (BrokenProcessPool, CancelledError)) or type(error).__name__ == "KilledWorker"


def _cluster(address: str, stack: ExitStack) -> tuple[Executor, int]:
    """The executor of a Dask cluster, and how many jobs it can do at a time."""
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
