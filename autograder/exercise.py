"""What a graded function is: its cases, its reference, its known mistakes and its credit.

A unit module builds one `Exercise` per graded function. Nothing in this file runs a student's code: it only
describes what to ask of it and what to expect. What an answer is worth stands in the notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .worker.values import leaves

#: Share of the points for good conduct: inputs unchanged, no hidden state, the same answer when asked again.
CONDUCT_SHARE = 0.1

#: Libraries that a NumPy answer may not import. `autograder` holds the references themselves.
NOT_IN_NUMPY_UNITS = ("torch", "functorch", "scipy", "sklearn", "jax", "tensorflow", "autograder")
#: What torch's own calls are made of; the names differ between versions and devices.
KERNELS = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
    "_cudnn_attention_forward",
    "_efficient_attention_forward",
    "_flash_attention_forward",
    "_flash_attention_forward_no_dropout_inplace",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "_triton_multi_head_attention",
    "_triton_scaled_dot_attention",
)
#: Where torch keeps second versions of its calls, attention and norms among them, written in Python.
INNER_ROOMS = (
    "torch.nn.attention",
    "torch._higher_order_ops.flex_attention",
    "torch.nested._internal.sdpa",
    "torch._refs",
    "torch._decomp",
    "torch._inductor",
    "torch.onnx",
)
#: Calls that do all of an attention, which no torch answer may use.
NOT_IN_TORCH_UNITS = (
    "F.scaled_dot_product_attention",
    "functional.scaled_dot_product_attention",
    "F.multi_head_attention_forward",
    "functional.multi_head_attention_forward",
    "nn.MultiheadAttention",
    "nn.Transformer",
    "nn.TransformerEncoder",
    "nn.TransformerDecoder",
    "nn.TransformerEncoderLayer",
    "nn.TransformerDecoderLayer",
    *(f"aten.{kernel}" for kernel in KERNELS),
    *INNER_ROOMS,
    "autograder",
)
#: The criterion of the case that the judge adds itself: do the right gradients flow to the inputs?
GRADIENTS = "gradients"


@dataclass(frozen=True)
class Leaf:
    """One array or number that a graded function returns.

    kind: "float array", "int array", "bool array", "int list", "int", "float" or "bool"; in torch units an array is a
        tensor. "dict" where the exercise examines what it gets.
    name: the word for it in messages, such as "weights".
    rows_sum_to_one: True for attention weights, so that the judge can say which sum is off.
    exactly: the dtype, such as "int64", where no other of its kind will do.
    """

    kind: str
    name: str = "result"
    rows_sum_to_one: bool = False
    exactly: str = ""


@dataclass(frozen=True)
class Rng:
    """An argument that is a seeded generator, built freshly for every call: NumPy's, or torch's in torch units."""

    seed: int


@dataclass(frozen=True)
class HostFunction:
    """An argument that is a function. It runs outside the student's process, so nothing in it can be read there.

    function: takes and returns NumPy arrays or numbers; a ValueError it raises reaches the student's code.
    """

    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass(frozen=True)
class Device:
    """Functions that share a state, such as a clock and the work that moves it, made afresh for every call.

    make: returns the functions by name; they run outside the student's process, as a `HostFunction` does.
    """

    make: Callable[[], Mapping[str, Callable[..., Any]]]

    def part(self, name: str) -> DevicePart:
        """An argument that is one of the functions."""
        return DevicePart(self, name)


@dataclass(frozen=True)
class DevicePart:
    """An argument that is one function of a `Device`. Parts of one device in the same call share its state."""

    device: Device
    name: str


@dataclass(frozen=True)
class Activation:
    """An argument that is a differentiable elementwise function, built in the worker: `name` of `scale * x`.

    name: "tanh", "relu", "silu", "softplus", "square" or "sin".
    """

    name: str
    scale: float = 1.0


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
class Symptom:
    """What is wrong with a result that was examined: a slug, and one sentence for the student."""

    slug: str
    text: str


@dataclass(frozen=True)
class Exercise:
    """A graded function.

    name: the function's name, unique in the course, and the `grade_id` of its answer cell.
    unit: the unit's folder, such as "02_scaled_scores".
    returns: one `Leaf`, or a tuple of them for a function that returns a tuple; tuples may nest.
    reference: what the field trusts, called with float64 inputs.
    draw: makes the cases from a random generator; the sizes and values differ from seed to seed.
    credit: criterion -> share of the points, summing to 1. Without the first criterion nothing is earned.
    mistakes: known mistakes, most typical first: the first that explains an answer is named.
    forbidden: names of modules or calls that an answer may not use, such as "scipy" or "nn.MultiheadAttention"; None
        chooses those of the library.
    library: "numpy" or "torch": what arrays are, for the student, the reference and the mistakes.
    not_from: earlier functions that would do this exercise: the course's never stand in here for a student's.
    made: looks at the tensors that a case with `watch` made on the way; returns what is wrong with them, or None.
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
    forbidden: tuple[str, ...] | None = None
    library: str = "numpy"
    not_from: tuple[str, ...] = ()
    made: Callable[[Case, list[np.ndarray]], str | None] | None = None
    examine: Callable[[Case, Any], Symptom | None] | None = None

    def __post_init__(self) -> None:
        if self.forbidden is None:
            usual = NOT_IN_TORCH_UNITS if self.library == "torch" else NOT_IN_NUMPY_UNITS
            object.__setattr__(self, "forbidden", usual)
        if abs(sum(self.credit.values()) - 1) > 1e-9:
            raise ValueError(f"{self.name}: the shares of credit must sum to 1, not {sum(self.credit.values())}")
        slugs = [mistake.slug for mistake in self.mistakes]
        if len(set(slugs)) != len(slugs):
            raise ValueError(f"{self.name}: two known mistakes share a slug")

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All results in order, whatever tuples they stand in."""
        return tuple(leaves(self.returns))

    @property
    def nested(self) -> bool:
        """Whether the function returns a tuple that holds a tuple."""
        return isinstance(self.returns, tuple) and not all(isinstance(item, Leaf) for item in self.returns)
