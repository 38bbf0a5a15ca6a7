"""`autograder check` as one's guide through the course: what is done, what is next, how far it is; and the start page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from asked import points_of
from attention_figures.opening_figure import opening_figure
from autograder import __version__
from autograder.cli import main
from autograder.commands.grade_own_notebooks import own_notebooks
from autograder.exercises import exercises, unit_names
from autograder.handout.course_map import (
    CHECK,
    DRAWING,
    START_PAGE,
    NoMap,
    course_map,
    is_stale,
    start_page,
    table,
    unit_of_map,
    write_start_page,
)
from autograder.reading import cell_roles
from autograder.reading.cell_roles import OtherVersion, must_be_the_code_of
from autograder.reading.read_assignment import read_assignment
from autograder.records import BadAssignment, Unreadable

pytestmark = pytest.mark.usefixtures("one_sandbox")
ROOT = Path(__file__).parents[2]
MAP = course_map(ROOT)
PLACES = {place.function: place for unit in MAP for place in unit.places}
COUNT, POINTS = len(PLACES), sum(place.points for place in PLACES.values())
HARD = {place.function for place in PLACES.values() if place.challenge}
CORE = {unit.name: unit.count - len(unit.challenges) for unit in MAP}


def path_of(folder: str, unit: str) -> Path:
    return ROOT / folder / unit / f"{unit}.ipynb"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """One's own notebooks: units 1 to 3, the first solved, in the second the first exercise solved and the next begun."""
    for unit in ("01_projections", "03_masking"):
        shutil.copy(path_of("solutions" if unit.startswith("01") else "notebooks", unit), tmp_path)
    unit = "02_scaled_scores"
    notebook, solution = (nbformat.read(path_of(folder, unit), as_version=4) for folder in ("notebooks", "solutions"))
    solved = {cell.id: cell.source for cell in solution.cells}
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name == "attention_scores":
            cell.source = solved[cell.id]
        if name == "softmax":
            words = r'"\x1b[31m\x07[bold]red \u202e\r\nbeep"'
            cell.source = cell.source.replace('NotImplementedError("Write your answer here.")', f"ValueError({words})")
    nbformat.write(notebook, tmp_path / f"{unit}.ipynb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def check(capfd, *words: str) -> str:
    capfd.readouterr()
    assert main(["check", *words]) == 0
    out, err = capfd.readouterr()
    told = [line for line in err.splitlines() if "does not say for which version" not in line]
    assert told in ([], [f"autograder: judged by autograder {__version__} in {ROOT}"])
    return out


def test_a_check_that_was_left_in_the_notebook_is_not_run_again(capfd, mine):
    path = mine / "01_projections.ipynb"
    notebook, trace = nbformat.read(path, as_version=4), mine / "was_run"
    command = f'!touch "{trace}"\n!"{sys.executable}" -m autograder check 1'
    notebook.cells.insert(8, nbformat.v4.new_code_cell(command))
    nbformat.write(notebook, path)
    assert "! " not in check(capfd, str(path)) and not trace.exists()


def test_what_is_done_what_is_next_and_how_far_it_is(capfd, mine):
    out = check(capfd)
    lines = out.splitlines()
    done = [line.split()[2] for line in lines if line.lstrip().startswith("✓ right")]
    assert done == [*exercises("01_projections"), "attention_scores"]
    bars = {line.split()[0]: line for line in lines if "█" in line or "░" in line}
    assert list(bars) == ["01_projections", "02_scaled_scores", "03_masking", "the"]
    assert f"core {len(set(done) - HARD)}/{COUNT - len(HARD)}" in bars["the"]
    assert f"of {POINTS:g} points" in bars["the"] and f"challenges {len(HARD & set(done))}/{len(HARD)}" in bars["the"]
    core = CORE["01_projections"]
    assert f"core {core}/{core}" in bars["01_projections"] and "░" not in bars["01_projections"]
    following = lines[next(index for index, line in enumerate(lines) if line.startswith("Next: ")) :]
    place = PLACES["softmax"]
    where = f"exercise {place.number}, softmax, about {place.minutes} minutes, in “{place.section}”"
    assert following[0] == f"Next: {where}"
    assert following[1].strip() == "open 02_scaled_scores.ipynb, the cell `def softmax(…)`"
    assert "03_masking  0 of" not in out, "what was not begun is a bar and no list"


def test_every_line_fits_a_terminal(capfd, mine):
    assert max(len(line) for line in check(capfd).splitlines() if not line.startswith("Next: ")) <= 80


def test_a_students_words_cannot_act_on_the_terminal(capfd, mine):
    odd = mine / "my \x1b[31m\rname.ipynb"
    shutil.copy(mine / "02_scaled_scores.ipynb", odd)
    out = check(capfd, str(odd), str(mine / "02_scaled_scores.ipynb"))
    assert "[bold]red" in out, "square brackets are no markup"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f‪-‮⁦-⁩]", out)
    (mine / "bad\x1b[2J.ipynb").write_text("{")
    assert main(["check", str(mine / "bad\x1b[2J.ipynb")]) == 2
    assert "\x1b" not in "".join(capfd.readouterr())


