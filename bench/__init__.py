"""The harness measured: `python -m bench [overhead|verification|throughput|collection]`."""
