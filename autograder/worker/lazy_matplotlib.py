"""Imports matplotlib on first use, because every notebook of the course imports it and few answers draw."""

from __future__ import annotations

from typing import Any


class _Plots:
    """Serves as `plt` in the given cells of a notebook, if no cell of the student's uses matplotlib."""

    def __getattr__(self, name: str) -> Any:
        bring()
        import matplotlib.pyplot

        return getattr(matplotlib.pyplot, name)


plt = _Plots()


def bring() -> None:
    """Import the real matplotlib, with a backend that opens no window."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot
