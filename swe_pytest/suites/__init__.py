"""What people write: suites, configs, manifests."""
