"""The page that opens first: the map of the course, how to work, where help is, and how far one has come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .course_map import UnitOfMap, course_map, table

NAME = "00_start_here.ipynb"

WELCOME = """\
# Attention, unit by unit

{units} units, each a notebook: why attention is built as it is, worked out one small function at a time.
You need Python and some linear algebra. Units 1 to 3 use NumPy alone; from unit 4 on it is PyTorch, on the CPU.

Begin with [unit 1]({first}), or go to the unit that you want: the map says which ones it builds on.

## The map

{table}

Minutes are those of the core, without the parts marked optional. What the units build on, from the top down:

```text
{drawing}
```
"""

DRAWING = """\
1 projections
└── 2 scaled scores ────────────────────┐
    └── 3 masking                       │
        └── 4 multi-head attention ─────┤
            ├── 5 MQA and GQA ──────────┴── 9 speed
            ├── 6 cross-attention
            └── 7 the transformer block
                └── 8 induction heads"""

WORK = """\
## How to work

1. **Open a unit** by its link and run its cells from the top down with Shift + Enter.
2. **Write your answer** where a cell says `raise NotImplementedError`: put your code in place of that line.
3. **Run the test** in the cell below. If it fails, the last line of its message says what is probably wrong.
4. **Stuck?** Unfold a hint. The first one gives an idea, the second one a nudge.
5. **Save** (Ctrl + S, on a Mac ⌘ + S). Your answers stay in the notebook; tomorrow, run it again from the top.

Stars tell how hard an exercise is: ●○○ a line or two, ●●○ a few lines and a thought, ●●● the heart of the unit.

## Where help is

- A cell hangs: the square in the toolbar stops it. Names are missing: menu *Run*, *Run All Above Selected Cell*.
- Something is odd after much editing: menu *Kernel*, *Restart Kernel and Run up to Selected Cell*.
- You want a unit as it came: rename yours, and take the notebook anew from where you got the course.

## How far you are

The cell below judges all your saved notebooks on fresh inputs. It says what is done, what is next, and how far you are.
In a terminal, `autograder check` does the same. Nothing leaves your machine.
"""

CHECK = """\
import importlib.util
import sys

if importlib.util.find_spec("autograder"):
    !"{sys.executable}" -m autograder check
else:
    print("The judge did not come with these notebooks. The tests in each of them tell you how far you are.")"""


def start_page(units: Sequence[UnitOfMap]) -> str:
    """The text of the notebook file."""
    first = f"{units[0].name}/{units[0].name}.ipynb"
    welcome = WELCOME.format(units=len(units), first=first, table=table(units), drawing=DRAWING)
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
