"""matplotlib, imported when something of it is first used: every notebook of ours imports it, and few answers draw."""

from __future__ import annotations

from typing import Any


class _Plots:
    """What the cells that come with a notebook call `plt`, where nothing of a student's names it."""

    def __getattr__(self, name: str) -> Any:
        bring()
        import matplotlib.pyplot

        return getattr(matplotlib.pyplot, name)


plt = _Plots()


def bring() -> None:
    """Import the real one, which draws nothing on any screen."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot
