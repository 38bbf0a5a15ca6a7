"""Formats and executes the solution notebooks in place, so that their outputs can be read.

It also names new cells, and writes the numbers and points of exercises.

.venv/bin/python tools/execute_notebooks.py [UNIT ...]
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from autograder.exercises import unit_names
from fold_cells import fold
from textbook.live_figures import without_code

ROOT = Path(__file__).resolve().parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"
#: Matches a cell id that an editor invented: eight hexadecimal digits, or a UUID.
INVENTED = re.compile(r"(cell-)?(?=.*\d)[0-9a-f-]{8,}")
#: Metadata of cells that JupyterLab and jupytext write and no reader needs.
LEFTOVERS = ("collapsed", "execution", "lines_to_next_cell", "scrolled", "slideshow")
#: Matches "**Exercise 3.1 · `causal_mask`** · ●○○ · 5 min · 2 points · challenge".
ANNOUNCED = re.compile(r"\*\*Exercise [\d.]+ · `(\w+)`\*\* · ([●○]+) · (\d+) min · ([\d.]+) points?\b( · challenge)?")
CHALLENGES = re.compile(r"(\*\*Time\*\*[^\n]*?challenges?[^\d\n]*)\d+")


def name_cells(notebook: nbformat.NotebookNode) -> None:
    """Replace each cell id that an editor invented by a readable one: the grade_id or the first words."""
    taken = {cell.id for cell in notebook.cells}
    for cell in notebook.cells:
        if not INVENTED.fullmatch(cell.id):
            continue
        exercise = re.search(r"\*\*Exercise [\d.]+ · `(\w+)`", cell.source)
        words = re.findall(r"[a-z][a-z0-9]*", re.sub(r"<[^>]+>|\$[^$]*\$", " ", cell.source.lower()))
        name = cell.metadata.get("nbgrader", {}).get("grade_id") or (
            f"ex-{exercise[1].replace('_', '-')}" if exercise else "-".join(words[:4]) or cell.cell_type
        )
        unique = next(name + more for more in ("", *(f"-{n}" for n in range(2, 99))) if name + more not in taken)
        taken.add(unique)
        cell.id = unique


def announce(notebook: nbformat.NotebookNode, unit: str) -> None:
    """Write the exercises' numbers and points, and the minutes of all challenges, from the cells into the prose."""
    marks = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    points = {each["grade_id"]: each["points"] for each in marks if each.get("grade")}
    prose = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    lines = [found for cell in prose for found in ANNOUNCED.finditer(cell.source)]
    numbers = {found[1]: f"{int(unit[:2])}.{number}" for number, found in enumerate(lines, start=1)}

    def line(found: re.Match[str]) -> str:
        name, level, minutes, before, challenge = found.groups("")
        worth = points.get(f"test_{name}", float(before))
        told = f"{worth:g} point" + "s" * (worth != 1)
        return f"**Exercise {numbers[name]} · `{name}`** · {level} · {minutes} min · {told}{challenge}"

    for cell in prose:
        cell.source = ANNOUNCED.sub(line, cell.source)
    minutes = sum(int(found[3]) for found in lines if found[5])
    if minutes:
        notebook.cells[0].source = CHALLENGES.sub(rf"\g<1>{minutes}", notebook.cells[0].source, count=1)


def execute(path: Path) -> None:
    """Run one notebook from the top, and leave no trace of the machine, the editor or the time of day in the file."""
    notebook = nbformat.read(path, as_version=4)
    name_cells(notebook)
    announce(notebook, path.stem)
    for cell in notebook.cells:
        for name in LEFTOVERS:
            cell.metadata.pop(name, None)
    client = NotebookClient(
        notebook,
        timeout=180,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,  # a progress bar is one line, as on the screen
        resources={"metadata": {"path": path.parent}},
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # no warnings about TCP on this machine
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # a slider needs its kernel and has another id in each run
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
            count_once(cell)
            keep_picture(cell)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    fold(notebook)
    nbformat.write(notebook, path)


def keep_picture(cell: nbformat.NotebookNode) -> None:
    """Keep a live figure's picture, data and caption, without its scripts, which running the cell restores."""
    for item in cell.outputs:
        shown = item.get("data", {}).get("text/html", "")
        if 'data-live="' in shown:
            item.data["text/html"] = without_code(shown)


def count_once(cell: nbformat.NotebookNode) -> None:
    """Set every execution count to 1, so that a new cell does not change the counts of all later cells."""
    for item in (cell, *cell.outputs):
        if item.get("execution_count") is not None:
            item.execution_count = 1


def main(arguments: list[str]) -> int:
    notebooks = {path.stem: path for path in sorted((ROOT / "solutions").glob("*/*.ipynb"))}
    for unit in arguments:
        if unit not in unit_names():
            print(f"notebooks: there is no unit {unit!r}; the units are {', '.join(unit_names())}", file=sys.stderr)
            return 2
        if unit not in notebooks:
            print(f"notebooks: solutions/{unit}/{unit}.ipynb is not there; write it", file=sys.stderr)
            return 2
    for unit in arguments or notebooks:
        path = notebooks[unit]
        print(f"executing {path.relative_to(ROOT)}", flush=True)
        if subprocess.call([sys.executable, "-m", "ruff", "format", "--quiet", str(path)], cwd=ROOT) != 0:
            return 2
        execute(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
