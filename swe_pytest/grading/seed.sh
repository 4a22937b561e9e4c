# seed.sh WORKDIR BASE PURGE: purge the checkout's history, prove it, and record the starting tree.
# Prints "key value" lines. Status 70: cannot be seeded; 71: the purge is not proven.
#
# Kept for the capture, in a place of its own: /swe-pytest/start/objects holds the whole starting tree, so
# that nothing the agent does to .git can lose it; `ignored` lists the ignored files of the start.

LC_ALL=C
export LC_ALL

fail() {
    echo "$2" >&2
    exit "$1"
}

workdir=$1 base=$2 purge=$3
start=/swe-pytest/start private=/swe-pytest/start/git
index=$private/index
cd -P -- "$workdir" 2>/dev/null || fail 70 "no such directory in the image: $workdir"
workdir=$PWD
[ "$workdir" != / ] || fail 70 'the file system root cannot be a checkout'
command -v git >/dev/null || fail 70 'the image has no git'
[ -e .git ] || fail 70 "$workdir is not the top of a git checkout"
[ ! -e "$start" ] || rm -rf "$start"
make_private "$start" "$start/objects/pack" "$start/objects/info" || fail 70 "cannot write $start"

head=$(repo rev-parse --verify -q 'HEAD^{commit}') || fail 70 'HEAD names no commit'
[ ${#head} = 40 ] || fail 70 'only SHA-1 repositories are supported'
case $head in "$base"*) ;; *)
    repo merge-base --is-ancestor "$base" "$head" 2>/dev/null ||
        fail 70 "the base commit $base is neither HEAD ($head) nor an ancestor of it"
    ;;
esac
echo "head $head"

# --- purge -------------------------------------------------------------------------------------------

# A .git that points elsewhere (linked worktree, submodule) becomes a repository of its own.
stand_alone() {
    gitdir=$(repo rev-parse --absolute-git-dir) && common=$(repo rev-parse --git-common-dir) || return
    mkdir -p .git.swe-pytest/objects/info .git.swe-pytest/refs .git.swe-pytest/info || return
    common=$(cd "$common" && pwd -P) || return
    for file in "$gitdir/HEAD" "$gitdir/index" "$common/config" "$common/shallow"; do
        [ ! -f "$file" ] || cp -p "$file" .git.swe-pytest/ || return
    done
    [ ! -f "$common/info/exclude" ] || cp -p "$common/info/exclude" .git.swe-pytest/info/
    echo "$common/objects" >.git.swe-pytest/objects/info/alternates
    kept_config <"$common/config" >.git.swe-pytest/config
    echo "$head" >.git.swe-pytest/HEAD
    rm -f .git && mv .git.swe-pytest .git
}

