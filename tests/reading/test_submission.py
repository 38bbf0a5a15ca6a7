"""Reading what students hand in, and putting their answers into our own notebook."""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path

import nbformat
import pytest

from autograder.reading import cell_syntax
from autograder.reading.cell_roles import is_answer
from autograder.reading.insert_answers import transplant
from autograder.reading.read_assignment import read_assignment
from autograder.reading.read_submission import (
    CODE_CAP,
    FILE_CAP,
    SIZE_CAP,
    TOKENS_CAP,
    Cell,
    read,
    read_bytes,
    without_outputs,
)
from autograder.records import Unreadable

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
RELEASE = read_assignment(UNIT, (ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb").read_text(encoding="utf-8")).release
FUNCTIONS = [cell.metadata.nbgrader.grade_id for cell in RELEASE.cells if is_answer(cell)]
FIRST = FUNCTIONS[0]


def document() -> dict:
    """The release as plain JSON, to be changed."""
    return json.loads(json.dumps(RELEASE))


def marks(cell: dict) -> dict:
    return cell["metadata"].get("nbgrader", {})


def answer_cell(doc: dict, function: str = FIRST) -> dict:
    return next(cell for cell in doc["cells"] if marks(cell).get("grade_id") == function)


def solve(doc: dict, function: str = FIRST, source: str | None = None) -> dict:
    cell = answer_cell(doc, function)
    cell["source"] = source or f"def {function}(*args):\n    return 'mine'"
    return cell


def opened(doc: dict):
    return transplant(read_bytes(json.dumps(doc).encode(), "a.ipynb"), RELEASE, UNIT, "a.ipynb")


def code_cell(source: str, **more) -> dict:
    return {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source, **more}


# --- files that cannot be read ---------------------------------------------------------------------------------------


def one_line(caught, path: Path) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_missing_file(tmp_path):
    with pytest.raises(Unreadable) as caught:
        read(tmp_path / "none.ipynb")
    assert "cannot be opened" in one_line(caught, tmp_path)


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link", "loop of links", "fifo"])
def test_what_is_no_regular_file(tmp_path, kind):
    path = tmp_path / "a.ipynb"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        target = {"link": tmp_path / "real.ipynb", "dangling link": tmp_path / "none", "loop of links": path}[kind]
        (tmp_path / "real.ipynb").write_text(json.dumps(document()))
        path.symlink_to(target)
    with pytest.raises(Unreadable) as caught:
        read(path)
    assert "not a regular file" in one_line(caught, path)


def test_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "a.ipynb"
    with open(path, "wb") as file:
        file.truncate(FILE_CAP + 1)
    with pytest.raises(Unreadable) as caught:
        read(path)
    assert "clear all outputs" in one_line(caught, path)


def large(**changes) -> bytes:
    """A notebook of more than 20 MB, by its outputs unless told otherwise."""
    whole = document()
    cell = next(cell for cell in whole["cells"] if cell["cell_type"] == "code")
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": 'A[{\\"' * (SIZE_CAP // 6)}}
    table = {"output_type": "stream", "name": "stdout", "text": ['} "outputs": [\n'] * 1000}
    cell.update({"outputs": [picture, table], **changes})
    return json.dumps(whole, indent=1).encode()


def test_a_notebook_that_is_large_by_its_outputs_alone_is_read(tmp_path):
    data, small = large(), json.dumps(document()).encode()
    assert len(data) > SIZE_CAP
    (tmp_path / "a.ipynb").write_bytes(data)
    assert read(tmp_path / "a.ipynb") == read_bytes(data, "a") == read_bytes(small, "a") != []
    assert json.loads(without_outputs(small)) == json.loads(small) | {
        "cells": [cell | ({"outputs": []} if "outputs" in cell else {}) for cell in json.loads(small)["cells"]]
    }


def test_what_is_large_by_anything_else_is_not(tmp_path):
    with pytest.raises(Unreadable, match="without its outputs; remove what is no answer"):
        read_bytes(large(source="#" * SIZE_CAP), "a")
    with pytest.raises(Unreadable, match="without its outputs"):
        read_bytes(b'{"cells": ["' + b'\\"' * SIZE_CAP, "a")
    with pytest.raises(Unreadable, match="holds too much; clear all outputs"):
        read_bytes(b'{"cells": [{"outputs": [' + b"[]," * TOKENS_CAP, "a")


WHOLE = json.dumps(document()).encode()
WHOLE_LINES = json.dumps(document(), indent=1).encode()
BAD = {
    "empty": (b"", "cut off"),
    "truncated": (WHOLE[: len(WHOLE) // 2], "cut off"),
    "binary": (bytes(range(256)) * 20, "not a text file"),
    "UTF-16, cut off": (json.dumps({"cells": []}).encode("utf-16")[:-1], "not a text file"),
    "Windows-1252": ("{“cells”: []}".encode("cp1252"), "not a text file in UTF-8; save it as UTF-8 in a text editor"),
    "a zip archive": (b"PK\x03\x04" + b"\xfe" * 50, "not a notebook but a zip archive; unpack it"),
    "a PDF": (b"%PDF-1.7\n\xfe", "not a notebook but a PDF"),
    "a web page": (b"\n\n<!DOCTYPE html>\n<html>", "not a notebook but a web page; download the notebook itself"),
    "git's conflict": (
        WHOLE_LINES.replace(b"\n", b"\n<<<<<<< HEAD\n", 1),
        "(line 2 is git's mark of a conflict); keep",
    ),
    "what follows its end": (b'{"cells": []}\n ]\n}', "the folder .ipynb_checkpoints may hold it"),
    "a script": (b"def f(x):\n    return x\n", "cut off"),
    "a list": (b"[1, 2]", "no object"),
    "no cells": (b'{"nbformat": 4}', "no cells"),
    "cells that are no list": (b'{"cells": {"a": 1}}', "no cells"),
    "nested deeply": (b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
    "too many magics": (json.dumps({"cells": [code_cell("%time x = 1\n" * 400)]}).encode(), "lines with %"),
    "too many cells": (json.dumps({"cells": [{}] * 5_000}).encode(), "more than"),
}


@pytest.mark.parametrize("data, words", BAD.values(), ids=BAD)
def test_content_that_is_no_notebook(tmp_path, data, words):
    path = tmp_path / "a.ipynb"
    path.write_bytes(data)
    with pytest.raises(Unreadable) as caught:
        read(path)
    assert words in one_line(caught, path)


def test_cut_anywhere_it_is_unreadable_or_whole():
    for end in random.Random(3).sample(range(len(WHOLE)), 40):
        with pytest.raises(Unreadable):
            read_bytes(WHOLE[:end], "a.ipynb")


def test_a_notebook_of_another_course_or_unit():
    other = {"cells": [code_cell("def area(r):\n    return 3 * r**2"), code_cell("import numpy as np")]}
    with pytest.raises(Unreadable, match="another unit or course"):
        opened({**document(), **other})
    second = nbformat.read(ROOT / "notebooks" / "01_projections" / "01_projections.ipynb", as_version=4)
    with pytest.raises(Unreadable, match="03_masking"):
        opened(json.loads(json.dumps(second)))


ODD_CELLS = [None, 3, "text", [], {}, {"cell_type": "code"}, {"cell_type": "code", "source": 5, "metadata": []}]
ODD_CELLS += [
    code_cell("x = 1", id=7),
    {**code_cell("y"), "metadata": {"nbgrader": {"grade_id": {}}}},
    code_cell("z = '\ud800\0'"),
]
ODD_CELLS += [
    code_cell("def f(:"),
    code_cell("x = " + "-" * 50_000 + "1"),
    code_cell("x = " + "(" * 5_000 + ")" * 5_000),
]
ODD_CELLS += [
    code_cell("%%javascript\nalert(1)"),
    code_cell("!rm -rf x"),
    {**code_cell("q"), "outputs": [{"data": float("nan")}]},
]


def test_odd_cells_do_not_stop_the_others():
    doc = document()
    solve(doc)
    doc["cells"] = [*ODD_CELLS, *doc["cells"], *ODD_CELLS]
    result = opened(doc)
    assert list(result.answers) == [FIRST]
    nbformat.validate(result.notebook)
    nbformat.writes(result.notebook).encode()


# --- the answers in our notebook -------------------------------------------------------------------------------------


def test_the_untouched_release_holds_no_answer():
    result = opened(document())
    assert result.answers == {} and result.notes == {}
    assert {cell.kind for cell in result.cells} <= {"given"}
    assert [c.source for c in result.notebook.cells] == [c.source for c in RELEASE.cells]


def test_an_answer_comes_along_and_nothing_else():
    doc = document()
    cell = solve(doc)
    cell["metadata"]["tags"] = ["mine"]
    cell["metadata"]["nbgrader"]["points"] = 1000
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "shown"}]
    cell["attachments"] = {"a.png": {}}
    doc["metadata"]["mine"] = "mine"
    result = opened(doc)
    assert result.answers == {FIRST: cell["source"]}
    text = nbformat.writes(result.notebook)
    assert '"mine"' not in text and "1000" not in text and "shown" not in text and "attachments" not in text
    assert [c.kind for c in result.cells if c.name == FIRST] == ["answer"]


def test_edited_locked_cells_stay_behind():
    doc = document()
    solve(doc)
    for cell in doc["cells"]:
        if marks(cell).get("grade"):
            cell["source"] = "pass  # vandalised"
            cell["metadata"]["nbgrader"].update(points=99, locked=False)
        elif "given" in cell["metadata"].get("tags", []):
            cell["source"] = "np = None  # vandalised"
        elif cell["cell_type"] == "markdown":
            cell["source"] = "vandalised"
    result = opened(doc)
    assert "vandalised" not in nbformat.writes(result.notebook)
    ours = [marks(cell) for cell in RELEASE.cells]
    assert [marks(cell) for cell in result.notebook.cells] == ours
    assert list(result.answers) == [FIRST]


def test_helpers_written_into_a_cell_of_ours_come_along():
    doc = document()
    given = next(cell for cell in doc["cells"] if "given" in cell["metadata"].get("tags", []))
    given["source"] += "\n\ndef my_helper(x):\n    return x\n"
    solve(doc, source=f"def {FIRST}(*args):\n    return my_helper(args)")
    sources = [cell.source for cell in opened(doc).cells if cell.kind == "extra"]
    assert len(sources) == 1 and "my_helper" in sources[0]


@pytest.mark.parametrize(
    "line", ["import functools", "from itertools import *", "EPS: float = 1e-9", "def my_helper(x):\n    return x"]
)
def test_of_a_cell_of_ours_what_was_added_comes_along_alone(line):
    doc = document()
    given = next(cell for cell in doc["cells"] if cell.get("id") == "imports")
    given["source"] = "".join(given["source"]) + f"\n\n{line}\nnp = None  # changed\n"
    solve(doc)
    sources = [cell.source for cell in opened(doc).cells if cell.kind == "extra"]
    assert sources == [f"{line}\nnp = None  # changed\n"]


def test_deleted_test_cells_come_back():
    doc = document()
    solve(doc)
    doc["cells"] = [cell for cell in doc["cells"] if not marks(cell).get("grade")]
    result = opened(doc)
    assert {marks(cell).get("grade_id") for cell in result.notebook.cells} >= {f"test_{name}" for name in FUNCTIONS}


def test_extra_cells_keep_their_place():
    doc = document()
    cells = doc["cells"]
    cells.insert(0, code_cell("top = 1", id="top"))
    cells.insert(cells.index(answer_cell(doc)), code_cell("before = 2", id="before"))
    cells.insert(cells.index(answer_cell(doc)) + 1, code_cell("after = 3", id="after"))
    cells.append(code_cell("end = 4", id="end"))
    solve(doc)
    names = [cell.source if cell.kind == "extra" else cell.kind for cell in opened(doc).cells]
    assert names[0] == "top = 1" and names[-1] == "end = 4"
    where = names.index("answer")
    assert names[where - 1 : where + 2] == ["before = 2", "answer", "after = 3"]


def test_duplicate_answer_cells_are_named_and_the_last_counts():
    doc = document()
    cell = solve(doc)
    again = copy.deepcopy(cell)
    again["source"] = f"def {FIRST}(*args):\n    return 'last'"
    doc["cells"].append(again)
    result = opened(doc)
    assert result.answers[FIRST] == again["source"]
    assert "2 answer cells" in result.notes[FIRST] and list(result.notes) == [FIRST]


def test_both_parts_of_a_split_answer_cell_come_along():
    """JupyterLab gives the marks to both."""
    doc = document()
    parts = ["EPS = 0", f"def {FIRST}(*args):\n    return EPS", f"print({FIRST}())"]
    at = doc["cells"].index(answer_cell(doc))
    cells = [copy.deepcopy(doc["cells"][at]) for _ in parts]
    for cell, source in zip(cells, parts, strict=True):
        cell["source"] = source
    doc["cells"][at : at + 1] = cells
    result = opened(doc)
    assert result.answers == {FIRST: parts[1]} and result.notes == {}
    run = [cell.source for cell in result.cells if cell.kind != "given"]
    assert run == parts


def test_an_answer_merged_with_its_test_counts():
    doc = document()
    answer = solve(doc)
    test = next(cell for cell in doc["cells"] if marks(cell).get("grade_id") == f"test_{FIRST}")
    test["source"] = answer["source"] + "\n\n" + "".join(test["source"])
    doc["cells"].remove(answer)
    result = opened(doc)
    assert result.answers == {FIRST: test["source"]} and result.notes == {}


@pytest.mark.parametrize("left", ["stub", "empty", "nothing"])
def test_a_cell_with_several_answers_answers_for_all(left):
    doc = document()
    source = f"def {FIRST}(x):\n    return x\n\n\ndef {FUNCTIONS[1]}(x):\n    return x"
    solve(doc, source=source)
    other = answer_cell(doc, FUNCTIONS[1])
    if left == "empty":
        other["source"] = ""
    elif left == "nothing":
        doc["cells"].remove(other)
    result = opened(doc)
    assert result.answers == {FIRST: source, FUNCTIONS[1]: source} and result.notes == {}


def test_a_copied_stub_or_a_copy_of_the_same_is_no_duplicate():
    doc = document()
    stub = copy.deepcopy(answer_cell(doc))
    cell = solve(doc)
    doc["cells"] += [stub, copy.deepcopy(cell)]
    result = opened(doc)
    assert result.answers == {FIRST: cell["source"]} and result.notes == {}


def test_a_missing_answer_cell_is_named_and_costs_itself():
    doc = document()
    doc["cells"].remove(answer_cell(doc))
    solve(doc, FUNCTIONS[1])
    result = opened(doc)
    assert list(result.answers) == [FUNCTIONS[1]]
    assert "missing" in result.notes[FIRST] and list(result.notes) == [FIRST]


def turn(cell: dict, kind: str) -> dict:
    """What Jupyter leaves of a cell of code of which it makes another kind."""
    del cell["outputs"], cell["execution_count"]
    cell["cell_type"] = kind
    return cell


@pytest.mark.parametrize("kind", ["markdown", "raw"])
@pytest.mark.parametrize("marked", [True, False])
def test_an_answer_cell_of_another_kind_is_read_as_code(kind, marked):
    doc = document()
    cell = turn(solve(doc), kind)
    if not marked:
        cell["metadata"] = {}
    result = opened(doc)
    assert result.answers == {FIRST: cell["source"]}
    assert {"markdown": "a Markdown cell", "raw": "a raw cell"}[kind] in result.notes[FIRST]
    assert [each.cell_type for each in result.notebook.cells if marks(each).get("grade_id") == FIRST] == ["code"]
    assert [each.source for each in result.cells if each.name == FIRST] == [cell["source"]]


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_an_untouched_cell_of_another_kind_is_not_missing(kind):
    doc = document()
    turn(answer_cell(doc), kind)
    solve(doc, FUNCTIONS[1])
    result = opened(doc)
    assert list(result.answers) == [FUNCTIONS[1]]
    assert "missing" not in result.notes[FIRST] and "read it as code" in result.notes[FIRST]


@pytest.mark.parametrize("source", ["My first idea was wrong.", f"def {FIRST}(*args):\n    return 'a draft'"])
@pytest.mark.parametrize("marked", [True, False])
def test_notes_in_an_answer_cell_do_not_stand_before_the_answer_in_code(source, marked):
    """A draft without marks beside it counts where the marked cell defines nothing."""
    doc = document()
    turn(solve(doc, source=source), "markdown")
    code = code_cell(f"def {FIRST}(*args):\n    return 'moved'")
    if marked:
        code["metadata"] = {"nbgrader": {"grade_id": FIRST, "solution": True}}
    doc["cells"].append(code)
    draft = source.startswith("def") and not marked
    assert ("a draft" if draft else "moved") in opened(doc).answers[FIRST]


def test_prose_that_becomes_code_is_bounded_as_code_is():
    doc = document()
    turn(solve(doc, source="x = 1\n" * CODE_CAP), "markdown")
    with pytest.raises(Unreadable, match="kB of code"):
        opened(doc)
    doc = document()
    turn(solve(doc, source="%time x = 1\n" * 400), "raw")
    with pytest.raises(Unreadable, match="lines with %"):
        opened(doc)


@pytest.mark.parametrize("keep_ids", [True, False])
def test_lost_metadata_is_made_up_for(keep_ids):
    doc = document()
    for name in FUNCTIONS:
        solve(doc, name)
    for cell in doc["cells"]:
        cell["metadata"] = {}
        if not keep_ids:
            cell.pop("id", None)
    result = opened(doc)
    assert list(result.answers) == FUNCTIONS and result.notes == {}
    assert [cell.kind for cell in result.cells if cell.kind == "extra"] == []


def test_an_answer_moved_to_a_new_cell_counts():
    doc = document()
    doc["cells"].remove(answer_cell(doc))
    doc["cells"].append(code_cell(f"def {FIRST}(*args):\n    return 'moved'", id="new"))
    assert "moved" in opened(doc).answers[FIRST]


def test_byte_order_mark_and_source_as_list():
    doc = document()
    source = solve(doc)["source"]
    for cell in doc["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    cells = read_bytes(b"\xef\xbb\xbf" + json.dumps(doc).encode(), "a.ipynb")
    assert transplant(cells, RELEASE, UNIT, "a.ipynb").answers == {FIRST: source}


def test_a_notebook_of_format_3():
    doc = document()
    source = solve(doc)["source"]
    cells = [{**c, "input": c["source"], "language": "python"} if c["cell_type"] == "code" else c for c in doc["cells"]]
    for cell in cells:
        if "input" in cell:
            del cell["source"]
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}, None, 3]}
    assert opened(old).answers == {FIRST: source}


def test_not_a_number_among_the_outputs_is_no_reason_to_refuse():
    doc = document()
    solve(doc)["outputs"] = [
        {"output_type": "display_data", "data": {"application/json": float("nan")}, "metadata": {}}
    ]
    assert list(opened(doc).answers) == [FIRST]


def test_windows_line_ends_are_no_change():
    doc = document()
    for cell in doc["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    assert opened(doc).answers == {}


def test_cells_named_like_ours_do_not_collide():
    doc = document()
    solve(doc)
    doc["cells"] += [
        code_cell("a = 1", id="extra-1"),
        code_cell("b = 2", id="extra-1"),
        code_cell("c = 3", id=FUNCTIONS[1]),
    ]
    result = opened(doc)
    assert len({cell.name for cell in result.cells}) == len(result.cells)
    assert len({cell.id for cell in result.notebook.cells}) == len(result.notebook.cells)


def test_reading_twice_gives_the_same():
    doc = document()
    solve(doc)
    doc["cells"].insert(3, code_cell("helper = 1", id="x"))
    once = opened(doc)
    cells = [Cell(marks(c).get("grade_id"), c.id, c.source) for c in once.notebook.cells if c.cell_type == "code"]
    twice = transplant(cells, RELEASE, UNIT, "a.ipynb")
    assert (twice.answers, twice.cells) == (once.answers, once.cells)


def test_a_file_of_many_small_objects_is_refused_before_they_are_built():
    many = b'{"cells": [], "x": [' + b"{}," * 1_100_000 + b"0]}"
    with pytest.raises(Unreadable, match="holds too much"):
        read_bytes(many, "a")
    in_outputs = b'{"cells": [{"outputs": [' + b"{}," * 1_100_000 + b"0]}]}"
    assert read_bytes(in_outputs, "a") == []


def test_what_is_too_large_without_its_outputs_is_not_copied():
    for data in (
        b'{"outputs": [1], "x": "' + b"a" * SIZE_CAP + b'"}',
        b'{"x": "' + b"a" * SIZE_CAP + b'", "outputs": []}',
    ):
        assert without_outputs(data) is data


def test_each_cell_is_parsed_once_however_many_functions_are_looked_for(monkeypatch):
    read_before, walked, parsed = cell_syntax.read, [], []
    monkeypatch.setattr(cell_syntax, "read", lambda source: parsed.append(source) or read_before(source))
    source = "never_seen_before = 1\ndef f(x):\n    return g(x)"
    assert [cell_syntax.definitions(source) for _ in range(9)] == [["f"]] * 9 and len(parsed) == 1
    mentioned = cell_syntax._mentioned
    uses = cell_syntax.Uses([source, "def g(x):\n    return h(x)"])
    monkeypatch.setattr(cell_syntax, "_mentioned", lambda node: walked.append(node) or mentioned(node))
    assert [uses.uses("f", other) for other in ("g", "h", "a", "b", "c")] == [True, True, False, False, False]
    assert len(walked) == 2
