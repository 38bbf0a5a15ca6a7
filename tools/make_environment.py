"""Makes, checks and repairs `.venv`. Standard library only; bootstrap.py shows how to call it."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import bubblewrap

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / "attention-course.json"
LOG = VENV / "setup.log"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
EXTRAS = ("authors", "browser", "grading", "oracle", "test")
#: Modules that must import before the environment counts as complete.
IMPORTS = {
    "": (
        "numpy",
        "scipy.special",
        "torch",
        "matplotlib.pyplot",
        "jupyterlab",
        "ipykernel",
        "rich",
        "tokenizers",
        "tqdm",
        "attention_figures",
        "autograder",
    ),
    "grading": ("nbgrader.apps",),
    "oracle": ("transformers",),
    "test": ("pytest", "nbval", "xdist", "yaml", "codespell_lib", "nbconvert", "gguf"),
    "authors": ("jupytext", "nbdime", "pre_commit"),
    "browser": ("playwright.sync_api",),
}
#: Index of torch without gigabytes for NVIDIA cards, which PyPI's Linux builds contain.
CPU_TORCH = "https://download.pytorch.org/whl/cpu"


class SetupFailed(Exception):
    """The set-up cannot continue; the message is one line with the remedy."""


def main(arguments: list[str]) -> int:
    """Set up the environment, then run the rest of the command line in it."""
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Sets up .venv and runs something in it.")
    parser.add_argument("--extras", default="", help=f"comma-separated, of {', '.join(EXTRAS)}")
    parser.add_argument("--sandbox", action="store_true", help="also see to bubblewrap (Linux)")
    parser.add_argument("--run", nargs=argparse.REMAINDER, default=[], help="arguments for the environment's Python")
    options = parser.parse_args(arguments)
    extras = {name for name in options.extras.split(",") if name}
    if extras - set(EXTRAS):
        parser.error(f"unknown extras: {', '.join(sorted(extras - set(EXTRAS)))}")
    try:
        with one_at_a_time() as lock:
            ensure(extras, lock)
            if options.sandbox:
                bubblewrap.ensure(say)
    except SetupFailed as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say("stopped; run the same command again to continue")
        return 130
    if not options.run:
        return 0
    sys.stdout.flush()
    command = [str(PYTHON), *options.run]
    if os.name == "nt":
        return subprocess.call(command)
    os.execv(command[0], command)


def say(line: str) -> None:
    print(f"set-up: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[int]:
    """Hold the set-up's lock. A pip that outlives a killed set-up holds it too, so two never run at once."""
    descriptor = os.open(ROOT / ".setup.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say("another set-up is at work in this folder; waiting for it")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def ensure(extras: set[str], lock: int) -> None:
    """Make sure that the environment is complete and has the course with `extras`. Raises SetupFailed."""
    stamp = read_stamp()
    problems = find_problems(stamp, extras)
    if not problems:
        return
    started = time.monotonic()
    extras = extras | set(stamp.get("extras", ()))
    usable = runs() and stamp.get("root", str(ROOT)) == str(ROOT)
    if VENV.exists():
        say(f"bringing .venv up to date: {problems[0]}")
    else:
        say("installing the course's packages into .venv; once only, some minutes with a slow network")
    with contextlib.suppress(OSError):  # it is missing, or .venv is not a folder
        STAMP.unlink()
    if usable:
        try:
            reinstall_damaged(lock)
            install(extras, lock)
        except SetupFailed as error:
            remaining = [str(error)]
        else:
            remaining = find_problems(read_stamp(), extras)
        if not remaining:
            return say(f"done in {time.monotonic() - started:.0f} s")
        say("that was not enough; making .venv anew")
    create()
    install(extras, lock)
    remaining = find_problems(read_stamp(), extras)
    if remaining:
        raise SetupFailed(f"the environment is still not whole: {remaining[0]}; the log is {LOG}")
    say(f"done in {time.monotonic() - started:.0f} s")


def requirements_hash() -> str:
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def read_stamp() -> dict:
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def find_problems(stamp: dict, extras: set[str]) -> list[str]:
    """Return why the environment cannot be used as it is; empty if it can."""
    if not VENV.exists():
        return ["there is none yet"]
    if not stamp:
        return ["an earlier set-up did not finish"]
    if stamp.get("root") != str(ROOT):
        return [f"it was made for {stamp.get('root')}"]
    if stamp.get("requirements") != requirements_hash():
        return ["the requirements have changed"]
    missing = extras - set(stamp.get("extras", ()))
    if missing:
        return [f"the packages for {' and '.join(sorted(missing))} are not in it yet"]
    probed = probe()
    if probed is None:
        return ["its Python does not start"]
    if probed["python"] != stamp.get("python"):
        return [f"its Python is now {'.'.join(map(str, probed['python']))}"]
    gone = sorted(set(stamp.get("found", ())) - set(probed["found"]))
    return probed["problems"] + [f"{name} is gone" for name in gone]


def probe() -> dict | None:
    """Return what the environment's own Python finds in it; None if that Python does not start."""
    try:
        done = subprocess.run(
            [PYTHON, "-I", ROOT / "tools" / "check_installed_files.py"], capture_output=True, text=True, timeout=120
        )
        return json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def runs() -> bool:
    """Return whether the environment has a Python that starts, is new enough, and has pip."""
    code = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([PYTHON, "-I", "-c", code], capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def create() -> None:
    """Replace whatever is there by an empty environment with pip. Raises SetupFailed."""
    host = sys.executable
    if Path(sys.prefix) == VENV:  # this Python runs in the environment that is removed next
        host = getattr(sys, "_base_executable", host)
    try:
        if VENV.is_symlink() or VENV.is_file():
            VENV.unlink()
        elif VENV.exists():
            shutil.rmtree(VENV)
    except OSError as error:
        raise SetupFailed(
            f"cannot remove the broken .venv ({error}); close what uses it, delete it, try again"
        ) from None
    done = subprocess.run([host, "-m", "venv", VENV], capture_output=True, text=True)
    if done.returncode == 0 and runs():
        return
    # Debian's Python lacks ensurepip: create it without pip, and install pip with the host's pip.
    bare = subprocess.run([host, "-m", "venv", "--clear", "--without-pip", VENV], capture_output=True, text=True)
    if bare.returncode == 0:
        pip = [host, "-m", "pip", "--python", str(PYTHON), "install", "--quiet", "--disable-pip-version-check", "pip"]
        bare = subprocess.run(pip, capture_output=True, text=True, env=pip_environment())
    if bare.returncode != 0 or not runs():
        last = (bare.stderr or done.stdout or done.stderr).strip().splitlines()[-1:]
        raise SetupFailed(
            f"this Python ({host}) cannot make an environment: it lacks venv or pip "
            f"(Debian, Ubuntu: sudo apt-get install python3-venv). {' '.join(last)}"
        )


def install(extras: set[str], lock: int) -> None:
    """Install the course with pip, check that it imports, and leave the stamp. Raises SetupFailed."""
    LOG.write_text("", encoding="utf-8")
    install_cpu_torch(lock)
    wanted = f".[{','.join(sorted(extras))}]" if extras else "."
    pip(["install", "--constraint", "constraints.txt", "--editable", wanted], lock)
    pip(["check"], lock)
    modules = [module for extra in ("", *sorted(extras)) for module in IMPORTS[extra]]
    if not (ROOT / "autograder").is_dir():  # a student's folder does not contain the grader
        modules.remove("autograder")
    done = subprocess.run(
        [PYTHON, "-I", "-c", f"import {', '.join(modules)}"], capture_output=True, text=True, cwd=ROOT
    )
    if done.returncode != 0:
        raise SetupFailed(f"the installed packages do not import: {done.stderr.strip().splitlines()[-1]}")
    probed = probe()
    if probed is None:
        raise SetupFailed("the environment's Python does not start")
    content = {"root": str(ROOT), "requirements": requirements_hash(), "extras": sorted(extras)}
    aside = STAMP.with_suffix(".part")
    aside.write_text(json.dumps({**content, "python": probed["python"], "found": probed["found"]}), encoding="utf-8")
    os.replace(aside, STAMP)


def reinstall_damaged(lock: int) -> None:
    """Reinstall each package that has lost files, because pip counts it as installed."""
    names = [line.split()[0] for line in (probe() or {"problems": ()})["problems"]]
    wanted = ["==".join(name.rsplit("-", 1)) for name in names if not name.startswith("attention_course")]
    if wanted:
        pip(["install", "--ignore-installed", "--no-deps", *wanted], lock)


def install_cpu_torch(lock: int) -> None:
    """On Linux without an NVIDIA card, install torch's small build from its own index, if it can be reached."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pin = next((line for line in pins if line.startswith("torch==")), None)
    present = subprocess.run([PYTHON, "-I", "-c", "import torch"], capture_output=True).returncode == 0
    if pin is None or present or not sys.platform.startswith("linux") or Path("/proc/driver/nvidia/version").exists():
        return
    try:
        with urllib.request.urlopen(f"{CPU_TORCH}/torch/", timeout=5):
            pass
    except (OSError, ValueError):
        return  # the usual index will do
    # The next step installs torch from the usual index if this one fails.
    with contextlib.suppress(SetupFailed):
        pip(["install", "--no-deps", "--index-url", CPU_TORCH, pin], lock)


def pip_environment() -> dict[str, str]:
    """Return pip's variables: the user's settings (index, proxy, certificates), but none that install elsewhere."""
    dropped = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV")
    return {**{name: value for name, value in os.environ.items() if name not in dropped}, "PIP_USER": "0"}


class Progress:
    """Shows pip's progress: a line that is renewed each second in a terminal, or else a line for each large step."""

    #: A file of so many megabytes is a step of its own where lines cannot be renewed.
    LARGE = 50

    def __init__(self) -> None:
        self.started, self.free = time.monotonic(), shutil.disk_usage(ROOT).free
        self.text, self.in_terminal, self.ended = "starting", sys.stderr.isatty(), threading.Event()
        self.ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        if self.in_terminal:
            self.ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.in_terminal:
            self.ticker.join()
            print("\r" + " " * 80 + "\r", end="", file=sys.stderr, flush=True)

    def read(self, line: str) -> None:
        """Read one line of pip's output."""
        step, _, rest = line.strip().partition(" ")
        if step == "Collecting":
            self.text = f"looking up {rest.split()[0]}"
        elif step == "Downloading":
            name, _, size = rest.rstrip(")").partition(" (")
            self.text = f"downloading {name.rpartition('/')[2].split('-')[0]}, {size or 'size unknown'}"
            number, _, unit = size.partition(" ")
            if not self.in_terminal and unit == "MB" and float(number) >= self.LARGE:
                say(self.text)
        elif line.startswith("Installing collected packages"):
            count = rest.count(", ") + 1
            self.text = f"installing {count} package{'s' if count > 1 else ''}"
            if not self.in_terminal:
                say(self.text)

    def _tick(self) -> None:
        while not self.ended.wait(1):
            written = max(0, self.free - shutil.disk_usage(ROOT).free) / 1e6
            line = f"set-up: {time.monotonic() - self.started:4.0f} s  {self.text[:50]}, {written:,.0f} MB on disk"
            print(f"\r{line[:79]:79}", end="", file=sys.stderr, flush=True)


def pip(arguments: list[str], lock: int) -> None:
    """Run the environment's pip and show its progress; its output goes to the log."""
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command = [PYTHON, "-I", "-m", "pip", arguments[0], *(options if arguments[0] == "install" else options[:2])]
    handed_on = {} if os.name == "nt" else {"pass_fds": (lock,)}
    errors: list[str] = []
    process = subprocess.Popen(
        [*command, *arguments[1:]],
        **handed_on,
        cwd=ROOT,
        env=pip_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    with process, LOG.open("a", encoding="utf-8") as log, Progress() as progress:
        for line in process.stdout:
            log.write(line)
            log.flush()
            if line.strip().lower().startswith("error:") or (arguments[0] == "check" and line.strip()):
                errors.append(line.strip())
            progress.read(line)
    if process.returncode != 0:
        last = errors[-1] if errors else f"exit status {process.returncode}"
        raise SetupFailed(f"pip failed ({last}); is the network up? The whole log is {LOG}. The same command continues")
