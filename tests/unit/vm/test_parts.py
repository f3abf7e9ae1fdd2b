"""Parts of a guest that need no machine: image names, second disk, command line, records."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deploy.cell import CellError, Cells, CellSpec
from deploy.vm import GuestOptions, Guests, Images, qemu, recipe, seed, sources
from tuner.errors import TestbedError
from tuner.hosts.connections import Hosts
from tuner.services.openafs.testbed_file import TestbedFile


def test_an_image_is_named_after_its_complete_recipe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = recipe.digest()
    assert before == recipe.digest()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/motd").write_text("one")
    monkeypatch.setattr(recipe, "_FILES", tmp_path)
    one = recipe.digest()
    (tmp_path / "etc/motd").write_text("two")
    assert len({before, one, recipe.digest()}) == 3


def test_an_incomplete_image_does_not_count(tmp_path: Path) -> None:
    directory = tmp_path / "images" / recipe.digest()
    directory.mkdir(parents=True)
    assert Images(tmp_path).current() is None
    manifest = {"kernel": "6.1.0-1-amd64", "openafs": "1.8.9-1", "seconds": {"image": 1.0}}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    image = Images(tmp_path).current()
    assert image is not None
    assert (image.name, image.kernel) == (recipe.digest(), "6.1.0-1-amd64")


def test_the_second_disk_has_public_names_and_secrets_for_root_only(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\0key")
    disk = tmp_path / "seed.tar"
    seed.write(disk, {seed.KEYTAB: tmp_path / "secret"}, "ssh-ed25519 AAAA\n")
    assert stat.S_IMODE(disk.stat().st_mode) == 0o600
    assert disk.stat().st_size % 512 == 0
    with tarfile.open(disk) as archive:
        entries = {entry.name: entry for entry in archive}
        file = archive.extractfile(seed.KEYTAB.lstrip("/"))
        assert file is not None
        assert file.read() == b"\0key"
    assert entries[seed.KEYTAB.lstrip("/")].mode == 0o600
    assert entries["root/.ssh"].mode == 0o700
    assert entries["etc/openafs/ThisCell"].mode == 0o644
    assert not [name for name in entries if name.startswith(("/", ".."))]
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(0, 0)}


def test_the_processor_is_emulated_unless_kvm_is_requested() -> None:
    words = qemu.command(GuestOptions(memory_mib=4096, processors=3), "guest")
    assert words[words.index("-accel") + 1].startswith("tcg")
    assert words[words.index("-m") + 1] == "4096"
    assert words[words.index("-smp") + 1] == "3"
    assert any("snapshot=on" in word for word in words)
    words = qemu.command(GuestOptions(kvm=True), "guest")
    assert words[words.index("-accel") + 1] == "kvm"


@pytest.mark.parametrize(
    ("options", "what"), [({"memory_mib": 512}, "memory"), ({"processors": 0}, "processors")]
)
def test_a_machine_that_is_too_small_is_rejected(options: dict[str, Any], what: str) -> None:
    with pytest.raises(CellError, match=f"{what}: .*is not between"):
        GuestOptions(**options)


def test_a_missing_device_is_reported_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int) -> int:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CellError, match=r"/dev/net/tun .*modprobe tun"):
        qemu.require_machine(GuestOptions())


def test_only_official_debian_sources_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        "Debian\thttp://mirror.example/debian/\tbookworm\tmain\t/usr/share/keyrings/d.gpg\n"
        "Debian\thttp://mirror.example/debian/\tbookworm\tmain\t/usr/share/keyrings/d.gpg\n"
        "Debian\thttp://mirror.example/security/\tbookworm-security\tmain\t\n"
        "Debian\thttp://mirror.example/debian/\ttrixie\tmain\t\n"
        "Others\thttp://others.example/\tbookworm\tmain\t\n"
    )
    monkeypatch.setattr(sources, "_output", lambda argv: listed)
    assert sources.source_lines() == [
        "deb [signed-by=/usr/share/keyrings/d.gpg] http://mirror.example/debian bookworm main",
        "deb http://mirror.example/security bookworm-security main",
    ]
    monkeypatch.setattr(sources, "_output", lambda argv: "")
    with pytest.raises(CellError, match="run apt-get update"):
        sources.source_lines()


@pytest.mark.slow
def test_an_apt_that_is_too_slow_is_a_failure_of_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_MOST_S", 0.2)
    with pytest.raises(CellError, match=r"^sleep 60: not finished after 0\.2 s$"):
        sources._output(["sleep", "60"])


def test_a_cell_with_a_kdc_needs_no_client() -> None:
    assert CellSpec(clients=0, kerberos=True).clients == 0
    with pytest.raises(CellError, match="not between 0 and 200"):
        CellSpec(clients=-1, kerberos=True)


def test_cells_without_a_guest_are_not_listed_as_guests(tmp_path: Path) -> None:
    record = {"spec": {"name": "a"}, "nodes": [], "ready": True}
    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "cell.json").write_text(json.dumps(record))
    (tmp_path / "cells" / "b").mkdir()
    assert Cells(tmp_path).names() == ["a", "b"]
    assert Guests(tmp_path).names() == ["b"]
    assert Guests(tmp_path).load("a") is None


def test_a_guest_is_not_searched_for_outside_its_cell(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text("")
    node = {"cell": "vm", "node": "server"}
    ssh = {"address": seed.ADDRESS, "known_hosts": "known_hosts", "agent": False, "netns": node}
    document = {
        "name": "guest",
        "path": "/afs/.:mount/fstune.test:bench",
        "server": {"reach": {"local": {}}, "address": "10.77.0.1", "volumes": ["bench"]},
        "clients": [{"name": "c", "reach": {"ssh": ssh}, "control": {"systemd": {}}}],
    }
    file = TestbedFile.model_validate(document)
    with (
        closing(Hosts(file, tmp_path, tmp_path / "state")) as connections,
        pytest.raises(TestbedError, match="no node 'server' of a private cell 'vm' is up"),
    ):
        connections.clients[0].ask(["true"])


def test_users_other_than_root_are_told_to_use_sudo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CellError, match=r"needs root .*sudo"):
        Guests(tmp_path).up("vm", GuestOptions())
    with pytest.raises(CellError, match=r"needs root .*sudo"):
        Images(tmp_path).ensure(lambda text: None)
    assert list(tmp_path.iterdir()) == []
