#!/bin/sh
# watch.sh start: until the host is released, restore it when no heartbeat of fstune has arrived for too long.
# A host is released when nobody holds it and no journal is left. Needs nothing of fstune but the files here.
set -u
umask 077
cd "$(dirname "$0")" || exit 1
if [ "${1:-}" = start ]; then
    # It outlives the process that starts it. An unwritable log must not prevent a restore.
    log=watch.log
    true 2> /dev/null >> "$log" || log=/dev/null
    # Wait until it has recorded its process ID, that is until it has closed the pipe: otherwise a heartbeat that
    # follows at once finds no watch and starts a second one.
    : "$(setsid --fork sh watch.sh 3>&1 >> "$log" 2>&1 < /dev/null)"
    exit 0
fi
after_s=$(cat after_s)
pause_s=$((after_s < 100 ? 1 : 10))
tries=0

# The first line of a file, as $line; fails if there is no such file. What runs every few seconds starts no program.
first() {
    line=
    { { IFS= read -r line || :; } < "$1"; } 2> /dev/null
}

say() {
    printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"
}

open_journals() {
    set -- restore/*/restore.sh
    [ -e "$1" ]
}

is_latest() {
    first watch.pid && [ "$line" = $$ ]
}

# A later watch takes over from an earlier one.
echo $$ > watch.pid
exec 3>&-
owner=
# Not the wall clock, which may be adjusted at any time.
first /proc/uptime
heard=${line%%.*}
# The lease may be gone although the host is still changed: whoever took it over was killed before making a new one, or
# the host could not be restored by hand.
while is_latest && { [ -d lease ] || open_journals; }; do
    sleep "$pause_s"
    is_latest || exit 0
    if first lease/heartbeat; then
        # A damaged heartbeat counts as expired.
        case $line in '' | *[!0-9-]*) heard=-$after_s ;; *) heard=$line ;; esac
    fi
    ! first lease/owner || owner=$line
    first /proc/uptime
    [ $((${line%%.*} - heard)) -ge "$after_s" ] || continue
    # Take the lease away first, so that its holder notices and changes nothing any more. On a read-only disk
    # the lease stays, but its holder cannot record heartbeats either.
    if ! mv lease lease.expired 2> /dev/null && ! [ -d lease ]; then
        open_journals || exit 0
        # Whoever wants the host waits until this is done. An earlier watch may be at it: it will leave it to this one.
        if mkdir lease.expired 2> /dev/null; then
            echo "$owner" > lease.expired/owner
        elif first lease.expired/owner; then
            owner=$line
        fi
    fi
    say "no heartbeat for $after_s s: restoring this host"
    # Only while it still belongs to that owner: if somebody else has restored it meanwhile, a later campaign may hold it.
    until output=$(sh restore-all.sh "$(pwd)" ${owner:+"$owner"} 2>&1); do
        say "$output"
        # It never gives up: a process that uses the files, for instance, may end at any time.
        tries=$((tries + 1))
        pauses=$((tries < 10 ? 1 : 20))
        while [ "$pauses" -gt 0 ]; do
            sleep 30
            pauses=$((pauses - 1))
            # Somebody else has done it, or a later watch is there for a later lease.
            [ -d lease.expired ] || [ -d lease ] || exit 0
            ! first watch.pid || [ "$line" = $$ ] || exit 0
        done
    done
    say "${output:-nothing to restore}"
    rm -rf lease.expired
    exit 0
done
