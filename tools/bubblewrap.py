"""Installs bubblewrap, the sandbox that grading needs, with the system's own package manager."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

#: Package manager -> commands that install bubblewrap; the first of several refreshes lists and may fail.
MANAGERS = {
    "apt-get": (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", "bubblewrap"],
    ),
    "dnf": (["dnf", "install", "-q", "-y", "bubblewrap"],),
    "pacman": (["pacman", "-S", "--noconfirm", "--needed", "bubblewrap"],),
    "zypper": (["zypper", "--non-interactive", "install", "bubblewrap"],),
    "apk": (["apk", "add", "--no-cache", "bubblewrap"],),
}
TIME_LIMIT = 180


def remedy() -> str:
    """Return the command line that installs bubblewrap on this machine."""
    for manager, steps in MANAGERS.items():
        if shutil.which(manager):
            words = [word for word in steps[-1] if word not in ("-q", "-y", "--noconfirm", "--non-interactive")]
            return "sudo " + " ".join(words)
    return "install the package bubblewrap with your system's package manager"


def ensure(say: Callable[[str], None]) -> bool:
    """Install bubblewrap if that needs no password; otherwise say which line to run. Never raises."""
    if not sys.platform.startswith("linux") or shutil.which("bwrap"):
        return True
    manager = next((name for name in MANAGERS if shutil.which(name)), None)
    prefix = become_root()
    if manager and prefix is not None:
        say("installing bubblewrap, the sandbox that grading needs")
        for step in MANAGERS[manager]:
            run([*prefix, *step])
        if shutil.which("bwrap"):
            return True
    say(f"bubblewrap is not installed; grading other people's work needs it. Run: {remedy()}")
    return False


def become_root() -> list[str] | None:
    """Return the prefix that runs a command as root without a password; None if there is none."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and run(["sudo", "-n", "true"]):
        return ["sudo", "-n"]
    return None


def run(command: list[str], time_limit: float = TIME_LIMIT) -> bool:
    """Run a command without output and return whether it succeeded."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=time_limit,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
