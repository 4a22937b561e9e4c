"""Rows from the dataset hub, at pinned revisions; a local folder in the hub's layout serves as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """Where a benchmark's rows come from: a dataset name (or a local folder), a commit of it, a split."""

    dataset: str
    revision: str
    split: str = "test"


# The layout of these revisions is the classic one; `prepare` upgrades the rows.
SOURCES: dict[str, Source] = {
    "swebench:verified": Source("SWE-bench/SWE-bench_Verified", "91aa3ed51b709be6457e12d00300a6a596d4c6a3"),
    "swebench:lite": Source("princeton-nlp/SWE-bench_Lite", "6ec7bb89b9342f664a54a6e0a6ea6501d3437cc2"),
    "swebench:full": Source("princeton-nlp/SWE-bench", "e48e2bd1e9fecd5bbd641e9414ac59da9f2e69f6"),
    "swebench:multilingual": Source(
        "SWE-bench/SWE-bench_Multilingual", "2b7aced941b4873e9cad3e76abbae93f481d1beb"
    ),
}


class DatasetUnavailable(Exception):
    """The dataset cannot be loaded; the message says what else can be done."""


def source_of(benchmark: str, *, dataset: str | None = None, revision: str | None = None) -> Source:
    """Return the pinned source of a benchmark, or the one that the caller prefers.

    Raises: DatasetUnavailable when the benchmark has no dataset on the hub, or when another dataset on
    the hub is named without saying at which revision.
    """
    pinned = SOURCES.get(benchmark)
    if pinned is None:
        raise DatasetUnavailable(f"{benchmark} has no dataset on the hub; next: give --rows FILE")
    if dataset is None:
        return replace(pinned, revision=revision) if revision else pinned
    if revision is None and not Path(dataset).is_dir():
        raise DatasetUnavailable(f"{dataset} has no pinned revision; next: give --revision COMMIT")
    return Source(dataset, revision or "", pinned.split)


def hub_rows(source: Source) -> Iterator[dict[str, object]]:
    """Yield the rows of a source in their order. Raises: DatasetUnavailable."""
    try:
        import datasets
        from datasets.exceptions import DatasetNotFoundError
    except ImportError as error:
        raise DatasetUnavailable(
            f"the hub needs the package datasets ({error}); next: pip install 'swe_pytest[hub]'"
        ) from error
    local = Path(source.dataset).is_dir()
    try:
        loaded = datasets.load_dataset(
            source.dataset, split=source.split, revision=None if local else source.revision
        )
    except (OSError, ValueError, DatasetNotFoundError) as error:
        raise DatasetUnavailable(
            f"{source.dataset} at {source.revision or 'no revision'} cannot be loaded: "
            f"{type(error).__name__}: {error}; next: give --rows FILE with rows from elsewhere"
        ) from error
    for row in loaded:
        yield dict(row)
