"""Script runs: the result is the script's own, complete, and nothing is left, on real containers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from swe_pytest.sandbox import docker_container, stream
from swe_pytest.sandbox.contract import MIB, SandboxSpec
from swe_pytest.sandbox.docker import DockerProvider
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import CreateFailed, EngineUnreachable, ImageMissing, OutOfMemory, SandboxGone
from swe_pytest.sandbox.ownership import Ownership
from swe_pytest.sandbox.sweep import list_ours
from tests.sandbox.faulty_engine import FaultyEngine


@pytest.fixture
def spec(base_image: str) -> SandboxSpec:
    return SandboxSpec(base_image, "verifier", "case", memory=128 * MIB, pids=64)


@pytest.fixture
def provider(engine: Engine, ownership: Ownership) -> DockerProvider:
    return DockerProvider(engine, ownership)


@pytest.fixture
def ours(engine: Engine, ownership: Ownership) -> Callable[[], list[str]]:
    """The names of this run's containers, by the engine itself."""
    return lambda: sorted(thing.name for thing in list_ours(engine, ownership.run_id))


def later(
    ours: Callable[[], list[str]], fault: Callable[[str], object], delay_s: float = 1.0
) -> threading.Thread:
    """Do something to the run's only container as soon as it is there and has had some time."""

    def strike() -> None:
        while not ours():
            time.sleep(0.02)
        time.sleep(delay_s)
        fault(ours()[0])

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    return thread


def test_runs_and_goes(provider: DockerProvider, spec: SandboxSpec, ours: Callable[[], list[str]]) -> None:
    """Status, stdout and stderr come back apart; the files were there; the container is gone."""
    files = {"patch.diff": b"\0\r\n\xff", "deep/odd \n'name": b"x" * 100_000}
    script = "cat /swe-pytest/patch.diff; echo control >&2; cat /swe-pytest/deep/odd* | wc -c; pwd; exit 7"
    result = provider.run_script(replace(spec, workdir="/work"), script, files, timeout_s=20)
    assert result.output == b"\0\r\n\xff100000\n/work\n"
    assert (result.exit_code, result.control) == (7, b"control\n")
    assert not result.timed_out
    assert not result.truncated
    assert result.container.startswith("swe-pytest-")
    assert ours() == []


def test_environment_of_the_script(provider: DockerProvider, spec: SandboxSpec) -> None:
    """No input, the spec's environment, /bin/sh as $0, no arguments, and interrupts that work in its children."""
    script = """
    cat; echo "$A|$0|$#"; ls -A /swe-pytest
    python3 -c 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'
    """
    result = provider.run_script(replace(spec, env={"A": "a b"}), script, {}, timeout_s=20)
    assert result.output == b"a b|/bin/sh|0\nTrue\n"


def test_script_of_any_length_and_letters(provider: DockerProvider, spec: SandboxSpec) -> None:
    """A script longer than an argument may be, in any alphabet, runs as it is written."""
    text = "ÁȈé\u0301 \u0085\u0088 '\"'\"' \\n %s $x `y` \U0001f600"
    script = "cat <<'END'\n" + text * 10_000 + "\nEND\n: '\"' ;exit 4"
    assert len(script.encode()) > 256 * 1024
    result = provider.run_script(spec, script, {}, timeout_s=20)
    assert result.output.decode() == text * 10_000 + "\n"
    assert result.exit_code == 4


def test_wrong_script_is_a_result(provider: DockerProvider, spec: SandboxSpec) -> None:
    """A script that the shell cannot read has the shell's status and message."""
    result = provider.run_script(spec, "if true; then", {}, timeout_s=20)
    assert result.exit_code not in (0, None)
    assert b"yntax" in result.control


def test_the_script_cannot_be_read_by_others(provider: DockerProvider, spec: SandboxSpec) -> None:
    """What the script says is found in no file, argument or environment while it runs."""
    script = """
    secret_word=$(echo OXPXEXN | tr -d X)
    cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c "secret_wor[d]" || true
    grep -rl "secret_wor[d]" /swe-pytest /tmp /root /var/tmp || true
    """
    assert provider.run_script(spec, script, {"x": b""}, timeout_s=20).output == b"0\n"


