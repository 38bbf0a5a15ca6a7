"""Record what each head of SmolLM2-135M-Instruct reads in three short texts, for the live figure `model_heads`.

    .venv/bin/python tools/record_model_heads.py MODEL.gguf [FILE]

The record keeps the weights in whole per cent, and each row adds up to 100: what rounding down leaves over goes to the
largest remainders, so no weight is wrong by a whole per cent. A pattern is one string, its lower triangle row by row: a
sign of `signs` means 1 to 100 per cent, a number means so many zeros. `next` is the probability, in per cent, that the
model gives after each token to the one that really comes next.
"""

from __future__ import annotations

import argparse
import json
import re
import string
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_figures import FOLDER
from unit_11_model import unit_11

DEFAULT_FILE = FOLDER / "model_heads.json"
#: One character for each per cent from 1 to 100. JSON and HTML need no escape for any of them.
SIGNS = string.ascii_letters + "!#%()*+,-./:;=?@[]^_{|}~" + "αβγδεζηθικλμνξοπρστυφχψω"
TEXTS = {
    "a name returns": "At noon Professor Quillfeather opened the door. Nobody was there, so Professor Quillfeather "
    "closed it again.",
    "nothing returns": "The mole dug a hole under our old apple tree before anybody in this house woke up.",
    "random words, twice": " river spoon silver engine yellow button winter pencil garden copper letter" * 2,
}
#: What one click shows: text, head (layer, head), index of the reading token, colours, and why.
STOPS = {
    "18.6: what came next": (
        *("a name returns", (18, 6), 17, "followed"),
        "The name comes back. Head 18.6 looks up what followed this token the first time, so the model can copy it: "
        "18.6 is an induction head.",
    ),
    "18.6: nothing to find": (
        *("nothing returns", (18, 6), 9, "first"),
        "No token of this text occurs twice. Now the same head 18.6 rests on the first token.",
    ),
    "16.0: previous token": (
        *("a name returns", (16, 0), 19, "previous"),
        "Head 16.0 gives most of its attention to the previous token, in every text. So each token learns what came "
        "before it, and head 18.6 depends on that.",
    ),
    "18.8: first token": (
        *("a name returns", (18, 8), 12, "first"),
        "Head 18.8 gives nearly all its attention to the first token, in every text. Many heads rest there, so the "
        "first token is called a sink.",
    ),
}


def read(unit: dict[str, Any], params: dict[str, Any], ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return all attention weights of a text, (layers, heads, n, n), and next-token probabilities, (n, vocab)."""
    found: list[Tensor] = []
    logits = unit["observe"](torch.tensor([ids]), params=params, watch=lambda *seen: found.append(seen[-1][0]))
    return torch.stack(found), logits[0].softmax(-1)


def per_cent(weights: Tensor) -> np.ndarray:
    """Round to whole per cents so that each row adds up to 100: the largest remainders are rounded up."""
    exact = 100 * weights.double()
    low = exact.floor()
    rank = (low - exact).argsort(dim=-1, stable=True).argsort(dim=-1)
    return (low + (rank < (100 - low.sum(-1, keepdim=True)).round())).long().numpy()


def written(pattern: np.ndarray) -> str:
    """Encode the lower triangle of whole per cents, (n, n), as a string."""
    flat = pattern[np.tril_indices(len(pattern))]
    signs = "".join("0" if share == 0 else SIGNS[share - 1] for share in flat)
    return re.sub("0+", lambda zeros: str(len(zeros[0])), signs)


def record(path: Path) -> dict[str, Any]:
    """Return the content of the file: all patterns of all texts."""
    unit, texts = unit_11(), []
    fields, tensors = unit["read_gguf"](path)
    params, tokenizer = unit["load_params"](fields, tensors), unit["tokenizer_of"](fields)
    for name, text in TEXTS.items():
        ids = tokenizer.encode(text).ids
        tokens = [tokenizer.decode([number]) for number in ids]
        weights, expected = read(unit, params, ids)
        comes = (100 * expected[range(len(ids) - 1), ids[1:]]).round().long().tolist()
        heads = [[written(head) for head in layer] for layer in per_cent(weights)]
        texts.append({"name": name, "tokens": tokens, "next": comes, "heads": heads})
    names = list(TEXTS)
    stops = [
        {"name": name, "text": names.index(text), "head": head, "token": token, "colour": colour, "why": why}
        for name, (text, head, token, colour, why) in STOPS.items()
    ]
    model = {"name": "SmolLM2-135M-Instruct", "by": "Hugging Face", "licence": "Apache 2.0"}
    return {"model": model, "signs": SIGNS, "stops": stops, "texts": texts}


def as_text(made: dict[str, Any]) -> str:
    """Return the record as JSON, one layer per line."""
    lines = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r'(?<=[\]}"],)(?=\["[^"]*","[^"]*",)|(?<=\},)(?=\{)', "\n", lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Exit code 2 without the model's file."""
    parser = argparse.ArgumentParser(prog="python tools/record_model_heads.py", description=__doc__)
    parser.add_argument("model", type=Path, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument(
        "file", nargs="?", type=Path, default=DEFAULT_FILE, help=f"where to write; default {DEFAULT_FILE}"
    )
    options = parser.parse_args(arguments)
    if not options.model.is_file():
        print(f"model_heads: there is no file {options.model}.", file=sys.stderr)
        return 2
    text = as_text(record(options.model))
    options.file.write_text(text, encoding="utf-8")
    print(f"Recorded {len(text.encode()) / 1000:.0f} kB: {options.file}")
    return 0


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    sys.exit(main())
