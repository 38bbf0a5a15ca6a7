"""Limits the processor time of one piece of the grader's own work, and interrupts work that takes more.

It works in any thread: a signal would reach only the main thread, but a Dask worker grades in other threads.
A call of a C library finishes before it is interrupted.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")
#: Once the time may have run out, it is checked this often.
POLL_SECONDS = 0.05
#: Python drops exceptions in places such as destructors, so another interrupt follows after this much more time.
AGAIN_SECONDS = 0.5


class Overspent(Exception):
    """Raised when work is interrupted because it took more processor time than it may."""


class _Interrupt(BaseException):
    """Raised inside the work; it is no `Exception`, so handlers of the work's own errors let it pass."""


class _Here(threading.local):
    """Holds the allowances that this thread spends from, the innermost last."""

    def __init__(self) -> None:
        self.running: list[Allowance] = []


_here = _Here()


class Allowance:
    """Limits one piece of work to some seconds of processor time: `Allowance(2).run(work)`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._charged = 0.0
        self._held = False
        self._ended = threading.Event()
        self._sending = threading.Lock()

    def run(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns. Raises Overspent if it takes too much processor time."""
        self._thread, self._clock = threading.get_ident(), _clock_of_this_thread()
        self._began = self._clock()
        watch = threading.Thread(target=self._watch, daemon=True)
        try:
            try:
                _here.running.append(self)
                watch.start()
                return work()
            finally:
                self._end(watch)
        except _Interrupt:
            self._end(watch)  # the interrupt may have cut the first call short
            if not self.is_over:
                raise  # it belongs to an outer allowance
        raise Overspent

    @property
    def spent(self) -> float:
        """Return the seconds that this thread used, plus those charged for other processes."""
        return self._clock() - self._began + self._charged

    @property
    def is_over(self) -> bool:
        """Return whether more time was used than allowed."""
        return self.spent > self._seconds

    def _watch(self) -> None:
        due = self._seconds
        # A thread's processor time never grows faster than the clock, so the limit can't be passed while this waits.
        while not self._ended.wait(max(due - self.spent, POLL_SECONDS)):
            with self._sending:
                if not self._ended.is_set() and not self._held and self.spent > due:
                    due = self.spent + AGAIN_SECONDS
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(self._thread), ctypes.py_object(_Interrupt)
                    )

    def _end(self, watch: threading.Thread) -> None:
        self._ended.set()
        with self._sending:
            pass  # nothing is sent after this
        for _ in range(2):
            pass  # an interrupt that was sent before is raised in a loop at the latest
        if self in _here.running:
            _here.running.remove(self)
        if watch.ident is not None:
            watch.join()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep this thread's allowances from interrupting the `with` block, such as a send; its time still counts."""
    running = list(_here.running)
    before = [allowance._held for allowance in running]
    try:
        for allowance in running:
            with allowance._sending:
                allowance._held = True
        yield
    finally:
        for allowance, held in zip(running, before, strict=True):
            allowance._held = held
    _interrupt_here()


def charge(seconds: float) -> None:
    """Count seconds of processor time that another process used for this thread's work."""
    for allowance in _here.running:
        allowance._charged += seconds
    _interrupt_here()


def _interrupt_here() -> None:
    if any(allowance.is_over and not allowance._held for allowance in _here.running):
        raise _Interrupt


def _clock_of_this_thread() -> Callable[[], float]:
    if not hasattr(time, "pthread_getcpuclockid"):  # macOS and Windows, where one's own work is checked
        return time.process_time
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)
