"""Run the benchmarks that are named, or all of them."""

from __future__ import annotations

import sys

from bench import collection, overhead, throughput, verification

_ALL = {
    "overhead": overhead.measure,
    "verification": verification.measure,
    "throughput": throughput.measure,
    "collection": collection.measure,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in _ALL]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(_ALL)}")
        return 2
    for name in names or list(_ALL):
        print(f"== {name}", flush=True)
        for line in _ALL[name]():
            print(line, flush=True)
    return 0


sys.exit(main(sys.argv[1:]))
