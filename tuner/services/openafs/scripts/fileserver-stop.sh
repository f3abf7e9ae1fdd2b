#!/bin/sh
# fileserver-stop.sh ADDRESS INSTANCE SECONDS
#
# Stops a fileserver's instance. bosserver waits half an hour for a hanging fileserver, and starts none meanwhile.
# So a fileserver is killed when it does not answer, or does not stop within SECONDS. If bosserver has crashed, the
# script waits for it, since whatever started it may restart it. All arguments are data.
#
# Exit status: 0 it is stopped; 1 bos failed and its message was printed; 3 it cannot be killed.
set -uf
# Where OpenAFS itself puts its programs.
PATH=$PATH:/usr/vice/etc:/usr/afs/bin:/usr/afsws/bin:/usr/afsws/etc
address=$1 instance=$2 stop_s=$3
port=7000
look_s=5
away_s=30
die_s=30

uptime_s() {
    read -r up _ < /proc/uptime
    printf '%s' "${up%%.*}"
}

past() {
    [ "$(uptime_s)" -ge "$1" ]
}

answers() {
    for _ in 1 2 3; do
        timeout 4 rxdebug "$address" "$port" -version > /dev/null 2>&1 && return 0
    done
    return 1
}

# Identified by the complete command line in bosserver, so that no other program is killed. If the program is a
# script, its interpreter comes first.
fileservers() {
    output=$(bos status "$address" "$instance" -long -localauth)
    # Unquoted: split at spaces, as bosserver does.
    set -- $(printf '%s\n' "$output" | sed -n "s/^    Command 1 is '\(.*\)'\$/\1/p")
    [ $# -gt 0 ] || return
    for pid in $(pidof -x "$1"); do
        given=$({ tr '\0' ' ' < "/proc/$pid/cmdline"; } 2> /dev/null)
        case $given in "$* " | *" $* ") printf '%s\n' "$pid" ;; esac
    done
}

began=$(uptime_s)
until output=$(timeout "$look_s" bos shutdown "$address" "$instance" -localauth -wait 2>&1); do
    if [ $? != 124 ]; then
        case $output in *'communications failure'*) past $((began + away_s)) || { sleep 1; continue; } ;; esac
        printf '%s\n' "$output" >&2
        exit 1
    fi
    past $((began + stop_s)) || ! answers || continue
    if past $((began + stop_s + die_s)); then
        echo "the fileserver of $instance does not die; the kernel holds it" >&2
        exit 3
    fi
    pids=$(fileservers)
    # Unquoted: a list of PIDs.
    [ -z "$pids" ] || kill -KILL $pids
done
