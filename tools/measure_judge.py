"""How does the judge do on answers that nobody had seen when it was written?

.venv/bin/python tools/measure_judge.py [--second] [--seed 1] [--workers 1] [--unread] [--record] [UNIT|FUNCTION ...]

The answers are in tests/unseen/, a second set in tests/unseen/second/. Nothing is ever added to the judge for one of
them. A program cannot tell whether a message names the cause, so people read each message next to its code. read.json
in the same folder holds their reading ("cause", "symptom" or "false") with a checksum of the finding: the mistake's
name, and the cases, lines and pieces of program that the message names. A finding that nobody has read counts as
unread, and --unread prints its message; a reworded finding needs a new reading only if what it names changes. Forbidden
calls are not looked for, because the answers include the functions that a notebook gives.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import inspect
import json
import os
import re
import resource
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from autograder.exercises import find_exercise, is_exercise  # noqa: E402 (threads are counted at the first import)
from autograder.grading.in_process import is_right, judge_function  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
#: The sets of answers.
FIRST = ROOT / "tests" / "unseen"
SECOND = FIRST / "second"
SEED = 1
#: Memory that one process may use, in bytes.
MEMORY = 6 * 2**30
SAYINGS = ("cause", "symptom", "false")
#: Matches what a message points to: pieces of program, cases, lines and other numbers.
NAMED = re.compile(r"`[^`]*`|“[^”]*”|\d+(?:\.\d+)?")
#: Answers that their authors call right although they are wrong, or the reverse: they count as neither.
BEYOND = "is wrong in counts above 2**63 only, and these are not tested"
OUTSIDE = {
    "catches_wrong_decoder__right_sixteenth_slow_formulas": "misses two kinds of wrong decoders",
    "attention__wrong_sixteenth_written_in_torch": "is wrong in using PyTorch, looked for elsewhere",
    "grouped_query_attention__wrong_sixteenth_by_pytorchs_own": "is wrong in a forbidden call, looked for elsewhere",
    "pre_norm_block__wrong_sixteenth_forbidden_attention": "is wrong in a forbidden call, looked for elsewhere",
    "attention_parameters__wrong_sixteenth_int64_overflows": BEYOND,
    "attention_flops__wrong_sixteenth_int64_overflow": BEYOND,
    "score_matrix_bytes__wrong_sixteenth_square_by_math_pow": BEYOND,
    "attention_flops__wrong_b_sixty_four_bits": BEYOND,
    "score_matrix_bytes__wrong_b_int64_product": BEYOND,
}


@dataclass(frozen=True)
class Told:
    """The result of judging one answer.

    name: function__wrong_what. said: how a reader classed the message; "" if nobody has read it.
    """

    name: str
    unit: str
    accepted: bool
    mistake: str | None
    advice: str
    said: str

    @property
    def is_right(self) -> bool:
        return self.name.partition("__")[2].startswith("right_")


def answers(wanted: list[str], folder: Path = FIRST) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield (name, function) for each answer to the wanted units' or functions' exercises; all if none is wanted."""
    sys.path[:0] = [path for path in [str(ROOT / "tests")] if path not in sys.path]
    package = ".".join(folder.relative_to(ROOT / "tests").parts)
    for path in sorted(folder.glob("unit_*.py")):
        module = importlib.import_module(f"{package}.{path.stem}")
        for name, value in list(vars(module).items()):
            function, _, kind = name.partition("__")
            if name in OUTSIDE:
                continue
            if callable(value) and kind.startswith(("right_", "wrong_")) and is_exercise(function):
                unit = find_exercise(function).unit
                if not wanted or any(each in (function, unit) or unit.startswith(f"{each}_") for each in wanted):
                    yield name, value


@functools.cache
def by_name(function: str, folder: Path) -> dict[str, Callable[..., Any]]:
    """Return the answers to one exercise."""
    return dict(answers([function], folder))


@functools.cache
def read_before(folder: Path) -> dict[str, tuple[str, str]]:
    """Return answer -> how its message was read, and the checksum of the finding."""
    return {name: tuple(row) for name, row in json.loads((folder / "read.json").read_text(encoding="utf-8")).items()}


