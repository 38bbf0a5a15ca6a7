"""Reads the map of the course from the notebooks, and makes the start page that shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attention_figures.opening_figure import opening_figure, still

from ..exercises import unit_names
from ..reading.read_assignment import questions_of
from ..records import EXERCISE as JUDGED
from ..records import Expected, Question

EXERCISE = re.compile(r"\*\*Exercise ([\d.]+) · `(\w+)`\*\* · ([●○]+) · (\d+) min([^\n]*)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


class NoMap(Expected):
    """Raised when a notebook does not say what the map needs; the message is one line."""


@dataclass(frozen=True)
class Place:
    """Describes an exercise on the map: its number, the heading above it, its difficulty, minutes and points.

    challenge: whether it is a challenge, which nothing later needs.
    """

    function: str
    number: str
    section: str
    level: str
    minutes: int
    points: float
    challenge: bool = False


@dataclass(frozen=True)
class UnitOfMap:
    """Describes one unit. builds_on: the units that its first cell names. others: questions of the instructor's own.

    minutes: for its core, which the next units need. challenge_minutes: for its challenges.
    """

    name: str
    title: str
    minutes: int
    builds_on: tuple[str, ...]
    places: tuple[Place, ...]
    others: tuple[Question, ...] = ()
    challenge_minutes: int = 0

    @property
    def number(self) -> str:
        return self.name[:2].lstrip("0")

    @property
    def points(self) -> float:
        return sum(asked.points for asked in (*self.places, *self.others))

    @property
    def challenges(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places if place.challenge)

    @property
    def count(self) -> int:
        return len(self.places) + len(self.others)


def unit_of_map(name: str, release: NotebookNode) -> UnitOfMap:
    """Read one unit's release. Raises NoMap."""
    cells = [cell.source for cell in release.cells if cell.cell_type == "markdown"]
    first = cells[0] if cells else ""
    wanted = {
        "# Unit N · title": re.search(r"^# Unit \d+ · (.+)$", first, re.MULTILINE),
        "**Time**: about N minutes": re.search(r"\*\*Time\*\*[^\d]*(\d+) minutes", first),
        "**Builds on** …": re.search(r"\*\*Builds on\*\*(.*?)(\*\*|Since|\n\n|\Z)", first, re.DOTALL),
    }
    missing = [f"“{words}”" for words, found in wanted.items() if found is None]
    if missing:
        raise NoMap(f"{name}: its first Markdown cell lacks {' and '.join(missing)}")
    title, minutes, builds_on = wanted.values()
    challenging = re.search(r"\*\*Time\*\*[^\n]*?challenges?[^\d\n]*(\d+)", first)
    before = tuple(dict.fromkeys(re.findall(r"(\d\d_\w+)\.ipynb", builds_on[1])))
    asked = questions_of(name, release)
    wanted = {question.name: question for question in asked if question.kind == JUDGED}
    others = tuple(question for question in asked if question.kind != JUDGED)
    places, more = _places(name, cells, wanted), int(challenging[1]) if challenging else 0
    return UnitOfMap(name, title[1], int(minutes[1]), before, places, others, more)


def _places(unit: str, cells: Sequence[str], wanted: Mapping[str, Question]) -> tuple[Place, ...]:
    found = []
    section = ""
    for cell in cells:
        marks = [*HEADING.finditer(cell), *EXERCISE.finditer(cell)]
        for mark in sorted(marks, key=lambda match: match.start()):
            if mark.re is HEADING:
                section = mark[1]
            elif mark[2] in wanted:
                number, function, level, minutes, rest = mark.groups()
                points, challenge = wanted[function].points, "challenge" in rest
                found.append(Place(function, number, section, level, int(minutes), points, challenge))
    lines = [place.function for place in found]
    for function in wanted:
        if lines.count(function) != 1:
            wrong = "two lines" if function in lines else "no line"
            raise NoMap(f"{unit}: {function} has {wrong} like “**Exercise N.M · `{function}`** · ●○○ · N min”")
    return tuple(found)


def course_map(root: Path, units: Sequence[str] = ()) -> list[UnitOfMap]:
    """Read all units of the course folder `root`, or some, from `notebooks/`. Raises NoMap and FileNotFoundError."""
    paths = {name: root / "notebooks" / name / f"{name}.ipynb" for name in units or unit_names()}
    return [unit_of_map(name, nbformat.read(path, as_version=4)) for name, path in paths.items()]


def table(units: Sequence[UnitOfMap], folder: str = "") -> str:
    """Return the map as a table in Markdown. folder: prefix of a unit's folder in its link, such as `notebooks/`."""
    lines = ["| unit | what it is about | builds on | core | challenges |", "|---|---|---|---|---|"]
    for unit in units:
        name, _, about = unit.title.partition(": ")
        link = f"[{unit.number} · {name}]({folder}{unit.name}/{unit.name}.ipynb)"
        before = ", ".join(other[:2].lstrip("0") for other in unit.builds_on) or "–"
        lines.append(f"| {link} | {about} | {before} | {' | '.join(_sums([unit]))} |")
    lines.append(f"| **all** | | | {' | '.join(f'**{each}**' for each in _sums(units))} |")
    return "\n".join(lines)


def _sums(units: Sequence[UnitOfMap]) -> tuple[str, str]:
    """Return exercises, minutes and points of the core and of the challenges, in words."""
    hard = [place for unit in units for place in unit.challenges]
    count, points = sum(unit.count for unit in units), sum(unit.points for unit in units)
    worth = sum(place.points for place in hard)
    minutes, more = sum(unit.minutes for unit in units), sum(unit.challenge_minutes for unit in units)
    core = f"{count - len(hard)} exercises, {minutes} min, {points - worth:g} points"
    return core, f"{len(hard)}, {more} min, {worth:g} points" if hard else "–"


START_PAGE = "00_start_here.ipynb"

WELCOME = """\
# Attention, unit by unit

What does *it* mean here? Change *big* to *small*, and see which word *it* attends to now.
"""

FIGURE = """\
# Draws the figure below. The dots open it.
from IPython.display import HTML, display

try:
    from attention_figures.opening_figure import opening_figure

    display(HTML(opening_figure()))
except ImportError:  # the page has been copied out of the course
    print("This figure needs the course's files: open the page with make lab.")"""

BEGIN = """\
Where does a word get its weights from? {units} lead from here to a language model that people use, run by functions of
your own. You write them one small function at a time.

## [Begin with unit {number}: {title}]({first})

You need Python, some linear algebra, and for unit 2 variances and partial derivatives. Units 1 to 3 use NumPy alone;
from unit 4 on it is PyTorch, on the CPU.

## How far you are

The cell below says what is done and what is next, by your saved notebooks. Where the course's judge is installed it
judges them on fresh inputs, as `autograder check` does in a terminal; else it goes by the tests that passed when you
last ran them. Nothing leaves your machine.
"""

PLACES = """\
## The map

{table}

The **core** is what the next units need. **Challenges** ask for a thought of your own, an experiment, a derivation: no
line above them holds the answer, and nothing later hangs on them. With little time, do the core alone.{drawing}
"""

BUILDS_ON = """ What the units build on, from the top down:

```text
{drawing}
```"""

DRAWING = """\
1 projections
└── 2 scaled scores ────────────────────┐
    └── 3 masking                       │
        └── 4 multi-head attention ─────┤
            ├── 5 MQA and GQA ──────────┴── 9 speed
            ├── 6 cross-attention
            └── 7 the transformer block
                └── 8 induction heads
                    └── 10 attention today
                        └── 11 a real model"""

