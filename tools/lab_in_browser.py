"""Drives JupyterLab as a student sees it, for the tests in a browser and for pictures.

It starts its own server, and offers a student's clicks and keys as methods.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

ROOT = Path(__file__).resolve().parents[1]
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
#: JavaScript for the current notebook, as JupyterLab's own object, and for one of its cells.
FRONT = "window.jupyterapp.shell.currentWidget"
CELL = f"{FRONT}.content.widgets.find((cell) => cell.model.id === id)"
READY = f"""() => {{
    const session = {FRONT}?.sessionContext?.session;
    return session?.kernel?.connectionStatus === 'connected' && session.kernel.status === 'idle';
}}"""


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start JupyterLab on a copy of the notebooks in `folder`, as `make lab` does. Yields the address with token."""
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    own = {
        name: str(folder / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    own |= {f"JUPYTERLAB_{name}_DIR": str(folder / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    line = [sys.executable, str(ROOT / "tools" / "lab.py"), f"--ServerApp.root_dir={folder / 'notebooks'}"]
    line += ["--no-browser", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    line += [f"--IdentityProvider.token={token}", "--LabApp.expose_app_in_browser=True"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            line, cwd=folder, env={**os.environ, **own, "PYTHONPATH": path}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait(f"http://127.0.0.1:{port}/api", process)
            yield f"http://127.0.0.1:{port}/{{}}?token={token}"
        finally:
            process.terminate()  # tools/lab.py does not pass the signal on, so `jupyter` stops the server
            subprocess.run([sys.executable, "-m", "jupyter_server", "stop", str(port)], env={**os.environ, **own})
            process.wait(30)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(720):
        assert process.poll() is None, "JupyterLab ended at once; server.log says why"
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.25)
    raise AssertionError("JupyterLab did not start within three minutes")


class Lab:
    """Does in JupyterLab what a student does."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        page.set_default_timeout(60_000)

    def open(self, path: str = "") -> None:
        """Open JupyterLab, on a notebook or on its start page, and wait until the kernel is idle."""
        self.page.goto(self.address.format(f"lab/tree/{path}") + "&reset" if path else self.address.format(""))
        self.page.wait_for_function("window.jupyterapp !== undefined")
        self.page.evaluate("window.jupyterapp.restored.then(() => null)")
        self.page.locator(f"{PANEL} .jp-Cell").first.wait_for()
        self.rest()

    def rest(self) -> None:
        self.page.wait_for_function(READY, timeout=180_000)

    def command(self, name: str, **arguments: Any) -> None:
        script = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)"
        self.page.evaluate(script, [name, arguments])

    def cells(self) -> list[dict[str, Any]]:
        """Return the cells as they are in JupyterLab now: id, kind, source, outputs."""
        return self.page.evaluate(f"() => {FRONT}.content.model.sharedModel.toJSON().cells")

    def go_to(self, name: str) -> Locator:
        """Make the cell with this id active and scroll to it."""
        script = f"""async (id) => {{
            const cell = {CELL}, content = {FRONT}.content;
            content.mode = 'command';  // first: a Markdown cell that is activated in edit mode shows its source
            content.activeCellIndex = content.widgets.indexOf(cell);
            await cell.ready;
            await content.scrollToItem(content.activeCellIndex, 'start');
            cell.node.dataset.name = id;
        }}"""
        self.page.evaluate(script, name)
        return self.page.locator(f"{PANEL} .jp-Cell[data-name='{name}']")

    def run(self, name: str) -> str:
        """Run one cell and return its output, errors included."""
        self.go_to(name)
        self.command("notebook:run-cell")
        self.rest()
        return said(next(cell for cell in self.cells() if cell["id"] == name))

    def run_before(self, name: str) -> None:
        self.go_to(name)
        self.command("notebook:run-all-above")
        self.rest()

    def write(self, name: str, source: str) -> None:
        """Click into a cell, select all, and replace its text by `source`."""
        cell = self.go_to(name)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)
        script = f"([id, source]) => {CELL}.model.sharedModel.source === source"
        self.page.wait_for_function(script, arg=[name, source])

    def validate(self) -> str:
        """Press nbgrader's Validate button and return the text of its window."""
        self.page.locator(f"{PANEL} .validate-button").last.click()
        dialog = self.page.locator(".jp-Dialog-content")
        dialog.wait_for(timeout=180_000)
        text = dialog.inner_text()
        dialog.get_by_role("button", name="OK").click()
        dialog.wait_for(state="detached")
        return text


def said(cell: dict[str, Any]) -> str:
    """Return what a cell printed, or the error in which it ended."""
    parts = []
    for output in cell["outputs"]:
        text = output.get("text", "") or f"{output.get('ename', '')}: {output.get('evalue', '')}".strip(": ")
        parts.append(text if isinstance(text, str) else "".join(text))
    return "".join(parts)
