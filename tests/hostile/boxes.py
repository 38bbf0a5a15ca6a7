"""A look into black boxes: whoever hunts is told what arrays say, and nothing else says more."""

from __future__ import annotations

from .attack import Attack

HUNT, TEST = "04_multi_head", "06_cross_attention"
#: Halves of words that only a suspect's name or our own modules hold: the notebook's text has them whole.
WORDS = "WORDS = [a + b for a, b in (('diagn', '.SUS'), ('black_', 'box'), ('exerc', 'ises.u0'), ('line', '_up('))]\n"
#: Inputs as a hunter makes them.
INPUTS = """
def inputs(**more):
    import torch
    made = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(shape, generator=made, dtype=torch.float64)
    return [draw(2, 5, 7), draw(7, 6), draw(7, 6), draw(7, 6), draw(6, 7), 3, True]
"""


def peeks(name: str, tries: str, body: str, says: str = "loot []") -> Attack:
    """diagnose tells what `body` has put into `loot`."""
    source = WORDS + INPUTS + "def diagnose(attend):\n    import gc, os, pickle, sys, time\n    loot = []\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    source += "    raise RuntimeError(f'loot {loot}'[:250])\n"
    return Attack(name, tries, HUNT, cells={"diagnose": source}, says=says)


def answers(name: str, tries: str, body: str, **more) -> Attack:
    """diagnose, otherwise written."""
    return Attack(name, tries, HUNT, cells={"diagnose": WORDS + INPUTS + body}, **more)


def tests(name: str, tries: str, body: str, **more) -> Attack:
    """catches_wrong_decoder, otherwise written."""
    return Attack(name, tries, TEST, cells={"catches_wrong_decoder": body}, **more)


ATTACKS: tuple[Attack, ...] = (
    peeks(
        "what hangs on the box",
        "follows every reference from the box and looks for a name in it",
        """
seen, left = set(), [attend]
while left and len(seen) < 20_000:
    item = left.pop()
    if id(item) in seen or isinstance(item, (type(sys), type)): continue
    seen.add(id(item))
    if isinstance(item, str) and any(word in item for word in WORDS): loot.append(item[:40])
    if isinstance(item, dict) and "__name__" in item: continue
    left += [each for each in gc.get_referents(item)]
""",
    ),
    peeks(
        "the frames above",
        "reads the variables of whoever called",
        """
frame = sys._getframe(1)
while frame is not None:
    if not frame.f_code.co_filename.startswith("<cell"):
        told = repr({k: v for k, v in frame.f_locals.items() if k != "loot"})[:200_000]
        loot += [word for word in WORDS if word in told]
    frame = frame.f_back
""",
    ),
    peeks(
        "the modules",
        "looks for the modules that hold the suspects, and imports them",
        """
loot += [name for name in list(sys.modules) if any(word in name for word in WORDS)]
try:
    import autograder.exercises
    loot.append("imported")
except ImportError:
    pass
""",
    ),
    peeks(
        "a copy of the box",
        "copies the box, in hope that the copy counts anew",
        """
import copy
answered = 0
for box in (attend, copy.copy(attend), copy.deepcopy(attend)):
    for _ in range(3):
        try:
            box(*inputs()); answered += 1
        except ValueError:
            pass
if answered > 2: loot.append(answered)
try:
    pickle.dumps(attend); loot.append("pickled")
except Exception:
    pass
""",
    ),
    peeks(
        "another call's box",
        "asks over the box's own wire in the name of other calls, for fresh counts and for the boxes of others",
        """
found, left, seen = [], [attend], set()
while left:
    item = left.pop()
    if id(item) in seen: continue
    seen.add(id(item))
    for cell in getattr(item, "__closure__", None) or ():
        left.append(cell.cell_contents)
        found.append(cell.cell_contents)
asks = [item for item in found if callable(item) and getattr(item, "__name__", "") not in ("remote", "call")]
answered = 0
remote = next((item for item in found if getattr(item, "__name__", "") == "remote"), None)
for number in range(200):
    if remote is None: break
    for cell in remote.__closure__:
        if type(cell.cell_contents) is int: cell.cell_contents = number
    try:
        attend(*inputs()); answered += 1
    except ValueError:
        pass
if answered > 6: loot.append(answered)
""",
    ),
    peeks(
        "inputs of every kind",
        "sends what no box takes, and looks whether one error tells more than another",
        """
import torch
X, *rest = inputs()
odd = [None, [1.0], "X", {"X": 1}, X.float(), X[0], X[:, :0], X * float("nan"), X.long()]
odd.append(X.repeat(9, 9, 9))
for value in odd:
    try:
        attend(value, *rest); loot.append("answered")
    except (ValueError, TypeError) as error:
        if any(word in str(error) for word in WORDS): loot.append(str(error)[:60])
for heads in (0, -3, 4, 10**6, 2.0, "3", None):
    try:
        attend(X, *rest[:4], heads, True); loot.append(("heads", heads))
    except (ValueError, TypeError):
        pass
""",
    ),
    answers(
        "a hundred thousand calls",
        "asks the box a hundred thousand times",
        """
def diagnose(attend):
    found = set()
    for _ in range(100_000):
        try:
            found.add(float(attend(*inputs()).sum()))
        except ValueError:
            pass
    return "right"
""",
        verdicts={"diagnose": ("timeout", "wrong")},
    ),
    answers(
        "a huge input",
        "sends a hundred million numbers",
        """
def diagnose(attend):
    import torch
    try:
        attend(torch.zeros(1, 10_000, 1_000, dtype=torch.float64), *inputs()[1:])
    except ValueError:
        pass
    return "right"
""",
        verdicts={"diagnose": ("wrong", "crashed", "timeout")},
    ),
    answers(
        "counting boxes",
        "answers by how many boxes came before, as if their order were fixed",
        """
COUNT = []
def diagnose(attend):
    COUNT.append(1)
    names = ["right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one",
             "mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all"]
    return names[len(COUNT) % 10]
""",
        verdicts={"diagnose": ("wrong",)},
    ),
    tests(
        "a checker that says nothing",
        "returns no bool",
        "def catches_wrong_decoder(layer):\n    return 'yes'",
        verdicts={"catches_wrong_decoder": ("wrong",)},
        says="bool",
    ),
    tests(
        "a checker without an end",
        "never returns",
        "def catches_wrong_decoder(layer):\n    while True:\n        pass",
        verdicts={"catches_wrong_decoder": ("timeout",)},
    ),
    tests(
        "a checker that calls itself",
        "asks itself about itself",
        "def catches_wrong_decoder(layer):\n    return catches_wrong_decoder(catches_wrong_decoder)",
        verdicts={"catches_wrong_decoder": ("wrong", "crashed")},
    ),
    tests(
        "a layer asked without an end",
        "asks a layer until it answers no more, and then goes on",
        """
def catches_wrong_decoder(layer):
    while True:
        try:
            layer(1, 2, 3)
        except Exception:
            pass
""",
        verdicts={"catches_wrong_decoder": ("timeout",)},
    ),
)
