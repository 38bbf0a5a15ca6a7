"""Staying on: processes that outlive the grading, state that reaches the next exercise, the next student, the host."""

from __future__ import annotations

from .attack import Attack

ATTACKS = (
    Attack(
        "a daemon",
        "leaves a process of its own session behind",
        top="""
            import os, sys, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execv(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(600)", "@MARK@"])
                os._exit(0)
            os.wait()
        """,
    ),
    Attack(
        "writes everywhere",
        "writes into every folder it knows, to be found by the next submission or by the host",
        top="""
            import os, sys, site
            folders = ["/", "/tmp", "/var/tmp", "/usr/lib", "/etc", "/dev/shm", "/course", "/course/worker", "/home"]
            folders += [os.path.expanduser("~"), sys.prefix, "@CANARY@", "/proc/self/root/tmp", *site.getsitepackages()]
            for folder in folders:
                for name in ("@MARK@-left", "usercustomize.py", "numpy.py"):
                    try: open(os.path.join(folder, name), "a").write("# @MARK@")
                    except OSError: pass
        """,
    ),
    Attack(
        "compiled files",
        "overwrites modules and their compiled files",
        top="""
            import importlib.util, json, numpy, os
            for module in (os, json, numpy):
                for path in (module.__file__, importlib.util.cache_from_source(module.__file__)):
                    try: open(path, "r+b").write(b"raise SystemExit")
                    except OSError: pass
        """,
    ),
    Attack(
        "the gradebook",
        "writes marks into the gradebook and into a classmate's folder",
        top="""
            import sqlite3, os
            try:
                book = sqlite3.connect("@CANARY@/grading/gradebook.db")
                book.execute("UPDATE grade SET manual_score = 100")
                book.commit()
            except Exception: pass
            try: open("@CANARY@/grading/submitted/anna/mine", "w").write("@MARK@")
            except OSError: pass
        """,
        cells={"causal_mask": "def causal_mask(n): return None"},
    ),
)
ATTACKS += (
    Attack(
        "spoilt libraries",
        "spoils the libraries in one exercise, for all that follow",
        cells={
            "causal_mask": """
            def causal_mask(n):
                import builtins, sys
                for name in ("exp", "where", "max", "sum", "asarray", "tri", "matmul"): setattr(np, name, None)
                builtins.len = builtins.range = None
                sys.modules.clear()
            """
        },
    ),
    Attack(
        "notes in scratch",
        "writes down in one exercise what the course's own function answers, to use it in the next",
        cells={
            "causal_mask": "def causal_mask(n): return None",
            "masked_softmax": "def masked_softmax(scores, mask):\n    open('/scratch/note', 'a').write('x')",
            "leaks_future": "def leaks_future(attend, Q, K, V):\n    return open('/scratch/note').read()",
        },
    ),
    Attack(
        "the zygote",
        "looks for the socket over which submissions are started, and writes orders to it",
        top="""
            import json, os, socket, stat
            order = json.dumps({"seconds_to_live": 600, "uid": 0, "scratch_bytes": 2**40}).encode()
            for folder in ("/proc/self/fd", "/proc/1/fd", f"/proc/{os.getppid()}/fd"):
                try: names = os.listdir(folder)
                except OSError: continue
                for name in names:
                    try:
                        fd = os.open(f"{folder}/{name}", os.O_RDWR)
                        os.write(fd, order)
                    except OSError: pass
        """,
    ),
    Attack(
        "limits of others",
        "takes away time and memory from process 1 and from its parent",
        cells={
            "causal_mask": """
            import os, resource
            def causal_mask(n):
                for pid in (1, os.getppid()):
                    for kind in range(16):
                        try: resource.prlimit(pid, kind, (0, 0))
                        except (OSError, ValueError): pass
                    for call in (lambda: os.sched_setaffinity(pid, {0}), lambda: os.setpriority(0, pid, 19)):
                        try: call()
                        except OSError: pass
                return None
            """
        },
    ),
)
