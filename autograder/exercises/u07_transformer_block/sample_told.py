"""What is to be said of a text that `sample` goes on with otherwise than is due: whether the id may come there."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...text import counted
from ..kit import Case, Sent, lacks, named, parted

NAMES = ("next_logits", "prompt", "end", "max_len", "temperature", "top_p")


def experiment(case: Case, due: Any, answered: Any, sent: Sequence[Sent]) -> str:
    """Of the first token that is another one than is due."""
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
        return f"At index {at} (counted from 0) you have {token}, which is no id."
    order = np.argsort(-logits)
    rank = int(np.flatnonzero(order == token)[0])
    if given["temperature"] == 0:
        return f"At index {at} (counted from 0) you have an id with {rank} larger logits than its own; expected none."
    powers = np.exp((logits - logits.max()) / given["temperature"])
    before = np.cumsum(powers[order] / powers.sum()) - powers[order] / powers.sum()
    kept = max(int((before < given["top_p"]).sum()), 1)
    if rank >= kept:
        text = f"At index {at} (counted from 0) you have an id that may not come. The {kept} likeliest ones may,"
        return f"{text} and {rank} are likelier than this one."
    text = f"At index {at} (counted from 0) you have an id that may come, but not the one that this generator draws."
    return f"{text} Either you don't give multinomial the probabilities of those that may come, or you drew before."


def _stopping(given: Mapping[str, Any], answered: list[int], due: list[int]) -> str:
    """Of a text that is right as far as it goes, and ends before its end."""
    new = len(answered) - len(given["prompt"])
    if new < 0:
        return f"Your list should begin with the prompt, but it is shorter. It has {counted(len(answered), 'token')}."
    if lacks(answered, due, given["end"]):
        return "Your text lacks its last token, which is `end`."
    within = " (`end` is in the prompt, where it means nothing)" if given["end"] in given["prompt"] else ""
    return (
        f"You stop after {new} new token{'s' * (new != 1)}, though there is room and `end` was not generated{within}."
    )
