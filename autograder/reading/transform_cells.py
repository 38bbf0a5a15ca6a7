"""Converts an untrusted cell to Python in a separate process, which the kernel ends if that takes too long."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from ..worker import linux

#: A line that IPython may turn into a call: a magic, a shell command, a question.
ESCAPE = re.compile(r"^\s*[!%?,;/]|=\s*[!%]|\?")
#: Seconds of processor time for one cell, and for all cells of a submission; honest ones take a hundredth of it.
CELL_SECONDS = 2.0
ALL_SECONDS = 10.0
#: Letters that IPython's transformer may read for one cell: it reads all of it again after each line that it changes.
TRANSFORM_CAP = 250_000


class Unread(Exception):
    """Raised for a cell that may well run, but is too deeply nested or too long to read here."""


class _Here(threading.local):
    """Holds the time that a thread has left for its submission, the cells that it has given up, and its reader."""

    def __init__(self) -> None:
        self.left = ALL_SECONDS
        self.given_up: set[str] = set()
        self.reader: _Reader | None = None


_here = _Here()
_importing = threading.Lock()
_transformers: list[type] = []


def _transformer() -> type:
    """Return IPython's transformer of cells, imported on first use because that is slow and few commands read cells.

    If two threads imported it at the same time, one could get a half-initialised module. A forked process never waits
    here, because the thread that forked it has imported it.
    """
    if not _transformers:
        with _importing:
            from IPython.core.inputtransformer2 import TransformerManager

            _transformers.append(TransformerManager)
    return _transformers[0]


def begin() -> None:
    """Begin reading a new submission, which has all of the time."""
    _here.left = ALL_SECONDS
    _here.given_up.clear()


def python_of(source: str) -> str:
    """Convert a cell to Python by IPython's rules. Raises Unread if that takes too long or the parser gives up."""
    _transformer()  # imported once here, not in each process
    if source in _here.given_up:
        raise Unread
    if sys.platform != "linux" or not hasattr(os, "fork"):  # untrusted work is graded only on Linux
        return here(source)
    if _here.reader is None or not _here.reader.is_mine():
        _here.reader = _Reader()
    seconds = min(CELL_SECONDS, _here.left)
    text, spent = _here.reader.ask(source, seconds) if seconds > 0 else (None, 0.0)
    if spent is None:
        _here.reader, spent = None, seconds
    _here.left -= spent
    if text is None:
        _here.given_up.add(source)
        raise Unread
    return text


class _Reader:
    """Starts a process that converts cells."""

    def __init__(self) -> None:
        self._parent = os.getpid()
        self._channel, theirs = Pipe()
        child = os.fork()
        if child == 0:
            try:
                _serve(theirs, self._parent)
            finally:
                os._exit(0)
        theirs.close()
        self._child = child

    def is_mine(self) -> bool:
        """Return whether this process started it, and not the one from which this process was forked."""
        return self._parent == os.getpid()

    def ask(self, source: str, seconds: float) -> tuple[str | None, float | None]:
        """Return the text, or None, and the time it took, or None if the process ended over it."""
        try:
            self._channel.send_bytes(json.dumps([source, seconds]).encode())
            text, spent = json.loads(self._channel.recv_bytes())
        except (EOFError, OSError):
            self._channel.close()
            with contextlib.suppress(OSError):
                os.waitpid(self._child, 0)
            return None, None
        return text, spent


def _serve(channel: Connection, parent: int) -> None:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # Close everything else: a submission's process lives as long as any copy of its lifeline is open.
    for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - {channel.fileno()}:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    while True:
        source, seconds = json.loads(channel.recv_bytes())
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            text: str | None = here(source)
            ast.parse(text)
        except (SyntaxError, ValueError):
            pass  # the caller finds this error as well
        except (Unread, RecursionError, MemoryError, SystemError):
            text = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        channel.send_bytes(json.dumps([text, time.process_time() - began]).encode())


def here(source: str) -> str:
    """Convert a cell in this process, however long it takes. Raises Unread."""
    manager = _transformer()()
    lines = (source if source.endswith("\n") else source + "\n").splitlines(keepends=True)
    try:
        for transform in (*manager.cleanup_transforms, *manager.line_transforms):
            lines = transform(lines)
        changed, work = any(map(ESCAPE.search, lines)), 0
        while changed:
            work += sum(map(len, lines))
            if work > TRANSFORM_CAP:
                raise Unread
            changed, lines = manager.do_one_token_transform(lines)
    except (RecursionError, MemoryError):
        raise Unread from None
    except (SyntaxError, ValueError, LookupError):
        return source  # it fails in the notebook as well
    return "".join(lines)
