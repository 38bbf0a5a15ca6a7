"""The runs of a class folder: each with its secret seed, and whether it came to its end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

NAME = "runs.jsonl"


def begun(root: Path, seed: int, command: str) -> None:
    """Note that a run has begun. Its seed lets a disputed grade be judged again on the same cases."""
    _note(root, {"seed": str(seed), "command": command, "state": "begun"})


def finished(root: Path, seed: int) -> None:
    """Note that a run has come to its end."""
    _note(root, {"seed": str(seed), "state": "finished"})


def interrupted(root: Path) -> int | None:
    """The seed of the last `autograder grade` if it never came to its end, else None."""
    try:
        lines = (root / "grading" / NAME).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    last: dict[str, str] = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the last line of a run that was killed while it wrote
        if entry.get("command") == "autograder grade" or (last and entry.get("seed") == last["seed"]):
            last = {**last, **entry}
    return int(last["seed"]) if last.get("state") == "begun" else None


def _note(root: Path, entry: dict[str, str]) -> None:
    entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **entry}
    with open(root / "grading" / NAME, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())
