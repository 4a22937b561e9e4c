"""Run as a script inside the environment of swebench 4.1.0: classic rows in, what they lack out (JSON lines).

Nothing of this project can be imported there. The front doors of the package import a builder, a cloud
client and a dataset library that the generator has no use for: bare packages stand in for the doors, and
an empty module for the library, so that neither is loaded or even installed.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any


def main() -> int:
    # What prints must not be able to break the answers: they keep a channel of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _open_side_door()
    from swebench.harness import log_parsers
    from swebench.harness.constants import FAIL_ONLY_REPOS
    from swebench.harness.test_spec import python as python_specs
    from swebench.harness.test_spec.test_spec import make_test_spec

    # Both are fetched over HTTP, and feed nothing but the hash in an environment image's name, which
    # prepared instance images do not need.
    python_specs.get_requirements = lambda instance: ""
    python_specs.get_environment_yml = lambda instance, name: ""

    parsers = _parsers_as_written(Path(str(log_parsers.__file__)).parent)
    for line in sys.stdin:
        row: dict[str, Any] = json.loads(line)
        try:
            specification = make_test_spec(row, namespace="swebench", instance_image_tag="latest")
            answer = {
                "image": specification.instance_image_key,
                "eval_script": specification.eval_script,
                "log_parser": parsers[row["repo"]],
                "eval_type": "fail_only" if row["repo"] in FAIL_ONLY_REPOS else "pass_and_fail",
            }
        except KeyError as error:
            answer = {"error": f"no {error} in its tables"}
        answers.write(json.dumps(answer) + "\n")
    answers.flush()
    return 0


def _open_side_door() -> None:
    found = importlib.util.find_spec("swebench")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'swebench'")
    root = Path(next(iter(found.submodule_search_locations)))
    for name, path in (("swebench", root), ("swebench.harness", root / "harness")):
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(path)]
        sys.modules[name] = importlib.util.module_from_spec(spec)
    library = types.ModuleType("datasets")
    for name in ("Dataset", "load_dataset", "load_from_disk"):
        setattr(library, name, None)
    sys.modules["datasets"] = library


def _parsers_as_written(package: Path) -> dict[str, str]:
    """Parser names by repository, as the tables spell them: one function may have several names there."""
    names: dict[str, str] = {}
    for module in sorted(package.glob("*.py")):
        for statement in ast.parse(module.read_bytes()).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=table)], value=ast.Dict(keys=keys, values=values)):
                    if table.startswith("MAP_REPO_TO_PARSER_"):
                        for key, value in zip(keys, values):  # noqa: B905 - `strict` is newer than some Pythons this runs on
                            if isinstance(key, ast.Constant) and isinstance(value, ast.Name):
                                names[str(key.value)] = value.id
    return names


if __name__ == "__main__":
    raise SystemExit(main())
