"""Symptoms of form: a wrong type, dtype or list, nothing returned, and which cases fail."""

from __future__ import annotations

import numpy as np

from ...data import Call, Certainty, Finding
from ...exercises.kit.experiments import parted
from ...judging.compare import describe, find_problem
from ..evidence import Evidence

#: What is told of an answer that makes what it must do without.
MATERIALISES = "materialises"


def no_return(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("none"):
        return Finding("returns-none", "The function returns None. Is there a `return` at the end?")
    return None


def opposite(evidence: Evidence) -> Finding | None:
    """It says yes where no is due, and no where yes is."""
    leaves, count = evidence.posed.exercise.leaves, len(evidence.calls)
    if len(leaves) != 1 or leaves[0].kind != "bool" or len(evidence.failing()) < max(4, 0.8 * count):
        return None
    if not all(isinstance(call.value, (bool, np.bool_)) for call in evidence.calls):
        return None
    words = "It says the opposite of what is asked: True wherever False is due, and False wherever True is"
    beside = count - len(evidence.failing())
    return Finding("opposite", f"{words}, but for {beside} of {count} cases." if beside else f"{words}.")


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
    names = ", ".join(leaf.name for leaf in exercise.leaves)
    return Finding("swapped-results", f"The results come in another order than asked for: {names}.")


def wrong_container(evidence: Evidence) -> Finding | None:
    _, call, problem = evidence.first()
    if not evidence.all_of_kind("tuple", "type"):
        return None
    if problem.kind == "tuple" and isinstance(call.value, list):
        return Finding("list-for-tuple", "The function returns a list. Return a tuple: `return first, second`.")
    if problem.kind == "tuple":
        names = ", ".join(leaf.name for leaf in evidence.posed.exercise.leaves)
        return Finding("wrong-number-of-results", f"The function must return a tuple of {names}.")
    return Finding("wrong-type", f"The function returns {describe(call.value)}: another type than the docstring says.")


def wrong_dtype(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("dtype"):
        return Finding("wrong-dtype", f"The result has the wrong dtype: {evidence.first()[2].text}.")
    if evidence.all_of_kind("precision") and evidence.posed.exercise.library == "torch":
        return Finding("dtype-changed", f"The floating dtype of the inputs must be kept: {evidence.first()[2].text}.")
    if evidence.all_of_kind("precision"):
        return Finding("dtype-lost", "The result is less precise than the inputs. Where is float32 forced on it?")
    return None


def only_made(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("made"):
        return Finding(MATERIALISES, f"The numbers are right, but {evidence.first()[2].text}.")
    return None


def only_warned(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("warned"):
        text = "The numbers are right, but NumPy warns on the way, where the docstring asks for silence."
        return Finding("warns", text)
    return None


def not_finite(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("nan"):
        case = evidence.first()[0]
        return Finding("nan", f"The result holds NaN or infinity in the case “{case.label}”: where does it come from?")
    return None


def returns_input(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if not pairs or any(value.ndim == 0 for _, _, value, _ in pairs):
        return None
    for case, _, value, _ in pairs:
        inputs = [v for v in (*case.args, *case.kwargs.values()) if isinstance(v, np.ndarray)]
        if not any(v.shape == value.shape and np.array_equal(v, value) for v in inputs):
            return None
    return Finding("returns-input", "The function returns one of its inputs as it came.")


def wrong_signature(evidence: Evidence) -> Finding | None:
    """Called as the docstring says, it does not accept the arguments."""
    calls = [evidence.calls[index] for index in evidence.failing()]
    if evidence.all_of_kind("raised") and all(
        call.failure is not None
        and call.failure.type_name == "TypeError"
        and "argument" in call.failure.message
        and call.failure.line is None  # raised by the call itself, not inside the function
        for call in calls
    ):
        return Finding("wrong-signature", "The function does not take the arguments that its docstring names.")
    return None


Pairs = list[tuple[list, list]]


def of_lists(evidence: Evidence) -> Finding | None:
    """The first thing that holds of every wrong list, of the first result that is wrong."""
    leaves = evidence.posed.exercise.leaves
    for leaf, found in _by_leaf(evidence).items():
        name = leaves[leaf].name
        most = max(len(each) for each in _answered(evidence, leaf))
        told = _of_sets(found, most) if leaves[leaf].kind == "pair list" else _of_sequences(found)
        if told is not None:
            weak = told[0] not in ("one-alone", "list-order", "goes-on", "begins-too-late")
            certainty = Certainty.SYMPTOM if weak else Certainty.RELATION
            return Finding(told[0], f"{name[:1].upper()}{name[1:]}: {told[1]}", certainty)
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
    """All lists that came back as this result."""
    results = (evidence.results(index) for index, call in enumerate(evidence.calls) if call.failure is None)
    return [found[leaf][0] for found in results if found and isinstance(found[leaf][0], list)]


def _is_begun(value: list, right: list) -> bool:
    return right[: len(value)] == value


def _of_sets(found: Pairs, most: int) -> tuple[str, str] | None:
    lacks = all(set(value) < set(right) for value, right in found)
    if lacks and most == 1:
        return "one-alone", "never more than one is named, where several are due. What is done with the others?"
    if lacks:
        return "some-missing", "what is named is right, and others that are due are missing. Where do they fall out?"
    if all(set(value) > set(right) for value, right in found):
        return "too-many", "all that are due are named, and others beside them. What lets these through?"
    if all(sorted(value) == sorted(right) for value, right in found):
        return "list-order", "the right ones, in another order."
    return None


def _of_sequences(found: Pairs) -> tuple[str, str] | None:
    if all(right[: len(value)] == value for value, right in found):
        short = {len(right) - len(value) for value, right in found}
        much = f"{short.pop()} short" if len(short) == 1 else "short by more in one case than in another"
        return "stops-too-early", f"what is there is right, but the list stops too early: it is {much}."
    if all(value[: len(right)] == right for value, right in found):
        long = {tuple(value[len(right) :]) for value, right in found}
        ends = {len(more) for more in long}
        much = f"{ends.pop()} too long" if len(ends) == 1 else "too long by more in one case than in another"
        return "goes-on", f"the right list stands there, and then it goes on: it is {much}. What ends it?"
    if all(_is_begun(value, right) or _is_begun(right, value) for value, right in found):
        text = (
            "all entries are right as far as they go, but the list stops too early in some cases, in others too late."
        )
        return "ends-elsewhere", text
    places = [parted(*pair) for pair in found]
    if None not in places and any(len(value) != len(right) for value, right in found):
        lead = f"an entry is another one than is due, at the earliest at place {min(places)} (counted from 0)"
        return "entries-differ", f"{lead}. How is it chosen? Where the list ends follows from that."
    if all(len(value) == len(right) and value[:-1] == right[:-1] for value, right in found):
        return "last-entry-wrong", "all entries are right but the last one. What comes there, and when?"
    if all(value and right[-len(value) :] == value for value, right in found):
        return "begins-too-late", "the end of the right list stands there, and its beginning is missing."
    if all(len(value) == len(right) for value, right in found) and len(set(places)) == 1:
        return "one-place", f"the lists part at place {places[0]} (counted from 0), in every case that is wrong."
    return None


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
        text = f"Some cases of “{core}” are right, others not: {labels}. What sets them apart?"
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
