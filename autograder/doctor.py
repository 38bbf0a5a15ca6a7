"""What this machine has, and the one line that mends what is missing."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Package -> what needs it, and the command that brings it.
PACKAGES = {
    "numpy": ("the notebooks", "make lab"),
    "torch": ("the notebooks", "make lab"),
    "scipy": ("the references", "make lab"),
    "matplotlib": ("the figures", "make lab"),
    "jupyterlab": ("the notebooks", "make lab"),
    "nbgrader": ("grading a class", "make setup"),
    "latex2mathml": ("formulas on feedback pages", "make setup"),
    "nbval": ("the tests", "make test"),
}
WITHOUT_MAKE = 'python tools/bootstrap.py --extras "grading,test"'


@dataclass(frozen=True)
class Finding:
    """One thing looked at. remedy: the line that mends it; "" where nothing needs mending."""

    what: str
    found: str
    ok: bool = True
    remedy: str = ""


def findings() -> Iterator[Finding]:
    """Everything that matters for using the course here, in the order in which one would mend it."""
    yield _python()
    yield Finding("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores{_memory()}")
    pins = tested_versions()
    for name, (purpose, command) in PACKAGES.items():
        yield _package(name, purpose, command, pins.get(name))
    yield _sandbox()
    yield _gpu()
    yield _notebooks()
    yield _gradebook()


def tested_versions() -> dict[str, str]:
    """Package -> the version that the course is tested with; empty outside a clone of the course."""
    try:
        lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    except OSError:
        return {}
    pins = (line.split("==") for line in lines if "==" in line)
    return {name.lower(): version for name, version in pins}


def _python() -> Finding:
    version, ok = platform.python_version(), sys.version_info >= (3, 11)
    return Finding(
        "Python", f"{version} in {sys.prefix}", ok, "" if ok else "install Python 3.11 or newer, then: make lab"
    )


def _memory() -> str:
    try:
        return f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, OSError, ValueError):  # Windows
        return ""


def _package(name: str, purpose: str, command: str, tested: str | None) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        optional = command != "make lab"
        found = f"not installed; needed {'only ' if optional else ''}for {purpose}"
        return Finding(name, found, optional, f"{command}   (or {WITHOUT_MAKE})")
    if tested is None or version.split("+")[0] == tested:
        return Finding(name, f"{version}" + (" (the tested version)" if tested else ""))
    return Finding(name, f"{version}; tested with {tested}", True, f"if something misbehaves: {command}")


def _sandbox() -> Finding:
    """Not only looked for, but tried: a cell is run in it."""
    try:
        from .sandbox import CellSource, open_sandbox

        with open_sandbox() as sandbox, sandbox.session([CellSource("probe", "given", "1 + 1")]) as session:
            ran = [cell.status for cell in session.cells] == ["ran"]
            mode, hierarchy = sandbox.mode, sandbox.hierarchy
    except Exception as error:  # whatever is wrong with it, the other findings matter too
        return Finding(
            "sandbox", "none: other people's work cannot be graded here", False, " ".join(str(error).split())
        )
    if not ran:
        return Finding("sandbox", "it starts, but runs nothing", False, "make test   (and see which test fails)")
    words = {"root": "bubblewrap, started as root; every submission gets a user of its own"}
    found = words.get(mode, "bubblewrap, as an ordinary user with user namespaces")
    bounds = f"rlimits, watching and {hierarchy}" if hierarchy else "rlimits and watching; no cgroup can be had here"
    return Finding("sandbox", f"{found}; limits by {bounds}")


def _gpu() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding("GPU", f"unknown, torch does not import: {error}", False, "make lab")
    if torch.cuda.is_available():
        return Finding("GPU", torch.cuda.get_device_name(0))
    if torch.backends.mps.is_available():
        return Finding("GPU", "Apple (MPS)")
    return Finding("GPU", "none; the course does not need one")


def _notebooks() -> Finding:
    from .units import unit_names

    missing = [unit for unit in unit_names() if not (ROOT / "notebooks" / unit / f"{unit}.ipynb").is_file()]
    if missing:
        return Finding(
            "notebooks", f"missing: {', '.join(missing)}", False, "autograder release   (or git checkout notebooks)"
        )
    return Finding("notebooks", f"{len(unit_names())} units in {ROOT / 'notebooks'}")


def _gradebook() -> Finding:
    path = ROOT / "grading" / "gradebook.db"
    if not path.exists():
        return Finding("gradebook", "none yet; `autograder grade` makes it")
    try:
        from .classroom import check_gradebook

        check_gradebook(ROOT)
    except Exception as error:
        return Finding("gradebook", "not usable", False, str(error))
    return Finding("gradebook", f"{path} ({path.stat().st_size / 2**20:.1f} MiB)")


def main(as_json: bool = False) -> int:
    """Print the findings. The exit status is 0 whatever is missing: looking worked."""
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings()], indent=1))
        return 0
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    table, remedies = Table.grid(padding=(0, 2)), []
    for finding in findings():
        mark = Text("ok", style="green") if finding.ok else Text("--", style="bold red")
        table.add_row(mark, finding.what, Text(finding.found, overflow="fold"))
        if finding.remedy:
            remedies.append(f"{finding.what}: {finding.remedy}")
    console.print(table)
    if remedies:
        console.print("\nTo mend or add:")
        for remedy in remedies:
            console.print(Text(f"  {remedy}"), soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
