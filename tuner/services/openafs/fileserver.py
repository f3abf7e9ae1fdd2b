"""The OpenAFS fileserver: its command line in bosserver, its restarts and its read-back.

Manages one ``dafs`` instance. Options are changed by bos shutdown, delete and create; its other
programs, and all options that are not in the search space, are left unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from search_spaces import Space, SpaceError
from tuner.errors import ConfigurationError, TestbedError, TransportError
from tuner.hosts.connector import (
    CommandFailed,
    CommandTimeout,
    Connector,
    check_change,
    failure_data,
)
from tuner.model import Value
from tuner.services.journal import Journal, WithJournal
from tuner.services.lasting import JournalState
from tuner.services.openafs import parse
from tuner.services.openafs.bosserver import (
    FileserverPlace,
    Version,
    changes,
    check_type,
    check_written,
    meddling,
    reachable_status,
    refuse_stopped,
    status_of,
)
from tuner.services.openafs.buffers import Buffers
from tuner.services.openafs.limits import server_limits
from tuner.services.openafs.server_log import LogEnd, log_end, log_since, why_not_started
from tuner.services.openafs.server_values import server_values
from tuner.services.openafs.version import version_of
from tuner.services.part import verify_effective

_RESTORE, _STOP = "fileserver-restore.sh", "fileserver-stop.sh"
#: The note in the journal with the last command lines; the script uses this name too.
_LAST_COMMANDS = "wanted"
#: The note about the socket buffers, see ``Buffers.record``; the script uses this name too.
_BUFFERS = "buffers"
_START_TIMEOUT_S = 30.0
#: How long a plain stop may take before the stop script is run, and what that may take besides the
#: time that a fileserver has to stop.
_PROMPT_S, _END_S = 10.0, 80.0
#: Exit status of timeout when the time is up.
_TIME_IS_UP = 124
_POLL_S = 0.03
_ASK_TIMEOUT_S = 5.0
#: bosserver truncates longer command lines when it reads its own configuration back.
_LONGEST_COMMAND = 244


@dataclass(slots=True)
class Fileserver(WithJournal):
    """A tuned fileserver. Use ``attach`` to create an instance."""

    host: Connector
    place: FileserverPlace
    space: Space
    #: The original command lines: the fileserver's own, then those of the other programs.
    original: tuple[str, ...]
    identity: str
    initial: Mapping[str, Value]
    facts: Mapping[str, int]
    rest: tuple[str, ...]
    running: tuple[str, ...] = ()
    #: The last command lines that fstune set; empty if there are none.
    last_commands: tuple[str, ...] = ()
    #: bosserver's notifier for the instance, () if there is none.
    notifier: tuple[str, ...] = ()
    version: Version = field(default_factory=Version)
    #: Its socket buffers, if the limits of its host are tuned as well.
    buffers: Buffers | None = None

    @classmethod
    def attach(cls, host: Connector, place: FileserverPlace, space: Space) -> Fileserver:
        """Read the instance's original settings, without changing anything.

        If an interrupted run left a journal, it has the original command lines and takes
        precedence. Raises TestbedError when there is no bosserver or no instance, or its options
        cannot be read.
        """
        status = status_of(host, place)
        now = () if status is None else status.commands
        journal = _journal(host, place)
        record = journal.read("commands")
        original = record or now
        if record is None:
            check_type(host, place, status)  # before that, somebody else's would be lost
        if not original:
            raise TestbedError(f"{host.host}: bosserver has no instance {place.instance!r}")
        program, *options = original[0].split()
        try:
            parsed = space.parse(options)
        except SpaceError as problem:
            raise TestbedError(
                f"{host.host}: the fileserver's present options cannot be read: {problem}"
            ) from problem
        version = Version()
        if status is not None:
            version.check(host, place, status)
        # bosserver usually has the same version, and answers even when the fileserver is stopped.
        text = version.text or version_of(host, place.address, parse.BOSSERVER_PORT)
        identity = f"{program.rpartition('/')[2]} {text}"
        facts = server_limits(host, " ".join([program, *parsed.rest]))
        last = () if record is None else journal.read_note(_LAST_COMMANDS)
        notifier = () if status is None else status.notifier
        if record is not None:
            notifier = journal.read("notifier", notifier) or ()
        running = now if status is not None and status.running else ()
        settings = (original, identity, parsed.values, facts, parsed.rest)
        return cls(host, place, space, *settings, running, last, notifier, version)

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        return _journal(self.host, self.place)

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        """See Part.apply: a restart, unless it would change neither command line nor buffers."""
        commands = self._commands(values)
        outdated = self.buffers is not None and self.buffers.outdated(values)
        if commands == self.running and not outdated and not restart:
            return None
        before = self._change(commands)
        status = self._await_start(commands[0], before)
        check_written(self.host, self.place, commands)
        self.running = commands
        self.version.check(self.host, self.place, status)
        return "restart"

    def rehearse(self, values: Mapping[str, Value]) -> None:
        """Run all modifying commands of ``apply`` without waiting: for a dry connector."""
        self._change(self._commands(values))

    def _commands(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        words = [self.original[0].split()[0], *self.rest, *self.space.render(values)]
        for word in words:
            # bosserver splits the line at spaces, and stores it as one line of its configuration.
            if word.split() != [word] or not (word.isascii() and word.isprintable()):
                raise ConfigurationError(f"bosserver cannot pass on the option {word!r}")
        command = " ".join(words)
        if len(command) > _LONGEST_COMMAND:
            raise ConfigurationError(
                f"the command line has {len(command)} characters, bosserver keeps "
                f"{_LONGEST_COMMAND}"
            )
        return (command, *self.original[1:])

    def restore(self) -> str:
        """See Part.restore. Buffers may differ even if the command line is the original one."""
        outdated = self.buffers is not None and self.buffers.outdated(self.initial)
        if self.recorded or outdated:
            self._begin()  # somebody may have removed it
        if outdated:
            self._note_buffers()
        action = self.journal.restore(self.place.restore_s) or "left as found"
        if self.buffers is not None:
            self.buffers.starting()
        self.running, self.recorded, self.last_commands = self.original, False, ()
        return f"fileserver on {self.host.host} {action}: {self.original[0]}"

    @property
    def how_changed(self) -> str:
        """See LastingPart.how_changed."""
        return "is restarted"

    @property
    def outlives_restart(self) -> bool:
        """See LastingPart.outlives_restart."""
        return True

    @property
    def where_kept(self) -> str:
        """See LastingPart.where_kept."""
        return f"bosserver keeps them in BosConfig of {self.host.host}"

    def journals(self, name: str) -> frozenset[JournalState]:
        """See LastingPart.journals."""
        return frozenset({self.journal.state(name)})

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        self.journal.keep(name)
        self.recorded = False

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        self.journal.reopen(name)
        self.original = self.journal.read("commands") or self.original
        self.notifier = self.journal.read("notifier", self.notifier) or ()

    def changed_since(self, name: str) -> tuple[str, ...]:
        """See LastingPart.changed_since: the whole instance is restored."""
        journal = self.journal.of_application(name)
        before, applied = journal.read("commands"), journal.read_note(_LAST_COMMANDS)
        notifier = journal.read("notifier", self.notifier) or ()
        if not applied:
            return ()
        expected = before if before is not None and self.original == before else applied
        now = (self.original, self.notifier)
        return changes(self.host, self.place, now, (expected, notifier))

    def incarnation(self) -> str:
        """See Part.incarnation: bosserver knows when it has last started a program, also one that
        crashed. Raises TestbedError if the options are not those that were set, or if the program
        has another version since that start.
        """
        status = status_of(self.host, self.place)
        if status is None:
            return "gone"
        if self.running and self._is_foreign(status, self.running):
            raise self._meddling(status)
        self.version.check(self.host, self.place, status)
        return f"started at {status.last_start}, {status.summary}"

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Part.read_back: from the server's counters, threads and socket."""
        self._refuse_stopped()
        try:
            effective = self._settled()
        except (TestbedError, ValueError) as problem:
            silent = isinstance(problem, CommandTimeout)
            if isinstance(problem, TransportError) and not silent:
                raise
            status = status_of(self.host, self.place)
            if status is not None and not status.last_error and status.running:
                if not silent:
                    raise TestbedError(f"{self.host.host}: no read-back: {problem}") from problem
                self._end_hanging()
                raise ConfigurationError(f"the fileserver does not answer: {problem}") from problem
            self._refuse_stopped()
            how = "" if status is None else f": {status.last_error or status.summary}"
            raise ConfigurationError(f"the fileserver does not stay up{how}") from problem
        facts = self.facts if self.buffers is None else self.buffers.facts(self.facts)
        return verify_effective(self.space, values, facts, effective)

    def _settled(self) -> dict[str, Value]:
        """Return the values in effect, waiting until the server can report them.

        A server that was just restored may still be starting, and it answers calls some time before
        its counters can be read.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                return server_values(self.host, self.place.address)
            except ValueError:
                status = status_of(self.host, self.place)
                runs = status is not None and status.running
                if not runs or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)

    def _change(self, commands: tuple[str, ...]) -> LogEnd:
        """Recreate the instance; returns where its log ended just before that."""
        self._refuse_stopped()
        self._record()
        self.running, self.version.start = (), ""
        try:
            return self._recreate(commands)
        except CommandFailed:
            # bosserver may have crashed meanwhile and been restarted. Start over, reading its
            # state again.
            reachable_status(self.host, self.place)
            return self._recreate(commands)

    def _recreate(self, commands: tuple[str, ...]) -> LogEnd:
        # There is no instance after a run that was interrupted between delete and create.
        status = status_of(self.host, self.place)
        if status is not None:
            if self._is_foreign(status, self.last_commands, self.original):
                raise self._meddling(status, "; nothing was stopped")
            self._stop()
            self._bos("delete")
        # No instance exists now, so the next one must match this note if it is ours.
        self.journal.note(_LAST_COMMANDS, commands)
        self.last_commands = commands
        before = log_end(self.host, self.place.log)
        if self.buffers is not None:
            self.buffers.starting()
            self._note_buffers()
        notifier = [word for program in self.notifier for word in ("-notifier", program)]
        self._bos("create", "dafs", *commands, *notifier)
        return before

    def _is_foreign(self, status: parse.InstanceStatus, *ours: tuple[str, ...]) -> bool:
        """Whether somebody else has created the instance: with none of these command lines, or with
        another notifier.
        """
        return status.commands not in ours or status.notifier != self.notifier

    def _meddling(self, status: parse.InstanceStatus, more: str = "") -> TestbedError:
        return meddling(self.host, self.place, status, self.notifier, more)

    def _begin(self) -> bool:
        place = self.place
        words = {"address": place.address, "instance": place.instance, "stop_s": str(place.stop_s)}
        records = {"commands": self.original, "notifier": self.notifier}
        return self.journal.begin(records, words)

    def _note_buffers(self) -> None:
        if self.buffers is not None:
            self.journal.note(_BUFFERS, self.buffers.record(self.initial))

    def _refuse_stopped(self) -> None:
        """Raise TestbedError if it was started, and somebody else has stopped it since."""
        if self.running:
            refuse_stopped(self.host, self.place)

    def _stop(self) -> None:
        self.running = ()
        # bosserver waits half an hour for a hanging fileserver. The time limit is on the host: the
        # command, and with it the lock, would outlive a killed fstune.
        stop = self._bos_command("shutdown", "-wait")
        result = self.host.change(["timeout", f"{_PROMPT_S:g}", *stop])
        if result.status == _TIME_IS_UP:
            self._end_hanging()
        elif result.status != 0:
            raise CommandFailed(self.host.host, replace(result, argv=tuple(stop)))

    def _end_hanging(self) -> None:
        """Stop the instance, killing its fileserver if needed. Raises TestbedError if it fails."""
        self._record()  # a fileserver can hang before its first change
        self.running = ()
        argv = ["sh", f"{self.journal.directory}/{_STOP}"]
        argv += [self.place.address, self.place.instance, str(self.place.stop_s)]
        result = self.host.change(argv, timeout_s=self.place.stop_s + _END_S)
        if result.status != 0:
            message = f"{self.host.host}: the fileserver cannot be stopped: {result.tail}"
            raise TestbedError(message, failure_data(result, self.host.host))

    def _bos(self, verb: str, *arguments: str) -> None:
        check_change(self.host, self._bos_command(verb, *arguments))

    def _bos_command(self, verb: str, *arguments: str) -> list[str]:
        return ["bos", verb, self.place.address, self.place.instance, *arguments, "-localauth"]

    def _await_start(self, command: str, before: LogEnd) -> parse.InstanceStatus:
        """Wait until the server is ready, and return its status.

        Raises ConfigurationError, with the reason, otherwise.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            log = log_since(self.host, self.place.log, before)
            status = reachable_status(self.host, self.place)
            if status is None:
                raise TestbedError(f"{self.host.host}: somebody deleted the fileserver's instance")
            if log.started and status.running:
                if log.command != command:
                    raise ConfigurationError(
                        f"FileLog shows a command line that was not asked for: {log.command}"
                    )
                return status
            if status.stopped:
                refuse_stopped(self.host, self.place)
            late = time.monotonic() > deadline
            if status.given_up or late:
                when = f"within {_START_TIMEOUT_S:g} s" if late else "with these options"
                error = f": {status.last_error}" if status.last_error else ""
                # Before bosserver gave up, there may have been one more start.
                log = log_since(self.host, self.place.log, before)
                if late:
                    why = why_not_started(self.host, self.place.log, log)
                    self._end_hanging()
                else:
                    why = self._reason(command, log)
                details = {"host": self.host.host, "command": command, "output": why}
                message = f"the fileserver does not start {when}{error}; {why}"
                raise ConfigurationError(message, details)
            time.sleep(_POLL_S)

    def _reason(self, command: str, log: parse.StartLog) -> str:
        """Return the server's own message about a failed start; may stop its instance for that."""
        if log.last_line:
            return f"FileLog: {log.last_line}"
        # It exited before it opened its log, and bosserver discards its output.
        self._stop()
        try:
            # If it keeps running after all, it must not hold this host's lock.
            argv = ["sh", "-c", 'exec "$@" 9<&-', "sh", *command.split()]
            result = self.host.change(argv, timeout_s=_ASK_TIMEOUT_S)
        except TransportError:
            return "it printed nothing"
        return (
            f"it printed: {result.tail}" if result.stderr or result.stdout else "it printed nothing"
        )


def _journal(host: Connector, place: FileserverPlace) -> Journal:
    return Journal(host, place.journal, __package__, _RESTORE, (_STOP,))
