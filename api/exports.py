"""Download of complete campaigns as files, with a limit on concurrent exports."""

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
    """Export campaigns to unnamed temporary files.

    Concurrency is limited because each file takes disk space until it has been sent.
    """

    def __init__(self, store: Store, directory: Path) -> None:
        self._store = store
        self._directory = directory
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Take an export slot while a whole campaign is read for another purpose.

        Raises RequestError when all slots are taken.
        """
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
                "too many campaigns are being exported; try again later",
                {"Retry-After": "10"},
            )

    def response(self, campaign: str) -> ExportResponse:
        """Export a campaign as a response.

        Raises RequestError when too many exports are running, StoreError when the file cannot be
        written.
        """
        self._begin()
        try:
            # The file has no name, so nothing is left behind whatever happens. It is written
            # completely before sending starts, so that a slow reader does not block the database.
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
    """A file response that closes the file when it has been sent or the client has left."""

    def __init__(self, file: BinaryIO, campaign: str, places: threading.BoundedSemaphore) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        # An imported identifier may be any text.
        name = re.sub(r"[^A-Za-z0-9-]", "_", campaign)
        headers = {
            "Content-Length": str(size),
            "Content-Disposition": f'attachment; filename="{name}.jsonl.gz"',
        }
        super().__init__(_pieces(file), headers=headers, media_type=MEDIA_TYPE)
        self._file = file
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, then release its resources."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.close()

    def close(self) -> None:
        """Close the file and release its export slot."""
        self._file.close()
        self._places.release()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece
