"""The page that opens first: the map of the course, how to work, where help is, and how far one has come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ..exercises import unit_names
from .course_map import UnitOfMap, course_map, table

NAME = "00_start_here.ipynb"

WELCOME = """\
# Attention, unit by unit

{units}: why attention is built as it is, worked out one small function at a time.
You need Python, some linear algebra, and for unit 2 variances and partial derivatives. Units 1 to 3 use NumPy alone;
from unit 4 on it is PyTorch, on the CPU.

Begin with [unit {number}]({first}){others}: the map says which ones it builds on.

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
                    └── 10 attention today"""

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

## How far you are

The cell below says what is done and what is next, by your saved notebooks. Where the course's judge is installed it
judges them on fresh inputs, as `autograder check` does in a terminal; else it goes by the tests that passed when you
last ran them. Nothing leaves your machine.
"""

CHECK = """\
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
        print(f"{path.stem:24} core {sum(core)} of {len(core)} tests passed when last run{told}")
    todo.sort(key=lambda entry: entry[0] in hard)
    print("Next:", f"{todo[0][0]} in {todo[0][1]}" if todo else "nothing. You have come to the end of the course.")"""


def start_page(units: Sequence[UnitOfMap]) -> str:
    """The text of the notebook file."""
    first = f"{units[0].name}/{units[0].name}.ipynb"
    whole = [unit.name for unit in units] == unit_names()
    drawing = BUILDS_ON.format(drawing=DRAWING) if whole else ""
    several = len(units) > 1
    welcome = WELCOME.format(
        units=f"{len(units)} units, each a notebook" if several else "One unit, a notebook",
        number=units[0].number,
        first=first,
        others=", or go to the unit that you want" if several else "",
        table=table(units),
        drawing=drawing,
    )
    cells = [
        new_markdown_cell(welcome, id="map"),
        new_markdown_cell(WORK, id="how_to_work"),
        new_code_cell(CHECK, id="how_far"),
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    page = new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    page.nbformat_minor = 5
    return nbformat.writes(page) + "\n"


def write_start_page(root: Path) -> bool:
    """Write the page to `root`/notebooks; returns whether it changed."""
    path, text = root / "notebooks" / NAME, start_page(course_map(root))
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def is_stale(root: Path) -> bool:
    """Whether the page in `root`/notebooks is not the one that its notebooks give."""
    path = root / "notebooks" / NAME
    return not path.is_file() or path.read_text(encoding="utf-8") != start_page(course_map(root))
