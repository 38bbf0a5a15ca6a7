"""The parts of the worker that need no process of their own: frames, values, and what the host makes of frames."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from typing import Any

import numpy as np
import pytest

from autograder.exercises.kit import Case
from autograder.running.sandbox_messages import Request, Transcript, _refuse_excess, read_failure
from autograder.running.submission_session import HEADER_CAP
from autograder.worker.call_function import describe_error, perform
from autograder.worker.encode_values import ENTRIES_CAP, SPARE_BYTES, BadValue, Encoder, Foreign, Tensor, decode
from autograder.worker.restore_state import NamespaceSnapshot
from autograder.worker.socket_frames import BadFrame, Closed, FrameTimeout, receive_frame, send_frame


def there_and_back(value: Any) -> Any:
    encoder = Encoder()
    tree = json.loads(json.dumps(encoder.encode(value)))
    return decode(tree, encoder.payload())


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12).reshape(3, 4)[:, ::2],
        np.zeros((0, 3), np.float32),
        np.array(3.5),
        np.array([True, False]),
        np.array([np.nan, -np.inf, -0.0]),
        np.arange(3, dtype=">i4"),
    ],
)
def test_arrays_travel_as_they_are(array: np.ndarray) -> None:
    back = there_and_back(array)
    assert back.dtype == array.dtype.newbyteorder("<")
    assert back.shape == array.shape
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")
    assert back.flags.writeable
    assert back.flags.c_contiguous == array.flags.c_contiguous


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, -(2**70), 2.5, "text", (1, [2.0, ("x",)]), {"a": (1,)}, float("inf"), {}),
        {("a", "b"): 3, ("é", "Ġt"): 0},
    ],
)
def test_plain_values_travel_as_they_are(value: Any) -> None:
    back = there_and_back(value)
    assert type(back) is type(value)
    assert back == value


VIEWS = [
    np.ones((1,) * 15 + (1024,))[..., ::2],
    np.ones((1,) * 14 + (3, 900))[..., ::3],
    np.ones((2,) * 13 + (2,)).transpose(1, 0, *range(2, 14))[..., ::2],
    np.ones((2**19, 2), np.float32)[:, 1:],
    np.ones((0, 2**26, 2))[..., ::2],
]


def held(array: np.ndarray) -> int:
    """The bytes that an array keeps."""
    return (array if array.base is None else array.base).nbytes


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: f"{view.ndim} axes, {view.size} numbers")
def test_a_view_takes_little_more_memory_than_its_numbers(view: np.ndarray) -> None:
    back = there_and_back(view)
    assert np.array_equal(back, view) and back.shape == view.shape and back.flags.writeable
    assert held(back) <= 2 * view.nbytes + SPARE_BYTES


def test_views_of_one_frame_share_what_may_lie_between_their_numbers() -> None:
    encoder = Encoder()
    tree = encoder.encode([np.ones((1,) * 10 + (4,))[..., ::2] for _ in range(500)])
    back = decode(tree, encoder.payload())
    assert sum(map(held, back)) <= 2 * len(encoder.payload()) + SPARE_BYTES
    assert not back[0].flags.c_contiguous


@pytest.mark.parametrize("shape", [[0, 2**26], [2**13, 0, 2**13], [0] * 15 + [2**26]])
def test_a_forged_view_without_numbers_takes_no_memory(shape: list[int]) -> None:
    tree = {"t": "array", "lib": "numpy", "dtype": "<f8", "shape": shape, "layout": "strided", "at": 0}
    assert held(decode(tree, b"")) <= SPARE_BYTES


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.ones((1,) * 17), "17 axes, too many to send"),
        (np.arange(90_000.0).reshape(300, 300).tolist(), "too many items to send"),
        ({"a" * 1000 + str(i): [i] for i in range(2000)}, "too many items to send"),
        ([["x" * 1990] * 100] * 100, "too many items to send"),
        (['"\\é' * 600] * 400, "too many items to send"),
    ],
)
def test_what_no_header_can_hold_is_named(value: Any, words: str) -> None:
    """The host would take it for a forged frame."""
    encoder = Encoder()
    trees = [encoder.encode(np.ones(3)), encoder.encode((np.ones(5), value)), encoder.encode(np.ones(2))]
    assert len(json.dumps(trees)) < HEADER_CAP
    first, large, last = (decode(tree, encoder.payload()) for tree in trees)
    told = large if isinstance(large, Foreign) else large[1]
    assert words in told.type_name and (first.size, last.size) == (3, 2)


def test_what_cannot_travel_is_named() -> None:
    assert there_and_back(object()) == Foreign("object")
    assert "too large" in there_and_back(np.broadcast_to(1.0, (2**20, 2**20))).type_name
    assert there_and_back(chr(0xD800)) == "?"
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    there_and_back(nested)


@pytest.mark.parametrize(
    "tree",
    [
        None,
        7,
        {},
        {"t": "array"},
        {"t": "int", "v": "zz"},
        {"t": "tuple", "items": 3},
        {"t": "dict", "items": []},
        {"t": "by tuples", "items": 3},
        {"t": "by tuples", "items": {"t": "list", "items": [{"t": "int", "v": "0x1"}]}},
        {
            "t": "by tuples",
            "items": {"t": "list", "items": [{"t": "tuple", "items": [{"t": "list", "items": []}] * 2}]},
        },
        {"t": "by tuples", "items": {"t": "list", "items": [{"t": "tuple", "items": [{"t": "none"}] * 2}]}},
        {"t": "array", "lib": "numpy", "dtype": "|O8", "shape": [1], "layout": "C", "at": 0},
        {"t": "array", "lib": "numpy", "dtype": "<f8", "shape": [2**39, 2**39], "layout": "C", "at": 0},
        {"t": "array", "lib": "numpy", "dtype": "<f8", "shape": [0, 2**39, 2**39], "layout": "strided", "at": 0},
        {"t": "array", "lib": "numpy", "dtype": "<f8", "shape": [-1], "layout": "C", "at": 0},
        {"t": "array", "lib": "numpy", "dtype": "<f8", "shape": [1], "layout": "C", "at": -8},
        {"t": "array", "lib": "numpy", "dtype": "f8,f8", "shape": [1], "layout": "C", "at": 0},
        {"t": "array", "lib": "numpy", "dtype": "(2,", "shape": [1], "layout": "C", "at": 0},
        {"t": "array", "lib": "numpy", "dtype": "2,3", "shape": [1], "layout": "C", "at": 0},
        {"t": "array", "lib": [], "dtype": "<f8", "shape": {}, "layout": "C", "at": True},
    ],
)
def test_malformed_trees_are_refused(tree: Any) -> None:
    with pytest.raises(BadValue):
        decode(tree, bytes(64))


def test_a_tensor_is_decoded_without_torch() -> None:
    tree = {"t": "array", "lib": "torch", "dtype": "<f4", "shape": [2], "layout": "C", "at": 0, "grad": True}
    value = decode(tree, np.float32([1, 2]).tobytes())
    assert isinstance(value, Tensor)
    assert value.requires_grad


def test_frames_travel_whole() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_frame(ours, {"event": "x"}, b"payload")
        send_frame(ours, {"event": "y"})
        assert receive_frame(theirs, time.monotonic() + 5) == ({"event": "x"}, b"payload")
        assert receive_frame(theirs, time.monotonic() + 5) == ({"event": "y"}, b"")
        with pytest.raises(FrameTimeout):
            receive_frame(theirs, time.monotonic() + 0.01)
        theirs.setblocking(True)
        ours.sendall(b"\x01")
        with pytest.raises(FrameTimeout):
            receive_frame(theirs, time.monotonic() + 0.01)
        ours.close()
        with pytest.raises(Closed):
            receive_frame(theirs, time.monotonic() + 5)


@pytest.mark.parametrize(
    "bytes_sent",
    [
        bytes([255] * 12),
        struct.pack("<IQ", 3, 0) + b"{]}",
        struct.pack("<IQ", 2, 0) + b"[]",
        struct.pack("<IQ", 2, 2**60) + b"{}",
        struct.pack("<IQ", 100_000, 0) + b"[" * 100_000,
        struct.pack("<IQ", 4, 0) + b"\xff\xfe\xfd\xfc",
        struct.pack("<IQ", 6_000, 0) + b"9" * 6_000,
    ],
)
def test_what_is_no_frame_is_refused(bytes_sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(bytes_sent)
        with pytest.raises(BadFrame):
            receive_frame(theirs, time.monotonic() + 5)


def mangled(value: Any, rng: random.Random) -> Any:
    """A copy of a frame's header with something in it replaced."""
    if rng.random() < 0.15:
        deep: Any = []
        for _ in range(600):
            deep = [deep]
        return rng.choice([None, -1, 2**70, 1e999, float("nan"), "", "\ud800", [], {}, deep, True, "call", "done"])
    if isinstance(value, dict):
        return {key: mangled(item, rng) for key, item in value.items()}
    if isinstance(value, list):
        return [mangled(item, rng) for item in value]
    return value