def test_the_better_of_two_notebooks_of_one_unit_counts(capfd, mine):
    shutil.copy(path_of("solutions", "02_scaled_scores"), mine / "again.ipynb")
    for names in (("again.ipynb", "02_scaled_scores.ipynb"), ("02_scaled_scores.ipynb", "again.ipynb")):
        out = check(capfd, *names)
        assert f"core {CORE['02_scaled_scores']}/{CORE['02_scaled_scores']}" in out
        assert "All of this is done. Next: unit 03_masking." in out


def test_an_answer_that_holds_others_has_done_their_work(capfd, mine):
    path = mine / "02_scaled_scores.ipynb"
    shutil.copy(path_of("solutions", "02_scaled_scores"), path)
    notebook, release = (nbformat.read(p, as_version=4) for p in (path, path_of("notebooks", "02_scaled_scores")))
    empty = {cell.id: cell.source for cell in release.cells}
    for cell in notebook.cells:
        if cell.id in ("attention_scores", "scaled_scores"):
            cell.source = empty[cell.id]
    nbformat.write(notebook, path)
    out = check(capfd, path.name)
    assert "done within" not in out, "it calls scaled_scores, for which the course's stood in"
    for cell in notebook.cells:
        if cell.id == "attention":
            cell.source = re.sub(r"scaled_scores\(Q, K\)", "(Q @ K.T / np.sqrt(Q.shape[-1]))", cell.source)
    nbformat.write(notebook, path)
    out = check(capfd, path.name)
    core = CORE["02_scaled_scores"]
    assert out.count("done within attention") == 2 and f"core {core}/{core}" in out


@pytest.mark.nightly
def test_the_end_of_the_course(capfd, monkeypatch):
    monkeypatch.chdir(ROOT / "solutions")
    out = check(capfd)
    assert f"core {COUNT - len(HARD)}/{COUNT - len(HARD)}  challenges {len(HARD)}/{len(HARD)}" in out
    assert out.rstrip().endswith("All exercises of the course are done.")


def test_which_notebooks_are_ones_own(tmp_path):
    course, other = tmp_path / "course", tmp_path / "other"
    for unit in unit_names()[:2]:
        for folder in (course / "notebooks", other):
            (folder / unit).mkdir(parents=True)
            (folder / unit / f"{unit}.ipynb").touch()
            (folder / unit / f"{unit}-Copy1.ipynb").touch()
    (course / "notebooks" / START_PAGE).touch()
    wanted = [Path(unit) / f"{unit}.ipynb" for unit in unit_names()[:2]]
    assert own_notebooks(course, course) == [course / "notebooks" / path for path in wanted]
    assert own_notebooks(course, other) == [other / path for path in wanted]
    assert own_notebooks(course, other / unit_names()[1]) == [other / wanted[1]]
    with pytest.raises(Unreadable, match="name yours"):
        own_notebooks(tmp_path / "nowhere", tmp_path)


# --- anywhere ---------------------------------------------------------------------------------------------------------


def told(capfd, *words: str | Path) -> tuple[int, str, list[str]]:
    capfd.readouterr()
    status = main(["check", *map(str, words)])
    out, err = capfd.readouterr()
    return status, out, err.splitlines()


def restamp(path: Path, change) -> Path:
    """Change the mark of the version in a notebook."""
    notebook = nbformat.read(path, as_version=4)
    change(notebook.metadata[cell_roles.KEY])
    nbformat.write(notebook, path)
    return path


