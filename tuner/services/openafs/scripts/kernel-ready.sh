#!/bin/sh
# kernel-ready.sh MOUNT
#
# Prints why the kernel client at MOUNT could not be stopped and started again, one reason per line; nothing if it
# could. What a program complains about counts as a reason. Changes nothing.
set -u
mount=$1
exec 2>&1
# Without lsmod, the module would not be seen.
PATH=$PATH:/usr/sbin:/sbin
# A second mount would keep the module loaded, and then only a reboot would be safe.
if others=$(findmnt --noheadings --list --types afs --output TARGET | grep -Fxv -- "$mount"); then
    echo "$mount is also mounted at $(printf '%s' "$others" | tr '\n' ' '); unmount that"
fi
# The module that is loaded may have been removed from the disk, as by an update of the kernel that waits for a reboot.
if lsmod | grep -q '^openafs ' && command -v modinfo > /dev/null && ! output=$(modinfo openafs 2>&1 > /dev/null); then
    output=$(printf '%s' "$output" | tr '\n' ' ')
    echo "the kernel module could not be loaded again: $output; install it for kernel $(uname -r), or reboot"
fi
