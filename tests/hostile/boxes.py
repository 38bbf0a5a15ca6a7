"""A look into black boxes: whoever hunts is told what arrays say, and nothing else says more."""

from __future__ import annotations

from .attack import Attack

HUNT, TEST = "04_multi_head", "06_cross_attention"
#: Words that only a suspect's name or our own modules hold, read backwards so that the notebook's memory has none.
WORDS = """
WORDS = ["SUS.esongaid", "xob_kcalb", "0u.sesicrexe", "(pu_enil"]
def holds(text):
    return [word for word in WORDS if word[::-1] in text]
"""
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
        "follows every cell, constant and attribute of the box and looks for a name in it",
        """
seen, left = set(), [attend]
while left and len(seen) < 20_000:
    item = left.pop()
    if id(item) in seen or isinstance(item, (type(sys), type)): continue
    seen.add(id(item))
    if isinstance(item, str): loot += holds(item)
    left += [cell.cell_contents for cell in getattr(item, "__closure__", None) or ()]
    left += list(getattr(getattr(item, "__code__", None), "co_consts", ()))
    left += list(getattr(item, "__dict__", {}).values()) + list(getattr(item, "__defaults__", None) or ())
    if isinstance(item, (list, tuple)): left += item
""",
    ),
    peeks(
        "the frames above",
        "reads the variables of whoever called",
        """
frame = sys._getframe(1)
while frame is not None:
    loot += holds(repr(frame.f_locals)[:500_000])
    frame = frame.f_back
""",
    ),
    peeks("the modules", "looks for the modules that hold the suspects", "loot += holds(' '.join(sys.modules))"),
    answers(
        "the garbage collector",
        "follows every reference from the box",
        """
def diagnose(attend):
    import gc
    return str(gc.get_referents(attend))
""",
        verdicts={"diagnose": ("forbidden",)},
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
        "a checker that calls itself",
        "asks itself about itself",
        "def catches_wrong_decoder(layer):\n    return catches_wrong_decoder(catches_wrong_decoder)",
        verdicts={"catches_wrong_decoder": ("wrong", "crashed")},
    ),
)
