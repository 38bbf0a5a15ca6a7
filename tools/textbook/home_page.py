"""Collects the figures of the home page, which also has two short stories and the map of the course."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import SiteFailed
from .live_figures import names_in
from .unit_pages import Unit

#: The live figure that opens the site.
OPENING = ("11_real_model", "fig-all-heads")
#: The pictures of the two stories in `front.html`.
STORIES = {"phase": ("08_induction_heads", "training-figure"), "translator": ("06_cross_attention", "second-map")}


@dataclass(frozen=True)
class Front:
    """The parts of the units on the home page. figures: `opening`, and one for each story. live: names."""

    figures: dict[str, str]
    live: list[str]


def front_of(units: Sequence[Unit]) -> Front:
    """Find the figures. Raises SiteFailed if one is missing."""
    by_name = {unit.name: unit for unit in units}

    def figure(unit: str, cell: str) -> str:
        if unit not in by_name or cell not in by_name[unit].figures:
            raise SiteFailed(f"the home page asks for the figure of the cell {cell} of {unit}, which is not there")
        return by_name[unit].figures[cell]

    figures = {name: figure(*place) for name, place in {"opening": OPENING, **STORIES}.items()}
    figures["opening"] = figures["opening"].replace(' loading="lazy"', "")  # it is in view at once
    return Front(figures, names_in("".join(figures.values())))
