"""Names of findings that tell a symptom: where an answer is wrong, and not why."""

from __future__ import annotations

#: How a finding begins that other cases refute.
ON_ORDINARY = "On ordinary inputs it answers"
#: How the names of findings begin that tell where it is wrong, and not why.
WEAK = (
    *("fails-", "only-", "not-general", "generator-unused", "wrong-names"),
    *("one-place", "last-entry-wrong", "ends-elsewhere"),
    *("some-missing", "too-many", "entries-differ", "stops-too-early"),
)
#: How the slugs of relations begin that name a symptom: two slips that explain the answer in full say more.
SYMPTOMS = (
    *WEAK,
    *("off-by-factor", "permuted", "same-numbers", "rows-"),
    *("first-row-only", "single-batch-only", "entries-missing"),
)
