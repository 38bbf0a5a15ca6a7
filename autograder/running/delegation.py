"""Where this process may make control groups. Where it may not, rlimits and the keeper's watching hold alone.

Version 2 where a part of the hierarchy is this user's to divide (a systemd scope with delegation, a container's own
hierarchy, root's), or version 1 as root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .groups import PREFIX, Hierarchy

NEEDED = ("memory", "pids")
OPTIONAL = ("cpu",)
ASKED = "AUTOGRADER_SCOPE"
#: Where this process goes, so that its own group can be divided.
GRADER = f"{PREFIX}grader"


def find() -> Hierarchy | None:
    """Where this process may make groups, or None. Removes what runs that were killed have left there."""
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
    """Make a group that holds this process alone one under which there can be others: those with processes cannot."""
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
    """This process's place in the hierarchy of a controller of version 1, or in version 2 for ""."""
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
    """Where the hierarchy is mounted: which folder of it, and where."""
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
    """Get this command a part of the hierarchy for groups, if that can be: call it before anything else is started.

    Where systemd runs, it starts this very command again in a scope of its own, which it may divide.
    """
    if ASKED not in os.environ and os.path.isdir("/run/systemd/system"):
        _start_again_in_scope()
    find()  # divides it, which only a process that is alone in it can do


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
