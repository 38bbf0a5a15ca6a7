"""Control groups, where this machine gives one: what they bound beyond rlimits and watching, and that none is left."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.exercises.kit import Case
from autograder.records import Answer, CellSource
from autograder.running import control_groups
from autograder.running.control_groups import PREFIX
from autograder.running.limits import Limits
from autograder.running.sandbox import Sandbox, open_sandbox, preflight
from autograder.running.sandbox_messages import Request

pytestmark = [
    pytest.mark.skipif(preflight() is not None, reason=str(preflight())),
    pytest.mark.skipif(control_groups.find() is None, reason="this machine gives no control groups"),
]
LITTLE = replace(Limits(), memory_bytes=64 * 2**20, scratch_bytes=2**20, processes=12)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox() as opened:
        assert opened.hierarchy is not None
        yield opened


def ask(sandbox: Sandbox, body: str, limits: Limits = LITTLE) -> Answer:
    sandbox.limits = limits
    source = "import os, socket, threading, time\ndef f(x):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    with sandbox.session([CellSource("f", "answer", source)]) as session:
        return session.ask(Request("f", [Case("values", "a call", (1,))]))


def groups() -> list[Path]:
    """The control groups of this process that there are now."""
    folders = control_groups.find().folders.values()
    return [path for folder in folders for path in folder.glob(f"{PREFIX}{os.getpid()}-*")]


def test_memory_that_the_kernel_holds_is_bounded(sandbox):
    """Full sockets are in no process's address space: neither an rlimit nor the keeper's watching counts them."""
    answer = ask(
        sandbox,
        """
        for _ in range(28):
            if os.fork() == 0:
                kept = []
                try:
                    while True:
                        kept += socket.socketpair()
                        for end in kept[-2:]:
                            end.setblocking(False)
                            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
                            try:
                                while True: end.send(bytes(2**16))
                            except BlockingIOError: pass
                except OSError: pass
                time.sleep(60)
        time.sleep(60)
        """,
        replace(Limits(), memory_bytes=400 * 2**20, scratch_bytes=2**20),
    )
    assert (answer.status, "more than the" in answer.reason) == ("crashed", True), answer


def test_many_small_processes_are_bounded_together(sandbox):
    answer = ask(
        sandbox,
        """
        for _ in range(8):
            if os.fork() == 0:
                kept = bytearray(40 * 2**20)
                kept[::4096] = bytes(len(kept[::4096]))
                time.sleep(60)
        time.sleep(60)
        """,
    )
    assert (answer.status, "more than the" in answer.reason) == ("crashed", True), answer


def test_threads_are_counted_as_processes_are(sandbox):
    answer = ask(
        sandbox,
        """
        stop, count = threading.Event(), 0
        try:
            while count < 100:
                threading.Thread(target=stop.wait, daemon=True).start()
                count += 1
        except RuntimeError: pass
        stop.set()
        return count
        """,
    )
    assert answer.status == "answered" and 0 < answer.calls[0].value <= LITTLE.processes + 2, answer


def test_a_submission_has_the_time_of_one_core(sandbox):
    if "cpu" not in sandbox.hierarchy.folders:
        pytest.skip("no cpu controller here")
    answer = ask(
        sandbox,
        """
        begun, children = time.monotonic(), []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                while time.monotonic() < begun + 1.5: pass
                os._exit(0)
            children.append(child)
        for child in children: os.waitpid(child, 0)
        used = os.times()
        return (used.children_user + used.children_system) / (time.monotonic() - begun)
        """,
        Limits(),
    )
    assert answer.status == "answered" and answer.calls[0].value < 1.5, answer


def test_the_neighbour_has_a_group_of_its_own(sandbox):
    """What the submissions before it used up does not count against it."""
    roomy = replace(LITTLE, memory_bytes=400 * 2**20)
    answer = ask(sandbox, "kept = bytearray(300 * 2**20)\nreturn len(kept)", roomy)
    assert answer.calls[0].value == 300 * 2**20


def test_a_group_lives_as_long_as_its_submission(sandbox):
    others = {*groups()}  # of sandboxes that this process keeps for other files' tests
    with sandbox.session([CellSource("f", "answer", "f = 1")]):
        assert {*groups()} - others
    sandbox.stop()
    assert not {*groups()} - others


def test_what_a_killed_run_left_is_removed():
    folders = list(dict.fromkeys(control_groups.find().folders.values()))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [folder / f"{PREFIX}{ended.pid}-0" for folder in folders]
    for folder in left:
        folder.mkdir()
    control_groups.find()
    assert not any(folder.exists() for folder in left)
