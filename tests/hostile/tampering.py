"""Making a wrong answer look right: spoilt comparisons, lying objects, forged messages."""

from __future__ import annotations

from .attack import Attack

FORGE = """
import json, os, socket, stat, struct, sys
def frame(fd, header, payload=b""):
    text = json.dumps(header).encode()
    os.write(fd, struct.pack("<IQ", len(text), len(payload)) + text + payload)
def sockets():
    found = []
    for n in range(3, 128):
        try:
            if stat.S_ISSOCK(os.fstat(n).st_mode): found.append(n)
        except OSError: pass
    return found
"""
ALL = ("causal_mask", "padding_mask", "masked_softmax", "masked_attention")
NOTHING = {name: f"def {name}(*args, **kwargs): return 1" for name in ALL}

ATTACKS = (
    Attack(
        "patched comparisons",
        "makes NumPy's comparisons say yes to everything",
        top="""
            import numpy as np
            for room in (np, np.testing, np.ma):
                for name in ("allclose", "array_equal", "isclose", "isfinite", "all", "assert_allclose", "abs"):
                    setattr(room, name, lambda *args, **kwargs: np.bool_(True))
        """,
        cells=NOTHING,
        solved=False,
    ),
    Attack(
        "a lying object",
        "returns an object that is equal, close and true to all",
        cells={
            "causal_mask": """
            class Yes:
                def __eq__(self, other): return True
                def __getattr__(self, name): return lambda *args, **kwargs: self
                def __array__(self, *args, **kwargs): raise SystemExit
                def __reduce__(self): return (print, ("unpickled",))
            def causal_mask(n): return Yes()
            """
        },
    ),
)
ATTACKS += (
    Attack(
        "forged calls",
        "sends frames that say that every case was answered, by truth itself",
        top=FORGE,
        cells={
            "causal_mask": """
            def causal_mask(n):
                for event in ("call", "again", "later"):
                    for index in range(20):
                        value = {"t": "bool", "v": True}
                        frame(sockets()[-1], {"event": event, "index": index, "outcome": "returned", "value": value,
                                              "score": 2, "verdict": "right", "points": 2, "warnings": []})
                frame(sockets()[-1], {"event": "done"})
                os._exit(0)
            """
        },
    ),
    Attack(
        "a forged cell",
        "says of its other cells that they ran, and of the process that all is ready",
        top=FORGE
        + """
for n in sockets():
    for index in range(30):
        frame(n, {"event": "cell", "index": index, "status": "ran"})
        frame(n, {"event": "begin", "index": index + 1})
    frame(n, {"event": "ready"})
""",
        cells={"causal_mask": "def causal_mask(n): return None"},
        solved=False,
        verdicts={"causal_mask": ("wrong", "crashed", "missing")},
    ),
    Attack(
        "forged sweeps",
        "writes the keeper's words on every socket",
        top=FORGE,
        cells={
            "causal_mask": """
            def causal_mask(n):
                for fd in sockets():
                    frame(fd, {"event": "swept", "excess": []})
                    frame(fd, {"event": "ended", "how": "exit 0"})
                return None
            """
        },
        verdicts={"causal_mask": ("crashed", "timeout")},
    ),
    Attack(
        "the worker's own code",
        "replaces the functions that encode and send its answers",
        top="""
            import sys
            for name, module in list(sys.modules.items()):
                if name.startswith("worker"):
                    for key in ("perform", "same", "encode", "judge", "compare"):
                        if hasattr(module, key): setattr(module, key, lambda *args, **kwargs: {"t": "bool", "v": True})
        """,
        cells={"causal_mask": "def causal_mask(n): return 1"},
        solved=False,
    ),
)
ATTACKS += (
    Attack(
        "an input transformer",
        "drops every assert from the cells that follow",
        top="""
            import ast
            class NoAsserts(ast.NodeTransformer):
                def visit_Assert(self, node): return ast.Pass()
            shell = get_ipython()
            shell.ast_transformers.append(NoAsserts())
            shell.input_transformers_post.append(lambda lines: [l for l in lines if "assert" not in l])
        """,
        cells={"causal_mask": "def causal_mask(n): return 1"},
        solved=False,
    ),
    Attack(
        "a module of ours",
        "puts modules named like the grader's where they might be imported",
        top="""
            import os, sys, types
            for name in ("autograder", "autograder.judging.judge", "nbgrader", "scipy", "matplotlib_inline"):
                sys.modules[name] = types.ModuleType(name)
            for name in ("autograder", "numpy", "matplotlib"):
                try: open(f"{name}.py", "w").write("raise SystemExit")
                except OSError: pass
        """,
        cells={"causal_mask": "def causal_mask(n):\n    from autograder import judge\n    return judge"},
        verdicts={"causal_mask": ("wrong", "crashed", "forbidden")},
    ),
    Attack(
        "a pickle",
        "returns what would run code where it is unpickled",
        cells={
            "causal_mask": """
            import os
            class Bomb:
                def __reduce__(self): return (os.system, ("touch /tmp/@MARK@-pickle",))
            def causal_mask(n): return np.array([Bomb()], dtype=object)
            """,
            "padding_mask": "import pickle\ndef padding_mask(lengths, m): return pickle.dumps(Bomb())",
        },
    ),
    Attack(
        "a type for a function",
        "hands in classes and partial objects in the place of functions",
        cells={
            "causal_mask": "class causal_mask:\n    def __new__(cls, n): return cls\n    score = points = 2",
            "padding_mask": "import functools, numpy as np\npadding_mask = functools.partial(print)",
        },
    ),
    Attack(
        "changed afterwards",
        "defines each function rightly, then everything again, wrongly, in a last cell, below all tests",
        end="\n".join(f"def {name}(*args, **kwargs): return 0" for name in ALL),
    ),
    Attack(
        "a tensor without memory",
        "returns expanded, sparse, quantised, meta and nested tensors",
        "04_multi_head",
        cells={
            "split_heads": "def split_heads(X, n_heads): return torch.ones(1).expand(2**20, 2**20)",
            "merge_heads": "def merge_heads(X): return torch.empty(2**40, device='meta')",
            "bmm_attention": "def bmm_attention(Q, K, V, mask=None): return torch.ones(3, 3).to_sparse()",
            "head_contributions": "def head_contributions(*args): return torch.nested.nested_tensor([torch.ones(2)])",
        },
    ),
)
