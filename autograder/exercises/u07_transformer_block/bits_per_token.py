"""Defines the exercise `bits_per_token`, which averages −log₂ of the targets' probabilities over the counted tokens."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..kit import OF_INPUTS, Drawn, Leaf, exercise, ids, normal
from .parts import without

LN_2 = math.log(2)


def uneven(shape: str) -> Drawn:
    """Draw a mask whose rows count 1, 3, 5, … tokens at random positions."""

    def make(rng, shape, sizes):
        counts = np.minimum(1 + 2 * np.arange(shape[0]), shape[1] - 1)[:, None]
        return rng.permuted(np.arange(shape[1]) < counts, axis=1)

    return Drawn(shape, make)


def bits_per_token(logits: normal("B n vocab", 2.0), targets: ids("B n", below="vocab"), mask: uneven("B n")) -> Leaf(
    "float", "the bits per token", exactly=OF_INPUTS
):
    nats = F.cross_entropy(logits[mask], targets[mask], reduction="sum")
    return nats / LN_2 / max(1, int(mask.sum()))


def plain(logits, targets, mask):
    counted_logits, counted_targets = logits[mask], targets[mask]
    count = len(counted_targets)
    logs = torch.log_softmax(counted_logits, -1)
    log_of_target = logs.gather(-1, counted_targets[:, None])
    nats = -log_of_target
    bits = nats / math.log(2)
    return bits.sum() / max(count, 1)


def cases(case):
    yield case("values", "{B} texts of {n} tokens, {vocab} in the vocabulary")
    yield case("values", "all tokens count", mask=np.ones((3, 7), bool))
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "as many tokens in the vocabulary as in the text", vocab="n")
    yield case("masked tokens", "targets of -100 where nothing counts", **hidden(case, -100))
    yield case("masked tokens", "targets beyond the vocabulary where nothing counts", **hidden(case, 10**6))
    drawn = hidden(case, -1)
    drawn["mask"][0] = False
    yield case("masked tokens", "a text of which nothing counts", **drawn)
    yield case("masked tokens", "large logits where nothing counts", **loud(case.draw(), 3e3))
    yield case("anything at all", "infinite logits where nothing counts", **loud(hidden(case, -100), np.inf))
    noisy = loud(case.draw(), np.inf)
    yield case("anything at all", "gradients with infinite logits where nothing counts", gradient=True, **noisy)
    drawn = hidden(case, -100)
    yield case("nothing counts", "no token counts", **(drawn | {"mask": np.zeros_like(drawn["mask"])}))
    yield case("stability", "logits of about 10,000", **scaled(case.draw(), 5e3))
    yield case("stability", "float32, logits of about 10,000", dtype=np.float32, **scaled(case.draw(), 5e3))
    yield case("stability", "a token of tiny probability", **scaled(case.draw(), 20.0))
    yield case("stability", "words of probability 0", **ruled_out(case.draw()))
    yield case("gradients", "gradients with targets of -100", gradient=True, **hidden(case, -100))
    yield case("gradients", "gradients for large logits", gradient=True, **scaled(case.draw(), 5e3))
    yield case("gradients", "gradients with words of probability 0", gradient=True, **only_last(case.draw()))
    low = scaled(case.draw(), 1e5)
    low["logits"] -= 2e6
    yield case("stability", "words of probability 0, and logits about -2,000,000", **only_last(low))
    drawn = loud(hidden(case, -100), np.inf)
    drawn["mask"][:] = False
    drawn["logits"][0] = np.inf
    yield case("nothing counts", "no token counts, and logits are infinite", **drawn)


def hidden(case, stand_in):
    """Draw arguments and replace the targets that don't count."""
    drawn = case.draw()
    drawn["targets"] = np.where(drawn["mask"], drawn["targets"], stand_in)
    return drawn


