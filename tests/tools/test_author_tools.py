"""The tools of authors: where things stand, names for new cells, what the browser tests need."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import chromium
import execute_notebooks
import locate_function
from autograder.exercises import find_exercise
from autograder.running.sandbox import preflight
from conftest import exercise_names

ROOT = Path(__file__).parents[2]
NAMES = exercise_names()
PARTS = {
    "prose and hints",
    "solution",
    "visible test",
    "student's version",
    "exercise",
    "reference",
    "cases",
    "mistakes",
    "held-out answers",
}


@pytest.mark.parametrize("name", NAMES)
def test_every_part_of_an_exercise_is_found_from_its_name(name):
    exercise = find_exercise(name)
    found = locate_function.places(exercise)
    assert found.keys() >= PARTS, (
        f"{name} lacks {', '.join(sorted(PARTS - found.keys()))}: run `make notebooks ARGS={exercise.unit}`, or write it"
    )
    for place in found.values():
        path, _, number = place.rpartition(":")
        assert 0 < int(number) <= len((ROOT / path).read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_the_mistakes_of_an_exercise_stand_in_its_unit(name):
    exercise = find_exercise(name)
    assert locate_function.places(exercise)["mistakes"].startswith(f"autograder/exercises/u{exercise.unit}/")


def test_a_notebook_that_is_not_there_yet_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(locate_function, "ROOT", tmp_path)
    assert locate_function.places(find_exercise(NAMES[0])) == {}


def test_help_is_no_function_and_several_names_have_headings(capsys):
    assert locate_function.main(["--help"]) == 0
    assert "locate_function.py [FUNCTION ...]" in capsys.readouterr().out
    assert locate_function.main(["causal_mask", "softmax"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith(":")] == ["causal_mask:", "softmax:"]


def test_an_unknown_function_gets_a_suggestion(capsys):
    assert locate_function.main(["casual_mask"]) == 2
    assert "did you mean causal_mask" in capsys.readouterr().err
    assert locate_function.main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(NAMES)


def test_new_cells_get_names_that_can_be_read_and_old_ones_keep_theirs():
    cells = [
        nbformat.v4.new_markdown_cell("## 2 · Why $x$ <b>matters</b> here, and there", id="00ff6aeb"),
        nbformat.v4.new_markdown_cell("**Exercise 3.7 · `visible_count`** · ●○○ · 5 min", id="17e9d998"),
        nbformat.v4.new_code_cell("x", id="cell-006ed01234", metadata={"nbgrader": {"grade_id": "visible_count"}}),
        nbformat.v4.new_markdown_cell("Why matters here and", id="3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
        nbformat.v4.new_code_cell("", id="12345678"),
        nbformat.v4.new_code_cell("y", id="decade-face"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    execute_notebooks.name_cells(notebook)
    names = [cell.id for cell in notebook.cells]
    assert names == [
        "why-matters-here-and",
        "ex-visible-count",
        "visible_count",
        "why-matters-here-and-2",
        "code",
        "decade-face",
    ]
    nbformat.validate(notebook)


def test_what_an_editor_left_behind_is_gone_once_a_notebook_was_executed(tmp_path, capfd):
    kept = {"tags": ["given"], "jupyter": {"outputs_hidden": True}, "editable": False, "deletable": False}
    times, shown = {"iopub.execute_input": "2026-01-01T00:00:00Z"}, {"slideshow": {"slide_type": ""}}
    left = {"execution": times, "collapsed": False, "scrolled": True, "lines_to_next_cell": 1, **shown}
    cells = [
        nbformat.v4.new_markdown_cell("# Title", metadata={**shown, "editable": False}),
        nbformat.v4.new_code_cell("1 + 1", metadata=left | kept),
        nbformat.v4.new_code_cell("2 + 2"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "unit.ipynb")
    execute_notebooks.execute(tmp_path / "unit.ipynb")
    title, one, two = nbformat.read(tmp_path / "unit.ipynb", as_version=4).cells
    assert (title.metadata, one.metadata, two.metadata) == ({"editable": False}, kept, {})
    counts = [(cell.execution_count, cell.outputs[0].execution_count) for cell in (one, two)]
    assert counts == [(1, 1), (1, 1)], "a new cell changes no other one"
    assert capfd.readouterr().err == "", "nothing to worry the author"


def test_a_unit_that_is_not_there_is_named_before_anything_is_executed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(execute_notebooks, "execute", lambda path: pytest.fail(f"executed {path}"))
    assert execute_notebooks.main(["03_masking", "03_maskng"]) == 2
    assert "'03_maskng'; the units are 01_projections, " in capsys.readouterr().err
    monkeypatch.setattr(execute_notebooks, "ROOT", tmp_path)
    assert execute_notebooks.main(["03_masking"]) == 2
    assert "solutions/03_masking/03_masking.ipynb is not there" in capsys.readouterr().err


def test_a_notebook_is_formatted_before_it_is_executed(monkeypatch, capsys, tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "solutions" / "03_masking" / "03_masking.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = ( 1,2 )")]), path)
    monkeypatch.setattr(execute_notebooks, "ROOT", tmp_path)
    assert execute_notebooks.main(["03_masking"]) == 0
    assert nbformat.read(path, as_version=4).cells[0].source == "x = (1, 2)"


def test_what_the_browser_tests_lack_is_installed_by_root_and_else_named(monkeypatch, capsys):
    ran, present = [], {"apt-get", "node", "npm"}
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(chromium.shutil, "which", lambda name: name if name in present else None)
    monkeypatch.setattr(chromium, "become_root", lambda: None)
    monkeypatch.setattr(chromium, "install_packages", lambda: ran.append(["npm"]))
    assert chromium.main() == 2 and not ran
    assert "sudo apt-get install chromium" in capsys.readouterr().err.splitlines()[0]

    def run(command, time_limit=0):
        ran.append(command)
        present.add("chromium")
        return True

    monkeypatch.setattr(chromium, "become_root", lambda: [])
    monkeypatch.setattr(chromium, "run", run)
    assert chromium.main() == 0
    assert ran[-2][-1] == "chromium" and "nodejs" not in ran[-2] and ran[-1] == ["npm"]
    assert chromium.main() == 0 and len(ran) == 4


def test_the_dev_container_and_the_packages_of_the_site_are_valid():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert container["postCreateCommand"] == "make setup" and ":3.11" in container["image"]
    package = json.loads((ROOT / "tools" / "web" / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((ROOT / "tools" / "web" / "package-lock.json").read_text(encoding="utf-8"))
    for name, version in package["dependencies"].items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version


@pytest.mark.nightly
@pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
def test_the_benchmark_runs_to_its_end(tmp_path):
    figures = tmp_path / "figures.json"
    sizes = ["--students", "1", "--repeats", "1", "--scale", "2", "--bare"]
    line = [sys.executable, ROOT / "tools" / "bench.py", *sizes, "--json", figures]
    done = subprocess.run(line, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert found["runs"].keys() >= {"stock", "ours, 1 workers"}
    assert found["scale"].keys() == {"2"}
    assert min(found["stages"].values()) > 0, found["stages"]
    assert "judge" in done.stdout
