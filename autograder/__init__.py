"""The autograder of the attention course. `judge_here` is the hidden line of every test cell."""

from __future__ import annotations

from typing import Any

from .version import __version__

__all__ = ["__version__", "judge_here"]


def __getattr__(name: str) -> Any:
    # Looked up on first use: the commands start without importing SciPy and torch.
    if name == "judge_here":
        from .judging.local import judge_here

        return judge_here
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
