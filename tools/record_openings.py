"""Records what three units train, for the live figures that open them before any cell has run.

.venv/bin/python tools/record_openings.py

A later figure in the unit shows the same. Run `make notebooks` before this, and again after it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat

from attention_figures.recorded_measurements import OPENINGS

ROOT = Path(__file__).resolve().parents[1]
#: Unit -> the cell of its solution whose live figure is recorded.
CELLS = {
    "06_cross_attention": "second-map",
    "07_transformer_block": "guesses",
    "08_induction_heads": "fig-forming",
}
DATA = re.compile(r'<script type="application/json">([^<]*)</script>')


def shown_by(unit: str, name: str) -> dict[str, Any]:
    """Return the data of the live figure that a cell of a solution shows."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.id == name)
    shown = "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)
    return json.loads(DATA.search(shown)[1])


def record() -> dict[str, Any]:
    """Return unit -> data; for unit 6, only the first of its two translators."""
    found = {unit: shown_by(unit, name) for unit, name in CELLS.items()}
    found["06_cross_attention"]["models"] = found["06_cross_attention"]["models"][:1]
    return found


def main() -> None:
    lines = [
        f"{json.dumps(unit)}: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}"
        for unit, data in record().items()
    ]
    OPENINGS.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
