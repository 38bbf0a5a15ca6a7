"""Makes one submission a job that any trusted process can do: the job and its result hold all that is needed.

A job may travel to another machine, so it refers to no file. The references and the seed go with it to a process of
ours, but never into the sandbox.

A recorded notebook repeats the parts of a verdict that nbgrader can read nowhere else: the score, which nbgrader's own
step reads from the test cell's output into the gradebook, and the message, which the formgrader shows to whoever marks
by hand. Our own code reads neither there, because `results_store.py` stores the verdict itself.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import threading
from dataclasses import dataclass, field
from multiprocessing import util

import nbformat
from nbformat import NotebookNode

from ..judging.hidden_cases import Challenge
from ..reading.insert_answers import transplant
from ..reading.read_assignment import Assignment, read_assignment
from ..reading.read_submission import for_the_student, read_bytes
from ..records import Graded, NoSandbox, Transplanted, Unreadable, Verdict
from ..running.limits import Limits
from ..running.sandbox import Sandbox, open_sandbox
from ..running.submission_session import Lost
from .one_submission import grade_submission, nothing_to_grade


@dataclass(frozen=True)
class Job:
    """Holds everything that grading one submission needs.

    name: the submission's file, for messages. content: its bytes, or None if `problem` says why there are none.
    release: our notebook of the unit, as text. tests: the instructor's own tests, cell -> source.
    excluded: questions that don't count. asked: a digest of all that the questions ask.
    code: a digest of the code that judges it.
    hidden: folders that the submission may not see, on whatever machine it is graded.
    """

    student: str
    unit: str
    name: str
    content: bytes | None
    problem: str | None
    release: str
    seed: int
    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False
    tests: tuple[tuple[str, str], ...] = ()
    excluded: tuple[str, ...] = ()
    asked: str = ""
    code: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return a digest of all that verdicts depend on except the secret cases.

        Verdicts stay valid as long as it is the same.
        """
        content = self.content if self.content is not None else (self.problem or "").encode()
        return hashlib.sha256(f"{self.code}\0{self.asked}\0{self.limits}\0".encode() + content).hexdigest()


class _Here(threading.local):
    """Keeps what a thread of a grading process uses in every job: a sandbox and the parsed releases."""

    def __init__(self) -> None:
        self.sandbox: Sandbox | None = None
        self.settings: tuple[bool, tuple[str, ...]] | None = None
        self.warm = False
        self.assignments: dict[tuple, Assignment] = {}


_here = _Here()
_opened: list[Sandbox] = []
_challenges: dict[int, Challenge] = {}
_drawing = threading.RLock()


def challenge_of(seed: int) -> Challenge:
    """Return the challenge of a run, drawn once per process."""
    with _drawing:
        if seed not in _challenges:
            _challenges.clear()
            _challenges[seed] = Challenge(seed)
        return _challenges[seed]


def run(job: Job) -> Graded:
    """Grade one submission. If a notebook cannot be read, every exercise is missing."""
    challenge = challenge_of(job.seed)
    submission = None
    try:
        assignment = read_job_assignment(job)
        with _drawing:  # references are computed when a unit is first used
            challenge.draw(assignment)
        try:
            submission = opened(job)
            verdicts, problem = grade_submission(submission, assignment, challenge, _sandbox(job)), None
        except Unreadable as error:
            problem = str(error)
            verdicts = nothing_to_grade(assignment, for_the_student(problem, job.name))
    except (NoSandbox, Lost):
        raise  # the next job would fail, too
    except Exception as error:
        return at_fault(job.student, job.unit, error)
    notebook = submission.notebook if submission is not None else nbformat.from_dict(assignment.release)
    text = _text(with_outputs(notebook, verdicts))
    told = {"fingerprint": job.fingerprint, "seed": str(job.seed)}
    return Graded(job.student, job.unit, verdicts, problem, notebook=text, **told)


def at_fault(student: str, unit: str, error: BaseException) -> Graded:
    """Report an internal error on one notebook, which gets no verdicts rather than wrong ones; others get theirs."""
    if os.environ.get("AUTOGRADER_DEBUG"):
        raise error
    words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Graded(student, unit, [], fault=f"{unit} was not graded, because of an internal error ({words})")


def lost(job: Job, error: BaseException) -> Graded:
    """Return the result of a job that kills its worker."""
    return at_fault(job.student, job.unit, error)


