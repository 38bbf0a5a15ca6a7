"""Live figures in a page of their own, as they are in a notebook, and what a reader does with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from attention_figures import live

STILL = '<img alt="a still picture" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">'
PAGE = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{}</title>{}</head><body><main>{}</main>'


class Figure:
    """A live figure that is open in a browser."""

    def __init__(self, page: Page, place: Locator):
        self.page, self.place = page, place

    @classmethod
    def opened(cls, page: Page, folder: Path, name: str, data: dict[str, Any], reduced: bool = True) -> Figure:
        """The figure in a page. reduced: without movement, as for readers who want none."""
        path = folder / f"{name}.html"
        meta = '<meta name="viewport" content="width=device-width">'
        path.write_text(PAGE.format(name, meta, live(name, data, STILL, "What is to be seen.")), encoding="utf-8")
        page.emulate_media(reduced_motion="reduce" if reduced else "no-preference")
        page.goto(path.as_uri())
        figure = cls(page, page.locator("figure.live"))
        assert figure.place.get_attribute("data-is") == "live", "the figure did not start"
        return figure

    @property
    def numbers(self) -> dict[str, Any]:
        """What the figure says that it shows."""
        return self.place.evaluate("figure => figure.numbers")

    @property
    def told(self) -> str:
        """What a screen reader was told last."""
        return self.place.locator(".told").inner_text()

    def switch(self, label: str) -> None:
        """Click a box to tick, by its label."""
        self.place.locator("label.toggle", has_text=label).click()

    def choose(self, label: str) -> None:
        """Click one of several, by its label."""
        self.place.get_by_role("radio", name=label, exact=True).click()

    def slide(self, label: str, to: float) -> None:
        """Move a slider."""
        self.place.get_by_role("slider", name=label).fill(str(to))
