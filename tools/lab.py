"""Opens JupyterLab on the student's notebooks, without the news pop-up and the instructor's panels.

.venv/bin/python tools/lab.py [any argument of jupyter lab]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def command(arguments: list[str]) -> list[str]:
    """The JupyterLab command line."""
    line = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={ROOT / 'notebooks'}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        line.append("--allow-root")  # containers: JupyterLab refuses root unless told
    return line + arguments


def main() -> int:
    ours = str(ROOT / "tools" / "jupyter")
    theirs = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([ours, theirs] if theirs else [ours])
    try:
        return subprocess.call(command(sys.argv[1:]))
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
