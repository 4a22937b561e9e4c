"""The ledger: lines of many processes are neither lost nor mixed, and what is torn is told, never guessed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from swe_pytest.results.codec import clean
from swe_pytest.results.events import EVENTS, CheckEnd, EpisodeEnd
from swe_pytest.results.gates import Bounds, Gates, PairGates
from swe_pytest.results.ledger import Ledger, read_ledger
from swe_pytest.results.record import Outcome
from swe_pytest.results.schema import ledger_schema
from tests.results.making import ANY_TEXT, MadeRun, failed, planned, record_of


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Every kind of event comes back as it was written, and fits the committed schema."""
    first, second, third = planned("a"), planned("b"), planned("c")
    made = MadeRun(tmp_path, [first, second, third])
    gates = Gates(Bounds(min=0.5), None, {"gold": PairGates(mask_rate=Bounds(max=0.0))})
    made.ledger.gates("smoke", gates)
    made.end(record_of(first), passed=False, message="expected unresolved")
    made.begin(second, "gw1")
    made.mask(third, failed())
    made.ledger.worker_died("gw1", "killed")
    made.ledger.run_end(1, interrupted=True)

    state = read_ledger(made.run_dir.ledger)
    assert state.problems == state.unbalanced == []
    assert state.run is not None
    assert (state.run.run_id, state.run.argv) == ("r1", ("pytest", "suites"))
    assert list(state.planned.values()) == [first, second, third]
    assert set(state.begun) == {first.case_id, second.case_id}
    assert state.ended[first.case_id].reward == 1.0
    assert state.ended[third.case_id].failure == failed()
    assert state.ended[third.case_id].reward is None
    assert not state.checked[first.case_id].passed
    assert state.died["gw1"].message == "killed"
    assert state.gates == {"smoke": gates}
    assert state.run_end is not None
    assert not state.run_end.complete

    validator = Draft202012Validator(ledger_schema())
    lines = [json.loads(line) for line in made.run_dir.ledger.read_text().splitlines()]
    assert {line["event"] for line in lines} == set(EVENTS)
    for line in lines:
        validator.validate(line)


def test_schema_refuses_a_masked_zero() -> None:
    """By the schema, too, an episode's end cannot be masked and rewarded."""
    from swe_pytest.results.codec import encode

    end = {"event": "episode.end", **encode(EpisodeEnd.masked("c", failed()))}
    validator = Draft202012Validator(ledger_schema())
    assert validator.is_valid(end)
    assert not validator.is_valid({**end, "reward": 0.0})
    assert not validator.is_valid({**end, "failure": None})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(ANY_TEXT, min_size=1, max_size=5))
def test_any_text_stays_one_line(tmp_path: Path, messages: list[str]) -> None:
    """Whatever text an event carries, it is one line of ASCII, and comes back."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.path.unlink(missing_ok=True)
    for number, message in enumerate(messages):
        ledger.check_end(f"c{number}", passed=False, message=message)
    assert len(ledger.path.read_bytes().decode("ascii").splitlines()) == len(messages)
    state = read_ledger(ledger.path)
    assert state.problems == []
    assert [state.checked[f"c{n}"].message for n in range(len(messages))] == [clean(m) for m in messages]


@pytest.fixture
def three_ends(tmp_path: Path) -> tuple[MadeRun, list[bytes]]:
    """A ledger of a plan and three ended episodes, and its lines."""
    cases = [planned(name) for name in "abc"]
    made = MadeRun(tmp_path, cases)
    for case in cases:
        made.end(record_of(case))
    return made, made.run_dir.ledger.read_bytes().splitlines(keepends=True)


def test_torn_at_every_byte(three_ends: tuple[MadeRun, list[bytes]]) -> None:
    """Cut anywhere, a ledger is read up to the cut; the torn line is reported, and a lost plan unbalances."""
    made, lines = three_ends
    whole = b"".join(lines)
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line))
    cut = made.run_dir.ledger.with_name("cut.jsonl")
    for size in range(len(whole) + 1):
        cut.write_bytes(whole[:size])
        state = read_ledger(cut)
        # A line without its line feed is whole all the same.
        complete = sum(end - 1 <= size for end in ends[1:])
        torn = size - ends[complete] if complete < len(lines) else 0
        assert bool(state.problems) == (torn > 0), size
        assert len(state.ended) == sum(b'"episode.end"' in line for line in lines[:complete]), size
        assert len(state.planned) == (3 if complete >= 2 else 0), size
        if complete == 1 and torn > 0:
            assert state.unbalanced, size


def test_a_line_behind_a_torn_one_is_not_lost(three_ends: tuple[MadeRun, list[bytes]]) -> None:
    """A process that was killed in the middle of a line takes nobody else's line with it."""
    made, lines = three_ends
    glued = made.run_dir.ledger.with_name("glued.jsonl")
    victim, survivor = lines[5], lines[6]
    assert b'"episode.end"' in victim
    for size in range(1, len(victim)):
        glued.write_bytes(b"".join(lines[:5]) + victim[:size] + survivor + b"".join(lines[7:]))
        state = read_ledger(glued)
        assert len(state.begun) == 3, size
        assert len(state.ended) == (2 if size < len(victim) - 1 else 3), size
        assert len(state.problems) == (1 if size < len(victim) - 1 else 0), size


