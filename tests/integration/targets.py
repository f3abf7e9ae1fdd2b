"""What tests of tuned servers and clients on a real cell have in common."""

from __future__ import annotations

from collections.abc import Mapping

from deploy.cell import Cell
from deploy.cell.network import SERVER_ADDRESS
from tuner.model import Configuration, Value
from tuner.services.openafs import parse
from tuner.services.part import Part
from tuner.services.target import Target

Values = Mapping[str, Value]


def silent(text: str) -> None:
    """Ignore the message."""


def file_log(cell: Cell) -> str:
    return (cell.server.directory / "log" / "FileLog").read_text()


def commands_now(cell: Cell) -> tuple[str, ...]:
    """The command lines of the instance now."""
    status = parse.bos_status(
        cell.server.check(["bos", "status", SERVER_ADDRESS, "dafs", "-long", "-localauth"])
    )
    return status.commands


def effective(part: Part, values: Values) -> dict[str, Value]:
    target = Target({"it": part})
    configuration = Configuration.of({f"it.{name}": value for name, value in values.items()})
    return target.apply(configuration, silent).effective.part("it")
