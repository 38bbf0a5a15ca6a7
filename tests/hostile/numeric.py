"""Cheating with numbers: answers that are right by luck, by place, by memory, or only look right."""

from __future__ import annotations

from autograder.exercises.u03_masking import masked_softmax
from autograder.judging.hidden_cases import pose

from .attack import Attack, solutions

ASKED = len(pose(masked_softmax.EXERCISE, 0).cases)
SOFTMAX = solutions("03_masking")["masked_softmax"]


LIBRARY = "bmm_attention = lambda Q, K, V, mask=None: F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)"

ATTACKS = (
    Attack("by the sizes", "answers yes and no by the sizes of its arguments and their place in memory",
           cells={"leaks_future": "def leaks_future(attend, Q, K, V):\n"
                  "    return len(Q) > 1 and Q.dtype == float and K.flags.c_contiguous and Q.shape[1] != V.shape[1]"}),
    Attack("always yes", "answers yes", cells={"leaks_future": "def leaks_future(attend, Q, K, V): return True"}),
    Attack("always no", "answers no", cells={"leaks_future": "def leaks_future(attend, Q, K, V): return False"}),
    Attack("right once", "answers rightly when first asked, and never again",
           cells={"masked_softmax": SOFTMAX.replace("def masked_softmax", "def honest") + """
seen = []
def masked_softmax(scores, mask):
    if any(s.shape == scores.shape and np.array_equal(s, scores) for s in seen): return scores * 0
    seen.append(np.array(scores))
    return honest(scores, mask)
"""},
           earns={"masked_softmax": 2.7}),
)  # fmt: skip
ATTACKS += (
    Attack("a little off", "is off by one part in a million", "02_scaled_scores",
           cells={"softmax": "def softmax(z, axis=-1):\n    e = np.exp(z - z.max(axis, keepdims=True))\n"
                  "    return e / e.sum(axis, keepdims=True) * (1 + 1e-6)"}),
    Attack("less precise", "computes in half precision and returns it widened", "02_scaled_scores",
           cells={"scaled_scores": "def scaled_scores(Q, K):\n"
                  "    return (Q.astype('e') @ K.T.astype('e') / np.sqrt(Q.shape[-1])).astype(Q.dtype)"}),
    Attack("weights that are not", "hands in weights of absurd sizes, types and values, which are run",
           "08_induction_heads", cells={"build_induction_circuit": """
            def build_induction_circuit(vocab_size, n_ctx):
                odd = [torch.ones(1, 2**30).expand(4, -1), torch.full((vocab_size, 9), 3e38), None, 2**999, [], "x"]
                block = {key: torch.full((9, 9), 3e38) for key in ("W_Q", "W_K", "W_V", "W_O")}
                return {"W_E": odd[vocab_size % 2], "W_pos": torch.full((n_ctx, 9), -3e38),
                        "W_U": torch.full((9, vocab_size), 3e38), "blocks": [block, {**block, "W_V": odd[n_ctx % 6]}]}
            """}),
    Attack("a clock of its own", "answers with numbers that it reads from the device, not with the median",
           "09_gpu_speed", cells={"median_time": "def median_time(run, synchronize, clock, warmup, repeats):\n"
                  "    start = clock()\n    for _ in range(3000): clock(); synchronize()\n    return clock() - start"}),
    Attack("the model's arguments", "hands absurd contexts to the model that it is given", "06_cross_attention",
           cells={"greedy_decode": """
            def greedy_decode(next_logits, start, end, max_len):
                for context in ([], [-1], [2**70], ["x"], [[1]], None, [1.5], list(range(5000)), torch.ones(3), [None]):
                    try: next_logits(context)
                    except Exception: pass
                return [start, 2**900, -1]
            """},
           verdicts={"greedy_decode": ("wrong",)}),
)  # fmt: skip

