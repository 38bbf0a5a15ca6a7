"""The sandbox against everything a submission may do: by accident, and on purpose.

Most tests share one sandbox; each has a submission of its own in it. `ask` runs a cell and calls its function `f`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.exercises.kit import Case
from autograder.records import Answer, CellSource, NoSandbox
from autograder.running import sandbox as room
from autograder.running import submission_session as session_module
from autograder.running.limits import Limits
from autograder.running.sandbox import open_sandbox
from autograder.running.sandbox_messages import Request

LIMITS = Limits(
    seconds_per_exercise=2,
    seconds_per_cell=2,
    seconds_per_submission=60,
    wall_clock_factor=2,
    memory_bytes=512 * 2**20,
    processes=16,
    scratch_bytes=8 * 2**20,
    file_bytes=8 * 2**20,
)
DOUBLE = "def g(x):\n    return 2 * x\n"
X = np.arange(3.0)

pytestmark = pytest.mark.skipif(room.preflight() is not None, reason=str(room.preflight()))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What waits for a process that will not answer waits less long here."""
    monkeypatch.setattr(session_module, "GRACE_SECONDS", 2.5)


@pytest.fixture(scope="module")
def sandbox():
    with open_sandbox(LIMITS) as opened:
        yield opened


@pytest.fixture(scope="module")
def patient():
    """One in which processor time decides, however busy the machine is."""
    with open_sandbox(replace(LIMITS, wall_clock_factor=40)) as opened:
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


def test_all_cases_are_asked_and_inputs_are_watched(sandbox):
    source = "def f(x, add=0):\n    x += 1\n    return x.sum() + add"
    with sandbox.session([CellSource("f", "answer", source)]) as session:
        answer = session.ask(
            Request("f", [Case("values", "a case", (X,), {}), Case("values", "more", (X,), {"add": 10})])
        )
    assert [call.value for call in answer.calls] == [6.0, 16.0]
    assert np.array_equal(answer.calls[0].inputs_after[0], X + 1)
    assert np.array_equal(X, np.arange(3.0))


def test_system_exit_is_an_exception_like_any_other(sandbox):
    assert ask(sandbox, "import sys\ndef f(x):\n    sys.exit(0)").calls[0].failure.type_name == "SystemExit"
    assert ask(sandbox, "def f(x):\n    return x\nraise KeyboardInterrupt").status == "answered"


@pytest.mark.parametrize("slip", ["random.seed", "np.random.seed", "torch.set_default_dtype", "torch.set_grad_enabled"])
def test_a_setting_that_is_assigned_to_and_not_called_costs_nothing(sandbox, slip):
    source = f"import random\nimport numpy as np\nimport torch\n{slip} = 42\n{DOUBLE}"
    cells = [CellSource("g", "answer", source, tested="g")]
    with sandbox.session(cells) as session:
        answer = session.ask(Request("g", [Case("values", "a case", (X,), {})]))
    assert answer.status == "answered" and np.array_equal(answer.calls[0].value, 2 * X)


def test_a_stand_in_is_not_moved_by_absurd_arguments(sandbox):
    source = "def f(x):\n    try:\n        return g(10**9)\n    except ValueError as error:\n        return str(error)"
    assert "too large" in answers(sandbox, source, "f", stand_ins={"g": np.ones})[0].calls[0].value


def test_a_cell_that_computes_with_several_threads_does_not_stop_the_exercises(sandbox):
    """OpenMP hangs in a child of a process that has used its threads."""
    product = "torch.ones(600, 600) @ torch.ones(600, 600)"
    cell = f"import torch\ntorch.set_num_threads(2)\nsquare = {product}\n"
    function = f"def f(x):\n    assert ({product} == square).all()\n    return x + torch.get_num_threads()\n"
    assert np.array_equal(value(sandbox, cell + function), X + 1)


def test_a_function_that_asks_for_threads_of_its_own_gets_none(sandbox):
    """After a cell that has used them it would hang."""
    product = "torch.ones(600, 600) @ torch.ones(600, 600)"
    function = f"def f(x):\n    torch.set_num_threads(2)\n    return x + torch.linalg.solve(torch.eye(600), {product})[0, 0].item()\n"
    assert np.array_equal(value(sandbox, f"import torch\n{function}f(0)"), X + 600)


