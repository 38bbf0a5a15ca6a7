"""Says how a text of `greedy_decode` first differs from the expected one, and which logit is the largest there."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kit import Case, Sent, lacks, named, parted


def experiment(case: Case, due: Any, answered: Any, sent: Sequence[Sent]) -> str:
    """Describe the first unexpected token, or a text without its last token."""
    given = named(case, ("next_logits", "start", "end", "max_len"))
    if not isinstance(answered, list) or not all(type(token) is int for token in answered):
        return ""
    at = parted(answered, due)
    if at is None:
        return "your list of tokens lacks its last one, `end`." if lacks(answered, due, given["end"]) else ""
    if at == 0:
        return "your result does not begin with `start`."
    logits, token = np.asarray(given["next_logits"](due[:at])), answered[at]
    if not 0 <= token < len(logits):
        return f"you return {token} at index {at}, which is not a token."
    larger = int((logits > logits[token]).sum())
    larger = "1 other token has" if larger == 1 else f"{larger} other tokens have"
    place = f"you return token {token} at index {at}, but {larger} a larger logit"
    return f"{place}. Token {int(logits.argmax())} has the largest."
