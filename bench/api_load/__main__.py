"""Puts load on a running ``fstune serve`` whose database holds a long campaign.

Run ``python -m bench.api_load [--rounds N] [--seconds S] [--watchers N]``. Requests are sent at a
steady rate, whether or not earlier ones have been answered; then many clients watch one campaign
while events are written. Everything is in a temporary directory.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2 as httpx
import numpy as np

from bench.store_scale.filling import SPEC, fill, finish
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_FIELDS = ("what", "requests", "p50_ms", "p95_ms", "p99_ms", "failed")
_RATE = 100
_START_S, _END_S = 60.0, 60.0
_EVENTS, _EVENTS_PER_S = 200, 20
_WARM_UP = 10

Row = list[object]


@contextmanager
def service(state: Path) -> Iterator[tuple[str, int]]:
    """Run a service on this state directory; yield its address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, FSTUNE_API_REQUESTS_PER_S="100000", FSTUNE_API_BURST="100000")
    environment |= {"FSTUNE_STATE_DIR": str(state), "FSTUNE_API_STREAMS": "2000"}
    environment.pop("FSTUNE_DATABASE_URL", None)
    program = "from tuner.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "serve", "--port", str(port)], cwd=_ROOT, env=environment
    )
    try:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + _START_S
        while True:
            try:
                httpx.get(f"{address}/healthz").raise_for_status()
                break
            except httpx.HTTPError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(timeout=_END_S)


def memory_mib(pid: int) -> float:
    """Return the peak resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no memory")


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def steady(address: str, paths: dict[str, list[str]], seconds: float) -> list[Row]:
    """Request all of ``paths`` in turn, at a fixed rate; return a row for each name.

    The time of a request counts from when it was due.
    """
    times_by_name: dict[str, list[float]] = {name: [] for name in paths}
    failed = dict.fromkeys(paths, 0)
    limits = httpx.Limits(max_connections=50, max_keepalive_connections=50)
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=30) as client:

        async def one(name: str, path: str, due: float) -> None:
            try:
                answer = await client.get(path)
                good = answer.status_code == 200
            except httpx.HTTPError:
                good = False
            failed[name] += not good
            times_by_name[name].append(asyncio.get_running_loop().time() - due)

        names = list(paths)
        for name in names * _WARM_UP:
            (await client.get(paths[name][0])).raise_for_status()
        began = asyncio.get_running_loop().time()
        tasks = []
        for number in range(round(seconds * _RATE)):
            due = began + number / _RATE
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            name = names[number % len(names)]
            path = paths[name][(number // len(names)) % len(paths[name])]
            tasks.append(asyncio.create_task(one(name, path, due)))
        await asyncio.gather(*tasks)
    rows: list[Row] = []
    for name, times in times_by_name.items():
        percentiles = np.percentile(1000.0 * np.array(times), [50, 95, 99]).round(1).tolist()
        rows.append([name, len(times), *percentiles, failed[name]])
    return rows


async def watch(port: int, path: str, last: int, connected: asyncio.Semaphore) -> list[int]:
    """Return the event numbers of a stream, up to ``last``."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await writer.drain()
        assert (await reader.readline()).split()[1] == b"200"
        connected.release()
        numbers: list[int] = []
        while not numbers or numbers[-1] < last:
            line = await reader.readline()
            if line.startswith(b"id:"):
                numbers.append(int(line.partition(b":")[2]))
        return numbers
    finally:
        writer.close()


async def crowd(address: str, store: Store, campaign: str, watchers: int) -> tuple[int, int, float]:
    """Have clients watch a campaign while events are written to it.

    Returns the number of watchers that got every event in order, the number of watchers, and the
    delay (s) from the last event until all had it.
    """
    newest = store.events(campaign)[-1].number
    last = newest + _EVENTS
    connected = asyncio.Semaphore(0)
    path = f"/v1/campaigns/{campaign}/events/stream"
    port = int(address.rpartition(":")[2])
    tasks = [asyncio.create_task(watch(port, path, last, connected)) for _ in range(watchers)]
    for _ in tasks:
        await connected.acquire()
    for number in range(_EVENTS):
        event = NewEvent(datetime.now(UTC), "measured", f"event {number}", {"block": number})
        await asyncio.to_thread(store.add_event, campaign, event)
        await asyncio.sleep(1.0 / _EVENTS_PER_S)
    last_event_s = time.monotonic()
    numbers_by_watcher = await asyncio.wait_for(asyncio.gather(*tasks), 120)
    late = time.monotonic() - last_event_s
    return (
        sum(numbers == list(range(1, last + 1)) for numbers in numbers_by_watcher),
        watchers,
        late,
    )


def measure(store: Store, state: Path, rounds: int, seconds: float, watchers: int) -> Iterator[Row]:
    """Fill the store, send requests and watch; yield the rows of results."""
    (long,) = fill(store, rounds, 1)
    finish(store, long)
    now = datetime.now(UTC)
    running = store.create_campaign("running", SPEC.to_json(), 1, now).id
    start_event = NewEvent(now, "campaign-started", "campaign started")
    store.move_campaign(running, CampaignState.RUNNING, "", start_event)
    with service(state) as (address, pid):
        trials = f"/v1/campaigns/{long}/trials"
        first = httpx.get(f"{address}{trials}", timeout=30).json()
        pages = [trials, f"{trials}?page={first['next']}", f"{trials}?limit=50"]
        paths = {
            "/v1/recommendations": ["/v1/recommendations"],
            "/v1/campaigns/{id}/recommendation": [f"/v1/campaigns/{long}/recommendation"],
            "/v1/campaigns/{id}/trials": pages,
        }
        before = processor_s(pid)
        yield from asyncio.run(steady(address, paths, seconds))
        count = round(seconds * _RATE) + _WARM_UP * len(paths)
        each = round(1000 * (processor_s(pid) - before) / count, 2)
        yield ["processor time of the service a request, ms", count, "", each, "", ""]
        yield ["memory after requests, MiB", "", "", round(memory_mib(pid)), "", ""]
        good, of, late = asyncio.run(crowd(address, store, running, watchers))
        what = f"{good} of {of} watchers got every event in order; the last, after ms"
        yield [what, _EVENTS, "", round(1000 * late), "", of - good]
        yield ["memory after streams, MiB", "", "", round(memory_mib(pid)), "", ""]
        for look in ("first", "second"):
            began = time.monotonic()
            httpx.get(f"{address}/campaigns/{long}", timeout=120).raise_for_status()
            took = round(1000 * (time.monotonic() - began))
            yield [f"page of the campaign, {look} look, ms", 1, "", took, "", ""]
        yield ["memory after the page, MiB", "", "", round(memory_mib(pid)), "", ""]


def main(rounds: int, seconds: float, watchers: int) -> None:
    """Measure; print and write the table."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        Store.open(Path(temporary)) as store,
        (_HERE / "results.csv").open("w", newline="") as file,
    ):
        output = csv.writer(file)
        output.writerow(_FIELDS)
        for row in measure(store, Path(temporary), rounds, seconds, watchers):
            print(*row, sep=" | ", flush=True)
            output.writerow(row)
            file.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2501)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--watchers", type=int, default=500)
    options = parser.parse_args()
    main(options.rounds, options.seconds, options.watchers)