def test_a_thread_that_prints_while_exercises_fork_stops_none(sandbox):
    source = """
import signal, sys, threading
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def beat():
    while True:
        print("beat " * 1000)
        sys.stdout.flush()
threading.Thread(target=beat, daemon=True).start()
def f(x):
    print("asked " * 1000)
    return 2 * x
"""
    for answer in answers(sandbox, source, *"ffffff"):
        assert answer.status == "answered" and np.array_equal(answer.calls[0].value, 2 * X)


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_a_default_device_that_is_not_here_costs_nothing(sandbox, device):
    source = (
        f"import torch\ntorch.set_default_device({device!r})\ndef f(x):\n    return x * (2 * torch.ones(3)).numpy()"
    )
    assert np.array_equal(value(sandbox, source), 2 * X)


def test_torch_compile_leaves_a_function_as_it_is_and_imports_no_compiler(sandbox):
    source = """
import sys, torch
before = set(sys.modules)
@torch.compile
def double(x): return 2 * x
@torch.compile(dynamic=True, mode="max-autotune")
def triple(x): return 3 * x
layer = torch.compile(torch.nn.Linear(3, 3, bias=False))
layer.compile()
def f(x):
    made = layer(triple(double(torch.from_numpy(x).float())))
    names = {name for name in set(sys.modules) - before if name.startswith(("torch._dynamo", "torch._inductor"))}
    return made.shape == (3,), isinstance(layer, torch.nn.Linear), sorted(names)
"""
    assert value(sandbox, source) == (True, True, [])


def test_an_answer_is_ended_by_its_own_processor_time_whatever_it_does_with_the_signal(patient):
    source = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\ndef f(x):\n"
    source += "    signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n    while True: pass"
    answer = ask(patient, source)
    assert (answer.status, "processor time" in answer.reason) == ("timeout", True)


def test_a_notebook_as_a_whole_is_ended_by_its_own_processor_time():
    """Processes that it starts count, and so does what it used before it was started again."""
    with open_sandbox(replace(LIMITS, seconds_per_submission=2, wall_clock_factor=40)) as short:
        source = "import os\ndef f(x):\n    for _ in range(2): os.fork()\n    while True: pass\n" + DOUBLE
        first, second = answers(short, source, "f", "g")
        assert (first.status, second.status) == ("timeout", "timeout")
        assert "as a whole" in second.reason
        cells = [CellSource(name, "answer", "while True: pass") for name in "abc"] + [CellSource("g", "answer", DOUBLE)]
        with short.session(cells) as session:
            assert [session.cells[0].status, session.cells[-1].status] == ["timeout", "skipped"]


def test_other_texts_of_an_answer_are_tried_in_the_first_half_of_a_notebooks_time():
    """What is tried for the sake of a message leaves the exercises that are still to come the time for their marks."""
    busy = "import time\ndef f(x):\n    while time.process_time() < 2: pass\n    return x\n" + DOUBLE
    case = Case("values", "a case", (X,), {})
    limits = replace(LIMITS, seconds_per_submission=3, seconds_per_exercise=3, wall_clock_factor=40)
    with open_sandbox(limits) as short, short.session([CellSource("f", "answer", busy)]) as session:
        asked = [Request("g", [case], sources=[DOUBLE]), Request("f", [case])]
        asked += [Request("g", [case], sources=[DOUBLE]), Request("g", [case])]
        assert [session.ask(each).status for each in asked] == ["answered", "answered", "timeout", "answered"]


def test_scratch_does_not_outlive_its_submission(sandbox):
    assert value(sandbox, "import os\ndef f(x):\n    open('left', 'w').close()\n    return len(os.listdir('.'))") >= 1
    assert value(sandbox, "import os\ndef f(x):\n    return [n for n in os.listdir('.') if n == 'left']") == []


# --- loops, crashes, floods -----------------------------------------------------------------------------------------


