"""The guardian: a process outside pytest that outlives it and removes what it left.

It holds the read end of a pipe whose write end only the controller has. When that closes without a word,
the controller was killed. It needs no site-packages, so it costs about a tenth of a second to start and
10 MB, and it has a session of its own, so that what ends pytest's process group does not end it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from swe_pytest.sandbox.engine import Engine
from swe_pytest.sandbox.errors import EngineUnreachable
from swe_pytest.sandbox.lifeline import close_private, keep_from_forks
from swe_pytest.sandbox.sweep import Swept, sweep_run

# A worker that outlived its controller for a moment may have a create under way: the engine finishes it.
QUIET_S = 2.0
PACE_S = 0.2
DONE = b"."

_ROOT = Path(__file__).parents[2]
_BOOT = (
    "import signal, sys\n"
    "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)\n"
    "sys.path.append(sys.argv[1])\n"
    "from swe_pytest.sandbox.guardian import _stand_guard\n"
    "_stand_guard(sys.argv[2], sys.argv[3], float(sys.argv[4]))\n"
)


class Guardian:
    """The controller's end of a guardian; made by `guard`."""

    def __init__(self, run_id: str, process: subprocess.Popen[bytes], pipe: int, log: Path | None) -> None:
        self._run_id = run_id
        self._process = process
        self._pipe: int | None = pipe
        self._log = log
        self._controller = os.getpid()
        self.trouble = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self, timeout_s: float = 5.0) -> str:
        """Dismiss the guardian, once the run has been swept, and wait for its end.

        Returns (and keeps in `trouble`) what was wrong with it, "" if nothing: while it was dead, nobody
        would have cleaned up after a killed controller. Idempotent; a forked child's call does nothing.
        """
        if self._pipe is None or os.getpid() != self._controller:
            return self.trouble
        early = self._process.poll()
        if early is None:
            with suppress(BrokenPipeError):  # it died this very moment: the status below says how
                os.write(self._pipe, DONE)
        close_private(self._pipe)
        self._pipe = None
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self.trouble = (
                f"the guardian of run {self._run_id} did not end within {timeout_s:g} s and was killed"
            )
        else:
            if early is not None or status != 0:
                when = "before" if early is not None else "at"
                self.trouble = (
                    f"the guardian of run {self._run_id} died {when} the end of the run (status {status})"
                )
        if self.trouble and self._log is not None:
            self.trouble += f"; see {self._log}"
        return self.trouble

    def __enter__(self) -> Guardian:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def guard(engine: Engine, run_id: str, *, log: Path | None = None, within_s: float = 10.0) -> Guardian:
    """Start the guardian of a run and return at once; it stands guard from this moment.

    If this process dies without `close`, the guardian removes the run's containers, networks and volumes,
    again and again until none has come up for some time, and ends after at most `within_s` seconds,
    whatever the engine does. What it says goes to `log` (appended), or nowhere.
    """
    read_end, write_end = os.pipe()  # neither is inherited by a program that this process starts
    keep_from_forks(write_end)
    command = [sys.executable, "-I", "-S", "-c", _BOOT, str(_ROOT), run_id, engine.dump(), str(within_s)]
    try:
        with Path(log or os.devnull).open("ab") as output:
            process = subprocess.Popen(
                command, stdin=read_end, stdout=output, stderr=output, start_new_session=True, cwd="/"
            )
    except BaseException:
        close_private(write_end)
        raise
    finally:
        os.close(read_end)
    return Guardian(run_id, process, write_end, log)


def _stand_guard(run_id: str, engine_text: str, within_s: float) -> None:
    """The guardian's whole life."""
    engine = Engine.load(engine_text)
    dismissed = os.read(0, 1) == DONE
    # The default action of this signal is to end the process: whatever hangs, it will not stay for ever.
    signal.setitimer(signal.ITIMER_REAL, within_s + 1.0)
    if dismissed:
        # Only a look that all is gone: the controller has swept and reports what is left.
        _say(sweep_run(engine, run_id, within_s=min(2.0, within_s)))
        return
    print(f"{time.strftime('%F %T')} the controller of run {run_id} died", flush=True)
    _clean(engine, run_id, time.monotonic() + within_s)


def _clean(engine: Engine, run_id: str, deadline: float) -> None:
    quiet_since = time.monotonic()
    while (now := time.monotonic()) < deadline and now - quiet_since < QUIET_S:
        try:
            swept = sweep_run(engine, run_id, within_s=deadline - now)
        except EngineUnreachable as error:
            print(error, flush=True)
            return
        if swept:
            _say(swept)
            quiet_since = time.monotonic()
        time.sleep(PACE_S)  # what is awaited is that nothing happens


def _say(swept: Swept) -> None:
    if swept:
        print(f"{time.strftime('%F %T')} {swept}", flush=True)
