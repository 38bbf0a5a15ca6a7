"""Implements `autograder doctor`: lists what this machine has, and how to fix what is missing."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from attention_figures.helpers.fetch_model import NoModel, cached_model, check_model

from .. import __version__
from ..course_folder import HOME
from .command_helpers import course_if_any

#: Package -> what needs it, and the command that installs it.
PACKAGES = {
    "numpy": ("the notebooks", "make lab"),
    "torch": ("the notebooks", "make lab"),
    "scipy": ("the references", "make lab"),
    "matplotlib": ("the figures", "make lab"),
    "tokenizers": ("unit 11", "make lab"),
    "jupyterlab": ("the notebooks", "make lab"),
    "nbgrader": ("grading a class", "make setup"),
    "latex2mathml": ("formulas on feedback pages", "make setup"),
    "nbval": ("the tests", "make test"),
}
WITHOUT_MAKE = 'python tools/bootstrap.py --extras "grading,test"'


@dataclass(frozen=True)
class Condition:
    """Describes one thing that was checked. remedy: the line that fixes it; "" if nothing needs fixing."""

    what: str
    found: str
    ok: bool = True
    remedy: str = ""


def findings(root: Path | None = HOME) -> Iterator[Condition]:
    """Yield everything that matters for using a course folder here, in the order in which one would fix it.

    root: None if there is no course folder, as on a server that has only the autograder.
    """
    yield _python()
    yield Condition("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{_memory()}")
    pins = tested_versions()
    for name, (purpose, command) in PACKAGES.items():
        yield _package(name, purpose, command, pins.get(name))
    yield _sandbox()
    yield _gpu()
    yield _model()
    yield _exercises()
    if root is None:
        yield Condition("course folder", "none here; `autograder check` does without, grading needs one")
    else:
        yield _notebooks(root)
        yield _gradebook(root)
        yield _readers(root)
    yield _cluster()


def tested_versions() -> dict[str, str]:
    """Return package -> the version that the course is tested with; empty outside a clone of the course."""
    try:
        lines = (HOME / "constraints.txt").read_text(encoding="utf-8").split()
    except OSError:
        return {}
    pins = (line.split("==") for line in lines if "==" in line)
    return {name.lower(): version for name, version in pins}


def _python() -> Condition:
    version, ok = platform.python_version(), sys.version_info >= (3, 11)
    return Condition(
        "Python", f"{version} in {sys.prefix}", ok, "" if ok else "install Python 3.11 or newer, then: make lab"
    )


def _memory() -> str:
    try:
        return f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, OSError, ValueError):  # Windows
        return ""


def _package(name: str, purpose: str, command: str, tested: str | None) -> Condition:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        optional = command != "make lab"
        found = f"not installed; needed {'only ' if optional else ''}for {purpose}"
        return Condition(name, found, optional, f"{command}   (or {WITHOUT_MAKE})")
    if tested is None or version.split("+")[0] == tested:
        return Condition(name, f"{version}" + (" (the tested version)" if tested else ""))
    return Condition(name, f"{version}; tested with {tested}", True, f"if something misbehaves: {command}")


def _sandbox() -> Condition:
    """Try the sandbox by running a cell in it."""
    try:
        from ..records import CellSource
        from ..running.sandbox import open_sandbox

        with open_sandbox() as sandbox, sandbox.session([CellSource("probe", "given", "1 + 1")]) as session:
            ran = [cell.status for cell in session.cells] == ["ran"]
            mode, hierarchy = sandbox.mode, sandbox.hierarchy
    except ImportError as error:
        return Condition("sandbox", f"unknown, it cannot be tried without {error.name or error}", False, "make setup")
    except Exception as error:  # whatever is wrong with it, the other findings matter too
        return Condition(
            "sandbox", "none: other people's work cannot be graded here", False, " ".join(str(error).split())
        )
    if not ran:
        return Condition("sandbox", "it starts, but runs nothing", False, "make test   (and see which test fails)")
    words = {"root": "bubblewrap, started as root; every submission gets a user of its own"}
    found = words.get(mode, "bubblewrap, as an ordinary user with user namespaces")
    bounds = f"rlimits, watching and {hierarchy}" if hierarchy else "rlimits and watching; no cgroup can be had here"
    return Condition("sandbox", f"{found}; limits by {bounds}")


def _gpu() -> Condition:
    try:
        import torch
    except ImportError as error:
        return Condition("GPU", f"unknown, torch does not import: {error}", False, "make lab")
    if torch.cuda.is_available():
        return Condition("GPU", torch.cuda.get_device_name(0))
    if torch.backends.mps.is_available():
        return Condition("GPU", "Apple (MPS)")
    return Condition("GPU", "none; the course does not need one")


def _model() -> Condition:
    """Check whether unit 11 can run its language model here."""
    named = os.environ.get("ATTENTION_COURSE_MODEL")
    if named == "none":
        return Condition("model", "switched off: ATTENTION_COURSE_MODEL is none; unit 11 prints recorded numbers")
    path = Path(named).expanduser() if named else cached_model()
    try:
        return Condition("model", f"SmolLM2-135M-Instruct (Apache 2.0) in {check_model(path)}")
    except FileNotFoundError:
        found = f"{path} does not exist; unit 11 prints recorded numbers"
        remedy = "unset ATTENTION_COURSE_MODEL" if named else "make model   (or autograder model)"
        return Condition("model", found, not named, remedy)
    except NoModel as error:
        return Condition("model", "not usable", False, str(error))


def _exercises() -> Condition:
    """Say which autograder is here, and whether it can run."""
    try:
        from ..exercises import unit_names
    except ImportError as error:
        return Condition("autograder", f"{__version__} in {HOME}, cannot run: {error}", False, "make lab")
    return Condition("autograder", f"{__version__} in {HOME}, {len(unit_names())} units")


def _notebooks(root: Path) -> Condition:
    """Check that every unit is there, and made for the exercises that run here."""
    try:
        from ..exercises import unit_names
        from ..reading.course_contents import Course

        course = Course(root)
        missing = [unit for unit in unit_names() if not course.has(unit)]
        if missing:
            words = "autograder release   (or git checkout notebooks)"
            return Condition("notebooks", f"missing in {root}: {', '.join(missing)}", False, words)
        for unit in course.units():
            if course.has(unit):
                course.assignment(unit)
    except ImportError as error:
        return Condition("notebooks", f"unknown, they cannot be read without {error.name or error}", False, "make lab")
    except Exception as error:  # whatever is wrong with them, the other findings matter too
        return Condition("notebooks", "not usable", False, " ".join(str(error).split()))
    return Condition("notebooks", f"{len(course.units())} units in {root / 'notebooks'}")


def _gradebook(root: Path) -> Condition:
    path = root / "grading" / "gradebook.db"
    if not path.exists():
        return Condition("gradebook", f"none yet in {path.parent}; `autograder grade` makes it")
    try:
        from ..gradebook.health_check import check_gradebook

        check_gradebook(root)
    except ImportError as error:
        return Condition("gradebook", f"unknown without {error.name or error}", False, "make setup")
    except Exception as error:
        return Condition("gradebook", "not usable", False, " ".join(str(error).split()))
    return Condition("gradebook", f"{path} ({path.stat().st_size / 2**20:.1f} MiB)")


def _readers(root: Path) -> Condition:
    """Check whether other accounts of this machine can read students' work and the seeds of the secret cases."""
    folder = (root / "grading").resolve()
    if not folder.exists():
        return Condition("grading/", "none yet")
    way_there = all(above.stat().st_mode & stat.S_IXOTH for above in folder.parents)
    if os.name != "posix" or not way_there or not folder.stat().st_mode & stat.S_IXOTH:
        return Condition("grading/", "closed to other accounts of this machine")
    found = "other accounts of this machine can read students' work, marks and the seeds of hidden tests there"
    return Condition("grading/", found, False, f"chmod -R o= {shlex.quote(str(folder))}")


