"""How often each line of an answer is run: a loop shows by it, however it is written."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any


class Busy:
    """Counts the lines that are run while it is open, in the cells of a notebook or in the file of a function."""

    def __init__(self, function: Any) -> None:
        self._file = getattr(getattr(function, "__code__", None), "co_filename", None)
        self._counts: Counter[tuple[str, int]] = Counter()

    @property
    def most(self) -> int:
        """How often the line was run that was run most often."""
        return max(self._counts.values(), default=0)

    def __enter__(self) -> Busy:
        self._before = sys.gettrace()
        sys.settrace(self._of_frame)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self._before)

    def _of_frame(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        return self._of_line if name == self._file or name.startswith("<cell ") else None

    def _of_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._counts[frame.f_code.co_filename, frame.f_lineno] += 1
        return self._of_line
