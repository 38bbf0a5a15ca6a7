"""A browser for the tests in this folder. They run by `make test-browser` alone; `make test` leaves the folder out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("playwright.sync_api", reason="run `make test-browser`, which installs it")
from playwright.sync_api import Browser, Page, sync_playwright

from chromium import find_chromium, options


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    place = find_chromium()
    if place is None:
        pytest.fail("no Chromium here; run `make test-browser`, or name one: CHROMIUM=/path/to/chromium", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, headless=True, args=options())
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page of 1280 by 900; whatever the page logs as an error fails the test in the end."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors, f"the page raised: {errors}"


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    """A fresh page as wide as a phone, to be touched by a finger."""
    context = browser.new_context(viewport={"width": 360, "height": 800}, has_touch=True, is_mobile=True)
    yield context.new_page()
    context.close()
