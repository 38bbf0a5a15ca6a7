"""One submission from cells to verdicts: what else stands in a notebook, and one function that uses another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from asked import assignment
from autograder.grading.one_submission import grade_submission
from autograder.judging.hidden_cases import Challenge
from autograder.reading.course_contents import Course
from autograder.reading.insert_answers import transplant
from autograder.reading.read_submission import Cell
from autograder.records import Verdict
from autograder.running.limits import Limits
from autograder.running.sandbox import Sandbox, open_sandbox, preflight

ROOT = Path(__file__).resolve().parents[2]
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

    def grade(
        before: tuple[str, ...] = (), tests: tuple[str, ...] = (), behind: tuple[str, ...] = (), **answers: str
    ) -> dict[str, Verdict]:
        cells = [Cell(None, None, source) for source in before]
        cells += [Cell(name, None, source) for name, source in {**right, **answers}.items()]
        cells += [Cell(f"test_{name}", None, "") for name in tests]
        cells += [Cell(None, None, source) for source in behind]
        submission = transplant(cells, Course(ROOT).release(UNIT), UNIT, "a.ipynb")
        return {
            verdict.function: verdict for verdict in grade_submission(submission, assignment(UNIT), challenge, sandbox)
        }

    return grade


def test_the_solutions_get_full_marks(graded):
    assert {verdict.verdict for verdict in graded().values()} == {"right"}


def test_what_stands_between_an_answer_and_its_test_counts(sandbox, challenge, right):
    cells = [Cell(name, None, source) for name, source in right.items()]
    at = list(right).index("softmax")
    cells[at : at + 1] = [
        Cell("softmax", None, "def softmax(z, axis=-1):\n    return 'a draft'"),
        Cell(None, None, right["softmax"]),
    ]
    submission = transplant(cells, Course(ROOT).release(UNIT), UNIT, "a.ipynb")
    assert {verdict.verdict for verdict in grade_submission(submission, assignment(UNIT), challenge, sandbox)} == {
        "right"
    }


def test_a_line_below_the_function_costs_nothing(graded, right):
    verdict = graded(softmax=right["softmax"] + "\n%timeit softmax(z)\nprint(softmax(from_a_test_cell))")["softmax"]
    assert verdict.verdict == "right" and "does not count" in verdict.message, verdict
    verdict = graded(softmax="@not_there\n" + right["softmax"])["softmax"]
    assert (verdict.verdict, verdict.score) == ("crashed", 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "import a_library_of_my_own",
            "ModuleNotFoundError: No module named 'a_library_of_my_own' (line 1 of the cell)",
        ),
        ("from numpy import sofmax", "cannot import name 'sofmax'"),
        ("%load_ext an_extension_of_my_own", ""),
        ("!pip install einops", ""),
        ("name = input('Who are you? ')", ""),
        ("print(softmax(a_name_of_a_test_cell))", "NameError: name 'softmax' is not defined"),
        ("plt.savefig('/home/me/figure.png')", ""),
    ],
)
def test_what_fails_here_alone_does_not_stop_the_rest_of_its_cell(graded, right, line, reason):
    verdicts = graded(
        before=(f"{line}\ndef helper(x):\n    return x",),
        softmax=f"{line}\n{right['softmax']}",
        attention_scores="def attention_scores(Q, K):\n    return helper(Q @ K.T)",
    )
    assert {verdict.verdict for verdict in verdicts.values()} == {"right"}
    message = verdicts["softmax"].message
    assert "It does not count." in message and reason in message, message


INTEGERS = "torch.softmax(torch.arange(3), dim=0)"
ABSTRACT = "import io\nclass Base:\n    def step(self, z):\n        raise NotImplementedError('a subclass has it')"


def test_a_not_implemented_error_of_another_cell_is_no_stub(graded):
    verdict = graded(before=(ABSTRACT,), softmax="def softmax(z):\n    return Base().step(z)")["softmax"]
    words = "NotImplementedError: a subclass has it (line 4 of the cell extra-1)"
    assert verdict.verdict == "crashed" and words in verdict.message, verdict
    assert "not written" not in verdict.message


@pytest.mark.nightly
def test_a_librarys_not_implemented_error_in_the_cell_itself_is_told(graded, right):
    verdicts = graded(
        softmax=f"import torch\nweights = {INTEGERS}\n" + right["softmax"],
        attention_scores=f"import torch\nattention_scores = {INTEGERS}",
    )
    assert (
        verdicts["softmax"].verdict == "right" and "its cell raises NotImplementedError" in verdicts["softmax"].message
    )
    told = verdicts["attention_scores"]
    assert told.verdict == "crashed" and "not implemented for 'Long'" in told.message


@pytest.mark.parametrize("line", ["raise NotImplementedError", "raise NotImplementedError('later') from None"])
def test_an_own_not_implemented_error_is_missing_where_it_stands_and_nowhere_else(graded, line):
    verdicts = graded(
        softmax=f"def softmax(z, axis=-1):\n    {line}",
        dot_product_moments="def dot_product_moments(*a, **k):\n    return softmax(a[0])",
    )
    assert verdicts["softmax"].verdict == "missing"
    used = verdicts["dot_product_moments"]
    assert used.verdict != "missing" and "not written" not in used.message


def test_what_stands_below_a_line_that_the_student_raises_stays_off(graded):
    verdict = graded(softmax="raise RuntimeError('later')\ndef softmax(z):\n    return z")["softmax"]
    assert verdict.verdict == "crashed" and "RuntimeError: later" in verdict.message


def test_a_cell_that_takes_too_long_still_defines_its_functions(challenge, right):
    course = "import time\ntime.sleep(60)\ndef helper(x):\n    return x"
    answers = {**right, "softmax": right["softmax"] + "\nimport time\ntime.sleep(60)"}
    answers["attention_scores"] = "def attention_scores(Q, K):\n    return helper(Q @ K.T)"
    cells = [Cell(None, None, course), *(Cell(name, None, source) for name, source in answers.items())]
    submission = transplant(cells, Course(ROOT).release(UNIT), UNIT, "a.ipynb")
    with open_sandbox(Limits(seconds_per_cell=1)) as impatient:
        verdicts = {
            verdict.function: verdict
            for verdict in grade_submission(submission, assignment(UNIT), challenge, impatient)
        }
    assert {verdict.verdict for verdict in verdicts.values()} == {"right"}
    assert "takes too long here. It does not count." in verdicts["softmax"].message


def test_a_syntax_that_is_not_known_here_is_told_the_version(graded):
    verdict = graded(softmax="def softmax(z):\n    return ?z")["softmax"]
    assert f"This is Python 3.{sys.version_info.minor}." in verdict.message


def test_a_cell_may_do_what_a_notebook_allows(graded, right):
    """Awaiting at the top, annotations that are never looked at, reading one's own source."""
    reads = "import inspect\nassert 'attention_scores' in inspect.getsource(attention_scores)"
    written = "%%writefile kept.py\ndef helper(x):\n    return x"
    verdicts = graded(
        before=("from __future__ import annotations", written),
        attention_scores=f"def attention_scores(Q: Matrix, K: Matrix) -> Matrix:\n    return Q @ K.T\n{reads}",
        softmax=right["softmax"] + "\nimport asyncio\nawait asyncio.sleep(0)",
        softmax_jacobian="from kept import helper\ndef softmax_jacobian(p):\n    return helper(np.diag(p) - np.outer(p, p))",
    )
    assert {verdict.verdict for verdict in verdicts.values()} == {"right"}
    assert not any("does not count" in verdict.message for verdict in verdicts.values())


