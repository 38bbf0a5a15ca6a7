"""Defines the exercise `catches_wrong_decoder`, a test that tells wrong decoder layers from correct ones."""

import contextlib
import itertools

import torch

from ..kit import Leaf, black_box, exercise
from .decoder_experiment import told_by
from .decoder_inputs import refuse
from .decoder_layer import decoder_layer
from .decoder_suspects import suspects
from .right_decoders import RIGHT

CALLS = 5

#: Sizes and masks that together reveal every kind of bug; `mask` names a function below; d_self, d_cross are per head.
TRIALS = (
    {"B": 3, "n": 7, "m": 10, "h": 2, "d_self": 5, "d_cross": 3, "mask": "all"},
    {"B": 4, "n": 7, "m": 6, "h": 3, "d_self": 2, "d_cross": 4, "mask": "scattered"},
    {"B": 5, "n": 6, "m": 8, "h": 2, "d_self": 4, "d_cross": 2, "mask": "empty"},
    {"B": 3, "n": 3, "m": 3, "h": 3, "d_self": 3, "d_cross": 5, "mask": "scattered"},
    {"B": 2, "n": 1, "m": 1, "h": 4, "d_self": 3, "d_cross": 2, "mask": "all"},
)


def catches_wrong_decoder(layer) -> Leaf("bool", "the answer"):
    """Compare with PyTorch's own attention, on sizes and masks of every kind."""
    return suite(layer)


def scattered(allowed, generator):
    """Hide tokens anywhere, differently in every sequence; each keeps a token and, if m > 1, loses one."""
    B, m = allowed.shape
    allowed &= torch.rand(B, m, generator=generator) < 0.6
    for b in range(B):
        kept = (m - 1 - b) % m
        allowed[b, kept], allowed[b, (kept - 1) % m] = True, m == 1
    return allowed


