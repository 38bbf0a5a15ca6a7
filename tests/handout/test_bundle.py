"""The student bundle: what is in it starts by itself, and nothing is in it that students are not to have."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest
import yaml

from autograder.cli import main
from autograder.exercises import exercises, unit_names
from autograder.handout.bundle import TOP, contents

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course folder with one unit, and a class's work in it."""
    folder = tmp_path_factory.mktemp("bundle")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name / UNIT, folder / name / UNIT)
    (folder / "notebooks" / UNIT / ".ipynb_checkpoints").mkdir()
    (folder / "notebooks" / UNIT / ".ipynb_checkpoints" / "old.ipynb").write_text("BEGIN SOLUTION")
    (folder / "grading" / "submitted" / "anna").mkdir(parents=True)
    main(["--course", str(folder), "release", UNIT])
    return folder


def bundle(course: Path, path: Path, *words: str) -> int:
    return main(["--course", str(course), "bundle", "--out", str(path), *words])


@pytest.fixture(scope="module")
def everything() -> dict[str, str]:
    """Name -> text of all that a bundle of the whole course holds."""
    return {name: data.decode("utf-8") for name, data in contents(ROOT, unit_names()).items()}


def compact(text: str) -> str:
    """Without blanks, and with the escapes of a notebook's JSON undone."""
    return re.sub(r"\s+", "", text.replace("\\n", "\n").replace('\\"', '"'))


@pytest.fixture(scope="module")
def whole(everything) -> str:
    return re.sub(r'"id":"[^"]*"', "", compact("\n".join(everything.values())))  # the name of a cell is no secret


def code_lines(source: str) -> set[str]:
    """Lines of code that say something of their own: long, and neither a heading nor an import."""
    lines = (line.split("  #")[0].strip() for line in source.splitlines())
    kept = {line for line in lines if len(line) > 25}
    return {
        line
        for line in kept
        if not line.startswith(("def ", "#", '"""', "import ", "from ", "raise NotImpl", "class "))
    }


