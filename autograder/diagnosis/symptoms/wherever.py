"""Which cases are wrong, where others are right."""

from __future__ import annotations

from ...data import Call, Certainty, Finding
from ..evidence import Evidence

#: A feature is said only if it tells at least so many right cases from so many wrong ones: that two sizes are equal,
#: any other, and any other of sizes, of which there are so many that one often fits by chance.
EQUAL, FEWEST, OF_SIZES = 2, 3, 5


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
