"""A progress bar on the terminal; silence where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..text import printable


@contextmanager
def progress(total: int, what: str = "grading") -> Iterator[Callable[[str], None]]:
    """Yields a function to call with a name whenever one more is done. Quiet unless stderr is a terminal."""
    from tqdm import tqdm

    with tqdm(total=total, desc=what, unit="notebook", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:

        def advance(name: str) -> None:
            bar.set_postfix_str(printable(name)[:20], refresh=False)
            bar.update()

        yield advance
