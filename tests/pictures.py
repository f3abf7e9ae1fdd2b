"""Makes the pictures of web pages in docs/pictures: run ``make pictures``.

A real campaign runs on a simulated testbed, a service displays it, and a browser takes screenshots
of that.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests import browser as browsers
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGN = """
name: example
seed: 7
testbed:
  simulated:
    noise: 0.04
    effects:
      - {parameter: cache_manager.daemons, low: 4, change: -0.12}
      - {parameter: cache_manager.chunksize, low: 18, change: -0.08}
spaces:
  cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons, stat, volumes, chunksize]}
workload: mixed-use
pilot: {blocks: 4, override: true}
budget: {wall_time: 40m}
"""
#: The screenshots: the file's name, the width and height of the page (px) and the colour scheme.
_SHOTS = (
    ("campaign-light", 1000, 900, "light"),
    ("campaign-dark", 1000, 900, "dark"),
    ("campaign-phone", 360, 740, "light"),
)


def main(directory: Path) -> None:
    """Write the pictures to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "campaign.yaml")
        file.write_text(CAMPAIGN)
        fstune = [sys.executable, "-c", "from tuner.cli import main; main()"]
        state = ["--state-dir", place]
        subprocess.run([*fstune, "run", str(file), *state], check=True, stdout=subprocess.DEVNULL)
        port = free_port()
        service = subprocess.Popen([*fstune, "serve", "--port", str(port), *state])
        try:
            _photograph(f"http://127.0.0.1:{port}", directory)
        finally:
            service.terminate()
            service.wait(60)


def _photograph(url: str, directory: Path) -> None:
    deadline = time.monotonic() + 60.0
    while True:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=10.0).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    with browsers.running(ROOT / "build" / "test-state" / "packages") as browser:
        for name, width, height, scheme in _SHOTS:
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page.goto(f"{url}/campaigns/last")
            page.wait_for_selector("#parameters svg.parallel")
            page.screenshot(path=directory / f"{name}.png")
            page.evaluate("document.getElementById('parameters').scrollIntoView()")
            page.screenshot(path=directory / f"{name.replace('campaign', 'effects')}.png")
            page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
