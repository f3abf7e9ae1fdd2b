"""The decision, before any change, whether a testbed may be changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tuner.services.facts import HostFacts
from tuner.services.hours import span, within
from tuner.services.kind import Finding
from tuner.services.openafs.bosserver import not_dafs
from tuner.services.openafs.facts import ClientFacts, ServerFacts
from tuner.services.openafs.parse import is_dafs
from tuner.services.openafs.testbed_file import FuseSection, TestbedFile, UnitSection
from tuner.services.openafs.volumes import off_line_text

#: Free space required on a host for fstune itself, and in a cache or volume.
_LEAST_FREE_BYTES = 64 << 20
#: A larger clock skew makes times in logs misleading; at five minutes, tokens stop working.
_SKEW_WARN_S, _SKEW_REFUSE_S = 2.0, 240.0


def preflight(
    file: TestbedFile,
    server: tuple[HostFacts, ServerFacts],
    clients: Sequence[HostFacts],
    needs_bytes: Mapping[str, int],
    now: datetime,
    caches: Sequence[ClientFacts] = (),
    workload_bytes: int = 0,
) -> tuple[Finding, ...]:
    """Return all problems. ``needs_bytes``: the memory that configurations may need, by host;
    ``workload_bytes``: the size of the workload's files on one client.
    """
    host, programs = server
    findings = [
        *_volumes(file, host.host, programs),
        *_strangers(file, host, clients, programs),
        *_state(file, host.host, programs),
        *_restricted(file, host.host, programs),
        *_log(host.host, programs),
        *_replaced(host.host, programs),
        *_edited(file, host.host, programs),
        *_quota(file, host.host, programs, workload_bytes),
    ]
    for facts in (host, *clients):
        findings += _machine(facts, needs_bytes.get(facts.host, 0))
    for client, cache in zip(file.clients, caches, strict=False):
        findings += _cache(file, client.control.way, cache, programs)
        findings += _unit(client.control.way, cache)
    findings += _versions(file, caches)
    if file.hours is not None and not within(file.hours, now.time()):
        message = f"it is {now:%H:%M}; this testbed may be used from {span(file.hours)}"
        findings.append(Finding(file.name, False, message))
    return tuple(findings)


def _volumes(file: TestbedFile, host: str, programs: ServerFacts) -> list[Finding]:
    if programs.volumes is None:
        return []
    declared = {*file.server.volumes, *file.server.other_volumes}
    others = sorted(programs.volumes - declared)
    names = [name for name in others if not name.isdigit()]
    numbers = [name for name in others if name.isdigit()]
    missing = sorted(set(file.server.volumes) - programs.volumes)
    findings = []
    if names:
        message = (
            f"it serves volumes that are not the testbed's: {_some(names)}; every restart would "
            "interrupt them: move them, or name them under server.other_volumes"
        )
        findings.append(Finding(host, True, message))
    if numbers:
        message = (
            f"it has volumes whose names are unknown: {_some(numbers)}; they cannot be attached, "
            "or are busy: wait for what uses them, a backup for example"
        )
        findings.append(Finding(host, True, message, may_pass=_comes_and_goes(file)))
    if missing:
        message = f"it does not serve {', '.join(missing)}, named under server.volumes"
        may_pass = bool(numbers) and _comes_and_goes(file)  # it may be one of these
        findings.append(Finding(host, True, message, may_pass=may_pass))
    for volume in sorted(programs.offline.intersection(file.server.volumes)):
        message = off_line_text(volume, "vos online")
        findings.append(Finding(host, True, message, may_pass=_comes_and_goes(file)))
    return findings


def _some(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _strangers(
    file: TestbedFile, server: HostFacts, clients: Sequence[HostFacts], programs: ServerFacts
) -> list[Finding]:
    ours = server.addresses.union(file.other_clients, *(c.addresses for c in clients))
    strangers = sorted(programs.clients - ours)
    if not strangers or programs.cut_off:
        return []
    message = (
        f"it has clients that are not the testbed's: {', '.join(strangers[:5])}; a restart would "
        "interrupt them: stop them, or name them under other_clients"
    )
    return [Finding(server.host, True, message, may_pass=_comes_and_goes(file))]


def _comes_and_goes(file: TestbedFile) -> bool:
    """Whether others use the testbed by day, so that they may still do so when its hours start."""
    return file.hours is not None


def _state(file: TestbedFile, host: str, programs: ServerFacts) -> list[Finding]:
    if programs.cut_off:
        return []  # it will be as found only after it has been restored
    if programs.restarts and not is_dafs(programs.state):
        return [Finding(host, True, not_dafs(file.server.instance, programs.state))]
    if programs.restarts and "temporarily enabled" in programs.state:
        message = (
            f"the fileserver's instance is {programs.state}: the next start of bosserver would not "
            "start it, but every change would create it enabled for good, which cannot be undone. "
            "If that is acceptable, run there first, which interrupts nobody: "
            f"bos start {file.server.address} {file.server.instance} -localauth"
        )
        return [Finding(host, True, message)]
    if "currently running normally" in programs.state:
        return []
    return [Finding(host, True, f"the fileserver's instance is {programs.state}; start it first")]


def _restricted(file: TestbedFile, host: str, programs: ServerFacts) -> list[Finding]:
    if not programs.restricted:
        return []
    message = (
        "bosserver is in restricted mode: the fileserver could be stopped, but not created again "
        "with other options. bos setrestricted cannot switch that off: as root there, run "
        f"pkill -FPE bosserver, then bos setrestricted {file.server.address} 0 -localauth, or its "
        "next start is restricted again (restrictmode in BosConfig)"
    )
    return [Finding(host, True, message)]


def _log(host: str, programs: ServerFacts) -> list[Finding]:
    if not programs.no_log:
        return []
    message = f"its log cannot show whether the fileserver starts: {programs.no_log}"
    return [Finding(host, True, message)]


def _replaced(host: str, programs: ServerFacts) -> list[Finding]:
    if not programs.replaced_by:
        return []
    message = (
        f"{programs.replaced_by} replaces BosConfig at the next start of bosserver, and with it "
        "the options that are set until then: remove it, or restart bosserver first"
    )
    return [Finding(host, False, message)]


def _edited(file: TestbedFile, host: str, programs: ServerFacts) -> list[Finding]:
    if not programs.edited or programs.cut_off:
        return []
    message = (
        f"{programs.edited} is not what bosserver runs: somebody has edited it, or bosserver could "
        "not write it. The first change would overwrite it, for good. To use it, restart bosserver "
        f"(bos restart {file.server.address} -bosserver -localauth, which interrupts all users); "
        "to drop it, let bosserver write it again (bos setrestart with the time that bos "
        "getrestart shows)"
    )
    return [Finding(host, True, message)]


def _quota(
    file: TestbedFile, host: str, programs: ServerFacts, workload_bytes: int
) -> list[Finding]:
    if not programs.quota_kib:
        return []  # no quota, or no volume
    free_bytes = (programs.quota_kib - programs.used_kib) * 1024
    message = f"volume {file.server.volumes[0]} has {_size(free_bytes)} of its quota left"
    advice = "raise it, or empty the volume"
    if free_bytes < _LEAST_FREE_BYTES:
        return [Finding(host, True, f"{message}; {advice}")]
    # Each client has files of its own.
    if free_bytes < (needed_bytes := workload_bytes * len(file.clients)):
        message += f", and the workload's files need {_size(needed_bytes)}"
        # No reason to refuse: an interrupted run may have left such files, which are removed.
        return [Finding(host, False, f"{message}; {advice}")]
    return []


def _cache(
    file: TestbedFile, way: FuseSection | UnitSection, facts: ClientFacts, programs: ServerFacts
) -> list[Finding]:
    messages = []
    if facts.no_mount:
        messages.append(facts.no_mount)
    elif facts.unreadable and not facts.unit_problem and not programs.cut_off:
        messages.append(
            f"its client answers for {file.path}: {facts.unreadable}; is the volume off-line, the "
            "fileserver away, or the client hanging? A client may go on with that after both are "
            "back: then start it again there"
        )
    elif not facts.sees and not facts.unit_problem and not programs.cut_off:
        messages.append(
            f"{file.path} is not a directory there: is a client mounted at {way.mount}, and is the "
            "path right? A mount point created through afsd.fuse is not one for other clients: "
            "name the volume itself, as /afs/.:mount/CELL:VOLUME"
        )
    if facts.directories not in (None, (way.mount, way.cache)):
        messages.append(
            f"its options and cacheinfo file say {' and '.join(facts.directories or ())}, the "
            f"testbed file {way.mount} and {way.cache}, which would be wiped"
        )
    if facts.copies:
        messages.append(
            f"{way.mount} is also mounted in the mount namespace of {', '.join(facts.copies[:5])}, "
            "so the client cannot be restarted safely: end each, with its service or container"
        )
    messages += facts.obstacles
    if facts.no_ticket:
        messages.append(f"its keytab gives no ticket: {facts.no_ticket}")
    findings = [Finding(facts.host, True, one) for one in messages]
    if facts.holders:
        message = (
            f"processes {', '.join(facts.holders[:5])} are in {way.mount}, so the client cannot "
            "be restarted safely: end them"
        )
        findings.append(Finding(facts.host, True, message, may_pass=_comes_and_goes(file)))
    if facts.tokens:
        message = "it has tokens, which every restart of its client loses"
        findings.append(Finding(facts.host, False, message))
    return findings


def _versions(file: TestbedFile, clients: Sequence[ClientFacts]) -> list[Finding]:
    if len({facts.version for facts in clients}) <= 1:
        return []
    each = ", ".join(f"{facts.version or 'an unknown one'} on {facts.host}" for facts in clients)
    message = (
        f"its clients have different versions: {each}; what is measured holds for this mixture "
        "only: install the same version on all"
    )
    return [Finding(file.name, False, message)]


def _unit(way: FuseSection | UnitSection, facts: ClientFacts) -> list[Finding]:
    messages = []
    if facts.services:
        messages.append(
            f"its afsd.fuse belongs to {', '.join(facts.services)}, and would not be started again "
            "by systemd but by fstune: stop that service, and mount the client without it"
        )
    if not isinstance(way, UnitSection):
        return [Finding(facts.host, True, one) for one in messages]
    if facts.unit_problem:
        messages.append(
            f"its unit {way.unit} does not run ({facts.unit_problem}), so the client could not be "
            "started again with it: start it, or correct the unit in the testbed file"
        )
    if facts.stop_too:
        messages.append(
            f"{', '.join(facts.stop_too[:5])} would be stopped together with {way.unit} and not "
            "started again: stop them before the campaign"
        )
    return [Finding(facts.host, True, one) for one in messages]


def _machine(facts: HostFacts, needs_bytes: int) -> list[Finding]:
    findings = []
    for path, free in facts.free_bytes:
        if free < _LEAST_FREE_BYTES:
            findings.append(Finding(facts.host, True, f"{path}: only {_size(free)} free"))
    if facts.available_bytes < needs_bytes:
        message = (
            f"the largest configuration may take {_size(needs_bytes)} of memory, "
            f"{_size(facts.available_bytes)} is available; narrow the search space"
        )
        findings.append(Finding(facts.host, True, message))
    skew = abs(facts.clock_ahead_s) - facts.asked_s
    if skew > _SKEW_WARN_S:
        ahead = "ahead of" if facts.clock_ahead_s > 0.0 else "behind"
        message = f"its clock is {abs(facts.clock_ahead_s):.0f} s {ahead} this machine's; set it"
        findings.append(Finding(facts.host, skew > _SKEW_REFUSE_S, message))
    return findings


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
