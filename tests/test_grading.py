"""One submission from cells to verdicts: what else stands in a notebook, and one function that uses another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from autograder.challenge import Challenge
from autograder.grading import Course, grade_submission
from autograder.judge import Verdict
from autograder.sandbox import Limits, Sandbox, open_sandbox
from autograder.sandbox.sandbox import preflight
from autograder.submission import CodeCell, transplant

ROOT = Path(__file__).resolve().parents[1]
UNIT = "02_scaled_scores"
MARKERS = ("### BEGIN SOLUTION", "### END SOLUTION")
pytestmark = pytest.mark.skipif(preflight() is not None, reason=str(preflight()))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(Limits()) as opened:
        yield opened


@pytest.fixture(scope="module")
def right() -> dict[str, str]:
    """The answers of the solution notebook."""
    notebook = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    marked = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return {
        cell.metadata.nbgrader.grade_id: "\n".join(
            line for line in cell.source.splitlines() if line.strip() not in MARKERS
        )
        for cell in marked
    }


@pytest.fixture(scope="module")
def challenge() -> Challenge:
    return Challenge(7)


@pytest.fixture
def graded(sandbox, challenge, right):
    """Grades the right answers with some of them replaced, and own cells before them or, unmarked, behind."""

    def grade(before: tuple[str, ...] = (), behind: tuple[str, ...] = (), **answers: str) -> dict[str, Verdict]:
        cells = [CodeCell(None, None, source) for source in before]
        cells += [CodeCell(name, None, source) for name, source in {**right, **answers}.items()]
        cells += [CodeCell(None, None, source) for source in behind]
        submission = transplant(cells, Course(ROOT).release(UNIT), UNIT, "a.ipynb")
        return {verdict.function: verdict for verdict in grade_submission(submission, challenge, sandbox)}

    return grade


def test_the_solutions_get_full_marks(graded):
    assert {verdict.verdict for verdict in graded().values()} == {"right"}


def test_a_line_below_the_function_costs_nothing(graded, right):
    verdict = graded(softmax=right["softmax"] + "\n%timeit softmax(z)\nprint(softmax(from_a_test_cell))")["softmax"]
    assert verdict.verdict == "right" and "does not count" in verdict.message, verdict
    verdict = graded(softmax="1 / 0\n" + right["softmax"])["softmax"]
    assert (verdict.verdict, verdict.score) == ("crashed", 0)


def test_empty_lines_above_do_not_shift_what_stands_below(graded, right):
    verdict = graded(softmax="\n\n\n" + right["softmax"] + "\n1 / 0")["softmax"]
    assert verdict.verdict == "right" and "does not count" in verdict.message, verdict


def test_a_function_that_uses_a_wrong_one_is_named_for_its_own_mistake(graded):
    wrong = "def scaled_scores(Q, K):\n    return (Q @ K.T).ravel()"
    own = "def attention(Q, K, V):\n    weights = softmax(scaled_scores(Q, K))\n    return weights, weights @ V"
    verdict = graded(scaled_scores=wrong, attention=own)["attention"]
    assert verdict.mistake == "results-swapped" and "the course's scaled_scores in place" in verdict.message, verdict


def test_only_what_a_function_uses_is_put_in_place(graded, right):
    verdicts = graded(
        softmax="def softmax(z):\n    return z",
        derivation_terms="def derivation_terms(q, K):\n    return q",
    )
    assert verdicts["attention"].verdict == "right" and "the course's softmax in place" in verdicts["attention"].message
    assert "in place" not in verdicts["derivation_terms"].message
    assert "attention_scores" not in verdicts["attention"].message


def test_a_forbidden_call_costs_the_function_that_makes_it(graded):
    verdicts = graded(softmax="import scipy.special\ndef softmax(z):\n    return scipy.special.softmax(z, axis=-1)")
    assert verdicts["softmax"].verdict == "forbidden"
    assert verdicts["attention"].verdict == "right"


def test_what_cannot_be_read_is_refused_with_a_sentence(graded, right):
    deep = right["softmax"] + f"\nx = {'-' * 5000}1"
    verdicts = graded(before=("import sys\nsys.setrecursionlimit(10**6)",), softmax=deep)
    assert verdicts["softmax"].verdict == "forbidden" and "too tangled to be read" in verdicts["softmax"].message
    assert verdicts["attention"].verdict == "right"


def test_a_forbidden_call_cannot_be_hidden_in_another_exercise(graded, right):
    helper = (
        "def dot_product_moments(d, z=None):\n    import scipy.special\n    return scipy.special.softmax(z, axis=-1)"
    )
    verdicts = graded(dot_product_moments=helper, softmax="def softmax(z):\n    return dot_product_moments(0, z)")
    assert verdicts["softmax"].verdict == "forbidden"


def test_the_line_is_that_of_the_cell_it_is_in(graded, right):
    message = graded(softmax="# mine\n\ndef softmax(z):\n    return undefined_thing")["softmax"].message
    assert "(line 4 of the cell)" in message
    helper = "def helper(z):\n    # of no use\n    return undefined_thing"
    message = graded(before=(helper,), softmax="def softmax(z):\n    return helper(z)")["softmax"].message
    assert "(line 3 of the cell extra-1)" in message, message
    verdicts = graded(
        softmax="def softmax(z):\n    if z.ndim == 2:\n        raise IndexError('here')\n    return z",
        attention="def attention(Q, K, V):\n    return softmax(Q @ K.T), undefined_thing",
    )
    assert "name 'undefined_thing' is not defined (line 2 of the cell)" in verdicts["attention"].message


def test_an_answer_in_an_own_cell_counts_where_the_stub_was_left(graded, right, sandbox, challenge):
    release = Course(ROOT).release(UNIT)
    stubs = {cell.metadata.nbgrader.grade_id: cell.source for cell in release.cells if "nbgrader" in cell.metadata}
    assert graded(softmax=stubs["softmax"], behind=(right["softmax"],))["softmax"].verdict == "right"
    twice = (right["softmax"], right["softmax"] + "\n# again")
    assert graded(softmax=stubs["softmax"], behind=twice)["softmax"].verdict == "missing"


def test_a_name_that_an_own_cell_was_to_define_is_explained(graded):
    verdict = graded(
        before=("import seaborn_is_not_here\ndef root(x):\n    return x ** 0.5",),
        softmax="def softmax(z):\n    return root(z)",
    )["softmax"]
    assert "Your cell that begins `import seaborn_is_not_here` does not run here: ModuleNotFound" in verdict.message
    verdict = graded(softmax="def softmax(z):\n    return math.exp(z)")["softmax"]
    assert "Write `import math` into the cell of softmax." in verdict.message


def test_a_misnamed_function_is_told_its_name(graded, right):
    verdict = graded(softmax=right["softmax"].replace("def softmax", "def soft_max"))["softmax"]
    assert verdict.verdict == "missing" and "Its cell defines soft_max: name it softmax." in verdict.message
