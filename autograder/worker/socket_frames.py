"""Sends and receives frames on a stream socket: two lengths, a JSON header, then raw bytes.

It uses no pickle and no npz: an untrusted frame is only text that JSON reads and bytes that NumPy views.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

PREFIX = struct.Struct("<IQ")
HEADER_CAP = 4 * 2**20
PAYLOAD_CAP = 64 * 2**20


class BadFrame(Exception):
    """Raised if the other side sent something that is no frame, or one above the caps."""


class FrameTimeout(Exception):
    """Raised if the whole frame did not arrive in time."""


class Closed(Exception):
    """Raised if the other side closed the connection."""


def send_frame(channel: socket.socket, header: dict[str, Any], payload: bytes = b"") -> None:
    """Send one frame: `header` as JSON, `payload` as it is."""
    text = json.dumps(header, separators=(",", ":")).encode()
    channel.sendall(PREFIX.pack(len(text), len(payload)) + text)
    if payload:
        channel.sendall(payload)


def receive_frame(
    channel: socket.socket,
    deadline: float | None = None,
    header_cap: int = HEADER_CAP,
    payload_cap: int = PAYLOAD_CAP,
) -> tuple[dict[str, Any], bytes]:
    """Receive one frame before `deadline` (a `time.monotonic()` reading; None waits forever).

    Raises BadFrame, FrameTimeout or Closed.
    """
    text, payload = receive_bytes(channel, deadline, header_cap, payload_cap)
    return read_header(text), payload


def receive_bytes(
    channel: socket.socket,
    deadline: float | None = None,
    header_cap: int = HEADER_CAP,
    payload_cap: int = PAYLOAD_CAP,
) -> tuple[bytes, bytes]:
    """Do the same, but return the header unread, for `read_header`."""
    header_size, payload_size = PREFIX.unpack(_receive_exactly(channel, PREFIX.size, deadline))
    if header_size > header_cap or payload_size > payload_cap:
        raise BadFrame(f"a frame of {header_size} + {payload_size} bytes is above the cap")
    text = _receive_exactly(channel, header_size, deadline)
    return text, _receive_exactly(channel, payload_size, deadline)


def read_header(text: bytes) -> dict[str, Any]:
    """Return the header of a frame. Raises BadFrame."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"the header is no JSON: {type(error).__name__}") from None
    if not isinstance(header, dict):
        raise BadFrame("the header is no JSON object")
    return header


def _receive_exactly(channel: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        if deadline is None:
            channel.settimeout(None)
        else:
            left = deadline - time.monotonic()
            if left <= 0:
                raise FrameTimeout
            channel.settimeout(left)
        try:
            part = channel.recv(min(size - len(parts), 2**20))
        except TimeoutError:
            raise FrameTimeout from None
        except ConnectionError:
            raise Closed from None
        if not part:
            raise Closed
        parts += part
    channel.settimeout(None)
    return bytes(parts)
