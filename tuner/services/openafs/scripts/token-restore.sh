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
timeout 20 unlog > /dev/null 2>&1
# That there is no token is believed only of a whole list: not of one that hangs or cannot be asked for. Where no cache
# manager runs, there is none.
said=$(LC_ALL=C timeout 20 tokens 2>&1 < /dev/null)
case $said in
    *'okens for '* | *'token info for '*) gone= ;;
    *'Tokens held by the Cache Manager'*'--End of list--'*) gone=1 ;;
    *)
        findmnt --noheadings --types afs > /dev/null 2>&1
        [ $? = 1 ] && gone=1 || gone=
        ;;
esac
if [ -z "$gone" ]; then
    echo "the token cannot be destroyed: unlog; tokens says: $said" >&2
    exit 1
fi
echo "ticket and token of $(cat principal) destroyed"
exit 0
}
