#!/bin/sh
# kernel-remount.sh UNIT MOUNT CACHE PROBE FILE WANTED CRYPT
#
# Ends the kernel's cache manager at MOUNT by its systemd unit, wipes CACHE, makes the content of WANTED that of
# FILE, starts the unit again, sets encryption to CRYPT ("on", "off", or "" to leave it), and waits until PROBE
# can be seen. Every argument is data.
#
# What systemctl answers is worth nothing here: with somebody in the files, "stop" succeeds and all
# stays mounted, and each further "start" adds daemons to a client that runs on with its old options,
# until the kernel fails. So nothing is stopped while somebody is in the files, or while they are mounted at a second
# place, and nothing is started before mount and module are seen to be gone. What was stopped has the mark "stopped"
# beside WANTED; what was last made of FILE is kept there as "applied", and one that has become anything else meanwhile
# is not touched.
#
# Exit status: 0 it serves; 3 the old one does not end; 4 the new one does not serve; what is wrong is
# on standard error.
set -u
unit=$1 mount=$2 cache=$3 probe=$4 file=$5 wanted=$6 crypt=$7
leave_s=2
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

# Its name, when it is loaded.
module() {
    lsmod | sed -n 's/^\(openafs\|libafs\) .*/\1/p'
}

# Who is in the files: named, not ended, since they may be anybody's.
holders() {
    find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd -maxdepth 1 \
        \( -lname "$mount" -o -lname "$mount/*" \) 2> /dev/null | cut -d/ -f3 | sort -nu |
        while read -r pid; do
            printf '%s (%s) ' "$pid" "$({ tr '\0' ' ' < "/proc/$pid/cmdline" | cut -c 1-60; } 2> /dev/null)"
        done
}

beside=$(dirname "$wanted")
if [ -e "$beside/applied" ] && ! cmp -s "$file" "$beside/applied" && ! cmp -s "$file" "$beside/configuration" &&
    ! cmp -s "$file" "$wanted"; then
    fail 3 "somebody else has changed $file meanwhile; nothing was stopped"
fi
limit=$(($(uptime_s) + leave_s))
while held=$(holders) && [ -n "$held" ]; do
    [ "$(uptime_s)" -lt "$limit" ] || fail 3 "$mount is held by: $held; end what holds it; nothing was stopped"
    sleep 0.2
done
# It would keep the module, and then only a reboot would be safe.
if others=$(findmnt --noheadings --list --types afs --output TARGET | grep -Fxv -- "$mount"); then
    fail 3 "$mount is also mounted at $(echo $others); unmount that; nothing was stopped"
fi
[ -e "$beside/stopped" ] || true > "$beside/stopped" || fail 3 "nothing can be written beside $wanted"
timeout 90 systemctl stop "$unit" 2> /dev/null
if mounted; then
    timeout 20 umount "$mount" 2> /dev/null
fi
if mounted; then
    fail 3 "$mount stays mounted, held by: $(holders); end what holds it, or reboot"
fi
if [ -n "$(module)" ]; then
    timeout 30 afsd -shutdown > /dev/null 2>&1
    timeout 20 rmmod "$(module)" 2> /dev/null
fi
if [ -n "$(module)" ]; then
    fail 3 "the kernel module $(module) stays loaded; only a reboot is safe now"
fi
# Fewer cache files than there are would end afsd.
find "$cache/" -mindepth 1 -not -name lost+found -delete || fail 3 "$cache cannot be wiped"
# In place: owner and mode stay what they are.
cmp -s "$wanted" "$file" || cat "$wanted" > "$file" || fail 3 "$file cannot be written"
# A disk that takes nothing any more must not keep the client from being put back.
cp "$wanted" "$beside/applied.new" 2> /dev/null && mv "$beside/applied.new" "$beside/applied"

if ! timeout 120 systemctl start "$unit" 2> /dev/null || ! mounted; then
    said=$(journalctl --unit "$unit" --lines 3 --output cat --no-pager 2> /dev/null | tr '\n' ' ')
    timeout 90 systemctl stop "$unit" 2> /dev/null
    fail 4 "$unit does not start: $said"
fi
# Before the first look: connections keep what they were made with.
if [ -n "$crypt" ]; then
    timeout 20 fs setcrypt "$crypt" > /dev/null || fail 4 "encryption cannot be set to $crypt"
fi
limit=$(($(uptime_s) + ready_s))
# A symbolic link that leads nowhere does not count: a mount point made through afsd.fuse is one here. A volume that
# lets in nobody without a token does: there is none at this moment.
until said=$(LC_ALL=C timeout 20 stat -L -c %F -- "$probe" 2>&1); do
    case $said in *': Permission denied') break ;; esac
    [ "$(uptime_s)" -lt "$limit" ] || fail 4 "$unit does not serve $probe: $said"
    sleep 0.2
done
