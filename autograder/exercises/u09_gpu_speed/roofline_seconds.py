"""Defines the exercise `roofline_seconds`, the least time of a kernel by its arithmetic and its memory traffic."""

import math

import numpy as np

from ..kit import Leaf, exercise


def roofline_seconds(flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float) -> Leaf(
    "float", "the time"
):
    return float(np.maximum(flops / peak_flops, bytes_moved / peak_bandwidth))


def plain(flops, bytes_moved, peak_flops, peak_bandwidth):
    compute_seconds = flops / peak_flops
    memory_seconds = bytes_moved / peak_bandwidth
    return max(compute_seconds, memory_seconds)


def cases(case):
    def kernel(intensity=1.0, total=1.0):
        """Return a kernel whose flops per byte are `intensity` times the machine's own ratio."""
        peak, bandwidth = float(case.rng.uniform(1e12, 9e13)), float(case.rng.uniform(2e11, 3e12))
        moved = float(case.rng.uniform(1e6, 9e8)) * total
        return moved * intensity * peak / bandwidth, moved, peak, bandwidth

    def timed(criterion, label, flops, moved, peak, bandwidth):
        rates = {"peak_flops": peak, "peak_bandwidth": bandwidth}
        return case(criterion, label, rtol=1e-6, flops=flops, bytes_moved=moved, **rates)

    memory, compute = float(case.rng.uniform(0.1, 0.6)), float(case.rng.uniform(2.0, 6.0))
    flops, moved, *idle = kernel()
    yield timed("values", "limited by memory", *kernel(memory))
    yield timed("values", "limited by arithmetic", *kernel(compute))
    yield timed("values", "limited by memory, by little", *kernel(0.9))
    yield timed("values", "limited by arithmetic, by little", *kernel(1.1))
    fast = {"peak": float(case.rng.uniform(1e10, 4e10)), "bandwidth": float(case.rng.uniform(1e11, 3e12))}
    yield timed("values", "more bytes than operations a second", 3e9, 4e10, **fast)
    yield timed("values", "a long run", *kernel(compute, total=1e5))
    yield timed("edge cases", "no arithmetic (a copy)", 0, moved, *idle)
    yield timed("edge cases", "no bytes moved", flops, 0, *idle)
    yield timed("edge cases", "a few operations and no bytes", 3, 0, 10**12, 10**11)
    yield timed("edge cases", "a few bytes and no operations", 0, 3, 10**12, 10**13)
    yield timed("edge cases", "nothing to do", 0, 0, *idle)
    yield timed("edge cases", "whole numbers", 4 * 10**9, 10**8, 10**12, 10**11)
    yield timed("edge cases", "less than one second per unit", 3, 5, 7, 11)
    yield timed("edge cases", "both take as long", 8e12, 1.2e12, 2e12, 3e11)
    yield timed("edge cases", "numbers that are not whole, limited by arithmetic", 0.75, 0.5, 0.5, 2.5)
    yield timed("edge cases", "numbers that are not whole, limited by memory", 0.5, 0.75, 2.5, 0.5)
    yield timed("edge cases", "rates of a few a second", 3.0, 0.25, 2.0, 0.5)


def times(combine):
    """Combine the two times: `combine(seconds of arithmetic, seconds of moving bytes)`."""
    return lambda flops, moved, peak, bandwidth: combine(flops / peak, moved / bandwidth)


def upside_down(flops, moved, peak, bandwidth):
    return max(peak / flops if flops else math.inf, bandwidth / moved if moved else math.inf)


MISTAKES = (
    ("sum-of-times", times(lambda a, b: a + b),
     "You add the two times. They run side by side, so the longer one is the limit."),
    ("arithmetic-only", times(lambda a, b: a), "You time only the arithmetic. Moving bytes takes time, too."),
    ("memory-only", times(lambda a, b: b), "You time only the bytes. Arithmetic takes time, too."),
    ("mean-of-times", times(lambda a, b: (a + b) / 2), "You average the two times. The longer one is the limit."),
    ("root-of-squares", times(math.hypot), "You add the two times as squares. The longer one is the limit."),
    ("upside-down", upside_down, "Your quotients are upside down. Time is work divided by rate."),
    ("peaks-swapped", lambda flops, moved, peak, bandwidth: max(flops / bandwidth, moved / peak),
     "You swap the two peaks."),
    ("flops-for-both", lambda flops, moved, peak, bandwidth: max(flops / peak, moved / peak),
     "You divide both by the peak arithmetic."),
    ("bits-per-second", times(lambda a, b: max(a, 8 * b)), "You take the bytes for bits."),
    ("work-times-rate", lambda flops, moved, peak, bandwidth: max(flops * peak, moved * bandwidth),
     "You multiply work and rate. Time is work divided by rate."),
    ("attainable-rate", lambda flops, moved, peak, bandwidth: min(peak, flops / max(moved, 1e-30) * bandwidth),
     "You return the roof itself, the operations per second that can be reached. How long does the work take then?"),
    ("flops-doubled", times(lambda a, b: max(2 * a, b)),
     "You double the operations. `flops` already counts both multiplies and adds."),
)  # fmt: skip

EXERCISE = exercise(roofline_seconds, credit={"values": 0.7, "edge cases": 0.3}, library="torch")