def test_a_beginning_inside_a_text_is_not_a_beginning(tmp_path: Path) -> None:
    """Text that looks like the beginning of a line does not split the line that it stands in."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.check_end("a", passed=True, message='{"event":"episode.end","at":0')
    state = read_ledger(ledger.path)
    assert state.problems == []
    assert state.checked["a"].message.startswith('{"event"')


def test_a_plan_cut_between_its_lines_is_noticed(tmp_path: Path) -> None:
    """When a part of the plan is missing, the sums cannot be trusted, and that is said."""
    made = MadeRun(tmp_path, [planned(f"i{n}") for n in range(1200)])
    lines = made.run_dir.ledger.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    made.run_dir.ledger.write_bytes(b"".join(lines[:3]))
    state = read_ledger(made.run_dir.ledger)
    assert state.problems == []
    assert state.unbalanced == ["the plan announced 1200 cases, 1000 of them are in ledger.jsonl"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\xff\xfe\x00\n", "torn line"),
        (b"[]\n", "unknown event None"),
        (b'{"event":"coffee","at":1.0}\n', "unknown event 'coffee'"),
        (b'{"event":"worker.died","at":1.0,"process":"gw0"}\n', "missing message"),
        (b'{"event":"worker.died","at":"x","process":"gw0","message":""}\n', "at: float expected"),
    ],
)
def test_strange_lines_are_told(tmp_path: Path, line: bytes, said: str) -> None:
    """A line that is no event is reported with its place; the lines around it count."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.check_end("a", passed=True)
    with ledger.path.open("ab") as file:
        file.write(line)
    ledger.check_end("b", passed=True)
    state = read_ledger(ledger.path)
    assert set(state.checked) == {"a", "b"}
    assert len(state.problems) == 1
    assert state.problems[0].startswith("ledger.jsonl:2: ")
    assert said in state.problems[0]


def test_a_masked_end_with_a_reward_does_not_count(tmp_path: Path) -> None:
    """An end that contradicts itself is reported and gives no outcome."""
    case = planned()
    made = MadeRun(tmp_path, [case])
    made.begin(case)
    made.ledger.append(EpisodeEnd(0.0, case.case_id, Outcome.MASKED, 0.0, False, "x: y", failed(), 1))
    state = read_ledger(made.run_dir.ledger)
    assert state.ended == {}
    assert "cannot be masked with reward 0.0" in state.problems[0]


def test_what_is_not_planned_or_mixed_unbalances(tmp_path: Path) -> None:
    """An episode outside the plan, two runs in one ledger, one name for two cases: the sums are not trusted."""
    made = MadeRun(tmp_path, [planned("a")])
    made.ledger.plan([planned("a", instance_id="other")])
    made.begin(planned("b"))
    made.ledger.run_begin("r2", [])
    said = "\n".join(read_ledger(made.run_dir.ledger).unbalanced)
    assert "two different cases are called smoke.gold-a-1" in said
    assert "smoke.gold-b-1 was run, but is not in the plan" in said
    assert "runs r1 and r2 are mixed" in said