def given_lines() -> str:
    """The code that the notebooks give to everybody: helpers, and cells of solutions/ that are no answer or hidden test."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "attention_figures" / "helpers").glob("*.py")]
    for unit in unit_names():
        notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        for cell in notebook.cells:
            text = re.sub(r"### BEGIN (SOLUTION|HIDDEN TESTS).*?### END \1", "", cell.source, flags=re.DOTALL)
            texts.append(text)
    return compact("\n".join(texts))


def test_no_mark_of_solutions_and_judge_is_in_it(everything):
    for name, text in everything.items():
        for word in ("judge_here", "BEGIN SOLUTION", "BEGIN HIDDEN", "END SOLUTION", "HIDDEN TESTS", "gradebook.db"):
            assert word not in text, (name, word)
        assert not re.search(r"(autograder|tests|solutions|grading)/", name.removeprefix(TOP))


def test_no_known_mistake_is_in_it(whole):
    given = given_lines()
    for unit in unit_names():
        for exercise in exercises(unit).values():
            for mistake in exercise.mistakes:
                word = f'"{mistake.slug}"'
                assert word not in whole or word in given, (exercise.name, mistake.slug)
                advice = compact(mistake.advice)  # the tests that everybody sees say some of it
                assert advice not in whole or advice in given, (exercise.name, mistake.slug)


def test_no_reference_is_in_it(whole):
    given = given_lines()
    for unit in unit_names():
        for exercise in exercises(unit).values():
            for line in code_lines(inspect.getsource(exercise.reference)):
                assert compact(line) not in whole or compact(line) in given, (exercise.name, line)


def test_no_solution_is_in_it(whole):
    given = given_lines()
    for unit in unit_names():
        notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        for cell in notebook.cells:
            for secret in re.findall(r"### BEGIN SOLUTION(.*?)### END SOLUTION", cell.source, re.DOTALL):
                for line in code_lines(secret):
                    assert compact(line) not in whole or compact(line) in given, (unit, line)


def test_no_held_out_answer_is_in_it(whole):
    given = given_lines()
    for path in (ROOT / "tests" / "answers").glob("*.py"):
        for line in code_lines(path.read_text(encoding="utf-8")):
            assert compact(line) not in whole or compact(line) in given, (path.name, line)


def test_the_notebooks_are_the_release_and_ask_for_every_answer(everything):
    for unit in unit_names():
        text = everything[f"{TOP}/handout/{unit}/{unit}.ipynb"]
        assert text == (ROOT / "notebooks" / unit / f"{unit}.ipynb").read_text(encoding="utf-8")
        notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
        cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
        for name in exercises(unit):
            assert "raise NotImplementedError" in cells[name].source
            assert not cells[name].outputs and not cells[f"test_{name}"].outputs


@pytest.mark.parametrize("name", ["out.zip", "out.tar.gz"])
def test_both_archives_hold_the_same_and_come_out_the_same_again(course, tmp_path, name):
    assert bundle(course, tmp_path / name, UNIT) == 0
    first = (tmp_path / name).read_bytes()
    if name.endswith(".zip"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            found = {entry: archive.read(entry) for entry in archive.namelist()}
    else:
        with tarfile.open(tmp_path / name) as archive:
            found = {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers()}
    assert found == contents(course, [UNIT])
    assert all(entry.startswith(f"{TOP}/") for entry in found)
    assert bundle(course, tmp_path / name, UNIT) == 0
    assert (tmp_path / name).read_bytes() == first


def test_it_starts_by_itself(course, tmp_path):
    """Its set-up asks for what the course asks of a student, and its JupyterLab shows its notebooks."""
    bundle(course, tmp_path / "out.zip", UNIT)
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        archive.extractall(tmp_path)
    place = tmp_path / TOP
    ours, theirs = (tomllib.loads((p / "pyproject.toml").read_text())["project"] for p in (ROOT, place))
    assert theirs["dependencies"] == ours["dependencies"] and theirs["requires-python"] == ours["requires-python"]
    listed = yaml.safe_load((place / "environment.yml").read_text())["dependencies"]
    assert all(isinstance(entry, str) for entry in listed) and not any("nbgrader" in entry for entry in listed)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import sys; sys.path.insert(0, 'tools'); import make_environment, lab; print(lab.command([])); make_environment.main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(place / "notebooks") in done.stdout
    for target in re.findall(
        r"tools[/\\]+\w+\.py", (place / "README.md").read_text() + (place / "Makefile").read_text()
    ):
        assert (place / target.replace("\\", "/")).is_file(), target


def test_a_later_archive_unpacked_over_an_older_one_keeps_what_students_wrote(course, tmp_path, capsys):
    def unpack_and_start() -> list[str]:
        bundle(course, tmp_path / "out.zip", UNIT)
        with zipfile.ZipFile(tmp_path / "out.zip") as archive:
            archive.extractall(tmp_path)
        line = [sys.executable, "-S", str(tmp_path / TOP / "tools" / "update.py")]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()

    name = f"notebooks/{UNIT}/{UNIT}.ipynb"
    mine = tmp_path / TOP / name
    release = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    source = course / "solutions" / UNIT / f"{UNIT}.ipynb"
    first, before = release.read_bytes(), source.read_text(encoding="utf-8")

    def correct(text: str) -> bytes:
        source.write_text(
            before.replace("import numpy as np", f'# {text}\\n",\n    "import numpy as np', 1), encoding="utf-8"
        )
        assert main(["--course", str(course), "release", UNIT]) == 0
        return release.read_bytes()

    try:
        assert f"{name}: new" in unpack_and_start()
        assert mine.read_bytes() == first and unpack_and_start() == []
        second = correct("corrected")
        assert second != first
        assert unpack_and_start() == [f"{name}: brought up to date"]
        mine.write_bytes(second.replace(b"raise NotImplementedError", b"return 'my answer'", 1))
        answers = mine.read_bytes()
        newest = correct("corrected twice")
        (line,) = unpack_and_start()
        assert "with your answers in it" in line and unpack_and_start() == []
        merged = mine.read_text(encoding="utf-8")
        assert merged.count("return 'my answer'") == 1 and "# corrected twice" in merged
        assert merged.replace("return 'my answer'", "raise NotImplementedError").encode() == newest
        assert (tmp_path / TOP / "grading/replaced/notebooks" / UNIT / "1" / mine.name).read_bytes() == answers
        mine.write_bytes(b"not a notebook")
        newest = correct("three times")
        (line,) = unpack_and_start()
        assert "yours cannot be read, so it stays" in line and mine.read_bytes() == b"not a notebook"
        assert mine.with_name(f"{UNIT}-new.ipynb").read_bytes() == newest
    finally:
        source.write_text(before, encoding="utf-8")
        main(["--course", str(course), "release", UNIT])
    capsys.readouterr()


def refused(course: Path, capsys, path: Path, *words: str) -> str:
    capsys.readouterr()
    assert bundle(course, path, *words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def test_a_notebook_that_is_not_the_release_is_refused(course, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(course, copy)
    path = copy / "notebooks" / UNIT / f"{UNIT}.ipynb"
    path.write_bytes((copy / "solutions" / UNIT / f"{UNIT}.ipynb").read_bytes())
    assert "run `autograder release`" in refused(copy, capsys, tmp_path / "out.zip", UNIT)
    assert not (tmp_path / "out.zip").exists()


def test_unusable_words_are_one_line(course, tmp_path, capsys):
    assert "there is no unit" in refused(course, capsys, tmp_path / "out.zip", "99_none")
    assert ".zip or a .tar.gz" in refused(course, capsys, tmp_path / "out.rar", UNIT)
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(course, capsys, tmp_path / "file" / "out.zip", UNIT)
