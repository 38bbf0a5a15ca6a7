"""Runs rewritten versions of a student's function, with a small change or with the value of each step noted."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .call_function import Send, builders, describe_error, one_call
from .encode_values import Encoder
from .run_cells import alarms

#: At most TIMES values are kept per step and MOST in all, with at most ENTRIES entries each and IN_ALL in all.
TIMES, MOST, ENTRIES, IN_ALL = 4, 1_000, 50_000, 400_000
#: More whole numbers are kept per step: they may be positions, of which only one is wrong.
TIMES_WHOLE = 24
#: The name that rewritten code calls to note a value.
NOTED = "_noted"


class Notes:
    """Notes a value under the number of its step, and returns it."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Any]] = []
        self._times: dict[int, int] = {}
        self._left = IN_ALL

    def __call__(self, number: int, value: Any) -> Any:
        times = self._times.get(number, 0)
        if times < (TIMES_WHOLE if isinstance(value, (int, np.integer)) else TIMES) and len(self.kept) < MOST:
            self._times[number] = times + 1
            copy = _copied(value, min(ENTRIES, self._left))
            if copy is not None:
                self._left -= copy.size if isinstance(copy, np.ndarray) else getattr(copy, "numel", lambda: 1)()
                self.kept.append((number, copy))
        return value

    def encoded(self, encoder: Encoder) -> list[Any]:
        """Return [number, tree] of each value, in the order in which they were noted."""
        return [[number, encoder.encode(value)] for number, value in self.kept]


def _copied(value: Any, entries: int) -> Any:
    """Return a copy, because later lines may change the value; None if it is no number or array, or is too large."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() <= entries else None
    if isinstance(value, np.ndarray):
        return value.copy() if value.size <= entries else None
    return value if isinstance(value, (bool, int, float, np.generic)) else None


#: Processor time of one version, and the factor that gives its wall-clock limit.
SECONDS, FACTOR = 0.3, 4
#: Once ENDLESS versions have timed out, the others may take LONGER times as long as the slowest version that ended in
#: time, and in any case LEAST.
ENDLESS, LONGER, LEAST = 1, 10, 0.03


def perform_rewritten(
    sources: list[str],
    name: str,
    namespace: dict[str, Any],
    calls: list[dict[str, Any]],
    payload: bytes,
    send: Send,
    ask: Callable[[dict[str, Any], bytes], Any] | None = None,
) -> None:
    """Call this function as each of the sources defines it, once per call, and send a frame for each."""
    endless, longest = 0, 0.0
    for index, (source, call) in enumerate(itertools.product(sources, calls)):
        notes, encoder, begun = Notes(), Encoder(), time.process_time()
        seconds = SECONDS if endless < ENDLESS else min(SECONDS, max(LEAST, LONGER * longest))
        try:
            with alarms(seconds, FACTOR * seconds):
                namespace[NOTED] = notes
                exec(compile(source, f"<cell {name}>", "exec", dont_inherit=True), namespace)
                made = builders(ask, index)
                header, encoder, _ = one_call(namespace[name], call, payload, made)
        except BaseException as error:  # its time may run out anywhere
            header, encoder = {"outcome": "raised", "error": describe_error(error)}, Encoder()
        took = time.process_time() - begun
        endless, longest = (endless + 1, longest) if took >= seconds else (endless, max(longest, took))
        send({"event": "call", "index": index, **header, "noted": notes.encoded(encoder)}, encoder.payload())
    send({"event": "done"}, b"")
