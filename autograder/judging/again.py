"""Asks many functions of our own the same few cases: inputs are made once, and nothing is printed or warned of."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercises.kit.records import Case
from ..running import tensors
from ..worker.values import leaves, map_leaves
from .ours import one_at_a_time, outcome
from .posed import Outcome

#: Other arguments remember what they were asked: each call needs its own.
_PLAIN = (np.ndarray, np.generic, int, float, str, type(None))


@dataclass(frozen=True)
class _Ready:
    """The inputs of a case, to be used many times. case: kept, so that nothing else gets its id."""

    case: Case
    args: list[Any]
    kwargs: dict[str, Any]
    tensors: tuple[Any, ...]

    def written(self) -> int:
        """How often tensors among the inputs were written to; arrays refuse it."""
        return sum(tensor._version for tensor in self.tensors)


class Again:
    """Calls functions of our own on cases, as `outcome` does, without making the inputs anew each time."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._ready: dict[int, _Ready | None] = {}

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        """Many calls inside: printing, warnings and torch's number of threads belong to the whole process."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(one_at_a_time)
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            if self._library == "torch":
                stack.enter_context(tensors.one_thread())
            warnings.simplefilter("ignore")
            yield

    def ask(self, function: Callable[..., Any], case: Case) -> Outcome:
        """What a function answers to a case. To be called inside `quietly`."""
        key = id(case.args)
        if key not in self._ready:
            self._ready[key] = self._made(case)
        ready = self._ready[key]
        if ready is None:
            return outcome(function, case, library=self._library)
        before = ready.written()
        try:
            value = function(*map_leaves(ready.args, _same), **map_leaves(ready.kwargs, _same))
            value = tensors.to_numpy(value) if self._library == "torch" else copy.deepcopy(value)
            found = Outcome(value)
        except ValueError as error:
            if "read-only" in str(error):
                return outcome(function, case, library=self._library)
            found = Outcome(failure="ValueError", said=str(error))
        except Exception as error:
            found = Outcome(failure=type(error).__name__, said=str(error))
        if ready.written() != before:  # it wrote into its input
            del self._ready[key]
        return found

    def _made(self, case: Case) -> _Ready | None:
        """The inputs of a case, to be used many times; None where each call needs its own."""
        given = list(leaves((*case.args, *case.kwargs.values())))
        if case.gradient or case.watch or any(not isinstance(leaf, _PLAIN) for leaf in given):
            return None
        args, kwargs = map_leaves(list(case.args), _locked), map_leaves(dict(case.kwargs), _locked)
        if self._library == "torch":
            args, kwargs = tensors.to_torch(args), tensors.to_torch(kwargs)
        tensors_in = tuple(leaf for leaf in leaves((args, kwargs)) if hasattr(leaf, "_version"))
        return _Ready(case, args, kwargs, tensors_in)


def _same(leaf: Any) -> Any:
    return leaf


def _locked(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        leaf = np.array(leaf, order="K")
        leaf.flags.writeable = False
    return leaf
