"""Runs one submission from the host: first its cells, then each exercise.

Nothing that a student's process does raises an error here. A process that dies or hangs is restarted without the cell
in which it did so, and its failure becomes an outcome or an answer.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ..records import Answer, CellOutcome, CellSource
from ..worker.encode_values import BadValue
from ..worker.run_cells import STUCK
from ..worker.socket_frames import BadFrame, Closed, FrameTimeout, read_header, receive_bytes, receive_frame, send_frame
from ..worker.supervisor import SWEEP, TELL
from .control_groups import Group
from .grader_cpu_limit import Allowance, Overspent, charge, undisturbed
from .limits import Limits
from .sandbox_messages import QUESTIONS_CAP, Request, Transcript, order_of, outcome_of, slow_libraries

RESTARTS = 3
#: The host ends what takes too long; the student's process does so itself only after this many times the limit.
LATER = 3
TOO_LONG = "The notebook as a whole took too long"
#: Share of a submission's time for the student's own cells, which may train models; the exercises need the rest.
OWN_CELLS = 1 / 3
#: Share that must be left before rewritten versions of an answer run, because they improve a message, not a mark.
FOR_MARKS = 1 / 2
GRACE_SECONDS = 5.0
HEADER_CAP = 2**20
#: A letter of a header counts as this many bytes of the reply, because its value takes several times the memory.
LETTER_BYTES = 3
OUT_OF_CPU_TIME = f"signal {getattr(signal, 'SIGXCPU', 24):d}"
TROUBLE = (BadFrame, BadValue, Closed, FrameTimeout, OSError)


class Lost(Exception):
    """Raised when the submission's process is gone."""


@dataclass(frozen=True)
class Spawned:
    """Holds a submission's process: the channel to it, the lifeline to its supervisor, and its control group, if any.

    Closing the lifeline ends the process.
    """

    channel: socket.socket
    lifeline: Any
    group: Group | None = None


class Spawns(Protocol):
    """Describes a sandbox, which starts processes for submissions."""

    limits: Limits
    mode: str

    def spawn(self, cpu_seconds: float, libraries: frozenset[str]) -> Spawned: ...


