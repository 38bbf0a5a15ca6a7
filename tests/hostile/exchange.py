"""Hand-ins that do not play fair on nbgrader's exchange, where every user of the machine may make folders by hand."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .attack import ROOT

UNIT = "03_masking"
FILE = f"{UNIT}.ipynb"
RELEASE = ROOT / "notebooks" / UNIT / FILE
SECRET = "0a" * 64


@dataclass
class Exchange:
    """An inbound folder, and who is who. owners: whether folders can be given to the accounts that they name."""

    inbound: Path
    course: Path
    attacker: str
    victim: str
    owners: bool = True
    made: list[Path] = field(default_factory=list)

    def folder(self, student: str, owner: str | None = None, tail: str = "2026-01-01 00:00:00.0 UTC+abc") -> Path:
        """An empty hand-in."""
        path = self.inbound / f"{student}+{UNIT}+{tail}{len(self.made)}"
        path.mkdir()
        self.made.append(path)
        self.give(path, owner or student)
        path.chmod(0o777)
        return path

    def write(self, path: Path, content: bytes, owner: str) -> None:
        path.write_bytes(content)
        self.give(path, owner)

    def give(self, path: Path, owner: str) -> None:
        if self.owners:
            account = pwd.getpwnam(owner)
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)

    def hand_in(self, student: str, content: bytes | None = None, owner: str | None = None) -> Path:
        """As `nbgrader submit` does it."""
        path = self.folder(student, owner)
        owner = owner or student
        self.write(path / FILE, RELEASE.read_bytes() if content is None else content, owner)
        self.write(path / "timestamp.txt", b"2026-01-01 00:00:00.0 UTC", owner)
        self.write(path / "submission_secret.txt", SECRET.encode(), owner)
        return path


@dataclass(frozen=True)
class Planted:
    """What the attacker puts there. says: words of the line about it.

    taken: whether the attacker's notebook counts all the same. owned: whether the attack is one of owners: where all
    share one account it is not prevented.
    """

    name: str
    tries: str
    plant: Callable[[Exchange], object]
    says: str
    taken: bool = False
    owned: bool = False


def instead(place: Callable[[Path, Exchange], object], file: str = FILE) -> Callable[[Exchange], None]:
    """A hand-in of the attacker's with something else in the place of one of its files."""

    def plant(exchange: Exchange) -> None:
        folder = exchange.hand_in(exchange.attacker)
        (folder / file).unlink()
        place(folder / file, exchange)
        if os.path.lexists(folder / file) and not (folder / file).stat(follow_symlinks=False).st_nlink > 1:
            exchange.give(folder / file, exchange.attacker)

    return plant


def solution(exchange: Exchange) -> Path:
    return exchange.course / "solutions" / UNIT / FILE


def sparse(path: Path, exchange: Exchange) -> None:
    with open(path, "wb") as file:
        file.truncate(2**40)


def linked_folder(exchange: Exchange) -> None:
    folder = exchange.folder(exchange.attacker)
    folder.rmdir()
    folder.symlink_to(solution(exchange).parent, target_is_directory=True)
    exchange.give(folder, exchange.attacker)


def dangling_folder(exchange: Exchange) -> None:
    folder = exchange.folder(exchange.attacker)
    folder.rmdir()
    folder.symlink_to("nowhere")


def in_anothers_name(exchange: Exchange) -> None:
    exchange.hand_in(exchange.victim, b"{}", owner=exchange.attacker)


def anothers_file(exchange: Exchange) -> None:
    folder = exchange.hand_in(exchange.attacker)
    exchange.give(folder / FILE, exchange.victim)


def named(student: str) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.hand_in(student, owner=exchange.attacker) and None


def undecodable(exchange: Exchange) -> None:
    os.mkdir(os.fsencode(exchange.inbound) + b"/\xff\xfe+03_masking+2026-01-01 00:00:00 UTC+x")


def many_files(exchange: Exchange) -> None:
    folder = exchange.hand_in(exchange.attacker)
    for number in range(1_100):
        (folder / f"{number}.txt").touch()


def more_files(exchange: Exchange) -> None:
    folder = exchange.hand_in(exchange.attacker)
    for name in ("numpy.py", ".hidden.ipynb", "other.ipynb", "__init__.py", "lms.json"):
        exchange.write(folder / name, b"raise SystemExit", exchange.attacker)
    (folder / "timestamp.txt").unlink()
    os.mkfifo(folder / "timestamp.txt")
    (folder / "link.txt").symlink_to("/etc/passwd")
    (folder / "dangling").symlink_to("nowhere")


PLANTED = (
    Planted(
        "a linked notebook", "links the solutions, to be graded and to have the page",
        instead(lambda path, exchange: path.symlink_to(solution(exchange))), "no regular file",
    ),
    Planted(
        "a second name", "gives the solutions' file a second name in its folder",
        instead(lambda path, exchange: os.link(solution(exchange), path)), "hard links",
    ),
    Planted("a linked folder", "makes its hand-in a link to the solutions' folder", linked_folder, "no folder but a"),
    Planted("a dangling folder", "makes its hand-in a link to nowhere", dangling_folder, "no folder but a"),
    Planted(
        "a dangling link", "hands in a link to nowhere, at which a copy of all would stop",
        instead(lambda path, exchange: path.symlink_to("nowhere")), "no regular file",
    ),
    Planted("a pipe", "hands in a pipe, which blocks its readers", instead(lambda p, e: os.mkfifo(p)), "no regular"),
    Planted("a terabyte", "hands in a sparse file of a terabyte", instead(sparse), "larger than 200 MB"),
    Planted("nothing", "hands in an empty folder", lambda exchange: exchange.folder(exchange.attacker), "no notebook"),
    Planted("many files", "fills the folder with files", many_files, "more than 1000 files"),
    Planted("another's name", "hands in by somebody else's name", in_anothers_name, "not by", owned=True),
    Planted("another's file", "has somebody else's file in its folder", anothers_file, "and the folder by", owned=True),
    Planted("no account", "hands in by the name of no account", named("ada-of-nowhere"), "no account", owned=True),
    Planted("mark-up", "is called so that pages run it", named("<img src=x onerror=alert(1)>"), "no student's ID"),
    Planted("upwards", "is called like the folder above", named(".."), "no student's ID"),
    Planted("a formula", "is called so that a spreadsheet runs it", named("=HYPERLINK(1)"), "no student's ID"),
    Planted("a terminal", "is called so that a terminal acts on it", named("a\x1b[2J\x07\u202e"), "no student's ID"),
    Planted("no text", "is called by bytes that are no text", undecodable, "no student's ID"),
    Planted(
        "a linked secret", "has a secret that is somebody else's file",
        instead(lambda path, exchange: path.symlink_to("/etc/passwd"), "submission_secret.txt"),
        "no feedback on the exchange", taken=True,
    ),
    Planted(
        "a long secret", "has a secret without an end",
        instead(lambda path, exchange: path.write_bytes(b"0" * 2**20), "submission_secret.txt"),
        "no feedback on the exchange", taken=True,
    ),
    Planted(
        "a chosen secret", "has a secret that leads elsewhere",
        instead(lambda path, exchange: path.write_bytes(b"../" * 40), "submission_secret.txt"),
        "no feedback on the exchange", taken=True,
    ),
    Planted("more files", "adds modules, links, pipes and notebooks beside its own", more_files, "", taken=True),
)  # fmt: skip
