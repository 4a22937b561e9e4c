"""Agents: the port, and one module per agent."""