def at_the_end(allowed, generator):
    B, m = allowed.shape
    return allowed & (torch.arange(m) < 1 + (torch.arange(B)[:, None] + m // 2) % m)


def empty(allowed, generator):
    allowed = scattered(allowed, generator)
    allowed[-1] = False
    return allowed


MASKS = {"all": lambda allowed, generator: None, "scattered": scattered, "at the end": at_the_end, "empty": empty}


def made(B, n, m, h, d_self, d_cross, mask, seed):
    """Draw inputs of a decoder layer."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, gain=1.0):
        return gain * torch.randn(*shape, generator=generator).double()

    d_model, d_source, params = 7, 9, {}
    for part, source, width in (("self", d_model, h * d_self), ("cross", d_source, h * d_cross)):
        for role, rows in (("Q", d_model), ("K", source), ("V", source)):
            params[f"{part}_W_{role}"] = normal(rows, width, gain=1.5 * rows**-0.5)
        params[f"{part}_W_O"] = normal(width, d_model, gain=width**-0.5)
    allowed = MASKS[mask](torch.ones(B, m, dtype=torch.bool), generator)
    return normal(B, n, d_model), normal(B, m, d_source), params, h, allowed


def many_kinds():
    """Yield inputs of every kind, among which to find those that reveal a bug."""
    sizes = ((7, 4, 2), (4, 7, 2), (6, 6, 2), (3, 5, 2), (5, 4, 3), (1, 5, 2), (5, 1, 2), (7, 9, 1))
    varied = [
        {"B": B, "n": n, "m": m, "h": h, "d_self": 3, "d_cross": 2, "mask": mask}
        for (n, m, h), mask, B in itertools.product(sizes, MASKS, (1, 3))
    ]
    for seed, trial in enumerate((*TRIALS, *varied)):
        yield made(**trial, seed=seed)


def suite(layer, *, fixed=None, also=None, looks=lambda out: out, off=1e-6, on_error=True, nan=True):
    """Return whether a layer differs from the correct one in any trial, with an option for each slip.

    fixed: sizes and masks that are the same in all trials; also: the same as a function of the trial.
    looks: which part of a result is compared. off: the largest relative difference that passes.
    on_error: the answer after an exception, or None to let it pass; nan: the answer after NaN.
    """
    for seed, trial in enumerate(TRIALS):
        trial = {**trial, **(fixed or {})}
        inputs = made(**{**trial, **(also(trial) if also else {})}, seed=seed)
        right = looks(decoder_layer(*inputs))
        try:
            found = looks(layer(*inputs))
        except ValueError:
            if on_error is None:
                raise
            return on_error
        if found.shape != right.shape:
            return True
        if found.isnan().any():
            if nan:
                return True
            continue
        if (found - right).abs().max() > off * right.abs().max():
            return True
    return False


def properties(layer):
    """Test only shapes, causality and independence of sequences, not the numbers themselves."""
    X, Y, params, h, mask = made(**TRIALS[1], seed=0)
    out = layer(X, Y, params, h, mask)
    later = X.clone()
    later[:, -1] += 1
    if (layer(later, Y, params, h, mask) - out)[:, :-1].abs().max() > 1e-6:
        return True
    return bool((layer(X[1:2], Y[1:2], params, h, mask[1:2]) - out[1:2]).abs().max() > 1e-6)


def says(answer):
    """Return a test that calls the layer once and always gives the same answer."""

    def wrong(layer):
        with contextlib.suppress(ValueError):
            layer(*made(**TRIALS[0], seed=0))
        return answer

    return wrong


def all_different(trial):
    """Return sizes that make all sizes different."""
    return {"B": 4, "m": 5} if trial["n"] == trial["m"] > 1 else {}


def cases(case):
    for criterion, kind, box in suspects(RIGHT, case.rng):
        layer = black_box(box, refuse, CALLS)
        yield case(criterion, kind, layer=layer, once=criterion != "plain")


ACCUSED = (
    "You report bugs in correct decoders. Is the layer that you compare them with correct? Two correct programs "
    "agree only up to rounding, and only on valid inputs. A decoder that you call too often refuses to answer, "
    "correct or not."
)
MISTAKES = (
    ("accuses-all", says(True), ACCUSED),
    ("accuses-none", says(False), "You never report a bug, not even in a grossly wrong decoder. What do you "
                                  "compare?"),
    ("one-sequence", {"fixed": {"B": 1}}, "You miss decoders that mix up the sequences or masks of a batch."),
    ("no-mask", {"fixed": {"mask": "all"}}, "You miss all decoders that treat the source mask wrongly."),
    ("padding-at-the-end", {"fixed": {"mask": "at the end"}},
     "You miss decoders that take every mask for padding at the end."),
    ("no-empty-source", {"also": lambda trial: {"mask": trial["mask"].replace("empty", "scattered")}},
     "You miss decoders that go wrong where a source has nothing allowed."),
    ("one-head", {"fixed": {"h": 1}}, "You miss decoders that go wrong between heads."),
    ("short-targets", {"also": lambda trial: {"n": min(trial["n"], 3)}},
     "You miss decoders that go wrong only after some tokens."),
    ("sizes-all-different", {"also": all_different},
     "You miss decoders that are right as long as all sizes differ. Which two could be taken for each other?"),
    ("last-token", {"looks": lambda out: out[:, -1:]}, "You miss decoders whose earlier outputs are wrong."),
    ("too-tolerant", {"off": 0.02}, "You miss decoders that are off by less than a hundredth."),
    ("nan-passes", {"nan": False}, "You let NaN pass. No comparison with NaN holds, not even that it is larger."),
    ("error-escapes", {"on_error": None}, "Your test stops when a decoder raises an exception. An exception is an "
                                          "answer, too."),
    ("numbers-unknown", properties, "You never compare the numbers themselves, so even gross faults pass."),
)  # fmt: skip

EXERCISE = exercise(
    catches_wrong_decoder,
    credit={
        "plain": 0.1,
        "causality": 0.15,
        "sublayers": 0.1,
        "heads and lengths": 0.15,
        "alike sizes": 0.1,
        "padding": 0.2,
        "batches": 0.1,
        "nothing allowed": 0.05,
        "small errors": 0.05,
    },
    slipped=suite,
    own_draws=True,
    by_case=True,
    experiment=told_by(many_kinds, decoder_layer),
    library="torch",
)
