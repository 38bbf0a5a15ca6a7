"""Two lanes of tests: `make test` takes what is not marked `nightly`, `make test-all` takes everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def nightly(values: Iterable[Any]) -> list[Any]:
    """Parameters of which only the first is tried by `make test`."""
    first, *others = values
    rows = [value if isinstance(value, tuple) else (value,) for value in others]
    return [first, *(pytest.param(*row, marks=pytest.mark.nightly) for row in rows)]