def loud(drawn, factor):
    """Multiply the logits that don't count by a factor."""
    drawn["logits"] = np.where(drawn["mask"][..., None], drawn["logits"], factor * drawn["logits"])
    return drawn


def ruled_out(drawn):
    """Set every other logit to -inf, except that of the target."""
    out = np.arange(drawn["logits"].shape[-1]) % 2 == 1
    drawn["logits"] = np.where(out & (drawn["targets"][..., None] != np.arange(len(out))), -np.inf, drawn["logits"])
    return drawn


def only_last(drawn):
    """Set all logits to -inf except the last four and that of the target."""
    words = np.arange(drawn["logits"].shape[-1])
    out = (words < len(words) - 4) & (drawn["targets"][..., None] != words)
    drawn["logits"] = np.where(out, -np.inf, drawn["logits"])
    return drawn


def scaled(drawn, factor):
    drawn["logits"] = factor * drawn["logits"]
    return drawn


def safe(targets: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, targets, 0)


def measured(
    logits, targets, mask, *, of=lambda z: torch.log_softmax(z, -1), unit=LN_2, sign=-1.0,
    mean=lambda cost, mask: cost[mask].sum() / mask.sum().clamp(min=1), result=lambda bits: bits,
):  # fmt: skip
    """Measure with an option for each slip."""
    logs = of(torch.where(mask[..., None], logits, 0.0))
    cost = logs.gather(-1, safe(targets, mask)[..., None])[..., 0]
    return result(mean(sign * cost / unit, mask))


def of_each_text(cost, mask):
    some = mask.any(-1)
    each = (cost * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    return each[some].sum() / some.sum().clamp(min=1)


def uncertainty(logits, targets, mask):
    """Return the entropy of the model's predictions."""
    logs = torch.log_softmax(logits, -1)
    return -(logs.exp() * logs).sum(-1)[mask].sum() / mask.sum().clamp(min=1) / LN_2


def shifted_again(logits, targets, mask):
    return measured(logits[:, :-1], targets[:, 1:], mask[:, 1:])


MISTAKES = (
    ("mean-of-texts", {"mean": of_each_text},
     "You take a mean for each text and then their mean. This gives short texts too much weight; count every token "
     "equally."),
    ("mask-ignored", {"mean": lambda cost, mask: cost.mean()},
     "Your mean includes tokens that do not count. Where `mask` is False, a token plays no role."),
    ("divided-by-all", {"mean": lambda cost, mask: (cost * mask).sum() / mask.numel()},
     "You sum the cost over the tokens that count, but divide by the number of all tokens."),
    ("perplexity", {"result": lambda bits: 2**bits},
     "You return the perplexity, 2 to the power of the bits. Return the bits."),
    ("mean-before-the-logarithm",
     {"of": lambda z: torch.softmax(z, -1), "unit": 1.0, "sign": 1.0, "result": lambda p: -torch.log2(p)},
     "You take the logarithm of the mean probability. Take the mean of the logarithms."),
    ("softmax-then-logarithm", {"of": lambda z: torch.log(torch.softmax(z, -1))},
     "A small probability becomes 0 in your code, and its logarithm infinite. Stay with logarithms all the way."),
    ("entropy", uncertainty,
     "You return how unsure the model is, whatever came. Return what the token cost that did come."),
    ("shifted-again", shifted_again,
     "You shift logits and targets against each other. Place i of the targets already belongs to place i."),
)  # fmt: skip

EXERCISE = exercise(
    bits_per_token,
    credit={
        "values": 0.4,
        "masked tokens": 0.15,
        "anything at all": 0.2,
        "stability": 0.1,
        "gradients": 0.1,
        "nothing counts": 0.05,
    },
    slipped=measured,
    library="torch",
    ranges={"n": range(7, 10), "B": range(3, 5), "vocab": range(11, 15)},
    forbidden=(
        *without("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss", "gaussian_nll_loss"),
        *without("cross_entropy_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward"),
        "bits",
    ),
)
