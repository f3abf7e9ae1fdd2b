"""The error for a KDC that does not start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from deploy.cell import CellError, RawResult, kerberos


class Server:
    """Fake node on which every command works, but the KDC never starts."""

    name = "server"

    def __init__(self, shared: Path) -> None:
        self.shared = shared

    def run(self, argv: Sequence[str], **more: Any) -> RawResult:
        if argv[0] == "tail":
            return RawResult(0, b"krb5kdc: Address already in use\n  while binding\n", b"")
        return RawResult(1 if argv[0] == "test" else 0, b"", b"")


def test_the_end_of_its_log_is_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kerberos, "_READY_TIMEOUT_S", -1.0)
    server = cast(Any, Server(tmp_path))
    with pytest.raises(CellError, match=r"its log: krb5kdc: Address already in use while binding$"):
        kerberos.start(server, "fstune.test", "afs/fstune.test", "10.77.0.1", "/fstune/keytab")
