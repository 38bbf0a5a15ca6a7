"""Runs one's own notebook in a plain process where there is no fork (Windows), with limits of time, not of memory."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ..records import Answer, CellSource
from ..worker.run_cells import STUCK
from ..worker.socket_frames import receive_frame
from .bubblewrap import ENVIRONMENT, WORKER
from .limits import Limits
from .sandbox import START_SECONDS, Sandbox, open_sandbox
from .sandbox_messages import Request, Transcript
from .submission_session import OUT_OF_CPU_TIME, TROUBLE, Lost, Session, Spawned

#: After an exercise that ended in one of these ways, the process can answer the next.
OVER = ("done", "absent", "broken")


def open_for_own_work(limits: Limits) -> Sandbox | PortableSandbox:
    """Return the sandbox that runs one's own notebook on this system; use it as a context manager."""
    return open_sandbox(limits, unsafe=True) if hasattr(os, "fork") else PortableSandbox(limits)


class PortableSandbox:
    """Starts a process for each notebook."""

    mode = "plain"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def __enter__(self) -> PortableSandbox:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def session(self, cells: Sequence[CellSource]) -> PortableSession:
        """Return a notebook's session; use it as a context manager, which runs the cells on entry."""
        return PortableSession(self, list(cells))

    def spawn(self, cpu_seconds: float, libraries: frozenset[str] = frozenset()) -> Spawned:
        """Start a fresh process. Raises Lost if none starts."""
        token, folder = secrets.token_hex(16), str(WORKER.parent)
        wanted = {name: value for name, value in ENVIRONMENT.items() if "THREAD" in name or "TORCH" in name}
        with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryFile() as words:
            call = f"plain_process.main({server.getsockname()[1]}, {token!r}, {sorted(libraries)})"
            code = (
                f"import sys; sys.path.insert(0, {folder!r}); from worker import plain_process; del sys.path[0]; {call}"
            )
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", code],
                env={**os.environ, **wanted, "MPLBACKEND": "Agg"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
            )
            try:
                return Spawned(_answered(server, process, token), Ending(process))
            except OSError:
                process.kill()
                process.wait()
                words.seek(0)
                last = words.read().decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise Lost(f"the process of the notebook does not start ({last[0][:200]})") from None


def _answered(server: socket.socket, process: subprocess.Popen[bytes], token: str) -> socket.socket:
    """Return the connection to the process that knows the token; connections from other processes are closed."""
    server.settimeout(1)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(TimeoutError):
            channel, _ = server.accept()
            with contextlib.suppress(*TROUBLE):
                if receive_frame(channel, time.monotonic() + 5)[0].get("token") == token:
                    return channel
            channel.close()
    raise TimeoutError


class Ending:
    """Serves as the lifeline that a sandbox has: closing it ends the process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def code(self) -> int | None:
        """Wait up to a second for the process to end by itself; returns its exit code, or None while it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1)
        return None


class PortableSession(Session):
    """Runs one notebook in one process, which also answers its exercises; a process that hangs is restarted."""

    @contextlib.contextmanager
    def _line(self, request: Request) -> Iterator[socket.socket]:
        self._send(request)
        yield self._channel

    def _conclude(self, transcript: Transcript, finished: str, deadline: float) -> Answer:
        how = self._how_it_ended() if finished == "closed" else ""
        if finished not in OVER or not self._child_ended(deadline):
            self._hang_up()
        return self._answer_of(transcript, finished, how, [], 0.0)

    def _how_it_ended(self) -> str:
        code = self._last_words().get("code")
        if code is None:
            return ""
        return OUT_OF_CPU_TIME if code == STUCK else f"signal {-code}" if code < 0 else f"exit {code}"

    def _last_words(self) -> dict[str, Any]:
        return {"code": self._lifeline.code()} if self._lifeline is not None else {}

    def _told(self) -> dict[str, Any]:
        return {}  # nothing counts the processor time of all processes
