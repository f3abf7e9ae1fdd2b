#!/bin/sh
# kernel-remount.sh UNIT MOUNT CACHE PROBE
#
# Ends the kernel's cache manager at MOUNT by its systemd unit, wipes CACHE, starts the unit again and
# waits until PROBE can be seen. Every argument is data.
#
# What systemctl answers is worth nothing here: with somebody in the files, "stop" succeeds and all
# stays mounted, and each further "start" adds daemons to a client that runs on with its old options,
# until the kernel fails. So nothing is started before mount and module are seen to be gone.
#
# Exit status: 0 it serves; 3 the old one does not end; 4 the new one does not serve; what is wrong is
# on standard error.
set -u
unit=$1 mount=$2 cache=$3 probe=$4
module=openafs
ready_s=60

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

mounted() {
    findmnt --noheadings --types afs --mountpoint "$mount" > /dev/null 2>&1
}

loaded() {
    lsmod | grep -q "^$module "
}

# Who is in the files: named, not ended, since they may be anybody's.
holders() {
    for link in /proc/[0-9]*/cwd /proc/[0-9]*/fd/*; do
        case $(readlink "$link" 2> /dev/null) in "$mount" | "$mount"/*)
            pid=${link#/proc/}
            pid=${pid%%/*}
            printf '%s (%s) ' "$pid" "$(tr '\0' ' ' < "/proc/$pid/cmdline" | cut -c 1-60)"
            ;;
        esac
    done
}

timeout 90 systemctl stop "$unit" 2> /dev/null
if mounted; then
    timeout 20 umount "$mount" 2> /dev/null
fi
if mounted; then
    fail 3 "$mount stays mounted, held by: $(holders); end what holds it, or reboot"
fi
if loaded; then
    timeout 30 afsd -shutdown > /dev/null 2>&1
    timeout 20 rmmod "$module" 2> /dev/null
fi
if loaded; then
    fail 3 "the kernel module $module stays loaded; only a reboot is safe now"
fi
# Fewer cache files than there are would end afsd.
find "$cache" -mindepth 1 -not -name lost+found -delete || fail 3 "$cache cannot be wiped"

if ! timeout 120 systemctl start "$unit" 2> /dev/null || ! mounted; then
    said=$(journalctl --unit "$unit" --lines 3 --output cat --no-pager 2> /dev/null | tr '\n' ' ')
    timeout 90 systemctl stop "$unit" 2> /dev/null
    fail 4 "$unit does not start: $said"
fi
limit=$(($(uptime_s) + ready_s))
until said=$(timeout 20 stat -c %F -- "$probe" 2>&1); do
    [ "$(uptime_s)" -lt "$limit" ] || fail 4 "$unit does not serve $probe: $said"
    sleep 0.2
done
