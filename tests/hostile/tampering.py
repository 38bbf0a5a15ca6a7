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
LIAR = """
class Liar(np.ndarray):
    def __eq__(self, other): return True
    def __array_ufunc__(self, *args, **kwargs): return Liar((1,))
    def __array_function__(self, *args, **kwargs): return True
    def __bool__(self): return True
    shape = property(lambda self: (3, 3), lambda self, value: None)
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
        "a lying array",
        "returns an array that equals everything and has any shape",
        top="import numpy as np\n" + LIAR,
        cells={name: f"def {name}(*args, **kwargs): return np.ones((3, 3)).view(Liar)" for name in ALL},
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
    Attack(
        "a lying tensor",
        "overrides every torch function on its result",
        "04_multi_head",
        cells={
            "split_heads": """
            class Liar(torch.Tensor):
                @classmethod
                def __torch_function__(cls, func, types, args=(), kwargs=None):
                    return True if func.__name__ in ("allclose", "equal", "__eq__", "eq") else torch.zeros(1)
                shape = property(lambda self: (2, 3, 4, 5))
            def split_heads(X, n_heads): return torch.ones(3).as_subclass(Liar)
            """,
            "merge_heads": "def merge_heads(X):\n    torch.Tensor.__eq__ = lambda *a: True\n    return X",
        },
    ),
    Attack(
        "patched torch",
        "replaces the functions of torch that a grader might use",
        "04_multi_head",
        top="""
            import torch
            from torch.nn import functional as F
            for name in ("allclose", "equal", "isclose", "softmax", "matmul", "isfinite", "from_numpy", "abs"):
                setattr(torch, name, lambda *args, **kwargs: True)
            F.scaled_dot_product_attention = F.softmax = lambda *args, **kwargs: None
            torch.Tensor.numpy = torch.Tensor.detach = lambda self: self
        """,
        cells={"split_heads": "def split_heads(X, n_heads): return X", "merge_heads": "def merge_heads(X): return X"},
        solved=False,
    ),
    Attack(
        "a library of its own",
        "registers an operator that answers for softmax",
        "04_multi_head",
        top="""
            import torch
            mine = torch.library.Library("aten", "IMPL")
            try:
                mine.impl("allclose", lambda *a, **k: True, "CPU")
                mine.impl("softmax.int", lambda x, dim, dtype=None: torch.ones_like(x), "CPU")
            except RuntimeError:
                pass
        """,
        cells={"bmm_attention": "def bmm_attention(Q, K, V, mask=None): return torch.softmax(Q @ K.mT, -1) @ V"},
        solved=False,
    ),
)
ATTACKS += (
    Attack(
        "a forged end",
        "sends the last frame itself, with no answer before it",
        top=FORGE,
        cells={"causal_mask": "def causal_mask(n):\n    frame(sockets()[-1], {'event': 'done'})\n    os._exit(0)"},
        verdicts={"causal_mask": ("crashed",)},
    ),
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
    Attack(
        "the caller's frames",
        "rewrites what stands in the frames above it",
        cells={
            "causal_mask": """
            def causal_mask(n):
                import ctypes, sys
                frame = sys._getframe()
                while frame := frame.f_back:
                    for key in list(frame.f_locals):
                        if key in ("result", "header", "call", "calls", "expected", "score", "case"):
                            frame.f_locals[key] = True
                    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
                return True
            """
        },
    ),
    Attack(
        "a trace function",
        "traces the worker and makes every comparison return at once",
        cells={
            "causal_mask": """
            import sys
            def tracer(frame, event, arg):
                if "expected" in frame.f_locals: frame.f_locals["expected"] = None
                return tracer
            def causal_mask(n):
                sys.settrace(tracer); sys.setprofile(tracer)
                return None
            """
        },
    ),
    Attack(
        "patched builtins",
        "replaces the builtins that a judge would use",
        top="""
            import builtins
            builtins.all = builtins.isinstance = builtins.any = lambda *args: True
            builtins.AssertionError = ValueError
            builtins.abs = lambda x: 0
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
        "printed points",
        "prints and displays the marks that nbgrader looks for",
        cells={
            "causal_mask": """
            import sys
            sys.displayhook("ok")
            print("ok"); print(2.0); display(2.0)
            def causal_mask(n):
                print("2.0"); sys.displayhook(2.0); display(2)
            """
        },
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
        "an array without memory",
        "returns an array over memory that it does not own",
        cells={
            "causal_mask": """
            import numpy as np
            from numpy.lib.stride_tricks import as_strided
            def causal_mask(n): return as_strided(np.ones(1, bool), (2**20, 2**20, 2**10), (0, 0, 0))
            """
        },
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
