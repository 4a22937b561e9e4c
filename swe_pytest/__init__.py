"""swe_pytest: software-engineering benchmarks as pytest suites, with rewards that can be believed."""

__version__ = "0.1.0"
