"""Copies are found through other names, comments and orders of lines, and independent work is not taken for a copy."""

from __future__ import annotations

import ast
import inspect
import itertools
import random
import textwrap
from functools import cache

import nbformat
import pytest

import measure_judge
from answers import answers_of
from autograder.cli import main
from autograder.exercises import exercises, unit_names
from autograder.grading.similar_answers import LEAST, PUBLISHED, compare, form_of

PAIRS, COPIES = 2_000, 20


@cache
def right_answers(unit: str) -> dict[str, list[str]]:
    """Exercise -> sources of right answers that people wrote without sight of each other."""
    unseen = {}
    for name, answer in [*measure_judge.answers([unit]), *measure_judge.answers([unit], measure_judge.SECOND)]:
        function, _, kind = name.partition("__")
        unseen.setdefault(function, []).extend([answer] if kind.startswith("right_") else [])
    found = {}
    for name in exercises(unit):
        functions = [*answers_of(name, "right"), *unseen.get(name, ())]
        found[name] = [
            textwrap.dedent(inspect.getsource(each)).replace(f"def {each.__name__}(", f"def {name}(", 1)
            for each in functions
            if inspect.isfunction(each)
        ]
    return {name: sources for name, sources in found.items() if len(sources) > 1}


#: The answers are few and the pairs many, so each form is made once.
known_form = cache(form_of)


def prepared(sources: dict[str, str]) -> dict:
    forms = {name: (source, known_form(source)) for name, source in sources.items()}
    return {name: each for name, each in forms.items() if sum(each[1].values()) >= LEAST}


def test_independent_right_answers_are_not_taken_for_copies():
    rng, accused = random.Random(0), []
    for _ in range(PAIRS):
        unit = rng.choice(unit_names())
        two = {name: rng.sample(sources, 2) for name, sources in right_answers(unit).items()}
        one, other = (prepared({name: pair[side] for name, pair in two.items()}) for side in (0, 1))
        pair = compare(unit, "one", "other", one, other)
        accused += [pair] if pair else []
    assert len(accused) <= PAIRS / 1_000, accused


class Disguise(ast.NodeTransformer):
    """Gives other names, other docstrings, and swaps neighbours where neither needs the other."""

    def __init__(self, tree: ast.Module) -> None:
        stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.names = {name: f"thing_{at}" for at, name in enumerate(sorted(stored))}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg, node.annotation = self.names[node.arg], None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Constant("I wrote this myself.")))
        for at in range(1, len(node.body) - 1):
            one, two = node.body[at : at + 2]
            if isinstance(one, ast.Assign) and isinstance(two, ast.Assign) and not names(one) & names(two):
                node.body[at : at + 2] = [two, one]
        return node


def names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {"np", "torch"}


def disguised(source: str) -> str:
    tree = ast.parse(source)
    return ast.unparse(ast.fix_missing_locations(Disguise(tree).visit(tree)))


def test_copies_in_other_words_are_found():
    rng, found = random.Random(1), 0
    for number in range(COPIES):
        unit = unit_names()[number % len(unit_names())]
        work = {name: rng.choice(sources) for name, sources in right_answers(unit).items()}
        copy = {name: disguised(source) for name, source in work.items()}
        assert copy != work
        found += compare(unit, "one", "other", prepared(work), prepared(copy)) is not None
    assert found >= COPIES - 1


def write_class(root, unit: str, students: dict[str, dict[str, str]]) -> None:
    for student, sources in students.items():
        cells = [
            nbformat.v4.new_code_cell(source, metadata={"nbgrader": {"grade_id": name, "solution": True}})
            for name, source in sources.items()
        ]
        path = root / "grading" / "autograded" / student / unit / f"{unit}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


@pytest.fixture
def course(tmp_path):
    """A class of unit 4: two who worked alone, one who copied from ada, two copies of the published solution."""
    unit, right = "04_multi_head", right_answers("04_multi_head")
    root = tmp_path / "course"
    path = root / "solutions" / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes((measure_judge.ROOT / "solutions" / unit / path.name).read_bytes())
    (root / "nbgrader_config.py").write_text("c = get_config()\n")
    cells = nbformat.read(path, as_version=4).cells
    published = {
        cell.metadata["nbgrader"]["grade_id"]: cell.source
        for cell in cells
        if cell.metadata.get("nbgrader", {}).get("solution") and cell.metadata["nbgrader"]["grade_id"] in right
    }
    alone = [{name: sources[at] for name, sources in right.items()} for at in (0, 1)]
    copy = {name: disguised(source) for name, source in alone[0].items()}
    students = {"ada": alone[0], "ben": alone[1], "cleo": copy, "dan": published, "eve": published}
    write_class(root, unit, {**students, "fay": {**alone[1], "split_heads": "def split_heads(:"}})
    return root


def test_the_command_lists_groups_and_pairs(course, capsys):
    assert main(["--course", str(course), "copies"]) == 0
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if line.startswith("04_multi_head: ")]
    groups = {line.split(": ")[1] for line in lines}
    assert groups == {"ada, cleo", f"dan, eve, {PUBLISHED}", "ben, fay"}
    assert "6 students compared" in out and "before you draw a conclusion" in out
    assert "fay: split_heads of 04_multi_head is no Python that can be compared" in err
    table = (course / "grading" / "report" / "copies.csv").read_text().splitlines()
    assert table[0] == "unit,one,other,same,compared,letter by letter,exercises" and len(table) == 1 + 5


def test_another_class_is_compared_too(course, tmp_path, capsys):
    last = tmp_path / "last"
    write_class(
        last, "04_multi_head", {"old": {name: each[1] for name, each in right_answers("04_multi_head").items()}}
    )
    assert main(["--course", str(course), "copies", "4", "--with", str(last)]) == 0
    assert f"old (in {last})" in capsys.readouterr().out
    assert main(["--course", str(course), "copies", "--with", str(tmp_path)]) == 2
    assert "holds no graded class" in capsys.readouterr().err


def test_a_class_that_is_not_graded_is_one_line(tmp_path, capsys):
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\n")
    assert main(["--course", str(tmp_path), "copies"]) == 2
    assert "nothing has been graded yet" in capsys.readouterr().err


def test_names_comments_and_order_do_not_count_and_numbers_do():
    one = form_of("def f(x):\n    '''Doc.'''\n    a = x + 1  # one\n    b = x * 2\n    return a @ b\n")
    assert one == form_of("def f(y: int) -> int:\n    c = y * 2\n    d = y + 1\n    return d @ c\n")
    assert one != form_of("def f(x):\n    a = x + 1\n    b = x * 3\n    return a @ b\n")
    assert sum((one & form_of("x = np.exp(1)")).values()) == 0
    for source in ("(" * 300, "x = 1\n" * 10_000, "x = " + "+".join("1" * 9_000)):
        with pytest.raises((SyntaxError, ValueError, RecursionError, MemoryError)):
            form_of(source)


def test_every_two_of_a_class_are_compared_once():
    sources = {"f": "def f(a, b):\n" + "".join(f"    a = a * {n} + b\n" for n in range(20)) + "    return a\n"}
    work = prepared(sources)
    pairs = [compare("u", one, other, work, work) for one, other in itertools.combinations("abc", 2)]
    assert [pair.letters for pair in pairs] == [1, 1, 1]