@pytest.fixture
def busy():
    """A machine with other work for each of its processors."""
    line = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(line) for _ in range(os.cpu_count() or 1)]
    yield
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.nightly
@pytest.mark.parametrize("unsafe", [False, True], ids=["sandbox", "plain"])
def test_how_busy_the_machine_is_costs_nobody_an_answer(unsafe, busy):
    """What counts is the processor time of an answer, which is that of its cells and of each exercise."""
    work = "    began = time.process_time()\n    while time.process_time() < began + 0.3: pass\n    return 2 * x\n"
    source = "import time\n" + "".join(f"def {name}(x):\n{work}" for name in "fg") + "for _ in range(4): f(1)"
    with open_sandbox(replace(LIMITS, wall_clock_factor=40), unsafe=unsafe) as patient:
        for answer in answers(patient, source, "f", "g"):
            assert answer.status == "answered", answer
            assert np.array_equal(answer.calls[0].later, 2 * X)


PRINTS = "def f(x):\n    for _ in range({}): print('x' * {})\n    return 2 * x"


@pytest.mark.parametrize(("times", "letters"), [(2_000, 100_000), (1_000_000, 200)])
def test_two_hundred_megabytes_of_prints_are_heard_out(times, letters, busy):
    with open_sandbox(replace(LIMITS, seconds_per_exercise=20, wall_clock_factor=40)) as patient:
        answer = ask(patient, PRINTS.format(times, letters))
    assert answer.status == "answered", answer
    assert np.array_equal(answer.calls[0].later, 2 * X)


def test_where_prints_go_there_is_a_text_file_all_the_same(sandbox):
    source = """
import sys
def f(x):
    told = [sys.stdout.write("\\ud800 ☃"), sys.stdout.buffer.write(b"abc"), sys.stdout.fileno(), sys.stdout.isatty()]
    sys.stdout.reconfigure(line_buffering=True); sys.stdout.flush(); sys.stdout.writelines(["a"])
    try: print(1, file=sys.stdout, flush=True), sys.stdout.write(7)
    except TypeError as error: told.append(str(error))
    return told
"""
    assert value(sandbox, source) == [3, 3, 1, False, "write() argument must be str, not int"]


def test_a_cell_that_keeps_all_memory_costs_itself_alone(sandbox):
    source = "kept = []\nwhile True: kept.append(bytearray(2**18))"
    with sandbox.session([CellSource("a", "extra", source), CellSource("g", "answer", DOUBLE)]) as session:
        assert [cell.status for cell in session.cells] == ["died", "ran"]
        answer = session.ask(Request("g", [Case("values", "a case", (X,), {})]))
    assert answer.status == "answered" and np.array_equal(answer.calls[0].value, 2 * X)


def test_a_notebook_that_always_dies_comes_to_an_end(sandbox):
    cells = [CellSource(f"extra-{number}", "extra", "import os; os._exit(0)") for number in range(12)]
    with sandbox.session([*cells, CellSource("g", "answer", DOUBLE)]) as session:
        assert len(session.cells) == 13
        answer = session.ask(Request("g", [Case("values", "a case", (X,), {})]))
    assert answer.status == "crashed"
    assert "ends its own process" in answer.reason
    assert is_well(sandbox)


# --- attacks --------------------------------------------------------------------------------------------------------


def test_many_arrays_out_of_few_bytes_are_refused():
    from autograder.worker.encode_values import BadValue, decode

    node = {"t": "array", "lib": "numpy", "dtype": "<f8", "shape": [1000], "layout": "C", "at": 0}
    assert decode(node, bytes(8000)).shape == (1000,)
    with pytest.raises(BadValue):
        decode({"t": "tuple", "items": [node, node]}, bytes(8000))
    lying = {**node, "items": []}  # says that it holds others, and is an array all the same
    with pytest.raises(BadValue):
        decode({"t": "list", "items": [lying] * 300}, bytes(8000))
    deep = {"t": "list", "items": [node, node]}
    for _ in range(20):  # as deep as a value may be
        deep = {"t": "list", "items": [deep]}
    with pytest.raises(BadValue):
        decode(deep, bytes(8000))


