"""Times the page of a long campaign: the first request after the service started, and later ones.

Run ``python -m bench.store_scale.pages [--rounds N] [--directory DIR]``. A given directory is
filled once and then reused, even by another release of fstune: two releases can be compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from starlette.testclient import TestClient

from api.app import create_app
from bench.store_scale.filling import fill
from tuner.settings import ServiceSettings
from tuner.store import Store, holds_one

_PATIENCE_S = 600.0


def filled(directory: Path, rounds: int) -> None:
    """Fill a directory unless it has a database already."""
    if not holds_one(directory):
        with Store.open(directory) as store:
            fill(store, rounds, 1)


def timed(client: TestClient, path: str) -> tuple[float, float, str]:
    """Return wall and processor time (s) of one response, and its text."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = client.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - wall, time.process_time() - cpu, answer.text


def main(directory: Path, rounds: int) -> None:
    """Fill the directory, time the requests and print the results."""
    filled(directory, rounds)
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(create_app(directory, settings), base_url="http://localhost") as client:
        began = time.perf_counter()
        wall, cpu, text = timed(client, "/campaigns/last")
        print(f"first answer: {wall:.2f} s ({cpu:.2f} s of processor time), {len(text)} bytes")
        while "data-again" in text and time.perf_counter() - began < _PATIENCE_S:
            time.sleep(0.1)
            text = timed(client, "/campaigns/last/live")[2]
        print(f"all of it, effects too: {time.perf_counter() - began:.2f} s after it was asked for")
        for what in ("second look", "third look"):
            wall, cpu, text = timed(client, "/campaigns/last")
            print(f"{what}: {wall:.2f} s ({cpu:.2f} s of processor time), {len(text)} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2501)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    if options.directory is not None:
        options.directory.mkdir(parents=True, exist_ok=True)
        main(options.directory, options.rounds)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary), options.rounds)