def checksum(mistake: str | None, message: str) -> str:
    """Return a checksum of the finding, in whatever words: its name, and what the message points to."""
    return f"{zlib.crc32(json.dumps([mistake, NAMED.findall(message)]).encode()):08x}"


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Limit the memory as the sandbox does, because a version of an answer may allocate more than there is."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(ValueError, OSError):  # not every system has this limit or allows setting it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, before)


def is_accepted(name: str, seed: int, folder: Path = FIRST) -> bool:
    """Return whether the judge accepts one answer."""
    function = name.partition("__")[0]
    with little_memory():
        return is_right(by_name(function, folder)[name], function, seed, watched=False)


def told(name: str, seed: int, folder: Path = FIRST) -> Told:
    """Judge one answer and diagnose its mistake."""
    function = name.partition("__")[0]
    answer = by_name(function, folder)[name]
    with little_memory():
        verdict = judge_function(answer, function, seed, watched=False)
    message = verdict.advice or verdict.message
    said, read = read_before(folder).get(name, ("", ""))
    said = said if read == checksum(verdict.mistake, message) else ""
    return Told(name, verdict.unit, verdict.verdict == "right", verdict.mistake, message, said)


def counted(all_told: list[Told]) -> dict[str, int]:
    """Count the wrong answers, those rejected, their messages by reading, and the right and accepted answers."""
    wrong = [each for each in all_told if not each.is_right]
    said = Counter(each.said for each in wrong if not each.accepted)
    return {
        "wrong": len(wrong),
        "rejected": sum(not each.accepted for each in wrong),
        **{saying: said[saying] for saying in SAYINGS},
        "unread": said[""],
        "right": len(all_told) - len(wrong),
        "accepted": sum(each.accepted for each in all_told if each.is_right),
    }


def line(name: str, count: dict[str, int]) -> str:
    """Return a row of the table."""
    share = f"{count['cause'] / max(count['wrong'], 1):6.1%}"
    cells = [f"{count[key]:>9}" for key in ("wrong", "rejected", *SAYINGS, "unread", "right", "accepted")]
    return f"{name:<24}{''.join(cells)}  told the cause:{share}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED, help="the seed of the cases")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--unread", action="store_true", help="print what nobody has read, beside its code")
    parser.add_argument("--second", action="store_true", help="judge the second set of answers")
    parser.add_argument("--record", action="store_true", help="keep the counts in figure.json beside the answers")
    parser.add_argument("wanted", nargs="*", metavar="UNIT|FUNCTION", help="all where none is named")
    options = parser.parse_args()
    folder = SECOND if options.second else FIRST
    names = [name for name, _ in answers(options.wanted, folder)]
    if not names:
        parser.error(f"no answers to {', '.join(options.wanted)} in {folder}")
    with ProcessPoolExecutor(options.workers) as pool:
        found = list(pool.map(partial(told, seed=options.seed, folder=folder), names, chunksize=8))
    if options.unread:
        for each in found:
            if not each.is_right and not each.accepted and not each.said:
                source = inspect.getsource(by_name(each.name.partition("__")[0], folder)[each.name])
                print(
                    json.dumps(
                        {"answer": each.name, "mistake": each.mistake, "message": each.advice, "code": source},
                        ensure_ascii=False,
                    )
                )
        return 0
    counts = {
        u: counted([each for each in found if each.unit == u]) for u in dict.fromkeys(each.unit for each in found)
    }
    if options.record:
        figure = {"measured": date.today().isoformat(), "all": counted(found), "units": counts}
        (folder / "figure.json").write_text(json.dumps(figure, indent=1) + "\n", encoding="utf-8")
    titles = [f"{title:>9}" for title in ("wrong", "rejected", *SAYINGS, "unread", "right", "accepted")]
    print(f"{'':<24}{''.join(titles)}")
    for unit, count in counts.items():
        print(line(unit, count))
    print(line("all", counted(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
