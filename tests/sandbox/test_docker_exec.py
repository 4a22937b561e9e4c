"""Commands in a sandbox: each promise of Sandbox.exec, on real containers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_pytest.sandbox import stream
from swe_pytest.sandbox.contract import MIB, Sandbox, SandboxSpec
from swe_pytest.sandbox.docker import DockerProvider
from swe_pytest.sandbox.docker_api import ExecState
from swe_pytest.sandbox.docker_exec import DockerSandbox, _Ended
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import (
    CommandFailed,
    CommandTimeout,
    EngineUnreachable,
    OutOfMemory,
    OutputLimit,
    SandboxGone,
)
from swe_pytest.sandbox.ownership import Ownership, current_owner, new_run_id
from swe_pytest.sandbox.stream import Capture
from swe_pytest.sandbox.sweep import sweep_run
from swe_pytest.sandbox.witness import Witness
from tests.sandbox.faulty_engine import FaultyEngine

# Children of every kind that is known to outlive something, then the command itself.
TREE = r"""
sleep 3001 &
(sleep 3002 & ) &
setsid sleep 3003 &
nohup sleep 3004 >/dev/null 2>&1 &
(trap '' TERM HUP INT; sleep 3005; sleep 3006) &
setsid sh -c 'trap "" TERM; (setsid sleep 3007 >/dev/null 2>&1 &); sleep 3008' &
sleep 3000
"""


@pytest.fixture(scope="module")
def sandbox(engine: Engine, base_image: str) -> Iterator[Sandbox]:
    """One sandbox for all tests that leave it as it was."""
    mark = Ownership(new_run_id(), current_owner(), "exec")
    spec = SandboxSpec(base_image, "task", "case", memory=128 * MIB, pids=64)
    with Witness(engine, mark) as witness, DockerProvider(engine, mark, None, witness).open(spec) as opened:
        yield opened
    assert not sweep_run(engine, mark.run_id, within_s=30), "leaving the context removes the sandbox"


@pytest.fixture
def spec(base_image: str) -> SandboxSpec:
    return SandboxSpec(base_image, "task", "case")


@pytest.fixture
def provider(engine: Engine, ownership: Ownership) -> DockerProvider:
    return DockerProvider(engine, ownership)


def processes(engine: Engine, sandbox: Sandbox) -> list[str]:
    """The commands of all processes in the container, as the engine (not the sandbox) sees them."""
    client = engine.client()
    rows = client.top(sandbox.id)["Processes"]
    client.close()
    return sorted(row[-1] for row in rows)


def test_tells_status_and_both_outputs_apart(sandbox: Sandbox) -> None:
    """Status, stdout and stderr of a command come back apart, and a non-zero status is a result."""
    result = sandbox.exec("echo out; echo err >&2; exit 3", timeout_s=10)
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert not result.truncated
    assert 0 < result.duration_s < 10


def test_runs_a_sequence_as_it_is(sandbox: Sandbox) -> None:
    """A sequence is an argument vector: no shell looks at it."""
    assert sandbox.exec(["printf", "%s|", "$HOME", "a b", "'", ""], timeout_s=10).stdout == b"$HOME|a b|'||"


@pytest.mark.parametrize("argv", [["no-such-command"], ["/etc/passwd"]])
def test_a_command_that_cannot_be_run_has_a_status(sandbox: Sandbox, argv: list[str]) -> None:
    """A program that is missing or not executable is the command's failure, with a shell's status for it."""
    assert sandbox.exec(argv, timeout_s=10).exit_code in (126, 127)


def test_environment_workdir_and_user(engine: Engine, ownership: Ownership, base_image: str) -> None:
    """Environment, working directory and user are those of the spec, and each command may have its own."""
    spec = SandboxSpec(
        base_image, "task", "case", workdir="/work", user="1234:1234", env={"A": "spec", "B": "b c=d"}
    )
    show = 'echo "$A,$B,$PWD,$(id -u)"'
    with DockerProvider(engine, ownership).open(spec) as sandbox:
        assert sandbox.exec(show, timeout_s=10).stdout == b"spec,b c=d,/work,1234\n"
        own = sandbox.exec(show, timeout_s=10, env={"A": "own"}, workdir="/tmp", user="root")
        assert own.stdout == b"own,b c=d,/tmp,0\n"


def test_deadline_ends_the_whole_tree(sandbox: Sandbox, engine: Engine) -> None:
    """At the deadline the command and all its children go, however they hide; the sandbox stays usable."""
    idle = processes(engine, sandbox)
    began = time.monotonic()
    with pytest.raises(CommandTimeout, match=r"1.5 s") as raised:
        sandbox.exec(TREE, timeout_s=1.5)
    assert time.monotonic() - began < 6
    assert raised.value.container == sandbox.name
    left = [command for command in processes(engine, sandbox) if "sleep 300" in command]
    assert left == []
    assert len(processes(engine, sandbox)) == len(idle)
    assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"


def test_the_tree_would_have_lived_on(sandbox: Sandbox, engine: Engine) -> None:
    """Without a deadline the same tree is there, so the test above can fail; end_processes ends it too."""
    sandbox.exec(TREE.replace("sleep 3000", "sleep 0.5"), timeout_s=20)
    assert len([command for command in processes(engine, sandbox) if "sleep 300" in command]) >= 6
    sandbox.end_processes()
    assert not [command for command in processes(engine, sandbox) if "sleep 300" in command]


def test_deadline_ends_a_fork_bomb(provider: DockerProvider, base_image: str, engine: Engine) -> None:
    """A fork bomb at the limit of processes, where no other process can begin, is ended like anything else."""
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    with provider.open(SandboxSpec(base_image, "task", "case", pids=64)) as sandbox:
        for _ in range(3):
            with pytest.raises(CommandTimeout):
                sandbox.exec(["python3", "-c", bomb], timeout_s=0.7)
            assert not [command for command in processes(engine, sandbox) if "python3" in command]
            assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"


@pytest.mark.parametrize("failures", [1, 5])
def test_command_that_the_engine_cannot_begin(
    provider: DockerProvider, spec: SandboxSpec, failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that the engine could not begin is tried again; if that does not help it is SandboxGone.

    The engine's answer is made up here, as a real one comes only by chance.
    """
    real = DockerSandbox._converse
    left = failures

    def unlucky(*given: object, **named: object) -> object:
        nonlocal left
        ended = real(*given, **named)  # type: ignore[arg-type]
        left -= 1
        if left < 0:
            return ended
        told = Capture(1000)
        told.add(memoryview(b"OCI runtime exec failed: exec failed: read init-p: connection reset by peer"))
        return _Ended(ExecState(False, 126, 0), 126, told, Capture(0))

    with provider.open(spec) as sandbox:
        monkeypatch.setattr(DockerSandbox, "_converse", unlucky)
        if failures == 1:
            assert sandbox.exec("echo ran", timeout_s=10).stdout == b"ran\n"
        else:
            with pytest.raises(SandboxGone, match="connection reset"):
                sandbox.exec("echo ran", timeout_s=10)


