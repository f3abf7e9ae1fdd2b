#!/bin/sh
# Destroys the ticket and the token that were obtained with the keytab; tokens of other cells stay. Requires nothing of
# fstune but the files in this directory. Prints what was done.
{ # The shell must read all of it before running anything, so that a truncated script does nothing.
set -u
# Where OpenAFS itself puts its programs.
PATH=$PATH:/usr/vice/etc:/usr/afs/bin:/usr/afsws/bin:/usr/afsws/etc
cd "$(dirname "$0")" || exit 1
files='cell principal token-make.sh'
# Names have no spaces.
if [ "$(sha256sum $files 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
[ ! -e ticket ] || timeout 20 kdestroy -q -c "FILE:$(pwd)/ticket" > /dev/null 2>&1 || rm -f ticket || exit 1
cell=$(cat cell)
timeout 20 unlog -cell "$cell" > /dev/null 2>&1
# Only a complete list without the token proves that it is gone, not a command that hangs or fails. Without a cache
# manager, there are no tokens.
output=$(LC_ALL=C timeout 20 tokens 2>&1 < /dev/null)
case $output in
    *"okens for $cell "* | *"okens for afs@$cell "* | *"token info for cell $cell "*) gone= ;;
    *'Tokens held by the Cache Manager'*'--End of list--'*) gone=1 ;;
    *)
        # Without --list, its status is 0 without a mount, too.
        findmnt --noheadings --list --types afs > /dev/null 2>&1
        [ $? = 1 ] && gone=1 || gone=
        ;;
esac
if [ -z "$gone" ]; then
    echo "the token cannot be destroyed with unlog; output of tokens: $output" >&2
    exit 1
fi
echo "ticket and token of $(cat principal) destroyed"
exit 0
}
