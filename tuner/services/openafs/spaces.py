"""Checks of search spaces for parts that are not programs with command-line options.

These are the runtime settings of clients, and the network limits of hosts.
"""

from __future__ import annotations

from search_spaces import Form, Space, describe
from tuner.errors import SpecError
from tuner.services.kind import Program
from tuner.services.openafs.kernel_limits import PROGRAM, SETTINGS

#: A file of settings that are applied when a host boots.
SYSCTL_FILE = "/etc/sysctl.d/fstune.conf"
#: How an administrator applies network limits.
SYSCTL = Program(
    f"{SYSCTL_FILE}, or another file there, on every host of the testbed",
    "sysctl --system; then restart the fileserver: its socket keeps the buffers that it has",
    format="sysctl.d",
)


def check_runtime(space: Space, client: str, tokens: bool) -> None:
    """Check that the space's fs settings can be applied to the clients and are not set twice.

    Raises SpecError.
    """
    if client != "afsd":
        raise SpecError(
            f"spaces.{space.part}: {client} takes no fs commands that set anything; only the "
            "kernel client does, see 'The kernel client' in docs/testbeds.md"
        )
    if space.program != "fs" or space.form is not Form.COMMANDS:
        raise SpecError(
            f"spaces.{space.part}: {space.name} has no fs commands; it is for "
            f"{describe.purpose(space)}"
        )
    changed = {p.name for p in space.parameters if p.searched or p.fixed is not None}
    if "cache_size" in changed:
        raise SpecError(
            f"spaces.{space.part}: cache_size is the size that cache_manager.blocks gives at "
            "the start; tune that one"
        )
    if "crypt" in changed and not tokens:
        raise SpecError(
            f"spaces.{space.part}: without a token nothing is encrypted: for crypt name a "
            "keytab under 'token' of every client in the testbed file"
        )


def check_network(space: Space, *, own_kernel: bool) -> None:
    """Check that a space has only settings of this part, and a testbed a host for them.

    ``own_kernel``: whether any of its hosts has its own kernel. Raises SpecError.
    """
    where = f"spaces.{space.part}"
    if not own_kernel:
        raise SpecError(
            f"{where}: nodes of a private cell share the kernel of the machine that they are on, "
            "and its network limits cannot be set from inside; it needs a testbed file with a host "
            "that has its own kernel"
        )
    flags = {parameter.flag for parameter in space.parameters}
    if space.program != PROGRAM or space.form is not Form.SETTINGS or not flags <= {*SETTINGS}:
        raise SpecError(
            f"{where}: {space.name} sets more than {' and '.join(SETTINGS)}; it is for "
            f"{describe.purpose(space)}"
        )
