"""Connections to the hosts of a testbed file, by whichever way each is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from tuner.errors import AccessError
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.hold import patience_s
from tuner.hosts.link import open_socket
from tuner.hosts.local import LocalConnector
from tuner.hosts.log_in import Patience, SshHost
from tuner.hosts.node import SupervisedNode
from tuner.hosts.node_supervisor import NodeSupervisors
from tuner.hosts.nodes import from_node, node
from tuner.hosts.reach import ReachedHosts, ReachSection, SshSection
from tuner.hosts.ssh import SshConnector


class Hosts:
    """Connections to all hosts of a testbed, opened when first used.

    ``all``: to the server, then to the clients.
    """

    def __init__(self, file: ReachedHosts, base: Path, state_directory: Path) -> None:
        """``base``: the directory for relative paths in the file."""
        self._stack = ExitStack()
        self._reached, self._base = file.reached, base
        self._patience = patience(file.restore.after)
        try:
            self.all = tuple(self._connect(one, base, state_directory) for one in file.reached)
        except BaseException:
            self._stack.close()
            raise

    @property
    def server(self) -> SpeakingConnector:
        """The connection to the server."""
        return self.all[0]

    @property
    def clients(self) -> tuple[SpeakingConnector, ...]:
        """The connections to the clients."""
        return self.all[1:]

    def check_files(self, sections: Sequence[str]) -> None:
        """Raise AccessError if files that the testbed file names, of keys or known_hosts, do not
        exist. ``sections``: the key of each ``reach`` section in the file.
        """
        wrong = [
            f"{section}.ssh.{key}: there is no file {path}; correct the path, or create the file"
            for section, one in zip(sections, self._reached, strict=True)
            for key, path in _missing_files(one.ssh, self._base)
        ]
        if wrong:
            raise AccessError("; ".join(wrong))

    def close(self) -> None:
        """Close all connections."""
        self._stack.close()

    def _connect(self, reach: ReachSection, base: Path, state: Path) -> SpeakingConnector:
        if reach.ssh is not None:
            host = ssh_host(reach.ssh, base)
            within_node = reach.ssh.netns
            opener = open_socket if within_node is None else from_node(state, within_node)
            return self._stack.enter_context(closing(SshConnector(host, self._patience, opener)))
        if reach.netns is not None:
            entered = node(state, reach.netns)
            supervisors = self._stack.enter_context(closing(NodeSupervisors(entered)))
            return SupervisedNode(entered, supervisors)
        return LocalConnector()


def patience(after_s: float) -> Patience:
    """Return the timeouts for SSH hosts that restore themselves after ``after_s`` seconds.

    A dead connection must be detected and re-established well before that.
    """
    usual = Patience()
    return Patience(
        connect_s=min(usual.connect_s, after_s / 4.0),
        keepalive_s=min(usual.keepalive_s, after_s / 20.0),
        reconnect_s=patience_s(after_s),
    )


def ssh_host(section: SshSection, base: Path) -> SshHost:
    """How a host is reached over SSH; relative paths are relative to ``base``."""
    jump = section.jump
    through = None
    if jump is not None:
        through = SshHost(
            jump.address,
            jump.user,
            jump.port,
            None if jump.key is None else _absolute(base, jump.key),
            section.agent,
            _absolute(base, section.known_hosts),
        )
    return SshHost(
        address=section.address,
        user=section.user,
        port=section.port,
        key_file=None if section.key is None else _absolute(base, section.key),
        agent=section.agent,
        known_hosts=_absolute(base, section.known_hosts),
        sudo=section.by_sudo,
        jump=through,
    )


def _absolute(base: Path, path: Path) -> Path:
    return base / path.expanduser()


def _missing_files(section: SshSection | None, base: Path) -> Iterator[tuple[str, Path]]:
    """Yield files named in a section that do not exist, each with its key there. The usual
    known_hosts need not exist: the refusal of a host says how to add its key.
    """
    if section is None:
        return
    files = {"key": section.key}
    if section.jump is not None:
        files["jump.key"] = section.jump.key
    if "known_hosts" in section.model_fields_set:
        files["known_hosts"] = section.known_hosts
    for key, path in files.items():
        if path is not None and _is_missing(_absolute(base, path)):
            yield key, _absolute(base, path)


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except OSError as problem:
        # Others, such as denied access, are reported when the host is connected to.
        return isinstance(problem, FileNotFoundError | NotADirectoryError)
    return False
