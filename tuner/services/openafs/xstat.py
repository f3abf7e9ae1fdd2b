"""Parsers for the extended statistics of OpenAFS programs. Pure.

``xstat_fs_test -collID 2 3`` queries a fileserver, ``xstat_cm_test -collID 2`` a cache manager.
Both count transferred data in whole KiB and carry the remainder over.
"""

from __future__ import annotations

import re

from tuner.services.openafs.parse import xstat

_CALLS = {
    "FetchData": "fetch_data",
    "StoreData": "store_data",
    "FetchStatus": "fetch_status",
    "BulkStatus": "bulk_status",
    "StoreStatus": "store_status",
    "CreateFile": "create_file",
    "RemoveFile": "remove_file",
    "MakeDir": "make_directory",
    "RemoveDir": "remove_directory",
    "Rename": "rename",
    "Link": "link",
    "SetLock": "set_lock",
}
_FILESERVER = {
    "AddCallBack": "callbacks_added",
    "BreakCallBacks": "callbacks_broken",
    "GotSomeSpaces": "callbacks_dropped_for_space",
}
_CACHE_MANAGER = {
    "dcacheHits": "dcache_hits",
    "dcacheMisses": "dcache_misses",
    "vcacheHits": "vcache_hits",
    "vcacheMisses": "vcache_misses",
    "cacheFilesReused": "cache_files_reused",
}
_KIB = 1024.0


def fileserver_counters(text: str) -> dict[str, float]:
    """Parse the counters of a fileserver since it started. Raises ValueError.

    These are bytes that clients fetched and stored, calls by type with their time in seconds, and
    callbacks.
    """
    return {**_transfers(text), **_calls(text), **_counters(text, _FILESERVER)}


def cache_manager_counters(text: str) -> dict[str, float]:
    """Parse the counters of a cache manager since it started. Raises ValueError.

    These are hits and misses of its data and status caches, reused cache files, and bytes fetched
    and stored.
    """
    return {**_transfers(text), **_counters(text, _CACHE_MANAGER)}


def _counters(text: str, names: dict[str, str]) -> dict[str, float]:
    values = xstat(text)
    lacking = names.keys() - values.keys()
    if lacking:
        raise ValueError(f"xstat: no {sorted(lacking)[0]} in {text.strip()[:200]!r}")
    return {ours: float(values[theirs]) for theirs, ours in names.items()}


def _transfers(text: str) -> dict[str, float]:
    pairs = re.findall(r"^(\w+): \d+ xfers .*\n\s*\[bytes: sum=(-?\d{1,19})", text, re.MULTILINE)
    kib_by_call = {name: int(kib) for name, kib in pairs}
    try:
        return {
            "fetched_bytes": kib_by_call["FetchData"] * _KIB,
            "stored_bytes": kib_by_call["StoreData"] * _KIB,
        }
    except KeyError as problem:
        raise ValueError(f"xstat: no transfers of {problem} in {text.strip()[:200]!r}") from None


def _calls(text: str) -> dict[str, float]:
    rows = re.findall(r"^\s*(\w+): (\d+) ops \(\d+ OK\); sum=([\d.]+)", text, re.MULTILINE)
    counters: dict[str, float] = {}
    for name, count, seconds in rows:
        if name in _CALLS:
            counters[f"{_CALLS[name]}_calls"] = float(count)
            counters[f"{_CALLS[name]}_s"] = float(seconds)
    return counters
