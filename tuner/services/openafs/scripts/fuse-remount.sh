#!/bin/sh
# fuse-remount.sh MOUNT CACHE PROBE PROGRAM [OPTION...]
#
# Stops the cache manager at MOUNT, wipes CACHE, starts PROGRAM (an absolute path) with its options, and waits until
# PROBE is visible. Every argument is data: no code is built from values.
#
# Exit status: 0 it works; 3 the old one does not stop; 4 the new one does not work; the reason is on standard error.
set -u
mount=$1 cache=$2 probe=$3
shift 3
program=${1##*/}
. "${0%/*}/fuse-daemons.sh"
log=${0%/*}/start.log
# A full or failed disk must not prevent the client from being restored (with ":" the shell would exit).
true 2> /dev/null > "$log" || log=/dev/null
grace_s=5
store_s=10
ready_s=20
# A client retries only every 15 s if the volume is being salvaged, which happens after a fileserver crashed while it
# was being stopped.
serve_s=70

fail() {
    status=$1
    shift
    printf '%s\n' "$*" >&2
    exit "$status"
}

uptime_s() {
    read -r up _ < /proc/uptime
    printf '%s' "${up%%.*}"
}

past() {
    [ "$(uptime_s)" -ge "$1" ]
}

# Sets device to the number of the mount. Does not access the file system, which may hang.
mounted() {
    device=
    while read -r _ _ number _ at rest; do
        [ "$at" = "$mount" ] && case $rest in *' - fuse'*) device=${number#*:} ;; esac
    done < /proc/self/mountinfo
    [ -n "$device" ]
}

there() {
    mounted || [ -n "$(daemons "$program" "$mount")" ]
}

detach() {
    timeout --foreground "$grace_s" umount "$@" "$mount" 2>&1
}

# Processes that still use its files will get errors.
end_by_force() {
    limit=$(($(uptime_s) + grace_s))
    output=
    while there; do
        past "$limit" && fail 3 "$mount cannot be unmounted: ${output:-$program does not die}"
        pids=$(daemons "$program" "$mount")
        # The kernel then fails all pending requests to it. Unquoted: a list of PIDs.
        [ -z "$pids" ] || kill -KILL $pids
        mounted && output=$(detach --lazy)
        sleep 0.02
    done
}

# Whether the daemon has not answered all requests of the kernel yet. A file is stored when it is closed, which programs
# do not wait for: what the daemon has not read yet when it is unmounted is lost.
storing() {
    mounted || return 1
    # Without this file there is no telling.
    { read -r waiting < "/sys/fs/fuse/connections/$device/waiting"; } 2> /dev/null && [ "$waiting" -gt 0 ]
}

limit=$(($(uptime_s) + store_s))
while storing && ! past "$limit"; do
    sleep 0.02
done
limit=$(($(uptime_s) + grace_s))
# The daemon writes its cache back after the unmount, so it must have exited before the cache is wiped.
while there; do
    if past "$limit"; then
        end_by_force
        break
    fi
    mounted && detach > /dev/null && continue
    sleep 0.02
done
# With the slash, also if it is a symbolic link. Only what afsd.fuse has created: others may use this partition, too.
(cd -- "$cache/" && find . -xdev -mindepth 1 -maxdepth 2 -regextype posix-extended \
    -regex '\./(D[0-9]+(/V[0-9]+)?|V[0-9]+|CacheItems|CellItems|VolumeItems)' -delete) || fail 3 "$cache cannot be wiped"

limit=$(($(uptime_s) + serve_s))
# A daemon must not keep this script's output or a lock open. Commands with a timeout stay in the process group of this
# script, so that they end when that group is killed.
timeout --foreground --kill-after="$grace_s" "$ready_s" "$@" < /dev/null > "$log" 2>&1 9<&- || fail 4 "$program: exit status $?: $(cat "$log")"
while :; do
    output=$(timeout --foreground "$ready_s" stat -c %F -- "$probe" 2>&1) && exit 0
    if past "$limit" || [ -z "$(daemons "$program" "$mount")" ]; then
        fail 4 "$program does not serve $probe: $output $(cat "$log")"
    fi
    sleep 0.02
done
