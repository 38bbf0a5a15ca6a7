"""Finds which mistake explains a wrong answer: first the exercise's known mistakes, then general relations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..exercises.kit.exercise_records import Case, Mistake
from ..judging.cases_and_expected import Outcome, Posed
from ..judging.compare_results import RTOL_FLOAT32, Problem, same, tolerance
from ..records import Call, Certainty, Finding
from ..safe_text import begun, listed, spoken, verb
from ..worker.encode_values import leaves
from .argument_use import is_hunt
from .calls_and_expected import Evidence
from .finding_sentences import named, of_results, say
from .mutants.matching_mutant import explain, explain_ordinary
from .symptoms import shapes, types_and_forms, values
from .symptoms.types_and_forms import beyond, fails_elsewhere, names_given, some_cases_only, where_it_fails

Relation = Callable[[Evidence], Finding | None]
#: The relations that are tried on each of several results separately.
OF_ONE_RESULT: tuple[Relation, ...] = (
    values.imprecise,
    values.constant_factor,
    values.transposed,
    values.masked_rows,
    values.permuted,
    values.read_in_another_order,
    values.entries_missing,
    values.unnormalised,
    values.rows_related,
)


def leaf_by_leaf(evidence: Evidence) -> Finding | None:
    """Explain each of several results separately: say which are right and what is wrong with the others."""
    parts = evidence.posed.exercise.leaves
    if len(parts) < 2 or not evidence.all_of_kind("values"):
        return None
    wrong = sorted({leaf for _, leaf, _, _ in evidence.wrong_pairs()} | evidence.misshapen())
    found = {leaf: _first_of(OF_ONE_RESULT, replace(evidence, only=leaf)) for leaf in wrong}
    if not any(found.values()):
        return None
    fine = [leaf.name for index, leaf in enumerate(parts) if index not in wrong]
    told = [of_results("results/right", fine)] if fine else []
    for finding in dict.fromkeys(found.values()):
        told.append(_of_results([parts[leaf].name for leaf in wrong if found[leaf] == finding], finding))
    return Finding("-and-".join(dict.fromkeys(each.slug for each in found.values() if each)), " ".join(told))


def _of_results(results: list[str], finding: Finding | None) -> str:
    if finding is None:
        return of_results("results/wrong", results)
    if finding.slug in ("transposed", "softmax-over-queries", "rows-not-normalised"):  # these name the result
        return finding.text
    words, many = listed(list(map(spoken, results))), len(results) > 1
    for begins, one, several in (("Your result is", "is", "are"), ("Your result has", "has", "have")):
        if finding.text.startswith(begins):
            return f"{begun(words)} {verb(words, one, several, many)}{finding.text.removeprefix(begins)}"
    sentence = f"{finding.text[:1].lower()}{finding.text[1:]}".replace(" of your result", "")
    return say("results/how", results=words, sentence=sentence)


def _first_of(relations: Sequence[Relation], evidence: Evidence) -> Finding | None:
    return next((finding for relation in relations if (finding := relation(evidence)) is not None), None)


#: General relations, the most informative first. Each must hold wherever the answer is wrong, not in one case by
#: chance.
RELATIONS: tuple[Relation, ...] = (
    types_and_forms.no_return,
    types_and_forms.wrong_signature,
    types_and_forms.swapped_results,
    types_and_forms.wrong_container,
    types_and_forms.wrong_dtype,
    types_and_forms.of_lists,
    shapes.wrong_shape,
    types_and_forms.only_made,
    types_and_forms.only_warned,
    shapes.of_shapes,
    values.constant_answer,
    values.remembers,
    types_and_forms.returns_input,
    values.through_a_float,
    values.imprecise,
    values.constant_factor,
    values.transposed,
    values.masked_rows,
    types_and_forms.not_finite,
    values.permuted,
    values.read_in_another_order,
    leaf_by_leaf,
    values.entries_missing,
    values.unnormalised,
    values.first_batch_only,
    values.rows_related,
    values.measured_on_draws,
    values.one_result_wrong,
    some_cases_only,
    names_given,
)
#: The relations for answers that are right wherever they do not raise.
OF_CRASHES = (types_and_forms.wrong_signature, shapes.of_shapes, values.first_batch_only, some_cases_only)
#: The relations for coding slips, such as an undefined name.
OF_SLIPS = (some_cases_only,)
#: Exceptions that show a coding slip, whatever the exercise.
SLIPS = frozenset(
    (
        *("NameError", "UnboundLocalError", "AttributeError", "SyntaxError", "IndentationError", "TabError"),
        *("ImportError", "ModuleNotFoundError", "RecursionError", "ZeroDivisionError"),
    )
)


def recognise(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """Name the mistake, or return None. `problems` has one entry per case; at least one is not None.

    A known mistake is named if it gives the student's results in every case. Failing that, it is named if it does so in
    all core cases or in all failing cases, so that a second slip elsewhere does not hide it. If the answer is one
    constant, that is the finding, unless a known mistake agrees in every case. If the answer raises, a known mistake
    must raise the same exception and agree in something else as well.
    """
    count = min(len(calls), len(posed.cases))
    calls, problems = calls[:count], problems[:count]
    failing = [index for index in range(count) if problems[index] is not None]
    core = [index for index in range(count) if posed.cases[index].criterion == posed.exercise.core]
    if not failing:
        return None
    if all(posed.cases[index].gradient for index in failing):
        return _of_gradients(problems[failing[0]], calls[failing[0]])
    if posed.exercise.examine is not None:
        return _of_symptoms(posed, problems, failing) or _of_relations(posed, calls, problems)
    if _slips(posed, calls, failing):
        return _of_relations(posed, calls, problems)
    known = (
        known_mistake(posed, calls, problems, list(range(count)), strict=True)
        or types_and_forms.swapped_results(Evidence(posed, calls, problems))
        or explain(posed, calls, problems)
        or _of_errors(posed, calls, failing)
        or _of_a_constant(posed, calls, problems)
    )
    if known is None and any(problems[index] is not None for index in core):
        known = _of_ordinary(posed, calls, problems, core) or explain_ordinary(posed, calls, problems, core)
    found = known or _of_relations(posed, calls, problems)
    if found is not None:
        return found
    quiet = ("warned", "made", "detached", "gradient")
    telling = [index for index in failing if calls[index].failure is None and problems[index].kind not in quiet]
    return known_mistake(posed, calls, problems, telling, strict=False) if telling else None


def _of_ordinary(posed: Posed, calls: list[Call], problems: list[Problem | None], core: list[int]) -> Finding | None:
    """The known mistake that agrees in the core cases, with a note if it does not agree elsewhere."""
    found = known_mistake(posed, calls, problems, core, strict=False)
    if found is None or is_hunt(posed) or not is_refuted(posed, calls, found.slug, times=2):
        return found
    return replace(found, text=say("known/ordinary", advice=found.text), certainty=Certainty.RELATION)


def _of_a_constant(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """The answer is one number wherever no error is expected; a known mistake may then agree in the core by chance."""
    if any(call.failure is not None and case.raises is None for call, case in zip(calls, posed.cases, strict=False)):
        return None
    evidence = Evidence(posed, calls, problems)
    return values.constant_answer(evidence) if evidence.all_of_kind("values", "not-raised") else None


def _of_relations(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """The first general relation that holds. If any values are wrong, missing errors are ignored."""
    values = [p if case.raises is None else None for p, case in zip(problems, posed.cases, strict=False)]
    problems = values if any(values) else problems
    ordinary = [None if case.gradient else problem for case, problem in zip(posed.cases, problems, strict=False)]
    evidence = Evidence(posed, calls, ordinary)
    relations = OF_CRASHES if evidence.all_of_kind("raised") else RELATIONS
    if _slips(posed, calls, evidence.failing(), anywhere=evidence.all_of_kind("raised")):
        relations = OF_SLIPS
    found = _first_of(relations, evidence)
    if found is None or found.is_weak or evidence.all_of_kind("made", "warned"):
        return found
    return replace(found, facts=beyond(found.text, where_it_fails(evidence)) if fails_elsewhere(evidence) else "")


def _slips(posed: Posed, calls: list[Call], indices: Sequence[int], anywhere: bool = False) -> bool:
    """Whether a coding slip ends one of these calls, in the core unless `anywhere`."""
    ended = (i for i in indices if anywhere or posed.cases[i].criterion == posed.exercise.core)
    return any((failure := calls[i].failure) is not None and failure.type_name in SLIPS for i in ended)


def _of_errors(posed: Posed, calls: list[Call], failing: list[int]) -> Finding | None:
    """Everything is right except that an expected error is missing or is of another type."""
    for index in failing:
        wanted, failure = posed.cases[index].raises, calls[index].failure
        if wanted is None or (failure is not None and failure.type_name in (wanted.type_name, *SLIPS)):
            return None
    advice = {mistake.slug: mistake.advice for mistake in posed.exercise.mistakes}
    if "no-error" in advice:
        return Finding("no-error", advice["no-error"], Certainty.KNOWN)
    return named("no-error", error=posed.cases[failing[0]].raises.type_name)


def _of_symptoms(posed: Posed, problems: list[Problem | None], failing: list[int]) -> Finding | None:
    """The first symptom found, in the words of the known mistake of that name.

    Later symptoms are ignored: they usually have the same cause, and naming them would distract from it.
    """
    first = next((problems[index].slug for index in failing if problems[index].slug is not None), None)
    if first is None:
        return None
    advice = {mistake.slug: mistake.advice for mistake in posed.exercise.mistakes}
    certainty = Certainty.KNOWN if first in advice else Certainty.SYMPTOM
    return Finding(first, advice.get(first, ""), certainty)


def _of_gradients(problem: Problem, call: Call) -> Finding:
    """The values are right but the gradients are wrong."""
    if problem.kind == "detached" or (call.failure is not None and "numpy() on Tensor" in call.failure.message):
        return named("detached", lost=problem.text if problem.kind == "detached" else say("detached/lost"))
    if problem.slug == "nan-gradient":
        return named("nan-gradient")
    return named("gradient-raises" if problem.kind == "raised" else "gradient-wrong")


# ---------------------------------------------------------------------------------------------------- known mistakes
# Two functions that both raise need not be the same: an exception supports a mistake only with other evidence.


def known_mistake(
    posed: Posed, calls: list[Call], problems: list[Problem | None], indices: list[int], strict: bool
) -> Finding | None:
    """Return the known mistake that agrees with the calls at `indices`, or the one of several that agrees most often.

    If `strict` and two agree equally often, nobody can tell which was made, so the text names both.
    """
    found: list[tuple[int, Mistake]] = []
    for mistake in posed.exercise.mistakes:
        of = partial(posed.mistaken, mistake.slug)
        if not strict and not any(is_wrong(posed, i, of(i)) for i in indices):
            continue  # a mistake that gives right results in these cases doesn't explain them
        agree = all(_agree(posed.cases[i], calls[i], problems[i], of(i), strict) for i in indices)
        if agree and _speaks(posed, calls, of, indices):
            also = sum(_agree(posed.cases[i], calls[i], problems[i], of(i), strict) for i in range(len(calls)))
            found.append((also, mistake))
    if not found:
        return None
    most = max(also for also, _ in found)
    best = [mistake for also, mistake in found if also == most]
    if len(best) == 1 or not strict:
        return Finding(best[0].slug, best[0].advice, Certainty.KNOWN)
    text = say("known/either", advice=best[0].advice, other=best[1].advice)
    return Finding(best[0].slug, text, Certainty.KNOWN)


def is_refuted(posed: Posed, calls: Sequence[Call], slug: str | None, times: int = 1) -> bool:
    """Return whether a known mistake differs from the student in at least `times` cases in which both return a result.

    Only results of equal shapes are compared.
    """
    if slug not in {mistake.slug for mistake in posed.exercise.mistakes}:
        return False
    against = 0
    for index, (case, call) in enumerate(zip(posed.cases, calls, strict=False)):
        mistaken = posed.mistaken(slug, index)
        if call.failure is not None or mistaken.failure is not None or case.gradient or case.raises is not None:
            continue
        pairs = list(zip(leaves(call.value), leaves(mistaken.value), strict=False))
        if not all(np.shape(one) == np.shape(other) and _are_numbers(one, other) for one, other in pairs):
            continue  # NaN does not tell mistakes apart
        against += not all(same(one, other, max(tolerance(case), RTOL_FLOAT32)) for one, other in pairs)
    return against >= times


def _are_numbers(*values: object) -> bool:
    floats = (value for value in values if getattr(value, "dtype", np.dtype(type(value))).kind == "f")
    return all(np.isfinite(value).all() for value in floats)


def _speaks(posed: Posed, calls: list[Call], of: Callable[[int], Outcome], indices: list[int]) -> bool:
    """Whether calls that agree with a known mistake show more than that both raise.

    They do if a wrong value agrees, if both raise the same message each time, or if fewer cases raise than return,
    because raising in just these few is unlikely by chance.
    """
    raised = [i for i in indices if calls[i].failure is not None and posed.cases[i].raises is None]
    returned = [i for i in indices if calls[i].failure is None]
    if not raised:
        return True
    if any(is_wrong(posed, i, of(i)) for i in returned) or len(returned) > len(raised):
        return True
    return all(calls[i].failure.message == of(i).said != "" for i in raised)


def is_wrong(posed: Posed, index: int, outcome: Outcome) -> bool:
    """Return whether one of the course's functions is wrong in a case."""
    case, expected = posed.cases[index], posed.expected[index]
    if outcome.made is not None:
        return True
    return outcome.failure != expected.failure or not same(outcome.value, expected.value, tolerance(case))


def _agree(case: Case, call: Call, problem: Problem | None, outcome: Outcome, strict: bool) -> bool:
    if call.failure is not None or outcome.failure is not None:
        return call.failure is not None and call.failure.type_name == outcome.failure
    if problem is not None and problem.kind == "warned" and not outcome.warned:
        return False
    # If values are wrong, the tensors that a call makes are not checked; and for mistakes, no lines are counted.
    looked = (problem is None or problem.kind == "made") and not case.lines
    if strict and looked and (problem is not None) != (outcome.made is not None):
        return False
    if problem is not None and problem.kind == "precision" and _floats(call.value) != _floats(outcome.value):
        return False  # a mistake that keeps the precision does not explain why it was lost
    rtol = max(tolerance(case), RTOL_FLOAT32 if _is_float32(call.value) else 0.0)
    return same(call.value, outcome.value, rtol)


def _floats(value: object) -> list[np.dtype]:
    return [leaf.dtype for leaf in leaves(value) if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"]


def _is_float32(value: object) -> bool:
    if isinstance(value, tuple):
        return any(_is_float32(item) for item in value)
    return isinstance(value, np.ndarray) and value.dtype == np.float32
