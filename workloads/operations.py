"""The table of operations: the name of each in specs, and the class that implements it."""

from __future__ import annotations

from workloads.attributes import Access, Chmod, Flock
from workloads.names import Link, List, Mkdir, NegativeStat, Rename, Rmdir, Stat, Unlink, Walk
from workloads.reads import Read, ReadModifyWrite, ReadRange
from workloads.steps import Operation
from workloads.writes import Append, Create, Fsync, Overwrite, Truncate

TABLE: dict[str, type[Operation]] = {
    "mkdir": Mkdir,
    "create": Create,
    "create-empty": Create,
    "rewrite": Overwrite,
    "append": Append,
    "truncate": Truncate,
    "next-write": Overwrite,
    "random-write": Overwrite,
    "read": Read,
    "next-read": ReadRange,
    "random-read": ReadRange,
    "read-modify-write": ReadModifyWrite,
    "fsync": Fsync,
    "stat": Stat,
    "negative-stat": NegativeStat,
    "access": Access,
    "chmod": Chmod,
    "flock": Flock,
    "list": List,
    "walk": Walk,
    "rename": Rename,
    "link": Link,
    "unlink": Unlink,
    "rmdir": Rmdir,
}
