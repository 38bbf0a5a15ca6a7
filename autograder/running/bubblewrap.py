"""Builds the bubblewrap command line, which decides what the zygote and its child processes see of this machine."""

from __future__ import annotations

import glob
import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

#: SYSTEM holds programs that a cell may call and files that the dynamic loader needs; DATA, files that libraries read.
SYSTEM = ("/usr/bin", "/bin", "/lib64", "/usr/lib64", "/usr/lib/locale", "/etc/ld.so.cache", "/etc/alternatives")
DATA = ("/usr/share/zoneinfo", "/usr/share/fonts", "/usr/share/matplotlib", "/etc/matplotlibrc")
#: Other software shares these prefixes: if Python is installed in one, only Python's own folders are mounted.
SHARED = ("/", "/usr", "/usr/local", "/opt")
#: The dynamic loader and libc: the system's other libraries are in the same folders.
FIRST_LIBRARIES = ("libc.", "libc-", "ld-")
#: Names under which this project may be installed.
OURS = ("autograder", "attention_course*", "__editable__*attention_course*")
PACKAGES = ("", "site-packages", "dist-packages", "python3*/site-packages", "python3*/dist-packages")


def visible(hidden: Iterable[str] = ()) -> list[str]:
    """Return the folders and files to mount, by their paths in the sandbox, without those inside another.

    hidden: folders that will be covered; a needed path inside one is mounted again on top of the cover.
    """
    covers = {os.path.realpath(path) for path in hidden}
    found: list[str] = []
    for path in sorted({_unlinked(path) for path in (*SYSTEM, *DATA, *interpreter(), *libraries())}, key=len):
        covered = any(_is_within(os.path.realpath(path), cover) for cover in covers)
        if os.path.exists(path) and (covered or not any(_is_within(path, above) for above in found)):
            found.append(path)
    return found


def interpreter() -> list[str]:
    """Return the parts of this Python: program, library and packages, of its environment and the base installation."""
    executable = os.path.realpath(sys.executable)
    parts = {sys.executable, executable, os.path.dirname(os.__file__), sysconfig.get_config_var("DESTSHARED") or ""}
    parts |= {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    parts |= {*site.getsitepackages()}
    tops = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    for top in {*tops, os.path.dirname(os.path.dirname(executable))} - {*SHARED}:
        parts |= {os.path.join(top, name) for name in ("bin", "lib", "lib64", "pyvenv.cfg")}
    return sorted(map(os.path.abspath, parts - {""}))


@cache
def libraries() -> tuple[str, ...]:
    """Return the folders of the system's shared libraries, and each other library that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        mapped = {line.rstrip("\n").split(maxsplit=5)[-1] for line in file if "/" in line}
    loaded = {path for path in mapped if ".so" in os.path.basename(path) and os.path.isfile(path)}
    folders = {os.path.dirname(path) for path in loaded if os.path.basename(path).startswith(FIRST_LIBRARIES)}
    folders |= {f"/usr{folder}" for folder in folders if folder.startswith("/lib")}
    folders |= {folder.removeprefix("/usr") for folder in folders if folder.startswith("/usr/lib")}
    known = [os.path.realpath(path) for path in (*folders, *interpreter())]
    others = [path for path in loaded if not any(_is_within(os.path.realpath(path), place) for place in known)]
    return (*folders, *(name for path in others for name in _names(path)))


def _names(path: str) -> list[str]:
    """Return all names of one file in its folder, because the loader finds a library by the name of a link to it."""
    start = os.path.join(glob.escape(os.path.dirname(path)), glob.escape(os.path.basename(path).split(".so")[0]))
    return [path, *(name for name in glob.glob(f"{start}.so*") if os.path.realpath(name) == os.path.realpath(path))]


def masks(mounted: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Return the folders to cover with empty ones, by their paths in the sandbox: this package, and `hidden`."""
    mounted = list(mounted)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    unseen = {os.path.realpath(path) for path in (package, *hidden)}
    found = {
        path for top in mounted for place in PACKAGES for name in OURS
        for path in glob.glob(os.path.join(glob.escape(top), place, name)) if os.path.isdir(path)
    }  # fmt: skip
    for top in mounted:
        real = os.path.realpath(top)
        found |= {os.path.join(top, os.path.relpath(path, real)) for path in unseen if _is_within(path, real, False)}
    return sorted(path for path in found if os.path.isdir(path))


def _is_within(path: str, folder: str, itself: bool = True) -> bool:
    return path.startswith(folder.rstrip("/") + "/") or (itself and path == folder)


def _unlinked(path: str) -> str:
    """Resolve a link at the top of a path, such as /lib to /usr/lib, because the sandbox gets the same link."""
    _, top, *rest = path.split("/", 2)
    return os.path.join(os.path.realpath(f"/{top}"), *rest) if os.path.islink(f"/{top}") else path


WORKER = Path(__file__).resolve().parents[1] / "worker"
INSIDE = "/course"
SCRATCH = "/scratch"
#: As root, the zygote needs these to give each submission its own namespaces and user; student code keeps none.
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
    "TORCH_COMPILE_DISABLE": "1",  # torch.compile changes no result, but takes longer than the limit
    "PYTHONDONTWRITEBYTECODE": "1",
}


def program() -> str | None:
    """Return the path of bubblewrap, or None."""
    return shutil.which("bwrap")


def start_line(package_folder: str, control: int, mode: str) -> list[str]:
    """Return the Python command that starts a zygote; `package_folder` holds the package `worker`.

    Python's path is made absolute, because one with `..` would lead through folders that are not mounted.
    """
    code = f"import sys; sys.path.insert(0, {package_folder!r}); from worker import zygote; del sys.path[0]; "
    return [os.path.abspath(sys.executable), "-I", "-c", code + f"zygote.main({control}, {mode!r})"]


def command(control: int, mode: str, hidden: Iterable[str] = ()) -> list[str]:
    """Return the whole command: bubblewrap, its mounts, and the zygote.

    hidden: folders that no submission may see, wherever they are.
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
    mounted = visible(hidden)
    covers = masks(mounted, hidden)
    if not any(path.startswith("/tmp/") for path in mounted):
        line += ["--symlink", SCRATCH, "/tmp"]
    # Parent folders come first and are open to every user, because student code may run as a user of its own.
    line += _ways((*mounted, f"{INSIDE}/worker"), "/")
    for path in sorted({*mounted, *covers}, key=len):  # deeper paths are mounted on top of others
        if path in covers:
            line += ["--perms", "0755", "--tmpfs", path, *_ways(mounted, path)]
        else:
            line += ["--ro-bind", path, path]
    line += [word for path in covers for word in ("--remount-ro", path)]
    line += ["--ro-bind", str(WORKER), f"{INSIDE}/worker"]
    line += ["--proc", "/proc", "--perms", "0755", "--tmpfs", "/dev"]  # bubblewrap's own /dev would have terminals
    for name in ("null", "zero", "full", "random", "urandom"):
        line += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    line += ["--symlink", "/proc/self/fd", "/dev/fd", "--remount-ro", "/dev", "--remount-ro", "/"]
    return [*line, "--chdir", "/", "--", *start_line(INSIDE, control, mode)]


def _ways(paths: Iterable[str], top: str) -> list[str]:
    """Return the options that make the parent folders, below `top`, of these paths."""
    within = (Path(path) for path in paths)
    parents = {str(parent) for path in within for parent in path.parents if Path(top) in parent.parents}
    return [word for folder in sorted(parents) for word in ("--perms", "0755", "--dir", folder)]