class Session:
    """Runs one submission; a context manager that `Sandbox.session` makes."""

    def __init__(self, sandbox: Spawns, cells: list[CellSource]) -> None:
        self._sandbox, self._limits, self._sources = sandbox, sandbox.limits, cells
        self._channel: socket.socket | None = None
        self._lifeline: Any = None
        self._group: Group | None = None
        self._memory_deaths = 0
        self._cpu_seconds: float | None = None
        self._cpu_before = 0.0
        self._left_out: dict[int, CellOutcome] = {}
        self._ends = time.monotonic() + self._of_the_clock(self._limits.seconds_per_submission)
        self._libraries = slow_libraries(cells)
        self.cells: list[CellOutcome] = []

    def __enter__(self) -> Session:
        self._run_cells()
        return self

    def __exit__(self, *_: Any) -> None:
        self._hang_up()

    def _of_the_clock(self, seconds: float) -> float:
        """Return the wall-clock limit of work that may use `seconds` of processor time."""
        return seconds * self._limits.wall_clock_factor

    def _cpu_left(self) -> float:
        """Return the processor time that is left, after what the supervisors reported and what the host spent on it."""
        return self._limits.seconds_per_submission - self._cpu_before - (self._cpu_seconds or 0.0)

    def _is_over(self, share: float = 0.0) -> bool:
        """Return whether no more than this share of the submission's time is left."""
        least = share * self._limits.seconds_per_submission
        return time.monotonic() + self._of_the_clock(least) > self._ends or self._cpu_left() <= least

    def _hang_up(self) -> None:
        """End the submission's process; closing the lifeline also ends everything that it started."""
        for end in (self._channel, self._lifeline):
            if end is not None:
                end.close()
        self._channel = self._lifeline = None
        self._cpu_before, self._cpu_seconds = self._cpu_before + (self._cpu_seconds or 0.0), None

    def _run_cells(self) -> None:
        """Start a process and run the cells; start again without a cell that ended or blocked the process.

        Raises Lost if the first cell never began in several tries: no student code had run, so the grader is at fault.
        """
        outcomes = dict(self._left_out)
        for attempt in range(RESTARTS + 1):
            if len(self._left_out) > RESTARTS:
                break
            outcomes = dict(self._left_out)
            try:
                culprit = self._run_through(outcomes)
            except Lost:
                if attempt == RESTARTS:
                    raise
                continue
            if culprit is None or self._is_over():
                break
            self._left_out[culprit.index] = outcomes[culprit.index] = culprit.outcome
        self.cells = [
            outcomes.get(index, CellOutcome(cell.name, "skipped")) for index, cell in enumerate(self._sources)
        ]

    def _run_through(self, outcomes: dict[int, CellOutcome]) -> _Culprit | None:
        """Run all cells that are not left out in a fresh process; returns the cell in which it ended, if it did."""
        wanted = [index for index in range(len(self._sources)) if index not in self._left_out]
        sources = [self._sources[index] for index in wanted]
        cells = [order_of(cell, self._libraries) for cell in sources]
        seconds = {
            "seconds_per_cell": self._limits.seconds_per_cell,
            "seconds_for_own_cells": self._limits.seconds_per_submission * OWN_CELLS,
            "wall_clock_factor": self._limits.wall_clock_factor,
        }
        begun, current = False, None
        try:
            spawned = self._sandbox.spawn(self._cpu_left(), self._libraries)
            self._channel, self._lifeline, self._group = spawned.channel, spawned.lifeline, spawned.group
            self._memory_deaths = 0
            self._channel.settimeout(GRACE_SECONDS)
            send_frame(self._channel, {"cells": cells, **seconds})
            for position, index in enumerate(wanted):
                self._hear("begin", position, self._deadline(GRACE_SECONDS))
                begun, current = True, index
                header = self._hear("cell", position, self._deadline(self._of_the_clock(self._limits.seconds_per_cell)))
                outcomes[index] = outcome_of(self._sources[index].name, header)
            begun = True
            self._hear("ready", None, self._deadline(GRACE_SECONDS))
            return None
        except TROUBLE as error:
            gone = isinstance(error, (Closed, OSError))
            words = self._last_words() if gone else self._told()
            self._hang_up()
            if not begun:
                raise Lost("the sandbox starts no processes any more; run `autograder doctor`") from None
            if current is None:
                return None
            late = isinstance(error, FrameTimeout) or words.get("code") == STUCK or words.get("how") == "time"
            status = "timeout" if late else "died"
            return _Culprit(current, CellOutcome(self._sources[current].name, status))

    def _hear(self, event: str, index: int | None, deadline: float) -> dict[str, Any]:
        header, _ = receive_frame(self._channel, deadline, HEADER_CAP, 0)
        if header.get("event") != event or header.get("index") != index:
            raise BadFrame(f"where {event} was due")
        return header

    def _deadline(self, seconds: float) -> float:
        return min(time.monotonic() + seconds, self._ends) + GRACE_SECONDS

    def ask(self, request: Request) -> Answer:
        """Run one exercise in a child process of the submission."""
        with undisturbed():
            answer = self._ask(request)
            if answer.status == "crashed" and not answer.calls and self._channel is None:
                answer = self._ask(request)  # the previous exercise may have broken the notebook's process
            return answer

    def _ask(self, request: Request) -> Answer:
        if self._is_over(0.0 if request.for_marks else FOR_MARKS):
            return Answer("timeout", f"{TOO_LONG}, so this function was not tested any more.")
        if self._channel is None:
            self._run_cells()
        if self._channel is None:
            return Answer("crashed", "The notebook ends its own process, so this function could not be asked.")
        if self._cpu_seconds is None:
            self._told()  # what the cells have used doesn't count for this exercise
        transcript = request.transcript()
        deadline = self._deadline(self._of_the_clock(self._limits.seconds_per_exercise))
        began = time.thread_time()
        try:
            with self._line(request) as ours:
                listen = partial(self._listen, ours, request, transcript, deadline)
                finished = Allowance(self._limits.seconds_per_exercise).run(listen)
        except Overspent:
            finished = "overspent"
        except FrameTimeout:
            finished = "timeout"
        except (Closed, OSError):
            finished = "closed"
        except MemoryError:
            finished = "broken"
        except Exception:  # untrusted frames may cause any error in the code that reads them
            finished = "garbled"
        self._cpu_before += time.thread_time() - began
        return self._conclude(transcript, finished, deadline)

    @contextlib.contextmanager
    def _line(self, request: Request) -> Iterator[socket.socket]:
        """Send a request; gives the socket on which its answer arrives."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._send(request)
                socket.send_fds(self._channel, [b"F"], [theirs.fileno()])
            yield ours

    def _send(self, request: Request) -> None:
        told = request.header()
        seconds = min(self._limits.seconds_per_exercise, told.get("seconds", self._limits.seconds_per_exercise))
        later = 1 if self._sandbox.mode == "plain" else LATER
        clock = self._of_the_clock(seconds) * later
        header = {**told, "seconds": seconds, "seconds_of_the_clock": clock}
        self._channel.settimeout(GRACE_SECONDS)
        send_frame(self._channel, header, request.payload)

    def _listen(self, ours: socket.socket, request: Request, transcript: Transcript, deadline: float) -> str:
        """Take frames until the exercise is over; returns how it ended."""
        left = self._limits.reply_bytes
        while True:
            text, payload = receive_bytes(ours, deadline, HEADER_CAP)
            left -= LETTER_BYTES * len(text) + len(payload) + 1_000
            if left < 0:
                return "flood"
            header = read_header(text)
            event = header.get("event")
            if event in ("absent", "broken"):
                return str(event)
            if event == "ask" and request.is_endless:
                return "endless"
            if event == "ask":
                began = time.monotonic()
                reply, data = request.reply(header, payload)
                time.sleep(request.pause(header, time.monotonic() - began))
                ours.settimeout(GRACE_SECONDS)
                send_frame(ours, reply, data)
                deadline = min(deadline + time.monotonic() - began, self._ends + GRACE_SECONDS)  # the host's own time
            elif transcript.take(header, payload):
                return "done"

    def _conclude(self, transcript: Transcript, finished: str, deadline: float) -> Answer:
        """Find out how the child ended and kill what it left running; ends a process that doesn't reply."""
        how = self._child_ended(time.monotonic() + 1) if finished == "closed" else ""
        before = self._cpu_seconds
        excess = self._sweep()
        used = self._cpu_seconds - before if None not in (before, self._cpu_seconds) else 0.0
        charge(used)
        if self._memory_ran_out():
            excess.append("memory")
        how = how or self._child_ended(deadline + GRACE_SECONDS)
        if not how:
            self._hang_up()
        return self._answer_of(transcript, finished, how, excess, used)

    def _answer_of(self, transcript: Transcript, finished: str, how: str, excess: list[str], used: float) -> Answer:
        """Return the answer of an exercise that is over.

        how: how the child ended, if it did. excess: the limits that were exceeded. used: seconds of processor time.
        """
        answer = transcript.answer
        if finished == "done":  # all is answered; if the notebook's process is gone, the next exercise restarts it
            return answer
        if finished == "absent":
            return Answer("missing", "The notebook defines no function of this name.")
        if finished == "endless":
            asked = f"Your code called the functions it was given more than {QUESTIONS_CAP:,} times."
            return Answer("timeout", asked, answer.calls)
        if "time" in excess:
            return Answer("timeout", f"{TOO_LONG}, and this function was being tested then.", answer.calls)
        seconds = self._limits.seconds_per_exercise
        if finished == "overspent":
            within = f"more than {seconds:g} seconds of the grader's own processor time"
            return Answer("timeout", f"Your code's calls of the functions it was given take {within}.", answer.calls)
        spent = how == OUT_OF_CPU_TIME or used >= seconds
        if (spent or finished == "timeout" or how == "timeout") and "memory" not in excess:
            # after that, the host has only waited for a process that was killed
            within = f"{seconds:g} seconds of processor time" if spent else f"{self._of_the_clock(seconds):g} seconds"
            return Answer("timeout", f"Your code did not finish within {within}.", answer.calls)
        return Answer("crashed", self._death(finished, how, excess), answer.calls)

    def _child_ended(self, deadline: float) -> str:
        """Return how the process says that its child ended, or "" if it sends nothing valid."""
        if self._channel is None:
            return ""
        try:
            how = self._hear("ended", None, deadline).get("how")
        except TROUBLE:
            return ""
        return how if isinstance(how, str) and re.fullmatch(r"(signal|exit) \d{1,3}|timeout|no child", how) else ""

    def _sweep(self) -> list[str]:
        """Have the supervisor kill what the exercise left running; returns the limits that were exceeded meanwhile."""
        try:
            self._lifeline.settimeout(GRACE_SECONDS)
            self._lifeline.sendall(SWEEP)
        except OSError:
            pass  # it has ended, but its last frame can still be read
        words = self._last_words()
        if words.get("event") == "swept":
            return list(words["excess"])
        self._hang_up()
        return [str(words.get("how"))]

    def _told(self) -> dict[str, Any]:
        """Ask the supervisor for the processor time used so far; returns its frame."""
        with contextlib.suppress(OSError, AttributeError):  # it has ended, but its last frame can still be read
            self._lifeline.settimeout(GRACE_SECONDS)
            self._lifeline.sendall(TELL)
        return self._last_words()

    def _memory_ran_out(self) -> bool:
        """Return whether the kernel has killed a process of this submission for lack of memory since the last call."""
        before = self._memory_deaths
        self._memory_deaths = self._group.memory_deaths() if self._group is not None else 0
        return self._memory_deaths > before

    def _last_words(self) -> dict[str, Any]:
        """Return the next frame of the supervisor, which can be trusted, or {} if there is none."""
        if self._lifeline is None:
            return {}
        try:
            words = receive_frame(self._lifeline, time.monotonic() + GRACE_SECONDS)[0]
        except TROUBLE:
            return {}
        if words.get("cpu") is not None:
            self._cpu_seconds = float(words["cpu"])
        return words

    def _death(self, finished: str, how: str, excess: list[str]) -> str:
        """Return one sentence for the student on why the exercise ended early."""
        kind, _, number = how.partition(" ")
        if "memory" in excess:
            return f"Your code used more than the {self._limits.memory_bytes / 2**20:.0f} MiB of memory it has."
        if "processes" in excess or how == "no child":
            return f"Your code started more than {self._limits.processes} processes."
        if finished == "flood":
            return f"Your code returned more than {self._limits.reply_bytes / 2**20:.0f} MiB in all."
        if finished == "garbled":
            return "Your code wrote to the channel over which its results travel."
        if finished == "broken":
            return "What your code returned could not be read."
        if kind == "signal":
            known = {signal.SIGSEGV: "crashed (segmentation fault)", signal.SIGABRT: "crashed (abort)"}
            return f"The process of your code {known.get(int(number), f'was ended by signal {number}')}."
        return f"The process of your code ended itself ({how})." if kind == "exit" else "The process of your code died."


@dataclass(frozen=True)
class _Culprit:
    """Holds the cell in which a process ended."""

    index: int
    outcome: CellOutcome