def test_plain_user(provider: DockerProvider, spec: SandboxSpec) -> None:
    """A plain user's script reads its files and may write next to them."""
    script = "cat /swe-pytest/x && echo y >/swe-pytest/y && id -u"
    result = provider.run_script(replace(spec, user="1234:1234"), script, {"x": b"x\n"}, timeout_s=20)
    assert (result.exit_code, result.output) == (0, b"x\n1234\n")


def test_too_much_output(provider: DockerProvider, spec: SandboxSpec) -> None:
    """Output beyond the limit leaves head and tail; status and control are complete all the same."""
    result = provider.run_script(
        spec, "seq 1 200000; seq 1 200000 >&2; exit 3", {}, timeout_s=30, max_output=10_000
    )
    assert (result.exit_code, result.truncated) == (3, True)
    for part in (result.output, result.control):
        assert part.startswith(b"1\n2\n")
        assert b"bytes left out here]" in part
        assert part.rstrip(b"\n").endswith(b"\n199999\n200000")


def test_deadline(provider: DockerProvider, spec: SandboxSpec, ours: Callable[[], list[str]]) -> None:
    """At the deadline the container is killed: timed_out, no status, and all that was written until then."""
    began = time.monotonic()
    script = "trap '' TERM; echo early; echo control >&2; (setsid sleep 3001 &); sleep 3000"
    result = provider.run_script(spec, script, {}, timeout_s=1)
    assert (result.timed_out, result.exit_code) == (True, None)
    assert (result.output, result.control) == (b"early\n", b"control\n")
    assert 1 <= result.duration_s < 5
    assert time.monotonic() - began < 10
    assert ours() == []


def test_background_children_do_not_hold_the_end(provider: DockerProvider, spec: SandboxSpec) -> None:
    """The end of the script is the end, whatever it left running with its output open."""
    result = provider.run_script(spec, "sleep 3000 & setsid sleep 3001 & echo done", {}, timeout_s=60)
    assert (result.exit_code, result.output) == (0, b"done\n")
    assert result.duration_s < 10


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 137", 137),
        ("sh -c 'kill -9 -1'", 137),
        ("kill -9 -1; echo on", 0),
        ("sh -c 'kill -9 $$'; echo on", 0),
    ],
)
def test_own_kills_are_results(provider: DockerProvider, spec: SandboxSpec, script: str, status: int) -> None:
    """Status 137 that a script gives itself is its own; no process of it can end the first process."""
    assert provider.run_script(spec, script, {}, timeout_s=20).exit_code == status


def test_forged_end_is_not_believed(provider: DockerProvider, spec: SandboxSpec) -> None:
    """Text like the closing word, from the script, is the script's text."""
    forged = f"{7:032x} 0 0"
    result = provider.run_script(
        spec, f"echo; echo '{forged}' >&2; kill -TERM 1; kill -9 1; exit 5", {}, timeout_s=20
    )
    assert result.exit_code == 5
    assert result.control == f"{forged}\n".encode()


