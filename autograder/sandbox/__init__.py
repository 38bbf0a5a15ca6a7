"""The host's side of the sandbox: start it, talk to it, end it. `open_sandbox` is the way in."""

from __future__ import annotations

from .cells import CellOutcome, CellSource
from .delegation import claim
from .limits import BadSettings, Limits
from .sandbox import NoSandbox, Sandbox, open_sandbox, preflight
from .session import Lost, Session

__all__ = [
    "BadSettings",
    "CellOutcome",
    "CellSource",
    "Limits",
    "Lost",
    "NoSandbox",
    "Sandbox",
    "Session",
    "claim",
    "open_sandbox",
    "preflight",
]
