"""Starts and stops the zygote: in bubblewrap to grade untrusted work, or as a plain process for one's own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import IO

from jupyter_core.paths import jupyter_config_path
from traitlets.config import PyFileConfigLoader

from ..records import CellSource, NoSandbox
from . import bubblewrap, control_groups
from .control_groups import Group, remove_all
from .limits import Limits
from .submission_session import Lost, Session, Spawned

START_SECONDS = 120
SPARE_SECONDS = 60.0
REMOVE_SECONDS = 2.0
#: The first zygote has imported none of the slow libraries.
NONE: frozenset[str] = frozenset()
_started = itertools.count()


class Sandbox:
    """Starts submissions; make one with `open_sandbox` and use it as a context manager."""

    def __init__(self, limits: Limits, mode: str, hidden: Sequence[str] = ()) -> None:
        self.limits, self.mode, self._hidden = limits, mode, tuple(hidden)
        self._is_mine = True
        self.hierarchy = None if mode == "plain" else control_groups.find()
        self._groups: list[Group] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._zygotes: dict[frozenset[str], socket.socket] = {}  # what each has imported -> the socket for its orders
        self._cold: set[frozenset[str]] = set()  # those that haven't said yet that they are ready
        self._words: IO[bytes] | None = None

    def __enter__(self) -> Sandbox:
        self.start()
        self.prove()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def launch(self, libraries: frozenset[str] = frozenset()) -> None:
        """Start the zygote without waiting for it: its imports take a second or two.

        libraries: slow libraries to import as well, because most submissions need them.
        """
        kind = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        with theirs:
            if self.mode == "plain":
                line = bubblewrap.start_line(str(bubblewrap.WORKER.parent), theirs.fileno(), "plain")
                wanted = {k: v for k, v in bubblewrap.ENVIRONMENT.items() if "THREAD" in k or "TORCH" in k}
                environment = {**os.environ, **wanted, "MPLBACKEND": "Agg"}
            else:
                line, environment = bubblewrap.command(theirs.fileno(), self.mode, self._hidden), {}
            # A pipe that nobody reads could fill up and block the zygote.
            self._words = tempfile.TemporaryFile()  # noqa: SIM115
            self._process = subprocess.Popen(
                line,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
            )
        self._zygotes[NONE], self._cold = ours, {NONE}
        if libraries:
            self.bring(libraries)

    def borrow(self) -> None:
        """Let a forked process use the sandbox that was running at the fork, but not end it."""
        self._is_mine, self._cold = False, set()  # the zygotes tell only the parent process that they are ready

    def start(self) -> None:
        """Start the zygote unless it runs, and wait until it is ready. Raises NoSandbox."""
        if self._process is None:
            self.launch()
        self._hear_ready()

    def _hear_ready(self) -> None:
        for libraries in sorted(self._cold, key=len):
            control = self._zygotes[libraries]
            control.settimeout(START_SECONDS)
            try:
                ready = control.recv(5)
            except TimeoutError:
                self.stop()
                late = f"the sandbox did not start within {START_SECONDS:g} seconds: this machine is too busy"
                raise NoSandbox(f"{late}; run it again later, and what is done is not done twice") from None
            except OSError:
                ready = b""
            if ready != b"ready":
                raise NoSandbox(_explain(self.mode, self._last_words()))
            control.settimeout(None)
            self._cold.discard(libraries)

    def bring(self, libraries: frozenset[str]) -> None:
        """Start a zygote that imports these, so that no submission spends its time on it; doesn't wait for it."""
        base = max((had for had in self._zygotes if had < libraries), key=len)
        ours, theirs = socket.socketpair(socket.AF_UNIX, self._zygotes[base].type)
        with theirs:
            order = {"libraries": sorted(libraries - base)}
            socket.send_fds(self._zygotes[base], [json.dumps(order).encode()], [theirs.fileno()])
        self._zygotes[libraries] = ours
        self._cold.add(libraries)

    def _last_words(self) -> str:
        """End the zygote; returns what it wrote to standard error."""
        words = os.pread(self._words.fileno(), 2**20, 0) if self._words is not None else b""
        self.stop()
        return words.decode(errors="replace")

    def stop(self) -> None:
        """End the zygote and all processes below it, unless it is borrowed."""
        for control in self._zygotes.values():
            control.close()
        if self._process is not None and self._is_mine:
            self._process.kill()
            self._process.wait()
        if self._words is not None:
            self._words.close()
        self._process = self._words = None
        self._zygotes, self._cold, self._is_mine = {}, set(), True
        self._groups = remove_all(self._groups, seconds=REMOVE_SECONDS)

    def prove(self) -> None:
        """Run a first, empty submission, because only this shows what the kernel refuses. Raises NoSandbox."""
        for hierarchy in (self.hierarchy, None) if self.hierarchy else (None,):
            self.hierarchy = hierarchy  # the second try has no control groups, in case they were the cause
            with contextlib.suppress(Lost), self.session([CellSource("first", "given", "pass")]) as session:
                if session.cells[0].status == "ran":
                    return
        raise NoSandbox(
            _explain(self.mode, self._last_words() or "a submission's process does not start: namespaces refused")
        )

    def session(self, cells: Sequence[CellSource]) -> Session:
        """Return a submission's session; use it as a context manager, which runs the cells on entry."""
        return Session(self, list(cells))

    def spawn(self, cpu_seconds: float, libraries: frozenset[str] = frozenset()) -> Spawned:
        """Start a fresh process for a submission. Raises Lost if the zygote is gone.

        cpu_seconds: the processor time that it and all processes it starts may use together.
        libraries: names of slow libraries that it finds imported.
        """
        to_live = self.limits.seconds_per_submission * self.limits.wall_clock_factor + SPARE_SECONDS
        order = {**asdict(self.limits), "seconds_to_live": to_live, "cpu_to_live": cpu_seconds, "uid": _user_id()}
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            channel, their_channel = socket.socketpair()
            lifeline, their_lifeline = socket.socketpair()
            for end in (channel, lifeline):
                ours.callback(end.close)
            for end in (their_channel, their_lifeline):
                theirs.callback(end.close)
            descriptors = [their_channel.fileno(), their_lifeline.fileno()]
            try:
                if self._process is None or (self._is_mine and self._process.poll() is not None):
                    self.stop()
                    self.start()
                if libraries not in self._zygotes:
                    self.bring(libraries)
                    self._hear_ready()
                group = self._group()
                for entrance in group.entrances() if group else ():
                    theirs.callback(os.close, entrance)
                    descriptors.append(entrance)
                socket.send_fds(self._zygotes[libraries], [json.dumps(order).encode()], descriptors)
            except OSError as error:
                if libraries != NONE and libraries in self._zygotes:
                    self._zygotes.pop(libraries).close()  # it may have ended, so the next submission gets another
                if not self._is_mine:
                    self.stop()  # from here on, this process has its own zygote
                raise Lost(str(error)) from None
            ours.pop_all()
        return Spawned(channel, lifeline, group)

    def _group(self) -> Group | None:
        """Return a control group for the next submission, if there can be one; removes those of ended submissions."""
        self._groups = remove_all(self._groups)
        if self.hierarchy is None:
            return None
        group = self.hierarchy.make(self.limits)
        self._groups.append(group)
        return group


