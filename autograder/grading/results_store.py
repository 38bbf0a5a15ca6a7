"""Stores the verdicts on each submission and a log of each run over a class, as JSON.

A verdict is stored only here, and pages and reports read it from here. Its points are not stored, because instructors
change them: every mark comes from the gradebook.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from ..reading.course_contents import Course
from ..records import Criterion, Graded, PointInTime, Verdict, Where

#: Fields of a verdict that come from the gradebook.
MARKS = ("points", "score", "by_hand", "outdated")


def keep(root: Path, item: Graded) -> None:
    """Store one student's verdicts for the class report and the next run; write the file whole or not at all.

    A power cut may lose the last ones, which the next run then grades again.
    """
    path = _kept_path(root, item.unit, item.student)
    path.parent.mkdir(parents=True, exist_ok=True)
    verdicts = [asdict(verdict) for verdict in item.verdicts]
    content = {
        "problem": item.problem,
        "fingerprint": item.fingerprint,
        "seed": item.seed,
        "recorded": item.recorded,
        "page": item.page,
        "verdicts": [{name: value for name, value in each.items() if name not in MARKS} for each in verdicts],
    }
    aside = path.with_suffix(f".{os.getpid()}.part")
    with open(aside, "w", encoding="utf-8", opener=_closed_to_others) as file:  # the file holds the seed
        file.write(json.dumps(content))
    os.replace(aside, path)


def read_kept(root: Path, unit: str, student: str) -> Graded | None:
    """Return the verdicts that an earlier run stored, worth one point each, or None if there are no readable ones."""
    try:
        content = json.loads(_kept_path(root, unit, student).read_text(encoding="utf-8"))
        verdicts = [
            Verdict(
                **{
                    **{name: value for name, value in entry.items() if name not in MARKS},
                    "points": 1.0,
                    "score": entry["share"],
                    "criteria": tuple(Criterion(**criterion) for criterion in entry["criteria"]),
                    "borrowed": tuple(entry["borrowed"]),
                    "where": Where.read(entry.get("where")),
                }
            )
            for entry in content["verdicts"]
        ]
        told = {name: str(content.get(name) or "") for name in ("fingerprint", "seed", "recorded", "page")}
        return Graded(student, unit, verdicts, content["problem"], **told)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _kept_path(root: Path, unit: str, student: str) -> Path:
    return root / "grading" / "verdicts" / unit / f"{student}.json"


def kept(root: Path, units: Sequence[str] = ()) -> Iterator[Graded]:
    """Yield the results that earlier runs stored, unit by unit."""
    for unit in units or Course(root).units():
        for path in sorted((root / "grading" / "verdicts" / unit).glob("*.json")):
            found = read_kept(root, unit, path.stem)
            if found is not None:
                yield found


NAME = "runs.jsonl"
TIME = "%Y-%m-%dT%H:%M:%S%z"


def begun(root: Path, seed: int, command: str) -> None:
    """Record that a run has begun. Its seed lets a disputed answer be judged again on the same cases."""
    _note(root, {"seed": str(seed), "command": command, "state": "begun"})


def finished(root: Path, seed: int, units: Sequence[str] = ()) -> None:
    """Record that a run has finished, and how many answers in the units that it graded are now right."""
    _note(root, {"seed": str(seed), "state": "finished", "units": {unit: _count(root, unit) for unit in units}})


def _count(root: Path, unit: str) -> tuple[int, int]:
    """Return how many answers were judged in a unit, by this run and earlier ones, and how many of them are right."""
    judged = [verdict.verdict for item in kept(root, [unit]) for verdict in item.verdicts]
    answers = [verdict for verdict in judged if verdict not in ("missing", "waiting")]
    return len(answers), answers.count("right")


def past(root: Path) -> Iterator[PointInTime]:
    """Yield the finished runs that noted how many answers were right, in their order."""
    for entry in _entries(root):
        try:
            units = {str(unit): (int(answers), int(right)) for unit, (answers, right) in entry["units"].items()}
            when = datetime.strptime(entry["time"], TIME)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # written before this was noted, or changed by hand
        if entry.get("state") == "finished" and all(0 <= right <= answers for answers, right in units.values()):
            yield PointInTime(when, units)


def interrupted(root: Path) -> int | None:
    """Return the seed of the last `autograder grade` if it never finished, else None."""
    last: dict[str, Any] = {}
    for entry in _entries(root):
        if entry.get("command") == "autograder grade" or (last and entry.get("seed") == last["seed"]):
            last = {**last, **entry}
    return int(last["seed"]) if last.get("state") == "begun" else None


def _entries(root: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = (root / "grading" / NAME).read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the last line of a run that was killed while it wrote


def _note(root: Path, entry: dict[str, Any]) -> None:
    entry = {"time": time.strftime(TIME), **entry}
    with open(root / "grading" / NAME, "a", encoding="utf-8", opener=_closed_to_others) as file:
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _closed_to_others(path: str, flags: int) -> int:
    """Open a file for its owner and the course's group only, because a seed reveals the secret cases."""
    return os.open(path, flags, 0o660)
