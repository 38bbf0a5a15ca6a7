"""Defines the exercise `median_time`, which times runs on an asynchronous device."""

import itertools
import statistics
from functools import partial

import numpy as np

from ..kit import Device, Leaf, exercise
from .simulated_device import PARTS, SimulatedDevice


def median_time(run, synchronize, clock, warmup: int, repeats: int) -> Leaf("float", "the time"):
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def plain(run, synchronize, clock, warmup, repeats):
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        end = clock()
        times.append(end - start)
    return statistics.median(times)


def cases(case):
    def timed(criterion, label, warmup, repeats, **options):
        device = unsteady(case.rng, warmup, repeats, **options)
        functions = {name: device.part(name) for name in PARTS}
        return case(criterion, label, warmup=warmup, repeats=repeats, rtol=1e-6, **functions)

    odd, even = 2 * int(case.rng.integers(3, 6)) + 1, 2 * int(case.rng.integers(2, 5))
    yield timed("values", "3 warm-up runs, {repeats} repeats", 3, odd)
    yield timed("values", "2 warm-up runs, {repeats} repeats", 2, odd + 2)
    yield timed("values", "slow to launch", 2, odd, launch=3e-3)
    yield timed("values", "some runs take far longer than the others", 2, odd, slow=30.0)
    yield timed("even count", "{repeats} repeats", 2, even)
    yield timed("even count", "2 repeats", 1, 2)
    yield timed("edge cases", "one repeat", 4, 1)
    yield timed("edge cases", "no warm-up", 0, odd)
    yield timed("edge cases", "a warm-up that is no slower", 3, odd, warm=True)
    yield timed("edge cases", "a warm-up whose runs all take as long", 4, odd, even=True)
    yield timed("edge cases", "some runs too short for the clock", 2, odd, launch=0.0, zeros=(odd - 1) // 2)
    yield timed("work of others", "work of others is still running", 0, odd, pending=0.4)
    yield timed("work of others", "work of others is still running, and one repeat", 0, 1, pending=0.3)
    yield timed("edge cases", "a clock that starts at 0", 0, 1, start=0.0)
    yield timed(
        "edge cases", "many runs, of microseconds, on a clock below 0", 6, 16, start=-5.0, unit=1e-4, launch=1e-7
    )


def unsteady(
    rng, warmup, repeats, pending=0.0, launch=2e-5, warm=False, even=False, slow=None, zeros=0,
    start=None, unit=1.0,
):  # fmt: skip
    """Return a device whose runs get faster during warm-up, then vary, with a few slow ones; later runs are short.

    warm: whether it is already warm, so that the first runs are the fastest. even: whether all warm-up runs take the
    same time. slow: a factor for most of the timed runs. zeros: how many timed runs take no time. start: the first
    reading of the clock. unit: a factor for all times.
    """
    warming = rng.uniform(0.05, 0.09, warmup) + np.linspace(0.2, 0.05, warmup)
    if warm:
        warming = rng.uniform(0.002, 0.004, warmup)
    if even:
        warming = np.full(warmup, 0.05)
    late = np.where(rng.random(repeats) < 0.3, rng.uniform(0.01, 0.03, repeats), 0)
    timed = rng.uniform(0.010, 0.014, repeats) + late
    if slow is not None:
        timed[rng.permutation(repeats)[: repeats // 2 + 1]] *= slow
    timed[rng.permutation(repeats)[:zeros]] = 0.0
    fastest = int(timed.argmin())  # comes first, so that earlier work counted in its time changes the median
    timed[[0, fastest]] = timed[[fastest, 0]]
    durations = np.concatenate([warming, timed, rng.uniform(0.001, 0.003, 40)])
    start = float(rng.uniform(100, 900)) if start is None else start

    def make():
        device = SimulatedDevice((unit * durations).tolist(), launch, start, pending)
        return {name: getattr(device, name) for name in PARTS}

    return Device(make)


def elapsed(run, wait, clock, before=True, after=True, runs=1):
    """Return the time of one run."""
    if before:
        wait()
    start = clock()
    for _ in range(runs):
        run()
    if after:
        wait()
    return clock() - start


def timer(one=elapsed, settle=True, summary=statistics.median, count=lambda w, r: (w, r)):
    """Return a timer with an option for each slip.

    one: the time of one run, from `run, wait, clock`. settle: whether it waits after the warm-up.
    count: the numbers of warm-up runs and of timed runs.
    """

    def wrong(run, wait, clock, warmup, repeats):
        warmup, repeats = count(warmup, repeats)
        for _ in range(warmup):
            run()
        if settle:
            wait()
        times = [one(run, wait, clock) for _ in range(repeats)]
        return summary(times) if times else 0.0

    return wrong


def launched_first(run, wait, clock):
    wait()
    run()
    return elapsed(wait, wait, clock, before=False)


def total_over_repeats(run, wait, clock, warmup, repeats):
    total = timer(partial(elapsed, runs=repeats))
    return total(run, wait, clock, warmup, 1) / repeats


def warm_up_before_each(run, wait, clock, warmup, repeats):
    def one(run, wait, clock):
        for _ in range(warmup):
            run()
        return elapsed(run, wait, clock)

    return timer(one)(run, wait, clock, 0, repeats)


def warm_up_from_repeats(run, wait, clock, warmup, repeats):
    return timer(summary=lambda times: statistics.median(times[warmup:] or times))(run, wait, clock, 0, repeats)


def middle_in_time(times):
    middle = len(times) // 2
    return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2


MISTAKES = (
    ("clock-read-too-early", timer(partial(elapsed, before=False, after=False)),
     "You read the clock before the work is done, because `run` only launches it. Wait with `synchronize` first."),
    ("warm-up-still-running", timer(partial(elapsed, before=False), settle=False),
     "You take the first reading while earlier work still runs, so the first time includes that, too."),
    ("warm-up-counted", timer(count=lambda w, r: (0, w + r)),
     "You time the warm-up runs with the others. Leave them out."),
    ("fastest", timer(summary=min), "You take the fastest time. Take the median."),
    ("slowest", timer(summary=max), "You take the slowest time. Take the median."),
    ("median-not-sorted", timer(summary=middle_in_time),
     "You take the middle of the times in the order in which they were measured. Sort the times first."),
    ("two-runs-per-time", timer(partial(elapsed, runs=2)), "Each of your times holds two runs."),
    ("launch-before-the-clock", timer(launched_first),
     "None of your times includes what `run` itself takes to launch the work. Everything from before `run` to the "
     "end of the work counts."),
    ("middle-of-the-range", timer(summary=lambda times: (min(times) + max(times)) / 2),
     "You take the middle between the fastest and the slowest. Take the median."),
    ("trimmed-mean", timer(summary=lambda times: statistics.fmean(sorted(times)[1:-1] or times)),
     "You drop the fastest and the slowest and average the others. Take the median of all."),
    ("warm-up-before-each", warm_up_before_each,
     "You warm up before every repeat. Once, before the first, is enough."),
    ("no-warm-up", timer(count=lambda w, r: (0, r)), "You make no warm-up runs before the repeats."),
    ("one-warm-up-only", timer(count=lambda w, r: (1, r)), "You make one warm-up run, whatever `warmup` says."),
    ("warm-up-taken-from-the-repeats", warm_up_from_repeats,
     "You use the first repeats as warm-up, so you time too few. The warm-up runs come on top of the repeats."),
    ("all-at-once", total_over_repeats, "You time all repeats together, which gives a mean. Time each by itself."),
    ("times-since-the-start", timer(summary=lambda times: statistics.median(itertools.accumulate(times))),
     "You measure every time from the same first reading of the clock. Read the clock again before each run."),
)  # fmt: skip

EXERCISE = exercise(
    median_time,
    credit={"values": 0.6, "even count": 0.15, "edge cases": 0.15, "work of others": 0.1},
    counted=("run",),
    library="torch",
)
