"""Facts about OpenAFS on the hosts of a testbed. Read-only.

Defines the query commands and the records for their results; ``preflight`` decides what the results
mean for a campaign.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tuner.errors import TestbedError, TransportError
from tuner.hosts.connector import CommandFailed, CommandTimeout, Connector, check, failure_data
from tuner.measure.driver import archive
from tuner.services.journal import script
from tuner.services.openafs import fuse, parse
from tuner.services.openafs.bosserver import edited_config, is_restricted, replacement
from tuner.services.openafs.fuse import FusePlace
from tuner.services.openafs.kernel_client import COPIES, READY, directories
from tuner.services.openafs.server_log import why_no_log
from tuner.services.openafs.testbed_file import (
    ClientSection,
    ServerSection,
    TestbedFile,
    UnitSection,
)
from tuner.services.openafs.tokens import TokenPlace, why_no_ticket

#: Prints the PIDs of processes that use files below a mount point.
_HOLDERS = r"""
find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd /proc/[0-9]*/map_files \
    -maxdepth 1 \( -lname "$1" -o -lname "$1/*" \) 2> /dev/null | cut -d/ -f3 | sort -nu
"""
#: Properties of a unit: whether it exists and runs, and which units stop together with it.
_STATE, _STOP_TOO = "LoadState,ActiveState", "RequiredBy,RequisiteOf,BoundBy,ConsistsOf"
#: The same of a unit that ends without being stopped: that of the mount point, which is unmounted.
_END_TOO = "BoundBy"
_AT_REST = ("inactive", "failed", "unknown")
_TRIES, _PAUSE_S = 5, 1.0
#: How long a client may take to answer for the testbed's path, and the exit status if it does not.
_SIGHT_S, _TIME_IS_UP = 20, 124
#: The errors of a client that knows the path, but gets nothing from the volume.
_UNREADABLE = ("Input/output error", "No such device", "Connection timed out")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about a fileserver.

    ``commands``: the command lines of its instance. ``volumes``: their names, None if it was cut
    off and does not tell. ``clients``: addresses of clients that have called it recently.
    ``quota_kib``: of the testbed's first volume, 0 if it has none, None if it is not there.
    ``no_log``: why its starts cannot be judged by its log, "" if they can or it is not to be
    restarted. ``restarts``: whether it is to be. ``restricted``: whether it is, but bosserver is in
    restricted mode. ``cut_off``: whether it has a journal, so that it may be down until restored.
    ``replaced_by``: the file that will replace its BosConfig, if any. ``edited``: its BosConfig, if
    that is not what bosserver runs, with the instances that differ. ``offline``: those of its
    volumes that it does not serve at present.
    """

    state: str
    commands: tuple[str, ...]
    volumes: frozenset[str] | None
    clients: frozenset[str]
    quota_kib: int | None
    used_kib: int
    no_log: str = ""
    restarts: bool = True
    restricted: bool = False
    cut_off: bool = False
    replaced_by: str = ""
    edited: str = ""
    offline: frozenset[str] = frozenset()

    def lines(self) -> dict[str, str]:
        """All facts as text, by label; only the first command is included."""
        programs = {"state": self.state, "command": next(iter(self.commands), "none")}
        if self.volumes is None:
            return programs
        lines = {**programs, "volumes": ", ".join(sorted(self.volumes))}
        if self.quota_kib is not None:
            quota = f"{self.quota_kib >> 10} MiB" if self.quota_kib else "none"
            lines["quota"] = f"{quota}, {self.used_kib >> 10} MiB used"
        return {**lines, "clients": ", ".join(sorted(self.clients)) or "none lately"}


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """Facts about a client's cache manager.

    ``sees``: whether the testbed's path is visible, or there is a journal, so that the client may
    be down until it is restored. ``version``: of its fs command. ``services``: the systemd services
    that an afsd.fuse is the main process of; ``no_mount``: why no afsd.fuse at the mount point can
    be tuned, "" if one can or there is a journal. The others are for kernel clients only.
    ``directories``: its mount point and cache directory. ``holders``: PIDs of processes that use
    its files, except for the campaign's own runs; ``copies``: a process, as PID and command, of
    each other mount namespace that would keep its mount; ``obstacles``: other reasons why it could
    not be stopped and started again; ``tokens``: whether it has any;
    ``no_ticket``: why no ticket can be obtained from its keytab, "" if it can or no keytab is
    configured. ``unit_problem``: what systemd says of its unit if that does not run, "" if it does
    or there is a journal. ``stop_too``: the active units that systemd stops together with it, or
    with its mount unit. ``unreadable``: what it answers instead of showing the path, ""
    if it shows it or says that there is none.
    """

    host: str
    sees: bool
    directories: tuple[str, str] | None = None
    holders: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    tokens: bool = False
    no_ticket: str = ""
    unit_problem: str = ""
    stop_too: tuple[str, ...] = ()
    version: str = ""
    services: tuple[str, ...] = ()
    no_mount: str = ""
    unreadable: str = ""


