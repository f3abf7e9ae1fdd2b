#!/bin/sh
# Restores the client's configuration file recorded in this directory, and restarts the client with it.
# Requires nothing of fstune but the files in this directory. Prints what was done.
{ # The shell must read all of it before running anything, so that a truncated script does nothing.
set -u
cd "$(dirname "$0")" || exit 1
files='cache configuration crypt found kernel-copies.sh kernel-ready.sh kernel-remount.sh mount path probe unit'
# Names have no spaces.
if [ "$(sha256sum $files 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
path=$(cat path)
# The file itself, where the path is that of a symbolic link.
real=$(readlink -f -- "$path")
new=$real.fstune-new
rm -f -- "$new" # of a run that was cut off
if [ ! -e stopped ]; then
    echo "left as found"
    exit 0
fi
kept=
if ! cmp -s "$path" configuration && ! cmp -s "$path" wanted && ! cmp -s "$path" applied; then
    # Somebody else has changed it: the original is still restored, and their version is saved if that can be done.
    kept=$(dirname "$(pwd)")/${path##*/}.changed-$(date -u +%Y%m%dT%H%M%SZ)
    if [ ! -e "$path" ]; then
        kept="; somebody else had removed $path"
    elif problem=$(cp --preserve "$path" "$kept" 2>&1); then
        kept="; somebody else had changed $path: kept as $kept"
    else
        rm -f "$kept" # it may have a part of it only
        kept="; somebody else had changed $path, which could not be kept: $problem"
    fi
fi
# Complete before it replaces the file, since the disk may be full; on the same disk, with the same owner, mode and
# extended attributes.
replace() {
    [ ! -e "$real" ] || cp --preserve=all -- "$real" "$new" || return
    cat configuration > "$new" && sync "$new" && mv -f -- "$new" "$real"
}
# First, so that it applies after a reboot if the client does not stop.
if ! cmp -s "$path" configuration && ! problem=$(replace 2>&1); then
    rm -f -- "$new"
    echo "$path cannot be written: $problem; nothing was stopped$kept" >&2
    exit 1
fi
sh ./kernel-remount.sh "$(cat unit)" "$(cat mount)" "$(cat cache)" "$(cat probe)" "$path" \
    ./configuration "$(cat crypt)" || exit 1
rm -f stopped
echo "started again as found$kept"
exit 0
}
