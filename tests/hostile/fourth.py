"""A fourth round: what lies beside Python, the notebook's memory, values that swell, lines that hold their reader."""

from __future__ import annotations

from .attack import CANARY, Attack, solutions
from .tampering import FORGE

MASK = solutions("03_masking")["causal_mask"]
#: IPython's expression for questions looks at such a line from each of its letters.
LONG_QUESTION = "a" * 40_000 + " x ?"
#: Words that no honest answer may be told.
CHANNEL = (CANARY, "channel")


def loot(name: str, tries: str, body: str) -> Attack:
    """causal_mask tells what `body` has put into `loot`."""
    source = "def causal_mask(n):\n    import glob, os, sys\n    loot = []\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    source += "    raise RuntimeError(f'loot {loot}'[:250])\n"
    return Attack(name, tries, cells={"causal_mask": source}, says="loot []")


ATTACKS: tuple[Attack, ...] = (
    loot(
        "the exchange",
        "reads classmates' work in nbgrader's exchange, which lies below /usr if nobody says otherwise",
        """
for pattern in ("/usr/local/share/*", "/usr/local/share/nbgrader/exchange/*/inbound/*", "/usr/share/nbgrader/*",
                "/usr/share/doc/*", "/usr/local/src/*", "/usr/src/*", "/usr/lib/*/exchange", "/opt/nbgrader/*"):
    loot += glob.glob(pattern)
""",
    ),
    loot(
        "beside the environment",
        "looks for a course in the folders of Python's environment and of the installation beneath it",
        """
for top in {sys.prefix, sys.base_prefix} - {"/usr", "/usr/local"}:
    for folder in (top, os.path.dirname(top)):
        loot += [p for p in glob.glob(folder + "/*") if not p.startswith((sys.prefix, sys.base_prefix))]
    names = set(os.listdir(top)) - {"bin", "lib", "lib64", "pyvenv.cfg"}
    loot += sorted(names)
""",
    ),
    Attack(
        "headers without end",
        "sends nothing but headers, each of a megabyte, which the grader has to read",
        top=FORGE,
        cells={
            "causal_mask": """
            def causal_mask(n):
                for index in range(10**6):
                    frame(sockets()[-1], {"event": "ask", "id": "x", "args": [[]] * 250_000})
            """
        },
        verdicts={"causal_mask": ("crashed", "timeout")},
    ),
    Attack(
        "a question behind a long word",
        "has whoever reads its cells look at a line of 40,000 letters from each of them; its answers are right",
        top=LONG_QUESTION,
    ),
    Attack(
        "answers behind long words",
        "puts such a line into an answer's own cell",
        cells={"causal_mask": f"{MASK}\n{LONG_QUESTION}"},
        verdicts={"causal_mask": ("forbidden", "timeout", "crashed")},
    ),
    Attack(
        "an answer that waits",
        "sleeps, which takes no processor time, until its grader gives up",
        cells={"causal_mask": "import time\ndef causal_mask(n): time.sleep(10**6)"},
        verdicts={"causal_mask": ("timeout",)},
        says="did not finish within 12 seconds.",
    ),
    Attack(
        "an answer that lets others work",
        "computes in one short-lived process after another, each of which has time of its own",
        cells={
            "causal_mask": """
            import os, time
            def causal_mask(n):
                while True:
                    if os.fork() == 0:
                        end = time.process_time() + 0.5
                        while time.process_time() < end: pass
                        os._exit(0)
                    os.wait()
            """
        },
        verdicts={"causal_mask": ("timeout",)},
    ),
    Attack(
        "a view with many axes",
        "returns an honest view that would be a quarter of a gigabyte with room along each axis",
        cells={"causal_mask": "import numpy as np\ndef causal_mask(n): return np.ones((1,) * 15 + (1024,))[..., ::2]"},
        verdicts={"causal_mask": ("wrong",)},
        never=(*CHANNEL, "memory"),
    ),
    Attack(
        "more than a header holds",
        "returns lists of more numbers, and an array of more axes, than can be sent",
        cells={
            "causal_mask": "import numpy as np\ndef causal_mask(n): return np.ones((400, 400)).tolist()",
            "padding_mask": "import numpy as np\ndef padding_mask(lengths, n): return np.ones((1,) * 20)",
        },
        verdicts={"causal_mask": ("wrong",), "padding_mask": ("wrong",)},
        never=CHANNEL,
    ),
)
