"""Runs a student's cells, then forks a child process for every exercise.

Once the first cell has run, nothing in this process can be trusted. All it can do is send arrays, and the host decides
what they are worth.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from . import linux, process_limits
from .call_function import answer_of_host, describe_error, host_function, perform
from .call_monitor import Lookout
from .instructor_tests import OwnTests
from .random_draws import seed_numpy, seed_python
from .restore_state import ModuleSnapshot, NamespaceSnapshot
from .run_cells import Cells
from .run_rewritten import perform_rewritten
from .socket_frames import BadFrame, Closed, FrameTimeout, receive_frame, send_frame

#: The time of a student's own cell when earlier ones have used up the time for all.
LEAST_SECONDS = 0.5


class Time:
    """Tracks the processor time that is left, and the wall-clock time, of which there is `factor` times as much."""

    def __init__(self, seconds: float, factor: float) -> None:
        self._factor = factor
        self._left, self._left_of_the_clock = seconds, factor * seconds

    def share(self, seconds: float) -> tuple[float, float]:
        """Return the processor time and wall-clock time of one part: from `seconds`, or what is left."""
        least = LEAST_SECONDS
        return (
            min(seconds, max(self._left, least)),
            self._factor * min(seconds, max(self._left_of_the_clock / self._factor, least)),
        )

    @contextlib.contextmanager
    def spent(self) -> Iterator[None]:
        """Subtract the time that the `with` block takes from the time that is left."""
        began, started = sum(os.times()[:4]), time.monotonic()
        yield
        self._left -= sum(os.times()[:4]) - began
        self._left_of_the_clock -= time.monotonic() - started


@dataclass
class Notebook:
    """Holds what the cells of a notebook have defined, for its exercises.

    given: the notebook's own functions, each with its code, which a cell may have replaced since.
    """

    namespace: dict[str, Any]
    tests: OwnTests
    moments: dict[str, NamespaceSnapshot] = field(default_factory=dict)
    given: dict[str, tuple[FunctionType, CodeType]] = field(default_factory=dict)

    def answer(self, request: dict[str, Any], payload: bytes, reply: socket.socket) -> None:
        """Answer one exercise, or run one of the instructor's own tests, in this process."""
        if "test" in request:
            reseed()
            send_frame(reply, self.tests.outcome(request["test"]))
        else:
            answer_here(request, payload, reply, self.namespace, self.moments, self.given)


def run_cells(channel: socket.socket, namespace: dict[str, Any], transform: Any) -> Notebook:
    """Run the cells in the first frame, and report how each went."""
    reseed()
    order, _ = receive_frame(channel)
    cells, factor = Cells(namespace, transform), float(order["wall_clock_factor"])
    seconds, own = float(order["seconds_per_cell"]), Time(float(order["seconds_for_own_cells"]), factor)
    notebook = Notebook(namespace, OwnTests(namespace, transform))
    for index, cell in enumerate(order["cells"]):
        send_frame(channel, {"event": "begin", "index": index})
        before = {**namespace}
        with own.spent() if cell["own"] else contextlib.nullcontext():
            report = cells.run(cell, *(own.share(seconds) if cell["own"] else (seconds, factor * seconds)))
        if cell["given"]:
            notebook.given |= functions_of(cell, namespace, before)
        tested = str(cell["tested"])
        if callable(namespace.get(tested)):
            notebook.moments[tested] = NamespaceSnapshot(tested, namespace)
        notebook.tests.keep(cell["tests"])
        send_frame(channel, {"event": "cell", "index": index, **report})
    send_frame(channel, {"event": "ready"})
    return notebook


def serve(channel: socket.socket, namespace: dict[str, Any], transform: Any) -> None:
    """Run the cells in the first frame, then answer requests until the host closes the channel."""
    bring_back_ours = ModuleSnapshot(__package__).bring_back
    notebook = run_cells(channel, namespace, transform)
    while True:
        try:
            request, payload = receive_frame(channel)
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        except (Closed, FrameTimeout, BadFrame, OSError):
            return
        bring_back_ours()
        with socket.socket(fileno=descriptors[0]) as reply:
            how = answer_in_a_child(notebook, request, payload, channel, reply)
        send_frame(channel, {"event": "ended", "how": how})


