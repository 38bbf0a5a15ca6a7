"""Record unit 7's ablation by training: `python tools/record_ablation.py [--to FILE]`.

Its tiny language model is trained on its stories once more, with one part replaced or left out and five seeds each. Two
learning rates are tried with the first seed, and the other seeds take the better one. What is kept is the bits per
character of held-out stories, by kind. It takes a few minutes on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import platform
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_figures.recorded_measurements import ABLATION
from cell_definitions import defined_in

#: The cells of unit 7 that define its model and its stories.
CELLS = (
    *("imports", "attention", "layer_norm", "gelu", "feed_forward", "random-block"),
    *("post_norm_block", "pre_norm_block", "story-tools", "grammar"),
)
#: The cells among them that are run in full, because they make the stories.
WHOLE = ("imports", "story-tools", "grammar")
VARIANTS = ("pre-norm, GELU", "post-norm", "no norm", "no positions", "FFN with SiLU", "FFN with SwiGLU")
SEEDS, RATES, HELD_OUT = range(5), (0.005, 0.015), 100
STEPS, BATCH, D_MODEL, HEADS, D_GATED = 250, 8, 64, 4, 172


def new_model(unit: SimpleNamespace, variant: str, seed: int) -> tuple[dict[str, Any], list[Tensor]]:
    """Return a model as at the start of training, and the weights that this variant trains."""
    g = torch.Generator().manual_seed(seed)
    model = unit.fresh_model(len(unit.letters), unit.n_ctx, 2, D_MODEL, HEADS, g)
    end = ["gamma_f", "beta_f"]
    unused = {"no positions": ["W_pos"], "post-norm": end, "no norm": end}.get(variant, [])
    for block in model["blocks"]:
        if variant == "no norm":
            for name in ("gamma_1", "beta_1", "gamma_2", "beta_2"):
                del block[name]
        if variant == "FFN with SwiGLU":  # three matrices without biases have as many weights as two wider ones
            for name in ("W_1", "b_1", "W_2", "b_2"):
                del block[name]
            wide, narrow = (D_MODEL, D_GATED), (D_GATED, D_MODEL)
            for name, shape in {"W_gate": wide, "W_up": wide, "W_down": narrow}.items():
                drawn = torch.randn(*shape, generator=g) / math.sqrt(shape[0])
                block[name] = drawn.requires_grad_()
    return model, unit.weights_of({name: value for name, value in model.items() if name not in unused})


def logits_of(unit: SimpleNamespace, variant: str, tokens: Tensor, model: dict[str, Any]) -> Tensor:
    """Return the scores of the next token, as `transformer_logits` does except for the variant's change."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()

    def norm(x: Tensor, p: dict[str, Tensor], which: str) -> Tensor:
        return x if variant == "no norm" else unit.layer_norm(x, p[f"gamma_{which}"], p[f"beta_{which}"])

    def think(x: Tensor, p: dict[str, Tensor]) -> Tensor:
        if variant == "FFN with SwiGLU":
            return (F.silu(x @ p["W_gate"]) * (x @ p["W_up"])) @ p["W_down"]
        act = F.silu if variant == "FFN with SiLU" else unit.gelu
        return unit.feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], act)

    x = model["W_E"][tokens]
    if variant != "no positions":
        x = x + model["W_pos"][:n]
    for p in model["blocks"]:
        if variant == "post-norm":
            x = unit.post_norm_block(x, p, HEADS, causal)
            continue
        weights = (p[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O"))
        x = x + unit.multi_head_attention(norm(x, p, "1"), *weights, HEADS, causal)
        x = x + think(norm(x, p, "2"), p)
    return (x if variant == "post-norm" else norm(x, model, "f")) @ model["W_U"]


def train(unit: SimpleNamespace, variant: str, seed: int, rate: float, steps: int = STEPS) -> dict[str, Any]:
    """Train a model and return its loss in bits per held-out character, on average and by kind."""
    (ids, targets), (tokens, following) = unit.texts
    model, weights = new_model(unit, variant, seed)
    g = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(weights, lr=rate, betas=(0.9, 0.98), weight_decay=0)
    for step in range(1, steps + 1):
        cool_down = 0.55 + 0.45 * math.cos(math.pi * step / steps)
        optimizer.param_groups[0]["lr"] = rate * min(1, step / 20) * cool_down
        rows = torch.randint(len(ids), (BATCH,), generator=g)
        loss = unit.bits(logits_of(unit, variant, ids[rows], model), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    with torch.no_grad():
        costs = unit.bits(logits_of(unit, variant, tokens, model), following, "none")
    found = {"bits": float(costs.sum() / (following >= 0).sum())}
    found |= zip(unit.KINDS, unit.by_kind(costs.numpy(), unit.held_out[:HELD_OUT]).tolist(), strict=True)
    made = {"variant": variant, "seed": seed, "rate": rate, "weights": sum(w.numel() for w in weights)}
    return made | {name: round(value, 4) for name, value in found.items()}


def main(arguments: list[str] | None = None) -> int:
    """Train all variants and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ABLATION, help="where to write (default: the course)")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each training")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):  # a cell prints stories
        unit = SimpleNamespace(**defined_in("07_transformer_block", CELLS, whole=WHOLE))
    unit.texts = unit.encode(unit.training), unit.encode(unit.held_out[:HELD_OUT])
    runs = []
    for variant in VARIANTS:
        tried = [train(unit, variant, SEEDS[0], rate, options.steps) for rate in RATES]
        best = min(tried, key=lambda run: run["bits"])
        later = [train(unit, variant, seed, best["rate"], options.steps) for seed in SEEDS[1:]]
        runs += [*tried, *later]
        print(*(run for run in [*tried, *later]), sep="\n", flush=True)
    made = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": "python tools/record_ablation.py",
        "steps": options.steps,
        "stories a step": BATCH,
    }
    rows = ",\n  ".join(json.dumps(run) for run in runs)
    options.to.write_text(f'{{\n "made": {json.dumps(made)},\n "runs": [\n  {rows}\n ]\n}}\n', encoding="utf-8")
    print(f"Recorded {len(runs)} trainings: {options.to}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
