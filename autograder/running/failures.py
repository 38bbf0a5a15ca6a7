"""What a stranger's frames say in words, cut short and made safe to pass on."""

from __future__ import annotations

import re
from typing import Any

from ..data import Failure


def read_failure(error: Any) -> Failure:
    """The failure that a stranger's frame describes; what is not text or a line number in it is dropped."""
    error = error if isinstance(error, dict) else {}
    line = error.get("line")
    known = type(line) is int and 0 < line < 10**6
    cell = words(error.get("cell"), 100)
    return Failure(
        words(error.get("type"), 200) or "Exception",
        words(error.get("message"), 2_000),
        line if known else None,
        cell if re.fullmatch(r"[\w-]+", cell) else "",
    )


def words(value: Any, cap: int) -> str:
    """Text from a stranger, cut short, without lone surrogates, which would break whoever writes it down."""
    return value[:cap].encode("utf-8", "replace").decode() if isinstance(value, str) else ""
