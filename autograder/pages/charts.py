"""Draws the report's charts: right answers by exercise, the class's progress, and a heat map of its mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from string import ascii_lowercase

from attention_figures.appearance import SERIES

from ..records import PointInTime, Verdict
from ..safe_text import counted
from .class_summary import NOT_RECOGNISED, OUTCOMES, ExerciseSummary, Summary, outcome

WORDS = {
    "right": "right",
    "partly": "partly right",
    "wrong": "wrong",
    "missing": "missing",
    "waiting": "waiting to be marked",
}
#: Heights of a row and its bar, and widths of the text to the left of a bar, of a bar, and of the text to its right.
ROW, BAR, BAR_LEFT, BAR_WIDTH, BAR_RIGHT = 24, 18, 250, 560, 40


def chart(summary: Summary) -> str:
    """Return an SVG image with a text alternative, which takes its colours from the page."""
    parts: list[str] = []
    top = 34
    for unit in summary.units:
        parts.append(f'<text x="0" y="{top + 13}" class="unit">{escape(unit.name)}</text>')
        top += ROW
        for exercise in unit.exercises:
            label = f'<text x="{BAR_LEFT - 10}" y="{top + 13}" text-anchor="end">{escape(exercise.function)}</text>'
            parts.append(label + _bar(exercise.counts, top))
            parts.append(f'<text x="{BAR_LEFT + BAR_WIDTH + 8}" y="{top + 13}" class="sum">{exercise.handed_in}</text>')
            top += ROW
        top += 8
    head = (
        f'<svg role="img" aria-labelledby="chart-title chart-text" class="chart" '
        f'viewBox="0 0 {BAR_LEFT + BAR_WIDTH + BAR_RIGHT} {top}" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="chart-title">Answers by exercise</title>'
        f'<desc id="chart-text">{escape(chart_in_words(summary))}</desc>'
    )
    return head + _legend(summary) + "".join(parts) + "</svg>"


def _bar(counts: dict[str, int], top: int) -> str:
    total, x, pieces = sum(counts.values()), float(BAR_LEFT), []
    for name in OUTCOMES:
        if not counts[name]:
            continue
        width = BAR_WIDTH * counts[name] / total
        pieces.append(
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" class="piece of-{name}">'
            f"<title>{counts[name]} of {total} {WORDS[name]}</title></rect>"
        )
        if width >= 16:
            pieces.append(
                f'<text x="{x + width / 2:.1f}" y="{top + 13}" text-anchor="middle" '
                f'class="number on-{name}">{counts[name]}</text>'
            )
        x += width
    return "".join(pieces)


def _legend(summary: Summary) -> str:
    pieces, x = [], BAR_LEFT
    waiting = any(exercise.counts["waiting"] for unit in summary.units for exercise in unit.exercises)
    for name in OUTCOMES if waiting else OUTCOMES[:-1]:
        pieces.append(f'<rect x="{x}" y="4" width="14" height="14" class="piece of-{name}"/>')
        pieces.append(f'<text x="{x + 20}" y="15">{WORDS[name]}</text>')
        x += 40 + 8 * len(WORDS[name])
    return "".join(pieces) + f'<text x="{BAR_LEFT + BAR_WIDTH + 8}" y="15" class="sum">of</text>'


def chart_in_words(summary: Summary) -> str:
    """Describe the chart, but leave all its numbers to the tables."""
    shares = [
        (exercise.counts["right"] / exercise.handed_in, exercise.function)
        for unit in summary.units
        for exercise in unit.exercises
        if exercise.handed_in
    ]
    if not shares:
        return "No answers."
    (low, worst), (high, best) = min(shares), max(shares)
    return (
        f"A bar for each of {len(shares)} exercises, divided into answers right, partly right, wrong and missing. "
        f"The most right answers: {best}, {high:.0%}. The fewest: {worst}, {low:.0%}. All numbers are in the tables."
    )


#: Most runs that are drawn: the last ones.
MOST = 60
#: Labels that are closer than this get different heights.
NEAR = 24
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 260, 46, 70, 14, 34


@dataclass(frozen=True)
class Line:
    """Holds the points of one unit, or of "all": the time and the share of right answers."""

    name: str
    points: tuple[tuple[datetime, float], ...]

    @property
    def label(self) -> str:
        """Return the number of a unit of the course; otherwise the name."""
        number = self.name.partition("_")[0]
        return str(int(number)) if number.isdecimal() else self.name


def lines(runs: Sequence[PointInTime]) -> list[Line]:
    """Return a line for all answers, then one per unit. A run that graded some units leaves the others as they were."""
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
    if len(found) == 2:  # with only one unit, both lines would be the same
        found.pop("all")
    return [Line(name, tuple(points)) for name, points in found.items() if points]


def _with_answers(runs: Sequence[PointInTime]) -> list[PointInTime]:
    return [run for run in runs if any(answers for answers, _ in run.units.values())]


def runs_in_words(runs: Sequence[PointInTime]) -> str:
    """Describe the drawing, or say why there is none."""
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
    """Describe what was handed in from day to day; return nothing if fewer than two days are known."""
    found = [line.points for line in lines(days)]
    if not found or len(found[0]) < 2:
        return ""
    (start, first), (end, last) = found[0][0], found[0][-1]
    words = f"{counted(len(found[0]), 'day')} from {_day(start)} to {_day(end)}"
    return f"{words}: {first:.0%} right of what came on the first, {last:.0%} of what came on the last."


def timeline(moments: Sequence[PointInTime], words: str) -> str:
    """Return an SVG image with `words` as its text alternative; nothing if fewer than two times have numbers."""
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
    """Return a height at or below `y` where no earlier label is."""
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


#: Outcome of an answer -> the sign of its cell if no mistake is named.
SIGNS = {"right": "✓", "partly": "◐", "wrong": "?", "missing": "·", "waiting": "…"}
#: The same for answers that didn't end normally.
ENDED = {"crashed": "!", "timeout": "∞", "forbidden": "✗"}
MEANINGS = (
    ("✓", "right", "right"),
    ("◐", "partly", "partly right (a pale letter: by that mistake)"),
    ("a", "wrong", "wrong, by the most common mistake of the exercise (b, c …: the next ones)"),
    ("?", "wrong", "wrong, not recognised"),
    ("!", "wrong", "crashed"),
    ("∞", "wrong", "timed out"),
    ("✗", "wrong", "forbidden"),
    ("·", "missing", "missing in a unit handed in; an empty cell: not handed in"),
    ("…", "waiting", "waits for a mark"),
)


def letter(place: int) -> str:
    """Return the sign of a mistake, which is its rank among those of its exercise, the most common first."""
    return ascii_lowercase[min(place, len(ascii_lowercase) - 1)]


def place_of(unit: int, exercise: int) -> str:
    """Return the `id` of an exercise's mistakes on the page, from the indices of unit and exercise in the summary."""
    return f"mistakes-{unit + 1}-{exercise + 1}"


