"""Other generators, unpacked from their Debian packages into a directory but not installed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = ("fio", "fsmark", "postmark")


@dataclass(frozen=True, slots=True)
class Tools:
    """The location of the programs, and the environment in which they find their libraries."""

    root: Path
    environment: dict[str, str]

    @classmethod
    def unpack(cls, root: Path) -> Tools:
        """Fetch and unpack the packages and their dependencies (as root, using apt's lists)."""
        archives = root / "archives"
        (archives / "partial").mkdir(parents=True)
        fetch = ["apt-get", "-qq", "-y", "--no-install-recommends", "--download-only"]
        where = ["-o", f"Dir::Cache::archives={archives}"]
        subprocess.run(
            [*fetch, *where, "install", *_PACKAGES], check=True, stdout=subprocess.DEVNULL
        )
        for package in sorted(archives.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
        libraries = sorted({str(path.parent) for path in root.rglob("*.so*")})
        return cls(root, {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)})

    def run(self, program: str, *arguments: str, cwd: Path, input: str = "") -> str:
        """Run a program and return what it printed; raises CalledProcessError."""
        result = subprocess.run(
            [str(self.root / "usr/bin" / program), *arguments],
            cwd=cwd,
            input=input,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return result.stdout + result.stderr
