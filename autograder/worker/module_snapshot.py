"""The worker's own modules as they were before the first cell ran: a cell may have put something else there."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any


class Ours:
    """What is kept of a package: what its modules and classes hold, and the code of its functions."""

    def __init__(self, package: str) -> None:
        modules = [module for name, module in sys.modules.items() if f"{name}.".startswith(f"{package}.")]
        spaces = [vars(module) for module in modules]
        classes = {value for space in spaces for value in space.values() if isinstance(value, type)}
        self._spaces = [(space, dict(space)) for space in spaces]
        self._classes = [
            (kind, dict(vars(kind))) for kind in classes if f"{kind.__module__}.".startswith(f"{package}.")
        ]
        inside = [values for _, values in (*self._spaces, *self._classes)]
        functions = {value for values in inside for value in values.values() if type(value) is FunctionType}
        self._functions = [(each, each.__code__, each.__defaults__, each.__kwdefaults__) for each in functions]

    def bring_back(self) -> None:
        """Put everything back in its place."""
        for space, before in self._spaces:
            space.update(before)
        for kind, before in self._classes:
            now: Any = vars(kind)
            for name, value in before.items():
                if now.get(name) is not value:
                    setattr(kind, name, value)
        for function, code, defaults, of_keywords in self._functions:
            if function.__code__ is not code:
                function.__code__ = code
            function.__defaults__, function.__kwdefaults__ = defaults, of_keywords
