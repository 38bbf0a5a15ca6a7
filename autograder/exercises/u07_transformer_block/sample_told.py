"""Says how a text of `sample` first differs from the expected one, and whether the id could be drawn there."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...safe_text import counted
from ..kit import Case, Sent, lacks, named, parted

NAMES = ("next_logits", "prompt", "end", "max_len", "temperature", "top_p")


def experiment(case: Case, due: Any, answered: Any, sent: Sequence[Sent]) -> str:
    """Describe the first unexpected token."""
    given = named(case, NAMES)
    if not isinstance(answered, list) or not all(type(token) is int for token in answered):
        return ""
    if answered == due[: len(answered)] and given["end"] not in answered[len(given["prompt"]) :]:
        return _stopping(given, answered, due)
    at = parted(answered, due)
    if at is None or at < len(given["prompt"]):
        return ""
    logits, token = np.asarray(given["next_logits"](due[:at])), answered[at]
    if not 0 <= token < len(logits):
        return f"you return {token} at index {at}, which is not an id."
    order = np.argsort(-logits)
    rank = int(np.flatnonzero(order == token)[0])
    if given["temperature"] == 0:
        return f"you return an id at index {at} for which {counted(rank, 'other id')} had a larger logit; none should."
    powers = np.exp((logits - logits.max()) / given["temperature"])
    before = np.cumsum(powers[order] / powers.sum()) - powers[order] / powers.sum()
    kept = max(int((before < given["top_p"]).sum()), 1)
    if rank >= kept:
        text = f"you return an id at index {at} that should have been cut off. Only {counted(kept, 'id')} may be"
        return f"{text} drawn there, and {counted(rank, 'id')} {'is' if rank == 1 else 'are'} likelier than yours."
    text = f"you return an id at index {at} that may be drawn, but not the one that this generator draws."
    return f"{text} Either your probabilities for multinomial are wrong, or you made another draw before."


def _stopping(given: Mapping[str, Any], answered: list[int], due: list[int]) -> str:
    """Describe a text that is correct so far but stops too early."""
    new = len(answered) - len(given["prompt"])
    if new < 0:
        return f"your list has only {counted(len(answered), 'token')}, but it should begin with the whole prompt."
    if lacks(answered, due, given["end"]):
        return "your list of tokens lacks its last one, `end`."
    within = ", and an `end` in the prompt doesn't count" if given["end"] in given["prompt"] else ""
    return f"you stop after {counted(new, 'new token')}, though there is room and you haven't drawn `end`{within}."
