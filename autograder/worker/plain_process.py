"""Runs the cells and answers every exercise in one process, where there is no fork, which `zygote.py` needs.

It runs only one's own notebook. An exercise finds the names of the notebook as the cells have left them, but what an
answer changes inside a library stays changed until the process is restarted.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from . import zygote
from .call_function import describe_error
from .restore_state import ModuleSnapshot
from .run_cells import STUCK
from .socket_frames import Closed, FrameTimeout, receive_frame, send_frame
from .student_process import run_cells


def main(port: int, token: str, libraries: list[str]) -> None:
    """Serve the host that waits on this port of this machine. token: proves the identity of this process."""
    namespace, transform = zygote.warm_up()
    for name in libraries:
        zygote.LIBRARIES[name]()
    zygote.silence()
    channel = socket.create_connection(("127.0.0.1", port))
    send_frame(channel, {"token": token})
    bring_back_ours = ModuleSnapshot(__package__).bring_back
    notebook = run_cells(channel, namespace, transform)
    while True:
        try:
            request, payload = receive_frame(channel)
        except (Closed, FrameTimeout, OSError):
            return
        bring_back_ours()
        with names_kept(namespace), ended_after(float(request["seconds"])):
            try:
                notebook.answer(request, payload, channel)
            except Exception as error:
                send_frame(channel, {"event": "broken", "error": describe_error(error)})
        send_frame(channel, {"event": "ended", "how": "exit 0"})


@contextlib.contextmanager
def names_kept(namespace: dict[str, Any]) -> Iterator[None]:
    """Undo what an exercise binds: functions of the course, and rewritten versions of an answer."""
    before = dict(namespace)
    try:
        yield
    finally:
        namespace.clear()
        namespace.update(before)


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process once the `with` block has used this much processor time."""
    ended, end = threading.Event(), time.process_time() + seconds

    def watch() -> None:
        while (left := end - time.process_time()) > 0:
            if ended.wait(min(max(left, 0.01), 0.2)):
                return
        os._exit(STUCK)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
