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
CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_SYS_PTRACE")
#: What this project is called among installed packages.
HIDDEN = ("autograder", "attention_course*", "__editable__*attention_course*")
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
    line += ["--perms", "0755", "--dir", "/etc"]
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
    line += _masks()
    line += ["--ro-bind", str(WORKER), f"{INSIDE}/worker"]
    line += ["--proc", "/proc", "--perms", "0755", "--tmpfs", "/dev"]  # bubblewrap's own /dev would have terminals
    for name in ("null", "zero", "full", "random", "urandom"):
        line += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    line += ["--symlink", "/proc/self/fd", "/dev/fd", "--remount-ro", "/dev", "--remount-ro", "/"]
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


def _masks() -> list[str]:
    """Empty folders over what a student must not see although it lies within what is mounted."""
    line = []
    for folder in hidden_folders():
        line += ["--perms", "0755", "--tmpfs", folder]
        for inner in {sys.prefix, sys.base_prefix}:  # such as an environment inside the course's own folder
            if inner.startswith(folder + os.sep):
                line += ["--ro-bind", inner, inner]
        line += ["--remount-ro", folder]
    return line


def hidden_folders() -> list[str]:
    """Folders to hide: this package where it is installed, and the course's folder should it lie beneath a mount."""
    mounted = ("/usr", *interpreter_folders())
    roots = {Path(path) for path in (*site.getsitepackages(), sysconfig.get_path("purelib"))}
    for top in mounted:
        for pattern in ("lib*/python3*/site-packages", "lib*/python3*/dist-packages", "local/lib/python3*/*-packages"):
            roots.update(Path(top).glob(pattern))
    found = {path for root in roots for name in HIDDEN for path in root.glob(name) if path.is_dir()}
    for course in (WORKER.parents[1], Path.cwd()):
        if (course / "solutions").is_dir() or (course / "grading").is_dir():
            found.add(course)
    return sorted(str(path) for path in found if any(str(path).startswith(top + os.sep) for top in mounted))
