"""Loads a course folder's nbgrader configuration, and checks that its gradebook can be used."""

from __future__ import annotations

import os
import sqlite3
import sys
import warnings
from contextlib import closing
from pathlib import Path

import nbgrader.api
from sqlalchemy.exc import SAWarning
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from ..records import NotUsable

# nbgrader starts `alembic` by name, so let it find the one next to this Python even without activation.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
# SQLAlchemy 2.1 warns about the order in which nbgrader adds objects, which does no harm.
warnings.filterwarnings("ignore", message="Object of type <Submitted", category=SAWarning)


def _version_of_the_tables() -> str:
    """Return the tables' version; nbgrader would start `alembic` for it, which takes a second per new gradebook."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(Path(nbgrader.api.__file__).parent / "alembic")).get_current_head()


nbgrader.api.get_alembic_version = _version_of_the_tables
_config_folder = ""


def load_config(root: Path) -> Config:
    """Load the course's nbgrader configuration. As in nbgrader, a module with a late-work rule may be next to it."""
    global _config_folder
    if _config_folder != str(root):
        if _config_folder:  # another course may have a module of the same name
            sys.path.remove(_config_folder)
            for name, module in list(sys.modules.items()):
                if Path(getattr(module, "__file__", None) or "/").parent == Path(_config_folder):
                    del sys.modules[name]
        _config_folder = str(root)
        sys.path.append(_config_folder)
    return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()


def check_gradebook(root: Path, to_write: bool = False) -> None:
    """Raise NotUsable if the gradebook is locked, damaged, of another course, or cannot be opened or written."""
    path = root / "grading" / "gradebook.db"
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=5)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # doesn't fail for a file that cannot be written
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
