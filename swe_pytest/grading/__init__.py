"""Grading: patch capture and application, the official parsers, verdicts."""