# The configuration without what names other repositories.
kept_config() {
    keep=1
    while IFS= read -r line || [ -n "$line" ]; do
        bare=${line#"${line%%[![:space:]]*}"}
        case $bare in
            \[[Rr]emote* | \[[Bb]ranch* | \[[Ss]ubmodule* | \[[Ii]nclude* | \[[Uu]rl*) keep=0 ;;
            \[*) keep=1 ;;
            [Ww]ork[Tt]ree*=* | [Pp]artial[Cc]lone*=* | [Ww]orktree[Cc]onfig*=*) continue ;;
        esac
        [ $keep = 0 ] || printf '%s\n' "$line"
    done
}

# Whatever is not needed goes, known or not: reflogs, other heads, worktrees, modules, rr-cache, lfs …
drop_unneeded() {
    set --
    for entry in .git/* .git/.[!.]* .git/..?* .git/info/* .git/objects/info/* .git/objects/pack/*; do
        [ -e "$entry" ] || [ -L "$entry" ] || continue
        case $entry in
            .git/HEAD | .git/config | .git/index | .git/sharedindex.* | .git/shallow | .git/description) ;;
            .git/objects | .git/hooks | .git/info | .git/info/exclude | .git/info/attributes) ;;
            .git/info/sparse-checkout | .git/objects/info/alternates) ;;
            .git/objects/pack/pack-*.pack | .git/objects/pack/pack-*.idx | .git/objects/pack/pack-*.rev) ;;
            *) set -- "$@" "$entry" ;;
        esac
    done
    rm -rf -- "$@" || return
    branch=
    read -r ref target <.git/HEAD || :
    case "$ref $target" in
        'ref: refs/heads/'*) branch=$target ;;
        *) echo "$head" >.git/HEAD ;;
    esac
    mkdir -p .git/refs/tags ".git/${branch%/*}" .git/refs/heads || return
    [ -z "$branch" ] || echo "$head" >".git/$branch" || return
    config=$(kept_config <.git/config) && printf '%s\n' "$config" >.git/config
}

# Files of the store that git would not enumerate.
strays() {
    find .git/objects ! -type d ! \( -type f \( -path '.git/objects/[0-9a-f][0-9a-f]/[0-9a-f]*' -o \
        -name 'pack-*.pack' -o -name 'pack-*.idx' -o -name 'pack-*.rev' \) \)
    for pack in .git/objects/pack/*.pack; do
        [ ! -e "$pack" ] || [ -e "${pack%.pack}.idx" ] || echo "$pack"
    done
}

enumerate() {
    repo cat-file --batch-all-objects --batch-check='%(objectname)' >"$private/present"
}

count() {
    number=$(wc -l <"$private/present")
}

# Is everything in the store reachable, and nothing beside it?
settled() {
    cmp -s "$private/present" "$private/reachable" && left=$(strays) && [ -z "$left" ]
}

repack() {
    mkdir -p "$private/new/pack" "$private/new/info" &&
        repo pack-objects -q --window=0 --delta-base-offset "$private/new/pack/pack" <"$private/reachable" \
            >/dev/null && rm -rf .git/objects && mv "$private/new" .git/objects && enumerate
}

# Does the store $1 know this history: its commits, or a directory of it?
knows_history() (
    hygiene
    [ -s "$private/signs" ] || {
        echo "$head" && echo "$base" && repo rev-parse "$head^{tree}" &&
            repo ls-tree -r -d "$head" | cut -c13-52
    } >"$private/signs"
    GIT_DIR=$private GIT_OBJECT_DIRECTORY=$1
    export GIT_DIR GIT_OBJECT_DIRECTORY
    git cat-file --batch-check <"$private/signs" 2>/dev/null | grep -qv 'missing$'
)

tracked() {
    [ -n "$(repo --literal-pathspecs ls-files -- "$1" 2>/dev/null)" ]
}

# Other places where later history may be: any object store but those of the system's own files, bundles,
# and the repositories of submodules. What the checkout tracks is base's own and stays.
other_places() {
    set -- / "$workdir/."
    for place in /usr/src /usr/local/src; do
        [ ! -d $place ] || set -- "$@" $place
    done
    find "$@" -xdev \( -path /usr -o -path /swe-pytest -o -path "$workdir" -o -path "$workdir/./.git" \) -prune -o \
        \( -path '*/objects/pack' -o -name .git -o -name '*.bundle' -type f \) -print 2>/dev/null
    [ ! -s "$private/alternates" ] || cat "$private/alternates"
}

purge_other_places() {
    other_places >"$private/places"
    while IFS= read -r place; do
        inside=${place#"$workdir/./"}
        case $place in
            */objects/pack)
                { [ "$inside" != "$place" ] && tracked "$inside"; } || ! knows_history "${place%/pack}" ||
                    doom "${place%/pack}"
                ;;
            */.git)
                [ "$inside" = "$place" ] || case $(repo --literal-pathspecs ls-files -s -- "${inside%/.git}") in
                    '160000 '*) doom "$place" ;;
                esac
                ;;
            *)
                IFS= read -r magic <"$place" 2>/dev/null || :
                case $magic in
                    '# v'?' git bundle') { [ "$inside" != "$place" ] && tracked "$inside"; } || doom "$place" ;;
                esac
                ;;
        esac
    done <"$private/places"
}

doom() {
    rm -rf "$1" 2>/dev/null
    printf '%s\n' "$1" >>"$private/doomed"
    printf 'removed %s\n' "$1"
}

