"""The command that serves HTTP.

It names the application by import string, because ``tuner`` never imports ``api``.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from tuner.cli.options import (
    Database,
    StateDir,
    database_address,
    open_or_make_store,
    state_directory,
)
from tuner.cli.say import say
from tuner.errors import ConflictError, SpecError
from tuner.interruption import stops
from tuner.services.kinds import offers
from tuner.settings import ServiceSettings, is_loopback
from tuner.settings import root_path as checked_root_path

#: Proxies trusted by default: those on this machine.
_THIS_MACHINE = ("127.0.0.0/8", "::1")
#: How long shutdown waits for open requests; event streams would stay open for hours.
_PATIENCE_S = 3


def _choices() -> str:
    return " or ".join(f"'{key}' ({title})" for key, title in offers().items())


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8710,
    auth: Annotated[
        bool,
        typer.Option(
            "--auth",
            help="Require a token of 'fstune token create'; otherwise it is read-only.",
        ),
    ] = False,
    testbeds: Annotated[
        Path | None,
        typer.Option(help="Directory of testbed files that campaigns started here may name."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help=f"Also allow testbeds of this type: {_choices()}."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain (PEM); serves HTTPS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    plain_http: Annotated[
        bool,
        typer.Option(
            "--plain-http",
            help="Listen beyond the loopback without TLS: a proxy in front of it provides TLS.",
        ),
    ] = False,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of a proxy in front of this service, which is trusted to "
            "report clients' addresses and their use of TLS. Default: this machine.",
        ),
    ] = None,
    root_path: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Path below which a proxy publishes this service, such as /fstune. The proxy "
            "removes it from the requests that it passes on.",
        ),
    ] = None,
    queue: Annotated[
        bool,
        typer.Option(
            "--queue",
            help="Leave campaigns that are started here to 'fstune worker'. Needs PostgreSQL.",
        ),
    ] = False,
    state_dir: StateDir = None,
    database: Database = None,
) -> None:
    """Serve over HTTP: web pages for people, /v1 for programs.

    Listening beyond the loopback interface requires tokens (--auth) and TLS.
    Try: curl http://127.0.0.1:8710/v1/campaigns/last/recommendation
    """
    settings = ServiceSettings()
    auth = auth or settings.auth
    address = database_address(database)
    queued = queue or settings.queue
    if queued and address is None:
        name = "--queue" if queue else "FSTUNE_API_QUEUE"
        raise SpecError(f"{name}: workers take campaigns from PostgreSQL; add --database")
    proxies = [_network("--trusted-proxy", one) for one in trusted_proxy or ()] or [
        _network("FSTUNE_API_TRUSTED_PROXIES:", one) for one in sorted(settings.trusted_proxies)
    ]
    root = settings.root_path if root_path is None else _root_path(root_path)
    _check_protection(host, tls_cert, tls_key, auth=auth, plain_http=plain_http)
    if testbeds is not None:
        _check_directory("--testbeds", testbeds)
    elif settings.testbeds is not None:
        _check_directory("FSTUNE_API_TESTBEDS:", settings.testbeds)
    for kind in allow or ():
        if kind not in offers():
            raise SpecError(f"--allow {kind}: choose {' or '.join(map(repr, offers()))}")
    _check_address(host, port)
    # The application reads its settings from the environment, as if it were started separately.
    environment = {
        "FSTUNE_STATE_DIR": str(state_directory(state_dir).absolute()),
        "FSTUNE_DATABASE_URL": address,
        "FSTUNE_API_AUTH": "true" if auth else None,
        "FSTUNE_API_TESTBEDS": None if testbeds is None else str(testbeds.absolute()),
        "FSTUNE_API_QUEUE": "true" if queued else None,
        "FSTUNE_API_ALLOW": json.dumps(allow) if allow else None,
    }
    os.environ.update({name: value for name, value in environment.items() if value is not None})
    for client in ("FSTUNE_SERVER", "FSTUNE_TOKEN", "FSTUNE_TOKEN_FILE"):
        # Commands started by the service must run locally and not use a server in turn.
        os.environ.pop(client, None)
    # Problems with the database are reported here as by other commands.
    with open_or_make_store(state_dir, database):
        pass
    scheme = "http" if tls_cert is None else "https"
    address_text = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        "api.app:create_app",
        factory=True,
        host=host,
        port=port,
        # Its warnings are about requests, which anybody can send in any number.
        log_level="error",
        access_log=False,
        server_header=False,
        root_path=root,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
        timeout_graceful_shutdown=_PATIENCE_S,
        # Limits the number and duration of connections that have not presented a token yet.
        http="api.connections:Front",
        loop="api.connections:loop",
        forwarded_allow_ips=",".join(proxies or _THIS_MACHINE),
    )
    _Server(config, f"{scheme}://{address_text}:{port}").run()


class _Server(uvicorn.Server):
    """Says when it accepts connections. Ends with status 0 on a stop signal, with 1 if it cannot
    start.
    """

    def __init__(self, config: uvicorn.Config, address: str) -> None:
        super().__init__(config)
        self._address = address

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server.

        Handles signals from here on: the imports that follow take a second or two, and an interrupt
        in the middle of them would leave a coroutine that is never awaited.
        """
        for number in stops():
            signal.signal(number, self.handle_exit)
        self.config.load()
        if self.should_exit:
            return
        try:
            super().run(sockets)
        except SystemExit:  # the reason is logged; uvicorn's status 3 means something else here
            sys.exit(1)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See uvicorn.Server. It would raise the signals again at the end."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server."""
        await super().startup(sockets)
        if not self.should_exit:
            say(f"fstune: serving {self._address}; Ctrl-C stops it", err=True)


