"""What the judge is told: an exercise, its cases, its known mistakes and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Share of the points for good conduct: inputs unchanged, no hidden state, the same answer when asked again.
CONDUCT_SHARE = 0.1
#: The criterion of the case that the judge adds itself: do the right gradients flow to the inputs?
GRADIENTS = "gradients"
#: Words and tolerance of a case that is off where a step is taken in float32. Where the root of a size is taken, let it
#: be a whole number: a constant such as `torch.tensor(d).sqrt()` is a float32, and that is no mistake.
IN_FLOAT64, RTOL_FLOAT64 = "every step in float64", 1e-8
#: Of a number that may come as a tensor: it is of the dtype of the floating inputs then.
OF_INPUTS = "as the inputs"


@dataclass(frozen=True)
class Leaf:
    """One array or number that a graded function returns.

    kind: "float array", "int array", "bool array", "int list", "text list", "pair list" (of tuples of two ints), "int",
        "float", "bool" or "text"; in torch units an array is a tensor. "dict" where the exercise examines what it gets.
    name: the word for it in messages, such as "weights".
    rows_sum_to_one: True for attention weights, so that the judge can say which sum is off.
    exactly: the dtype, such as "int64", where no other of its kind will do; OF_INPUTS for a number that is of the dtype
        of the floating inputs where it comes as a tensor.
    """

    kind: str
    name: str = "result"
    rows_sum_to_one: bool = False
    exactly: str = ""


@dataclass(frozen=True)
class Raises:
    """What a call must raise: an exception type by name, and strings that its message must hold."""

    type_name: str
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One call of a graded function.

    criterion: the named part of the credit that this case belongs to, such as "values" or "edge cases".
    label: the case in the student's words, such as "a single token (n = 1)".
    args, kwargs: arrays, numbers, `Rng`, `Activation`, `HostFunction` or `DevicePart`, and tuples, lists and dicts of
        these; memory layout of arrays is kept. In torch units every NumPy array reaches the function as a tensor.
    sizes: the named sizes, such as {"n": 5, "d_k": 3}; the judge uses them to recognise factors like √d_k.
    rtol: relative tolerance; None chooses it from the precision of the inputs.
    raises: what the call must raise, if anything.
    quiet: True where a numerical warning (RuntimeWarning) fails the case.
    gradient: True where not the result is asked for, but its gradient for every floating input.
    watch: where not 0, tensors of at least so many entries that the answer makes on the way go to `Exercise.made`.
    lines: where not 0, no line of the answer may be run so often: there is to be no Python loop over what is so long.
    once: True where the result is too large to travel three times: good conduct is then judged by the other cases.
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
    """A wrong implementation that students really write.

    slug: short and stable, such as "divides-by-d".
    advice: one sentence: what went wrong and where to look. It never holds the answer.
    wrong: the wrong implementation, with the signature of the graded function.
    """

    slug: str
    advice: str
    wrong: Callable[..., Any]


@dataclass(frozen=True)
class Sent:
    """One call that a student's program made of a function which was handed in, and that was answered."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Symptom:
    """What is wrong with a result that was examined: a slug, and one sentence for the student."""

    slug: str
    text: str


@dataclass(frozen=True)
class Exercise:
    """A graded function.

    name: the function's name, unique in the course, and the `grade_id` of its answer cell.
    unit: the unit's folder, such as "02_scaled_scores".
    returns: one `Leaf`, or a tuple of them for a function that returns a tuple; tuples may nest. Within it a list
        says that a list or a tuple will do.
    reference: what the field trusts, called with float64 inputs.
    draw: makes the cases from a random generator; the sizes and values differ from seed to seed.
    credit: criterion -> share of the points, summing to 1, in the order in which students read them. Without the first
        criterion, the core, nothing is earned.
    by_case: whether each right case of a criterion earns its part of the share, and not all of them together.
    mistakes: known mistakes, most typical first: the first that explains an answer is named.
    forbidden: names of modules or calls that an answer may not use, such as "scipy" or "nn.MultiheadAttention".
    library: "numpy" or "torch": what arrays are, for the student, the reference and the mistakes.
    not_from: earlier functions that would do this exercise: the course's never stand in here for a student's.
    contains: functions of the same unit whose work a right answer to this one has done as well.
    probes: makes cases in which sizes coincide, for no marks: an answer that takes one size for another runs there.
    general: makes, beside its first case, the cases that every exercise is asked.
    plain: the function as a student would write it, from plain functions of earlier exercises where it is made of
        them: an answer that a small change of it gives as well is told that change.
    counted: functions that are handed in, such as "run", of which the docstring says how often each is to be called.
    own_draws: whether random numbers may come of a generator of the answer's own alone.
    made: looks at the tensors that a case with `watch` made on the way; returns what is wrong with them, or None.
    experiment: of a wrong case, the right answer, the student's and the calls that it made of what it was handed: a
        sentence on what the case shows, such as what a hunt's own calls could tell; "" where there is nothing to say.
    examine: for a result of which many are right, such as the weights of a model: looks at what a case returned, with
        arrays for tensors, and returns what is wrong with it, or None. Nothing is compared with the reference then.
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
        """All results in order, whatever tuples they stand in."""
        return tuple(_flat(self.returns))

    @property
    def core(self) -> str:
        """The criterion without which nothing is earned: the first of `credit`."""
        return next(iter(self.credit))


def _flat(returns: Leaf | tuple[Any, ...]) -> Iterator[Leaf]:
    if isinstance(returns, (tuple, list)):
        for item in returns:
            yield from _flat(item)
    else:
        yield returns
