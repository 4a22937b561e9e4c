# verify.sh WORKDIR BASE START: grade a patch in a fresh container. The first process runs this.
#
# stdout is the log of the evaluation script and nothing else. stderr is the control channel: a line that
# begins with the nonce is a record, any other is a remark on the record before it. The nonce comes in a
# file that is gone before code of the candidate runs; then only this process knows it.
#
# Files beside this one: nonce, ladder (the official commands, one a line), patch.diff, test.diff, eval.sh,
# and lists of paths, each ended by NUL: touched (by the patch), tests, restore.
{
files=/swe-pytest
read -r swe_pytest_nonce <$files/nonce
exec 3>&2

say() {
    printf '%s %s\n' "$swe_pytest_nonce" "$*" >&3
}

stop() { # whatever this says is nobody's fault but ours or the image's
    say "fault $*"
    exit 0
}

# put_back TREE LIST: make the paths of LIST what they are in TREE, or nothing where TREE has none. What
# stands in the way (a link or a file for a directory, a directory for a file) goes.
put_back() {
    [ -s "$2" ] || return 0
    xargs -0 sh -c '
        for path do
            way= rest=$path
            while [ "$rest" != "${rest#*/}" ]; do
                way=$way${rest%%/*} rest=${rest#*/}
                if [ -L "$way" ] || { [ -e "$way" ] && [ ! -d "$way" ]; }; then
                    rm -f -- "$way"
                fi
                way=$way/
            done
        done
        rm -rf -- "$@"' sh <"$2"
    (
        index=$private/put-back
        rm -f "$index"
        # Its status also tells of paths that TREE has not; only what it says are errors.
        own read-tree "$1" && own checkout-index -f -q -z --stdin <"$2" 2>"$private/said"
        if [ -s "$private/said" ]; then cat "$private/said" >&2 && false; else [ -e "$index" ]; fi
    )
}

# Make the working tree the starting tree again, after a failed attempt. Ignored files are not touched,
# but for those that the attempt made.
start_again() {
    xargs -0 sh -c 'for path do [ ! -e "$path" ] || [ -d "$path" ] || rm -f -- "$path"; done' sh <"$private/absent"
    cp -p "$private/real-index" "$(repo rev-parse --git-path index)"
    snapshot load_tracked && own read-tree --reset -u "$start" &&
        snapshot load_tracked && [ "$(own write-tree)" = "$start" ] ||
        stop 'the starting tree could not be restored between two attempts'
    # The official reset between attempts does this on its way; --3way wants it.
    official git update-index -q --refresh >/dev/null 2>&1
}

# attempt NAME COMMAND…: try, and record how it ended and what it said.
attempt() {
    step=$1
    shift
    "$@" >"$private/said" 2>&1 </dev/null 3>&-
    status=$?
    say "attempt $status $step"
    [ $status = 0 ] || head -c 4000 "$private/said" >&3
    return $status
}

# As the official harness does it: in the checkout, by its own configuration.
official() (
    GIT_DIR=$workdir/.git GIT_WORK_TREE=$workdir
    export GIT_DIR GIT_WORK_TREE
    exec "$@"
)

apply_patch() {
    step=
    [ -s $files/patch.diff ] || return 0
    attempt strict own apply --whitespace=nowarn $files/patch.diff && return
    cp -p "$(repo rev-parse --git-path index)" "$private/real-index"
    xargs -0 sh -c 'for path do [ -e "$path" ] || [ -L "$path" ] || printf "%s\0" "$path"; done' sh \
        <$files/touched >"$private/absent"
    while read -r command; do
        start_again
        # Word splitting is wanted: the official commands hold no quotes.
        attempt "$command" official $command $files/patch.diff && return
    done <$files/ladder
    # The last step may have left the patch fully applied and still have failed.
    attempt 'already applied' official git apply --check --reverse $files/patch.diff
}

prepare() {
    workdir=$1 base=$2 expected=$3
    private=$files/git
    index=$private/index
    command -v git >/dev/null || stop 'the image has no git'
    cd -P -- "$workdir" || stop "no such directory in the image: $workdir"
    workdir=$PWD
    make_private && borrow && head=$(repo rev-parse --verify -q HEAD) && snapshot load_tracked &&
        start=$(own write-tree) || stop 'the starting tree cannot be read'
    say "start $start"
    [ -z "$expected" ] || [ "$start" = "$expected" ] || exit 0
    say matches
    apply_patch || exit 0
    say "applied $step"
    put_back "$base" $files/tests || stop "the test files cannot be restored from $base"
    put_back "$start" $files/restore || stop 'the runner configuration cannot be restored'
    while read -r name; do say "restored $name"; done <$files/restore.names
    [ ! -s $files/test.diff ] || attempt 'test patch' own apply --check --whitespace=nowarn $files/test.diff || exit 0
    say ready
    exit 42
}

(prepare "$@")
[ $? = 42 ] || exit 0
cd -- "$1"
# With one capability less than this process, what runs below can neither read its memory nor open its
# descriptors, root or not.
guard='setpriv --bounding-set -setpcap'
if ! $guard true || $guard cat /proc/$$/environ; then guard=; fi >/dev/null 2>&1
say "guarded ${guard:+1}"
rm -rf $files/git $files/nonce $files/*.diff $files/ladder $files/touched $files/tests $files/restore* \
    $files/verify.sh
shell=/bin/bash
[ -x $shell ] || shell=$(command -v bash) || shell=sh
say running
$guard $shell $files/eval.sh </dev/null 2>&1 3>&-
say "status $?"
say completed
exit 0
}