def _network(name: str, text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as problem:
        raise SpecError(f"{name} {text}: {problem}") from None


def _check_protection(
    host: str, certificate: Path | None, key: Path | None, *, auth: bool, plain_http: bool
) -> None:
    """Raise SpecError where anybody but this machine could use the service or read the tokens."""
    if (certificate is None) != (key is None):
        raise SpecError("--tls-cert and --tls-key belong together")
    if not is_loopback(host):
        if not auth:
            raise SpecError(f"--host {host}: beyond the loopback, tokens are required; add --auth")
        if certificate is None and not plain_http:
            raise SpecError(
                f"--host {host}: tokens would be sent unencrypted; add --tls-cert and --tls-key, "
                "or --plain-http if a proxy in front of this service provides TLS"
            )
    if certificate is not None and key is not None:
        _check_certificate(certificate, key)


def _check_directory(name: str, directory: Path) -> None:
    if not directory.is_dir():
        raise SpecError(f"{name} {directory}: there is no such directory")
    # Looking for files in a directory that cannot be read finds none, without an error.
    try:
        os.listdir(directory)
    except OSError as problem:
        raise SpecError(f"{name} {directory}: cannot be read: {problem.strerror}") from None


def _root_path(text: str) -> str:
    try:
        return checked_root_path(text)
    except ValueError as problem:
        raise SpecError(f"--root-path {text}: {problem}") from None


def _check_address(host: str, port: int) -> None:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as problem:
        raise ConflictError(
            f"--host {host} --port {port}: {problem.strerror}; name another"
        ) from problem


def _check_certificate(certificate: Path, key: Path) -> None:
    for file in (certificate, key):
        if not file.is_file():
            raise SpecError(f"{file}: there is no such file")
    # Without a password argument, OpenSSL would prompt for one; keys with a passphrase are refused.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as problem:
        raise SpecError(
            f"{certificate}, {key}: not a PEM certificate and its private key without a passphrase "
            f"({problem.reason or problem})"
        ) from None
    except OSError as problem:
        raise SpecError(f"{certificate}, {key}: cannot be read: {problem.strerror}") from None
