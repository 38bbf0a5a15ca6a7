"""Compares the class's predictions with what is true, as a page and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ..reading.course_contents import Course
from ..reading.predictions import Asked, Guess, guesses_in
from ..reading.read_submission import SIZE_CAP, read
from ..records import Graded, Unreadable
from .html_rendering import template

#: Ranges of a guessed number, relative to the true one.
LESS, NEAR, MORE = "less than half of it", "from half of it to twice", "more than twice"


@dataclass(frozen=True)
class Share:
    """Holds an answer, or a range of numbers, and how many gave it."""

    words: str
    count: int
    true: bool


@dataclass(frozen=True)
class Belief:
    """Holds one prediction with its guesses. unclear: number of invalid guesses. silent: notebooks without a guess."""

    unit: str
    asked: Asked
    guesses: tuple[Guess, ...]
    unclear: int
    silent: int

    @property
    def shares(self) -> list[Share]:
        if self.asked.options:
            return [
                Share(f"{letter}: {words}", self.guesses.count(letter), letter == self.asked.truth)
                for letter, words in self.asked.options.items()
            ]
        ranges = [_range(guess, self.asked.truth) for guess in self.guesses]
        return [Share(words, ranges.count(words), words == NEAR) for words in (LESS, NEAR, MORE)]

    @property
    def truth(self) -> str:
        """Return what was measured, in words."""
        if self.asked.truth is None:
            return "not known here"
        if isinstance(self.asked.truth, str):
            return f"{self.asked.truth}: {self.asked.options[self.asked.truth]}"
        return f"{self.asked.truth:.4g}"

    @property
    def middle(self) -> str:
        """Return the median of the guessed numbers."""
        numbers = [guess for guess in self.guesses if isinstance(guess, float)]
        return f"{median(numbers):.4g}" if numbers else ""

    @property
    def right(self) -> int:
        return sum(share.count for share in self.shares if share.true)

    def as_json(self) -> dict[str, Any]:
        numbers = sorted(guess for guess in self.guesses if isinstance(guess, float))
        told: dict[str, Any] = {"unit": self.unit, "number": self.asked.number, "question": self.asked.question}
        told |= {"options": self.asked.options, "truth": self.asked.truth, "unclear": self.unclear}
        counts = {letter: self.guesses.count(letter) for letter in self.asked.options}
        return {**told, "silent": self.silent, "counts": counts, "numbers": numbers}


def beliefs(root: Path, graded: Sequence[Graded]) -> list[Belief]:
    """Return the predictions of all notebooks that were graded and can be read, in the order of the course.

    Files larger than SIZE_CAP are left out: no mark depends on this, and the report reads them in its own process,
    where they could take gigabytes of memory.
    """
    course, found = Course(root), []
    for unit in dict.fromkeys(item.unit for item in graded):
        asked = course.predictions(unit)
        said = [_guesses(root, item, asked) for item in graded if item.unit == unit and asked]
        said = [each for each in said if each is not None]
        for each in asked:
            given = [one[each.number] for one in said if each.number in one]
            guesses = tuple(guess for guess in given if guess is not None)
            found.append(Belief(unit, each, guesses, len(given) - len(guesses), len(said) - len(given)))
    return found


def page(found: Sequence[Belief]) -> str:
    """Return the page's HTML, which needs no network and runs nothing."""
    return template("beliefs_page.html").render(
        units=[(unit, [each for each in found if each.unit == unit]) for unit in dict.fromkeys(e.unit for e in found)]
    )


def _guesses(root: Path, item: Graded, asked: Sequence[Asked]) -> dict[str, Guess | None] | None:
    path = root / "grading" / "submitted" / item.student / item.unit / f"{item.unit}.ipynb"
    try:
        return guesses_in(read(path, SIZE_CAP), asked)
    except Unreadable:
        return None


def _range(guess: Guess, truth: Guess | None) -> str:
    """Return the range of a guessed number, or whether it is less, the same or more if the true one is not above 0."""
    if not isinstance(guess, float) or not isinstance(truth, float):
        return ""
    low, high = (truth / 2, truth * 2) if truth > 0 else (truth, truth)
    return LESS if guess < low else MORE if guess > high else NEAR