ATTACKS += (
    Attack("a library in other letters", "imports a forbidden module in full-width letters", "02_scaled_scores",
           cells={"softmax_jacobian": "import ｓcipy.special as s\ndef softmax_jacobian(p): return s.softmax(p)"},
           verdicts={"softmax_jacobian": ("forbidden",)}),
)  # fmt: skip
#: Library calls by a way round the names. Each gives right results, and would earn full marks.
ATTACKS += tuple(
    Attack(name, tries, "04_multi_head", top=top, cells={"bmm_attention": cell},
           verdicts={"bmm_attention": ("forbidden",)})
    for name, tries, cell, top in (
        ("a question below it", "makes its cell one that Python alone cannot read", f"{LIBRARY}\nF?\nfiles = !ls", ""),
        ("deeper than a tree", "lets the notebook nest so deep that only it can read the cell",
         f"{LIBRARY}\ndepth = {'-' * 5000}1", "import sys\nsys.setrecursionlimit(10**6)"),
    )
)  # fmt: skip
#: A way round the names, and round the watch itself.
ATTACKS += (
    Attack("another program", "has another Python do the exercise with a forbidden library", "02_scaled_scores",
           cells={"softmax": """
            import subprocess, sys
            def softmax(z, axis=-1):
                code = f"import scipy.special as s, numpy; print(s.softmax(numpy.array({z.tolist()}), {axis}).tolist())"
                run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
                return np.array(eval(run.stdout))
            """},
           verdicts={"softmax": ("forbidden",)}),
    Attack("the hook unset from below", "takes the profile hook away by ctypes", "02_scaled_scores",
           top="import ctypes, scipy.special as s\nunset = ctypes.pythonapi.PyEval_SetProfile", cells={"softmax": """
            def softmax(z, axis=-1):
                unset(None, None)
                return s.softmax(z, axis)
            """},
           verdicts={"softmax": ("forbidden",)}),
)  # fmt: skip
ATTACKS += tuple(
    Attack(name, tries, "04_multi_head", top=top, cells={"bmm_attention": cell}, uncontained=why,
           verdicts={} if why else {"bmm_attention": ("forbidden",)})
    for name, tries, top, cell, why in (
        ("a script", "has the library called in a script of torch's", """
            import torch
            @torch.jit.script
            def scripted(q, k, v, mask: torch.Tensor):
                return torch._C._nn.scaled_dot_product_attention(q, k, v, mask)
            """, """
            def bmm_attention(Q, K, V, mask=None):
                if mask is None: mask = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool)
                return scripted(Q, K, V, mask)
            """, ""),
        ("the closed operators opened", "finds what closes torch's operators, and takes it away", "import gc", """
            def bmm_attention(Q, K, V, mask=None):
                for thing in gc.get_objects():
                    if isinstance(thing, torch.library.Library): thing._destroy()
                return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
            """, ""),
        ("the frames above", "finds the watch in the frames that call it, and ends it", "import sys", """
            def bmm_attention(Q, K, V, mask=None):
                frame = sys._getframe()
                while frame is not None:
                    for thing in list(frame.f_locals.values()):
                        if type(thing).__name__ == "Lookout": thing.close()
                    frame = frame.f_back
                return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
            """, ""),
        ("a watch put to rest", "finds the watch in the frames that call it, and has it think that it rests",
         "import sys, threading", """
            def bmm_attention(Q, K, V, mask=None):
                frame = sys._getframe()
                while frame is not None:
                    for thing in list(frame.f_locals.values()):
                        if type(thing).__name__ == "Lookout": thing._at_rest.add(threading.get_ident())
                    frame = frame.f_back
                return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
            """, "the watch stands in the student's own process, and yields to who knows its parts and changes them"),
        ("a patched watch", "puts a watch that sees nothing in the place of ours, before it is made", """
            import sys
            sys.modules["worker.call_monitor"].Lookout.open = lambda self: None
            """, """
            def bmm_attention(Q, K, V, mask=None):
                return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
            """, ""),
    )
)  # fmt: skip
#: What cannot be contained. docs/THREATS.md names these.
ATTACKS += (
    Attack("inputs told", "learns from its feedback page what it was asked",
           cells={"causal_mask": "def causal_mask(n): raise ValueError(f'asked for {n}')"}, never=("asked for ",),
           uncontained="a function sees its inputs and may say what they are; they are drawn anew for every run"),
    Attack("unseen tensors", "makes the whole score matrix where a tile was asked for, out of sight", "09_gpu_speed",
           cells={"tiled_attention": """
            def tiled_attention(Q, K, V, block_size):
                with torch._C.DisableTorchFunction():
                    return torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1) @ V
            """},
           uncontained="the tensors made on the way are watched from inside the student's own process"),
    Attack("good conduct by a patch", "changes its input and patches the worker that reports it",
           cells={"masked_softmax": SOFTMAX.replace("def masked_softmax", "def honest") + """
import sys
Encoder = sys.modules["worker.call_function"].Encoder
kept, plain = {}, Encoder.encode
def encode(self, value, depth=0):
    return plain(self, kept[id(value)][1] if id(value) in kept else value, depth)
Encoder.encode = encode
def masked_softmax(scores, mask):
    kept[id(scores)] = scores, scores.copy()
    result = honest(scores, mask)
    scores[...] = 0
    return result
"""},
           earns={"masked_softmax": 2.7}),
    Attack("good conduct by its own word", "changes its input and patches, while asked, the worker that reports it",
           cells={"masked_softmax": SOFTMAX.replace("def masked_softmax", "def honest") + """
import sys
Encoder = sys.modules["worker.call_function"].Encoder
kept, plain = {}, Encoder.encode
def encode(self, value, depth=0):
    return plain(self, kept[id(value)][1] if id(value) in kept else value, depth)
def masked_softmax(scores, mask):
    Encoder.encode = encode
    kept[id(scores)] = scores, scores.copy()
    result = honest(scores, mask)
    scores[...] = 0
    return result
"""},
           earns={"masked_softmax": 2.7},
           uncontained="what happens to the inputs is reported from inside the student's own process"),
    Attack("a relation that does not fit", "returns booleans where numbers are due, and a number for a single token",
           "02_scaled_scores", cells={"attention_scores": """
            def attention_scores(Q, K):
                return Q @ K.T > 0 if len(Q) > 1 else Q * 0 - 1.5
            """}, verdicts={"attention_scores": ("wrong",)}),
    Attack("good conduct by dying", "changes its input, and dies before it is asked again",
           cells={"masked_softmax": SOFTMAX.replace("def masked_softmax", "def honest") + """
import os
seen = []
def masked_softmax(scores, mask):
    if len(seen) == """ + str(ASKED) + """: os._exit(0)
    seen.append(1)
    result = honest(scores, mask)
    scores[...] = 0
    return result
"""}, earns={"masked_softmax": 2.7}),
    Attack("the course's own tiles", "leaves the loops wrong, and has what stands in for them do the tiles",
           "09_gpu_speed", cells={
               "loop_attention": "def loop_attention(Q, K, V):\n    return Q * 0",
               "batched_attention": "def batched_attention(Q, K, V, causal=False):\n    return loop_attention(Q, K, V)",
               "tiled_attention": "def tiled_attention(Q, K, V, block_size):\n    return batched_attention(Q, K, V)"}),
    Attack("the course's own keys", "leaves grouped queries wrong, and has the function that stands in for them do it",
           "05_mqa_gqa", cells={
               "grouped_query_attention": "def grouped_query_attention(X, *args, **kwargs):\n    return X * 0",
               "multi_query_attention": """
            def multi_query_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
                return grouped_query_attention(X, W_Q, W_K, W_V, W_O, n_heads, 1, mask)
            """}),
    Attack("an error that names everything", "raises an error whose message holds every number", "04_multi_head",
           cells={"split_heads": """
            def split_heads(X, n_heads):
                if X.shape[-1] % n_heads:
                    raise ValueError(" ".join(map(str, range(500))))
                return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)
            """}, earns={"split_heads": 1.64}),
)  # fmt: skip
