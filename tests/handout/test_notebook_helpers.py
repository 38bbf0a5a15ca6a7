"""The notebooks' helpers: one source, whose code stands in every release, and whose names mean one thing."""

from __future__ import annotations

import ast
import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import nbformat
import pytest
import torch

from attention_figures.helpers.compare_tensors import check_form, close
from attention_figures.helpers.forbidden_calls import check_names_of
from attention_figures.helpers.predictions import predict, reveal
from autograder.cli import main
from autograder.exercises import unit_names
from autograder.handout import insert_helpers
from autograder.handout.insert_helpers import put_helpers, with_helpers
from autograder.reading.cell_syntax import bound_names, statements
from autograder.records import BadAssignment

ROOT = Path(__file__).parents[2]
UNIT = "01_projections"
FILES = sorted(path for path in insert_helpers.FOLDER.glob("*.py") if path.stem != "__init__")


def code_cells(folder: str, unit: str) -> list:
    notebook = nbformat.read(ROOT / folder / unit / f"{unit}.ipynb", as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def given_by(path: Path) -> set[str]:
    """What a file of helpers defines, apart from what it imports."""
    own = (node for node in statements(path.read_text(encoding="utf-8")) if "Import" not in type(node).__name__)
    return {name for node in own for name in bound_names(node)}


@pytest.mark.parametrize("unit", unit_names())
def test_no_notebook_gives_the_name_of_a_helper_that_it_has_another_meaning(unit):
    cells = code_cells("solutions", unit)
    files = {file for cell in cells for file, _ in insert_helpers.LINE.findall(cell.source)}
    names = set().union(*(given_by(insert_helpers.FOLDER / f"{file}.py") for file in files))
    assert {"show", "predict", "reveal"} <= names
    for cell in cells:
        own = (node for node in statements(cell.source) if not isinstance(node, ast.ImportFrom))
        taken = names & {name for node in own for name in bound_names(node)}
        assert not taken, f"{unit}, {cell.id}: the release would have two meanings of {taken}; rename this one"


def test_no_two_notebooks_write_out_the_same_function():
    homes: dict[str, set[str]] = {}
    for unit in unit_names():
        for cell in code_cells("solutions", unit):
            if not cell.metadata.get("nbgrader", {}).get("solution"):
                found = (node for node in statements(cell.source) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
                for node in found:
                    homes.setdefault(ast.unparse(node), set()).add(unit)
    twice = {text.partition("\n")[0]: units for text, units in homes.items() if len(units) > 1}
    assert not twice, f"write it once, in attention_figures/helpers/, and import it: {twice}"


@pytest.mark.parametrize("unit", unit_names())
def test_every_unit_names_itself_to_the_judge_and_asks_it(unit):
    cells = {cell.id: cell.source for cell in code_cells("solutions", unit)}
    line = f"ask_judge = partial(ask_judge_about, unit={int(unit[:2])})"
    assert line in cells["imports"].splitlines(), f"{unit}, imports: write {line}"
    by_hand = [name for name, source in cells.items() if "autograder check" in source]
    assert not by_hand, f"{unit}: write `+ ask_judge()` in {by_hand}"
    assert any("ask_judge()" in cell.source for cell in code_cells("solutions", unit) if "nbgrader" in cell.metadata)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_helpers_is_complete_by_itself(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert "\n" not in ast.get_docstring(tree), "it becomes a comment of one line"
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name.startswith(("attention_figures.helpers", "__future__"))]


def test_the_line_that_imports_helpers_gives_way_to_their_code():
    many = "import math\n\nfrom attention_figures.helpers.predictions import (\n    predict,\n    reveal,\n)\n\nX = 1"
    source = with_helpers(many)
    assert source.startswith("import math\n\n# Keeps what you predict") and source.endswith("\n\n\nX = 1")
    space: dict = {}
    exec(source, space)
    assert space["predict"].__doc__ == predict.__doc__ and space["predict"] is not predict
    assert with_helpers("import math\n\nx = 1") == "import math\n\nx = 1"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "from attention_figures.helpers.pictures import show",
            "pictures.py, which is not there; there are check_command, ",
        ),
        (
            "from attention_figures.helpers.show_figure import shows",
            "imports 'shows', which attention_figures/helpers/sho",
        ),
        ("from attention_figures.helpers.show_figure import show as s", "imports 'show as s', which"),
        (
            "import attention_figures.helpers.show_figure",
            "write `from attention_figures.helpers.FILE import NAME` at the",
        ),
        ("from attention_figures import helpers", "write `from attention_figures.helpers.FILE import NAME` at the"),
        ("if True:\n    from attention_figures.helpers.show_figure import show", "at the start of a line"),
    ],
)
def test_an_import_that_a_release_cannot_replace_is_refused_with_its_cell(source, words):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="imports")])
    with pytest.raises(BadAssignment) as met:
        put_helpers(UNIT, notebook)
    line = str(met.value)
    assert line.startswith(f"solutions/{UNIT}/{UNIT}.ipynb: cell 'imports': ") and words in line and "\n" not in line


