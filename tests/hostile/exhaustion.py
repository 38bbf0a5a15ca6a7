"""Using up time, memory, processes, disk or the patience of whoever reads the answers."""

from __future__ import annotations

from .attack import Attack, solutions

ENDS = ("timeout", "crashed", "wrong")


def attack(name: str, tries: str, body: str, verdicts: tuple[str, ...] = ENDS, **more) -> Attack:
    source = "import os, threading, time\nimport numpy as np\ndef causal_mask(n):\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return Attack(name, tries, cells={"causal_mask": source}, verdicts={"causal_mask": verdicts}, **more)


ATTACKS = (
    attack("a loop in C", "never returns from the library", "return np.arange(10**9).sum() ** sum(range(10**12))"),
    attack(
        "a fork bomb",
        "forks without end",
        "while True:\n    try: os.fork()\n    except OSError: pass",
        ("timeout", "crashed"),
    ),
    attack(
        "threads without end",
        "starts threads until none can be had",
        "while True: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        ("timeout", "crashed"),
    ),
    attack("memory at once", "asks for a terabyte", "return np.ones(2**37)", ("crashed",)),
    attack(
        "memory by and by",
        "keeps on allocating",
        "kept = []\nwhile True: kept.append(bytearray(b'x') * 2**24)",
        ("crashed", "timeout"),
    ),
    attack(
        "memory of many",
        "lets many processes allocate together",
        "for _ in range(12):\n    if os.fork() == 0:\n        block = bytearray(b'x') * (150 * 2**20)\n"
        "        time.sleep(99)\ntime.sleep(99)",
        ("crashed", "timeout"),
    ),
)
ATTACKS += (
    attack("a huge list", "returns a list of a hundred million", "return [[0] * 9999] * 9999"),
    attack("a huge integer", "returns an integer of a million digits", "return 1 << 4 * 10**6", ("wrong",)),
    attack(
        "a huge text",
        "raises an exception with a gigabyte to say",
        "raise ValueError('x' * 2**27)",
        ("crashed", "timeout"),
    ),
    attack("a deep list", "returns what is nested a million times", "r = []\nfor _ in range(10**6): r = [r]\nreturn r"),
    attack("a list in itself", "returns a list that holds itself", "r = []\nr.append(r)\nreturn r"),
    attack(
        "a dict without end",
        "returns a dict whose items never end",
        "class Endless(dict):\n    def __len__(self): return 1\n    def items(self):\n"
        "        while True: yield 'a', 1\n    def __iter__(self):\n        while True: yield 'a'\nreturn Endless(a=1)",
        ("timeout", "crashed", "wrong"),
    ),
    attack(
        "many warnings",
        "warns a hundred thousand times",
        "import warnings\nfor i in range(10**5): warnings.warn('w' * 1000 + str(i))\nreturn None",
    ),
    Attack(
        "absurd questions",
        "hands absurd arguments to the function that it is given, which runs outside the sandbox",
        cells={
            "leaks_future": """
            def leaks_future(attend, Q, K, V):
                for args in ((), (Q,), (10**9,) * 3, (Q, K, V, V), ("x" * 10**6,) * 3, (np.ones((99, 99)),) * 3,
                             (Q * np.nan, K, V), (Q.astype(complex), K, V), ({}, [], ()), (leaks_future,) * 3,
                             (Q.astype("O"), K, V), (np.zeros((0, 2**40)), K, V), ([[[]]] * 999, K, V)):
                    try: attend(*args)
                    except Exception: pass
                return None
            """
        },
        verdicts={"leaks_future": ENDS},
    ),
    Attack(
        "a device without end",
        "runs the device that it is to time for ever",
        "09_gpu_speed",
        solved=False,
        cells={"median_time": "def median_time(run, synchronize, clock, warmup, repeats):\n    while True: run()"},
        verdicts={"median_time": ("timeout", "crashed")},
    ),
    Attack(
        "locks without end",
        "locks a file byte by byte, each of which the kernel remembers",
        cells={
            "causal_mask": """
            def causal_mask(n):
                import fcntl
                with open("/scratch/a", "w") as file:
                    for byte in range(10_000):
                        fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * byte)
                raise RuntimeError("loot: all locks were had")
            """
        },
        never=("loot",),
    ),
    Attack(
        "memory out of sight",
        "hides from the keeper how much memory it takes, and takes more than there is",
        cells={
            "causal_mask": """
            def causal_mask(n):
                import ctypes, mmap, os, time
                hidden = ctypes.CDLL(None).prctl(4, 0) == 0
                held = []
                for _ in range(14):
                    if os.fork() == 0:
                        held.append(mmap.mmap(-1, 300 * 2**20))
                        held[-1][::4096] = b"x" * len(held[-1][::4096])
                        time.sleep(60)
                time.sleep(1)
                raise RuntimeError(f"loot {hidden}")
            """
        },
        verdicts={"causal_mask": ("crashed",)},
        never=("loot True",),
    ),
)

UNIT_5 = solutions("05_mqa_gqa")
ATTACKS += (
    Attack(
        "names without end",
        "binds ten thousand names in one statement that every answer leads to",
        "05_mqa_gqa",
        top="=".join(f"a{i}" for i in range(10_000)) + "=1",
        cells={name: f"def {name}(*x): return a0" for name in UNIT_5},
    ),
    Attack(
        "scopes without end",
        "has thousands of local names and of comprehensions, so that its cell takes too long to read",
        "05_mqa_gqa",
        solved=False,
        top="def a0():\n    " + ",".join(f"v{i}" for i in range(4000)) + " = 1\n    " + "[x for x in ()];" * 2000,
        cells={name: f"def {name}(*x): return a0()" for name in UNIT_5},
        verdicts=dict.fromkeys(UNIT_5, ENDS),
    ),
)
