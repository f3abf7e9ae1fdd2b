#!/bin/sh
# Puts a fileserver's instance back to the command lines recorded beside this file (NUL-separated).
# Needs bos, and nothing of fstune but the files here. Prints what was done.
set -u
cd "$(dirname "$0")" || exit 1
address=$(cat address)
instance=$(cat instance)
ready_s=60
stop_s=120

status() {
    bos status "$address" "$instance" -long -localauth 2>&1
}

as_found() {
    said=$(status)
    case $said in *'currently running normally'*) ;; *) return 1 ;; esac
    now=$(printf '%s\n' "$said" | sed -n "s/^    Command [0-9]* is '\(.*\)'\$/\1/p")
    [ "$now" = "$(tr '\0' '\n' < commands)" ]
}

# One that hangs is not ended by bosserver, for half an hour; nor is it started again meanwhile.
end_hanging() {
    program=$(status | sed -n "s/^    Command 1 is '\([^ ']*\).*/\1/p")
    pids=$(pidof "$program")
    # The list is numbers.
    [ -n "$pids" ] && kill -KILL $pids
    timeout "$stop_s" bos stop "$address" "$instance" -localauth -wait
}

if as_found; then
    echo "left as found"
    exit 0
fi
# Cut off between delete and create, there is no instance to stop.
case $(status) in
    *'no such entity'*) ;;
    *)
        timeout "$stop_s" bos stop "$address" "$instance" -localauth -wait || end_hanging || exit 1
        bos delete "$address" "$instance" -localauth || exit 1
        ;;
esac
xargs -0 bos create -server "$address" -instance "$instance" -type dafs -localauth -cmd < commands || exit 1
tries=0
until as_found; do
    tries=$((tries + 1))
    if [ "$tries" -gt $((ready_s * 10)) ]; then
        echo "the fileserver does not come back within $ready_s s: $(status | head -n 1)" >&2
        exit 1
    fi
    sleep 0.1
done
echo "restarted as found"
