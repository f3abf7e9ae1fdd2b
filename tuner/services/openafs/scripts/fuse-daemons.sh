# fuse-daemons.sh, sourced by other scripts here: finds the processes that are the cache manager of a mount point.
#
# Any user may name a process afsd.fuse and give it any arguments, so only root's processes are trusted. They will be
# stopped and started again as root, so what is started is the executable known to the kernel, and only if nobody but
# root can write or replace it. Programs such as sudo run as root for any user, who may name their processes too: the
# executable must have the name.

# Uses the status from the kernel: the owner of /proc/PID is not always the user of the process.
of_root() {
    while read -r key users; do
        [ "$key" != Uid: ] || { [ "$(printf '%s' "$users" | tr -d '\t ')" = 0000 ] && return 0 || return 1; }
    done 2> /dev/null < "/proc/$1/status"
    return 1
}

# runs PID NAME: whether the executable of a process has this name, or one that begins with it: it may have a version,
# and may have been moved aside or deleted (then " (deleted)" follows) while it runs.
runs() {
    case $(readlink "/proc/$1/exe") in */"$2"*) return 0 ;; esac
    return 1
}

# The arguments of a process, one per line; the first is its name for itself.
arguments() {
    { tr '\0' '\n' < "/proc/$1/cmdline"; } 2> /dev/null
}

# Whether it serves MOUNT according to its options; without -mountdir, it uses the mount point in the cacheinfo file.
serves() {
    at=$(arguments "$1" | sed -n '/^-mountdir$/ { n; p; q; }')
    [ -z "$at" ] || [ "$at" = "$2" ]
}

# daemons NAME MOUNT: PIDs of root's processes of this name for this mount point, one per line.
daemons() {
    for pid in $(pidof "$1"); do
        serves "$pid" "$2" && of_root "$pid" && runs "$pid" "$1" && printf '%s\n' "$pid"
    done
}

# Whether nobody but root can write or replace a file; the path must have no links. Prints the reason if not.
only_roots() {
    at=$1
    while :; do
        found=$(stat -c '%u 0%a' -- "$at" 2> /dev/null) || { echo "$at does not exist"; return 1; }
        mode=${found#* }
        # In a directory with the sticky bit, such as /tmp, users cannot replace files of others.
        if [ "${found% *}" != 0 ] || { [ $((mode & 022)) != 0 ] && [ $((mode & 01000)) = 0 ]; }; then
            echo "users other than root can write $at"
            return 1
        fi
        [ "$at" != / ] || return 0
        at=${at%/*}
        at=${at:-/}
    done
}
