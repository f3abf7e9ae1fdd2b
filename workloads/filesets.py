"""File sets (the number, sizes and directories of files) and how specs describe them."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.fields import Fields, SpecError
from workloads.sizes import Sizes, parse_sizes, spread

MAX_FILES = 1_000_000
MAX_STEPS = 2_000_000
MAX_RECORD_BYTES = 4 << 20
SCALING = ("files", "size", "fixed")
"""What scaling a workload changes: the number of files, their sizes, or nothing."""

_MAX_REPEATED_PERCENT = 90
#: Paths of more levels would become too long for the system.
_MOST_LEVELS = 200


@dataclass(frozen=True)
class PostmarkRules:
    """Postmark's settings: ``transactions``, chances out of ten and the seed of its generator."""

    transactions: int
    read_bias: int
    create_bias: int
    seed: int


@dataclass(frozen=True)
class FileSet:
    """Files of one size distribution, spread evenly over directories.

    ``index`` is the set's position in the spec. With a ``fanout`` the directories form a tree with
    that many children each; with 0 they are siblings. ``repeated_percent`` of the data is
    compressible.
    """

    name: str
    index: int
    files: int
    directories: int
    sizes: Sizes
    record_bytes: int
    fanout: int = 0
    repeated_percent: int = 0
    postmark: PostmarkRules | None = None

    @property
    def total_bytes(self) -> int:
        """The total size of its files, the same for every seed."""
        return sum(spread(self.sizes, self.files))


def parse_fileset(name: str, index: int, fields: Fields) -> FileSet:
    """Return the checked file set; raises SpecError."""
    files = fields.integer("files", 1, MAX_FILES)
    directories = fields.integer("directories", 1, MAX_FILES, default=1)
    if directories > files:
        raise SpecError(
            fields.path("directories"), f"is above the number of files ({directories} > {files})"
        )
    sizes = parse_sizes(Fields(fields.value("size"), fields.path("size")))
    record_bytes = fields.integer("record_bytes", 1, MAX_RECORD_BYTES, default=128 << 10)
    fanout = fields.integer("fanout", 1, MAX_FILES, default=0)
    if fanout and (levels := _levels(directories, fanout)) > _MOST_LEVELS:
        raise SpecError(
            fields.path("fanout"), f"makes {levels} levels of directories, more than {_MOST_LEVELS}"
        )
    repeated_percent = fields.integer("compressible_percent", 0, _MAX_REPEATED_PERCENT, default=0)
    postmark = None
    if fields.has("postmark"):
        postmark = _postmark(Fields(fields.value("postmark"), fields.path("postmark")))
    fields.choice("scale", SCALING, default="files")
    fields.refuse_unknown()
    return FileSet(
        name, index, files, directories, sizes, record_bytes, fanout, repeated_percent, postmark
    )


def _levels(directories: int, fanout: int) -> int:
    """The levels of a tree of directories."""
    levels, number = 1, directories - 1
    while number > 0:
        levels, number = levels + 1, (number - 1) // fanout
    return levels


def _postmark(fields: Fields) -> PostmarkRules:
    rules = PostmarkRules(
        transactions=fields.integer("transactions", 1, MAX_STEPS),
        read_bias=fields.integer("read_bias", 0, 10, default=5),
        create_bias=fields.integer("create_bias", 0, 10, default=5),
        seed=fields.integer("seed", 0, (1 << 32) - 1, default=42),
    )
    fields.refuse_unknown()
    return rules
