"""Brings what was handed out into notebooks/, where a student works, and overwrites nothing that a student wrote.

python3 tools/handout.py        (in the folder of a student's archive; standard library only)

An archive holds its notebooks in handout/. Unpacked over an older one it changes that folder alone.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: In notebooks/: what was brought there last, file -> digest. In a clone `autograder release` writes it.
NOTED = ".handed_out.json"


def fill(root: Path) -> list[str]:
    """Bring every file of `root`/handout to `root`/notebooks; returns a line for each that is new there or changed.

    A file that is as it was brought is replaced. One that was changed stays, and the new one is put beside it.
    """
    source, target = root / "handout", root / "notebooks"
    if not source.is_dir():
        return []
    noted, said = _noted(target / NOTED), []
    for path in sorted(path for path in source.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts):
        name = path.relative_to(source)
        data, mine = path.read_bytes(), target / name
        key, digest = name.as_posix(), _digest(data)
        if not mine.exists():
            _write(mine, data)
            said.append(f"notebooks/{key}: new")
        elif noted.get(key) != digest and _digest(mine.read_bytes()) != digest:
            if _digest(mine.read_bytes()) == noted.get(key):
                _write(mine, data)
                said.append(f"notebooks/{key}: brought up to date")
            else:
                beside = _beside(mine, digest)
                _write(beside, data)
                said.append(f"notebooks/{key}: yours stays; what was handed out since lies beside it, {beside.name}")
        noted[key] = digest
    _write(target / NOTED, json.dumps(noted, indent=1, sort_keys=True).encode())
    return said


def untouched(notebooks: Path) -> list[Path]:
    """The notebooks that are, byte for byte, what was handed out last."""
    noted = _noted(notebooks / NOTED)
    there = {notebooks / name: digest for name, digest in noted.items() if (notebooks / name).is_file()}
    return [path for path, digest in there.items() if _digest(path.read_bytes()) == digest]


def _beside(mine: Path, digest: str) -> Path:
    """A place where nothing else lies: a student may have begun what came the last time."""
    paths = (
        mine.with_name(f"{mine.stem}-new{number or ''}.ipynb") for number in itertools.chain([0], itertools.count(2))
    )
    return next(path for path in paths if not path.exists() or _digest(path.read_bytes()) == digest)


def _noted(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    aside.write_bytes(data)
    os.replace(aside, path)


def main() -> int:
    try:
        for line in fill(ROOT):
            print(line)
    except OSError as error:
        print(f"notebooks/ cannot be filled from handout/: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
