"""Judges right answers on many draws of the cases: does chance ever reject one?

.venv/bin/python tools/right_answers_many_seeds.py [--draws 2000] [--first 0] [--workers 1] [--published] [NAME ...]

Each case is called once, because what a second call shows does not depend on the draw.
Right answers are the published solution of every exercise and the functions `function__right_what` of tests/answers/.
Prints how many draws each passed, and each rejection with its seed and message. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import nbformat  # noqa: E402 (threads are counted when NumPy is first imported)

from autograder.diagnosis.diagnose import judge  # noqa: E402
from autograder.exercises import exercises, find_exercise, unit_names  # noqa: E402
from autograder.judging.cases_and_expected import Posed  # noqa: E402
from autograder.judging.hidden_cases import Challenge  # noqa: E402
from autograder.records import UnknownUnit, Verdict  # noqa: E402
from autograder.running.sandbox_messages import Request  # noqa: E402
from autograder.running.torch_functions import one_thread  # noqa: E402
from autograder.worker.call_function import answer_of_host, perform  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = "published"
#: Draws in one job of a process.
AT_A_TIME = 50
REMEDY = (
    "Read each rejected answer first: it may be wrong. If it is right, that case hangs on rounding or on "
    "what the contract leaves open: draw its numbers otherwise, away from ties, zeros and the edges of a threshold."
)
#: Rejections of one answer that are printed in full.
TOLD = 5


@dataclass
class Tally:
    """The results of one answer: draws, and (seed, message) of each rejection."""

    draws: int = 0
    rejected: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0


@functools.cache
def published(unit: str) -> dict[str, Callable[..., Any]]:
    """Run a unit's given and answer cells in the order of the notebook; return its published solutions."""
    names: dict[str, Any] = {"__name__": "__main__"}
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    for cell in notebook.cells:
        told = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and ("given" in cell.metadata.get("tags", []) or told.get("solution")):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(cell.source, f"<{told.get('grade_id', 'given')}>", "exec"), names)
    return {name: names[name] for name in exercises(unit)}


def right_answers(function: str, only_published: bool = False) -> dict[str, Callable[..., Any]]:
    """Return name -> right answer to one exercise; the first is the published one."""
    unit = find_exercise(function).unit
    found = {PUBLISHED: published(unit)[function]}
    if not only_published and (ROOT / "tests" / "answers").is_dir():
        sys.path[:0] = [path for path in [str(ROOT / "tests")] if path not in sys.path]
        listed = importlib.import_module("answers").answers_of(function, "right")
        found |= {answer.__name__.partition("__right_")[2]: answer for answer in listed}
    return found


class _Heard(Exception):
    """Every case has been answered."""


def posed_once(function: str, seed: int) -> Posed:
    """Return the cases of one draw, each to be called once."""
    posed = Challenge(seed).posed(function)
    posed.cases = [replace(case, once=True) for case in posed.cases]
    return posed


def judged_once(answer: Callable[..., Any], posed: Posed) -> Verdict:
    """Judge one right answer by the same route as in the sandbox, without the repetitions."""
    request = Request(posed.exercise.name, posed.cases, library=posed.exercise.library)
    transcript = request.transcript()

    def ask(header: dict[str, Any], payload: bytes) -> Any:
        return answer_of_host(*request.reply(header, payload))

    def hear(header: dict[str, Any], payload: bytes) -> None:
        transcript.take(header, payload)
        if len(transcript.answer.calls) == len(posed.cases):
            raise _Heard

    with contextlib.ExitStack() as stack:
        if posed.exercise.library == "torch":
            stack.enter_context(one_thread())
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.suppress(_Heard))
        perform(answer, request.calls, request.payload, hear, ask)
    return judge(posed, transcript.answer)


def put_through(function: str, seeds: range, only_published: bool = False) -> dict[str, Tally]:
    """Judge every right answer to `function` on the cases of every seed."""
    answers = right_answers(function, only_published)
    tallies = {name: Tally() for name in answers}
    for seed in seeds:
        posed = posed_once(function, seed)
        for name, answer in answers.items():
            tally, started = tallies[name], time.process_time()
            verdict = judged_once(answer, posed)
            tally.draws, tally.seconds = tally.draws + 1, tally.seconds + time.process_time() - started
            if verdict.verdict != "right":
                tally.rejected.append((seed, verdict.message))
    return tallies


def functions(names: list[str]) -> list[str]:
    """Return the functions that `names` (units or functions) mean; all if it is empty. Raises UnknownUnit."""
    known = [name for unit in unit_names() for name in exercises(unit)]
    found: list[str] = []
    for name in names:
        meant = [unit for unit in unit_names() if unit.startswith(name)]
        if name not in known and len(meant) != 1:
            raise UnknownUnit(f"there is no unit and no exercise {name!r}; the units are {', '.join(unit_names())}")
        found += [name] if name in known else list(exercises(meant[0]))
    return list(dict.fromkeys(found)) or known


def tasks(names: list[str], draws: int, first: int, only_published: bool) -> Iterator[tuple[str, range, bool]]:
    for name in names:
        for start in range(first, first + draws, AT_A_TIME):
            yield name, range(start, min(start + AT_A_TIME, first + draws)), only_published


def told(function: str, tallies: dict[str, Tally]) -> None:
    """Return the lines of output for one function."""
    draws = max(tally.draws for tally in tallies.values())
    seconds = sum(tally.seconds for tally in tallies.values())
    rejected = sum(len(tally.rejected) for tally in tallies.values())
    count = f"{len(tallies)} right answer{'s' * (len(tallies) > 1)}"
    print(f"{function}: {count}, {draws} draws, {rejected or 'none'} rejected ({seconds:.0f} s)", flush=True)
    for name, tally in tallies.items():
        for seed, message in tally.rejected[:TOLD]:
            print(f"  {name}, seed {seed}: {message}", flush=True)
        if len(tally.rejected) > TOLD:
            print(f"  {name}: {len(tally.rejected)} rejections in all", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Puts right answers through many draws of the cases.")
    parser.add_argument("names", nargs="*", metavar="UNIT|FUNCTION", help="all exercises, unless some are named")
    parser.add_argument("--draws", type=int, default=2000, help="draws for each answer (default: 2000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--published", action="store_true", help="the published solutions alone")
    options = parser.parse_args(arguments)
    if options.draws < 1 or options.workers < 1 or options.first < 0:
        parser.error("--draws and --workers take a number from 1 on, --first one from 0 on")
    try:
        names = functions(options.names)
    except UnknownUnit as error:
        parser.error(str(error))
    found: dict[str, dict[str, Tally]] = {name: {} for name in names}
    todo = list(tasks(names, options.draws, options.first, options.published))
    left = {name: sum(task[0] == name for task in todo) for name in names}
    with contextlib.ExitStack() as stack:
        spread = stack.enter_context(ProcessPoolExecutor(options.workers)).map if options.workers > 1 else map
        for (name, _, _), tallies in zip(todo, spread(put_through, *zip(*todo, strict=True)), strict=True):
            for answer, tally in tallies.items():
                total = found[name].setdefault(answer, Tally())
                total.draws, total.seconds = total.draws + tally.draws, total.seconds + tally.seconds
                total.rejected += tally.rejected
            left[name] -= 1
            if not left[name]:
                told(name, found[name])
    rejected = any(tally.rejected for tallies in found.values() for tally in tallies.values())
    if rejected:
        print(REMEDY)
    return int(rejected)


if __name__ == "__main__":
    sys.exit(main())
