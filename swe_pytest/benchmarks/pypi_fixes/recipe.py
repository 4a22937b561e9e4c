"""How a task is made: the committed part, one small YAML file a task. `tasks/*.yaml`, `environment.yaml`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from swe_pytest.benchmarks.pypi_fixes.distribution import Distribution
from swe_pytest.problem import InvalidFiles, Problem

TASKS = Path(__file__).parent / "tasks"
ENVIRONMENT = Path(__file__).parent / "environment.yaml"

_REQUIRED = (
    "package",
    "before",
    "after",
    "source_paths",
    "test_paths",
    "test_command",
    "log_parser",
    "problem_statement",
    "fail_to_pass",
    "pass_to_pass",
)
_OPTIONAL = ("import_root", "not_required")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A fixed release of a package. Paths are relative to the top folder of the source distributions.

    `import_root` is the folder that goes on the import path. `not_required` are tests that the statement
    does not ask for, such as those of inner functions that only the real fix has. `fail_to_pass` and
    `pass_to_pass` are names as `log_parser` yields them; both are empty until `measure` finds them out.
    """

    instance_id: str
    package: str
    before: Distribution
    after: Distribution
    import_root: str
    source_paths: tuple[str, ...]
    test_paths: tuple[str, ...]
    test_command: str
    log_parser: str
    problem_statement: str
    not_required: tuple[str, ...]
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The sha256 of everything said here."""
        return digest_of(asdict(self))


def digest_of(value: object) -> str:
    """Return the sha256 of a value made of plain JSON types."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def load_recipes(folder: Path = TASKS, *, measured: bool = True) -> list[Recipe]:
    """Read every task file, in order of instance id.

    With `measured` a task without required tests is a problem. Raises: InvalidFiles with all problems.
    """
    recipes: list[Recipe] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            recipe = _recipe(path)
        except InvalidFiles as error:
            problems += error.problems
            continue
        if measured and not recipe.fail_to_pass:
            problems.append(
                _problem(path, "no required tests", f"run `measure {recipe.instance_id} --write`")
            )
        recipes.append(recipe)
    if problems:
        raise InvalidFiles(problems)
    return recipes


def load_environment(path: Path = ENVIRONMENT) -> tuple[Distribution, ...]:
    """Read the wheels that the environment layer of every task image consists of. Raises: InvalidFiles."""
    wheels = _fields(path).get("wheels")
    if not isinstance(wheels, list) or not wheels:
        raise InvalidFiles([_problem(path, "no wheels", "list {package, version, sha256} under `wheels`")])
    found: list[Distribution] = []
    for wheel in wheels:
        name = wheel.get("package") if isinstance(wheel, dict) else None
        found.append(_distribution(path, "wheels", name if isinstance(name, str) else "", wheel, "wheel"))
    return tuple(found)


def _recipe(path: Path) -> Recipe:
    fields = _fields(path)
    unknown = sorted(set(fields) - set(_REQUIRED) - set(_OPTIONAL))
    missing = [key for key in _REQUIRED if key not in fields]
    if unknown or missing:
        message = f"unknown keys {unknown}, missing keys {missing}"
        raise InvalidFiles([_problem(path, message, f"keys are {', '.join((*_REQUIRED, *_OPTIONAL))}")])
    package = _text(path, fields, "package")
    before = _distribution(path, "before", package, fields["before"], "sdist")
    after = _distribution(path, "after", package, fields["after"], "sdist")
    instance_id = f"{package.lower()}-{after.version}"
    if path.stem != instance_id:
        raise InvalidFiles([_problem(path, "the file's name is not the instance id", f"{instance_id}.yaml")])
    return Recipe(
        instance_id=instance_id,
        package=package,
        before=before,
        after=after,
        import_root=_text(path, {"import_root": ".", **fields}, "import_root"),
        source_paths=_texts(path, fields, "source_paths", least=1),
        test_paths=_texts(path, fields, "test_paths", least=1),
        test_command=_text(path, fields, "test_command"),
        log_parser=_text(path, fields, "log_parser"),
        problem_statement=_text(path, fields, "problem_statement"),
        not_required=_texts(path, {"not_required": [], **fields}, "not_required"),
        fail_to_pass=_texts(path, fields, "fail_to_pass"),
        pass_to_pass=_texts(path, fields, "pass_to_pass"),
    )


def _fields(path: Path) -> Mapping[str, object]:
    import yaml

    try:
        # The one in C where this PyYAML has it: the lists of tests are long.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        loaded: object = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise InvalidFiles([Problem(path, line, column, f"not YAML: {error.problem}")]) from error
    if not isinstance(loaded, dict):
        raise InvalidFiles([_problem(path, "not a mapping", "write `key: value` lines")])
    return loaded


def _distribution(
    path: Path, key: str, package: str, value: object, kind: Literal["sdist", "wheel"]
) -> Distribution:
    fields = value if isinstance(value, dict) else {}
    version, sha256 = fields.get("version"), fields.get("sha256")
    known = set(fields) <= {"package", "version", "sha256"}
    digest_ok = isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256)
    if not (package and isinstance(version, str) and isinstance(sha256, str) and digest_ok and known):
        remedy = "{version: '1.2', sha256: 64 hex digits}, the version in quotes"
        raise InvalidFiles([_problem(path, f"`{key}` does not pin a file: {value!r}", remedy)])
    return Distribution(package, version, sha256, kind)


def _text(path: Path, fields: Mapping[str, object], key: str) -> str:
    value = fields[key]
    if not isinstance(value, str) or not value.strip():
        raise InvalidFiles([_problem(path, f"`{key}` is {value!r}", "text that is not empty")])
    return value.strip()


def _texts(path: Path, fields: Mapping[str, object], key: str, least: int = 0) -> tuple[str, ...]:
    value = fields[key]
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) < least:
        raise InvalidFiles([_problem(path, f"`{key}` is {value!r}", f"a list of at least {least} texts")])
    texts = tuple(item for item in value if isinstance(item, str))
    if len(set(texts)) != len(value):
        raise InvalidFiles([_problem(path, f"`{key}` holds something twice, or that is not text", "texts")])
    return texts


def _problem(path: Path, message: str, remedy: str) -> Problem:
    return Problem(path, 0, 0, message, remedy)
