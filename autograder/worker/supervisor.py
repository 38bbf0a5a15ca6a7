"""Supervises the student's process from process 1 of its namespace, which runs no student code.

It obeys only the lifeline. When the host closes that, it ends, and with it everything that the student started. When
the host asks, it sweeps, which kills every process but the student's first one. It also reports the processor time of
all. In between, it checks memory, processes and that time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from .socket_frames import send_frame

POLL_SECONDS = 0.05
SWEEP_SECONDS = 2.0
SWEEP, TELL = b"s", b"t"
GONE = [b"X"] + 14 * [b"0"]


def keep(student: int, lifeline: socket.socket, order: dict[str, Any], alone: bool) -> None:
    """Supervise until the student's process has ended or must end; the last frame on the lifeline says why.

    alone: whether this is process 1 of a process namespace, so that all other processes are the student's.
    """
    deadline = time.monotonic() + float(order["seconds_to_live"])
    excess: list[str] = []
    how, code, used = "ended", None, None
    while True:
        code = _reap(student)
        if code is not None:
            break
        if select.select([lifeline], [], [], POLL_SECONDS)[0]:
            asked = lifeline.recv(1)
            if not asked:
                break  # the host has closed the lifeline
            used = cpu_seconds(student, alone)
            if asked == TELL:
                send_frame(lifeline, {"event": "told", "cpu": used})
                continue
            swept = not alone or sweep(student)
            send_frame(lifeline, {"event": "swept", "excess": excess, "cpu": used})
            excess = []
            if not swept:
                how = "processes"
                break
        used = cpu_seconds(student, alone)
        if time.monotonic() > deadline or (used is not None and used > float(order["cpu_to_live"])):
            how = "time"
            break
        found = _excess(order) if alone else None
        if found and (found in excess or not sweep(student) or _excess(order)):
            how = found  # killing its children has not helped, or new ones have appeared
            break
        if found:
            excess.append(found)
    with contextlib.suppress(OSError):
        os.kill(student, signal.SIGKILL)
    with contextlib.suppress(OSError):
        send_frame(lifeline, {"event": "over", "how": how, "code": code, "cpu": used})


def _reap(student: int) -> int | None:
    """Reap ended processes, orphans included; returns the student's exit code once it has one (-N for signal N)."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if ended == 0:
            return None
        if ended == student:
            return os.waitstatus_to_exitcode(status)


def sweep(student: int) -> bool:
    """Kill every process of the namespace except this one and the student's original one.

    Returns False if others keep coming.
    """
    deadline = time.monotonic() + SWEEP_SECONDS
    while others := [pid for pid in _living() if pid not in (1, student)]:
        for blow in (signal.SIGSTOP, signal.SIGKILL):  # a stopped process can't fork
            for pid in others:
                with contextlib.suppress(OSError):
                    os.kill(pid, blow)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    with contextlib.suppress(OSError):
        os.kill(student, signal.SIGCONT)  # one of them may have stopped it
    return True


def _living() -> list[int]:
    """Return the processes of this namespace that have not ended."""
    return [pid for pid in _processes() if _status(pid)[0] not in (b"Z", b"X")]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _status(pid: int) -> list[bytes]:
    """Return the fields of a process's stat file from its state on; one that is gone is dead and has used nothing."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split() or GONE
    return GONE


def _excess(order: dict[str, Any]) -> str | None:
    """Return which limit all processes together have exceeded: "processes", "memory" or None."""
    students = [pid for pid in _living() if pid != 1]
    if len(students) > int(order["processes"]):
        return "processes"
    limit = int(order["memory_bytes"]) * 3 // 2
    if sum(_resident(pid) for pid in students) <= limit:  # this is quick to compute, and never too small
        return None
    return "memory" if sum(_proportional(pid) for pid in students) > limit else None


def cpu_seconds(student: int, alone: bool) -> float | None:
    """Return the processor time of the student's processes, ended ones included; None if the system does not say.

    It excludes the time of this process itself. Unless `alone`, it covers only the student's first process.
    """
    if sys.platform != "linux":
        return None
    ticks = [_status(pid)[13 if pid == 1 else 11 : 15] for pid in (_processes() if alone else [student])]
    return sum(int(number) for numbers in ticks for number in numbers) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _proportional(pid: int) -> int:
    """Return the bytes that a process holds; a page that several share is divided among them, so that no fork hides it.

    If a process hides this number, everything that it shares counts in full.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except PermissionError:
        return _resident(pid)
    except OSError:
        return 0  # it has ended
    return sum(int(words[1]) * 1024 for words in lines if words[0] in ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
