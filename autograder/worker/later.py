"""matplotlib, imported when something of it is first used: every notebook imports it, and few answers draw."""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

STAND_INS = ("matplotlib", "matplotlib.pyplot")


class _Later(types.ModuleType):
    """Stands for a module until something is asked of it, and hands everything on from then."""

    def __getattr__(self, name: str) -> Any:
        bring()
        real = importlib.import_module(self.__name__)
        try:
            return getattr(real, name)
        except AttributeError:  # as an import statement asks for it
            return importlib.import_module(f"{self.__name__}.{name}")


def put_off() -> None:
    """Have an import of matplotlib take no time."""
    if any(name in sys.modules for name in STAND_INS) or importlib.util.find_spec("matplotlib") is None:
        return
    for name in STAND_INS:
        sys.modules[name] = _Later(name)
    sys.modules["matplotlib"].pyplot = sys.modules["matplotlib.pyplot"]


def bring() -> None:
    """Import the real one, which draws nothing on any screen."""
    for name in STAND_INS:
        if isinstance(sys.modules.get(name), _Later):
            del sys.modules[name]
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot
    except ImportError:
        pass
