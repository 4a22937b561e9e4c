"""Making and removing containers: what is made cannot be orphaned, whatever the engine does."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from swe_pytest.sandbox import docker_container
from swe_pytest.sandbox.contract import MIB, SandboxSpec
from swe_pytest.sandbox.docker import DockerProvider
from swe_pytest.sandbox.docker_api import DockerApi
from swe_pytest.sandbox.docker_container import CAPABILITIES
from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import CreateFailed, EngineUnreachable, ImageMissing, Leaked, SandboxGone
from swe_pytest.sandbox.ownership import Ownership
from swe_pytest.sandbox.sweep import list_ours
from swe_pytest.sandbox.witness import Witness
from tests.sandbox.faulty_engine import FaultyEngine, Kind

CREATE = r"/containers/create$"
START = r"/start$"
KERNEL_NUMBERS = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
}
SYS_PTRACE = 19


@pytest.fixture
def spec(base_image: str) -> SandboxSpec:
    return SandboxSpec(base_image, "task", "case")


@pytest.fixture
def faulty(engine: Engine, tmp_path: Path) -> Iterator[FaultyEngine]:
    with FaultyEngine(engine, tmp_path / "faulty.sock") as proxy:
        yield proxy


@pytest.fixture
def provider(faulty: FaultyEngine, ownership: Ownership) -> DockerProvider:
    """A provider that reaches the real engine through the faulty one, and has little patience."""
    return DockerProvider(faulty.engine, ownership, call_timeout_s=2)


@pytest.fixture
def ours(engine: Engine, ownership: Ownership) -> Callable[[], list[str]]:
    """The names of this run's containers, by the engine itself."""
    return lambda: sorted(thing.name for thing in list_ours(engine, ownership.run_id))


def asked(faulty: FaultyEngine, path: str) -> int:
    return sum(method == "POST" and path in target for method, target in faulty.requests)


def inspected(engine: Engine, container: str) -> dict[str, dict[str, object]]:
    answer = engine.call("GET", f"/containers/{container}/json").json()
    assert isinstance(answer, dict)
    return answer


def test_container_is_confined(
    provider: DockerProvider, engine: Engine, ownership: Ownership, spec: SandboxSpec
) -> None:
    """No mounts, no engine socket, no network, no new privileges, and the small set of capabilities only."""
    with provider.open(spec) as sandbox:
        status = sandbox.exec("cat /proc/self/status", timeout_s=10).stdout.decode()
        devices = sandbox.exec("cat /proc/net/dev", timeout_s=10).stdout.decode()
        mounts = sandbox.exec("cat /proc/mounts; ls /var/run/docker.sock", timeout_s=10)
        told = inspected(engine, sandbox.id)
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    wanted = sum(1 << KERNEL_NUMBERS[name] for name in CAPABILITIES)
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {wanted}
    assert fields["NoNewPrivs"] == "1"
    assert [line.split(":")[0].strip() for line in devices.splitlines()[2:]] == ["lo"]
    assert mounts.exit_code != 0
    assert b"docker.sock" not in mounts.stdout
    assert told["Mounts"] == []
    assert not told["HostConfig"]["Binds"]
    assert not told["HostConfig"]["Privileged"]
    assert told["HostConfig"]["LogConfig"] == {"Type": "none", "Config": {}}
    labels = told["Config"]["Labels"]
    assert isinstance(labels, dict)
    assert labels["swe-pytest.run"] == ownership.run_id
    assert labels["swe-pytest.role"] == "task"
    assert float(labels["swe-pytest.expires"]) == pytest.approx(time.time() + spec.ttl_s, abs=60)


def test_limits_and_additions(provider: DockerProvider, engine: Engine, base_image: str) -> None:
    """Memory (without swap), processes, cpus, an open network and more capabilities are as the spec says."""
    spec = SandboxSpec(
        base_image,
        "task",
        "case",
        memory=96 * MIB,
        pids=50,
        cpus=0.5,
        network="open",
        cap_add=("SYS_PTRACE",),
    )
    with provider.open(spec) as sandbox:
        host = inspected(engine, sandbox.id)["HostConfig"]
        status = sandbox.exec("grep CapEff /proc/self/status", timeout_s=10).stdout
        devices = sandbox.exec("cat /proc/net/dev", timeout_s=10).stdout
    assert (host["Memory"], host["MemorySwap"]) == (96 * MIB, 96 * MIB)
    assert (host["PidsLimit"], host["NanoCpus"]) == (50, 500_000_000)
    assert int(status.split()[1], 16) & 1 << SYS_PTRACE
    assert b"eth0" in devices