def test_a_name_that_a_later_cell_uses_again_is_not_lost(graded, right):
    """The tests that the student saw ran before."""
    last = "softmax = softmax(np.ones(3))\nhelper = math = None\ndef attention(Q, K, V):\n    return 'an experiment'"
    verdicts = graded(
        before=("import math\ndef helper(x):\n    return x / math.sqrt(x.shape[-1])",),
        scaled_scores="def scaled_scores(Q, K):\n    return helper(Q) @ K.T",
        tests=("attention_backward",),
        behind=(last,),
    )
    assert {verdict.verdict for verdict in verdicts.values()} == {"right"}


def test_empty_lines_above_do_not_shift_what_stands_below(graded, right):
    verdict = graded(softmax="\n\n\n" + right["softmax"] + "\n1 / 0")["softmax"]
    assert verdict.verdict == "right" and "does not count" in verdict.message, verdict


def test_a_function_that_uses_a_wrong_one_is_named_for_its_own_mistake(graded):
    wrong = "def scaled_scores(Q, K):\n    return (Q @ K.T).ravel()"
    own = "def attention(Q, K, V):\n    weights = softmax(scaled_scores(Q, K))\n    return weights, weights @ V"
    verdict = graded(scaled_scores=wrong, attention=own)["attention"]
    assert verdict.mistake == "results-swapped" and "the course's scaled_scores instead of yours" in verdict.message, (
        verdict
    )