def heat_map(summary: Summary) -> str:
    """Return the table as HTML, with students' text escaped. Whoever earned the largest share comes first."""
    rows = [dict(unit.rows) for unit in summary.units]
    letters = [[_letters(exercise) for exercise in unit.exercises] for unit in summary.units]
    earned = {student: _share(summary, student) for student in summary.students}
    body = []
    for student in sorted(earned, key=lambda name: (-earned[name], name)):
        cells = [f'<tr><th scope="row">{escape(student)}</th><td class="sum">{earned[student]:.0%}</td>']
        for place, unit in enumerate(summary.units):
            row = rows[place].get(student, {})
            for exercise, named in zip(unit.exercises, letters[place], strict=True):
                cells.append(_cell(row.get(exercise.function), named))
        body.append("".join(cells) + "</tr>\n")
    return f'<table class="heat">{_head(summary)}<tbody>\n{"".join(body)}</tbody>{_foot(summary)}</table>'


def _letters(exercise: ExerciseSummary) -> dict[str, str]:
    names = [mistake.name for mistake in exercise.mistakes if mistake.name != NOT_RECOGNISED]
    return {name: letter(place) for place, name in enumerate(names)}


def _share(summary: Summary, student: str) -> float:
    """Return a student's share of the points of the units that this student handed in."""
    units = [unit for unit in summary.units if student in unit.scores]
    points = sum(unit.points for unit in units)
    return sum(unit.scores[student] for unit in units) / points if points else 0.0


def _cell(verdict: Verdict | None, letters: dict[str, str]) -> str:
    if verdict is None:
        return "<td></td>"
    came = outcome(verdict)
    sign = SIGNS[came]
    if came in ("wrong", "partly"):
        sign = letters.get(verdict.mistake or "") or ENDED.get(verdict.verdict, sign)
    return f'<td class="{came}">{sign}</td>'


def _head(summary: Summary) -> str:
    units, exercises = [], []
    for place, unit in enumerate(summary.units):
        span, words = len(unit.exercises), escape(_short(unit.name))
        units.append(f'<th scope="colgroup" colspan="{span}" class="unit">{words}</th>')
        for at, exercise in enumerate(unit.exercises):
            name = f"<code>{escape(exercise.function)}</code>"
            if exercise.mistakes:
                name = f'<a href="#{place_of(place, at)}">{name}</a>'
            exercises.append(f'<th scope="col"><span>{name}</span></th>')
    groups = "".join(f'<colgroup span="{len(unit.exercises)}"></colgroup>' for unit in summary.units)
    first = '<th rowspan="2" scope="col">student</th>'
    first += '<th rowspan="2" scope="col" class="sum"><span>% of points asked</span></th>'
    return (
        f'<colgroup span="2"></colgroup>{groups}<thead><tr>{first}{"".join(units)}</tr>'
        f"<tr>{''.join(exercises)}</tr></thead>"
    )


def _short(name: str) -> str:
    """Return a unit's number, which fits over the column of a single exercise, or the name of any other assignment."""
    number = name.partition("_")[0]
    return f"Unit {int(number)}" if number.isdecimal() else name


def _foot(summary: Summary) -> str:
    shares = [
        f"<td>{100 * exercise.counts['right'] / exercise.handed_in:.0f}</td>" if exercise.handed_in else "<td></td>"
        for unit in summary.units
        for exercise in unit.exercises
    ]
    return f'<tfoot><tr><th scope="row">right, %</th><td class="sum"></td>{"".join(shares)}</tr></tfoot>'