def _user_id() -> int:
    """Return a user id that no other submission here has now, because the kernel counts processes by user."""
    number = os.getpid() * 64 + next(_started) % 64  # process ids stay below 2**22
    with contextlib.suppress(OSError, ValueError), open("/proc/self/uid_map", encoding="ascii") as file:
        first, _, count = (int(word) for word in file.readline().split())
        if count < 2**31:  # a container with few user ids: submissions get the upper half, and share if they must
            return first + count // 2 + number % max(count - count // 2, 1)
    return 2**30 + number


def _explain(mode: str, words: str) -> str:
    reason = next((line for line in reversed(words.strip().splitlines()) if line.strip()), "it said nothing")
    if mode == "plain":
        return f"the worker process does not start: {reason}"
    if "namespace" in reason or "uid map" in reason or "Permission" in reason:
        remedy = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        remedy += "kernel.apparmor_restrict_unprivileged_userns=0), or grade as root"
    else:
        remedy = "run `autograder doctor`"
    return f"no sandbox: bubblewrap does not start here ({reason[:200]}); {remedy}"


def sandbox_mode() -> str:
    """Return "root" or "user", whichever this process would use."""
    return "root" if os.geteuid() == 0 else "user"


@cache
def preflight() -> str | None:
    """Return in one line why no sandbox can run here, or None; some reasons show only when one starts."""
    if sys.platform != "linux":
        return "no sandbox: grading strangers' work needs Linux (use a container or a virtual machine)"
    if bubblewrap.program() is None:
        return "no sandbox: bubblewrap is not installed; run: sudo apt-get install bubblewrap (or your system's way)"
    from ..worker import seccomp

    if not seccomp.supported():
        return "no sandbox: this processor's system calls are not known to the filter; use x86_64 or aarch64"
    return None


def open_sandbox(limits: Limits | None = None, unsafe: bool = False, hidden: Sequence[str] = ()) -> Sandbox:
    """Return a sandbox, which is ready once entered; `unsafe` gives a plain process. Raises NoSandbox with the remedy.

    hidden: folders that no submission may see, even if they are inside folders that must be mounted.
    """
    reason = None if unsafe else preflight()
    if not hasattr(os, "fork"):
        reason = "a class is graded on Linux; on Windows, use WSL (https://learn.microsoft.com/windows/wsl)"
    if reason:
        raise NoSandbox(reason)
    return Sandbox(limits or Limits(), "plain" if unsafe else sandbox_mode(), hidden)


#: The default place of nbgrader's exchange.
EXCHANGE = "/usr/local/share/nbgrader/exchange"
CONFIGURATION = "nbgrader_config.py"


@cache
def unseen(root: Path) -> tuple[str, ...]:
    """Return the course's folder and nbgrader's exchange, wherever a configuration of course or machine puts it."""
    found = {str(root.resolve()), EXCHANGE}
    for folder in (str(root), *jupyter_config_path()):
        with contextlib.suppress(Exception):  # the code that needs the configuration says what is wrong with it
            place = PyFileConfigLoader(CONFIGURATION, path=folder).load_config()["Exchange"]["root"]
            found.add(str(Path(str(place)).expanduser().resolve()))
    return tuple(sorted(found))


def launched(root: Path, units: Sequence[str], limits: Limits, unsafe: bool) -> Sandbox:
    """Launch a sandbox that imports what submissions of these units need (none named: of any). Raises NoSandbox.

    It returns before the sandbox is ready; entering the sandbox waits for it, and the caller must stop it.
    """
    releases = [path for path in sorted((root / "notebooks").glob("*/*.ipynb")) if not units or path.stem in units]
    torch = any("import torch" in path.read_text(encoding="utf-8", errors="replace") for path in releases)
    sandbox = open_sandbox(limits, unsafe=unsafe, hidden=unseen(root))
    sandbox.launch(frozenset({"torch"} if torch else ()))
    return sandbox