def test_all_that_one_frame_holds_shares_its_bytes():
    from autograder.running.sandbox_messages import Transcript
    from autograder.worker.encode_values import BadValue

    node = {"t": "array", "lib": "numpy", "dtype": "<f8", "shape": [1000], "layout": "C", "at": 0}
    frame = {"event": "call", "index": 0, "outcome": "returned", "value": node}
    assert not Transcript(1).take(frame, bytes(8000))
    for more in ({"inputs_after": [node]}, {"made": [node]}):
        with pytest.raises(BadValue):
            Transcript(1).take({**frame, **more}, bytes(8000))


def test_scratch_is_bounded(sandbox):
    source = """
def f(x):
    total = 0
    for n in range(100):
        try:
            with open(f"/scratch/{n}", "wb", buffering=0) as file:
                for _ in range(64): total += file.write(bytes(2**20))
        except OSError: pass
    return total
"""
    assert value(sandbox, source) <= LIMITS.scratch_bytes
    many = "def f(x):\n    try:\n        for n in range(10**5): open(f'/scratch/{n}', 'w').close()\n"
    assert value(sandbox, f"{many}    except OSError: return n") < 10_000
    assert is_well(sandbox)


def test_the_process_holds_nothing_of_the_judge(sandbox):
    source = """
import gc, os, sys
OBJECTS = {type(o).__name__ for o in gc.get_objects()}  # an answer that walks them is refused
def kinds(kind=object):
    found = {kind.__name__}
    for narrower in type.__subclasses__(kind):
        if narrower is not type:
            found |= kinds(narrower)
    return found
def f(x):
    modules = [n for n in sys.modules if n.startswith("autograder") or n.rsplit(".")[-1] in ("judge", "exercise", "challenge")]
    types = OBJECTS | kinds()
    return modules, sorted(types & {"Case", "Exercise", "Posed", "Mistake"}), sorted(os.environ)
"""
    modules, types, variables = value(sandbox, source)
    assert (modules, types) == ([], [])
    assert set(variables) <= {*room.bubblewrap.ENVIRONMENT, "PWD", "LC_CTYPE"}


def _command_lines() -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def gone(word: str) -> bool:
    """Whether no process has `word` in its command line, now or soon."""
    for _ in range(100):
        if not [line for line in _command_lines() if word in line]:
            return True
        time.sleep(0.1)
    return False


def daemon(word: str) -> str:
    return f"""
import os, sys
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(999)", "{word}"])
        os._exit(0)
    import time
    time.sleep(0.3)
    return 1
"""


def test_a_daemon_is_gone_with_its_submission(sandbox):
    word = f"daemon-{os.getpid()}"
    with sandbox.session([CellSource("f", "answer", daemon(word) + "f(None)")]) as session:
        assert session.cells[0].status == "ran"
        assert [line for line in _command_lines() if word in line], (
            "the daemon never ran: this test would prove nothing"
        )
    assert gone(word)


# --- where there is no sandbox, and plain processes -------------------------------------------------------------------


def test_without_bubblewrap_it_refuses(monkeypatch):
    room.preflight.cache_clear()
    monkeypatch.setattr(room.bubblewrap, "program", lambda: None)
    with pytest.raises(NoSandbox, match="bubblewrap is not installed; run"), open_sandbox():
        pass
    monkeypatch.undo()
    room.preflight.cache_clear()


def test_a_machine_that_is_too_busy_is_called_so(monkeypatch):
    monkeypatch.setattr(room, "START_SECONDS", 0.001)
    with pytest.raises(NoSandbox, match="too busy; run it again later"), open_sandbox(LIMITS):
        pass


def test_bubblewrap_that_does_not_start_is_a_line_with_a_remedy(monkeypatch, tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(room.bubblewrap, "program", lambda: str(broken))
    with pytest.raises(NoSandbox, match="allow unprivileged user namespaces") as caught, open_sandbox():
        pass
    assert "\n" not in str(caught.value)


def test_a_kernel_that_refuses_namespaces_is_found_at_the_start(monkeypatch):
    monkeypatch.setattr(room.bubblewrap, "CAPABILITIES", ("CAP_KILL",))
    if room.sandbox_mode() != "root":
        pytest.skip("as an ordinary user there are no capabilities to take away")
    with pytest.raises(NoSandbox), open_sandbox(LIMITS):
        pass
