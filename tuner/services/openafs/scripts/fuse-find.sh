# fuse-find.sh NAME MOUNT, after fuse-daemons.sh: looks for the cache manager at MOUNT. A line for each process that is
# called NAME: what it is, its number, and then
#   found    its program, and its command line in hexadecimal digits
#   refused  why the program that it runs must not be run by us
#   decoy    the user that it is of
# Then "mount", and whose it is by the kernel: "root", "other", or "none".
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
    program=$(readlink "/proc/$pid/exe")
    if ! [ "$program" -ef "/proc/$pid/exe" ]; then
        printf 'refused %s its program %s is not what it was started from\n' "$pid" "$program"
    elif ! why=$(only_roots "$program"); then
        printf 'refused %s %s\n' "$pid" "$why"
    else
        printf 'found %s %s %s\n' "$pid" "$line" "$program"
    fi
done
printf 'mount %s\n' "$whose"
