#!/bin/sh
# kernel-remount.sh UNIT MOUNT CACHE PROBE FILE WANTED CRYPT
#
# Stops the kernel client at MOUNT with its systemd unit, wipes CACHE, gives FILE the content of WANTED, starts
# the unit again, sets encryption to CRYPT ("on", "off", or "" to leave it unchanged), and waits until PROBE is visible.
# Every argument is data.
#
# The exit status of systemctl is useless here: while files are in use, "stop" succeeds although everything stays
# mounted, and each further "start" adds daemons to a client that keeps running with its old options, until the kernel
# fails. So nothing is stopped while files are in use or mounted a second time, here or in another mount namespace, and
# nothing is started until mount and module are gone. In the directory of WANTED, the file "stopped" marks a client that
# was stopped, and "applied" has the last content that was written to FILE; "configuration" has the original one. A FILE
# that was changed in any other way meanwhile is not touched.
#
# Exit status: 0 it works; 3 the old one does not stop; 4 the new one does not work; the reason is on standard error.
set -u
unit=$1 mount=$2 cache=$3 probe=$4 file=$5 wanted=$6 crypt=$7
leave_s=2
ready_s=60
# A start has the longer of this and of the time that its unit gives it, but not more than the longest.
start_s=120
longest_start_s=900
# Without lsmod, a module that stays loaded would not be seen.
PATH=$PATH:/usr/sbin:/sbin
# Where OpenAFS itself puts its programs.
PATH=$PATH:/usr/vice/etc:/usr/afs/bin:/usr/afsws/bin:/usr/afsws/etc
# The file itself, where FILE is a symbolic link.
real=$(readlink -f -- "$file")
new=$real.fstune-new

