"""Our own shell programs inside containers. They need /bin/sh and `sleep`; RUN_SCRIPT also tar, cat and rm.

Everything else is done with what every shell has built in, for small images have neither kill nor ps.
"""

from __future__ import annotations

SHELL = "/bin/sh"

# The number of processes that the memory limit has killed so far, as a line on stdout, by control group
# version 2 or 1. The files are on read-only mounts: nothing inside can change them.
_MEMORY_KILLS = """\
memory_kills() {
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r key count; do
      [ "$key" = oom_kill ] && kills=$count
    done <"$file"
  done
}
kills=0
memory_kills
"""

MEMORY_KILLS = _MEMORY_KILLS + 'echo "$kills"\n'


# Runs the arguments to their end and says so on both streams, for one may arrive long after the other;
# then nothing is left that would write.
PROLOGUE = """\
("$@") </dev/null
status=$?
printf '\\n%s %s\\n' "$0" "$status"
printf '\\n%s %s\\n' "$0" "$status" >&2
exec </dev/null >/dev/null 2>&1
"""


def idle(ttl_s: float) -> str:
    """The first process of a sandbox: waits, reaps, outlives `kill -9 -1`, ends after `ttl_s` seconds.

    The time is read anew after each sleep, which anybody may end early. `command eval` keeps the shell
    alive when it cannot fork, which happens right after a fork bomb has been ended; without `sleep`
    (126, 127) it ends rather than spin. USR1 makes it end everything else without any fork.
    """
    return f"""\
trap 'kill -9 -1' USR1
read -r now rest </proc/uptime
end=$((${{now%%.*}} + {_whole(ttl_s)}))
while read -r now rest </proc/uptime; do
  left=$((end - ${{now%%.*}}))
  [ "$left" -gt 0 ] || exit 0
  command eval 'sleep "$left" & wait "$!"'
  case $? in 126|127) exit 1 ;; esac
done
"""


# Ends every process but the first and itself, and proves it. The kernel lets no fork slip through a
# signal to all processes, so after the first round each process is either dying or was started by the
# first process (its next sleep) or by the engine; the second round ends those too. Whatever was seen in
# between must go: status 0 says that it went.
END_PROCESSES = """\
kill -9 -1
seen=
for entry in /proc/[0-9]*; do
  case $entry in /proc/1|/proc/$$) ;; *) seen="$seen $entry" ;; esac
done
kill -9 -1
read -r now rest </proc/uptime
end=$((${now%.*} + 5))
for entry in $seen; do
  while [ -d "$entry" ]; do
    read -r now rest </proc/uptime
    [ "${now%.*}" -le "$end" ] || exit 1
  done
done
"""

# Writes the regular file whose `escaped` path is the argument to stdout.
READ_FILE = """\
path=$(printf '%b.' "$1")
path=${path%.}
[ -f "$path" ] || { echo "no such regular file" >&2; exit 1; }
exec cat <"$path"
"""


def escaped(path: str) -> str:
    """The path in ASCII for printf's %b: the engine's interface replaces bytes that are not UTF-8."""
    return "".join(f"\\0{byte:03o}" for byte in path.encode("utf-8", "surrogateescape"))


# The folder that RUN_SCRIPT unpacks to, and the member that holds nonce and script.
FOLDER = "swe-pytest"
BEGIN = ".begin"
UNPACK_FAILED = 125


def run_script(ttl_s: float) -> str:
    """The first process of a script run: unpack a tar from stdin, run the script in it, say how it ended.

    The script and the nonce of the closing word come by the tar and are kept in this shell's memory:
    other processes could read them in an argument, an environment or a file. The script runs in a
    subshell in the foreground, as a background one would ignore interrupts in all its tests.
    The closing word goes to stderr when the script has ended: nonce, status, processes killed for memory.
    """
    return f"""\
closing=$(tar -xpf - -C / && cd /{FOLDER} && cat {BEGIN} && rm -f {BEGIN}) || exit {UNPACK_FAILED}
script=${{closing#*
}}
closing=${{closing%%
*}}
(sleep {_whole(ttl_s)}; kill -9 -1) </dev/null >/dev/null 2>&1 &
(eval "unset closing script
$script") </dev/null
status=$?
{_MEMORY_KILLS}
printf '\\n%s %s %s\\n' "$closing" "$status" "$kills" >&2
exit "$status"
"""


def _whole(seconds: float) -> int:
    return max(1, round(seconds))
