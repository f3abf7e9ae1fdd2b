"""The OpenAFS spaces for tests of proposals, complete and narrowed, on a host of fixed size."""

from __future__ import annotations

import search_spaces
from search_spaces import Space
from tuner.propose.encoding import Tunable

FACTS = {
    "net_core_rmem_max": 4 << 20,
    "memory_bytes": 16 << 30,
    "nofile": 65536,
    "fixed_command_length": 40,
    "cache_partition_bytes": 16 << 30,
    "cacheinfo_blocks": 200_000,
}
SERVER = search_spaces.load("openafs-fileserver-1.8")
CLIENT = search_spaces.load("openafs-cache-manager-fuse-1.8")
#: Narrowed spaces with three parameters in total, on logarithmic and plain scales.
SMALL_SERVER = SERVER.narrow(only=("threads", "dir_buffers"))
SMALL_CLIENT = CLIENT.narrow(only=("daemons",))


def tunables(server: Space = SERVER, client: Space = CLIENT) -> dict[str, Tunable]:
    return {
        "fileserver": Tunable(server, FACTS, {}),
        "cache_manager": Tunable(client, FACTS, {"blocks": 200_000}),
    }


def small() -> dict[str, Tunable]:
    return tunables(SMALL_SERVER, SMALL_CLIENT)
