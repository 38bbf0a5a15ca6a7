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
        return f"At place {at} (counted from 0) stands {token}, which is no id."
    order = np.argsort(-logits)
    rank = int(np.flatnonzero(order == token)[0])
    if given["temperature"] == 0:
        return f"At place {at} (counted from 0) stands an id with {rank} larger logits than its own: none is due."
    powers = np.exp((logits - logits.max()) / given["temperature"])
    before = np.cumsum(powers[order] / powers.sum()) - powers[order] / powers.sum()
    kept = max(int((before < given["top_p"]).sum()), 1)
    if rank >= kept:
        text = f"At place {at} (counted from 0) stands an id that may not come: the {kept} likeliest ones may, and"
        return f"{text} {rank} are likelier than this one."
    text = (
        f"At place {at} (counted from 0) stands an id that may come, and with this generator another one is due: what"
    )
    return (
        f"{text} multinomial is handed is not in proportion to the probabilities of those that may, or it drew before."
    )


def _stopping(given: Mapping[str, Any], answered: list[int], due: list[int]) -> str:
    """Of a text that is right as far as it goes, and ends before its end."""
    new = len(answered) - len(given["prompt"])
    if new < 0:
        return f"The list is shorter than the prompt, with which it begins: it has {counted(len(answered), 'token')}."
    if lacks(answered, due, given["end"]):
        return "The text lacks its last token, which is `end`."
    within = " (`end` stands in the prompt, where it says nothing)" if given["end"] in given["prompt"] else ""
    return (
        f"It stops after {new} new token{'s' * (new != 1)}, though there is room and `end` was not generated{within}."
    )