def with_outputs(notebook: NotebookNode, verdicts: list[Verdict]) -> NotebookNode:
    """Return the notebook with each verdict as the output of its test cell, as if that had been executed."""
    by_cell = {verdict.cell: verdict for verdict in verdicts}
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        verdict = by_cell.get(marks.get("grade_id"))
        if verdict is not None and cell.cell_type == "code" and not (marks.get("solution") or marks.get("task")):
            cell.outputs = _outputs(verdict)
            cell.execution_count = 1
    return notebook


def _outputs(verdict: Verdict) -> list[NotebookNode]:
    """Return a test cell's outputs: the words for the student, then the score as nbgrader reads it."""
    lines = [f"{verdict.function}: {verdict.verdict}, {verdict.score:g} of {verdict.points:g} points", verdict.message]
    score = nbformat.v4.new_output("execute_result", {"text/plain": repr(float(verdict.score))}, execution_count=1)
    return [nbformat.v4.new_output("stream", name="stdout", text="\n".join(lines) + "\n"), score]


def recorded_form(job: Job, verdicts: list[Verdict]) -> str:
    """Return the notebook that `run` gives for recording, made from earlier verdicts."""
    try:
        notebook = opened(job).notebook
    except Unreadable:
        notebook = nbformat.from_dict(read_job_assignment(job).release)
    return _text(with_outputs(notebook, verdicts))


def _text(notebook: NotebookNode) -> str:
    """Return the notebook as text. It is made from our own release, so it needs no validation and no indentation."""
    return json.dumps(notebook, ensure_ascii=False) + "\n"


def opened(job: Job) -> Transplanted:
    """Return the submission with its answers in our notebook. Raises Unreadable."""
    if job.content is None:
        raise Unreadable(job.problem or f"{job.name}: cannot be read")
    return transplant(read_bytes(job.content, job.name), read_job_assignment(job).release, job.unit, job.name)


def read_job_assignment(job: Job) -> Assignment:
    """Return what the unit asks, parsed once in each thread."""
    key = (job.unit, job.release, job.tests, job.excluded)
    if key not in _here.assignments:
        _here.assignments[key] = read_assignment(job.unit, job.release, dict(job.tests), job.excluded)
    return _here.assignments[key]


def begin(sandbox: Sandbox, unsafe: bool, hidden: tuple[str, ...]) -> None:
    """Make this process, which was forked for jobs, use a sandbox that will be warm when they come."""
    _opened.clear()  # the parent process ends its own sandboxes
    sandbox.borrow()
    _keep(sandbox, (unsafe, hidden))
    _here.warm = True


def _keep(sandbox: Sandbox, settings: tuple[bool, tuple[str, ...]]) -> None:
    if not _opened:
        util.Finalize(None, close_sandboxes, exitpriority=10)  # a forked process runs these, but not atexit's
        atexit.register(close_sandboxes)
    _opened.append(sandbox)
    _here.sandbox, _here.settings, _here.warm = sandbox, settings, False


def _own_sandbox(limits: Limits, unsafe: bool, hidden: tuple[str, ...]) -> Sandbox:
    """Return this thread's one sandbox, which may not be warm yet.

    Limits apply to each submission and need no new sandbox. The folders that a sandbox shows are fixed when it starts,
    so for other settings it is ended and a new one replaces it.
    """
    if _here.sandbox is not None and (_here.settings != (unsafe, hidden) or _here.sandbox not in _opened):
        _close(_here.sandbox)
        _here.sandbox = None
    if _here.sandbox is None:
        _keep(open_sandbox(limits, unsafe=unsafe, hidden=hidden), (unsafe, hidden))
    _here.sandbox.limits = limits
    return _here.sandbox


def _sandbox(job: Job) -> Sandbox:
    sandbox = _own_sandbox(job.limits, job.unsafe, job.hidden)
    if not _here.warm:
        sandbox.__enter__()
        _here.warm = True
    return sandbox


def close_sandboxes() -> None:
    """End the sandboxes of all threads of this process."""
    while _opened:
        _close(_opened[-1])
    _here.sandbox = None


def _close(sandbox: Sandbox) -> None:
    if sandbox in _opened:
        _opened.remove(sandbox)
    sandbox.__exit__(None, None, None)
