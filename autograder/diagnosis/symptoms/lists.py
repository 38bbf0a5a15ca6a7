"""Lists beside the lists that are due: what they lack, what they have too much, and where they part."""

from __future__ import annotations

from ...data import Certainty, Finding
from ...exercises.kit.experiments import parted
from ..evidence import Evidence

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
