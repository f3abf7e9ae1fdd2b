"""The cache directory of a client, which must be empty when afsd is to use fewer cache files.

Up to OpenAFS 1.8.13, afsd writes beyond a list of its own where more subdirectories of the cache
exist than it is to use, and leaves the client half started. How many it uses follows from all its
options, also from those that are not set any more, so the directory is emptied in every case.
"""

from __future__ import annotations

from tuner.services.form import Part, shell

#: For formats that do not empty it.
MIND = (
    "up to OpenAFS 1.8.13, afsd may crash when it is to use fewer cache files than exist (smaller "
    "-files or -blocks, larger -chunksize): empty the cache directory while the client is stopped"
)
#: For formats that do.
EMPTIED = "the cache of a client is emptied, since afsd may crash when it is to use fewer files"
#: For a client that has not stopped. Its unit is inactive then, so stopping that would do nothing.
REALLY_STOP = "umount /afs && rmmod openafs (libafs with upstream's packages)"
#: Deletes what afsd creates, and nothing else, below the working directory.
DELETION = (
    *("find", ".", "-mindepth", "1", "-maxdepth", "2", "-regextype", "posix-extended", "-regex"),
    r"\./(D[0-9]+(/V[0-9]+)?|V[0-9]+|CacheItems|CellItems|VolumeItems)",
    "-delete",
)

#: For a script: sets ``place`` to the cache directory that the options in ``line`` choose.
FIND = r"""# Where the cache is: in -cachedir, or else in cacheinfo, which -confdir may move.
option() {
    printf '%s\n' "$line" | sed -n "s/.*[ \"]-\{1,2\}$1[a-z]*[ =]\{1,\}\([^ \"]*\).*/\1/p"
}
cache=$(option ca)
conf=$(option co)
info=${2:-${conf:-/etc/openafs}/cacheinfo}
if [ -z "$cache" ]; then
    s='[[:space:]]*'
    cache=$(sed -n "s/^$s[^:[:space:]]*:\([^:[:space:]]*\):[0-9]*$s\$/\1/p" "$info") || true
fi
place=
case $cache in /*) place=$(readlink -e -- "$cache") || true ;; esac
if [ ! -d "$place" ] || [ "$place" = / ]; then
    echo "'$cache', from -cachedir or $info, is no cache directory; nothing was changed" >&2
    exit 1
fi
"""
#: For a script: empties ``place``, while the client is stopped.
EMPTY = f"""# Up to OpenAFS 1.8.13, afsd may crash when it is to use fewer cache files than exist.
if ! (cd -- "$place" && {shell(DELETION[:-2])} \\
        {shell(DELETION[-2:])}); then
    echo "$place cannot be emptied; openafs-client stays stopped, with its options as before" >&2
    exit 1
fi
"""


def on_disk(part: Part) -> bool:
    """Whether the client keeps its cache in a directory."""
    return "-memcache" not in part.words
