"""Prometheus metrics of the campaigns of a store, and of a worker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tuner.errors import SpecError
from tuner.states import CampaignState
from tuner.work.ending import JobEnd

#: Connections to the metrics at once, and how long one may be silent. Anybody on the machine can
#: connect, and the worker needs its open files for campaigns.
_MOST_CONNECTIONS, _SILENCE_S = 16, 5.0


class StoredCampaigns(Collector):
    """The number of campaigns in each state, counted on each scrape."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts = counts

    def collect(self) -> Any:
        """Yield the metric family."""
        counts = self._counts()
        family = GaugeMetricFamily("fstune_campaigns", "Campaigns stored.", labels=["state"])
        for state in CampaignState:
            family.add_metric([str(state)], counts.get(str(state), 0))
        yield family


class WorkerMetrics:
    """The metrics of one worker."""

    def __init__(self, concurrency: int) -> None:
        self.registry = CollectorRegistry()
        self.running = Gauge(
            "fstune_worker_running_campaigns",
            "Campaigns running in processes of this worker.",
            registry=self.registry,
        )
        self.taken_over = Counter(
            "fstune_worker_taken_over",
            "Campaigns of dead workers that this one has put back on the queue.",
            registry=self.registry,
        )
        self._runs = Counter(
            "fstune_worker_runs",
            "Ended runs, by outcome.",
            ["end"],
            registry=self.registry,
        )
        for job_end in JobEnd:
            self._runs.labels(str(job_end))
        Gauge(
            "fstune_worker_concurrency",
            "Campaigns it may run at once.",
            registry=self.registry,
        ).set(concurrency)
        self._last_beat = time.monotonic()
        Gauge(
            "fstune_worker_heartbeat_age_seconds",
            "Time since this worker's last heartbeat in the database.",
            registry=self.registry,
        ).set_function(lambda: time.monotonic() - self._last_beat)

    def note_beat(self) -> None:
        """Record a heartbeat."""
        self._last_beat = time.monotonic()

    def count_end(self, job_end: JobEnd) -> None:
        """Count a run that has ended."""
        self._runs.labels(str(job_end)).inc()

    def serve(self, address: str) -> Callable[[], None]:
        """Serve the metrics at HOST:PORT over plain HTTP; return a function that stops that.
        SpecError.
        """
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise SpecError(f"--metrics {address}: must be ADDRESS:PORT")
        try:
            app = make_wsgi_app(self.registry)
            server_type = _ServerOverIPv6 if ":" in host else _Server
            server = make_server(host.strip("[]"), int(port), app, server_type, _Handler)
        except OSError as error:
            raise SpecError(f"--metrics {address}: {error.strerror or error}") from error
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end


class _Handler(WSGIRequestHandler):
    """Answers one request, and writes no log."""

    timeout = _SILENCE_S

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """Serves each connection in a thread, as long as there are not too many."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any, **options: Any) -> None:
        self._places = threading.Semaphore(_MOST_CONNECTIONS)
        super().__init__(*args, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """See socketserver.BaseServer."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """See socketserver.ThreadingMixIn."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


class _ServerOverIPv6(_Server):
    address_family = socket.AF_INET6
