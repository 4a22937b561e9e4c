"""Seeding: history that is not the base's is unreadable, provably so, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swe_pytest.grading.workspace import PurgeUnproven, SeedFailed, Workspace, seed_workspace
from swe_pytest.sandbox.contract import Sandbox
from swe_pytest.sandbox.errors import CommandTimeout

# A checkout with a base of two commits and, later than that, the fix: SECRET is the fixed file's blob.
REPO = r"""
set -eu
export HOME=/nonexistent GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@e
rm -rf /w /srv/* /opt/* /home/*.bundle; mkdir -p "/w/$CASE"; cd "/w/$CASE"
git init -q -b main r; cd r
mkdir pkg; printf 'one\n' >pkg/a.py; printf '*.log\n' >.gitignore; git add -A; git commit -qm one
printf 'two\n' >>pkg/a.py; git commit -qam two
BASE=$(git rev-parse HEAD)
fix() { printf 'the fix of %s\n' "$CASE" >>pkg/a.py; git commit -qam fix; SECRET=$(git rev-parse HEAD:pkg/a.py); }
back() { git reset -q --hard "$BASE"; }
forget() { git reflog expire --expire=now --all; rm -f .git/ORIG_HEAD; }
"""
TELL = '\necho "$BASE $SECRET"\n'

# Where images really keep later history, one way each.
HIDING_PLACES = {
    "branch": "git checkout -q -b later; fix; git checkout -q main",
    "tag": "fix; git tag -a -m v2 v2; back; forget",
    "remote_branch": "fix; git update-ref refs/remotes/origin/main HEAD; git remote add origin https://e.x/r; back",
    "reflog": "fix; back",
    "stash": "printf 'the fix\\n' >>pkg/a.py; SECRET=$(git hash-object pkg/a.py); git stash -q",
    "dangling": "SECRET=$(echo 'the fix' | git hash-object -w --stdin)",
    "kept_pack": "fix; back; forget; git repack -q -a -d --keep-unreachable; for p in .git/objects/pack/*.pack; "
    'do touch "${p%.pack}.keep"; done',
    "pack_without_index": "fix; P=$(git rev-list --objects --all | cut -c1-40 | git pack-objects -q "
    ".git/objects/pack/pack); rm .git/objects/pack/pack-$P.idx; back; forget; git prune --expire=now",
    "worktree": "git worktree add -q -b later ../later; cd ../later; fix; cd ../r",
    "alternates": "fix; git clone -q --bare . ../store.git; back; forget; git prune --expire=now; "
    'echo "/w/$CASE/store.git/objects" >.git/objects/info/alternates',
    "notes": "git notes add -m 'the fix'; SECRET=$(git rev-parse refs/notes/commits:$(git rev-parse HEAD))",
    "replaced": 'fix; FIX=$(git rev-parse HEAD); back; forget; git replace "$BASE" "$FIX"',
    "fetch_head": "fix; git rev-parse HEAD >.git/FETCH_HEAD; cp .git/FETCH_HEAD .git/MERGE_HEAD; back; forget",
    "packed_refs": "fix; git branch later; back; git pack-refs --all; forget",
    "graft": 'fix; FIX=$(git rev-parse HEAD); back; mkdir -p .git/info; echo "$BASE $FIX" >.git/info/grafts',
    "commit_graph": "fix; git commit-graph write --reachable 2>/dev/null; back; forget",
    "multi_pack": "fix; git repack -q -a -d; git multi-pack-index write 2>/dev/null; back; forget",
    "lfs": "fix; mkdir -p .git/lfs/objects; cp pkg/a.py .git/lfs/objects/x; back",
    "rebase": "fix; mkdir .git/rebase-apply; git format-patch -q -1 -o .git/rebase-apply; back",
    "clone_elsewhere": 'fix; git clone -q --bare . "/srv/$CASE.git"; back; forget',
    "shallow_clone_elsewhere": 'mkdir same; touch same/x; git add same; git commit -qm same; BASE=$(git rev-parse '
    'HEAD); fix; git clone -q --depth 1 "file://$PWD" "/opt/$CASE"; back; forget',
    "bundle": 'fix; git bundle create -q "/home/$CASE.bundle" main; back; forget',
    "nested_clone": "fix; git clone -q . build.log; back; forget",
    "detached": "fix; git checkout -q --detach; git branch -q -f main; git checkout -q --detach $BASE",
    "staged": "fix; back; printf 'three\\n' >>pkg/a.py; git add -A",
    "partly_packed": "git gc -q; fix; back",
}


# Succeeds where the fix can be read: in an object store, in a pack that has no index, or as text.
LEAK = """
for store in $(find /w /srv /opt /root -type d -name objects); do
    GIT_OBJECT_DIRECTORY=$store git --git-dir=.git cat-file -e {secret} 2>/dev/null && exit 0
done
for pack in .git/objects/pack/*.pack; do [ ! -e "$pack" ] || [ -e "${{pack%.pack}}.idx" ] || exit 0; done
grep -rq --exclude-dir=pkg 'the fix' /w /srv /opt /root || [ -e /w/worktree/later ]
"""


def make(sandbox: Sandbox, case: str, script: str) -> tuple[str, str]:
    """Make the checkout of a case; return its base commit and the blob that must be gone."""
    made = sandbox.exec(REPO + script + TELL, timeout_s=30, env={"CASE": case})
    assert made.exit_code == 0, made.stderr
    base, secret = made.stdout.decode().split()[-2:]
    return base, secret


def seed(sandbox: Sandbox, case: str, script: str) -> tuple[Workspace, str]:
    base, secret = make(sandbox, case, script)
    return seed_workspace(sandbox, f"/w/{case}/r", base, timeout_s=30), secret


def run(sandbox: Sandbox, command: str, case: str = "", user: str = "0") -> str:
    done = sandbox.exec(command, timeout_s=30, workdir=f"/w/{case}/r" if case else "/", user=user)
    assert done.exit_code == 0, (command, done.stdout, done.stderr)
    return done.stdout.decode()


@pytest.mark.parametrize("case", HIDING_PLACES)
def test_later_history_is_unreadable_wherever_it_was_kept(sandbox: Sandbox, case: str) -> None:
    """After seeding no object store knows the fix, and log and blame up to base work as before."""
    base, secret = make(sandbox, case, HIDING_PLACES[case])
    run(sandbox, LEAK.format(secret=secret), case)
    workspace = seed_workspace(sandbox, f"/w/{case}/r", base, timeout_s=30)
    assert workspace.purge.proven
    run(
        sandbox,
        f"""
        ({LEAK.format(secret=secret)}) && exit 1
        [ "$(git rev-parse HEAD)" = {workspace.head} ] || exit 2
        git log -p --all >/dev/null && git blame pkg/a.py >/dev/null && git fsck --strict || exit 3
        [ "$(git for-each-ref | wc -l)" -le 1 ] && [ -z "$(git reflog)$(git remote)$(git stash list)" ] || exit 4
        git -c user.name=a -c user.email=a@e commit -q --allow-empty -m 'the agent can go on' || exit 5
        """,
        case,
    )


def test_a_clean_checkout_is_not_repacked(sandbox: Sandbox) -> None:
    """Where nothing is to be purged the object store is left alone, and proven all the same."""
    base, _ = make(sandbox, "clean", "SECRET=0; forget")
    # By inode: git itself may touch the time of an object that it would write again.
    look = "find .git/objects -type f | xargs ls -i | sort"
    before = run(sandbox, look, "clean")
    workspace = seed_workspace(sandbox, "/w/clean/r", base, timeout_s=30)
    assert run(sandbox, look, "clean") == before
    assert workspace.purge.proven
    assert workspace.purge.objects_before == workspace.purge.objects_after == 9


def test_a_linked_worktree_becomes_a_repository_of_its_own(sandbox: Sandbox) -> None:
    """A checkout whose .git points elsewhere is cut off, and the repository it belonged to is unreadable."""
    script = "fix; cd ..; mv r main; cd main; git worktree add -q --detach ../r $BASE; cd ../r"
    workspace, secret = seed(sandbox, "linked_worktree", script)
    run(sandbox, f"! git cat-file -e {secret} && git log -p >/dev/null && [ -d .git ]", "linked_worktree")
    assert workspace.purge.removed == ("/w/linked_worktree/main",)
    assert run(sandbox, "git status --porcelain", "linked_worktree") == ""


def test_repositories_of_submodules_are_unreadable_and_their_files_stay(sandbox: Sandbox) -> None:
    """A submodule keeps its place in the tree and its files, and loses its history."""
    script = """
    git init -q -b main ../lib; (cd ../lib; echo lib >f; git add f; git commit -qm lib; echo 'the fix' >f; git commit -qam fix)
    git -c protocol.file.allow=always submodule --quiet add "$PWD/../lib" lib; (cd lib; git checkout -q HEAD~1)
    git add lib; git commit -qm 'with lib'; BASE=$(git rev-parse HEAD); SECRET=$(git -C lib rev-parse origin/main:f)
    rm -rf ../lib
    """
    seed(sandbox, "submodule", script)
    run(sandbox, "[ ! -e .git/modules ] && [ ! -e lib/.git ] && [ -z \"$(git status --porcelain)\" ]", "submodule")
    assert run(sandbox, "cat lib/f; git ls-files -s lib | cut -c1-6", "submodule") == "lib\n160000\n"


def test_other_projects_keep_their_repositories(sandbox: Sandbox) -> None:
    """A nested repository that shares no history is not the purge's business."""
    script = "git init -q -b main vendor; (cd vendor; echo v >v; git add v; git commit -qm v); SECRET=0"
    workspace, _ = seed(sandbox, "vendor", script)
    assert workspace.purge.removed == ()
    assert run(sandbox, "git -C vendor log --format=%s", "vendor") == "v\n"


def test_dirt_and_index_stay_as_the_image_has_them(sandbox: Sandbox) -> None:
    """Uncommitted, staged, untracked and ignored files, and the index's very bytes, survive the purge."""
    script = "fix; back; echo dirt >>pkg/a.py; echo s >staged; git add staged; echo u >untracked; echo l >x.log"
    look = "git --no-optional-locks status --porcelain --ignored; cat pkg/a.py untracked x.log; sha256sum .git/index"
    made = sandbox.exec(REPO + script + "\n" + look + TELL, timeout_s=30, env={"CASE": "dirty"})
    *before, told = made.stdout.decode().splitlines()
    workspace = seed_workspace(sandbox, "/w/dirty/r", told.split()[0], timeout_s=30)
    assert run(sandbox, look, "dirty").splitlines() == before
    store = "GIT_OBJECT_DIRECTORY=/swe-pytest/start/objects git ls-tree -r --name-only"
    assert run(sandbox, f"{store} {workspace.start_tree}", "dirty").split() == [
        ".gitignore",
        "pkg/a.py",
        "staged",
        "untracked",
    ]
    assert run(sandbox, f"{store.split()[0]} git show {workspace.start_tree}:pkg/a.py", "dirty").endswith("dirt\n")


def test_the_tree_is_the_bytes_and_nothing_of_the_image_runs(sandbox: Sandbox) -> None:
    """Filters, hooks, fsmonitor and line-ending rules of the image play no part in the starting tree."""
    script = r"""
    printf '#!/bin/sh\necho ran >>/w/$CASE/ran\nexec cat\n' >../spy; chmod +x ../spy
    printf '*.dat filter=spy\n*.txt text eol=crlf\n*.u working-tree-encoding=UTF-16\n' >.gitattributes
    printf 'x\r\ny\r\n' >w.txt; printf 'raw' >r.dat; printf 'plain\n' >p.u
    BASE=$(git rev-parse HEAD); SECRET=0
    git config filter.spy.clean "/w/$CASE/spy"; git config filter.spy.smudge "/w/$CASE/spy"
    git config core.fsmonitor "/w/$CASE/spy"; git config core.hooksPath "/w/$CASE"; cp ../spy ../post-index-change
    cp ../spy ../reference-transaction; rm -f ../ran
    """
    workspace, _ = seed(sandbox, "attributes", script)
    store = "GIT_OBJECT_DIRECTORY=/swe-pytest/start/objects git -c core.fsmonitor=false cat-file blob"
    shown = run(sandbox, f"{store} {workspace.start_tree}:w.txt | od -c; test ! -e ../ran", "attributes")
    assert r"x  \r  \n   y  \r  \n" in shown


def test_a_checkout_of_another_user_stays_that_users(sandbox: Sandbox) -> None:
    """Root seeds what user 1000 owns, and user 1000 can go on working in it."""
    workspace, _ = seed(sandbox, "owned", "fix; back; forget; chown -R 1000:1000 /w/owned")
    assert workspace.purge.objects_before > workspace.purge.objects_after
    commands = "git log -p >/dev/null && echo x >n && git add n && git -c user.name=a -c user.email=a@e commit -qm n"
    run(sandbox, commands, "owned", user="1000")
    assert run(sandbox, "find .git ! -user 1000", "owned") == ""


def test_head_above_base_counts(sandbox: Sandbox) -> None:
    """Images may have a commit of their own on top of base: HEAD is kept, and base below it."""
    script = "fix; git branch -q later; back; echo env >>setup; git add -A; git commit -qm SWE-bench"
    workspace, secret = seed(sandbox, "above", script)
    assert run(sandbox, "git log --format=%s", "above").split() == ["SWE-bench", "two", "one"]
    run(sandbox, f"! git cat-file -e {secret}", "above")
    assert workspace.head == run(sandbox, "git rev-parse HEAD", "above").strip()


@pytest.mark.parametrize(
    ("case", "script", "why"),
    [
        ("not_above", "fix; OLD=$BASE; BASE=$(git rev-parse HEAD); git reset -q --hard $OLD", "nor an ancestor"),
        ("unknown_base", "BASE=0123456789012345678901234567890123456789; SECRET=0", "nor an ancestor"),
        ("no_repository", "rm -rf .git; SECRET=0", "not the top of a git checkout"),
        ("unborn", "rm -rf .git; git init -q; SECRET=0", "HEAD names no commit"),
        ("gone", "cd /; rm -rf /w/gone/r; SECRET=0", "no such directory"),
    ],
)
def test_what_cannot_be_seeded_is_said(sandbox: Sandbox, case: str, script: str, why: str) -> None:
    """An unusable checkout is a SeedFailed that names the checkout, the container and the reason."""
    with pytest.raises(SeedFailed, match=why) as caught:
        seed(sandbox, case, script)
    assert f"/w/{case}/r in container {sandbox.name}" in str(caught.value)
    assert caught.value.kind == "seed_failed"


@pytest.mark.parametrize("case", ["branch", "reflog", "kept_pack", "clone_elsewhere", "packed_refs"])
def test_a_purge_that_did_not_work_is_not_believed(sandbox: Sandbox, case: str) -> None:
    """The proof looks at the result: where removing silently fails, the agent must not start.

    An `rm` that does nothing stands for a disk or mount that keeps its files; there is no such mount to
    be had in a container without privileges.
    """
    base, _ = make(sandbox, case, HIDING_PLACES[case])
    fake = 'case $* in */swe-pytest*) exec /bin/rm "$@" ;; esac'
    run(sandbox, f"printf '#!/bin/sh\\n%s\\n' '{fake}' >/usr/local/bin/rm; chmod +x /usr/local/bin/rm")
    try:
        with pytest.raises(PurgeUnproven) as caught:
            seed_workspace(sandbox, f"/w/{case}/r", base, timeout_s=30)
    finally:
        run(sandbox, "/bin/rm /usr/local/bin/rm")
    assert caught.value.kind == "purge_unproven"


def test_a_history_that_cannot_be_walked_is_not_believed(sandbox: Sandbox) -> None:
    """Without the list of what HEAD reaches nothing is proven."""
    broken = "SECRET=0; rm -f .git/objects/$(git rev-parse HEAD~1 | sed 's,^..,&/,')"
    with pytest.raises(PurgeUnproven, match="cannot walk"):
        seed(sandbox, "broken", broken)


def test_a_deadline_is_the_sandboxs_own_error(sandbox: Sandbox) -> None:
    """Seeding is bounded: what the sandbox raises passes through."""
    workspace, _ = seed(sandbox, "slow", "SECRET=0")
    run(sandbox, "printf '#!/bin/sh\\nsleep 60\\n' >/usr/local/bin/git; chmod +x /usr/local/bin/git")
    try:
        with pytest.raises(CommandTimeout):
            seed_workspace(sandbox, workspace.workdir, workspace.head, timeout_s=0.5)
    finally:
        run(sandbox, "rm /usr/local/bin/git")


def test_without_purge_the_tree_is_the_same(sandbox: Sandbox) -> None:
    """Purging can be left out, and then claims nothing; the starting tree does not depend on it."""
    purged, _ = seed(sandbox, "twice", "fix; back; echo u >u")
    workspace = seed_workspace(sandbox, "/w/twice/r", purged.head, timeout_s=30, purge=False)
    assert not workspace.purge.proven
    assert replace(workspace, purge=purged.purge) == purged