fail() {
    status=$1
    shift
    rm -f -- "$new"
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

# The name of the module, if it is loaded.
module() {
    lsmod | sed -n 's/^\(openafs\|libafs\) .*/\1/p'
}

# Deletes what afsd has created in its cache, and nothing else: the directory may be a partition that others use, too.
wipe() (
    cd -- "$cache/" && find . -xdev -mindepth 1 -maxdepth 2 -regextype posix-extended \
        -regex '\./(D[0-9]+(/V[0-9]+)?|V[0-9]+|CacheItems|CellItems|VolumeItems)' -delete
)

# The processes that use files; they are reported and not killed, since they may belong to anybody.
holders() {
    find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd /proc/[0-9]*/map_files -maxdepth 1 \
        \( -lname "$mount" -o -lname "$mount/*" \) 2> /dev/null | cut -d/ -f3 | sort -nu |
        while read -r pid; do
            printf '%s (%s) ' "$pid" "$({ tr '\0-\37\177(),' ' ' < "/proc/$pid/cmdline" | cut -c 1-60; } 2> /dev/null)"
        done
}

# Fails with its words at the end if the mount would outlast an unmount, or is left over, in another mount namespace.
refuse_copies() {
    copies=$(timeout 20 sh "$(dirname "$0")/kernel-copies.sh" "$mount" 2>&1) ||
        fail 3 "the mount namespaces of processes cannot be read: $copies; $1"
    [ -z "$copies" ] || fail 3 "$mount is also mounted in the mount namespace of: $(printf '%s' "$copies" | tr '\n' ' ');" \
        "end each, with its service or container; $1"
}

# How long the unit may take to start, as systemd writes it ("2min 30s", "infinity"): afsd creates all files of a cache
# that was wiped. More than that, so that systemd is the one that says so.
allowed_s() {
    timeout 20 systemctl show --property=TimeoutStartUSec -- "$unit" 2> /dev/null |
        awk -v least="$start_s" -v most="$longest_start_s" '
            BEGIN { seconds["us"] = seconds["ms"] = 0; seconds["s"] = 1; seconds["min"] = 60; seconds["h"] = 3600 }
            sub(/^TimeoutStartUSec=/, "") {
                for (i = 1; i <= NF; i++) {
                    name = $i
                    sub(/^[0-9.]+/, "", name)
                    sum += name in seconds ? $i * seconds[name] : most
                }
                sum += 30
            }
            END { print int(sum < least ? least : sum > most ? most : sum) }'
}

beside=$(dirname "$wanted")
# Without "applied", "stopped" marks one whose FILE may have been written by a run that was cut off.
if { [ -e "$beside/applied" ] || [ ! -e "$beside/stopped" ]; } && ! cmp -s "$file" "$beside/applied" &&
    ! cmp -s "$file" "$beside/configuration" && ! cmp -s "$file" "$wanted"; then
    fail 3 "somebody else has changed $file meanwhile; nothing was stopped"
fi
# A "stop" of a unit that does not exist fails like one of a busy client, and could then be undone by no "start".
if ! output=$(timeout 20 systemctl cat -- "$unit" 2>&1 > /dev/null); then
    fail 3 "systemd has no unit $unit: $output; nothing was stopped"
fi
limit=$(($(uptime_s) + leave_s))
while held=$(holders) && [ -n "$held" ]; do
    [ "$(uptime_s)" -lt "$limit" ] || fail 3 "$mount is in use by: $held; end these processes; nothing was stopped"
    sleep 0.2
done
reasons=$(timeout 60 sh "$(dirname "$0")/kernel-ready.sh" "$mount" 2>&1) ||
    fail 3 "it cannot be found out whether $unit could be started again: $reasons; nothing was stopped"
[ -z "$reasons" ] || fail 3 "$(printf '%s' "$reasons" | tr '\n' ';'); nothing was stopped"
refuse_copies "nothing was stopped"
# Complete before anything is stopped, since the disk may be full; on the same disk, with the same owner, mode and
# extended attributes.
prepare() {
    rm -f -- "$new"
    [ ! -e "$real" ] || cp --preserve=all -- "$real" "$new" || return
    cat "$wanted" > "$new" && sync "$new"
}
if ! cmp -s "$wanted" "$file" && ! output=$(prepare 2>&1); then
    fail 3 "$file cannot be written: $output; nothing was stopped"
fi
start_s=$(allowed_s)
[ -e "$beside/stopped" ] || true > "$beside/stopped" || fail 3 "nothing can be written next to $wanted"
timeout 90 systemctl stop "$unit" 2> /dev/null
if mounted; then
    timeout 20 umount "$mount" 2> /dev/null
fi
if mounted; then
    fail 3 "$mount stays mounted, in use by: $(holders); end these processes, or reboot"
fi
if [ -n "$(module)" ]; then
    # One made meanwhile: the module's daemons must not be shut down while its files can still be used.
    refuse_copies "the client stays stopped until then"
    timeout 30 afsd -shutdown > /dev/null 2>&1
    timeout 20 rmmod "$(module)" 2> /dev/null
fi
if [ -n "$(module)" ]; then
    fail 3 "the kernel module $(module) stays loaded; only a reboot is safe now"
fi
# afsd would exit if it were to use fewer cache files than exist.
if ! output=$(wipe 2>&1); then
    # Better than no client. It starts with the options that it had, as long as there are as many files.
    timeout "$start_s" systemctl start "$unit" 2> /dev/null
    fail 3 "$cache cannot be wiped: $output; $unit was started again with the options in $file"
fi
# A timer, or another unit that needs this one, may have started it meanwhile.
if [ -n "$(module)" ] || mounted; then
    fail 3 "somebody else has started $unit while its cache was wiped; stop what starts it"
fi
cmp -s "$wanted" "$file" || output=$(mv -f -- "$new" "$real" 2>&1) || fail 3 "$file cannot be written: $output"
# A full or failed disk must not prevent the client from being restored.
cp "$wanted" "$beside/applied.new" 2> /dev/null && mv "$beside/applied.new" "$beside/applied"

if ! timeout "$start_s" systemctl start "$unit" 2> /dev/null || ! mounted; then
    output=$(journalctl --unit "$unit" --lines 3 --output cat --no-pager 2> /dev/null | tr '\n' ' ')
    timeout 90 systemctl stop "$unit" 2> /dev/null
    fail 4 "$unit does not start: $output"
fi
# Before the first access, since connections keep the encryption that they were created with.
if [ -n "$crypt" ]; then
    timeout 20 fs setcrypt "$crypt" > /dev/null || fail 4 "encryption cannot be set to $crypt"
fi
limit=$(($(uptime_s) + ready_s))
# A dangling symbolic link does not count: a mount point created through afsd.fuse looks like one here. "Permission
# denied" does count: the volume may require a token, and there is none at this time.
until output=$(LC_ALL=C timeout 20 stat -L -c %F -- "$probe" 2>&1); do
    case $output in *': Permission denied') break ;; esac
    [ "$(uptime_s)" -lt "$limit" ] || fail 4 "$unit does not serve $probe: $output"
    sleep 0.2
done