@pytest.mark.parametrize("fault", ["kill", "pause", "remove"])
def test_ended_by_another_hand(
    provider: DockerProvider,
    spec: SandboxSpec,
    engine: Engine,
    fault: str,
    ours: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container that somebody kills, pauses or removes is SandboxGone long before the deadline; none is left."""
    monkeypatch.setattr(stream, "SILENCE_S", 0.5)
    faults: dict[str, Callable[[str], object]] = {
        "kill": lambda name: engine.call("POST", f"/containers/{name}/kill"),
        "pause": lambda name: engine.call("POST", f"/containers/{name}/pause"),
        "remove": lambda name: engine.call("DELETE", f"/containers/{name}", {"force": "1"}),
    }
    later(ours, faults[fault])
    began = time.monotonic()
    with pytest.raises(SandboxGone):
        provider.run_script(spec, "echo PASSED; sleep 50", {}, timeout_s=40)
    assert time.monotonic() - began < 15
    assert ours() == []


@pytest.mark.parametrize(
    "script", ["exec python3 -c 'bytearray(400 * 1024**2)'", "python3 -c 'bytearray(400 * 1024**2)'; exit 0"]
)
def test_out_of_memory(
    provider: DockerProvider, spec: SandboxSpec, script: str, ours: Callable[[], list[str]]
) -> None:
    """A kill by the memory limit is OutOfMemory, also where the script goes on: its log is not complete."""
    with pytest.raises(OutOfMemory, match="134217728"):
        provider.run_script(spec, script, {}, timeout_s=30)
    assert ours() == []


def test_time_to_live(provider: DockerProvider, spec: SandboxSpec) -> None:
    """A script that nobody ends is ended by its container's time-to-live."""
    result = provider.run_script(replace(spec, ttl_s=2), "setsid sleep 3000", {}, timeout_s=30)
    assert result.exit_code == 137
    assert 1.5 < result.duration_s < 10


def test_image_that_cannot_unpack(
    provider: DockerProvider, spec: SandboxSpec, ours: Callable[[], list[str]]
) -> None:
    """An image without the few programs that are needed is CreateFailed, which names them; no test was run."""
    with pytest.raises(CreateFailed, match=r"tar, cat and rm"):
        provider.run_script(replace(spec, env={"PATH": "/nowhere"}), "echo ran", {"x": b""}, timeout_s=20)
    assert ours() == []


def test_missing_image(provider: DockerProvider, spec: SandboxSpec, ours: Callable[[], list[str]]) -> None:
    """An absent image is ImageMissing."""
    with pytest.raises(ImageMissing, match="swe-pytest/none:1"):
        provider.run_script(replace(spec, image="swe-pytest/none:1"), "true", {}, timeout_s=20)
    assert ours() == []


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../b", "", ".begin"])
def test_files_stay_in_their_folder(provider: DockerProvider, spec: SandboxSpec, path: str) -> None:
    """A path that is not below /swe-pytest is a mistake of the caller."""
    with pytest.raises(ValueError, match="below /swe-pytest"):
        provider.run_script(spec, "true", {path: b""}, timeout_s=20)


@pytest.mark.parametrize("path", [r"/containers/create$", r"/attach$", r"/start$"])
def test_a_bad_moment_of_the_engine(
    engine: Engine,
    ownership: Ownership,
    spec: SandboxSpec,
    path: str,
    ours: Callable[[], list[str]],
    tmp_path: Path,
) -> None:
    """A single failure while the container is made is got over, and nothing of the first attempt stays."""
    with FaultyEngine(engine, tmp_path / "faulty.sock") as faulty:
        failing = faulty.when("POST", path, faulty.refusal(500, "a bad moment"), times=1)
        result = DockerProvider(faulty.engine, ownership).run_script(spec, "echo ran", {}, timeout_s=20)
    assert failing.hits == 1
    assert result.output == b"ran\n"
    assert ours() == []


def test_connection_cut(
    engine: Engine, ownership: Ownership, spec: SandboxSpec, ours: Callable[[], list[str]], tmp_path: Path
) -> None:
    """Output that breaks off while the script still runs is no result, though the engine answers."""
    with FaultyEngine(engine, tmp_path / "faulty.sock") as faulty:
        later(ours, lambda name: faulty.cut())
        with pytest.raises(SandboxGone, match="broke off"):
            DockerProvider(faulty.engine, ownership).run_script(spec, "sleep 50", {}, timeout_s=40)
    assert ours() == []


def test_engine_gone(
    engine: Engine,
    ownership: Ownership,
    spec: SandboxSpec,
    ours: Callable[[], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An engine that goes while the script runs is EngineUnreachable, and its error says what may be left."""
    monkeypatch.setattr(docker_container, "REMOVE_S", 0.5)
    with FaultyEngine(engine, tmp_path / "faulty.sock") as faulty:
        down = faulty.down()
        striking = later(ours, lambda name: down.__enter__())
        with pytest.raises(EngineUnreachable) as raised:
            DockerProvider(faulty.engine, ownership).run_script(spec, "sleep 50", {}, timeout_s=40)
        striking.join()
        down.__exit__(None, None, None)
    assert "clean-up failed" in raised.value.__notes__[0]
