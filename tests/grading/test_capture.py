"""Capture: whatever an agent did to its checkout, the patch makes the same tree out of the starting tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from swe_pytest.grading.capture import CaptureFailed, capture_patch
from swe_pytest.grading.workspace import Workspace, seed_workspace
from swe_pytest.sandbox.contract import Sandbox
from swe_pytest.sandbox.errors import CommandTimeout, OutputLimit

# The starting checkout, dirty as images are; `orig` is a copy of it to apply patches to (in a tar: as a
# second checkout of this history it would be purged).
START = r"""
set -eu
export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@e HOME=/nonexistent
rm -rf /w; mkdir -p /w; cd /w; git init -q -b main r; cd r
seq 1 30 >a.py; mkdir -p d/e; echo x >d/x; echo y >d/e/y; ln -s a.py link; echo '#!/bin/sh' >run; chmod +x run
printf '*.log\nbuild/\n' >.gitignore; echo kept >kept.log; printf '\000\001bin' >data.bin
printf 'caf\351\n' >latin; printf 'one\r\ntwo\r\n' >crlf.txt; printf 'no newline' >bare; : >empty
git add -A; git add -f kept.log; git commit -qm base
echo dirty >>d/x; echo untracked >untracked; mkdir build; echo o >build/o; echo i >old.log
"""
COPY = "\ntar -cf /w/orig.tar -C /w r; git -c safe.directory='*' rev-parse HEAD"

# The files of a checkout with kind, executable bit and content: nothing of git's, and nothing of ours.
LISTING = r"""
import hashlib, os, sys
for top, folders, files in os.walk(b"."):
    folders[:] = sorted(f for f in folders if f != b".git" and not os.path.islink(os.path.join(top, f)))
    for name in sorted(files + [f for f in os.listdir(top) if os.path.islink(os.path.join(top, f))]):
        path = os.path.join(top, name)
        if name == b".git" or not os.path.lexists(path):
            continue
        if os.path.islink(path):
            print(path, "link", os.readlink(path))
        elif os.path.isfile(path):
            print(path, bool(os.stat(path).st_mode & 0o100), hashlib.sha1(open(path, "rb").read()).hexdigest())
