"""Tasks that need nothing but a Python package registry: a release just before a bug fix is the start.

From two source distributions of a package, *before* and *after* a fix, `prepare_pypi_fixes` makes

- the starting tree: the release before, as a git repository with one commit in a task image;
- the gold patch: what changed between the releases under `source_paths`;
- the held-out test patch: what changed under `test_paths`.

No code of these packages is part of this project; `tasks/` holds only how to make each task.

How to add a task
-----------------
1. Look for a pure Python package whose source distributions hold their tests, and for two releases with a
   fix between them. The tests should take under 2 s and need nothing but the standard library and pytest,
   on the Python of the base image (3.11).
2. Write `tasks/<package>-<version after>.yaml` as the files beside it: both versions with the sha256 of
   their source distributions, `source_paths`, `test_paths`, the test command, a log parser of swebench and
   a `problem_statement` in words of your own: what goes wrong and how it should be, with every name and
   message that the tests ask for, and nothing about how to repair it. Leave both lists of tests empty.
3. Run `python -m swe_pytest.benchmarks.pypi_fixes measure <package>-<version after> --write`. It makes the
   image, runs the tests several times before and after the gold patch, with the names that the parser
   yields, and writes the two lists into the file. Tests that are not the same in each run are left out.
4. Read the lists. Drop from `fail_to_pass` what the statement does not ask for.
5. Run `pytest tests/benchmarks/test_pypi_fixes.py`: gold must resolve, the empty patch must not.
"""

from swe_pytest.benchmarks.pypi_fixes.benchmark import PypiFixes
from swe_pytest.benchmarks.pypi_fixes.preparation import prepare_pypi_fixes

__all__ = ["PypiFixes", "prepare_pypi_fixes"]