def client_facts(
    host: Connector, file: TestbedFile, client: ClientSection, campaign: str = ""
) -> ClientFacts:
    """Query a client about its cache manager. Raises TestbedError.

    ``campaign``: the one that will use the client. It ends its own runs before it stops anything.
    """
    way = client.control.way
    journal = f"{file.restore.directory}/restore/cache_manager"
    may_be_down = host.ask(["test", "-d", journal]).status == 0
    sees, unreadable = (True, "") if may_be_down else _sees(host, file.path, client)
    version = host.ask(["fs", "-version"]).stdout.strip()
    if not isinstance(way, UnitSection):
        place = FusePlace(way.mount, way.cache, file.path, f"{file.restore.directory}/restore")
        services, no_mount = fuse.look(host, place)
        if may_be_down:
            no_mount = ""
        return ClientFacts(
            host.host,
            sees,
            services=services,
            no_mount=no_mount,
            version=version,
            unreadable=unreadable,
        )
    pids = host.ask(["sh", "-c", _HOLDERS, "sh", way.mount]).stdout.split()
    engine = archive(file.restore.directory)
    tokens = parse.has_tokens(host.ask(["tokens"]).stdout)
    token = token_place(client, f"{file.restore.directory}/restore")
    no_ticket = "" if token is None else why_no_ticket(host, token)
    return ClientFacts(
        host.host,
        sees,
        directories(host, way.file, way.variable),
        tuple(pid for pid in pids if not _is_run(host, pid, engine, campaign)),
        _lines_of(host, COPIES, way.mount),
        _lines_of(host, READY, way.mount),
        tokens,
        no_ticket,
        unit_problem="" if may_be_down else _unit_problem(host, way.unit),
        stop_too=_stop_too(host, way.unit, way.mount),
        version=version,
        unreadable=unreadable,
    )


def _lines_of(host: Connector, name: str, mount: str) -> tuple[str, ...]:
    """The output of a packaged script that is asked about a mount. Raises TestbedError."""
    result = host.ask(["sh", "-s", mount], input=script(__package__, name))
    if result.status != 0:
        raise CommandFailed(host.host, result)
    return tuple(line for line in result.stdout.split("\n") if line)


def _is_run(host: Connector, pid: str, engine: str, campaign: str) -> bool:
    """Whether a process is a workload that an earlier run of the campaign has left behind."""
    words = host.ask(["cat", f"/proc/{pid}/cmdline"]).stdout.split("\0")
    run_ids = [after for word, after in pairwise(words) if word == "--run-id"]
    return bool(campaign) and engine in words and any(i.startswith(campaign) for i in run_ids)


def _unit_problem(host: Connector, unit: str) -> str:
    """What systemd says of a unit that does not exist or run, "" if it does."""
    text = check(host, ["systemctl", "show", f"--property={_STATE}", "--", unit])
    state = parse.unit_properties(text)
    both = state.get("LoadState", "unknown"), state.get("ActiveState", "unknown")
    return "" if both == ("loaded", "active") else ", ".join(both)


def _stop_too(host: Connector, unit: str, mount: str) -> tuple[str, ...]:
    """The units at work that systemd stops together with a client; it does not start them again.

    ``mount``: its mount point, which systemctl takes for the name of its mount unit.
    """
    stop_too = {unit: _STOP_TOO, mount: _END_TOO}
    texts = (
        check(host, ["systemctl", "show", f"--property={names}", "--", one])
        for one, names in stop_too.items()
    )
    lists = (value for text in texts for value in parse.unit_properties(text).values())
    units = list(dict.fromkeys(" ".join(lists).split()))
    if not units:
        return ()
    # Its exit status says only whether all are active.
    states = host.ask(["systemctl", "is-active", "--", *units]).stdout.split()
    # A running oneshot is "activating", for example.
    return tuple(one for one, state in zip(units, states, strict=False) if state not in _AT_REST)


def _sees(host: Connector, path: str, client: ClientSection) -> tuple[bool, str]:
    """Whether the client sees a directory at this path; if it does not, what it answers, or "" if
    the path may be wrong.

    If the client will work with a token, "permission denied" is accepted too, since it does not
    have the token yet.
    """
    command = ["env", "LC_ALL=C", "timeout", str(_SIGHT_S), "stat", "-L", "-c", "%F", "--", path]
    result = host.ask(command)
    if result.status == 0:
        return result.stdout.strip() == "directory", ""
    if result.status == _TIME_IS_UP:
        return False, f"nothing within {_SIGHT_S} s"
    error = result.stderr.strip().rpartition(": ")[2]
    if client.token is not None and error == "Permission denied":
        return True, ""
    return False, error if error in _UNREADABLE else ""


