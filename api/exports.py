"""Whole campaigns as files for download, a few at a time."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.problems import RequestError
from tuner.errors import StoreError
from tuner.store import Store
from tuner.store.archive import write_campaign

MEDIA_TYPE = "application/gzip"
_AT_ONCE = 4
_PIECE_BYTES = 256 << 10


class Exports:
    """Campaigns written to files without names, a few at a time: each takes room on the disk until
    it has been sent.
    """

    def __init__(self, store: Store, directory: Path) -> None:
        self._store = store
        self._directory = directory
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While a whole campaign is read for something else. May raise RequestError."""
        self._begin()
        try:
            yield
        finally:
            self._places.release()

    def _begin(self) -> None:
        if not self._places.acquire(blocking=False):
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too-many",
                "too many campaigns are being exported; come again later",
                {"Retry-After": "10"},
            )

    def response(self, campaign: str) -> ExportResponse:
        """The answer that hands a campaign out. Raises RequestError when too many are at work, and
        StoreError when it cannot be written.
        """
        self._begin()
        try:
            # The file has no name: whatever happens, nothing is left of it. It is written whole
            # before any of it is sent, so that nobody who reads slowly holds up the database.
            file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115
            try:
                write_campaign(self._store, campaign, file)
            except BaseException:
                file.close()
                raise
        except BaseException as problem:
            self._places.release()
            if isinstance(problem, OSError):
                message = f"the export cannot be written: {problem.strerror}"
                raise StoreError(message) from problem
            raise
        return ExportResponse(file, campaign, self._places)


class ExportResponse(StreamingResponse):
    """A file as an answer, closed when it has arrived or its reader has left."""

    def __init__(self, file: BinaryIO, campaign: str, places: threading.BoundedSemaphore) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        # An identifier that was imported may be any text.
        name = re.sub(r"[^A-Za-z0-9-]", "_", campaign)
        headers = {
            "Content-Length": str(size),
            "Content-Disposition": f'attachment; filename="{name}.jsonl.gz"',
        }
        super().__init__(_pieces(file), headers=headers, media_type=MEDIA_TYPE)
        self._file = file
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file, and of its place among those at work."""
        self._file.close()
        self._places.release()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece
