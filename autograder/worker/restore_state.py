"""Saves and restores the worker's own modules, and the notebook as an answer's visible test finds it.

A cell may have replaced parts of the worker. Functions are called after all cells have run, and by then a later cell
may have reused a name, as in `softmax = softmax(scores)`, or left torch without gradients.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Any


class ModuleSnapshot:
    """Saves what the modules and classes of a package hold, and the code of its functions."""

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
        """Restore everything that was saved."""
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


class NamespaceSnapshot:
    """Saves a namespace at the point where the visible test of function `name` runs."""

    def __init__(self, name: str, namespace: dict[str, Any]) -> None:
        self._name, self._function = name, namespace[name]
        self._usable = {key: value for key, value in namespace.items() if _is_usable(value)}
        torch = sys.modules.get("torch")
        self._torch = torch and (torch.is_grad_enabled(), torch.get_default_dtype())

    def bring_back_function(self, namespace: dict[str, Any]) -> None:
        """Restore the function that was tested, whatever a later cell binds to its name."""
        namespace[self._name] = self._function

    def bring_back_rest(self, namespace: dict[str, Any]) -> None:
        """Restore functions, classes and modules whose names are now bound to other values, and torch's settings."""
        for key, value in self._usable.items():
            if not _is_usable(namespace.get(key)):
                namespace[key] = value
        torch = sys.modules.get("torch")
        if torch is not None and self._torch:
            gradients, dtype = self._torch
            if torch.is_grad_enabled() != gradients:
                torch.set_grad_enabled(gradients)
            if torch.get_default_dtype() != dtype:
                torch.set_default_dtype(dtype)


def _is_usable(value: Any) -> bool:
    return callable(value) or issubclass(type(value), ModuleType)
