"""Defines the exercise `in_context_learning_score`, the loss late in the context minus the loss early in it."""

import numpy as np

from ..kit import IN_FLOAT64, OF_INPUTS, RTOL_FLOAT64, Drawn, Leaf, by_columns, exercise, strided


def falling(shape):
    """Draw losses above 0 that fall along the last axis."""
    return Drawn(shape, lambda rng, shape, sizes: np.abs(rng.standard_normal(shape)) + np.linspace(3, 0.5, shape[-1]))


def in_context_learning_score(losses: falling("B n"), early: int, late: int) -> Leaf(
    "float", "the score", exactly=OF_INPUTS
):
    return (losses[:, late] - losses[:, early]).sum() / len(losses)


def plain(losses, early, late):
    at_early = losses[:, early].mean()
    at_late = losses[:, late].mean()
    score = at_late - at_early
    return score


def cases(case):
    yield case("values", "{B} sequences, n = {n}, positions {early} and {late}")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "as many sequences as tokens", B="n")
    yield case("values", "not contiguous", layout=strided)
    yield case("values", "memory in another order", layout=by_columns)
    n, early = int(case.rng.integers(11, 17)), int(case.rng.integers(2, 4))
    yield case("edge cases", "the first and the last position", n=n, early=0, late=n - 1)
    yield case("edge cases", "one sequence (B = 1)", B=1)
    yield case("edge cases", "next to each other", early=early, late=early + 1)
    yield case("edge cases", "the same position twice", late="early")
    yield case("edge cases", "late before early", early=range(7, 10), late=range(2, 4))
    yield case("edge cases", "late is position 0", late=0)
    yield case(
        "edge cases", "more texts than positions", B=range(17, 24), n=range(6, 9), early=range(2, 4), late=range(4, 6)
    )
    known = case.rng.uniform(1, 4, (6, 12))
    known[:4, 3] = known[:, 9] = 0.0
    yield case("edge cases", "losses of 0", losses=known, early=3, late=9)
    large = Drawn("B n", lambda rng, shape, sizes: rng.uniform(1e3, 1e5, shape))
    yield case("edge cases", "large losses, in a long text", losses=large, n=range(70, 90), late=range(65, 70))
    small = Drawn("B n", lambda rng, shape, sizes: rng.uniform(1e-6, 1e-5, shape))
    yield case("edge cases", "very small losses", losses=small)
    yield case("values", "the gradient of a score that is a tensor", gradient=True, rtol=1e-5)
    yield case("values", "float16", dtype=np.float16, rtol=0.02)
    yield case("values", IN_FLOAT64, rtol=RTOL_FLOAT64)


def of_means(losses_of):
    """Return a difference of two means. losses_of: (losses, early, late) -> the late and the early losses it uses."""

    def wrong(losses, early, late):
        at_late, at_early = losses_of(losses, early, late)
        return at_late.mean() - at_early.mean()

    return wrong


MISTAKES = (
    ("ratio", lambda x, e, t: x[:, t].mean() / x[:, e].mean(),
     "You divide the losses. Subtract them."),
    ("relative", lambda x, e, t: x[:, t].mean() / x[:, e].mean() - 1,
     "You divide the difference by the early loss. Return the plain difference."),
    ("rows-not-columns", of_means(lambda x, e, t: (x[t % len(x)], x[e % len(x)])),
     "You look for the positions on the first axis, which is the batch."),
    ("late-half-minus-early-half", of_means(lambda x, e, t: (x[:, t:], x[:, : e + 1])),
     "You average all losses up to `early`, and all from `late` on. Use only the losses at these two positions."),
    ("from-late-minus-before-early", of_means(lambda x, e, t: (x[:, t:], x[:, :e])),
     "You average the losses from `late` on and those before `early`, because `late:` and `:early` are ranges. Use "
     "only the losses at the two positions."),
    ("positions-sorted", of_means(lambda x, e, t: (x[:, max(e, t)], x[:, min(e, t)])),
     "You put the two positions in order first. Take them as they come, because `late` may be before `early`."),
    ("slope", lambda x, e, t: (x[:, t].mean() - x[:, e].mean()) / (t - e or 1),
     "You divide the difference by the distance of the positions."),
    ("perplexities", lambda x, e, t: x[:, t].mean().exp() - x[:, e].mean().exp(),
     "You subtract perplexities. Subtract the losses themselves."),
    ("mean-between", lambda x, e, t: x[:, min(e, t) : max(e, t) + 1].mean(),
     "You average the losses from one position to the other. Use only those at the two, one minus the other."),
    ("divided-by-n", lambda x, e, t: (x[:, t] - x[:, e]).sum() / x.shape[1],
     "You divide the sum over the batch by the number of tokens. Over how many losses does it run?"),
)  # fmt: skip

EXERCISE = exercise(
    in_context_learning_score,
    library="torch",
    credit={"values": 0.7, "edge cases": 0.3},
    ranges={"B": range(3, 7), "n": range(11, 17), "early": range(2, 5), "late": range(7, 11)},
)
