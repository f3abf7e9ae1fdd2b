#!/bin/sh
# Puts the cache manager back to the command line recorded beside this file (NUL-separated, as the
# kernel shows it). Needs nothing of fstune but the files here. Prints what was done.
set -u
cd "$(dirname "$0")" || exit 1
here=$(pwd)
mount=$(cat mount)
for pid in $(pidof "$(tr '\0' '\n' < command | head -n 1 | sed 's|.*/||')"); do
    if cmp -s "/proc/$pid/cmdline" command && timeout 20 stat -c %F -- "$(cat probe)" > /dev/null 2>&1; then
        echo "left as found"
        exit 0
    fi
done
xargs -0 sh "$here/fuse-remount.sh" "$mount" "$(cat cache)" "$(cat probe)" < command || exit 1
echo "mounted again as found"