"""


# What is the agent's own, and must be the same after the capture; and whether a filter ran.
# Then: applies the patch to the copy with git as it comes, prints the hash of the tree that this makes (of the
# bytes on disk), and what differs from the agent's files.
STATE = "cd /w/r; ls -la .git; cat .git/HEAD; sha256sum .git/index; echo /w/ra*"
APPLY = f"""
set -e
({STATE}) >/w/after 2>&1 || :
cmp /w/before /w/after
rm -f /etc/gitconfig ~/.gitconfig
mkdir /w/orig; cd /w/orig; tar -xf ../orig.tar --strip-components=1
[ ! -s /w/patch.diff ] || git apply /w/patch.diff
git init -q --bare /w/h; echo /swe-pytest/start/objects >/w/h/objects/info/alternates
echo '* -text -ident -filter !working-tree-encoding' >/w/h/info/attributes
export GIT_DIR=/w/h GIT_WORK_TREE=/w/orig
git read-tree "$START"
git update-index --force-remove -z --stdin </w/deleted
git update-index --add --replace -z --stdin </w/present
git write-tree
python3 /w/listing.py >/w/patched; cd /w/r; python3 /w/listing.py >/w/final
diff /w/patched /w/final || [ $? = 1 ]
"""


@dataclass(frozen=True)
class Case:
    """What an agent does, the letters and paths that the patch must have, and a part of each note."""

    act: str
    files: str
    notes: tuple[str, ...] = ()
    start: str = ""
    same: bool = field(default=True)  # the patched copy's files are the agent's, to the last one


AGENT = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@e GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@e\n"

KINDS = {
    "nothing": Case(":", ""),
    "edit": Case("sed -i s/15/fifteen/ a.py", "M a.py"),
    "dirty_file_again": Case("echo more >>d/x", "M d/x"),
    "dirt_undone": Case("git checkout -q d/x; rm untracked", "M d/x D untracked"),
    "commit": Case("echo z >>a.py; git commit -qam work; echo z >>bare; git commit -qam more", "M a.py M bare"),
    "staged": Case("echo z >>a.py; echo n >n; git add a.py n", "M a.py A n"),
    "staged_then_undone": Case("echo z >>a.py; git add a.py; git show HEAD:a.py >a.py", ""),
    "new": Case("echo n >n; mkdir -p new/deep; echo m >new/deep/m", "A n A new/deep/m"),
    "delete": Case("rm a.py untracked; git rm -q --cached run; rm run", "D a.py D run D untracked"),
    "rename": Case("git mv a.py b.py", "D a.py A b.py"),
    "rename_folder": Case("git mv d f", "D d/e/y D d/x A f/e/y A f/x"),
    "mode": Case("chmod +x a.py; chmod -x run", "M a.py M run"),
    "new_executable": Case("printf '#!/bin/sh\\n' >tool; chmod 755 tool", "A tool"),
    "link": Case("ln -s /etc/passwd abs; ln -s nowhere dangling; ln -sf run link", "A abs A dangling M link"),
    "link_to_file": Case("rm link; echo real >link", "T link"),
    "file_to_link": Case("rm a.py; ln -s run a.py", "T a.py"),
    "file_to_folder": Case("rm a.py; mkdir a.py; echo in >a.py/in", "D a.py A a.py/in"),
    "folder_to_file": Case("rm -r d; echo file >d", "A d D d/e/y D d/x"),
    "folder_to_link": Case("mv d e; ln -s e d", "A d D d/e/y D d/x A e/e/y A e/x"),
    "link_to_folder": Case("rm link; mkdir link; echo in >link/in", "D link A link/in"),
    "binary": Case("printf '\\000\\002more' >data.bin; head -c 3000 /dev/urandom >new.bin", "M data.bin A new.bin"),
    "binary_to_text": Case("echo text >data.bin", "M data.bin"),
    "crlf": Case("printf 'one\\r\\n2\\r\\n' >crlf.txt; printf 'a\\r\\n' >new.txt", "M crlf.txt A new.txt"),
    "crlf_to_lf": Case("printf 'one\\ntwo\\n' >crlf.txt", "M crlf.txt"),
    "latin": Case("printf 'caf\\351 cr\\350me\\n' >latin", "M latin"),
    "no_newline": Case("printf 'still none' >bare; printf 'x' >new", "M bare A new"),
    "empty": Case("echo no longer >empty; : >vide; : >bare", "M bare M empty A vide"),
    "trailing_blanks": Case("printf 'x  \\n\\t \\n\\n\\n' >a.py", "M a.py"),
    "odd_names": Case(
        "touch -- -dash 'sp ace' 'q\"uote' \"a'b\" 'new\nline' 'tab\there' 'back\\slash' 'é' \"$(printf 'x\\377')\" ' lead' "
        "'trail ' 'a*?[b]' '*' '#h' '!bang' '$x' 'b/' 2>/dev/null; mkdir -- '-d ir'; echo x >'-d ir/-f'",
        "A ' lead' A '!bang' A '#h' A '$x' A '*' A '-d ir/-f' A -dash A 'a*?[b]' A \"a'b\" A 'back\\slash' "
        "A 'new\nline' A 'q\"uote' A 'sp ace' A 'tab\there' A 'trail ' A 'x\udcff' A é",
    ),
    "names_of_elsewhere": Case("touch 'a:b' 'nul' 'x.'", "A a:b A nul A x."),
    "long_name": Case("n=$(printf '%0200d' 7); mkdir -p $n/$n/$n; echo x >$n/$n/$n/$n", f"A {'/'.join(4 * [f'{7:0200d}'])}"),
    "looks_like_a_patch": Case("printf -- '--- a/x\\n+++ b/x\\n@@ -1 +1 @@\\ndiff --git a/y b/y\\n-- \\n2.39\\n' >p", "A p"),
    "moved_head": Case("git checkout -q -b mine; echo z >>a.py; git commit -qam w; git checkout -q main; echo y >n", "M d/x A n"),
    "rebased": Case(
        "git checkout -q --orphan fresh; echo z >>a.py; git add -A; git commit -qm all; git branch -D -q main; "
        "git reflog expire --expire=now --all; git gc -q --prune=now",
        "M a.py",
    ),
    "index_lock": Case("echo z >>a.py; touch .git/index.lock", "M a.py"),
    "index_broken": Case("echo z >>a.py; echo rubbish >.git/index", "M a.py", ("index cannot be read",)),
    "git_removed": Case("rm -rf .git; echo z >>a.py", "M a.py"),
    "git_init_anew": Case("rm -rf .git; git init -q; git add -A; git commit -qm mine; echo z >>a.py", "M a.py"),
    "git_is_a_file": Case("mv .git ../gone; echo 'gitdir: ../gone' >.git; echo z >>a.py", "M a.py"),
    "sparse": Case("git sparse-checkout set --no-cone /a.py; echo z >>a.py",
                   "D .gitignore M a.py D bare D crlf.txt D d/e/y D data.bin D empty D kept.log D latin D link D run",
                   ("the starting tree ignored them: 2",)),
    "assume_unchanged": Case("git update-index --assume-unchanged a.py --skip-worktree bare; echo z >>a.py; echo z >>bare",
                             "M a.py M bare"),
    "same_size_and_time": Case("touch -r a.py ../t; sed -i s/15/51/ a.py; touch -r ../t a.py", "M a.py"),
    "nested_repository": Case(
        "git init -q sub; echo s >sub/s; git -C sub add s; git -C sub commit -qm s; git init -q sub/in; echo i >sub/in/i",
        "A sub/in/i A sub/s",
    ),
    "nested_unborn": Case("git init -q sub; echo s >sub/s", "A sub/s"),
    "nested_over_tracked": Case("git -C d init -q; git -C d add -A; git -C d commit -qm d; echo n >d/n", "A d/n"),
    "ignored": Case("echo l >new.log; mkdir -p build/deep; echo d >build/deep/d; echo z >>a.py", "M a.py",
                    ("ignored files made since the start: 2: build/deep/d new.log",), same=False),
    "ignored_but_tracked": Case("echo more >>kept.log", "M kept.log"),
    "ignored_but_added": Case("echo l >new.log; git add -f new.log", "A new.log"),
    "ignored_but_committed": Case("mkdir -p build/x; echo l >build/x/l; git add -f build/x; git commit -qm l", "A build/x/l"),
    "ignored_at_start": Case("echo z >>old.log; git add -f old.log build/o; echo z >>a.py", "M a.py",
                             ("the starting tree ignored them: 2: build/o old.log",), same=False),
    "gitignore_less": Case(": >.gitignore; echo z >new.log", "M .gitignore A new.log",
                           ("the starting tree ignored them: 2: build/o old.log",)),
    "gitignore_more": Case("echo '*.tmp' >>.gitignore; echo t >t.tmp; echo '*.py' >>.gitignore; echo z >>a.py",
                           "M .gitignore M a.py", ("made since the start: 1: t.tmp",), same=False),
    "own_exclude": Case("mkdir -p .git/info; echo '*.py' >>.git/info/exclude; echo n >n.py", "A n.py"),
    "configured": Case(
        "git config diff.external /bin/false; git config diff.noprefix true; git config core.autocrlf true; "
        "git config core.quotepath false; git config diff.mnemonicPrefix true; git config core.fileMode false; "
        "git config color.ui always; git config diff.renames copies; git config core.ignoreCase true; "
        "git config diff.context 0; git config core.excludesFile /w/ex; echo '*.py' >/w/ex; git config core.worktree /tmp; "
        "git config core.symlinks false; git config core.hooksPath /nonexistent; git config core.bare true; "
        "mkdir -p .git/info; printf '* -diff\n* text eol=crlf\n' >.git/info/attributes; "
        "printf '[diff]\\n external=/bin/false\\n[core]\\n autocrlf=true\\n excludesFile=/w/ex\\n' >/etc/gitconfig; "
        "cp /etc/gitconfig ~/.gitconfig; echo z >>a.py; echo n >n.py; printf 'x\\r\\n' >crlf.txt; chmod +x bare",
        "M a.py M bare M crlf.txt A n.py",
    ),
    "attributes": Case(
        "printf '*.py -diff\\n*.txt text eol=lf\\n*.bin diff=x\\nlatin working-tree-encoding=UTF-16 ident filter=f\\n"
        "[attr]binary diff\\n' >.gitattributes; git config filter.f.clean 'touch /w/ran; cat'; "
        "git config filter.f.process /bin/false; git config diff.x.textconv 'touch /w/ran; cat'; "
        "git config diff.x.command 'touch /w/ran'; echo z >>a.py; printf 'x\\r\\n' >crlf.txt; echo '$Id$' >latin; "
        "printf '\\000z' >data.bin",
        "A .gitattributes M a.py M crlf.txt M data.bin M latin",
    ),
    "pipe_for_a_file": Case("rm a.py; mkfifo a.py pipe; echo z >>bare", "M bare", ("git could not take",), same=False),
    "everything_removed": Case("rm -rf /w/r/* /w/r/.g*", "D .gitignore D a.py D bare D crlf.txt D d/e/y D d/x D data.bin "
                               "D empty D kept.log D latin D link D run D untracked", same=False),
}


@pytest.fixture
def clean_machine(sandbox: Sandbox) -> Iterator[None]:
    """What a case writes outside its checkout is gone afterwards."""
    yield
    sandbox.exec("rm -rf /w /etc/gitconfig ~/.gitconfig", timeout_s=30, workdir="/")


def begin(sandbox: Sandbox, extra: str = "") -> Workspace:
    made = sandbox.exec(START + extra + COPY, timeout_s=30)
    assert made.exit_code == 0, made.stderr
    return seed_workspace(sandbox, "/w/r", made.stdout.decode().strip(), timeout_s=30)


def act(sandbox: Sandbox, commands: str) -> None:
    done = sandbox.exec(f"cd /w/r; {AGENT}{commands}", timeout_s=30)
    assert done.exit_code == 0, done.stderr


def listed(text: str) -> list[tuple[str, str]]:
    import shlex

    words = shlex.split(text)
    return sorted(zip(words[::2], words[1::2], strict=True), key=lambda pair: pair[1])


@pytest.mark.usefixtures("clean_machine")
@pytest.mark.parametrize("kind", KINDS)
def test_the_patch_makes_the_final_tree_out_of_the_starting_tree(sandbox: Sandbox, kind: str) -> None:
    """Plain `git apply` on a copy of the start gives the agent's files and the recorded tree, for every kind."""
    case = KINDS[kind]
    workspace = begin(sandbox, case.start)
    act(sandbox, f"{case.act}\n({STATE}) >/w/before 2>&1 || :")
    patch = capture_patch(sandbox, workspace, timeout_s=30)

    assert [(file.status, file.path) for file in sorted(patch.facts.files, key=lambda f: f.path)] == listed(case.files)
    assert len(patch.facts.notes) == len(case.notes)
    assert all(part in note for part, note in zip(case.notes, patch.facts.notes, strict=True)), patch.facts.notes
    assert patch.facts.bytes == len(patch.data)

    gone, there = (
        b"".join(f.path.encode("utf-8", "surrogateescape") + b"\0" for f in patch.facts.files if (f.status == "D") == dead)
        for dead in (True, False)
    )
    sandbox.write_files(
        {"/w/patch.diff": patch.data, "/w/listing.py": LISTING.encode(), "/w/deleted": gone, "/w/present": there}
    )
    applied = sandbox.exec(APPLY, timeout_s=30, env={"START": workspace.start_tree})
    assert applied.exit_code == 0, applied.stderr
    tree, *differences = applied.stdout.decode("utf-8", "replace").splitlines()
    assert tree == patch.facts.final_tree
    assert not (case.same and differences)
    assert (patch.facts.final_tree == workspace.start_tree) == (patch.data == b"")


