"""Guided setup for OpenAFS: on a private cell of this machine, or on hosts over SSH."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, TypeAdapter, ValidationError

from deploy.cell import CellError, require_machine
from tuner.documents import word_of
from tuner.errors import TestbedError
from tuner.hosts.parallel import on_each
from tuner.hosts.reach import Address, Host, HostPath, SshSection, User, Word
from tuner.services.openafs.server_log import USUAL_LOGS
from tuner.services.start import Choice, Draft, Interview, Question, Start
from tuner.text import counted

if TYPE_CHECKING:
    from tuner.hosts.ssh import SshConnector
    from tuner.services.openafs.first_look import ClientLook, ServerLook

T = TypeVar("T")
_FILESERVER_SPACE = "openafs-fileserver-1.8"
_CLIENT_SPACES = {
    "afsd.fuse": "openafs-cache-manager-fuse-1.8",
    "afsd": "openafs-cache-manager-linux-1.8",
}


def _as(annotation: Any) -> Callable[[str], Any]:
    """Return a parser for a type in testbed files. It raises ValueError with a one-line message."""
    adapter = TypeAdapter(annotation)

    def read(text: str) -> Any:
        try:
            return adapter.validate_python(text)
        except ValidationError as problem:
            message = problem.errors()[0]["msg"].removeprefix("Value error, ")
            raise ValueError(f"{text!r}: {message}") from None

    return read


def _several(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Return a parser for a non-empty list with commas or spaces; drops duplicates."""

    def read_words(text: str) -> list[T]:
        words = list(dict.fromkeys(text.replace(",", " ").split()))
        if not words:
            raise ValueError("name at least one")
        return [read(word) for word in words]

    return read_words


def _key_file(text: str) -> str:
    if text and not Path(text).expanduser().is_file():
        raise ValueError(f"{text!r}: there is no such file")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 16:
        raise ValueError(f"{text!r}: write a number from 1 to 16")
    return int(text)


def _workload(clients: int) -> str:
    return "mixed-use" if clients == 1 else "many-clients"


class CellStart(Start):
    """A private cell on this machine."""

    name = "cell"
    title = "a private OpenAFS cell on this machine, made for the campaign and taken down after it"
    questions = (
        Question(
            "cell-clients",
            "How many clients should the private cell have?",
            "Each is a node of its own, and the workload runs on all of them at once.",
            "1",
        ),
    )

    def unavailable(self, state_directory: Path) -> str | None:
        """See Start.unavailable."""
        try:
            require_machine()
        except CellError as problem:
            return str(problem)
        return None

    def begin(self, interview: Interview, beside: Path, state_directory: Path) -> Draft:
        """See Start.begin."""
        clients = interview.ask(self.questions[0], _count)
        return Draft(
            name="private cell",
            section=f"{{cell: {{name: tuning, clients: {clients}, link: 1gbit}}}}",
            description="brought up for the campaign and taken down after it",
            spaces={
                "fileserver": {"name": _FILESERVER_SPACE},
                "cache_manager": {
                    "name": _CLIENT_SPACES["afsd.fuse"],
                    # Its caches are in memory; a larger range would show nothing.
                    "range": "{blocks: [100000, 800000]}",
                },
            },
            workload=_workload(clients),
            wall_time="30m",
            choices=(
                Choice(
                    "testbed",
                    f"private cell with {counted(clients, 'client')}",
                    "nobody else uses it; what is faster there may not be faster on your disks and "
                    "your network",
                ),
            ),
        )


_SERVER = Question(
    "server",
    "Host name of the fileserver, as SSH reaches it?",
    "fstune restarts this fileserver for each configuration.",
    needed=True,
)
_CLIENTS = Question(
    "clients",
    "Host names of the clients, separated by commas?",
    "They run the workload, all at once, and their AFS client is restarted.",
    needed=True,
)
_USER = Question(
    "user",
    "Which account on the hosts?",
    "It must be root, or be allowed 'sudo -n'.",
    "your own login name",
)
_KEY = Question(
    "key",
    "Which private key file (empty: those in ~/.ssh, and your SSH agent)?",
    "It must have no passphrase, as campaigns run unattended; an agent may end when you log out.",
    "",
)
_ADDRESS = Question(
    "address",
    "Which IP address do clients know the fileserver by?",
    "It goes into the commands that stop and start the fileserver.",
)
_CELL = Question(
    "cell-name",
    "What is the name of the AFS cell?",
    "It is part of the path at which the clients see the volume.",
)
_VOLUME = Question(
    "volume",
    "Which volume may the workload use?",
    "It writes and deletes files there, in a directory of its own.",
)
_PATH = Question(
    "path",
    "Where do the clients see that volume?",
    "The workload runs in this directory.",
)


