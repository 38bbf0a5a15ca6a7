"""Control groups (cgroups): the kernel bounds the memory, processes and processor time of a submission as a whole."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path

from .limits import Limits

PREFIX = "attention-course-"
PERIOD = 100_000  # microseconds of processor time in as many of the clock: one core
_numbers = itertools.count()


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made. folders: controller -> the folder under which; in version 2 they are one."""

    version: int
    folders: dict[str, Path]

    def __str__(self) -> str:
        return f"cgroup v{self.version} ({', '.join(self.folders)})"

    def make(self, limits: Limits) -> Group:
        """A new, empty group with these limits. Raises OSError."""
        name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        group = Group([folder / name for folder in dict.fromkeys(self.folders.values())])
        try:
            for folder in group.folders:
                folder.mkdir()
            for controller, folder in self.folders.items():
                for file, value in _settings(self.version, controller, limits).items():
                    if (folder / name / file).exists():  # a kernel without swap has no limit for it
                        (folder / name / file).write_text(value, encoding="ascii")
        except OSError:
            group.remove()
            raise
        return group


@dataclass(frozen=True)
class Group:
    """One submission's control group: a folder, or in version 1 one for each controller."""

    folders: list[Path]

    def entrances(self) -> list[int]:
        """Open files: a process that writes "0" to each is in the group, wherever it sees the hierarchy from."""
        opened: list[int] = []
        try:
            for folder in self.folders:
                opened.append(os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return opened

    def memory_deaths(self) -> int:
        """How many processes of the group the kernel has ended for want of memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    words = (folder / name).read_text(encoding="ascii").split()
                    return int(dict(zip(words[::2], words[1::2], strict=False)).get("oom_kill", 0))
        return 0

    def remove(self) -> bool:
        """Whether it is gone; not while a process of it still ends."""
        gone = True
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                gone = False
        return gone


def _settings(version: int, controller: str, limits: Limits) -> dict[str, str]:
    """File -> what to write into it. The keeper's own limits are passed first where it is quick enough to see it."""
    memory = str(limits.memory_bytes * 3 // 2 + limits.scratch_bytes)
    if controller == "pids":
        return {"pids.max": str(limits.processes + 2)}
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        return dict.fromkeys(names, memory) if controller == "memory" else {"cpu.cfs_quota_us": str(PERIOD)}
    if controller == "memory":
        return {"memory.max": memory, "memory.swap.max": "0"}
    return {"cpu.max": f"{PERIOD} {PERIOD}"}


def remove_all(groups: list[Group], seconds: float = 0.0) -> list[Group]:
    """Remove the groups; returns those whose processes have not all ended after `seconds`."""
    deadline = time.monotonic() + seconds
    while groups := [group for group in groups if not group.remove()]:
        if time.monotonic() >= deadline:
            break
        time.sleep(0.005)
    return groups
