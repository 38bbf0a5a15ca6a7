"""The notebooks: solutions that run and say what they said, and releases that give nothing away."""

from __future__ import annotations

import ast
import base64
import copy
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

from asked import points_of
from autograder.exercises import exercises, place_of, unit_names
from autograder.handout import release
from autograder.handout.course_map import course_map
from autograder.reading.predictions import asked_in, is_prediction
from count_given_lines import answer_lines, given_in_view
from execute_notebooks import INVENTED, LEFTOVERS
from fold_cells import fold

ROOT = Path(__file__).parents[2]
#: A docstring says shapes, meaning and one surprise, and that of a challenge the goal as well; a line of code is as wide
#: as JupyterLab shows it; and a visible test has two screens, so that who opens it reads it.
DOCSTRING_WORDS, CHALLENGE_WORDS, LINE, TEST_LINES = 80, 130, 88, 80
#: Before the first figure, which answers before anything has been run.
OPENING_WORDS = 150
UNITS = unit_names()
MAP = course_map(Path(__file__).parents[2])
CHALLENGES = {place.function for unit in MAP for place in unit.challenges}
TRACES = ("### BEGIN", "### END", "judge_here", "HIDDEN TESTS")
IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ALT = re.compile(r'\balt="([^"]*)"')
EXERCISE = re.compile(r"\*\*Exercise ([\d.]+) · `(\w+)`\*\* · [●○]{3} · \d+ min · ([\d.]+) points?")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)[^)]*\)")


def path_of(folder: str, unit: str) -> Path:
    return ROOT / folder / unit / f"{unit}.ipynb"


def read(folder: str, unit: str):
    made = "write it" if folder == "solutions" else "run `make notebooks`"
    assert path_of(folder, unit).exists(), f"{folder}/{unit}/{unit}.ipynb is not there: {made}"
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
    assert release.out_of_step(ROOT, [unit]) == [], "run `make notebooks`, and never edit notebooks/ by hand"


