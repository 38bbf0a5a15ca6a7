"""One's own notebook where there is no fork: the same verdicts, and nothing that hangs or dies ends the check."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import without_posix
from autograder.commands import demo
from autograder.exercises import unit_names
from autograder.exercises.kit import Case
from autograder.records import CellSource
from autograder.running.limits import Limits
from autograder.running.plain_process import PortableSandbox
from autograder.running.sandbox_messages import Request
from autograder.worker.run_cells import CellTimeout, alarms_by_a_thread

ROOT = Path(__file__).parents[2]
LIMITS = Limits(seconds_per_cell=0.5, seconds_per_exercise=0.5, wall_clock_factor=4)
CASE = Case("values", "a case", (np.arange(3.0),), {})
SOURCES = {
    "endless": "def endless(x):\n    while True: pass",
    "ends": "import os\ndef ends(x):\n    os._exit(7)",
    "spoils": "def spoils(x):\n    global doubled\n    doubled = None\n    return x",
    "stuck": "def stuck(x):\n    return x\nwhile True: pass",
    "doubled": "def doubled(x):\n    return 2 * x",
}


def test_what_hangs_dies_or_spoils_costs_itself_alone():
    cells = [CellSource(name, "answer", source) for name, source in SOURCES.items()]
    with PortableSandbox(LIMITS) as sandbox, sandbox.session(cells) as session:
        how = {cell.name: (cell.status, cell.defined) for cell in session.cells}
        assert how.pop("stuck") == ("timeout", True)
        assert set(how.values()) == {("ran", True)}
        found = {name: session.ask(Request(name, [CASE])) for name in SOURCES}
    assert {name: answer.status for name, answer in found.items()} == {
        **{"endless": "timeout", "ends": "crashed"},
        **dict.fromkeys(("spoils", "stuck", "doubled"), "answered"),
    }
    assert "0.5 seconds of processor time" in found["endless"].reason and "exit 7" in found["ends"].reason
    assert np.array_equal(found["doubled"].calls[0].value, [0, 2, 4])


def test_a_thread_interrupts_a_loop_and_nothing_that_comes_after():
    with pytest.raises(CellTimeout), alarms_by_a_thread(0.1, 10):
        while True:
            pass
    with alarms_by_a_thread(10, 10):
        pass
    assert sum(range(100_000)) == 4_999_950_000


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("class") / "demo"
    demo.build_class(demo.ROOT, target)
    return target / "grading" / "submitted"


def readable(path: Path) -> bool:
    """Not the notebook of the sample class that is cut off on purpose."""
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


def verdicts(start: list[str], paths: list[Path]) -> list[list[object]]:
    done = subprocess.run([*start, "-m", "autograder", "check", "--json", *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [[each["function"], each["verdict"], each["score"]] for each in json.loads(done.stdout)]


@pytest.mark.nightly
@pytest.mark.parametrize("unit", unit_names())
def test_without_posix_each_notebook_gets_the_same_verdicts(built, unit):
    """The published solution, and all that the sample class hands in of the unit."""
    paths = [ROOT / "solutions" / unit / f"{unit}.ipynb", *sorted(built.glob(f"*/{unit}/{unit}.ipynb"))]
    paths = [path for path in paths if readable(path)]
    here = verdicts([sys.executable], paths)
    assert len(here) >= 5 * len(paths)
    assert verdicts([sys.executable, without_posix.SCRIPT], paths) == here
