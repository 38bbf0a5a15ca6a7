"""The sandbox against everything a submission may do: by accident, and on purpose.

Most tests share one sandbox; each has a submission of its own in it. `ask` runs a cell and calls its function `f`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from autograder.dialogue import Answer, Request
from autograder.exercise import Case
from autograder.sandbox import CellSource, Limits, NoSandbox, open_sandbox
from autograder.sandbox import sandbox as room

ROOT = Path(__file__).parents[1]
LIMITS = Limits(
    seconds_per_exercise=2,
    seconds_per_cell=2,
    seconds_per_submission=60,
    memory_bytes=512 * 2**20,
    processes=16,
    scratch_bytes=8 * 2**20,
    file_bytes=8 * 2**20,
)
DOUBLE = "def g(x):\n    return 2 * x\n"
X = np.arange(3.0)

pytestmark = pytest.mark.skipif(room.preflight() is not None, reason=str(room.preflight()))


@pytest.fixture(scope="module")
def sandbox():
    with open_sandbox(LIMITS) as opened:
        yield opened


def answers(sandbox, source: str, *names: str, stand_ins=None) -> list[Answer]:
    with sandbox.session([CellSource("f", "answer", source)]) as session:
        return [session.ask(Request(name, [Case((X,), {})], stand_ins)) for name in names]


def ask(sandbox, source: str) -> Answer:
    return answers(sandbox, source, "f")[0]


def value(sandbox, source: str):
    """What f returned; its exception fails the test."""
    answer = ask(sandbox, source)
    assert answer.status == "answered", answer
    assert answer.calls[0].failure is None, answer.calls[0].failure
    return answer.calls[0].value


def is_well(sandbox) -> bool:
    """Whether an honest neighbour still gets the right result, at once and again."""
    answer = ask(sandbox, DOUBLE.replace("g", "f"))
    call = answer.calls[0]
    same = [np.array_equal(result, 2 * X) for result in (call.value, call.again.value, call.later)]
    return answer.status == "answered" and all(same)


# --- honest answers -------------------------------------------------------------------------------------------------


def test_a_right_answer_arrives_with_all_that_was_seen(sandbox):
    assert is_well(sandbox)


def test_all_cases_are_asked_and_inputs_are_watched(sandbox):
    source = "def f(x, add=0):\n    x += 1\n    return x.sum() + add"
    with sandbox.session([CellSource("f", "answer", source)]) as session:
        answer = session.ask(Request("f", [Case((X,), {}), Case((X,), {"add": 10})]))
    assert [call.value for call in answer.calls] == [6.0, 16.0]
    assert np.array_equal(answer.calls[0].inputs_after[0], X + 1)
    assert np.array_equal(X, np.arange(3.0))


def test_an_exception_comes_with_its_line(sandbox):
    failure = ask(sandbox, "def f(x):\n    y = x\n    return y[7]").calls[0].failure
    assert (failure.type_name, failure.line) == ("IndexError", 3)
    assert "index 7" in failure.message


def test_a_cell_that_fails_is_reported_and_the_others_run(sandbox):
    cells = [CellSource("a", "answer", "x = 1\n1 / 0"), CellSource("b", "answer", "def b(:"), CellSource("c", "extra", DOUBLE)]
    with sandbox.session(cells) as session:
        assert [cell.status for cell in session.cells] == ["failed", "failed", "ran"]
        assert (session.cells[0].failure.type_name, session.cells[0].failure.line) == ("ZeroDivisionError", 2)
        assert (session.cells[1].failure.type_name, session.cells[1].failure.line) == ("SyntaxError", 1)
        assert session.ask(Request("g", [Case((X,), {})])).status == "answered"
        assert session.ask(Request("a", [Case((X,), {})])).status == "missing"


def test_notebook_habits_work(sandbox):
    source = "%matplotlib inline\nfrom matplotlib import pyplot as plt\nplt.plot([1, 2]); plt.show()\ndisplay(1)\n"
    source += "import torch\ndef f(x):\n    print('seen')\n    return float(torch.tensor(3.0))"
    assert value(sandbox, source) == 3.0


def test_system_exit_is_an_exception_like_any_other(sandbox):
    assert ask(sandbox, "import sys\ndef f(x):\n    sys.exit(0)").calls[0].failure.type_name == "SystemExit"
    assert ask(sandbox, "def f(x):\n    return x\nraise KeyboardInterrupt").status == "answered"


def test_stand_ins_take_the_place_of_earlier_answers(sandbox):
    source = "def g(x):\n    return 0\ndef f(x):\n    return g(x) + 1"
    plain, helped = (answers(sandbox, source, "f", stand_ins=s)[0] for s in (None, {"g": lambda x: 10 * x}))
    assert plain.calls[0].value == 1
    assert np.array_equal(helped.calls[0].value, 10 * X + 1)


def test_a_stand_in_is_not_moved_by_absurd_arguments(sandbox):
    source = "def f(x):\n    try:\n        return g(10**9)\n    except ValueError as error:\n        return str(error)"
    assert "too large" in answers(sandbox, source, "f", stand_ins={"g": np.ones})[0].calls[0].value


def test_what_one_exercise_spoils_does_not_reach_the_next(sandbox):
    source = "import numpy as np\ndef f(x):\n    np.multiply = np.add = np.exp = None\n    global g\n    g = None\n"
    source += "    open('left', 'w').close()\n    return 1\n" + DOUBLE
    first, second = answers(sandbox, source, "f", "g")
    assert first.calls[0].value == 1
    assert np.array_equal(second.calls[0].value, 2 * X)


def test_scratch_does_not_outlive_its_submission(sandbox):
    assert value(sandbox, "import os\ndef f(x):\n    open('left', 'w').close()\n    return len(os.listdir('.'))") >= 1
    assert value(sandbox, "import os\ndef f(x):\n    return [n for n in os.listdir('.') if n == 'left']") == []
