"""The command that answers over HTTP. It names the application by import string: we never import
``api``.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Annotated

import typer
import uvicorn

from tuner.cli.options import Database, StateDir, database_address, state_directory
from tuner.errors import SpecError


def serve(
    host: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8710,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Answer over HTTP: campaigns and what they recommend, read-only.

    There is no authentication yet, so only a loopback address is accepted.
    Try: curl http://127.0.0.1:8710/v1/campaigns/last/recommendation
    """
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        raise SpecError(f"--host {host}: only loopback is served, there is no authentication yet")
    # The application reads its settings from the environment: it runs as if on its own.
    os.environ["FSTUNE_STATE_DIR"] = str(state_directory(state_dir).absolute())
    if (address := database_address(database)) is not None:
        os.environ["FSTUNE_DATABASE_URL"] = address
    uvicorn.run("api.app:create_app", factory=True, host=host, port=port, log_level="warning")
