"""Calls the course's own torch functions with NumPy arrays, so that no other module of the host needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..worker import torch_calls as worker_tensors
from ..worker.encode_values import Foreign, Tensor, leaves, map_leaves


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread in the `with` block: on such small tensors, waking several costs far more than the work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def finite_eigenvalues() -> Iterator[None]:
    """Make torch raise ValueError in the `with` block for the eigenvalues of a matrix that holds NaN or infinity.

    Otherwise torch's LAPACK may end the process. Changed versions of programs, the course's or a student's, can produce
    such matrices.
    """
    import torch

    before = {name: getattr(torch.linalg, name) for name in ("eig", "eigvals")}

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(A: Any, *args: Any, **kwargs: Any) -> Any:
            if not torch.isfinite(A).all():
                raise ValueError("a matrix that holds NaN or infinity has no eigenvalues")
            return function(A, *args, **kwargs)

        return call

    for name, function in before.items():
        setattr(torch.linalg, name, guarded(function))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch.linalg, name, function)


def to_torch(value: Any) -> Any:
    """Return the value with a torch tensor for every array, which shares no memory with it but keeps its layout."""
    return map_leaves(value, lambda leaf: _tensor(leaf) if isinstance(leaf, np.ndarray) else leaf)


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.array(array, order="K"))


def to_numpy(value: Any) -> Any:
    """Return the value with an array for every torch tensor, and a `Foreign` for every NumPy array that it held."""
    import torch

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().numpy().copy()
        return Foreign("NumPy array") if isinstance(leaf, np.ndarray) and leaf.ndim else leaf

    return map_leaves(value, plain)


def as_asked(value: Any) -> Any:
    """Return a decoded torch answer as the grader compares it: tensors become arrays, and NumPy arrays `Foreign`."""

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return leaf.array
        return Foreign("NumPy array") if isinstance(leaf, np.ndarray) and leaf.ndim else leaf

    return map_leaves(value, plain)


def gradients(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Compute what the worker computes for a case with gradients; takes tensors."""
    for leaf in leaves((*args, *kwargs.values())):
        if worker_tensors.is_floating(leaf):
            leaf.requires_grad_()
    return worker_tensors.gradients(function, args, kwargs)


class Differentiable:
    """Wraps a torch function of the course, so that code in the sandbox can get its value and its gradient."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with one_thread():
            return to_numpy(self._function(*to_torch(_own(bare(args))), **to_torch(_own(bare(kwargs)))))

    def gradient(self, args: tuple[Any, ...], kwargs: dict[str, Any], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the inputs that require one, from those of all results."""
        with one_thread():
            return self._gradient(args, kwargs, grads)

    def _gradient(self, args: tuple[Any, ...], kwargs: dict[str, Any], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        import torch

        asking: list[Any] = []

        def tensor(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            made = torch.from_numpy(leaf.array)
            if leaf.requires_grad:
                asking.append(made.requires_grad_())
            return made

        args, kwargs = map_leaves(_own(args), tensor), map_leaves(_own(kwargs), tensor)
        with torch.enable_grad():  # the caller may be in the middle of a backward pass of its own
            results = [leaf for leaf in leaves(self._function(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        pairs = [(r, torch.from_numpy(g.array)) for r, g in zip(results, grads, strict=True) if r.requires_grad]
        outputs, weights = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        found = torch.autograd.grad(outputs, asking, weights, allow_unused=True)
        return tuple(to_numpy(torch.zeros_like(a) if g is None else g) for a, g in zip(asking, found, strict=True))


def _own(value: Any) -> Any:
    """Replace a function among untrusted arguments by torch's own function of that name."""
    from torch.nn import functional

    known = {"function gelu": functional.gelu, "function relu": functional.relu}
    return map_leaves(value, lambda leaf: known.get(leaf.type_name, leaf) if isinstance(leaf, Foreign) else leaf)


def bare(value: Any) -> Any:
    """Return decoded values with arrays for tensors."""
    return map_leaves(value, lambda leaf: leaf.array if isinstance(leaf, Tensor) else leaf)
