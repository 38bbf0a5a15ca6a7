"""Draws models in which one head's keys read one earlier head's output, and decoy heads that a slip would choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..kit import Cases

#: Factors by which the best score must lead: normally, and where only rounding must not decide.
LEAD, CLEAR = 1.5, 1.01
TRIES = 1_000
#: The share that is kept of a gain's deviation from 1, in models that don't test the gain.
MILD = 0.2
#: A gain that hides part of the stream from a layer, and a factor for weights there.
SHUT, LOUD = 0.03, 8.0

Decoy = Callable[["Planted"], None]


class Planted:
    """Wraps a model whose weights are being changed; assignments to slices of its weights change the model itself.

    source, reader: (layer, head).
    """

    def __init__(self, rng: np.random.Generator, drawn: Mapping[str, Any], source: Any, reader: Any) -> None:
        self.rng, self.blocks = rng, drawn["params"]["blocks"]
        self.h, self.g, self.d_head = drawn["h"], drawn["g"], drawn["d_head"]
        self.source, self.reader = source, reader
        self.taken = {source, reader}

    def queries(self, layer: int, head: int) -> np.ndarray:
        return self.blocks[layer]["W_Q"][:, self._at(head)]

    def keys(self, layer: int, kv: int) -> np.ndarray:
        return self.blocks[layer]["W_K"][:, self._at(kv)]

    def values(self, layer: int, kv: int) -> np.ndarray:
        return self.blocks[layer]["W_V"][:, self._at(kv)]

    def writes(self, layer: int, head: int) -> np.ndarray:
        return self.blocks[layer]["W_O"][self._at(head)]

    def _at(self, head: int) -> slice:
        return slice(head * self.d_head, (head + 1) * self.d_head)

    def group(self, head: int) -> int:
        return head // (self.h // self.g)

    @property
    def gain(self) -> np.ndarray:
        return self.blocks[self.reader[0]]["gamma_1"]

    @property
    def read(self) -> np.ndarray:
        """Return the matrix with which the reader's keys read the stream, (d_model, d_head)."""
        return self.gain[:, None] * self.keys(self.reader[0], self.group(self.reader[1]))

    def aim(self, head: Any, at: np.ndarray, rows: slice = slice(None), noise: float = 0.3) -> None:
        """Make rows of a head's W_O write in the directions of the columns of `at` (d_model, width)."""
        written = self.writes(*head)[rows]
        turned = np.linalg.qr(self.rng.standard_normal((at.shape[1], at.shape[1])))[0]
        aimed = (
            self.rng.standard_normal((len(written), at.shape[1])) if len(written) != len(turned) else turned
        ) @ at.T
        size = np.linalg.norm(written)
        written[:] = size * aimed / np.linalg.norm(aimed) + noise * written

    def another(self, layers: Any = None) -> tuple[int, int]:
        """Return an unused head from a layer before the reader's, or from one of `layers`."""
        options = [
            (layer, head) for layer in (range(self.reader[0]) if layers is None else layers) for head in range(self.h)
        ]
        options = [one for one in options if one not in self.taken]
        found = options[int(self.rng.integers(len(options)))]
        self.taken.add(found)
        return found


def read_by_queries(model: Planted) -> None:
    """Make another head write what the reader's queries read."""
    layer, head = model.reader
    model.aim(model.another(), model.gain[:, None] * model.queries(layer, head), noise=0.05)


def read_by_other_keys(model: Planted) -> None:
    """Make other heads write what the keys of the other groups of the reader's layer read."""
    layer, head = model.reader
    own = model.group(head)
    for kv in (kv for kv in range(model.g) if kv != own):
        model.aim(model.another(), model.gain[:, None] * model.keys(layer, kv), noise=0.05)


def loud(model: Planted) -> None:
    """Make another head write a lot, in a random direction."""
    model.writes(*model.another())[:] *= 30


def heard_without_the_gain(model: Planted) -> None:
    """Make another head write where the reader's norm hides the stream and the reader's keys are large."""
    keys = model.keys(model.reader[0], model.group(model.reader[1]))
    shut = _shut(model)
    keys[shut] *= LOUD
    model.aim(model.another(), keys * shut[:, None], noise=0.05)


