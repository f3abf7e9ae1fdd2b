#!/bin/sh
# watch.sh start: from now on, put this host back when fstune has not been heard from for too long;
# until the host is given back. Needs nothing of fstune but the files here.
set -u
umask 077
cd "$(dirname "$0")" || exit 1
if [ "${1:-}" = start ]; then
    # It outlives whoever starts it. A log that cannot be written keeps nothing from being put back.
    log=watch.log
    true 2> /dev/null >> "$log" || log=/dev/null
    exec setsid --fork sh watch.sh >> "$log" 2>&1 < /dev/null
fi
after_s=$(cat after_s)
pause_s=$((after_s < 100 ? 1 : 10))
tries=10

# Never the clock, which may be set to anything at any time.
uptime_s() {
    cut -d. -f1 /proc/uptime
}

say() {
    printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"
}

# A later watch takes over from an earlier one.
echo $$ > watch.pid
while [ -d lease ] && [ "$(cat watch.pid)" = $$ ]; do
    sleep "$pause_s"
    heard=$(cat lease/heartbeat 2> /dev/null) || continue
    # By one that was damaged nobody can be heard.
    case $heard in '' | *[!0-9-]*) heard=-$after_s ;; esac
    [ $(($(uptime_s) - heard)) -ge "$after_s" ] || continue
    # Taken away at once: whoever held it finds out, and changes nothing any more. Where nothing can be
    # written it stays, and whoever holds it cannot show that it lives.
    owner=
    { IFS= read -r owner < lease/owner; } 2> /dev/null
    mv lease lease.expired 2> /dev/null || [ -d lease ] || exit 0
    say "not heard from for $after_s s: putting this host back"
    # Only for as long as that is whose it was: when somebody else has put it back meanwhile, a later campaign may hold it.
    until said=$(sh put-back.sh "$(pwd)" ${owner:+"$owner"} 2>&1); do
        say "$said"
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || exit 1
        sleep 30
        # Somebody else has taken that over.
        [ -d lease.expired ] || [ -d lease ] || exit 0
    done
    say "${said:-nothing to put back}"
    rm -rf lease.expired
    exit 0
done
