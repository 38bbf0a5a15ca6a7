"""The class as a map: a row for each student, a column for each exercise, a letter for each mistake."""

from __future__ import annotations

from html import escape
from string import ascii_lowercase

from ..data import Verdict
from .summary import NOT_RECOGNISED, ExerciseSummary, Summary, outcome

#: What an answer came to -> the sign of its cell where no mistake of a name is told.
SIGNS = {"right": "✓", "partly": "◐", "wrong": "?", "missing": "·", "waiting": "…"}
#: The same for what ended otherwise.
ENDED = {"crashed": "!", "timeout": "∞", "forbidden": "✗"}
MEANINGS = (
    ("✓", "right", "right"),
    ("◐", "partly", "partly right (a pale letter: by that mistake)"),
    ("a", "wrong", "wrong, by the most common mistake of the exercise (b, c …: the next ones)"),
    ("?", "wrong", "wrong, not recognised"),
    ("!", "wrong", "crashed"),
    ("∞", "wrong", "no end"),
    ("✗", "wrong", "forbidden"),
    ("·", "missing", "missing in a unit handed in; an empty cell: not handed in"),
    ("…", "waiting", "waits for a mark"),
)


def letter(place: int) -> str:
    """The sign of a mistake: its place among those of its exercise, the most common first."""
    return ascii_lowercase[min(place, len(ascii_lowercase) - 1)]


def place_of(unit: int, exercise: int) -> str:
    """The `id` under which the page has the mistakes of an exercise, from the places of both in the summary."""
    return f"mistakes-{unit + 1}-{exercise + 1}"


def heat_map(summary: Summary) -> str:
    """The table as HTML; what comes from a student is escaped. Whoever earned the largest share comes first."""
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
    """Of the points of the units that a student handed in."""
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
    """A unit by its number, which is as wide as one exercise; another assignment by its name."""
    number = name.partition("_")[0]
    return f"Unit {int(number)}" if number.isdecimal() else name


def _foot(summary: Summary) -> str:
    shares = [
        f"<td>{100 * exercise.counts['right'] / exercise.handed_in:.0f}</td>" if exercise.handed_in else "<td></td>"
        for unit in summary.units
        for exercise in unit.exercises
    ]
    return f'<tfoot><tr><th scope="row">right, %</th><td class="sum"></td>{"".join(shares)}</tr></tfoot>'
