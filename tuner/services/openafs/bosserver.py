"""The fileserver's status as reported by bosserver, which keeps it running."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandFailed, CommandTimeout, Connector
from tuner.services.openafs import parse
from tuner.services.openafs.server_log import USUAL_LOGS, LogEnd, log_since
from tuner.services.openafs.version import RunningVersion, version_of

#: The configuration file of bosserver as Debian has it, and with OpenAFS's own paths.
_CONFIGS = ("/etc/openafs/BosConfig", "/usr/afs/local/BosConfig")
_STARTS_WITHIN_S, _POLL_S = 30.0, 0.03
#: How long a fileserver may take to answer before a campaign: it may have been started just now.
_ANSWERS_WITHIN_S, _ANSWER_TIMEOUT_S = 10.0, 4.0
#: How long one that has failed before must have been up.
_STAYS_UP_S = 3.0
#: How long a fileserver that nobody needs may take to stop.
USUAL_STOP_S = 120
#: What restoring a fileserver may take besides the time that it has to stop.
_RESTORE_S = 210.0


@dataclass(frozen=True, slots=True)
class FileserverPlace:
    """Where the fileserver is.

    ``address``: as its clients see it; ``directory``: for files of fstune on that host;
    ``instance``: its name in bosserver; ``log``: its log file; ``stop_s``: how long it may take to
    stop, as long as it answers, before it is killed.
    """

    address: str
    directory: str
    instance: str = "dafs"
    log: str = USUAL_LOGS[0]
    stop_s: int = USUAL_STOP_S

    @property
    def journal(self) -> str:
        """The directory of its restore journal."""
        return f"{self.directory}/fileserver"

    @property
    def restore_s(self) -> float:
        """How long restoring it may take at most."""
        return self.stop_s + _RESTORE_S


def status_of(host: Connector, place: FileserverPlace) -> parse.InstanceStatus | None:
    """Return the status of the instance in bosserver; None if it does not exist."""
    argv = ["bos", "status", place.address, place.instance, "-long", "-localauth"]
    result = host.ask(argv)
    if "no such entity" in result.stderr:
        return None
    # If bosserver exits meanwhile, bos succeeds without output.
    if result.status != 0 or not result.stdout.strip():
        raise CommandFailed(host.host, result)
    try:
        return parse.bos_status(result.stdout)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem


def check_up(host: Connector, place: FileserverPlace) -> None:
    """Raise TestbedError for a fileserver that does not answer, unless an open journal restores it.

    One that does not stay up is shown as running, and answers, for a moment whenever bosserver
    tries it again.
    """
    if host.ask(["test", "-e", place.journal]).status == 0:
        return
    deadline = time.monotonic() + _ANSWERS_WITHIN_S
    while (status := status_of(host, place)) is not None:
        if status.running and _answers(host, place):
            if not status.last_error:
                return
            time.sleep(_STAYS_UP_S)
            later = status_of(host, place)
            if later is not None and later.running and later.last_start == status.last_start:
                return
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    else:
        return  # without an instance, its settings cannot be read
    state = "does not answer" if status.running else f"is down ({status.summary})"
    reasons = [f"{host.host}: the fileserver {state}, with {status.commands[0]}"]
    if status.last_error:
        reasons.append(f"its last exit: {status.last_error}")
    if last := log_since(host, place.log, LogEnd()).last_line:
        reasons.append(f"FileLog: {last}")
    raise TestbedError(
        f"{'; '.join(reasons)}; correct its options if need be, and start it: bos start "
        f"{place.address} {place.instance} -localauth"
    )


def _answers(host: Connector, place: FileserverPlace) -> bool:
    try:
        version_of(host, place.address, parse.FILESERVER_PORT, _ANSWER_TIMEOUT_S)
    except (CommandFailed, CommandTimeout):
        return False
    return True


def reachable_status(host: Connector, place: FileserverPlace) -> parse.InstanceStatus | None:
    """As ``status_of``, waiting for a bosserver that is just starting.

    Raises CommandFailed when it does not answer in time.
    """
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            return status_of(host, place)
        except CommandFailed:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def check_written(host: Connector, place: FileserverPlace, commands: tuple[str, ...]) -> None:
    """Check that these command lines of the instance are on disk, if BosConfig is in a usual place.

    bosserver ignores that it cannot write the file, and would start with the old ones after a
    reboot. Setting the time of its checks for new binaries to what it is makes bosserver write the
    file again, without a restart. Raises TestbedError.
    """
    if not (outdated := _outdated(host, place, commands)):
        return
    times = host.ask(["bos", "getrestart", place.address, "-localauth"]).stdout
    reason = ""
    if time := re.search(r"restarts for new binaries (?:at )?(.+)$", times, re.MULTILINE):
        argv = ["bos", "setrestart", place.address, time[1], "-newbinary", "-localauth"]
        reason = host.change(argv).tail
    if _outdated(host, place, commands):
        raise TestbedError(
            f"{host.host}: bosserver has not written the options into {outdated} (is the disk full "
            f"or read-only?), so its next start would undo them{f': {reason}' if reason else ''}"
        )


def _outdated(host: Connector, place: FileserverPlace, commands: tuple[str, ...]) -> str:
    """The BosConfig that lacks these command lines of the instance; "" if one has them."""
    outdated = ""
    for path, instances in _configs(host):
        entry = instances.get(place.instance)
        if entry is not None and (entry.type, entry.commands) == ("dafs", commands):
            return ""
        outdated = outdated or path
    return outdated


def _configs(host: Connector) -> Iterator[tuple[str, dict[str, parse.ConfiguredInstance]]]:
    """Each BosConfig that there is, by path, with its instances; read one after another, since the
    first is usually enough and this is done at each restart.
    """
    for path in _CONFIGS:
        answer = host.ask(["cat", path])
        if answer.status == 0:
            yield path, parse.bos_config(answer.stdout)


def edited_config(host: Connector, address: str) -> str:
    """The BosConfig whose instances are not those of bosserver, with the names of those that
    differ; "" if there is no such file.

    bosserver reads the file when it starts only, and writes all of it at each change.
    """
    running = host.ask(["bos", "status", address, "-long", "-localauth"])
    configs = dict(_configs(host))
    if running.status != 0 or not configs:
        return ""
    try:
        now = parse.bos_instances(running.stdout)
    except ValueError as problem:
        raise TestbedError(f"{host.host}: {problem}") from problem
    differences = {path: _different(instances, now) for path, instances in configs.items()}
    if not all(differences.values()):
        return ""  # one is current, and the other is left over from another installation
    path, names = next(iter(differences.items()))
    return f"{path} ({', '.join(names)})"


def _different(
    instances: Mapping[str, parse.ConfiguredInstance], now: Mapping[str, parse.InstanceStatus]
) -> list[str]:
    """The names of the instances that are not in both, or not the same in both."""
    same = {name for name in instances.keys() & now.keys() if instances[name].is_as(now[name])}
    return sorted((instances.keys() | now.keys()) - same)


def replacement(host: Connector) -> str:
    """The file that replaces BosConfig at the next start of bosserver, "" if there is none."""
    paths = [f"{path}.new" for path in _CONFIGS]
    return next((path for path in paths if host.ask(["test", "-e", path]).status == 0), "")


def meddling(
    host: Connector,
    place: FileserverPlace,
    status: parse.InstanceStatus,
    notifier: tuple[str, ...],
    more: str = "",
) -> TestbedError:
    """The error for an instance that is neither as found nor as fstune has created it, which is
    with this notifier.
    """
    other = status.notifier != notifier
    now = f", notifier: {_text(status.notifier)} instead of {_text(notifier)}" if other else ""
    return TestbedError(
        f"{host.host}: somebody else has changed the instance {place.instance} meanwhile: "
        f"{status.commands[0]}{now}{more}"
    )


#: The command lines of an instance, and its notifier if any.
_Instance = tuple[tuple[str, ...], tuple[str, ...]]


def changes(
    host: Connector, place: FileserverPlace, now: _Instance, applied: _Instance
) -> tuple[str, ...]:
    """How an instance differs from the one that was applied, and BosConfig from what runs; a
    sentence each.
    """
    pairs = [
        (f"command {number} of the instance", *pair)
        for number, pair in enumerate(zip_longest(now[0], applied[0], fillvalue="none"), start=1)
    ]
    pairs.append(("the notifier of the instance", _text(now[1]), _text(applied[1])))
    sentences = [
        f"{what} is {new}, where {old} was applied" for what, new, old in pairs if new != old
    ]
    if edited := edited_config(host, place.address):
        sentences.append(f"{edited} is not what bosserver runs")
    return tuple(f"{host.host}: {one}" for one in sentences)


def _text(notifier: tuple[str, ...]) -> str:
    return notifier[0] if notifier else "none"


def refuse_stopped(host: Connector, place: FileserverPlace) -> None:
    """Raise TestbedError if somebody else has stopped or deleted the instance, and it stays so:
    ``bos restart`` stops it for a moment.
    """
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while (status := reachable_status(host, place)) is None or status.stopped:
        if time.monotonic() > deadline:
            what, how = ("deleted", "") if status is None else ("stopped", f": {status.summary}")
            raise TestbedError(
                f"{host.host}: somebody else has {what} the instance {place.instance} "
                f"meanwhile{how}"
            )
        time.sleep(_POLL_S)


@dataclass(slots=True)
class Version(RunningVersion):
    """The version of the running fileserver; ``start``: when that program was started."""

    start: str = ""

    def check(self, host: Connector, place: FileserverPlace, status: parse.InstanceStatus) -> None:
        """Ask a fileserver that has been started since. One that does not answer is asked again.

        Raises TestbedError if its version is not the one before.
        """
        if not status.running or status.last_start == self.start:
            return
        program = f"the program of the instance {place.instance}"
        if self.ask(host, place.address, parse.FILESERVER_PORT, program):
            self.start = status.last_start


def is_restricted(host: Connector, address: str) -> bool:
    """Whether bosserver is in restricted mode; false for one that does not know that mode."""
    answer = host.ask(["bos", "getrestricted", address, "-localauth"])
    return "Restricted mode is on" in answer.stdout


def check_type(
    host: Connector, place: FileserverPlace, status: parse.InstanceStatus | None
) -> None:
    """Raise TestbedError for an instance of another type: a change would create it as dafs."""
    if status is not None and not parse.is_dafs(status.summary):
        raise TestbedError(f"{host.host}: {not_dafs(place.instance, status.summary)}")


def not_dafs(instance: str, summary: str) -> str:
    """Why an instance that is not of type dafs is not tuned, and what to do."""
    return (
        f"the fileserver's instance {instance} is {summary}, but every change would create it as "
        "type dafs: create it as dafs yourself, or name another one under server.instance"
    )
