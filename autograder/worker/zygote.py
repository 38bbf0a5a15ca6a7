"""The zygote: imports the slow libraries once, then forks a process for every submission.

It never reads a byte that a student influenced. The host sends an order and two sockets: the channel to the student's
process and a lifeline. While the lifeline is open the submission may live; when it closes everything of it is killed.
Where the host has made a control group for the submission, the ways into it follow.

Forking a process that has imported torch takes several times as long. So whoever needs a slow library gets it from a
second zygote, forked from the first, which the host orders with a control socket of its own.
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
    process_limits.unbound_data()  # that of the grading process is not a submission's
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
                traceback.print_exc()  # the host reads the last line, should the sandbox not come up at all
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
    shell.enable_gui = lambda gui=None: None  # `%matplotlib inline` is welcome and changes nothing
    shell.system = start_nothing
    shell.user_ns["__name__"] = "__main__"
    return shell.user_ns, shell.transform_cell


def start_nothing(command: str) -> None:
    """What `!` does here, sandbox or not: our own check, left in a notebook, would call itself time and again."""
    raise OSError("no other program is started here")


def freeze() -> None:
    """Have forked processes share what is there by now."""
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
            call_monitor_torch.all_in(room)  # else each exercise would look for itself


#: What takes long to import, and is there for submissions that name it.
LIBRARIES = {"matplotlib": lazy_matplotlib.bring, "torch": bring_torch}


def keep_one_thread(int_: int, /) -> None:
    """In the place of torch.set_num_threads, by which a notebook's first cell asks for several, for its training.

    Here they would wait for each other, busily, beside all other submissions; and OpenMP hangs in a child of a process
    that has used them. (Its own limit, OMP_THREAD_LIMIT, makes torch.linalg.solve wait for a thread for ever.)
    """


def stay_on_the_cpu(device: Any) -> None:
    """In the place of torch.set_default_device, which takes "cuda" anywhere, so that making a tensor fails later."""


def leave_as_it_is(model: Any = None, **options: Any) -> Any:
    """In the place of torch.compile, which changes no result, and imports half a compiler before it does nothing."""
    return (lambda function: function) if model is None else model


def live(
    order: dict[str, Any],
    mode: str,
    channel: socket.socket,
    lifeline: socket.socket,
    work: Callable[[socket.socket], None],
) -> None:
    """Run one submission in namespaces of its own, as far as `mode` has them."""
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
            linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nothing of it in /proc is readable to a student of the same user
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a student of the same user could send it
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
    """A /proc of this namespace's own, and a scratch folder of limited size that is this submission's alone."""
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
    """Start the student's process and stay above it until it ends, the host hangs up, or a limit is passed."""
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
    """Go into the control group, with everything that this process will start, and close the ways in behind it."""
    for entrance in entrances:
        os.write(entrance, b"0")
        os.close(entrance)


def confine(order: dict[str, Any], mode: str) -> None:
    """Take from this process everything that a student's code has no need of. There is no way back."""
    if mode == PLAIN:
        os.setpgid(0, 0)
    silence()
    if mode == USER:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # but the keeper must see how much memory this process takes
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
    """Let nobody read what is printed from here on, and have nothing to be read."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    sys.stdin, sys.stdout, sys.stderr = open(0), Nowhere(1), Nowhere(2)  # noqa: SIM115


class Nowhere(io.TextIOWrapper):
    """A text stream whose words nobody reads, so that printing costs next to nothing, and the same every time.

    It has no buffer, and so none of its lock: a thread of the student's that prints may hold that when an exercise
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
    """The kernel's limit on processes, where it counts this submission alone; the keeper counts everywhere."""
    if mode == ROOT:
        return int(order["processes"])
    if mode == USER and linux.counts_by_namespace():
        return int(order["processes"]) + 2  # the keeper and the process above it are counted too
    return None
