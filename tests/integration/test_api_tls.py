"""The service with its own TLS, used by curl and by the command line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.integration.serving import Service
from tests.integration.test_api_deployment import certificate
from tests.ports import free_port
from tuner.cli.app import app as command_line
from tuner.errors import ServerError

#: Exit statuses of curl: the server does not speak HTTP, or its certificate is not trusted.
NO_HTTP, NOT_TRUSTED = (1, 52, 56), 60


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[tuple[Service, Path]]:
    """Yield a service that requires tokens and speaks TLS, and the certificate to trust."""
    chain, secret = certificate(tmp_path)
    tls = ("--tls-cert", str(chain), "--tls-key", str(secret))
    service = Service(tmp_path, free_port(), ("--auth", *tls))
    service.start()
    yield service, chain
    service.stop(signal.SIGKILL)


def curl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["curl", "-sS", "--max-time", "60", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_tls_of_its_own(encrypted: tuple[Service, Path], tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("this machine has no curl")
    service, chain = encrypted
    url = f"https://127.0.0.1:{service.port}"
    token = service.fstune("token", "create", "one").strip()
    bearer = ("-H", f"Authorization: Bearer {token}")
    trusted = curl("--cacert", str(chain), "--fail", *bearer, f"{url}/v1/campaigns")
    assert trusted.returncode == 0, trusted.stderr
    assert trusted.stdout == '{"items":[],"next":null}'
    assert curl(f"{url}/healthz").returncode == NOT_TRUSTED
    assert curl(f"http://127.0.0.1:{service.port}/healthz").returncode in NO_HTTP
    old = curl("--cacert", str(chain), "--tls-max", "1.1", f"{url}/healthz")
    assert old.returncode not in (0, NOT_TRUSTED)

    def list_campaigns(**environment: str) -> BaseException | str:
        variables = dict(os.environ, FSTUNE_TOKEN=token, FSTUNE_SERVER=url, **environment)
        done = CliRunner().invoke(command_line, ["list"], env=variables)
        return done.exception if done.exception is not None else done.output

    assert list_campaigns(SSL_CERT_FILE=str(chain)) == "No campaigns yet.\n"
    refused = list_campaigns()
    assert isinstance(refused, ServerError)
    assert "its certificate is not trusted" in str(refused)
    assert "SSL_CERT_FILE" in str(refused)
