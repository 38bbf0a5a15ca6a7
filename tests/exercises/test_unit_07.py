"""Unit 7: references against a second route."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from torch import nn

from autograder.exercises.u07_transformer_block.post_norm_block import post_norm_block
from autograder.exercises.u07_transformer_block.pre_norm_block import pre_norm_block
from autograder.exercises.u07_transformer_block.transformer_logits import transformer_logits
from autograder.judging.hidden_cases import Challenge
from references import cases, near


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm"])
def test_norms_row_by_row_and_feature_by_feature(name):
    for case, args, expected in cases(name):
        x, gamma, beta, *rest = (value.numpy() if torch.is_tensor(value) else value for value in args)
        eps = rest[0] if rest else case.kwargs.get("eps", 1e-5)
        rows = [*np.ndindex(x.shape[:-1])] if name == "layer_norm" else [(..., d) for d in range(x.shape[-1])]
        z = np.empty_like(x)
        for at in rows:
            z[at] = (x[at] - x[at].mean()) / math.sqrt(((x[at] - x[at].mean()) ** 2).mean() + eps)
        assert np.allclose(gamma * z + beta, expected.numpy(), rtol=1e-7, atol=1e-9), case.label


def test_gelu_is_x_times_the_normal_distribution():
    for case, (x,), expected in cases("gelu"):
        assert np.allclose(x.numpy() * scipy.stats.norm.cdf(x.numpy()), expected.numpy(), rtol=1e-9, atol=1e-12), (
            case.label
        )


def test_feed_forward_token_by_token():
    from autograder.worker.torch_calls import activation

    for case, (x, W_1, b_1, W_2, b_2, made), expected in cases("feed_forward"):
        f = activation(made.name, made.scale)
        for at in np.ndindex(x.shape[:-1]):
            assert near(W_2.T @ f(W_1.T @ x[at] + b_1) + b_2, expected[at]), case.label


def encoder_layer(params, d_model, h, d_ff, norm_first):
    """torch's own block with these weights."""
    block = nn.TransformerEncoderLayer(
        d_model, h, d_ff, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    copies = {
        "self_attn.in_proj_weight": torch.cat([params[f"W_{role}"].T for role in "QKV"]),
        "self_attn.in_proj_bias": torch.zeros(3 * d_model),
        "self_attn.out_proj.weight": params["W_O"].T,
        "self_attn.out_proj.bias": params["b_O"],
        "linear1.weight": params["W_1"].T,
        "linear1.bias": params["b_1"],
        "linear2.weight": params["W_2"].T,
        "linear2.bias": params["b_2"],
        **{
            f"norm{i}.{own}": params[f"{name}_{i}"]
            for i in (1, 2)
            for own, name in (("weight", "gamma"), ("bias", "beta"))
        },
    }
    block.load_state_dict({name: value.double() for name, value in copies.items()})
    return block.eval()


def random_params(generator, d_model, h, d_ff):
    shapes = {f"W_{role}": (d_model, d_model) for role in "QKVO"}
    shapes |= {"b_O": (d_model,), "W_1": (d_model, d_ff), "b_1": (d_ff,), "W_2": (d_ff, d_model), "b_2": (d_model,)}
    shapes |= {f"{name}_{i}": (d_model,) for i in (1, 2) for name in ("gamma", "beta")}
    return {k: torch.randn(*shape, generator=generator, dtype=torch.float64) / 2 for k, shape in shapes.items()}


@pytest.mark.parametrize(("block", "norm_first"), [(post_norm_block, False), (pre_norm_block, True)])
def test_the_blocks_are_torchs_encoder_layer(block, norm_first):
    generator = torch.Generator().manual_seed(7)
    B, n, h, d_model, d_ff = 2, 5, 2, 8, 11
    params = random_params(generator, d_model, h, d_ff)
    x = torch.randn(B, n, d_model, generator=generator, dtype=torch.float64)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    with torch.no_grad():
        theirs = encoder_layer(params, d_model, h, d_ff, norm_first)(x, src_mask=~causal)
    assert near(block(x, params, h, causal), theirs)


def test_transformer_logits_is_a_stack_of_torchs_layers():
    generator = torch.Generator().manual_seed(8)
    B, n, h, d_model, d_ff, vocab = 2, 5, 2, 8, 11, 13
    blocks = [random_params(generator, d_model, h, d_ff) for _ in range(3)]
    gain = torch.randn(2, d_model, generator=generator, dtype=torch.float64)
    W_E, W_pos, W_U = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((vocab, d_model), (n + 2, d_model), (d_model, vocab))
    )
    tokens = torch.randint(vocab, (B, n), generator=generator)
    params = {"W_E": W_E, "W_pos": W_pos, "blocks": blocks, "gamma_f": gain[0], "beta_f": gain[1], "W_U": W_U}
    x = W_E[tokens] + W_pos[:n]
    with torch.no_grad():
        for block in blocks:
            mask = nn.Transformer.generate_square_subsequent_mask(n, dtype=torch.float64)
            x = encoder_layer(block, d_model, h, d_ff, True)(x, src_mask=mask)
    x = nn.functional.layer_norm(x, (d_model,), gain[0], gain[1])
    assert near(transformer_logits(tokens, params, h), x @ W_U)


