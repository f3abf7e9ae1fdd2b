"""A directory is only emptied if it is the client's cache, however its options say so."""

from __future__ import annotations

import pytest

import search_spaces
from tests.unit.services.openafs.test_first_look import host
from tuner.errors import TestbedError
from tuner.hosts.connector import Connector
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.client import Client
from tuner.services.openafs.fuse import FuseClient, FusePlace
from tuner.services.openafs.kernel_client import KernelClient, KernelPlace

ANSWERS = {
    "cat /etc/openafs/cacheinfo": "/afs:/cache:100000\n",
    "cat /srv/cacheinfo": "/afs:/srv/cache:100000\n",
    "cat /proc/meminfo": "MemTotal: 5 kB\n",
    "stat --file-system": "4096 9000000 4000000\n",
    "fs -version": "openafs 1.8.9\n",
}


def fuse(machine: Connector, options: str, cache: str) -> Client:
    place = FusePlace("/afs", cache, "/afs/bench", "/fstune")
    return FuseClient(machine, place, ("afsd.fuse", *options.split()), "/usr/sbin/afsd.fuse")


def kernel(machine: Connector, options: str, cache: str) -> Client:
    place = KernelPlace("afs", "/afs.conf", "OPTIONS", "/afs", cache, "/afs/bench", "/fstune")
    return KernelClient(machine, place, f'OPTIONS="{options}"\n', "on")


def attach(
    kind: str, options: str, cache: str, *, alike: bool = True, answers: dict[str, str] = ANSWERS
) -> None:
    client = {"fuse": fuse, "linux": kernel}[kind](host(answers), options, cache)
    space = search_spaces.load(f"openafs-cache-manager-{kind}-1.8")
    CacheManager.attach([client], "afsd", space, alike=alike)


@pytest.mark.parametrize("kind", ["fuse", "linux"])
@pytest.mark.parametrize(
    ("options", "cache"),
    [
        ("-dynroot -cachedir /x", "/x"),
        ("-cachedir=/x -afsdb", "/x"),
        ("--cachedir /x", "/x"),
        ("-cached /x/", "/x"),
        ("-dynroot", "/cache"),
        ("-confdir /srv", "/srv/cache"),
    ],
)
def test_only_the_client_s_own_cache_is_wiped(kind: str, options: str, cache: str) -> None:
    attach(kind, options, cache)
    with pytest.raises(TestbedError, match=f"cache is {cache}/?, .* not /home, which would be wip"):
        attach(kind, options, "/home")


def test_a_client_that_is_only_restored_is_not_refused() -> None:
    """Its journal says what is wiped; somebody may have changed cacheinfo since."""
    attach("linux", "-dynroot", "/home", alike=False)


OTHER = "cat /usr/vice/etc/cacheinfo"
#: Where a client of another package was before.
LEFT_OVER = {**ANSWERS, OTHER: "/afs:/usr/vice/cache:500000\n"}


@pytest.mark.parametrize("kind", ["fuse", "linux"])
def test_two_cacheinfo_files_that_differ_are_refused(kind: str) -> None:
    """Which one counts is compiled into the client, and the cache of the other would be wiped."""
    why = (
        r"/etc/openafs/cacheinfo and /usr/vice/etc/cacheinfo differ \('/afs:/cache:1.* and '/afs:/u"
    )
    with pytest.raises(TestbedError, match=why):
        attach(kind, "-dynroot", "/cache", answers=LEFT_OVER)
    attach(kind, "-cachedir /x", "/x", answers=LEFT_OVER)
    attach(kind, "-confdir /srv", "/srv/cache", answers=LEFT_OVER)
    attach(kind, "-dynroot", "/cache", answers={**LEFT_OVER, OTHER: "/afs:/cache:100000"})
    attach(kind, "-dynroot", "/home", answers=LEFT_OVER, alike=False)  # only to be restored


def test_upstream_s_file_counts_where_it_is_the_only_one() -> None:
    answers = {name: text for name, text in LEFT_OVER.items() if "/etc/openafs/" not in name}
    attach("linux", "-dynroot", "/usr/vice/cache", answers=answers)