@pytest.mark.parametrize("unit", UNITS)
def test_solution_runs_from_the_top_and_prints_what_it_printed(unit):
    start = (
        "import sys, autograder, pytest; autograder.import_no_more_than_needed(); sys.exit(pytest.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", start, "-q", "-p", "no:cacheprovider"]
    command += ["-p", "nbval.plugin", "--nbval", "--nbval-current-env"]
    command += ["--nbval-cell-timeout=900", f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval_sanitize.cfg'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, str(path_of("solutions", unit))],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    remedy = f"run `make notebooks ARGS={unit}` and read its diff (the numbers of cells below count code cells alone)"
    rejected = re.search(r"AssertionError: (\w+): .*", done.stdout) if "judge_here" in done.stdout else None
    if rejected:
        remedy = f"the judge rejects the published answer ({rejected[0]}): mend the answer, or the exercise's file"
    assert done.returncode == 0, f"{unit}: {remedy}\n{done.stdout[-4000:]}{done.stderr[-1000:]}"


@pytest.mark.parametrize("unit", UNITS)
def test_every_code_cell_of_a_solution_was_executed_and_no_time_or_machine_is_noted(unit):
    notebook = read("solutions", unit)
    for cell in notebook.cells:
        left = [name for name in LEFTOVERS if name in cell.metadata]
        assert not left, f"{unit}, {cell.id}: an editor left {left} behind; run `make notebooks ARGS={unit}`"
        if cell.cell_type == "code":
            assert cell.execution_count is not None, (
                f"{unit}, {cell.id}: not executed; run `make notebooks ARGS={unit}`"
            )
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert not failed, f"{unit}, {cell.id}: ended in an error"
    assert notebook.metadata.kernelspec.name == "python3"
    assert "version" not in notebook.metadata.language_info


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_reader_need_not_read_is_folded_and_says_what_it_is(unit):
    notebook = read("solutions", unit)
    folded = copy.deepcopy(notebook)
    fold(folded)
    for cell, wanted in zip(notebook.cells, folded.cells, strict=True):
        assert (cell.source, cell.metadata) == (wanted.source, wanted.metadata), (
            f"{cell.id}: run `make notebooks ARGS={unit}`"
        )


@pytest.mark.parametrize("unit", UNITS)
def test_a_student_sees_at_most_twice_as_much_given_code_as_there_is_to_write(unit):
    given, answers = given_in_view(read("notebooks", unit)), answer_lines(read("solutions", unit))
    assert given <= 2 * answers, f"{unit}: {given} lines in view, {answers} in answers; shorten or fold examples"


@pytest.mark.parametrize("unit", UNITS)
def test_every_function_has_one_answer_cell_and_one_test_cell_with_its_points(unit):
    wanted, notebook = exercises(unit), read("solutions", unit)
    answers, tests = answer_cells(notebook), test_cells(notebook)
    place, module = f"solutions/{unit}/{unit}.ipynb", place_of(unit)
    for path in sorted((ROOT / module).parent.glob("*.py")):
        declares = "\nEXERCISE = " in path.read_text(encoding="utf-8")
        assert path.stem in wanted or not declares, f"{module} does not list {path.stem}: add it to EXERCISES"
    for name in wanted:
        assert name in answers, f"{place} has no answer cell with the grade_id {name!r}, and {module} has that exercise"
        assert f"test_{name}" in tests, f"{place} has no test cell with the grade_id 'test_{name}'"
    for name in answers:
        assert name in wanted, f"{place} has the answer cell {name!r}, and EXERCISES of {module} has no such exercise"
    for name in tests:
        assert name.removeprefix("test_") in wanted, f"{place} has the test cell {name!r}, which tests no exercise"
    assert list(wanted) == list(answers), f"EXERCISES of {module} must have the order of the notebook: {list(answers)}"
    assert list(tests) == [f"test_{name}" for name in answers], f"{place}: the test of each answer comes right after it"
    for name in wanted:
        answer, test = notebook.cells[answers[name]], notebook.cells[tests[f"test_{name}"]]
        assert answers[name] < tests[f"test_{name}"], f"{name}: the test cell stands before the answer cell"
        assert marks(test)["points"] > 0, f"{name}: {place} gives it no points"
        assert marks(test)["locked"] and not marks(test)["solution"], f"{name}: its test cell must be locked"
        assert not marks(answer)["locked"] and not marks(answer)["grade"], f"{name}: its answer cell must be open"
        functions = re.findall(r"^def (\w+)\(", answer.source, re.MULTILINE)
        assert functions == [name], f"{name}: its answer cell must define this one function, and defines {functions}"
        definition = next(node for node in ast.parse(answer.source).body if isinstance(node, ast.FunctionDef))
        remedy = "say in it all that the function takes, returns and raises"
        assert ast.get_docstring(definition), f"{place}: {name} has no docstring in its answer cell; {remedy}"
        counts = {line: answer.source.count(line) for line in ("### BEGIN SOLUTION", "### END SOLUTION")}
        assert set(counts.values()) == {1}, f"{name}: the answer cell needs each of these lines once: {counts}"
        visible, _, hidden = test.source.partition("### BEGIN HIDDEN TESTS")
        call = f'__import__("autograder").judge_here({name})'
        assert call in hidden, f"{name}: between BEGIN and END HIDDEN TESTS of its test cell must stand: {call}"
        assert "judge_here" not in visible, f"{name}: judge_here belongs between BEGIN and END HIDDEN TESTS"


@pytest.mark.parametrize("unit", UNITS)
def test_every_exercise_is_announced_before_its_answer_cell(unit):
    notebook, place = read("solutions", unit), f"solutions/{unit}/{unit}.ipynb"
    announced = {}
    for index, cell in enumerate(notebook.cells):
        quoted = re.search(r"[Ee]xercises? \d+\.\d+", EXERCISE.sub("", cell.source))
        assert quoted is None, f"{place}, {cell.id}: name the function instead of {quoted[0]!r}, because numbers change"
        if cell.cell_type == "markdown":
            for number, name, points in EXERCISE.findall(cell.source):
                assert name not in announced, f"{place}: {name} is announced twice"
                announced[name] = (index, number, float(points))
    answers = answer_cells(notebook)
    for position, (name, worth) in enumerate(points_of(unit).items(), start=1):
        number = f"{int(unit[:2])}.{position}"
        points = f"{worth:g} point" + "s" * (worth != 1)
        wanted = f"**Exercise {number} · `{name}`** · ●○○ · N min · {points}"
        assert name in announced, f"{place}: before the answer cell of {name} must stand a line like {wanted}"
        index, found, told = announced[name]
        remedy = f"run `make notebooks ARGS={unit}`"
        assert (found, told) == (number, worth), f"{place}: the line of {name} should read {wanted}; {remedy}"
        assert name in answers, f"{place} has no answer cell with the grade_id {name!r}"
        assert index < answers[name], f"{place}: {name} is announced after its answer cell"
        if "warm-up" in notebook.cells[index].source:
            continue
        folded = any("<details" in cell.source for cell in notebook.cells[index : answers[name]])
        assert folded, f"{place}: no hint between the line of {name} and its answer cell; fold one into <details>"


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("folder", ["solutions", "notebooks"])
def test_cell_names_are_readable_and_unique(folder, unit):
    notebook = read(folder, unit)
    names = [cell.id for cell in notebook.cells]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"{folder}/{unit}: two cells have the id {twice}"
    for cell in notebook.cells:
        remedy = f"{folder}/{unit}, {cell.id}: no name for a reader; `make notebooks` gives new cells one"
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", cell.id), remedy
        assert not INVENTED.fullmatch(cell.id), remedy
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
            opens = "picture" in cell.metadata.get("tags", [])
            assert opens or not cell.outputs, f"{cell.id}: holds an output"
            assert cell.execution_count is None, f"{cell.id}: counts as executed"
    for name, index in answer_cells(notebook).items():
        assert "raise NotImplementedError" in notebook.cells[index].source, name
    assert [path.name for path in (ROOT / "notebooks" / unit).iterdir() if path.suffix == ".py"] == []


@pytest.mark.parametrize("unit", UNITS)
def test_every_figure_has_alternative_text(unit):
    for cell in read("solutions", unit).cells:
        if cell.cell_type == "markdown":
            for picture, words, target in LINK.findall(cell.source):
                assert not picture or len(words) >= 20, f"{unit}, {cell.id}: {target} has no alternative text"
        pictures = IMAGE.findall(cell.source) if cell.cell_type == "markdown" else []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            assert "image/png" not in data and "image/svg+xml" not in data, (
                f"{unit}, {cell.id}: use show(fig, alt=…, caption=…)"
            )
            pictures += IMAGE.findall(data.get("text/html", ""))
        for picture in pictures:
            alt = ALT.search(picture)
            assert alt and len(alt.group(1)) >= 20, f"{unit}, {cell.id}: a figure without alternative text"
        if "plt.subplots(" in cell.source or "plt.figure(" in cell.source:
            optional = "optional" in cell.metadata.get("tags", [])  # needs what is not installed here
            assert pictures or optional, f"{unit}, {cell.id}: draws a figure that nobody sees"


@pytest.mark.parametrize("unit", UNITS)
def test_a_contract_is_short_and_nothing_scrolls_sideways(unit):
    notebook, lengths, place = read("solutions", unit), [], f"solutions/{unit}/{unit}.ipynb"
    assert "every-function" in [cell.id for cell in notebook.cells], (
        f"{unit}: what holds for every function belongs in one box, a Markdown cell with the id `every-function`"
    )
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if marks(cell).get("grade"):
            lengths.append(len(cell.source.splitlines()))
        if marks(cell).get("solution"):
            definition = next(node for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef))
            words = len(ast.get_docstring(definition).split())
            most = CHALLENGE_WORDS if cell.metadata.nbgrader.grade_id in CHALLENGES else DOCSTRING_WORDS
            remedy = "move what holds for the whole unit to its box `every-function`, and reasons to the prose"
            assert words <= most, f"{place}, {cell.id}: a docstring of {words} words, at most {most} are read; {remedy}"
        if not cell.metadata.get("jupyter", {}).get("source_hidden"):
            for number, line in enumerate(cell.source.splitlines(), start=1):
                told = f"{place}, {cell.id}, line {number}: {len(line)} characters; break it after at most {LINE}"
                assert len(line) <= LINE, told
    mean = sum(lengths) / len(lengths)
    told = f"{place}: its visible tests have {mean:.0f} lines on average; shorten them to {TEST_LINES}"
    assert mean <= TEST_LINES, told


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_opens_with_a_live_figure_and_its_release_has_no_other_output(unit):
    cells = read("notebooks", unit).cells
    shown = [index for index, cell in enumerate(cells) if cell.get("outputs")]
    assert len(shown) == 1 and shown[0] < 4, f"{unit}: one of its first four cells shows a live figure, tag `picture`"
    opening = cells[shown[0]]
    assert "picture" in opening.metadata.tags and opening.metadata.jupyter.source_hidden
    words = sum(len(cell.source.split()) for cell in cells[: shown[0]] if cell.cell_type == "markdown")
    assert words <= OPENING_WORDS, (
        f"{unit}: {words} words come before its first figure, at most {OPENING_WORDS} are read"
    )
    assert cells[0].cell_type == "markdown" and "?" in cells[0].source, f"{unit}: its first cell asks no question"
    assert "**Try it" in cells[0].source, f"{unit}: its first cell does not say what to try in the figure"
    (output,) = opening.outputs
    html, alt = output.data["text/html"], output.metadata["image/png"]["alt"]
    assert 'class="live"' in html and "live.start()" in html and len(alt) >= 20
    assert base64.b64decode(output.data["image/png"]).startswith(b"\x89PNG")
    size = path_of("notebooks", unit).stat().st_size
    assert size < 1e6, f"{unit}: its release takes {size / 1e6:.1f} MB; show less at its opening"


