"""Writes the messages to a student's process and reads those from it: cells, calls of its functions, and results.

`Request` turns cases into the trees and bytes to send; `Transcript` collects the frames that come back in an
`Answer`. Neither knows the correct results. Everything that comes back is made safe to pass on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..exercises.kit.exercise_records import Case
from ..exercises.kit.special_arguments import Activation, Device, DevicePart, HostFunction, Rng
from ..records import Answer, Call, CellOutcome, CellSource, Failure, HostCall
from ..worker.encode_values import BadValue, Budget, Encoder, Tensor, decode, leaves
from ..worker.random_draws import RANDOMNESS
from ..worker.socket_frames import BadFrame
from .torch_functions import Differentiable, bare


def read_failure(error: Any) -> Failure:
    """Return the failure that an untrusted frame describes; anything but text and a line number is dropped."""
    error = error if isinstance(error, dict) else {}
    line = error.get("line")
    known = type(line) is int and 0 < line < 10**6
    cell = words(error.get("cell"), 100)
    return Failure(
        words(error.get("type"), 200) or "Exception",
        words(error.get("message"), 2_000),
        line if known else None,
        cell if re.fullmatch(r"[\w-]+", cell) else "",
        error.get("deliberate") is True,
    )


def words(value: Any, cap: int) -> str:
    """Return untrusted text, cut to `cap` letters, without lone surrogates, which can't be written to a file."""
    return value[:cap].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


PLOTS = re.compile(r"\bplt\b|matplotlib|pylab")
IMPORT = re.compile(r"^import matplotlib\.pyplot as plt$", re.MULTILINE)


def slow_libraries(cells: Sequence[CellSource]) -> frozenset[str]:
    """Return the slow libraries to import in advance; matplotlib is one only if a student's own cell uses it."""
    found = {"torch"} if any("torch" in cell.source for cell in cells) else set()
    if any(PLOTS.search(cell.source) for cell in cells if cell.kind != "given"):
        found.add("matplotlib")
    return frozenset(found)


def order_of(cell: CellSource, libraries: frozenset[str]) -> dict[str, Any]:
    """Return what is sent of a cell. If no student's cell draws, given cells import matplotlib only on first use."""
    source = cell.source
    if cell.kind == "given" and "matplotlib" not in libraries:
        source = IMPORT.sub("from worker.lazy_matplotlib import plt", source)
    told = {"name": cell.name, "source": source, "tested": cell.tested, "tests": cell.tests}
    return {**told, "own": cell.kind == "extra", "given": cell.kind == "given"}


def outcome_of(name: str, header: dict[str, Any]) -> CellOutcome:
    status = header.get("status")
    if status not in ("ran", "failed", "timeout"):
        raise BadFrame("status")
    failure = read_failure(header.get("error")) if status == "failed" else None
    return CellOutcome(name, status, failure, header.get("defined") is True)


#: An exercise that calls the host more often than this, all its cases together, is taken to run forever.
QUESTIONS_CAP = 10_000
#: This many calls of each function are kept per case, to diagnose a wrong answer.
KEPT = 40
#: Untrusted code may pass a host function numbers up to this size, and this many entries in all.
NUMBER_CAP = 4_096
ENTRIES_CAP = 4_096
PRODUCT_CAP = 3 * 10**7
REPEATED_CAP = 1_000
#: This many noted values of an answer's steps are read.
NOTED_CAP = 1_000
#: Processor time of a request with rewritten versions of an answer, however many.
SECONDS_FOR_SOURCES = 2.0
#: Untrusted code may pass tensors within these limits: broadcasting multiplies axes, so each must be short.
AXES_CAP = 4
AXIS_CAP = 40
TENSOR_ENTRIES_CAP = 30_000
#: This is lower than PRODUCT_CAP, because sending back a result of tensors takes two copies of it.
TENSOR_PRODUCT_CAP = 175 * 10**5


