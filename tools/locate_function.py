"""Says where everything about a graded function is, as FILE:LINE, or lists all functions.

.venv/bin/python tools/locate_function.py [FUNCTION ...]
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import sys
from pathlib import Path

from autograder.exercises import exercises, find_exercise, unit_names
from autograder.exercises.kit import Exercise

ROOT = Path(__file__).resolve().parents[1]


def places(exercise: Exercise) -> dict[str, str]:
    """Return what -> FILE:LINE for everything that belongs to `exercise`; a missing part is left out."""
    name, unit = exercise.name, exercise.unit
    solutions, release = (ROOT / folder / unit / f"{unit}.ipynb" for folder in ("solutions", "notebooks"))
    module = ROOT / "autograder" / "exercises" / f"u{unit}" / f"{name}.py"
    found = {
        "prose and hints": cell(solutions, "markdown", rf"\*\*Exercise [\d.]+ · `{name}`\*\*"),
        "solution": line(solutions, rf'"grade_id": "{name}"'),
        "visible test": line(solutions, rf'"grade_id": "test_{name}"'),
        "student's version": line(release, rf'"grade_id": "{name}"'),
        "exercise": line(module, r"^EXERCISE ="),
        "reference": code(exercise.reference),
        "cases": code(exercise.draw),
        "mistakes": line(module, r"^MISTAKES =") or code(exercise.mistakes[0].wrong),
        "reference, proved another way": line(
            ROOT / "tests" / "exercises" / f"test_unit_{unit[:2]}.py", rf"\b{name}\b"
        ),
        "held-out answers": line(ROOT / "tests" / "answers" / f"unit_{unit[:2]}.py", rf"def {name}__"),
    }
    return {what: place for what, place in found.items() if place}


def line(path: Path, pattern: str) -> str | None:
    """Find the first line of `path` that contains `pattern`."""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), start=1):
        if re.search(pattern, text):
            return f"{path.relative_to(ROOT)}:{number}"
    return None


def cell(path: Path, kind: str, pattern: str) -> str | None:
    """Find the first cell of a notebook that contains `pattern`, by the line of its id."""
    if not path.exists():
        return None
    for candidate in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if candidate["cell_type"] == kind and re.search(pattern, "".join(candidate["source"])):
            return line(path, f'"id": "{candidate["id"]}"')
    return None


def code(function: object) -> str | None:
    """Find where one of our functions is defined."""
    path = Path(inspect.getsourcefile(inspect.unwrap(function)))
    if not path.is_relative_to(ROOT):
        return None
    return f"{path.relative_to(ROOT)}:{inspect.getsourcelines(function)[1]}"


def main(arguments: list[str]) -> int:
    if {"-h", "--help"} & {*arguments}:
        print(__doc__.strip())
        return 0
    names = {name: unit for unit in unit_names() for name in exercises(unit)}
    for name in arguments or names:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=3)
            hint = f"; did you mean {' or '.join(close)}?" if close else "; without a name, all are listed"
            print(f"where: no unit grades a function named {name!r}{hint}", file=sys.stderr)
            return 2
        if not arguments:
            print(f"{names[name]:24}{name}")
            continue
        if len(arguments) > 1:
            print(f"{name}:")
        for what, place in places(find_exercise(name)).items():
            print(f"{what:32}{place}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
