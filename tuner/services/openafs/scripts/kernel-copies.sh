#!/bin/sh
# kernel-copies.sh MOUNT [PROC]
#
# Prints the mount namespaces that would keep a mount of the kernel client after systemd has unmounted MOUNT, one per
# line, each as one of its processes: its number and command, in which nothing can pass for another process. Changes
# nothing. Fails if they cannot be read. PROC: instead of /proc.
#
# An unmount reaches another namespace through the mount below: there, what MOUNT lies on must belong to the peer group
# of what it lies on here, or receive from it, maybe through others in between; the namespaces of systemd's services do.
# The peer group of the client's own mount says nothing: a container may be a slave of it and keep its copy all the same.
set -u
mount=$1 proc=${2:-/proc}

# Where systemd mounts and unmounts; where process 1 hides it, fstune most likely runs there too.
own=$(readlink "$proc/1/ns/mnt" || readlink "$proc/$$/ns/mnt") || exit

# The lowest process of each mount namespace, and the namespace.
namespaces() {
    find "$proc"/[0-9]*/ns/mnt -maxdepth 0 -printf '%p %l\n' 2> /dev/null |
        sed -n "s,^$proc/\([0-9]*\)/ns/mnt \(.\),\1 \2,p" | sort -n | sort -u -k 2,2 -s | sort -n
}

# Their mounts, after a line with the process and the namespace.
mounts() {
    namespaces | while read -r pid namespace; do
        echo "namespace $pid $namespace"
        cat "$proc/$pid/mountinfo" 2> /dev/null
    done
}

pids=$(mounts | awk -v mount="$mount" -v own="$own" '
# Where a mount is attached, as a path in the file system below, wherever that is mounted.
function spot(id, on) {
    return (root[on] == "/" ? "" : root[on]) substr(place[id], place[on] == "/" ? 1 : length(place[on]) + 1)
}
$1 == "namespace" {
    pid[++number] = $2
    if ($3 == own) here = number
    next
}
{
    id = number SUBSEP $1
    below[id] = number SUBSEP $2
    root[id] = $4
    place[id] = $5
    covered[below[id]] = 1
    for (i = 7; i < NF && $i != "-"; i++) {
        if (sub(/^shared:/, "", $i)) shared[id] = $i
        else if (sub(/^master:/, "", $i)) master[id] = $i
    }
    if (id in shared && id in master) passes[master[id], shared[id]] = 1
    if ($(i + 1) == "afs") { client[++count] = id; of[count] = number }
}
END {
    if (!here) exit 1
    for (n = 1; n <= count; n++) {
        id = client[n]
        if (of[n] == here && place[id] == mount && below[id] in shared) {
            reached[shared[below[id]]] = 1
            there[spot(id, below[id])] = 1
        }
    }
    do {
        more = 0
        for (pair in passes) {
            split(pair, groups, SUBSEP)
            if (groups[1] in reached && !(groups[2] in reached)) more = reached[groups[2]] = 1
        }
    } while (more)
    for (n = 1; n <= count; n++) {
        id = client[n]
        on = below[id]
        if (of[n] == here || of[n] in named) continue
        receives = on in shared && shared[on] in reached || on in master && master[on] in reached
        if (receives && spot(id, on) in there && !(id in covered)) continue
        named[of[n]] = 1
        print pid[of[n]]
    }
}') || exit
for pid in $pids; do
    printf '%s (%s)\n' "$pid" "$({ tr '\0-\37\177(),' ' ' < "$proc/$pid/cmdline" | cut -c 1-60 | sed 's/ *$//'; } 2> /dev/null)"
done
