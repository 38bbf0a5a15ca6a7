"""Whatever a stranger's process sends, the judge neither fails nor gives a mark for it; and what it asks stays small."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from autograder.diagnosis.diagnose import judge
from autograder.exercises import exercises, find_exercise, unit_names
from autograder.judging.compare_results import describe
from autograder.judging.hidden_cases import Challenge
from autograder.judging.judge import mark
from autograder.records import Answer, Call
from autograder.running.sandbox_messages import Request
from autograder.worker.encode_values import BadValue, Encoder, Foreign, Tensor, decode, leaves, map_leaves
from lanes import nightly

HUGE = 2**999
ODD = (HUGE, -HUGE, True, math.nan, "x", Foreign("A"), [], (), {"a": 1}, [HUGE], [None], (None, None), ((), ()))
ARRAYS = (np.full((3, 3), np.nan), np.zeros((0, 2**30)), np.zeros((1,) * 16), np.full((), HUGE, float), np.ones(3) * 1j)
SPOILT = {
    "complex": lambda a: a.astype(complex),
    "infinite": lambda a: np.full(a.shape, np.inf),
    "beyond a double": lambda a: np.full(a.shape, np.longdouble("1e4000")),
    "half": lambda a: np.full(a.shape, 6e4, np.float16),
    "unsigned": lambda a: np.full(a.shape, 2**64 - 1, np.uint64),
}


@pytest.fixture(scope="module")
def challenge() -> Challenge:
    return Challenge(11)


def as_torch(value: Any) -> Any:
    return map_leaves(value, lambda leaf: Tensor(leaf, True) if isinstance(leaf, np.ndarray) else leaf)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unit", unit_names())
@pytest.mark.parametrize("grade", nightly([mark, judge]), ids=["marked", "explained"])
def test_no_odd_answer_earns_a_mark_or_stops_the_judge(challenge, unit, grade):
    for posed in challenge.unit(unit):
        expected = [outcome.value for outcome in posed.expected]
        candidates = [[value] * len(expected) for value in (*ODD, *ARRAYS, *map(as_torch, ARRAYS))]
        for spoil in SPOILT.values():
            spoilt = [map_leaves(value, lambda leaf, spoil=spoil: _spoilt(leaf, spoil)) for value in expected]
            candidates += [spoilt, as_torch(spoilt)]
        for values in candidates:
            verdict = grade(posed, Answer(calls=_calls(posed, values)))
            assert verdict.score == 0, (posed.exercise.name, values[0])


def _spoilt(leaf: Any, spoil: Any) -> Any:
    if isinstance(leaf, str):
        return leaf[::-1]
    return leaf if leaf is None or isinstance(leaf, Foreign) else spoil(np.asarray(leaf))


def _calls(posed: Any, values: list[Any]) -> list[Call]:
    """Calls that return `values`, in all else of the best conduct."""
    calls = []
    for case, value in zip(posed.cases, values, strict=True):
        given = leaves((*case.args, *case.kwargs.values()))
        inputs = tuple(leaf for leaf in given if isinstance(leaf, np.ndarray) and leaf.ndim)
        inputs = as_torch(inputs) if posed.exercise.library == "torch" else inputs
        calls.append(Call(value, inputs_after=inputs, made=(HUGE, "x"), again=Call(value), later=value))
    return calls


def test_an_integer_that_no_float_holds_is_described():
    assert Encoder().encode(2**1000) == {"t": "other", "type": "huge int"}
    assert decode(Encoder().encode(-HUGE), b"") == -HUGE
    with pytest.raises(BadValue):
        decode({"t": "int", "v": hex(2**4000)}, b"")


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("attention_flops", ([0] * 4000, 99, 99, 99)),
        ("attention_flops", (33, 16, 37, [0] * 4000)),
        ("score_matrix_bytes", ("x" * 2000, 4096, 4096, 4096)),
        ("kv_cache_bytes", (39, 4096, 109, "x", 4, 8)),
        ("repeat_kv", (Tensor(np.zeros((1, 40, 20, 30))), 4096)),
        ("repeated_sequences", (4096, 4096, 4096, 4096, None)),
        ("build_induction_circuit", (3000, 3000)),
        ("causal_mask", (np.array(20_000),)),
        ("dot_product_moments", (np.array(1e6),)),
        ("embed", (np.array([2**40]), np.zeros((1, 2)))),
        ("pool_kv_heads", (Tensor(np.zeros((8, 8))), Tensor(np.array(10**8)), Tensor(np.array(10**8)))),
        ("pool_kv_heads", (Tensor(np.zeros((8, 8))), Tensor(np.array([4000])), 4000)),
        ("repeat_kv", (Tensor(np.zeros((1, 40, 20, 30))), Tensor(np.full(40, 4000)))),
        ("attention_flops", ([0] * 4000, Tensor(np.array(99)), np.array(99), 99)),
    ],
)
def test_what_runs_outside_refuses_arguments_that_would_grow(function, args):
    exercise = find_exercise(function)
    request = Request("f", [], {function: exercise.reference}, exercise.library)
    encoder = Encoder(exercise.library)
    plain = map_leaves(list(args), lambda leaf: leaf.array if isinstance(leaf, Tensor) else leaf)
    header = {"id": function, "args": encoder.encode(tuple(plain)), "kwargs": encoder.encode({})}
    started = time.monotonic()
    reply, _ = request.reply(header, encoder.payload())
    assert "too large" in reply.get("message", ""), reply.keys()
    assert time.monotonic() - started < 1


def test_what_runs_outside_takes_small_numbers_in_any_form():
    exercise = find_exercise("causal_mask")
    for number in (3, np.int64(3), np.array(3)):
        encoder = Encoder()
        header = {"id": "causal_mask", "args": encoder.encode((number,)), "kwargs": encoder.encode({})}
        reply, _ = Request("f", [], {"causal_mask": exercise.reference}).reply(header, encoder.payload())
        assert "value" in reply, (number, reply)


def test_tuples_in_tuples_are_told_in_few_words():
    value: Any = 1
    for _ in range(8):
        value = (value,) * 4
    assert describe(((1, 2), 3)) == "a tuple of 2 (a tuple of 2, an int)"
    assert describe((3, [[1, 2], (1, 2)])) == "a tuple of 2 (an int, a list of 2 (a list of 2, a tuple of 2))"
    assert len(describe(value)) < 500


def test_yes_and_no_come_in_another_order_every_time():
    names = [name for unit in unit_names() for name, e in exercises(unit).items() if e.leaves[0].kind == "bool"]
    assert "leaks_future" in names
    for name in names:
        orders = {tuple(outcome.value for outcome in Challenge(seed).posed(name).expected) for seed in range(4)}
        assert len(orders) == 4
