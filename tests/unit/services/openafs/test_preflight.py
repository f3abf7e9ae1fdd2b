"""The decision whether hosts may be changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tuner.services.facts import HostFacts
from tuner.services.hours import HoursSection
from tuner.services.kind import Finding
from tuner.services.openafs.facts import ClientFacts, ServerFacts
from tuner.services.openafs.hosts import disks
from tuner.services.openafs.preflight import preflight
from tuner.services.openafs.testbed_file import TestbedFile, read_testbed

FILE_DIRECTORY = Path(__file__).parents[3] / "data" / "testbeds"
FILE = read_testbed(FILE_DIRECTORY / "everything.yaml")
EVENING = datetime(2026, 3, 1, 21, 0, tzinfo=UTC)
GIB = 1 << 30


def host(name: str, address: str) -> HostFacts:
    return HostFacts(
        host=name,
        system="Debian",
        kernel="6.1",
        cpus=2,
        memory_bytes=8 * GIB,
        available_bytes=6 * GIB,
        python="3.11.2",
        clock_ahead_s=0.0,
        asked_s=0.01,
        addresses=frozenset({"127.0.0.1", address}),
        free_bytes=(("/var", 10 * GIB),),
    )


SERVER = host("fs9", "192.0.2.9")
CLIENTS = (host("c1", "192.0.2.1"), host("c2", "192.0.2.2"))
PROGRAMS = ServerFacts(
    state="(type is dafs) currently running normally",
    commands=("/usr/lib/openafs/dafileserver",),
    volumes=frozenset({"bench"}),
    clients=frozenset({"192.0.2.1"}),
    quota_kib=0,
    used_kib=2,
)


STOPPED = "(type is dafs) disabled, currently shutdown"
FOR_NOW = "(type is dafs) temporarily enabled, currently running normally"
TRADITIONAL = "(type is fs) currently running normally"


def look(
    server: HostFacts = SERVER,
    programs: ServerFacts = PROGRAMS,
    clients: tuple[HostFacts, ...] = CLIENTS,
    file: TestbedFile = FILE,
    now: datetime = EVENING,
    needs: dict[str, int] | None = None,
    caches: tuple[ClientFacts, ...] = (),
    workload_bytes: int = 0,
) -> tuple[Finding, ...]:
    of_server = (server, programs)
    return preflight(file, of_server, clients, needs or {}, now, caches, workload_bytes)


def test_a_spare_server_with_its_own_clients_is_fine() -> None:
    assert look() == ()


def test_a_server_that_is_restarted_needs_space_for_its_log() -> None:
    """On a full disk, a server that starts would count as one that does not."""
    directory, log = FILE.restore.directory, FILE.server.log
    server, *clients = disks(FILE, restarts=True)
    assert server == [directory, log]
    assert clients == [[directory, one.control.way.cache] for one in FILE.clients]
    assert disks(FILE, restarts=False)[0] == [directory]


@pytest.mark.parametrize(
    ("programs", "host_name", "message"),
    [
        (replace(PROGRAMS, volumes=frozenset({"bench", "home.ada"})), "fs9", "home.ada"),
        (replace(PROGRAMS, volumes=frozenset()), "fs9", "does not serve bench"),
        (replace(PROGRAMS, offline=frozenset({"bench"})), "fs9", "its volume bench is off-line"),
        (replace(PROGRAMS, clients=frozenset({"198.51.100.7"})), "fs9", "198.51.100.7"),
        (replace(PROGRAMS, state=STOPPED), "fs9", "currently shutdown; start it first"),
        (
            replace(PROGRAMS, state=FOR_NOW),
            "fs9",
            "nobody: bos start 192.0.2.9 dafs -localauth",
        ),
        (replace(PROGRAMS, state=TRADITIONAL), "fs9", "create it as dafs yourself"),
        (replace(PROGRAMS, restricted=True), "fs9", "then bos setrestricted 192.0.2.9 0 -local"),
        (replace(PROGRAMS, quota_kib=5000, used_kib=4000), "fs9", "quota"),
        (
            replace(PROGRAMS, no_log="/log cannot be read"),
            "fs9",
            "fileserver starts: /log cannot be read",
        ),
    ],
)
def test_what_others_need_is_not_touched(
    programs: ServerFacts, host_name: str, message: str
) -> None:
    (finding,) = look(programs=programs)
    assert finding.refuses
    assert finding.host == host_name
    assert message in finding.message


@pytest.mark.parametrize(("size_mib", "warns"), [(100, False), (133, False), (134, True)])
def test_a_quota_below_the_size_of_the_workload_is_a_warning(size_mib: int, warns: bool) -> None:
    """It does not prevent a campaign: a resumed one first removes what its last run left. Each of
    three clients has files of its own.
    """
    programs = replace(PROGRAMS, quota_kib=500 << 10, used_kib=100 << 10)
    findings = look(programs=programs, workload_bytes=size_mib << 20)
    assert len(findings) == warns
    for finding in findings:
        assert not finding.refuses
        assert finding.message == (
            "volume bench has 400 MiB of its quota left, and the workload's files need "
            f"{3 * size_mib} MiB; raise it, or empty the volume"
        )
    unlimited = replace(programs, quota_kib=0)
    assert look(programs=unlimited, workload_bytes=size_mib << 20) == ()


@pytest.mark.parametrize(
    "hours", [None, HoursSection.model_validate({"start": "20:00", "end": "06:00"})]
)
def test_those_who_use_a_server_by_day_may_be_gone_later(hours: HoursSection | None) -> None:
    """A campaign that waits for its hours goes on waiting until they are; another volume stays."""
    file = FILE.model_copy(update={"hours": hours})
    (stranger,) = look(programs=replace(PROGRAMS, clients=frozenset({"198.51.100.7"})), file=file)
    facts = ClientFacts("c1", True, holders=("17",))
    (holder,) = look(caches=(facts, ClientFacts("c2", True)), file=file)
    assert stranger.refuses
    assert holder.refuses
    assert (stranger.may_pass, holder.may_pass) == (hours is not None, hours is not None)
    (volume,) = look(programs=replace(PROGRAMS, volumes=frozenset({"bench", "home"})), file=file)
    assert volume.refuses
    assert not volume.may_pass
    # A volume of which only the number is known is busy: it may be the testbed's own.
    (busy, missing) = look(programs=replace(PROGRAMS, volumes=frozenset({"536870915"})), file=file)
    assert busy.refuses
    assert "names are unknown: 536870915;" in busy.message
    assert "does not serve bench" in missing.message
    assert (busy.may_pass, missing.may_pass) == (hours is not None, hours is not None)


def test_what_is_named_in_the_file_is_allowed() -> None:
    others = replace(
        PROGRAMS,
        volumes=frozenset({"bench", "scratch"}),
        clients=frozenset({"192.0.2.77", "192.0.2.9"}),
    )
    assert look(programs=others) == ()


@pytest.mark.parametrize("state", [TRADITIONAL, FOR_NOW])
def test_a_server_that_could_not_be_created_again_is_fine_if_it_is_not_restarted(
    state: str,
) -> None:
    assert look(programs=replace(PROGRAMS, state=state, restarts=False)) == ()


@pytest.mark.parametrize("state", [STOPPED, FOR_NOW, TRADITIONAL, "not in bosserver"])
def test_a_server_that_was_cut_off_may_be_down_until_it_is_restored(state: str) -> None:
    unknown = replace(PROGRAMS, state=state, commands=(), volumes=None, cut_off=True)
    blind = ClientFacts("c1", False)
    assert look(programs=unknown, caches=(blind, blind)) == ()
    strangers = replace(PROGRAMS, clients=frozenset({"198.51.100.7"}), cut_off=True)
    assert look(programs=strangers) == ()
    (finding,) = look(programs=replace(unknown, restricted=True))
    assert finding.refuses


def test_a_file_that_will_undo_what_is_set_is_a_warning() -> None:
    (finding,) = look(programs=replace(PROGRAMS, replaced_by="/etc/openafs/BosConfig.new"))
    assert not finding.refuses
    assert "BosConfig.new replaces BosConfig at the next start of bosserver" in finding.message


def test_an_edit_that_the_first_change_would_overwrite_is_refused() -> None:
    edited = replace(PROGRAMS, edited="/etc/openafs/BosConfig (dafs)")
    (finding,) = look(programs=edited)
    assert finding.refuses
    assert finding.message.startswith("/etc/openafs/BosConfig (dafs) is not what bosserver runs")
    assert "bos restart 192.0.2.9 -bosserver" in finding.message
    assert look(programs=replace(edited, cut_off=True)) == ()


def test_many_volumes_are_counted_rather_than_listed() -> None:
    many = replace(PROGRAMS, volumes=frozenset({"bench"} | {f"v{n}" for n in range(40)}))
    (finding,) = look(programs=many)
    assert "and 35 more" in finding.message


@pytest.mark.parametrize(
    ("facts", "refuses", "message"),
    [
        (replace(SERVER, free_bytes=(("/var/cache", 5 << 20),)), True, "/var/cache: only 5 MiB"),
        (replace(SERVER, clock_ahead_s=9.0), False, "9 s ahead of"),
        (replace(SERVER, clock_ahead_s=-700.0), True, "700 s behind"),
        (replace(SERVER, available_bytes=GIB), True, "may take 2.0 GiB of memory"),
    ],
)
def test_a_host_that_is_not_fit_is_named(facts: HostFacts, refuses: bool, message: str) -> None:
    (finding,) = look(server=facts, needs={"fs9": 2 * GIB})
    assert finding.refuses is refuses
    assert message in finding.message


def test_clients_of_different_versions_are_named() -> None:
    clients = [ClientFacts("c1", True, version="openafs 1.8.9"), ClientFacts("c2", True)]
    (finding,) = look(caches=tuple(clients))
    assert not finding.refuses
    assert "versions: openafs 1.8.9 on c1, an unknown one on c2; what" in finding.message
    assert look(caches=(clients[0], replace(clients[0], host="c2"))) == ()


KERNEL = read_testbed(FILE_DIRECTORY / "kernel.yaml")
DEBIAN = ClientFacts("c1", True, ("/afs", "/var/cache/openafs"))
REDHAT = ClientFacts("c2", True, ("/afs", "/usr/vice/cache"))


@pytest.mark.parametrize(
    ("facts", "refuses", "message"),
    [
        (replace(DEBIAN, sees=False), True, "name the volume itself, as /afs/.:mount/"),
        (replace(DEBIAN, directories=("/afs", "/cache")), True, "would be wiped"),
        (replace(DEBIAN, holders=("17", "200")), True, "processes 17, 200 are in /afs"),
        (
            replace(DEBIAN, copies=("77 (smbd -F)", "80 (sh)")),
            True,
            "/afs is also mounted in the mount namespace of 77 (smbd -F), 80 (sh), so",
        ),
        (
            replace(DEBIAN, obstacles=("/afs is also mounted at /srv/afs; unmount that",)),
            True,
            "/afs is also mounted at /srv/afs; unmount that",
        ),
        (replace(DEBIAN, tokens=True), False, "tokens, which every restart"),
        (replace(DEBIAN, no_ticket="kinit: no key"), True, "keytab gives no ticket: kinit: no key"),
        (
            replace(DEBIAN, unit_problem="not-found, inactive"),
            True,
            "its unit openafs-client does not run (not-found, inactive)",
        ),
        (
            replace(DEBIAN, stop_too=("web.service",)),
            True,
            "web.service would be stopped together with openafs-client and not started again",
        ),
    ],
)
def test_a_client_that_cannot_be_restarted_safely_is_named(
    facts: ClientFacts, refuses: bool, message: str
) -> None:
    assert look(file=KERNEL, caches=(DEBIAN, REDHAT)) == ()
    (finding,) = look(file=KERNEL, caches=(facts, REDHAT))
    assert (finding.host, finding.refuses) == ("c1", refuses)
    assert message in finding.message


@pytest.mark.parametrize(
    ("file", "facts", "message"),
    [
        (FILE, ClientFacts("c1", False, no_mount="no afsd.fuse"), "no afsd.fuse"),
        (FILE, ClientFacts("c1", True, no_mount="no afsd.fuse"), "no afsd.fuse"),
        (
            KERNEL,
            replace(DEBIAN, sees=False, unit_problem="loaded, failed"),
            "does not run (loaded",
        ),
        (
            KERNEL,
            replace(DEBIAN, sees=False),
            "is a client mounted at /afs, and is the path right?",
        ),
        (
            KERNEL,
            replace(DEBIAN, sees=False, unreadable="Input/output error"),
            "bench: Input/output error; is the volume off-line",
        ),
    ],
)
def test_a_client_that_is_not_mounted_is_not_taken_for_a_wrong_path(
    file: TestbedFile, facts: ClientFacts, message: str
) -> None:
    (finding,) = look(file=file, caches=(facts,))
    assert finding.refuses
    assert message in finding.message
    assert "mount point created" not in finding.message.partition("?")[0]


def test_a_client_of_a_service_is_refused() -> None:
    """It would be restored outside its unit, for which systemd may start a second one."""
    (finding,) = look(caches=(ClientFacts("c1", True, services=("afs-fuse.service",)),))
    assert (finding.host, finding.refuses) == ("c1", True)
    assert "its afsd.fuse belongs to afs-fuse.service, and would not be" in finding.message


def test_a_slow_answer_is_not_taken_for_clock_skew() -> None:
    assert look(server=replace(SERVER, clock_ahead_s=5.0, asked_s=6.0)) == ()


def test_the_hours_of_a_testbed_are_named_outside_them() -> None:
    (finding,) = look(now=EVENING.replace(hour=12))
    assert not finding.refuses  # a campaign waits for them
    assert "from 20:00 to 06:00" in finding.message
