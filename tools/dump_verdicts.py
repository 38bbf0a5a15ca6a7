"""Writes the verdict on every answer of a commit, so that a change of the judge can show that it changed no mark.

.venv/bin/python tools/dump_verdicts.py OUTPUT [--answers COMMIT] [--seeds 1 2] [--workers 1] [--functions NAME ...]

The answers are the functions NAME__right_… and NAME__wrong_… in tests/ of a commit, read from git; by default one that
still has thousands of former unseen answers. The judge is this folder's. OUTPUT gets one line for each answer and
seed: file, answer, seed, kind of verdict, share of the points. Run it before and after a change and compare the two
files with diff.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import resource
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType

os.environ.setdefault("MPLBACKEND", "Agg")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from autograder.exercises import is_exercise  # noqa: E402 (threads are counted when NumPy is first imported)
from autograder.grading.in_process import judge_function  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
#: The last commit with tests/former.
COMMIT = "bfa7491"
FOLDERS = ("tests/answers", "tests/unseen", "tests/former")
#: Memory of one process, seconds for one answer, and seconds for each of its calls after that.
MEMORY, SECONDS, MORE = 6 * 2**30, 60, 0.2


class TooLong(BaseException):
    """An answer takes longer than SECONDS: each of its calls ends here, and its results are discarded."""


def extract(commit: str, target: Path) -> list[Path]:
    """Write the commit's answers below `target` and return their Python files."""
    there = [folder for folder in FOLDERS if _git("ls-tree", "-d", commit, folder)]
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, *there))) as archive:
        archive.extractall(target, filter="data")
    return sorted(path for path in target.rglob("*.py") if path.name != "__init__.py")


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


@lru_cache(None)
def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answers_in(path: Path, wanted: list[str]) -> Iterator[str]:
    """Return the names of the answers in one file."""
    for name, value in list(vars(module_at(path)).items()):
        function, _, kind = name.partition("__")
        is_answer = callable(value) and kind.startswith(("right_", "wrong_")) and is_exercise(function)
        if is_answer and (not wanted or function in wanted):
            yield name


def lines_of(task: tuple[Path, str], seeds: list[int]) -> list[str]:
    """Return the output lines for one answer."""
    path, name = task
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found = []
    for seed in seeds:
        stopped: list[bool] = []

        def stop(*_: object, stopped: list[bool] = stopped) -> None:
            stopped.append(True)
            raise TooLong

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, SECONDS, MORE)
        told = "timeout\t0.000000"
        with contextlib.suppress(TooLong), contextlib.redirect_stdout(io.StringIO()):
            answer = vars(module_at(path))[name]
            verdict = judge_function(answer, name.partition("__")[0], seed, watched=False, named=False)
            signal.setitimer(signal.ITIMER_REAL, 0)
            told = told if stopped else f"{verdict.verdict}\t{verdict.score:.6f}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        found.append(f"{path.parent.name}/{path.stem}\t{name}\t{seed}\t{told}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", type=Path, help="the file to write")
    parser.add_argument("--answers", default=COMMIT, metavar="COMMIT", help="the commit whose answers are judged")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="the seeds of the cases")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--functions", nargs="+", default=[], metavar="NAME", help="exercises; default: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = extract(options.answers, Path(folder))
        tasks = sorted(
            ((path, name) for path in paths for name in answers_in(path, options.functions)),
            key=lambda task: task[1],  # exercise by exercise, so that each process draws an exercise's cases once
        )
        with ProcessPoolExecutor(options.workers) as pool:
            found = [
                line
                for lines in pool.map(partial(lines_of, seeds=options.seeds), tasks, chunksize=20)
                for line in lines
            ]
    options.output.write_text("".join(f"{line}\n" for line in sorted(found)), encoding="utf-8")
    print(f"{len(found)} verdicts on {len(tasks)} answers in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
