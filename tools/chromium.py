"""Installs what the tests in a browser need: Chromium, Node.js with npm for the site, and the npm packages.

.venv/bin/python tools/chromium.py
"""

from __future__ import annotations

import os
import shutil
import sys

from bubblewrap import become_root, run
from textbook import SiteFailed
from textbook.npm_packages import install_packages

#: Where Debian, Ubuntu, Fedora and others install it. The environment variable CHROMIUM overrides it.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    places = (os.environ.get("CHROMIUM"), *NAMES)
    return next((found for place in places if place and (found := shutil.which(place))), None)


def options() -> list[str]:
    """Return the options with which Chromium starts here. They keep it from using the network by itself."""
    always = ["--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
    # As root (in a container) Chromium starts only without its own sandbox. It opens only our pages.
    return [*always, "--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else always


def missing() -> list[str]:
    """Return the Debian packages that this machine lacks."""
    programs = {"nodejs": shutil.which("node"), "npm": shutil.which("npm"), "chromium": find_chromium()}
    return [package for package, place in programs.items() if place is None]


def main() -> int:
    packages = missing()
    prefix = become_root() if packages and shutil.which("apt-get") else None
    if prefix is not None:
        print(f"browser: installing {' and '.join(packages)}; once only", file=sys.stderr, flush=True)
        run([*prefix, "apt-get", "update", "-q"])
        run([*prefix, "apt-get", "install", "-q", "-y", "--no-install-recommends", *packages], time_limit=900)
        packages = missing()
    if packages:
        wanted = " ".join(packages)
        print(f"browser: {wanted} not found. Debian, Ubuntu: sudo apt-get install {wanted}", file=sys.stderr)
        if "chromium" in packages:
            print("browser: or name a Chromium or Chrome: make test-browser CHROMIUM=/path/to/it", file=sys.stderr)
        return 2
    try:
        install_packages()  # before the tests, which start in several processes at once
    except SiteFailed as error:
        print(f"browser: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
