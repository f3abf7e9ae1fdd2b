#!/bin/sh
# heartbeat.sh HOLDER: records a heartbeat of fstune, and starts a watch for the next one if none is running.
# Exit status: 9 HOLDER no longer holds this host; 8 it does, but the host was rebooted since the last
# heartbeat; 1 it does, but nothing can be written.
set -u
umask 077
cd "$(dirname "$0")" || exit 1
boot=/proc/sys/kernel/random/boot_id

# The first line of a file, as $line; fails if there is no such file. It is read without starting a program, since a
# heartbeat precedes many a change.
first() {
    line=
    { { IFS= read -r line || :; } < "$1"; } 2> /dev/null
}

held() {
    first lease/owner && [ "$line" = "$1" ]
}

# The process ID may have been reused, and anybody may name a process watch.sh, but only we can be in this directory.
watched() {
    first watch.pid && [ -O "/proc/$line" ] && [ "/proc/$line/cwd" -ef . ] &&
        grep -qs 'watch\.sh' "/proc/$line/cmdline"
}

held "$1" || exit 9
new=lease/heartbeat.$$
first /proc/uptime
if ! { echo "${line%%.*}" > "$new" && mv "$new" lease/heartbeat; } 2> /dev/null; then
    # The write fails as a matter of course if the lease has just been taken away.
    held "$1" || exit 9
    # Programs say why they cannot write, the shell does not.
    { cut -d. -f1 /proc/uptime > "$new" && mv "$new" lease/heartbeat; } || exit 1
fi
status=0
first "$boot"
now=$line
first lease/boot
if [ "$line" != "$now" ]; then
    echo "$now" > lease/boot
    status=8
fi
watched || sh watch.sh start
exit "$status"
