"""Defines the exercise `adamw_step`, which takes one step of AdamW for one tensor, as `torch.optim.AdamW` does."""

import math

import numpy as np
import torch

from ..kit import NOT_IN_TORCH_UNITS, Drawn, Leaf, exercise, normal


def squares(shape: str) -> Drawn:
    """Draw averages of squares, which are above 0 and differ by orders of magnitude."""
    return Drawn(shape, lambda rng, shape, sizes: 10.0 ** rng.uniform(-1.5, 0.5, shape))


def some(low: float, high: float) -> Drawn:
    """Draw a plain number."""
    return Drawn("", lambda rng, shape, sizes: float(np.float32(rng.uniform(low, high))))


def adamw_step(
    w: normal("a b"),
    grad: normal("a b"),
    m: normal("a b", 0.5),
    v: squares("a b"),
    step: int,
    lr: some(0.05, 0.2),
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> (Leaf("float array", "w"), Leaf("float array", "m"), Leaf("float array", "v")):
    m, v = torch.lerp(grad, m, beta1), torch.lerp(grad.square(), v, beta2)
    sure, root = (-math.expm1(step * math.log(beta)) if beta else 1.0 for beta in (beta1, beta2))
    root = math.sqrt(root)
    return torch.addcdiv(w * (1 - lr * weight_decay), m, v.sqrt() / root + eps, value=-lr / sure), m, v


def plain(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    new_m = beta1 * m + (1 - beta1) * grad
    new_v = beta2 * v + (1 - beta2) * grad**2
    corrected_m = new_m / (1 - beta1**step)
    corrected_v = new_v / (1 - beta2**step)
    move = corrected_m / (torch.sqrt(corrected_v) + eps)
    decay = weight_decay * w
    new_w = w - lr * (move + decay)
    return new_w, new_m, new_v


def cases(case):
    mine = {"by_name": "beta1 beta2 eps weight_decay"}
    strong = {"beta1": 0.7, "beta2": 0.85, "eps": 0.3, "weight_decay": 0.8}
    yield case("the defaults", "step {step} with the defaults")
    yield case("the defaults", "the first step, from m = v = 0", step=1, **start(case))
    yield case("other settings", "a strong decay", weight_decay=0.8, **mine)
    yield case("other settings", "other betas", beta1=0.6, beta2=0.8, **mine)
    yield case("other settings", "everything else than the defaults", **strong, **mine)
    yield case("other settings", "everything else than the defaults, by position", **strong)
    yield case("other settings", "float32", dtype=np.float32, **strong, **mine)
    yield case("edge cases", "no decay", weight_decay=0.0, **mine)
    yield case("edge cases", "late in training (step = {step})", step=range(4000, 9000), weight_decay=0.1, **mine)
    zero = {name: np.zeros((3, 5)) for name in ("grad", "m", "v")}
    yield case("edge cases", "no gradient, and none before", step=1, weight_decay=0.5, **zero, **mine)
    some = case.draw(step=7)
    some["grad"][::2] = 0.0
    yield case("edge cases", "some gradients are 0, after others", **some, **mine)
    yield case("edge cases", "gradients of 1e-9", step=2, **small(case))
    yield case("edge cases", "a weight of one axis", step=3, **over("c"), **strong, **mine)
    yield case("edge cases", "a weight of three axes", step=3, **over("a b c"), **strong, **mine)
    yield case("edge cases", "a beta2 of 0", beta2=0.0, **mine)
    drawn = case.draw(step=50_000)
    drawn["grad"] *= 1e4
    settings = {"beta1": 0.0, "beta2": 0.9999}
    yield case("edge cases", "a beta1 of 0, and gradients of some 10,000 after small ones", **drawn, **settings, **mine)
    yield case("edge cases", "gradients of 1e-12 and an eps of 0", step=2, eps=0.0, **small(case, 1e-12), **mine)


def start(case):
    drawn = case.draw(step=1)
    grad = np.copysign(np.maximum(np.abs(drawn["grad"]), 0.5), drawn["grad"])  # far above eps, wherever it is added
    return {"grad": grad, "m": np.zeros_like(drawn["m"]), "v": np.zeros_like(drawn["v"])}


def small(case, size=1e-9):
    """Draw gradients so small that eps matters."""
    drawn = case.draw(step=2)
    return {"grad": size * drawn["grad"], "m": size * drawn["m"], "v": size**2 * drawn["v"]}


def over(shape):
    return {"w": normal(shape), "grad": normal(shape), "m": normal(shape, 0.5), "v": squares(shape)}


def stepped(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, *,
    first=lambda m, g, b: b * m + (1 - b) * g, second=lambda v, g, b: b * v + (1 - b) * g * g,
    ratio=lambda m, v, c1, c2, eps: (m / c1) / ((v / c2).sqrt() + eps), decay="decoupled",
):  # fmt: skip
    """Take the step with an option for each slip."""
    if decay == "in the gradient":
        grad = grad + weight_decay * w
    new_m, new_v = first(m, grad, beta1), second(v, grad, beta2)
    c1, c2 = (1 - beta**step for beta in (beta1, beta2))
    move = lr * ratio(new_m, new_v, c1, c2, eps)
    rate = {"decoupled": lr, "of the new w": lr, "without lr": 1.0}.get(decay, 0.0)
    new = w - move - rate * weight_decay * (w - move if decay == "of the new w" else w)
    return new, new_m, new_v


MISTAKES = (
    ("decay-in-the-gradient", {"decay": "in the gradient"},
     "You add the decay to the gradient, so it is divided by the gradient's size. That is Adam with an L2 penalty; "
     "the W in AdamW means a separate decay."),
    ("eps-under-the-root", {"ratio": lambda m, v, c1, c2, eps: (m / c1) / (v / c2 + eps).sqrt()},
     "You put eps under the root. Where does the docstring put it? In layer norm it was in another place."),
    ("decay-without-lr", {"decay": "without lr"}, "You don't multiply the decay by lr."),
    ("decay-of-the-new-w", {"decay": "of the new w"},
     "You take the decay of weights that have already moved. From which w should the decay "
     "and the Adam step both start?"),
    ("betas-swapped",
     lambda w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, *rest, **more: adamw_step(
         w, grad, m, v, step, lr, beta2, beta1, *rest, **more),
     "You swap beta1 and beta2."),
    ("weights-of-the-average-swapped",
     {"first": lambda m, g, b: (1 - b) * m + b * g, "second": lambda v, g, b: (1 - b) * v + b * g * g},
     "Your averages forget nearly everything at each step. The factor of the old average is beta."),
    ("uphill", {"ratio": lambda m, v, c1, c2, eps: -(m / c1) / ((v / c2).sqrt() + eps)},
     "You step up the gradient, but the loss should fall."),
)  # fmt: skip

EXERCISE = exercise(
    adamw_step,
    credit={"the defaults": 0.5, "other settings": 0.3, "edge cases": 0.2},
    slipped=stepped,
    library="torch",
    ranges={"step": range(2, 6)},
    least={"step": 2},
    forbidden=(
        *NOT_IN_TORCH_UNITS,
        "torch.optim",
        "aten._fused_adamw_",
        "aten._fused_adam_",
        "aten._foreach_adamw",
    ),
)
