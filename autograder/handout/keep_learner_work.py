"""Notes what was released last, and copies what somebody changed there since, before a new release replaces it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from ..grading.submitted_folder import new_folder

#: File in notebooks/ with file -> digest as released. `make lab` trusts a notebook that is still the same.
NOTED = ".handed_out.json"


def keep_work(root: Path, unit: str, old: Path, new: Path) -> str:
    """Copy the folder `old`, which `new` replaces, to a folder of its own if somebody changed it since its release.

    Returns a line that says where the copy is, or "".
    """
    released, now = read_note(root), digests(new)
    if all(digest in (now.get(name), released.get(f"{unit}/{name}")) for name, digest in digests(old).items()):
        return ""
    copy = new_folder(root / "grading" / "replaced" / "notebooks" / unit)
    shutil.copytree(old, copy, dirs_exist_ok=True, symlinks=True)
    return f"notebooks/{unit} had changed since its last release; a copy of what it held is in {copy}"


def digests(folder: Path, below: Iterable[str] = (".",)) -> dict[str, str]:
    """Return file -> digest, of a folder or of what is below it, without JupyterLab's checkpoints."""
    paths = [path for name in below for path in (folder / name).rglob("*")] + [folder / name for name in below]
    files = (path for path in paths if path.is_file() and ".ipynb_checkpoints" not in path.parts)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read_note(root: Path) -> dict[str, str]:
    """Return the digests of the last release; empty if there is no readable note."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((root / "notebooks" / NOTED).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def write_note(root: Path, names: Iterable[str]) -> None:
    """Note what these folders and files of notebooks/ contain now."""
    found = digests(root / "notebooks", names)
    if found:
        text = json.dumps(read_note(root) | found, indent=1, sort_keys=True)
        (root / "notebooks" / NOTED).write_text(f"{text}\n", encoding="utf-8")
