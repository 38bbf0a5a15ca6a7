"""A student's function in other versions of its text: with a small change, or with its steps noted down.

What they answer changes no mark. The host asks for them when an answer is wrong, to say where.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

from .calls import Send, builders, describe_error, one_call
from .cells import alarms
from .notes import NOTED, Notes
from .values import Encoder

#: Processor time of one version, and how much longer it may take by the clock.
SECONDS, FACTOR = 0.3, 4
#: Once so many did not come to an end, a version may take so many times what the longest that did has taken.
ENDLESS, TIMES, LEAST = 1, 10, 0.03


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
        seconds = SECONDS if endless < ENDLESS else min(SECONDS, max(LEAST, TIMES * longest))
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
