"""The class at a glance: scores by student and exercise, and the mistakes that were made most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .jobs import Graded
from .text import printable

SIGNS = {"right": "✓", "wrong": "0", "missing": "·", "crashed": "!", "timeout": "∞", "forbidden": "✗"}


def score_table(graded: Sequence[Graded], unit: str) -> Table:
    """One row per student, one column per exercise: the score, or a sign where nothing was earned."""
    rows = [item for item in graded if item.unit == unit]
    table = Table(
        title=unit, title_justify="left", caption="✓ full marks   · missing   ! crashed   ∞ no end   ✗ forbidden"
    )
    table.add_column("student", no_wrap=True)
    for verdict in rows[0].verdicts:
        table.add_column(f"{verdict.function}\n/{verdict.points:g}", justify="right", overflow="fold")
    table.add_column("sum", justify="right")
    for item in rows:
        marks = [_mark(verdict.verdict, verdict.score) for verdict in item.verdicts]
        table.add_row(escape(printable(item.student)), *marks, f"{sum(verdict.score for verdict in item.verdicts):g}")
    return table


def _mark(verdict: str, score: float) -> str:
    return f"{score:g}" if score and verdict != "right" else SIGNS[verdict]


def mistakes(graded: Sequence[Graded]) -> list[dict[str, Any]]:
    """Named mistakes with how many made them, by exercise in the order of the course, the most frequent first."""
    order = list(dict.fromkeys((item.unit, verdict.function) for item in graded for verdict in item.verdicts))
    found = Counter(
        (item.unit, verdict.function, verdict.mistake)
        for item in graded
        for verdict in item.verdicts
        if verdict.mistake is not None
    )
    answered = Counter((item.unit, v.function) for item in graded for v in item.verdicts if v.verdict != "missing")
    ranked = sorted(found.items(), key=lambda entry: (order.index(entry[0][:2]), -entry[1], entry[0][2]))
    return [
        {"unit": unit, "function": function, "mistake": slug, "count": count, "answers": answered[unit, function]}
        for (unit, function, slug), count in ranked
    ]


def print_report(graded: Sequence[Graded], console: Console | None = None) -> None:
    """Print one table per unit, then the mistakes, then what could not be read."""
    console = console or Console()
    for unit in dict.fromkeys(item.unit for item in graded):
        console.print(score_table(graded, unit))
    table = Table(title="Mistakes named", title_justify="left")
    for column in ("unit", "function", "mistake", "students"):
        table.add_column(column, justify="right" if column == "students" else "left")
    for entry in mistakes(graded):
        table.add_row(entry["unit"], entry["function"], entry["mistake"], f"{entry['count']} of {entry['answers']}")
    if table.row_count:
        console.print(table)
    for item in graded:
        if item.problem:
            line = printable(f"{item.student}, {item.unit}: {item.problem}")
            console.print(line, markup=False, highlight=False)
