"""The folders of a course that no submission may see, should they lie among what the sandbox must show."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path

from jupyter_core.paths import jupyter_config_path
from traitlets.config import PyFileConfigLoader

#: Where nbgrader's exchange lies if nobody says otherwise.
EXCHANGE = "/usr/local/share/nbgrader/exchange"
CONFIGURATION = "nbgrader_config.py"


@cache
def unseen(root: Path) -> tuple[str, ...]:
    """The course's folder, and nbgrader's exchange wherever a configuration of this course or machine puts it."""
    found = {str(root.resolve()), EXCHANGE}
    for folder in (str(root), *jupyter_config_path()):
        with contextlib.suppress(Exception):  # whoever needs the configuration says what is wrong with it
            place = PyFileConfigLoader(CONFIGURATION, path=folder).load_config()["Exchange"]["root"]
            found.add(str(Path(str(place)).expanduser().resolve()))
    return tuple(sorted(found))
