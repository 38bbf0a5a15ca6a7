"""From what a function answered to a verdict: which cases are right, what that earns, and which mistake explains it.

The judge holds the expected outcomes and never runs a student's code. Its messages name cases, shapes and places,
never an expected number.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import CONDUCT, FIRST_SEEN, Answer, Call, Criterion, Finding, Verdict
from ..exercises.kit.records import CONDUCT_SHARE, Case
from ..running.tensors import as_asked
from ..worker.values import leaves
from .compare import Problem, find_gradient_problem, find_problem, flat, same
from .posed import Posed
from .recognise import of_values, recognise

#: A message that names more numbers than this names everything, and so nothing.
NUMBERS_CAP = 20
#: Findings that name a symptom: here cases of equal sizes may tell the cause.
VAGUE = (None, "shapes-do-not-fit", "wrong-shape", "index-out-of-range", "not-general", "only-made")


def without_answer(posed: Posed, verdict: str, message: str, mistake: str | None = None) -> Verdict:
    """A verdict of no points, for what could not or may not be asked."""
    exercise = posed.exercise
    return Verdict(exercise.unit, exercise.name, 1.0, 0.0, verdict, mistake, message)


def ask_and_judge(posed: Posed, ask: Callable[[Posed], Answer]) -> Verdict:
    """Ask the cases, and judge what is answered; where it is wrong and says little, ask what says more of it."""
    answer = ask(posed)
    verdict = judge(posed, answer)
    vague = verdict.mistake in VAGUE or str(verdict.mistake).startswith("fails-")
    if posed.probes is None or answer.status != "answered" or verdict.verdict not in ("wrong", "crashed") or not vague:
        return verdict
    return judge(posed, answer, ask(posed.probes))


def judge(posed: Posed, answer: Answer, probed: Answer | None = None) -> Verdict:
    """Judge one answer against one posed exercise, as if it were worth one point.

    probed: the answer to `posed.probes`, which changes no mark and may tell what went wrong.
    """
    with np.errstate(all="ignore"):  # a stranger's numbers may overflow whatever they are cast to
        try:
            return _judge(posed, answer, probed)
        except MemoryError:
            return without_answer(posed, "crashed", "What it returned takes more memory to compare than there is.")


def _judge(posed: Posed, answer: Answer, probed: Answer | None) -> Verdict:
    exercise = posed.exercise
    if answer.status == "missing":
        return without_answer(posed, "missing", answer.reason or f"There is no function {exercise.name} yet.")
    if answer.status == "forbidden":
        text = f"uses {answer.reason}. This exercise is to be done without it, as the notebook says."
        return without_answer(posed, "forbidden", f"The answer to {exercise.name} {text}")
    calls = [_in_our_terms(posed, case, call) for case, call in zip(posed.cases, answer.calls, strict=False)]
    if calls and all(call.failure is not None and call.failure.type_name == "NotImplementedError" for call in calls):
        return without_answer(posed, "missing", f"{exercise.name} is not written yet: it raises NotImplementedError.")

    problems = _problems(posed, calls)
    whole = _is_whole(posed, answer)
    misconduct = _misconduct(posed, calls) if whole else None
    criteria = _criteria(posed, problems, whole and misconduct is None)
    if all(criterion.met for criterion in criteria) and answer.status == "answered":
        message = f"Right: all {len(calls)} hidden cases pass."
        return Verdict(exercise.unit, exercise.name, 1.0, 1.0, "right", None, message, criteria)

    name, (finding, seen) = "wrong", _diagnose(posed, calls, problems, misconduct)
    never = _never_called(posed, answer)
    if never is not None and not any(call.failure is not None for call in calls):
        finding = never
    elif probed is not None:
        finding = _of_probes(posed, probed, finding)
    raised = _raised(posed, calls, problems)
    if answer.status == "timeout":
        name, finding, seen, raised = "timeout", Finding(None, answer.reason or "It did not come to an end."), "", ""
    elif answer.status == "crashed":
        name, finding, seen, raised = "crashed", Finding(None, answer.reason or "Its process died."), "", ""
    elif _core_raised(posed, calls, problems):
        name = "crashed"
    message = " ".join(filter(None, (raised, finding.text, seen, _passed(criteria))))
    advice, earned = finding.text or ("" if raised else seen), _score(posed, criteria)
    found = Verdict(exercise.unit, exercise.name, 1.0, earned, name, finding.slug, message, criteria, advice)
    return replace(found, raised=raised)


def _is_whole(posed: Posed, answer: Answer) -> bool:
    """Whether it was asked everything, repetitions included: good conduct cannot be seen sooner."""
    calls = answer.calls
    return (
        answer.status == "answered"
        and len(calls) == len(posed.cases)
        and all(call.again is not None or case.once for case, call in zip(posed.cases, calls, strict=True))
    )


def _in_our_terms(posed: Posed, case: Case, call: Call) -> Call:
    """A call with arrays for tensors, and one flat tuple of results."""
    exercise = posed.exercise

    def plain(value: Any) -> Any:
        value = as_asked(value) if exercise.library == "torch" else value
        return value if case.gradient else flat(exercise.returns, value)

    again = replace(call.again, value=plain(call.again.value)) if call.again is not None else None
    after, made = call.inputs_after, call.made
    if exercise.library == "torch":
        after = as_asked(after)
    return replace(call, value=plain(call.value), later=plain(call.later), again=again, inputs_after=after, made=made)


def _problems(posed: Posed, calls: list[Call]) -> list[Problem | None]:
    """What is wrong with each call; what is off is looked at again with the tolerance that rounding asks for."""
    cases = posed.cases
    problems = [_problem(posed, index, calls) for index in range(len(cases))]
    if any(problems):
        posed.weigh()
    if posed.cases is not cases:  # another thread may have been first
        problems = [_problem(posed, index, calls) for index in range(len(cases))]
    return problems


def _problem(posed: Posed, index: int, calls: list[Call]) -> Problem | None:
    exercise, case, expected = posed.exercise, posed.cases[index], posed.expected[index]
    if index >= len(calls):
        return Problem("unanswered", "it gave no answer")
    call = calls[index]
    if case.raises is not None:
        if call.failure is None:
            return Problem("not-raised", f"it raised nothing where {case.raises.type_name} was asked for")
        if call.failure.type_name != case.raises.type_name:
            found = call.failure.described(exercise.name)
            return Problem("raised", f"it raised {found} where {case.raises.type_name} was asked for")
        numbers = len(re.findall(r"\d+", call.failure.message))
        if numbers > NUMBERS_CAP or not all(word in call.failure.message for word in case.raises.mentions):
            return Problem("not-raised", f"the message of its {case.raises.type_name} does not name what is wrong")
        return None
    if call.failure is not None:
        return Problem("raised", f"it raised {call.failure.described(exercise.name)}")
    if case.gradient:
        return find_gradient_problem(_names(posed, case), call.value, expected.value, case)
    if exercise.examine is not None and call.value is not None:
        symptom = exercise.examine(case, call.value)
        return Problem("examined", symptom.text, slug=symptom.slug) if symptom else None
    many = isinstance(exercise.returns, tuple)
    problem = find_problem(exercise.leaves, many, call.value, expected.value, case, exercise.library)
    if problem is None and case.watch and exercise.made is not None:
        text = exercise.made(case, [array for array in call.made if isinstance(array, np.ndarray)])
        problem = Problem("made", text) if text else None
    if problem is None and case.quiet and call.numerical_warnings:
        return Problem("warned", f"NumPy warned: {call.numerical_warnings[0]}")
    return problem


def _names(posed: Posed, case: Case) -> list[str]:
    """The floating inputs of a case, in order, as the student knows them: X, params["W_Q"]."""
    parameters = list(inspect.signature(posed.exercise.reference).parameters)
    named = {**dict(zip(parameters, case.args, strict=False)), **case.kwargs}
    return [name for key, value in named.items() for name in _paths(key, value)]


def _paths(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(f'{name}["{key}"]', item)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _paths(f"{name}[{index}]", item)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield name


def _misconduct(posed: Posed, calls: list[Call]) -> Finding | None:
    """Does the function change its inputs, answer differently when asked again, or change an earlier result?"""
    for case, call in zip(posed.cases, calls, strict=False):
        given = leaves((*case.args, *case.kwargs.values()))
        inputs = [value for value in given if isinstance(value, np.ndarray) and value.ndim]
        after = call.inputs_after
        if len(after) != len(inputs) or not all(map(_unchanged, inputs, after)):
            text = "The function changes its input. Work on a copy, or write the result into a new array."
            return Finding("input-changed", text)
    for case, call in zip(posed.cases, calls, strict=False):
        if call.failure is None and call.again is not None and not _repeats(call.value, call.again):
            text = "Asked twice with the same inputs, it answers differently. Does it draw random numbers of its own?"
            return Finding("not-repeatable", text)
        if call.later is None and case.once:
            continue
        if call.failure is None and not same(call.later, call.value, 0.0) and not _odd(call.value):
            text = "A later call changes what an earlier one returned. Does it hand out the same array each time?"
            return Finding("earlier-result-changed", text)
    return None


def _unchanged(before: np.ndarray, after: Any) -> bool:
    return isinstance(after, np.ndarray) and before.shape == after.shape and np.array_equal(before, after)


def _repeats(value: Any, again: Call) -> bool:
    return again.failure is None and (same(again.value, value, 1e-9) or _odd(value))


def _odd(value: Any) -> bool:
    """Is it a value that cannot be compared with itself, such as an object of a foreign type?"""
    return not same(value, value, 0.0)


def _criteria(posed: Posed, problems: list[Problem | None], well_conducted: bool) -> tuple[Criterion, ...]:
    counted = []
    for name in posed.exercise.credit:
        passed = [
            problem is None for case, problem in zip(posed.cases, problems, strict=True) if case.criterion == name
        ]
        counted.append(Criterion(name, sum(passed), len(passed)))
    return (*counted, Criterion(CONDUCT, int(well_conducted), 1))


def _score(posed: Posed, criteria: tuple[Criterion, ...]) -> float:
    """The share earned: the first criterion is the core, and without it nothing is."""
    if not criteria[0].met:
        return 0.0
    share = sum(posed.exercise.credit[criterion.name] for criterion in criteria[:-1] if criterion.met)
    return (1 - CONDUCT_SHARE) * share + CONDUCT_SHARE * criteria[-1].met


def _core_raised(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> bool:
    core = next(iter(posed.exercise.credit))
    kinds = [
        problem.kind if problem is not None else "right"
        for case, problem in zip(posed.cases, problems, strict=True)
        if case.criterion == core and case.raises is None
    ]
    return bool(kinds) and all(kind == "raised" for kind in kinds)


def _raised(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> str:
    """The exception that nobody asked for, in a sentence, if it is the first that fails or ends a case of the core."""
    at, first = _first_raised(posed, problems), _first(problems)
    core = next(iter(posed.exercise.credit))
    if at is None or (at != first and posed.cases[at].criterion != core):
        return ""
    return f"It raises {calls[at].failure.described(posed.exercise.name)}."


def _first_raised(posed: Posed, problems: list[Problem | None]) -> int | None:
    ended = (index for index, problem in enumerate(problems) if problem is not None and problem.kind == "raised")
    return next((index for index in ended if posed.cases[index].raises is None), None)


def _first(problems: list[Problem | None]) -> int | None:
    return next((index for index, problem in enumerate(problems) if problem is not None), None)


def _diagnose(
    posed: Posed, calls: list[Call], problems: list[Problem | None], misconduct: Finding | None
) -> tuple[Finding, str]:
    """The mistake, and where it was first seen."""
    first, raised = _first(problems), _first_raised(posed, problems)
    if first is None:
        return misconduct or Finding(None, ""), ""
    if misconduct is not None and misconduct.slug == "not-repeatable":
        return misconduct, ""  # what differs from call to call is explained by no fixed mistake
    ordinary = [p for p, case in zip(problems, posed.cases, strict=True) if p is not None and not case.gradient]
    if misconduct is not None and not ordinary:
        # An input that asks for a gradient cannot be written to: that follows from the misconduct.
        return misconduct, ""
    finding = _recognised(posed, calls, problems) or misconduct or Finding(None, "")
    if _raised(posed, calls, problems):
        return finding, f"{FIRST_SEEN} “{posed.cases[raised].label}”."
    seen = f"{FIRST_SEEN} “{posed.cases[first].label}”: {problems[first].text}."
    if raised is not None:
        seen += f" In the case “{posed.cases[raised].label}” {problems[raised].text}."
    return finding, seen


def _recognised(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """The mistake by name, if there is one: that a name cannot be found must cost nobody a mark."""
    try:
        return recognise(posed, calls, problems)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return None


def _never_called(posed: Posed, answer: Answer) -> Finding | None:
    """Certain, and so before anything that is likely: a function that every case hands over is never asked for."""
    places = {place for _, place in answer.asked}
    names = [*inspect.signature(posed.exercise.reference).parameters]
    for place in sorted(places, key=str):
        counts = [count for (_, at), count in answer.asked.items() if at == place]
        if len(counts) == len(posed.cases) and not any(counts):
            name = names[place] if isinstance(place, int) and place < len(names) else str(place)
            return Finding(f"never-calls-{name}".replace("_", "-"), f"It never calls `{name}`, which it is handed.")
    return None


def _of_probes(posed: Posed, probed: Answer, finding: Finding) -> Finding:
    """What the cases of equal sizes tell, or what was found without them."""
    probes = posed.probes
    calls = [_in_our_terms(probes, case, call) for case, call in zip(probes.cases, probed.calls, strict=False)]
    if probed.status != "answered" or len(calls) < len(probes.cases) or any(call.failure for call in calls):
        return finding
    problems = _problems(probes, calls)
    if not any(problems):
        if finding.slug.startswith("fails-"):  # right with other sizes, too: its trouble is elsewhere
            return finding
        where = "Where all sizes are equal it is right: two of them are taken for each other."
        return Finding("equal-sizes-only", " ".join(filter(None, (where, finding.text if finding.slug else ""))))
    try:
        found = of_values(probes, calls, problems)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return finding
    return finding if found is None else replace(found, text=f"{found.text} (Seen where sizes are equal.)")


def _passed(criteria: tuple[Criterion, ...]) -> str:
    passed = ", ".join(f"{criterion.name} {criterion.passed}/{criterion.total}" for criterion in criteria)
    return f"Passed: {passed}."
