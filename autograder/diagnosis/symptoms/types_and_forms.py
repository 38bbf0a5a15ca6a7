"""Diagnoses results of the wrong type, dtype or structure, wrong lists, and which cases fail."""

from __future__ import annotations

import re

import numpy as np

from ...exercises.kit.describe_experiments import parted
from ...judging.compare_results import Misfit, describe, find_problem, form_of
from ...records import Call, Certainty, Finding
from ...safe_text import begun, listed, spoken
from ..calls_and_expected import Evidence
from ..finding_sentences import named, say

#: The key of `Posed.notes` for the number of all cases that an answer fails, in whichever part of the cases.
FAILED = "failed"
#: The slug of an answer that makes a tensor which the exercise forbids.
MATERIALISES = "materialises"
#: Findings on lists that relate them to the right ones; the others say only how they are wrong.
RELATED = ("one-alone", "list-order", "goes-on", "goes-on/unevenly")


def no_return(evidence: Evidence) -> Finding | None:
    return named("returns-none") if evidence.all_of_kind("none") else None


def swapped_results(evidence: Evidence) -> Finding | None:
    exercise = evidence.posed.exercise
    if not isinstance(exercise.returns, tuple):
        return None
    for index in evidence.failing():
        value = evidence.calls[index].value
        if not isinstance(value, (tuple, list)) or len(value) != len(exercise.returns):
            return None
        expected = evidence.posed.expected[index].value
        case = evidence.posed.cases[index]
        for order in (
            range(len(value) - 1, -1, -1),
            [*range(1, len(value)), 0],
            [len(value) - 1, *range(len(value) - 1)],
        ):
            if find_problem(exercise.leaves, True, tuple(value[i] for i in order), expected, case) is None:
                break
        else:
            return None
    return named("swapped-results", results=_results(evidence))


def _results(evidence: Evidence) -> str:
    return listed([spoken(leaf.name) for leaf in evidence.posed.exercise.leaves])


def wrong_container(evidence: Evidence) -> Finding | None:
    _, call, problem = evidence.first()
    if not evidence.all_of_kind("tuple", "type"):
        return None
    if problem.kind != "tuple":
        return named("wrong-type", value=describe(call.value))
    if isinstance(call.value, list):
        return named("list-for-tuple")
    if isinstance(call.value, Misfit):
        return named("wrong-number-of-results/nested", form=form_of(evidence.posed.exercise.returns))
    return named("wrong-number-of-results", results=_results(evidence))


