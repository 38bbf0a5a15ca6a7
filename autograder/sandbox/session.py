"""One submission as the host sees it: its cells are run, then each exercise is asked.

Nothing that a student's process does raises here. A process that dies or hangs is started again, without the cell in
which it did so, and what it did becomes an outcome or an answer.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

from ..dialogue import Answer, Failure, Request, Transcript
from ..worker.frames import BadFrame, Closed, FrameTimeout, receive_frame, send_frame
from ..worker.values import BadValue
from .cells import CellOutcome, CellSource

if TYPE_CHECKING:
    from .sandbox import Sandbox

RESTARTS = 3
GRACE_SECONDS = 5.0
TROUBLE = (BadFrame, BadValue, Closed, FrameTimeout, OSError, RecursionError)


class Lost(Exception):
    """The submission's process is gone."""


class Session:
    """A context manager; see `Sandbox.session`."""

    def __init__(self, sandbox: Sandbox, cells: list[CellSource]) -> None:
        self._sandbox, self._sources = sandbox, cells
        self._channel: socket.socket | None = None
        self._lifeline: socket.socket | None = None
        self._left_out: dict[str, CellOutcome] = {}
        self._ends = time.monotonic() + sandbox.limits.seconds_per_submission
        self.cells: list[CellOutcome] = []

    def __enter__(self) -> Session:
        self._run_cells()
        return self

    def __exit__(self, *_: Any) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        for end in (self._channel, self._lifeline):
            if end is not None:
                end.close()
        self._channel = self._lifeline = None

    def _run_cells(self) -> None:
        """Start a process and run the cells; start again without a cell that ended or blocked the process.

        Raises Lost where not even the first cell began, time and again: no student's code had run, so it is our fault.
        """
        begun = False
        for _ in range(RESTARTS + 1):
            outcomes: dict[str, CellOutcome] = dict(self._left_out)
            current: str | None = None
            try:
                self._channel, self._lifeline = self._sandbox.spawn()
                sources = [cell for cell in self._sources if cell.name not in self._left_out]
                order = {
                    "cells": [{"name": cell.name, "source": cell.source} for cell in sources],
                    "seconds_per_cell": self._sandbox.limits.seconds_per_cell,
                }
                send_frame(self._channel, order)
                while True:
                    header, _ = receive_frame(self._channel, self._deadline(self._sandbox.limits.seconds_per_cell))
                    begun = True
                    if header.get("event") == "ready":
                        break
                    index = header.get("index")
                    if type(index) is not int or not 0 <= index < len(sources):
                        raise BadFrame("index")
                    current = sources[index].name
                    if header.get("event") == "cell":
                        outcomes[current] = _outcome(current, header)
                        current = None
            except (*TROUBLE, Lost) as error:
                self._hang_up()
                if not begun:
                    continue
                if current is None or time.monotonic() > self._ends:
                    break
                status = "timeout" if isinstance(error, FrameTimeout) else "died"
                self._left_out[current] = CellOutcome(current, status)
                continue
            self.cells = [outcomes.get(cell.name, CellOutcome(cell.name, "skipped")) for cell in self._sources]
            return
        if not begun:
            raise Lost("the sandbox starts no processes any more; run `autograder doctor`")
        outcomes = {**outcomes, **self._left_out}
        self.cells = [outcomes.get(cell.name, CellOutcome(cell.name, "skipped")) for cell in self._sources]

    def _deadline(self, seconds: float) -> float:
        return min(time.monotonic() + seconds + GRACE_SECONDS, self._ends + GRACE_SECONDS)

    def ask(self, request: Request) -> Answer:
        """Ask one exercise, in a child process of the submission's own."""
        if time.monotonic() > self._ends:
            return Answer("timeout", "The notebook as a whole took too long; this function was not asked any more.")
        if self._channel is None:
            self._run_cells()
        if self._channel is None:
            return Answer("crashed", "The notebook ends its own process, so this function could not be asked.")
        transcript = Transcript(len(request.calls))
        ours, theirs = socket.socketpair()
        limits = self._sandbox.limits
        deadline = self._deadline(limits.seconds_per_exercise)
        with ours:
            try:
                with theirs:
                    self._send(request, theirs)
                finished = self._listen(ours, request, transcript, deadline)
            except FrameTimeout:
                finished = "timeout"
            except TROUBLE as error:
                finished = "garbled" if isinstance(error, (BadFrame, BadValue)) else "closed"
        return self._conclude(transcript, finished, deadline)

    def _send(self, request: Request, theirs: socket.socket) -> None:
        header = {
            "function": request.function,
            "calls": request.calls,
            "stand_ins": list(request.stand_ins),
            "seconds": self._sandbox.limits.seconds_per_exercise,
        }
        self._channel.settimeout(GRACE_SECONDS + self._sandbox.limits.seconds_per_exercise)
        send_frame(self._channel, header, request.payload)
        socket.send_fds(self._channel, [b"F"], [theirs.fileno()])

    def _listen(self, ours: socket.socket, request: Request, transcript: Transcript, deadline: float) -> str:
        received = 0
        while True:
            header, payload = receive_frame(ours, deadline)
            received += len(payload) + 1_000
            if received > self._sandbox.limits.reply_bytes:
                return "flood"
            if header.get("event") == "absent":
                return "absent"
            if header.get("event") == "ask":
                reply, data = request.reply(header, payload)
                ours.settimeout(GRACE_SECONDS)
                send_frame(ours, reply, data)
            elif transcript.take(header, payload):
                return "done"

    def _conclude(self, transcript: Transcript, finished: str, deadline: float) -> Answer:
        """Hear from the parent how the child ended; a parent that stays silent is ended with all it has."""
        how = ""
        try:
            header, _ = receive_frame(self._channel, deadline + GRACE_SECONDS)
            how = str(header.get("how", "")) if header.get("event") == "ended" else ""
        except TROUBLE:
            pass
        if not how:
            self._hang_up()
        answer = transcript.answer
        if finished == "done":
            return answer
        if finished == "absent":
            return Answer("missing", "The notebook defines no function of this name.")
        if finished == "timeout" or how == "timeout":
            seconds = self._sandbox.limits.seconds_per_exercise
            return Answer("timeout", f"It did not come to an end within {seconds:g} seconds.", answer.calls)
        reasons = {
            "flood": "It sent back far more than was asked for.",
            "garbled": "It wrote to the channel over which its results travel.",
        }
        reason = reasons.get(finished) or _death(how)
        return Answer("crashed", reason, answer.calls)


def _outcome(name: str, header: dict[str, Any]) -> CellOutcome:
    status = header.get("status")
    if status not in ("ran", "failed", "timeout"):
        raise BadFrame("status")
    error = header.get("error")
    failure = None
    if isinstance(error, dict):
        line = error.get("line")
        failure = Failure(
            str(error.get("type"))[:200], str(error.get("message"))[:2_000], line if type(line) is int else None
        )
    return CellOutcome(name, status, failure)


def _death(how: str) -> str:
    if how.startswith("signal"):
        known = {
            "9": "was killed, perhaps for want of memory",
            "11": "crashed (segmentation fault)",
            "24": "used too much time",
        }
        number = how.removeprefix("signal ")
        return f"Its process {known.get(number, 'was ended by ' + how)}."
    if how.startswith("exit"):
        return f"Its process ended itself ({how})."
    return "Its process died."