def test_no_mangled_frame_breaks_the_host() -> None:
    """A transcript takes a frame or raises BadValue; anything else would be an accident waiting in the host."""
    request = Request("f", [Case("values", "a", (np.arange(3.0),)), Case("values", "b", (2,))])
    frames: list[tuple[dict[str, Any], bytes]] = []

    def function(x: Any) -> Any:
        if isinstance(x, int):
            raise ValueError("no")
        return (x, {"a": x > 1})

    perform(function, request.calls, request.payload, lambda header, payload: frames.append((header, payload)))
    assert frames[-1][0] == {"event": "done"}
    rng, refused = random.Random(5), 0
    for _ in range(400):
        transcript = Transcript(2)
        for header, payload in frames:
            changed = mangled(header, rng)
            try:
                transcript.take(changed if isinstance(changed, dict) else {}, payload)
            except BadValue:
                refused += 1
        for call in transcript.answer.calls:
            if call.failure is not None:
                (call.failure.type_name + call.failure.message).encode()
        asked = mangled({"event": "ask", "id": "x", "args": {"t": "tuple", "items": []}}, rng)
        request.reply(asked if isinstance(asked, dict) else {}, b"")
    assert refused > 100


def test_a_transcript_is_complete_or_refused() -> None:
    with pytest.raises(BadValue):
        Transcript(1).take({"event": "done"}, b"")
    assert Transcript(0).take({"event": "done"}, b"")


