"""Commands for private cells: a real OpenAFS cell on this machine, isolated."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.markup import escape

from deploy.cell import Cell, Cells, CellSpec
from tuner.cli.named_nodes import show_by_name
from tuner.cli.options import StateDir, state_directory
from tuner.cli.say import say
from tuner.errors import NotFoundError
from tuner.hosts.nodes import translate_errors
from tuner.report.listing import output

app = typer.Typer(
    no_args_is_help=True,
    help="Private OpenAFS cells on this machine: real servers and clients, isolated.",
)

Name = Annotated[str, typer.Option("--name", "-n", help="The cell's name.")]
NodeName = Annotated[str, typer.Argument(help="server, client1, client2, ...")]


@app.command("up")
def up(
    name: Name = "default",
    clients: Annotated[int, typer.Option(help="How many client nodes.")] = 1,
    link: Annotated[
        str | None, typer.Option(help="Rate of each client's network link, such as 1gbit.")
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Bring a cell up: file, volume, protection and location servers, and mounted clients.

    The first time, OpenAFS is fetched from Debian's packages; it is unpacked privately, never
    installed.
    """
    console = output(stderr=True)
    with translate_errors(), console.status(f"cell {escape(name)}") as status:
        cells = Cells(state_directory(state_dir))
        cell = cells.up(CellSpec(name, clients, link), lambda text: status.update(escape(text)))
    say(f"cell {name} is up: server, {', '.join(node.name for node in cell.clients)}")
    say(f"try: fstune cell exec --name {name} client1 ls /afs/.:mount/fstune.test:bench")


@app.command("down")
def down(name: Name = "default", state_dir: StateDir = None) -> None:
    """Take a cell down completely: no process, namespace, mount or directory of it is left."""
    with translate_errors():
        existed = Cells(state_directory(state_dir)).down(name)
    say(f"cell {name} is down" if existed else f"there is no cell {name}")


@app.command("status")
def status(state_dir: StateDir = None) -> None:
    """List the cells and their nodes."""
    with translate_errors():
        cells = Cells(state_directory(state_dir))
        show_by_name(cells.names(), cells.load, _show, "no cells")


def _show(cell: Cell) -> None:
    state = "up" if cell.is_alive() else "broken; take it down"
    say(f"{cell.spec.name}: {state}, link {cell.spec.link or 'unlimited'}")
    for node in cell.nodes:
        alive = f"process {node.init.pid}" if node.is_alive() else "not running"
        say(f"  {node.name}: {alive}")


@app.command("exec", context_settings={"allow_interspersed_args": False})
def execute(
    node: NodeName,
    command: Annotated[list[str], typer.Argument(help="The command and its arguments.")],
    name: Name = "default",
    state_dir: StateDir = None,
) -> None:
    """Run a command inside a node, as root of that node, and exit with its status.

    fstune's own options come first: everything after the node's name belongs to the command.
    """
    with translate_errors():
        cell = Cells(state_directory(state_dir)).load(name)
    if cell is None or not cell.is_alive():
        raise NotFoundError(
            f"cell {name} is not up; bring it up with: fstune cell up --name {name}"
        )
    nodes = {one.name: one for one in cell.nodes}
    if node not in nodes:
        raise NotFoundError(f"cell {name} has no node {node}; it has {', '.join(nodes)}")
    # Accept the customary "--" that ends the options.
    argv = nodes[node].enter(command[1:] if command[0] == "--" and command[1:] else command)
    os.execvp(argv[0], argv)
