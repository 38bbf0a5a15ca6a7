"""The package is a house with one direction: what may import what, how high it is, and how long a file may be."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, FIGURES = ROOT / "autograder", ROOT / "attention_figures"
#: The longest chain of imports between files, those inside functions counted.
FLOORS = 14
#: Lines of a module, and of an exercise.
MODULE, EXERCISE = 600, 250


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("autograder", cache_dir=None)


def test_imports_look_downwards():
    assert lint_imports(str(ROOT / "pyproject.toml"), cache_dir=None) == EXIT_STATUS_SUCCESS


def test_imports_have_few_layers_and_no_circle():
    heights: dict[str, tuple[str, ...]] = {}

    def chain(module: str, above: tuple[str, ...]) -> tuple[str, ...]:
        assert module not in above, f"a circle: {' -> '.join((*above[above.index(module) :], module))}"
        if module not in heights:
            below = graph().find_modules_directly_imported_by(module)
            longest = max((chain(each, (*above, module)) for each in sorted(below)), key=len, default=())
            heights[module] = (module, *longest)
        return heights[module]

    longest = max((chain(module, ()) for module in sorted(graph().modules)), key=len)
    assert len(longest) <= FLOORS, f"{len(longest)} floors: {' -> '.join(longest)}"


FILES = [*PACKAGE.rglob("*.py"), *(path for path in FIGURES.glob("*.*") if path.suffix in (".py", ".js", ".css"))]


def test_a_file_is_short():
    for path in sorted(FILES):
        lines, cap = len(path.read_text(encoding="utf-8").splitlines()), MODULE
        if "exercises" in path.parts:
            cap = EXERCISE
        assert lines <= cap, f"{path.relative_to(ROOT)}: {lines} lines: take a job of it to a file of its own"


def test_a_file_gives_each_name_one_meaning():
    """A constant that is bound a second time further down would change what the functions above it see."""
    twice = {path: bound_twice(path) for path in sorted(PACKAGE.rglob("*.py"))}
    assert not any(twice.values()), f"bound twice: {[(str(path), names) for path, names in twice.items() if names]}"


def bound_twice(path):
    bound: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            bound += [each.id for each in names if isinstance(each.ctx, ast.Store)]
    return {name for name in bound if bound.count(name) > 1 and name != "_"}


def test_no_two_classes_share_a_name():
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("class ") and not line.startswith("class _"):
                name = line.removeprefix("class ").partition("(")[0].rstrip(":")
                assert name not in found, f"{name} stands in {found[name]} and {path}"
                found[name] = str(path)


LOOK = "import sys, json; {}; json.dump(sorted(m for m in sys.modules if m.partition('.')[0] in {!r}), sys.stdout)"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "statement",
    [
        "import autograder.cli; autograder.cli._parser()",
        "import autograder.lms.lms_files",
        "import autograder.commands.collect",
        "import autograder.commands.export",
        "from autograder.reading.course_contents import Course; Course(__import__('pathlib').Path.cwd()).units()",
    ],
)
def test_a_command_loads_no_more_than_it_needs(statement):
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(statement, ("torch", "scipy", "matplotlib", "autograder"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(json.loads(done.stdout))
    assert not {"torch", "scipy", "matplotlib"} & loaded
    if "export" not in statement:
        assert not any(name.startswith("autograder.judging.judge") for name in loaded)


def test_a_numpy_notebook_is_checked_without_torch():
    script = (
        "import sys; from autograder.cli import main; "
        "status = main(['check', 'solutions/01_projections/01_projections.ipynb']); "
        "assert status == 0 and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
