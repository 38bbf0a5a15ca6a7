"""What is to be said of a text that `greedy_decode` goes on with otherwise than is due: whose logit is the largest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kit import Case, Sent, lacks, named, parted


def experiment(case: Case, due: Any, answered: Any, sent: Sequence[Sent]) -> str:
    """Of the first token that is another one than is due, or of a text that ends too early."""
    given = named(case, ("next_logits", "start", "end", "max_len"))
    if not isinstance(answered, list) or not all(type(token) is int for token in answered):
        return ""
    at = parted(answered, due)
    if at is None:
        return "Your text lacks its last token, which is `end`." if lacks(answered, due, given["end"]) else ""
    if at == 0:
        return "Your text does not begin with `start`."
    logits, token = np.asarray(given["next_logits"](due[:at])), answered[at]
    if not 0 <= token < len(logits):
        return f"At index {at} (counted from 0) you have {token}, which is no token."
    larger = int((logits > logits[token]).sum())
    place = f"At index {at} (counted from 0) you have token {token}, but {larger} logits are larger than its own"
    return f"{place}. The largest is that of token {int(logits.argmax())}."
