"""The kernel client managed by a systemd unit: its configuration file, and the order of actions.

The scripts are real, on a stand-in for a host; tests/vm has the same tests on a real host.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.services.openafs.kernel_client import ORIGINAL, Machine
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.local import LocalConnector
from tuner.hosts.restore_all import restore_all
from tuner.services.openafs import kernel_client


@pytest.mark.slow
def test_options_are_changed_with_an_empty_cache_and_restored(machine: Machine) -> None:
    client = machine.client()
    assert client.options == ("-chunksize", "18", "-afsdb")
    client.start(["-afsdb", "-chunksize", "20"])
    assert machine.options() == ("-afsdb", "-chunksize", "20")
    assert machine.calls() == ["stop", "start", "setcrypt on"]
    assert (machine.here / "afs.conf").stat().st_mode & 0o777 == 0o640
    assert list((machine.here / "cache").iterdir()) == []
    assert client.restore().endswith("started again as found: -chunksize 18 -afsdb")
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    assert (machine.here / "mounted").exists()
    assert not (machine.here / "restore" / "cache_manager").exists()


@pytest.mark.slow
def test_a_file_in_any_encoding_comes_back_byte_for_byte(machine: Machine) -> None:
    file = machine.here / "afs.conf"
    original = ORIGINAL.encode() + "# Gr\u00f6\u00dfe\r\n".encode("latin-1")
    file.write_bytes(original)
    machine.client().start(["-chunksize", "20"])
    assert "# Gr\u00f6\u00dfe".encode("latin-1") in file.read_bytes()
    again = machine.client()  # as when the campaign is resumed
    again.start(["-chunksize", "19"])
    again.restore()
    assert file.read_bytes() == original


@pytest.mark.slow
def test_nothing_is_started_while_the_old_client_is_there(machine: Machine) -> None:
    """Every start on a busy mount adds daemons, and the workload would run with the old options."""
    client = machine.client()
    machine.set("busy")
    with pytest.raises(TestbedError, match="stays mounted, in use by"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == ["stop"]
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    (machine.here / "busy").unlink()
    client.restore()
    assert (machine.here / "afs.conf").read_text() == ORIGINAL


@pytest.mark.slow
def test_processes_that_use_the_files_are_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = machine.client()
    (machine.here / "afs").mkdir()
    monkeypatch.chdir(machine.here / "afs")
    machine.set("busy")
    with pytest.raises(TestbedError, match=rf"in use by: .*\b{os.getpid()} \(.*was stopped"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == []
    assert client.restore().endswith("left as found: -chunksize 18 -afsdb")
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    assert machine.calls() == []


def test_files_that_are_mounted_twice_are_left_alone(machine: Machine) -> None:
    """A second mount would keep the module loaded after the first is unmounted."""
    client = machine.client()
    machine.set("second")
    with pytest.raises(TestbedError, match=r"also mounted at /srv/afs; .* nothing was stopped"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == []
    assert (machine.here / "afs.conf").read_text() == ORIGINAL


def test_nothing_is_stopped_if_the_unit_does_not_exist(machine: Machine) -> None:
    """The client would be unmounted and its cache emptied, and no start could bring it back."""
    client = machine.client()
    machine.set("no-unit")
    message = r"no unit openafs-client: No files found for openafs-client\.; nothing was stopped"
    with pytest.raises(TestbedError, match=message):
        client.start(["-chunksize", "20"])
    assert machine.calls() == []
    assert list((machine.here / "cache").iterdir()) != []
    assert client.restore().endswith("left as found: -chunksize 18 -afsdb")


def test_only_what_afsd_created_is_deleted(machine: Machine) -> None:
    """A cache may be on a partition that others use, too."""
    cache = machine.here / "cache"
    for name in ("CacheItems", "D0/V0", "D12/V40", "V1", "notes", "aquota.user", "other/V5"):
        (cache / name).parent.mkdir(exist_ok=True)
        (cache / name).write_text("x")
    client = machine.client()
    client.start(["-chunksize", "20"])
    left = sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())
    assert left == ["aquota.user", "notes", "other/V5"]
    assert sorted(path.name for path in cache.iterdir()) == ["aquota.user", "notes", "other"]


def test_a_client_whose_cache_cannot_be_wiped_is_started_again(machine: Machine) -> None:
    client = machine.client()
    machine.set("immutable")
    message = (
        r"cache cannot be wiped: find: cannot delete '\./V1'; openafs-client was started again"
    )
    with pytest.raises(TestbedError, match=message):
        client.start(["-chunksize", "20"])
    assert machine.calls() == ["stop", "start"]
    assert (machine.here / "mounted").exists()
    assert (machine.here / "afs.conf").read_text() == ORIGINAL


def test_nothing_is_stopped_if_the_module_could_not_be_loaded_again(machine: Machine) -> None:
    """An update of the kernel that waits for a reboot has removed it, for example."""
    client = machine.client()
    machine.set("no-module")
    with pytest.raises(TestbedError, match=r"ERROR: Module openafs not found.*nothing was stopped"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == []
    assert client.restore().endswith("left as found: -chunksize 18 -afsdb")


def test_a_client_that_somebody_starts_meanwhile_is_noticed(machine: Machine) -> None:
    """It runs with the old options, on a cache that was wiped under it."""
    client = machine.client()
    machine.set("timer")
    with pytest.raises(TestbedError, match="somebody else has started openafs-client while"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == ["stop"]
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    (machine.here / "timer").unlink()
    client.restore()
    assert machine.calls() == ["stop", "stop", "start", "setcrypt on"]


def test_extended_attributes_of_the_configuration_stay(machine: Machine) -> None:
    file = machine.here / "afs.conf"
    try:
        os.setxattr(file, "user.note", b"theirs")
    except OSError:
        pytest.skip("this file system has none")
    client = machine.client()
    client.start(["-chunksize", "20"])
    assert os.getxattr(file, "user.note") == b"theirs"
    client.restore()
    assert os.getxattr(file, "user.note") == b"theirs"


def test_a_volume_that_needs_a_token_is_there(machine: Machine) -> None:
    client = machine.client()
    program = machine.here / "bin" / "stat"
    program.write_text("#!/bin/sh\necho \"stat: cannot statx 'x': Permission denied\"; exit 1\n")
    program.chmod(0o755)
    client.start(["-chunksize", "20"])
    assert machine.options() == ("-chunksize", "20")


@pytest.mark.slow
def test_a_start_does_not_change_encryption(machine: Machine) -> None:
    (machine.here / "crypt").write_text("clear")
    machine.client().start(["-chunksize", "20"])
    (machine.here / "crypt").write_text("crypt (data security)")
    machine.client().restore()
    assert machine.calls() == ["stop", "start", "setcrypt off"] * 2


@pytest.mark.slow
def test_a_link_that_leads_nowhere_is_no_volume(machine: Machine) -> None:
    """A mount point created through afsd.fuse looks like this to the kernel client."""
    link = machine.here / "bench"
    link.symlink_to("#bench.")
    client = machine.client()
    client.place = replace(client.place, probe=str(link))
    script = machine.here / "restore" / "kernel-remount.sh"
    script.write_text(script.read_text().replace("ready_s=60", "ready_s=0"))
    with pytest.raises(ConfigurationError, match=r"does not serve .*/bench"):
        client.start([])


def test_a_module_that_stays_loaded_asks_for_a_reboot(machine: Machine) -> None:
    client = machine.client()
    machine.set("busy", "stuck")
    (machine.here / "mounted").unlink()
    with pytest.raises(TestbedError, match="only a reboot is safe"):
        client.start([])
    assert machine.calls() == ["stop", "afsd -shutdown"]


@pytest.mark.slow
def test_a_bad_option_is_the_configuration_s_fault(machine: Machine) -> None:
    client = machine.client()
    with pytest.raises(ConfigurationError, match="openafs-client does not start: afsd: Unknown"):
        client.start(["-nosuch"])
    assert machine.calls() == ["stop", "start", "stop"]
    machine.set("loaded")  # a start that failed may leave its module
    client.start(["-chunksize", "19"])
    assert machine.options() == ("-chunksize", "19")


@pytest.mark.slow
def test_a_run_that_was_cut_off_is_undone_by_the_next(machine: Machine) -> None:
    machine.client().start(["-chunksize", "20"])
    again = machine.client()
    assert again.options == ("-chunksize", "18", "-afsdb")
    again.restore()
    assert (machine.here / "afs.conf").read_text() == ORIGINAL


EDITED = ORIGINAL + "# by hand\nAFS_AFSDB=false\n"


def test_a_change_before_the_first_start_is_not_overwritten_either(machine: Machine) -> None:
    client = machine.client()
    (machine.here / "afs.conf").write_text(EDITED)
    with pytest.raises(TestbedError, match=r"somebody else has changed .*; nothing was stopped"):
        client.start(["-chunksize", "19"])
    assert machine.calls() == []
    assert client.restore().endswith("left as found: -chunksize 18 -afsdb")
    assert (machine.here / "afs.conf").read_text() == EDITED


@pytest.mark.slow
def test_changes_by_somebody_else_are_not_overwritten(machine: Machine) -> None:
    """The next arm refuses to run; a restore saves a copy first."""
    client = machine.client()
    client.start(["-chunksize", "20"])
    (machine.here / "afs.conf").write_text(EDITED)
    with pytest.raises(TestbedError, match=r"somebody else has changed .*afs\.conf meanwhile"):
        client.start(["-chunksize", "19"])
    assert (machine.here / "afs.conf").read_text() == EDITED
    assert machine.calls() == ["stop", "start", "setcrypt on"]
    message = client.restore()
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    (copy,) = (machine.here / "restore").glob("afs.conf.changed-*")
    assert copy.read_text() == EDITED
    assert f"somebody else had changed {machine.here}/afs.conf: kept as {copy}" in message


@pytest.mark.slow
def test_a_file_that_somebody_removed_is_restored(machine: Machine) -> None:
    client = machine.client()
    client.start(["-chunksize", "20"])
    (machine.here / "afs.conf").unlink()
    assert f"; somebody else had removed {machine.here}/afs.conf" in client.restore()
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    assert machine.journals() == []


@pytest.mark.slow
def test_a_full_disk_does_not_prevent_putting_back(machine: Machine) -> None:
    """Then what somebody else wrote is lost, and the message says so."""
    client = machine.client()
    client.start(["-chunksize", "20"])
    (machine.here / "afs.conf").write_text(EDITED)
    full = machine.here / "bin" / "cp"
    half = '*.changed-* | */applied.new) echo half > "$to"; echo full >&2; exit 1 ;;'
    full.write_text(
        f'#!/bin/sh\nfor to; do :; done\ncase $to in\n{half}\nesac\nexec /bin/cp "$@"\n'
    )
    full.chmod(0o755)
    assert "afs.conf, which could not be kept: full" in client.restore()
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    assert list((machine.here / "restore").glob("afs.conf.*")) == []
    assert machine.journals() == []


def fill_etc(machine: Machine) -> Path:
    """Let no complete configuration be written; returns the file that says so."""
    full = '[ ! -e "$HERE/full" ] || { echo half; echo "cat: write error: full" >&2; exit 1; }\n'
    machine.replace(
        "cat", "*) exec", f'*wanted | *configuration) {full} exec /bin/cat "$@" ;;\n*) exec'
    )
    machine.set("full")
    return machine.here / "full"


@pytest.mark.slow
def test_a_full_disk_is_noticed_before_the_client_is_stopped(machine: Machine) -> None:
    client = machine.client()
    full = fill_etc(machine)
    with pytest.raises(TestbedError, match=r"afs\.conf cannot be written: .* full; nothing was st"):
        client.start(["-chunksize", "20"])
    assert machine.calls() == []
    assert (machine.here / "afs.conf").read_text() == ORIGINAL
    assert list(machine.here.glob("afs.conf.*")) == []
    full.unlink()
    client.start(["-chunksize", "20"])
    assert machine.options() == ("-chunksize", "20")


@pytest.mark.slow
def test_a_client_goes_on_until_its_configuration_can_be_restored(machine: Machine) -> None:
    client = machine.client()
    client.start(["-chunksize", "20"])
    full = fill_etc(machine)
    with pytest.raises(TestbedError, match=r"afs\.conf cannot be written: .* full; nothing was st"):
        client.restore()
    assert machine.calls() == ["stop", "start", "setcrypt on"]
    assert machine.options() == ("-chunksize", "20")
    assert list(machine.here.glob("afs.conf.*")) == []
    assert machine.journals() == ["cache_manager"]
    full.unlink()
    assert client.restore().endswith("started again as found: -chunksize 18 -afsdb")
    assert (machine.here / "afs.conf").read_text() == ORIGINAL


@pytest.mark.slow
def test_a_symbolic_link_stays_one(machine: Machine) -> None:
    link, file = machine.here / "afs.conf", machine.here / "elsewhere"
    link.rename(file)
    link.symlink_to("elsewhere")
    client = machine.client()
    client.start(["-chunksize", "20"])
    assert "-chunksize 20" in file.read_text()
    client.restore()
    assert (os.readlink(link), file.read_text()) == ("elsewhere", ORIGINAL)
    assert file.stat().st_mode & 0o777 == 0o640


def test_what_a_run_that_was_cut_off_has_prepared_is_removed(machine: Machine) -> None:
    client = machine.client()
    machine.set("second")
    with pytest.raises(TestbedError, match="nothing was stopped"):
        client.start(["-chunksize", "20"])
    machine.set("afs.conf.fstune-new")
    assert client.restore().endswith("left as found: -chunksize 18 -afsdb")
    assert list(machine.here.glob("afs.conf.*")) == []


@pytest.mark.slow
def test_leftovers_of_a_killed_run_are_not_taken_for_foreign_changes(machine: Machine) -> None:
    machine.client().start(["-chunksize", "20"])
    journal = machine.here / "restore" / "cache_manager"
    (journal / "wanted").write_text("what the next arm would have been\n")
    machine.client().start(["-chunksize", "19"])
    assert "somebody else" not in machine.client().restore()
    assert list((machine.here / "restore").glob("afs.conf.*")) == []


@pytest.mark.slow
def test_putting_back_by_hand_twice_restarts_once(machine: Machine) -> None:
    machine.client().start(["-chunksize", "20"])
    command = ["sh", str(machine.here / "restore" / "cache_manager" / "restore.sh")]
    outputs = [LocalConnector().run(command).stdout for _ in range(2)]
    assert outputs == ["started again as found\n", "left as found\n"]
    assert machine.calls() == ["stop", "start", "setcrypt on"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["configuration", "found", "crypt", "sums", "restore.sh"])
@pytest.mark.parametrize("length", [0, 0.5])
def test_a_damaged_journal_does_nothing(machine: Machine, name: str, length: float) -> None:
    """An incomplete record is not used."""
    client = machine.client()
    client.start(["-chunksize", "20"])
    changed = (machine.here / "afs.conf").read_text()
    path = machine.here / "restore" / "cache_manager" / name
    path.write_bytes(path.read_bytes()[: int(length * path.stat().st_size)])
    with pytest.raises(TestbedError, match=r"restore.*: exit status"):
        client.restore()
    with pytest.raises(TestbedError, match="not restored: cache_manager: "):
        restore_all(LocalConnector(), str(machine.here))
    assert path.exists()
    assert (machine.here / "afs.conf").read_text() == changed
    assert machine.calls() == ["stop", "start", "setcrypt on"]
    if name != "restore.sh":
        with pytest.raises(TestbedError, match=r"journal .* is damaged"):
            machine.client()


@pytest.mark.slow
def test_a_journal_that_somebody_removed_is_written_again_to_restore(machine: Machine) -> None:
    client = machine.client()
    client.start(["-chunksize", "20"])
    shutil.rmtree(machine.here / "restore")
    client.restore()
    assert (machine.here / "afs.conf").read_text() == ORIGINAL


def test_effective_settings_are_read_from_the_client(
    machine: Machine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_client, "_PATIENCE_S", 0.0)
    client = machine.client()
    shows = machine.here / "bin" / "cmdebug"
    (machine.here / "shown").write_text((root / "tests/data/openafs/cmdebug-cache.txt").read_text())
    shows.write_text('#!/bin/sh\n[ "$*" = "127.0.0.1 -cache" ] && cat "$HERE/shown"\n')
    shows.chmod(0o755)
    assert client.effective()["cmdebug.chunk_files"] == 6250
    for script in ("echo nobody answers; exit 1", "echo rubbish"):
        shows.write_text(f"#!/bin/sh\n{script}\n")
        with pytest.raises(ConfigurationError, match="localhost: the client is gone"):
            client.effective()


def test_a_client_that_needs_a_moment_is_asked_again(
    machine: Machine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens on a slow host right after a start."""
    monkeypatch.setattr(kernel_client, "_POLL_S", 0.0)
    (machine.here / "shown").write_text((root / "tests/data/openafs/cmdebug-cache.txt").read_text())
    shows = machine.here / "bin" / "cmdebug"
    late = '[ -e "$HERE/asked" ] || { touch "$HERE/asked"; exit 1; }'
    shows.write_text(f'#!/bin/sh\n{late}\ncat "$HERE/shown"\n')
    shows.chmod(0o755)
    assert machine.client().effective()["cmdebug.chunk_files"] == 6250
