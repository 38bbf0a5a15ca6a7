"""Black boxes: what may be asked of them, and that nothing but numbers comes back."""

from __future__ import annotations

import time

import numpy as np
import pytest

from autograder.exercises.kit import Case, black_box, refuse_unlike
from autograder.exercises.kit.black_boxes import CANNOT, PACE
from autograder.running.sandbox_messages import Request
from autograder.worker.call_function import answer_of_host, host_function

SUSPECTS = {"double": lambda x: 2 * x, "stumbles": lambda x: x[99], "slow": lambda x: time.sleep(0.6 * PACE) or x}


def check(x):
    refuse_unlike("x", x, (-1, 3), entries=30)


def asked(name, calls=2):
    """A box as a student's code has it, and the request behind it."""
    box = black_box(SUSPECTS[name], check, calls)
    request = Request("f", [Case("values", "a box", (box,))], library="numpy")
    identity = request.calls[0]["args"][0]["id"]
    return host_function(identity, lambda *frame: answer_of_host(*request.reply(*frame))), request, identity


def test_a_box_answers_with_the_numbers_of_its_suspect():
    box, _, _ = asked("double")
    assert np.array_equal(box(np.ones((2, 3))), np.full((2, 3), 2.0))


def test_a_box_answers_so_many_calls_and_says_so():
    box, _, _ = asked("double", calls=2)
    box(np.ones((2, 3)))
    box(np.ones((1, 3)))
    with pytest.raises(ValueError, match="answers 2 calls"):
        box(np.ones((1, 3)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.ones((2, 4)), r"shape \(2, 4\), and \(any, 3\) is due"),
        (np.ones(3), r"shape \(3,\)"),
        (np.ones((0, 3)), "no axis of length 0"),
        ([[1.0, 2.0, 3.0]], "not a list"),
        (None, "not a NoneType"),
        (np.ones((2, 3), np.float32), "float32"),
        (np.full((2, 3), np.nan), "NaN"),
        (np.ones((11, 3)), "at most 30"),
    ],
)
def test_what_no_box_takes_is_refused_in_the_same_words_by_each(value, said):
    words = set()
    for name in SUSPECTS:
        box, _, _ = asked(name)
        with pytest.raises(ValueError, match=said) as error:
            box(value)
        words.add(str(error.value))
    assert len(words) == 1


def test_a_suspect_that_stumbles_says_nothing_of_itself():
    box, _, _ = asked("stumbles")
    with pytest.raises(ValueError) as error:
        box(np.ones((2, 3)))
    assert str(error.value) == CANNOT


def test_answers_are_held_back_to_the_next_beat_and_other_functions_are_not():
    _, request, identity = asked("double")
    assert request.pause({"id": identity}, 0.3 * PACE) == pytest.approx(0.7 * PACE)
    assert request.pause({"id": identity}, 1.4 * PACE) == pytest.approx(0.6 * PACE)
    assert request.pause({"id": "nobody"}, 0.3 * PACE) == 0.0
    assert request.pause({"id": ["odd"]}, 0.3 * PACE) == 0.0


def test_each_call_of_the_graded_function_gets_a_box_that_has_answered_nothing():
    _, request, identity = asked("double", calls=1)
    for number in (0, 1, 2):
        box = host_function(identity, lambda *frame: answer_of_host(*request.reply(*frame)), number=number)
        box(np.ones((1, 3)))
        with pytest.raises(ValueError, match="answers 1 call"):
            box(np.ones((1, 3)))


def test_no_box_of_a_repetition_answers_before_the_first_answers_are_given():
    _, request, identity = asked("double", calls=1)
    transcript, answer = request.transcript(), {"index": 0, "outcome": "returned", "value": {"t": "none"}}

    def ask(number):
        return host_function(identity, lambda *frame: answer_of_host(*request.reply(*frame)), number=number)(
            np.ones((1, 3))
        )

    ask(0)
    for event, later in (("call", (1, 2)), ("again", (2,))):
        for number in later:
            with pytest.raises(ValueError, match="another call"):
                ask(number)
        transcript.take({"event": event, **answer}, b"")
        ask(later[0])


@pytest.mark.parametrize("numbers", [(3,), (1, 0), (-1,), ("0",), (None,), (True,), (10**30,)])
def test_who_claims_to_be_in_another_call_gets_no_new_box(numbers):
    _, request, identity = asked("double", calls=1)
    with pytest.raises(ValueError, match="another call"):
        for number in numbers:
            host_function(identity, lambda *frame: answer_of_host(*request.reply(*frame)), number=number)(
                np.ones((1, 3))
            )


def test_a_box_of_another_case_is_asked_in_its_own_calls_alone():
    boxes = [black_box(SUSPECTS["double"], check, 2) for _ in range(3)]
    cases = [Case("values", "a box", (box,), once=place == 1) for place, box in enumerate(boxes)]
    request = Request("f", cases)
    allowed = {0: {0, 3, 5}, 1: {1}, 2: {2, 4, 6}}
    for place, call in enumerate(request.calls):
        assert request._turns[call["args"][0]["id"]] == allowed[place]
