"""Looking for answers, tests, marks or other students' work. What is found is put into an exception's message."""

from __future__ import annotations

from .attack import Attack


def attack(name: str, tries: str, body: str, says: str = "loot []", **more) -> Attack:
    source = "def causal_mask(n):\n    import gc, glob, os, subprocess, sys\n    loot = []\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    source += "    raise RuntimeError(f'loot {loot}'[:250])\n"
    return Attack(name, tries, cells={"causal_mask": source}, says=says, **more)


ATTACKS = (
    attack(
        "files of the course",
        "reads references, solutions, classmates' work and the gradebook by their paths",
        """
for pattern in ("@CANARY@/*", "@CANARY@/**/*.ipynb", "/**/gradebook.db", "/home/*/*", "/root/*", "/srv/*"):
    for path in glob.glob(pattern, recursive="CANARY" in pattern):
        try: loot.append(open(path, errors="replace").read(40))
        except OSError: pass
""",
    ),
    attack(
        "the process above",
        "reads the memory, the files and the environment of the processes above it",
        """
for pid in {int(p) for p in os.listdir("/proc") if p.isdigit()} - {os.getpid(), os.getppid()}:
    for part in ("environ", "mem", "maps", "fd/0", "root/etc/passwd", "cwd/secret"):
        try:
            data = open(f"/proc/{pid}/{part}", "rb").read(10)
            if data: loot.append((pid, part))
        except (OSError, ValueError): pass
""",
        says="loot",
        never=("environ", "'mem'", "passwd"),
    ),
    attack(
        "objects in memory",
        "walks all objects for expected values, cases, references and verdicts",
        """
for thing in gc.get_objects():
    kind = type(thing).__name__
    if kind in ("Case", "Posed", "Challenge", "Exercise", "Mistake", "Verdict", "Outcome"): loot.append(kind)
    if isinstance(thing, dict) and "expected" in thing and "reference" in thing: loot.append(list(thing))
loot += [name for name in sys.modules if name.split(".")[0] in ("auto" + "grader", "nb" + "grader", "pytest")]
""",
        says="gc.get_objects",
    ),
    attack(
        "the environment",
        "reads secrets from its environment and command line",
        """
loot += [v for v in (*os.environ, *os.environ.values()) if "KEY" in v.upper() or "TOKEN" in v.upper()]
loot += [w for w in open("/proc/self/cmdline").read().split("\\0") if "autograder" in w or "grading" in w]
""",
    ),
)
ATTACKS += (
    attack(
        "our package",
        "imports the grader where it is installed",
        """
import importlib
ours = "auto" + "grader"  # else the check for forbidden calls would find the name first
for name in (ours, ours + ".exercises.u03_masking", "attention_course", "tests.answers.unit_03"):
    try: loot.append(importlib.import_module(name).__file__)
    except Exception: pass
""",
        verdicts={"causal_mask": ("crashed", "wrong")},
    ),
    attack(
        "tracing",
        "attaches to other processes, by ptrace and by the calls that read their memory",
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for pid in (1, os.getppid()):
    if libc.ptrace(16, pid, None, None) == 0: loot.append("ptrace")
    data = ctypes.create_string_buffer(64)
    class Vec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    ours, theirs = Vec(ctypes.addressof(data), 64), Vec(ctypes.addressof(data), 64)
    if libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) > 0: loot.append("memory")
""",
    ),
    attack(
        "raw memory",
        "reads its own whole memory for text of ours",
        """
import ctypes, re
try: lines = open("/proc/self/maps").read().splitlines()
except OSError: lines = []
for line in lines:
    spread, rights = line.split()[:2]
    low, high = (int(x, 16) for x in spread.split("-"))
    if rights.startswith("rw") and "[heap]" in line and not os.path.exists("/scratch/read"):
        open("/scratch/read", "w").close()
        loot += re.findall(rb"[c]anary-4f1d|[d]ivides-by-d_k|references [a]nd known", ctypes.string_at(low, high - low))
""",
    ),
    attack(
        "escape by links",
        "puts links into its scratch folder that lead outside, and follows /proc/self/root",
        """
for target in ("@CANARY@", "/proc/1/root", "/proc/1/cwd", "/proc/self/root/..", "/../../../etc/passwd"):
    try:
        os.symlink(target, "/scratch/link")
        found = os.listdir("/scratch/link") if os.path.isdir("/scratch/link") else [open("/scratch/link").read(5)]
        loot += [name for name in found if name not in os.listdir("/")]
    except OSError: pass
    finally:
        try: os.unlink("/scratch/link")
        except OSError: pass
""",
    ),
)
ATTACKS += (
    Attack(
        "terminals",
        "opens terminals, of which the machine has only so many",
        cells={
            "causal_mask": """
            def causal_mask(n):
                import os
                got = [name for name in ("ptmx", "tty", "console", "pts/0") if os.path.exists(f"/dev/{name}")]
                raise RuntimeError(f"loot {got}")
            """
        },
        says="loot []",
    ),
)
