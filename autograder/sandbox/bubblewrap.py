"""The bubblewrap command line: what the zygote and everything below it can see."""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
from pathlib import Path

WORKER = Path(__file__).resolve().parents[1] / "worker"
INSIDE = "/course"
SCRATCH = "/scratch"
#: As root, what the zygote needs to give each submission namespaces and a user of its own; the student keeps none.
CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_SYS_RESOURCE")
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
    "PYTHONDONTWRITEBYTECODE": "1",
}


def program() -> str | None:
    """Where bubblewrap is, or None."""
    return shutil.which("bwrap")


def start_line(package_folder: str, control: int, mode: str) -> list[str]:
    """The Python command that starts a zygote; `package_folder` holds the package `worker`."""
    code = f"import sys; sys.path.insert(0, {package_folder!r}); from worker import zygote; "
    return [sys.executable, "-I", "-c", code + f"zygote.main({control}, {mode!r})"]


def command(control: int, mode: str) -> list[str]:
    """The whole command: bubblewrap, what is mounted, and the zygote."""
    line = [str(program()), "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    line += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox", "--clearenv"]
    if mode == "user":
        line += ["--unshare-user"]
    else:
        line += ["--cap-drop", "ALL"]
        line += [word for capability in CAPABILITIES for word in ("--cap-add", capability)]
    for name, value in ENVIRONMENT.items():
        line += ["--setenv", name, value]
    for folder in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(folder):
            line += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            line += ["--ro-bind", folder, folder]
    for name in ("/etc/ld.so.cache", "/etc/alternatives"):
        line += ["--ro-bind-try", name, name]
    line += ["--tmpfs", SCRATCH]
    folders = interpreter_folders()
    if not any(folder.startswith("/tmp/") for folder in folders):
        line += ["--symlink", SCRATCH, "/tmp"]
    # Made first, and open to every user: the student's is not the one who starts bubblewrap.
    for folder in sorted({str(parent) for name in (*folders, f"{INSIDE}/worker") for parent in Path(name).parents}):
        if folder != "/":
            line += ["--perms", "0755", "--dir", folder]
    for folder in folders:
        line += ["--ro-bind", folder, folder]
    for folder in hidden_folders():
        line += ["--tmpfs", folder, "--remount-ro", folder]
    line += ["--ro-bind", str(WORKER), f"{INSIDE}/worker"]
    line += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/"]
    return [*line, "--chdir", "/", "--", *start_line(INSIDE, control, mode)]


def interpreter_folders() -> list[str]:
    """The folders of this Python outside /usr: its environment and the installation beneath, each once."""
    wanted = [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]
    wanted += [str(Path(sys.executable).resolve().parent.parent)]
    folders: list[str] = []
    for folder in sorted({os.path.abspath(name) for name in wanted}, key=len):
        beneath = any(folder == seen or folder.startswith(seen + os.sep) for seen in (*folders, "/usr"))
        if not beneath and folder != "/" and os.path.isdir(folder):
            folders.append(folder)
    return folders


def hidden_folders() -> list[str]:
    """Folders of the interpreter in which this very package is installed: the references must not be seen."""
    found = []
    for packages in {*site.getsitepackages(), sysconfig.get_path("purelib")}:
        base = Path(packages)
        found += [base / "autograder"] if (base / "autograder").is_dir() else []
        found += list(base.glob("attention_course-*.dist-info"))
    return [str(path) for path in found]
