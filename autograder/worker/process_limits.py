"""Sets resource limits of the student's process, as far as the system has them."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None


def apply(order: dict[str, Any], processes: int | None) -> None:
    """Set this process's limits from `order`; see `running.limits.Limits` for the names.

    processes: how many there may be, or None for no limit. It works only if the user id or the user namespace is the
        student's own, because the kernel counts all processes of the user.
    """
    if resource is None:
        return
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": int(order["cpu_seconds"]),
        "RLIMIT_FSIZE": int(order["file_bytes"]),
        "RLIMIT_NOFILE": int(order["open_files"]),
        "RLIMIT_MEMLOCK": 0,
    }
    present = address_space()
    if present is not None:  # the libraries already map gigabytes, so the limit is added to those
        wanted["RLIMIT_AS"] = present + int(order["memory_bytes"])
    if processes is not None:
        wanted["RLIMIT_NPROC"] = processes
    for name, value in wanted.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        most = value + 1 if name == "RLIMIT_CPU" else value  # SIGXCPU, which says why, comes before SIGKILL
        if hard != resource.RLIM_INFINITY:
            value, most = min(value, hard), min(most, hard)
        with contextlib.suppress(OSError, ValueError):  # macOS refuses some of them
            resource.setrlimit(kind, (value, most))


def bound_cpu(seconds: float) -> None:
    """End this process after this much processor time, rounded up: by SIGXCPU, and a second later by SIGKILL."""
    if resource is None:
        return
    wanted, present = (math.ceil(seconds), math.ceil(seconds) + 1), resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(OSError, ValueError):
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)  # a cell may have set another handler
        pairs = zip(wanted, present, strict=True)
        least = [new if old == resource.RLIM_INFINITY else min(new, old) for new, old in pairs]
        resource.setrlimit(resource.RLIMIT_CPU, (least[0], least[1]))


def bound_data(size: int) -> None:
    """Let this process's own memory grow by `size` bytes; processes that it starts may call `unbound_data`."""
    if resource is None or not os.path.exists("/proc/self/statm"):
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        present = int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (present + size, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def unbound_data() -> None:
    """Lift the limit on this process's own memory as far as the system allows."""
    if resource is not None:
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def address_space() -> int | None:
    """Return the bytes of this process's address space, or None if the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
