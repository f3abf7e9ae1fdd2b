"""Service and worker as deployed: their systemd units, and the example proxy."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner, Result

from deploy.cell.packages import ensure_packages
from tests.integration.serving import Service
from tests.ports import free_port
from tuner.cli.app import app as command_line
from tuner.errors import ServerError
from tuner.store import NewEvent, Store

NAME = "tuning.example.org"


@pytest.fixture(params=["fstune-serve.service", "fstune-worker.service"])
def unit(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Path:
    """Return a unit that runs this environment's program."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("this machine has no systemd-analyze")
    name: str = request.param
    text = (root / "deploy" / name).read_text()
    program = Path(sys.executable).with_name("fstune")
    file = tmp_path / name
    file.write_text(text.replace("/opt/fstune/bin/fstune", str(program)))
    return file


def analysed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_unit_is_valid(unit: Path) -> None:
    done = analysed("verify", "--recursive-errors=no", "--man=no", str(unit))
    ours = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert ours == []


def test_the_unit_may_do_little(unit: Path) -> None:
    done = analysed("security", "--offline=true", "--threshold=20", "--no-pager", str(unit))
    exposure = re.search(r"Overall exposure level for .*?: ([0-9.]+)", done.stdout)
    assert exposure is not None, done.stdout + done.stderr
    assert float(exposure[1]) <= 2.0
    assert done.returncode == 0


def certificate(directory: Path) -> tuple[Path, Path]:
    """Create a key and a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    names = [x509.DNSName(NAME), x509.IPAddress(IPv4Address("127.0.0.1"))]
    now = datetime.now(UTC)
    signed_certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, secret = directory / "chain.pem", directory / "key.pem"
    chain.write_bytes(signed_certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, secret


@dataclass(frozen=True)
class Proxied:
    """A service, the port of the proxy in front of it, the path there, and the certificate."""

    service: Service
    port: int
    path: str
    chain: Path


def site_of(root: Path, path: str) -> str:
    """Return the example's site, changed as it says if the service is to be below a path."""
    text = (root / "deploy" / "nginx.conf").read_text()
    two_lines = re.compile(
        r"# (location /fstune/ \{\n) *# ( *proxy_pass .*\n)( *location .*\n.*\n)"
    )
    text, changes = two_lines.subn(r"\1\2" if path else r"\3", text)
    assert changes == 1
    return text


@pytest.fixture(params=["", "/fstune"])
def proxied(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Iterator[Proxied]:
    """Yield a service behind the proxy of the example."""
    path: str = request.param
    options = ("--root-path", path) if path else ()
    service = Service(tmp_path, free_port(), ("--auth", *options))
    tree = ensure_packages(
        root / "build" / "test-state" / "packages",
        print,
        name="nginx",
        packages=("nginx-light", "nginx"),
    )
    libraries = [str(directory) for directory in (tree / "usr/lib").glob("*-linux-gnu")]
    chain, secret = certificate(tmp_path)
    port = free_port()
    site = site_of(root, path)
    for old, new in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/fstune/tls/chain.pem", str(chain)),
        ("/etc/fstune/tls/key.pem", str(secret)),
        ("127.0.0.1:8710", f"127.0.0.1:{service.port}"),
    ):
        assert site.count(old) == 1
        site = site.replace(old, new)
    paths = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = tmp_path / "nginx.conf"
    file.write_text(
        f"{'user root;' if os.geteuid() == 0 else ''}\n"
        f"daemon off;\nmaster_process off;\npid {tmp_path}/nginx.pid;\nerror_log stderr warn;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{paths}{site}}}\n"
    )
    process = subprocess.Popen(
        [tree / "usr/sbin/nginx", "-c", file, "-p", tmp_path, "-e", "stderr"],
        env=dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(libraries)),
    )
    try:
        service.start()
        yield Proxied(service, port, path, chain)
    finally:
        process.terminate()
        process.wait(60)
        service.stop()


