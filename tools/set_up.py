"""Makes and mends the environment in .venv. Plain Python: it runs before anything is installed.

    python tools/set_up.py student            what a student needs
    python tools/set_up.py grading test       with the extras of pyproject.toml, and the sandbox

A stamp in .venv tells what was installed from which files. It is trusted only if the environment still works.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "set-up.json"
PROBES = {
    "student": "import autograder.cli, IPython, ipykernel, jupyterlab, matplotlib, nbformat, numpy, rich, scipy, torch, tqdm",
    "grading": "import nbgrader",
    "test": "import nbgrader, nbval, pytest, xdist, ruff",
}
BUBBLEWRAP = {
    "apt-get": "apt-get install -y bubblewrap",
    "dnf": "dnf install -y bubblewrap",
    "pacman": "pacman -S --noconfirm bubblewrap",
    "zypper": "zypper --non-interactive install bubblewrap",
    "apk": "apk add bubblewrap",
}


def main(groups: list[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 (this script is what older versions meet first)
        print(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}; try: make PYTHON=python3.12 …")
        return 2
    groups = sorted({"student", *groups})
    with lock():
        stamp = read_stamp()
        have = set(stamp.get("groups", [])) if stamp.get("digest") == digest() else set()
        if not (set(groups) <= have and works(sorted(have))):
            status = install(sorted(have | set(groups)), fresh=not works([]))
            if status:
                return status
    if "grading" in groups or "test" in groups:
        offer_bubblewrap()
    return 0


def digest() -> str:
    """Everything that the environment is made from."""
    parts = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    parts += [sys.version.encode(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def read_stamp() -> dict:
    try:
        return json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}


def works(groups: list[str]) -> bool:
    """Does the environment's Python start, and are the packages there? Found, not imported: that takes no second."""
    names = [
        name.strip().split(".")[0] for group in groups for name in PROBES[group].removeprefix("import ").split(",")
    ]
    code = "import importlib.util as u, pip, sys; sys.exit(any(u.find_spec(n) is None for n in sys.argv[1:]))"
    with contextlib.suppress(OSError):
        return subprocess.run([PYTHON, "-I", "-c", code, *names], capture_output=True).returncode == 0
    return False


def install(groups: list[str], fresh: bool) -> int:
    start = time.monotonic()
    STAMP.unlink(missing_ok=True)
    if fresh:
        print("Setting up .venv: this takes a few minutes once.", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True)
        if made.returncode:
            print(f"Python's venv module does not work here; on Debian: apt-get install python3-venv\n{made.stdout}")
            return 2
    else:
        print("Bringing .venv up to date.", flush=True)
    extras = [group for group in groups if group != "student"]
    target = f".[{','.join(extras)}]" if extras else "."
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt"]
    for attempt in (1, 2):
        again = ["--force-reinstall", "--no-deps"] if attempt == 2 else []
        # torch first and by its exact version: that of the constraints is the build without CUDA where one is served.
        for what in (["torch"], ["-e", target]):
            done = subprocess.run([*pip, *(again if what == ["torch"] else []), *what], cwd=ROOT)
            if done.returncode:
                print("pip could not install what is needed (its words are above); mend that and run make again.")
                return 2
        broken = [probe for group in groups for probe in [PROBES[group]] if not imports(probe)]
        if not broken:
            STAMP.write_text(json.dumps({"digest": digest(), "groups": groups}))
            print(f"Set up in {time.monotonic() - start:.0f} s.", flush=True)
            return 0
        if attempt == 1:
            print("Something in .venv is broken; it is built again.", flush=True)
            shutil.rmtree(VENV, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    print(f"The environment does not work: `{broken[0]}` fails in {PYTHON}.")
    return 2


def imports(probe: str) -> bool:
    return subprocess.run([PYTHON, "-c", probe], cwd=ROOT, capture_output=True).returncode == 0


def offer_bubblewrap() -> None:
    """Install the sandbox's program where that is allowed; else say the line that does it."""
    if shutil.which("bwrap") or not sys.platform.startswith("linux"):
        return
    manager = next((name for name in BUBBLEWRAP if shutil.which(name)), None)
    if manager is None:
        print("bubblewrap is not installed: install it with your system's package manager to grade strangers' work.")
        return
    command = BUBBLEWRAP[manager].split()
    if os.geteuid() != 0:
        if not shutil.which("sudo") or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode:
            print(f"bubblewrap is not installed; grading strangers' work needs it: sudo {' '.join(command)}")
            return
        command = ["sudo", "-n", *command]
    print("Installing bubblewrap, the sandbox.", flush=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and manager == "apt-get":
        subprocess.run([*command[:-3], "apt-get", "update"], capture_output=True)
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"bubblewrap could not be installed; run: {' '.join(command)}")


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """One set-up at a time: a second one waits for the first."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(ROOT / ".set-up.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("Another set-up is running; waiting for it.", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
