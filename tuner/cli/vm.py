"""Commands for guests: virtual machines with the Linux kernel's OpenAFS client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.markup import escape

from deploy.vm import Guest, GuestOptions, Guests, seed
from deploy.vm.image import Say
from tuner.cli.named_nodes import show_by_name
from tuner.cli.options import StateDir, state_directory
from tuner.cli.say import say
from tuner.hosts.nodes import translate_errors
from tuner.report.listing import output
from tuner.services.openafs.guest import write_testbed

app = typer.Typer(
    no_args_is_help=True,
    help="A virtual machine with the Linux kernel's OpenAFS client, on a private cell of its own.",
)

Name = Annotated[str, typer.Option("--name", "-n", help="The name of the guest and of its cell.")]


@app.command("build")
def build(state_dir: StateDir = None) -> None:
    """Build the guest's image, unless it is there: Debian 12 with its kernel and OpenAFS' module.

    Takes four to seven minutes, up to twenty-five on a busy machine, most of it to compile the
    module, and at most 3 GB below the state directory, 1 GB when it is done. Packages come from
    this machine's apt sources; nothing is installed on this machine.
    """
    with _showing("image") as (doing, note):
        image = Guests(state_directory(state_dir)).images.ensure(doing, note)
    say(f"image {image.name}: kernel {image.kernel}, OpenAFS {image.openafs}")
    say("next: fstune vm up")


@app.command("up")
def up(
    name: Name = "vm",
    memory: Annotated[int, typer.Option(help="The guest's memory in MiB.")] = 2048,
    processors: Annotated[int, typer.Option(help="How many processors the guest has.")] = 2,
    kvm: Annotated[
        bool,
        typer.Option(
            "--kvm",
            help="Use KVM (/dev/kvm), where that can boot Debian's kernel. Without it the "
            "processor is emulated, which is slow but works everywhere.",
        ),
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Bring a guest up with its cell: fileserver, KDC, NFS server, and a client host over SSH.

    Builds the image first if there is none. Booting takes about a minute, then the kernel client,
    tokens and the NFS mount are tested. Writes a testbed file that a campaign can use. Times
    measured on an emulated processor show directions of effects, not times of a real host.
    """
    with _showing(f"guest {name}") as (doing, note):
        guests = Guests(state_directory(state_dir))
        guest = guests.up(name, GuestOptions(memory, processors, kvm), doing, note)
        testbed = write_testbed(guest)
    say(f"guest {name} is up: {seed.ADDRESS}, reached from the network of its cell's server")
    say(f"references: {seed.LOCAL_DIRECTORY} (its disk), {seed.NFS_DIRECTORY} (NFSv3)")
    say(f"testbed file: {testbed}")
    say(f"next: fstune testbed check {testbed}")


@app.command("down")
def down(name: Name = "vm", state_dir: StateDir = None) -> None:
    """Take a guest down with its cell: no process, mount, interface or directory of it is left.

    The image is kept for the next one. Remains of a killed build are removed, too.
    """
    with translate_errors():
        guests = Guests(state_directory(state_dir))
        existed = guests.down(name)
        if guests.images.clear():
            say("the remains of a killed build were removed")
    say(f"guest {name} is down" if existed else f"there is no guest {name}")


@app.command("status")
def status(state_dir: StateDir = None) -> None:
    """Show the image and the guests, whether each runs, and how to reach it."""
    with translate_errors():
        guests = Guests(state_directory(state_dir))
        image = guests.images.current()
        if image is None:
            say("no image yet; build it with: fstune vm build")
        else:
            say(f"image {image.name}: kernel {image.kernel}, OpenAFS {image.openafs}")
        if guests.images.cut_off():
            say("a build was killed and its programs may still run; end them with: fstune vm down")
        show_by_name(guests.names(), guests.load, _show, "no guests")


def _show(guest: Guest) -> None:
    state = f"up, process {guest.process.pid}" if guest.is_alive() else "broken; take it down"
    way = "KVM" if guest.options.kvm else "emulated"
    say(f"{guest.name}: {state}, {guest.options.memory_mib} MiB, {way}, image {guest.image}")
    if guest.is_alive():
        say(f"  console: {guest.directory / 'console.log'}")
        ssh = "ssh -F /fstune/vm/ssh_config guest"
        say(f"  a command in it: fstune cell exec --name {guest.name} server {ssh} COMMAND")


@contextmanager
def _showing(what: str) -> Iterator[tuple[Say, Say]]:
    """Show the current activity, and print a line for each completed stage."""
    console = output(stderr=True)
    with translate_errors(), console.status(escape(what)) as status:
        yield (
            lambda text: status.update(escape(f"{what}: {text}")),
            lambda text: say(text, err=True),
        )