def test_only_what_a_function_uses_is_put_in_place(graded, right):
    verdicts = graded(
        softmax="def softmax(z):\n    return z",
        derivation_terms="def derivation_terms(q, K):\n    return q",
    )
    assert verdicts["attention"].verdict == "right" and "the course's softmax instead" in verdicts["attention"].message
    assert "the course's" not in verdicts["derivation_terms"].message
    assert "attention_scores" not in verdicts["attention"].message


def test_a_forbidden_call_costs_the_function_that_makes_it(graded):
    verdicts = graded(softmax="import scipy.special\ndef softmax(z):\n    return scipy.special.softmax(z, axis=-1)")
    assert verdicts["softmax"].verdict == "forbidden"
    assert verdicts["attention"].verdict == "right"


def test_what_cannot_be_read_is_run_all_the_same(graded, right):
    deep = right["softmax"] + f"\nx = {'-' * 5000}1"
    verdicts = graded(before=("import sys\nsys.setrecursionlimit(10**6)",), softmax=deep)
    assert verdicts["softmax"].verdict == verdicts["attention"].verdict == "right"


def test_only_what_was_called_is_said_to_stand_in(graded, right):
    mentions = right["attention"] + "\nsoftmaxes = [softmax]\ndef unused(x):\n    return softmax(x)"
    own = "def attention(Q, K, V):\n    softmax\n    return Q @ K.T, V"
    verdicts = graded(softmax="def softmax(z):\n    return z", attention=own)
    assert "the course's" not in verdicts["attention"].message and verdicts["attention"].verdict == "wrong"
    verdicts = graded(softmax="def softmax(z):\n    return z", attention=mentions)
    assert "the course's softmax instead" in verdicts["attention"].message


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
        before=("from seaborn_is_not_here import root",),
        softmax="def softmax(z):\n    return root(z)",
    )["softmax"]
    assert (
        "Your cell that begins `from seaborn_is_not_here import root` does not run here: ModuleNotFound"
        in verdict.message
    )
    verdict = graded(softmax="def softmax(z):\n    return math.exp(z)")["softmax"]
    assert "Write `import math` into the cell of softmax." in verdict.message


def test_a_cell_that_is_gone_is_not_called_untouched(sandbox, challenge, right):
    cells = [Cell(name, None, source) for name, source in right.items() if name != "softmax"]
    submission = transplant(cells, Course(ROOT).release(UNIT), UNIT, "a.ipynb")
    found = {
        verdict.function: verdict for verdict in grade_submission(submission, assignment(UNIT), challenge, sandbox)
    }
    words = "The answer cell of softmax is missing from the notebook. Define softmax in one cell of your own."
    assert found["softmax"].verdict == "missing" and found["softmax"].message == words


def test_a_misnamed_function_is_told_its_name(graded, right):
    verdict = graded(softmax=right["softmax"].replace("def softmax", "def soft_max"))["softmax"]
    assert verdict.verdict == "missing" and "Its cell defines soft_max: name it softmax." in verdict.message
