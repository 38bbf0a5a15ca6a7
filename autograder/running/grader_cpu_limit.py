"""Processor time that one piece of the grader's own work may take; whatever takes more is interrupted.

It works in any thread: a signal would reach the main thread alone, and a worker of a Dask cluster grades in others.
A single call of a library written in C ends before it is interrupted.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")
#: So often the time is looked at once it may have run out.
POLL_SECONDS = 0.05
#: An interrupt is lost where Python drops exceptions, as in a destructor: after so much more time another one comes.
AGAIN_SECONDS = 0.5


class Overspent(Exception):
    """The work was interrupted because it took more processor time than it may."""


class _Interrupt(BaseException):
    """Raised amid the work. It is no `Exception`, so whoever handles the work's own errors lets it pass."""


class _Here(threading.local):
    """The allowances from which this thread spends, the innermost last."""

    def __init__(self) -> None:
        self.running: list[Allowance] = []


_here = _Here()


class Allowance:
    """So many seconds of processor time, to be used once: `Allowance(2).run(work)`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._charged = 0.0
        self._held = False
        self._ended = threading.Event()
        self._sending = threading.Lock()

    def run(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns. Raises Overspent where it takes too much processor time."""
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
            self._end(watch)  # the interrupt may have come in the midst of the first try
            if not self.is_over:
                raise  # it is that of an allowance around this one
        raise Overspent

    @property
    def spent(self) -> float:
        """Seconds that were used: by this thread, and by others as far as they were charged."""
        return self._clock() - self._began + self._charged

    @property
    def is_over(self) -> bool:
        """Whether more was used than there was."""
        return self.spent > self._seconds

    def _watch(self) -> None:
        due = self._seconds
        # No thread uses processor time faster than the clock goes.
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
            pass  # from here on nothing is sent
        for _ in range(2):
            pass  # the interpreter raises in a loop, at the latest, what was sent before
        if self in _here.running:
            _here.running.remove(self)
        if watch.ident is not None:
            watch.join()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let no allowance of this thread interrupt what runs inside, such as half a message. Its time counts as ever."""
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
    """Count time that another process used for the work of this thread."""
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