SUBMODULE = """
git init -q -b main ../lib; (cd ../lib; echo lib >f; git add f; git commit -qm lib)
git -c protocol.file.allow=always submodule --quiet add /w/lib lib; git commit -qm lib -- .gitmodules lib
"""


@pytest.mark.usefixtures("clean_machine")
@pytest.mark.parametrize(
    ("commands", "note"),
    [
        ("git init -q lib; git -C lib add -A; git -C lib commit -qm moved; git add lib", "files changed inside the submodule lib"),
        ("sleep 0.01; echo z >>lib/f", "files changed inside the submodule lib"),
        ("rm -rf lib", "changed submodules: 1: lib"),
        ("rm -rf lib; echo z >lib", "changed submodules: 1: lib"),
        ("git rm -qf --cached lib; rm -rf lib; ln -s d lib", "changed submodules: 1: lib"),
    ],
)
def test_changes_of_submodules_are_told_and_not_captured(sandbox: Sandbox, commands: str, note: str) -> None:
    """A patch cannot carry a submodule: the rest is captured, and a note says what was not."""
    workspace = begin(sandbox, SUBMODULE)
    act(sandbox, f"{commands}; echo z >>a.py")
    patch = capture_patch(sandbox, workspace, timeout_s=30)
    assert [file.path for file in patch.facts.files] == ["a.py"]
    assert any(note in said for said in patch.facts.notes), patch.facts.notes


