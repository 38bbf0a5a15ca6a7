"""Notebooks whose form is the attack: metadata, doubled and renamed cells, depth, size, odd letters."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from .attack import Attack, own_cell

Document = dict[str, Any]
WRONG = "def causal_mask(n): return None"


def marks(cell: Document) -> Document:
    return cell["metadata"].get("nbgrader", {})


def answer(document: Document, name: str = "causal_mask") -> Document:
    return next(cell for cell in document["cells"] if marks(cell).get("grade_id") == name)


def skipping(document: Document) -> None:
    for cell in document["cells"]:
        cell["metadata"].setdefault("tags", []).append("skip-execution")


def worth_more(document: Document) -> None:
    for cell in document["cells"]:
        if marks(cell):
            marks(cell).update(points=1000, grade=True, locked=False, solution=True)
            cell["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "1000.0"}, "metadata": {},
                                "execution_count": 1}]  # fmt: skip


def renamed(document: Document) -> None:
    names = ("causal_mask", "padding_mask")
    first, second = (answer(document, name) for name in names)
    marks(first)["grade_id"], marks(second)["grade_id"] = names[1], names[0]


def doubled(document: Document) -> None:
    for cell in list(document["cells"]):
        if marks(cell):
            document["cells"].append(copy.deepcopy(cell))


def thousand_times(document: Document) -> None:
    document["cells"] += [
        {**copy.deepcopy(answer(document)), "source": f"{WRONG}  # {number}"} for number in range(1000)
    ]


def kernel(document: Document) -> None:
    document["metadata"] = {
        "kernelspec": {"name": "bash", "argv": ["sh", "-c", "touch /tmp/hostile-mark-kernel"], "language": "bash"},
        "language_info": {"name": "<script>alert(1)</script>", "pygments_lexer": "html"},
        "celltoolbar": "x",
        "nbgrader": {"points": 99},
        "autograder": {"unreadable": "", "notes": {"causal_mask": "full marks"}},
    }


def odd_metadata(document: Document) -> None:
    for number, cell in enumerate(document["cells"]):
        if not marks(cell):
            cell["metadata"] = [None, 3, "x", {"nbgrader": []}, {"nbgrader": {"grade_id": {}}}][number % 5]
            cell["id"] = [None, 3, [], "a" * 10**5, "x"][number % 5]


def deep(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1] + b', "deep": ' + b"[" * 10**5 + b"]" * 10**5 + b"}")


def huge_number(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1] + b', "nbformat": 1' + b"0" * 10**6 + b"}")


def unicode_names(document: Document) -> None:
    document["cells"].append(own_cell("def ｃausal_mask(n):\n    return None\n# \u202eksam\u202c", "x"))


def twins(path: Path, content: bytes) -> None:
    document = json.loads(content)
    path.write_bytes(b'{"cells": [], ' + json.dumps(document).encode()[1:-1] + b', "cells": []}')


ATTACKS = (
    Attack("skipped cells", "tags every cell to be skipped", solved=False, edit=skipping),
    Attack("worth more", "raises its points and hands in outputs that show them", solved=False, edit=worth_more),
    Attack(
        "renamed cells",
        "exchanges the marks of two right answers, each of which still defines its own function",
        edit=renamed,
    ),
    Attack("doubled cells", "hands in every marked cell twice", edit=doubled),
    Attack(
        "a thousand answers",
        "answers one function a thousand times",
        edit=thousand_times,
        earns={"causal_mask": 0},
        says="the last one counts",
    ),
    Attack("a kernel of its own", "names a kernel that runs a command, and our own marks", edit=kernel),
    Attack("odd metadata", "puts lists and numbers where metadata should be", edit=odd_metadata),
    Attack("deep JSON", "nests a hundred thousand lists", solved=False, place=deep, says="nested too deeply"),
    Attack("a huge number", "names a format of a million digits", solved=False, place=huge_number),
    Attack("two lists of cells", "has two lists of cells, one of them empty", place=twins, solved=False),
    Attack("letters that look alike", "defines a function of full-width letters below all tests", edit=unicode_names),
    Attack(
        "magic",
        "runs shell commands by magic",
        cells={"causal_mask": "!touch /tmp/@MARK@-magic\n%%bash\n" + WRONG},
        top="!touch /tmp/@MARK@-magic\nget_ipython().system('touch /tmp/@MARK@-magic')\n%cd /\n%load_ext autoreload",
        verdicts={"causal_mask": ("crashed", "wrong", "missing")},
    ),
)  # fmt: skip
