#!/bin/sh
# put-back.sh DIRECTORY [MARK]: puts this host back from every journal in DIRECTORY, and removes those that need not be
# kept any more. Prints a sentence for each. Exit status 1: one could not be put back, and stays. Needs nothing of
# fstune but the files there. Whoever holds this host holds it no longer; with MARK nothing is done when that is
# somebody else by then.
set -u
cd "$1" || exit 1
wait_s=900

# What lies here is run as whoever we are: nobody else may have had a hand in it.
strange=$(find . -maxdepth 3 \( -type l -o \( -type d -o -name '*.sh' -o -name sums \) \
    \( ! -user "$(id -u)" -o -perm /022 \) \) -print -quit) || exit 1
if [ -n "$strange" ]; then
    echo "$1/${strange#./} is not ours alone: nothing was done; look at who has changed it" >&2
    exit 1
fi

# Whoever comes second waits, and finds nothing left to do. The lock ends with whoever has it; it is the
# directory's own, since a disk that is full or takes nothing any more must not keep a host from being put back.
exec 9< . || exit 1
if ! flock --timeout "$wait_s" 9; then
    echo "somebody else has been putting this host back for $wait_s s" >&2
    exit 1
fi
if [ $# -gt 1 ]; then
    theirs=
    for holder in lease lease.expired; do
        owner=
        { IFS= read -r owner < "$holder/owner"; } 2> /dev/null
        [ "$owner" != "$2" ] || theirs=1
    done
    [ -n "$theirs" ] || exit 0
fi
# Where nothing can be written it stays, and whoever holds it cannot show that it lives.
rm -rf lease 2> /dev/null
# One may need what another puts back: as long as that helps, those that failed are tried again.
progress=1
while [ "$progress" = 1 ]; do
    progress=0 failed=
    for script in restore/*/restore.sh; do
        [ -f "$script" ] || continue
        part=${script%/restore.sh}
        # What it starts must not keep the lock. One that says nothing is empty, and did nothing.
        if said=$(sh "$script" 2>&1 < /dev/null 9<&-) && [ -n "$said" ]; then
            printf '%s %s\n' "${part#restore/}" "$said"
            rm -rf "$part" || failed="$failed $part: it cannot be removed."
            [ -e "$part" ] || progress=1
        else
            failed="$failed ${part#restore/}: ${said:-its script is empty}."
        fi
    done
    [ -n "$failed" ] || exit 0
done
printf '%s\n' "not put back:$failed" >&2
exit 1