def test_deadline_counts_for_a_chatty_command(sandbox: Sandbox) -> None:
    """A command that never stops writing meets its deadline like a silent one."""
    began = time.monotonic()
    with pytest.raises(CommandTimeout):
        sandbox.exec("while :; do echo y; done", timeout_s=1)
    assert time.monotonic() - began < 6


def test_survives_a_command_that_kills_everything(sandbox: Sandbox) -> None:
    """`kill -9 -1` inside ends neither the first process nor the sandbox."""
    sandbox.exec("kill -9 -1", timeout_s=10)
    assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"


def test_first_process_can_end_everything(sandbox: Sandbox, engine: Engine) -> None:
    """Where no new process can begin, a signal to the first one still ends all the others."""
    sandbox.exec("sleep 3001 >/dev/null 2>&1 & setsid sleep 3002 >/dev/null 2>&1 &", timeout_s=10)
    assert len([command for command in processes(engine, sandbox) if "sleep 300" in command]) == 2
    engine.call("POST", f"/containers/{sandbox.id}/kill", {"signal": "USR1"})
    give_up = time.monotonic() + 10
    while any("sleep 300" in command for command in processes(engine, sandbox)):
        assert time.monotonic() < give_up
    assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"


def test_leaves_no_zombies(sandbox: Sandbox) -> None:
    """The first process reaps what is orphaned."""
    sandbox.exec("for i in 1 2 3 4 5; do (sleep 0.1 &); done", timeout_s=10)
    states = "sleep 0.5; cat /proc/[0-9]*/stat | grep -c ') Z ' || true"
    assert sandbox.exec(states, timeout_s=10).stdout == b"0\n"


def test_big_input_and_output_at_once(sandbox: Sandbox) -> None:
    """Much input to a command that writes much at the same time blocks neither side, and no byte changes."""
    data = bytes(range(256)) * (40 * 4096)
    result = sandbox.exec("cat", timeout_s=60, stdin=data, max_output=64 * MIB)
    assert result.stdout == data
    assert not result.truncated


def test_input_that_nobody_reads(sandbox: Sandbox) -> None:
    """A command may end without reading its input."""
    result = sandbox.exec("echo done", timeout_s=30, stdin=b"x" * (8 * MIB))
    assert (result.exit_code, result.stdout) == (0, b"done\n")


