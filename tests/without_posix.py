"""Runs Python without what Windows lacks: `python without_posix.py [-I] -c CODE`, or `-m MODULE ARGUMENT ...`.

What the standard library itself needs to start a process here stays: waitpid, poll and SIGKILL.
"""

from __future__ import annotations

import asyncio  # noqa: F401 (what is imported below looks at this system once, when it is imported)
import builtins
import io
import multiprocessing.connection  # noqa: F401
import os
import runpy
import select  # noqa: F401
import signal
import socket
import subprocess  # noqa: F401
import sys
import tempfile
import time

import IPython.core.interactiveshell  # noqa: F401
import jupyter_core.paths  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import rich.console  # noqa: F401
import scipy.special  # noqa: F401
import traitlets.config.application  # noqa: F401

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "syslog")
CALLS = {
    os: "fork forkpty geteuid getuid getgid getgroups setsid setpgid getpgid killpg pidfd_open sysconf "
    "register_at_fork setresuid setresgid setgroups O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_NOCTTY "
    "sched_getaffinity statvfs",
    signal: "SIGALRM SIGPROF SIGVTALRM SIGXCPU SIGCHLD SIGHUP setitimer getitimer alarm pthread_kill pthread_sigmask",
    socket: "AF_UNIX send_fds recv_fds SOCK_SEQPACKET SCM_RIGHTS",
    time: "pthread_getcpuclockid",
}
SCRIPT = os.path.abspath(__file__)


def strip() -> None:
    """Take everything of that kind away."""
    for name in MODULES:
        sys.modules[name] = None
    for module, names in CALLS.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    plain = io.open

    def opened(file, *args, **kwargs):
        if isinstance(file, (str, os.PathLike)) and os.fspath(file).startswith("/proc"):
            raise FileNotFoundError(2, "there is no /proc here", file)
        return plain(file, *args, **kwargs)

    builtins.open = opened


def wrapper(folder: str) -> str:
    """A program that starts such a Python, for whoever starts `sys.executable`."""
    path = os.path.join(folder, "python")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {sys.executable} {SCRIPT} "$@"\n')
    os.chmod(path, 0o755)
    return path


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "-I"]
    sys.path.pop(0)  # this folder
    if arguments[0] == "-m" or "'torch'" in arguments[1]:  # it looks at this system as well
        import torch  # noqa: F401
    strip()
    if arguments[0] == "-c":
        sys.argv = arguments
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        folder = tempfile.mkdtemp()
        sys.executable = wrapper(folder)
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