class Request:
    """Holds one exercise's calls, ready to send.

    function: the name to look up among the student's definitions.
    calls, payload: the cases as trees and bytes.
    stand_ins: names of earlier functions that the host computes in this request.
    library: "numpy" or "torch", the kind of arrays that the worker makes.
    forbidden: what the function may not use.
    sources: rewritten versions to call instead of the function, once per case and without the call monitor.
    """

    def __init__(
        self,
        function: str,
        cases: Sequence[Case],
        stand_ins: Mapping[str, Callable[..., Any]] | None = None,
        library: str = "numpy",
        forbidden: Collection[str] = (),
        sources: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.sources = tuple(sources)
        #: Whether marks depend on the answer; rewritten versions of a function only serve the diagnosis.
        self.for_marks = not sources
        self.forbidden = tuple(forbidden)
        self.library = library
        self.stand_ins = tuple(stand_ins or ())
        adapted = Differentiable if library == "torch" else _as_it_is
        self._functions: dict[str, Callable[..., Any]] = {k: adapted(f) for k, f in (stand_ins or {}).items()}
        #: Names of the host's functions that were called.
        self.called: set[str] = set()
        self._asked = 0
        #: How often each function that a case passes was called, by case and place in the arguments.
        self.asked: dict[tuple[int, int | str], int] = {}
        #: The calls themselves by case, from the first run of each.
        self.questions: dict[int, list[HostCall]] = {}
        self._places: dict[str, tuple[int, int | str]] = {}
        self._devices: dict[Device, tuple[int, Mapping[str, Callable[..., Any]]]] = {}
        self._turns: dict[str, frozenset[int]] = {}
        self._turn = 0
        self._transcript: Transcript | None = None
        encoder = Encoder(library)
        self.calls = [
            {
                "args": [self._tree(encoder, value) for value in case.args],
                "kwargs": {key: self._tree(encoder, value) for key, value in case.kwargs.items()},
                "gradient": case.gradient,
                "watch": case.watch,
                "lines": case.lines > 0,
                "once": case.once,
            }
            for case in cases
        ]
        self.payload = encoder.payload()
        repeated = [index for index, case in enumerate(cases) if not case.once]
        for index, call in enumerate(self.calls):
            again = [len(cases) + repeated.index(index)] if index in repeated else []
            shaken = [len(repeated) + turn for turn in again]
            turns = frozenset((index, *again, *shaken))
            if sources:
                turns = frozenset(range(index, len(cases) * len(sources), len(cases)))
            for place, tree in (*enumerate(call["args"]), *call["kwargs"].items()):
                if tree["t"] == "host":
                    self._places[tree["id"]] = (index, place)
                    self.asked[index, place] = 0
                    self._turns[tree["id"]] = turns

    def header(self) -> dict[str, Any]:
        """Return what is sent with the bytes. seconds: processor time, if the request gets less than an exercise."""
        told = {"function": self.function, "calls": self.calls, "library": self.library}
        told |= {"stand_ins": list(self.stand_ins), "forbidden": list(self.forbidden)}
        return {**told, "sources": list(self.sources), "seconds": SECONDS_FOR_SOURCES} if self.sources else told

    def _tree(self, encoder: Encoder, value: Any) -> dict[str, Any]:
        if isinstance(value, Rng):
            return {"t": "rng", "seed": value.seed, "used": value.used, "lib": self.library}
        if isinstance(value, Activation):
            return {"t": "activation", "name": value.name, "scale": value.scale}
        if isinstance(value, (HostFunction, DevicePart)):
            identity = f"argument {len(self._functions)}"
            self._functions[identity] = value
            return {"t": "host", "id": identity, "lib": self.library}
        return encoder.encode(value)

    def transcript(self) -> Transcript:
        """Return an empty transcript for the answers to this request."""
        if self.sources:
            count = len(self.calls) * len(self.sources)
            self._transcript = Transcript(count, range(count), self.asked, self.questions)
        else:
            once = [index for index, call in enumerate(self.calls) if call["once"]]
            self._transcript = Transcript(len(self.calls), once, self.asked, self.questions)
        return self._transcript

    def reply(self, header: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """Answer an "ask" frame by calling the host function that it names with its untrusted arguments."""
        self._asked += 1
        identity = header.get("id")
        function = self._functions.get(identity) if isinstance(identity, str) else None
        if function is None:
            return {"raise": "RuntimeError", "message": "there is no such function"}, b""
        self.called.add(identity)
        if identity in self._places:
            self.asked[self._places[identity]] += 1
        try:
            budget = Budget(len(payload))
            args, kwargs = (decode(header.get(name), payload, budget=budget) for name in ("args", "kwargs"))
            if not isinstance(args, tuple) or not isinstance(kwargs, dict):
                raise BadValue("arguments")
            _refuse_excess([*args, *kwargs.values()])
            self._keep(identity, header.get("number"), tuple(bare(list(args))), kwargs=bare(kwargs))
            encoder = Encoder(self.library)
            with np.errstate(all="ignore"):
                if "grads" in header:
                    result = function.gradient(args, kwargs, decode(header["grads"], payload, budget=budget))
                elif isinstance(function, DevicePart):
                    result = self._part(function, identity, header.get("number"))(*bare(args), **bare(kwargs))
                elif isinstance(function, HostFunction):
                    result = function(*bare(args), **bare(kwargs))
                else:
                    result = function(*args, **kwargs)
            return {"value": encoder.encode(result)}, encoder.payload()
        except Exception as error:  # any error that untrusted arguments cause goes back to the code that sent them
            self._keep(identity, header.get("number"), (), str(error)[:500], allowed=getattr(error, "allowed", None))
            name = type(error).__name__ if isinstance(error, (ValueError, TypeError, IndexError)) else "ValueError"
            return {"raise": name, "message": str(error)[:500]}, b""

    def _keep(
        self,
        identity: str,
        number: Any,
        args: tuple[Any, ...],
        refusal: str = "",
        kwargs: Mapping[str, Any] | None = None,
        allowed: int | None = None,
    ) -> None:
        """Keep a call if its number is that of a case's first run; it is untrusted, but no mark depends on it."""
        index, place = self._places.get(identity, (None, 0))
        if index is None or type(number) is not int or number != index:
            return
        kept = self.questions.setdefault(index, [])
        if refusal and kept and kept[-1].place == place and not kept[-1].refusal:
            kept[-1] = replace(kept[-1], refusal=refusal, allowed=allowed)
        elif sum(each.place == place for each in kept) < KEPT:
            kept.append(HostCall(place, args, refusal, kwargs or {}, allowed))

    @property
    def is_endless(self) -> bool:
        """Return whether the host's functions were called so often that the exercise seems to run forever."""
        return self._asked >= QUESTIONS_CAP

    def pause(self, header: Mapping[str, Any], seconds: float) -> float:
        """Return how long to delay a reply that took `seconds`, so that its timing reveals nothing."""
        identity = header.get("id")
        function = self._functions.get(identity) if isinstance(identity, str) else None
        pace = function.device.pace if isinstance(function, DevicePart) else 0.0
        return -seconds % pace if pace else 0.0

    def _part(self, part: DevicePart, identity: str, number: Any) -> Callable[..., Any]:
        """Return the device's function for the call of this number; each call has a new device.

        The number is untrusted: it must be one of this case's runs, may not decrease, and may come only after the
        answers to all earlier calls, because a later device could help to find them.
        """
        known = type(number) is int and self._turn <= number and number in self._turns[identity]
        if not known or (self._transcript is not None and not self._transcript.has_come_to(number)):
            raise ValueError("this function belongs to another call")
        self._turn = number
        known = self._devices.get(part.device)
        if known is None or known[0] != number:
            known = self._devices[part.device] = (number, part.device.make())
        return known[1][part.name]


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _refuse_excess(values: list[Any]) -> None:
    product, entries, in_tensors = 1.0, 0, 0
    for value in values:
        product *= _count(value)
    repeated = sum(len(value) for value in values if isinstance(value, (str, list, tuple)))
    if repeated and product > 1 and not repeated * product <= REPEATED_CAP:  # a list times a number is a longer list
        raise ValueError("these arguments together are too large for this function")
    for value in leaves(values):
        _count(value)
        if isinstance(value, np.ndarray):
            entries += value.size
            product *= max(value.size, 1)
        elif isinstance(value, Tensor):
            in_tensors += value.array.size * max(value.array.itemsize // 8, 1)  # a complex number is two
            if value.array.ndim > AXES_CAP or max(value.array.shape, default=0) > AXIS_CAP:
                raise ValueError(f"a tensor of shape {value.array.shape} is too large for this function")
        else:
            entries += 1
    most = TENSOR_PRODUCT_CAP if in_tensors else PRODUCT_CAP
    if entries > ENTRIES_CAP or not product * max(in_tensors, 1) <= most or in_tensors > TENSOR_ENTRIES_CAP:
        raise ValueError("these arguments together are too large for this function")


def _count(value: Any) -> float:
    """Return the largest number in a value that could be a count: a number, a 0-d array, or an array of integers.

    It is at least 1. Raises ValueError if it is above NUMBER_CAP.
    """
    array = value.array if isinstance(value, Tensor) else value
    if isinstance(array, (int, float)):
        largest = abs(array)
    elif not isinstance(array, np.ndarray) or not array.size or (array.ndim and array.dtype.kind not in "iu"):
        return 1.0
    else:
        with np.errstate(all="ignore"):
            largest = np.abs(array.astype(np.complex128)).max()
    if not largest <= NUMBER_CAP:
        raise ValueError(f"{largest} is too large for this function")
    return max(float(largest), 1.0)


class Transcript:
    """Collects the frames of one exercise in an `Answer`.

    once: the cases that are not repeated. asked, questions: the request's own records, which it fills meanwhile.
    """

    def __init__(
        self,
        n_cases: int,
        once: Collection[int] = (),
        asked: dict[tuple[int, int | str], int] | None = None,
        questions: dict[int, list[HostCall]] | None = None,
    ) -> None:
        self._n_cases = n_cases
        self._once = frozenset(once)
        self._repeated = 0
        self.answer = Answer(asked={} if asked is None else asked, questions={} if questions is None else questions)

    def has_come_to(self, number: int) -> bool:
        """Return whether the call of this number can be running: all earlier calls that send an answer have sent it."""
        answered = len(self.answer.calls) + self._repeated
        return number <= answered or answered == 2 * self._n_cases - len(self._once)

    def take(self, header: Mapping[str, Any], payload: bytes) -> bool:
        """Add a frame; returns True for the last one. Raises BadValue if it is out of order or malformed."""
        event, calls = header.get("event"), self.answer.calls
        if event == "done":
            repeated = all(call.again is not None for i, call in enumerate(calls) if i not in self._once)
            if len(calls) < self._n_cases or not repeated:
                raise BadValue("the end came too early")
            return True
        if event == "forbidden":
            self.answer.status, self.answer.reason = "forbidden", words(header.get("name"), 100)
            return True
        index = header.get("index")
        if event == "call" and index == len(calls) < self._n_cases:
            calls.append(_read_call(header, payload))
        elif event == "again" and type(index) is int and 0 <= index < len(calls):
            self._repeated += calls[index].again is None and index not in self._once
            calls[index].again = _read_call(header, payload)
        elif event == "later" and type(index) is int and 0 <= index < len(calls):
            calls[index].later = decode(header.get("value"), payload)
        else:
            raise BadValue("an unexpected frame")
        return False


def _read_noted(values: Any, payload: bytes, budget: Budget) -> tuple[tuple[int, Any], ...]:
    if not isinstance(values, list):
        return ()
    pairs = [item for item in values[:NOTED_CAP] if isinstance(item, list) and len(item) == 2 and type(item[0]) is int]
    return tuple((number, decode(tree, payload, budget=budget)) for number, tree in pairs)


def _read_call(header: Mapping[str, Any], payload: bytes) -> Call:
    warned = header.get("warnings")
    budget = Budget(len(payload))

    def decoded(values: Any) -> tuple[Any, ...]:
        return decode({"t": "tuple", "items": values if isinstance(values, list) else []}, payload, budget=budget)

    told = header.get("randomness")
    told = told if isinstance(told, list) else []
    call = Call(
        numerical_warnings=tuple(
            words(item.get("message"), 200)
            for item in (warned if isinstance(warned, list) else [])[:100]
            if isinstance(item, dict) and item.get("numerical") is True
        ),
        inputs_after=decoded(header.get("inputs_after")),
        made=decoded(header.get("made")),
        lines=header["lines"] if type(header.get("lines")) is int else 0,
        randomness=tuple(name for name in RANDOMNESS if name in told),
        drew=header["drew"] if type(header.get("drew")) is bool else None,
        left=header["left"] if type(header.get("left")) is str else None,
        noted=_read_noted(header.get("noted"), payload, budget),
    )
    if header.get("outcome") == "returned":
        call.value = decode(header.get("value"), payload, budget=budget)
    else:
        call.failure = read_failure(header.get("error"))
    return call
