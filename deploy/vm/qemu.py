"""QEMU in the server node of a private cell: its command line, network link and process."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from deploy.cell.errors import CellError
from deploy.cell.node import SHARED, Node
from deploy.cell.process import ProcessId
from deploy.vm.image import Image

PACKAGES = ("qemu-system-x86",)
#: Paths in the server node of the image, and of the files of this guest.
IMAGE_DIRECTORY = "/image"
GUEST_DIRECTORY = f"{SHARED}/vm"
SEED, CONSOLE = "seed.tar", "console.log"

_PORT = "guest0"
_MAC = "52:54:00:77:00:fb"
_PID_FILE = "/run/guest.pid"
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class GuestOptions:
    """Virtual hardware of a guest. ``kvm``: use the host's processor, if its /dev/kvm can boot
    Debian's kernel; otherwise the processor is emulated.
    """

    memory_mib: int = 2048
    processors: int = 2
    kvm: bool = False

    def __post_init__(self) -> None:
        if not 1024 <= self.memory_mib <= 65536:
            raise CellError(f"memory: {self.memory_mib} MiB is not between 1024 and 65536")
        if not 1 <= self.processors <= 64:
            raise CellError(f"processors: {self.processors} is not between 1 and 64")


def require_machine(options: GuestOptions) -> None:
    """Check that a guest can run here. Raises CellError with what is missing and what to do."""
    devices = {"/dev/net/tun": "load it with 'modprobe tun', or give the container the device"}
    if options.kvm:
        devices["/dev/kvm"] = "leave out --kvm to emulate the processor"
    for device, advice in devices.items():
        try:
            os.close(os.open(device, os.O_RDWR))
        except OSError as problem:
            message = f"{device} is missing or cannot be used ({problem.strerror})"
            raise CellError(f"{message}: {advice}") from problem


def start(server: Node, options: GuestOptions, hostname: str) -> ProcessId:
    """Start the guest on the server's bridge and return QEMU's process.

    Raises CellError with QEMU's output.
    """
    server.check(["ip", "tuntap", "add", "dev", _PORT, "mode", "tap"])
    server.check(["ip", "link", "set", _PORT, "master", "br0", "up"])
    # Guest disk writes go to an unnamed file in this directory, not to the node's memory.
    environment = f"TMPDIR={GUEST_DIRECTORY}"
    server.check(["env", environment, *command(options, hostname)], timeout_s=_START_TIMEOUT_S)
    return _process(server, int(server.check(["cat", _PID_FILE])))


def command(options: GuestOptions, hostname: str) -> list[str]:
    """QEMU command line; QEMU goes to the background when the guest starts running."""
    kernel = [
        *("root=/dev/vda", "rootfstype=ext4", "rw", "console=ttyS0", "net.ifnames=0"),
        *("mitigations=off", "audit=0", "panic=-1"),
        # Specific to this guest, and needed before its second disk is read.
        *(f"systemd.hostname={hostname}", f"systemd.machine_id={secrets.token_hex(16)}"),
    ]
    emulated = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max"]
    image, own = IMAGE_DIRECTORY, GUEST_DIRECTORY
    root = f"file={image}/{Image.ROOT},if=none,id=root,format=raw,snapshot=on,cache=unsafe"
    seed = f"file={own}/{SEED},if=none,id=seed,format=raw,readonly=on"
    return [
        "qemu-system-x86_64",
        *("-name", "fstune", "-nodefaults", "-no-user-config", "-display", "none", "-M", "q35"),
        *(["-accel", "kvm", "-cpu", "host"] if options.kvm else emulated),
        *("-smp", str(options.processors), "-m", str(options.memory_mib)),
        *("-kernel", f"{image}/{Image.VMLINUZ}", "-initrd", f"{image}/{Image.INITRD}"),
        *("-append", " ".join(kernel)),
        *("-drive", root, "-device", "virtio-blk-pci,drive=root"),
        *("-drive", seed, "-device", "virtio-blk-pci,drive=seed"),
        *("-netdev", f"tap,id=net,ifname={_PORT},script=no,downscript=no"),
        *("-device", f"virtio-net-pci,netdev=net,mac={_MAC},romfile="),
        *("-device", "virtio-rng-pci"),
        *("-serial", f"file:{own}/{CONSOLE}", "-monitor", "none"),
        *("-sandbox", "on,obsolete=deny"),
        *("-daemonize", "-pidfile", _PID_FILE),
    ]


def _process(server: Node, inside: int) -> ProcessId:
    """The process with PID ``inside`` in the server node."""
    own = os.readlink(f"/proc/{server.init.pid}/ns/pid")
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "ns/pid") != own:
                continue
            status = (entry / "status").read_text()
        except OSError:
            continue  # it has exited meanwhile
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
        if int(numbers[-1]) == inside:
            return ProcessId.of(int(entry.name))
    raise CellError("QEMU ended as soon as it was started")
