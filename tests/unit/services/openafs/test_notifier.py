"""bosserver's notifier, which is part of the instance that every change creates again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.services.openafs.network_host import PROGRAM, NetworkHost, attach, host_in
from tuner.errors import TestbedError
from tuner.hosts.restore_all import restore_all

TELL = "/usr/local/sbin/tell"


@pytest.fixture
def server_host(tmp_path: Path) -> NetworkHost:
    host = host_in(tmp_path, "fs9")
    host.set_up_server("-p 12", "-notifier", TELL)
    return host


def notifier(host: NetworkHost) -> str:
    path = host.here / "notifier"
    return path.read_text().strip() if path.exists() else ""


@pytest.mark.slow
def test_a_change_and_putting_back_keep_it(server_host: NetworkHost) -> None:
    attach(server_host).apply({"threads": 20})
    assert notifier(server_host) == TELL
    again = attach(server_host)  # as when the campaign is resumed
    again.apply({"threads": 21})
    assert notifier(server_host) == TELL
    assert "restarted as found" in again.restore()
    assert notifier(server_host) == TELL
    assert attach(server_host).restore().startswith("fileserver on fs9 left as found")


@pytest.mark.slow
def test_one_that_was_lost_comes_back(server_host: NetworkHost) -> None:
    attach(server_host).apply({"threads": 20})
    (server_host.here / "notifier").unlink()
    restore_all(server_host, server_host.directory.removesuffix("/restore"))
    assert notifier(server_host) == TELL


@pytest.mark.slow
def test_an_instance_without_one_gets_none(tmp_path: Path) -> None:
    host = host_in(tmp_path, "fs9")
    host.set_up_server()
    server = attach(host)
    server.apply({"threads": 20})
    server.restore()
    assert notifier(host) == ""


@pytest.mark.slow
def test_a_journal_of_an_older_version_has_no_record_of_it(server_host: NetworkHost) -> None:
    attach(server_host).apply({"threads": 20})
    journal = Path(server_host.directory) / "fileserver"
    (journal / "notifier").unlink()
    with pytest.raises(TestbedError, match=r"journal .* is damaged"):
        attach(server_host)
    sums = journal / "sums"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if not line.endswith(" notifier\n")))
    assert attach(server_host).notifier == (TELL,)


@pytest.mark.slow
@pytest.mark.parametrize(("other", "now"), [("/opt/other", "/opt/other"), ("", "none")])
def test_one_that_somebody_changes_during_a_campaign_is_not_dropped_without_a_word(
    server_host: NetworkHost, other: str, now: str
) -> None:
    server = attach(server_host)
    server.apply({"threads": 20})
    if other:
        server_host.write("notifier", other)
    else:
        (server_host.here / "notifier").unlink()
    changed = f"somebody else has changed the instance dafs .*, notifier: {now} instead of {TELL}"
    with pytest.raises(TestbedError, match=changed):
        server.incarnation()
    with pytest.raises(TestbedError, match=f"{changed}; nothing was stopped"):
        server.apply({"threads": 21})
    assert notifier(server_host) == other
    sentence = server.restore()
    assert f"; somebody else had created it: {PROGRAM} -p 20;" in sentence
    assert f" notifier: {now};" in sentence
    assert notifier(server_host) == TELL
