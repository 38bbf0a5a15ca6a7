"""Work of the grader's own that takes too much processor time is interrupted, in whatever thread it runs."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from autograder.running.grader_cpu_limit import Allowance, Overspent, charge, undisturbed

#: A loop without end is interrupted after so many seconds, and by then it has cost at most so many.
LITTLE, AT_MOST = 0.1, 2.0


def endless() -> None:
    while True:
        try:
            sum(range(1_000))
        except Exception:
            continue


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def cost_of_endless() -> float:
    began = time.thread_time()
    with pytest.raises(Overspent):
        Allowance(LITTLE).run(endless)
    return time.thread_time() - began


def test_what_has_no_end_is_interrupted_in_every_thread():
    with ThreadPoolExecutor(2) as pool:
        costs = [cost_of_endless(), *(each.result() for each in [pool.submit(cost_of_endless) for _ in range(2)])]
    assert max(costs) < AT_MOST


def test_what_ends_in_time_gives_what_it_gives():
    threads = threading.active_count()
    assert Allowance(5).run(lambda: 7) == 7
    with pytest.raises(KeyError):
        Allowance(5).run(lambda: {}["absent"])
    assert threading.active_count() == threads


def test_waiting_costs_nothing():
    Allowance(LITTLE).run(lambda: time.sleep(4 * LITTLE))


def test_nothing_is_interrupted_once_the_work_has_ended():
    for turn in range(100):
        with contextlib.suppress(Overspent):
            Allowance(turn / 50_000).run(lambda: busy(0.001))
        busy(0.0005)


def test_a_profiler_may_be_used_afterwards():
    """The interpreter must not be left with something that it waits to raise: with a profiler it would wait for ever."""
    cost_of_endless()
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        busy(0.001)
    finally:
        sys.setprofile(None)
    assert seen


def test_the_inner_of_two_ends_alone():
    def outer() -> str:
        with pytest.raises(Overspent):
            Allowance(LITTLE).run(endless)
        return "went on"

    assert Allowance(60).run(outer) == "went on"


def test_the_outer_of_two_ends_both():
    reached = []

    def outer() -> None:
        Allowance(60).run(endless)
        reached.append("behind the inner one")

    with pytest.raises(Overspent):
        Allowance(LITTLE).run(outer)
    assert reached == []


def test_what_must_not_be_interrupted_is_not_and_counts():
    reached = []

    def work() -> None:
        with undisturbed():
            busy(5 * LITTLE)
            reached.append("the end of it")
        reached.append("what comes next")

    with pytest.raises(Overspent):
        Allowance(LITTLE).run(work)
    assert reached == ["the end of it"]


def test_time_of_other_processes_counts_where_it_is_charged():
    def work() -> None:
        charge(100)
        endless()

    began = time.thread_time()
    with pytest.raises(Overspent):
        Allowance(60).run(work)
    assert time.thread_time() - began < AT_MOST
