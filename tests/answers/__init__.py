"""Right and wrong answers, unit by unit: functions named `exercise__right_what` and `exercise__wrong_what`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from autograder.exercises import find_exercise


def answers_of(function: str, kind: str) -> list[Callable]:
    """The answers to one exercise. kind: right or wrong."""
    module = import_module(f"answers.unit_{find_exercise(function).unit[:2]}")
    return [value for name, value in vars(module).items() if name.startswith(f"{function}__{kind}_")]