def test_disk_limit_is_never_pretended(
    provider: DockerProvider, base_image: str, ours: Callable[[], list[str]]
) -> None:
    """A disk limit holds, or is an error that names it and what to do; nothing is left of the attempt."""
    limit = 64 * MIB
    try:
        with provider.open(SandboxSpec(base_image, "task", "case", disk=limit)) as sandbox:
            written = sandbox.exec("head -c 100000000 /dev/zero >/big", timeout_s=60)
            assert written.exit_code != 0
    except CreateFailed as error:
        assert error.limit == f"disk {limit} bytes"
        assert "xfs" in error.remedy
    assert ours() == []


def test_time_to_live_ends_and_removes_the_container(
    engine: Engine, ownership: Ownership, base_image: str
) -> None:
    """A sandbox that nobody removes ends itself after its time-to-live, though its sleep is killed, and goes."""
    with Witness(engine, ownership) as witness:
        provider = DockerProvider(engine, ownership, None, witness)
        began = time.monotonic()
        with provider.open(SandboxSpec(base_image, "task", "case", ttl_s=2)) as sandbox:
            sandbox.exec("kill -9 -1", timeout_s=10)
            (life,) = provider.lives("case", settle_s=20)
            assert life.removed is not None
            assert life.exit_code == 0
            assert 1 <= time.monotonic() - began < 10
            with pytest.raises(SandboxGone):
                sandbox.exec("true", timeout_s=5)


def test_lives_are_the_engines_word(engine: Engine, ownership: Ownership, base_image: str) -> None:
    """The containers of a case, and of that case only, are told in order with the times of the engine."""
    with Witness(engine, ownership) as witness:
        provider = DockerProvider(engine, ownership, None, witness)
        with provider.open(SandboxSpec(base_image, "task", "one")) as sandbox:
            pass
        with provider.open(SandboxSpec(base_image, "task", "other")):
            pass
        verifier = provider.run_script(SandboxSpec(base_image, "verifier", "one"), "true", {}, timeout_s=20)
        lives = provider.lives("one")
    assert [life.name for life in lives] == [sandbox.name, verifier.container]
    assert [life.role for life in lives] == ["task", "verifier"]
    assert lives[0].id == sandbox.id
    assert lives[0].removed is not None
    assert lives[1].created is not None
    assert lives[0].removed <= lives[1].created


def test_missing_image_is_told_before_anything_is_made(
    provider: DockerProvider, faulty: FaultyEngine, ours: Callable[[], list[str]]
) -> None:
    """An absent image is ImageMissing with its name and what to do; nothing is created or pulled."""
    spec = SandboxSpec("swe-pytest/none:1", "task", "case")
    with pytest.raises(ImageMissing, match=r"swe-pytest/none:1.*docker pull"), provider.open(spec):
        pass
    assert asked(faulty, "/create") == 0
    assert ours() == []


def test_image_that_goes_before_the_create(
    provider: DockerProvider, faulty: FaultyEngine, spec: SandboxSpec
) -> None:
    """An image that the engine no longer has when it should create is ImageMissing too, without a retry."""
    faulty.when("POST", CREATE, faulty.refusal(404, f"No such image: {spec.image}"))
    with pytest.raises(ImageMissing, match=spec.image), provider.open(spec):
        pass
    assert asked(faulty, "/create") == 1


@pytest.mark.parametrize("kind", [FaultyEngine.DROP, FaultyEngine.LATE], ids=["dropped", "late"])
def test_create_without_an_answer_is_adopted(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    kind: Kind,
    ours: Callable[[], list[str]],
) -> None:
    """A container whose create got no answer is found by its name and label, and used; no second is made."""
    faulty.when("POST", CREATE, kind, times=1)
    with provider.open(spec) as sandbox:
        assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"
        assert ours() == [sandbox.name]
        assert asked(faulty, "/create") == 1
    assert ours() == []