def test_no_input_is_an_empty_one(sandbox: Sandbox) -> None:
    """Without input a command reads an end, and does not wait."""
    assert sandbox.exec("cat; echo end", timeout_s=5).stdout == b"end\n"


def test_bytes_arrive_unchanged(sandbox: Sandbox) -> None:
    """Output is bytes: neither characters cut by slow writes, nor NUL, nor CR LF are touched."""
    write = r"printf '\303'; sleep 0.2; printf '\251\r\n\0\377\200'; printf 'e\0\n' >&2"
    result = sandbox.exec(write, timeout_s=10)
    assert result.stdout == b"\xc3\xa9\r\n\0\xff\x80"
    assert result.stderr == b"e\0\n"


def test_too_much_output_keeps_head_and_tail(sandbox: Sandbox) -> None:
    """Of too much output head and tail are kept around a gap that says how much is missing; all is read."""
    result = sandbox.exec("seq 1 200000; echo last >&2; exit 4", timeout_s=30, max_output=1000)
    whole = b"".join(b"%d\n" % number for number in range(1, 200001))
    gap = b"\n[swe-pytest: %d bytes left out here]\n" % (len(whole) - 1000)
    assert result.stdout == whole[:500] + gap + whole[-500:]
    assert (result.exit_code, result.stderr, result.truncated) == (4, b"last\n", True)


def test_output_limit_is_an_error_when_asked_for(sandbox: Sandbox) -> None:
    """With overflow="raise" a part is no result; the command has run to its end all the same."""
    with pytest.raises(OutputLimit, match="1000 bytes"):
        sandbox.exec("seq 1 100000; touch /tmp/ran-on", timeout_s=30, max_output=1000, overflow="raise")
    assert sandbox.exec("test -e /tmp/ran-on", timeout_s=10).exit_code == 0


def test_background_child_does_not_hold_the_command(sandbox: Sandbox) -> None:
    """A background child that keeps the output open does not keep the command from being over."""
    began = time.monotonic()
    result = sandbox.exec("sleep 300 & echo parent", timeout_s=60)
    assert (result.exit_code, result.stdout) == (0, b"parent\n")
    assert time.monotonic() - began < 10
    sandbox.end_processes()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("exec python3 -c 'bytearray(400 * 1024**2)'", id="the command itself"),
        pytest.param("python3 -c 'bytearray(400 * 1024**2)'; exit 0", id="a child, status hidden"),
        pytest.param(
            "{ python3 -c 'bytearray(400 * 1024**2)'; } >/dev/null 2>&1; sleep 0.3; echo fine",
            id="a child, status and message hidden",
        ),
    ],
)
def test_out_of_memory_is_told(sandbox: Sandbox, command: str) -> None:
    """A kill by the memory limit is OutOfMemory, also where a shell hides it; the sandbox stays usable."""
    with pytest.raises(OutOfMemory, match="134217728") as raised:
        sandbox.exec(command, timeout_s=30)
    assert raised.value.container == sandbox.name
    assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"


@pytest.mark.parametrize(
    "command", ["kill -9 $$", "(kill -9 $(exec sh -c 'echo $PPID')); echo Killed >&2; exit 137"]
)
def test_plain_kill_is_not_out_of_memory(sandbox: Sandbox, command: str) -> None:
    """Status 137 without a kill by the memory limit is the command's own end."""
    assert sandbox.exec(command, timeout_s=10).exit_code == 137


def test_process_limit_is_the_commands_trouble(sandbox: Sandbox) -> None:
    """At the limit of processes the command fails, not the sandbox."""
    result = sandbox.exec("i=0; while [ $i -lt 100 ]; do sleep 300 & i=$((i+1)); done", timeout_s=30)
    assert result.exit_code != 0
    assert b"fork" in result.stderr
    sandbox.end_processes()
    assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"


def test_paused_before_a_command(provider: DockerProvider, spec: SandboxSpec) -> None:
    """A command in a paused sandbox is SandboxGone, and the paused container is removed all the same."""
    with provider.open(spec) as sandbox:
        sandbox.pause()
        with pytest.raises(SandboxGone, match="paused"):
            sandbox.exec("true", timeout_s=10)


