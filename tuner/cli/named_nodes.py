"""List the named private cells and guests on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from deploy.cell import CellError
from tuner.cli.say import say

T = TypeVar("T")


def show_by_name(
    names: Sequence[str], load: Callable[[str], T | None], show: Callable[[T], None], none: str
) -> None:
    """Show each of ``names``.

    ``load`` returns None for one whose start was interrupted, and may raise CellError, whose
    message is then shown instead; ``none``: the line to print if there are no names.
    """
    if not names:
        say(none)
    for name in names:
        try:
            one = load(name)
        except CellError as problem:
            say(f"{name}: {problem}")
            continue
        if one is None:
            say(f"{name}: left over from an interrupted start; take it down")
        else:
            show(one)