@pytest.mark.parametrize("unit", UNITS)
def test_a_still_picture_at_the_opening_has_words(unit):
    for cell in read("notebooks", unit).cells:
        if cell.cell_type == "markdown" and "picture" in cell.metadata.get("tags", []):
            words = LINK.match(cell.source)
            assert words and len(words[2]) >= 20, f"{unit}, {cell.id}: its picture lacks words"
            assert base64.b64decode(cell.attachments["picture.png"]["image/png"]).startswith(b"\x89PNG"), unit


@pytest.mark.parametrize("unit", UNITS)
def test_a_warm_up_is_worth_one_point_and_others_have_two_hints(unit):
    for cell in read("solutions", unit).cells:
        if cell.cell_type != "markdown":
            continue
        parts = re.split(r"(?=\*\*Exercise [\d.]+ · `)", cell.source)[1:]
        for part in parts:
            name = re.search(r"`(\w+)`", part)[1]
            if "warm-up" in part.partition("\n")[0]:
                assert " · 1 point · " in part.partition("\n")[0], f"{name}: a warm-up is worth 1 point"
            else:
                hints = part.count("<summary>Hint")
                assert hints >= 2, f"{name} has {hints} hints: first an idea, then a nudge, or it is a warm-up"


def test_half_of_the_points_are_for_challenges_and_each_unit_says_what_they_take():
    points = [place.points for unit in MAP for place in unit.places]
    hard = [place.points for unit in MAP for place in unit.challenges]
    assert 2 * sum(hard) >= sum(points), f"{sum(hard):g} of {sum(points):g} points are for challenges"
    for unit in MAP:
        assert unit.challenges, f"{unit.name} has no exercise with · challenge at the end of its line"
        minutes = sum(place.minutes for place in unit.challenges)
        remedy = f"run `make notebooks ARGS={unit.name}`"
        assert unit.challenge_minutes == minutes, f"{unit.name}: its challenges take {minutes} minutes; {remedy}"


