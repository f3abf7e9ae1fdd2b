"""Inspection of hosts without a testbed file, with outputs of real servers and clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
import yaml

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandResult, Connector
from tuner.services.openafs import facts
from tuner.services.openafs.first_look import ClientLook, look_at_client, look_at_server
from tuner.services.openafs.start import _HostDraft

ADDRESSES = (
    "2: eth0    inet 192.0.2.9/24 brd 192.0.2.255 scope global eth0\n"
    "3: eth1    inet 198.51.100.9/24 scope global eth1\n"
)
DAFS = "Instance dafs, (type is dafs) currently running normally.\n"
LISTED = (
    "Total number of volumes on server x partition /vicepa: 3\n"
    "bench                             536870918 RW          2 K On-line\n"
    "home                              536870921 RW          2 K On-line\n"
    "root.afs                          536870912 RW          4 K On-line\n"
    "Total volumes onLine 3 ; Total volumes offLine 0 ; Total busy 0\n"
)
SERVER = {
    "ip": ADDRESSES,
    "bos": f"{DAFS}    Command 1 is '/usr/lib/openafs/dafileserver'\n",
    "rxdebug": "AFS version:  OpenAFS 1.8.9-1-debian 2022-12-14 root@x\n",
    "vos": LISTED,
    "cat -- /etc/openafs/server/ThisCell": "example.org\n",
}
KERNEL = {
    "cat /proc/mounts": "proc /proc proc rw 0 0\nAFS /afs afs rw,relatime 0 0\n",
    "test -f /etc/sysconfig/openafs": "",
    "cat /etc/openafs/cacheinfo": "/afs:/usr/vice/cache:500000\n",
}


class AnsweringHost:
    """A host that answers commands by their first words; all other commands fail."""

    host = "fs9"

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        line = " ".join(argv)
        for command, output in self._answers.items():
            if line.startswith(command):
                return CommandResult(tuple(argv), 0, output, "")
        return CommandResult(tuple(argv), 1, "", "no such thing")


def host(answers: Mapping[str, str]) -> Connector:
    return cast("Connector", AnsweringHost(answers))


def test_a_server_tells_what_a_testbed_file_needs() -> None:
    look = look_at_server(host(SERVER))
    assert look.addresses == ("192.0.2.9", "198.51.100.9")
    assert (look.instance, look.cell, look.tunable) == ("dafs", "example.org", True)
    assert (look.volumes, look.root_volumes) == (("bench", "home"), ("root.afs",))


def test_a_volume_server_that_was_just_restarted_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a restart, vos fails for some seconds although the instance runs."""
    monkeypatch.setattr(facts, "_PAUSE_S", 0.0)

    class Restarted(AnsweringHost):
        left = 3

        def ask(
            self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
        ) -> CommandResult:
            if argv[0] == "vos" and self.left:
                self.left -= 1
                return CommandResult(tuple(argv), 1, "", "Possible communication failure\n")
            return AnsweringHost.ask(self, argv)

    look = look_at_server(cast("Connector", Restarted(SERVER)))
    assert look.volumes == ("bench", "home")


def test_another_version_is_told_apart() -> None:
    old = {**SERVER, "rxdebug": "AFS version:  OpenAFS 1.6.24 2021-01-01 root@x\n"}
    assert not look_at_server(host(old)).tunable


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ({"bos": "Instance fs, (type is fs) disabled.\n    Command 1 is '/x'\n"}, "fs of type fs"),
        ({"bos": "Instance fs, (type is fs) disabled.\n"}, "no instance"),
        ({"ip": ""}, "no address"),
        ({"vos": "Could not fetch the list\n"}, "vos listvol"),
    ],
)
def test_a_server_that_cannot_be_tuned_says_why(without: Mapping[str, str], message: str) -> None:
    with pytest.raises(TestbedError, match=f"fs9: .*{message}"):
        look_at_server(host({**SERVER, **without}))


DEBIAN_LOG, OPENAFS_LOG = "/var/log/openafs/FileLog", "/usr/afs/logs/FileLog"
BOTH_LOGS = {f"test -r {DEBIAN_LOG}": "", f"test -r {OPENAFS_LOG}": ""}


