"""The notebook as the visible test of one answer finds it: later cells may have changed what the answer needs.

Functions are asked when all cells have run, and until then a cell below may have
used a name again, as in `softmax = softmax(scores)`, or left torch without gradients.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class Moment:
    """What is kept of a namespace where the test of function `name` stands."""

    def __init__(self, name: str, namespace: dict[str, Any]) -> None:
        self._name, self._function = name, namespace[name]
        self._usable = {key: value for key, value in namespace.items() if _is_usable(value)}
        torch = sys.modules.get("torch")
        self._torch = torch and (torch.is_grad_enabled(), torch.get_default_dtype())

    def bring_back_function(self, namespace: dict[str, Any]) -> None:
        """What was tested counts, whatever a cell below makes of the name."""
        namespace[self._name] = self._function

    def bring_back_rest(self, namespace: dict[str, Any]) -> None:
        """Functions, classes and modules whose names now stand for something else, and torch's settings."""
        for key, value in self._usable.items():
            if not _is_usable(namespace.get(key)):
                namespace[key] = value
        torch = sys.modules.get("torch")
        if torch is not None and self._torch:
            gradients, dtype = self._torch
            torch.set_grad_enabled(gradients)
            torch.set_default_dtype(dtype)


def _is_usable(value: Any) -> bool:
    return callable(value) or issubclass(type(value), ModuleType)
