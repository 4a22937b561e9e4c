# capture.sh WORKDIR START LIMIT: print the difference between the starting tree and the working tree.
# Output: header lines ("key value"; `patch` is its length), an empty line, the patch, git's raw listing of
# the files. Status 72: no patch can be had; 73: it is longer than LIMIT bytes.
#
# Nothing of the agent's .git is read but the names in its index: whether it moved HEAD, rebased, locked
# the index or removed .git altogether makes no difference. The checkout is left as it is.

LC_ALL=C
export LC_ALL

fail() {
    echo "$2" >&2
    exit "$1"
}

note() {
    printf 'note %s\n' "$*" >>"$private/notes"
}

# some FILE: how many names a list has, and the first of them
some() {
    printf '%s: ' "$(wc -l <"$1")"
    head -n 5 "$1" | tr '\n' ' '
}

load_start() {
    own read-tree "$start" && cat "$store/links" >"$private/links"
}

workdir=$1 start=$2 limit=$3
store=/swe-pytest/start private=/swe-pytest/capture
index=$private/index
[ ! -e "$private" ] || rm -rf "$private"
make_private || fail 72 "cannot write $private"
: >"$private/notes"
if cd -P -- "$workdir" 2>/dev/null; then
    workdir=$PWD
else
    note "the working directory $workdir is gone: all its files count as deleted"
    workdir=$private/nothing
    mkdir "$workdir" && cd "$workdir" || fail 72 "cannot write $private"
fi
cat "$store/exclude" >"$private/info/exclude" 2>/dev/null
echo "$store/objects" >"$private/objects/info/alternates"

snapshot load_start 2>"$private/why" ||
    fail 72 "the starting tree $start or the working tree cannot be read: $(cat "$private/why" "$private/complaints")"
[ ! -s "$private/complaints" ] || note "git could not take: $(head -n 5 "$private/complaints" | tr '\n' ' ')"

# Ignored files that the agent added or committed on purpose are part of its work.
if [ -f "$workdir/.git/index" ]; then
    (index=$workdir/.git/index && own ls-files -s -c -i --exclude-standard) >"$private/forced" 2>/dev/null ||
        note "the agent's index cannot be read: ignored files it may hold are not captured"
    : >"$private/names"
    [ ! -s "$private/forced" ] || sed '/^160000 /d; s/^[^	]*	//' "$private/forced" >"$private/names"
    [ ! -s "$private/names" ] || own update-index --add --remove --stdin <"$private/names" 2>"$private/why" ||
        note "ignored files in the agent's index could not be captured: $(head -n 1 "$private/why")"
fi

own diff-index --cached --raw --abbrev=40 --no-renames "$start" >"$private/changes" || fail 72 'cannot compare'
: >"$private/added"
: >"$private/moved"
while IFS='	' read -r about path; do
    case $about in
        :160000\ *) printf '%s\n' "$path" >>"$private/moved" ;;
        *\ A) printf '%s\n' "$path" >>"$private/added" ;;
    esac
done <"$private/changes"

# Ignored files of the start are in the verifier too, where no patch could create them.
if [ -s "$private/added" ] && [ -s "$store/ignored" ]; then
    sort "$private/added" | comm -12 - "$store/ignored" >"$private/returned"
    if [ -s "$private/returned" ]; then
        own update-index --force-remove --stdin <"$private/returned" || fail 72 'cannot leave out ignored files'
        note "not captured, the starting tree ignored them: $(some "$private/returned")"
    fi
fi

# A patch cannot carry a submodule: it stays as it was.
if [ -s "$private/moved" ]; then
    own update-index --index-info <"$store/links" || fail 72 'cannot restore the submodules'
    note "not captured, changed submodules: $(some "$private/moved")"
fi
while IFS='	' read -r _ path; do
    [ -z "$(find "$path" -type f -newer "$store/ignored" 2>/dev/null | head -n 1)" ] ||
        note "not captured, files changed inside the submodule $path"
done <"$store/links"

own ls-files -o -i --exclude-standard >"$private/now" || fail 72 'cannot list the ignored files'
if [ -s "$private/now" ]; then
    sort "$private/now" | comm -13 "$store/ignored" - >"$private/made"
    [ ! -s "$private/made" ] || note "not captured, ignored files made since the start: $(some "$private/made")"
fi

final=$(own write-tree) || fail 72 'cannot write the final tree'
: >"$private/raw"
: >"$private/patch"
size=0
if [ "$final" != "$start" ]; then
    own diff-tree -r -z --raw --no-renames "$start" "$final" >"$private/raw" &&
        own diff-tree -r -p --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color \
            "$start" "$final" >"$private/patch" || fail 72 'git diff-tree failed'
    size=$(wc -c <"$private/patch")
    [ "$size" -le "$limit" ] || fail 73 "$size"
    # The proof: what was captured makes the final tree out of the starting tree.
    index=$private/proof
    load_start && own apply --cached --whitespace=nowarn "$private/patch" && [ "$(own write-tree)" = "$final" ] ||
        fail 72 'the captured patch does not make the final tree out of the starting tree'
fi

echo "final $final"
echo "patch $size"
cat "$private/notes" - "$private/patch" "$private/raw" <<EMPTY

EMPTY
rm -rf "$private"
