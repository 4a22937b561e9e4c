"""Classic rows (swebench 4 and earlier) get image, script, parser and rule of the release they belong to.

The official generator of swebench 4.1.0 runs in an environment of its own, made once and kept in the
cache: it and the pinned grader cannot be installed side by side.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from swe_pytest.benchmarks.cache import cache_dir

GENERATOR = "swebench==4.1.0"
# What the generator imports. All that the release asks for would be 350 MB (see classic_generator.py).
NEEDED = ("requests", "python-dotenv", "unidiff")
INSTALL_DEADLINE_S = 1800.0

Row = dict[str, object]


class UpgradeFailed(Exception):
    """Classic rows cannot be upgraded; the message names the row or the command, and what to do."""


def is_classic(row: Mapping[str, object]) -> bool:
    """Whether a row has the fields of every release, but not the evaluation script of release 5."""
    return "eval_script" not in row and "test_patch" in row


def upgrade(rows: Iterable[Mapping[str, object]]) -> list[Row]:
    """Return the rows with `image`, `eval_script`, `log_parser` and `eval_type` added, in their order.

    Raises: UpgradeFailed, naming every row that the generator does not know.
    """
    given = [dict(row) for row in rows]
    lines = b"".join(json.dumps(_needed(row)).encode() + b"\n" for row in given)
    script = Path(__file__).with_name("classic_generator.py")
    command = [str(generator_python()), "-P", "-X", "utf8", str(script)]
    try:
        done = subprocess.run(
            command, input=lines, capture_output=True, check=False, timeout=INSTALL_DEADLINE_S
        )
    except subprocess.TimeoutExpired as error:
        raise UpgradeFailed(f"the generator of {GENERATOR} did not end within {error.timeout:g} s") from None
    answers: list[Row] = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(answers) != len(given):
        tail = done.stderr.decode(errors="replace").strip()[-1000:]
        raise UpgradeFailed(f"the generator of {GENERATOR} ended with status {done.returncode}: {tail}")
    faults = [
        f"{row.get('instance_id')}: {answer['error']}"
        for row, answer in zip(given, answers, strict=True)
        if "error" in answer
    ]
    if faults:
        raise UpgradeFailed(
            f"{GENERATOR} makes no evaluation of {len(faults)} of {len(given)} rows: {'; '.join(faults[:10])}"
        )
    return [{**row, **answer} for row, answer in zip(given, answers, strict=True)]


def generator_python() -> Path:
    """Return the interpreter of the generator's environment, making the environment if there is none yet.

    One process makes it, others wait for it; an interrupted attempt leaves nothing that is used.
    Raises: UpgradeFailed.
    """
    wanted = f"{GENERATOR} with {NEEDED} on {sys.version} in {sys.base_prefix}"
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:12]
    home = cache_dir("venvs", f"{GENERATOR.replace('==', '-')}-{digest}")
    python = home / "bin" / "python"
    if not python.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(home.with_name(home.name + ".lock")):
            if not python.exists():
                _make(home)
    return python


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(home: Path) -> None:
    # Under another name until it is complete. Of a moved environment only bin/python is good, all we use.
    shutil.rmtree(home, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f".{home.name}.") as temporary:
        making = Path(temporary) / "venv"
        python, uv = str(making / "bin" / "python"), _uv()
        if uv is not None:
            _run([uv, "venv", "--quiet", "--python", sys.executable, str(making)])
            install = [uv, "pip", "install", "--quiet", "--python", python]
        else:
            _run([sys.executable, "-m", "venv", str(making)])
            install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run([*install, "--no-deps", GENERATOR])
        _run([*install, *NEEDED])
        making.rename(home)


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=INSTALL_DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise UpgradeFailed(f"{' '.join(command[:3])} did not end within {error.timeout:g} s") from None
    if done.returncode != 0:
        tail = done.stderr.decode(errors="replace").strip()[-1000:]
        raise UpgradeFailed(f"{' '.join(command)} ended with status {done.returncode}: {tail}")


def _needed(row: Row) -> Row:
    keys = ("instance_id", "repo", "version", "base_commit", "test_patch", "environment_setup_commit")
    # The generator reads the lists only to copy them, and prompts and gold patches not at all.
    return {key: row[key] for key in keys if key in row} | {"FAIL_TO_PASS": [], "PASS_TO_PASS": []}
