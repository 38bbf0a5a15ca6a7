"""Installs KaTeX, MiniSearch and axe-core (for tests) as `tools/web/package-lock.json` says, and sets formulas."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import SiteFailed
from .templates import WEB

MODULES = WEB / "node_modules"
#: Sets formulas: (TeX, whether it has its own line, cell) -> HTML.
Setter = Callable[[Sequence[tuple[str, bool, str]]], list[str]]


def set_formulas(formulas: Sequence[tuple[str, bool, str]]) -> list[str]:
    """Return KaTeX's HTML and MathML of each formula. Raises SiteFailed for one that KaTeX cannot set."""
    questions = json.dumps([{"tex": tex, "display": display} for tex, display, _ in formulas])
    done = subprocess.run(
        ["node", WEB / "formulas.mjs"], input=questions, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise SiteFailed(f"node cannot set the formulas: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    answers = json.loads(done.stdout)
    for (tex, _, cell), answer in zip(formulas, answers, strict=True):
        if "error" in answer:
            raise SiteFailed(f"cell {cell}: KaTeX cannot set ${tex}$: {answer['error']}")
    return [answer["html"] for answer in answers]


def install_packages() -> None:
    """Install the pinned packages from npm, unless they are there. Raises SiteFailed."""
    lock, stamp = WEB / "package-lock.json", MODULES / ".installed-from.json"
    if stamp.is_file() and stamp.read_bytes() == lock.read_bytes():
        return
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise SiteFailed("this needs Node.js 18 or newer with npm (Debian, Ubuntu: sudo apt-get install nodejs npm)")
    print("site: taking KaTeX, MiniSearch and axe-core from npm; once only", file=sys.stderr, flush=True)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        reason = errors[0].strip() if errors else f"exit status {done.returncode}"
        raise SiteFailed(f"npm cannot be reached or failed ({reason}); with a network, run `make site` again")
    stamp.write_bytes(lock.read_bytes())


def copy_packages(target: Path) -> None:
    """Copy KaTeX's style and fonts, and the search, to the site."""
    (target / "katex" / "fonts").mkdir(parents=True)
    style = (MODULES / "katex" / "dist" / "katex.min.css").read_text(encoding="utf-8")
    style = re.sub(r',url\([^)]+\.(woff|ttf)\) format\("[a-z]+"\)', "", style)  # every current browser reads woff2
    (target / "katex" / "katex.css").write_text(style, encoding="utf-8")
    for font in (MODULES / "katex" / "dist" / "fonts").glob("*.woff2"):
        shutil.copyfile(font, target / "katex" / "fonts" / font.name)
    shutil.copyfile(MODULES / "minisearch" / "dist" / "umd" / "index.js", target / "minisearch.js")
