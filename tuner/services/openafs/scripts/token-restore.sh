#!/bin/sh
# Destroys the ticket and the token that were made from the keytab. Needs nothing of fstune but the files here.
# Prints what was done.
{ # Read whole before anything is done: half a script would do half of it.
set -u
cd "$(dirname "$0")" || exit 1
files='principal token-make.sh'
# Names without spaces.
if [ "$(sha256sum $files 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
[ ! -e ticket ] || timeout 20 kdestroy -q -c "FILE:$(pwd)/ticket" > /dev/null 2>&1 || rm -f ticket || exit 1
# Where no cache manager runs, there is no token; a restart has lost it too.
timeout 20 unlog > /dev/null 2>&1
if timeout 20 tokens 2> /dev/null | grep -q '[Tt]okens for '; then
    echo "the token cannot be destroyed: unlog" >&2
    exit 1
fi
echo "ticket and token of $(cat principal) destroyed"
exit 0
}
