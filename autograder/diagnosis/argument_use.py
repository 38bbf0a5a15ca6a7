"""Diagnoses how an answer used the functions and generators that the cases passed to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..exercises.kit.exercise_records import Sent
from ..exercises.kit.special_arguments import Rng
from ..judging.cases_and_expected import Posed
from ..judging.compare_results import same
from ..judging.side_effects import generator_of, name_of, wrong_count
from ..records import Answer, Call, Finding
from ..safe_text import counted
from .finding_sentences import named, say

#: The number of failing cases that the message describes.
EXPERIMENTS = 2
#: The kinds of result of a black-box exercise.
VERDICTS = ("bool", "text")


def is_hunt(posed: Posed) -> bool:
    """Return whether this is a black-box exercise, whose result is a verdict on a function that was passed in."""
    return all(leaf.kind in VERDICTS for leaf in posed.exercise.leaves)


def of_its_calls(posed: Posed, answer: Answer, calls: Sequence[Call], wrong: Sequence[int]) -> Finding | None:
    """Describe what an answer's own calls could show in failing cases of a black-box exercise, one per kind."""
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
    texts = (say("experiment", case=label, experiment=f"{text[:1].lower()}{text[1:]}") for text, label in told.items())
    return Finding("experiment", " ".join(texts))


def never_called(posed: Posed, answer: Answer) -> Finding | None:
    """Return a finding if the answer never calls a function that every case passes in."""
    for place in sorted({place for _, place in answer.asked}, key=str):
        counts = [count for (_, at), count in answer.asked.items() if at == place]
        if len(counts) == len(posed.cases) and not any(counts):
            name = name_of(posed, place)
            return Finding(f"never-calls-{name}".replace("_", "-"), say("never-calls", name=name))
    return None


def observed(
    posed: Posed, answer: Answer, calls: Sequence[Call], wrong: Sequence[int], known: str | None = None
) -> Finding | None:
    """Return what is wrong with the calls of functions and generators in the failing cases, if anything.

    known: the slug of the mistake that was named, if any; then only the number of calls adds to it.
    """
    found = [_refused(posed, answer, wrong)]
    wrong = [index for index in wrong if calls[index].failure is None]
    if known is None and wrong:
        found.append(_generator_unused(posed, calls, wrong))
    for place in sorted({place for _, place in answer.asked}, key=str) if wrong else ():
        asked = {i: [each for each in answer.questions.get(i, ()) if each.place == place] for i in range(len(calls))}
        found.append(wrong_count(posed, place, asked, calls, wrong))
    if known is None and not any(found) and posed.exercise.experiment is not None:
        found.append(of_its_calls(posed, answer, calls, wrong))
    seen = [each for each in found if each is not None]
    return Finding(seen[0].slug, " ".join(each.text for each in seen)) if seen else None


def _refused(posed: Posed, answer: Answer, wrong: Sequence[int]) -> Finding | None:
    """The answer calls a function more often than it is allowed to."""
    for index in wrong:
        for each in answer.questions.get(index, ()):
            if each.allowed is not None:
                name, allowed = name_of(posed, each.place), counted(each.allowed, "call")
                text = say("calls-too-often", name=name, allowed=allowed, case=posed.cases[index].label)
                return Finding(f"calls-{name}-too-often".replace("_", "-"), text)
    return None


def _generator_unused(posed: Posed, calls: Sequence[Call], wrong: Sequence[int]) -> Finding | None:
    """The answer does not draw from the given generator in failing cases whose right result depends on it."""
    name = generator_of(posed)
    if not name or any(calls[index].drew is not False for index in wrong):
        return None
    for index in wrong[:3]:
        case = posed.cases[index]
        other = replace(case, args=tuple(replace(v, seed=v.seed + 1) if isinstance(v, Rng) else v for v in case.args))
        if same(posed.reference_on(other).value, posed.expected[index].value, 1e-9):
            return None
    if len(wrong) == 1:
        return named("generator-unused/case", case=posed.cases[wrong[0]].label, name=name)
    elsewhere = any(call.drew for call in calls)
    return named("generator-unused/wrong" if elsewhere else "generator-unused", name=name)
