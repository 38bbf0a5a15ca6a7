"""Submissions that do not play fair, by what they try, each with the marks that it is due."""

from __future__ import annotations

from . import death, exhaustion, feedback, files, network, notebooks, numeric, persistence, snooping, tampering
from .attack import CANARY, MARK, ROOT, Attack

KINDS = {
    module.__name__.rpartition(".")[2]: module.ATTACKS
    for module in (
        tampering, snooping, exhaustion, death, persistence, network, notebooks, files, feedback, numeric
    )
}  # fmt: skip

__all__ = ["CANARY", "KINDS", "MARK", "ROOT", "Attack"]