def test_behind_the_proxy_of_the_example(proxied: Proxied, tmp_path: Path) -> None:
    service, port, root_path = proxied.service, proxied.port, proxied.path
    token = service.fstune("token", "create", "one", "--scope", "operate").strip()
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("waiting", "{}", 1, datetime.now(UTC)).id
    client = httpx2.Client(
        base_url=f"https://127.0.0.1:{port}{root_path}",
        headers={"Host": f"{NAME}:{port}"},
        verify=ssl.create_default_context(cafile=str(proxied.chain)),
        timeout=60,
    )
    # The certificate is for the name; the connection goes to the loopback.
    sni = {"sni_hostname": NAME}
    wait_for_proxy(client, sni)
    assert client.get("/v1/campaigns", extensions=sni).status_code == 401
    login = client.post(
        "/login",
        content=f"token={token}",
        headers={"Origin": f"https://{NAME}:{port}", "Accept": "text/html"},
        extensions=sni,
    )
    assert login.status_code == 303
    assert login.headers["location"] == f"{root_path}/"
    assert "Secure" in login.headers["set-cookie"]
    assert client.get("/static/fstune.js", extensions=sni).status_code == 200
    bearer = {"Authorization": f"Bearer {token}"}
    path = f"/v1/campaigns/{campaign}/events/stream"
    with client.stream("GET", path, headers=bearer, extensions=sni) as stream:
        lines = stream.iter_lines()
        assert any(line.startswith("data: ") and "campaign-created" in line for line in lines)
        # Later events arrive at once, not when a buffer is full.
        with Store.open(tmp_path) as store:
            store.add_event(campaign, NewEvent(datetime.now(UTC), "news", "something happened"))
        assert any(line.startswith("data: ") and "something happened" in line for line in lines)
    client.close()


def wait_for_proxy(client: httpx2.Client, extensions: dict[str, str]) -> None:
    deadline = time.monotonic() + 60.0
    while True:
        try:
            answer = client.get("/healthz", extensions=extensions)
            break
        except httpx2.TransportError:
            assert time.monotonic() < deadline, "the proxy does not answer"
            time.sleep(0.05)
    assert answer.json() == {"status": "ok"}


@pytest.mark.parametrize("proxied", ["/fstune"], indirect=True)
def test_the_command_line_with_a_server_below_a_path(
    proxied: Proxied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = proxied.service.fstune("token", "create", "one", "--scope", "operate").strip()
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("waiting", "{}", 1, datetime.now(UTC)).id
    origin = f"https://127.0.0.1:{proxied.port}"
    with httpx2.Client(
        base_url=origin + proxied.path,
        verify=ssl.create_default_context(cafile=str(proxied.chain)),
        timeout=60,
    ) as client:
        wait_for_proxy(client, {})
    monkeypatch.setenv("SSL_CERT_FILE", str(proxied.chain))
    monkeypatch.setenv("FSTUNE_TOKEN", token)

    def fstune(server: str, *arguments: str) -> Result:
        return CliRunner().invoke(command_line, [*arguments, "--server", server])

    for server in (origin + proxied.path, f"{origin}{proxied.path}/"):
        done = fstune(server, "list")
        assert done.exit_code == 0, (done.output, done.exception)
        assert campaign in done.stdout
    assert fstune(server, "cancel", campaign).exit_code == 0
    # The stream of events, to its end.
    assert "Z campaign cancelled\n" in fstune(server, "watch", campaign).stdout
    # Nothing of it is at the root of the host.
    assert isinstance(fstune(origin, "list").exception, ServerError)
    # The proxy has to remove the path: as the server receives it, it is not a part of it.
    direct = proxied.service.url
    assert httpx2.get(f"{direct}/healthz").status_code == 200
    answer = httpx2.get(f"{direct}{proxied.path}/healthz")
    assert answer.status_code == 404
    assert f"must remove {proxied.path} from the path" in answer.json()["detail"]
