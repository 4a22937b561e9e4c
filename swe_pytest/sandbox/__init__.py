"""Sandboxes: contracts, the Docker backend, ownership and clean-up."""
