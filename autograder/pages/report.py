"""Makes the class report: tables for a terminal, a page that runs nothing, and two tables for other programs."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..exercises import title_of_mistake
from ..records import Graded, NotUsable, PointInTime, Verdict
from ..safe_text import csv_line, printable, spreadsheet_safe
from . import charts, class_predictions
from .class_predictions import Belief
from .class_summary import FEWEST, LOW, NOT_RECOGNISED, Summary, items, outcome
from .html_rendering import template, with_code

#: More columns of text than any table of ours needs.
WIDEST = 10_000
SIGNS = {"right": "✓", "wrong": "0", "missing": "·", "crashed": "!", "timeout": "∞", "forbidden": "✗", "waiting": "?"}
#: How many mistakes `grade` prints; `report` has them all.
MOST = 8


def score_table(graded: Sequence[Graded], unit: str, numbered: bool = False) -> Table:
    """Return a table with a row per student and a column per exercise: the score, or a sign if nothing was earned.

    numbered: name exercises by their number, for a narrow terminal.
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
    words = ["✓ full marks", "· missing", "! crashed", "∞ timed out", "✗ forbidden"]
    verdicts = [verdict for item in rows for verdict in item.verdicts]
    if any(verdict.verdict == "waiting" for verdict in verdicts):
        words.append("? waits for a person")
    if any(verdict.by_hand for verdict in verdicts):
        words.append("* by hand")
    return "   ".join(words)


def _numbers(item: Graded) -> list[str]:
    """Return the numbers of the exercises in their notebook, such as 3.7."""
    return [f"{int(item.unit.partition('_')[0])}.{place}" for place in range(1, len(item.verdicts) + 1)]


def mark_of(verdict: Verdict) -> str:
    """Return an entry of a table: the score, or a sign for nothing or everything; marks by hand have a star."""
    if verdict.by_hand:
        return f"{verdict.score:g}*"
    if verdict.verdict == "right":
        return SIGNS["right"] if verdict.score >= verdict.points else f"{verdict.score:g}"
    return f"{verdict.score:g}" if verdict.score else SIGNS[verdict.verdict]


def mistakes(graded: Sequence[Graded]) -> list[dict[str, Any]]:
    """Return named mistakes and how many made them, by exercise in the order of the course, the most frequent first."""
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
    """Print one table per unit, then at most `most` mistakes, the most common first."""
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
    table = Table(title="Most common mistakes", title_justify="left")
    for column in ("unit", "function", "mistake"):
        table.add_column(column, overflow="fold")
    table.add_column("students", justify="right", no_wrap=True)
    made = _by_title(graded)
    for (unit, function, title), (count, answers) in made[:most]:
        table.add_row(unit.partition("_")[0], function, title, f"{count} of {answers}")
    if table.row_count:
        _print_whole(console, table)
    if most is not None and len(made) > most:
        console.print(f"and {len(made) - most} more: `autograder report` has all of them", highlight=False)


def _by_title(graded: Sequence[Graded]) -> list[tuple[tuple[str, str, str], tuple[int, int]]]:
    """Return ((unit, function, title), (how many made it, of how many)), the most common first."""
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for entry in mistakes(graded):
        unit, function = entry["unit"], entry["function"]
        key = unit, function, title_of_mistake(entry["mistake"], function, unit)
        found[key] = (found.get(key, (0, 0))[0] + entry["count"], entry["answers"])
    return sorted(found.items(), key=lambda entry: -entry[1][0])


def _print_whole(console: Console, table: Table) -> None:
    """Print a table without cutting off any number: a pipe gets lines as wide as the table, a terminal wrapped ones."""
    before = console.width
    least = console.measure(table, options=console.options.update(max_width=WIDEST)).minimum
    console.width = max(before, least if console.is_terminal else _width(console, table))
    console.print(table)
    console.width = before


def _width(console: Console, table: Table) -> int:
    return console.measure(table, options=console.options.update(max_width=WIDEST)).maximum


def problem_lines(graded: Sequence[Graded]) -> list[str]:
    """Return one line for each submission that could not be read, and for each internal error."""
    return [
        f"{printable(item.student)}: {printable(line)}"
        for item in graded
        for line in (item.problem, item.fault)
        if line is not None
    ]


PAGE, SCORES, MISTAKES, BELIEFS = "index.html", "scores.csv", "mistakes.csv", "predictions.html"
MEANINGS = {
    "right": "full marks",
    "missing": "missing",
    "crashed": "crashed",
    "timeout": "timed out",
    "forbidden": "forbidden",
}


