#!/bin/sh
# heartbeat.sh OWNER: notes that fstune was heard from just now. Exit status 9: OWNER does not hold
# this host any more.
set -u
cd "$(dirname "$0")" || exit 1
[ "$(cat lease/owner 2> /dev/null)" = "$1" ] || exit 9
cut -d. -f1 /proc/uptime > heartbeat.new && mv heartbeat.new heartbeat