def test_a_failure_keeps_only_words_and_a_line() -> None:
    failure = read_failure({"type": ["x"], "message": "a\ud800b", "line": "3"})
    assert (failure.type_name, failure.message, failure.line) == ("Exception", "a?b", None)
    assert read_failure(None).type_name == "Exception"
    assert read_failure({"type": "E", "message": "m" * 9_000, "line": 4}).line == 4
    assert len(read_failure({"message": "m" * 9_000}).message) == 2_000


def test_the_line_of_an_error_is_that_of_the_cell() -> None:
    def error_of(source: str) -> dict[str, Any]:
        try:
            exec(compile(source, "<cell f>", "exec"), {})
        except BaseException as error:
            return describe_error(error)
        raise AssertionError("no error")

    assert error_of("x = 1\nint('x')")["line"] == 2
    assert error_of("x = 1\nx = (")["line"] == 2
    assert error_of("class E(Exception):\n    def __str__(self): raise ValueError\nraise E")["type"] == "E"
    assert error_of("class E(ValueError): pass\nclass F(E): pass\nraise F")["type"] == "ValueError"
    assert error_of(
        "class M(type):\n    __name__ = property(lambda c: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E"
    )


def test_torch_is_asked_with_the_settings_that_an_answer_was_tried_with() -> None:
    torch = pytest.importorskip("torch")
    namespace: dict[str, Any] = {"f": len}
    moment = NamespaceSnapshot("f", namespace)
    try:
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        moment.bring_back_rest(namespace)
        assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


def test_an_array_of_few_bytes_and_many_entries_is_described_and_a_forged_one_refused():
    assert "too large" in there_and_back(np.zeros(ENTRIES_CAP + 1, np.float16)).type_name
    tree = {"t": "array", "lib": "numpy", "dtype": "<f2", "shape": [ENTRIES_CAP + 1], "at": 0, "layout": "C"}
    with pytest.raises(BadValue):
        decode(tree, bytes(2 * ENTRIES_CAP + 2))


def test_a_complex_tensor_counts_twice_where_the_host_computes():
    entries = (2, 10, 20, 37)
    _refuse_excess([Tensor(np.zeros(entries)), 1_000])
    with pytest.raises(ValueError, match="too large"):
        _refuse_excess([Tensor(np.zeros(entries, complex)), 1_000])
