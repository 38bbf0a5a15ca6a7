"""Which mistake explains a wrong answer: first the exercise's known mistakes, then general relations.

That two functions raise does not make them the same: an exception speaks for a mistake only beside other evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..data import Call, Finding
from ..exercises.kit.records import Case
from ..worker.values import leaves
from .compare import RTOL_FLOAT32, Problem, same, tolerance
from .posed import Evidence, Outcome, Posed
from .relations import coverage, form, inputs, numbers
from .variants.explain import explain

__all__ = ["Finding", "recognise"]

#: General relations, the most telling first. Each must hold wherever the answer is wrong, not in one case by chance.
RELATIONS: tuple[Callable[[Evidence], Finding | None], ...] = (
    form.no_return,
    form.wrong_signature,
    form.swapped_results,
    form.wrong_container,
    form.wrong_dtype,
    form.wrong_shape,
    form.only_made,
    form.only_warned,
    form.shapes_do_not_fit,
    coverage.constant_answer,
    coverage.remembers,
    form.returns_input,
    numbers.imprecise,
    numbers.constant_factor,
    numbers.transposed,
    numbers.inverted,
    coverage.masked_rows,
    form.not_finite,
    numbers.permuted,
    numbers.simple_function,
    coverage.entries_missing,
    coverage.right_in_part,
    numbers.unnormalised,
    numbers.wrong_temperature,
    numbers.varying_factor,
    coverage.first_batch_only,
    numbers.added_constant,
    numbers.rows_related,
    coverage.same_row_everywhere,
    numbers.same_numbers,
    inputs.generator_unused,
    inputs.changed_inputs,
    inputs.applied_twice,
    numbers.measured_on_draws,
    coverage.one_result_wrong,
    coverage.some_cases_only,
)
#: For answers that are right wherever they do not raise.
OF_CRASHES = (form.wrong_signature, form.shapes_do_not_fit, coverage.first_batch_only, coverage.some_cases_only)
#: For slips of the pen, such as a name that is not defined.
OF_SLIPS = (coverage.some_cases_only,)
#: Exceptions that speak of a slip of the pen, whatever is to be computed.
SLIPS = frozenset(
    (
        *("NameError", "UnboundLocalError", "AttributeError", "SyntaxError", "IndentationError", "TabError"),
        *("ImportError", "ModuleNotFoundError", "RecursionError", "ZeroDivisionError"),
    )
)


def recognise(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """Name the mistake, or return None. `problems` has one entry per case; at least one is not None.

    A known mistake is named when it answers every case as the student does. Failing that, when it does so on all
    cases of the core, or on all failing cases: a second slip elsewhere then does not hide the first. An answer that is
    the same number everywhere is said to be that, unless a known mistake gives it in every case. Where it raises, a
    known mistake must raise the same, and agree in more than that.
    """
    count = min(len(calls), len(posed.cases))
    everywhere = range(count)
    failing = [index for index in everywhere if problems[index] is not None]
    core_name = next(iter(posed.exercise.credit))
    core = [index for index in everywhere if posed.cases[index].criterion == core_name]
    if not failing:
        return None
    if all(posed.cases[index].gradient for index in failing):
        return _of_gradients(problems[failing[0]])
    if posed.exercise.examine is not None:
        return _of_symptoms(posed, problems, failing) or _of_relations(posed, calls[:count], problems[:count])
    if _slips(posed, calls, failing):
        return _of_relations(posed, calls[:count], problems[:count])
    known = (
        _known(posed, calls, problems, list(everywhere), strict=True)
        or form.swapped_results(Evidence(posed, calls[:count], problems[:count]))
        or explain(posed, calls[:count], problems[:count])
        or _of_errors(posed, calls, failing)
        or _of_a_constant(posed, calls[:count], problems[:count])
    )
    if known is None and any(problems[index] is not None for index in core):
        known = _known(posed, calls, problems, core, strict=False) or explain(posed, calls, problems, core)
    if known is not None:
        return known
    finding = _of_relations(posed, calls[:count], problems[:count])
    if finding is not None:
        return finding
    quiet = ("warned", "made", "detached", "gradient")
    telling = [index for index in failing if calls[index].failure is None and problems[index].kind not in quiet]
    return _known(posed, calls, problems, telling, strict=False) if telling else None


def of_values(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """A known mistake, or a small change of the plain program, that answers all of these calls as the student does."""
    return _known(posed, calls, problems, list(range(len(calls))), strict=True) or explain(posed, calls, problems)


def _of_a_constant(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """One number wherever no error is asked for: that it agrees with a known mistake in the core is then chance."""
    if any(call.failure is not None and case.raises is None for call, case in zip(calls, posed.cases, strict=False)):
        return None
    evidence = Evidence(posed, calls, problems)
    return coverage.constant_answer(evidence) if evidence.all_of_kind("values", "not-raised") else None


def _of_relations(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """The first general relation that holds, of values wherever values are wrong: an error asked for is none."""
    values = [p if case.raises is None else None for p, case in zip(problems, posed.cases, strict=False)]
    problems = values if any(values) else problems
    ordinary = [None if case.gradient else problem for case, problem in zip(posed.cases, problems, strict=False)]
    evidence = Evidence(posed, calls, ordinary)
    relations = OF_CRASHES if evidence.all_of_kind("raised") else RELATIONS
    if _slips(posed, calls, evidence.failing(), anywhere=evidence.all_of_kind("raised")):
        relations = OF_SLIPS
    return next((finding for relation in relations if (finding := relation(evidence)) is not None), None)


def _slips(posed: Posed, calls: list[Call], indices: Sequence[int], anywhere: bool = False) -> bool:
    """Does a slip of the pen end one of these calls, of the core unless `anywhere`?"""
    core = next(iter(posed.exercise.credit))
    ended = (i for i in indices if anywhere or posed.cases[i].criterion == core)
    return any((failure := calls[i].failure) is not None and failure.type_name in SLIPS for i in ended)


def _of_errors(posed: Posed, calls: list[Call], failing: list[int]) -> Finding | None:
    """All is right but that an error which was asked for does not come, or another one comes in its place."""
    for index in failing:
        wanted, failure = posed.cases[index].raises, calls[index].failure
        if wanted is None or (failure is not None and failure.type_name in (wanted.type_name, *SLIPS)):
            return None
    advice = {mistake.slug: mistake.advice for mistake in posed.exercise.mistakes}
    asked = posed.cases[failing[0]].raises.type_name
    text = f"The docstring asks for a {asked}. Test for it first, and raise it yourself."
    return Finding("no-error", advice.get("no-error", text))


def _of_symptoms(posed: Posed, problems: list[Problem | None], failing: list[int]) -> Finding | None:
    """The first symptom that was found, in the words of the known mistake of that name if there is one."""
    slugs = [problems[index].slug for index in failing if problems[index].slug is not None]
    if not slugs:
        return None
    advice = {mistake.slug: mistake.advice for mistake in posed.exercise.mistakes}
    return Finding(slugs[0], advice.get(slugs[0], ""))


def _of_gradients(problem: Problem) -> Finding:
    """The values are right and the gradients are not."""
    if problem.kind == "detached" or "numpy() on Tensor" in problem.text:
        text = "The values are right, but gradients do not flow: something on the way leaves the graph, such as "
        return Finding(
            "detached", text + "`.detach()`, `.item()`, `.numpy()`, `.data`, `torch.no_grad()` or `torch.tensor(…)`."
        )
    if problem.slug == "nan-gradient":
        text = "The values are right, but the gradient holds NaN. A NaN or an infinite slope on the way, mended later, "
        return Finding("nan-gradient", text + "comes back in the backward pass: let none arise.")
    if problem.kind == "raised":
        return Finding("gradient-raises", "The values are right, but it fails where an input asks for a gradient.")
    return Finding(
        "gradient-wrong", "The values are right, the gradients are not: is a part of the way out of the graph?"
    )


def _known(
    posed: Posed, calls: list[Call], problems: list[Problem | None], indices: list[int], strict: bool
) -> Finding | None:
    """The first known mistake that agrees with the calls at `indices`."""
    for mistake in posed.exercise.mistakes:
        outcomes = posed.mistaken(mistake.slug)
        if not strict and not any(_is_wrong(posed, i, outcomes[i]) for i in indices):
            continue  # a mistake that does not show in these cases cannot be what went wrong in them
        agree = all(_agree(posed.cases[i], calls[i], problems[i], outcomes[i], strict) for i in indices)
        if agree and _speaks(posed, calls, outcomes, indices):
            return Finding(mistake.slug, mistake.advice)
    return None


def _speaks(posed: Posed, calls: list[Call], outcomes: list[Outcome], indices: list[int]) -> bool:
    """Calls that agree with a known mistake: do they say more than that both raise?

    They do where a wrong value agrees, where both raise the same words each time, or where most cases do not raise:
    to fail in just these few tells much.
    """
    raised = [i for i in indices if calls[i].failure is not None and posed.cases[i].raises is None]
    returned = [i for i in indices if calls[i].failure is None]
    if not raised:
        return True
    if any(_is_wrong(posed, i, outcomes[i]) for i in returned) or len(returned) > len(raised):
        return True
    return all(calls[i].failure.message == outcomes[i].said != "" for i in raised)


def _is_wrong(posed: Posed, index: int, outcome: Outcome) -> bool:
    case, expected = posed.cases[index], posed.expected[index]
    if outcome.made is not None:
        return True
    return outcome.failure != expected.failure or not same(outcome.value, expected.value, tolerance(case))


def _agree(case: Case, call: Call, problem: Problem | None, outcome: Outcome, strict: bool) -> bool:
    if call.failure is not None or outcome.failure is not None:
        return call.failure is not None and call.failure.type_name == outcome.failure
    if problem is not None and problem.kind == "warned" and not outcome.warned:
        return False
    if (problem is not None and problem.kind == "made") != (outcome.made is not None) and strict:
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
