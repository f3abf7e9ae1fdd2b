"""Start, inspect and stop a guest with the OpenAFS kernel client on the network of a private cell.

Owns the guest's files in the cell's directory. QEMU runs in the server node and ends with it, so
taking the cell down is complete even after a crash. The guest is reached over SSH from the server
node's network; the host's network is not used.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.cell import (
    Cell,
    CellError,
    Cells,
    CellSpec,
    NodeAdditions,
    RawResult,
    kerberos,
    require_machine,
)
from deploy.cell.cell import write_record
from deploy.cell.client import MOUNT_POINT, VOLUME_PATH
from deploy.cell.packages import ensure_private_packages
from deploy.cell.process import ProcessId
from deploy.cell.server import CELL_NAME
from deploy.cell.ssh import PORT, connect_from
from deploy.vm import nfs, qemu, seed
from deploy.vm.image import Image, Images, Say, Stages
from deploy.vm.qemu import GuestOptions

_RECORD = "guest.json"
_PACKAGES = (*qemu.PACKAGES, *nfs.PACKAGES, "openssh-client")
_SSH = f"{qemu.GUEST_DIRECTORY}/ssh_config"
_SSH_CONFIGURATION = f"""\
Host {seed.HOSTNAME}
    HostName {seed.ADDRESS}
    User root
    IdentityFile {qemu.GUEST_DIRECTORY}/key
    IdentitiesOnly yes
    UserKnownHostsFile {qemu.GUEST_DIRECTORY}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    BatchMode yes
    ConnectTimeout 60
