"""What the notebooks store for their live figures, in per cent, is what their models do: by a second route."""

from __future__ import annotations

import ast
import json
import math
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

SOLUTIONS = Path(__file__).parents[2] / "solutions"
UNITS = ("06_cross_attention", "07_transformer_block", "08_induction_heads")
DATA = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


@cache
def cells(unit: str) -> dict[str, Any]:
    return {cell.id: cell for cell in nbformat.read(SOLUTIONS / unit / f"{unit}.ipynb", as_version=4).cells}


def stored(unit: str, cell: str) -> dict[str, Any]:
    """The data of the live figure that a cell of the solution shows."""
    (shown,) = (found for item in cells(unit)[cell].outputs if (found := item.get("data", {}).get("text/html")))
    return json.loads(DATA.search(shown)[1])


def functions(unit: str, *names: str) -> dict[str, Any]:
    """What these cells define: of those that draw or train their functions and constants alone."""
    space = {"torch": torch, "math": math, "np": np, "F": F, "nn": nn, "random": random}
    for name in names:
        cell = cells(unit)[name]
        program = ast.parse(cell.source)
        if "demo" in cell.metadata.get("tags", []):
            program.body = [part for part in program.body if defines(part)]
        exec(compile(program, name, "exec"), space)
    return space


def defines(part: ast.stmt) -> bool:
    """Whether it is a function, a class, or a constant by its name."""
    targets = part.targets if isinstance(part, ast.Assign) else []
    named = [target.id for target in targets if isinstance(target, ast.Name)]
    return isinstance(part, ast.FunctionDef | ast.ClassDef) or any(len(name) > 1 and name.isupper() for name in named)


def percent(values: torch.Tensor) -> list:
    return (100 * values).round().int().tolist()


def likeliest(shares: torch.Tensor, signs: str) -> list:
    """The three likeliest signs of each row and their shares, sorted in Python."""
    found = []
    for row in shares.tolist():
        best = sorted(range(len(row)), key=lambda k: -row[k])[:3]
        found.append(["".join(signs[k] for k in best), *(round(100 * row[k]) for k in best)])
    return found


@pytest.mark.parametrize("unit", UNITS[2:3])
def test_both_heads_and_what_is_left_without_them(unit: str):
    space = functions(
        unit, "previous_token_score", "prefix_matching_score", "ablate_head", "run-with-edit", "fig-forming"
    )
    g = torch.Generator().manual_seed(8)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    blocks = [{"W_Q": draw(8, 4), "W_K": draw(8, 4), "W_V": draw(8, 4), "W_O": draw(4, 8)} for _ in range(2)]
    weights = {"W_E": draw(32, 8), "W_pos": draw(6, 8), "W_U": draw(8, 32) / 3, "blocks": blocks}
    tokens = torch.tensor([[3, 30, 7, 3, 30, 7]])
    found = space["what_heads_do"](weights, tokens, 3)
    assert set(found["looks"]) == {"", "0"} and set(found["says"]) == {"", "0", "1", "0,1"}
    for out in found["says"]:
        x = weights["W_E"][tokens[0]] + weights["W_pos"]
        for layer, block in enumerate(blocks):
            added = torch.zeros_like(x)
            for i in range(6):
                scores = torch.stack([(x[i] @ block["W_Q"]) @ (x[j] @ block["W_K"]) / 2 for j in range(i + 1)])
                row = scores.softmax(0)
                if out in found["looks"] and layer in found["looks"][out]:
                    assert found["looks"][out][layer][i] == percent(row)
                added[i] = sum(w * (x[j] @ block["W_V"] @ block["W_O"]) for j, w in enumerate(row))
            x = x if str(layer) in out else x + added
        shares = (x @ weights["W_U"]).softmax(-1)
        assert found["says"][out] == likeliest(shares, space["SIGNS"])
        assert found["right"][out] == [*percent(shares[range(5), tokens[0, 1:]]), None]


