"""Root of pytest's configuration: tests of the plugin itself run pytest inside pytest."""

pytest_plugins = ["pytester"]
