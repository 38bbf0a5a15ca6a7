"""Handles torch in a call: makes tensors of arrays, computes gradients, and collects tensors that the call makes.

torch is imported when a unit first needs it, so the NumPy units never wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .encode_values import Tensor, leaves, map_leaves

#: One call reports at most this many tensors that it made.
MADE_CAP = 40


def revive(value: Any, gradient: bool = False) -> Any:
    """Return `value` with a torch tensor for every `Tensor`; with `gradient`, the floating ones require a gradient."""
    import torch

    def tensor(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        made = torch.from_numpy(leaf.array)
        return made.requires_grad_() if gradient and made.is_floating_point() else made

    return map_leaves(value, tensor)


def is_floating(leaf: Any) -> bool:
    import torch

    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def gradients(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the gradient of a fixed weighted sum of all floating results, for every floating input in order.

    The inputs must require gradients. An input that the sum does not depend on gets None; if no result is a
    floating tensor, the tuple is empty.
    """
    import torch

    inputs = [leaf for leaf in leaves((*args, *kwargs.values())) if is_floating(leaf)]
    result = function(*args, **kwargs)
    reached = [leaf for leaf in leaves(result) if is_floating(leaf) and leaf.requires_grad]
    if not any(is_floating(leaf) for leaf in leaves(result)):  # numbers carry no gradient
        return ()
    if not reached:
        return (None,) * len(inputs)
    total = sum((leaf * _weights(leaf, index)).sum() for index, leaf in enumerate(reached))
    return torch.autograd.grad(total, inputs, allow_unused=True)


def _weights(leaf: Any, index: int) -> Any:
    """Return weights of order 1 without symmetry, so that no symmetry of a result can hide a wrong gradient."""
    import torch

    steps = torch.arange(leaf.numel(), dtype=leaf.dtype).reshape(leaf.shape)
    return torch.cos(0.7 * steps + 0.3 * index) + 0.5


def activation(name: str, scale: float) -> Callable[..., Any]:
    """Return an elementwise, differentiable function: one of torch's own, of `scale` times the input."""
    import torch
    from torch.nn import functional

    known = {
        "tanh": torch.tanh,
        "relu": torch.relu,
        "silu": functional.silu,
        "softplus": functional.softplus,
        "square": torch.square,
        "sin": torch.sin,
    }
    inner = known[name]

    def function(x: Any) -> Any:
        return inner(scale * x)

    return function


class Watch:
    """Collects the tensors of at least `least` entries that torch calls make while it is open. Views do not count."""

    def __init__(self, least: int) -> None:
        from torch.overrides import TorchFunctionMode

        self.made: list[np.ndarray] = []
        watch = self

        class Mode(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                for leaf in leaves(result):
                    watch.see(leaf, least)
                return result

        self._mode = Mode()

    def see(self, leaf: Any, least: int) -> None:
        """Keep a copy of `leaf` if it is a tensor of that size, with memory for each of its entries."""
        import torch

        if not isinstance(leaf, torch.Tensor) or leaf.numel() < least or len(self.made) >= MADE_CAP:
            return
        if leaf.dtype in (torch.bfloat16,) or leaf.untyped_storage().nbytes() < leaf.numel() * leaf.element_size():
            return
        self.made.append(leaf.detach().clone().numpy())

    def __enter__(self) -> Watch:
        self._mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)


Remote = Callable[[tuple[Any, ...], dict[str, Any], "tuple[Any, ...] | None"], Any]


def differentiable(remote: Remote) -> Callable[..., Any]:
    """Return a function of tensors whose value and gradient `remote` computes.

    remote: takes positional and keyword arguments and, for the gradient, the gradients of the results; returns the
    results, or the gradients of the inputs that require one, with `Tensor` for tensors.
    """
    import torch

    def function(*args: Any, **kwargs: Any) -> Any:
        asking = [leaf for leaf in leaves((*args, *kwargs.values())) if is_floating(leaf) and leaf.requires_grad]
        if not asking:
            return revive(remote(args, kwargs, None))
        results: list[Any] = []

        class Remotely(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *tensors: Any) -> Any:
                results.append(revive(remote(args, kwargs, None)))
                return tuple(leaf for leaf in leaves(results[0]) if isinstance(leaf, torch.Tensor))

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return revive(remote(args, kwargs, grads))

        computed = iter(Remotely.apply(*asking))
        return map_leaves(results[0], lambda leaf: next(computed) if isinstance(leaf, torch.Tensor) else leaf)

    return function
