"""Runs a test of the instructor's own in the notebook's namespace, in a process that ends with it.

Test and answer share this process, as everywhere in nbgrader, so the student's code can influence what it reports.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import numbers
import sys
from collections.abc import Iterable
from typing import Any

from .call_function import describe_error


class OwnTests:
    """Runs one notebook's tests, each in the state of the notebook at the test's place.

    Otherwise a later cell could have given a name another meaning.
    transform: converts a cell with magics to Python.
    """

    def __init__(self, namespace: dict[str, Any], transform: Any) -> None:
        self._namespace, self._transform = namespace, transform
        self._places: dict[str, tuple[dict[str, Any], Any]] = {}

    def keep(self, names: Iterable[str]) -> None:
        """Save the notebook's current state for the tests of these names."""
        for name in names:
            torch = sys.modules.get("torch")
            settings = torch and (torch.is_grad_enabled(), torch.get_default_dtype())
            self._places[str(name)] = dict(self._namespace), settings

    def outcome(self, test: dict[str, Any]) -> dict[str, Any]:
        """Run a test {"name", "source"}; returns what it raised, or the value of its last line if that is a number."""
        self._bring_back(str(test["name"]))
        header: dict[str, Any] = {"event": "outcome"}
        try:
            value = self._run(str(test["source"]), f"<cell {test['name']}>")
            number = _number(value)
            if number is not None:
                header["number"] = repr(number)
        except BaseException as error:  # a student's SystemExit or KeyboardInterrupt is an exception like any other
            header["error"] = describe_error(error)
        return header

    def _bring_back(self, name: str) -> None:
        if name not in self._places:
            return
        place, settings = self._places[name]
        self._namespace.clear()
        self._namespace.update(place)
        if settings:
            torch = sys.modules["torch"]
            torch.set_grad_enabled(settings[0])
            torch.set_default_dtype(settings[1])

    def _run(self, source: str, file: str) -> Any:
        """Run statement by statement until one raises; returns the value of the last one if it is an expression."""
        flags, value = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, None
        text = self._transform(source)
        body = compile(text, file, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True).body
        for statement in body:
            shown = statement is body[-1] and isinstance(statement, ast.Expr)
            tree = ast.Expression(statement.value) if shown else ast.Module([statement], [])
            code = compile(tree, file, "eval" if shown else "exec", flags, dont_inherit=True)
            value = eval(code, self._namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                value = asyncio.run(value)
        return None if source.rstrip().endswith(";") else value


def _number(value: Any) -> float | None:
    """Return the value as nbgrader's partial credit takes it, or None if it is no number; True and False are none."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else None
