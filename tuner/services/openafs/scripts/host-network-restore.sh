#!/bin/sh
# Restores the network limits of this host's kernel recorded in this directory (NUL-separated). Requires sysctl and the
# files in this directory, but nothing else of fstune. Prints what was done.
{ # The shell must read all of it before running anything, so that a truncated script does nothing.
set -u
cd "$(dirname "$0")" || exit 1
PATH=$PATH:/usr/sbin:/sbin
if [ "$(sha256sum found 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
done='' failed=''

# now NAME: the value in effect.
now() {
    cat "/proc/sys/$(printf '%s' "$1" | tr . /)"
}

# A failure must not prevent the others from being restored. Names and values have no spaces.
for setting in $(tr '\0' '\n' < found); do
    name=${setting%%=*} value=${setting#*=}
    [ "$(now "$name")" != "$value" ] || continue
    output=$(sysctl -w "$setting" 2>&1 < /dev/null)
    # Some versions of sysctl report success although they failed.
    if [ "$(now "$name")" = "$value" ]; then
        done="$done $setting"
    else
        failed="$failed sysctl -w $setting: ${output:-it printed nothing};"
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
