"""The autograder of the attention course. `judge_here` is the hidden line of every test cell."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["judge_here"]


def __getattr__(name: str) -> Any:
    # Looked up on first use: the commands start without importing SciPy and torch.
    if name == "judge_here":
        from .local import judge_here

        return judge_here
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
