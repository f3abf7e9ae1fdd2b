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
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deploy.cell.packages import ensure_packages
from tests.integration.serving import Service
from tests.ports import free_port
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


@pytest.fixture
def proxied(root: Path, tmp_path: Path) -> Iterator[tuple[Service, int, ssl.SSLContext]]:
    """Yield the service, the port of the proxy in front of it, and a TLS context that trusts it."""
    service = Service(tmp_path, free_port(), ("--auth",))
    tree = ensure_packages(
        root / "build" / "test-state" / "packages", print, name="nginx", packages=("nginx-light",)
    )
    libraries = [str(directory) for directory in (tree / "usr/lib").glob("*-linux-gnu")]
    chain, secret = certificate(tmp_path)
    port = free_port()
    site = (root / "deploy" / "nginx.conf").read_text()
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
        yield service, port, ssl.create_default_context(cafile=str(chain))
    finally:
        process.terminate()
        process.wait(60)
        service.stop()


def test_behind_the_proxy_of_the_example(
    proxied: tuple[Service, int, ssl.SSLContext], tmp_path: Path
) -> None:
    service, port, trust = proxied
    token = service.fstune("token", "create", "one", "--scope", "operate").strip()
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("waiting", "{}", 1, datetime.now(UTC)).id
    client = httpx2.Client(
        base_url=f"https://127.0.0.1:{port}",
        headers={"Host": f"{NAME}:{port}"},
        verify=trust,
        timeout=60,
    )
    # The certificate is for the name; the connection goes to the loopback.
    sni = {"sni_hostname": NAME}
    deadline = time.monotonic() + 60.0
    while True:
        try:
            answer = client.get("/healthz", extensions=sni)
            break
        except httpx2.TransportError:
            assert time.monotonic() < deadline, "the proxy does not answer"
            time.sleep(0.05)
    assert answer.json() == {"status": "ok"}
    assert client.get("/v1/campaigns", extensions=sni).status_code == 401
    login = client.post(
        "/login",
        content=f"token={token}",
        headers={"Origin": f"https://{NAME}:{port}", "Accept": "text/html"},
        extensions=sni,
    )
    assert login.status_code == 303
    assert "Secure" in login.headers["set-cookie"]
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
