"""Says whether a student's calls of the black box in `catches_wrong_decoder` could show its bug."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..kit import Case, Sent, difference, named

Layer = Callable[..., torch.Tensor]
Inputs = Mapping[str, Any]
#: Stands for the difference of an output if there is none because of an error.
ERROR = "error"


def told_by(
    trials: Callable[[], Iterator[Sequence[Any]]], right: Layer
) -> Callable[[Case, Any, Any, Sequence[Sent]], str]:
    """Return an `experiment`. trials: yields torch inputs of many kinds, some of which reveal the bug.

    right: the correct layer.
    """
    names = list(inspect.signature(right).parameters)

    def experiment(case: Case, wrong: Any, answered: Any, sent: Sequence[Sent]) -> str:
        if not isinstance(answered, (bool, np.bool_)) or bool(answered) == wrong or not sent:
            return ""
        calls = [{"source_mask": None, **named(each, names)} for each in sent]
        gaps = [_gap(case.args[0], right, inputs) for inputs in calls]
        if not wrong:
            return "" if any(gaps) else "this decoder is correct on each of your calls, up to rounding."
        shown = [(at, gap) for at, gap in enumerate(gaps, start=1) if gap]
        if shown:
            at, gap = shown[0]
            which = f"your call {at} (of {len(calls)})" if len(calls) > 1 else "your call"
            differs = f"the output of {which} differs from the right one {gap}"
            text = f"{which} ends in an error, which a right decoder does not" if gap == ERROR else differs
            return f"{text}. Your function returns {bool(answered)}."
        which = f"none of your {len(calls)} calls shows" if len(calls) > 1 else "your call does not show"
        tried = [dict(zip(names, map(_numpy, inputs), strict=True)) for inputs in trials()]
        lacking = _lacking(calls, [(inputs, bool(_gap(case.args[0], right, inputs))) for inputs in tried])
        return f"{which} the bug, because this decoder answers there like a correct one.{lacking}"

    return experiment


def _gap(layer: Any, of_right: Layer, inputs: Inputs) -> str:
    """Say how the box's output differs from the correct one; return "" if it doesn't."""
    right = of_right(**{name: _torch(value) for name, value in inputs.items()}).numpy()
    try:
        return difference(np.asarray(layer.device.make()[layer.name](**inputs)), right)
    except ValueError:
        return ERROR


def _torch(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _torch(each) for name, each in value.items()}
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _numpy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numpy(each) for name, each in value.items()}
    return value.numpy() if isinstance(value, torch.Tensor) else value


def _lacking(calls: Sequence[Inputs], tried: Sequence[tuple[Inputs, bool]]) -> str:
    """Say what all inputs that reveal the bug have in common but none of these calls has: one feature, or two together.

    tried: inputs, and whether they reveal the bug.
    """
    shown = [dict(_features(inputs)) for inputs, shows in tried if shows]
    other = [dict(_features(inputs)) for inputs, shows in tried if not shows]
    mine = [dict(_features(inputs)) for inputs in calls]
    if not shown:
        return ""
    common = [words for words in shown[0] if all(each[words] for each in shown)]
    for count in (1, 2):
        lacking = [
            together
            for together in itertools.combinations(common, count)
            if not any(all(each[words] for words in together) for each in mine)
        ]
        if lacking:
            best = min(lacking, key=lambda together: sum(all(each[words] for words in together) for each in other))
            return f" You never call it with inputs where {' and '.join(best)}."
    return ""


def _features(inputs: Inputs) -> Iterator[tuple[str, bool]]:
    """Yield features of a call in the words of the exercise, and whether the call has them."""
    X, Y, h, allowed = inputs["X"], inputs["Y"], inputs["n_heads"], inputs["source_mask"]
    B, n, m = *X.shape[:2], Y.shape[1]
    yield "source_mask is None", allowed is None
    masked = allowed is not None and not allowed.all()
    yield "source_mask hides anything", masked
    yield "a source has nothing allowed", masked and not allowed.any(axis=1).all()
    yield "an allowed source token follows a hidden one", masked and bool((np.diff(allowed * 1, axis=1) > 0).any())
    yield "two sequences have different masks", masked and bool((allowed != allowed[:1]).any())
    for one, other, same in (("n", "m", n == m), ("B", "n", n == B), ("B", "n_heads", h == B)):
        yield f"{one} is {other}", same
    yield "n is 1", n == 1
    yield "m is 1", m == 1
    yield "B is more than 1", B > 1
    yield "n_heads is more than 1", h > 1
    yield "m is larger than n", m > n
    yield "n is larger than 5", n > 5
    widths = {name: inputs["params"][f"{name}_W_Q"].shape[1] for name in ("self", "cross")}
    yield "the heads of the two attentions differ in width", widths["self"] != widths["cross"]
