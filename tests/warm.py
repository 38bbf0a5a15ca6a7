"""What takes long to start, started once for all tests of a process: the sandbox, and Python with our imports."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest
from traitlets.config import SingletonConfigurable

from autograder.running.limits import Limits
from autograder.running.sandbox import Sandbox, open_sandbox, preflight

#: Whatever opens a sandbox for a run of its own.
OPENERS = (
    *("autograder.running.plain_process", "autograder.gradebook.nbgrader_plugin"),
    *("autograder.running.sandbox", "autograder.grading.submission_jobs"),
)
SECONDS = 300.0


class Lent(Sandbox):
    """A running sandbox under limits of one's own. To end it is to let go of it; after that it starts one itself."""

    def __init__(self, lender: Sandbox, limits: Limits) -> None:
        super().__init__(limits, lender.mode)
        self._lender, self.hierarchy = lender, lender.hierarchy
        self._process, self._zygotes = lender._process, {had: way.dup() for had, way in lender._zygotes.items()}
        self._is_mine = False

    def launch(self, libraries: frozenset[str] = frozenset()) -> None:
        if self._process is None:
            super().launch(libraries)
        elif libraries not in self._zygotes:
            self.bring(libraries)

    def bring(self, libraries: frozenset[str]) -> None:
        """The lender is to have it, too, so that the next one finds it."""
        if libraries not in self._lender._zygotes:
            self._lender.bring(libraries)
            self._lender._hear_ready()
        self._zygotes[libraries] = self._lender._zygotes[libraries].dup()


class Warm:
    """At most two running sandboxes, one of each kind, for all who need one."""

    def __init__(self) -> None:
        self._running: dict[bool, Sandbox] = {}
        self.is_lending = False

    def running(self, unsafe: bool = False) -> Sandbox:
        if unsafe not in self._running:
            self._running[unsafe] = open_sandbox(unsafe=unsafe)
            self._running[unsafe].__enter__()
        return self._running[unsafe]

    def lend(self, limits: Limits | None = None, unsafe: bool = False, hidden: Sequence[str] = ()) -> Sandbox:
        """In the place of `open_sandbox`. What a test hides lies in a folder of its own, which no sandbox shows."""
        return Lent(self.running(unsafe), limits or Limits())

    def stop(self) -> None:
        for sandbox in self._running.values():
            sandbox.stop()

    @contextlib.contextmanager
    def lends_to_all(self) -> Iterator[None]:
        """Every run takes a sandbox that is warm. No test of how a run starts or ends its own may use this."""
        with pytest.MonkeyPatch.context() as patch:
            for name in OPENERS:
                patch.setattr(importlib.import_module(name), "open_sandbox", self.lend)
            patch.setattr(self, "is_lending", True)
            yield


WARM = Warm()


def command(folder: Path, *words: str, timeout: float = SECONDS, **environment: str) -> subprocess.CompletedProcess:
    """`python -m WORDS` in a folder: a process of its own, forked from this one, which has imported what takes long."""
    if WARM.is_lending and preflight() is None:
        WARM.running()  # before the fork, so that the next one has it, too
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = multiprocessing.get_context("fork").Process(target=_run, args=(folder, words, environment, out, err))
        child.start()
        child.join(timeout)
        if child.is_alive():
            child.kill()
            child.join()
            raise subprocess.TimeoutExpired(words, timeout)
        said = [os.pread(file.fileno(), 2**26, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(words, child.exitcode, *said)


def _run(folder: Path, words: Sequence[str], environment: dict[str, str], out: IO[bytes], err: IO[bytes]) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    for file, descriptor in ((out, 1), (err, 2)):
        os.dup2(file.fileno(), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    forget_applications(SingletonConfigurable)
    module, *sys.argv[1:] = words
    sys.path.insert(0, str(folder))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def forget_applications(kind: type[SingletonConfigurable]) -> None:
    """There is one nbgrader in a process, and what ran before the fork is not this one's."""
    kind._instance = None
    for narrower in kind.__subclasses__():
        forget_applications(narrower)
