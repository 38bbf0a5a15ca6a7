"""Which mistake explains a wrong answer: first the exercise's known mistakes, then general relations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..data import Call, Certainty, Finding
from ..judging.compare import Problem
from ..judging.posed import Posed
from .evidence import Evidence
from .known import ON_ORDINARY, is_refuted, known_mistake
from .mutants.explain import explain, explain_ordinary
from .observed import is_hunt
from .symptoms import form, shapes, values
from .symptoms.form import names_given, some_cases_only, where_it_fails

__all__ = ["Finding", "recognise"]

Relation = Callable[[Evidence], Finding | None]
#: What is looked for in each of several results by itself.
OF_ONE_RESULT: tuple[Relation, ...] = (
    values.imprecise,
    values.constant_factor,
    values.transposed,
    values.inverted,
    values.masked_rows,
    values.permuted,
    values.read_in_another_order,
    values.entries_missing,
    values.unnormalised,
    values.rows_related,
    values.same_row_everywhere,
)


def leaf_by_leaf(evidence: Evidence) -> Finding | None:
    """Of several results each by itself: which are right, and what is the matter with each of the others."""
    leaves = evidence.posed.exercise.leaves
    if len(leaves) < 2 or not evidence.all_of_kind("values"):
        return None
    wrong = sorted({leaf for _, leaf, _, _ in evidence.wrong_pairs()} | evidence.misshapen())
    found = {leaf: _first_of(OF_ONE_RESULT, replace(evidence, only=leaf)) for leaf in wrong}
    if not any(found.values()):
        return None
    fine = [leaf.name for index, leaf in enumerate(leaves) if index not in wrong]
    told = [f"{values.begin(fine)}: right."] if fine else []
    for text in dict.fromkeys(each.text if each else "wrong." for each in found.values()):
        names = [leaves[i].name for i, each in found.items() if (each.text if each else "wrong.") == text]
        lead = "" if text.lower().startswith(f"{names[0].lower()} ") else f"{values.begin(names)}: "
        told.append(f"{lead}{text[:1].lower() + text[1:] if lead else text}")
    return Finding("-and-".join(dict.fromkeys(each.slug for each in found.values() if each)), " ".join(told))


def _first_of(relations: Sequence[Relation], evidence: Evidence) -> Finding | None:
    return next((finding for relation in relations if (finding := relation(evidence)) is not None), None)


#: General relations, the most telling first. Each must hold wherever the answer is wrong, not in one case by chance.
RELATIONS: tuple[Relation, ...] = (
    form.no_return,
    form.wrong_signature,
    form.swapped_results,
    form.wrong_container,
    form.opposite,
    form.wrong_dtype,
    form.of_lists,
    shapes.wrong_shape,
    form.only_made,
    form.only_warned,
    shapes.of_shapes,
    values.constant_answer,
    values.remembers,
    form.returns_input,
    values.through_a_float,
    values.rounded_ids,
    values.imprecise,
    values.constant_factor,
    values.transposed,
    values.inverted,
    values.masked_rows,
    form.not_finite,
    values.permuted,
    values.read_in_another_order,
    leaf_by_leaf,
    values.entries_missing,
    values.unnormalised,
    values.first_batch_only,
    values.rows_related,
    values.same_row_everywhere,
    values.generator_unused,
    values.measured_on_draws,
    values.one_result_wrong,
    some_cases_only,
    names_given,
)
#: For answers that are right wherever they do not raise.
OF_CRASHES = (form.wrong_signature, shapes.of_shapes, values.first_batch_only, some_cases_only)
#: For slips of the pen, such as a name that is not defined.
OF_SLIPS = (some_cases_only,)
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
    in_core = any(problems[index] is not None for index in core)
    if not failing:
        return None
    if all(posed.cases[index].gradient for index in failing):
        return _of_gradients(problems[failing[0]])
    if posed.exercise.examine is not None:
        return _of_symptoms(posed, calls[:count], problems[:count], failing) or _of_relations(
            posed, calls[:count], problems[:count]
        )
    if _slips(posed, calls, failing):
        return _of_relations(posed, calls[:count], problems[:count])
    known = (
        known_mistake(posed, calls, problems, list(everywhere), strict=True)
        or form.swapped_results(Evidence(posed, calls[:count], problems[:count]))
        or explain(posed, calls[:count], problems[:count])
        or _of_errors(posed, calls, failing)
        or _of_a_constant(posed, calls[:count], problems[:count])
    )
    if known is None and in_core:
        known = _of_ordinary(posed, calls, problems, core) or explain_ordinary(posed, calls, problems, core)
    if known is not None:
        return known
    finding = _of_relations(posed, calls[:count], problems[:count])
    if finding is not None:
        return finding
    quiet = ("warned", "made", "detached", "gradient")
    telling = [index for index in failing if calls[index].failure is None and problems[index].kind not in quiet]
    return known_mistake(posed, calls, problems, telling, strict=False) if telling else None


def _of_ordinary(posed: Posed, calls: list[Call], problems: list[Problem | None], core: list[int]) -> Finding | None:
    """The known mistake that answers the cases of the core so, and whether it does so elsewhere."""
    found = known_mistake(posed, calls, problems, core, strict=False)
    if found is None or is_hunt(posed) or not is_refuted(posed, calls, found.slug, times=2):
        return found
    return replace(found, text=f"{ON_ORDINARY} like this: {found.text}", certainty=Certainty.RELATION)


def _of_a_constant(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """One number wherever no error is asked for: that it agrees with a known mistake in the core is then chance."""
    if any(call.failure is not None and case.raises is None for call, case in zip(calls, posed.cases, strict=False)):
        return None
    evidence = Evidence(posed, calls, problems)
    return values.constant_answer(evidence) if evidence.all_of_kind("values", "not-raised") else None


def _of_relations(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """The first general relation that holds, of values wherever values are wrong: an error asked for is none."""
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
    return replace(found, facts=where_it_fails(evidence))


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
    certainty = Certainty.KNOWN if "no-error" in advice else Certainty.RELATION
    return Finding("no-error", advice.get("no-error", text), certainty)


def _of_symptoms(posed: Posed, calls: list[Call], problems: list[Problem | None], failing: list[int]) -> Finding | None:
    """The first symptom that was found, in the words of the known mistake of this name, and what sets its cases apart.

    What later cases show is the same design seen elsewhere: to tell of each sends from one cause to another.
    """
    first = next((problems[index].slug for index in failing if problems[index].slug is not None), None)
    if first is None:
        return None
    advice = {mistake.slug: mistake.advice for mistake in posed.exercise.mistakes}
    certainty = Certainty.KNOWN if first in advice else Certainty.SYMPTOM
    return Finding(first, advice.get(first, ""), certainty)


def _of_gradients(problem: Problem) -> Finding:
    """The values are right and the gradients are not."""
    if problem.kind == "detached" or "numpy() on Tensor" in problem.text:
        text = "The values are right, but gradients do not flow: something on the way leaves the graph, such as "
        return Finding(
            "detached",
            text
            + "`.detach()`, `.item()`, `.numpy()`, `.data`, `torch.no_grad()`, `torch.tensor(…)` or `nn.Parameter(…)`.",
        )
    if problem.slug == "nan-gradient":
        text = "The values are right, but the gradient holds NaN. A NaN or an infinite slope on the way, mended later, "
        return Finding("nan-gradient", text + "comes back in the backward pass: let none arise.")
    if problem.kind == "raised":
        return Finding("gradient-raises", "The values are right, but it fails where an input asks for a gradient.")
    return Finding(
        "gradient-wrong",
        "The values are right where they are compared, the gradients are not: is a part of the way out of the graph, "
        "or is another way taken there?",
    )
