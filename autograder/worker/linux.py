"""Makes the few Linux calls that Python does not offer: namespaces, mounts, capabilities, prctl."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REC, MS_PRIVATE = 0x4000, 1 << 18

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

MADV_COLLAPSE = 25
HUGE_PAGE = 2 * 2**20

_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES_CAP = 64
_MARK = 1 << 35  # CAP_WAKE_ALARM


def counts_by_namespace() -> bool:
    """Return whether the kernel counts a user's processes per user namespace (Linux 5.14), not per machine."""
    parts = os.uname().release.split(".")
    with contextlib.suppress(ValueError, IndexError):
        return (int(parts[0]), int(parts[1])) >= (5, 14)
    return False


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones."""
    _check(_libc().unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Call mount(2). Raises OSError."""
    kind_bytes = None if kind is None else kind.encode()
    data_bytes = None if data is None else data.encode()
    result = _libc().mount(source.encode(), target.encode(), kind_bytes, ctypes.c_ulong(flags), data_bytes)
    _check(result, f"mount {kind or 'flags'} on {target}")


def prctl(option: int, *args: int) -> None:
    """Call prctl(2) with up to four numbers. Raises OSError."""
    padded = [ctypes.c_ulong(value) for value in (*args, 0, 0, 0, 0)[:4]]
    _check(_libc().prctl(ctypes.c_int(option), *padded), f"prctl {option}")


def set_seccomp(program: ctypes.Structure) -> None:
    """Install a filter program; see `seccomp.py`."""
    two = ctypes.c_ulong(2)  # SECCOMP_MODE_FILTER
    _check(_libc().prctl(ctypes.c_int(PR_SET_SECCOMP), two, ctypes.byref(program)), "seccomp")


def use_huge_pages() -> None:
    """Collect this process's memory in huge pages if the kernel can (Linux 6.1), because a fork copies the page table.

    A child that writes to one gets a small page of its own, as before.
    """
    libc = _libc()
    with open("/proc/self/maps", encoding="utf-8") as file:
        mappings = [line.split() for line in file]
    for addresses, access, _, _, _, *name in mappings:
        if access == "rw-p" and (not name or name == ["[heap]"]):
            start, end = (int(address, 16) for address in addresses.split("-"))
            start, end = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
            if start < end:  # what can't be collected stays as it is
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), ctypes.c_int(MADV_COLLAPSE))


def drop_bounding_set() -> None:
    """Keep every program that this process starts from gaining a capability. Needs CAP_SETPCAP."""
    for capability in range(_CAPABILITIES_CAP):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            if capability < 30:  # above its last capability, the kernel returns EINVAL
                raise
            return


def drop_capabilities(marked: bool = False) -> None:
    """Give up every capability of this process.

    marked: it may still take up CAP_WAKE_ALARM, which is useless in a user namespace. A process without that
    capability, even of the same user, then can't open the memory of this one, because the kernel requires at least as
    many capabilities.
    """
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    kept = _MARK if marked else 0
    _check(_libc().capset(_header(), struct.pack("<6I", 0, kept & 2**32 - 1, 0, 0, kept >> 32, 0)), "capset")


def drop_mark() -> None:
    """Give up what `drop_capabilities` has left to a marked process; does nothing in any other."""
    held = ctypes.create_string_buffer(24)
    _check(_libc().capget(_header(), held), "capget")
    _, low, _, _, high, _ = struct.unpack("<6I", held.raw)
    if low | high << 32 == _MARK:
        drop_capabilities()


def _header() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(struct.pack("<Ii", _CAPABILITY_VERSION_3, 0))
