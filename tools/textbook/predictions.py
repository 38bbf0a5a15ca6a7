"""Shows predictions on the site: a question with buttons, and the measurement, folded until the reader answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nbformat import NotebookNode

from autograder.reading.predictions import Asked

from . import SiteFailed
from .templates import filled

#: Matches a line of `reveal`. The guess in it is the author's, because a reader of the site has made none.
REVEALED = re.compile(
    r"^(?P<number>\d+\.\d+): measured (?P<measured>.*?)"
    r"(?:, (?:as you predicted|not as you predicted|and you predicted [\d.e+-]*\d))?(?P<how> \(.*\))?\.$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Revealed:
    """A measured result in the notebook's words (`b, “half”` or `0.25`), and the cell that measures it."""

    measured: str
    cell: str


def revealed_in(cells: Iterable[NotebookNode]) -> dict[str, Revealed]:
    """Return number of a prediction -> its measured result in the executed cells."""
    printed = (
        (cell.id, output["text"])
        for cell in cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader")
        for output in cell.outputs
        if output["output_type"] == "stream"
    )
    return {
        line["number"]: Revealed(line["measured"], cell) for cell, text in printed for line in REVEALED.finditer(text)
    }


def question(asked: Asked, revealed: Mapping[str, Revealed]) -> str:
    """Return the question with its options and the measured result. Raises SiteFailed."""
    if asked.number not in revealed:
        raise SiteFailed(f"no cell says what was measured of prediction {asked.number}")
    found = revealed[asked.number]
    letter = found.measured.partition(",")[0]
    if asked.options and letter not in asked.options:
        raise SiteFailed(f"prediction {asked.number}: {letter!r} was measured, and is no option")
    truth = letter if asked.options else found.measured
    return filled("prediction.html", asked=asked, truth=truth, place=place(found.cell), slug=slug(asked.number))


def evidence(cell: str, shown: str, numbers: list[str]) -> str:
    """Return a measuring cell's output, folded until its predictions are made."""
    return filled("evidence.html", place=place(cell), numbers=numbers, shown=shown)


def numbers_in(outputs: Iterable[NotebookNode]) -> list[str]:
    """Return the numbers of the predictions whose results these outputs contain."""
    return [line["number"] for output in outputs for line in REVEALED.finditer(output.get("text", ""))]


def without_guesses(output: NotebookNode) -> NotebookNode:
    """Return an output without its words about the author's guesses."""
    if output["output_type"] != "stream":
        return output
    told = REVEALED.sub(
        lambda line: f"{line['number']}: measured {line['measured']}{line['how'] or ''}.", output["text"]
    )
    return NotebookNode(output, text=told)


def place(cell: str) -> str:
    return f"measured-{cell}"


def slug(number: str) -> str:
    return f"predict-{number.replace('.', '-')}"
