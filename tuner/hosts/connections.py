"""Connections to the hosts of a testbed file, by whichever way each is reached."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

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

    def absolute(path: Path) -> Path:
        return base / path.expanduser()

    jump = section.jump
    through = None
    if jump is not None:
        through = SshHost(
            jump.address,
            jump.user,
            jump.port,
            None if jump.key is None else absolute(jump.key),
            section.agent,
            absolute(section.known_hosts),
        )
    return SshHost(
        address=section.address,
        user=section.user,
        port=section.port,
        key_file=None if section.key is None else absolute(section.key),
        agent=section.agent,
        known_hosts=absolute(section.known_hosts),
        sudo=section.by_sudo,
        jump=through,
    )