def test_a_release_whose_helpers_are_not_the_source_is_noticed(monkeypatch, tmp_path, capsys):
    check = ["--course", str(ROOT), "release", UNIT, "--check"]
    assert main(check) == 0
    shutil.copytree(insert_helpers.FOLDER, tmp_path / "helpers")
    path = tmp_path / "helpers" / "predictions.py"
    path.write_text(path.read_text(encoding="utf-8").replace("you predict", "you expect"), encoding="utf-8")
    monkeypatch.setattr(insert_helpers, "FOLDER", tmp_path / "helpers")
    assert main(check) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"notebooks/{UNIT}/{UNIT}.ipynb" in line and "attention_figures/helpers/" in line
    assert line.endswith(f"run `make notebooks ARGS={UNIT}`")


@pytest.mark.parametrize("unit", unit_names())
def test_no_release_needs_the_package(unit):
    source = "\n".join(cell.source for cell in code_cells("notebooks", unit))
    assert "attention_figures.helpers" not in source and "def show(" in source
    lone = re.findall(r"^from attention_figures", source, re.MULTILINE)
    assert not lone, f"{unit}: an import of attention_figures outside of `try`"


def test_a_prediction_is_kept_and_told_beside_what_is_measured(capsys):
    predict("0.1", "a", a="it grows", b="it falls")
    reveal("0.1", "b", "from 2 to 1")
    predict("0.1", "b", a="it grows", b="it falls")
    predict("0.2", ..., a="it grows", b="it falls")
    reveal("0.2", "a")
    predict("0.3", 0.25)
    reveal("0.3", 0.5)
    assert capsys.readouterr().out.splitlines() == [
        "0.1: you predict a, “it grows”.",
        "0.1: measured b, “it falls”, not as you predicted (from 2 to 1).",
        "0.1: measured by now; what you said before stands.",
        '0.2: put "a" or "b" in place of the dots, or go on without.',
        "0.2: measured a, “it grows”.",
        "0.3: you predict 0.25.",
        "0.3: measured 0.5, and you predicted 0.25.",
    ]


HELPER = "def helper(Q):\n    return F.scaled_dot_product_attention(Q, Q, Q)\n"


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("def answer(Q):\n    return F.scaled_dot_product_attention(Q, Q, Q)", {"alone", "helpers"}),
        ("def answer(Q):\n    def inner():\n        return layer_norm(Q)\n    return inner()", {"alone", "helpers"}),
        ("g = F.scaled_dot_product_attention\ndef answer(Q):\n    return g(Q, Q, Q)", {"helpers"}),
        (f"{HELPER}def answer(Q):\n    return helper(Q)", {"helpers"}),
        (f"{HELPER}def answer(Q):\n    return Q.helper()", set()),
        (f"{HELPER}def tested(Q):\n    return helper(Q)\ndef answer(Q):\n    return tested(Q)", set()),
        ("def answer(Q):\n    return Q.softmax(-1)", set()),
    ],
)
def test_a_name_that_does_the_exercise_is_refused_in_an_answer_and_in_what_it_calls(source, refused):
    space: dict = {"__name__": "__main__", "F": torch.nn.functional}
    exec(source, space)
    for kind, elsewhere in (("alone", None), ("helpers", ("tested",))):
        with pytest.raises(AssertionError, match="Not allowed in this answer") if kind in refused else nullcontext():
            check_names_of(space["answer"], "layer_norm", elsewhere=elsewhere)
    space["__name__"] = "elsewhere"
    check_names_of(space["answer"], "layer_norm", elsewhere=())  # it was not written in the notebook


def test_tensors_are_compared_by_shape_and_by_entry():
    one = torch.tensor([1.0, 2.0])
    assert close(one, [1, 2]) and close(one, one + 1e-3, 1e-2)
    assert not close(one, one + 1e-3) and not close(one, [[1, 2]]) and not close(one, [1.0, torch.nan])


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "is None: is there a `return`"),
        ([1.0, 2.0], "should be a tensor and not list"),
        (torch.ones(3), r"should have the shape \(2,\), not \(3,\)"),
        (torch.ones(2), "should have the dtype torch.float64; it is torch.float32"),
        (torch.tensor([1, torch.nan]).double(), "holds NaN"),
    ],
)
def test_the_form_of_a_result_is_told_in_a_sentence(found, words):
    check_form("out", torch.ones(2).double(), (2,))
    with pytest.raises(AssertionError, match=f"out {words}"):
        check_form("out", found, (2,))
