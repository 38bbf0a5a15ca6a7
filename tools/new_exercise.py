"""Begins a new exercise: writes its file, cells, answers and proof, with TODO where an author goes on.

.venv/bin/python tools/new_exercise.py NAME --after FUNCTION [--minutes 5] [--points 2]

The new exercise works at once, with a function that doubles its input, so `make notebooks ARGS=UNIT` runs right away.
"""

from __future__ import annotations

import argparse
import keyword
import re
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.exercises import find_exercise, is_exercise, place_of
from execute_notebooks import announce

ROOT = Path(__file__).resolve().parents[1]

EXERCISE = '''\
"""Defines the exercise `{name}`, TODO: what it computes, in one line."""

import numpy as np

from ..kit import Leaf, exercise, normal, strided


def {name}(x: normal("n d")) -> Leaf("float array", "the result"):
    return 2 * x  # TODO: what the field trusts, computed in another way than a student's


def plain(x):
    result = x + x  # TODO: as a student would write it, in named steps
    return result


def cases(case):
    for dtype in (np.float64, np.float64, np.float32):
        yield case("values", dtype=dtype)
    yield case("values", "x that is a slice", layout={{"x": strided}})
    drawn = case.draw()
    drawn["x"] *= 1e4
    yield case("edge cases", "large numbers", **drawn)  # TODO: the docstring's edge cases; one for each mistake


MISTAKES = (
    ("todo-a-slug", lambda x: x / 2,
     "TODO: what went wrong and where to look, in 20 to 400 characters, the most common mistake first."),
)  # fmt: skip

EXERCISE = exercise({name}, credit={{"values": 0.8, "edge cases": 0.2}}, library="{library}")
'''
HINT = "<details>\n<summary>Hint {}</summary>\n\nTODO: {}.\n\n</details>"
PROSE = (
    "### **Exercise 0.0 · `{name}`** · ●○○ · {minutes} min · {points:g} points\n\nTODO: what to do.\n\n"
    + "\n\n".join((HINT.format("1: an idea", "an idea"), HINT.format("2: a nudge", "a nudge, never the answer")))
)
ANSWER = '''\
def {name}(x: {array}) -> {array}:
    """TODO: what it returns, in one line.

    x: (n, d). TODO: shapes, meaning and one surprise, in at most 80 words.

    Returns (n, d).
    """
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION'''
TEST = """\
x_1 = {make}([[1.0, -2.0, 3.0]])
got = {name}(x_1)
told = f"For {{x_1}} you return {{got}}. TODO: name the likely mistake in a whole sentence."
assert abs(got - {make}([[2.0, -4.0, 6.0]])).max() < 1e-9, told + ask_judge()
print("{name}: all visible tests passed.")
### BEGIN HIDDEN TESTS
__import__("autograder").judge_here({name})
### END HIDDEN TESTS"""
PROOF = """

def {name}_another_way(x):
    return x * 2  # TODO: in another way than the reference: loops, another library, a formula by hand


def test_{name}_agrees_with_another_way():
    for seed in range(6):
        verdict = judge_function({name}_another_way, "{name}", seed, watched=False, named=False)
        assert verdict.verdict == "right", verdict.message
"""
HELD_OUT = '\n\ndef {}__{}(x):\n    """TODO: from the docstring alone, in which way it is {}."""\n    return {} * x\n'
FACTORS = {"right_todo": 2, "wrong_todo_1": 1, "wrong_todo_2": 3, "wrong_todo_3": -2}


def refusal(name: str, after: str) -> str:
    """Return why there can be no new exercise of this name at this place; "" if there can."""
    if not is_exercise(after):
        return f"no unit grades a function named {after!r}; tools/locate_function.py lists all"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        return f"{name!r} cannot name a function; use lower-case words joined by _"
    if is_exercise(name):
        return f"unit {find_exercise(name).unit} has an exercise named {name!r}; choose another name"
    unit = find_exercise(after).unit
    module = (ROOT / place_of(unit)).with_name(f"{name}.py")
    if module.exists():
        return f"{module.relative_to(ROOT)} exists; choose another name"
    if any(re.search(rf"\b{name}\b", cell.source) for cell in _notebook(unit).cells if cell.cell_type == "code"):
        return f"the notebook of unit {unit} uses the name {name!r}; choose another one"
    return ""


