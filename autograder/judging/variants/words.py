"""What is said of an answer that a change of the plain program explains."""

from __future__ import annotations

from collections.abc import Sequence

from ...data import Finding
from ...text import begun
from .variant import Variant


def of_whole(variant: Variant) -> Finding:
    """The change explains all results."""
    return Finding(variant.slug, f"It answers as if {variant.words}.")


def of_parts(names: Sequence[str], right: list[bool], partly: list[tuple[Variant, list[bool]]]) -> Finding | None:
    """Each result by itself: some are right, and each of the others is explained by a change of its own."""
    told, slugs = [], []
    for index, name in enumerate(names):
        if right[index]:
            continue
        variant = next((variant for variant, agree in partly if agree[index]), None)
        if variant is None:
            return None
        told.append((name, variant.words))
        slugs.append(variant.slug)
    if not told:
        return None
    fine = [name for name, good in zip(names, right, strict=True) if good]
    words = f"{begun(' and '.join(fine))}: right. " if fine else ""
    for name, said in told:
        words += f"{begun(name)}: as if {said}. "
    return Finding("-and-".join(dict.fromkeys(slugs)), words.strip())
