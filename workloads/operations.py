"""The table of operations: the name of each in specs, and the class that implements it."""

from __future__ import annotations

from workloads import names, reads, writes
from workloads.steps import Operation

TABLE: dict[str, type[Operation]] = {
    "mkdir": names.Mkdir,
    "create": writes.Create,
    "create-empty": writes.Create,
    "rewrite": writes.Overwrite,
    "append": writes.Append,
    "truncate": writes.Truncate,
    "next-write": writes.Overwrite,
    "random-write": writes.Overwrite,
    "read": reads.Read,
    "next-read": reads.ReadRange,
    "random-read": reads.ReadRange,
    "read-modify-write": reads.ReadModifyWrite,
    "fsync": writes.Fsync,
    "stat": names.Stat,
    "negative-stat": names.NegativeStat,
    "access": names.Access,
    "chmod": names.Chmod,
    "flock": names.Flock,
    "list": names.List,
    "walk": names.Walk,
    "rename": names.Rename,
    "link": names.Link,
    "unlink": names.Unlink,
    "rmdir": names.Rmdir,
}
