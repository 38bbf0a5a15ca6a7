"""The class at a glance: scores by student and exercise, and the mistakes that were made most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..data import Graded, Verdict
from ..text import printable

#: Columns of text that no table of ours needs.
WIDEST = 10_000
SIGNS = {"right": "✓", "wrong": "0", "missing": "·", "crashed": "!", "timeout": "∞", "forbidden": "✗", "waiting": "?"}
#: Rows of mistakes that `grade` prints: `report` has them all.
MOST = 8


def score_table(graded: Sequence[Graded], unit: str, numbered: bool = False) -> Table:
    """One row per student, one column per exercise: the score, or a sign where nothing was earned.

    numbered: exercises by their number, for a narrow terminal.
    """
    rows = [item for item in graded if item.unit == unit]
    table = Table(title=unit, title_justify="left", caption=_caption(rows))
    table.add_column("student", no_wrap=True)
    names = _numbers(rows[0]) if numbered else [verdict.function for verdict in rows[0].verdicts]
    for name, verdict in zip(names, rows[0].verdicts, strict=True):
        table.add_column(f"{name}\n/{verdict.points:g}", justify="right", no_wrap=True)
    late = any(item.penalty for item in rows)
    if late:
        table.add_column("late", justify="right", no_wrap=True)
    table.add_column("sum", justify="right", no_wrap=True)
    for item in rows:
        marks = [mark_of(verdict) for verdict in item.verdicts]
        marks += [f"-{item.penalty:g}" if item.penalty else ""] if late else []
        table.add_row(escape(printable(item.student)), *marks, f"{item.score:g}")
    return table


def _caption(rows: Sequence[Graded]) -> str:
    words = ["✓ full marks", "· missing", "! crashed", "∞ no end", "✗ forbidden"]
    verdicts = [verdict for item in rows for verdict in item.verdicts]
    if any(verdict.verdict == "waiting" for verdict in verdicts):
        words.append("? waits for a person")
    if any(verdict.by_hand for verdict in verdicts):
        words.append("* by hand")
    return "   ".join(words)


def _numbers(item: Graded) -> list[str]:
    """The numbers that the exercises have in their notebook, as in 3.7."""
    return [f"{int(item.unit.partition('_')[0])}.{place}" for place in range(1, len(item.verdicts) + 1)]


def mark_of(verdict: Verdict) -> str:
    """What stands in a table: the score, or a sign for nothing or everything; marks by hand have a star."""
    if verdict.by_hand:
        return f"{verdict.score:g}*"
    if verdict.verdict == "right":
        return SIGNS["right"] if verdict.score >= verdict.points else f"{verdict.score:g}"
    return f"{verdict.score:g}" if verdict.score else SIGNS[verdict.verdict]


def mistakes(graded: Sequence[Graded]) -> list[dict[str, Any]]:
    """Named mistakes with how many made them, by exercise in the order of the course, the most frequent first."""
    order = list(dict.fromkeys((item.unit, verdict.function) for item in graded for verdict in item.verdicts))
    found = Counter(
        (item.unit, verdict.function, verdict.mistake)
        for item in graded
        for verdict in item.verdicts
        if verdict.mistake is not None
    )
    judged = [(item.unit, v) for item in graded for v in item.verdicts if v.verdict not in ("missing", "waiting")]
    answered = Counter((unit, verdict.function) for unit, verdict in judged)
    ranked = sorted(found.items(), key=lambda entry: (order.index(entry[0][:2]), -entry[1], entry[0][2]))
    return [
        {"unit": unit, "function": function, "mistake": slug, "count": count, "answers": answered[unit, function]}
        for (unit, function, slug), count in ranked
    ]


def print_report(graded: Sequence[Graded], console: Console | None = None, most: int | None = None) -> None:
    """Print one table per unit, then the mistakes, the most common first; `most` is how many of them at most."""
    console = console or Console()
    for unit in dict.fromkeys(item.unit for item in graded):
        table = score_table(graded, unit)
        if not console.is_terminal or _width(console, table) <= console.width:
            _print_whole(console, table)
        else:
            _print_whole(console, score_table(graded, unit, numbered=True))
            item = next(item for item in graded if item.unit == unit)
            names = [verdict.function for verdict in item.verdicts]
            console.print(", ".join(map(" ".join, zip(_numbers(item), names, strict=True))), highlight=False)
    table = Table(title="Mistakes named", title_justify="left")
    for column in ("unit", "function", "mistake"):
        table.add_column(column, overflow="fold")
    table.add_column("students", justify="right", no_wrap=True)
    made = sorted(mistakes(graded), key=lambda entry: -entry["count"])
    for entry in made[:most]:
        number, students = entry["unit"].partition("_")[0], f"{entry['count']} of {entry['answers']}"
        table.add_row(number, entry["function"], entry["mistake"], students)
    if table.row_count:
        _print_whole(console, table)
    if most is not None and len(made) > most:
        console.print(f"and {len(made) - most} more: `autograder report` has all of them", highlight=False)


def _print_whole(console: Console, table: Table) -> None:
    """Print a table without cutting a number: a pipe is as wide as it needs, and a terminal breaks the lines."""
    before = console.width
    least = console.measure(table, options=console.options.update(max_width=WIDEST)).minimum
    console.width = max(before, least if console.is_terminal else _width(console, table))
    console.print(table)
    console.width = before


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update(max_width=WIDEST)).maximum


def problem_lines(graded: Sequence[Graded]) -> list[str]:
    """What could not be read, and what of ours failed: one line each."""
    return [
        f"{printable(item.student)}: {printable(line)}"
        for item in graded
        for line in (item.problem, item.fault)
        if line is not None
    ]
