"""Builds a small sample class from a table and grades it for real: `make demo`.

The class has a course folder of its own, `demo/`, so that it never touches a real gradebook.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..exercises import unit_names
from ..reading.predictions import DOTS, Asked, asked_in, is_prediction

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("demo_class.toml")
MARKERS = ("### BEGIN SOLUTION", "### END SOLUTION")


@dataclass(frozen=True)
class SampleStudent:
    """Holds one row of the table; demo_class.toml says what each field means."""

    id: str
    note: str
    units: Sequence[str] = field(default_factory=unit_names)
    blank: bool = False
    answers: Mapping[str, str] = field(default_factory=dict)
    extra: str = ""
    deleted: Sequence[str] = ()
    doubled: Sequence[str] = ()
    skipped: Sequence[str] = ()
    cut: str = ""
    expected: Mapping[str, str] = field(default_factory=dict)
    guesses: str = "some"

    def guess(self, asked: Asked) -> str:
        """Return what the student puts in place of the dots of a prediction."""
        chance = random.Random(f"{self.id} {asked.number}")
        if self.blank or self.guesses == "none" or (self.guesses == "some" and chance.random() < 0.2):
            return DOTS
        if self.guesses == "nonsense":
            return chance.choice(
                ['"<script>alert(1)</script>"', "1e300", "[" * 9, "float('nan')", '"a", "b"', '"maybe"']
            )
        if asked.options:
            wrong = [letter for letter in asked.options if letter != asked.truth]
            return f'"{chance.choice(wrong if self.guesses == "wrong" else [*wrong, asked.truth, asked.truth])}"'
        factors = (0.02, 30) if self.guesses == "wrong" else (0.3, 0.8, 1, 1.1, 3)
        return f"{asked.truth * chance.choice(factors):.3g}"

    def expects(self, unit: str, function: str) -> str:
        """Return the expected verdict, followed by the mistake's name if one is to be named."""
        if unit == self.cut or (self.blank and function not in self.answers):
            return "missing"
        return self.expected.get(function, "right")


def students() -> list[SampleStudent]:
    """Return the sample class from the table."""
    return [SampleStudent(**row) for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["student"]]