def wrong_dtype(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("dtype"):
        return named("wrong-dtype", problem=begun(evidence.first()[2].text))
    if evidence.all_of_kind("precision") and evidence.posed.exercise.library == "torch":
        return named("dtype-changed", problem=begun(evidence.first()[2].text))
    return named("dtype-lost") if evidence.all_of_kind("precision") else None


def only_made(evidence: Evidence) -> Finding | None:
    return named(MATERIALISES, problem=evidence.first()[2].text) if evidence.all_of_kind("made") else None


def only_warned(evidence: Evidence) -> Finding | None:
    return named("warns") if evidence.all_of_kind("warned") else None


def not_finite(evidence: Evidence) -> Finding | None:
    return named("nan", case=evidence.first()[0].label) if evidence.all_of_kind("nan") else None


def returns_input(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if not pairs or any(value.ndim == 0 for _, _, value, _ in pairs):
        return None
    for case, _, value, _ in pairs:
        inputs = [v for v in (*case.args, *case.kwargs.values()) if isinstance(v, np.ndarray)]
        if not any(v.shape == value.shape and np.array_equal(v, value) for v in inputs):
            return None
    return named("returns-input")


def wrong_signature(evidence: Evidence) -> Finding | None:
    """Return a finding if the function does not accept the arguments that the docstring names."""
    calls = [evidence.calls[index] for index in evidence.failing()]
    if evidence.all_of_kind("raised") and all(
        call.failure is not None
        and call.failure.type_name == "TypeError"
        and "argument" in call.failure.message
        and call.failure.line is None  # raised by the call itself, not inside the function
        for call in calls
    ):
        return named("wrong-signature")
    return None


Pairs = list[tuple[list, list]]
#: The key of a sentence, and the values for its gaps.
Told = tuple[str, dict[str, object]]


def of_lists(evidence: Evidence) -> Finding | None:
    """Return the first finding that fits all wrong lists of one result, for the first result that has one."""
    leaves = evidence.posed.exercise.leaves
    for leaf, pairs in _by_leaf(evidence).items():
        most = max(len(each) for each in _answered(evidence, leaf))
        told = _of_sets(pairs, most) if leaves[leaf].kind == "pair list" else _of_sequences(pairs)
        if told is not None:
            key, fields = told
            certainty = Certainty.RELATION if key in RELATED else Certainty.SYMPTOM
            return named(key, certainty, result=spoken(leaves[leaf].name), **fields)
    return None


def _by_leaf(evidence: Evidence) -> dict[int, Pairs]:
    by_leaf: dict[int, Pairs] = {}
    for index in evidence.failing():
        results = evidence.results(index)
        if not results or evidence.calls[index].failure or evidence.posed.expected[index].failure:
            return {}
        for leaf, (value, right) in enumerate(results):
            if isinstance(value, list) and isinstance(right, list) and value != right:
                by_leaf.setdefault(leaf, []).append((value, right))
    return by_leaf


def _answered(evidence: Evidence, leaf: int) -> list[list]:
    """All lists that were returned as this result."""
    results = (evidence.results(index) for index, call in enumerate(evidence.calls) if call.failure is None)
    return [found[leaf][0] for found in results if found and isinstance(found[leaf][0], list)]


def _is_begun(value: list, right: list) -> bool:
    return right[: len(value)] == value


def _of_sets(pairs: Pairs, most: int) -> Told | None:
    if all(set(value) < set(right) for value, right in pairs):
        return "one-alone" if most == 1 else "some-missing", {}
    if all(set(value) > set(right) for value, right in pairs):
        return "too-many", {}
    if all(sorted(value) == sorted(right) for value, right in pairs):
        return "list-order", {}
    return None


def _of_sequences(pairs: Pairs) -> Told | None:
    counts = {abs(len(right) - len(value)) for value, right in pairs}
    count, evenly = max(counts), len(counts) == 1
    if all(_is_begun(value, right) for value, right in pairs):
        return "stops-too-early" if evenly else "stops-too-early/unevenly", {"count": _entries(count)}
    if all(_is_begun(right, value) for value, right in pairs):
        return "goes-on" if evenly else "goes-on/unevenly", {"count": _entries(count)}
    if all(_is_begun(value, right) or _is_begun(right, value) for value, right in pairs):
        return "ends-elsewhere", {}
    places = [parted(*pair) for pair in pairs]
    alike = all(len(value) == len(right) for value, right in pairs)
    if None not in places and not alike:
        return "entries-differ", {"place": min(places)}
    if alike and all(value[:-1] == right[:-1] for value, right in pairs):
        return "last-entry-wrong", {}
    return None


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def fails_elsewhere(evidence: Evidence) -> bool:
    """Return whether the core is right."""
    core, cases = evidence.posed.exercise.core, evidence.posed.cases
    return all(cases[index].criterion != core for index in evidence.failing())


def where_it_fails(evidence: Evidence) -> str:
    """Return where a function whose core is right fails: "Your function passes the ordinary cases, but fails in …"."""
    core = evidence.posed.exercise.core
    return say("fails" if core == "values" else "fails/criterion", criterion=core, cases=_labels(evidence, 3))


#: The only case in which an answer fails.
_FAILS_IN = re.compile(r"fails in (the case “[^”]*”)\.$")


def beyond(text: str, facts: str) -> str:
    """Return the facts, or "" if they only name one case that the text names already."""
    case = _FAILS_IN.search(facts)
    return "" if case and case[1] in text else facts


def some_cases_only(evidence: Evidence) -> Finding | None:
    """Return a finding that names the failing cases if all core cases pass, or at least two of them."""
    core, cases = evidence.posed.exercise.core, evidence.posed.cases
    if fails_elsewhere(evidence):
        wrong = {cases[index].criterion for index in evidence.failing()}
        criteria = [name for name in evidence.posed.exercise.credit if name in wrong]  # the cases may be in any order
        slug = "fails-" + "-and-".join(name.replace(" ", "-") for name in criteria)
        return Finding(slug, _said(evidence), Certainty.PLACE, where_it_fails(evidence))
    right = [case for case, problem in zip(cases, evidence.problems, strict=False) if problem is None]
    if sum(case.criterion == core for case in right) >= 2:
        return named("not-general", Certainty.SYMPTOM, criterion=core, cases=_labels(evidence, 3))
    return None


def names_given(evidence: Evidence) -> Finding | None:
    """Return a finding with the failing cases and the names they returned, if each returned a string."""
    if not all(isinstance(evidence.calls[index].value, str) for index in evidence.failing()):
        return None
    result = evidence.posed.exercise.leaves[0].name.removeprefix("the ")
    return named("wrong-names", Certainty.SYMPTOM, result=result, cases=_labels(evidence, 4))


def _labels(evidence: Evidence, most: int) -> str:
    """The failing cases in their order, each with the returned name if a name is expected."""
    names = {outcome.value for outcome in evidence.posed.expected if isinstance(outcome.value, str)}
    labels = []
    for index in evidence.failing():
        value = evidence.calls[index].value
        key = "case/answered" if isinstance(value, str) and value in names else "case"
        labels.append(say(key, case=evidence.posed.cases[index].label, answer=value))
    labels = list(dict.fromkeys(labels))[:most]
    count = max(evidence.posed.notes.get(FAILED, 0), len(evidence.failing()))
    if count > len(labels):
        return say("cases/some", count=count, labels=listed(labels))
    return say("cases/one" if len(labels) == 1 else "cases/several", labels=listed(labels))


def _end(name: str, call: Call) -> tuple[str, int | None] | None:
    """The exception and its line in the cell."""
    failure = call.failure
    return (failure.type_name, failure.line if failure.cell in ("", name) else None) if failure is not None else None


def _said(evidence: Evidence) -> str:
    """The sentence on what every failing case did, if they all raised the same exception or returned the same bool."""
    calls = [evidence.calls[index] for index in evidence.failing()]
    ends = {_end(evidence.posed.exercise.name, call) for call in calls}
    if len(ends) == 1 and None not in ends:
        return say("fails/raises", failure=calls[0].failure.described(evidence.posed.exercise.name))
    answers = {call.value if isinstance(call.value, bool) and call.failure is None else None for call in calls}
    return say("fails/answers", answer=answers.pop()) if len(answers) == 1 and None not in answers else ""
