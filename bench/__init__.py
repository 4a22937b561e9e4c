"""Benchmarks of the harness itself: `make bench`, or `python -m bench [overhead|verification|throughput|collection]`."""
