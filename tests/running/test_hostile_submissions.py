"""Every hostile submission through the real sandbox: nobody gets what was not earned, and nobody else pays for it.

All attacks share two sandboxes, with an honest submission before and after those of each kind; two kinds run side by side.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from asked import assignment, points_of
from autograder.grading.one_submission import grade_submission, nothing_to_grade
from autograder.judging.hidden_cases import Challenge
from autograder.reading.course_contents import Course
from autograder.records import Unreadable, Verdict
from autograder.running import submission_session as session_module
from autograder.running.limits import Limits
from autograder.running.sandbox import Sandbox, open_sandbox, preflight
from autograder.safe_text import printable
from hostile import CANARY, KINDS, MARK, ROOT, Attack

pytestmark = pytest.mark.skipif(preflight() is not None, reason=str(preflight()))

LIMITS = Limits(
    seconds_per_exercise=3,
    seconds_per_cell=5,
    seconds_per_submission=40,
    wall_clock_factor=4,
    memory_bytes=768 * 2**20,
    processes=16,
    scratch_bytes=16 * 2**20,
    file_bytes=16 * 2**20,
    reply_bytes=16 * 2**20,
)
#: What a submission may cost the grader's own process in processor time: the sandbox's is not part of it.
HOST_SECONDS = 25
ATTACKS = {f"{kind}: {attack.name}": attack for kind, attacks in KINDS.items() for attack in attacks}
HONEST = {
    f"{kind}: honest {when}": Attack("honest", "hands in the solutions", unit)
    for kind, unit in zip(KINDS, ["03_masking", "04_multi_head"] * len(KINDS), strict=False)
    for when in ("before", "after")
}


@dataclass
class Outcome:
    """What became of one submission."""

    verdicts: dict[str, Verdict]
    host_seconds: float
    problem: str = ""


class Host:
    """A course folder that no submission may see, and all that was handed in."""

    def __init__(self, folder: Path) -> None:
        self.canary = folder / "course"
        for name in (
            "solutions/secret.ipynb",
            "grading/submitted/anna/secret.ipynb",
            "autograder/units/secret.py",
            "secret",
        ):
            path = self.canary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{CANARY} {name}")
        with contextlib.closing(sqlite3.connect(self.canary / "grading/gradebook.db")) as book, book:
            book.execute("CREATE TABLE grade (manual_score)")
            book.execute("INSERT INTO grade VALUES (1)")
        for path in (self.canary, *self.canary.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)  # only the sandbox stands before it
        self.submitted = folder / "submitted"
        self.before = self.state()

    def state(self) -> dict[str, str]:
        files = [path for path in self.canary.rglob("*") if path.is_file()]
        found = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        for folder in ("/tmp", "/var/tmp", "/dev/shm", "/", str(Path.home()), str(ROOT), str(Path.cwd())):
            names = [name for name in os.listdir(folder) if MARK in name or name in ("usercustomize.py", "numpy.py")]
            found.update({f"{folder}/{name}": "there" for name in names})
        return found


def grade(name: str, attack: Attack, host: Host, course: Course, challenge: Challenge, sandbox) -> Outcome:
    path = host.submitted / name.replace("/", " ") / attack.unit / f"{attack.unit}.ipynb"
    attack.hand_in(path, host.canary)
    began, asked = time.thread_time(), assignment(attack.unit)
    try:
        verdicts, problem = grade_submission(course.open(path, attack.unit), asked, challenge, sandbox), ""
    except Unreadable as error:
        verdicts, problem = nothing_to_grade(asked, error), str(error)
    return Outcome({verdict.function: verdict for verdict in verdicts}, time.thread_time() - began, problem)


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> Host:
    folder = tmp_path_factory.mktemp("host")
    for parent in (folder, *folder.parents):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    return Host(folder)


@pytest.fixture(scope="module")
def outcomes(request, host) -> dict[str, Outcome | Exception]:
    """All submissions that the selected tests ask about, graded."""
    called = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    asked = {spec.params["name"] for spec in called if spec is not None and "name" in spec.params}
    course, challenge = Course(ROOT), Challenge()
    for unit in {attack.unit for attack in (*ATTACKS.values(), *HONEST.values())}:
        challenge.unit(unit)  # drawn once, before the threads share it
    found: dict[str, Outcome | Exception] = {}

    everyone = {**ATTACKS, **HONEST}
    sandboxes: queue.SimpleQueue[Sandbox] = queue.SimpleQueue()

    def grade_kind(kind: str) -> None:
        wanted = [name for name in (f"{kind}: {attack.name}" for attack in KINDS[kind]) if name in asked]
        neighbours = [name for name in HONEST if name.startswith(f"{kind}:") and name in asked]
        sandbox = sandboxes.get()
        for name in (*neighbours[:1], *wanted, *neighbours[1:]):
            try:
                found[name] = grade(name, everyone[name], host, course, challenge, sandbox)
            except Exception as error:  # a fault of ours: the test of this submission shows it
                found[name] = error
        sandboxes.put(sandbox)

    kinds = [kind for kind in KINDS if any(name.startswith(f"{kind}:") for name in asked)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(session_module, "GRACE_SECONDS", 2.5)
        for _ in range(2):
            sandboxes.put(stack.enter_context(open_sandbox(LIMITS)))
        pool = stack.enter_context(ThreadPoolExecutor(2))
        list(pool.map(grade_kind, sorted(kinds, key=lambda kind: kind != "exhaustion")))
    return found


#: One attack of each kind, which `make test` tries, too.
DAILY = {f"{kind}: {attacks[0].name}" for kind, attacks in KINDS.items()}
#: The kinds whose honest neighbours `make test` grades, too: those that wear the machine out.
DAILY_NEIGHBOURS = ("exhaustion", "persistence")


def marked() -> list:
    for name, attack in ATTACKS.items():
        marks = [pytest.mark.xfail(reason=attack.uncontained, strict=True)] if attack.uncontained else []
        marks += [] if name in DAILY else [pytest.mark.nightly]
        yield pytest.param(name, id=name, marks=marks)


def neighbours() -> list:
    for name in HONEST:
        yield pytest.param(name, marks=[] if name.startswith(DAILY_NEIGHBOURS) else [pytest.mark.nightly])


@pytest.mark.parametrize("name", marked())
def test_a_hostile_submission_gets_what_it_earned(outcomes, name):
    attack, outcome = ATTACKS[name], outcomes[name]
    assert isinstance(outcome, Outcome), repr(outcome)
    verdicts = outcome.verdicts
    assert {function: verdict.score for function, verdict in verdicts.items()} == attack.due(), verdicts
    for function, due in attack.verdicts.items():
        # What looks for a way round may be seen doing so before it comes to what it is due. It earns nothing either way.
        assert verdicts[function].verdict in (*due, "forbidden"), verdicts[function]
    words = [outcome.problem, *(verdict.message for verdict in verdicts.values())]
    assert any(attack.says in text for text in words), words
    assert not [(bad, text) for bad in attack.never for text in words if bad in text]
    assert all(text == printable(text) for text in words)
    assert outcome.host_seconds < HOST_SECONDS


@pytest.mark.parametrize("name", neighbours())
def test_an_honest_neighbour_gets_full_marks(outcomes, name):
    assert isinstance(outcomes[name], Outcome), outcomes[name]
    earned = {function: verdict.score for function, verdict in outcomes[name].verdicts.items()}
    assert earned == points_of(HONEST[name].unit)


def test_nothing_has_changed_on_the_host(outcomes, host):
    assert host.state() == host.before


def test_no_process_is_left(outcomes):
    def left() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().decode(errors="replace")
                found += [words] if MARK in words and "pytest" not in words else []
        return found

    patience = time.monotonic() + 10
    while left() and time.monotonic() < patience:
        time.sleep(0.1)
    assert left() == []


def test_the_suite_is_as_large_as_it_says():
    assert len(ATTACKS) == sum(map(len, KINDS.values())) >= 100
    assert all(attack.tries for attack in ATTACKS.values())
