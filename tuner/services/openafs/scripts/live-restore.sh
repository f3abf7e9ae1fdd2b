#!/bin/sh
# Sets on the running client what is recorded beside this file. Needs nothing of fstune but the files here. Prints
# what was done.
{ # Read whole before anything is done: half a script would do half of it.
set -u
cd "$(dirname "$0")" || exit 1
files='bypass_threshold crypt found precache store_behind'
# Names without spaces.
if [ "$(sha256sum $files 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
# A start loses all of this, and the client is still to be started as found: then it is set, not now.
if [ -e ../cache_manager/stopped ]; then
    echo "the client must be started as found first" >&2
    exit 1
fi
done=

# give COMMAND OPTION FILE: what the client never said is left alone.
give() {
    value=$(cat "$3")
    [ -n "$value" ] || return 0
    if ! said=$(timeout 20 fs "$1" "$2" "$value" 2>&1 < /dev/null); then
        echo "fs $1 $2 $value: $said" >&2
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
