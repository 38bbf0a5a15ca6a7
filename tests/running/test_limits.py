"""A course sets its limits in autograder.toml; each of them binds."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from autograder.exercises.kit import Case, HostFunction
from autograder.records import Answer, CellSource
from autograder.running import sandbox_messages
from autograder.running import submission_session as session_module
from autograder.running.limits import BadSettings, Limits
from autograder.running.sandbox import Sandbox, open_sandbox, preflight
from autograder.running.sandbox_messages import Request

ROOT = Path(__file__).resolve().parents[2]


def course(folder: Path, text: str) -> Path:
    (folder / "autograder.toml").write_text(text, encoding="utf-8")
    return folder


def test_without_a_file_the_defaults_hold(tmp_path):
    assert Limits.from_course(tmp_path) == Limits.from_course(course(tmp_path, "")) == Limits()


def test_what_is_set_holds_and_the_rest_stays(tmp_path):
    text = '[limits]\nseconds_per_exercise = 3\nmemory_bytes = "1.5 GiB"\nscratch_bytes = 1000\nprocesses = 8\n'
    limits = Limits.from_course(course(tmp_path, text))
    assert (limits.seconds_per_exercise, limits.processes) == (3.0, 8)
    assert (limits.memory_bytes, limits.scratch_bytes) == (1.5 * 2**30, 1000)
    assert limits.open_files == Limits().open_files


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nseconds = 3", "no limit 'seconds'; there are seconds_per_exercise"),
        ("[limit]\nprocesses = 3", "'limit' is not known"),
        ("limits = 3", "holds one table"),
        ("[limits]\nprocesses = 0", "a whole number above 0"),
        ("[limits]\nprocesses = 2.5", "a whole number above 0"),
        ("[limits]\nprocesses = true", "a whole number above 0"),
        ("[limits]\nprocesses = '8'", "a whole number above 0"),
        ("[limits]\nseconds_per_cell = -1", "a number above 0"),
        ("[limits]\nseconds_per_cell = nan", "a number above 0"),
        ("[limits]\nseconds_per_cell = inf", "a number above 0"),
        ("[limits]\nmemory_bytes = '2 GigaBytes'", '"512 MiB"'),
        ("[limits]\nmemory_bytes = '0 MiB'", '"512 MiB"'),
        ("[limits]\nprocesses = 1\nprocesses = 2", "cannot be read"),
        ("[limits", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(tmp_path, text, words):
    with pytest.raises(BadSettings) as caught:
        Limits.from_course(course(tmp_path, text))
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert str(tmp_path / "autograder.toml") in str(caught.value)


def test_the_page_on_threats_names_every_limit_with_its_default():
    page = (ROOT / "docs/THREATS.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", page, re.MULTILINE))
    shown = {field.name: field.default for field in fields(Limits)}
    assert set(rows) == set(shown)
    for name, default in shown.items():
        words = f"{default / 2**20:g} MiB" if name.endswith("_bytes") else f"{default:g}"
        assert rows[name] == words, name


# --- each limit binds -------------------------------------------------------------------------------------------------

needs_a_sandbox = pytest.mark.skipif(preflight() is not None, reason=str(preflight()))
LOOP = "while True: pass"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_module, "GRACE_SECONDS", 2.5)
        with open_sandbox(Limits()) as opened:
            yield opened


def ask(sandbox: Sandbox, folder: Path, settings: str, body: str) -> Answer:
    """What a function of this body answers under these settings."""
    sandbox.limits = Limits.from_course(course(folder, f"[limits]\n{settings}\n"))
    source = "import os, time\nimport numpy as np\ndef f(x):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    with sandbox.session([CellSource("f", "answer", source)]) as session:
        return session.ask(Request("f", [Case("values", "a call", (np.arange(3.0),))]))


WRITE = """
try:
    with open("/scratch/a", "wb", buffering=0) as file:
        for _ in range(64): file.write(bytes(2**16))
except OSError: pass
return os.path.getsize("/scratch/a")
"""
FORKS = """
count = 0
try:
    while count < 100:
        if os.fork() == 0: time.sleep(60)
        count += 1
except OSError: pass
return count
"""
OPEN = """
kept = []
try:
    while len(kept) < 1000: kept.append(open("/dev/null"))
