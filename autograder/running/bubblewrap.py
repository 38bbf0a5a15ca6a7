"""The bubblewrap command line: what the zygote and everything below it can see."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from . import view

WORKER = Path(__file__).resolve().parents[1] / "worker"
INSIDE = "/course"
SCRATCH = "/scratch"
#: As root, what the zygote needs to give each submission namespaces and a user of its own; the student keeps none.
CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_SYS_PTRACE")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": SCRATCH,
    "TMPDIR": SCRATCH,
    "USER": "student",
    "LANG": "C.UTF-8",
    "MPLCONFIGDIR": f"{SCRATCH}/matplotlib",
    "MPLBACKEND": "Agg",
    "IPYTHONDIR": f"{SCRATCH}/ipython",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "TORCH_COMPILE_DISABLE": "1",  # torch.compile changes no result, and takes longer than there is
    "PYTHONDONTWRITEBYTECODE": "1",
}


def program() -> str | None:
    """Where bubblewrap is, or None."""
    return shutil.which("bwrap")


def start_line(package_folder: str, control: int, mode: str) -> list[str]:
    """The Python command that starts a zygote; `package_folder` holds the package `worker`."""
    code = f"import sys; sys.path.insert(0, {package_folder!r}); from worker import zygote; del sys.path[0]; "
    return [sys.executable, "-I", "-c", code + f"zygote.main({control}, {mode!r})"]


def command(control: int, mode: str, hidden: Iterable[str] = ()) -> list[str]:
    """The whole command: bubblewrap, what is mounted, and the zygote.

    hidden: folders that no submission may see, wherever they lie.
    """
    line = [str(program()), "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    line += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", "--clearenv"]
    if mode == "user":
        line += ["--unshare-user"]
    else:
        line += ["--cap-drop", "ALL"]
        line += [word for capability in CAPABILITIES for word in ("--cap-add", capability)]
    for name, value in ENVIRONMENT.items():
        line += ["--setenv", name, value]
    for link in filter(os.path.islink, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        line += ["--symlink", os.readlink(link), link]
    line += ["--tmpfs", SCRATCH]
    hidden = list(hidden)
    mounted = view.visible(hidden)
    masks = view.masks(mounted, hidden)
    if not any(path.startswith("/tmp/") for path in mounted):
        line += ["--symlink", SCRATCH, "/tmp"]
    # Folders on the way are made first, and open to every user: the student's is not the one who starts bubblewrap.
    line += _ways((*mounted, f"{INSIDE}/worker"), "/")
    for path in sorted({*mounted, *masks}, key=len):  # what lies deeper covers what lies above
        if path in masks:
            line += ["--perms", "0755", "--tmpfs", path, *_ways(mounted, path)]
        else:
            line += ["--ro-bind", path, path]
    line += [word for path in masks for word in ("--remount-ro", path)]
    line += ["--ro-bind", str(WORKER), f"{INSIDE}/worker"]
    line += ["--proc", "/proc", "--perms", "0755", "--tmpfs", "/dev"]  # bubblewrap's own /dev would have terminals
    for name in ("null", "zero", "full", "random", "urandom"):
        line += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    line += ["--symlink", "/proc/self/fd", "/dev/fd", "--remount-ro", "/dev", "--remount-ro", "/"]
    return [*line, "--chdir", "/", "--", *start_line(INSIDE, control, mode)]


def _ways(paths: Iterable[str], top: str) -> list[str]:
    """Empty folders below `top` that lead to the paths below it."""
    within = (Path(path) for path in paths)
    parents = {str(parent) for path in within for parent in path.parents if Path(top) in parent.parents}
    return [word for folder in sorted(parents) for word in ("--perms", "0755", "--dir", folder)]