def test_bits_per_token_one_by_one():
    for case, (logits, targets, mask), expected in cases("bits_per_token"):
        costs = [
            (scipy.special.logsumexp(logits[at]) - float(logits[at][targets[at]])) / math.log(2)
            for at in zip(*np.nonzero(mask.numpy()), strict=True)
        ]
        assert math.isclose(float(expected), sum(costs) / max(len(costs), 1), rel_tol=1e-9, abs_tol=1e-12), case.label


def torchs_step(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """torch.optim.AdamW, in whose state the step before has left m and v."""
    weight = w.clone().requires_grad_()
    weight.grad = grad.clone()
    optimizer = torch.optim.AdamW([weight], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
    optimizer.state[weight] = {"step": torch.tensor(step - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.step()
    return weight.detach(), *(optimizer.state[weight][name] for name in ("exp_avg", "exp_avg_sq"))


def test_adamw_step_is_torchs():
    for case, args, expected in cases("adamw_step"):
        found = torchs_step(*args, **case.kwargs)
        assert all(near(mine, theirs) for mine, theirs in zip(expected, found, strict=True)), case.label


def test_sample_draws_by_hand():
    """Every draw anew, in plain Python but for the draw itself, with probabilities that sum to 1."""
    for seed in range(4):
        posed = Challenge(seed).posed("sample")
        for case, expected in zip(posed.cases, posed.expected, strict=True):
            next_logits, prompt, end, max_len, temperature, top_p, rng = case.args
            generator, tokens = torch.Generator().manual_seed(rng.seed), list(prompt)
            if rng.used:
                torch.rand(1, generator=generator)
            while len(tokens) < max_len and (len(tokens) == len(prompt) or tokens[-1] != end):
                logits = [float(logit) for logit in next_logits(list(tokens))]
                if temperature == 0:
                    tokens.append(logits.index(max(logits)))
                    continue
                weights = [math.exp((logit - max(logits)) / temperature) for logit in logits]
                p = {token: weight / sum(weights) for token, weight in enumerate(weights)}
                kept = {}
                for token in sorted(p, key=p.get, reverse=True):
                    if not kept or sum(kept.values()) < top_p:
                        kept[token] = p[token]
                        assert top_p in (0, 1) or abs(sum(kept.values()) - top_p) > 1e-7, (
                            f"{case.label}: at the edge of top_p"
                        )
                chances = torch.tensor([kept.get(token, 0.0) / sum(kept.values()) for token in range(len(p))])
                tokens.append(int(torch.multinomial(chances, 1, generator=generator)))
            assert tokens == expected.value, case.label


def test_multinomial_draws_the_same_from_probabilities_of_any_sum_and_precision():
    p = torch.rand(13, generator=torch.Generator().manual_seed(0))
    for seed in range(200):
        draws = {
            int(torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(seed)))
            for chances in (p, 0.37 * p, p / p.sum(), p.double())
        }
        assert len(draws) == 1
