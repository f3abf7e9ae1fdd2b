#!/bin/sh
# token-make.sh TICKET CELL REALM KINIT-ARGUMENT...
#
# Gets a ticket into the file TICKET by kinit with these arguments, and makes a token of it. CELL and REALM: those of
# the token, "" for the host's own. Every argument is data. Prints what klist shows of the ticket.
#
# With "-force" a token takes the place of one that is there, so that connections are made anew by it: those that are
# there keep the encryption that they were made with.
#
# Exit status: 3 there is no ticket; 4 no token; 5 the cache manager does not show it; what is wrong is on standard
# error.
set -u
ticket=$1 cell=$2 realm=$3
shift 3
KRB5CCNAME=FILE:$ticket LC_ALL=C
export KRB5CCNAME LC_ALL
umask 077
# A network that is away for a moment.
again_s=20

fail() {
    status=$1
    shift
    printf '%s\n' "$*" >&2
    exit "$status"
}

uptime_s() {
    read -r up _ < /proc/uptime
    printf '%s' "${up%%.*}"
}

limit=$(($(uptime_s) + again_s))
until said=$(timeout 30 kinit "$@" 2>&1 < /dev/null); do
    [ "$(uptime_s)" -lt "$limit" ] || fail 3 "kinit: ${said:-no answer within 30 s}"
    sleep 1
done
limit=$(($(uptime_s) + again_s))
until said=$(timeout 30 aklog -force ${cell:+-c "$cell"} ${realm:+-k "$realm"} 2>&1 < /dev/null); do
    [ "$(uptime_s)" -lt "$limit" ] || fail 4 "aklog: ${said:-no answer within 30 s}"
    sleep 1
done
# Another cell's token is none.
if [ -z "$cell" ]; then
    said=$(timeout 20 fs wscell 2>&1 < /dev/null)
    cell=$(printf '%s\n' "$said" | sed -n "s/^This workstation belongs to cell '\([^']*\)'.*/\1/p")
    [ -n "$cell" ] || fail 5 "fs wscell: $said"
fi
said=$(timeout 20 tokens 2>&1 < /dev/null)
printf '%s\n' "$said" | grep -v '>> Expired <<' | grep -qF -e "okens for $cell " -e "okens for afs@$cell " ||
    fail 5 "tokens: $said"
timeout 20 klist < /dev/null
exit 0
