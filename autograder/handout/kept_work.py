"""A copy of what somebody wrote into a released notebook, before a new release replaces it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from ..grading.submitted_folder import new_folder

#: Unit -> a digest of the folder notebooks/UNIT as it was released last.
RELEASED = Path("grading") / "released.json"


def keep_work(root: Path, unit: str, old: Path, new: Path) -> str:
    """Copy the folder `old` to a place of its own if somebody changed it since its release, and note what `new` is.

    Returns a line that says where the copy is, or "".
    """
    before, now, noted = _digest(old), _digest(new), _noted(root)
    line = ""
    if old.is_dir() and before not in (now, noted.get(unit)):
        copy = new_folder(root / "grading" / "replaced" / "notebooks" / unit)
        shutil.copytree(old, copy, dirs_exist_ok=True, symlinks=True)
        line = f"notebooks/{unit} had changed since its last release; a copy of what it held is in {copy}"
    if noted.get(unit) != now:
        path = root / RELEASED
        path.parent.mkdir(exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}.part")
        aside.write_text(json.dumps({**noted, unit: now}, indent=1) + "\n", encoding="utf-8")
        os.replace(aside, path)
    return line


def _noted(root: Path) -> dict[str, str]:
    try:
        found = json.loads((root / RELEASED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(folder: Path) -> str:
    """Of the names and contents of all files; what JupyterLab keeps for itself is no work."""
    told = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".ipynb_checkpoints" not in path.parts:
            told.update(path.relative_to(folder).as_posix().encode(errors="surrogateescape") + b"\0")
            told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()
