"""Checks every installed file of an environment; the environment's own Python runs it.

    .venv/bin/python -I tools/check_installed_files.py

Prints one JSON object: the Python version, the distributions found (name-version), and what is missing or damaged.
"""

import csv
import json
import os
import sys
import sysconfig


def installed(site: str) -> tuple[list[str], list[str]]:
    """Return the distributions under `site`, and a line for each incomplete one that begins with its name."""
    found, problems = [], []
    for name in sorted(os.listdir(site)) if os.path.isdir(site) else []:
        if not name.endswith(".dist-info"):
            continue
        distribution = name.removesuffix(".dist-info")
        try:
            with open(os.path.join(site, name, "RECORD"), encoding="utf-8", newline="") as record:
                rows = list(csv.reader(record))
        except (OSError, ValueError):
            rows = []
        if not rows:
            problems.append(f"{distribution} is only half installed")
            continue
        found.append(distribution)
        damaged = next((row[0] for row in rows if row and not _intact(site, row)), None)
        if damaged is not None:
            problems.append(f"{distribution} has lost or changed {damaged}")
    return found, problems


def _intact(site: str, row: list[str]) -> bool:
    path, size = row[0], row[2] if len(row) > 2 else ""
    if path.endswith(".pyc"):
        return True
    try:
        actual = os.stat(os.path.join(site, path)).st_size
    except OSError:
        return False
    # Scripts and data outside the folder may be rewritten for this machine, so only check that they exist.
    return path.startswith("..") or not size or actual == int(size)


if __name__ == "__main__":
    found, problems = installed(sysconfig.get_path("purelib"))
    print(json.dumps({"python": list(sys.version_info[:3]), "found": found, "problems": problems}))
