"""Defines the records that the grader reads: an exercise, its cases, its known mistakes and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Share of the points for good conduct: inputs unchanged, no hidden state, the same answer when called again.
CONDUCT_SHARE = 0.1
#: The criterion of the case that the grader adds itself, which tests the gradients for the inputs.
GRADIENTS = "gradients"
#: Label and tolerance of a case that fails if a step is taken in float32. If the root of a size is taken, make the size
#: a square, because a constant such as `torch.tensor(d).sqrt()` is float32 and that is no mistake.
IN_FLOAT64, RTOL_FLOAT64 = "every step in float64", 1e-8
#: Marks a number that has the dtype of the floating inputs if it is returned as a tensor.
OF_INPUTS = "as the inputs"


@dataclass(frozen=True)
class Leaf:
    """Describes one array or number that a graded function returns.

    kind: "float array", "int array", "bool array", "int list", "text list", "pair list" (of tuples of two ints), "int",
        "float", "bool" or "text"; in torch units an array is a tensor. "dict" if the exercise examines its result.
    name: the word for it in messages, such as "weights".
    rows_sum_to_one: True for attention weights, so that the grader can say which sum is wrong.
    exactly: the dtype, such as "int64", if no other of its kind is accepted; OF_INPUTS for a number that has the dtype
        of the floating inputs if it is returned as a tensor.
    """

    kind: str
    name: str = "result"
    rows_sum_to_one: bool = False
    exactly: str = ""


@dataclass(frozen=True)
class Raises:
    """Describes what a call must raise: the name of an exception type, and strings that its message must contain."""

    type_name: str
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """Describes one call of a graded function.

    criterion: the named part of the credit that this case belongs to, such as "values" or "edge cases".
    label: the case in the student's words, such as "a single token (n = 1)".
    args, kwargs: arrays, numbers, `Rng`, `Activation`, `HostFunction` or `DevicePart`, and tuples, lists and dicts of
        these; memory layout of arrays is kept. In torch units every NumPy array reaches the function as a tensor.
    sizes: the named sizes, such as {"n": 5, "d_k": 3}; the grader uses them to recognise factors like √d_k.
    rtol: relative tolerance; None chooses it from the precision of the inputs.
    raises: what the call must raise, if anything.
    quiet: True if a numerical warning (RuntimeWarning) fails the case.
    gradient: True if the gradient for every floating input is compared, not the result.
    watch: unless 0, the intermediate tensors with at least this many entries are passed to `Exercise.made`.
    lines: unless 0, no line of the answer may run this many times, which rules out a Python loop over that many items.
    once: True if the result is too large to send three times; the other cases then check good conduct.
    """

    criterion: str
    label: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    rtol: float | None = None
    raises: Raises | None = None
    quiet: bool = False
    gradient: bool = False
    watch: int = 0
    lines: int = 0
    once: bool = False


@dataclass(frozen=True)
class Mistake:
    """Describes a wrong implementation that students really write.

    slug: short and stable, such as "divides-by-d".
    advice: one sentence that says what is wrong and where to look, but never the answer.
    wrong: the wrong implementation, with the signature of the graded function.
    """

    slug: str
    advice: str
    wrong: Callable[..., Any]


@dataclass(frozen=True)
class Sent:
    """Records one answered call that a student's program made of a function in its arguments."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Symptom:
    """Describes what is wrong with an examined result: a slug, and one sentence for the student."""

    slug: str
    text: str


@dataclass(frozen=True)
class Exercise:
    """Describes a graded function.

    name: the function's name, unique in the course, and the `grade_id` of its answer cell.
    unit: the unit's folder, such as "02_scaled_scores".
    returns: one `Leaf`, or a tuple of them for a function that returns a tuple; tuples may nest. A list inside it
        means that both a list and a tuple are accepted.
    reference: a trusted implementation, called with float64 inputs.
    draw: makes the cases from a random generator; sizes and values differ from seed to seed.
    credit: criterion -> share of the points, summing to 1, in the order in which students read them. Without the first
        criterion, the core, an answer earns nothing.
    by_case: whether each correct case of a criterion earns a part of its share; otherwise all must be correct.
    mistakes: known mistakes, the most typical first; the first that explains an answer is reported.
    forbidden: names of modules or calls that an answer may not use, such as "scipy" or "nn.MultiheadAttention".
    library: "numpy" or "torch": the kind of arrays for the student, the reference and the mistakes.
    not_from: earlier functions that would do this exercise; the course's versions never replace a student's here.
    contains: functions of the same unit whose work a correct answer also does.
    probes: makes cases with equal sizes, for no marks, in which an answer that confuses two sizes still runs.
    general: makes, from the first case, the cases that every exercise gets.
    plain: the function as a student would write it, built from plain functions of earlier exercises where possible. If
        a small change of it gives the same results as a wrong answer, the grader reports that change.
    counted: function arguments, such as "run", whose number of calls the docstring fixes.
    own_draws: whether random numbers may come only from a generator of the answer's own.
    made: looks at the intermediate tensors of a case with `watch`; returns what is wrong with them, or None.
    experiment: takes a wrong case, the correct answer, the student's, and the calls of function arguments. Returns a
        sentence on what the case shows, such as what the calls of a black box could reveal, or "".
    examine: for an exercise with many correct results, such as the weights of a model; looks at a case's result, with
        arrays for tensors, and returns what is wrong with it, or None. Nothing is compared with the reference.
    """

    name: str
    unit: str
    returns: Leaf | tuple[Any, ...]
    reference: Callable[..., Any]
    draw: Callable[[np.random.Generator], Sequence[Case]]
    credit: Mapping[str, float]
    mistakes: tuple[Mistake, ...]
    forbidden: tuple[str, ...] = ()
    library: str = "numpy"
    not_from: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    probes: Callable[[np.random.Generator], Sequence[Case]] | None = None
    general: Callable[[np.random.Generator, Case], Sequence[Case]] | None = None
    plain: Callable[..., Any] | None = None
    counted: tuple[str, ...] = ()
    own_draws: bool = False
    by_case: bool = False
    made: Callable[[Case, list[np.ndarray]], str | None] | None = None
    experiment: Callable[[Case, Any, Any, Sequence[Sent]], str] | None = None
    examine: Callable[[Case, Any], Symptom | None] | None = None

    def __post_init__(self) -> None:
        if abs(sum(self.credit.values()) - 1) > 1e-9:
            raise ValueError(f"{self.name}: the shares of credit must sum to 1, not {sum(self.credit.values())}")
        slugs = [mistake.slug for mistake in self.mistakes]
        if len(set(slugs)) != len(slugs):
            raise ValueError(f"{self.name}: two known mistakes share a slug")

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Return all results in order, however tuples nest."""
        return tuple(_flat(self.returns))

    @property
    def core(self) -> str:
        """Return the first criterion of `credit`, without which an answer earns nothing."""
        return next(iter(self.credit))


def _flat(returns: Leaf | tuple[Any, ...]) -> Iterator[Leaf]:
    if isinstance(returns, (tuple, list)):
        for item in returns:
            yield from _flat(item)
    else:
        yield returns
