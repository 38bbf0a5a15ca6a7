"""How the class went on: the share of right answers after each grading run, and by the day of handing in, as drawings
and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

from attention_figures.look import SERIES

from ..data import PointInTime
from ..text import counted

#: Runs that are drawn at most: the last ones.
MOST = 60
#: Labels nearer to each other than this share no height.
NEAR = 24
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 260, 46, 70, 14, 34


@dataclass(frozen=True)
class Line:
    """The points of one unit, or of "all": when, and the share."""

    name: str
    points: tuple[tuple[datetime, float], ...]

    @property
    def label(self) -> str:
        """A unit of the course by its number."""
        number = self.name.partition("_")[0]
        return str(int(number)) if number.isdecimal() else self.name


def lines(runs: Sequence[PointInTime]) -> list[Line]:
    """All answers together first, then unit by unit. A run that graded some units leaves the others as they were."""
    stand: dict[str, tuple[int, int]] = {}
    found: dict[str, list[tuple[datetime, float]]] = {"all": []}
    runs = _with_answers(runs)
    for place, run in enumerate(runs, start=MOST - len(runs)):
        stand |= run.units
        if place < 0:
            continue
        for unit, (answers, right) in run.units.items():
            if answers:
                found.setdefault(unit, []).append((run.time, right / answers))
        total = sum(answers for answers, _ in stand.values())
        if total:
            found["all"].append((run.time, sum(right for _, right in stand.values()) / total))
    if len(found) == 2:  # of one unit alone, both would be the same line
        found.pop("all")
    return [Line(name, tuple(points)) for name, points in found.items() if points]


def _with_answers(runs: Sequence[PointInTime]) -> list[PointInTime]:
    return [run for run in runs if any(answers for answers, _ in run.units.values())]


def in_words(runs: Sequence[PointInTime]) -> str:
    """What the drawing shows; where there is none, why not."""
    told = _with_answers(runs)
    if not told:
        return "No run has noted yet how many answers were right: the next `autograder grade` does."
    overall = lines(told)[0]
    first, last = overall.points[0], overall.points[-1]
    if len(overall.points) < 2:
        return f"One run so far, on {_day(first[0])}: {first[1]:.0%} of all answers right. A line needs a second one."
    words = f"{counted(len(overall.points), 'run')} from {_day(first[0])} to {_day(last[0])}"
    change = f"{first[1]:.0%} of all answers were right after the first, {last[1]:.0%} after the last"
    older = f" Earlier ones than the last {MOST} are left out." if len(told) > MOST else ""
    return f"{words}: {change}.{older}"


def days_in_words(days: Sequence[PointInTime]) -> str:
    """The same of what was handed in from day to day; nothing where fewer than two days are known."""
    found = [line.points for line in lines(days)]
    if not found or len(found[0]) < 2:
        return ""
    (start, first), (end, last) = found[0][0], found[0][-1]
    words = f"{counted(len(found[0]), 'day')} from {_day(start)} to {_day(end)}"
    return f"{words}: {first:.0%} right of what came on the first, {last:.0%} of what came on the last."


def timeline(moments: Sequence[PointInTime], words: str) -> str:
    """An SVG image, which `words` stand for; nothing where fewer than two moments have numbers."""
    drawn = lines(moments)
    times = [time for line in drawn for time, _ in line.points]
    if not drawn or len(set(times)) < 2:
        return ""
    first, span = min(times), max(times) - min(times)

    def at(time: datetime, share: float) -> tuple[float, float]:
        across = (time - first) / span
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(first, span)]
    ends: list[tuple[float, float]] = []
    for place, line in enumerate(drawn):
        style = "ink" if line.name == "all" else f"s{place % len(SERIES)}"
        spots = [at(*point) for point in line.points]
        label, path = escape(line.label), " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        dash = ' stroke-dasharray="5 3"' if place >= len(SERIES) else ""
        parts.append(f'<polyline class="{style}" points="{path}"{dash}/>')
        parts += [f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in spots]
        x, y = spots[-1]
        ends.append((x, _apart(x, y, ends)))
        parts.append(f'<text x="{x + 7:.1f}" y="{ends[-1][1] + 4:.1f}" class="name">{label}</text>')
    head = f'<svg role="img" aria-label="{escape(words, quote=True)}" viewBox="0 0 {WIDTH} {HEIGHT}" class="line">'
    return head + "".join(parts) + "</svg>"


def _apart(x: float, y: float, taken: Sequence[tuple[float, float]]) -> float:
    """A height at or below `y` where no label before it lies."""
    while any(abs(x - left) < NEAR and abs(y - height) < 12 for left, height in taken):
        y += 2
    return y


def _grid(first: datetime, span: timedelta) -> str:
    parts = []
    for share in (0, 25, 50, 75, 100):
        y = TOP + (1 - share / 100) * (HEIGHT - TOP - BOTTOM)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share} %</text>')
    for place in (0, 0.5, 1):
        time, x = first + span * place, LEFT + place * (WIDTH - LEFT - RIGHT)
        words = f"{time:%H:%M}" if span < timedelta(days=1) else _day(time, year=False)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{words}</text>')
    return "".join(parts)


def _day(time: datetime, year: bool = True) -> str:
    return f"{time.day} {time:%B %Y}" if year else f"{time.day} {time:%b}"


__all__ = ["in_words", "lines", "timeline"]
