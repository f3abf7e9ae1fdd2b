#!/bin/sh
# heartbeat.sh HOLDER: records a heartbeat of fstune, and starts a watch for the next one if none is running.
# Exit status: 9 HOLDER no longer holds this host; 8 it does, but the host was rebooted since the last
# heartbeat; 1 it does, but nothing can be written.
set -u
umask 077
cd "$(dirname "$0")" || exit 1
boot=/proc/sys/kernel/random/boot_id

held() {
    [ "$(cat lease/owner 2> /dev/null)" = "$1" ]
}

# Checks the command line too: the process ID may have been reused.
watched() {
    { tr '\0' ' ' < "/proc/$(cat watch.pid)/cmdline" | grep -q 'watch\.sh'; } 2> /dev/null
}

held "$1" || exit 9
new=lease/heartbeat.$$
if ! { cut -d. -f1 /proc/uptime > "$new" && mv "$new" lease/heartbeat; }; then
    # The write fails as a matter of course if the lease has just been taken away.
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
