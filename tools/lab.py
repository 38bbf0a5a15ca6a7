"""Opens JupyterLab on the start page of the student's notebooks, without the news pop-up and the instructor's panels.

.venv/bin/python tools/lab.py [any argument of jupyter lab]
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

import update

ROOT = Path(__file__).resolve().parents[1]
#: The page that opens first, in notebooks/.
START = "00_start_here.ipynb"


def command(arguments: list[str]) -> list[str]:
    """Return the JupyterLab command line; `arguments` override the settings made here."""
    notebooks, custom = ROOT / "notebooks", ROOT / "tools" / "jupyter" / "custom"
    settings = {"--ServerApp.root_dir": str(notebooks)}
    if (notebooks / START).is_file():
        settings["--LabApp.default_url"] = f"/lab/tree/{START}"
    if (custom / "custom.css").is_file():
        served = {"static_custom_path": [str(custom)]}  # JupyterLab asks for custom/custom.css
        settings |= {"--LabApp.custom_css": "True", "--ServerApp.tornado_settings": repr(served)}
    given = {argument.partition("=")[0] for argument in arguments}
    line = [sys.executable, "-m", "jupyterlab"]
    line += [f"{name}={value}" for name, value in settings.items() if name not in given]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        line.append("--allow-root")  # in containers, JupyterLab refuses root without this option
    return line + arguments


def trust(notebooks: Path) -> None:
    """Sign the notebooks unchanged since the release, because JupyterLab runs live figures only in signed ones."""
    notary = NotebookNotary()
    for path in update.untouched(notebooks):
        notary.sign(nbformat.read(path, as_version=4))


def main() -> int:
    if (ROOT / "handout").is_dir():
        update.main()  # if it fails, JupyterLab opens with the notebooks that are there
    try:
        trust(ROOT / "notebooks")
    except (OSError, ValueError, sqlite3.Error) as error:
        print(f"the notebooks cannot be signed, so their first figures stand still until you run them: {error}")
    ours = str(ROOT / "tools" / "jupyter")
    theirs = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join([ours, theirs] if theirs else [ours])
    try:
        return subprocess.call(command(sys.argv[1:]))
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
