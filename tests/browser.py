"""A real browser for tests: Debian's Chromium, unpacked but not installed, driven by Playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from deploy.cell.packages import ensure_packages

_PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
_PROGRAM = "usr/lib/chromium/chromium-headless-shell"
#: Some libraries are in directories of their own, to which an installation would add links.
_LIBRARIES = ("", "/pulseaudio", "/blas", "/lapack")


@contextmanager
def running(packages: Path) -> Iterator[Browser]:
    """Run a headless browser, with its packages stored in the directory ``packages``."""
    tree = ensure_packages(packages, print, name="chromium", packages=_PACKAGES)
    (libraries,) = (tree / "usr/lib").glob("*-linux-gnu")
    environment: dict[str, str | float | bool] = dict(
        os.environ,
        LD_LIBRARY_PATH=os.pathsep.join(f"{libraries}{below}" for below in _LIBRARIES),
        FONTCONFIG_PATH=str(tree / "etc/fonts"),
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=tree / _PROGRAM,
            # Its sandbox needs what root in a container often lacks, and it only opens our own
            # pages.
            args=["--no-sandbox"],
            env=environment,
            timeout=100_000,
        )
        try:
            yield browser
        finally:
            browser.close()
