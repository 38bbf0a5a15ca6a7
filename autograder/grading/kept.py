"""What was found out about each submission, kept as JSON for the class report and for the next run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from ..data import Criterion, Graded, Verdict, Where
from ..reading.course import Course


def keep(root: Path, item: Graded) -> None:
    """Keep one student's verdicts as JSON, for the class report and the next run; written whole or not at all.

    A power cut may lose the last ones: the next run grades those again.
    """
    path = _kept_path(root, item.unit, item.student)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "problem": item.problem,
        "fingerprint": item.fingerprint,
        "recorded": item.recorded,
        "page": item.page,
        "verdicts": [asdict(verdict) for verdict in item.verdicts],
    }
    aside = path.with_suffix(f".{os.getpid()}.part")
    with open(aside, "w", encoding="utf-8") as file:
        file.write(json.dumps(content))
    os.replace(aside, path)


def read_kept(root: Path, unit: str, student: str) -> Graded | None:
    """The verdicts that an earlier run kept, or None where there are none that can be read."""
    try:
        content = json.loads(_kept_path(root, unit, student).read_text(encoding="utf-8"))
        verdicts = [
            Verdict(
                **{
                    **entry,
                    "criteria": tuple(Criterion(**criterion) for criterion in entry["criteria"]),
                    "borrowed": tuple(entry["borrowed"]),
                    "where": Where.read(entry.get("where")),
                }
            )
            for entry in content["verdicts"]
        ]
        told = {name: str(content.get(name) or "") for name in ("fingerprint", "recorded", "page")}
        return Graded(student, unit, verdicts, content["problem"], **told)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _kept_path(root: Path, unit: str, student: str) -> Path:
    return root / "grading" / "verdicts" / unit / f"{student}.json"


def kept(root: Path, units: Sequence[str] = ()) -> Iterator[Graded]:
    """The verdicts kept by earlier runs, unit by unit."""
    for unit in units or Course(root).units():
        for path in sorted((root / "grading" / "verdicts" / unit).glob("*.json")):
            found = read_kept(root, unit, path.stem)
            if found is not None:
                yield found
