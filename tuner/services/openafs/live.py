"""Runtime settings of one kernel client, by fs commands: setting, verifying and restoring them.

A restart of the client loses all of them, so they are set again after each. Encryption is a
property of connections, which keep it from when they were created. So all connections are recreated
when it changes, and it is read back from a connection that carries a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from search_spaces import Space
from search_spaces.forms import split
from tuner.errors import ConfigurationError
from tuner.hosts.connector import (
    CommandFailed,
    CommandTimeout,
    Connector,
    check,
    failure_data,
    understood,
)
from tuner.model import Value
from tuner.services.journal import Journal, WithJournal
from tuner.services.openafs import parse
from tuner.services.openafs.tokens import Tokens
from tuner.services.part import NotInEffect

PROGRAM = "fs"
CRYPT = "crypt"

_RESTORE = "live-restore.sh"
_TIMEOUT_S = 20.0
#: The settings of a freshly started client. No command shows precache: this is assumed for it.
_AT_START: Mapping[str, Value] = {
    CRYPT: "on",
    "store_behind": 0,
    "precache": 0,
    "bypass_threshold": -1,
}
#: Levels of rxkad as values of fs setcrypt; "auth" protects headers only.
_IN_WORDS = {"crypt": "on", "auth": "off", "clear": "off"}


@dataclass(slots=True)
class LiveSettings(WithJournal):
    """The runtime settings of one client, by the names of the space.

    ``initial``: the original values. ``address``: of the fileserver; ``path``: a directory on it.
    ``tuned``: whether a part tunes and restores them; otherwise ``KernelClient`` preserves them.
    """

    host: Connector
    space: Space
    tokens: Tokens | None
    directory: str
    address: str
    path: str
    initial: dict[str, Value]
    requested: dict[str, Value] = field(default_factory=dict)
    tuned: bool = True
    #: All settings in effect; None while they are unknown.
    _in_effect: dict[str, Value] | None = None

    @classmethod
    def attach(
        cls,
        host: Connector,
        space: Space,
        tokens: Tokens | None,
        place: tuple[str, str, str],
        *,
        silent: bool = False,
        tuned: bool = True,
    ) -> LiveSettings:
        """Read the original settings, without changing anything.

        ``place``: ``directory``, ``address`` and ``path``. If an interrupted run left a journal, it
        has the original settings and takes precedence. Raises TestbedError when the client does not
        answer, unless it may be ``silent``: it is then only restored, from a journal that has yet
        to be opened.
        """
        directory, address, path = place
        journal = _journal(host, directory)
        if (record := journal.read("found")) is not None:
            initial = _read(record)
        else:
            with understood(host.host):
                try:
                    initial = running_settings(host)
                except (CommandFailed, CommandTimeout, ValueError):
                    if not silent:
                        raise
                    initial = {}
        return cls(
            host, space, tokens, directory, address, path, initial, dict(initial), tuned=tuned
        )

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        return _journal(self.host, self.directory)

    @property
    def settings(self) -> dict[str, Value]:
        """The initial settings as a configuration.

        It has those that differ from a freshly started client, and encryption if there is a token.
        """
        return {
            name: value
            for name, value in self.initial.items()
            if value != _AT_START[name] or (name == CRYPT and self.tokens is not None)
        }

    @property
    def lost_by_start(self) -> bool:
        """Whether a restart would lose an initial setting.

        Encryption is ignored, since whatever starts the client sets it.
        """
        return any(v != _AT_START[name] for name, v in self.initial.items() if name != CRYPT)

    @property
    def crypt(self) -> str:
        """Encryption to set at a start: "on", "off", or "" to leave it unchanged."""
        return str(self._all(self.requested)[CRYPT])

    def set(self, values: Mapping[str, Value], *, anew: bool = False) -> bool:
        """Put values into effect; the other settings get the values of a freshly started client.

        ``anew``: set all of them, with new connections, even if they are in effect.
        Returns whether anything was changed. Raises ConfigurationError when the client refuses a
        value, or when encryption is to change without a token; TestbedError.
        """
        requested = self._all(values)
        if self.tokens is None and requested[CRYPT] != self.initial.get(CRYPT, ""):
            raise ConfigurationError(
                f"{self.host.host}: without a token nothing is encrypted: for "
                f"client_runtime.{CRYPT} name a keytab under clients.token of the testbed file"
            )
        if foreign := requested.keys() - _AT_START.keys():
            raise ConfigurationError(
                f"client_runtime.{min(foreign)} cannot be changed here: cache_manager.blocks sets "
                "the same"
            )
        if self._in_effect == requested and not anew:
            return False
        if anew:
            self._in_effect = None
        self._record()
        self.requested = dict(values)
        self._give(requested)
        return True

    def note_stop(self) -> None:
        """Note that the client is about to be restarted, which loses all settings."""
        self._record()
        self._in_effect = None

    def note_start(self) -> None:
        """Note that the client was restarted with ``crypt``; set the rest. Raises like ``set``."""
        self._in_effect = self._all({})
        self._in_effect[CRYPT] = self.crypt
        self._give(self._all(self.requested))

    def _all(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Complete values to all settings. Without a token, encryption stays as it was."""
        usual = dict(_AT_START)
        if self.tokens is None:
            usual[CRYPT] = self.initial.get(CRYPT, "")
        return {**usual, **values}

    def _give(self, values: dict[str, Value]) -> None:
        """Run the commands for all differences; a change of encryption needs new connections."""
        before, self._in_effect = self._in_effect, None
        changed = {n: v for n, v in values.items() if before is None or before[n] != v}
        if changed.get(CRYPT) == "":
            del changed[CRYPT]
        for command in split(self.space.render(changed)):
            result = self.host.change(["timeout", "20", PROGRAM, *command])
            if result.status != 0:
                message = f"the client does not take fs {' '.join(command)}: {result.tail}"
                raise ConfigurationError(message, failure_data(result, self.host.host))
        if CRYPT in changed and self.tokens is not None:
            self.tokens.make()
        self._in_effect = values

    def effective(self) -> dict[str, Value]:
        """Return the settings in effect, by read-back key.

        Raises ConfigurationError when the client no longer answers, and NotInEffect when calls are
        not carried by connections with our token, all with the same encryption.
        """
        try:
            values = running_settings(self.host)
            if self.tokens is not None and self.tokens.is_ours:
                values[CRYPT] = self._connections_show()
        except (CommandTimeout, CommandFailed, ValueError) as problem:
            message = f"{self.host.host}: the client is gone: {problem}"
            raise ConfigurationError(message) from problem
        return {f"fs.{name}": value for name, value in values.items()}

    def _connections_show(self) -> str:
        """Return the encryption of the connections that carry a call now, as rxkad reports it."""
        before = frozenset(self._connections())
        # This calls the server every time, using the token.
        check(self.host, ["timeout", "20", PROGRAM, "listquota", "-path", self.path])
        levels = {one.level for one in self._connections() if one not in before and one.level}
        if len(words := {_IN_WORDS.get(level, level) for level in levels}) != 1:
            description = (
                f"levels {', '.join(sorted(levels))}" if levels else "no connection with a token"
            )
            raise NotInEffect(
                f"{self.host.host}: a call to the fileserver should use connections of one "
                f"security level, but uses {description}"
            )
        return words.pop()

    def _connections(self) -> list[parse.Connection]:
        """Return the connections to the fileserver."""
        port = str(parse.CACHE_MANAGER_PORT)
        asking = ["rxdebug", "127.0.0.1", port, "-allconnections", "-onlyclient"]
        connections = parse.client_connections(check(self.host, asking, timeout_s=_TIMEOUT_S))
        server = self.address, parse.FILESERVER_PORT
        return [one for one in connections if (one.address, one.port) == server]

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        self.journal.keep(name)
        self.recorded = False

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        self.journal.reopen(name)
        if (record := self.journal.read("found")) is not None:
            self.initial = _read(record)

    def restore(self) -> str:
        """See Part.restore."""
        if self.recorded:
            self._begin()  # the journal may have been removed
        action = self.journal.restore() or "left as found"
        self.recorded, self._in_effect, self.requested = False, None, dict(self.initial)
        return f"the running client on {self.host.host} {action}"

    def _begin(self) -> bool:
        record = [f"{name}={value}" for name, value in sorted(self.initial.items())]
        words = {name: str(self.initial.get(name, "")) for name in _AT_START}
        words["precache"] = str(_AT_START["precache"])
        return self.journal.begin({"found": record}, words)


def running_settings(host: Connector) -> dict[str, Value]:
    """Read the settings that a running client shows, by the names of the space.

    These are the encryption of new connections (omitted if not shown), asynchronous stores and the
    cache bypass threshold. Raises CommandTimeout, CommandFailed or ValueError.
    """

    def fs(*words: str) -> str:
        return check(host, [PROGRAM, *words], timeout_s=_TIMEOUT_S)

    settings: dict[str, Value] = {
        "store_behind": parse.store_asynchrony_kib(fs("storebehind")),
        "bypass_threshold": parse.bypass_threshold(fs("bypassthreshold")),
    }
    if crypt := parse.encryption(fs("getcrypt")):
        settings[CRYPT] = crypt
    return settings


def _read(record: Sequence[str]) -> dict[str, Value]:
    """Parse the settings in a record of the journal."""
    pairs = (one.partition("=") for one in record)
    return {name: value if name == CRYPT else int(value) for name, _, value in pairs}


def _journal(host: Connector, directory: str) -> Journal:
    return Journal(host, f"{directory}/client_runtime", __package__, _RESTORE)
