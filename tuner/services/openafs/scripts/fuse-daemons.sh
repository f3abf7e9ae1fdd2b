# fuse-daemons.sh, read by the scripts beside it: which processes are the cache manager at a mount point.
#
# Anybody may call a process of theirs afsd.fuse and give it any arguments; only root's are believed. They are ended
# and started anew as root, so what is started is the file that the kernel runs, and only one that nobody but root
# can write or replace.

# By the kernel's own record: the owner of /proc/PID is not always the process's.
of_root() {
    while read -r name users; do
        [ "$name" != Uid: ] || { [ "$(printf '%s' "$users" | tr -d '\t ')" = 0000 ] && return 0 || return 1; }
    done 2> /dev/null < "/proc/$1/status"
    return 1
}

# Its arguments, a line each; the first is what it calls itself.
arguments() {
    { tr '\0' '\n' < "/proc/$1/cmdline"; } 2> /dev/null
}

# Whether it serves MOUNT by its options: without the one for it, it serves the place that the client's file names.
serves() {
    at=$(arguments "$1" | sed -n '/^-mountdir$/ { n; p; q; }')
    [ -z "$at" ] || [ "$at" = "$2" ]
}

# daemons NAME MOUNT: root's processes of this name for this mount point, a number each.
daemons() {
    for pid in $(pidof "$1"); do
        serves "$pid" "$2" && of_root "$pid" && printf '%s\n' "$pid"
    done
}

# Whether nobody but root can write or replace the file at a path without links; says why not.
only_roots() {
    at=$1
    while :; do
        found=$(stat -c '%u 0%a' -- "$at" 2> /dev/null) || { echo "$at is not there"; return 1; }
        mode=${found#* }
        # In a directory like /tmp nobody can replace what is another's.
        if [ "${found% *}" != 0 ] || { [ $((mode & 022)) != 0 ] && [ $((mode & 01000)) = 0 ]; }; then
            echo "others than root can write $at"
            return 1
        fi
        [ "$at" != / ] || return 0
        at=${at%/*}
        at=${at:-/}
    done
}
