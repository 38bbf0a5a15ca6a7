"""Judges the sample class's answers under many seeds: does a verdict or a name ever depend on the draw?

.venv/bin/python tools/demo_class_many_seeds.py [--draws 200] [--first 0] [--workers 1] [STUDENT ...]

Each answer of demo_class.toml whose expected verdict is right or wrong runs in this process, with the given cells and
the other answers of its notebook. Prints each answer that at least once got another verdict or name than
demo_class.toml expects. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import linecache
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import nbformat  # noqa: E402 (threads are counted when NumPy is first imported)

from autograder.commands.demo import MARKERS, SampleStudent, students  # noqa: E402
from autograder.exercises import exercises, find_exercise, is_exercise  # noqa: E402
from autograder.grading.in_process import judge_function  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
#: Students who attack the grader.
NOT_HERE = ("mallory",)


def judged(student: SampleStudent) -> list[str]:
    """Return the student's functions that can be judged in this process; attacks need the sandbox."""
    if student.id in NOT_HERE:
        return []
    kinds = {name: student.expected.get(name, "right").split()[0] for name in student.answers}
    return [name for name, kind in kinds.items() if is_exercise(name) and kind in ("right", "wrong")]


@functools.cache
def cells(unit: str) -> list[tuple[str | None, str]]:
    """Return (function or None, source) for each answer cell and given cell of a unit's solutions."""
    notebook, found = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4), []
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in exercises(unit) or (cell.cell_type == "code" and "given" in cell.metadata.get("tags", [])):
            source = "\n".join(line for line in cell.source.splitlines() if line.strip() not in MARKERS)
            found.append((name, source))
    return found


def namespace(student: SampleStudent, unit: str, only: str) -> dict[str, Any]:
    """Return what the student's notebook defines: given cells, the solutions, and one of the student's answers."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exec(student.extra, names)
        for name, source in cells(unit):
            place = f"<{name or 'given'}>"
            if name == only:  # where inspect finds the function's source
                source = student.answers[only].strip("\n") + "\n"
                linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
            exec(compile(source, place, "exec"), names)
    return names


def surprises(task: tuple[str, str], seeds: range) -> Counter[str]:
    """Count the unexpected results of one answer, `task` being (student, function)."""
    student = next(each for each in students() if each.id == task[0])
    name, unit = task[1], find_exercise(task[1]).unit
    names, expected = namespace(student, unit, name), student.expected.get(name, "right").split()
    given = {key: value for key, value in names.items() if type(value) is FunctionType and key not in exercises(unit)}
    found: Counter[str] = Counter()
    for seed in seeds:
        verdict = judge_function(names[name], name, seed, given=given)
        got = [verdict.verdict, str(verdict.mistake)]
        if got[: len(expected)] != expected:
            found[f"{' '.join(got)} instead of {' '.join(expected)}"] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("wanted", nargs="*", metavar="STUDENT", help="all where none is named")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.draws)
    class_ = [s for s in students() if not options.wanted or s.id in options.wanted]
    tasks, bad = [(student.id, name) for student in class_ for name in judged(student)], 0
    with ProcessPoolExecutor(options.workers) as pool:
        for task, found in zip(tasks, pool.map(partial(surprises, seeds=seeds), tasks), strict=True):
            for words, count in found.items():
                print(f"{', '.join(task)}: {words} under {count} of {len(seeds)} seeds", flush=True)
            bad += bool(found)
    print(f"{len(tasks)} answers under {len(seeds)} seeds: {bad} with a verdict or name that is not expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