except OSError: pass
return len(kept)
"""


@needs_a_sandbox
@pytest.mark.parametrize(
    ("settings", "body", "most"),
    [
        ('scratch_bytes = "1 MiB"', WRITE, 2**20),
        ('file_bytes = "1 MiB"', WRITE, 2**20),
        ("processes = 6", FORKS, 6),
        ("open_files = 30", OPEN, 30),
    ],
    ids=["scratch_bytes", "file_bytes", "processes", "open_files"],
)
def test_amounts_bind(sandbox, tmp_path, settings, body, most):
    answer = ask(sandbox, tmp_path, settings, body)
    assert answer.status == "answered", answer
    assert 0 < answer.calls[0].value <= most


@needs_a_sandbox
def test_seconds_per_exercise_bind(sandbox, tmp_path):
    answer = ask(sandbox, tmp_path, "seconds_per_exercise = 1", LOOP)
    assert (answer.status, "1 seconds of processor time" in answer.reason) == ("timeout", True)


@needs_a_sandbox
def test_the_clock_binds_who_sleeps(sandbox, tmp_path):
    answer = ask(sandbox, tmp_path, "seconds_per_exercise = 1\nwall_clock_factor = 3", "time.sleep(1000)")
    assert (answer.status, "within 3 seconds." in answer.reason) == ("timeout", True)


@needs_a_sandbox
def test_cpu_seconds_bind(sandbox, tmp_path):
    started = time.monotonic()
    answer = ask(sandbox, tmp_path, "cpu_seconds = 1\nseconds_per_exercise = 30", LOOP)
    assert answer.status == "timeout" and time.monotonic() - started < 20


@needs_a_sandbox
def test_memory_binds(sandbox, tmp_path):
    answer = ask(sandbox, tmp_path, 'memory_bytes = "200 MiB"', "return len(bytearray(2**28))")
    assert answer.calls[0].failure.type_name == "MemoryError"


@needs_a_sandbox
def test_reply_bytes_bind(sandbox, tmp_path):
    answer = ask(sandbox, tmp_path, 'reply_bytes = "1 MiB"', "return np.zeros(2**18)")
    assert (answer.status, "more than 1 MiB" in answer.reason) == ("crashed", True)


@needs_a_sandbox
def test_whoever_asks_a_function_without_end_is_told_so(sandbox, monkeypatch):
    """However quick or slow the machine: neither the bytes nor the processor time of the questions come first."""
    monkeypatch.setattr(sandbox_messages, "QUESTIONS_CAP", 50)
    source = "def f(told):\n    while True:\n        try: told(1)\n        except Exception: pass"
    with sandbox.session([CellSource("f", "answer", source)]) as session:
        answer = session.ask(Request("f", [Case("values", "a call", (HostFunction(lambda value: value),))]))
    assert (answer.status, "called the functions it was given more than" in answer.reason) == ("timeout", True), answer


@needs_a_sandbox
def test_ones_own_cells_leave_time_for_the_exercises(sandbox, tmp_path):
    """Who trains in one cell after another has an answer all the same, and what these cells define."""
    text = "[limits]\nseconds_per_cell = 2\nseconds_per_submission = 12\nwall_clock_factor = 1"
    sandbox.limits = Limits.from_course(course(tmp_path, text))
    slow = [CellSource(f"c{n}", "extra", f"import time\ntime.sleep(60)\ndef g{n}(): return {n}") for n in range(8)]
    answer = CellSource("f", "answer", "def f(x): return x + g7()")
    with sandbox.session([*slow, answer]) as session:
        assert {cell.status for cell in session.cells} == {"timeout", "ran"}
        found = session.ask(Request("f", [Case("values", "a call", (1,))]))
    assert found.calls[0].value == 8


@needs_a_sandbox
def test_seconds_per_cell_and_per_submission_bind(sandbox, tmp_path):
    text = "[limits]\nseconds_per_cell = 1\nseconds_per_submission = 2"
    sandbox.limits = Limits.from_course(course(tmp_path, text))
    cells = [CellSource(f"c{number}", "answer", LOOP) for number in range(9)]
    started = time.monotonic()
    with sandbox.session(cells) as session:
        assert session.cells[0].status == "timeout"
        assert session.cells[-1].status == "skipped"
        answer = session.ask(Request("f", [Case("values", "a call", (1,))]))
    assert "as a whole" in answer.reason and time.monotonic() - started < 15
