# fuse-find.sh NAME MOUNT, run after fuse-daemons.sh: finds the cache manager at MOUNT. Prints a line for each process
# called NAME: a keyword, its PID, and then
#   found    its command line in hexadecimal digits, and its executable
#   refused  why its executable must not be run by fstune
#   decoy    its user
# Then "mount" and the owner of the mount according to the kernel: "root", "other", or "none".
name=$1 mount=$2
whose=none
while read -r _ _ _ _ at rest; do
    [ "$at" = "$mount" ] || continue
    case $rest in
        *' - fuse'*user_id=0,*) whose=root ;;
        *' - fuse'*) whose=other ;;
    esac
done < /proc/self/mountinfo
for pid in $(pidof "$name"); do
    line=$(od -An -v -tx1 2> /dev/null < "/proc/$pid/cmdline" | tr -d ' \n')
    serves "$pid" "$mount" || continue
    if ! of_root "$pid"; then
        printf 'decoy %s %s\n' "$pid" "$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status" 2> /dev/null)"
        continue
    fi
    program=$(readlink "/proc/$pid/exe" | tr '\n' '?')
    program=${program%\?}
    if ! runs "$pid" "$name"; then
        printf 'refused %s its program is %s\n' "$pid" "$program"
    elif ! [ "$program" -ef "/proc/$pid/exe" ]; then
        printf 'refused %s its program %s is not what it was started from\n' "$pid" "$program"
    elif ! why=$(only_roots "$program"); then
        printf 'refused %s %s\n' "$pid" "$why"
    else
        printf 'found %s %s %s\n' "$pid" "$line" "$program"
    fi
done
printf 'mount %s\n' "$whose"
