"""Takes what is no answer out of a large notebook file: outputs and attachments, without building them in memory.

Pictures and tables make a file large, and nothing of them is read. One look through the bytes finds where they stand.
"""

from __future__ import annotations

import re

#: Brackets and whole strings; one that does not end goes to the end of the file, so that nothing is looked at twice.
TOKENS = re.compile(rb'[\[\]{}]|"((?:[^"\\]++|\\.)*+)"?+', re.DOTALL)
COLON = re.compile(rb"\s*+:\s*+(?=[\[{])")
#: What a cell may hold that is not read: key -> what stands in its place.
LEFT_OUT = {b"outputs": b"[]", b"attachments": b"{}"}
LONGEST = max(map(len, LEFT_OUT)) + 2
#: Brackets and strings that are looked at, a few hundred nanoseconds each.
TOKENS_CAP = 10_000_000


class TooMany(Exception):
    """More brackets and strings than are looked at."""


def without_outputs(data: bytes) -> bytes:
    """The notebook file with its outputs and attachments empty. Raises TooMany.

    What is no JSON stays none, or becomes a notebook that says what its cells say.
    """
    kept, start, skipped_from = [], 0, -1
    depth = 0
    for seen, token in enumerate(TOKENS.finditer(data)):
        if seen == TOKENS_CAP:
            raise TooMany
        first = data[token.start()]
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == skipped_from:
                start, skipped_from = token.end(), -1
        elif skipped_from < 0 and token.end() - token.start() <= LONGEST and token[1] in LEFT_OUT:
            colon = COLON.match(data, token.end())
            if colon is not None:
                kept += [data[start : colon.end()], LEFT_OUT[token[1]]]
                start, skipped_from = len(data), depth
    kept.append(data[start:])
    return b"".join(kept)
