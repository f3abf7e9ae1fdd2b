"""Options and arguments that several commands share, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.settings import Settings

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="Directory for campaigns, cells and packages. Default: FSTUNE_STATE_DIR, else "
        "/var/lib/fstune for root and ~/.local/state/fstune for others.",
        show_default=False,
    ),
]

CampaignReference = Annotated[
    str,
    typer.Argument(help="A campaign's identifier, the beginning of one, or 'last'."),
]


def state_directory(given: Path | None) -> Path:
    """The state directory to use: the option, else the environment, else the default."""
    return given if given is not None else Settings().state_dir
