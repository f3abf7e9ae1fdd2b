"""A KDC in the server node of a private cell, so that clients can get tokens.

Owns the realm's files in the node's directory: database, configuration and keytabs. They are
created at run time, readable by root only, and removed with the cell.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from deploy.cell.errors import CellError
from deploy.cell.node import SHARED, Node

PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user")
#: User that runs the benchmarks: its principal, and its name in the protection server.
USER = "bench"

_DIRECTORY = f"{SHARED}/kerberos"
#: The servers use keys of encryption type 18 only.
_TYPE = "aes256-cts-hmac-sha1-96:normal"
_PORT = 88
_READY_TIMEOUT_S = 20.0
_POLL_S = 0.05


def realm(cell: str) -> str:
    """Kerberos realm of a cell."""
    return cell.upper()


def client_configuration(cell: str, kdc: str) -> str:
    """Content of krb5.conf for hosts that use the realm; ``kdc``: address of the KDC."""
    return (
        f"[libdefaults]\ndefault_realm = {realm(cell)}\n"
        "dns_lookup_realm = false\ndns_lookup_kdc = false\ndns_canonicalize_hostname = false\n"
        "rdns = false\n"
        f"[realms]\n{realm(cell)} = {{\n    kdc = {kdc}:{_PORT}\n}}\n"
        f"[domain_realm]\n.{cell} = {realm(cell)}\n{cell} = {realm(cell)}\n"
    )


def user_keytab(server: Node) -> Path:
    """Path on the host of the benchmark user's keytab."""
    return server.shared / "kerberos" / f"{USER}.keytab"


def start(server: Node, cell: str, service: str, address: str, keytab: str) -> None:
    """Create the realm of a new cell, start its KDC, and write the keytabs: the service's to
    ``keytab`` (a path inside the node), the benchmark user's to ``user_keytab(server)``.

    Raises CellError.
    """
    directory = server.shared / "kerberos"
    directory.mkdir(mode=0o700)
    (directory / "krb5.conf").write_text(client_configuration(cell, address))
    (directory / "kdc.conf").write_text(
        f"[realms]\n{realm(cell)} = {{\n"
        f"    database_name = {_DIRECTORY}/principal\n"
        f"    key_stash_file = {_DIRECTORY}/stash\n"
        f"    kdc_listen = {_PORT}\n    kdc_tcp_listen = {_PORT}\n"
        f"    supported_enctypes = {_TYPE}\n    max_life = 24h\n}}\n"
        f"[logging]\nkdc = FILE:{_DIRECTORY}/kdc.log\n"
    )
    # kdb5_util reads the master password twice. Afterwards the stash file is used.
    password = f"{secrets.token_urlsafe(32)}\n".encode() * 2
    _run(server, ["kdb5_util", "create", "-s"], input=password)
    for principal, file in ((service, keytab), (USER, f"{_DIRECTORY}/{USER}.keytab")):
        _run(server, ["kadmin.local", "addprinc", "-randkey", principal])
        # Export the key without changing it, so that its version stays 1.
        _run(server, ["kadmin.local", "ktadd", "-k", file, "-norandkey", principal])
    _run(server, ["krb5kdc", "-P", "/run/krb5kdc.pid"])
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while server.run(["test", "-s", "/run/krb5kdc.pid"]).status != 0:
        if time.monotonic() > deadline:
            raise CellError(f"{server.name}: the KDC does not start; its log: {_log(server)}")
        time.sleep(_POLL_S)


def _log(server: Node) -> str:
    result = server.run(["tail", "--lines=3", f"{_DIRECTORY}/kdc.log"])
    output = (result.stdout or result.stderr).decode(errors="replace")
    return " ".join(output.split()) or "it has nothing"


def _run(server: Node, argv: list[str], input: bytes = b"") -> None:
    variables = [f"KRB5_CONFIG={_DIRECTORY}/krb5.conf", f"KRB5_KDC_PROFILE={_DIRECTORY}/kdc.conf"]
    result = server.run(["env", *variables, *argv], input=input)
    if result.status != 0:
        output = (result.stderr or result.stdout).decode(errors="replace").strip()
        raise CellError(f"{server.name}: {' '.join(argv[:2])}: {output}")
