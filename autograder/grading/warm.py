"""The one sandbox of a run, started before anything else: it takes seconds to be warm, and so does this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..running.limits import Limits
from ..running.sandbox import Sandbox, open_sandbox
from .unseen import unseen


def launched(root: Path, units: Sequence[str], limits: Limits, unsafe: bool) -> Sandbox:
    """A sandbox on its way, with what submissions of these units import (none named: of any). Raises NoSandbox.

    Whoever uses it waits for it, and whoever has launched it stops it.
    """
    releases = [path for path in sorted((root / "notebooks").glob("*/*.ipynb")) if not units or path.stem in units]
    torch = any("import torch" in path.read_text(encoding="utf-8", errors="replace") for path in releases)
    sandbox = open_sandbox(limits, unsafe=unsafe, hidden=unseen(root))
    sandbox.launch(frozenset({"torch"} if torch else ()))
    return sandbox
