"""Imports the slow libraries once, then forks a process for every submission: this is the zygote.

It never reads a byte that a student influenced. The host sends an order and two sockets: the channel to the student's
process and a lifeline. The submission may run while the lifeline is open; when it closes, all its processes are killed.
If the host has made a control group for the submission, the files to join it follow.

Forking takes several times as long once a process has imported torch. So a submission that needs a slow library is
forked from a second zygote, itself forked from the first, which has its own control socket.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from . import call_monitor_torch, lazy_matplotlib, linux, process_limits, seccomp
from .student_process import serve
from .supervisor import keep

PLAIN, USER, ROOT = "plain", "user", "root"
SCRATCH = "/scratch"
MOST_DESCRIPTORS = 8
INSIDE_ID = 1000  # the student's user and group id in a user namespace of its own


def main(control_descriptor: int, mode: str) -> None:
    """Serve until the host closes the control socket. `mode`: "plain", "user" or "root"."""
    process_limits.unbound_data()  # the limit of the grading process is not a submission's
    namespace, transform = warm_up()
    freeze()
    control = socket.socket(fileno=control_descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended submissions leave no zombies
    control.sendall(b"ready")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65_536, MOST_DESCRIPTORS)
        if not message:
            return
        order = json.loads(message)
        if "libraries" in order:
            if os.fork() == 0:
                control.close()
                control = socket.socket(fileno=descriptors[0])
                for name in order["libraries"]:
                    LIBRARIES[name]()
                freeze()
                control.sendall(b"ready")
            else:
                os.close(descriptors[0])
            continue
        if os.fork() == 0:
            status = 1
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                channel, lifeline = (socket.socket(fileno=descriptor) for descriptor in descriptors[:2])
                order["entrances"] = descriptors[2:]
                live(order, mode, channel, lifeline, lambda c: serve(c, namespace, transform))
                status = 0
            except BaseException:
                traceback.print_exc()  # the host reads the last line if the sandbox doesn't start at all
            finally:
                os._exit(status)
        for descriptor in descriptors:
            os.close(descriptor)


def warm_up() -> tuple[dict[str, Any], Callable[[str], str]]:
    """Import what students use and build an IPython shell; returns its namespace and its source transformer."""
    import numpy  # noqa: F401
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    shell.builtin_trap.activate()  # get_ipython and display, as in a notebook
    shell.enable_gui = lambda gui=None: None  # `%matplotlib inline` is allowed and changes nothing
    shell.system = start_nothing
    shell.user_ns["__name__"] = "__main__"
    return shell.user_ns, shell.transform_cell


def start_nothing(command: str) -> None:
    """Refuse `!`, in a sandbox or not, because a notebook that runs the course's check would call itself endlessly."""
    raise OSError("no other program is started here")


def freeze() -> None:
    """Make forked processes share all objects that exist by now."""
    gc.collect()
    gc.freeze()  # else the first collection in each forked process would write to, and so copy, all that is shared
    if sys.platform == "linux":
        linux.use_huge_pages()


def bring_torch() -> None:
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)
        torch.set_num_threads = keep_one_thread
        torch.compile = leave_as_it_is
        torch.set_default_device = stay_on_the_cpu
        for room in call_monitor_torch.ROOMS:
            call_monitor_torch.all_in(room)  # fills the cache, else each exercise would search again


#: The slow libraries, each with the function that imports it for submissions that name it.
LIBRARIES = {"matplotlib": lazy_matplotlib.bring, "torch": bring_torch}


def keep_one_thread(int_: int, /) -> None:
    """Replace torch.set_num_threads, with which a notebook's first cell sets several threads for its training.

    Here threads would busy-wait for each other while other submissions run, and OpenMP hangs in a child of a process
    that has used them. (Its own limit, OMP_THREAD_LIMIT, makes torch.linalg.solve wait for a thread forever.)
    """


def stay_on_the_cpu(device: Any) -> None:
    """Replace torch.set_default_device, which accepts "cuda" on any machine, so that making a tensor fails later."""


