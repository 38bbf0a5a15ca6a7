"""What in the rest of a notebook explains a verdict: an own cell that does not run, a misnamed function, an import."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace

from ..data import CellOutcome, CellSource, Transplanted, Verdict
from ..reading.syntax import bound_names, definitions, statements

UNDEFINED = re.compile(r"NameError: name '(\w{1,80})' is not defined")
#: Short names that a cell uses without importing them -> what the import says.
CUSTOMARY = {
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "plt": "import matplotlib.pyplot as plt",
}


def with_circumstances(verdict: Verdict, submission: Transplanted, outcomes: Mapping[str, CellOutcome]) -> Verdict:
    """The verdict, with a sentence more where the rest of the notebook explains it."""
    words = (
        _misnamed(verdict, submission) if verdict.verdict == "missing" else _undefined(verdict, submission, outcomes)
    )
    if not words:
        return verdict
    advice = f"{verdict.advice} {words}".strip() if verdict.advice or verdict.raised else ""
    return replace(verdict, message=f"{verdict.message} {words}", advice=advice)


def _misnamed(verdict: Verdict, submission: Transplanted) -> str:
    name = verdict.function
    others = [other for other in definitions(submission.answers.get(name, "")) if other != name]
    return f"Its cell defines {others[-1]}: name it {name}." if others else ""


def _undefined(verdict: Verdict, submission: Transplanted, outcomes: Mapping[str, CellOutcome]) -> str:
    found = UNDEFINED.search(verdict.message)
    if found is None:
        return ""
    name = found[1]
    for cell in submission.cells:
        outcome = outcomes.get(cell.name)
        if cell.kind == "given" or outcome is None or outcome.status == "ran" or cell.name == verdict.function:
            continue
        if name in {bound for node in statements(cell.source) for bound in bound_names(node)}:
            return _failed(cell, outcome)
    line = CUSTOMARY.get(name) or (f"import {name}" if name in sys.stdlib_module_names else "")
    return f"Write `{line}` into the cell of {verdict.function}." if line else ""


def _failed(cell: CellSource, outcome: CellOutcome) -> str:
    whose = (
        f"The cell of {cell.name}" if cell.kind == "answer" else f"Your cell that begins `{_beginning(cell.source)}`"
    )
    why = {"timeout": "did not come to an end", "died": "ended the whole process", "skipped": "was not reached"}
    if outcome.failure is None:
        return f"{whose} {why.get(outcome.status, 'does not run')}."
    return f"{whose} does not run here: {outcome.failure.type_name}: {outcome.failure.message[:200]}."


def _beginning(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.strip())[:60]
