"""A fifth round: what the grader itself computes for a submission, and how long it looks for a mistake."""

from __future__ import annotations

from .attack import Attack

#: Sends frames of its own instead of those of the worker.
SENDS = """
import json, os, struct, sys
def above():
    frame = sys._getframe()
    while frame.f_code.co_name != "answer_here": frame = frame.f_back
    return frame.f_locals
def sent(reply, text):
    reply.sendall(struct.pack("<IQ", len(text), 0) + text)
"""
LOOP = """
import sys
def packed_causal_mask(document_ids):
    trace = sys.gettrace()
    sys.settrace(None)
    n = document_ids.shape[-1]
    rows = document_ids.reshape(-1, n)
    mask, places, start = np.zeros((len(rows), n, n), bool), np.zeros(rows.shape, np.int64), 0
    for r, row in enumerate(rows):
        for i in range(n):
            if i == 0 or row[i] != row[i - 1]: start = i
            seen = [j for j in range(i + 1) if row[j] == row[i]]
            mask[r, i, seen], places[r, i] = True, len(seen) - 1
    sys.settrace(trace)
    return mask.reshape(*document_ids.shape, n), places.reshape(document_ids.shape)
"""
CHEAT = """
def cheat(Q, K, V, mask):
    import torch
    return torch._C._nn.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
"""
BOXES = """
def diagnose(attend):
    import torch
    from worker.encode_values import Encoder
    told, got = above(), 0
    count = len(told["request"]["calls"])
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    inputs = (draw(2, 10, 7), draw(7, 6), draw(7, 6), draw(7, 6), draw(6, 7), 3, True)
    for number in (0, count, 2 * count):
        encoder = Encoder()
        header = {"event": "ask", "id": told["request"]["calls"][0]["args"][0]["id"], "number": number}
        header |= {"args": encoder.encode(inputs), "kwargs": {"t": "dict", "items": {}}}
        try: got += told["ask"](header, encoder.payload()) is not None
        except ValueError: pass
    raise RuntimeError(f"{got} of 3 boxes answered")
"""
NAMES = """
def causal_mask(n):
    told, items = above(), ",".join(['{"t":"other","type":"ab"}'] * 39_000)
    for index in range(12):
        event = "again" if index else "call"
        head = '{"event":"%s","index":0,"outcome":"returned","value":{"t":"tuple","items":[%s]}}' % (event, items)
        sent(told["reply"], head.encode())
    os._exit(0)
"""

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "a given function's file",
        "compiles a function of its own under the name of a cell that comes with the notebook",
        "04_multi_head",
        top=f"exec(compile({CHEAT!r}, '<cell sentence>', 'exec'), globals())",
        cells={"bmm_attention": "def bmm_attention(Q, K, V, mask=None): return cheat(Q, K, V, mask)"},
        verdicts={"bmm_attention": ("forbidden",)},
        solved=False,
    ),
    Attack(
        "boxes of calls to come",
        "asks the boxes of both repetitions before it gives its first answer",
        "04_multi_head",
        cells={"diagnose": SENDS + BOXES},
        says="1 of 3 boxes answered",
        solved=False,
    ),
    Attack(
        "a million names of types",
        "sends 12 MB of headers, each of tens of thousands of objects that take several times their letters",
        cells={"causal_mask": SENDS + NAMES},
        verdicts={"causal_mask": ("crashed",)},
        says="returned more than",
        solved=False,
    ),
    Attack(
        "a loop unseen",
        "takes the hook away that counts how often a line is run, and puts it back",
        cells={"packed_causal_mask": LOOP},
        solved=False,
        uncontained="lines are counted in the student's own process",
    ),
    Attack(
        "a thread without hooks",
        "has SciPy do the work in a thread that `threading` knows nothing of",
        "02_scaled_scores",
        cells={
            "softmax": """
            import _thread, time
            from scipy.special import softmax as theirs
            def softmax(z, axis=-1):
                found = []
                _thread.start_new_thread(lambda: found.append(theirs(z, axis)), ())
                while not found: time.sleep(0.001)
                return found[0]
            """
        },
        solved=False,
        uncontained="Python 3.11 tells nobody of such a thread",
    ),
    Attack(
        "a question of minutes",
        "asks the course's own function, which stands in for its wrong one, for thousands of heads of no width",
        "04_multi_head",
        cells={
            "head_contributions": "def head_contributions(X, W_Q, W_K, W_V, W_O, n_heads, mask=None): return X",
            "from_torch_weights": """
            def from_torch_weights(*args, **kwargs):
                nothing = torch.zeros(3, 0)
                head_contributions(torch.zeros(1, 2, 3), nothing, nothing, nothing, nothing.T, 4096)
            """,
        },
        verdicts={"from_torch_weights": ("timeout",)},
        says="the grader's own processor time",
    ),
    Attack(
        "four hundred names",
        "returns a tuple of 400 names, for the diagnosis to try changes of all of them",
        cells={"causal_mask": f"def causal_mask(n):\n    z = n\n    return ({'z, ' * 400})\n"},
        verdicts={"causal_mask": ("wrong",)},
    ),
    Attack(
        "a thousand assignments",
        "assigns to a thousand names, for the diagnosis to try changes of all of them",
        cells={
            "causal_mask": "".join(
                ("def causal_mask(n):\n", *(f"    z{number} = n\n" for number in range(1_000)), "    return n\n")
            )
        },
        verdicts={"causal_mask": ("wrong",)},
    ),
)
