"""What is said of an error that ended a command: one line for what a person can mend, and none for a fault of ours."""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path

from .course_folder import CONFIG, HOME, LOCAL, clone, own_command
from .data import Expected

SETTINGS = (CONFIG, LOCAL)
#: What a machine says for a place that cannot be written or read, or is no folder.
OF_THE_MACHINE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG),
)


def explained(error: Exception) -> str | None:
    """The line, with the remedy; None where a person can mend nothing."""
    if isinstance(error, (Expected, FileNotFoundError)) and not _in_settings(error):
        return " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ImportError):
        return _not_installed(error)
    place = _in_settings(error)
    if place:
        return f"{place}: {type(error).__name__}: {' '.join(str(error).split())}; mend that line"
    if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
        if error.filename is None:
            return f"{error.strerror}; make room, or look at the permissions, and try again"
        return f"{error.filename}: {error.strerror}; is it yours to read and write, and are there only folders above?"
    return None


def _in_settings(error: Exception) -> str:
    """The line of nbgrader's configuration in which an error arose, or ""."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").name in SETTINGS:
        return f"{error.filename}, line {error.lineno}"
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if lines and Path(lines[-1][0]).name in SETTINGS:
        return f"{lines[-1][0]}, line {lines[-1][1]}"
    return ""


def _not_installed(error: ImportError) -> str | None:
    """Only of other people's packages: what is not found in ours is our fault."""
    package = (error.name or "").partition(".")[0]
    if not package or package in ("autograder", *sys.stdlib_module_names):
        return None
    missing = isinstance(error, ModuleNotFoundError) and error.name == package
    wrong = "is not installed" if missing else f"cannot be loaded ({' '.join(str(error).split())[:200]})"
    if clone() is None:
        remedy = f"run: {sys.executable} -m pip install {package}"
    else:
        remedy = f"run `make setup` in {HOME}, and then {own_command(HOME)}"
    return f"{package} {wrong} for {sys.executable}; {remedy}"
