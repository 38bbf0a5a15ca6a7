"""Reads the notebook file that a student submitted, which is untrusted, within limits."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..records import Unreadable
from ..safe_text import decoded, printable
from . import transform_cells
from .cell_syntax import escapes

#: Brackets and whole strings; an unclosed string reaches to the end of the file, so that nothing is scanned twice.
TOKENS = re.compile(rb'[\[\]{}]|"((?:[^"\\]++|\\.)*+)"?+', re.DOTALL)
COLON = re.compile(rb"\s*+:\s*+(?=[\[{])")
#: Parts of a cell that are not read: key -> what replaces them.
LEFT_OUT = {b"outputs": b"[]", b"attachments": b"{}"}
LONGEST = max(map(len, LEFT_OUT)) + 2
#: Limits on brackets and strings: scanning one takes a few hundred nanoseconds, and one that is kept may become an
#: object of two hundred bytes.
TOKENS_CAP, KEPT_CAP = 10_000_000, 2_000_000


class TooMany(Exception):
    """Raised for more brackets and strings than may be scanned, or kept."""


def without_outputs(data: bytes) -> bytes:
    """Return the notebook file with its outputs and attachments empty. Raises TooMany.

    A file that isn't JSON stays invalid, or becomes a notebook with the text of its cells. A file that is still too
    large is returned as it is, because a copy would take the same memory again.
    """
    kept, start, skipped_from = [], 0, -1
    depth = held = size = 0
    for seen, token in enumerate(TOKENS.finditer(data)):
        held += skipped_from < 0
        if seen == TOKENS_CAP or held > KEPT_CAP:
            raise TooMany
        first = data[token.start()]
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == skipped_from:
                start, skipped_from = token.end(), -1
        elif skipped_from < 0 and token.end() - token.start() <= LONGEST and token[1] in LEFT_OUT:
            colon = COLON.match(data, token.end())
            if colon is not None:
                size += colon.end() - start
                if size > SIZE_CAP:
                    return data
                kept += [data[start : colon.end()], LEFT_OUT[token[1]]]
                start, skipped_from = len(data), depth
    if size + len(data) - start > SIZE_CAP:
        return data
    kept.append(data[start:])
    return b"".join(kept)


SIZE_CAP = 20 * 2**20
#: A smaller file is read as it is, whatever it holds.
SMALL = 2 * 2**20
#: Limit of a file with its outputs, which are not read.
FILE_CAP = 200 * 2**20
CELLS_CAP = 2_000
#: Letters of code in all cells together, a few times a whole unit's; parsing takes memory, so there is a limit.
CODE_CAP = 200_000
#: Letters of a student's own text that are kept: answers in words, and what is below a task.
WORDS_CAP = 200_000
#: How files of other kinds begin -> what they are, and what to submit instead.
OTHER_FILES = {
    b"pk\3\4": "a zip archive; unpack it, and hand in the notebook that it holds",
    b"%pdf": "a PDF; hand in the notebook itself",
    b"<!doctype html": "a web page; download the notebook itself, and hand that in",
    b"<html": "a web page; download the notebook itself, and hand that in",
}
ANOTHER = "hand in one that JupyterLab opens; the folder .ipynb_checkpoints may hold it"
CONFLICT = re.compile(rb"^<<<<<<< ", re.MULTILINE)
#: Lines with a magic, a shell command or a question; IPython reads the cell again for each, so there is a limit.
MAGICS_CAP = 300


def for_the_student(problem: str, path: str) -> str:
    """Return what is wrong with the file at `path` without naming its folder, which is for the instructor."""
    return problem.removeprefix(printable(os.path.join(os.path.dirname(path), "")))


@dataclass(frozen=True)
class Cell:
    """Holds a submitted cell: its `grade_id` and id, if any, and its text. kind: "code", "markdown" or "raw"."""

    grade_id: str | None
    identity: str | None
    source: str
    kind: str = "code"


def read(path: Path, cap: int = FILE_CAP) -> list[Cell]:
    """Return the cells of an untrusted notebook of at most `cap` bytes. Raises Unreadable."""
    return read_bytes(read_file(path, cap), str(path))


def read_bytes(data: bytes, name: str) -> list[Cell]:
    """Return the cells of a notebook file's content; `name` is the file's name for messages. Raises Unreadable."""
    transform_cells.begin()
    data = bounded(data, name)
    try:
        document = json.loads(decoded(data))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{name}: {_fault(data, error)}") from None
    if not isinstance(document, dict):
        raise Unreadable(f"{name}: not a notebook (its JSON is no object); {ANOTHER}")
    cells = document.get("cells")
    if cells is None and isinstance(document.get("worksheets"), list):
        cells = [c for sheet in document["worksheets"] if isinstance(sheet, dict) for c in _list(sheet.get("cells"))]
    if not isinstance(cells, list):
        raise Unreadable(f"{name}: not a notebook (it has no cells); {ANOTHER}")
    if len(cells) > CELLS_CAP:
        raise Unreadable(f"{name}: {len(cells)} cells are more than {CELLS_CAP}; remove those that are not yours")
    found = [cell for cell in map(_cell, cells) if cell is not None]
    bound_code([cell for cell in found if cell.kind == "code"], name)
    return found


def _fault(data: bytes, error: ValueError | RecursionError) -> str:
    """Return what is wrong with a file that isn't JSON, with the remedy; JupyterLab can't open it either."""
    start = data[:1000].lstrip().lower()
    kind = next((what for letters, what in OTHER_FILES.items() if start.startswith(letters)), "")
    if kind:
        return f"not a notebook but {kind}"
    if isinstance(error, UnicodeDecodeError):
        return "not a text file in UTF-8; save it as UTF-8 in a text editor, and hand it in again"
    conflict = CONFLICT.search(data)
    if conflict:
        where = f"line {data.count(10, 0, conflict.start()) + 1} is git's mark of a conflict"
        remedy = "keep one version of each such part, remove the lines with <<<<<<<, ======= and >>>>>>>"
        return f"not a notebook ({where}); {remedy}, and hand it in again"
    reason = "nested too deeply" if isinstance(error, RecursionError) else "cut off or damaged"
    return f"not a notebook (its JSON is {reason}); {ANOTHER}"


def bound_code(cells: Iterable[Cell], name: str) -> None:
    """Raise Unreadable if code cells hold too much together; `name` is the file's name for messages."""
    sources = [cell.source for cell in cells]
    if sum(map(len, sources)) > CODE_CAP:
        raise Unreadable(f"{name}: more than {CODE_CAP // 1000} kB of code; remove what is no answer, such as data")
    if sum(map(escapes, sources)) > MAGICS_CAP:
        raise Unreadable(f"{name}: more than {MAGICS_CAP} lines with %, ! or ?; remove those that are no answer")


#: Flags that follow no link, wait for no pipe, and keep bytes as they are (Windows).
READING = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


def read_file(path: Path, cap: int = FILE_CAP) -> bytes:
    """Return the bytes of a regular file of at most `cap` bytes. Raises Unreadable for anything else."""
    try:
        status = os.lstat(path)
    except OSError as error:
        raise Unreadable(f"{path}: cannot be opened ({error.strerror}); is the path right?") from None
    if not stat.S_ISREG(status.st_mode) or any(folder.is_symlink() for folder in path.absolute().parents[:2]):
        raise Unreadable(f"{path}: not a regular file; hand in the notebook itself, no link or folder")
    if status.st_size > cap:
        raise _too_large(path, cap)
    try:
        descriptor = os.open(path, READING)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable(f"{path}: not a regular file; hand in the notebook itself, no link or folder")
            data = file.read(cap + 1)
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read ({error.strerror}); is it yours to read?") from None
    if len(data) > cap:
        raise _too_large(path, cap)
    return data


def bounded(data: bytes, name: str) -> bytes:
    """Return a file's content, without its outputs if it is large. Raises Unreadable."""
    if len(data) > SMALL:
        try:
            data = without_outputs(data)
        except TooMany:
            raise Unreadable(f"{name}: holds too much; clear all outputs and hand it in again") from None
    if len(data) > SIZE_CAP:
        remedy = "remove what is no answer, such as data, and hand it in again"
        raise Unreadable(f"{name}: larger than {SIZE_CAP >> 20} MB without its outputs; {remedy}")
    return data


def _too_large(path: Path, cap: int) -> Unreadable:
    return Unreadable(f"{path}: larger than {cap >> 20} MB; clear all outputs and hand it in again")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _cell(cell: Any) -> Cell | None:
    kind = cell.get("cell_type") if isinstance(cell, dict) else None
    if kind not in ("code", "markdown", "raw"):
        return None
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str):
        source = ""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    source = source.encode("utf-8", "replace").decode()  # lone surrogates cannot be written to a file
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    identity = cell.get("id")
    return Cell(
        grade_id if isinstance(grade_id, str) else None,
        identity if isinstance(identity, str) else None,
        source,
        kind,
    )
