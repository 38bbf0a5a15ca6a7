"""Judges partly right answers under many seeds: does a mark ever depend on the draw?

.venv/bin/python tools/partial_marks_many_seeds.py [--draws 200] [--first 0] [--workers 1] [UNIT|FUNCTION ...]

The answers are the wrong ones in tests/answers. Prints each that earned different marks, with the parts that it met
under only some seeds. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from types import FunctionType

os.environ.setdefault("MPLBACKEND", "Agg")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import right_answers_many_seeds  # noqa: E402 (threads are counted when NumPy is first imported)
from autograder.grading.in_process import judge_function  # noqa: E402
from autograder.records import UnknownUnit, Verdict  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
REMEDY = "Give the part that varies a case that decides it in every draw: plant the numbers that tell right from wrong."


def wrong_answers(function: str) -> list[Callable]:
    sys.path[:0] = [path for path in [str(ROOT / "tests")] if path not in sys.path]
    from answers import answers_of

    return answers_of(function, "wrong")


def fresh(answer: Callable) -> Callable:
    """Return a copy of the answer that keeps nothing in its defaults from earlier calls."""
    if type(answer) is not FunctionType:
        return answer
    copied = FunctionType(answer.__code__, answer.__globals__, answer.__name__, None, answer.__closure__)
    copied.__defaults__, copied.__kwdefaults__ = copy.deepcopy((answer.__defaults__, answer.__kwdefaults__))
    return copied


def varying(function: str, seeds: range) -> list[str]:
    """Return a line for each wrong answer to one exercise whose mark varies with the seed."""
    found: dict[str, list[Verdict]] = {answer.__name__: [] for answer in wrong_answers(function)}
    for seed in seeds:
        for answer in wrong_answers(function):
            with contextlib.redirect_stdout(io.StringIO()):
                verdict = judge_function(fresh(answer), function, seed, watched=False, named=False)
            found[answer.__name__].append(verdict)
    return [f"{name}: {told(verdicts)}" for name, verdicts in found.items() if len({v.score for v in verdicts}) > 1]


def told(verdicts: list[Verdict]) -> str:
    """Return each mark and how often it was earned, and the parts that were met only at times."""
    marks = Counter(f"{verdict.score:.3f}" for verdict in verdicts)
    return f"{', '.join(f'{mark} under {count}' for mark, count in marks.most_common())} ({', '.join(parts(verdicts))})"


def parts(verdicts: list[Verdict]) -> Iterator[str]:
    for name in {criterion.name: None for verdict in verdicts for criterion in verdict.criteria}:
        met = [each.met for verdict in verdicts for each in verdict.criteria if each.name == name]
        if 0 < sum(met) < len(verdicts):
            yield f"{name} met under {sum(met)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="UNIT|FUNCTION", help="all exercises, unless some are named")
    parser.add_argument("--draws", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    options = parser.parse_args()
    try:
        names = right_answers_many_seeds.functions(options.names)
    except UnknownUnit as error:
        parser.error(str(error))
    seeds, bad = range(options.first, options.first + options.draws), 0
    with ProcessPoolExecutor(options.workers) as pool:
        for lines in pool.map(partial(varying, seeds=seeds), names):
            for line in lines:
                print(line, flush=True)
            bad += len(lines)
    print(f"{len(names)} exercises under {len(seeds)} seeds: {bad} answers whose mark depends on the draw")
    if bad:
        print(REMEDY)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
