"""Benchmarks: rows become tasks for agents and evaluations for graders."""