def token_place(client: ClientSection, directory: str) -> TokenPlace | None:
    """Where a client's token comes from; None if fstune provides no token for it.

    ``directory``: of its journals.
    """
    token = client.token
    if token is None:
        return None
    return TokenPlace(
        keytab=token.keytab,
        principal=token.principal,
        lifetime_s=token.lifetime,
        cell=token.cell,
        realm=token.realm,
        directory=directory,
    )


def server_facts(
    host: Connector, section: ServerSection, directory: str = "", *, restarts: bool = True
) -> ServerFacts:
    """Query the programs of a fileserver host. Raises TestbedError if one does not answer.

    ``restarts``: whether the fileserver is going to be restarted. ``directory``: the restore
    directory of its host; with a journal there, programs that do not answer are no error.
    """
    journal = f"{directory}/restore/fileserver"
    if not directory or host.ask(["test", "-d", journal]).status != 0:
        return _all_facts(host, section, restarts)
    try:
        status = parse.bos_status(host.ask(_asking(section)).stdout)
        state, commands, running = status.summary, status.commands, status.running
    except ValueError:
        state, commands, running = "not in bosserver", (), False
    if running:  # otherwise, the others would only be waited for
        try:
            return replace(_all_facts(host, section, restarts), cut_off=True)
        except TestbedError as problem:
            if isinstance(problem, TransportError) and not isinstance(problem, CommandTimeout):
                raise
    return ServerFacts(
        state=f"{state}; an interrupted run has left a restore journal",
        commands=commands,
        volumes=None,
        clients=frozenset(),
        quota_kib=0,
        used_kib=0,
        restarts=restarts,
        restricted=restarts and is_restricted(host, section.address),
        cut_off=True,
    )


def _asking(section: ServerSection) -> list[str]:
    return ["bos", "status", section.address, section.instance, "-long", "-localauth"]


def _all_facts(host: Connector, section: ServerSection, restarts: bool) -> ServerFacts:
    address, volume = section.address, section.volumes[0]
    quota_kib: int | None = None
    used_kib = 0
    rx = ["rxdebug", address, str(parse.FILESERVER_PORT), "-allconnections", "-onlyserver"]
    clients: frozenset[str] = frozenset()
    volumes, offline = None, frozenset[str]()
    try:
        status = _status(host, section)
        if status.running:  # otherwise, preflight says what it is instead
            clients = parse.clients_connected(_answer(host, rx, section))
            listing = patiently(host, ["vos", "listvol", address, "-localauth"])
            volumes, offline = parse.volumes(listing), parse.offline_volumes(listing)
        if volumes and volume in volumes:  # otherwise, preflight says that it is not there
            volume_text = check(host, ["vos", "examine", volume, "-localauth"])
            quota_kib, used_kib = parse.volume_quota(volume_text)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem
    no_log = why_no_log(host, status.commands[0], section.log) if restarts else ""
    return ServerFacts(
        state=status.summary,
        commands=status.commands,
        volumes=volumes,
        offline=offline,
        clients=clients,
        quota_kib=quota_kib,
        used_kib=used_kib,
        no_log=no_log,
        restarts=restarts,
        restricted=restarts and is_restricted(host, address),
        replaced_by=replacement(host) if restarts else "",
        edited=edited_config(host, address) if restarts else "",
    )


def _status(host: Connector, section: ServerSection) -> parse.InstanceStatus:
    """Query the status of the instance. Raises TestbedError, and ValueError for other text."""
    result = host.ask(_asking(section))
    # bos succeeds even if nothing answers at that address.
    if result.status != 0 or not result.stdout.strip():
        raise TestbedError(
            f"{host.host}: bos status {section.address} {section.instance}: {result.tail}; check "
            "server.address and server.instance in the testbed file",
            failure_data(result, host.host),
        )
    return parse.bos_status(result.stdout)


def _answer(host: Connector, rx: Sequence[str], section: ServerSection) -> str:
    """What the fileserver answers to rxdebug. Raises TestbedError if it does not answer: bosserver
    calls one that hangs, or whose partitions are being salvaged, "running normally" too.
    """
    result = host.ask(rx)
    if result.status != 0 and "call failed" in result.stdout + result.stderr:
        raise TestbedError(
            f"{host.host}: the fileserver of {section.instance} does not answer at "
            f"{section.address} port {parse.FILESERVER_PORT}, though bosserver calls it running: "
            f"{section.log} and 'bos status {section.address} {section.instance} -long -localauth' "
            "say whether it is starting or salvaging; if it hangs, restart it",
            failure_data(result, host.host),
        )
    if result.status != 0:
        raise CommandFailed(host.host, result)
    return result.stdout


def patiently(host: Connector, argv: Sequence[str]) -> str:
    """Run a query with retries: the volserver answers later than its instance reports running."""
    for _ in range(_TRIES - 1):
        result = host.ask(argv)
        if result.status == 0:
            return result.stdout
        time.sleep(_PAUSE_S)
    return check(host, argv)
