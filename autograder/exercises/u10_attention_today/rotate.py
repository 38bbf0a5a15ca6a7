"""Defines the exercise `rotate`, rotary positions on Llama's halves; the reference uses complex numbers."""

import numpy as np
import torch

from ..kit import Drawn, Leaf, exercise, normal, strided

POSITIONS = Drawn("n", lambda rng, shape, sizes: rng.permutation(40)[: shape[0]])


def rotate(x: normal("B h n d"), positions: POSITIONS, base: float = 10000.0) -> Leaf("float array", "the result"):
    half = x.shape[-1] // 2
    steps = torch.arange(half, dtype=torch.float64) / half
    angles = positions.double()[:, None] * float(base) ** -steps
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


def plain(x, positions, base=10000.0):
    d = x.shape[-1]
    half = d // 2
    p = torch.arange(half, dtype=torch.float64)
    speeds = base ** (-2 * p / d)
    angles = torch.outer(positions.double(), speeds)
    cos = torch.cos(angles).to(x.dtype)
    sin = torch.sin(angles).to(x.dtype)
    first = x[..., :half]
    second = x[..., half:]
    turned_first = first * cos - second * sin
    turned_second = second * cos + first * sin
    return torch.cat([turned_first, turned_second], dim=-1)


def cases(case):
    loose = {"rtol": 1e-4}
    few = Drawn("n", lambda rng, shape, sizes: rng.permutation(9)[: shape[0]])
    yield case("values", "positions below 9, not in order", positions=few, **loose)
    yield case("values", "behind a cache (the first position is not 0)", positions=behind(case), **loose)
    yield case("values", "gaps between the positions", positions=spread_out(case), **loose)
    yield case("values", "float32", dtype=np.float32, **loose)
    yield case("positions", "positions up to 1,000, float32", dtype=np.float32, positions=far(case), rtol=3e-4)
    yield case("positions", "positions that are no whole numbers", positions=halves_too(case), **loose)
    yield case("positions", "all positions 0: nothing turns", positions=np.zeros(5, np.int64), **loose)
    yield case("positions", "positions below 0", positions=-1 - case.rng.permutation(9)[:5], **loose)
    yield case("base", "base = {base}", base=float(case.rng.integers(20, 90)), **loose)
    yield case("base", "base = {base} by name", base=500000.0, by_name="base", positions=far(case), rtol=3e-4)
    yield case("shapes", "x of two axes (n, d)", x=normal("n d"), **loose)
    yield case("shapes", "x of three axes (B, n, d)", x=normal("B n d"), **loose)
    yield case("shapes", "a single pair (d = 2)", d=2, **loose)
    yield case("shapes", "a single token (n = 1)", n=1, positions=np.array([int(case.rng.integers(3, 30))]), **loose)
    yield case("shapes", "memory that is not contiguous", layout={"x": strided}, **loose)
    yield case("shapes", "x of five axes (2, B, h, n, d)", x=normal("2 B h n d"), **loose)
    twice = np.array([3, 8, 3, 0, 8], np.int32)
    yield case("positions", "positions of int32, some of them equal", positions=twice, **loose)
    yield case("positions", "positions around 5,000", positions=case.rng.integers(4_500, 5_500, 6), rtol=3e-3)
    yield case("base", "base = 1: all pairs turn alike", base=1.0, **loose)
    drawn = case.draw(positions=halves_too(case))
    drawn["x"][..., 1, :] = 0.0
    yield case("gradients", "gradients, floating positions, a token of zeros", gradient=True, **drawn, **loose)


def behind(case):
    start = int(case.rng.integers(5, 30))
    return Drawn("n", lambda rng, shape, sizes: np.arange(start, start + shape[0]))


def spread_out(case):
    return Drawn("n", lambda rng, shape, sizes: np.sort(3 + rng.permutation(60)[: shape[0]]))


def far(case):
    return Drawn("n", lambda rng, shape, sizes: rng.integers(200, 1000, shape))


def halves_too(case):
    return Drawn("n", lambda rng, shape, sizes: np.arange(shape[0]) * 0.5 + rng.integers(0, 9, shape) + 0.25)


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes


def turned(
    x, positions, base=10000.0, *, neighbours=False, where=lambda positions, n: positions,
    spread=lambda angles: (angles, angles),
):  # fmt: skip
    """Rotate with slips.

    neighbours: whether adjacent columns form a pair. where: the positions that are used. spread: the angles of both
    halves.
    """
    d = x.shape[-1]
    rows = where(positions, x.shape[-2]).double()
    angles = rows[:, None] * float(base) ** -(2 * torch.arange(d // 2).double() / d)
    here, there = spread(angles)
    one, other = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., : d // 2], x[..., d // 2 :])
    first = one * here.cos() - other * here.sin()
    second = other * there.cos() + one * there.sin()
    joined = torch.stack([first, second], -1).flatten(-2) if neighbours else torch.cat([first, second], -1)
    return joined.to(x.dtype)


def by_index(positions, n):
    return torch.arange(n)


def by_neighbours(angles):
    """Repeat each angle twice in a row, 0 0 1 1 …, although halves need 0 1 … 0 1 …."""
    return angles.repeat_interleave(2, dim=-1).chunk(2, dim=-1)


def added(x, positions, base=10000.0):
    """Add the sinusoidal positions of 2017."""
    half = x.shape[-1] // 2
    angles = positions.double()[:, None] * float(base) ** (-torch.arange(half).double() / half)
    return (x + torch.cat([angles.sin(), angles.cos()], dim=-1)).to(x.dtype)


MISTAKES = (
    ("neighbouring-pairs", {"neighbours": True},
     "You rotate columns 0 and 1, 2 and 3, … together. Here column i rotates with column i + d/2."),
    ("by-index", {"where": by_index},
     "Your angles follow the index of the row, 0, 1, 2, …. Use `positions`, which need not begin at 0."),
    ("angles-by-neighbours", {"spread": by_neighbours},
     "You lay out the angles for neighbouring pairs, but the columns for halves. Which columns belong to pair i?"),
    ("added", added, "You add sines and cosines to x, as in 2017. Rotary positions rotate x instead."),
)  # fmt: skip

EXERCISE = exercise(
    rotate,
    credit={"values": 0.5, "positions": 0.15, "base": 0.1, "shapes": 0.15, "gradients": 0.1},
    sizes=range(2, 8),
    ranges={"d": (6, 8, 10, 12)},
    least={"d": 2},
    slipped=turned,
    library="torch",
)
