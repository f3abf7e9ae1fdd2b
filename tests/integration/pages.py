"""A real browser for tests of pages, what it complains about, and a campaign to look at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests import browser as browsers

#: Much noise, so that nothing is decided early.
CAMPAIGN = """
name: watched
testbed:
  simulated:
    noise: 0.05
    effects: [{parameter: cache_manager.daemons, low: 4, change: -0.25}]
spaces:
  cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons, stat, volumes]}
workload: mixed-use
pilot: {blocks: 4, override: true}
search: {sampler: random, arms: 4}
budget: {wall_time: 20m}
"""
#: Long enough for a busy machine; waits end as soon as they can.
PATIENCE_MS = 100_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser(root: Path) -> Iterator[Browser]:
    with browsers.running(root / "build" / "test-state" / "packages") as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@dataclass
class Watched:
    """A page, and the errors on its console."""

    page: Page
    complaints: list[str]


@pytest.fixture
def watched(context: BrowserContext) -> Watched:
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return Watched(page, complaints)


def picture(page: Page, name: str) -> None:
    """Save a screenshot of the page for later inspection, in the directory FSTUNE_TEST_PICTURES."""
    if directory := os.environ.get("FSTUNE_TEST_PICTURES"):
        page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)


def barriers(page: Page) -> list[str]:
    """Return the accessibility problems that axe-core finds on a page."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {[n['html'][:200] for n in one['nodes']]}"
        for one in violations
    ]