def begin(name: str, after: str, minutes: int, points: float) -> list[Path]:
    """Write all parts of the exercise `name`, which follows `after`; return the files that were touched."""
    unit, library, slug = find_exercise(after).unit, find_exercise(after).library, name.replace("_", "-")
    array, make = ("torch.Tensor", "torch.tensor") if library == "torch" else ("np.ndarray", "np.array")
    words = {"name": name, "minutes": minutes, "points": points, "array": array, "make": make, "library": library}
    init, changes = ROOT / place_of(unit), ROOT / "CHANGELOG.md"
    module, solution = init.with_name(f"{name}.py"), ROOT / "solutions" / unit / f"{unit}.ipynb"
    answers, tests = (
        ROOT / "tests" / "answers" / f"unit_{unit[:2]}.py",
        ROOT / "tests" / "exercises" / f"test_unit_{unit[:2]}.py",
    )

    module.write_text(EXERCISE.format(**words), encoding="utf-8")
    _change(init, rf'\n    "{after}",\n', rf'\g<0>    "{name}",\n')
    notebook = _notebook(unit)
    answer = {"grade": False, "grade_id": name, "locked": False, "solution": True}
    test = {"grade": True, "grade_id": f"test_{name}", "locked": True, "solution": False, "points": points}
    place = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells].index(f"test_{after}") + 1
    notebook.cells[place:place] = [
        new_markdown_cell(PROSE.format(**words), id=f"ex-{slug}"),
        new_code_cell(ANSWER.format(**words), id=name, metadata=_marks(answer)),
        new_code_cell(TEST.format(**words), id=f"test_{name}", metadata=_marks(test)),
    ]
    time = re.compile(r"(\*\*Time\*\*[^\d]*)(\d+)")
    notebook.cells[0].source = time.sub(lambda m: f"{m[1]}{int(m[2]) + minutes}", notebook.cells[0].source, count=1)
    announce(notebook, unit)
    nbformat.write(notebook, solution)
    with answers.open("a", encoding="utf-8") as file:
        file.writelines(HELD_OUT.format(name, kind, kind[:5], factor) for kind, factor in FACTORS.items())
    if "import judge_function" not in tests.read_text(encoding="utf-8"):
        _change(tests, "\nimport pytest\n", r"\g<0>from autograder.grading.in_process import judge_function\n")
    with tests.open("a", encoding="utf-8") as file:
        file.write(PROOF.format(**words))
    told = f"- **Unit {int(unit[:2])}** has the exercise `{name}`: TODO: what it asks. Its points rise by {points:g}."
    _change(changes, "\n### Added\n\n", rf"\g<0>{told}\n")
    for command in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, module, tests], cwd=ROOT, check=True)
    return [module, init, solution, answers, tests, changes]


def _marks(nbgrader: dict[str, object]) -> dict[str, object]:
    return {"nbgrader": {**nbgrader, "schema_version": 3, "task": False}}


def _notebook(unit: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)


def _change(path: Path, pattern: str, by: str) -> None:
    path.write_text(re.sub(pattern, by, path.read_text(encoding="utf-8"), count=1), encoding="utf-8")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="new_exercise", description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="the function that students write")
    parser.add_argument("--after", required=True, metavar="FUNCTION", help="the exercise that it follows")
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--points", type=float, default=2)
    options = parser.parse_args(arguments)
    why = refusal(options.name, options.after)
    if why:
        print(f"new_exercise: {why}", file=sys.stderr)
        return 2
    touched = begin(**vars(options))
    print("Write what TODO asks for in these files:", *(f"  {path.relative_to(ROOT)}" for path in touched), sep="\n")
    print(f"Then: make notebooks ARGS={find_exercise(options.after).unit}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
