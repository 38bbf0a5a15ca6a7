"""Calls one graded function on its cases and reports what happened, as frames.

For every case it calls the function on fresh inputs, and sends at once the result or exception, the warnings, and the
inputs afterwards. Each case that is to be repeated is then called again, and once more with other values in arrays of
the same shapes; after that, its first result is encoded a second time. This exposes a function that keeps state, or
that returns a buffer and later overwrites it.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import inspect
import itertools
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from . import torch_calls
from .call_monitor import Lookout, Seen
from .encode_values import TEXT_CAP, Encoder, Tensor, decode, is_plain_container, leaves, map_leaves
from .random_draws import Handed, global_states, moved, set_apart


class LineCounter:
    """Counts the lines that are run while it is open, in the cells of a notebook or in the file of a function."""

    def __init__(self, function: Any) -> None:
        self._file = getattr(getattr(function, "__code__", None), "co_filename", None)
        self._counts: Counter[tuple[str, int]] = Counter()

    @property
    def most(self) -> int:
        """Return how often the most frequent line was run."""
        return max(self._counts.values(), default=0)

    def __enter__(self) -> LineCounter:
        self._before = sys.gettrace()
        sys.settrace(self._of_frame)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self._before)

    def _of_frame(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        return self._of_line if name == self._file or name.startswith("<cell ") else None

    def _of_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._counts[frame.f_code.co_filename, frame.f_lineno] += 1
        return self._of_line


WARNINGS_CAP = 20
#: Libraries whose error types have more informative names than the built-in ones.
LIBRARIES = ("numpy", "torch")
Send = Callable[[dict[str, Any], bytes], None]


def perform(
    function: Callable[..., Any],
    calls: list[dict[str, Any]],
    payload: bytes,
    send: Send,
    ask: Callable[[dict[str, Any], bytes], Any] | None = None,
    lookout: Lookout | None = None,
) -> None:
    """Call `function` as described by `calls` and send one frame per call, one per repetition, and a last one.

    calls: trees {"args": [...], "kwargs": {...}} over `payload`; "gradient": true sends the gradients of the inputs
    instead of the result; "watch": n also sends the tensors of n or more entries that the call made; "lines": true
    counts how often lines are run; "once": true skips the repetition.
    ask: calls a host function: takes a header and bytes, returns the decoded answer; see `host_function`.
    lookout: watches for forbidden calls meanwhile. Once it has found one, nothing more is sent.
    """
    with contextlib.suppress(Seen), lookout or Lookout((), lambda name: None) as lookout:
        _perform(function, calls, payload, send, ask, lookout)


def _perform(
    function: Callable[..., Any],
    calls: list[dict[str, Any]],
    payload: bytes,
    send: Send,
    ask: Callable[[dict[str, Any], bytes], Any] | None,
    lookout: Lookout,
) -> None:
    with lookout.resting():
        put_back = set_apart()
    try:
        _ask(function, calls, payload, send, ask, lookout)
    finally:
        with lookout.resting():
            put_back()


def _ask(
    function: Callable[..., Any],
    calls: list[dict[str, Any]],
    payload: bytes,
    send: Send,
    ask: Callable[[dict[str, Any], bytes], Any] | None,
    lookout: Lookout,
) -> None:
    numbers = itertools.count()

    def build() -> dict[str, Any]:
        return builders(ask, next(numbers))

    kept: list[tuple[int, Any]] = []
    with lookout.resting():
        before = global_states()
    for index, call in enumerate(calls):
        made = build()
        with lookout.over(closely=True):
            header, encoder, result = one_call(function, call, payload, made)
        header["drew"], header["left"] = made["rng"].drew, made["rng"].left
        if index == len(calls) - 1:
            with lookout.resting():
                header["randomness"] = moved(before)
        if header["outcome"] == "returned" and not call.get("once"):
            kept.append((index, result))
        send({"event": "call", "index": index, **header}, encoder.payload())
    repeated = [(index, call) for index, call in enumerate(calls) if not call.get("once")]
    for index, call in repeated:
        with lookout.over(closely=False):
            header, encoder, _ = one_call(function, call, payload, build())
        send({"event": "again", "index": index, **header}, encoder.payload())
    for _, call in repeated:
        with lookout.over(closely=False):
            one_call(function, call, payload, build(), shake=True)
    for index, result in kept:
        encoder = Encoder()
        tree = encoder.encode(result)
        send({"event": "later", "index": index, "value": tree}, encoder.payload())
    send({"event": "done"}, b"")


def builders(ask: Callable[[dict[str, Any], bytes], Any] | None, number: int) -> dict[str, Any]:
    """Return makers of the arguments that are no plain values, for the call of this number."""
    return {
        "rng": Handed(generator),
        "host": lambda node: host_function(str(node["id"]), ask, node.get("lib") == "torch", number),
        "activation": lambda node: torch_calls.activation(str(node["name"]), float(node["scale"])),
    }


def generator(node: dict[str, Any]) -> Any:
    """Return a seeded random generator of NumPy or torch."""
    seed, used = int(node["seed"]), node.get("used") is True
    if node.get("lib") == "torch":
        import torch

        source = torch.Generator().manual_seed(seed)
        if used:
            torch.rand(1, generator=source)
        return source
    drawn_from = np.random.default_rng(seed)
    if used:
        drawn_from.random()
    return drawn_from


def answer_of_host(reply: dict[str, Any], payload: bytes) -> Any:
    """Return what a host function returned, from the frame that answers an "ask"; raises what it raised."""
    if "raise" in reply:
        kind = {"TypeError": TypeError, "IndexError": IndexError}.get(str(reply["raise"]), ValueError)
        raise kind(str(reply.get("message", "")))
    return decode(reply["value"], payload)


def host_function(
    identity: str, ask: Callable[[dict[str, Any], bytes], Any] | None, torch: bool = False, number: int = 0
) -> Callable[..., Any]:
    """Return a function whose body runs on the host; its arguments and its result are sent as values.

    number: the number of the graded function's call, which shows the host when a new one has begun.
    """

    def remote(args: tuple[Any, ...], kwargs: dict[str, Any], grads: tuple[Any, ...] | None) -> Any:
        if ask is None:
            raise RuntimeError("this function cannot be called here")
        encoder = Encoder()
        header = {"event": "ask", "id": identity, "number": number, "args": encoder.encode(tuple(args))}
        header["kwargs"] = encoder.encode(dict(kwargs))
        if grads is not None:
            header["grads"] = encoder.encode(tuple(grads))
        return ask(header, encoder.payload())

    def call(*args: Any, **kwargs: Any) -> Any:
        return torch_calls.differentiable(remote)(*args, **kwargs) if torch else remote(args, kwargs, None)

    call.__name__ = call.__qualname__ = identity if identity.isidentifier() else "function"
    return call


def one_call(
    function: Callable[..., Any],
    call: dict[str, Any],
    payload: bytes,
    build: dict[str, Any],
    shake: bool = False,
) -> tuple[dict[str, Any], Encoder, Any]:
    gradient = call.get("gradient") is True
    args = [decode(tree, payload, build) for tree in call["args"]]
    kwargs = {key: decode(tree, payload, build) for key, tree in call["kwargs"].items()}
    if shake:
        args, kwargs = map_leaves(args, _shaken), map_leaves(kwargs, _shaken)
    if any(isinstance(leaf, Tensor) for leaf in leaves((args, kwargs))):
        args, kwargs = torch_calls.revive(args, gradient), torch_calls.revive(kwargs, gradient)
    encoder = Encoder()
    result, watch = None, torch_calls.Watch(int(call["watch"])) if call.get("watch") else None
    busy = LineCounter(function) if call.get("lines") is True and not shake else None
    with (
        warnings.catch_warnings(record=True) as caught,
        np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"),
    ):
        warnings.simplefilter("always")
        try:
            with watch or contextlib.nullcontext(), busy or contextlib.nullcontext():
                result = torch_calls.gradients(function, args, kwargs) if gradient else function(*args, **kwargs)
        except BaseException as error:  # a student's SystemExit or KeyboardInterrupt is an exception like any other
            header = {"outcome": "raised", "error": describe_error(error, function)}
        else:
            header = {"outcome": "returned", "value": encoder.encode(result)}
    header["warnings"] = [
        {
            "category": item.category.__name__,
            "numerical": issubclass(item.category, RuntimeWarning),
            "message": str(item.message)[:200],
        }
        for item in caught[:WARNINGS_CAP]
    ]
    inputs = [value for value in leaves((*args, *kwargs.values())) if hasattr(value, "ndim") and np.shape(value) != ()]
    inputs += [value for value in (*args, *kwargs.values()) if is_plain_container(value)]
    header["inputs_after"] = [encoder.encode(value) for value in inputs]
    header["made"] = [encoder.encode(array) for array in watch.made] if watch else []
    header["lines"] = busy.most if busy else 0
    return header, encoder, result


def _shaken(value: Any) -> Any:
    """Return an array's entries in reverse order, which gives other values in the same range."""
    if isinstance(value, Tensor):
        return Tensor(_shaken(value.array).copy())
    return value.reshape(-1)[::-1].reshape(value.shape) if isinstance(value, np.ndarray) else value


