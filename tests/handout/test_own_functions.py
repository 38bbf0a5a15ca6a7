"""A later unit takes what a learner wrote in earlier ones: what passes its visible test, and nothing else."""

from __future__ import annotations

import inspect
import json
import random
from pathlib import Path

import nbformat
import pytest
import torch

from attention_figures.helpers import earlier_answers as helper
from attention_figures.helpers.earlier_answers import own_functions

ROOT = Path(__file__).parents[2]
GIVEN = {
    name: (lambda *arguments, name=name: name)
    for name in ("split_heads", "merge_heads", "repeat_kv", "composition_score", "rotate", "rms_norm", "swiglu", "late")
}


def copy(unit: str, folder: Path, answers: dict[str, str], own: str = "") -> Path:
    """A copy of a solved notebook in which some answers are others; own: a cell of the learner's at the top."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers.get(name, cell.source)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(own))
    path = folder / unit / f"{unit}.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return path


def test_each_function_that_passes_its_test_is_taken_and_for_each_other_one_a_line_says_why(tmp_path, capsys):
    unit_4 = {
        "split_heads": "def split_heads(X, n_heads):\n    return torch.stack(cut(X, n_heads), dim=1)",
        "merge_heads": "def merge_heads(X):\n    return X.flatten(2)",
    }
    cut = (
        "%matplotlib inline\nimport torch\n\ndef cut(X, n_heads):\n    if X.shape[-1] % n_heads:\n"
        "        raise ValueError(f'{n_heads} {X.shape[-1]}')\n    return X.chunk(n_heads, dim=-1)\nraise SystemExit"
    )
    copy("04_multi_head", tmp_path, unit_4, cut)
    copy("05_mqa_gqa", tmp_path, {"repeat_kv": "def repeat_kv(K, n_rep):\n    return K.repeat_interleave(n_rep, 1"})
    unit_10 = {
        "rotate": "turn = rotate_by = None\n\n"
        "def rotate(x, positions, base=10000.0):\n    torch.manual_seed(0)\n"
        "    p = torch.arange(x.shape[-1] // 2, dtype=torch.float64)\n"
        "    angles = positions[:, None] * base ** (-2 * p / x.shape[-1])\n"
        "    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)\n    a, b = x.chunk(2, dim=-1)\n"
        "    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)",
        "swiglu": 'def swiglu(x, W_gate, W_up, W_down):\n    """SwiGLU."""\n    raise NotImplementedError("Write …")',
    }
    copy("10_attention_today", tmp_path, unit_10)
    (tmp_path / "08_induction_heads").mkdir()
    cut_short = (ROOT / "solutions/08_induction_heads/08_induction_heads.ipynb").read_bytes()[:5000]
    (tmp_path / "08_induction_heads/08_induction_heads.ipynb").write_bytes(cut_short)
    wanted = {
        "04_multi_head": ["split_heads", "merge_heads"],
        "05_mqa_gqa": ["repeat_kv"],
        "07_transformer_block": ["late"],
        "08_induction_heads": ["composition_score"],
        "10_attention_today": ["rotate", "rms_norm", "swiglu"],
    }
    before = random.getstate(), torch.get_rng_state()
    functions = own_functions(wanted, GIVEN, tmp_path)
    assert before[0] == random.getstate() and torch.equal(before[1], torch.get_rng_state())
    said = capsys.readouterr().out
    lines = {
        "merge_heads": "04_multi_head.ipynb has an answer that fails (AssertionError: ",
        "repeat_kv": "05_mqa_gqa.ipynb has an answer or a test that is not Python: '(' was never closed (cell, line 2).",
        "late": "07_transformer_block.ipynb does not exist.",
        "composition_score": "08_induction_heads.ipynb is not a notebook that can be read.",
        "rotate": "10_attention_today.ipynb has an answer that changes random numbers or settings of PyTorch.",
        "swiglu": "10_attention_today.ipynb has no answer yet.",
    }
    *others, last = said.splitlines()
    assert last == "2 of 8 functions from earlier units are yours: split_heads, rms_norm."
    assert len(others) == len(lines)
    for line, (name, words) in zip(others, lines.items(), strict=True):
        assert line.startswith(f"Not yours but given: {name}, because {tmp_path.as_posix()}/") and words in line
    assert {name for name, function in functions.items() if function is GIVEN[name]} == set(lines)
    x = torch.arange(24.0).view(1, 2, 12)
    assert functions["split_heads"](x, 3).equal(x.unflatten(-1, (3, 4)).transpose(1, 2))
    assert "torch.stack(cut(X, n_heads), dim=1)" in inspect.getsource(functions["split_heads"])
    assert functions["rms_norm"](x, torch.ones(12), eps=1e-5).shape == x.shape


def test_stubs_need_no_process(monkeypatch, capsys):
    monkeypatch.setattr(helper.subprocess, "run", None)
    wanted = {"04_multi_head": ["split_heads", "merge_heads"], "05_mqa_gqa": ["repeat_kv"]}
    assert own_functions(wanted, GIVEN, ROOT / "notebooks") == {name: GIVEN[name] for name in [*GIVEN][:3]}
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("Not yours but given: split_heads, merge_heads, because ") and "has no answer yet" in first
    assert "05_mqa_gqa.ipynb has no answer yet." in second and last == "0 of 3 functions from earlier units are yours."


@pytest.mark.parametrize("text", ["[]", '{"cells": 3}', '{"cells": [{"cell_type": "code"}]}', "\xff", "[" * 99999])
def test_what_is_no_notebook_is_said(text, tmp_path):
    path = tmp_path / "05_mqa_gqa.ipynb"
    path.write_text(text, encoding="latin-1")
    assert helper.own_of_unit(path, ["repeat_kv"]) == ({}, {"repeat_kv": "is not a notebook that can be read"})
    path.unlink()
    path.mkdir()
    assert helper.own_of_unit(path, ["repeat_kv"])[1] == {"repeat_kv": "cannot be read (Is a directory)"}


def cell(source: str, name: str = "") -> dict:
    return {"cell_type": "code", "source": source, "metadata": {"nbgrader": {"grade_id": name}} if name else {}}


def notebook(path: Path, *cells: dict) -> Path:
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return path


def test_cells_that_are_not_python_cost_only_themselves(tmp_path):
    cells = [cell("def twice(a, a):\n    return a"), cell("return 1"), cell("?"), cell("%%time\nscale = 3")]
    cells += [cell("def f():\n    return scale", "f"), cell("assert f() ==", "test_f")]
    cells += [cell("def g():\n    return \0", "g"), cell("assert g()", "test_g"), cell("def h(a, a): pass", "h")]
    path = notebook(tmp_path / "unit.ipynb", *cells, cell("h()", "test_h"), cell("", "k"))
    own, reasons = helper.own_of_unit(path, [*"fghk"])
    assert own == {} and all(reasons[name].startswith("has an answer or a test that is not") for name in "fgh")
    assert reasons["k"] == "lacks the cell of its answer or of its test"
    *_, statements = helper.parts_of(path)
    assert helper.needed(statements, "f") == "scale = 3\ndef f():\n    return scale"


@pytest.mark.nightly
def test_a_function_that_never_ends_or_ends_the_process_costs_its_own_unit_only_what_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(helper, "SECONDS_FOR_TESTS", 20)
    quick, late = cell("def f():\n    return 1", "f"), cell("def g():\n    while True:\n        pass", "g")
    gone = cell("import os\n\ndef h():\n    os._exit(0)", "h")
    tests = [cell(f"assert {name}() == 1", f"test_{name}") for name in "fgh"]
    near = cell("where = open('near.txt').read()\n\ndef n():\n    return where", "n")
    (tmp_path / "near.txt").write_text("near")
    path = notebook(tmp_path / "unit.ipynb", quick, late, gone, near, *tests, cell("assert n()", "test_n"))
    own, reasons = helper.own_of_unit(path, ["n"])
    assert own == {} and reasons["n"].startswith("has an answer that runs there alone ([Errno 2] No such file")
    own, reasons = helper.own_of_unit(path, ["f", "g"])
    assert own["f"]() == 1 and reasons == {"g": "needs more than 20 s for its tests"}
    own, reasons = helper.own_of_unit(path, ["f", "h"])
    assert own["f"]() == 1 and reasons == {"h": "ends the process in which its test runs"}


@pytest.mark.nightly
def test_every_answer_of_the_course_can_be_taken(capsys):
    wanted = {}
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        marks = [cell.metadata.get("nbgrader", {}) for cell in nbformat.read(path, as_version=4).cells]
        wanted[path.stem] = [each.grade_id for each in marks if each.get("solution")]
    own_functions(wanted, {}, ROOT / "solutions")
    (line,) = capsys.readouterr().out.splitlines()
    count = sum(map(len, wanted.values()))
    assert line.startswith(f"{count} of {count} functions")
