"""Builds and installs the system-call filter of the student's process, as classic BPF.

It allows everything except what widens the kernel's attack surface or leads out of the sandbox: address families other
than AF_UNIX, new namespaces, mounts, tracing, keys, and memory that no limit covers or that is hidden. A call from
another architecture's table kills the process.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
import sys

from . import linux

_LD_WORD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_AT_NUMBER, _AT_ARCH, _AT_FIRST_ARGUMENT, _AT_SECOND_ARGUMENT = 0, 4, 16, 24
_X32_BIT = 0x40000000

_NEW_NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
)

#: name -> (number on x86_64, number on aarch64); None if the table has no such call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_setup": (206, 0),
    "io_destroy": (207, 1),
    "io_getevents": (208, 4),
    "io_submit": (209, 2),
    "io_cancel": (210, 3),
    "seccomp": (317, 277),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "vmsplice": (278, 75),
    "acct": (163, 89),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
}
_CLONE, _SOCKET, _SOCKETPAIR, _CLONE3 = (56, 220), (41, 198), (53, 199), 435
_PRCTL, _FCNTL = (157, 167), (72, 25)
#: Locks of byte ranges, which one descriptor can have without limit: F_SETLK, F_SETLKW and the same for open files.
_BYTE_LOCKS = (6, 7, 37, 38)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


class UnknownArchitecture(RuntimeError):
    """Raised if this machine's table of system calls is not known here."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def supported(machine: str | None = None) -> bool:
    """Return whether there is a filter for this kind of processor."""
    return (machine or platform.machine()) in _ARCHITECTURES and sys.maxsize > 2**32


def build(machine: str | None = None) -> bytes:
    """Return the filter as an array of `struct sock_filter`. Raises UnknownArchitecture."""
    machine = machine or platform.machine()
    if not supported(machine):
        raise UnknownArchitecture(f"no system-call filter for {machine}")
    column, architecture = _ARCHITECTURES[machine]

    def refuse(number: int) -> tuple[int, int, int, int]:
        return (_RETURN, 0, 0, _ERRNO | number)

    # Each rule skips its own body when it does not match, so no jump is longer than four instructions.
    rules = [(_LD_WORD, 0, 0, _AT_ARCH), (_JEQ, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    rules += [(_LD_WORD, 0, 0, _AT_NUMBER)]
    if machine == "x86_64":
        rules += [(_JGE, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    rules += [(_JEQ, 0, 1, _CLONE3), refuse(errno.ENOSYS)]  # its flags are in memory, which a filter can't read
    for numbers in _DENIED.values():
        number = numbers[column]
        if number is not None:
            rules += [(_JEQ, 0, 1, number), refuse(errno.EPERM)]
    rules += [(_JEQ, 0, 4, _CLONE[column]), (_LD_WORD, 0, 0, _AT_FIRST_ARGUMENT)]
    rules += [(_JSET, 0, 1, _NEW_NAMESPACES), refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    for call in (_SOCKET, _SOCKETPAIR):
        rules += [(_JEQ, 0, 4, call[column]), (_LD_WORD, 0, 0, _AT_FIRST_ARGUMENT)]
        rules += [(_JEQ, 1, 0, int(socket.AF_UNIX)), refuse(errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    rules += [(_JEQ, 0, 4, _PRCTL[column]), (_LD_WORD, 0, 0, _AT_FIRST_ARGUMENT)]
    rules += [(_JEQ, 0, 1, linux.PR_SET_DUMPABLE), refuse(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    for command in _BYTE_LOCKS:
        rules += [(_JEQ, 0, 4, _FCNTL[column]), (_LD_WORD, 0, 0, _AT_SECOND_ARGUMENT)]
        rules += [(_JEQ, 0, 1, command), refuse(errno.ENOLCK), (_LD_WORD, 0, 0, _AT_NUMBER)]
    rules += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *rule) for rule in rules)


def install() -> None:
    """Apply the filter to this process and all that it will start. Needs no_new_privs, and a single thread."""
    instructions = build()
    linux.set_seccomp(_Program(len(instructions) // 8, instructions))