def functions_of(
    cell: dict[str, Any], namespace: dict[str, Any], before: dict[str, Any]
) -> dict[str, tuple[FunctionType, CodeType]]:
    """Return the functions that a cell has just defined: new objects whose code comes from that cell."""
    new = {name: value for name, value in namespace.items() if before.get(name) is not value}
    found = {name: (value, value.__code__) for name, value in new.items() if type(value) is FunctionType}
    return {name: each for name, each in found.items() if each[1].co_filename == f"<cell {cell['name']}>"}


def answer_in_a_child(
    notebook: Notebook, request: dict[str, Any], payload: bytes, channel: socket.socket, reply: socket.socket
) -> str:
    """Answer one exercise in a child process; returns how the child ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else the child's end may go unnoticed
    try:
        child = os.fork()
    except OSError:  # the cells left too many processes running
        return "no child"
    if child == 0:
        status = 1
        try:
            channel.close()  # one exercise can neither read nor spoil what belongs to the next
            os.setpgid(0, 0)
            if sys.platform == "linux":
                linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
                linux.drop_mark()  # the child can no longer open the notebook's memory, even as the same user
            process_limits.bound_cpu(float(request["seconds"]))
            notebook.answer(request, payload, reply)
            status = 0
        except (BrokenPipeError, ConnectionResetError):
            pass  # the host has stopped listening
        except BaseException as error:
            send_frame(reply, {"event": "broken", "error": describe_error(error)})
        finally:
            os._exit(status)
    reply.close()  # so that the host notices at once when the child ends
    deadline = time.monotonic() + float(request["seconds_of_the_clock"])
    ended = _wait(child, deadline)
    _end(child)
    if ended is None:
        os.waitpid(child, 0)
        return "timeout"
    code = os.waitstatus_to_exitcode(ended)
    return f"signal {-code}" if code < 0 else f"exit {code}"


def _wait(child: int, deadline: float) -> int | None:
    """Return the status with which the child ends, or None at the deadline."""
    with contextlib.ExitStack() as stack:
        bell, pause = select.poll(), 0.0005
        try:
            descriptor = os.pidfd_open(child)
        except (AttributeError, OSError):  # not on Linux: it has to poll
            descriptor = None
        else:
            stack.callback(os.close, descriptor)
            bell.register(descriptor, select.POLLIN)
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            left = deadline - time.monotonic()
            if done:
                return status
            if left < 0:
                return None
            if descriptor is not None:
                bell.poll(1000 * left + 1)
            else:
                time.sleep(pause)
                pause = min(2 * pause, 0.01)


def answer_here(
    request: dict[str, Any],
    payload: bytes,
    reply: socket.socket,
    namespace: dict[str, Any],
    moments: dict[str, NamespaceSnapshot],
    given: dict[str, tuple[FunctionType, CodeType]],
) -> None:
    """Answer one exercise in this process. given: the notebook's own functions with their original code."""
    reseed()
    for own, code in given.values():
        own.__code__ = code
    name = str(request["function"])
    for moment in moments.values():
        moment.bring_back_function(namespace)
    if name in moments:
        moments[name].bring_back_rest(namespace)

    def send(header: dict[str, Any], data: bytes) -> None:
        send_frame(reply, header, data)

    def ask(header: dict[str, Any], data: bytes) -> Any:
        send_frame(reply, header, data)
        return answer_of_host(*receive_frame(reply))

    for stand_in in request["stand_ins"]:
        namespace[stand_in] = host_function(stand_in, ask, request.get("library") == "torch")
    if request.get("sources"):
        perform_rewritten(request["sources"], name, namespace, request["calls"], payload, send, ask)
        return
    function = namespace.get(name)
    if not callable(function):
        send({"event": "absent"}, b"")
        return
    functions = {called: own for called, (own, _) in given.items()}
    lookout = Lookout(request["forbidden"], lambda used: send({"event": "forbidden", "name": used}, b""), functions)
    perform(function, request["calls"], payload, send, ask, lookout)


def _end(child: int) -> None:
    """Kill what the child left running in its process group."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)


def reseed() -> None:
    """Give this process random numbers of its own, because a fork copies the state of every generator."""
    seed = int.from_bytes(os.urandom(4), "little")
    seed_python(seed)  # by the worker's own names, because a cell may say `random.seed = 42`
    seed_numpy(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)  # there is no other device here
