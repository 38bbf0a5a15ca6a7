"""The messages to and from a student's process: its cells, what is asked of its functions, and what came back.

`Request` turns cases into the trees and bytes that travel; `Transcript` collects the frames that return into an
`Answer`. Neither knows what would be right. What comes back is made safe to pass on.
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
    """The failure that a stranger's frame describes; what is not text or a line number in it is dropped."""
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
    """Text from a stranger, cut short, without lone surrogates, which would break whoever writes it down."""
    return value[:cap].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


PLOTS = re.compile(r"\bplt\b|matplotlib|pylab")
IMPORT = re.compile(r"^import matplotlib\.pyplot as plt$", re.MULTILINE)


def slow_libraries(cells: Sequence[CellSource]) -> frozenset[str]:
    """What takes long to import, and is to be there already: of matplotlib only what students use themselves."""
    found = {"torch"} if any("torch" in cell.source for cell in cells) else set()
    if any(PLOTS.search(cell.source) for cell in cells if cell.kind != "given"):
        found.add("matplotlib")
    return frozenset(found)


def order_of(cell: CellSource, libraries: frozenset[str]) -> dict[str, Any]:
    """What is sent of a cell. Where no student draws, ours import matplotlib when something is drawn."""
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


#: An exercise that asks more often than this, all its cases together, is taken to have no end.
QUESTIONS_CAP = 10_000
#: So many calls of each are kept for each case, to be looked at where the answer is wrong.
KEPT = 40
#: What a host function may be handed by a stranger: numbers this large, arrays with this many entries, all together.
NUMBER_CAP = 4_096
ENTRIES_CAP = 4_096
PRODUCT_CAP = 3 * 10**7
REPEATED_CAP = 1_000
#: Steps of an answer whose values are looked at.
NOTED_CAP = 1_000
#: Processor time of a request with other texts, however many.
SECONDS_FOR_SOURCES = 2.0
#: The same for tensors: broadcasting multiplies axes, so each is kept short.
AXES_CAP = 4
AXIS_CAP = 40
TENSOR_ENTRIES_CAP = 30_000
#: Of a result of tensors there are two copies on its way back.
TENSOR_PRODUCT_CAP = 175 * 10**5


class Request:
    """One exercise's questions, ready to travel.

    function: the name to look up among the student's definitions.
    calls, payload: the cases as trees and bytes.
    stand_ins: names of earlier functions whose part the host plays in this request.
    library: "numpy" or "torch": what the other side makes of arrays.
    forbidden: what the function may not use.
    sources: other texts of the function, each of which is asked in its place, once and unwatched.
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
        #: Whether marks hang on the answer: other texts of a function serve the diagnosis alone.
        self.for_marks = not sources
        self.forbidden = tuple(forbidden)
        self.library = library
        self.stand_ins = tuple(stand_ins or ())
        adapted = Differentiable if library == "torch" else _as_it_is
        self._functions: dict[str, Callable[..., Any]] = {k: adapted(f) for k, f in (stand_ins or {}).items()}
        #: Which of the host's functions were asked for, by name.
        self.called: set[str] = set()
        self._asked = 0
        #: The functions that the cases hand over: how often each was asked for, by case and place in the arguments.
        self.asked: dict[tuple[int, int | str], int] = {}
        #: The same call by call, by case, the first time that it is asked.
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
        """What the worker is told beside the bytes. seconds: of processor time, where it gets less than an exercise."""
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
        """An empty transcript for the answers to this request."""
        if self.sources:
            count = len(self.calls) * len(self.sources)
            self._transcript = Transcript(count, range(count), self.asked, self.questions)
        else:
            once = [index for index, call in enumerate(self.calls) if call["once"]]
            self._transcript = Transcript(len(self.calls), once, self.asked, self.questions)
        return self._transcript

    def reply(self, header: Mapping[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """Answer an "ask" frame: call the host function it names, on arguments that a stranger chose."""
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
        except Exception as error:  # whatever a stranger's arguments provoke goes back to the stranger
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
        """Note a call by the first asking of a case, by its number, which is a stranger's word; no mark hangs on it."""
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
        """Whether the host's functions were asked for so often that there seems to be no end."""
        return self._asked >= QUESTIONS_CAP

    def pause(self, header: Mapping[str, Any], seconds: float) -> float:
        """How long to hold back an answer that took so many seconds, so that its time says nothing of its making."""
        identity = header.get("id")
        function = self._functions.get(identity) if isinstance(identity, str) else None
        pace = function.device.pace if isinstance(function, DevicePart) else 0.0
        return -seconds % pace if pace else 0.0

    def _part(self, part: DevicePart, identity: str, number: Any) -> Callable[..., Any]:
        """The function of the device as it stands in the call of this number; a new call begins with a new device.

        The number is a stranger's word: it must be one at which this case is asked, none goes back, and none comes
        before the answers to all earlier ones, which a later device would else help to find.
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
    """The largest number in what can stand where a count is due: a number, an array of one, or one of integers.

    At least 1. Raises ValueError where it is above NUMBER_CAP.
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
    """Collects the frames of one exercise. `take` returns True once the last frame has come.

    once: the cases that are not repeated. asked, questions: what the request counts and keeps meanwhile.
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
        """Whether the call of this number can be under way: all before it are answered, as far as they have answers."""
        answered = len(self.answer.calls) + self._repeated
        return number <= answered or answered == 2 * self._n_cases - len(self._once)

    def take(self, header: Mapping[str, Any], payload: bytes) -> bool:
        """Raises BadValue when a frame is out of order or malformed."""
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
