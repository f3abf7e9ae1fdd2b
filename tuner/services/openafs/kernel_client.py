"""The kernel client on one client host, managed by a systemd unit.

Its options are in a file that the unit reads: ``OPTIONS=`` in Debian's afs.conf, ``AFSD_ARGS=`` in
Red Hat's sysconfig file. For every change, a script writes that line and restarts the unit; it
starts nothing before the old client is gone. A start sets encryption from the host's own files, so
the original encryption is set again afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import (
    CommandFailed,
    CommandTimeout,
    Connector,
    check,
)
from tuner.model import Value
from tuner.services.journal import Journal, WithJournal
from tuner.services.lasting import JournalState
from tuner.services.openafs import parse
from tuner.services.openafs.cache_manager import cache_info
from tuner.services.openafs.client import ClientVersion, put_scripts, remount
from tuner.services.openafs.live import LiveSettings
from tuner.services.openafs.shell_options import options_in, with_options
from tuner.services.openafs.tokens import TokenPlace, Tokens

PROGRAM = "afsd"

_REMOUNT, _RESTORE = "kernel-remount.sh", "kernel-restore.sh"
#: Scripts that the one for remounting calls: they find mounts in other mount namespaces, and what
#: else would prevent a restart.
COPIES, READY = "kernel-copies.sh", "kernel-ready.sh"
_HELPERS = (_REMOUNT, COPIES, READY)
_NEW_FILE = "wanted"
#: The original content of the file, and the last one that was written to it; the scripts use these
#: names too.
_CONFIGURATION, _APPLIED = "configuration", "applied"
#: The file that marks that there is something to restore; the scripts use this name too.
_STOPPED = "stopped"
_ANSWER_TIMEOUT_S = 20.0
#: How long, and how often, a query is retried when the client does not answer, in seconds.
_PATIENCE_S, _POLL_S = 30.0, 0.5
#: Longer than the script can take, which gives each step a limit: the longest start, and the others
#: (stop, shutdown, wiping the cache, a first access).
_REMOUNT_TIMEOUT_S = 900.0 + 600.0
#: Restoring runs that script, too.
_RESTORE_TIMEOUT_S = _REMOUNT_TIMEOUT_S + 30.0
#: The encoding of the configuration file, whose comments may have any bytes.
_ANY_BYTES = ("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class KernelPlace:
    """Where a client's cache manager is.

    ``unit``: its systemd unit; ``file`` and ``variable``: its configuration file, and the variable
    with the options there; ``mount``: its mount point; ``cache``: its cache directory; ``probe``: a
    path that is visible when it works; ``directory``: for files of fstune on that host.
    """

    unit: str
    file: str
    variable: str
    mount: str
    cache: str
    probe: str
    directory: str
    token: TokenPlace | None = None


@dataclass(slots=True)
class KernelClient(WithJournal):
    """One kernel client; see Client.

    ``configuration``: the original text of its file. ``crypt``: the original encryption, "on",
    "off", or "" if unknown. ``tokens``: its token, if fstune provides one; ``live``: the runtime
    settings to set again after each start, if any.
    """

    host: Connector
    place: KernelPlace
    configuration: str
    crypt: str
    tokens: Tokens | None = None
    live: LiveSettings | None = None
    version: ClientVersion = field(default_factory=ClientVersion)

    @classmethod
    def attach(cls, host: Connector, place: KernelPlace) -> KernelClient:
        """Read the client's configuration, changing nothing except for adding fstune's script.

        If an interrupted run left a journal, it has the original configuration and takes
        precedence. Raises TestbedError when the options cannot be read.
        """
        journal = _journal(host, place)
        record = journal.read("found")
        configuration = record[0] if record else host.get(place.file).decode(*_ANY_BYTES)
        asking = ["cat", f"{journal.directory}/crypt"] if record else ["fs", "getcrypt"]
        output = host.ask(asking).stdout
        crypt = output.strip() if record else parse.encryption(output)
        put_scripts(host, place.directory, *_HELPERS)
        tokens = None if place.token is None else Tokens(host, place.token)
        client = cls(host, place, configuration, crypt, tokens)
        _ = client.options  # raise before anything is changed if they cannot be parsed
        return client

    @property
    def cache(self) -> str:
        """See Client.cache."""
        return self.place.cache

    @property
    def options(self) -> tuple[str, ...]:
        """See Client.options: those in the configuration file."""
        try:
            return options_in(self.configuration, self.place.variable)
        except ValueError as problem:
            raise TestbedError(f"{self.host.host}: {self.place.file}: {problem}") from problem

    @property
    def journal(self) -> Journal:
        """See Client.journal."""
        return _journal(self.host, self.place)

    @property
    def options_file(self) -> str | None:
        """See Client.options_file."""
        return self.place.file

    def start(self, options: Sequence[str]) -> None:
        """See Client.start."""
        place = self.place
        self._record()
        new_configuration = with_options(self.configuration, place.variable, options)
        content = f"{self.journal.directory}/{_NEW_FILE}"
        self.host.put(content, new_configuration.encode(*_ANY_BYTES), mode=0o600)
        crypt = self.crypt
        if self.live is not None:
            self.live.note_stop()
            crypt = self.live.crypt
        argv = ["sh", f"{place.directory}/{_REMOUNT}", place.unit, place.mount, place.cache]
        argv += [place.probe, place.file, content, crypt]
        self.version.is_due = True
        remount(self.host, argv, _REMOUNT_TIMEOUT_S, "restarted")
        if self.live is not None:
            self.live.note_start()
        # Last, since connections that use the token keep the encryption in effect now.
        if self.tokens is not None:
            self.tokens.make()

    def refresh(self) -> None:
        """See Client.refresh."""
        if self.tokens is not None:
            self.tokens.renew()

    def keep(self, name: str) -> None:
        """See Client.keep; destroys the token, which was only needed for measuring."""
        self.journal.keep(name)
        self.recorded = False
        self._restore_live()
        if self.tokens is not None:
            self.tokens.restore()

    def effective(self) -> dict[str, Value]:
        """See Client.effective: queries the cache manager."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._answer()
            except (CommandTimeout, CommandFailed, ValueError) as problem:
                # The client may not answer immediately after a start on a slow host.
                if time.monotonic() > deadline:
                    message = f"{self.host.host}: the client is gone: {problem}"
                    raise ConfigurationError(message) from problem
            time.sleep(_POLL_S)

    def _answer(self) -> dict[str, Value]:
        asking = ["cmdebug", "127.0.0.1", "-cache"]
        configuration = parse.cache_configuration(
            check(self.host, asking, timeout_s=_ANSWER_TIMEOUT_S)
        )
        self.version.check(self.host, parse.CACHE_MANAGER_PORT)
        return {f"cmdebug.{key}": value for key, value in configuration.items()}

    def reopen(self, name: str) -> None:
        """See Client.reopen."""
        self.journal.reopen(name)
        if (record := self.journal.read("found")) is not None:
            self.configuration = record[0]
        if self.live is not None and not self.live.tuned:
            self.live.note_stop()  # restoring the client will restart it

    def changed_since(self, name: str, own: Callable[[Sequence[str]], Sequence[str]]) -> str:
        """See Client.changed_since: the whole file is restored."""
        journal, beside = self.journal, self.journal.of_application(name).directory
        # What a campaign that was cut off has left there is restored first.
        cut_off = journal.state(name) is JournalState.OPEN
        file = f"{journal.directory}/{_CONFIGURATION}" if cut_off else self.place.file
        if self.host.ask(["test", "-e", f"{beside}/{_APPLIED}"]).status != 0 or any(
            self.host.ask(["cmp", "-s", file, f"{beside}/{same}"]).status == 0
            for same in (_APPLIED, _CONFIGURATION)
        ):
            return ""
        return (
            f"{self.host.host}: {self.place.file} is no longer as it was written, with the options "
            f"{' '.join(self.options) or 'none'}"
        )

    def restore(self) -> str:
        """See Client.restore."""
        if self.recorded and self._begin():  # the journal had been removed
            self.host.put(f"{self.journal.directory}/{_STOPPED}", b"")
        try:
            action = self.journal.restore(_RESTORE_TIMEOUT_S) or "left as found"
            self._restore_live()
        finally:
            token_removal = None if self.tokens is None else self.tokens.restore()
        self.recorded = self.version.is_due = False
        message = f"{self.place.unit} on {self.host.host} {action}: {' '.join(self.options)}"
        return message if token_removal is None else f"{message}; {token_removal}"

    def _restore_live(self) -> None:
        """Restore the runtime settings unless a part does that."""
        if self.live is not None and not self.live.tuned:
            self.live.restore()

    def _begin(self) -> bool:
        place = self.place
        words = {"path": place.file, "unit": place.unit, "mount": place.mount}
        words |= {"cache": place.cache, "probe": place.probe, "crypt": self.crypt}
        files = {_CONFIGURATION: self.configuration.encode(*_ANY_BYTES)}
        records = {"found": (self.configuration,)}
        return self.journal.begin(records, words, files)


def directories(host: Connector, file: str, variable: str) -> tuple[str, str]:
    """Mount point and cache directory of a client: from the options in its configuration file, or
    else from its cacheinfo file. Raises TestbedError when there is no readable one.
    """
    text = host.ask(["cat", "--", file]).stdout
    try:
        words = options_in(text, variable)
    except ValueError:
        words = ()  # reported when the options are read to be changed
    values = {
        name: value
        for flag, value in pairwise(words)
        for name in ("-mountdir", "-cachedir", "-confdir")
        if len(flag) > 2 and name.startswith(flag)
    }
    mount, cache, _ = cache_info(host, values.get("-confdir"))
    return values.get("-mountdir", mount), values.get("-cachedir", cache)


def _journal(host: Connector, place: KernelPlace) -> Journal:
    return Journal(host, f"{place.directory}/cache_manager", __package__, _RESTORE, _HELPERS)
