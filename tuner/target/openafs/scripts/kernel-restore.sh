#!/bin/sh
# Puts the client's configuration file back as recorded beside this one, and starts the client with it.
# Needs nothing of fstune but the files here. Prints what was done.
set -u
cd "$(dirname "$0")" || exit 1
if [ ! -e stopped ]; then
    echo "left as found"
    exit 0
fi
# At once, so that it counts after a reboot should the client not end; in place: owner and mode stay.
cat configuration > "$(cat path)" || exit 1
sh ./kernel-remount.sh "$(cat unit)" "$(cat mount)" "$(cat cache)" "$(cat probe)" "$(cat path)" \
    ./configuration "$(cat crypt)" || exit 1
echo "started again as found"