def leave_as_it_is(model: Any = None, **options: Any) -> Any:
    """Replace torch.compile, which changes no result, and imports half a compiler before it does nothing."""
    return (lambda function: function) if model is None else model


def live(
    order: dict[str, Any],
    mode: str,
    channel: socket.socket,
    lifeline: socket.socket,
    work: Callable[[socket.socket], None],
) -> None:
    """Run one submission in namespaces of its own, if `mode` has them."""
    os.setsid()
    if mode == PLAIN:
        watch(order, mode, channel, lifeline, work)
        return
    flags = linux.CLONE_NEWPID | linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    if mode == USER:
        user, group = os.getuid(), os.getgid()
        linux.unshare(flags | linux.CLONE_NEWUSER)
        maps = {"setgroups": "deny", "uid_map": f"{INSIDE_ID} {user} 1", "gid_map": f"{INSIDE_ID} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    else:
        linux.unshare(flags)
    init = os.fork()
    if init == 0:
        status = 1
        try:
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
            linux.prctl(linux.PR_SET_DUMPABLE, 0)  # a student process of the same user can't read its files in /proc
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a student process of the same user could send it
            furnish(order)
            watch(order, mode, channel, lifeline, work)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)  # process 1 ends, and with it every process of the namespace
    channel.close()
    lifeline.close()
    os.waitpid(init, 0)


def furnish(order: dict[str, Any]) -> None:
    """Mount this namespace's own /proc, and a scratch folder of limited size that only this submission has."""
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    size = f"size={int(order['scratch_bytes'])},nr_inodes=4096,mode=1777"
    linux.mount("scratch", SCRATCH, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, size)


def watch(
    order: dict[str, Any],
    mode: str,
    channel: socket.socket,
    lifeline: socket.socket,
    work: Callable[[socket.socket], None],
) -> None:
    """Start the student's process and supervise it until it ends, the lifeline closes, or a limit is exceeded."""
    student = os.fork()
    if student == 0:
        status = 1
        try:
            lifeline.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            enter(order["entrances"])
            confine(order, mode)
            work(channel)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    channel.close()
    keep(student, lifeline, order, alone=mode != PLAIN)


def enter(entrances: list[int]) -> None:
    """Join the control group, with everything that this process will start, and close the files for joining it."""
    for entrance in entrances:
        os.write(entrance, b"0")
        os.close(entrance)


def confine(order: dict[str, Any], mode: str) -> None:
    """Take from this process, irrevocably, everything that student code does not need."""
    if mode == PLAIN:
        os.setpgid(0, 0)
    silence()
    if mode == USER:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # the supervisor must see how much memory this process takes
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("900")
    process_limits.apply(order, countable_processes(order, mode))
    if mode == PLAIN:
        return
    os.chdir(SCRATCH)
    sys.path.append("")  # what a notebook wrote with %%writefile can be imported
    linux.drop_bounding_set()
    if mode == ROOT:
        os.setgroups([])
        os.setresgid(order["uid"], order["uid"], order["uid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
    linux.drop_capabilities(marked=mode == USER)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.install()


def silence() -> None:
    """Discard everything that is printed from here on, and leave nothing to read as input."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    sys.stdin, sys.stdout, sys.stderr = open(0), Nowhere(1), Nowhere(2)  # noqa: SIM115


class Nowhere(io.TextIOWrapper):
    """Discards all text, so that printing costs next to nothing, and the same every time.

    It has no buffer, and so no buffer lock: a student's thread that prints may hold such a lock when an exercise
    forks, and nobody would ever release it.
    """

    def __init__(self, descriptor: int) -> None:
        raw = io.FileIO(descriptor, "w", closefd=False)
        super().__init__(raw, "utf-8", "backslashreplace", write_through=True)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        return len(text)


def countable_processes(order: dict[str, Any], mode: str) -> int | None:
    """Return the kernel's limit on processes if it counts only this submission's, else None."""
    if mode == ROOT:
        return int(order["processes"])
    if mode == USER and linux.counts_by_namespace():
        return int(order["processes"]) + 2  # the supervisor and the process above it are counted too
    return None
