"""Submissions that do not play fair, by what they try, each with the marks that it is due."""

from __future__ import annotations

from dataclasses import replace

from . import (
    boxes,
    death,
    exhaustion,
    feedback,
    fifth,
    files,
    fourth,
    network,
    notebooks,
    numeric,
    persistence,
    second,
    snooping,
    tampering,
    third,
)
from .attack import CANARY, MARK, ROOT, Attack

#: Kinds whose attacks cannot reach the other answers of their notebook: these are left out, which saves much time.
QUICK = (tampering, snooping, network, feedback, numeric)


def _alone(attack: Attack) -> Attack:
    return replace(attack, solved=attack.solved and not attack.cells)


KINDS = {
    module.__name__.rpartition(".")[2]: tuple(map(_alone, module.ATTACKS)) if module in QUICK else module.ATTACKS
    for module in (
        tampering, snooping, exhaustion, death, persistence, network, notebooks, files, feedback, numeric, second,
        third, fourth, fifth, boxes,
    )
}  # fmt: skip

__all__ = ["CANARY", "KINDS", "MARK", "ROOT", "Attack"]