@pytest.mark.usefixtures("clean_machine")
def test_the_agents_environment_and_user_play_no_part(sandbox: Sandbox) -> None:
    """A checkout that another user owns is captured by root, without git's doubts about ownership."""
    workspace = begin(sandbox, "chown -R 1000:1000 /w")
    done = sandbox.exec("cd /w/r && echo z >>a.py && git add -A", timeout_s=30, user="1000")
    assert done.exit_code == 0, done.stderr
    assert [file.path for file in capture_patch(sandbox, workspace, timeout_s=30).facts.files] == ["a.py"]


@pytest.mark.usefixtures("clean_machine")
def test_a_working_directory_that_is_gone_counts_as_deleted_files(sandbox: Sandbox) -> None:
    """Removing the checkout itself is the agent's work too, not a failure of ours."""
    workspace = begin(sandbox)
    act(sandbox, "cd /; rm -rf /w/r")
    patch = capture_patch(sandbox, workspace, timeout_s=30)
    assert {file.status for file in patch.facts.files} == {"D"}
    assert "is gone" in patch.facts.notes[0]


@pytest.mark.usefixtures("clean_machine")
def test_a_patch_beyond_the_limit_is_refused_whole(sandbox: Sandbox) -> None:
    """No part of a patch is passed off as the patch; the error names size, limit and container."""
    workspace = begin(sandbox)
    act(sandbox, "head -c 200000 /dev/urandom >big")
    with pytest.raises(OutputLimit, match="limit 100000 bytes") as caught:
        capture_patch(sandbox, workspace, timeout_s=30, max_bytes=100_000)
    assert caught.value.container == sandbox.name
    assert capture_patch(sandbox, workspace, timeout_s=30).facts.files[0].path == "big"


