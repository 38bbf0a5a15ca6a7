"""Handing in something else than a notebook file, or more than one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from .attack import ROOT, Attack

SOLUTION = ROOT / "solutions/03_masking/03_masking.ipynb"


def linked(path: Path, content: bytes) -> None:
    path.symlink_to(SOLUTION)


def linked_folder(path: Path, content: bytes) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(SOLUTION.parent, target_is_directory=True)


def linked_student(path: Path, content: bytes) -> None:
    path.parent.rmdir()
    student = path.parent.parent
    student.rmdir()
    other = student.with_name(student.name + " real")
    (other / path.parent.name).mkdir(parents=True)
    (other / path.parent.name / path.name).write_bytes(content)
    student.symlink_to(other, target_is_directory=True)


def device(path: Path, content: bytes) -> None:
    path.symlink_to("/dev/zero")


def endless(path: Path, content: bytes) -> None:
    os.mkfifo(path)


def a_socket(path: Path, content: bytes) -> None:
    here = os.open(path.parent, os.O_RDONLY)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def with_others(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    (path.parent / "numpy.py").write_text("raise SystemExit")
    (path.parent / "matplotlib.py").write_text("raise SystemExit")
    for start in ("ti", "su", "tz", "a", "timestamp.txt", "submission_secret.txt"):
        (path.parent / f"{start}n").symlink_to("/etc/passwd")
        os.mkfifo(path.parent / f"{start}p")
    (path.parent / "submission_secret.txt").symlink_to("/etc/passwd")
    (path.parent / "other.ipynb").write_bytes(b"{")
    (path.parent / "timestamp.txt").symlink_to("/dev/zero")
    (path.parent / "__init__.py").write_text("raise SystemExit")


def attack(name: str, tries: str, place: Callable[[Path, bytes], None], **more) -> Attack:
    return Attack(name, tries, place=place, **{"solved": False, "never": (*Attack.never, "BEGIN SOLUTION"), **more})


ATTACKS = (
    attack("a link", "hands in a link to the solutions", linked, says="not a regular file"),
    attack("a linked folder", "makes its folder a link to the solutions' folder", linked_folder, says="not a regular"),
    attack("a linked student", "makes its whole folder a link to a classmate's", linked_student, says="not a regular"),
    attack("a device", "hands in a link to a device that never ends", device, says="not a regular file"),
    attack("a pipe", "hands in a named pipe, which blocks whoever opens it", endless, says="not a regular file"),
    attack("a socket", "hands in a socket", a_socket, says="not a regular file"),
    attack("50 MB", "hands in 50 MB of blanks", lambda p, c: p.write_bytes(c + b" " * 50 * 2**20), says="larger than"),
    attack("more files", "adds modules, links, pipes and notebooks beside its own", with_others, solved=True),
)
