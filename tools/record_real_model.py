"""Record what unit 11 measures with the real model: `python tools/record_real_model.py [--to FILE]`.

The solution notebook runs from the top with the model's file; what passed through its `measured` is written, a line for
each name, with the versions and the date. Where the file is missing, nothing is recorded.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import torch
from nbclient import NotebookClient

from attention_figures.helpers.fetch_model import MODEL_NAME, MODEL_SHA256, model_file
from attention_figures.recorded_measurements import MODEL
from unit_11_model import NOTEBOOK

NO_MODEL = "the model's file is not here, so nothing was recorded; run `make model`"


def measured() -> dict[str, Any]:
    """Run the notebook and return its measurements by name."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("import json\n\nprint(json.dumps(MEASURED))"))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": NOTEBOOK.parent}}).execute()
    return json.loads(notebook.cells[-1].outputs[0].text)


def as_text(record: dict[str, Any]) -> str:
    """Return the record as JSON with a line for each name."""
    lines = (f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in record.items())
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the record; exit code 2 without a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=MODEL, help="where to write (default: the course)")
    options = parser.parse_args(arguments)
    if model_file() is None:
        print(f"model_record: {NO_MODEL}.", file=sys.stderr)
        return 2
    made = {
        "model": MODEL_NAME,
        "sha256": MODEL_SHA256,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": "python tools/record_real_model.py",
    }
    options.to.write_text(as_text({"made": made} | measured()), encoding="utf-8")
    print(f"Recorded with {MODEL_NAME}: {options.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