def build_class(course: Path, target: Path, units: Sequence[str] = ()) -> list[SampleStudent]:
    """Make `target` a course folder with the units of `course` and the sample class's notebooks; return the class.

    units: those that the class hands in, if not all.
    """
    (target / "grading").mkdir(parents=True)
    shutil.copy(course / "nbgrader_config.py", target)
    for unit in unit_names():
        for folder in ("notebooks", "solutions"):
            (target / folder / unit).mkdir(parents=True)
            shutil.copy(course / folder / unit / f"{unit}.ipynb", target / folder / unit)
    units = units or unit_names()
    table = [student for student in students() if set(student.units) & set(units)]
    for unit in units:
        release = nbformat.read(course / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
        solution = nbformat.read(course / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        solved, asked = _answers(solution), {each.number: each for each in asked_in(solution)}
        for student in table:
            if unit in student.units:
                handed = nbformat.from_dict(release)
                for cell in filter(is_prediction, handed.cells):
                    number = next(number for number in asked if f'"{number}"' in cell.source)
                    cell.source = cell.source.replace(DOTS, student.guess(asked[number]), 1)
                _hand_in(student, unit, handed, solved, target / "grading" / "submitted")
    return table


def _answers(solutions: NotebookNode) -> dict[str, str]:
    """Return function -> the source of its answer cell in a solution notebook, without nbgrader's markers."""
    return {
        cell.metadata.nbgrader.grade_id: "\n".join(
            line for line in cell.source.splitlines() if line.strip() not in MARKERS
        )
        for cell in solutions.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def _hand_in(student: SampleStudent, unit: str, release: NotebookNode, solved: Mapping[str, str], folder: Path) -> None:
    """Write one student's notebook of one unit."""
    notebook = nbformat.from_dict(release)
    answers = {**({} if student.blank else solved), **student.answers}
    cells = []
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in student.deleted:
            continue
        if name in answers:
            cell.source = answers[name].strip("\n")
        if name in student.skipped:
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "skip-execution"]
        cells.append(cell)
        if name in student.doubled:
            cells.append(nbformat.from_dict({**cell, "id": f"{cell.id}-again"}))
    if student.extra:
        first_code = next(index for index, cell in enumerate(cells) if cell.cell_type == "code")
        own = nbformat.v4.new_code_cell(student.extra.strip("\n"))
        own.id = "my-own-cell"
        cells.insert(first_code + 1, own)
    notebook.cells = cells
    text = nbformat.writes(notebook)
    path = folder / student.id / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(text[: len(text) // 2] if unit == student.cut else text, encoding="utf-8")


def surprises(table: Sequence[SampleStudent], graded: Sequence) -> list[str]:
    """Return one line for each verdict that differs from what the table expects."""
    by_id, found = {student.id: student for student in table}, []
    for item in graded:
        for verdict in item.verdicts:
            due = by_id[item.student].expects(item.unit, verdict.function).split()
            got = [verdict.verdict, verdict.mistake]
            if due != got[: len(due)]:
                found.append(
                    f"{item.student}, {verdict.function}: {' '.join(map(str, got))} instead of {' '.join(due)}"
                )
    return found


def _grade(target: Path, workers: int | None) -> tuple[list, bool]:
    """Grade the class as `autograder grade` does; if there is no sandbox, without one, because the class is ours."""
    from ..gradebook.class_run import Run
    from ..grading import whole_class
    from ..records import NoSandbox
    from .command_helpers import progress

    handed = whole_class.handed_in(target)

    def run(unsafe: bool) -> list:
        with progress(len(handed)) as advance:
            return Run(target, unsafe=unsafe).grade(handed, workers, done=lambda item: advance(item.student))

    unsafe = False
    try:
        graded = run(unsafe)
    except NoSandbox as error:
        print(f"No sandbox here: {error}\nThe sample class is our own, so it is graded without one.", file=sys.stderr)
        unsafe = True
        graded = run(unsafe)
    return graded, unsafe


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the class, grade it, and show what was found."""
    parser = argparse.ArgumentParser(
        prog="make demo", description="Grades a small sample class and shows what was found."
    )
    parser.add_argument("--workers", type=int, metavar="N", help="how many submissions at a time; default: the cores")
    parser.add_argument("--units", nargs="+", choices=unit_names(), metavar="UNIT", help="those alone, in less time")
    parser.add_argument("--json", action="store_true", help="print a list of verdicts and nothing else")
    options = parser.parse_args(arguments)
    target, started = ROOT / "demo", time.monotonic()
    if target.exists():
        if not (target / "nbgrader_config.py").is_file() and any(target.iterdir()):
            print(f"{target} holds something else; move it away, the sample class is built there", file=sys.stderr)
            return 2
        shutil.rmtree(target)
    missing = [unit for unit in unit_names() if not (ROOT / "notebooks" / unit / f"{unit}.ipynb").is_file()]
    if missing:
        print(f"notebooks/{missing[0]} is not there; make it with: autograder release {missing[0]}", file=sys.stderr)
        return 2
    table = build_class(ROOT, target, options.units or ())
    graded, unsafe = _grade(target, options.workers)
    took = time.monotonic() - started
    if options.json:
        print(json.dumps([entry for item in graded for entry in item.as_json()], indent=1))
        return 0
    _show(table, graded, took, unsafe)
    unexpected = surprises(table, graded)
    for line in unexpected:
        print(f"demo: {line}", file=sys.stderr)
    return 1 if unexpected else 0


def _show(table: Sequence[SampleStudent], graded: Sequence, took: float, unsafe: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from ..grading.results_store import past
    from ..pages.class_predictions import beliefs
    from ..pages.class_summary import summarise
    from ..pages.report import print_report, problem_lines, write_report

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    people = Table(title="The sample class", title_justify="left", box=None, show_header=False)
    for student in table:
        people.add_row(student.id, student.note)
    console.print(people)
    console.print()
    print_report(graded, console)
    for line in problem_lines(graded):
        console.print(line, markup=False, soft_wrap=True)
    verdicts = [verdict for item in graded for verdict in item.verdicts]
    wrong = [verdict for verdict in verdicts if verdict.verdict == "wrong"]
    named = sum(verdict.mistake is not None for verdict in wrong)
    notebooks = f"{len(graded)} notebooks of {len(table)} students, {len(verdicts)} answers"
    console.print(f"{notebooks}: {len(wrong)} wrong, {named} of them named; {took:.0f} s in all.", soft_wrap=True)
    console.print(f"Graded {'WITHOUT a sandbox' if unsafe else 'in the sandbox'}, with fresh secret inputs.")
    item, verdict = next((item, v) for item in graded for v in item.verdicts if v.mistake)
    console.print(f"\n{item.student} reads about {verdict.function}: {verdict.message}", markup=False)
    pages = ROOT / "demo" / "grading" / "feedback"
    console.print(f"\nFeedback pages: {pages}/STUDENT/UNIT/UNIT.html, for example", soft_wrap=True)
    console.print(f"  {pages / item.student / item.unit / item.unit}.html", soft_wrap=True)
    root, page = ROOT / "demo", ROOT / "demo" / "grading" / "report"
    write_report(summarise(root, graded), page, root, beliefs(root, graded), list(past(root)))
    console.print(f"What the class did, and what it believed: {page}/index.html and predictions.html", soft_wrap=True)
    console.print("For a real class: notebooks into grading/submitted/, then `autograder grade`.")


if __name__ == "__main__":
    from ..running.control_groups import claim

    claim()
    sys.exit(main())
