"""The one table of operations: the spec's word for each, and the class that does it."""

from __future__ import annotations

from workloads.data import Create, Read
from workloads.names import List, Mkdir, NegativeStat, Rename, Rmdir, Stat, Unlink
from workloads.steps import Operation

TABLE: dict[str, type[Operation]] = {
    "mkdir": Mkdir,
    "create": Create,
    "read": Read,
    "stat": Stat,
    "negative-stat": NegativeStat,
    "list": List,
    "rename": Rename,
    "unlink": Unlink,
    "rmdir": Rmdir,
}
