"""Finds where this process may make control groups (cgroups), and makes one with limits for each submission."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from .limits import Limits

PREFIX = "attention-course-"
PERIOD = 100_000  # microseconds of processor time in as many of wall-clock time: one core
_numbers = itertools.count()


@dataclass(frozen=True)
class Hierarchy:
    """Says where groups can be made. folders: controller -> parent folder of its groups; one for all in version 2."""

    version: int
    folders: dict[str, Path]

    def __str__(self) -> str:
        return f"cgroup v{self.version} ({', '.join(self.folders)})"

    def make(self, limits: Limits) -> Group:
        """Make a new, empty group with these limits. Raises OSError."""
        name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        group = Group([folder / name for folder in dict.fromkeys(self.folders.values())])
        try:
            for folder in group.folders:
                folder.mkdir()
            for controller, folder in self.folders.items():
                for file, value in _settings(self.version, controller, limits).items():
                    if (folder / name / file).exists():  # a kernel without swap has no file for its limit
                        (folder / name / file).write_text(value, encoding="ascii")
        except OSError:
            group.remove()
            raise
        return group


@dataclass(frozen=True)
class Group:
    """Represents one submission's control group: one folder, or in version 1 one for each controller."""

    folders: list[Path]

    def entrances(self) -> list[int]:
        """Return file descriptors: a process joins the group by writing "0" to each, whatever its cgroup namespace."""
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
        """Return how many processes of the group the kernel has killed because memory ran out."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    words = (folder / name).read_text(encoding="ascii").split()
                    return int(dict(zip(words[::2], words[1::2], strict=False)).get("oom_kill", 0))
        return 0

    def remove(self) -> bool:
        """Remove the group; returns whether it is gone, which it isn't while one of its processes is still ending."""
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
    """Return file -> what to write into it; the supervisor has lower limits, to act first if it is quick enough."""
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


NEEDED = ("memory", "pids")
OPTIONAL = ("cpu",)
ASKED = "AUTOGRADER_SCOPE"
#: This process moves into a subgroup of this name, so that its own group can have others.
GRADER = f"{PREFIX}grader"


def find() -> Hierarchy | None:
    """Return where this process may make groups, or None; removes groups that killed runs left there."""
    if sys.platform != "linux":
        return None
    found = _version_2() or _version_1()
    if found is not None:
        for folder in set(found.folders.values()):
            _clear(folder)
    return found


def _version_2() -> Hierarchy | None:
    own = _own_folder("")
    if own is None:
        return None
    if own.name != GRADER:
        _divide(own)
    for folder in (own, *own.parents):
        if not (folder / "cgroup.procs").exists():
            return None  # above the hierarchy
        present = _words(folder / "cgroup.subtree_control")
        if present >= set(NEEDED) and _is_ours(folder):
            return Hierarchy(2, {name: folder for name in (*NEEDED, *OPTIONAL) if name in present})
    return None


def _divide(folder: Path) -> None:
    """Move this process into a subgroup if its group holds no other: a group with processes can't limit subgroups."""
    present = _words(folder / "cgroup.controllers")
    alone = _words(folder / "cgroup.procs") == {str(os.getpid())}
    if alone and present >= set(NEEDED) and _is_ours(folder):
        wanted = " ".join(f"+{name}" for name in (*NEEDED, *OPTIONAL) if name in present)
        with contextlib.suppress(OSError):
            (folder / GRADER).mkdir(exist_ok=True)
            (folder / GRADER / "cgroup.procs").write_text("0", encoding="ascii")
            (folder / "cgroup.subtree_control").write_text(wanted, encoding="ascii")


def _version_1() -> Hierarchy | None:
    folders = {name: _own_folder(name) for name in (*NEEDED, *OPTIONAL)}
    usable = {name: folder for name, folder in folders.items() if folder is not None and _is_ours(folder)}
    return Hierarchy(1, usable) if set(usable) >= set(NEEDED) else None


def _own_folder(controller: str) -> Path | None:
    """Return this process's folder in the hierarchy of a version 1 controller, or of version 2 for ""."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, place = line.split(":", 2)
            if controller in names.split(","):
                for top, mounted in _mounts(controller):
                    within = os.path.relpath(place, top)
                    if not within.startswith(".."):
                        return mounted / within
    return None


def _mounts(controller: str) -> list[tuple[str, Path]]:
    """Return which folder of the hierarchy is mounted, and where, for each of its mounts."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if (kind == "cgroup2") if not controller else (kind == "cgroup" and controller in options.split(",")):
            found.append((place.split()[3], Path(place.split()[4])))
    return found


def _is_ours(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _words(path: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return set(path.read_text(encoding="ascii").split())
    return set()


def _clear(folder: Path) -> None:
    for left in folder.glob(f"{PREFIX}*-*"):
        if not Path("/proc", left.name.removeprefix(PREFIX).split("-")[0]).exists():
            with contextlib.suppress(OSError):
                left.rmdir()


def claim() -> None:
    """Get this command its own part of the hierarchy, if possible; call it before anything else is started.

    Under systemd, it restarts this command in a scope of its own, which the command may divide.
    """
    if ASKED not in os.environ and os.path.isdir("/run/systemd/system"):
        _start_again_in_scope()
    find()  # divides the group, which works only while no other process is in it


def _start_again_in_scope() -> None:
    program = shutil.which("systemd-run")
    if program is None:
        return
    line = [program, "--scope", "--quiet", "--collect", "--property=Delegate=yes"]
    if os.geteuid() != 0:
        line.append("--user")
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        tried = subprocess.run([*line, "true"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
        if tried.returncode == 0:
            sys.stdout.flush()
            sys.stderr.flush()
            os.execve(program, [*line, sys.executable, *sys.orig_argv[1:]], {**os.environ, ASKED: "1"})