def describe_error(error: BaseException, function: Any = None) -> dict[str, Any]:
    """Return the type and message of `error`, and the student's cell and line that raised it; never a traceback.

    function: the one that was called. "deliberate": whether a `raise` in a cell, or in that function's file, raised it.
    """
    line, text, name, cell, deliberate = None, "", "Exception", "", False
    try:  # the exception may be of a class of the student's own
        name = str(type(error).__name__)[:200]
        built_in = [kind for kind in type(error).__mro__ if vars(builtins).get(kind.__name__) is kind]
        library = type(error).__module__.partition(".")[0] in LIBRARIES
        if built_in[0] not in (Exception, BaseException) and not library:
            name = built_in[0].__name__  # a student's own kind of ValueError is reported as a ValueError
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.startswith("<cell "):
                line, cell = frame.lineno, frame.filename[6:-1]
        text = str(error)[:TEXT_CAP]
        if isinstance(error, SyntaxError) and str(error.filename).startswith("<cell "):
            line, text = int(error.lineno or 0) or None, str(error.msg)[:TEXT_CAP]
        deliberate = _is_raised_by_statement(error, function)
    except BaseException:
        pass
    return {"type": name, "message": text, "line": line, "cell": cell, "deliberate": deliberate}


def _is_raised_by_statement(error: BaseException, function: Any) -> bool:
    """Return whether a `raise` of the student's raised it; if it comes from another line of theirs, a library did."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None:
        return False
    code = at.tb_frame.f_code
    own = getattr(inspect.unwrap(function), "__code__", None)
    here = code.co_filename.startswith("<cell ") or (own is not None and code.co_filename == own.co_filename)
    return here and code.co_code[at.tb_lasti] == dis.opmap["RAISE_VARARGS"]