@pytest.mark.usefixtures("clean_machine")
@pytest.mark.parametrize(
    ("tampering", "why"),
    [
        ("rm -rf /swe-pytest", "cannot be read"),
        ("rm -f /swe-pytest/start/objects/pack/*", "cannot be read"),
        ("printf rubbish | dd of=$(ls /swe-pytest/start/objects/pack/*.pack) conv=notrunc seek=12 bs=1 2>/dev/null", ""),
        ("printf '#!/bin/sh\\necho nonsense\\n' >/usr/local/bin/git; chmod +x /usr/local/bin/git", ""),
        ("printf '#!/bin/sh\\nexit 1\\n' >/usr/local/bin/git; chmod +x /usr/local/bin/git", "cannot be read"),
    ],
)
def test_a_lost_starting_tree_is_a_failed_capture(sandbox: Sandbox, tampering: str, why: str) -> None:
    """Where start or git have been tampered with there is no patch, never a wrong one."""
    workspace = begin(sandbox)
    act(sandbox, f"echo z >>a.py; {tampering}")
    try:
        with pytest.raises(CaptureFailed) as caught:
            capture_patch(sandbox, workspace, timeout_s=30)
    finally:
        sandbox.exec("rm -f /usr/local/bin/git", timeout_s=30)
    assert caught.value.kind == "capture_failed" and why in str(caught.value)
    assert sandbox.name in str(caught.value)


@pytest.mark.usefixtures("clean_machine")
def test_a_capture_ends_by_its_deadline(sandbox: Sandbox) -> None:
    """Capturing is bounded: the sandbox's own error passes through."""
    workspace = begin(sandbox)
    act(sandbox, "printf '#!/bin/sh\\nsleep 60\\n' >/usr/local/bin/git; chmod +x /usr/local/bin/git")
    try:
        with pytest.raises(CommandTimeout):
            capture_patch(sandbox, workspace, timeout_s=0.5)
    finally:
        sandbox.exec("rm -f /usr/local/bin/git", timeout_s=30)
