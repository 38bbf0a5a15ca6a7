"""Hunts, which find out what a function does by asking it: what their own calls of it could show."""

from __future__ import annotations

from collections.abc import Sequence

from ..data import Answer, Call, Finding
from ..exercises.kit.records import Sent
from ..judging.posed import Posed

#: Of so many wrong cases it is told.
EXPERIMENTS = 2
#: What a hunt answers.
VERDICTS = ("bool", "text")


def is_hunt(posed: Posed) -> bool:
    """Whether the answer is a verdict on what is handed in: which way the program goes tells what it found."""
    return all(leaf.kind in VERDICTS for leaf in posed.exercise.leaves)


def of_its_calls(posed: Posed, answer: Answer, calls: Sequence[Call], wrong: Sequence[int]) -> Finding | None:
    """Of a hunt: what its own calls could show in the first of the wrong cases, one of each kind."""
    told: dict[str, str] = {}
    for index in wrong:
        case, asked = posed.cases[index], answer.questions.get(index, ())
        if case.label in told.values() or any(each.refusal for each in asked):
            continue
        sent = [Sent(each.args, each.kwargs) for each in asked]
        text = posed.exercise.experiment(case, posed.expected[index].value, calls[index].value, sent)
        if text:
            told.setdefault(text, case.label)
        if len(told) == EXPERIMENTS:
            break
    if not told:
        return None
    return Finding("experiment", " ".join(f"In the case “{label}”: {text}" for text, label in told.items()))