def _shut(model: Planted) -> np.ndarray:
    """Hide half of the stream by the reader's norm; return which half, as booleans."""
    shut = np.zeros(len(model.gain), bool)
    shut[model.rng.permutation(len(shut))[: len(shut) // 2]] = True
    model.gain[shut] = SHUT * np.sign(model.gain[shut])
    return shut


def asked_without_the_gain(model: Planted) -> None:
    """Make half of the reader's queries read only what its norm hides; another head writes to that half of the keys."""
    layer, head = model.reader
    shut, half = _shut(model), model.d_head // 2
    queries, keys = model.queries(layer, head), model.keys(layer, model.group(head))
    queries[:, :half] *= LOUD * shut[:, None]
    queries[:, half:] *= ~shut[:, None]
    keys[shut] *= 0.3  # keys of hidden parts would hardly count anyway
    keys[:, :half] *= 1.5
    model.aim(model.another(), model.read[:, :half], noise=0.05)
    model.aim(model.source, model.read[:, half:], noise=0.05)


def reads_what_the_keys_read(model: Planted) -> None:
    """Make another head, of another group, read what the reader's keys read, and write something else."""
    source = (model.source[0], model.group(model.source[1]))
    layer, head = model.another()
    while (layer, model.group(head)) == source:
        layer, head = model.another()
    model.values(layer, model.group(head))[:] = 1.5 * model.read / np.linalg.norm(model.read) * model.d_head


def asked_by_half(model: Planted) -> None:
    """Make the reader's queries hardly use half of their features; another head writes for that half of the keys."""
    layer, head = model.reader
    half = model.d_head // 2
    model.queries(layer, head)[:, :half] *= 0.05
    model.keys(layer, model.group(head))[:, :half] *= 1.5
    model.aim(model.another(), model.read[:, :half], noise=0.05)
    model.aim(model.source, model.read[:, half:], noise=0.05)


def other_values(model: Planted) -> None:
    """Make another head of the layer write like the source, but with small values in the features that are read.

    If possible, each of the two would use the other's values if heads took key/value heads in turn.
    """
    layer, head = model.source
    own, half, rest = model.group(head), slice(0, model.d_head // 2), slice(model.d_head // 2, None)
    others = [one for one in range(model.h) if model.group(one) != own]
    other = next((one for one in others if model.group(one) == head % model.g and one % model.g == own), others[0])
    model.taken.add((layer, other))
    model.aim((layer, head), model.read, half)
    model.aim((layer, other), model.read, half, noise=0.0)
    model.writes(layer, other)[rest] *= 0.5
    model.values(layer, own)[:, rest] *= 0.1
    model.values(layer, model.group(other))[:, half] *= 0.05


def of_its_own_layer(model: Planted) -> None:
    """Make a head of the reader's own layer write what its keys read most."""
    _best(model, model.reader[0])


def of_a_later_layer(model: Planted) -> None:
    """Make a head of a layer after the reader's write what its keys read most."""
    _best(model, len(model.blocks) - 1)


def _best(model: Planted, layer: int) -> None:
    queries = model.gain[:, None] * model.queries(*model.reader)
    most = np.linalg.svd(queries @ model.read.T)[2][:1]
    model.aim(model.another([layer]), most.T, noise=0.0)


#: Decoys that also plant the source, and decoys that test a wrong gain.
WHOLE = {asked_without_the_gain, asked_by_half, other_values}
OF_GAINS = {asked_without_the_gain, heard_without_the_gain}


def planted(
    case: Cases,
    scores: Callable[..., Any],
    source: tuple[int, int],
    reader: tuple[int, int],
    decoys: tuple[Decoy, ...],
    **sizes: int,
) -> dict[str, Any]:
    """Draw arguments of `find_source` until the source clearly scores best, with and without its own norm's gain.

    If the decoys don't test the reader's gain, the source also scores best without that gain and with its inverse.

    scores: of all candidates, (layers, heads), from the arguments and a slip.
    """
    slips = [({"own_gain": False}, LEAD), ({"own_gain": True}, LEAD)]
    if not OF_GAINS & {*decoys}:
        slips += [({"power": 0}, CLEAR), ({"power": -1}, CLEAR)]
    for _ in range(TRIES):
        drawn = case.draw(reader=reader, **sizes)
        model = Planted(case.rng, drawn, source, reader)
        if not OF_GAINS & {*decoys}:
            model.gain[:] = 1 + MILD * (model.gain - 1)
        for decoy in decoys:
            decoy(model)
        if not WHOLE & {*decoys}:
            model.aim(source, model.read)
        for block in model.blocks:
            block.update({name: one.astype(np.float32).astype(float) for name, one in block.items()})
        if all(_leads(scores(drawn, **slip), source, lead) for slip, lead in slips):
            return drawn
    raise ValueError(f"found no model in which {source} leads for {reader}")


def _leads(scores: np.ndarray, source: tuple[int, int], lead: float) -> bool:
    ordered = np.sort(scores, axis=None)
    return scores[source] == ordered[-1] >= lead * ordered[-2]
