"""What sets the cases apart that are right from those that are wrong: a size, an argument, a kind of number."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...data import Call, Certainty, Finding
from ...exercises.kit.records import Case
from ..posed import Evidence

#: A feature is said only if it tells at least so many right cases from so many wrong ones: that two sizes are equal,
#: any other, and any other of sizes, of which there are so many that one often fits by chance.
EQUAL, FEWEST, OF_SIZES = 2, 3, 5
IS_EQUAL = re.compile(r"[^\W\d]\w* = [^\W\d]\w*")


def set_apart(evidence: Evidence, of_arguments: bool = False) -> str:
    """ "Right wherever n = m, and wrong wherever not.", if one feature holds in all right cases or all wrong ones.

    of_arguments: whether nothing is said of sizes, which in a design are as many as its cases.
    """
    rows = [
        (case, problem is None)
        for case, problem in zip(evidence.posed.cases, evidence.problems, strict=False)
        if case.raises is None and not case.gradient
    ]
    right, wrong = [case for case, good in rows if good], [case for case, good in rows if not good]
    few = min(len(right), len(wrong))
    if few < EQUAL:
        return ""
    names = evidence.parameters()
    holds = [dict(features(case, names)) for case in (*right, *wrong)]
    counted = {word for case in (*right, *wrong) for word, _ in _of_counts(_counts(case, names))}
    for words in dict.fromkeys(word for found in holds for word in found):
        if of_arguments and words in counted:
            continue
        if few < (EQUAL if IS_EQUAL.fullmatch(words) else OF_SIZES if words in counted else FEWEST):
            continue
        values = [found.get(words) for found in holds]
        if any(value is None for value in values):
            continue
        if all(values[: len(right)]) and not any(values[len(right) :]):
            return f"Right wherever {words}, and wrong wherever not."
        if all(values[len(right) :]) and not any(values[: len(right)]):
            return f"Wrong wherever {words}, and right wherever not."
    return ""


def features(case: Case, names: list[str]) -> Iterator[tuple[str, bool]]:
    """What can be said of a case, in words, and whether it is so; the plainest first."""
    given = {**dict.fromkeys(names), **dict(zip(names, case.args, strict=False)), **case.kwargs}
    yield from _of_arguments(given)
    yield from _of_counts(_counts(case, names))


def _counts(case: Case, names: list[str]) -> dict[str, int]:
    given = {**dict.fromkeys(names), **dict(zip(names, case.args, strict=False)), **case.kwargs}
    counts = {name: int(n) for name, n in case.sizes.items() if name.isidentifier()}
    return counts | {name: value for name, value in given.items() if type(value) is int}


def _of_arguments(given: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for name, value in given.items():
        if not isinstance(value, (int, float)):  # a number may be given as it would be without
            yield f"`{name}` is given", value is not None
        yield f"`{name}` is False", value is False
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"`{name}` is 0", value == 0
            yield f"`{name}` is 1", value == 1
    arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    floats = [value for value in arrays.values() if value.dtype.kind == "f"]
    if floats:
        yield "the inputs are float32", all(value.dtype == np.float32 for value in floats)
    for count in (1, 2, 3):
        for name, value in arrays.items():
            yield f"`{name}` has {count} {'axis' if count == 1 else 'axes'}", value.ndim == count
    for name, value in arrays.items():
        if value.dtype.kind == "b" and value.ndim:
            yield f"a row of `{name}` allows nothing", not value.any(axis=-1).all()
            yield f"`{name}` allows everything", bool(value.all())
        if value.dtype.kind == "f" and value.size:
            yield f"no entry of `{name}` is above 0", bool((value <= 0).all())
            yield f"`{name}` holds numbers above 100", float(np.abs(value).max()) > 100
        if value.ndim >= 2:
            yield f"`{name}` is not contiguous in memory", not value.flags.c_contiguous


def _of_counts(counts: Mapping[str, int]) -> Iterator[tuple[str, bool]]:
    for name, value in counts.items():
        yield f"{name} = 1", value == 1
    for (one, a), (other, b) in itertools.combinations(counts.items(), 2):
        yield f"{one} = {other}", a == b
    for (one, a), (other, b) in itertools.combinations(counts.items(), 2):
        yield f"{one} is smaller than {other}", a < b
        yield f"{one} is larger than {other}", a > b
    for (one, a), (other, b) in itertools.permutations(counts.items(), 2):
        yield f"{one} is a multiple of {other}", b > 0 and a % b == 0
    for (one, a), (other, b) in itertools.combinations(counts.items(), 2):
        for third, c in counts.items():
            if third not in (one, other):
                yield f"{one}·{other} = {third}", a * b == c
    for name, value in counts.items():
        for number in range(2, 13):
            yield f"{name} = {number}", value == number


def where_it_fails(evidence: Evidence) -> str:
    """ "Ordinary cases are right. What fails is “n = 1”.", where the core is right; "" where it is not."""
    core, cases = evidence.posed.exercise.core, evidence.posed.cases
    if any(cases[index].criterion == core for index in evidence.failing()):
        return ""
    fine = "Ordinary cases are right." if core == "values" else f"What is asked under “{core}” is right."
    return f"{fine} What fails is {'; '.join(_labels(evidence)[:3])}."


def some_cases_only(evidence: Evidence) -> Finding | None:
    """All cases of the core are right, or some are: what tells them apart from the others?"""
    core = evidence.posed.exercise.core
    cases = evidence.posed.cases
    failing = [cases[index] for index in evidence.failing()]
    passing = [case for case, problem in zip(cases, evidence.problems, strict=False) if problem is None]
    labels = "; ".join(_labels(evidence)[:3])
    elsewhere = where_it_fails(evidence)
    if elsewhere:
        wrong = {case.criterion for case in failing}
        criteria = [name for name in evidence.posed.exercise.credit if name in wrong]  # cases come in any order
        slug = "fails-" + "-and-".join(name.replace(" ", "-") for name in criteria)
        return Finding(slug, _said(evidence), Certainty.PLACE, elsewhere)  # the cases say what sets them apart
    ordinary = [case for case in passing if case.criterion == core]
    if len(ordinary) >= 2:
        apart = set_apart(evidence) or "What sets them apart?"
        text = f"Some cases of “{core}” are right, others not: {labels}. {apart}"
        return Finding("not-general", text, Certainty.SYMPTOM)
    return None


def names_given(evidence: Evidence) -> Finding | None:
    """Where a name is asked for: which one came back, and for what."""
    if not all(isinstance(evidence.calls[index].value, str) for index in evidence.failing()):
        return None
    return Finding("wrong-names", f"Wrong is: {'; '.join(_labels(evidence)[:4])}.", Certainty.SYMPTOM)


def _labels(evidence: Evidence) -> list[str]:
    """What fails, in the order of the cases; where a name is asked for, with the name that came back."""
    names = {outcome.value for outcome in evidence.posed.expected if isinstance(outcome.value, str)}
    labels = []
    for index in evidence.failing():
        value, label = evidence.calls[index].value, f"“{evidence.posed.cases[index].label}”"
        labels.append(f"{label} (it answers “{value}”)" if isinstance(value, str) and value in names else label)
    return list(dict.fromkeys(labels))


def _end(name: str, call: Call) -> tuple[str, int | None] | None:
    """(exception, line of the cell)."""
    failure = call.failure
    return (failure.type_name, failure.line if failure.cell in ("", name) else None) if failure is not None else None


def _said(evidence: Evidence) -> str:
    """The same wrong word or the same exception each time."""
    calls = [evidence.calls[index] for index in evidence.failing()]
    ends = {_end(evidence.posed.exercise.name, call) for call in calls}
    if len(ends) == 1 and None not in ends:
        return f"It raises {calls[0].failure.described(evidence.posed.exercise.name)} there."
    words = {
        call.value if call.failure is None else None for call in calls if isinstance(call.value, (bool, type(None)))
    }
    if len(words) != 1 or not all(isinstance(call.value, bool) for call in calls):
        return ""
    return f"It answers {words.pop()} there."