WORK = """\
## How to work

1. **Open a unit** by its link and run its cells from the top down with Shift + Enter.
2. **Write your answer** where a cell says `raise NotImplementedError`: put your code in place of that line.
3. **Run the test** in the cell below it. If it fails, the words after `AssertionError` say what is probably wrong.
4. **Stuck?** Unfold a hint. The first one gives an idea, the second one a nudge.
5. **Save** (Ctrl + S, on a Mac ⌘ + S). Your answers stay in the notebook; tomorrow, run it again from the top.

Tests and the drawing of figures are folded: you see the first line and three dots, which open the cell. It runs like
any other. Circles tell how hard an exercise is: ●○○ a line or two, ●●○ a few lines and a thought, ●●● needs a plan.
A warm-up is one line that follows from what stands above it. Before some measurements a cell asks what you *predict*:
put your guess in place of the dots and run it. It earns no points, and whoever guesses remembers.

## Where help is

- A cell hangs: the square in the toolbar stops it. Names are missing: menu *Run*, *Run All Above Selected Cell*.
- Something is odd after much editing: menu *Kernel*, *Restart Kernel and Run up to Selected Cell*.
- You want a unit as it came: rename yours, and take the notebook anew from where you got the course.
"""

CHECK = """\
# How far you are: run this cell. The dots open it.
import importlib.util
import json
import re
import sys
from pathlib import Path

if importlib.util.find_spec("autograder"):
    !"{sys.executable}" -m autograder check
else:
    todo, hard, words = [], set(), "all visible tests passed"
    for path in sorted(Path().glob("*/*.ipynb")):
        tests = {}
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            mark, source = cell["metadata"].get("nbgrader", {}), "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                hard |= set(re.findall(r" · `(\\w+)`\\*\\* · .* · challenge", source))
            elif mark.get("grade") and not mark.get("solution"):
                ran = cell["execution_count"] and all(output["output_type"] != "error" for output in cell["outputs"])
                said = words in json.dumps(cell["outputs"]) or words not in source
                tests[mark["grade_id"].removeprefix("test_")] = bool(ran and said)
        todo += [(name, path) for name, passed in tests.items() if not passed]
        core = [passed for name, passed in tests.items() if name not in hard]
        more = [passed for name, passed in tests.items() if name in hard]
        told = f", challenges {sum(more)} of {len(more)}" if more else ""
        unit = f"unit {int(path.stem[:2])}" if path.stem[:2].isdigit() else path.stem
        print(f"{sum(core)} of {len(core)} in {unit}{told}")
    todo.sort(key=lambda entry: entry[0] in hard)
    print("Next:", f"{todo[0][0]} in {todo[0][1]}" if todo else "nothing. You have come to the end of the course.")"""


def start_page(units: Sequence[UnitOfMap]) -> str:
    """Return the text of the start page's notebook file."""
    first, whole = units[0], [unit.name for unit in units] == unit_names()
    folded = {"jupyter": {"source_hidden": True}}
    begin = BEGIN.format(
        units=f"{len(units)} units" if len(units) > 1 else "The course's units",
        number=first.number,
        title=first.title.partition(": ")[0],
        first=f"{first.name}/{first.name}.ipynb",
    )
    places = PLACES.format(table=table(units), drawing=BUILDS_ON.format(drawing=DRAWING) if whole else "")
    output = new_output("display_data", {"text/html": opening_figure(), "image/svg+xml": still()})
    cells = [
        new_markdown_cell(WELCOME, id="welcome"),
        new_code_cell(FIGURE, id="opening", metadata=folded, outputs=[output]),
        new_markdown_cell(begin, id="begin"),
        new_code_cell(CHECK, id="how_far", metadata=folded),
        new_markdown_cell(places, id="map"),
        new_markdown_cell(WORK, id="how_to_work"),
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    page = new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    page.nbformat_minor = 5
    return nbformat.writes(page) + "\n"


def write_start_page(root: Path) -> bool:
    """Write the start page to `root`/notebooks; return whether it changed."""
    path, text = root / "notebooks" / START_PAGE, start_page(course_map(root))
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def is_stale(root: Path) -> bool:
    """Return whether the start page in `root`/notebooks is missing or differs from the one that its notebooks give."""
    path = root / "notebooks" / START_PAGE
    return not path.is_file() or path.read_text(encoding="utf-8") != start_page(course_map(root))
