"""What unit 7 says of its ablation by training: the models that were trained, and the record."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from attention_figures.recorded_measurements import ablation_record
from cell_definitions import defined_in
from record_ablation import CELLS, HEADS, RATES, SEEDS, VARIANTS, logits_of, new_model


@pytest.fixture(scope="module")
def unit() -> SimpleNamespace:
    """Unit 7's functions, for texts of eleven letters and at most nine characters."""
    cells = (*(name for name in CELLS if name not in ("story-tools", "grammar")), "transformer_logits")
    return SimpleNamespace(**defined_in("07_transformer_block", cells), letters="abcdefghijk", n_ctx=9)


def tokens() -> torch.Tensor:
    return torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(2))


def test_the_variant_with_all_parts_is_the_model_of_the_unit(unit):
    model, weights = new_model(unit, VARIANTS[0], seed=1)
    whole = logits_of(unit, VARIANTS[0], tokens(), model)
    torch.testing.assert_close(whole, unit.transformer_logits(tokens(), model, HEADS))
    assert len(weights) == len(unit.weights_of(model))


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_trains_its_own_weights_and_as_many_as_the_others(unit, variant):
    model, weights = new_model(unit, variant, seed=1)
    logits_of(unit, variant, tokens(), model).pow(3).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in weights)
    unused = [w for w in unit.weights_of(model) if w.grad is not None and all(w is not other for other in weights)]
    assert not unused, "what is left out of the training is left out of the model, too"
    whole = sum(weight.numel() for weight in new_model(unit, VARIANTS[0], seed=1)[1])
    assert abs(sum(weight.numel() for weight in weights) / whole - 1) < 0.01


def test_the_record_has_every_training():
    runs = ablation_record()["runs"]
    for variant in VARIANTS:
        tried = [run for run in runs if run["variant"] == variant and run["seed"] == SEEDS[0]]
        assert [run["rate"] for run in tried] == list(RATES)
        best = min(tried, key=lambda run: run["bits"])["rate"]
        kept = [run["seed"] for run in runs if run["variant"] == variant and run["rate"] == best]
        assert kept == list(SEEDS)
