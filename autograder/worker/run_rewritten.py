"""A student's function in other versions of its text: with a small change, or with the value of each step noted."""

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

#: Of each step so many values are kept, so many in all; of so many entries each, and so many in all.
TIMES, MOST, ENTRIES, IN_ALL = 4, 1_000, 50_000, 400_000
#: The same of whole numbers: places, of which one alone may be odd.
TIMES_WHOLE = 24
#: What the changed text calls to have a value noted.
NOTED = "_noted"


class Notes:
    """Takes a value down under the number of its step, and hands it on."""

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
        """[number, tree] of each value, in the order in which they came."""
        return [[number, encoder.encode(value)] for number, value in self.kept]


def _copied(value: Any, entries: int) -> Any:
    """As it is now: later lines may write into it. None for what is no number and no array, or has more entries."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() <= entries else None
    if isinstance(value, np.ndarray):
        return value.copy() if value.size <= entries else None
    return value if isinstance(value, (bool, int, float, np.generic)) else None


#: Processor time of one version, and how much longer it may take by the clock.
SECONDS, FACTOR = 0.3, 4
#: Once so many did not come to an end, a version may take so many times what the longest that did has taken.
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
    """Call the function of this name as each of these texts defines it, once per call, and send a frame for each."""
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
        except BaseException as error:  # its time may end anywhere
            header, encoder = {"outcome": "raised", "error": describe_error(error)}, Encoder()
        took = time.process_time() - begun
        endless, longest = (endless + 1, longest) if took >= seconds else (endless, max(longest, took))
        send({"event": "call", "index": index, **header, "noted": notes.encoded(encoder)}, encoder.payload())
    send({"event": "done"}, b"")