def test_a_unit_by_its_number_or_name_is_ones_own_notebook_of_it(capfd, mine):
    for word in ("3", "03", "03_mask", "03_masking"):
        status, out, _ = told(capfd, word)
        assert status == 0 and "03_masking  0 of" in out and "02_scaled" not in out
    (mine / "3").write_text("{")
    assert told(capfd, "3")[0] == 2, "a file of that name is meant"
    status, out, (line,) = told(capfd, "77")
    assert (status, out) == (2, "") and "there is no unit '77'; units are 1 to 11" in line
    (mine / "03_masking.ipynb").unlink()
    assert "06_cross_attention  0 of" in told(capfd, "6")[1], "else the one in the course folder"


def test_a_notebook_outside_of_the_course_is_told_whose_judge_it_has(capfd, tmp_path, monkeypatch):
    lone = shutil.copy(path_of("notebooks", "03_masking"), tmp_path / "renamed.ipynb")
    judge = f"autograder: judged by autograder {__version__} in {ROOT}"
    monkeypatch.chdir(ROOT)
    assert told(capfd, lone)[2] == [judge]
    assert told(capfd, path_of("notebooks", "03_masking"))[2] == []
    monkeypatch.chdir(tmp_path)
    assert told(capfd, lone)[2] == [judge]
    assert told(capfd, path_of("notebooks", "03_masking"))[2] == [f"autograder: course folder: {ROOT}"]


def test_a_notebook_says_when_it_is_old_and_is_refused_where_its_exercises_are_others(capfd, tmp_path):
    path = Path(shutil.copy(path_of("notebooks", "03_masking"), tmp_path))
    status, out, lines = told(capfd, restamp(path, lambda mark: mark.update(version="0.0")))
    assert status == 0 and f"of {sum(points_of('03_masking').values()):g} points" in out
    assert any(f"made for version 0.0 of the course; {__version__} asks the same of it" in line for line in lines)
    restamp(path, lambda mark: mark["contracts"].update(an_exercise_of_old="0"))
    assert told(capfd, path)[0] == 0, "what is gone costs nothing"
    restamp(path, lambda mark: mark["contracts"].update(causal_mask="0123456789"))
    status, out, (line,) = told(capfd, path)
    ours = cell_roles.contract("causal_mask", "03_masking")
    assert (
        (status, out) == (2, "") and f"causal_mask is 0123456789; in autograder {__version__}" in line and ours in line
    )


#: Runs several commands one after the other; prints status, standard output and standard error of each.
COMMANDS = """
import contextlib, io, json, sys
from autograder.cli import main
said = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        said.append((main(words), out, err))
print(json.dumps([(status, out.getvalue(), err.getvalue()) for status, out, err in said]))
"""


@pytest.fixture
def installed(tmp_path):
    """The package alone, as it is installed for the users of a server, and a folder of a student's beside it."""
    shutil.copytree(ROOT / "autograder", tmp_path / "site" / "autograder", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "home").mkdir()

    def run(*commands: list[str], folder: Path = tmp_path / "home") -> list[tuple[int, str, str]]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "COLUMNS": "100"}
        line = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return [tuple(each) for each in json.loads(done.stdout)]

    return tmp_path, run


@pytest.mark.nightly
def test_on_a_server_with_the_package_alone_the_notebook_says_what_it_asks(installed):
    folder, run = installed
    unit = "03_masking"
    notebook, solution = (nbformat.read(path_of(place, unit), as_version=4) for place in ("notebooks", "solutions"))
    solved = {cell.id: cell.source for cell in solution.cells}
    for index, cell in enumerate(notebook.cells):
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "causal_mask":
            cell.source = "def causal_mask(n):\n    return below(n)"
            notebook.cells.insert(index, nbformat.v4.new_code_cell("def below(n):\n    return np.tri(n, dtype=bool)"))
            break
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "padding_mask":
            cell.source = solved[cell.id]
    twice = next(
        cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "test_padding_mask"
    )
    notebook.cells.append(nbformat.from_dict(twice))
    nbformat.write(notebook, folder / "home" / f"{unit}.ipynb")
    checks = [["check", "--json", *words] for words in ([], ["3"], [f"{unit}.ipynb"])]
    others = [["grade"], ["report"], ["release"], ["bundle"]]
    said = run(*checks, *others, ["doctor"])
    for status, out, err in said[:3]:
        verdicts = {entry["function"]: entry["verdict"] for entry in json.loads(out)}
        assert status == 0 and list(verdicts) == list(exercises(unit))
        assert {name for name, verdict in verdicts.items() if verdict == "right"} == {"causal_mask", "padding_mask"}
        assert err == (
            f"autograder: judged by autograder {__version__} in {folder / 'site'}, "
            "which goes by the notebook itself: it lies in no course folder\n"
        )
    for status, out, err in said[3:-1]:
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "no course folder here" in err
    status, out, _ = said[-1]
    assert status == 0 and "none here; `autograder check` does without" in " ".join(out.split())


