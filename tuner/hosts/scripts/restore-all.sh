#!/bin/sh
# restore-all.sh DIRECTORY [MARK]: restores this host from every journal in DIRECTORY and removes the journals that are
# done with. Prints a sentence for each. Exit status 1: a journal could not be restored, and stays. Needs nothing of
# fstune but the files there. Ends the current lease; with MARK, does nothing if the lease belongs to somebody else
# by then.
set -u
cd "$1" || exit 1
wait_s=900

# The scripts here run with our privileges: nobody else may have been able to change them.
strange=$(find . -maxdepth 3 \( -type l -o \( -type d -o -name '*.sh' -o -name sums \) \
    \( ! -user "$(id -u)" -o -perm /022 \) \) -print -quit) || exit 1
if [ -n "$strange" ]; then
    echo "$1/${strange#./} is not ours alone: nothing was done; find out who has changed it" >&2
    exit 1
fi

# A second restore waits, and then finds nothing left to do. The lock is released when its holder exits; it is on the
# directory itself, since a full or read-only disk must not prevent a host from being restored.
exec 9< . || exit 1
if ! flock --timeout "$wait_s" 9; then
    echo "somebody else has been restoring this host for $wait_s s" >&2
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
# On a read-only disk the lease stays, but its holder cannot record heartbeats either.
rm -rf lease 2> /dev/null
# A journal may depend on what another restores: retry the failed ones as long as there is progress.
progress=1
while [ "$progress" = 1 ]; do
    progress=0 failed=
    for script in restore/*/restore.sh; do
        [ -f "$script" ] || continue
        part=${script%/restore.sh}
        # Processes that it starts must not keep the lock. A script without output is empty and did nothing.
        if output=$(sh "$script" 2>&1 < /dev/null 9<&-) && [ -n "$output" ]; then
            printf '%s %s\n' "${part#restore/}" "$output"
            # All at once, under a name that is no journal's: with a part of it only, it would count as damaged.
            aside=restore/.${part#restore/}.new
            rm -rf "$aside"
            mv -T "$part" "$aside" 2> /dev/null
            rm -rf "$part" "$aside" || failed="$failed $part: it cannot be removed."
            [ -e "$part" ] || progress=1
        else
            failed="$failed ${part#restore/}: ${output:-its script is empty}."
        fi
    done
    [ -n "$failed" ] || exit 0
done
printf '%s\n' "not restored:$failed" >&2
exit 1