class HostsStart(Start):
    """An existing fileserver and clients, over SSH."""

    name = "hosts"
    title = "your own fileserver and clients, over SSH"
    questions = (_SERVER, _CLIENTS, _USER, _KEY, _ADDRESS, _CELL, _VOLUME, _PATH)

    def begin(self, interview: Interview, beside: Path, state_directory: Path) -> Draft:
        """See Start.begin."""
        from tuner.services.openafs.first_look import (
            ClientLook,
            ServerLook,
            look_at_client,
            look_at_server,
        )

        host = _as(Host)
        server = interview.ask(_SERVER, host)
        clients = interview.ask(_CLIENTS, _several(host))
        user = interview.ask(_USER, _as(User), default=getpass.getuser())
        key = interview.ask(_KEY, _key_file)
        with ExitStack() as stack:
            hosts = _connect([server, *clients], user, key, stack)
            interview.doing(f"inspecting {len(hosts)} hosts")
            tasks: list[Callable[[], ServerLook | ClientLook]] = [
                partial(look_at_server, hosts[0]),
                *(partial(look_at_client, one) for one in hosts[1:]),
            ]
            looks = on_each(tasks, lambda task: task())
            server_look = next(one for one in looks if isinstance(one, ServerLook))
            client_looks = [one for one in looks if isinstance(one, ClientLook)]
            draft = _HostDraft(server, clients, user, key, server_look, client_looks)
            address = interview.ask(
                _ADDRESS,
                _as(Address),
                default=draft.likely_address(),
                known=f"{server} has {', '.join(server_look.addresses)}.",
            )
            cell = interview.ask(_CELL, _as(_Cell), default=server_look.cell or None)
            volumes = ", ".join(server_look.volumes)
            volume = interview.ask(
                _VOLUME,
                _as(Word),
                default=server_look.volumes[0] if len(server_look.volumes) == 1 else None,
                known=f"{server} has {volumes or 'only the root volumes'}.",
            )
            mount = dict(client_looks[0].words).get("mount", "/afs")
            path = interview.ask(_PATH, _as(HostPath), default=f"{mount}/.:mount/{cell}:{volume}")
            for one in hosts[1:]:
                if one.ask(["timeout", "20", "test", "-d", path]).status != 0:
                    raise TestbedError(
                        f"{one.host}: {path} is not a directory there, or needs a token; name with "
                        "--path where the clients see the volume. If it needs a token, write the "
                        "testbed file by hand, with clients.token (docs/testbeds.md)"
                    )
        return draft.draft(address, volume, path, beside)


def _cell_name(text: str) -> str:
    if not text or not all(c.isalnum() or c in ".-_" for c in text):
        raise ValueError("a cell's name has letters, digits, dots and hyphens")
    return text


_Cell = Annotated[str, AfterValidator(_cell_name)]


def _connect(names: Sequence[str], user: str, key: str, stack: ExitStack) -> list[SshConnector]:
    """Connect to hosts. Raises TestbedError with every host that cannot be reached."""
    from tuner.hosts.connections import patience, ssh_host
    from tuner.hosts.ssh import SshConnector

    path = Path(key).expanduser().absolute() if key else None
    sections = [SshSection(address=name, user=user, key=path) for name in names]
    connections = [
        stack.enter_context(closing(SshConnector(ssh_host(one, Path.cwd()), patience(600.0))))
        for one in sections
    ]
    on_each(connections, lambda one: one.ask(["true"]))
    return connections