def test_a_course_with_an_autograder_of_its_own_is_left_to_that(installed):
    folder, run = installed
    course = folder / "home"
    shutil.copy(ROOT / "nbgrader_config.py", course)
    shutil.copytree(ROOT / "notebooks" / "03_masking", course / "notebooks" / "03_masking")
    shutil.copytree(folder / "site" / "autograder", course / "autograder")
    code = course / "autograder" / "judging" / "judge.py"
    ((_, _, err),) = run(["grade"])
    assert "no submissions" in err, "the very same is another only in its place"
    code.write_text(code.read_text(encoding="utf-8") + "# corrected\n", encoding="utf-8")
    commands = [["--course", str(course), *words] for words in (["grade"], ["check", "3"], ["release"], ["report"])]
    # Of two packages Python takes the one in the current folder, so one stands beside it.
    for status, out, err in run(*commands, folder=folder):
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"{course} has its own autograder {__version__}" in err and str(folder / "site") in err
        assert str(course / ".venv" / "bin" / "autograder") in err


# --- the map ---------------------------------------------------------------------------------------------------------


def test_the_start_page_is_what_the_notebooks_give():
    assert not is_stale(ROOT), "run `autograder release`"


def test_the_map_holds_every_unit_and_every_exercise_with_its_points():
    units = MAP
    assert [unit.name for unit in units] == unit_names()
    for unit in units:
        points = {place.function: place.points for place in unit.places}
        assert points == points_of(unit.name)
        assert all(before < unit.name for before in unit.builds_on)
        assert all(place.section and place.number.startswith(f"{unit.number}.") for place in unit.places)
    hard = sum(place.points for unit in units for place in unit.challenges)
    last = table(units).splitlines()[-1]
    assert f"{COUNT - len(HARD)} exercises, " in last and f"{POINTS - hard:g} points** |" in last
    assert f"**{len(HARD)}, " in last and last.endswith(f"{hard:g} points** |")


def parents_in(drawing: str) -> dict[str, set[int]]:
    """Unit -> the units that the drawing hangs it below: by its indentation, and by the long line on the right.

    That line begins with ┐, more join it with ┤, and it ends where a unit stands to its right: ┴── 9 speed.
    """
    parents, stack, joining = {}, [], set()
    for line in drawing.splitlines():
        found = re.match(r"([ │]*)(?:[├└]── )?(\d+) ([\w -]*\w)(.*)", line)
        assert found, f"DRAWING of autograder/handout/course_map.py has a line without a unit: {line}"
        depth = len(found[1]) // 4 + ("── " in line[: found.start(2)])
        stack[depth:] = [int(found[2])]
        parents.setdefault(found[2], set()).update(stack[depth - 1 : depth])
        right = re.search(r"┴── (\d+) ", found[4])
        if right:
            parents[right[1]], joining = {int(found[2]), *joining}, set()
        elif re.search(r"─[┐┤]$", found[4]):
            joining.add(int(found[2]))
    return parents


def test_the_drawing_says_what_the_table_says():
    parents = parents_in(DRAWING)
    for unit in course_map(ROOT):
        what = f"DRAWING of autograder/handout/course_map.py, unit {unit.number}"
        before = {int(other[:2]) for other in unit.builds_on}
        assert unit.number in parents, f"{what} is missing: add its line below the last unit that it builds on"
        drawn = parents[unit.number]
        assert drawn <= before, f"{what} hangs below {drawn}, and its first cell says that it builds on {before}"
        assert not before or max(before) in drawn, f"{what} is to hang below unit {max(before)}, not below {drawn}"


def test_a_drawing_may_have_more_than_nine_units():
    drawing = """\
1 one
└── 2 two ────────┐
    ├── 9 nine ───┴── 11 eleven
    └── 10 ten"""
    assert parents_in(drawing) == {"1": set(), "2": {1}, "9": {2}, "11": {2, 9}, "10": {2}}


