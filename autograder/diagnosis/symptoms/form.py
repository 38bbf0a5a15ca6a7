"""Relations of form: what came back has the wrong type, shape or dtype, or nothing came back."""

from __future__ import annotations

import numpy as np

from ...data import Finding
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
