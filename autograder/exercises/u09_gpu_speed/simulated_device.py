"""Simulates a clock and a device that works asynchronously, like a GPU, on which a timer can be tested exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: The functions of the device, in the order of `median_time`'s parameters.
PARTS = ("run", "synchronize", "clock")


@dataclass
class SimulatedDevice:
    """Simulates a device: `run` only adds work to its queue, and `synchronize` waits until the queue is empty.

    durations: seconds of each run on the device, starting over after the last.
    launch: seconds that the caller needs to launch a run.
    start: the first reading of the clock. pending: seconds of other work that is already in the queue.
    """

    durations: Sequence[float]
    launch: float = 1e-5
    start: float = 0.0
    pending: float = 0.0

    def __post_init__(self) -> None:
        self._now = self.start
        self._free = self.start + self.pending
        self._runs = 0

    def run(self) -> None:
        self._now += self.launch
        duration = self.durations[self._runs % len(self.durations)]
        self._free = max(self._now, self._free) + duration
        self._runs += 1

    def synchronize(self) -> None:
        self._now = max(self._now, self._free)

    def clock(self) -> float:
        return self._now
