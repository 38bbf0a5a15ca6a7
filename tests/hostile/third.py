# ruff: noqa: E501
"""A third round: what the host is asked for, torch's own second versions, lying containers, words that swell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .attack import Attack, own_cell
from .tampering import FORGE

FORBIDDEN = "import torch\ndef causal_mask(n): return torch.ones(n, n).tril().numpy() > 0"
ENDS = ("crashed", "timeout", "wrong")


def told(name: str, tries: str, text: str, **more: Any) -> Attack:
    """masked_attention tells what `text` has put into `loot`; the host stands in for causal_mask, which is forbidden."""
    source = "def masked_attention(Q, K, V, mask):\n    loot = []\n    causal_mask\n"
    source += "".join(f"    {line}\n" for line in text.strip("\n").split("\n"))
    source += "    raise RuntimeError(f'loot {sorted(set(loot))}'[:250])\n"
    cells = {"causal_mask": FORBIDDEN, "masked_attention": source}
    return Attack(name, tries, cells=cells, **more)


def plain(name: str, tries: str, text: str, verdicts: tuple[str, ...] = ("wrong",), **more: Any) -> Attack:
    """causal_mask with `text` as its body."""
    source = "import sys, os, time\nimport numpy as np\ndef causal_mask(n):\n"
    source += "".join(f"    {line}\n" for line in text.strip("\n").split("\n"))
    return Attack(name, tries, cells={"causal_mask": source}, verdicts={"causal_mask": verdicts}, **more)


# ------------------------------------------------------------------------------------------ what the host is asked for
ATTACKS: tuple[Attack, ...] = (
    told("counts that count down", "asks the course's own function for negative, complex and unsaid sizes", """
for size in (-5, 1j, float("nan"), -2**70, True, None, np.array(-3), np.array(np.nan), "9", {"n": 9}, [[9]], Ellipsis):
    try: loot.append(int(np.asarray(causal_mask(size)).size))
    except Exception as error: loot.append(type(error).__name__)
""", says="loot"),
    told("the stand-in's own state", "changes what the course's own function returned, and asks it again", """
for _ in range(3):
    mask = causal_mask(4)
    loot.append(int(mask.sum()))
    mask[...] = True
""", says="loot [10]"),
    told("gradients of what has none", "asks a function of NumPy for gradients, by a frame of its own", """
import gc, socket, struct, json, stat, os, sys
frames, values = sys.modules["worker.socket_frames"], sys.modules["worker.encode_values"]
fd = max(n for n in range(3, 128) if os.path.exists(f"/proc/self/fd/{n}") and stat.S_ISSOCK(os.fstat(n).st_mode))
with socket.socket(fileno=os.dup(fd)) as out:
    for grads in ({"t": "tuple", "items": []}, None, {"t": "int", "v": "0x1"}, [], {"t": "tuple", "items": [{"t": "none"}] * 999}):
        e = values.Encoder()
        frames.send_frame(out, {"event": "ask", "id": "causal_mask", "args": e.encode((3,)), "kwargs": e.encode({}), "grads": grads})
        loot.append(sorted(frames.receive_frame(out)[0]) == ["message", "raise"])
""", says="loot [True]"),
    Attack("a gradient of its own", "backpropagates through the course's own function with gradients that are not", "05_mqa_gqa",
           cells={"repeat_kv": "def repeat_kv(K, n_rep): return F.scaled_dot_product_attention(K, K, K)", "grouped_query_attention": """
            def grouped_query_attention(X, *args, **kwargs):
                loot = []
                K = torch.ones(1, 2, 3, 4, requires_grad=True)
                for bad in (torch.full((1, 4, 3, 4), float("nan")), torch.ones(1, 4, 3, 4), torch.ones(()).expand(1, 4, 3, 4)):
                    K.grad = None
                    try: repeat_kv(K, 2).backward(bad); loot.append(float(K.grad.sum()))
                    except Exception as error: loot.append(type(error).__name__)
                try: repeat_kv(K, 2).sum().backward(create_graph=True); K.grad.sum().backward()
                except Exception as error: loot.append(type(error).__name__)
                raise RuntimeError(f"loot {loot}")
            """}, says="loot [nan, 48.0, 48.0"),
    Attack("a device of many numbers", "numbers its calls by what is equal to nothing and what never ends", "09_gpu_speed",
           cells={"median_time": FORGE + """
