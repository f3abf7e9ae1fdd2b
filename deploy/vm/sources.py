"""This machine's Debian package sources, which are also used to build the image."""

from __future__ import annotations

import subprocess

from deploy.cell.errors import CellError
from deploy.vm.recipe import SUITE

_FIELDS = "$(ORIGIN)\t$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)"
_OURS = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
#: apt settings for reaching its servers and for checking dates.
_SETTINGS = ("Acquire::http::", "Acquire::https::", "Acquire::Check-", "Acquire::Retries")
_MOST_S = 60.0


def source_lines() -> list[str]:
    """This machine's official Debian sources, as lines of sources.list.

    Raises CellError if there are none for Debian 12, whose packages the guest is built from.
    """
    targets = _output(["apt-get", "indextargets", "--format", _FIELDS, "Identifier: Packages"])
    entries: dict[str, None] = {}
    for line in targets.splitlines():
        origin, address, release, component, signed_by = line.split("\t")
        if origin == "Debian" and release in _OURS:
            key = f"[signed-by={signed_by}] " if signed_by.startswith("/") else ""
            entries[f"deb {key}{address.rstrip('/')} {release} {component}"] = None
    if not any(f" {SUITE} " in line for line in entries):
        raise CellError(
            f"this machine's apt has no package lists of Debian's {SUITE}, from whose packages the "
            "guest is built; on Debian 12, run apt-get update first"
        )
    return list(entries)


def settings() -> str:
    """This machine's download settings, in the format of apt.conf."""
    lines = _output(["apt-config", "dump"]).splitlines()
    lines = [line for line in lines if line.startswith(_SETTINGS)]
    return "".join(f"{line}\n" for line in lines if line.endswith('";') and '""' not in line)


def _output(argv: list[str]) -> str:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, timeout=_MOST_S, check=False)
    except FileNotFoundError:
        raise CellError(f"{argv[0]} is missing: the guest needs Debian 12") from None
    except subprocess.TimeoutExpired:
        raise CellError(f"{' '.join(argv[:2])}: not finished after {_MOST_S:g} s") from None
    if result.returncode != 0:
        raise CellError(f"{' '.join(argv[:2])}: {result.stderr.strip()[-300:]}")
    return result.stdout