def test_the_first_end_counts(tmp_path: Path) -> None:
    """A verdict that was there before its worker died stays; the second end is reported."""
    case = planned()
    made = MadeRun(tmp_path, [case])
    made.end(record_of(case, 0.0))
    made.mask(case, failed("worker_died"))
    state = read_ledger(made.run_dir.ledger)
    assert state.ended[case.case_id].outcome is Outcome.MEASURED
    assert "ended twice, first measured, then masked" in state.problems[0]


def test_eight_processes_lose_and_mix_nothing(tmp_path: Path) -> None:
    """Eight processes that append at once, long lines and short, lose no line and mix none."""
    path = tmp_path / "ledger.jsonl"
    code = """
import sys
from pathlib import Path
from swe_pytest.results.ledger import Ledger
path, name = Path(sys.argv[1]), sys.argv[2]
ledger = Ledger(path)
print("ready", flush=True)
sys.stdin.readline()
for n in range(200):
    ledger.check_end(f"{name}-{n}", passed=True, message=name * (n % 50) * 100)
"""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), f"w{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for n in range(8)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        writer.communicate(b"go\n", timeout=60)
        assert writer.returncode == 0
    state = read_ledger(path)
    assert state.problems == []
    assert len(state.checked) == 1600
    for n in range(8):
        for m in range(200):
            assert state.checked[f"w{n}-{m}"].message == f"w{n}" * (m % 50) * 100


def test_killed_writers_take_nothing_with_them(tmp_path: Path) -> None:
    """KILL to a writer in full swing leaves at most its own last line torn, and others go on unharmed."""
    path = tmp_path / "ledger.jsonl"
    code = """
import sys, itertools
from pathlib import Path
from swe_pytest.results.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
for n in itertools.count():
    ledger.check_end(f"victim-{n}", passed=True, message="x" * 300_000)
    if n == 3: print("going", flush=True)
"""
    for round_ in range(5):
        victim = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"going\n"
        survivor = Ledger(path)
        for n in range(20):
            survivor.check_end(f"{round_}-{n}", passed=True, message="y" * 1000)
            if n == 10:
                victim.send_signal(signal.SIGKILL)
        victim.wait()
        victim.stdout.close()
    state = read_ledger(path)
    assert len(state.problems) <= 5
    kept = [name for name in state.checked if not name.startswith("victim")]
    assert len(kept) == 100
    assert all(
        end.message == "x" * 300_000 for name, end in state.checked.items() if name.startswith("victim")
    )


def test_a_line_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    """When the file system takes only a part of a line, the writer is told, and the reader tells the rest."""
    path = tmp_path / "ledger.jsonl"
    Ledger(path).check_end("whole", passed=True)
    code = """
import resource, signal, sys
from pathlib import Path
from swe_pytest.results.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    Ledger(Path(sys.argv[1])).check_end("big", passed=True, message="x" * 5000)
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "bytes of check.end were written" in done.stdout
    Ledger(path).check_end("later", passed=True)
    state = read_ledger(path)
    assert set(state.checked) == {"whole", "later"}
    assert len(state.problems) == 1


def test_twenty_thousand_cases_are_planned_at_once(tmp_path: Path) -> None:
    """Writing the plan of 20,000 cases takes well under a second, in few lines, and it comes back whole."""
    cases = [planned(f"django__django-{n}") for n in range(20_000)]
    ledger = Ledger(tmp_path / "ledger.jsonl")
    began = time.process_time()
    ledger.plan(cases)
    wrote = time.process_time() - began
    began = time.process_time()
    state = read_ledger(ledger.path)
    read = time.process_time() - began
    assert list(state.planned.values()) == cases
    assert state.unbalanced == []
    assert len(ledger.path.read_bytes().splitlines()) == 40
    # Processor time, so that a busy machine does not matter; the goal is 0.3 s.
    assert wrote < 0.6, wrote
    assert read < 1.2, read


def test_ends_are_on_disk_when_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What results rest on is synced to the disk; what is only a sign of progress is not waited for.

    A crash of the machine cannot be had here: the system call is watched instead.
    """
    synced: list[int] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.episode_begin("a", "gw0")
    ledger.append(CheckEnd(0.0, "a", True, ""))
    assert synced == []
    ledger.append(EpisodeEnd.masked("a", failed()))
    assert len(synced) == 1
    ledger.run_end(0)
    assert len(synced) == 2
