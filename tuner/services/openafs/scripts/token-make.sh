#!/bin/sh
# token-make.sh TICKET CELL REALM KINIT-ARGUMENT...
#
# Obtains a ticket in the file TICKET by kinit with these arguments, and a token from it. CELL and REALM: those of the
# token, "" for those of the host. Every argument is data. Prints the output of klist for the ticket.
#
# With "-force", the token replaces an existing one, so that connections are recreated: existing connections keep the
# encryption that they were created with.
#
# Exit status: 3 no ticket was obtained; 4 no token; 5 the cache manager does not show it; the reason is on standard
# error.
set -u
# Where OpenAFS itself puts its programs.
PATH=$PATH:/usr/vice/etc:/usr/afs/bin:/usr/afsws/bin:/usr/afsws/etc
ticket=$1 cell=$2 realm=$3
shift 3
KRB5CCNAME=FILE:$ticket LC_ALL=C
export KRB5CCNAME LC_ALL
umask 077
# Retry for this long, since the network may be down temporarily.
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
until output=$(timeout 30 kinit "$@" 2>&1 < /dev/null); do
    [ "$(uptime_s)" -lt "$limit" ] || fail 3 "kinit: ${output:-no answer within 30 s}"
    sleep 1
done
limit=$(($(uptime_s) + again_s))
until output=$(timeout 30 aklog -force ${cell:+-c "$cell"} ${realm:+-k "$realm"} 2>&1 < /dev/null); do
    [ "$(uptime_s)" -lt "$limit" ] || fail 4 "aklog: ${output:-no answer within 30 s}"
    sleep 1
done
# A token of another cell does not count.
if [ -z "$cell" ]; then
    output=$(timeout 20 fs wscell 2>&1 < /dev/null)
    cell=$(printf '%s\n' "$output" | sed -n "s/^This workstation belongs to cell '\([^']*\)'.*/\1/p")
    [ -n "$cell" ] || fail 5 "fs wscell: $output"
fi
output=$(timeout 20 tokens 2>&1 < /dev/null)
printf '%s\n' "$output" | grep -v '>> Expired <<' | grep -qF -e "okens for $cell " -e "okens for afs@$cell " ||
    fail 5 "tokens: $output"
timeout 20 klist < /dev/null
exit 0
