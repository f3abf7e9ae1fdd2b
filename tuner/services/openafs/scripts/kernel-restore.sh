#!/bin/sh
# Puts the client's configuration file back as recorded beside this one, and starts the client with it.
# Needs nothing of fstune but the files here. Prints what was done.
{ # Read whole before anything is done: half a script would do half of it.
set -u
cd "$(dirname "$0")" || exit 1
files='cache configuration crypt found kernel-remount.sh mount path probe unit'
# Names without spaces.
if [ "$(sha256sum $files 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
if [ ! -e stopped ]; then
    echo "left as found"
    exit 0
fi
path=$(cat path)
kept=
if ! cmp -s "$path" configuration && ! cmp -s "$path" wanted && ! cmp -s "$path" applied; then
    # Somebody else's work: what was found comes back all the same, and theirs is not lost.
    kept=$(dirname "$(pwd)")/${path##*/}.changed-$(date -u +%Y%m%dT%H%M%SZ)
    cp --preserve "$path" "$kept" || exit 1
    kept="; somebody else had changed $path: kept as $kept"
fi
# At once, so that it counts after a reboot should the client not end; in place: owner and mode stay.
cmp -s "$path" configuration || cat configuration > "$path" || exit 1
sh ./kernel-remount.sh "$(cat unit)" "$(cat mount)" "$(cat cache)" "$(cat probe)" "$path" \
    ./configuration "$(cat crypt)" || exit 1
rm -f stopped
echo "started again as found$kept"
exit 0
}
