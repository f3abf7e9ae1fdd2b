"""The guest of a private cell as a testbed: a real kernel client, reached over SSH.

Responsible for the testbed file of a guest; ``deploy.vm`` sets up the guest itself.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from deploy.cell import kerberos
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.server import VOLUME
from deploy.vm import Guest, seed
from tuner.services.openafs.testbed_file import TestbedFile

_HEADING = """\
# The guest of a private cell: a client host with the Linux kernel's OpenAFS client, and its
# server. Rewritten by each 'fstune vm up'; in a copy elsewhere, key and known_hosts need their
# whole paths.
"""
_OTHER_VOLUMES = ["root.afs", "root.cell"]
#: A guest restores itself after this time without contact with fstune.
_AFTER = "5m"


def testbed_document(guest: Guest) -> dict[str, object]:
    """Return the testbed file of a guest; paths are relative to the directory of its cell."""

    def server() -> dict[str, str]:
        return {"cell": guest.name, "node": "server"}

    own = guest.directory.relative_to(guest.cell_directory)
    return {
        "name": f"guest {guest.name}",
        "path": VOLUME_PATH,
        "server": {
            "reach": {"netns": server()},
            "address": SERVER_ADDRESS,
            "volumes": [VOLUME],
            "other_volumes": _OTHER_VOLUMES,
        },
        "clients": [
            {
                "name": seed.HOSTNAME,
                "reach": {
                    "ssh": {
                        "address": seed.ADDRESS,
                        "user": "root",
                        "key": str(own / "key"),
                        "agent": False,
                        "known_hosts": str(own / "known_hosts"),
                        # The guest can only be reached from the network of the cell.
                        "netns": server(),
                    }
                },
                "control": {"systemd": {}},
                "token": {"keytab": seed.KEYTAB, "principal": kerberos.USER},
            }
        ],
        "restore": {"after": _AFTER},
    }


def write_testbed(guest: Guest) -> Path:
    """Write the testbed file of a guest to the directory of its cell; returns its path."""
    document = testbed_document(guest)
    TestbedFile.model_validate(document)
    path = guest.cell_directory / "testbed.yaml"
    path.write_text(_HEADING + yaml.safe_dump(document, sort_keys=False))
    return path
