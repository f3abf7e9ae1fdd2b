"""What the script that restores a fileserver does when bosserver or its disk fails meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.services.openafs.network_host import (
    COMPANIONS,
    PROGRAM,
    NetworkHost,
    attach,
    host_in,
)
from tuner.errors import TestbedError
from tuner.hosts.restore_all import restore_all
from tuner.services.openafs.fileserver import Fileserver

pytestmark = pytest.mark.slow

TELL = "/usr/local/sbin/tell"


def tune(host: NetworkHost) -> Fileserver:
    """Change its options; forget the calls that this takes."""
    server = attach(host)
    server.apply({"threads": 20})
    host.calls()
    return server


def entry(*, goal: int = 1, notifier: str = "") -> str:
    """The entry of the original instance in BosConfig."""
    first = f"bnode dafs dafs {goal} {notifier}".rstrip()
    commands = (f"{PROGRAM} -p 12", *COMPANIONS)
    return "\n".join([first, *(f"parm {command}" for command in commands), "end"]) + "\n"


def patience(host: NetworkHost, seconds: int) -> None:
    script = host.here / "restore" / "fileserver" / "restore.sh"
    text = script.read_text()
    assert "\ncreate_s=30\n" in text
    script.write_text(text.replace("\ncreate_s=30\n", f"\ncreate_s={seconds}\n"))


def test_a_bosserver_that_is_away_after_a_deletion_is_awaited(server_host: NetworkHost) -> None:
    server = tune(server_host)
    server_host.write("crash", "create\nstatus\ncreate")
    assert server.restore() == f"fileserver on fs9 restarted as found: {PROGRAM} -p 12"
    assert (server_host.calls(), server_host.journals()) == (["start"], [])


def test_a_bosserver_that_was_away_is_not_taken_for_another_instance(
    server_host: NetworkHost,
) -> None:
    server = tune(server_host)
    server_host.write("away", "status\nstatus\nstatus")
    assert server.restore() == f"fileserver on fs9 restarted as found: {PROGRAM} -p 12"


def test_one_that_stays_away_is_given_up(server_host: NetworkHost) -> None:
    server = tune(server_host)
    patience(server_host, 1)
    server_host.write("crash", "call\n" * 100)
    with pytest.raises(TestbedError, match=r"bos: communications failure \(-1\)"):
        server.restore()
    assert server_host.journals() == ["fileserver"]
    (server_host.here / "away").unlink()
    assert "restarted as found" in server.restore()


@pytest.mark.parametrize("verb", ["delete", "create"])
def test_an_answer_that_was_lost_does_not_matter(server_host: NetworkHost, verb: str) -> None:
    server = tune(server_host)
    (server_host.here / f"lost-{verb}").touch()
    assert server.restore() == f"fileserver on fs9 restarted as found: {PROGRAM} -p 12"
    assert (server_host.calls(), server_host.journals()) == (["start"], [])


def test_an_instance_that_is_gone_when_bosserver_comes_back(server_host: NetworkHost) -> None:
    """As after an interruption between deletion and creation, and a crash."""
    server = tune(server_host)
    server_host.run(["bos", "delete"])
    server_host.write("away", "call\n" * 6)
    assert "restarted as found" in server.restore()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("BosConfig", "/etc/openafs/BosConfig"),
        ("local-BosConfig", "/usr/afs/local/BosConfig"),
    ],
)
def test_options_that_are_only_in_memory_are_not_restored(
    server_host: NetworkHost, name: str, path: str
) -> None:
    """The next start of bosserver would use those of the file."""
    config = server_host.here / name
    config.touch()
    server = tune(server_host)
    assert "-p 20" in config.read_text()
    (server_host.here / "full").touch()
    with pytest.raises(TestbedError, match=rf"{path} does not have .*full.*ions failure \(-1\)"):
        server.restore()
    assert "-p 20" in config.read_text()
    assert server_host.calls() == ["start", "setrestart sun 4:00 am"]
    # The watch tries it again, which interrupts nobody.
    with pytest.raises(TestbedError, match="left as found, but /"):
        restore_all(server_host, str(server_host.here))
    assert server_host.calls() == ["setrestart sun 4:00 am"]
    assert server_host.journals() == ["fileserver"]
    (server_host.here / "full").unlink()
    assert "left as found" in server.restore()
    assert server_host.calls() == ["setrestart sun 4:00 am"]
    assert config.read_text() == entry()
    assert (server_host.here / "synced").read_text().endswith(f"{path} {path[:-10]}\n")


def test_options_that_a_full_disk_keeps_in_memory_are_not_used(server_host: NetworkHost) -> None:
    """The next start of bosserver would undo what somebody has applied."""
    (server_host.here / "BosConfig").touch()
    server = tune(server_host)
    (server_host.here / "full").touch()
    with pytest.raises(TestbedError, match=r"fs9: bosserver has not written the options into /etc"):
        server.apply({"threads": 30})
    assert server_host.calls() == ["start", "setrestart sun 4:00 am"]
    (server_host.here / "full").unlink()
    assert server.apply({"threads": 30}) == "restart"


@pytest.mark.parametrize("stale", ["BosConfig", "local-BosConfig"])
def test_a_file_that_another_installation_has_left_does_not_matter(
    server_host: NetworkHost, stale: str
) -> None:
    for name in ("BosConfig", "local-BosConfig", f"{stale}.unused"):
        (server_host.here / name).touch()
    (server_host.here / stale).write_text("bnode dafs dafs 1\nparm /usr/afs/bin/old\nend\n")
    assert "restarted as found" in tune(server_host).restore()
    assert server_host.calls() == ["start"]
    assert "/old" in (server_host.here / stale).read_text()


def test_the_entry_says_which_notifier_it_has_and_whether_it_starts(tmp_path: Path) -> None:
    host = host_in(tmp_path, "fs9")
    (host.here / "BosConfig").touch()
    host.set_up_server("-p 12", "-notifier", TELL)
    assert (host.here / "BosConfig").read_text() == entry(notifier=TELL)
    assert "restarted as found" in tune(host).restore()
    assert host.calls() == ["start"]
    tune(host).apply({"threads": 12})
    (host.here / "temporarily").touch()
    (host.here / "BosConfig").write_text(entry(goal=0, notifier=TELL))
    host.calls()
    assert "left as found" in attach(host).restore()
    assert host.calls() == []
