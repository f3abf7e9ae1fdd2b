#!/bin/sh
# Restores the runtime settings of the client recorded in this directory. Requires nothing of fstune but the files in
# this directory. Prints what was done.
{ # The shell must read all of it before running anything, so that a truncated script does nothing.
set -u
# Where OpenAFS itself puts its programs.
PATH=$PATH:/usr/vice/etc:/usr/afs/bin:/usr/afsws/bin:/usr/afsws/etc
cd "$(dirname "$0")" || exit 1
files='bypass_threshold crypt found precache store_behind'
# Names have no spaces.
if [ "$(sha256sum $files 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
# A restart loses these settings, and the client has yet to be restarted: they must be set after that.
if [ -e ../cache_manager/stopped ]; then
    echo "the client must be started as found first" >&2
    exit 1
fi
done=

# give COMMAND OPTION FILE: a setting that the client never reported is not changed.
give() {
    value=$(cat "$3")
    [ -n "$value" ] || return 0
    if ! output=$(timeout 20 fs "$1" "$2" "$value" 2>&1 < /dev/null); then
        echo "fs $1 $2 $value: $output" >&2
        exit 1
    fi
    done="$done $1 $value"
}

give setcrypt -crypt crypt
give storebehind -allfiles store_behind
give precache -blocks precache
give bypassthreshold -size bypass_threshold
echo "set again as found:$done"
exit 0
}
