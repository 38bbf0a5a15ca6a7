"""The autograder of the attention course. `judge_here` is the hidden line of every test cell."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

__all__ = ["__version__", "judge_here"]

#: jsonschema, which nbformat uses, imports these to check addresses and durations, which no notebook contains; the
#: import takes a second.
NEEDLESS = ("rfc3987_syntax", "rfc3986_validator", "isoduration")


def import_no_more_than_needed() -> None:
    """Keep what is needless from being imported; called before anything imports nbformat."""
    for name in NEEDLESS:
        sys.modules.setdefault(name, None)


def __getattr__(name: str) -> Any:
    # Looked up on first use: the commands start without importing SciPy and torch.
    if name == "judge_here":
        import_no_more_than_needed()
        return import_module("autograder.grading.in_process").judge_here
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
