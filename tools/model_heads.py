"""Record what each head of SmolLM2-135M-Instruct reads in three short texts, for the live figure `model_heads`.

    .venv/bin/python tools/model_heads.py MODEL.gguf [FILE]

The record keeps the weights in whole per cent, and each row adds up to 100: what rounding down leaves over goes to the
largest remainders, so no weight is wrong by a whole per cent. A pattern is one string, its lower triangle row by row: a
sign of `signs` means 1 to 100 per cent, a number means so many zeros. `next` is what the model gives, after each token,
to the one that really comes next.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import string
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_figures import FOLDER
from attention_figures.helpers.heads import masked_softmax, merge_heads, split_heads

DEFAULT_FILE = FOLDER / "model_heads.json"
#: One sign for each per cent from 1 to 100. JSON and HTML take each of them as it is.
SIGNS = string.ascii_letters + "!#%()*+,-./:;=?@[]^_{|}~" + "αβγδεζηθικλμνξοπρστυφχψω"
TEXTS = {
    "a name returns": "At noon Professor Quillfeather opened the door. Nobody was there, so Professor Quillfeather "
    "closed it again.",
    "nothing returns": "The mole dug a hole under our old apple tree before anybody in this house woke up.",
    "random words, twice": " river spoon silver engine yellow button winter pencil garden copper letter" * 2,
}
#: What one click shows: text, head (layer, head), how many tokens come before the one that reads, colours, and why.
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
N_HEADS, N_KV_HEADS, BASE, EPS = 9, 3, 100_000.0, 1e-5


# ---------------------------------------------------------------------------------------------------------------------
# The model


NUMBERS = dict(zip(range(13), "BbHhIif?..Qqd", strict=True))  # GGUF's kind of a number -> struct's letter
BLOCKS = {0: (1, 4), 3: (32, 20), 8: (32, 34)}  # F32, Q4_1, Q8_0 -> numbers in a block, its bytes


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the fields of a GGUF file, and its tensors as float32."""
    data, at = path.read_bytes(), 8

    def number(letter: str) -> Any:
        nonlocal at
        (found,) = struct.unpack_from("<" + letter, data, at)
        at += struct.calcsize(letter)
        return found

    def text() -> str:
        nonlocal at
        size = number("Q")
        at += size
        return data[at - size : at].decode()

    def value(kind: int) -> Any:
        if kind == 8:
            return text()
        if kind == 9:
            kind, size = number("I"), number("Q")
            return [value(kind) for _ in range(size)]
        return number(NUMBERS[kind])

    n_tensors, n_fields = number("Q"), number("Q")
    fields = {text(): value(number("I")) for _ in range(n_fields)}
    places = [(text(), [number("Q") for _ in range(number("I"))], number("I"), number("Q")) for _ in range(n_tensors)]
    start, tensors = -(-at // 32) * 32, {}
    for name, shape, form, offset in places:
        per_block, size = BLOCKS[form]
        raw = np.frombuffer(data, np.uint8, math.prod(shape) // per_block * size, start + offset).reshape(-1, size)
        tensors[name] = torch.from_numpy(numbers_of(raw, form)).reshape(shape[::-1])
    return fields, tensors


def numbers_of(raw: np.ndarray, form: int) -> np.ndarray:
    """The float32 numbers of blocks of bytes, (blocks, bytes)."""
    if form == 0:
        return raw.view(np.float32).copy()
    if form == 8:
        return raw[:, :2].view(np.float16).astype(np.float32) * raw[:, 2:].view(np.int8)
    scale, least = raw[:, :4].view(np.float16).astype(np.float32).T[..., None]
    return scale * np.concatenate([raw[:, 4:] & 15, raw[:, 4:] >> 4], axis=1) + least


def tokens_of(fields: dict[str, Any]) -> Callable[[str], tuple[list[int], list[str]]]:
    """A function that cuts a text into tokens: their numbers, and how each is written."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words, merges = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.merges"]
    numbered = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=numbered, merges=[tuple(pair.split(" ")) for pair in merges]))
    digits, byte_level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()

    def cut(text: str) -> tuple[list[int], list[str]]:
        ids = tokenizer.encode(text).ids
        return ids, [tokenizer.decode([number]) for number in ids]

    return cut


def rms_norm(x: Tensor, gamma: Tensor) -> Tensor:
    """Divide by the root of the mean square, and multiply by the gain."""
    return F.rms_norm(x, gamma.shape, gamma, EPS)


def rotate(x: Tensor) -> Tensor:
    """Turn neighbouring pairs of columns by their position, as the file's weights expect."""
    n, d = x.shape[-2:]
    angles = torch.arange(n)[:, None] * BASE ** (-torch.arange(d // 2, dtype=torch.float64) / (d // 2))
    turned = torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def read(ids: Sequence[int], tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """All attention weights of a text, (layers, heads, n, n), and the probabilities of next tokens, (n, vocab)."""
    n, found = len(ids), []
    allowed = torch.ones(n, n, dtype=torch.bool).tril()
    x = tensors["token_embd.weight"][torch.tensor([ids])]
    while f"blk.{len(found)}.attn_q.weight" in tensors:
        block = f"blk.{len(found)}."
        W = {
            name.removeprefix(block).removesuffix(".weight"): t for name, t in tensors.items() if name.startswith(block)
        }
        z = rms_norm(x, W["attn_norm"])
        Q, K = rotate(split_heads(z @ W["attn_q"].T, N_HEADS)), rotate(split_heads(z @ W["attn_k"].T, N_KV_HEADS))
        V = split_heads(z @ W["attn_v"].T, N_KV_HEADS)
        K, V = (part.repeat_interleave(N_HEADS // N_KV_HEADS, dim=1) for part in (K, V))
        weights = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), allowed)
        found.append(weights[0])
        x = x + merge_heads(weights @ V) @ W["attn_output"].T
        z = rms_norm(x, W["ffn_norm"])
        x = x + (F.silu(z @ W["ffn_gate"].T) * (z @ W["ffn_up"].T)) @ W["ffn_down"].T
    expected = (rms_norm(x, tensors["output_norm.weight"]) @ tensors["token_embd.weight"].T).softmax(-1)
    return torch.stack(found), expected[0]


# ---------------------------------------------------------------------------------------------------------------------
# The record


def per_cent(weights: Tensor) -> np.ndarray:
    """Whole per cents, of which each row adds up to 100: the largest remainders are rounded up."""
    exact = 100 * weights.double()
    low = exact.floor()
    rank = (low - exact).argsort(dim=-1, stable=True).argsort(dim=-1)
    return (low + (rank < (100 - low.sum(-1, keepdim=True)).round())).long().numpy()


def written(pattern: np.ndarray) -> str:
    """The lower triangle of whole per cents, (n, n), as a string."""
    flat = pattern[np.tril_indices(len(pattern))]
    signs = "".join("0" if share == 0 else SIGNS[share - 1] for share in flat)
    return re.sub("0+", lambda zeros: str(len(zeros[0])), signs)


def record(path: Path) -> dict[str, Any]:
    """All patterns of all texts, as what is written to the file."""
    fields, tensors = read_gguf(path)
    cut, texts = tokens_of(fields), []
    for name, text in TEXTS.items():
        ids, tokens = cut(text)
        weights, expected = read(ids, tensors)
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
    """The record as JSON, a layer to a line."""
    lines = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r'(?<=[\]}"],)(?=\["[^"]*","[^"]*",)|(?<=\},)(?=\{)', "\n", lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """The command. Exit code 2 without the model's file."""
    parser = argparse.ArgumentParser(prog="python tools/model_heads.py", description=__doc__)
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
