"""What is set on one kernel client while it runs, by fs commands: given anew after each start,
proven, put back.

A start loses all of it. Encryption is the connections' matter: each keeps what it was made with, so
a change ends in connections that are made anew, and what is in effect is what the connection shows
that carries a call.
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
from tuner.services.journal import Journal
from tuner.services.openafs import parse
from tuner.services.openafs.tokens import Tokens
from tuner.services.part import NotInEffect

PROGRAM = "fs"
CRYPT = "crypt"

_RESTORE = "live-restore.sh"
_TIMEOUT_S = 20.0
#: What a client does that was just started. Nothing says what precache is: that counts as found.
_AT_START: Mapping[str, Value] = {
    CRYPT: "on",
    "store_behind": 0,
    "precache": 0,
    "bypass_threshold": -1,
}
#: What a level of rxkad is in the words of fs setcrypt; "auth" protects headers only.
_IN_WORDS = {"crypt": "on", "auth": "off", "clear": "off"}


@dataclass(slots=True)
class Live:
    """The settings of one running client, by the names of the space. ``found``: those that it says,
    as found. ``address``: the fileserver's; ``path``: a directory there. ``tuned``: a part takes
    care of it; else whoever starts the client sees that what was found stays.
    """

    host: Connector
    space: Space
    tokens: Tokens | None
    directory: str
    address: str
    path: str
    found: dict[str, Value]
    wanted: dict[str, Value] = field(default_factory=dict)
    recorded: bool = False
    tuned: bool = True
    #: All that are in effect; None while that is not known.
    _given: dict[str, Value] | None = None

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
    ) -> Live:
        """Read what is set; nothing is changed. ``place``: ``directory``, ``address``, ``path``.

        A journal left by a run that was cut off says what was really found; then that counts.
        ``silent``: a client that does not answer will do, since it is only put back: by what a
        journal says that is still to be opened. Else raises TestbedError when it does not answer.
        """
        directory, address, path = place
        journal = _journal(host, directory)
        if (kept := journal.read("found")) is not None:
            found = _read(kept)
        else:
            with understood(host.host):
                try:
                    found = asked(host)
                except (CommandFailed, CommandTimeout, ValueError):
                    if not silent:
                        raise
                    found = {}
        return cls(host, space, tokens, directory, address, path, found, dict(found), tuned=tuned)

    @property
    def journal(self) -> Journal:
        """Its restore journal."""
        return _journal(self.host, self.directory)

    @property
    def settings(self) -> dict[str, Value]:
        """What was found as a configuration: what is not as after a start, and encryption where
        there is any.
        """
        return {
            name: value
            for name, value in self.found.items()
            if value != _AT_START[name] or (name == CRYPT and self.tokens is not None)
        }

    @property
    def lost_by_start(self) -> bool:
        """Whether anything was found that is otherwise after a start; encryption is everybody's
        care who starts a client.
        """
        return any(v != _AT_START[name] for name, v in self.found.items() if name != CRYPT)

    @property
    def crypt(self) -> str:
        """What a start must make connections with: "on", "off", or "" to leave that alone."""
        return str(self._all(self.wanted)[CRYPT])

    def set(self, values: Mapping[str, Value]) -> bool:
        """Bring values into effect; those that are not among them become as after a start. Whether
        anything had to be done. Raises ConfigurationError for what the client does not take, or
        for another encryption without a token, TestbedError.
        """
        wanted = self._all(values)
        if self.tokens is None and wanted[CRYPT] != self.found.get(CRYPT, ""):
            raise ConfigurationError(
                f"{self.host.host}: without a token nothing is encrypted: for "
                f"client_runtime.{CRYPT} name a keytab under clients.token of the testbed file"
            )
        if foreign := wanted.keys() - _AT_START.keys():
            raise ConfigurationError(
                f"client_runtime.{min(foreign)} cannot be changed here: cache_manager.blocks says "
                "the same"
            )
        if self._given == wanted:
            return False
        self._record()
        self.wanted = dict(values)
        self._give(wanted)
        return True

    def gone(self) -> None:
        """The client is about to be started anew."""
        self._record()
        self._given = None

    def started(self) -> None:
        """The client was started anew, with ``crypt``: give it the rest. Raises as ``set``."""
        self._given = self._all({})
        self._given[CRYPT] = self.crypt
        self._give(self._all(self.wanted))

    def _all(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Values for everything. Without a token encryption stays as found."""
        usual = dict(_AT_START)
        if self.tokens is None:
            usual[CRYPT] = self.found.get(CRYPT, "")
        return {**usual, **values}

    def _give(self, values: dict[str, Value]) -> None:
        """Run the commands for what is not in effect; connections are made anew for encryption."""
        before, self._given = self._given, None
        changed = {n: v for n, v in values.items() if before is None or before[n] != v}
        if changed.get(CRYPT) == "":
            del changed[CRYPT]
        for command in split(self.space.render(changed)):
            result = self.host.change(["timeout", "20", PROGRAM, *command])
            if result.status != 0:
                said = f"the client does not take fs {' '.join(command)}: {result.tail}"
                raise ConfigurationError(said, failure_data(result, self.host.host))
        if CRYPT in changed and self.tokens is not None:
            self.tokens.make()
        self._given = values

    def shown(self) -> dict[str, Value]:
        """What is in effect, by read-back key. Raises ConfigurationError when the client does not
        answer any more, NotInEffect when no connection with our token carries a call.
        """
        try:
            found = asked(self.host)
            if self.tokens is not None and self.tokens.made:
                found[CRYPT] = self._connections_show()
        except (CommandTimeout, CommandFailed, ValueError) as problem:
            said = f"{self.host.host}: the client is gone: {problem}"
            raise ConfigurationError(said) from problem
        return {f"fs.{name}": value for name, value in found.items()}

    def _connections_show(self) -> str:
        """Whether the connections that carry a call now encrypt, by rxkad's own word."""
        before = frozenset(self._connections())
        # This asks the server each time, with the token.
        check(self.host, ["timeout", "20", PROGRAM, "listquota", "-path", self.path])
        used = {one.level for one in self._connections() if one not in before and one.level}
        if len(words := {_IN_WORDS.get(level, level) for level in used}) != 1:
            seen = f"levels {', '.join(sorted(used))}" if used else "no connection with a token"
            raise NotInEffect(
                f"{self.host.host}: a call to the fileserver should be carried by connections "
                f"of one level, it is by {seen}"
            )
        return words.pop()

    def _connections(self) -> list[parse.Connection]:
        """Those to the fileserver."""
        asking = ["rxdebug", "127.0.0.1", "7001", "-allconnections", "-onlyclient"]
        said = parse.client_connections(check(self.host, asking, timeout_s=_TIMEOUT_S))
        server = self.address, parse.FILESERVER_PORT
        return [one for one in said if (one.address, one.port) == server]

    def keep(self, name: str) -> None:
        """See LastingPart.keep."""
        self.journal.keep(name)
        self.recorded = False

    def reopen(self, name: str) -> None:
        """See LastingPart.reopen."""
        self.journal.reopen(name)
        if (kept := self.journal.read("found")) is not None:
            self.found = _read(kept)

    def restore(self) -> str:
        """See Part.restore."""
        if self.recorded:
            self._begin()  # somebody may have removed it
        done = self.journal.restore() or "left as found"
        self.recorded, self._given, self.wanted = False, None, dict(self.found)
        return f"the running client on {self.host.host} {done}"

    def _record(self) -> None:
        """Before the first change: write down, on the host itself, what was found."""
        if not self.recorded:
            self._begin()
            self.recorded = True

    def _begin(self) -> None:
        found = [f"{name}={value}" for name, value in sorted(self.found.items())]
        words = {name: str(self.found.get(name, "")) for name in _AT_START}
        words["precache"] = str(_AT_START["precache"])
        self.journal.begin({"found": found}, words)


def asked(host: Connector) -> dict[str, Value]:
    """What a running client says of itself: encryption of new connections (missing when it does
    not say), and what is left to store or read past the cache, by the names of the space. Raises
    CommandTimeout, CommandFailed or ValueError.
    """

    def fs(*words: str) -> str:
        return check(host, [PROGRAM, *words], timeout_s=_TIMEOUT_S)

    found: dict[str, Value] = {
        "store_behind": parse.store_asynchrony_kib(fs("storebehind")),
        "bypass_threshold": parse.bypass_threshold(fs("bypassthreshold")),
    }
    if crypt := parse.encryption(fs("getcrypt")):
        found[CRYPT] = crypt
    return found


def _read(record: Sequence[str]) -> dict[str, Value]:
    """What the journal says was found."""
    pairs = (one.partition("=") for one in record)
    return {name: value if name == CRYPT else int(value) for name, _, value in pairs}


def _journal(host: Connector, directory: str) -> Journal:
    return Journal(host, f"{directory}/client_runtime", __package__, _RESTORE)
