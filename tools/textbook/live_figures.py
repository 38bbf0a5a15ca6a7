"""Moves the scripts of live figures into the site's files; their data and still picture stay in the page.

A notebook holds a live figure's scripts in the figure's own output, because it has no other place for them. A page of
the site allows only scripts from files of the site, and loads each once.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from . import SiteFailed

KIT = ("kit.js", "kit.css")
FIGURE = re.compile(r'<figure\b(?=[^>]*\bclass="(?:[^"]* )?live[ "])[^>]*>')
NAME = re.compile(r'\bdata-live="([a-z][a-z0-9_-]*)"')
SCRIPT = re.compile(r'<script\b(?![^>]*\btype="application/json")[^>]*>.*?</script\s*>\s*', re.DOTALL | re.IGNORECASE)
STYLE = re.compile(r"<style\b[^>]*>.*?</style\s*>\s*", re.DOTALL | re.IGNORECASE)


def names_in(html: str) -> list[str]:
    """Return the names of the live figures in some HTML, each once. Raises SiteFailed for a figure without one."""
    names = {}
    for figure in FIGURE.findall(html):
        found = NAME.search(figure)
        if found is None:
            raise SiteFailed(f"a live figure has no name that may be a file: {figure[:80]}")
        names[found[1]] = None
    return list(names)


def without_code(html: str) -> str:
    """Return a live figure's HTML without scripts and styles; its data, which is JSON, stays."""
    return STYLE.sub("", SCRIPT.sub("", html))


def copy_code(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy the kit and the scripts of these figures, if there are any. Raises SiteFailed."""
    names = sorted(names)
    for file in (*KIT, *(f"{name}.js" for name in names)) if names else ():
        if not (source / file).is_file():
            raise SiteFailed(f"a live figure asks for {source / file}, which is not there")
        target.mkdir(exist_ok=True)
        shutil.copyfile(source / file, target / file)
