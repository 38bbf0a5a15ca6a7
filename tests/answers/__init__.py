"""Right and wrong answers, unit by unit, written from the contracts alone by people who had not seen the judge."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from autograder.exercises import unit_names


class Answers:
    """The functions of a module named `function__right_what` and `function__wrong_what`, by function."""

    def __init__(self, module: ModuleType) -> None:
        self.RIGHT = self._collect(module, "right")
        self.WRONG = self._collect(module, "wrong")

    def _collect(self, module: ModuleType, kind: str) -> dict[str, list[Callable]]:
        table: dict[str, list[Callable]] = {}
        for name, value in vars(module).items():
            function, _, rest = name.partition("__")
            if function and rest.startswith(kind + "_") and callable(value):
                table.setdefault(function, []).append(value)
        return table


#: Unit -> its right and wrong answers.
ANSWERS = {
    unit: Answers(import_module(f"answers.unit_{unit[:2]}"))
    for unit in unit_names()
    if Path(__file__).with_name(f"unit_{unit[:2]}.py").exists()
}
