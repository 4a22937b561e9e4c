# Shared by the programs that seed a checkout, capture a patch and grade it. POSIX sh, git 2.17 or later,
# coreutils and find (busybox's will do). Callers set:
#   workdir   top of the checkout        private   a git directory of ours, outside the checkout
#   index     the index file to work on  (all three absolute; the working directory is $workdir)

# No variable of the image or the agent may steer git; none of this leaks, callers are subshells.
hygiene() {
    unset GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_INDEX_VERSION GIT_OBJECT_DIRECTORY \
        GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_CONFIG_SYSTEM \
        GIT_EXTERNAL_DIFF GIT_DIFF_OPTS GIT_NAMESPACE GIT_PREFIX GIT_ATTR_SOURCE GIT_SHALLOW_FILE \
        GIT_LITERAL_PATHSPECS GIT_GLOB_PATHSPECS GIT_NOGLOB_PATHSPECS GIT_ICASE_PATHSPECS \
        GIT_REPLACE_REF_BASE GIT_DEFAULT_HASH GIT_QUARANTINE_PATH GIT_REF_STORAGE GIT_TRACE GIT_TRACE2 \
        GIT_TRACE2_EVENT GIT_TRACE2_PERF GIT_TRACE_SETUP GIT_TRACE_PERFORMANCE GIT_TEST_SPLIT_INDEX
    HOME=$private XDG_CONFIG_HOME=$private GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
    GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=$private/no-grafts GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 LC_ALL=C
    export HOME XDG_CONFIG_HOME GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL GIT_ATTR_NOSYSTEM
    export GIT_NO_REPLACE_OBJECTS GIT_GRAFT_FILE GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT LC_ALL
}

# git on the checkout's files, but through the private directory: nothing inside .git has a say.
own() (
    hygiene
    GIT_DIR=$private GIT_WORK_TREE=$workdir GIT_INDEX_FILE=$index
    export GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
    exec git "$@"
)

# git on the checkout's own directory, for reading. An explicit directory is never "dubious" to git,
# whoever owns it; the commit-graph is a cache that need not be true.
repo() (
    hygiene
    GIT_DIR=$workdir/.git GIT_WORK_TREE=$workdir
    export GIT_DIR GIT_WORK_TREE
    exec git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.commitGraph=false \
        -c core.fsync=none "$@"
)

# make_private [DIR…]: make $private a git directory that keeps bytes as they are, and other directories.
# Attributes there outrank those of the tree, so no line ending is converted, no filter runs, and what is
# text is judged by content.
make_private() {
    mask=$(umask)
    umask 077
    mkdir -p "$private/objects/pack" "$private/objects/info" "$private/refs" "$private/info" "$@" || return
    umask "$mask"
    echo 'ref: refs/heads/none' >"$private/HEAD"
    printf '%s\n' '[core]' 'repositoryformatversion = 0' 'bare = false' 'filemode = true' 'symlinks = true' \
        'protectNTFS = false' 'protectHFS = false' 'untrackedCache = false' 'compression = 0' 'fsync = none' \
        '[gc]' 'auto = 0' '[advice]' 'addEmbeddedRepo = false' >"$private/config"
    echo '* -text -ident -filter !eol !working-tree-encoding !diff !merge !whitespace' >"$private/info/attributes"
    echo '.git.swe-pytest' >"$private/info/exclude"
}

# Let the private directory see the checkout's objects and its rules for untracked files, wherever they are.
borrow() {
    objects=$workdir/.git/objects exclude=$workdir/.git/info/exclude
    if [ ! -d "$objects" ]; then
        repo rev-parse --git-path objects --git-path info/exclude >"$private/where" || return
        { read -r objects && read -r exclude; } <"$private/where" || return
        objects=$(cd "$objects" && pwd -P) || return
    fi
    echo "$objects" >"$private/objects/info/alternates"
    [ ! -s "$exclude" ] || cat "$exclude" >>"$private/info/exclude"
}

# A repository inside the checkout would be taken for a submodule, or stop git. Without HEAD it is a
# directory like any other, and HEAD alone is quickly moved (on an overlay .git would be copied); but where
# git knows a submodule, a broken .git stops it, so there it goes as a whole.
hide_nested() {
    find . -mindepth 2 -name .git -prune -exec sh -c '
        links="$1
" && shift
        for p do
            at=${p#./}
            case $links in *"	${at%/.git}
"*) mv "$p" "$p.swe-pytest" && continue ;; esac
            if [ -d "$p" ] && [ ! -L "$p" ]; then
                [ ! -e "$p/HEAD" ] || mv "$p/HEAD" "$p/HEAD.swe-pytest"
            else
                mv "$p" "$p.swe-pytest"
            fi
        done' sh "$(cat "$private/links")" {} +
}

show_nested() {
    find . -mindepth 2 \( -name .git -o -name .git.swe-pytest \) -prune -exec sh -c '
        for p do
            case $p in
                *.swe-pytest) mv "$p" "${p%.swe-pytest}" ;;
                *) [ ! -e "$p/HEAD.swe-pytest" ] || mv "$p/HEAD.swe-pytest" "$p/HEAD" ;;
            esac
        done' sh {} +
}

# Fill $index with what HEAD and the checkout's index track, without flags and file times: every file will
# be read. Submodules are listed in $private/links.
load_tracked() {
    own read-tree "$head" && repo diff-index --cached --raw --abbrev=40 "$head" >"$private/staged" || return
    if [ -s "$private/staged" ]; then
        sed 's/^:[0-7]* \([0-7]*\) [0-9a-f]* \([0-9a-f]*\) [A-Z]*/\1 \2/' "$private/staged" |
            own update-index --index-info || return
    fi
    own ls-files -s | grep '^160000 ' >"$private/links" || :
}

# snapshot LOAD: make $index the image of the working tree. LOAD fills the index with what is tracked, so
# that tracked files count even where they are ignored, and lists the submodules in $private/links. Files
# of nested repositories are files; submodules stay what LOAD says. Files that git cannot take (devices,
# pipes) stay what LOAD says too, and $private/complaints tells.
snapshot() {
    [ ! -e "$index" ] || rm -f "$index"
    "$1" || return
    if [ ! -s "$private/links" ] && take && [ ! -s "$private/complaints" ]; then
        return 0
    fi
    # There are submodules, or a complaint, which may be that a nested repository was added.
    hide_nested
    rm -f "$index"
    "$1" && take
    taken=$?
    show_nested
    case $taken in
        0) : >"$private/complaints" ;;
        1) ;;
        *) cat "$private/complaints" >&2 && return 1 ;;
    esac
}

# The refresh leaves unchanged files to be passed over: `add` would touch their objects in the image's
# packs, and so copy whole packs up into the container's layer.
take() {
    own update-index -q --refresh >/dev/null 2>&1
    own add -A --ignore-errors 2>"$private/complaints"
}
