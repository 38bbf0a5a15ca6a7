"""Brings a new version of the course into notebooks/ and keeps every answer that was written there.

python3 tools/update.py         (in a course folder, or in the folder of a student's archive; standard library only)

In a clone it pulls the new version with git. In an archive's folder the new notebooks are in handout/, because a later
archive was unpacked over it. A notebook in which somebody has worked is merged cell by cell: answers, other changes and
added cells stay, and everything else follows the new version. A copy of the notebook goes to grading/replaced/ first.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: In notebooks/: file -> digest of its last release (in a clone written by `autograder release`), and copies of it.
NOTED, PRISTINE = ".handed_out.json", ".handed_out"
Notebook = dict[str, Any]


class CannotUpdate(Exception):
    """Nothing was changed; the message is one line with the reason and the remedy."""


def merge(mine: Notebook, new: Notebook, base: Notebook | None) -> tuple[Notebook, list[str]]:
    """Return the new notebook with all that was written into `mine`, and a line per answer whose exercise has changed.

    base: the version that `mine` started from; None if it is unknown.
    """
    of_base = {_name(cell): cell for cell in base["cells"]} if base else {}
    of_new = {_name(cell) for cell in new["cells"]}
    written, own = {}, {}
    anchor = None
    for cell in mine["cells"]:
        name = _name(cell)
        if name in of_new:
            anchor = name
            written.setdefault(name, cell)
        elif name not in of_base and _text(cell).strip():
            own.setdefault(anchor, []).append(cell)
        elif name in of_base and _is_answer(cell) and not _is_blank(cell, of_base[name]):
            own.setdefault(anchor, []).append(_without_marks(cell))  # the exercise is gone
    cells, said = list(own.get(None, ())), []
    for cell in new["cells"]:
        name = _name(cell)
        yours, before = written.get(name), of_base.get(name)
        kept, line = _merged(cell, yours, before) if yours else ([cell], "")
        cells += [*kept, *own.get(name, ())]
        said += [line] if line else []
    return {**new, "cells": cells}, said


def _merged(new: dict, mine: dict, base: dict | None) -> tuple[list[dict], str]:
    """Return the cells that replace one cell, and a line if an exercise has changed since it was answered."""
    same = new["cell_type"] == mine["cell_type"]
    if same and _text(mine) == _text(new):
        outputs = {key: mine[key] for key in ("outputs", "execution_count") if key in new and key in mine}
        return [{**new, **outputs}], ""
    if _is_answer(new):
        if _is_blank(mine, base):
            return [new], ""
        changed = base is not None and _text(base) != _text(new)
        line = f"{_name(new)}: the exercise has changed; your answer is kept, so look at it again" if changed else ""
        return [{**mine, "metadata": new["metadata"]}], line
    if (base is not None and _text(mine) == _text(base)) or new.get("metadata", {}).get("nbgrader", {}).get("grade"):
        return [new], ""
    if base is not None and _text(base) == _text(new):
        return [mine], ""
    if base is None:
        return [new], ""  # it is unknown who changed the cell
    yours = {"cell_type": "raw", "id": f"yours-{_name(new)}"[:64], "metadata": {}, "source": mine["source"]}
    return [new, yours], ""


def _name(cell: dict) -> str:
    return cell.get("metadata", {}).get("nbgrader", {}).get("grade_id") or cell.get("id", "")


def _text(cell: dict) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _is_answer(cell: dict) -> bool:
    return bool(cell.get("metadata", {}).get("nbgrader", {}).get("solution"))


def _is_blank(cell: dict, base: dict | None) -> bool:
    """Return whether an answer is unchanged since the release: its functions only raise NotImplementedError."""
    if base is not None:
        return _text(cell).strip() in ("", _text(base).strip())
    try:
        tree = ast.parse(_text(cell))
    except (SyntaxError, ValueError, RecursionError):
        return False
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return bool(functions) and all(isinstance(each.body[-1], ast.Raise) and len(each.body) <= 2 for each in functions)


def _without_marks(cell: dict) -> dict:
    return {**cell, "metadata": {key: value for key, value in cell["metadata"].items() if key != "nbgrader"}}


def _loaded(data: bytes) -> Notebook | None:
    try:
        found = json.loads(data)
        return found if isinstance(found["cells"], list) and all(map(_is_cell, found["cells"])) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_cell(cell: Any) -> bool:
    metadata = cell.get("metadata", {}) if isinstance(cell, dict) else None
    marks = metadata.get("nbgrader", {}) if isinstance(metadata, dict) else None
    return isinstance(marks, dict) and "cell_type" in cell and "source" in cell


def bring(mine: Path, new: bytes, base: bytes | None, root: Path) -> list[str]:
    """Write the new version of a notebook over `mine`, with what was written there; return lines about it."""
    old, name = mine.read_bytes(), mine.relative_to(root).as_posix()
    yours, fresh = _loaded(old), _loaded(new)
    if yours is None or fresh is None:
        beside = _beside(mine, _digest(new))
        _write(beside, new)
        return [f"{name}: yours cannot be read, so it stays; the new version is next to it, {beside.name}"]
    merged, said = merge(yours, fresh, _loaded(base) if base else None)
    aside = root / "grading" / "replaced" / "notebooks" / mine.stem
    copy = next(path for number in itertools.count(1) if not (path := aside / str(number) / mine.name).exists())
    _write(copy, old)
    _write(mine, (json.dumps(merged, indent=1, ensure_ascii=False) + "\n").encode())
    place = copy.relative_to(root).as_posix()
    return [f"{name}: brought up to date with your answers in it; {place} is a copy of it before"] + [
        f"  {line}" for line in said
    ]


def fill(root: Path) -> list[str]:
    """Bring every file of `root`/handout to `root`/notebooks; return a line for each new or changed one."""
    source, target = root / "handout", root / "notebooks"
    noted, said = _noted(target / NOTED), []
    for path in sorted(path for path in source.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts):
        key = path.relative_to(source).as_posix()
        data, mine, pristine = path.read_bytes(), target / key, target / PRISTINE / key
        digest = _digest(data)
        if not mine.exists():
            _write(mine, data)
            said.append(f"notebooks/{key}: new")
        elif noted.get(key) != digest and _digest(mine.read_bytes()) != digest:
            if _digest(mine.read_bytes()) == noted.get(key):
                _write(mine, data)
                said.append(f"notebooks/{key}: brought up to date")
            else:
                base = pristine.read_bytes() if pristine.is_file() else None
                said += bring(mine, data, base, root)
        if noted.get(key) != digest or not pristine.is_file():
            _write(pristine, data)
        noted[key] = digest
    _write(target / NOTED, json.dumps(noted, indent=1, sort_keys=True).encode())
    return said


def untouched(notebooks: Path) -> list[Path]:
    """Return the notebooks that equal, byte for byte, the last release."""
    noted = _noted(notebooks / NOTED)
    there = {notebooks / name: digest for name, digest in noted.items() if (notebooks / name).is_file()}
    return [path for path, digest in there.items() if _digest(path.read_bytes()) == digest]


def pull(root: Path) -> list[str]:
    """Bring a clone to its newest version with git, with what was written in notebooks/. Raises CannotUpdate."""
    changed = _git(root, "diff", "--name-only", "-z", "HEAD").split("\0")[:-1]
    others = [name for name in changed if not name.startswith("notebooks/")]
    if others:
        remedy = "`git stash` puts changes aside, and `git stash pop` brings them back afterwards"
        raise CannotUpdate(f"{others[0]} has changed since the course was cloned; {remedy}")
    begun = [name for name in changed if name.endswith(".ipynb") and (root / name).is_file()]
    bases = {name: _git(root, "show", f"HEAD:{name}").encode() for name in begun}
    written = {name: (root / name).read_bytes() for name in begun}
    before = _git(root, "rev-parse", "HEAD")
    try:
        if changed:
            _git(root, "checkout", "--quiet", "HEAD", "--", *changed)
        _git(root, "pull", "--quiet", "--ff-only")
    finally:
        fresh = {name: (root / name).read_bytes() for name in written if (root / name).is_file()}
        for name, data in written.items():
            _write(root / name, data)
    if _git(root, "rev-parse", "HEAD") == before:
        return ["notebooks/ is up to date"]
    said = []
    for name, new in fresh.items():
        said += bring(root / name, new, bases[name], root) if new != bases[name] else []
    return said or ["the course is up to date; what you wrote is as it was"]


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, encoding="utf-8")
    except FileNotFoundError:
        raise CannotUpdate("git is not installed; install it, or download the course again") from None
    if done.returncode:
        words = " ".join(done.stderr.split())[:300]
        raise CannotUpdate(f"git could not bring the new version ({words}); your notebooks are as they were")
    return done.stdout


def _beside(mine: Path, digest: str) -> Path:
    """Return a free path next to `mine`, or the one that has this very content: a student may use an earlier copy."""
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
    """Write a file completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    aside.write_bytes(data)
    os.replace(aside, path)


def main() -> int:
    """Update, and print what was done."""
    try:
        for line in fill(ROOT) if (ROOT / "handout").is_dir() else pull(ROOT):
            print(line)
    except (CannotUpdate, OSError) as error:
        print(f"update: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
