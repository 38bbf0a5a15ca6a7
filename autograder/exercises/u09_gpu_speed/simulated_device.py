"""A clock and a device that works asynchronously, as a GPU does, on which a timer can be judged exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: The functions of the device, in the order in which `median_time` takes them.
PARTS = ("run", "synchronize", "clock")


@dataclass
class SimulatedDevice:
    """`run` only puts work into the device's queue; `synchronize` waits until the queue is empty.

    durations: seconds that each run takes on the device, from the first on; the last ones repeat.
    launch: seconds that the caller itself spends to launch a run.
    start: the first reading of the clock. pending: seconds of work of others that is still in the queue.
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