def test_create_that_hangs_and_is_done_later(
    provider: DockerProvider, faulty: FaultyEngine, spec: SandboxSpec, ours: Callable[[], list[str]]
) -> None:
    """A create that hangs is left behind for a new one; what it makes later is removed with the sandbox."""
    hung = faulty.when("POST", CREATE, faulty.HANG, times=1)
    with provider.open(spec) as sandbox:
        assert ours() == [sandbox.name]
        hung.release()
        give_up = time.monotonic() + 10
        while len(ours()) < 2:
            assert time.monotonic() < give_up, "the engine makes the first container after all"
            time.sleep(0.02)
    assert ours() == []


def test_name_in_use_by_somebody_else(
    provider: DockerProvider,
    faulty: FaultyEngine,
    ownership: Ownership,
    engine: Engine,
    spec: SandboxSpec,
    start: Callable[..., tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that is in use is left alone, its container too, and another name is taken."""
    taken, neighbour = start(ownership, case_id="neighbour")
    free = ownership.name("task")
    names = iter([taken, free])
    monkeypatch.setattr(Ownership, "name", lambda self, role: next(names))
    with provider.open(spec) as sandbox:
        assert sandbox.name == free
    state = inspected(engine, neighbour)["State"]
    assert state["Running"] is True


@pytest.mark.parametrize("path", [CREATE, START], ids=["create", "start"])
def test_refused_for_good(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    path: str,
    ours: Callable[[], list[str]],
) -> None:
    """An engine that fails each time is asked a bounded number of times, then CreateFailed tells its reason."""
    faulty.when("POST", path, faulty.refusal(500, "out of luck"))
    with pytest.raises(CreateFailed, match="out of luck"), provider.open(spec):
        pass
    assert asked(faulty, "/create") == docker_container.ATTEMPTS
    assert ours() == []


@pytest.mark.parametrize("path", [CREATE, START], ids=["create", "start"])
def test_refused_once(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    path: str,
    ours: Callable[[], list[str]],
) -> None:
    """A single failure of the engine is got over, and nothing is left of the failed attempt."""
    faulty.when("POST", path, faulty.refusal(500, "a bad moment"), times=1)
    with provider.open(spec) as sandbox:
        assert ours() == [sandbox.name]
    assert ours() == []


def test_a_wrong_request_is_not_repeated(
    provider: DockerProvider, faulty: FaultyEngine, base_image: str, ours: Callable[[], list[str]]
) -> None:
    """What the engine calls a bad request cannot become a good one."""
    spec = SandboxSpec(base_image, "task", "case", cap_add=("NO_SUCH_POWER",))
    with pytest.raises(CreateFailed, match="NO_SUCH_POWER"), provider.open(spec):
        pass
    assert asked(faulty, "/create") == 1
    assert ours() == []


@pytest.mark.parametrize("kind", [FaultyEngine.DROP, FaultyEngine.HANG], ids=["dropped", "hung"])
def test_start_without_an_answer(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    kind: Kind,
    ours: Callable[[], list[str]],
) -> None:
    """A start that got no answer is asked for again, which changes nothing where it was done."""
    faulty.when("POST", START, kind, times=1)
    with provider.open(spec) as sandbox:
        assert sandbox.exec("echo usable", timeout_s=10).stdout == b"usable\n"
        assert asked(faulty, "/create") == 1
    assert ours() == []


def test_engine_down(
    provider: DockerProvider, faulty: FaultyEngine, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that refuses connections is EngineUnreachable, with its address and what to do."""
    with (
        faulty.down(),
        pytest.raises(EngineUnreachable, match=r"faulty\.sock") as raised,
        provider.open(spec),
    ):
        pass
    assert raised.value.remedy


def test_engine_goes_down_at_the_create(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An engine that goes while it is asked to create is EngineUnreachable when patience is at its end."""
    monkeypatch.setattr(docker_container, "PATIENCE_S", 0.5)
    monkeypatch.setattr(docker_container, "LATE_S", 0.5)
    hung = faulty.when("POST", CREATE, faulty.HANG)
    down = faulty.down()

    def go_down() -> None:
        hung.reached.wait(10)
        down.__enter__()

    thread = threading.Thread(target=go_down)
    thread.start()
    with pytest.raises(EngineUnreachable), provider.open(spec):
        pass
    thread.join()
    down.__exit__(None, None, None)


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", [FaultyEngine.HANG, FaultyEngine.LATE], ids=["before", "after"])
def test_interrupt_in_the_middle_of_a_create(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    kind: Kind,
    ours: Callable[[], list[str]],
) -> None:
    """An interrupt while the engine is asked leaves nothing: neither what was made already, nor what comes yet."""
    held = faulty.when("POST", CREATE, kind)

    def strike() -> None:
        held.reached.wait(10)
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.3)
        held.release()

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt), provider.open(spec):
            pytest.fail("the create is held")
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert asked(faulty, "/create") == 1
    assert held.hits == 1
    assert ours() == []


@pytest.mark.parametrize("call", ["create", "start"])
def test_interrupt_between_two_steps(
    provider: DockerProvider,
    spec: SandboxSpec,
    call: str,
    ours: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interrupt right after the engine has done a step, before its answer is noted, leaves nothing."""
    real = getattr(DockerApi, call)

    def interrupted(*given: object) -> None:
        real(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(DockerApi, call, interrupted)
    with pytest.raises(KeyboardInterrupt), provider.open(spec):
        pass
    assert ours() == []


def test_interrupt_in_the_middle_of_a_removal(
    provider: DockerProvider,
    spec: SandboxSpec,
    ours: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second interrupt, during the removal, only makes it shorter: the container goes all the same."""
    real = DockerApi.remove
    strikes = iter([KeyboardInterrupt])

    def interrupted(api: DockerApi, container: str) -> None:
        for strike in strikes:
            raise strike
        real(api, container)

    monkeypatch.setattr(DockerApi, "remove", interrupted)
    with pytest.raises(KeyboardInterrupt), provider.open(spec):
        pass
    assert ours() == []


def test_removed_whatever_happens_inside(
    provider: DockerProvider, spec: SandboxSpec, ours: Callable[[], list[str]]
) -> None:
    """An error inside the context passes through unchanged, and the container goes."""
    with pytest.raises(ZeroDivisionError), provider.open(spec):
        raise ZeroDivisionError
    assert ours() == []


def test_remove_is_idempotent(provider: DockerProvider, spec: SandboxSpec) -> None:
    """A sandbox may be removed early, and again; somebody else may have been faster."""
    with provider.open(spec) as sandbox:
        sandbox.remove()
        sandbox.remove()
    with provider.open(spec) as sandbox:
        sandbox.kill()


@pytest.mark.parametrize(
    "kind",
    [
        FaultyEngine.DROP,
        FaultyEngine.refusal(409, "removal of container x is already in progress"),
        FaultyEngine.refusal(500, "driver failed to remove root filesystem: device or resource busy"),
    ],
    ids=["dropped", "in progress", "busy"],
)
def test_removal_is_repeated_until_it_is_true(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    kind: Kind,
    ours: Callable[[], list[str]],
) -> None:
    """A removal that fails, or whose answer is lost, is repeated until the container is really gone."""
    failing = faulty.when("DELETE", r"/containers/", kind, times=1)
    with provider.open(spec):
        pass
    assert failing.hits == 1
    assert ours() == []


def test_what_cannot_be_removed_is_told(
    provider: DockerProvider,
    faulty: FaultyEngine,
    spec: SandboxSpec,
    ours: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container that stays is Leaked, with its name and what to do; an error of the stage is not hidden by it."""
    monkeypatch.setattr(docker_container, "REMOVE_S", 0.5)
    stuck = faulty.when("DELETE", r"/containers/", faulty.refusal(500, "device or resource busy"))
    with pytest.raises(Leaked, match=r"busy.*swe-pytest gc"), provider.open(spec):
        pass
    with pytest.raises(ZeroDivisionError) as raised, provider.open(spec):
        raise ZeroDivisionError
    assert "busy" in raised.value.__notes__[0]
    assert len(ours()) == 2
    stuck.release()
