#!/bin/sh
# Puts a fileserver's instance back to the command lines recorded beside this file (NUL-separated).
# Needs bos, and nothing of fstune but the files here. Prints what was done.
set -u
cd "$(dirname "$0")" || exit 1
address=$(cat address)
instance=$(cat instance)
port=7000
ready_s=60

uptime_s() {
    read -r up _ < /proc/uptime
    printf '%s' "${up%%.*}"
}

status() {
    bos status "$address" "$instance" -long -localauth 2>&1
}

# One that hangs is "running normally" too, so it is asked itself.
as_found() {
    said=$(status)
    case $said in *'currently running normally'*) ;; *) return 1 ;; esac
    now=$(printf '%s\n' "$said" | sed -n "s/^    Command [0-9]* is '\(.*\)'\$/\1/p")
    [ "$now" = "$(tr '\0' '\n' < commands)" ] || return 1
    timeout 4 rxdebug "$address" "$port" -version > /dev/null 2>&1
}

if as_found; then
    echo "left as found"
    exit 0
fi
# Cut off between delete and create, there is no instance to stop.
case $(status) in
    *'no such entity'*) ;;
    *)
        sh ./fileserver-stop.sh "$address" "$instance" || exit 1
        bos delete "$address" "$instance" -localauth || exit 1
        ;;
esac
xargs -0 bos create -server "$address" -instance "$instance" -type dafs -localauth -cmd < commands || exit 1
limit=$(($(uptime_s) + ready_s))
until as_found; do
    if [ "$(uptime_s)" -ge "$limit" ]; then
        echo "the fileserver does not come back within $ready_s s: $(status | head -n 1)" >&2
        exit 1
    fi
    sleep 0.1
done
echo "restarted as found"