@pytest.mark.parametrize("unit", UNITS)
def test_behind_a_challenge_stands_folded_what_to_look_at_next(unit):
    notebook, answers = read("solutions", unit), answer_cells(read("solutions", unit))
    names = [cell.id for cell in notebook.cells]
    for name in CHALLENGES & set(answers):
        place = f"next-{name.replace('_', '-')}"
        assert place in names, f"{unit}: no Markdown cell with the id {place!r} behind the test of {name}"
        source = notebook.cells[names.index(place)].source
        assert names.index(place) > answers[name] and source.lstrip().startswith("<details>"), f"{unit}, {place}"


@pytest.mark.parametrize("unit", UNITS)
def test_a_prediction_stands_before_its_measurement_and_says_what_is_measured(unit):
    notebook = read("solutions", unit)
    asked = asked_in(notebook)
    assert 3 <= len(asked) <= 5, f"{unit} asks for {len(asked)} predictions"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for each in asked:
        name = f"predict-{each.number.replace('.', '-')}"
        places = [index for index, cell in enumerate(cells) if is_prediction(cell) and cell.id == name]
        reveals = [index for index, cell in enumerate(cells) if f'reveal("{each.number}"' in cell.source]
        assert len(places) == 1, f"{unit}: prediction {each.number} stands in one cell with the id {name!r}"
        assert len(reveals) == 1 and reveals[0] > places[0], f"{unit}: one reveal of {each.number}, after the guess"
        printed = "".join(output.get("text", "") for output in cells[reveals[0]].outputs)
        line = next((line for line in printed.splitlines() if line.startswith(f"{each.number}: measured ")), "")
        if each.options:
            assert "as you predicted" in line and "not as" not in line, f"{unit}, {each.number}: {line!r}"
        else:
            measured = float(re.match(r"[\d.]+: measured (-?[\d.e+-]*\d)", line)[1])
            assert measured == pytest.approx(each.truth, rel=0.05), f"{unit}, {each.number}: {line!r}"
    released = asked_in(read("notebooks", unit))
    assert [(each.number, each.truth) for each in released] == [(each.number, None) for each in asked]


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
            assert place.exists(), f"{folder}/{unit}, {cell.id}: the link {target} leads nowhere"


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_links_to_the_one_before_and_the_one_after_it(unit):
    links = {target for cell in read("solutions", unit).cells for _, _, target in LINK.findall(cell.source)}
    place = UNITS.index(unit)
    for other in UNITS[max(place - 1, 0) : place] + UNITS[place + 1 : place + 2]:
        assert f"../{other}/{other}.ipynb" in links, f"solutions/{unit} has no link ../{other}/{other}.ipynb"


@pytest.mark.parametrize("unit", UNITS)
def test_folded_parts_open_and_close(unit):
    for cell in read("solutions", unit).cells:
        if cell.cell_type == "markdown":
            where, opened = f"solutions/{unit}, {cell.id}", cell.source.count("<details")
            assert opened == cell.source.count("</details>"), f"{where}: as many </details> as <details> are needed"
            assert opened == cell.source.count("<summary"), f"{where}: each <details> needs one <summary>"
            assert not re.search(r"</summary>\n(?!\n)", cell.source), f"{where}: a blank line must follow </summary>"
