"""The one sandbox of a run, started before anything else, and the folders that no submission may see."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jupyter_core.paths import jupyter_config_path
from traitlets.config import PyFileConfigLoader

from ..running.limits import Limits
from ..running.sandbox import Sandbox, open_sandbox

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


def launched(root: Path, units: Sequence[str], limits: Limits, unsafe: bool) -> Sandbox:
    """A sandbox on its way, with what submissions of these units import (none named: of any). Raises NoSandbox.

    Whoever uses it waits for it, and whoever has launched it stops it.
    """
    releases = [path for path in sorted((root / "notebooks").glob("*/*.ipynb")) if not units or path.stem in units]
    torch = any("import torch" in path.read_text(encoding="utf-8", errors="replace") for path in releases)
    sandbox = open_sandbox(limits, unsafe=unsafe, hidden=unseen(root))
    sandbox.launch(frozenset({"torch"} if torch else ()))
    return sandbox