def median_time(run, synchronize, clock, warmup, repeats):
    fd = sockets()[-1]
    for number in (float("nan"), 1e999, None, [[]] * 9, {"a": 1}, -1, "x" * 10**5):
        frame(fd, {"event": "ask", "id": "argument 0", "number": number, "args": {"t": "tuple", "items": []},
                   "kwargs": {"t": "dict", "items": {}}})
    os._exit(0)
"""}, verdicts={"median_time": ENDS}),
)  # fmt: skip

# ---------------------------------------------------------------------------------------- torch's own second versions
ATTACKS += tuple(
    Attack(name, f"has {tries} do the exercise", unit, cells={function: cell}, solved=False,
           verdicts={function: ("forbidden",)})
    for name, tries, unit, function, cell in (
        ("the compiler's patterns", "what torch's compiler looks for", "04_multi_head", "bmm_attention", """
            from torch._inductor.fx_passes.fuse_attention import _sfdp_pattern_1
            def bmm_attention(Q, K, V, mask=None):
                return _sfdp_pattern_1(Q, K, V, Q.shape[-1] ** 0.5)
            """),
        ("the notebook as a module", "a block of torch's that the notebook gives, as an attribute of the notebook,",
         "07_transformer_block", "pre_norm_block", """
            import __main__ as notebook
            def pre_norm_block(x, params, n_heads, mask=None): return notebook.torchs_block(x, params, n_heads, mask)
            """),
    )
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- containers and arrays
ATTACKS += (
    plain("tuples in tuples", "returns tuples in tuples, each of which the message would tell of",
          "value = n\nfor _ in range(5): value = (value,) * 4\nreturn value"),
    plain("keys that are not", "returns a dict whose keys are texts of its own class",
          "class Key(str):\n    def __str__(self): return 'x' * 10**7\n    def __hash__(self): return 1\n    def __eq__(self, other): return False\n"
          "return {Key('a'): 1, Key('a'): 2, Key('\\ud800'): 3}", ENDS),
    Attack("a bool of its own kind", "answers yes and no by arrays, numbers and enumerations that are both", cells={
        "leaks_future": "import enum\nclass B(enum.IntFlag):\n    yes = 1\n    no = 0\n"
                        "def leaks_future(attend, Q, K, V): return [B.yes, np.array([True, False]), 0.5, np.ma.masked][len(Q) % 4]"}),
    Attack("a circuit of nothing", "hands in weights of no width, with blocks of no heads", "08_induction_heads", solved=False,
           cells={"build_induction_circuit": """
            def build_induction_circuit(vocab_size, n_ctx):
                w = torch.zeros
                block = {"W_Q": w(0, 0), "W_K": w(0, 0), "W_V": w(0, 0), "W_O": w(0, 0)}
                return {"W_E": w(vocab_size, 0), "W_pos": w(n_ctx, 0), "W_U": w(0, vocab_size), "blocks": [block, block]}
            """}, verdicts={"build_induction_circuit": ("wrong",)}),
)  # fmt: skip

# --------------------------------------------------------------------------------------- state, seeds, second askings
ATTACKS += (
    Attack("seeds set for all", "sets every seed and every generator there is to the same place", "02_scaled_scores", solved=False,
           top="import numpy as np, random\nnp.random.seed(0); random.seed(0)\nnp.random.default_rng = lambda *a: np.random.RandomState(0)",
           cells={"score_statistics": "def score_statistics(d, n_samples, rng, scaled):\n"
                  "    x = np.random.default_rng(0).standard_normal(n_samples)\n    return float(x.mean()), float(x.var())"},
           verdicts={"score_statistics": ("wrong", "crashed")}),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ words and odd cells
ATTACKS += (
    plain("letters that nobody sees", "raises an exception of blanks that are letters, and letters for private use",
          "raise ValueError('\\u3164\\u115f\\u2800\\ufe0f\\U000e0041\\ue000' * 50 + '\\U000e007f\\u180e\\u200b')", ("crashed",),
          never=("\U000e0041", "\u200b", "\u180e", "\u3164", "\u115f", "\u2800")),
    plain("a message in many lines", "raises an exception of every letter that begins a line",
          "raise ValueError(''.join(map(chr, range(0x3000))) + '\\r\\n\\v\\f\\x1c\\x85\\u2028')", ("crashed",), never=("\n", "\u2028", "\x85")),
    Attack("attributes without end", "assigns to an attribute of an attribute, nine hundred deep",
           edit=lambda document: document["cells"].append(own_cell("if 0: np" + ".a" * 900 + " = 1", "x"))),
    Attack("sources of odd parts", "gives its cells as lists of parts that are none",
           edit=lambda document: document["cells"].extend(own_cell(parts, "x") for parts in ([1, "a = 1", None, ["b"]], {}, [[]] * 999, True, 1e999))),
    Attack("elif without end", "hands in a chain of three thousand alternatives",
           edit=lambda document: document["cells"].append(own_cell("if 0: 0\n" + "elif 0: 0\n" * 3000, "x"))),
    Attack("texts in texts", "hands in formatted texts in formatted texts, and numbers of thousands of digits",
           edit=lambda document: document["cells"].extend(own_cell(source, "x") for source in (
               "f'{f\"{1:{2:{3}}}\"}'", "x = " + "9" * 5000, "x = 0x" + "f" * 60_000, "f'" + "{1}" * 9_000 + "'", "lambda: " * 3000 + "0"))),
)  # fmt: skip


def big_numbers(path: Path, content: bytes) -> None:
    document = json.loads(content)
    document["nbformat"], document["nbformat_minor"] = 4, -1
    text = json.dumps(document)[:-1] + ', "a": 1e99999, "b": -1E+400, "c": NaN, "d": -0, "e": Infinity}'
    path.write_bytes(text.encode())


def doubled_keys(path: Path, content: bytes) -> None:
    text = content.decode().replace('"cell_type": "code"', '"cell_type": "markdown", "cell_type": "code"')
    path.write_bytes(text.encode())


ATTACKS += (
    Attack("numbers that are none", "hands in NaN, infinities and a format of minus one", place=big_numbers),
    Attack("two types at once", "names the type of every cell twice", place=doubled_keys),
)

# ------------------------------------------------------------------------- asked anew, with changes or with its steps noted
ATTACKS += (
    Attack("asked anew, it forges", "sends notes and calls of its own when its text is asked anew", "02_scaled_scores",
           cells={"softmax": FORGE + """
