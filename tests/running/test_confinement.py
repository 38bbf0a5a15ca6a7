"""Attacks on the walls of the sandbox: rights, files, neighbours, frames. Skipped where no sandbox can be had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autograder.exercises import unit_names
from autograder.exercises.kit import Case, HostFunction
from autograder.records import Answer, CellSource, NoSandbox
from autograder.running import bubblewrap
from autograder.running import submission_session as session_module
from autograder.running.limits import Limits
from autograder.running.sandbox import Sandbox, open_sandbox, preflight
from autograder.running.sandbox_messages import Request
from autograder.worker import seccomp

PROJECT = Path(__file__).resolve().parents[2]
LIMITS = Limits(
    seconds_per_exercise=2.0,
    seconds_per_cell=1.0,
    seconds_per_submission=60.0,
    wall_clock_factor=2.0,
    memory_bytes=256 * 2**20,
    processes=12,
    scratch_bytes=4 * 2**20,
    file_bytes=3 * 2**20,
    reply_bytes=8 * 2**20,
)
TWICE = "def twice(x):\n    return 2 * x\n"
#: Writes a frame to a descriptor; finds the sockets that a process holds.
FORGE = """
import json, os, struct
def frame(fd, header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    os.write(fd, struct.pack("<IQ", len(text), 0) + text)
def sockets():
    links = {int(n): f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")}
    return [n for n, path in sorted(links.items()) if os.path.exists(path) and "socket" in os.readlink(path)]
"""

#: Ignores all signals.
DEAF = """
import signal
for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a process that will not answer waits less long here."""
    monkeypatch.setattr(session_module, "GRACE_SECONDS", 2.5)


@pytest.fixture(scope="module", params=["sandbox", "plain"])
def either(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The sandbox, and the plain process for one's own work: what both must do."""
    try:
        with open_sandbox(LIMITS, unsafe=request.param == "plain") as opened:
            yield opened
    except NoSandbox as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    try:
        with open_sandbox(LIMITS) as opened:
            yield opened
    except NoSandbox as error:
        pytest.skip(str(error))


def request_of(function: str, *args: object, **stand_ins: object) -> Request:
    return Request(function, [Case("values", "a call", args or (np.arange(3.0),))], stand_ins)


def run(sandbox: Sandbox, source: str, function: str = "f", *args: object) -> tuple[Answer, Answer]:
    """The answer of `function` from a cell, and that of an honest function of another cell asked after it."""
    cells = [
        CellSource("imports", "given", "import os, sys, time\nimport numpy as np\n" + FORGE),
        CellSource("f", "answer", textwrap.dedent(source)),
        CellSource("twice", "answer", TWICE),
    ]
    with sandbox.session(cells) as session:
        return session.ask(request_of(function, *args)), session.ask(request_of("twice"))


def value(sandbox: Sandbox, body: str) -> object:
    """What a function with this body returns; the honest function after it must still answer."""
    answer, after = run(sandbox, "def f(x):\n" + textwrap.indent(textwrap.dedent(body), "    "))
    assert answer.status == "answered", answer.reason
    assert np.array_equal(after.calls[0].value, [0.0, 2.0, 4.0])
    assert answer.calls[0].failure is None, answer.calls[0].failure
    return answer.calls[0].value


def test_a_normal_session(either: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        either, "limits", replace(LIMITS, seconds_per_cell=30.0)
    )  # a new machine reads matplotlib first
    cells = [
        CellSource("given", "given", "%matplotlib inline\nimport numpy as np\nimport matplotlib.pyplot as plt"),
        CellSource("twice", "answer", TWICE + "display(twice(2))\ntwice(3)"),
        CellSource("thrice", "answer", "def thrice(x):\n    return twice(x) + x"),
        CellSource("extra", "extra", "undefined_name"),
    ]
    with either.session(cells) as session:
        assert [cell.status for cell in session.cells] == ["ran", "ran", "ran", "failed"]
        assert session.cells[3].failure.type_name == "NameError"
        assert session.cells[3].failure.line == 1
        for _ in range(3):
            answer = session.ask(request_of("thrice"))
            assert answer.status == "answered"
            assert np.array_equal(answer.calls[0].value, [0.0, 3.0, 6.0])
            assert np.array_equal(answer.calls[0].again.value, [0.0, 3.0, 6.0])
        assert session.ask(request_of("absent")).status == "missing"
        stood_in = session.ask(request_of("thrice", twice=lambda x: 10 * x))
        assert np.array_equal(stood_in.calls[0].value, [0.0, 11.0, 22.0])
        assert np.array_equal(session.ask(request_of("thrice")).calls[0].value, [0.0, 3.0, 6.0])


def test_a_function_as_argument_runs_on_the_host(either: Sandbox) -> None:
    source = "def f(x, g):\n    try:\n        g(x[:1])\n    except ValueError as error:\n        return str(error)\n"
    pid = os.getpid()

    def refuse(x: np.ndarray) -> np.ndarray:
        assert os.getpid() == pid
        raise ValueError(f"not {x.shape}")

    answer, _ = run(either, source, "f", np.arange(3.0), HostFunction(refuse))
    assert answer.calls[0].value == "not (1,)"


def test_an_exception_is_reported_with_its_line(either: Sandbox) -> None:
    answer, _ = run(either, "def f(x):\n    y = 1\n    raise ValueError('no' + chr(0xD800))\n")
    failure = answer.calls[0].failure
    assert (failure.type_name, failure.message, failure.line) == ("ValueError", "no?", 3)


@pytest.mark.parametrize(
    ("cell", "status", "line"),
    [
        ("def f(x):\n    return (", "failed", 2),
        ("x = 1\nraise SystemExit", "failed", 2),
        ("while True: pass", "timeout", None),
        ("import time\ntime.sleep(60)", "timeout", None),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", "timeout", None),
        ("import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass", "timeout", None),
        ("import os\nos._exit(0)", "died", None),
        ("import ctypes\nctypes.string_at(0)", "died", None),
        ("import os\nos.kill(os.getpid(), 9)", "died", None),
        ("input()", "failed", 1),
        ("exit()", "failed", 1),
        ("os.write(sockets()[0], b'garbage' * 9)", "died", None),
        ('frame(sockets()[0], b\'{"event":"begin","index":1e999}\')', "died", None),
        ("frame(sockets()[0], {'event': 'cell', 'index': 99, 'status': 'ran'})", "died", None),
        ("frame(sockets()[0], {'event': 'cell', 'index': 0, 'status': []})", "died", None),
        ('frame(sockets()[0], b\'{"event":\' + b"[" * 900 + b"]" * 900 + b"}")', "died", None),
    ],
)
def test_a_bad_cell_costs_itself_alone(either: Sandbox, cell: str, status: str, line: int | None) -> None:
    with either.session(
        [CellSource("a", "given", FORGE), CellSource("b", "answer", cell), CellSource("c", "answer", TWICE)]
    ) as session:
        assert [outcome.status for outcome in session.cells] == ["ran", status, "ran"]
        failure = session.cells[1].failure
        assert (failure.line if failure else None) == line
        assert np.array_equal(session.ask(request_of("twice")).calls[0].value, [0.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("while True: pass", "timeout", " seconds"),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", "timeout", " seconds"),
        pytest.param("time.sleep(60)", "timeout", " seconds", marks=pytest.mark.nightly),
        (f"{DEAF}while True: pass", "timeout", " seconds"),
        pytest.param("return sum(range(10**15))", "timeout", " seconds", marks=pytest.mark.nightly),
        pytest.param("if os.fork() == 0: time.sleep(60)\nos.wait()", "timeout", "", marks=pytest.mark.nightly),
        ("os._exit(0)", "crashed", "ended itself"),
        ("os.abort()", "crashed", ""),
        ("import ctypes; ctypes.string_at(0)", "crashed", "segmentation fault"),
        ("os.kill(os.getppid(), 9)\ntime.sleep(60)", "crashed", ""),
        ("os.kill(os.getppid(), 19)\nos._exit(0)", "crashed timeout", ""),
        ("[os.write(fd, b'garbage' * 9) for fd in sockets()]", "crashed", "channel"),
        ("[os.close(fd) for fd in sockets()]", "crashed", ""),
        ("frame(sockets()[-1], {'event': 'done'})\nos._exit(0)", "crashed", "channel"),
        ("frame(sockets()[-1], {'event': ['call'] * 99, 'index': {}})\nos._exit(0)", "crashed", "channel"),
        ("frame(sockets()[-1], b'[' * 9999)\nos._exit(0)", "crashed", "channel"),
        ("os.write(sockets()[-1], bytes([255] * 12))\nos._exit(0)", "crashed", "channel"),
        pytest.param(
            "os.write(sockets()[-1], bytes([1]))\ntime.sleep(60)", "timeout", " seconds", marks=pytest.mark.nightly
        ),
        ("while True: frame(sockets()[-1], {'event': 'ask', 'id': ['nobody']})", "timeout crashed", ""),
    ],
)
def test_a_bad_function_costs_itself_alone(either: Sandbox, body: str, status: str, words: str) -> None:
    if either.mode == "plain" and "getppid(), 19" in body:
        pytest.skip("nothing stands above a plain process to wake it")
    answer, after = run(either, "def f(x):\n" + textwrap.indent(body, "    "))
    assert answer.status in status.split(), answer
    assert words in answer.reason
    assert len(answer.reason) < 200
    assert after.status == "answered"


def test_huge_results_are_not_sent(either: Sandbox) -> None:
    assert "too large" in value(either, "return np.broadcast_to(x, (2**20, 2**20, 3))").type_name
    answer, after = run(either, "def f(x): return np.zeros(2**20)", "f", 1)
    assert (answer.status, after.status) == ("crashed", "answered")
    assert "8 MiB" in answer.reason


def test_results_that_lie_about_themselves(either: Sandbox) -> None:
    source = """
    class Liar(float):
        def __float__(self): raise RuntimeError
    def f(x): return Liar(1.0)
    """
    answer, after = run(either, source)
    assert answer.status in ("crashed", "answered")
    assert after.status == "answered"


def test_memory_of_one_process(either: Sandbox) -> None:
    answer, after = run(either, "def f(x): return float(sum(len(bytearray(2**26)) for _ in [bytearray(2**29)]))")
    assert answer.calls[0].failure.type_name == "MemoryError"
    assert after.status == "answered"


def test_memory_of_many_processes(sandbox: Sandbox) -> None:
    body = """
        for _ in range(8):
            if os.fork() == 0:
                block = bytearray(120 * 2**20)
                block[::4096] = b"x" * len(block[::4096])
                time.sleep(60)
        time.sleep(60)"""
    answer, after = run(sandbox, "def f(x):" + body)
    assert (answer.status, after.status) == ("crashed", "answered")
    assert "memory" in answer.reason


def test_a_flood_of_prints(either: Sandbox) -> None:
    assert value(either, "for _ in range(200): print('x' * 100_000)\nreturn 1") == 1


def test_what_an_exercise_leaves_behind_is_gone(sandbox: Sandbox) -> None:
    source = """
    def f(x):
        for _ in range(5):
            if os.fork() == 0:
                os.setsid()
                for fd in sockets(): os.close(fd)
                time.sleep(60)
        return x
    def g(x):
        for _ in range(200):  # what was killed may still be on its way out
            alive = len([name for name in os.listdir("/proc") if name.isdigit()])
            if alive == 3: break
            time.sleep(0.01)
        return alive
    """
    cells = [CellSource("h", "given", "import os, time\n" + FORGE), CellSource("f", "answer", textwrap.dedent(source))]
    with sandbox.session(cells) as session:
        assert session.ask(request_of("f")).status == "answered"
        assert session.ask(request_of("g")).calls[0].value == 3  # the keeper, the student's process, its child


def test_state_does_not_reach_the_next_exercise(either: Sandbox) -> None:
    source = """
    state = []
    def f(x):
        state.append(1)
        np.pi = 3
        return len(state)
    def g(x):
        return (len(state), float(np.pi))
    """
    cells = [CellSource("h", "given", "import numpy as np"), CellSource("f", "answer", textwrap.dedent(source))]
    with either.session(cells) as session:
        session.ask(request_of("f"))
        assert session.ask(request_of("g")).calls[0].value == (0, np.pi)


def test_random_numbers_differ_from_child_to_child(either: Sandbox) -> None:
    source = "import random\nimport numpy as np\ndef f(x): return (np.random.random(), random.random())"
    with either.session([CellSource("f", "answer", source)]) as session:
        first, second = (session.ask(request_of("f")).calls[0].value for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_neighbours_do_not_see_each_other(sandbox: Sandbox) -> None:
    hide = """
    import os, socket, time
    open("/scratch/answer", "w").write("secret")
    mine = socket.socket(socket.AF_UNIX)
    mine.bind("\\0neighbour")
    mine.listen()
    """
    seek = """
    def f(x):
        import os, socket
        found = [name for name in os.listdir("/proc") if name.isdigit()]
        try:
            socket.socket(socket.AF_UNIX).connect("\\0neighbour")
            reached = True
        except OSError:
            reached = False
        return (len(found), os.path.exists("/scratch/answer"), reached)
    """
    first = sandbox.session([CellSource("a", "answer", textwrap.dedent(hide) + TWICE)])
    second = sandbox.session([CellSource("a", "answer", textwrap.dedent(seek))])
    with first, second:
        assert first.cells[0].status == "ran", first.cells
        assert second.ask(request_of("f")).calls[0].value == (3, False, False)
        assert first.ask(request_of("twice")).status == "answered"


def test_no_network_and_no_way_to_more_rights(sandbox: Sandbox) -> None:
    body = """
        import ctypes, socket
        libc, out = ctypes.CDLL(None, use_errno=True), []
        for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_VSOCK", "AF_PACKET", "AF_ALG"):
            try:
                socket.socket(getattr(socket, family), socket.SOCK_STREAM)
                out.append(family)
            except OSError:
                pass
        number = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
        calls = {
            "unshare user": (272, 97)[number : number + 1] + (0x10000000,),
            "unshare files": (272, 97)[number : number + 1] + (0x20000,),
            "unshare processes": (272, 97)[number : number + 1] + (0x20000000,),
            "mount": (165, 40)[number : number + 1] + (b"none", b"/scratch", b"tmpfs", 0, 0),
            "chroot": (161, 51)[number : number + 1] + (b"/scratch",),
            "mknodat": (259, 33)[number : number + 1] + (-100, b"/scratch/d", 0o20666, 259),
            "clone user": (56, 220)[number : number + 1] + (0x10000000 | 17, 0, 0, 0, 0),
            "clone3": (435, 0, 0),
            "memfd_create": (319, 279)[number : number + 1] + (b"x", 0),
            "ptrace": (101, 117)[number : number + 1] + (0, 0, 0, 0),
            "shmget": (29, 194)[number : number + 1] + (0, 4096, 0o1600),
            "keyctl": (250, 219)[number : number + 1] + (0, -3, 1),
            "bpf": (321, 280)[number : number + 1] + (0, 0, 0),
            "io_uring_setup": (425, 1, 0),
            "open_by_handle_at": (304, 265)[number : number + 1] + (-100, 0, 0),
        }
        for name, call in calls.items():
            result = libc.syscall(*(ctypes.c_long(v) if isinstance(v, int) else v for v in call))
            if result == 0 and name == "clone user":
                os._exit(0)
            if result >= 0 or ctypes.get_errno() not in (1, 38):
                out.append(f"{name} {ctypes.get_errno()}")
        for name in ("setuid", "setgid"):
            try:
                getattr(os, name)(0)
                out.append(name)
            except OSError:
                pass
        status = open("/proc/self/status").read()
        for line in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            if (status + STARTED).count(f"{line}:\\t0000000000000000\\n") != 2:
                out.append(line)
        if "NoNewPrivs:\\t1" not in status or "Seccomp:\\t2" not in status or os.getuid() == 0:
            out.append("status")
        socket.socketpair()
        return out"""
    # An ordinary user's namespace calls its student 0, and starting a program may not turn that into powers.
    cell = "import subprocess\n"
    cell += "STARTED = subprocess.run(['cat', '/proc/self/status'], capture_output=True, text=True).stdout\ndef f(x):\n"
    answer, _ = run(sandbox, cell + textwrap.indent(textwrap.dedent(body), "    "))
    assert answer.status == "answered" and answer.calls[0].value == [], answer


def test_the_only_network_interface_is_a_loopback_of_its_own(sandbox: Sandbox) -> None:
    """Sockets are refused by a filter; behind it there is nothing to be reached either."""
    body = "return [line.split(':')[0].strip() for line in open('/proc/net/dev') if ':' in line]"
    assert value(sandbox, body) == ["lo"]


def test_nothing_to_read_and_nowhere_to_write(sandbox: Sandbox, tmp_path: Path) -> None:
    home, canary, secret = Path.home(), PROJECT / "autograder", tmp_path / "secret"
    secret.write_text("secret")
    body = f"""
        out = []
        for path in ("/etc/shadow", "/etc/passwd", "/home", "/var", "/sys", "/mnt", {str(home / ".ssh")!r},
                     {str(canary)!r}, {str(PROJECT / "solutions")!r}, {str(PROJECT / "tests")!r}, "/proc/1/root/etc",
                     "/proc/1/environ", "/proc/1/mem", "/proc/1/fd", "/proc/1/cwd/", "/proc/kcore", "/dev/mem", "/root",
                     {str(PROJECT / "pyproject.toml")!r}, {str(secret)!r}):
            try:
                if os.path.isdir(path) and all(name in {PLACES!r} for name in os.listdir(path)):
                    continue
                open(path, "rb").read(1) if not os.path.isdir(path) else os.listdir(path)
                out.append(path)
            except OSError:
                pass
        for path in ("/", "/etc", "/dev", "/dev/shm", "/course", "/course/worker", "/usr", "/usr/bin", "/usr/lib",
                     "/proc", "/var", sys.prefix, sys.base_prefix, os.path.dirname(os.__file__),
                     os.path.dirname(sys.executable), "/proc/sys/kernel", "/tmp"):
            if os.path.realpath(path) == "/scratch":
                continue
            try:
                open(path + "/written", "w").close()
                out.append("write " + path)
            except OSError:
                pass
        for name in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", os.__file__):
            try:
                open(name, "r+").close()
                out.append("write " + name)
            except OSError:
                pass
        return out"""
    assert value(sandbox, body) == []


def test_the_memory_of_the_notebook_is_out_of_reach(sandbox: Sandbox) -> None:
    """An exercise that could write there would reach the next one."""
    body = """
        out = []
        for pid in {os.getppid(), 1}:
            for part, mode in (("mem", "rb"), ("mem", "r+b"), ("maps", "rb"), ("environ", "rb")):
                try:
                    open(f"/proc/{pid}/{part}", mode).read(1)
                    out.append((pid == 1, part))
                except OSError: pass
        return out"""
    assert value(sandbox, body) == []


#: Folders that may be visible on the way to the interpreter.
PLACES = tuple({part for folder in bubblewrap.visible() for part in Path(folder).parts})


def test_a_python_that_is_called_by_a_way_round_finds_its_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    here, (folder, program) = Path(__file__).parent, os.path.split(sys.executable)
    monkeypatch.setattr(sys, "executable", f"{here}/{os.path.relpath(folder, here)}/{program}")
    reason = preflight()
    if reason:
        pytest.skip(reason)
    with open_sandbox(LIMITS) as opened, opened.session([CellSource("first", "given", "1 + 1")]) as session:
        assert [cell.status for cell in session.cells] == ["ran"]


def test_no_canary_is_in_sight() -> None:
    """Walk all that is visible: no reference, solution, gradebook or test of ours may be there."""
    body = """
        seen, out = 0, []
        for folder, folders, files in os.walk("/"):
            if folder == "/":
                folders.remove("proc")
            if folder.endswith("/nbgrader/tests"):  # it ships a gradebook of its own
                folders.clear()
                continue
            for name in (*folders, *files):
                seen += 1
                path = os.path.join(folder, name)
                ours = name.startswith(("autograder", "attention_course"))
                if ours and os.path.isdir(path) and not os.listdir(path):
                    continue  # covered up: only its name is left
                if folder.endswith("/bin") and name == "autograder":
                    continue  # the command's start script, a few lines that import the package that is not there
                if name in ("judge.py", "hidden_cases.py", "exercise.py", "sandbox_messages.py"):
                    if "Exercise" in open(os.path.join(folder, name), errors="replace").read():
                        out.append(os.path.join(folder, name))
                package = () if "/nbgrader/" in folder else ("autograder",)  # there it is the name of pictures
                named = name.startswith(("unit_0", "attention_course", *package, *UNITS))
                if named or name in ("gradebook.db", "nbgrader_config.py"):
                    out.append(os.path.join(folder, name))
        return (seen, out, sorted(name for name in os.listdir("/course/worker") if name != "__pycache__"))"""
    try:
        with open_sandbox(replace(LIMITS, seconds_per_exercise=60.0)) as patient:
            seen, found, worker = value(patient, body.replace("*UNITS", f"*{unit_names()}"))
    except NoSandbox as error:
        pytest.skip(str(error))
    assert seen > 1000
    assert found == []
    assert worker == sorted(path.name for path in (PROJECT / "autograder/worker").glob("*.py"))


def test_the_zygote_has_one_thread(sandbox: Sandbox) -> None:
    assert value(sandbox, "return len(os.listdir('/proc/self/task'))") == 1


@pytest.mark.parametrize("unsafe", [False, True], ids=["sandbox", "plain"])
def test_a_killed_zygote_is_started_again(unsafe: bool) -> None:
    try:
        opened = open_sandbox(LIMITS, unsafe=unsafe)
    except NoSandbox as error:
        pytest.skip(str(error))
    with opened, opened.session([CellSource("t", "answer", TWICE)]) as session:
        opened._process.kill()
        opened._process.wait()
        session._hang_up()
        answer = session.ask(request_of("twice"))
        assert answer.status == "answered" and np.array_equal(answer.calls[0].value, [0.0, 2.0, 4.0])


def descendants(of: int) -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(path.parent.name)] = int(fields[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {of}} - found:
        found |= more
    return found


def test_a_killed_grader_leaves_nothing_running(sandbox: Sandbox) -> None:
    program = """
    import sys
    from autograder.records import CellSource
    from autograder.running.sandbox import open_sandbox
    cell = "import os, time\\nif os.fork() == 0:\\n    os.setsid()\\n    os.fork() and os._exit(0)\\n    time.sleep(600)\\n"
    with open_sandbox() as sandbox, sandbox.session([CellSource("a", "answer", cell)]) as session:
        print(session.cells[0].status, flush=True)
        sys.stdin.read()
    """
    grader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with grader:
        assert grader.stdout.readline() == "ran\n"
        below = descendants(grader.pid)
        assert len(below) >= 6
        grader.send_signal(signal.SIGKILL)
    patience = time.monotonic() + 30
    while (left := {pid for pid in below if alive(pid)}) and time.monotonic() < patience:
        time.sleep(0.05)
    assert left == set()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_well_formed(machine: str) -> None:
    import struct

    program = list(struct.iter_unpack("<HBBI", seccomp.build(machine)))
    assert 100 < len(program) < 4096
    for position, (code, if_true, if_false, _) in enumerate(program):
        if code & 7 == 5:
            assert position + 1 + max(if_true, if_false) < len(program)
    assert program[-1] == (6, 0, 0, 0x7FFF0000)
