"""The class report as files: one page that needs no network and runs nothing, and two tables for other programs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from ..data import NotUsable, PointInTime, Verdict
from ..text import csv_line, spreadsheet_safe
from . import beliefs, charts, heatmap
from .beliefs import Belief
from .charts import chart
from .frame import template
from .markup import with_code
from .report import SIGNS, mark_of
from .summary import FEWEST, LOW, NOT_RECOGNISED, Summary, items, outcome

PAGE, SCORES, MISTAKES, BELIEFS = "index.html", "scores.csv", "mistakes.csv", "predictions.html"
MEANINGS = {
    "right": "full marks",
    "missing": "missing",
    "crashed": "crashed",
    "timeout": "no end",
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
    """Write the pages and the tables into `folder`. Raises NotUsable where they cannot be written.

    runs: how the class stood after each grading run. days: what was handed in on each day of which it is known.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, str | list[list[str]]] = {}
        files |= {PAGE: page(summary, folder, root, runs, days), BELIEFS: beliefs.page(believed)}
        files |= {SCORES: score_rows(summary), MISTAKES: mistake_rows(summary)}
        for name, content in files.items():
            _write(folder / name, content if isinstance(content, str) else _csv(content))
    except OSError as error:
        raise NotUsable(f"{folder}: the report cannot be written there ({error.strerror})") from None
    return [folder / name for name in files]


def page(
    summary: Summary, folder: Path, root: Path, runs: Sequence[PointInTime] = (), days: Sequence[PointInTime] = ()
) -> str:
    """The page's HTML. Everything that comes from a student is escaped."""
    verdicts = [verdict for unit in summary.units for _, row in unit.rows for verdict in row.values()]
    remarks = [
        ("Forbidden calls", summary.forbidden, "Nobody used what an exercise forbids."),
        ("Cells deleted, doubled or changed", summary.cells, "All cells are as they were handed out."),
        ("Code that reaches for what is no part of an exercise", summary.code, "None."),
        ("Crashed, or without an end", summary.stopped, "All answers ran to their end."),
        ("Files that could not be read", summary.unreadable, "All files could be read."),
    ]
    return template("report_page.html").render(
        summary=summary,
        chart=Markup(chart(summary)),
        heat_map=Markup(heatmap.heat_map(summary)),
        meanings=heatmap.MEANINGS,
        letter=heatmap.letter,
        place_of=heatmap.place_of,
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
        mark=mark,
        words=with_code,
    )


def mark(verdict: Verdict | None) -> str:
    """What stands in the table: the score, or a sign where nothing was earned; empty where there is no verdict."""
    return "" if verdict is None else mark_of(verdict)


def _links(summary: Summary, folder: Path, root: Path) -> dict[tuple[str, str], str]:
    """(unit, student) -> the feedback page, as seen from `folder`."""
    found = {}
    for unit in summary.units:
        for student, _ in unit.rows:
            path = root / "grading" / "feedback" / student / unit.name / f"{unit.name}.html"
            if path.is_file():
                found[unit.name, student] = quote(Path(os.path.relpath(path, folder)).as_posix())
    return found


def score_rows(summary: Summary) -> list[list[str]]:
    """Student by exercise: the score, or nothing where the unit was not handed in; and what lateness costs."""
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
    """One row per mistake of an exercise, and one for those that have no name."""
    rows = [["unit", "exercise", "mistake", "students", "answers", "advice"]]
    for unit in summary.units:
        for exercise in unit.exercises:
            for entry in exercise.mistakes:
                numbers = [str(entry.count), str(entry.answers)]
                rows.append([unit.name, exercise.function, entry.name, *numbers, entry.advice])
    return rows


def _csv(rows: Sequence[Sequence[str]]) -> str:
    return "".join(csv_line(map(spreadsheet_safe, row)) for row in rows)


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    aside.write_text(text, encoding="utf-8", errors="replace", newline="")
    os.replace(aside, path)


__all__ = ["page", "write_report"]