@pytest.mark.parametrize("unit", UNITS[1:2])
def test_eight_heads_and_what_is_left_without_each(unit: str):
    space = functions(
        *(unit, "attention", "layer_norm", "gelu", "feed_forward", "pre_norm_block", "transformer_logits"),
        *("random-block", "story-tools", "heads", "guesses"),
    )
    tale, signs = "\nAb met Cd. Cd.", "\n .ACbdemt"
    ids = torch.tensor([[signs.index(sign) for sign in tale]])
    g = torch.Generator().manual_seed(7)
    model = space["random_model"](len(signs), 20, 2, d_model=16, n_heads=4, d_head=4, d_ff=24, generator=g)
    space |= {"language_model": model, "letters": signs, "ids_held_out": ids.expand(3, -1)}
    space |= {"tale": tale, "held_out": [None, None, (tale, ("Ab", "Cd"), 0)]}
    found, places = space["what_heads_do"](14)
    assert places == [12, 13], "the second Cd, and what follows in it"
    for out in ("", *range(8)):
        x = model["W_E"][ids[0, :14]] + model["W_pos"][:14]
        for block, p in enumerate(model["blocks"]):
            y = F.layer_norm(x, x.shape[-1:], p["gamma_1"], p["beta_1"])
            heads = torch.zeros_like(x)
            for head in range(4):
                own, h = slice(4 * head, 4 * head + 4), 4 * block + head
                scores = (y @ p["W_Q"][:, own]) @ (y @ p["W_K"][:, own]).T / 2
                A = scores.masked_fill(torch.ones(14, 14).triu(1).bool(), -torch.inf).softmax(-1)
                if out in found["looks"] and h in found["looks"][out]:
                    assert found["looks"][out][h] == [row[: i + 1] for i, row in enumerate(percent(A))]
                    followed = (A[12, 9] + A[13, 10]) / 2  # what followed the C and the d of the first Cd
                    assert found["facts"][out][h][1] == pytest.approx(float(followed), abs=0.0006)
                if h != out:
                    heads = heads + A @ (y @ p["W_V"][:, own]) @ p["W_O"][own]
            x = x + heads + p["b_O"]
            y = F.layer_norm(x, x.shape[-1:], p["gamma_2"], p["beta_2"])
            x = x + F.gelu(y @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]
        shares = (F.layer_norm(x, x.shape[-1:], model["gamma_f"], model["beta_f"]) @ model["W_U"]).softmax(-1)
        assert found["says"][out] == likeliest(shares, signs)
        assert found["right"][out] == percent(shares[range(14), ids[0, 1:15]])


@pytest.mark.parametrize("unit", UNITS[0:1])
def test_a_hidden_source_word_is_as_good_as_cut_out(unit: str):
    space = functions(unit, "cross_attention", "attention", "decoder_layer", "grammar", "model", "steps")
    model = space["Translator"](6, plain_start=True)
    pair = ("small", "dog", "saw", "cat"), ("chiisai", "inu", "ga", "neko", "o", "mita"), None
    found = space["what_is_read"](model, pair, range(4))
    source, target = space["as_batch"]([pair])
    for hidden in ("", *range(4)):
        left = [j for j in range(4) if j != hidden]
        Y = model.encode(source, None)[:, left]
        rows = torch.zeros(7, 4)
        rows[:, left] = model.look(target[:, :-1], Y, None)[0, 0].detach()
        assert np.allclose(found["looks"][hidden], percent(rows), atol=1)
        shares = model.decode(target[:, :-1], Y, None)[0].detach().softmax(-1)
        for (words, three, right), row, token in zip(found["says"][hidden], shares, target[0, 1:], strict=True):
            best = row.topk(3)
            assert words == [space["TARGET_WORDS"][k] for k in best.indices.tolist()]
            assert np.allclose([*three, right], [*percent(best.values), 100 * float(row[token])], atol=1)


@pytest.mark.parametrize(
    ("unit", "cell"),
    [(UNITS[0], "steps"), (UNITS[0], "second-map"), (UNITS[1], "guesses"), (UNITS[2], "fig-forming")],
)
def test_what_is_stored_is_small_and_hangs_together(unit: str, cell: str):
    data = stored(unit, cell)
    assert len(json.dumps(data, separators=(",", ":"))) < 60_000
    for moment in data.get("moments", data.get("models")):
        for looks in moment["looks"].values():
            for rows in looks.values() if isinstance(looks, dict) else [looks]:
                assert all(abs(sum(row) - 100) <= len(row) / 2 for row in rows), "the weights of a row sum to 1"
        for out, rows in moment.get("facts", {}).items():
            for head, (before, _) in rows.items():
                triangle = moment["looks"][out][head]
                measured = sum(row[i] for i, row in enumerate(triangle[1:])) / (len(triangle) - 1)
                assert measured / 100 == pytest.approx(before, abs=0.005)
        for out, right in moment.get("right", {}).items():
            for came, share, (signs, *three) in zip(data["next"], right, moment["says"][out], strict=True):
                if came and came in signs:
                    assert three[signs.index(came)] == share


@pytest.mark.parametrize("unit", UNITS[2:3])
def test_the_curves_and_the_maps_tell_of_one_training(unit: str):
    data = stored(unit, "fig-forming")
    curves = {curve["name"]: curve["values"] for curve in data["curves"]}
    first, last = data["moments"][0], data["moments"][-1]
    assert (first["step"], last["step"]) == (0, 400) and len(curves["accuracy in the repeat"]) == 81
    right = lambda moment, out: np.mean([moment["right"][out][i] for i in data["counts"]["places"]])  # noqa: E731
    assert right(first, "") < 10 and right(last, "") > 90
    assert max(right(last, out) for out in ("0", "1", "0,1")) < 20
    (before, _), (_, match) = (last["facts"][""][head] for head in "01")
    assert min(before, match) > 0.9 > 0.3 > last["facts"]["0"]["1"][1]