# Other checkouts of the repository $1 hold other versions as plain files.
other_checkouts() {
    for file in "$1"/worktrees/*/gitdir; do
        [ ! -f "$file" ] || { read -r place <"$file" && printf '%s\n' "${place%/.git}"; }
    done
    case $1 in */.git) printf '%s\n' "${1%/.git}" ;; esac
}

purge_other_checkouts() {
    while IFS= read -r place; do
        case $workdir/ in
            "$place"/*) ;;
            *) [ ! -d "$place" ] || doom "$place" ;;
        esac
    done <"$private/checkouts"
}

give_back() { # files made here belong to whom the checkout belongs to
    owner=$(stat -c %u:%g .git) || return
    [ "$owner" = 0:0 ] || chown -R "$owner" .git/objects .git/refs .git/HEAD .git/config
}

purge() {
    [ ! -e .git/reftable ] || fail 70 'repositories with reftables are not supported'
    : >"$private/alternates"
    : >"$private/doomed"
    common=$workdir/.git
    if [ ! -d .git ] || [ -L .git ]; then
        stand_alone || fail 71 '.git points elsewhere and could not be made to stand alone'
    fi
    if [ -s .git/objects/info/alternates ]; then
        sed 's,/*$,/pack,' .git/objects/info/alternates >"$private/alternates"
    fi
    other_checkouts "$common" >"$private/checkouts"
    # First this: to rev-list the indexes of other worktrees count as well.
    drop_unneeded || fail 71 'cannot clean the git directory'
    # In a partial clone what is missing cannot be fetched, nor later be read.
    { repo rev-list --objects --indexed-objects "$head" >"$private/walk" 2>"$private/why" ||
        repo rev-list --objects --indexed-objects --missing=allow-any "$head" >"$private/walk"; } &&
        cut -c1-40 "$private/walk" | sort -u >"$private/reachable" && [ -s "$private/reachable" ] ||
        fail 71 "cannot walk the history from HEAD: $(cat "$private/why")"
    enumerate || fail 71 'cannot list the objects of the checkout'
    count
    echo "before $number"
    looked=0
    if [ ! -s "$private/alternates" ] && settled; then
        looked=1
    else
        repack || fail 71 'cannot repack the checkout'
        count
    fi
    purge_other_checkouts
    purge_other_places
    give_back || fail 71 'cannot give the git directory back to its owner'
}

# By looking, not by construction: the checkout as the agent will find it.
prove() {
    refs=$(repo show-ref --head) || fail 71 'no reference is left'
    [ "$refs" = "$head HEAD${branch:+
$head $branch}" ] || fail 71 "other references than the branch are left: $refs"
    # A store that was found in order above has not been touched since.
    [ "$looked" = 1 ] || settled || fail 71 \
        "left in the store: $(comm -3 "$private/present" "$private/reachable" | head -n 3) $(strays)"
    set -- .git/*HEAD .git/packed-refs .git/logs .git/worktrees .git/modules .git/objects/info/* .git/refs/[!ht]*
    for entry in "$@"; do
        [ "$entry" = .git/HEAD ] || [ ! -e "$entry" ] || fail 71 "$entry is left"
    done
    while IFS= read -r place; do
        [ ! -e "$place" ] || fail 71 "$place is left"
    done <"$private/doomed"
}

if [ "$purge" = 1 ]; then
    purge
    prove
    echo "after $number"
    echo 'proven 1'
fi

# --- the starting tree -------------------------------------------------------------------------------

borrow || fail 70 'cannot find the object store'
snapshot load_tracked && tree=$(own write-tree) ||
    fail 70 "cannot record the starting tree: $(cat "$private/complaints")"
own pack-objects --revs -q --window=0 "$start/objects/pack/pack" >/dev/null <<TREE || fail 70 'cannot store the tree'
$tree
TREE
own ls-files -o -i --exclude-standard >"$private/ignored" && : >"$start/ignored" &&
    { [ ! -s "$private/ignored" ] || sort "$private/ignored" >"$start/ignored"; } ||
    fail 70 'cannot list the ignored files'
mv "$private/info/exclude" "$private/links" "$start"
echo "tree $tree"
rm -rf "$private"