"""
#: Until the guest's SSH server answers; usually half a minute on an idle machine.
_BOOT_TIMEOUT_S = 420.0
_LOGIN_TIMEOUT_S = 120.0
_CLIENT_TIMEOUT_S = 240.0
_ANSWER_TIMEOUT_S, _ANSWER_TRIES = 90.0, 3
_POLL_S = 0.5
#: Checks that the client works, that tokens can be obtained, and that both reference directories
#: exist. Leaves no changes except the user's rights on the volume.
_FIRST_CHECK = f"""
systemctl is-system-running --wait > /dev/null || :  # failed units do not matter here
tries=300
until mountpoint -q {MOUNT_POINT} && [ -d {VOLUME_PATH} ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || {{ systemctl status --no-pager --lines=20 openafs-client >&2; exit 1; }}
    sleep 0.5
done
kinit -k -t {seed.KEYTAB} {kerberos.USER}
aklog
tokens | grep -q 'tokens for {CELL_NAME} '
fs setacl -dir {VOLUME_PATH} -acl {kerberos.USER} all
unlog
kdestroy -q
systemctl daemon-reload  # fstab came from the second disk, after systemd had read it
systemctl start {seed.NFS_DIRECTORY.lstrip("/").replace("/", "-")}.mount
mountpoint -q {seed.NFS_DIRECTORY}
[ -w {seed.LOCAL_DIRECTORY} ]
"""


@dataclass(frozen=True, slots=True)
class Guest:
    """A recorded guest, running or not."""

    cell: Cell
    process: ProcessId
    options: GuestOptions
    image: str

    @property
    def name(self) -> str:
        return self.cell.spec.name

    @property
    def directory(self) -> Path:
        """Directory on the host with its key, known_hosts file and console log."""
        return self.cell.server.shared / "vm"

    @property
    def cell_directory(self) -> Path:
        return self.cell.server.directory.parent

    def is_alive(self) -> bool:
        return self.cell.is_alive() and self.process.is_alive()

    def run(self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0) -> RawResult:
        """Run a command in the guest as root through SSH. Raises CellTimeout, CellError."""
        # The guest's shell parses the command, so quote each word.
        ssh = ["ssh", "-F", _SSH, seed.HOSTNAME, "--", shlex.join(argv)]
        return self.cell.server.run(ssh, input=input, timeout_s=timeout_s)


class Guests:
    """The guests below one state directory; each has its own private cell."""

    def __init__(self, state: Path) -> None:
        self._cells = Cells(state)
        self._state = self._cells.state
        self.images = Images(self._state)

    def names(self) -> list[str]:
        """Sorted names of the cells that have a guest, complete or not."""
        return [name for name in self._cells.names() if self._has_guest(name)]

    def load(self, name: str) -> Guest | None:
        """Load a recorded guest; None if there is none. Raises CellError on a damaged record."""
        cell = self._cells.load(name)
        if cell is None:
            return None
        path = self._state / "cells" / name / _RECORD
        try:
            document = json.loads(path.read_text())
            process = ProcessId(**document["process"])
            return Guest(cell, process, GuestOptions(**document["options"]), document["image"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, CellError) as problem:
            raise CellError(f"{path} is damaged ({problem!r}); take the guest down") from problem

    def up(
        self,
        name: str,
        options: GuestOptions,
        say: Say = lambda text: None,
        done: Say = lambda text: None,
        *,
        link: str | None = None,
    ) -> Guest:
        """Bring a guest and its cell up, or return it unchanged if it is already up.

        The image is built first if there is none. A crashed guest is removed first. On any failure,
        including Ctrl-C, only the console log of the new guest is left. ``say``, ``done``: see
        ``Stages``. Raises CellError.
        """
        spec = CellSpec(name, clients=0, link=link, kerberos=True)
        require_machine()
        qemu.require_machine(options)
        image = self.images.ensure(say, done)
        with self._locked(name):
            if (existing := self._existing(name)) is not None:
                if (existing.options, existing.cell.spec) != (options, spec):
                    raise CellError(f"guest {name} is up with other options; take it down first")
                say(f"guest {name} is up already")
                return existing
            self._cells.down(name)
            stages = Stages(say, done)
            try:
                return self._start(spec, options, image, stages)
            except BaseException:
                self._keep_console(name)
                self._cells.down(name)
                raise

    def down(self, name: str) -> bool:
        """Take a guest and its cell down completely; False if they did not exist."""
        with self._locked(name):
            if name in self._cells.names() and not self._has_guest(name):
                raise CellError(f"cell {name} has no guest; see fstune cell")
            return self._cells.down(name)

    def _existing(self, name: str) -> Guest | None:
        """The guest of that name if it responds, else None.

        Raises CellError if the name belongs to a cell without a guest.
        """
        guest = None
        with contextlib.suppress(CellError):
            guest = self.load(name)
        if guest is not None and guest.is_alive():
            # A busy guest may need a while to respond; one that never does is recreated.
            for _ in range(_ANSWER_TRIES):
                with contextlib.suppress(TimeoutError):
                    if guest.run(["true"], timeout_s=_ANSWER_TIMEOUT_S).status == 0:
                        return guest
        if name in self._cells.names() and not self._has_guest(name):
            raise CellError(f"there is a cell {name} without a guest; use another name")
        return None

    def _has_guest(self, name: str) -> bool:
        """Whether a cell has a guest. Also true if its record is missing or damaged."""
        try:
            cell = self._cells.load(name)
        except CellError:
            cell = None
        return cell is None or cell.spec.kerberos

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        message = f"another fstune is working on guest {name}; try again later"
        with self._cells.lock_at_once(f"vm-{name}.lock", message):
            yield

    def _start(self, spec: CellSpec, options: GuestOptions, image: Image, stages: Stages) -> Guest:
        with stages.stage("programs that run it"):
            tree = ensure_private_packages(
                self._state / "packages", stages.say, name="vm", packages=_PACKAGES
            )
        additions = NodeAdditions((tree,), {qemu.IMAGE_DIRECTORY: image.directory}, (nfs.EXPORT,))
        with stages.stage("cell"):
            cell = self._cells.up(spec, stages.say, additions)
        with stages.stage("NFS server"):
            nfs.start(cell.server)
        _prepare(cell)
        with stages.stage("boot, until SSH answers"):
            process = qemu.start(cell.server, options, seed.HOSTNAME)
            guest = Guest(cell, process, options, image.name)
            self._record(guest)
            _wait_for_ssh(guest, stages.say)
        with stages.stage("client, tokens and mounts"):
            try:
                script = _FIRST_CHECK.encode()
                result = guest.run(["sh", "-ex"], input=script, timeout_s=_CLIENT_TIMEOUT_S)
            except TimeoutError:
                message = f"the first check did not finish within {_CLIENT_TIMEOUT_S:.0f} s"
                raise CellError(f"the guest's client does not work: {message}") from None
            if result.status != 0:
                message = result.stderr.decode(errors="replace").strip()[-600:]
                raise CellError(f"the guest's client does not work: {message}")
        return guest

    def _record(self, guest: Guest) -> None:
        document = {
            "process": asdict(guest.process),
            "options": asdict(guest.options),
            "image": guest.image,
        }
        write_record(guest.cell_directory / _RECORD, document)

    def _keep_console(self, name: str) -> None:
        console = self._state / "cells" / name / "server/shared/vm" / qemu.CONSOLE
        copy = self._state / f"console-of-{name}.log"
        with contextlib.suppress(OSError):
            content = console.read_bytes()
            copy.unlink(missing_ok=True)
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as log:
                log.write(content)


def _prepare(cell: Cell) -> None:
    """Create the guest's keys and second disk. Both keys are new and used by this guest only."""
    server = cell.server
    directory = server.shared / "vm"
    directory.mkdir(mode=0o700)
    for key in ("key", "host_key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"fstune-{key}"]
        server.check([*make, "-f", f"{qemu.GUEST_DIRECTORY}/{key}"])
    host_key = (directory / "host_key.pub").read_text()
    (directory / "known_hosts").write_text(f"{seed.ADDRESS} {host_key}")
    (directory / "ssh_config").write_text(_SSH_CONFIGURATION)
    secret = {
        "etc/ssh/ssh_host_ed25519_key": directory / "host_key",
        seed.KEYTAB: kerberos.user_keytab(server),
    }
    seed.write(directory / qemu.SEED, secret, (directory / "key.pub").read_text())


def _wait_for_ssh(guest: Guest, say: Say) -> None:
    start = time.monotonic()
    while time.monotonic() - start < _BOOT_TIMEOUT_S:
        if not guest.process.is_alive():
            raise CellError(f"the guest ended while booting: {_console(guest)}")
        if _ssh_answers(guest.cell):
            try:
                result = guest.run(["true"], timeout_s=_LOGIN_TIMEOUT_S)
            except TimeoutError:
                message = f"no login after {_LOGIN_TIMEOUT_S:.0f} s"
                raise CellError(f"the guest is too slow: {message}: {_console(guest)}") from None
            if result.status != 0:
                message = result.stderr.decode(errors="replace").strip()
                raise CellError(f"the guest's SSH server refuses: {message}")
            return
        say(f"guest boots: {time.monotonic() - start:.0f} s")
        time.sleep(_POLL_S)
    raise CellError(f"the guest does not answer after {_BOOT_TIMEOUT_S:.0f} s: {_console(guest)}")


def _ssh_answers(cell: Cell) -> bool:
    try:
        with connect_from(cell.server, seed.ADDRESS, PORT, 3.0) as connection:
            return connection.recv(4, socket.MSG_WAITALL) == b"SSH-"
    except OSError:
        return False


def _console(guest: Guest) -> str:
    try:
        text = (guest.directory / qemu.CONSOLE).read_text(errors="replace")
    except OSError:
        return "its console is empty"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:]) or "its console is empty"
