#!/bin/sh
# heartbeat.sh HOLDER: notes that fstune was heard from just now, and sees to it that there is a watch that waits
# for the next time. Exit status: 9 HOLDER does not hold this host any more; 8 it does, but the host was
# started anew since the last time; 1 it does, but nothing can be written.
set -u
umask 077
cd "$(dirname "$0")" || exit 1
boot=/proc/sys/kernel/random/boot_id

held() {
    [ "$(cat lease/owner 2> /dev/null)" = "$1" ]
}

# By its command line too: its number may have gone to another process.
watched() {
    { tr '\0' ' ' < "/proc/$(cat watch.pid)/cmdline" | grep -q 'watch\.sh'; } 2> /dev/null
}

held "$1" || exit 9
new=lease/heartbeat.$$
if ! { cut -d. -f1 /proc/uptime > "$new" && mv "$new" lease/heartbeat; }; then
    # Taken away in this moment, that is no wonder.
    held "$1" || exit 9
    exit 1
fi
status=0
if [ "$(cat lease/boot)" != "$(cat "$boot")" ]; then
    cat "$boot" > lease/boot
    status=8
fi
watched || sh watch.sh start
exit "$status"
