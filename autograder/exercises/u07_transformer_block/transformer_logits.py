"""Defines the exercise `transformer_logits`, a whole decoder-only model from tokens to the logits of every position."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..kit import Drawn, Leaf, by_columns, exercise, ids, normal, other_order, size
from .blocks import BLOCK, RANGES, Params, block_with, tanh_gelu
from .layer_norm import layer_norm as norm
from .layer_norm import plain as layer_norm
from .parts import NO_BLOCK_OF_TORCH, gain, named
from .pre_norm_block import plain as pre_norm_block
from .pre_norm_block import pre_norm_block as block_of_torch

MODEL = named(
    {
        "W_E": normal("vocab d_model"),
        "W_pos": normal("n_ctx d_model"),
        "blocks": Drawn(
            "",
            lambda rng, shape, sizes: [BLOCK.draw(rng, sizes) for _ in range(sizes["n_blocks"])],
            also=f"{BLOCK.also} n_blocks",
        ),
        "gamma_f": gain("d_model"),
        "beta_f": normal("d_model", 0.7),
        "W_U": normal("d_model vocab"),
    }
)


def with_a_repeat(shape: str) -> Drawn:
    """Draw tokens whose last one repeats the first, at another position."""

    def make(rng, lengths, sizes):
        tokens = ids(shape, below="vocab").draw(rng, sizes)
        tokens[:, -1] = tokens[:, 0]
        return tokens

    return Drawn(shape, make, also="vocab")


def transformer_logits(tokens: with_a_repeat("B n"), params: MODEL, n_heads: size("h")) -> Leaf(
    "float array", "the logits"
):
    n = tokens.shape[1]
    x = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = block_of_torch(x, block, n_heads, mask)
    return F.linear(norm(x, params["gamma_f"], params["beta_f"]), params["W_U"].T)


def plain(tokens, params, n_heads):
    W_E, W_pos, W_U = params["W_E"], params["W_pos"], params["W_U"]
    gamma_f, beta_f = params["gamma_f"], params["beta_f"]
    n = tokens.shape[1]
    everything = torch.ones(n, n, dtype=torch.bool)
    mask = everything.tril(0)
    x = W_E[tokens] + W_pos[:n]
    for block in params["blocks"]:
        x = pre_norm_block(x, block, n_heads, mask)
    normed = layer_norm(x, gamma_f, beta_f)
    return normed @ W_U


def cases(case):
    yield case("values", "two blocks", n_blocks=2)
    yield case("values", "three blocks", n_blocks=3)
    yield case("values", "float32", n_blocks=2, dtype=np.float32)
    yield case("edge cases", "one block", n_blocks=1)
    yield case("edge cases", "no block at all", n_blocks=0)
    yield case("edge cases", "a single token (n = 1)", n=1, n_blocks=2)
    yield case("edge cases", "a single sequence (B = 1)", B=1, n_blocks=2)
    yield case("edge cases", "as many tokens as positions (n = n_ctx)", n_ctx="n", n_blocks=2)
    drawn = case.draw(n_blocks=1)
    drawn["params"]["blocks"][0]["W_Q"] *= 3e4
    yield case("edge cases", "scores of some ten thousand", rtol=1e-5, **drawn)
    yield case("edge cases", "memory that is not contiguous", n_blocks=2, layout=by_columns)
    drawn = other_order(case.draw(n_blocks=2))
    drawn["params"]["blocks"] = [dict(reversed(block.items())) for block in drawn["params"]["blocks"]]
    yield case("edge cases", "params in another order", **drawn)
    drawn = case.draw(n_blocks=1)
    drawn["tokens"][0, :2] = 0, len(drawn["params"]["W_E"]) - 1
    yield case("gradients", "gradients where the first and the last id come", gradient=True, **drawn)
    drawn = case.draw(n_blocks=1, vocab=300)
    drawn["tokens"][:, 1] = 299
    yield case("edge cases", "token ids above 255", **drawn)
    drawn = case.draw(n_blocks=1)
    large = drawn["params"] | drawn["params"]["blocks"][0]
    for name, factor in {"W_E": 1e4, "W_Q": 1e5, "W_K": 1e5, "W_V": 1e4, "W_U": 1e4}.items():
        large[name] *= factor
    yield case("edge cases", "embeddings, scores and logits very large", rtol=1e-5, **drawn)


def causal(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def embedding(t: Tensor, p: Params) -> Tensor:
    return p["W_E"][t] + p["W_pos"][: t.shape[1]]


def final_norm(x: Tensor, p: Params) -> Tensor:
    return norm(x, p["gamma_f"], p["beta_f"])


def model_with(
    tokens: Tensor,
    params: Params,
    n_heads: int,
    *,
    embed: Callable[[Tensor, Params], Tensor] = embedding,
    mask_of: Callable[[int], Tensor | None] = causal,
    blocks: Callable[[list[Params]], list[Params]] = lambda blocks: blocks,
    block: Callable[..., Tensor] = block_of_torch,
    between: Callable[[Tensor, Params], Tensor] = lambda x, p: x,
    only_first_causal: bool = False,
    parallel: bool = False,
    final: Callable[[Tensor, Params], Tensor] = final_norm,
    unembed: Callable[[Tensor, Params], Tensor] = lambda x, p: x @ p["W_U"],
) -> Tensor:
    x = start = embed(tokens, params)
    for index, one in enumerate(blocks(params["blocks"])):
        mask = None if only_first_causal and index else mask_of(tokens.shape[1])
        reads = start if parallel else x
        x = between(x - reads + block(reads, one, n_heads, mask), params)
    return unembed(final(x, params), params)


def at(positions):
    """Use other positions in the model: `positions(W_pos, n)`."""
    return {"embed": lambda t, p: p["W_E"][t] + positions(p["W_pos"], t.shape[1])}


def seeing(allowed):
    """Use another mask in the model, made from one that allows everything."""
    return {"mask_of": lambda n: allowed(torch.ones(n, n, dtype=torch.bool))}


def without_last_positions(x, p):
    """Apply the final norm to the stream without the positions added after the last block, which no block reads."""
    return final_norm(x - p["W_pos"][: x.shape[1]] if p["blocks"] else x, p)


def norm_of_the_last_block(x, p):
    last = p["blocks"][-1] if p["blocks"] else {"gamma_2": None, "beta_2": None}
    return norm(x, last["gamma_2"], last["beta_2"])


MISTAKES = (
    ("last-positions", at(lambda W, n: W[-n:]), "You use the last n position vectors. Use the first n."),
    ("positions-reversed", at(lambda W, n: W[:n].flip(0)), "You use the positions in reverse order."),
    ("embedding-scaled", {"embed": lambda t, p: p["W_E"][t] * p["W_E"].shape[1] ** 0.5 + p["W_pos"][: t.shape[1]]},
     "You multiply the embedding by √d_model, as in 2017. Use it as it is."),
    ("no-causal-mask", {"mask_of": lambda n: None},
     "Your tokens see their own future. Every block needs the causal mask."),
    ("causal-mask-inverted", seeing(lambda every: every.triu(1)),
     "Your causal mask is True where it should hide. In this course True means “may attend”."),
    ("only-first-block-causal", {"only_first_causal": True}, "You give only the first block the causal mask."),
    ("positions-by-token", {"embed": lambda t, p: p["W_E"][t] + p["W_pos"][t % len(p["W_pos"])]},
     "You look up the positions with the tokens' ids. A token's position is its place in the sequence."),
    ("last-position-for-all", at(lambda W, n: W[n - 1]), "You give every token the last token's position."),
    ("positions-in-every-block",
     {"between": lambda x, p: x + p["W_pos"][: x.shape[1]], "final": without_last_positions},
     "You add the positions before every block. Add them once, at the start."),
    ("gain-of-the-last-block", {"final": norm_of_the_last_block},
     "Your final norm uses gamma_2 and beta_2 of the last block. It has its own."),
    ("norm-after-every-block",
     {"between": final_norm, "final": lambda x, p: x if p["blocks"] else final_norm(x, p)},
     "You apply the final norm after every block. Apply it once, at the end."),
    ("embedding-normed", {"embed": lambda t, p: final_norm(embedding(t, p), p)},
     "You normalise the embedding, too. The final norm comes only at the end."),
    ("blocks-in-parallel", {"parallel": True},
     "You let every block read the embedding. Each should read what the one before wrote."),
    ("tokens-shifted", {"embed": lambda t, p: embedding(torch.cat([t[:, :1], t[:, :-1]], 1), p)},
     "You shift the tokens by one inside the model. That belongs to the training pairs."),
    ("one-block-missing", {"blocks": lambda blocks: blocks[:-1]}, "You leave out the last block."),
    ("first-block-only", {"blocks": lambda blocks: blocks[:1]}, "You use only the first block."),
    ("first-block-for-all", {"blocks": lambda blocks: blocks[:1] * len(blocks)},
     "You use the first block's weights in every layer."),
    ("post-norm", {"block": partial(block_with, order="post")},
     "Your blocks add first and then normalise. This is a pre-norm model."),
    ("relu", {"block": partial(block_with, activation=torch.relu)}, "You use ReLU as the activation. A block uses "
                                                                    "GELU."),
    ("tanh-gelu", {"block": partial(block_with, activation=tanh_gelu)},
     "You use the approximation of GELU with tanh."),
    ("embedding-as-unembedding", {"unembed": lambda x, p: x @ p["W_E"].T},
     "You compute the logits from W_E. This model has a W_U of its own."),
    ("probabilities", {"unembed": lambda x, p: torch.softmax(x @ p["W_U"], -1)},
     "You return probabilities. Return the logits before the softmax."),
)  # fmt: skip

EXERCISE = exercise(
    transformer_logits,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    sizes=range(2, 7),
    ranges={**RANGES, "B": range(3, 7), "n": range(3, 7), "n_ctx": range(7, 11), "vocab": range(11, 16)},
    library="torch",
    slipped=model_with,
    forbidden=NO_BLOCK_OF_TORCH,
)
