"""Loads the functions of unit 11's solution that read and run the real model, for tools and tests."""

from __future__ import annotations

from typing import Any

from cell_definitions import SOLUTIONS, defined_in

NOTEBOOK = SOLUTIONS / "11_real_model" / "11_real_model.ipynb"
#: The cells that define it, in order.
CELLS = (
    *("imports", "given-heads", "given-today", "measured", "reader", "apply_merges", "tokenizer", "story", "tokens"),
    *("from_pairs", "load", "llama_logits", "first-guess", "llama_step", "observe"),
)


def unit_11() -> dict[str, Any]:
    """Return what these cells define: functions, classes and constants by name, without running their measurements."""
    return defined_in("11_real_model", CELLS)