class _HostDraft:
    """Drafts the files from the results of inspecting the hosts."""

    def __init__(
        self,
        server: str,
        clients: Sequence[str],
        user: str,
        key: str,
        server_look: ServerLook,
        client_looks: Sequence[ClientLook],
    ) -> None:
        self._server = server
        self._clients = clients
        self._user = user
        self._key = key
        self._server_look = server_look
        self._client_looks = client_looks
        programs = {one.program for one in client_looks}
        if len(programs) > 1:
            listing = ", ".join(f"{one.host} {one.program}" for one in client_looks)
            raise TestbedError(
                f"the clients run different programs, whose settings differ: {listing}; name those "
                "of one kind with --clients"
            )
        self._program = programs.pop()

    def likely_address(self) -> str:
        """The address that SSH uses, if it is one of the server's; otherwise its first one."""
        try:
            ssh_address = socket.gethostbyname(self._server)
        except OSError:
            ssh_address = ""
        addresses = self._server_look.addresses
        return ssh_address if ssh_address in addresses else addresses[0]

    def draft(self, address: str, volume: str, path: str, beside: Path) -> Draft:
        """Create the draft of a campaign file from the answers."""
        client_space = _CLIENT_SPACES[self._program]
        spaces: dict[str, Mapping[str, str]] = {"cache_manager": {"name": client_space}}
        look = self._server_look
        choices = [
            Choice("instance", look.instance, "it is the one of type dafs, which fstune tunes"),
            Choice(
                "clients",
                f"{len(self._client_looks)} with {self._program}",
                "this is the program that runs there, so its search space is used",
            ),
        ]
        if look.tunable:
            spaces = {"fileserver": {"name": _FILESERVER_SPACE}, **spaces}
            why = "there is a search space for this version"
        else:
            why = "there is no search space for this version, so the server is left as it is"
        choices.insert(0, Choice("fileserver", f"OpenAFS {_short(look.version)}", why))
        others = [name for name in (*look.volumes, *look.root_volumes) if name != volume]
        if others:
            volumes_text = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
            choices.append(
                Choice(
                    "other volumes",
                    volumes_text,
                    "the testbed file does not allow them, so a campaign is refused while they are "
                    "there: every restart would interrupt them",
                )
            )
        return Draft(
            name="own fileserver",
            section=f"{{hosts: {word_of(beside.name)}}}",
            description="the hosts: see that file",
            spaces=spaces,
            workload=_workload(len(self._clients)),
            wall_time="6h",
            file=self._text(address, volume, path),
            choices=tuple(choices),
        )

    def _text(self, address: str, volume: str, path: str) -> str:
        look = self._server_look
        lines = [
            "# The hosts of a campaign; docs/testbeds.md has every key. Nothing here is secret.",
            "# Check first: fstune testbed check FILE --dry-run",
            "name: own fileserver",
            f"path: {word_of(path)}    # where all clients see the volume; the workload runs there",
            "server:",
            f"  reach: {self._reach(self._server)}",
            f"  address: {address}    # as clients know it",
            f"  instance: {look.instance}    # bosserver's name for it",
            f"  volumes: [{volume}]    # those that the workload may use",
        ]
        if look.log not in ("", USUAL_LOGS[0]):
            lines.append(f"  log: {word_of(look.log)}    # it shows whether a start succeeds")
        if look.root_volumes:
            lines += [
                "  # A campaign is refused while the server has volumes that are not named. Every",
                "  # restart interrupts these; remove the '# ' only if that is acceptable.",
                f"  # other_volumes: [{', '.join(look.root_volumes)}]",
            ]
        lines.append("clients:    # they run the workload, all at once")
        for number, (name, looker) in enumerate(
            zip(self._clients, self._client_looks, strict=True), start=1
        ):
            words = ", ".join(f"{key}: {word_of(value)}" for key, value in looker.words)
            lines += [
                f"  - name: c{number}",
                f"    reach: {self._reach(name)}",
                f"    control: {{{looker.control}: {{{words}}}}}",
            ]
        lines += [
            "# hours: {start: '20:00', end: '06:00'}    # measure at night only",
            "# other_clients: [192.0.2.7]    # addresses that may use the server meanwhile",
            "restore: {after: 30m}    # after this long without fstune, a host restores itself",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _reach(self, name: str) -> str:
        words = {"address": name, "user": self._user}
        if self._key:
            words["key"] = str(Path(self._key).expanduser().absolute())
        mapping = ", ".join(f"{key}: {word_of(value)}" for key, value in words.items())
        return f"{{ssh: {{{mapping}}}}}"


def _short(version: str) -> str:
    """The version number in, for example, ``OpenAFS 1.8.9-1-debian 2022-12-14 root@host``."""
    words = version.removeprefix("OpenAFS").split()
    return words[0] if words else "of an unknown version"
