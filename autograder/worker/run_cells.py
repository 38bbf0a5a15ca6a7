"""Runs cells as a notebook would, and goes on where a notebook would stop.

Much that works for a student fails here: there is no network, terminal or keyboard, no file but those of this run, no
library of their own, and no cell of the course that only shows or tests something. An answer may still need lines of
the same cell that come after the failure.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import contextlib
import ctypes
import inspect
import linecache
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from .call_function import describe_error

STUCK = 97  # exit status of a process whose cell would not stop
FULL = 98  # exit status of a process whose cell keeps the memory that the answers need
ROOM = 64 * 2**20
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUTURES = tuple(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class CellTimeout(BaseException):
    """Raised when a cell runs longer than it may; no `except Exception` of the student's catches it."""


class Cells:
    """Runs the cells of one notebook, in their order.

    transform: converts a cell with magics to Python.
    """

    def __init__(self, namespace: dict[str, Any], transform: Any) -> None:
        self._namespace, self._transform = namespace, transform
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def run(self, cell: dict[str, Any], seconds: float, of_the_clock: float) -> dict[str, Any]:
        """Run one cell; returns a report of how it went, and whether it bound its own name to a function.

        seconds: processor time. of_the_clock: wall-clock time.
        """
        name = str(cell["name"])
        before = self._namespace.get(name)
        with alarms(seconds, of_the_clock):
            report = self._statement_by_statement(cell["source"], f"<cell {name}>")
        after = self._namespace.get(name)
        return {**report, "defined": callable(after) and after is not before}

    def _statement_by_statement(self, source: str, file: str) -> dict[str, Any]:
        failures: list[dict[str, Any]] = []
        left: list[ast.stmt] = []
        try:
            text = self._transform(source)
            # torch.jit.script and inspect.getsource read a function's source there.
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            left = compile(text, file, "exec", self._flags | ast.PyCF_ONLY_AST, dont_inherit=True).body
            while left:
                statement = left.pop(0)
                try:
                    self._execute(statement, file)
                except Exception as error:
                    failures.append(describe_error(error))
                    if isinstance(statement, ast.Raise):
                        break  # the student's code stops on purpose
        except CellTimeout:
            self._define(left, file)
            return {"status": "timeout"}
        except BaseException as error:
            failures.append(describe_error(error))
        if any(failure["type"] == "MemoryError" for failure in failures) and not _has_room():
            os._exit(FULL)  # the notebook is run again, without this cell
        return {"status": "failed", "error": failures[0]} if failures else {"status": "ran"}

    def _execute(self, statement: ast.stmt, file: str) -> None:
        code = compile(ast.Module([statement], []), file, "exec", self._flags, dont_inherit=True)
        for flag in FUTURES:
            self._flags |= code.co_flags & flag  # holds for later cells as well
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, self._namespace))
        else:
            exec(code, self._namespace)

    def _define(self, statements: list[ast.stmt], file: str) -> None:
        """Run the definitions that follow a statement that took too long."""
        for statement in statements:
            if isinstance(statement, DEFINITIONS):
                with contextlib.suppress(BaseException):
                    self._execute(statement, file)


def _has_room() -> bool:
    try:
        return bool(bytearray(ROOM))
    except MemoryError:
        return False


#: Code that swallows the exception gets it this many times; then the process ends.
TRIES = 3
AGAIN_SECONDS = 0.5


@contextlib.contextmanager
def alarms(seconds: float, of_the_clock: float) -> Iterator[None]:
    """Raise CellTimeout once this processor time, or this wall-clock time, has passed.

    Code that swallows it gets it again, and after TRIES times the process ends.
    """
    if not hasattr(signal, "setitimer"):  # Windows
        with alarms_by_a_thread(seconds, of_the_clock):
            yield
        return
    sent = 0

    def alarm(*_: Any) -> None:
        nonlocal sent
        sent += 1
        if sent > TRIES:
            os._exit(STUCK)
        raise CellTimeout

    with contextlib.suppress(ValueError):  # a signal handler needs the main thread
        signal.signal(signal.SIGPROF, alarm)
        signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, of_the_clock, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def alarms_by_a_thread(seconds: float, of_the_clock: float) -> Iterator[None]:
    """Do the same without signals; a long call of a library finishes before it is interrupted."""
    thread, ended = ctypes.c_ulong(threading.get_ident()), threading.Event()
    cpu_end, clock_end = time.process_time() + seconds, time.monotonic() + of_the_clock
    interrupt = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        late = 0.0
        for _ in range(TRIES):
            while (left := late + min(cpu_end - time.process_time(), clock_end - time.monotonic())) > 0:
                if ended.wait(min(max(left, 0.005), 0.05)):
                    return
            interrupt(thread, ctypes.py_object(CellTimeout))
            late += AGAIN_SECONDS
        if not ended.wait(AGAIN_SECONDS):
            os._exit(STUCK)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        try:
            ended.set()
        finally:  # an interrupt may have cut the first call short
            ended.set()
            watcher.join()
