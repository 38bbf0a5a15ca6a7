"""Whether the gradebook can be used at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ..data import NotUsable


def check_gradebook(root: Path, to_write: bool = False) -> None:
    """Raises NotUsable when the gradebook is locked, damaged, of another course, or cannot be opened or written."""
    path = root / "grading" / "gradebook.db"
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=5)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # of a file that cannot be written this says nothing
            courses = [row[0] for row in connection.execute("SELECT id FROM course")]
            if to_write:
                connection.execute("CREATE TABLE autograder_may_write (id)")
            connection.rollback()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise NotUsable(f"{path}: locked; close the program that is using it and try again") from None
        if "no such table" in str(error):
            raise NotUsable(f"{path}: no gradebook of nbgrader ({error}); move it away and grade again") from None
        remedy = "look at its permissions and the disk"
        raise NotUsable(f"{path}: cannot be opened or written ({error}): {remedy}") from None
    except sqlite3.DatabaseError as error:
        raise NotUsable(f"{path}: damaged ({error}); restore a copy, or move it away and grade again") from None
    if courses and "attention" not in courses:
        raise NotUsable(f"{path}: belongs to the course {courses[0]!r}; move it away and grade again")
