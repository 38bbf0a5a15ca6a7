"""Ending processes: its own, those above it, everything."""

from __future__ import annotations

from .attack import Attack

ENDS = ("crashed", "timeout", "wrong")


def attack(name: str, tries: str, body: str, verdicts: tuple[str, ...] = ENDS) -> Attack:
    return Attack(
        name,
        tries,
        cells={"causal_mask": f"import ctypes, os, signal, sys, time\ndef causal_mask(n):\n    {body}"},
        verdicts={"causal_mask": verdicts},
    )


ATTACKS = (
    attack("exit", "ends its process as if all were well", "os._exit(0)", ("crashed",)),
    attack("system exit", "raises what ends an interpreter", "sys.exit(0)", ("crashed",)),
    attack("abort", "aborts", "os.abort()", ("crashed",)),
    attack("recursion", "recurses past every limit", "sys.setrecursionlimit(10**9); return causal_mask(n)"),
    attack("all killed", "kills everything that it may", "os.kill(-1, 9); time.sleep(9)"),
    attack("process 1", "sends every signal to process 1", "[os.kill(1, s) for s in range(1, 32)]; return None"),
    attack("the group killed", "kills its process group", "os.killpg(0, 9)"),
    attack("the interpreter spoilt", "overwrites None", "ctypes.memset(id(None), 255, 16); return None"),
    Attack(
        "death at the end",
        "ends the process in a handler for the end, in a finaliser and in a thread",
        top="""
            import atexit, os, threading, time
            atexit.register(os._exit, 0)
            class Last:
                def __del__(self): os._exit(3)
            def causal_mask(n):
                keep = Last()
                threading.Timer(0.01, os._exit, (0,)).start()
                time.sleep(1)
        """,
        cells={"causal_mask": "pass"},
        verdicts={"causal_mask": ("crashed",)},
    ),
    Attack(
        "a cell that ends all",
        "ends the whole process while the cells run",
        cells={"causal_mask": "import os\nos._exit(0)"},
        verdicts={"causal_mask": ("crashed",)},
    ),
    Attack(
        "signals",
        "ignores all signals and resets all alarms",
        cells={
            "causal_mask": """
            import signal
            def causal_mask(n):
                for number in range(1, 65):
                    try: signal.signal(number, signal.SIG_IGN)
                    except (OSError, ValueError): pass
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
                while True: pass
            """
        },
        verdicts={"causal_mask": ("timeout",)},
    ),
)
