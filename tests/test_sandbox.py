"""The sandbox against everything a submission may do: by accident, and on purpose.

Most tests share one sandbox; each has a submission of its own in it. `ask` runs a cell and calls its function `f`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autograder.dialogue import Answer, Request
from autograder.exercise import Case
from autograder.sandbox import CellSource, Limits, open_sandbox
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
        return [session.ask(Request(name, [Case("values", "a case", (X,), {})], stand_ins)) for name in names]


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
        answer = session.ask(
            Request("f", [Case("values", "a case", (X,), {}), Case("values", "more", (X,), {"add": 10})])
        )
    assert [call.value for call in answer.calls] == [6.0, 16.0]
    assert np.array_equal(answer.calls[0].inputs_after[0], X + 1)
    assert np.array_equal(X, np.arange(3.0))


def test_an_exception_comes_with_its_line(sandbox):
    failure = ask(sandbox, "def f(x):\n    y = x\n    return y[7]").calls[0].failure
    assert (failure.type_name, failure.line) == ("IndexError", 3)
    assert "index 7" in failure.message


def test_a_cell_that_fails_is_reported_and_the_others_run(sandbox):
    cells = [
        CellSource("a", "answer", "x = 1\n1 / 0"),
        CellSource("b", "answer", "def b(:"),
        CellSource("c", "extra", DOUBLE),
    ]
    with sandbox.session(cells) as session:
        assert [cell.status for cell in session.cells] == ["failed", "failed", "ran"]
        assert (session.cells[0].failure.type_name, session.cells[0].failure.line) == ("ZeroDivisionError", 2)
        assert (session.cells[1].failure.type_name, session.cells[1].failure.line) == ("SyntaxError", 1)
        assert session.ask(Request("g", [Case("values", "a case", (X,), {})])).status == "answered"
        assert session.ask(Request("a", [Case("values", "a case", (X,), {})])).status == "missing"


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


# --- loops, crashes, floods -----------------------------------------------------------------------------------------

LOOPS = {
    "a loop": "def f(x):\n    while True: pass",
    "a loop that swallows everything": "def f(x):\n    while True:\n        try:\n            while True: pass\n"
    "        except BaseException: pass",
    "sleep": "import time\ndef f(x):\n    time.sleep(1000)",
    "a loop in the library": "def f(x):\n    return sum(range(10**15))",
    "signals ignored": "import signal\ndef f(x):\n    for n in range(1, 65):\n        try: signal.signal(n, signal.SIG_IGN)\n"
    "        except (OSError, ValueError): pass\n    while True: pass",
    "a child that is waited for": "import os, time\ndef f(x):\n    if os.fork() == 0: time.sleep(1000)\n    os.wait()",
}


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS)
def test_a_function_without_end_costs_itself_alone(sandbox, source):
    first, second = answers(sandbox, f"{source}\n{DOUBLE}", "f", "g")
    assert first.status == "timeout"
    assert "2 seconds" in first.reason
    assert np.array_equal(second.calls[0].value, 2 * X)


@pytest.mark.parametrize(
    "source",
    ["while True: pass", "while True:\n    try:\n        while True: pass\n    except BaseException: pass"],
    ids=["a loop", "a loop that swallows everything"],
)
def test_a_cell_without_end_costs_itself_alone(sandbox, source):
    with sandbox.session([CellSource("a", "answer", source), CellSource("g", "answer", DOUBLE)]) as session:
        assert session.cells[0].status in ("timeout", "died")
        assert session.cells[1].status == "ran"
        assert session.ask(Request("g", [Case("values", "a case", (X,), {})])).status == "answered"


DEATHS = {
    "exit": "import os\ndef f(x):\n    os._exit(0)",
    "segfault": "import ctypes\ndef f(x):\n    ctypes.string_at(0)",
    "abort": "import os\ndef f(x):\n    os.abort()",
    "killed": "import os\ndef f(x):\n    os.kill(os.getpid(), 9)",
    "the parent killed": "import os\ndef f(x):\n    os.kill(os.getppid(), 9)",
    "all killed": "import os\ndef f(x):\n    os.kill(-1, 9)",
    "recursion in C": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x):\n    return f(x)",
}


@pytest.mark.parametrize("source", DEATHS.values(), ids=DEATHS)
def test_a_function_that_ends_its_process_costs_itself_alone(sandbox, source):
    first, second = answers(sandbox, f"{source}\n{DOUBLE}", "f", "g")
    assert first.status == "crashed" or first.calls[0].failure is not None
    assert first.status == "answered" or first.reason
    assert np.array_equal(second.calls[0].value, 2 * X)
    assert is_well(sandbox)


@pytest.mark.parametrize("source", ["import os; os._exit(0)", "import ctypes; ctypes.string_at(0)", "exit()", "quit()"])
def test_a_cell_that_ends_the_process_costs_itself_alone(sandbox, source):
    cells = [CellSource("a", "answer", source), CellSource("g", "answer", DOUBLE)]
    with sandbox.session(cells) as session:
        assert session.cells[0].status in ("died", "failed", "ran")
        assert session.cells[1].status == "ran"
        assert session.ask(Request("g", [Case("values", "a case", (X,), {})])).status == "answered"


def test_a_notebook_that_always_dies_comes_to_an_end(sandbox):
    cells = [CellSource(f"extra-{number}", "extra", "import os; os._exit(0)") for number in range(6)]
    with sandbox.session([*cells, CellSource("g", "answer", DOUBLE)]) as session:
        assert len(session.cells) == 7
        answer = session.ask(Request("g", [Case("values", "a case", (X,), {})]))
    assert answer.status == "crashed"
    assert "ends its own process" in answer.reason
    assert is_well(sandbox)


BOMBS = {
    "memory at once": "import numpy as np\ndef f(x):\n    return np.ones(2**34)",
    "memory by and by": "def f(x):\n    kept = []\n    while True: kept.append(bytearray(2**22))",
    "processes": "import os\ndef f(x):\n    while True:\n        try: os.fork()\n        except OSError: pass",
    "threads": "import threading, time\ndef f(x):\n    while True:\n"
    "        threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
    "printing": "def f(x):\n    for _ in range(2000): print('x' * 10**6)\n    return x",
    "a huge result": "import numpy as np\ndef f(x):\n    return np.zeros(2**25)",
    "a huge list": "def f(x):\n    return [[0] * 9999] * 9999",
    "a huge message": "def f(x):\n    raise ValueError('x' * 2**27)",
    "a deep result": "def f(x):\n    r = []\n    for _ in range(10**5): r = [r]\n    return r",
    "a result that hides": "class A(list):\n    def __len__(self): raise OSError\ndef f(x):\n    return A()",
    "asking without end": "def f(x):\n    while True: g(x)",
}


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS)
def test_excess_hurts_nobody_else(sandbox, source):
    stand_ins = {"g": lambda x: x} if "asking" in source or "g(x)" in source else None
    first = answers(sandbox, source, "f", stand_ins=stand_ins)[0]
    assert first.status in ("answered", "crashed", "timeout")
    assert is_well(sandbox)