def write_report(
    summary: Summary,
    folder: Path,
    root: Path,
    believed: Sequence[Belief] = (),
    runs: Sequence[PointInTime] = (),
    days: Sequence[PointInTime] = (),
) -> list[Path]:
    """Write the pages and the tables into `folder`. Raises NotUsable if they cannot be written.

    runs: how many answers were right after each grading run. days: the same for what was handed in on each known day.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, str | list[list[str]]] = {}
        files |= {PAGE: page(summary, folder, root, runs, days), BELIEFS: class_predictions.page(believed)}
        files |= {SCORES: score_rows(summary), MISTAKES: mistake_rows(summary)}
        for name, content in files.items():
            _write(folder / name, content if isinstance(content, str) else _csv(content))
    except OSError as error:
        raise NotUsable(f"{folder}: the report cannot be written there ({error.strerror})") from None
    return [folder / name for name in files]


def page(
    summary: Summary, folder: Path, root: Path, runs: Sequence[PointInTime] = (), days: Sequence[PointInTime] = ()
) -> str:
    """Return the page's HTML. Everything that comes from a student is escaped."""
    verdicts = [verdict for unit in summary.units for _, row in unit.rows for verdict in row.values()]
    remarks = [
        ("Forbidden calls", summary.forbidden, "Nobody used what an exercise forbids."),
        ("Cells deleted, doubled or changed", summary.cells, "All cells are as they were handed out."),
        ("Code that reaches for what is no part of an exercise", summary.code, "None."),
        ("Crashed or timed out", summary.stopped, "All answers ran to their end."),
        ("Files that could not be read", summary.unreadable, "All files could be read."),
    ]
    return template("report_page.html").render(
        summary=summary,
        chart=Markup(charts.chart(summary)),
        heat_map=Markup(charts.heat_map(summary)),
        meanings=charts.MEANINGS,
        letter=charts.letter,
        place_of=charts.place_of,
        items=items(summary),
        fewest=FEWEST,
        low=LOW,
        line=Markup(charts.timeline(runs, charts.runs_in_words(runs))),
        line_in_words=charts.runs_in_words(runs),
        days=Markup(charts.timeline(days, charts.days_in_words(days))),
        days_in_words=charts.days_in_words(days),
        lines=charts.lines(runs),
        made=time.strftime("%d %B %Y, %H:%M"),
        notebooks=sum(len(unit.rows) for unit in summary.units),
        answers=sum(verdict.verdict not in ("missing", "waiting") for verdict in verdicts),
        right=sum(verdict.verdict == "right" for verdict in verdicts),
        flagged={remark.student for remark in (*summary.forbidden, *summary.cells, *summary.code)},
        remarks=remarks,
        not_recognised=NOT_RECOGNISED,
        signs=[(SIGNS[name], word) for name, word in MEANINGS.items()],
        links=_links(summary, folder, root),
        outcome=outcome,
        title_of=title_of_mistake,
        mark=mark,
        words=with_code,
    )


def mark(verdict: Verdict | None) -> str:
    """Return an entry of the page's table, as `mark_of` does; empty if there is no verdict."""
    return "" if verdict is None else mark_of(verdict)


def _links(summary: Summary, folder: Path, root: Path) -> dict[tuple[str, str], str]:
    """Return (unit, student) -> the feedback page, relative to `folder`."""
    found = {}
    for unit in summary.units:
        for student, _ in unit.rows:
            path = root / "grading" / "feedback" / student / unit.name / f"{unit.name}.html"
            if path.is_file():
                found[unit.name, student] = quote(Path(os.path.relpath(path, folder)).as_posix())
    return found


def score_rows(summary: Summary) -> list[list[str]]:
    """Return the scores, student by exercise, empty if the unit was not handed in, and the late penalties."""
    head = ["student"]
    for unit in summary.units:
        head += [f"{unit.name} {exercise.function} /{exercise.points:g}" for exercise in unit.exercises]
        head += [f"{unit.name} late"] if unit.penalties else []
    rows = [[*head, "sum"]]
    found = {unit.name: dict(unit.rows) for unit in summary.units}
    for student in summary.students:
        cells = []
        for unit in summary.units:
            verdicts = [found[unit.name].get(student, {}).get(exercise.function) for exercise in unit.exercises]
            cells += ["" if verdict is None else f"{verdict.score:g}" for verdict in verdicts]
            cells += [f"{-unit.penalties[student]:g}" if student in unit.penalties else ""] if unit.penalties else []
        total = sum(unit.scores.get(student, 0.0) for unit in summary.units)
        rows.append([student, *cells, f"{round(total, 2):g}"])
    return rows


def mistake_rows(summary: Summary) -> list[list[str]]:
    """Return one row per mistake of an exercise, and one for those that have no name."""
    rows = [["unit", "exercise", "mistake", "students", "answers", "advice"]]
    for unit in summary.units:
        for exercise in unit.exercises:
            for entry in exercise.mistakes:
                numbers = [str(entry.count), str(entry.answers)]
                rows.append([unit.name, exercise.function, entry.title, *numbers, entry.advice])
    return rows


def _csv(rows: Sequence[Sequence[str]]) -> str:
    return "".join(csv_line(map(spreadsheet_safe, row)) for row in rows)


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    aside.write_text(text, encoding="utf-8", errors="replace", newline="")
    os.replace(aside, path)
