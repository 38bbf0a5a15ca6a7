"""The notebooks: solutions that run and say what they said, and releases that give nothing away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

from autograder import release
from autograder.units import exercises, unit_names

ROOT = Path(__file__).parents[1]
UNITS = unit_names()
TRACES = ("### BEGIN", "### END", "judge_here", "HIDDEN TESTS")
IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ALT = re.compile(r'\balt="([^"]*)"')
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)[^)]*\)")


def path_of(folder: str, unit: str) -> Path:
    return ROOT / folder / unit / f"{unit}.ipynb"


def read(folder: str, unit: str):
    return nbformat.read(path_of(folder, unit), as_version=4)


def marks(cell) -> dict:
    return cell.metadata.get("nbgrader", {})


def answer_cells(notebook) -> dict[str, int]:
    return {marks(cell)["grade_id"]: index for index, cell in enumerate(notebook.cells) if marks(cell).get("solution")}


def test_cells(notebook) -> dict[str, int]:
    return {marks(cell)["grade_id"]: index for index, cell in enumerate(notebook.cells) if marks(cell).get("grade")}


test_cells.__test__ = False  # a helper, not a test


@pytest.mark.parametrize("unit", UNITS)
def test_release_is_what_the_solutions_give(unit):
    assert release.out_of_step(ROOT, [unit]) == [], "run `autograder release`"


@pytest.mark.parametrize("unit", UNITS)
def test_solution_runs_from_the_top_and_prints_what_it_printed(unit):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env"]
    command += ["--nbval-cell-timeout=120", f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval_sanitize.cfg'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, str(path_of("solutions", unit))],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.mark.parametrize("unit", UNITS)
def test_every_code_cell_of_a_solution_was_executed_and_no_time_or_machine_is_noted(unit):
    notebook = read("solutions", unit)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count is not None, f"{cell.id}: not executed; run `make notebooks`"
            assert "execution" not in cell.metadata, f"{cell.id}: holds the time of its execution"
            assert not any(output.output_type == "error" for output in cell.outputs), f"{cell.id}: ended in an error"
    assert notebook.metadata.kernelspec.name == "python3"
    assert "version" not in notebook.metadata.language_info


@pytest.mark.parametrize("unit", UNITS)
def test_every_function_has_one_answer_cell_and_one_test_cell_with_its_points(unit):
    wanted, notebook = exercises(unit), read("solutions", unit)
    answers, tests = answer_cells(notebook), test_cells(notebook)
    assert list(answers) == list(wanted), "answer cells and exercises, in the same order"
    assert list(tests) == [f"test_{name}" for name in wanted]
    for name, exercise in wanted.items():
        answer, test = notebook.cells[answers[name]], notebook.cells[tests[f"test_{name}"]]
        assert answers[name] < tests[f"test_{name}"]
        assert marks(test)["points"] == exercise.points, f"{name}: points of the notebook and of the exercise differ"
        assert marks(test)["locked"] and not marks(test)["solution"]
        assert not marks(answer)["locked"] and not marks(answer)["grade"]
        assert re.findall(r"^def (\w+)\(", answer.source, re.MULTILINE) == [name], f"{name}: one function, one cell"
        assert answer.source.count("### BEGIN SOLUTION") == answer.source.count("### END SOLUTION") == 1
        assert "judge_here" in test.source.partition("### BEGIN HIDDEN TESTS")[2], f"{name}: no hidden test"
        assert "judge_here" not in test.source.partition("### BEGIN HIDDEN TESTS")[0]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("folder", ["solutions", "notebooks"])
def test_cell_names_are_readable_and_unique(folder, unit):
    notebook = read(folder, unit)
    names = [cell.id for cell in notebook.cells]
    assert len(set(names)) == len(names)
    for cell in notebook.cells:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", cell.id), cell.id
        assert not re.fullmatch(r"(cell-)?[0-9a-f]{8,}", cell.id), f"{cell.id}: an invented name"
        if marks(cell):
            assert re.fullmatch(r"[a-z][a-z0-9_]*", marks(cell)["grade_id"]), marks(cell)["grade_id"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_release_gives_nothing_away(unit):
    text = path_of("notebooks", unit).read_text(encoding="utf-8")
    for trace in TRACES:
        assert trace not in text
    notebook = read("notebooks", unit)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, f"{cell.id}: holds an output"
    for name, index in answer_cells(notebook).items():
        assert "raise NotImplementedError" in notebook.cells[index].source, name
    assert [path.name for path in (ROOT / "notebooks" / unit).iterdir() if path.suffix == ".py"] == []


@pytest.mark.parametrize("unit", UNITS)
def test_every_figure_has_alternative_text(unit):
    for cell in read("solutions", unit).cells:
        if cell.cell_type == "markdown":
            for picture, words, target in LINK.findall(cell.source):
                assert not picture or len(words) >= 20, f"{cell.id}: {target} has no alternative text"
        pictures = IMAGE.findall(cell.source) if cell.cell_type == "markdown" else []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            assert "image/png" not in data and "image/svg+xml" not in data, (
                f"{cell.id}: use show(fig, alt=…, caption=…)"
            )
            pictures += IMAGE.findall(data.get("text/html", ""))
        for picture in pictures:
            alt = ALT.search(picture)
            assert alt and len(alt.group(1)) >= 20, f"{cell.id}: a figure without alternative text"
        if "plt.subplots(" in cell.source or "plt.figure(" in cell.source:
            assert pictures, f"{cell.id}: draws a figure that nobody sees"


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("folder", ["solutions", "notebooks"])
def test_local_links_lead_somewhere(folder, unit):
    notebook = read(folder, unit)
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        for _, _, target in LINK.findall(cell.source):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            place = path_of(folder, unit).parent / unquote(target.partition("#")[0])
            assert place.exists(), f"{cell.id}: {target} is not there"


@pytest.mark.parametrize("unit", UNITS)
def test_folded_parts_open_and_close(unit):
    for cell in read("solutions", unit).cells:
        if cell.cell_type == "markdown":
            assert cell.source.count("<details") == cell.source.count("</details>"), cell.id
            assert cell.source.count("<details") == cell.source.count("<summary"), cell.id
            assert not re.search(r"</summary>\n(?!\n)", cell.source), f"{cell.id}: a blank line must follow </summary>"
