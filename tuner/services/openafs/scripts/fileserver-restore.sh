#!/bin/sh
# Restores a fileserver's instance to the command lines, and the notifier if any, recorded in this directory
# (NUL-separated).
# Requires bos and the files in this directory, but nothing else of fstune. Prints what was done.
{ # The shell must read all of it before running anything, so that a truncated script does nothing.
set -u
# Where OpenAFS itself puts its programs.
PATH=$PATH:/usr/vice/etc:/usr/afs/bin:/usr/afsws/bin:/usr/afsws/etc
cd "$(dirname "$0")" || exit 1
address=$(cat address)
instance=$(cat instance)
stop_s=$(cat stop_s)
port=7000
ready_s=60
start_s=30
create_s=30

uptime_s() {
    read -r up _ < /proc/uptime
    printf '%s' "${up%%.*}"
}

status() {
    bos status "$address" "$instance" -long -localauth 2>&1
}

# commands STATUS
commands() {
    printf '%s\n' "$1" | sed -n "s/^    Command [0-9]* is '\(.*\)'\$/\1/p"
}

# notifier STATUS
notifier() {
    printf '%s\n' "$1" | sed -n "s/^    Notifier  is '\(.*\)'\$/\1/p"
}

gone() {
    case $(status) in *'no such entity'*) ;; *) return 1 ;; esac
}

recorded() {
    tr '\0' '\n' < "$1"
}

as_recorded() {
    shown=$(status)
    [ "$(commands "$shown")" = "$(recorded commands)" ] && [ "$(notifier "$shown")" = "$(recorded notifier)" ]
}

# A hanging fileserver is "running normally" too, so query the fileserver itself.
as_found() {
    case $(status) in *'currently running normally'*) ;; *) return 1 ;; esac
    as_recorded || return 1
    timeout 4 rxdebug "$address" "$port" -version > /dev/null 2>&1
}

create() {
    program=$(recorded notifier)
    set -- ${program:+-notifier "$program"}
    xargs -0 bos create -server "$address" -instance "$instance" -type dafs -localauth "$@" -cmd < commands
}

# The entry of the instance in a BosConfig.
entry() {
    inside=
    while IFS= read -r line; do
        case $line in "bnode dafs $instance "*) inside=1 ;; esac
        [ -z "$inside" ] || printf '%s\n' "$line"
        [ "$line" != end ] || inside=
    done
}

# The entry that bosserver writes. One that is enabled temporarily is not started at the next start of bosserver.
recorded_entry() {
    case $(status) in *'temporarily enabled'*) goal=0 ;; *) goal=1 ;; esac
    program=$(recorded notifier)
    printf '%s\n' "bnode dafs $instance $goal${program:+ $program}"
    recorded commands | sed 's/^/parm /'
    echo end
}

# Whether the instance as recorded is on disk. It counts as such if there is no BosConfig in the usual places.
on_disk() {
    outdated=
    for file in /etc/openafs/BosConfig /usr/afs/local/BosConfig; do
        content=$(cat "$file" 2> /dev/null) || continue
        if [ "$(printf '%s\n' "$content" | entry)" = "$(recorded_entry)" ]; then
            sync "$file" "${file%/*}" 2> /dev/null || sync
            return 0
        fi
        outdated=${outdated:-$file}
    done
    [ -z "$outdated" ]
}

# bosserver ignores that it cannot write BosConfig, and goes on with what it has in memory. Setting the time of its
# checks for new binaries to what it is makes bosserver write the file, without a restart, and reports errors.
write_again() {
    when=$(bos getrestart "$address" -localauth | sed -n 's/.* restarts for new binaries \(at \)\{0,1\}//p')
    [ -z "$when" ] || bos setrestart "$address" "$when" -newbinary -localauth
}

# finish ACTION
finish() {
    if ! on_disk; then
        output=$(write_again 2>&1)
        if ! on_disk; then
            echo "$1$changed, but $outdated does not have these options (is the disk full or read-only?)," \
                "so a restart of bosserver would undo it: $output" >&2
            exit 1
        fi
    fi
    echo "$1$changed"
    exit 0
}

if [ "$(sha256sum address commands fileserver-stop.sh instance notifier stop_s 2>&1)" != "$(cat sums)" ]; then
    echo "the restore journal $(pwd) is damaged; nothing was done" >&2
    exit 1
fi
changed=
# The limits of this host at its start clamp the server's buffers, so restore them first. If that fails, the server is
# still restored.
if [ -e ../host_network/restore.sh ]; then
    output=$(sh ../host_network/restore.sh 2>&1)
    [ "$output" = "left as found" ] || changed="; network limits: $output"
fi

# await_as_found SECONDS
await_as_found() {
    limit=$(($(uptime_s) + $1))
    until as_found; do
        [ "$(uptime_s)" -lt "$limit" ] || return 1
        sleep 0.1
    done
}

# cut LIMIT: the originally requested buffer size, clamped to LIMIT.
cut() {
    if [ "$asked" -lt "$1" ]; then echo "$asked"; else echo "$1"; fi
}

# Whether the limits clamped the buffers of the running server at its start as they would now.
buffers_as_found() {
    [ -s buffers ] || return 0
    asked=$(recorded buffers | sed -n 1p)
    [ "$(cut "$(recorded buffers | sed -n 2p)")" = "$(cut "$(cat /proc/sys/net/core/rmem_max)")" ] &&
        [ "$(cut "$(recorded buffers | sed -n 3p)")" = "$(cut "$(cat /proc/sys/net/core/wmem_max)")" ]
}

if as_found && buffers_as_found; then
    finish "left as found"
fi
# After an interruption between delete and create, there is no instance to stop.
if ! gone; then
    shown=$(status)
    now=$(commands "$shown") # nothing while bosserver is away
    program=$(notifier "$shown")
    if [ -n "$now" ] && { [ "$program" != "$(recorded notifier)" ] || { [ "$now" != "$(recorded commands)" ] &&
        [ -e wanted ] && [ "$now" != "$(recorded wanted)" ]; }; }; then
        changed="$changed; somebody else had created it: $(printf '%s\n' "$now" | tr '\n' ';')"
        changed="$changed notifier: ${program:-none};"
    fi
    # If bosserver crashes meanwhile and is restarted, it runs the instance again, so retry. Its answers may be lost.
    for left in 2 1 0; do
        sh ./fileserver-stop.sh "$address" "$instance" "$stop_s" || { gone && break; exit 1; }
        # In restricted mode bosserver refuses to delete and create an instance, but not to start it.
        if [ "$left" = 2 ] && as_recorded && bos start "$address" "$instance" -localauth > /dev/null 2>&1; then
            if await_as_found "$start_s"; then
                finish "restarted as found"
            fi
            sh ./fileserver-stop.sh "$address" "$instance" "$stop_s" || exit 1
        fi
        output=$(bos delete "$address" "$instance" -localauth 2>&1) && break
        gone && break
        [ "$left" != 0 ] || { printf '%s\n' "$output" >&2; exit 1; }
        sleep 1
    done
fi
limit=$(($(uptime_s) + create_s))
until output=$(create 2>&1) || as_recorded; do
    [ "$(uptime_s)" -lt "$limit" ] || { printf '%s\n' "$output" >&2; exit 1; }
    sleep 1
done
if ! await_as_found "$ready_s"; then
    echo "the fileserver does not come back within $ready_s s: $(status | head -n 1)" >&2
    exit 1
fi
finish "restarted as found"
}
