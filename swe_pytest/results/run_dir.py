"""The directory of a run: where everything is, and whose it is."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from swe_pytest.sandbox.ownership import owner_state

LEDGER = "ledger.jsonl"

# Names that every file system takes as they are, and that no tool reads as an option or a hidden file.
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]")


class NotARunDir(Exception):
    """There is no run in this directory."""


class RunDirTaken(Exception):
    """The directory belongs to another run. `alive` says whether that run is still going on."""

    def __init__(self, path: Path, run_id: str, alive: bool) -> None:
        self.path = path
        self.run_id = run_id
        self.alive = alive
        what = "is being written by the live run" if alive else "already holds the run"
        super().__init__(
            f"{path} {what} {run_id}; choose another --swe-run-id or --swe-run-dir, "
            f"or look at it with: swe-pytest report {path}"
        )


@dataclass(frozen=True, slots=True)
class RunDir:
    """Paths of a run. `create` or `claim` makes the directory, `open` finds one that is there."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> RunDir:
        """Make the directory if need be. It is nobody's until it is claimed."""
        run_dir = cls(path)
        (path / "episodes").mkdir(parents=True, exist_ok=True)
        run_dir._locks.mkdir(exist_ok=True)
        return run_dir

    @classmethod
    def claim(cls, path: Path, run_id: str, owner: str) -> RunDir:
        """Make the directory if need be and take it for a run; every process of the run may do so, any time.

        `owner` is the identity of the run's controller, see sandbox.ownership.current_owner.
        Raises: RunDirTaken when it is another run's, alive or ended: results are never mixed.
        """
        run_dir = cls.create(path)
        # In this order: whoever writes a ledger has claimed the directory before.
        if run_dir.ledger.exists() and not run_dir._owner_file.exists():
            raise RunDirTaken(path, "of an unknown name", alive=False)
        if run_dir._claimed_by() == (run_id, owner):
            return run_dir
        mine = {"run_id": run_id, "owner": owner}
        temporary = path / f".owner.{os.getpid()}-{secrets.token_hex(4)}"
        temporary.write_text(json.dumps(mine) + "\n", encoding="utf-8")
        try:
            # A link appears whole or not at all, and only for the first who comes.
            os.link(temporary, run_dir._owner_file)
        except FileExistsError:
            found = run_dir._claimed_by()
            if found != (run_id, owner):
                raise RunDirTaken(path, found[0], owner_state(found[1]) == "alive") from None
        finally:
            temporary.unlink()
        return run_dir

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """Return the directory of a run. Raises: NotARunDir when there is no ledger in it."""
        run_dir = cls(path)
        if not run_dir.ledger.is_file():
            raise NotARunDir(f"{path} is no run directory: it has no {LEDGER}; give what was --swe-run-dir")
        return run_dir

    @property
    def ledger(self) -> Path:
        return self.path / LEDGER

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def engine(self) -> Path:
        return self.path / "engine.json"

    @property
    def failures(self) -> Path:
        return self.path / "failures.jsonl"

    @property
    def junit(self) -> Path:
        return self.path / "junit.xml"

    def episode_path(self, case_id: str) -> Path:
        """Return where an episode's files are; another case's are never there."""
        return self.path / "episodes" / _safe_name(case_id)

    def episode_dir(self, case_id: str) -> Path:
        """Return the directory of an episode's files, made if need be."""
        directory = self.episode_path(case_id)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def lock(self, process: str) -> Path:
        """Return the file that a process of the run ("controller", "gw0") keeps locked while it lives."""
        return self._locks / f"{_safe_name(process)}.lock"

    def process_locks(self) -> list[Path]:
        """Return the lock files of all processes that ever took part in the run."""
        return sorted(self._locks.glob("*.lock"))

    def controller_alive(self) -> bool:
        """Whether the run's controller is known to live still. False where nobody here can tell."""
        return owner_state(self._claimed_by()[1]) == "alive"

    @property
    def _locks(self) -> Path:
        return self.path / "locks"

    @property
    def _owner_file(self) -> Path:
        return self.path / "owner.json"

    def _claimed_by(self) -> tuple[str, str]:
        try:
            value = json.loads(self._owner_file.read_text(encoding="utf-8"))
            return str(value["run_id"]), str(value["owner"])
        except (OSError, ValueError, KeyError, TypeError):
            return "of an unknown name", ""


def _safe_name(text: str) -> str:
    """Return a text as a file name; one that had to be changed ends in "~" and a hash, as no other does."""
    if _SAFE.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_UNSAFE.sub('_', text).lstrip('.-+')[:180]}~{digest}"