@pytest.mark.parametrize(
    ("command", "answers", "log"),
    [
        ("/usr/lib/openafs/dafileserver", BOTH_LOGS, DEBIAN_LOG),
        ("/usr/afs/bin/dafileserver", BOTH_LOGS, OPENAFS_LOG),
        ("/usr/lib/openafs/dafileserver", {f"test -r {OPENAFS_LOG}": ""}, OPENAFS_LOG),
        ("/usr/afs/bin/dafileserver -logfile /srv/log", {"test -r /srv/log": ""}, "/srv/log"),
        ("/usr/afs/bin/dafileserver", {}, ""),
    ],
)
def test_the_log_is_at_one_of_the_usual_places_or_where_the_options_say(
    command: str, answers: Mapping[str, str], log: str, tmp_path: Path
) -> None:
    other = "Instance fs, (type is fs) disabled.\n    Command 1 is '/x -logfile /other'\n"
    status = f"{other}{DAFS}    Command 1 is '{command}'\n{other}"
    look = look_at_server(host({**SERVER, **answers, "bos": status}))
    assert look.log == log
    client = ClientLook("c1", "systemd", ())
    draft = _HostDraft("fs9", ["c1"], "root", "", look, [client])
    text = draft.draft("192.0.2.9", "bench", "/afs/b", tmp_path / "b.yaml").file or ""
    file = yaml.safe_load(text)
    assert file["server"].get("log", DEBIAN_LOG) == (log or DEBIAN_LOG)


def test_a_kernel_client_is_known_by_its_mount_and_its_file() -> None:
    look = look_at_client(host(KERNEL))
    assert (look.control, look.program, look.words) == ("sysconfig", "afsd", ())
    debian = {**KERNEL, "test -f /etc/openafs/afs.conf": ""}
    # Debian's file, but not Debian's cache.
    assert look_at_client(host(debian)).words == (("cache", "/usr/vice/cache"),)


def test_options_choose_the_directories_of_a_kernel_client() -> None:
    options = {
        "cat -- /etc/sysconfig/openafs": 'AFSD_ARGS="-dynroot -cachedir /cache -mou /afs2"\n'
    }
    look = look_at_client(host({**KERNEL, **options}))
    assert dict(look.words) == {"mount": "/afs2", "cache": "/cache"}
    options = {"cat -- /etc/sysconfig/openafs": 'AFSD_ARGS="-confdir /srv"\n'}
    elsewhere = {"cat /srv/cacheinfo": "/afs:/srv/cache:1000\n"}
    look = look_at_client(host({**KERNEL, **options, **elsewhere}))
    assert dict(look.words) == {"cache": "/srv/cache"}


def test_two_cacheinfo_files_that_differ_are_named() -> None:
    other = {"cat /usr/vice/etc/cacheinfo": "/afs:/srv/cache:1000\n"}
    with pytest.raises(TestbedError, match=r"/usr/vice/etc/cacheinfo differ .*remove the other"):
        look_at_client(host({**KERNEL, **other}))


def test_a_fuse_client_is_known_by_its_process() -> None:
    command = "    0 afsd.fuse -dynroot -cachedir /srv/cache -mountdir /afs -blocks 200000\n"
    look = look_at_client(host({**KERNEL, "ps -C afsd.fuse": command}))
    assert (look.control, look.program) == ("fuse", "afsd.fuse")
    assert look.words == (("cache", "/srv/cache"),)


def test_a_process_of_another_user_is_no_client() -> None:
    decoys = "1000 afsd.fuse it's -mountdir /home/ada\n 1000 afsd.fuse\n"
    assert look_at_client(host({**KERNEL, "ps -C afsd.fuse": decoys})).program == "afsd"
    real = f"{decoys}    0 afsd.fuse -mountdir /net/it's\n"
    look = look_at_client(host({**KERNEL, "ps -C afsd.fuse": real}))
    assert dict(look.words)["mount"] == "/net/it's"


def test_a_host_without_a_client_says_so() -> None:
    with pytest.raises(TestbedError, match=r"neither afsd\.fuse nor the kernel client"):
        look_at_client(host({"cat /proc/mounts": "proc /proc proc rw 0 0\n"}))
