"""The host's side of the sandbox: start it, talk to it, end it. `open_sandbox` is the way in."""

from __future__ import annotations

from .cells import CellOutcome, CellSource
from .limits import Limits
from .sandbox import NoSandbox, Sandbox, open_sandbox
from .session import Lost, Session

__all__ = ["CellOutcome", "CellSource", "Limits", "Lost", "NoSandbox", "Sandbox", "Session", "open_sandbox"]
