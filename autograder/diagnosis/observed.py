"""What is seen of the functions and generators that the cases pass to an answer: how it used them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import Answer, Call, Finding
from ..exercises.kit.arguments import Rng
from ..exercises.kit.records import Sent
from ..judging.compare import same
from ..judging.conduct import Seen, calls_due, generator_of, name_of, names_of, wrong_count
from ..judging.posed import Posed
from ..text import counted
from .sentences import named, say

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
    texts = (say("experiment", case=label, experiment=text) for text, label in told.items())
    return Finding("experiment", " ".join(texts))


def never_called(posed: Posed, answer: Answer) -> Finding | None:
    """A function that every case hands over is never asked for."""
    for place in sorted({place for _, place in answer.asked}, key=str):
        counts = [count for (_, at), count in answer.asked.items() if at == place]
        if len(counts) == len(posed.cases) and not any(counts):
            name = name_of(posed, place)
            return _of_function(name, "never-calls-{}", "never-calls")
    return None


def _of_function(name: str, slug: str, key: str, **fields: object) -> Finding:
    """What is seen of a function that is handed over, under a slug with its name."""
    return Finding(slug.format(name).replace("_", "-"), say(key, name=name, **fields))


def observed(
    posed: Posed, answer: Answer, calls: Sequence[Call], wrong: Sequence[int], known: str | None = None
) -> Finding | None:
    """What is seen of the calls of functions and generators that the wrong cases hand over, if it is out of order.

    known: the mistake that was named, if one was: then it has told what is handed on, and only counts are new.
    """
    found = [_refused(posed, answer, wrong)]
    wrong = [index for index in wrong if calls[index].failure is None]
    if known is None and wrong:
        found.append(_generator_unused(posed, calls, wrong))
    for place in sorted({place for _, place in answer.asked}, key=str) if wrong else ():
        asked = {i: [each for each in answer.questions.get(i, ()) if each.place == place] for i in range(len(calls))}
        looks = (wrong_count, _contexts, _arrays) if known is None else (wrong_count,)
        found.append(next((f for look in looks if (f := look(posed, place, asked, calls, wrong)) is not None), None))
    if known is None and not any(found) and posed.exercise.experiment is not None:
        found.append(of_its_calls(posed, answer, calls, wrong))
    seen = [each for each in found if each is not None]
    return Finding(seen[0].slug, " ".join(each.text for each in seen)) if seen else None


def _refused(posed: Posed, answer: Answer, wrong: Sequence[int]) -> Finding | None:
    """A function that answers so many calls is called once more."""
    for index in wrong:
        for each in answer.questions.get(index, ()):
            if each.allowed is not None:
                fields = {"allowed": counted(each.allowed, "call"), "case": posed.cases[index].label}
                return _of_function(name_of(posed, each.place), "calls-{}-too-often", "calls-too-often", **fields)
    return None


def _generator_unused(posed: Posed, calls: Sequence[Call], wrong: Sequence[int]) -> Finding | None:
    """The generator that is handed over stays as it was, in cases whose right answer depends on it."""
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


def _contexts(
    posed: Posed, place: int | str, asked: Seen, calls: Sequence[Call], wrong: Sequence[int]
) -> Finding | None:
    """Lists that are to hold all tokens so far: are they, beside the tokens that came back, cut or reversed?"""
    name, ways = name_of(posed, place), dict(CONTEXTS)
    told = 0
    for index in wrong:
        value, lists = calls[index].value, [each.args[0] for each in asked[index] if each.args]
        if not isinstance(value, list) or not all(isinstance(tokens, list) for tokens in lists):
            return None
        first = _first_length(posed, index)
        for step, tokens in enumerate(lists):
            due = value[: first + step]
            if len(due) < 2 or len(due) != first + step:
                continue
            ways = {key: cut for key, cut in ways.items() if cut(due, first) == tokens != due}
            told += 1
    if told < 2 or not ways:
        return None
    return _of_function(name, "{}-is-given-less", next(iter(ways)))


def _first_length(posed: Posed, index: int) -> int:
    """How many tokens stand there before the first is added."""
    given = [value for value in posed.cases[index].args if isinstance(value, list)]
    return len(given[0]) if given else 1


#: What is handed over instead of all tokens: the key of its sentence, and how.
CONTEXTS: tuple[tuple[str, Callable[[list[int], int], list[int]]], ...] = (
    ("is-given-less/last", lambda due, first: due[-1:]),
    ("is-given-less/reversed", lambda due, first: due[::-1]),
    ("is-given-less/all-but-first", lambda due, first: due[1:]),
    ("is-given-less/all-but-last", lambda due, first: due[:-1]),
    ("is-given-less/same", lambda due, first: due[:first]),
    ("is-given-less/new", lambda due, first: due[first:]),
)


def _arrays(posed: Posed, place: int | str, asked: Seen, calls: Sequence[Call], wrong: Sequence[int]) -> Finding | None:
    """Arrays that are to be handed on with some rows changed: which of their rows ever are?"""
    name = name_of(posed, place)
    rows: dict[str, list[tuple[int, set[int]]]] = {}
    zeros, reverse = True, False
    for index in range(len(calls)):
        case = posed.cases[index]
        given = {n: v for n, v in zip(names_of(posed), case.args, strict=False) if isinstance(v, np.ndarray) and v.ndim}
        sent = [each.args for each in asked[index] if not each.refusal]
        if any(len(args) != len(given) for args in sent) or not given or any(len(v) < 3 for v in given.values()):
            continue
        for at, (key, value) in enumerate(given.items()):
            changed: set[int] = set()
            for args in sent:
                if not isinstance(args[at], np.ndarray) or args[at].shape != value.shape:
                    return None
                differ = [i for i in range(len(value)) if not np.array_equal(args[at][i], value[i])]
                changed |= set(differ)
                zeros &= not args[at][differ].any()
                reverse |= len(differ) > 1 and np.array_equal(args[at], value[::-1])
            rows.setdefault(key, []).append((len(value), changed))
    moved = {key: found for key, found in rows.items() if any(changed for _, changed in found)}
    if not rows or sum(map(len, rows.values())) < 2 or not any(asked.values()):
        return None
    if not moved:
        due = [calls_due(posed, index, name) for index in wrong[:1]]
        unchanged = due and all(same(args, due[0][0], 0.0) for args in due[0])
        if unchanged:
            return None
        return Finding(f"{name}-sees-no-change", say("sees-no-change", name=name, arrays=_and(rows)))
    keys = [*_of_rows(moved), *(["sees-part/zeros"] if zeros else []), *(["sees-part/reversed"] if reverse else [])]
    parts = " ".join(say(key, arrays=_and(moved)) for key in keys)
    return _of_function(name, "{}-sees-part", "sees-part", parts=parts) if keys else None


def _of_rows(moved: dict[str, list[tuple[int, set[int]]]]) -> Iterator[str]:
    """The key of what is seen of the rows that are ever changed."""
    every = [(n, changed) for found in moved.values() for n, changed in found if changed]
    if all(changed == {n - 1} for n, changed in every):
        yield "sees-part/last"
    elif all(changed == {0} for _, changed in every):
        yield "sees-part/first"
    elif all(len(changed) == 1 for _, changed in every):
        yield "sees-part/one"


def _and(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