def _cluster() -> Condition:
    """Say whether grading can use a Dask cluster, and whom a cluster trusts."""
    try:
        version = metadata.version("distributed")
    except metadata.PackageNotFoundError:
        return Condition("Dask", "not installed; needed only for --scheduler")
    found = "whoever reaches the port of a scheduler or worker can run programs there: bind it to a private network"
    return Condition("Dask", f"{version}; {found}, or use TLS (docs/THREATS.md)")


def main(root: Path | None = HOME, as_json: bool = False) -> int:
    """Print the findings. The exit status is 0 whatever is missing, because the check itself worked."""
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings(root)], indent=1))
        return 0
    found = list(findings(root))
    remedies = [f"{finding.what}: {finding.remedy}" for finding in found if finding.remedy]
    try:
        _print(found, remedies)
    except ImportError:  # the set-up installs rich
        for finding in found:
            print(f"{'ok' if finding.ok else '--'}  {finding.what:12}  {finding.found}")
        print("\nTo fix or add:", *remedies, sep="\n  ")
    return 0


def _print(found: Sequence[Condition], remedies: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    table = Table.grid(padding=(0, 2))
    for finding in found:
        mark = Text("ok", style="green") if finding.ok else Text("--", style="bold red")
        table.add_row(mark, finding.what, Text(finding.found, overflow="fold"))
    console.print(table)
    if remedies:
        console.print("\nTo fix or add:")
        for remedy in remedies:
            console.print(Text(f"  {remedy}"), soft_wrap=True)


def run(options: argparse.Namespace) -> int:
    """Run `autograder doctor`."""
    return main(course_if_any(options))


if __name__ == "__main__":
    sys.exit(main())
