#!/bin/sh
# Restores the cache manager to the command line recorded in this directory (NUL-separated, as the
# kernel shows it). Requires nothing of fstune but the files in this directory. Prints what was done.
{ # The shell must read all of it before running anything, so that a truncated script does nothing.
set -u
cd "$(dirname "$0")" || exit 1
here=$(pwd)
if [ "$(sha256sum cache command fuse-daemons.sh fuse-remount.sh mount probe program 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $here is damaged; nothing was done" >&2
    exit 1
fi
mount=$(cat mount) program=$(cat program)
name=${program##*/}
. ./fuse-daemons.sh

options() {
    { tail -z -n +2 | sha256sum; } 2> /dev/null
}

# Whether exactly one daemon of root runs, with the original program and options, and works. Prints the reason if not.
as_found() {
    pids=$(daemons "$name" "$mount")
    case $pids in
        '') echo "no $name of root serves $mount" && return 1 ;;
        *[!0-9]*) echo "more than one $name of root serves $mount: $(echo $pids)" && return 1 ;;
    esac
    if ! [ "$program" -ef "/proc/$pids/exe" ]; then
        echo "$name runs another program than $program" && return 1
    fi
    if [ "$(options < "/proc/$pids/cmdline")" != "$(options < command)" ]; then
        echo "$name runs with other options" && return 1
    fi
    timeout 20 stat -c %F -- "$(cat probe)" > /dev/null 2>&1 || { echo "$name does not answer" && return 1; }
}

if as_found > /dev/null; then
    echo "left as found"
    exit 0
fi
if ! why=$(only_roots "$program"); then
    echo "$program must not be run: $why" >&2
    exit 1
fi
tail -z -n +2 command | xargs -0 sh "$here/fuse-remount.sh" \
    "$mount" "$(cat cache)" "$(cat probe)" "$program" || exit 1
if ! why=$(as_found); then
    echo "$why" >&2
    exit 1
fi
echo "mounted again as found"
exit 0
}