@pytest.mark.parametrize(
    ("fault", "command"),
    [("pause", "sleep 60"), ("kill", "sleep 60"), ("remove", "while :; do echo y; done")],
)
def test_gone_in_the_middle_of_a_command(
    provider: DockerProvider,
    spec: SandboxSpec,
    engine: Engine,
    fault: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sandbox that is paused, killed or removed while a command runs is SandboxGone, long before its deadline."""
    monkeypatch.setattr(stream, "SILENCE_S", 0.5)
    with provider.open(spec) as sandbox:
        faults = {
            "pause": sandbox.pause,
            "kill": sandbox.kill,
            "remove": lambda: engine.call("DELETE", f"/containers/{sandbox.id}", {"force": "1"}),
        }
        threading.Timer(1.0, faults[fault]).start()
        began = time.monotonic()
        with pytest.raises(SandboxGone) as raised:
            sandbox.exec(command, timeout_s=50)
        assert time.monotonic() - began < 10
        assert raised.value.container == sandbox.name
        with pytest.raises(SandboxGone):
            sandbox.exec("true", timeout_s=5)


def test_deadline_in_a_paused_sandbox(provider: DockerProvider, spec: SandboxSpec, engine: Engine) -> None:
    """Where the end of the processes cannot be confirmed, the sandbox is removed and SandboxGone raised."""
    with provider.open(spec) as sandbox:
        threading.Timer(0.5, sandbox.pause).start()
        with pytest.raises(SandboxGone, match="paused"):
            sandbox.exec("sleep 60", timeout_s=1.5)
        assert engine.call("GET", f"/containers/{sandbox.id}/json").status == 404


def test_engine_gone_in_the_middle_of_a_command(
    engine: Engine, ownership: Ownership, spec: SandboxSpec, tmp_path: Path
) -> None:
    """A stream that ends because the engine went is EngineUnreachable, not the end of the command."""
    with FaultyEngine(engine, tmp_path / "faulty.sock") as faulty:
        with DockerProvider(faulty.engine, ownership).open(spec) as sandbox:
            down = faulty.down()
            timer = threading.Timer(1.0, down.__enter__)
            timer.start()
            with pytest.raises(EngineUnreachable):
                sandbox.exec("sleep 5", timeout_s=50)
            timer.join()
            down.__exit__(None, None, None)
        assert engine.call("GET", f"/containers/{sandbox.id}/json").status == 404


def test_connection_cut_in_the_middle_of_a_command(
    engine: Engine, ownership: Ownership, spec: SandboxSpec, tmp_path: Path
) -> None:
    """A stream that ends while the command still runs is no result, though the engine answers."""
    with (
        FaultyEngine(engine, tmp_path / "faulty.sock") as faulty,
        DockerProvider(faulty.engine, ownership).open(spec) as sandbox,
    ):
        threading.Timer(1.0, faulty.cut).start()
        with pytest.raises(SandboxGone, match="broke off"):
            sandbox.exec("sleep 20", timeout_s=50)


def test_engine_that_does_not_answer(
    engine: Engine, ownership: Ownership, spec: SandboxSpec, tmp_path: Path
) -> None:
    """An engine that accepts a request and stays silent is EngineUnreachable after the call's bound."""
    with (
        FaultyEngine(engine, tmp_path / "faulty.sock") as faulty,
        DockerProvider(faulty.engine, ownership, call_timeout_s=1).open(spec) as sandbox,
    ):
        silent = faulty.when("POST", r"/exec$", faulty.HANG)
        with pytest.raises(EngineUnreachable, match="1 s"):
            sandbox.exec("true", timeout_s=50)
        silent.release()


def test_written_files_are_read_back(sandbox: Sandbox) -> None:
    """Files with odd names and any bytes arrive as they are, with the mode asked for and their folders."""
    files = {
        "/tmp/odd/-rf": b"dash",
        "/tmp/odd/a b\tc\n*?'\"\\$(x)": b"\r\n\0\xff",
        "/tmp/odd/Á\u0301\U0001f600": b"",
        "/tmp/odd/latin-\udce9": b"not utf-8",
        "/tmp/odd/" + "/".join(["long" * 20] * 4): bytes(range(256)) * 5000,
    }
    sandbox.write_files(files, mode=0o751)
    for path, content in files.items():
        assert sandbox.read_file(path) == content
    assert sandbox.exec("stat -c %a%u /tmp/odd/-rf", timeout_s=10).stdout == b"7510\n"


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/folder/", ""])
def test_only_absolute_paths_are_written(sandbox: Sandbox, path: str) -> None:
    """A path that is not absolute, or not a file's, is a mistake of the caller."""
    with pytest.raises(ValueError, match="absolute"):
        sandbox.write_files({path: b""})


def test_files_that_cannot_be_written_or_read(sandbox: Sandbox) -> None:
    """A read-only place, a missing file, a folder and a file that is too big are errors with their reason."""
    with pytest.raises(CommandFailed, match="swe-pytest-x"):
        sandbox.write_files({"/proc/swe-pytest-x": b""})
    with pytest.raises(CommandFailed, match="no such regular file"):
        sandbox.read_file("/nowhere")
    with pytest.raises(CommandFailed, match="no such regular file"):
        sandbox.read_file("/etc")
    with pytest.raises(OutputLimit, match="10 bytes"):
        sandbox.read_file("/etc/passwd", max_bytes=10)
    assert len(sandbox.read_file("/etc/passwd")) > 10
