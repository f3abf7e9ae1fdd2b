"""Encryption on a real kernel client: the traffic matches what the connections report.

To prove it, a file consisting of a repeated marker word is written with a token, and the packets to
and from the fileserver are inspected on the fileserver.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.cell.client import VOLUME_PATH
from deploy.cell.node import SHARED, Node
from tests.vm.client_host import ClientHost
from tests.waiting import wait_for
from tuner.model import Value
from tuner.services.openafs import parse, tokens
from tuner.services.part import NotInEffect

pytestmark = [pytest.mark.vm, pytest.mark.cell, pytest.mark.timeout(1200)]

_SIZE = 2 << 20
#: Short enough to be contained in every data packet, wherever the packet begins in the file.
_WORD_BYTES = 16
#: Arguments: word, size and path.
_FILL = 'yes "$1" | tr -d "\\n" | head -c "$2" > "$3"'
_CAPTURE = Path(__file__).with_name("capture.py")


@dataclass(frozen=True)
class Traffic:
    """Captured traffic. ``marked``: number of packets that contain the marker."""

    packets: int
    size: int
    marked: int


def captured_write(client: ClientHost) -> Traffic:
    """Write a file of markers with the token while capturing the packets."""
    server: Node = client.guest.cell.server
    word = secrets.token_hex(_WORD_BYTES // 2).encode()
    (server.shared / "capture.py").write_bytes(_CAPTURE.read_bytes())
    ready, stop = server.shared / "ready", server.shared / "stop"
    for mark in (ready, stop):
        mark.unlink(missing_ok=True)
    outputs: list[str] = []

    def capture() -> None:
        argv = ["python3", "-I", f"{SHARED}/capture.py", str(parse.FILESERVER_PORT), word.hex()]
        outputs.append(server.check([*argv, f"{SHARED}/ready", f"{SHARED}/stop"]))

    thread = threading.Thread(target=capture)
    thread.start()
    try:
        wait_for(ready.exists, "the capture", 0.1)
        path = f"{VOLUME_PATH}/marked"
        client.output("sh", "-c", _FILL, "sh", word.decode(), str(_SIZE), path)
        client.output("rm", path)
    finally:
        stop.touch()
        thread.join()
    return Traffic(*map(int, outputs[0].split()))


def is_clear(traffic: Traffic) -> bool:
    """Whether the file was sent unencrypted; checks that it was all or nothing."""
    assert traffic.size > _SIZE, f"the file was not captured: {traffic}"
    assert traffic.marked == 0 or traffic.marked > 0.9 * _SIZE / 1444, f"some of it: {traffic}"
    return traffic.marked > 0


def test_the_encryption_setting_is_effective_on_the_wire(client: ClientHost) -> None:
    client.unit.start(client.unit.options)
    part = client.runtime
    for crypt in ("on", "off", "on"):
        part.apply({"crypt": crypt})
        assert part.read_back({"crypt": crypt}) == {"crypt": crypt}
        assert is_clear(captured_write(client)) is (crypt == "off")


def test_fs_setcrypt_alone_changes_nothing_and_is_detected(client: ClientHost) -> None:
    """Existing connections keep the encryption with which they were created, in both directions."""
    client.unit.start(client.unit.options)
    part = client.runtime
    part.apply({"crypt": "on"})
    assert not is_clear(captured_write(client))
    client.output("fs", "setcrypt", "off")
    assert parse.encryption(client.output("fs", "getcrypt")) == "off"
    assert not is_clear(captured_write(client))
    with pytest.raises(NotInEffect, match="should show off, it shows on"):
        part.read_back({"crypt": "off"})


def test_cold_caches_keep_the_encryption_of_the_arm(client: ClientHost) -> None:
    """Cold caches need a restart, which resets the encryption and loses tokens."""
    client.unit.start(client.unit.options)
    values: dict[str, Value] = {"crypt": "off", "store_behind": 64}
    client.runtime.apply(values)
    client.unit.start(client.unit.options)
    assert client.runtime.read_back(values) == values
    assert is_clear(captured_write(client))


def test_ticket_token_and_settings_are_removed_after_the_campaign(client: ClientHost) -> None:
    client.unit.start(client.unit.options)
    client.runtime.apply({"crypt": "off", "store_behind": 64, "bypass_threshold": 1 << 20})
    cell = parse.own_cell(client.output("fs", "wscell"))
    assert parse.has_valid_tokens(client.output("tokens"), cell)
    assert client.journals() == ["cache_manager", "client_runtime", "token"]
    client.unit.restore()
    client.runtime.restore()
    assert not parse.has_tokens(client.output("tokens"))
    assert parse.encryption(client.output("fs", "getcrypt")) == "on"
    assert client.output("fs", "storebehind").startswith("Default store asynchrony is 0 kbytes")
    assert parse.bypass_threshold(client.output("fs", "bypassthreshold")) == -1
    assert client.journals() == []
    assert client.run("sh", "-c", "ls /tmp/krb5cc_*").status != 0


def test_a_token_is_renewed_after_half_of_its_life_and_when_it_is_gone(
    client: ClientHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.unit.start(client.unit.options)
    assert client.unit.tokens is not None
    ticket = f"{client.unit.tokens.journal.directory}/ticket"
    cell = parse.own_cell(client.output("fs", "wscell"))
    first = client.output("klist", "-c", ticket)
    client.unit.refresh()
    assert client.output("klist", "-c", ticket) == first
    life_s = parse.ticket_life_s(first)
    assert life_s is not None
    now = tokens._now
    monkeypatch.setattr(tokens, "_now", lambda: now() + 0.5 * life_s)
    time.sleep(1.1)  # klist shows seconds
    client.unit.refresh()
    second = client.output("klist", "-c", ticket)
    assert second != first
    monkeypatch.undo()
    time.sleep(1.1)
    client.output("unlog")
    assert not parse.has_valid_tokens(client.output("tokens"), cell)
    client.unit.refresh()
    assert client.output("klist", "-c", ticket) != second
    assert parse.has_valid_tokens(client.output("tokens"), cell)
