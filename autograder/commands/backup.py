"""Implements `autograder backup`, `restore` and `archive`, for a class and all that its marks depend on."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sqlite3
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath

from nbgrader.coursedir import CourseDirectory
from sqlalchemy.engine import make_url

from .. import __version__
from ..gradebook.health_check import check_gradebook, load_config
from ..records import NotUsable
from ..safe_text import counted
from .command_helpers import GRADED
from .command_helpers import course as course_folder

#: Parts of a class: folders, the settings, and modules next to them, such as a rule for late work.
FOLDERS = ("grading", "solutions", "notebooks")
SETTINGS = "*.py"
GRADEBOOK = "grading/gradebook.db"
NOTE = "backup.json"
PASSED_OVER = (".ipynb_checkpoints", "__pycache__")


def backup(options: argparse.Namespace) -> int:
    """Write one zip file with gradebook, submissions, questions, points, settings, rules and version."""
    root = course_folder(options)
    _refuse_other_database(root)
    check_gradebook(root)
    day = datetime.date.today()
    path = options.file or root / f"attention-course-backup-{day}.zip"
    names = list(_files(root))
    try:
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            os.chmod(aside, 0o600)
            for name in names:
                if name == GRADEBOOK:
                    archive.writestr(name, _snapshot(root / name))
                else:
                    archive.write(root / name, name)
            archive.writestr(NOTE, json.dumps({"version": __version__, "made": f"{day}", "files": len(names)}))
        os.replace(aside, path)
    except OSError as error:
        raise NotUsable(f"{path}: cannot be written ({error.strerror}); name another place with --out") from None
    print(f"{counted(len(names), 'file')} of the class: {path}")
    print("It holds names, marks and the seeds of the secret inputs, so keep it where only you can read it.")
    return GRADED


def restore(options: argparse.Namespace) -> int:
    """Put a backup into a course folder without a class. Files that differ there move to grading/replaced/restore/."""
    root, path = course_folder(options), options.file
    if _has_class(root):
        remedy = "move grading/ away, for example by `autograder archive FOLDER`"
        raise NotUsable(f"{root / 'grading'}: there is a class already, and nothing was changed; {remedy}")
    try:
        with zipfile.ZipFile(path) as archive:
            note = json.loads(archive.read(NOTE))
            if note["version"] != __version__:
                remedy = f"check out version {note['version']} of the course, restore, and upgrade then"
                raise NotUsable(f"{path}: was made by version {note['version']}, and this is {__version__}; {remedy}")
            entries = [entry for entry in archive.infolist() if entry.filename != NOTE]
            if len(entries) != note["files"] or not all(_is_ours(entry.filename) for entry in entries):
                raise NotUsable(f"{path}: is not as `autograder backup` wrote it; take another copy")
            if damaged := archive.testzip():
                raise NotUsable(f"{path}: {damaged} in it is damaged; take another copy")
            kept = sum(_put(archive, entry, root) for entry in entries)
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        words = " ".join(str(error).split())
        raise NotUsable(f"{path}: is no backup that can be read ({words}); is the path right?") from None
    print(f"{counted(len(entries), 'file')} restored into {root}, from {note['made']}.")
    if kept:
        print(f"{counted(kept, 'file')} differed here and went to {root / 'grading' / 'replaced' / 'restore'}")
    return GRADED


def archive(options: argparse.Namespace) -> int:
    """Move the class, with a copy of what its marks depend on, out of the course folder, to begin a new one."""
    root, folder = course_folder(options), options.folder
    _refuse_other_database(root)
    if folder.exists():
        raise NotUsable(f"{folder}: is there already; name a new folder, such as classes/2026")
    if not _has_class(root):
        raise NotUsable(f"{root / 'grading'}: nothing was handed in or graded, so there is no class to move")
    try:
        for name in _files(root, ("solutions", "notebooks")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
        shutil.move(root / "grading", folder / "grading")
    except OSError as error:
        raise NotUsable(f"{folder}: cannot be written ({error.strerror}); grading/ is as it was") from None
    print(f"The class is in {folder}; {root} is ready for a new one.")
    print(f"`autograder copies --with {folder}` compares the new class with it.", file=sys.stderr)
    return GRADED


def _has_class(root: Path) -> bool:
    return any((root / "grading" / name).exists() for name in ("gradebook.db", "submitted", "autograded"))


def _refuse_other_database(root: Path) -> None:
    address = make_url(CourseDirectory(config=load_config(root)).db_url)
    if Path(address.database or "").resolve() != (root / GRADEBOOK).resolve():
        raise NotUsable(f"the gradebook is not {GRADEBOOK} but another database; back that up by its own means, too")


def _files(root: Path, folders: tuple[str, ...] = FOLDERS) -> Iterator[str]:
    """Yield the names of all regular files of the class; skip links."""
    yield from sorted(path.name for path in root.glob(SETTINGS) if path.is_file() and not path.is_symlink())
    for folder in folders:
        for place, inner, names in os.walk(root / folder):
            inner[:] = sorted(name for name in inner if name not in PASSED_OVER)
            for name in sorted(names):
                path = Path(place, name)
                if stat.S_ISREG(os.lstat(path).st_mode) and not name.endswith((".part", "-journal", "-wal", "-shm")):
                    yield path.relative_to(root).as_posix()


def _snapshot(path: Path) -> bytes:
    """Return the gradebook at one moment, even if somebody is writing to it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return copy.read_bytes()


def _is_ours(name: str) -> bool:
    parts = PurePosixPath(name).parts
    settings = len(parts) == 1 and PurePosixPath(name).match(SETTINGS)
    return ".." not in parts and bool(parts) and (settings or (len(parts) > 1 and parts[0] in FOLDERS))


def _put(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, root: Path) -> bool:
    """Write one file; return whether another one was there, which is kept."""
    target, data = root / entry.filename, archive.read(entry)
    differs = target.is_file() and target.read_bytes() != data
    if differs:
        aside = root / "grading" / "replaced" / "restore" / entry.filename
        aside.parent.mkdir(parents=True, exist_ok=True)
        os.replace(target, aside)
    if differs or not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        os.chmod(target, (entry.external_attr >> 16) & 0o777 or 0o600)
    return differs