def softmax(z, axis=-1):
    if "_noted" in globals():
        fd = sockets()[-1]
        number = {"t": "float", "v": "1.5"}
        for noted in ([[1, number]] * 9_999, [[2**70, number]], [[True, None]], "x" * 10**5, [[1, {"t": "tuple", "items": [number] * 9}]]):
            frame(fd, {"event": "call", "index": 0, "outcome": "returned", "value": number, "noted": noted, "warnings": []})
        frame(fd, {"event": "done"})
        os._exit(0)
    return z
"""}, verdicts={"softmax": ("wrong",)}),
    Attack("asked anew, it never ends", "loops for ever, sleeps and fills its memory when its text is asked anew", "02_scaled_scores",
           cells={"softmax": """
import time
def softmax(z, axis=-1):
    if "_noted" in globals():
        kept = []
        while True:
            try:
                kept.append(bytearray(10**7))
                time.sleep(0.01)
            except BaseException:
                pass
    return z
"""}, verdicts={"softmax": ("wrong",)}),
    Attack("asked anew, it replaces", "puts its own in the place of what notes, and of what the next text needs", "02_scaled_scores",
           cells={"softmax": """
def softmax(z, axis=-1):
    if "_noted" in globals():
        import builtins
        globals()["_noted"] = lambda number, value: object()
        builtins.compile = builtins.exec = lambda *a, **k: None
        np.exp = lambda x: 1 / 0
    return z
"""}, verdicts={"softmax": ("wrong",)}),
)  # fmt: skip
