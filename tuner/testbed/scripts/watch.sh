#!/bin/sh
# watch.sh start: from now on, put this host back when fstune has not been heard from for too long;
# until the host is given back. Needs nothing of fstune but the files here.
set -u
cd "$(dirname "$0")" || exit 1
if [ "${1:-}" = start ]; then
    # It outlives whoever starts it.
    exec setsid --fork sh watch.sh >> watch.log 2>&1 < /dev/null
fi
after_s=$(cat after_s)
pause_s=$((after_s < 100 ? 1 : 10))
tries=10

uptime_s() {
    cut -d. -f1 /proc/uptime
}

say() {
    printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"
}

# What is put back needs no journal any more.
put_back() {
    status=0
    for script in restore/*/restore.sh; do
        [ -f "$script" ] || continue
        if said=$(sh "$script" 2>&1); then
            say "$script: $said"
            rm -rf "${script%/restore.sh}"
        else
            say "$script failed: $said"
            status=1
        fi
    done
    return "$status"
}

# A later watch takes over from an earlier one.
echo $$ > watch.pid
while [ -d lease ] && [ "$(cat watch.pid)" = $$ ]; do
    sleep "$pause_s"
    heard=$(cat heartbeat 2> /dev/null) || continue
    [ $(($(uptime_s) - heard)) -ge "$after_s" ] || continue
    # Taken away at once: whoever held it finds out, and changes nothing any more.
    mv lease "lease.expired" 2> /dev/null || exit 0
    say "not heard from for $after_s s: putting this host back"
    until put_back; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || break
        sleep 30
    done
    rm -rf lease.expired
    exit "$status"
done
