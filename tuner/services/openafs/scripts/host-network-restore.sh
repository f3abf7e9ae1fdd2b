#!/bin/sh
# Sets the network limits of this host's kernel to what is recorded beside this file (NUL-separated). Needs sysctl, and
# nothing of fstune but the files here. Prints what was done.
{ # Read whole before anything is done: half a script would do half of it.
set -u
cd "$(dirname "$0")" || exit 1
PATH=$PATH:/usr/sbin:/sbin
if [ "$(sha256sum found 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
done='' failed=''

# now NAME: what is in effect.
now() {
    cat "/proc/sys/$(printf '%s' "$1" | tr . /)"
}

# One that cannot be put back must not keep the others from it. Names and values without spaces.
for setting in $(tr '\0' '\n' < found); do
    name=${setting%%=*} value=${setting#*=}
    [ "$(now "$name")" != "$value" ] || continue
    said=$(sysctl -w "$setting" 2>&1 < /dev/null)
    # Some versions of sysctl fail and say that all went well.
    if [ "$(now "$name")" = "$value" ]; then
        done="$done $setting"
    else
        failed="$failed sysctl -w $setting: ${said:-it said nothing};"
    fi
done
if [ -n "$failed" ]; then
    echo "the network limits are not as found:$failed" >&2
    exit 1
fi
if [ -n "$done" ]; then
    echo "set again as found:$done"
else
    echo "left as found"
fi
exit 0
}