def test_without_the_judge_the_page_goes_by_the_tests_that_passed_when_last_run(tmp_path, monkeypatch, capsys):
    for unit in ("02_scaled_scores", "03_masking"):
        shutil.copytree(ROOT / "solutions" / unit, tmp_path / unit)
    path = tmp_path / "03_masking" / "03_masking.ipynb"
    notebook = nbformat.read(path, as_version=4)
    test = next(
        cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "test_leaks_future"
    )
    test.outputs = []
    nbformat.write(notebook, path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(CHECK.replace("    !", "    #").replace("    #", "    pass  #"), {})
    told = capsys.readouterr().out
    for unit in ("02_scaled_scores", "03_masking"):
        assert f"{CORE[unit]} of {CORE[unit]} in unit {int(unit[:2])}" in told, told
    hard = len(HARD & set(exercises("03_masking")))
    assert f"in unit 3, challenges {hard - 1} of {hard}" in told, told
    assert f"Next: leaks_future in {Path('03_masking') / '03_masking.ipynb'}" in told


def test_the_page_of_one_unit_begins_with_that_unit():
    (text,) = [cell.source for cell in _page(["04_multi_head"]).cells if cell.id == "begin"]
    assert (
        "1 units" not in text and "[Begin with unit 4: Multi-head attention](04_multi_head/04_multi_head.ipynb)" in text
    )
    (text,) = [cell.source for cell in _page(unit_names()).cells if cell.id == "begin"]
    assert f"{len(unit_names())} units" in text and "[Begin with unit 1: Projections](01_projections/" in text


def test_the_page_opens_with_a_live_figure_then_leads_to_the_first_unit_and_folds_its_code():
    cells = _page(unit_names()).cells
    assert [cell.id for cell in cells[:5]] == ["welcome", "opening", "begin", "how_far", "map"]
    (output,) = cells[1].outputs
    assert output.data["text/html"] == opening_figure() and output.data["image/svg+xml"].startswith("<svg ")
    for cell in cells:
        if cell.cell_type == "code":
            assert cell.metadata.jupyter.source_hidden and cell.source.startswith("# ")
            assert cell.id == "opening" or not cell.outputs
    assert cells[2].source.count("](") == 1, "one link: to the first unit"


def _page(units: list[str]):
    return nbformat.reads(start_page(course_map(ROOT, units)), as_version=4)


def test_a_start_page_that_is_old_is_written_anew(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    path = tmp_path / "notebooks" / START_PAGE
    path.write_text(path.read_text(encoding="utf-8").replace("Attention", "Attentions"), encoding="utf-8")
    assert is_stale(tmp_path)
    assert write_start_page(tmp_path) and not is_stale(tmp_path)
    assert not write_start_page(tmp_path)
    nbformat.validate(nbformat.read(path, as_version=4))


def test_a_unit_without_what_the_map_needs_is_named():
    unit = "03_masking"
    notebook = nbformat.read(path_of("notebooks", unit), as_version=4)
    function = "padding_mask"
    line = f"**Exercise {PLACES[function].number} ·"
    cell = next(cell for cell in notebook.cells if line in cell.source)
    cell.source = cell.source.replace(line, "**Task ·")
    with pytest.raises(NoMap, match=rf"{unit}: {function} has no line like “\*\*Exercise N.M · `{function}`"):
        unit_of_map(unit, notebook)
    cell.source = cell.source.replace("**Task ·", line)
    notebook.cells.append(cell)
    with pytest.raises(NoMap, match=rf"{unit}: {function} has two lines like"):
        unit_of_map(unit, notebook)
    first = notebook.cells[0]
    first.source = first.source.replace("**Time**", "**Takes**")
    with pytest.raises(NoMap, match=rf"{unit}: its first Markdown cell lacks “\*\*Time\*\*: about N minutes”$"):
        unit_of_map(unit, notebook)
    first.source = "# Masking"
    with pytest.raises(
        NoMap, match=rf"{unit}: its first Markdown cell lacks “# Unit N · title” and .*Time.* and .*Builds"
    ):
        unit_of_map(unit, notebook)


@pytest.mark.parametrize("version", ["0.0.9", "9.9.9"])
def test_an_autograder_of_a_course_that_keeps_its_version_elsewhere_is_another_too(tmp_path, version):
    (tmp_path / "autograder").mkdir()
    (tmp_path / "autograder" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    with pytest.raises(OtherVersion, match=f"has its own autograder {version}"):
        must_be_the_code_of(tmp_path)


def test_a_release_that_is_no_notebook_is_one_line():
    with pytest.raises(BadAssignment, match=r"notebooks/03_masking cannot be read .*`autograder release 03_masking`"):
        read_assignment("03_masking", "no JSON")
